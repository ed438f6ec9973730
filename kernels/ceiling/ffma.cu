/*
 * ffma.cu - how many single-precision multiply-adds a second the device does when nothing else is asked
 * of it: no memory, no address arithmetic, one instruction after the other.
 *
 * A multiply-add takes 4 clocks from issue to result, and each quarter of a multiprocessor can issue one
 * a clock. CHAINS sums of a thread do not wait for each other, and MIN_BLOCKS * THREADS_X threads a
 * multiprocessor give each quarter several warps to choose from, so there is always one ready.
 *
 * A round is UNROLL steps of all chains, 2 * CHAINS * UNROLL operations, beside which the loop's own
 * counter, compare and branch are 3 of 259 instructions.
 */
#include "kernel.h"

#define CHAINS 8
#define UNROLL 32
static_assert(OPS_PER_ROUND == 2 * CHAINS * UNROLL, "the catalogue's OPS_PER_ROUND is what a round does");

KERNEL KERNEL_NAME(ceiling_arguments arguments)
{
    int64_t thread = (int64_t)blockIdx.x * THREADS_X + threadIdx.x;
    /* Each chain tends to shift / (1 - factor), about 0.5: no infinities, no denormals. */
    float factor = 0.5f + (float)threadIdx.x * 0.0001f;
    float shift = 0.25f;
    float sums[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sums[c] = (float)c;
    }
#pragma unroll 1
    for (int64_t round = 0; round < arguments.count; round++) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
#pragma unroll
            for (int c = 0; c < CHAINS; c++) {
                sums[c] = fmaf(sums[c], factor, shift);
            }
        }
    }
    /* Stored, so that the compiler cannot leave the work out. */
    float sum = 0.0f;
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sum += sums[c];
    }
    ((double *)arguments.to)[thread] = (double)sum;
}
