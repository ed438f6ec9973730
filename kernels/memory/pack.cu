/*
 * pack.cu - copies A, B or both into workspace as a product's kernel wants them, in one launch: every column at
 * 128 bytes, op(A) and op(B) along k where only that will do, 8-bit floats as f16.
 *
 * A product reads each element once for every tile across, and the copy engine only where columns begin
 * at 16 bytes; this reads each element once in all, however the columns lie, and writes it once.
 *
 *        from: columns ld apart           to, straight: columns ld_to apart, columns_to of them, no gaps
 *      +--------------+                       +--------------+--+
 *      |              |                       |              | 0|
 *      |              |          -->          |              |  |
 *      +--------------+                       +--------------+  |
 *                                             |0                |   to, turned: the transpose of that
 *                                             +-----------------+
 *
 * What is added is zero in both operands, so that the product may sum over it. All of ld_to is written, and ld_to
 * is a multiple of 128 bytes: so there are only whole packs of 16 bytes to write, at aligned addresses. A source
 * column may begin anywhere, see pieces.h.
 *
 * Straight: packs are the units of the line that is written (line.h), a block's THREADS_X * rounds of them. Turned: a block
 * takes a tile of TILE_M x TILE_N, of bytes whose columns begin at packs several. Memory limits both.
 */
#include "kernel.h"

#include "epilogue.h"
#include "line.h"
#include "pieces.h"
#include "square.h"

/*
 * Whether packs that go straight, elements of 4 or 8 bytes that are turned, and bytes where columns begin at packs, come to
 * shared memory past the registers (cp.async), many on their way. All else goes through registers.
 */
#if !defined(CONVERTS) && (__CUDA_ARCH__ >= 800 || defined(CUDA_ON_CPU))
#define STREAMS 1
#else
#define STREAMS 0
#endif

#define AT_ONCE 4 /* packs whose loads a thread has under way in registers */

/* Two bytes come of one where 8-bit floats become f16. */
#ifdef CONVERTS
#define WIDER 2
#else
#define WIDER 1
#endif

static __device__ inline source source_of(const pack_operand *operand)
{
    int64_t last = (operand->problems - 1) * operand->stride + (operand->columns - 1) * operand->ld;
    source source;
    source.begin = (const unsigned char *)operand->from;
    source.end = source.begin + (last + operand->rows) * ELEMENT_BYTES;
    return source;
}

#ifdef CONVERTS

/* Two 8-bit floats, the lower halves' bytes of `bits`, as f16: exact. */
static __device__ inline uint32_t widen_pair(uint32_t bits, int32_t type)
{
    if (type == ELEMENT_E5M2) {
        return (bits & 0xffu) << 8 | (bits & 0xff00u) << 16; /* the upper half of an f16 */
    }
#if __CUDA_ARCH__ >= 890
    return f16x2_from_e4m3x2((uint16_t)bits);
#else
    return pack_f16(f32_from_e4m3((uint8_t)bits), f32_from_e4m3((uint8_t)(bits >> 8)));
#endif
}

static __device__ inline void store_packs(uint4 *to, const pack *pack, int32_t type)
{
    const uint32_t *word = pack->word;
    to[0] = make_uint4(widen_pair(word[0], type), widen_pair(word[0] >> 16, type), widen_pair(word[1], type),
                       widen_pair(word[1] >> 16, type));
    to[1] = make_uint4(widen_pair(word[2], type), widen_pair(word[2] >> 16, type), widen_pair(word[3], type),
                       widen_pair(word[3] >> 16, type));
}

#elif !STREAMS

static __device__ inline void store_packs(uint4 *to, const pack *pack, int32_t type)
{
    (void)type;
    store_pack(to, *pack);
}

#endif

#if STREAMS

/*
 * A thread brings the two aligned packs in which each of its packs lies, several of them on their way:
 *
 *     memory        |      low      |     high      |       aligned packs
 *     own                  |      pack     |
 *
 * What is behind the column comes as zeros. How far a pack begins into the first of its two waits beside them.
 */
typedef struct packs_on_the_way {
    uint4 low[THREADS_X];
    uint4 high[THREADS_X];
    uint32_t notes[THREADS_X];
} packs_on_the_way;

