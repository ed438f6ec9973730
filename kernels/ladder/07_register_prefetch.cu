/*
 * 07_register_prefetch.cu - rung 7: the next tile is on its way while this one is multiplied, and every
 * access is contiguous.
 *
 * Rung 6 waits for global memory between its barriers. Here a thread fetches its part of the next tile
 * into registers, multiplies the present tile, and only then stows what has come in the other of two pairs of
 * tiles. One barrier a tile is left:
 *
 *      fetch 0, stow 0 |barrier| fetch 1, multiply 0, stow 1 |barrier| fetch 2, multiply 1, stow 2 |barrier|
 * ...
 *
 * The second idea: a thread's 8 rows are not neighbours but two groups of 4, half a tile apart, and so
 * are its columns. Then the 16 threads along m read 256 contiguous bytes of A, and no bank twice:
 *
 *      rung 6   [t0 t0][t1 t1][t2 t2][t3 t3] ...                    t0 and t4 meet in a bank
 *      rung 7   [t0][t1][t2][t3] ... [t15] | [t0][t1][t2] ...       16 threads, 16 times 16 bytes
 *
 *                    HALF_N          D's tile, what thread (x, y) owns of it:
 *             +--------+--------+
 *             |  4x4   |  4x4   |    rows     4x .. 4x + 3 and HALF_M + 4x .. HALF_M + 4x + 3
 *      HALF_M +--------+--------+    columns  4y .. 4y + 3 and HALF_N + 4y .. HALF_N + 4y + 3
 *             |  4x4   |  4x4   |
 *             +--------+--------+
 *
 * A's tile is tile_a[k][m] and B's, turned when it is stowed, tile_b[k][n], with rows 4 words longer than
 * the tile so that a warp's 32 writes, 2 groups of k by 16 columns, go to 32 banks.
 *
 * Needs: nothing; unaligned columns and edges are read word by word. Limited by what the schedulers issue
 * that is no multiply-add: moving two tiles through registers costs a load, a store and addresses for every
 * vector, and by registers: 64 sums, 16 operands and 16 words on their way leave few of 128.
 */
#include "kernel.h"
#include "tiles.h"

#include "halves.h"
#include "load.h"

/* What a thread moves of a tile of A: VECTORS_A vectors, A_STEP_K apart along k; and of B, B_STEP_K apart. */
#define A_STEP_K (THREADS_X / (TILE_M / VECTOR))
#define VECTORS_A (TILE_K / A_STEP_K)
#define B_STEP_K (THREADS_X / TILE_N * VECTOR)
#define VECTORS_B (TILE_K / B_STEP_K)

static_assert(VECTORS_A * A_STEP_K == TILE_K && VECTORS_B * B_STEP_K == TILE_K,
              "the threads share the tiles evenly");

typedef float tile_a_type[TILE_K][TILE_M];
typedef float tile_b_type[TILE_K][TILE_N + PAD];

/*
 * How a thread moves its part of the tiles: from where in global memory next, to where in shared memory, and
 * what it holds between fetch and stow.
 */
typedef struct mover {
    const float *a_from;
    const float *b_from;
    int a_row;
    int a_k;
    int b_k;
    int b_column;
    vector a[VECTORS_A];
    vector b[VECTORS_B];
} mover;

/* Global memory to registers; of the tiles rows x k_left and k_left x columns elements lie in the matrices.
 */
static __device__ inline void fetch(mover *to, const gemm_arguments *arguments, int rows, int columns,
                                    int k_left, int a_aligned, int b_aligned)
{
#pragma unroll
    for (int pass = 0; pass < VECTORS_A; ++pass) {
        int inside = to->a_k + pass * A_STEP_K < k_left ? rows - to->a_row : 0;
        to->a[pass] = load_vector(to->a_from + pass * A_STEP_K * arguments->lda, inside, a_aligned);
    }
#pragma unroll
    for (int pass = 0; pass < VECTORS_B; ++pass) {
        int inside = to->b_column < columns ? k_left - to->b_k - pass * B_STEP_K : 0;
        to->b[pass] = load_vector(to->b_from + pass * B_STEP_K, inside, b_aligned);
    }
}

