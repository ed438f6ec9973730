/*
 * thin_tile.h - what thin.cu, strands.cu, pairs.cu, lines.cu and dots.cu have in common: the tile of a block, of which one
 * side is thin, that along n or, where the row has SWAPPED=1, that along m; and how a word is put together where elements are
 * loaded one by one.
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

/* One element put into place number `at` of words that were zero. */
static __device__ __forceinline__ void put(uint32_t *words, int at, element x)
{
#if ELEMENT == ELEMENT_F64
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    words[2 * at] = (uint32_t)bits;
    words[2 * at + 1] = (uint32_t)(bits >> 32);
#elif ELEMENT == ELEMENT_F32
    words[at] = __float_as_uint(x);
#elif ELEMENT == ELEMENT_S8
    words[at / 4] |= (uint32_t)(uint8_t)x << at % 4 * 8;
#else
    words[at / 2] |= (uint32_t)x << at % 2 * 16;
#endif
}

#endif
