/*
 * f32_async.cu - strict float32 products: fused multiply-adds on the FFMA units, fed by asynchronous
 * copies. The top of the ladder's first part (rung 9), and what the library ships for f32.
 *
 * Three tiles nest. A block owns TILE_M x TILE_N of D, a warp WARP_M x WARP_N of that, a lane
 * THREAD_M x THREAD_N of that, in registers:
 *
 *        block 256 x 128            warp 64 x 64: 8 x 4 lanes          a lane's sums
 *     +---------+---------+       n ->  0    16   32   48           4 columns of each 16,
 *     | warp 0  | warp 4  |     m  +----+----+----+----+            4 rows of each 32:
 *     +---------+---------+     |  |L0 L8 ..  again ...|
 *     | warp 1  | warp 5  |     v  |L1 L9 ..           |            [4x4][4x4][4x4][4x4]
 *     +---------+---------+     32 +----+----+----+----+            [4x4][4x4][4x4][4x4]
 *     | warp 2  | warp 6  |        |L0 L8 ..           |
 *     +---------+---------+        +----+----+----+----+
 *     | warp 3  | warp 7  |
 *     +---------+---------+
 *
 * For one k a lane reads THREAD_M of A and THREAD_N of B from shared memory, 16 bytes at a time, and
 * does THREAD_M * THREAD_N multiply-adds: at 8 x 16 that is 6 loads for 128 multiply-adds. Every
 * instruction a scheduler issues that is no multiply-add costs one, so this ratio, with the copies
 * (12 to 36 instructions in 16 k) and one barrier a tile, is the kernel's limit: about 90% of the unit. The
 * eight lanes of a column group read 128 contiguous bytes and the others the same ones, so no load has a bank
 * conflict.
 *
 * Batches of small problems have tiles of 64 x 64 by two warps of 64 x 32, 8 x 8 sums a lane: many blocks a multiprocessor, some of
 * which wait for memory while others multiply.
 *
 * Global to shared memory goes through cp.async, STAGES - 1 tiles ahead. Shared tiles are [k][m] and
 * [k][n]. An operand whose memory runs along m (or n) is copied in 16-byte pieces; one that runs along
 * k must be turned, in 4-byte pieces: eight k of four rows a warp, 32-byte sectors on the global
 * side, and with rows 4 words longer than the tile, 32 different banks on the shared side.
 *
 * Needs: sm_80. LAYOUT fixed by the build. A and B, their columns and strides aligned to ALIGNMENT bytes (16,
 * or 4 for anything). Leading dimensions up to LD_LIMIT, so that offsets within a tile fit 32 bits.
 */
#include "kernel.h"

#define A_TURNED (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT) /* A's memory runs along k */
#define B_TURNED (LAYOUT == LAYOUT_NN || LAYOUT == LAYOUT_TN) /* B's memory runs along k */

#define WARPS_M (TILE_M / WARP_M)
#define LANES_M (WARP_M / THREAD_M)
#define LANES_N (WARP_N / THREAD_N)
#define GROUPS_M (THREAD_M / 4) /* groups of four rows a lane owns, LANES_M * 4 apart */
#define GROUPS_N (THREAD_N / 4)

#define PAD 4
#define A_ROW (TILE_M + (A_TURNED ? PAD : 0)) /* words from one k to the next in A's shared tile */
#define B_ROW (TILE_N + (B_TURNED ? PAD : 0))
#define COPY_WORDS (ALIGNMENT / 4)
#define BAND 8

typedef struct stage {
    float a[TILE_K][A_ROW];
    float b[TILE_K][B_ROW];
} stage;

static_assert(ELEMENT == ELEMENT_F32, "the sums are float");
static_assert(LANES_M * LANES_N == 32, "a warp has 32 lanes");
static_assert(THREADS_X == 32 * WARPS_M * (TILE_N / WARP_N), "the warps tile the block");
static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(TILE_K % 8 == 0 && TILE_K % COPY_PARTS == 0, "turned copies take eight k at a time");
static_assert((int64_t)(TILE_M > TILE_N ? TILE_M : TILE_N) * LD_LIMIT * 4 <= (int64_t)1 << 32,
              "offsets fit 32 bits");

#include "tiles.h"

/*
 * A thread's share of a tile is a number of pieces, one cp.async each. They are started a few at a time,
 * between the multiply-adds: all at once they would fill the queue that the loads from shared memory wait in
 * too.
 *
 * Along the operand's dimension a thread takes COPY_WORDS elements of every ALONG_STEP-th k. A turned
 * operand is walked by lane = k % 8 + 8 * row, a warp reading eight k of four rows and the next warp the four
 * rows below; every TURNED_STEP-th row is the thread's, TILE_K / 8 pieces each.
 */
