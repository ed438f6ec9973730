/* info.c - carat info: every device, what it is limited by and which kernels it runs. */
#include <jansson.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "carat/carat.h"
#include "catalog.h"
#include "commands.h"
#include "context.h"
#include "options.h"
#include "status.h"
#include "tuning.h"

/* How a number of carat_device_info is shown. */
enum unit { PLAIN, BYTES, KILOHERTZ, BITS };

/* The numbers of carat_device_info, once for people and for JSON. */
static const struct field {
    const char *key;   /* in JSON: the member's name */
    const char *label; /* NULL: in JSON only, people see it in a line of its own */
    enum unit unit;
    size_t offset;
    size_t size;
} fields[] = {
#define FIELD(member, label, unit)                                                                           \
    {                                                                                                        \
#member, label, unit, offsetof(carat_device_info, member), sizeof(((carat_device_info *)0)->member)  \
    }
    FIELD(driver_version, NULL, PLAIN),
    FIELD(compute_capability_major, NULL, PLAIN),
    FIELD(compute_capability_minor, NULL, PLAIN),
    FIELD(multiprocessors, "multiprocessors", PLAIN),
    FIELD(warp_size, "warp size", PLAIN),
    FIELD(max_threads_per_block, "threads per block", PLAIN),
    FIELD(max_threads_per_multiprocessor, "threads per multiprocessor", PLAIN),
    FIELD(max_warps_per_multiprocessor, "warps per multiprocessor", PLAIN),
    FIELD(max_blocks_per_multiprocessor, "blocks per multiprocessor", PLAIN),
    FIELD(registers_per_block, "registers per block", PLAIN),
    FIELD(registers_per_multiprocessor, "registers per multiprocessor", PLAIN),
    FIELD(max_registers_per_thread, "registers per thread", PLAIN),
    FIELD(register_allocation_unit, "register allocation unit", PLAIN),
    FIELD(warp_allocation_granularity, "warp allocation granularity", PLAIN),
    FIELD(shared_bytes_per_block, "shared memory per block", BYTES),
    FIELD(shared_bytes_per_block_optin, "  where asked for", BYTES),
    FIELD(shared_bytes_per_multiprocessor, "  per multiprocessor", BYTES),
    FIELD(shared_bytes_reserved, "  reserved in each block", BYTES),
    FIELD(l2_bytes, "L2 cache", BYTES),
    FIELD(l2_persisting_bytes, "  that may persist", BYTES),
    FIELD(memory_bytes, "memory", BYTES),
    FIELD(memory_free_bytes, "  free now", BYTES),
    FIELD(memory_bus_bits, "memory bus", BITS),
    FIELD(memory_clock_khz, "memory clock", KILOHERTZ),
    FIELD(core_clock_khz, "core clock", KILOHERTZ),
    FIELD(copy_engines, "copy engines", PLAIN),
#undef FIELD
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

static int64_t field_value(const carat_device_info *info, const struct field *field)
{
    const char *at = (const char *)info + field->offset;
    if (field->size == sizeof(int64_t)) {
        int64_t value;
        memcpy(&value, at, sizeof(value));
        return value;
    }
    int value;
    memcpy(&value, at, sizeof(value));
    return value;
}

static const char *kind_name(carat_device_kind kind) { return kind == CARAT_DEVICE_CUDA ? "cuda" : "cpu"; }

/* ---- What the library makes of a CUDA device -------------------------------------------------------- */

/* The instructions that the kernels of the catalogue need, and who has them. */
static const struct instruction {
    const char *name;
    int least; /* compute capability, major * 10 + minor */
    int most;
} instructions[] = {
    {"dp4a", 61, INT_MAX},     {"cp.async", 80, INT_MAX},
    {"mma.sync", 80, INT_MAX}, {"cp.async.bulk.tensor", 90, INT_MAX},
    {"wgmma", 90, 90},
};
enum { INSTRUCTION_COUNT = sizeof(instructions) / sizeof(instructions[0]) };

static bool has_instruction(const struct device_traits *traits, const struct instruction *instruction)
{
    return traits->compute_capability >= instruction->least &&
           traits->compute_capability <= instruction->most;
}

/*
 * What the rows of a type are counted under: f32 that may be rounded to tf32 is a type of its own, and sums of bf16
 * planes are f32.
 */
static const char *row_type_name(const struct kernel *row)
{
    return row->element == ELEMENT_F32 && row->accuracy == ACCURACY_FAST
               ? "tf32"
               : carat_type_name(row->planes > 0 ? CARAT_F32 : (carat_type)row->element);
}

/* Of "gemm/wgmma.cu", "wgmma". */
static void row_family(const struct kernel *row, char *family, size_t size)
{
    const char *slash = strrchr(row->source, '/');
    const char *file = slash ? slash + 1 : row->source;
    snprintf(family, size, "%.*s", (int)strcspn(file, "."), file);
}

/* {"f32": {"simt": 3, "f32_async": 15}, ...}: the products of this build that run on the device. */
static json_t *count_kernels(const struct device_traits *traits)
{
    json_t *types = json_object();
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation != OPERATION_GEMM || !kernel_runs_on(row, traits)) {
            continue;
        }
        char family[64];
        row_family(row, family, sizeof(family));
        json_t *families = json_object_get(types, row_type_name(row));
        if (!families) {
            families = json_object();
            json_object_set_new(types, row_type_name(row), families);
        }
        json_int_t count = json_integer_value(json_object_get(families, family));
        json_object_set_new(families, family, json_integer(count + 1));
    }
    return types;
}

