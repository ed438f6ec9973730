/*
 * load_if.h - loads from global memory that are made or not, without a branch (PTX ISA, "Predicated Execution"): where code
 * stands once for many elements, a branch for each would be most of it.
 */
#ifndef CARAT_PTX_LOAD_IF_H
#define CARAT_PTX_LOAD_IF_H

#define LOAD_IF(kind)                                                                                        \
    "{\n"                                                                                                    \
    ".reg .pred p;\n"                                                                                        \
    "setp.ne.b32 p, %2, 0;\n"                                                                                \
    "@p ld.global." kind " %0, [%1];\n"                                                                      \
    "}"

/* Else bits stay as they are; narrow elements are filled up with zeros. */
static __device__ inline void load_32_if(uint32_t *bits, const void *from, int condition)
{
    asm volatile(LOAD_IF("b32") : "+r"(*bits) : "l"(from), "r"(condition) : "memory");
}
static __device__ inline void load_16_if(uint32_t *bits, const void *from, int condition)
{
    asm volatile(LOAD_IF("u16") : "+r"(*bits) : "l"(from), "r"(condition) : "memory");
}
static __device__ inline void load_8_if(uint32_t *bits, const void *from, int condition)
{
    asm volatile(LOAD_IF("u8") : "+r"(*bits) : "l"(from), "r"(condition) : "memory");
}

#endif
