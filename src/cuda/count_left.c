/*
 * count_left.c - how many elements of D products of two planes have left to the safe path: a count in device memory, to
 * which the kernels add, one for all that the device runs. Graphs may hold its address, so it lives as long as that.
 */
#include "device_cuda.h"

#include "status.h"

/* Cleared on a stream of its own: the caller's may be recording. */
static carat_status clear(struct cuda_device *device, CUdeviceptr count)
{
    CUstream stream;
    CARAT_TRY(DRIVER(device, cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING)));
    carat_status status = DRIVER(device, cuMemsetD8Async(count, 0, sizeof(uint64_t), stream));
    if (status == CARAT_OK) {
        status = DRIVER(device, cuStreamSynchronize(stream));
    }
    carat_status destroyed = DRIVER(device, cuStreamDestroy_v2(stream));
    return status != CARAT_OK ? status : destroyed;
}

carat_status count_left_of(struct cuda_device *device, CUdeviceptr *count)
{
    if (!device->count_left) {
        CUdeviceptr made;
        CUstreamCaptureMode mode;
        CARAT_TRY(memory_allocate(device, sizeof(uint64_t), &made));
        carat_status status = capture_exempt_begin(device, &mode);
        if (status == CARAT_OK) {
            status = clear(device, made);
            capture_exempt_end(&mode);
        }
        if (status != CARAT_OK) {
            driver.cuMemFree_v2(made);
            return status;
        }
        device->count_left = made;
    }
    *count = device->count_left;
    return CARAT_OK;
}

void count_left_free(struct cuda_device *device)
{
    if (device->count_left) {
        driver.cuMemFree_v2(device->count_left);
    }
}

carat_status cuda_count_safe(struct device *base, uint64_t *elements)
{
    struct cuda_device *device = cuda_device_of(base);
    pthread_mutex_lock(&device->launching);
    CUdeviceptr count = device->count_left;
    pthread_mutex_unlock(&device->launching);
    *elements = 0;
    return count ? cuda_copy(base, elements, (const void *)(uintptr_t)count, sizeof(*elements), NULL)
                 : CARAT_OK;
}
