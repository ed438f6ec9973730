/*
 * singles.cu - small products on the tensor unit, f16, bf16 and tf32 (f32 rounded), whose operands begin anywhere: each element goes from
 * memory straight to the register that the instruction (mma.sync) wants it in.
 *
 * What takes time in a product of a few microseconds is one thing after the other: the launch, a trip to memory, code that
 * has to be fetched, barriers. Rows that begin anywhere add to it wherever they are copied in pieces, which have to be moved
 * into place. Here nothing is copied and nothing moved. A lane's loads are of single elements, all of them on the way at once,
 * and one piece of code does for every layout: how far it is to the next row and to the next k are two numbers.
 *
 * The warps of a block share a tile of D, and what few k there are as well: slices take steps of 16 k in turn. Their sums meet in shared memory, and are added in the order of the slices.
 *
 *                    k of a step
 *                  |0 1 2 3|4 5 6 7|8 9 a b|c d e f|
 *        row g     |member |member |member |member |     lane 4 * g + member: four neighbours along k of
 *                  |  0    |  1    |  2    |  3    |     row g of each octet of rows (columns of B)
 *
 * That is the instruction's order but for that of k, which is the same for both operands. Its rows run along n and its columns
 * along m, as in mma.cu.
 *
 * Needs: sm_80; any shape, alignment and layout. What limits it is the loads, one element a lane each.
 */
#include "kernel.h"

#include "first_pass.h"
#include "mma_element.h"
#include "store_sum.h"

enum {
    SIZE = sizeof(element),
    STEP_K = 16,
    LANE_K = 4, /* neighbours along k that a lane has of a row in a step */
    MEMBERS = STEP_K / LANE_K,
    WORDS = LANE_K * SIZE / 4,  /* registers that they take */
    ROW_OCTETS = WARP_N / 8,    /* of a warp's tile: of B, */
    COLUMN_OCTETS = WARP_M / 8, /* and of A */
    WARPS_M = TILE_M / WARP_M,
    WARPS = WARPS_M * (TILE_N / WARP_N), /* of a slice */
    SLICES = THREADS_X / 32 / WARPS,
    PITCH = TILE_M % 16 == 0 ? TILE_M + 8
                             : TILE_M, /* sums from column to column: two lanes at most write to a bank */
    THREAD_ELEMENTS = TILE_M * TILE_N / THREADS_X,
    BAND = 8
};

#include "warp_place.h"

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32,
              "there is an instruction for the elements");
static_assert(WARP_M % 8 == 0 && WARP_N % 16 == 0 && TILE_M % WARP_M == 0 && TILE_N % WARP_N == 0,
              "instructions tile a warp's tile, and warps the block's");
static_assert(THREADS_X == 32 * WARPS * SLICES && TILE_K == SLICES * STEP_K, "a slice has a step of a tile");
static_assert(THREAD_ELEMENTS * THREADS_X == TILE_M * TILE_N && THREADS_X % TILE_M == 0,
              "threads store as many elements each, of one row");
static_assert(MEMBERS == 4, "lanes lie as in the instruction");

static __device__ inline int least(int64_t x, int most) { return x < most ? (int)x : most; }

/* ---- Operands ------------------------------------------------------------------------------- */

/* One operand as a block reads it: `rows` of its rows (columns of B) are inside. */
typedef struct operand {
    const char *from;
    int64_t step_row; /* bytes from row to row, */
    int64_t step_k;   /* and from one k to the next */
    int rows;
} operand;

static __device__ inline operand operand_of(const void *matrix, int64_t problem, int64_t stride, int64_t ld,
                                            int64_t first, int64_t all, int64_t k, int side, int along_k)
{
    operand of;
    of.step_row = (along_k ? ld : 1) * SIZE;
    of.step_k = (along_k ? 1 : ld) * SIZE;
    of.from = (const char *)matrix + problem * stride * SIZE + first * of.step_row + k * of.step_k;
    of.rows = least(all - first, side);
    return of;
}

/*
 * Where a lane's rows are, one of each octet from row `first` on. One that is outside is the last inside instead: its sums are
 * of no element of D.
 */
static __device__ __forceinline__ void find_rows(const char **rows, int count, const operand *of, int first)
{
    int group = (int)threadIdx.x % 32 / MEMBERS;
#pragma unroll
    for (int o = 0; o < count; ++o) {
        int row = first + 8 * o + group;
        rows[o] = of->from + (row < of->rows ? row : of->rows - 1) * of->step_row;
    }
}

/* Begins to load a lane's elements of a step, of which k_left k are there from its first on; the others are zeros. */
static __device__ __forceinline__ void load_step(element (*x)[LANE_K], const char *const *rows, int count,
                                                 int64_t at, int64_t step_k, int k_left)
{
#pragma unroll
    for (int o = 0; o < count; ++o) {
        const char *from = rows[o] + at;
#pragma unroll
        for (int e = 0; e < LANE_K; ++e) {
            x[o][e] = 0;
            if (e < k_left) {
                x[o][e] = __ldg((const element *)(from + e * step_k));
            }
        }
    }
}

/* Register `number` of what a lane has of a row. */
static __device__ __forceinline__ uint32_t word_of(const element *x, int number)
{
#if ELEMENT == ELEMENT_F32
    return tf32_from_f32(__float_as_uint(x[number]));
#else
    return x[2 * number] | (uint32_t)x[2 * number + 1] << 16;
#endif
}

/* ---- Products ------------------------------------------------------------------------------- */

typedef float sums[ROW_OCTETS / 2][COLUMN_OCTETS][4];

