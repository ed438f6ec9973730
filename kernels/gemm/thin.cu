/*
 * thin.cu - products of which one operand is thin: up to 16 columns of op(B), or rows of op(A) where the row has
 * SWAPPED=1. The other operand is long. It is read once, and nothing of it could be used again: all depends on
 * how fast that goes. f32 and f64 by fused multiply-adds; f16, bf16, s8 and, with ACCURACY=FAST, f32 rounded to tf32 on
 * the tensor unit, since with 8 columns the multiply-adds of the plain unit would already take longer than the reading.
 *
 *                  thin                  A block owns a tile of D, WARP_K warps share its k:
 *                 +----+
 *               k |    |                     k -->
 *          k      |    |                     +------+------+------+------+------+--
 *      +--------+ +----+                     | warp | warp | warp | warp | warp |
 *      |        | |    |               rows  |  0   |  1   |  2   |  3   |  0   |  ..
 *  long|        | | D  |                     +------+------+------+------+------+--
 *      |        | |    |                       STAGES chunks of 64 bytes along k each
 *      +--------+ +----+
 *
 * Nothing goes through shared memory on the way in. A warp takes ROWS * 8 rows of the long operand and a chunk
 * of 64 bytes of k at a time, lane 4 * group + member
 *
 *     along k     rows group, group + 8, ..: 16 bytes along k of each, number `member` of the chunk's four
 *     across k    rows group * ROWS + 0, 1, ..: of each k in the same 16 bytes, ROWS rows with one load,
 *                 which then turns round in registers
 *
 * so that in both cases it ends up with 16 bytes along k of each of ROWS rows: a fragment. Of the thin operand
 * it takes the same 16 bytes of k. That is how the tensor instruction wants its operands but for the order of k,
 * which is any as long as both have the same: each word of 4 bytes goes where the instruction has a word.
 * The loads of STAGES chunks are on the way together; that, times the threads of a multiprocessor, has to cover
 * the time that memory takes. The thin operand comes from L1 and L2.
 *
 * In the end the warps' sums (and those of the four members, where multiply-adds made them) are added in a fixed
 * order through shared memory.
 *
 * Needs: nothing; any shape, alignment and layout. Where the long operand is not aligned to the loads, each is
 * put together from two aligned ones. That reads up to 16 bytes on either side of what belongs to it, so
 * the first and the last chunk of k, from where such bytes might lie outside of the matrix, are read element by
 * element, as is what is no whole chunk. Thin operands that are not aligned along k are read so too.
 * Rows beyond the edge are read from the last one inside, and their sums are not stored.
 */
#include "kernel.h"

#include "epilogue.h"
#include "store_sum.h"
#include "thin_tile.h"
#include "tiles.h"

/* Where f32 need only be fast, it is rounded to tf32. */
#if ELEMENT == ELEMENT_F32 && defined(ACCURACY)
#define TF32 1
#else
#define TF32 0
#endif
#define TENSOR (TF32 || (ELEMENT != ELEMENT_F32 && ELEMENT != ELEMENT_F64))

enum {
    SIZE = sizeof(element),
    WORDS = 4,                /* of 4 bytes in a piece, the 16 bytes of k that a lane takes of a row */
    PIECE = 4 * WORDS / SIZE, /* its elements */
    MEMBERS = 4,              /* lanes along k */
    CHUNK = MEMBERS * PIECE,
    ROWS = WARP_LONG / 8,
    STACK_WORDS = ROWS * SIZE / 4, /* of a load across k: ROWS elements */
    WARPS_LONG = TILE_LONG / WARP_LONG,
    WARPS_K = THREADS_X / 32 / WARPS_LONG,
    SLOTS = WARPS_K * (TENSOR ? 1 : MEMBERS), /* sums of one element of D that different lanes have */
    PITCH = TILE_LONG + 4,                    /* between columns of sums, against bank conflicts */
    /* Columns that go through shared memory at a time. */
    COLUMN_BYTES = SLOTS * PITCH * (int)sizeof(accumulator),
    FITTING = 40960 / COLUMN_BYTES,
    PASS = FITTING >= TILE_THIN ? TILE_THIN
           : FITTING >= 8       ? 8
           : FITTING >= 4       ? 4
           : FITTING >= 2       ? 2
                                : 1,
    /* What is multiplied at a time, in words of a piece, and a lane's pieces of the thin operand for a chunk. */
    STEP = TENSOR ? 2 : SIZE / 4,
    THIN_PIECES = TENSOR ? TILE_THIN / 8 : TILE_THIN,
    /* Whether the thin operand's pieces are fetched with the long one's, or, where they are many, when their
     * turn comes. */
    THIN_AHEAD = THIN_PIECES <= 2,
    /* Rows that are loaded together where elements are loaded one by one. */
    ENDS = TENSOR      ? 2
           : SIZE == 8 ? 1
                       : ROWS
};

