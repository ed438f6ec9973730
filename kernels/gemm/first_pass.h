/*
 * first_pass.h - how a kernel runs once for nothing before what it is for. It includes this after kernel.h.
 */
#ifndef CARAT_GEMM_FIRST_PASS_H
#define CARAT_GEMM_FIRST_PASS_H

#include "epilogue.h"
#include "tiles.h"

/*
 * While the kernel before has not ended, all runs once for nothing, as in brief.cu: so that the code that is still to come
 * is at hand. Not where there are more blocks than find a place beside those of a kernel like this one: they begin when
 * that has ended; nor before 9.0, where all do. Passes are from this number on, below 2.
 */
static __device__ inline int first_pass(void)
{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
    return 1;
#else
    const uint32_t few = 128;
    return gridDim.x > few;
#endif
}

/* How many k a pass has: all that there are once the kernel before has ended, and before that none. */
static __device__ __forceinline__ int64_t begin_pass(int pass, const gemm_arguments *arguments,
                                                     const block_share *share)
{
    int64_t length = 0;
    if (pass > 0) {
        wait_for_kernels_before();
        let_next_kernel_begin();
        int nothing = alpha_is_zero(arguments->alpha, arguments->epilogue.result_type);
        length = nothing ? 0 : share->k_end - share->k_begin;
    }
    return length;
}

#endif
