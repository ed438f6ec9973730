/*
 * tiles.h - which part of the product a block computes. Index arithmetic that all product kernels
 * share is written once, here.
 */
#ifndef CARAT_KERNELS_TILES_H
#define CARAT_KERNELS_TILES_H

/* A block's share: the first row and column of its tile of D, its range of k, its problem. */
typedef struct block_share {
    int64_t row;
    int64_t column;
    int64_t k_begin;
    int64_t k_end;
    int64_t problem;
    int32_t part;
} block_share;

/*
 * Blocks that run at the same time should share rows of A and columns of B in the L2 cache. So tiles
 * are walked in bands, BAND tiles of m high: down the band's first column of tiles, then its second.
 *
 *      band of 3:   0 3 6 9
 *                   1 4 7 ..
 *                   2 5 8
 *                  ---------
 *                  .. the next band
 */
static __device__ inline block_share share_of_tile(const gemm_arguments *arguments, int32_t band,
                                                   uint32_t index, int32_t tile_m, int32_t tile_n)
{
    /* There are less than 2^31 tiles, so all of this fits 32 bits, which divide several times faster. */
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    uint32_t tiles_n = (uint32_t)arguments->tiles_n;
    uint32_t tile = index % (tiles_m * tiles_n);
    uint32_t rest = index / (tiles_m * tiles_n);

    uint32_t height = (uint32_t)band < tiles_m ? (uint32_t)band : tiles_m;
    uint32_t first = tile / (height * tiles_n) * height;
    uint32_t within = tile - first * tiles_n;
    if (tiles_m - first < height) {
        height = tiles_m - first;
    }

    block_share share;
    share.row = (int64_t)(first + within % height) * tile_m;
    share.column = (int64_t)(within / height) * tile_n;
    share.part = (int32_t)(rest % (uint32_t)arguments->parts);
    share.problem = rest / (uint32_t)arguments->parts;
    share.k_begin = share.part * arguments->k_per_part;
    share.k_end = share.k_begin + arguments->k_per_part < arguments->k ? share.k_begin + arguments->k_per_part
                                                                       : arguments->k;
    return share;
}

/* The share of a block where each has one tile. */
static __device__ inline block_share share_of_block(const gemm_arguments *arguments, int32_t band)
{
    return share_of_tile(arguments, band, blockIdx.x, TILE_M, TILE_N);
}

/*
 * The same with one division where there is one problem in one part, for kernels that are over as soon as they have begun:
 * there down the first column of tiles, and on.
 */
static __device__ inline block_share share_of_lone_block(const gemm_arguments *arguments, int32_t band)
{
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    if (gridDim.x != tiles_m * (uint32_t)arguments->tiles_n) {
        return share_of_block(arguments, band);
    }
    uint32_t column = blockIdx.x / tiles_m;
    block_share share;
    share.row = (int64_t)(blockIdx.x - column * tiles_m) * TILE_M;
    share.column = (int64_t)column * TILE_N;
    share.k_begin = 0;
    share.k_end = arguments->k;
    share.problem = 0;
    share.part = 0;
    return share;
}

#endif
