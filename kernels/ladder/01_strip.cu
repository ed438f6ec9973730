/*
 * 01_strip.cu - rung 1: a thread an element, as one first writes it.
 *
 * A thread computes D(i, j) as the product of a row of A and a column of B. Neighbouring threads take
 * neighbouring columns of one row, as one reads a page:
 *
 *            B                           what a warp reads for one k, matrices column-major:
 *           +--+--+--+--+
 *           |0 |1 |2 |3 |   k            A(i, k): the same word for threads of one row
 *           |  |  |  |  |   v            B(k, j): a word from each of 16 columns, ldb apart
 *      A    +--+--+--+--+
 *     +--+  +--+--+--+--+
 *     |k>|  |0 |1 |2 |3 |   threads      so that one load of B touches 16 cache lines to use 4 bytes of each.
 *     +--+  +--+--+--+--+
 *
 * Needs: nothing. Limited by the loads: of the 2 * m * n * k words it reads, half come from scattered
 * addresses, and the cache serves one line at a time.
 */
#include "kernel.h"
#include "tiles.h"

#include "dot_product.h"

static_assert(THREADS_X == TILE_N && THREADS_Y == TILE_M, "a thread an element");

KERNEL __launch_bounds__(THREADS_X *THREADS_Y) KERNEL_NAME(const gemm_arguments arguments)
{
    block_share share = share_of_block(&arguments, 1);
    compute_element(&arguments, share.row + threadIdx.y, share.column + threadIdx.x);
}
