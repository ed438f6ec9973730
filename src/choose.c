/* choose.c - chooses how a problem is computed: the best of all ways, by a model and what was measured. */
#include <stdio.h>
#include <stdlib.h>

#include "cpu/cpu.h"
#include "explain.h"
#include "rows.h"
#include "status.h"
#include "treatments.h"
#include "way_search.h"

/* The plan of the best candidate. */
static carat_status settle(const struct search *search, struct plan *plan)
{
    const struct candidate *best = &search->best;
    if (!best->kernel) {
        return explain_refusal(search);
    }
    plan->product = best->product;
    plan->packs_a = best->packs_a;
    plan->packs_b = best->packs_b;
    plan->packed_b_at = (size_t)best->packed_b_at;
    plan->safe_product = best->safe_product;
    plan->planes = best->planes;
    plan->safe_planes = best->safe_planes;
    plan->left_at = (size_t)best->left_at;
    plan->partials_at = (size_t)best->packed_bytes;
    plan->workspace_bytes = (size_t)(best->packed_bytes + best->partial_bytes);
    plan->parts = best->parts;
    plan->k_per_part = best->k_per_part;
    plan->stream_tiles = best->stream_tiles;
    if (best->pack) {
        plan->steps[plan->step_count++] = (struct step){best->rescue ? STEP_SPLIT : STEP_PACK, best->pack};
    }
    plan->steps[plan->step_count++] = (struct step){STEP_MULTIPLY, best->kernel};
    if (kernel_lacks_whole(best->kernel)) {
        plan->stand_in = search_stand_in(search, best);
        if (!plan->stand_in) {
            return fail(CARAT_UNSUPPORTED, "no kernel stands in for %s where more is asked for than it does",
                        best->kernel->name);
        }
    }
    if (best->safe) {
        plan->steps[plan->step_count++] = (struct step){STEP_SPLIT_SAFE, best->safe_split};
        plan->steps[plan->step_count++] = (struct step){STEP_SAFE, best->safe};
    }
    if (best->rescue) {
        plan->steps[plan->step_count++] = (struct step){STEP_RESCUE, best->rescue};
    }
    if (best->bare) {
        plan->steps[plan->step_count++] = (struct step){STEP_REDUCE, search->reduce};
    }
    explain_plan(search, plan);
    return CARAT_OK;
}

static struct plan plan_to_be(const struct problem *p)
{
    return (struct plan){.problem = *p, .product = *p, .parts = 1, .k_per_part = p->k};
}

bool plan_has(const struct plan *plan, enum step_kind kind)
{
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == kind) {
            return true;
        }
    }
    return false;
}

carat_status plan_choose(const struct device_traits *traits, const struct problem *problem, struct plan *plan)
{
    *plan = plan_to_be(problem);
    if (problem_is_empty(problem)) {
        snprintf(plan->explanation, sizeof(plan->explanation), "nothing to compute: D has no elements");
        return CARAT_OK;
    }
    if (traits->kind == CARAT_DEVICE_CUDA) {
        struct search search = search_of(traits, problem);
        search_best(&search);
        return settle(&search, plan);
    }
    plan->steps[0].kind = STEP_BLAS;
    plan->step_count = 1;
    cpu_gemm_explain(problem, plan->explanation, sizeof(plan->explanation));
    return CARAT_OK;
}

carat_status plan_choose_packed(const struct device_traits *traits, const struct problem *problem,
                                struct plan *plan)
{
    struct search search = search_of(traits, problem);
    search.always_pack = true;
    search_best(&search);
    *plan = plan_to_be(problem);
    return search.best.kernel ? settle(&search, plan) : plan_choose(traits, problem, plan);
}

carat_status plan_choose_row(const struct device_traits *traits, const struct problem *problem,
                             const struct kernel *kernel, struct plan *plan)
{
    struct search search = search_of(traits, problem);
    search.only = kernel;
    search.forced = true;
    search.looks_at_all = true;
    search_best(&search);
    *plan = plan_to_be(problem);
    if (!search.best.kernel) {
        return fail(CARAT_UNSUPPORTED, "kernel %s does not multiply this problem in any way", kernel->name);
    }
    return settle(&search, plan);
}

/* ---- For those who measure ---- */

void plan_visit(const struct device_traits *traits, const struct problem *problem, plan_visitor *visitor,
                void *context)
{
    plan_visit_row(traits, problem, NULL, visitor, context);
}

void plan_visit_row(const struct device_traits *traits, const struct problem *problem,
                    const struct kernel *row, plan_visitor *visitor, void *context)
{
    struct search search = search_of(traits, problem);
    search.only = row;
    search.looks_at_all = row != NULL;
    search.visitor = visitor;
    search.context = context;
    search_best(&search);
}

carat_status plan_of_candidate(const struct device_traits *traits, const struct problem *problem,
                               const struct candidate *candidate, struct plan *plan)
{
    struct search search = search_of(traits, problem);
    search.best = *candidate;
    *plan = plan_to_be(problem);
    return settle(&search, plan);
}

bool plan_best(const struct device_traits *traits, const struct problem *problem, struct candidate *best)
{
    struct search search = search_of(traits, problem);
    search_best(&search);
    *best = search.best;
    return best->kernel != NULL;
}

bool plan_as_it_is(const struct device_traits *traits, const struct problem *problem,
                   const struct kernel *kernel, struct candidate *way)
{
    struct search search = {.traits = traits, .problem = problem, .limited = true}; /* it is not reduced */
    return kernel->operation == OPERATION_GEMM && kernel_multiplies(kernel, traits, problem) &&
           treat(traits, problem, AS_IT_IS, AS_IT_IS, ELEMENT_NONE, way) &&
           complete_way(&search, kernel, 1, way);
}

/* By cycles, then in the catalogue's order, as the search goes. */
static int compare_candidates(const void *x, const void *y)
{
    const struct candidate *first = x;
    const struct candidate *second = y;
    if (first->cycles != second->cycles) {
        return first->cycles < second->cycles ? -1 : 1;
    }
    return first->kernel < second->kernel ? -1 : 1;
}

int plan_candidates(const struct device_traits *traits, const struct problem *problem,
                    struct candidate *candidates)
{
    int count = 0;
    for (int limited = 1; limited >= 0 && count == 0; limited--) {
        for (int i = 0; i < carat_catalog_count; i++) {
            struct search search = search_of(traits, problem);
            search.only = &carat_catalog[i];
            search.limited = limited;
            if (search.only->operation == OPERATION_GEMM && kernel_runs_on(search.only, traits)) {
                search_all(&search);
            }
            if (search.best.kernel) {
                candidates[count++] = search.best;
            }
        }
    }
    qsort(candidates, (size_t)count, sizeof(*candidates), compare_candidates);
    return count;
}
