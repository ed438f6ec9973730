/*
 * warpgroup.h - what rungs 11 to 13 share: how a pair of tiles lies in shared memory, how a warpgroup
 * multiplies it, and how its sums go to D. The picture is in 11_wgmma.cu.
 */
#ifndef CARAT_LADDER_WARPGROUP_H
#define CARAT_LADDER_WARPGROUP_H

/* It computes D transposed, B^T times A^T: its rows are 64 columns of D, its columns TILE_M rows. */
#define WGMMA_N TILE_M
#define WGMMA_TYPE_A ELEMENT
#define WGMMA_TYPE_B ELEMENT
#define WGMMA_A_ACROSS 0 /* its left factor, our B, lies along k */
#define WGMMA_B_ACROSS 1 /* its right factor, our A, lies across: along m */

#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "../ptx/wgmma.h"

#include "column.h"

#define WGMMA_ROWS 64
#define WGMMA_K 16
#define BOX 64 /* elements of a row of 128 bytes */
#define ROW_BYTES 128
#define ATOM_BYTES (8 * ROW_BYTES) /* in which the swizzle shuffles */
#define BOX_BYTES_A (TILE_K * ROW_BYTES)

/* All rows are 128 bytes under the 128-byte swizzle: A's 64 m of one k, B's 64 k of one n. */
typedef struct stage {
    element a[TILE_M / BOX][TILE_K][BOX];
    element b[TILE_N][BOX];
} stage;

static_assert(sizeof(element) * BOX == ROW_BYTES, "elements of 16 bits");
static_assert(TILE_K == BOX && TILE_M % BOX == 0 && TILE_N % WGMMA_ROWS == 0, "tiles are made of boxes");
static_assert(sizeof(stage) % ATOM_BYTES == 0, "every stage begins with an atom");

/*
 * Has the copy engine bring pair number `tile` of the block's share, counted at the barrier: rungs 12 and
 * 13. One thread calls this, when the stage is free.
 */
static __device__ inline void order_tiles(stage *to, uint64_t *barrier,
                                          const tensor_gemm_arguments *arguments, block_share share, int tile)
{
    int k = tile * TILE_K;
    mbarrier_arrive_expect(shared_address(barrier), sizeof(stage));
#pragma unroll
    for (int box = 0; box < TILE_M / BOX; ++box) {
        tensor_load(shared_address(to->a[box]), &arguments->a, shared_address(barrier),
                    (int)share.row + box * BOX, k, 0);
    }
    tensor_load(shared_address(to->b), &arguments->b, shared_address(barrier), k, (int)share.column, 0);
}

/*
 * Starts the products of a stage for columns n .. n + 63 of the tile, as one group. They run on their own:
 * nobody may touch the sums, or overwrite the stage, before a wait says that they are done.
 */
static __device__ inline void start_products(wgmma_sum sum[WGMMA_SUMS], const stage *from, int n)
{
    uint64_t left = wgmma_descriptor(from->b[n], 0, ATOM_BYTES);
    uint64_t right = wgmma_descriptor(from->a, BOX_BYTES_A, ATOM_BYTES);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < TILE_K; k += WGMMA_K) {
        /* The next k: further along B's rows, more rows down A's. */
        wgmma(sum, wgmma_advance(left, k * (int)sizeof(element)), wgmma_advance(right, k * ROW_BYTES), 1);
    }
    wgmma_commit();
}

/* The warpgroup's finished sums to D; row and column are the first of its 64 columns' part of the tile. */
static __device__ inline void store_sums(const gemm_arguments *arguments, int64_t row, int64_t column,
                                         const wgmma_sum sum[WGMMA_SUMS])
{
    destination to = destination_of(arguments);
    int warp = (int)threadIdx.x % 128 / 32;
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
    int64_t j = column + 16 * warp + group;
    store_column(&to, row + 2 * member, j, sum, TILE_M / 8);
    store_column(&to, row + 2 * member, j + 8, sum + 2, TILE_M / 8);
}

#endif
