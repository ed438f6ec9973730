/*
 * split_wgmma.cu - products of f32 with all of its 24 bits on Hopper's tensor unit, in one launch: the three bf16 parts of
 * each element (see memory/split.cu) are made on the way to the unit.
 *
 *     splitters (one warpgroup)               CONSUMERS warpgroups
 *
 *     read m's side of a step from memory     read 64 rows of n's side of a step from memory
 *     split it                                split it, in registers
 *     wait until stage s is empty             wait until stage s is full
 *     write its parts there            -->    multiply: parts in registers by parts in shared memory
 *     next stage                       <--    say that the stage is empty
 *
 * Planes in workspace are read again and again, 6 bytes an element, and take two launches around the product. Here f32 is
 * read again and again, 4 bytes, and split each time. Of what the unit multiplies one side comes out of registers, so shared
 * memory has a third less to read, of tiles 64 wide half.
 *
 * The order of k within a step is free, as long as both sides have the same. A lane of a consumer has four neighbours, which
 * are one load: instruction s of the two of a step multiplies the k 16 * s + 0 .. 15 in the order
 *
 *     place          0  1  2  3  4  5  6  7   8  9 10 11 12 13 14 15
 *     k              0  1  4  5  8  9 12 13   2  3  6  7 10 11 14 15
 *     lane member    0  0  1  1  2  2  3  3   0  0  1  1  2  2  3  3
 *
 * and 16 bytes of a row in shared memory are eight of these places.
 *
 * Six of the nine products of parts are summed, small ones first, from zero in each step; then they go to an f32 sum, with
 * rounding. Where registers allow and k is long, what the additions round away is kept and given back.
 *
 * What parts cannot do (verdict.h) a warp sees for itself: splitters and consumers keep in mind between which magnitudes
 * lies what they have read. Where that is refused for the tile, or where sums are not finite, the warp sums its part of the tile
 * again by f32 multiply-adds, from memory: slowly, but nothing is launched for it.
 *
 * Blocks are persistent: both sides read one line of steps, through all of a block's tiles. While the consumers store a tile,
 * the splitters go on with the next.
 *
 * What limits it is the splitting: of a step of 32 k a tile of 128 x 128 has 8192 elements, some 1000 instructions of each
 * scheduler with all that is around it, while the tensor unit multiplies for 1536 cycles; a splitter's 420 of them take longer.
 *
 * Needs: sm_90a; any shape and alignment. Where rows along k are not aligned to 16 bytes, or end within them, elements are
 * read one by one.
 */
#include "kernel.h"

#include "../ptx/cluster.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "epilogue.h"
#include "magnitudes.h"
#include "parts.h"
#include "tiles.h"
#include "verdict.h"

#define WGMMA_N TILE_M
#define WGMMA_TYPE_A ELEMENT_BF16
#define WGMMA_TYPE_B ELEMENT_BF16
#define WGMMA_A_ACROSS 0
#define WGMMA_B_ACROSS 0
#include "../ptx/wgmma.h"

#define PARTS SPLITS
#define K_BYTES (TILE_K * 2)          /* of k in a stage, a part */
#define PART_BYTES (TILE_M * K_BYTES) /* of a stage */
#define STEPS (K_BYTES / 32)          /* instructions along k in a step */
#define DEPTH 4                       /* neighbouring k, which a lane has of each */
#define BAND 8
#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT)
#define B_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_NN)
#define SHORT_K 2048 /* below, exponents that are far apart are refused */
#define LONG_K 4096  /* from here on sums are compensated */
#define COMPENSATES (WGMMA_N <= 64)
#define MOVES_SUMS 1
#define SCALED 0
#define ANY_D 0

/* As in wgmma_tile.h, for wgmma.cu's other headers want to know: warps store 16 columns of D, 32 elements along m at a time. */
#define ROW_BYTES 128
#define STORERS 32
#define BUFFER_ROWS 16
#define BUFFER_BYTES (BUFFER_ROWS * ROW_BYTES)

static_assert(SWAPPED, "rows of the instruction run along n");
static_assert(PARTS == 3 && TILE_K == 32, "the products of parts are those of three, in steps of 32 k");
static_assert(TILE_N == 64 * CONSUMERS, "a consumer has 64 columns of D");

