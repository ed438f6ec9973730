/* measure.c - checks contenders on a problem and times them in turn. */
#include "measure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cuda.h"
#include "statistics.h"
#include "status.h"

enum { MOST_CALLS = 4096 };

/* A region should last this long, and go round all sets unless that takes as long as the second. */
static const double REGION_SECONDS = 0.5e-3;
static const double LONG_REGION_SECONDS = 20e-3;

/* What a core of the CPU does at the least, in operations a second: to foresee calls without an end. */
static const double SLOW_CORE = 8e9;

/* A region that takes longer is not repeated; the longest turn, of whole calls, may be as long. */
static const double LONGEST_REPEATED = 2 * MEASURE_LONGEST_TURN;

/* Calls whose host time is taken together, no more of them than a launch queue takes in; and how often. */
enum { MOST_HOST_CALLS = 64, FEWEST_HOST_CALLS = 8, HOST_BATCHES = 9 };

/* A batch keeps the device for about this long; of products that alone take longer the host's time is nothing. */
static const double HOST_BATCH_SECONDS = 1e-3;

/* How long the device works before the first timed round, for its clocks. */
static const double WARM_SECONDS = 20e-3;

carat_status stage_open(carat_device_kind kind, int index, struct stage *stage)
{
    *stage = (struct stage){0};
    CARAT_TRY(place_open(kind, index, &stage->place));
    stage->arena.place = &stage->place;
    meter_open(&stage->place, &stage->meter);
    carat_status status = timer_open(&stage->place, &stage->meter, &stage->timer);
    if (status != CARAT_OK) {
        stage_close(stage);
    }
    return status;
}

void stage_close(struct stage *stage)
{
    if (stage->place.context) {
        arena_free(&stage->arena);
        timer_close(&stage->timer);
        meter_close(&stage->meter);
        place_close(&stage->place);
    }
}

double result_seconds(const struct result *result)
{
    double time = result->time_us;
    if (result->graph_time_us > 0 && result->graph_time_us < time) {
        time = result->graph_time_us;
    }
    return time / 1e6;
}

/* One contender at work on the problem. */
struct entry {
    struct contender *contender;
    struct stage *stage;
    struct workload workload;
    struct result *result;
    bool alive; /* right so far, and to be timed */
    int calls;
    int rounds;
    int rounds_done;
    void *graph;
    double times[MEASURE_MOST_ROUNDS];
    double graph_times[MEASURE_MOST_ROUNDS];
    double clocks[MEASURE_MOST_ROUNDS];
    double powers[MEASURE_MOST_ROUNDS];
};

/* Puts a contender out, for the last message; a lost device ends it all. */
static carat_status put_out(struct entry *entry, carat_status status, enum outcome if_unsupported)
{
    if (status == CARAT_DEVICE_LOST || status == CARAT_OUT_OF_HOST_MEMORY) {
        return status;
    }
    entry->alive = false;
    entry->result->outcome = status == CARAT_UNSUPPORTED ? if_unsupported : OUTCOME_FAILED;
    snprintf(entry->result->reason, sizeof(entry->result->reason), "%.290s", carat_last_message());
    return CARAT_OK;
}

/* Of the libraries that Carat is measured against. */
static bool is_peer(const struct contender *contender)
{
    return strncmp(contender->name, "cublas", strlen("cublas")) == 0;
}

/* Compares D with the references, or with what the contender's epilogue makes of them. */
static carat_status compare(const struct entry *entry, const struct references *references,
                            struct verdict *verdict)
{
    const struct epilogue *epilogue = entry->contender->epilogue;
    struct references own = *references;
    const carat_gemm_problem *problem =
        &entry->workload.problem; /* may ask for another accuracy than the others */
    enum accuracy_family family = entry->workload.arena->family;
    own.ulps = reference_ulps_on(problem, family);
    if (is_peer(entry->contender)) {
        own.ulps = fmax(own.ulps, reference_peer_ulps(problem, family));
    }
    if (!epilogue) {
        return workload_check(&entry->workload, &own, verdict);
    }
    struct references finished;
    CARAT_TRY(references_finish(&own, &entry->workload, epilogue, &finished));
    carat_status status = workload_check(&entry->workload, &finished, verdict);
    references_free(&finished);
    return status;
}

