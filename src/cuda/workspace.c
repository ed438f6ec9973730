/*
 * workspace.c - the pool of workspace: one buffer a stream, so that calls on different streams do not
 * share one and calls on the same stream use it one after another.
 */
#include "device_cuda.h"

#include <stdlib.h>

#include "status.h"

/*
 * Handles are reused by the driver and may mean one stream a thread; ids are not, and do not. But a stream
 * that is being captured does not tell its id, so captures go by the handle, kept apart from the ids.
 */
#define CAPTURED_HANDLE (1ULL << 63)

static carat_status stream_key(struct cuda_device *device, CUstream stream, bool capturing,
                               unsigned long long *key)
{
    if (capturing) {
        *key = CAPTURED_HANDLE | (unsigned long long)(uintptr_t)stream;
        return CARAT_OK;
    }
    return DRIVER(device, cuStreamGetId(stream, key));
}

static struct workspace *find(struct workspace_pool *pool, unsigned long long key)
{
    for (size_t i = 0; i < pool->count; ++i) {
        if (pool->entries[i].stream_key == key) {
            return &pool->entries[i];
        }
    }
    return NULL;
}

static carat_status add(struct workspace_pool *pool, unsigned long long key, struct workspace **added)
{
    struct workspace *entries = realloc(pool->entries, (pool->count + 1) * sizeof(*entries));
    if (!entries) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for one more stream's workspace");
    }
    pool->entries = entries;
    *added = &entries[pool->count++];
    **added = (struct workspace){.stream_key = key};
    return CARAT_OK;
}

static carat_status make_room_to_retire(struct workspace_pool *pool)
{
    CUdeviceptr *retired = realloc(pool->retired, (pool->retired_count + 1) * sizeof(*retired));
    if (!retired) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory to keep a captured workspace");
    }
    pool->retired = retired;
    return CARAT_OK;
}

static void forget_buffer(struct workspace *entry)
{
    *entry = (struct workspace){.stream_key = entry->stream_key, .refused = entry->refused};
}

/* Puts the buffer of an entry aside until the device ends, where there is room for it. */
static void retire(struct workspace_pool *pool, struct workspace *entry)
{
    pool->retired[pool->retired_count++] = entry->buffer;
    forget_buffer(entry);
}

/* Frees the buffer of an entry once the stream's work with it is done, or keeps it for its graphs. */
static carat_status empty(struct cuda_device *device, struct workspace *entry, CUstream stream,
                          bool capturing)
{
    if (!entry->buffer) {
        return CARAT_OK;
    }
    if (entry->captured || capturing) {
        CARAT_TRY(make_room_to_retire(&device->pool));
        retire(&device->pool, entry);
        return CARAT_OK;
    }
    CARAT_TRY(DRIVER(device, cuStreamSynchronize(stream)));
    CARAT_TRY(memory_free(device, entry->buffer));
    forget_buffer(entry);
    return CARAT_OK;
}

/* A buffer that is not free to go is put aside only once there is another: it may do for what comes next. */
static carat_status grow(struct cuda_device *device, struct workspace *entry, CUstream stream, bool capturing,
                         size_t bytes)
{
    if (entry->refused > 0 && bytes >= entry->refused) {
        return fail(CARAT_OUT_OF_DEVICE_MEMORY,
                    "%zu bytes are wanted of the pool, but there was no room for %zu on this stream before",
                    bytes, entry->refused);
    }
    bool keeps = entry->buffer && (entry->captured || capturing);
    CUdeviceptr buffer;
    CARAT_TRY(keeps ? make_room_to_retire(&device->pool) : empty(device, entry, stream, capturing));
    carat_status status = memory_allocate(device, bytes, &buffer);
    if (status != CARAT_OK) {
        entry->refused = status == CARAT_OUT_OF_DEVICE_MEMORY ? bytes : entry->refused;
        return status;
    }
    if (keeps) {
        retire(&device->pool, entry);
    }
    entry->buffer = buffer;
    entry->bytes = bytes;
    return CARAT_OK;
}

static carat_status workspace_locked(struct cuda_device *device, CUstream stream, size_t bytes,
                                     CUdeviceptr *workspace)
{
    struct workspace_pool *pool = &device->pool;
    unsigned long long key;
    bool capturing;
    CARAT_TRY(stream_is_capturing(device, stream, &capturing));
    CARAT_TRY(stream_key(device, stream, capturing, &key));
    struct workspace *entry = find(pool, key);
    if (!entry) {
        CARAT_TRY(add(pool, key, &entry));
    }
    if (entry->bytes < bytes) {
        CARAT_TRY(grow(device, entry, stream, capturing, bytes));
    }
    entry->captured |= capturing;
    *workspace = entry->buffer;
    return CARAT_OK;
}

carat_status workspace_of_stream(struct cuda_device *device, CUstream stream, size_t bytes,
                                 CUdeviceptr *workspace)
{
    pthread_mutex_lock(&device->pool.mutex);
    carat_status status = workspace_locked(device, stream, bytes, workspace);
    pthread_mutex_unlock(&device->pool.mutex);
    return status;
}

static void expect_room_locked(struct workspace_pool *pool)
{
    for (size_t i = 0; i < pool->count; ++i) {
        pool->entries[i].refused = 0;
    }
}

void workspace_expect_room(struct cuda_device *device)
{
    pthread_mutex_lock(&device->pool.mutex);
    expect_room_locked(&device->pool);
    pthread_mutex_unlock(&device->pool.mutex);
}

static carat_status drop_locked(struct cuda_device *device, CUstream stream)
{
    struct workspace_pool *pool = &device->pool;
    unsigned long long key;
    CARAT_TRY(stream_key(device, stream, false, &key));
    struct workspace *entry = find(pool, key);
    if (entry) {
        CARAT_TRY(empty(device, entry, stream, false));
        *entry = pool->entries[--pool->count];
    }
    /* Graphs that were captured on it live on, and another stream may be given its handle. */
    CARAT_TRY(stream_key(device, stream, true, &key));
    entry = find(pool, key);
    if (entry) {
        CARAT_TRY(empty(device, entry, stream, true));
        *entry = pool->entries[--pool->count];
    }
    return CARAT_OK;
}

carat_status workspace_drop(struct cuda_device *device, CUstream stream)
{
    pthread_mutex_lock(&device->pool.mutex);
    carat_status status = drop_locked(device, stream);
    expect_room_locked(&device->pool);
    pthread_mutex_unlock(&device->pool.mutex);
    return status;
}

void workspace_pool_destroy(struct workspace_pool *pool)
{
    for (size_t i = 0; i < pool->count; ++i) {
        if (pool->entries[i].buffer) {
            driver.cuMemFree_v2(pool->entries[i].buffer);
        }
    }
    for (size_t i = 0; i < pool->retired_count; ++i) {
        driver.cuMemFree_v2(pool->retired[i]);
    }
    free(pool->entries);
    free(pool->retired);
    pthread_mutex_destroy(&pool->mutex);
}