#define DEPTH (SHARED_BYTES / (int)sizeof(packs_on_the_way))

static_assert(DEPTH >= 3, "a thread has several packs on their way");

enum { OFFSET = 15, INSIDE = 16 };

/*
 * A thread's way from pack to pack of the line, THREADS_X further each: so many columns on and packs down, and one column
 * more where that one ends. All that it needs stands here, in registers: behind a copy the arguments would be read anew.
 */
typedef struct line_walk {
    const unsigned char *from;
    uint32_t pack;    /* of the column */
    uint32_t column;  /* of the problem */
    uint32_t problem; /* `problems`: the line is over */
    uint32_t units;   /* packs of a column, with the zeros at its end */
    uint32_t across;
    uint32_t down;
    uint32_t whole; /* packs of a column that are full */
    uint32_t rest;  /* bytes of the next one */
    uint32_t columns;
    uint32_t columns_to;
    uint32_t problems;
    int64_t step;       /* bytes from pack to pack, */
    int64_t to_column;  /* where a column ends, */
    int64_t to_problem; /* and where a problem does */
    int64_t within;     /* bytes from the operand's beginning in which two packs begin that are all its own */
} line_walk;

/* A number that stays in a register, where the compiler would work it out each time. */
static __device__ inline uint32_t held(uint32_t number)
{
    asm("" : "+r"(number));
    return number;
}

static __device__ inline int64_t held_bytes(int64_t bytes)
{
    uint32_t low = held((uint32_t)bytes);
    uint32_t high = held((uint32_t)((uint64_t)bytes >> 32));
    return (int64_t)((uint64_t)high << 32 | low);
}

/* Goes on to the problem in which the column lies. */
static __device__ __forceinline__ void find_problem(line_walk *walk)
{
    while (walk->column >= walk->columns_to && walk->problem < walk->problems) {
        walk->column -= walk->columns_to;
        ++walk->problem;
        walk->from += walk->to_problem;
    }
}

/* Columns of a line of 128 bytes each fit 32 bits, as memory is; packs do not. */
static __device__ inline line_walk walk_of(operand_share share, const source *source)
{
    const pack_operand *operand = share.operand;
    int64_t ld = operand->ld * ELEMENT_BYTES;
    uint64_t bytes = (uint64_t)operand->rows * ELEMENT_BYTES;
    uint64_t first = (uint64_t)share.block * (uint32_t)(THREADS_X * operand->rounds) + threadIdx.x;
    line_walk walk;
    walk.units = (uint32_t)(operand->ld_to / PACK);
    walk.column = (uint32_t)(first / walk.units);
    walk.pack = (uint32_t)(first - (uint64_t)walk.column * walk.units);
    walk.across = THREADS_X / walk.units;
    walk.down = held(THREADS_X - walk.across * walk.units);
    walk.whole = held((uint32_t)(bytes / 16));
    walk.rest = held((uint32_t)(bytes % 16));
    walk.columns = (uint32_t)operand->columns;
    walk.columns_to = (uint32_t)operand->columns_to;
    walk.problems = (uint32_t)operand->problems;
    walk.problem = walk.problems > 1 ? walk.column / walk.columns_to : 0;
    walk.column -= walk.problem * walk.columns_to;
    walk.step = held_bytes(walk.across * ld + walk.down * 16);
    walk.to_column = held_bytes(ld - (int64_t)walk.units * 16);
    walk.to_problem = operand->stride * ELEMENT_BYTES - walk.columns_to * ld;
    walk.within = held_bytes(source->end - source->begin > 31 ? source->end - source->begin - 31 : 0);
    walk.from = source->begin + walk.problem * operand->stride * ELEMENT_BYTES + walk.column * ld +
                (int64_t)walk.pack * 16;
    find_problem(&walk);
    return walk;
}

static __device__ __forceinline__ void walk_on(line_walk *walk)
{
    walk->pack += walk->down;
    walk->column += walk->across;
    walk->from += walk->step;
    if (walk->pack >= walk->units) {
        walk->pack -= walk->units;
        ++walk->column;
        walk->from += walk->to_column;
    }
    find_problem(walk);
}

/*
 * Has the next pack brought: in the two that it lies in, or of these what is the column's. One that begins in the first
 * bytes of the operand, or is nothing but zeros, comes at once.
 */
