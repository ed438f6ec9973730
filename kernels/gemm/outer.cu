/*
 * outer.cu - sums of few outer products: f16, bf16 and tf32 (f32 rounded) of short k, whose time is D's way to memory, wherever the
 * rows of the operands and D's columns begin. Where those do not begin at 16 bytes the copy engine stores nothing, where they
 * do not begin at 32 its boxes of 128 bytes touch five sectors of memory for four that they fill, and threads that store
 * their own sums, a few elements of a column each, touch two for each.
 *
 * So a block's tile of D is high, and a column of it is stored at a time: by the copy engine, as one piece of memory, where it begins
 * at 16 bytes (sm_90), else by a warp. Of f32 that is 32 neighbours after the other, which memory's side puts together. Of 16-bit
 * types, whose time would be the instructions then, all of it goes in pieces of 16 bytes that begin where memory has them, but
 * for the two at its ends.
 *
 *     shared memory    |0 1 2 3 4 5 6 7|8 9 a b c d e f|g h i j ...     a column of the tile
 *     memory        ...|x x x 0 1 2 3 4|5 6 7 8 9 a b c|d e f g ...     the same, whose rows begin 3 elements into a piece
 *                             ^ singly  ^ one lane's 16 bytes
 *
 * A warp multiplies 32 rows of the tile by all of its columns (mma.sync). Both operands lie in shared memory along k, rows an
 * odd number of words apart. A lane 4 * group + member takes the instruction's rows and columns from such places that its sums
 * are eight neighbours of each column, which it puts in the place of the operands.
 *
 * Elements are copied one by one, with lanes side by side in memory: 16-bit ones through registers, AHEAD of a thread on the way, f32 past
 * them, all at once. Beyond k stand zeros.
 *
 * Needs: sm_80; any shape, alignment and layout. What limits it is instructions, and from some 32 k on the copies and the
 * multiplying warps' way to shared memory.
 */
#include "kernel.h"

#if (defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900) || defined(CUDA_ON_CPU)
#include "../ptx/tensor_copy.h"
#define HAS_ENGINE 1
#else
#define HAS_ENGINE 0
#endif

#include "epilogue.h"
#include "mma_element.h"
#include "shift_words.h"
#include "tiles.h"

enum {
    SIZE = sizeof(element),
    PER_WORD = 4 / SIZE, /* neighbours along k in a register */
    STEP = 8 * PER_WORD, /* k of an instruction */
    WARPS = THREADS_X / 32,
    PITCH = TILE_K + PER_WORD,      /* elements from row to row of an operand */
    OUT_PITCH = TILE_M + 16 / SIZE, /* and from column to column of D's tile */
    ROWS = 4,                       /* instructions along m of a warp's 32 rows */
    PARTS = TILE_N / 32,            /* of the tile's columns, 32 each: two instructions along n */
    LINE = 8,                       /* neighbours of a column of D, which a lane has */
    AHEAD = 16,                     /* loads of a thread on the way */
    PER_PIECE = 16 / SIZE,          /* elements that are stored at once, of 16-bit types */
    BAND = 8
};

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32,
              "there is an instruction for the elements");
static_assert(TILE_M == THREADS_X && TILE_N % 32 == 0, "a warp has 32 rows");
static_assert(SIZE == 4 || TILE_M <= 32 * PER_PIECE, "and stores a column at once");
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

static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");

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

#if ELEMENT == ELEMENT_F32

/*
 * Begins to copy an operand's `side` rows, of which `padded` k are wanted, element by element and past the registers: all of them
 * are on the way at once.
 */
static __device__ __forceinline__ void copy_operand(element *to, const operand *of, int side, int padded)
{
    if (of->row == 1) { /* lanes lie along the rows */
        const int step = THREADS_X / side;
        int row = (int)threadIdx.x % side;
        int k = (int)threadIdx.x / side;
        int inside = row < of->rows ? of->length : 0;
        const element *from = of->from + row + k * of->k;
        int64_t apart = step * of->k;
        to += row * PITCH;
#pragma unroll 4
        for (; k < padded; k += step) {
            copy_async_4(to + k, from, k < inside ? 4 : 0);
            from += apart;
        }
        return;
    }
#pragma unroll 1
    for (int first = 0; first < padded; first += 32) { /* or along k, as many of a row as there are left */
        int left = padded - first;
        int shift = left > 16 ? 5 : left > 8 ? 4 : 3;
        int k = first + ((int)threadIdx.x & ((1 << shift) - 1));
        int rows = k < of->length ? of->rows : 0;
        int step = THREADS_X >> shift;
        int row = (int)threadIdx.x >> shift;
        const element *from = of->from + k + row * of->row;
        int64_t apart = step * of->row;
        if (k < padded) {
#pragma unroll 4
            for (; row < side; row += step) {
                copy_async_4(to + row * PITCH + k, from, row < rows ? 4 : 0);
                from += apart;
            }
        }
    }
}

