/*
 * way_search.c - looks at every way that the catalogue offers to compute a problem.
 *
 * A way is a product's row, the parts of K or the tiles that its blocks share, and what is done to A and B before:
 * nothing, copies whose columns are aligned, transposes that run along k, 8-bit floats as f16.
 */
#include "way_search.h"

#include <math.h>

#include "cost.h"
#include "measured.h"
#include "planes.h"
#include "rows.h"
#include "treatments.h"

/* Partial sums take no more than this where K is split for speed. */
#define MOST_PARTIALS ((int64_t)64 << 20)
/* The most clusters that share a tile; the least steps of a cluster's share, and the most of all shares together. */
#define MOST_SHARERS 4
#define LEAST_SHARE 2
#define MOST_SHARED_STEPS INT32_MAX
/* Wider tiles of parts do not compensate their sums for long k: see COMPENSATES in wgmma_tile.h and split_wgmma.cu. */
#define WIDEST_COMPENSATED 64
#define USUAL_TILE 128
/* Warps that share k make chains of a sum: see least_long_k(). */
#define K_OF_CHAIN 256
#define MOST_CHAINS 16
/*
 * Where so many ways were timed of the very problem, what is foreseen of all others is their luckiest guess, and counts for more
 * than that (docs/notes/choice.md): for still more of so many parts as no survey times, and in f64, where a run did not bear
 * out what was foreseen.
 */
#define LEAST_TIMED 5
#define MOST_TIMED_PARTS 64 /* more are too many numbers to time each */
#define GUESSED 1.06
#define DOUBTED 1.3

/* Ways that may be the best, and wait for a second look: the better the first ones are, the fewer it takes. */
enum { SHORTLIST = 8 };
struct shortlist {
    struct candidate ways[SHORTLIST];
    int count;
};

/* ---- One way ---- */

/* What a way may take of workspace. */
static int64_t most_workspace(const struct search *search)
{
    int64_t asked = search->problem->most_workspace;
    return !search->limited ? INT64_MAX - 1 : asked > 0 && asked < MOST_WORKSPACE ? asked : MOST_WORKSPACE;
}

/* Bytes of the bare sums, in whole units; INT64_MAX where they cannot be counted. */
static int64_t partial_bytes(const struct problem *p, int parts)
{
    int64_t size = (int64_t)carat_type_size(problem_sum_type(p));
    double bytes = (double)p->m * (double)p->n * (double)p->batch * parts * (double)size;
    return bytes > 0x1p60 ? INT64_MAX : round_up(p->m * p->n * p->batch * parts * size, WORKSPACE_UNIT);
}

static bool fits_workspace(const struct search *search, const struct candidate *candidate)
{
    return candidate->partial_bytes <= most_workspace(search) - candidate->packed_bytes;
}

/*
 * From which k on sums of parts need compensation. What a sum is off by grows with the root of k, and falls with the number of
 * its chains: four were seen to be as good as cublasSgemm's up to a k of 4096, eight up to 16384, of inputs of five families
 * (docs/notes/standard.md). More than sixteen count as sixteen.
 */
static int64_t least_long_k(const struct candidate *candidate)
{
    int64_t chains = kernel_chains(candidate->kernel);
    chains *= chains > 1 ? candidate->parts : 1;
    chains = chains < MOST_CHAINS ? chains : MOST_CHAINS;
    int64_t most_k = chains * chains * K_OF_CHAIN;
    return most_k > LEAST_LONG_K ? most_k : LEAST_LONG_K;
}

/*
 * Whether sums of parts would be longer chains of roundings than other libraries' are: those sum long k in several chains
 * where tiles of a usual size are too few for the device.
 */
static bool sums_too_long(const struct search *search, const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    const struct problem *to = &candidate->product;
    int width = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    bool has_three = kernel->planes == PLANES_OF_BF16 || (kernel->splits > 0 && kernel_has_consumers(kernel));
    bool compensates = has_three && width <= WIDEST_COMPENSATED;
    bool multiplies_parts = kernel->planes > 0 || kernel->splits > 0;
    double tiles =
        (double)ceiling(to->m, USUAL_TILE) * (double)ceiling(to->n, USUAL_TILE) * (double)to->batch;
    return multiplies_parts && !compensates && !search->forced && to->k >= least_long_k(candidate) &&
           tiles < search->traits->multiprocessors;
}

