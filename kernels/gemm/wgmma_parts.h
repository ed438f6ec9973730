/*
 * wgmma_parts.h - tiles whose k the blocks of a cluster share: a part of wgmma.cu, with K_SHARERS > 1.
 *
 * Where a product has few tiles and a long k, most multiprocessors would have none. To give each tile to several blocks, a part
 * of k each, costs more if the sums go through memory, and another kernel adds them. Blocks of a cluster send them to each other:
 * block r of K_STORERS, mostly all, adds and stores the r-th part of the tile's columns, and gets the others' sums of it into its own
 * shared memory (PTX ISA, "st.async"); a barrier there counts their bytes.
 *
 *     columns       0 | 1            sent              added and stored
 *     block 0      [a0|a1]    a1 to block 1     b0 comes, a0 + b0
 *     block 1      [b0|b1]    b0 to block 0     a1 comes, a1 + b1
 *
 * A thread's sums go to the thread of the same number, by vectors of four. Parts are added in their order along k, whoever adds:
 * results do not depend on when they come. A cluster has one tile, so that what comes needs a place but once: beside the stages, or,
 * where there is much of it (PARTS_IN_STAGES), in them, when at a barrier of the cluster all blocks are through with theirs. No
 * block that stores leaves before all bytes have come that others send it: it waits for them.
 *
 * Any number of blocks does, but an H200 has room for 66 clusters of two, 39 of three, 30 of four, 17 of six and 15 of eight. Pairs
 * that share rows or columns as well are clusters of four with tiles twice as large: 30 of these are 120 blocks, each of which
 * fetches half of one operand itself.
 */
#ifndef CARAT_GEMM_WGMMA_PARTS_H
#define CARAT_GEMM_WGMMA_PARTS_H

#if ELEMENT == ELEMENT_S8
#define SUM_TYPE "s32"
#define SUM_OPERAND "r"
#else
#define SUM_TYPE "f32"
#define SUM_OPERAND "f"
#endif

#define STORED_VECTORS (STORED_SUMS / 4)

/* Among the parts that come to block `to` the place of block `from`'s. */
static __device__ inline uint32_t place_of_part(uint32_t to, uint32_t from) { return from - (from > to); }

/* Stores four sums in another block's shared memory, at such an address, and counts their bytes at a barrier there. */
static __device__ inline void store_sums_at(uint32_t address, const wgmma_sum four[4], uint32_t barrier)
{
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4." SUM_TYPE
                 " [%0], {%1, %2, %3, %4}, [%5];" ::"r"(address),
                 SUM_OPERAND(four[0]), SUM_OPERAND(four[1]), SUM_OPERAND(four[2]), SUM_OPERAND(four[3]),
                 "r"(barrier)
                 : "memory");
}

/* Sends another block its columns' sums, which are a thread's from sum number `first` on. */
static __device__ __forceinline__ void send_part(shared_memory *shared, const wgmma_sum *sum, uint32_t part,
                                                 uint32_t to, int consumer)
{
    uint32_t thread = thread_number() % WARPGROUP;
    uint32_t rank = to * RECTANGLE + within_rectangle(block_rank());
    uint32_t barrier = cluster_address(shared_address(&shared->parts_come), rank);
    four_sums *own = &shared->parts[place_of_part(to, part)][consumer][0][thread];
    uint32_t place = cluster_address(shared_address(own), rank);
#pragma unroll
    for (int i = 0; i < STORED_VECTORS; ++i) {
        store_sums_at(place + (uint32_t)(i * WARPGROUP * sizeof(four_sums)), sum + 4 * i, barrier);
    }
}

/*
 * From this block's sums of all columns to all blocks' sums of those that it stores; 0 where it stores none, and has but sent its
 * own to the others.
 */
static __device__ __forceinline__ int add_parts(shared_memory *shared, const wgmma_sum sum[WGMMA_SUMS],
                                                wgmma_sum stored[STORED_SUMS], int consumer)
{
    uint32_t part = keep(part_of_rank(block_rank()));
    wgmma_sum own[STORED_SUMS];
#pragma unroll
    for (uint32_t to = 0; to < K_STORERS; ++to) {
        if (to != part) {
            send_part(shared, sum + to * STORED_SUMS, part, to, consumer);
        }
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            own[i] = to == 0 || to == part ? sum[to * STORED_SUMS + i] : own[i];
        }
    }
    if (part >= K_STORERS) {
        return 0;
    }
    mbarrier_wait_cluster(shared_address(&shared->parts_come), 0);
    uint32_t thread = thread_number() % WARPGROUP;
#pragma unroll
    for (uint32_t from = 0; from < K_SHARERS; ++from) {
        uint32_t place = from == part ? 0 : place_of_part(part, from); /* its own part's is not used */
#pragma unroll
        for (int i = 0; i < STORED_VECTORS; ++i) {
            four_sums four = shared->parts[place][consumer][i][thread];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                wgmma_sum next = from == part ? own[4 * i + e] : four.sum[e];
                stored[4 * i + e] = from == 0 ? next : stored[4 * i + e] + next;
            }
        }
    }
    return 1;
}

#endif
