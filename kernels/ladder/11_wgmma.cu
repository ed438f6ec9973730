/*
 * 11_wgmma.cu - rung 11: Hopper's tensor instruction, which reads its factors from shared memory by itself.
 *
 * Four warps, a warpgroup, start one wgmma together: 64 x 16 times 16 x TILE_M, with TILE_M 128 that is
 * 131072 multiply-adds. No factor passes through registers, so there is no ldmatrix; and the instruction
 * runs on its own while the warps do other things, here start the copies of a later tile:
 *
 *      warps        [start 0][copy 2 .....] wait |barrier| [start 1][copy 3 .....] wait |barrier| [start 2]
 *      tensor unit       [ products of tile 0 ]                 [ products of tile 1 ]               [ ...
 *
 * As in rung 10 it computes D transposed. Two warpgroups share a tile of 128 x 128, each 64 columns of D.
 *
 * The instruction is told where a factor lies by a descriptor: an address and two distances. What lies there
 * must be rows of 128 bytes, eight of which are an atom of 1024. In an atom the eight 16-byte pieces of row r
 * stand in the order piece ^ r, the swizzle, so that neither a row of pieces nor a column meets in a bank:
 *
 *      row 0   0 1 2 3 4 5 6 7     B, along k   A row is 64 k of one n. Eight n make an atom; the next eight
 *      row 1   1 0 3 2 5 4 7 6                  are 1024 bytes on (stride). The next 16 k: 32 bytes on.
 *      row 2   2 3 0 1 6 7 4 5
 *      row 3   3 2 1 0 7 6 5 4     A, along m   A row is 64 m of one k. Eight k make an atom; the next eight
 *      row 4   4 5 6 7 0 1 2 3                  are 1024 bytes on (stride). 64 k are a box; the next 64 m are
 *      row 5   5 4 7 6 1 0 3 2                  the next box, 8192 bytes on (leading). The next 16 k: two
 *      row 6   6 7 4 5 2 3 0 1                  atoms, 2048 bytes on.
 *      row 7   7 6 5 4 3 2 1 0
 *
 * So both lie as in memory, and copies are the same for both: rows of 128 bytes, eight threads a row, each 16
 * bytes to place piece ^ r. The tensor unit sees shared memory by another way than threads do (the
 * asynchronous proxy): when a thread's copies have landed, it says so with a fence.
 *
 * Needs: sm_90a; A and B, their columns and k aligned to 16 bytes. Limited by shared memory, which every
 * instruction reads and every copy writes, and by the wait before the barrier, which another block has to
 * fill.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "source.h"
#include "warpgroup.h"

#define PIECES (BOX / PIECE) /* of a row */

static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(THREADS_X == 128 * (TILE_N / WGMMA_ROWS), "a warpgroup for each 64 columns");
static_assert(THREADS_X % (8 * PIECES) == 0, "a thread copies the same place of every atom");
static_assert(TILE_K % (THREADS_X / PIECES) == 0 && TILE_N % (THREADS_X / PIECES) == 0,
              "boxes are shared evenly");

/*
 * Starts this thread's copies of `count` rows of 128 bytes, ld elements apart in memory. Of them
 * count_inside x length_inside elements lie in the matrix; the rest becomes zeros.
 */
static __device__ inline void copy_rows(element (*to)[BOX], const element *from, int64_t ld, int count,
                                        int count_inside, int length_inside)
{
    int row = (int)threadIdx.x / PIECES;
    int piece = (int)threadIdx.x % PIECES;
    int place = piece ^ row % 8;
    int bytes = piece_bytes(length_inside - piece * PIECE);
#pragma unroll
    for (int step = 0; step < count; step += THREADS_X / PIECES) {
        copy_async_16(&to[row + step][place * PIECE], from + piece * PIECE + (row + step) * ld,
                      row + step < count_inside ? bytes : 0);
    }
}

/* Starts the copies of the next tiles, and goes on to those after. */
static __device__ inline void copy_tiles(stage *to, source *from)
{
    if (from->depth > 0) {
        int inside = tile_depth(from);
#pragma unroll
        for (int box = 0; box < TILE_M / BOX; ++box) {
            copy_rows(to->a[box], from->a + box * BOX, from->lda, TILE_K, inside, from->rows - box * BOX);
        }
        copy_rows(to->b, from->b, from->ldb, TILE_N, from->columns, inside);
    }
    next_tiles(from);
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);

    block_share share = share_of_block(&arguments, 8);
    int n = (int)threadIdx.x / 128 * WGMMA_ROWS;
    int64_t depth = scalar_value(arguments.alpha) == 0 ? 0 : arguments.k;
    source next = source_of_block(&arguments, share, depth);

    wgmma_sum sum[WGMMA_SUMS] = {0};
    for (int s = 0; s < STAGES - 1; ++s) {
        copy_tiles(&stages[s], &next);
    }
    int reading = 0;
    for (int64_t k = 0; k < depth; k += TILE_K) {
        copy_async_wait(STAGES - 2); /* this thread's copies of the tile are there, */
        fence_async_shared();        /* and to be seen by the tensor unit; */
        wgmma_wait(0);               /* the products of the tile before are done, whose place is next; */
        __syncthreads();             /* and so it is for everybody */
        start_products(sum, &stages[reading], n);
        copy_tiles(&stages[reading == 0 ? STAGES - 1 : reading - 1], &next);
        reading = reading + 1 == STAGES ? 0 : reading + 1;
    }
    wgmma_wait(0);
    wgmma_hold(sum);
    store_sums(&arguments, share.row, share.column + n, sum);
}
