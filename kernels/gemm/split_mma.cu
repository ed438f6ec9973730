/*
 * split_mma.cu - products of f32 with all of its 24 bits on the bf16 tensor unit, in one launch: each warp makes the three
 * parts of what it multiplies itself (see memory/split.cu), in registers.
 *
 * Of a small product the splitting is little, and what takes time is to begin: launches, and one trip to memory after the
 * other. So nothing goes through workspace or shared memory before the sums do, no warp waits for another, and the warps of
 * a block share not only its tile but k too, a step of 16 each in turn:
 *
 *        k ->  0    16   32   48   64                a tile of 32 x 32 and four warps
 *            +----+----+----+----+----+--
 *          m | w0 | w1 | w2 | w3 | w0 | ..           memory --> registers --> 3 parts --> 6 products --> f32 sums
 *            +----+----+----+----+----+--            of each warp, added in the warps' order through shared memory
 *
 * A lane 4 * group + member takes of op(A) and of op(B) the rows (columns) ROWS * group + 0 .. ROWS - 1 and of a step the k
 * 4 * member + 0 .. 3 (where rows are read one by one member + 0, 4, 8, 12), STAGES steps ahead. That is how the tensor
 * instruction wants its operands but for the order of k, of rows and of columns, as in small.cu: so a lane's sums are
 * neighbours in columns of D.
 *
 * Six of the nine products of parts are summed, small ones first, from zero in each step. So one sum in a step is cut at
 * full size by the unit; then it goes to an f32 sum, with rounding. (tests/dial_model.c computes the same.)
 *
 * What parts cannot do (verdict.h) a block sees for itself: its lanes keep in mind between which magnitudes lies what they have
 * read. Where that is refused for the block's rows and columns, or where sums are not finite, threads sum their
 * elements of D again by f32 multiply-adds, from memory: slowly, but nothing is launched for it, and nobody waits.
 *
 * Needs: sm_80; any shape, layout and alignment. Where rows are not aligned to 16 bytes, or end within them, elements are read
 * one by one. What limits it is the plain unit that splits, about as long as the tensor unit multiplies: a warp's 32 x 32 of a
 * step are 48 instructions of the one and some 350 of the other.
 */
#include "kernel.h"

#include "epilogue.h"
#include "magnitudes.h"
#include "parts.h"
#include "tiles.h"
#include "verdict.h"

enum {
    PARTS = SPLITS,
    STEP = 16,           /* k of an instruction */
    MEMBERS = 4,         /* lanes that share a step's k */
    DEPTH = 4,           /* k that each has, */
    ROWS_A = WARP_M / 8, /* of so many rows of op(A) */
    ROWS_B = WARP_N / 8, /* and columns of op(B) */
    PIECES_A = ROWS_A * DEPTH,
    PIECES_B = ROWS_B * DEPTH,
    WORDS_A = PIECES_A / 2, /* of a part */
    WORDS_B = PIECES_B / 2,
    LINE = 2 * ROWS_A, /* neighbours of a column of D, which a lane has */
    WARPS = THREADS_X / 32,
    WARPS_M = TILE_M / WARP_M,
    WARPS_N = TILE_N / WARP_N,
    SLICES = WARPS / (WARPS_M * WARPS_N), /* warps that share k */
    ENTRIES =
        TILE_M * TILE_N / THREADS_X, /* of D, which a thread finishes: in a row, so many columns apart */
    COLUMN_STEP = THREADS_X / TILE_M,
    SHORT_K = 2048, /* below, exponents that are far apart are refused */
    BAND = 8
};

static_assert(PARTS == 3, "the products of parts are those of three");
static_assert(TILE_K == SLICES * STEP, "in turn, an instruction's each");
static_assert((ROWS_A == 2 || ROWS_A == 4) && (ROWS_B == 2 || ROWS_B == 4), "a lane's rows are one load");
static_assert(WARPS_M * WARP_M == TILE_M && WARPS_N * WARP_N == TILE_N, "warps tile the block");
static_assert(SLICES > 1 && SLICES * WARPS_M * WARPS_N == WARPS, "and share k");
static_assert(THREADS_X % TILE_M == 0 && ENTRIES * THREADS_X == TILE_M * TILE_N,
              "threads side by side finish a column of D");

static __device__ inline int least(int64_t x, int most) { return x < most ? (int)x : most; }

/* ---- From memory to registers --------------------------------------------------------------- */

