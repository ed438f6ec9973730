/*
 * outer.cu - sums of few outer products: f16 and bf16 of short k, whose time is D's way to memory, wherever the rows of the
 * operands and D's columns begin. Where those do not begin at 16 bytes the copy engine stores nothing, and threads that store
 * their own sums, a few elements of a column each, touch two sectors of 32 bytes for each that they fill.
 *
 * So a block's tile of D is high, and a warp stores a column of it at a time, as one line of memory: all of it in
 * pieces of 16 bytes that begin where memory has them, but for the two at its ends.
 *
 *     shared memory    |0 1 2 3 4 5 6 7|8 9 a b c d e f|g h i j ...     a column of the tile
 *     memory        ...|x x x 0 1 2 3 4|5 6 7 8 9 a b c|d e f g ...     the same, whose rows begin 3 elements into a piece
 *                             ^ singly  ^ one lane's 16 bytes
 *
 * A warp multiplies 32 rows of the tile by all of its columns (mma.sync). Both operands lie in shared memory along k, rows an
 * odd number of words apart. A lane 4 * group + member takes the instruction's rows and columns from such places that its sums
 * are eight neighbours of each column: 16 bytes of D, which it puts in the place of the operands.
 *
 * A thread has AHEAD loads on the way, of single elements, with lanes side by side in memory. Beyond k stand zeros.
 *
 * Needs: sm_80; any shape, alignment and layout. What limits it is instructions, and from some 32 k on the loads.
 */
#include "kernel.h"

#include "epilogue.h"
#include "mma_element.h"
#include "shift_words.h"
#include "tiles.h"

enum {
    STEP = 16, /* k of an instruction */
    WARPS = THREADS_X / 32,
    PITCH = TILE_K + 2,     /* elements from row to row of an operand */
    OUT_PITCH = TILE_M + 8, /* and from column to column of D's tile */
    ROWS = 4,               /* instructions along m of a warp's 32 rows */
    PARTS = TILE_N / 32,    /* of the tile's columns, 32 each: two instructions along n */
    LINE = 8,               /* neighbours of a column of D, which a lane has */
    AHEAD = 16,             /* loads of a thread on the way */
    PIECE = 16,             /* bytes that are stored at once */
    PER_PIECE = PIECE / 2,
    BAND = 8
};

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16, "two bytes an element");
static_assert(TILE_M == THREADS_X && TILE_N % 32 == 0, "a warp has 32 rows");
static_assert(TILE_M <= 32 * PER_PIECE, "and stores a column at once");
static_assert(TILE_K % 32 == 0, "lanes lie along k");
static_assert(TILE_N % WARPS == 0 && THREADS_X % TILE_N == 0, "warps share the columns");

/* Both operands, and D's tile in their place. */
typedef union shared_memory {
    struct {
        element a[TILE_M * PITCH];
        element b[TILE_N * PITCH];
    } operands;
    __align__(16) element out[TILE_N * OUT_PITCH];
} shared_memory;

/* One operand as a block reads it: `rows` of its rows (columns of B) are inside. */
typedef struct operand {
    const element *from;
    int64_t row; /* elements from row to row */
    int64_t k;   /* and from one k to the next */
    int rows;
    int length; /* of its next k, those that are multiplied next */
} operand;

static __device__ inline int least(int64_t x, int most) { return x < most ? (int)x : most; }

/* From row `first` on, of which there are `rows`; k from share->k_begin on. */
static __device__ inline operand operand_of(const element *matrix, int64_t first, int64_t rows, int side,
                                            int64_t ld, int along_k, const block_share *share)
{
    operand of;
    of.row = along_k ? ld : 1;
    of.k = along_k ? 1 : ld;
    of.from = matrix + first * of.row + share->k_begin * of.k;
    of.rows = least(rows - first, side);
    of.length = 0;
    return of;
}

/* Copies an operand's `side` rows, of which `padded` k are wanted: lanes lie along the rows. */
static __device__ __forceinline__ void copy_across(element *to, const operand *of, int side, int padded)
{
    const int step = THREADS_X / side;
    const int ahead = TILE_K / step < AHEAD ? TILE_K / step : AHEAD;
    int row = (int)threadIdx.x % side;
    int k = (int)threadIdx.x / side;
    int inside = row < of->rows ? of->length : 0;
    const element *from = of->from + row + k * of->k;
    int64_t apart = step * of->k;
    to += row * PITCH;
#pragma unroll 1
    for (; k < padded; k += ahead * step) {
        element x[AHEAD];
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            x[i] = 0;
            if (k + i * step < inside) {
                x[i] = __ldg(from);
            }
            from += apart;
        }
#pragma unroll
        for (int i = 0; i < ahead; ++i) {
            to[k + i * step] = x[i];
        }
    }
}

