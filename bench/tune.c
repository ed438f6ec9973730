/* tune.c - measures the ways to compute a problem. */
#include "tune.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device.h"
#include "statistics.h"
#include "status.h"

enum { MOST_ROUNDS = 32 };

/*
 * After one trial each, which something else may have held up, ways that took more than this times the fastest are not tried again;
 * then those that are not near it, and after a few all but the closest.
 */
static const double FAR = 1.6;
static const double NEAR = 1.25;
static const double CLOSE = 1.06;
enum { ROUNDS_OF_NEAR = 3 };

/* Before products that take so long are timed the device is kept at work for a while: its clock is then the one that its power leaves. */
static const double LONG_SECONDS = 50e-6;
static const double WARM_SECONDS = 30e-3;

/* ---- Which ways ---- */

struct ways {
    struct candidate *items;
    int count;
    bool failed; /* no memory */
};

/* Few parts one by one, many in steps of about a half: the model's own favourites are not always among them. */
static bool is_tried(int parts)
{
    int step = 1;
    while (step * 4 <= parts) {
        step *= 2;
    }
    return parts <= 4 || parts % step == 0;
}

static void add_way(struct ways *ways, const struct candidate *candidate)
{
    /* Room grows by powers of two, so it is full exactly when count is one. */
    if ((ways->count & (ways->count - 1)) == 0) {
        size_t room = ways->count ? (size_t)ways->count * 2 : 1;
        struct candidate *items = realloc(ways->items, room * sizeof(*items));
        if (!items) {
            ways->failed = true;
            return;
        }
        ways->items = items;
    }
    ways->items[ways->count++] = *candidate;
}

static void gather(void *context, const struct candidate *candidate)
{
    struct ways *ways = context;
    if (is_tried(candidate->parts) && !ways->failed) {
        add_way(ways, candidate);
    }
}

static int by_cycles(const void *x, const void *y)
{
    const struct candidate *first = x;
    const struct candidate *second = y;
    return (first->cycles > second->cycles) - (first->cycles < second->cycles);
}

/* Keeps the cheapest ways, and the cheapest of each row, tiles shared and not, within the slack. */
static int thin_out(struct candidate *ways, int count, const struct tune_options *options)
{
    int kept = 0;
    for (int i = 0; i < count && ways[i].cycles <= options->slack * ways[0].cycles; i++) {
        bool first_of_row = true;
        for (int j = 0; j < kept && first_of_row; j++) {
            bool both_share = (ways[j].stream_tiles > 0) == (ways[i].stream_tiles > 0);
            first_of_row = ways[j].kernel != ways[i].kernel || !both_share;
        }
        if (kept < options->most_ways || first_of_row) {
            ways[kept++] = ways[i];
        }
    }
    return kept;
}

bool tune_is_same_row(const struct problem *problem, const struct candidate *x, const struct candidate *y)
{
    char marks[2][2];
    plan_marks(problem, x, marks[0]);
    plan_marks(problem, y, marks[1]);
    return x->kernel == y->kernel && memcmp(marks[0], marks[1], sizeof(marks[0])) == 0;
}

static bool is_same_way(const struct problem *problem, const struct candidate *x, const struct candidate *y)
{
    return tune_is_same_row(problem, x, y) && x->parts == y->parts && x->stream_tiles == y->stream_tiles;
}

/* What is chosen is tried in any case: of ways that nobody tries one is soon taken for better than it is. */
static void put_choice_first(const struct device_traits *traits, const struct problem *problem,
                             struct ways *ways)
{
    struct candidate choice;
    if (!plan_best(traits, problem, &choice)) {
        return;
    }
    int at = 0;
    while (at < ways->count && !is_same_way(problem, &ways->items[at], &choice)) {
        at++;
    }
    if (at == ways->count) {
        add_way(ways, &choice);
    }
    if (!ways->failed) {
        memmove(&ways->items[1], &ways->items[0], (size_t)at * sizeof(choice));
        ways->items[0] = choice;
    }
}

static carat_status list_ways(const struct device_traits *traits, const struct problem *problem,
                              const struct tune_options *options, struct tuning *tuning)
{
    struct ways ways = {0};
    plan_visit(traits, problem, gather, &ways);
    if (!ways.failed && ways.count > 0) {
        qsort(ways.items, (size_t)ways.count, sizeof(*ways.items), by_cycles);
        ways.count = thin_out(ways.items, ways.count, options);
        put_choice_first(traits, problem, &ways);
    }
    if (!ways.failed && ways.count > 0) {
        tuning->ways = calloc((size_t)ways.count + 1, sizeof(*tuning->ways));
    }
    if (ways.failed || (ways.count > 0 && !tuning->ways)) {
        free(ways.items);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for the ways to compute a problem");
    }
    for (int i = 0; i < ways.count; i++) {
        tuning->ways[i].way = ways.items[i];
    }
    tuning->count = ways.count;
    free(ways.items);
    return tuning->count > 0 ? CARAT_OK : fail(CARAT_UNSUPPORTED, "no kernel of this build does the problem");
}

