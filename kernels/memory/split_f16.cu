/*
 * split_f16.cu - A, B or both, f32, as two f16 each, in one launch: what a product needs that keeps 22 bits of every
 * element on the f16 tensor unit.
 *
 *     f32     s eeeeeeee fffffffffffffffffffffff       24 bits, the leading 1 included
 *     f16     s eeeee ffffffffff                       11 bits, and one more by the sign of what is left
 *
 *     x = 2^14 / E * a          E: the power of two at or below the largest magnitude in the block of a
 *     x = x1 + x2               x1 = f16(x), x2 = f16(x - x1), both to nearest even
 *
 * x is below 2^15. Where it is 1/4 or more, x2 is off by at most 2^-23 of x; below that by half of the least denormal f16,
 * 2^-25, which is 2^-39 of E. Whether that may be is for the product to tell, from what each block says of itself:
 * common/blocks.h.
 *
 *        k ->  0      64     128  ...                a block of threads a block of 64 rows of op(A), or columns
 *      row 0   +------+------+-------- - - -+        of op(B), by 64 k; the last slice has what k leaves over as
 *              |  E   |  E   |  E           |        well, up to 127
 *         64   +------+------+-------- - - -+
 *              |  E   |  E   |  E           |        memory runs along k or across, as the operand lies: one
 *        ...                                         column of memory is 8 strips of 8 elements
 *
 * A thread keeps its strips in registers: all are read, then the block's threads agree on E, then parts are written.
 * Planes lie as strips.h shows; columns_to is columns here, and ld_to is rows in whole multiples of 64. Memory limits it:
 * 4 bytes are read and 4 written an element.
 */
#include "kernel.h"

#include "blocks.h"
#include "epilogue.h"
#include "strips.h"

#define STRIPS (BLOCK_SIDE / STRIP) /* in a column of 64 */
#define LINES (THREADS_X / STRIPS)  /* columns that the threads take at a time */
#define TURNS (BLOCK_SIDE / LINES)  /* times for 64 of them; as many again for the rest of a last slice */
#define WARPS (THREADS_X / 32)
#define MOST_COUNT (2 * BLOCK_SIDE - 1) /* k of a slice */

static_assert(PLANES == 2 && STRIP == 8 && STRIPS == 8, "rows of a strip are bytes of two words");
static_assert(LINES * TURNS == BLOCK_SIDE && TURNS == 2, "the threads share a block evenly");

/* The block that the threads have: of one operand's problem. */
typedef struct block {
    const split_operand *operand;
    int64_t problem;
    int64_t row; /* where it begins in memory's columns, */
    int64_t column;
    int32_t length; /* of k */
    int32_t turns;  /* TURNS, or twice that */
} block;

static __device__ inline block block_of(const split_operand *operand, int64_t number, int32_t slices)
{
    int64_t side = operand->along_k ? operand->columns : operand->rows;
    int64_t blocks = (side + BLOCK_SIDE - 1) / BLOCK_SIDE;
    int32_t slice = (int32_t)(number % slices);
    int64_t first = number / slices % blocks * BLOCK_SIDE;
    int64_t k = (int64_t)slice * BLOCK_SIDE;
    block block;
    block.operand = operand;
    block.problem = number / slices / blocks;
    block.row = operand->along_k ? k : first;
    block.column = operand->along_k ? first : k;
    block.length = slice_length(operand->along_k ? operand->rows : operand->columns, slices, slice);
    block.turns = block.length > BLOCK_SIDE ? 2 * TURNS : TURNS;
    return block;
}

/*
 * Where the thread's strip of a turn lies: beside those of the turn before, and where memory runs along k, what is over
 * 64 of k lies below the same columns.
 */
typedef struct place {
    int64_t row;
    int64_t column;
} place;

static __device__ inline place place_of_turn(const block *block, int turn)
{
    int below = block->operand->along_k ? turn / TURNS : 0;
    int beside = block->operand->along_k ? turn % TURNS : turn;
    place place;
    place.row = block->row + below * BLOCK_SIDE + (int)(threadIdx.x % STRIPS) * STRIP;
    place.column = block->column + beside * LINES + (int)(threadIdx.x / STRIPS);
    return place;
}

static __device__ inline pieces read_strip(const block *block, const source *source, place at)
{
    const split_operand *operand = block->operand;
    int64_t from = element_at(operand, block->problem, at.column, at.row);
    int64_t left = at.column < operand->columns ? operand->rows - at.row : 0;
    return read_pieces(source, source->begin + from * ELEMENT_BYTES, left * ELEMENT_BYTES);
}

/* The elements of a strip. */
typedef struct strip {
    uint32_t element[STRIP];
} strip;