#define PLANES 1 /* parts are made here, of one matrix */
#include "wgmma_stages.h"
#include "wgmma_moves.h"
#include "wgmma_values.h"
#include "wgmma_buffer.h"

#define SPLITTERS WARPGROUP
#define SPLITTER_WARPS (SPLITTERS / 32)
#define WARPS (CONSUMERS * 4)
#define PIECES (TILE_M * TILE_K / SPLITTERS) /* elements that a splitter has of a step: */
#define LOADS (PIECES / DEPTH)               /* along k in so many rows, which lie ROW_STEP apart; */
#define ROW_STEP (SPLITTERS * DEPTH / TILE_K)
#define GROUP 16 /* across it so many of a row at a time */
#define GROUPS (PIECES / GROUP)
#define AHEAD 2                      /* steps that a splitter has under way */
#define PIECES_B (STEPS * 2 * DEPTH) /* elements that a consumer's thread has of a step, of two rows */

static_assert(GROUPS == 1 || (GROUPS == 2 && SPLITTERS == TILE_M), "a thread's k are neighbours");
static_assert(ROW_STEP % 8 == 0, "rows of a thread lie alike under the swizzle");

typedef struct shared_memory {
    unsigned char stages[STAGES][PARTS][PART_BYTES];
    unsigned char buffers[WARPS][BUFFER_BYTES]; /* on D's way to memory */
    float bias[CONSUMERS][WGMMA_N > 64 ? WGMMA_N : 64];
    uint32_t seen[STAGES][SPLITTER_WARPS]; /* what the splitters have seen of a tile, beside its last step */
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
} shared_memory;

static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row says how much shared memory a block takes");

/* ---- From f32 to parts ---------------------------------------------------------------------- */

/* The three parts of two neighbours. */
static __device__ __forceinline__ void split_pair(float low, float high, range *seen, uint32_t *first,
                                                  uint32_t *second, uint32_t *third)
{
    see(seen, low);
    see(seen, high);
    *first = pack_bf16(low, high);
    split_further(low, high, *first, second, third);
}

/* ---- From memory to registers --------------------------------------------------------------- */

/* Where a thread reads one operand, whose rows are rows of op(A) or columns of op(B): its elements of the next step. */
typedef struct reader {
    const float *from;
    uint32_t tile;
    uint32_t steps; /* of the tile, those that are left; 0: no tile is left */
    int tail;       /* k of the tile's last step */
    int more_rows;  /* behind the thread's first, which are inside */
} reader;

static __device__ inline int64_t ld_of(const gemm_arguments *gemm, int is_a)
{
    return is_a ? gemm->lda : gemm->ldb;
}

static __device__ inline uint32_t count_steps(const block_share *share)
{
    return (uint32_t)((share->k_end - share->k_begin + TILE_K - 1) / TILE_K);
}

/* Goes to a tile of op(A), of which the thread's first row is `row` and its first k of a step `k`; or of op(B). */
static __device__ inline void open_tile(reader *at, const gemm_arguments *gemm, int is_a, int row, int k)
{
    const int along_k = is_a ? A_ALONG_K : B_ALONG_K;
    at->steps = 0;
    if (at->tile >= (uint32_t)gemm->tiles) {
        return;
    }
    block_share share = share_of_tile(gemm, BAND, at->tile, TILE_M, TILE_N);
    int64_t first = (is_a ? share.row : share.column) + row;
    int64_t last = (is_a ? gemm->m : gemm->n) - 1;
    int64_t ld = ld_of(gemm, is_a);
    const float *matrix = (const float *)(is_a ? gemm->a : gemm->b);
    /* Rows outside are read as the last one, and become sums of no place in D. */
    at->more_rows = first > last ? 0 : last - first < TILE_M + TILE_N ? (int)(last - first) : TILE_M + TILE_N;
    first = first < last ? first : last;
    at->steps = count_steps(&share);
    at->tail = (int)(share.k_end - share.k_begin - (int64_t)(at->steps - 1) * TILE_K);
    at->from = matrix + share.problem * (is_a ? gemm->stride_a : gemm->stride_b) +
               first * (along_k ? ld : 1) + (share.k_begin + k) * (along_k ? 1 : ld);
}

/* Whether all of the next step's k are there. */
static __device__ __forceinline__ int is_whole(const reader *at)
{
    return at->steps > 1 || at->tail == TILE_K;
}

