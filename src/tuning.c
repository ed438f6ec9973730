/* tuning.c - reads tables of measured times, and makes factors of them. */
#include "tuning.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "plan.h"
#include "status.h"

enum { MOST_LINE = 300, MOST_WORDS = 8, VERSION = 1 };

/* Beyond these, times over what the model foresees are no measurements; products of them would not stay finite. */
static const double LEAST_FACTOR = 1e-6;
static const double MOST_FACTOR = 1e6;

/* Of two measurements as near as this to a knot both count. */
static const float SAME_DISTANCE = 0.1F;

static const char *const layouts[4] = {"NN", "NT", "TN", "TT"};

/* ---- Text ---- */

enum { ROW_SLOTS = 512 };

/* The line that is being read, for messages, and what lines before it said; many lines are of one row. */
struct reading {
    const char *name;
    int line;
    const struct kernel *rows[ROW_SLOTS];
    struct tuning_line shape; /* of the whole ways that follow; of no size before the first */
};

/* Fails, with file and line before the words. */
__attribute__((format(printf, 2, 3))) static carat_status refuse(struct reading *reading, const char *format,
                                                                 ...)
{
    char words[300];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof(words), format, list);
    va_end(list);
    return fail(CARAT_INVALID_ARGUMENT, "%s, line %d: %s", reading->name, reading->line, words);
}

static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* Cuts a line into words at its blanks; more than there is room for count, but are lost. */
static int cut(char *line, char **words)
{
    int count = 0;
    for (char *at = line; *at;) {
        if (is_blank(*at)) {
            *at++ = 0;
            continue;
        }
        if (count < MOST_WORDS) {
            words[count] = at;
        }
        count++;
        while (*at && !is_blank(*at)) {
            at++;
        }
    }
    return count;
}

static bool read_size(const char *word, int64_t *value)
{
    *value = 0;
    for (const char *at = word; *at; at++) {
        if (*at < '0' || *at > '9' || *value > (INT64_MAX - 9) / 10) {
            return false;
        }
        *value = 10 * *value + (*at - '0');
    }
    return *value > 0;
}

/* Digits with or without a point among them, in every locale; strtod reads what the program's locale writes. */
static bool read_real(const char *word, double *value)
{
    double place = 0; /* of the next digit, behind the point */
    *value = 0;
    if (*word < '0' || *word > '9') {
        return false;
    }
    for (; *word; word++) {
        if (*word == '.' && place == 0) {
            place = 0.1;
        } else if (*word >= '0' && *word <= '9') {
            *value = place == 0 ? 10 * *value + (*word - '0') : *value + place * (*word - '0');
            place /= 10;
        } else {
            return false;
        }
    }
    return *value > 0 && *value < 1e15;
}

static carat_status read_head(struct reading *reading, char *line, struct tuning_head *head)
{
    char *value = line + strcspn(line, " \t");
    if (*value) {
        *value++ = 0;
        value += strspn(value, " \t");
    }
    value[strcspn(value, "\r")] = 0;
    int64_t number = 0;
    bool is_number = read_size(value, &number) && number <= INT32_MAX;
    if (strcmp(line, "device") == 0 && *value && strlen(value) < sizeof(head->device)) {
        snprintf(head->device, sizeof(head->device), "%s", value);
    } else if (strcmp(line, "library") == 0 && *value && strlen(value) < sizeof(head->library)) {
        snprintf(head->library, sizeof(head->library), "%s", value);
    } else if (strcmp(line, "capability") == 0 && is_number) {
        head->capability = (int)number;
    } else if (strcmp(line, "multiprocessors") == 0 && is_number) {
        head->multiprocessors = (int)number;
    } else if (strcmp(line, "driver") == 0 && is_number) {
        head->driver = (int)number;
    } else if (strcmp(line, "clock") == 0 && read_real(value, &head->clock)) {
        return CARAT_OK;
    } else {
        return refuse(reading, "'%.60s %.60s' is no line of a tuning table", line, value);
    }
    return CARAT_OK;
}

/* The kinds of lines: a word for the layout or none, then so many sizes, then the time. */
static const struct line_kind {
    const char *word;
    int operation;
    bool has_variant;
    int sizes;
} kinds[] = {
    {"product", OPERATION_GEMM, true, 3},
    {"pack", OPERATION_PACK, true, 2},
    {"reduce", OPERATION_REDUCE, false, 2},
};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static bool begins_with(const char *line, const char *word)
{
    size_t length = strlen(word);
    return strncmp(line, word, length) == 0 && (!line[length] || is_blank(line[length]));
}