/* The same with lanes along k. */
static __device__ __forceinline__ void copy_along(element *to, const operand *of, int side, int padded)
{
    const int ahead = side / WARPS < AHEAD ? side / WARPS : AHEAD;
    int warp = (int)threadIdx.x / 32;
    int64_t apart = WARPS * of->row;
#pragma unroll 1
    for (int k = (int)threadIdx.x % 32; k < padded; k += 32) {
        int rows = k < of->length ? of->rows : 0;
        const element *from = of->from + k + warp * of->row;
#pragma unroll 1
        for (int row = warp; row < side; row += ahead * WARPS) {
            element x[AHEAD];
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                x[i] = 0;
                if (row + i * WARPS < rows) {
                    x[i] = __ldg(from);
                }
                from += apart;
            }
#pragma unroll
            for (int i = 0; i < ahead; ++i) {
                to[(row + i * WARPS) * PITCH + k] = x[i];
            }
        }
    }
}

static __device__ __forceinline__ void copy_operand(element *to, const operand *of, int side, int padded)
{
    if (of->row == 1) {
        copy_across(to, of, side, padded);
    } else {
        copy_along(to, of, side, padded);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/*
 * A lane's sums. The instruction's rows are columns of D, group + 8 * r of number i column 4 * group + 2 * i + r of 32; its
 * columns are rows of D, number c of instruction j row 4 * c + j of the warp's.
 */
typedef float sums[PARTS][2][ROWS][4];

/* Two neighbours along k. */
static __device__ __forceinline__ uint32_t word_at(const element *operand, int row, int k)
{
    return *(const uint32_t *)(operand + row * PITCH + k);
}

static __device__ __forceinline__ void add_products(sums sum, const shared_memory *shared, int padded)
{
    int lane = (int)threadIdx.x % 32;
    int group = lane / 4;
    int member = lane % 4;
    int first = (int)threadIdx.x / 32 * 32;
#pragma unroll 1
    for (int k = 2 * member; k < padded; k += STEP) {
        uint32_t columns[ROWS][2];
#pragma unroll
        for (int j = 0; j < ROWS; ++j) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                columns[j][h] = word_at(shared->operands.a, first + 4 * group + j, k + 8 * h);
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t rows[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    rows[e] =
                        word_at(shared->operands.b, 32 * part + 4 * group + 2 * i + e % 2, k + 8 * (e / 2));
                }
#pragma unroll
                for (int j = 0; j < ROWS; ++j) {
                    multiply(sum[part][i][j], rows, columns[j]);
                }
            }
        }
    }
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* Where a lane's eight neighbours stand: of the tile, and whether in D. */
typedef struct standing {
    int row; /* of the tile */
    int rows;
    int column; /* the first of 32 */
} standing;

static __device__ inline standing standing_of_thread(const operand *a)
{
    int lane = (int)threadIdx.x % 32;
    standing at;
    at.row = (int)threadIdx.x / 32 * 32 + lane % 4 * LINE;
    at.rows = a->rows - at.row;
    at.column = lane / 4 * 4;
    return at;
}

/* Bare sums, for who adds parts or finishes what this row does not. */
static __device__ __forceinline__ void store_bare(const gemm_arguments *arguments, const block_share *share,
                                                  standing at, int columns, sums sum)
{
    float *to =
        (float *)arguments->partials +
        ((share->problem * arguments->parts + share->part) * arguments->n + share->column) * arguments->m +
        share->row + at.row;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            int column = 32 * part + at.column + q;
#pragma unroll
            for (int e = 0; e < LINE; ++e) {
                if (e < at.rows && column < columns) {
                    to[column * arguments->m + e] = sum[part][q / 2][e % 4][q % 2 * 2 + e / 4];
                }
            }
        }
    }
}

