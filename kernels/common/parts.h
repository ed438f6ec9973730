/*
 * parts.h - an f32 as the sum of three bf16, which hold all of its bits from 2^-100 on (see memory/split.cu):
 *
 *     a = a1 + a2 + a3      a1 = bf16(a)   a2 = bf16(a - a1)   a3 = a - a1 - a2
 *
 * Two neighbours at a time, the first in the lower half of a word.
 */
#ifndef CARAT_KERNELS_PARTS_H
#define CARAT_KERNELS_PARTS_H

/* The second and third parts of two f32, whose first parts are given. */
static __device__ __forceinline__ void split_further(float low, float high, uint32_t first, uint32_t *second,
                                                     uint32_t *third)
{
    low = __fsub_rn(low, f32_from_bf16((uint16_t)first));
    high = __fsub_rn(high, __uint_as_float(first & 0xffff0000u));
    *second = pack_bf16(low, high);
    low = __fsub_rn(low, f32_from_bf16((uint16_t)*second));
    high = __fsub_rn(high, __uint_as_float(*second & 0xffff0000u));
    *third = pack_bf16(low, high);
}

#endif