/* ---- For people ------------------------------------------------------------------------------------- */

static void print_line(const char *label, const char *value) { printf("  %-31s%s\n", label, value); }

static void print_field(const carat_device_info *info, const struct field *field)
{
    int64_t value = field_value(info, field);
    char text[64];
    switch (field->unit) {
    case BYTES:
        if (value >= 1 << 30) {
            snprintf(text, sizeof(text), "%.1f GiB", (double)value / (1 << 30));
        } else if (value >= 1 << 20) {
            snprintf(text, sizeof(text), "%.1f MiB", (double)value / (1 << 20));
        } else if (value % 1024 == 0) {
            snprintf(text, sizeof(text), "%lld KiB", (long long)value / 1024);
        } else {
            snprintf(text, sizeof(text), "%.1f KiB", (double)value / 1024);
        }
        break;
    case KILOHERTZ:
        snprintf(text, sizeof(text), "%.0f MHz", (double)value / 1000);
        break;
    case BITS:
        snprintf(text, sizeof(text), "%lld bits", (long long)value);
        break;
    case PLAIN:
        snprintf(text, sizeof(text), "%lld", (long long)value);
        break;
    }
    const char *label = field->label;
    if (info->kind == CARAT_DEVICE_CPU && strcmp(field->key, "multiprocessors") == 0) {
        label = "logical cores";
    }
    print_line(label, text);
}

/* "kernels for f32    3 simt, 15 f32_async" */
static void print_kernels(const struct device_traits *traits)
{
    json_t *types = count_kernels(traits);
    const char *type, *family;
    json_t *families, *count;
    json_object_foreach(types, type, families)
    {
        char label[64], text[400] = "";
        size_t length = 0;
        snprintf(label, sizeof(label), "kernels for %s", type);
        json_object_foreach(families, family, count)
        {
            int written = snprintf(text + length, sizeof(text) - length, "%s%lld %s", length ? ", " : "",
                                   (long long)json_integer_value(count), family);
            length += (size_t)written < sizeof(text) - length ? (size_t)written : sizeof(text) - length - 1;
        }
        print_line(label, text);
    }
    json_decref(types);
}

static void print_instructions(const struct device_traits *traits)
{
    char text[200] = "none that kernels ask for";
    size_t length = 0;
    for (int i = 0; i < INSTRUCTION_COUNT; i++) {
        if (has_instruction(traits, &instructions[i])) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "%s%s", length ? ", " : "",
                                       instructions[i].name);
        }
    }
    print_line("instructions", text);
}

/* Where the times come from by which kernels are chosen. */
static void times_words(const struct device_traits *traits, char *text, size_t size)
{
    const struct tuning_table *table = traits->tuning;
    const char *relative = table ? tuning_relative(table) : NULL;
    bool here = table && (!relative || tuning_adds(table));
    snprintf(text, size, "%s%s%s%s", here ? "measured on this device" : "", here && relative ? ", and " : "",
             relative ? "those of the " : "", relative ? relative : "");
    if (!table) {
        snprintf(text, size, "none: a model alone chooses");
    }
}

static void print_device(const carat_device_info *info, const struct device_traits *traits)
{
    char text[96];
    printf("%s:%d  %s\n", kind_name(info->kind), info->index, info->name);
    if (info->kind == CARAT_DEVICE_CUDA) {
        snprintf(text, sizeof(text), "%d.%d", info->compute_capability_major, info->compute_capability_minor);
        print_line("compute capability", text);
        snprintf(text, sizeof(text), "CUDA %d.%d", info->driver_version / 1000,
                 info->driver_version % 1000 / 10);
        print_line("driver", text);
    }
    for (int i = 0; i < FIELD_COUNT; i++) {
        /* 0 says that the number does not apply. */
        if (fields[i].label && field_value(info, &fields[i]) != 0) {
            print_field(info, &fields[i]);
        }
    }
    if (info->max_block_dim[0] > 0) {
        snprintf(text, sizeof(text), "%d x %d x %d", info->max_block_dim[0], info->max_block_dim[1],
                 info->max_block_dim[2]);
        print_line("largest block", text);
        snprintf(text, sizeof(text), "%lld x %lld x %lld", (long long)info->max_grid_dim[0],
                 (long long)info->max_grid_dim[1], (long long)info->max_grid_dim[2]);
        print_line("largest grid", text);
    }
    if (info->kind == CARAT_DEVICE_CUDA) {
        print_instructions(traits);
        print_kernels(traits);
        char times[200];
        times_words(traits, times, sizeof(times));
        print_line("times of kernels", times);
    }
}

