/* device.c - the stand-in's devices, contexts and modules; and how calls begin, end and fail. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static struct {
    bool initialized;
    int devices;
    int capability;
    int multiprocessors;
    int version;
    uint64_t random;
    long calls;
    long launches;
    const char *fail_name;
    char fail_storage[64];
    long fail_after; /* calls until the one that fails; 0: none */
    CUresult fail_code;
    const char *failed;
    int abandoned;   /* things that contexts had when they ended */
    long lose_after; /* kernels until the one that loses the device; 0: none */
    /* Of a chip that runs all rows but those of one architecture alone, which have no meaning on the CPU. */
} standin = {.devices = 1, .capability = 100, .multiprocessors = 4, .version = 13000};

struct CUctx_st contexts[MOST_DEVICES];
static struct CUmod_st *modules;

#define MOST_PUSHED 16
static _Thread_local struct CUctx_st *pushed[MOST_PUSHED];
static _Thread_local int pushed_count;

__attribute__((constructor)) static void read_environment(void)
{
    const char *text = getenv("STANDIN_DEVICES");
    standin.devices = text ? atoi(text) : standin.devices;
    text = getenv("STANDIN_CAPABILITY");
    standin.capability = text ? atoi(text) : standin.capability;
    text = getenv("STANDIN_MULTIPROCESSORS");
    standin.multiprocessors = text ? atoi(text) : standin.multiprocessors;
    text = getenv("STANDIN_VERSION");
    standin.version = text ? atoi(text) : standin.version;
    text = getenv("STANDIN_SEED");
    standin.random = text ? strtoull(text, NULL, 10) : 0;
}

void standin_fault(const char *format, ...)
{
    va_list values;
    fputs("stand-in: ", stderr);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    abort();
}

/* ---- Steering ------------------------------------------------------------------------------- */

void standin_set_devices(int count) { standin.devices = count; }
void standin_set_capability(int capability) { standin.capability = capability; }
void standin_set_version(int version) { standin.version = version; }
void standin_seed(uint64_t seed) { standin.random = seed; }
const char *standin_failed(void) { return standin.failed; }
long standin_calls(void) { return standin.calls; }
long standin_launches(void) { return standin.launches; }
int standin_pushed(void) { return pushed_count; }
void standin_lose_device(long nth) { standin.lose_after = nth; }
uint32_t standin_draw(uint32_t bound) { return chance_below(&standin.random, bound); }

void standin_fail(const char *name, long nth, int code)
{
    standin.fail_name = name ? strncpy(standin.fail_storage, name, sizeof standin.fail_storage - 1) : NULL;
    standin.fail_after = nth;
    standin.fail_code = (CUresult)code;
    standin.failed = NULL;
    standin.calls = 0;
}

void standin_reset(void)
{
    standin_fail(NULL, 0, 0);
    standin.launches = 0;
    standin.lose_after = 0;
    standin.abandoned = 0;
    standin_set_memory((size_t)256 << 20);
    standin_set_pinned(SIZE_MAX);
    for (int i = 0; i < MOST_DEVICES; ++i) {
        contexts[i].lost = CUDA_SUCCESS;
    }
}

int standin_leaks(void)
{
    int count = memory_leaks() + stream_leaks();
    for (const struct CUmod_st *at = modules; at; at = at->next, ++count) {
        fprintf(stderr, "stand-in: the module of %s was not unloaded\n", at->function.kernel->name);
    }
    for (int i = 0; i < MOST_DEVICES; ++i) {
        if (contexts[i].retained) {
            fprintf(stderr, "stand-in: the context of device %d was not released\n", i);
            ++count;
        }
    }
    return count + standin.abandoned;
}

int standin_exists(const void *thing) { return memory_exists(thing) || stream_exists(thing); }

/* The end of a context frees what is in it, which a library that shares it must not count on. */
static void end_context(int device)
{
    run_everything(device);
    int before = contexts[device].lost ? 0 : standin_leaks();
    memory_abandon(device);
    streams_abandon(device);
    for (struct CUmod_st **link = &modules; *link;) {
        struct CUmod_st *at = *link;
        if (at->device == device) {
            *link = at->next;
            free(at);
        } else {
            link = &at->next;
        }
    }
    /* A lost device lets nobody free anything. */
    standin.abandoned += contexts[device].lost ? 0 : before - standin_leaks();
}

/* ---- Calls ---------------------------------------------------------------------------------- */

static CUresult injected(const char *name)
{
    ++standin.calls;
    if (standin.fail_after && (!standin.fail_name || !strcmp(standin.fail_name, name))) {
        if (--standin.fail_after == 0) {
            standin.failed = name;
            return standin.fail_code;
        }
    }
    return CUDA_SUCCESS;
}

