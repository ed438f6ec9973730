/*
 * bulk_copy.h - the copy engine's copies of a piece of memory without a map (PTX ISA, "cp.async.bulk"; sm_90). Both
 * ends and the length are multiples of 16 bytes.
 */
#ifndef CARAT_PTX_BULK_COPY_H
#define CARAT_PTX_BULK_COPY_H

/* Begins to bring memory to the second-level cache. Before 9.0: does nothing. */
static __device__ inline void prefetch_to_l2(const void *from, uint32_t bytes)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

#if __CUDA_ARCH__ >= 900

/* Stores a piece of shared memory: one of a group as those of tensor_copy.h are, with the same fence before and wait after. */
static __device__ inline void bulk_store(void *to, const void *from_shared, uint32_t bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                 "r"(shared_address(from_shared)), "r"(bytes)
                 : "memory");
}

#endif

#endif
