/* bench_host.c - how long a product takes whose matrices lie in host memory. */
#include "bench_host.h"

#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "statistics.h"
#include "status.h"

enum { RUNS = 5 };

/* What staging from pageable memory is held against, in bytes a second. */
static const double STAGING_RATE = 20e9;

struct link {
    struct place *place;
    void *to;
    const void *from;
    size_t bytes;
};

static carat_status run_copy(void *context, int i)
{
    (void)i;
    struct link *link = context;
    return carat_copy(link->place->context, link->to, link->from, link->bytes, link->place->stream);
}

/* Bytes a second of a copy, the best of a few. */
static carat_status link_rate(struct timer *timer, void *to, const void *from, size_t bytes, double *rate)
{
    struct link link = {timer->place, to, from, bytes};
    *rate = 0;
    for (int i = 0; i < 4; i++) {
        double seconds = 0;
        CARAT_TRY(timer_region(timer, run_copy, &link, 1, &seconds, NULL));
        double one = (double)bytes / seconds;
        *rate = one > *rate ? one : *rate;
    }
    return CARAT_OK;
}

struct limits {
    double compute_seconds;
    double in_rate;
    double out_rate;
};

/* The compute time of the product with its operands on the device. */
static carat_status compute_seconds(struct stage *stage, const carat_gemm_problem *problem, double *seconds)
{
    struct contender *contender = NULL;
    struct workload workload;
    CARAT_TRY(workload_open(&stage->arena, problem, &workload));
    CARAT_TRY(contender_open_carat(&stage->place, "carat", &contender));
    carat_status status = contender->functions->prepare(contender, &workload);
    double times[3] = {0};
    for (int i = -1; i < 3 && status == CARAT_OK; i++) {
        status = timer_products(&stage->timer, contender, &workload, 0, 1, &times[i < 0 ? 0 : i], NULL);
    }
    contender_close(contender);
    *seconds = median(times, 3);
    return status;
}

/* One kind of memory: all three matrices in it, filled, multiplied a few times, checked. */
struct host_case {
    const char *name;
    bool pinned;
};

static carat_status get_memory(struct place *place, bool pinned, size_t bytes, void **pointer)
{
    if (pinned) {
        return carat_allocate(place->context, CARAT_MEMORY_PINNED, bytes, pointer);
    }
    *pointer = malloc(bytes);
    return *pointer ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %zu bytes", bytes);
}

static void put_memory(struct place *place, bool pinned, void *pointer)
{
    if (pinned) {
        carat_release(place->context, pointer);
    } else {
        free(pointer);
    }
}

static void tile_memory(void *pointer, const float *tile, int64_t count)
{
    for (int64_t at = 0; at < count; at += RANDOM_PERIOD) {
        int64_t length = count - at < RANDOM_PERIOD ? count - at : RANDOM_PERIOD;
        memcpy((float *)pointer + at, tile, (size_t)length * sizeof(float));
    }
}

/* times[0] is the first call's. */
static carat_status run_products(struct place *place, const carat_gemm_problem *problem,
                                 void *const *matrices, double *times)
{
    float one = 1;
    float zero = 0;
    carat_run how = {.stream = place->stream};
    for (int i = 0; i < RUNS; i++) {
        double begin = now_seconds();
        CARAT_TRY(carat_gemm(place->context, problem, &one, matrices[0], matrices[1], &zero, NULL,
                             matrices[2], &how));
        times[i] = now_seconds() - begin;
    }
    return CARAT_OK;
}

static carat_status run_case(struct stage *stage, const struct host_case *host,
                             const carat_gemm_problem *problem, const float *tile, double *times,
                             struct verdict *verdict)
{
    struct place *place = &stage->place;
    int64_t count = problem->m * problem->n;
    size_t bytes = (size_t)count * sizeof(float);
    void *matrices[3] = {NULL, NULL, NULL};
    carat_status status = CARAT_OK;
    for (int i = 0; i < 3 && status == CARAT_OK; i++) {
        status = get_memory(place, host->pinned, bytes, &matrices[i]);
    }
    if (status == CARAT_OK) {
        tile_memory(matrices[0], tile, count);
        tile_memory(matrices[1], tile, count);
        memset(matrices[2], 0xff, bytes);
        status = run_products(place, problem, matrices, times);
    }
    struct reference reference = {0};
    struct source source = {CARAT_F32, tile, 0, RANDOM_PERIOD};
    if (status == CARAT_OK) {
        status = reference_compute(problem, 0, &source, &source, 1 << 26, &reference);
    }
    if (status == CARAT_OK) {
        *verdict = reference_compare(&reference, matrices[2], 32);
    }
    reference_free(&reference);
    for (int i = 0; i < 3; i++) {
        put_memory(place, host->pinned, matrices[i]);
    }
    return status;
}

