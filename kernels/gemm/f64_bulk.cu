/*
 * f64_bulk.cu - float64 products on the double-precision tensor instruction, out of what the copy engine brings: strict
 * ones of f64, and those of narrower floats in best accuracy, which a pack has widened (as f64_tensor.cu, which takes
 * what lies where the engine cannot load it).
 *
 *     producer (one thread)              4 * CONSUMERS warps
 *
 *     wait until stage s is empty        wait until stage s is full
 *     have the engine fill it     -->    multiply it: each warp WARP_M x WARP_N of the tile
 *     next stage                  <--    say that it is empty
 *
 * Blocks are persistent: while a warp stores its part of one tile the producer fills the stages for the next, and other
 * warps multiply. Nobody meets anybody but at a stage, and copies cost the multiplying warps no instruction.
 *
 * A stage is 16 k of both operands, as they lie in memory: rows of 16 doubles under the 128-byte swizzle, in which piece p
 * (16 bytes) of row r stands at p ^ r % 8. Lane 4 * group + member of a warp has rows `group` and `group + 8` of an
 * instruction's A, column `group` of its B, and two of its eight k, s = 0 and 1. Which rows, columns and k of the tile these
 * are is for us to say, as long as A and B agree about k. So a lane's two rows of D are neighbours in memory, what stands
 * together in its registers is read 16 bytes at a time where it lies together, and what is read at once (by eight lanes, or
 * 16 of 8 bytes) lies in different banks:
 *
 *     A across k   k = 2 * member + s: 16 bytes are two rows of one k. Lanes of two groups read together: pieces group and
 *                  group + 1 of k 0, 2, 4, 6 (or 1, 3, 5, 7), which the swizzle keeps apart
 *         B along k    16 bytes are both k of a column. Lanes of two groups read together: pieces 0 to 3 of two columns,
 *                      kept apart where bit 2 of these differs: group's column is 4 * (bit 0) + (bits 1, 2)
 *         B across k   8 bytes: of four columns that lie together k 0, 2, 4, 6
 *     A along k    k = member + 4 * s: 8 bytes, k 0 to 3 of rows 0, 2, 4, 6, or 1, 3, 5, 7
 *         B along k    the same: group's column is 2 * (bits 0, 1) + (bit 2)
 *         B across k   8 bytes, k 0 to 3 of two columns and the two that lie eight further: group's column is
 *                      (bit 0) + 8 * (bit 1) + 2 * (bit 2), 4 further for every second instruction
 *
 *        block 128 x 128            warp 64 x 32: 4 x 4 instructions of 16 x 8
 *     +-----+-----+-----+-----+       A warp reads (64 + 32) * 8 doubles for 16 instructions of 32 cycles: two
 *     |  0  |  2  |  4  |  6  |       a scheduler ask for 48 of the 128 bytes a cycle that shared memory gives,
 *     +-----+-----+-----+-----+       and the block for 16 bytes a cycle of the second-level cache.
 *     |  1  |  3  |  5  |  7  |
 *     +-----+-----+-----+-----+
 *
 * The CLUSTER blocks of a cluster stand side by side along m and have the columns of B in common: each loads its share of
 * them for all.
 *
 * Needs: sm_90a. LAYOUT fixed by the build. A and B, their columns and strides at multiples of 16 bytes, and sizes that the
 * engine can count (tensor_map.c). D may begin anywhere.
 *
 * What limits it: the unit is busy 98% of the time; where many tiles follow each other the device's power, so that what is
 * not moved counts, and at most sizes the last wave of tiles. docs/notes/f64.md has what was tried.
 */
#include "kernel.h"

#include "../ptx/cluster.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "epilogue.h"
#include "tiles.h"
#include "wgmma_stages.h"

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT) /* A's memory runs along k */
#define B_ALONG_K (LAYOUT == LAYOUT_NN || LAYOUT == LAYOUT_TN) /* B's memory runs along k */

#define WARPS (4 * CONSUMERS)
#define WARPS_M (TILE_M / WARP_M)
#define MMA_M 16
#define MMA_N 8
#define ROWS (WARP_M / MMA_M)    /* instructions down a warp's tile */
#define COLUMNS (WARP_N / MMA_N) /* and across it */

#define ROW_BYTES 128 /* of the swizzle */
#define LINE 16       /* doubles of such a row: k of a stage, or rows (columns) of a box that lies across */
#define BAND 8

