/*
 * wgmma_pace.h - how the clusters of a launch stay close to each other: a part of wgmma.cu.
 *
 * Clusters that work at the same time have rows of A and columns of B in common, which come from memory once if the
 * second-level cache still holds them when the last one asks. Nothing else keeps them together: over dozens of tiles they
 * drift apart, by a tile and more, and of large operands each then reads most for itself. So a cluster says from time to
 * time how far it is, and who is too far ahead of the slowest waits for it, as it would have at the launch's end.
 *
 *     progress    | launch, steps | launch, steps | ...       a word a cluster, which it alone writes
 *
 * This is a hint, by which no data is handed over. Nobody waits for a cluster that has not begun, whose word is another
 * launch's, nor for one that is through; the slowest waits for none; and who has waited for long, as for a cluster that began
 * late since another launch held its multiprocessors, goes on alone, and nobody waits for it any more. Launches of one image at the
 * same time overwrite each other's words, and wait less. A graph that is launched again finds the words of its last time, which
 * say that all are through.
 *
 * Where clusters share tiles' steps (wgmma_walk.h) none is kept: each has another k in hand then, and little in common with the others. To
 * wait in shares made such products up to 30% slower, and to keep pace in the whole tiles behind them gained nothing.
 */
#ifndef CARAT_GEMM_WGMMA_PACE_H
#define CARAT_GEMM_WGMMA_PACE_H

/*
 * All lanes of the producer's warp look at the others' words. Smaller tiles are for smaller matrices, and for thin ones, which
 * have little in common; and clusters whose blocks share k have but one tile.
 */
#define PACES (PLANES < 3 && K_SHARERS == 1 && TILE_M * TILE_N >= 128 * 128)

#if PACES

/*
 * Steps of TILE_K from one look to the next, a power of two: 10,000 to 25,000 cycles of the tensor unit, of which a look takes
 * some 2,000 of the producer's, whose stages are full meanwhile, but for the one that it is about to fill. And how many steps
 * one may be ahead of the slowest: 1 to 4 KB of each of some 4,000 rows that are in use. Where a tile has fewer steps nobody looks.
 */
#define PACE_STEPS (TILE_M * TILE_N > 128 * 128 ? 16 : 32)

/* How often one looks before it goes on alone: some 0.2 ms, twenty times what the steps between two looks take. */
#define PACE_LOOKS 256

#define ALL_STEPS 0xffffffffu

static __device__ __align__(16) uint64_t progress_of_clusters[PACE_CLUSTERS];

static __device__ inline void tell_progress(uint32_t launch, uint32_t steps)
{
    if (threadIdx.x == 0) {
        asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(&progress_of_clusters[this_cluster()]),
                     "l"((uint64_t)launch << 32 | steps)
                     : "memory");
    }
}

static __device__ inline uint32_t steps_of_word(uint64_t word, uint32_t launch)
{
    return (uint32_t)(word >> 32) == launch ? (uint32_t)word : ALL_STEPS;
}

/* Steps of the slowest cluster that has begun and is not through. */
static __device__ inline uint32_t slowest_progress(uint32_t launch)
{
    uint32_t slowest = ALL_STEPS;
#pragma unroll 1
    for (uint32_t i = 2 * threadIdx.x; i < count_clusters(); i += 64) {
        uint64_t word[2]; /* behind the last cluster's stands nobody's */
        asm volatile("ld.relaxed.gpu.global.v2.b64 {%0, %1}, [%2];"
                     : "=l"(word[0]), "=l"(word[1])
                     : "l"(&progress_of_clusters[i])
                     : "memory");
        uint32_t first = steps_of_word(word[0], launch);
        uint32_t second = steps_of_word(word[1], launch);
        slowest = first < slowest ? first : slowest;
        slowest = second < slowest ? second : slowest;
    }
    return warp_min(slowest);
}

/*
 * Says how many steps this cluster has begun, and waits while that is too many. 0 where it has waited for too long: it is
 * not to look again.
 */
static __device__ inline int keep_pace(uint32_t launch, uint32_t steps)
{
    tell_progress(launch, steps);
    if (steps <= PACE_STEPS) {
        return 1;
    }
#pragma unroll 1
    for (int looks = 0; looks < PACE_LOOKS; ++looks) {
        if (slowest_progress(launch) >= steps - PACE_STEPS) {
            return 1;
        }
    }
    tell_progress(launch, ALL_STEPS);
    return 0;
}

#endif

#endif
