/* plain.h - the product as one writes it without thinking of the machine: what all speed-ups start from. */
#ifndef CARAT_BENCH_PLAIN_H
#define CARAT_BENCH_PLAIN_H

#include "carat/carat.h"

/*
 * Seconds that one core takes for an n x n x n product of f32 or f64 with three plain loops, the innermost along
 * a column, which is the order that a compiler and a cache like best. 0 for other types, or without memory.
 */
double plain_seconds(carat_type type, int64_t n);

#endif
