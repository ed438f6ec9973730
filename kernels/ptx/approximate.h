/*
 * approximate.h - the special function unit's exponential and reciprocal, a quarter warp a cycle and scheduler
 * (PTX ISA, ex2 and rcp). Denormal arguments count as zero, denormal results become zero.
 */
#ifndef CARAT_PTX_APPROXIMATE_H
#define CARAT_PTX_APPROXIMATE_H

/* 2^x, within two units in the last place. */
static __device__ inline float exp2_approximate(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

/* 1 / x, within one unit in the last place. */
static __device__ inline float reciprocal_approximate(float x)
{
    float reciprocal;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
    return reciprocal;
}

#endif
