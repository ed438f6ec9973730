/*
 * batch.cu - batches of small products of f32 by ordinary multiply-adds.
 *
 * Of 32x32x32 a multiprocessor needs 256 cycles to multiply and, at the memory's rate, 770 to read and write 12 KB: what counts
 * is that enough bytes are on the way. So a block has one tile and few registers, many blocks stand side by side, and
 * all of a short k goes past the registers into shared memory before the first product: up to STAGES tiles of k.
 *
 *                  TILE_N                       a thread has THREAD_M rows by THREAD_N columns of D, and reads of both
 *              +-----------+                    operands QUAD k of these at a time, 16 bytes or 8 a read: along k
 *              |           | TILE_K             where memory runs along it, else across. Its rows are neighbours where
 *       +---+  +-----------+                    they are read at once; where they are read one by one they are LANES_M
 *       |   |  | . . . . . |                    apart, so that neighbouring threads read different banks, and store
 *       |   |  | . . . . . | TILE_M             neighbours of D.
 *       +---+  +-----------+
 *       TILE_K
 *
 * Needs: sm_80; any shape and layout. Long k goes round in stages, and sums leave their registers every MOVED_TILES tiles:
 * the error is no more than that of one chain so long.
 */
#include "kernel.h"

#include "store_sum.h"
#include "tile_copy.h"

enum {
    QUAD = 4, /* k that are read at a time */
    LANES_M = TILE_M / THREAD_M,
    LANES_N = TILE_N / THREAD_N,
    MOVED_TILES = 4,
    BAND = 8
};

static_assert(ELEMENT == ELEMENT_F32, "reads are of 4-byte elements");
static_assert(LANES_M * LANES_N == THREADS_X, "threads tile the block");
static_assert(LANES_M * THREAD_M == TILE_M && LANES_N * THREAD_N == TILE_N, "and nothing is left");
static_assert(THREAD_M == QUAD && (THREAD_N == QUAD || THREAD_N == 2), "a read has all of them at one k");
static_assert(TILE_K % QUAD == 0, "and all of its k at one row");
static_assert(STAGES >= 2, "what is filled is not what is multiplied");

typedef struct stage {
    __align__(16) element a[AREA(TILE_M)];
    __align__(16) element b[AREA(TILE_N)];
} stage;

static_assert(STAGES * sizeof(stage) == SHARED_BYTES, "the row asks for the shared memory that is used");

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Number i of a thread's rows (columns of B) in the tile; `lane` is the thread's number among `lanes` along it. */
static __device__ inline int row_of(int lane, int i, int lanes, int count, int along_k)
{
    return along_k ? i * lanes + lane : lane * count + i;
}

static __device__ inline int lane_m(void) { return (int)threadIdx.x % LANES_M; }

static __device__ inline int lane_n(void) { return (int)threadIdx.x / LANES_M; }

/* Reads a thread's rows, `count` of them, at k to k + QUAD. */
static __device__ __forceinline__ void read_rows(float to[][QUAD], const element *from, int k, int lane,
                                                 int lanes, int count, int side, int along_k)
{
    if (along_k) {
#pragma unroll
        for (int i = 0; i < count; ++i) {
            float4 some = *(const float4 *)(from + row_of(lane, i, lanes, count, 1) * PITCH(side, 1) + k);
            to[i][0] = some.x;
            to[i][1] = some.y;
            to[i][2] = some.z;
            to[i][3] = some.w;
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < QUAD; ++e) {
        const element *line = from + (k + e) * PITCH(side, 0) + row_of(lane, 0, lanes, count, 0);
        if (count == QUAD) {
            float4 some = *(const float4 *)line;
            to[0][e] = some.x;
            to[1][e] = some.y;
            to[2][e] = some.z;
            to[3][e] = some.w;
        } else {
            float2 some = *(const float2 *)line;
            to[0][e] = some.x;
            to[1][e] = some.y;
        }
    }
}

static __device__ __forceinline__ void multiply_tile(float sum[THREAD_M][THREAD_N], const stage *from,
                                                     int a_along_k, int b_along_k)
{
#pragma unroll 1
    for (int k = 0; k < TILE_K; k += QUAD) {
        float a[THREAD_M][QUAD];
        float b[THREAD_N][QUAD];
        read_rows(a, from->a, k, lane_m(), LANES_M, THREAD_M, TILE_M, a_along_k);
        read_rows(b, from->b, k, lane_n(), LANES_N, THREAD_N, TILE_N, b_along_k);
#pragma unroll
        for (int e = 0; e < QUAD; ++e) {
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
                for (int j = 0; j < THREAD_N; ++j) {
                    sum[i][j] = fmaf(a[i][e], b[j][e], sum[i][j]);
                }
            }
        }
    }
}

/* Adds a chain of sums to what is there, and begins the next. */
static __device__ __forceinline__ void move_sums(float total[THREAD_M][THREAD_N],
                                                 float sum[THREAD_M][THREAD_N])
{
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
            total[i][j] += sum[i][j];
            sum[i][j] = 0;
        }
    }
}