/* Of a step's k a lane has neighbours; where they are read one by one each MEMBERS-th, so that lanes read neighbours. */
static __device__ inline int first_k_of_lane(int aligned)
{
    return (int)threadIdx.x % MEMBERS * (aligned ? DEPTH : 1);
}

/* One operand as a lane reads it; columns of op(B) are its rows. */
typedef struct operand {
    const float *from; /* the lane's first row, and its first k of the warp's first step */
    int64_t pitch;     /* elements from one of its rows (along k) or k (across it) to the next */
    int64_t stride;    /* and from one of the warp's steps to the next */
    int rows;          /* of the lane's, inside, none where below 0; where loads are aligned all or none */
    int along_k;
} operand;

static __device__ inline operand operand_of(const void *matrix, int64_t ld, int64_t row, int64_t count,
                                            int64_t k, int rows_of_lane, int along_k, int aligned)
{
    int lane = (int)threadIdx.x % 32;
    int64_t first = row + lane / MEMBERS * rows_of_lane;
    int64_t first_k = k + first_k_of_lane(aligned);
    operand of;
    of.along_k = along_k;
    of.pitch = ld;
    of.stride = TILE_K * (along_k ? 1 : ld);
    of.rows = least(count - first, rows_of_lane);
    /* Rows outside are read as others, and become sums of no place in D: so no aligned load asks where it is. */
    first = of.rows > 0 ? first : row;
    of.from = (const float *)matrix + (along_k ? first * ld + first_k : first + first_k * ld);
    return of;
}

/* Whether a lane's loads of a step are aligned, and lie inside or outside as a whole. All lanes find the same. */
static __device__ inline int loads_fit(const void *matrix, int64_t ld, int64_t stride, int64_t count,
                                       int64_t k, int rows_of_lane, int along_k)
{
    int unit = along_k ? DEPTH : rows_of_lane;
    int off = (int)((uintptr_t)matrix / sizeof(float)) | (int)ld | (int)stride;
    return (uintptr_t)matrix % sizeof(float) == 0 && (off & (unit - 1)) == 0 &&
           (int)count % rows_of_lane == 0 && (int)k % DEPTH == 0;
}

/* Elements so far apart: the first `inside` of them, else zeros; aligned, which is a constant, neighbours all at once. */
static __device__ __forceinline__ void load_line(float *x, const float *from, int width, int apart,
                                                 int inside, int aligned)
{
    if (aligned && width == 4) {
        float4 four = __ldg((const float4 *)from);
        x[0] = four.x;
        x[1] = four.y;
        x[2] = four.z;
        x[3] = four.w;
    } else if (aligned) {
        float2 two = __ldg((const float2 *)from);
        x[0] = two.x;
        x[1] = two.y;
    } else {
#pragma unroll
        for (int e = 0; e < width; ++e) {
            x[e] = 0;
            if (e < inside) {
                x[e] = __ldg(from + e * apart);
            }
        }
    }
}

/* Starts the loads of a lane's pieces, in the order of memory: along k, or along the rows. The first of its k are inside. */
static __device__ __forceinline__ void load_pieces(float *x, const operand *of, int rows_of_lane, int inside,
                                                   int aligned)
{
    /* Four rows of four k are as many lines either way, and where they are aligned nothing else matters. */
    int along_k = (aligned && rows_of_lane == DEPTH) || of->along_k;
    const float *from = of->from;
    if (along_k) {
#pragma unroll
        for (int r = 0; r < rows_of_lane; ++r) {
            load_line(x + r * DEPTH, from, DEPTH, MEMBERS, r < of->rows ? inside : 0, aligned);
            from += of->pitch;
        }
    } else {
#pragma unroll
        for (int i = 0; i < DEPTH; ++i) {
            load_line(x + i * rows_of_lane, from, rows_of_lane, 1, i < inside ? of->rows : 0, aligned);
            from += aligned ? of->pitch : of->pitch * MEMBERS;
        }
    }
}

/* What a lane has of a step before it is split. */
typedef struct pieces {
    float a[PIECES_A];
    float b[PIECES_B];
} pieces;

typedef struct operands {
    operand a;
    operand b;
} operands;

/* Starts the loads of the warp's next step, with `left` k from its first one on, and goes on to the one after it. */
static __device__ __forceinline__ void fetch(pieces *x, operands *of, int64_t left, int aligned)
{
    if (left <= 0) {
        return;
    }
    int k_left = least(left, STEP) - first_k_of_lane(aligned);
    if (!aligned || k_left > 0) {
        int inside = aligned ? k_left : (k_left + MEMBERS - 1) / MEMBERS;
        load_pieces(x->a, &of->a, ROWS_A, inside, aligned);
        load_pieces(x->b, &of->b, ROWS_B, inside, aligned);
    } else {
        pieces none = {{0}, {0}};
        *x = none;
    }
    of->a.from += of->a.stride;
    of->b.from += of->b.stride;
}