static __device__ inline strip join_strip(const pieces *pieces)
{
    strip strip;
#pragma unroll
    for (int half = 0; half < PACKS_JOINED; ++half) {
        pack joined = join_pieces(pieces, half);
#pragma unroll
        for (int w = 0; w < PACK; ++w) {
            strip.element[half * PACK + w] = joined.word[w];
        }
    }
    return strip;
}

/* Reads the thread's strips of TURNS turns, all at once. */
static __device__ inline void read_turns(strip strips[TURNS], const block *block, int first)
{
    source source = source_of(block->operand);
    pieces pieces[TURNS];
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        pieces[turn] = read_strip(block, &source, place_of_turn(block, first + turn));
    }
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        strips[turn] = join_strip(&pieces[turn]);
    }
}

static __device__ inline uint32_t magnitude_of(uint32_t element) { return element & 0x7fffffffu; }

static __device__ inline uint32_t largest_of(const strip strips[2 * TURNS])
{
    uint32_t largest = 0;
#pragma unroll
    for (int turn = 0; turn < 2 * TURNS; ++turn) {
#pragma unroll
        for (int i = 0; i < STRIP; ++i) {
            uint32_t magnitude = magnitude_of(strips[turn].element[i]);
            largest = magnitude > largest ? magnitude : largest;
        }
    }
    return largest;
}

/* The largest that any of the block's threads has, in all of them. */
static __device__ inline uint32_t block_max(uint32_t value, uint32_t words[WARPS])
{
    value = warp_max(value);
    if (threadIdx.x % 32 == 0) {
        words[threadIdx.x / 32] = value;
    }
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) {
        value = words[w] > value ? words[w] : value;
    }
    return value;
}

/* ---- How many large elements the rows (columns) have along k --------------------------------- */

/* How many of MOST_COUNT the row (column) lacks that has the fewest, but for those of zeros alone; and whether there are. */
typedef struct lack {
    uint32_t large;
    uint32_t zeros;
} lack;

/* What several lack together. */
static __device__ inline lack larger_lack(lack one, lack other)
{
    lack larger = {one.large > other.large ? one.large : other.large, one.zeros | other.zeros};
    return larger;
}

/* What one lacks that is inside, or not. */
static __device__ inline lack lack_of(uint32_t large, uint32_t any, int inside)
{
    lack of_one = {any != 0 ? MOST_COUNT - large : 0, any == 0 && inside};
    return of_one;
}

/* Along k: what the strips of a column have is summed over their threads, the large ones from bit 8 on. */
static __device__ inline lack lacking_along_k(const strip strips[2 * TURNS], const block *block,
                                              uint32_t large)
{
    lack most = {0, 0};
#pragma unroll
    for (int turn = 0; turn < TURNS; ++turn) {
        uint32_t sum = 0;
#pragma unroll
        for (int i = 0; i < STRIP; ++i) {
            uint32_t above = magnitude_of(strips[turn].element[i]);
            uint32_t below = magnitude_of(strips[TURNS + turn].element[i]);
            sum += (uint32_t)(above >= large) << 8 | (uint32_t)(above != 0);
            sum += (uint32_t)(below >= large) << 8 | (uint32_t)(below != 0);
        }
#pragma unroll
        for (int lanes = 1; lanes < STRIPS; lanes *= 2) {
            sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
        }
        int inside = place_of_turn(block, turn).column < block->operand->columns;
        most = larger_lack(most, lack_of(sum >> 8, sum & 0xff, inside));
    }
    return most;
}

/* Of the eight rows of a strip: counts in the bytes of two words, and bits where there is anything but 0. */
typedef struct row_counts {
    uint32_t large[2];
    uint32_t any;
} row_counts;

static __device__ inline row_counts count_rows(const strip strips[2 * TURNS], uint32_t large)
{
    row_counts counts = {{0, 0}, 0};
#pragma unroll
    for (int turn = 0; turn < 2 * TURNS; ++turn) {
#pragma unroll
        for (int i = 0; i < STRIP; ++i) {
            uint32_t magnitude = magnitude_of(strips[turn].element[i]);
            counts.large[i / 4] += (uint32_t)(magnitude >= large) << i % 4 * 8;
            counts.any |= (uint32_t)(magnitude != 0) << i;
        }
    }
    return counts;
}

