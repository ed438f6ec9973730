/*
 * skew.cu - products of matrices whose rows begin anywhere, read as they lie: f16, bf16, tf32 (f32 rounded) and s8 on the
 * tensor unit (mma.sync), in any layout.
 *
 * The copy engine and 16-byte copies want rows that begin at 16 bytes. Where they do not, a product of two large operands
 * does best to copy both to where they do (memory/pack.cu), since it reads each element many times. But where one side of D
 * is short most of what there is to do is to read the long operand, and the copy is two more ways through memory. Here
 * it is read once. Rows come to shared memory in the aligned pieces of 16 bytes that they lie in, one more than they are
 * long, and what a row is off by is taken back on the way to the tensor unit:
 *
 *     memory            ...|x x 0 1 2 3 4 5|6 7 8 9 a b c d|e f g h i j k l|...       a row that begins 2 elements into
 *                            \_______________________________________/                a piece, and 16 of its elements
 *     shared memory        |x x 0 1 2 3 4 5|6 7 8 9 a b c d|e f g h ...               the same, as a line of a tile
 *     a lane's word                  |2 3|                                            out of the one or two it lies in
 *
 * As in mma.cu the instruction's rows run along n and its columns along m, and octets of 8 rows by 16 bytes along k are what
 * lanes hold: lane 4 * group + member the 4 bytes number `member` of row `group`. A tile lies in shared memory as in
 * memory:
 *
 *     along k      a line has K_BYTES of one row. A word is in two neighbours of shared memory, which are shifted
 *     across       a line has one k of all rows. A word is put together of as many lines as it has elements
 *
 * So the long side's words are read, which one warp wants, or two. The short side's more of them want: it is straightened
 * first, 16 bytes at a time, into a tile that ldmatrix reads, once for the block. (Not where that cannot help: words of f32 need no
 * shift, and bytes across k no instruction turns.)
 *
 * Lines are so far apart in shared memory that the words which lanes read together lie in different banks, as far as the
 * lines are off alike: an odd number of pieces, or of pairs of them for f32 across k. (Only bytes across k meet, two by two.) Every
 * eighth line is off alike (every fourth of f32, every sixteenth of s8), whatever the leading dimension is: so a thread, which
 * copies lines so far apart, has but one shift to know, or two for octets of s8, and every tile along k the same.
 *
 * Nothing beyond a row's end is read, since copies fill up with zeros from there: so k needs no care at its end either.
 * Before an operand's first element neither: the piece in which it lies is copied element by element.
 *
 * What limits it is memory where D is short, and else shared memory.
 *
 * Needs: sm_80; any shape and layout, bases at whole elements.
 */
#include "kernel.h"

#include "epilogue.h"
#include "tiles.h"

enum {
    WARPS_M = TILE_M / WARP_M,
    ROWS = WARP_N / 16,   /* instructions along n of a warp's tile */
    COLUMNS = WARP_M / 8, /* and along m */
    BAND = 8
};

/* Octets are in the order of memory. */
#define A_IN_QUADS 0
#define B_IN_QUADS 0
#include "skew_lines.h"

#include "mma_store.h"

typedef struct shared_memory {
    stage stages[STAGES];
    __align__(128) char straight[SIZE == 4 ? PIECE : SHORT_SIDE * K_BYTES];
} shared_memory;

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32 ||
                  ELEMENT == ELEMENT_S8,
              "there is an instruction for the elements");
static_assert(K_BYTES == 128, "a row of a tile is eight pieces");
static_assert(WARP_M % 32 == 0 && WARP_N % 32 == 0 && (WARP_M & (WARP_M - 1)) == 0 &&
                  (WARP_N & (WARP_N - 1)) == 0,
              "what goes through a slab");
static_assert(THREADS_X == 32 * WARPS_M * (TILE_N / WARP_N), "the warps tile the block");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(sizeof(slab) * (THREADS_X / 32) <= SHARED_BYTES, "slabs take the place of the stages");

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Where the warp reads both. */
typedef struct readers {
    reader a;
    reader b;
} readers;

/* Reads the octets of a step of both operands. */
static __device__ __forceinline__ void read_octets(octets *to, const shared_memory *shared, const char *stage,
                                                   const readers *at, int step, way a, way b)
{
#pragma unroll
    for (int pair = 0; pair < COLUMNS / 2; ++pair) {
        if (A_IS_SHORT && STRAIGHTENS(a.along_k)) {
            load_pair(to->columns, shared->straight, at->a.straight, pair, step, a.along_k, 0,
                      STRAIGHT_BYTES(a.along_k));
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                to->columns[pair][w] = read_word(stage, &at->a, 2 * pair + w / 2, step, w % 2, TILE_M, a);
            }
        }
        round_pair(&to->columns[pair][0], &to->columns[pair][1], 1);
        round_pair(&to->columns[pair][2], &to->columns[pair][3], 1);
    }
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        if (!A_IS_SHORT && STRAIGHTENS(b.along_k)) {
            load_pair(to->rows, shared->straight, at->b.straight, i, step, b.along_k, 1,
                      STRAIGHT_BYTES(b.along_k));
        } else {
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                to->rows[i][w] = read_word(stage, &at->b, 2 * i + w % 2, step, w / 2, TILE_N, b);
            }
        }
        round_pair(&to->rows[i][0], &to->rows[i][2], 1);
        round_pair(&to->rows[i][1], &to->rows[i][3], 1);
    }
}

