/*
 * pack.cu - copies A and B into workspace where every column begins at 128 bytes, both in one launch.
 *
 * A product reads each element once for every tile across, and slowly where columns do not begin at 16 bytes,
 * or not at the 32 of a sector; this reads it once in all. What is added along k is zero in both
 * operands, so that the product may sum over it.
 *
 *        from: columns ld apart                to: columns ld_to apart, rows_to x columns_to of them
 *      +--------------+                       +--------------+--+
 *      |              |                       |              | 0|
 *      |              |          -->          |              |  |
 *      +--------------+                       +--------------+  |
 *                                             |0                |
 *                                             +-----------------+
 *
 * A block moves TILE_M x TILE_N elements, a thread TILE_M / THREADS_X of each column, neighbouring threads
 * neighbouring elements, so that whole sectors move however the columns lie; all loads of a thread are under way
 * before its first store. The device's memory limits it: each element is read once and written once.
 */
#include "kernel.h"

#define PER_THREAD (TILE_M / THREADS_X)

static_assert(TILE_M % THREADS_X == 0, "the threads cover a column of the tile");

/* Moves the tile of that number, counted down the columns, then along the rows, then through the batch. */
static __device__ inline void move_tile(const pack_operand *operand, uint32_t tile)
{
    uint32_t tiles = (uint32_t)operand->tiles_m * (uint32_t)operand->tiles_n;
    int64_t problem = tile / tiles;
    int64_t row = (int64_t)(tile % tiles % (uint32_t)operand->tiles_m) * TILE_M + threadIdx.x;
    int64_t column = (int64_t)(tile % tiles / (uint32_t)operand->tiles_m) * TILE_N;
    const element *from = (const element *)operand->from + problem * operand->stride;
    element *to = (element *)operand->to + problem * operand->stride_to;
    element moved[TILE_N][PER_THREAD];
#pragma unroll
    for (int j = 0; j < TILE_N; ++j) {
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) {
            int64_t at = row + i * THREADS_X;
            int inside = at < operand->rows && column + j < operand->columns;
            moved[j][i] = inside ? from[at + (column + j) * operand->ld] : 0;
        }
    }
#pragma unroll
    for (int j = 0; j < TILE_N; ++j) {
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) {
            int64_t at = row + i * THREADS_X;
            if (at < operand->rows_to && column + j < operand->columns_to) {
                to[at + (column + j) * operand->ld_to] = moved[j][i];
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X) KERNEL_NAME(pack_arguments arguments)
{
    /* The product will not look at what it need not multiply by 0. */
    if (scalar_value(arguments.alpha) == 0) {
        return;
    }
    if (blockIdx.x < (uint32_t)arguments.blocks_a) {
        move_tile(&arguments.a, blockIdx.x);
    } else {
        move_tile(&arguments.b, blockIdx.x - (uint32_t)arguments.blocks_a);
    }
}
