/*
 * 06_register_tile.cu - rung 6: 8 x 8 results a thread, in registers, and vector loads.
 *
 * A thread that has read 8 numbers of A and 8 of B can do 64 multiply-adds with them, not one. So a
 * block of 16 x 16 threads owns 128 x 128 of D, a thread 8 x 8 of that:
 *
 *                        tile_b[k][n], TILE_K x 128
 *                       +----------------+
 *                       |   |########|   |        for each k a thread reads 8 of A and 8 of B, VECTOR
 *      tile_a[k][m]     +----------------+        words at a time, and multiplies every pair:
 *        +------+       +----------------+
 *        |      |       |                |            16 words for 64 multiply-adds, where rung 3
 *        |######| 8     |   +--------+   |            read 2 for 1
 *        |      |       |   | 8 x 8  |   |
 *        |      |       |   +--------+   |        thread t: rows 8 * (t % 16), columns 8 * (t / 16)
 *        +------+       +----------------+
 *
 * Global memory is read VECTOR words at a time too, 2 * m * n * k / 128 words of it in all. A's columns go to
 * shared memory as they are. B's run along k and are stored transposed, word by word, in rows 4 words
 * longer than the tile so that the eight words that a pair of threads writes go to different banks than their
 * neighbours' do.
 *
 * Needs: nothing; columns that do not begin at a multiple of VECTOR words, and tiles at the edge, are
 * read word by word. Limited by the wait between the barriers while a tile is copied, and by bank
 * conflicts: the 16 threads that share a column group read A 32 bytes apart, half of the banks.
 */
#include "kernel.h"
#include "load.h"
#include "store.h"
#include "tiles.h"

#define PAD 4
#define THREADS_M (TILE_M / THREAD_M)

#define VECTORS_A (TILE_M * TILE_K / VECTOR / THREADS_X) /* that a thread copies of a tile of A */
#define VECTORS_B (TILE_N * TILE_K / VECTOR / THREADS_X)

static_assert(THREADS_M * (TILE_N / THREAD_N) == THREADS_X, "the threads tile the block");
static_assert(TILE_K % VECTOR == 0 && THREAD_M % VECTOR == 0 && THREAD_N % VECTOR == 0, "vectors fit");
static_assert(VECTORS_A * THREADS_X * VECTOR == TILE_M * TILE_K, "the threads share A's tile evenly");
static_assert(VECTORS_B * THREADS_X * VECTOR == TILE_N * TILE_K, "the threads share B's tile evenly");

typedef float tile_a_type[TILE_K][TILE_M];
typedef float tile_b_type[TILE_K][TILE_N + PAD];

/* Copies the tile of A whose first element is *a; of it, rows x depth elements lie in the matrix. */
static __device__ inline void load_a(tile_a_type tile, const float *a, int64_t lda, int64_t rows,
                                     int64_t depth, int aligned)
{
#pragma unroll
    for (int pass = 0; pass < VECTORS_A; ++pass) {
        int piece = (int)threadIdx.x + pass * THREADS_X;
        int i = piece % (TILE_M / VECTOR) * VECTOR;
        int k = piece / (TILE_M / VECTOR);
        *(vector *)&tile[k][i] = load_vector(a + i + k * lda, k < depth ? rows - i : 0, aligned);
    }
}

/* Copies the tile of B whose first element is *b, turning it. */
static __device__ inline void load_b(tile_b_type tile, const float *b, int64_t ldb, int64_t depth,
                                     int64_t columns, int aligned)
{
#pragma unroll
    for (int pass = 0; pass < VECTORS_B; ++pass) {
        int piece = (int)threadIdx.x + pass * THREADS_X;
        int k = piece % (TILE_K / VECTOR) * VECTOR;
        int j = piece / (TILE_K / VECTOR);
        vector column = load_vector(b + k + j * ldb, j < columns ? depth - k : 0, aligned);
#pragma unroll
        for (int step = 0; step < VECTOR; ++step) {
            tile[k + step][j] = column.x[step];
        }
    }
}

/* Adds the products of two tiles; row and column are the thread's first in the block's tile. */
static __device__ inline void multiply(float sum[THREAD_N][THREAD_M], const tile_a_type tile_a,
                                       const tile_b_type tile_b, int row, int column)
{
#pragma unroll
    for (int k = 0; k < TILE_K; ++k) {
        vector a[THREAD_M / VECTOR];
        vector b[THREAD_N / VECTOR];
#pragma unroll
        for (int i = 0; i < THREAD_M / VECTOR; ++i) {
            a[i] = *(const vector *)&tile_a[k][row + i * VECTOR];
        }
#pragma unroll
        for (int j = 0; j < THREAD_N / VECTOR; ++j) {
            b[j] = *(const vector *)&tile_b[k][column + j * VECTOR];
        }
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
    __shared__ __align__(16) tile_a_type tile_a;
    __shared__ __align__(16) tile_b_type tile_b;

    block_share share = share_of_block(&arguments, 8);
    int row = (int)threadIdx.x % THREADS_M * THREAD_M;
    int column = (int)threadIdx.x / THREADS_M * THREAD_N;

    float alpha = scalar_value(arguments.alpha);
    float beta = scalar_value(arguments.beta);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    const float *a = (const float *)arguments.a + share.row;
    const float *b = (const float *)arguments.b + share.column * arguments.ldb;
    int a_aligned = columns_aligned(a, arguments.lda);
    int b_aligned = columns_aligned(b, arguments.ldb);

    float sum[THREAD_N][THREAD_M] = {{0}};
    for (int64_t k = 0; k < depth; k += TILE_K) {
        load_a(tile_a, a + k * arguments.lda, arguments.lda, arguments.m - share.row, depth - k, a_aligned);
        load_b(tile_b, b + k, arguments.ldb, depth - k, arguments.n - share.column, b_aligned);
        __syncthreads();
        multiply(sum, tile_a, tile_b, row, column);
        __syncthreads();
    }
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            if (share.row + row + i < arguments.m && share.column + column + j < arguments.n) {
                store_result(&arguments, 0, share.row + row + i, share.column + column + j, sum[j][i], alpha,
                             beta);
            }
        }
    }
}
