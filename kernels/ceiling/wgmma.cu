/*
 * wgmma.cu - how many products a second Hopper's tensor units add when operands wait in shared memory and nothing
 * else is asked of them: no copies, no barriers, no results to store.
 *
 * Two warpgroups of a block, each with 64 rows, share 256 columns, as the largest products do:
 *
 *               256 columns of B
 *             +------------------+
 *     64 rows |  warpgroup 0     |      a stage: 32 KB of B and 16 KB of A, 128 bytes of k,
 *             +------------------+      four instructions a warpgroup
 *     64 rows |  warpgroup 1     |
 *             +------------------+
 *
 * STAGES stages of different random numbers are walked round and round, each round from sums of zero. The device's
 * power is the limit, so this has to be measured warm: see ceiling_arguments.
 */
#include "kernel.h"

#include "../ptx/tensor_copy.h"
#include "normal.h"

#define WGMMA_N 256
#define WGMMA_TYPE_A ELEMENT
#define WGMMA_TYPE_B ELEMENT
#define WGMMA_A_ACROSS 0
#define WGMMA_B_ACROSS 0
#include "../ptx/wgmma.h"

#define WARPGROUP 128
#define ROWS 64       /* of a warpgroup's instruction */
#define ROW_BYTES 128 /* of k */
#define STEP_BYTES 32 /* of k, in one instruction */
#define STEPS (ROW_BYTES / STEP_BYTES)
#define OPERATIONS (2 * ROWS * WGMMA_N * (STEP_BYTES / (int)sizeof(element)) / WARPGROUP) /* a thread */

typedef struct stage {
    unsigned char rows[THREADS_X / WARPGROUP][ROWS * ROW_BYTES];
    unsigned char columns[WGMMA_N * ROW_BYTES];
} stage;

static_assert(sizeof(stage) * STAGES == SHARED_BYTES, "the row says how much shared memory a block takes");
static_assert(OPS_PER_ROUND == STAGES * STEPS * OPERATIONS,
              "the catalogue's OPS_PER_ROUND is what a round does");

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(ceiling_arguments arguments)
{
    DYNAMIC_SHARED(stage, stages);
    uint32_t *words = (uint32_t *)stages;
    for (uint32_t i = threadIdx.x; i < SHARED_BYTES / sizeof(uint32_t); i += THREADS_X) {
        words[i] = random_elements(i);
    }
    fence_async_shared();
    __syncthreads();

    uint32_t warpgroup = threadIdx.x / WARPGROUP;
    uint64_t rows = wgmma_descriptor(stages[0].rows[warpgroup], 0, 8 * ROW_BYTES);
    uint64_t columns = wgmma_descriptor(stages[0].columns, 0, 8 * ROW_BYTES);
    wgmma_sum sum[WGMMA_SUMS];
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; i++) {
        sum[i] = 0;
    }
    wgmma_hold(sum);
#pragma unroll 1
    for (int64_t round = 0; round < arguments.count; round++) {
#pragma unroll
        for (int s = 0; s < STAGES; s++) {
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                uint32_t at = s * (uint32_t)sizeof(stage) + step * STEP_BYTES;
                wgmma(sum, wgmma_advance(rows, at), wgmma_advance(columns, at), s + step > 0);
            }
            wgmma_commit();
            wgmma_wait(1);
        }
    }
    wgmma_wait(0);
    wgmma_hold(sum);

    /* Stored, so that the compiler cannot leave the work out. */
    double total = 0;
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; i++) {
        total += sum[i];
    }
    ((double *)arguments.to)[(int64_t)blockIdx.x * THREADS_X + threadIdx.x] = total;
}
