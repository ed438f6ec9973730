/*
 * wgmma_planes.h - what a product of planes may compute and what it leaves to a row that rescues: a part of wgmma.cu.
 *
 *     PLANES=3    all or nothing, by what the split says of the operands (common/verdict.h); where a product before has
 *                 computed what it could, only what that has left
 *     PLANES=2    the tiles whose blocks hold enough of the operands (common/blocks.h), a stage's sums times the factors
 *                 of its blocks
 *
 * Either leaves a warp's part of a tile alone whose sums are not finite, and says so in a word of `spoiled`.
 */
#ifndef CARAT_GEMM_WGMMA_PLANES_H
#define CARAT_GEMM_WGMMA_PLANES_H

#include "blocks.h"
#include "verdict.h"

/*
 * Whether there is nothing to do for any tile: planes do not hold what they are of, and D is for a row that rescues, or
 * a product before has left nothing. The whole warp asks.
 */
static __device__ inline int is_refused(const gemm_arguments *gemm)
{
#if PLANES > 2
    wait_for_kernels_before();
    const uint32_t *left = gemm->verdict.left;
    return __shfl_sync(0xffffffffu, (left && *left == 0) || verdict_refuses(&gemm->verdict), 0);
#else
    (void)gemm;
    return 0;
#endif
}

#if PLANES > 2

/* Whether a product before has left a part of D to this one, of the tile at `here` those from column `column` on. */
static __device__ inline int part_is_left(const gemm_arguments *gemm, place here, int column)
{
    const uint32_t *earlier = gemm->verdict.earlier;
    return earlier == 0 ||
           (column < gemm->n &&
            earlier[spoiled_place(&gemm->verdict, gemm->m, gemm->n, here.problem, here.row, column)] != 0);
}

/* Or any part of it. */
static __device__ inline int tile_is_left(const gemm_arguments *gemm, place here)
{
    int left = 0;
#pragma unroll
    for (int part = 0; part < TILE_N / SPOILED_COLUMNS; ++part) {
        left |= part_is_left(gemm, here, here.column + part * SPOILED_COLUMNS);
    }
    return left;
}

/* Or of any tile of the cluster's, whose blocks load for each other. */
static __device__ inline int tiles_are_left(const tensor_gemm_arguments *arguments, const piece *work)
{
    int left = 0;
#pragma unroll
    for (uint32_t rank = 0; rank < CLUSTER; ++rank) {
        left |= tile_is_left(&arguments->gemm, place_of_piece(arguments, work, rank));
    }
    return left;
}

#endif

#if SCALED

/*
 * Where the words of one of a tile's blocks begin, of the first slice: of block number `lane`, the rows' before the
 * columns'. Beyond the matrix there are those of its last block.
 */
static __device__ inline uint32_t words_of_lane(const gemm_arguments *gemm, place here, uint32_t lane)
{
    int of_rows = lane < ROW_BLOCKS; /* of B */
    int64_t blocks = ((of_rows ? gemm->n : gemm->m) + BLOCK_SIDE - 1) / BLOCK_SIDE;
    int64_t block = (of_rows ? here.column : here.row) / BLOCK_SIDE + (of_rows ? lane : lane - ROW_BLOCKS);
    int64_t problem = (of_rows ? gemm->stride_b : gemm->stride_a) != 0 ? here.problem : 0;
    block = problem * blocks + (block < blocks ? block : blocks - 1);
    return (uint32_t)block * (uint32_t)gemm->verdict.slices + (of_rows ? (uint32_t)gemm->verdict.count_a : 0);
}

/* What remains of two blocks that meet over `length` k less what they leave out, in units of the latter for one k. */
static __device__ inline int32_t block_margin(uint32_t row, uint32_t column, int32_t length)
{
    int32_t common = block_count(row) + block_count(column) - length;
    int32_t margin = BLOCK_EVIDENCE * (common > 0 ? common : 0) - length;
    return margin > 0 && ((row | column) & BLOCK_ZEROS) ? 0 : margin;
}

/*
 * Whether a tile has blocks that do not hold enough of what is multiplied, see blocks.h. The warp asks; a lane looks at
 * one slice of all blocks at a time. What remains of two blocks less what they leave out is summed over k.
 */