/* ---- How fast they are ---- */

/* One way, or the library's plan, at work. */
struct runner {
    struct contender *contender;
    bool alive;
    bool always;     /* tried in every round, however slow */
    double estimate; /* of one product */
    struct trials trials;
    double times[MOST_ROUNDS];
    int tried;
    double seconds; /* the median so far */
};

static carat_status try_once(struct stage *stage, const struct workload *workload, struct runner *runner)
{
    double time = 0;
    carat_status status = trials_run(&stage->timer, runner->contender, workload, &runner->trials, &time);
    if (status != CARAT_OK) {
        runner->alive = false;
        runner->seconds = 0;
        return status == CARAT_DEVICE_LOST ? status : CARAT_OK;
    }
    runner->times[runner->tried++] = time;
    double sorted[MOST_ROUNDS];
    memcpy(sorted, runner->times, sizeof(*sorted) * (size_t)runner->tried);
    runner->seconds = median(sorted, runner->tried);
    return CARAT_OK;
}

/* Prepares and runs once, which loads kernels and grows workspace, then once more for an estimate. */
static carat_status start(struct stage *stage, const struct workload *workload, struct runner *runner)
{
    double first = 0;
    carat_status status = runner->contender->functions->prepare(runner->contender, workload);
    if (status == CARAT_OK) {
        status = timer_products(&stage->timer, runner->contender, workload, 0, 1, &first, NULL);
    }
    if (status == CARAT_OK) {
        status = timer_products(&stage->timer, runner->contender, workload, 1, 1, &runner->estimate, NULL);
    }
    runner->alive = status == CARAT_OK;
    return status == CARAT_DEVICE_LOST ? status : CARAT_OK;
}

/* Readies the trials, when workspace is as large as any of the runners wants it. */
static carat_status record(struct stage *stage, const struct workload *workload, double seconds,
                           struct runner *runner)
{
    carat_status status =
        trials_open(&stage->timer, runner->contender, workload, runner->estimate, seconds, &runner->trials);
    runner->alive = status == CARAT_OK;
    return status == CARAT_DEVICE_LOST ? status : CARAT_OK;
}

/* Runs the quickest of long products for a while, and tries it for nothing: what came first behind such a while stood out as slow. */
static carat_status warm_up(struct stage *stage, const struct workload *workload, struct runner *runners,
                            int count)
{
    struct runner *quickest = NULL;
    for (int i = 0; i < count; i++) {
        if (runners[i].alive && (!quickest || runners[i].estimate < quickest->estimate)) {
            quickest = &runners[i];
        }
    }
    if (!quickest || quickest->estimate < LONG_SECONDS) {
        return CARAT_OK;
    }
    double time = 0;
    int products = (int)fmax(1, WARM_SECONDS / quickest->estimate);
    carat_status status =
        timer_products(&stage->timer, quickest->contender, workload, 0, products, &time, NULL);
    if (status == CARAT_OK) {
        status = trials_run(&stage->timer, quickest->contender, workload, &quickest->trials, &time);
    }
    return status == CARAT_DEVICE_LOST ? status : CARAT_OK;
}

/* Whether a way may be the fastest yet, when it has been tried in so many rounds. */
static bool may_win(const struct runner *runner, int rounds, double fastest)
{
    double most = rounds == 0 ? INFINITY : rounds == 1 ? FAR : rounds < ROUNDS_OF_NEAR ? NEAR : CLOSE;
    return runner->always || runner->seconds <= most * fastest;
}

/* Which one is the i-th of a round: each begins with another, and every second goes the other way. */
static int turn_of(int i, int round, int rounds, int count)
{
    int first = (int)((int64_t)round * count / rounds);
    return (first + (round % 2 == 0 ? i : count - 1 - i)) % count;
}

/*
 * Interleaved, round by round; those that are far from the fastest once. Orders differ: the device's clock follows its power within
 * milliseconds, so that what runs behind a way that takes little finds it higher, and what runs behind itself lower.
 */
static carat_status measure_runners(struct stage *stage, const struct workload *workload, double seconds,
                                    int rounds, struct runner *runners, int count)
{
    double fastest = INFINITY;
    for (int i = 0; i < count; i++) {
        CARAT_TRY(start(stage, workload, &runners[i]));
    }
    for (int i = 0; i < count; i++) {
        if (runners[i].alive) {
            CARAT_TRY(record(stage, workload, seconds, &runners[i]));
        }
    }
    CARAT_TRY(warm_up(stage, workload, runners, count));
    for (int round = 0; round < rounds && round < MOST_ROUNDS; round++) {
        for (int i = 0; i < count; i++) {
            struct runner *runner = &runners[turn_of(i, round, rounds, count)];
            if (runner->alive && may_win(runner, round, fastest)) {
                CARAT_TRY(try_once(stage, workload, runner));
            }
        }
        fastest = INFINITY;
        for (int i = 0; i < count; i++) {
            fastest = runners[i].alive ? fmin(fastest, runners[i].seconds) : fastest;
        }
    }
    return CARAT_OK;
}

