/*
 * gpu_check.c - what only a device shows, against a reference in higher precision: every row of the catalogue
 * by itself at every tail of its tile and with shared tiles, the library's choices for all types, layouts and epilogues, packing, split
 * K, batches, NaN and infinity, streams, graphs, threads, host pointers, refusals, the same bits every time.
 *
 * A plain program, so that it can be carried to where the device is. --reduced runs a few small cases of each
 * kind, for a device that is watched by a sanitizer or played by a stand-in. Prints a line a group, and
 * passed, failed, skipped and left out at the end; exits 1 where something failed.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crew.h"
#include "guarded.h"
#include "rows.h"
#include "shared.h"

static carat_context *context;
static struct device *device;
static struct crew *crew;

static struct {
    bool reduced;
    int threads;
    double deadline;  /* in seconds; 0: none */
    const char *rows; /* only rows with this in their name */
    const char *from; /* not the rows before this one */
    const char *only; /* only groups with this in their name */
    int64_t number;   /* only this trial of each group; -1: all */
    uint64_t seed;
} option = {.number = -1, .seed = 1};

static struct trial_tally total, group;

static int cases(int full, int reduced) { return option.reduced ? reduced : full; }

static void begin_group(void) { memset(&group, 0, sizeof(group)); }

static void end_group(const char *name)
{
    printf("%-28s %5d passed", name, group.passed);
    if (group.failed) {
        printf(", %d FAILED", group.failed);
    }
    if (group.skipped) {
        printf(", %d skipped", group.skipped);
    }
    if (group.left_out) {
        printf(", %d left out for want of time", group.left_out);
    }
    printf("  (%.1f s)\n", crew_seconds());
    fflush(stdout);
    total.passed += group.passed;
    total.failed += group.failed;
    total.skipped += group.skipped;
    total.left_out += group.left_out;
}

__attribute__((format(printf, 1, 2))) static void failed(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    printf("  failed: ");
    vprintf(format, list);
    printf("\n");
    va_end(list);
    group.failed++;
}

/* Counts whether a condition that should hold does. */
static void expect(bool holds, const char *what)
{
    if (holds) {
        group.passed++;
    } else {
        failed("%s (last message: %s)", what, carat_last_message());
    }
}

/* Whether there is time for one more thing. */
static bool time_left(void)
{
    if (option.deadline > 0 && crew_seconds() > option.deadline) {
        group.left_out++;
        return false;
    }
    return true;
}

/* One trial of a group, by its number. */
struct one {
    trial_maker *make;
    void *what;
};

static bool make_one(int64_t index, void *what, struct trial *trial)
{
    const struct one *one = what;
    return one->make(option.number + index, one->what, trial);
}

static struct trial_tally try_all(trial_maker *make, void *what, int64_t count, int runs)
{
    struct one one = {make, what};
    if (option.number >= 0) {
        return crew_try(crew, make_one, &one, option.number < count, runs, option.deadline);
    }
    return crew_try(crew, make, what, count, runs, option.deadline);
}

static void try_group(const char *name, trial_maker *make, void *what, int count, int runs)
{
    if (!option.only || strstr(name, option.only)) {
        begin_group();
        group = try_all(make, what, count, runs);
        end_group(name);
    }
}

/* The random numbers of one trial: the same whichever thread makes it. */
static struct random random_of(int64_t group_number, int64_t index)
{
    struct random random = {option.seed * 1000003 + (uint64_t)group_number * 7919 + (uint64_t)index};
    random_bits(&random);
    return random;
}

/* ---- Rows of the catalogue ---- */

/* A length whose last tile is any part of one, each part in its turn. */
static int64_t tailed(struct random *random, int64_t index, int tile, int most_whole)
{
    int64_t length = tile > 0 ? tile : 32;
    return length * random_between(random, 0, most_whole) + 1 + index % length;
}

/* Blocks that share k have a step each, at least. */
static int64_t least_k(const struct kernel *row)
{
    return (int64_t)row->tile_k * (kernel_k_sharers(row) - 1);
}

static int64_t up_to(int64_t length, int64_t unit) { return (length + unit - 1) / unit * unit; }

/* One attempt at a trial that the row can do; later ones ask for less. */
static struct trial attempt_row(struct random *random, const struct kernel *row, int64_t index, int attempt)
{
    int64_t unit = trial_unit(row);
    struct trial trial = trial_of_row(random, row);
    carat_gemm_problem *p = &trial.problem;
    if (row->widened && index % 6 == 5) { /* not alone */
        trial_widen(random, &trial);
    }
    p->m = tailed(random, index, row->tile_m, cases(2, 1));
    p->n = tailed(random, index * 7, row->tile_n, cases(2, 1));
    p->k = least_k(row) + tailed(random, index * 5, row->tile_k, cases(7, 2));
    if (row->planes + row->splits > 0) { /* from 32 or 96 on, and some where exponents may be far apart */
        p->k += index % 8 == 7 ? 2048 : row->planes == 2 ? 95 : 31;
    }
    if (attempt % 4 == 2) { /* rows for few columns or few rows */
        p->n = 1 + index % 16;
    } else if (attempt % 4 == 3) {
        p->m = 1 + index % 16;
    }
    if (attempt >= 8) {
        p->k = up_to(p->k, unit);
    }
    if (attempt >= 32) {
        p->m = up_to(p->m, unit);
        p->n = up_to(p->n, unit);
    }
    trial_random_placing(random, &trial);
    if (row->epilogue && !random_one_in(random, 4)) {
        trial_random_epilogue(random, &trial);
    }
    if (random_one_in(random, 5)) {
        trial_random_batch(random, 5, &trial);
    }
    if (attempt > 0) {
        trial_align(&trial, unit);
    }
    trial.shift_a = up_to(trial.shift_a, unit);
    trial.shift_b = up_to(trial.shift_b, unit);
    trial.way = WAY_ROW;
    return trial;
}

/* Notes that a row has a way of several parts. */
static void note_parts(void *seen, const struct candidate *candidate)
{
    bool *found = seen;
    *found = *found || (candidate->parts > 1 && !candidate->pack);
}

/* Whether the row can do the trial: alone, or with what brings A and B in order, splits K, finishes sums. */
static bool row_does(const struct trial *trial)
{
    struct problem problem;
    struct plan plan;
    bool found = false;
    if (problem_check(&trial->problem, &problem) != CARAT_OK) {
        return false;
    }
    if (trial->way == WAY_PARTS) {
        plan_visit_row(&device->traits, &problem, trial->row, note_parts, &found);
        return found;
    }
    return trial->way == WAY_ROW ? kernel_multiplies(trial->row, &device->traits, &problem) &&
                                       kernel_finishes(trial->row, &problem)
                                 : plan_choose_row(&device->traits, &problem, trial->row, &plan) == CARAT_OK;
}

static bool make_row(int64_t index, void *what, struct trial *trial)
{
    const struct kernel *row = what;
    struct random random = random_of(row - carat_catalog, index);
    bool alone = index % 3 != 2 && row->planes == 0;
    for (int attempt = 0; attempt < 100; attempt++) {
        *trial = attempt_row(&random, row, index, alone ? attempt : 0);
        if (!alone) {
            trial->way = WAY_ANY;
            trial->shift_a = random_between(&random, 0, 17);
            trial_random_epilogue(&random, trial);
        }
        if (row_does(trial)) {
            return true;
        }
    }
    return false;
}

/* A batch so large that blocks which stay have several tiles each, all of them small: of every problem one. */
#define MANY_PROBLEMS 300

static bool make_many(int64_t index, const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, index);
    int64_t unit = trial_unit(row);
    for (int attempt = 0; attempt < 100; attempt++) {
        *trial = trial_of_row(&random, row);
        carat_gemm_problem *p = &trial->problem;
        p->m = up_to(random_between(&random, 1, 8), unit);
        p->n = up_to(random_between(&random, 1, 8), unit);
        p->k = up_to(least_k(row) + tailed(&random, index * 5, row->tile_k, 4) +
                         (row->planes + row->splits > 0 ? 95 : 0),
                     unit);
        trial_random_placing(&random, trial);
        if (row->epilogue && random_one_in(&random, 2)) {
            trial_random_epilogue(&random, trial);
        }
        trial_batch(trial, MANY_PROBLEMS, 0);
        trial_align(trial, unit);
        trial->shift_a = up_to(trial->shift_a, unit);
        trial->shift_b = up_to(trial->shift_b, unit);
        trial->way = row->planes > 0 ? WAY_ANY : WAY_ROW;
        if (row_does(trial)) {
            return true;
        }
    }
    return false;
}

