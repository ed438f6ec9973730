/* tuning.c - makes factors of measured times, and keeps them as an image that the build puts into the library. */
#include "tuning.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost.h"
#include "plan.h"
#include "status.h"

/* Beyond these, times over what the model foresees are no measurements; products of them would not stay finite. */
static const double LEAST_FACTOR = 1e-6;
static const double MOST_FACTOR = 1e6;

/* Of two measurements as near as this to a knot both count. */
static const float SAME_DISTANCE = 0.1F;

/* ---- Grids ---- */

static const struct tuning_axes product_axes = {
    {9, 5, 3}, {{-7, -4, -2, -1, 0, 1, 2, 3, 5}, {0, 2, 4, 6, 8}, {-3, 0, 3}}};
static const struct tuning_axes pack_axes = {{4, 5, 1}, {{4, 7, 10, 13}, {2, 5, 8, 11, 14}, {0}}};
static const struct tuning_axes reduce_axes = {{5, 4, 1}, {{8, 12, 16, 19, 22}, {1, 2, 4, 5}, {0}}};

const struct tuning_axes *tuning_axes(int operation)
{
    return operation == OPERATION_GEMM   ? &product_axes
           : operation == OPERATION_PACK ? &pack_axes
                                         : &reduce_axes;
}

/* Knots of the largest grid. */
enum { MOST_POINTS = 9 * 5 * 3 };

/*
 * A grid while it is learned: at the knots the sums of the logarithms of the factors that were measured nearest to the
 * knot, how many these are, and how far away. finish() makes means of the sums.
 */
struct lesson {
    float values[MOST_POINTS];
    float distances[MOST_POINTS];
    int counts[MOST_POINTS]; /* no more than there are lines in the longest file */
};

struct tuning_table {
    const int32_t *grids; /* TUNING_VARIANTS a row of the catalogue: which of the values; below 0: none */
    const float (*values)[MOST_POINTS]; /* logarithms of factors at the knots of each grid */
    void *memory;                       /* in which both are; NULL: they lie in an image */
    struct ways *ways;                  /* what whole ways say; NULL: nothing */
    struct trees trees;                 /* a count of 0: none */
    const char *device;                 /* of which it is in the library, or that to which it adds; NULL */
    const char *relative;               /* the same, where it is another one than this; NULL */
    double memory_share;                /* as in device_traits: of that whose memory is in its times */
    bool adds;                          /* times of this device to that one's */
};

/* What is learned of a text. */
struct learning {
    struct device_traits traits; /* without a table */
    struct tuning_table *base;   /* to which it adds; NULL: to none */
    bool base_at_its_word;
    struct lesson **lessons; /* TUNING_VARIANTS a row; NULL: nothing measured */
    struct tuning_line
        *whole; /* the lines of whole ways, which wait for the grids, by which they are foreseen */
    int whole_count;
    bool is_empty;
    const struct tuning_text *kin; /* NULL: none */
};

static int grid_slots(void) { return carat_catalog_count * TUNING_VARIANTS; }

static int slot_of(const struct kernel *kernel, int variant)
{
    return (int)(kernel - carat_catalog) * TUNING_VARIANTS + variant;
}

static int index_of(const struct tuning_axes *axes, const int knots[3])
{
    return (knots[2] * axes->counts[1] + knots[1]) * axes->counts[0] + knots[0];
}

static int nearest_knot(const struct tuning_axes *axes, int axis, double x)
{
    int nearest = 0;
    for (int i = 1; i < axes->counts[axis]; i++) {
        if (fabs(axes->knots[axis][i] - x) < fabs(axes->knots[axis][nearest] - x)) {
            nearest = i;
        }
    }
    return nearest;
}

