/*
 * reference.h - the arithmetic that results are checked against, and the random input of the tests.
 *
 * Floating types are summed in long double, whose own error is far below the bound that is granted;
 * integers wrap modulo 2^32. Plain loops over any layout: nothing here is shared with the library but the
 * conversions of the small floats, which have tests of their own.
 */
#ifndef CARAT_TESTS_REFERENCE_H
#define CARAT_TESTS_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

/* ---- Random numbers, the same in every run ---- */

struct random {
    uint64_t state;
};

uint64_t random_bits(struct random *random);
/* From least to most, both included. */
int64_t random_between(struct random *random, int64_t least, int64_t most);
/* True once in `in` times. */
bool random_one_in(struct random *random, int in);
/* From -1 to 1. */
double random_unit(struct random *random);

/* ---- Elements ---- */

/* The element of an array, exactly. */
long double element_get(carat_type type, const void *array, int64_t index);
/* Stores the value rounded to the type; integers take it modulo their range. */
void element_set(carat_type type, void *array, int64_t index, long double value);
/* A value that the type's users might multiply: -1 to 1, or any integer. */
void element_random(carat_type type, void *array, int64_t index, struct random *random);
/* A NaN where the type has one, else a number that shows. */
void element_poison(carat_type type, void *array, int64_t index);

/* ---- Products ---- */

/* One element of D: what it is, and how far the type's arithmetic may stray from it. */
struct expected {
    long double value; /* of integers: from 0 to 2^32 - 1 */
    long double bound; /* before the rounding to the type of D */
};

/* Where element (row, column) of a matrix stands. */
int64_t element_index(carat_order order, int64_t row, int64_t column, int64_t ld);

/* The leading dimension of a rows x columns matrix that is tightly packed. */
int64_t packed_ld(carat_order order, int64_t rows, int64_t columns);

/*
 * Element (row, column) of D of one problem of the batch; leading dimensions must be filled in. A and
 * B are not read where alpha is 0, nor C where beta is. extras gives the bias and the scales, in host memory; NULL
 * where there are none.
 */
struct expected reference_gemm(const carat_gemm_problem *problem, const void *alpha, const void *a,
                               const void *b, const void *beta, const void *c, const carat_run *extras,
                               int64_t index, int64_t row, int64_t column);

/* Whether an element of D is within the bound. */
bool expected_holds(const struct expected *expected, carat_type type, const void *d, int64_t index);

#endif
