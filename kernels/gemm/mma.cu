/*
 * mma.cu - products on the tensor unit of every GPU from Ampere on: mma.sync, fed by cp.async and ldmatrix.
 * f16, bf16, tf32 (f32 rounded) with f32 sums, s8 with s32 sums.
 *
 * One instruction takes 32 bytes along k of 16 rows and 8 columns: 16 elements of f16 and bf16, 8 of tf32, 32
 * of s8. So all types are one kernel, which counts k in bytes. Its rows run along n and its columns along m: it is
 * D transposed that is computed, B^T times A^T, and two sums that a lane holds side by side are neighbours in a
 * column of D.
 *
 *      block 128 x 256              warp 64 x 64                  one instruction
 *      +----+----+----+----+        +--+--+--+--+--+--+--+--+          B, 16 n    A, 8 m       D
 *   m  | 0  | 2  | 4  | 6  |     m  |  |  |  |  |  |  |  |  |          +----+     +--+        +--+
 *   |  +----+----+----+----+     |  +--+--+ 4 x 8 of them --+       n  |    |  *  |  |  ->  n |  |
 *   v  | 1  | 3  | 5  | 7  |     v  |  |  |  |  |  |  |  |  |       |  +----+   k |  |        |  |
 *      +----+----+----+----+        +--+--+--+--+--+--+--+--+       v    k ->     +--+        +--+
 *
 * Both factors are octets: 8 rows (or columns) by 16 bytes along k, one register a lane, where lane = 4 * group
 * + member holds 4 bytes along k of row `group`. An operand's shared tile lies as its memory does, and how octets
 * are read depends on that:
 *
 *     along k                 ldmatrix: 16 bytes of 8 rows, four octets at a time
 *     along m or n, 16-bit    ldmatrix.trans: the same of the tile's transpose
 *     along m or n, tf32      four neighbours of one k, 16 bytes a lane, are row `group` of four octets. So
 *                             octet o holds the rows 32 * (o / 4) + 4 * group + o % 4 of the warp's
 *                             tile: in another order, which only the last step has to know
 *
 * A tile's rows (what is contiguous in memory) are cut into chunks of 16 bytes, and the chunks of a row
 * change places by an exclusive or with the row's number, so that the eight chunks that are read at a time lie
 * in different banks, whichever way the tile lies, and likewise those that a copy writes.
 *
 * While one step of 32 bytes along k is multiplied the octets of the next are read, between the instructions,
 * and behind the last of them copies of the tile STAGES ahead started. What limits beside the unit itself: for the 64
 * instructions of a step that each scheduler issues for its two warps of 64 x 64, shared memory is read 256
 * cycles long, and written another 96.
 *
 * Needs: sm_80. LAYOUT fixed by the build; s8 takes TN alone. A and B, their columns and strides, and k where an
 * operand runs along it, aligned to 16 bytes. Leading dimensions up to LD_LIMIT, so that offsets within a tile
 * fit 32 bits.
 */
#include "kernel.h"

#include "epilogue.h"
#include "tiles.h"

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT) /* A's memory runs along k */
#define B_ALONG_K (LAYOUT == LAYOUT_NN || LAYOUT == LAYOUT_TN) /* B's memory runs along k */

enum {
    SIZE = sizeof(element),
    CHUNK = 16 / SIZE,  /* elements of a copy */
    STEP_K = 32 / SIZE, /* k of an instruction */
    STEPS = TILE_K / STEP_K,
    WARPS_M = TILE_M / WARP_M,
    ROWS = WARP_N / 16,   /* instructions along n of a warp's tile */
    COLUMNS = WARP_M / 8, /* and along m */
    /* Of a shared tile: the bytes of a row, and how many rows. */
    A_ROW = (A_ALONG_K ? TILE_K : TILE_M) * SIZE,
    A_COUNT = A_ALONG_K ? TILE_M : TILE_K,
    B_ROW = (B_ALONG_K ? TILE_K : TILE_N) * SIZE,
    B_COUNT = B_ALONG_K ? TILE_N : TILE_K,
    /* A thread's chunks of a tile: every so many rows, and how many. */
    A_STEP = THREADS_X * 16 / A_ROW,
    B_STEP = THREADS_X * 16 / B_ROW,
    A_PIECES = A_COUNT / A_STEP,
    B_PIECES = B_COUNT / B_STEP,
    PIECES = A_PIECES + B_PIECES,
    BAND = 8
};

