/* generate.h - input matrices from a seed: random, and the same however many threads fill them. */
#ifndef CARAT_CLI_GENERATE_H
#define CARAT_CLI_GENERATE_H

#include <stdint.h>

#include "carat/carat.h"
#include "element.h"

enum family {
    FAMILY_NORMAL, /* the normal distribution, mean 0 and variance 1; s8: times 32, s32: times 65536, rounded
                    */
    FAMILY_UNIFORM /* even over [-1, 1); integers: over all that the type holds */
};

/* Fills count elements of the type. The same type, family, seed and count give the same elements. */
void generate(carat_type type, enum family family, uint64_t seed, int64_t count, void *elements);

/* The next of a row of random words (splitmix64: a counter through a mixing function). */
uint64_t next_word(uint64_t *state);

#endif
