/*
 * wgmma_moves.h - how the unit's sums of a stage are added to those of the tile, which are f32 and rounded: a part of
 * wgmma.cu, for rows whose sums are moved (MOVES_SUMS), and of split_wgmma.cu.
 */
#ifndef CARAT_GEMM_WGMMA_MOVES_H
#define CARAT_GEMM_WGMMA_MOVES_H

#if MOVES_SUMS && !SCALED

static __device__ inline void add(wgmma_sum sum[WGMMA_SUMS], const wgmma_sum part[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] += part[i];
    }
}

#endif

#if COMPENSATES

/* The same less what sum has had too much of, which is found anew. What is not finite stays so. */
static __device__ inline void add_compensated(wgmma_sum sum[WGMMA_SUMS], wgmma_sum excess[WGMMA_SUMS],
                                              const wgmma_sum part[WGMMA_SUMS])
{
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        float added = __fsub_rn(part[i], excess[i]);
        float next = __fadd_rn(sum[i], added);
        excess[i] = __fsub_rn(__fsub_rn(next, sum[i]), added);
        sum[i] = next;
    }
}

#endif

#endif