/* A tile's side, or where something is left then, a unit less. */
static int64_t side_or_less(struct random *random, int64_t side, int64_t unit)
{
    return side > unit ? side - unit * random_between(random, 0, 1) : side;
}

/* As many problems as there are clusters and a few, each of one cluster's tile, the last parts of which may be missing. */
static int64_t fill_tiles(struct random *random, const struct kernel *row, carat_gemm_problem *p,
                          int64_t unit)
{
    p->m = side_or_less(random, row->tile_m * (int64_t)kernel_cluster_m(row), unit);
    p->n = side_or_less(random, row->tile_n * (int64_t)kernel_cluster_n(row), unit);
    p->k = least_k(row) + up_to(tailed(random, 1, row->tile_k, cases(4, 1)), unit);
    return kernel_clusters(row, &device->traits) + random_between(random, 1, 8);
}

/*
 * Plain ones, see trial_make_plain(): of any size, of many problems, of whole tiles, several a cluster, or where tiles may be
 * shared of up to two waves of them and more.
 */
static bool make_plain(int64_t index, const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, -1 - index);
    int64_t unit = trial_unit(row) > 8 ? trial_unit(row) : 8; /* of 16 bytes of D as well */
    int64_t side = row->any_d ? 1 : unit;
    for (int attempt = 0; attempt < 100; attempt++) {
        if (index % 6 == 5 && row->stream) {
            if (!shared_trial(&random, row, &device->traits, option.reduced ? SHARED_LEAST : SHARED_MOST,
                              trial)) {
                return false;
            }
        } else {
            *trial = attempt_row(&random, row, index, 32);
        }
        carat_gemm_problem *p = &trial->problem;
        trial_plain_types(trial);
        int64_t batch = 1;
        if (index % 3 == 1) {
            p->m = random_between(&random, 1, 8);
            p->n = random_between(&random, 1, 8);
            batch = MANY_PROBLEMS;
        } else if (index % 6 == 2) {
            batch = fill_tiles(&random, row, p, side);
        }
        p->m = up_to(p->m, side);
        p->n = up_to(p->n, side);
        trial_random_placing(&random, trial);
        trial_make_plain(trial, row->any_d);
        trial_batch(trial, batch, 0);
        trial_align(trial, unit);
        trial->way = WAY_ROW;
        if (row_does(trial)) {
            return true;
        }
    }
    return false;
}

/* The same with a factor, bias and an activation, as the image that finishes sums knows them. */
static bool make_finished(int64_t index, const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, -300 - index);
    if (!make_plain(index, row, trial)) {
        return false;
    }
    carat_gemm_problem *p = &trial->problem;
    trial_random_epilogue(&random, trial);
    p->stride_bias = p->bias == CARAT_BIAS_PER_ROW ? p->m : p->bias == CARAT_BIAS_PER_COLUMN ? p->n : 0;
    bool is_plain = p->bias == CARAT_BIAS_NONE && p->activation == CARAT_ACTIVATION_NONE;
    double factor = carat_scalar_type(p->type_cd) == CARAT_S32 ? -3 : -1.25;
    trial->alpha = is_plain || random_one_in(&random, 2) ? factor : 1;
    if (trial->scales != SCALES_NONE) {
        trial->scales = index % 2 == 0 ? SCALES_INPUTS_DEVICE : SCALES_HOST;
        trial->scale_d = 1;
    }
    return row_does(trial);
}

/* Of a K in several parts, with all that is asked of a product: a row sums the parts, and another kernel finishes them. */
static bool make_parts(int64_t index, const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, -500 - index);
    int64_t unit = trial_unit(row);
    for (int attempt = 0; attempt < 100; attempt++) {
        *trial = attempt_row(&random, row, index, 32);
        carat_gemm_problem *p = &trial->problem;
        p->m = up_to(p->m, unit);
        p->n = up_to(p->n, unit);
        p->k = up_to(tailed(&random, index * 5, row->tile_k, cases(12, 3)) + row->tile_k, unit);
        int64_t batch = index % 5 == 1 ? 3 : 1;
        if (index % 4 == 0) { /* several tiles for each cluster */
            batch = fill_tiles(&random, row, p, unit);
            p->k = up_to(row->tile_k * random_between(&random, 2, 3) - 1, unit);
        }
        trial_random_placing(&random, trial);
        trial_random_epilogue(&random, trial);
        trial_batch(trial, batch, 0);
        trial_align(trial, unit);
        trial->shift_a = up_to(trial->shift_a, unit);
        trial->shift_b = up_to(trial->shift_b, unit);
        trial->way = WAY_PARTS;
        if (row_does(trial)) {
            return true;
        }
    }
    return false;
}

/* Rungs of the ladder take column-major matrices without a transpose, one problem. */
static bool make_rung(int64_t index, void *what, struct trial *trial)
{
    const struct kernel *row = what;
    struct random random = random_of(row - carat_catalog, index);
    int64_t unit = trial_unit(row);
    *trial = trial_of_row(&random, row);
    carat_gemm_problem *p = &trial->problem;
    p->m = up_to(tailed(&random, index, row->tile_m, cases(2, 1)), unit);
    p->n = up_to(tailed(&random, index * 7, row->tile_n, cases(2, 1)), unit);
    p->k = up_to(tailed(&random, index * 5, row->tile_k, cases(7, 2)), unit);
    trial_random_placing(&random, trial);
    trial_layout(trial, CARAT_COLUMN_MAJOR, 0, unit * random_between(&random, 0, 2));
    trial->shift_a = trial->shift_b = 0;
    trial->way = WAY_ROW;
    return true;
}

/*
 * Trials of a row: so many of any kind, then, where its blocks stay for several tiles, some of many problems, where it has an
 * image for plain products, one that finishes or one for parts of K some of those, and where its clusters may share tiles, some
 * where they do, of the first of which nothing is read.
 */
struct of_row {
    const struct kernel *row;
    int64_t any;
    int64_t many;
    int64_t plain;
    int64_t finished;
    int64_t parts;
};

static bool make_of_row(int64_t index, void *what, struct trial *trial)
{
    const struct of_row *of = what;
    if (index < of->any) {
        trial_maker *make = of->row->operation == OPERATION_LADDER ? make_rung : make_row;
        return make(index, (void *)(uintptr_t)of->row, trial);
    }
    if (index < of->any + of->many) {
        return make_many(index, of->row, trial);
    }
    if (index < of->any + of->many + of->plain) {
        return make_plain(index, of->row, trial);
    }
    if (index < of->any + of->many + of->plain + of->finished) {
        return make_finished(index, of->row, trial);
    }
    if (index < of->any + of->many + of->plain + of->finished + of->parts) {
        return make_parts(index, of->row, trial);
    }
    struct random random = random_of(of->row - carat_catalog, index);
    bool reads_nothing = index == of->any + of->many + of->plain + of->finished + of->parts;
    if (!shared_trial(&random, of->row, &device->traits,
                      option.reduced || reads_nothing ? SHARED_LEAST : SHARED_MOST, trial)) {
        return false;
    }
    if (reads_nothing) {
        trial->alpha = 0; /* few tiles: then clusters to which none falls meet and leave all the same */
    }
    return true;
}

/* Of each kind of trials that a row should have there must be one: else that kind would pass unseen. */
static void expect_trials(const struct of_row *of, int64_t begin, int64_t count, const char *kind)
{
    struct trial trial;
    for (int64_t index = begin; index < begin + count; index++) {
        if (make_of_row(index, (void *)(uintptr_t)of, &trial)) {
            return;
        }
    }
    if (count > 0) {
        failed("%s: no trial was to be had %s: %s", of->row->name, kind, carat_last_message());
    }
}

