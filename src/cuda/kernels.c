/* kernels.c - the catalogue's kernels on one device: loading an image when first used, and launching. */
#include "device_cuda.h"

#include <inttypes.h>
#include <stdint.h>

#include "status.h"

/* What a block may have without asking the driver for more. */
#define SHARED_WITHOUT_ASKING (48 * 1024)

/*
 * Where a kernel may be launched before the one ahead of it ends, captured into graphs too: where the machine code of
 * compute capability 9.0 runs. A later device runs the rows' PTX, which is of 7.5 or 8.0 and does not wait; and so may this
 * one, where nvcc knew no 9.0 or the driver is told to take no machine code (CUDA_FORCE_PTX_JIT).
 */
#define EARLY_CAPABILITY 90
#define EARLY_DRIVER 12030

static carat_status catalog_check(const struct kernel *kernel)
{
    return kernel >= carat_catalog && kernel < carat_catalog + carat_catalog_count
               ? CARAT_OK
               : fail(CARAT_INVALID_ARGUMENT, "kernel is no row of the catalogue");
}

carat_status cuda_kernel_check(struct device *base, const struct kernel *kernel)
{
    const struct device_traits *traits = &base->traits;
    CARAT_TRY(catalog_check(kernel));
    if (!kernel_has_image(kernel)) {
        return fail(CARAT_UNSUPPORTED,
                    "kernel %s is not in this library: the nvcc it was built with was too old", kernel->name);
    }
    return kernel_runs_on(kernel, traits)
               ? CARAT_OK
               : fail(CARAT_UNSUPPORTED,
                      "kernel %s needs compute capability %d.%d%s and %d bytes of shared memory, but the "
                      "device "
                      "has %d.%d and %d",
                      kernel->name, kernel->arch / 10, kernel->arch % 10,
                      kernel->arch_specific ? " and no other" : "", kernel->shared_bytes,
                      traits->compute_capability / 10, traits->compute_capability % 10, traits->shared_bytes);
}

/* Whether the code that was loaded of a row waits by itself for the kernels before it. */
static bool waits_itself(const struct cuda_device *device, const struct kernel *kernel, CUfunction function)
{
    int ptx = 0; /* what the driver leaves so it does not know: then the row is believed */
    return kernel->early && device->base.traits.compute_capability == EARLY_CAPABILITY &&
           driver.version >= EARLY_DRIVER &&
           driver.cuFuncGetAttribute(&ptx, CU_FUNC_ATTRIBUTE_PTX_VERSION, function) == CUDA_SUCCESS &&
           (ptx == 0 || ptx >= EARLY_CAPABILITY);
}

static carat_status load(struct cuda_device *device, const struct kernel *kernel, enum kernel_image image,
                         CUmodule *module, CUfunction *function)
{
    const unsigned char *const images[KERNEL_IMAGES] = {kernel->image, kernel->plain_image,
                                                        kernel->finish_image, kernel->sums_image};
    *module = NULL;
    carat_status status = DRIVER(device, cuModuleLoadData(module, images[image]));
    if (status == CARAT_OK) {
        status = DRIVER(device, cuModuleGetFunction(function, *module, kernel->name));
    }
    if (status == CARAT_OK && kernel->shared_bytes > SHARED_WITHOUT_ASKING) {
        status = DRIVER(device, cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                                   kernel->shared_bytes));
    }
    if (status != CARAT_OK && *module) {
        driver.cuModuleUnload(*module);
    }
    return status;
}

/* Loads under the lock, unless another thread has been faster. */
static carat_status load_once(struct cuda_device *device, const struct kernel *kernel,
                              enum kernel_image image, struct loaded_kernel *loaded)
{
    CUmodule module;
    CUfunction function;
    CUstreamCaptureMode mode;
    if (atomic_load_explicit(&loaded->function, memory_order_relaxed)) {
        return CARAT_OK;
    }
    CARAT_TRY(capture_exempt_begin(device, &mode));
    carat_status status = load(device, kernel, image, &module, &function);
    bool early = status == CARAT_OK && waits_itself(device, kernel, function);
    capture_exempt_end(&mode);
    if (status == CARAT_OK) {
        loaded->module = module;
        loaded->early = early;
        atomic_store_explicit(&loaded->function, function, memory_order_release);
    }
    return status;
}

carat_status kernel_load(struct cuda_device *device, const struct kernel *kernel, enum kernel_image image,
                         CUfunction *function)
{
    CARAT_TRY(catalog_check(kernel));
    struct loaded_kernel *loaded = &device->kernels[kernel - carat_catalog][image];
    *function = atomic_load_explicit(&loaded->function, memory_order_acquire);
    if (*function) {
        return CARAT_OK;
    }
    CARAT_TRY(cuda_kernel_check(&device->base, kernel));
    pthread_mutex_lock(&device->load_mutex);
    carat_status status = load_once(device, kernel, image, loaded);
    *function = atomic_load_explicit(&loaded->function, memory_order_relaxed);
    pthread_mutex_unlock(&device->load_mutex);
    return status;
}

void kernels_unload(struct cuda_device *device)
{
    for (int i = 0; i < carat_catalog_count; ++i) {
        for (int image = 0; image < KERNEL_IMAGES; ++image) {
            if (device->kernels[i][image].module) {
                driver.cuModuleUnload(device->kernels[i][image].module);
            }
        }
    }
}

