/*
 * thin_tile.h - the tile of a block of which one side is thin: that along n or, where the row has SWAPPED=1, that
 * along m. Kernels include it after kernel.h.
 */
#ifndef CARAT_GEMM_THIN_TILE_H
#define CARAT_GEMM_THIN_TILE_H

#include "tiles.h"

#ifndef SWAPPED
#define SWAPPED 0
#endif

#if SWAPPED
#define TILE_LONG TILE_N
#define TILE_THIN TILE_M
#define WARP_LONG WARP_N
#define WARP_THIN WARP_M
#else
#define TILE_LONG TILE_M
#define TILE_THIN TILE_N
#define WARP_LONG WARP_M
#define WARP_THIN WARP_N
#endif

/*
 * What a block has to do. share_of_block() divides seven times, one after the other; here there is mostly one tile
 * across, one part of k and no batch.
 */
static __device__ inline block_share share_of_thin_block(const gemm_arguments *arguments)
{
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    uint32_t tiles_n = (uint32_t)arguments->tiles_n;
    if (blockIdx.x >= tiles_m * tiles_n || (tiles_m > 1 && tiles_n > 1)) {
        /* Blocks that share rows of the long operand come one after another. */
        return share_of_block(arguments, SWAPPED ? arguments->tiles_m : 1);
    }
    block_share share;
    share.row = tiles_m > 1 ? (int64_t)blockIdx.x * TILE_M : 0;
    share.column = tiles_n > 1 ? (int64_t)blockIdx.x * TILE_N : 0;
    share.part = 0;
    share.problem = 0;
    share.k_begin = 0;
    share.k_end = arguments->k_per_part < arguments->k ? arguments->k_per_part : arguments->k;
    return share;
}

#endif
