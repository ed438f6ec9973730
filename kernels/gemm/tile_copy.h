/*
 * tile_copy.h - how the threads of a block copy tiles of A and B to shared memory as memory has them, for kernels that read
 * single elements of them there. They include it after kernel.h.
 *
 * A tile is `side` rows of op(A), or columns of op(B), by TILE_K of k, and lies in lines: of k where the operand runs along
 * it, else across. Lines are PAD elements longer than what is in them, so that what a warp reads lies in different banks.
 */
#ifndef CARAT_GEMM_TILE_COPY_H
#define CARAT_GEMM_TILE_COPY_H

enum {
    SIZE = sizeof(element),
    PIECE = 16 / SIZE, /* elements of a copy */
    PAD = 4
};

#define LARGER(x, y) ((x) > (y) ? (x) : (y))

/* Elements from line to line of a tile; and of all of it, either way. */
#define PITCH(side, along_k) (((along_k) ? TILE_K : (side)) + PAD)
#define AREA(side) LARGER((side)*PITCH(side, 1), TILE_K *PITCH(side, 0))

/* So many pieces of a line are copied by neighbouring threads, and so many lines at a time. */
#define PIECES(side, along_k) (((along_k) ? TILE_K : (side)) / PIECE)
#define LINES(side, along_k) ((along_k) ? (side) : TILE_K)
#define LINE_STEP(side, along_k) (THREADS_X / PIECES(side, along_k))

#define COVERS(side, along_k)                                                                                \
    (THREADS_X % PIECES(side, along_k) == 0 && LINES(side, along_k) % LINE_STEP(side, along_k) == 0)

static_assert(SIZE == 4 || SIZE == 8, "there is a copy of one element");
static_assert(COVERS(TILE_M, 1) && COVERS(TILE_M, 0) && COVERS(TILE_N, 1) && COVERS(TILE_N, 0),
              "threads copy all of a tile");

static __device__ inline int within(int64_t number, int least, int most)
{
    return number < least ? least : number > most ? most : (int)number;
}

/* What a thread copies of an operand's tiles: the same piece of every so many lines. */
typedef struct walk {
    const char *from; /* its first piece, in the tile that comes next */
    int64_t pitch;    /* bytes from line to line of memory */
    int line;         /* its first line, */
    int at;           /* and its first element there */
    int count;        /* of the tile's rows (columns of B), how many lie inside */
    int by_pieces;    /* whether all pieces begin at 16 bytes */
} walk;

/* `first` is the first row of the tile, of `all` that there are. */
static __device__ __forceinline__ walk walk_of(const void *matrix, int64_t ld, int64_t first, int64_t all,
                                               int64_t k, int side, int along_k)
{
    const char *from = (const char *)matrix + (along_k ? first * ld + k : first + k * ld) * SIZE;
    walk w;
    w.pitch = ld * SIZE;
    w.line = (int)threadIdx.x / PIECES(side, along_k);
    w.at = (int)threadIdx.x % PIECES(side, along_k) * PIECE;
    w.count = within(all - first, 0, side);
    w.by_pieces = ((uintptr_t)from | (uintptr_t)w.pitch) % 16 == 0;
    w.from = from + w.line * w.pitch + w.at * SIZE;
    return w;
}

static __device__ __forceinline__ void copy_element(element *to, const char *from, int here)
{
#if ELEMENT == ELEMENT_F64
    copy_async_8(to, from, here ? SIZE : 0);
#else
    copy_async_4(to, from, here ? SIZE : 0);
#endif
}

/* Starts the copies of the next tile, of which k_left k are there, and goes on to the one after it. Zeros fill the rest. */
static __device__ __forceinline__ void copy_tile(element *to, walk *w, int k_left, int side, int along_k)
{
    const int step = LINE_STEP(side, along_k);
    const int pitch = PITCH(side, along_k);
    int lines = (along_k ? w->count : k_left) - w->line;
    int inside = within((along_k ? k_left : w->count) - w->at, 0, PIECE);
    element *place = to + w->line * pitch + w->at;
    const char *from = w->from;
    if (w->by_pieces) {
#pragma unroll
        for (int line = 0; line < LINES(side, along_k); line += step) {
            copy_async_16(place + line * pitch, from + line * w->pitch, line < lines ? inside * SIZE : 0);
        }
    } else {
#pragma unroll 2
        for (int line = 0; line < LINES(side, along_k); line += step) {
            int here = line < lines ? inside : 0;
#pragma unroll
            for (int e = 0; e < PIECE; ++e) {
                copy_element(place + line * pitch + e, from + line * w->pitch + e * SIZE, e < here);
            }
        }
    }
    w->from += along_k ? TILE_K * SIZE : TILE_K * w->pitch;
}

/* sums(a_along_k, b_along_k), a macro, of how the operands lie: so each layout has code of its own. */
#define SUM_BY_LAYOUT(gemm, sums)                                                                            \
    do {                                                                                                     \
        if ((gemm).trans_a) {                                                                                \
            if ((gemm).trans_b) {                                                                            \
                sums(1, 0);                                                                                  \
            } else {                                                                                         \
                sums(1, 1);                                                                                  \
            }                                                                                                \
        } else if ((gemm).trans_b) {                                                                         \
            sums(0, 0);                                                                                      \
        } else {                                                                                             \
            sums(0, 1);                                                                                      \
        }                                                                                                    \
    } while (0)

#endif
