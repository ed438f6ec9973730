/* bench_epilogues.h - what bias and activations cost beside the plain product. */
#ifndef CARAT_BENCH_BENCH_EPILOGUES_H
#define CARAT_BENCH_BENCH_EPILOGUES_H

#include <stdio.h>

#include "field.h"

/*
 * Runs one problem with every epilogue in turn, each checked first, and prints each one's time over the plain
 * product's. The field has no contenders before and none after. json may be NULL. Returns an exit code.
 */
int bench_epilogues(struct field *field, const carat_gemm_problem *problem,
                    const struct measure_options *options, FILE *json, FILE *table);

#endif
