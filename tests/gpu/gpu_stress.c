/*
 * gpu_stress.c - random products of every kind for minutes, each compared with a reference on the CPU while the
 * GPU goes on with others, and run twice to give the same bits.
 *
 * Every product is made from the seed and its number alone: what failed is tried again by
 *
 *     gpu_stress --seed SEED --first NUMBER --count 1
 *
 * Sizes are log-uniform from 1 to --side; types, layouts, leading dimensions, addresses, scalars, epilogues,
 * batches, NaN and infinity are random too. Stops at the first failure and prints it; exits 1.
 *
 * Before them, products whose tiles are shared, beside kernels that hold multiprocessors: see held.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crew.h"
#include "held.h"

static struct {
    double minutes;
    double held; /* seconds; below 0: not given */
    uint64_t seed;
    bool seeded;
    int64_t first;
    int64_t count; /* 0: until the time is over */
    int64_t side;
    int threads;
} option = {.minutes = 1, .held = -1, .side = 4096};

/* So many products between two looks at the clock. */
enum { ROUND = 512 };

static bool make(int64_t index, void *what, struct trial *trial)
{
    const int64_t *begin = what;
    struct random random = {option.seed * 0x9e3779b97f4a7c15u + (uint64_t)(*begin + index)};
    /* A side of at most 256 in one of two, so that there are many of them; large ones share the rest. */
    const struct trial_limits limits[] = {
        {option.side < 256 ? option.side : 256, 60, 2e8, 1000000},
        {option.side, 20, 4e10, 20000000},
    };
    random_bits(&random);
    *trial = trial_random(&random, &limits[random_one_in(&random, 2)]);
    if (random_one_in(&random, 4)) {
        trial->way = WAY_ANY;
    }
    return true;
}

static void usage(FILE *file)
{
    fprintf(file, "Usage: gpu_stress [--minutes N] [--held N] [--seed N] [--first N] [--count N] [--side N]\n"
                  "                  [--threads N]\n\n"
                  "  --minutes N  how long (1)\n"
                  "  --held N     of it so many seconds for shared tiles beside kernels that hold "
                  "multiprocessors (10;\n"
                  "               0 with --count)\n"
                  "  --seed N     of the products (from the clock)\n"
                  "  --first N    the number of the first product (0)\n"
                  "  --count N    how many products at most (no limit but the time)\n"
                  "  --side N     the most that m, n and k may be (4096)\n"
                  "  --threads N  that make and check products (one a processor, at most 32)\n");
}

static bool read_options(int argc, char **argv)
{
    option.threads = crew_threads(32);
    for (int i = 1; i + 1 < argc; i += 2) {
        char *end;
        double value = strtod(argv[i + 1], &end);
        if (end == argv[i + 1] || *end || value < 0) {
            return false;
        }
        if (strcmp(argv[i], "--minutes") == 0) {
            option.minutes = value;
        } else if (strcmp(argv[i], "--held") == 0) {
            option.held = value;
        } else if (strcmp(argv[i], "--seed") == 0) {
            option.seed = strtoull(argv[i + 1], NULL, 10);
            option.seeded = true;
        } else if (strcmp(argv[i], "--first") == 0) {
            option.first = (int64_t)value;
        } else if (strcmp(argv[i], "--count") == 0) {
            option.count = (int64_t)value;
        } else if (strcmp(argv[i], "--side") == 0 && value >= 1) {
            option.side = (int64_t)value;
        } else if (strcmp(argv[i], "--threads") == 0 && value >= 1) {
            option.threads = (int)value;
        } else {
            return false;
        }
    }
    if (option.held < 0) {
        option.held = option.count > 0 ? 0 : 10;
    }
    return argc % 2 == 1;
}

/* Whether shared tiles withstand it. */
static bool stress_held(carat_context *context)
{
    if (option.held == 0) {
        return true;
    }
    struct trial_tally tally = held_run(context, option.seed, option.held);
    if (tally.failed > 0) {
        printf("  again: gpu_stress --seed %" PRIu64 " --held %g\n", option.seed, option.held);
    }
    return tally.failed == 0;
}

static int stress(struct crew *crew)
{
    struct trial_tally total = {0};
    int64_t begin = option.first;
    double deadline = option.minutes * 60;
    double said = 0;
    while (total.failed == 0 && (option.count == 0 || begin < option.first + option.count)) {
        int64_t count = ROUND;
        if (option.count > 0 && option.first + option.count - begin < count) {
            count = option.first + option.count - begin;
        }
        struct trial_tally tally = crew_try(crew, make, &begin, count, 2, deadline);
        total.passed += tally.passed;
        total.failed += tally.failed;
        total.skipped += tally.skipped;
        double now = crew_seconds();
        if (now - said > 10) {
            printf("%6.1f s: %d passed, %d failed, %d skipped\n", now, total.passed, total.failed,
                   total.skipped);
            fflush(stdout);
            said = now;
        }
        if (total.failed > 0) {
            printf("  again: gpu_stress --seed %" PRIu64 " --first %" PRId64 " --count 1\n", option.seed,
                   begin + crew_first_failed(crew));
        }
        if (now > deadline) {
            break;
        }
        begin += count;
    }
    double seconds = crew_seconds();
    printf("%d passed, %d failed, %d skipped in %.1f s: %.0f a minute, each run twice\n", total.passed,
           total.failed, total.skipped, seconds, 60 * (total.passed + total.failed) / seconds);
    return total.failed > 0 || total.passed == 0;
}

int main(int argc, char **argv)
{
    carat_context *context;
    if (!read_options(argc, argv)) {
        usage(stderr);
        return 2;
    }
    if (!option.seeded) {
        option.seed = (uint64_t)time(NULL);
    }
    if (carat_context_create(CARAT_DEVICE_CUDA, 0, &context) != CARAT_OK) {
        printf("skipped: no CUDA device (%s)\n", carat_last_message());
        return 0;
    }
    lane_reference_work = 2e5;
    cuda_pretend_cache(carat_context_device(context), 0); /* then clusters of small products keep pace too */
    printf("seed %" PRIu64 ", %d threads\n", option.seed, option.threads);
    fflush(stdout);
    if (!stress_held(context)) {
        carat_context_destroy(context);
        return 1;
    }
    struct crew *crew = crew_create(context, option.threads, 60);
    if (!crew) {
        fprintf(stderr, "gpu_stress: %s\n", carat_last_message());
        carat_context_destroy(context);
        return 1;
    }
    int code = stress(crew);
    crew_destroy(crew);
    carat_context_destroy(context);
    return code;
}
