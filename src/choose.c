/*
 * choose.c - how a problem is computed: every way that the catalogue offers, and a cost model that ranks
 * them.
 *
 * A way is a product's row, the parts of K or the tiles that its blocks share, and what is done to A and B before: nothing, copies whose columns
 * are aligned, transposes that run along k, 8-bit floats as f16. The model counts cycles of the busiest
 * multiprocessor. It knows no device by name: what the rows say of themselves (RATE, MIN_BLOCKS) was
 * measured, and the few numbers below are of the right size for the chips at hand. It has to rank, not to
 * predict.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/cpu.h"
#include "plan.h"
#include "status.h"

#define MOST_BLOCKS 2147483647 /* of a grid in its first dimension */
#define MOST_PARTS 256
#define WORKSPACE_UNIT 256
/* Partial sums take no more than this where K is split for speed, */
#define MOST_PARTIALS ((int64_t)64 << 20)
/* and what a row cannot do without, or packed operands, no more than this while there is another way. */
#define MOST_WORKSPACE ((int64_t)8 << 30)
/* Packed columns begin at multiples of this; a thread of a pack moves so much at a time, so often. */
#define PACKED_UNIT 128
#define PACK_BYTES 16
#define PACKS_AT_ONCE 4
/* A tensor map's limits: elements a dimension, bytes from column to column and from problem to problem. */
#define MAP_ALIGNMENT 16
#define MAP_ELEMENTS ((int64_t)1 << 31)
#define MAP_BYTES ((int64_t)1 << 40)
/*
 * A memory sector; where columns do not begin at one, asynchronous copies of wide elements reach this
 * share.
 */
#define SECTOR 32
#define OFF_SECTOR 0.8

/* Cycles from a block's launch to its first product, and from its last one to its end. */
#define BLOCK_CYCLES 1500.0
/* The same from tile to tile of a block that goes on. */
#define TILE_CYCLES 400.0
/* The same to store a tile of short columns that the copy engine cannot store. */
#define CARRY_CYCLES 5000.0
#define SHORT_COLUMN 32
/*
 * And for each element of a tile of longer ones, which threads store: of four bytes more than of two. So much of that
 * the next tile's products hide, but never all.
 */
#define ODD_ELEMENT_CYCLES 0.55
#define ODD_WIDE_ELEMENT_CYCLES 0.85
#define HIDING_SHARE 0.75
#define NEVER_HIDDEN 0.35
/* The same of rows whose threads store their own sums. */
#define STORE_ELEMENT_CYCLES 0.3
/*
 * Where clusters share tiles: cycles until one sees what another has handed on, bytes a cycle at which a block writes
 * its sums of a tile or reads another's, and the most clusters that share one.
 */
#define HAND_OVER_CYCLES 1500.0
/* How much longer shared tiles take than whole ones: at different k at a time, blocks read nothing in common. */
#define SHARED_COST 1.15
#define HAND_OVER_RATE 48.0
#define MOST_SHARERS 4
/* The least steps of a cluster's share, and the most of all shares together. */
#define LEAST_SHARE 2
#define MOST_SHARED_STEPS INT32_MAX

/* Cycles that one more kernel before or behind the product takes, whatever it does. */
#define KERNEL_CYCLES 4000.0
/* What a table's times of products have in them beside: the launch. */
#define LAUNCH_CYCLES 2500.0
/*
 * Bytes a cycle and multiprocessor: to and from memory, from it where nothing else is to do, from the
 * second-level cache, and from that by the copy engine.
 */
#define MEMORY_RATE 16.0
#define READ_RATE 18.5
#define WRITE_RATE 10.5 /* to memory, where nothing else is to do */
#define CACHE_RATE 28.0
#define ENGINE_RATE 38.0
#define ENGINE_RATE_OFF_LINES 25.0
#define CACHE_LINE 128
/* The share of its rate that one block alone on a multiprocessor reaches, where more would fit. */
#define ALONE 0.5
/* How much longer a pack takes that turns its operand, by what it stages and how it reads. */
#define TURNED_COST 1.15
/* The share of its unit's rate that a row for thin operands reaches. */
#define THIN_RATE 0.7
/* The share of the tensor unit's rate that instructions of one warp reach. */
#define OF_ONE_WARP 0.62
/* Cycles that a block waits for what it needs next, where nothing is fetched ahead. */
#define LOAD_CYCLES 750.0
#define ODD_LOAD_CYCLES 3000.0
#define WASTED_LOAD 4.0
/* And that many for each element which it has to fit into place, whatever else runs. */
#define ODD_FETCH_CYCLES 0.25
/*
 * Rows that go straight from memory to D: cycles before and after all tiles, of one tile, of each element
 * that is stored, and of each later chunk of k, which nothing hides.
 */
#define DIRECT_CYCLES 200.0
#define DIRECT_TILE_CYCLES 1150.0
#define DIRECT_ELEMENT_CYCLES 0.15
#define LATER_CHUNK_CYCLES 1200.0
/*
 * Thin rows: cycles before the first round of k and after the last, of a round, in which the warps fetch
 * TILE_K of k, and where each warp has all of k for itself. By multiply-adds of the plain unit each column
 * costs more. How much longer it takes where what is narrower than a word begins anywhere, and what one more
 * tile of a multiprocessor takes of all that: they hardly help each other.
 */
#define THIN_CYCLES 1500.0
#define THIN_ROUND_CYCLES 2400.0
#define THIN_ALONE_CYCLES 1500.0
#define PLAIN_THIN_CYCLES 1200.0
#define PLAIN_THIN_COLUMN_CYCLES 330.0
#define PLAIN_THIN_ROUND_CYCLES 700.0
#define PLAIN_THIN_ROUND_COLUMN_CYCLES 300.0
#define ODD_THIN 1.4
#define ONE_MORE_THIN 0.8
/*
 * Those that read all that they have of k at once: cycles of a round, and for each byte of an element and row
 * of a warp. Where the long operand runs across k, each thread has so many k of one row on the way, and that
 * takes so long.
 */
#define DOTS_CYCLES 1000.0
#define DOTS_BYTE_CYCLES 150.0
#define DOTS_AHEAD 8
#define DOTS_ACROSS_CYCLES 1200.0

/* Below this k the unit's cut sums of bf16 parts may be off by more than a chain of roundings. */
#define LEAST_SPLIT_K 32

/* ---- What a row can do ---- */

bool kernel_runs_on(const struct kernel *kernel, const struct device_traits *traits)
{
    bool has_instructions = kernel->arch_specific ? kernel->arch == traits->compute_capability
                                                  : kernel->arch <= traits->compute_capability;
    bool has_memory = traits->shared_bytes == 0 || kernel->shared_bytes <= traits->shared_bytes;
    return kernel->image && has_instructions && has_memory;
}

/* Whether A and B are f64 that were narrower floats. */
static bool is_widened(const struct problem *p) { return p->type_a == CARAT_F64 && p->type_cd != CARAT_F64; }

/* Whether sums of three bf16 parts, which hold all bits of an f32, are what a problem asks for, or better. */
static bool keeps_all_bits(const struct problem *p)
{
    return p->accuracy == CARAT_ACCURACY_STANDARD || p->accuracy == CARAT_ACCURACY_CLOSE;
}