static __device__ inline int tile_is_refused(const gemm_arguments *gemm, uint32_t own_words)
{
    const uint32_t *words = gemm->verdict.words;
    int32_t slices = gemm->verdict.slices;
    uint32_t places[BLOCKS_OF_TILE];
    float margins[ROW_BLOCKS][COLUMN_BLOCKS] = {{0}};
#pragma unroll
    for (int i = 0; i < BLOCKS_OF_TILE; ++i) {
        places[i] = __shfl_sync(0xffffffffu, own_words, i) + threadIdx.x % 32;
    }
#pragma unroll 1
    for (int32_t slice = (int32_t)(threadIdx.x % 32); slice < slices; slice += 32) {
        int32_t length = slice_length(gemm->k, slices, slice);
        uint32_t found[BLOCKS_OF_TILE];
#pragma unroll
        for (int i = 0; i < BLOCKS_OF_TILE; ++i) {
            found[i] = words[places[i]];
            places[i] += 32;
        }
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j) {
                uint32_t row = found[i];
                uint32_t column = found[ROW_BLOCKS + j];
                float margin = (float)block_margin(row, column, length);
                margins[i][j] += margin * (block_scale(row) * block_scale(column));
            }
        }
    }
    int refused = 0;
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j) {
            float margin = margins[i][j];
#pragma unroll
            for (int lanes = 16; lanes > 0; lanes /= 2) {
                margin += __shfl_xor_sync(0xffffffffu, margin, lanes);
            }
            refused |= !(margin >= 0); /* what is no number too */
        }
    }
    return refused;
}

/* Or any tile of the cluster's, whose blocks load for each other. */
static __device__ inline int tiles_are_refused(const tensor_gemm_arguments *arguments, const piece *work,
                                               uint32_t lane)
{
    int refused = 0;
#pragma unroll 1
    for (uint32_t rank = 0; rank < CLUSTER; ++rank) {
        place here = place_of_piece(arguments, work, rank);
        refused |= tile_is_refused(&arguments->gemm, words_of_lane(&arguments->gemm, here, lane));
    }
    return refused;
}

/* Writes the factors of a stage, whose k begin at k: each lane that of its block. */
static __device__ inline void put_factors(float factors[FACTORS], const gemm_arguments *gemm,
                                          uint32_t own_words, int k, int refused)
{
    int32_t last = gemm->verdict.slices - 1;
    int32_t slice = k / BLOCK_SIDE < last ? k / BLOCK_SIDE : last;
    if (threadIdx.x < BLOCKS_OF_TILE) {
        float scale = block_scale(gemm->verdict.words[own_words + (uint32_t)slice]) / (1 << BLOCK_TOP);
        factors[threadIdx.x] = refused ? __uint_as_float(0x7fffffffu) : scale;
    }
    __syncwarp();
}

/* What a consumer's sums of a stage are multiplied with, a number for each block of columns. 1: the tile is left alone. */
static __device__ inline int read_factors(float factors[COLUMN_BLOCKS], const float from[FACTORS],
                                          int consumer)
{
    float of_rows = from[consumer];
#pragma unroll
    for (int i = 0; i < COLUMN_BLOCKS; ++i) {
        factors[i] = of_rows * from[ROW_BLOCKS + i];
    }
    return __shfl_sync(0xffffffffu, of_rows != of_rows, 0);
}

/* Makes sums what the tile is not stored for. */
static __device__ inline void spoil(wgmma_sum sum[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] = __uint_as_float(0x7fffffffu);
    }
}

#endif

#if PLANES > 1

/*
 * Whether a warp's part of a tile has sums that are not finite, which it notes either way, or was not left to this
 * product; all lanes agree.
 */
static __device__ inline int note_spoiled(standing at, const gemm_arguments *gemm, place here,
                                          const wgmma_sum sum[WGMMA_SUMS])
{
    float probe = 0;
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        probe = fmaf(sum[i], 0, probe); /* NaN from the first that is not finite on */
    }
    int spoiled = (int)keep(probe != 0);
    int column = here.column + 16 * at.warp;
    int is_left = 1;
#if PLANES > 2
    is_left = (int)keep(part_is_left(gemm, here, column));
    spoiled &= is_left;
#endif
    if (at.lane == 0 && here.row < gemm->m && column < gemm->n) {
        int64_t at_word = spoiled_place(&gemm->verdict, gemm->m, gemm->n,
                                        here.problem * gemm->parts + here.part, here.row, column);
        gemm->verdict.spoiled[at_word] = (uint32_t)spoiled;
#if SCALED
        if (spoiled) {
            int64_t rows = gemm->m - here.row < TILE_M ? gemm->m - here.row : TILE_M;
            int64_t columns = gemm->n - column < SPOILED_COLUMNS ? gemm->n - column : SPOILED_COLUMNS;
            *gemm->verdict.left = 1;
            atomicAdd(gemm->verdict.count_left, (unsigned long long)(rows * columns));
        }
#endif
    }
    return spoiled || !is_left;
}

#endif

#endif
