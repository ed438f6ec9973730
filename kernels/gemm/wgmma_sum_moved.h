/*
 * wgmma_sum_moved.h - a tile's sums, where those that the tensor unit makes of a stage, or of two, are added to others in registers:
 * 8-bit floats, but with ACCURACY=FAST or where rows are fetched, and planes. A part of wgmma.cu.
 *
 * Where a thread has registers for the unit's sums twice (OVERLAPS_MOVES), it sums one stage while another's are moved:
 *
 *     tensor unit   | stage 0 | stage 1 | stage 2 | ...
 *     consumer                | moves 0 | moves 1 | ...
 */
#ifndef CARAT_GEMM_WGMMA_SUM_MOVED_H
#define CARAT_GEMM_WGMMA_SUM_MOVED_H

/*
 * Whether a tile's first step is taken by itself, so that the loop of the others need not ask whether the tile is left alone.
 * Where tiles are narrow its code, which has to be fetched once more, takes longer than that. Only tiles of planes are: of
 * others no step is by itself, but while something waits for it.
 */
#define ASKS_FIRST (PLANES > 1 && (OVERLAPS_MOVES || (SCALED && WGMMA_N > 128)))

/*
 * Whether sums of scaled planes are moved after two stages where k is long: 64 k of a block have one factor. Their error by
 * cuts is four times as large then, and that by roundings half, which are as many as k has stages. Only where a tile's first
 * step is taken by itself: the one stage of a tile that is left alone is no pair's.
 */
#define MOVES_PAIRS (SCALED && ASKS_FIRST)
#define LEAST_K_OF_PAIRS 4096

/* What sums are moved from, and what is known of the way. */
typedef struct moved_sums {
    wgmma_sum part[1 + OVERLAPS_MOVES][WGMMA_SUMS]; /* the unit's, of a stage or a pair each */
#if COMPENSATES
    int compensates;
    wgmma_sum excess[WGMMA_SUMS]; /* what sum has more than was added to it */
#endif
} moved_sums;

/* Starts the instructions of the stage that is next, as soon as it is there, and says which one it is. */
static __device__ __forceinline__ uint32_t start_part(wgmma_sum part[WGMMA_SUMS], consumer_state *self)
{
    uint32_t stage = self->at.stage;
    await_stage(self->places, self->at);
    wgmma_hold(part);
    wgmma_fence();
    multiply_stage(part, self->places, stage, 0);
    step_on(&self->at);
    return stage;
}

/* Adds a stage's sums to the tile's; with scaled planes by the factors that stand beside the stage. */
static __device__ __forceinline__ void move_part(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                 wgmma_sum part[WGMMA_SUMS], const float *factors)
{
#if SCALED
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] = fmaf(part[i], factors[i / (BLOCK_SIDE / 2)], sum[i]);
    }
#elif COMPENSATES
    if (moved->compensates) {
        add_compensated(sum, moved->excess, part);
    } else {
        add(sum, part);
    }
#else
    add(sum, part);
#endif
    (void)moved;
    (void)factors;
}

/* Multiplies the stage that is next, and moves its sums; 0: the tile is left alone, and no stage of it follows. */
static __device__ __forceinline__ int move_step(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                consumer_state *self)
{
    float *factors = 0;
#if SCALED
    float of_stage[COLUMN_BLOCKS];
    await_stage(self->places, self->at);
    if (read_factors(of_stage, self->shared->factors[self->at.stage], self->number)) {
        spoil(sum);
        release(self->places, self->at.stage);
        step_on(&self->at);
        return 0;
    }
    factors = of_stage;
#endif
    uint32_t stage = start_part(moved->part[0], self);
    wgmma_wait(0);
    wgmma_hold(moved->part[0]);
    release(self->places, stage);
    move_part(sum, moved, moved->part[0], factors);
    return 1;
}

#if MOVES_PAIRS

/* Starts the instructions of the stage that is next, which add to what those before leave. */
static __device__ __forceinline__ uint32_t start_rest(wgmma_sum part[WGMMA_SUMS], consumer_state *self)
{
    uint32_t stage = self->at.stage;
    await_stage(self->places, self->at);
    wgmma_fence();
    multiply_stage(part, self->places, stage, 1);
    step_on(&self->at);
    return stage;
}

#endif

#if OVERLAPS_MOVES || MOVES_PAIRS

/* Moves what the instructions of `stage` have left, which are over. A tile that is left alone has none here. */
static __device__ __forceinline__ void end_part(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                const consumer_state *self, uint32_t stage)
{
    wgmma_hold(moved->part[which]);
    float *factors = 0;
#if SCALED
    float of_stage[COLUMN_BLOCKS];
    read_factors(of_stage, self->shared->factors[stage], self->number);
    factors = of_stage;
    __syncwarp(); /* all have read them before one says so */
#endif
    release(self->places, stage);
    move_part(sum, moved, moved->part[which], factors);
}

#endif

#if OVERLAPS_MOVES

