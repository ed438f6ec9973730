/* context.c - contexts: choosing and making the device, and what is asked of the device alone. */
#include "context.h"

#include <stdlib.h>

#include "status.h"
#include "tuning.h"

struct device *carat_context_device(carat_context *context) { return context->device; }

static carat_status no_context(void) { return fail(CARAT_INVALID_ARGUMENT, "context is NULL"); }

/* The CUDA device if there is one, else the CPU; why there is none goes into the message of a refusal. */
static carat_status auto_device_create(int index, struct device **device)
{
    struct message before;
    message_keep(&before);
    carat_status status = cuda_device_create(index, device);
    if (status != CARAT_NO_DRIVER && status != CARAT_NO_DEVICE && status != CARAT_UNSUPPORTED) {
        return status;
    }
    if (index != 0 && status == CARAT_NO_DEVICE && cuda_device_count() > 0) {
        return status; /* the message says how many there are */
    }
    if (index != 0) {
        return fail(CARAT_NO_DEVICE, "index is %d, but without CUDA there is only device 0, the CPU (%s)",
                    index, carat_last_message());
    }
    return message_settle(cpu_device_create(index, device), &before);
}

static carat_status device_create(carat_device_kind kind, int index, struct device **device)
{
    *device = NULL;
    if (index < 0) {
        return fail(CARAT_NO_DEVICE, "index is %d, but devices are counted from 0", index);
    }
    switch ((int)kind) {
    case CARAT_DEVICE_AUTO:
        return auto_device_create(index, device);
    case CARAT_DEVICE_CPU:
        return cpu_device_create(index, device);
    case CARAT_DEVICE_CUDA:
        return cuda_device_create(index, device);
    default:
        return fail(CARAT_INVALID_ARGUMENT, "kind is %d, which is no carat_device_kind", (int)kind);
    }
}

carat_status carat_context_create(carat_device_kind kind, int index, carat_context **context)
{
    if (!context) {
        return no_context();
    }
    *context = NULL;
    struct device *device;
    CARAT_TRY(device_create(kind, index, &device));

    carat_context *created = malloc(sizeof(*created));
    struct plan_cache *plans = plan_cache_create();
    struct tuning_table *tuning = NULL;
    carat_status status =
        created && plans ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for a context");
    if (status == CARAT_OK && device->traits.kind == CARAT_DEVICE_CUDA) {
        struct message before; /* lines of a table that are no problem's are passed over, but say so */
        message_keep(&before);
        status = message_settle(tuning_open(&device->traits, &tuning), &before);
    }
    if (status != CARAT_OK) {
        free(created);
        plan_cache_destroy(plans);
        device->functions->destroy(device);
        return status;
    }
    tuning_apply(tuning, &device->traits);
    *created = (struct carat_context){.device = device, .plans = plans, .tuning = tuning};
    *context = created;
    return CARAT_OK;
}

void carat_context_destroy(carat_context *context)
{
    if (context) {
        plan_cache_destroy(context->plans);
        context->device->functions->destroy(context->device);
        tuning_close(context->tuning);
        free(context);
    }
}

int carat_device_count(carat_device_kind kind)
{
    switch ((int)kind) {
    case CARAT_DEVICE_AUTO: {
        int count = cuda_device_count();
        return count > 0 ? count : 1;
    }
    case CARAT_DEVICE_CPU:
        return 1;
    case CARAT_DEVICE_CUDA:
        return cuda_device_count();
    default:
        return 0;
    }
}

carat_status carat_device_query(carat_context *context, carat_device_info *info)
{
    if (!context) {
        return no_context();
    }
    if (!info) {
        return fail(CARAT_INVALID_ARGUMENT, "info is NULL");
    }
    return context->device->functions->query(context->device, info);
}

/* ---- Memory and streams ---- */

carat_status carat_allocate(carat_context *context, carat_memory memory, size_t bytes, void **pointer)
{
    if (!context) {
        return no_context();
    }
    if (!pointer) {
        return fail(CARAT_INVALID_ARGUMENT, "pointer is NULL");
    }
    *pointer = NULL;
    if ((int)memory != CARAT_MEMORY_DEVICE && (int)memory != CARAT_MEMORY_PINNED) {
        return fail(CARAT_INVALID_ARGUMENT, "memory is %d, which is no carat_memory", (int)memory);
    }
    if (bytes == 0) {
        return CARAT_OK;
    }
    return context->device->functions->allocate(context->device, memory, bytes, pointer);
}

carat_status carat_release(carat_context *context, void *pointer)
{
    if (!context) {
        return no_context();
    }
    return pointer ? context->device->functions->release(context->device, pointer) : CARAT_OK;
}

carat_status carat_copy(carat_context *context, void *to, const void *from, size_t bytes, void *stream)
{
    if (!context) {
        return no_context();
    }
    if (bytes == 0) {
        return CARAT_OK;
    }
    if (!to || !from) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is NULL, but there are %zu bytes to copy", to ? "from" : "to",
                    bytes);
    }
    return context->device->functions->copy(context->device, to, from, bytes, stream);
}

carat_status carat_stream_create(carat_context *context, void **stream)
{
    if (!context) {
        return no_context();
    }
    if (!stream) {
        return fail(CARAT_INVALID_ARGUMENT, "stream is NULL");
    }
    *stream = NULL;
    return context->device->functions->stream_create(context->device, stream);
}

carat_status carat_stream_destroy(carat_context *context, void *stream)
{
    if (!context) {
        return no_context();
    }
    return stream ? context->device->functions->stream_destroy(context->device, stream) : CARAT_OK;
}

carat_status carat_count_safe(carat_context *context, uint64_t *elements)
{
    if (!context) {
        return no_context();
    }
    if (!elements) {
        return fail(CARAT_INVALID_ARGUMENT, "elements is NULL");
    }
    return context->device->functions->count_safe(context->device, elements);
}

carat_status carat_synchronize(carat_context *context, void *stream)
{
    if (!context) {
        return no_context();
    }
    return context->device->functions->synchronize(context->device, stream);
}
