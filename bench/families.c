/* families.c - input matrices that try arithmetic in different ways. */
#include "families.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "element.h"
#include "generate.h"
#include "status.h"

const char *input_family_name(enum input_family family)
{
    static const char *const names[INPUT_FAMILIES] = {"normal", "uniform", "positive",
                                                      "wide",   "scaled",  "integers"};
    return names[family];
}

/* A power of two that position i is scaled with: 2^-most to 2^most, in no order. */
static double scale_of(int64_t i, int most)
{
    uint64_t mixed = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
    return ldexp(1, (int)((mixed >> 33) % (uint64_t)(2 * most + 1)) - most);
}

static double member(enum input_family family, double drawn, int64_t at, int64_t column, int most)
{
    switch (family) {
    case INPUT_POSITIVE:
        return fabs(drawn);
    case INPUT_WIDE:
        return drawn * scale_of(at, most);
    case INPUT_SCALED:
        return drawn * scale_of(column, most);
    case INPUT_INTEGERS:
        return fmin(8, fmax(-8, floor(drawn * 9)));
    default:
        return drawn;
    }
}

carat_status input_fill(carat_type type, enum input_family family, uint64_t seed, int64_t rows,
                        int64_t columns, void *elements)
{
    int64_t count = rows * columns;
    if (type == CARAT_S32 || type == CARAT_S8) {
        generate(type, FAMILY_UNIFORM, seed, count, elements);
        return CARAT_OK;
    }
    double *drawn = malloc((size_t)(count > 0 ? count : 1) * sizeof(*drawn));
    if (!drawn) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld numbers", (long long)count);
    }
    bool even = family == INPUT_UNIFORM || family == INPUT_POSITIVE || family == INPUT_INTEGERS;
    generate(CARAT_F64, even ? FAMILY_UNIFORM : FAMILY_NORMAL, seed, count, drawn);
    int most = type == CARAT_F16 ? 4 : 12;
    for (int64_t i = 0; i < count; i++) {
        element_store(type, elements, i, member(family, drawn[i], i, i / rows, most));
    }
    free(drawn);
    return CARAT_OK;
}