/*
 * What a thread needs: the sums, ROWS fragments of A and COLUMNS of B, which ptxas keeps about twice, and some. Blocks that
 * share a multiprocessor have less of it.
 */
#define PRODUCER_REGISTERS 24
#if MIN_BLOCKS == 1
#define CONSUMER_REGISTERS 240
#elif MIN_BLOCKS == 2
#define CONSUMER_REGISTERS 232
#else
#define CONSUMER_REGISTERS 136
#endif

typedef struct stage {
    unsigned char a[TILE_M * ROW_BYTES];
    unsigned char b[TILE_N * ROW_BYTES];
} stage;

typedef struct shared_memory {
    stage stages[STAGES];
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
} shared_memory;

static_assert(ELEMENT == ELEMENT_F64, "the sums are double");
static_assert(TILE_K == LINE, "a stage is one row of the swizzle deep");
static_assert(WARPS == WARPS_M * (TILE_N / WARP_N) && TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0,
              "the warps tile the block");
static_assert(WARP_M % LINE == 0 && WARP_N % LINE == 0, "a warp has whole boxes of what lies across");
static_assert(TILE_N / LINE % CLUSTER == 0, "each block of a cluster loads as many boxes of B");
static_assert(THREADS_X == WARPGROUP * (CONSUMERS + 1), "one more warpgroup for the producer");
static_assert((PRODUCER_REGISTERS + CONSUMERS * CONSUMER_REGISTERS) * WARPGROUP * MIN_BLOCKS <= 65536,
              "a multiprocessor has registers for all, else they wait for them for ever");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");

static __device__ inline uint32_t block_rank(void) { return CLUSTER == 1 ? 0 : cluster_rank(); }

/* The tile of this block, of those of its cluster. */
static __device__ inline block_share share_of(const gemm_arguments *gemm, uint32_t tile)
{
    block_share share = share_of_tile(gemm, BAND, tile, TILE_M * CLUSTER, TILE_N);
    share.row += block_rank() * TILE_M;
    return share;
}

static __device__ inline int steps_of(const block_share *share)
{
    return (int)((share->k_end - share->k_begin + TILE_K - 1) / TILE_K);
}

/* ---- The producer ---------------------------------------------------------------------------- */

/*
 * Has the engine load `count` rows of A (columns of B) from `first` on, of TILE_K k from k on, for `blocks` blocks, one or
 * all of the cluster. Where they lie across k, boxes of 16 rows (columns) by TILE_K k stand one behind the other, and take as
 * many bytes.
 */
static __device__ inline void load_operand(uint32_t to, const tensor_map *map, uint32_t barrier, int along_k,
                                           int first, int count, int k, int problem, int blocks)
{
    int boxes = along_k ? 1 : count / LINE;
#pragma unroll 1 /* the producer has few registers */
    for (int box = 0; box < boxes; ++box) {
        uint32_t at = to + (uint32_t)(box * LINE * ROW_BYTES);
        int x = along_k ? k : first + box * LINE;
        int y = along_k ? first : k;
        if (blocks == 1) {
            tensor_load(at, map, barrier, x, y, problem);
        } else {
            tensor_load_multicast(at, map, barrier, (1u << CLUSTER) - 1, x, y, problem);
        }
    }
}

/* Fills stage after stage, for all tiles of the block: one lane of the producer's warp, which goes along. */
static __device__ inline void produce(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    const int columns = TILE_N / CLUSTER;
    const int first_column = (int)block_rank() * columns;
    position at = {0, 0};
    for (uint32_t tile = blockIdx.x / CLUSTER; tile < (uint32_t)arguments->tiles;
         tile += gridDim.x / CLUSTER) {
        block_share share = share_of(gemm, tile);
        int row = (int)share.row;
        int column = (int)share.column + first_column;
        int k = (int)share.k_begin;
        int problem_a = gemm->stride_a != 0 ? (int)share.problem : 0;
        int problem_b = gemm->stride_b != 0 ? (int)share.problem : 0;
        for (int steps = reads ? steps_of(&share) : 0; steps > 0; --steps) {
            stage *to = &shared->stages[at.stage];
            uint32_t full = shared_address(&shared->full[at.stage]);
            mbarrier_wait(&shared->empty[at.stage], at.parity ^ 1);
            if (is_elected()) {
                mbarrier_arrive_expect(full, sizeof(stage));
                load_operand(shared_address(to->a), &arguments->a, full, A_ALONG_K, row, TILE_M, k, problem_a,
                             1);
                load_operand(shared_address(to->b + first_column * ROW_BYTES), &arguments->b, full, B_ALONG_K,
                             column, columns, k, problem_b, CLUSTER);
            }
            k += TILE_K;
            step_on(&at);
        }
    }
    /* A block leaves its cluster when all for whom it loaded have left every stage: then nobody arrives at its barriers any more. */
    for (int s = 0; s < (CLUSTER > 1 ? STAGES : 0); ++s) {
        mbarrier_wait(&shared->empty[at.stage], at.parity ^ 1);
        step_on(&at);
    }
}

