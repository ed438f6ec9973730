/* held_out.h - which shapes a table's trees are judged by: learn leaves them out for tests/test_choice.c. */
#ifndef CARAT_HELD_OUT_H
#define CARAT_HELD_OUT_H

#include <stdbool.h>

#include "tuning.h"

/* A third of them, whatever their types: those of the same sides are in or out together. */
static inline bool is_held_out(const struct tuning_line *line)
{
    uint64_t sides = (uint64_t)line->sizes[0] * 73856093U + (uint64_t)line->sizes[1] * 19349663U +
                     (uint64_t)line->sizes[2] * 83492791U;
    return (sides ^ sides >> 7) % 3 == 0;
}

#endif
