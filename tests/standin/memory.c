/*
 * memory.c - the stand-in's memory. Device memory is one arena that is protected but while the driver
 * works, so host code that touches it crashes. Allocations lie apart, and what lies between them is
 * poisoned for the sanitized kernels. An address is used again only once the arena is used up.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sanitizer/asan_interface.h>

#include "internal.h"

#define ARENA_BYTES ((size_t)512 << 20)
#define GUARD_BYTES 1024
#define ALIGNMENT 256

struct allocation {
    struct allocation *next; /* of device memory: in the order of addresses */
    unsigned char *begin;
    size_t bytes;
    int device;
};

static unsigned char *arena;
static size_t arena_used; /* up to where it was ever in use */
static int arena_opened;
static struct allocation *on_device;
static struct allocation *pinned;
static size_t device_limit[MOST_DEVICES];
static size_t pinned_limit = SIZE_MAX;
static bool limits_set;

static void set_limits(size_t bytes)
{
    for (int i = 0; i < MOST_DEVICES; ++i) {
        device_limit[i] = bytes;
    }
    limits_set = true;
}

static size_t default_memory(void)
{
    const char *text = getenv("STANDIN_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : ARENA_BYTES / 2;
}

static size_t limit_of(int device)
{
    if (!limits_set) {
        set_limits(default_memory());
    }
    return device_limit[device];
}

void standin_set_memory(size_t bytes) { set_limits(bytes); }
void standin_set_pinned(size_t bytes) { pinned_limit = bytes; }

static size_t total(const struct allocation *list, int device)
{
    size_t bytes = 0;
    for (; list; list = list->next) {
        bytes += list->device == device ? list->bytes : 0;
    }
    return bytes;
}

/* ---- The arena ---- */

void arena_open(void)
{
    if (arena_opened++ == 0 && arena_used && mprotect(arena, arena_used, PROT_READ | PROT_WRITE)) {
        standin_fault("device memory cannot be opened");
    }
}

void arena_close(void)
{
    if (--arena_opened == 0 && arena_used && mprotect(arena, arena_used, PROT_NONE)) {
        standin_fault("device memory cannot be closed");
    }
}

static bool make_arena(void)
{
    if (!arena) {
        void *memory = mmap(NULL, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        arena = memory == MAP_FAILED ? NULL : memory;
    }
    return arena != NULL;
}

/* Grows what is in use of the arena, poisoned, in large steps. */
static void use_arena(size_t to)
{
    size_t step = (size_t)1 << 20;
    to = (to + step - 1) / step * step;
    to = to < ARENA_BYTES ? to : ARENA_BYTES;
    if (to > arena_used) {
        __asan_poison_memory_region(arena + arena_used, to - arena_used);
        arena_used = to;
    }
}

/* Room for bytes and guards on both sides: behind all others, or in the first gap. The list's place for it.
 */
static struct allocation **find_room(size_t bytes, size_t *offset)
{
    size_t room = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD_BYTES;
    struct allocation **gap = NULL;
    size_t gap_offset = 0;
    size_t end = GUARD_BYTES;
    struct allocation **link = &on_device;
    for (; *link; link = &(*link)->next) {
        size_t begin = (size_t)((*link)->begin - arena);
        if (!gap && end + room <= begin) {
            gap = link;
            gap_offset = end;
        }
        end = begin + ((*link)->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + GUARD_BYTES;
    }
    /* Never on a larger boundary than CUDA promises. */
    size_t fresh = end > arena_used ? end : arena_used;
    fresh += fresh % (2 * ALIGNMENT) ? 0 : ALIGNMENT;
    if (fresh + room <= ARENA_BYTES) {
        *offset = fresh;
        return link;
    }
    *offset = gap_offset;
    if (!gap && end + room <= ARENA_BYTES) {
        *offset = end;
        gap = link;
    }
    return gap;
}

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    CALL("cuMemAlloc_v2", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE);
    if (!pointer || !bytes) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    int device = current_context()->device;
    size_t limit = limit_of(device);
    size_t used = total(on_device, device);
    size_t offset = 0;
    if (bytes > limit || used > limit - bytes || !make_arena()) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    struct allocation **link = find_room(bytes, &offset);
    struct allocation *made = link ? malloc(sizeof *made) : NULL;
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    use_arena(offset + bytes + GUARD_BYTES);
    *made = (struct allocation){*link, arena + offset, bytes, device};
    *link = made;
    __asan_unpoison_memory_region(made->begin, bytes);
    arena_open();
    memset(made->begin, 0xff, bytes);
    arena_close();
    *pointer = (CUdeviceptr)(uintptr_t)made->begin;
    return call.result;
}

/* Gives the whole pages of what was freed back, since opening and closing the arena takes time for every page of it. */
static void give_pages_back(const struct allocation *freed)
{
    const uintptr_t page = 4096;
    uintptr_t begin = ((uintptr_t)freed->begin + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)freed->begin + freed->bytes) / page * page;
    if (begin < end && madvise((void *)begin, end - begin, MADV_DONTNEED)) {
        standin_fault("freed pages of device memory cannot be given back");
    }
}

/* Takes the allocation that begins at pointer out of the list; NULL where there is none. */
static struct allocation *take(struct allocation **list, const void *pointer)
{
    for (struct allocation **link = list; *link; link = &(*link)->next) {
        struct allocation *found = *link;
        if (found->begin == pointer) {
            *link = found->next;
            return found;
        }
    }
    return NULL;
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CALL("cuMemFree_v2", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE | RELEASES);
    if (!pointer) {
        return call.result;
    }
    /* A real driver waits as well before memory changes hands. */
    run_everything(current_context()->device);
    struct allocation *freed = take(&on_device, (const void *)(uintptr_t)pointer);
    if (!freed) {
        standin_fault("cuMemFree of %#llx, which is no allocation (any more)", pointer);
    }
    __asan_poison_memory_region(freed->begin, freed->bytes);
    give_pages_back(freed);
    free(freed);
    return call.result;
}

CUresult cuMemHostAlloc(void **pointer, size_t bytes, unsigned flags)
{
    CALL("cuMemHostAlloc", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE);
    if (!pointer || !bytes || flags & ~7u) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t used = 0;
    for (struct allocation *at = pinned; at; at = at->next) {
        used += at->bytes;
    }
    struct allocation *made = malloc(sizeof *made);
    void *memory = NULL;
    if (!made || bytes > pinned_limit || used > pinned_limit - bytes ||
        posix_memalign(&memory, 4096, bytes)) {
        free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(memory, 0xff, bytes);
    *made = (struct allocation){pinned, memory, bytes, current_context()->device};
    pinned = made;
    *pointer = memory;
    return call.result;
}

CUresult cuMemFreeHost(void *pointer)
{
    CALL("cuMemFreeHost", NEEDS_CONTEXT | FORBIDDEN_IN_CAPTURE | RELEASES);
    struct allocation *freed = take(&pinned, pointer);
    if (!freed) {
        standin_fault("cuMemFreeHost of %p, which is no allocation (any more)", pointer);
    }
    if (waits_for_memory(freed->begin, freed->begin + freed->bytes)) {
        standin_fault("cuMemFreeHost of %p, which a copy still has to use", pointer);
    }
    free(freed->begin);
    free(freed);
    return call.result;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
    CALL("cuMemGetInfo_v2", NEEDS_CONTEXT);
    int device = current_context()->device;
    size_t used = total(on_device, device);
    *total_bytes = limit_of(device);
    *free_bytes = *total_bytes > used ? *total_bytes - used : 0;
    return call.result;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    CALL("cuDeviceTotalMem_v2", NEEDS_INIT);
    if (device < 0 || device >= MOST_DEVICES) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *bytes = limit_of(device);
    return call.result;
}

/* ---- Where a pointer points ---- */

static const struct allocation *find(const struct allocation *list, const void *pointer)
{
    const unsigned char *at = pointer;
    while (list && !(at >= list->begin && at < list->begin + list->bytes)) {
        list = list->next;
    }
    return list;
}

enum place place_of(const void *pointer, size_t bytes)
{
    const unsigned char *at = pointer;
    const struct allocation *found = find(on_device, pointer);
    if (found) {
        return bytes <= (size_t)(found->begin + found->bytes - at) ? DEVICE : NOWHERE;
    }
    if (arena && at >= arena && at < arena + ARENA_BYTES) {
        return NOWHERE;
    }
    found = find(pinned, pointer);
    if (found) {
        return bytes <= (size_t)(found->begin + found->bytes - at) ? PINNED : NOWHERE;
    }
    return PAGEABLE;
}

int device_of(const void *pointer)
{
    const struct allocation *found = find(on_device, pointer);
    return found ? found->device : -1;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer)
{
    CALL("cuPointerGetAttributes", NEEDS_CONTEXT);
    const void *address = (const void *)(uintptr_t)pointer;
    const struct allocation *device = find(on_device, address);
    const struct allocation *host = find(pinned, address);
    for (unsigned i = 0; i < count; ++i) {
        switch (attributes[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(unsigned *)values[i] = device ? CU_MEMORYTYPE_DEVICE : host ? CU_MEMORYTYPE_HOST : 0;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)values[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)values[i] = device ? device->device : host ? host->device : 0;
            break;
        default:
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return call.result;
}

bool memory_exists(const void *pointer)
{
    const struct allocation *device = find(on_device, pointer);
    const struct allocation *host = find(pinned, pointer);
    return (device && device->begin == pointer) || (host && host->begin == pointer);
}

void memory_abandon(int device)
{
    for (struct allocation **link = &on_device; *link;) {
        struct allocation *at = *link;
        if (at->device == device) {
            __asan_poison_memory_region(at->begin, at->bytes);
            *link = at->next;
            free(at);
        } else {
            link = &at->next;
        }
    }
    for (struct allocation **link = &pinned; *link;) {
        struct allocation *at = *link;
        if (at->device == device) {
            *link = at->next;
            free(at->begin);
            free(at);
        } else {
            link = &at->next;
        }
    }
}

int memory_leaks(void)
{
    int count = 0;
    for (const struct allocation *at = on_device; at; at = at->next, ++count) {
        fprintf(stderr, "stand-in: %zu bytes of device memory were not freed\n", at->bytes);
    }
    for (const struct allocation *at = pinned; at; at = at->next, ++count) {
        fprintf(stderr, "stand-in: %zu bytes of pinned memory were not freed\n", at->bytes);
    }
    return count;
}
