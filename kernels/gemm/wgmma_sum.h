/*
 * wgmma_sum.h - a tile's sums, where they stay in the tensor unit's own, and both operands are read where they lie in shared memory:
 * most rows of the catalogue. A part of wgmma.cu.
 *
 *     start stage 0 | start 1, wait for 0, leave 0 | start 2, wait for 1, leave 1 | ...
 */
#ifndef CARAT_GEMM_WGMMA_SUM_H
#define CARAT_GEMM_WGMMA_SUM_H

/*
 * Consumers that multiply in turn wait for the one before until it has seen all of its stages come: who looked at them
 * earlier could take a stage's last phase but one for its own, of the same parity.
 */
static __device__ inline void await_turn(const consumer_state *self)
{
    if (TURNS && self->pieces > 0) {
        barrier_sync(1 + CONSUMERS + self->number, 2 * WARPGROUP);
    }
}
static __device__ inline void hand_turn_on(const consumer_state *self)
{
    if (TURNS && !self->last) {
        barrier_arrive(1 + CONSUMERS + (self->number + 1) % CONSUMERS, 2 * WARPGROUP);
    }
}

/* Starts the instructions of the stage that is next, as soon as it is there. */
static __device__ __forceinline__ void start_step(wgmma_sum sum[CONSUMER_SUMS], const consumer_state *self)
{
    await_stage(self->places, self->at);
    wgmma_fence();
    multiply_stage(sum, self->places, self->at.stage, 1);
}

/* Waits for those of the stage before, if there is one, and goes on. */
static __device__ __forceinline__ void end_step_before(consumer_state *self, uint32_t *before)
{
    wgmma_wait(1);
    if (*before < STAGES) {
        release(self->places, *before);
    }
    *before = self->at.stage;
    step_on(&self->at);
}

/*
 * Sums `steps` stages. Two groups of instructions are under way at a time: a stage is released when the one after it has been
 * started. Meanwhile what waits of the tile before is stored, and in the end what is left of that.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[CONSUMER_SUMS], consumer_state *self,
                                                    uint32_t steps, uint32_t number)
{
    uint32_t before = STAGES;
    clear(sum);
    hold_sums(sum);
    await_turn(self);
    coming_bias bias = {{0}};
#pragma unroll 1
    while (waits_for_stages(self) > 0) {
        if (steps > 0) {
            start_step(sum, self);
        }
        do_what_waits(self, &bias);
        if (steps > 0) {
            end_step_before(self, &before);
            --steps;
        }
    }
    self->at.stage = keep(self->at.stage);
    self->at.parity = keep(self->at.parity);
    steps = keep(steps);
    before = keep(before);
    /* What the tensor unit waits for where tiles are small: nothing else is in this loop. */
#pragma unroll 1
    for (; steps > 0; --steps) {
        start_step(sum, self);
        end_step_before(self, &before);
    }
    hand_turn_on(self);
#if BIAS_COMES_LAST
    put_what_comes(self, &bias);
#endif
    wgmma_wait(0);
    hold_sums(sum);
    if (before < STAGES) {
        release(self->places, before);
    }
    (void)number; /* pairs of stages alone ask for it */
}

#endif
