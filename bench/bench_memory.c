/* bench_memory.c - how near scale_add and transpose come to the device's own copy. */
#include "bench_memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "report.h"
#include "statistics.h"
#include "status.h"

enum { MOST_ROUNDS = 40, SAMPLES = 1 << 20 };

static const double SCALE = 1.25;
static const double SHIFT = -0.375;

/* The three ways of walking over a matrix. */
enum way { WAY_COPY, WAY_SCALE_ADD, WAY_TRANSPOSE };

struct walk {
    struct place *place;
    enum way way;
    carat_type type;
    int64_t n;
    void *a;
    void *b;
    size_t bytes;
};

static carat_status run_walk(void *context, int i)
{
    (void)i;
    struct walk *walk = context;
    carat_context *carat = walk->place->context;
    carat_run how = {.stream = walk->place->stream};
    int64_t n = walk->n;
    switch (walk->way) {
    case WAY_COPY:
        return carat_copy(carat, walk->b, walk->a, walk->bytes, walk->place->stream);
    case WAY_TRANSPOSE:
        return carat_transpose(carat, CARAT_COLUMN_MAJOR, walk->type, n, n, walk->a, n, walk->b, n, &how);
    case WAY_SCALE_ADD:
        break;
    }
    float scale = (float)SCALE;
    float shift = (float)SHIFT;
    bool wide = walk->type == CARAT_F64;
    return carat_scale_add(carat, CARAT_COLUMN_MAJOR, walk->type, n, n, wide ? (const void *)&SCALE : &scale,
                           walk->a, n, wide ? (const void *)&SHIFT : &shift, walk->b, n, &how);
}

/* Compares entries at random places with what they should be; "" in why where all are right. */
static void compare(const struct walk *walk, const void *tile, const void *b, char *why, size_t why_size)
{
    static const double least[] = {
        [CARAT_F32] = 0x1p-23, [CARAT_F64] = 0x1p-52, [CARAT_F16] = 0x1p-10, [CARAT_BF16] = 0x1p-7};
    uint64_t state = 1;
    why[0] = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t at = (int64_t)((state >> 20) % (uint64_t)(walk->n * walk->n));
        int64_t i = at % walk->n;
        int64_t j = at / walk->n;
        double from = element_value(walk->type, tile, at % RANDOM_PERIOD);
        double got = element_value(walk->type, b, walk->way == WAY_TRANSPOSE ? j + i * walk->n : at);
        double wanted = walk->way == WAY_SCALE_ADD ? fma(SCALE, from, SHIFT) : from;
        double allowed = walk->way == WAY_SCALE_ADD ? least[walk->type] * fabs(wanted) : 0;
        if (!(fabs(got - wanted) <= allowed)) {
            snprintf(why, why_size, "(%lld, %lld) is %.9g, not %.9g", (long long)i, (long long)j, got,
                     wanted);
            return;
        }
    }
}

static carat_status check(struct walk *walk, const void *tile, char *why, size_t why_size)
{
    struct place *place = walk->place;
    void *b = malloc(walk->bytes);
    if (!b) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %zu bytes", walk->bytes);
    }
    carat_status status = place_memset(place, walk->b, 0xff, walk->bytes);
    if (status == CARAT_OK) {
        status = run_walk(walk, 0);
    }
    if (status == CARAT_OK) {
        status = carat_copy(place->context, b, walk->b, walk->bytes, place->stream);
    }
    if (status == CARAT_OK) {
        status = carat_synchronize(place->context, place->stream);
    }
    if (status == CARAT_OK) {
        compare(walk, tile, b, why, why_size);
    }
    free(b);
    return status;
}

static carat_status time_walks(struct timer *timer, struct walk *walks, int count, double seconds,
                               double *median_seconds, struct reading *readings)
{
    double times[3][MOST_ROUNDS];
    double warm = 0;
    for (int i = 0; i < count; i++) {
        CARAT_TRY(timer_region(timer, run_walk, &walks[i], 3, &warm, NULL));
    }
    int calls = 10;
    double region = warm / 3 * calls;
    int rounds = (int)(seconds / (region > 1e-6 ? region : 1e-6));
    rounds = rounds < 5 ? 5 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < count; i++) {
            CARAT_TRY(timer_region(timer, run_walk, &walks[i], calls, &times[i][round], &readings[i]));
        }
    }
    for (int i = 0; i < count; i++) {
        median_seconds[i] = median(times[i], rounds) / calls;
    }
    return CARAT_OK;
}