static_assert(WARPS_LONG * WARP_LONG == TILE_LONG && WARP_THIN == TILE_THIN, "warps tile the block");
static_assert(WARPS_K * WARPS_LONG * 32 == THREADS_X && WARPS_K >= 1, "and share its k");
static_assert(ROWS % 2 == 0, "an instruction takes two rows of a lane");
static_assert(STACK_WORDS == 1 || STACK_WORDS == 2 || STACK_WORDS == 4, "there is a load of that width");
static_assert(TILE_K == CHUNK * STAGES * WARPS_K, "a tile is what the warps have on the way");
static_assert(!TENSOR || TILE_THIN % 8 == 0, "the instruction has eight columns");
static_assert(PASS * COLUMN_BYTES <= 49152, "the sums fit static shared memory");

/* 16 bytes along k of one row. */
typedef struct piece {
    uint32_t x[WORDS];
} piece;

/* What a lane loads of a chunk, ROWS pieces along k or PIECE stacks across it. */
typedef struct fragment {
    uint32_t x[ROWS * WORDS];
} fragment;

#if TENSOR
typedef accumulator sums[ROWS / 2][4 * THIN_PIECES];
#else
typedef accumulator sums[ROWS][THIN_PIECES];
#endif

/* ---- Operands ------------------------------------------------------------------------------- */

/*
 * One operand of one problem: `count` rows of the long one or columns of the thin one. Element (i, k) stands at
 * from[k + i * ld] where memory runs along k, else at from[i + k * ld].
 */
typedef struct operand {
    const element *from;
    int64_t ld;
    int64_t count;
    int along_k;
} operand;

static __device__ inline operand operand_of(const void *base, int64_t at, int64_t ld, int64_t count,
                                            int along_k)
{
    operand operand = {(const element *)base + at, ld, count, along_k};
    if (count == 1 && ld == 1) {
        operand.along_k = 1; /* one vector without gaps, whichever way it was meant */
    }
    if (count == 1 && operand.along_k) {
        operand.ld = 0; /* of no meaning, so that it hinders no one */
    }
    return operand;
}

static __device__ inline operand long_operand(const gemm_arguments *arguments, int64_t problem)
{
#if SWAPPED
    return operand_of(arguments->b, problem * arguments->stride_b, arguments->ldb, arguments->n,
                      !arguments->trans_b);
#else
    return operand_of(arguments->a, problem * arguments->stride_a, arguments->lda, arguments->m,
                      arguments->trans_a != 0);
#endif
}

static __device__ inline operand thin_operand(const gemm_arguments *arguments, int64_t problem)
{
#if SWAPPED
    return operand_of(arguments->a, problem * arguments->stride_a, arguments->lda, arguments->m,
                      arguments->trans_a != 0);
#else
    return operand_of(arguments->b, problem * arguments->stride_b, arguments->ldb, arguments->n,
                      !arguments->trans_b);
#endif
}

/* Whether memory may be read in steps of so many bytes from every column's begin. */
static __device__ inline int is_aligned(const operand *operand, int bytes)
{
    return (uintptr_t)operand->from % bytes == 0 && operand->ld * SIZE % bytes == 0;
}

static __device__ inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* The last one inside, for rows (columns) beyond the edge. */
static __device__ inline int64_t inside(const operand *operand, int64_t at)
{
    return least(at, operand->count - 1);
}

/* ---- Loads ---------------------------------------------------------------------------------- */

/*
 * So many words, 1, 2 or 4 (a constant), in one load: __ldg, since the compiler cannot see that what a pointer from
 * shared memory points to is global.
 */
