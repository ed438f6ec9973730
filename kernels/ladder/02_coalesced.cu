/*
 * 02_coalesced.cu - rung 2: the indices turned, so that a warp reads consecutive addresses.
 *
 * As rung 1, but neighbouring threads take neighbouring rows of one column of D:
 *
 *            B                           what a warp reads for one k:
 *           +--+
 *           |k |                         A(i, k): 32 words side by side, one cache line
 *           |v |                         B(k, j): one word for all
 *      A    +--+
 *     +--+  +--+
 *     |k>|  |0 |                         and in the end it writes 32 words of D side by side.
 *     |  |  |1 |   threads
 *     |  |  |2 |
 *     +--+  +--+
 *
 * Needs: nothing. Limited by the load unit: two loads for each multiply-add, all 2 * m * n * k words
 * of them through the cache, one warp's load a clock. The block's shape (rows of 32 threads, THREADS_Y
 * of them) decides how often a line of A is found in the cache again, and how many warps wait at once.
 */
#include "kernel.h"
#include "tiles.h"

#include "dot_product.h"

static_assert(THREADS_X == TILE_M && THREADS_Y == TILE_N, "a thread an element");

KERNEL __launch_bounds__(THREADS_X *THREADS_Y) KERNEL_NAME(const gemm_arguments arguments)
{
    block_share share = share_of_block(&arguments, 1);
    compute_element(&arguments, share.row + threadIdx.x, share.column + threadIdx.y);
}
