/* shapes.c - reads shape files, and draws shapes at random. */
#include "shapes.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dtype.h"
#include "generate.h"
#include "options.h"
#include "status.h"
#include "workload.h"

static carat_status append(struct shapes *shapes, const struct shape *shape)
{
    /* Room grows by powers of two, so it is full exactly when count is one. */
    if ((shapes->count & (shapes->count - 1)) == 0) {
        size_t room = shapes->count ? (size_t)shapes->count * 2 : 1;
        struct shape *items = realloc(shapes->items, room * sizeof(*items));
        if (!items) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %zu shapes", room);
        }
        shapes->items = items;
    }
    shapes->items[shapes->count++] = *shape;
    return CARAT_OK;
}

static bool is_layout(const char *text)
{
    return strlen(text) == 2 && strchr("NT", text[0]) && strchr("NT", text[1]);
}

/* The type and the accuracy that a word asks for. */
static carat_status read_dtype(const char *place, const char *word, struct shape *shape)
{
    if (strlen(word) >= sizeof(shape->dtype)) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: '%s' is no element type", place, word);
    }
    snprintf(shape->dtype, sizeof(shape->dtype), "%s", word);
    if (!dtype_read(word, &shape->type, &shape->accuracy)) {
        shape->type = (carat_type)0;
    }
    return CARAT_OK;
}

carat_status shapes_read_line(const char *place, const char *line, struct shapes *shapes)
{
    char words[400];
    size_t length = strcspn(line, "#\r\n");
    if (length >= sizeof(words)) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: the line is %zu characters long", place, length);
    }
    memcpy(words, line, length);
    words[length] = 0;

    char *rest = NULL;
    char *dtype = strtok_r(words, " \t", &rest);
    if (!dtype) {
        return CARAT_OK;
    }
    struct shape shape = {.batch = 1};
    CARAT_TRY(read_dtype(place, dtype, &shape));

    char *layout = strtok_r(NULL, " \t", &rest);
    if (!layout || !is_layout(layout)) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: the layout is '%s', not NN, NT, TN or TT", place,
                    layout ? layout : "");
    }
    snprintf(shape.layout, sizeof(shape.layout), "%s", layout);

    int64_t *const numbers[] = {&shape.m, &shape.n, &shape.k, &shape.batch};
    const char *const names[] = {"m", "n", "k", "batch"};
    for (int i = 0; i < 4; i++) {
        char *word = strtok_r(NULL, " \t", &rest);
        if (!word && i == 3) {
            break;
        }
        char *end = NULL;
        errno = 0;
        long long value = word ? strtoll(word, &end, 10) : 0;
        /* So small that 64 bits hold the elements of a matrix, which are the stride of a batch. */
        if (!word || *end || errno || value < 1 || value > INT32_MAX) {
            return fail(CARAT_INVALID_ARGUMENT, "%s: %s is '%s', not a whole number from 1 to %d", place,
                        names[i], word ? word : "", INT32_MAX);
        }
        *numbers[i] = value;
    }
    char *extra = strtok_r(NULL, " \t", &rest);
    if (extra) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: '%s' after the batch", place, extra);
    }
    return append(shapes, &shape);
}

carat_status shapes_read(const char *path, struct shapes *shapes)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return fail(CARAT_INVALID_ARGUMENT, "cannot read %s: %s", path, strerror(errno));
    }
    char *line = NULL;
    size_t room = 0;
    carat_status status = CARAT_OK;
    for (int number = 1; status == CARAT_OK && getline(&line, &room, file) >= 0; number++) {
        char place[4200];
        snprintf(place, sizeof(place), "%s:%d", path, number);
        status = shapes_read_line(place, line, shapes);
    }
    if (status == CARAT_OK && ferror(file)) {
        status = fail(CARAT_INVALID_ARGUMENT, "cannot read %s: %s", path, strerror(errno));
    }
    free(line);
    fclose(file);
    return status;
}

/* ---- Shapes at random ---- */

