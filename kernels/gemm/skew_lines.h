/*
 * skew_lines.h - operands whose rows begin anywhere, in shared memory as they lie in memory: how they come there, how the
 * short side is straightened and how words of the long one are read. What skew.cu and skew_wgmma.cu share; ROWS and
 * COLUMNS, which mma_octets.h wants, are the kernel's.
 */
#ifndef CARAT_GEMM_SKEW_LINES_H
#define CARAT_GEMM_SKEW_LINES_H

enum {
    SIZE = sizeof(element),
    PIECE = 16,         /* bytes of a copy */
    STEP_K = 32 / SIZE, /* k of an instruction */
    STEPS = TILE_K / STEP_K,
    K_BYTES = TILE_K * SIZE,
    PERIOD = PIECE / SIZE /* lines so far apart are off alike */
};

#include "mma_octets.h"
#include "shift_words.h"

#define LARGER(x, y) ((x) > (y) ? (x) : (y))

/*
 * Bytes from line to line in shared memory, of a tile that is `side` rows (columns) high; and of all of it, either way.
 * Of f32 across k four lines are read together, eight words of each: two pieces more put them into different banks.
 */
#define PITCH(side, along_k) ((along_k) ? K_BYTES + PIECE : (side)*SIZE + (SIZE == 4 ? 2 : 1) * PIECE)
#define AREA(side) LARGER((side)*PITCH(side, 1), TILE_K *PITCH(side, 0))

/* The side that is straightened, and what it takes: rows of K_BYTES, or of so many bytes for each k. */
#define A_IS_SHORT (TILE_M <= TILE_N)
#define SHORT_SIDE (A_IS_SHORT ? TILE_M : TILE_N)
#define STRAIGHTENS(along_k) (SIZE == 2 || (SIZE == 1 && (along_k)))
#define STRAIGHT_BYTES(along_k) ((along_k) ? K_BYTES : SHORT_SIDE * SIZE)

typedef struct stage {
    __align__(16) char a[AREA(TILE_M)];
    __align__(16) char b[AREA(TILE_N)];
} stage;

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
 * What a thread copies of an operand's tiles: a piece of every so many lines, and one line's last. `reach` is how many
 * bytes there are from where a piece begins to where its line ends: across k. Along k lines end with k, and the bytes of k
 * that are left come on top of it, tile by tile.
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
static_assert(THREADS_X >= TILE_M && THREADS_X >= TILE_N && THREADS_X >= TILE_K, "a thread ends a line");
static_assert(STAGES >= 2, "one tile is multiplied while another one comes");

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
        int inside = w->line + i * step < lines;
        int here = inside ? size : 0;
        if (along_k && !inside) {
            continue; /* sums of what lies there are not stored, whatever they are */
        }
        /* A thread's other lines are a piece further on at the least. */
        if (i == 0 && here > 0 && from < of->begin) {
            copy_singly(first, from, of->begin, here);
        } else {
            copy_piece(first + i * step * pitch, from, here, !along_k);
        }
    }
    if ((int)threadIdx.x < (along_k ? lines : TILE_K)) {
        int here = along_k || (int)threadIdx.x < lines ? within(w->last_reach + more, 0, PIECE) : 0;
        copy_piece(to + (int)threadIdx.x * pitch + pieces * PIECE, w->last, here, !along_k);
    }
    w->from += w->tile_step;
    w->last += w->tile_step;
}

/* ---- The short side ------------------------------------------------------------------------- */

/* One piece: the 16 bytes that begin `off` bytes into the two at `from`. */
static __device__ __forceinline__ void straighten_piece(char *to, const char *from, int off)
{
    uint4 low = ((const uint4 *)from)[0];
    uint4 high = ((const uint4 *)from)[1];
    uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    uint32_t shifted[4];
    shift_words(shifted, words, off, SIZE);
    round_pair(&shifted[0], &shifted[1], 1);
    round_pair(&shifted[2], &shifted[3], 1);
    *(uint4 *)to = make_uint4(shifted[0], shifted[1], shifted[2], shifted[3]);
}

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
        straighten_piece(to + place_of(line + i * step, piece, along_k, STRAIGHT_BYTES(along_k)),
                         from + (line + i * step) * pitch + piece * PIECE, off);
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

/* ---- Both --------------------------------------------------------------------------------- */

/* Both operands. */
typedef struct operands {
    operand a;
    operand b;
} operands;

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

/* Both of a block's share. */
static __device__ inline operands operands_of(const gemm_arguments *arguments, const block_share *share,
                                              int a_along_k, int b_along_k)
{
    operands of;
    of.a = operand_of(arguments->a, share->problem, arguments->stride_a, arguments->lda, share->row,
                      arguments->m, share->k_begin, TILE_M, a_along_k);
    of.b = operand_of(arguments->b, share->problem, arguments->stride_b, arguments->ldb, share->column,
                      arguments->n, share->k_begin, TILE_N, b_along_k);
    return of;
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

#endif
