/*
 * store_sum.h - where a finished sum goes, for kernels whose threads store an element at a time. They include it after
 * kernel.h.
 */
#ifndef CARAT_GEMM_STORE_SUM_H
#define CARAT_GEMM_STORE_SUM_H

#include "epilogue.h"
#include "tiles.h"

/* The sum of element (i, j): to D as epilogue.h says, or bare to the partial sums. */
static __device__ inline void store_sum(const gemm_arguments *arguments, const block_share *share, int64_t i,
                                        int64_t j, accumulator sum)
{
    if (arguments->partials) {
        int64_t part = share->problem * arguments->parts + share->part;
        ((accumulator *)arguments->partials)[(part * arguments->n + j) * arguments->m + i] = sum;
        return;
    }
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int64_t at_c = share->problem * arguments->stride_c + i + j * arguments->ldc;
    int64_t at_d = share->problem * arguments->stride_d + i + j * arguments->ldd;
#if ELEMENT == ELEMENT_F64
    epilogue_element_f64(epilogue, scalar_f64(arguments->alpha), scalar_f64(arguments->beta), share->problem,
                         i, j, sum, arguments->c, at_c, arguments->d, at_d);
#else
#if ELEMENT == ELEMENT_S8
    if (epilogue->result_type == ELEMENT_S32) {
        epilogue_element_s32(epilogue, scalar_s32(arguments->alpha), scalar_s32(arguments->beta),
                             share->problem, i, j, sum, arguments->c, at_c, arguments->d, at_d);
        return;
    }
    float value = (float)(int32_t)sum;
#else
    float value = sum;
#endif
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
    epilogue_element(epilogue, &scalars, share->problem, i, j, value, arguments->c, at_c, arguments->d, at_d);
#endif
}

/* Whether D = alpha * sum, in the operands' type, and no scalar is read from memory. */
static __device__ inline int is_plain(const gemm_arguments *gemm)
{
#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16 || ELEMENT == ELEMENT_F32
    const epilogue_arguments *epilogue = &gemm->epilogue;
    return !gemm->partials && !epilogue->bias && epilogue->activation == ACTIVATION_NONE &&
           epilogue->result_type == ELEMENT && !gemm->alpha.device && !gemm->beta.device &&
           !epilogue->scale_a.device && !epilogue->scale_b.device && !epilogue->scale_d.device &&
           gemm->beta.value.f32 == 0 && epilogue->scale_d.value.f32 == 1;
#else
    (void)gemm;
    return 0;
#endif
}

#endif
