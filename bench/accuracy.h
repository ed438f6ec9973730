/*
 * accuracy.h - how far the settings of accuracy are from the true product, on the families of
 * accuracy_families.h: all f32, column-major, no operand transposed.
 *
 *     case (family, m, n, k) -> input: operands in every place, and true entries -> each contender -> errors
 */
#ifndef CARAT_BENCH_ACCURACY_H
#define CARAT_BENCH_ACCURACY_H

#include <stdbool.h>
#include <stdint.h>

#include "accuracy_families.h"
#include "contender.h"
#include "measure.h"

struct accuracy_case {
    enum accuracy_family family;
    uint64_t seed;
    int64_t m;
    int64_t n;
    int64_t k;
};

/*
 * Entries of a product, each as the sum of two doubles. They are where sampled rows and columns cross: the
 * first, the last, and one of each of equal strips between.
 */
struct truth {
    int64_t row_count;
    int64_t column_count;
    int64_t *rows;
    int64_t *columns;
    double *value;     /* [column * row_count + row] */
    double *rest;      /* what value rounded away */
    double *magnitude; /* |A||B| there */
};

/*
 * Of up to ACCURACY_WHOLE_SIDE^2 entries all are compared, where that takes no more than ACCURACY_WHOLE_PRODUCTS; of more
 * at least `entries`, 0 for all of them. truth_free also on failure.
 */
enum { ACCURACY_WHOLE_SIDE = 256, ACCURACY_WHOLE_PRODUCTS = 1 << 30 };
carat_status truth_compute(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t entries,
                           struct truth *truth);
void truth_free(struct truth *truth);

/* Errors |d - truth| / (|A||B|). Where |A||B| is 0, an entry has no error or an infinite one. */
struct accuracy_errors {
    int64_t entries;
    double most; /* NaN where an entry is */
    double mean;
    double beyond; /* the most that is left of an error without half a unit in the last place of the entry */
    int64_t misrounded; /* entries that are not the f32 nearest to the truth */
};

/* d is column-major, ldd apart. */
struct accuracy_errors truth_compare(const struct truth *truth, const float *d, int64_t ldd);

struct accuracy_matrix {
    float *elements;
    int64_t room;
};

/* What inputs have taken so far. */
struct accuracy_seconds {
    double fill;
    double upload;
    double truth;
};

/* A case's operands in the places of stages, and its truth. */
enum { ACCURACY_STAGES = 2 };
struct accuracy_input {
    struct accuracy_case what;
    struct stage *stages[ACCURACY_STAGES];
    struct workload workloads[ACCURACY_STAGES];
    int stage_count;
    struct accuracy_matrix a;
    struct accuracy_matrix b;
    struct accuracy_matrix d; /* the host's copy of a result */
    struct truth truth;
    struct accuracy_seconds seconds;
};

/* Begin with all zero, open one case after the other, and close at the end, also after a failure. */
carat_status accuracy_input_open(struct stage *const *stages, int stage_count,
                                 const struct accuracy_case *what, int64_t entries,
                                 struct accuracy_input *input);
void accuracy_input_close(struct accuracy_input *input);

/*
 * Lets a contender multiply with a setting, into poisoned memory, and compares. CARAT_UNSUPPORTED where it
 * does not do that; the contender's plan says how it did it.
 */
carat_status accuracy_measure(struct contender *contender, carat_accuracy accuracy,
                              struct accuracy_input *input, struct accuracy_errors *errors);

/*
 * What the largest error may be by the a-priori bound of a setting: as of a chain of f32 multiply-adds, or
 * with inputs of 11 bits. 0 where there is none: denormal inputs have no 11 bits.
 */
double accuracy_bound(carat_accuracy accuracy, const struct accuracy_case *what);

/* Whether errors are within that; of the best accuracy within a rounding of each entry and 4 * 2^-53 k. */
bool accuracy_holds(carat_accuracy accuracy, const struct accuracy_case *what,
                    const struct accuracy_errors *errors);

#endif
