/*
 * cuda_runtime.h - what the kernels use of CUDA's words, in place of the toolkit's header of that name: nvcc includes
 * it before every file, with the interface of the runtime, the C++ library's mathematics and the intrinsics of every
 * architecture in it, and would read that for each image anew, which takes longer than many a kernel.
 *
 * Functions with __device_builtin__ are the compiler's own, which it knows by name, and so are those that end in _impl; what they
 * do, and what the others here do that CUDA has by the same names, is in the CUDA C++ Programming Guide ("C++ Language
 * Extensions") and the CUDA Math API.
 */
#ifndef CARAT_KERNELS_CUDA_RUNTIME_H
#define CARAT_KERNELS_CUDA_RUNTIME_H

#include <stddef.h>

#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include "crt/host_defines.h"
#include "vector_types.h"
#include "device_launch_parameters.h"

#define BUILTIN extern "C" __device__ __device_builtin__

/* ---- Vectors ---- */

static __device__ inline float4 make_float4(float x, float y, float z, float w)
{
    float4 vector = {x, y, z, w};
    return vector;
}

static __device__ inline double2 make_double2(double x, double y)
{
    double2 vector = {x, y};
    return vector;
}

static __device__ inline uint2 make_uint2(unsigned int x, unsigned int y)
{
    uint2 vector = {x, y};
    return vector;
}

static __device__ inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w)
{
    uint4 vector = {x, y, z, w};
    return vector;
}

/* ---- Arithmetic ---- */

BUILTIN float fabsf(float x);
BUILTIN double fabs(double x);
BUILTIN float fminf(float x, float y);
BUILTIN float fmaxf(float x, float y);
BUILTIN float fmaf(float x, float y, float z);
BUILTIN double fma(double x, double y, double z);
BUILTIN int __isnanf(float x);
BUILTIN float rintf(float x);
BUILTIN double exp(double x);
BUILTIN double erfc(double x);
BUILTIN float __fadd_rn(float x, float y);
BUILTIN float __fsub_rn(float x, float y);
BUILTIN float __fmul_rn(float x, float y);
BUILTIN double __dadd_rn(double x, double y);
BUILTIN double __dsub_rn(double x, double y);
BUILTIN double __dmul_rn(double x, double y);
BUILTIN unsigned int __vneg4(unsigned int x);

static __device__ inline bool isnan(float x) { return __isnanf(x); }

/* ---- Bits ---- */

BUILTIN float __uint_as_float(unsigned int x);
BUILTIN unsigned int __float_as_uint(float x);
BUILTIN float __int_as_float(int x);
BUILTIN int __float_as_int(float x);
BUILTIN unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int which);
BUILTIN void *memcpy(void *to, const void *from, size_t bytes);

/* ---- Threads of a block, and of a warp ---- */

BUILTIN void __syncthreads(void);
BUILTIN void __nvvm_bar_warp_sync(unsigned int mask);
BUILTIN int __nvvm_vote_any_sync(unsigned int mask, int predicate);
BUILTIN unsigned int __nvvm_shfl_idx_sync(unsigned int mask, unsigned int x, unsigned int lane,
                                          unsigned int segment);
BUILTIN unsigned int __nvvm_shfl_bfly_sync(unsigned int mask, unsigned int x, unsigned int bits,
                                           unsigned int segment);

/* All 32 lanes; see "shfl.sync" in the PTX ISA. */
#define WHOLE_WARP 0x1f

static __device__ inline void __syncwarp(unsigned int mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }

static __device__ inline int __any_sync(unsigned int mask, int predicate)
{
    return __nvvm_vote_any_sync(mask, predicate);
}

static __device__ inline int __shfl_sync(unsigned int mask, int x, int lane)
{
    return (int)__nvvm_shfl_idx_sync(mask, (unsigned int)x, (unsigned int)lane, WHOLE_WARP);
}

static __device__ inline unsigned int __shfl_sync(unsigned int mask, unsigned int x, int lane)
{
    return __nvvm_shfl_idx_sync(mask, x, (unsigned int)lane, WHOLE_WARP);
}

static __device__ inline int __shfl_xor_sync(unsigned int mask, int x, int bits)
{
    return (int)__nvvm_shfl_bfly_sync(mask, (unsigned int)x, (unsigned int)bits, WHOLE_WARP);
}

