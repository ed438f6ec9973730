/*
 * wgmma_values.h - what a thread of a consumer has of a tile, and how its sums become D's values where they stand, in
 * registers: all of the epilogue but the rounding. It is a part of wgmma.cu, as the other headers of that name.
 *
 * A consumer's sums are 64 rows by WGMMA_N columns (see ptx/wgmma.h), 16 rows a warp; which of them run along m is the
 * row's choice.
 */
#ifndef CARAT_GEMM_WGMMA_VALUES_H
#define CARAT_GEMM_WGMMA_VALUES_H

#include "epilogue.h"

/* Where a thread stands among the sums: see wgmma.h. */
typedef struct standing {
    int thread; /* in its warpgroup */
    int warp;
    int lane;
    int group;
    int member;
} standing;

/*
 * The number is read anew for each tile: from threadIdx the compiler would work out all addresses before the first
 * tile and keep them in registers that the sums need.
 */
static __device__ inline standing standing_of_thread(void)
{
    int thread = (int)thread_number();
    standing at;
    at.thread = thread % WARPGROUP;
    at.warp = thread / 32 % 4;
    at.lane = thread % 32;
    at.group = at.lane / 4;
    at.member = at.lane % 4;
    return at;
}

/* Row and column of sum number i in the consumer's 64 x WGMMA_N. */
static __device__ inline int row_of(standing at, int i) { return 16 * at.warp + at.group + i % 4 / 2 * 8; }
static __device__ inline int column_of(standing at, int i) { return i / 4 * 8 + 2 * at.member + i % 2; }

/* The same along m and along n. */
static __device__ inline int along_m(standing at, int i)
{
    return SWAPPED ? column_of(at, i) : row_of(at, i);
}
static __device__ inline int along_n(standing at, int i)
{
    return SWAPPED ? row_of(at, i) : column_of(at, i);
}

static __device__ inline void clear(wgmma_sum sum[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] = 0;
    }
}

static __device__ inline void meet(int consumer) { barrier_sync(1 + consumer, WARPGROUP); }

/* Those who store together. */
static __device__ inline void meet_storers(int consumer)
{
    if (STORERS == 32) {
        __syncwarp();
    } else {
        meet(consumer);
    }
}

/* A thread's rows in its buffer. */
static __device__ inline int buffer_row_of(standing at, int i) { return at.group + i % 4 / 2 * 8; }

/* How many of a tile's rows or columns lie in the matrix, where so many are left. */
static __device__ inline int inside(int64_t left) { return left < WGMMA_N + 64 ? (int)left : WGMMA_N + 64; }

/* An element of C of less than 32 bits. */
static __device__ inline float load_narrow(const void *c, int64_t index, int32_t type)
{
#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16
    (void)type; /* C is of A's type */
    return widen(((const element *)c)[index]);
#else
    return load_result_as_f32(c, index, type);
#endif
}

/* Adds beta * C; unaligned C and any edge are allowed, so each element is read by itself. */
static __device__ inline void add_c(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                    place share, float beta)
{
    int32_t type = gemm->epilogue.result_type;
    int64_t first = share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        if (i % 16 == 0) {
            __syncwarp(); /* or the compiler has more loads under way than it has registers */
        }
        if (along_m(at, i) < rows && along_n(at, i) < columns) {
            int64_t index = first + along_m(at, i) + along_n(at, i) * gemm->ldc;
            float c =
                type == ELEMENT_F32 ? ((const float *)gemm->c)[index] : load_narrow(gemm->c, index, type);
            value[i] = fmaf(beta, c, value[i]);
        }
    }
}

/* Adds the bias, read once into shared memory as f32. */
static __device__ inline void add_bias(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                       place share, float *shared_bias, int consumer)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    int64_t first = epilogue->bias_along_n ? share.column : share.row;
    int64_t left = (epilogue->bias_along_n ? gemm->n : gemm->m) - first;
    int count = epilogue->bias_along_n == SWAPPED ? 64 : WGMMA_N;
    meet(consumer); /* everybody has read the last tile's */
    for (int i = at.thread; i < count; i += WARPGROUP) {
        shared_bias[i] =
            i < left ? load_result_as_f32(epilogue->bias, share.problem * epilogue->stride_bias + first + i,
                                          epilogue->bias_type)
                     : 0;
    }
    meet(consumer);
    if (epilogue->bias_along_n == SWAPPED) {
        float low = shared_bias[row_of(at, 0)];
        float high = shared_bias[row_of(at, 2)];
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] += i % 4 < 2 ? low : high;
        }
    } else {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; i += 4) {
            float2 both = *(const float2 *)&shared_bias[column_of(at, i)];
            value[i] += both.x;
            value[i + 1] += both.y;
            value[i + 2] += both.x;
            value[i + 3] += both.y;
        }
    }
}

