/*
 * strips.h - how split.cu and split_f16.cu go through an operand: by strips, STRIP f32 of a column each, whose parts are one
 * pack in each plane.
 *
 *        from: columns ld apart           to: planes of columns_to columns, ld_to apart, PLANES a problem
 *      +--------------+                  +-----------+--+-----------+--+---
 *      |              |                  |           | 0|           | 0|
 *      |              |        -->       |    a1     |  |    a2     |  |  ...
 *      +--------------+                  +-----------+  +-----------+  +---
 *                                        |0          |  |0          |  |
 *                                        +--------------+--------------+---
 *
 * What is added is zero, and all of ld_to is written: it is a multiple of 128 bytes, so there are only whole packs to
 * write. A strip's f32 may begin anywhere, see pieces.h.
 */
#ifndef CARAT_MEMORY_STRIPS_H
#define CARAT_MEMORY_STRIPS_H

#define PACKS_JOINED 2 /* packs of f32 whose parts are a pack in each plane */
#include "pieces.h"

#define STRIP (PACKS_JOINED * PACK) /* elements of such packs */

static __device__ inline source source_of(const split_operand *operand)
{
    int64_t last = (operand->problems - 1) * operand->stride + (operand->columns - 1) * operand->ld;
    source source;
    source.begin = (const unsigned char *)operand->from;
    source.end = source.begin + (last + operand->rows) * ELEMENT_BYTES;
    return source;
}

/* Which element of `from` stands at (row, column) of a problem. */
static __device__ inline int64_t element_at(const split_operand *operand, int64_t problem, int64_t column,
                                            int64_t row)
{
    return problem * operand->stride + column * operand->ld + row;
}

/* Which column of `to` a problem's column is in its first plane. */
static __device__ inline int64_t column_in_planes(const split_operand *operand, int64_t problem,
                                                  int64_t column)
{
    return problem * PLANES * operand->columns_to + column;
}

/* Where pack number `strip` of a column of `to` stands. */
static __device__ inline uint4 *pack_at(const split_operand *operand, int64_t column, int64_t strip)
{
    return (uint4 *)operand->to + column * (operand->ld_to / STRIP) + strip;
}

/* How many packs further the next plane has that of the same place. */
static __device__ inline int64_t packs_of_plane(const split_operand *operand)
{
    return operand->columns_to * (operand->ld_to / STRIP);
}

#endif