/* ---- From f32 to parts ---------------------------------------------------------------------- */

/*
 * Words of the parts: part p of row r, words (PARTS * r + p) * 2 and the next, of two k each. In x the rows are row_step
 * apart, neighbouring k k_step. A first part may be infinite, of what is almost: then the second is, and no sum is finite.
 */
static __device__ __forceinline__ void split_rows(uint32_t *words, range *seen, const float *x,
                                                  int rows_of_lane, int row_step, int k_step)
{
#pragma unroll
    for (int r = 0; r < rows_of_lane; ++r) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float low = x[r * row_step + 2 * h * k_step];
            float high = x[r * row_step + (2 * h + 1) * k_step];
            uint32_t *to = words + r * PARTS * 2 + h;
            see(seen, low);
            see(seen, high);
            to[0] = pack_bf16(low, high);
            split_further(low, high, to[0], &to[2], &to[4]);
        }
    }
}

static __device__ __forceinline__ void split_pieces(uint32_t *words, range *seen, const float *x,
                                                    int rows_of_lane, int along_k)
{
    if (along_k) {
        split_rows(words, seen, x, rows_of_lane, DEPTH, 1);
    } else {
        split_rows(words, seen, x, rows_of_lane, 1, rows_of_lane);
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

/*
 * The lane's sums of D, as the instructions leave them. Those have columns of op(B) for rows, lane group and group + 8 of
 * instruction i its columns 2 i and 2 i + 1; and for columns rows of op(A), lane group's row j of instruction j. So of
 * D(LINE * member + e, ROWS_B * group + q) of the warp's tile, which sum_of() gives, the lane has all sums.
 */
typedef float sums[ROWS_B / 2][ROWS_A][4];

static __device__ __forceinline__ float sum_of(sums sum, int e, int q)
{
    return sum[q / 2][e % ROWS_A][q % 2 * 2 + e / ROWS_A];
}

/* Adds the products of one part of A's rows and one of B's. */
static __device__ __forceinline__ void multiply_parts(sums sum, const uint32_t *a, const uint32_t *b)
{
#pragma unroll
    for (int i = 0; i < ROWS_B / 2; ++i) {
        const uint32_t *first = b + 2 * i * PARTS * 2;
        const uint32_t *second = first + PARTS * 2;
        uint32_t rows[4] = {first[0], second[0], first[1], second[1]};
#pragma unroll
        for (int j = 0; j < ROWS_A; ++j) {
            mma_bf16_16x8x16(sum[i][j], rows, a + j * PARTS * 2);
        }
    }
}

/* Adds the products of a step: a1 b3, a2 b2, a3 b1, a1 b2, a2 b1, a1 b1. */
static __device__ __forceinline__ void multiply(sums sum, const uint32_t *a, const uint32_t *b)
{
    sums step = {{{0}}};
#pragma unroll
    for (int p = 0; p < 6; ++p) {
        int part_a = p < 3 ? p : p == 4;
        int part_b = p < 3 ? 2 - p : p == 3;
        multiply_parts(step, a + part_a * 2, b + part_b * 2);
    }
#pragma unroll
    for (int i = 0; i < ROWS_B / 2; ++i) {
#pragma unroll
        for (int j = 0; j < ROWS_A; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                sum[i][j][e] = __fadd_rn(sum[i][j][e], step[i][j][e]);
            }
        }
    }
}

/* What the lanes of a warp have seen of both operands. */
typedef struct seen {
    range a;
    range b;
} seen;

/* Adds the products of the warp's steps; `left` k are there from its first step on. */
static __device__ __forceinline__ void add_products(sums sum, operands *of, int64_t left, seen *seen,
                                                    int aligned)
{
    pieces x[STAGES];
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
        fetch(&x[s], of, left - s * TILE_K, aligned);
    }
#pragma unroll 1
    while (left > 0) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            if (left > 0) {
                uint32_t a[PARTS * WORDS_A];
                uint32_t b[PARTS * WORDS_B];
                split_pieces(a, &seen->a, x[s].a, ROWS_A, of->a.along_k);
                split_pieces(b, &seen->b, x[s].b, ROWS_B, of->b.along_k);
                fetch(&x[s], of, left - STAGES * TILE_K, aligned);
                multiply(sum, a, b);
            }
            left -= TILE_K;
        }
    }
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* What the warps leave for each other. */
typedef struct left_behind {
    __align__(16) float sums[SLICES][TILE_N][TILE_M + 4];
    uint32_t seen_a[WARPS];
    uint32_t seen_b[WARPS];
    block_share share; /* for which there is no register meanwhile */
} left_behind;