/* Whether rows along k are read in pieces of DEPTH, which are inside or outside as a whole. */
static __device__ inline int is_aligned(const gemm_arguments *gemm, int is_a)
{
    uintptr_t matrix = (uintptr_t)(is_a ? gemm->a : gemm->b);
    int64_t off = gemm->k | (is_a ? gemm->lda | gemm->stride_a : gemm->ldb | gemm->stride_b);
    return matrix % 16 == 0 && off % DEPTH == 0;
}

#if A_ALONG_K || B_ALONG_K
/* DEPTH neighbouring k, of which the first `left` are there; the others are 0. Constants: aligned, whole. */
static __device__ __forceinline__ void load_along(float *x, const float *from, int left, int aligned,
                                                  int whole)
{
    if (aligned) {
        float4 four = make_float4(0, 0, 0, 0);
        if (whole || left > 0) {
            four = __ldg((const float4 *)from);
        }
        x[0] = four.x;
        x[1] = four.y;
        x[2] = four.z;
        x[3] = four.w;
        return;
    }
#pragma unroll
    for (int e = 0; e < DEPTH; ++e) {
        x[e] = 0;
        if (whole || e < left) {
            x[e] = __ldg(from + e);
        }
    }
}
#endif

/* ---- The splitters -------------------------------------------------------------------------- */

/* A splitter's first row and k of a step: along k a row is eight threads', across it a thread has GROUP k of one. */
static __device__ inline int splitter_row(void)
{
    return A_ALONG_K ? (int)threadIdx.x * DEPTH / TILE_K : (int)threadIdx.x % TILE_M;
}
static __device__ inline int splitter_k(void)
{
    return A_ALONG_K ? (int)threadIdx.x % (TILE_K / DEPTH) * DEPTH : (int)threadIdx.x / TILE_M * GROUP;
}

/* Starts the loads of a splitter's elements of the next step. Constants: aligned, whole. */
static __device__ __forceinline__ void load_pieces(float x[PIECES], const reader *at, int64_t ld, int aligned,
                                                   int whole)
{
    int left = at->tail - splitter_k();
#if A_ALONG_K
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        /* Forgotten, or the compiler works out all rows' addresses before the first step, and has no registers left. */
        int row = (int)forget(i * ROW_STEP < at->more_rows ? i * ROW_STEP : (uint32_t)at->more_rows);
        load_along(x + i * DEPTH, at->from + row * ld, left, aligned, whole);
    }
#else
    const float *from = at->from;
#pragma unroll
    for (int k = 0; k < PIECES; ++k) {
        x[k] = 0;
        if (whole || k < left) {
            x[k] = __ldg(from);
        }
        from += ld;
    }
#endif
}

/* The same, and goes on to the next step, which may be of the next tile. aligned is a constant. */
static __device__ __forceinline__ void fetch(float x[PIECES], reader *at, const gemm_arguments *gemm,
                                             int aligned)
{
    if (at->steps == 0) {
        return;
    }
    if (is_whole(at)) {
        load_pieces(x, at, gemm->lda, aligned, 1);
    } else {
        load_pieces(x, at, gemm->lda, aligned, 0);
    }
    at->from += TILE_K * (A_ALONG_K ? 1 : gemm->lda);
    if (--at->steps == 0) {
        at->tile += gridDim.x;
        open_tile(at, gemm, 1, splitter_row(), splitter_k());
    }
}

/* Byte offset of a 16-byte piece of a row of a part, under the 64-byte swizzle (see wgmma.h). */
static __device__ __forceinline__ uint32_t part_piece(int row, int piece)
{
    return (uint32_t)(row * K_BYTES + ((piece ^ (row / 2 % 4)) << 4));
}

