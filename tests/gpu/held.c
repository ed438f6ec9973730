/* held.c - shared tiles where there is little room: see held.h. */
#include "held.h"

#include <inttypes.h>
#include <stdio.h>

#include "../kernels/common/arguments.h"
#include "shared.h"

enum {
    STREAMS = 6, /* with a product each */
    HOLDERS = 2, /* streams of kernels that hold multiprocessors */
    BURSTS = 12, /* of the same products */
    MOST_ROWS = 400
};

/* A product ends within a second, held up as it may be. */
#define HANGS_AFTER 30.0
/* A holder holds multiprocessors for so long at most. */
#define MOST_MS 0.4

struct stage {
    carat_context *context;
    struct device *device;
    struct crew *crew; /* a hand a stream */
    const struct kernel *rows[MOST_ROWS];
    int row_count;
    const struct kernel *holder;
    double rounds_per_ms;
    void *streams[HOLDERS];
    unsigned char *results; /* of the holders; nobody reads them */
    struct random random;
    uint64_t launched; /* holders */
    struct trial trials[STREAMS];
    struct trial_tally tally;
};

/* ---- Holders ---- */

/* Where a holder is, no block of a product has room: half the most shared memory is too little for either. */
static const struct kernel *find_holder(struct device *device)
{
    const struct kernel *found = NULL;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation == OPERATION_CEILING && row->shared_bytes > device->traits.shared_bytes * 3 / 4 &&
            cuda_kernel_check(device, row) == CARAT_OK) {
            found = row;
        }
    }
    return found;
}

static size_t result_bytes(const struct stage *stage)
{
    return (size_t)stage->device->traits.multiprocessors * (size_t)kernel_threads(stage->holder) *
           sizeof(double);
}

static carat_status launch_holder(struct stage *stage, int number, int64_t blocks, int64_t rounds)
{
    ceiling_arguments arguments = {.to = stage->results + (size_t)number * result_bytes(stage),
                                   .count = rounds};
    return cuda_launch(stage->device, stage->holder, (uint32_t)blocks, &arguments, sizeof(arguments),
                       stage->streams[number]);
}

/* Of a launch of so many rounds on one multiprocessor; begin and end are events. */
static carat_status time_rounds(struct stage *stage, int64_t rounds, void *begin, void *end, float *ms)
{
    struct device *device = stage->device;
    carat_status status = launch_holder(stage, 0, 1, 1); /* loads it */
    status = status == CARAT_OK ? cuda_event_record(device, begin, stage->streams[0]) : status;
    status = status == CARAT_OK ? launch_holder(stage, 0, 1, rounds) : status;
    status = status == CARAT_OK ? cuda_event_record(device, end, stage->streams[0]) : status;
    return status == CARAT_OK ? cuda_event_elapsed_ms(device, begin, end, ms) : status;
}

static bool measure_holder(struct stage *stage)
{
    enum { ROUNDS = 2000 };
    void *begin = NULL;
    void *end = NULL;
    float ms = 0;
    carat_status status = cuda_event_create(stage->device, &begin);
    status = status == CARAT_OK ? cuda_event_create(stage->device, &end) : status;
    status = status == CARAT_OK ? time_rounds(stage, ROUNDS, begin, end, &ms) : status;
    cuda_event_destroy(stage->device, begin);
    cuda_event_destroy(stage->device, end);
    stage->rounds_per_ms = ms > 0 ? ROUNDS / (double)ms : 0;
    return status == CARAT_OK && ms > 0;
}

/* Holds a random number of multiprocessors for a random time. */
static carat_status hold(struct stage *stage, int number)
{
    char text[200];
    int64_t blocks = random_between(&stage->random, 1, stage->device->traits.multiprocessors - 1);
    double ms = MOST_MS * (1 + (double)random_between(&stage->random, 0, 15)) / 16;
    stage->launched++;
    snprintf(text, sizeof(text),
             "%" PRIu64 " launches of %s, the last on %" PRId64 " multiprocessors for %.2f ms",
             stage->launched, stage->holder->name, blocks, ms);
    crew_beside(stage->crew, text);
    return launch_holder(stage, number, blocks, 1 + (int64_t)(ms * stage->rounds_per_ms));
}