/* Of the line's first word; NULL where it is of the head, or of whole ways. */
static const struct line_kind *kind_of(const char *line)
{
    for (int i = 0; i < KINDS; i++) {
        if (begins_with(line, kinds[i].word)) {
            return &kinds[i];
        }
    }
    return NULL;
}

static bool read_variant(const char *word, struct tuning_line *line)
{
    if (line->operation == OPERATION_PACK) {
        line->turned = strcmp(word, "turned") == 0;
        return line->turned || strcmp(word, "straight") == 0;
    }
    for (int i = 0; i < 4; i++) {
        if (strcmp(word, layouts[i]) == 0) {
            line->trans_a = i >= 2;
            line->trans_b = i % 2 == 1;
            return true;
        }
    }
    return false;
}

static const struct kernel *find_row(struct reading *reading, const char *name)
{
    unsigned hash = 0;
    for (const char *at = name; *at; at++) {
        hash = hash * 31 + (unsigned char)*at;
    }
    const struct kernel **slot = &reading->rows[hash % ROW_SLOTS];
    if (!*slot || strcmp((*slot)->name, name) != 0) {
        *slot = catalog_find(name);
    }
    return *slot;
}

static carat_status read_line(struct reading *reading, const struct line_kind *kind, char *text,
                              struct tuning_line *line)
{
    char *words[MOST_WORDS] = {NULL};
    int expected = 3 + kind->has_variant + kind->sizes;
    int count = cut(text, words);
    *line = (struct tuning_line){.operation = kind->operation};
    if (count != expected) {
        return refuse(reading, "a %s has %d words, but this line has %d", kind->word, expected, count);
    }
    line->kernel = find_row(reading, words[1]);
    if (line->kernel && line->kernel->operation != kind->operation) {
        return refuse(reading, "%.60s is no row for a %s", words[1], kind->word);
    }
    if (kind->has_variant && !read_variant(words[2], line)) {
        return refuse(reading, "'%.60s' is neither %s", words[2],
                      kind->operation == OPERATION_PACK ? "straight nor turned" : "NN, NT, TN nor TT");
    }
    char **sizes = words + 2 + kind->has_variant;
    for (int i = 0; i < kind->sizes; i++) {
        if (!read_size(sizes[i], &line->sizes[i])) {
            return refuse(reading, "'%.60s' is no size", sizes[i]);
        }
    }
    if (!read_real(sizes[kind->sizes], &line->microseconds)) {
        return refuse(reading, "'%.60s' is no time", sizes[kind->sizes]);
    }
    return CARAT_OK;
}

static carat_status read_shape(struct reading *reading, char *text)
{
    char *words[MOST_WORDS] = {NULL};
    int count = cut(text, words);
    struct tuning_line *shape = &reading->shape;
    *shape = (struct tuning_line){.operation = OPERATION_GEMM, .whole = true, .batch = 1};
    if (count != 6 && count != 7) {
        return refuse(reading, "a shape has 6 or 7 words, but this line has %d", count);
    }
    if (!dtype_read(words[1], &shape->type, &shape->accuracy)) {
        return refuse(reading, "'%.60s' is no type", words[1]);
    }
    if (!read_variant(words[2], shape)) {
        return refuse(reading, "'%.60s' is neither NN, NT, TN nor TT", words[2]);
    }
    int64_t *const sizes[] = {&shape->sizes[0], &shape->sizes[1], &shape->sizes[2], &shape->batch};
    for (int i = 3; i < count; i++) {
        if (!read_size(words[i], sizes[i - 3]) || *sizes[i - 3] > INT32_MAX) {
            return refuse(reading, "'%.60s' is no size of a shape", words[i]);
        }
    }
    return CARAT_OK;
}

