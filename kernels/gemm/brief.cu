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
 * and then the code that is still to come runs once for nothing, but for the sums of several columns, so that it is at hand.
 * From a cache far away it takes longer than it runs.
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
    AHEAD = THREAD_N == 8 ? 16 : 8,
    AT_ONCE = 32 / THREAD_N, /* a warp's lanes hold so many k of several columns, */
    TURNS = AHEAD / AT_ONCE, /* or in so many turns all that are on the way */
    BAND = 8
};

static_assert(LANES_M * LANES_N == 32 && WARPS_M * LANES_M == TILE_M, "warps tile the block's rows");
static_assert(TILE_M * TILE_N == THREADS_X * THREAD_N, "the threads tile the block");
static_assert(THREAD_N == 1 || LANES_N == 1, "lanes that share columns are a whole warp");

/* A multiprocessor of 7.5 has places for 1,024 threads. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#define RESIDENT 4
#else
#define RESIDENT MIN_BLOCKS
#endif

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
    int k;      /* the first of B's */
    int length; /* k in all, also while they may not be read */
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
    of.length = (int)(share->k_end - share->k_begin); /* K_LIMIT at most */
    int64_t row = least(share->row + at.row, gemm->m - 1);
    int64_t column = least(share->column + at.column + at.lane % THREAD_N, gemm->n - 1);
    of.a = (const element *)gemm->a + share->problem * gemm->stride_a + share->k_begin * of.a_k + row * a_row;
    of.b = (const element *)gemm->b + share->problem * gemm->stride_b + (share->k_begin + of.k) * of.b_k +
           column * b_column;
    return of;
}

#if THREAD_N == 1

/* Adds the products of the next AHEAD k, of which `length` are there, in order. */
static __device__ __forceinline__ void add_products(accumulator sum[THREAD_N], const operands *of, int length)
{
    element x[AHEAD];
    element y[AHEAD];
#pragma unroll
    for (int k = 0; k < AHEAD; ++k) {
        x[k] = 0;
        if (k < length) {
            x[k] = of->a[k * of->a_k];
        }
    }
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
}

#else

/* Begins to read k `first` to `end`, of which `length` are there: the lane's row of A, and its elements of the warp's B. */
static __device__ __forceinline__ void read_ahead(element x[AHEAD], element y[TURNS], const operands *of,
                                                  int first, int end, int length)
{
#pragma unroll
    for (int k = first; k < end; ++k) {
        if (k < length) {
            x[k] = of->a[k * of->a_k];
        }
    }
#pragma unroll
    for (int k = first; k < end; k += AT_ONCE) {
        if (of->k + k < length) {
            y[k / AT_ONCE] = of->b[k * of->b_k];
        }
    }
}

/* Adds the products of the next AHEAD k, of which `length` are there, in order; a warp's lanes share what they read of B. */
static __device__ __forceinline__ void add_products(accumulator sum[THREAD_N], const operands *of, int length)
{
    element x[AHEAD] = {0};
    element y[TURNS] = {0};
    read_ahead(x, y, of, 0, AT_ONCE, length);
    if (of->length > AT_ONCE) {
        read_ahead(x, y, of, AT_ONCE, AHEAD, length);
    }
    /* What is next moves up, in a loop: its code comes from afar but once. */
#pragma unroll 1
    for (int first = 0; first < AHEAD && first < length; first += AT_ONCE) {
        uint32_t own = __float_as_uint(widen(y[0]));
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
#pragma unroll
            for (int c = 0; c < THREAD_N; ++c) {
                uint32_t one = __shfl_sync(0xffffffffu, own, k * THREAD_N + c);
                sum[c] = multiply_add(widen(x[k]), __uint_as_float(one), sum[c]);
            }
        }
#pragma unroll
        for (int k = AT_ONCE; k < AHEAD; ++k) {
            x[k - AT_ONCE] = x[k];
        }
#pragma unroll
        for (int turn = 1; turn < TURNS; ++turn) {
            y[turn - 1] = y[turn];
        }
    }
}

#endif

/* Stores what is plain, `count` elements of a row. */
static __device__ __forceinline__ void store_plain(element *to, int64_t ld, const accumulator sum[THREAD_N],
                                                   accumulator alpha, int count)
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
                                                  int count)
{
#pragma unroll 1
    for (int number = 0; number < count; ++number) {
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

KERNEL __launch_bounds__(THREADS_X, RESIDENT) KERNEL_NAME(const gemm_arguments arguments)
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
    /* Elements of D from the thread's first on. */
    int count = row < gemm->m ? (int)least(gemm->n - column, THREAD_N) : 0;
    element *to = (element *)gemm->d + share.problem * gemm->stride_d + column * gemm->ldd + row;
    int plain = is_plain(gemm);
    accumulator alpha = 0;
    if (plain) {
        alpha = (accumulator)epilogue_scalars_of(&gemm->epilogue, gemm->alpha, gemm->beta).alpha;
    }
    accumulator sum[THREAD_N];
#pragma unroll 1
    for (int pass = 0; pass < 2; ++pass) {
        int length = 0;
        if (pass > 0) {
            wait_for_kernels_before();
            let_next_kernel_begin();
            length = alpha_is_zero(gemm->alpha, gemm->epilogue.result_type) ? 0 : of.length;
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
