/* bench_choice.h - how near the library's choice of a kernel comes to the best of all ways. */
#ifndef CARAT_BENCH_BENCH_CHOICE_H
#define CARAT_BENCH_BENCH_CHOICE_H

#include <stdio.h>

#include "shapes.h"
#include "tune.h"

/* Over the shapes so far. */
struct choice_totals {
    int count;
    int cannot;
    double loss_sum; /* of the choice's time over the best way's, less 1 */
    double worst;
    char worst_case[128];
};

/*
 * Measures every way to compute a shape, and prints the choice, the best way and how much the choice takes more. json
 * may be NULL; it gets a line with all ways.
 */
carat_status bench_choice(struct stage *stage, const struct shape *shape, const char *name,
                          const struct tune_options *options, FILE *json, FILE *table,
                          struct choice_totals *totals);

void choice_totals_print(const struct choice_totals *totals, FILE *json, FILE *table);

#endif
