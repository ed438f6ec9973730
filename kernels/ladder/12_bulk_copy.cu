/*
 * 12_bulk_copy.cu - rung 12: one thread orders a whole box, the copy engine brings it, a barrier says when.
 *
 * Rung 11 needs 2048 copies of 16 bytes for a tile, an address and an edge to check for each. Here one
 * instruction of one thread copies a box of 64 x 64 or more: the host has described the matrix in a tensor
 * map, so the engine (TMA) counts the addresses, swizzles, and puts zeros beyond the edges.
 *
 *                          A's tile: TILE_M / 64 boxes    B's tile: one box
 *        matrix            +------+------+                +------+
 *        +----------+      |64 m  |64 m  |                |64 k  |         every row of a box 128 bytes,
 *        |  [box]   |      | x    | x    |                | x    |         swizzled, as rung 11 laid it
 *        |          |      |64 k  |64 k  |                |TILE_N|         out by hand
 *        +----------+      +------+------+                +------+
 *
 * How does anybody know that a box has landed? An mbarrier in shared memory counts: the thread announces
 * how many bytes will come, the engine counts down what has come, and at zero the barrier's phase is over.
 * Whoever waits for it sees the bytes; no fence, no meeting of all threads. Phases are told apart by
 * parity: a stage's first tile ends phase 0, its second phase 1, its third phase 0 again.
 *
 *      thread 0     order tile 2 |            order tile 3 |            order tile 4 |
 *      engine       ... [tile 2 lands .......][tile 3 lands .......][tile 4 ...
 *      warps        [start 1] 0 done? |meet|  [start 2] 1 done? |meet|  [start 3] 2 done? |meet|
 *      tensor unit  [products of 0][products of 1    ][products of 2      ][products of 3  ...
 *
 * Products of a tile start while those of the tile before are still running, so the tensor unit need not
 * stop. What is left of the meeting of all threads: a stage may be filled anew only when both warpgroups
 * have read it.
 *
 * Needs: sm_90a; maps of A and B, so bases and columns aligned to 16 bytes. Limited by shared memory, as rung
 * 11; and all warps still stop for each other once a tile.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "warpgroup.h"

typedef struct shared_memory {
    stage stages[STAGES];
    uint64_t landed[STAGES]; /* a barrier for each stage's copies */
} shared_memory;

static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(THREADS_X == 128 * (TILE_N / WGMMA_ROWS), "a warpgroup for each 64 columns");
static_assert(STAGES >= 3, "one tile is read, one is still being multiplied, one is on its way");

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS)
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);

    block_share share = share_of_block(&arguments.gemm, 8);
    int n = (int)threadIdx.x / 128 * WGMMA_ROWS;
    int64_t depth = scalar_value(arguments.gemm.alpha) == 0 ? 0 : arguments.gemm.k;
    int tiles = (int)((depth + TILE_K - 1) / TILE_K);

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared->landed[s], 1);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int tile = 0; tile < STAGES - 1 && tile < tiles; ++tile) {
            order_tiles(&shared->stages[tile], &shared->landed[tile], &arguments, share, tile);
        }
    }

    wgmma_sum sum[WGMMA_SUMS] = {0};
    for (int tile = 0; tile < tiles; ++tile) {
        mbarrier_wait(&shared->landed[tile % STAGES], tile / STAGES % 2);
        start_products(sum, &shared->stages[tile % STAGES], n);
        wgmma_wait(1);   /* the products of the tile before are done, */
        __syncthreads(); /* everybody's: its stage is free */
        int next = tile + STAGES - 1;
        if (threadIdx.x == 0 && next < tiles) {
            order_tiles(&shared->stages[next % STAGES], &shared->landed[next % STAGES], &arguments, share,
                        next);
        }
    }
    wgmma_wait(0);
    wgmma_hold(sum);
    store_sums(&arguments.gemm, share.row, share.column + n, sum);
}
