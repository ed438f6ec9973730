/*
 * epilogue.h - what becomes of a finished sum, for rows with EPILOGUE=1 and for the reduce rows:
 *
 *     D = round(scale_d * act(alpha * scale_a * scale_b * sum + beta * C + bias))
 *
 * with every type and activation known only as the kernel runs. A thread reads its scalars once
 * (epilogue_scalars_of), then for each element: what is added to it (addend_of), its value (epilogue_value, or
 * fmaf and, for all of a thread's elements at once, activate_all), and the way into D (store_result_as, or the
 * pack functions where neighbours lie side by side in registers). epilogue_element does all of that for one element.
 *
 * -0 stands for "nothing to add", as x + -0 is x for every x, where -0 + 0 would not be.
 *
 * Sums of s32 whose D is s32 are finished in s32 (the functions that end in _s32), those of f64 in f64, also where D and
 * the scalars are of narrower types, as in the best accuracy.
 */
#ifndef CARAT_KERNELS_EPILOGUE_H
#define CARAT_KERNELS_EPILOGUE_H

#include <stdint.h>

/* ---- Scalars ---- */

static __device__ inline float scalar_f32(scalar_argument scalar)
{
    return scalar.device ? *(const float *)scalar.device : scalar.value.f32;
}

static __device__ inline double scalar_f64(scalar_argument scalar)
{
    return scalar.device ? *(const double *)scalar.device : scalar.value.f64;
}

static __device__ inline uint32_t scalar_s32(scalar_argument scalar)
{
    return (uint32_t)(scalar.device ? *(const int32_t *)scalar.device : scalar.value.s32);
}

/* Whether nothing need be summed. alpha alone says that: a scale may be 0 too, but 0 * NaN is NaN. */
static __device__ inline int alpha_is_zero(scalar_argument alpha, int32_t result_type)
{
    switch (result_type) {
    case ELEMENT_F64:
        return scalar_f64(alpha) == 0;
    case ELEMENT_S32:
        return scalar_s32(alpha) == 0;
    default:
        return scalar_f32(alpha) == 0;
    }
}

/* What a thread needs of the call, for f32 arithmetic. */
typedef struct epilogue_scalars {
    float alpha; /* alpha * scale_a * scale_b; 0 where alpha is 0, whatever the scales are */
    float beta;
    float scale_d;
} epilogue_scalars;

static __device__ inline epilogue_scalars epilogue_scalars_of(const epilogue_arguments *epilogue,
                                                              scalar_argument alpha, scalar_argument beta)
{
    epilogue_scalars scalars;
    scalars.alpha = scalar_f32(alpha);
    if (scalars.alpha != 0) {
        scalars.alpha = scalars.alpha * scalar_f32(epilogue->scale_a) * scalar_f32(epilogue->scale_b);
    }
    scalars.beta = scalar_f32(beta);
    scalars.scale_d = scalar_f32(epilogue->scale_d);
    return scalars;
}

/* ---- Types known only as the kernel runs ---- */

/*
 * The four bits of exponent and three of the fraction, put where f32 has them, make a number 2^120 too small, of
 * denormals too.
 */
static __device__ inline float f32_from_e4m3(uint8_t bits)
{
    float magnitude = __uint_as_float((uint32_t)(bits & 0x7f) << 20) * __uint_as_float(0x7b800000u);
    uint32_t word = (bits & 0x7f) == 0x7f ? 0x7fc00000u : __float_as_uint(magnitude);
    return __uint_as_float(word | (uint32_t)(bits & 0x80) << 24);
}

/* Round to nearest even, saturating at +-448, NaN to 0x7f. For devices without an instruction for it. */
static __device__ inline uint32_t e4m3_from_f32(float value)
{
    uint32_t sign = __float_as_uint(value) >> 24 & 0x80u;
    uint32_t magnitude = __float_as_uint(value) & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return 0x7fu;
    }
    if (magnitude > 0x43e00000u) { /* 448 */
        magnitude = 0x43e00000u;
    }
    if (magnitude < 0x3c800000u) {
        /* Below 2^-6: the last bit of a sum with 2^14 is worth 2^-9, the least denormal. */
        return sign | (__float_as_uint(__fadd_rn(__uint_as_float(magnitude), 16384.0f)) - 0x46800000u);
    }
    /* Half of the last kept place, less one where that place is even; the exponent's bias goes from 127 to 7. */
    return sign | ((magnitude + 0x7ffffu + (magnitude >> 20 & 1u) - 0x3c000000u) >> 20);
}

/* Round to nearest even, saturating; NaN to 0. */
static __device__ inline int8_t s8_from_f32(float value)
{
    return value == value ? (int8_t)rintf(fminf(fmaxf(value, -128.0f), 127.0f)) : (int8_t)0;
}