/* Places a trial, runs it, and has a look at D: keeps it, or sees that it has the bits of what was kept. */
static bool run_once(struct lane *lane, const struct trial *trial, bool look(struct lane *, char *, size_t))
{
    char why[1200] = "";
    bool same = lane_place(lane, trial) == CARAT_OK && lane_run(lane, lane_stream(lane)) == CARAT_OK &&
                look(lane, why, sizeof(why));
    if (!same) {
        printf("  %s %lld x %lld x %lld: %s\n", trial->row ? trial->row->name : "the library's choice",
               (long long)trial->problem.m, (long long)trial->problem.n, (long long)trial->problem.k,
               why[0] ? why : carat_last_message());
    }
    return same;
}

/*
 * Products have the same bits where the host does not know alpha, and so launches the whole image or the row that stands in. Where
 * blocks share k none stands in that does: then the image gives the same bits twice, and the other row's are as near the reference.
 * The first ones load the image in question, which nobody has before; of plain and finished ones they have several tiles a cluster.
 */
static void check_image(const struct kernel *row, enum kernel_image image,
                        bool make(int64_t, const struct kernel *, struct trial *))
{
    struct lane *lane = crew_lane(crew, 0);
    for (int64_t index = 2; index >= 0; index--) {
        struct trial trial;
        if (!make(index, row, &trial)) {
            continue; /* expect_trials() has said so where it has none at all */
        }
        crew_watch(crew, 0, &trial);
        if (kernel_lacks_whole(row) && trial.way == WAY_ROW) {
            trial.way = WAY_WHOLE; /* whose plan has the row that stands in */
        }
        if (image == IMAGE_SUMS && (trial.alpha == 0 || trial.scalars_on_device)) {
            trial.alpha = 1;
            trial.scalars_on_device = false;
        }
        bool same = run_once(lane, &trial, lane_keep);
        expect(cuda_kernel_is_loaded(device, row, image), "the image has been launched");
        bool shares_k = kernel_k_sharers(row) > 1;
        same = same && (!shares_k || run_once(lane, &trial, lane_same));
        trial.scalars_on_device = true;
        same = same && run_once(lane, &trial, shares_k ? lane_compare : lane_same);
        crew_watch(crew, 0, NULL);
        expect(same, "both images of a row, or the row that stands in, give the same bits, or are as near");
    }
}

static void check_images(const struct kernel *row)
{
    if (row->plain_image) {
        check_image(row, IMAGE_PLAIN, make_plain);
    }
    if (row->finish_image) {
        check_image(row, IMAGE_FINISHING, make_finished);
    }
    if (row->sums_image) {
        check_image(row, IMAGE_SUMS, make_parts);
    }
    expect(kernel_lacks_whole(row) || cuda_kernel_is_loaded(device, row, IMAGE_WHOLE),
           "the whole image has been launched");
}

/*
 * Clusters that keep pace give the same bits as those that do not, from either image. Two waves of tiles and more, as problems
 * that share A and B, of as many steps as a cluster looks three times or more at where the others are.
 */
static bool make_paced(const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, -100);
    int64_t unit = trial_unit(row) > 8 ? trial_unit(row) : 8;
    for (int attempt = 0; attempt < 100; attempt++) {
        *trial = trial_of_row(&random, row);
        trial_plain_types(trial);
        carat_gemm_problem *p = &trial->problem;
        p->m = row->tile_m * (int64_t)kernel_cluster_m(row);
        p->n = row->tile_n * (int64_t)kernel_cluster_n(row);
        p->k = up_to(row->tile_k * random_between(&random, 100, 130), unit);
        trial_random_placing(&random, trial);
        trial_make_plain(trial, row->any_d);
        trial_batch(trial, 2 * kernel_clusters(row, &device->traits) + random_between(&random, 1, 8), 0);
        p->stride_a = 0;
        p->stride_b = 0;
        trial_align(trial, unit);
        trial->way = WAY_ROW;
        if (row_does(trial)) {
            return true;
        }
    }
    return false;
}

static void check_pace(const struct kernel *row)
{
    struct lane *lane = crew_lane(crew, 0);
    struct trial trial;
    if (!make_paced(row, &trial)) {
        expect(false, "a row whose clusters keep pace has a product for it");
        return;
    }
    if (kernel_lacks_whole(row)) {
        trial.way = WAY_WHOLE;
    }
    crew_watch(crew, 0, &trial);
    bool same = run_once(lane, &trial, lane_keep);
    int64_t cache = cuda_pretend_cache(device, 0);
    for (int whole = 0; whole < 2; whole++) {
        trial.scalars_on_device = whole;
        same = same && run_once(lane, &trial, lane_same);
    }
    cuda_pretend_cache(device, cache);
    crew_watch(crew, 0, NULL);
    expect(same, "clusters that keep pace give the same bits");
}

/*
 * Clusters that keep pace where a few tiles are refused: of those comes one step, after which a cluster is further on than the
 * others count on.
 */
static bool make_refused(int64_t index, const struct kernel *row, struct trial *trial)
{
    struct random random = random_of(row - carat_catalog, -200 - index);
    int64_t clusters = kernel_clusters(row, &device->traits);
    for (int attempt = 0; attempt < 64; attempt++) {
        struct problem problem;
        struct candidate way;
        *trial = trial_of_row(&random, row);
        carat_gemm_problem *p = &trial->problem;
        int64_t tiles = 2 * clusters + random_between(&random, 1, clusters / 2);
        int64_t side = random_between(&random, 4, 12);
        p->m = side * row->tile_m * kernel_cluster_m(row);
        p->n = ceiling(tiles, side) * row->tile_n * kernel_cluster_n(row);
        p->k = row->tile_k * random_between(&random, 33, 125);
        trial_random_placing(&random, trial);
        trial_layout(trial, CARAT_COLUMN_MAJOR, attempt % 4, 0);
        trial->range = RANGE_FEW_TINY;
        trial->own_c = true;
        trial->own_workspace = true;
        trial->way = WAY_WHOLE;
        if (problem_check(p, &problem) == CARAT_OK && whole_way(&device->traits, &problem, row, &way)) {
            return true;
        }
    }
    return false;
}

static void check_pace_of_refused(const struct kernel *row)
{
    struct lane *lane = crew_lane(crew, 0);
    for (int64_t index = 0; index < cases(16, 4); index++) {
        struct trial trial;
        if (!make_refused(index, row, &trial)) {
            expect(false, "a row of planes has a product of which some tiles are refused");
            return;
        }
        crew_watch(crew, 0, &trial);
        bool same = run_once(lane, &trial, lane_keep);
        int64_t cache = cuda_pretend_cache(device, 0);
        same = same && run_once(lane, &trial, lane_same);
        cuda_pretend_cache(device, cache);
        crew_watch(crew, 0, NULL);
        expect(same, "clusters that keep pace give the same bits where tiles are refused");
    }
}

static void check_row(const struct kernel *row)
{
    bool rung = row->operation == OPERATION_LADDER;
    begin_group();
    if (cuda_kernel_check(device, row) != CARAT_OK) {
        printf("%-28s skipped: %s\n", row->name, carat_last_message());
        total.skipped++;
        return;
    }
    int tail = row->tile_m > row->tile_n ? row->tile_m : row->tile_n;
    int count = tail < 64 ? 64 : tail > 256 ? 256 : tail;
    if (option.reduced || rung) {
        count = cases(48, 3);
    }
    bool stays = !rung && (row->tensor_maps || row->consumers > 0);
    struct of_row of = {
        .row = row,
        .any = count,
        .many = stays ? cases(6, 1) : 0,
        .plain = row->plain_image || row->finish_image ? cases(24, 3) : 0,
        .finished = row->finish_image ? cases(48, 6) : 0,
    };
    if (kernel_lacks_whole(row)) {
        of = (struct of_row){
            .row = row,
            .plain = cases(64, 6),
            .finished = row->finish_image ? cases(96, 8) : 0,
            .parts = row->sums_image ? cases(48, 6) : 0,
        };
    }
    int64_t whole = of.any + of.many + of.plain + of.finished + of.parts;
    int64_t shared = row->stream ? cases(9, 2) : 0;
    expect_trials(&of, 0, of.any, "that it does");
    expect_trials(&of, of.any, of.many, "of many problems");
    expect_trials(&of, of.any + of.many, of.plain, "that is plain");
    expect_trials(&of, whole - of.parts - of.finished, of.finished, "that is finished");
    expect_trials(&of, whole - of.parts, of.parts, "of several parts");
    expect_trials(&of, whole, shared > 0 ? 1 : 0,
                  "of which nothing is read, and whose tiles its clusters would share");
    expect_trials(&of, whole + 1, shared - 1, "whose tiles its clusters share");
    if ((row->plain_image || row->finish_image) && option.number < 0 && time_left()) {
        check_images(row);
    }
    if (kernel_keeps_pace(row) && option.number < 0 && time_left()) {
        if (row->planes == 0) {
            check_pace(row);
        } else { /* one that does not multiply alone */
            check_pace_of_refused(row);
        }
    }
    struct trial_tally before = group;
    int64_t cache = cuda_pretend_cache(device, 0); /* then clusters of small products keep pace too */
    group = try_all(make_of_row, &of, whole + shared, cases(2, 1));
    cuda_pretend_cache(device, cache);
    group.passed += before.passed;
    group.failed += before.failed;
    group.left_out += before.left_out;
    end_group(row->name);
}

