/*
 * tune.h - measures the ways to compute a problem: every row of the catalogue that can, with its operands where they
 * lie or packed, and in several numbers of parts. What the cost model foresees is held against this.
 */
#ifndef CARAT_BENCH_TUNE_H
#define CARAT_BENCH_TUNE_H

#include "measure.h"
#include "plan.h"

struct tune_options {
    double slack;   /* ways that the model thinks cost more than this times the cheapest are left out */
    int most_ways;  /* at most so many, the cheapest by the model; of each row at least its cheapest */
    double seconds; /* about how long one trial takes */
    int rounds;     /* trials of those ways that are near the fastest */
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

/*
 * Measures a column-major problem on a CUDA device, over rotating operands, interleaved; short products as replays of
 * a graph. Nothing is checked here: what is chosen from this is checked wherever it is measured. tuning_free()
 * afterwards, also on failure.
 */
carat_status tune_problem(struct stage *stage, const carat_gemm_problem *problem,
                          const struct tune_options *options, struct tuning *tuning);

void tuning_free(struct tuning *tuning);

#endif
