/* warp.h - what the lanes of a warp know together (PTX ISA, "redux.sync", "shfl.sync"). All of them call. */
#ifndef CARAT_PTX_WARP_H
#define CARAT_PTX_WARP_H

/* The largest value of any lane, in all of them. */
static __device__ inline uint32_t warp_max(uint32_t value)
{
#if __CUDA_ARCH__ >= 800
    uint32_t largest;
    asm volatile("redux.sync.max.u32 %0, %1, 0xffffffff;" : "=r"(largest) : "r"(value));
    return largest;
#else
    for (int lanes = 16; lanes > 0; lanes /= 2) {
        uint32_t other = __shfl_xor_sync(0xffffffffu, value, lanes);
        value = other > value ? other : value;
    }
    return value;
#endif
}

/* The smallest. */
static __device__ inline uint32_t warp_min(uint32_t value) { return ~warp_max(~value); }

#endif
