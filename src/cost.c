/* cost.c - how long a whole way takes: the product, and the steps before and behind it. */
#include "cost.h"

#include <math.h>

#include "measured.h"
#include "planes.h"

/* Cycles that one more kernel before or behind the product takes, whatever it does. */
#define KERNEL_CYCLES 4000.0
/* How much longer a pack takes that turns its operand, by what it stages and how it reads. */
#define TURNED_COST 1.15

/* Bytes that a pack of one operand moves, each element read once and written once. */
static double packed_traffic(struct extent to, size_t from_bytes, bool turned)
{
    double bytes = (double)from_bytes + (double)to.element_bytes;
    return bytes * extent_elements(to) * (turned ? TURNED_COST : 1);
}

/* How much longer than foreseen a pack of one operand takes. */
static double pack_factor(const struct device_traits *traits, const struct kernel *pack, struct extent to,
                          bool turned)
{
    double columns = (double)to.columns * (double)(to.stride == 0 ? 1 : to.batch);
    struct tuning_point point = {{log2((double)to.rows), log2(columns)}};
    return traits->tuning ? tuning_factor(traits->tuning, pack, turned, point, NULL) : 1;
}

/* A launch of its own. */
static double packing_cycles(const struct device_traits *traits, const struct problem *p,
                             const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    const struct extent extents[2] = {problem_extent_a(to), problem_extent_b(to)};
    const bool packs[2] = {candidate->packs_a, candidate->packs_b};
    const bool turns[2] = {to->trans_a != p->trans_a, to->trans_b != p->trans_b};
    double most = 0;
    double bytes = 0;
    for (int i = 0; i < 2; i++) {
        if (packs[i]) {
            double factor = pack_factor(traits, candidate->pack, extents[i], turns[i]);
            most = fmax(most, factor);
            bytes += factor * packed_traffic(extents[i], carat_type_size(p->type_a), turns[i]);
        }
    }
    return most * KERNEL_CYCLES + memory_cycles(traits, bytes);
}

double pack_alone_cycles(const struct device_traits *traits, const struct tuning_line *line)
{
    const struct kernel *pack = line->kernel;
    struct extent to = {.rows = line->sizes[0],
                        .columns = line->sizes[1],
                        .batch = 1,
                        .element_bytes = pack->converts ? carat_type_size((carat_type)pack->converts)
                                                        : (size_t)pack->element_bytes};
    double bytes = packed_traffic(to, (size_t)pack->element_bytes, line->turned);
    return KERNEL_CYCLES + memory_cycles(traits, bytes);
}

/* The splits of all panels, and the launches behind their products that find nothing to do. */
static double splitting_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double panels = (double)candidate->panels_m * (double)candidate->panels_n;
    double times_a = keeps_planes_of_a(to) ? (double)candidate->panels_m : panels;
    double elements =
        times_a * extent_elements(problem_extent_a(to)) + panels * extent_elements(problem_extent_b(to));
    double bytes = elements * (4 + 2 * to->planes);
    return panels * (candidate->safe ? 4 : 2) * KERNEL_CYCLES + memory_cycles(traits, bytes);
}

double reduce_cycles(const struct device_traits *traits, double partials, double results)
{
    return KERNEL_CYCLES + memory_cycles(traits, partials + results);
}

double candidate_cycles(const struct search *search, struct candidate *candidate)
{
    const struct device_traits *traits = search->traits;
    const struct problem *p = search->problem;
    double cycles = multiply_cycles(traits, candidate);
    if (traits->tuning) {
        cycles = corrected_multiply(traits, candidate, cycles);
    }
    cycles *= idle_factor(candidate);
    if (candidate->stream_tiles > 0) {
        cycles = shared_factor(traits, candidate) * cycles + hand_over_cycles(traits, candidate);
    }
    if (candidate->bare) {
        double results = extent_elements(problem_extent_d(p)) * (double)carat_type_size(p->type_cd);
        double reduce = reduce_cycles(traits, (double)candidate->partial_bytes, results);
        cycles += traits->tuning ? corrected_reduce(traits, p, search->reduce, candidate, reduce) : reduce;
    }
    if (candidate->rescue) {
        double panels = (double)candidate->panels_m * (double)candidate->panels_n;
        cycles = panels * cycles + splitting_cycles(traits, candidate);
    } else if (candidate->pack) {
        cycles += packing_cycles(traits, p, candidate);
    }
    return cycles * way_factor(search->near, candidate, cycles, search_cutoff(search, candidate));
}
