/*
 * streams.c - the stand-in's streams, events and graphs. An operation waits in its stream until
 * something forces it, and then only what it depends on has to run before it:
 *
 *     stream 1:  [copy] [kernel] [event e]             forced: the end of stream 2
 *     stream 2:           [wait e] [copy] [kernel]     so stream 1 runs up to e, and perhaps further
 *
 * The legacy default stream (NULL) and the streams that do not opt out wait for each other. Capture
 * works on one stream; joining a second one to it is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sanitizer/asan_interface.h>

#include "internal.h"

/* "The first `count` operations of the stream have run." */
struct moment {
    struct CUstream_st *stream;
    uint64_t count;
};

enum operation_kind { KERNEL_LAUNCH, COPY, FILL, EVENT, WAIT };

struct operation {
    struct operation *next;
    enum operation_kind kind;
    struct moment *waits; /* besides the operations before it in its stream */
    int wait_count;

    struct CUfunc_st *function;
    struct cpu_launch launch;
    void *arguments;

    /* A rectangle from one place to another, or to fill. */
    unsigned char *to;
    const unsigned char *from;
    unsigned char *staged; /* what pageable memory held at the call, where that was read at once */
    size_t to_pitch;
    size_t from_pitch;
    size_t width;
    size_t height;
    unsigned char byte;

    struct CUevent_st *event;
};

struct CUgraph_st {
    struct CUgraph_st *next;
    int device;
    struct operation *operations;
};

struct CUgraphExec_st {
    struct CUgraphExec_st *next;
    int device;
    struct operation *operations;
};

enum capture { NO_CAPTURE, CAPTURE, SPOILED_CAPTURE };

/* Streams and events stay allocated when destroyed, since moments may refer to them. */
struct CUstream_st {
    struct CUstream_st *next;
    int device;
    unsigned long long id;
    bool blocking;
    bool destroyed;
    struct operation *first;
    struct operation *last;
    uint64_t issued;
    uint64_t completed;

    enum capture capture;
    CUstreamCaptureMode mode;
    const void *capturer; /* the thread */
    struct operation *captured;
};

struct CUevent_st {
    struct CUevent_st *next;
    int device;
    bool destroyed;
    bool timed;
    struct moment recorded; /* stream NULL: never */
    struct timespec time;
};

static struct CUstream_st default_streams[MOST_DEVICES];
static struct CUstream_st *streams;
static struct CUevent_st *events;
static struct CUgraph_st *graphs;
static struct CUgraphExec_st *executables;
static unsigned long long last_id = 1;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
static _Thread_local char this_thread;

static struct CUstream_st *default_stream(int device)
{
    struct CUstream_st *stream = &default_streams[device];
    if (!stream->id) {
        *stream = (struct CUstream_st){.next = streams, .device = device, .id = 1, .blocking = true};
        streams = stream;
    }
    return stream;
}

/* The stream a handle stands for; NULL where it stands for none. */
static struct CUstream_st *stream_of(CUstream handle)
{
    if (!handle || (uintptr_t)handle == 1) {
        return default_stream(current_context()->device);
    }
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (at == handle && !at->destroyed) {
            return at;
        }
    }
    return NULL;
}

static bool is_event(const struct CUevent_st *event)
{
    for (const struct CUevent_st *at = events; at; at = at->next) {
        if (at == event && !at->destroyed) {
            return true;
        }
    }
    return false;
}

/* ---- Running -------------------------------------------------------------------------------- */

static void free_operation(struct operation *operation)
{
    free(operation->waits);
    free(operation->arguments);
    free(operation->staged);
    free(operation);
}

static void free_operations(struct operation *list)
{
    while (list) {
        struct operation *next = list->next;
        free_operation(list);
        list = next;
    }
}

static void run_copy(const struct operation *operation)
{
    for (size_t row = 0; row < operation->height; ++row) {
        const unsigned char *from = operation->staged ? operation->staged + row * operation->width
                                                      : operation->from + row * operation->from_pitch;
        memcpy(operation->to + row * operation->to_pitch, from, operation->width);
    }
}

