/*
 * tune.h - measures the ways to compute a problem: every row of the catalogue that can, with its operands where they
 * lie or packed, and in several numbers of parts. What the cost model foresees is held against this.
 */
#ifndef CARAT_BENCH_TUNE_H
#define CARAT_BENCH_TUNE_H

#include "measure.h"
#include "plan.h"

/* What the library chooses is measured whatever these say. */
struct tune_options {
    double slack;   /* ways that the model thinks cost more than this times the cheapest are left out */
    int most_ways;  /* at most so many, the cheapest by the model; of each row at least its cheapest */
    double seconds; /* about how long one trial takes */
    int rounds;     /* trials of those ways that are close to the fastest; of others that are near it a few */
};

struct tuned_way {
    struct candidate way;
    double seconds; /* median; 0: it does not run */
};

struct tuning {
    struct tuned_way *ways; /* the fastest first; those that do not run last */
    int count;
    double plan_seconds; /* of what the library chooses, measured among them */
    char plan[400];      /* and what that is */
};

/* Whether there is anything to tune: CARAT_UNSUPPORTED on the CPU. */
carat_status tune_has_ways(const struct stage *stage);

/*
 * Measures a column-major problem on a CUDA device, over rotating operands, interleaved; short products as replays of
 * a graph. Nothing is checked here: what is chosen from this is checked wherever it is measured. tuning_free()
 * afterwards, also on failure.
 */
carat_status tune_problem(struct stage *stage, const carat_gemm_problem *problem,
                          const struct tune_options *options, struct tuning *tuning);

/*
 * The median time of one way to do a workload, of so many trials of so many seconds; of one of its steps alone where
 * only is not NULL. 0 where it does not run.
 */
carat_status tune_way(struct stage *stage, const struct workload *workload, const struct candidate *way,
                      const enum step_kind *only, double seconds, int trials, double *median_seconds);

/* The same of several ways, interleaved; those that are near the fastest are tried a few times, those that are far from it once. */
carat_status tune_ways(struct stage *stage, const struct workload *workload, struct tuned_way *ways,
                       int count, double seconds, int rounds);

/*
 * The ways that tune_problem() would measure, not measured: what the library chooses, then the others, the cheapest by the model
 * first. tuning_free() afterwards.
 */
carat_status tune_list(const struct device_traits *traits, const struct problem *problem,
                       const struct tune_options *options, struct tuning *tuning);

/* Whether two ways to do a problem are of the same row, with the same done to A and B before. */
bool tune_is_same_row(const struct problem *problem, const struct candidate *x, const struct candidate *y);

void tuning_free(struct tuning *tuning);

#endif