static __device__ __forceinline__ void load_aligned(uint32_t *words, const char *from, int count)
{
    if (count == 4) {
        uint4 some = __ldg((const uint4 *)from);
        words[0] = some.x;
        words[1] = some.y;
        words[2] = some.z;
        words[3] = some.w;
    } else if (count == 2) {
        uint2 some = __ldg((const uint2 *)from);
        words[0] = some.x;
        words[1] = some.y;
    } else {
        words[0] = __ldg((const uint32_t *)from);
    }
}

/*
 * The same from an address that is a multiple of SIZE only: two loads of neighbours, moved down by what the
 * address is off.
 */
static __device__ __forceinline__ void load_between(uint32_t *words, const char *from, int count)
{
    uint32_t both[2 * WORDS];
    int off = (int)((uintptr_t)from % (4 * count));
    load_aligned(both, from - off, count);
    load_aligned(both + count, from - off + 4 * count, count);
    if (count == 4) {
#pragma unroll
        for (int w = 0; w < 6; ++w) {
            both[w] = off & 8 ? both[w + 2] : both[w];
        }
    }
    if (count >= 2 && SIZE <= 4) {
#pragma unroll
        for (int w = 0; w < count + 1; ++w) {
            both[w] = off & 4 ? both[w + 1] : both[w];
        }
    }
#pragma unroll
    for (int w = 0; w < count; ++w) {
        words[w] = SIZE < 4 ? (uint32_t)(((uint64_t)both[w + 1] << 32 | both[w]) >> off % 4 * 8) : both[w];
    }
}

/* So many words along k element by element, which stand `step` bytes apart; zeros beyond the first `left` elements. */
static __device__ __forceinline__ void load_singly(uint32_t *words, int count, const char *from, int64_t step,
                                                   int64_t left)
{
#pragma unroll
    for (int w = 0; w < count; ++w) {
        words[w] = 0;
    }
#pragma unroll
    for (int e = 0; e < 4 * count / SIZE; ++e) {
        if (e < left) {
            put(words, e, *(const element *)from);
        }
        from += step;
    }
}

/* ---- Fragments ------------------------------------------------------------------------------ */

/* From PIECE stacks of ROWS rows, as they are loaded across k, to ROWS pieces along k. */
static __device__ __forceinline__ void turn(fragment *fragment)
{
    uint32_t stacks[ROWS * WORDS];
#pragma unroll
    for (int w = 0; w < ROWS * WORDS; ++w) {
        stacks[w] = fragment->x[w];
    }
#define STACK_WORD(k, w) stacks[(k)*STACK_WORDS + (w)]
#define ROW_WORD(r, w) fragment->x[(r)*WORDS + (w)]
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
#if ELEMENT == ELEMENT_F64
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            ROW_WORD(r, w) = STACK_WORD(w / 2, 2 * r + w % 2);
        }
#elif ELEMENT == ELEMENT_F32
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            ROW_WORD(r, w) = STACK_WORD(w, r);
        }
#elif ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16
#pragma unroll
        for (int r = 0; r < ROWS; r += 2) {
            uint32_t first = STACK_WORD(2 * w, r / 2);
            uint32_t second = STACK_WORD(2 * w + 1, r / 2);
            ROW_WORD(r, w) = __byte_perm(first, second, 0x5410);
            ROW_WORD(r + 1, w) = __byte_perm(first, second, 0x7632);
        }
#else
#pragma unroll
        for (int r = 0; r < ROWS; r += 4) {
            uint32_t x0 = STACK_WORD(4 * w, r / 4);
            uint32_t x1 = STACK_WORD(4 * w + 1, r / 4);
            uint32_t x2 = STACK_WORD(4 * w + 2, r / 4);
            uint32_t x3 = STACK_WORD(4 * w + 3, r / 4);
            uint32_t low01 = __byte_perm(x0, x1, 0x5140); /* rows 0 and 1 of k 0 and 1 */
            uint32_t low23 = __byte_perm(x2, x3, 0x5140);
            uint32_t high01 = __byte_perm(x0, x1, 0x7362);
            uint32_t high23 = __byte_perm(x2, x3, 0x7362);
            ROW_WORD(r, w) = __byte_perm(low01, low23, 0x5410);
            ROW_WORD(r + 1, w) = __byte_perm(low01, low23, 0x7632);
            ROW_WORD(r + 2, w) = __byte_perm(high01, high23, 0x5410);
            ROW_WORD(r + 3, w) = __byte_perm(high01, high23, 0x7632);
        }
