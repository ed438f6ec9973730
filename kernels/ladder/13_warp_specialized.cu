/*
 * 13_warp_specialized.cu - rung 13: warps with one task each. One orders copies, the others multiply.
 *
 * In rung 12 everybody waits for everybody once a tile, only so that thread 0 may order the next. Here a
 * warpgroup of its own, the producer, does nothing but order tiles, and two consumers do nothing but
 * multiply. They talk through two barriers a stage and never meet:
 *
 *                 full[s]: the tile has landed        producer    waits for empty, orders, announces bytes
 *      producer  ------------------------>  consumers
 *                <------------------------            consumers   wait for full, multiply, then arrive at
 *                 empty[s]: its products are done                 the empty of the tile before
 *
 *      producer     [order 4]   [order 5]   [order 6]   [order 7]       runs ahead, as far as stages go
 *      consumer 0   [products 0][products 1][products 2][products 3]    the two need not keep step
 *      consumer 1     [products 0][products 1][products 2][products 3]
 *
 * Registers follow the work. A block begins with the same number for every thread, 168 of 65536 / 384; then
 * the producer gives back all but 40, and the consumers take 232 each. That pays for the second half of the
 * idea: a consumer can hold 64 x 256 sums, 128 a thread. So the block's tile is 256 x 128, and the
 * instruction twice as wide: it reads (64 + 256) * 16 elements for 64 * 256 * 16 multiply-adds, five sixths
 * of what rung 12 reads for each, and the tiles that are copied are three quarters.
 *
 *        256 m                    A's tile: 4 boxes of 64 m x 64 k
 *      +------------------+
 *      | consumer 0: 64 n |       B's tile: one box of 128 n x 64 k, of which a consumer takes half
 *      +------------------+
 *      | consumer 1: 64 n |
 *      +------------------+
 *
 * Needs: sm_90a; maps of A and B, so bases and columns aligned to 16 bytes. Limited by the beginning and the
 * end of a block: it fills a multiprocessor alone, so the tensor unit has nothing to do while its first tiles
 * come and while its sums go out.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "../ptx/cluster.h"
#include "warpgroup.h"

#define REGISTERS 168 /* of a thread at first: 65536 / 384, a multiple of 8 */
#define REGISTERS_PRODUCER 40
#define REGISTERS_CONSUMER 232

typedef struct shared_memory {
    stage stages[STAGES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
} shared_memory;

static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(TILE_N == WGMMA_ROWS * CONSUMERS, "a consumer for each 64 columns");
static_assert(THREADS_X == 128 * (1 + CONSUMERS), "and a producer");
static_assert(REGISTERS_PRODUCER + CONSUMERS * REGISTERS_CONSUMER <= REGISTERS * (1 + CONSUMERS),
              "the consumers take no more than the producer gives");

/* The producer's part: of one thread. Waiting for a new barrier's phase of parity 1 is over at once. */
static __device__ inline void produce(shared_memory *shared, const tensor_gemm_arguments *arguments,
                                      block_share share, int tiles)
{
    for (int tile = 0; tile < tiles; ++tile) {
        mbarrier_wait(&shared->empty[tile % STAGES], (tile / STAGES + 1) % 2);
        order_tiles(&shared->stages[tile % STAGES], &shared->full[tile % STAGES], arguments, share, tile);
    }
}

/* A consumer's part: the sums of columns n .. n + 63 of the tile. */
static __device__ inline void consume(wgmma_sum sum[WGMMA_SUMS], shared_memory *shared, int n, int tiles)
{
    for (int tile = 0; tile < tiles; ++tile) {
        mbarrier_wait(&shared->full[tile % STAGES], tile / STAGES % 2);
        start_products(sum, &shared->stages[tile % STAGES], n);
        wgmma_wait(1); /* the products of the tile before are done: its stage may be filled */
        if (tile > 0 && threadIdx.x % 32 == 0) {
            mbarrier_arrive(&shared->empty[(tile - 1) % STAGES]);
        }
    }
    wgmma_wait(0);
    wgmma_hold(sum);
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS)
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);

    block_share share = share_of_block(&arguments.gemm, 8);
    int64_t depth = scalar_value(arguments.gemm.alpha) == 0 ? 0 : arguments.gemm.k;
    int tiles = (int)((depth + TILE_K - 1) / TILE_K);

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared->full[s], 1);
            mbarrier_init(&shared->empty[s], 4 * CONSUMERS); /* an arrival of each warp */
        }
        mbarrier_init_fence();
    }
    __syncthreads();

    int warpgroup = (int)threadIdx.x / 128;
    if (warpgroup == 0) {
        registers_shrink_to(REGISTERS_PRODUCER);
        if (threadIdx.x == 0) {
            produce(shared, &arguments, share, tiles);
        }
    } else {
        registers_grow_to(REGISTERS_CONSUMER);
        int n = (warpgroup - 1) * WGMMA_ROWS;
        wgmma_sum sum[WGMMA_SUMS] = {0};
        consume(sum, shared, n, tiles);
        store_sums(&arguments.gemm, share.row, share.column + n, sum);
    }
}
