/*
 * ceiling.h - this device's measured limits: what its units and its memory do at most, from the loops under
 * kernels/ceiling/. Every share in a table is a share of these.
 */
#ifndef CARAT_BENCH_CEILING_H
#define CARAT_BENCH_CEILING_H

#include <jansson.h>
#include <stdbool.h>

#include "timer.h"

enum { MOST_CEILINGS = 48 };

struct ceiling {
    char name[48]; /* the row's name, or what the host measures: "launch", "host_to_device", ... */
    char unit[16]; /* "TFLOP/s", "TOP/s", "GB/s", "us" */
    double value;  /* 0: not measured, for the reason given */
    char reason[160];
    double sm_clock_mhz;
    double power_w;
};

struct ceilings {
    struct ceiling items[MOST_CEILINGS];
    int count;
};

/*
 * Runs every row of OPERATION_CEILING, each for at least `seconds`, and the driver's own copy, a launch, and
 * the link to the host. bytes is the size of the buffers (0: a GiB, or a sixteenth of the memory if
 * that is less). A row that the device cannot run stands in the list with its reason.
 */
carat_status ceilings_measure(struct timer *timer, double seconds, size_t bytes, struct ceilings *ceilings);

/* The value under a name, or 0. */
double ceilings_value(const struct ceilings *ceilings, const char *name);

/*
 * The ceiling of the fastest unit that does products of a type as they are, f32 in f32; NULL where none is known.
 */
const struct ceiling *ceilings_of_type(const struct ceilings *ceilings, carat_type type);

/*
 * The same of a problem, with the accuracy that it asks for. Of f32 in standard accuracy it may be bf16's, which
 * has six products to do for one: ceilings_floor() counts them.
 */
const struct ceiling *ceilings_of_problem(const struct ceilings *ceilings, const carat_gemm_problem *problem);

/* The least time in which the device can do a problem. What is not known is 0. NULL knows none. */
struct floor {
    double unit_seconds; /* its operations at the ceiling of its unit */
    double seconds;      /* that, or its bytes at the rate of the memory, whichever is longer */
    const struct ceiling *unit;
    const struct ceiling *bound; /* which of the two it is */
};
struct floor ceilings_floor(const struct ceilings *ceilings, const carat_gemm_problem *problem);

json_t *ceilings_to_json(const struct ceilings *ceilings);

/* Reads what `carat ceiling --json` wrote. */
carat_status ceilings_read(const char *path, struct ceilings *ceilings);

#endif
