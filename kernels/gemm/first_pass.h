/*
 * first_pass.h - whether a kernel runs once for nothing before what it is for. A kernel includes it after kernel.h.
 */
#ifndef CARAT_GEMM_FIRST_PASS_H
#define CARAT_GEMM_FIRST_PASS_H

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

#endif