/* Adds the products of a tile of the warp's. */
static __device__ __forceinline__ void multiply_tile(accumulator sum[ROWS][COLUMNS][4],
                                                     const shared_memory *shared, const char *stage,
                                                     const readers *at, way a, way b)
{
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        octets held;
        read_octets(&held, shared, stage, at, step, a, b);
#pragma unroll
        for (int i = 0; i < ROWS; ++i) {
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) {
                multiply(sum[i][j], held.rows[i], &held.columns[j / 2][j % 2 * 2]);
            }
        }
    }
}

/*
 * Sums the block's products over `length` k. While a tile is multiplied the copies of the STAGES - 1 next ones are under way;
 * when all warps are here everybody has left the tile before, and its place is filled anew.
 */
static __device__ __forceinline__ void sum_products(accumulator sum[ROWS][COLUMNS][4], shared_memory *shared,
                                                    const operands *of, int64_t length, int row, int column,
                                                    way a, way b)
{
    const int short_along_k = A_IS_SHORT ? a.along_k : b.along_k;
    walks copied = {walk_of(&of->a, TILE_M, a.along_k), walk_of(&of->b, TILE_N, b.along_k)};
    readers at = {reader_of(&of->a, 0, row, TILE_M, a.along_k, 0),
                  reader_of(&of->b, __builtin_offsetof(stage, b), column, TILE_N, b.along_k, 1)};
    int64_t to_copy = length;
    int next = 0;
    int now = 0;
#pragma unroll 1
    for (; next < STAGES - 1; ++next) {
        copy_tiles(&shared->stages[next], &copied, of, to_copy, a, b);
        to_copy -= TILE_K;
    }
#pragma unroll 1
    for (; length > 0; length -= TILE_K) {
        copy_async_wait(STAGES - 2);
        __syncthreads();
        copy_tiles(&shared->stages[next], &copied, of, to_copy, a, b);
        to_copy -= TILE_K;
        next = next + 1 < STAGES ? next + 1 : 0;
        const stage *here = &shared->stages[now];
        if (STRAIGHTENS(short_along_k)) {
            straighten(shared->straight, A_IS_SHORT ? here->a : here->b, A_IS_SHORT ? &of->a : &of->b,
                       short_along_k);
            __syncthreads();
        }
        multiply_tile(sum, shared, (const char *)here, &at, a, b);
        now = now + 1 < STAGES ? now + 1 : 0;
    }
}

/* The same with words of the long side along k as they are. */
static __device__ __forceinline__ void sum_either(accumulator sum[ROWS][COLUMNS][4], shared_memory *shared,
                                                  const operands *of, int64_t length, int row, int column,
                                                  int a_along_k, int b_along_k, int shifts)
{
    way a = {a_along_k, SIZE != 4};
    way b = {b_along_k, SIZE != 4};
    if (shifts || !(A_IS_SHORT ? b_along_k : a_along_k)) {
        sum_products(sum, shared, of, length, row, column, a, b);
    } else {
        if (A_IS_SHORT) {
            b.shifts = 0;
        } else {
            a.shifts = 0;
        }
        sum_products(sum, shared, of, length, row, column, a, b);
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    /* The block's share waits here for the last part. */
    __shared__ block_share kept;
    block_share share =
        arguments.tiles_m > BAND ? share_of_block(&arguments, BAND) : share_of_lone_block(&arguments, BAND);
    int a_along_k = arguments.trans_a != 0;
    int b_along_k = !arguments.trans_b;
    operands of = operands_of(&arguments, &share, a_along_k, b_along_k);
    if (threadIdx.x == 0) {
        kept = share;
    }
    int warp = (int)threadIdx.x / 32;
    int row = warp % WARPS_M * WARP_M;
    int column = warp / WARPS_M * WARP_N;
    wait_for_kernels_before();
    let_next_kernel_begin();
    int64_t length = share.k_end - share.k_begin;
    if (alpha_is_zero(arguments.alpha,
                      ELEMENT == ELEMENT_S8 ? arguments.epilogue.result_type : ELEMENT_F32)) {
        length = 0;
    }

    accumulator sum[ROWS][COLUMNS][4] = {{{0}}};
    const operand *wide = A_IS_SHORT ? &of.b : &of.a;
    int shifts = SIZE != 4 && ((uintptr_t)wide->from | (uintptr_t)wide->pitch) % 4 != 0;
    if (a_along_k && b_along_k) {
        sum_either(sum, shared, &of, length, row, column, 1, 1, shifts);
    } else if (a_along_k) {
        sum_either(sum, shared, &of, length, row, column, 1, 0, shifts);
    } else if (b_along_k) {
        sum_either(sum, shared, &of, length, row, column, 0, 1, shifts);
    } else {
        sum_either(sum, shared, &of, length, row, column, 0, 0, shifts);
    }
    /* Everybody has left the stages, and sees the share. */
    __syncthreads();
    store_tile(&arguments, &kept, (slab *)shared + warp, sum, row, column);
}
