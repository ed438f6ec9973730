/*
 * 04_pitched.cu - rung 4: edges filled with zeros, any element type.
 *
 * A matrix need not fill its columns: cudaMallocPitch, say, begins every column at a multiple of 512
 * bytes, so that each is as well aligned as the first. ld is then more than the length of a column, and what
 * lies between belongs to nobody:
 *
 *          <------- n ------->
 *        +---------+---------+         a tile at the edge takes zeros for what lies outside the matrix;
 *      m |  tile   |  tile   |         they add nothing to a sum, so the multiplying loop is the same
 *        |         |     ....|.....    for every tile: TILE steps, unrolled, without a test.
 *        +---------+-----+---+    :
 *     ld |  not ours     : zeros  :
 *        +---------------:........:
 *
 * The type of the elements is the build's choice: f32, f64, s32, or f16, which is widened to f32 on its way
 * to shared memory. B's tile is kept as it comes (rung 3), tile_b[n][k].
 *
 * Needs: a block of TILE * TILE threads. Limited, like rung 3, by reads of shared memory: 5 for 4
 * multiply-adds; f64 by twice that.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "square_tile.h"

KERNEL __launch_bounds__(THREADS_X *THREADS_Y) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ accumulator tile_a[TILE][TILE];
    __shared__ __align__(16) accumulator tile_b[TILE][TILE];

    block_share share = share_of_block(&arguments, 1);
    int x = (int)threadIdx.x;
    int y = (int)threadIdx.y;
    int64_t i = share.row + x;
    int64_t j = share.column + y;

    accumulator alpha = scalar_value(arguments.alpha);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    const element *a = (const element *)arguments.a;
    const element *b = (const element *)arguments.b;
    accumulator sum = 0;
    for (int64_t k = 0; k < depth; k += TILE) {
        tile_a[y][x] = element_or_zero(a, arguments.lda, i, k + y, arguments.m, depth);
        tile_b[y][x] = element_or_zero(b, arguments.ldb, k + x, j, depth, arguments.n);
        __syncthreads();
#pragma unroll
        for (int step = 0; step < TILE; ++step) {
            sum = multiply_add(tile_a[step][x], tile_b[y][step], sum);
        }
        __syncthreads();
    }
    if (i < arguments.m && j < arguments.n) {
        store_result(&arguments, 0, i, j, sum, alpha, scalar_value(arguments.beta));
    }
}