/* Four octets of four-byte elements hold neighbours where these lie along m or n. */
#define A_IN_QUADS (ELEMENT == ELEMENT_F32 && !A_ALONG_K)
#define B_IN_QUADS (ELEMENT == ELEMENT_F32 && !B_ALONG_K)
#include "mma_octets.h"
#include "mma_store.h"

typedef struct stage {
    __align__(128) char a[A_COUNT * A_ROW];
    __align__(128) char b[B_COUNT * B_ROW];
} stage;

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32 ||
                  (ELEMENT == ELEMENT_S8 && LAYOUT == LAYOUT_TN),
              "there is an instruction for the elements, and a way to read them");
static_assert(ALIGNMENT == 16, "copies are of 16 bytes");
static_assert(TILE_K * SIZE == 64 || TILE_K * SIZE == 128, "the chunks of a row keep off each other's banks");
static_assert(STEPS % 2 == 0, "octets change places an even number of times a tile");
static_assert(WARP_M % 32 == 0 && WARP_N % 32 == 0 && (WARP_M & (WARP_M - 1)) == 0 &&
                  (WARP_N & (WARP_N - 1)) == 0,
              "octets are read four at a time, and warps begin at multiples of their size");
static_assert(TILE_M % 64 == 0 && TILE_N % 64 == 0, "a row along m or n has eight chunks or more");
static_assert(THREADS_X == 32 * WARPS_M * (TILE_N / WARP_N), "the warps tile the block");
static_assert(A_STEP % (SIZE == 4 && !A_ALONG_K ? 4 : 8) == 0 &&
                  B_STEP % (SIZE == 4 && !B_ALONG_K ? 4 : 8) == 0,
              "a thread's chunks change places alike");
static_assert(A_COUNT % A_STEP == 0 && B_COUNT % B_STEP == 0, "the threads' pieces cover a tile");
static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(sizeof(slab) * (THREADS_X / 32) <= SHARED_BYTES, "slabs take the place of the stages");
static_assert(STAGES >= 2, "one tile is multiplied while another one comes");
static_assert((int64_t)(TILE_M > TILE_N ? TILE_M : TILE_N) * LD_LIMIT * SIZE <= (int64_t)1 << 32,
              "offsets fit 32 bits");

/* ---- Copies --------------------------------------------------------------------------------- */

/*
 * A thread copies the same chunk of every so many rows of a tile. Rows and chunks beyond the edge in m or n
 * are read again from the last one inside: what they add goes to sums that are not stored. Beyond the end of k
 * there must be zeros.
 *
 * A walk is where a thread copies an operand's tile from and to.
 */
typedef struct walk {
    const char *source; /* the thread's first chunk of the tile that comes next; along k: of row 0 */
    int64_t bytes_per_k;
    int k;           /* its first k in a tile */
    int bytes;       /* of a chunk; fewer at the edge in m or n */
    int destination; /* its first chunk in the shared tile */
} walk;

/* The last place inside, for places beyond the edge. */
static __device__ inline int clamp(int place, int left) { return place < left ? place : left - 1; }

/*
 * The walk over an operand whose tile begins at from and has left rows (columns of B) to the edge; offsets are to
 * each of its pieces.
 */
static __device__ inline walk begin_walk(const element *from, int64_t ld, int left, int along_k,
                                         int row_bytes, int step, int pieces, uint32_t *offsets)
{
    int row = (int)threadIdx.x / (row_bytes / 16);
    int chunk = (int)threadIdx.x % (row_bytes / 16);
    int at = chunk * CHUNK;
    walk w;
    w.destination = place_of(row, chunk, along_k, row_bytes);
    w.k = along_k ? at : row;
    w.bytes = 16;
    w.bytes_per_k = SIZE * (along_k ? 1 : ld);
    if (!along_k) {
        at = clamp(at, left) / CHUNK * CHUNK;
        w.bytes = left - at < CHUNK ? SIZE * (left - at) : 16;
    }
    w.source = (const char *)(from + at + (along_k ? 0 : row * ld));
#pragma unroll
    for (int i = 0; i < pieces; ++i) {
        int to = along_k ? clamp(row + i * step, left) : i * step;
        offsets[i] = (uint32_t)to * (uint32_t)ld * SIZE;
    }
    return w;
}

