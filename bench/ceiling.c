/* ceiling.c - measures a device's limits. */
#include "ceiling.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../kernels/common/arguments.h"
#include "cuda/cuda.h"
#include "statistics.h"
#include "status.h"

static struct ceiling *add(struct ceilings *ceilings, const char *name, const char *unit)
{
    if (ceilings->count == MOST_CEILINGS) {
        return NULL;
    }
    struct ceiling *ceiling = &ceilings->items[ceilings->count++];
    *ceiling = (struct ceiling){0};
    snprintf(ceiling->name, sizeof(ceiling->name), "%s", name);
    snprintf(ceiling->unit, sizeof(ceiling->unit), "%s", unit);
    return ceiling;
}

struct buffers {
    void *from;
    void *to;
    size_t bytes; /* of each */
};

/* One way of keeping the device busy, and what a call of it is worth. */
struct load {
    struct place *place;
    const struct kernel *row; /* NULL: a copy by the driver */
    uint32_t blocks;
    ceiling_arguments arguments;
    void *to;
    const void *from;
    size_t bytes;
    double worth; /* operations or bytes of one call */
};

static carat_status run_load(void *context, int i)
{
    (void)i;
    struct load *load = context;
    if (!load->row) {
        return carat_copy(load->place->context, load->to, load->from, load->bytes, load->place->stream);
    }
    return cuda_launch(load->place->device, load->row, load->blocks, &load->arguments,
                       sizeof(load->arguments), load->place->stream);
}

/*
 * Keeps the device busy for `seconds` in regions of about a twentieth of that, and takes the median rate of
 * the regions in the second half, when clocks and power have settled.
 */
static carat_status sustained_rate(struct timer *timer, struct load *load, double seconds,
                                   struct ceiling *ceiling)
{
    enum { MOST_REGIONS = 200, MOST_CALLS = 1000000 };
    double times[MOST_REGIONS];
    struct reading reading = {0};
    double one = 0;
    CARAT_TRY(timer_region(timer, run_load, load, 1, &one, NULL)); /* loads the kernel */
    CARAT_TRY(timer_region(timer, run_load, load, 1, &one, NULL));
    int calls = 1 + (int)fmin(seconds / 20 / fmax(one, 1e-7), MOST_CALLS);
    int count = 0;
    double spent = 0;
    while (count < 3 || (spent < seconds && count < MOST_REGIONS)) {
        CARAT_TRY(timer_region(timer, run_load, load, calls, &times[count], &reading));
        spent += times[count++];
    }
    int settled = count / 2;
    ceiling->value = load->worth * calls / median(times + settled, count - settled) * 1e-12;
    ceiling->sm_clock_mhz = reading.sm_clock_mhz;
    ceiling->power_w = reading.power_w;
    return CARAT_OK;
}

/* An instruction loop's rounds are doubled until a launch takes some 20 ms: filling operands is nothing to that. */
static carat_status measure_instructions(struct timer *timer, struct load *load,
                                         const struct buffers *buffers, double seconds,
                                         struct ceiling *ceiling)
{
    const struct kernel *row = load->row;
    int blocks = timer->place->info.multiprocessors * (row->min_blocks > 0 ? row->min_blocks : 1);
    double threads = (double)blocks * kernel_threads(row);
    if (threads * 8 > (double)buffers->bytes) {
        return fail(CARAT_INVALID_ARGUMENT, "buffers of %zu bytes are too small for the ceilings",
                    buffers->bytes);
    }
    load->blocks = (uint32_t)blocks;
    load->arguments = (ceiling_arguments){.from = buffers->from, .to = buffers->to, .count = 16};
    double goal = seconds < 0.4 ? seconds / 20 : 20e-3;
    for (;;) {
        double one = 0;
        CARAT_TRY(timer_region(timer, run_load, load, 1, &one, NULL));
        if (one >= goal) {
            break;
        }
        load->arguments.count *= 2;
    }
    load->worth = threads * (double)load->arguments.count * row->ops_per_round;
    return sustained_rate(timer, load, seconds, ceiling);
}

static carat_status measure_traffic(struct timer *timer, struct load *load, const struct buffers *buffers,
                                    double seconds, struct ceiling *ceiling)
{
    const struct kernel *row = load->row;
    int64_t count = (int64_t)(buffers->bytes / (size_t)row->element_bytes);
    int64_t blocks = row->tile_m ? (count + row->tile_m - 1) / row->tile_m
                                 : (int64_t)timer->place->info.multiprocessors * row->min_blocks;
    load->blocks = (uint32_t)blocks;
    load->arguments = (ceiling_arguments){.from = buffers->from, .to = buffers->to, .count = count};
    load->worth = (double)count * row->ops_per_round;
    CARAT_TRY(sustained_rate(timer, load, seconds, ceiling));
    ceiling->value *= 1e3; /* GB/s */
    return CARAT_OK;
}