static void check_rows(void)
{
    const struct kernel *from = option.from ? catalog_find(option.from) : carat_catalog;
    for (const struct kernel *row = from; row < carat_catalog + carat_catalog_count; row++) {
        /* A row that rescues multiplies nothing by itself: those with planes bring it along. */
        bool multiplies = row->operation == OPERATION_GEMM || row->operation == OPERATION_LADDER;
        if (multiplies && !row->rescues && (!option.rows || strstr(row->name, option.rows))) {
            check_row(row);
        }
    }
}

/* ---- The library's own choice ---- */

enum group_number {
    GROUP_COMBINATIONS = 100000, /* past the rows */
    GROUP_RANDOM,
    GROUP_EDGES,
    GROUP_PACKED,
    GROUP_ANY_WAY,
    GROUP_PANELS,
    GROUP_DEEP,
    GROUP_BATCHES,
    GROUP_SPECIAL,
    GROUP_NOTHING,
    GROUP_THIN,
    GROUP_LARGE,
    GROUP_HOST,
    GROUP_BITS,
    GROUP_STREAMS,
    GROUP_GRAPHS,
    GROUP_RANGES
};

static const struct trial_limits small = {150, 5, 1e6, 40000};
static const struct trial_limits medium = {700, 9, 2e8, 2000000};

static struct trial random_trial(struct random *random)
{
    return trial_random(random, option.reduced ? &small : &medium);
}

/* Gives a trial another shape, and a layout and leading dimensions for it. */
static void reshape(struct random *random, struct trial *trial, int64_t m, int64_t n, int64_t k)
{
    trial->problem.m = m;
    trial->problem.n = n;
    trial->problem.k = k;
    trial->problem.batch = 1;
    trial_random_placing(random, trial);
}

enum { LAYOUTS = 8, ACTIVATIONS = 5, BIASES = 3 };

/* Every set of types in every layout with every activation and bias. */
static bool make_combination(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_COMBINATIONS, index);
    int64_t number = option.reduced ? index * 7919 : index;
    const struct trial_types *types = &trial_types[number % trial_type_count];
    number /= trial_type_count;
    int64_t most = option.reduced ? 70 : 200;
    *trial = trial_of(types->a, types->b, types->cd, 1, 1, 1);
    carat_gemm_problem *p = &trial->problem;
    p->accuracy = types->accuracy;
    reshape(&random, trial, random_between(&random, 1, most), random_between(&random, 1, most),
            random_between(&random, 1, most));
    trial_random_epilogue(&random, trial);
    trial_layout(trial, (carat_order)(number % 2), (int)(number / 2 % 4), random_between(&random, 0, 17));
    number /= LAYOUTS;
    p->bias = (carat_bias)(number % BIASES);
    p->activation = (carat_activation)(number / BIASES % ACTIVATIONS);
    if (carat_scalar_type(p->type_cd) == CARAT_S32 && p->activation > CARAT_ACTIVATION_RELU) {
        p->activation = CARAT_ACTIVATION_RELU;
    }
    return true;
}

static bool make_random(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_RANDOM, index);
    *trial = random_trial(&random);
    return true;
}

/* Whole tiles, one less and one more. */
static bool make_edges(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_EDGES, index);
    static const int64_t tiles[] = {64, 128, 192, 256, 320, 384, 512, 640};
    int most = cases(7, 1);
    int64_t sides[3];
    for (int i = 0; i < 3; i++) {
        sides[i] = tiles[random_between(&random, 0, most)] + random_between(&random, -1, 1);
    }
    *trial = random_trial(&random);
    reshape(&random, trial, sides[0], sides[1], sides[2]);
    return true;
}

/* Few tiles and a long K: the library splits it. */
static bool make_deep(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_DEEP, index);
    *trial = random_trial(&random);
    int64_t most = cases(300, 40);
    int64_t k = random_between(&random, cases(2000, 500), cases(16000, 1500));
    if (!option.reduced && index % 50 == 0) {
        most = 64;
        k = 262144;
    }
    reshape(&random, trial, random_between(&random, 1, most), random_between(&random, 1, most), k);
    return true;
}

static bool make_packed(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_PACKED, index);
    *trial = random_trial(&random);
    trial->way = WAY_PACKED;
    return true;
}

static bool make_any_way(int64_t index, void *what, struct trial *trial)
{
    struct random random = random_of(GROUP_ANY_WAY, index);
    if (index % 4 == 3) {
        make_deep(index, what, trial);
    } else {
        *trial = random_trial(&random);
    }
    trial->way = WAY_ANY;
    return true;
}

static bool make_batch(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_BATCHES, index);
    *trial = random_trial(&random);
    bool many = !option.reduced && index % 20 == 0;
    int64_t most = many ? 32 : cases(150, 40);
    reshape(&random, trial, random_between(&random, 1, most), random_between(&random, 1, most),
            random_between(&random, 1, most));
    trial_random_batch(&random, many ? 5000 : cases(20, 4), trial);
    return true;
}

static bool make_special(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_SPECIAL, index);
    *trial = random_trial(&random);
    trial->special = true;
    if (trial->alpha == 0) {
        trial->alpha = 1;
    }
    return true;
}

/* A row of the device's that multiplies bf16 parts, of all of them in turn; NULL: it has none. */
static const struct kernel *row_of_parts(int64_t index)
{
    int64_t count = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < carat_catalog_count; i++) {
            const struct kernel *row = &carat_catalog[i];
            if (row->planes + row->splits > 0 && kernel_runs_on(row, &device->traits) &&
                (round == 0 ? count++ < 0 : index-- == 0)) {
                return row;
            }
        }
        index = count > 0 ? index % count : -1;
    }
    return NULL;
}

/* f32 of every range in turn, of the library's choice and, in one of two, of bf16 parts. */
static bool make_range(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_RANGES, index);
    const struct kernel *row = index % 2 ? row_of_parts(index / 2) : NULL;
    *trial = trial_of(CARAT_F32, CARAT_F32, CARAT_F32, 1, 1, 1);
    trial->problem.accuracy = index % 16 == 8                                 ? CARAT_ACCURACY_STRICT
                              : index % 16 == 4                               ? CARAT_ACCURACY_BEST
                              : index % 16 == 12 || (row && row->planes == 2) ? CARAT_ACCURACY_CLOSE
                                                                              : CARAT_ACCURACY_STANDARD;
    int64_t least_k = trial->problem.accuracy == CARAT_ACCURACY_CLOSE ? 96 : 32;
    trial->range = RANGE_ONE;
    for (int attempt = 0; attempt < 100; attempt++) {
        int64_t most = cases(500, 90);
        int64_t k = random_one_in(&random, 2) ? random_between(&random, 1000, 1100)
                                              : random_between(&random, least_k, cases(900, 120));
        reshape(&random, trial, random_between(&random, 1, most), random_between(&random, 1, most), k);
        trial->range = (enum range)(1 + index / 2 % (RANGES - 1));
        trial->special = trial->range != RANGE_HUGE && random_one_in(&random, 8);
        trial->alpha = fabs(trial->alpha) < 1 ? 1 : trial->alpha;
        if (random_one_in(&random, 5)) {
            trial_random_batch(&random, 3, trial);
        }
        trial->row = row;
        trial->way = row ? WAY_ANY : WAY_LIBRARY;
        if (!row || row_does(trial)) {
            return true;
        }
    }
    return false;
}