#define ALONG_STEP(tile) (THREADS_X * COPY_WORDS / (tile))
#define TURNED_STEP (THREADS_X / 8)
#define A_SOURCES (A_TURNED ? TILE_M / TURNED_STEP : TILE_K / ALONG_STEP(TILE_M))
#define B_SOURCES (B_TURNED ? TILE_N / TURNED_STEP : TILE_K / ALONG_STEP(TILE_N))
#define A_PIECES (A_TURNED ? A_SOURCES * TILE_K / 8 : A_SOURCES)
#define B_PIECES (B_TURNED ? B_SOURCES * TILE_K / 8 : B_SOURCES)

/* Where a thread copies an operand's tile from and to. */
typedef struct walk {
    const char *source; /* the thread's first element at the k that comes next */
    int64_t bytes_per_k;
    int k;           /* the thread's first k in a tile */
    int bytes;       /* of a piece; fewer at the edge */
    int destination; /* its first element in the shared tile */
} walk;

/*
 * Rows beyond the edge of A (columns of B) are read again from the last one: what they add goes to sums that
 * are not stored. So only the end of k needs zeros. left counts rows from the tile's first to the edge.
 */
static __device__ inline int clamp(int row, int64_t left) { return row < left ? row : (int)left - 1; }

#if !A_TURNED || !B_TURNED
/* The thread's walk along the dimension of an operand whose tile begins at from; offsets are to each of its
 * k. */
static __device__ inline walk walk_along(const float *from, int64_t ld, int64_t left, int tile, int to_row,
                                         uint32_t *offsets)
{
    int across = tile / COPY_WORDS;
    int at = (int)threadIdx.x % across * COPY_WORDS;
    walk w;
    w.k = (int)threadIdx.x / across;
    w.destination = w.k * to_row + at;
    at = clamp(at, left) / COPY_WORDS * COPY_WORDS;
    w.bytes = left - at < COPY_WORDS ? 4 * (int)(left - at) : 4 * COPY_WORDS;
    w.bytes_per_k = 4 * ld;
    w.source = (const char *)(from + at + w.k * ld);
#pragma unroll
    for (int i = 0; i < TILE_K / ALONG_STEP(tile); ++i) {
        offsets[i] = (uint32_t)(i * ALONG_STEP(tile)) * (uint32_t)ld * 4;
    }
    return w;
}

/* Starts the pieces [piece, end) of a tile k_left long; where is the tile of which k begins. */
static __device__ inline void copy_along(float *to, int to_row, int tile, const walk *w,
                                         const uint32_t *offsets, int k_left, int piece, int end)
{
#pragma unroll
    for (; piece < end; ++piece) {
        int inside = k_left == TILE_K || w->k + piece * ALONG_STEP(tile) < k_left;
        const char *source = w->source + (inside ? offsets[piece] : -w->k * w->bytes_per_k);
        float *destination = to + w->destination + piece * ALONG_STEP(tile) * to_row;
#if COPY_WORDS == 4
        copy_async_16(destination, source, inside ? w->bytes : 0);
#else
        copy_async_4(destination, source, inside ? w->bytes : 0);
#endif
    }
}
#endif

#if A_TURNED || B_TURNED
/* The thread's walk along k of an operand whose tile begins at from; offsets are to each of its rows. */
static __device__ inline walk walk_turned(const float *from, int64_t ld, int64_t left, int tile, int to_row,
                                          uint32_t *offsets)
{
    int row = (int)threadIdx.x / 8;
    walk w;
    w.k = (int)threadIdx.x % 8;
    w.destination = w.k * to_row + row;
    w.bytes = 4;
    w.bytes_per_k = 4;
    w.source = (const char *)(from + w.k);
#pragma unroll
    for (int i = 0; i < tile / TURNED_STEP; ++i) {
        offsets[i] = (uint32_t)clamp(row + i * TURNED_STEP, left) * (uint32_t)ld * 4;
    }
    return w;
}

/* Starts the pieces [piece, end) of a tile k_left long. */
static __device__ inline void copy_turned(float *to, int to_row, const walk *w, const uint32_t *offsets,
                                          int k_left, int piece, int end)
{
#pragma unroll
    for (; piece < end; ++piece) {
        int k = piece % (TILE_K / 8) * 8;
        int row = piece / (TILE_K / 8);
        int inside = k_left == TILE_K || w->k + k < k_left;
        const char *source = w->source + offsets[row] + (inside ? 4 * k : -4 * w->k);
        copy_async_4(to + w->destination + k * to_row + row * TURNED_STEP, source, inside ? 4 : 0);
    }
}
#endif