static carat_status check(struct entry *entry, const struct references *references)
{
    struct contender *contender = entry->contender;
    struct place *place = contender->place;
    struct result *result = entry->result;
    double begin = now_seconds();
    CARAT_TRY(contender->functions->prepare(contender, &entry->workload));
    double prepare_seconds = now_seconds() - begin;
    snprintf(result->plan, sizeof(result->plan), "%s", contender->plan);
    result->launches = contender->launches;
    CARAT_TRY(workload_poison(&entry->workload));
    CARAT_TRY(carat_synchronize(place->context, place->stream));
    uint64_t safe_before;
    CARAT_TRY(carat_count_safe(place->context, &safe_before));
    begin = now_seconds();
    CARAT_TRY(contender->functions->run(contender, &entry->workload, 0));
    CARAT_TRY(carat_synchronize(place->context, place->stream));
    result->first_call_us = (prepare_seconds + now_seconds() - begin) * 1e6;
    uint64_t safe_after;
    CARAT_TRY(carat_count_safe(place->context, &safe_after));
    const carat_gemm_problem *problem = &entry->workload.problem;
    result->safe_share = (double)(safe_after - safe_before) /
                         ((double)problem->m * (double)problem->n * (double)problem->batch);
    struct verdict verdict;
    CARAT_TRY(compare(entry, references, &verdict));
    result->error = verdict.error;
    if (!verdict.right) {
        entry->alive = false;
        result->outcome = OUTCOME_WRONG;
        snprintf(result->reason, sizeof(result->reason), "%s", verdict.why);
    }
    return CARAT_OK;
}

/* How many calls make a region: round all sets, and more where that is short, or the turn long; fewer where it is long. */
static int calls_of_region(double one, int sets, double turn)
{
    int passes = 1 + (int)(fmax(REGION_SECONDS, turn) / (one * sets));
    double calls = (double)sets * passes;
    double most = fmax(LONG_REGION_SECONDS, turn);
    if (one * calls > most) {
        calls = turn > 0 ? ceil(most / one) : most / one;
    }
    return calls < 1 ? 1 : calls > MOST_CALLS ? MOST_CALLS : (int)calls;
}

/* The host's time in a call, of a product that takes the device `one` second. */
static carat_status time_host(struct entry *entry, double one)
{
    double times[HOST_BATCHES];
    if (one > HOST_BATCH_SECONDS) {
        return CARAT_OK;
    }
    int calls = (int)fmax(FEWEST_HOST_CALLS, fmin(HOST_BATCH_SECONDS / one, MOST_HOST_CALLS));
    for (int i = 0; i < HOST_BATCHES; i++) {
        CARAT_TRY(timer_host(&entry->stage->timer, entry->contender, &entry->workload, calls, &times[i]));
    }
    entry->result->host_us = median(times, HOST_BATCHES) * 1e6;
    return CARAT_OK;
}

/* Sizes the regions, records the graph, warms up, and times the host. */
static carat_status make_ready(struct entry *entry, const struct measure_options *options)
{
    struct timer *timer = &entry->stage->timer;
    bool cuda = entry->stage->place.cuda;
    int sets = entry->workload.sets;
    int probes = sets < 3 ? sets : 3;
    double one = 0;
    CARAT_TRY(timer_products(timer, entry->contender, &entry->workload, 0, probes, &one, NULL));
    one = one / probes > 1e-7 ? one / probes : 1e-7;
    entry->calls = calls_of_region(one, sets, options->turn);
    double region = one * entry->calls;
    if (region > LONGEST_REPEATED) { /* this was the one run that there is time for */
        entry->calls = 1;
        entry->times[0] = one * 1e6;
        entry->rounds_done = entry->rounds = 1;
        return CARAT_OK;
    }
    double rounds = options->seconds / (region * (cuda ? 2 : 1));
    int most = options->rounds < MEASURE_MOST_ROUNDS ? options->rounds : MEASURE_MOST_ROUNDS;
    int fewest = most < 3 ? most : 3;
    entry->rounds = rounds > most ? most : rounds < fewest ? fewest : (int)rounds;
    if (!cuda) {
        return CARAT_OK;
    }
    carat_status status =
        timer_capture(timer, entry->contender, &entry->workload, entry->calls, &entry->graph);
    if (status == CARAT_DEVICE_LOST) {
        return status;
    }
    if (status != CARAT_OK) { /* it is timed without a graph, and the reader is told */
        snprintf(entry->result->reason, sizeof(entry->result->reason), "no graph: %.280s",
                 carat_last_message());
    }
    double warm = 0;
    for (int i = 0; i < 64 && warm < WARM_SECONDS; i++) {
        double seconds = 0;
        CARAT_TRY(timer_products(timer, entry->contender, &entry->workload, 0, entry->calls, &seconds, NULL));
        warm += seconds;
    }
    if (entry->graph) { /* the first replay uploads it */
        double seconds = 0;
        CARAT_TRY(timer_replay(timer, entry->graph, &seconds));
    }
    return time_host(entry, one);
}

static carat_status one_round(struct entry *entry)
{
    int round = entry->rounds_done++;
    struct timer *timer = &entry->stage->timer;
    struct reading reading;
    double seconds = 0;
    int first = (int)((int64_t)round * entry->calls % entry->workload.sets);
    CARAT_TRY(
        timer_products(timer, entry->contender, &entry->workload, first, entry->calls, &seconds, &reading));
    entry->times[round] = seconds / entry->calls * 1e6;
    entry->clocks[round] = reading.sm_clock_mhz;
    entry->powers[round] = reading.power_w;
    if (entry->graph) {
        CARAT_TRY(timer_replay(timer, entry->graph, &seconds));
        entry->graph_times[round] = seconds / entry->calls * 1e6;
    }
    return CARAT_OK;
}

