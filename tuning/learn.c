/*
 * learn.c - what the build makes of a table of measured times: all that can be learned of it, as an image that the library
 * asks where it lies. The grids and the ways take half a second, and the trees, which learn what those leave over, some more:
 * no context has to wait for it.
 *
 *     learn TABLE IMAGE [judged] [BASE]
 *
 * judged: the trees learn nothing of the shapes that tests/test_choice.c judges them by. BASE is the image of the table to
 * which this one adds: what is in there the one that is made does not have once more.
 */
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "grow.h"
#include "held_out.h"
#include "plan.h"
#include "status.h"
#include "tuning.h"
#include "way_features.h"

static_assert((int)WAY_FEATURES <= (int)TREE_MOST_FEATURES, "trees ask of every feature");

enum { TREES = 200 };
/*
 * Of fewer ways there is nothing to be learned that would hold for others; and where there are trees already, of the table to
 * which this one adds, fewer than these teach less than those know.
 */
enum { LEAST_LESSONS = 10000, LEAST_BESIDE_TREES = 100000 };
/* Beyond this, up or down, something else was wrong. */
static const float MOST_LEFT = 1;

/* This program makes tables, and has none but that to which the one it makes adds: all zero it is of no device. */
static _Alignas(64) unsigned char base[64 << 20];
const unsigned char *const carat_tunings[] = {base, NULL};

static bool load_base(const char *path)
{
    FILE *file = fopen(path, "rb");
    size_t length = file ? fread(base, 1, sizeof(base), file) : 0;
    bool whole = file && length > 0 && length < sizeof(base) && !ferror(file);
    if (file) {
        fclose(file);
    }
    return whole;
}

/* ---- Lessons ---- */

/* What the trees learn from: ways whose times are foreseen by those of all other problems. */
struct school {
    struct device_traits traits; /* with the table, which leaves out what is asked for */
    bool holds_out;
    struct tuning_line line; /* the last one */
    bool is_problem;
    struct problem problem;
    struct way_finder finder;
    float *features;
    float *targets;
    int count;
};

/* Room for one lesson more: it grows by powers of two, so it is full exactly when count is one. */
static bool make_room(struct school *school)
{
    if ((school->count & (school->count - 1)) != 0) {
        return true;
    }
    size_t room = school->count ? (size_t)school->count * 2 : 1;
    float *features = realloc(school->features, room * WAY_FEATURES * sizeof(float));
    school->features = features ? features : school->features;
    float *targets = realloc(school->targets, room * sizeof(float));
    school->targets = targets ? targets : school->targets;
    return features && targets;
}

static void add_lesson(struct school *school, const struct tuning_line *line, double clock,
                       const struct candidate *way, const struct way_place *place)
{
    const struct ways *ways = tuning_ways(school->traits.tuning);
    struct ways_near near;
    ways_look_up(ways, line->kernel, place, &near);
    const struct way_case asked = {.traits = &school->traits,
                                   .problem = &school->problem,
                                   .place = place,
                                   .way = way,
                                   .row = ways_row(ways, line->kernel),
                                   .foreseen = way->foreseen,
                                   .factor = ways_factor(&near, line->parts, line->shares)};
    way_features(&asked, &school->features[(size_t)school->count * WAY_FEATURES]);
    double cycles = cycles_there(&school->traits, way, line->microseconds * clock);
    float left = (float)log(cycles / (way->foreseen * asked.factor));
    school->targets[school->count++] = fminf(fmaxf(left, -MOST_LEFT), MOST_LEFT);
}

static carat_status take_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct school *school = context;
    if (!line->whole || !line->kernel || (school->holds_out && is_held_out(line))) {
        return CARAT_OK;
    }
    if (!tuning_same_shape(line, &school->line)) {
        school->is_problem = tuning_whole_problem(line, &school->problem);
        if (school->is_problem) {
            way_finder_begin(&school->finder, &school->traits, &school->problem);
        }
    }
    school->line = *line;
    struct candidate way;
    const struct way_place *place = school->is_problem ? way_find(&school->finder, line, &way) : NULL;
    if (place && !make_room(school)) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for lessons");
    }
    if (place) {
        add_lesson(school, line, head->clock, &way, place);
    }
    return CARAT_OK;
}

