/* memory.c - device and pinned memory, copies, and where a pointer points. */
#include "device_cuda.h"

#include <inttypes.h>

#include "host_set.h"
#include "status.h"

/* ---- Where a pointer points ---------------------------------------------------------------- */

carat_status pointer_place(struct cuda_device *device, const char *name, const void *pointer,
                           enum place *place)
{
    unsigned type = 0;
    unsigned managed = 0;
    int ordinal = device->index;
    CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &managed, &ordinal};
    CARAT_TRY(DRIVER(device, cuPointerGetAttributes(3, attributes, values, (CUdeviceptr)(uintptr_t)pointer)));
    if (managed) {
        *place = PLACE_DEVICE;
        return CARAT_OK;
    }
    if (type != CU_MEMORYTYPE_DEVICE) {
        *place = type == CU_MEMORYTYPE_HOST ? PLACE_PINNED : PLACE_PAGEABLE;
        return CARAT_OK;
    }
    *place = PLACE_DEVICE;
    return !name || ordinal == device->index
               ? CARAT_OK
               : fail(CARAT_INVALID_ARGUMENT,
                      "%s is in the memory of CUDA device %d, but the context is of device %d", name, ordinal,
                      device->index);
}

/* ---- Capture ------------------------------------------------------------------------------- */

carat_status stream_is_capturing(struct cuda_device *device, CUstream stream, bool *capturing)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CARAT_TRY(DRIVER(device, cuStreamIsCapturing(stream, &status)));
    *capturing = status != CU_STREAM_CAPTURE_STATUS_NONE;
    return CARAT_OK;
}

bool default_stream_waits_for_capture(void)
{
    CUstreamCaptureStatus status;
    return driver.cuStreamIsCapturing(NULL, &status) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
}

carat_status capture_exempt_begin(struct cuda_device *device, CUstreamCaptureMode *mode)
{
    *mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    return DRIVER(device, cuThreadExchangeStreamCaptureMode(mode));
}

void capture_exempt_end(CUstreamCaptureMode *mode) { driver.cuThreadExchangeStreamCaptureMode(mode); }

/* ---- Memory -------------------------------------------------------------------------------- */

static carat_status out_of_device_memory(struct cuda_device *device, size_t bytes)
{
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    CARAT_TRY(DRIVER(device, cuMemGetInfo_v2(&free_bytes, &total_bytes)));
    return fail(CARAT_OUT_OF_DEVICE_MEMORY,
                "cuMemAlloc_v2: %zu bytes are wanted, but of CUDA device %d's %zu only %zu are free", bytes,
                device->index, total_bytes, free_bytes);
}

carat_status memory_allocate(struct cuda_device *device, size_t bytes, CUdeviceptr *pointer)
{
    CUstreamCaptureMode mode;
    *pointer = 0;
    CARAT_TRY(capture_exempt_begin(device, &mode));
    CUresult result = driver.cuMemAlloc_v2(pointer, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        host_sets_destroy(device);
        result = driver.cuMemAlloc_v2(pointer, bytes);
    }
    carat_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? out_of_device_memory(device, bytes)
                                                             : driver_status(device, result, "cuMemAlloc_v2");
    capture_exempt_end(&mode);
    return status;
}

carat_status memory_allocate_pinned(struct cuda_device *device, size_t bytes, void **pointer)
{
    CUstreamCaptureMode mode;
    *pointer = NULL;
    CARAT_TRY(capture_exempt_begin(device, &mode));
    CUresult result = driver.cuMemHostAlloc(pointer, bytes, CU_MEMHOSTALLOC_PORTABLE);
    carat_status status =
        result == CUDA_ERROR_OUT_OF_MEMORY
            ? fail(CARAT_OUT_OF_HOST_MEMORY, "cuMemHostAlloc: no %zu bytes of pinned host memory", bytes)
            : driver_status(device, result, "cuMemHostAlloc");
    capture_exempt_end(&mode);
    return status;
}

carat_status memory_free(struct cuda_device *device, CUdeviceptr pointer)
{
    CUstreamCaptureMode mode;
    CARAT_TRY(capture_exempt_begin(device, &mode));
    carat_status status = DRIVER(device, cuMemFree_v2(pointer));
    capture_exempt_end(&mode);
    return status;
}

carat_status memory_free_pinned(struct cuda_device *device, void *pointer)
{
    CUstreamCaptureMode mode;
    CARAT_TRY(capture_exempt_begin(device, &mode));
    carat_status status = DRIVER(device, cuMemFreeHost(pointer));
    capture_exempt_end(&mode);
    return status;
}

carat_status cuda_allocate(struct device *base, carat_memory memory, size_t bytes, void **pointer)
{
    struct cuda_device *device = cuda_device_of(base);
    *pointer = NULL;
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status;
    if (memory == CARAT_MEMORY_PINNED) {
        status = memory_allocate_pinned(device, bytes, pointer);
    } else {
        CUdeviceptr allocated;
        status = memory_allocate(device, bytes, &allocated);
        *pointer = (void *)(uintptr_t)allocated;
    }
    device_leave(device, pushed);
    return status;
}

carat_status cuda_release(struct device *base, void *pointer)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    enum place place;
    carat_status status = pointer_place(device, NULL, pointer, &place);
    if (status == CARAT_OK && place == PLACE_DEVICE) {
        status = memory_free(device, (CUdeviceptr)(uintptr_t)pointer);
        workspace_expect_room(device);
    } else if (status == CARAT_OK && place == PLACE_PINNED) {
        status = memory_free_pinned(device, pointer);
    } else if (status == CARAT_OK) {
        status = fail(CARAT_INVALID_ARGUMENT, "pointer is %p, which carat_allocate did not give", pointer);
    }
    device_leave(device, pushed);
    return status;
}

/* ---- Copies -------------------------------------------------------------------------------- */

static carat_status copy(struct cuda_device *device, void *to, const void *from, size_t bytes,
                         CUstream stream)
{
    enum place to_place;
    enum place from_place;
    CARAT_TRY(pointer_place(device, NULL, to, &to_place));
    CARAT_TRY(pointer_place(device, NULL, from, &from_place));
    CARAT_TRY(DRIVER(device,
                     cuMemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from, bytes, stream)));
    bool asynchronous = to_place != PLACE_PAGEABLE && from_place != PLACE_PAGEABLE;
    return asynchronous ? CARAT_OK : DRIVER(device, cuStreamSynchronize(stream));
}

carat_status cuda_copy(struct device *base, void *to, const void *from, size_t bytes, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = copy(device, to, from, bytes, stream);
    device_leave(device, pushed);
    return status;
}

carat_status cuda_memset(struct device *base, void *pointer, unsigned char byte, size_t bytes, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status =
        DRIVER(device, cuMemsetD8Async((CUdeviceptr)(uintptr_t)pointer, byte, bytes, stream));
    device_leave(device, pushed);
    return status;
}