#endif
    }
#undef STACK_WORD
#undef ROW_WORD
}

/* ---- Sums ----------------------------------------------------------------------------------- */

#if TENSOR

#if ELEMENT == ELEMENT_F16
#define multiply_tile mma_f16_16x8x16
#elif ELEMENT == ELEMENT_BF16
#define multiply_tile mma_bf16_16x8x16
#elif TF32
#define multiply_tile mma_tf32_16x8x8
#else
#define multiply_tile mma_s8_16x8x32
#endif

/*
 * Adds the products of a step along k, two words of each of the lane's rows, `pitch` apart, and of its piece
 * number p of the thin operand.
 */
static __device__ __forceinline__ void multiply(sums sum, const uint32_t *rows, int pitch,
                                                const uint32_t *piece, int p)
{
#pragma unroll
    for (int r = 0; r < ROWS; r += 2) {
        uint32_t a[4] = {rows[r * pitch], rows[(r + 1) * pitch], rows[r * pitch + 1],
                         rows[(r + 1) * pitch + 1]};
#if TF32
        uint32_t b[2] = {tf32_from_f32(piece[0]), tf32_from_f32(piece[1])};
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            a[w] = tf32_from_f32(a[w]);
        }
        multiply_tile(&sum[r / 2][4 * p], a, b);
#else
        multiply_tile(&sum[r / 2][4 * p], a, piece);
#endif
    }
}

#else

static __device__ __forceinline__ element element_of(const uint32_t *words)
{
#if ELEMENT == ELEMENT_F64
    uint64_t bits = (uint64_t)words[1] << 32 | words[0];
    element x;
    memcpy(&x, &bits, sizeof(x));
    return x;
#else
    return __uint_as_float(words[0]);
#endif
}

/* The same where a step is one k. */
static __device__ __forceinline__ void multiply(sums sum, const uint32_t *rows, int pitch,
                                                const uint32_t *piece, int p)
{
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        sum[r][p] = multiply_add(element_of(&rows[r * pitch]), element_of(piece), sum[r][p]);
    }
}

#endif

/* ---- The block's work, and its lanes' ------------------------------------------------------- */

/*
 * What a block has to do. It is in shared memory, since what a thread need not hold in registers leaves room for
 * loads: from [first, whole) chunks of k are loaded whole, the others in [0, all) element by element.
 */
typedef struct work {
    block_share share;
    operand wide;
    operand thin;
    int64_t row; /* the tile's first row of the long operand, and first column of the thin one */
    int64_t column;
    int64_t first;
    int64_t whole;
    int64_t all;
    int64_t row_k;       /* from one k to the next in a row of the long operand, in bytes, */
    int64_t column_k;    /* in a column of the thin operand, */
    int64_t column_step; /* and from one such column to the next */
    int columns;         /* of the tile that lie in the matrix */
    int aligned;         /* the long operand's loads are */
    int thin_whole;      /* the thin operand's pieces may be loaded whole */
} work;

/* Nothing of it is read from memory that a kernel before may write. */
static __device__ inline work work_of_block(const gemm_arguments *arguments)
{
    work work;
    work.share = share_of_thin_block(arguments);
    work.row = SWAPPED ? work.share.column : work.share.row;
    work.column = SWAPPED ? work.share.row : work.share.column;
    work.wide = long_operand(arguments, work.share.problem);
    work.thin = thin_operand(arguments, work.share.problem);
    work.row_k = (work.wide.along_k ? 1 : work.wide.ld) * SIZE;
    work.column_k = (work.thin.along_k ? 1 : work.thin.ld) * SIZE;
    work.column_step = (work.thin.along_k ? work.thin.ld : 1) * SIZE;
    work.columns = (int)least(work.thin.count - work.column, TILE_THIN);
    work.thin_whole = work.thin.along_k && is_aligned(&work.thin, 4 * WORDS);

    int64_t length = work.share.k_end - work.share.k_begin;
    int64_t rows = work.wide.count;
    work.all = (length + CHUNK - 1) / CHUNK;
    work.whole = length / CHUNK;
    work.first = 0;
    work.aligned = work.wide.along_k ? is_aligned(&work.wide, 4 * WORDS)
                                     : is_aligned(&work.wide, 4 * STACK_WORDS) && rows % ROWS == 0;
    if (!work.aligned) {
        work.first = 1;
        work.whole = (length - PIECE) / CHUNK;
    }
    if (work.whole <= work.first || (!work.wide.along_k && rows < ROWS)) {
        work.first = 0;
        work.whole = 0;
    }
    return work;
}