static void report(const struct host_case *host, int64_t n, const struct limits *limits,
                   const struct verdict *verdict, double *times, FILE *json, FILE *table)
{
    double bytes = (double)n * (double)n * sizeof(float);
    double in_seconds = host->pinned ? 2 * bytes / limits->in_rate : 2 * bytes / STAGING_RATE;
    double out_seconds = host->pinned ? bytes / limits->out_rate : bytes / STAGING_RATE;
    /* Pinned memory is copied both ways at once; pageable memory is staged by one host. */
    double copies =
        host->pinned ? (in_seconds > out_seconds ? in_seconds : out_seconds) : in_seconds + out_seconds;
    double floor = copies > limits->compute_seconds ? copies : limits->compute_seconds;
    double first = times[0];
    double later = median(times + 1, RUNS - 1);
    fprintf(table, "%-9s %s", host->name, verdict->right ? "" : "wrong: ");
    if (verdict->right) {
        fprintf(table,
                "%8.1f ms (first %8.1f ms), %.3f of the larger of copies %.1f ms and compute %.1f ms\n",
                later * 1e3, first * 1e3, later / floor, copies * 1e3, limits->compute_seconds * 1e3);
    } else {
        fprintf(table, "%s\n", verdict->why);
    }
    if (!json) {
        return;
    }
    json_t *line = json_pack("{s:s, s:s, s:s, s:I, s:s}", "kind", "host", "memory", host->name, "dtype",
                             "f32", "n", (json_int_t)n, "outcome", verdict->right ? "timed" : "wrong");
    json_object_set_new(line, "time_us", json_known(verdict->right ? later * 1e6 : 0));
    json_object_set_new(line, "first_call_us", json_known(verdict->right ? first * 1e6 : 0));
    json_object_set_new(line, "copy_in_us", json_known(in_seconds * 1e6));
    json_object_set_new(line, "copy_out_us", json_known(out_seconds * 1e6));
    json_object_set_new(line, "copies_us", json_known(copies * 1e6));
    json_object_set_new(line, "compute_us", json_known(limits->compute_seconds * 1e6));
    json_object_set_new(line, "over_larger", json_known(verdict->right ? later / floor : 0));
    json_object_set_new(line, "over_copies", json_known(verdict->right ? later / copies : 0));
    json_object_set_new(line, "error", json_known(verdict->error));
    report_line(json, line);
    json_decref(line);
}

static carat_status measure_limits(struct stage *stage, const carat_gemm_problem *problem,
                                   struct limits *limits)
{
    struct place *place = &stage->place;
    CARAT_TRY(compute_seconds(stage, problem, &limits->compute_seconds));
    size_t bytes = (size_t)(problem->m * problem->n) * sizeof(float);
    bytes = bytes < ((size_t)256 << 20) ? bytes : (size_t)256 << 20;
    void *pinned = NULL;
    CARAT_TRY(carat_allocate(place->context, CARAT_MEMORY_PINNED, bytes, &pinned));
    memset(pinned, 1, bytes);
    /* The arena's output is free for anything now. */
    carat_status status = link_rate(&stage->timer, stage->arena.outputs, pinned, bytes, &limits->in_rate);
    if (status == CARAT_OK) {
        status = link_rate(&stage->timer, pinned, stage->arena.outputs, bytes, &limits->out_rate);
    }
    carat_release(place->context, pinned);
    arena_free(&stage->arena);
    return status;
}

int bench_host(struct stage *stage, int64_t n, FILE *json, FILE *table)
{
    static const struct host_case cases[] = {{"pinned", true}, {"pageable", false}};
    if (!stage->place.cuda) {
        fprintf(table, "skipped: no CUDA device, so there is no copying to measure\n");
        return 0;
    }
    if (json) {
        json_t *head = report_head(&stage->place, NULL, 0, NULL);
        report_line(json, head);
        json_decref(head);
    }
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, n, n, n);
    problem.lda = problem.ldb = problem.ldc = problem.ldd = n;
    struct limits limits = {0};
    void *tile = NULL;
    carat_status status = make_random_tile(CARAT_F32, &tile);
    if (status == CARAT_OK) {
        status = measure_limits(stage, &problem, &limits);
    }
    if (status == CARAT_OK) {
        fprintf(table, "%s, f32 %lld x %lld x %lld; link %.1f GB/s in, %.1f GB/s out\n",
                stage->place.info.name, (long long)n, (long long)n, (long long)n, limits.in_rate * 1e-9,
                limits.out_rate * 1e-9);
    }
    bool right = true;
    for (int i = 0; i < 2 && status == CARAT_OK; i++) {
        double times[RUNS];
        struct verdict verdict = {0};
        status = run_case(stage, &cases[i], &problem, tile, times, &verdict);
        if (status == CARAT_OK) {
            report(&cases[i], n, &limits, &verdict, times, json, table);
            right = right && verdict.right;
        }
    }
    free(tile);
    if (status != CARAT_OK) {
        fprintf(stderr, "carat bench: %s\n", carat_last_message());
    }
    return status != CARAT_OK || !right;
}
