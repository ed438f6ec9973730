/*
 * slices.cu - small products of f64 on the double-precision tensor instruction, in one launch: few tiles, or many problems
 * of one tile.
 *
 * A product of 256x256x256 is 64 tiles of 32x32: to give every multiprocessor one they must be small, and one warp would
 * go through all of k for hardly any sums, waiting for memory, for shared memory and for its own last product. To cut k into
 * parts for more blocks (partial sums through memory, and a second launch) takes longer than the product itself. So here
 * the warps of a block cut k: each tile along k has SLICES slices, and of each slice of its own a warp has all
 * products. The block adds the slices' sums at the end, in their order, which is the same in every run.
 *
 *       TILE_K                          TILE_N
 *     +---+---+---+---+               +---------+
 *     |   |   |   |   | TILE_M      0 |         |        warp 0 multiplies columns 0 of A by rows 0 of B,
 *     | 0 | 1 | 2 | 3 |             1 |         |        warp 1 columns 1 by rows 1, ...; so do all warps at a time
 *     +---+---+---+---+             2 |         |
 *                                   3 |         |
 *                                     +---------+
 *
 * All that a block needs of a short k is on the way before the first product: up to STAGES - 1 tiles.
 *
 * An operand's tile lies in shared memory as its memory does (tile_copy.h), and lanes read single doubles from it, as
 * f64_tensor.cu describes: half a warp at a time, from different banks.
 *
 * Needs: sm_90; any shape and layout, bases at whole elements.
 */
#include "kernel.h"

#include "store_sum.h"
#include "tile_copy.h"

enum {
    MMA_M = 16,
    MMA_N = 8,
    MMA_K = 8,
    ROWS = WARP_M / MMA_M,    /* instructions down a warp's tile */
    COLUMNS = WARP_N / MMA_N, /* and across it */
    WARPS_M = TILE_M / WARP_M,
    WARPS = WARPS_M * (TILE_N / WARP_N), /* of a slice */
    SLICE_K = TILE_K / SLICES,
    STEPS = SLICE_K / MMA_K, /* of a slice */
    SUM_PITCH = TILE_M + 2,  /* doubles from column to column of sums: lanes write to different banks */
    COLUMN_STEP = THREADS_X / TILE_M, /* columns of D from one element of a thread to its next, */
    THREAD_ELEMENTS = (TILE_N + COLUMN_STEP - 1) / COLUMN_STEP,
    BAND = 8
};

#include "warp_place.h"

typedef struct stage {
    __align__(16) element a[AREA(TILE_M)];
    __align__(16) element b[AREA(TILE_N)];
} stage;

typedef union shared_memory {
    stage stages[STAGES];
    double sums[SLICES][TILE_N * SUM_PITCH];
} shared_memory;

static_assert(ELEMENT == ELEMENT_F64, "the sums are double");
static_assert(THREADS_X == 32 * WARPS * SLICES, "the warps of a slice tile the block");
static_assert(WARPS_M * WARP_M == TILE_M && TILE_N % WARP_N == 0, "and nothing is left");
static_assert(ROWS * MMA_M == WARP_M && COLUMNS * MMA_N == WARP_N, "instructions tile a warp's part");
static_assert(TILE_K % 16 == 0 && SLICE_K * SLICES == TILE_K && SLICE_K % MMA_K == 0, "and a slice");
static_assert(STAGES >= 2, "what is filled is not what is multiplied");
static_assert(COLUMN_STEP * TILE_M == THREADS_X, "a thread's elements are of one row");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Reads a lane's part of MMA_K k of the warp's rows: group and group + 8 of each MMA_M, at k = 0 and 4. */
static __device__ __forceinline__ void read_a(double to[ROWS][4], const stage *from, const warp_place *warp,
                                              int step, int along_k)
{
    const int step_m = along_k ? PITCH(TILE_M, 1) : 1; /* doubles from one m to the next, */
    const int step_k = along_k ? 1 : PITCH(TILE_M, 0); /* and from one k */
    int row = warp->row + (int)threadIdx.x % 32 / 4;
    int k = warp->slice * SLICE_K + (int)threadIdx.x % 4;
    const double *a = from->a + row * step_m + k * step_k;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            to[i][e] = a[(i * MMA_M + e % 2 * 8) * step_m + (step * MMA_K + e / 2 * 4) * step_k];
        }
    }
}