/* Splits what a thread has of a step, and writes it to a stage. */
static __device__ __forceinline__ void put_parts(unsigned char stage[PARTS][PART_BYTES],
                                                 const float x[PIECES], range *seen)
{
    int row = splitter_row();
    int k = splitter_k();
    if (!A_ALONG_K) {
#pragma unroll
        for (int g = 0; g < GROUPS; ++g) {
            int first = k + g * GROUP;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                uint32_t words[PARTS][GROUP / DEPTH];
#pragma unroll
                for (int w = 0; w < GROUP / DEPTH; ++w) {
                    const float *pair = x + g * GROUP + w * DEPTH + 2 * half;
                    split_pair(pair[0], pair[1], seen, &words[0][w], &words[1][w], &words[2][w]);
                }
#pragma unroll
                for (int p = 0; p < PARTS; ++p) {
                    *(uint4 *)(stage[p] + part_piece(row, first / GROUP * 2 + half)) =
                        make_uint4(words[p][0], words[p][1], words[p][2], words[p][3]);
                }
            }
        }
        return;
    }
    uint32_t at = part_piece(row, k / 16 * 2) + (uint32_t)(k % 16);
    uint32_t at_other = part_piece(row, k / 16 * 2 + 1) + (uint32_t)(k % 16);
#pragma unroll
    for (int i = 0; i < LOADS; ++i) {
        uint32_t words[2][PARTS];
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const float *pair = x + i * DEPTH + 2 * half;
            split_pair(pair[0], pair[1], seen, &words[half][0], &words[half][1], &words[half][2]);
        }
#pragma unroll
        for (int p = 0; p < PARTS; ++p) {
            *(uint32_t *)(stage[p] + at + i * ROW_STEP * K_BYTES) = words[0][p];
            *(uint32_t *)(stage[p] + at_other + i * ROW_STEP * K_BYTES) = words[1][p];
        }
    }
}

/* A splitter's work: all steps of all tiles of the block. aligned is a constant. */
static __device__ __forceinline__ void split_all(const gemm_arguments *gemm, shared_memory *shared,
                                                 int aligned)
{
    float x[AHEAD][PIECES];
    uint32_t tile = blockIdx.x;
    uint32_t steps = 0;
    position to = {0, 0};
    range seen = {0, 0};
    reader at;
    at.tile = blockIdx.x;
    open_tile(&at, gemm, 1, splitter_row(), splitter_k());
#pragma unroll
    for (int s = 0; s < AHEAD; ++s) {
        fetch(x[s], &at, gemm, aligned);
    }
#pragma unroll 1
    while (tile < (uint32_t)gemm->tiles) {
#pragma unroll
        for (int s = 0; s < AHEAD; ++s) {
            if (tile < (uint32_t)gemm->tiles) {
                if (steps == 0) {
                    block_share share = share_of_tile(gemm, BAND, tile, TILE_M, TILE_N);
                    steps = count_steps(&share);
                }
                mbarrier_wait(&shared->empty[to.stage], to.parity ^ 1);
                put_parts(shared->stages[to.stage], x[s], &seen);
                fetch(x[s], &at, gemm, aligned);
                if (--steps == 0) {
                    uint32_t word = word_of_warp(&seen);
                    if (threadIdx.x % 32 == 0) {
                        shared->seen[to.stage][threadIdx.x / 32] = word;
                    }
                    seen.largest = 0;
                    seen.inverse = 0;
                    tile += gridDim.x;
                }
                fence_async_shared();
                mbarrier_arrive(&shared->full[to.stage]);
                step_on(&to);
            }
        }
    }
}

static __device__ inline void split(const gemm_arguments *gemm, shared_memory *shared)
{
    if (A_ALONG_K && is_aligned(gemm, 1)) {
        split_all(gemm, shared, 1);
    } else {
        split_all(gemm, shared, 0);
    }
}

/* ---- The consumers -------------------------------------------------------------------------- */

/* A thread's first row in its consumer's 64, and its first k of a step. */
static __device__ inline int consumer_row(int consumer)
{
    int thread = (int)threadIdx.x % WARPGROUP;
    return 64 * consumer + thread / 32 * 16 + thread % 32 / 4;
}
static __device__ inline int consumer_k(void) { return (int)threadIdx.x % 4 * DEPTH; }

/* Elements of two rows: x[(2 * r + s) * DEPTH + e] is k 16 * s + e of row 8 * r. Constants: aligned, whole. */
static __device__ __forceinline__ void load_rows(float x[PIECES_B], const reader *at, int64_t ld, int aligned,
                                                 int whole)
{
    int left = at->tail - consumer_k();
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        int row = r == 0 || at->more_rows >= 8 ? 8 * r : at->more_rows;
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            float *to = x + (2 * r + s) * DEPTH;
#if B_ALONG_K
            load_along(to, at->from + row * ld + 16 * s, left - 16 * s, aligned, whole);
#else
#pragma unroll
            for (int e = 0; e < DEPTH; ++e) {
                to[e] = 0;
                if (whole || 16 * s + e < left) {
                    to[e] = __ldg(at->from + row + (16 * s + e) * ld);
                }
            }
#endif
        }
    }
}