static __device__ __forceinline__ void bring_pack(packs_on_the_way *row, const source *source,
                                                  const line_walk *walk)
{
    const unsigned char *from = walk->from;
    int inside = walk->problem < walk->problems;
    uint32_t valid = walk->pack < walk->whole ? 16 : walk->pack == walk->whole ? walk->rest : 0;
    valid = inside && walk->column < walk->columns ? valid : 0;
    uint32_t offset = (uint32_t)(uintptr_t)from & OFFSET;
    const unsigned char *aligned = from - offset;
    if (valid == 16 && (uint64_t)(aligned - source->begin) < (uint64_t)walk->within) {
        copy_async_16_cached(&row->low[threadIdx.x], aligned, 16);
        copy_async_16_cached(&row->high[threadIdx.x], aligned + 16, 16);
    } else if (valid > 0 && aligned >= source->begin) {
        uint32_t end = offset + valid;
        uint32_t low = end < 16 ? end : 16;
        copy_async_16_cached(&row->low[threadIdx.x], aligned, (int)low);
        copy_async_16_cached(&row->high[threadIdx.x], end > 16 ? aligned + 16 : aligned, (int)(end - low));
    } else {
        pack own = gather_pack(from, (int32_t)valid);
        store_pack(&row->low[threadIdx.x], own);
        offset = 0;
    }
    row->notes[threadIdx.x] = offset | (inside ? INSIDE : 0);
}

/* Writes a pack that has come. */
static __device__ __forceinline__ void write_pack(const packs_on_the_way *row, uint4 *to)
{
    uint32_t note = row->notes[threadIdx.x];
    pack own = shift_packs(row->low[threadIdx.x], row->high[threadIdx.x], (int)(note & OFFSET));
    if (note & INSIDE) {
        store_pack(to, own);
    }
}

/* Writes the packs of a block. What a thread brings it writes itself, and waits for nobody. */
static __device__ inline void pack_straight(operand_share share, uint4 *staged)
{
    const pack_operand *operand = share.operand;
    packs_on_the_way *rows = (packs_on_the_way *)staged;
    source source = source_of(operand);
    line_walk walk = walk_of(share, &source);
    uint32_t rounds = (uint32_t)operand->rounds;
    uint4 *to = (uint4 *)operand->to + (uint64_t)share.block * (THREADS_X * rounds) + threadIdx.x;
    wait_for_kernels_before();
    let_next_kernel_begin();
    /* One loop for all: code that is run but a few times takes longer to come than to run. */
    uint32_t last = rounds + DEPTH - 1;
    uint32_t at = 0;
#pragma unroll 1
    for (uint32_t u = 0; u < last; ++u) {
        if (u < rounds) {
            bring_pack(&rows[at], &source, &walk);
            walk_on(&walk);
        }
        copy_async_commit();
        at = at + 1 < DEPTH ? at + 1 : 0;
        if (u >= DEPTH - 1) {
            copy_async_wait(DEPTH - 1);
            write_pack(&rows[at], to);
            to += THREADS_X;
        }
    }
}

#else

/* Writes the packs of a block, by way of registers. */
static __device__ inline void pack_straight(operand_share share, uint4 *staged)
{
    const pack_operand *operand = share.operand;
#ifdef CONVERTS
    const uint32_t rounds = AT_ONCE; /* which the host gives them */
#else
    const uint32_t rounds = (uint32_t)operand->rounds;
#endif
    stretch share_of_line = stretch_of_share(share, PACK, (int)rounds);
    const stretch *stretch = &share_of_line;
    source source = source_of(operand);
    uint4 *to = (uint4 *)operand->to + (stretch->first + threadIdx.x) * WIDER;
    (void)staged;
    wait_for_kernels_before();
    let_next_kernel_begin();
#pragma unroll 1
    for (uint32_t first = 0; first < rounds; first += AT_ONCE) {
        int32_t inside[AT_ONCE];
        pieces pieces[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            unit_source pack = source_of_unit(operand, stretch, first + u, PACK);
            inside[u] = pack.inside && first + u < rounds;
            pieces[u] =
                read_pieces(&source, source.begin + pack.from * ELEMENT_BYTES, pack.left * ELEMENT_BYTES);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            if (inside[u]) {
                pack joined = join_pieces(&pieces[u], 0);
                store_packs(to + (first + u) * THREADS_X * WIDER, &joined, operand->type);
            }
        }
    }
}