static void close_runners(struct stage *stage, struct runner *runners, int count)
{
    for (int i = 0; i < count; i++) {
        trials_close(&stage->timer, &runners[i].trials);
        contender_close(runners[i].contender);
    }
    free(runners);
}

static int by_seconds(const void *x, const void *y)
{
    double first = ((const struct tuned_way *)x)->seconds;
    double second = ((const struct tuned_way *)y)->seconds;
    first = first > 0 ? first : INFINITY;
    second = second > 0 ? second : INFINITY;
    return (first > second) - (first < second);
}

static carat_status measure_ways(struct stage *stage, const struct workload *workload,
                                 const struct tune_options *options, struct tuning *tuning)
{
    int count = tuning->count + 1;
    struct runner *runners = calloc((size_t)count, sizeof(*runners));
    if (!runners) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d ways", count);
    }
    carat_status status = contender_open_carat(&stage->place, "carat", &runners[tuning->count].contender);
    runners[tuning->count].always = true;
    for (int i = 0; i < tuning->count && status == CARAT_OK; i++) {
        status = contender_open_way(&stage->place, &tuning->ways[i].way, &runners[i].contender);
    }
    if (status == CARAT_OK) {
        status = measure_runners(stage, workload, options->seconds, options->rounds, runners, count);
    }
    if (status == CARAT_OK) {
        const struct runner *plan = &runners[tuning->count];
        tuning->plan_seconds = plan->seconds;
        snprintf(tuning->plan, sizeof(tuning->plan), "%s", plan->contender->plan);
        for (int i = 0; i < tuning->count; i++) {
            tuning->ways[i].seconds = runners[i].seconds;
        }
        qsort(tuning->ways, (size_t)tuning->count, sizeof(*tuning->ways), by_seconds);
    }
    close_runners(stage, runners, count);
    return status;
}

carat_status tune_has_ways(const struct stage *stage)
{
    return stage->place.cuda ? CARAT_OK : fail(CARAT_UNSUPPORTED, "the CPU has one way to compute a product");
}

carat_status tune_problem(struct stage *stage, const carat_gemm_problem *problem,
                          const struct tune_options *options, struct tuning *tuning)
{
    *tuning = (struct tuning){0};
    CARAT_TRY(tune_has_ways(stage));
    struct problem checked;
    struct workload workload;
    CARAT_TRY(problem_check(problem, &checked));
    problem_simplify(&checked);
    CARAT_TRY(list_ways(&stage->place.device->traits, &checked, options, tuning));
    CARAT_TRY(workload_open(&stage->arena, problem, &workload));
    return measure_ways(stage, &workload, options, tuning);
}

carat_status tune_way(struct stage *stage, const struct workload *workload, const struct candidate *way,
                      const enum step_kind *only, double seconds, int trials, double *median_seconds)
{
    struct runner *runner = calloc(1, sizeof(*runner));
    *median_seconds = 0;
    if (!runner) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a way");
    }
    carat_status status = only ? contender_open_step(&stage->place, way, *only, &runner->contender)
                               : contender_open_way(&stage->place, way, &runner->contender);
    if (status == CARAT_OK) {
        status = measure_runners(stage, workload, seconds, trials, runner, 1);
    }
    *median_seconds = runner->seconds;
    close_runners(stage, runner, 1);
    return status;
}

carat_status tune_ways(struct stage *stage, const struct workload *workload, struct tuned_way *ways,
                       int count, double seconds, int rounds)
{
    struct runner *runners = calloc((size_t)count, sizeof(*runners));
    carat_status status = runners ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d ways", count);
    for (int i = 0; i < count && status == CARAT_OK; i++) {
        status = contender_open_way(&stage->place, &ways[i].way, &runners[i].contender);
    }
    if (status == CARAT_OK) {
        status = measure_runners(stage, workload, seconds, rounds, runners, count);
    }
    for (int i = 0; i < count; i++) {
        ways[i].seconds = runners ? runners[i].seconds : 0;
    }
    if (runners) {
        close_runners(stage, runners, count);
    }
    return status;
}

carat_status tune_list(const struct device_traits *traits, const struct problem *problem,
                       const struct tune_options *options, struct tuning *tuning)
{
    *tuning = (struct tuning){0};
    return list_ways(traits, problem, options, tuning);
}

void tuning_free(struct tuning *tuning)
{
    free(tuning->ways);
    *tuning = (struct tuning){0};
}