/* A side from 1 to the largest: its logarithm is even. */
static int64_t draw_side(uint64_t *state, int64_t largest)
{
    double even = (double)(next_word(state) >> 11) * 0x1p-53;
    int64_t side = (int64_t)exp(even * log((double)largest + 1));
    return side < 1 ? 1 : side > largest ? largest : side;
}

/* The word number i of a list separated by commas, round and round. */
static void word_of_list(const char *list, int i, char *word, size_t size)
{
    int count = 1;
    for (const char *at = list; *at; at++) {
        count += *at == ',';
    }
    for (i %= count; i > 0; i--) {
        list = strchr(list, ',') + 1;
    }
    snprintf(word, size, "%.*s", (int)strcspn(list, ","), list);
}

/* Whether a shape is one that was asked for: thin ones, and sides that were rounded, may come out longer. */
static bool is_within(const struct draw *draw, const struct shape *shape)
{
    int64_t most = draw->largest_side ? draw->largest_side : INT64_MAX;
    carat_gemm_problem problem = shape_problem(shape);
    return shape->m <= most && shape->n <= most && shape->k <= most &&
           workload_operations(&problem) <= draw->most_operations &&
           workload_bytes(&problem) <= draw->most_bytes;
}

carat_status shapes_random(const struct draw *draw, int count, struct shapes *shapes)
{
    enum { PATIENCE = 10000 };
    uint64_t state = draw->seed;
    for (int i = 0; i < count; i++) {
        struct shape shape = {.batch = 1};
        char word[64];
        word_of_list(draw->dtypes, i, word, sizeof(word));
        CARAT_TRY(read_dtype("the list of types", word, &shape));
        if (!shape.type) {
            return fail(CARAT_INVALID_ARGUMENT, "'%s' is no element type", word);
        }
        bool fits = false;
        for (int tries = 0; !fits && tries < PATIENCE; tries++) {
            uint64_t layout = next_word(&state);
            shape.layout[0] = layout >> 32 & 1 ? 'T' : 'N';
            shape.layout[1] = layout >> 33 & 1 ? 'T' : 'N';
            shape.m = draw_side(&state, draw->largest_side);
            shape.n = draw_side(&state, draw->largest_side);
            shape.k = draw_side(&state, draw->largest_side);
            fits = is_within(draw, &shape);
        }
        if (!fits) {
            return fail(CARAT_INVALID_ARGUMENT, "hardly any shape has at most %g operations and %g bytes",
                        draw->most_operations, draw->most_bytes);
        }
        CARAT_TRY(append(shapes, &shape));
    }
    return CARAT_OK;
}

/* ---- Shapes to tune with ---- */

/* The nearest multiple, where there is one above 0. */
static int64_t round_to(int64_t side, int64_t unit)
{
    int64_t rounded = (side + unit / 2) / unit * unit;
    return rounded > 0 ? rounded : side;
}

/* Activations by weights: a few rows or columns, and a long other side and k. */
enum { MOST_FEW = 128, LEAST_LONG = 1024, LONG_RATIO = 32, K_RATIO = 16, LARGEST = LEAST_LONG * K_RATIO };
static void draw_thin(uint64_t *state, struct shape *shape)
{
    int64_t few = draw_side(state, MOST_FEW);
    int64_t many = LEAST_LONG * draw_side(state, LONG_RATIO);
    bool few_rows = next_word(state) >> 63;
    shape->m = few_rows ? few : many;
    shape->n = few_rows ? many : few;
    shape->k = LEAST_LONG * draw_side(state, K_RATIO);
}

