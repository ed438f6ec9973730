/*
 * skew_wgmma.cu - skew.cu's products on Hopper's tensor unit: f16, bf16 and tf32 (f32 rounded) whose rows begin anywhere,
 * where one side of D is at most 128 and k is long, so that to read the long operand is most of what there is to do.
 *
 * Operands come to shared memory as they lie in memory, see skew_lines.h. In skew.cu every warp, which has 32 rows of the
 * long side, reads the whole short side again. wgmma takes the long side's words out of registers, put together as there,
 * as the rows of its instruction, and reads the short side, straightened once for the block under the unit's swizzle, as
 * its columns: once for 64 rows.
 *
 *     copies      tile t + 2 ------------------------------------------------ ...
 *     warps       | straighten t + 1 | wait | words of t + 1 | start | straighten t + 2 | wait | ...
 *     unit        | tile t ----------|                               | tile t + 1 -----| ...
 *
 * The unit reads 16-bit columns either way, and f32 along k alone: where these lie across they are turned as they are
 * straightened, four k of a column at a time. Both of f32 are rounded on their way.
 *
 * A warp has 32 rows of its warpgroup's 128, 16 in each of two instructions: which row is which does not matter to the
 * unit, as words come out of registers. From the sums on it goes as in skew.cu (mma_store.h), whose layout they have;
 * where the long side runs along m they go through the slab the other way.
 *
 * What limits it is memory, and then instructions and the wavefronts of shared memory (docs/notes/skew.md).
 *
 * Needs: sm_90a; any shape, bases at whole elements; one row for each layout.
 */
#include "kernel.h"

#include "../ptx/cluster.h"
#include "../ptx/tensor_copy.h"
#include "epilogue.h"
#include "tiles.h"

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT)
#define B_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_NN)

#define LONG_IS_N (TILE_M <= TILE_N) /* A is the short one */
#if LONG_IS_N
#define WGMMA_N TILE_M
#define LONG_ALONG_K B_ALONG_K
#define SHORT_ALONG_K A_ALONG_K
#else
#define WGMMA_N TILE_N
#define LONG_ALONG_K A_ALONG_K
#define SHORT_ALONG_K B_ALONG_K
#endif

#define WGMMA_TYPE_A ELEMENT
#define WGMMA_TYPE_B ELEMENT
#define WGMMA_A_ACROSS 0
/* The short side's tile, straightened, lies along k. */
#define STRAIGHT_ALONG_K (SHORT_ALONG_K || ELEMENT == ELEMENT_F32)
#if STRAIGHT_ALONG_K
#define WGMMA_B_ACROSS 0
#else
#define WGMMA_B_ACROSS 1
#endif
#include "../ptx/wgmma.h"

enum {
    INSTRUCTIONS = 2,   /* of a warpgroup along the long side, 64 rows each */
    ROWS = WARP_N / 16, /* as mma_store.h has them where the long side is n */
    COLUMNS = WARP_M / 8,
    ROW_BYTES = 128,
    ATOM_BYTES = 8 * ROW_BYTES, /* after which the swizzle repeats */
    BAND = 8
};

/* Octets are in the order of memory. */
#define A_IN_QUADS 0
#define B_IN_QUADS 0
#include "skew_lines.h"

#include "mma_store.h"

#define LONG_SIDE (LONG_IS_N ? TILE_N : TILE_M)

typedef struct shared_memory {
    __align__(1024) char straight[2][SHORT_SIDE * K_BYTES]; /* used in turn */
    stage stages[STAGES];
} shared_memory;

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32,
              "the unit reads such columns either way, or words are turned");
static_assert(K_BYTES == ROW_BYTES, "a row of the straightened tile is one of the swizzle");
static_assert(THREADS_X == LONG_SIDE && THREADS_X % 128 == 0,
              "whole warpgroups, whose warps have 32 rows each");
static_assert(WARP_M == (LONG_IS_N ? TILE_M : 32) && WARP_N == (LONG_IS_N ? 32 : TILE_N),
              "a warp has 32 of the long side and all of the short one");
static_assert(SHORT_SIDE % 64 == 0, "columns across are whole boxes");
static_assert(THREADS_X % SHORT_SIDE == 0 && TILE_K / 4 % (THREADS_X / SHORT_SIDE) == 0,
              "threads turn all of a tile of words");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(sizeof(slab) * (THREADS_X / 32) <= SHARED_BYTES, "slabs take the place of the stages");

/* Along k a row lies in the tile as it is, 128 bytes. */
static __device__ __forceinline__ void straighten_rows(char *to, const char *from, const operand *of)
{
    straighten(to, from, of, 1);
}

