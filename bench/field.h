/* field.h - the contenders of a measurement, opened from a list of names. */
#ifndef CARAT_BENCH_FIELD_H
#define CARAT_BENCH_FIELD_H

#include "measure.h"

enum { MOST_CONTENDERS = 320 };

struct field {
    struct stage stages[2]; /* the device that is measured; the CPU beside it, once someone needs it */
    struct stage *open_stages[2];
    int stage_count;
    struct contender *contenders[MOST_CONTENDERS];
    int count;
};

/* Opens the device to measure. */
carat_status field_open(carat_device_kind kind, int index, struct field *field);
void field_close(struct field *field);

/* Closes the contenders, and keeps the places. */
void field_clear(struct field *field);

/* Adds Carat itself on the device, Carat with an epilogue or with an accuracy, or one row of its catalogue. */
carat_status field_add_carat(struct field *field);
carat_status field_add_epilogue(struct field *field, const struct epilogue *epilogue);
carat_status field_add_setting(struct field *field, carat_accuracy asked);
carat_status field_add_row(struct field *field, const struct kernel *row);

/*
 * Adds a peer by its name: cublas, cublaslt, openblas (the CPU device's BLAS) or blas:PATH.
 * CARAT_UNSUPPORTED where it is not installed here; CARAT_INVALID_ARGUMENT where there is no such name.
 */
carat_status field_add_peer(struct field *field, const char *name);

/* Measures one problem with everyone. */
carat_status field_measure(struct field *field, const carat_gemm_problem *problem,
                           const struct measure_options *options, struct result *results);

/* Where a contender stands in the list, or -1. */
int field_find(const struct field *field, const char *name);

/* The seconds of the better of cublas and cublaslt; 0 where neither was timed. */
double field_cublas_seconds(const struct field *field, const struct result *results);

/*
 * Who ratios are against: the better of cublas and cublaslt where either was timed, else the best of the other
 * peers (not rows and not carat).
 */
struct peer {
    int at;          /* in the list; -1: there is none, and the times are 0 */
    double seconds;  /* the better of its times */
    double call_us;  /* the best time of such peers as calls on a stream */
    double graph_us; /* and as replays of a graph; 0 where nobody has one */
};
struct peer field_peer(const struct field *field, const struct result *results);

#endif