static carat_status learn(struct learning *learning, const struct kernel *kernel, int variant,
                          struct tuning_point point, double factor)
{
    struct lesson **lesson = &learning->lessons[slot_of(kernel, variant)];
    if (!*lesson) {
        *lesson = calloc(1, sizeof(**lesson));
    }
    if (!*lesson) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    const struct tuning_axes *axes = tuning_axes(kernel->operation);
    int knots[3];
    float distance = 0;
    for (int axis = 0; axis < 3; axis++) {
        knots[axis] = nearest_knot(axes, axis, point.at[axis]);
        distance += (float)fabs(axes->knots[axis][knots[axis]] - point.at[axis]);
    }
    int i = index_of(axes, knots);
    if ((*lesson)->counts[i] == 0 || distance < (*lesson)->distances[i] - SAME_DISTANCE) {
        (*lesson)->counts[i] = 0;
        (*lesson)->values[i] = 0;
        (*lesson)->distances[i] = distance;
    }
    if (distance < (*lesson)->distances[i] + SAME_DISTANCE) {
        (*lesson)->values[i] += (float)log(fmin(fmax(factor, LEAST_FACTOR), MOST_FACTOR));
        (*lesson)->counts[i]++;
    }
    return CARAT_OK;
}

/* A walk over all knots of a grid; knots begins with {-1, 0, 0}. */
static bool next_knot(const struct tuning_axes *axes, int knots[3])
{
    for (int axis = 0; axis < 3; axis++) {
        if (++knots[axis] < axes->counts[axis]) {
            return true;
        }
        knots[axis] = 0;
    }
    return false;
}

/* The next measured knot on the line along an axis, in steps up or down; -1 where there is none. */
static int next_measured(const struct tuning_axes *axes, const struct lesson *lesson, const int from[3],
                         int axis, int step)
{
    int knots[3] = {from[0], from[1], from[2]};
    do {
        knots[axis] += step;
    } while (knots[axis] >= 0 && knots[axis] < axes->counts[axis] &&
             lesson->counts[index_of(axes, knots)] == 0);
    return knots[axis] < axes->counts[axis] ? knots[axis] : -1;
}

/* What was measured on the same line along an axis says of a knot between, or behind, which was not measured. */
static bool value_between(const struct tuning_axes *axes, const struct lesson *lesson, const int from[3],
                          int axis, float *value)
{
    int ends[2] = {next_measured(axes, lesson, from, axis, -1), next_measured(axes, lesson, from, axis, 1)};
    if (ends[0] < 0 && ends[1] < 0) {
        return false;
    }
    int below[3] = {from[0], from[1], from[2]};
    int above[3] = {from[0], from[1], from[2]};
    below[axis] = ends[0] >= 0 ? ends[0] : ends[1];
    above[axis] = ends[1] >= 0 ? ends[1] : ends[0];
    const double *knots = axes->knots[axis];
    double length = knots[above[axis]] - knots[below[axis]];
    double share = length > 0 ? (knots[from[axis]] - knots[below[axis]]) / length : 0;
    *value = (float)((1 - share) * (double)lesson->values[index_of(axes, below)] +
                     share * (double)lesson->values[index_of(axes, above)]);
    return true;
}

/*
 * Turns sums into means, and fills what was not measured: from other numbers of blocks, where there are none
 * from other k, and last from problems of another thinness.
 */
