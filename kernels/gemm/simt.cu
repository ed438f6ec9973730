/*
 * simt.cu - the portable product: every element type but 8-bit floats, every layout, any alignment, sm_75 and up.
 *
 * A block owns TILE_M x TILE_N of D, a thread THREAD_M x THREAD_N of that in registers. A lies in
 * memory along m or along k, B along n or along k, as trans_a and trans_b say; only the two functions that
 * copy know. In shared memory both are alike, tile[k][m] and tile[k][n]:
 *
 *     global memory --fetch--> registers --stow--> tiles (two of each) --read--> registers --> sums
 *
 *     fetch(first tile), stow, barrier
 *     for each tile of k:   fetch(next tile)  while  multiply(this one);  stow(next) in the others, barrier
 *
 * so that global memory has a whole tile's time to answer. Elements are widened when stowed (f16 and bf16 to
 * f32). A word of a shared tile holds one k, or four for s8, whose four products one dp4a adds.
 *
 * Groups of VECTOR rows and columns of a thread lie apart, so that a warp's reads of shared memory, 8 threads
 * along m by 4 along n, are 128 contiguous bytes and 64:
 *
 *        m ->  0    4    8   ...  64   68   72  ...        128 x 128, 8 x 8 a thread, in words:
 *             [t0 ][t1 ][t2 ]... [t0 ][t1 ][t2 ]...        thread t has rows 4t .. 4t + 3 and 64 more
 *
 * Needs: nothing. Columns that begin at multiples of VECTOR elements are read as vectors, others one
 * by one. With 8 x 8 a thread, 4 reads of shared memory go with 64 multiply-adds: the multiplying
 * unit is the limit, for f32 at about nine issue slots of ten.
 *
 * Rows with ACCURACY=BEST sum in f64, and f64 with compensation: what the best accuracy has where nothing is quicker,
 * for small products and where there is no tensor unit for f64.
 *
 * A row with RESCUES=1 computes only what rows with planes have refused to, from A and B as they were, and with as
 * small an error as theirs: but for short k, the sums of each tile of k are added to others by themselves, and what that
 * rounds away is kept and given back (Kahan).
 */
#include "kernel.h"

/* Elements moved at once, and rows (columns) that a thread owns side by side: 16 bytes of a tile. */
#if ELEMENT == ELEMENT_F64 || (defined(ACCURACY) && ACCURACY == ACCURACY_BEST)
#define VECTOR 2
#else
#define VECTOR 4
#endif

/* k in a word of a shared tile, and how many neighbouring threads fetch along k: 32 bytes where one k is a
 * word. */
#if ELEMENT == ELEMENT_S8
#define PACK 4
#define THREADS_ALONG_K 8
#else
#define PACK 1
#define THREADS_ALONG_K 2
#endif

#include "epilogue.h"
#include "load.h"
#include "running_sum.h"
#include "store.h"
#include "tiles.h"
#include "verdict.h"

#define BAND 8
#define DEPTH (TILE_K / PACK) /* words that a tile is deep */
#define PAD VECTOR            /* words between the rows of a tile, against bank conflicts */
#define GROUPS_M (THREAD_M / VECTOR)
#define GROUPS_N (THREAD_N / VECTOR)
#define WARPS_M (TILE_M / THREAD_M / 8) /* a warp is 8 x 4 threads */

#define PIECE (VECTOR * PACK) /* elements of a piece, what a thread fetches as one */
#define PIECES_A (TILE_M * TILE_K / PIECE / THREADS_X)
#define PIECES_B (TILE_N * TILE_K / PIECE / THREADS_X)

static_assert(WARPS_M * 8 * THREAD_M == TILE_M, "warps are 8 threads high");
static_assert(THREADS_X * THREAD_M * THREAD_N == TILE_M * TILE_N, "the threads tile the block");
static_assert(THREAD_M % VECTOR == 0 && THREAD_N % VECTOR == 0, "a thread owns whole groups");
static_assert(TILE_K % (THREADS_ALONG_K * VECTOR) == 0, "threads along k share a tile evenly");
static_assert(PIECES_A * THREADS_X * PIECE == TILE_M * TILE_K, "the threads share A's tile evenly");
static_assert(PIECES_B * THREADS_X * PIECE == TILE_N * TILE_K, "the threads share B's tile evenly");

