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
 * takes a tile of TILE_M x TILE_N through registers and shared memory, as transpose.cu does. Memory limits both.
 */
#include "kernel.h"

#include "epilogue.h"
#include "line.h"
#include "pieces.h"
#include "square.h"

/* Straight packs go to shared memory past the registers (cp.async), many on their way, see bring_row(). */
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
 * A warp takes rows of 32 packs, `rounds` of them, DEPTH - 1 on their way. Each lane brings the aligned pack in which its own
 * begins; the next one, where its own reaches into it, is its neighbour's. A column's last pack, and lane 31, bring it apart:
 * columns are whole eights of packs, so there is one in eight lanes.
 *
 *     memory        |   0   |   1   |   2   | ...  |  31   | apart |       aligned packs
 *     own              | own 0 | own 1 | ...           | own 31 |
 */
typedef struct row_of_packs {
    uint4 aligned[32];
    uint4 apart[5];     /* one for eight lanes each, and lane 31's */
    uint32_t notes[32]; /* what a lane has to know when its packs have come */
    uint32_t unused[4];
} row_of_packs;

#define DEPTH (SHARED_BYTES / (THREADS_X / 32) / (int)sizeof(row_of_packs))

static_assert(DEPTH >= 3, "a warp has several rows on their way");

enum { VALID = 31, OFFSET_SHIFT = 8, WHOLE = 1 << 16, APART = 1 << 17, INSIDE = 1 << 18 };

static __device__ inline int place_apart(int lane) { return lane == 31 ? 4 : lane / 8; }

/*
 * A thread's way from pack to pack of the line, THREADS_X further each: so many columns on and packs down, and one column
 * more where that one ends. Through several problems it is worked out anew each time.
 */
typedef struct line_walk {
    const unsigned char *from;
    int64_t column;
    uint32_t pack; /* of the column */
    uint32_t round;
    uint32_t units; /* packs of a column */
    uint32_t across;
    uint32_t down;
    int64_t ld_bytes;
    int64_t columns; /* of the operand, which is not looked at again: these stay in registers */
    int64_t columns_to;
    int64_t rows;
    int32_t has_problems;
} line_walk;

static __device__ inline line_walk walk_of(const pack_operand *operand, const source *source,
                                           const stretch *stretch)
{
    uint32_t across = stretch->within / stretch->units;
    line_walk walk;
    walk.units = stretch->units;
    walk.pack = stretch->within - across * stretch->units;
    walk.column = stretch->first_column + across;
    walk.round = 0;
    walk.across = THREADS_X / stretch->units;
    walk.down = THREADS_X % stretch->units;
    walk.ld_bytes = operand->ld * ELEMENT_BYTES;
    walk.columns = operand->columns;
    walk.columns_to = operand->columns_to;
    walk.rows = operand->rows;
    walk.has_problems = operand->problems > 1;
    walk.from = source->begin + walk.column * walk.ld_bytes + (int64_t)walk.pack * 16;
    return walk;
}

static __device__ inline void walk_on(line_walk *walk)
{
    ++walk->round;
    walk->pack += walk->down;
    walk->column += walk->across;
    walk->from += walk->across * walk->ld_bytes + walk->down * 16;
    if (walk->pack >= walk->units) {
        walk->pack -= walk->units;
        ++walk->column;
        walk->from += walk->ld_bytes - (int64_t)walk->units * 16;
    }
}

/* Has the next round's packs brought. */
static __device__ __forceinline__ void bring_row(row_of_packs *row, const pack_operand *operand,
                                                 const source *source, const stretch *stretch,
                                                 line_walk *walk)
{
    int lane = (int)threadIdx.x % 32;
    const unsigned char *from = walk->from;
    int64_t left = walk->column < walk->columns ? walk->rows - (int64_t)walk->pack * PACK : 0;
    int inside = walk->column < walk->columns_to;
    if (walk->has_problems) {
        unit_source unit = source_of_unit(operand, stretch, walk->round, PACK);
        from = source->begin + unit.from * ELEMENT_BYTES;
        left = unit.left;
        inside = unit.inside;
    }
    walk_on(walk);
    left *= ELEMENT_BYTES;
    uint32_t offset = (uint32_t)((uintptr_t)from % 16);
    const unsigned char *aligned = from - offset;
    uint32_t note = (left > 0 ? (uint32_t)(left < 16 ? left : 16) : 0) | offset << OFFSET_SHIFT;
    note |= inside ? INSIDE : 0;
    if (left > 0 && aligned >= source->begin && aligned + (offset > 0 ? 32 : 16) <= source->end) {
        note |= WHOLE;
        copy_async_16(&row->aligned[lane], aligned, 16);
        /* Whether the neighbour brings the next: its pack is of the same column, and whole. */
        if (offset > 0 && (lane == 31 || left <= 16 || aligned + 48 > source->end)) {
            note |= APART;
            copy_async_16(&row->apart[place_apart(lane)], aligned + 16, 16);
        }
    }
    row->notes[lane] = note;
}

