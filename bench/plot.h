/* plot.h - draws the figures of a ladder, and of the settings of accuracy, as SVG, with gnuplot. */
#ifndef CARAT_BENCH_PLOT_H
#define CARAT_BENCH_PLOT_H

#include <jansson.h>

#include "carat/carat.h"
#include "tradeoff.h"

/*
 * The rate of every kernel over the size, with cuBLAS, the CPU's BLAS and the ceiling, from what
 * `carat ladder --json` writes. CARAT_UNSUPPORTED without gnuplot.
 */
carat_status plot_ladder(const json_t *document, const char *path);

/* The roofline: the rate of every kernel at the largest size over its counted arithmetic intensity. */
carat_status plot_roofline(const json_t *document, const char *path);

/*
 * The error of every setting of accuracy over its rate; points without a rate are left out.
 * CARAT_INVALID_ARGUMENT where none has one.
 */
carat_status plot_tradeoff(const struct tradeoff *tradeoff, const char *path);

#endif
