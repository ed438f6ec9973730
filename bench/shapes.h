/*
 * shapes.h - shape files: the problems that are measured, one a line
 *
 *     dtype  layout  m n k [batch]
 *
 * layout is two letters N or T, of op(A) and op(B), column-major. # begins a comment.
 */
#ifndef CARAT_BENCH_SHAPES_H
#define CARAT_BENCH_SHAPES_H

#include <stdint.h>

#include "carat/carat.h"

struct shape {
    char dtype[8];   /* as written: also of types that Carat does not have */
    carat_type type; /* 0 where Carat does not have it */
    char layout[3];
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t batch;
};

struct shapes {
    struct shape *items;
    int count;
};

/*
 * Appends the shapes of a file to *shapes (begin with all zero, end with shapes_free). On a line that
 * is no shape, or a file that cannot be read: CARAT_INVALID_ARGUMENT with file and line in the message.
 */
carat_status shapes_read(const char *path, struct shapes *shapes);

/* Appends one line's shape, if it has one. place is the line's name in messages. */
carat_status shapes_read_line(const char *place, const char *line, struct shapes *shapes);

void shapes_free(struct shapes *shapes);

/* The column-major, tightly packed problem of a shape whose type Carat has. */
carat_gemm_problem shape_problem(const struct shape *shape);

#endif
