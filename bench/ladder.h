/*
 * ladder.h - the rungs: which kernels there are of a type, what each builds on, and what global traffic it has.
 */
#ifndef CARAT_BENCH_LADDER_H
#define CARAT_BENCH_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "carat/carat.h"
#include "catalog.h"

enum { LIBRARY_RUNG = 9, MOST_RUNGS = 48 };

/* One kernel on the ladder; the top one is what the library itself chooses, and has no row. */
struct rung {
    int number;
    const char *name;
    const struct kernel *row;
};

struct rungs {
    struct rung items[MOST_RUNGS];
    int count;
};

/*
 * The rungs of a type, from the lowest. filter is NULL or a list of numbers, "1,3,9". False where the filter
 * is no such list.
 */
bool rungs_list(carat_type type, const char *filter, struct rungs *rungs);

/* The rung whose idea a rung adds to, 0 for the first. */
int rung_base(int number);

/*
 * Bytes that a product's kernel moves between multiprocessors and global memory (caches included), counted
 * from its tile: every block reads its rows of A and columns of B once, and a thread that computes one
 * element without sharing (rungs 1 and 2) a row and a column. C is not read.
 */
double rung_traffic_bytes(int number, const struct kernel *kernel, int64_t m, int64_t n, int64_t k);

#endif
