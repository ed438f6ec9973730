/*
 * trial.h - what the programs that check a GPU try: one product, and how it is to be run; and random ones.
 */
#ifndef CARAT_TESTS_TRIAL_H
#define CARAT_TESTS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "catalog.h"
#include "reference.h"

/* ---- One product ---- */

enum place { PLACE_DEVICE, PLACE_PINNED, PLACE_PAGEABLE, PLACE_COUNT };

/*
 * How it is computed: as the library chooses, by one row of the catalogue alone, with A and B packed, in any one
 * of the ways that the library looks at (of the row's, where one is given), whatever it thinks of it, by a row
 * whose clusters share tiles, or have each its own and all of K, or by one that sums K in several parts.
 */
enum way { WAY_LIBRARY, WAY_ROW, WAY_PACKED, WAY_ANY, WAY_SHARED, WAY_WHOLE, WAY_PARTS };

/* Where they lie; with the last but that of D, which the host has. */
enum scales { SCALES_NONE, SCALES_HOST, SCALES_DEVICE, SCALES_INPUTS_DEVICE };

/*
 * How large the elements of A and B are, of f32. Sums of bf16 planes may not stand for what is too small, nor for what is
 * far apart where k is short, and overflow where f32 sums do not. Those of f16 planes only stand for the first.
 */
enum range {
    RANGE_ONE,      /* up to 1 */
    RANGE_SMALL,    /* A about 2^-70 */
    RANGE_TINY,     /* A about 2^-105: less than planes hold */
    RANGE_FEW_TINY, /* that in a few places of A or B, down to the least number that there is */
    RANGE_WIDE,     /* exponents far apart, as many each way */
    RANGE_HUGE, /* two elements of A or B near the largest number that there is, whose sums overflow in places */
    RANGES
};

/* A product, and how it is to be run. Shifts are of the matrices' addresses, in elements. */
struct trial {
    carat_gemm_problem problem; /* leading dimensions filled in */
    enum way way;
    const struct kernel *row; /* NULL with WAY_LIBRARY and WAY_PACKED, and maybe with WAY_ANY */
    uint64_t seed;            /* of its elements */
    double alpha;
    double beta;
    bool scalars_on_device;
    bool own_c; /* else C is D */
    enum scales scales;
    float scale_a;
    float scale_b;
    float scale_d;
    enum place place;
    bool own_workspace; /* else the context's pool */
    bool special;       /* NaN and infinity in a few places of A and B */
    enum range range;
    int64_t shift_a;
    int64_t shift_b;
    int64_t shift_c;
    int64_t shift_d;
    int64_t shift_bias;
    int64_t most_workspace; /* see struct problem */
};

/* The stored matrices, before op. */
static inline int64_t rows_of_a(const carat_gemm_problem *p)
{
    return p->op_a == CARAT_TRANSPOSE ? p->k : p->m;
}
static inline int64_t columns_of_a(const carat_gemm_problem *p)
{
    return p->op_a == CARAT_TRANSPOSE ? p->m : p->k;
}
static inline int64_t rows_of_b(const carat_gemm_problem *p)
{
    return p->op_b == CARAT_TRANSPOSE ? p->n : p->k;
}
static inline int64_t columns_of_b(const carat_gemm_problem *p)
{
    return p->op_b == CARAT_TRANSPOSE ? p->k : p->n;
}

/* A trial of column-major matrices tightly packed, with alpha 1 and beta 0. */
struct trial trial_of(carat_type type_a, carat_type type_b, carat_type type_cd, int64_t m, int64_t n,
                      int64_t k);

/* Sets order and operations (bit 0: B, bit 1: A), and leading dimensions with so many elements behind each column. */
void trial_layout(struct trial *trial, carat_order order, int ops, int64_t pad);

/* Makes it a batch of problems with a gap between them; a stride of 0 where one is shared. */
void trial_batch(struct trial *trial, int64_t batch, int64_t gap);

/* In one line. */
void trial_describe(const struct trial *trial, char *text, size_t size);

/* ---- Random trials ---- */

struct trial_types {
    carat_type a;
    carat_type b;
    carat_type cd;
    carat_accuracy accuracy;
};

/* Every set of types and accuracy that there is. */
extern const struct trial_types trial_types[];
extern const int trial_type_count;

/* Random types, one of the above. */
struct trial_types trial_random_types(struct random *random);

struct trial_limits {
    int64_t most_side;     /* of m, n and k, whose logarithms are uniform */
    int64_t most_batch;    /* a batch is made one time in five */
    double most_work;      /* multiply-adds of all problems */
    int64_t most_elements; /* of any matrix, all problems together */
};

/* A trial of types that the row multiplies (with planes: f32), and any C and D where it knows them; of no size yet. */
struct trial trial_of_row(struct random *random, const struct kernel *row);

/* Makes it one of narrower floats in best accuracy, which rows with WIDENED=1 multiply once they are f64. */
void trial_widen(struct random *random, struct trial *trial);

/* Moves A and B, and what lies between their columns and problems, to where a row wants them: multiples of that. */
void trial_align(struct trial *trial, int64_t unit);

/*
 * Makes it one of which nothing is asked but its sums, in the usual type of its inputs, D where the copy engine can store it, or
 * anywhere: in two steps, the second for a trial whose sizes are multiples of 16 bytes of D, or any, and which has its layout, but no
 * batch yet.
 */
void trial_plain_types(struct trial *trial);
void trial_make_plain(struct trial *trial, bool anywhere);

/* Elements of which a row wants such multiples. */
int64_t trial_unit(const struct kernel *row);

/* Random sizes within the limits. */
void trial_random_shape(struct random *random, const struct trial_limits *limits, struct trial *trial);

/*
 * The range of a trial's elements, where its types have one and what comes of it is not a matter of the order in which is
 * added and multiplied.
 */
enum range trial_range(const struct trial *trial);

/* Random layout, leading dimensions, addresses, scalars, C, workspace, for the shape that it has. */
void trial_random_placing(struct random *random, struct trial *trial);

/* A random batch of at most that many problems, some matrices shared, some overlapping. */
void trial_random_batch(struct random *random, int64_t most, struct trial *trial);

/* A random bias, activation and scales, as its types allow. */
void trial_random_epilogue(struct random *random, struct trial *trial);

/* All of that. */
struct trial trial_random(struct random *random, const struct trial_limits *limits);

#endif
