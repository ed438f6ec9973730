/*
 * line.h - the way of pack.cu and widen.cu through a copy: `to` is one line of units of 16 bytes, the columns one behind
 * the other, problem by problem, each with the zeros that it ends in.
 *
 *     | column 0  0 | column 1  0 | ... | column 0 of the next problem  0 | ...
 *
 * A block writes a stretch of the line, a thread every THREADS_X-th unit of it: so neighbours write neighbouring units,
 * and read what lies side by side too.
 */
#ifndef CARAT_MEMORY_LINE_H
#define CARAT_MEMORY_LINE_H

/* What a block works on: it is number `block` of the `blocks` of an operand. */
typedef struct operand_share {
    const pack_operand *operand;
    uint32_t block;
    uint32_t blocks;
} operand_share;

static __device__ inline operand_share operand_share_of_block(const pack_arguments *arguments)
{
    uint32_t blocks_a = (uint32_t)arguments->blocks_a;
    int of_a = blockIdx.x < blocks_a;
    operand_share share;
    share.operand = of_a ? &arguments->a : &arguments->b;
    share.block = of_a ? blockIdx.x : blockIdx.x - blocks_a;
    share.blocks = of_a ? blocks_a : gridDim.x - blocks_a;
    return share;
}

/* A thread's part of the line. */
typedef struct stretch {
    uint32_t units;       /* of a column */
    int64_t columns;      /* of all problems */
    int64_t first;        /* unit of the block */
    int64_t first_column; /* in which that lies */
    uint32_t within;      /* the thread's first unit, from the top of that column on */
} stretch;

/* Of units of `width` elements, so many a thread. */
static __device__ inline stretch stretch_of_share(operand_share share, int width, int units_of_thread)
{
    stretch stretch;
    stretch.units = (uint32_t)(share.operand->ld_to / width);
    stretch.columns = share.operand->columns_to * share.operand->problems;
    stretch.first = (int64_t)share.block * (THREADS_X * units_of_thread);
    stretch.first_column = stretch.first / stretch.units;
    stretch.within = (uint32_t)(stretch.first - stretch.first_column * stretch.units) + threadIdx.x;
    return stretch;
}

/* Where a unit comes from. */
typedef struct unit_source {
    int64_t from;   /* element of `from` with which it begins */
    int64_t left;   /* elements of its column from there on; 0 or less: it is all zeros */
    int32_t inside; /* 0: the line is over */
} unit_source;

/* The thread's unit number u. */
static __device__ inline unit_source source_of_unit(const pack_operand *operand, const stretch *stretch,
                                                    uint32_t u, int width)
{
    uint32_t at = stretch->within + u * THREADS_X;
    uint32_t across = at / stretch->units;
    int64_t column = stretch->first_column + across;
    int64_t row = (int64_t)(at - across * stretch->units) * width;
    unit_source unit;
    unit.inside = column < stretch->columns;
    int64_t problem = operand->problems == 1 ? 0 : column / operand->columns_to;
    int64_t j = column - problem * operand->columns_to;
    unit.from = problem * operand->stride + j * operand->ld + row;
    unit.left = unit.inside && j < operand->columns ? operand->rows - row : 0;
    return unit;
}

#endif
