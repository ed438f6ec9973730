/* store.h - one element of D from its finished sum, the last step of most products. */
#ifndef CARAT_KERNELS_STORE_H
#define CARAT_KERNELS_STORE_H

/*
 * D(i, j) of one problem of the batch. C is neither read nor pointed into where beta is 0, since it may be
 * NULL then; where it is D, each element is read before it is written, by the same thread.
 */
static __device__ inline void store_result(const gemm_arguments *arguments, int64_t problem, int64_t i,
                                           int64_t j, accumulator sum, accumulator alpha, accumulator beta)
{
    const result *c = 0;
    if (beta != 0) {
        c = (const result *)arguments->c + problem * arguments->stride_c + i + j * arguments->ldc;
    }
    result *d = (result *)arguments->d + problem * arguments->stride_d + i + j * arguments->ldd;
    *d = finish(sum, alpha, beta, c);
}

#endif
