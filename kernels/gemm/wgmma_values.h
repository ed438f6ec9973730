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
#include "wgmma_plain.h"

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
    uint32_t thread = thread_number();
    standing at;
    at.thread = (int)(thread % WARPGROUP);
    at.warp = (int)(thread / 32 % 4);
    at.lane = (int)(thread % 32);
    at.group = at.lane / 4;
    at.member = at.lane % 4;
    return at;
}

/*
 * Row and column of sum number i in the consumer's 64 x WGMMA_N. A thread has two rows of a warp's 16: eight apart, or
 * next to each other where the rows were fetched in pairs.
 */
#ifndef ROWS_IN_PAIRS
#define ROWS_IN_PAIRS 0
#endif
#define FIRST_OF_ROWS(group) (ROWS_IN_PAIRS ? 2 * (group) : (group))
#define SECOND_ROW (ROWS_IN_PAIRS ? 1 : 8) /* behind the first */

static __device__ inline int row_of(standing at, int i)
{
    return 16 * at.warp + FIRST_OF_ROWS(at.group) + i % 4 / 2 * SECOND_ROW;
}
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

/* What a block stores of a tile's columns: all, in a source whose blocks do not share k. */
#ifndef STORED_N
#define STORED_N WGMMA_N
#define STORED_SUMS WGMMA_SUMS
#endif

/* All of a consumer's sums: of 64 rows, or of so many and then of 64 more. */
#ifndef ROW_HALVES
#define ROW_HALVES 1
#endif
#define CONSUMER_SUMS (ROW_HALVES * WGMMA_SUMS)
/* A consumer's rows or the tile's columns, whichever are more. */
#define BIAS_LENGTH (STORED_N > 64 * ROW_HALVES ? STORED_N : 64 * ROW_HALVES)
static_assert(BIAS_LENGTH <= STORED_N + 64, "inside() counts so far");

static __device__ inline void clear(wgmma_sum sum[CONSUMER_SUMS])
{
#pragma unroll
    for (int i = 0; i < CONSUMER_SUMS; ++i) {
        sum[i] = 0;
    }
}

static __device__ inline void hold_sums(wgmma_sum sum[CONSUMER_SUMS])
{
#pragma unroll
    for (int half = 0; half < ROW_HALVES; ++half) {
        wgmma_hold(sum + half * WGMMA_SUMS);
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

/* How many of a tile's rows or columns lie in the matrix, where so many are left. */
static __device__ inline int inside(int64_t left) { return left < STORED_N + 64 ? (int)left : STORED_N + 64; }

/* The 32 bits of a sum. */
static __device__ inline float sum_as_float(wgmma_sum sum)
{
#if ELEMENT == ELEMENT_S8
    return __int_as_float(sum);
#else
    return sum;
#endif
}

/* ---- What there is to do ---- */

/*
 * Of a sum that becomes an element of D; nothing of it: it is one, but for the rounding. It is worked out once: the
 * arguments lie in constant memory, or behind a pointer, and a tile's end would wait for each in turn.
 */
enum {
    SCALES_SUMS = 1,
    ADDS_C = 2,
    ADDS_BIAS = 4,
    BIAS_ALONG_N = 8,
    SCALES_RESULTS = 16,
    IN_INTEGERS = 32,
    ACTIVATION_SHIFT = 8,
    ALL_TODO = 0xffff
};

static __device__ inline uint32_t todo_of(const gemm_arguments *gemm)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    if (gemm->partials) {
        return 0;
    }
#if ELEMENT == ELEMENT_S8
    if (epilogue->result_type == ELEMENT_S32) {
        int is_plain = scalar_s32(gemm->alpha) == 1 && scalar_s32(gemm->beta) == 0 && !epilogue->bias &&
                       epilogue->activation == ACTIVATION_NONE;
        uint32_t bias = epilogue->bias ? ADDS_BIAS | (epilogue->bias_along_n ? BIAS_ALONG_N : 0) : 0;
        return is_plain ? 0 : IN_INTEGERS | bias;
    }
#endif
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, gemm->alpha, gemm->beta);
    uint32_t todo = (uint32_t)epilogue->activation << ACTIVATION_SHIFT;
    todo |= scalars.alpha != 1 ? SCALES_SUMS : 0;
    todo |= scalars.beta != 0 ? ADDS_C : 0;
    todo |= epilogue->bias ? ADDS_BIAS : 0;
    todo |= epilogue->bias && epilogue->bias_along_n ? BIAS_ALONG_N : 0;
    todo |= scalars.scale_d != 1 ? SCALES_RESULTS : 0;
    return todo;
}

/* ---- alpha * sum + (beta * C + bias) ---- */