/*
 * The block's products over length k. Round i starts the copies of tile i, and multiplies the tile that is STAGES - 1 before it,
 * whose stage the next round fills again.
 */
static __device__ __forceinline__ void sum_products(float total[THREAD_M][THREAD_N], stage *stages, walk a,
                                                    walk b, int64_t length, int a_along_k, int b_along_k)
{
    float sum[THREAD_M][THREAD_N] = {{0}};
    int tiles = (int)((length + TILE_K - 1) / TILE_K);
    int last_k = (int)(length - (int64_t)(tiles - 1) * TILE_K);
    int filled = 0;
    int read = 0;
#pragma unroll 1
    for (int round = 0; round < tiles + STAGES - 1; ++round) {
        if (round < tiles) {
            int k_left = round == tiles - 1 ? last_k : TILE_K;
            copy_tile(stages[filled].a, &a, k_left, TILE_M, a_along_k);
            copy_tile(stages[filled].b, &b, k_left, TILE_N, b_along_k);
            filled = filled == STAGES - 1 ? 0 : filled + 1;
        }
        copy_async_commit(); /* a group is counted even when empty */
        if (round < STAGES - 1) {
            continue;
        }
        /* This thread's copies of the tile have landed, then everybody's. */
        copy_async_wait(STAGES - 1);
        __syncthreads();
        multiply_tile(sum, &stages[read], a_along_k, b_along_k);
        read = read == STAGES - 1 ? 0 : read + 1;
        if ((round - STAGES + 2) % MOVED_TILES == 0) {
            move_sums(total, sum);
        }
        /* Everybody has read what the next round fills. */
        __syncthreads();
    }
    move_sums(total, sum);
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* D = alpha * sum, 16 bytes at a time where a thread's rows are neighbours in memory that begin there. */
static __device__ __forceinline__ void store_plain(const gemm_arguments *arguments, const block_share *share,
                                                   float sum[THREAD_M][THREAD_N], int j, int64_t n,
                                                   int a_along_k)
{
    float alpha = arguments->alpha.value.f32;
    float *d = (float *)arguments->d + share->problem * arguments->stride_d + n * arguments->ldd + share->row;
    int left = within(arguments->m - share->row, 0, TILE_M);
    int first = row_of(lane_m(), 0, LANES_M, THREAD_M, 0);
    if (!a_along_k && first + THREAD_M <= left && (uintptr_t)(d + first) % 16 == 0) {
        *(float4 *)(d + first) =
            make_float4(alpha * sum[0][j], alpha * sum[1][j], alpha * sum[2][j], alpha * sum[3][j]);
        return;
    }
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        int row = row_of(lane_m(), i, LANES_M, THREAD_M, a_along_k);
        if (row < left) {
            d[row] = alpha * sum[i][j];
        }
    }
}

/* Any other end of the sums of a column. */
static __device__ __forceinline__ void store_any(const gemm_arguments *arguments, const block_share *share,
                                                 float sum[THREAD_M][THREAD_N], int j, int64_t n,
                                                 int a_along_k)
{
#pragma unroll
    for (int i = 0; i < THREAD_M; ++i) {
        int64_t m = share->row + row_of(lane_m(), i, LANES_M, THREAD_M, a_along_k);
        if (m < arguments->m) {
            store_sum(arguments, share, m, n, sum[i][j]);
        }
    }
}

static __device__ __forceinline__ void store(const gemm_arguments *arguments, const block_share *share,
                                             float sum[THREAD_M][THREAD_N])
{
    int plain = is_plain(arguments);
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        int64_t n = share->column + row_of(lane_n(), j, LANES_N, THREAD_N, !arguments->trans_b);
        if (n < arguments->n) {
            if (plain) {
                store_plain(arguments, share, sum, j, n, arguments->trans_a);
            } else {
                store_any(arguments, share, sum, j, n, arguments->trans_a);
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);
    block_share share = share_of_lone_block(&arguments, BAND);
    int64_t length = share.k_end - share.k_begin;
    const float *of_a = (const float *)arguments.a + share.problem * arguments.stride_a;
    const float *of_b = (const float *)arguments.b + share.problem * arguments.stride_b;
    wait_for_kernels_before();
    let_next_kernel_begin();

    float sum[THREAD_M][THREAD_N] = {{0}};
    if (alpha_is_zero(arguments.alpha, ELEMENT_F32)) {
        length = 0;
    }
#define SUM_PRODUCTS(a_along_k, b_along_k)                                                                   \
    sum_products(sum, stages,                                                                                \
                 walk_of(of_a, arguments.lda, share.row, arguments.m, share.k_begin, TILE_M, a_along_k),     \
                 walk_of(of_b, arguments.ldb, share.column, arguments.n, share.k_begin, TILE_N, b_along_k),  \
                 length, a_along_k, b_along_k)
    SUM_BY_LAYOUT(arguments, SUM_PRODUCTS);
    store(&arguments, &share, sum);
}
