/*
 * brief.cu - products that are over as soon as they have begun: any type, shape, alignment and layout, of short k. What
 * takes time is what comes one after the other: a launch, a trip to memory, a store. So there is nothing else. A thread
 * has one element of D, or THREAD_N neighbouring ones of a row; the loads of AHEAD k are on the way at once; it waits for
 * nobody.
 *
 *                       n                        The warp's lanes lie LANES_M along m, the others along n. In squares they
 *            +---+---+---+---+                   share rows of A and columns of B, wherever those lie. In columns of 32 they
 *     m      | lanes |  ...  |                   store whole sectors of D; then each lane fetches its part of the warp's B,
 *            |  0 .. |       |                   and has the rest from the others.
 *            +---+---+---+---+
 *
 * Where the kernel before has not ended yet there is time until it has: all that can be worked out from the arguments is,
 * and then the code that is still to come runs once for nothing, so that it is at hand. From a cache far away it takes
 * longer than it runs.
 *
 * Needs: nothing. Limits: each multiply-add takes a load or two from the first-level cache, and k is summed by one thread;
 * from k = 64 on, others are faster.
 */
#include "kernel.h"

#include "epilogue.h"
#include "store_sum.h"
#include "tiles.h"

enum {
    LANES_N = 32 / LANES_M,
    WARPS_M = TILE_M / LANES_M,
    AHEAD = THREAD_N == 1
                ? 8
                : 32 / THREAD_N, /* with several columns a warp fetches as many of B as it has lanes */
    BAND = 8
};

static_assert(LANES_M * LANES_N == 32 && WARPS_M * LANES_M == TILE_M, "warps tile the block's rows");
static_assert(TILE_M * TILE_N == THREADS_X * THREAD_N, "the threads tile the block");
static_assert(THREAD_N == 1 || LANES_N == 1, "lanes that share columns are a whole warp");

/* A thread's place in its block's tile. */
typedef struct standing {
    int lane;
    int row;
    int column; /* of its first element */
} standing;

static __device__ inline standing standing_of_thread(void)
{
    int warp = (int)threadIdx.x / 32;
    standing at;
    at.lane = (int)threadIdx.x % 32;
    at.row = warp % WARPS_M * LANES_M + at.lane % LANES_M;
    at.column = (warp / WARPS_M * LANES_N + at.lane / LANES_M) * THREAD_N;
    return at;
}

static __device__ inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* What a thread reads: its row of A, and its column of B, or of several and k its own. */
typedef struct operands {
    const element *a;
    const element *b;
    int64_t a_k; /* elements from one k to the next */
    int64_t b_k;
    int k; /* the first of B's */
} operands;

/* Who has no element of D reads the last row's or column's. */
static __device__ inline operands operands_of(const gemm_arguments *gemm, const block_share *share,
                                              standing at)
{
    int64_t a_row = gemm->trans_a ? gemm->lda : 1;
    int64_t b_column = gemm->trans_b ? 1 : gemm->ldb;
    operands of;
    of.a_k = gemm->trans_a ? 1 : gemm->lda;
    of.b_k = gemm->trans_b ? gemm->ldb : 1;
    of.k = at.lane / THREAD_N * (THREAD_N > 1);
    int64_t row = least(share->row + at.row, gemm->m - 1);
    int64_t column = least(share->column + at.column + at.lane % THREAD_N, gemm->n - 1);
    of.a = (const element *)gemm->a + share->problem * gemm->stride_a + share->k_begin * of.a_k + row * a_row;
    of.b = (const element *)gemm->b + share->problem * gemm->stride_b + (share->k_begin + of.k) * of.b_k +
           column * b_column;
    return of;
}

/* Adds the products of the next AHEAD k, of which `length` are there, in order. */
static __device__ __forceinline__ void add_products(accumulator sum[THREAD_N], const operands *of,
                                                    int64_t length)
{
    element x[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        x[k] = 0;
        if (k < length) {
            x[k] = of->a[k * of->a_k];
        }
    }
#if THREAD_N == 1
    element y[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        y[k] = 0;
        if (k < length) {
            y[k] = of->b[k * of->b_k];
        }
    }
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        sum[0] = multiply_add(widen(x[k]), widen(y[k]), sum[0]);
    }
