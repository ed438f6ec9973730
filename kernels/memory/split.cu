/*
 * split.cu - A, B or both, f32, as three bf16 each, in one launch: what a product needs that sums f32 with all 24 bits
 * on the bf16 tensor unit.
 *
 *     f32     s eeeeeeee fffffffffffffffffffffff       24 bits, the leading 1 included
 *     bf16    s eeeeeeee fffffff                        8 bits
 *
 *     a = a1 + a2 + a3      a1 = bf16(a)                leaves 16 bits: a - a1 is exact
 *                           a2 = bf16(a - a1)           leaves 8 bits: so is a - a1 - a2
 *                           a3 = a - a1 - a2            a bf16 as it is
 *
 * bf16() rounds to nearest even, but not up to infinity: the largest bf16 is taken then, and what it leaves has 16 bits
 * too. The last of the 24 bits of a is worth 2^-23 of the first, so all of this holds from 2^-100 on: nothing then comes
 * near the numbers below 2^-126, which have fewer bits.
 *
 * The planes lie one behind the other, and are written by strips of 8 elements: see strips.h for a picture.
 *
 * Infinity and NaN have parts that are not finite, which show in every sum of theirs.
 *
 * A block's word in `verdicts` says between which magnitudes lies what it read: whether the parts may stand for it is
 * verdict.h's to tell. A word is written by each block in each run, so none needs to be cleared.
 *
 * The blocks, all on the device at once, stride over the strips, each thread its AT_ONCE loads before its stores. Memory
 * limits it: 4 bytes are read and 6 written an element.
 */
#include "kernel.h"

#include "epilogue.h"
#include "parts.h"
#include "strips.h"
#include "verdict.h"

#define AT_ONCE 2 /* strips whose loads a thread has under way */
#define WARPS (THREADS_X / 32)

static_assert(PLANES == 3, "a third part has what two leave");
static_assert(THREADS_X % 32 == 0 && WARPS <= 32, "whole warps, and one warp for their words");

/* Where a strip stands: a number of three digits, to which a step is added without a division. */
typedef struct place {
    uint32_t strip;  /* of the column: below ld_to / STRIP */
    uint32_t column; /* below columns_to */
    uint32_t problem;
} place;

/* The strip of that number, counted along the columns, then through the problems. */
static __device__ inline place place_of(const split_operand *operand, int64_t number)
{
    int64_t strips = operand->ld_to / STRIP;
    int64_t column = number / strips;
    int64_t problem = column / operand->columns_to;
    place place;
    place.strip = (uint32_t)(number - column * strips);
    place.column = (uint32_t)(column - problem * operand->columns_to);
    place.problem = (uint32_t)problem;
    return place;
}

static __device__ inline place place_after(const split_operand *operand, place from, place step)
{
    uint32_t strips = (uint32_t)(operand->ld_to / STRIP);
    uint32_t columns = (uint32_t)operand->columns_to;
    place next;
    next.strip = from.strip + step.strip;
    uint32_t carry = next.strip >= strips;
    next.strip -= carry ? strips : 0;
    next.column = from.column + step.column + carry;
    carry = next.column >= columns;
    next.column -= carry ? columns : 0;
    next.problem = from.problem + step.problem + carry;
    return next;
}

/* A strip on its way. */
typedef struct strip {
    pieces pieces;
    uint4 *to; /* its pack in the first plane; NULL: there is no such strip */
} strip;

static __device__ inline strip read_strip(const split_operand *operand, const source *source, place at)
{
    int64_t row = (int64_t)at.strip * STRIP;
    int64_t from = element_at(operand, at.problem, at.column, row);
    int inside = at.problem < operand->problems;
    int64_t left = inside && at.column < operand->columns ? operand->rows - row : 0;
    int64_t column_to = column_in_planes(operand, at.problem, at.column);
    strip strip;
    strip.pieces = read_pieces(source, source->begin + from * ELEMENT_BYTES, left * ELEMENT_BYTES);
    strip.to = inside ? pack_at(operand, column_to, at.strip) : 0;
    return strip;
}

/* Magnitudes that have been seen, by their bits: the largest, and 2^32 less the least one but 0; 0 and 0: none yet. */
typedef struct range {
    uint32_t largest;
    uint32_t inverse;
} range;

