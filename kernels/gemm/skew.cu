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
#include "shift_words.h"
#include "tiles.h"

#define LARGER(x, y) ((x) > (y) ? (x) : (y))

enum {
    SIZE = sizeof(element),
    PIECE = 16,         /* bytes of a copy */
    STEP_K = 32 / SIZE, /* k of an instruction */
    STEPS = TILE_K / STEP_K,
    K_BYTES = TILE_K * SIZE,
    PERIOD = PIECE / SIZE, /* lines so far apart are off alike */
    WARPS_M = TILE_M / WARP_M,
    ROWS = WARP_N / 16,   /* instructions along n of a warp's tile */
    COLUMNS = WARP_M / 8, /* and along m */
    BAND = 8
};

/* Octets are in the order of memory. */
#define A_IN_QUADS 0
#define B_IN_QUADS 0
#include "mma_octets.h"
#include "mma_store.h"

/*
 * Bytes from line to line in shared memory, of a tile that is `side` rows (columns) high; and of all of it, either way. Of f32 across
 * k four lines are read together, eight words of each: two pieces more put them into different banks.
 */
#define PITCH(side, along_k) ((along_k) ? K_BYTES + PIECE : (side)*SIZE + (SIZE == 4 ? 2 : 1) * PIECE)
#define AREA(side) LARGER((side)*PITCH(side, 1), TILE_K *PITCH(side, 0))

typedef struct stage {
    __align__(16) char a[AREA(TILE_M)];
    __align__(16) char b[AREA(TILE_N)];
} stage;

/* The side that is straightened, and what it takes: rows of K_BYTES, or of so many bytes for each k. */
#define A_IS_SHORT (TILE_M <= TILE_N)
#define SHORT_SIDE (A_IS_SHORT ? TILE_M : TILE_N)
#define STRAIGHTENS(along_k) (SIZE == 2 || (SIZE == 1 && (along_k)))
#define STRAIGHT_BYTES(along_k) ((along_k) ? K_BYTES : SHORT_SIDE * SIZE)

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
static_assert(THREADS_X >= TILE_M && THREADS_X >= TILE_N && THREADS_X >= TILE_K, "a thread ends a line");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row asks for the shared memory that is used");
static_assert(sizeof(slab) * (THREADS_X / 32) <= SHARED_BYTES, "slabs take the place of the stages");
static_assert(STAGES >= 2, "one tile is multiplied while another one comes");

static __device__ inline int within(int64_t number, int least, int most)
{
    return number < least ? least : number > most ? most : (int)number;
}

/* ---- Copies --------------------------------------------------------------------------------- */

/*
 * One operand, as a block reads it: its tile begins at `from`, where k begins, and `count` of its rows (columns of B) lie
 * inside. Nothing before `begin` belongs to it.
 */
typedef struct operand {
    const char *from;
    const char *begin;
    uint64_t pitch; /* bytes from line to line of memory; with lines outside that may wrap around */
    int count;
} operand;

/* What line `line` of the operand's tile is off by, the same for every tile along k. */
static __device__ inline int off_of_line(const operand *of, int line)
{
    return (int)((uintptr_t)(of->from + (uint64_t)line * of->pitch) % PIECE);
}

/*
 * What a thread copies of an operand's tiles: a piece of every so many lines, and one line's last. `reach` is how many bytes
 * there are from where a piece begins to where its line ends: across k. Along k lines end with k, and the bytes of k that are left
 * come on top of it, tile by tile.
 */
typedef struct walk {
    const char *from;
    const char *last;
    uint64_t line_step; /* bytes from line to line of the thread, */
    uint64_t tile_step; /* and from tile to tile */
    int line;
    int reach;
    int last_reach;
} walk;

/* So many pieces of a line are copied by neighbouring threads, and so many lines at a time. */
#define PIECES(side, along_k) ((along_k) ? K_BYTES / PIECE : (side)*SIZE / PIECE)
#define LINES(side, along_k) ((along_k) ? (side) : TILE_K)
#define LINE_STEP(side, along_k) (THREADS_X / PIECES(side, along_k))

#define COVERS(side, along_k)                                                                                \
    (THREADS_X % PIECES(side, along_k) == 0 && LINES(side, along_k) % LINE_STEP(side, along_k) == 0 &&       \
     LINE_STEP(side, along_k) % PERIOD == 0)

static_assert(COVERS(TILE_M, 1) && COVERS(TILE_M, 0) && COVERS(TILE_N, 1) && COVERS(TILE_N, 0),
              "threads copy all of a tile, each of lines that are off alike");