#endif

#ifndef CONVERTS

/* A tile of an operand that is turned over, counted down the rows of `from`, along its columns, and through the problems. */
typedef struct turned_tile {
    const unsigned char *at; /* the problem's first element */
    uint4 *to;               /* and its first pack */
    int64_t row;
    int64_t column;
} turned_tile;

/* Which one a tile is: down the rows of `from` first, then along its columns, then through the problems. */
typedef struct tile_number {
    uint32_t row;
    uint32_t column;
    uint32_t problem;
} tile_number;

static __device__ inline tile_number number_of_tile(const pack_operand *operand, uint32_t index)
{
    uint32_t tiles_m = (uint32_t)operand->tiles_m;
    uint32_t tiles = tiles_m * (uint32_t)operand->tiles_n;
    tile_number number;
    number.problem = index / tiles;
    number.column = index % tiles / tiles_m;
    number.row = index % tiles % tiles_m;
    return number;
}

static __device__ inline turned_tile tile_of(const pack_operand *operand, tile_number number,
                                             const source *source)
{
    int64_t problem = number.problem;
    turned_tile tile;
    tile.row = (int64_t)number.row * TILE_M;
    tile.column = (int64_t)number.column * TILE_N;
    tile.at = source->begin + problem * operand->stride * ELEMENT_BYTES;
    tile.to = (uint4 *)operand->to + problem * (operand->ld_to / PACK) * operand->columns_to;
    return tile;
}

#if STREAMS && ELEMENT_BYTES >= 4

/*
 * An element is as much as the copies past the registers bring at least: each goes to its place in the tile's transpose
 * by itself, wherever columns begin, and a pack is what lies side by side there. Rows one element longer than they are
 * leave all banks to who brings a column, and to most of who takes packs of a row.
 */
#define TILE_LD (TILE_N + 1)
#define COLUMNS_AT_ONCE (THREADS_X / TILE_M)

static_assert(TILE_M * TILE_LD * ELEMENT_BYTES <= SHARED_BYTES, "shared memory holds one tile");
static_assert(THREADS_X % TILE_M == 0 && TILE_N % COLUMNS_AT_ONCE == 0, "threads bring whole columns");
static_assert(TILE_M * TILE_N / PACK % THREADS_X == 0, "each thread writes the same number of packs");

static __device__ inline void bring_tile(const pack_operand *operand, const source *source,
                                         const turned_tile *tile, unit *staged)
{
    int r = (int)threadIdx.x % TILE_M;
    int c = (int)threadIdx.x / TILE_M;
    int64_t ld = operand->ld;
    int64_t left = tile->row + r < operand->rows ? operand->columns - tile->column : 0; /* columns */
    const unsigned char *from = tile->at + (tile->row + r + (tile->column + c) * ld) * ELEMENT_BYTES;
    const unsigned char *begin = source->begin;
#pragma unroll 4
    for (; c < TILE_N; c += COLUMNS_AT_ONCE) {
        int there = c < left;
#if ELEMENT_BYTES == 4
        copy_async_4(&staged[r * TILE_LD + c], there ? from : begin, there ? 4 : 0);
#else
        copy_async_8(&staged[r * TILE_LD + c], there ? from : begin, there ? 8 : 0);
#endif
        from += COLUMNS_AT_ONCE * ld * ELEMENT_BYTES;
    }
    copy_async_commit();
}