/* Across, for 16-bit types: boxes of 64 rows, a line of 128 bytes for each k. */
static __device__ __forceinline__ void straighten_boxes(char *to, const char *from, const operand *of)
{
    const int pitch = PITCH(SHORT_SIDE, 0);
    const int pieces = PIECES(SHORT_SIDE, 0);
    const int step = LINE_STEP(SHORT_SIDE, 0);
    int line = (int)threadIdx.x / pieces;
    int piece = (int)threadIdx.x % pieces;
    int off = off_of_line(of, line);
    char *box = to + piece / 8 * (TILE_K * ROW_BYTES);
#pragma unroll
    for (int i = 0; i < TILE_K / step; ++i) {
        int k = line + i * step;
        straighten_piece(box + k * ROW_BYTES + ((piece % 8 ^ k % 8) << 4), from + k * pitch + piece * PIECE,
                         off);
    }
}

/* Across, for words: a lane has a row, and of four lines at a time the word that is there of it. */
static __device__ __forceinline__ void turn_words(char *to, const char *from, const operand *of)
{
    const int pitch = PITCH(SHORT_SIDE, 0);
    const int step = THREADS_X / SHORT_SIDE;
    int row = (int)threadIdx.x % SHORT_SIDE;
    int quad = (int)threadIdx.x / SHORT_SIDE;
    const char *at[4];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        at[e] = from + (4 * quad + e) * pitch + off_of_line(of, e) + row * SIZE;
    }
#pragma unroll
    for (int i = 0; i < TILE_K / 4 / step; ++i) {
        uint32_t words[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            words[e] = *(const uint32_t *)(at[e] + 4 * i * step * pitch);
        }
        round_pair(&words[0], &words[1], 1);
        round_pair(&words[2], &words[3], 1);
        *(uint4 *)(to + place_of(row, quad + i * step, 1, ROW_BYTES)) =
            make_uint4(words[0], words[1], words[2], words[3]);
    }
}

/* The short side's tile under the unit's swizzle. */
static __device__ __forceinline__ void straighten_for_unit(char *to, const char *from, const operand *of)
{
    if (SHORT_ALONG_K) {
        straighten_rows(to, from, of);
    } else if (SIZE == 4) {
        turn_words(to, from, of);
    } else {
        straighten_boxes(to, from, of);
    }
}

/* The words of a tile that a lane gives to the unit. */
typedef struct held_words {
    uint32_t of[STEPS][INSTRUCTIONS][4];
} held_words;

static __device__ __forceinline__ void read_words(held_words *words, const char *stage, const reader *at,
                                                  way lies)
{
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < INSTRUCTIONS; ++i) {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                words->of[step][i][w] = read_word(stage, at, 2 * i + w % 2, step, w / 2, LONG_SIDE, lies);
            }
            round_pair(&words->of[step][i][0], &words->of[step][i][2], 1);
            round_pair(&words->of[step][i][1], &words->of[step][i][3], 1);
        }
    }
}

/* Starts a tile's products. */
static __device__ __forceinline__ void start_products(wgmma_sum sum[INSTRUCTIONS][WGMMA_SUMS],
                                                      const held_words *words, uint64_t columns)
{
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
#pragma unroll
        for (int i = 0; i < INSTRUCTIONS; ++i) {
            wgmma_a_registers(
                sum[i], words->of[step][i],
                wgmma_advance(columns, (uint32_t)step * (STRAIGHT_ALONG_K ? 32 : 16 * ROW_BYTES)), 1);
        }
    }
    wgmma_commit();
}

/*
 * Sums the block's products over `length` k, which may be none. While a tile is multiplied the next is straightened, and
 * the copies of those after it are under way.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[INSTRUCTIONS][WGMMA_SUMS],
                                                    shared_memory *shared, const operands *of, int64_t length,
                                                    int first, int shifts)
{
    const way a = {A_ALONG_K, 1};
    const way b = {B_ALONG_K, 1};
    const way lies = {LONG_ALONG_K, shifts};
    const operand *long_one = LONG_IS_N ? &of->b : &of->a;
    const operand *short_one = LONG_IS_N ? &of->a : &of->b;
    const int long_area = LONG_IS_N ? (int)__builtin_offsetof(stage, b) : 0;
    const int short_area = LONG_IS_N ? 0 : (int)__builtin_offsetof(stage, b);
    walks copied = {walk_of(&of->a, TILE_M, a.along_k), walk_of(&of->b, TILE_N, b.along_k)};
    reader at = reader_of(long_one, long_area, first, LONG_SIDE, LONG_ALONG_K, 1);
    uint64_t columns = wgmma_descriptor(shared->straight[0], TILE_K * ROW_BYTES, ATOM_BYTES);
    int64_t to_copy = length;
    int next = 0;
    int now = 0;
    uint32_t turn = 0;
    held_words words;
#pragma unroll 1
    for (; next < STAGES - 1; ++next) {
        copy_tiles(&shared->stages[next], &copied, of, to_copy, a, b);
        to_copy -= TILE_K;
    }
#pragma unroll 1
    for (; length > 0; length -= TILE_K) {
        const char *here = (const char *)&shared->stages[now];
        copy_async_wait(STAGES - 2);
        __syncthreads(); /* the tile is here, and everybody has left the one before */
        copy_tiles(&shared->stages[next], &copied, of, to_copy, a, b);
        to_copy -= TILE_K;
        next = next + 1 < STAGES ? next + 1 : 0;
        /* The products of two tiles ago, which read this one, were waited for before the last barrier. */
        straighten_for_unit(shared->straight[turn], here + short_area, short_one);
        wgmma_wait(0); /* the unit has let go of the words */