/* Starts the loads of the next step, and goes on to the one after it. */
static __device__ __forceinline__ void fetch_rows(float x[PIECES_B], reader *at, const gemm_arguments *gemm,
                                                  int consumer, int aligned)
{
    if (at->steps == 0) {
        return;
    }
    if (B_ALONG_K && aligned && is_whole(at)) {
        load_rows(x, at, gemm->ldb, 1, 1);
    } else if (B_ALONG_K && aligned) {
        load_rows(x, at, gemm->ldb, 1, 0);
    } else if (is_whole(at)) {
        load_rows(x, at, gemm->ldb, 0, 1);
    } else {
        load_rows(x, at, gemm->ldb, 0, 0);
    }
    at->from += TILE_K * (B_ALONG_K ? 1 : gemm->ldb);
    if (--at->steps == 0) {
        at->tile += gridDim.x;
        open_tile(at, gemm, 0, consumer_row(consumer), consumer_k());
    }
}

/* The instructions' operands: words[s][p] of part p for instruction s, see wgmma.h. */
typedef uint32_t row_words[STEPS][PARTS][4];

static __device__ __forceinline__ void split_rows(row_words words, const float x[PIECES_B], range *seen)
{
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const float *pair = x + (2 * r + s) * DEPTH + 2 * half;
                int w = 2 * half + r;
                split_pair(pair[0], pair[1], seen, &words[s][0][w], &words[s][1][w], &words[s][2][w]);
            }
        }
    }
}

/* Starts the instructions of a stage, and commits them: the parts whose numbers have the largest sum come first. */
static __device__ __forceinline__ void multiply_stage(wgmma_sum sum[WGMMA_SUMS], row_words words,
                                                      uint64_t columns, uint32_t stage)
{
    columns = wgmma_advance(columns, stage * PARTS * PART_BYTES);
#pragma unroll
    for (int both = PARTS - 1; both >= 0; --both) {
#pragma unroll
        for (int p = 0; p <= both; ++p) {
#pragma unroll
            for (int s = 0; s < STEPS; ++s) {
                wgmma_a_registers(sum, words[s][p], wgmma_advance(columns, (both - p) * PART_BYTES + s * 32),
                                  both < PARTS - 1 || p > 0 || s > 0);
            }
        }
    }
    wgmma_commit();
}

/* Whether parts may not stand for what the warp's sums are of: `rows` and the splitters' words speak of it. */
static __device__ inline int is_refused(uint32_t rows, const uint32_t words[SPLITTER_WARPS], int short_k)
{
    uint32_t largest = 0;
    uint32_t least = 0;
#pragma unroll
    for (int w = 0; w < SPLITTER_WARPS; ++w) {
        largest = words[w] >> 8 > largest ? words[w] >> 8 : largest;
        least = (words[w] & 0xff) > least ? words[w] & 0xff : least;
    }
    return verdict_of_bytes(largest, least, short_k) | verdict_of_bytes(rows >> 8, rows & 0xff, short_k);
}

/* Whether a warp has sums that are not finite; all lanes agree. */
static __device__ inline int is_spoiled(const wgmma_sum sum[WGMMA_SUMS])
{
    float probe = 0;
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        probe = fmaf(sum[i], 0, probe); /* NaN from the first that is not finite on */
    }
    return __any_sync(0xffffffffu, probe != 0);
}

/* Where sum_plainly() reads a thread's elements: of op(A) from row `row` on, of op(B) two columns. */
typedef struct plain_reader {
    const float *a;
    const float *b_low;
    const float *b_high;
    int64_t a_row; /* elements from one row to the next, and from one k */
    int64_t a_k;
    int64_t b_k;
    int64_t row;
    int64_t last_row; /* what is outside is read as that one */
} plain_reader;

/* From here on of k sums of CHAIN are added to others, and what that rounds away is given back; as in simt.cu. */
#define LEAST_MOVED_K 128
#define CHAIN 16
#define SUMS_AT_ONCE 16

