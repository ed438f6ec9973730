/*
 * 08_async_copy.cu - rung 8: asynchronous copies, past the registers, several tiles ahead.
 *
 * cp.async moves words from global to shared memory without a register in between. A thread issues the copies
 * of a tile, closes them as a group, and later waits for all but its latest groups. With STAGES pairs of
 * tiles, STAGES - 1 are on their way or there while one is multiplied:
 *
 *      stage 0   [ copy tile 0 ][ multiply 0 ][ copy tile 3 .........][ multiply 3 ]
 *      stage 1      [ copy tile 1 ............][ multiply 1 ][ copy tile 4 .........
 *      stage 2         [ copy tile 2 .........................][ multiply 2 ][ copy
 *                                     barrier ^     barrier ^     barrier ^
 *
 * One barrier a tile says two things at once: everybody's copies of the tile that comes next are there, and
 * everybody has left the tile before, whose place is copied to next.
 *
 * A runs along m and is copied in 16-byte pieces where its columns allow, else word by word. B must be turned
 * on the way, so word by word: a warp copies 8 k of 4 columns, whole 32-byte sectors of global memory, to 32
 * different banks, since the rows of tile_b[k][n] are 4 words longer than the tile:
 *
 *        B, column-major           tile_b, bank of (k, n) = 4 * k + n
 *        k 0 1 2 3 4 5 6 7         k=0   0  1  2  3
 *     n  0 . . . . . . . .         k=1   4  5  6  7
 *        1 . . . . . . . .   -->   k=2   8  9 10 11
 *        2 . . . . . . . .         ...
 *        3 . . . . . . . .         k=7  28 29 30 31
 *
 * Threads own 4 + 4 rows and columns half a tile apart, as in rung 7.
 *
 * Needs: sm_80, dynamic shared memory. Limited by issue slots again: 4 reads of shared memory go with 64
 * multiply-adds, and each of the word copies takes a slot; a warp of 16 x 2 threads also reads more of A than
 * it must, which warp tiles (rung 9) mend.
 */
#include "kernel.h"
#include "tiles.h"

#include "halves.h"
#include "source.h"

#define B_K 8                    /* k that neighbouring threads copy of B */
#define B_STEP (THREADS_X / B_K) /* columns of B that the block copies at once */

typedef struct stage {
    float a[TILE_K][TILE_M];
    float b[TILE_K][TILE_N + PAD];
} stage;

static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(TILE_K % B_K == 0 && TILE_N % (2 * B_STEP) == 0, "the threads share B's tile evenly");
static_assert(PIECE == VECTOR, "a group is a piece");
static_assert(THREADS_X % TILE_M == 0 && TILE_K % (2 * THREADS_X / (TILE_M / VECTOR)) == 0, "and A's");

/*
 * Copies and products of a tile go by halves in turn, half 0 and half 1: all copies at once would fill the queue
 * that the reads of shared memory wait in too.
 *
 * Starts half of a thread's copies of A's tile, `words` (VECTOR or 1) words each, the first from *a; rows x k_left
 * elements of the tile lie in the matrix. Of a piece outside it nothing is read.
 */
static __device__ inline void copy_a(stage *to, const float *a, int64_t lda, int rows, int k_left, int words,
                                     int half)
{
    int row = (int)threadIdx.x % (TILE_M / words) * words;
    int k = (int)threadIdx.x / (TILE_M / words);
    int step = THREADS_X / (TILE_M / words);
#pragma unroll
    for (int at = half * TILE_K / 2; at < (half + 1) * TILE_K / 2; at += step) {
        int inside = k_left == TILE_K || k + at < k_left ? rows - row : 0;
        if (words == VECTOR) {
            copy_async_16(&to->a[k + at][row], a + at * lda, piece_bytes(inside));
        } else {
            copy_async_4(&to->a[k + at][row], a + at * lda, inside > 0 ? 4 : 0);
        }
    }
}

