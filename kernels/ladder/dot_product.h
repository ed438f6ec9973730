/*
 * dot_product.h - what rungs 1 and 2 share: a thread's one element of D, its row of A and its column of B read
 * from global memory word by word.
 */
#ifndef CARAT_LADDER_DOT_PRODUCT_H
#define CARAT_LADDER_DOT_PRODUCT_H

#include "store.h"

/* Computes D(i, j), where there is one. */
static __device__ inline void compute_element(const gemm_arguments *arguments, int64_t i, int64_t j)
{
    if (i >= arguments->m || j >= arguments->n) {
        return;
    }

    accumulator alpha = scalar_value(arguments->alpha);
    const element *a = (const element *)arguments->a + i;
    const element *b = (const element *)arguments->b + j * arguments->ldb;
    int64_t depth = alpha == 0 ? 0 : arguments->k;
    accumulator sum = 0;
#pragma unroll 8
    for (int64_t k = 0; k < depth; ++k) {
        sum = multiply_add(widen(a[k * arguments->lda]), widen(b[k]), sum);
    }
    store_result(arguments, 0, i, j, sum, alpha, scalar_value(arguments->beta));
}

#endif
