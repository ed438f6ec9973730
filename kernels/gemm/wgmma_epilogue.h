/*
 * wgmma_epilogue.h - the way of a consumer's sums to D, the second half of wgmma.cu.
 *
 * First the sums become D's values where they stand, in registers; then they are rounded and go by way of a buffer in
 * shared memory, 64 columns of D high and 128 bytes wide along m under the 128-byte swizzle:
 *
 *     registers --stmatrix--> buffer --copy engine--> D          while the next buffer is filled
 *                                    --the warps----> D          where D does not lie as the engine wants it
 *
 * Or the bare sums go to the partial sums of a split k in the same two steps.
 */
#ifndef CARAT_KERNELS_WGMMA_EPILOGUE_H
#define CARAT_KERNELS_WGMMA_EPILOGUE_H

#include "../ptx/store_matrix.h"
#include "epilogue.h"

/* Rows of a buffer, columns of D in truth; fewer where the tile is narrower. */
#define BUFFER_ROWS (SWAPPED || WGMMA_N > 64 ? 64 : WGMMA_N)

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
static __device__ inline int along_m(standing at, int i) { return SWAPPED ? column_of(at, i) : row_of(at, i); }
static __device__ inline int along_n(standing at, int i) { return SWAPPED ? row_of(at, i) : column_of(at, i); }

static __device__ inline void meet(int consumer) { barrier_sync(1 + consumer, WARPGROUP); }

/* ---- From sums to values ---- */

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
static __device__ inline void add_c(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm, block_share share, float beta)
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
            float c = type == ELEMENT_F32 ? ((const float *)gemm->c)[index] : load_narrow(gemm->c, index, type);
            value[i] = fmaf(beta, c, value[i]);
        }
    }
}

/* Adds the bias, read once into shared memory as f32. */
static __device__ inline void add_bias(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm, block_share share,
                                       float *shared_bias, int consumer)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    int64_t first = epilogue->bias_along_n ? share.column : share.row;
    int64_t left = (epilogue->bias_along_n ? gemm->n : gemm->m) - first;
    int count = epilogue->bias_along_n == SWAPPED ? 64 : WGMMA_N;
    meet(consumer); /* everybody has read the last tile's */
    for (int i = at.thread; i < count; i += WARPGROUP) {
        shared_bias[i] = i < left ? load_result_as_f32(epilogue->bias, share.problem * epilogue->stride_bias + first + i,
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

/* Everything but the rounding: value holds the sums, and then D's elements. */
static __device__ inline void finish_values(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm, block_share share,
                                            float *shared_bias, int consumer)
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
static __device__ inline void finish_integers(standing at, wgmma_sum sum[WGMMA_SUMS], const gemm_arguments *gemm, block_share share)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    uint32_t alpha = scalar_s32(gemm->alpha);
    uint32_t beta = scalar_s32(gemm->beta);
    if (alpha == 1 && beta == 0 && !epilogue->bias && epilogue->activation == ACTIVATION_NONE) {
        return;
    }
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
    const int32_t *bias = (const int32_t *)epilogue->bias + share.problem * epilogue->stride_bias +
                          (epilogue->bias_along_n ? share.column : share.row);
    const int32_t *c = (const int32_t *)gemm->c + share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
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

/* ---- Into a buffer ---- */

/* Byte offset of a 16-byte piece of a buffer's row, under the swizzle. */
static __device__ inline int piece_at(int row, int piece) { return row * ROW_BYTES + ((piece ^ (row & 7)) << 4); }

/* 16-bit results, two in a word: 64 along m by BUFFER_ROWS along n, from column `first` of the sums on. */
static __device__ inline void fill_16(standing at, unsigned char *buffer, const float *value, int first, int32_t type)
{
    int matrix = at.lane / 8; /* of the four 8 x 8 of a store whose row this lane points to */
#pragma unroll
    for (int j = 0; j < (SWAPPED ? 64 : BUFFER_ROWS) / 8; j += 2) {
        uint32_t words[4];
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            int i = (first / 8 + j) * 4 + 2 * w;
            words[w] = type == ELEMENT_BF16 ? pack_bf16(value[i], value[i + 1]) : pack_f16(value[i], value[i + 1]);
        }
        if (SWAPPED) {
            int row = 16 * at.warp + 8 * (matrix % 2) + at.lane % 8;
            store_matrix_x4(buffer + piece_at(row, j + matrix / 2), words);
        } else {
            int row = 8 * (j + matrix / 2) + at.lane % 8;
            store_matrix_x4_trans(buffer + piece_at(row, 2 * at.warp + matrix % 2), words);
        }
    }
}

/* 32-bit results or sums: 32 along m by BUFFER_ROWS along n; half says which 32 of the rows where they run along m. */
static __device__ inline void fill_32(standing at, unsigned char *buffer, const float *value, int first, int half)
{
    if (SWAPPED) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int i = (first / 8 + j) * 4 + 2 * r;
                float2 both = {value[i], value[i + 1]};
                *(float2 *)(buffer + piece_at(row_of(at, i), 2 * j + at.member / 2) + at.member % 2 * 8) = both;
            }
        }
    } else if (at.warp / 2 == half) {
#pragma unroll
        for (int j = 0; j < BUFFER_ROWS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int i = (first / 8 + j) * 4 + e;
                int row = 8 * j + 2 * at.member + e % 2;
                int m = at.warp % 2 * 16 + at.group + e / 2 * 8;
                *(float *)(buffer + piece_at(row, m / 4) + m % 4 * 4) = value[i];
            }
        }
    }
}

