/*
 * mma.cu - how many products a second the tensor units add by the instruction of one warp, mma.sync, with
 * operands in registers: the ceiling of products that run on every GPU from Ampere on. On Hopper it is well below
 * what wgmma reaches.
 *
 * A warp has ROWS x COLUMNS instructions that do not wait for each other, as in a product's inner loop. A round
 * adds their random products and takes them away again, so that the sums stay small.
 */
#include "kernel.h"

#include "mma_element.h"
#include "normal.h"

#define ROWS 4                                                     /* fragments of A, 16 rows each */
#define COLUMNS 4                                                  /* fragments of B, 8 columns each */
#define OPERATIONS (2 * 16 * 8 * (32 / (int)sizeof(element)) / 32) /* of one instruction, a thread */
static_assert(OPS_PER_ROUND == 2 * ROWS * COLUMNS * OPERATIONS,
              "the catalogue's OPS_PER_ROUND is what a round does");

/* The elements of a word with their signs changed. */
static __device__ inline uint32_t negated(uint32_t word)
{
#if ELEMENT == ELEMENT_S8
    return __vneg4(word);
#elif ELEMENT == ELEMENT_F32
    return word ^ 0x80000000u;
#else
    return word ^ 0x80008000u;
#endif
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(ceiling_arguments arguments)
{
    uint32_t a[ROWS][4];
    uint32_t b[2][COLUMNS][2];
    accumulator sums[ROWS][COLUMNS][4];
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
#pragma unroll
        for (int e = 0; e < 4; e++) {
            a[r][e] = random_elements(threadIdx.x * 64 + r * 4 + e);
        }
    }
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
#pragma unroll
        for (int e = 0; e < 2; e++) {
            b[0][c][e] = random_elements(threadIdx.x * 64 + 32 + c * 2 + e);
            b[1][c][e] = negated(b[0][c][e]);
        }
    }
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS * 4; i++) {
        sums[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4] = 0;
    }
#pragma unroll 1
    for (int64_t round = 0; round < arguments.count; round++) {
#pragma unroll
        for (int sign = 0; sign < 2; sign++) {
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
#pragma unroll
                for (int c = 0; c < COLUMNS; c++) {
                    multiply(sums[r][c], a[r], b[sign][c]);
                }
            }
        }
    }
    /* Stored, so that the compiler cannot leave the work out. */
    double total = 0;
#pragma unroll
    for (int i = 0; i < ROWS * COLUMNS * 4; i++) {
        total += (double)sums[i / 4 / COLUMNS][i / 4 % COLUMNS][i % 4];
    }
    ((double *)arguments.to)[(int64_t)blockIdx.x * THREADS_X + threadIdx.x] = total;
}
