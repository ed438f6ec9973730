/*
 * wgmma_transpose.h - columns that lie across, of types that the instruction reads along k alone, transposed where they stand
 * (TRANSPOSES=1): a part of wgmma.cu.
 *
 * Rows that lie across come to the instruction through registers; columns cannot. So the warps of the producer's warpgroup that
 * have nothing else to do turn each stage between the engine and the consumers:
 *
 *     engine --> full[s]     boxes of TILE_K k by 128 bytes of columns, as they lie in memory
 *     transposers            the same bytes as columns of 128 bytes of k, under the same swizzle
 *            --> turned[s]   the consumers multiply
 *
 * How a warp does it without a second box is in wgmma_transpose_bytes.h and wgmma_transpose_words.h.
 *
 * What limits it: columns are written and read once more, for a tile of 128 x 128 256 cycles of shared memory a stage, of which
 * the tensor unit has 512. With what else passes there it takes 896. So an operand that is turned in memory first, by a kernel of
 * its own, is ahead where a launch more is little: for bytes from some 2500 cubed on, for words from 1100.
 */
#ifndef CARAT_GEMM_WGMMA_TRANSPOSE_H
#define CARAT_GEMM_WGMMA_TRANSPOSE_H

#if TRANSPOSES

/* From a full stage's barrier to that of the same stage when it has been turned, and the warps that turn. */
#define TURNED_BEHIND_FULL                                                                                   \
    (uint32_t)(__builtin_offsetof(shared_memory, turned) - __builtin_offsetof(shared_memory, full))
#define TRANSPOSERS 3 /* warps of the producer's warpgroup */

/* Barriers: once, when the first of them has made the others; and in each stage of 64 columns of bytes. */
#define TRANSPOSERS_BEGIN (2 + CONSUMERS)
#define TRANSPOSERS_MEET (3 + CONSUMERS)

#if HAS_8_BITS
#include "wgmma_transpose_bytes.h"
#else
#include "wgmma_transpose_words.h"
#endif

/* What warp `number` of the transposers does, for all tiles of the block. */
static __device__ inline void transpose(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                        uint32_t base, uint32_t number, int reads)
{
    uint32_t lane = threadIdx.x % 32;
    transposer self = transposer_of_warp(lane, number);
    position at = {0, 0};
    walk way = walk_begin(arguments, reads);
    piece work;
    while (walk_on(arguments, &way, &work, reads)) {
#pragma unroll 1
        for (uint32_t steps = work.count; steps > 0; --steps) {
            mbarrier_wait_address(FULL(base, at.stage), at.parity);
            transpose_stage(&self, shared->stages[at.stage].columns[0]);
            fence_async_shared(); /* the tensor unit reads it next */
            __syncwarp();
            if (lane == 0) {
                mbarrier_arrive_address(FULL(base, at.stage) + TURNED_BEHIND_FULL);
            }
            step_on(&at);
        }
    }
}

#endif

#endif
