/* survey.c - measures what a tuning table holds. */
#include "survey.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "progress.h"
#include "rows.h"
#include "status.h"
#include "tune.h"

/* A trial lasts so long, and the median of so many counts. */
static const double TRIAL_SECONDS = 0.3e-3;
enum { TRIALS = 3 };

/* Of packs: the columns of the operand beside the one that matters. */
enum { BESIDE = 64 };

/* Elements of any type that are whole packs of 16 bytes. */
enum { LD_UNIT = 16 };

/* The least time of a pack, where its difference drowns in noise. */
static const double LEAST_MICROSECONDS = 0.3;

struct tuning_head survey_head(const struct place *place)
{
    const carat_device_info *info = &place->info;
    struct tuning_head head = {
        .capability = info->compute_capability_major * 10 + info->compute_capability_minor,
        .multiprocessors = info->multiprocessors,
        .memory = (int)lround(2e3 * info->memory_clock_khz * info->memory_bus_bits / 8 / 1e9),
        .driver = info->driver_version,
        .clock = info->core_clock_khz > 0 ? info->core_clock_khz / 1e3 : 1e3,
    };
    snprintf(head.device, sizeof(head.device), "%.120s", info->name);
    snprintf(head.library, sizeof(head.library), "%.30s", carat_version());
    return head;
}

/* ---- What there is to measure ---- */

/* A line of the table to be, and when its turn comes. */
struct job {
    struct tuning_line line;
    bool aligned; /* product: A and B lie at multiples of 16 bytes */
    int pass;
    int type; /* its place in the order of types */
    double bytes;
};

struct jobs {
    struct job *items;
    int count;
    int room;
};

static const char *type_name(const struct kernel *kernel)
{
    bool fast = kernel->accuracy == ACCURACY_FAST;
    return fast && kernel->element == ELEMENT_F32 ? "tf32" : carat_type_name((carat_type)kernel->element);
}

static bool has_type(const char *types, const struct kernel *kernel)
{
    const char *name = type_name(kernel);
    size_t length = strlen(name);
    for (const char *at = types; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0)) {
            return true;
        }
    }
    return !types;
}

/* Types in the order of what they are worth; operands of neighbours share memory. */
static int type_order(const struct kernel *kernel)
{
    static const int order[] = {ELEMENT_BF16, ELEMENT_F16, ELEMENT_F32,  ELEMENT_S8,
                                ELEMENT_E4M3, ELEMENT_F64, ELEMENT_E5M2, ELEMENT_S32};
    int place = 0;
    while (order[place] != kernel->element) {
        place++;
    }
    return place;
}

static carat_status add_job(struct jobs *jobs, const struct job *job)
{
    if (jobs->count == jobs->room) {
        int room = jobs->room ? 2 * jobs->room : 1024;
        struct job *items = realloc(jobs->items, (size_t)room * sizeof(*items));
        if (!items) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d measurements", room);
        }
        jobs->items = items;
        jobs->room = room;
    }
    jobs->items[jobs->count++] = *job;
    return CARAT_OK;
}

static bool lines_equal(const struct tuning_line *x, const struct tuning_line *y)
{
    return x->kernel == y->kernel && x->trans_a == y->trans_a && x->trans_b == y->trans_b &&
           x->turned == y->turned && memcmp(x->sizes, y->sizes, sizeof(x->sizes)) == 0;
}