/* Which of the warps that share the block's k. */
static __device__ inline int warp_along_k(void) { return (int)threadIdx.x / 32 / WARPS_LONG; }

static __device__ inline int lane_group(void) { return (int)threadIdx.x % 32 / MEMBERS; }

static __device__ inline int lane_member(void) { return (int)threadIdx.x % MEMBERS; }

/* The lane's first row in the block's tile of the long operand; the others are `row_step` apart. */
static __device__ inline int lane_row(int along_k)
{
    return (int)threadIdx.x / 32 % WARPS_LONG * WARP_LONG + lane_group() * (along_k ? 1 : ROWS);
}

static __device__ inline int row_step(int along_k) { return along_k ? 8 : 1; }

/*
 * How many rows before that the lane begins. Across k its loads must end where the column does, and the rows before its
 * own are then another lane's too.
 */
static __device__ inline int rows_before(const work *work, int along_k)
{
    int64_t over = work->row + lane_row(along_k) + ROWS - work->wide.count;
    return along_k || over < 0 || work->wide.count < ROWS ? 0 : (int)over;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Where a lane's next loads are. */
typedef struct walk {
    const char *rows[ROWS]; /* of the long operand; only the first where they lie side by side, across k */
    const char *column;     /* of the thin operand, of the lane's first piece */
    int first;              /* that column of the tile */
} walk;

/* From chunk number `chunk` on. Beyond the edge rows and columns are the last one inside. */
static __device__ __forceinline__ walk walk_from(const work *work, int64_t chunk, int along_k)
{
    const operand *wide = &work->wide;
    const operand *thin = &work->thin;
    int64_t k = work->share.k_begin + chunk * CHUNK + lane_member() * PIECE;
    int64_t row = work->row + lane_row(along_k) - rows_before(work, along_k);
    walk walk;
#pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int64_t at = inside(wide, row + r * row_step(along_k));
        walk.rows[r] = (const char *)(wide->from + (along_k ? k + at * wide->ld : at + k * wide->ld));
    }
    walk.first = TENSOR ? lane_group() : 0;
    walk.column = (const char *)thin->from + inside(thin, work->column + walk.first) * work->column_step +
                  k * work->column_k;
    return walk;
}

/* So many k further, where along_k and thin_whole say what the steps are. */
static __device__ __forceinline__ void advance(walk *walk, const work *work, int k, int along_k,
                                               int thin_whole)
{
#pragma unroll
    for (int r = 0; r < (along_k ? ROWS : 1); ++r) {
        walk->rows[r] += k * (along_k ? SIZE : work->row_k);
    }
    walk->column += k * (thin_whole ? SIZE : work->column_k);
}

/* Fetches the long operand's part of a chunk, `k` further than the walk is. k, along_k and between are constants. */
static __device__ __forceinline__ void fetch(fragment *to, const work *work, const walk *walk, int k,
                                             int along_k, int between)
{
    int words = along_k ? WORDS : STACK_WORDS;
    int64_t row_k = work->row_k;
    const char *column = walk->rows[0] + k * row_k;
#pragma unroll
    for (int load = 0; load < (along_k ? ROWS : PIECE); ++load) {
        const char *from = along_k ? walk->rows[load] + k * SIZE : column;
        if (between) {
            load_between(&to->x[load * words], from, words);
        } else {
            load_aligned(&to->x[load * words], from, words);
        }
        column += row_k;
    }
}

/*
 * Fetches the lane's piece number p of the thin operand, which stands at *from, and goes on to the next. What
 * is known of many of them is not kept in registers.
 */