static void draw_sides(const struct draw *draw, uint64_t *state, struct shape *shape)
{
    enum { MOST_BATCH = 64 };
    int64_t largest = draw->largest_side ? draw->largest_side : LARGEST;
    shape->batch = 1;
    if (next_word(state) % 10 == 0 && largest >= LARGEST) {
        draw_thin(state, shape);
        return;
    }
    shape->m = draw_side(state, largest);
    shape->n = draw_side(state, largest);
    shape->k = draw_side(state, largest);
    if (next_word(state) % 16 == 0) {
        shape->batch = draw_side(state, MOST_BATCH);
    }
    if (next_word(state) % 2 == 0) {
        static const int units[] = {8, 16, 64, 128};
        int unit = units[next_word(state) % 4];
        shape->m = round_to(shape->m, unit);
        shape->n = round_to(shape->n, unit);
        shape->k = round_to(shape->k, unit);
    }
}

carat_status shapes_draw(const struct draw *draw, int i, struct shape *shape)
{
    enum { PATIENCE = 10000 };
    char word[64];
    /* Another constant than the generator's own, so that no series runs into another. */
    uint64_t state = draw->seed * 0xd6e8feb86659fd93u + 0x7761797300000000u;
    state = next_word(&state) + (uint64_t)i;
    state = next_word(&state);
    *shape = (struct shape){.batch = 1};
    word_of_list(draw->dtypes, i / SHAPES_OF_TYPE, word, sizeof(word));
    CARAT_TRY(read_dtype("the list of types", word, shape));
    uint64_t layout = next_word(&state);
    shape->layout[0] = layout >> 32 & 1 ? 'T' : 'N';
    shape->layout[1] = layout >> 33 & 1 ? 'T' : 'N';
    for (int tries = 0; tries < PATIENCE && shape->type; tries++) {
        draw_sides(draw, &state, shape);
        if (is_within(draw, shape)) {
            return CARAT_OK;
        }
    }
    return fail(CARAT_INVALID_ARGUMENT, "no shape of '%s' can be drawn", word);
}

carat_status shapes_add_fast(struct shapes *shapes)
{
    struct shapes both = {0};
    carat_status status = CARAT_OK;
    for (int i = 0; i < shapes->count && status == CARAT_OK; i++) {
        struct shape shape = shapes->items[i];
        status = append(&both, &shape);
        bool is_float8 = shape.type == CARAT_E4M3 || shape.type == CARAT_E5M2;
        if (status == CARAT_OK && is_float8 && shape.accuracy == CARAT_ACCURACY_STANDARD) {
            shape.accuracy = CARAT_ACCURACY_FAST;
            snprintf(shape.dtype, sizeof(shape.dtype), "%s-fast", carat_type_name(shape.type));
            status = append(&both, &shape);
        }
    }
    shapes_free(status == CARAT_OK ? shapes : &both);
    if (status == CARAT_OK) {
        *shapes = both;
    }
    return status;
}

bool shape_wanted(const struct shape *shape, const char *dtypes)
{
    size_t whole = strlen(shape->dtype);
    size_t stem = strcspn(shape->dtype, "-");
    for (const char *word = dtypes; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        size_t length = strcspn(word, ",");
        if ((length == whole || length == stem) && strncmp(word, shape->dtype, length) == 0) {
            return true;
        }
    }
    return !dtypes;
}

void shapes_free(struct shapes *shapes)
{
    free(shapes->items);
    *shapes = (struct shapes){0};
}

carat_gemm_problem shape_problem(const struct shape *shape)
{
    carat_gemm_problem problem = carat_gemm_describe(shape->type, shape->m, shape->n, shape->k);
    problem.accuracy = shape->accuracy;
    problem.op_a = shape->layout[0] == 'T' ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = shape->layout[1] == 'T' ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.lda = problem.op_a == CARAT_TRANSPOSE ? shape->k : shape->m;
    problem.ldb = problem.op_b == CARAT_TRANSPOSE ? shape->n : shape->k;
    problem.ldc = shape->m;
    problem.ldd = shape->m;
    problem.batch = shape->batch;
    problem.stride_a = shape->m * shape->k;
    problem.stride_b = shape->k * shape->n;
    problem.stride_c = shape->m * shape->n;
    problem.stride_d = shape->m * shape->n;
    return problem;
}
