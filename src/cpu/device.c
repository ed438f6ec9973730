/* device.c - the CPU as a device: host memory, no streams, every call complete on return. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../status.h"
#include "cpu.h"

static void destroy(struct device *device) { free(device); }

/* The value of the first line "key : value" of a file of /proc; false where there is none. */
static bool proc_value(const char *path, const char *key, char *value, size_t size)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return false;
    }
    bool found = false;
    char line[512];
    while (!found && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, key, strlen(key)) == 0) {
            colon += 1 + strspn(colon + 1, " \t");
            colon[strcspn(colon, "\n")] = '\0';
            snprintf(value, size, "%s", colon);
            found = true;
        }
    }
    fclose(file);
    return found;
}

static carat_status query(struct device *device, carat_device_info *info)
{
    *info = (carat_device_info){.kind = CARAT_DEVICE_CPU};
    if (!proc_value("/proc/cpuinfo", "model name", info->name, sizeof(info->name))) {
        snprintf(info->name, sizeof(info->name), "CPU");
    }
    char available[64];
    if (proc_value("/proc/meminfo", "MemAvailable", available, sizeof(available))) {
        info->memory_free_bytes = strtoll(available, NULL, 10) * 1024;
    }
    info->multiprocessors = device->traits.multiprocessors;
    info->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
#ifdef _SC_LEVEL2_CACHE_SIZE
    long l2_bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
    info->l2_bytes = l2_bytes > 0 ? l2_bytes : 0;
#endif
    return CARAT_OK;
}

static carat_status allocate(struct device *device, carat_memory memory, size_t bytes, void **pointer)
{
    (void)device;
    (void)memory; /* all memory is the device's own */
    if (posix_memalign(pointer, 256, bytes) != 0) {
        *pointer = NULL;
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for %zu bytes", bytes);
    }
    return CARAT_OK;
}

static carat_status release(struct device *device, void *pointer)
{
    (void)device;
    free(pointer);
    return CARAT_OK;
}

static carat_status copy(struct device *device, void *to, const void *from, size_t bytes, void *stream)
{
    (void)device;
    (void)stream;
    memcpy(to, from, bytes);
    return CARAT_OK;
}

static carat_status stream_create(struct device *device, void **stream)
{
    (void)device;
    *stream = NULL;
    return CARAT_OK;
}

/* Streams of the CPU are NULL, and their work is done when it is given. */
static carat_status nothing_on_stream(struct device *device, void *stream)
{
    (void)device;
    (void)stream;
    return CARAT_OK;
}

static carat_status prepare(struct device *device, const struct plan *plan)
{
    (void)device;
    (void)plan;
    return CARAT_OK;
}

static carat_status gemm(struct device *device, const struct plan *plan, const struct operands *operands,
                         const carat_run *run)
{
    (void)device;
    (void)run;
    return cpu_gemm(&plan->problem, operands);
}

static carat_status scale_add(struct device *device, const struct elementwise *work, const carat_run *run)
{
    (void)device;
    (void)run;
    cpu_scale_add(work);
    return CARAT_OK;
}

static carat_status transpose(struct device *device, const struct elementwise *work, const carat_run *run)
{
    (void)device;
    (void)run;
    cpu_transpose(work);
    return CARAT_OK;
}

static carat_status count_safe(struct device *base, uint64_t *elements)
{
    (void)base;
    *elements = 0;
    return CARAT_OK;
}

static const struct device_functions functions = {
    .name = "CPU",
    .destroy = destroy,
    .query = query,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .stream_create = stream_create,
    .stream_destroy = nothing_on_stream,
    .synchronize = nothing_on_stream,
    .prepare = prepare,
    .count_safe = count_safe,
    .gemm = gemm,
    .scale_add = scale_add,
    .transpose = transpose,
};

carat_status cpu_device_create(int index, struct device **device)
{
    *device = NULL;
    if (index != 0) {
        return fail(CARAT_NO_DEVICE, "index is %d, but the CPU is only device 0", index);
    }
    struct device *created = calloc(1, sizeof(*created));
    if (!created) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for a device");
    }
    created->functions = &functions;
    created->traits.kind = CARAT_DEVICE_CPU;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    created->traits.multiprocessors = cores > 0 ? (int)cores : 1;
    *device = created;
    return CARAT_OK;
}