static_assert(TILE_K % PERIOD == 0, "and alike in every tile");

#define NOTHING (-(1 << 20)) /* of a line that is not off: it needs no last piece */

static __device__ __forceinline__ walk walk_of(const operand *of, int side, int along_k)
{
    int pieces = PIECES(side, along_k);
    int piece = (int)threadIdx.x % pieces;
    int all = along_k ? 0 : of->count * SIZE;
    int off;
    walk w;
    w.line = (int)threadIdx.x / pieces;
    off = off_of_line(of, w.line);
    w.from = of->from + (uint64_t)w.line * of->pitch - off + piece * PIECE;
    w.reach = off + all - piece * PIECE;
    w.line_step = LINE_STEP(side, along_k) * of->pitch;
    w.tile_step = along_k ? K_BYTES : TILE_K * of->pitch;
    off = off_of_line(of, (int)threadIdx.x);
    w.last = of->from + (uint64_t)threadIdx.x * of->pitch - off + pieces * PIECE;
    w.last_reach = off > 0 ? off + all - pieces * PIECE : NOTHING;
    return w;
}

/*
 * A piece in which the operand begins: what belongs to it of the first `size` bytes, and zeros behind them. What is before
 * stays what it was: it is shifted out.
 */
static __device__ inline void copy_singly(char *to, const char *from, const char *begin, int size)
{
#pragma unroll 1
    for (int at = (int)(begin - from); at < PIECE; at += SIZE) {
        element x = 0;
        if (at < size) {
            x = *(const element *)(from + at);
        }
        *(element *)(to + at) = x;
    }
}

/* Lines across k begin and end within sectors that others want too, and come through the cache. */
static __device__ __forceinline__ void copy_piece(char *to, const char *from, int size, int cached)
{
    if (cached) {
        copy_async_16_cached(to, from, size);
    } else {
        copy_async_16(to, from, size);
    }
}

/* Starts the copies of the next tile, of which k_left k are there, and goes on to the one after it. */
static __device__ __forceinline__ void copy_tile(char *to, walk *w, const operand *of, int k_left, int side,
                                                 int along_k)
{
    const int pitch = PITCH(side, along_k);
    const int pieces = PIECES(side, along_k);
    const int step = LINE_STEP(side, along_k);
    int lines = along_k ? of->count : k_left;
    int more = along_k ? k_left * SIZE : 0;
    int size = within(w->reach + more, 0, PIECE);
    char *first = to + w->line * pitch + (int)threadIdx.x % pieces * PIECE;
#pragma unroll
    for (int i = 0; i < LINES(side, along_k) / step; ++i) {
        const char *from = w->from + (uint64_t)i * w->line_step;
        int here = w->line + i * step < lines ? size : 0;
        /* A thread's other lines are a piece further on at the least. */
        if (i == 0 && here > 0 && from < of->begin) {
            copy_singly(first, from, of->begin, here);
        } else {
            copy_piece(first + i * step * pitch, from, here, !along_k);
        }
    }
    if (threadIdx.x < LINES(side, along_k)) {
        int here = (int)threadIdx.x < lines ? within(w->last_reach + more, 0, PIECE) : 0;
        copy_piece(to + (int)threadIdx.x * pitch + pieces * PIECE, w->last, here, !along_k);
    }
    w->from += w->tile_step;
    w->last += w->tile_step;
}

/* ---- The short side ------------------------------------------------------------------------- */

/* A thread's piece of every so many lines of the short side's tile, which are all off by the same. */
static __device__ __forceinline__ void straighten(char *to, const char *from, const operand *of, int along_k)
{
    const int pitch = PITCH(SHORT_SIDE, along_k);
    const int pieces = PIECES(SHORT_SIDE, along_k);
    const int step = LINE_STEP(SHORT_SIDE, along_k);
    int line = (int)threadIdx.x / pieces;
    int piece = (int)threadIdx.x % pieces;
    int off = off_of_line(of, line);
#pragma unroll
    for (int i = 0; i < LINES(SHORT_SIDE, along_k) / step; ++i) {
        const uint4 *both = (const uint4 *)(from + (line + i * step) * pitch + piece * PIECE);
        uint4 low = both[0];
        uint4 high = both[1];
        uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
        uint32_t shifted[4];
        shift_words(shifted, words, off, SIZE);
        *(uint4 *)(to + place_of(line + i * step, piece, along_k, STRAIGHT_BYTES(along_k))) =
            make_uint4(shifted[0], shifted[1], shifted[2], shifted[3]);
    }
}

