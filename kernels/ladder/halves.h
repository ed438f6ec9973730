/*
 * halves.h - what rungs 7 and 8 share: a thread's rows, and its columns, are two groups of VECTOR neighbours, half a
 * tile apart. The picture is in 07_register_prefetch.cu.
 */
#ifndef CARAT_LADDER_HALVES_H
#define CARAT_LADDER_HALVES_H

#include "store.h"

#define VECTOR 4
#define PAD                                                                                                  \
    4 /* words that rows of B's tile are longer than it, so that turned columns go to different banks */
#define HALF_M (TILE_M / 2)
#define HALF_N (TILE_N / 2)
#define THREADS_M (HALF_M / VECTOR) /* threads along m */

static_assert(THREADS_M * (HALF_N / VECTOR) == THREADS_X, "the threads tile the block");
static_assert(THREAD_M == 2 * VECTOR && THREAD_N == 2 * VECTOR, "a thread owns two groups each way");

/* A thread's sums to D; its first groups begin at (row, column). */
static __device__ inline void store_sums(const gemm_arguments *arguments, int64_t row, int64_t column,
                                         float sum[THREAD_N][THREAD_M], float alpha, float beta)
{
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        int64_t at_n = column + j / VECTOR * HALF_N + j % VECTOR;
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            int64_t at_m = row + i / VECTOR * HALF_M + i % VECTOR;
            if (at_m < arguments->m && at_n < arguments->n) {
                store_result(arguments, 0, at_m, at_n, sum[j][i], alpha, beta);
            }
        }
    }
}

#endif