/* Both walks of a thread. */
typedef struct walks {
    walk a;
    walk b;
    uint32_t a_offsets[A_SOURCES];
    uint32_t b_offsets[B_SOURCES];
} walks;

/* The walks of a block whose operands begin at a and b, its first row and column and k. */
static __device__ inline void begin_walks(walks *w, const float *a, const float *b,
                                          const gemm_arguments *arguments, int64_t m_left, int64_t n_left)
{
#if A_TURNED
    w->a = walk_turned(a, arguments->lda, m_left, TILE_M, A_ROW, w->a_offsets);
#else
    w->a = walk_along(a, arguments->lda, m_left, TILE_M, A_ROW, w->a_offsets);
#endif
#if B_TURNED
    w->b = walk_turned(b, arguments->ldb, n_left, TILE_N, B_ROW, w->b_offsets);
#else
    w->b = walk_along(b, arguments->ldb, n_left, TILE_N, B_ROW, w->b_offsets);
#endif
}

/* Goes on by k along k. */
static __device__ inline void advance(walks *w, int k)
{
    w->a.source += k * w->a.bytes_per_k;
    w->b.source += k * w->b.bytes_per_k;
}

/* Starts part `part` of `parts` of the copies of the next tiles, k_left long. */
static __device__ inline void copy_part(stage *to, const walks *w, int k_left, int part, int parts)
{
    int a_piece = part * A_PIECES / parts;
    int a_end = (part + 1) * A_PIECES / parts;
    int b_piece = part * B_PIECES / parts;
    int b_end = (part + 1) * B_PIECES / parts;
#if A_TURNED
    copy_turned(&to->a[0][0], A_ROW, &w->a, w->a_offsets, k_left, a_piece, a_end);
#else
    copy_along(&to->a[0][0], A_ROW, TILE_M, &w->a, w->a_offsets, k_left, a_piece, a_end);
#endif
#if B_TURNED
    copy_turned(&to->b[0][0], B_ROW, &w->b, w->b_offsets, k_left, b_piece, b_end);
#else
    copy_along(&to->b[0][0], B_ROW, TILE_N, &w->b, w->b_offsets, k_left, b_piece, b_end);
#endif
}

/* The operands of one k that a lane multiplies. */
typedef struct fragment {
    float a[THREAD_M];
    float b[THREAD_N];
} fragment;

/* Reads the fragment of k; row and column are the lane's first in the block's tile. */
static __device__ inline void load_fragment(fragment *to, const stage *from, int k, int row, int column)
{
#pragma unroll
    for (int group = 0; group < GROUPS_M; ++group) {
        float4 four = *(const float4 *)&from->a[k][row + group * LANES_M * 4];
        to->a[4 * group + 0] = four.x;
        to->a[4 * group + 1] = four.y;
        to->a[4 * group + 2] = four.z;
        to->a[4 * group + 3] = four.w;
    }
#pragma unroll
    for (int group = 0; group < GROUPS_N; ++group) {
        float4 four = *(const float4 *)&from->b[k][column + group * LANES_N * 4];
        to->b[4 * group + 0] = four.x;
        to->b[4 * group + 1] = four.y;
        to->b[4 * group + 2] = four.z;
        to->b[4 * group + 3] = four.w;
    }
}

/* sum += a * b, every pair. Walking back and forth keeps one operand of neighbours the same. */
static __device__ inline void multiply_fragment(float sum[THREAD_N][THREAD_M], const fragment *from)
{
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
        for (int step = 0; step < THREAD_M; ++step) {
            int i = j % 2 ? THREAD_M - 1 - step : step;
            sum[j][i] = fmaf(from->a[i], from->b[j], sum[j][i]);
        }
    }
}

/* Four rows of one column of D, from row on; left counts the rows inside. */
static __device__ inline void store_four(const float sum[4], float alpha, float beta, const float *c,
                                         float *d, int64_t left, int vectors)
{
    if (vectors && left >= 4) {
        float4 four = make_float4(alpha * sum[0], alpha * sum[1], alpha * sum[2], alpha * sum[3]);
        if (beta != 0) {
            four.x = fmaf(alpha, sum[0], beta * c[0]);
            four.y = fmaf(alpha, sum[1], beta * c[1]);
            four.z = fmaf(alpha, sum[2], beta * c[2]);
            four.w = fmaf(alpha, sum[3], beta * c[3]);
        }
        *(float4 *)d = four;
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if (i < left) {
            d[i] = finish(sum[i], alpha, beta, beta != 0 ? c + i : c);
        }
    }
}