static carat_status read_way(struct reading *reading, char *text, struct tuning_line *line)
{
    enum { EXPECTED = 5 };
    char *words[MOST_WORDS] = {NULL};
    int count = cut(text, words);
    int64_t parts = 1;
    *line = reading->shape;
    if (!line->whole) {
        return refuse(reading, "a way before any line 'shape'");
    }
    if (count != EXPECTED) {
        return refuse(reading, "a way has %d words, but this line has %d", EXPECTED, count);
    }
    line->kernel = find_row(reading, words[1]);
    if (line->kernel && line->kernel->operation != OPERATION_GEMM) {
        return refuse(reading, "%.60s is no row for a product", words[1]);
    }
    if (strlen(words[2]) != sizeof(line->packs)) {
        return refuse(reading, "'%.60s' is no letter for each of A and B", words[2]);
    }
    memcpy(line->packs, words[2], sizeof(line->packs));
    line->shares = strcmp(words[3], "shared") == 0;
    if (!line->shares && (!read_size(words[3], &parts) || parts > MOST_PARTS)) {
        return refuse(reading, "'%.60s' is neither a number of parts up to %d nor 'shared'", words[3],
                      MOST_PARTS);
    }
    line->parts = (int)parts;
    return read_real(words[4], &line->microseconds) ? CARAT_OK
                                                    : refuse(reading, "'%.60s' is no time", words[4]);
}

static carat_status read_any(struct reading *reading, char *text, tuning_reader *take, void *context,
                             struct tuning_head *head)
{
    const struct line_kind *kind = kind_of(text);
    bool is_way = begins_with(text, "way");
    if (begins_with(text, "shape")) {
        return read_shape(reading, text);
    }
    if (!kind && !is_way) {
        return read_head(reading, text, head);
    }
    if (!head->device[0] || head->clock == 0) {
        return refuse(reading, "a time before the lines 'device' and 'clock'");
    }
    struct tuning_line line;
    CARAT_TRY(is_way ? read_way(reading, text, &line) : read_line(reading, kind, text, &line));
    return take(context, head, &line);
}

carat_status tuning_read(const char *name, const char *text, size_t length, tuning_reader *take,
                         void *context, struct tuning_head *head)
{
    char first[32];
    struct reading reading = {.name = name};
    *head = (struct tuning_head){.clock = 0};
    snprintf(first, sizeof(first), "carat-tuning %d", VERSION);
    for (const char *at = text, *end = text + length; at < end || reading.line == 0;) {
        const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        size_t size = (size_t)((newline ? newline : end) - at);
        char line[MOST_LINE];
        reading.line++;
        if (size >= sizeof(line) || memchr(at, 0, size)) {
            return refuse(&reading, "no line of text of less than %d characters", MOST_LINE);
        }
        memcpy(line, at, size);
        line[size] = 0;
        at = newline ? newline + 1 : end;
        char *comment = strpbrk(line, "\r#");
        if (comment) {
            *comment = 0;
        }
        if (reading.line == 1 && strcmp(line, first) != 0) {
            return refuse(&reading, "a tuning table begins with '%s'", first);
        }
        if (reading.line > 1 && line[strspn(line, " \t")]) {
            CARAT_TRY(read_any(&reading, line, take, context, head));
        }
    }
    return head->device[0] && head->clock > 0
               ? CARAT_OK
               : refuse(&reading, "the file ends without the lines 'device' and 'clock'");
}

carat_status tuning_load(const char *path, char **text, size_t *length)
{
    enum { MOST_BYTES = 1 << 26 };
    *text = NULL;
    *length = 0;
    FILE *file = fopen(path, "r");
    if (!file) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: %s", path, strerror(errno));
    }
    for (size_t room = 1 << 16; room <= MOST_BYTES; room *= 2) {
        char *longer = realloc(*text, room);
        if (!longer) {
            break;
        }
        *text = longer;
        *length += fread(*text + *length, 1, room - *length, file);
        if (ferror(file)) {
            break;
        }
        if (*length < room) {
            fclose(file);
            return CARAT_OK;
        }
    }
    bool unreadable = ferror(file);
    fclose(file);
    free(*text);
    *text = NULL;
    return unreadable ? fail(CARAT_INVALID_ARGUMENT, "%s: it cannot be read", path)
                      : fail(CARAT_OUT_OF_HOST_MEMORY, "%s: no memory for so long a file", path);
}

int tuning_head_text(const struct tuning_head *head, char *text, size_t size)
{
    return snprintf(text, size,
                    "carat-tuning %d\ndevice %s\ncapability %d\nmultiprocessors %d\ndriver %d\nlibrary %s\n"
                    "clock %.0f\n",
                    VERSION, head->device, head->capability, head->multiprocessors, head->driver,
                    head->library, head->clock);
}