static bool has_types(const struct kernel *kernel, const struct problem *p)
{
    int element_b = kernel->element_b ? kernel->element_b : kernel->element;
    /* The tensor unit keeps sums of 8-bit floats in fewer than 24 bits. */
    bool cuts_sums = kernel->element == ELEMENT_E4M3 || kernel->element == ELEMENT_E5M2;
    bool is_best = is_widened(p) ? kernel->widened != 0 : kernel->accuracy == ACCURACY_BEST;
    return kernel->element == (int)p->type_a && element_b == (int)p->type_b && kernel->planes == p->planes &&
           !kernel->rescues && is_best == problem_wants_best(p) &&
           (kernel->accuracy != ACCURACY_FAST || p->accuracy == CARAT_ACCURACY_FAST) &&
           (kernel->splits == 0 || keeps_all_bits(p)) && !(cuts_sums && p->accuracy == CARAT_ACCURACY_STRICT);
}

static bool has_layout(const struct kernel *kernel, const struct problem *p)
{
    int layout = p->trans_a ? (p->trans_b ? LAYOUT_TT : LAYOUT_TN) : (p->trans_b ? LAYOUT_NT : LAYOUT_NN);
    return kernel->layout == LAYOUT_ANY || kernel->layout == layout;
}

/* Elements of which bases, columns and strides of A and B must be multiples; 1 where the row takes any. */
static int64_t aligned_elements(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    int64_t bytes = kernel->tensor_maps ? MAP_ALIGNMENT : kernel->alignment;
    return bytes > size ? bytes / size : 1;
}

static bool is_aligned(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    int64_t unit = aligned_elements(kernel, p);
    /* A kernel may begin with what its tiles leave over of k, where it moves the tiles itself. */
    bool along_k = p->trans_a || !p->trans_b;
    bool k_fits = kernel->tensor_maps || !along_k || p->k % unit == 0;
    return unit == 1 ||
           (k_fits && p->lda % unit == 0 && p->ldb % unit == 0 && p->stride_a % unit == 0 &&
            p->stride_b % unit == 0 && p->align_a % (unit * size) == 0 && p->align_b % (unit * size) == 0);
}

static bool within_limits(const struct kernel *kernel, const struct problem *p)
{
    if ((kernel->ld_limit > 0 && (p->lda > kernel->ld_limit || p->ldb > kernel->ld_limit)) ||
        (kernel->k_limit > 0 && p->k > kernel->k_limit) || (kernel->splits > 0 && p->k < LEAST_SPLIT_K)) {
        return false;
    }
    int64_t most = MAP_BYTES / (int64_t)carat_type_size(p->type_a);
    return !kernel->tensor_maps || (p->k > 0 && p->m < MAP_ELEMENTS && p->n < MAP_ELEMENTS &&
                                    p->k < MAP_ELEMENTS && p->batch < MAP_ELEMENTS && p->lda < most &&
                                    p->ldb < most && p->stride_a < most && p->stride_b < most);
}

bool kernel_multiplies(const struct kernel *kernel, const struct device_traits *traits,
                       const struct problem *p)
{
    /* Rungs of the ladder know nothing of batches. */
    bool product =
        kernel->operation == OPERATION_GEMM || (kernel->operation == OPERATION_LADDER && p->batch == 1);
    return product && has_types(kernel, p) && kernel_runs_on(kernel, traits) && has_layout(kernel, p) &&
           within_limits(kernel, p) && is_aligned(kernel, p);
}

bool kernel_finishes(const struct kernel *kernel, const struct problem *p)
{
    if (problem_wants_best(p) && kernel->element == ELEMENT_F64 && p->type_a != CARAT_F64) {
        /* A and B were widened. */
        return p->type_cd == CARAT_F32 && !p->bias && p->activation == CARAT_ACTIVATION_NONE &&
               !problem_takes_scales(p);
    }
    /* Rows of f16, to which 8-bit floats may have been packed, store what products of f16 give. */
    bool has_result = kernel->element == (int)p->type_a || p->type_cd == CARAT_F16 || p->type_cd == CARAT_F32;
    return (kernel->epilogue && has_result) || problem_is_plain(p);
}

/* The row that goes on from sums of a type; NULL where there is none. */
static const struct kernel *reduce_row(const struct device_traits *traits, carat_type type)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_REDUCE && kernel->element == (int)type &&
            kernel_runs_on(kernel, traits)) {
            return kernel;
        }
    }
    return NULL;
}

/* The row that packs elements of a size as they are (0) or as another type; NULL where there is none. */
static const struct kernel *pack_row(const struct device_traits *traits, size_t element_bytes, int converts)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_PACK && kernel->element_bytes == (int)element_bytes &&
            kernel->converts == converts && kernel_runs_on(kernel, traits)) {
            return kernel;
        }
    }
    return NULL;
}

/* ---- Tiles ---- */

static int64_t ceiling(int64_t x, int64_t y) { return x / y + (x % y != 0); }
static int64_t round_up(int64_t x, int64_t unit) { return ceiling(x, unit) * unit; }

static int blocks_of_cluster(const struct kernel *kernel)
{
    return kernel->cluster > 1 ? kernel->cluster : 1;
}

/* Tiles of the whole product, whole clusters of them; false where there are more than a grid can have. */
static bool count_blocks(const struct kernel *kernel, const struct problem *p, int parts, int64_t *blocks)
{
    int cluster = blocks_of_cluster(kernel);
    int64_t tiles_m = ceiling(p->m, (int64_t)kernel->tile_m * (kernel->swapped ? 1 : cluster));
    int64_t tiles_n = ceiling(p->n, (int64_t)kernel->tile_n * (kernel->swapped ? cluster : 1));
    int64_t count = cluster;
    return !__builtin_mul_overflow(count, tiles_m, &count) &&
           !__builtin_mul_overflow(count, tiles_n, &count) &&
           !__builtin_mul_overflow(count, (int64_t)parts, &count) &&
           !__builtin_mul_overflow(count, p->batch, blocks) && *blocks <= MOST_BLOCKS;
}

/* ---- What is multiplied: A and B as they are, or packed ---- */

/* What happens to an operand before the product. */
enum treatment { AS_IT_IS, PACKED, TURNED };

static double extent_elements(struct extent extent)
{
    return (double)extent.rows * (double)extent.columns * (double)(extent.stride == 0 ? 1 : extent.batch);
}

/* Lays one operand out anew: columns of length elements, count of them; its bytes in whole units. */
static int64_t lay_out(int64_t length, int64_t count, int64_t size, int64_t batch, int64_t *ld,
                       int64_t *stride)
{
    *ld = round_up(length, PACKED_UNIT / size);
    bool shared = *stride == 0 || batch == 1;
    *stride = shared ? 0 : *ld * count;
    return round_up(*ld * count * (shared ? 1 : batch) * size, WORKSPACE_UNIT);
}

/*
 * The product with A and B treated so, and where they lie in the workspace; false where they cannot be
 * treated so. Where `as` is a type both become that.
 */
