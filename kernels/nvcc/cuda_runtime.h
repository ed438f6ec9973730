/*
 * cuda_runtime.h - what the kernels use of CUDA's words, in place of the toolkit's header of that name: nvcc includes
 * it before every file, with the interface of the runtime and the C++ library's mathematics in it, and would read that
 * for each image and architecture anew.
 */
#ifndef CARAT_KERNELS_CUDA_RUNTIME_H
#define CARAT_KERNELS_CUDA_RUNTIME_H

#include <stddef.h>

#define __CUDA_INCLUDE_COMPILER_INTERNAL_HEADERS__
#include "crt/host_defines.h"
#include "vector_types.h"

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

/* The compiler knows these by name. */
extern "C" {
__device__ __device_builtin__ float fabsf(float x);
__device__ __device_builtin__ double fabs(double x);
__device__ __device_builtin__ float fminf(float x, float y);
__device__ __device_builtin__ float fmaxf(float x, float y);
__device__ __device_builtin__ float fmaf(float x, float y, float z);
__device__ __device_builtin__ double fma(double x, double y, double z);
__device__ __device_builtin__ int __isnanf(float x);
__device__ __device_builtin__ float rintf(float x);
__device__ __device_builtin__ double exp(double x);
__device__ __device_builtin__ double erfc(double x);
__device__ __device_builtin__ void *memcpy(void *to, const void *from, size_t bytes);
}

static __device__ inline bool isnan(float x) { return __isnanf(x); }

/* What the next header itself needs. */
static __device__ inline int min(int x, int y) { return x < y ? x : y; }
static __device__ inline int max(int x, int y) { return x > y ? x : y; }
static __device__ inline unsigned int min(unsigned int x, unsigned int y) { return x < y ? x : y; }
static __device__ inline unsigned int max(unsigned int x, unsigned int y) { return x > y ? x : y; }

#include "crt/device_functions.h"
#include "device_launch_parameters.h"

#endif
