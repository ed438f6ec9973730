/* convert.h - f16 and bf16 to and from f32, round to nearest even (PTX ISA, section on cvt). */
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

#endif
