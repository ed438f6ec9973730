/*
 * reference.h - what the entries of a product should be, in higher precision than any contender: f64 sums
 * for f32, f16 and bf16, long double for f64, exact modulo 2^32 for integers.
 *
 * All entries where that is cheap, else the crossings of sampled rows and columns (the first and last
 * ones, and one drawn from each of equal strips, so that no tile is left out for long).
 */
#ifndef CARAT_BENCH_REFERENCE_H
#define CARAT_BENCH_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "accuracy_families.h"
#include "carat/carat.h"

/* A matrix's elements; those of a long array may repeat: element i is elements[(first + i) % period]. */
struct source {
    carat_type type;
    const void *elements;
    int64_t first;
    int64_t period;
};

struct reference {
    carat_type type_a;
    carat_type type_cd;
    int64_t m;
    int64_t k;
    int64_t ldd;
    int64_t problem_offset; /* of D, in elements */
    int64_t row_count;
    int64_t column_count;
    int64_t *rows;
    int64_t *columns;
    double *value;     /* [column * row_count + row] */
    double *magnitude; /* |A||B| there */
};

/* The larger of two errors; NaN, the worst of all, stays. */
double larger_or_nan(double x, double y);

/* What comparing D with its reference gave. */
struct verdict {
    bool right;
    double error;  /* max |d - ref| / (|A||B|); integers: the largest difference, 0 or wrong */
    char why[160]; /* what is wrong */
};

/*
 * Computes the reference of one problem (number index of its batch) of a column-major description with
 * alpha 1 and beta 0, with about `budget` multiply-adds. reference_free afterwards, also on failure.
 */
carat_status reference_compute(const carat_gemm_problem *problem, int64_t index, const struct source *a,
                               const struct source *b, int64_t budget, struct reference *reference);

void reference_free(struct reference *reference);

/* What becomes of a sum beside alpha and beta: D = act(A B + bias). */
struct epilogue {
    const char *name;
    carat_bias bias;
    carat_activation activation;
};

/* All that is measured, the plain product first. */
extern const struct epilogue epilogues[];
extern const int epilogue_count;

/* Copies a reference of A B and makes it one of act(A B + bias). reference_free afterwards, also on failure. */
carat_status reference_finish(const struct reference *plain, const struct source *bias,
                              const struct epilogue *epilogue, struct reference *finished);

/*
 * How many half units in the last place of |A||B| a sum of random inputs of mean 0 may be off, in the accuracy
 * that the problem asks for, in all the ways that units are known to add.
 */
double reference_ulps(const carat_gemm_problem *problem);

/*
 * The same of inputs of a family, which need not be of mean 0: errors may add up, and where few products make up an
 * entry they do not cancel. 0 where no chain of multiply-adds makes an error.
 */
double reference_ulps_on(const carat_gemm_problem *problem, enum accuracy_family family);

/* The same for a peer, which is timed against Carat though it rounds between: cuBLAS does on odd 16-bit shapes. */
double reference_peer_ulps(const carat_gemm_problem *problem, enum accuracy_family family);

/*
 * Compares. d is the host's copy of the whole of D (all problems of the batch). A difference is allowed up
 * to `ulps` half units in the last place of |A||B| in the type of the sums, and one rounding to the type of D.
 */
struct verdict reference_compare(const struct reference *reference, const void *d, double ulps);

/*
 * Whether every byte of some element is still the poison 0xff: a NaN that no product of numbers gives, in
 * f32, f64, f16, bf16 and e4m3. Integers can be -1 rightly, and are not looked at. Returns the first, or -1.
 */
int64_t find_poison(carat_type type, const void *d, int64_t count);

#endif