int tuning_shape_text(const struct tuning_line *line, char *text, size_t size)
{
    char batch[24] = "";
    if (line->batch != 1) {
        snprintf(batch, sizeof(batch), " %" PRId64, line->batch);
    }
    return snprintf(text, size, "shape %s%s %s %" PRId64 " %" PRId64 " %" PRId64 "%s\n",
                    carat_type_name(line->type), accuracy_ending(line->accuracy),
                    layouts[line->trans_a * 2 + line->trans_b], line->sizes[0], line->sizes[1],
                    line->sizes[2], batch);
}

static int way_text(const struct tuning_line *line, char *text, size_t size)
{
    char parts[24];
    snprintf(parts, sizeof(parts), "%d", line->parts);
    return snprintf(text, size, "way %s %.2s %s %.3f\n", line->kernel->name, line->packs,
                    line->shares ? "shared" : parts, line->microseconds);
}

int tuning_line_text(const struct tuning_line *line, char *text, size_t size)
{
    const char *name = line->kernel->name;
    if (line->whole) {
        return way_text(line, text, size);
    }
    if (line->operation == OPERATION_GEMM) {
        return snprintf(text, size, "product %s %s %" PRId64 " %" PRId64 " %" PRId64 " %.3f\n", name,
                        layouts[line->trans_a * 2 + line->trans_b], line->sizes[0], line->sizes[1],
                        line->sizes[2], line->microseconds);
    }
    if (line->operation == OPERATION_PACK) {
        return snprintf(text, size, "pack %s %s %" PRId64 " %" PRId64 " %.3f\n", name,
                        line->turned ? "turned" : "straight", line->sizes[0], line->sizes[1],
                        line->microseconds);
    }
    return snprintf(text, size, "reduce %s %" PRId64 " %" PRId64 " %.3f\n", name, line->sizes[0],
                    line->sizes[1], line->microseconds);
}

carat_gemm_problem tuning_problem(const struct kernel *kernel, bool trans_a, bool trans_b, int64_t m,
                                  int64_t n, int64_t k)
{
    carat_gemm_problem problem = carat_gemm_describe((carat_type)kernel->element, m, n, k);
    problem.order = CARAT_COLUMN_MAJOR;
    problem.op_a = trans_a ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = trans_b ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    if (kernel->element_b) {
        problem.type_b = (carat_type)kernel->element_b;
    }
    if (kernel->accuracy != 0) {
        problem.accuracy = (carat_accuracy)kernel->accuracy;
    } else if (kernel->element == ELEMENT_F32 && kernel->splits == 0) {
        problem.accuracy = CARAT_ACCURACY_STRICT; /* standard may have other ways, which are not the row's */
    }
    return problem;
}

carat_gemm_problem tuning_whole_problem(const struct tuning_line *line)
{
    carat_gemm_problem problem =
        carat_gemm_describe(line->type, line->sizes[0], line->sizes[1], line->sizes[2]);
    problem.order = CARAT_COLUMN_MAJOR;
    problem.op_a = line->trans_a ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = line->trans_b ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.accuracy = line->accuracy;
    problem.batch = line->batch;
    if (line->batch > 1) {
        problem.stride_a = line->sizes[0] * line->sizes[2];
        problem.stride_b = line->sizes[2] * line->sizes[1];
        problem.stride_c = problem.stride_d = line->sizes[0] * line->sizes[1];
    }
    return problem;
}

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

/*
 * Logarithms of factors at the knots; until finish() the sums of those that were measured nearest to the knot, how
 * many these are, and how far away.
 */
enum { MOST_POINTS = TUNING_MOST_KNOTS * TUNING_MOST_KNOTS * 3 };
struct grid {
    float values[MOST_POINTS];
    float distances[MOST_POINTS];
    int counts[MOST_POINTS]; /* no more than there are lines in the longest file */
};

/* The grid of one row and variant; NULL: nothing measured. */
struct slot {
    struct grid *grid;
};

struct tuning_table {
    struct device_traits traits; /* without a table */
    bool is_empty;
    struct slot *slots;        /* TUNING_VARIANTS a row of the catalogue */
    struct tuning_line *whole; /* the lines of whole ways, until the grids are done */
    int whole_count;
    struct ways *ways; /* what they say then; NULL: nothing */
};