static bool treat(const struct device_traits *traits, const struct problem *p, enum treatment a,
                  enum treatment b, int as, struct candidate *candidate)
{
    struct problem *to = &candidate->product;
    *candidate = (struct candidate){.product = *p, .packs_a = a != AS_IT_IS, .packs_b = b != AS_IT_IS};
    if (as != ELEMENT_NONE) {
        to->type_a = (carat_type)as;
        to->type_b = (carat_type)as;
    }
    if (a == AS_IT_IS && b == AS_IT_IS) {
        return true;
    }
    int64_t size = (int64_t)carat_type_size(to->type_a);
    to->trans_a = a == TURNED || p->trans_a;
    to->trans_b = b != TURNED && p->trans_b;
    candidate->pack = pack_row(traits, carat_type_size(p->type_a), as);
    double bytes = ((a != AS_IT_IS ? (double)p->m : 0) + (b != AS_IT_IS ? (double)p->n : 0) + PACKED_UNIT) *
                   ((double)p->k + PACKED_UNIT) * (double)p->batch * (double)size;
    if (!candidate->pack || bytes > 0x1p60) {
        return false;
    }
    if (a != AS_IT_IS && b != AS_IT_IS && (to->trans_a || !to->trans_b)) {
        /*
         * k too, where an operand runs along it, since kernels begin with what their tiles leave over of k:
         * all that follows would lie off the sectors. What is added is zero.
         */
        to->k = round_up(p->k, PACKED_UNIT / size);
    }
    if (a != AS_IT_IS) {
        to->align_a = MAP_ALIGNMENT;
        candidate->packed_bytes = lay_out(to->trans_a ? to->k : p->m, to->trans_a ? p->m : to->k, size,
                                          p->batch, &to->lda, &to->stride_a);
    }
    candidate->packed_b_at = candidate->packed_bytes;
    if (b != AS_IT_IS) {
        to->align_b = MAP_ALIGNMENT;
        candidate->packed_bytes += lay_out(to->trans_b ? p->n : to->k, to->trans_b ? to->k : p->n, size,
                                           p->batch, &to->ldb, &to->stride_b);
    }
    /* Every block of a straight pack has so many bytes, one of a turned pack no fewer: it fits a grid. */
    int64_t block_bytes = (int64_t)candidate->pack->threads_x * PACK_BYTES;
    return candidate->packed_bytes / block_bytes < MOST_BLOCKS && to->lda * size / PACK_BYTES < MOST_BLOCKS &&
           to->ldb * size / PACK_BYTES < MOST_BLOCKS;
}

/* ---- What is multiplied: sums of planes ---- */

#define PLANES_OF_BF16 3
#define PLANES_OF_F16 2
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
/* Wider tiles of planes do not compensate their sums for long k: see COMPENSATES in kernels/gemm/wgmma.cu. */
#define WIDEST_COMPENSATED 64
#define USUAL_TILE 128

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

/* The first row that runs on the device, splits f32 into so many planes or rescues what cannot be split. */
static const struct kernel *row_of(const struct device_traits *traits, int operation, int planes,
                                   bool rescues)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == operation && kernel->planes == planes && (kernel->rescues != 0) == rescues &&
            kernel_runs_on(kernel, traits)) {
            return kernel;
        }
    }
    return NULL;
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
static int64_t lay_out_product(const struct problem *p, int planes, struct problem *to, int64_t *b_at)
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
                                   : keeps_all_bits(p) && p->k >= LEAST_SPLIT_K;
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
    candidate->packed_bytes = lay_out_product(&panel, planes, &candidate->product, &candidate->packed_b_at);
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
            lay_out_product(&panel, PLANES_OF_BF16, &candidate->safe_product, &candidate->safe_planes.b);
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

/* Makes room for what is left of each part of K. */
static void place_parts(struct candidate *candidate, int parts)
{
    const struct problem *to = &candidate->product;
    candidate->packed_bytes = candidate->planes.spoiled;
    add_words(candidate,
              ceiling(to->m, LEAST_SPOILED_ROWS) * ceiling(to->n, SPOILED_COLUMNS) * to->batch * parts);
}

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

/*
 * The product of f32 with A and B as sums of planes: three of bf16 hold all of their bits, two of f16 22 of them. In panels
 * where workspace has to be no more than `most`. False where that is not wanted, or has no rows.
 */
static bool split(const struct device_traits *traits, const struct problem *p, int planes, int64_t most,
                  struct candidate *candidate)
{
    *candidate = (struct candidate){.product = *p, .packs_a = true, .packs_b = true};
    candidate->pack = row_of(traits, OPERATION_SPLIT, planes, false);
    candidate->rescue = row_of(traits, OPERATION_GEMM, 0, true);
    double bytes = ((double)p->m + (double)p->n + 2 * PACKED_UNIT) * ((double)p->k + PACKED_UNIT) *
                   (double)p->batch * 2 * PLANES_OF_BF16;
    double spoiled = ((double)p->m / LEAST_SPOILED_ROWS + 1) * ((double)p->n / SPOILED_COLUMNS + 1);
    if (!wants_planes(p, planes) || !candidate->pack || !candidate->rescue || bytes > 0x1p60 ||
        spoiled * (double)p->batch > 0x1p50) {
        return false;
    }
    double work = (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    bool wants_safe = planes == PLANES_OF_F16 && work >= LEAST_SAFE_WORK;
    candidate->safe_split = wants_safe ? row_of(traits, OPERATION_SPLIT, PLANES_OF_BF16, false) : NULL;
    int64_t tiles;
    return cut_into_panels(traits, p, most, candidate) &&
           count_blocks(candidate->rescue, &candidate->product, 1, &tiles);
}

/* Whether D is computed in panels, one after the other. */
static bool has_panels(const struct candidate *candidate)
{
    return candidate->panels_m > 1 || candidate->panels_n > 1;
}

bool keeps_planes_of_a(const struct problem *product) { return product->planes == PLANES_OF_BF16; }

/*
 * The row of three planes that goes behind one of two, in tiles of the same height, so that both mean the same parts of
 * D; NULL where there is none, or none is wanted.
 */
static const struct kernel *safe_row(const struct device_traits *traits, const struct candidate *candidate,
                                     const struct kernel *behind)
{
    int64_t blocks;
    for (int i = 0; candidate->safe_split && i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_GEMM && kernel->tile_m == behind->tile_m &&
            kernel_multiplies(kernel, traits, &candidate->safe_product) &&
            count_blocks(kernel, &candidate->safe_product, 1, &blocks)) {
            return kernel;
        }
    }
    return NULL;
}

/* ---- What it costs to pack ---- */

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

/* The splits of all panels, and the launches behind their products that find nothing to do. */
static double splitting_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double panels = (double)candidate->panels_m * (double)candidate->panels_n;
    double times_a = keeps_planes_of_a(to) ? (double)candidate->panels_m : panels;
    double elements =
        times_a * extent_elements(problem_extent_a(to)) + panels * extent_elements(problem_extent_b(to));
    double bytes = elements * (4 + 2 * to->planes);
    return panels * (candidate->safe ? 4 : 2) * KERNEL_CYCLES +
           bytes / (MEMORY_RATE * traits->multiprocessors);
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
    return most * KERNEL_CYCLES + bytes / (MEMORY_RATE * traits->multiprocessors);
}

/* ---- What it would cost ---- */

/* Whether a row is for one thin operand: then RATE is of what reading the other one could reach. */
static bool is_thin(const struct kernel *kernel)
{
    return !kernel->tensor_maps && kernel->warp_m > 0 && kernel->splits == 0 &&
           (kernel->tile_m <= 16 || kernel->tile_n <= 16);
}

/* Whether a row is for short k, from memory to D with nothing between: it multiplies no k that is not there. */
static bool is_direct(const struct kernel *kernel) { return kernel->k_limit > 0; }

/* Whether a thin row fetches all that it has of k at once: for small products. */
static bool is_dots(const struct kernel *kernel) { return is_thin(kernel) && kernel->stages == 1; }

