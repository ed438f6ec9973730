/*
 * load.h - several neighbouring elements in one instruction, where they are aligned and inside the
 * matrix; else one by one, with zeros for those outside. VECTOR says how many.
 */
#ifndef CARAT_KERNELS_LOAD_H
#define CARAT_KERNELS_LOAD_H

#include <stdint.h>

typedef struct vector {
    element x[VECTOR];
} __attribute__((aligned(VECTOR * sizeof(element)))) vector;

/* Whether every column of a matrix begins where a vector may be read. */
static __device__ inline int columns_aligned(const element *matrix, int64_t ld)
{
    return (uintptr_t)matrix % sizeof(vector) == 0 && ld % VECTOR == 0;
}

/* The elements from[0 .. VECTOR - 1], of which those below inside lie in the matrix. */
static __device__ inline vector load_vector(const element *from, int inside, int aligned)
{
    if (aligned && inside >= VECTOR) {
        return *(const vector *)from;
    }
    vector some;
#pragma unroll
    for (int i = 0; i < VECTOR; ++i) {
        some.x[i] = i < inside ? from[i] : 0;
    }
    return some;
}

#endif
