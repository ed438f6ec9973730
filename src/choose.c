/*
 * choose.c - which kernels compute a problem: a filter over the catalogue, then a cost model.
 *
 * The model counts cycles of the busiest multiprocessor. It knows no device by name: what the rows
 * say of themselves (RATE, MIN_BLOCKS) was measured, and the few numbers below are of the right size for
 * the chips at hand. It has to rank, not to predict.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/cpu.h"
#include "plan.h"
#include "status.h"

#define MOST_BLOCKS 2147483647 /* of a grid in its first dimension */
#define MOST_PARTS 256
#define MOST_WORKSPACE ((int64_t)64 << 20)
#define WORKSPACE_UNIT 256
/* Packed columns begin at multiples of this, and may take so much workspace. */
#define PACKED_UNIT 128
#define MOST_PACKED ((int64_t)8 << 30)
/* A memory sector; where columns do not begin at one, asynchronous copies of wide elements reach this share. */
#define SECTOR 32
#define OFF_SECTOR 0.8

/* Cycles from a block's launch to its first product, and from its last one to its end. */
#define BLOCK_CYCLES 1500.0
/* Cycles that one more kernel behind the product takes, whatever it does. */
#define KERNEL_CYCLES 4000.0
/* Bytes a cycle and multiprocessor: from memory, and from the second-level cache. */
#define MEMORY_RATE 16.0
#define CACHE_RATE 28.0
/* The share of its rate that one block alone on a multiprocessor reaches, where more would fit. */
#define ALONE 0.5

/* ---- What a row can do ---- */

bool kernel_runs_on(const struct kernel *kernel, const struct device_traits *traits)
{
    bool has_instructions = kernel->arch_specific ? kernel->arch == traits->compute_capability
                                                  : kernel->arch <= traits->compute_capability;
    bool has_memory = traits->shared_bytes == 0 || kernel->shared_bytes <= traits->shared_bytes;
    return kernel->image && has_instructions && has_memory;
}

static bool has_layout(const struct kernel *kernel, const struct problem *p)
{
    int layout = p->trans_a ? (p->trans_b ? LAYOUT_TT : LAYOUT_TN) : (p->trans_b ? LAYOUT_NT : LAYOUT_NN);
    return kernel->layout == LAYOUT_ANY || kernel->layout == layout;
}

/* Whether the row wants more of the addresses of A and B than that they hold elements. */
static bool wants_alignment(const struct kernel *kernel, const struct problem *p)
{
    return kernel->alignment > (int)carat_type_size(p->type_a);
}

/*
 * Whether every column of A and B is aligned, where the bases are; and k too where an operand runs along it,
 * since a kernel may begin with what its tiles leave over of k.
 */
static bool columns_aligned(const struct kernel *kernel, const struct problem *p)
{
    if (!wants_alignment(kernel, p)) {
        return true;
    }
    int64_t elements = kernel->alignment / (int64_t)carat_type_size(p->type_a);
    bool along_k = p->trans_a || !p->trans_b;
    return (!along_k || p->k % elements == 0) && p->lda % elements == 0 && p->ldb % elements == 0 &&
           p->stride_a % elements == 0 && p->stride_b % elements == 0;
}

static bool within_limit(const struct kernel *kernel, const struct problem *p)
{
    return kernel->ld_limit == 0 || (p->lda <= kernel->ld_limit && p->ldb <= kernel->ld_limit);
}

bool kernel_multiplies(const struct kernel *kernel, const struct device_traits *traits,
                       const struct problem *p)
{
    return kernel->operation == OPERATION_GEMM && kernel->element == (int)p->type_a &&
           kernel_runs_on(kernel, traits) && has_layout(kernel, p) && within_limit(kernel, p) &&
           columns_aligned(kernel, p);
}

/* The row that does an operation beside the product; NULL where there is none. */
static const struct kernel *side_row(const struct device_traits *traits, const struct problem *p,
                                     int operation)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == operation && kernel->element == (int)p->type_a &&
            kernel_runs_on(kernel, traits)) {
            return kernel;
        }
    }
    return NULL;
}