/* The same of MMA_N of its columns of B, number j. */
static __device__ __forceinline__ void read_b(double to[2], const stage *from, const warp_place *warp,
                                              int step, int j, int along_k)
{
    const int step_n = along_k ? PITCH(TILE_N, 1) : 1;
    const int step_k = along_k ? 1 : PITCH(TILE_N, 0);
    int column = warp->column + (int)threadIdx.x % 32 / 4;
    int k = warp->slice * SLICE_K + (int)threadIdx.x % 4;
    const double *b = from->b + column * step_n + k * step_k;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        to[e] = b[j * MMA_N * step_n + (step * MMA_K + e * 4) * step_k];
    }
}

/* What a lane holds: A's part of the step that is multiplied, and of the next one; B's is read anew as it has been used. */
typedef struct fragments {
    double a[2][ROWS][4];
    double b[COLUMNS][2];
} fragments;

/* Multiplies the step whose part of A is number `now`, and reads step `step` of a tile, which comes after it. */
static __device__ __forceinline__ void multiply(double sum[ROWS][COLUMNS][4], fragments *parts, int now,
                                                const stage *from, const warp_place *warp, int step,
                                                int a_along_k, int b_along_k)
{
    read_a(parts->a[1 - now], from, warp, step, a_along_k);
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            mma_f64_16x8x8(sum[i][j], parts->a[now][i], parts->b[j]);
        }
        read_b(parts->b[j], from, warp, step, j, b_along_k);
    }
}

/*
 * The block's products over length k, each slice's to its warps. Round i starts the copies of tile i, and multiplies the
 * tile that is STAGES - 1 before it. What it fills everybody has read: fragments are read a step ahead, those of a tile's
 * first step while the tile before is multiplied, after the barrier. Each thing to do stands here once: in a kernel that is
 * over so soon, code that is fetched is what takes time.
 */
static __device__ __forceinline__ void sum_products(double sum[ROWS][COLUMNS][4], stage *stages, walk a,
                                                    walk b, int64_t length, const warp_place *warp,
                                                    int a_along_k, int b_along_k)
{
    fragments parts;
    int tiles = (int)((length + TILE_K - 1) / TILE_K);
    int last_k = (int)(length - (int64_t)(tiles - 1) * TILE_K);
    int rounds = tiles > 0 ? tiles + STAGES - 1 : 0;
    int filled = 0;
    int read = STAGES - 1;
#pragma unroll 1
    for (int round = 0; round < rounds; ++round) {
        if (round < tiles) {
            int k_left = round == tiles - 1 ? last_k : TILE_K;
            copy_tile(stages[filled].a, &a, k_left, TILE_M, a_along_k);
            copy_tile(stages[filled].b, &b, k_left, TILE_N, b_along_k);
            filled = filled == STAGES - 1 ? 0 : filled + 1;
        }
        copy_async_commit(); /* a group is counted even when empty */
        if (round < STAGES - 2) {
            continue;
        }
        if (round != STAGES - 2) {
#pragma unroll
            for (int step = 0; step < STEPS - 1; ++step) {
                multiply(sum, &parts, step % 2, &stages[read], warp, step + 1, a_along_k, b_along_k);
            }
        }
        /* This thread's copies of the next tile have landed, then everybody's. */
        copy_async_wait(STAGES - 2);
        __syncthreads();
        read = read == STAGES - 1 ? 0 : read + 1;
        if (round != STAGES - 2) {
            multiply(sum, &parts, (STEPS - 1) % 2, &stages[read], warp, 0, a_along_k, b_along_k);
        } else {
            read_a(parts.a[STEPS % 2], &stages[read], warp, 0, a_along_k);
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                read_b(parts.b[j], &stages[read], warp, 0, j, b_along_k);
            }
        }
        if (STEPS % 2) {
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    parts.a[0][i][e] = parts.a[1][i][e];
                }
            }
        }
    }
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* The warp's sums to its slice's. */
static __device__ __forceinline__ void write_sums(double *to, double sum[ROWS][COLUMNS][4],
                                                  const warp_place *warp)
{
    int row = warp->row + (int)threadIdx.x % 32 / 4;
    int column = warp->column + (int)threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                to[(column + j * MMA_N + e % 2) * SUM_PITCH + row + i * MMA_M + e / 2 * 8] = sum[i][j][e];
            }
        }
    }
}

