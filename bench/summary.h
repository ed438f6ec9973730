/* summary.h - how Carat stands against the better peer, over the cases of each file and type. */
#ifndef CARAT_BENCH_SUMMARY_H
#define CARAT_BENCH_SUMMARY_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

enum { MOST_STANDINGS = 128 };

/* The peer's time over Carat's, three ways; 0 where one of the two has no such time. */
struct ratios {
    double best;  /* of the better of the two times of each */
    double calls; /* as calls on a stream */
    double graph; /* as replays of a graph */
};

/* One way's geometric mean, once count is more than 0 exp(log_sum / count), and its worst case. */
struct mean {
    int count;
    double log_sum;
    double worst;
    char worst_case[128];
};

struct standing {
    char file[100]; /* "" for all of them */
    char dtype[32];
    int cases;
    int alone; /* cases in which no peer has a time */
    int lost;  /* cases in which Carat has none: wrong, failed or cannot */
    int slow;  /* cases with a ratio under 0.9 */
    struct mean best;
    struct mean calls;
    struct mean graph;
    double share_sum; /* of the ceiling of the unit, over the cases with a known one */
    int share_count;
};

/* The host's time in Carat's calls, in microseconds. */
struct host_times {
    int count;
    int over; /* more than they should be: see HOST_US */
    double sum;
    double most;
    char most_case[128];
};

struct summary {
    struct standing items[MOST_STANDINGS];
    int count;
    struct standing all;
    struct host_times host;
    bool overflowed; /* there were more files and types than it holds: the rest count in all alone */
};

/* One case of the summary. */
struct summary_case {
    const char *file;
    const char *dtype;
    const char *name;
    bool timed; /* Carat has a time */
    struct ratios ratios;
    double share;   /* of the ceiling of its unit; 0: not known */
    double host_us; /* of a call; 0: not known */
    int launches;   /* in it */
};

void summary_add(struct summary *summary, const struct summary_case *one);

/* The geometric mean; 0 without cases. */
double mean_value(const struct mean *mean);

void summary_print(const struct summary *summary, FILE *file);

/* One line of a result file; owned by the caller. */
json_t *standing_to_json(const struct standing *standing);

#endif
