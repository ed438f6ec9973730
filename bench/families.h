/* families.h - input matrices that try arithmetic in different ways. */
#ifndef CARAT_BENCH_FAMILIES_H
#define CARAT_BENCH_FAMILIES_H

#include <stdint.h>

#include "carat/carat.h"

enum input_family {
    INPUT_NORMAL,   /* mean 0, variance 1 */
    INPUT_UNIFORM,  /* even over [-1, 1) */
    INPUT_POSITIVE, /* even over [0, 1): sums only grow, and so do the errors of a long one */
    INPUT_WIDE,   /* normal, times a power of two of its own for each entry: 2^-12 to 2^12, f16 2^-4 to 2^4 */
    INPUT_SCALED, /* normal, times such a power for each stored column: rows and columns badly scaled */
    INPUT_INTEGERS, /* whole numbers from -8 to 8: the product has no rounding error at all */
    INPUT_FAMILIES
};

const char *input_family_name(enum input_family family);

/*
 * Fills a packed matrix of `columns` columns of `rows` elements. The integer types have only one family, all
 * that they can hold, whichever is asked for.
 */
carat_status input_fill(carat_type type, enum input_family family, uint64_t seed, int64_t rows,
                        int64_t columns, void *elements);

#endif
