/*
 * tradeoff.h - what each setting of accuracy costs and gives: its error, from what `carat accuracy --json` wrote,
 * beside its rate, from what `carat bench --json` wrote.
 */
#ifndef CARAT_BENCH_TRADEOFF_H
#define CARAT_BENCH_TRADEOFF_H

#include <stdint.h>

#include "carat/carat.h"

enum { MOST_TRADEOFF_POINTS = 16 };

struct tradeoff_point {
    char contender[40];
    char setting[24]; /* as carat accuracy names it: "close"; a peer's own is "default" */
    double error;     /* the largest |D - true| / (|A||B|) */
    double tflops;    /* 0: no file has it */
};

struct tradeoff {
    char device[128];
    char family[40]; /* of the inputs that the errors are of */
    int64_t k;       /* and how many products their sums have */
    int64_t side;    /* of the products that the rates are of: m = n = k */
    struct tradeoff_point points[MOST_TRADEOFF_POINTS];
    int count;
};

/* Makes the points, without rates: every setting that has an error at the family and k of tradeoff. */
carat_status tradeoff_read_errors(const char *path, struct tradeoff *tradeoff);

/*
 * Adds the rates of the cube of tradeoff's side, no operand transposed, as errors are measured. A point that has
 * one keeps it. Another device's file is refused.
 */
carat_status tradeoff_read_rates(const char *path, struct tradeoff *tradeoff);

#endif
