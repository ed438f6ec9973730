/*
 * thin_operand.h - the two operands of strands.cu, pairs.cu and lines.cu, of which one is long and the other thin, and how they
 * lie in memory.
 */
#ifndef CARAT_GEMM_THIN_OPERAND_H
#define CARAT_GEMM_THIN_OPERAND_H

#include "thin_tile.h"

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT)
#define B_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_NN)
#define LONG_ALONG_K (SWAPPED ? B_ALONG_K : A_ALONG_K)
#define THIN_ALONG_K (SWAPPED ? A_ALONG_K : B_ALONG_K)

/* One operand, from the block's first k on: `count` rows of the long one or columns of the thin one. */
typedef struct operand {
    const element *from;
    int64_t ld;
    int64_t count;
} operand;

static __device__ inline operand operand_of(const void *base, int64_t at, int64_t ld, int64_t count)
{
    operand of = {(const element *)base + at, ld, count};
    return of;
}

static __device__ inline operand operand_a(const gemm_arguments *arguments, const block_share *share)
{
    int64_t k = share->k_begin * (A_ALONG_K ? 1 : arguments->lda);
    return operand_of(arguments->a, share->problem * arguments->stride_a + k, arguments->lda, arguments->m);
}

static __device__ inline operand operand_b(const gemm_arguments *arguments, const block_share *share)
{
    int64_t k = share->k_begin * (B_ALONG_K ? 1 : arguments->ldb);
    return operand_of(arguments->b, share->problem * arguments->stride_b + k, arguments->ldb, arguments->n);
}

/* Where element k of row (column) `row` stands; beyond the edge it is the last one inside, whose sums are not stored. */
static __device__ __forceinline__ const element *place_of(const operand *of, int64_t row, int64_t k,
                                                          int along_k)
{
    int64_t inside = row < of->count ? row : of->count - 1;
    return of->from + (along_k ? k + inside * of->ld : inside + k * of->ld);
}

#endif
