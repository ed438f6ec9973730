/* crew.c - many trials at once: see crew.h. */
#include "crew.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MOST_FAILURES_SHOWN 30
#define MOST_THREADS 64

struct hand {
    struct crew *crew;
    struct lane *lane;
    pthread_t thread;
    struct trial trial; /* under way, where began is set; the lock is held to change the two */
    double began;       /* 0: idle */
};

struct crew {
    carat_context *context;
    struct hand hands[MOST_THREADS];
    int count;
    pthread_t watch;
    bool watching;
    pthread_cond_t over;
    bool ends;
    double longest;
    pthread_mutex_t lock;
    int failures_shown;
    char beside[200]; /* what else is under way; "": nothing */
    /* What goes on now. */
    trial_maker *make;
    void *what;
    int64_t trials;
    int runs;
    double deadline;
    atomic_int_fast64_t next;
    atomic_bool lost; /* the device */
    struct trial_tally tally;
    int64_t first_failed;
};

double crew_seconds(void)
{
    static _Atomic int64_t first;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    int64_t none = 0;
    atomic_compare_exchange_strong(&first, &none, nanoseconds);
    return (double)(nanoseconds - atomic_load(&first)) * 1e-9;
}

int crew_threads(int most)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    return processors < 1 ? 1 : processors > most ? most : (int)processors;
}

/* Says what is under way. The lock is held. */
static void print_under_way(const struct crew *crew)
{
    char text[800];
    for (int i = 0; i < crew->count; i++) {
        const struct hand *hand = &crew->hands[i];
        if (hand->began > 0) {
            trial_describe(&hand->trial, text, sizeof(text));
            printf("  under way for %.1f s: %s%s%s\n", crew_seconds() - hand->began, text,
                   *lane_how(hand->lane) ? " | " : "", lane_how(hand->lane));
        }
    }
    if (crew->beside[0]) {
        printf("  beside %s\n", crew->beside);
    }
    fflush(stdout);
}

/* Looks once a second whether a trial hangs. */
static void *watch(void *argument)
{
    struct crew *crew = argument;
    pthread_mutex_lock(&crew->lock);
    while (!crew->ends) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec++;
        pthread_cond_timedwait(&crew->over, &crew->lock, &until);
        for (int i = 0; i < crew->count; i++) {
            if (crew->hands[i].began > 0 && crew_seconds() - crew->hands[i].began > crew->longest) {
                printf("  FAILED: a trial does not end\n");
                print_under_way(crew);
                _exit(3);
            }
        }
    }
    pthread_mutex_unlock(&crew->lock);
    return NULL;
}

static void hand_begin(struct hand *hand, const struct trial *trial)
{
    pthread_mutex_lock(&hand->crew->lock);
    hand->trial = *trial;
    hand->began = crew_seconds() + 1e-9;
    pthread_mutex_unlock(&hand->crew->lock);
}

static void hand_end(struct hand *hand)
{
    pthread_mutex_lock(&hand->crew->lock);
    hand->began = 0;
    pthread_mutex_unlock(&hand->crew->lock);
}

struct lane *crew_lane(struct crew *crew, int hand) { return crew->hands[hand].lane; }

void crew_watch(struct crew *crew, int hand, const struct trial *trial)
{
    if (trial) {
        hand_begin(&crew->hands[hand], trial);
    } else {
        hand_end(&crew->hands[hand]);
    }
}

void crew_beside(struct crew *crew, const char *text)
{
    pthread_mutex_lock(&crew->lock);
    snprintf(crew->beside, sizeof(crew->beside), "%s", text);
    pthread_mutex_unlock(&crew->lock);
}

