/*
 * dmma.cu - how many double-precision multiply-adds a second the tensor units do (mma m16n8k16, sm_90).
 *
 * One instruction of a warp is 16 x 8 x 16 multiply-adds, 2 * 2048 / 32 = 128 operations a thread.
 * CHAINS products that do not wait for each other, of MIN_BLOCKS * THREADS_X / 32 warps, keep the units busy.
 */
#include "kernel.h"

#define CHAINS 8
#define OPERATIONS (2 * 16 * 8 * 16 / 32) /* of one instruction, a thread */
static_assert(OPS_PER_ROUND == CHAINS * OPERATIONS, "the catalogue's OPS_PER_ROUND is what a round does");

KERNEL KERNEL_NAME(ceiling_arguments arguments)
{
    int64_t thread = (int64_t)blockIdx.x * THREADS_X + threadIdx.x;
    double a[8];
    double b[4];
    double sums[CHAINS][4];
#pragma unroll
    for (int e = 0; e < 8; e++) {
        a[e] = 0.001 * (double)(threadIdx.x + e);
    }
#pragma unroll
    for (int e = 0; e < 4; e++) {
        b[e] = 0.001 * (double)(threadIdx.x + 8 + e);
    }
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            sums[c][e] = 0.0;
        }
    }
#pragma unroll 1
    for (int64_t round = 0; round < arguments.count; round++) {
#pragma unroll
        for (int c = 0; c < CHAINS; c++) {
            mma_f64_16x8x16(sums[c], a, b);
        }
    }
    /* Stored, so that the compiler cannot leave the work out. */
    double sum = 0.0;
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sum += sums[c][0] + sums[c][1] + sums[c][2] + sums[c][3];
    }
    ((double *)arguments.to)[thread] = sum;
}