/* Grows a table's trees, if there is enough to learn from. */
static carat_status grow_trees(const struct device_traits *traits, const char *path, const char *text,
                               size_t length, bool holds_out, struct grown *grown)
{
    struct school school = {.traits = *traits, .holds_out = holds_out};
    struct tuning_head head;
    carat_status status = tuning_read(path, text, length, take_line, &school, &head);
    const struct lessons lessons = {.count = school.count,
                                    .feature_count = WAY_FEATURES,
                                    .features = school.features,
                                    .targets = school.targets};
    int least = tuning_trees(traits->tuning) ? LEAST_BESIDE_TREES : LEAST_LESSONS;
    if (status == CARAT_OK && school.count >= least && !grow(&lessons, TREES, grown)) {
        status = fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for trees, or too many ways to learn from");
    }
    free(school.features);
    free(school.targets);
    return status;
}

/* ---- All of it ---- */

/* Keeps the head, which is whole where the first time stands. */
static carat_status keep_head(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    (void)line;
    memcpy(context, head, sizeof(*head));
    return CARAT_OK;
}

static carat_status write_image(const char *path, const struct tuning_table *table,
                                const struct device_traits *traits)
{
    FILE *file = fopen(path, "wb");
    bool written = file && tuning_write_image(table, traits, file);
    written = file && fclose(file) == 0 && written;
    return written ? CARAT_OK : fail(CARAT_INVALID_ARGUMENT, "cannot write the image");
}

static carat_status learn_text(const char *path, const char *text, size_t length, const char *image,
                               bool holds_out)
{
    struct tuning_head head = {.clock = 0};
    struct tuning_head read;
    struct tuning_table *table = NULL;
    struct grown grown = {.memory = NULL};
    CARAT_TRY(tuning_read(path, text, length, keep_head, &head, &read));
    struct device_traits traits = {.kind = CARAT_DEVICE_CUDA,
                                   .compute_capability = head.capability,
                                   .multiprocessors = head.multiprocessors,
                                   .memory_promised =
                                       memory_share_of(head.memory, head.clock, head.multiprocessors),
                                   .name = head.device};
    CARAT_TRY(tuning_parse(&traits, path, text, length, &table));
    carat_status status = table ? CARAT_OK : fail(CARAT_INVALID_ARGUMENT, "there is nothing in the table");
    tuning_apply(table, &traits);
    if (table && tuning_ways(table)) {
        tuning_leave_out(table);
        status = grow_trees(&traits, path, text, length, holds_out, &grown);
    }
    if (grown.trees.count > 0) { /* else those of the table to which it adds stay, if there are any */
        tuning_plant(table, &grown.trees);
    }
    if (status == CARAT_OK) {
        status = write_image(image, table, &traits);
    }
    tuning_close(table);
    grown_free(&grown);
    return status;
}

static carat_status learn(const char *path, const char *image, bool holds_out)
{
    char *text;
    size_t length;
    CARAT_TRY(tuning_load(path, &text, &length));
    carat_status status = learn_text(path, text, length, image, holds_out);
    free(text);
    return status;
}

int main(int argc, char **argv)
{
    bool holds_out = argc > 3 && strcmp(argv[3], "judged") == 0;
    int next = 3 + holds_out;
    const char *base_path = argc == next + 1 ? argv[next] : NULL;
    if (argc < 3 || argc > next + 1) {
        fprintf(stderr, "usage: learn TABLE IMAGE [judged] [BASE]\n");
        return 2;
    }
    if (base_path && !load_base(base_path)) {
        fprintf(stderr, "learn: %s cannot be read\n", base_path);
        return 1;
    }
    if (learn(argv[1], argv[2], holds_out) != CARAT_OK) {
        fprintf(stderr, "learn: %s\n", carat_last_message());
        return 1;
    }
    return 0;
}
