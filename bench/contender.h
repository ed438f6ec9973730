/*
 * contender.h - whoever multiplies matrices in a measurement: Carat itself, one row of its catalogue,
 * cuBLAS, cublasLt, a BLAS of the CPU. All look alike from here on.
 */
#ifndef CARAT_BENCH_CONTENDER_H
#define CARAT_BENCH_CONTENDER_H

#include <stdbool.h>

#include "carat/carat.h"
#include "plan.h"
#include "workload.h"

struct contender;

struct contender_functions {
    /*
     * Makes ready for a workload: plans, tries candidates, allocates. CARAT_UNSUPPORTED, with the reason in
     * carat_last_message(), where the contender cannot do it. May put work on the stream.
     */
    carat_status (*prepare)(struct contender *contender, const struct workload *workload);
    /* Puts one product of the given set on the place's stream; a CPU contender has finished on return. */
    carat_status (*run)(struct contender *contender, const struct workload *workload, int set);
    /* Undoes prepare; also after a prepare that failed. */
    void (*unprepare)(struct contender *contender);
    void (*close)(struct contender *contender);
};

struct contender {
    const struct contender_functions *functions;
    struct place *place;             /* where it runs */
    char name[96];                   /* "carat", "cublas", ..., or the row's */
    char version[128];               /* "" where the library has none */
    const char *accuracy;            /* of its sums, once prepared: see accuracy_name() */
    const struct epilogue *epilogue; /* what it does to the product; NULL: nothing */
    bool asks;                       /* for an accuracy of its own in place of the problem's: */
    carat_accuracy asked;
    int launches;   /* kernels of one product, once prepared; 0: not known */
    char plan[400]; /* how it does the workload at hand, once prepared */
};

/* Each makes a contender, which contender_close() frees; NULL in *contender on failure. */
carat_status contender_open_carat(struct place *place, const char *name, struct contender **contender);
carat_status contender_open_epilogue(struct place *place, const struct epilogue *epilogue,
                                     struct contender **contender);
carat_status contender_open_setting(struct place *place, carat_accuracy asked, struct contender **contender);
carat_status contender_open_row(struct place *place, const struct kernel *row, struct contender **contender);
carat_status contender_open_way(struct place *place, const struct candidate *way,
                                struct contender **contender); /* which outlives it */
carat_status contender_open_step(struct place *place, const struct candidate *way, enum step_kind step,
                                 struct contender **contender); /* the same, but this step of it alone */
carat_status contender_open_cublas(struct place *place, struct contender **contender);
carat_status contender_open_cublaslt(struct place *place, struct contender **contender);
carat_status contender_open_blas(struct place *place, const char *path, struct contender **contender);

/* NULL is allowed. */
void contender_close(struct contender *contender);

/* "strict": fused multiply-adds in the type of the sums; "fast": asked for as such; "standard": between them. */
const char *accuracy_name(const carat_gemm_problem *problem);

/* The same of cuBLAS, which has none as good as the best: it is measured beside as it is by default. */
const char *peer_accuracy_name(const carat_gemm_problem *problem);

/* Opens the first of the shared libraries that is there; names ends with NULL. NULL where none is. */
void *open_library(const char *const *names);

#endif