/* ---- Octets --------------------------------------------------------------------------------- */

/*
 * Where a lane reads an operand. As it came: along k the word of its row in even octets and in odd ones; else each of the
 * lines that its word is put together of. Straightened: see begin_reading().
 */
typedef struct reader {
    int at[4];
    int shift; /* bits that a word of a row along k lies further on than the one at `at` */
    int straight;
} reader;

/* For the warp whose rows (columns of A) begin at `first` of the tile, which lies at `area` in a stage. */
static __device__ __forceinline__ reader reader_of(const operand *of, int area, int first, int side,
                                                   int along_k, int as_rows)
{
    const int pitch = PITCH(side, along_k);
    int group = (int)threadIdx.x % 32 / 4;
    int member = (int)threadIdx.x % 4;
    reader r = {{0}, 0, 0};
    if (along_k) {
#pragma unroll
        for (int odd = 0; odd < 2; ++odd) {
            int off = off_of_line(of, first + group + 8 * odd);
            r.at[odd] = area + (first + group) * pitch + off / 4 * 4 + 4 * member;
            r.shift = off % 4 * 8; /* of both octets */
        }
    } else {
#pragma unroll
        for (int e = 0; e < 4 / SIZE; ++e) {
            int line = 4 / SIZE * member + e;
            r.at[e] = area + line * pitch + off_of_line(of, line) + (first + group) * SIZE;
        }
    }
    r.straight = begin_reading(first, along_k, as_rows, STRAIGHT_BYTES(along_k));
    return r;
}

/* Which way an operand lies, and whether its words along k begin between those of memory: constants. */
typedef struct way {
    int along_k;
    int shifts;
} way;

/* The lane's word of row `group` of an octet: half `half` of a step along k. */
static __device__ __forceinline__ uint32_t read_word(const char *stage, const reader *r, int octet, int step,
                                                     int half, int side, way way)
{
    const int pitch = PITCH(side, way.along_k);
    if (way.along_k) {
        const uint32_t *at =
            (const uint32_t *)(stage + r->at[octet % 2] + octet * 8 * pitch + step * 32 + half * 16);
        return way.shifts ? (uint32_t)(((uint64_t)at[1] << 32 | at[0]) >> r->shift) : at[0];
    }
    const char *line = stage + (step * STEP_K + half * STEP_K / 2) * pitch + octet * 8 * SIZE;
    uint32_t word = 0;
#if ELEMENT == ELEMENT_F32
    word = *(const uint32_t *)(line + r->at[0]);
#elif ELEMENT == ELEMENT_S8
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        word |= (uint32_t) * (const uint8_t *)(line + r->at[e]) << 8 * e;
    }
#else
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        word |= (uint32_t) * (const uint16_t *)(line + r->at[e]) << 16 * e;
    }
#endif
    return word;
}

/* ---- Sums ----------------------------------------------------------------------------------- */

/* Both operands. */
typedef struct operands {
    operand a;
    operand b;
} operands;

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

/* What a thread copies of both. */
typedef struct walks {
    walk a;
    walk b;
} walks;

/* Starts the copies of the next tiles into a stage, if there are any: to_copy k are left. */
static __device__ __forceinline__ void copy_tiles(stage *to, walks *next, const operands *of, int64_t to_copy,
                                                  way a, way b)
{
    if (to_copy > 0) {
        int k_left = within(to_copy, 0, 2 * TILE_K); /* lines' last pieces go beyond the tile */
        copy_tile(to->a, &next->a, &of->a, k_left, TILE_M, a.along_k);
        copy_tile(to->b, &next->b, &of->b, k_left, TILE_N, b.along_k);
    }
    copy_async_commit();
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

static __device__ inline operand operand_of(const void *matrix, int64_t problem, int64_t stride, int64_t ld,
                                            int64_t first, int64_t all, int64_t k, int side, int along_k)
{
    operand of;
    of.begin = (const char *)matrix + problem * stride * SIZE;
    of.from = of.begin + (along_k ? first * ld + k : first + k * ld) * SIZE;
    of.pitch = (uint64_t)ld * SIZE;
    of.count = within(all - first, 0, side);
    return of;
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
    operands of;
    of.a = operand_of(arguments.a, share.problem, arguments.stride_a, arguments.lda, share.row, arguments.m,
                      share.k_begin, TILE_M, a_along_k);
    of.b = operand_of(arguments.b, share.problem, arguments.stride_b, arguments.ldb, share.column,
                      arguments.n, share.k_begin, TILE_N, b_along_k);
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