/* ---- What it would cost ---- */

static int64_t ceiling(int64_t x, int64_t y) { return x / y + (x % y != 0); }

/* Blocks of the whole grid; false where there are more than a grid can have. */
static bool count_blocks(const struct kernel *kernel, const struct problem *p, int parts, int64_t *blocks)
{
    int64_t count = ceiling(p->m, kernel->tile_m);
    return !__builtin_mul_overflow(count, ceiling(p->n, kernel->tile_n), &count) &&
           !__builtin_mul_overflow(count, (int64_t)parts, &count) &&
           !__builtin_mul_overflow(count, p->batch, blocks) && *blocks <= MOST_BLOCKS;
}

/* Multiply-adds a cycle and multiprocessor of the unit that a row's products run on. */
static double unit_rate(const struct kernel *kernel)
{
    switch (kernel->element) {
    case ELEMENT_F64:
        /* The double-precision tensor instruction, and the plain one. */
        return kernel->arch >= 90 ? 128 : 64;
    case ELEMENT_S32:
        return 64;
    case ELEMENT_S8:
        return 256;
    default:
        return 128;
    }
}

struct choice {
    const struct kernel *kernel;
    int parts;
    int64_t k_per_part;
    int64_t blocks;
    double cycles;
};

static int most_resident(const struct kernel *kernel)
{
    return kernel->min_blocks > 0 ? kernel->min_blocks : 1;
}

static double product_cycles(const struct device_traits *traits, const struct problem *p,
                             const struct choice *choice)
{
    const struct kernel *kernel = choice->kernel;
    double element_bytes = (double)carat_type_size(p->type_a);
    double fit = most_resident(kernel);
    double rate = (kernel->rate > 0 ? kernel->rate : 50) / 100.0;

    /* The busiest multiprocessor's blocks, and how many of them are there at a time. */
    double mine = (double)ceiling(choice->blocks, traits->multiprocessors);
    double resident = mine < fit ? mine : fit;
    double busy = ALONE + (1 - ALONE) * resident / fit;
    if (fit == 1) {
        busy = 1;
    }

    double k = (double)(choice->parts > 1 ? choice->k_per_part : p->k);
    k = ceil(k / kernel->tile_k) * kernel->tile_k;
    if (kernel->element == ELEMENT_F64 && wants_alignment(kernel, p) &&
        (p->lda * (int64_t)sizeof(double) % SECTOR != 0 || p->ldb * (int64_t)sizeof(double) % SECTOR != 0)) {
        rate *= OFF_SECTOR;
    }
    double multiply = (double)kernel->tile_m * kernel->tile_n * k / (unit_rate(kernel) * rate * busy);
    double fetch = (kernel->tile_m + kernel->tile_n) * k * element_bytes / CACHE_RATE;
    return mine * fmax(multiply, fetch) + ceil(mine / fit) * BLOCK_CYCLES;
}

/* Every byte has to come from memory or go there once, shared between the multiprocessors. */
static double memory_cycles(const struct device_traits *traits, double bytes)
{
    return bytes / (MEMORY_RATE * traits->multiprocessors);
}

static double choice_cycles(const struct device_traits *traits, const struct problem *p,
                            const struct choice *choice)
{
    double results = (double)p->m * (double)p->n * (double)p->batch;
    double inputs = ((double)p->m + (double)p->n) * (double)p->k * (double)p->batch;
    double partials = choice->parts > 1
                          ? results * choice->parts * (double)carat_type_size(problem_sum_type(p))
                          : 0;
    double product_bytes = inputs * (double)carat_type_size(p->type_a) +
                           (choice->parts > 1 ? partials : results * (double)carat_type_size(p->type_cd));
    double cycles = fmax(product_cycles(traits, p, choice), memory_cycles(traits, product_bytes));
    if (choice->parts > 1) {
        double reduce_bytes = partials + results * (double)carat_type_size(p->type_cd);
        cycles += KERNEL_CYCLES + memory_cycles(traits, reduce_bytes);
    }
    return cycles;
}

