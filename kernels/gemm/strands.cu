/*
 * strands.cu - products of which one operand is thin: up to TILE_THIN columns of op(B), or rows of op(A) where the row has
 * SWAPPED=1. The other operand is long, begins anywhere, and is read once, one element a lane.
 *
 * A warp's load is then one line of 128 bytes (of 16-bit types half of one), or the two that it lies in, wherever rows begin:
 * nothing is fetched twice, put together or left to the ends. Of f32 wider loads would be fewer, and gain nothing: memory gives a
 * multiprocessor a line in seven cycles. What counts is that enough of them are on the way, which is AHEAD * ROWS of every lane.
 *
 *     memory runs along k                          across k
 *
 *     ROWS rows a block; lanes lie along k,        32 * ROWS rows a block; lanes lie along the rows,
 *     and their sums meet by shuffles              and have their sums alone
 *
 *              k   warp 0      warp 1                       row   lane 0 1 2 3 ..  31
 *     row 0    |0 1 2 .. 31|0 1 2 .. 31|  ..          k    0   |  warp 0              |
 *     row 1    |0 1 2 .. 31|0 1 2 .. 31|  ..               1   |  warp 0              |
 *                                                          8   |  warp 1              |
 *
 * The warps share k, AHEAD steps of each at a time. Their sums meet in shared memory, in a fixed order. The thin operand comes from
 * the first-level cache: lane by lane along k, one element for all lanes across it.
 *
 * Needs: nothing; any shape and alignment. What limits it is memory.
 */
#include "kernel.h"

#include "epilogue.h"
#include "store_sum.h"
#include "thin_operand.h"
#include "thin_tile.h"
#include "tiles.h"

enum {
    WARPS = THREADS_X / 32,
    LANES_K = LONG_ALONG_K ? 32 : 1, /* k of a step */
    AHEAD = STAGES,
    ROWS = LONG_ALONG_K ? TILE_LONG : TILE_LONG / 32, /* of a lane */
    SUMS = ROWS * TILE_THIN
};

#if LONG_ALONG_K
#include "lane_sums.h"
#endif

static_assert(ELEMENT == ELEMENT_F32 || ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16, "sums are f32");
static_assert(WARP_LONG == TILE_LONG && WARP_THIN == TILE_THIN, "each warp has all of the tile");
static_assert(TILE_K == LANES_K * AHEAD * WARPS, "a tile is what the warps have on the way");
static_assert(!LONG_ALONG_K || (SUMS <= 32 && (SUMS & (SUMS - 1)) == 0), "lanes halve their sums");
static_assert(LONG_ALONG_K || ROWS * 32 == TILE_LONG, "lanes lie along the rows");

/* Adds the lane's products of `length` k to its sums, number row * TILE_THIN + column. */
static __device__ __forceinline__ void add_products(float *sum, const operand *wide, const operand *thin,
                                                    int64_t row, int64_t column, int64_t length)
{
    int lane = (int)threadIdx.x % 32;
    int64_t k = (int)threadIdx.x / 32 * (LANES_K * AHEAD) + (LONG_ALONG_K ? lane : 0);
    const int64_t wide_step = LONG_ALONG_K ? LANES_K : wide->ld; /* elements from one step to the next */
    const int64_t thin_step = THIN_ALONG_K ? LANES_K : LANES_K * thin->ld;
    const element *rows[ROWS];
    const element *columns[TILE_THIN];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        rows[r] = place_of(wide, row + (LONG_ALONG_K ? r : 32 * r + lane), k, LONG_ALONG_K);
    }
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        columns[c] = place_of(thin, column + c, k, THIN_ALONG_K);
    }
#pragma unroll 1
    for (int64_t left = length - k; left > 0; left -= TILE_K) {
        element x[AHEAD][ROWS];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                x[u][r] = u * LANES_K < left ? __ldg(rows[r] + u * wide_step) : 0;
            }
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
#pragma unroll
            for (int c = 0; c < TILE_THIN; ++c) {
                float y = u * LANES_K < left ? widen(__ldg(columns[c] + u * thin_step)) : 0;
#pragma unroll
                for (int r = 0; r < ROWS; ++r) {
                    sum[r * TILE_THIN + c] = fmaf(widen(x[u][r]), y, sum[r * TILE_THIN + c]);
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            rows[r] += WARPS * AHEAD * wide_step;
        }
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            columns[c] += WARPS * AHEAD * thin_step;
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float slots[WARPS][TILE_THIN][TILE_LONG];
    block_share share = share_of_thin_block(&arguments);
    operand a = operand_a(&arguments, &share);
    operand b = operand_b(&arguments, &share);
    int64_t row = SWAPPED ? share.column : share.row;
    int64_t column = SWAPPED ? share.row : share.column;
    const operand *wide = SWAPPED ? &b : &a;
    const operand *thin = SWAPPED ? &a : &b;
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    wait_for_kernels_before();
    let_next_kernel_begin();

    float sum[SUMS] = {0};
    if (!alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        add_products(sum, wide, thin, row, column, share.k_end - share.k_begin);
    }
#if LONG_ALONG_K
    float all = add_lanes(sum);
    int number = lane / (32 / SUMS);
    if (lane % (32 / SUMS) == 0) {
        slots[warp][number % TILE_THIN][number / TILE_THIN] = all;
    }
#else
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            slots[warp][c][32 * r + lane] = sum[r * TILE_THIN + c];
        }
    }
#endif
    __syncthreads();
#pragma unroll 1
    for (int e = (int)threadIdx.x; e < TILE_LONG * TILE_THIN; e += THREADS_X) {
        /* Neighbouring threads store neighbours in D. */
        int r = SWAPPED ? e / TILE_THIN : e % TILE_LONG;
        int c = SWAPPED ? e % TILE_THIN : e / TILE_LONG;
        if (row + r < wide->count && column + c < thin->count) {
            float total = slots[0][c][r];
#pragma unroll
            for (int w = 1; w < WARPS; ++w) {
                total += slots[w][c][r];
            }
            store_sum(&arguments, &share, SWAPPED ? column + c : row + r, SWAPPED ? row + r : column + c,
                      total);
        }
    }
}