/* Whether a row's products run on the tensor unit, by instructions of one warp. */
static bool multiplies_by_warp(const struct kernel *kernel)
{
    bool tensor_type =
        kernel->element == ELEMENT_F16 || kernel->element == ELEMENT_BF16 || kernel->element == ELEMENT_S8 ||
        kernel->element == ELEMENT_E4M3 || kernel->element == ELEMENT_E5M2 ||
        (kernel->element == ELEMENT_F32 && (kernel->accuracy == ACCURACY_FAST || kernel->splits > 0));
    return !kernel->tensor_maps && tensor_type && kernel->warp_m > 0 && !is_dots(kernel);
}

/* Whether a row begins to fetch what it multiplies next only when it needs it; other blocks have to fill the time. */
static bool fetches_late(const struct kernel *kernel)
{
    return multiplies_by_warp(kernel) && kernel->stages == 0;
}

/* Whether what such a row loads lies as its instructions want it. */
static bool lies_in_place(const struct problem *p) { return p->m % 4 == 0 && p->n % 4 == 0 && p->k % 8 == 0; }

/* What it waits for each step of k: longer where it has to fit that into place, and where hardly anything of a tile is used. */
static double load_cycles(const struct kernel *kernel, const struct problem *p)
{
    bool wasted = 4 * p->m < kernel->tile_m || 4 * p->n < kernel->tile_n;
    return (lies_in_place(p) ? LOAD_CYCLES : ODD_LOAD_CYCLES) * (wasted ? WASTED_LOAD : 1);
}

double kernel_unit_rate(const struct kernel *kernel)
{
    if (kernel->tensor_maps || multiplies_by_warp(kernel)) {
        /* Of three parts each the six largest products are summed, of two the three largest. */
        int parts = kernel->planes > 0 ? kernel->planes : kernel->splits;
        double products = parts > 0 ? parts * (parts + 1) / 2.0 : 1;
        carat_type multiplied = kernel->splits > 0 ? CARAT_BF16 : (carat_type)kernel->element;
        double rate = 4096.0 / products / (double)carat_type_size(multiplied);
        return kernel->tensor_maps ? rate : rate * OF_ONE_WARP;
    }
    if (kernel->accuracy == ACCURACY_BEST) {
        /* Sums are f64; of f64 each multiply-add is ten operations. */
        return kernel->element == ELEMENT_F64 ? 6.4 : 64;
    }
    switch (kernel->element) {
    case ELEMENT_F64:
        /* The double-precision tensor instruction, and the plain one. */
        return kernel->arch >= 90 ? 128 : 64;
    case ELEMENT_S32:
        return 64;
    case ELEMENT_S8:
        return is_direct(kernel) ? 64 : 256;
    default:
        return 128;
    }
}

/* The share of its unit's rate, or of the read ceiling, that a row reaches. */
static double rate_of(const struct kernel *kernel) { return (kernel->rate > 0 ? kernel->rate : 50) / 100.0; }

static int most_resident(const struct kernel *kernel)
{
    return kernel->min_blocks > 0 ? kernel->min_blocks : 1;
}

/* Bytes that a block asks for of one k: of an operand that `sharing` blocks of a cluster share, its part. */
static double bytes_of_k(const struct kernel *kernel, const struct problem *p, int sharing)
{
    double wide_m = fmin(kernel->tile_m, (double)p->m);
    double wide_n = fmin(kernel->tile_n, (double)p->n);
    double elements = kernel->swapped ? wide_m / sharing + wide_n : wide_m + wide_n / sharing;
    return elements * (double)carat_type_size(p->type_a);
}

/*
 * Cycles that it takes to fetch one k. The copy engine's bytes come to each block at the same rate, shared or not; but
 * rows that do not begin at lines are two requests each, and it is requests that the cache then has no more of.
 */
static double fetch_cycles(const struct kernel *kernel, const struct problem *p)
{
    if (!kernel->tensor_maps) {
        return bytes_of_k(kernel, p, 1) / CACHE_RATE;
    }
    bool on_lines = p->lda * (int64_t)carat_type_size(p->type_a) % CACHE_LINE == 0 &&
                    p->ldb * (int64_t)carat_type_size(p->type_b) % CACHE_LINE == 0;
    double requests = bytes_of_k(kernel, p, blocks_of_cluster(kernel)) / ENGINE_RATE_OFF_LINES;
    return fmax(bytes_of_k(kernel, p, 1) / ENGINE_RATE, on_lines ? 0 : requests);
}

int64_t kernel_clusters(const struct kernel *kernel, const struct device_traits *traits)
{
    int64_t clusters = (int64_t)traits->multiprocessors * most_resident(kernel) / blocks_of_cluster(kernel);
    return clusters > 0 ? clusters : 1;
}

int64_t kernel_flag_bytes(const struct kernel *kernel, const struct device_traits *traits)
{
    int64_t blocks = kernel_clusters(kernel, traits) * blocks_of_cluster(kernel);
    return round_up(blocks * kernel->consumers * (int64_t)sizeof(uint64_t), WORKSPACE_UNIT);
}

/* Bytes of a block's sums of a tile, 4 each, which it hands to another block. */
static int64_t tile_sum_bytes(const struct kernel *kernel)
{
    return (int64_t)kernel->tile_m * kernel->tile_n * 4;
}

static int64_t steps_of_tile(const struct candidate *candidate)
{
    return ceiling(candidate->product.k, candidate->kernel->tile_k);
}

/*
 * The tiles of the busiest multiprocessor: whole ones in waves, but where the clusters share some, a real number of
 * them, to the step.
 */
static double busiest_tiles(const struct device_traits *traits, const struct candidate *candidate)
{
    int cluster = blocks_of_cluster(candidate->kernel);
    int64_t tiles = candidate->blocks / cluster;
    int64_t clusters_at_once = traits->multiprocessors / cluster > 0 ? traits->multiprocessors / cluster : 1;
    if (candidate->stream_tiles == 0) {
        return (double)ceiling(tiles, clusters_at_once);
    }
    int64_t steps = steps_of_tile(candidate);
    double share = (double)ceiling(candidate->stream_tiles * steps, clusters_at_once) / (double)steps;
    return share + (double)ceiling(tiles - candidate->stream_tiles, clusters_at_once);
}

/* How much longer a product takes for the tiles that are shared. */
static double shared_factor(const struct device_traits *traits, const struct candidate *candidate)
{
    if (candidate->stream_tiles == 0) {
        return 1;
    }
    double all = busiest_tiles(traits, candidate);
    int64_t clusters = kernel_clusters(candidate->kernel, traits);
    double whole = (double)ceiling(
        candidate->blocks / blocks_of_cluster(candidate->kernel) - candidate->stream_tiles, clusters);
    return 1 + (SHARED_COST - 1) * (all - whole) / all;
}

/* What a block does more where clusters share tiles: it writes its sums of one, and reads the others' of another. */
static double hand_over_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    int64_t clusters = kernel_clusters(candidate->kernel, traits);
    /* Shares that do not begin with a tile reach into one more at either end. */
    int64_t sharers = clusters / candidate->stream_tiles + (clusters % candidate->stream_tiles == 0 ? 0 : 2);
    return HAND_OVER_CYCLES + (double)sharers * (double)tile_sum_bytes(candidate->kernel) / HAND_OVER_RATE;
}

/*
 * Where the copy engine cannot store D's columns: short ones a warp stores one after the other, of long ones each
 * element by itself.
 */
