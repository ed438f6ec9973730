/*
 * wgmma.cu - the product on Hopper's tensor cores: warpgroups multiply out of shared memory what the copy engine
 * brings there (rung 14 of the ladder).
 *
 *     producer (one thread)              CONSUMERS warpgroups
 *
 *     wait until stage s is empty        wait until stage s is full
 *     have the engine fill it     -->    multiply its tiles, 64 rows a warpgroup
 *     next stage                  <--    say that the stage before is empty
 *
 * The instruction adds 64 x WGMMA_N products a warpgroup. Which of D's sides its rows run along is the row's
 * choice. With SWAPPED=1 they run along n: then the sums that neighbour each other in a thread neighbour each
 * other in memory, D being column-major.
 *
 *                       SWAPPED=1                              SWAPPED=0
 *         rows          64 * CONSUMERS = TILE_N, of B          64 * CONSUMERS = TILE_M, of A
 *         columns       WGMMA_N = TILE_M, of A                 WGMMA_N = TILE_N, of B
 *
 * A stage holds TILE_K = 128 bytes of k of both operands, under the 128-byte swizzle, along k or across as they
 * lie in memory (across: 16-bit types alone). The CLUSTER blocks of a cluster stand side by side along the rows and
 * have the columns' operand in common: each loads its share of that for all of them.
 *
 *                  columns (shared)                        a cluster of 2, tiles of 128 x 256:
 *             +-----------------------+                    each block loads 128 rows of its own
 *     rows 0  |  tile of block 0      |  + half of columns  and 128 of the 256 columns, 32 KB
 *             +-----------------------+                    instead of 48
 *     rows 1  |  tile of block 1      |  + other half
 *             +-----------------------+
 *
 * Blocks are persistent: while the consumers store one tile, the producer fills the stages for the next.
 *
 * 8-bit floats: the unit keeps sums of their products in fewer than 24 bits. Without ACCURACY=FAST every 128 of k
 * are summed apart and added to f32 sums in registers.
 *
 * What limits it: 128 x 256 x 64 products of 16 bits are 1024 cycles of the tensor unit, for which 32 KB come
 * from the L2 cache; where all units run, the device's power.
 */
#include "kernel.h"

#include "../ptx/cluster.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "tiles.h"

#ifndef ELEMENT_B
#define ELEMENT_B ELEMENT
#endif

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT)
#define B_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_NN)

#if SWAPPED
#define WGMMA_N TILE_M
#define WGMMA_TYPE_A ELEMENT_B
#define WGMMA_TYPE_B ELEMENT
#define ROWS_ACROSS (!B_ALONG_K)
#define COLUMNS_ACROSS (!A_ALONG_K)
#define TILE_ROWS TILE_N
#define CLUSTER_M TILE_M
#define CLUSTER_N (TILE_N * CLUSTER)
#else
#define WGMMA_N TILE_N
#define WGMMA_TYPE_A ELEMENT
#define WGMMA_TYPE_B ELEMENT_B
#define ROWS_ACROSS (!A_ALONG_K)
#define COLUMNS_ACROSS (!B_ALONG_K)
#define TILE_ROWS TILE_M
#define CLUSTER_M (TILE_M * CLUSTER)
#define CLUSTER_N TILE_N
#endif
#if ROWS_ACROSS
#define WGMMA_A_ACROSS 1
#else
#define WGMMA_A_ACROSS 0
#endif
#if COLUMNS_ACROSS
#define WGMMA_B_ACROSS 1
#else
#define WGMMA_B_ACROSS 0
#endif
#include "../ptx/wgmma.h"

#define ROW_BYTES 128
#define ATOM_BYTES 1024                     /* eight rows, after which the swizzle repeats */
#define ACROSS (ROW_BYTES / 2)              /* elements of a row of 16-bit elements that lie across */
#define STEPS 4                             /* instructions along k in a stage: 32 bytes each */
#define ROWS_BYTES (TILE_ROWS * ROW_BYTES)  /* a stage's rows of k, ... */
#define COLUMNS_BYTES (WGMMA_N * ROW_BYTES) /* ... and its columns */
#define WARPGROUP 128

/*
 * Who stores together, and how many columns of D at a time: with SWAPPED=1 a warp has the whole of its 16, along m as
 * long as the tile; else the four warps of a consumer have a part of m each.
 */