struct crew *crew_create(carat_context *context, int threads, double longest)
{
    struct crew *crew = calloc(1, sizeof(*crew));
    if (!crew) {
        return NULL;
    }
    crew->context = context;
    crew->longest = longest;
    pthread_mutex_init(&crew->lock, NULL);
    pthread_cond_init(&crew->over, NULL);
    for (; crew->count < threads && crew->count < MOST_THREADS; crew->count++) {
        struct hand *hand = &crew->hands[crew->count];
        hand->crew = crew;
        hand->lane = lane_create(context);
        if (!hand->lane) {
            crew_destroy(crew);
            return NULL;
        }
    }
    crew_seconds();
    crew->watching = pthread_create(&crew->watch, NULL, watch, crew) == 0;
    if (!crew->watching) {
        crew_destroy(crew);
        return NULL;
    }
    return crew;
}

void crew_destroy(struct crew *crew)
{
    if (!crew) {
        return;
    }
    if (crew->watching) {
        pthread_mutex_lock(&crew->lock);
        crew->ends = true;
        pthread_cond_signal(&crew->over);
        pthread_mutex_unlock(&crew->lock);
        pthread_join(crew->watch, NULL);
    }
    for (int i = 0; i < crew->count; i++) {
        lane_destroy(crew->hands[i].lane);
    }
    pthread_cond_destroy(&crew->over);
    pthread_mutex_destroy(&crew->lock);
    free(crew);
}

static void count_outcome(struct crew *crew, const struct trial *trial, int64_t index, enum outcome outcome,
                          const char *why)
{
    char text[800];
    pthread_mutex_lock(&crew->lock);
    crew->tally.passed += outcome == OUTCOME_PASSED;
    crew->tally.skipped += outcome == OUTCOME_SKIPPED;
    crew->tally.failed += outcome == OUTCOME_FAILED;
    if (outcome == OUTCOME_FAILED && (crew->first_failed < 0 || index < crew->first_failed)) {
        crew->first_failed = index;
    }
    if (outcome == OUTCOME_FAILED && crew->failures_shown++ < MOST_FAILURES_SHOWN) {
        trial_describe(trial, text, sizeof(text));
        printf("  failed: number %" PRId64 ": %s: %s\n", index, text, why);
        fflush(stdout);
    }
    pthread_mutex_unlock(&crew->lock);
}

/* By one of the trials under way. */
static void device_lost(struct crew *crew)
{
    pthread_mutex_lock(&crew->lock);
    if (!atomic_exchange(&crew->lost, true)) {
        printf("  FAILED: the device is lost\n");
        print_under_way(crew);
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    struct crew *crew = hand->crew;
    for (;;) {
        int64_t index = atomic_fetch_add(&crew->next, 1);
        if (index >= crew->trials || atomic_load(&crew->lost) ||
            (crew->deadline > 0 && crew_seconds() > crew->deadline)) {
            return NULL;
        }
        struct trial trial;
        char why[1200];
        if (!crew->make(index, crew->what, &trial)) {
            continue;
        }
        hand_begin(hand, &trial);
        enum outcome outcome = lane_try(hand->lane, &trial, crew->runs, why, sizeof(why));
        count_outcome(crew, &trial, index, outcome, why);
        if (outcome == OUTCOME_FAILED && carat_synchronize(crew->context, NULL) == CARAT_DEVICE_LOST) {
            device_lost(crew);
        }
        hand_end(hand);
    }
}

struct trial_tally crew_try(struct crew *crew, trial_maker *make, void *what, int64_t count, int runs,
                            double deadline)
{
    int started = 0;
    crew->make = make;
    crew->what = what;
    crew->trials = count;
    crew->runs = runs;
    crew->deadline = deadline;
    crew->tally = (struct trial_tally){0};
    crew->first_failed = -1;
    atomic_store(&crew->next, 0);
    while (started < crew->count &&
           pthread_create(&crew->hands[started].thread, NULL, work, &crew->hands[started]) == 0) {
        started++;
    }
    if (started == 0) {
        work(&crew->hands[0]);
    }
    for (int i = 0; i < started; i++) {
        pthread_join(crew->hands[i].thread, NULL);
    }
    int64_t begun = atomic_load(&crew->next) - (started ? started : 1); /* each thread drew one too many */
    crew->tally.left_out = (int)(count - begun);
    return crew->tally;
}

int64_t crew_first_failed(const struct crew *crew) { return crew->first_failed; }
