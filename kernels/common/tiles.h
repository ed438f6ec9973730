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
static __device__ inline block_share share_of_block(const gemm_arguments *arguments, int32_t band)
{
    int64_t tiles_m = arguments->tiles_m;
    int64_t tiles_n = arguments->tiles_n;
    int64_t tile = blockIdx.x % (tiles_m * tiles_n);
    int64_t rest = blockIdx.x / (tiles_m * tiles_n);

    int64_t band_first = tile / (band * tiles_n) * band;
    int64_t band_height = tiles_m - band_first < band ? tiles_m - band_first : band;
    int64_t within = tile - band_first * tiles_n;

    block_share share;
    share.row = (band_first + within % band_height) * TILE_M;
    share.column = within / band_height * TILE_N;
    share.part = (int32_t)(rest % arguments->parts);
    share.problem = rest / arguments->parts;
    share.k_begin = share.part * arguments->k_per_part;
    share.k_end = share.k_begin + arguments->k_per_part < arguments->k ? share.k_begin + arguments->k_per_part : arguments->k;
    return share;
}

#endif