/* The k of each of so many parts, in whole tiles; 0 where that is no way, or leaves parts without any. */
static int64_t k_of_parts(const struct kernel *kernel, const struct problem *product, int parts)
{
    int64_t k = product->k > 0 ? product->k : 1;
    int64_t k_per_part;
    bool fits = !__builtin_mul_overflow(ceiling(ceiling(k, parts), kernel->tile_k), (int64_t)kernel->tile_k,
                                        &k_per_part);
    return fits && ceiling(k, k_per_part) == parts ? k_per_part : 0;
}

/*
 * Whether a row without a whole image has none for a way either: for one part whose D it stores itself, or for several. For bare sums
 * of all of k there are enough other rows.
 */
static bool lacks_image(const struct kernel *kernel, const struct candidate *way)
{
    const struct problem *to = &way->product;
    bool has_image =
        way->bare ? way->parts > 1 && kernel_may_sum(kernel, to) : kernel_suits_images(kernel, to);
    return kernel_lacks_whole(kernel) && !has_image;
}

bool complete_way(const struct search *search, const struct kernel *kernel, int parts,
                  struct candidate *candidate)
{
    const struct problem *p = search->problem;
    candidate->k_per_part = k_of_parts(kernel, &candidate->product, parts);
    if (candidate->k_per_part == 0) {
        return false;
    }
    candidate->kernel = kernel;
    candidate->safe = find_safe_row(search->traits, candidate, kernel);
    candidate->parts = parts;
    candidate->bare = parts > 1 || !kernel_finishes(kernel, p);
    if (lacks_image(kernel, candidate)) {
        return false;
    }
    candidate->partial_bytes = candidate->bare ? partial_bytes(p, parts) : 0;
    if (candidate->rescue) {
        place_parts(candidate, parts);
    }
    /* Of two planes partial sums would be finished before it is known whether they count. */
    bool too_early = candidate->bare && candidate->product.planes == PLANES_OF_F16;
    /* Compensated sums are rounded once, in the end. */
    bool too_often = parts > 1 && kernel->accuracy == ACCURACY_BEST && kernel->element == ELEMENT_F64;
    if (too_often || too_early || (candidate->bare && (!search->reduce || candidate_has_panels(candidate))) ||
        sums_too_long(search, candidate) || (parts > 1 && candidate->partial_bytes > MOST_PARTIALS) ||
        !fits_workspace(search, candidate) ||
        !kernel_count_blocks(kernel, &candidate->product, parts, &candidate->blocks)) {
        return false;
    }
    candidate->cycles = candidate_cycles(search, candidate);
    return true;
}

bool share_tiles(const struct search *search, struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    if (!kernel->stream || candidate->parts > 1 || candidate->bare) {
        return false;
    }
    int64_t clusters = kernel_clusters(kernel, search->traits);
    int64_t tiles = candidate->blocks / kernel_cluster_blocks(kernel);
    int64_t waves = tiles / clusters;
    int64_t shared = waves > 1 ? tiles - (waves - 1) * clusters : tiles;
    int64_t steps;
    if (tiles % clusters == 0 || clusters > MOST_SHARERS * shared ||
        __builtin_mul_overflow(shared, candidate_steps(candidate), &steps) || steps > MOST_SHARED_STEPS ||
        steps < LEAST_SHARE * clusters) {
        return false;
    }
    candidate->stream_tiles = shared;
    candidate->partial_bytes =
        round_up(kernel_flag_bytes(kernel, search->traits) +
                     clusters * kernel_cluster_blocks(kernel) * kernel_tile_sum_bytes(kernel),
                 WORKSPACE_UNIT);
    candidate->cycles = candidate_cycles(search, candidate);
    return candidate->partial_bytes <= MOST_PARTIALS && fits_workspace(search, candidate);
}

/* ---- All of them ---- */

/* Of what whole ways say, the least that is left when all has been asked. */
static double least_factor(const struct search *search) { return search->shortlist ? LEAST_BY_TREES : 1; }

/* Whether a way can be the best, whatever the trees say. */
static bool may_be_best(const struct search *search, const struct candidate *candidate)
{
    double least = cycles_here(search->traits, candidate, least_factor(search) * candidate->learned);
    return !search->best.kernel || least < search->best.cycles;
}

double search_cutoff(const struct search *search, const struct candidate *candidate)
{
    if (search->visitor || !search->best.kernel) {
        return INFINITY;
    }
    return cycles_there(search->traits, candidate, search->best.cycles) / least_factor(search);
}

/* What a way counts for beside those that were timed of the very problem. */
static double sure_cycles(const struct candidate *candidate)
{
    bool doubted = candidate->parts > MOST_TIMED_PARTS || candidate->kernel->element == ELEMENT_F64;
    return candidate->timed ? candidate->cycles : candidate->cycles * (doubted ? DOUBTED : GUESSED);
}