/* The m and n of about so many blocks: about square, or a part of a tile wide, along n where lean is negative. */
static void spread_blocks(const struct kernel *kernel, double blocks, double lean, int64_t *m, int64_t *n)
{
    int64_t unit_m = (int64_t)kernel->tile_m * kernel_cluster_m(kernel);
    int64_t unit_n = (int64_t)kernel->tile_n * kernel_cluster_n(kernel);
    blocks = fmax(1, blocks / kernel_cluster_blocks(kernel));
    double square = fmax(1, round(sqrt(blocks * (double)unit_n / (double)unit_m)));
    /* No more blocks than that: one more would be another wave. */
    double tiles_m = lean > 0 ? 1 : lean < 0 ? floor(blocks) : square;
    double tiles_n = fmax(1, floor(blocks / tiles_m));
    *m = lean > 0 ? (int64_t)fmax(1, kernel->tile_m / exp2(lean)) : (int64_t)tiles_m * unit_m;
    *n = lean < 0 ? (int64_t)fmax(1, kernel->tile_n / exp2(-lean)) : (int64_t)tiles_n * unit_n;
}

static int long_side_of(const struct kernel *kernel)
{
    return kernel->tile_m > kernel->tile_n ? kernel->tile_m : kernel->tile_n;
}

/* The same of a row of narrow tiles: in one line, or side by side, then a part of a tile long where lean is negative. */
static void line_up_blocks(const struct kernel *kernel, double blocks, double lean, int64_t *m, int64_t *n)
{
    bool long_m = kernel_is_long_along_m(kernel);
    int long_side = long_side_of(kernel);
    int short_side = long_m ? kernel->tile_n : kernel->tile_m;
    double beside = lean > 0 ? exp2(lean) : lean < 0 ? fmax(1, floor(blocks)) : 1;
    double in_line = fmax(1, floor(blocks / beside));
    int64_t length = lean < 0 ? (int64_t)(long_side * exp2(lean)) : long_side * (int64_t)in_line;
    int64_t width = short_side * (int64_t)beside;
    *m = long_m ? length : width;
    *n = long_m ? width : length;
}

/* Points of every second line of the grid come first, then the others, thin problems last. */
static int pass_of(const int knots[3], bool lean)
{
    return lean ? 2 + (knots[0] % 2 || knots[1] % 2) : knots[0] % 2 || knots[1] % 2;
}

/* How many numbers of blocks there are to measure: none where a part of a narrow tile's long side is not one element. */
static int count_loads(const struct kernel *kernel, const struct tuning_axes *axes, double lean)
{
    bool is_left = !kernel_is_narrow(kernel) || lean >= 0 || long_side_of(kernel) * exp2(lean) >= 1;
    return is_left ? axes->counts[0] : 0;
}

/* A row in one layout, at all points of its grid. */
static carat_status add_products(struct jobs *jobs, const struct kernel *kernel, int multiprocessors,
                                 int layout, bool aligned)
{
    const struct tuning_axes *axes = tuning_axes(OPERATION_GEMM);
    struct job job = {.aligned = aligned, .type = type_order(kernel)};
    job.line = (struct tuning_line){
        .operation = OPERATION_GEMM, .kernel = kernel, .trans_a = layout >= 2, .trans_b = layout % 2 == 1};
    int knots[3];
    for (knots[2] = 0; knots[2] < axes->counts[2]; knots[2]++) {
        double lean = axes->knots[2][knots[2]];
        int loads = count_loads(kernel, axes, lean);
        for (knots[1] = 0; knots[1] < axes->counts[1]; knots[1]++) {
            int64_t k = kernel_k_step(kernel) * (int64_t)exp2(axes->knots[1][knots[1]]);
            for (knots[0] = 0; knots[0] < loads; knots[0]++) {
                int64_t *sizes = job.line.sizes;
                double blocks = multiprocessors * exp2(axes->knots[0][knots[0]]);
                if (kernel_is_narrow(kernel)) {
                    line_up_blocks(kernel, blocks, lean, &sizes[0], &sizes[1]);
                } else {
                    spread_blocks(kernel, blocks, lean, &sizes[0], &sizes[1]);
                }
                sizes[2] = k;
                if (!aligned) {
                    for (int i = 0; i < 3; i++) {
                        sizes[i] -= sizes[i] > 1;
                    }
                }
                job.pass = pass_of(knots, lean != 0);
                const struct job *last = jobs->count > 0 ? &jobs->items[jobs->count - 1] : NULL;
                if (!last || !lines_equal(&last->line, &job.line)) {
                    CARAT_TRY(add_job(jobs, &job));
                }
            }
        }
    }
    return CARAT_OK;
}