/* ---- Products ---- */

/* Some row that shares the problem's tiles, tried from a random one on; NULL: none does. */
static const struct kernel *row_for(struct stage *stage, const struct problem *problem)
{
    int64_t first = random_between(&stage->random, 0, stage->row_count - 1);
    for (int i = 0; i < stage->row_count; i++) {
        const struct kernel *row = stage->rows[(first + i) % stage->row_count];
        struct candidate way;
        if (shared_way(&stage->device->traits, problem, row, &way)) {
            return row;
        }
    }
    return NULL;
}

/* A large one as callers have them: as the library chooses where it shares tiles by itself, else by some row. */
static bool make_large(struct stage *stage, struct trial *trial)
{
    static const int64_t sizes[][3] = {{3000, 3000, 3000}, {5000, 3000, 3000}, {3000, 5000, 1024}};
    const int64_t *size = sizes[random_between(&stage->random, 0, 2)];
    struct problem problem;
    struct candidate best;
    *trial = trial_of(CARAT_BF16, CARAT_BF16, CARAT_BF16, size[0], size[1], size[2]);
    trial_layout(trial, CARAT_COLUMN_MAJOR, 2, 0);
    trial->seed = random_bits(&stage->random);
    trial->own_c = true;
    trial->own_workspace = random_one_in(&stage->random, 2);
    if (problem_check(&trial->problem, &problem) != CARAT_OK) {
        return false;
    }
    if (!plan_best(&stage->device->traits, &problem, &best) || best.stream_tiles == 0) {
        trial->way = WAY_SHARED;
        trial->row = row_for(stage, &problem);
    }
    return trial->way == WAY_LIBRARY || trial->row;
}

/* By a row: a pair of blocks a cluster on every other stream, where there is such a row. */
static bool make_by_row(struct stage *stage, int stream, struct trial *trial)
{
    for (int attempt = 0; attempt < 100; attempt++) {
        const struct kernel *row = stage->rows[random_between(&stage->random, 0, stage->row_count - 1)];
        bool fits = (row->cluster > 1) == (stream % 2 == 1) || attempt > 50;
        if (fits && shared_trial(&stage->random, row, &stage->device->traits, SHARED_MOST, trial)) {
            return true;
        }
    }
    return false;
}

static void fail_product(struct stage *stage, int stream, const char *when, const char *why)
{
    char text[800];
    trial_describe(&stage->trials[stream], text, sizeof(text));
    printf("  failed: %s: %s: %s%s%s\n", when, text, why, *why ? " | " : "",
           lane_how(crew_lane(stage->crew, stream)));
    fflush(stdout);
    stage->tally.failed++;
}

/* Runs a new product alone, compares it with the reference and keeps its bits. */
static bool begin_product(struct stage *stage, int stream)
{
    char why[1200] = "";
    struct lane *lane = crew_lane(stage->crew, stream);
    struct trial *trial = &stage->trials[stream];
    if (!(stream < 2 && make_large(stage, trial)) && !make_by_row(stage, stream, trial)) {
        printf("  failed: no product was to be had whose tiles are shared\n");
        stage->tally.failed++;
        return false;
    }
    crew_watch(stage->crew, stream, trial);
    bool ran = lane_place(lane, trial) == CARAT_OK && lane_run(lane, lane_stream(lane)) == CARAT_OK;
    if (!ran) {
        snprintf(why, sizeof(why), "%s", carat_last_message());
    }
    bool right = ran && lane_keep(lane, why, sizeof(why)) && lane_compare(lane, why, sizeof(why));
    crew_watch(stage->crew, stream, NULL);
    if (!right) {
        fail_product(stage, stream, "alone", why);
    }
    stage->tally.passed += right;
    return right;
}