static __device__ inline range see(range seen, uint32_t element)
{
    uint32_t magnitude = element & 0x7fffffffu;
    uint32_t inverse = 0u - magnitude; /* of 0 the least */
    seen.largest = magnitude > seen.largest ? magnitude : seen.largest;
    seen.inverse = inverse > seen.inverse ? inverse : seen.inverse;
    return seen;
}

/* The nearest bf16 of two f32, the first in the lower half: the largest that there is, not infinity. */
static __device__ inline uint32_t pack_finite(float low, float high)
{
    float most = f32_from_bf16(0x7f7f);
    return pack_bf16(fminf(fmaxf(low, -most), most), fminf(fmaxf(high, -most), most));
}

/* The parts of two f32, the first in the lower halves. */
static __device__ inline void split_pair(uint32_t low, uint32_t high, uint32_t *first, uint32_t *second,
                                         uint32_t *third)
{
    *first = pack_finite(__uint_as_float(low), __uint_as_float(high));
    split_further(__uint_as_float(low), __uint_as_float(high), *first, second, third);
}

/* Writes the parts of a strip, `plane` packs apart; returns what has been seen then. */
static __device__ inline range write_strip(const strip *strip, int64_t plane, range seen)
{
    pack parts[PLANES];
#pragma unroll
    for (int half = 0; half < PACKS_JOINED; ++half) {
        pack joined = join_pieces(&strip->pieces, half);
#pragma unroll
        for (int w = 0; w < 4; w += 2) {
            int to = 2 * half + w / 2;
            split_pair(joined.word[w], joined.word[w + 1], &parts[0].word[to], &parts[1].word[to],
                       &parts[2].word[to]);
            seen = see(see(seen, joined.word[w]), joined.word[w + 1]);
        }
    }
#pragma unroll
    for (int p = 0; p < PLANES; ++p) {
        store_pack(strip->to + p * plane, parts[p]);
    }
    return seen;
}

/* Whether the product will look at A and B: it need not multiply by 0, and may not be left to these parts at all. */
static __device__ inline int is_wanted(const split_arguments *arguments)
{
    return (arguments->left == 0 || *arguments->left != 0) && !alpha_is_zero(arguments->alpha, ELEMENT_F32);
}

/*
 * Does what falls to one of an operand's blocks; returns what the thread has seen. What can be worked out before anything
 * may be read is worked out while the kernel before ends.
 */
static __device__ inline range split_share(const split_arguments *arguments, const split_operand *operand,
                                           uint32_t block, uint32_t blocks)
{
    source source = source_of(operand);
    int64_t plane = packs_of_plane(operand);
    place at = place_of(operand, (int64_t)block * THREADS_X + threadIdx.x);
    place step = place_of(operand, (int64_t)blocks * THREADS_X);
    range seen = {0, 0};
    wait_for_kernels_before();
    let_next_kernel_begin();
    if (!is_wanted(arguments)) {
        return seen; /* and nobody has anything to fear of it */
    }
    while (at.problem < operand->problems) {
        strip strips[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            strips[u] = read_strip(operand, &source, at);
            at = place_after(operand, at, step);
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            if (strips[u].to) {
                seen = write_strip(&strips[u], plane, seen);
            }
        }
    }
    return seen;
}

/* What the block's threads have seen together, in the first warp. */
static __device__ inline range seen_by_block(range seen)
{
    __shared__ range of_warps[WARPS];
    range together = {warp_max(seen.largest), warp_max(seen.inverse)};
    of_warps[threadIdx.x / 32] = together;
    __syncthreads();
    range none = {0, 0};
    if (threadIdx.x < 32) {
        range other = threadIdx.x < WARPS ? of_warps[threadIdx.x] : none;
        together.largest = warp_max(other.largest);
        together.inverse = warp_max(other.inverse);
    }
    return together;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const split_arguments arguments)
{
    int of_a = blockIdx.x < (uint32_t)arguments.blocks_a;
    uint32_t blocks_a = (uint32_t)arguments.blocks_a;
    range seen =
        split_share(&arguments, of_a ? &arguments.a : &arguments.b, of_a ? blockIdx.x : blockIdx.x - blocks_a,
                    of_a ? blocks_a : gridDim.x - blocks_a);
    seen = seen_by_block(seen);
    if (threadIdx.x == 0) {
        arguments.verdicts[blockIdx.x] = verdict_word(seen.largest, 0u - seen.inverse);
    }
}