/* Whether the device multiplies planes. */
static bool has_planes(void)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        if (carat_catalog[i].planes > 0 && kernel_runs_on(&carat_catalog[i], &device->traits)) {
            return true;
        }
    }
    return false;
}

/* Planes in panels, as they would not fit the workspace. */
static bool make_panels(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_PANELS, index);
    *trial = trial_of(CARAT_F32, CARAT_F32, CARAT_F32, 1, 1, 1);
    for (int attempt = 0; attempt < 100; attempt++) {
        int64_t m = random_between(&random, index % 3 == 0 ? 1600 : 100, 4000);
        int64_t n = random_between(&random, 1600, 5000);
        int64_t k = index % 8 == 7 ? 2048 : random_between(&random, 32, 100);
        struct problem problem;
        struct plan plan;
        reshape(&random, trial, m, n, k);
        if (random_one_in(&random, 2)) {
            trial_random_epilogue(&random, trial);
        }
        trial->range = random_one_in(&random, 3) ? (enum range)(1 + index % (RANGES - 1)) : RANGE_ONE;
        trial->row = row_of_parts(index + attempt);
        trial->way = WAY_ANY;
        trial->most_workspace = (index % 3 == 0 ? m + n : 2 * m + n) * (k + 64) * 6 / 2;
        if (!trial->row || problem_check(&trial->problem, &problem) != CARAT_OK) {
            return false;
        }
        problem.most_workspace = trial->most_workspace;
        if (plan_choose_row(&device->traits, &problem, trial->row, &plan) == CARAT_OK &&
            plan_has_panels(&plan)) {
            return true;
        }
    }
    return false;
}

/* No products at all: alpha or a dimension is 0; A and B hold NaN and are not read. */
static bool make_nothing(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_NOTHING, index);
    *trial = random_trial(&random);
    const carat_gemm_problem *p = &trial->problem;
    int which = (int)(index % 8);
    if (which < 5) {
        trial->alpha = 0;
    } else {
        int64_t none = which == 5 ? 0 : random_between(&random, 1, 50);
        int64_t more = random_between(&random, 1, 50);
        reshape(&random, trial, which == 6 ? 0 : p->m, which == 7 ? 0 : more, none);
    }
    return true;
}

/* One to sixteen columns or rows. */
static bool make_thin(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_THIN, index);
    *trial = random_trial(&random);
    int64_t few = 1 + index % 17;
    int64_t many = random_between(&random, 1, cases(3000, 150));
    int64_t k = random_between(&random, 1, cases(3000, 150));
    bool columns = random_one_in(&random, 2);
    reshape(&random, trial, columns ? many : few, columns ? few : many, k);
    return true;
}

static bool make_large(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_LARGE, index);
    *trial = random_trial(&random);
    if (index % 8 == 0) { /* a layer of a language model on few tokens */
        reshape(&random, trial, 8192, random_between(&random, 1, 64), random_between(&random, 3000, 5000));
    } else {
        reshape(&random, trial, random_between(&random, 1000, 3000), random_between(&random, 1000, 3000),
                random_between(&random, 500, 2000));
    }
    return true;
}

static bool make_host(int64_t index, void *what, struct trial *trial)
{
    (void)what;
    struct random random = random_of(GROUP_HOST, index);
    *trial = random_trial(&random);
    if (!option.reduced && index % 40 == 0) { /* several slots of staging, and several blocks of D */
        reshape(&random, trial, random_between(&random, 3000, 5000), random_between(&random, 3000, 6000),
                random_between(&random, 2000, 3000));
    }
    trial->place = index % 2 ? PLACE_PINNED : PLACE_PAGEABLE;
    return true;
}

/* Of all kinds that there are. */
static bool make_any(int64_t index, void *what, struct trial *trial)
{
    static trial_maker *const makers[] = {make_random, make_deep,    make_packed,
                                          make_batch,  make_any_way, make_thin};
    return makers[index % 6](GROUP_BITS + index, what, trial);
}

static void check_products(void)
{
    int combinations = trial_type_count * LAYOUTS * BIASES * ACTIVATIONS;
    try_group("types, layouts, epilogues", make_combination, NULL, cases(combinations, 96), 1);
    try_group("random products", make_random, NULL, cases(2500, 60), 1);
    try_group("whole tiles and their edges", make_edges, NULL, cases(800, 20), 1);
    try_group("A and B packed", make_packed, NULL, cases(600, 30), 1);
    try_group("every way there is", make_any_way, NULL, cases(2000, 60), 1);
    try_group("split K", make_deep, NULL, cases(300, 30), 1);
    try_group("one to seventeen columns", make_thin, NULL, cases(500, 20), 1);
    try_group("batches", make_batch, NULL, cases(600, 30), 1);
    try_group("NaN and infinity", make_special, NULL, cases(600, 30), 1);
    try_group("f32 of every range", make_range, NULL, cases(600, 40), 1);
    if (has_planes() && !option.reduced) {
        try_group("planes in panels", make_panels, NULL, 96, 1);
    }
    try_group("nothing to multiply", make_nothing, NULL, cases(200, 16), 1);
    try_group("host pointers", make_host, NULL, cases(240, 20), 1);
    try_group("the same bits, ten runs", make_any, NULL, cases(300, 10), 10);
    if (!option.reduced) {
        try_group("large", make_large, NULL, 64, 1);
    }
}

/* ---- Streams and graphs ---- */

/* A trial that may run again and again: it does not read what it writes. */
static struct trial repeatable(int64_t group_number, int64_t index)
{
    struct random random = random_of(group_number, index);
    struct trial trial;
    do {
        make_any(group_number + (int64_t)(random_bits(&random) >> 40), NULL, &trial);
    } while (trial.way != WAY_LIBRARY);
    trial.own_c = true;
    trial.problem.stride_c = trial.problem.stride_d;
    trial.problem.ldc = trial.problem.ldd;
    return trial;
}

static void expect_right(struct lane *lane, const char *what, const struct trial *trial)
{
    char text[800];
    char why[1200];
    if (lane_compare(lane, why, sizeof(why))) {
        group.passed++;
    } else {
        trial_describe(trial, text, sizeof(text));
        failed("%s: %s: %s", what, text, why);
    }
}

/* Products put on several streams by one thread, none waited for until all are. */
static void check_streams(void)
{
    enum { STREAMS = 4 };
    struct lane *lanes[STREAMS];
    struct trial trials[STREAMS];
    begin_group();
    for (int i = 0; i < STREAMS; i++) {
        trials[i] = repeatable(GROUP_STREAMS, i);
        lanes[i] = lane_create(context);
        if (!lanes[i]) {
            failed("a stream: %s", carat_last_message());
            return;
        }
        expect(lane_place(lanes[i], &trials[i]) == CARAT_OK, "matrices are made");
    }
    bool ran = true;
    crew_watch(crew, 0, &trials[0]);
    for (int round = 0; round < cases(20, 2); round++) {
        for (int i = 0; i < STREAMS; i++) {
            ran = ran && lane_run(lanes[i], lane_stream(lanes[i])) == CARAT_OK;
        }
    }
    expect(ran, "products go on streams");
    for (int i = 0; i < STREAMS; i++) {
        expect_right(lanes[i], "on a stream of several", &trials[i]);
        lane_destroy(lanes[i]);
    }
    crew_watch(crew, 0, NULL);
    end_group("streams");
}