#else
    element own = 0;
    if (of->k < length) {
        own = of->b[0];
    }
    uint32_t y = __float_as_uint(widen(own));
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        if (k < length) {
#pragma unroll
            for (int c = 0; c < THREAD_N; ++c) {
                uint32_t one = __shfl_sync(0xffffffffu, y, k * THREAD_N + c);
                sum[c] = multiply_add(widen(x[k]), __uint_as_float(one), sum[c]);
            }
        }
    }
#endif
}

/* Whether D = alpha * sum, in the operands' type, and no scalar is read from memory. */
static __device__ inline int is_plain(const gemm_arguments *gemm)
{
#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32
    const epilogue_arguments *epilogue = &gemm->epilogue;
    return !gemm->partials && !epilogue->bias && epilogue->activation == ACTIVATION_NONE &&
           epilogue->result_type == ELEMENT && !gemm->alpha.device && !gemm->beta.device &&
           !epilogue->scale_a.device && !epilogue->scale_b.device && !epilogue->scale_d.device &&
           gemm->beta.value.f32 == 0 && epilogue->scale_d.value.f32 == 1;
#else
    (void)gemm;
    return 0;
#endif
}

/* Stores what is plain, `count` elements of a row. */
static __device__ __forceinline__ void store_plain(element *to, int64_t ld, const accumulator sum[THREAD_N],
                                                   accumulator alpha, int64_t count)
{
#pragma unroll
    for (int c = 0; c < THREAD_N; ++c) {
        if (c < count) {
            to[c * ld] = (element)narrow(alpha * sum[c]);
        }
    }
}

/* The same of anything else: here once, for all elements. */
static __device__ __forceinline__ void store_sums(const accumulator sum[THREAD_N], const gemm_arguments *gemm,
                                                  const block_share *share, int64_t row, int64_t column,
                                                  int64_t count)
{
#pragma unroll 1
    for (int64_t number = 0; number < least(count, THREAD_N); ++number) {
        accumulator one = sum[0];
#pragma unroll
        for (int c = 1; c < THREAD_N; ++c) {
            one = c == number ? sum[c] : one;
        }
        store_sum(gemm, share, row, column + number, one);
    }
}

/*
 * Whether the next kernel's blocks may begin before these have waited: the launches of several kernels are then on their
 * way side by side. Not where there is more to do than to wait, see dependent.h.
 */
static __device__ inline int lets_all_begin(const gemm_arguments *gemm)
{
    const uint32_t few = 128;
    return THREAD_N > 1 ? gemm->k == 1 : gridDim.x <= few && gemm->k <= 16;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    const gemm_arguments *gemm = &arguments;
    if (lets_all_begin(gemm)) {
        let_next_kernel_begin();
    }
    block_share share = share_of_lone_block(gemm, BAND);
    standing at = standing_of_thread();
    operands of = operands_of(gemm, &share, at);
    int64_t row = share.row + at.row;
    int64_t column = share.column + at.column;
    int64_t count = row < gemm->m ? gemm->n - column : 0; /* elements of D from the thread's first on */
    element *to = (element *)gemm->d + share.problem * gemm->stride_d + column * gemm->ldd + row;
    int plain = is_plain(gemm);
    accumulator alpha = 0;
    if (plain) {
        alpha = (accumulator)epilogue_scalars_of(&gemm->epilogue, gemm->alpha, gemm->beta).alpha;
    }
    accumulator sum[THREAD_N];
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        int64_t length = 0;
        if (pass > 0) {
            wait_for_kernels_before();
            let_next_kernel_begin();
            length = alpha_is_zero(gemm->alpha, gemm->epilogue.result_type) ? 0 : share.k_end - share.k_begin;
        }
#pragma unroll
        for (int c = 0; c < THREAD_N; ++c) {
            sum[c] = 0;
        }
#pragma unroll 1
        do {
            add_products(sum, &of, length);
            of.a += length > 0 ? AHEAD * of.a_k : 0;
            of.b += length > 0 ? AHEAD * of.b_k : 0;
            length -= AHEAD;
        } while (length > 0);
        if (plain) {
            store_plain(to, gemm->ldd, sum, alpha, pass > 0 ? count : 0);
        }
    }
    if (!plain) {
        store_sums(sum, gemm, &share, row, column, count);
    }
}
