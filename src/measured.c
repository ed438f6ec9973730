/*
 * measured.c - what was measured corrects the model: the grids of a tuning table the times of rows, and the whole ways in
 * it what is left.
 */
#include "measured.h"

#include <math.h>

#include "cost.h"
#include "rows.h"
#include "treatments.h"
#include "way_features.h"

/* What a table's times of products have in them beside: the launch. */
#define LAUNCH_CYCLES 2500.0

/* ---- Rows ---- */

/* How much of a tile's side is in use, where the problem has less than one tile. */
static double used_share(int64_t length, int tile) { return fmin(1, (double)length / tile); }

/* How thin a problem is for a row, in powers of two, see tuning_axes(). */
static double thinness(const struct kernel *kernel, const struct problem *to)
{
    double used_m = used_share(to->m, kernel->tile_m);
    double used_n = used_share(to->n, kernel->tile_n);
    if (!kernel_is_narrow(kernel)) {
        return log2(used_n / used_m);
    }
    bool long_m = kernel_is_long_along_m(kernel);
    double used = long_m ? used_m : used_n;
    int64_t tiles = long_m ? ceiling(to->n, kernel->tile_n) : ceiling(to->m, kernel->tile_m);
    return log2(used < 1 ? used : (double)tiles);
}

/* Where a product lies on its row's grids, see tuning_axes(), and on which of them. */
static struct tuning_point product_point(const struct device_traits *traits,
                                         const struct candidate *candidate, int *variant)
{
    const struct kernel *kernel = candidate->kernel;
    const struct problem *to = &candidate->product;
    int64_t k = candidate->parts > 1 ? candidate->k_per_part : to->k > 0 ? to->k : 1;
    double steps = (double)ceiling(k, kernel_k_step(kernel));
    double load = (double)candidate->blocks / traits->multiprocessors;
    if (candidate->stream_tiles > 0 && load < 1) {
        /* A tile's steps go to several clusters, and none is idle. */
        steps *= load;
        load = 1;
    }
    *variant = to->trans_a << 2 | to->trans_b << 1 | problem_lies_aligned(to);
    return (struct tuning_point){{
        log2(load > 1 ? ceil(load) : load),
        log2(steps),
        thinness(kernel, to),
    }};
}

double corrected_multiply(const struct device_traits *traits, struct candidate *candidate, double cycles)
{
    int variant;
    struct tuning_point point = product_point(traits, candidate, &variant);
    const struct kernel *kernel = candidate->kernel;
    double factor = tuning_factor(traits->tuning, kernel, variant, point, &candidate->corrected);
    if (!candidate->corrected) {
        factor = tuning_factor(traits->tuning, kernel, variant ^ 1, point, &candidate->corrected);
    }
    /* Rows with planes have no times by themselves. */
    candidate->surveyed = candidate->corrected || kernel->planes > 0;
    double odd = odd_store_cycles(traits, candidate, cycles);
    return factor * (cycles - odd + LAUNCH_CYCLES) + odd;
}

double corrected_reduce(const struct device_traits *traits, const struct problem *p,
                        const struct kernel *reduce, const struct candidate *candidate, double cycles)
{
    struct tuning_point point = {
        {log2((double)p->m * (double)p->n * (double)p->batch), log2((double)candidate->parts)}};
    return cycles * tuning_factor(traits->tuning, reduce, 0, point, NULL);
}

double idle_factor(const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    double along_m = (double)ceiling(candidate->product.m, kernel->tile_m);
    double along_n = (double)ceiling(candidate->product.n, kernel->tile_n);
    return fmax(kernel_cluster_m(kernel) / along_m, 1) * fmax(kernel_cluster_n(kernel) / along_n, 1);
}

/* ---- Whole ways ---- */

/* Whether columns that are so far apart, in a matrix that begins at a multiple of so many bytes, begin anywhere. */
static bool begins_anywhere(carat_type type, int64_t ld, int64_t stride, int64_t align)
{
    return ((ld | stride) * (int64_t)carat_type_size(type) | align) % MAP_ALIGNMENT != 0;
}