static double carry_cycles(const struct kernel *kernel, const struct problem *p, double multiply)
{
    int64_t size = (int64_t)carat_type_size(p->type_cd);
    bool by_engine = (p->ldd | p->stride_d) * size % MAP_ALIGNMENT == 0;
    double all = (size == 4 ? ODD_WIDE_ELEMENT_CYCLES : ODD_ELEMENT_CYCLES) * kernel->tile_m * kernel->tile_n;
    double seen = fmax(NEVER_HIDDEN * all, all - HIDING_SHARE * multiply);
    return by_engine ? 0 : p->m < SHORT_COLUMN ? CARRY_CYCLES : seen;
}

/* Whether columns of A and B begin at multiples of 16 bytes. */
static bool lies_aligned(const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    return (p->lda * size | p->ldb * size | p->align_a | p->align_b) % MAP_ALIGNMENT == 0;
}

/* What a block of a row that has all of its k on the way at once waits for. */
static double dots_cycles(const struct kernel *kernel, const struct problem *p, double k)
{
    bool along_k = kernel->swapped ? !p->trans_b || p->ldb == 1 : p->trans_a || p->lda == 1;
    double length = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    double rows = kernel->swapped ? kernel->warp_n : kernel->warp_m;
    double size = (double)carat_type_size(p->type_a);
    double across = ceil(k * length / (DOTS_AHEAD * (double)kernel_threads(kernel)));
    return along_k ? ceil(k / kernel->tile_k) * (DOTS_CYCLES + DOTS_BYTE_CYCLES * size * rows)
                   : across * DOTS_ACROSS_CYCLES;
}

/* What a block of another thin row waits for. */
static double thin_round_cycles(const struct kernel *kernel, const struct problem *p, double k)
{
    double rounds = k / kernel->tile_k;
    double columns = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    bool odd = carat_type_size(p->type_a) < 4 && !lies_aligned(p);
    bool alone =
        kernel_threads(kernel) / 32 * kernel->warp_m * kernel->warp_n == kernel->tile_m * kernel->tile_n;
    double cycles = multiplies_by_warp(kernel)
                        ? THIN_CYCLES + (alone ? THIN_ALONE_CYCLES : 0) + rounds * THIN_ROUND_CYCLES
                        : PLAIN_THIN_CYCLES + PLAIN_THIN_COLUMN_CYCLES * columns +
                              rounds * (PLAIN_THIN_ROUND_CYCLES + PLAIN_THIN_ROUND_COLUMN_CYCLES * columns);
    return cycles * (odd ? ODD_THIN : 1);
}

/* Cycles of a multiprocessor's tiles of a thin row: each waits for memory, round after round. */
static double thin_cycles(const struct kernel *kernel, const struct problem *p, double k, double mine)
{
    return is_dots(kernel) ? mine * dots_cycles(kernel, p, k)
                           : (1 + ONE_MORE_THIN * (mine - 1)) * thin_round_cycles(kernel, p, k);
}

/* The same of a row that goes straight from memory to D, beside the multiplying. */
static double direct_cycles(const struct kernel *kernel, double k, double mine)
{
    double stored = DIRECT_ELEMENT_CYCLES * kernel->tile_m * kernel->tile_n;
    double later = fmax(0, ceil(k / kernel->tile_k) - 1) * ceil(mine / most_resident(kernel));
    return DIRECT_CYCLES + mine * (DIRECT_TILE_CYCLES + stored) + later * LATER_CHUNK_CYCLES;
}

static double product_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    const struct problem *p = &candidate->product;
    double fit = most_resident(kernel);
    double rate = is_thin(kernel) ? THIN_RATE : rate_of(kernel);

    /* The busiest multiprocessor's tiles, and how many of them are there at a time. */
    double mine = busiest_tiles(traits, candidate);
    double resident = mine < fit ? mine : fit;
    double busy = fit > 1 ? ALONE + (1 - ALONE) * resident / fit : 1;

    double used_k = (double)(candidate->parts > 1 ? candidate->k_per_part : p->k);
    double k = is_direct(kernel) ? used_k : ceil(used_k / kernel->tile_k) * kernel->tile_k;
    if (kernel->element == ELEMENT_F64 && aligned_elements(kernel, p) > 1 &&
        (p->lda * (int64_t)sizeof(double) % SECTOR != 0 || p->ldb * (int64_t)sizeof(double) % SECTOR != 0)) {
        rate *= OFF_SECTOR;
    }
    double multiply = (double)kernel->tile_m * kernel->tile_n * k / (kernel_unit_rate(kernel) * rate * busy);
    double fetch = fetch_cycles(kernel, p) * k;
    double wait = fetches_late(kernel) ? k / kernel->tile_k * load_cycles(kernel, p) / resident : 0;
    bool fits =
        kernel->splits > 0 ? lies_in_place(p) && lies_aligned(p) : !fetches_late(kernel) || lies_in_place(p);
    if (!fits) {
        wait = fmax(wait, ODD_FETCH_CYCLES * (kernel->tile_m + kernel->tile_n) * k);
    }
    if (is_thin(kernel)) {
        return fmax(mine * fmax(multiply, fetch), thin_cycles(kernel, p, used_k, mine));
    }
    if (is_direct(kernel)) {
        return mine * fmax(multiply, fetch) + direct_cycles(kernel, k, mine);
    }
    /* A share of tiles has one piece more than it is tiles long. */
    double pieces = candidate->stream_tiles > 0 ? ceil(mine) + 1 : mine;
    double between =
        kernel->tensor_maps
            ? BLOCK_CYCLES + (pieces - 1) * TILE_CYCLES + pieces * carry_cycles(kernel, p, multiply)
            : ceil(mine / fit) * BLOCK_CYCLES + mine * STORE_ELEMENT_CYCLES * kernel->tile_m * kernel->tile_n;
    return mine * fmax(fmax(multiply, fetch), wait) + between;
}

/* Every byte has to come from memory or go there once, shared between the multiprocessors. */
static double memory_cycles(const struct device_traits *traits, double bytes)
{
    return bytes / (MEMORY_RATE * traits->multiprocessors);
}

/* Cycles of the product's own kernel. */
static double multiply_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double inputs = (extent_elements(problem_extent_a(to)) + extent_elements(problem_extent_b(to))) *
                    (double)carat_type_size(to->type_a);
    double results = extent_elements(problem_extent_d(to)) * (double)carat_type_size(to->type_cd);
    if (is_thin(candidate->kernel)) {
        /* Of the thin operand each block has a piece, which is not read as well: where it is long, twice. */
        struct extent thin = candidate->kernel->swapped ? problem_extent_a(to) : problem_extent_b(to);
        inputs += extent_elements(thin) * (double)thin.element_bytes;
        /* Where more blocks would fit on a multiprocessor than there are, too little is on the way. */
        double fit = most_resident(candidate->kernel);
        double resident = fmin(fit, ceil((double)candidate->blocks / traits->multiprocessors));
        double busy = fit > 1 ? ALONE + (1 - ALONE) * resident / fit : 1;
        inputs *= MEMORY_RATE / (READ_RATE * rate_of(candidate->kernel) * busy);
    }
    double outputs = candidate->bare ? (double)candidate->partial_bytes : results;
    double written = outputs / (WRITE_RATE * traits->multiprocessors);
    return fmax(product_cycles(traits, candidate), fmax(memory_cycles(traits, inputs + outputs), written));
}