/* Whether the sums are D's values as they are. */
static __device__ inline int epilogue_is_plain(const gemm_arguments *gemm)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    if (gemm->partials) {
        return 1;
    }
#if ELEMENT == ELEMENT_S8
    if (epilogue->result_type == ELEMENT_S32) {
        return scalar_s32(gemm->alpha) == 1 && scalar_s32(gemm->beta) == 0 && !epilogue->bias &&
               epilogue->activation == ACTIVATION_NONE;
    }
#endif
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, gemm->alpha, gemm->beta);
    return scalars.alpha == 1 && scalars.beta == 0 && scalars.scale_d == 1 && !epilogue->bias &&
           epilogue->activation == ACTIVATION_NONE;
}

/* Everything but the rounding: value holds the sums, and then D's elements. */
static __device__ inline void finish_values(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                            place share, float *shared_bias, int consumer)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, gemm->alpha, gemm->beta);
    if (scalars.alpha != 1) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] *= scalars.alpha;
        }
    }
    if (scalars.beta != 0) {
        add_c(at, value, gemm, share, scalars.beta);
    }
    if (epilogue->bias) {
        add_bias(at, value, gemm, share, shared_bias, consumer);
    }
    activate_all(value, WGMMA_SUMS, epilogue->activation);
    if (scalars.scale_d != 1) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] *= scalars.scale_d;
        }
    }
}

#if ELEMENT == ELEMENT_S8

/* The same in s32, modulo 2^32: for D of s32. */
static __device__ inline void finish_integers(standing at, wgmma_sum sum[WGMMA_SUMS],
                                              const gemm_arguments *gemm, place share)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    uint32_t alpha = scalar_s32(gemm->alpha);
    uint32_t beta = scalar_s32(gemm->beta);
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
    const int32_t *bias = (const int32_t *)epilogue->bias + share.problem * epilogue->stride_bias +
                          (epilogue->bias_along_n ? share.column : share.row);
    const int32_t *c =
        (const int32_t *)gemm->c + share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        if (i % 16 == 0) {
            __syncwarp(); /* as in add_c */
        }
        uint32_t value = alpha * (uint32_t)sum[i];
        if (along_m(at, i) < rows && along_n(at, i) < columns) {
            if (beta != 0) {
                value += beta * (uint32_t)c[along_m(at, i) + along_n(at, i) * gemm->ldc];
            }
            if (epilogue->bias) {
                value += (uint32_t)bias[epilogue->bias_along_n ? along_n(at, i) : along_m(at, i)];
            }
        }
        if (epilogue->activation == ACTIVATION_RELU && (int32_t)value < 0) {
            value = 0;
        }
        sum[i] = (int32_t)value;
    }
}

#endif

/* The sums become D's values, but for the rounding, where they are not with `plain`. Integers become f32 or stay. */
static __device__ __forceinline__ void values_of_sums(standing at, const gemm_arguments *gemm, place share,
                                                      wgmma_sum sum[WGMMA_SUMS], float value[WGMMA_SUMS],
                                                      float *shared_bias, int consumer, int plain)
{
#if ELEMENT == ELEMENT_S8
    int floats = !gemm->partials && gemm->epilogue.result_type != ELEMENT_S32;
    if (!plain && !floats) {
        finish_integers(at, sum, gemm, share);
    }
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        value[i] = floats ? (float)sum[i] : __int_as_float(sum[i]);
    }
    if (!plain && floats) {
        finish_values(at, value, gemm, share, shared_bias, consumer);
    }
#else
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        value[i] = sum[i];
    }
    if (!plain) {
        finish_values(at, value, gemm, share, shared_bias, consumer);
    }
#endif
}

#endif
