/*
 * row.c - one row of the catalogue, compiled for the CPU: the kernel's own source, and its entry in the
 * table. The build defines the row's constants and KERNEL_SOURCE, the path of the source in quotes.
 */
#include KERNEL_SOURCE

#include "cpu_run.h"

#if OPERATION == OPERATION_GEMM || OPERATION == OPERATION_LADDER
typedef gemm_arguments row_arguments;
#elif OPERATION == OPERATION_REDUCE
typedef reduce_arguments row_arguments;
#elif OPERATION == OPERATION_PACK
typedef pack_arguments row_arguments;
#elif OPERATION == OPERATION_SPLIT
typedef split_arguments row_arguments;
#elif OPERATION == OPERATION_SCALE_ADD
typedef scale_add_arguments row_arguments;
#elif OPERATION == OPERATION_TRANSPOSE
typedef transpose_arguments row_arguments;
#else
typedef ceiling_arguments row_arguments;
#endif

#ifndef THREADS_Y
#define THREADS_Y 1
#endif

#define JOINED(first, second) first##second
#define JOIN(first, second) JOINED(first, second)
#define TEXT_OF(name) #name
#define TEXT(name) TEXT_OF(name)

/* The linker marks the ends of a section; without static shared memory there is none. */
#define SHARED_BEGIN JOIN(__start_shared_, KERNEL_NAME)
#define SHARED_END JOIN(__stop_shared_, KERNEL_NAME)
extern unsigned char SHARED_BEGIN[] __attribute__((weak, visibility("hidden")));
extern unsigned char SHARED_END[] __attribute__((weak, visibility("hidden")));

static void run(const void *arguments) { KERNEL_NAME(*(const row_arguments *)arguments); }

/* With the default visibility, so that a row built as a shared object can be found in it. */
extern const struct cpu_kernel JOIN(cpu_kernel_, KERNEL_NAME) __attribute__((visibility("default")));
const struct cpu_kernel JOIN(cpu_kernel_, KERNEL_NAME) = {
    .name = TEXT(KERNEL_NAME),
    .run = run,
    .argument_bytes = sizeof(row_arguments),
    .threads = THREADS_X * THREADS_Y,
    .shared_begin = SHARED_BEGIN,
    .shared_end = SHARED_END,
};
