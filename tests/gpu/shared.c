/* shared.c - trials whose tiles are shared: see shared.h. */
#include "shared.h"

#include "problem.h"
#include "rows.h"

struct search {
    bool shares;
    struct candidate *way;
    bool found;
};

static void visit(void *context, const struct candidate *candidate)
{
    struct search *search = context;
    if ((candidate->stream_tiles > 0) == search->shares && candidate->parts == 1 &&
        (!candidate->pack || candidate->rescue)) {
        *search->way = *candidate;
        search->found = true;
    }
}

bool shared_way(const struct device_traits *traits, const struct problem *problem, const struct kernel *row,
                struct candidate *way)
{
    struct search search = {.shares = true, .way = way};
    plan_visit_row(traits, problem, row, visit, &search);
    return search.found;
}

bool whole_way(const struct device_traits *traits, const struct problem *problem, const struct kernel *row,
               struct candidate *way)
{
    struct search search = {.shares = false, .way = way};
    plan_visit_row(traits, problem, row, visit, &search);
    return search.found;
}

/* A length of so many units, the last of them often not whole. */
static int64_t tailed(struct random *random, int64_t units, int64_t unit)
{
    return units * unit - (random_one_in(random, 2) ? 0 : random_between(random, 0, unit - 1));
}

/* Steps of two planes from which on they are moved in pairs; and one trial of how many has as many. */
enum { LONG_STEPS = 128, LONG_IN = 8 };

/*
 * Sizes of a random number of tiles of clusters, from a quarter of a wave on, where sharing begins: in a line of one to
 * four side by side. K is of eight steps or more, so that each cluster has two at least; of two planes it is so long now and
 * then that sums are moved two steps at a time, and the tiles are few then.
 */
static void choose_sizes(struct random *random, const struct kernel *row, const struct device_traits *traits,
                         enum shared_size size, carat_gemm_problem *p, int64_t *batch)
{
    int64_t unit_m = row->tile_m * (int64_t)kernel_cluster_m(row);
    int64_t unit_n = row->tile_n * (int64_t)kernel_cluster_n(row);
    int64_t clusters = kernel_clusters(row, traits);
    int64_t least = ceiling(clusters, 4);
    bool is_long = row->planes == 2 && size == SHARED_MOST && random_one_in(random, LONG_IN);
    bool are_few = is_long || size == SHARED_LEAST;
    int64_t tiles = random_between(random, least, are_few ? least + 3 : clusters * 5 / 2);
    *batch = random_one_in(random, 5) ? random_between(random, 2, 3) : 1;
    int64_t side_by_side = random_between(random, 1, are_few ? 2 : 4);
    int64_t long_way = ceiling(ceiling(tiles, *batch), side_by_side);
    bool along_m = random_one_in(random, 2);
    p->m = tailed(random, along_m ? long_way : side_by_side, unit_m);
    p->n = tailed(random, along_m ? side_by_side : long_way, unit_n);
    int64_t least_steps = is_long ? LONG_STEPS + 1 : 8;
    p->k = tailed(random, least_steps + random_between(random, 0, are_few ? 1 : 32), row->tile_k);
}

/* One attempt, of one layout of the four; later ones are of rounder sizes. */
static struct trial attempt(struct random *random, const struct kernel *row,
                            const struct device_traits *traits, enum shared_size size, int number)
{
    int64_t unit = trial_unit(row);
    int64_t batch;
    struct trial trial = trial_of_row(random, row);
    carat_gemm_problem *p = &trial.problem;
    choose_sizes(random, row, traits, size, p, &batch);
    if (number >= 4) {
        p->k = ceiling(p->k, unit) * unit;
    }
    if (number >= 16) {
        p->m = ceiling(p->m, unit) * unit;
        p->n = ceiling(p->n, unit) * unit;
    }
    trial_random_placing(random, &trial);
    trial_layout(&trial, CARAT_COLUMN_MAJOR, number % 4, random_one_in(random, 2) ? 0 : unit);
    if (row->epilogue && random_one_in(random, 2)) {
        trial_random_epilogue(random, &trial);
    }
    if (batch > 1) {
        trial_batch(&trial, batch, 0);
    }
    trial_align(&trial, unit);
    trial.alpha = trial.alpha == 0 ? 1 : trial.alpha;
    trial.own_c = true;
    trial.own_workspace = true; /* which is poisoned: flags may hold anything, but are read as they are */
    trial.way = WAY_SHARED;
    return trial;
}

bool shared_trial(struct random *random, const struct kernel *row, const struct device_traits *traits,
                  enum shared_size size, struct trial *trial)
{
    for (int number = 0; number < 64; number++) {
        struct problem problem;
        struct candidate way;
        *trial = attempt(random, row, traits, size, number);
        if (problem_check(&trial->problem, &problem) == CARAT_OK && shared_way(traits, &problem, row, &way)) {
            return true;
        }
    }
    return false;
}