static __device__ inline void pack_turned(operand_share share, uint4 *shared)
{
    const pack_operand *operand = share.operand;
    unit *staged = (unit *)shared;
    source source = source_of(operand);
    turned_tile tile = tile_of(operand, number_of_tile(operand, share.block), &source);
    int64_t packs = operand->ld_to / PACK;
    int64_t columns_to = operand->columns_to;
    wait_for_kernels_before();
    let_next_kernel_begin();
    bring_tile(operand, &source, &tile, staged);
    int y = (int)threadIdx.x % (TILE_N / PACK);
    int i = (int)threadIdx.x / (TILE_N / PACK);
    int64_t at = tile.column / PACK + y;
    copy_async_wait(0);
    __syncthreads();
#pragma unroll 1
    for (; i < TILE_M && tile.row + i < columns_to && at < packs; i += THREADS_X / (TILE_N / PACK)) {
        const unit *elements = &staged[i * TILE_LD + y * PACK];
        pack pack;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            pack.word[w] = (uint32_t)(elements[w * 4 / ELEMENT_BYTES] >> w * 32 % (ELEMENT_BYTES * 8));
        }
        store_pack(&tile.to[at + (tile.row + i) * packs], pack);
    }
}

#else

/*
 * A thread turns over a square of elements in registers, as many columns as a pack has elements, a few of them on their way at
 * a time. Of bytes that would be four trips to memory, so it takes four columns, all at once, and makes a word of each of 16 rows:
 *
 *     memory      | column 4 y      pack x |                   shared memory, row 16 x + r    | . | word y | . .
 *                 | column 4 y + 1  pack x |        -->
 *                 | column 4 y + 2  pack x |                   (the transpose, by lines)
 *                 | column 4 y + 3  pack x |
 */
#if ELEMENT_BYTES == 1
#define SQUARE_COLUMNS 4
#else
#define SQUARE_COLUMNS PACK
#endif
#define SQUARES_N (TILE_N / SQUARE_COLUMNS)       /* along a row of the tile */
#define SQUARES (PACKS_M * SQUARES_N / THREADS_X) /* of a thread */
#define PACKS (PACKS_N * TILE_M / THREADS_X)      /* that a thread writes */
#if STREAMS || ELEMENT_BYTES > 1
#define COLUMNS_AT_ONCE (SQUARE_COLUMNS < AT_ONCE ? SQUARE_COLUMNS : AT_ONCE)
#else
#define COLUMNS_AT_ONCE 2 /* beside the loop over tiles there are no registers for more */
#endif

static_assert(SQUARES * THREADS_X == PACKS_M * SQUARES_N, "each thread takes the same number of squares");
static_assert(PACKS * THREADS_X == PACKS_N * TILE_M, "and of packs");
static_assert(PACKS_M % 8 == 0 && PACKS_N % 8 == 0, "lines of whole 128 bytes, in both matrices");
static_assert(TILE_M * TILE_N * ELEMENT_BYTES <= SHARED_BYTES, "shared memory holds one tile");

/* Reads the columns of a square whose first element is (row, column) of a matrix that begins at `at`. */
static __device__ inline void read_square(const pack_operand *operand, const source *source,
                                          const unsigned char *at, int64_t row, int64_t column,
                                          pack square[SQUARE_COLUMNS])
{
#pragma unroll
    for (int first = 0; first < SQUARE_COLUMNS; first += COLUMNS_AT_ONCE) {
        pieces pieces[COLUMNS_AT_ONCE];
#pragma unroll
        for (int c = 0; c < COLUMNS_AT_ONCE; ++c) {
            int64_t j = column + first + c;
            int64_t left = j < operand->columns ? operand->rows - row : 0;
            pieces[c] =
                read_pieces(source, at + (row + j * operand->ld) * ELEMENT_BYTES, left * ELEMENT_BYTES);
        }
#pragma unroll
        for (int c = 0; c < COLUMNS_AT_ONCE; ++c) {
            square[first + c] = join_pieces(&pieces[c], 0);
        }
    }
}

/* Turns a square over, and puts its rows into those of the tile's transpose. */
static __device__ inline void stage_square(uint4 *staged, int32_t x, int32_t y, pack square[SQUARE_COLUMNS])
{
#if ELEMENT_BYTES == 1
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        turn_small_square(square, 0, w);
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            uint32_t *words = (uint32_t *)staged_pack(staged, x * PACK + 4 * w + r, y / 4);
            words[y % 4] = square[r].word[w];
        }
    }
#else
    turn_over(square);
#pragma unroll
    for (int r = 0; r < PACK; ++r) {
        store_pack(staged_pack(staged, x * PACK + r, y), square[r]);
    }
#endif
}