/* A row in its layout, or in all; those that take any address also at odd ones. */
static carat_status add_row(struct jobs *jobs, const struct kernel *kernel, int multiprocessors)
{
    static const int layouts[] = {[LAYOUT_NN] = 0, [LAYOUT_NT] = 1, [LAYOUT_TN] = 2, [LAYOUT_TT] = 3};
    int first = kernel->layout == LAYOUT_ANY ? 0 : layouts[kernel->layout];
    int last = kernel->layout == LAYOUT_ANY ? 3 : first;
    bool any_address = !kernel->tensor_maps && kernel->alignment < 16;
    for (int layout = first; layout <= last; layout++) {
        for (int aligned = any_address ? 0 : 1; aligned <= 1; aligned++) {
            CARAT_TRY(add_products(jobs, kernel, multiprocessors, layout, aligned));
        }
    }
    return CARAT_OK;
}

static carat_status add_steps(struct jobs *jobs, const struct kernel *kernel)
{
    const struct tuning_axes *axes = tuning_axes(kernel->operation);
    bool packs = kernel->operation == OPERATION_PACK;
    for (int turned = 0; turned <= (packs && !kernel->converts); turned++) {
        for (int i = 0; i < axes->counts[0]; i++) {
            for (int j = 0; j < axes->counts[1]; j++) {
                struct job job = {.type = -1};
                job.line = (struct tuning_line){
                    .operation = kernel->operation,
                    .kernel = kernel,
                    .turned = turned,
                    .sizes = {(int64_t)exp2(axes->knots[0][i]), (int64_t)exp2(axes->knots[1][j])},
                };
                CARAT_TRY(add_job(jobs, &job));
            }
        }
    }
    return CARAT_OK;
}

/* By pass, then type, then the largest first, so that memory is taken once. */
static int compare_jobs(const void *x, const void *y)
{
    const struct job *first = x;
    const struct job *second = y;
    if (first->pass != second->pass) {
        return first->pass - second->pass;
    }
    if (first->type != second->type) {
        return first->type - second->type;
    }
    if (first->bytes != second->bytes) {
        return first->bytes < second->bytes ? 1 : -1;
    }
    return (first->line.kernel > second->line.kernel) - (first->line.kernel < second->line.kernel);
}

/* Whether a row multiplies only what another kernel has split, or what such rows have left alone. */
static bool is_of_split(const struct kernel *kernel) { return kernel->planes > 0 || kernel->rescues; }

static carat_status list_jobs(const struct device_traits *traits, const char *types,
                              const struct tuning_table *base, struct jobs *jobs,
                              struct survey_totals *totals)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (!kernel_runs_on(kernel, traits)) {
            continue;
        }
        if (base && tuning_knows(base, kernel)) {
            totals->of_base++;
            continue;
        }
        if (kernel->operation == OPERATION_GEMM && has_type(types, kernel)) {
            if (is_of_split(kernel)) {
                totals->of_split++;
            } else {
                CARAT_TRY(add_row(jobs, kernel, traits->multiprocessors));
            }
        } else if (kernel->operation == OPERATION_PACK || kernel->operation == OPERATION_REDUCE) {
            CARAT_TRY(add_steps(jobs, kernel));
        }
    }
    for (int i = 0; i < jobs->count; i++) {
        const struct tuning_line *line = &jobs->items[i].line;
        if (line->operation == OPERATION_GEMM) {
            carat_gemm_problem problem = tuning_problem(line->kernel, line->trans_a, line->trans_b,
                                                        line->sizes[0], line->sizes[1], line->sizes[2]);
            jobs->items[i].bytes = workload_bytes(&problem);
        }
    }
    if (jobs->count > 0) {
        qsort(jobs->items, (size_t)jobs->count, sizeof(*jobs->items), compare_jobs);
    }
    return CARAT_OK;
}