struct call call_begin(const char *name, unsigned needs)
{
    pthread_mutex_lock(&lock);
    struct call call = {injected(name), false};
    for (int i = 0; i < MOST_DEVICES && call.result == CUDA_ERROR_LAUNCH_FAILED; ++i) {
        contexts[i].lost = call.result; /* whoever tells of it */
    }
    if (needs != NEEDS_NOTHING && !standin.initialized) {
        return (struct call){CUDA_ERROR_NOT_INITIALIZED, true};
    }
    if (needs & NEEDS_CONTEXT) {
        const struct CUctx_st *context = current_context();
        if (!context || !context->retained) {
            return (struct call){CUDA_ERROR_INVALID_CONTEXT, true};
        }
        call.result = context->lost ? context->lost : call.result;
    }
    if (needs & FORBIDDEN_IN_CAPTURE && capture_forbids()) {
        capture_spoil();
        return (struct call){CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, true};
    }
    call.stop = call.result != CUDA_SUCCESS && !(needs & RELEASES);
    return call;
}

void call_end(struct call *call)
{
    (void)call;
    pthread_mutex_unlock(&lock);
}

bool device_dies(void)
{
    ++standin.launches;
    return standin.lose_after && --standin.lose_after == 0;
}

/* ---- The driver ----------------------------------------------------------------------------- */

CUresult cuInit(unsigned flags)
{
    CALL("cuInit", NEEDS_NOTHING);
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!standin.devices) {
        return CUDA_ERROR_NO_DEVICE;
    }
    standin.initialized = true;
    return call.result;
}

CUresult cuDriverGetVersion(int *version)
{
    CALL("cuDriverGetVersion", NEEDS_NOTHING);
    *version = standin.version;
    return call.result;
}