static void check_graph(struct lane *lane, const struct trial *trial)
{
    void *stream = lane_stream(lane);
    void *graph = NULL;
    crew_watch(crew, 0, trial);
    expect(lane_place(lane, trial) == CARAT_OK, "matrices are made");
    expect(lane_run(lane, stream) == CARAT_OK, "one call goes before the capture");
    expect(carat_synchronize(context, stream) == CARAT_OK, "the stream is idle");
    expect(cuda_capture_begin(device, stream) == CARAT_OK, "a capture begins");
    expect(lane_run(lane, stream) == CARAT_OK, "a call is captured");
    expect(cuda_capture_end(device, stream, &graph) == CARAT_OK && graph, "a graph comes of it");
    /* D is poisoned again, so that only the replay can have written it. */
    expect(lane_restore(lane) == CARAT_OK, "D is poisoned");
    for (int i = 0; i < 3 && graph; i++) {
        expect(cuda_graph_launch(device, graph, stream) == CARAT_OK, "a replay starts");
    }
    expect_right(lane, "replayed", trial);
    cuda_graph_destroy(device, graph);
    crew_watch(crew, 0, NULL);
}

static void check_graphs(void)
{
    begin_group();
    struct lane *lane = lane_create(context);
    if (!lane) {
        failed("a stream: %s", carat_last_message());
        return;
    }
    for (int i = 0; i < cases(60, 8); i++) {
        if (time_left()) {
            struct trial trial = repeatable(GROUP_GRAPHS, i);
            check_graph(lane, &trial);
        }
    }
    lane_destroy(lane);
    end_group("graphs");
}

/* ---- What close accuracy leaves to its safe path ---- */

/* What becomes of A's first row. */
static void keep(float *a, int64_t side)
{
    (void)a;
    (void)side;
}

static void make_one_far(float *a, int64_t side)
{
    (void)side;
    a[0] = 0x1p30F;
}

static void make_one_nan(float *a, int64_t side)
{
    (void)side;
    a[0] = NAN;
}

/* Nothing but zeros in its first block, and in others what is far below their other rows. */
static void make_thin_behind_zeros(float *a, int64_t side)
{
    for (int64_t l = 0; l < side; l++) {
        a[l * side] *= l < 64 ? 0 : 0x1p-30F;
    }
}

/* Elements of D that a product on device memory has left: of matrices of numbers near each other, but for A's first row. */
static uint64_t count_left(carat_plan *plan, float *device_memory, int64_t side,
                           void (*change)(float *a, int64_t side))
{
    const float alpha = 1;
    const float beta = 0;
    uint64_t before = 0;
    uint64_t after = 0;
    size_t count = (size_t)(side * side);
    float *a = malloc(count * sizeof(float));
    struct random random = {12};
    for (size_t i = 0; a && i < count; i++) {
        a[i] = (float)random_unit(&random);
    }
    if (a) {
        expect(carat_copy(context, device_memory + count, a, count * sizeof(float), NULL) == CARAT_OK &&
                   carat_synchronize(context, NULL) == CARAT_OK,
               "B is copied");
        change(a, side);
        expect(carat_copy(context, device_memory, a, count * sizeof(float), NULL) == CARAT_OK, "A is copied");
    }
    expect(carat_count_safe(context, &before) == CARAT_OK, "the count is read");
    expect(carat_plan_run(plan, &alpha, device_memory, device_memory + count, &beta, NULL,
                          device_memory + 2 * count, NULL) == CARAT_OK &&
               carat_synchronize(context, NULL) == CARAT_OK,
           "the product is run");
    expect(carat_count_safe(context, &after) == CARAT_OK, "the count is read again");
    free(a);
    return after - before;
}

/* A plan of close accuracy for a square product; NULL: none was to be had, and that was counted. */
static carat_plan *plan_close(int64_t side)
{
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, side, side, side);
    carat_plan *plan = NULL;
    problem.accuracy = CARAT_ACCURACY_CLOSE;
    if (carat_plan_create(context, &problem, &plan) != CARAT_OK) {
        failed("a plan of close accuracy: %s", carat_last_message());
    }
    return plan;
}

/* Nothing of what f16 holds; of a number that it does not hold the rows of one tile, of NaN, and of a row that it does not. */
static void check_count_of(carat_plan *plan, int64_t side, bool in_parts)
{
    float *memory = NULL;
    if (carat_allocate(context, CARAT_MEMORY_DEVICE, (size_t)(3 * side * side) * sizeof(float),
                       (void **)&memory) != CARAT_OK) {
        failed("memory for a product of close accuracy: %s", carat_last_message());
        return;
    }
    uint64_t row = (uint64_t)side;
    expect(count_left(plan, memory, side, keep) == 0, "nothing is left");
    uint64_t far = count_left(plan, memory, side, make_one_far);
    uint64_t nan = count_left(plan, memory, side, make_one_nan);
    uint64_t thin = count_left(plan, memory, side, make_thin_behind_zeros);
    expect(in_parts ? far >= row && far <= 192 * row : far == 0, "a tile's rows are left");
    expect(far == nan, "those of NaN are left");
    expect(far == thin, "those of a row that is thin behind zeros are left");
    carat_release(context, memory);
}

/* Every other strip of so many rows, which are whole tiles of any height, has exponents far apart. */
enum { STRIP = 384, FAR_SAMPLES = 2000 };

static void make_strips_far(float *a, int64_t side, struct random *random)
{
    for (int64_t l = 0; l < side; l++) {
        for (int64_t i = 0; i < side; i++) {
            int exponent = (int)random_between(random, -20, 20);
            a[l * side + i] *= i / STRIP % 2 ? ldexpf(1, exponent) : 1;
        }
    }
}

/* How many of some elements of D are further from exact sums than a chain of f32 operations may be. */
static int count_far_off(const float *a, const float *b, const float *d, int64_t side, struct random *random)
{
    int count = 0;
    for (int sample = 0; sample < FAR_SAMPLES; sample++) {
        int64_t i = random_between(random, 0, side - 1);
        int64_t j = random_between(random, 0, side - 1);
        double sum = 0;
        double size = 0;
        for (int64_t l = 0; l < side; l++) {
            double product = (double)a[l * side + i] * (double)b[j * side + l];
            sum += product;
            size += fabs(product);
        }
        count += !(fabs(d[j * side + i] - sum) <= (double)side * 0x1p-24 * size);
    }
    return count;
}

/* Products of which half is left to the rows behind, which share tiles where the plan's own does. */
static void check_values_of(carat_plan *plan, int64_t side)
{
    const float alpha = 1;
    const float beta = 0;
    size_t count = (size_t)(side * side);
    struct random random = {13};
    float *device_memory = NULL;
    float *a = malloc(3 * count * sizeof(float));
    if (!a || carat_allocate(context, CARAT_MEMORY_DEVICE, 3 * count * sizeof(float),
                             (void **)&device_memory) != CARAT_OK) {
        failed("memory for a product of close accuracy: %s", carat_last_message());
        free(a);
        return;
    }
    float *b = a + count;
    float *d = b + count;
    uint64_t before = 0;
    uint64_t after = 0;
    for (size_t i = 0; i < 2 * count; i++) {
        a[i] = (float)random_unit(&random);
        a[i] = a[i] < 0.5F ? a[i] : -a[i];
    }
    make_strips_far(a, side, &random);
    expect(carat_count_safe(context, &before) == CARAT_OK, "the count is read");
    expect(carat_copy(context, device_memory, a, 2 * count * sizeof(float), NULL) == CARAT_OK &&
               carat_plan_run(plan, &alpha, device_memory, device_memory + count, &beta, NULL,
                              device_memory + 2 * count, NULL) == CARAT_OK &&
               carat_copy(context, d, device_memory + 2 * count, count * sizeof(float), NULL) == CARAT_OK &&
               carat_synchronize(context, NULL) == CARAT_OK,
           "half of a product is left to others");
    expect(carat_count_safe(context, &after) == CARAT_OK, "the count is read again");
    expect(after - before >= count * 2 / 5 && after - before <= count * 3 / 5, "about half of D is left");
    expect(count_far_off(a, b, d, side, &random) == 0, "what is left is right, and what is not");
    carat_release(context, device_memory);
    free(a);
}

static void check_left_values(void)
{
    const int64_t sides[] = {2100, 2300, 3000};
    int shared = 0;
    begin_group();
    for (int i = 0; i < 3; i++) {
        carat_plan *plan = plan_close(sides[i]);
        if (plan && strstr(carat_plan_explain(plan), " f16 planes")) {
            check_values_of(plan, sides[i]);
            shared += strstr(carat_plan_explain(plan), "shared") != NULL;
        } else if (plan) {
            printf("  skipped: no f16 planes here at %" PRId64 "\n", sides[i]);
            group.skipped++;
        }
        carat_plan_destroy(plan);
    }
    if (shared == 0) {
        printf("  skipped: none of these products has tiles to share here\n");
        group.skipped++;
    }
    end_group("safe path, values");
}