/* Moves a tile through registers and shared memory, as transpose.cu does. */
static __device__ inline void turn_tile(const pack_operand *operand, uint32_t index, uint4 *staged)
{
    source source = source_of(operand);
    turned_tile tile = tile_of(operand, number_of_tile(operand, index), &source);
    int64_t row = tile.row;
    int64_t column = tile.column;
    wait_for_kernels_before();
    let_next_kernel_begin();
#pragma unroll
    for (int s = 0; s < SQUARES; ++s) {
        int32_t x = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_M;
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_M;
        pack square[SQUARE_COLUMNS];
        read_square(operand, &source, tile.at, row + x * PACK, column + y * SQUARE_COLUMNS, square);
        stage_square(staged, x, y, square);
    }
    __syncthreads();
    uint4 *to = tile.to;
#pragma unroll
    for (int s = 0; s < PACKS; ++s) {
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_N;
        int32_t i = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_N;
        if (row + i < operand->columns_to && column + y * PACK < operand->ld_to) {
            to[column / PACK + y + (row + i) * (operand->ld_to / PACK)] = *staged_pack(staged, i, y);
        }
    }
}

#if STREAMS && ELEMENT_BYTES == 1

/*
 * Where columns begin at packs, tiles of bytes come past the registers, several of a block's on their way, and are turned over on
 * their way out: a thread picks a word of each of 16 columns, which are four packs of the transpose. Pack x of column j lies at place
 * x ^ (j / 16 % 8) of eight: so a warp, which takes eight sixteens of columns and four words of a pack, has all banks to itself.
 */
#define TILES_ON_THE_WAY (SHARED_BYTES / (TILE_M * TILE_N))
#define COLUMNS_BROUGHT (THREADS_X / PACKS_M) /* by all threads at a time, a pack each */
#define QUADS_TAKEN (THREADS_X / PACKS_N)     /* of rows, four words' */

static_assert(TILES_ON_THE_WAY >= 2, "while a tile is written another one comes");
static_assert(PACKS_M == 8 && PACKS_N % 8 == 0, "eight packs have all banks to themselves");
static_assert(TILE_N % COLUMNS_BROUGHT == 0 && TILE_M / 4 % QUADS_TAKEN == 0, "the threads cover a tile");

static __device__ inline uint32_t place_in_tile(uint32_t column, uint32_t x)
{
    return column * PACKS_M + (x ^ (column / 16 % 8));
}

static __device__ __forceinline__ void bring_tile(const pack_operand *operand, const turned_tile *tile,
                                                  uint4 *to)
{
    uint32_t x = threadIdx.x % PACKS_M;
    uint32_t first = threadIdx.x / PACKS_M;
    int64_t left = operand->rows - tile->row - x * PACK; /* of a column, from the pack's first byte on */
    int32_t valid = left < 0 ? 0 : left < PACK ? (int32_t)left : PACK;
    int64_t columns = valid > 0 ? operand->columns - tile->column - first : 0;
    const unsigned char *from = tile->at + tile->row + x * PACK + (tile->column + first) * operand->ld;
#pragma unroll
    for (uint32_t column = 0; column < TILE_N; column += COLUMNS_BROUGHT) {
        int there = (int64_t)column < columns;
        copy_async_16(&to[place_in_tile(first + column, x)], there ? from : tile->at, there ? valid : 0);
        from += COLUMNS_BROUGHT * operand->ld;
    }
}

static __device__ __forceinline__ void write_tile(const pack_operand *operand, const turned_tile *tile,
                                                  const uint4 *staged)
{
    const uint32_t *words = (const uint32_t *)staged;
    uint32_t y = threadIdx.x % PACKS_N;
    int64_t packs = operand->ld_to / PACK;
#pragma unroll
    for (uint32_t first = 0; first < TILE_M / 4; first += QUADS_TAKEN) {
        uint32_t quad = first + threadIdx.x / PACKS_N;
        pack square[4];
#pragma unroll
        for (uint32_t j = 0; j < 16; ++j) {
            square[j % 4].word[j / 4] = words[place_in_tile(16 * y + j, quad / 4) * 4 + quad % 4];
        }
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            turn_small_square(square, 0, w);
        }
        int64_t row = tile->row + 4 * quad;
        int64_t left = operand->columns_to - row;
        uint4 *to = tile->to + tile->column / PACK + y + row * packs;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (r < left) {
                store_pack(to + r * packs, square[r]);
            }
        }
    }
}

