/* host_set.c - making, keeping and freeing what host calls work with. */
#include "host_set.h"

#include <stdlib.h>

#include "status.h"

static carat_status make(struct cuda_device *device, struct host_set *set)
{
    CARAT_TRY(DRIVER(device, cuStreamCreate(&set->in, CU_STREAM_NON_BLOCKING)));
    CARAT_TRY(DRIVER(device, cuStreamCreate(&set->compute, CU_STREAM_NON_BLOCKING)));
    CARAT_TRY(DRIVER(device, cuStreamCreate(&set->out, CU_STREAM_NON_BLOCKING)));
    CARAT_TRY(DRIVER(device, cuEventCreate(&set->arrived, CU_EVENT_DISABLE_TIMING)));
    return DRIVER(device, cuEventCreate(&set->left, CU_EVENT_DISABLE_TIMING));
}

/* A set may be half made. Errors are not told: whoever frees cannot do more. */
static void destroy(struct host_set *set)
{
    CUstream streams[] = {set->in, set->compute, set->out};
    CUevent events[] = {set->arrived, set->left};
    for (int i = 0; i < 3; ++i) {
        if (streams[i]) {
            driver.cuStreamDestroy_v2(streams[i]);
        }
    }
    for (int i = 0; i < 2; ++i) {
        if (events[i]) {
            driver.cuEventDestroy_v2(events[i]);
        }
    }
    for (size_t i = 0; i < set->event_count; ++i) {
        driver.cuEventDestroy_v2(set->events[i]);
    }
    free(set->events);
    if (set->device_bytes) {
        driver.cuMemFree_v2(set->device_bytes);
    }
    if (set->pinned) {
        driver.cuMemFreeHost(set->pinned);
    }
    free(set);
}

carat_status host_set_take(struct cuda_device *device, struct host_set **taken)
{
    pthread_mutex_lock(&device->host_mutex);
    struct host_set *set = device->idle_sets;
    if (set) {
        device->idle_sets = set->next;
    }
    pthread_mutex_unlock(&device->host_mutex);
    *taken = set;
    if (set) {
        return CARAT_OK;
    }
    set = calloc(1, sizeof(*set));
    if (!set) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for a call on host matrices");
    }
    carat_status status = make(device, set);
    if (status != CARAT_OK) {
        destroy(set);
        return status;
    }
    *taken = set;
    return CARAT_OK;
}

void host_set_give(struct cuda_device *device, struct host_set *set)
{
    pthread_mutex_lock(&device->host_mutex);
    set->next = device->idle_sets;
    device->idle_sets = set;
    pthread_mutex_unlock(&device->host_mutex);
}

carat_status host_set_device_bytes(struct cuda_device *device, struct host_set *set, size_t bytes)
{
    if (set->device_size >= bytes) {
        return CARAT_OK;
    }
    set->device_size = 0;
    if (set->device_bytes) {
        CARAT_TRY(memory_free(device, set->device_bytes));
        set->device_bytes = 0;
    }
    CARAT_TRY(memory_allocate(device, bytes, &set->device_bytes));
    set->device_size = bytes;
    return CARAT_OK;
}

carat_status host_set_pinned_bytes(struct cuda_device *device, struct host_set *set, size_t bytes)
{
    if (set->pinned_size >= bytes) {
        return CARAT_OK;
    }
    set->pinned_size = 0;
    if (set->pinned) {
        CARAT_TRY(memory_free_pinned(device, set->pinned));
        set->pinned = NULL;
    }
    CARAT_TRY(memory_allocate_pinned(device, bytes, &set->pinned));
    set->pinned_size = bytes;
    return CARAT_OK;
}

carat_status host_set_events(struct cuda_device *device, struct host_set *set, size_t count)
{
    if (set->event_count >= count) {
        return CARAT_OK;
    }
    CUevent *events = realloc(set->events, count * sizeof(CUevent));
    if (!events) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for %zu events", count);
    }
    set->events = events;
    while (set->event_count < count) {
        /* Threads that wait for these sleep: they may wait as long as the whole product takes. */
        unsigned flags = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
        CARAT_TRY(DRIVER(device, cuEventCreate(&events[set->event_count], flags)));
        ++set->event_count;
    }
    return CARAT_OK;
}

carat_status host_set_wait(struct cuda_device *device, struct host_set *set)
{
    CARAT_TRY(DRIVER(device, cuStreamSynchronize(set->in)));
    CARAT_TRY(DRIVER(device, cuStreamSynchronize(set->compute)));
    return DRIVER(device, cuStreamSynchronize(set->out));
}

void host_set_settle(struct host_set *set)
{
    driver.cuStreamSynchronize(set->in);
    driver.cuStreamSynchronize(set->compute);
    driver.cuStreamSynchronize(set->out);
}

void host_sets_destroy(struct cuda_device *device)
{
    pthread_mutex_lock(&device->host_mutex);
    struct host_set *set = device->idle_sets;
    device->idle_sets = NULL;
    pthread_mutex_unlock(&device->host_mutex);
    while (set) {
        struct host_set *next = set->next;
        destroy(set);
        set = next;
    }
}