static int index_of(const int knots[3])
{
    return (knots[2] * TUNING_MOST_KNOTS + knots[1]) * TUNING_MOST_KNOTS + knots[0];
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

static struct grid **grid_of(const struct tuning_table *table, const struct kernel *kernel, int variant)
{
    return &table->slots[(kernel - carat_catalog) * TUNING_VARIANTS + variant].grid;
}

static carat_status learn(const struct tuning_table *table, const struct kernel *kernel, int variant,
                          struct tuning_point point, double factor)
{
    struct grid **grid = grid_of(table, kernel, variant);
    if (!*grid) {
        *grid = calloc(1, sizeof(**grid));
    }
    if (!*grid) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    const struct tuning_axes *axes = tuning_axes(kernel->operation);
    int knots[3];
    float distance = 0;
    for (int axis = 0; axis < 3; axis++) {
        knots[axis] = nearest_knot(axes, axis, point.at[axis]);
        distance += (float)fabs(axes->knots[axis][knots[axis]] - point.at[axis]);
    }
    int i = index_of(knots);
    if ((*grid)->counts[i] == 0 || distance < (*grid)->distances[i] - SAME_DISTANCE) {
        (*grid)->counts[i] = 0;
        (*grid)->values[i] = 0;
        (*grid)->distances[i] = distance;
    }
    if (distance < (*grid)->distances[i] + SAME_DISTANCE) {
        (*grid)->values[i] += (float)log(fmin(fmax(factor, LEAST_FACTOR), MOST_FACTOR));
        (*grid)->counts[i]++;
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
static int next_measured(const struct tuning_axes *axes, const struct grid *grid, const int from[3], int axis,
                         int step)
{
    int knots[3] = {from[0], from[1], from[2]};
    do {
        knots[axis] += step;
    } while (knots[axis] >= 0 && knots[axis] < axes->counts[axis] && grid->counts[index_of(knots)] == 0);
    return knots[axis] < axes->counts[axis] ? knots[axis] : -1;
}

/* What was measured on the same line along an axis says of a knot between, or behind, which was not measured. */
static bool value_between(const struct tuning_axes *axes, const struct grid *grid, const int from[3],
                          int axis, float *value)
{
    int ends[2] = {next_measured(axes, grid, from, axis, -1), next_measured(axes, grid, from, axis, 1)};
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
    *value = (float)((1 - share) * (double)grid->values[index_of(below)] +
                     share * (double)grid->values[index_of(above)]);
    return true;
}

/*
 * Turns sums into means, and fills what was not measured: from other numbers of blocks, where there are none
 * from other k, and last from problems of another thinness.
 */
static void finish(const struct tuning_axes *axes, struct grid *grid)
{
    for (int knots[3] = {-1, 0, 0}; next_knot(axes, knots);) {
        int i = index_of(knots);
        if (grid->counts[i] > 0) {
            grid->values[i] /= (float)grid->counts[i];
        }
    }
    for (int axis = 0; axis < 3; axis++) {
        const struct grid before = *grid;
        for (int knots[3] = {-1, 0, 0}; next_knot(axes, knots);) {
            int i = index_of(knots);
            if (before.counts[i] == 0 && value_between(axes, &before, knots, axis, &grid->values[i])) {
                grid->counts[i] = 1;
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
    const struct grid *grid = *grid_of(table, kernel, variant);
    if (known) {
        *known = grid != NULL;
    }
    if (!grid) {
        return 1;
    }
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
            sum += weight * (double)grid->values[index_of(knots)];
        }
    }
    return exp(sum);
}

/* ---- Tables ---- */

void tuning_close(struct tuning_table *table)
{
    if (table && table->slots) {
        for (int i = 0; i < carat_catalog_count * TUNING_VARIANTS; i++) {
            free(table->slots[i].grid);
        }
        free(table->slots);
        free(table->whole);
        ways_close(table->ways);
    }
    free(table);
}

/* Whole ways wait for the grids, by which they are foreseen. */
static carat_status keep_whole(struct tuning_table *table, const struct tuning_line *line)
{
    /* Room grows by powers of two, so it is full exactly when count is one. */
    if ((table->whole_count & (table->whole_count - 1)) == 0) {
        size_t room = table->whole_count ? (size_t)table->whole_count * 2 : 1;
        struct tuning_line *whole = realloc(table->whole, room * sizeof(*whole));
        if (!whole) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
        }
        table->whole = whole;
    }
    table->whole[table->whole_count++] = *line;
    return CARAT_OK;
}

/* Takes a line into the table, if its device and row are at hand. */
static carat_status take_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct tuning_table *table = context;
    if (!line->kernel || strcmp(head->device, table->traits.name) != 0) {
        return CARAT_OK;
    }
    if (line->whole) {
        return keep_whole(table, line);
    }
    double cycles;
    int variant;
    struct tuning_point point;
    if (!plan_predict(&table->traits, line, &cycles, &variant, &point)) {
        return CARAT_OK;
    }
    table->is_empty = false;
    return learn(table, line->kernel, variant, point, line->microseconds * head->clock / cycles);
}

static bool same_shape(const struct tuning_line *x, const struct tuning_line *y)
{
    return memcmp(x->sizes, y->sizes, sizeof(x->sizes)) == 0 && x->batch == y->batch && x->type == y->type &&
           x->accuracy == y->accuracy && x->trans_a == y->trans_a && x->trans_b == y->trans_b;
}

/* Learns from the lines of whole ways what the model with the finished grids does not foresee. */
static carat_status learn_ways(struct tuning_table *table, double clock)
{
    struct device_traits traits = table->traits;
    struct ways *ways = ways_open();
    bool fits = ways != NULL;
    struct problem problem;
    struct way_finder finder;
    bool is_problem = false;
    traits.tuning = table;
    for (int i = 0; i < table->whole_count && fits; i++) {
        const struct tuning_line *line = &table->whole[i];
        if (i == 0 || !same_shape(line, line - 1)) {
            carat_gemm_problem described = tuning_whole_problem(line);
            is_problem = problem_check(&described, &problem) == CARAT_OK;
            if (is_problem) {
                way_finder_begin(&finder, &traits, &problem);
            }
        }
        struct candidate way;
        const struct way_place *place = is_problem ? way_find(&finder, line, &way) : NULL;
        if (place) {
            fits = ways_add(ways, line->kernel, place, line->parts, line->shares,
                            line->microseconds * clock / way.cycles);
            table->is_empty = false;
        }
    }
    fits = fits && ways_sort(ways);
    if (!fits) {
        ways_close(ways);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    table->ways = ways;
    free(table->whole);
    table->whole = NULL;
    return CARAT_OK;
}

carat_status tuning_parse(const struct device_traits *traits, const char *name, const char *text,
                          size_t length, struct tuning_table **table)
{
    *table = NULL;
    struct tuning_table *made = calloc(1, sizeof(*made));
    if (made) {
        made->traits = *traits;
        made->traits.tuning = NULL;
        made->is_empty = true;
        made->slots = calloc((size_t)carat_catalog_count * TUNING_VARIANTS, sizeof(*made->slots));
    }
    if (!made || !made->slots) {
        free(made);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a tuning table");
    }
    struct tuning_head head;
    carat_status status = tuning_read(name, text, length, take_line, made, &head);
    for (int i = 0; i < carat_catalog_count * TUNING_VARIANTS && status == CARAT_OK; i++) {
        if (made->slots[i].grid) {
            finish(tuning_axes(carat_catalog[i / TUNING_VARIANTS].operation), made->slots[i].grid);
        }
    }
    if (status == CARAT_OK && made->whole_count > 0) {
        status = learn_ways(made, head.clock);
    }
    if (status != CARAT_OK || made->is_empty) {
        tuning_close(made);
        return status;
    }
    *table = made;
    return CARAT_OK;
}

const struct ways *tuning_ways(const struct tuning_table *table) { return table->ways; }

void tuning_leave_out(struct tuning_table *table)
{
    if (table->ways) {
        ways_leave_out(table->ways);
    }
}

/* Ends the reading where the head does. */
static carat_status stop(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    (void)context;
    (void)head;
    (void)line;
    return CARAT_UNSUPPORTED;
}

/* Whether a table of the library is of a device, by its head alone. */
static bool is_of(const struct tuning_source *source, const char *device)
{
    struct tuning_head head;
    tuning_read(source->name, source->text, (size_t)(source->text_end - source->text), stop, NULL, &head);
    return strcmp(head.device, device) == 0;
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
    for (const struct tuning_source *source = carat_tunings; source->name && !*table; source++) {
        if (is_of(source, traits->name)) {
            size_t length = (size_t)(source->text_end - source->text);
            CARAT_TRY(tuning_parse(traits, source->name, source->text, length, table));
        }
    }
    return CARAT_OK;
}
