/*
 * mma_element.h - the tensor instruction of a warp for the row's type of elements. A kernel includes it after kernel.h.
 */
#ifndef CARAT_KERNELS_MMA_ELEMENT_H
#define CARAT_KERNELS_MMA_ELEMENT_H

/* sum += row * column, one instruction. */
static __device__ inline void multiply(accumulator sum[4], const uint32_t row[4], const uint32_t column[2])
{
#if ELEMENT == ELEMENT_F16
    mma_f16_16x8x16(sum, row, column);
#elif ELEMENT == ELEMENT_BF16
    mma_bf16_16x8x16(sum, row, column);
#elif ELEMENT == ELEMENT_F32
    mma_tf32_16x8x8(sum, row, column);
#else
    mma_s8_16x8x32(sum, row, column);
#endif
}

#endif
