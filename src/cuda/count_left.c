/*
 * count_left.c - how many elements of D products of two planes have left to the safe path: a count in device memory, to
 * which the kernels add, one for all that the device runs. Graphs may hold its address, so it lives as long as that.
 */
#include "device_cuda.h"

#include "status.h"

/*
 * What is done to the count goes to a stream of its own: the caller's may be recording, and while any does the default
 * stream must not be used.
 */
static carat_status finish(struct cuda_device *device, CUstream stream, carat_status status)
{
    if (status == CARAT_OK) {
        status = DRIVER(device, cuStreamSynchronize(stream));
    }
    carat_status destroyed = DRIVER(device, cuStreamDestroy_v2(stream));
    return status != CARAT_OK ? status : destroyed;
}

static carat_status clear(struct cuda_device *device, CUdeviceptr count)
{
    CUstream stream;
    CARAT_TRY(DRIVER(device, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    return finish(device, stream, DRIVER(device, cuMemsetD8Async(count, 0, sizeof(uint64_t), stream)));
}

static carat_status read(struct cuda_device *device, CUdeviceptr count, uint64_t *elements)
{
    CUstream stream;
    CARAT_TRY(DRIVER(device, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    return finish(
        device, stream,
        DRIVER(device, cuMemcpyAsync((CUdeviceptr)(uintptr_t)elements, count, sizeof(*elements), stream)));
}

static carat_status make(struct cuda_device *device, CUdeviceptr *made)
{
    CUstreamCaptureMode mode;
    CARAT_TRY(capture_exempt_begin(device, &mode));
    carat_status status = memory_allocate(device, sizeof(uint64_t), made);
    if (status == CARAT_OK) {
        status = clear(device, *made);
        if (status != CARAT_OK) {
            driver.cuMemFree_v2(*made);
        }
    }
    capture_exempt_end(&mode);
    return status;
}

/* Makes it under the lock, unless another thread has been faster. */
static carat_status make_once(struct cuda_device *device)
{
    CUdeviceptr made;
    if (atomic_load_explicit(&device->count_left, memory_order_relaxed)) {
        return CARAT_OK;
    }
    CARAT_TRY(make(device, &made));
    atomic_store_explicit(&device->count_left, made, memory_order_release);
    return CARAT_OK;
}

carat_status count_left_of(struct cuda_device *device, CUdeviceptr *count)
{
    *count = atomic_load_explicit(&device->count_left, memory_order_acquire);
    if (*count) {
        return CARAT_OK;
    }
    pthread_mutex_lock(&device->load_mutex);
    carat_status status = make_once(device);
    *count = atomic_load_explicit(&device->count_left, memory_order_relaxed);
    pthread_mutex_unlock(&device->load_mutex);
    return status;
}

void count_left_free(struct cuda_device *device)
{
    CUdeviceptr count = atomic_load(&device->count_left);
    if (count) {
        driver.cuMemFree_v2(count);
    }
}

carat_status cuda_count_safe(struct device *base, uint64_t *elements)
{
    struct cuda_device *device = cuda_device_of(base);
    CUdeviceptr count = atomic_load_explicit(&device->count_left, memory_order_acquire);
    *elements = 0;
    if (!count) {
        return CARAT_OK;
    }
    bool pushed;
    CUstreamCaptureMode mode;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = capture_exempt_begin(device, &mode);
    if (status == CARAT_OK) {
        status = read(device, count, elements);
        capture_exempt_end(&mode);
    }
    device_leave(device, pushed);
    return status;
}