/* Element number index of an array of that type. */
static __device__ inline float load_result_as_f32(const void *base, int64_t index, int32_t type)
{
    switch (type) {
    case ELEMENT_F16:
        return f32_from_f16(((const uint16_t *)base)[index]);
    case ELEMENT_BF16:
        return f32_from_bf16(((const uint16_t *)base)[index]);
    case ELEMENT_E4M3:
        return f32_from_e4m3(((const uint8_t *)base)[index]);
    case ELEMENT_S8:
        return (float)((const int8_t *)base)[index];
    default:
        return ((const float *)base)[index];
    }
}

/* ---- Two neighbours in registers, the first in the lower half ---- */

static __device__ inline uint32_t pack_f16(float low, float high)
{
#if __CUDA_ARCH__ >= 800
    return f16x2_from_f32(low, high);
#else
    return f16_from_f32(low) | (uint32_t)f16_from_f32(high) << 16;
#endif
}

static __device__ inline uint32_t pack_bf16(float low, float high)
{
#if __CUDA_ARCH__ >= 800
    return bf16x2_from_f32(low, high);
#else
    return bf16_from_f32(low) | (uint32_t)bf16_from_f32(high) << 16;
#endif
}

static __device__ inline uint16_t pack_e4m3(float low, float high)
{
#if __CUDA_ARCH__ >= 890
    return e4m3x2_from_f32(low, high);
#else
    return (uint16_t)(e4m3_from_f32(low) | e4m3_from_f32(high) << 8);
#endif
}

static __device__ inline uint16_t pack_s8(float low, float high)
{
    return (uint16_t)((uint8_t)s8_from_f32(low) | (uint8_t)s8_from_f32(high) << 8);
}

static __device__ inline void store_result_as(void *base, int64_t index, int32_t type, float value)
{
    switch (type) {
    case ELEMENT_F16:
        ((uint16_t *)base)[index] = f16_from_f32(value);
        break;
    case ELEMENT_BF16:
        ((uint16_t *)base)[index] = bf16_from_f32(value);
        break;
    case ELEMENT_E4M3:
        ((uint8_t *)base)[index] = (uint8_t)pack_e4m3(value, 0);
        break;
    case ELEMENT_S8:
        ((int8_t *)base)[index] = s8_from_f32(value);
        break;
    default:
        ((float *)base)[index] = value;
        break;
    }
}

/* ---- Activations ---- */

/* x where x > 0, else 0; NaN stays NaN. */
static __device__ inline float relu(float x) { return x <= 0 ? 0 : x; }

/* x / (1 + exp(-x)) */
static __device__ inline float silu(float x)
{
    return x * reciprocal_approximate(1 + exp2_approximate(-1.44269504f * x));
}

/* x/2 (1 + tanh u) is x / (1 + exp(-2u)), u = sqrt(2/pi) (x + 0.044715 x^3); the factors hold 2 log2(e). */
static __device__ inline float gelu_tanh(float x)
{
    float exponent = x * fmaf(-0.102943240f, x * x, -2.30220819f);
    return x * reciprocal_approximate(1 + exp2_approximate(exponent));
}

/*
 * x/2 (1 + erf(x / sqrt 2)) by the tail of the normal distribution, h = erfc(|x| / sqrt 2) / 2: x h where x < 0,
 * else x - x h. log2(h) is smooth: a polynomial fitted where h is not yet lost against 1 (|x| up to 6) has an
 * error of 2^-24 in h, and beyond falls faster than log2(h) does; from 16 on h is 0.
 */
static __device__ inline float gelu_erf(float x)
{
    float z = fabsf(fminf(x, 16)); /* -infinity times 0 is NaN, infinity is not to be */
    float log_h = -1.7342829e-06f;
    log_h = fmaf(log_h, z, 2.761039e-05f);
    log_h = fmaf(log_h, z, -1.3673332e-04f);
    log_h = fmaf(log_h, z, -2.414798e-04f);
    log_h = fmaf(log_h, z, 7.181658e-03f);
    log_h = fmaf(log_h, z, -5.2566368e-02f);
    log_h = fmaf(log_h, z, -4.5918828e-01f);
    log_h = fmaf(log_h, z, -1.1511073f);
    log_h = fmaf(log_h, z, -9.9999994e-01f);
    return fmaf(-z, exp2_approximate(log_h), relu(x));
}

/* All of a thread's elements: one branch in all, where their number is a constant. */
static __device__ __forceinline__ void activate_all(float *x, int count, int32_t activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
#pragma unroll
        for (int i = 0; i < count; ++i) {
            x[i] = relu(x[i]);
        }
        break;
    case ACTIVATION_GELU_TANH:
#pragma unroll
        for (int i = 0; i < count; ++i) {
            x[i] = gelu_tanh(x[i]);
        }
        break;
    case ACTIVATION_GELU_ERF:
#pragma unroll
        for (int i = 0; i < count; ++i) {
            x[i] = gelu_erf(x[i]);
        }
        break;
    case ACTIVATION_SILU:
#pragma unroll
        for (int i = 0; i < count; ++i) {
            x[i] = silu(x[i]);
        }
        break;
    default:
        break;
    }
}

static __device__ inline float activate(float x, int32_t activation)
{
    activate_all(&x, 1, activation);
    return x;
}

