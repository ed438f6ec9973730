/* tuning.c - makes factors of measured times, and keeps them as an image that the build puts into the library. */
#include "tuning.h"

#include <assert.h>
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

/* Knots of the largest grid, and the room for them in a table: a multiple of 8 bytes. */
enum { MOST_POINTS = 9 * 5 * 3, POINT_ROOM = MOST_POINTS + 1 };

/* Logarithms of factors at the knots of a grid, in parts of 1 / VALUE_UNITS: to a fortieth of a percent. */
enum { VALUE_UNITS = 1 << 11 };
typedef int16_t grid_values[POINT_ROOM];
static_assert(sizeof(grid_values) % 8 == 0, "what lies behind grids in an image begins at 4 bytes");

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
    const grid_values *values; /* of each grid */
    void *memory;              /* in which both are; NULL: they lie in an image */
    struct ways *ways;         /* what whole ways say; NULL: nothing */
    struct trees trees;        /* a count of 0: none */
    const char *device;        /* of which it is in the library, or that to which it adds; NULL */
    const char *relative;      /* the same, where it is another one than this; NULL */
    double memory_share;       /* as in device_traits: of that whose memory is in its times */
    bool adds;                 /* times of this device to that one's */
    struct tuning_table *base; /* to which it adds: what is not here is there; NULL: to none */
};

/* What is learned of a text. */
struct learning {
    struct device_traits traits; /* without a table */
    struct tuning_table *base;   /* to which it adds; NULL: to none */
    struct lesson **lessons;     /* TUNING_VARIANTS a row; NULL: nothing measured */
    struct tuning_line
        *whole; /* the lines of whole ways, which wait for the grids, by which they are foreseen */
    int whole_count;
    bool is_empty;
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
    if (grid < 0 && table->base) {
        return tuning_factor(table->base, kernel, variant, point, known);
    }
    if (known) {
        *known = grid >= 0;
    }
    if (grid < 0) {
        return 1;
    }
    const int16_t *values = table->values[grid];
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
    return exp(sum / VALUE_UNITS);
}

void tuning_close(struct tuning_table *table)
{
    if (table) {
        free(table->memory);
        ways_close(table->ways);
        tuning_close(table->base);
    }
    free(table);
}

/* ---- Images ---- */

/*
 * What an image begins with; the grids' numbers and values follow, the trees, and what the ways say. One that adds to another has
 * what is its own.
 */
struct image_head {
    char device[128];
    char over[128]; /* another device, to whose table it adds; "": none */
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
                              .adds = table->base != NULL,
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

/* The image to which another one adds, which itself adds to none; NULL: it is not here. */
static const unsigned char *image_under(const struct image_head *over)
{
    const char *device = over->over[0] ? over->over : over->device;
    const unsigned char *const *image = carat_tunings;
    while (*image) {
        const struct image_head *head = (const struct image_head *)*image;
        if (!head->adds && head->slots == over->slots && strcmp(head->device, device) == 0) {
            break;
        }
        image++;
    }
    return *image;
}

/* Of an image that stays where it is, without what it adds to. */
static carat_status table_alone(const unsigned char *image, const struct device_traits *traits,
                                struct tuning_table **table)
{
    const struct image_head *head = (const struct image_head *)image;
    enum kinship kinship = kinship_of(head, traits);
    struct tuning_table *made = calloc(1, sizeof(*made));
    if (!made) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    made->grids = (const int32_t *)(head + 1);
    made->values = (const grid_values *)(made->grids + head->slots);
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
    if (made->ways && kinship < SAME_SIZE) {
        ways_take_no_word(made->ways);
    }
    made->device = head->device;
    made->adds = kinship == SAME_DEVICE && head->over[0];
    made->relative = kinship != SAME_DEVICE ? head->device : made->adds ? head->over : NULL;
    made->memory_share = (double)head->memory_share;
    *table = made;
    return CARAT_OK;
}

/* What is not in a table is in its base from now on, which is closed with it; NULL: it has none. */
static void lie_over(struct tuning_table *table, struct tuning_table *base)
{
    table->base = base;
    if (table->ways && base && base->ways) {
        ways_lie_over(table->ways, base->ways);
    }
}

static carat_status table_of_image(const unsigned char *image, const struct device_traits *traits,
                                   struct tuning_table **table)
{
    const struct image_head *head = (const struct image_head *)image;
    const unsigned char *under = head->adds ? image_under(head) : NULL;
    struct tuning_table *base = NULL;
    if (head->adds && !under) {
        return fail(CARAT_INVALID_ARGUMENT, "the table of %s adds to one that is not in this library",
                    head->device);
    }
    carat_status status = under ? table_alone(under, traits, &base) : CARAT_OK;
    if (status == CARAT_OK) {
        status = table_alone(image, traits, table);
    }
    if (status != CARAT_OK) {
        tuning_close(base);
        return status;
    }
    lie_over(*table, base);
    return CARAT_OK;
}

carat_status tuning_open_shipped(const struct device_traits *traits, const char *device,
                                 struct tuning_table **table)
{
    const unsigned char *nearest = NULL;
    double least = INFINITY;
    enum kinship kinship = STRANGERS;
    *table = NULL;
    for (const unsigned char *const *image = carat_tunings; *image; image++) {
        const struct image_head *head = (const struct image_head *)*image;
        enum kinship here = kinship_of(head, traits);
        double distance = memory_distance(head, traits);
        bool is_nearer = here > kinship || distance < least || (distance == least && head->adds);
        bool is_asked_for = !device || strcmp(head->device, device) == 0;
        if (here != STRANGERS && here >= kinship && is_nearer && is_asked_for) {
            nearest = *image;
            kinship = here;
            least = distance;
        }
    }
    return nearest ? table_of_image(nearest, traits, table) : CARAT_OK;
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
    if (!head->over[0] || learning->base) {
        return CARAT_OK;
    }
    CARAT_TRY(tuning_open_shipped(&learning->traits, head->over, &learning->base));
    if (!learning->base) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "the table adds to that of %s, but the library has none for a device like this one",
                    head->over);
    }
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