/* ---- A warp that multiplies ------------------------------------------------------------------- */

/* How a lane's k stand to each other, see above. */
#define K_IN_PAIRS (!A_ALONG_K)

/* Where a lane reads first in a stage: of the first rows of the warp's part of A, and of the first columns of B. */
typedef struct places {
    uint32_t a;
    uint32_t b;
} places;

/* The column of an instruction's, of those from the warp's first on. */
static __device__ inline int column_of(int instruction, int number)
{
    int bit_0 = number & 1;
    int bit_1 = number >> 1 & 1;
    int bit_2 = number >> 2;
    if (B_ALONG_K) {
        return instruction * MMA_N +
               (K_IN_PAIRS ? 4 * bit_0 + 2 * bit_2 + bit_1 : 4 * bit_1 + 2 * bit_0 + bit_2);
    }
    return K_IN_PAIRS ? instruction * MMA_N + number
                      : instruction / 2 * LINE + 4 * (instruction % 2) + 8 * bit_1 + 2 * bit_2 + bit_0;
}

/* An element's place in boxes of rows under the swizzle. */
static __device__ inline uint32_t swizzled(int row, int at)
{
    return (uint32_t)(row * ROW_BYTES + (at / 2 ^ row % 8) * 16 + at % 2 * 8);
}

static __device__ inline places places_of_lane(int warp, int group, int member)
{
    int k = K_IN_PAIRS ? 2 * member : member;
    int row = 2 * group;
    int column = column_of(0, group);
    places lane;
    lane.a = (uint32_t)(warp % WARPS_M * WARP_M * ROW_BYTES);
    lane.a += A_ALONG_K ? swizzled(row, k) : swizzled(k, row);
    lane.b = (uint32_t) __builtin_offsetof(stage, b) + (uint32_t)(warp / WARPS_M * WARP_N * ROW_BYTES);
    lane.b += B_ALONG_K ? swizzled(column, k) : swizzled(k, column);
    return lane;
}

/* By address, so that turning it by the swizzle is one instruction, and in the order in which they stand among the products. */
static __device__ inline double load_one(uint32_t from)
{
    double x;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(x) : "r"(from));
    return x;
}

static __device__ inline void load_two(double to[2], uint32_t from)
{
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(to[0]), "=d"(to[1]) : "r"(from));
}

/* Behind a place in an even row the same one in the next, where the swizzle puts neighbouring pieces the other way round. */
static __device__ inline uint32_t row_after(uint32_t first) { return (first + ROW_BYTES) ^ 16; }

/* A lane's part of half a stage of an instruction's rows of A, from where it reads on. */
static __device__ inline void load_a(double to[4], uint32_t from, int half, int row)
{
    const uint32_t on = (uint32_t)(row * LINE * ROW_BYTES);
#pragma unroll
    for (int s = 0; s < 2; ++s) {
        if (A_ALONG_K) {
            to[2 * s] = load_one((from ^ (s * 32 + half * 64)) + on);
            to[2 * s + 1] = load_one((row_after(from) ^ (s * 32 + half * 64)) + on);
        } else {
            load_two(&to[2 * s], (s == 0 ? from : row_after(from)) + half * 8 * ROW_BYTES + on);
        }
    }
}

