/* convert.h - f16, bf16 and 8-bit floats to and from f32, round to nearest even (PTX ISA, section on cvt). */
#ifndef CARAT_PTX_CONVERT_H
#define CARAT_PTX_CONVERT_H

static __device__ inline float f32_from_f16(uint16_t bits)
{
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

static __device__ inline uint16_t f16_from_f32(float value)
{
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

/* bf16 is the upper half of f32. */
static __device__ inline float f32_from_bf16(uint16_t bits) { return __uint_as_float((uint32_t)bits << 16); }

static __device__ inline uint16_t bf16_from_f32(float value)
{
#if __CUDA_ARCH__ >= 800
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
#else
    /* Adding half of the last kept place, less one where that place is even, rounds to nearest even;
     * a NaN would be carried into an infinity, so it is made quiet instead. */
    uint32_t word = __float_as_uint(value);
    if ((word & 0x7fffffffu) > 0x7f800000u) {
        return (uint16_t)0x7fff;
    }
    return (uint16_t)((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
#endif
}

/* Two in one instruction, the first in the lower half. */

#if __CUDA_ARCH__ >= 800

static __device__ inline uint32_t f16x2_from_f32(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

static __device__ inline uint32_t bf16x2_from_f32(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

/* 0 in the place of what is less; NaN stays NaN. */
static __device__ inline uint32_t f16x2_above_zero(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.relu.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

static __device__ inline uint32_t bf16x2_above_zero(float low, float high)
{
    uint32_t bits;
    asm("cvt.rn.relu.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
    return bits;
}

#endif

#if __CUDA_ARCH__ >= 890

/* Saturating at +-448; NaN becomes 0x7f. */
static __device__ inline uint16_t e4m3x2_from_f32(float low, float high)
{
    uint16_t bits;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(bits) : "f"(high), "f"(low));
    return bits;
}

/* Exact. */
static __device__ inline uint32_t f16x2_from_e4m3x2(uint16_t bits)
{
    uint32_t values;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(values) : "h"(bits));
    return values;
}

#endif

#endif