/* All products at once, with holders before and between them. */
static bool run_burst(struct stage *stage)
{
    bool ran = true;
    bool right = true;
    for (int i = 0; i < STREAMS; i++) {
        crew_watch(stage->crew, i, &stage->trials[i]);
        ran = ran && lane_poison(crew_lane(stage->crew, i)) == CARAT_OK;
    }
    for (int i = 0; i < HOLDERS; i++) {
        ran = ran && hold(stage, i) == CARAT_OK;
    }
    for (int i = 0; i < STREAMS; i++) {
        struct lane *lane = crew_lane(stage->crew, i);
        ran = ran && lane_run(lane, lane_stream(lane)) == CARAT_OK;
        if (random_one_in(&stage->random, 3)) {
            ran = ran && hold(stage, i % HOLDERS) == CARAT_OK;
        }
    }
    if (!ran) {
        printf("  failed: a product or a holder: %s\n", carat_last_message());
        stage->tally.failed++;
    }
    for (int i = 0; i < STREAMS; i++) {
        char why[1200] = "";
        bool same = ran && lane_same(crew_lane(stage->crew, i), why, sizeof(why));
        crew_watch(stage->crew, i, NULL);
        if (ran && !same) {
            fail_product(stage, i, "beside holders", why);
        }
        stage->tally.passed += same;
        right = right && same;
    }
    return right;
}

static bool run_set(struct stage *stage, double deadline)
{
    for (int i = 0; i < STREAMS; i++) {
        if (!begin_product(stage, i)) {
            return false;
        }
    }
    for (int burst = 0; burst < BURSTS && crew_seconds() < deadline; burst++) {
        if (!run_burst(stage)) {
            return false;
        }
    }
    return true;
}

/* ---- The whole ---- */

static void find_rows(struct stage *stage)
{
    for (int i = 0; i < carat_catalog_count && stage->row_count < MOST_ROWS; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation == OPERATION_GEMM && row->stream &&
            cuda_kernel_check(stage->device, row) == CARAT_OK) {
            stage->rows[stage->row_count++] = row;
        }
    }
}

static bool set_up(struct stage *stage)
{
    void *results = NULL;
    carat_status status =
        carat_allocate(stage->context, CARAT_MEMORY_DEVICE, (size_t)HOLDERS * result_bytes(stage), &results);
    stage->results = results;
    for (int i = 0; i < HOLDERS; i++) {
        status = status == CARAT_OK ? carat_stream_create(stage->context, &stage->streams[i]) : status;
    }
    stage->crew = status == CARAT_OK ? crew_create(stage->context, STREAMS, HANGS_AFTER) : NULL;
    return stage->crew && measure_holder(stage);
}

static void tear_down(struct stage *stage)
{
    for (int i = 0; i < HOLDERS; i++) {
        if (stage->streams[i]) {
            carat_synchronize(stage->context, stage->streams[i]);
            carat_stream_destroy(stage->context, stage->streams[i]);
        }
    }
    crew_destroy(stage->crew);
    carat_release(stage->context, stage->results);
}

struct trial_tally held_run(carat_context *context, uint64_t seed, double seconds)
{
    struct stage stage = {.context = context, .device = carat_context_device(context), .random = {seed}};
    double begin = crew_seconds();
    find_rows(&stage);
    stage.holder = find_holder(stage.device);
    if (stage.row_count == 0 || !stage.holder) {
        printf("skipped: shared tiles beside kernels that hold multiprocessors: the device runs no row that "
               "%s\n",
               stage.holder ? "shares tiles" : "holds one");
        stage.tally.skipped = 1;
        return stage.tally;
    }
    if (set_up(&stage)) {
        while (crew_seconds() - begin < seconds && run_set(&stage, begin + seconds)) {
        }
    } else {
        printf("  failed: streams and holders: %s\n", carat_last_message());
        stage.tally.failed++;
    }
    tear_down(&stage);
    printf("shared tiles on %d streams beside %" PRIu64
           " kernels that held multiprocessors: %d passed, %d failed in "
           "%.1f s\n",
           STREAMS, stage.launched, stage.tally.passed, stage.tally.failed, crew_seconds() - begin);
    fflush(stdout);
    return stage.tally;
}
