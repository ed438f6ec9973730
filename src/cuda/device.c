/* device.c - the CUDA device: its making and its end, whose context is current, and its streams. */
#include "device_cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "host_set.h"
#include "status.h"

/* The least compute capability that Carat has kernels for, major * 10 + minor. */
#define LEAST_CAPABILITY 75

/* ---- The context --------------------------------------------------------------------------- */

void device_mark_lost(struct cuda_device *device, CUresult result)
{
    int working = 0;
    atomic_compare_exchange_strong(&device->lost, &working, (int)result);
}

carat_status device_enter(struct cuda_device *device, bool *pushed)
{
    int lost = atomic_load_explicit(&device->lost, memory_order_relaxed);
    if (lost) {
        const char *name = NULL;
        driver.cuGetErrorName((CUresult)lost, &name);
        return fail(CARAT_DEVICE_LOST, "CUDA device %d (%s) was lost in earlier work: %s (%d)", device->index,
                    device->name, name ? name : "unknown error", lost);
    }
    CUcontext current = NULL;
    CARAT_TRY(DRIVER(device, cuCtxGetCurrent(&current)));
    *pushed = current != device->context;
    return *pushed ? DRIVER(device, cuCtxPushCurrent_v2(device->context)) : CARAT_OK;
}

void device_leave(struct cuda_device *device, bool pushed)
{
    (void)device;
    CUcontext popped;
    if (pushed) {
        driver.cuCtxPopCurrent_v2(&popped);
    }
}

carat_status cuda_enter(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    return DRIVER(device, cuCtxPushCurrent_v2(device->context));
}

void cuda_leave(struct device *base) { device_leave(cuda_device_of(base), true); }

/* ---- Streams ------------------------------------------------------------------------------- */

static carat_status stream_create(struct device *base, void **stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    CUstream created = NULL;
    carat_status status = DRIVER(device, cuStreamCreate(&created, CU_STREAM_NON_BLOCKING));
    *stream = status == CARAT_OK ? created : NULL;
    device_leave(device, pushed);
    return status;
}

static carat_status stream_destroy(struct device *base, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = workspace_drop(device, stream);
    carat_status destroyed = DRIVER(device, cuStreamDestroy_v2(stream));
    device_leave(device, pushed);
    return status != CARAT_OK ? status : destroyed;
}

static carat_status synchronize(struct device *base, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuStreamSynchronize(stream));
    device_leave(device, pushed);
    return status;
}

carat_status cuda_pci_address(struct device *base, char *address, int size)
{
    struct cuda_device *device = cuda_device_of(base);
    return DRIVER(device, cuDeviceGetPCIBusId(address, size, device->handle));
}

/* ---- Making and end ------------------------------------------------------------------------ */

/*
 * Frees all that the device owns, in a context that may be lost: then the driver refuses every call,
 * and has itself freed what lived there.
 */
static void destroy(struct device *base)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed = driver.cuCtxPushCurrent_v2(device->context) == CUDA_SUCCESS;
    driver.cuCtxSynchronize();
    host_sets_destroy(device);
    workspace_pool_destroy(&device->pool);
    count_left_free(device);
    kernels_unload(device);
    device_leave(device, pushed);
    driver.cuDevicePrimaryCtxRelease_v2(device->handle);
    pthread_mutex_destroy(&device->load_mutex);
    pthread_mutex_destroy(&device->launching);
    pthread_mutex_destroy(&device->host_mutex);
    free(device->kernels);
    free(device);
}

static const struct device_functions functions = {
    .name = "cuda",
    .kept_bytes = sizeof(struct plan_maps),
    .destroy = destroy,
    .query = cuda_query,
    .allocate = cuda_allocate,
    .release = cuda_release,
    .copy = cuda_copy,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .synchronize = synchronize,
    .prepare = cuda_prepare,
    .count_safe = cuda_count_safe,
    .gemm = cuda_gemm,
    .scale_add = cuda_scale_add,
    .transpose = cuda_transpose,
};

/* What no other device of this program begins with, nor one of another program. */
static uint64_t first_token(const struct cuda_device *device)
{
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec << 2 ^ (uint64_t)(uintptr_t)device << 16;
}

/* Whether the build had nvcc: then at least one row has an image. */
static bool have_images(void)
{
    for (int i = 0; i < carat_catalog_count; ++i) {
        if (kernel_has_image(&carat_catalog[i])) {
            return true;
        }
    }
    return false;
}

static carat_status driver_and_count(int *count)
{
    if (!have_images()) {
        return fail(CARAT_UNSUPPORTED,
                    "this library was built without CUDA kernels; build it where nvcc is found");
    }
    CARAT_TRY(driver_load());
    return DRIVER(NULL, cuDeviceGetCount(count));
}

