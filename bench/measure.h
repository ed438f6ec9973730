/*
 * measure.h - one problem, several contenders: each is checked, then all are timed in turn, round by round, so
 * that a change of clock or temperature strikes them alike.
 */
#ifndef CARAT_BENCH_MEASURE_H
#define CARAT_BENCH_MEASURE_H

#include "contender.h"
#include "meter.h"
#include "timer.h"

/* A place with what measuring there needs. Its arena is made when a contender first works in it. */
struct stage {
    struct place place;
    struct meter meter;
    struct timer timer;
    struct arena arena;
};

carat_status stage_open(carat_device_kind kind, int index, struct stage *stage);
void stage_close(struct stage *stage);

enum { MEASURE_MOST_ROUNDS = 100 };
#define MEASURE_LONGEST_TURN 0.5 /* seconds */

struct measure_options {
    double seconds;       /* about how long one contender may be timed on one problem */
    int rounds;           /* at most; more than MEASURE_MOST_ROUNDS count as so many */
    double turn;          /* seconds of a round, about, that are a contender's; 0: as few as tell */
    int64_t check_budget; /* multiply-adds of the reference of one problem */
    enum accuracy_family input;
};

enum outcome {
    OUTCOME_TIMED,
    OUTCOME_SKIPPED, /* it was not tried: reason */
    OUTCOME_WRONG,   /* its result is wrong, so there is no time: reason */
    OUTCOME_FAILED,  /* it reported an error: reason */
    OUTCOME_CANNOT   /* the contender does not do this problem: reason */
};

/* Times are of one product, in microseconds; 0 where there is none. */
struct result {
    enum outcome outcome;
    char reason[300];
    char plan[400];
    double error;         /* max |d - ref| / (|A||B|) */
    double safe_share;    /* of D, that close accuracy left to its safe path: see carat_count_safe() */
    double first_call_us; /* plan, kernel loading and all; with the wait for its end */
    double time_us;       /* median over the rounds, as calls on a stream */
    double graph_time_us; /* the same as replays of a graph */
    double host_us;       /* median time of the host alone in one call: see timer_host() */
    int launches;         /* kernels of one call; 0 where that is not known */
    double spread;        /* (largest - smallest) / median of the rounds' times */
    int rounds;
    int calls; /* of a round */
    double sm_clock_mhz;
    double power_w;
};

/* The better of a result's times, in seconds; 0 where it has none. */
double result_seconds(const struct result *result);

/*
 * Measures problem with each contender, all of whose places are in stages; results has one entry a contender.
 * Fails only where going on makes no sense (the device is lost, no memory for the operands).
 */
carat_status measure_problem(struct stage *const *stages, int stage_count,
                             struct contender *const *contenders, int count,
                             const carat_gemm_problem *problem, const struct measure_options *options,
                             struct result *results);

#endif