static __device__ inline double activate_f64(double x, int32_t activation)
{
    switch (activation) {
    case ACTIVATION_RELU:
        return x <= 0 ? 0 : x;
    case ACTIVATION_GELU_TANH:
        return x / (1 + exp(-1.5957691216057308 * (x + 0.044715 * x * x * x))); /* 2 sqrt(2/pi) */
    case ACTIVATION_GELU_ERF:
        return x * (0.5 * erfc(x * -0.7071067811865476));
    case ACTIVATION_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

/* ---- One element of D, (i, j) of a problem of the batch ---- */

static __device__ inline int64_t bias_index(const epilogue_arguments *epilogue, int64_t problem, int64_t i,
                                            int64_t j)
{
    return problem * epilogue->stride_bias + (epilogue->bias_along_n ? j : i);
}

/* The bias of an element; -0 where there is none. */
static __device__ inline float bias_of(const epilogue_arguments *epilogue, int64_t problem, int64_t i,
                                       int64_t j)
{
    if (!epilogue->bias) {
        return -0.0f;
    }
    return load_result_as_f32(epilogue->bias, bias_index(epilogue, problem, i, j), epilogue->bias_type);
}

/* beta * C + bias. C, its element number at_c, is not read where beta is 0. */
static __device__ inline float addend_of(const epilogue_arguments *epilogue, float beta, const void *c,
                                         int64_t at_c, float bias)
{
    return beta == 0 ? bias : fmaf(beta, load_result_as_f32(c, at_c, epilogue->result_type), bias);
}

static __device__ inline float epilogue_value(float sum, float addend, const epilogue_scalars *scalars,
                                              int32_t activation)
{
    return scalars->scale_d * activate(fmaf(scalars->alpha, sum, addend), activation);
}

/* From the sum to D, whose element number at_d it is. c and d may be one matrix. */
static __device__ inline void epilogue_element(const epilogue_arguments *epilogue,
                                               const epilogue_scalars *scalars, int64_t problem, int64_t i,
                                               int64_t j, float sum, const void *c, int64_t at_c, void *d,
                                               int64_t at_d)
{
    float bias = bias_of(epilogue, problem, i, j);
    float addend = addend_of(epilogue, scalars->beta, c, at_c, bias);
    store_result_as(d, at_d, epilogue->result_type,
                    epilogue_value(sum, addend, scalars, epilogue->activation));
}

/* The same in s32, modulo 2^32, where D is s32: no scales, and no activation but ReLU. */
static __device__ inline void epilogue_element_s32(const epilogue_arguments *epilogue, uint32_t alpha,
                                                   uint32_t beta, int64_t problem, int64_t i, int64_t j,
                                                   uint32_t sum, const void *c, int64_t at_c, void *d,
                                                   int64_t at_d)
{
    uint32_t value = alpha * sum;
    if (beta != 0) {
        value += beta * (uint32_t)((const int32_t *)c)[at_c];
    }
    if (epilogue->bias) {
        value += (uint32_t)((const int32_t *)epilogue->bias)[bias_index(epilogue, problem, i, j)];
    }
    if (epilogue->activation == ACTIVATION_RELU && (int32_t)value < 0) {
        value = 0;
    }
    ((int32_t *)d)[at_d] = (int32_t)value;
}

/* The same in f64: no scales. */
static __device__ inline void epilogue_element_f64(const epilogue_arguments *epilogue, double alpha,
                                                   double beta, int64_t problem, int64_t i, int64_t j,
                                                   double sum, const void *c, int64_t at_c, void *d,
                                                   int64_t at_d)
{
    double addend =
        epilogue->bias ? ((const double *)epilogue->bias)[bias_index(epilogue, problem, i, j)] : -0.0;
    if (beta != 0) {
        addend = fma(beta, ((const double *)c)[at_c], addend);
    }
    ((double *)d)[at_d] = activate_f64(fma(alpha, sum, addend), epilogue->activation);
}

/* The same in f64 where D is of a narrower type, to which it is rounded once; the scalars are f32. */
static __device__ inline void epilogue_element_narrowed(const epilogue_arguments *epilogue,
                                                        scalar_argument alpha, scalar_argument beta,
                                                        int64_t problem, int64_t i, int64_t j, double sum,
                                                        const void *c, int64_t at_c, void *d, int64_t at_d)
{
    double scale = scalar_f32(alpha);
    double scale_c = scalar_f32(beta);
    double addend = bias_of(epilogue, problem, i, j);
    if (scale != 0) {
        scale = scale * scalar_f32(epilogue->scale_a) * scalar_f32(epilogue->scale_b);
    }
    if (scale_c != 0) {
        addend = fma(scale_c, (double)load_result_as_f32(c, at_c, epilogue->result_type), addend);
    }
    double value =
        scalar_f32(epilogue->scale_d) * activate_f64(fma(scale, sum, addend), epilogue->activation);
    float rounded = epilogue->result_type == ELEMENT_F32 ? (float)value : f32_to_odd_from_f64(value);
    store_result_as(d, at_d, epilogue->result_type, rounded);
}

#endif
