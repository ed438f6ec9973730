/*
 * read.cu - how fast the device reads its own memory: the ceiling of products with few columns, which
 * read a large matrix once.
 *
 * The blocks stride over the elements of 16 bytes together, so that what is read at one time lies
 * together. Each thread has UNROLL loads on the way, and keeps the exclusive or of all words it read, which
 * it stores at the end: so no load can be left out.
 */
#include "kernel.h"

#define UNROLL VECTOR
static_assert(OPS_PER_ROUND == ELEMENT_BYTES && ELEMENT_BYTES == 16, "16 bytes are read");

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(ceiling_arguments arguments)
{
    const uint4 *from = (const uint4 *)arguments.from;
    int64_t thread = (int64_t)blockIdx.x * THREADS_X + threadIdx.x;
    int64_t threads = (int64_t)gridDim.x * THREADS_X;
    uint32_t seen = 0;
    int64_t at = thread;
    for (; at + (UNROLL - 1) * threads < arguments.count; at += UNROLL * threads) {
        uint4 elements[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            elements[u] = from[at + u * threads];
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            seen ^= elements[u].x ^ elements[u].y ^ elements[u].z ^ elements[u].w;
        }
    }
    for (; at < arguments.count; at += threads) {
        uint4 element = from[at];
        seen ^= element.x ^ element.y ^ element.z ^ element.w;
    }
    ((uint32_t *)arguments.to)[thread] = seen;
}