/* The same of B's tile, the first from *b; k_left x columns elements of it lie in the matrix. */
static __device__ inline void copy_b(stage *to, const float *b, int64_t ldb, int columns, int k_left,
                                     int half)
{
    int k = (int)threadIdx.x % B_K;
    int column = (int)threadIdx.x / B_K;
#pragma unroll
    for (int at_n = half * TILE_N / 2; at_n < (half + 1) * TILE_N / 2; at_n += B_STEP) {
#pragma unroll
        for (int at_k = 0; at_k < TILE_K; at_k += B_K) {
            int inside = column + at_n < columns && k + at_k < k_left;
            copy_async_4(&to->b[k + at_k][column + at_n], b + at_k + at_n * ldb, inside ? 4 : 0);
        }
    }
}

/* Adds half the products of a stage; row and column begin the thread's first groups. */
static __device__ inline void multiply(float sum[THREAD_N][THREAD_M], const stage *from, int row, int column,
                                       int half)
{
#pragma unroll
    for (int k = half * TILE_K / 2; k < (half + 1) * TILE_K / 2; ++k) {
        float4 a[2] = {*(const float4 *)&from->a[k][row], *(const float4 *)&from->a[k][HALF_M + row]};
        float4 b[2] = {*(const float4 *)&from->b[k][column], *(const float4 *)&from->b[k][HALF_N + column]};
        /* Without this the compiler moves the reads down to their first use, and every k waits for them. */
        __syncwarp();
        float a_of[THREAD_M] = {a[0].x, a[0].y, a[0].z, a[0].w, a[1].x, a[1].y, a[1].z, a[1].w};
        float b_of[THREAD_N] = {b[0].x, b[0].y, b[0].z, b[0].w, b[1].x, b[1].y, b[1].z, b[1].w};
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                sum[j][i] = fmaf(a_of[i], b_of[j], sum[j][i]);
            }
        }
    }
}

/*
 * Starts half of the copies of both tiles, A's in pieces of `words` (see copy_a); whole says that both lie wholly in
 * the matrices, A's columns aligned.
 */
static __device__ inline void copy_half(stage *to, const source *from, int words, int whole, int half)
{
    if (whole) {
        copy_b(to, from->b, from->ldb, TILE_N, TILE_K, half);
        copy_a(to, from->a, from->lda, TILE_M, TILE_K, VECTOR, half);
    } else if (from->depth > 0) {
        int k_left = tile_depth(from);
        copy_b(to, from->b, from->ldb, from->columns, k_left, half);
        copy_a(to, from->a, from->lda, from->rows, k_left, words, half);
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);

    block_share share = share_of_block(&arguments, 8);
    int row = (int)threadIdx.x % THREADS_M * VECTOR;
    int column = (int)threadIdx.x / THREADS_M * VECTOR;

    float alpha = scalar_value(arguments.alpha);
    float beta = scalar_value(arguments.beta);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    source next = source_of_block(&arguments, share, depth);
    int words = (uintptr_t)next.a % 16 == 0 && next.lda % VECTOR == 0 ? VECTOR : 1;

    /* This thread's first pieces. */
    int across = TILE_M / words;
    next.a += (int)threadIdx.x % across * words + (int)threadIdx.x / across * next.lda;
    next.b += (int)threadIdx.x % B_K + (int)threadIdx.x / B_K * next.ldb;

    int whole_block = next.rows == TILE_M && next.columns == TILE_N && words == VECTOR;
    float sum[THREAD_N][THREAD_M] = {{0}};
    int reading = 0;
    int writing = 0;
    for (int64_t k = -(STAGES - 1) * TILE_K; k < depth; k += TILE_K) {
        /* The first STAGES - 1 rounds only start copies. */
        if (k >= 0) {
            copy_async_wait(STAGES - 2);
            __syncthreads();
        }
        int whole = whole_block && next.depth >= TILE_K;
        copy_half(&stages[writing], &next, words, whole, 0);
        if (k >= 0) {
            multiply(sum, &stages[reading], row, column, 0);
        }
        copy_half(&stages[writing], &next, words, whole, 1);
        next_tiles(&next);
        writing = writing + 1 == STAGES ? 0 : writing + 1;
        if (k >= 0) {
            multiply(sum, &stages[reading], row, column, 1);
            reading = reading + 1 == STAGES ? 0 : reading + 1;
        }
    }

    store_sums(&arguments, share.row + row, share.column + column, sum, alpha, beta);
}
