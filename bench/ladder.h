/*
 * ladder.h - the rungs: which kernels there are of a type, what each builds on, and what global traffic it
 * has.
 */
#ifndef CARAT_BENCH_LADDER_H
#define CARAT_BENCH_LADDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "carat/carat.h"
#include "catalog.h"

enum { TOP_RUNG = 14, MOST_RUNGS = 48 };

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
 * The library's own rung: the top one for types that have rungs on the tensor instructions (10 and up),
 * else 9, for the sums of fused multiply-adds.
 */
int library_rung(carat_type type);

/*
 * The rungs of a type, from the lowest. filter is NULL or a list of numbers, "1,3,9". False where the filter
 * is no such list.
 */
bool rungs_list(carat_type type, const char *filter, struct rungs *rungs);

/*
 * The accuracies that the library can be asked for, below the last rung: of f32, from the quickest to the most
 * accurate. Returns how many there are; 0 for other types.
 */
enum { MOST_SETTINGS = 8 };
int ladder_settings(carat_type type, carat_accuracy settings[MOST_SETTINGS]);

/* The rung whose idea a rung adds to, 0 for the first. */
int rung_base(int number);

/*
 * Bytes that a product's kernel moves between multiprocessors and global memory (caches included), counted
 * from its tile: every block reads its rows of A and columns of B once, and a thread that computes one
 * element without sharing (rungs 1 and 2) a row and a column. Blocks of a cluster share what they have in
 * common. C is not read.
 */
double rung_traffic_bytes(int number, const struct kernel *kernel, int64_t m, int64_t n, int64_t k);

/*
 * "3 tiled" of rung 3's kernel ladder_3_tiled, from a line of what `carat ladder --json` writes; a peer has
 * just its name.
 */
void rung_label(const json_t *result, char *label, size_t size);

/* Whether such a line is of the library at an accuracy that it was asked for, and of no rung nor peer. */
bool is_setting(const json_t *result);

/*
 * The results in such a document as tables in Markdown, of each size one of rungs and, where it has them, one of
 * settings; only of that size where it is not 0. False where there are none.
 */
bool ladder_tables(const json_t *document, int64_t size, FILE *to);

#endif