static void conclude(struct entry *entry)
{
    struct result *result = entry->result;
    int rounds = entry->rounds;
    result->time_us = median(entry->times, rounds);
    result->spread =
        (entry->times[rounds - 1] - entry->times[0]) / result->time_us; /* median() has sorted them */
    result->graph_time_us = entry->graph ? median(entry->graph_times, rounds) : 0;
    result->sm_clock_mhz = median(entry->clocks, rounds);
    result->power_w = median(entry->powers, rounds);
    result->rounds = rounds;
    result->calls = entry->calls;
}

/* A CPU that would be at it for minutes is not begun with. */
static carat_status foresee(const struct entry *entry, const struct measure_options *options)
{
    const struct place *place = &entry->stage->place;
    double cores = place->info.multiprocessors > 0 ? place->info.multiprocessors : 1;
    double seconds = workload_operations(&entry->workload.problem) / (SLOW_CORE * cores);
    if (!place->cuda && seconds > 10 * options->seconds) {
        return fail(CARAT_UNSUPPORTED, "too large for the CPU in the time given (it may take %.0f s)",
                    seconds);
    }
    return CARAT_OK;
}

static carat_status measure_entries(struct entry *entries, int count, const struct references *references,
                                    const struct measure_options *options)
{
    int most = 0;
    for (int i = 0; i < count; i++) {
        if (entries[i].alive) {
            carat_status status = check(&entries[i], references);
            if (status == CARAT_OK && entries[i].alive) {
                status = make_ready(&entries[i], options);
            }
            if (status != CARAT_OK) {
                CARAT_TRY(put_out(&entries[i], status, OUTCOME_CANNOT));
            }
        }
        most = entries[i].alive && entries[i].rounds > most ? entries[i].rounds : most;
    }
    for (int round = 0; round < most; round++) {
        for (int i = 0; i < count; i++) {
            if (!entries[i].alive || entries[i].rounds_done >= entries[i].rounds) {
                continue;
            }
            carat_status status = one_round(&entries[i]);
            if (status != CARAT_OK) {
                CARAT_TRY(put_out(&entries[i], status, OUTCOME_CANNOT));
            }
        }
    }
    for (int i = 0; i < count; i++) {
        if (entries[i].alive) {
            conclude(&entries[i]);
        }
    }
    return CARAT_OK;
}

static struct stage *stage_of(struct stage *const *stages, int count, const struct place *place)
{
    for (int i = 0; i < count; i++) {
        if (&stages[i]->place == place) {
            return stages[i];
        }
    }
    return NULL;
}

/* Lays out the operands in each place that has a contender for them. */
static carat_status open_workloads(struct stage *const *stages, int stage_count,
                                   struct contender *const *contenders, const carat_gemm_problem *problem,
                                   const struct measure_options *options, struct entry *entries, int count)
{
    for (int i = 0; i < count; i++) {
        struct entry *entry = &entries[i];
        entry->contender = contenders[i];
        entry->stage = stage_of(stages, stage_count, contenders[i]->place);
        if (!entry->stage) {
            return fail(CARAT_INVALID_ARGUMENT, "%s runs in none of the stages", contenders[i]->name);
        }
        entry->alive = true;
        entry->stage->arena.family = options->input;
        carat_gemm_problem own = *problem;
        if (contenders[i]->asks) {
            own.accuracy = contenders[i]->asked;
        }
        entry->workload.problem = own;
        carat_status status = foresee(entry, options);
        if (status == CARAT_OK) {
            status = workload_open(&entry->stage->arena, &own, &entry->workload);
        }
        if (status != CARAT_OK) {
            CARAT_TRY(put_out(entry, status, OUTCOME_SKIPPED));
        }
    }
    return CARAT_OK;
}

carat_status measure_problem(struct stage *const *stages, int stage_count,
                             struct contender *const *contenders, int count,
                             const carat_gemm_problem *problem, const struct measure_options *options,
                             struct result *results)
{
    struct entry *entries = calloc((size_t)count + 1, sizeof(*entries));
    if (!entries) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d contenders", count);
    }
    for (int i = 0; i < count; i++) {
        results[i] = (struct result){0};
        entries[i].result = &results[i];
    }
    carat_status status = open_workloads(stages, stage_count, contenders, problem, options, entries, count);
    const struct workload *known = NULL; /* all places hold the same numbers */
    for (int i = 0; i < count && !known; i++) {
        known = entries[i].alive ? &entries[i].workload : NULL;
    }
    if (status == CARAT_OK && known) {
        struct references references;
        status = references_compute(known, options->check_budget, &references);
        if (status == CARAT_OK) {
            status = measure_entries(entries, count, &references, options);
            references_free(&references);
        }
    }
    for (int i = 0; i < count; i++) {
        if (entries[i].contender) {
            if (entries[i].graph) {
                cuda_graph_destroy(entries[i].stage->place.device, entries[i].graph);
            }
            contenders[i]->functions->unprepare(contenders[i]);
        }
    }
    free(entries);
    return status;
}