/* Across: the threads with the same rows are eight apart, and in all warps. */
static __device__ inline lack lacking_across(const strip strips[2 * TURNS], const block *block,
                                             uint32_t least_large, row_counts of_warps[WARPS][STRIPS])
{
    lack none = {0, 0};
    row_counts counts = count_rows(strips, least_large);
#pragma unroll
    for (int lanes = STRIPS; lanes < 32; lanes *= 2) {
        counts.large[0] += __shfl_xor_sync(0xffffffffu, counts.large[0], lanes);
        counts.large[1] += __shfl_xor_sync(0xffffffffu, counts.large[1], lanes);
        counts.any |= __shfl_xor_sync(0xffffffffu, counts.any, lanes);
    }
    if (threadIdx.x % 32 < STRIPS) {
        of_warps[threadIdx.x / 32][threadIdx.x % 32] = counts;
    }
    __syncthreads();
    if (threadIdx.x >= BLOCK_SIDE) {
        return none;
    }
    uint32_t row = threadIdx.x % STRIP;
    uint32_t large = 0;
    uint32_t any = 0;
    for (int w = 0; w < WARPS; ++w) {
        const row_counts *of_warp = &of_warps[w][threadIdx.x / STRIP];
        large += of_warp->large[row / 4] >> row % 4 * 8 & 0xff;
        any |= of_warp->any >> row & 1;
    }
    return lack_of(large, any, block->row + (int)threadIdx.x < block->operand->rows);
}

/* What all of the block's threads have found, together. */
static __device__ inline lack block_lack(lack found, lack of_warps[WARPS])
{
    lack together = {warp_max(found.large), warp_max(found.zeros)};
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = together;
    }
    __syncthreads();
    for (int w = 0; w < WARPS; ++w) {
        together = larger_lack(together, of_warps[w]);
    }
    return together;
}

/* ---- Parts ------------------------------------------------------------------------------------ */

/* The parts of two f32, the first in the lower halves. */
static __device__ inline void split_pair(float low, float high, uint32_t *first, uint32_t *second)
{
    *first = pack_f16(low, high);
    *second = pack_f16(__fsub_rn(low, f32_from_f16((uint16_t)*first)),
                       __fsub_rn(high, f32_from_f16((uint16_t)(*first >> 16))));
}

/* Writes the parts of a strip, all multiplied by `lift`. */
static __device__ inline void write_strip(const block *block, place at, const strip *strip, float lift)
{
    const split_operand *operand = block->operand;
    if (at.column >= operand->columns_to || at.row >= operand->ld_to) {
        return;
    }
    int64_t plane = packs_of_plane(operand);
    int64_t column_to = column_in_planes(operand, block->problem, at.column);
    uint4 *to = pack_at(operand, column_to, at.row / STRIP);
    pack parts[PLANES];
#pragma unroll
    for (int i = 0; i < STRIP; i += 2) {
        split_pair(__uint_as_float(strip->element[i]) * lift, __uint_as_float(strip->element[i + 1]) * lift,
                   &parts[0].word[i / 2], &parts[1].word[i / 2]);
    }
    store_pack(to, parts[0]);
    store_pack(to + plane, parts[1]);
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const split_arguments arguments)
{
    __shared__ uint32_t largest_of_warps[WARPS];
    __shared__ lack lacking_of_warps[WARPS];
    __shared__ row_counts counts_of_warps[WARPS][STRIPS];
    wait_for_kernels_before();
    let_next_kernel_begin();
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *arguments.left = 0;
    }
    if (alpha_is_zero(arguments.alpha, ELEMENT_F32)) {
        return; /* the product will look at nothing */
    }
    int of_a = blockIdx.x < (uint32_t)arguments.blocks_a;
    block block = block_of(of_a ? &arguments.a : &arguments.b,
                           of_a ? blockIdx.x : blockIdx.x - (uint32_t)arguments.blocks_a, arguments.slices);
    strip strips[2 * TURNS] = {{{0}}};
    read_turns(strips, &block, 0);
    if (block.turns > TURNS) {
        read_turns(strips + TURNS, &block, TURNS);
    }
    uint32_t largest = block_max(largest_of(strips), largest_of_warps);
    uint32_t exponent = largest >> 23;
    int usable = exponent >= BLOCK_LEAST_EXPONENT && exponent <= BLOCK_MOST_EXPONENT;
    uint32_t large = usable ? (exponent - BLOCK_LARGE) << 23 : 1; /* of no matter where it is not */
    lack lacks = block.operand->along_k ? lacking_along_k(strips, &block, large)
                                        : lacking_across(strips, &block, large, counts_of_warps);
    float lift = usable ? __uint_as_float((127 + BLOCK_TOP + 127 - exponent) << 23) : 0;
#pragma unroll
    for (int turn = 0; turn < 2 * TURNS; ++turn) {
        if (turn < block.turns) {
            write_strip(&block, place_of_turn(&block, turn), &strips[turn], lift);
        }
    }
    lacks = block_lack(lacks, lacking_of_warps);
    if (threadIdx.x == 0) {
        /* Without evidence the tiles of a block that f16 cannot stand for are refused before any is multiplied. */
        uint32_t seen = largest == 0 ? 0 : usable ? exponent : 255;
        uint32_t count = seen == 255 ? 0 : MOST_COUNT - lacks.large;
        arguments.verdicts[blockIdx.x] = block_word(seen, count, lacks.zeros);
    }
}
