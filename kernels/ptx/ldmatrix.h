/*
 * ldmatrix.h - four 8 x 8 matrices of 16-bit elements from shared memory into the registers of a warp (PTX
 * ISA, ldmatrix; sm_75 and up).
 *
 * Lane 8 * q + r brings the address of row r of matrix q, 16 bytes aligned to 16. Then
 *
 *     ldmatrix_x4         to[q]   elements 2 * (lane % 4) and the next one of row lane / 4 of matrix q
 *     ldmatrix_x4_trans   to[q]   element lane / 4 of row 2 * (lane % 4) and of the next one
 *
 * Untransposed it serves elements of any size: a row is 16 bytes, and a lane gets 4 of them.
 */
#ifndef CARAT_PTX_LDMATRIX_H
#define CARAT_PTX_LDMATRIX_H

static __device__ inline void ldmatrix_x4(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

static __device__ inline void ldmatrix_x4_trans(uint32_t to[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"((uint32_t)__cvta_generic_to_shared(row))
                 : "memory");
}

#endif
