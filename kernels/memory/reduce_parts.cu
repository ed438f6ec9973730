/*
 * reduce_parts.cu - adds the parts of K that a product has left bare, and finishes the sums as epilogue.h says:
 *
 *     D = round(scale_d * act(alpha * scale_a * scale_b * (part 0 + part 1 + ...) + beta * C + bias))
 *
 * A row for each type of the sums (ELEMENT); those of C and D, the bias and the activation are known as it runs.
 *
 * Each part is a whole m x n matrix of sums in the accumulator's type, without gaps:
 *
 *     partials   problem 0: | part 0 | part 1 | .. | part P-1 |  problem 1: | part 0 | ..
 *                              e        e               e          element e = i + j * m of each
 *
 * One thread adds one element, always from part 0 up, so that the same call gives the same bits. Of f32 it keeps what
 * each addition rounds away, and gives it back (Kahan): so many parts are as good as few. A warp
 * reads 128 (or 256) bytes in a row of each part. K is split where D is small, and the parts have
 * just been written: they come from the L2 cache, and what counts is that AT_ONCE loads of a thread are on
 * the way together. Wider loads would leave fewer threads, and D has few elements as it is.
 *
 * But where each multiprocessor has several blocks, what a thread does beside its loads takes most of the time. With
 * VECTOR=4 one adds four elements that stand above each other, of which m is a multiple: of 2048 x 256, two parts, 3.4 us
 * in place of 5.6.
 */
#include "kernel.h"

#include "epilogue.h"

#define AT_ONCE 8

/* Where thread number `index` of the launch finds its element. */
typedef struct place {
    int64_t problem;
    int64_t i;
    int64_t j;
} place;

/* 32-bit divisions take a quarter of the time of 64-bit ones, and nearly always suffice. */
static __device__ inline place place_of(int64_t index, int64_t m, int64_t n, int64_t total)
{
    place place;
    if (total <= 0x7fffffff) {
        uint32_t column = (uint32_t)index / (uint32_t)m;
        place.i = (uint32_t)index - column * (uint32_t)m;
        place.problem = column / (uint32_t)n;
        place.j = column - (uint32_t)place.problem * (uint32_t)n;
    } else {
        int64_t column = index / m;
        place.i = index - column * m;
        place.problem = column / n;
        place.j = column - place.problem * n;
    }
    return place;
}

/* A sum, and how much it is more than what was added to it. */
typedef struct running_sum {
    accumulator sum;
    accumulator excess;
} running_sum;

static __device__ inline running_sum add_part(running_sum before, accumulator part)
{
    running_sum after = before;
#if ELEMENT == ELEMENT_F32
    float added = __fsub_rn(part, before.excess);
    after.sum = __fadd_rn(before.sum, added);
    float excess = __fsub_rn(__fsub_rn(after.sum, before.sum), added);
    /* What is not finite comes out as a plain sum has it. */
    after.excess = fabsf(excess) < __uint_as_float(0x7f800000u) ? excess : 0;
#else
    after.sum += part;
#endif
    return after;
}

#ifndef VECTOR

#define ELEMENTS 1 /* of a thread */

/* The sum over the parts that begin at `part` and are `size` elements long. */
static __device__ inline accumulator sum_parts(const accumulator *part, int64_t size, int32_t parts)
{
    running_sum running = {0, 0};
    int32_t p = 0;
    for (; p + AT_ONCE <= parts; p += AT_ONCE) {
        accumulator values[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            values[u] = part[(p + u) * size];
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++) {
            running = add_part(running, values[u]);
        }
    }
    for (; p < parts; p++) {
        running = add_part(running, part[p * size]);
    }
    return running.sum;
}

/* From the sum of an element to D. With alpha 0 the products were not summed: whatever the parts hold, it is 0. */
static __device__ inline void finish_elements(const reduce_arguments *arguments, const place *place,
                                              const accumulator *part, int64_t size)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int64_t at_c = place->problem * arguments->stride_c + place->j * arguments->ldc + place->i;
    int64_t at_d = place->problem * arguments->stride_d + place->j * arguments->ldd + place->i;
    int nothing = alpha_is_zero(arguments->alpha, epilogue->result_type);
    accumulator sum = nothing ? 0 : sum_parts(part, size, arguments->parts);
#if ELEMENT == ELEMENT_F64
    if (epilogue->result_type != ELEMENT_F64) {
        epilogue_element_narrowed(epilogue, arguments->alpha, arguments->beta, place->problem, place->i,
                                  place->j, sum, arguments->c, at_c, arguments->d, at_d);
        return;
    }
    epilogue_element_f64(epilogue, scalar_f64(arguments->alpha), scalar_f64(arguments->beta), place->problem,
                         place->i, place->j, sum, arguments->c, at_c, arguments->d, at_d);