static __device__ __forceinline__ void add_step(sums sum, const element (*a)[LANE_K],
                                                const element (*b)[LANE_K])
{
#pragma unroll
    for (int w = 0; w < WORDS; w += 2) {
        uint32_t columns[COLUMN_OCTETS][2];
#pragma unroll
        for (int j = 0; j < COLUMN_OCTETS; ++j) {
            columns[j][0] = word_of(a[j], w);
            columns[j][1] = word_of(a[j], w + 1);
        }
#pragma unroll
        for (int i = 0; i < ROW_OCTETS / 2; ++i) {
            uint32_t rows[4] = {word_of(b[2 * i], w), word_of(b[2 * i + 1], w), word_of(b[2 * i], w + 1),
                                word_of(b[2 * i + 1], w + 1)};
#pragma unroll
            for (int j = 0; j < COLUMN_OCTETS; ++j) {
                multiply(sum[i][j], rows, columns[j]);
            }
        }
    }
}

/* Adds the slice's products of `length` k. Of no k the loop is run as well, for nothing: see the kernel. */
static __device__ __forceinline__ void add_products(sums sum, const operand *a, const operand *b,
                                                    const char *const *rows_a, const char *const *rows_b,
                                                    int slice, int64_t length)
{
    int first = slice * STEP_K + (int)threadIdx.x % MEMBERS * LANE_K; /* the lane's k */
    int64_t at_a = first * a->step_k;
    int64_t at_b = first * b->step_k;
    int64_t left = length - first;
#pragma unroll 1
    do {
        element x[COLUMN_OCTETS][LANE_K];
        element y[ROW_OCTETS][LANE_K];
        int k_left = left < LANE_K ? (int)left : LANE_K;
        load_step(x, rows_a, COLUMN_OCTETS, at_a, a->step_k, k_left);
        load_step(y, rows_b, ROW_OCTETS, at_b, b->step_k, k_left);
        add_step(sum, x, y);
        at_a += TILE_K * a->step_k;
        at_b += TILE_K * b->step_k;
        left -= TILE_K;
        /* Lanes of a warp go on together, as long as one of them has something left. */
    } while (left + (int)threadIdx.x % MEMBERS * LANE_K > 0);
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* A warp's sums to its slice's. */
static __device__ __forceinline__ void write_sums(float *to, sums sum, warp_place at)
{
    int group = (int)threadIdx.x % 32 / MEMBERS;
    int member = (int)threadIdx.x % MEMBERS;
    to += (at.column + group) * PITCH + at.row + 2 * member;
#pragma unroll
    for (int i = 0; i < ROW_OCTETS / 2; ++i) {
#pragma unroll
        for (int j = 0; j < COLUMN_OCTETS; ++j) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float *both = to + (16 * i + 8 * r) * PITCH + 8 * j;
                both[0] = sum[i][j][2 * r];
                both[1] = sum[i][j][2 * r + 1];
            }
        }
    }
}

/* The sums of element (row, column) of the tile of all slices that have any k. */
static __device__ __forceinline__ float sum_of(float shared[SLICES][TILE_N * PITCH], int row, int column,
                                               int slices)
{
    float sum = shared[0][column * PITCH + row];
#pragma unroll
    for (int slice = 1; slice < SLICES; ++slice) {
        if (slice < slices) {
            sum += shared[slice][column * PITCH + row];
        }
    }
    return sum;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float shared[SLICES][TILE_N * PITCH];
    block_share share = share_of_lone_block(&arguments, BAND);
    warp_place at = place_of_warp();
    operand a = operand_of(arguments.a, share.problem, arguments.stride_a, arguments.lda, share.row,
                           arguments.m, share.k_begin, TILE_M, arguments.trans_a != 0);
    operand b = operand_of(arguments.b, share.problem, arguments.stride_b, arguments.ldb, share.column,
                           arguments.n, share.k_begin, TILE_N, !arguments.trans_b);
    const char *rows_a[COLUMN_OCTETS];
    const char *rows_b[ROW_OCTETS];
    find_rows(rows_a, COLUMN_OCTETS, &a, at.row);
    find_rows(rows_b, ROW_OCTETS, &b, at.column);

    /* Neighbouring threads store neighbours in D. */
    int row = (int)threadIdx.x % TILE_M;
    int column = (int)threadIdx.x / TILE_M;
    const int column_step = THREADS_X / TILE_M;
    int count = row < a.rows ? (b.rows - column + column_step - 1) / column_step : 0;
    result *to = (result *)arguments.d + share.problem * arguments.stride_d + share.row + row +
                 (share.column + column) * arguments.ldd;
    int plain = is_plain(&arguments);
    int slices = 0;
    float alpha = 0;
    if (plain) {
        alpha = epilogue_scalars_of(&arguments.epilogue, arguments.alpha, arguments.beta).alpha;
    }
#pragma unroll 1
    for (int pass = first_pass(); pass < 2; ++pass) {
        int64_t length = begin_pass(pass, &arguments, &share);
        sums sum = {{{0}}};
        slices = least((length + STEP_K - 1) / STEP_K, SLICES);
        add_products(sum, &a, &b, rows_a, rows_b, at.slice, length);
        __syncthreads(); /* of the pass before all has been read */
        if (at.slice == 0 || at.slice < slices) {
            write_sums(shared[at.slice], sum, at);
        }
        __syncthreads();
        if (plain) {
#pragma unroll
            for (int i = 0; i < THREAD_ELEMENTS; ++i) {
                float value = alpha * sum_of(shared, row, column + i * column_step, slices);
                if (pass > 0 && i < count) {
                    to[i * column_step * arguments.ldd] = narrow(value);
                }
            }
        }
    }
    if (!plain) {
#pragma unroll 1
        for (int i = 0; i < count; ++i) {
            store_sum(&arguments, &share, share.row + row, share.column + column + i * column_step,
                      sum_of(shared, row, column + i * column_step, slices));
        }
    }
}