#if SWAPPED
#define STORERS 32
#define BUFFER_ROWS 16
#else
#define STORERS WARPGROUP
#define BUFFER_ROWS (WGMMA_N < 64 ? WGMMA_N : 64)
#endif
#define BUFFERS 2 /* of each group, used in turn */
#define BUFFER_BYTES (BUFFER_ROWS * ROW_BYTES)
#define STORING_GROUPS (CONSUMERS * WARPGROUP / STORERS)

/* 8-bit floats whose sums are moved; everything else stays in the instruction's own sums. */
#define MOVES_SUMS (ELEMENT >= ELEMENT_E4M3 && ACCURACY != ACCURACY_FAST)

/*
 * Registers in which results wait to be stored while the next tile is multiplied: half as many as the tile has sums are
 * to spare, for all of its 16-bit results or the last half of its 32-bit ones. Not where the sums are s32, which need
 * registers to become f32, nor where moved sums take them.
 */
#if SWAPPED && TILE_M >= 64 && ELEMENT != ELEMENT_S8 && !(MOVES_SUMS && TILE_M > 128)
#define LATE_WORDS (WGMMA_SUMS / 2)
#else
#define LATE_WORDS 0
#endif

#ifndef BAND
#define BAND 8
#endif

static_assert(TILE_K * sizeof(element) == ROW_BYTES, "a stage is one row of the swizzle deep");
static_assert(TILE_ROWS == 64 * CONSUMERS, "a consumer has 64 rows");
static_assert(THREADS_X == WARPGROUP * (CONSUMERS + 1), "one more warpgroup for the producer");
static_assert(sizeof(element) == 2 || !(ROWS_ACROSS || COLUMNS_ACROSS), "only 16-bit types may lie across");
static_assert(!COLUMNS_ACROSS || WGMMA_N % (ACROSS * CLUSTER) == 0, "each block loads whole boxes");
static_assert(WGMMA_N % (8 * CLUSTER) == 0, "each block loads whole atoms");

typedef struct stage {
    unsigned char rows[ROWS_BYTES];
    unsigned char columns[COLUMNS_BYTES];
} stage;

typedef struct shared_memory {
    stage stages[STAGES];
    unsigned char buffers[STORING_GROUPS][BUFFERS][BUFFER_BYTES]; /* on D's way to memory */
    float bias[CONSUMERS][WGMMA_N > 64 ? WGMMA_N : 64];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
} shared_memory;

static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row says how much shared memory a block takes");

/* Which stage is next, and the parity of the phase in which it will be full. */
typedef struct position {
    uint32_t stage;
    uint32_t parity;
} position;

static __device__ inline void step_on(position *at)
{
    if (++at->stage == STAGES) {
        at->stage = 0;
        at->parity ^= 1;
    }
}

/* The tile of this block in its cluster's tile number `index`. */
static __device__ inline block_share share_in_cluster(const gemm_arguments *arguments, uint32_t index,
                                                      uint32_t rank, int reads)
{
    block_share share = share_of_tile(arguments, BAND, index, CLUSTER_M, CLUSTER_N);
#if SWAPPED
    share.column += rank * TILE_N;
#else
    share.row += rank * TILE_M;
#endif
    if (!reads) {
        share.k_end = share.k_begin;
    }
    return share;
}

static __device__ inline uint32_t count_steps(block_share share)
{
    return share.k_end > share.k_begin ? (uint32_t)((share.k_end - share.k_begin + TILE_K - 1) / TILE_K) : 0;
}

/* ---- The producer --------------------------------------------------------------------------- */

/* Has the engine load `count` rows from `first` on, of TILE_K k from k on, into `to`, for `blocks` of the cluster. */
static __device__ inline void load_rows(unsigned char *to, const tensor_map *map, uint64_t *barrier,
                                        int across, int count, int first, int k, int problem, uint32_t blocks)
{
    if (!across) {
        if (blocks == 1) {
            tensor_load(to, map, barrier, k, first, problem);
        } else {
            tensor_load_multicast(to, map, barrier, (uint16_t)((1u << blocks) - 1), k, first, problem);
        }
        return;
    }
#pragma unroll
    for (int box = 0; box < count / ACROSS; ++box) {
        unsigned char *at = to + box * TILE_K * ROW_BYTES;
        if (blocks == 1) {
            tensor_load(at, map, barrier, first + box * ACROSS, k, problem);
        } else {
            tensor_load_multicast(at, map, barrier, (uint16_t)((1u << blocks) - 1), first + box * ACROSS, k,
                                  problem);
        }
    }
}

