/* store.h - one element of D from its finished sum, the last step of every rung of the ladder. */
#ifndef CARAT_KERNELS_STORE_H
#define CARAT_KERNELS_STORE_H

/* D(i, j) of one problem. Where C is D each element is read before it is written, by the same thread. */
static __device__ inline void store_result(const gemm_arguments *arguments, int64_t i, int64_t j,
                                           accumulator sum, accumulator alpha, accumulator beta)
{
    const result *c = 0;
    if (beta != 0) {
        c = (const result *)arguments->c + i + j * arguments->ldc;
    }
    ((result *)arguments->d)[i + j * arguments->ldd] = finish(sum, alpha, beta, c);
}

#endif