/* A word of a shared tile is an accumulator: an element made wide, or four s8 side by side. */
typedef struct group {
    accumulator x[VECTOR];
} __attribute__((aligned(16))) group;

/* VECTOR neighbours in memory as a thread holds them between fetch and stow; see load.h for the arguments. */
#if ELEMENT == ELEMENT_S8
typedef uint32_t stretch;
static __device__ inline stretch load_stretch(const element *from, int inside, int aligned)
{
    if (aligned && inside >= VECTOR) {
        return *(const uint32_t *)from;
    }
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        word |= (i < inside ? (uint32_t)(uint8_t)from[i] : 0) << (8 * i);
    }
    return word;
}
#else
typedef vector stretch;
static __device__ inline stretch load_stretch(const element *from, int inside, int aligned)
{
    return load_vector(from, inside, aligned);
}
#endif

/* What a thread fetches as one: a stretch; for s8 four of them, a 4 x 4 square. */
typedef struct piece {
    stretch stretches[PACK];
} piece;

/* Rows (columns) and k from one place in a tile to another. */
typedef struct place {
    int at;
    int k;
} place;

/*
 * Where piece number `slot` begins in a tile that is `wide` rows (columns) wide. Neighbouring slots are
 * neighbours in memory. Thread t fetches the slots t, t + THREADS_X, ..., and as all these numbers are powers
 * of two, place(t + s) = place(t) + place(s) for its steps s.
 */
static __device__ inline place place_of(int slot, int wide, int along_k)
{
    place place;
    if (along_k) {
        int across = slot / THREADS_ALONG_K;
        place.at = across % (wide / PACK) * PACK;
        place.k = (slot % THREADS_ALONG_K + across / (wide / PACK) * THREADS_ALONG_K) * VECTOR;
    } else {
        place.at = slot % (wide / VECTOR) * VECTOR;
        place.k = slot / (wide / VECTOR) * PACK;
    }
    return place;
}

/* One operand as a thread walks along it: of op(A) TILE_M rows, of op(B) TILE_N columns, all of k. */
typedef struct strip {
    const element *from; /* this thread's first piece of the next tile */
    int64_t ld;
    place first; /* where in a tile that is */
    int left;    /* rows (columns) of a tile that lie in the matrix */
    int along_k; /* memory runs along k */
    int aligned; /* and every stretch of it begins where a vector may */
} strip;

static __device__ inline strip strip_of(const element *matrix, int64_t ld, int64_t first, int64_t count,
                                        int64_t k, int wide, int along_k)
{
    strip strip;
    strip.ld = ld;
    strip.first = place_of((int)threadIdx.x, wide, along_k);
    strip.left = count - first < wide ? (int)(count - first) : wide;
    strip.along_k = along_k;
    strip.aligned = columns_aligned(matrix, ld);
    first += strip.first.at;
    k += strip.first.k;
    strip.from = matrix + (along_k ? k + first * ld : first + k * ld);
    return strip;
}

/* Fetches this thread's pieces of the next tile, of which left x k_left elements lie in the matrix. */
static __device__ inline void fetch(piece *pieces, int count, const strip *from, int wide, int left,
                                    int k_left)
{
#pragma unroll
    for (int number = 0; number < count; ++number) {
        place step = place_of(number * THREADS_X, wide, from->along_k);
        int wide_left = left - from->first.at - step.at;
        int depth_left = k_left - from->first.k - step.k;
#pragma unroll
        for (int line = 0; line < PACK; ++line) {
            if (from->along_k) {
                pieces[number].stretches[line] =
                    load_stretch(from->from + (step.at + line) * from->ld + step.k,
                                 line < wide_left ? depth_left : 0, from->aligned);
            } else {
                pieces[number].stretches[line] =
                    load_stretch(from->from + (step.k + line) * from->ld + step.at,
                                 line < depth_left ? wide_left : 0, from->aligned);
            }
        }
    }
}

/* Goes on to the next tile. */
static __device__ inline void advance(strip *strip)
{
    strip->from += strip->along_k ? TILE_K : TILE_K * strip->ld;
}

#if ELEMENT == ELEMENT_S8