static void finish(const struct tuning_axes *axes, struct lesson *lesson)
{
    for (int knots[3] = {-1, 0, 0}; next_knot(axes, knots);) {
        int i = index_of(axes, knots);
        if (lesson->counts[i] > 0) {
            lesson->values[i] /= (float)lesson->counts[i];
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        const struct lesson before = *lesson;
        for (int knots[3] = {-1, 0, 0}; next_knot(axes, knots);) {
            int i = index_of(axes, knots);
            if (before.counts[i] == 0 && value_between(axes, &before, knots, axis, &lesson->values[i])) {
                lesson->counts[i] = 1;
            }
        }
    }
}

/* The knot below x, and the share of the way to the next one; at the ends the last knots hold on. */
static int locate(const struct tuning_axes *axes, int axis, double x, double *share)
{
    const double *knots = axes->knots[axis];
    int last = axes->counts[axis] - 1;
    int i = 0;
    while (i < last - 1 && x >= knots[i + 1]) {
        i++;
    }
    *share = last == 0 ? 0 : fmin(1, fmax(0, (x - knots[i]) / (knots[i + 1] - knots[i])));
    return i;
}

double tuning_factor(const struct tuning_table *table, const struct kernel *kernel, int variant,
                     struct tuning_point point, bool *known)
{
    int32_t grid = table->grids[slot_of(kernel, variant)];
    if (known) {
        *known = grid >= 0;
    }
    if (grid < 0) {
        return 1;
    }
    const float *values = table->values[grid];
    const struct tuning_axes *axes = tuning_axes(kernel->operation);
    int below[3];
    double shares[3];
    for (int axis = 0; axis < 3; axis++) {
        below[axis] = locate(axes, axis, point.at[axis], &shares[axis]);
    }
    double sum = 0;
    for (int corner = 0; corner < 8; corner++) {
        int knots[3];
        double weight = 1;
        for (int axis = 0; axis < 3; axis++) {
            int up = corner >> axis & 1;
            knots[axis] = below[axis] + up;
            weight *= up ? shares[axis] : 1 - shares[axis];
        }
        if (weight > 0) {
            sum += weight * (double)values[index_of(axes, knots)];
        }
    }
    return exp(sum);
}

void tuning_close(struct tuning_table *table)
{
    if (table) {
        free(table->memory);
        ways_close(table->ways);
    }
    free(table);
}

/* ---- Images ---- */

/* What an image begins with; the grids' numbers and values follow, the trees, and what the ways say. */
struct image_head {
    char device[128];
    char over[128]; /* another device, to whose table it added; "": none */
    int32_t capability;
    int32_t multiprocessors;
    int32_t slots;
    int32_t grids;
    int32_t has_trees;
    int32_t has_ways;
    int32_t adds;          /* to another table, be it of the same device */
    float memory_promised; /* of this device, as in device_traits */
    float memory_share;    /* the same of that whose memory is in the times */
};

static int grid_count(const struct tuning_table *table)
{
    int count = 0;
    for (int slot = 0; slot < grid_slots(); slot++) {
        count += table->grids[slot] >= 0;
    }
    return count;
}

bool tuning_write_image(const struct tuning_table *table, const struct device_traits *traits, FILE *file)
{
    struct image_head head = {.capability = traits->compute_capability,
                              .multiprocessors = traits->multiprocessors,
                              .slots = grid_slots(),
                              .grids = grid_count(table),
                              .has_trees = table->trees.count > 0,
                              .has_ways = table->ways != NULL,
                              .adds = table->adds,
                              .memory_promised = (float)traits->memory_promised,
                              .memory_share =
                                  (float)(table->relative ? table->memory_share : traits->memory_promised)};
    snprintf(head.device, sizeof(head.device), "%s", traits->name);
    snprintf(head.over, sizeof(head.over), "%s", table->relative ? table->relative : "");
    return fwrite(&head, sizeof(head), 1, file) == 1 &&
           fwrite(table->grids, sizeof(*table->grids), (size_t)head.slots, file) == (size_t)head.slots &&
           fwrite(table->values, sizeof(*table->values), (size_t)head.grids, file) == (size_t)head.grids &&
           (!head.has_trees || trees_write(&table->trees, file)) &&
           (!table->ways || ways_write(table->ways, file));
}

/*
 * How near the device of an image is to another one. What a kernel takes in cycles is much the same on all chips of a
 * compute capability: an H100 has the multiprocessors of an H200, and a slower memory, which the model knows of. With
 * another number of them waves are others, so what was timed of a very problem is not taken at its word there; and with far fewer,
 * as in a part of a device, nothing is known.
 */
enum kinship { STRANGERS, SAME_KIND, SAME_SIZE, SAME_DEVICE };
enum { MOST_TIMES_AS_MANY = 2 };

static enum kinship kinship_of(const struct image_head *head, const struct device_traits *traits)
{
    int here = traits->multiprocessors;
    int there = head->multiprocessors;
    if (head->slots != grid_slots() || head->capability != traits->compute_capability ||
        here > MOST_TIMES_AS_MANY * there || there > MOST_TIMES_AS_MANY * here) {
        return STRANGERS;
    }
    if (here != there) {
        return SAME_KIND;
    }
    return strcmp(head->device, traits->name) == 0 ? SAME_DEVICE : SAME_SIZE;
}

/* How far apart their memories are; one of which nothing is known is taken for that which the model was fitted on. */
static double memory_distance(const struct image_head *head, const struct device_traits *traits)
{
    double here = traits->memory_promised > 0 ? traits->memory_promised : 1;
    double there = head->memory_promised > 0 ? (double)head->memory_promised : 1;
    return fabs(log(here / there));
}

/* Of an image that stays where it is. */
static carat_status table_of_image(const unsigned char *image, enum kinship kinship,
                                   struct tuning_table **table)
{
    const struct image_head *head = (const struct image_head *)image;
    struct tuning_table *made = calloc(1, sizeof(*made));
    if (!made) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    made->grids = (const int32_t *)(head + 1);
    made->values = (const float(*)[MOST_POINTS])(made->grids + head->slots);
    const unsigned char *behind = (const unsigned char *)(made->values + head->grids);
    if (head->has_trees) {
        behind = trees_of_image(behind, &made->trees);
    }
    if (head->has_ways) {
        made->ways = ways_of_image(behind);
    }
    if (head->has_ways && !made->ways) {
        free(made);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    if (made->ways && kinship == SAME_KIND) {
        ways_take_no_word(made->ways);
    }
    made->device = head->device;
    made->adds = kinship == SAME_DEVICE && head->over[0];
    made->relative = kinship != SAME_DEVICE ? head->device : made->adds ? head->over : NULL;
    made->memory_share = (double)head->memory_share;
    *table = made;
    return CARAT_OK;
}

/* The nearest image whose device has this name; NULL: of any. */
static carat_status open_nearest(const struct device_traits *traits, const char *device,
                                 enum kinship *kinship, struct tuning_table **table)
{
    const unsigned char *nearest = NULL;
    double least = INFINITY;
    *kinship = STRANGERS;
    *table = NULL;
    for (const unsigned char *const *image = carat_tunings; *image; image++) {
        const struct image_head *head = (const struct image_head *)*image;
        enum kinship here = kinship_of(head, traits);
        double distance = memory_distance(head, traits);
        bool is_nearer = here > *kinship || distance < least || (distance == least && head->adds);
        bool is_asked_for = !device || strcmp(head->device, device) == 0;
        if (here != STRANGERS && here >= *kinship && is_nearer && is_asked_for) {
            nearest = *image;
            *kinship = here;
            least = distance;
        }
    }
    return nearest ? table_of_image(nearest, *kinship, table) : CARAT_OK;
}

carat_status tuning_open_shipped(const struct device_traits *traits, const char *device,
                                 struct tuning_table **table)
{
    enum kinship kinship;
    return open_nearest(traits, device, &kinship, table);
}

/* ---- Learning from a text ---- */

/* Whole ways wait for the grids, by which they are foreseen. */
static carat_status keep_whole(struct learning *learning, const struct tuning_line *line)
{
    /* Room grows by powers of two, so it is full exactly when count is one. */
    if ((learning->whole_count & (learning->whole_count - 1)) == 0) {
        size_t room = learning->whole_count ? (size_t)learning->whole_count * 2 : 1;
        struct tuning_line *whole = realloc(learning->whole, room * sizeof(*whole));
        if (!whole) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
        }
        learning->whole = whole;
    }
    learning->whole[learning->whole_count++] = *line;
    return CARAT_OK;
}

/* The table to which one of this device adds, if it says so. */
static carat_status open_base(struct learning *learning, const struct tuning_head *head)
{
    enum kinship kinship;
    if (!head->over[0] || learning->base) {
        return CARAT_OK;
    }
    CARAT_TRY(open_nearest(&learning->traits, head->over, &kinship, &learning->base));
    if (!learning->base) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "the table adds to that of %s, but the library has none for a device like this one",
                    head->over);
    }
    learning->base_at_its_word = kinship != SAME_KIND;
    learning->is_empty = false;
    return CARAT_OK;
}

