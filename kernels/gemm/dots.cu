/*
 * dots.cu - products of one to four columns of op(B), or rows of op(A) where the row has SWAPPED=1, that are small:
 * what takes time is not the reading but how often one waits, for memory, for a barrier, for a lane. So all that
 * a block reads is on the way at once, and there is one barrier.
 *
 *             thin                     A block owns TILE_LONG rows by TILE_THIN columns of D.
 *            +----+
 *          k |    |                    Memory runs along k: a warp has ROWS rows and a piece of each for every lane,
 *     k      |    |                    16 bytes of k; WARPS_K warps share k, STAGES chunks of a warp are on the way.
 *   +------+ +----+
 *   |      | |    |                        lane 0    lane 1            lane 31
 *   | long | | D  |                  row |  piece  |  piece  |  ..   |  piece  |  next warp  |  ..
 *   +------+ +----+
 *                                      Across k: lanes lie along the rows, and the threads share k one by one.
 *
 * A piece may begin anywhere: it is picked out of the two aligned packs of 16 bytes that it lies in, as pack.cu
 * does. Where one of them reaches out of the operand, at its two ends, the piece is read element by element. So no byte
 * is read that does not belong to the operand, and no shape or alignment is slow.
 *
 * The lanes' sums meet by shuffles: with ROWS * TILE_THIN sums in each of 32 lanes half of the lanes take half of the
 * sums, and so on, until each has one. The warps' sums are then added through shared memory, in a fixed order.
 *
 * Needs: nothing; any shape, alignment and layout. Sums by fused multiply-adds in f32, 8-bit integers by dot products
 * of four.
 */
#include "kernel.h"

#include "epilogue.h"
#include "first_pass.h"
#include "shift_words.h"
#include "store_sum.h"
#include "thin_tile.h"
#include "tiles.h"

enum {
    SIZE = sizeof(element),
    WORDS = 4, /* of 4 bytes in a piece */
    PIECE = 4 * WORDS / SIZE,
    CHUNK = 32 * PIECE, /* k of a warp's pieces */
    ROWS = WARP_LONG,
    SUMS = ROWS * TILE_THIN, /* of a lane */
    WARPS = THREADS_X / 32,
    WARPS_LONG = TILE_LONG / WARP_LONG,
    WARPS_K = WARPS / WARPS_LONG,
    /* Across k: threads that have one row, and the k that each has on the way. */
    SHARERS = THREADS_X / TILE_LONG,
    AHEAD = 8
};

#include "lane_sums.h"

static_assert(WARPS_LONG * WARP_LONG == TILE_LONG && WARP_THIN == TILE_THIN, "warps tile the block");
static_assert(WARPS_K * WARPS_LONG * 32 == THREADS_X && WARPS_K >= 1, "and share its k");
static_assert(TILE_K == CHUNK * STAGES * WARPS_K, "a tile is what the warps have on the way");
static_assert((SUMS & (SUMS - 1)) == 0 && SUMS <= 32, "lanes halve their sums until each has one");
static_assert((TILE_LONG & (TILE_LONG - 1)) == 0 && TILE_LONG <= 32,
              "a warp has all rows of the tile, across k");
static_assert(TILE_LONG * TILE_THIN <= THREADS_X, "each element of the tile has a thread that stores it");

/* ---- Operands ------------------------------------------------------------------------------- */

/* One operand of one problem, `count` rows of the long one or columns of the thin one; steps are in bytes. */
typedef struct operand {
    const char *begin;
    const char *end;
    const char *from; /* the part's first k of row 0 */
    int64_t step;     /* from row to row */
    int64_t step_k;
    int64_t count;
} operand;

static __device__ inline operand operand_of(const gemm_arguments *arguments, const block_share *share,
                                            const void *base, int64_t stride, int64_t ld, int64_t count,
                                            int along_k)
{
    operand operand;
    operand.begin = (const char *)base + share->problem * stride * SIZE;
    operand.step = (along_k ? ld : 1) * SIZE;
    operand.step_k = (along_k ? 1 : ld) * SIZE;
    operand.count = count;
    operand.end = operand.begin + (count - 1) * operand.step + (arguments->k - 1) * operand.step_k + SIZE;
    operand.from = operand.begin + share->k_begin * operand.step_k;
    return operand;
}

static __device__ inline operand operand_a(const gemm_arguments *arguments, const block_share *share)
{
    return operand_of(arguments, share, arguments->a, arguments->stride_a, arguments->lda, arguments->m,
                      arguments->trans_a != 0);
}

static __device__ inline operand operand_b(const gemm_arguments *arguments, const block_share *share)
{
    return operand_of(arguments, share, arguments->b, arguments->stride_b, arguments->ldb, arguments->n,
                      !arguments->trans_b);
}

