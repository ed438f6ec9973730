/*
 * cpu_run.h - the kernels of the catalogue as the tests see them: a table by name, and a launch.
 */
#ifndef CARAT_TESTS_CPU_RUN_H
#define CARAT_TESTS_CPU_RUN_H

#include <stddef.h>
#include <stdint.h>

/* One row of the catalogue, compiled for the CPU by row.c. */
struct cpu_kernel {
    const char *name;
    void (*run)(const void *arguments); /* what one thread does */
    size_t argument_bytes;
    int threads;                 /* the most that a block may have */
    unsigned char *shared_begin; /* the row's static shared memory; NULL where it has none */
    unsigned char *shared_end;
};

extern const struct cpu_kernel *const cpu_kernels[];
extern const int cpu_kernel_count;

/* A row that cannot run on the CPU, and why. */
struct cpu_left_out {
    const char *name;
    const char *reason;
};

extern const struct cpu_left_out cpu_left_out[];
extern const int cpu_left_out_count;

/* The kernel of that name, or NULL. */
const struct cpu_kernel *cpu_kernel_find(const char *name);

/* The size of a launch. */
struct cpu_launch {
    uint32_t grid[3];
    uint32_t block[3];
    size_t dynamic_shared_bytes;
    uint64_t seed; /* of the order of blocks, warps, threads and copies */
};

/*
 * Runs all blocks and returns. A fault of the kernel (a barrier that some threads miss, a copy that is
 * not aligned) ends the program with a message, as the sanitizers do.
 */
void cpu_run(const struct cpu_kernel *kernel, const struct cpu_launch *launch, const void *arguments);

#endif