carat_status kernel_launch(struct cuda_device *device, const struct kernel *kernel, int64_t blocks,
                           const void *arguments, CUstream stream)
{
    return kernel_launch_image(device, kernel, IMAGE_WHOLE, blocks, arguments, stream);
}

/* May begin before the kernels before it have ended, where it says that it waits for them itself. */
carat_status kernel_launch_image(struct cuda_device *device, const struct kernel *kernel,
                                 enum kernel_image image, int64_t blocks, const void *arguments,
                                 CUstream stream)
{
    if (blocks < 1 || blocks > INT32_MAX) {
        return fail(CARAT_UNSUPPORTED, "kernel %s would need %" PRId64 " blocks, but a grid has at most %d",
                    kernel->name, blocks, INT32_MAX);
    }
    CUfunction function;
    CARAT_TRY(kernel_load(device, kernel, image, &function));
    CUlaunchAttribute early = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                               .value = {.programmaticStreamSerializationAllowed = 1}};
    CUlaunchConfig config = {
        .gridDimX = (unsigned)blocks,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = (unsigned)kernel->threads_x,
        .blockDimY = kernel->threads_y > 0 ? (unsigned)kernel->threads_y : 1,
        .blockDimZ = 1,
        .sharedMemBytes = (unsigned)kernel->shared_bytes,
        .hStream = stream,
        .attrs = &early,
        .numAttrs = device->kernels[kernel - carat_catalog][image].early,
    };
    /* The driver copies the argument; it only takes it without const. */
    void *parameters[] = {(void *)(uintptr_t)arguments};
    return DRIVER(device, cuLaunchKernelEx(&config, function, parameters, NULL));
}

/* ---- For the command line and the bench ---------------------------------------------------- */

carat_status cuda_launch(struct device *base, const struct kernel *kernel, uint32_t blocks,
                         const void *arguments, size_t argument_bytes, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    size_t expected = 0;
    switch (kernel->operation) {
    case OPERATION_GEMM:
    case OPERATION_LADDER:
        /* Rows with tensor maps take more than a caller can make: cuda_gemm_with() launches them. */
        expected = kernel->tensor_maps ? 0 : sizeof(gemm_arguments);
        break;
    case OPERATION_REDUCE:
        expected = sizeof(reduce_arguments);
        break;
    case OPERATION_PACK:
        expected = sizeof(pack_arguments);
        break;
    case OPERATION_SPLIT:
        expected = sizeof(split_arguments);
        break;
    case OPERATION_SCALE_ADD:
        expected = sizeof(scale_add_arguments);
        break;
    case OPERATION_TRANSPOSE:
        expected = sizeof(transpose_arguments);
        break;
    case OPERATION_CEILING:
        expected = sizeof(ceiling_arguments);
        break;
    default:
        break;
    }
    if (argument_bytes != expected) {
        return fail(CARAT_INVALID_ARGUMENT, "argument_bytes is %zu, but kernel %s takes %zu", argument_bytes,
                    kernel->name, expected);
    }
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = kernel_launch(device, kernel, blocks, arguments, stream);
    device_leave(device, pushed);
    return status;
}

bool cuda_kernel_is_loaded(struct device *base, const struct kernel *kernel, enum kernel_image image)
{
    struct cuda_device *device = cuda_device_of(base);
    const struct loaded_kernel *loaded = device->kernels[kernel - carat_catalog];
    return atomic_load(&loaded[image].function) != NULL;
}

static carat_status query_function(struct cuda_device *device, const struct kernel *kernel,
                                   CUfunction function, struct cuda_kernel_info *info)
{
    CARAT_TRY(DRIVER(device, cuFuncGetAttribute(&info->registers, CU_FUNC_ATTRIBUTE_NUM_REGS, function)));
    CARAT_TRY(
        DRIVER(device, cuFuncGetAttribute(&info->local_bytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function)));
    CARAT_TRY(DRIVER(device, cuFuncGetAttribute(&info->static_shared_bytes,
                                                CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function)));
    CARAT_TRY(DRIVER(
        device, cuFuncGetAttribute(&info->max_threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function)));
    return DRIVER(device, cuOccupancyMaxActiveBlocksPerMultiprocessor(&info->blocks_per_multiprocessor,
                                                                      function, kernel_threads(kernel),
                                                                      (size_t)kernel->shared_bytes));
}

/* The whole image, or of a row that lacks it the first that it has. */
static enum kernel_image main_image(const struct kernel *kernel)
{
    return !kernel_lacks_whole(kernel) ? IMAGE_WHOLE : kernel->plain == 2 ? IMAGE_PLAIN : IMAGE_FINISHING;
}

carat_status cuda_kernel_query(struct device *base, const struct kernel *kernel,
                               struct cuda_kernel_info *info)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    CUfunction function;
    struct cuda_kernel_info found = {0};
    carat_status status = kernel_load(device, kernel, main_image(kernel), &function);
    if (status == CARAT_OK) {
        status = query_function(device, kernel, function, &found);
    }
    device_leave(device, pushed);
    if (status == CARAT_OK) {
        *info = found;
    }
    return status;
}