/* A column without gaps is along k too, whichever way it was meant. */
static __device__ inline int is_along_k(const operand *operand) { return operand->step_k == SIZE; }

/* Where row number `row` begins; beyond the edge it is the last one inside. */
static __device__ inline const char *place_of(const operand *operand, int64_t row)
{
    return operand->from + (row < operand->count ? row : operand->count - 1) * operand->step;
}

/* ---- Pieces --------------------------------------------------------------------------------- */

/* 16 bytes of a row. */
typedef struct piece {
    uint32_t x[WORDS];
} piece;

/* The same on their way: the aligned packs that they lie in. */
typedef struct packs {
    uint4 low;
    uint4 high;
} packs;

static __device__ __forceinline__ int offset_of(const char *from) { return (int)((uintptr_t)from % 16); }

/* Whether a piece of which `valid` bytes count lies in packs that belong to the operand. */
static __device__ __forceinline__ int packs_lie_inside(const operand *operand, const char *from,
                                                       int64_t valid)
{
    int off = offset_of(from);
    const char *low = from - off;
    return low >= operand->begin && low + (off + valid > 16 && off > 0 ? 32 : 16) <= operand->end;
}

/* Begins to read a piece, unless it has to be read singly. */
static __device__ __forceinline__ packs read_packs(const operand *operand, const char *from, int64_t valid)
{
    int off = offset_of(from);
    packs packs;
    packs.low = make_uint4(0, 0, 0, 0);
    packs.high = packs.low;
    if (valid > 0 && packs_lie_inside(operand, from, valid)) {
        packs.low = __ldg((const uint4 *)(from - off));
        if (off > 0 && off + valid > 16) {
            packs.high = __ldg((const uint4 *)(from - off + 16));
        }
    }
    return packs;
}

/* A piece element by element, which stand `step` bytes apart; zeros from number `valid` (in bytes) on. */
static __device__ __forceinline__ piece read_singly(const char *from, int64_t step, int64_t valid)
{
    element elements[PIECE];
    piece piece;
#pragma unroll
    for (int e = 0; e < PIECE; ++e) {
        elements[e] = 0;
        if (e * SIZE < valid) {
            elements[e] = __ldg((const element *)(from + e * step));
        }
    }
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
        piece.x[w] = 0;
    }
#pragma unroll
    for (int e = 0; e < PIECE; ++e) {
        put(piece.x, e, elements[e]);
    }
    return piece;
}

/* The piece out of its packs, zero from byte number `valid` on. */
static __device__ __forceinline__ piece join_packs(const operand *operand, const packs *packs,
                                                   const char *from, int64_t valid)
{
    if (valid > 0 && !packs_lie_inside(operand, from, valid)) {
        return read_singly(from, SIZE, valid);
    }
    uint32_t words[2 * WORDS] = {packs->low.x,  packs->low.y,  packs->low.z,  packs->low.w,
                                 packs->high.x, packs->high.y, packs->high.z, packs->high.w};
    piece piece;
    shift_words(piece.x, words, offset_of(from), SIZE);
    if (valid < 16) {
#pragma unroll
        for (int w = 0; w < WORDS; ++w) {
            int bytes = (int)valid - 4 * w;
            piece.x[w] &= bytes >= 4 ? 0xffffffffu : bytes <= 0 ? 0 : (1u << 8 * bytes) - 1;
        }
    }
    return piece;
}

/* ---- Sums along k --------------------------------------------------------------------------- */

#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16

/* The two elements of a word. */
static __device__ __forceinline__ float lower(uint32_t word)
{
#if ELEMENT == ELEMENT_F16
    return f32_from_f16((uint16_t)word);
#else
    return __uint_as_float(word << 16);
#endif
}

static __device__ __forceinline__ float upper(uint32_t word)
{
#if ELEMENT == ELEMENT_F16
    return f32_from_f16((uint16_t)(word >> 16));
#else
    return __uint_as_float(word & 0xffff0000u);
#endif
}

#endif

/* Adds the products of a word of the one operand and a word of the other. */
static __device__ __forceinline__ accumulator add_word(accumulator sum, uint32_t x, uint32_t y)
{
#if ELEMENT == ELEMENT_F32
    return fmaf(__uint_as_float(x), __uint_as_float(y), sum);
#elif ELEMENT == ELEMENT_S8
    return dot4_s8(x, y, sum);
#else
    return fmaf(upper(x), upper(y), fmaf(lower(x), lower(y), sum));
#endif
}

/*
 * The sums of the lane's pieces of `length` k, number row * TILE_THIN + column; thin_along is a constant: whether the
 * thin operand is along k.
 */
