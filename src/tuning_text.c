/* tuning_text.c - reads and writes the lines of tables of measured times. */
#include "tuning.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "plan.h"
#include "status.h"

enum { MOST_LINE = 300, MOST_WORDS = 8, VERSION = 1 };

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
    if (strcmp(line, "device") == 0 && head->device[0]) {
        return refuse(reading, "a table is of one device, but this is the second line 'device'");
    }
    if (strcmp(line, "device") == 0 && *value && strlen(value) < sizeof(head->device)) {
        snprintf(head->device, sizeof(head->device), "%s", value);
    } else if (strcmp(line, "over") == 0 && *value && strlen(value) < sizeof(head->over)) {
        snprintf(head->over, sizeof(head->over), "%s", value);
    } else if (strcmp(line, "library") == 0 && *value && strlen(value) < sizeof(head->library)) {
        snprintf(head->library, sizeof(head->library), "%s", value);
    } else if (strcmp(line, "capability") == 0 && is_number) {
        head->capability = (int)number;
    } else if (strcmp(line, "multiprocessors") == 0 && is_number) {
        head->multiprocessors = (int)number;
    } else if (strcmp(line, "driver") == 0 && is_number) {
        head->driver = (int)number;
    } else if (strcmp(line, "memory") == 0 && is_number) {
        head->memory = (int)number;
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
    enum { MOST_BYTES = 1 << 28 };
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
    bool too_long = *length >= MOST_BYTES;
    fclose(file);
    free(*text);
    *text = NULL;
    return unreadable ? fail(CARAT_INVALID_ARGUMENT, "%s: it cannot be read", path)
           : too_long ? fail(CARAT_INVALID_ARGUMENT, "%s: it has %d bytes or more, which no table has", path,
                             MOST_BYTES)
                      : fail(CARAT_OUT_OF_HOST_MEMORY, "%s: no memory for so long a file", path);
}

int tuning_head_text(const struct tuning_head *head, char *text, size_t size)
{
    char over[sizeof(head->over) + 8] = "";
    char memory[32] = "";
    if (head->over[0]) {
        snprintf(over, sizeof(over), "over %s\n", head->over);
    }
    if (head->memory > 0) {
        snprintf(memory, sizeof(memory), "memory %d\n", head->memory);
    }
    return snprintf(text, size,
                    "carat-tuning %d\ndevice %s\n%scapability %d\nmultiprocessors %d\n%sdriver %d\n"
                    "library %s\nclock %.0f\n",
                    VERSION, head->device, over, head->capability, head->multiprocessors, memory,
                    head->driver, head->library, head->clock);
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

bool tuning_whole_problem(const struct tuning_line *line, struct problem *checked)
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
    if (problem_check(&problem, checked) != CARAT_OK) {
        return false;
    }
    problem_simplify(checked);
    return checked->m == line->sizes[0] && checked->trans_a == line->trans_a &&
           checked->trans_b == line->trans_b;
}