/* ---- The best of all ---- */

static int64_t least_common_multiple(int64_t x, int64_t y)
{
    int64_t a = x;
    int64_t b = y;
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return x / a * y;
}

/* Bytes of the partial sums, in whole units. */
static int64_t workspace_of(const struct problem *p, int parts)
{
    double bytes = (double)p->m * (double)p->n * (double)p->batch * parts * 8;
    if (parts == 1) {
        return 0;
    }
    if (bytes > 2.0 * (double)MOST_WORKSPACE) {
        return INT64_MAX;
    }
    int64_t exact = p->m * p->n * p->batch * parts * (int64_t)carat_type_size(problem_sum_type(p));
    return ceiling(exact, WORKSPACE_UNIT) * WORKSPACE_UNIT;
}

/* A choice of at most the given parts, all of them with work; false where it is no choice. */
static bool make_choice(const struct device_traits *traits, const struct problem *p,
                        const struct kernel *kernel, int64_t k_unit, int parts, struct choice *choice)
{
    int64_t k = p->k > 0 ? p->k : 1;
    choice->kernel = kernel;
    if (__builtin_mul_overflow(ceiling(ceiling(k, parts), k_unit), k_unit, &choice->k_per_part)) {
        return false;
    }
    choice->parts = (int)ceiling(k, choice->k_per_part);
    if (!count_blocks(kernel, p, choice->parts, &choice->blocks) || choice->parts != parts ||
        workspace_of(p, parts) > MOST_WORKSPACE) {
        return false;
    }
    choice->cycles = choice_cycles(traits, p, choice);
    return true;
}

/* Which rows are looked at: all, those that take any address of A and B, or those that ask for more. */
enum addresses { ALL_ROWS, ANY_ADDRESS, ALIGNED };

/*
 * The cheapest way over the rows that multiply the problem; kernel NULL where there is none. With parts 0 every
 * number of parts is looked at.
 */
static struct choice cheapest(const struct device_traits *traits, const struct problem *p, int64_t k_unit,
                              enum addresses addresses, int parts, int most_parts)
{
    struct choice best = {.kernel = NULL, .cycles = INFINITY};
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (!kernel_multiplies(kernel, traits, p) ||
            (addresses != ALL_ROWS && wants_alignment(kernel, p) != (addresses == ALIGNED))) {
            continue;
        }
        int from = parts > 0 ? parts : 1;
        int to = parts > 0 ? parts : most_parts;
        /* Every number of parts as long as one more makes a difference, then in growing steps. */
        for (int count = from; count <= to; count += 1 + count / 32) {
            struct choice choice;
            if (make_choice(traits, p, kernel, k_unit, count, &choice) && choice.cycles < best.cycles) {
                best = choice;
            }
        }
    }
    return best;
}

/* ---- Packing ---- */

static int64_t round_up(int64_t x, int64_t unit) { return ceiling(x, unit) * unit; }

/* Where the packed operands of a problem lie in the workspace; the partial sums come behind them. */
struct packing {
    struct problem product;
    const struct kernel *kernel;
    int64_t b_at;
    int64_t bytes;
};

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

/* How A and B would be packed; false where they cannot be, or it would take too much. */
static bool make_packing(const struct device_traits *traits, const struct problem *p, struct packing *packing)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    double bytes = ((double)p->m + (double)p->n) * ((double)p->k + 32) * (double)p->batch * (double)size;
    packing->kernel = side_row(traits, p, OPERATION_PACK);
    if (!packing->kernel || p->k == 0 || bytes > (double)MOST_PACKED / 2) {
        return false;
    }
    struct problem *to = &packing->product;
    *to = *p;
    if (p->trans_a || !p->trans_b) {
        /*
         * k too, where an operand runs along it, since kernels begin with what their tiles leave over of k: all
         * that follows would lie off the sectors. What is added is zero.
         */
        to->k = round_up(p->k, PACKED_UNIT / size);
    }
    packing->b_at = lay_out(p->trans_a ? to->k : p->m, p->trans_a ? p->m : to->k, size, p->batch, &to->lda,
                            &to->stride_a);
    packing->bytes = packing->b_at + lay_out(p->trans_b ? p->n : to->k, p->trans_b ? to->k : p->n, size,
                                             p->batch, &to->ldb, &to->stride_b);
    return packing->bytes <= MOST_PACKED;
}

