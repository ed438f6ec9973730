/* bench_memory.h - how near scale_add and transpose come to the device's own copy. */
#ifndef CARAT_BENCH_BENCH_MEMORY_H
#define CARAT_BENCH_BENCH_MEMORY_H

#include <stdio.h>

#include "measure.h"

/*
 * Runs scale_add and transpose of an n x n matrix of each type beside a copy of the same bytes, each checked first,
 * for about `seconds` each. json may be NULL. Returns an exit code.
 */
int bench_memory(struct stage *stage, int64_t n, double seconds, FILE *json, FILE *table);

#endif