static __device__ __forceinline__ void fetch_thin(piece *to, const work *work, const walk *walk,
                                                  const char **from, int p, int whole)
{
    int columns = TENSOR ? 8 : 1;
    if (!THIN_AHEAD && p % (whole ? 4 : 1) == 0) {
        __syncwarp();
    }
    if (whole) {
        load_aligned(to->x, *from, WORDS);
    } else {
        load_singly(to->x, WORDS, *from, work->column_k, PIECE);
    }
    if (p + 1 < THIN_PIECES && walk->first + columns * (p + 1) < work->columns) {
        *from += columns * work->column_step;
    }
}

/* Adds the products of a fragment and piece number p of the thin operand. */
static __device__ __forceinline__ void multiply_piece(sums sum, const fragment *fragment, const piece *piece,
                                                      int p)
{
#pragma unroll
    for (int w = 0; w < WORDS; w += STEP) {
        multiply(sum, &fragment->x[w], WORDS, &piece->x[w], p);
    }
}

/*
 * Fetches `count` chunks, all of them whole, and adds their products. Constants are count, along_k as the long operand
 * is, `between`, where its loads are not aligned, and whether the thin operand's are whole.
 */
static __device__ __forceinline__ void add_chunks(sums sum, const work *work, const walk *walk, int count,
                                                  int along_k, int between, int thin_whole)
{
    fragment fragments[STAGES];
    piece thin[STAGES][THIN_PIECES];
    int64_t column_k = thin_whole ? SIZE : work->column_k;
#pragma unroll
    for (int s = 0; s < count; ++s) {
        fetch(&fragments[s], work, walk, s * CHUNK, along_k, between);
        const char *from = walk->column + s * CHUNK * column_k;
#pragma unroll
        for (int p = 0; p < THIN_PIECES && THIN_AHEAD; ++p) {
            fetch_thin(&thin[s][p], work, walk, &from, p, thin_whole);
        }
    }
#pragma unroll
    for (int s = 0; s < count; ++s) {
        if (!along_k) {
            turn(&fragments[s]);
        }
        const char *from = walk->column + s * CHUNK * column_k;
#pragma unroll
        for (int p = 0; p < THIN_PIECES; ++p) {
            if (!THIN_AHEAD) {
                fetch_thin(&thin[s][p], work, walk, &from, p, thin_whole);
            }
            multiply_piece(sum, &fragments[s], &thin[s][p], p);
        }
    }
}

/*
 * The chunks that are loaded whole: in rounds, in which each warp has STAGES in a row, or half of that where
 * its loads are many, and what is left of the last round one by one.
 */
static __device__ __forceinline__ void add_whole(sums sum, const work *work, int along_k, int between,
                                                 int thin_whole)
{
    int stages = between || !thin_whole ? (STAGES + 1) / 2 : STAGES;
    __syncwarp();
    walk walk = walk_from(work, work->first + warp_along_k() * stages, along_k);
    int left = (int)(work->whole - work->first) - warp_along_k() * stages;
#pragma unroll 1
    for (; left >= stages; left -= WARPS_K * stages) {
        add_chunks(sum, work, &walk, stages, along_k, between, thin_whole);
        advance(&walk, work, WARPS_K * stages * CHUNK, along_k, thin_whole);
    }
#pragma unroll 1
    for (; left > 0; --left) {
        add_chunks(sum, work, &walk, 1, along_k, between, thin_whole);
        advance(&walk, work, CHUNK, along_k, thin_whole);
    }
}

/*
 * The chunks first .. last - 1 element by element: slow, and of no more registers than the others. The warps take turns
 * from number `begin` on, down.
 */
static __device__ inline void add_singly(sums sum, const work *work, int64_t first, int64_t last, int begin)
{
    int number = (begin + WARPS_K - warp_along_k()) % WARPS_K;
#pragma unroll 1
    for (int64_t chunk = first + number; chunk < last; chunk += WARPS_K) {
        fragment fragment;
        walk walk = walk_from(work, chunk, work->wide.along_k);
        int64_t left = work->share.k_end - work->share.k_begin - chunk * CHUNK - lane_member() * PIECE;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (r % ENDS == 0) {
                __syncwarp();
            }
            load_singly(&fragment.x[r * WORDS], WORDS, walk.rows[r], work->row_k, left);
        }
        const char *from = walk.column;
#pragma unroll
        for (int p = 0; p < THIN_PIECES; ++p) {
            piece piece;
            if (THIN_PIECES > 1) {
                __syncwarp();
            }
            load_singly(piece.x, WORDS, from, work->column_k, left);
            multiply_piece(sum, &fragment, &piece, p);
            if (walk.first + (TENSOR ? 8 : 1) * (p + 1) < work->columns) {
                from += (TENSOR ? 8 : 1) * work->column_step;
            }
        }
    }
}

