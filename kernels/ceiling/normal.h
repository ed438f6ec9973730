/*
 * normal.h - random operands for the loops that measure tensor instructions. What such a unit does in a second
 * depends on the bits that change in it: on zeros it is faster than on numbers, by a fifth.
 */
#ifndef CARAT_CEILING_NORMAL_H
#define CARAT_CEILING_NORMAL_H

/* A counter through a mixing function: 32 random bits. */
static __device__ inline uint32_t random_word(uint32_t counter)
{
    uint32_t word = counter * 0x9e3779b9u;
    word = (word ^ word >> 16) * 0x85ebca6bu;
    word = (word ^ word >> 13) * 0xc2b2ae35u;
    return word ^ word >> 16;
}

/* The sum of four even numbers, of mean 0 and variance 1: as good as normal here, and never beyond 3.5. */
static __device__ inline float random_normal(uint32_t counter)
{
    uint32_t x = random_word(2 * counter);
    uint32_t y = random_word(2 * counter + 1);
    float sum = (float)((x & 0xffffu) + (x >> 16) + (y & 0xffffu) + (y >> 16));
    return (sum - 131070.0f) * (1.0f / 37837.0f);
}

/* A word of 4 bytes of such numbers in the row's type; s8: times 32. Every word wants a counter of its own. */
static __device__ inline uint32_t random_elements(uint32_t counter)
{
#if ELEMENT == ELEMENT_F16
    return f16x2_from_f32(random_normal(2 * counter), random_normal(2 * counter + 1));
#elif ELEMENT == ELEMENT_BF16
    return bf16x2_from_f32(random_normal(2 * counter), random_normal(2 * counter + 1));
#elif ELEMENT == ELEMENT_F32
    return tf32_from_f32(__float_as_uint(random_normal(counter)));
#elif ELEMENT == ELEMENT_E4M3
    uint32_t low = e4m3x2_from_f32(random_normal(4 * counter), random_normal(4 * counter + 1));
    uint32_t high = e4m3x2_from_f32(random_normal(4 * counter + 2), random_normal(4 * counter + 3));
    return low | high << 16;
#elif ELEMENT == ELEMENT_S8
    uint32_t word = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        word |= ((uint32_t)(int32_t)(32.0f * random_normal(4 * counter + i)) & 0xffu) << (8 * i);
    }
    return word;
#else
#error "no tensor instruction multiplies these elements"
#endif
}

#endif
