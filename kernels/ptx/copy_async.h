/*
 * copy_async.h - cp.async: copies from global to shared memory that go past the registers and are
 * waited for in groups (PTX ISA, "Data Movement: Non-bulk copy"; sm_80 and up).
 *
 * Each copies `valid` bytes (0 up to the full width) and fills the rest with zeros; with valid
 * 0 the source is not read, wherever it is.
 */
#ifndef CARAT_PTX_COPY_ASYNC_H
#define CARAT_PTX_COPY_ASYNC_H

#if __CUDA_ARCH__ >= 800

static __device__ inline uint32_t shared_address(const void *pointer)
{
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* 4 bytes, through L1; both ends aligned to 4. */
static __device__ inline void copy_async_4(void *to_shared, const void *from_global, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid)
                 : "memory");
}

/* 8 bytes, through L1; both ends aligned to 8. */
static __device__ inline void copy_async_8(void *to_shared, const void *from_global, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid)
                 : "memory");
}

/* 16 bytes, past L1; both ends aligned to 16. */
static __device__ inline void copy_async_16(void *to_shared, const void *from_global, int valid)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid)
                 : "memory");
}

/* The same through L1, for what a neighbour wants too. */
static __device__ inline void copy_async_16_cached(void *to_shared, const void *from_global, int valid)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to_shared)),
                 "l"(from_global), "r"(valid)
                 : "memory");
}

/* Ends a group: all copies of this thread since the last group. */
static __device__ inline void copy_async_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }

/* Waits until at most `pending` of this thread's latest groups are under way; a constant. */
#define copy_async_wait(pending) asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory")

#endif

#endif