#pragma unroll
        for (int i = 0; i < INSTRUCTIONS; ++i) {
            wgmma_hold(sum[i]);
        }
        read_words(&words, here, &at, lies);
        fence_async_shared();
        __syncthreads(); /* the unit sees what all have straightened, and all have read the stage */
        start_products(sum, &words, wgmma_advance_by(columns, turn, sizeof(shared->straight[0])));
        turn ^= 1;
        now = now + 1 < STAGES ? now + 1 : 0;
    }
    wgmma_wait(0);
#pragma unroll
    for (int i = 0; i < INSTRUCTIONS; ++i) {
        wgmma_hold(sum[i]);
    }
}

#if LONG_IS_N

static __device__ __forceinline__ void store_sums(const gemm_arguments *arguments, const block_share *share,
                                                  slab *between, wgmma_sum sum[INSTRUCTIONS][WGMMA_SUMS],
                                                  int first)
{
    store_tile(arguments, share, between, (accumulator(*)[COLUMNS][4])sum, 0, first);
}

#else

/* The warp's tile to D, 32 columns at a time: instructions' rows are D's. Two lanes write to a bank, once a tile. */
static __device__ __forceinline__ void store_sums(const gemm_arguments *arguments, const block_share *share,
                                                  slab *between, wgmma_sum sum[INSTRUCTIONS][WGMMA_SUMS],
                                                  int first)
{
    int lane = (int)threadIdx.x % 32;
    int group = lane / 4;
    int member = lane % 4;
    target to = begin_target(arguments, share, first + lane);
#pragma unroll
    for (int column = 0; column < TILE_N; column += 16 * SLAB) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < 2 * SLAB; ++j) {
#pragma unroll
            for (int e = 0; e < 4 * INSTRUCTIONS; ++e) {
                between->columns[8 * j + 2 * member + e % 2][8 * (e / 2) + group] =
                    sum[e / 4][(column / 8 + j) * 4 + e % 4];
            }
        }
        __syncwarp();
#pragma unroll 1
        for (int i = 0; i < 16 * SLAB; i += AT_ONCE) {
            store_columns(arguments, &to, &between->columns[i][lane], share->column + column + i);
        }
    }
}

#endif

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, dynamic);
    /* Kept in a register: else the address is worked out, from the block's number in its cluster on, at each copy. */
    shared_memory *shared = (shared_memory *)__cvta_shared_to_generic(keep(shared_address(dynamic)));
    /* The block's share waits here for the last part. */
    __shared__ block_share kept;
    block_share share = share_of_block(&arguments, BAND);
    operands of = operands_of(&arguments, &share, A_ALONG_K, B_ALONG_K);
    if (threadIdx.x == 0) {
        kept = share;
    }
    int warp = (int)threadIdx.x / 32;
    int first = warp * 32;
    wait_for_kernels_before();
    let_next_kernel_begin();
    int64_t length = share.k_end - share.k_begin;
    if (alpha_is_zero(arguments.alpha, ELEMENT_F32)) {
        length = 0;
    }

    wgmma_sum sum[INSTRUCTIONS][WGMMA_SUMS];
#pragma unroll
    for (int i = 0; i < INSTRUCTIONS; ++i) {
#pragma unroll
        for (int e = 0; e < WGMMA_SUMS; ++e) {
            sum[i][e] = 0;
        }
    }
    const operand *long_one = LONG_IS_N ? &of.b : &of.a;
    if (SIZE == 4 || (LONG_ALONG_K && ((uintptr_t)long_one->from | (uintptr_t)long_one->pitch) % 4 == 0)) {
        sum_products(sum, shared, &of, length, first, 0);
    } else {
        sum_products(sum, shared, &of, length, first, 1);
    }
    /* Everybody has left the stages, and sees the share. */
    __syncthreads();
    store_sums(&arguments, &kept, (slab *)shared + warp, sum, first);
}
