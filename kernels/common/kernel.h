/*
 * kernel.h - what every kernel file includes first: the words, the arguments, the element type, and
 * the instructions by name.
 *
 * The tests compile the same files with a C compiler and run them on the CPU: then CUDA_ON_CPU is
 * defined, and tests/cpu_run/cuda_on_cpu.h gives CUDA's words and the instructions a meaning there.
 */
#ifndef CARAT_KERNELS_KERNEL_H
#define CARAT_KERNELS_KERNEL_H

#include <assert.h>
#include <stdint.h>

#include "arguments.h"
#include "words.h"

#ifdef CUDA_ON_CPU
#include "cuda_on_cpu.h"
#else
/* KERNEL begins a kernel's definition; its name is the catalogue row's, KERNEL_NAME. */
#define KERNEL extern "C" __global__ void

/* Declares name, a pointer to type at the start of the block's dynamic shared memory. */
#define DYNAMIC_SHARED(type, name)                                                                           \
    extern __shared__ __align__(1024) unsigned char dynamic_shared[];                                        \
    type *name = (type *)dynamic_shared

#include "../ptx/approximate.h"
#include "../ptx/convert.h"
#include "../ptx/copy_async.h"
#include "../ptx/bulk_copy.h"
#include "../ptx/dependent.h"
#include "../ptx/dot4.h"
#include "../ptx/ldmatrix.h"
#include "../ptx/mma.h"
#include "../ptx/mma_f64.h"
#include "../ptx/warp.h"
#endif

#include "element.h"

#endif
