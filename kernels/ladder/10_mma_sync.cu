/*
 * 10_mma_sync.cu - rung 10: the tensor instruction. A warp multiplies small matrices, not numbers.
 *
 * From here on elements are bf16 (or f16) and sums f32. One mma adds 16 x 16 times 16 x 8 to 16 x 8 sums that
 * lie spread over a warp's registers: 2048 multiply-adds, where an fma does 32. All else is known: tiles come
 * by cp.async, STAGES of them (rung 8), and a warp owns 64 x 64 of D (rung 9).
 *
 *      block 128 x 128        warp 64 x 64                 one mma, its columns along m
 *      +------+------+        +--+--+--+--+--+--+--+--+          B, 16 n    A, 8 m       D
 *      |warp 0|warp 2|     m  |  |  |  |  |  |  |  |  |          +----+     +--+        +--+
 *      +------+------+     |  +--+--+ 4 x 8 of them --+       n  |    |  *  |  |  ->  n |  |
 *      |warp 1|warp 3|     v  |  |  |  |  |  |  |  |  |       v  +----+   k |  |        |  |
 *      +------+------+                                             k >      +--+        +--+
 *
 * The instruction takes its left factor along rows. That is D transposed, B^T times A^T: then the two sums
 * that a lane holds side by side are neighbours in a column of D, and leave in one word (column.h). With
 * group = lane / 4 and member = lane % 4 they are rows 2 * member and 2 * member + 1, column group.
 *
 * A lane must hold, of each factor, pairs of neighbours along k. ldmatrix brings them: it reads four
 * matrices of 8 x 8, whose rows are 16 bytes each, and lane l says where row l % 8 of matrix l / 8 lies.
 * B's tile runs along k, as it lies in memory, and is read as it is; A's runs along m and is read
 * transposed. So neither is turned on the way to shared memory, and both come in 16-byte copies, where rung 8
 * had to copy B word by word.
 *
 *      a[k][m]   row k: 128 m and 8 more      Rows are 16 bytes longer than a multiple of 128, so that
 *      b[n][k]   row n:  64 k and 8 more      eight of them, 16 bytes of each, lie in 32 different banks.
 *
 * Needs: sm_80; A and B, their columns and k aligned to 16 bytes. Limited by the instruction, which does not
 * use all of Hopper's unit, and by shared memory: of the four warps, two read the same word, and every word
 * goes by way of registers.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "column.h"
#include "source.h"

#define MMA_ROWS 16 /* of the instruction, along n */
#define MMA_COLUMNS 8
#define MMA_K 16
#define ROWS (WARP_N / MMA_ROWS)       /* instructions along n of a warp's tile */
#define COLUMNS (WARP_M / MMA_COLUMNS) /* and along m */
#define WARPS_M (TILE_M / WARP_M)

#define PAD PIECE

typedef struct stage {
    element a[TILE_K][TILE_M + PAD];
    element b[TILE_N][TILE_K + PAD];
} stage;

static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(THREADS_X == 32 * WARPS_M * (TILE_N / WARP_N), "the warps tile the block");
static_assert(TILE_M * TILE_K % (PIECE * THREADS_X) == 0, "the threads share A's tile evenly");
static_assert(TILE_N * TILE_K % (PIECE * THREADS_X) == 0, "and B's");
static_assert(TILE_K % MMA_K == 0 && COLUMNS % 2 == 0, "ldmatrix reads 16 x 16");

#if ELEMENT == ELEMENT_F16
#define mma_16x8x16 mma_f16_16x8x16
#else
#define mma_16x8x16 mma_bf16_16x8x16
#endif

/*
 * Starts this thread's copies of a tile: `count` rows of `length` elements, ld apart in memory and pitch
 * apart in shared memory. Of them count_inside x length_inside lie in the matrix; the rest becomes zeros.
 */
static __device__ inline void copy_rows(element *to, int pitch, const element *from, int64_t ld, int count,
                                        int length, int count_inside, int length_inside)
{
    int across = length / PIECE;
    int row = (int)threadIdx.x / across;
    int at = (int)threadIdx.x % across * PIECE;
    int bytes = piece_bytes(length_inside - at);
#pragma unroll
    for (int step = 0; step < count; step += THREADS_X / across) {
        copy_async_16(to + (row + step) * pitch + at, from + at + (row + step) * ld,
                      row + step < count_inside ? bytes : 0);
    }
}

/* Starts the copies of the next tiles, and goes on to those after. */
static __device__ inline void copy_tiles(stage *to, source *from)
{
    if (from->depth > 0) {
        int inside = tile_depth(from);
        copy_rows(to->a[0], TILE_M + PAD, from->a, from->lda, TILE_K, TILE_M, inside, from->rows);
        copy_rows(to->b[0], TILE_K + PAD, from->b, from->ldb, TILE_N, TILE_K, from->columns, inside);
    }
    next_tiles(from);
}

/* Adds the products of a stage; m and n begin the warp's part of the block's tile. */
static __device__ inline void multiply(float sum[ROWS][COLUMNS][4], const stage *from, int m, int n)
{
    /* Matrices 0 and 1 of an ldmatrix are below each other, 2 and 3 to the right of them. */
    int lane_row = (int)threadIdx.x % 16;
    int lane_column = (int)threadIdx.x % 32 / 16 * 8;
#pragma unroll
    for (int k = 0; k < TILE_K; k += MMA_K) {
        uint32_t left[ROWS][4];
        uint32_t right[COLUMNS / 2][4]; /* of two instructions */
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
            ldmatrix_x4(left[row], &from->b[n + row * MMA_ROWS + lane_row][k + lane_column]);
        }
#pragma unroll
        for (int column = 0; column < COLUMNS / 2; ++column) {
            ldmatrix_x4_trans(right[column], &from->a[k + lane_row][m + column * 16 + lane_column]);
        }
#pragma unroll
        for (int row = 0; row < ROWS; ++row) {
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
                mma_16x8x16(sum[row][column], left[row], &right[column / 2][column % 2 * 2]);
            }
        }
    }
}

/* The warp's sums to D, its part of which begins at row m and column n. */
static __device__ inline void store_sums(const gemm_arguments *arguments, int64_t m, int64_t n,
                                         float sum[ROWS][COLUMNS][4])
{
    destination to = destination_of(arguments);
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
        int64_t j = n + row * MMA_ROWS + group;
        store_column(&to, m + 2 * member, j, &sum[row][0][0], COLUMNS);
        store_column(&to, m + 2 * member, j + 8, &sum[row][0][2], COLUMNS);
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);

    block_share share = share_of_block(&arguments, 8);
    int warp = (int)threadIdx.x / 32;
    int m = warp % WARPS_M * WARP_M;
    int n = warp / WARPS_M * WARP_N;
    int64_t depth = scalar_value(arguments.alpha) == 0 ? 0 : arguments.k;
    source next = source_of_block(&arguments, share, depth);

    float sum[ROWS][COLUMNS][4] = {{{0}}};
    for (int s = 0; s < STAGES - 1; ++s) {
        copy_tiles(&stages[s], &next);
    }
    int reading = 0;
    for (int64_t k = 0; k < depth; k += TILE_K) {
        /*
         * Everybody's copies of this tile are there; and everybody has left the one before, whose place is
         * next.
         */
        copy_async_wait(STAGES - 2);
        __syncthreads();
        copy_tiles(&stages[reading == 0 ? STAGES - 1 : reading - 1], &next);
        multiply(sum, &stages[reading], m, n);
        reading = reading + 1 == STAGES ? 0 : reading + 1;
    }
    store_sums(&arguments, share.row + m, share.column + n, sum);
}