#else
#if ELEMENT == ELEMENT_S32
    if (epilogue->result_type == ELEMENT_S32) {
        epilogue_element_s32(epilogue, scalar_s32(arguments->alpha), scalar_s32(arguments->beta),
                             place->problem, place->i, place->j, sum, arguments->c, at_c, arguments->d, at_d);
        return;
    }
    float value = (float)(int32_t)sum;
#else
    float value = sum;
#endif
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
    epilogue_element(epilogue, &scalars, place->problem, place->i, place->j, value, arguments->c, at_c,
                     arguments->d, at_d);
#endif
}

#else

#define ELEMENTS VECTOR
#define VECTORS_AT_ONCE 4

static_assert(VECTOR == 4 && ELEMENT == ELEMENT_F32, "four f32 sums are a load");

/* The sums of four elements that stand above each other. */
static __device__ inline void sum_parts(const accumulator *part, int64_t size, int32_t parts,
                                        accumulator sums[VECTOR])
{
    running_sum running[VECTOR] = {{0, 0}};
    for (int32_t p = 0; p < parts; p += VECTORS_AT_ONCE) {
        float4 values[VECTORS_AT_ONCE] = {{0, 0, 0, 0}};
#pragma unroll
        for (int u = 0; u < VECTORS_AT_ONCE; u++) {
            if (p + u < parts) {
                values[u] = *(const float4 *)&part[(p + u) * size];
            }
        }
#pragma unroll
        for (int u = 0; u < VECTORS_AT_ONCE; u++) {
            if (p + u < parts) {
                running[0] = add_part(running[0], values[u].x);
                running[1] = add_part(running[1], values[u].y);
                running[2] = add_part(running[2], values[u].z);
                running[3] = add_part(running[3], values[u].w);
            }
        }
    }
#pragma unroll
    for (int e = 0; e < VECTOR; e++) {
        sums[e] = running[e].sum;
    }
}

/* Stores four results, together where they lie at a multiple of their bytes. */
static __device__ inline void store_four(void *d, int64_t at, int32_t type, const float value[VECTOR])
{
    if (type == ELEMENT_F32 && (uintptr_t)((float *)d + at) % sizeof(float4) == 0) {
        *(float4 *)((float *)d + at) = make_float4(value[0], value[1], value[2], value[3]);
    } else if ((type == ELEMENT_F16 || type == ELEMENT_BF16) &&
               (uintptr_t)((uint16_t *)d + at) % sizeof(uint2) == 0) {
        int is_bf16 = type == ELEMENT_BF16;
        uint32_t low = is_bf16 ? pack_bf16(value[0], value[1]) : pack_f16(value[0], value[1]);
        uint32_t high = is_bf16 ? pack_bf16(value[2], value[3]) : pack_f16(value[2], value[3]);
        *(uint2 *)((uint16_t *)d + at) = make_uint2(low, high);
    } else {
#pragma unroll
        for (int e = 0; e < VECTOR; e++) {
            store_result_as(d, at + e, type, value[e]);
        }
    }
}

/* From the sums of the four elements from `place` on to D. With alpha 0 they are 0, whatever the parts hold. */
static __device__ inline void finish_elements(const reduce_arguments *arguments, const place *place,
                                              const accumulator *part, int64_t size)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int64_t at_c = place->problem * arguments->stride_c + place->j * arguments->ldc + place->i;
    int64_t at_d = place->problem * arguments->stride_d + place->j * arguments->ldd + place->i;
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
    accumulator value[VECTOR] = {0};
    if (!alpha_is_zero(arguments->alpha, epilogue->result_type)) {
        sum_parts(part, size, arguments->parts, value);
    }
#pragma unroll
    for (int e = 0; e < VECTOR; e++) {
        float bias = bias_of(epilogue, place->problem, place->i + e, place->j);
        float addend = addend_of(epilogue, scalars.beta, arguments->c, at_c + e, bias);
        value[e] = fmaf(scalars.alpha, value[e], addend);
    }
    activate_all(value, VECTOR, epilogue->activation);
#pragma unroll
    for (int e = 0; e < VECTOR; e++) {
        value[e] *= scalars.scale_d;
    }
    store_four(arguments->d, at_d, epilogue->result_type, value);
}

#endif

KERNEL KERNEL_NAME(reduce_arguments arguments)
{
    wait_for_kernels_before();
    let_next_kernel_begin();
    int64_t size = arguments.m * arguments.n;
    int64_t total = size * arguments.batch;
    int64_t index = ((int64_t)blockIdx.x * THREADS_X + threadIdx.x) * ELEMENTS;
    if (index >= total) {
        return;
    }
    place place = place_of(index, arguments.m, arguments.n, total);
    const accumulator *part = (const accumulator *)arguments.partials +
                              place.problem * arguments.parts * size + place.j * arguments.m + place.i;
    finish_elements(&arguments, &place, part, size);
}
