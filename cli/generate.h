/* generate.h - input matrices from a seed: random, never zeros, the same on every machine. */
#ifndef CARAT_CLI_GENERATE_H
#define CARAT_CLI_GENERATE_H

#include <stdint.h>

#include "carat/carat.h"

enum family {
    FAMILY_NORMAL, /* the normal distribution, mean 0 and variance 1; integers: rounded, times 32 */
    FAMILY_UNIFORM /* even over [-1, 1); integers: over -128 to 127 */
};

/* Fills count elements of the type. The same type, family, seed and count give the same elements. */
void generate(carat_type type, enum family family, uint64_t seed, int64_t count, void *elements);

/* An element as a double, without loss. */
double element_value(carat_type type, const void *elements, int64_t at);

/* value rounded to nearest even, as an element. Integers: the nearest that the type holds. */
void element_store(carat_type type, void *elements, int64_t at, double value);

#endif
