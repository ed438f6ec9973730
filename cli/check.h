/*
 * check.h - is a product right? Compares D with a reference of higher precision that shares no code with
 * the library, on all entries where that is cheap, else on the crossings of sampled rows and columns.
 */
#ifndef CARAT_CLI_CHECK_H
#define CARAT_CLI_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

struct check {
    double error;    /* max |d - ref| / (|alpha||A||B| + |beta||C|), each entry by its own; s32: wrong entries */
    double bound;    /* what the arithmetic may reach; s32: 0 */
    bool pass;
    int64_t rows;    /* compared, of m */
    int64_t columns; /* compared, of n */
    int64_t worst_row; /* the entry of the largest error */
    int64_t worst_column;
    double worst_value;
    double worst_reference;
};

/*
 * Checks one problem (batch 1) with all matrices in host memory; alpha and beta as in carat_gemm. random says
 * that the input was drawn at random with mean 0, which earns a tighter bound: rounding errors then grow as
 * the square root of k. False where memory ran out.
 */
bool check_gemm(
    const carat_gemm_problem *problem,
    const void *alpha,
    const void *a,
    const void *b,
    const void *beta,
    const void *c,
    const void *d,
    bool random,
    struct check *check);

#endif
