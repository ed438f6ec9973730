/* convert.c - elements of every type that f32 arithmetic knows, a run of them at a time. */
#include <math.h>
#include <string.h>

#include "cpu.h"
#include "float8.h"
#include "half.h"

void cpu_widen(carat_type type, const void *from, int64_t count, float *to)
{
    switch (type) {
    case CARAT_F16:
        for (int64_t i = 0; i < count; i++) {
            to[i] = f32_from_f16(((const uint16_t *)from)[i]);
        }
        break;
    case CARAT_BF16:
        for (int64_t i = 0; i < count; i++) {
            to[i] = f32_from_bf16(((const uint16_t *)from)[i]);
        }
        break;
    case CARAT_E4M3:
        for (int64_t i = 0; i < count; i++) {
            to[i] = f32_from_e4m3(((const uint8_t *)from)[i]);
        }
        break;
    case CARAT_E5M2:
        for (int64_t i = 0; i < count; i++) {
            to[i] = f32_from_e5m2(((const uint8_t *)from)[i]);
        }
        break;
    case CARAT_S8:
        for (int64_t i = 0; i < count; i++) {
            to[i] = ((const int8_t *)from)[i];
        }
        break;
    default:
        memcpy(to, from, (size_t)count * sizeof(float));
        break;
    }
}

/* To the nearest, to even in the middle, no further than the ends; NaN is 0. */
static int8_t s8_from_f32(float x)
{
    float within = x > -128.0f ? (x < 127.0f ? x : 127.0f) : -128.0f;
    /* The last bit of a sum with 1.5 * 2^23 is worth 1. */
    float rounded = (within + 0x1.8p23f) - 0x1.8p23f;
    return (int8_t)(x == x ? rounded : 0.0f);
}

/*
 * An f64 as f32 with its last bit set where something was cut off ("round to odd"): rounded again, to two bits fewer or
 * less than that, it becomes what the f64 itself would.
 */
static float f32_to_odd_from_f64(double x)
{
    float nearest = (float)x;
    if (x != x || (double)nearest == x) {
        return nearest;
    }
    uint32_t bits;
    memcpy(&bits, &nearest, sizeof(bits));
    bits -= fabs((double)nearest) > fabs(x); /* towards 0, from infinity too */
    bits |= 1;
    memcpy(&nearest, &bits, sizeof(bits));
    return nearest;
}

void cpu_narrow_f64(carat_type type, const double *from, int64_t count, void *to)
{
    size_t bytes = carat_type_size(type);
    for (int64_t i = 0; i < count; i++) {
        float narrower = type == CARAT_F32 ? (float)from[i] : f32_to_odd_from_f64(from[i]);
        cpu_narrow(type, &narrower, 1, (char *)to + (size_t)i * bytes);
    }
}

void cpu_narrow(carat_type type, const float *from, int64_t count, void *to)
{
    switch (type) {
    case CARAT_F16:
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)to)[i] = f16_from_f32(from[i]);
        }
        break;
    case CARAT_BF16:
        for (int64_t i = 0; i < count; i++) {
            ((uint16_t *)to)[i] = bf16_from_f32(from[i]);
        }
        break;
    case CARAT_E4M3:
        for (int64_t i = 0; i < count; i++) {
            ((uint8_t *)to)[i] = e4m3_from_f32(from[i]);
        }
        break;
    case CARAT_S8:
        for (int64_t i = 0; i < count; i++) {
            ((int8_t *)to)[i] = s8_from_f32(from[i]);
        }
        break;
    default:
        memcpy(to, from, (size_t)count * sizeof(float));
        break;
    }
}
