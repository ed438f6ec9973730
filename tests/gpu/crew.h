/*
 * crew.h - threads with a lane each, which make many trials at once.
 */
#ifndef CARAT_TESTS_CREW_H
#define CARAT_TESTS_CREW_H

#include "lane.h"

struct trial_tally {
    int passed;
    int failed;
    int skipped;
    int left_out; /* for want of time */
};

/* Makes trial number index; false where there is none of that number to be had. */
typedef bool trial_maker(int64_t index, void *what, struct trial *trial);

/* Threads with a lane each. */
struct crew;

/* One a processor, but no more than so many. */
int crew_threads(int most);

/*
 * Where a trial takes longer than so many seconds, its kernel hangs: then the program says what was under way, and
 * ends with code 3.
 */
struct crew *crew_create(carat_context *context, int threads, double longest);
void crew_destroy(struct crew *crew);

/*
 * Tries trials 0 to count - 1, several at once; prints the first failures. None is begun after the deadline (in
 * seconds of crew_seconds(); 0: never), or once the device is lost.
 */
struct trial_tally crew_try(struct crew *crew, trial_maker *make, void *what, int64_t count, int runs,
                            double deadline);

/* The lane of one of its hands, for trials that the calling thread runs by itself. */
struct lane *crew_lane(struct crew *crew, int hand);

/* Watches over such a trial; NULL: it is over. */
void crew_watch(struct crew *crew, int hand, const struct trial *trial);

/* What else is under way, to be said where a trial does not end. */
void crew_beside(struct crew *crew, const char *text);

/* The number of the first trial that failed last time; -1 where none did. */
int64_t crew_first_failed(const struct crew *crew);

/* Seconds since the program began to ask. */
double crew_seconds(void);

#endif
