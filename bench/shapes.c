/* shapes.c - reads shape files. */
#include "shapes.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "status.h"

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
    if (strlen(dtype) >= sizeof(shape.dtype)) {
        return fail(CARAT_INVALID_ARGUMENT, "%s: '%s' is no element type", place, dtype);
    }
    snprintf(shape.dtype, sizeof(shape.dtype), "%s", dtype);
    if (!parse_type(dtype, &shape.type)) {
        shape.type = (carat_type)0;
    }

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
        if (!word || *end || errno || value < 1) {
            return fail(CARAT_INVALID_ARGUMENT, "%s: %s is '%s', not a whole number from 1", place, names[i],
                        word ? word : "");
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

void shapes_free(struct shapes *shapes)
{
    free(shapes->items);
    *shapes = (struct shapes){0};
}

carat_gemm_problem shape_problem(const struct shape *shape)
{
    carat_gemm_problem problem = carat_gemm_describe(shape->type, shape->m, shape->n, shape->k);
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