/* Learns from a line, if its device and row are at hand. */
static carat_status take_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct learning *learning = context;
    if (!line->kernel || strcmp(head->device, learning->traits.name) != 0) {
        return CARAT_OK;
    }
    CARAT_TRY(open_base(learning, head));
    if (line->whole) {
        return keep_whole(learning, line);
    }
    /* What ways take is over what grids foresee, so of a row that the base knows its grids hold. */
    if (learning->base && tuning_knows(learning->base, line->kernel)) {
        return CARAT_OK;
    }
    double cycles;
    int variant;
    struct tuning_point point;
    if (!plan_predict(&learning->traits, line, &cycles, &variant, &point)) {
        return CARAT_OK;
    }
    learning->is_empty = false;
    return learn(learning, line->kernel, variant, point, line->microseconds * head->clock / cycles);
}

/* The values of a slot of the table to which this one adds; NULL where it has none. */
static const float *base_values(const struct learning *learning, int slot)
{
    const struct tuning_table *base = learning->base;
    return base && base->grids[slot] >= 0 ? base->values[base->grids[slot]] : NULL;
}

/* Finishes all grids, and puts them into the table. */
static carat_status keep_grids(const struct learning *learning, struct tuning_table *table)
{
    int count = 0;
    for (int slot = 0; slot < grid_slots(); slot++) {
        count += learning->lessons[slot] || base_values(learning, slot);
    }
    size_t slot_bytes = (size_t)grid_slots() * sizeof(int32_t);
    int32_t *grids = malloc(slot_bytes + (size_t)count * sizeof(*table->values) + 1);
    if (!grids) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    float(*values)[MOST_POINTS] = (float(*)[MOST_POINTS])(grids + grid_slots());
    count = 0;
    for (int slot = 0; slot < grid_slots(); slot++) {
        struct lesson *lesson = learning->lessons[slot];
        const float *borrowed = base_values(learning, slot);
        grids[slot] = lesson || borrowed ? count : -1;
        if (lesson) {
            finish(tuning_axes(carat_catalog[slot / TUNING_VARIANTS].operation), lesson);
        }
        if (lesson || borrowed) {
            memcpy(values[count++], lesson ? lesson->values : borrowed, sizeof(*values));
        }
    }
    table->memory = grids;
    table->grids = grids;
    table->values = (const float(*)[MOST_POINTS])values;
    return CARAT_OK;
}

