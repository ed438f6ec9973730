/* meter.c - the few functions of NVML that tell clock and power, declared here and loaded at run time. */
#include "meter.h"

#include <dlfcn.h>
#include <string.h>

#include "contender.h"
#include "cuda/cuda.h"

enum { NVML_CLOCK_SM = 1, NVML_POWER_INSTANT = 186, NVML_SUCCESS = 0 };

/* nvmlFieldValue_t */
struct field {
    unsigned id;
    unsigned scope;
    long long timestamp;
    long long latency_us;
    int value_type;
    int status;
    union {
        double d;
        unsigned u;
        unsigned long long ull;
    } value;
};

void meter_open(struct place *place, struct meter *meter)
{
    static const char *const names[] = {"libnvidia-ml.so.1", "libnvidia-ml.so", NULL};
    *meter = (struct meter){0};
    char address[64];
    if (!place->cuda || cuda_pci_address(place->device, address, sizeof(address)) != CARAT_OK) {
        return;
    }
    struct meter found = {.library = open_library(names)};
    if (!found.library) {
        return;
    }
    int (*init)(void);
    int (*by_address)(const char *address, void **device);
    *(void **)&init = dlsym(found.library, "nvmlInit_v2");
    *(void **)&by_address = dlsym(found.library, "nvmlDeviceGetHandleByPciBusId_v2");
    *(void **)&found.shutdown = dlsym(found.library, "nvmlShutdown");
    *(void **)&found.get_clock = dlsym(found.library, "nvmlDeviceGetClockInfo");
    *(void **)&found.get_power = dlsym(found.library, "nvmlDeviceGetPowerUsage");
    *(void **)&found.get_fields = dlsym(found.library, "nvmlDeviceGetFieldValues");
    if (init && by_address && found.shutdown && init() == NVML_SUCCESS) {
        if (by_address(address, &found.device) == NVML_SUCCESS) {
            *meter = found;
            return;
        }
        found.shutdown();
    }
    dlclose(found.library);
}

void meter_close(struct meter *meter)
{
    if (meter->library) {
        meter->shutdown();
        dlclose(meter->library);
    }
    *meter = (struct meter){0};
}

struct reading meter_read(const struct meter *meter)
{
    struct reading reading = {0};
    if (!meter->library) {
        return reading;
    }
    unsigned number = 0;
    if (meter->get_clock && meter->get_clock(meter->device, NVML_CLOCK_SM, &number) == NVML_SUCCESS) {
        reading.sm_clock_mhz = number;
    }
    /* The plain power reading is a mean over a second on recent chips, too slow for most runs here. */
    struct field field = {.id = NVML_POWER_INSTANT};
    if (meter->get_fields && meter->get_fields(meter->device, 1, &field) == NVML_SUCCESS &&
        field.status == NVML_SUCCESS) {
        reading.power_w = field.value.u / 1000.0;
    } else if (meter->get_power && meter->get_power(meter->device, &number) == NVML_SUCCESS) {
        reading.power_w = number / 1000.0;
    }
    return reading;
}