static __device__ inline void leave_sums(left_behind *to, sums sum, int slice, int row, int column)
{
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
#pragma unroll
    for (int q = 0; q < ROWS_B; ++q) {
        float *line = &to->sums[slice][column + ROWS_B * group + q][row + LINE * member];
#pragma unroll
        for (int e = 0; e < LINE; e += 4) {
            *(float4 *)(line + e) = make_float4(sum_of(sum, e, q), sum_of(sum, e + 1, q),
                                                sum_of(sum, e + 2, q), sum_of(sum, e + 3, q));
        }
    }
}

/* Whether parts may not stand for what the block has read. */
static __device__ inline int is_refused(const left_behind *from, int short_k)
{
    uint32_t largest_a = 0;
    uint32_t largest_b = 0;
    uint32_t least_a = 0;
    uint32_t least_b = 0;
#pragma unroll
    for (int w = 0; w < WARPS; ++w) {
        uint32_t a = from->seen_a[w];
        uint32_t b = from->seen_b[w];
        largest_a = a >> 8 > largest_a ? a >> 8 : largest_a;
        largest_b = b >> 8 > largest_b ? b >> 8 : largest_b;
        least_a = (a & 0xff) > least_a ? a & 0xff : least_a;
        least_b = (b & 0xff) > least_b ? b & 0xff : least_b;
    }
    return verdict_of_bytes(largest_a, least_a, short_k) | verdict_of_bytes(largest_b, least_b, short_k);
}

static __device__ inline int is_finite(float x) { return (__float_as_uint(x) & 0x7f800000u) != 0x7f800000u; }

/* What a thread finishes: elements of one row of D, COLUMN_STEP columns apart. */
typedef struct target {
    int64_t problem;
    int64_t row;
    int64_t column; /* the first, */
    int columns;    /* and how many are inside */
} target;

/* Sums a thread's elements as f32 arithmetic does. */
static __device__ inline void sum_plainly(float *sum, const gemm_arguments *arguments,
                                          const block_share *share, const target *to)
{
    int64_t a_k = arguments->trans_a ? 1 : arguments->lda;
    int64_t b_k = arguments->trans_b ? arguments->ldb : 1;
    int64_t b_column = arguments->trans_b ? 1 : arguments->ldb;
    const float *a = (const float *)arguments->a + to->problem * arguments->stride_a +
                     to->row * (arguments->trans_a ? arguments->lda : 1) + share->k_begin * a_k;
    const float *b = (const float *)arguments->b + to->problem * arguments->stride_b + to->column * b_column +
                     share->k_begin * b_k;
#pragma unroll
    for (int c = 0; c < ENTRIES; ++c) {
        sum[c] = 0;
    }
#pragma unroll 1
    for (int64_t k = share->k_begin; k < share->k_end; ++k) {
        float x = __ldg(a);
#pragma unroll
        for (int c = 0; c < ENTRIES; ++c) {
            if (c < to->columns) {
                sum[c] = fmaf(x, __ldg(b + c * COLUMN_STEP * b_column), sum[c]);
            }
        }
        a += a_k;
        b += b_k;
    }
}

/* Sums to D, as epilogue_element() does it for one: all of a thread's take each step together. */
static __device__ inline void finish_elements(const gemm_arguments *arguments, const target *to,
                                              const float *sum)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
    const float *c_from = (const float *)arguments->c;
    int64_t at_c = to->problem * arguments->stride_c + to->column * arguments->ldc + to->row;
    float *d =
        (float *)arguments->d + to->problem * arguments->stride_d + to->column * arguments->ldd + to->row;
    float value[ENTRIES];
#pragma unroll
    for (int c = 0; c < ENTRIES; ++c) {
        value[c] = -0.0f;
    }
    if (epilogue->bias) {
#pragma unroll
        for (int c = 0; c < ENTRIES; ++c) {
            if (c < to->columns) {
                value[c] = bias_of(epilogue, to->problem, to->row, to->column + c * COLUMN_STEP);
            }
        }
    }
    if (scalars.beta != 0) {
#pragma unroll
        for (int c = 0; c < ENTRIES; ++c) {
            if (c < to->columns) {
                value[c] = fmaf(scalars.beta, c_from[at_c + c * COLUMN_STEP * arguments->ldc], value[c]);
            }
        }
    }