/* 8-bit results: 128 along m by 64 along n; where the rows run along m there are but 64 of them. */
static __device__ inline void fill_8(standing at, unsigned char *buffer, const float *value, int first, int32_t type)
{
#pragma unroll
    for (int j = 0; j < (SWAPPED ? (WGMMA_N < 128 ? WGMMA_N : 128) : BUFFER_ROWS) / 8; ++j) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int i = (first / 8 + j) * 4 + 2 * r;
            uint16_t both = type == ELEMENT_E4M3 ? pack_e4m3(value[i], value[i + 1]) : pack_s8(value[i], value[i + 1]);
            if (SWAPPED) {
                *(uint16_t *)(buffer + piece_at(row_of(at, i), j / 2) + j % 2 * 8 + 2 * at.member) = both;
            } else {
                int m = row_of(at, i);
                int row = 8 * j + 2 * at.member;
                buffer[piece_at(row, m / 16) + m % 16] = (unsigned char)both;
                buffer[piece_at(row + 1, m / 16) + m % 16] = (unsigned char)(both >> 8);
            }
        }
    }
}

/* ---- Out of a buffer ---- */

/* Where a buffer goes: its first element's place in D, or among the partial sums. */
typedef struct destination {
    int64_t m;       /* of the first element */
    int64_t n;
    int64_t problem; /* or the part, counted through all problems */
    char *base;      /* of that problem */
    int64_t ld;
    int bytes; /* of an element */
} destination;

static __device__ inline void copy_element(char *to, const unsigned char *from, int bytes)
{
    if (bytes == 4) {
        *(uint32_t *)to = *(const uint32_t *)from;
    } else if (bytes == 2) {
        *(uint16_t *)to = *(const uint16_t *)from;
    } else {
        *to = (char)*from;
    }
}

/* The warps copy what lies inside, each a column of D at a time, neighbouring lanes neighbouring elements. */
static __device__ inline void copy_out(standing at, const unsigned char *buffer, const destination *to, int width,
                                       const gemm_arguments *gemm)
{
    for (int row = at.warp; row < BUFFER_ROWS && to->n + row < gemm->n; row += 4) {
        char *column = to->base + (to->m + (to->n + row) * to->ld) * to->bytes;
        for (int i = at.lane; i < width && to->m + i < gemm->m; i += 32) {
            int byte = i * to->bytes;
            copy_element(column + byte, buffer + piece_at(row, byte / 16) + byte % 16, to->bytes);
        }
    }
}

/* Sends a filled buffer on its way. */
static __device__ inline void send(standing at, const tensor_gemm_arguments *arguments, const unsigned char *buffer,
                                   const destination *to, int width, int consumer)
{
    fence_async_shared();
    meet(consumer);
    if (arguments->d_by_map) {
        if (at.thread == 0) {
            tensor_store(&arguments->d, buffer, (int)to->m, (int)to->n, (int)to->problem);
            tensor_store_commit();
        }
    } else {
        copy_out(at, buffer, to, width, &arguments->gemm);
    }
}

