/*
 * lane_sums.h - how the sums of a warp's lanes meet. A kernel includes it where it has said how many of them each lane has: SUMS, a
 * power of two up to 32.
 */
#ifndef CARAT_GEMM_LANE_SUMS_H
#define CARAT_GEMM_LANE_SUMS_H

/* What another lane has, whose number differs in one bit. */
static __device__ __forceinline__ accumulator exchange(accumulator x, int bit)
{
#if ELEMENT == ELEMENT_S8
    return __shfl_xor_sync(0xffffffffu, x, bit);
#else
    return __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(x), bit));
#endif
}

/*
 * Adds the lanes' sums: lane l then has sum number l / (32 / SUMS) of them all. Half of the lanes take half of the sums, and
 * so on, until each has one.
 */
static __device__ __forceinline__ accumulator add_lanes(accumulator *sum)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int level = 0; level < 5; ++level) {
        int bit = 16 >> level;
        int half = SUMS >> (level + 1);
#pragma unroll
        for (int i = 0; i < SUMS / 2; ++i) {
            if (i < half) {
                accumulator kept = lane & bit ? sum[i + half] : sum[i];
                accumulator given = lane & bit ? sum[i] : sum[i + half];
                sum[i] = kept + exchange(given, bit);
            }
        }
        if (half == 0) {
            sum[0] += exchange(sum[0], bit);
        }
    }
    return sum[0];
}

#endif
