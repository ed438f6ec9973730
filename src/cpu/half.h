/*
 * half.h - f16 and bf16 in software: up to f32 without loss, down with one rounding to nearest even.
 *
 * Written without branches that depend on common values, so that a compiler turns loops over them into
 * vector code.
 */
#ifndef CARAT_CPU_HALF_H
#define CARAT_CPU_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t bits_of_f32(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static inline float f32_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static inline float f32_from_bf16(uint16_t x) { return f32_of_bits((uint32_t)x << 16); }

static inline uint16_t bf16_from_f32(float x)
{
    uint32_t bits = bits_of_f32(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    uint32_t quiet_nan = bits >> 16 | 0x40;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? quiet_nan : rounded);
}

static inline float f32_from_f16(uint16_t x)
{
    /* The exponent's bias goes from 15 to 127 by a multiplication, which makes denormals normal too. */
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13;
    uint32_t scaled = bits_of_f32(f32_of_bits(magnitude) * 0x1p112f);
    uint32_t infinite = magnitude >= 0x0f800000 ? 0x7f800000 : 0;
    return f32_of_bits((uint32_t)(x & 0x8000) << 16 | scaled | infinite);
}

static inline uint16_t f16_from_f32(float x)
{
    uint32_t bits = bits_of_f32(x);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) {
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    }
    if (magnitude >= 0x477ff000) { /* 65520 and up round to infinity */
        return (uint16_t)(sign | 0x7c00);
    }
    if (magnitude < 0x38800000) {
        /* Below 2^-14: the last bit of a sum with 0.5 is worth 2^-24, the least denormal. */
        return (uint16_t)(sign | (bits_of_f32(f32_of_bits(magnitude) + 0.5f) - bits_of_f32(0.5f)));
    }
    return (uint16_t)(sign | (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

#endif