bool tuning_same_shape(const struct tuning_line *x, const struct tuning_line *y)
{
    return memcmp(x->sizes, y->sizes, sizeof(x->sizes)) == 0 && x->batch == y->batch && x->type == y->type &&
           x->accuracy == y->accuracy && x->trans_a == y->trans_a && x->trans_b == y->trans_b;
}

/* ---- Learning from another device's text ---- */

enum { MOST_WAYS_OF_KIN = 64 };

/* What is learned of rows without ways from the text of another device. */
struct kin_school {
    const struct learning *learning;
    const struct tuning_table *table; /* with the grids alone */
    const struct ways *own;           /* sorted */
    struct ways *ways;                /* what is learned goes there */
    int *own_lines;                   /* of each row, by its number among the ways */
    int most_lines;                   /* of any */
    struct device_traits traits;
    struct tuning_line lines[MOST_WAYS_OF_KIN]; /* of one shape */
    int count;
    int shape; /* its number */
    double clock;
};

/*
 * Of kin's ways those count between which a choice will be made, nearly as quick as the quickest one; and of one shape in so many
 * all, which say where a row is slow.
 */
static const double NEARLY_AS_QUICK = 1.25;
enum { SHAPES_TO_ONE_WHOLE = 8 };

static carat_status meet_kin(struct kin_school *school, const struct tuning_head *head)
{
    school->traits = school->learning->traits;
    if (head->capability != school->traits.compute_capability ||
        head->multiprocessors != school->traits.multiprocessors) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "%s: %s, of compute capability %d with %d multiprocessors, is no kin of %s",
                    school->learning->kin->name, head->device, head->capability, head->multiprocessors,
                    school->traits.name);
    }
    school->traits.name = head->device;
    school->traits.memory_promised = memory_share_of(head->memory, head->clock, head->multiprocessors);
    school->traits.tuning = school->table;
    /* One of which nothing is known is taken for that which the model was fitted on. */
    double here = school->learning->traits.memory_promised > 0 ? school->learning->traits.memory_promised : 1;
    double there = school->traits.memory_promised > 0 ? school->traits.memory_promised : 1;
    school->traits.memory_share = there / here;
    school->clock = head->clock;
    return CARAT_OK;
}