static __device__ inline void produce(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      uint32_t rank, int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    const tensor_map *row_map = SWAPPED ? &arguments->b : &arguments->a;
    const tensor_map *column_map = SWAPPED ? &arguments->a : &arguments->b;
    int row_problems = (SWAPPED ? gemm->stride_b : gemm->stride_a) != 0;
    int column_problems = (SWAPPED ? gemm->stride_a : gemm->stride_b) != 0;
    position at = {0, 0};
    for (uint32_t index = blockIdx.x / CLUSTER; index < (uint32_t)arguments->tiles;
         index += gridDim.x / CLUSTER) {
        block_share share = share_in_cluster(gemm, index, rank, reads);
        int row = (int)(SWAPPED ? share.column : share.row);
        int column = (int)(SWAPPED ? share.row : share.column) + (int)rank * (WGMMA_N / CLUSTER);
        int problem = (int)share.problem;
        int k = (int)share.k_begin;
        for (uint32_t steps = count_steps(share); steps > 0; --steps) {
            stage *to = &shared->stages[at.stage];
            uint64_t *full = &shared->full[at.stage];
            mbarrier_wait(&shared->empty[at.stage], at.parity ^ 1);
            mbarrier_arrive_expect(full, sizeof(stage));
            load_rows(to->rows, row_map, full, ROWS_ACROSS, TILE_ROWS, row, k, row_problems ? problem : 0, 1);
            load_rows(to->columns + rank * (COLUMNS_BYTES / CLUSTER), column_map, full, COLUMNS_ACROSS,
                      WGMMA_N / CLUSTER, column, k, column_problems ? problem : 0, CLUSTER);
            k += TILE_K;
            step_on(&at);
        }
    }
}

#include "wgmma_epilogue.h"

/* ---- The consumers -------------------------------------------------------------------------- */

/* Where a warpgroup's operands lie in stage 0, and how far apart its k are. */
typedef struct operand_places {
    uint64_t rows;
    uint64_t columns;
} operand_places;

static __device__ inline operand_places places_of(shared_memory *shared, int consumer)
{
    operand_places places;
    /* 64 rows are 64 * 128 bytes either way: of k each, or one box of TILE_K rows where they lie across. */
    places.rows =
        wgmma_descriptor(shared->stages[0].rows + consumer * 64 * ROW_BYTES, TILE_K * ROW_BYTES, ATOM_BYTES);
    places.columns = wgmma_descriptor(shared->stages[0].columns, TILE_K * ROW_BYTES, ATOM_BYTES);
    return places;
}

/* Starts the instructions of one stage, and commits them. */
static __device__ inline void multiply_stage(wgmma_sum sum[WGMMA_SUMS], operand_places places,
                                             uint32_t number, int accumulate)
{
    const uint32_t rows_step = ROWS_ACROSS ? 16 * ROW_BYTES : 32;
    const uint32_t columns_step = COLUMNS_ACROSS ? 16 * ROW_BYTES : 32;
    uint64_t rows = wgmma_advance(places.rows, number * (uint32_t)sizeof(stage));
    uint64_t columns = wgmma_advance(places.columns, number * (uint32_t)sizeof(stage));
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        wgmma(sum, wgmma_advance(rows, step * rows_step), wgmma_advance(columns, step * columns_step),
              step > 0 || accumulate);
    }
    wgmma_commit();
}

/* Tells the producers of all blocks of the cluster that this warpgroup is through with a stage. */
static __device__ inline void release(shared_memory *shared, uint32_t number)
{
    uint32_t thread = threadIdx.x % WARPGROUP;
    if (CLUSTER == 1) {
        if (thread == 0) {
            mbarrier_arrive(&shared->empty[number]);
        }
    } else if (thread < CLUSTER) {
        mbarrier_arrive_at(&shared->empty[number], thread);
    }
}

static __device__ inline void clear(wgmma_sum sum[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] = 0;
    }
}

/* What a consumer has at hand. */
typedef struct consumer_state {
    const tensor_gemm_arguments *arguments;
    shared_memory *shared;
    operand_places places;
    position at;
    int number;
#if LATE_WORDS > 0
    late_tile late;
#endif
} consumer_state;