static __device__ inline unsigned int __shfl_xor_sync(unsigned int mask, unsigned int x, int bits)
{
    return __nvvm_shfl_bfly_sync(mask, x, (unsigned int)bits, WHOLE_WARP);
}

static __device__ inline float __shfl_xor_sync(unsigned int mask, float x, int bits)
{
    return __uint_as_float(__nvvm_shfl_bfly_sync(mask, __float_as_uint(x), (unsigned int)bits, WHOLE_WARP));
}

/* ---- Memory ---- */

/* Loads of what nobody writes while the kernel runs (PTX ISA, "ld.global.nc"). */
#define LDG_OF_ONE(type, in_register, suffix, letter)                                                        \
    static __device__ inline type __ldg(const type *from)                                                    \
    {                                                                                                        \
        in_register x;                                                                                       \
        asm volatile("ld.global.nc." suffix " %0, [%1];" : "=" letter(x) : "l"(from));                       \
        return (type)x;                                                                                      \
    }
#define LDG_OF_TWO(type, suffix, letter)                                                                     \
    static __device__ inline type __ldg(const type *from)                                                    \
    {                                                                                                        \
        type two;                                                                                            \
        asm volatile("ld.global.nc.v2." suffix " {%0,%1}, [%2];"                                             \
                     : "=" letter(two.x), "=" letter(two.y)                                                  \
                     : "l"(from));                                                                           \
        return two;                                                                                          \
    }
#define LDG_OF_FOUR(type, suffix, letter)                                                                    \
    static __device__ inline type __ldg(const type *from)                                                    \
    {                                                                                                        \
        type four;                                                                                           \
        asm volatile("ld.global.nc.v4." suffix " {%0,%1,%2,%3}, [%4];"                                       \
                     : "=" letter(four.x), "=" letter(four.y), "=" letter(four.z), "=" letter(four.w)        \
                     : "l"(from));                                                                           \
        return four;                                                                                         \
    }

LDG_OF_ONE(signed char, unsigned int, "s8", "r")
LDG_OF_ONE(unsigned char, unsigned int, "u8", "r")
LDG_OF_ONE(unsigned short, unsigned short, "u16", "h")
LDG_OF_ONE(unsigned int, unsigned int, "u32", "r")
LDG_OF_ONE(float, float, "f32", "f")
LDG_OF_ONE(double, double, "f64", "d")
LDG_OF_TWO(uint2, "u32", "r")
LDG_OF_TWO(float2, "f32", "f")
LDG_OF_TWO(double2, "f64", "d")
LDG_OF_FOUR(uint4, "u32", "r")
LDG_OF_FOUR(float4, "f32", "f")

/* Past the first-level cache (PTX ISA, "ld", "st", ".cg"). */
static __device__ inline float2 __ldcg(const float2 *from)
{
    float2 two;
    asm volatile("ld.global.cg.v2.f32 {%0,%1}, [%2];" : "=f"(two.x), "=f"(two.y) : "l"(from));
    return two;
}

static __device__ inline void __stcg(float2 *to, float2 two)
{
    asm("st.global.cg.v2.f32 [%0], {%1,%2};" ::"l"(to), "f"(two.x), "f"(two.y) : "memory");
}

BUILTIN unsigned long long __ullAtomicAdd(unsigned long long *address, unsigned long long value);
extern "C" __device__ size_t __nv_cvta_generic_to_shared_impl(const void *pointer);
extern "C" __device__ void *__nv_cvta_shared_to_generic_impl(size_t address);
extern "C" __device__ void *__nv_cvta_global_to_generic_impl(size_t address);

static __device__ inline unsigned long long atomicAdd(unsigned long long *address, unsigned long long value)
{
    return __ullAtomicAdd(address, value);
}

static __device__ inline size_t __cvta_generic_to_shared(const void *pointer)
{
    return __nv_cvta_generic_to_shared_impl(pointer);
}

static __device__ inline void *__cvta_shared_to_generic(size_t address)
{
    return __nv_cvta_shared_to_generic_impl(address);
}

static __device__ inline void *__cvta_global_to_generic(size_t address)
{
    return __nv_cvta_global_to_generic_impl(address);
}

#endif