carat_status survey_visit(const struct device_traits *traits, const char *types, survey_visitor *visitor,
                          void *context)
{
    struct survey_totals totals = {0};
    struct jobs jobs = {0};
    carat_status status = list_jobs(traits, types, NULL, &jobs, &totals);
    for (int i = 0; i < jobs.count && status == CARAT_OK; i++) {
        visitor(context, &jobs.items[i].line);
    }
    free(jobs.items);
    return status;
}

/* ---- Measuring it ---- */

struct surveyor {
    struct stage *stage;
    const struct survey_options *options;
    struct device_traits traits; /* without a table: what it measures should not depend on one */
    struct survey_totals *totals;
};

/* Seconds of a way to do a problem; 0 where it does not run or there is no memory. */
static carat_status time_way(struct surveyor *surveyor, const carat_gemm_problem *problem,
                             const struct candidate *way, const enum step_kind *only, double *seconds)
{
    struct stage *stage = surveyor->stage;
    struct workload workload;
    *seconds = 0;
    carat_status status = workload_open(&stage->arena, problem, &workload);
    if (status == CARAT_OK) {
        status = tune_way(stage, &workload, way, only, TRIAL_SECONDS, TRIALS, seconds);
    }
    return status == CARAT_OUT_OF_DEVICE_MEMORY ? CARAT_OK : status;
}

/* Whether a problem is larger than the options allow. */
static bool is_large(const struct surveyor *surveyor, const carat_gemm_problem *problem)
{
    int64_t most = surveyor->options->largest_side;
    return workload_bytes(problem) > surveyor->options->most_bytes ||
           (most > 0 && (problem->m > most || problem->n > most || problem->k > most));
}

static double seconds_of(const struct surveyor *surveyor, double cycles)
{
    double kilohertz = surveyor->stage->place.info.core_clock_khz;
    return cycles / (1e3 * (kilohertz > 0 ? kilohertz : 1e6));
}

static carat_status measure_product(struct surveyor *surveyor, struct tuning_line *line)
{
    carat_gemm_problem described = tuning_problem(line->kernel, line->trans_a, line->trans_b, line->sizes[0],
                                                  line->sizes[1], line->sizes[2]);
    struct problem problem;
    struct candidate way;
    struct candidate best;
    double foreseen;
    int variant;
    struct tuning_point point;
    CARAT_TRY(problem_check(&described, &problem));
    if (!plan_as_it_is(&surveyor->traits, &problem, line->kernel, &way) ||
        !plan_predict(&surveyor->traits, line, &foreseen, &variant, &point) ||
        is_large(surveyor, &described) || seconds_of(surveyor, foreseen) > surveyor->options->most_seconds) {
        surveyor->totals->impossible++;
        return CARAT_OK;
    }
    /* With the launch, which foreseen has in it: short products differ by little, whatever the model says. */
    double launch = foreseen - way.cycles;
    double least = plan_best(&surveyor->traits, &problem, &best) ? best.cycles : way.cycles;
    if (foreseen > surveyor->options->slack * (least + launch)) {
        surveyor->totals->hopeless++;
        return CARAT_OK;
    }
    double seconds;
    CARAT_TRY(time_way(surveyor, &described, &way, NULL, &seconds));
    line->microseconds = seconds * 1e6;
    return CARAT_OK;
}

/* What is looked for among the ways to do a problem. */
struct wanted {
    const struct tuning_line *line;
    bool packs_b;
    struct candidate way; /* the best so far */
};

static void look_at(void *context, const struct candidate *way)
{
    struct wanted *wanted = context;
    bool turned = way->packs_a && way->product.trans_a && wanted->line->turned;
    if (way->pack == wanted->line->kernel && way->packs_a && way->packs_b == wanted->packs_b &&
        way->parts == 1 && !way->bare && way->stream_tiles == 0 && turned == wanted->line->turned &&
        (!wanted->way.kernel || way->cycles < wanted->way.cycles)) {
        wanted->way = *way;
    }
}