int cuda_device_count(void)
{
    char message[400];
    int count = 0;
    snprintf(message, sizeof(message), "%s", carat_last_message());
    if (driver_and_count(&count) == CARAT_OK) {
        return count;
    }
    /* That there is none is an answer, not a failure: the message of the last failure stays. */
    set_message("%s", message);
    return 0;
}

/* What the memory gives, as far as the driver knows: 0 where it does not. */
static carat_status read_memory_promised(struct cuda_device *device, int multiprocessors, double *promised)
{
    enum { MEMORY_KILOHERTZ, BUS_BITS, KILOHERTZ, COUNT };
    static const CUdevice_attribute attributes[COUNT] = {
        [MEMORY_KILOHERTZ] = CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
        [BUS_BITS] = CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
        [KILOHERTZ] = CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
    };
    int values[COUNT] = {0};
    for (int i = 0; i < COUNT; ++i) {
        CUresult result = driver.cuDeviceGetAttribute(&values[i], attributes[i], device->handle);
        if (result == CUDA_ERROR_INVALID_VALUE) { /* it may be gone one day */
            values[i] = 0;
        } else {
            CARAT_TRY(driver_status(device, result, "cuDeviceGetAttribute"));
        }
    }
    /* Of the memory's clock each edge transfers. */
    double gigabytes = 2e3 * values[MEMORY_KILOHERTZ] * values[BUS_BITS] / 8 / 1e9;
    *promised = memory_share_of(gigabytes, values[KILOHERTZ] / 1e3, multiprocessors);
    return CARAT_OK;
}

/* What the device needs to know of itself before it has a context. */
static carat_status read_traits(struct cuda_device *device)
{
    struct {
        CUdevice_attribute attribute;
        int value;
    } wanted[] = {
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0},
        {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
        {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0},
        {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 0},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 0},
        {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0},
        {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 0},
    };
    CARAT_TRY(DRIVER(device, cuDeviceGet(&device->handle, device->index)));
    CARAT_TRY(DRIVER(device, cuDeviceGetName(device->name, sizeof(device->name), device->handle)));
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); ++i) {
        CARAT_TRY(
            DRIVER(device, cuDeviceGetAttribute(&wanted[i].value, wanted[i].attribute, device->handle)));
    }
    double memory_promised;
    CARAT_TRY(read_memory_promised(device, wanted[2].value, &memory_promised));
    device->base.traits = (struct device_traits){
        .kind = CARAT_DEVICE_CUDA,
        .compute_capability = wanted[0].value * 10 + wanted[1].value,
        .multiprocessors = wanted[2].value,
        .shared_bytes = wanted[5].value,
        .memory_promised = memory_promised,
        .name = device->name,
    };
    device->max_pitch = (size_t)wanted[3].value;
    device->cache_bytes = wanted[6].value;
    if (device->base.traits.compute_capability < LEAST_CAPABILITY || !wanted[4].value) {
        return fail(
            CARAT_UNSUPPORTED,
            "CUDA device %d (%s) has compute capability %d.%d%s; Carat needs %d.%d and unified addressing",
            device->index, device->name, wanted[0].value, wanted[1].value,
            wanted[4].value ? "" : " and no unified addressing", LEAST_CAPABILITY / 10,
            LEAST_CAPABILITY % 10);
    }
    return CARAT_OK;
}

carat_status cuda_device_create(int index, struct device **created)
{
    *created = NULL;
    int count = 0;
    CARAT_TRY(driver_and_count(&count));
    if (index < 0 || index >= count) {
        return fail(CARAT_NO_DEVICE, "index is %d, but there %s %d CUDA device%s", index,
                    count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    }
    struct cuda_device *device = calloc(1, sizeof(*device));
    struct loaded_kernel(*kernels)[KERNEL_IMAGES] = calloc((size_t)carat_catalog_count, sizeof(*kernels));
    if (!device || !kernels) {
        free(device);
        free(kernels);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for a CUDA device");
    }
    device->base.functions = &functions;
    device->index = index;
    device->kernels = kernels;
    device->limits = pipeline_limits_default;
    atomic_init(&device->tokens, first_token(device));
    carat_status status = read_traits(device);
    if (status == CARAT_OK) {
        status = DRIVER(device, cuDevicePrimaryCtxRetain(&device->context, device->handle));
    }
    if (status != CARAT_OK) {
        free(kernels);
        free(device);
        return status;
    }
    /* With default attributes these cannot fail on any POSIX system Carat is built for. */
    pthread_mutex_init(&device->load_mutex, NULL);
    pthread_mutex_init(&device->host_mutex, NULL);
    pthread_mutex_init(&device->pool.mutex, NULL);
    pthread_mutex_init(&device->launching, NULL);
    *created = &device->base;
    return CARAT_OK;
}
