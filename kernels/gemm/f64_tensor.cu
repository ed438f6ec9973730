/*
 * f64_tensor.cu - float64 products on the double-precision tensor instruction: strict ones of f64 (rung 9 for f64), and
 * those of narrower floats in best accuracy, which a pack has widened: then alpha, beta, C and D may be f32, and what
 * becomes of a sum is computed in f64 and rounded once.
 *
 * One mma_f64_16x8x8 adds 16 x 8 of A times 8 x 8 of B to 16 x 8 sums spread over a warp: 1024 fused
 * multiply-adds in one instruction, which keeps the unit busy for 32 cycles where a warp of scalar fma does
 * 32 in 2. So instructions are plentiful and it is waiting that costs: two warps a scheduler must always have
 * a product ready. Fragments are read one step ahead, and the barrier stands one step before the tile it
 * waits for.
 *
 *        block 64 x 64              warp 32 x 32: 2 x 4 instructions
 *     +-----------+-----------+       +----+----+----+----+
 *     |     0     |     2     |       |16x8|    |    |    |
 *     +-----------+-----------+       +----+----+----+----+
 *     |     1     |     3     |       |    |    |    |    |
 *     +-----------+-----------+       +----+----+----+----+
 *
 * A warp reads (32 + 32) * 8 doubles for 8 instructions: two warps a scheduler ask for 64 of the 128 bytes a cycle that
 * shared memory gives. On Hopper most of this is f64_bulk.cu's work, where the copy engine can load A and B; this is for
 * what lies anywhere, and for devices after it.
 *
 * An operand's shared tile lies as its memory does, so nothing is turned: the instruction's lanes read
 * single doubles, lane = 4 * group + member at (row = group, k = member). Rows of the shared tile
 * are 4 doubles longer than a multiple of 16: then the 4 x 4 doubles that half a warp reads in one go
 * lie in 16 different pairs of banks, whichever way the tile lies.
 *
 *     runs along m:  tile[k][m], address k * (TILE_M + 4) + m
 *     runs along k:  tile[m][k], address m * (TILE_K + 4) + k
 *
 * Needs: sm_90. LAYOUT fixed by the build. A and B, their columns and strides, and k where an operand runs
 * along it, aligned to ALIGNMENT bytes (16: copies of two doubles; 8: of one, for anything). Leading
 * dimensions up to LD_LIMIT, so that offsets within a tile fit 32 bits.
 */
#include "kernel.h"

#include "epilogue.h"

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT) /* A's memory runs along k */
#define B_ALONG_K (LAYOUT == LAYOUT_NN || LAYOUT == LAYOUT_TN) /* B's memory runs along k */

#define WARPS_M (TILE_M / WARP_M)
#define MMA_M 16
#define MMA_N 8
#define MMA_K 8
#define ROWS (WARP_M / MMA_M)    /* instructions down a warp's tile */
#define COLUMNS (WARP_N / MMA_N) /* and across it */

#define PAD 4
#define A_LENGTH (A_ALONG_K ? TILE_K : TILE_M) /* of a contiguous row of the shared tile, and how many */
#define A_COUNT (A_ALONG_K ? TILE_M : TILE_K)
#define B_LENGTH (B_ALONG_K ? TILE_K : TILE_N)
#define B_COUNT (B_ALONG_K ? TILE_N : TILE_K)
#define A_STEP_M (A_ALONG_K ? TILE_K + PAD : 1) /* doubles from one m to the next in shared memory */
#define A_STEP_K (A_ALONG_K ? 1 : TILE_M + PAD)
#define B_STEP_N (B_ALONG_K ? TILE_K + PAD : 1)
#define B_STEP_K (B_ALONG_K ? 1 : TILE_N + PAD)
#define COPY_DOUBLES (ALIGNMENT / 8)
#define A_STEP (THREADS_X / (A_LENGTH / COPY_DOUBLES)) /* rows from one piece of a thread to its next */
#define B_STEP (THREADS_X / (B_LENGTH / COPY_DOUBLES))
#define A_PIECES (A_COUNT / A_STEP)
#define B_PIECES (B_COUNT / B_STEP)
#define BAND 8

