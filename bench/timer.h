/*
 * timer.h - how long a region of work takes: device events around it on a CUDA device, the host's clock
 * elsewhere. A region is many calls, so that its ends do not weigh.
 */
#ifndef CARAT_BENCH_TIMER_H
#define CARAT_BENCH_TIMER_H

#include "contender.h"
#include "meter.h"

/* Seconds from some fixed moment. */
double now_seconds(void);

struct timer {
    struct place *place;
    struct meter *meter; /* read while the region runs; NULL not to */
    void *begin;
    void *end;
    void *filler; /* more memory than the last cache holds, once it is wanted */
};

carat_status timer_open(struct place *place, struct meter *meter, struct timer *timer);
void timer_close(struct timer *timer);

/* Work to be timed: puts call number i on the place's stream. */
typedef carat_status timed_call(void *context, int i);

/* Seconds of the whole region of `calls` calls; *reading (may be NULL) is taken while it runs. */
carat_status timer_region(struct timer *timer, timed_call *call, void *context, int calls, double *seconds,
                          struct reading *reading);

/* The same of products: from set `first` on, round and round the workload's sets. */
carat_status timer_products(struct timer *timer, struct contender *contender, const struct workload *workload,
                            int first, int calls, double *seconds, struct reading *reading);

/*
 * Seconds of the host alone in one call, the mean of `calls` of them that find the stream empty: too few to fill the
 * queue, so that none waits for the device. As in a program, the device's context is the thread's.
 */
carat_status timer_host(struct timer *timer, struct contender *contender, const struct workload *workload,
                        int calls, double *seconds);

/* Records `calls` products as a graph, for cuda_graph_launch; NULL in *graph on failure. */
carat_status timer_capture(struct timer *timer, struct contender *contender, const struct workload *workload,
                           int calls, void **graph);

/*
 * Trials of about `budget` seconds each, of a contender whose product is thought to take `estimate`. Short products are
 * replayed from a graph: as calls on a stream all would seem alike, as slow as the host.
 */
struct trials {
    int calls;
    void *graph; /* NULL: calls on a stream */
};

/* Records the graph. The contender's workspace must stay where it is until trials_close(). */
carat_status trials_open(struct timer *timer, struct contender *contender, const struct workload *workload,
                         double estimate, double budget, struct trials *trials);
void trials_close(struct timer *timer, struct trials *trials);

/*
 * Seconds of one product, over the sets. Before a graph is replayed the last cache is filled with something else: its calls are
 * few, and all of their sets might be there from the time before.
 */
carat_status trials_run(struct timer *timer, struct contender *contender, const struct workload *workload,
                        const struct trials *trials, double *seconds);

/* One trial by itself. */
carat_status timer_trial(struct timer *timer, struct contender *contender, const struct workload *workload,
                         double estimate, double budget, double *seconds);

/* Seconds of one replay. */
carat_status timer_replay(struct timer *timer, void *graph, double *seconds);

#endif