/* Whether a tile's bias is to be fetched: C is added to it, be there one or not. */
static __device__ inline int wants_bias(uint32_t todo) { return (todo & (ADDS_C | ADDS_BIAS)) != 0; }

/*
 * A tile's bias, or where there is none -0, on its way into shared memory, where it is f32 (or s32, as it was): what a thread
 * brings of it, as it lies in memory. That takes a while to come, and who converts it waits for it; so it is asked for while one stage is
 * multiplied, and put into shared memory while the next is, or behind the last (BIAS_COMES_LAST).
 */
#define BIASES_OF_THREAD ((BIAS_LENGTH + WARPGROUP - 1) / WARPGROUP)

typedef struct coming_bias {
    uint32_t bits[BIASES_OF_THREAD];
} coming_bias;

static __device__ __forceinline__ void ask_for_bias(const gemm_arguments *gemm, place share,
                                                    coming_bias *bias, uint32_t todo)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    int along_n = (todo & BIAS_ALONG_N) != 0;
    int64_t first = along_n ? share.column : share.row;
    int left = todo & ADDS_BIAS ? inside((along_n ? gemm->n : gemm->m) - first) : 0;
    int thread = (int)thread_number() % WARPGROUP;
    int is_wide =
        epilogue->bias_type == ELEMENT_F32 || (ELEMENT == ELEMENT_S8 && epilogue->bias_type == ELEMENT_S32);
    first += share.problem * epilogue->stride_bias + thread;
#pragma unroll
    for (int i = 0; i < BIASES_OF_THREAD; ++i) {
        bias->bits[i] = is_wide ? 0x80000000u : 0x8000u; /* -0; of s32, beyond D's edge alone */
        if (thread + i * WARPGROUP < left) {
            if (is_wide) {
                bias->bits[i] = ((const uint32_t *)epilogue->bias)[first + i * WARPGROUP];
            } else {
                bias->bits[i] = ((const uint16_t *)epilogue->bias)[first + i * WARPGROUP];
            }
        }
    }
}

/* The consumer meets once more before it is read. */
static __device__ __forceinline__ void put_bias(const gemm_arguments *gemm, const coming_bias *bias,
                                                float *shared_bias, int consumer)
{
    int32_t type = gemm->epilogue.bias_type;
    int thread = (int)thread_number() % WARPGROUP;
    meet(consumer); /* everybody has read the last tile's */
#pragma unroll
    for (int i = 0; i < BIASES_OF_THREAD; ++i) {
        uint16_t half = (uint16_t)bias->bits[i];
        float number = type == ELEMENT_F16    ? f32_from_f16(half)
                       : type == ELEMENT_BF16 ? f32_from_bf16(half)
                                              : __uint_as_float(bias->bits[i]);
        if (thread + i * WARPGROUP < BIAS_LENGTH) {
            shared_bias[thread + i * WARPGROUP] = number;
        }
    }
}

/* Both at once. */
static __device__ inline void fetch_bias(const gemm_arguments *gemm, place share, float *shared_bias,
                                         uint32_t todo, int consumer)
{
    coming_bias bias;
    ask_for_bias(gemm, share, &bias, todo);
    put_bias(gemm, &bias, shared_bias, consumer);
}

/* Bytes of an element of C. */
static __device__ inline int size_of(int32_t type)
{
    return type == ELEMENT_F32 ? 4 : type == ELEMENT_F16 || type == ELEMENT_BF16 ? 2 : 1;
}

/* Columns of the sums whose elements of C are under way at a time, and how many of these a thread has of one row. */
#define C_COLUMNS 16
#define C_OF_THREAD (C_COLUMNS / 4)

/* Element number e of those, behind the thread's first. */
static __device__ __forceinline__ int c_column(int e) { return e / 2 * 8 + e % 2; }

/*
 * A thread's elements of C in one row, of a type that is a constant, so that all are under way at once. `left` columns lie
 * in the matrix, one at least; where others would be the first stands in, whose sums nobody stores.
 */
static __device__ __forceinline__ void load_c_as(float c[C_OF_THREAD], const void *line, int64_t step,
                                                 int left, int32_t type)
{
#pragma unroll
    for (int e = 0; e < C_OF_THREAD; ++e) {
        c[e] = load_result_as_f32(line, c_column(e) < left ? c_column(e) * step : 0, type);
    }
}

