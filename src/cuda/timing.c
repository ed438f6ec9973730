/* timing.c - events and graphs, for programs that measure. */
#include "device_cuda.h"

#include "status.h"

carat_status cuda_event_create(struct device *base, void **event)
{
    struct cuda_device *device = cuda_device_of(base);
    *event = NULL;
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    CUevent created = NULL;
    carat_status status = DRIVER(device, cuEventCreate(&created, CU_EVENT_DEFAULT));
    if (status == CARAT_OK) {
        *event = created;
    }
    device_leave(device, pushed);
    return status;
}

carat_status cuda_event_record(struct device *base, void *event, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuEventRecord(event, stream));
    device_leave(device, pushed);
    return status;
}

carat_status cuda_event_elapsed_ms(struct device *base, void *begin, void *end, float *milliseconds)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuEventSynchronize(end));
    if (status == CARAT_OK) {
        status = DRIVER(device, cuEventElapsedTime(milliseconds, begin, end));
    }
    device_leave(device, pushed);
    return status;
}

carat_status cuda_event_destroy(struct device *base, void *event)
{
    struct cuda_device *device = cuda_device_of(base);
    if (!event) {
        return CARAT_OK;
    }
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuEventDestroy_v2(event));
    device_leave(device, pushed);
    return status;
}

carat_status cuda_capture_begin(struct device *base, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status =
        DRIVER(device, cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    device_leave(device, pushed);
    return status;
}

static carat_status end_capture(struct cuda_device *device, CUstream stream, CUgraphExec *executable)
{
    CUgraph graph = NULL;
    CARAT_TRY(DRIVER(device, cuStreamEndCapture(stream, &graph)));
    carat_status status = DRIVER(device, cuGraphInstantiateWithFlags(executable, graph, 0));
    carat_status destroyed = DRIVER(device, cuGraphDestroy(graph));
    return status != CARAT_OK ? status : destroyed;
}

carat_status cuda_capture_end(struct device *base, void *stream, void **graph)
{
    struct cuda_device *device = cuda_device_of(base);
    *graph = NULL;
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    CUgraphExec executable = NULL;
    carat_status status = end_capture(device, stream, &executable);
    if (status == CARAT_OK) {
        *graph = executable;
    } else if (executable) {
        driver.cuGraphExecDestroy(executable);
    }
    device_leave(device, pushed);
    return status;
}

carat_status cuda_graph_launch(struct device *base, void *graph, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuGraphLaunch(graph, stream));
    device_leave(device, pushed);
    return status;
}

carat_status cuda_graph_destroy(struct device *base, void *graph)
{
    struct cuda_device *device = cuda_device_of(base);
    if (!graph) {
        return CARAT_OK;
    }
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = DRIVER(device, cuGraphExecDestroy(graph));
    device_leave(device, pushed);
    return status;
}