/* Every element is read once and written once, in a launch of its own. */
static double packing_cycles(const struct device_traits *traits, const struct packing *packing)
{
    double elements = extent_elements(problem_extent_a(&packing->product)) +
                      extent_elements(problem_extent_b(&packing->product));
    return KERNEL_CYCLES +
           memory_cycles(traits, 2 * elements * (double)carat_type_size(packing->product.type_a));
}

/* ---- Saying it ---- */

static void explain(const struct device_traits *traits, const struct problem *p, const struct choice *choice,
                    struct plan *plan)
{
    const struct kernel *kernel = choice->kernel;
    const struct step *multiply = &plan->steps[plan_has(plan, STEP_PACK)];
    const char *packed = "";
    double slots = (double)traits->multiprocessors * most_resident(kernel);
    double ideal = (double)p->m * (double)p->n * (double)p->k * (double)p->batch /
                   (unit_rate(kernel) * traits->multiprocessors);
    char split[160] = "";
    char unaligned[80] = "";
    if (plan_has(plan, STEP_PACK)) {
        packed = "; A and B are packed first, as their columns do not begin where memory is read best";
    }
    if (plan_has(plan, STEP_REDUCE)) {
        int64_t tiles = choice->blocks / choice->parts;
        snprintf(split, sizeof(split),
                 ", K in %d parts of %" PRId64 " as the tiles alone (%" PRId64
                 ") fill %.0f%% of the device, added by %s",
                 choice->parts, choice->k_per_part, tiles, 100 * fmin(1, (double)tiles / slots),
                 plan->steps[plan->step_count - 1].kernel->name);
    }
    if (multiply->unaligned != kernel) {
        snprintf(unaligned, sizeof(unaligned), "; %s where A or B does not begin at %d bytes",
                 multiply->unaligned->name, kernel->alignment);
    }
    snprintf(plan->explanation, sizeof(plan->explanation),
             "%s: tiles of %dx%dx%d%s, %" PRId64 " blocks on %d multiprocessors in %.1f waves, "
             "%.0f%% of the unit's peak predicted%s%s",
             kernel->name, kernel->tile_m, kernel->tile_n, kernel->tile_k, split, choice->blocks,
             traits->multiprocessors, (double)choice->blocks / slots, 100 * ideal / choice->cycles, packed,
             unaligned);
}

/* Why no row serves: the build, the device, or the size. */
static carat_status no_kernel(const struct device_traits *traits, const struct problem *p)
{
    bool any_image = false;
    bool any_row = false;
    for (int i = 0; i < carat_catalog_count; i++) {
        any_image = any_image || carat_catalog[i].image;
        any_row = any_row ||
                  (kernel_multiplies(&carat_catalog[i], traits, p) && !wants_alignment(&carat_catalog[i], p));
    }
    if (!any_image) {
        return fail(CARAT_UNSUPPORTED, "this build has no CUDA kernels: it was made without nvcc");
    }
    if (!any_row) {
        return fail(
            CARAT_UNSUPPORTED, "no CUDA kernel of this build multiplies %s on compute capability %d.%d",
            carat_type_name(p->type_a), traits->compute_capability / 10, traits->compute_capability % 10);
    }
    return fail(CARAT_UNSUPPORTED,
                "m is %" PRId64 ", n is %" PRId64 " and batch is %" PRId64
                ": more tiles than the %d blocks of a grid",
                p->swapped ? p->n : p->m, p->swapped ? p->m : p->n, p->batch, MOST_BLOCKS);
}