/* The words of a piece, for four rows (columns) side by side: its stretches, turned where they lie across k.
 */
static __device__ inline group words_of_piece(const piece *piece, int along_k)
{
    uint32_t w0 = piece->stretches[0];
    uint32_t w1 = piece->stretches[1];
    uint32_t w2 = piece->stretches[2];
    uint32_t w3 = piece->stretches[3];
    group words = {{w0, w1, w2, w3}};
    if (!along_k) {
        uint32_t even01 = (w0 & 0x00ff00ffu) | (w1 & 0x00ff00ffu) << 8;
        uint32_t even23 = (w2 & 0x00ff00ffu) | (w3 & 0x00ff00ffu) << 8;
        uint32_t odd01 = (w0 >> 8 & 0x00ff00ffu) | (w1 & 0xff00ff00u);
        uint32_t odd23 = (w2 >> 8 & 0x00ff00ffu) | (w3 & 0xff00ff00u);
        words.x[0] = (even01 & 0xffffu) | even23 << 16;
        words.x[1] = (odd01 & 0xffffu) | odd23 << 16;
        words.x[2] = even01 >> 16 | (even23 & 0xffff0000u);
        words.x[3] = odd01 >> 16 | (odd23 & 0xffff0000u);
    }
    return words;
}

static __device__ inline void stow_piece(accumulator *tile, int row_words, const piece *piece, place place,
                                         int along_k)
{
    *(group *)&tile[place.k / PACK * row_words + place.at] = words_of_piece(piece, along_k);
}

static __device__ inline void add_words(running_sum *sum, accumulator a, accumulator b)
{
    *sum = dot4_s8(a, b, *sum);
}

#else

static __device__ inline void stow_piece(accumulator *tile, int row_words, const piece *piece, place place,
                                         int along_k)
{
    group words;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        words.x[i] = widen(piece->stretches[0].x[i]);
    }
    if (along_k) {
#pragma unroll
        for (int i = 0; i < VECTOR; ++i) {
            tile[(place.k + i) * row_words + place.at] = words.x[i];
        }
    } else {
        *(group *)&tile[place.k * row_words + place.at] = words;
    }
}

static __device__ inline void add_words(running_sum *sum, accumulator a, accumulator b)
{
    add_product(sum, a, b);
}

#endif

/* Stows this thread's pieces in a shared tile. */
static __device__ inline void stow(accumulator *tile, const piece *pieces, int count, const strip *from,
                                   int wide)
{
#pragma unroll
    for (int number = 0; number < count; ++number) {
        place place = place_of(number * THREADS_X, wide, from->along_k);
        place.at += from->first.at;
        place.k += from->first.k;
        stow_piece(tile, wide + PAD, &pieces[number], place, from->along_k);
    }
}

typedef accumulator tile_a_type[DEPTH][TILE_M + PAD];
typedef accumulator tile_b_type[DEPTH][TILE_N + PAD];

/* Adds the products of two tiles; row and column are the thread's first in the block's tile. */
static __device__ inline void multiply(running_sum sum[THREAD_N][THREAD_M], const tile_a_type tile_a,
                                       const tile_b_type tile_b, int row, int column)
{
#pragma unroll
    for (int k = 0; k < DEPTH; ++k) {
        group a[GROUPS_M];
        group b[GROUPS_N];
#pragma unroll
        for (int i = 0; i < GROUPS_M; ++i) {
            a[i] = *(const group *)&tile_a[k][row + i * (TILE_M / GROUPS_M)];
        }
#pragma unroll
        for (int j = 0; j < GROUPS_N; ++j) {
            b[j] = *(const group *)&tile_b[k][column + j * (TILE_N / GROUPS_N)];
        }
#pragma unroll
        for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                add_words(&sum[j][i], a[i / VECTOR].x[i % VECTOR], b[j / VECTOR].x[j % VECTOR]);
            }
        }
    }
}

#ifdef RESCUES

/* The words that say which parts of D are left to the row; NULL: all of D is. A warp asks; all lanes agree. */
static __device__ inline const uint32_t *left_words(const verdict_arguments *verdict)
{
    return verdict_refuses(verdict) ? verdict->earlier : verdict->spoiled;
}

