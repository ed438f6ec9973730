/* driver.c - finds the CUDA driver at run time, and turns its results into statuses. */
#include "driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device_cuda.h"
#include "status.h"

struct driver driver;

/* What became of loading, for every thread that asks. */
static struct {
    pthread_once_t once;
    carat_status status;
    char message[400];
} load = {.once = PTHREAD_ONCE_INIT};

/* The functions' places in the struct, by name. */
static const struct {
    const char *name;
    size_t offset;
} functions[] = {
#define DRIVER_NAME(name, parameters) {#name, offsetof(struct driver, name)},
    CARAT_DRIVER_FUNCTIONS(DRIVER_NAME)
#undef DRIVER_NAME
};

/* Every function Carat uses, or the driver is older than the newest of them. */
static carat_status find_functions(void *library, const char *path)
{
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        void *address = dlsym(library, functions[i].name);
        if (!address) {
            return fail(CARAT_DRIVER_TOO_OLD,
                        "the CUDA driver %s has no %s; Carat needs a driver for CUDA %d.%d", path,
                        functions[i].name, CARAT_LEAST_DRIVER / 1000, CARAT_LEAST_DRIVER % 1000 / 10);
        }
        /* POSIX promises that a function's address fits a void *; ISO C has no conversion for it. */
        memcpy((char *)&driver + functions[i].offset, &address, sizeof(address));
    }
    return CARAT_OK;
}

static carat_status check_version(const char *path)
{
    CARAT_TRY(DRIVER(NULL, cuDriverGetVersion(&driver.version)));
    if (driver.version < CARAT_LEAST_DRIVER) {
        return fail(CARAT_DRIVER_TOO_OLD,
                    "the CUDA driver %s is for CUDA %d.%d; Carat needs one for CUDA %d.%d", path,
                    driver.version / 1000, driver.version % 1000 / 10, CARAT_LEAST_DRIVER / 1000,
                    CARAT_LEAST_DRIVER % 1000 / 10);
    }
    return CARAT_OK;
}

/* The library stays open: it keeps threads and state of its own that must outlive every user. */
static carat_status open_library(void)
{
    const char *path = getenv("CARAT_DRIVER_LIBRARY");
    if (!path || !*path) {
        path = "libcuda.so.1";
    }
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        return fail(CARAT_NO_DRIVER, "the CUDA driver cannot be loaded: %s", dlerror());
    }
    carat_status status = find_functions(library, path);
    if (status == CARAT_OK) {
        status = check_version(path);
    }
    if (status == CARAT_OK) {
        return DRIVER(NULL, cuInit(0));
    }
    dlclose(library);
    return status;
}

static void load_once(void)
{
    load.status = open_library();
    if (load.status != CARAT_OK) {
        snprintf(load.message, sizeof(load.message), "%s", carat_last_message());
    }
}

carat_status driver_load(void)
{
    pthread_once(&load.once, load_once);
    return load.status == CARAT_OK ? CARAT_OK : fail(load.status, "%s", load.message);
}

/* Whether nothing can be done in the context any more after this error. */
static bool is_lost(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_CONTAINED:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_TENSOR_MEMORY_LEAK:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

static carat_status status_of(CUresult result, const char *call)
{
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return strncmp(call, "cuMemHostAlloc", strlen("cuMemHostAlloc")) == 0 ? CARAT_OUT_OF_HOST_MEMORY
                                                                              : CARAT_OUT_OF_DEVICE_MEMORY;
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
        return CARAT_NO_DEVICE;
    case CUDA_ERROR_STUB_LIBRARY:
        return CARAT_NO_DRIVER;
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
        return CARAT_DRIVER_TOO_OLD;
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
        return CARAT_UNSUPPORTED;
    default:
        return is_lost(result) ? CARAT_DEVICE_LOST : CARAT_DEVICE_ERROR;
    }
}

carat_status driver_status(struct cuda_device *device, CUresult result, const char *call)
{
    if (result == CUDA_SUCCESS) {
        return CARAT_OK;
    }
    const char *name = NULL;
    const char *text = NULL;
    if (driver.cuGetErrorName(result, &name) != CUDA_SUCCESS || !name) {
        name = "an error the driver has no name for";
    }
    if (driver.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) {
        text = "no description";
    }
    if (device && is_lost(result)) {
        device_mark_lost(device, result);
    }
    return fail(status_of(result, call), "%.*s: %s (%d): %s", (int)strcspn(call, "("), call, name,
                (int)result, text);
}