static void run_operation(struct CUstream_st *stream, struct operation *operation)
{
    struct CUctx_st *context = &contexts[stream->device];
    if (context->lost) {
        return; /* what waits on a lost device never happens */
    }
    arena_open();
    switch (operation->kind) {
    case KERNEL_LAUNCH:
        if (device_dies()) {
            context->lost = CUDA_ERROR_LAUNCH_FAILED;
        } else {
            operation->launch.seed = ((uint64_t)standin_draw(UINT32_MAX) << 32) + standin_draw(UINT32_MAX);
            cpu_run(operation->function->kernel, &operation->launch, operation->arguments);
        }
        break;
    case COPY:
        run_copy(operation);
        break;
    case FILL:
        memset(operation->to, operation->byte, operation->width);
        break;
    case EVENT:
        clock_gettime(CLOCK_MONOTONIC, &operation->event->time);
        break;
    case WAIT:
        break;
    }
    arena_close();
}

static bool has_come(const struct moment *moment) { return moment->stream->completed >= moment->count; }

/* A stream whose next operation can run, and which has to run before this one can go on: this or another. */
static struct CUstream_st *next_to_run(struct CUstream_st *stream)
{
    for (;;) {
        const struct operation *operation = stream->first;
        uint32_t open = 0;
        for (int i = 0; i < operation->wait_count; ++i) {
            open += !has_come(&operation->waits[i]);
        }
        if (!open) {
            return stream;
        }
        uint32_t chosen = standin_draw(open);
        for (int i = 0; i < operation->wait_count; ++i) {
            if (!has_come(&operation->waits[i]) && chosen-- == 0) {
                stream = operation->waits[i].stream;
                break;
            }
        }
    }
}

/* Any stream that waits, drawn. */
static struct CUstream_st *any_waiting(void)
{
    uint32_t count = 0;
    struct CUstream_st *chosen = NULL;
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (at->first && standin_draw(++count) == 0) {
            chosen = at;
        }
    }
    return chosen;
}

static void run_until(struct CUstream_st *stream, uint64_t count)
{
    while (stream->completed < count) {
        /* Now and then the hardware does what nobody waits for. */
        struct CUstream_st *runs = next_to_run(standin_draw(4) ? stream : any_waiting());
        struct operation *operation = runs->first;
        run_operation(runs, operation);
        runs->first = operation->next;
        ++runs->completed;
        free_operation(operation);
    }
}

static void run_stream(struct CUstream_st *stream) { run_until(stream, stream->issued); }

void run_everything(int device)
{
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (at->device == device) {
            run_stream(at);
        }
    }
}

bool waits_for_module(const struct CUmod_st *module)
{
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        /* What waits on a lost device never runs, and its modules may be gone. */
        const struct operation *first = contexts[at->device].lost ? NULL : at->first;
        for (const struct operation *operation = first; operation; operation = operation->next) {
            if (operation->kind == KERNEL_LAUNCH && operation->function->module == module) {
                return true;
            }
        }
    }
    return false;
}

static bool meets(const unsigned char *at, size_t pitch, const struct operation *operation,
                  const unsigned char *begin, const unsigned char *end)
{
    return at && at < end && at + (operation->height - 1) * pitch + operation->width > begin;
}

bool waits_for_memory(const unsigned char *begin, const unsigned char *end)
{
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        for (const struct operation *operation = at->first; operation; operation = operation->next) {
            if (operation->kind == COPY && !contexts[at->device].lost &&
                (meets(operation->to, operation->to_pitch, operation, begin, end) ||
                 (!operation->staged &&
                  meets(operation->from, operation->from_pitch, operation, begin, end)))) {
                return true;
            }
        }
    }
    return false;
}

int standin_waiting(void)
{
    int count = 0;
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        count += (int)(at->issued - at->completed);
    }
    return count;
}

/* ---- Putting work on streams ---------------------------------------------------------------- */