static __device__ inline int begins_at_packs(const pack_operand *operand)
{
    return ((uintptr_t)operand->from | (uint64_t)operand->ld | (uint64_t)operand->stride) % 16 == 0;
}

static __device__ inline void next_tile(const pack_operand *operand, tile_number *number)
{
    if (++number->row == (uint32_t)operand->tiles_m) {
        number->row = 0;
        if (++number->column == (uint32_t)operand->tiles_n) {
            number->column = 0;
            ++number->problem;
        }
    }
}

static __device__ inline void stream_tiles(const pack_operand *operand, uint32_t first, uint32_t count,
                                           uint4 *staged)
{
    const uint32_t packs_of_tile = TILE_M * TILE_N / 16;
    source source = source_of(operand);
    tile_number coming = number_of_tile(operand, first);
    tile_number going = coming;
    uint32_t brought = 0; /* where the next tile goes, */
    uint32_t written = 0; /* and where it is when it has come */
    wait_for_kernels_before();
    let_next_kernel_begin();
#pragma unroll 1
    for (uint32_t i = 0; i < count + TILES_ON_THE_WAY - 1; ++i) {
        if (i < count) {
            turned_tile tile = tile_of(operand, coming, &source);
            bring_tile(operand, &tile, staged + brought * packs_of_tile);
            next_tile(operand, &coming);
            brought = brought + 1 < TILES_ON_THE_WAY ? brought + 1 : 0;
        }
        copy_async_commit();
        if (i >= TILES_ON_THE_WAY - 1) {
            turned_tile tile = tile_of(operand, going, &source);
            copy_async_wait(TILES_ON_THE_WAY - 1);
            __syncthreads();
            write_tile(operand, &tile, staged + written * packs_of_tile);
            next_tile(operand, &going);
            written = written + 1 < TILES_ON_THE_WAY ? written + 1 : 0;
            __syncthreads(); /* another tile comes in its place */
        }
    }
}

#endif

/*
 * Turns over a block's tiles: one, or of bytes an equal share of all, which is one tile more for some. The host does not know whether
 * the code is for a device that streams: later ones run what the driver makes of PTX for 7.5.
 */
static __device__ inline void pack_turned(operand_share share, uint4 *staged)
{
    const pack_operand *operand = share.operand;
#if ELEMENT_BYTES == 1
    uint32_t tiles = (uint32_t)operand->tiles_m * (uint32_t)operand->tiles_n * (uint32_t)operand->problems;
    uint32_t least = tiles / share.blocks;
    uint32_t more = tiles - least * share.blocks; /* so many blocks have one more */
    uint32_t first = share.block * least + (share.block < more ? share.block : more);
    uint32_t count = least + (share.block < more);
#if STREAMS
    if (begins_at_packs(operand)) {
        stream_tiles(operand, first, count, staged);
        return;
    }
    turn_tile(operand, first, staged); /* where columns begin elsewhere each tile has a block */
#else
    const uint32_t end = first + count;
#pragma unroll 1
    while (first < end) {
        turn_tile(operand, first, staged);
        __syncthreads(); /* all have read the tile */
        ++first;
    }
#endif
#else
    turn_tile(operand, share.block, staged);
#endif
}

#endif

#endif

/* Whether the product will look at A and B: it need not multiply by 0. */
static __device__ inline int is_wanted(const pack_arguments *arguments)
{
    if (arguments->alpha.device) {
        wait_for_kernels_before();
    }
    return !alpha_is_zero(arguments->alpha, arguments->result_type);
}

/* What can be worked out before anything may be read is worked out while the kernel before ends. */
KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const pack_arguments arguments)
{
    operand_share share = operand_share_of_block(&arguments);
    if (!is_wanted(&arguments)) {
        wait_for_kernels_before(); /* for who waits for this one alone */
        return;
    }
#ifdef CONVERTS
    pack_straight(share, 0);
#else
    DYNAMIC_SHARED(uint4, staged);
    if (share.operand->turned) {
        pack_turned(share, staged);
    } else {
        pack_straight(share, staged);
    }
#endif
}
