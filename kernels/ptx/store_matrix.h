/*
 * store_matrix.h - stmatrix: a warp stores four 8 x 8 matrices of 16-bit elements into shared memory (PTX ISA,
 * "Warp-level matrix store instruction"; sm_90).
 *
 * Lane l points to where row l % 8 of matrix l / 8 goes, 16 bytes. Of matrix i a lane holds in word i the
 * elements (row = lane / 4, columns 2 * (lane % 4) and the next); with _trans it holds those of the transpose.
 */
#ifndef CARAT_PTX_STORE_MATRIX_H
#define CARAT_PTX_STORE_MATRIX_H

#if __CUDA_ARCH__ >= 900

static __device__ inline void store_matrix_x4(void *to_shared, const uint32_t words[4])
{
    asm volatile(
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to_shared)),
        "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
        : "memory");
}

static __device__ inline void store_matrix_x4_trans(void *to_shared, const uint32_t words[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     shared_address(to_shared)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

#endif

#endif