/* The same of an instruction's columns of B. */
static __device__ inline void load_b(double to[2], uint32_t from, int half, int column)
{
    if (B_ALONG_K) {
        const uint32_t on = (uint32_t)(column * MMA_N * ROW_BYTES);
        if (K_IN_PAIRS) {
            load_two(to, (from ^ half * 64) + on);
            return;
        }
        to[0] = load_one((from ^ half * 64) + on);
        to[1] = load_one((from ^ (32 + half * 64)) + on);
        return;
    }
    const uint32_t on = (uint32_t)(column / 2 * LINE * ROW_BYTES + half * 8 * ROW_BYTES);
    const uint32_t turn = column % 2 * (K_IN_PAIRS ? 64 : 32);
    uint32_t second = K_IN_PAIRS ? row_after(from) : (from + 4 * ROW_BYTES) ^ 64;
    to[0] = load_one((from ^ turn) + on);
    to[1] = load_one((second ^ turn) + on);
}

static __device__ inline int lane_of_thread(void) { return (int)(thread_number() % 32); }

/* Tells all blocks of the cluster, which load for this one, that one of its warps has left a stage. */
static __device__ inline void leave_stage(shared_memory *shared, uint32_t stage)
{
    __syncwarp();
    int number = lane_of_thread();
    if (CLUSTER == 1 && number == 0) {
        mbarrier_arrive(&shared->empty[stage]);
    }
    if (CLUSTER > 1 && number < CLUSTER) {
        mbarrier_arrive_at(cluster_address(shared_address(&shared->empty[stage]), (uint32_t)number));
    }
}

/*
 * Sums `steps` stages. While one half of a stage is multiplied the next is read into the registers that have been used for the
 * last time: those of B column after column, those of A beside the last column, some instructions of 32 cycles before they are
 * wanted.
 */
static __device__ inline void sum_products(double sum[ROWS][COLUMNS][4], shared_memory *shared, position *at,
                                           const places *lane, int steps)
{
    double a[ROWS][4];
    double b[COLUMNS][2];
    if (steps > 0) {
        mbarrier_wait(&shared->full[at->stage], at->parity);
        uint32_t from = shared_address(&shared->stages[at->stage]);
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            load_a(a[row], from + lane->a, 0, row);
        }
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            load_b(b[column], from + lane->b, 0, column);
        }
    }
#pragma unroll 1
    for (; steps > 0; --steps) {
        uint32_t here = at->stage;
        uint32_t from = shared_address(&shared->stages[here]);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (half == 1) {
                step_on(at);
                if (steps > 1) { /* else what is here is read once more, and not used */
                    mbarrier_wait(&shared->full[at->stage], at->parity);
                    from = shared_address(&shared->stages[at->stage]);
                }
            }
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    mma_f64_16x8x8(sum[row][column], a[row], b[column]);
                    if (column == COLUMNS - 1) {
                        load_a(a[row], from + lane->a, 1 - half, row);
                    }
                }
                load_b(b[column], from + lane->b, 1 - half, column);
            }
        }
        leave_stage(shared, here);
    }
}

/* ---- Results ---------------------------------------------------------------------------------- */

/* Where a tile's results go, and how; rows and columns are counted from the lane's first. */
typedef struct target {
    char *d; /* the lane's first element */
    const char *c;
    int64_t ldd; /* bytes */
    int64_t ldc;
    double alpha;
    double beta;
    int64_t rows_left; /* to the edge */
    int64_t columns_left;
    int narrows; /* to f32 */
} target;

static __device__ inline target target_of(const gemm_arguments *gemm, const block_share *share, int row,
                                          int column)
{
    int bare = gemm->partials != 0;
    int narrows = !bare && gemm->epilogue.result_type != ELEMENT_F64;
    int64_t size = narrows ? 4 : 8;
    int64_t at_m = share->row + row;
    int64_t at_n = share->column + column;
    target to;
    to.narrows = narrows;
    to.alpha = bare ? 1 : narrows ? scalar_f32(gemm->alpha) : scalar_f64(gemm->alpha);
    to.beta = bare ? 0 : narrows ? scalar_f32(gemm->beta) : scalar_f64(gemm->beta);
    to.ldd = gemm->ldd * size;
    to.ldc = gemm->ldc * size;
    to.d = (char *)gemm->d + (share->problem * gemm->stride_d + at_m + at_n * gemm->ldd) * size;
    to.c = 0;
    if (to.beta != 0) { /* else C is not read, and may be NULL */
        to.c = (const char *)gemm->c + (share->problem * gemm->stride_c + at_m + at_n * gemm->ldc) * size;
    }
    if (bare) {
        int64_t first = (share->problem * gemm->parts + share->part) * gemm->n;
        to.ldd = gemm->m * 8;
        to.d = (char *)gemm->partials + ((first + at_n) * gemm->m + at_m) * 8;
    }
    to.rows_left = gemm->m - at_m;
    to.columns_left = gemm->n - at_n;
    return to;
}