/*
 * A row of few own lines, beside that which has most, is a young one: it has been timed where it is good, in large products mostly,
 * and what these say of small ones is that it is good there too.
 */
enum { YOUNG = 16 };

static bool is_known(const struct kin_school *school, const struct tuning_line *line)
{
    int lines = school->own_lines[ways_row(school->own, line->kernel)];
    return lines > 0 && lines >= school->most_lines / YOUNG;
}

static double quickest(const struct kin_school *school)
{
    double least = INFINITY;
    for (int i = 0; i < school->count; i++) {
        least = fmin(least, school->lines[i].microseconds);
    }
    return least;
}

/* How much more a way took on kin than is foreseen, as a factor; *place is NULL where there is no such way. */
static double factor_of_kin(const struct kin_school *school, struct way_finder *finder,
                            const struct tuning_line *line, const struct way_place **place)
{
    struct candidate way;
    *place = way_find(finder, line, &way);
    return *place ? cycles_there(&school->traits, &way, line->microseconds * school->clock) / way.foreseen
                  : 1;
}

/*
 * What kin's times of a shape are over those that this device's ways foresee, of the rows that both know: one may have been timed
 * in a warm cache, and the other not.
 */
static double kin_over_own(const struct kin_school *school, struct way_finder *finder)
{
    double sum = 0;
    int count = 0;
    for (int i = 0; i < school->count; i++) {
        const struct tuning_line *line = &school->lines[i];
        const struct way_place *place = NULL;
        if (is_known(school, line) &&
            line->microseconds <= NEARLY_AS_QUICK * NEARLY_AS_QUICK * quickest(school)) {
            double factor = factor_of_kin(school, finder, line, &place);
            if (place) {
                struct ways_near near;
                ways_look_up(school->own, line->kernel, place, &near);
                sum += log(factor / ways_factor(&near, line->parts, line->shares));
                count++;
            }
        }
    }
    return count > 0 ? exp(sum / count) : 1;
}

/* Learns from the lines of one shape. */
static bool learn_shape_of_kin(struct kin_school *school)
{
    struct problem problem;
    struct way_finder finder;
    bool fits = true;
    if (school->count == 0 || !tuning_whole_problem(&school->lines[0], &problem)) {
        return true;
    }
    way_finder_begin(&finder, &school->traits, &problem);
    double over_own = kin_over_own(school, &finder);
    for (int i = 0; i < school->count && fits; i++) {
        const struct tuning_line *line = &school->lines[i];
        const struct way_place *place = NULL;
        if (!is_known(school, line) && (school->shape % SHAPES_TO_ONE_WHOLE == 0 ||
                                        line->microseconds <= NEARLY_AS_QUICK * quickest(school))) {
            double factor = factor_of_kin(school, &finder, line, &place);
            fits = !place || ways_add_of_kin(school->ways, line->kernel, place, line->parts, line->shares,
                                             factor / over_own);
        }
    }
    return fits;
}