/* Waits until what this thread copies has arrived. */
static __device__ __forceinline__ void await_copies(void)
{
    copy_async_commit();
    copy_async_wait(0);
}

#else

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

static __device__ __forceinline__ void await_copies(void) {}

#endif

/* ---- Products ------------------------------------------------------------------------------- */

/*
 * A lane's sums. The instruction's rows are columns of D, group + 8 * r of number i column 4 * group + 2 * i + r of 32; its
 * columns are rows of D, number c of instruction j row 4 * c + j of the warp's.
 */
typedef float sums[PARTS][2][ROWS][4];

/* A register of an operand: one element, rounded, or two neighbours along k. */
static __device__ __forceinline__ uint32_t word_at(const element *operand, int row, int k)
{
    uint32_t word = *(const uint32_t *)(operand + row * PITCH + k);
    return ELEMENT == ELEMENT_F32 ? tf32_from_f32(word) : word;
}

static __device__ __forceinline__ void add_products(sums sum, const shared_memory *shared, int padded)
{
    int lane = (int)threadIdx.x % 32;
    int group = lane / 4;
    int member = lane % 4;
    int first = (int)threadIdx.x / 32 * 32;
#pragma unroll 1
    for (int k = PER_WORD * member; k < padded; k += STEP) {
        uint32_t columns[ROWS][2];
#pragma unroll
        for (int j = 0; j < ROWS; ++j) {
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                columns[j][h] = word_at(shared->operands.a, first + 4 * group + j, k + STEP / 2 * h);
            }
        }
#pragma unroll
        for (int part = 0; part < PARTS; ++part) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                uint32_t rows[4];
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    rows[e] = word_at(shared->operands.b, 32 * part + 4 * group + 2 * i + e % 2,
                                      k + STEP / 2 * (e / 2));
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

/* Eight values to their places of D's tile. */
static __device__ __forceinline__ void put_line(element *to, const float value[LINE])
{
#if ELEMENT == ELEMENT_F32
    ((float4 *)to)[0] = make_float4(value[0], value[1], value[2], value[3]);
    ((float4 *)to)[1] = make_float4(value[4], value[5], value[6], value[7]);
#elif ELEMENT == ELEMENT_F16
    *(uint4 *)to = make_uint4(pack_f16(value[0], value[1]), pack_f16(value[2], value[3]),
                              pack_f16(value[4], value[5]), pack_f16(value[6], value[7]));
#else
    *(uint4 *)to = make_uint4(pack_bf16(value[0], value[1]), pack_bf16(value[2], value[3]),
                              pack_bf16(value[4], value[5]), pack_bf16(value[6], value[7]));
#endif
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
            put_line(out + column * OUT_PITCH + at.row, value);
        }
    }
}

#if ELEMENT == ELEMENT_F32

/* A column of the tile to memory, `rows` long. */
static __device__ __forceinline__ void store_column(element *to, const element *column, int rows)
{
    int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < TILE_M; i += 32) {
        if (i + lane < rows) {
            to[i + lane] = column[i + lane];
        }
    }
}

#else

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

#endif

#if HAS_ENGINE

/* Has the copy engine store the tile's columns, which lie at 16 bytes in memory too. */
static __device__ __forceinline__ void send_columns(element *to, int64_t ldd, const element *from, int rows,
                                                    int columns)
{
    const int apart = THREADS_X / TILE_N;
    int column = (int)threadIdx.x / apart;
    if ((int)threadIdx.x % apart == 0 && column < columns) {
        bulk_store(to + column * ldd, from + column * OUT_PITCH, (uint32_t)(rows * SIZE));
        tensor_store_commit();
        tensor_store_wait_read(0);
    }
}

#endif

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
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
        copy_operand(shared->operands.a, &a, TILE_M, padded);
        copy_operand(shared->operands.b, &b, TILE_N, padded);
        await_copies();
        __syncthreads();
        add_products(sum, shared, padded);
        __syncthreads(); /* the operands have been read */
        a.from += TILE_K * a.k;
        b.from += TILE_K * b.k;
    }
    standing at = standing_of_thread(&a);
    if (arguments.partials) {
        store_bare(&arguments, &share, at, b.rows, sum);
        return;
    }
    leave_values(&arguments, &share, shared->out, at, b.rows, sum);
    element *to = (element *)arguments.d + share.problem * arguments.stride_d + share.column * arguments.ldd +
                  share.row;
#if HAS_ENGINE
    if (((uintptr_t)to | (uint64_t)(arguments.ldd * SIZE) | (uint64_t)(a.rows * SIZE)) % 16 == 0) {
        fence_async_shared();
        __syncthreads();
        send_columns(to, arguments.ldd, shared->out, a.rows, b.rows);
        return;
    }
#endif
    __syncthreads();
    int column = (int)threadIdx.x / 32;
    to += column * arguments.ldd;
#pragma unroll 2
    for (; column < b.rows; column += WARPS) {
        store_column(to, shared->out + column * OUT_PITCH, a.rows);
        to += WARPS * arguments.ldd;
    }
}
