/*
 * wgmma_stages.h - which stage comes next, and where a tile begins: what kernels share in which one warpgroup fills
 * stages of shared memory and others multiply out of them.
 */
#ifndef CARAT_GEMM_WGMMA_STAGES_H
#define CARAT_GEMM_WGMMA_STAGES_H

#define WARPGROUP 128

/* Where a tile begins, of which problem and part. */
typedef struct __attribute__((aligned(16))) place {
    int32_t row;
    int32_t column;
    int32_t problem;
    int32_t part;
} place;

/* Which stage is next, and the parity of the phase in which it will be full. */
typedef struct position {
    uint32_t stage;
    uint32_t parity;
} position;

static __device__ inline void step_on(position *at)
{
    if (++at->stage == STAGES) {
        at->stage = 0;
        at->parity ^= 1;
    }
}

/* Goes by stages that are another's. */
static __device__ inline void step_over(position *at, uint32_t count)
{
    uint32_t stage = at->stage + count;
    at->parity ^= stage / STAGES & 1;
    at->stage = stage % STAGES;
}

#endif