/* A thread's elements: of one row, every COLUMN_STEP-th column, so that neighbouring threads have neighbours. */
typedef struct target {
    int64_t m;
    int64_t n;   /* of the first */
    int in_tile; /* where the first one's sums lie; COLUMN_STEP * SUM_PITCH on the next one's */
    int count;   /* how many of them lie inside */
} target;

static __device__ __forceinline__ target target_of(const gemm_arguments *arguments, const block_share *share)
{
    int row = (int)threadIdx.x % TILE_M;
    int column = (int)threadIdx.x / TILE_M;
    int columns = within(arguments->n - share->column, 0, TILE_N) - column;
    target to;
    to.m = share->row + row;
    to.n = share->column + column;
    to.in_tile = column * SUM_PITCH + row;
    to.count = to.m < arguments->m ? (columns + COLUMN_STEP - 1) / COLUMN_STEP : 0;
    return to;
}

/* All slices' sums of a thread's element, added in their order. */
static __device__ __forceinline__ double sum_of(const shared_memory *shared, const target *to, int i)
{
    int at = to->in_tile + i * COLUMN_STEP * SUM_PITCH;
    double sum = shared->sums[0][at];
#pragma unroll
    for (int slice = 1; slice < SLICES; ++slice) {
        sum += shared->sums[slice][at];
    }
    return sum;
}

/* D = alpha * sum + beta * C: all of a thread's C is on the way at once. */
static __device__ __forceinline__ void store_plain(const gemm_arguments *arguments, const block_share *share,
                                                   const target *to, const shared_memory *shared)
{
    double alpha = scalar_f64(arguments->alpha);
    double beta = scalar_f64(arguments->beta);
    const double *c =
        (const double *)arguments->c + share->problem * arguments->stride_c + to->m + to->n * arguments->ldc;
    double *d =
        (double *)arguments->d + share->problem * arguments->stride_d + to->m + to->n * arguments->ldd;
    int reads = beta != 0 ? to->count : 0; /* C may be NULL where it is not read */
    double addend[THREAD_ELEMENTS];
#pragma unroll
    for (int i = 0; i < THREAD_ELEMENTS; ++i) {
        addend[i] = i < reads ? beta * *c : -0.0;
        c += COLUMN_STEP * arguments->ldc;
    }
#pragma unroll
    for (int i = 0; i < THREAD_ELEMENTS; ++i) {
        if (i < to->count) {
            *d = fma(alpha, sum_of(shared, to, i), addend[i]);
        }
        d += COLUMN_STEP * arguments->ldd;
    }
}

/* Any other end of a sum. */
static __device__ __forceinline__ void store_any(const gemm_arguments *arguments, const block_share *share,
                                                 const target *to, const shared_memory *shared)
{
#pragma unroll 1
    for (int i = 0; i < to->count; ++i) {
        store_sum(arguments, share, to->m, to->n + i * COLUMN_STEP, sum_of(shared, to, i));
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    block_share share = share_of_lone_block(&arguments, BAND);
    int64_t length = share.k_end - share.k_begin;
    warp_place warp = place_of_warp();
    const double *of_a = (const double *)arguments.a + share.problem * arguments.stride_a;
    const double *of_b = (const double *)arguments.b + share.problem * arguments.stride_b;
    wait_for_kernels_before();
    let_next_kernel_begin();

    double sum[ROWS][COLUMNS][4] = {{{0}}};
    if (alpha_is_zero(arguments.alpha, ELEMENT_F64)) {
        length = 0;
    }
#define SUM_PRODUCTS(a_along_k, b_along_k)                                                                   \
    sum_products(sum, shared->stages,                                                                        \
                 walk_of(of_a, arguments.lda, share.row, arguments.m, share.k_begin, TILE_M, a_along_k),     \
                 walk_of(of_b, arguments.ldb, share.column, arguments.n, share.k_begin, TILE_N, b_along_k),  \
                 length, &warp, a_along_k, b_along_k)
    SUM_BY_LAYOUT(arguments, SUM_PRODUCTS);
    /* Everybody has left the stages, whose place the sums take. */
    __syncthreads();
    write_sums(shared->sums[warp.slice], sum, &warp);
    __syncthreads();
    target to = target_of(&arguments, &share);
    if (arguments.partials || arguments.epilogue.bias || arguments.epilogue.activation != ACTIVATION_NONE) {
        store_any(&arguments, &share, &to, shared);
    } else {
        store_plain(&arguments, &share, &to, shared);
    }
}