/* The codes that a driver and this stand-in give. */
static const struct {
    CUresult code;
    const char *name;
} error_names[] = {
    {CUDA_SUCCESS, "CUDA_SUCCESS"},
    {CUDA_ERROR_INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE"},
    {CUDA_ERROR_OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY"},
    {CUDA_ERROR_NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED"},
    {CUDA_ERROR_NO_DEVICE, "CUDA_ERROR_NO_DEVICE"},
    {CUDA_ERROR_INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE"},
    {CUDA_ERROR_INVALID_IMAGE, "CUDA_ERROR_INVALID_IMAGE"},
    {CUDA_ERROR_INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
    {CUDA_ERROR_INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE"},
    {CUDA_ERROR_NOT_FOUND, "CUDA_ERROR_NOT_FOUND"},
    {CUDA_ERROR_NOT_READY, "CUDA_ERROR_NOT_READY"},
    {CUDA_ERROR_LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED"},
    {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
    {CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
    {CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT"},
    {CUDA_ERROR_UNKNOWN, "CUDA_ERROR_UNKNOWN"},
};

static CUresult name_of(CUresult error, const char **name)
{
    for (size_t i = 0; i < sizeof error_names / sizeof error_names[0]; ++i) {
        if (error_names[i].code == error) {
            *name = error_names[i].name;
            return CUDA_SUCCESS;
        }
    }
    *name = NULL;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult error, const char **name)
{
    CALL("cuGetErrorName", NEEDS_NOTHING);
    return name_of(error, name);
}

CUresult cuGetErrorString(CUresult error, const char **text)
{
    CALL("cuGetErrorString", NEEDS_NOTHING);
    CUresult result = name_of(error, text);
    *text = *text ? "said by the stand-in" : NULL;
    return result;
}

/* ---- Devices -------------------------------------------------------------------------------- */

static bool is_device(CUdevice device) { return device >= 0 && device < standin.devices; }

CUresult cuDeviceGetCount(int *count)
{
    CALL("cuDeviceGetCount", NEEDS_INIT);
    *count = standin.devices;
    return call.result;
}

CUresult cuDeviceGet(CUdevice *device, int index)
{
    CALL("cuDeviceGet", NEEDS_INIT);
    if (!is_device(index)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *device = index;
    return call.result;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    CALL("cuDeviceGetName", NEEDS_INIT);
    if (!is_device(device) || size < 1) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    snprintf(name, (size_t)size, "Stand-in %d", device);
    return call.result;
}

CUresult cuDeviceGetPCIBusId(char *address, int size, CUdevice device)
{
    CALL("cuDeviceGetPCIBusId", NEEDS_INIT);
    if (!is_device(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (size < 13) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(address, (size_t)size, "0000:%02x:00.0", (unsigned char)device);
    return call.result;
}

/* Of a device much like an H100, but with few multiprocessors, so that small grids are many waves. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} attributes[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, MOST_BLOCK_XY},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, MOST_BLOCK_XY},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, MOST_BLOCK_Z},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, MOST_GRID_X},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, MOST_GRID_YZ},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, MOST_GRID_YZ},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, DEFAULT_SHARED_BYTES},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, MOST_PITCH},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 58781}, /* 18.8 bytes a cycle for each of them, as an H200 has */
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 5120},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 52428800},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, OPTIN_SHARED_BYTES},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 33554432},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
};

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    CALL("cuDeviceGetAttribute", NEEDS_INIT);
    if (!is_device(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ||
        attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
        *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? standin.capability / 10
                                                                           : standin.capability % 10;
        return call.result;
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) {
        *value = standin.multiprocessors;
        return call.result;
    }
    for (size_t i = 0; i < sizeof attributes / sizeof attributes[0]; ++i) {
        if (attributes[i].attribute == attribute) {
            *value = attributes[i].value;
            return call.result;
        }
    }
    return CUDA_ERROR_INVALID_VALUE;
}

/* ---- Contexts ------------------------------------------------------------------------------- */

struct CUctx_st *current_context(void) { return pushed_count ? pushed[pushed_count - 1] : NULL; }

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    CALL("cuDevicePrimaryCtxRetain", NEEDS_INIT);
    if (!is_device(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    contexts[device].device = device;
    ++contexts[device].retained;
    *context = &contexts[device];
    return call.result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    CALL("cuDevicePrimaryCtxRelease_v2", NEEDS_INIT | RELEASES);
    if (!is_device(device) || !contexts[device].retained) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (--contexts[device].retained == 0) {
        end_context(device);
    }
    return call.result;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    CALL("cuCtxGetCurrent", NEEDS_INIT);
    *context = current_context();
    return call.result;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    CALL("cuCtxPushCurrent_v2", NEEDS_INIT);
    if (!context || !context->retained) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (pushed_count == MOST_PUSHED) {
        standin_fault("contexts are pushed and never popped");
    }
    pushed[pushed_count++] = context;
    return call.result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    CALL("cuCtxPopCurrent_v2", NEEDS_INIT | RELEASES);
    if (!pushed_count) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    struct CUctx_st *popped = pushed[--pushed_count];
    if (context) {
        *context = popped;
    }
    return call.result;
}

CUresult cuCtxSynchronize(void)
{
    CALL("cuCtxSynchronize", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE);
    struct CUctx_st *context = current_context();
    run_everything(context->device);
    return context->lost;
}

/* ---- Modules -------------------------------------------------------------------------------- */

/* An image of the tests' catalogue is this text: see standin.cmake. */
static const char image_form[] = "stand-in image of %63s for %d";

CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CALL("cuModuleLoadData", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE);
    char name[64];
    int arch;
    if (!module || !image) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (sscanf(image, image_form, name, &arch) != 2) {
        return CUDA_ERROR_INVALID_IMAGE;
    }
    if (arch > standin.capability) {
        return CUDA_ERROR_NO_BINARY_FOR_GPU;
    }
    const struct cpu_kernel *kernel = cpu_kernel_find(name);
    if (!kernel) {
        standin_fault("the kernel %s cannot run on the CPU", name);
    }
    struct CUmod_st *made = malloc(sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct CUmod_st){modules, {kernel, made, DEFAULT_SHARED_BYTES}, current_context()->device};
    modules = made;
    *module = made;
    return call.result;
}

CUresult cuModuleUnload(CUmodule module)
{
    CALL("cuModuleUnload", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE | RELEASES);
    if (waits_for_module(module)) {
        standin_fault("a module is unloaded while its kernel has still to run");
    }
    for (struct CUmod_st **link = &modules; *link; link = &(*link)->next) {
        if (*link == module) {
            *link = module->next;
            free(module);
            return call.result;
        }
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    CALL("cuModuleGetFunction", NEEDS_CONTEXT);
    if (strcmp(name, module->function.kernel->name)) {
        return CUDA_ERROR_NOT_FOUND;
    }
    *function = &module->function;
    return call.result;
}

bool is_function(const struct CUfunc_st *function)
{
    for (const struct CUmod_st *at = modules; at; at = at->next) {
        if (&at->function == function) {
            return true;
        }
    }
    return false;
}

static int static_shared(const struct CUfunc_st *function)
{
    return (int)(function->kernel->shared_end - function->kernel->shared_begin);
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value)
{
    CALL("cuFuncSetAttribute", NEEDS_CONTEXT);
    if (!is_function(function)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES || value < 0 ||
        value > OPTIN_SHARED_BYTES) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    function->dynamic_shared_limit = value;
    return call.result;
}

CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction function)
{
    CALL("cuFuncGetAttribute", NEEDS_CONTEXT);
    if (!is_function(function)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = function->kernel->threads;
        return call.result;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = static_shared(function);
        return call.result;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = 0;
        return call.result;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
        *value = 64;
        return call.result;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = standin.capability;
        return call.result;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value = function->dynamic_shared_limit;
        return call.result;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function, int threads,
                                                     size_t shared_bytes)
{
    CALL("cuOccupancyMaxActiveBlocksPerMultiprocessor", NEEDS_CONTEXT);
    if (!is_function(function) || threads < 1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t each = shared_bytes + (size_t)static_shared(function) + 1024;
    int by_shared = (int)(233472 / each);
    int by_threads = 2048 / threads;
    *blocks = by_shared < by_threads ? by_shared : by_threads;
    return call.result;
}
