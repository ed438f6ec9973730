/*
 * problem.h - a checked problem in the one canonical form, and the operands of one call.
 *
 * Canonical: column-major, leading dimensions filled in. A row-major problem arrives here as the
 * column-major problem of its transposes: A and B, m and n have changed places. Products with a vector have a
 * simpler form still, see problem_simplify().
 */
#ifndef CARAT_PROBLEM_H
#define CARAT_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"

/* More than this no kernel asks of where A and B begin, in bytes. */
#define MOST_ALIGNMENT 16

struct problem {
    carat_type type_a;
    carat_type type_b;
    carat_type type_cd;
    bool trans_a;   /* A is stored k x m */
    bool trans_b;   /* B is stored n x k */
    bool swapped;   /* A here is the caller's B, and D the transpose of his */
    bool mirrors_a; /* A as it is stored is said to be the transpose of what he calls it: for messages */
    bool mirrors_b;
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t lda;
    int64_t ldb;
    int64_t ldc;
    int64_t ldd;
    int64_t batch;
    int64_t stride_a;
    int64_t stride_b;
    int64_t stride_c;
    int64_t stride_d;
    /* A and B begin at multiples of so many bytes: MOST_ALIGNMENT until a call says less. */
    int align_a;
    int align_b;
    int planes; /* 16-bit matrices whose sum A is, and B, each behind the one before; 0: they are what they are */
    carat_accuracy accuracy;
    bool bias;
    bool bias_along_n; /* a number a column of the canonical D; else a number a row */
    carat_type type_bias;
    int64_t stride_bias;
    carat_activation activation;
    int64_t most_workspace; /* bytes that a plan may take, where it can do with that; 0: what is best */
};

/* The pointers of one call, in the problem's order (swapped where the problem is). */
struct operands {
    const void *alpha;
    const void *a;
    const void *b;
    const void *beta;
    const void *c;
    void *d;
    const void *bias;     /* NULL where the problem has none */
    const float *scale_a; /* NULL: 1; swapped where the problem is */
    const float *scale_b;
    const float *scale_d;
};

/* A stored matrix as a plain rectangle: rows elements that are contiguous, columns of them, ld apart. */
struct extent {
    int64_t rows;
    int64_t columns;
    int64_t ld;
    int64_t batch;
    int64_t stride;
    size_t element_bytes;
};

/* Checks a problem as the caller described it and brings it into canonical form. */
carat_status problem_check(const carat_gemm_problem *described, struct problem *problem);

/*
 * Brings a checked problem, of which no address is known, into the simplest form that reads and writes the same bytes: a D
 * of one row without gaps becomes one column, the product of the transposes, so that one set of kernels and of measured
 * times serves both; a vector without gaps runs along k, however it was described; and the leading dimension of a lone column
 * of C and D, or of A and B along k, which says nothing, is one that suits every kernel.
 */
void problem_simplify(struct problem *problem);

/* What of that concerns lone columns, where A and B have to stay what they are. */
void problem_align_lone_columns(struct problem *problem);

/* Checks the pointers that can be checked without a device (NULLs), and puts them in canonical order. */
carat_status problem_operands(const struct problem *problem, const void *alpha, const void *a, const void *b,
                              const void *beta, const void *c, void *d, const carat_run *run,
                              struct operands *operands);

/* Notes where the caller's A and B begin. */
void problem_note_addresses(struct problem *problem, const void *a, const void *b);

/* The type of alpha, beta and of the epilogue's arithmetic. */
carat_type problem_scalar_type(const struct problem *problem);

/* The type in which the products are summed: s32 for s8 and s32, f64 for f64 and in best accuracy, else f32. */
carat_type problem_sum_type(const struct problem *problem);

/* Whether the best accuracy was asked for, of floats: integers are exact in any. */
bool problem_wants_best(const struct problem *problem);

/* Whether scales may be given with a call. */
bool problem_takes_scales(const struct problem *problem);

/*
 * Whether D = round(alpha * sum + beta * C) with C and D of A's own type (s32 for s8) and no scales: no more
 * than every kernel can.
 */
bool problem_is_plain(const struct problem *problem);

/* Whether D is empty: nothing to compute and nothing to write. */
bool problem_is_empty(const struct problem *problem);

struct extent problem_extent_a(const struct problem *problem);
struct extent problem_extent_b(const struct problem *problem);
struct extent problem_extent_c(const struct problem *problem);
struct extent problem_extent_d(const struct problem *problem);
/* The bias as one column; of no rows where there is none. */
struct extent problem_extent_bias(const struct problem *problem);

/* How many there are; what all problems of a batch share counts once. */
double extent_elements(struct extent extent);

/* Bytes from the first element to past the last one; 0 when empty. */
size_t extent_bytes(const struct extent *extent);

/* Whether two matrices have a byte in common: padding between columns does not count. */
bool extents_overlap(const void *x, const struct extent *extent_x, const void *y,
                     const struct extent *extent_y);

/* Checks that elements lie at a multiple of their size: they are read and written whole. */
carat_status alignment_check(const char *name, const void *pointer, carat_type type);

/*
 * Checks the leading dimension of a matrix that its caller calls name ("A", with ld_name "lda"), fills
 * it in where it is 0 or the matrix empty, and checks that the bytes of the whole batch can be counted. rows and columns
 * are those of the stored matrix, as the caller sees it.
 */
carat_status matrix_check(const char *name, const char *ld_name, carat_order order, int64_t rows,
                          int64_t columns, int64_t *ld, int64_t batch, int64_t stride, size_t element_bytes);

#endif