#pragma unroll
    for (int c = 0; c < ENTRIES; ++c) {
        value[c] = fmaf(scalars.alpha, sum[c], value[c]);
    }
    activate_all(value, ENTRIES, epilogue->activation);
#pragma unroll
    for (int c = 0; c < ENTRIES; ++c) {
        if (c < to->columns) {
            d[c * COLUMN_STEP * arguments->ldd] = scalars.scale_d * value[c];
        }
    }
}

/* Adds the slices' sums of a thread's elements, or sums these anew, and stores them. */
static __device__ inline void store(const gemm_arguments *arguments, const left_behind *from)
{
    const block_share *share = &from->share;
    int row = (int)threadIdx.x % TILE_M;
    int column = (int)threadIdx.x / TILE_M;
    target to;
    to.problem = share->problem;
    to.row = share->row + row;
    to.column = share->column + column;
    int left = least(arguments->n - to.column, TILE_N);
    to.columns = left <= 0 || to.row >= arguments->m ? 0 : (left + COLUMN_STEP - 1) / COLUMN_STEP;
    if (to.columns == 0) {
        return;
    }
    int as_parts = !is_refused(from, arguments->k < SHORT_K);
    float sum[ENTRIES];
#pragma unroll
    for (int c = 0; c < ENTRIES; ++c) {
        sum[c] = from->sums[0][column + c * COLUMN_STEP][row];
#pragma unroll
        for (int s = 1; s < SLICES; ++s) {
            sum[c] = __fadd_rn(sum[c], from->sums[s][column + c * COLUMN_STEP][row]);
        }
        as_parts &= is_finite(sum[c]) | (c >= to.columns);
    }
    if (!as_parts) {
        sum_plainly(sum, arguments, share, &to);
    }
    if (arguments->partials) {
        int64_t part = to.problem * arguments->parts + share->part;
        float *partials =
            (float *)arguments->partials + (part * arguments->n + to.column) * arguments->m + to.row;
#pragma unroll
        for (int c = 0; c < ENTRIES; ++c) {
            if (c < to.columns) {
                partials[c * COLUMN_STEP * arguments->m] = sum[c];
            }
        }
    } else {
        finish_elements(arguments, &to, sum);
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ left_behind left;
    block_share share = share_of_lone_block(&arguments, BAND);
    if (threadIdx.x == 0) {
        left.share = share;
    }
    int warp = (int)threadIdx.x / 32;
    int slice = warp / (WARPS_M * WARPS_N);
    int row = warp % WARPS_M * WARP_M;
    int column = warp / WARPS_M % WARPS_N * WARP_N;
    int trans_a = arguments.trans_a != 0;
    int trans_b = arguments.trans_b != 0;
    int64_t first_k = share.k_begin + slice * STEP;
    const float *matrix_a = (const float *)arguments.a + share.problem * arguments.stride_a;
    const float *matrix_b = (const float *)arguments.b + share.problem * arguments.stride_b;
    int aligned =
        loads_fit(arguments.a, arguments.lda, arguments.stride_a, arguments.m, arguments.k, ROWS_A,
                  trans_a) &&
        loads_fit(arguments.b, arguments.ldb, arguments.stride_b, arguments.n, arguments.k, ROWS_B, !trans_b);
    operands of;
    of.a =
        operand_of(matrix_a, arguments.lda, share.row + row, arguments.m, first_k, ROWS_A, trans_a, aligned);
    of.b = operand_of(matrix_b, arguments.ldb, share.column + column, arguments.n, first_k, ROWS_B, !trans_b,
                      aligned);
    int is_there = share.row + row < arguments.m && share.column + column < arguments.n;
    wait_for_kernels_before();
    let_next_kernel_begin();
    int64_t length = is_there && !alpha_is_zero(arguments.alpha, ELEMENT_F32) ? share.k_end - first_k : 0;

    sums sum = {{{0}}};
    seen seen = {{0, 0}, {0, 0}};
    if (aligned) {
        add_products(sum, &of, length, &seen, 1);
    } else {
        add_products(sum, &of, length, &seen, 0);
    }
    leave_sums(&left, sum, slice, row, column);
    uint32_t word_a = word_of_warp(&seen.a);
    uint32_t word_b = word_of_warp(&seen.b);
    if (threadIdx.x % 32 == 0) {
        left.seen_a[warp] = word_a;
        left.seen_b[warp] = word_b;
    }
    __syncthreads();
    store(&arguments, &left);
}