/* Cycles of one more kernel that finishes bare sums. */
static double reduce_cycles(const struct device_traits *traits, double partials, double results)
{
    return KERNEL_CYCLES + memory_cycles(traits, partials + results);
}

/* What is looked for, and the best so far. */
struct search {
    const struct device_traits *traits;
    const struct problem *problem;
    const struct kernel *only;   /* this row; NULL: any */
    const struct kernel *reduce; /* NULL where sums cannot be finished by another kernel */
    bool always_pack;            /* both A and B */
    bool forced;                 /* that row has been asked for by name */
    bool limited;                /* to so much workspace as most_workspace() says */
    struct candidate best;       /* kernel NULL: none so far */
    plan_visitor *visitor;       /* is shown every candidate; NULL: nobody */
    void *context;
    const struct ways_near *near; /* what was measured near of the row at hand; NULL: nothing */
};

/* What a way may take of workspace. */
static int64_t most_workspace(const struct search *search)
{
    int64_t asked = search->problem->most_workspace;
    return !search->limited ? INT64_MAX - 1 : asked > 0 && asked < MOST_WORKSPACE ? asked : MOST_WORKSPACE;
}

/* ---- What was measured ---- */

/* How much of a tile's side is in use, where the problem has less than one tile. */
static double used_share(int64_t length, int tile) { return fmin(1, (double)length / tile); }

#define THIN_K_STEP 128
#define MOST_SAMPLED_WORK 0x1p33
#define MOST_SAMPLED_BYTES 0x1p24

bool kernel_is_narrow(const struct kernel *kernel)
{
    return !is_direct(kernel) && kernel->splits == 0 && (kernel->tile_m <= 16 || kernel->tile_n <= 16);
}

int kernel_k_step(const struct kernel *kernel)
{
    /* Small thin products have less k than a tile. */
    int thin = kernel->tile_k < THIN_K_STEP ? kernel->tile_k : THIN_K_STEP;
    return is_direct(kernel) ? 1 : is_thin(kernel) ? thin : kernel->tile_k;
}

/* How thin a problem is for a row, in powers of two, see tuning_axes(). */
static double thinness(const struct kernel *kernel, const struct problem *to)
{
    double used_m = used_share(to->m, kernel->tile_m);
    double used_n = used_share(to->n, kernel->tile_n);
    if (!kernel_is_narrow(kernel)) {
        return log2(used_n / used_m);
    }
    bool long_m = kernel->tile_m > kernel->tile_n;
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
    *variant = to->trans_a << 2 | to->trans_b << 1 | lies_aligned(to);
    return (struct tuning_point){{
        log2(load > 1 ? ceil(load) : load),
        log2(steps),
        thinness(kernel, to),
    }};
}

/*
 * The product's cycles as the table corrects them. A launch counts there, which is the same for all ways but not
 * the same share of them. Tables know of no shared tiles: those run as fast as the row does in whole waves, of which
 * they are so much less as the model says, and what the clusters hand over comes on top as foreseen.
 */
static double corrected_multiply(const struct device_traits *traits, struct candidate *candidate,
                                 double cycles)
{
    int variant;
    struct tuning_point point = product_point(traits, candidate, &variant);
    const struct kernel *kernel = candidate->kernel;
    double factor = tuning_factor(traits->tuning, kernel, variant, point, &candidate->corrected);
    if (!candidate->corrected) {
        factor = tuning_factor(traits->tuning, kernel, variant ^ 1, point, &candidate->corrected);
    }
    return factor * (cycles + LAUNCH_CYCLES);
}

static double corrected_reduce(const struct search *search, const struct candidate *candidate, double cycles)
{
    const struct problem *p = search->problem;
    struct tuning_point point = {
        {log2((double)p->m * (double)p->n * (double)p->batch), log2((double)candidate->parts)}};
    return cycles * tuning_factor(search->traits->tuning, search->reduce, 0, point, NULL);
}

/* What a table does not know: of clusters that reach beyond the matrix by whole tiles some blocks have nothing to do. */
static double idle_factor(const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    int64_t across = kernel->swapped ? ceiling(candidate->product.n, kernel->tile_n)
                                     : ceiling(candidate->product.m, kernel->tile_m);
    double cluster = blocks_of_cluster(kernel);
    return across < cluster ? cluster / (double)across : 1;
}

/* ---- What was measured of whole ways ---- */

/* What a way does to one operand, see plan_marks(). */
static char mark_of(const struct problem *p, const struct candidate *way, bool packs, bool turned)
{
    carat_type to = way->product.type_a;
    char converted = to == CARAT_F16 ? 'h' : 'd';
    return !packs ? '-' : way->rescue ? 's' : to != p->type_a ? converted : turned ? 't' : 'p';
}

void plan_marks(const struct problem *problem, const struct candidate *way, char marks[2])
{
    const struct problem *to = &way->product;
    marks[0] = mark_of(problem, way, way->packs_a, to->trans_a != problem->trans_a);
    marks[1] = mark_of(problem, way, way->packs_b, to->trans_b != problem->trans_b);
}

/* Whether columns that are so far apart, in a matrix that begins at a multiple of so many bytes, begin anywhere. */
static bool begins_anywhere(carat_type type, int64_t ld, int64_t stride, int64_t align)
{
    return ((ld | stride) * (int64_t)carat_type_size(type) | align) % MAP_ALIGNMENT != 0;
}

/* Where the ways that treat A and B so lie among those that were measured. */
static struct way_place place_of(const struct problem *p, const struct candidate *treated)
{
    struct way_place place = {
        .at = {log2f((float)p->m), log2f((float)p->n), log2f((float)(p->k > 0 ? p->k : 1)),
               log2f((float)p->batch)},
        .traits = (p->trans_a ? WAY_TRANS_A : 0) | (p->trans_b ? WAY_TRANS_B : 0) |
                  (begins_anywhere(p->type_a, p->lda, p->stride_a, p->align_a) ? WAY_OFF_A : 0) |
                  (begins_anywhere(p->type_b, p->ldb, p->stride_b, p->align_b) ? WAY_OFF_B : 0) |
                  (begins_anywhere(p->type_cd, p->ldd, p->stride_d, 0) ? WAY_OFF_D : 0)};
    plan_marks(p, treated, place.packs);
    return place;
}

/*
 * Whether a problem is of the size of those of which whole ways are measured, by its multiply-adds and the bytes of its
 * operands and results. Of larger ones the grids know more, whose points they are nearer to.
 */
static bool is_like_samples(const struct problem *p)
{
    double elements_d = (double)p->m * (double)p->n * (double)p->batch;
    double bytes = (extent_elements(problem_extent_a(p)) + extent_elements(problem_extent_b(p))) *
                       (double)carat_type_size(p->type_a) +
                   elements_d * (double)carat_type_size(p->type_cd);
    return elements_d * (double)p->k < MOST_SAMPLED_WORK && bytes < MOST_SAMPLED_BYTES;
}

/* How much longer than foreseen such ways took. */
static double way_factor(const struct search *search, struct candidate *candidate)
{
    if (!search->near) {
        return 1;
    }
    double factor = ways_factor(search->near, candidate->parts, candidate->stream_tiles > 0);
    candidate->corrected = candidate->corrected || factor != 1;
    return factor;
}

