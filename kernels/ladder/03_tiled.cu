/*
 * 03_tiled.cu - rung 3: square tiles in shared memory, two barriers a tile.
 *
 * A block of TILE x TILE threads walks along k. It copies a tile of A and a tile of B to shared memory,
 * each thread an element of each; then every thread reads a row of one and a column of the other there:
 *
 *                  B
 *                 +----+
 *                 |    |                 copy        both tiles to shared memory
 *                 +----+                 barrier     everybody has copied
 *           A     |tile|                 multiply    TILE multiply-adds a thread
 *     +----+----+ +----+                 barrier     everybody has read: the tiles may be overwritten
 *     |    |tile| | D  |
 *     +----+----+ +----+
 *
 * So a word is fetched from global memory once a block instead of TILE times: 2 * m * n * k / TILE words.
 *
 * Global memory is read along its columns, so that a warp reads 32 words side by side. Those of A are
 * rows of the tile; those of B run along k. B's tile is kept as it comes, tile_b[n][k], where a thread
 * finds four k in one 16-byte read; or (B_TRANSPOSED) stored transposed, tile_b[k][n], like A's, one
 * column longer than it needs to be so that a warp's 32 writes go to 32 banks.
 *
 * At the edges a thread copies the last row or column again in place of one outside, whose results
 * nobody stores; the last tile of k is shorter.
 *
 * Needs: a block of TILE * TILE threads. Limited by shared memory: a read of A for every multiply-add,
 * and of B for every one (transposed) or every fourth.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "square_tile.h"

/* Sums the first `depth` products of this thread's row and column of the tiles. */
static __device__ inline float multiply(const float (*tile_a)[TILE],
                                        const float (*tile_b)[TILE + B_TRANSPOSED], int depth, float sum)
{
    int x = (int)threadIdx.x;
    int y = (int)threadIdx.y;
#pragma unroll
    for (int k = 0; k < depth; ++k) {
#if B_TRANSPOSED
        sum = fmaf(tile_a[k][x], tile_b[k][y], sum);
#else
        sum = fmaf(tile_a[k][x], tile_b[y][k], sum);
#endif
    }
    return sum;
}

KERNEL __launch_bounds__(THREADS_X *THREADS_Y) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ __align__(16) float tile_b[TILE][TILE + B_TRANSPOSED];

    block_share share = share_of_block(&arguments, 1);
    int x = (int)threadIdx.x;
    int y = (int)threadIdx.y;
    int64_t i = share.row + x;
    int64_t j = share.column + y;

    float alpha = scalar_value(arguments.alpha);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    const float *a = (const float *)arguments.a + (i < arguments.m ? i : arguments.m - 1);
    const float *b = (const float *)arguments.b + (j < arguments.n ? j : arguments.n - 1) * arguments.ldb;
    float sum = 0;
    for (int64_t k = 0; k < depth; k += TILE) {
        int left = depth - k < TILE ? (int)(depth - k) : TILE;

        if (y < left) {
            tile_a[y][x] = a[(k + y) * arguments.lda];
        }
        if (x < left) {
#if B_TRANSPOSED
            tile_b[x][y] = b[k + x];
#else
            tile_b[y][x] = b[k + x];
#endif
        }
        __syncthreads();
        if (left == TILE) {
            sum = multiply(tile_a, tile_b, TILE, sum);
        } else {
            sum = multiply(tile_a, tile_b, left, sum);
        }
        __syncthreads();
    }
    if (i < arguments.m && j < arguments.n) {
        store_result(&arguments, 0, i, j, sum, alpha, scalar_value(arguments.beta));
    }
}
