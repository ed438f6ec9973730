/* bench_host.h - how long a product takes whose matrices lie in host memory. */
#ifndef CARAT_BENCH_BENCH_HOST_H
#define CARAT_BENCH_BENCH_HOST_H

#include <stdio.h>

#include "measure.h"

/*
 * An f32 product of n x n matrices from pinned and from pageable host memory, beside its compute time on the device
 * and the time of its copies at the link's measured rate. json may be NULL. Returns an exit code.
 */
int bench_host(struct stage *stage, int64_t n, FILE *json, FILE *table);

#endif
