/* chance.h - numbers drawn at random from a seed, for the tests: the same seed draws the same again. */
#ifndef CARAT_TESTS_CHANCE_H
#define CARAT_TESTS_CHANCE_H

#include <stdint.h>

/* The splitmix64 generator: a counter, mixed. */
static inline uint64_t chance_draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* From 0 to bound - 1. */
static inline uint32_t chance_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((chance_draw(state) >> 32) * bound >> 32);
}

#endif