/* The next buffer in turn, once it has been read. */
static __device__ inline unsigned char *next_buffer(standing at, shared_memory *shared, int consumer, uint32_t *stored)
{
    if (at.thread == 0) {
        tensor_store_wait_read(BUFFERS - 1);
    }
    meet(consumer);
    return shared->buffers[consumer][(*stored)++ % BUFFERS];
}

/* share is the consumer's own. */
static __device__ inline void store_tile(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                         block_share share, wgmma_sum sum[WGMMA_SUMS], int consumer, uint32_t *stored)
{
    const gemm_arguments *gemm = &arguments->gemm;
    standing at = standing_of_thread();
    int32_t type = gemm->epilogue.result_type;
    destination to;
    to.m = share.row;
    to.n = share.column;
    to.problem = gemm->stride_d != 0 ? share.problem : 0;
    to.ld = gemm->ldd;
    to.bytes = type == ELEMENT_F32 || type == ELEMENT_S32 ? 4 : (type == ELEMENT_F16 || type == ELEMENT_BF16 ? 2 : 1);
    to.base = (char *)gemm->d + share.problem * gemm->stride_d * to.bytes;

#if ELEMENT == ELEMENT_S8
    /* Integers stay what they are, for s32 results; else they become f32 here. */
    float value[WGMMA_SUMS];
    int floats = !gemm->partials && type != ELEMENT_S32;
    if (!gemm->partials && type == ELEMENT_S32) {
        finish_integers(at, sum, gemm, share);
    }
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        value[i] = floats ? (float)sum[i] : __int_as_float(sum[i]);
    }
    if (floats) {
        finish_values(at, value, gemm, share, shared->bias[consumer], consumer);
    }
#else
    float *value = sum;
    if (!gemm->partials) {
        finish_values(at, value, gemm, share, shared->bias[consumer], consumer);
    }
#endif
    if (gemm->partials) {
        to.problem = share.problem * gemm->parts + share.part;
        to.base = (char *)gemm->partials + to.problem * gemm->m * gemm->n * 4;
        to.ld = gemm->m;
        to.bytes = 4;
    }

    if (to.bytes == 4) {
#pragma unroll
        for (int part = 0; part < (SWAPPED ? WGMMA_N / 32 : 2 * WGMMA_N / BUFFER_ROWS); ++part) {
            unsigned char *buffer = next_buffer(at, shared, consumer, stored);
            fill_32(at, buffer, value, SWAPPED ? part * 32 : part / 2 * BUFFER_ROWS, part % 2);
            destination here = to;
            here.m += SWAPPED ? part * 32 : part % 2 * 32;
            here.n += SWAPPED ? 0 : part / 2 * BUFFER_ROWS;
            send(at, arguments, buffer, &here, 32, consumer);
        }
    } else if (to.bytes == 2) {
#pragma unroll
        for (int part = 0; part < (SWAPPED ? WGMMA_N / 64 : WGMMA_N / BUFFER_ROWS); ++part) {
            unsigned char *buffer = next_buffer(at, shared, consumer, stored);
            fill_16(at, buffer, value, part * (SWAPPED ? 64 : BUFFER_ROWS), type);
            destination here = to;
            here.m += SWAPPED ? part * 64 : 0;
            here.n += SWAPPED ? 0 : part * BUFFER_ROWS;
            send(at, arguments, buffer, &here, 64, consumer);
        }
    }
#if ELEMENT == ELEMENT_S8 || ELEMENT == ELEMENT_E4M3 || ELEMENT == ELEMENT_E5M2
    else {
#pragma unroll
        for (int part = 0; part < (SWAPPED ? (WGMMA_N + 127) / 128 : WGMMA_N / BUFFER_ROWS); ++part) {
            unsigned char *buffer = next_buffer(at, shared, consumer, stored);
            fill_8(at, buffer, value, part * (SWAPPED ? 128 : BUFFER_ROWS), type);
            destination here = to;
            here.m += SWAPPED ? part * 128 : 0;
            here.n += SWAPPED ? 0 : part * BUFFER_ROWS;
            send(at, arguments, buffer, &here, SWAPPED ? (WGMMA_N < 128 ? WGMMA_N : 128) : 64, consumer);
        }
    }
#endif
}

#endif
