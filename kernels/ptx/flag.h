/*
 * flag.h - words in global memory by which one block tells another that it has written something (PTX ISA, "Memory
 * Consistency Model": release and acquire patterns; sm_70).
 */
#ifndef CARAT_PTX_FLAG_H
#define CARAT_PTX_FLAG_H

#if __CUDA_ARCH__ >= 700

/* Sets the flag. Who sees the value sees what this thread wrote before, and what it knew by a block's barrier. */
static __device__ inline void flag_raise(uint64_t *flag, uint64_t value)
{
    asm volatile("st.release.gpu.global.b64 [%0], %1;" ::"l"(flag), "l"(value) : "memory");
}

/* Sets the flag to 0, whatever else is seen of this thread, and when. */
static __device__ inline void flag_clear(uint64_t *flag)
{
    asm volatile("st.relaxed.gpu.global.b64 [%0], %1;" ::"l"(flag), "l"((uint64_t)0) : "memory");
}

/* Waits until the flag has the value. The loop is in the assembly for the reason that mbarrier_wait() tells. */
static __device__ inline void flag_wait(const uint64_t *flag, uint64_t value)
{
    asm volatile("{\n"
                 ".reg .pred other;\n"
                 ".reg .b64 seen;\n"
                 "again:\n"
                 "ld.acquire.gpu.global.b64 seen, [%0];\n"
                 "setp.ne.u64 other, seen, %1;\n"
                 "@other bra again;\n"
                 "}" ::"l"(flag),
                 "l"(value)
                 : "memory");
}

#endif

#endif