/* Writes the packs of round u, which have come. */
static __device__ __forceinline__ void write_row(const row_of_packs *row, const pack_operand *operand,
                                                 const source *source, const stretch *stretch, uint32_t u,
                                                 uint4 *to)
{
    int lane = (int)threadIdx.x % 32;
    uint32_t note = row->notes[lane];
    pieces pieces;
    pieces.valid = (int32_t)(note & VALID);
    pieces.whole = (note & WHOLE) != 0;
    pieces.from = (const unsigned char *)(uintptr_t)(note >> OFFSET_SHIFT & 15);
    pieces.packs[0] = row->aligned[lane];
    pieces.packs[1] = note & APART ? row->apart[place_apart(lane)] : row->aligned[(lane + 1) % 32];
    if (!pieces.whole && pieces.valid > 0) {
        pieces.from = source->begin + source_of_unit(operand, stretch, u, PACK).from * ELEMENT_BYTES;
    }
    if (note & INSIDE) {
        store_pack(to, join_pieces(&pieces, 0));
    }
}

/* Writes the packs of a block. */
static __device__ inline void pack_straight(operand_share share, const stretch *stretch, uint4 *staged)
{
    const pack_operand *operand = share.operand;
    row_of_packs *rows = (row_of_packs *)staged + threadIdx.x / 32 * DEPTH;
    source source = source_of(operand);
    uint4 *to = (uint4 *)operand->to + stretch->first + threadIdx.x;
    uint32_t rounds = (uint32_t)operand->rounds;
    line_walk walk = walk_of(operand, &source, stretch);
    wait_for_kernels_before();
    let_next_kernel_begin();
    /* One loop for all: code that is run but a few times takes longer to come than to run. */
    uint32_t last = rounds + DEPTH - 1;
    uint32_t at = 0;
#pragma unroll 1
    for (uint32_t u = 0; u < last; ++u) {
        if (u < rounds) {
            bring_row(&rows[at], operand, &source, stretch, &walk);
        }
        copy_async_commit();
        at = at + 1 < DEPTH ? at + 1 : 0;
        if (u >= DEPTH - 1) {
            copy_async_wait(DEPTH - 1);
            __syncwarp(); /* all lanes' packs have come */
            write_row(&rows[at], operand, &source, stretch, u - (DEPTH - 1), to);
            __syncwarp(); /* and have been read */
            to += THREADS_X;
        }
    }
}

#else

/* The same by way of registers. */
static __device__ inline void pack_straight(operand_share share, const stretch *stretch, uint4 *staged)
{
    const pack_operand *operand = share.operand;
    source source = source_of(operand);
    uint4 *to = (uint4 *)operand->to + (stretch->first + threadIdx.x) * WIDER;
#ifdef CONVERTS
    const uint32_t rounds = AT_ONCE; /* which the host gives them */
#else
    const uint32_t rounds = (uint32_t)operand->rounds;
#endif
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

#define SQUARES (PACKS_M * PACKS_N / THREADS_X) /* of a thread */
#define COLUMNS_AT_ONCE (PACK < AT_ONCE ? PACK : AT_ONCE)

static_assert(SQUARES * THREADS_X == PACKS_M * PACKS_N, "each thread takes the same number of squares");
static_assert(PACKS_M % 8 == 0 && PACKS_N % 8 == 0, "lines of whole 128 bytes, in both matrices");
static_assert(TILE_M * TILE_N * ELEMENT_BYTES <= SHARED_BYTES, "shared memory holds one tile");

/* Reads a square whose first element is (row, column) of a matrix that begins at `at`, and turns it over. */
static __device__ inline void read_square(const pack_operand *operand, const source *source,
                                          const unsigned char *at, int64_t row, int64_t column,
                                          pack square[PACK])
{
#pragma unroll
    for (int first = 0; first < PACK; first += COLUMNS_AT_ONCE) {
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
    turn_over(square);
}

/* Moves one tile, counted down the rows of `from`, then along its columns, then through the problems. */
static __device__ inline void pack_turned(operand_share share, uint4 *staged)
{
    const pack_operand *operand = share.operand;
    source source = source_of(operand);
    uint32_t tiles = (uint32_t)operand->tiles_m * (uint32_t)operand->tiles_n;
    int64_t problem = share.block / tiles;
    int64_t row = (int64_t)(share.block % tiles % (uint32_t)operand->tiles_m) * TILE_M;
    int64_t column = (int64_t)(share.block % tiles / (uint32_t)operand->tiles_m) * TILE_N;
    const unsigned char *at = source.begin + problem * operand->stride * ELEMENT_BYTES;
#pragma unroll
    for (int s = 0; s < SQUARES; ++s) {
        int32_t x = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_M;
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_M;
        pack square[PACK];
        read_square(operand, &source, at, row + x * PACK, column + y * PACK, square);
#pragma unroll
        for (int r = 0; r < PACK; ++r) {
            store_pack(staged_pack(staged, x * PACK + r, y), square[r]);
        }
    }
    __syncthreads();
    uint4 *to = (uint4 *)operand->to + problem * (operand->ld_to / PACK) * operand->columns_to;
#pragma unroll
    for (int s = 0; s < SQUARES * PACK; ++s) {
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_N;
        int32_t i = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_N;
        if (row + i < operand->columns_to && column + y * PACK < operand->ld_to) {
            to[column / PACK + y + (row + i) * (operand->ld_to / PACK)] = *staged_pack(staged, i, y);
        }
    }
}

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
    stretch stretch = stretch_of_share(share, PACK, AT_ONCE);
    pack_straight(share, &stretch, 0);
#else
    DYNAMIC_SHARED(uint4, staged);
    if (share.operand->turned) {
        wait_for_kernels_before();
        let_next_kernel_begin();
        pack_turned(share, staged);
    } else {
        stretch stretch = stretch_of_share(share, PACK, share.operand->rounds);
        pack_straight(share, &stretch, staged);
    }
#endif
}