/* Starts one piece of a tile of which k_left k lie inside; with the constant TILE_K nothing is checked. */
static __device__ inline void copy_piece(char *to, const walk *w, const uint32_t *offsets, int along_k,
                                         int row_bytes, int step, int piece, int k_left)
{
    int inside = k_left == TILE_K || w->k + (along_k ? 0 : piece * step) < k_left;
    const char *source = w->source + (inside ? offsets[piece] : -w->k * w->bytes_per_k);
    copy_async_16(to + w->destination + piece * step * row_bytes, source, inside ? w->bytes : 0);
}

/* Both walks of a thread. */
typedef struct walks {
    walk a;
    walk b;
    uint32_t a_offsets[A_PIECES];
    uint32_t b_offsets[B_PIECES];
} walks;

/* Starts the pieces [piece, end) of both next tiles, A's before B's. */
static __device__ inline void copy_pieces(stage *to, const walks *w, int k_left, int piece, int end)
{
#pragma unroll
    for (; piece < end; ++piece) {
        if (piece < A_PIECES) {
            copy_piece(to->a, &w->a, w->a_offsets, A_ALONG_K, A_ROW, A_STEP, piece, k_left);
        } else {
            copy_piece(to->b, &w->b, w->b_offsets, B_ALONG_K, B_ROW, B_STEP, piece - A_PIECES, k_left);
        }
    }
}

/* Goes on by k along k. */
static __device__ inline void advance(walks *w, int k)
{
    w->a.source += k * w->a.bytes_per_k;
    w->b.source += k * w->b.bytes_per_k;
}

/* ---- Octets --------------------------------------------------------------------------------- */

/* Where a lane reads both operands. */
typedef struct reading {
    int a;
    int b;
} reading;

/* Reads part `part` of ROWS of a step's octets. */
static __device__ inline void load_part(octets *to, const stage *from, reading at, int part, int step)
{
    load_pair(to->rows, from->b, at.b, part, step, B_ALONG_K, 1, B_ROW);
#pragma unroll
    for (int pair = part * (COLUMNS / 2) / ROWS; pair < (part + 1) * (COLUMNS / 2) / ROWS; ++pair) {
        load_pair(to->columns, from->a, at.a, pair, step, A_ALONG_K, 0, A_ROW);
    }
}

/* One row of instructions. Walking back and forth keeps one operand of neighbours the same. */
static __device__ inline void multiply_row(accumulator sum[COLUMNS][4], octets *now, int row)
{
    if (row == 0) {
#pragma unroll
        for (int i = 0; i < COLUMNS / 2; ++i) {
            round_pair(&now->columns[i][0], &now->columns[i][1], A_ALONG_K);
            round_pair(&now->columns[i][2], &now->columns[i][3], A_ALONG_K);
        }
    }
    round_pair(&now->rows[row][0], &now->rows[row][2], B_ALONG_K);
    round_pair(&now->rows[row][1], &now->rows[row][3], B_ALONG_K);
#pragma unroll
    for (int i = 0; i < COLUMNS; ++i) {
        int column = row % 2 ? COLUMNS - 1 - i : i;
        multiply(sum[column], now->rows[row], &now->columns[column / 2][column % 2 * 2]);
    }
}

/*
 * Sums the block's products over length k. All tiles along k are full but the first, which takes what TILE_K
 * leaves over.
 *
 * The last step of a tile already reads from the next one. So before it this thread's copies of that one must have
 * landed, and everybody's; then everybody has also read all of this tile, and its place is filled anew, from
 * there to the same point of the next tile.
 */
