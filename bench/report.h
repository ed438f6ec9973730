/* report.h - measurements as JSON, and the words that tables and JSON share. */
#ifndef CARAT_BENCH_REPORT_H
#define CARAT_BENCH_REPORT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "ceiling.h"
#include "measure.h"

/* A number, or null where it is 0 or no number: not known. */
json_t *json_known(double value);

/* What every result file begins with: when, with which versions, on which device. Owned by the caller. */
json_t *report_head(const struct place *place, struct contender *const *contenders, int count,
                    const struct ceilings *ceilings);

/* How one contender did on one problem. seconds of the peer (0: none) give the ratio. */
json_t *report_result(const struct contender *contender, const carat_gemm_problem *problem,
                      const struct result *result, const struct ceilings *ceilings, double peer_seconds);

/* What stands under a key of an object: "" where that is no text, 0 where it is no number. */
const char *text_of(const json_t *object, const char *key);
double number_of(const json_t *object, const char *key);

/* "timed", "skipped", "wrong", "failed", "cannot" */
const char *outcome_name(enum outcome outcome);

/* "bf16", "tf32", "f32-strict", "e4m3:e5m2-fast", ...: the types of A and B, and the accuracy asked for. */
void dtype_name(const carat_gemm_problem *problem, char *name, size_t size);

/* "NN", "NT", "TN" or "TT" of a column-major problem. */
const char *layout_name(const carat_gemm_problem *problem);

/* A ceiling's name without the prefix that all rows of ceilings have. */
const char *ceiling_short_name(const char *name);

/* Writes one value on one line and flushes it, so that what is measured is not lost later. */
bool report_line(FILE *file, const json_t *value);

/* Writes a document, indented, to a path ("-": standard output). False where it could not be written. */
bool report_document(const char *path, const json_t *value);

#endif