/* Sums SUMS_AT_ONCE of a thread's elements, from number `first` on, by f32 multiply-adds. */
static __device__ __forceinline__ void sum_some_plainly(wgmma_sum *sum, plain_reader at, int first,
                                                        int64_t left)
{
    int64_t chain = left < LEAST_MOVED_K ? left : CHAIN;
    float excess[SUMS_AT_ONCE];
#pragma unroll
    for (int i = 0; i < SUMS_AT_ONCE; ++i) {
        sum[i] = 0;
        excess[i] = 0;
    }
#pragma unroll 1
    while (left > 0) {
        float part[SUMS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < SUMS_AT_ONCE; ++i) {
            part[i] = 0;
        }
#pragma unroll 1
        for (int64_t end = left < chain ? 0 : left - chain; left > end; --left) {
            float low = __ldg(at.b_low);
            float high = __ldg(at.b_high);
#pragma unroll
            for (int i = 0; i < SUMS_AT_ONCE; i += 4) {
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    int64_t own = at.row + 2 * (first + i) + e;
                    float x = __ldg(at.a + (own < at.last_row ? own : at.last_row) * at.a_row);
                    part[i + e] = fmaf(x, low, part[i + e]);
                    part[i + 2 + e] = fmaf(x, high, part[i + 2 + e]);
                }
            }
            at.a += at.a_k;
            at.b_low += at.b_k;
            at.b_high += at.b_k;
        }
#pragma unroll
        for (int i = 0; i < SUMS_AT_ONCE; ++i) {
            float added = __fsub_rn(part[i], excess[i]);
            float next = __fadd_rn(sum[i], added);
            float lost = __fsub_rn(__fsub_rn(next, sum[i]), added);
            /* What is not finite comes out as a plain sum has it. */
            excess[i] = fabsf(lost) < __uint_as_float(0x7f800000u) ? lost : 0;
            sum[i] = next;
        }
    }
}

/* Sums a thread's elements of a tile as f32 arithmetic does. `here` is where the consumer's part begins. */
static __device__ __forceinline__ void sum_plainly(wgmma_sum sum[WGMMA_SUMS], const gemm_arguments *gemm,
                                                   place here)
{
    standing at = standing_of_thread();
    int64_t b_column = B_ALONG_K ? gemm->ldb : 1;
    int64_t k_begin = here.part * gemm->k_per_part;
    int64_t k_left = gemm->k - k_begin < gemm->k_per_part ? gemm->k - k_begin : gemm->k_per_part;
    int64_t column = here.column + row_of(at, 0);
    int64_t last = gemm->n - 1;
    plain_reader from;
    from.a_row = A_ALONG_K ? gemm->lda : 1;
    from.a_k = A_ALONG_K ? 1 : gemm->lda;
    from.b_k = B_ALONG_K ? 1 : gemm->ldb;
    from.row = here.row + column_of(at, 0);
    from.last_row = gemm->m - 1;
    from.a = (const float *)gemm->a + here.problem * gemm->stride_a + k_begin * from.a_k;
    from.b_low = (const float *)gemm->b + here.problem * gemm->stride_b + k_begin * from.b_k;
    from.b_high = from.b_low + (column + 8 < last ? column + 8 : last) * b_column;
    from.b_low += (column < last ? column : last) * b_column;
#pragma unroll
    for (int first = 0; first < WGMMA_SUMS; first += SUMS_AT_ONCE) {
        sum_some_plainly(sum + first, from, first, k_left);
    }
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* Stores a warp's part of a tile, by way of its buffer. */
static __device__ __forceinline__ void store(standing at, const gemm_arguments *gemm, place here,
                                             const float value[WGMMA_SUMS], unsigned char *buffer)
{
    place_of_tile tile = place_of_storers(gemm, here, at);
    destination to = destination_of(gemm, &tile, sizeof(float));
    uint32_t words[WGMMA_SUMS];
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        words[i] = __float_as_uint(value[i]);
    }
#pragma unroll
    for (int m = 0; m < WGMMA_N; m += ROW_BYTES / (int)sizeof(float)) {
        fill_32(place_of_32(at), buffer, words, m, 1, ROW_BYTES / (int)sizeof(float));
        __syncwarp();
        copy_out(at, buffer, &to, m, 0, ROW_BYTES / (int)sizeof(float), sizeof(float));
        __syncwarp();
    }
}