/* alpha * sum + beta * C, to D's tile in shared memory. */
static __device__ __forceinline__ void leave_values(const gemm_arguments *arguments, const block_share *share,
                                                    element *out, standing at, int columns, sums sum)
{
    epilogue_scalars scalars = epilogue_scalars_of(&arguments->epilogue, arguments->alpha, arguments->beta);
    const element *c = (const element *)arguments->c;
    int64_t first =
        share->problem * arguments->stride_c + share->column * arguments->ldc + share->row + at.row;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            int column = 32 * part + at.column + q;
            float value[LINE];
#pragma unroll
            for (int e = 0; e < LINE; ++e) {
                value[e] = -0.0f;
            }
            if (scalars.beta != 0) {
#pragma unroll
                for (int e = 0; e < LINE; ++e) {
                    if (e < at.rows && column < columns) {
                        value[e] =
                            fmaf(scalars.beta, widen(c[first + column * arguments->ldc + e]), value[e]);
                    }
                }
            }
#pragma unroll
            for (int e = 0; e < LINE; ++e) {
                value[e] = fmaf(scalars.alpha, sum[part][q / 2][e % 4][q % 2 * 2 + e / 4], value[e]);
            }
#if ELEMENT == ELEMENT_F16
            uint4 line = make_uint4(pack_f16(value[0], value[1]), pack_f16(value[2], value[3]),
                                    pack_f16(value[4], value[5]), pack_f16(value[6], value[7]));
#else
            uint4 line = make_uint4(pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3]),
                                    pack_bf16(value[4], value[5]), pack_bf16(value[6], value[7]));
#endif
            *(uint4 *)(out + column * OUT_PITCH + at.row) = line;
        }
    }
}

/* A column of the tile to memory, `rows` long: its pieces, one a lane, and the elements before and behind them. */
static __device__ __forceinline__ void store_column(element *to, const element *column, int rows)
{
    int lane = (int)threadIdx.x % 32;
    int shift = (int)(-((uintptr_t)to / 2) % PER_PIECE); /* elements before the first piece */
    int first = shift + lane * PER_PIECE;
    if (first + PER_PIECE <= rows) {
        const uint4 *both = (const uint4 *)(column + lane * PER_PIECE);
        uint4 low = both[0];
        uint4 high = both[1];
        uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        uint32_t shifted[4];
        shift_words(shifted, words, 2 * shift, 2);
        *(uint4 *)(to + first) = make_uint4(shifted[0], shifted[1], shifted[2], shifted[3]);
    }
    int tail = rows - (rows - shift) % PER_PIECE;
    int single = lane < PER_PIECE ? lane : tail + lane - PER_PIECE;
    int end = lane < PER_PIECE && shift < rows ? shift : rows;
    if (lane < 2 * PER_PIECE && single < end) {
        to[single] = column[single];
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ shared_memory shared;
    block_share share = share_of_lone_block(&arguments, BAND);
    const element *matrix_a = (const element *)arguments.a + share.problem * arguments.stride_a;
    const element *matrix_b = (const element *)arguments.b + share.problem * arguments.stride_b;
    operand a =
        operand_of(matrix_a, share.row, arguments.m, TILE_M, arguments.lda, arguments.trans_a != 0, &share);
    operand b =
        operand_of(matrix_b, share.column, arguments.n, TILE_N, arguments.ldb, !arguments.trans_b, &share);
    wait_for_kernels_before();
    let_next_kernel_begin();
    int64_t left =
        alpha_is_zero(arguments.alpha, arguments.epilogue.result_type) ? 0 : share.k_end - share.k_begin;
    sums sum = {{{{0}}}};
#pragma unroll 1
    for (; left > 0; left -= TILE_K) {
        a.length = least(left, TILE_K);
        b.length = a.length;
        int padded = (a.length + STEP - 1) / STEP * STEP;
        copy_operand(shared.operands.a, &a, TILE_M, padded);
        copy_operand(shared.operands.b, &b, TILE_N, padded);
        __syncthreads();
        add_products(sum, &shared, padded);
        __syncthreads(); /* the operands have been read */
        a.from += TILE_K * a.k;
        b.from += TILE_K * b.k;
    }
    standing at = standing_of_thread(&a);
    if (arguments.partials) {
        store_bare(&arguments, &share, at, b.rows, sum);
        return;
    }
    leave_values(&arguments, &share, shared.out, at, b.rows, sum);
    __syncthreads();
    int column = (int)threadIdx.x / 32;
    element *to = (element *)arguments.d + share.problem * arguments.stride_d +
                  (share.column + column) * arguments.ldd + share.row;
#pragma unroll 2
    for (; column < b.rows; column += WARPS) {
        store_column(to, shared.out + column * OUT_PITCH, a.rows);
        to += WARPS * arguments.ldd;
    }
}