/* The same of any type: of all that this does these loads alone differ by it. */
static __device__ __forceinline__ void load_c(float c[C_OF_THREAD], const void *line, int64_t step, int left,
                                              int32_t type)
{
#if ELEMENT != ELEMENT_F32
    if (type != ELEMENT_F32) {
#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_S8
        load_c_as(c, line, step, left, ELEMENT);
#else
        if (type == ELEMENT_BF16) {
            load_c_as(c, line, step, left, ELEMENT_BF16);
        } else if (type == ELEMENT_F16) {
            load_c_as(c, line, step, left, ELEMENT_F16);
        } else {
            load_c_as(c, line, step, left, ELEMENT_E4M3);
        }
#endif
        return;
    }
#endif
    load_c_as(c, line, step, left, ELEMENT_F32);
}

/*
 * alpha * sum + (beta * C + bias); unaligned C and any edge are allowed, so each element is read by itself. A thread's two
 * rows among the sums are taken one after the other.
 */
static __device__ __forceinline__ void add_c_and_bias(standing at, float value[STORED_SUMS],
                                                      const gemm_arguments *gemm, place share, uint32_t todo,
                                                      const float *shared_bias)
{
    epilogue_scalars scalars = epilogue_scalars_of(&gemm->epilogue, gemm->alpha, gemm->beta);
    int32_t type = gemm->epilogue.result_type;
    uint32_t bias_along_rows = forget((todo & ADDS_BIAS) && ((todo & BIAS_ALONG_N) != 0) == SWAPPED);
    const float *column_bias = shared_bias + column_of(at, 0);
    int left_m = inside(gemm->m - share.row) - along_m(at, 0);
    int left_n = inside(gemm->n - share.column) - along_n(at, 0);
    int64_t step = SWAPPED ? 1 : gemm->ldc; /* from column to column of the sums */
    int64_t first = share.problem * gemm->stride_c + share.row + along_m(at, 0) +
                    (share.column + along_n(at, 0)) * gemm->ldc;
#pragma unroll
    for (int second = 0; second < 2; ++second) {
        const int row = second * SECOND_ROW;
        int left = row < (SWAPPED ? left_n : left_m) ? (SWAPPED ? left_m : left_n) : 0;
        const void *line =
            keep_address((const char *)gemm->c + (first + row * (SWAPPED ? gemm->ldc : 1)) * size_of(type));
        float row_bias = shared_bias[row_of(at, 0) + row];
#pragma unroll
        for (int first_column = 0; first_column < STORED_N; first_column += C_COLUMNS) {
            if (first_column >= left) {
                continue; /* and the compiler has no loads of the next ones under way */
            }
            float c[C_OF_THREAD];
            load_c(c, line, step, left - first_column, type);
            line = keep_address((const char *)line + C_COLUMNS * step * size_of(type));
#pragma unroll
            for (int e = 0; e < C_OF_THREAD && first_column + c_column(e) < STORED_N; ++e) {
                const int column = first_column + c_column(e);
                const int i = column / 8 * 4 + 2 * second + column % 8;
                float bias = bias_along_rows ? row_bias : column_bias[column];
                value[i] = fmaf(scalars.alpha, value[i], fmaf(scalars.beta, c[e], bias));
            }
        }
    }
}

static __device__ __forceinline__ void add_bias(standing at, float value[STORED_SUMS], float alpha,
                                                uint32_t todo, const float *shared_bias)
{
    if (((todo & BIAS_ALONG_N) != 0) == SWAPPED) {
        float low = shared_bias[row_of(at, 0)];
        float high = shared_bias[row_of(at, 2)];
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            value[i] = fmaf(alpha, value[i], i % 4 < 2 ? low : high);
        }
    } else {
#pragma unroll
        for (int i = 0; i < STORED_SUMS; i += 4) {
            float2 both = *(const float2 *)&shared_bias[column_of(at, i)];
            value[i] = fmaf(alpha, value[i], both.x);
            value[i + 1] = fmaf(alpha, value[i + 1], both.y);
            value[i + 2] = fmaf(alpha, value[i + 2], both.x);
            value[i + 3] = fmaf(alpha, value[i + 3], both.y);
        }
    }
}

/* ---- Sums become D's values ---- */

static __device__ __forceinline__ void scale(float value[STORED_SUMS], float factor)
{
#pragma unroll
    for (int i = 0; i < STORED_SUMS; ++i) {
        value[i] *= factor;
    }
}