/* Sums `steps` stages more: while the sums of one are moved the unit has the next to multiply. */
static __device__ __forceinline__ void move_steps(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                  consumer_state *self, uint32_t steps)
{
    if (steps == 0) {
        return;
    }
    uint32_t first = start_part(moved->part[0], self);
#pragma unroll 1
    for (; steps > 2; steps -= 2) {
        uint32_t second = start_part(moved->part[1], self);
        wgmma_wait(1);
        end_part(sum, moved, 0, self, first);
        first = start_part(moved->part[0], self);
        wgmma_wait(1);
        end_part(sum, moved, 1, self, second);
    }
    if (steps == 2) {
        uint32_t second = start_part(moved->part[1], self);
        wgmma_wait(1);
        end_part(sum, moved, 0, self, first);
        wgmma_wait(0);
        end_part(sum, moved, 1, self, second);
    } else {
        wgmma_wait(0);
        end_part(sum, moved, 0, self, first);
    }
}

#if MOVES_PAIRS

/* Two stages whose sums are under way. */
typedef struct stage_pair {
    uint32_t first;
    uint32_t second;
} stage_pair;

/* Starts two stages more, and moves the sums `which` of the two before them. */
static __device__ __forceinline__ void move_pair(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                 consumer_state *self, stage_pair *before)
{
    stage_pair next;
    next.first = start_part(moved->part[1 - which], self);
    wgmma_wait(2);
    release(self->places, before->first);
    next.second = start_rest(moved->part[1 - which], self);
    wgmma_wait(2);
    end_part(sum, moved, which, self, before->second);
    *before = next;
}

/* Moves the sums `which` of the last two. */
static __device__ __forceinline__ void end_pair(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                const consumer_state *self, stage_pair last)
{
    wgmma_wait(0);
    release(self->places, last.first);
    end_part(sum, moved, which, self, last.second);
}

/* Sums stages two by two, and returns how many are left, one or none. */
static __device__ __forceinline__ uint32_t move_pairs(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                      consumer_state *self, uint32_t steps)
{
    if (steps < 2) {
        return steps;
    }
    stage_pair before;
    before.first = start_part(moved->part[0], self);
    before.second = start_rest(moved->part[0], self);
#pragma unroll 1
    for (; steps > 5; steps -= 4) {
        move_pair(sum, moved, 0, self, &before);
        move_pair(sum, moved, 1, self, &before);
    }
    if (steps > 3) {
        move_pair(sum, moved, 0, self, &before);
        end_pair(sum, moved, 1, self, before);
    } else {
        end_pair(sum, moved, 0, self, before);
    }
    return steps % 2;
}

#endif

#else

static __device__ __forceinline__ void move_steps(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                  consumer_state *self, uint32_t steps)
{
#pragma unroll 1
    for (; steps > 0; --steps) {
        if (!move_step(sum, moved, self) && !ASKS_FIRST) {
            break;
        }
    }
}

#if MOVES_PAIRS

/* Sums stages two by two, and returns how many are left, one or none. */
static __device__ __forceinline__ uint32_t move_pairs(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                      consumer_state *self, uint32_t steps)
{
#pragma unroll 1
    for (; steps > 1; steps -= 2) {
        uint32_t first = start_part(moved->part[0], self);
        uint32_t second = start_rest(moved->part[0], self);
        wgmma_wait(1);
        release(self->places, first);
        wgmma_wait(0);
        end_part(sum, moved, 0, self, second);
    }
    return steps;
}

#endif

#endif

/*
 * Sums `steps` stages, of which the first is number `number` along k. Behind each of the first of them some of what waits of the tile
 * before is stored, and all that is left where there are no more.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[CONSUMER_SUMS], consumer_state *self,
                                                    uint32_t steps, uint32_t number)
{
    moved_sums moved;
    clear(sum);
#if COMPENSATES
    moved.compensates = self->arguments->gemm.verdict.long_k;
    clear(moved.excess);
#endif
    int in_pairs = MOVES_PAIRS && self->arguments->gemm.k >= LEAST_K_OF_PAIRS;
    coming_bias bias = {{0}};
#if BIAS_COMES_LAST && LATE_PIECES == 0
    /* A step in the loop below does not overlap with the next: it is for what takes longer than to ask. */
    if (self->waits & BIAS_IS_DUE) {
        if (steps > 0) {
            await_stage(self->places, self->at); /* the tile's place has been written then */
        }
        ask_for_what_is_due(self, &bias);
    }
#endif
#pragma unroll 1
    while (waits_for_stages(self) > 0 || ASKS_FIRST) {
        if (steps > 0) {
            steps = move_step(sum, &moved, self) ? steps - 1 : 0;
            ++number;
        }
        do_what_waits(self, &bias);
        if (ASKS_FIRST && waits_for_stages(self) == 0 && (!in_pairs || number % 2 == 0 || steps == 0)) {
            break;
        }
    }
    self->at.stage = keep(self->at.stage);
    self->at.parity = keep(self->at.parity);
    steps = keep(steps);
#if MOVES_PAIRS
    if (in_pairs) {
        steps = move_pairs(sum, &moved, self, steps);
    }
#endif
    move_steps(sum, &moved, self, steps);
#if BIAS_COMES_LAST
    put_what_comes(self, &bias);
#endif
}

#endif