static __device__ __forceinline__ void sum_along_k(accumulator *sum, const operand *wide, const operand *thin,
                                                   int64_t row, int64_t column, int64_t length,
                                                   int thin_along)
{
    int warp = (int)threadIdx.x / 32;
    int64_t k = warp / WARPS_LONG * (CHUNK * STAGES) + (int)threadIdx.x % 32 * PIECE;
    const char *rows[ROWS];
    const char *columns[TILE_THIN];
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        rows[r] = place_of(wide, row + warp % WARPS_LONG * ROWS + r) + k * SIZE;
    }
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        columns[c] = place_of(thin, column + c) + k * thin->step_k;
    }
    int64_t left = (length - k) * SIZE; /* bytes of rows from the lane's first on */
#pragma unroll 1
    do {
        packs long_packs[STAGES][ROWS];
        packs thin_packs[STAGES][TILE_THIN];
        piece thin_pieces[STAGES][TILE_THIN];
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            int64_t valid = left - s * CHUNK * SIZE;
#pragma unroll
            for (int c = 0; c < TILE_THIN; ++c) {
                if (thin_along) {
                    thin_packs[s][c] = read_packs(thin, columns[c] + s * CHUNK * SIZE, valid);
                } else {
                    thin_pieces[s][c] =
                        read_singly(columns[c] + s * CHUNK * thin->step_k, thin->step_k, valid);
                }
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                long_packs[s][r] = read_packs(wide, rows[r] + s * CHUNK * SIZE, valid);
            }
        }
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            int64_t valid = left - s * CHUNK * SIZE;
#pragma unroll
            for (int c = 0; c < TILE_THIN && thin_along; ++c) {
                thin_pieces[s][c] = join_packs(thin, &thin_packs[s][c], columns[c] + s * CHUNK * SIZE, valid);
            }
#pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                piece piece = join_packs(wide, &long_packs[s][r], rows[r] + s * CHUNK * SIZE, valid);
#pragma unroll
                for (int c = 0; c < TILE_THIN; ++c) {
#pragma unroll
                    for (int w = 0; w < WORDS; ++w) {
                        sum[r * TILE_THIN + c] =
                            add_word(sum[r * TILE_THIN + c], piece.x[w], thin_pieces[s][c].x[w]);
                    }
                }
            }
        }
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            rows[r] += TILE_K * SIZE;
        }
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            columns[c] += TILE_K * thin->step_k;
        }
        left -= TILE_K * SIZE;
    } while (left > 0);
}

/* ---- Sums across k -------------------------------------------------------------------------- */

/* The sums of the thread's row and of the k that it has. */
static __device__ __forceinline__ void sum_across_k(accumulator *sum, const operand *wide,
                                                    const operand *thin, int64_t row, int64_t column,
                                                    int64_t length)
{
    int64_t k = (int)threadIdx.x / TILE_LONG;
    const char *at = place_of(wide, row + (int)threadIdx.x % TILE_LONG) + k * wide->step_k;
    const char *columns[TILE_THIN];
#pragma unroll
    for (int c = 0; c < TILE_THIN; ++c) {
        columns[c] = place_of(thin, column + c) + k * thin->step_k;
    }
#pragma unroll 1
    do {
        element x[AHEAD];
        element y[AHEAD][TILE_THIN];
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
            int inside = k + u * SHARERS < length;
            x[u] = inside ? __ldg((const element *)(at + u * SHARERS * wide->step_k)) : 0;
#pragma unroll
            for (int c = 0; c < TILE_THIN; ++c) {
                y[u][c] = inside ? __ldg((const element *)(columns[c] + u * SHARERS * thin->step_k)) : 0;
            }
        }
#pragma unroll
        for (int u = 0; u < AHEAD; ++u) {
#pragma unroll
            for (int c = 0; c < TILE_THIN; ++c) {
                sum[c] = multiply_add(widen(x[u]), widen(y[u][c]), sum[c]);
            }
        }
        at += AHEAD * SHARERS * wide->step_k;
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            columns[c] += AHEAD * SHARERS * thin->step_k;
        }
        k += AHEAD * SHARERS;
    } while (k < length);
    /* The lanes of a warp that have the same row. */
#pragma unroll
    for (int bit = 16; bit >= TILE_LONG; bit /= 2) {
#pragma unroll
        for (int c = 0; c < TILE_THIN; ++c) {
            sum[c] += exchange(sum[c], bit);
        }
    }
}

/* ---- Asking ahead --------------------------------------------------------------------------- */

/*
 * Who reads across k in many trips waits for memory in each of them, and for device memory where the second-level cache
 * has other things: f16 NN 26 x 33 x 2679 5.4 us from the cache, and 7.9. So all blocks together ask for all of a small operand at
 * once, each for its share of `columns` columns of `rows` elements, as they lie in memory: 6.1. (Where a row has two or three
 * trips along k it costs more than it gains.) One thread of a block calls it for A and one for B, once it may read them.
 */
