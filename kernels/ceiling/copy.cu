/*
 * copy.cu - how fast the device copies its own memory: the ceiling of every operation that reads and
 * writes each element once.
 *
 * A block copies TILE_M elements of 16 bytes. Each thread asks for UNROLL of them before it waits for the
 * first; THREADS_X * UNROLL * 16 bytes a block, times the blocks of a multiprocessor, are on the way.
 */
#include "kernel.h"

#define UNROLL (TILE_M / THREADS_X)
static_assert(OPS_PER_ROUND == 2 * ELEMENT_BYTES && ELEMENT_BYTES == 16, "16 bytes are read and written");

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(ceiling_arguments arguments)
{
    const uint4 *from = (const uint4 *)arguments.from;
    uint4 *to = (uint4 *)arguments.to;
    for (int64_t tile = blockIdx.x; tile * TILE_M < arguments.count; tile += gridDim.x) {
        int64_t first = tile * TILE_M + threadIdx.x;
        uint4 elements[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (first + u * THREADS_X < arguments.count) {
                elements[u] = from[first + u * THREADS_X];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (first + u * THREADS_X < arguments.count) {
                to[first + u * THREADS_X] = elements[u];
            }
        }
    }
}