/* Factors are between LEAST_FACTOR and MOST_FACTOR, whose logarithms there is room for. */
static void put_values(const struct lesson *lesson, grid_values values)
{
    for (int i = 0; i < MOST_POINTS; i++) {
        values[i] = (int16_t)lrintf(lesson->values[i] * (float)VALUE_UNITS);
    }
    values[MOST_POINTS] = 0;
}

/* Finishes all grids, and puts them into the table. */
static carat_status keep_grids(const struct learning *learning, struct tuning_table *table)
{
    int count = 0;
    for (int slot = 0; slot < grid_slots(); slot++) {
        count += learning->lessons[slot] != NULL;
    }
    size_t slot_bytes = (size_t)grid_slots() * sizeof(int32_t);
    int32_t *grids = malloc(slot_bytes + (size_t)count * sizeof(*table->values) + 1);
    if (!grids) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    grid_values *values = (grid_values *)(grids + grid_slots());
    count = 0;
    for (int slot = 0; slot < grid_slots(); slot++) {
        struct lesson *lesson = learning->lessons[slot];
        grids[slot] = lesson ? count : -1;
        if (lesson) {
            finish(tuning_axes(carat_catalog[slot / TUNING_VARIANTS].operation), lesson);
            put_values(lesson, values[count++]);
        }
    }
    table->memory = grids;
    table->grids = grids;
    table->values = (const grid_values *)values;
    return CARAT_OK;
}

bool tuning_same_shape(const struct tuning_line *x, const struct tuning_line *y)
{
    return memcmp(x->sizes, y->sizes, sizeof(x->sizes)) == 0 && x->batch == y->batch && x->type == y->type &&
           x->accuracy == y->accuracy && x->trans_a == y->trans_a && x->trans_b == y->trans_b;
}

/* ---- Learning from whole ways ---- */

/* Adds what the lines of whole ways say over what the model with the finished grids foresees. */
static bool add_own_ways(struct learning *learning, const struct tuning_table *table, double clock,
                         struct ways *ways)
{
    struct device_traits traits = learning->traits;
    bool fits = ways != NULL;
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

static carat_status learn_ways(struct learning *learning, struct tuning_table *table, double clock)
{
    struct ways *ways = ways_open();
    bool fits = add_own_ways(learning, table, clock, ways) && ways_sort(ways);
    if (!fits) {
        bool too_many = ways_are_too_many(ways);
        ways_close(ways);
        return too_many
                   ? fail(CARAT_INVALID_ARGUMENT,
                          "a tuning table has more different problems than can be kept, %d, or their sides "
                          "have more lengths, %d",
                          WAYS_MOST_PROBLEMS, WAYS_MOST_LENGTHS)
                   : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    table->ways = ways;
    lie_over(table, table->base);
    return CARAT_OK;
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
    *table = NULL;
    struct tuning_table *made = calloc(1, sizeof(*made));
    struct learning learning = {.traits = *traits, .is_empty = true};
    learning.traits.tuning = NULL;
    learning.lessons = calloc((size_t)grid_slots(), sizeof(struct lesson *));
    struct tuning_head head;
    carat_status status = made && learning.lessons
                              ? tuning_read(name, text, length, take_line, &learning, &head)
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
        made->base = learning.base;
        learning.base = NULL;
    }
    if (status == CARAT_OK && (learning.whole_count > 0 || made->base)) {
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
    return known || (table->base && tuning_knows(table->base, kernel));
}

const struct ways *tuning_ways(const struct tuning_table *table)
{
    return !table->ways && table->base ? tuning_ways(table->base) : table->ways;
}

const struct trees *tuning_trees(const struct tuning_table *table)
{
    const struct trees *of_base = table->base ? tuning_trees(table->base) : NULL;
    return table->trees.count > 0 ? &table->trees : of_base;
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