static CUresult wait_for(struct operation *operation, struct moment moment)
{
    struct moment *waits = realloc(operation->waits, (size_t)(operation->wait_count + 1) * sizeof *waits);
    if (!waits) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    operation->waits = waits;
    operation->waits[operation->wait_count++] = moment;
    return CUDA_SUCCESS;
}

/* The default stream waits for the blocking ones, and they for it. */
static CUresult wait_as_legacy(struct CUstream_st *stream, struct operation *operation)
{
    struct CUstream_st *legacy = default_stream(stream->device);
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (at != stream && at->device == stream->device && at->blocking && stream->blocking &&
            (at == legacy || stream == legacy) && at->issued > at->completed) {
            CUresult result = wait_for(operation, (struct moment){at, at->issued});
            if (result) {
                return result;
            }
        }
    }
    return CUDA_SUCCESS;
}

/* Whether the default stream would wait for a capture, which it cannot. */
static bool waits_for_capture(const struct CUstream_st *stream)
{
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        if (stream == default_stream(stream->device) && at->blocking && at->capture != NO_CAPTURE) {
            return true;
        }
    }
    return false;
}

/* Takes the operation over, whatever it returns. */
static CUresult put(struct CUstream_st *stream, struct operation *operation)
{
    if (stream->capture != NO_CAPTURE) {
        struct operation **link = &stream->captured;
        while (*link) {
            link = &(*link)->next;
        }
        *link = operation;
        return stream->capture == CAPTURE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    CUresult result = waits_for_capture(stream) ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS;
    if (result) {
        capture_spoil();
    } else {
        result = wait_as_legacy(stream, operation);
    }
    if (result) {
        free_operation(operation);
        return result;
    }
    if (stream->first) {
        stream->last->next = operation;
    } else {
        stream->first = operation;
    }
    stream->last = operation;
    ++stream->issued;
    return CUDA_SUCCESS;
}

static struct operation *make_operation(enum operation_kind kind)
{
    struct operation *made = calloc(1, sizeof *made);
    if (made) {
        made->kind = kind;
        made->height = 1;
    }
    return made;
}

/* ---- Copies --------------------------------------------------------------------------------- */

/* The bytes from a rectangle's first to past its last. */
static size_t span(size_t pitch, size_t width, size_t height) { return (height - 1) * pitch + width; }

static CUresult put_copy(struct CUstream_st *stream, struct operation *copy)
{
    enum place to = place_of(copy->to, span(copy->to_pitch, copy->width, copy->height));
    enum place from = place_of(copy->from, span(copy->from_pitch, copy->width, copy->height));
    if (to == NOWHERE || from == NOWHERE) {
        free_operation(copy);
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool capturing = stream->capture != NO_CAPTURE;
    if (from == PAGEABLE && !capturing && standin_draw(2)) {
        copy->staged = malloc(copy->width * copy->height);
        if (!copy->staged) {
            free_operation(copy);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        for (size_t row = 0; row < copy->height; ++row) {
            memcpy(copy->staged + row * copy->width, copy->from + row * copy->from_pitch, copy->width);
        }
    }
    CUresult result = put(stream, copy);
    if (!result && to == PAGEABLE && !capturing) {
        run_stream(stream);
        result = contexts[stream->device].lost;
    }
    return result;
}

CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle)
{
    CALL("cuMemcpyAsync", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!bytes) {
        return CUDA_SUCCESS;
    }
    struct operation *copy = make_operation(COPY);
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->to = (unsigned char *)(uintptr_t)to;
    copy->from = (const unsigned char *)(uintptr_t)from;
    copy->width = bytes;
    return put_copy(stream, copy);
}

/* One end of a 2-D copy; NULL where its kind of memory is not the pointer's. */
static const unsigned char *end_of_copy(CUmemorytype type, const void *host, CUdeviceptr device)
{
    const unsigned char *address = (const unsigned char *)(uintptr_t)device;
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        return place_of(host, 1) == DEVICE || place_of(host, 1) == NOWHERE ? NULL : host;
    case CU_MEMORYTYPE_DEVICE:
        return place_of(address, 1) == DEVICE ? address : NULL;
    case CU_MEMORYTYPE_UNIFIED:
        return address;
    default:
        return NULL;
    }
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copied, CUstream handle)
{
    CALL("cuMemcpy2DAsync_v2", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!copied->WidthInBytes || !copied->Height) {
        return CUDA_SUCCESS;
    }
    const unsigned char *from = end_of_copy(copied->srcMemoryType, copied->srcHost, copied->srcDevice);
    const unsigned char *to = end_of_copy(copied->dstMemoryType, copied->dstHost, copied->dstDevice);
    size_t width = copied->WidthInBytes;
    if (!from || !to || copied->srcPitch > MOST_PITCH || copied->dstPitch > MOST_PITCH ||
        copied->srcPitch < copied->srcXInBytes + width || copied->dstPitch < copied->dstXInBytes + width) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct operation *copy = make_operation(COPY);
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    copy->from = from + copied->srcY * copied->srcPitch + copied->srcXInBytes;
    copy->to = (unsigned char *)(uintptr_t)to + copied->dstY * copied->dstPitch + copied->dstXInBytes;
    copy->from_pitch = copied->srcPitch;
    copy->to_pitch = copied->dstPitch;
    copy->width = width;
    copy->height = copied->Height;
    return put_copy(stream, copy);
}

CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char byte, size_t bytes, CUstream handle)
{
    CALL("cuMemsetD8Async", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!bytes) {
        return CUDA_SUCCESS;
    }
    unsigned char *to = (unsigned char *)(uintptr_t)pointer;
    if (place_of(to, bytes) != DEVICE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct operation *fill = make_operation(FILL);
    if (!fill) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    fill->to = to;
    fill->width = bytes;
    fill->byte = byte;
    return put(stream, fill);
}

/* ---- Launches ------------------------------------------------------------------------------- */

/* Checks a launch and puts it on its stream. */
static CUresult put_launch(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    struct CUstream_st *stream = stream_of(config->hStream);
    if (!stream || !is_function(function)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!config->gridDimX || !config->gridDimY || !config->gridDimZ || config->gridDimX > MOST_GRID_X ||
        config->gridDimY > MOST_GRID_YZ || config->gridDimZ > MOST_GRID_YZ || !config->blockDimX ||
        !config->blockDimY || !config->blockDimZ || config->blockDimX > MOST_BLOCK_XY ||
        config->blockDimY > MOST_BLOCK_XY || config->blockDimZ > MOST_BLOCK_Z ||
        (int)config->sharedMemBytes > function->dynamic_shared_limit || !arguments || extra) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((uint64_t)config->blockDimX * config->blockDimY * config->blockDimZ >
        (uint64_t)function->kernel->threads) {
        return CUDA_ERROR_INVALID_VALUE; /* more than the kernel was built for */
    }
    struct operation *launch = make_operation(KERNEL_LAUNCH);
    size_t bytes = function->kernel->argument_bytes;
    void *copied = launch ? malloc(bytes) : NULL;
    if (!copied) {
        free(launch);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    launch->function = function;
    launch->launch = (struct cpu_launch){{config->gridDimX, config->gridDimY, config->gridDimZ},
                                         {config->blockDimX, config->blockDimY, config->blockDimZ},
                                         config->sharedMemBytes,
                                         0};
    launch->arguments = memcpy(copied, arguments[0], bytes);
    return put(stream, launch);
}

/* Kernels run one after the other here, so one that may start early starts when it must have. */
CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    CALL("cuLaunchKernelEx", NEEDS_CONTEXT);
    if (!config || (config->numAttrs > 0 && !config->attrs)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < config->numAttrs; ++i) {
        if (config->attrs[i].id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return put_launch(config, function, arguments, extra);
}

/* What the driver demands of a map; no kernel here reads one. */
CUresult cuTensorMapEncodeTiled(void *map, CUtensorMapDataType type, unsigned rank, void *address,
                                const unsigned long long *lengths, const unsigned long long *strides,
                                const unsigned *box, const unsigned *element_strides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill)
{
    CALL("cuTensorMapEncodeTiled", NEEDS_CONTEXT);
    (void)type;
    (void)interleave;
    (void)swizzle;
    (void)promotion;
    (void)fill;
    if (!map || (uintptr_t)map % 64 || rank < 3 || rank > 5 || (uintptr_t)address % 16 || !address) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < rank; ++i) {
        bool stride_wrong = i + 1 < rank && (strides[i] % 16 || !strides[i] || strides[i] >= 1ull << 40);
        if (!lengths[i] || lengths[i] > 1ull << 32 || stride_wrong || !box[i] || box[i] > 256 ||
            element_strides[i] != 1) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return call.result;
}

CUresult cuTensorMapReplaceAddress(void *map, void *address)
{
    CALL("cuTensorMapReplaceAddress", NEEDS_CONTEXT);
    if (!map || (uintptr_t)map % 64 || (uintptr_t)address % 16 || !address) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return call.result;
}

/* ---- Streams -------------------------------------------------------------------------------- */

CUresult cuStreamCreate(CUstream *handle, unsigned flags)
{
    CALL("cuStreamCreate", NEEDS_CONTEXT);
    if (!handle || flags & ~CU_STREAM_NON_BLOCKING) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct CUstream_st *made = calloc(1, sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->device = current_context()->device;
    made->id = ++last_id;
    made->blocking = !(flags & CU_STREAM_NON_BLOCKING);
    made->next = streams;
    streams = made;
    *handle = made;
    return call.result;
}

CUresult cuStreamDestroy_v2(CUstream handle)
{
    CALL("cuStreamDestroy_v2", NEEDS_CONTEXT | RELEASES);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream || stream->id == 1) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    /* Its work runs later all the same. */
    stream->destroyed = true;
    free_operations(stream->captured);
    stream->captured = NULL;
    stream->capture = NO_CAPTURE;
    return call.result;
}

CUresult cuStreamSynchronize(CUstream handle)
{
    CALL("cuStreamSynchronize", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (stream->capture != NO_CAPTURE) {
        stream->capture = SPOILED_CAPTURE;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (waits_for_capture(stream)) {
        capture_spoil();
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    run_stream(stream);
    /* The default stream's blocking companions are waited for as well. */
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (stream->id == 1 && at->blocking && at->device == stream->device) {
            run_stream(at);
        }
    }
    return contexts[stream->device].lost;
}

CUresult cuStreamGetId(CUstream handle, unsigned long long *id)
{
    CALL("cuStreamGetId", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    /* As a driver of 580 was seen to do: to ask spoils the capture. */
    if (stream->capture != NO_CAPTURE) {
        stream->capture = SPOILED_CAPTURE;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    *id = stream->id;
    return call.result;
}

/* ---- Events --------------------------------------------------------------------------------- */

CUresult cuEventCreate(CUevent *handle, unsigned flags)
{
    CALL("cuEventCreate", NEEDS_CONTEXT);
    if (!handle || flags & ~3u) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct CUevent_st *made = calloc(1, sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->device = current_context()->device;
    made->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    made->next = events;
    events = made;
    *handle = made;
    return call.result;
}

CUresult cuEventDestroy_v2(CUevent event)
{
    CALL("cuEventDestroy_v2", NEEDS_CONTEXT | RELEASES);
    if (!is_event(event)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    event->destroyed = true;
    return call.result;
}

CUresult cuEventRecord(CUevent event, CUstream handle)
{
    CALL("cuEventRecord", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream || !is_event(event)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    struct operation *record = make_operation(EVENT);
    if (!record) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    record->event = event;
    bool capturing = stream->capture != NO_CAPTURE;
    CUresult result = put(stream, record);
    if (!result && !capturing) {
        event->recorded = (struct moment){stream, stream->issued};
    }
    return result;
}

CUresult cuStreamWaitEvent(CUstream handle, CUevent event, unsigned flags)
{
    CALL("cuStreamWaitEvent", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream || !is_event(event)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (stream->capture != NO_CAPTURE) {
        stream->capture = SPOILED_CAPTURE;
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (!event->recorded.stream) {
        return call.result;
    }
    struct operation *wait = make_operation(WAIT);
    if (!wait || wait_for(wait, event->recorded)) {
        free(wait);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return put(stream, wait);
}

CUresult cuEventSynchronize(CUevent event)
{
    CALL("cuEventSynchronize", NEEDS_CONTEXT);
    if (!is_event(event)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (event->recorded.stream) {
        run_until(event->recorded.stream, event->recorded.count);
    }
    return current_context()->lost;
}

CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end)
{
    CALL("cuEventElapsedTime", NEEDS_CONTEXT);
    if (!is_event(begin) || !is_event(end) || !begin->timed || !end->timed || !begin->recorded.stream ||
        !end->recorded.stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!has_come(&begin->recorded) || !has_come(&end->recorded)) {
        return CUDA_ERROR_NOT_READY;
    }
    double seconds = (double)(end->time.tv_sec - begin->time.tv_sec) +
                     1e-9 * (double)(end->time.tv_nsec - begin->time.tv_nsec);
    *milliseconds = (float)(1e3 * seconds);
    return call.result;
}

/* ---- Capture -------------------------------------------------------------------------------- */

/* The rule of cuThreadExchangeStreamCaptureMode. */
static bool forbids(const struct CUstream_st *stream)
{
    if (stream->capture == NO_CAPTURE || stream->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
        thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return false;
    }
    return stream->capturer == &this_thread ||
           (thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL && stream->mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
}

bool capture_forbids(void)
{
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        if (forbids(at)) {
            return true;
        }
    }
    return false;
}

void capture_spoil(void)
{
    for (struct CUstream_st *at = streams; at; at = at->next) {
        at->capture = at->capture != NO_CAPTURE ? SPOILED_CAPTURE : NO_CAPTURE;
    }
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CALL("cuThreadExchangeStreamCaptureMode", NEEDS_INIT);
    CUstreamCaptureMode before = thread_mode;
    thread_mode = *mode;
    *mode = before;
    return call.result;
}

CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *status)
{
    CALL("cuStreamIsCapturing", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (waits_for_capture(stream)) {
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
    *status = stream->capture == CAPTURE           ? CU_STREAM_CAPTURE_STATUS_ACTIVE
              : stream->capture == SPOILED_CAPTURE ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                   : CU_STREAM_CAPTURE_STATUS_NONE;
    return call.result;
}

CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    CALL("cuStreamBeginCapture_v2", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (stream->id == 1) {
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    if (stream->capture != NO_CAPTURE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    stream->capture = CAPTURE;
    stream->mode = mode;
    stream->capturer = &this_thread;
    return call.result;
}

CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph)
{
    CALL("cuStreamEndCapture", NEEDS_CONTEXT | RELEASES);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (stream->capture == NO_CAPTURE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct CUgraph_st *made = malloc(sizeof *made);
    bool whole = stream->capture == CAPTURE && made && !call.result;
    if (whole) {
        *made = (struct CUgraph_st){graphs, stream->device, stream->captured};
        graphs = made;
    } else {
        free(made);
        free_operations(stream->captured);
    }
    *graph = whole ? made : NULL;
    CUresult spoiled =
        stream->capture == SPOILED_CAPTURE ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_ERROR_OUT_OF_MEMORY;
    stream->capture = NO_CAPTURE;
    stream->captured = NULL;
    return whole || call.result ? call.result : spoiled;
}

/* ---- Graphs --------------------------------------------------------------------------------- */

static struct operation *copy_operation(const struct operation *operation)
{
    struct operation *copied = malloc(sizeof *copied);
    if (!copied) {
        standin_fault("no memory for a graph");
    }
    *copied = *operation;
    copied->next = NULL;
    if (operation->kind == KERNEL_LAUNCH) {
        size_t bytes = operation->function->kernel->argument_bytes;
        copied->arguments = malloc(bytes);
        if (!copied->arguments) {
            standin_fault("no memory for a graph");
        }
        memcpy(copied->arguments, operation->arguments, bytes);
    }
    return copied;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph, unsigned long long flags)
{
    CALL("cuGraphInstantiateWithFlags", NEEDS_CONTEXT);
    if (!executable || !graph || flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct CUgraphExec_st *made = malloc(sizeof *made);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = (struct CUgraphExec_st){executables, current_context()->device, NULL};
    struct operation **link = &made->operations;
    for (const struct operation *at = graph->operations; at; at = at->next, link = &(*link)->next) {
        *link = copy_operation(at);
    }
    executables = made;
    *executable = made;
    return call.result;
}

CUresult cuGraphLaunch(CUgraphExec executable, CUstream handle)
{
    CALL("cuGraphLaunch", NEEDS_CONTEXT);
    struct CUstream_st *stream = stream_of(handle);
    if (!stream) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    for (const struct operation *at = executable->operations; at; at = at->next) {
        CUresult result = put(stream, copy_operation(at));
        if (result) {
            return result;
        }
    }
    return call.result;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CALL("cuGraphDestroy", NEEDS_CONTEXT | RELEASES);
    for (struct CUgraph_st **link = &graphs; *link; link = &(*link)->next) {
        if (*link == graph) {
            *link = graph->next;
            free_operations(graph->operations);
            free(graph);
            return call.result;
        }
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuGraphExecDestroy(CUgraphExec executable)
{
    CALL("cuGraphExecDestroy", NEEDS_CONTEXT | RELEASES);
    for (struct CUgraphExec_st **link = &executables; *link; link = &(*link)->next) {
        if (*link == executable) {
            *link = executable->next;
            free_operations(executable->operations);
            free(executable);
            return call.result;
        }
    }
    return CUDA_ERROR_INVALID_HANDLE;
}

/* ---- What is left --------------------------------------------------------------------------- */

int stream_leaks(void)
{
    int count = 0;
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        if (!at->destroyed && at->id != 1) {
            fprintf(stderr, "stand-in: a stream was not destroyed\n");
            ++count;
        }
    }
    for (const struct CUevent_st *at = events; at; at = at->next) {
        if (!at->destroyed) {
            fprintf(stderr, "stand-in: an event was not destroyed\n");
            ++count;
        }
    }
    for (const struct CUgraph_st *at = graphs; at; at = at->next, ++count) {
        fprintf(stderr, "stand-in: a graph was not destroyed\n");
    }
    for (const struct CUgraphExec_st *at = executables; at; at = at->next, ++count) {
        fprintf(stderr, "stand-in: an executable graph was not destroyed\n");
    }
    return count;
}

bool stream_exists(const void *thing)
{
    for (const struct CUgraphExec_st *at = executables; at; at = at->next) {
        if (at == thing) {
            return true;
        }
    }
    for (const struct CUstream_st *at = streams; at; at = at->next) {
        if (at == thing && !at->destroyed) {
            return true;
        }
    }
    return is_event(thing);
}

void streams_abandon(int device)
{
    for (struct CUstream_st *at = streams; at; at = at->next) {
        if (at->device == device && at->id != 1) {
            at->destroyed = true;
            at->capture = NO_CAPTURE;
            free_operations(at->captured);
            at->captured = NULL;
        }
    }
    for (struct CUevent_st *at = events; at; at = at->next) {
        at->destroyed |= at->device == device;
    }
    for (struct CUgraph_st **link = &graphs; *link;) {
        struct CUgraph_st *at = *link;
        if (at->device == device) {
            *link = at->next;
            free_operations(at->operations);
            free(at);
        } else {
            link = &at->next;
        }
    }
    for (struct CUgraphExec_st **link = &executables; *link;) {
        struct CUgraphExec_st *at = *link;
        if (at->device == device) {
            *link = at->next;
            free_operations(at->operations);
            free(at);
        } else {
            link = &at->next;
        }
    }
}