/* Of all steps. */
static double candidate_cycles(const struct search *search, struct candidate *candidate)
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
        cycles += traits->tuning ? corrected_reduce(search, candidate, reduce) : reduce;
    }
    if (candidate->rescue) {
        double panels = (double)candidate->panels_m * (double)candidate->panels_n;
        cycles = panels * cycles + splitting_cycles(traits, candidate);
    } else if (candidate->pack) {
        cycles += packing_cycles(traits, p, candidate);
    }
    return cycles * way_factor(search, candidate);
}

/* ---- The best of all ---- */

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
 * Whether sums of parts would be longer chains of roundings than other libraries' are: those sum long k in several chains
 * where tiles of a usual size are too few for the device.
 */
static bool sums_too_long(const struct search *search, const struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    const struct problem *to = &candidate->product;
    bool compensates = kernel->planes > 0 && kernel->tile_m <= WIDEST_COMPENSATED;
    bool multiplies_parts = kernel->planes > 0 || kernel->splits > 0;
    double tiles =
        (double)ceiling(to->m, USUAL_TILE) * (double)ceiling(to->n, USUAL_TILE) * (double)to->batch;
    return multiplies_parts && !compensates && !search->forced && to->k >= LEAST_LONG_K &&
           tiles < search->traits->multiprocessors;
}

/*
 * Completes a candidate with a row and at most the given parts, all of them with work; false where it is
 * no choice.
 */
static bool complete(const struct search *search, const struct kernel *kernel, int parts,
                     struct candidate *candidate)
{
    const struct problem *p = search->problem;
    int64_t k = candidate->product.k > 0 ? candidate->product.k : 1;
    candidate->kernel = kernel;
    candidate->safe = safe_row(search->traits, candidate, kernel);
    if (__builtin_mul_overflow(ceiling(ceiling(k, parts), kernel->tile_k), (int64_t)kernel->tile_k,
                               &candidate->k_per_part)) {
        return false;
    }
    candidate->parts = parts;
    candidate->bare = parts > 1 || !kernel_finishes(kernel, p);
    candidate->partial_bytes = candidate->bare ? partial_bytes(p, parts) : 0;
    if (candidate->rescue) {
        place_parts(candidate, parts);
    }
    /* Of two planes partial sums would be finished before it is known whether they count. */
    bool too_early = candidate->bare && candidate->product.planes == PLANES_OF_F16;
    /* Compensated sums are rounded once, in the end. */
    bool too_often = parts > 1 && kernel->accuracy == ACCURACY_BEST && kernel->element == ELEMENT_F64;
    if (too_often || too_early || ceiling(k, candidate->k_per_part) != parts ||
        (candidate->bare && (!search->reduce || has_panels(candidate))) || sums_too_long(search, candidate) ||
        (parts > 1 && candidate->partial_bytes > MOST_PARTIALS) || !fits_workspace(search, candidate) ||
        !count_blocks(kernel, &candidate->product, parts, &candidate->blocks)) {
        return false;
    }
    candidate->cycles = candidate_cycles(search, candidate);
    return true;
}

/*
 * The same way with its last, partly idle wave shared evenly by all clusters; false where that is no choice.
 *
 *     clusters   | whole | whole | idle    becomes     | share     | whole |
 *                | whole | whole | whole               | share     | whole |
 *
 * A whole wave is shared with it, where there is one, so that a share is no less than a tile: then no tile is of more
 * than two clusters. Below a wave a tile is of several, whose sums its last one adds one after the other.
 */
static bool share_tiles(const struct search *search, struct candidate *candidate)
{
    const struct kernel *kernel = candidate->kernel;
    if (!kernel->stream || candidate->parts > 1 || candidate->bare) {
        return false;
    }
    int64_t clusters = kernel_clusters(kernel, search->traits);
    int64_t tiles = candidate->blocks / blocks_of_cluster(kernel);
    int64_t waves = tiles / clusters;
    int64_t shared = waves > 1 ? tiles - (waves - 1) * clusters : tiles;
    int64_t steps;
    if (tiles % clusters == 0 || clusters > MOST_SHARERS * shared ||
        __builtin_mul_overflow(shared, steps_of_tile(candidate), &steps) || steps > MOST_SHARED_STEPS ||
        steps < LEAST_SHARE * clusters) {
        return false;
    }
    candidate->stream_tiles = shared;
    candidate->partial_bytes = round_up(kernel_flag_bytes(kernel, search->traits) +
                                            clusters * blocks_of_cluster(kernel) * tile_sum_bytes(kernel),
                                        WORKSPACE_UNIT);
    candidate->cycles = candidate_cycles(search, candidate);
    return candidate->partial_bytes <= MOST_PARTIALS && fits_workspace(search, candidate);
}

static void consider(struct search *search, const struct candidate *candidate)
{
    if (search->visitor) {
        search->visitor(search->context, candidate);
    }
    if (!search->best.kernel || candidate->cycles < search->best.cycles) {
        search->best = *candidate;
    }
}

/* Looks at all rows that multiply the candidate's product, at all numbers of parts, and at shared tiles. */
static void search_rows(struct search *search, const struct candidate *treated)
{
    if (treated->packed_bytes > most_workspace(search)) {
        return;
    }
    bool learns = search->traits->tuning && is_like_samples(search->problem);
    const struct ways *ways = learns ? tuning_ways(search->traits->tuning) : NULL;
    const struct way_place place = place_of(search->problem, treated);
    struct ways_near near;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if ((search->only && kernel != search->only) || kernel->operation != OPERATION_GEMM ||
            !kernel_multiplies(kernel, search->traits, &treated->product)) {
            continue;
        }
        if (ways) {
            ways_look_up(ways, kernel, &place, &near);
            search->near = &near;
        }
        /* Every number of parts as long as one more makes a difference, then in growing steps. */
        for (int parts = 1; parts <= MOST_PARTS; parts += 1 + parts / 32) {
            struct candidate candidate = *treated;
            if (!complete(search, kernel, parts, &candidate)) {
                continue;
            }
            consider(search, &candidate);
            if (share_tiles(search, &candidate)) {
                consider(search, &candidate);
            }
        }
    }
    search->near = NULL;
}

/* Whether some row multiplies these types, and wants both operands along k. */
static bool wants_operands_along_k(const struct search *search)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_GEMM && kernel->layout == LAYOUT_TN &&
            has_types(kernel, search->problem) && kernel_runs_on(kernel, search->traits)) {
            return true;
        }
    }
    return false;
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
            /* What is turned runs along k; so must the other. */
            bool both_along_k = (p->trans_a || a == TURNED) && (!p->trans_b || b == TURNED);
            struct candidate treated;
            if ((both_along_k || (a != TURNED && b != TURNED)) &&
                treat(search->traits, p, (enum treatment)a, (enum treatment)b, as, &treated)) {
                search_rows(search, &treated);
            }
        }
    }
}

static void search_all(struct search *search)
{
    const struct problem *p = search->problem;
    bool narrow = carat_type_size(p->type_a) == 1 && p->type_a != CARAT_S8;
    search->best = (struct candidate){.kernel = NULL};
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
        if (split(search->traits, p, planes, most_workspace(search), &parts)) {
            search_rows(search, &parts);
        }
    }
}

static struct search search_of(const struct device_traits *traits, const struct problem *p)
{
    const struct kernel *reduce = reduce_row(traits, problem_sum_type(p));
    bool fits =
        reduce && (double)p->m * (double)p->n * (double)p->batch / kernel_threads(reduce) < MOST_BLOCKS;
    return (struct search){.traits = traits, .problem = p, .reduce = fits ? reduce : NULL, .limited = true};
}

