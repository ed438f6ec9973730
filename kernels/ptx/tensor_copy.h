/*
 * tensor_copy.h - the copy engine's copies of boxes of a matrix between global and shared memory, described by a
 * tensor map (PTX ISA, "cp.async.bulk.tensor"; sm_90). One thread starts a copy, the engine counts
 * addresses, swizzles, and fills with zeros what lies outside the matrix (what is stored outside is dropped).
 *
 * x, y, z are the first element's coordinates: along the columns, across them, and the problem of the batch.
 */
#ifndef CARAT_PTX_TENSOR_COPY_H
#define CARAT_PTX_TENSOR_COPY_H

#if __CUDA_ARCH__ >= 900

/* Fetches the map itself ahead of its first use. */
static __device__ inline void tensor_map_prefetch(const tensor_map *map)
{
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/* Loads a box; its bytes are counted at the barrier. Of both the address in shared memory is given. */
static __device__ inline void tensor_load(uint32_t to, const tensor_map *map, uint32_t barrier, int x, int y,
                                          int z)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
                 "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Loads a box into the same place of each block of the cluster whose bit is set, counted at each one's barrier. */
static __device__ inline void tensor_load_multicast(uint32_t to, const tensor_map *map, uint32_t barrier,
                                                    uint16_t blocks, int x, int y, int z)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%4, %5, %6}], [%2], %3;" ::"r"(to),
        "l"(map), "r"(barrier), "h"(blocks), "r"(x), "r"(y), "r"(z)
        : "memory");
}

/* Stores a box; see the next three for when its shared memory may be written again. */
static __device__ inline void tensor_store(const tensor_map *map, const void *from_shared, int x, int y,
                                           int z)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(shared_address(from_shared)), "r"(x), "r"(y), "r"(z)
        : "memory");
}

/* Ends a group of this thread's stores. */
static __device__ inline void tensor_store_commit(void)
{
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's latest groups have still to read shared memory; a constant. */
#define tensor_store_wait_read(pending)                                                                      \
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory")

/* Waits until all of this thread's stores are done. */
static __device__ inline void tensor_store_wait(void)
{
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

/*
 * Between a thread's ordinary accesses to shared memory and those of the copy engine or of wgmma, which see it by
 * another way.
 */
static __device__ inline void fence_async_shared(void)
{
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

#endif

#endif
