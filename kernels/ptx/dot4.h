/* dot4.h - the sum of four products of bytes, added to a 32-bit integer (PTX ISA, dp4a; sm_61 and up). */
#ifndef CARAT_PTX_DOT4_H
#define CARAT_PTX_DOT4_H

/* x and y hold four signed bytes each; the sum wraps. */
static __device__ inline uint32_t dot4_s8(uint32_t x, uint32_t y, uint32_t sum)
{
    uint32_t total;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(total) : "r"(x), "r"(y), "r"(sum));
    return total;
}

#endif
