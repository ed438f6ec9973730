/*
 * device.h - where a plan runs: the CPU or a CUDA device behind one small struct of functions.
 *
 * Every function takes the device first and may be called from many threads at once. A stream is
 * a CUstream, or ignored on the CPU.
 */
#ifndef CARAT_DEVICE_H
#define CARAT_DEVICE_H

#include "carat/carat.h"
#include "plan.h"
#include "problem.h"

struct device;

/* A checked scale_add or transpose in canonical (column-major) form. */
struct elementwise {
    carat_type type;
    int64_t m;
    int64_t n;
    const void *scale; /* scale_add only */
    const void *shift;
    const void *a;
    int64_t lda;
    void *b;
    int64_t ldb;
};

struct device_functions {
    const char *name;
    size_t kept_bytes; /* of what it keeps with a plan from call to call, see struct plan; 0: nothing */

    /* Waits for everything, frees everything, the device itself too. */
    void (*destroy)(struct device *device);

    carat_status (*query)(struct device *device, carat_device_info *info);

    carat_status (*allocate)(struct device *device, carat_memory memory, size_t bytes, void **pointer);
    carat_status (*release)(struct device *device, void *pointer);
    carat_status (*copy)(struct device *device, void *to, const void *from, size_t bytes, void *stream);

    carat_status (*stream_create)(struct device *device, void **stream);
    carat_status (*stream_destroy)(struct device *device, void *stream);
    carat_status (*synchronize)(struct device *device, void *stream);

    /*
     * Makes ready what running the plan needs: kernels loaded, the default stream's pool grown. Both this and gemm
     * return CARAT_WORKSPACE_TOO_SMALL where the pool cannot grow, and have begun nothing then.
     */
    carat_status (*prepare)(struct device *device, const struct plan *plan);

    /* How many elements products of close accuracy have computed on the safe path, as far as streams are done. */
    carat_status (*count_safe)(struct device *device, uint64_t *elements);

    /* Runs a plan on non-empty operands, wherever they are. run is never NULL. */
    carat_status (*gemm)(struct device *device, const struct plan *plan, const struct operands *operands,
                         const carat_run *run);

    carat_status (*scale_add)(struct device *device, const struct elementwise *work, const carat_run *run);
    carat_status (*transpose)(struct device *device, const struct elementwise *work, const carat_run *run);
};

/* The head of every device; a device's own struct begins with it. */
struct device {
    const struct device_functions *functions;
    struct device_traits traits;
};

/* Device number index; on failure *device is NULL. */
carat_status cpu_device_create(int index, struct device **device);
carat_status cuda_device_create(int index, struct device **device);

/* How many CUDA devices there are; 0 where there is no driver or no CUDA in the build. */
int cuda_device_count(void);

#endif
