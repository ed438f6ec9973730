/*
 * check.h - is a product right? Compares D with a reference of higher precision that shares no code with
 * the library, on all entries where that is cheap, else on the crossings of sampled rows and columns.
 */
#ifndef CARAT_CLI_CHECK_H
#define CARAT_CLI_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

/*
 * An entry is right when |d - ref| <= growth * u * scale + u_d * |ref|, where scale is that entry of
 * |alpha||A||B| + |beta||C|, u the rounding unit of the sums, u_d that of D where it is narrower, and growth
 * how many roundings can add up. Integers have no rounding: they are right when equal.
 */
struct check {
    bool pass;         /* no entry is wrong */
    bool exact;        /* integers: error and bound are 0 and mean nothing */
    double error;      /* max |d - ref| / scale */
    double bound;      /* growth * u + u_d */
    int64_t rows;      /* sampled, of m */
    int64_t columns;   /* sampled, of n */
    int64_t wrong;     /* entries among the sampled ones */
    int64_t worst_row; /* the wrong entry farthest off; without one, that of the largest error */
    int64_t worst_column;
    double worst_value;
    double worst_reference;
};

/*
 * Checks one problem (batch 1, leading dimensions filled in) whose matrices are in host memory; alpha and
 * beta as for carat_gemm, in host memory. random says that the input was drawn with mean 0: rounding errors
 * then grow as the square root of k and not as k, which makes the bound tighter. False where memory ran out.
 */
bool check_gemm(const carat_gemm_problem *problem, const void *alpha, const void *a, const void *b,
                const void *beta, const void *c, const void *d, bool random, struct check *check);

#endif
