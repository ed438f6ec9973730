/*
 * lines.cu - 16-bit products of few columns of op(B), or few rows of op(A) where the row has SWAPPED=1. The other operand is
 * long, lies across k, begins anywhere, and is read VECTOR elements a lane.
 *
 * A vector can be read where its address is a multiple of its size, and lines of memory, one for each k, begin anywhere. But
 * lines that are VECTOR apart begin alike, whatever the leading dimension is; so each warp takes every WARPS-th k, and in all
 * of them its vectors lie over the same rows:
 *
 *            row  -1   0   1   2   3   4   5   6   7   8  ..        VECTOR 4; the tile has 31 vectors of rows,
 *     k    0         |    lane 0     |    lane 1     | ..  warp 0   which lie in 32 wherever it begins
 *          1     |    lane 0     |    lane 1     | ..      warp 1
 *
 * What a lane reads beyond the tile are its neighbour's rows, and beyond the operand's the end of the line before or the
 * beginning of the next: their sums are left out. But nothing is before the first line and behind the last: of those what
 * lies inside is read singly, in its turn, so that the order of a sum is the same wherever rows begin.
 *
 * The warps' sums meet in shared memory, in a fixed order. The thin operand comes from the first-level cache, one element for
 * all lanes.
 *
 * Needs: nothing; any shape and alignment. What limits it is memory.
 */
#include "kernel.h"

#include "epilogue.h"
#include "store_sum.h"
#include "thin_operand.h"
#include "thin_tile.h"
#include "tiles.h"

#define VECTOR (TILE_LONG / 31)

enum {
    WARPS = THREADS_X / 32,
    AHEAD = STAGES, /* lines of a warp on the way */
    /* Sums of a warp in shared memory, one word more for every 32, so that vectors of a warp begin in different banks. */
    PITCH = TILE_LONG + TILE_LONG / 32 + 1
};

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16, "two elements are a word");
static_assert(!LONG_ALONG_K, "lanes lie along the rows");
static_assert(WARP_LONG == TILE_LONG && WARP_THIN == TILE_THIN, "each warp has all of the tile");
static_assert(VECTOR * 31 == TILE_LONG, "whole vectors, and one more wherever the tile begins");
static_assert(WARPS % VECTOR == 0, "all lines of a warp begin alike");
static_assert(TILE_K == AHEAD * WARPS, "a tile is what the warps have on the way");
static_assert(THREADS_X >= TILE_LONG, "each row has a thread that stores it");

/* ---- Vectors -------------------------------------------------------------------------------- */

#if VECTOR == 8
typedef uint4 vector;
#elif VECTOR == 4
typedef uint2 vector;
#elif VECTOR == 2
typedef uint32_t vector;
#else
#error "there is no load of so many elements"
#endif

typedef struct words {
    uint32_t of[VECTOR / 2];
} words;

static __device__ __forceinline__ words load_whole(const element *from)
{
    vector some = __ldg((const vector *)from);
    words to;
#if VECTOR == 2
    to.of[0] = some;
#else
    to.of[0] = some.x;
    to.of[1] = some.y;
#endif
#if VECTOR == 8
    to.of[2] = some.z;
    to.of[3] = some.w;
#endif
    return to;
}

/* Elements begin .. end - 1 of it alone, and zeros. */
static __device__ __forceinline__ words load_singly(const element *from, int begin, int end)
{
    words to = {{0}};
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
        if (e >= begin && e < end) {
            put(to.of, e, __ldg(from + e));
        }
    }
    return to;
}

/* ---- Sums ----------------------------------------------------------------------------------- */

typedef float sums[TILE_THIN][VECTOR];

/* Adds the products of a line with its elements of the thin operand. */
static __device__ __forceinline__ void add_line(sums sum, const words *x, const element y[TILE_THIN])
{
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
#pragma unroll
        for (int e = 0; e < VECTOR; ++e) {
            sum[c][e] = fmaf(widen((element)(x->of[e / 2] >> e % 2 * 16)), widen(y[c]), sum[c][e]);
        }
    }
}

/* What a lane reads of its warp's lines. */
typedef struct lane_lines {
    const element *wide;            /* the vector in the first of them, */
    const element *thin[TILE_THIN]; /* and the thin operand's elements beside it */
    int64_t wide_step;              /* elements from line to line of the warp */
    int64_t thin_step;
    int begin; /* the vector's elements begin .. end - 1 lie in the operand */
    int end;
} lane_lines;

/* The warp's lines first .. last - 1, of which nothing is read that does not belong to the operand. */
static __device__ __forceinline__ void add_edges(sums sum, const lane_lines *at, int64_t first, int64_t last)
{
#pragma unroll 1
    for (int64_t line = first; line < last; ++line) {
        words x = load_singly(at->wide + line * at->wide_step, at->begin, at->end);
        element y[TILE_THIN];
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            y[c] = __ldg(at->thin[c] + line * at->thin_step);
        }
        add_line(sum, &x, y);
    }
}