/* Parts are whole tiles of every row that might run them. */
static int64_t unit_of_k(const struct device_traits *traits, const struct problem *p)
{
    int64_t unit = 1;
    for (int i = 0; i < carat_catalog_count; i++) {
        if (kernel_multiplies(&carat_catalog[i], traits, p)) {
            unit = least_common_multiple(unit, carat_catalog[i].tile_k);
        }
    }
    return unit;
}

/* With always_pack A and B are packed wherever that is possible, whatever it costs. */
static carat_status choose_cuda(const struct device_traits *traits, const struct problem *p, bool always_pack,
                                struct plan *plan)
{
    int64_t k_unit = unit_of_k(traits, p);
    const struct kernel *reduce = side_row(traits, p, OPERATION_REDUCE);
    bool can_split =
        reduce && (double)p->m * (double)p->n * (double)p->batch / kernel_threads(reduce) < MOST_BLOCKS;
    int most_parts = can_split ? MOST_PARTS : 1;
    struct choice best = cheapest(traits, p, k_unit, ALL_ROWS, 0, most_parts);
    if (!best.kernel) {
        return no_kernel(traits, p);
    }
    struct choice unaligned = best;
    if (wants_alignment(best.kernel, p)) {
        unaligned = cheapest(traits, p, k_unit, ANY_ADDRESS, best.parts, best.parts);
        if (!unaligned.kernel) {
            /* Without a row for any address, a plan could fail when it runs. */
            return no_kernel(traits, p);
        }
    }
    int64_t packed_bytes = 0;
    struct packing packing;
    if (make_packing(traits, p, &packing)) {
        const struct problem *to = &packing.product;
        struct choice packed = cheapest(traits, to, unit_of_k(traits, to), ALIGNED, 0, most_parts);
        double whole = packed.cycles + packing_cycles(traits, &packing);
        if (packed.kernel && (always_pack || whole < best.cycles)) {
            packed.cycles = whole;
            best = packed;
            unaligned = packed; /* the workspace is aligned */
            plan->product = *to;
            plan->packed_b_at = (size_t)packing.b_at;
            packed_bytes = packing.bytes;
            plan->steps[plan->step_count++] = (struct step){STEP_PACK, packing.kernel, packing.kernel};
        }
    }
    plan->steps[plan->step_count++] = (struct step){STEP_MULTIPLY, best.kernel, unaligned.kernel};
    if (reduce && best.parts > 1) {
        plan->steps[plan->step_count++] = (struct step){STEP_REDUCE, reduce, reduce};
    }
    plan->parts = best.parts;
    plan->k_per_part = best.k_per_part;
    plan->partials_at = (size_t)packed_bytes;
    plan->workspace_bytes = (size_t)(packed_bytes + workspace_of(p, best.parts));
    explain(traits, &plan->product, &best, plan);
    return CARAT_OK;
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
    *plan = (struct plan){.problem = *problem, .product = *problem, .parts = 1, .k_per_part = problem->k};
    if (problem_is_empty(problem)) {
        snprintf(plan->explanation, sizeof(plan->explanation), "nothing to compute: D has no elements");
        return CARAT_OK;
    }
    if (traits->kind == CARAT_DEVICE_CUDA) {
        return choose_cuda(traits, problem, false, plan);
    }
    plan->steps[0].kind = STEP_BLAS;
    plan->step_count = 1;
    cpu_gemm_explain(problem, plan->explanation, sizeof(plan->explanation));
    return CARAT_OK;
}

carat_status plan_choose_packed(const struct device_traits *traits, const struct problem *problem,
                                struct plan *plan)
{
    *plan = (struct plan){.problem = *problem, .product = *problem, .parts = 1, .k_per_part = problem->k};
    return choose_cuda(traits, problem, true, plan);
}
