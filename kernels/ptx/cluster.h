/*
 * cluster.h - blocks that run together and see each other's shared memory (PTX ISA, "barrier.cluster"; sm_90),
 * warpgroups' barriers, and the registers they hand each other.
 */
#ifndef CARAT_PTX_CLUSTER_H
#define CARAT_PTX_CLUSTER_H

#if __CUDA_ARCH__ >= 900

/* This block's number in its cluster. */
static __device__ inline uint32_t cluster_rank(void)
{
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

/*
 * All threads of all blocks of the cluster meet: they say that they have arrived, and may do something else before
 * they wait for the others. What a thread has written and fenced before is seen after; with a release in place of the fence it would
 * wait for all that it has stored to reach the device's memory, some 700 cycles.
 */
static __device__ inline void cluster_arrive_relaxed(void)
{
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
static __device__ inline void cluster_wait(void)
{
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/* Where block number `rank` of the cluster has what this block has at that address of shared memory. */
static __device__ inline uint32_t cluster_address(uint32_t own, uint32_t rank)
{
    uint32_t address;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(own), "r"(rank));
    return address;
}

/* threadIdx.x, read where this stands: nothing that follows from it is worked out before. */
static __device__ inline uint32_t thread_number(void)
{
    uint32_t number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

/*
 * The same number, of which the compiler knows nothing: what follows from it is worked out where it is used, not kept
 * in registers until then.
 */
static __device__ inline uint32_t forget(uint32_t number)
{
    asm volatile("" : "+r"(number));
    return number;
}

/*
 * The same number, which all lanes of the warp have, kept in a register from here on: it is not worked out anew where it
 * is used, as addresses of shared memory else are. And the compiler knows from here on that all lanes have the same, so
 * that what follows from it may stay in the registers that a warp has in common, as descriptors of the tensor unit must:
 * where loops end by such numbers alone, no step moves a descriptor there (PTX ISA, "redux.sync").
 */
static __device__ inline uint32_t keep(uint32_t number)
{
    uint32_t all;
    asm volatile("redux.sync.or.b32 %0, %1, 0xffffffff;" : "=r"(all) : "r"(number));
    return all;
}

/* The same address, kept in registers: what lies near it is then a constant away from it, not worked out anew. */
static __device__ inline const void *keep_address(const void *address)
{
    uint64_t global;
    asm volatile("cvta.to.global.u64 %0, %1;" : "=l"(global) : "l"(address));
    return (const void *)__cvta_global_to_generic(global);
}

/* 1 for one lane of the warp, all of which ask: the compiler then knows that it is one (PTX ISA, "elect.sync"). */
static __device__ inline int is_elected(void)
{
    uint32_t elected;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "elect.sync _|p, 0xffffffff;\n"
                 "selp.u32 %0, 1, 0, p;\n"
                 "}"
                 : "=r"(elected));
    return (int)elected;
}

/* Has a value in a register, though nothing is done with it. */
static __device__ inline void touch(uint32_t value) { asm volatile("" ::"r"(value)); }

/* `threads` threads meet at the block's barrier of that number (0 to 15; __syncthreads() is 0 with all). */
static __device__ inline void barrier_sync(int number, int threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

/* Of the threads that meet some only say that they have come, and go on. */
static __device__ inline void barrier_arrive(int number, int threads)
{
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

#endif

/* A warpgroup gives registers back, or takes what others have given; constants, multiples of 8. sm_90a. */
#define registers_shrink_to(count) asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(count))
#define registers_grow_to(count) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(count))

#endif
