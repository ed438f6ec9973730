/* planes.c - what is multiplied: f32 as sums of 16-bit planes, where need be in panels of D. */
#include "planes.h"

#include "rows.h"
#include "treatments.h"

/*
 * For shorter k the unit's cut sums may be off by more than a chain of roundings: of bf16 planes in the worst case, of f16
 * ones on average (tests/test_dial.c).
 */
#define LEAST_CLOSE_K 96
/* Products from this many multiply-adds on have two launches behind them that most leave at once, for who needs them. */
#define LEAST_SAFE_WORK 0x1p33
/* Parts of D that a product may leave alone, see verdict_arguments: the lowest tiles' rows, and columns. */
#define LEAST_SPOILED_ROWS 32
#define SPOILED_COLUMNS 16
#define BLOCK_SIDE 64 /* see kernels/common/blocks.h */
/* Sides of panels are multiples of this, and no less than that, where D does not fit at once. */
#define PANEL_UNIT 384
#define LEAST_PANEL 1536

int64_t split_blocks(const struct kernel *kernel, const struct device_traits *traits)
{
    return (int64_t)traits->multiprocessors * (kernel->min_blocks > 0 ? kernel->min_blocks : 1);
}

int64_t split_slices(int64_t k) { return k < BLOCK_SIDE ? 1 : k / BLOCK_SIDE; }

int64_t split_words(struct extent operand, int64_t k, bool along_k)
{
    int64_t blocks = ceiling(along_k ? operand.columns : operand.rows, BLOCK_SIDE);
    return split_slices(k) * blocks * (operand.stride == 0 ? 1 : operand.batch);
}

/* Lays one operand out as planes, each as if it were a matrix of its own. */
static int64_t lay_out_planes(int planes, int64_t length, int64_t count, int64_t batch, int64_t *ld,
                              int64_t *stride)
{
    bool shared = *stride == 0 || batch == 1;
    *ld = round_up(length, PACKED_UNIT / 2);
    *stride = shared ? 0 : planes * *ld * count;
    return round_up(*ld * count * planes * (shared ? 1 : batch) * 2, WORKSPACE_UNIT);
}

/* The product of planes, and where B's begin; returns how many bytes all of them take. */
static int64_t lay_out_planes_of(const struct problem *p, int planes, struct problem *to, int64_t *b_at)
{
    *to = *p;
    to->type_a = to->type_b = planes == PLANES_OF_F16 ? CARAT_F16 : CARAT_BF16;
    to->planes = planes;
    to->align_a = to->align_b = MAP_ALIGNMENT;
    *b_at = lay_out_planes(planes, p->trans_a ? p->k : p->m, p->trans_a ? p->m : p->k, p->batch, &to->lda,
                           &to->stride_a);
    return *b_at + lay_out_planes(planes, p->trans_b ? p->n : p->k, p->trans_b ? p->k : p->n, p->batch,
                                  &to->ldb, &to->stride_b);
}

/* So many words behind what else is in the workspace; returns where. */
static int64_t add_words(struct candidate *candidate, int64_t words)
{
    int64_t at = candidate->packed_bytes;
    candidate->packed_bytes += round_up(words * (int64_t)sizeof(uint32_t), WORKSPACE_UNIT);
    return at;
}

/* Whether a problem's accuracy is had from so many planes of f32. */
static bool wants_planes(const struct problem *p, int planes)
{
    if (p->type_a != CARAT_F32) {
        return false;
    }
    return planes == PLANES_OF_F16 ? p->accuracy == CARAT_ACCURACY_CLOSE && p->k >= LEAST_CLOSE_K
                                   : problem_keeps_all_bits(p) && p->k >= LEAST_SPLIT_K;
}

/*
 * Places planes and words one behind the other, for panels of so many rows and columns of D; false where there are too
 * many. The words of what is left of D come last: there are more of them where K is in parts.
 */
static bool place_planes(const struct device_traits *traits, const struct problem *p, int64_t m, int64_t n,
                         struct candidate *candidate)
{
    struct problem panel = *p;
    panel.m = m;
    panel.n = n;
    int planes = candidate->pack->planes;
    candidate->packed_bytes = lay_out_planes_of(&panel, planes, &candidate->product, &candidate->packed_b_at);
    candidate->planes.b = candidate->packed_b_at;
    int64_t words = split_blocks(candidate->pack, traits);
    if (planes == PLANES_OF_F16) {
        words = split_words(problem_extent_a(&panel), p->k, p->trans_a) +
                split_words(problem_extent_b(&panel), p->k, !p->trans_b);
    }
    int64_t spoiled = ceiling(m, LEAST_SPOILED_ROWS) * ceiling(n, SPOILED_COLUMNS) * p->batch;
    if (candidate->safe_split) {
        /* They stand where those of f16 were: nobody needs these any more. */
        int64_t safe_bytes =
            lay_out_planes_of(&panel, PLANES_OF_BF16, &candidate->safe_product, &candidate->safe_planes.b);
        candidate->packed_bytes = candidate->packed_bytes > safe_bytes ? candidate->packed_bytes : safe_bytes;
        candidate->safe_planes.verdicts = add_words(candidate, split_blocks(candidate->safe_split, traits));
        candidate->safe_planes.spoiled = add_words(candidate, spoiled);
    }
    candidate->planes.verdicts = add_words(candidate, words);
    candidate->left_at = add_words(candidate, 1);
    candidate->planes.spoiled = add_words(candidate, spoiled);
    candidate->panels_m = ceiling(p->m, m);
    candidate->panels_n = ceiling(p->n, n);
    return words <= MOST_BLOCKS;
}