/*
 * What stands for a type where a problem is described; of f32 in fast accuracy, where operands are turned too, and
 * in the best where they are widened.
 */
static struct kernel packed_type(const struct kernel *pack)
{
    static const int elements[] = {
        [1] = ELEMENT_S8, [2] = ELEMENT_BF16, [4] = ELEMENT_F32, [8] = ELEMENT_F64};
    int element = pack->converts && pack->element_bytes == 1 ? ELEMENT_E4M3 : elements[pack->element_bytes];
    int accuracy = pack->converts == CONVERTS_F64 ? ACCURACY_BEST
                   : element == ELEMENT_F32       ? ACCURACY_FAST
                                                  : 0;
    return (struct kernel){.element = element, .accuracy = accuracy};
}

/*
 * A pack is what a product takes more with packed operands than one whose operands lie as the packed ones do: so
 * what they share counts where it helps, that a packed operand is in the cache and the product launched early.
 * Straight, both operands are packed, from columns that begin anywhere; turned, A alone.
 */
static carat_status measure_pack(struct surveyor *surveyor, struct tuning_line *line)
{
    const struct kernel type = packed_type(line->kernel);
    int64_t length = line->sizes[0];
    int64_t beside = line->sizes[1] / 2 < BESIDE ? line->sizes[1] / 2 : BESIDE;
    int64_t columns = line->turned ? line->sizes[1] : line->sizes[1] - beside;
    carat_gemm_problem described = line->turned
                                       ? tuning_problem(&type, false, false, columns - 1, beside, length)
                                       : tuning_problem(&type, true, false, columns, beside, length - 1);
    struct wanted wanted = {.line = line, .packs_b = !line->turned};
    struct problem problem;
    struct problem in_place;
    struct candidate plain;
    /* D's columns begin at 16 bytes either way: how they are stored is not the pack's. */
    described.ldd = (columns + LD_UNIT - 1) / LD_UNIT * LD_UNIT;
    CARAT_TRY(problem_check(&described, &problem));
    plan_visit(&surveyor->traits, &problem, look_at, &wanted);
    if (is_large(surveyor, &described) || !wanted.way.kernel) {
        surveyor->totals->impossible++;
        return CARAT_OK;
    }
    const struct problem *packed = &wanted.way.product;
    carat_gemm_problem tight =
        tuning_problem(wanted.way.kernel, packed->trans_a, packed->trans_b, columns, beside, length);
    tight.ldd = described.ldd;
    CARAT_TRY(problem_check(&tight, &in_place));
    if (!plan_as_it_is(&surveyor->traits, &in_place, wanted.way.kernel, &plain)) {
        surveyor->totals->impossible++;
        return CARAT_OK;
    }
    double with;
    double without;
    CARAT_TRY(time_way(surveyor, &described, &wanted.way, NULL, &with));
    CARAT_TRY(time_way(surveyor, &tight, &plain, NULL, &without));
    if (with > 0 && without > 0) {
        line->microseconds = fmax((with - without) * 1e6, LEAST_MICROSECONDS);
    }
    return CARAT_OK;
}

/* A way in given parts, which a reduce adds. */
static void look_at_parts(void *context, const struct candidate *way)
{
    struct wanted *wanted = context;
    if (!way->pack && way->bare && way->parts == wanted->line->sizes[1] && !wanted->way.kernel) {
        wanted->way = *way;
    }
}