static __device__ inline void ask_for_share(const void *matrix, int64_t rows, int64_t columns, int64_t ld)
{
    const uint32_t line = 128;
    const int64_t most = 8192; /* bytes a block: of more than that a trip is no longer what takes time */
    int64_t bytes = ((columns - 1) * ld + rows) * (int64_t)sizeof(element);
    if (bytes > most * gridDim.x || (columns > 1 && ld > 2 * rows)) {
        return;
    }
    uintptr_t begin = ((uintptr_t)matrix + 15) / 16 * 16;
    uintptr_t end = ((uintptr_t)matrix + bytes) / 16 * 16;
    uint32_t share = ((uint32_t)bytes / line / gridDim.x + 1) * line;
    uintptr_t from = begin + (uintptr_t)blockIdx.x * share;
    if (from < end) {
        prefetch_to_l2((const void *)from, end - from < share ? (uint32_t)(end - from) : share);
    }
}

/* The same of both operands of a lone problem. */
static __device__ inline void ask_for_operands(const gemm_arguments *arguments)
{
    if (gridDim.x != (uint32_t)(arguments->tiles_m * arguments->tiles_n)) {
        return;
    }
    if (threadIdx.x == 0) {
        ask_for_share(arguments->a, arguments->trans_a ? arguments->k : arguments->m,
                      arguments->trans_a ? arguments->m : arguments->k, arguments->lda);
    }
    if (threadIdx.x == 32) {
        ask_for_share(arguments->b, arguments->trans_b ? arguments->n : arguments->k,
                      arguments->trans_b ? arguments->k : arguments->n, arguments->ldb);
    }
}

/* ---- From the lanes' sums to D -------------------------------------------------------------- */

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ accumulator slots[2][WARPS][TILE_THIN][TILE_LONG];

    block_share share = share_of_thin_block(&arguments);
    operand a = operand_a(&arguments, &share);
    operand b = operand_b(&arguments, &share);
    operand *wide = SWAPPED ? &b : &a;
    operand *thin = SWAPPED ? &a : &b;
    int64_t row = SWAPPED ? share.column : share.row;
    int64_t column = SWAPPED ? share.row : share.column;
    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int along_k = is_along_k(wide);

    /* Neighbouring threads store neighbours in D. */
    int e = (int)threadIdx.x;
    int64_t r = SWAPPED ? e / TILE_THIN : e % TILE_LONG;
    int64_t c = SWAPPED ? e % TILE_THIN : e / TILE_LONG;
    int64_t i = SWAPPED ? column + c : row + r;
    int64_t j = SWAPPED ? row + r : column + c;
    int in_tile = e < TILE_LONG * TILE_THIN;
    int stores = in_tile && row + r < wide->count && column + c < thin->count;
    element *to = (element *)arguments.d + share.problem * arguments.stride_d + i + j * arguments.ldd;
    int plain = is_plain(&arguments);
    accumulator alpha = 0;
    if (plain) {
        alpha = (accumulator)epilogue_scalars_of(&arguments.epilogue, arguments.alpha, arguments.beta).alpha;
    }
    accumulator all = 0;
#pragma unroll 1
    for (int pass = first_pass(); pass < 2; ++pass) {
        int64_t length = begin_pass(pass, &arguments, &share);
        accumulator sum[SUMS] = {0};
        if (pass > 0 && !along_k && length > 2 * AHEAD * SHARERS) { /* 0 where operands may be missing */
            ask_for_operands(&arguments);
        }
        if (along_k) {
            if (is_along_k(thin)) {
                sum_along_k(sum, wide, thin, row, column, length, 1);
            } else {
                sum_along_k(sum, wide, thin, row, column, length, 0);
            }
            all = add_lanes(sum);
            int number = lane / (32 / SUMS);
            if (lane % (32 / SUMS) == 0) {
                slots[pass][warp / WARPS_LONG][number % TILE_THIN]
                     [warp % WARPS_LONG * ROWS + number / TILE_THIN] = all;
            }
        } else {
            sum_across_k(sum, wide, thin, row, column, length);
#pragma unroll
            for (int t = 0; t < TILE_THIN; ++t) {
                if (lane < TILE_LONG) {
                    slots[pass][warp][t][lane] = sum[t];
                }
            }
        }
        __syncthreads();
        if (in_tile) {
            all = slots[pass][0][c][r];
            int count = along_k ? WARPS_K : WARPS;
#pragma unroll
            for (int slot = 1; slot < WARPS; ++slot) {
                if (slot < count) {
                    all += slots[pass][slot][c][r];
                }
            }
        }
        if (plain && in_tile) {
            element value = (element)narrow(alpha * all);
            if (stores && pass > 0) {
                *to = value;
            }
        }
    }
    if (!plain && stores) {
        store_sum(&arguments, &share, i, j, all);
    }
}