static __device__ inline void sum_products(accumulator sum[ROWS][COLUMNS][4], stage *stages, walks *next,
                                           int64_t length, reading at)
{
    int64_t tiles = length > 0 ? (length + TILE_K - 1) / TILE_K : 0;
    int first_length = (int)(length - (tiles - 1) * TILE_K);
    if (tiles == 0) {
        return;
    }

    /* Fill all stages; a group is committed even when empty, so that counting groups works. */
    copy_pieces(&stages[0], next, first_length, 0, PIECES);
    advance(next, first_length - TILE_K);
#pragma unroll
    for (int s = 1; s < STAGES; ++s) {
        copy_async_commit();
        advance(next, TILE_K);
        if (s < tiles) {
            copy_pieces(&stages[s], next, TILE_K, 0, PIECES);
        }
    }
    copy_async_wait(STAGES - 2);
    __syncthreads();

    octets held[2];
#pragma unroll
    for (int part = 0; part < ROWS; ++part) {
        load_part(&held[0], &stages[0], at, part, 0);
    }
    stage *from = &stages[0];
    stage *to = &stages[0];
    int copying = 0;
    for (int64_t tile = 0; tile < tiles; ++tile) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            if (step == STEPS - 1) {
                copy_async_commit();
                copy_async_wait(STAGES - 2);
                __syncthreads();
                to = from;
                from = from == &stages[STAGES - 1] ? &stages[0] : from + 1;
                copying = tile + STAGES < tiles;
                advance(next, TILE_K);
            }
#pragma unroll
            for (int row = 0; row < ROWS; ++row) {
                load_part(&held[(step + 1) % 2], from, at, row, (step + 1) % STEPS);
                if (copying &&
                    row == ROWS - 1) { /* together: ptxas puts three loads of nothing before each group */
                    int slot = (step + 1) % STEPS;
                    copy_pieces(to, next, TILE_K, slot * PIECES / STEPS, (slot + 1) * PIECES / STEPS);
                }
                multiply_row(sum[row], &held[step % 2], row);
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);
    /* The block's share waits here for the last part: the loop has no register left for it. */
    __shared__ block_share kept;
    block_share share = share_of_block(&arguments, BAND);
    wait_for_kernels_before();
    let_next_kernel_begin();

    if (alpha_is_zero(arguments.alpha,
                      ELEMENT == ELEMENT_S8 ? arguments.epilogue.result_type : ELEMENT_F32)) {
        share.k_end = share.k_begin;
    }
    if (threadIdx.x == 0) {
        kept = share;
    }
    int64_t lda = arguments.lda;
    int64_t ldb = arguments.ldb;
    const element *a = (const element *)arguments.a + share.problem * arguments.stride_a +
                       share.row * (A_ALONG_K ? lda : 1) + share.k_begin * (A_ALONG_K ? 1 : lda);
    const element *b = (const element *)arguments.b + share.problem * arguments.stride_b +
                       share.column * (B_ALONG_K ? ldb : 1) + share.k_begin * (B_ALONG_K ? 1 : ldb);
    int rows = arguments.m - share.row < TILE_M ? (int)(arguments.m - share.row) : TILE_M;
    int columns = arguments.n - share.column < TILE_N ? (int)(arguments.n - share.column) : TILE_N;
    walks next;
    next.a = begin_walk(a, lda, rows, A_ALONG_K, A_ROW, A_STEP, A_PIECES, next.a_offsets);
    next.b = begin_walk(b, ldb, columns, B_ALONG_K, B_ROW, B_STEP, B_PIECES, next.b_offsets);

    int warp = (int)threadIdx.x / 32;
    int row = warp % WARPS_M * WARP_M;
    int column = warp / WARPS_M * WARP_N;
    reading at;
    at.a = begin_reading(row, A_ALONG_K, 0, A_ROW);
    at.b = begin_reading(column, B_ALONG_K, 1, B_ROW);
    accumulator sum[ROWS][COLUMNS][4] = {{{0}}};
    sum_products(sum, stages, &next, share.k_end - share.k_begin, at);
    /* Everybody has left the stages, and sees the share. */
    __syncthreads();
    store_tile(&arguments, &kept, (slab *)stages + warp, sum, row, column);
}