typedef struct stage {
    double a[A_COUNT][A_LENGTH + PAD];
    double b[B_COUNT][B_LENGTH + PAD];
} stage;

#include "tiles.h"

/* The block's share waits here for the epilogue: the loop has no register left for it. */
typedef struct shared_memory {
    stage stages[STAGES];
    block_share share;
} shared_memory;

static_assert(ELEMENT == ELEMENT_F64, "the sums are double");
static_assert(THREADS_X == 32 * WARPS_M * (TILE_N / WARP_N), "the warps tile the block");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(TILE_K % 16 == 0 && TILE_M % 16 == 0 && TILE_N % 16 == 0,
              "rows of a tile keep off each other's banks");
static_assert(TILE_K % (2 * MMA_K) == 0, "fragments change places an even number of times a tile");
static_assert(A_COUNT % A_STEP == 0 && B_COUNT % B_STEP == 0, "the threads' pieces cover a tile");
static_assert((int64_t)(TILE_M > TILE_N ? TILE_M : TILE_N) * LD_LIMIT * 8 <= (int64_t)1 << 32,
              "offsets fit 32 bits");

/*
 * A thread's share of a tile is a number of pieces, one cp.async each: the same place of every A_STEP-th
 * (B_STEP-th) row of the tile, a row being what is contiguous in memory.
 *
 * Rows and places beyond the edge in m or n are read again from the last one inside: what they add goes to
 * sums that are not stored. Beyond the end of k there must be zeros.
 *
 * A walk is where a thread copies an operand's tile from and to.
 */
typedef struct walk {
    const char *source; /* the thread's first piece at the k that comes next; along k: row 0 */
    int64_t bytes_per_k;
    uint32_t ld_bytes;
    int row;         /* the thread's first row in a tile */
    int last_row;    /* inside, along k */
    int k;           /* its first k */
    int bytes;       /* of a piece; fewer at the edge in m or n */
    int destination; /* its first double in the shared tile */
} walk;

/* The last place inside, for places beyond the edge. */
static __device__ inline int clamp(int place, int64_t left) { return place < left ? place : (int)left - 1; }

/* The walk over an operand whose tile begins at from and which has left rows (columns of B) to the edge. */
static __device__ inline walk begin_walk(const double *from, int64_t ld, int64_t left, int along_k, int count,
                                         int length)
{
    int across = length / COPY_DOUBLES;
    int at = (int)threadIdx.x % across * COPY_DOUBLES;
    walk w;
    w.row = (int)threadIdx.x / across;
    w.destination = w.row * (length + PAD) + at;
    w.k = along_k ? at : w.row;
    w.bytes = 8 * COPY_DOUBLES;
    w.bytes_per_k = 8 * (along_k ? 1 : ld);
    w.ld_bytes = (uint32_t)ld * 8;
    w.last_row = clamp(count - 1, left);
    if (!along_k) {
        at = clamp(at, left) / COPY_DOUBLES * COPY_DOUBLES;
        w.bytes = left - at < COPY_DOUBLES ? 8 : 8 * COPY_DOUBLES;
    }
    w.source = (const char *)(from + at + (along_k ? 0 : w.row * ld));
    return w;
}

/* Unrolled whole, the many pieces of single doubles would take registers that the sums need. */
enum { PIECES_AT_ONCE = COPY_DOUBLES == 2 ? 4 : 2 };

/* Starts all pieces of a tile of which k_left k lie inside; with the constant TILE_K nothing is checked. */
static __device__ inline void copy_pieces(double *to, const walk *w, int along_k, int step, int pieces,
                                          int length, int k_left)
{
#pragma unroll PIECES_AT_ONCE
    for (int piece = 0; piece < pieces; ++piece) {
        int inside = k_left == TILE_K ? TILE_K : k_left - w->k - (along_k ? 0 : piece * step);
        int bytes = inside <= 0 ? 0 : w->bytes;
        int row = piece * step;
        if (along_k) {
            row = w->row + row < w->last_row ? w->row + row : w->last_row;
        }
        const char *source = w->source + (bytes ? (uint32_t)row * w->ld_bytes : -w->k * w->bytes_per_k);
        double *destination = to + w->destination + piece * step * (length + PAD);
#if COPY_DOUBLES == 2
        copy_async_16(destination, source, bytes);
#else
        copy_async_8(destination, source, bytes);
#endif
    }
}