/* Registers to shared memory; B is turned. */
static __device__ inline void stow(const mover *from, tile_a_type tile_a, tile_b_type tile_b)
{
#pragma unroll
    for (int pass = 0; pass < VECTORS_A; ++pass) {
        *(vector *)&tile_a[from->a_k + pass * A_STEP_K][from->a_row] = from->a[pass];
    }
#pragma unroll
    for (int pass = 0; pass < VECTORS_B; ++pass) {
#pragma unroll
        for (int step = 0; step < VECTOR; ++step) {
            tile_b[from->b_k + pass * B_STEP_K + step][from->b_column] = from->b[pass].x[step];
        }
    }
}

/* Shared memory to registers to sums; row and column begin the thread's first groups. */
static __device__ inline void multiply(float sum[THREAD_N][THREAD_M], const tile_a_type tile_a,
                                       const tile_b_type tile_b, int row, int column)
{
#pragma unroll
    for (int k = 0; k < TILE_K; ++k) {
        vector a[2] = {*(const vector *)&tile_a[k][row], *(const vector *)&tile_a[k][HALF_M + row]};
        vector b[2] = {*(const vector *)&tile_b[k][column], *(const vector *)&tile_b[k][HALF_N + column]};
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                sum[j][i] = fmaf(a[i / VECTOR].x[i % VECTOR], b[j / VECTOR].x[j % VECTOR], sum[j][i]);
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ __align__(16) tile_a_type tile_a[2];
    __shared__ __align__(16) tile_b_type tile_b[2];

    block_share share = share_of_block(&arguments, 8);
    int row = (int)threadIdx.x % THREADS_M * VECTOR;
    int column = (int)threadIdx.x / THREADS_M * VECTOR;

    float alpha = scalar_value(arguments.alpha);
    float beta = scalar_value(arguments.beta);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    const float *a = (const float *)arguments.a + share.row;
    const float *b = (const float *)arguments.b + share.column * arguments.ldb;
    int a_aligned = columns_aligned(a, arguments.lda);
    int b_aligned = columns_aligned(b, arguments.ldb);
    int rows = arguments.m - share.row < TILE_M ? (int)(arguments.m - share.row) : TILE_M;
    int columns = arguments.n - share.column < TILE_N ? (int)(arguments.n - share.column) : TILE_N;

    mover mover;
    mover.a_row = (int)threadIdx.x % (TILE_M / VECTOR) * VECTOR;
    mover.a_k = (int)threadIdx.x / (TILE_M / VECTOR);
    mover.b_k = (int)threadIdx.x % (B_STEP_K / VECTOR) * VECTOR;
    mover.b_column = (int)threadIdx.x / (B_STEP_K / VECTOR);
    mover.a_from = a + mover.a_row + mover.a_k * arguments.lda;
    mover.b_from = b + mover.b_k + mover.b_column * arguments.ldb;

    float sum[THREAD_N][THREAD_M] = {{0}};
    int now = 0;
    for (int64_t k = -TILE_K; k < depth; k += TILE_K) {
        /* The first round only fetches and stows. */
        int64_t left = depth - k - TILE_K;
        if (rows == TILE_M && columns == TILE_N && left >= TILE_K) {
            fetch(&mover, &arguments, TILE_M, TILE_N, TILE_K, a_aligned, b_aligned);
        } else if (left > 0) {
            int k_left = left < TILE_K ? (int)left : TILE_K;
            fetch(&mover, &arguments, rows, columns, k_left, a_aligned, b_aligned);
        }
        mover.a_from += TILE_K * arguments.lda;
        mover.b_from += TILE_K;
        if (k >= 0) {
            multiply(sum, tile_a[now], tile_b[now], row, column);
        }
        if (left > 0) {
            now ^= 1;
            stow(&mover, tile_a[now], tile_b[now]);
        }
        __syncthreads();
    }

    store_sums(&arguments, share.row + row, share.column + column, sum, alpha, beta);
}
