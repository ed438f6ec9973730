/*
 * wgmma_sum_fetched.h - a tile's sums, where rows lie across and are of a type that the instruction does not read so: threads fetch
 * them, in the order in which it wants them in registers. Sums of 8-bit floats are moved here as well, if they have to be. A part of
 * wgmma.cu.
 *
 *     tensor unit   |         stage 0         |         stage 1         | ...
 *     consumer      | fetches the rows of 1   | fetches the rows of 2   | ...
 *
 * With SHARES_K=1 each consumer sums every other stage of a tile, and one hands its sums to the other.
 */
#ifndef CARAT_GEMM_WGMMA_SUM_FETCHED_H
#define CARAT_GEMM_WGMMA_SUM_FETCHED_H

#include "../ptx/ldmatrix.h"

#if ROWS_IN_PAIRS

/* Bytes from one k to the next, where rows lie across. Of 64 rows that is half of the 128 by which the swizzle goes. */
#define PITCH_OF_K TILE_ROWS

/*
 * A consumer's rows of a stage, for wgmma_a_registers(). ldmatrix turns pairs of bytes: of 16 rows that lie across, in 16 bytes
 * of each k, a lane gets rows 2 * group and the next of two k. The instruction wants four k of a row in a word, so of 16 k
 * the first matrix has two of each four, and the second the other two:
 *
 *     k of four    0 .. 3      4 .. 7      8 .. 11     12 .. 15       for member 0, 1, 2, 3
 *     matrix 0     0, 1        4, 5        10, 11      14, 15         eight k of different rows of the swizzle
 *     matrix 1     2, 3        6, 7        8, 9        12, 13
 *
 * loaded[s] are two such pairs of matrices, of 32 k. Row `group` of the instruction is then row 2 * group, and row group + 8 the
 * next one: see row_of().
 */
static __device__ __forceinline__ void fetch_rows(uint32_t loaded[STEPS][4], const stage *from, int consumer)
{
    standing at = standing_of_thread();
    int matrix = at.lane / 8;
    int member = at.lane % 8 / 2;
    int k = matrix / 2 * 16 + member * 4 + (matrix % 2 ^ member / 2) * 2 + at.lane % 2;
    int piece = FIRST_ROW(consumer) / 16 + at.warp;
    int turn = k / (ROW_BYTES / PITCH_OF_K) % (PITCH_OF_K / 16);
    const unsigned char *first = from->rows[0] + k * PITCH_OF_K + ((piece ^ turn) << 4);
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        ldmatrix_x4_trans(loaded[s], first + s * 32 * PITCH_OF_K);
    }
}

/* What was fetched, four k of a row in a word. Its registers may not be written while an instruction runs. */
static __device__ __forceinline__ void order_rows(uint32_t words[STEPS][4], uint32_t loaded[STEPS][4])
{
    /* Whether matrix 0 has the first two of four k. */
    int low_first = standing_of_thread().member / 2 == 0;
    uint32_t even = low_first ? 0x6420 : 0x2064;
    uint32_t odd = low_first ? 0x7531 : 0x3175;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            words[s][2 * half] = __byte_perm(loaded[s][2 * half], loaded[s][2 * half + 1], even);
            words[s][2 * half + 1] = __byte_perm(loaded[s][2 * half], loaded[s][2 * half + 1], odd);
        }
    }
}

#else

/*
 * A consumer's rows of a stage, for wgmma_a_registers(): words[s][2 * q + h] is k 8 * s + member + 4 * q of row
 * 16 * warp + group + 8 * h. A box has ACROSS = 32 rows, 8 pieces of four, of TILE_K k. Of one k the eight groups have two
 * pieces, so the second four begin with the other q: then the swizzle gives each lane of a load a bank of its own.
 *
 *     groups      0 .. 3 (piece p)                    4 .. 7 (piece p + 1)
 *     load 0      k of q = 0, at p ^ member           k of q = 1, at (p + 1) ^ (member + 4)
 *     load 1      k of q = 1, at p ^ (member + 4)     k of q = 0, at (p + 1) ^ member
 */
static __device__ __forceinline__ void fetch_rows(uint32_t loaded[STEPS][4], const stage *from, int consumer)
{
    standing at = standing_of_thread();
    int row = 16 * at.warp + at.group;
    int piece = row % ACROSS / 4;
    int other = at.group / 4;
    const unsigned char *box = from->rows[0] + (FIRST_ROW(consumer) + row) / ACROSS * (TILE_K * ROW_BYTES);
    uint32_t first = (uint32_t)(at.member * ROW_BYTES + ((piece ^ at.member) << 4) + row % 4 * 4);
    uint32_t place = first ^ (uint32_t)other << 6; /* of load 0; q of the swizzle, then of the row */
    uint32_t places[2] = {place + (uint32_t)other * 4 * ROW_BYTES,
                          (place ^ 1 << 6) + (uint32_t)(1 - other) * 4 * ROW_BYTES};
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                loaded[s][2 * i + h] =
                    *(const uint32_t *)(box + s * 8 * ROW_BYTES + (places[i] ^ (uint32_t)h << 5));
            }
        }
    }
}

