/*
 * shapes.h - shape files: the problems that are measured, one a line
 *
 *     dtype  layout  m n k [batch]
 *
 * dtype is a type's name, or one with "-fast", "-close", "-strict" or "-best" behind it where that accuracy is asked for; "tf32"
 * is "f32-fast". layout is two letters N or T, of op(A) and op(B), column-major. # begins a comment.
 */
#ifndef CARAT_BENCH_SHAPES_H
#define CARAT_BENCH_SHAPES_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

struct shape {
    char dtype[16];  /* as written: also of types that Carat does not have */
    carat_type type; /* 0 where Carat does not have it */
    carat_accuracy accuracy;
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

/* What shapes_random() and shapes_draw() draw from. */
struct draw {
    const char *dtypes; /* separated by commas, taken in turn */
    uint64_t seed;
    int64_t largest_side;   /* for shapes_draw() alone 0 is 16384, or twice that where the shape is thin */
    double most_operations; /* of a product; one with more is drawn again */
    double most_bytes;      /* of A, B and D */
};

/* Appends `count` shapes in every layout with sides from 1 up, even on a logarithmic scale. */
carat_status shapes_random(const struct draw *draw, int count, struct shapes *shapes);

/*
 * Shape number i of an endless series of the same kind, for tuning: half of them have sides that are multiples of 8 to
 * 128, as most that people use, some are as thin as a language model's, and some are batches. A type lasts for
 * SHAPES_OF_TYPE shapes. No series has anything to do with those of shapes_random().
 */
enum { SHAPES_OF_TYPE = 32 };
carat_status shapes_draw(const struct draw *draw, int i, struct shape *shape);

/*
 * Appends behind each shape of 8-bit floats the same one with fast accuracy: where these are measured, they are
 * measured both ways.
 */
carat_status shapes_add_fast(struct shapes *shapes);

/* Whether a list of dtypes, separated by commas, has the shape's; NULL has all. "e4m3" has "e4m3-fast" too. */
bool shape_wanted(const struct shape *shape, const char *dtypes);

void shapes_free(struct shapes *shapes);

/* The column-major, tightly packed problem of a shape whose type Carat has. */
carat_gemm_problem shape_problem(const struct shape *shape);

#endif
