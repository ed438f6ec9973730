/* share.c - see share.h. */
#include "share.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* A thread takes at least so many elements at a time, lest it be busier with taking than with working. */
enum { MOST_THREADS = 64, ELEMENTS_AT_A_TIME = 1 << 15 };

struct job {
    share_work *work;
    const void *context;
    int64_t count;
    int64_t at_a_time;
    atomic_int_least64_t next;
};

static void *do_shares(void *argument)
{
    struct job *job = (struct job *)argument;
    for (;;) {
        int64_t begin = atomic_fetch_add(&job->next, job->at_a_time);
        if (begin >= job->count) {
            return NULL;
        }
        int64_t left = job->count - begin;
        job->work(job->context, begin, begin + (left < job->at_a_time ? left : job->at_a_time));
    }
}

void share_out(int64_t count, int64_t elements, share_work *work, const void *context)
{
    int64_t at_a_time = ELEMENTS_AT_A_TIME / (elements > 0 ? elements : 1);
    struct job job = {work, context, count, at_a_time > 0 ? at_a_time : 1, 0};
    int64_t shares = (count + job.at_a_time - 1) / job.at_a_time;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MOST_THREADS];
    int started = 0;
    /* This thread is one of them; one that cannot be started leaves its shares to the others. */
    while (started < MOST_THREADS && started + 1 < processors && started + 1 < shares &&
           pthread_create(&threads[started], NULL, do_shares, &job) == 0) {
        started++;
    }
    do_shares(&job);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}