/* What was fetched, in the instruction's order. Its registers may not be written while an instruction runs. */
static __device__ __forceinline__ void order_rows(uint32_t words[STEPS][4], uint32_t loaded[STEPS][4])
{
    int other = standing_of_thread().group / 4;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            words[s][h] = other ? loaded[s][2 + h] : loaded[s][h];
            words[s][2 + h] = other ? loaded[s][h] : loaded[s][2 + h];
        }
    }
}

#endif

/* Starts the instructions of one stage with those rows, and commits them. */
static __device__ inline void multiply_rows(wgmma_sum sum[WGMMA_SUMS], uint32_t words[STEPS][4],
                                            operand_places places, uint32_t number, int accumulate)
{
    uint64_t columns = wgmma_advance_by(places.columns, number, sizeof(stage));
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        wgmma_a_registers(sum, words[s], wgmma_advance(columns, s * 32), s > 0 || accumulate);
    }
    wgmma_commit();
}

/* Waits until a stage that has come may be multiplied, which is later where columns are transposed. */
static __device__ inline void await_columns(operand_places places, position at)
{
#if TRANSPOSES
    at.stage += TURNED_BEHIND_FULL / (uint32_t)sizeof(uint64_t);
    await_stage(places, at);
#else
    (void)places;
    (void)at;
#endif
}

#if SHARES_K

/*
 * Of a tile's steps those of this consumer: the ones whose stages are its own. Each looks at its own alone, for who passes
 * stages by could take one's last phase but one for the next. Goes to the first of them.
 */
static __device__ inline uint32_t own_steps(consumer_state *self, uint32_t steps)
{
    uint32_t passed = self->at.stage % 2 != (uint32_t)self->number;
    if (passed) {
        step_on(&self->at);
    }
    return (steps + 1 - passed) / 2;
}

/* Barriers at which sums are there, and have been taken. */
#define SUMS_ARE_HANDED (1 + CONSUMERS)
#define SUMS_ARE_TAKEN (2 + CONSUMERS)

/* Hands consumer 1's sums to the other, as soon as that has taken those of the tile before. */
static __device__ __forceinline__ void hand_sums(const consumer_state *self, const wgmma_sum sum[WGMMA_SUMS])
{
    if (self->pieces > 0) {
        barrier_sync(SUMS_ARE_TAKEN, 2 * WARPGROUP);
    }
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        self->shared->handed[i][thread_number() % WARPGROUP] = sum[i];
    }
    barrier_arrive(SUMS_ARE_HANDED, 2 * WARPGROUP);
}

/* Adds them. Which of the two has a tile's first step differs, but not the sum's bits. */
static __device__ __forceinline__ void take_sums(const consumer_state *self, wgmma_sum sum[WGMMA_SUMS],
                                                 int last)
{
    barrier_sync(SUMS_ARE_HANDED, 2 * WARPGROUP);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] += self->shared->handed[i][thread_number() % WARPGROUP];
    }
    if (!last) {
        barrier_arrive(SUMS_ARE_TAKEN, 2 * WARPGROUP);
    }
}

#endif

/*
 * Sums `steps` stages, or with SHARES_K those of them that are this consumer's. While a stage is multiplied the next one's rows are
 * fetched, and what waits of the tile before is stored.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[CONSUMER_SUMS], consumer_state *self,
                                                    uint32_t steps, uint32_t number)
{
    uint32_t loaded[STEPS][4] = {{0}}; /* or ptxas spills one of them */
    clear(sum);
#if MOVES_SUMS
    const int accumulate = 0;
    wgmma_sum part[WGMMA_SUMS]; /* the unit's, of a stage */
#else
    const int accumulate = 1;
    wgmma_sum *part = sum;
    wgmma_hold(sum);
#endif
#if SHARES_K
    position begin = self->at;
    uint32_t all = steps;
    steps = own_steps(self, steps);
#endif
    if (steps > 0) {
        await_stage(self->places, self->at);
    }
    if (steps > 0 || !SHARES_K) { /* else nothing tells that the place has been written */
        fetch_due_bias(self);     /* here, for in the loop there are no registers for it */
    }
    if (steps > 0) {
        fetch_rows(loaded, &self->shared->stages[self->at.stage], self->number);
    }
#pragma unroll 1
    for (; steps > 0; --steps) {
        uint32_t words[STEPS][4];
        uint32_t stage = self->at.stage;
        order_rows(words, loaded);
        await_columns(self->places, self->at);
#if MOVES_SUMS
        wgmma_hold(part);
#endif
        wgmma_fence();
        multiply_rows(part, words, self->places, stage, accumulate);
        step_on(&self->at);
        if (SHARES_K) {
            step_on(&self->at); /* the other's */
        }
        store_some_late(self);
        if (steps > 1) {
            await_stage(self->places, self->at);
            fetch_rows(loaded, &self->shared->stages[self->at.stage], self->number);
        }
        wgmma_wait(0);
        release(self->places, stage);
#if MOVES_SUMS
        wgmma_hold(part);
        add(sum, part);
#endif
    }
#if !MOVES_SUMS
    wgmma_hold(sum);
#endif
    while (self->waits % BIAS_IS_DUE > 0) {
        store_some_late(self);
    }
#if SHARES_K
    self->at = begin;
    step_over(&self->at, all);
#endif
    (void)number; /* pairs of stages alone ask for it */
}

#endif