static carat_status measure_row(struct timer *timer, const struct kernel *row, const struct buffers *buffers,
                                double seconds, struct ceilings *ceilings)
{
    bool traffic = row->element_bytes > 0;
    bool integers = row->element == ELEMENT_S32 || row->element == ELEMENT_S8;
    struct ceiling *ceiling = add(ceilings, row->name, traffic ? "GB/s" : integers ? "TOP/s" : "TFLOP/s");
    if (!ceiling) {
        return fail(CARAT_INVALID_ARGUMENT, "more than %d ceilings", MOST_CEILINGS);
    }
    if (cuda_kernel_check(timer->place->device, row) != CARAT_OK) {
        snprintf(ceiling->reason, sizeof(ceiling->reason), "%.*s", (int)sizeof(ceiling->reason) - 1,
                 carat_last_message());
        return CARAT_OK;
    }
    struct load load = {.place = timer->place, .row = row};
    return traffic ? measure_traffic(timer, &load, buffers, seconds, ceiling)
                   : measure_instructions(timer, &load, buffers, seconds, ceiling);
}

/* How often a stream of the smallest launches goes through: one block of an instruction loop of no rounds. */
static carat_status measure_launch(struct timer *timer, const struct buffers *buffers,
                                   struct ceilings *ceilings)
{
    const struct kernel *row = NULL;
    for (int i = 0; i < carat_catalog_count && !row; i++) {
        const struct kernel *candidate = &carat_catalog[i];
        if (candidate->operation == OPERATION_CEILING && candidate->element_bytes == 0 &&
            cuda_kernel_check(timer->place->device, candidate) == CARAT_OK) {
            row = candidate;
        }
    }
    struct ceiling *ceiling = add(ceilings, "launch", "us");
    if (!row || !ceiling) {
        return CARAT_OK;
    }
    struct load load = {
        .place = timer->place, .row = row, .blocks = 1, .arguments = {.to = buffers->to, .count = 0}};
    double times[7];
    double warm = 0;
    CARAT_TRY(timer_region(timer, run_load, &load, 200, &warm, NULL));
    for (int i = 0; i < 7; i++) {
        CARAT_TRY(timer_region(timer, run_load, &load, 200, &times[i], NULL));
    }
    ceiling->value = median(times, 7) / 200 * 1e6;
    return CARAT_OK;
}

static carat_status measure_copy(struct timer *timer, const char *name, void *to, const void *from,
                                 size_t bytes, double moved, double seconds, struct ceilings *ceilings)
{
    struct ceiling *ceiling = add(ceilings, name, "GB/s");
    if (!ceiling) {
        return CARAT_OK;
    }
    struct load load = {.place = timer->place, .to = to, .from = from, .bytes = bytes, .worth = moved};
    CARAT_TRY(sustained_rate(timer, &load, seconds, ceiling));
    ceiling->value *= 1e3;
    return CARAT_OK;
}

static carat_status measure_links(struct timer *timer, const struct buffers *buffers, double seconds,
                                  struct ceilings *ceilings)
{
    size_t bytes = buffers->bytes < ((size_t)256 << 20) ? buffers->bytes : (size_t)256 << 20;
    double moved = (double)bytes;
    void *pinned = NULL;
    CARAT_TRY(carat_allocate(timer->place->context, CARAT_MEMORY_PINNED, bytes, &pinned));
    void *pageable = malloc(bytes);
    carat_status status =
        pageable ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %zu bytes", bytes);
    if (status == CARAT_OK) {
        memset(pinned, 1, bytes);
        memset(pageable, 1, bytes);
        const struct {
            const char *name;
            void *to;
            const void *from;
        } copies[] = {
            {"host_to_device", buffers->to, pinned},
            {"device_to_host", pinned, buffers->from},
            {"host_to_device_pageable", buffers->to, pageable},
            {"device_to_host_pageable", pageable, buffers->from},
        };
        for (int i = 0; i < 4 && status == CARAT_OK; i++) {
            status = measure_copy(timer, copies[i].name, copies[i].to, copies[i].from, bytes, moved, seconds,
                                  ceilings);
        }
    }
    free(pageable);
    carat_status released = carat_release(timer->place->context, pinned);
    return status == CARAT_OK ? released : status;
}

