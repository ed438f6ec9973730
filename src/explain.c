/* explain.c - says how a problem is computed, and why it cannot be. */
#include "explain.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "planes.h"
#include "rows.h"
#include "status.h"

/* What is done to an operand, in words; empty where nothing is. */
static const char *treatment_words(bool packs, bool turned, int converts)
{
    if (!packs) {
        return "";
    }
    return converts == CONVERTS_F64   ? " as f64"
           : converts == CONVERTS_F16 ? " as f16"
           : turned                   ? " along k"
                                      : "";
}

void explain_plan(const struct search *search, struct plan *plan)
{
    const struct candidate *best = &search->best;
    const struct problem *p = search->problem;
    const struct problem *to = &best->product;
    const struct kernel *kernel = best->kernel;
    double slots = (double)search->traits->multiprocessors * kernel_most_resident(kernel);
    double ideal = (double)p->m * (double)p->n * (double)p->k * (double)p->batch /
                   (kernel_unit_rate(kernel) * search->traits->multiprocessors);
    char packed[300] = "";
    char sums[200] = "";
    char panels[80] = "";
    if (candidate_has_panels(best)) {
        snprintf(panels, sizeof(panels), " in %" PRId64 " panels of %" PRId64 "x%" PRId64 " of D",
                 best->panels_m * best->panels_n, to->m, to->n);
    }
    if (best->pack && best->rescue && to->planes == PLANES_OF_F16) {
        snprintf(packed, sizeof(packed),
                 "; A and B split into %d f16 planes by %s%s; tiles for which that will not do: %s%s%s",
                 to->planes, best->pack->name, panels, best->safe ? best->safe->name : "",
                 best->safe ? ", then " : "", best->rescue->name);
    } else if (best->pack && best->rescue) {
        snprintf(
            packed, sizeof(packed),
            "; A and B split into %d bf16 planes by %s%s, which %s multiplies itself where they cannot be",
            to->planes, best->pack->name, panels, best->rescue->name);
    } else if (best->pack) {
        /* The caller's A may be the canonical B. */
        const char *words_a = treatment_words(best->packs_a, to->trans_a != p->trans_a, best->pack->converts);
        const char *words_b = treatment_words(best->packs_b, to->trans_b != p->trans_b, best->pack->converts);
        const char *name_a = p->swapped ? "B" : "A";
        const char *name_b = p->swapped ? "A" : "B";
        bool both = best->packs_a && best->packs_b;
        snprintf(packed, sizeof(packed), "; %s%s%s%s%s packed first by %s", best->packs_a ? name_a : "",
                 words_a, both ? " and " : "", best->packs_b ? name_b : "", words_b, best->pack->name);
    }
    if (kernel->splits > 0) {
        size_t length = strlen(packed);
        snprintf(packed + length, sizeof(packed) - length, "; A and B split into %d bf16 parts on their way",
                 kernel->splits);
    }
    if (search->reduce && best->parts > 1) {
        int64_t tiles = best->blocks / best->parts;
        snprintf(sums, sizeof(sums),
                 ", K in %d parts of %" PRId64 " as the tiles alone (%" PRId64
                 ") fill %.0f%% of the device, added by %s",
                 best->parts, best->k_per_part, tiles, 100 * fmin(1, (double)tiles / slots),
                 search->reduce->name);
    } else if (search->reduce && best->bare) {
        snprintf(sums, sizeof(sums), ", sums finished by %s", search->reduce->name);
    }
    if (best->stream_tiles * kernel_cluster_blocks(kernel) == best->blocks) {
        snprintf(sums, sizeof(sums), ", shared evenly by all multiprocessors");
    } else if (best->stream_tiles > 0) {
        snprintf(sums, sizeof(sums), ", the first %" PRId64 " shared evenly by all multiprocessors",
                 best->stream_tiles * kernel_cluster_blocks(kernel));
    }
    if (kernel_k_sharers(kernel) > 1) {
        snprintf(sums, sizeof(sums), ", the K of each shared by %d blocks", kernel_k_sharers(kernel));
    }
    const struct tuning_table *table = search->traits->tuning; /* NULL where who has timed it had another */
    const char *relative = best->corrected && table ? tuning_relative(table) : NULL;
    char times[100] = "";
    if (relative) {
        snprintf(times, sizeof(times), " by %s of the %.60s",
                 tuning_adds(table) ? "measured times and those" : "times", relative);
    } else if (best->corrected) {
        snprintf(times, sizeof(times), " by measured times");
    }
    snprintf(plan->explanation, sizeof(plan->explanation),
             "%s: tiles of %dx%dx%d%s, %" PRId64 " blocks on %d multiprocessors in %.1f waves, "
             "%.0f%% of the unit's peak predicted%s%s%s%s",
             kernel->name, kernel->tile_m, kernel->tile_n, kernel->tile_k, sums, best->blocks,
             search->traits->multiprocessors, (double)best->blocks / slots, 100 * ideal / best->cycles, times,
             packed, plan->stand_in ? "; where more is asked for " : "",
             plan->stand_in ? plan->stand_in->name : "");
}

carat_status explain_refusal(const struct search *search)
{
    const struct problem *p = search->problem;
    bool any_image = false;
    bool any_row = false;
    struct problem as_f16 = *p;
    as_f16.type_a = as_f16.type_b = CARAT_F16;
    bool narrow = carat_type_size(p->type_a) == 1 && p->type_a != CARAT_S8;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        any_image = any_image || kernel_has_image(kernel);
        any_row = any_row || (kernel->operation == OPERATION_GEMM && kernel_runs_on(kernel, search->traits) &&
                              (kernel_has_types(kernel, p) || (narrow && kernel_has_types(kernel, &as_f16))));
    }
    if (!any_image) {
        return fail(CARAT_UNSUPPORTED, "this build has no CUDA kernels: it was made without nvcc");
    }
    if (!any_row) {
        return fail(CARAT_UNSUPPORTED,
                    "no CUDA kernel of this build multiplies %s on compute capability %d.%d",
                    carat_type_name(p->type_a), search->traits->compute_capability / 10,
                    search->traits->compute_capability % 10);
    }
    return fail(CARAT_UNSUPPORTED,
                "m is %" PRId64 ", n is %" PRId64 " and batch is %" PRId64
                ": more tiles than the %d blocks of a grid",
                p->swapped ? p->n : p->m, p->swapped ? p->m : p->n, p->batch, MOST_BLOCKS);
}
