/*
 * magnitudes.h - between which magnitudes f32 lie, seen one by one, for the word of verdict.h: what rows say of operands that
 * they split themselves.
 */
#ifndef CARAT_KERNELS_MAGNITUDES_H
#define CARAT_KERNELS_MAGNITUDES_H

#include "verdict.h"

/* Those seen so far: the largest, and 2^32 less twice the bits of the least but 0; 0 and 0: none yet. */
typedef struct range {
    float largest; /* of numbers: what is none shows in the sums */
    uint32_t inverse;
} range;

static __device__ __forceinline__ void see(range *seen, float x)
{
    uint32_t inverse = 0u - 2u * __float_as_uint(x); /* of 0 the least */
    seen->largest = fmaxf(seen->largest, fabsf(x));
    seen->inverse = inverse > seen->inverse ? inverse : seen->inverse;
}

/* What the warp has seen, as a word of verdict.h. */
static __device__ inline uint32_t word_of_warp(const range *seen)
{
    uint32_t largest = warp_max(__float_as_uint(seen->largest));
    uint32_t inverse = warp_max(seen->inverse);
    return verdict_word(largest, (0u - inverse) >> 1);
}

#endif