/* The best way, within the limits if there is one. */
static void search_best(struct search *search)
{
    search_all(search);
    if (!search->best.kernel) {
        search->limited = false;
        search_all(search);
    }
}

/* ---- Saying it ---- */

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

static void explain(const struct search *search, struct plan *plan)
{
    const struct candidate *best = &search->best;
    const struct problem *p = search->problem;
    const struct problem *to = &best->product;
    const struct kernel *kernel = best->kernel;
    double slots = (double)search->traits->multiprocessors * most_resident(kernel);
    double ideal = (double)p->m * (double)p->n * (double)p->k * (double)p->batch /
                   (kernel_unit_rate(kernel) * search->traits->multiprocessors);
    char packed[300] = "";
    char sums[200] = "";
    char panels[80] = "";
    if (has_panels(best)) {
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
        snprintf(packed + length, sizeof(packed) - length,
                 "; A and B split into %d bf16 parts in its registers", kernel->splits);
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
    if (best->stream_tiles * blocks_of_cluster(kernel) == best->blocks) {
        snprintf(sums, sizeof(sums), ", shared evenly by all multiprocessors");
    } else if (best->stream_tiles > 0) {
        snprintf(sums, sizeof(sums), ", the first %" PRId64 " shared evenly by all multiprocessors",
                 best->stream_tiles * blocks_of_cluster(kernel));
    }
    snprintf(plan->explanation, sizeof(plan->explanation),
             "%s: tiles of %dx%dx%d%s, %" PRId64 " blocks on %d multiprocessors in %.1f waves, "
             "%.0f%% of the unit's peak predicted%s%s",
             kernel->name, kernel->tile_m, kernel->tile_n, kernel->tile_k, sums, best->blocks,
             search->traits->multiprocessors, (double)best->blocks / slots, 100 * ideal / best->cycles,
             best->corrected ? " by measured times" : "", packed);
}

/* Why no row serves: the build, the device, or the size. */
static carat_status no_kernel(const struct search *search)
{
    const struct problem *p = search->problem;
    bool any_image = false;
    bool any_row = false;
    struct problem as_f16 = *p;
    as_f16.type_a = as_f16.type_b = CARAT_F16;
    bool narrow = carat_type_size(p->type_a) == 1 && p->type_a != CARAT_S8;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        any_image = any_image || kernel->image;
        any_row = any_row || (kernel->operation == OPERATION_GEMM && kernel_runs_on(kernel, search->traits) &&
                              (has_types(kernel, p) || (narrow && has_types(kernel, &as_f16))));
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

/* The plan of the best candidate. */
static carat_status settle(const struct search *search, struct plan *plan)
{
    const struct candidate *best = &search->best;
    if (!best->kernel) {
        return no_kernel(search);
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
    explain(search, plan);
    return CARAT_OK;
}

static struct plan plan_to_be(const struct problem *p)
{
    return (struct plan){.problem = *p, .product = *p, .parts = 1, .k_per_part = p->k};
}

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
    lay_out_product(&panel->problem, plan->product.planes, &panel->product, &b_at);
    if (plan_has(plan, STEP_SAFE)) {
        lay_out_product(&panel->problem, plan->safe_product.planes, &panel->safe_product, &b_at);
    }
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
    search_best(&search);
    *plan = plan_to_be(problem);
    if (!search.best.kernel) {
        return fail(CARAT_UNSUPPORTED, "kernel %s does not multiply this problem in any way", kernel->name);
    }
    return settle(&search, plan);
}

void plan_visit(const struct device_traits *traits, const struct problem *problem, plan_visitor *visitor,
                void *context)
{
    struct search search = search_of(traits, problem);
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
           treat(traits, problem, AS_IT_IS, AS_IT_IS, ELEMENT_NONE, way) && complete(&search, kernel, 1, way);
}

/* ---- Ways by the lines of a table ---- */

/* The problem as the letters of a whole way say; planes are those that the way's row multiplies. */
static bool treat_as_marked(const struct device_traits *traits, const struct problem *p, const char marks[2],
                            int planes, struct candidate *candidate)
{
    enum treatment treatments[2];
    if (marks[0] == 's' && marks[1] == 's') {
        return split(traits, p, planes, MOST_WORKSPACE, candidate);
    }
    for (int i = 0; i < 2; i++) {
        treatments[i] = marks[i] == '-' ? AS_IT_IS : marks[i] == 't' ? TURNED : PACKED;
    }
    int as = marks[0] == 'h' ? ELEMENT_F16 : marks[0] == 'd' ? ELEMENT_F64 : ELEMENT_NONE;
    return treat(traits, p, treatments[0], treatments[1], as, candidate);
}

void way_finder_begin(struct way_finder *finder, const struct device_traits *traits,
                      const struct problem *problem)
{
    finder->traits = traits;
    finder->problem = problem;
    finder->reduce = search_of(traits, problem).reduce;
    finder->count = 0;
}

const struct way_place *way_find(struct way_finder *finder, const struct tuning_line *line,
                                 struct candidate *way)
{
    enum { ROOM = sizeof(finder->treatments) / sizeof(finder->treatments[0]) };
    int planes = line->kernel ? line->kernel->planes : 0;
    int i = finder->count < ROOM ? finder->count - 1 : ROOM - 1;
    while (i >= 0 && (memcmp(finder->treatments[i].packs, line->packs, sizeof(line->packs)) != 0 ||
                      finder->treatments[i].planes != planes)) {
        i--;
    }
    if (i < 0) {
        i = finder->count++ % ROOM;
        struct candidate *treated = &finder->treatments[i].treated;
        struct way_place *place = &finder->treatments[i].place;
        memcpy(finder->treatments[i].packs, line->packs, sizeof(line->packs));
        finder->treatments[i].planes = planes;
        bool possible = treat_as_marked(finder->traits, finder->problem, line->packs, planes, treated);
        if (possible) {
            *place = place_of(finder->problem, treated);
            /* What does not say the same as the letters is no way. */
            possible = memcmp(place->packs, line->packs, sizeof(place->packs)) == 0;
        }
        finder->treatments[i].possible = possible;
    }
    *way = finder->treatments[i].treated;
    /* It was measured, whatever would be chosen now. */
    const struct search search = {.traits = finder->traits,
                                  .problem = finder->problem,
                                  .reduce = finder->reduce,
                                  .limited = true,
                                  .forced = true};
    bool found = finder->treatments[i].possible && line->kernel &&
                 kernel_multiplies(line->kernel, finder->traits, &way->product) &&
                 complete(&search, line->kernel, line->parts, way) &&
                 (!line->shares || share_tiles(&search, way));
    return found ? &finder->treatments[i].place : NULL;
}

/* A pack of so many columns of a length. */
static double pack_cycles(const struct device_traits *traits, const struct tuning_line *line)
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

bool plan_predict(const struct device_traits *traits, const struct tuning_line *line, double *cycles,
                  int *variant, struct tuning_point *point)
{
    const struct kernel *kernel = line->kernel;
    double sizes[2] = {(double)line->sizes[0], (double)line->sizes[1]};
    *point = (struct tuning_point){{log2(sizes[0]), log2(sizes[1])}};
    *variant = line->turned;
    if (line->operation == OPERATION_PACK) {
        *cycles = pack_cycles(traits, line);
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