static void check_count(void)
{
    const int64_t sides[] = {40, 500, 2100}; /* the largest has a product of three planes behind it */
    begin_group();
    for (int i = 0; i < 3; i++) {
        carat_plan *plan = plan_close(sides[i]);
        bool in_parts = plan && strstr(carat_plan_explain(plan), " f16 planes") != NULL;
        if (plan && (in_parts || i == 0)) { /* without parts nothing is ever left, whatever the size */
            check_count_of(plan, sides[i], in_parts);
        } else if (plan) {
            printf("  skipped: no f16 planes here at %" PRId64 "\n", sides[i]);
            group.skipped++;
        }
        carat_plan_destroy(plan);
    }
    end_group("safe path");
}

/* ---- One plan, matrices that move ---- */

enum { MOVED_SIDE = 512 };

/* Fills A, B and D of a set with A and B, and nothing but ones in D's bits, runs the plan there, and reads D. */
static bool run_moved(carat_plan *plan, const char *a_and_b, const char *ones, size_t bytes, char *set,
                      void *d)
{
    const float alpha = 1;
    const float beta = 0;
    return carat_copy(context, set, a_and_b, 2 * bytes, NULL) == CARAT_OK &&
           carat_copy(context, set + 2 * bytes, ones, bytes, NULL) == CARAT_OK &&
           carat_plan_run(plan, &alpha, set, set + bytes, &beta, NULL, set + 2 * bytes, NULL) == CARAT_OK &&
           carat_copy(context, d, set + 2 * bytes, bytes, NULL) == CARAT_OK &&
           carat_synchronize(context, NULL) == CARAT_OK;
}

/* What a plan keeps of one call is right for the next, with the same matrices elsewhere: the first ones are NaN then. */
static void check_moved_of(carat_type type, carat_accuracy accuracy, carat_op op_a, bool by_maps)
{
    carat_gemm_problem problem = carat_gemm_describe(type, MOVED_SIDE, MOVED_SIDE, MOVED_SIDE);
    size_t count = (size_t)MOVED_SIDE * MOVED_SIDE;
    size_t bytes = count * carat_type_size(type);
    struct random random = {14};
    carat_plan *plan = NULL;
    char *sets = NULL;
    char *host = malloc(5 * bytes);
    problem.accuracy = accuracy;
    problem.op_a = op_a;
    if (!host || carat_plan_create(context, &problem, &plan) != CARAT_OK ||
        carat_allocate(context, CARAT_MEMORY_DEVICE, 6 * bytes, (void **)&sets) != CARAT_OK) {
        failed("a product whose matrices move: %s", carat_last_message());
    } else {
        char *first = host + 2 * bytes;
        char *second = first + bytes;
        char *ones = second + bytes;
        for (size_t i = 0; i < 2 * count; i++) {
            element_random(type, host, (int64_t)i, &random);
        }
        memset(ones, 0xff, bytes);
        expect(!by_maps || strncmp(carat_plan_explain(plan), "wgmma_", 6) == 0, "the row has tensor maps");
        expect(run_moved(plan, host, ones, bytes, sets, first), "the first product is run");
        for (int i = 0; i < 3; i++) {
            expect(carat_copy(context, sets + (size_t)i * bytes, ones, bytes, NULL) == CARAT_OK,
                   "its matrices are written over");
        }
        expect(run_moved(plan, host, ones, bytes, sets + 3 * bytes, second), "the second product is run");
        expect(memcmp(first, second, bytes) == 0, "both products are the same");
        expect(memcmp(first, ones, bytes) != 0, "and are products");
    }
    carat_plan_destroy(plan);
    carat_release(context, sets);
    free(host);
}

static void check_moved(void)
{
    carat_device_info info = {0};
    begin_group();
    expect(carat_device_query(context, &info) == CARAT_OK, "the device is asked");
    bool hopper = info.compute_capability_major == 9;
    check_moved_of(CARAT_BF16, CARAT_ACCURACY_STANDARD, CARAT_NO_TRANSPOSE, hopper);
    check_moved_of(CARAT_BF16, CARAT_ACCURACY_STANDARD, CARAT_TRANSPOSE, hopper);
    check_moved_of(CARAT_F16, CARAT_ACCURACY_STANDARD, CARAT_NO_TRANSPOSE, hopper);
    check_moved_of(CARAT_F32, CARAT_ACCURACY_FAST, CARAT_TRANSPOSE, hopper);
    check_moved_of(CARAT_F32, CARAT_ACCURACY_STANDARD, CARAT_NO_TRANSPOSE, false);
    end_group("matrices that move");
}

/* ---- scale_add and transpose ---- */

/* One scale_add, or one transpose, of a matrix among guard bytes; every element is compared. */
static void check_elementwise(carat_type type, int64_t m, int64_t n, int64_t pad, int64_t shift,
                              bool transpose)
{
    size_t size = carat_type_size(type);
    int64_t lda = m + pad;
    int64_t rows_b = transpose ? n : m;
    int64_t columns_b = transpose ? m : n;
    int64_t ldb = rows_b + pad;
    long double scale = 1.5;
    long double add = -0.25;
    uint64_t scale_bits[1] = {0};
    uint64_t add_bits[1] = {0};
    struct random random = {11};
    struct guarded a =
        guarded_create(context, true, (size_t)(lda * (n - 1) + m) * size, (size_t)shift * size);
    struct guarded b =
        guarded_create(context, true, (size_t)(ldb * (columns_b - 1) + rows_b) * size, (size_t)shift * size);
    element_set(carat_scalar_type(type), scale_bits, 0, scale);
    element_set(carat_scalar_type(type), add_bits, 0, add);
    for (int64_t i = 0; i < lda * (n - 1) + m; i++) {
        element_random(type, guarded_content(&a), i, &random);
    }
    carat_status status = guarded_upload(&a);
    status = status == CARAT_OK ? guarded_upload(&b) : status;
    if (status == CARAT_OK) {
        status = transpose
                     ? carat_transpose(context, CARAT_COLUMN_MAJOR, type, m, n, guarded_pointer(&a), lda,
                                       guarded_pointer(&b), ldb, NULL)
                     : carat_scale_add(context, CARAT_COLUMN_MAJOR, type, m, n, scale_bits,
                                       guarded_pointer(&a), lda, add_bits, guarded_pointer(&b), ldb, NULL);
    }
    bool right = status == CARAT_OK && carat_synchronize(context, NULL) == CARAT_OK;
    unsigned char *now = right ? guarded_download(&b) : NULL;
    char *content = right ? guarded_content_of(&b, now) : NULL;
    for (int64_t j = 0; j < n && right; j++) {
        for (int64_t i = 0; i < m && right; i++) {
            int64_t at = transpose ? j + i * ldb : i + j * ldb;
            uint64_t wanted[1];
            if (transpose) {
                memcpy(wanted, (char *)guarded_content(&a) + (size_t)(i + j * lda) * size, size);
            } else { /* a long double holds the exact value of the fused multiply-add of all types but f64 */
                element_set(type, wanted, 0,
                            element_get(type, guarded_content(&a), i + j * lda) * scale + add);
            }
            if (type == CARAT_F64 && !transpose) { /* it was rounded twice: one unit in the last place */
                long double got = element_get(type, content, at);
                long double should = element_get(type, wanted, 0);
                long double off = got > should ? got - should : should - got;
                right = off <= 0x1p-52L * (should < 0 ? -should : should);
            } else {
                right = memcmp(wanted, content + (size_t)at * size, size) == 0;
            }
            memcpy(content + (size_t)at * size, (char *)guarded_content(&b) + (size_t)at * size, size);
        }
    }
    /* Nothing else was written. */
    right = right && memcmp(now, b.expect, guarded_total(&b)) == 0 && guarded_untouched(&a);
    if (right) {
        group.passed++;
    } else {
        failed("%s of %s %" PRId64 " x %" PRId64 " pad %" PRId64 " shift %" PRId64 " (%s)",
               transpose ? "transpose" : "scale_add", carat_type_name(type), m, n, pad, shift,
               status == CARAT_OK ? "wrong" : carat_last_message());
    }
    free(now);
    guarded_destroy(&a);
    guarded_destroy(&b);
}