/* Everything but the rounding: value holds the sums, and then D's elements. */
static __device__ __forceinline__ void finish_values(standing at, float value[STORED_SUMS],
                                                     const gemm_arguments *gemm, place share, uint32_t todo,
                                                     const float *shared_bias, int consumer)
{
    float alpha = 1;
    if (todo & SCALES_SUMS) {
        alpha = epilogue_scalars_of(&gemm->epilogue, gemm->alpha, gemm->beta).alpha;
    }
    if (wants_bias(todo)) {
        meet(consumer); /* all have fetched it */
        if (todo & ADDS_C) {
            add_c_and_bias(at, value, gemm, share, todo, shared_bias);
        } else {
            add_bias(at, value, alpha, todo, shared_bias);
        }
    } else if (todo & SCALES_SUMS) {
        scale(value, alpha);
    }
    activate_all(value, STORED_SUMS, (int32_t)(todo >> ACTIVATION_SHIFT));
    if (todo & SCALES_RESULTS) {
        scale(value, scalar_f32(gemm->epilogue.scale_d));
    }
}

#if ELEMENT == ELEMENT_S8

/* C, of which a thread's elements are loaded sixteen at a time, no more being under way. */
static __device__ __forceinline__ void add_c_in_integers(standing at, wgmma_sum sum[STORED_SUMS],
                                                         const gemm_arguments *gemm, place share,
                                                         uint32_t beta)
{
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
    const int32_t *c =
        (const int32_t *)gemm->c + share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
#pragma unroll
    for (int i = 0; i < STORED_SUMS; ++i) {
        if (i % 16 == 0) {
            __syncwarp();
        }
        if (along_m(at, i) < rows && along_n(at, i) < columns) {
            uint32_t addend = beta * (uint32_t)c[along_m(at, i) + along_n(at, i) * gemm->ldc];
            sum[i] = (int32_t)((uint32_t)sum[i] + addend);
        }
    }
}

static __device__ __forceinline__ void add_bias_in_integers(standing at, wgmma_sum sum[STORED_SUMS],
                                                            uint32_t todo, const float *shared_bias)
{
    const uint32_t *bias = (const uint32_t *)shared_bias;
    if (((todo & BIAS_ALONG_N) != 0) == SWAPPED) {
        uint32_t low = bias[row_of(at, 0)];
        uint32_t high = bias[row_of(at, 2)];
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            sum[i] = (int32_t)((uint32_t)sum[i] + (i % 4 < 2 ? low : high));
        }
    } else {
#pragma unroll
        for (int i = 0; i < STORED_SUMS; i += 2) {
            uint2 both = *(const uint2 *)&bias[column_of(at, i)];
            sum[i] = (int32_t)((uint32_t)sum[i] + both.x);
            sum[i + 1] = (int32_t)((uint32_t)sum[i + 1] + both.y);
        }
    }
}

/* As finish_values(), in s32, modulo 2^32: for D of s32, whose bias stands in shared memory as it is. */
static __device__ __forceinline__ void finish_integers(standing at, wgmma_sum sum[STORED_SUMS],
                                                       const gemm_arguments *gemm, place share, uint32_t todo,
                                                       const float *shared_bias, int consumer)
{
    uint32_t alpha = scalar_s32(gemm->alpha);
    uint32_t beta = FINISHES ? 0 : scalar_s32(gemm->beta);
    if (alpha != 1) {
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            sum[i] = (int32_t)(alpha * (uint32_t)sum[i]);
        }
    }
    if (beta != 0) {
        add_c_in_integers(at, sum, gemm, share, beta);
    }
    if (todo & ADDS_BIAS) {
        meet(consumer); /* all have fetched it */
        add_bias_in_integers(at, sum, todo, shared_bias);
    }
    if (gemm->epilogue.activation == ACTIVATION_RELU) {
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            sum[i] = sum[i] < 0 ? 0 : sum[i];
        }
    }
}

#endif

/* The sums become D's values, but for the rounding. Integers become f32 or stay. */
static __device__ __forceinline__ void values_of_sums(standing at, const gemm_arguments *gemm, place share,
                                                      wgmma_sum sum[STORED_SUMS], float value[STORED_SUMS],
                                                      uint32_t todo, const float *shared_bias, int consumer)
{
#if ELEMENT == ELEMENT_S8
    if (todo & IN_INTEGERS) {
        finish_integers(at, sum, gemm, share, todo, shared_bias, consumer);
    }
    int floats = !PLAIN && !gemm->partials && gemm->epilogue.result_type != ELEMENT_S32;
#pragma unroll
    for (int i = 0; i < STORED_SUMS; ++i) {
        value[i] = floats ? (float)sum[i] : __int_as_float(sum[i]);
    }
    if (todo != 0 && !(todo & IN_INTEGERS)) {
        finish_values(at, value, gemm, share, todo, shared_bias, consumer);
    }
#else
#pragma unroll
    for (int i = 0; i < STORED_SUMS; ++i) {
        value[i] = sum[i];
    }
    if (__builtin_expect(todo != 0, 0)) {
        finish_values(at, value, gemm, share, todo, shared_bias, consumer);
    }
#endif
}

#endif