static void compete(struct search *search, const struct candidate *candidate)
{
    if (!search->best.kernel || candidate->cycles < search->best.cycles) {
        search->best = *candidate;
    }
}

/* What the trees say is looked up: some microseconds, so for as few as possible. */
static struct candidate with_trees(const struct search *search, const struct candidate *candidate)
{
    struct candidate asked = *candidate;
    asked.learned *= tree_factor(search->traits, search->problem, candidate);
    asked.cycles = cycles_here(search->traits, candidate, asked.learned) + candidate->finish_cycles;
    return asked;
}

/* Empties the shortlist, the ways that look best first: when they have been asked most others can no longer be the best. */
static void settle_shortlist(struct search *search)
{
    struct shortlist *list = search->shortlist;
    while (list && list->count > 0) {
        int next = 0;
        for (int i = 1; i < list->count; i++) {
            next = list->ways[i].cycles < list->ways[next].cycles ? i : next;
        }
        if (may_be_best(search, &list->ways[next])) {
            struct candidate asked = with_trees(search, &list->ways[next]);
            compete(search, &asked);
        }
        list->ways[next] = list->ways[--list->count];
    }
}

/* Puts a way on the shortlist, unless it cannot be the best. */
static void shortlist(struct search *search, const struct candidate *candidate)
{
    struct shortlist *list = search->shortlist;
    if (!may_be_best(search, candidate)) {
        return;
    }
    list->ways[list->count++] = *candidate;
    if (list->count == SHORTLIST) {
        settle_shortlist(search);
    }
}

static void consider(struct search *search, const struct candidate *candidate)
{
    if (search->visitor) {
        struct candidate asked = with_trees(search, candidate);
        search->visitor(search->context, &asked);
    }
    if (search->shortlist && !candidate->timed) {
        shortlist(search, candidate);
    } else {
        compete(search, candidate);
    }
    search->timed += candidate->timed;
    if (candidate->timed && (!search->best_timed.kernel || candidate->cycles < search->best_timed.cycles)) {
        search->best_timed = *candidate;
    }
}

/* Looks at a row with so many parts of K, and at the same with shared tiles. */
static void search_parts(struct search *search, const struct candidate *treated, const struct kernel *kernel,
                         int parts)
{
    struct candidate candidate = *treated;
    if (!complete_way(search, kernel, parts, &candidate)) {
        return;
    }
    consider(search, &candidate);
    if (share_tiles(search, &candidate)) {
        consider(search, &candidate);
    }
}

/* Looks at all rows that multiply the candidate's product, at all numbers of parts, and at shared tiles. */
static void search_rows(struct search *search, const struct candidate *treated)
{
    if (treated->packed_bytes > most_workspace(search)) {
        return;
    }
    const struct ways *ways = search->traits->tuning ? tuning_ways(search->traits->tuning) : NULL;
    const struct way_place place = place_of_way(search->problem, treated);
    struct ways_near near;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if ((search->only && kernel != search->only) || kernel->operation != OPERATION_GEMM ||
            !kernel_has_way(kernel, search->traits, &treated->product) ||
            (!search->looks_at_all && kernel_shares_nothing(kernel, &treated->product))) {
            continue;
        }
        if (ways) {
            ways_look_up(ways, kernel, &place, &near);
            search->near = &near;
        }
        /* Every number of parts as long as one more makes a difference, then in growing steps. */
        int64_t steps = ceiling(treated->product.k, kernel->tile_k);
        for (int parts = 1; parts <= MOST_PARTS && (parts == 1 || parts <= steps); parts += 1 + parts / 32) {
            if (k_of_parts(kernel, &treated->product, parts) > 0) {
                search_parts(search, treated, kernel, parts);
            }
        }
    }
    search->near = NULL;
}

const struct kernel *search_stand_in(const struct search *search, const struct candidate *way)
{
    const struct ways *ways = search->traits->tuning ? tuning_ways(search->traits->tuning) : NULL;
    const struct way_place place = place_of_way(search->problem, way);
    struct shortlist asks_trees = {.count = 0}; /* ways come one by one, and none waits */
    bool has_trees = search->traits->tuning && tuning_trees(search->traits->tuning);
    struct search own = {.traits = search->traits,
                         .problem = search->problem,
                         .reduce = search->reduce,
                         .shortlist = has_trees ? &asks_trees : NULL};
    struct ways_near near;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        struct candidate other = *way;
        if (!kernel_stands_in(kernel, way->kernel) ||
            !kernel_multiplies(kernel, search->traits, &way->product)) {
            continue;
        }
        if (ways) {
            ways_look_up(ways, kernel, &place, &near);
            own.near = &near;
        }
        /* Of so many parts as well, whose sums are finished behind it; else it finishes them itself. */
        if (complete_way(&own, kernel, way->parts, &other) && other.bare == way->bare &&
            may_be_best(&own, &other)) {
            other = has_trees ? with_trees(&own, &other) : other;
            compete(&own, &other);
        }
    }
    return own.best.kernel;
}