/* A reduce alone, of a product of its type. */
static carat_status measure_reduce(struct surveyor *surveyor, struct tuning_line *line)
{
    enum { K_OF_PART = 16 };
    static const enum step_kind reduce = STEP_REDUCE;
    const struct kernel type = {.element = line->kernel->element};
    int64_t side = (int64_t)sqrt((double)line->sizes[0]);
    carat_gemm_problem described =
        tuning_problem(&type, false, false, line->sizes[0] / side, side, K_OF_PART * line->sizes[1]);
    struct wanted wanted = {.line = line};
    struct problem problem;
    CARAT_TRY(problem_check(&described, &problem));
    if (find_reduce_row(&surveyor->traits, &problem) != line->kernel) {
        /* A D of so many whole vectors is another row's. */
        described =
            tuning_problem(&type, false, false, line->sizes[0] / side + 1, side, K_OF_PART * line->sizes[1]);
        CARAT_TRY(problem_check(&described, &problem));
    }
    plan_visit(&surveyor->traits, &problem, look_at_parts, &wanted);
    bool is_of_row = find_reduce_row(&surveyor->traits, &problem) == line->kernel;
    if (is_large(surveyor, &described) || !wanted.way.kernel || !is_of_row) {
        surveyor->totals->impossible++;
        return CARAT_OK;
    }
    double seconds;
    CARAT_TRY(time_way(surveyor, &described, &wanted.way, &reduce, &seconds));
    line->microseconds = seconds * 1e6;
    return CARAT_OK;
}

static carat_status measure_line(struct surveyor *surveyor, struct tuning_line *line)
{
    switch (line->operation) {
    case OPERATION_PACK:
        return measure_pack(surveyor, line);
    case OPERATION_REDUCE:
        return measure_reduce(surveyor, line);
    default:
        return measure_product(surveyor, line);
    }
}

/* Measures one job and writes its line. */
static carat_status do_job(struct surveyor *surveyor, const struct job *job, FILE *out)
{
    struct survey_totals *totals = surveyor->totals;
    struct tuning_line line = job->line;
    int left_out = totals->impossible + totals->hopeless;
    CARAT_TRY(measure_line(surveyor, &line));
    if (line.microseconds > 0) {
        char text[300];
        tuning_line_text(&line, text, sizeof(text));
        fputs(text, out);
        totals->measured++;
    } else if (totals->impossible + totals->hopeless == left_out && totals->failed++ == 0) {
        snprintf(totals->why, sizeof(totals->why), "%s: %.200s", line.kernel->name, carat_last_message());
    }
    return ferror(out) ? fail(CARAT_INVALID_ARGUMENT, "the table cannot be written") : CARAT_OK;
}

/* Whether the table has the job's line already. */
static bool is_known(const struct jobs *jobs, int i, const struct tuning_line *known, int known_count)
{
    for (int j = 0; j < known_count; j++) {
        if (lines_equal(&jobs->items[i].line, &known[j])) {
            return true;
        }
    }
    return false;
}

carat_status survey(struct stage *stage, const struct survey_options *options,
                    const struct tuning_line *known, int known_count, FILE *out, struct survey_totals *totals)
{
    *totals = (struct survey_totals){0};
    CARAT_TRY(tune_has_ways(stage));
    struct surveyor surveyor = {.stage = stage, .options = options, .totals = totals};
    surveyor.traits = stage->place.device->traits;
    surveyor.traits.tuning = NULL;
    surveyor.traits.memory_share = 1; /* the model alone tells what is worth measuring */
    struct jobs jobs = {0};
    double begin = now_seconds();
    carat_status status = list_jobs(&surveyor.traits, options->types, options->base, &jobs, totals);
    for (int i = 0; i < jobs.count && status == CARAT_OK; i++) {
        double seconds = now_seconds() - begin;
        if (seconds > options->seconds) {
            totals->late = jobs.count - i;
            break;
        }
        if (is_known(&jobs, i, known, known_count)) {
            totals->known++;
            continue;
        }
        progress("%d of %d, %.0f s: %s", i, jobs.count, seconds, jobs.items[i].line.kernel->name);
        status = do_job(&surveyor, &jobs.items[i], out);
    }
    progress_end();
    free(jobs.items);
    return status;
}
