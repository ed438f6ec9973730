/* cost.c - how long a whole way takes: the product, and the steps before and behind it. */
#include "cost.h"

#include <math.h>

#include "measured.h"
#include "planes.h"
#include "rows.h"

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

/* What a pack of both operands reads and writes. */
static double packed_bytes(const struct problem *p, const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double a = packed_traffic(problem_extent_a(to), carat_type_size(p->type_a), to->trans_a != p->trans_a);
    double b = packed_traffic(problem_extent_b(to), carat_type_size(p->type_b), to->trans_b != p->trans_b);
    return (candidate->packs_a ? a : 0) + (candidate->packs_b ? b : 0);
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

static double panels_of(const struct candidate *candidate)
{
    return candidate->rescue ? (double)candidate->panels_m * (double)candidate->panels_n : 1;
}

/* What the splits of all panels read and write. */
static double split_bytes(const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double panels = panels_of(candidate);
    double times_a = keeps_planes_of_a(to) ? (double)candidate->panels_m : panels;
    double elements =
        times_a * extent_elements(problem_extent_a(to)) + panels * extent_elements(problem_extent_b(to));
    return elements * (4 + 2 * to->planes);
}

/* The splits of all panels, and the launches behind their products that find nothing to do. */
static double splitting_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    return panels_of(candidate) * (candidate->safe ? 4 : 2) * KERNEL_CYCLES +
           memory_cycles(traits, split_bytes(candidate));
}

double reduce_cycles(const struct device_traits *traits, double partials, double results)
{
    return KERNEL_CYCLES + memory_cycles(traits, partials + results);
}

static double result_bytes(const struct problem *p)
{
    return extent_elements(problem_extent_d(p)) * (double)carat_type_size(p->type_cd);
}

/* ---- Another memory ---- */

/* What all steps of a way read and write at least. */
static double moved_bytes(const struct problem *p, const struct candidate *candidate)
{
    double before = candidate->rescue ? split_bytes(candidate)
                    : candidate->pack ? packed_bytes(p, candidate)
                                      : 0;
    double behind = candidate->bare ? (double)candidate->partial_bytes + result_bytes(p) : 0;
    return before + panels_of(candidate) * product_bytes(candidate) + behind;
}

/*
 * What a way takes longer than on the device whose times it was foreseen by, since the memory here is slower, or less. As if
 * nothing else ran while memory is waited for: so ways that wait for memory keep their order, whatever else the model knows
 * of them, and of long products it is too little to matter.
 */
static double memory_difference(const struct search *search, const struct candidate *candidate)
{
    double share = search->traits->memory_share;
    return share > 0 && share != 1
               ? (1 / share - 1) * memory_cycles(search->traits, moved_bytes(search->problem, candidate))
               : 0;
}

/* Where nothing but memory is waited for, all cycles are so many times as many: no memory changes more than that. */
double cycles_here(const struct device_traits *traits, const struct candidate *way, double there)
{
    double share = traits->memory_share;
    if (share <= 0 || share == 1) {
        return there;
    }
    double moved = there + way->memory_cycles;
    return share < 1 ? fmin(moved, there / share) : fmax(moved, there / share);
}

double cycles_there(const struct device_traits *traits, const struct candidate *way, double here)
{
    double share = traits->memory_share;
    if (share <= 0 || share == 1) {
        return here;
    }
    double moved = here - way->memory_cycles;
    return share < 1 ? fmax(moved, here * share) : fmin(moved, here * share);
}

/* ---- What is asked beside sums ---- */

/*
 * Cycles for each element of D where the tensor unit waits for them, at the clock that times are told in, measured at 4096 cubed
 * (bench_epilogues.json): in GELU or SiLU, in 16-bit types; and of any bias or activation by an image for everything, whose
 * code is ten times as long as that of one that finishes sums, in s8 and bf16. (That clusters with one tile each go by it, too, is
 * left out.)
 */
#define ACTIVATION_CYCLES 0.19
#define WHOLE_IMAGE_CYCLES 0.08

static double cycles_of_element(const struct problem *p, const struct candidate *candidate)
{
    bool takes_long = p->activation != CARAT_ACTIVATION_NONE && p->activation != CARAT_ACTIVATION_RELU;
    const struct kernel *kernel = candidate->kernel;
    bool sums_alone = candidate->bare || candidate->rescue || !kernel->tensor_maps;
    bool by_whole = kernel_has_consumers(kernel) && !sums_alone &&
                    (candidate->stream_tiles > 0 || !kernel_suits_images(kernel, p));
    return (takes_long ? ACTIVATION_CYCLES : 0) + (by_whole ? WHOLE_IMAGE_CYCLES : 0);
}

/*
 * Of all that a multiprocessor has of D, or where consumers have tiles, of those one after the other. In turn, one multiplies while
 * another finishes, so that all but the last tile take what their products leave of it.
 */
static double finishing_cycles(const struct device_traits *traits, const struct problem *p,
                               const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    if (!p->bias && p->activation == CARAT_ACTIVATION_NONE) {
        return 0;
    }
    double of_element = cycles_of_element(p, candidate);
    double multiprocessors = (double)traits->multiprocessors;
    if (candidate->bare || candidate->rescue || !kernel->tensor_maps || !kernel_has_consumers(kernel)) {
        return of_element * extent_elements(problem_extent_d(p)) / multiprocessors;
    }
    double tiles = ceil((double)candidate->blocks / multiprocessors);
    double of_tile = of_element * kernel->tile_m * kernel->tile_n;
    double in_sight = kernel->turns ? fmax(0, of_tile - candidate->learned / tiles) : of_tile;
    return of_tile + (tiles - 1) * in_sight;
}

/* ---- All of it ---- */

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
        double reduce = reduce_cycles(traits, (double)candidate->partial_bytes, result_bytes(p));
        cycles += traits->tuning ? corrected_reduce(traits, p, search->reduce, candidate, reduce) : reduce;
    }
    if (candidate->rescue) {
        cycles = panels_of(candidate) * cycles + splitting_cycles(traits, candidate);
    } else if (candidate->pack) {
        cycles += packing_cycles(traits, p, candidate);
    }
    candidate->foreseen = cycles;
    candidate->memory_cycles = memory_difference(search, candidate);
    candidate->learned =
        cycles * way_factor(search->near, candidate, cycles, search_cutoff(search, candidate));
    candidate->finish_cycles = finishing_cycles(traits, p, candidate);
    return cycles_here(traits, candidate, candidate->learned) + candidate->finish_cycles;
}
