/*
 * pairs.cu - 16-bit products of one column of op(B), or one row of op(A) where the row has SWAPPED=1. The other operand is
 * long, lies across k, begins anywhere, and is read two elements a lane.
 *
 * A word of 4 bytes can be read where its address is even in elements. Lines of an odd leading dimension begin at an odd
 * element every second time; so each warp takes every WARPS-th k, and since WARPS is even all lines of a warp begin alike:
 *
 *            row   0   1   2   3   4   5      62  63 | next tile
 *     k    0     | lane 0| lane 1| lane 2| .. |lane 31|          warp 0, whose lines begin at an even element
 *          1     |one| lane 0| lane 1| ..         |lane 31|      warp 1, at an odd one: row 0 is left out
 *          2     | lane 0| ..                                    warp 2
 *
 * The row left out, and the last one of the operand where its pair would end outside, are read as single elements by half a
 * warp each: lane u of it takes step u's, so that AHEAD of them are one load. So no byte is read that does not belong to the
 * operand.
 *
 * Whether a row is summed singly or in a pair, and so its last bit, goes by where it begins. The warps' sums meet in shared
 * memory, in a fixed order. The thin operand comes from the first-level cache, one element for all lanes that read pairs.
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
    AHEAD = STAGES, /* steps of a warp on the way */
    HALF_WARP = 16
};

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16, "two elements are a word");
static_assert(!LONG_ALONG_K, "lanes lie along the rows");
static_assert(WARP_LONG == TILE_LONG && WARP_THIN == 1 && TILE_THIN == 1, "each warp has all of the tile");
static_assert(TILE_LONG == 64, "a warp's words are a line of the tile");
static_assert(THREADS_X >= TILE_LONG, "each row has a thread that stores it");
static_assert(WARPS % 2 == 0, "all lines of a warp begin alike");
static_assert(AHEAD == HALF_WARP, "each lane of a half has one step of the row that it reads singly");
static_assert(TILE_K == AHEAD * WARPS, "a tile is what the warps have on the way");

/* What a lane reads of the tile in each line of its warp: rows `first` and first + 1 as a word, and perhaps one row singly. */
typedef struct share_of_lane {
    int first;
    int has_pair;
    int single; /* the row, -1: none */
} share_of_lane;

/* In lines whose first element in the tile is at `line`, where `rows` rows of the operand are left. */
static __device__ __forceinline__ share_of_lane share_of(const element *line, int64_t rows)
{
    int lane = (int)threadIdx.x % 32;
    int odd = (int)((uintptr_t)line / sizeof(element) % 2);
    share_of_lane share;
    share.first = odd + 2 * lane;
    share.has_pair = share.first + 1 < rows;
    /* The last row stands alone if its pair would begin with it. */
    int last = rows <= TILE_LONG && (rows - 1 - odd) % 2 == 0 ? (int)rows - 1 : -1;
    share.single = lane < HALF_WARP ? (odd ? 0 : -1) : last;
    return share;
}

/* The lane's sums of rows first, first + 1 and `single`. */
typedef struct lane_sums {
    float low;
    float high;
    float single;
} lane_sums;

/* Adds the products of the warp's part of `length` k: the long operand from element `line` of the warp's first one on. */
static __device__ __forceinline__ void add_products(lane_sums *sum, share_of_lane share, const element *line,
                                                    int64_t wide_ld, const operand *thin, int64_t column,
                                                    int64_t length)
{
    int warp = (int)threadIdx.x / 32;
    int step_of_single = (int)threadIdx.x % HALF_WARP;
    const int64_t wide_step = WARPS * wide_ld; /* elements from one step to the next */
    const int64_t thin_step = THIN_ALONG_K ? WARPS : WARPS * thin->ld;
    const element *word = line + share.first;
    const element *single = line + share.single + step_of_single * wide_step;
    const element *thin_at = place_of(thin, column, warp, THIN_ALONG_K);
#pragma unroll 1
    for (int64_t left = length - warp; left > 0; left -= TILE_K) {
        uint32_t x[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            x[u] = share.has_pair && u * WARPS < left ? __ldg((const uint32_t *)(word + u * wide_step)) : 0;
        }
        if (share.single >= 0 && step_of_single * WARPS < left) {
            float y = widen(__ldg(thin_at + step_of_single * thin_step));
            sum->single = fmaf(widen(__ldg(single)), y, sum->single);
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            float y = u * WARPS < left ? widen(__ldg(thin_at + u * thin_step)) : 0;
            sum->low = fmaf(widen((element)(x[u] & 0xffff)), y, sum->low);
            sum->high = fmaf(widen((element)(x[u] >> 16)), y, sum->high);
        }
        word += AHEAD * wide_step;
        single += AHEAD * wide_step;
        thin_at += AHEAD * thin_step;
    }
}

/* Puts the lane's sums into the warp's slots, one a row. */
static __device__ __forceinline__ void put_sums(float slots[TILE_LONG], const lane_sums *sum,
                                                share_of_lane share)
{
    if (share.has_pair) {
        slots[share.first] = sum->low;
        if (share.first + 1 < TILE_LONG) {
            slots[share.first + 1] = sum->high;
        }
    }
    float single = sum->single;
#pragma unroll
    for (int bit = HALF_WARP / 2; bit > 0; bit /= 2) {
        single += __uint_as_float(__shfl_xor_sync(0xffffffffu, __float_as_uint(single), bit));
    }
    if (share.single >= 0 && threadIdx.x % HALF_WARP == 0) {
        slots[share.single] = single;
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float slots[WARPS][TILE_LONG];
    block_share share = share_of_thin_block(&arguments);
    operand a = operand_a(&arguments, &share);
    operand b = operand_b(&arguments, &share);
    int64_t row = SWAPPED ? share.column : share.row;
    int64_t column = SWAPPED ? share.row : share.column;
    const operand *wide = SWAPPED ? &b : &a;
    const operand *thin = SWAPPED ? &a : &b;
    int warp = (int)threadIdx.x / 32;
    const element *line = wide->from + row + warp * wide->ld;
    share_of_lane of_lane = share_of(line, wide->count - row);
    wait_for_kernels_before();
    let_next_kernel_begin();

    lane_sums sum = {0, 0, 0};
    if (!alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        add_products(&sum, of_lane, line, wide->ld, thin, column, share.k_end - share.k_begin);
    }
    put_sums(slots[warp], &sum, of_lane);
    __syncthreads();
    int r = (int)threadIdx.x;
    if (r < TILE_LONG && row + r < wide->count) {
        float total = slots[0][r];
#pragma unroll
        for (int w = 1; w < WARPS; ++w) {
            total += slots[w][r];
        }
        store_sum(&arguments, &share, SWAPPED ? column : row + r, SWAPPED ? row + r : column, total);
    }
}
