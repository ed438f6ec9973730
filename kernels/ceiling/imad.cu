/*
 * imad.cu - how many 32-bit integer multiply-adds a second the device does: the ceiling of s32 products.
 *
 * As ffma.cu: CHAINS sums of a thread that do not wait for each other, and nothing else. The factor is
 * odd and not known to the compiler, so that it can neither shorten the chain nor turn the products
 * into shifts.
 */
#include "kernel.h"

#define CHAINS 8
#define UNROLL 32
static_assert(OPS_PER_ROUND == 2 * CHAINS * UNROLL, "the catalogue's OPS_PER_ROUND is what a round does");

KERNEL KERNEL_NAME(ceiling_arguments arguments)
{
    int64_t thread = (int64_t)blockIdx.x * THREADS_X + threadIdx.x;
    uint32_t factor = 2 * threadIdx.x + 3;
    uint32_t shift = 0x9e3779b9u ^ threadIdx.x;
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
                sums[c] = sums[c] * factor + shift;
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