/* Whether something of the block's tile is left. A warp asks; all lanes agree. */
static __device__ inline int is_left(const gemm_arguments *arguments, const uint32_t *left)
{
    if (left == 0) {
        return 1;
    }
    block_share share = share_of_block(arguments, BAND);
    int64_t m = arguments->m - share.row < TILE_M ? arguments->m - share.row : TILE_M;
    int64_t n = arguments->n - share.column < TILE_N ? arguments->n - share.column : TILE_N;
    int32_t rows = arguments->verdict.spoiled_rows;
    int first = (int)(share.row % rows);
    int words_m = (first + (int)m - 1) / rows + 1;
    int words = words_m * (((int)n + SPOILED_COLUMNS - 1) / SPOILED_COLUMNS);
    uint32_t spoiled = 0;
    for (int i = (int)threadIdx.x % 32; i < words; i += 32) {
        spoiled |= left[spoiled_place(
            &arguments->verdict, arguments->m, arguments->n, share.problem * arguments->parts + share.part,
            share.row - first + i % words_m * rows, share.column + i / words_m * SPOILED_COLUMNS)];
    }
    return warp_max(spoiled) != 0;
}

/* From here on of k sums are moved; below, one chain has no more roundings than several and the way from one to another. */
#define LEAST_MOVED_K 128

/* What the sums of earlier tiles of k came to, and how much that is more than they were. */
typedef struct moved_sums {
    float sum[THREAD_N][THREAD_M];
    float excess[THREAD_N][THREAD_M];
} moved_sums;

/* Adds the sums of a tile of k to those before, and clears them. What is not finite comes out as a plain sum has it. */
static __device__ inline void move_sums(moved_sums *moved, float sum[THREAD_N][THREAD_M])
{
#pragma unroll
    for (int j = 0; j < THREAD_N; ++j) {
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            float added = __fsub_rn(sum[j][i], moved->excess[j][i]);
            float next = __fadd_rn(moved->sum[j][i], added);
            float excess = __fsub_rn(__fsub_rn(next, moved->sum[j][i]), added);
            moved->excess[j][i] = fabsf(excess) < __uint_as_float(0x7f800000u) ? excess : 0;
            moved->sum[j][i] = next;
            sum[j][i] = 0;
        }
    }
}

#endif

#ifdef EPILOGUE

static __device__ inline void store_element(const gemm_arguments *arguments, const epilogue_scalars *scalars,
                                            int64_t problem, int64_t i, int64_t j, float sum)
{
    epilogue_element(&arguments->epilogue, scalars, problem, i, j, sum, arguments->c,
                     problem * arguments->stride_c + i + j * arguments->ldc, arguments->d,
                     problem * arguments->stride_d + i + j * arguments->ldd);
}

#endif

/* The sums of column j, by which registers cannot be numbered as the kernel runs. */
static __device__ inline void pick_column(const running_sum sum[THREAD_N][THREAD_M], int j,
                                          accumulator column[THREAD_M])
{
#pragma unroll
    for (int other = 0; other < THREAD_N; ++other) {
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            column[i] = other == j ? sum_of(&sum[other][i]) : column[i];
        }
    }
}