/*
 * Sums `steps` stages. Two groups of instructions are under way at a time: a stage is released when the one after
 * it has been started. Meanwhile the last tile is stored.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[WGMMA_SUMS], consumer_state *self,
                                                    uint32_t steps)
{
#if MOVES_SUMS
    wgmma_sum part[WGMMA_SUMS];
    clear(sum);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
        mbarrier_wait(&self->shared->full[self->at.stage], self->at.parity);
        wgmma_hold(part);
        wgmma_fence();
        multiply_stage(part, self->places, self->at.stage, 0);
        wgmma_wait(0);
        wgmma_hold(part);
        release(self->shared, self->at.stage);
        step_on(&self->at);
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            sum[i] += part[i];
        }
#if LATE_WORDS > 0
        store_late(self->arguments, self->shared, &self->late, self->number);
#endif
    }
#else
    uint32_t before = self->at.stage;
    clear(sum);
    wgmma_hold(sum);
#pragma unroll 1
    for (uint32_t step = 0; step < steps; ++step) {
        mbarrier_wait(&self->shared->full[self->at.stage], self->at.parity);
        wgmma_fence();
        multiply_stage(sum, self->places, self->at.stage, 1);
#if LATE_WORDS > 0
        store_late(self->arguments, self->shared, &self->late, self->number);
#endif
        if (step > 0) {
            wgmma_wait(1);
            release(self->shared, before);
        }
        before = self->at.stage;
        step_on(&self->at);
    }
    wgmma_wait(0);
    wgmma_hold(sum);
    if (steps > 0) {
        release(self->shared, before);
    }
#endif
}

static __device__ inline void consume(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      uint32_t rank, int consumer, int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    consumer_state self;
    self.arguments = arguments;
    self.shared = shared;
    self.places = places_of(shared, consumer);
    self.at.stage = 0;
    self.at.parity = 0;
    self.number = consumer;
    int plain = epilogue_is_plain(gemm);
#if LATE_WORDS > 0
    int late = arguments->d_by_map && result_bytes(gemm) > 1;
    self.late.left = 0;
#endif
    for (uint32_t index = blockIdx.x / CLUSTER; index < (uint32_t)arguments->tiles;
         index += gridDim.x / CLUSTER) {
        block_share share = share_in_cluster(gemm, index, rank, reads);
        wgmma_sum sum[WGMMA_SUMS];
        float value[WGMMA_SUMS];
        sum_products(sum, &self, count_steps(share));
        share.row += SWAPPED ? 0 : consumer * 64;
        share.column += SWAPPED ? consumer * 64 : 0;
        values_of_sums(standing_of_thread(), gemm, share, sum, value, shared->bias[consumer], consumer,
                       plain);
#if LATE_WORDS > 0
        while (self.late.left > 0) {
            store_late(arguments, shared, &self.late, consumer);
        }
        if (late) {
            store_tile(arguments, shared, share, value, consumer, 1);
            keep_tile(&self.late, value, result_bytes(gemm), gemm->epilogue.result_type);
            self.late.place = place_of_share(gemm, share, standing_of_thread());
            continue;
        }
#endif
        store_tile(arguments, shared, share, value, consumer, 0);
    }
#if LATE_WORDS > 0
    while (self.late.left > 0) {
        store_late(arguments, shared, &self.late, consumer);
    }
#endif
    if (threadIdx.x % STORERS == 0) {
        tensor_store_wait_read(0);
    }
}

#define KERNEL_CLUSTER __cluster_dims__(CLUSTER, 1, 1)

KERNEL __launch_bounds__(THREADS_X, 1) KERNEL_CLUSTER
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    uint32_t rank = CLUSTER == 1 ? 0 : cluster_rank();
    /* All lanes agree on these, which the compiler has to know where warpgroups part. */
    int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
    if (threadIdx.x == 0) {
        tensor_map_prefetch(&arguments.a);
        tensor_map_prefetch(&arguments.b);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared->full[s], 1);
            mbarrier_init(&shared->empty[s], CONSUMERS * CLUSTER);
        }
        mbarrier_init_fence();
    }
    if (CLUSTER == 1) {
        __syncthreads();
    } else {
        cluster_sync();
    }
    wait_for_kernels_before();
    let_next_kernel_begin();
    int reads = __shfl_sync(0xffffffffu,
                            !alpha_is_zero(arguments.gemm.alpha, arguments.gemm.epilogue.result_type), 0);
    if (warpgroup == 0) {
#if CONSUMERS == 2
        registers_shrink_to(40);
#endif
        if (threadIdx.x == 0) {
            produce(&arguments, shared, rank, reads);
        }
    } else {
#if CONSUMERS == 2
        registers_grow_to(232);
#endif
        consume(&arguments, shared, rank, warpgroup - 1, reads);
    }
    /* No block leaves while another may still write into its shared memory or arrive at its barriers. */
    if (CLUSTER > 1) {
        cluster_sync();
    }
}