/* Stores one element. */
static __device__ inline void store_element(const target *to, int row, int column, double sum)
{
    if (row >= to->rows_left || column >= to->columns_left) {
        return;
    }
    double value = to->alpha * sum;
    if (to->beta != 0) {
        const char *c = to->c + column * to->ldc;
        double addend = to->narrows ? ((const float *)c)[row] : ((const double *)c)[row];
        value = fma(to->alpha, sum, to->beta * addend);
    }
    char *d = to->d + column * to->ldd;
    if (to->narrows) {
        ((float *)d)[row] = (float)value;
    } else {
        ((double *)d)[row] = value;
    }
}

/* Stores a lane's sums: two neighbours at a time, where that is allowed and C is not asked for. */
static __device__ inline void store_tile(const target *to, double sum[ROWS][COLUMNS][4], int member)
{
    int first = column_of(0, 2 * member);
    int in_pairs = !to->narrows && to->beta == 0 && (((uint64_t)to->d | (uint64_t)to->ldd) & 15) == 0;
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
            int column = column_of(j, 2 * member + c) - first;
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                int row = i * MMA_M;
                if (in_pairs && row + 1 < to->rows_left && column < to->columns_left) {
                    double2 both = {to->alpha * sum[i][j][c], to->alpha * sum[i][j][2 + c]};
                    *(double2 *)(to->d + column * to->ldd + row * 8) = both;
                } else {
                    store_element(to, row, column, sum[i][j][c]);
                    store_element(to, row + 1, column, sum[i][j][2 + c]);
                }
            }
        }
    }
}

/*
 * What a warp does: sums and stores its part of tile after tile. Where that lies is worked out behind the sum once more: the
 * loop has no registers left for it.
 */
static __device__ inline void consume(const tensor_gemm_arguments *arguments, shared_memory *shared, int warp,
                                      int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    places lane = places_of_lane(warp, lane_of_thread() / 4, lane_of_thread() % 4);
    position at = {0, 0};
    for (uint32_t tile = blockIdx.x / CLUSTER; tile < (uint32_t)arguments->tiles;
         tile += gridDim.x / CLUSTER) {
        block_share share = share_of(gemm, tile);
        double sum[ROWS][COLUMNS][4] = {{{0}}};
        sum_products(sum, shared, &at, &lane, reads ? steps_of(&share) : 0);
        share = share_of(gemm, forget(tile));
        int number = lane_of_thread();
        target to = target_of(gemm, &share, warp % WARPS_M * WARP_M + number / 4 * 2,
                              warp / WARPS_M * WARP_N + column_of(0, number % 4 * 2));
        store_tile(&to, sum, number % 4);
    }
}

/* ---- The block --------------------------------------------------------------------------------- */

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) __cluster_dims__(CLUSTER, 1, 1)
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    if (MIN_BLOCKS == 1) {
        let_next_kernel_begin();
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared->full[s], 1);
            mbarrier_init(&shared->empty[s], WARPS * CLUSTER);
        }
        mbarrier_init_fence();
        tensor_map_prefetch(&arguments.a);
        tensor_map_prefetch(&arguments.b);
    }
    __syncwarp();
    if (CLUSTER > 1) {
        cluster_arrive_relaxed(); /* behind the fence of who made the barriers */
        cluster_wait();
    } else {
        __syncthreads();
    }
    wait_for_kernels_before();
    if (MIN_BLOCKS > 1) {
        let_next_kernel_begin();
    }
    int reads = !alpha_is_zero(arguments.gemm.alpha, arguments.gemm.epilogue.result_type);
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    if (warp < 4) {
        registers_shrink_to(PRODUCER_REGISTERS);
        if (warp == 0) {
            produce(&arguments, shared, reads);
            __syncwarp();
        }
    } else {
        registers_grow_to(CONSUMER_REGISTERS);
        consume(&arguments, shared, warp - 4, reads);
    }
}
