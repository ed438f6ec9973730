/*
 * dependent.h - a kernel that begins before the one ahead of it on the stream is over (PTX ISA, "griddepcontrol";
 * sm_90): its launch, its barriers and its fetching of code then cost no time of their own. Launched so (EARLY=1 in the
 * catalogue), it waits by itself before it touches global memory.
 */
#ifndef CARAT_PTX_DEPENDENT_H
#define CARAT_PTX_DEPENDENT_H

/* Waits until the kernels before this one are over and what they wrote is seen. Without such a launch: no time. */
static __device__ inline void wait_for_kernels_before(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/*
 * Lets the next kernel's blocks begin where there is room, once all blocks of this one have come here. Where several blocks
 * fit a multiprocessor that is after they have waited: kernels that let each other begin before would fill the device with
 * blocks that wait, and those that run would find no room but side by side on a few multiprocessors.
 */
static __device__ inline void let_next_kernel_begin(void)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#endif