static carat_status measure_all(struct timer *timer, const struct buffers *buffers, double seconds,
                                struct ceilings *ceilings)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        if (carat_catalog[i].operation == OPERATION_CEILING) {
            CARAT_TRY(measure_row(timer, &carat_catalog[i], buffers, seconds, ceilings));
        }
    }
    CARAT_TRY(measure_copy(timer, "driver_copy", buffers->to, buffers->from, buffers->bytes,
                           2.0 * (double)buffers->bytes, seconds, ceilings));
    CARAT_TRY(measure_launch(timer, buffers, ceilings));
    return measure_links(timer, buffers, seconds / 2, ceilings);
}

carat_status ceilings_measure(struct timer *timer, double seconds, size_t bytes, struct ceilings *ceilings)
{
    struct place *place = timer->place;
    ceilings->count = 0;
    if (bytes == 0) {
        bytes = (size_t)place->info.memory_bytes / 16;
        bytes = bytes < ((size_t)1 << 30) ? bytes & ~(size_t)255 : (size_t)1 << 30;
    }
    struct buffers buffers = {.bytes = bytes};
    carat_status status = carat_allocate(place->context, CARAT_MEMORY_DEVICE, bytes, &buffers.from);
    if (status == CARAT_OK) {
        status = carat_allocate(place->context, CARAT_MEMORY_DEVICE, bytes, &buffers.to);
    }
    if (status == CARAT_OK) {
        status = place_memset(place, buffers.from, 0x5a, bytes);
    }
    if (status == CARAT_OK) {
        status = measure_all(timer, &buffers, seconds, ceilings);
    }
    carat_release(place->context, buffers.from);
    carat_release(place->context, buffers.to);
    return status;
}

static const struct ceiling *find(const struct ceilings *ceilings, const char *name)
{
    for (int i = 0; i < ceilings->count; i++) {
        if (strcmp(ceilings->items[i].name, name) == 0 && ceilings->items[i].value > 0) {
            return &ceilings->items[i];
        }
    }
    return NULL;
}

double ceilings_value(const struct ceilings *ceilings, const char *name)
{
    const struct ceiling *ceiling = find(ceilings, name);
    return ceiling ? ceiling->value : 0;
}

/* The faster of two, either of which may be NULL. */
static const struct ceiling *faster(const struct ceiling *x, const struct ceiling *y)
{
    return !x || (y && y->value > x->value) ? y : x;
}

/* The units that can do a type's products, by the names of their ceilings. */
struct units {
    carat_type type;
    const char *names[4];
};

static const struct units units_of_types[] = {
    {CARAT_F32, {"ceiling_ffma"}},
    {CARAT_F64, {"ceiling_dmma", "ceiling_dfma"}},
    {CARAT_F16, {"ceiling_wgmma_f16", "ceiling_mma_f16", "ceiling_ffma"}},
    {CARAT_BF16, {"ceiling_wgmma_bf16", "ceiling_mma_bf16", "ceiling_ffma"}},
    {CARAT_S32, {"ceiling_imad"}},
    {CARAT_S8, {"ceiling_wgmma_s8", "ceiling_mma_s8", "ceiling_dp4a"}},
    /* Every 8-bit float is one of 16 bits too. */
    {CARAT_E4M3, {"ceiling_wgmma_e4m3", "ceiling_wgmma_f16", "ceiling_mma_f16", "ceiling_ffma"}},
    {CARAT_E5M2, {"ceiling_wgmma_e4m3", "ceiling_wgmma_f16", "ceiling_mma_f16", "ceiling_ffma"}},
};
static const struct units units_of_tf32 = {CARAT_F32,
                                           {"ceiling_wgmma_tf32", "ceiling_mma_tf32", "ceiling_ffma"}};

static const struct ceiling *fastest_unit(const struct ceilings *ceilings, const struct units *units)
{
    const struct ceiling *best = NULL;
    for (int i = 0; i < 4 && units->names[i]; i++) {
        best = faster(best, find(ceilings, units->names[i]));
    }
    return best;
}

const struct ceiling *ceilings_of_type(const struct ceilings *ceilings, carat_type type)
{
    for (size_t i = 0; i < sizeof(units_of_types) / sizeof(units_of_types[0]); i++) {
        if (units_of_types[i].type == type) {
            return fastest_unit(ceilings, &units_of_types[i]);
        }
    }
    return NULL;
}

/* Products of bf16 planes that stand for one of f32, and of f16 planes. */
#define PLANE_PRODUCTS 6
#define CLOSE_PRODUCTS 3