/* Both walks of a thread. */
typedef struct walks {
    walk a;
    walk b;
} walks;

/* Starts the copies of both next tiles, k_left long, and goes on by as much. */
static __device__ inline void copy_tiles(stage *to, walks *w, int k_left)
{
    copy_pieces(&to->a[0][0], &w->a, A_ALONG_K, A_STEP, A_PIECES, A_LENGTH, k_left);
    copy_pieces(&to->b[0][0], &w->b, B_ALONG_K, B_STEP, B_PIECES, B_LENGTH, k_left);
    w->a.source += k_left * w->a.bytes_per_k;
    w->b.source += k_left * w->b.bytes_per_k;
}

/* A lane's part of MMA_K k of a warp's tile of A; from is its first element there. */
static __device__ inline void load_a(double to[ROWS][MMA_K / 2], const double *from)
{
#pragma unroll
    for (int row = 0; row < ROWS; ++row) {
#pragma unroll
        for (int step = 0; step < MMA_K / 4; ++step) {
            to[row][2 * step + 0] = from[row * MMA_M * A_STEP_M + 4 * step * A_STEP_K];
            to[row][2 * step + 1] = from[row * MMA_M * A_STEP_M + 4 * step * A_STEP_K + 8 * A_STEP_M];
        }
    }
}

/* The same of eight columns of B. */
static __device__ inline void load_b(double to[MMA_K / 4], const double *from)
{
#pragma unroll
    for (int step = 0; step < MMA_K / 4; ++step) {
        to[step] = from[4 * step * B_STEP_K];
    }
}

/* Stores the lane's sums: to D, of f64 or f32, through alpha and beta, or bare where there are partial sums. */
static __device__ inline void store_tile(const gemm_arguments *arguments, block_share share,
                                         double sum[ROWS][COLUMNS][4], int row, int column)
{
    int bare = arguments->partials != 0;
    int narrows = !bare && arguments->epilogue.result_type != ELEMENT_F64;
    double alpha = bare ? 1 : narrows ? scalar_f32(arguments->alpha) : scalar_f64(arguments->alpha);
    double beta = bare ? 0 : narrows ? scalar_f32(arguments->beta) : scalar_f64(arguments->beta);
    int64_t at_c = share.problem * arguments->stride_c;
    int64_t at_d = share.problem * arguments->stride_d;
    int64_t ldc = arguments->ldc;
    int64_t ldd = arguments->ldd;
    void *d = arguments->d;
    if (bare) {
        at_d = (share.problem * arguments->parts + share.part) * arguments->m * arguments->n;
        ldd = arguments->m;
        d = arguments->partials;
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int64_t at_m = share.row + row + i * MMA_M + e / 2 * 8;
                int64_t at_n = share.column + column + j * MMA_N + e % 2;
                if (at_m >= arguments->m || at_n >= arguments->n) {
                    continue;
                }
                double value = alpha * sum[i][j][e];
                if (beta != 0) { /* else C is not read, and may be NULL */
                    int64_t of_c = at_c + at_m + at_n * ldc;
                    double c =
                        narrows ? ((const float *)arguments->c)[of_c] : ((const double *)arguments->c)[of_c];
                    value = fma(alpha, sum[i][j][e], beta * c);
                }
                int64_t of_d = at_d + at_m + at_n * ldd;
                if (narrows) {
                    ((float *)d)[of_d] = (float)value;
                } else {
                    ((double *)d)[of_d] = value;
                }
            }
        }
    }
}

/*
 * Sums the block's products over length k. a_first and b_first are the lane's first elements in the shared
 * tiles. All tiles along k are full but the first, which takes what TILE_K leaves over.
 *
 * While a fragment is multiplied the next one is read, the first one of the next tile too: so the wait for
 * that tile stands before the last fragment of this one. A's fragments change places; a column of B's is read
 * anew as soon as it has been used, which saves the registers of a second one.
 */
