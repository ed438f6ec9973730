/* timer.c - times regions of work. */
#include "timer.h"

#include <time.h>

#include "cuda/cuda.h"
#include "status.h"

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

carat_status timer_open(struct place *place, struct meter *meter, struct timer *timer)
{
    *timer = (struct timer){.place = place, .meter = meter};
    if (!place->cuda) {
        return CARAT_OK;
    }
    CARAT_TRY(cuda_event_create(place->device, &timer->begin));
    carat_status status = cuda_event_create(place->device, &timer->end);
    if (status != CARAT_OK) {
        timer_close(timer);
    }
    return status;
}

void timer_close(struct timer *timer)
{
    if (timer->place && timer->place->cuda) {
        carat_release(timer->place->context, timer->filler);
        cuda_event_destroy(timer->place->device, timer->begin);
        cuda_event_destroy(timer->place->device, timer->end);
    }
    *timer = (struct timer){0};
}

static carat_status put_calls(timed_call *call, void *context, int calls)
{
    for (int i = 0; i < calls; i++) {
        CARAT_TRY(call(context, i));
    }
    return CARAT_OK;
}

carat_status timer_region(struct timer *timer, timed_call *call, void *context, int calls, double *seconds,
                          struct reading *reading)
{
    struct place *place = timer->place;
    if (!place->cuda) {
        double begin = now_seconds();
        CARAT_TRY(put_calls(call, context, calls));
        *seconds = now_seconds() - begin;
        if (reading) {
            *reading = (struct reading){0};
        }
        return CARAT_OK;
    }
    CARAT_TRY(cuda_event_record(place->device, timer->begin, place->stream));
    CARAT_TRY(put_calls(call, context, calls));
    CARAT_TRY(cuda_event_record(place->device, timer->end, place->stream));
    if (reading) {
        *reading = timer->meter ? meter_read(timer->meter) : (struct reading){0};
    }
    float milliseconds = 0;
    CARAT_TRY(cuda_event_elapsed_ms(place->device, timer->begin, timer->end, &milliseconds));
    *seconds = (double)milliseconds / 1e3;
    return CARAT_OK;
}

struct products {
    struct contender *contender;
    const struct workload *workload;
    int first;
};

static carat_status run_product(void *context, int i)
{
    struct products *products = context;
    int set = (products->first + i) % products->workload->sets;
    return products->contender->functions->run(products->contender, products->workload, set);
}

carat_status timer_products(struct timer *timer, struct contender *contender, const struct workload *workload,
                            int first, int calls, double *seconds, struct reading *reading)
{
    struct products products = {contender, workload, first};
    return timer_region(timer, run_product, &products, calls, seconds, reading);
}

carat_status timer_host(struct timer *timer, struct contender *contender, const struct workload *workload,
                        int calls, double *seconds)
{
    struct place *place = timer->place;
    struct products products = {contender, workload, 0};
    CARAT_TRY(carat_synchronize(place->context, place->stream));
    if (place->cuda) {
        CARAT_TRY(cuda_enter(place->device));
    }
    double begin = now_seconds();
    carat_status status = put_calls(run_product, &products, calls);
    *seconds = (now_seconds() - begin) / calls;
    if (place->cuda) {
        cuda_leave(place->device);
    }
    CARAT_TRY(status);
    return carat_synchronize(place->context, place->stream);
}

carat_status timer_capture(struct timer *timer, struct contender *contender, const struct workload *workload,
                           int calls, void **graph)
{
    struct place *place = timer->place;
    struct products products = {contender, workload, 0};
    *graph = NULL;
    CARAT_TRY(cuda_capture_begin(place->device, place->stream));
    carat_status status = put_calls(run_product, &products, calls);
    /* The recording is ended whatever came of the calls: the stream must be usable again. */
    carat_status end_status = cuda_capture_end(place->device, place->stream, graph);
    if (status != CARAT_OK) {
        cuda_graph_destroy(place->device, *graph);
        *graph = NULL;
        return status;
    }
    return end_status;
}

struct replay {
    struct place *place;
    void *graph;
};

static carat_status launch_graph(void *context, int i)
{
    (void)i;
    struct replay *replay = context;
    return cuda_graph_launch(replay->place->device, replay->graph, replay->place->stream);
}

carat_status timer_replay(struct timer *timer, void *graph, double *seconds)
{
    struct replay replay = {timer->place, graph};
    return timer_region(timer, launch_graph, &replay, 1, seconds, NULL);
}

/* The last cache is emptied by filling twice as much memory as it holds, taken once, before anything is recorded. */
static size_t filler_bytes(const struct timer *timer) { return 2 * (size_t)timer->place->info.l2_bytes; }

static carat_status have_filler(struct timer *timer)
{
    size_t bytes = filler_bytes(timer);
    return timer->filler || bytes == 0
               ? CARAT_OK
               : carat_allocate(timer->place->context, CARAT_MEMORY_DEVICE, bytes, &timer->filler);
}

carat_status trials_open(struct timer *timer, struct contender *contender, const struct workload *workload,
                         double estimate, double budget, struct trials *trials)
{
    static const double short_seconds = 100e-6;
    enum { MOST_CALLS = 64 };
    int calls = (int)(budget / (estimate > 1e-7 ? estimate : 1e-7));
    *trials = (struct trials){.calls = calls < 1 ? 1 : calls > MOST_CALLS ? MOST_CALLS : calls};
    if (!timer->place->cuda || estimate >= short_seconds) {
        return CARAT_OK;
    }
    double upload;
    CARAT_TRY(have_filler(timer));
    carat_status status = timer_capture(timer, contender, workload, trials->calls, &trials->graph);
    if (trials->graph) {
        status = timer_replay(timer, trials->graph, &upload);
    }
    /* What cannot be recorded can still be called. */
    return status == CARAT_DEVICE_LOST || trials->graph ? status : CARAT_OK;
}

void trials_close(struct timer *timer, struct trials *trials)
{
    if (trials->graph) {
        cuda_graph_destroy(timer->place->device, trials->graph);
    }
    *trials = (struct trials){0};
}

/* Fills the last cache, in the order of the stream. */
static carat_status empty_cache(struct timer *timer)
{
    return timer->filler ? place_memset(timer->place, timer->filler, 0, filler_bytes(timer)) : CARAT_OK;
}

carat_status trials_run(struct timer *timer, struct contender *contender, const struct workload *workload,
                        const struct trials *trials, double *seconds)
{
    if (trials->graph) {
        CARAT_TRY(empty_cache(timer));
    }
    carat_status status = trials->graph
                              ? timer_replay(timer, trials->graph, seconds)
                              : timer_products(timer, contender, workload, 0, trials->calls, seconds, NULL);
    *seconds /= trials->calls;
    return status;
}

carat_status timer_trial(struct timer *timer, struct contender *contender, const struct workload *workload,
                         double estimate, double budget, double *seconds)
{
    struct trials trials;
    carat_status status = trials_open(timer, contender, workload, estimate, budget, &trials);
    if (status == CARAT_OK) {
        status = trials_run(timer, contender, workload, &trials, seconds);
    }
    trials_close(timer, &trials);
    return status;
}