/*
 * What kin takes for 8-bit floats says little: packs of bytes have become quicker since the H200's were timed, so that ways with them
 * stand in one table as they were and in the other as they are.
 */
static bool is_narrow_float(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

static carat_status take_line_of_kin(void *context, const struct tuning_head *head,
                                     const struct tuning_line *line)
{
    struct kin_school *school = context;
    bool fits = true;
    if (!line->whole || !line->kernel || is_narrow_float(line->type)) {
        return CARAT_OK;
    }
    if (!school->traits.tuning) {
        CARAT_TRY(meet_kin(school, head));
    }
    if (school->count > 0 && !tuning_same_shape(line, &school->lines[0])) {
        fits = learn_shape_of_kin(school);
        school->count = 0;
        school->shape++;
    }
    if (school->count < MOST_WAYS_OF_KIN) {
        school->lines[school->count++] = *line;
    }
    return fits ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
}

/* Adds to ways what kin's text says of rows that these ways, sorted, know nothing of. */
static carat_status learn_from_kin(const struct learning *learning, const struct tuning_table *table,
                                   const struct ways *own, struct ways *ways)
{
    const struct tuning_text *kin = learning->kin;
    struct tuning_head head;
    struct kin_school *school = calloc(1, sizeof(*school));
    int *lines = calloc((size_t)carat_catalog_count + 1, sizeof(*lines));
    carat_status status =
        school && lines ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    if (status == CARAT_OK) {
        *school = (struct kin_school){
            .learning = learning, .table = table, .own = own, .ways = ways, .own_lines = lines};
        for (int i = 0; i < learning->whole_count; i++) {
            int of_row = ++lines[ways_row(own, learning->whole[i].kernel)];
            school->most_lines = of_row > school->most_lines ? of_row : school->most_lines;
        }
        status = tuning_read(kin->name, kin->text, kin->length, take_line_of_kin, school, &head);
    }
    if (status == CARAT_OK && !learn_shape_of_kin(school)) {
        status = fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    free(lines);
    free(school);
    return status;
}

/* Adds what is borrowed, and what the lines of whole ways say over what the model with the finished grids foresees. */
static bool add_own_ways(struct learning *learning, const struct tuning_table *table, double clock,
                         struct ways *ways)
{
    struct device_traits traits = learning->traits;
    const struct ways *borrowed = learning->base ? learning->base->ways : NULL;
    bool fits = ways && (!borrowed || ways_borrow(ways, borrowed, learning->base_at_its_word));
    struct problem problem;
    struct way_finder finder;
    bool is_problem = false;
    tuning_apply(table, &traits);
    for (int i = 0; i < learning->whole_count && fits; i++) {
        const struct tuning_line *line = &learning->whole[i];
        if (i == 0 || !tuning_same_shape(line, line - 1)) {
            is_problem = tuning_whole_problem(line, &problem);
            if (is_problem) {
                way_finder_begin(&finder, &traits, &problem);
            }
        }
        struct candidate way;
        const struct way_place *place = is_problem ? way_find(&finder, line, &way) : NULL;
        if (place) {
            fits = ways_add(ways, line->kernel, place, line->parts, line->shares,
                            cycles_there(&traits, &way, line->microseconds * clock) / way.foreseen);
            learning->is_empty = false;
        }
    }
    return fits;
}

/* Learns from whole ways, its own and, where it has kin, of rows that have none of theirs. */
static carat_status learn_ways(struct learning *learning, struct tuning_table *table, double clock)
{
    struct ways *own = ways_open();
    struct ways *all = learning->kin ? ways_open() : NULL;
    carat_status status = CARAT_OK;
    bool fits = add_own_ways(learning, table, clock, own) && ways_sort(own);
    if (fits && learning->kin) {
        fits = add_own_ways(learning, table, clock, all);
        status = fits ? learn_from_kin(learning, table, own, all) : CARAT_OK;
        fits = fits && (status != CARAT_OK || ways_sort(all));
    }
    if (status == CARAT_OK && !fits) {
        status = fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    bool with_kin = status == CARAT_OK && all;
    ways_close(with_kin || status != CARAT_OK ? own : NULL);
    ways_close(with_kin ? NULL : all);
    if (status == CARAT_OK) {
        table->ways = with_kin ? all : own;
    }
    return status;
}

static void forget(struct learning *learning)
{
    for (int slot = 0; learning->lessons && slot < grid_slots(); slot++) {
        free(learning->lessons[slot]);
    }
    free(learning->lessons);
    free(learning->whole);
    tuning_close(learning->base);
}

carat_status tuning_parse(const struct device_traits *traits, const char *name, const char *text,
                          size_t length, struct tuning_table **table)
{
    const struct tuning_text own = {name, text, length};
    return tuning_parse_beside(traits, &own, NULL, table);
}

carat_status tuning_parse_beside(const struct device_traits *traits, const struct tuning_text *own,
                                 const struct tuning_text *kin, struct tuning_table **table)
{
    *table = NULL;
    struct tuning_table *made = calloc(1, sizeof(*made));
    struct learning learning = {.traits = *traits, .is_empty = true, .kin = kin};
    learning.traits.tuning = NULL;
    learning.lessons = calloc((size_t)grid_slots(), sizeof(struct lesson *));
    struct tuning_head head;
    carat_status status = made && learning.lessons
                              ? tuning_read(own->name, own->text, own->length, take_line, &learning, &head)
                              : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    if (status == CARAT_OK && strcmp(head.device, traits->name) == 0) {
        status = open_base(&learning, &head); /* no line may have asked for it */
    }
    if (status == CARAT_OK) {
        status = keep_grids(&learning, made);
    }
    if (status == CARAT_OK && learning.base) {
        made->device = learning.base->device;
        made->relative = learning.base->relative;
        made->memory_share = learning.base->memory_share;
        made->adds = true;
        made->trees = learning.base->trees;
    }
    if (status == CARAT_OK && (learning.whole_count > 0 || learning.base)) {
        status = learn_ways(&learning, made, head.clock);
    }
    bool is_empty = learning.is_empty;
    forget(&learning);
    if (status != CARAT_OK || is_empty) {
        tuning_close(made);
        return status;
    }
    *table = made;
    return CARAT_OK;
}

/* ---- Tables ---- */

bool tuning_knows(const struct tuning_table *table, const struct kernel *kernel)
{
    bool known = false;
    for (int variant = 0; variant < TUNING_VARIANTS; variant++) {
        known = known || table->grids[slot_of(kernel, variant)] >= 0;
    }
    return known;
}

const struct ways *tuning_ways(const struct tuning_table *table) { return table->ways; }

const struct trees *tuning_trees(const struct tuning_table *table)
{
    return table->trees.count > 0 ? &table->trees : NULL;
}

void tuning_plant(struct tuning_table *table, const struct trees *trees) { table->trees = *trees; }

void tuning_leave_out(struct tuning_table *table)
{
    if (table->ways) {
        ways_leave_out(table->ways);
    }
}

carat_status tuning_open(const struct device_traits *traits, struct tuning_table **table)
{
    const char *path = getenv("CARAT_TUNING");
    *table = NULL;
    if (path) {
        char *text = NULL;
        size_t length = 0;
        if (*path) {
            CARAT_TRY(tuning_load(path, &text, &length));
        }
        carat_status status = *path ? tuning_parse(traits, path, text, length, table) : CARAT_OK;
        free(text);
        return status;
    }
    return tuning_open_shipped(traits, NULL, table);
}

void tuning_apply(const struct tuning_table *table, struct device_traits *traits)
{
    double of_table = table && table->memory_share > 0 ? table->memory_share : 1;
    traits->tuning = table;
    traits->memory_share = table && !table->relative ? 1 : traits->memory_promised / of_table;
}

const char *tuning_device(const struct tuning_table *table) { return table->device; }

const char *tuning_relative(const struct tuning_table *table) { return table->relative; }

bool tuning_adds(const struct tuning_table *table) { return table->adds; }