/* All products of the lane's rows and columns. */
static __device__ inline void add_products(sums sum, const work *work)
{
    if (work->wide.along_k) {
        if (!work->aligned) {
            add_whole(sum, work, 1, 1, 0);
        } else if (work->thin_whole) {
            add_whole(sum, work, 1, 0, 1);
        } else {
            add_whole(sum, work, 1, 0, 0);
        }
    } else {
        if (!work->aligned) {
            add_whole(sum, work, 0, 1, 0);
        } else if (work->thin_whole) {
            add_whole(sum, work, 0, 0, 1);
        } else {
            add_whole(sum, work, 0, 0, 0);
        }
    }
    __syncwarp();
    /* By the warps that have the fewest whole chunks. */
    add_singly(sum, work, 0, work->first, WARPS_K - 1);
    add_singly(sum, work, work->whole, work->all, 2 * WARPS_K - 2);
}

/* ---- From the lanes' sums to D -------------------------------------------------------------- */

/* Sums of PASS columns, as the lanes that share an element of D leave them. */
typedef accumulator slots[SLOTS][PASS][PITCH];

/* Leaves the lane's sums of the PASS columns from `begin` on. */
static __device__ __forceinline__ void leave(slots slots, const work *work, const sums sum, int begin)
{
    int along_k = work->wide.along_k;
    int before = rows_before(work, along_k);
    int row = lane_row(along_k) - before;
    int member = lane_member();
    int warp = warp_along_k();
#pragma unroll
    for (int j = 0; j < (TENSOR ? 2 * THIN_PIECES : THIN_PIECES); ++j) {
        int column = (TENSOR ? j / 2 * 8 + 2 * member + j % 2 : j) - begin;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            if (r >= before && column >= 0 && column < PASS) {
#if TENSOR
                slots[warp][column][row + r * row_step(along_k)] = sum[r / 2][j / 2 * 4 + r % 2 * 2 + j % 2];
#else
                slots[warp * MEMBERS + member][column][row + r * row_step(along_k)] = sum[r][j];
#endif
            }
        }
    }
}

/* Adds up what the lanes have left and stores it: `count` columns of D, or rows, from `begin` on in the tile. */
static __device__ inline void add_and_store(const gemm_arguments *arguments, const work *work, slots slots,
                                            int begin, int count)
{
    for (int e = (int)threadIdx.x; e < count * TILE_LONG; e += THREADS_X) {
        /* Neighbouring threads store neighbours in D. */
        int row = SWAPPED ? e / count : e % TILE_LONG;
        int column = SWAPPED ? e % count : e / TILE_LONG;
        if (work->row + row < work->wide.count) {
            accumulator sum = 0;
#pragma unroll
            for (int slot = 0; slot < SLOTS; ++slot) {
                sum += slots[slot][column][row];
            }
            int64_t i = work->row + row;
            int64_t j = work->column + begin + column;
            store_sum(arguments, &work->share, SWAPPED ? j : i, SWAPPED ? i : j, sum);
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ work work;
    __shared__ slots slots;

    if (threadIdx.x == 0) {
        work = work_of_block(&arguments);
    }
    __syncthreads();
    wait_for_kernels_before();
    let_next_kernel_begin();

    sums sum = {{0}};
    if (!alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        add_products(sum, &work);
    }

#pragma unroll
    for (int begin = 0; begin < TILE_THIN; begin += PASS) {
        int left = work.columns - begin;
        if (begin > 0) {
            __syncthreads();
        }
        leave(slots, &work, sum, begin);
        __syncthreads();
        add_and_store(&arguments, &work, slots, begin, left < PASS ? left : PASS);
    }
}
