/*
 * verdict.h - whether the three bf16 parts of each f32 (memory/split.cu) may stand for the operands of a product, and
 * which parts of D were left to a row that rescues.
 *
 * A word speaks of what one block of the split has read, by biased exponents:
 *
 *     bits 8 to 15    of the largest magnitude
 *     bits 0 to 7     255 less that of the least magnitude that is not 0
 *
 * and is 0 where there are only zeros: the larger of each byte of two words speaks of both blocks. The parts do not hold
 * all bits of what is nearer to 0 than 2^-100. Where k is short and exponents are far apart, few products make up a sum,
 * and the unit, which cuts where f32 arithmetic rounds, is off by more than a chain of few roundings: so that is
 * refused too.
 *
 * What overflows, or is not finite to begin with, shows in the sums. The product leaves the parts of D alone whose sums
 * are not all finite, and says so in a word of `spoiled` for each: SPOILED_COLUMNS columns of spoiled_rows rows, down
 * the columns, then along the rows, then through the problems.
 */
#ifndef CARAT_KERNELS_VERDICT_H
#define CARAT_KERNELS_VERDICT_H

#define VERDICT_LEAST_EXPONENT 27 /* of 2^-100 */
#define VERDICT_FAR_APART 64      /* exponents of one operand */
#define SPOILED_COLUMNS 16

/* The word for what is between two magnitudes of f32, by their bits; `least` less than 1 is none. */
static __device__ inline uint32_t verdict_word(uint32_t largest, uint32_t least)
{
    return least == 0 ? 0 : (largest >> 23) << 8 | (255 - (least >> 23));
}

/* Of one operand, from the largest of both bytes of its words. */
static __device__ inline int verdict_of_bytes(uint32_t largest, uint32_t least, int short_k)
{
    int apart = (int)largest - (255 - (int)least);
    return (int)least > 255 - VERDICT_LEAST_EXPONENT || (short_k && apart > VERDICT_FAR_APART);
}

/*
 * Whether the product must not use the parts. One whole warp calls, after the split is over (wait_for_kernels_before);
 * all lanes get the same answer, not 0 where it refuses.
 */
static __device__ inline int verdict_refuses(const verdict_arguments *verdict)
{
    uint32_t largest_a = 0;
    uint32_t least_a = 0;
    uint32_t largest_b = 0;
    uint32_t least_b = 0;
#pragma unroll 8
    for (int32_t i = (int32_t)(threadIdx.x % 32); i < verdict->count; i += 32) {
        uint32_t largest = verdict->words[i] >> 8;
        uint32_t least = verdict->words[i] & 0xff;
        if (i < verdict->count_a) {
            largest_a = largest > largest_a ? largest : largest_a;
            least_a = least > least_a ? least : least_a;
        } else {
            largest_b = largest > largest_b ? largest : largest_b;
            least_b = least > least_b ? least : least_b;
        }
    }
    return verdict_of_bytes(warp_max(largest_a), warp_max(least_a), verdict->short_k) |
           verdict_of_bytes(warp_max(largest_b), warp_max(least_b), verdict->short_k);
}

/* Where the word is of the part of D in which an element lies, of an m x n matrix a problem. */
static __device__ inline int64_t spoiled_place(const verdict_arguments *verdict, int64_t m, int64_t n,
                                               int64_t problem, int64_t row, int64_t column)
{
    int64_t words_m = (m + verdict->spoiled_rows - 1) / verdict->spoiled_rows;
    int64_t words_n = (n + SPOILED_COLUMNS - 1) / SPOILED_COLUMNS;
    return (problem * words_n + column / SPOILED_COLUMNS) * words_m + row / verdict->spoiled_rows;
}

#endif
