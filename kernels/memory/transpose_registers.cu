/*
 * transpose_registers.cu - B (n x m) = transpose of A (m x n) without shared memory: squares are turned
 * over in registers and stored as they are.
 *
 * A warp's threads stand 8 x 4 over squares of PACK x PACK elements, so that each load takes runs of 8
 * packs (128 bytes) of 4 columns of A, and each store runs of 4 packs (64 bytes) of 8 columns of B; the
 * other warps of the block take the rest of the lines at about the same time, and the L2 cache joins them.
 * There is no barrier, and no block waits for its slowest warp.
 */
#include "kernel.h"
#include "square.h"

#define WARPS_M (PACKS_M / 8)

static_assert(PACKS_M * PACKS_N == THREADS_X, "one square a thread");
static_assert(PACKS_M % 8 == 0 && PACKS_N % 4 == 0, "whole warps");

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(transpose_arguments arguments)
{
    DYNAMIC_SHARED(unsigned char, staged);
    tile tile = tile_of_block(&arguments);
    if (!is_aligned(&arguments, &tile)) {
        load_elements(&arguments, &tile, staged);
        __syncthreads();
        store_elements(&arguments, &tile, staged);
        return;
    }
    int32_t lane = (int32_t)threadIdx.x % 32;
    int32_t warp = (int32_t)threadIdx.x / 32;
    int32_t x = warp % WARPS_M * 8 + lane % 8;
    int32_t y = warp / WARPS_M * 4 + lane / 8;
    if (x * PACK < tile.rows && y * PACK < tile.columns) {
        const uint4 *a = (const uint4 *)((const unit *)arguments.a + tile.row + tile.column * arguments.lda);
        uint4 *b = (uint4 *)((unit *)arguments.b + tile.column + tile.row * arguments.ldb);
        int64_t lda = arguments.lda / PACK;
        int64_t ldb = arguments.ldb / PACK;
        pack square[PACK];
#pragma unroll
        for (int c = 0; c < PACK; c++) {
            square[c] = load_pack(&a[x + (y * PACK + c) * lda]);
        }
        turn_over(square);
#pragma unroll
        for (int r = 0; r < PACK; r++) {
            store_pack(&b[y + (x * PACK + r) * ldb], square[r]);
        }
    }
}