/* Whether some row multiplies these types, and wants both operands along k. */
static bool wants_operands_along_k(const struct search *search)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_GEMM && kernel->layout == LAYOUT_TN &&
            kernel_has_types(kernel, search->problem) && kernel_runs_on(kernel, search->traits)) {
            return true;
        }
    }
    return false;
}

/*
 * Whether a packed operand would lie as the original does: such a copy is for nothing. Not where k is rounded up with it,
 * for the other operand.
 */
static bool is_in_vain(const struct problem *p, const struct candidate *treated)
{
    const struct problem *to = &treated->product;
    bool a = treated->packs_a && to->trans_a == p->trans_a && to->lda == p->lda &&
             to->stride_a == p->stride_a && to->align_a == p->align_a;
    bool b = treated->packs_b && to->trans_b == p->trans_b && to->ldb == p->ldb &&
             to->stride_b == p->stride_b && to->align_b == p->align_b;
    return (a || b) && to->k == p->k && to->type_a == p->type_a;
}

/* Looks at A and B in every treatment; those that become another type are packed. */
static void search_treatments(struct search *search, int as)
{
    const struct problem *p = search->problem;
    bool converts = as != ELEMENT_NONE;
    bool turns = !converts && wants_operands_along_k(search);
    for (int a = converts || search->always_pack ? PACKED : AS_IT_IS;
         a <= (turns && !p->trans_a ? TURNED : PACKED); a++) {
        for (int b = converts || search->always_pack ? PACKED : AS_IT_IS;
             b <= (turns && p->trans_b ? TURNED : PACKED); b++) {
            struct candidate treated;
            if (treat(search->traits, p, (enum treatment)a, (enum treatment)b, as, &treated) &&
                (search->always_pack || !is_in_vain(p, &treated))) {
                search_rows(search, &treated);
            }
        }
    }
}

/* Looks at all ways; the best one is that which is foreseen to be. */
static void search_by_forecast(struct search *search)
{
    const struct problem *p = search->problem;
    bool narrow = carat_type_size(p->type_a) == 1 && p->type_a != CARAT_S8;
    search->best = search->best_timed = (struct candidate){.kernel = NULL};
    search->timed = 0;
    if (p->k == 0) {
        /* Nothing is read, so whatever A and B are will do. */
        struct candidate treated;
        treat(search->traits, p, AS_IT_IS, AS_IT_IS, narrow ? ELEMENT_F16 : ELEMENT_NONE, &treated);
        search_rows(search, &treated);
        return;
    }
    search_treatments(search, ELEMENT_NONE);
    if (narrow) {
        search_treatments(search, ELEMENT_F16);
    }
    if (problem_wants_best(p) && p->type_a != CARAT_F64) {
        search_treatments(search, ELEMENT_F64);
    }
    for (int planes = PLANES_OF_F16; planes <= PLANES_OF_BF16 && !search->always_pack; planes++) {
        struct candidate parts;
        if (treat_as_planes(search->traits, p, planes, most_workspace(search), &parts)) {
            search_rows(search, &parts);
        }
    }
}

void search_all(struct search *search)
{
    struct shortlist list = {.count = 0};
    bool has_trees = search->traits->tuning && tuning_trees(search->traits->tuning);
    search->shortlist = has_trees ? &list : NULL;
    search_by_forecast(search);
    settle_shortlist(search);
    if (search->timed >= LEAST_TIMED && sure_cycles(&search->best) > search->best_timed.cycles) {
        search->best = search->best_timed;
    }
    search->shortlist = NULL;
}

struct search search_of(const struct device_traits *traits, const struct problem *p)
{
    const struct kernel *reduce = find_reduce_row(traits, p);
    bool fits =
        reduce && (double)p->m * (double)p->n * (double)p->batch / kernel_threads(reduce) < MOST_BLOCKS;
    return (struct search){.traits = traits, .problem = p, .reduce = fits ? reduce : NULL, .limited = true};
}

void search_best(struct search *search)
{
    search_all(search);
    if (!search->best.kernel) {
        search->limited = false;
        search_all(search);
    }
}