/*
 * How many of a unit's products stand for one: f32 of standard accuracy may be multiplied as sums of bf16 planes, on
 * Hopper's tensor unit, and of close accuracy of f16 ones.
 */
static double products_of_unit(const carat_gemm_problem *problem, const struct ceiling *unit)
{
    bool tensor = problem->type_a == CARAT_F32 && unit;
    return tensor && strcmp(unit->name, "ceiling_wgmma_bf16") == 0  ? PLANE_PRODUCTS
           : tensor && strcmp(unit->name, "ceiling_wgmma_f16") == 0 ? CLOSE_PRODUCTS
                                                                    : 1;
}

const struct ceiling *ceilings_of_problem(const struct ceilings *ceilings, const carat_gemm_problem *problem)
{
    bool exact = problem->type_a == CARAT_S8 || problem->type_a == CARAT_S32;
    if (problem->accuracy == CARAT_ACCURACY_BEST && !exact) {
        return ceilings_of_type(ceilings, CARAT_F64); /* whose unit the sums are made by */
    }
    if (problem->type_a != CARAT_F32 || problem->accuracy == CARAT_ACCURACY_STRICT) {
        return ceilings_of_type(ceilings, problem->type_a);
    }
    if (problem->accuracy == CARAT_ACCURACY_FAST) {
        return fastest_unit(ceilings, &units_of_tf32);
    }
    const struct ceiling *unit = ceilings_of_type(ceilings, CARAT_F32);
    bool close = problem->accuracy == CARAT_ACCURACY_CLOSE;
    const struct ceiling *planes = find(ceilings, close ? "ceiling_wgmma_f16" : "ceiling_wgmma_bf16");
    double products = products_of_unit(problem, planes);
    return planes && unit && planes->value / products > unit->value ? planes : unit;
}

struct floor ceilings_floor(const struct ceilings *ceilings, const carat_gemm_problem *problem)
{
    if (!ceilings) {
        return (struct floor){0};
    }
    struct floor floor = {.unit = ceilings_of_problem(ceilings, problem)};
    const struct ceiling *memory = faster(find(ceilings, "ceiling_copy"), find(ceilings, "ceiling_read"));
    if (!floor.unit || !memory) {
        return (struct floor){0};
    }
    double traffic = workload_bytes(problem) / (memory->value * 1e9);
    double operations = workload_operations(problem) * products_of_unit(problem, floor.unit);
    floor.unit_seconds = operations / (floor.unit->value * 1e12);
    floor.seconds = floor.unit_seconds > traffic ? floor.unit_seconds : traffic;
    floor.bound = floor.unit_seconds > traffic ? floor.unit : memory;
    return floor;
}

json_t *ceilings_to_json(const struct ceilings *ceilings)
{
    json_t *list = json_array();
    for (int i = 0; i < ceilings->count; i++) {
        const struct ceiling *ceiling = &ceilings->items[i];
        json_t *item = json_pack("{s:s, s:s}", "name", ceiling->name, "unit", ceiling->unit);
        json_object_set_new(item, "value", ceiling->value > 0 ? json_real(ceiling->value) : json_null());
        json_object_set_new(item, "sm_clock_mhz",
                            ceiling->sm_clock_mhz > 0 ? json_real(ceiling->sm_clock_mhz) : json_null());
        json_object_set_new(item, "power_w",
                            ceiling->power_w > 0 ? json_real(ceiling->power_w) : json_null());
        if (ceiling->reason[0]) {
            json_object_set_new(item, "skipped", json_string(ceiling->reason));
        }
        json_array_append_new(list, item);
    }
    return list;
}

carat_status ceilings_read(const char *path, struct ceilings *ceilings)
{
    json_error_t error;
    json_t *root = json_load_file(path, 0, &error);
    json_t *list = json_object_get(root, "ceilings");
    ceilings->count = 0;
    if (!json_is_array(list)) {
        const char *text = root ? "it has no list of ceilings" : error.text;
        carat_status status = fail(CARAT_INVALID_ARGUMENT, "cannot read ceilings from %s: %s", path, text);
        json_decref(root);
        return status;
    }
    size_t i;
    json_t *item;
    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const char *unit = json_string_value(json_object_get(item, "unit"));
        struct ceiling *ceiling = name && unit ? add(ceilings, name, unit) : NULL;
        if (ceiling) {
            ceiling->value = json_number_value(json_object_get(item, "value"));
        }
    }
    json_decref(root);
    return CARAT_OK;
}
