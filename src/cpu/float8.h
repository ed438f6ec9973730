/*
 * float8.h - the 8-bit floats in software: up to f32 without loss, down with one rounding to nearest even.
 *
 *     e4m3    s eeee mmm   bias 7: denormals of 2^-9, up to 448; no infinity, NaN is 0x7f and 0xff
 *     e5m2    s eeeee mm   bias 15: the upper half of a binary16, with its infinities and NaNs
 *
 * Written without branches that depend on common values, as half.h is.
 */
#ifndef CARAT_CPU_FLOAT8_H
#define CARAT_CPU_FLOAT8_H

#include "half.h"

static inline float f32_from_e4m3(uint8_t x)
{
    /* The exponent's bias goes from 7 to 127 by a multiplication, which makes denormals normal too. */
    uint32_t magnitude = (uint32_t)(x & 0x7f) << 20;
    uint32_t scaled = bits_of_f32(f32_of_bits(magnitude) * 0x1p120f);
    uint32_t nan = (x & 0x7f) == 0x7f ? 0x7fc00000 : 0;
    return f32_of_bits((uint32_t)(x & 0x80) << 24 | scaled | nan);
}

static inline float f32_from_e5m2(uint8_t x) { return f32_from_f16((uint16_t)(x << 8)); }

/* What is larger than 448, infinity too, becomes 448: as tensor libraries store results. NaN is 0x7f. */
static inline uint8_t e4m3_from_f32(float x)
{
    uint32_t bits = bits_of_f32(x);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffff;
    /* Below 2^-6: the last bit of a sum with 2^14 is worth 2^-9, the least denormal. */
    uint32_t denormal = bits_of_f32(f32_of_bits(magnitude) + 0x1p14f) - bits_of_f32(0x1p14f);
    uint32_t normal = (magnitude - 0x3c000000 + 0x7ffff + (magnitude >> 20 & 1)) >> 20;
    uint32_t rounded = magnitude < 0x3c800000 ? denormal : normal;
    rounded = magnitude >= 0x43e00000 ? 0x7e : rounded; /* 448 */
    return (uint8_t)(magnitude > 0x7f800000 ? 0x7f : (sign | rounded));
}

/* What rounds to 2^16 or more becomes infinity, as in binary16. */
static inline uint8_t e5m2_from_f32(float x)
{
    uint32_t bits = bits_of_f32(x);
    uint32_t sign = bits >> 24 & 0x80;
    uint32_t magnitude = bits & 0x7fffffff;
    /* Below 2^-14: the last bit of a sum with 2^7 is worth 2^-16, the least denormal. */
    uint32_t denormal = bits_of_f32(f32_of_bits(magnitude) + 0x1p7f) - bits_of_f32(0x1p7f);
    uint32_t normal = (magnitude - 0x38000000 + 0xfffff + (magnitude >> 21 & 1)) >> 21;
    uint32_t rounded = magnitude < 0x38800000 ? denormal : normal;
    rounded = magnitude >= 0x47700000 ? 0x7c : rounded; /* 61440, the middle of 57344 and 65536 */
    return (uint8_t)(sign | (magnitude > 0x7f800000 ? 0x7f : rounded));
}

#endif
