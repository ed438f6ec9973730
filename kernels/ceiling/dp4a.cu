/*
 * dp4a.cu - how many products of bytes a second the device adds with its four-way instruction: the ceiling
 * of s8 products without tensor units. One instruction is four multiply-adds, 8 operations.
 */
#include "kernel.h"

#define CHAINS 8
#define UNROLL 32
static_assert(OPS_PER_ROUND == 8 * CHAINS * UNROLL, "the catalogue's OPS_PER_ROUND is what a round does");

KERNEL KERNEL_NAME(ceiling_arguments arguments)
{
    int64_t thread = (int64_t)blockIdx.x * THREADS_X + threadIdx.x;
    uint32_t x = 0x01fd02feu + threadIdx.x;
    uint32_t sums[CHAINS];
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sums[c] = (uint32_t)c;
    }
#pragma unroll 1
    for (int64_t round = 0; round < arguments.count; round++) {
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
#pragma unroll
            for (int c = 0; c < CHAINS; c++) {
                sums[c] = dot4_s8(x, sums[c], sums[c]); /* a factor that changes: nothing to hoist */
            }
        }
    }
    /* Stored, so that the compiler cannot leave the work out. */
    uint64_t sum = 0;
#pragma unroll
    for (int c = 0; c < CHAINS; c++) {
        sum += sums[c];
    }
    ((uint64_t *)arguments.to)[thread] = sum;
}