/* The same by whole vectors. */
static __device__ __forceinline__ void add_whole(sums sum, const lane_lines *at, int64_t first, int64_t last)
{
    const element *wide = at->wide + first * at->wide_step;
    const element *thin[TILE_THIN];
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        thin[c] = at->thin[c] + first * at->thin_step;
    }
#pragma unroll 1
    for (int64_t left = last - first; left > 0; left -= AHEAD) {
        words x[AHEAD];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            words none = {{0}};
            x[u] = u < left ? load_whole(wide + u * at->wide_step) : none;
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            element y[TILE_THIN];
#pragma unroll
            for (int c = 0; c < TILE_THIN; ++c) {
                y[c] = u < left ? __ldg(thin[c] + u * at->thin_step) : (element)0;
            }
            add_line(sum, &x[u], y);
        }
        wide += AHEAD * at->wide_step;
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            thin[c] += AHEAD * at->thin_step;
        }
    }
}

/*
 * Adds the products of the lane's vector, which begins with row `first` of the tile, in the warp's lines of `length` k. The
 * operand's tile begins at row `row`, and its thin columns at `column`.
 */
static __device__ __forceinline__ void add_products(sums sum, const operand *wide, const operand *thin,
                                                    int64_t row, int64_t column, int first, int64_t length)
{
    int warp = (int)threadIdx.x / 32;
    int64_t rows = wide->count - row - first; /* from the vector's first element on */
    if (rows <= 0 || warp >= length) {
        return;
    }
    int64_t lines = (length - warp + WARPS - 1) / WARPS;
    lane_lines at;
    at.wide = wide->from + row + first + warp * wide->ld;
    at.wide_step = WARPS * wide->ld;
    at.thin_step = THIN_ALONG_K ? WARPS : WARPS * thin->ld;
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        at.thin[c] = place_of(thin, column + c, warp, THIN_ALONG_K);
    }
    at.begin = row + first < 0 ? -first : 0;
    at.end = rows < VECTOR ? (int)rows : VECTOR;
    /*
     * Before the first line of all is nothing that a vector could begin with, and nothing behind the last one. Where lines
     * are nearer than a vector is long, that holds for more of them, and all are read singly.
     */
    int64_t edges_before = at.begin > 0 && warp == 0;
    edges_before = wide->ld < VECTOR ? lines : edges_before;
    int64_t edges_behind = at.end < VECTOR && warp == (length - 1) % WARPS && lines > edges_before;
    add_edges(sum, &at, 0, edges_before);
    add_whole(sum, &at, edges_before, lines - edges_behind);
    add_edges(sum, &at, lines - edges_behind, lines);
}

/* ---- From the warps' sums to D -------------------------------------------------------------- */

/* Where a row of the tile stands in a warp's sums. */
static __device__ inline int slot_of(int row) { return row + row / 32; }

/* Leaves the lane's sums of one column. */
static __device__ __forceinline__ void leave(float slots[PITCH], const float sum[VECTOR], int first)
{
#pragma unroll
    for (int e = 0; e < VECTOR; ++e) {
        int r = first + e;
        if (r >= 0 && r < TILE_LONG) {
            slots[slot_of(r)] = sum[e];
        }
    }
}

/* One row's sums of all warps. */
static __device__ __forceinline__ float total_of(float slots[WARPS][PITCH], int row)
{
    float total = slots[0][slot_of(row)];
#pragma unroll
    for (int w = 1; w < WARPS; ++w) {
        total += slots[w][slot_of(row)];
    }
    return total;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float slots[WARPS][PITCH];
    block_share share = share_of_thin_block(&arguments);
    operand a = operand_a(&arguments, &share);
    operand b = operand_b(&arguments, &share);
    int64_t row = SWAPPED ? share.column : share.row;
    int64_t column = SWAPPED ? share.row : share.column;
    const operand *wide = SWAPPED ? &b : &a;
    const operand *thin = SWAPPED ? &a : &b;
    int warp = (int)threadIdx.x / 32;
    uintptr_t line = (uintptr_t)(wide->from + row + warp * wide->ld);
    int first = (int)threadIdx.x % 32 * VECTOR - (int)(line / sizeof(element) % VECTOR);
    wait_for_kernels_before();
    let_next_kernel_begin();

    sums sum = {{0}};
    if (!alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        add_products(sum, wide, thin, row, column, first, share.k_end - share.k_begin);
    }
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        if (c > 0) {
            __syncthreads();
        }
        leave(slots[warp], sum[c], first);
        __syncthreads();
        int r = (int)threadIdx.x;
        if (r < TILE_LONG && row + r < wide->count && column + c < thin->count) {
            float total = total_of(slots, r);
            store_sum(&arguments, &share, SWAPPED ? column + c : row + r, SWAPPED ? row + r : column + c,
                      total);
        }
    }
}
