/*
 * element.h - the element types that a row of the catalogue selects with ELEMENT.
 *
 *     element      an element of A and B as it lies in memory
 *     accumulator  the type of the sums, of alpha and of beta
 *     result       an element of C and D as it lies in memory
 *
 * widen() and widen_result() go up without loss, narrow() comes down with one rounding.
 */
#ifndef CARAT_KERNELS_ELEMENT_H
#define CARAT_KERNELS_ELEMENT_H

/* Rows of best accuracy keep sums in f64, and those of f64 in two of them: see running_sum.h. */
#if defined(ACCURACY) && ACCURACY == ACCURACY_BEST
#define WIDE_SUMS 1
#else
#define WIDE_SUMS 0
#endif

/*
 * An f64 as f32 with its last bit set where something was cut off ("round to odd"). Rounded again, to two bits fewer or
 * less than that, it becomes what the f64 itself would.
 */
static __device__ inline float f32_to_odd_from_f64(double x)
{
    float nearest = (float)x;
    uint32_t bits = __float_as_uint(nearest);
    if (x != x || (double)nearest == x) {
        return nearest;
    }
    bits -= fabs((double)nearest) > fabs(x); /* towards 0, from infinity too */
    return __uint_as_float(bits | 1u);
}

#if !defined(ELEMENT) || ELEMENT == ELEMENT_NONE

/* A kernel that moves bytes of any type has none of these. */

#elif WIDE_SUMS && ELEMENT == ELEMENT_F32

typedef float element;
typedef double accumulator;
typedef float result;
static __device__ inline accumulator widen(element x) { return x; }
static __device__ inline accumulator widen_result(result x) { return x; }
static __device__ inline result narrow(accumulator x) { return (result)x; }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fma(x, y, z);
}

#elif WIDE_SUMS && (ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16)

typedef uint16_t element;
typedef double accumulator;
typedef uint16_t result;
#if ELEMENT == ELEMENT_F16
static __device__ inline accumulator widen(element x) { return f32_from_f16(x); }
static __device__ inline result narrow(accumulator x) { return f16_from_f32(f32_to_odd_from_f64(x)); }
#else
static __device__ inline accumulator widen(element x) { return f32_from_bf16(x); }
static __device__ inline result narrow(accumulator x) { return bf16_from_f32(f32_to_odd_from_f64(x)); }
#endif
static __device__ inline accumulator widen_result(result x) { return widen(x); }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fma(x, y, z);
}

#elif ELEMENT == ELEMENT_F32

typedef float element;
typedef float accumulator;
typedef float result;
static __device__ inline accumulator widen(element x) { return x; }
static __device__ inline accumulator widen_result(result x) { return x; }
static __device__ inline result narrow(accumulator x) { return x; }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fmaf(x, y, z);
}

#elif ELEMENT == ELEMENT_F64

typedef double element;
typedef double accumulator;
typedef double result;
static __device__ inline accumulator widen(element x) { return x; }
static __device__ inline accumulator widen_result(result x) { return x; }
static __device__ inline result narrow(accumulator x) { return x; }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fma(x, y, z);
}

#elif ELEMENT == ELEMENT_F16

typedef uint16_t element;
typedef float accumulator;
typedef uint16_t result;
static __device__ inline accumulator widen(element x) { return f32_from_f16(x); }
static __device__ inline accumulator widen_result(result x) { return f32_from_f16(x); }
static __device__ inline result narrow(accumulator x) { return f16_from_f32(x); }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fmaf(x, y, z);
}

#elif ELEMENT == ELEMENT_BF16

typedef uint16_t element;
typedef float accumulator;
typedef uint16_t result;
static __device__ inline accumulator widen(element x) { return f32_from_bf16(x); }
static __device__ inline accumulator widen_result(result x) { return f32_from_bf16(x); }
static __device__ inline result narrow(accumulator x) { return bf16_from_f32(x); }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fmaf(x, y, z);
}

#elif ELEMENT == ELEMENT_S32

/* Sums wrap modulo 2^32, which unsigned arithmetic says without undefined behaviour. */
typedef int32_t element;
typedef uint32_t accumulator;
typedef int32_t result;
static __device__ inline accumulator widen(element x) { return (accumulator)x; }
static __device__ inline accumulator widen_result(result x) { return (accumulator)x; }
static __device__ inline result narrow(accumulator x) { return (result)x; }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return x * y + z;
}

#elif ELEMENT == ELEMENT_S8

typedef int8_t element;
typedef uint32_t accumulator;
typedef int32_t result;
static __device__ inline accumulator widen(element x) { return (accumulator)(int32_t)x; }
static __device__ inline accumulator widen_result(result x) { return (accumulator)x; }
static __device__ inline result narrow(accumulator x) { return (result)x; }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return x * y + z;
}

#elif ELEMENT == ELEMENT_E4M3 || ELEMENT == ELEMENT_E5M2

/* Only the tensor unit multiplies them as they are. Their own result is bf16. */
typedef uint8_t element;
typedef float accumulator;
typedef uint16_t result;
static __device__ inline accumulator widen_result(result x) { return f32_from_bf16(x); }
static __device__ inline result narrow(accumulator x) { return bf16_from_f32(x); }
static __device__ inline accumulator multiply_add(accumulator x, accumulator y, accumulator z)
{
    return fmaf(x, y, z);
}

#else
#error "ELEMENT is none of the words in words.h"
#endif

#if defined(ELEMENT) && ELEMENT != ELEMENT_NONE

/* alpha, beta and their kind: from the device where they live there, else the value in the arguments. */
static __device__ inline accumulator scalar_value(scalar_argument scalar)
{
#if ELEMENT == ELEMENT_F64
    return scalar.device ? *(const double *)scalar.device : scalar.value.f64;
#elif ELEMENT == ELEMENT_S32 || ELEMENT == ELEMENT_S8
    return (accumulator)(scalar.device ? *(const int32_t *)scalar.device : scalar.value.s32);
#else
    return scalar.device ? *(const float *)scalar.device : scalar.value.f32;
#endif
}

/*
 * One element of D from its finished sum. C is not read when beta is 0, and D is written once. With
 * alpha 0 the caller has summed nothing, and sum is 0.
 */
static __device__ inline result finish(accumulator sum, accumulator alpha, accumulator beta, const result *c)
{
    if (beta == 0) {
        return narrow(alpha * sum);
    }
    return narrow(multiply_add(alpha, sum, beta * widen_result(*c)));
}

#endif

#endif
