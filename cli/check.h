/*
 * check.h - is a product right? Compares D with a reference of higher precision that shares no code with
 * the library, on all entries where that is cheap, else on the crossings of sampled rows and columns.
 */
#ifndef CARAT_CLI_CHECK_H
#define CARAT_CLI_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

/* One computed problem (batch 1, leading dimensions filled in), all of it in host memory. */
struct check_input {
    const carat_gemm_problem *problem;
    const void *alpha; /* as for carat_gemm, and so on */
    const void *a;
    const void *b;
    const void *beta;
    const void *c;
    const void *d;
    const void *bias; /* NULL where the problem has none */
    double scale_a;   /* 1 where none was given */
    double scale_b;
    double scale_d;
    /* The input was drawn with mean 0: errors then grow as the square root of k and not as k. */
    bool random;
    /* A tensor unit may have summed: it cuts off, and the sums of 8-bit floats have fewer bits than f32. */
    bool tensor_unit;
};

/*
 * With x = alpha scale_a scale_b op(A) op(B) + beta C + bias, an entry of D = scale_d act(x) is right when
 *
 *     |d - ref| <= (slope * (growth * u + rough) + few * u) * scale + u_d * |ref|
 *
 * where scale is that entry of |scale_d| (|alpha scale_a scale_b| |A||B| + |beta C| + |bias|), u the rounding unit
 * of the sums, u_d that of D where it is narrower, growth how many roundings can add up, rough what tf32
 * and the tensor unit's own sums of 8-bit floats lose, and slope the steepest of the activation. Sums of integers
 * have no rounding: D of s32 is right when equal. In best accuracy u is that of f64; and of f64 itself, whose sums are
 * compensated, growth * u is of the terms' sizes once they are summed, with 2 (k u)^2 |A||B| beside.
 */
struct check {
    bool pass;         /* no entry is wrong */
    bool exact;        /* D is s32: error and bound are 0 and mean nothing */
    double error;      /* max |d - ref| / scale */
    double bound;      /* what it may be */
    int64_t rows;      /* sampled, of m */
    int64_t columns;   /* sampled, of n */
    int64_t wrong;     /* entries among the sampled ones */
    int64_t worst_row; /* the wrong entry farthest off; without one, that of the largest error */
    int64_t worst_column;
    double worst_value;
    double worst_reference;
};

/* Checks a product. False where memory ran out. */
bool check_gemm(const struct check_input *input, struct check *check);

#endif
