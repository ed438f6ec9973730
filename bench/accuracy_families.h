/*
 * accuracy_families.h - the pairs of f32 matrices that accuracy is measured on.
 *
 * Other than those of families.h they are made together, A for its B: a family may spoil one operand in a way
 * that the other one mends, and what is exact in it depends on both.
 */
#ifndef CARAT_BENCH_ACCURACY_FAMILIES_H
#define CARAT_BENCH_ACCURACY_FAMILIES_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

enum accuracy_family {
    ACCURACY_NORMAL,     /* mean 0, variance 1 */
    ACCURACY_UNIFORM,    /* even over [-1, 1) */
    ACCURACY_POSITIVE,   /* even over [0, 1): sums only grow, and so do biased errors */
    ACCURACY_INTEGERS,   /* whole numbers from -1000 to 1000 */
    ACCURACY_ORTHOGONAL, /* columns of B and the same as rows of A, orthonormal: C is nearly I */
    ACCURACY_SPREAD,     /* normal times e^(2 normal) */
    ACCURACY_EXPONENTS,  /* any significand, exponents even over 2^-60 to 2^60 */
    ACCURACY_SCALED, /* normal A times S, S^-1 times normal B: S of powers of two, 2^-40 to 2^40, along k */
    ACCURACY_HUGE,   /* normal, but one element in each row of A and column of B is 2^20 times as large */
    ACCURACY_DENORMALS,   /* A normal times 2^-132, mostly denormal; B normal times 2^30 */
    ACCURACY_HILBERT,     /* 1 / (i + j + 1) */
    ACCURACY_VANDERMONDE, /* powers of nodes of [-1, 1]: they fade to denormals and to 0 along k */
    ACCURACY_IDENTITY,    /* A has ones on its diagonal; B of family SPREAD */
    ACCURACY_PERMUTATION, /* A has one 1 in each row, no two in a column while there are enough; B the same */
    ACCURACY_ONE_HOT,     /* A has one 1 anywhere in each row; B the same */
    ACCURACY_SMALL,       /* whole numbers from -8 to 8 */
    ACCURACY_FAMILIES
};

const char *accuracy_family_name(enum accuracy_family family);

/* The family of a name; ACCURACY_FAMILIES where there is none. */
enum accuracy_family accuracy_family_find(const char *name);

/* Whether all elements that matter have exponents near each other. */
bool accuracy_family_easy(enum accuracy_family family);

/* Whether a chain of f32 multiply-adds makes no error at all, so that nobody else may (small: k to 2^18). */
bool accuracy_family_exact(enum accuracy_family family);

/* Fills column-major, packed A (m x k) and B (k x n). The same arguments give the same elements. */
carat_status accuracy_fill(enum accuracy_family family, uint64_t seed, int64_t m, int64_t n, int64_t k,
                           float *a, float *b);

/* Transposes a column-major, packed matrix. */
void accuracy_transpose(int64_t rows, int64_t columns, const float *from, float *to);

#endif
