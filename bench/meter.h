/* meter.h - the clock and the power of a CUDA device while it works, from NVML where that is installed. */
#ifndef CARAT_BENCH_METER_H
#define CARAT_BENCH_METER_H

#include "workload.h"

struct meter {
    void *library; /* NULL: nothing is known */
    void *device;
    int (*get_clock)(void *device, int kind, unsigned *mhz);
    int (*get_power)(void *device, unsigned *milliwatts);
    int (*get_fields)(void *device, int count, void *fields);
    int (*shutdown)(void);
};

/* One reading; a value that is not known is 0. */
struct reading {
    double sm_clock_mhz;
    double power_w;
};

/* Never fails: without NVML every reading is 0. */
void meter_open(struct place *place, struct meter *meter);
void meter_close(struct meter *meter);
struct reading meter_read(const struct meter *meter);

#endif