static __device__ inline void sum_products(double sum[ROWS][COLUMNS][4], stage *stages, walks *next,
                                           int64_t length, int a_first, int b_first)
{
    int64_t tiles = length > 0 ? (length + TILE_K - 1) / TILE_K : 0;

    /* Fill all stages but one; a group is committed even when empty, so that counting groups works. */
    if (tiles > 0) {
        copy_tiles(&stages[0], next, (int)(length - (tiles - 1) * TILE_K));
    }
    copy_async_commit();
#pragma unroll
    for (int s = 1; s < STAGES - 1; ++s) {
        if (s < tiles) {
            copy_tiles(&stages[s], next, TILE_K);
        }
        copy_async_commit();
    }
    copy_async_wait(STAGES - 2);
    __syncthreads();

    double a_part[2][ROWS][MMA_K / 2];
    double b_part[COLUMNS][MMA_K / 4];
    if (tiles > 0) {
        load_a(a_part[0], &stages[0].a[0][0] + a_first);
#pragma unroll
        for (int column = 0; column < COLUMNS; ++column) {
            load_b(b_part[column], &stages[0].b[0][0] + b_first + column * MMA_N * B_STEP_N);
        }
    }
    int reading = 0;
    int writing = STAGES - 1;
    for (int64_t tile = 0; tile < tiles; ++tile) {
        int following = reading + 1 == STAGES ? 0 : reading + 1;
        if (tile + STAGES - 1 < tiles) {
            copy_tiles(&stages[writing], next, TILE_K);
        }
        copy_async_commit();
#pragma unroll
        for (int k = 0; k < TILE_K; k += MMA_K) {
            int now = k / MMA_K % 2;
            const double *a = &stages[reading].a[0][0] + a_first + (k + MMA_K) * A_STEP_K;
            const double *b = &stages[reading].b[0][0] + b_first + (k + MMA_K) * B_STEP_K;
            if (k + MMA_K == TILE_K) {
                /* This thread's copies of the next stage have landed, then everybody's; and everybody has
                 * read all of this one, which the next copies may fill. */
                copy_async_wait(STAGES - 2);
                __syncthreads();
                a = &stages[following].a[0][0] + a_first;
                b = &stages[following].b[0][0] + b_first;
            }
            load_a(a_part[1 - now], a);
#pragma unroll
            for (int column = 0; column < COLUMNS; ++column) {
#pragma unroll
                for (int row = 0; row < ROWS; ++row) {
                    mma_f64_16x8x8(sum[row][column], a_part[now][row], b_part[column]);
                }
                load_b(b_part[column], b + column * MMA_N * B_STEP_N);
            }
        }
        writing = reading;
        reading = following;
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    block_share share = share_of_block(&arguments, BAND);
    if (alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        share.k_end = share.k_begin;
    }
    if (threadIdx.x == 0) {
        shared->share = share;
    }
    int64_t lda = arguments.lda;
    int64_t ldb = arguments.ldb;
    const double *a = (const double *)arguments.a + share.problem * arguments.stride_a +
                      share.row * (A_ALONG_K ? lda : 1) + share.k_begin * (A_ALONG_K ? 1 : lda);
    const double *b = (const double *)arguments.b + share.problem * arguments.stride_b +
                      share.column * (B_ALONG_K ? ldb : 1) + share.k_begin * (B_ALONG_K ? 1 : ldb);
    walks next;
    next.a = begin_walk(a, lda, arguments.m - share.row, A_ALONG_K, A_COUNT, A_LENGTH);
    next.b = begin_walk(b, ldb, arguments.n - share.column, B_ALONG_K, B_COUNT, B_LENGTH);

    int warp = (int)threadIdx.x / 32;
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
    int warp_row = warp % WARPS_M * WARP_M;
    int warp_column = warp / WARPS_M * WARP_N;
    int a_first = (warp_row + group) * A_STEP_M + member * A_STEP_K;
    int b_first = (warp_column + group) * B_STEP_N + member * B_STEP_K;
    double sum[ROWS][COLUMNS][4] = {{{0}}};
    sum_products(sum, shared->stages, &next, share.k_end - share.k_begin, a_first, b_first);
    store_tile(&arguments, shared->share, sum, warp_row + group, warp_column + 2 * member);
}