void place_parts(struct candidate *candidate, int parts)
{
    const struct problem *to = &candidate->product;
    candidate->packed_bytes = candidate->planes.spoiled;
    add_words(candidate,
              ceiling(to->m, LEAST_SPOILED_ROWS) * ceiling(to->n, SPOILED_COLUMNS) * to->batch * parts);
}

/* ---- Panels ---- */

/* The side of a panel where there are `count` of them. */
static int64_t panel_side(int64_t length, int64_t count)
{
    int64_t side = round_up(ceiling(length, count), PANEL_UNIT);
    return side < length ? side : length;
}

/*
 * Cuts D into panels whose planes fit, as few as can be: along n, so that A need not be split often, and along m as well
 * where A's planes would leave no room. All steps are of one panel. False where panels would be too small.
 */
static bool cut_into_panels(const struct device_traits *traits, const struct problem *p, int64_t most,
                            struct candidate *candidate)
{
    int64_t m = p->m;
    int64_t n = p->n;
    bool fits = place_planes(traits, p, m, n, candidate);
    for (int64_t count = 2;
         (!fits || candidate->packed_b_at > most / 2) && m > LEAST_PANEL && candidate->packed_bytes > most;
         count++) {
        m = panel_side(p->m, count);
        fits = place_planes(traits, p, m, n, candidate);
    }
    for (int64_t count = 2; (!fits || candidate->packed_bytes > most) && n > LEAST_PANEL; count++) {
        n = panel_side(p->n, count);
        fits = place_planes(traits, p, m, n, candidate);
    }
    return fits && candidate->packed_bytes <= most;
}

bool treat_as_planes(const struct device_traits *traits, const struct problem *p, int planes, int64_t most,
                     struct candidate *candidate)
{
    *candidate = (struct candidate){.product = *p, .packs_a = true, .packs_b = true};
    candidate->pack = find_row_of_planes(traits, OPERATION_SPLIT, planes, false);
    candidate->rescue = find_row_of_planes(traits, OPERATION_GEMM, 0, true);
    double bytes = ((double)p->m + (double)p->n + 2 * PACKED_UNIT) * ((double)p->k + PACKED_UNIT) *
                   (double)p->batch * 2 * PLANES_OF_BF16;
    double spoiled = ((double)p->m / LEAST_SPOILED_ROWS + 1) * ((double)p->n / SPOILED_COLUMNS + 1);
    if (!wants_planes(p, planes) || !candidate->pack || !candidate->rescue || bytes > 0x1p60 ||
        spoiled * (double)p->batch > 0x1p50) {
        return false;
    }
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    bool wants_safe = planes == PLANES_OF_F16 && work >= LEAST_SAFE_WORK;
    candidate->safe_split =
        wants_safe ? find_row_of_planes(traits, OPERATION_SPLIT, PLANES_OF_BF16, false) : NULL;
    int64_t tiles;
    return cut_into_panels(traits, p, most, candidate) &&
           kernel_count_blocks(candidate->rescue, &candidate->product, 1, &tiles);
}

bool candidate_has_panels(const struct candidate *candidate)
{
    return candidate->panels_m > 1 || candidate->panels_n > 1;
}

bool keeps_planes_of_a(const struct problem *product) { return product->planes == PLANES_OF_BF16; }

bool plan_has_panels(const struct plan *plan)
{
    return plan->product.m < plan->problem.m || plan->product.n < plan->problem.n;
}

void plan_panel(const struct plan *plan, int64_t row, int64_t column, struct plan *panel)
{
    const struct problem *whole = &plan->problem;
    *panel = *plan;
    panel->problem.m = whole->m - row < plan->product.m ? whole->m - row : plan->product.m;
    panel->problem.n = whole->n - column < plan->product.n ? whole->n - column : plan->product.n;
    if (panel->problem.m < plan->product.m || panel->problem.n < plan->product.n) {
        panel->stream_tiles = 0; /* those were counted in a whole panel */
    }
    /* Planes of a smaller panel are less, and stand where those of a whole one do. */
    int64_t b_at;
    lay_out_planes_of(&panel->problem, plan->product.planes, &panel->product, &b_at);
    if (plan_has(plan, STEP_SAFE)) {
        lay_out_planes_of(&panel->problem, plan->safe_product.planes, &panel->safe_product, &b_at);
    }
}

/* ---- The product behind ---- */

const struct kernel *find_safe_row(const struct device_traits *traits, const struct candidate *candidate,
                                   const struct kernel *behind)
{
    const struct kernel *found = NULL;
    int64_t blocks;
    for (int i = 0; candidate->safe_split && i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_GEMM && kernel->tile_m == behind->tile_m &&
            kernel_multiplies(kernel, traits, &candidate->safe_product) &&
            kernel_count_blocks(kernel, &candidate->safe_product, 1, &blocks)) {
            if (kernel_shares_as(kernel, behind)) {
                return kernel;
            }
            found = found ? found : kernel;
        }
    }
    return found;
}