static void check_around(void)
{
    static const int64_t sizes[][2] = {{1, 1}, {7, 5}, {64, 64}, {129, 67}, {300, 1}, {1, 300}, {1000, 513}};
    begin_group();
    for (int type = CARAT_F32; type <= CARAT_E5M2; type++) {
        bool adds = type <= CARAT_BF16;
        for (int s = 0; s < cases(7, 4); s++) {
            for (int pad = 0; pad < 2 && time_left(); pad++) {
                check_elementwise((carat_type)type, sizes[s][0], sizes[s][1], pad * 3, pad, true);
                if (adds) {
                    check_elementwise((carat_type)type, sizes[s][0], sizes[s][1], pad * 3, pad, false);
                }
            }
        }
    }
    end_group("scale_add and transpose");
}

/* ---- Refusals ---- */

/* A plan that needs workspace, and gets too little. */
static void check_small_workspace(struct lane *lane)
{
    struct trial deep = trial_of(CARAT_F32, CARAT_F32, CARAT_F32, 16, 16, cases(200000, 20000));
    carat_plan *plan = NULL;
    void *workspace = NULL;
    float one = 1;
    float zero = 0;
    expect(carat_plan_create(context, &deep.problem, &plan) == CARAT_OK, "a deep product is planned");
    if (plan && carat_plan_workspace(plan) > 256) {
        expect(carat_allocate(context, CARAT_MEMORY_DEVICE, 256, &workspace) == CARAT_OK,
               "256 bytes are there");
        expect(lane_place(lane, &deep) == CARAT_OK, "matrices are made");
        carat_run run = {.workspace = workspace, .workspace_bytes = 256};
        struct lane_pointers at = lane_pointers(lane);
        expect(carat_plan_run(plan, &one, at.a, at.b, &zero, NULL, at.d, &run) == CARAT_WORKSPACE_TOO_SMALL,
               "a workspace that is too small is refused");
        carat_release(context, workspace);
    } else {
        group.skipped++;
        printf("  skipped: the plan of a deep product needs no workspace here\n");
    }
    carat_plan_destroy(plan);
}

static void check_refusals(void)
{
    begin_group();
    struct lane *lane = lane_create(context);
    if (!lane) {
        failed("a stream: %s", carat_last_message());
        return;
    }
    struct trial trial = trial_of(CARAT_F32, CARAT_F32, CARAT_F32, 16, 16, 16);
    expect(lane_place(lane, &trial) == CARAT_OK, "matrices are made");
    struct lane_pointers at = lane_pointers(lane);
    float one = 1;
    float zero = 0;
    float host[256] = {0};
    const carat_gemm_problem *p = &trial.problem;
    expect(carat_gemm(context, p, &one, NULL, at.b, &zero, NULL, at.d, NULL) == CARAT_INVALID_ARGUMENT,
           "a NULL A is refused");
    expect(carat_gemm(context, p, &one, host, at.b, &zero, NULL, at.d, NULL) == CARAT_INVALID_ARGUMENT,
           "a mixed set of host and device matrices is refused");
    expect(carat_gemm(context, p, &one, at.d, at.b, &zero, NULL, at.d, NULL) == CARAT_INVALID_ARGUMENT,
           "D over A is refused");
    carat_gemm_problem wrong = *p;
    wrong.lda = 3;
    expect(carat_gemm(context, &wrong, &one, at.a, at.b, &zero, NULL, at.d, NULL) == CARAT_INVALID_ARGUMENT,
           "a short lda is refused");
    wrong = *p;
    wrong.bias = CARAT_BIAS_PER_ROW;
    expect(carat_gemm(context, &wrong, &one, at.a, at.b, &zero, NULL, at.d, NULL) == CARAT_INVALID_ARGUMENT,
           "a bias that is not given is refused");
    carat_run run = {.bias = host};
    expect(carat_gemm(context, &wrong, &one, at.a, at.b, &zero, NULL, at.d, &run) == CARAT_INVALID_ARGUMENT,
           "a bias in host memory is refused where D is on the device");
    void *too_much = &host;
    expect(carat_allocate(context, CARAT_MEMORY_DEVICE, (size_t)1 << 46, &too_much) ==
                   CARAT_OUT_OF_DEVICE_MEMORY &&
               too_much == NULL,
           "64 TiB are refused");
    expect(carat_synchronize(context, NULL) == CARAT_OK, "the device works on");
    char why[1200];
    expect(lane_untouched(lane, why, sizeof(why)), "the refused calls have written nothing");
    check_small_workspace(lane);
    lane_destroy(lane);
    end_group("refusals");
}

/* ---- The program ---- */

static void usage(FILE *file)
{
    fprintf(
        file,
        "Usage: gpu_check [--reduced] [--threads N] [--seconds N] [--rows NAME | --only GROUP] [--from ROW]\n"
        "                 [--number N] [--seed N]\n\n"
        "  --reduced     few small cases of each kind\n"
        "  --threads N   that make and check products (one a processor, at most 16)\n"
        "  --seconds N   begin no product after so long, and count what is left out\n"
        "  --rows NAME   only the rows of the catalogue with NAME in their name\n"
        "  --from ROW    not the rows that come before this one in the catalogue\n"
        "  --only GROUP  only the groups of products with GROUP in their name\n"
        "  --number N    only product N of each row or group: one that failed, again\n"
        "  --seed N      of the random cases (1)\n");
}

static bool read_options(int argc, char **argv)
{
    option.threads = crew_threads(16);
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--reduced") == 0) {
            option.reduced = true;
            continue;
        }
        char *end = NULL;
        bool number = value && *value && (strtod(value, &end), *end == 0);
        if (strcmp(argv[i], "--threads") == 0 && number && atoi(value) > 0) {
            option.threads = atoi(value);
        } else if (strcmp(argv[i], "--seconds") == 0 && number) {
            option.deadline = strtod(value, NULL);
        } else if (strcmp(argv[i], "--seed") == 0 && number) {
            option.seed = strtoull(value, NULL, 10);
        } else if (strcmp(argv[i], "--number") == 0 && number) {
            option.number = (int64_t)strtod(value, NULL);
        } else if (strcmp(argv[i], "--rows") == 0 && value) {
            option.rows = value;
        } else if (strcmp(argv[i], "--from") == 0 && value) {
            option.from = value;
        } else if (strcmp(argv[i], "--only") == 0 && value) {
            option.only = value;
        } else {
            return false;
        }
        i++;
    }
    if (option.from && (option.only || !catalog_find(option.from))) {
        fprintf(stderr, "gpu_check: --from wants a row of the catalogue, and no --only beside it\n");
        return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    if (!read_options(argc, argv)) {
        usage(stderr);
        return 2;
    }
    lane_reference_work = option.reduced ? 5e4 : 4e5;
    if (carat_context_create(CARAT_DEVICE_CUDA, 0, &context) != CARAT_OK) {
        printf("skipped: no CUDA device (%s)\n", carat_last_message());
        return 0;
    }
    device = carat_context_device(context);
    carat_device_info info;
    if (carat_device_query(context, &info) == CARAT_OK) {
        printf("%s, compute capability %d.%d\n", info.name, info.compute_capability_major,
               info.compute_capability_minor);
    }
    crew = crew_create(context, option.threads, cases(30, 300));
    if (!crew) {
        fprintf(stderr, "gpu_check: %s\n", carat_last_message());
        carat_context_destroy(context);
        return 1;
    }
    if (!option.only) {
        check_rows();
    }
    if (!option.rows) {
        check_products();
    }
    if (!option.rows && !option.only) {
        check_streams();
        check_graphs();
        check_count();
        check_left_values();
        check_moved();
        check_around();
        check_refusals();
    }
    printf("%d passed, %d failed, %d skipped, %d left out in %.1f s\n", total.passed, total.failed,
           total.skipped, total.left_out, crew_seconds());
    crew_destroy(crew);
    carat_context_destroy(context);
    return total.failed > 0;
}