static carat_status bench_type(struct stage *stage, carat_type type, int64_t n, double seconds, FILE *json,
                               FILE *table, const void *tile, struct walk *walks, int *wrong)
{
    static const char *const names[] = {"copy", "scale_add", "transpose"};
    int count = 3;
    char why[3][160] = {""};
    double medians[3];
    struct reading readings[3];
    bool has_scale_add = type != CARAT_S32 && type != CARAT_S8;
    for (int i = 0; i < count; i++) {
        if (walks[i].way != WAY_SCALE_ADD || has_scale_add) {
            CARAT_TRY(check(&walks[i], tile, why[i], sizeof(why[i])));
        } else {
            walks[i].way = WAY_COPY; /* timed in its place, and not shown */
        }
    }
    CARAT_TRY(time_walks(&stage->timer, walks, count, seconds, medians, readings));
    double copy = medians[0];
    for (int i = 0; i < count; i++) {
        if (i == 1 && !has_scale_add) {
            continue;
        }
        double rate = 2.0 * (double)walks[i].bytes / medians[i] * 1e-9;
        if (why[i][0]) {
            *wrong += 1;
            fprintf(table, "%-6s%-10s wrong: %s\n", carat_type_name(type), names[i], why[i]);
        } else {
            fprintf(table, "%-6s%-10s %10.1f us %9.1f GB/s %6.1f%%\n", carat_type_name(type), names[i],
                    medians[i] * 1e6, rate, copy / medians[i] * 100);
        }
        if (json) {
            json_t *line = json_pack("{s:s, s:s, s:s, s:I, s:s}", "kind", "memory", "operation", names[i],
                                     "dtype", carat_type_name(type), "n", (json_int_t)n, "outcome",
                                     why[i][0] ? "wrong" : "timed");
            json_object_set_new(line, "time_us", json_known(why[i][0] ? 0 : medians[i] * 1e6));
            json_object_set_new(line, "gb_per_s", json_known(why[i][0] ? 0 : rate));
            json_object_set_new(line, "share_of_copy", json_known(why[i][0] ? 0 : copy / medians[i]));
            json_object_set_new(line, "sm_clock_mhz", json_known(readings[i].sm_clock_mhz));
            json_object_set_new(line, "power_w", json_known(readings[i].power_w));
            report_line(json, line);
            json_decref(line);
        }
    }
    return CARAT_OK;
}

/* One type, with its memory. */
static carat_status run_type(struct stage *stage, carat_type type, int64_t n, double seconds, FILE *json,
                             FILE *table, int *wrong)
{
    struct place *place = &stage->place;
    size_t bytes = (size_t)(n * n) * carat_type_size(type);
    void *tile = NULL;
    void *a = NULL;
    void *b = NULL;
    carat_status status = make_random_tile(type, &tile);
    if (status == CARAT_OK) {
        status = carat_allocate(place->context, CARAT_MEMORY_DEVICE, bytes, &a);
    }
    if (status == CARAT_OK) {
        status = carat_allocate(place->context, CARAT_MEMORY_DEVICE, bytes, &b);
    }
    if (status == CARAT_OK) {
        status = fill_periodic(place, type, tile, RANDOM_PERIOD, a, n * n);
    }
    if (status == CARAT_OK) {
        struct walk walks[3];
        for (int i = 0; i < 3; i++) {
            walks[i] = (struct walk){place, (enum way)i, type, n, a, b, bytes};
        }
        status = bench_type(stage, type, n, seconds, json, table, tile, walks, wrong);
    }
    carat_release(place->context, a);
    carat_release(place->context, b);
    free(tile);
    return status;
}

int bench_memory(struct stage *stage, int64_t n, double seconds, FILE *json, FILE *table)
{
    int wrong = 0;
    if (json) {
        json_t *head = report_head(&stage->place, NULL, 0, NULL);
        report_line(json, head);
        json_decref(head);
    }
    fprintf(table, "%s, %lld x %lld, read and written; share of the device's own copy\n",
            stage->place.info.name, (long long)n, (long long)n);
    for (int type = CARAT_F32; type <= CARAT_S8; type++) {
        if (run_type(stage, (carat_type)type, n, seconds, json, table, &wrong) != CARAT_OK) {
            fprintf(stderr, "carat bench: %s: %s\n", carat_type_name((carat_type)type), carat_last_message());
            return 1;
        }
    }
    return wrong > 0;
}