/* Stores the thread's sums: to D through the epilogue, or bare where there are partial sums. */
static __device__ inline void store(const gemm_arguments *arguments, const block_share *share,
                                    running_sum sum[THREAD_N][THREAD_M], int row, int column,
                                    const uint32_t *left)
{
    (void)left;
    int bare = arguments->partials != 0;
#ifdef EPILOGUE
    epilogue_scalars scalars = epilogue_scalars_of(&arguments->epilogue, arguments->alpha, arguments->beta);
#else
    accumulator alpha = scalar_value(arguments->alpha);
    accumulator beta = scalar_value(arguments->beta);
#endif
    accumulator *partials = (accumulator *)arguments->partials +
                            (share->problem * arguments->parts + share->part) * arguments->m * arguments->n;
#ifdef EPILOGUE
#pragma unroll 1 /* it is long, and stands here for one column */
#else
#pragma unroll
#endif
    for (int j = 0; j < THREAD_N; ++j) {
        int64_t at_n = share->column + column + j / VECTOR * (TILE_N / GROUPS_N) + j % VECTOR;
        accumulator of_column[THREAD_M] = {0};
        pick_column(sum, j, of_column);
#pragma unroll
        for (int i = 0; i < THREAD_M; ++i) {
            int64_t at_m = share->row + row + i / VECTOR * (TILE_M / GROUPS_M) + i % VECTOR;
            if (at_m >= arguments->m || at_n >= arguments->n) {
                continue;
            }
#ifdef RESCUES
            if (left &&
                left[spoiled_place(&arguments->verdict, arguments->m, arguments->n,
                                   share->problem * arguments->parts + share->part, at_m, at_n)] == 0) {
                continue;
            }
#endif
            if (bare) {
                partials[at_m + at_n * arguments->m] = of_column[i];
            } else {
#ifdef EPILOGUE
                store_element(arguments, &scalars, share->problem, at_m, at_n, of_column[i]);
#else
                store_result(arguments, share->problem, at_m, at_n, of_column[i], alpha, beta);
#endif
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
#ifdef RESCUES
    wait_for_kernels_before();
    if (arguments.verdict.left && *arguments.verdict.left == 0) {
        return;
    }
    const uint32_t *parts_left = left_words(&arguments.verdict);
    if (!is_left(&arguments, parts_left)) {
        return;
    }
#else
    const uint32_t *parts_left = 0;
#endif
    __shared__ __align__(16) tile_a_type tile_a[2];
    __shared__ __align__(16) tile_b_type tile_b[2];

    __shared__ block_share share_of_all;

    block_share share = share_of_block(&arguments, BAND);
    if (threadIdx.x == 0) {
        share_of_all = share;
    }
    int64_t k_end = scalar_value(arguments.alpha) == 0 ? share.k_begin : share.k_end;

    strip a = strip_of((const element *)arguments.a + share.problem * arguments.stride_a, arguments.lda,
                       share.row, arguments.m, share.k_begin, TILE_M, arguments.trans_a != 0);
    strip b = strip_of((const element *)arguments.b + share.problem * arguments.stride_b, arguments.ldb,
                       share.column, arguments.n, share.k_begin, TILE_N, arguments.trans_b == 0);
    int whole = a.left == TILE_M && b.left == TILE_N;

    int warp = (int)threadIdx.x / 32;
    int lane = (int)threadIdx.x % 32;
    int row = (warp % WARPS_M * 8 + lane % 8) * VECTOR;
    int column = (warp / WARPS_M * 4 + lane / 8) * VECTOR;

    piece pieces_a[PIECES_A];
    piece pieces_b[PIECES_B];
    running_sum sum[THREAD_N][THREAD_M] = {};
#ifdef RESCUES
    moved_sums moved = {{{0}}, {{0}}};
#endif
    int now = 0;
    int stowed = 0;                       /* tiles `now` hold something to multiply */
    int64_t left = k_end - share.k_begin; /* k that nobody has fetched */
    do {
        if (whole && left >= TILE_K) {
            fetch(pieces_a, PIECES_A, &a, TILE_M, TILE_M, TILE_K);
            fetch(pieces_b, PIECES_B, &b, TILE_N, TILE_N, TILE_K);
        } else if (left > 0) {
            int k_left = left < TILE_K ? (int)left : TILE_K;
            fetch(pieces_a, PIECES_A, &a, TILE_M, a.left, k_left);
            fetch(pieces_b, PIECES_B, &b, TILE_N, b.left, k_left);
        }
        advance(&a);
        advance(&b);
        if (stowed) {
            multiply(sum, tile_a[now], tile_b[now], row, column);
#ifdef RESCUES
            if (arguments.k >= LEAST_MOVED_K || left <= 0) {
                move_sums(&moved, sum);
            }
#endif
        }
        stowed = left > 0;
        if (stowed) {
            now ^= 1;
            stow(&tile_a[now][0][0], pieces_a, PIECES_A, &a, TILE_M);
            stow(&tile_b[now][0][0], pieces_b, PIECES_B, &b, TILE_N);
        }
        left -= TILE_K;
        __syncthreads();
    } while (stowed);
#ifdef RESCUES
    store(&arguments, &share_of_all, moved.sum, row, column, parts_left);
#else
    store(&arguments, &share_of_all, sum, row, column, parts_left);
#endif
}