/* ---- For programs ----------------------------------------------------------------------------------- */

static json_t *device_json(const carat_device_info *info, const struct device_traits *traits)
{
    json_t *device =
        json_pack("{s:s, s:i, s:s}", "kind", kind_name(info->kind), "index", info->index, "name", info->name);
    for (int i = 0; i < FIELD_COUNT; i++) {
        json_object_set_new(device, fields[i].key, json_integer(field_value(info, &fields[i])));
    }
    json_object_set_new(
        device, "max_block_dim",
        json_pack("[i, i, i]", info->max_block_dim[0], info->max_block_dim[1], info->max_block_dim[2]));
    json_object_set_new(device, "max_grid_dim",
                        json_pack("[I, I, I]", (json_int_t)info->max_grid_dim[0],
                                  (json_int_t)info->max_grid_dim[1], (json_int_t)info->max_grid_dim[2]));
    if (info->kind == CARAT_DEVICE_CUDA) {
        json_t *names = json_array();
        for (int i = 0; i < INSTRUCTION_COUNT; i++) {
            if (has_instruction(traits, &instructions[i])) {
                json_array_append_new(names, json_string(instructions[i].name));
            }
        }
        json_object_set_new(device, "instructions", names);
        json_object_set_new(device, "kernels", count_kernels(traits));
        char times[200];
        times_words(traits, times, sizeof(times));
        json_object_set_new(device, "times", json_string(times));
    }
    return device;
}

/* ---- The command ------------------------------------------------------------------------------------ */

/* Shows a device: adds it to a list for programs, or prints it where there is none. */
static carat_status show_device(carat_device_kind kind, int index, json_t *devices)
{
    carat_context *context;
    carat_device_info info;
    CARAT_TRY(carat_context_create(kind, index, &context));
    carat_status status = carat_device_query(context, &info);
    const struct device_traits *traits = &context->device->traits;
    if (status == CARAT_OK && devices) {
        json_array_append_new(devices, device_json(&info, traits));
    } else if (status == CARAT_OK) {
        print_device(&info, traits);
        printf("\n");
    }
    carat_context_destroy(context);
    return status;
}

/* Why there is no CUDA device, from the library; and what to do about it. */
static const char *cuda_advice(carat_status status)
{
    switch (status) {
    case CARAT_UNSUPPORTED:
        return "To add CUDA, install the CUDA toolkit (nvcc), then configure and build Carat again.";
    case CARAT_NO_DRIVER:
        return "Where there is an NVIDIA GPU, install its driver; nothing else of CUDA is needed to run.";
    case CARAT_DRIVER_TOO_OLD:
        return "Install a newer NVIDIA driver.";
    case CARAT_NO_DEVICE:
        return "The driver shows no GPU: see nvidia-smi, and CUDA_VISIBLE_DEVICES where it is set.";
    default:
        return "See nvidia-smi for the state of the GPU.";
    }
}

int command_info(int argc, char **argv)
{
    bool json = false;
    const struct option options[] = {
        {"--json", 0, OPTION_FLAG, &json, NULL, "print JSON", NULL, NULL},
    };
    const struct usage usage = {
        "carat info [--json]",
        "Shows the CPU and every CUDA device: what the driver tells, what is known of the architecture,\n"
        "which instructions it has, how many kernels of this build run on it, and whose times\n"
        "these are chosen by.\n"
        "Without a GPU it says what is missing, and succeeds.",
        options,
        sizeof(options) / sizeof(options[0]),
        NULL,
    };
    int exit_code;
    if (options_parse(&usage, argc, argv, NULL, 0, &exit_code) < 0) {
        return exit_code;
    }
    int cuda_count = carat_device_count(CARAT_DEVICE_CUDA);
    json_t *devices = json_array();
    exit_code = EXIT_OK;
    if (!json) {
        printf("carat %s\n\n", carat_version());
    }
    for (int i = 0; i < 1 + cuda_count; i++) {
        carat_device_kind kind = i == 0 ? CARAT_DEVICE_CPU : CARAT_DEVICE_CUDA;
        int index = i == 0 ? 0 : i - 1;
        if (show_device(kind, index, json ? devices : NULL) != CARAT_OK) {
            exit_code = command_failed("info", "%s:%d: %s", kind_name(kind), index, carat_last_message());
        }
    }
    const char *reason = NULL;
    if (cuda_count == 0) {
        carat_context *context;
        carat_status status = carat_context_create(CARAT_DEVICE_CUDA, 0, &context);
        carat_context_destroy(context);
        reason = carat_last_message();
        if (!json) {
            printf("No CUDA device: %s.\n%s\n", reason, cuda_advice(status));
        }
    }
    if (json) {
        json_t *all =
            json_pack("{s:s, s:o, s:s?}", "version", carat_version(), "devices", devices, "no_cuda", reason);
        if (!all || json_dumpf(all, stdout, JSON_INDENT(2)) != 0) {
            exit_code = command_failed("info", "cannot write JSON");
        }
        printf("\n");
        json_decref(all);
    } else {
        json_decref(devices);
    }
    return exit_code;
}