/* Stores the lane's sums: to D through alpha and beta, or bare where there are partial sums. */
static __device__ inline void store_tile(const gemm_arguments *arguments, block_share share,
                                         float sum[THREAD_N][THREAD_M], int row, int column)
{
    int bare = arguments->partials != 0;
    float alpha = bare ? 1 : scalar_value(arguments->alpha);
    float beta = bare ? 0 : scalar_value(arguments->beta);
    /* C is not pointed into where it is not read: it may be NULL then. */
    const float *c = beta != 0 ? (const float *)arguments->c + share.problem * arguments->stride_c : 0;
    float *d = (float *)arguments->d + share.problem * arguments->stride_d;
    int64_t ldc = arguments->ldc;
    int64_t ldd = arguments->ldd;
    if (bare) {
        d = (float *)arguments->partials +
            (share.problem * arguments->parts + share.part) * arguments->m * arguments->n;
        ldd = arguments->m;
    }
    int vectors = ldd % 4 == 0 && (uintptr_t)d % 16 == 0;
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
        int64_t at_n = share.column + column + j / 4 * LANES_N * 4 + j % 4;
        if (at_n < arguments->n) {
#pragma unroll
            for (int group = 0; group < GROUPS_M; ++group) {
                int64_t at_m = share.row + row + group * LANES_M * 4;
                store_four(&sum[j][4 * group], alpha, beta, beta != 0 ? c + at_m + at_n * ldc : c,
                           d + at_m + at_n * ldd, arguments->m - at_m, vectors);
            }
        }
    }
}

/*
 * Sums the block's products over length k. All tiles along k are full but the first, which takes what TILE_K
 * leaves over, so that the copies in the loop need not look where k ends. row and column are the lane's
 * first in the tile.
 */
static __device__ inline void sum_products(float sum[THREAD_N][THREAD_M], stage *stages, walks *next,
                                           int64_t length, int row, int column)
{
    int64_t tiles = length > 0 ? (length + TILE_K - 1) / TILE_K : 0;
    int first_length = (int)(length - (tiles - 1) * TILE_K);

    /* Fill all stages but one; a group is committed even when empty, so that counting groups works. */
    if (tiles > 0) {
        copy_part(&stages[0], next, first_length, 0, 1);
        advance(next, first_length);
    }
    copy_async_commit();
#pragma unroll
    for (int s = 1; s < STAGES - 1; ++s) {
        if (s < tiles) {
            copy_part(&stages[s], next, TILE_K, 0, 1);
            advance(next, TILE_K);
        }
        copy_async_commit();
    }

    int reading = 0;
    int writing = STAGES - 1;
    for (int64_t tile = 0; tile < tiles; ++tile) {
        /* This thread's copies of the stage have landed, then everybody's; and everybody has left the
         * stage read last time, which is the one that is filled next. */
        copy_async_wait(STAGES - 2);
        __syncthreads();
        int copying = tile + STAGES - 1 < tiles;
        fragment fragments[2];
        load_fragment(&fragments[0], &stages[reading], 0, row, column);
#pragma unroll
        for (int k = 0; k < TILE_K; ++k) {
            if (k + 1 < TILE_K) {
                load_fragment(&fragments[(k + 1) % 2], &stages[reading], k + 1, row, column);
            }
            if (copying && k % (TILE_K / COPY_PARTS) == 0) {
                copy_part(&stages[writing], next, TILE_K, k / (TILE_K / COPY_PARTS), COPY_PARTS);
            }
            /* Without this the compiler moves the next fragment's loads down to their first use. */
            __syncwarp();
            multiply_fragment(sum, &fragments[k % 2]);
        }
        copy_async_commit();
        advance(next, TILE_K);
        reading = reading + 1 == STAGES ? 0 : reading + 1;
        writing = writing + 1 == STAGES ? 0 : writing + 1;
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(gemm_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);
    block_share share = share_of_block(&arguments, BAND);
    if (scalar_value(arguments.alpha) == 0) {
        share.k_end = share.k_begin;
    }
    const float *a = (const float *)arguments.a + share.problem * arguments.stride_a +
                     share.row * (A_TURNED ? arguments.lda : 1) +
                     share.k_begin * (A_TURNED ? 1 : arguments.lda);
    const float *b = (const float *)arguments.b + share.problem * arguments.stride_b +
                     share.column * (B_TURNED ? arguments.ldb : 1) +
                     share.k_begin * (B_TURNED ? 1 : arguments.ldb);
    walks next;
    begin_walks(&next, a, b, &arguments, arguments.m - share.row, arguments.n - share.column);

    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int row = warp % WARPS_M * WARP_M + lane % LANES_M * 4;
    int column = warp / WARPS_M * WARP_N + lane / LANES_M * 4;
    float sum[THREAD_N][THREAD_M] = {{0}};
    sum_products(sum, stages, &next, share.k_end - share.k_begin, row, column);
    store_tile(&arguments, share, sum, row, column);
}