static __device__ inline void consume(const gemm_arguments *gemm, shared_memory *shared, int consumer,
                                      int reads)
{
    float x[PIECES_B];
    position at_stage = {0, 0};
    uint64_t columns = wgmma_descriptor_64(shared->stages[0], 8 * K_BYTES);
    int aligned = is_aligned(gemm, 0);
    uint32_t todo = keep(todo_of(gemm));
    reader from;
    from.tile = blockIdx.x;
    from.steps = 0;
    if (reads) {
        open_tile(&from, gemm, 0, consumer_row(consumer), consumer_k());
        fetch_rows(x, &from, gemm, consumer, aligned);
    }
#pragma unroll 1
    for (uint32_t tile = blockIdx.x; tile < (uint32_t)gemm->tiles; tile += gridDim.x) {
        wgmma_sum sum[WGMMA_SUMS];
        wgmma_sum part[WGMMA_SUMS];
        range seen = {0, 0};
        int refused = 0;
        block_share share = share_of_tile(gemm, BAND, tile, TILE_M, TILE_N);
        place here = {(int32_t)share.row, (int32_t)share.column + 64 * consumer, (int32_t)share.problem,
                      share.part};
        clear(sum);
#if COMPENSATES
        wgmma_sum excess[WGMMA_SUMS]; /* what sum has more than was added to it */
        clear(excess);
#endif
#pragma unroll 1
        for (uint32_t steps = reads ? count_steps(&share) : 0; steps > 0; --steps) {
            row_words words;
            split_rows(words, x, &seen);
            fetch_rows(x, &from, gemm, consumer, aligned);
            mbarrier_wait(&shared->full[at_stage.stage], at_stage.parity);
            wgmma_hold(part);
            wgmma_fence();
            multiply_stage(part, words, columns, at_stage.stage);
            if (steps == 1) {
                refused = is_refused(word_of_warp(&seen), shared->seen[at_stage.stage], gemm->k < SHORT_K);
                __syncwarp(); /* all have read the words before one of them says so */
            }
            wgmma_wait(0);
            wgmma_hold(part);
            if (threadIdx.x % 32 == 0) {
                mbarrier_arrive(&shared->empty[at_stage.stage]);
            }
            step_on(&at_stage);
#if COMPENSATES
            if (gemm->k >= LONG_K) {
                add_compensated(sum, excess, part);
            } else {
                add(sum, part);
            }
#else
            add(sum, part);
#endif
        }
        if (is_spoiled(sum) | refused) {
            sum_plainly(sum, gemm, here);
        }
        float value[WGMMA_SUMS];
        standing at = standing_of_thread();
        if (wants_bias(todo)) {
            fetch_bias(gemm, here, shared->bias[consumer], todo, consumer);
        }
        values_of_sums(at, gemm, here, sum, value, todo, shared->bias[consumer], consumer);
        store(at, gemm, here, value, shared->buffers[4 * consumer + at.warp]);
    }
}

/* ---- The block ------------------------------------------------------------------------------ */

/* Registers a thread: together no more than the 168 for each that a block of two consumers begins with. */
#define SPLITTER_REGISTERS 104
#define CONSUMER_REGISTERS 200

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const __grid_constant__ gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    let_next_kernel_begin();
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&shared->full[s], SPLITTERS);
            mbarrier_init(&shared->empty[s], WARPS);
        }
    }
    __syncthreads();
    /* All lanes agree on these, which the compiler has to know where warpgroups part. */
    int warpgroup = __shfl_sync(0xffffffffu, (int)threadIdx.x / WARPGROUP, 0);
    wait_for_kernels_before();
    int reads = __shfl_sync(0xffffffffu, !alpha_is_zero(arguments.alpha, ELEMENT_F32), 0);
    if (warpgroup == 0) {
#if CONSUMERS == 2
        registers_shrink_to(SPLITTER_REGISTERS);
#endif
        if (reads) {
            split(&arguments, shared);
        }
    } else {
#if CONSUMERS == 2
        registers_grow_to(CONSUMER_REGISTERS);
#endif
        consume(&arguments, shared, warpgroup - 1, reads);
    }
}