struct way_place place_of_way(const struct problem *p, const struct candidate *treated)
{
    struct way_place place = {
        .accuracy = (int)p->accuracy,
        .at = {log2f((float)p->m), log2f((float)p->n), log2f((float)(p->k > 0 ? p->k : 1)),
               log2f((float)p->batch)},
        .traits = (p->trans_a ? WAY_TRANS_A : 0) | (p->trans_b ? WAY_TRANS_B : 0) |
                  (begins_anywhere(p->type_a, p->lda, p->stride_a, p->align_a) ? WAY_OFF_A : 0) |
                  (begins_anywhere(p->type_b, p->ldb, p->stride_b, p->align_b) ? WAY_OFF_B : 0) |
                  (begins_anywhere(p->type_cd, p->ldd, p->stride_d, 0) ? WAY_OFF_D : 0) |
                  (p->type_a == CARAT_BF16 ? WAY_OTHER_TYPE : 0)};
    plan_marks(p, treated, place.packs);
    return place;
}

double way_factor(struct ways_near *near, struct candidate *candidate, double foreseen, double cutoff)
{
    if (!near) {
        return 1;
    }
    bool shares = candidate->stream_tiles > 0;
    double factor;
    candidate->surveyed = candidate->surveyed || ways_know_problem(near);
    candidate->timed = ways_timed(near, candidate->parts, shares, &factor);
    if (!candidate->timed) {
        factor = ways_least_factor(near, shares);
        if (foreseen * factor < cutoff) {
            factor = ways_factor(near, candidate->parts, shares);
        }
    }
    candidate->corrected = candidate->corrected || factor != 1;
    return factor;
}

double tree_factor(const struct device_traits *traits, const struct problem *p,
                   const struct candidate *candidate)
{
    const struct trees *trees = traits->tuning ? tuning_trees(traits->tuning) : NULL;
    if (!trees || candidate->timed) {
        return 1;
    }
    const struct way_place place = place_of_way(p, candidate);
    const struct way_case asked = {.traits = traits,
                                   .problem = p,
                                   .place = &place,
                                   .way = candidate,
                                   .row = ways_row(tuning_ways(traits->tuning), candidate->kernel),
                                   .foreseen = candidate->foreseen,
                                   .factor = candidate->learned / candidate->foreseen};
    float features[WAY_FEATURES];
    way_features(&asked, features);
    return fmin(fmax(exp((double)trees_sum(trees, features)), LEAST_BY_TREES), 1 / LEAST_BY_TREES);
}

/* ---- What a table is read with ---- */

bool plan_predict(const struct device_traits *traits, const struct tuning_line *line, double *cycles,
                  int *variant, struct tuning_point *point)
{
    const struct kernel *kernel = line->kernel;
    double sizes[2] = {(double)line->sizes[0], (double)line->sizes[1]};
    *point = (struct tuning_point){{log2(sizes[0]), log2(sizes[1])}};
    *variant = line->turned;
    if (line->operation == OPERATION_PACK) {
        *cycles = pack_alone_cycles(traits, line);
    } else if (line->operation == OPERATION_REDUCE) {
        double bytes = sizes[0] * (double)carat_type_size((carat_type)kernel->element);
        *cycles = reduce_cycles(traits, bytes * sizes[1], bytes);
    } else {
        struct problem problem;
        struct candidate way;
        carat_gemm_problem described = tuning_problem(kernel, line->trans_a, line->trans_b, line->sizes[0],
                                                      line->sizes[1], line->sizes[2]);
        if (problem_check(&described, &problem) != CARAT_OK ||
            !plan_as_it_is(traits, &problem, kernel, &way)) {
            return false;
        }
        *cycles = multiply_cycles(traits, &way) + LAUNCH_CYCLES;
        *point = product_point(traits, &way, variant);
    }
    return kernel_runs_on(kernel, traits);
}
