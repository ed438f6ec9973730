/*
 * test_plan.c - the choice of kernels over thousands of random problems, which needs no device; plan
 * objects, and the cache of a context under many threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "catalog.h"
#include "context.h"
#include "plan.h"
#include "reference.h"
#include "rows.h"

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16,  CARAT_BF16,
                                   CARAT_S32, CARAT_S8,  CARAT_E4M3, CARAT_E5M2};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

/* ---- The catalogue ---- */

static void rows_are_found_by_name(void **state)
{
    (void)state;
    for (int i = 0; i < carat_catalog_count; i++) {
        assert_ptr_equal(catalog_find(carat_catalog[i].name), &carat_catalog[i]);
        assert_true(kernel_threads(&carat_catalog[i]) >= 1);
        assert_true(kernel_threads(&carat_catalog[i]) <= 1024);
    }
    assert_null(catalog_find("no such kernel"));
}

/* ---- What must hold of every plan ---- */

/* Pairs along n of 128 x 64: of 576 columns five, the last half beyond D. Pairs along m of 224 x 128: of up to 448 rows one. */
static void clusters_stand_side_by_side(void **state)
{
    (void)state;
    struct problem p = {.type_a = CARAT_BF16, .m = 128, .n = 640, .k = 64, .batch = 1};
    int64_t blocks;
    const struct kernel *along_n = catalog_find("wgmma_bf16_tn_128x64_c2");
    assert_int_equal(kernel_cluster_m(along_n), 1);
    assert_int_equal(kernel_cluster_n(along_n), 2);
    assert_true(kernel_count_blocks(along_n, &p, 1, &blocks) && blocks == 10);
    p.n = 576;
    assert_true(kernel_count_blocks(along_n, &p, 1, &blocks) && blocks == 10);
    const struct kernel *along_m = catalog_find("wgmma_bf16_tn_224x128_r2");
    assert_int_equal(kernel_cluster_m(along_m), 2);
    assert_int_equal(kernel_cluster_n(along_m), 1);
    assert_true(kernel_count_blocks(along_m, &p, 1, &blocks) && blocks == 10);
    p.m = 448;
    assert_true(kernel_count_blocks(along_m, &p, 1, &blocks) && blocks == 10);
    p.m = 449;
    assert_true(kernel_count_blocks(along_m, &p, 1, &blocks) && blocks == 20);

    /* Both ways: two tiles of 160 along m by four of 128 along n; two of 176 by two of 128. */
    const struct kernel *eight = catalog_find("wgmma_bf16_nt_160x128_2x4");
    assert_int_equal(kernel_cluster_m(eight), 2);
    assert_int_equal(kernel_cluster_n(eight), 4);
    p.n = 513;
    p.m = 320;
    assert_true(kernel_count_blocks(eight, &p, 1, &blocks) && blocks == 16);
    p.m = 321;
    assert_true(kernel_count_blocks(eight, &p, 1, &blocks) && blocks == 32);
    const struct kernel *four = catalog_find("wgmma_e4m3_tn_128x128_2x2");
    assert_int_equal(kernel_cluster_m(four), 2);
    assert_int_equal(kernel_cluster_n(four), 2);
    /* Where the instruction's rows run along m the columns' sharers stand along it: four of 128 by two of 160. */
    const struct kernel *turned = catalog_find("wgmma_bf16_tn_128x160_4x2");
    assert_int_equal(kernel_cluster_m(turned), 4);
    assert_int_equal(kernel_cluster_n(turned), 2);

    /* Blocks that share k stand at the same place. */
    const struct kernel *parts = catalog_find("wgmma_bf16_tn_64x96_k2");
    assert_int_equal(kernel_cluster_m(parts), 1);
    assert_int_equal(kernel_cluster_n(parts), 1);
    p.m = 129;
    p.n = 128;
    assert_true(kernel_count_blocks(parts, &p, 1, &blocks) && blocks == 12);

    /* Pairs of them are twice as long or as wide. */
    const struct kernel *pairs_along_m = catalog_find("wgmma_bf16_tn_128x160_c2_k2");
    assert_int_equal(kernel_cluster_m(pairs_along_m), 2);
    assert_int_equal(kernel_cluster_n(pairs_along_m), 1);
    assert_true(kernel_count_blocks(pairs_along_m, &p, 1, &blocks) && blocks == 4);
    const struct kernel *pairs_along_n = catalog_find("wgmma_bf16_tn_128x112_r2_k2");
    assert_int_equal(kernel_cluster_m(pairs_along_n), 1);
    assert_int_equal(kernel_cluster_n(pairs_along_n), 2);
    assert_true(kernel_count_blocks(pairs_along_n, &p, 1, &blocks) && blocks == 8);

    /* Of larger clusters as many as a tenth fewer multiprocessors hold, or a ninth where they are odd. */
    struct device_traits traits = {.multiprocessors = 132};
    assert_int_equal(kernel_clusters(along_n, &traits), 66);
    assert_int_equal(kernel_clusters(catalog_find("wgmma_bf16_tn_128x96_k3"), &traits), 39);
    assert_int_equal(kernel_clusters(four, &traits), 30);
    assert_int_equal(kernel_clusters(pairs_along_m, &traits), 30);
    assert_int_equal(kernel_clusters(eight, &traits), 15);
}

static int64_t blocks_of(const struct kernel *kernel, const struct problem *p, int parts)
{
    int64_t cluster = kernel->cluster > 1 ? kernel->cluster : 1;
    int64_t across = kernel->row_sharers > 1 ? kernel->row_sharers : 1; /* along the instruction's columns */
    int64_t along = cluster / across / (kernel->k_sharers > 1 ? kernel->k_sharers : 1);
    int64_t tile_m = kernel->tile_m * (kernel->swapped ? across : along);
    int64_t tile_n = kernel->tile_n * (kernel->swapped ? along : across);
    return ceiling(p->m, tile_m) * ceiling(p->n, tile_n) * cluster * parts * p->batch;
}

/* Addresses, columns and strides of A and B; and K where an operand runs along it, but for the copy engine. */
static bool aligned(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    int64_t alignment = kernel->tensor_maps ? 16 : kernel->alignment;
    bool along_k = !kernel->tensor_maps && (p->trans_a || !p->trans_b);
    int64_t offsets = p->lda | p->ldb | p->stride_a | p->stride_b | (along_k ? p->k : 0);
    return alignment <= size ||
           (offsets * size % alignment == 0 && p->align_a % alignment == 0 && p->align_b % alignment == 0);
}

/* A row without a whole image is for what may be plain, or finished, or for parts of K, and another can stand in for it. */
static void check_stand_in(const struct device_traits *traits, const struct plan *plan,
                           const struct kernel *kernel)
{
    const struct problem *p = &plan->product;
    const struct kernel *other = plan->stand_in;
    if (kernel->image) {
        assert_null(other);
        return;
    }
    int64_t bytes = (int64_t)carat_type_size(p->type_cd);
    assert_true(kernel->plain == 2 || kernel->finish == 2);
    if (plan->parts > 1) {
        assert_true(kernel->sums_image && p->k > 0 && p->m * 4 % 16 == 0 && plan_has(plan, STEP_REDUCE));
    } else {
        assert_true(kernel->finish == 2 || (!p->bias && p->activation == CARAT_ACTIVATION_NONE));
        assert_true(kernel->plain == 2 || p->type_cd == CARAT_BF16);
        assert_true(kernel->any_d || (p->m | p->ldd | p->stride_d) * bytes % 16 == 0);
        assert_false(plan_has(plan, STEP_REDUCE));
    }
    assert_int_equal(plan->stream_tiles, 0);
    assert_non_null(other);
    assert_non_null(other->image);
    assert_int_equal(other->tile_k, kernel->tile_k);
    assert_true(kernel_multiplies(other, traits, p));
    assert_true(plan->parts > 1 || kernel_finishes(other, &plan->problem));
}

static void check_multiply(const struct device_traits *traits, const struct plan *plan,
                           const struct kernel *kernel)
{
    static const int layouts[2][2] = {{LAYOUT_NN, LAYOUT_NT}, {LAYOUT_TN, LAYOUT_TT}};
    const struct problem *p = &plan->product;
    assert_non_null(kernel);
    assert_true(kernel_has_image(kernel));
    assert_int_equal(kernel->operation, OPERATION_GEMM);
    assert_int_equal(kernel->planes, p->planes);
    check_stand_in(traits, plan, kernel);
    assert_int_equal(kernel->rescues, 0);
    bool keeps_all_bits = p->accuracy == CARAT_ACCURACY_STANDARD || p->accuracy == CARAT_ACCURACY_CLOSE;
    assert_true(kernel->splits == 0 || (keeps_all_bits && p->k >= 32));
    assert_int_equal(kernel->element, p->type_a);
    assert_int_equal(kernel->element_b ? kernel->element_b : kernel->element, p->type_b);
    assert_true(kernel->accuracy != ACCURACY_FAST || p->accuracy == CARAT_ACCURACY_FAST);
    /* The best accuracy has sums in f64, of f64 compensated, and nothing else. */
    bool widened = p->type_a == CARAT_F64 && p->type_cd != CARAT_F64;
    assert_true(problem_wants_best(p) == (kernel->accuracy == ACCURACY_BEST || widened));
    assert_true(!widened || kernel->widened == 1);
    assert_true(kernel->accuracy != ACCURACY_BEST || p->type_a != CARAT_F64 || plan->parts == 1);
    assert_true(kernel->layout == LAYOUT_ANY || kernel->layout == layouts[p->trans_a][p->trans_b]);
    assert_true(kernel->arch_specific ? kernel->arch == traits->compute_capability
                                      : kernel->arch <= traits->compute_capability);
    assert_true(traits->shared_bytes == 0 || kernel->shared_bytes <= traits->shared_bytes);
    assert_true(aligned(kernel, p));
    assert_true(kernel->ld_limit == 0 || (p->lda <= kernel->ld_limit && p->ldb <= kernel->ld_limit));
    assert_true(kernel->k_limit == 0 || p->k <= kernel->k_limit);
    assert_true(!kernel->tensor_maps || p->k > 0);
    assert_int_equal(plan->k_per_part % kernel->tile_k, 0);
    assert_true(blocks_of(kernel, p, plan->parts) <= INT32_MAX);
}

/* What a packed matrix takes, or one of planes, all problems of its batch. */
static size_t packed_bytes(struct extent extent, int64_t planes)
{
    int64_t count = extent.stride == 0 ? 1 : extent.batch;
    assert_true(extent.ld >= extent.rows);
    assert_int_equal(extent.ld * (int64_t)extent.element_bytes % 128, 0);
    assert_true(extent.stride == 0 || extent.stride == planes * extent.ld * extent.columns);
    return (size_t)(planes * extent.ld * extent.columns * count) * extent.element_bytes;
}

/* The packed operands hold the problem's, with no more k than a piece, and do not overlap; the other is as it was. */
static void check_packing(const struct plan *plan)
{
    const struct problem *from = &plan->problem;
    const struct problem *to = &plan->product;
    const struct kernel *pack = plan->steps[0].kernel;
    bool converts = to->type_a != from->type_a;
    assert_int_equal(pack->operation, OPERATION_PACK);
    assert_int_equal(pack->element_bytes, carat_type_size(from->type_a));
    assert_int_equal(pack->converts, converts ? (int)to->type_a : 0);
    assert_true(!converts || to->type_a == CARAT_F16 || problem_wants_best(from));
    assert_true(!converts || strstr(plan->explanation, to->type_a == CARAT_F16 ? "as f16" : "as f64"));
    assert_true(plan->packs_a || plan->packs_b);
    assert_true(!converts || (plan->packs_a && plan->packs_b));
    assert_int_equal(to->m, from->m);
    assert_int_equal(to->n, from->n);
    assert_true(to->k >= from->k && (to->k - from->k) * (int64_t)carat_type_size(to->type_a) < 128);
    assert_true(to->k == from->k || (plan->packs_a && plan->packs_b));
    size_t bytes_a = plan->packs_a ? packed_bytes(problem_extent_a(to), 1) : 0;
    size_t bytes_b = plan->packs_b ? packed_bytes(problem_extent_b(to), 1) : 0;
    if (plan->packs_a) {
        assert_true((to->stride_a == 0) == (from->stride_a == 0 || from->batch == 1));
        assert_int_equal(to->align_a, 16);
    } else {
        assert_true(to->lda == from->lda && to->stride_a == from->stride_a && to->trans_a == from->trans_a &&
                    to->align_a == from->align_a);
    }
    if (plan->packs_b) {
        assert_true((to->stride_b == 0) == (from->stride_b == 0 || from->batch == 1));
        assert_int_equal(to->align_b, 16);
    } else {
        assert_true(to->ldb == from->ldb && to->stride_b == from->stride_b && to->trans_b == from->trans_b &&
                    to->align_b == from->align_b);
    }
    assert_int_equal(plan->packed_b_at % 256, 0);
    assert_int_equal(plan->partials_at % 256, 0);
    assert_true(plan->packed_b_at >= bytes_a);
    assert_true(plan->partials_at >= plan->packed_b_at + bytes_b);
    assert_true(plan->workspace_bytes >= plan->partials_at);
    assert_non_null(strstr(plan->explanation, pack->name));
}

/* The product of planes that a problem becomes. */
static void check_planes(const struct problem *from, const struct problem *to, int planes)
{
    carat_type type = planes == 2 ? CARAT_F16 : CARAT_BF16;
    assert_int_equal(to->planes, planes);
    assert_true(to->type_a == type && to->type_b == type);
    assert_true(to->m <= from->m && to->n <= from->n && to->k == from->k && to->trans_a == from->trans_a &&
                to->trans_b == from->trans_b);
    assert_true(to->align_a == 16 && to->align_b == 16);
    assert_true((to->stride_a == 0) == (from->stride_a == 0 || from->batch == 1));
    assert_true((to->stride_b == 0) == (from->stride_b == 0 || from->batch == 1));
}

/* Where planes stand and what goes with them: bytes of words of the split, and of parts of D. */
static void check_planes_places(const struct problem *to, const struct planes_places *places,
                                size_t verdict_bytes, size_t spoiled_bytes, size_t end)
{
    size_t b_at = (size_t)places->b;
    size_t verdicts_at = (size_t)places->verdicts;
    size_t spoiled_at = (size_t)places->spoiled;
    assert_int_equal((b_at | verdicts_at | spoiled_at) % 256, 0);
    assert_true(b_at >= packed_bytes(problem_extent_a(to), to->planes));
    assert_true(verdicts_at >= b_at + packed_bytes(problem_extent_b(to), to->planes));
    assert_true(spoiled_at >= verdicts_at + verdict_bytes);
    assert_true(spoiled_at + spoiled_bytes <= end);
}

/*
 * Behind a product of two planes, where it is large, goes one of three, in tiles of the same height: its planes stand
 * where the others were, and its words before theirs.
 */
static void check_safe_steps(const struct device_traits *traits, const struct plan *plan,
                             size_t spoiled_bytes)
{
    const struct problem *to = &plan->safe_product;
    const struct step *split = &plan->steps[2];
    const struct step *safe = &plan->steps[3];
    size_t verdict_bytes = (size_t)split_blocks(split->kernel, traits) * sizeof(uint32_t);
    assert_true(split->kind == STEP_SPLIT_SAFE && split->kernel->planes == 3 &&
                split->kernel->operation == OPERATION_SPLIT);
    assert_true(safe->kind == STEP_SAFE && safe->kernel->planes == 3);
    assert_int_equal(safe->kernel->tile_m, plan->steps[1].kernel->tile_m);
    assert_true(kernel_multiplies(safe->kernel, traits, to) && kernel_finishes(safe->kernel, to));
    assert_non_null(strstr(plan->explanation, safe->kernel->name));
    check_planes(&plan->problem, to, 3);
    check_planes_places(to, &plan->safe_planes, verdict_bytes, spoiled_bytes, (size_t)plan->planes.verdicts);
}

/* A word for each 64 rows of op(A) and columns of op(B) by 64 of k, what is over counting with the last. */
static int64_t count_words(const struct problem *p)
{
    int64_t slices = p->k < 64 ? 1 : p->k / 64;
    int64_t words_a = slices * ceiling(p->m, 64) * (p->stride_a == 0 ? 1 : p->batch);
    int64_t words_b = slices * ceiling(p->n, 64) * (p->stride_b == 0 ? 1 : p->batch);
    assert_int_equal(split_slices(p->k), slices);
    assert_int_equal(split_words(problem_extent_a(p), p->k, p->trans_a), words_a);
    assert_int_equal(split_words(problem_extent_b(p), p->k, !p->trans_b), words_b);
    return words_a + words_b;
}

/*
 * Only products of f32 of which planes are as accurate, and which their rows finish; the planes of both operands, the
 * words of the split's blocks and those of what is spoiled stand one behind the other.
 */
static void check_splitting(const struct device_traits *traits, const struct plan *plan)
{
    const struct problem *from = &plan->problem;
    const struct problem *to = &plan->product;
    const struct kernel *split = plan->steps[0].kernel;
    const struct kernel *multiply = plan->steps[1].kernel;
    /* The rescue comes behind all products, before their parts are added. */
    const struct step *last = &plan->steps[plan->step_count - 1 - plan_has(plan, STEP_REDUCE)];
    const struct kernel *rescue = last->kernel;
    assert_true(from->type_a == CARAT_F32 && from->type_b == CARAT_F32 && from->type_cd == CARAT_F32);
    bool close = from->accuracy == CARAT_ACCURACY_CLOSE;
    assert_true(close || from->accuracy == CARAT_ACCURACY_STANDARD);
    assert_true(to->planes == 3 || (close && to->planes == 2));
    assert_true(from->k >= (to->planes == 2 ? 96 : 32));
    assert_int_equal(split->planes, to->planes);
    assert_true(plan->parts == 1 || (to->planes == 3 && !plan_has_panels(plan)));

    assert_int_equal(split->operation, OPERATION_SPLIT);
    assert_int_equal(split->element_bytes, carat_type_size(CARAT_F32));
    assert_true(kernel_runs_on(split, traits));
    assert_non_null(strstr(plan->explanation, split->name));

    /* The rescue takes A and B as they are, wherever they begin. */
    assert_int_equal(last->kind, STEP_RESCUE);
    assert_int_equal(rescue->operation, OPERATION_GEMM);
    assert_true(rescue->rescues == 1 && rescue->planes == 0 && rescue->element == ELEMENT_F32 &&
                rescue->accuracy == 0 && rescue->layout == LAYOUT_ANY && rescue->alignment == 0);
    assert_true(kernel_runs_on(rescue, traits) && kernel_finishes(rescue, from));
    assert_true(blocks_of(rescue, to, plan->parts) <= INT32_MAX);
    assert_non_null(strstr(plan->explanation, rescue->name));

    check_planes(from, to, to->planes);
    assert_true(plan->packs_a && plan->packs_b);
    assert_int_equal(plan->packed_b_at, plan->planes.b);

    /* An operand has a block at least. */
    int64_t blocks = (int64_t)traits->multiprocessors * split->min_blocks;
    assert_int_equal(split_blocks(split, traits), blocks);
    assert_true(blocks >= 2);
    struct problem panel = *from;
    panel.m = to->m;
    panel.n = to->n;
    blocks = to->planes == 2 ? count_words(&panel) : blocks;
    assert_true(blocks <= INT32_MAX);
    int64_t spoiled = ceiling(to->m, multiply->tile_m) * ceiling(to->n, 16) * from->batch;
    size_t spoiled_bytes = (size_t)spoiled * sizeof(uint32_t);
    size_t verdict_bytes = (size_t)blocks * sizeof(uint32_t);
    check_planes_places(to, &plan->planes, verdict_bytes, spoiled_bytes * (size_t)plan->parts,
                        plan->partials_at);
    bool safe = plan_has(plan, STEP_SAFE);
    double work = (double)from->m * (double)from->n * (double)from->k * (double)from->batch;
    assert_int_equal(safe, to->planes == 2 && work >= 0x1p33);
    if (safe) {
        check_safe_steps(traits, plan, spoiled_bytes);
    }
    assert_true(plan->left_at >= (size_t)plan->planes.verdicts + verdict_bytes);
    assert_true(plan->left_at + sizeof(uint32_t) <= (size_t)plan->planes.spoiled);
    assert_true(plan->workspace_bytes >= plan->partials_at);
    /* Long k is summed without compensation only where there are tiles for all. */
    if (from->k >= LEAST_LONG_K && (to->planes == 2 || multiply->tile_m > 64)) {
        assert_true(ceiling(to->m, 128) * ceiling(to->n, 128) * to->batch >= traits->multiprocessors);
    }
}

/* The panels cover D, each element once, and what each needs lies where it may. */
static void check_panels(const struct plan *plan)
{
    const struct problem *whole = &plan->problem;
    const struct problem *most = &plan->product;
    int64_t elements = 0;
    assert_true(plan_has(plan, STEP_SPLIT) && !plan_has(plan, STEP_REDUCE));
    for (int64_t row = 0; row < whole->m; row += most->m) {
        for (int64_t column = 0; column < whole->n; column += most->n) {
            struct plan panel;
            plan_panel(plan, row, column, &panel);
            const struct problem *to = &panel.product;
            elements += to->m * to->n;
            assert_true(to->m == panel.problem.m && to->n == panel.problem.n);
            assert_true(row + to->m <= whole->m && column + to->n <= whole->n);
            assert_true(panel.problem.lda == whole->lda && panel.problem.ldd == whole->ldd);
            size_t b_at = (size_t)plan->planes.b;
            assert_true(packed_bytes(problem_extent_a(to), to->planes) <= b_at);
            assert_true(b_at + packed_bytes(problem_extent_b(to), to->planes) <=
                        (size_t)plan->planes.verdicts);
            bool edge = to->m < most->m || to->n < most->n;
            assert_int_equal(panel.stream_tiles, edge ? 0 : plan->stream_tiles);
        }
    }
    assert_int_equal(elements, whole->m * whole->n);
    assert_non_null(strstr(plan->explanation, " panels of "));
}

/* Of the product all but A and B is the problem's. */
static void check_epilogue(const struct plan *plan)
{
    const struct problem *from = &plan->problem;
    const struct problem *to = &plan->product;
    assert_true(to->type_cd == from->type_cd && to->ldc == from->ldc && to->ldd == from->ldd &&
                to->batch == from->batch && to->stride_c == from->stride_c &&
                to->stride_d == from->stride_d && to->bias == from->bias &&
                to->bias_along_n == from->bias_along_n && to->type_bias == from->type_bias &&
                to->stride_bias == from->stride_bias && to->activation == from->activation &&
                to->accuracy == from->accuracy);
}

/* The shares are even and worth it, the tiles that remain are whole waves, and there is room for flags and sums. */
static void check_shared_tiles(const struct device_traits *traits, const struct plan *plan,
                               const struct kernel *kernel)
{
    int64_t cluster = kernel->cluster > 1 ? kernel->cluster : 1;
    int64_t clusters = traits->multiprocessors / cluster;
    if (cluster > 2) {
        clusters = (traits->multiprocessors - (traits->multiprocessors + 10) / 11) / cluster;
    }
    clusters = clusters > 0 ? clusters : 1;
    int64_t blocks = clusters * cluster;
    int64_t tiles = blocks_of(kernel, &plan->product, 1) / cluster;
    int64_t steps = plan->stream_tiles * ceiling(plan->product.k, kernel->tile_k);
    int64_t flags = (blocks * kernel->consumers * 8 + 255) / 256 * 256;
    int64_t bytes = flags + (blocks * kernel->tile_m * kernel->tile_n * 4 + 255) / 256 * 256;
    assert_true(kernel->stream == 1);
    assert_int_equal(kernel_clusters(kernel, traits), clusters);
    assert_int_equal(kernel_flag_bytes(kernel, traits), flags);
    assert_true(plan->stream_tiles <= tiles && plan->stream_tiles < 2 * clusters);
    assert_int_equal((tiles - plan->stream_tiles) % clusters, 0);
    assert_true(plan->stream_tiles % clusters != 0);
    assert_true(tiles < clusters ? 4 * plan->stream_tiles >= clusters : plan->stream_tiles > clusters);
    assert_true(steps >= 2 * clusters && steps <= INT32_MAX);
    assert_int_equal(plan->workspace_bytes - plan->partials_at, bytes);
    assert_true(bytes <= 64 << 20);
    char words[60];
    snprintf(words, sizeof(words),
             plan->stream_tiles == tiles ? ", shared" : ", the first %" PRId64 " shared",
             plan->stream_tiles * cluster);
    assert_non_null(strstr(plan->explanation, words));
}

static void check_plan(const struct device_traits *traits, const struct plan *plan)
{
    const struct problem *p = &plan->problem;
    assert_true(strlen(plan->explanation) > 0 && strlen(plan->explanation) < sizeof(plan->explanation) - 1);
    assert_null(strchr(plan->explanation, '\n'));
    if (problem_is_empty(p)) {
        assert_int_equal(plan->step_count, 0);
        assert_int_equal(plan->workspace_bytes, 0);
        return;
    }
    bool splits = plan->steps[0].kind == STEP_SPLIT;
    bool packs = plan->steps[0].kind == STEP_PACK;
    const struct step *multiply = &plan->steps[splits || packs];
    bool bare = plan->parts > 1 || !kernel_finishes(multiply->kernel, p);
    assert_true(plan->stream_tiles == 0 || !bare);
    assert_int_equal(plan->step_count, 1 + packs + bare + 2 * splits + 2 * plan_has(plan, STEP_SAFE));
    assert_int_equal(multiply->kind, STEP_MULTIPLY);
    check_multiply(traits, plan, multiply->kernel);
    check_epilogue(plan);
    if (splits) {
        check_splitting(traits, plan);
        if (plan_has_panels(plan)) {
            check_panels(plan);
        }
    } else {
        assert_int_equal(plan->product.planes, 0);
        assert_true(plan->planes.verdicts == 0 && plan->planes.spoiled == 0);
    }
    if (packs) {
        check_packing(plan);
    } else if (!splits) {
        assert_true(!plan->packs_a && !plan->packs_b);
        assert_int_equal(plan->partials_at, 0);
        assert_true(p->k == 0 || plan->product.type_a == p->type_a);
    }
    assert_non_null(strstr(plan->explanation, multiply->kernel->name));

    /* The parts cover K, and each of them has some of it. */
    assert_true(plan->parts >= 1);
    assert_true(plan->k_per_part > 0);
    assert_int_equal(plan->parts, p->k > 0 ? (plan->product.k - 1) / plan->k_per_part + 1 : 1);
    if (plan->stream_tiles > 0) {
        check_shared_tiles(traits, plan, multiply->kernel);
        return;
    }
    assert_null(strstr(plan->explanation, "shared evenly"));
    if (!bare) {
        assert_int_equal(plan->workspace_bytes, plan->partials_at);
        return;
    }
    const struct step *last = &plan->steps[plan->step_count - 1];
    const struct kernel *reduce = last->kernel;
    assert_int_equal(last->kind, STEP_REDUCE);
    assert_int_equal(reduce->operation, OPERATION_REDUCE);
    assert_int_equal(reduce->element, problem_sum_type(p));
    assert_true(reduce->vector == 0 || p->m % reduce->vector == 0);
    assert_non_null(strstr(plan->explanation, reduce->name));
    size_t least = (size_t)(p->m * p->n * p->batch * plan->parts) * carat_type_size(problem_sum_type(p));
    assert_int_equal(plan->workspace_bytes - plan->partials_at, (least + 255) / 256 * 256);
    assert_true(plan->parts == 1 || plan->workspace_bytes - plan->partials_at <= (size_t)64 << 20);
}

static int64_t random_size(struct random *random)
{
    int bits = (int)random_between(random, 0, 17);
    int64_t size = random_between(random, 0, ((int64_t)1 << bits) - 1) + (bits > 0);
    return random_one_in(random, 2) ? size : (size + 15) / 16 * 16;
}

/* What C and D may be of, and what a bias may: the table in carat.h. */
static carat_type random_result(struct random *random, carat_type type)
{
    static const carat_type small[] = {CARAT_BF16, CARAT_F16, CARAT_F32, CARAT_E4M3};
    static const carat_type integer[] = {CARAT_S32, CARAT_F32, CARAT_S8};
    switch (type) {
    case CARAT_E4M3:
    case CARAT_E5M2:
        return small[random_between(random, 0, 3)];
    case CARAT_S8:
        return integer[random_between(random, 0, 2)];
    case CARAT_F16:
    case CARAT_BF16:
        return random_one_in(random, 2) ? type : CARAT_F32;
    default:
        return type;
    }
}

static void add_epilogue(struct random *random, carat_gemm_problem *p)
{
    static const carat_type halves[] = {CARAT_F16, CARAT_BF16};
    carat_type scalar = carat_scalar_type(p->type_cd);
    p->bias = (carat_bias)random_between(random, CARAT_BIAS_NONE, CARAT_BIAS_PER_COLUMN);
    p->type_bias =
        scalar == CARAT_F32 && random_one_in(random, 2) ? halves[random_between(random, 0, 1)] : scalar;
    p->stride_bias = random_one_in(random, 2) ? 0 : random_between(random, 0, 1000);
    p->activation = (carat_activation)random_between(
        random, CARAT_ACTIVATION_NONE, scalar == CARAT_S32 ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_SILU);
}

static carat_gemm_problem random_problem(struct random *random, carat_type type)
{
    carat_gemm_problem p =
        carat_gemm_describe(type, random_size(random), random_size(random), random_size(random));
    p.order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p.op_a = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.op_b = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    if (!random_one_in(random, 3)) {
        p.accuracy = (carat_accuracy)random_between(random, CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_CLOSE);
    }
    if (type == CARAT_E4M3 || type == CARAT_E5M2) {
        p.type_b = random_one_in(random, 2) ? CARAT_E4M3 : CARAT_E5M2;
    }
    p.type_cd = random_result(random, type);
    p.type_bias = carat_scalar_type(p.type_cd);
    if (random_one_in(random, 2)) {
        add_epilogue(random, &p);
    }
    if (random_one_in(random, 4)) {
        p.batch = random_between(random, 0, 40);
        p.stride_a = random_size(random);
        p.stride_b = random_size(random);
        p.stride_d = p.m * p.n;
    }
    return p;
}

static struct device_traits random_traits(struct random *random)
{
    static const struct {
        int compute_capability;
        int shared_bytes;
    } chips[] = {{75, 65536},  {80, 166912},  {86, 101376},  {89, 101376},
                 {90, 232448}, {100, 232448}, {120, 101376}, {90, 0}};
    static const double memory_shares[] = {0, 0.17, 0.68, 1, 1.4};
    int chip = (int)random_between(random, 0, 7);
    return (struct device_traits){.kind = CARAT_DEVICE_CUDA,
                                  .compute_capability = chips[chip].compute_capability,
                                  .multiprocessors = (int)random_between(random, 1, 200),
                                  .shared_bytes = chips[chip].shared_bytes,
                                  .memory_share = memory_shares[random_between(random, 0, 4)]};
}

/* A multiple of the element's size, as a call would note it. */
static int random_alignment(struct random *random, carat_type type)
{
    int alignment = 16 >> random_between(random, 0, 4);
    int size = (int)carat_type_size(type);
    return random_one_in(random, 2) ? 16 : alignment > size ? alignment : size;
}

static void every_plan_is_consistent(void **state)
{
    carat_type type = *(const carat_type *)*state;
    struct random random = {(uint64_t)type + 300};
    int split = 0;
    int packed = 0;
    int bare = 0;
    int in_planes = 0;
    for (int i = 0; i < 1500; i++) {
        carat_gemm_problem described = random_problem(&random, type);
        struct device_traits traits = random_traits(&random);
        struct problem problem;
        struct plan plan;
        struct plan again;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        problem.align_a = random_alignment(&random, type);
        problem.align_b = random_alignment(&random, type);
        carat_status status = plan_choose(&traits, &problem, &plan);
        if (status != CARAT_OK) {
            fail_msg("%s m %" PRId64 " n %" PRId64 " k %" PRId64 " on %d: %s", carat_type_name(type),
                     problem.m, problem.n, problem.k, traits.compute_capability, carat_last_message());
        }
        check_plan(&traits, &plan);
        split += plan.parts > 1;
        packed += plan_has(&plan, STEP_PACK);
        in_planes += plan_has(&plan, STEP_SPLIT);
        bare += plan.parts == 1 && plan_has(&plan, STEP_REDUCE);

        assert_int_equal(plan_choose(&traits, &problem, &again), CARAT_OK);
        assert_string_equal(plan.explanation, again.explanation);
        assert_int_equal(plan.workspace_bytes, again.workspace_bytes);
    }
    assert_true(split > 100);
    assert_true(bare > 10);
    /* Only s32 has no kernels that ask for alignment. */
    assert_true(type == CARAT_S32 || packed > 10);
    assert_true(type == CARAT_F32 ? in_planes > 10 : in_planes == 0);
}

/* The row that multiplies, whatever goes before it. */
static const struct kernel *multiplying_row(const struct plan *plan)
{
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == STEP_MULTIPLY) {
            return plan->steps[i].kernel;
        }
    }
    return NULL;
}

/* Every row that could serve has a plan of its own, and the cheapest of them is the one that is chosen. */
static void all_candidates_are_plans(void **state)
{
    carat_type type = *(const carat_type *)*state;
    struct random random = {(uint64_t)type + 400};
    struct candidate *candidates = calloc((size_t)carat_catalog_count, sizeof(*candidates));
    assert_non_null(candidates);
    for (int i = 0; i < 60; i++) {
        carat_gemm_problem described = random_problem(&random, type);
        struct device_traits traits = random_traits(&random);
        struct problem problem;
        struct plan plan;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        problem.align_a = random_alignment(&random, type);
        if (problem_is_empty(&problem)) {
            continue;
        }
        int count = plan_candidates(&traits, &problem, candidates);
        assert_in_range(count, 1, carat_catalog_count);
        assert_int_equal(plan_choose(&traits, &problem, &plan), CARAT_OK);
        int chosen = 0;
        while (candidates[chosen].kernel != multiplying_row(&plan)) {
            assert_true(++chosen < count);
        }
        assert_true(candidates[chosen].cycles == candidates[0].cycles);
        for (int c = 0; c < count; c++) {
            assert_true(c == 0 || candidates[c - 1].cycles <= candidates[c].cycles);
            assert_int_equal(plan_choose_row(&traits, &problem, candidates[c].kernel, &plan), CARAT_OK);
            assert_ptr_equal(multiplying_row(&plan), candidates[c].kernel);
            assert_int_equal(candidates[c].kernel->rescues, 0);
            check_plan(&traits, &plan);
        }
    }
    free(candidates);
}

static const struct device_traits h200 = {
    .kind = CARAT_DEVICE_CUDA, .compute_capability = 90, .multiprocessors = 132, .shared_bytes = 232448};

static struct plan plan_of(carat_type type, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem described = carat_gemm_describe(type, m, n, k);
    struct problem problem;
    struct plan plan;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
    check_plan(&h200, &plan);
    return plan;
}

/* K is split where there are too few tiles to go round, and only there. */
static void long_sums_of_few_tiles_are_split(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        assert_true(plan_of(types[t], 64, 64, 100000).parts > 8);
        assert_true(plan_of(types[t], 256, 256, 20000).parts > 1);
        assert_int_equal(plan_of(types[t], 64, 64, 32).parts, 1);
        assert_int_equal(plan_of(types[t], 8192, 8192, 8192).parts, 1);
        assert_int_equal(plan_of(types[t], 8192, 8192, 0).parts, 1);
    }
}

/* The row that multiplies a batch of m x m x m, whose columns are not aligned where m is odd. */
static const char *row_of_batch(carat_type type, int64_t m, int64_t batch)
{
    carat_gemm_problem described = carat_gemm_describe(type, m, m, m);
    struct problem problem;
    struct plan plan;
    described.batch = batch;
    described.stride_a = described.stride_b = described.stride_c = described.stride_d = m * m;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    problem.align_a = problem.align_b = m % 8 == 0 ? 16 : (int)carat_type_size(type);
    assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
    check_plan(&h200, &plan);
    return multiplying_row(&plan)->name;
}

/*
 * Their rows fetch nothing ahead: that many of them are under way has to make up for it. Where columns are off
 * alignment they are best up to 32 x 32 alone.
 */
static void small_rows_are_for_batches(void **state)
{
    (void)state;
    assert_string_equal(row_of_batch(CARAT_BF16, 32, 4096), "small_bf16_32x32");
    assert_string_equal(row_of_batch(CARAT_F16, 31, 4096), "small_f16_32x32");
    assert_string_equal(row_of_batch(CARAT_F16, 63, 1024), "skew_f16_64x64");
    assert_null(strstr(row_of_batch(CARAT_BF16, 1001, 1), "small"));
    assert_null(strstr(row_of_batch(CARAT_BF16, 1024, 1), "small"));
    assert_null(strstr(row_of_batch(CARAT_F16, 256, 64), "small"));
}

/* The row that multiplies; "" where an operand is packed before. */
static const char *row_of(carat_type type, int64_t m, int64_t n, int64_t k)
{
    struct plan plan = plan_of(type, m, n, k);
    return plan.steps[0].kind == STEP_MULTIPLY ? plan.steps[0].kernel->name : "";
}

/* What is short in k, or short altogether, goes straight from memory to D. */
static bool goes_straight(carat_type type, int64_t m, int64_t n, int64_t k)
{
    const char *row = row_of(type, m, n, k);
    return strstr(row, "direct_") || strstr(row, "brief_") || strstr(row, "outer_") ||
           strstr(row, "singles_");
}

static void short_sums_go_direct(void **state)
{
    static const carat_type direct[] = {CARAT_F16, CARAT_BF16, CARAT_F32};
    (void)state;
    for (int t = 0; t < 3; t++) {
        assert_true(goes_straight(direct[t], 4527, 1871, 4));
        assert_true(goes_straight(direct[t], 15151, 23, 1));
        assert_true(goes_straight(direct[t], 128, 171, 34));
        assert_true(goes_straight(direct[t], 47, 53, 7));
        assert_false(goes_straight(direct[t], 4096, 4096, 4096));
        assert_false(goes_straight(direct[t], 4096, 4096, 64));
    }
}

/* Products of one k or little more are brief where D is small. */
static void tiny_sums_are_brief(void **state)
{
    static const carat_type types_of_brief[] = {CARAT_F16, CARAT_BF16, CARAT_F32};
    (void)state;
    for (int t = 0; t < 3; t++) {
        assert_non_null(strstr(row_of(types_of_brief[t], 33, 52, 1), "brief_"));
        assert_non_null(strstr(row_of(types_of_brief[t], 269, 18, 8), "brief_"));
        assert_null(strstr(row_of(types_of_brief[t], 33, 52, 512), "brief_"));
    }
}

static bool comes_at_once(const char *row)
{
    return strstr(row, "dots_") || strstr(row, "singles_") || strstr(row, "strands_");
}

/* What is thin and small does not wait for one stage after the other. */
static void small_thin_products_come_at_once(void **state)
{
    static const carat_type small_types[] = {CARAT_F16, CARAT_BF16, CARAT_F32};
    (void)state;
    for (int t = 0; t < 3; t++) {
        assert_true(comes_at_once(row_of(small_types[t], 1, 8, 795)));
        assert_true(comes_at_once(row_of(small_types[t], 8, 1, 795)));
        assert_null(strstr(row_of(small_types[t], 8192, 1, 8192), "dots_"));
        assert_null(strstr(row_of(small_types[t], 1, 8192, 8192), "dots_"));
    }
}

/* Of a k of fewer steps than there are blocks some would have none; and each that stores has whole sixteens of the columns. */
static void blocks_that_share_k_have_a_step_each(void **state)
{
    (void)state;
    const int elements = 16; /* of any type that are whole pieces of 16 bytes */
    int rows = 0;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        int sharers = kernel_k_sharers(kernel);
        if (sharers == 1 || kernel->layout != LAYOUT_TN) {
            continue;
        }
        carat_gemm_problem described = carat_gemm_describe((carat_type)kernel->element, 64, 64, 1);
        described.op_a = CARAT_TRANSPOSE;
        described.accuracy = CARAT_ACCURACY_FAST;
        for (int more = 0; more <= elements; more += elements) {
            struct problem p;
            described.k = (int64_t)kernel->tile_k * (sharers - 1) + more;
            described.lda = described.ldb = described.k;
            assert_int_equal(problem_check(&described, &p), CARAT_OK);
            assert_true(kernel_multiplies(kernel, &h200, &p) == (more > 0));
        }
        int storers = kernel_k_storers(kernel);
        int columns = kernel->swapped ? kernel->tile_m : kernel->tile_n;
        assert_true(storers >= 1 && storers <= sharers);
        assert_true(storers == 1 || columns % (16 * storers) == 0);
        for (int more = storers + 1; more <= sharers; more++) {
            assert_true(columns % (16 * more) != 0);
        }
        rows++;
    }
    assert_true(rows > 0);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_64x96_k2")), 2);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_64x112_k2")), 1);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_64x32_k4")), 2);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_64x96_k4")), 3);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_128x96_k3")), 3);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_128x128_k3")), 2);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_128x112_r2_k2")), 1);
    assert_int_equal(kernel_k_storers(catalog_find("wgmma_bf16_tn_64x64")), 1);
}

/* ---- f32 as sums of planes ---- */

static struct problem large_f32(carat_accuracy accuracy, int64_t k)
{
    carat_gemm_problem described = carat_gemm_describe(CARAT_F32, 4000, 3000, k);
    struct problem problem;
    described.accuracy = accuracy;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    return problem;
}

static bool splits_on(const struct device_traits *traits, const struct problem *problem)
{
    struct plan plan;
    assert_int_equal(plan_choose(traits, problem, &plan), CARAT_OK);
    check_plan(traits, &plan);
    return plan_has(&plan, STEP_SPLIT);
}

/* Large products are, on the devices that have the rows; not those that ask for more, or for what the rows have not. */
static void large_sums_of_f32_are_split(void **state)
{
    (void)state;
    struct problem problem = large_f32(CARAT_ACCURACY_STANDARD, 2000);
    assert_true(splits_on(&h200, &problem));
    for (int capability = 75; capability <= 120; capability += 5) {
        struct device_traits other = h200;
        other.compute_capability = capability;
        assert_int_equal(splits_on(&other, &problem), capability == 90);
    }
    problem.align_a = problem.align_b = 4;
    problem.lda += 1;
    assert_true(splits_on(&h200, &problem));
    problem.bias = true;
    problem.type_bias = CARAT_BF16;
    problem.activation = CARAT_ACTIVATION_GELU_TANH;
    assert_true(splits_on(&h200, &problem));
    problem = large_f32(CARAT_ACCURACY_STRICT, 2000);
    assert_false(splits_on(&h200, &problem));
}

/* Of close accuracy into two planes; where k is short for that into three, as of standard, and less so into none. */
static void close_sums_are_split_in_two(void **state)
{
    (void)state;
    for (int64_t k = 31; k <= 97; k++) {
        struct problem problem = large_f32(CARAT_ACCURACY_CLOSE, k);
        struct plan plan;
        assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        check_plan(&h200, &plan);
        assert_true(k >= 96 || plan.product.planes != 2);
        assert_true(k >= 32 || plan.product.planes == 0);
    }
    struct problem problem = large_f32(CARAT_ACCURACY_CLOSE, 4000);
    struct plan plan;
    assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
    check_plan(&h200, &plan);
    assert_int_equal(plan.product.planes, 2);
    assert_int_equal(plan.step_count, 5);
    problem.m = problem.lda = problem.ldc = problem.ldd = 500;
    problem.n = 500;
    assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
    check_plan(&h200, &plan);
    assert_false(plan_has(&plan, STEP_SAFE));
    struct device_traits other = h200;
    other.compute_capability = 80;
    assert_false(splits_on(&other, &problem));
    problem = large_f32(CARAT_ACCURACY_CLOSE, 4000);
    problem.activation = CARAT_ACTIVATION_RELU;
    assert_true(splits_on(&h200, &problem));
}

/* A product of f32 on an H200 that may well be split, and workspace that may be too little for that. */
static struct problem random_split(struct random *random)
{
    carat_gemm_problem described = random_problem(random, CARAT_F32);
    struct problem problem;
    bool large = random_one_in(random, 2);
    described.m = random_between(random, 1, large ? 40000 : 3000);
    described.n = random_between(random, 1, large ? 40000 : 3000);
    described.k = random_between(random, 32, large ? 20000 : 3000);
    described.accuracy = random_one_in(random, 4) ? CARAT_ACCURACY_CLOSE : CARAT_ACCURACY_STANDARD;
    described.batch = random_one_in(random, 8) ? random_between(random, 1, 5) : 1;
    described.stride_a = described.stride_b = 0;
    described.stride_d = described.m * described.n;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    return problem;
}

/* Where workspace is short there are panels, or no planes; and nothing takes more than it may where it can do with less. */
static void short_workspace_is_kept_to(void **state)
{
    (void)state;
    struct random random = {77};
    int in_panels = 0;
    int across = 0;
    int not_split = 0;
    for (int i = 0; i < 1500; i++) {
        struct problem problem = random_split(&random);
        struct plan plan;
        assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        check_plan(&h200, &plan);
        bool splits = plan_has(&plan, STEP_SPLIT);
        assert_true(!splits || plan.workspace_bytes <= (size_t)8 << 30);
        int64_t most = (int64_t)(plan.workspace_bytes >> random_between(&random, 0, 9)) + 1;
        problem.most_workspace = most;
        assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        check_plan(&h200, &plan);
        assert_true(!plan_has(&plan, STEP_SPLIT) || plan.workspace_bytes <= (size_t)most);
        assert_true(!problem_is_plain(&problem) || plan.workspace_bytes <= (size_t)most);
        in_panels += plan_has_panels(&plan);
        across += plan.product.m < problem.m;
        not_split += splits && !plan_has(&plan, STEP_SPLIT);
        problem.most_workspace = 1;
        assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        assert_false(plan_has(&plan, STEP_SPLIT));
    }
    assert_true(in_panels > 100 && across > 20 && not_split > 100);
    struct problem square = large_f32(CARAT_ACCURACY_STANDARD, 40000);
    struct plan plan;
    square.m = square.n = square.lda = square.ldb = square.ldc = square.ldd = 40000;
    assert_int_equal(plan_choose(&h200, &square, &plan), CARAT_OK);
    check_plan(&h200, &plan);
    assert_true(plan_has_panels(&plan));
}

/* Where there is no room for a plan the next one takes less, until one takes nothing, or nothing does with so little. */
static void replanning_ends(void **state)
{
    (void)state;
    struct random random = {78};
    int in_need = 0;
    for (int i = 0; i < 300; i++) {
        carat_type type = types[random_between(&random, 0, TYPES - 1)];
        carat_gemm_problem described =
            carat_gemm_describe(type, random_between(&random, 1, 9000), random_between(&random, 1, 9000),
                                random_between(&random, 1, 9000));
        described.accuracy =
            (carat_accuracy)random_between(&random, CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_CLOSE);
        described.op_a = random_one_in(&random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        struct problem problem;
        struct plan plan;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        int64_t less;
        for (int times = 0; (less = plan_less_workspace(&plan)) > 0; times++) {
            assert_true(times < 40 && less < (int64_t)plan.workspace_bytes);
            problem.most_workspace = less;
            assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
        }
        assert_true(plan.workspace_bytes == 0 || (int64_t)plan.workspace_bytes > problem.most_workspace);
        in_need += plan.workspace_bytes > (size_t)32 << 20;
    }
    assert_true(in_need > 5); /* 8-bit floats as f16 */
}

/* Of long k and few tiles only rows that compensate their sums, or have many chains of each, multiply parts. */
static void long_sums_of_few_tiles_are_compensated(void **state)
{
    (void)state;
    static const carat_accuracy accuracies[] = {CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_CLOSE};
    for (int64_t k = 512; k <= 1 << 18; k *= 2) {
        for (int i = 0; i < 8; i++) {
            int64_t side = 256 << i / 2;
            carat_gemm_problem described = carat_gemm_describe(CARAT_F32, side, side, k);
            struct problem problem;
            struct plan plan;
            described.accuracy = accuracies[i % 2];
            assert_int_equal(problem_check(&described, &problem), CARAT_OK);
            assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
            const struct kernel *row = multiplying_row(&plan);
            if (k >= 4096 && side <= 1024) {
                bool by_warps = row->splits > 0 && row->consumers == 0;
                bool in_parts = row->planes + row->splits > 0;
                assert_false(by_warps || row->planes == 2 || (in_parts && row->tile_m > 64));
                assert_true(side < 512 || in_parts);
            }
        }
    }
}

struct chains_seen {
    int64_t k;
    int ways; /* by rows whose warps share k */
    int in_one_part;
};

/* A sum in so many chains is as good as other libraries' up to so many k. */
static void check_chains(void *context, const struct candidate *way)
{
    struct chains_seen *seen = context;
    const struct kernel *row = way->kernel;
    if (row->splits == 0 || row->consumers > 0) {
        return;
    }
    int64_t warps = row->threads_x / 32;
    int64_t side_by_side = (int64_t)(row->tile_m / row->warp_m) * (row->tile_n / row->warp_n);
    int64_t chains = warps / side_by_side * way->parts;
    chains = chains < 16 ? chains : 16;
    assert_int_equal(warps % side_by_side, 0);
    assert_true(seen->k < 4096 || seen->k < 256 * chains * chains);
    seen->ways++;
    seen->in_one_part += way->parts == 1;
}

static void warps_that_share_k_serve_longer_k(void **state)
{
    (void)state;
    static const struct {
        int64_t k;
        bool in_one_part;
    } cases[] = {{4096, true}, {8192, true}, {16383, true}, {16384, false}, {32768, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        carat_gemm_problem described = carat_gemm_describe(CARAT_F32, 16, 4096, cases[i].k);
        struct chains_seen seen = {.k = cases[i].k};
        struct problem problem;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        plan_visit(&h200, &problem, check_chains, &seen);
        assert_true(seen.ways > 0);
        assert_int_equal(seen.in_one_part > 0, cases[i].in_one_part);
    }
}

/* A product of several tiles for a row, of the result that its image for plain products, or for finished ones, stores. */
static carat_gemm_problem plain_problem(const struct kernel *row)
{
    carat_type type = (carat_type)row->element;
    carat_gemm_problem p =
        carat_gemm_describe(type, (int64_t)4 * row->tile_m, (int64_t)4 * row->tile_n, 1024);
    p.order = CARAT_COLUMN_MAJOR;
    bool is_float_8 = type == CARAT_E4M3 || type == CARAT_E5M2;
    p.type_b = row->element_b ? (carat_type)row->element_b : type;
    p.type_cd = type == CARAT_S8 ? CARAT_S32 : is_float_8 ? CARAT_BF16 : type;
    p.op_a = row->layout == LAYOUT_TN || row->layout == LAYOUT_TT ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.op_b = row->layout == LAYOUT_NT || row->layout == LAYOUT_TT ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.accuracy = row->accuracy == ACCURACY_FAST ? CARAT_ACCURACY_FAST : CARAT_ACCURACY_STANDARD;
    return p;
}

static void count_ways(void *context, const struct candidate *way)
{
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128_c2");
    *(int *)context += way->kernel == row;
}

/* Rows in clusters whose tiles a product leaves empty are not looked at, but by those who ask for them. */
static void rows_that_share_nothing_are_shown_by_name(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128_c2");
    for (int m = 16; m <= 1024; m *= 64) {
        carat_gemm_problem described = carat_gemm_describe(CARAT_BF16, m, 1024, 1024);
        struct problem problem;
        int of_all = 0;
        int of_row = 0;
        described.order = CARAT_COLUMN_MAJOR;
        described.op_a = CARAT_TRANSPOSE;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        plan_visit(&h200, &problem, count_ways, &of_all);
        plan_visit_row(&h200, &problem, row, count_ways, &of_row);
        assert_int_equal(kernel_shares_nothing(row, &problem), m == 16);
        assert_true(of_row > 0 && (m == 16 ? of_all == 0 : of_all == of_row));
    }
}

/*
 * What a row without a whole image takes another row stands in for, and it takes nothing else, but where its D may begin anywhere,
 * it finishes sums, or sums parts of K; its twin of 16 bits is as it is.
 */
static void rows_without_a_whole_image_have_one_that_stands_in(void **state)
{
    (void)state;
    int rows = 0;
    int rows_of_any_d = 0;
    int rows_that_finish = 0;
    int halves[2] = {0, 0};
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (!kernel_lacks_whole(row)) {
            continue;
        }
        bool is_float_8 = row->element == ELEMENT_E4M3 || row->element == ELEMENT_E5M2;
        assert_true(!is_float_8 || row->plain == 0); /* of which few products are plain */
        const carat_gemm_problem plain = plain_problem(row);
        carat_gemm_problem others[5] = {plain, plain, plain, plain, plain};
        struct problem problem;
        struct plan plan;
        assert_int_equal(problem_check(&plain, &problem), CARAT_OK);
        assert_int_equal(plan_choose_row(&h200, &problem, row, &plan), CARAT_OK);
        check_stand_in(&h200, &plan, row);
        assert_true(kernel_stands_in(plan.stand_in, row));
        others[0].bias = CARAT_BIAS_PER_ROW;
        others[1].activation = CARAT_ACTIVATION_RELU;
        others[2].m -= 1;
        others[3].ldc = others[3].ldd = plain.m + 1;
        others[4].type_cd = CARAT_F32;
        /* Rows that finish store one type, of those that give others: tf32 gives none. */
        int count = (row->finish == 2 || row->sums) && row->element != ELEMENT_F32 ? 5 : 4;
        for (int j = 0; j < count; j++) {
            /* In parts a row with an image for them does all but what has an m that the engine does not store. */
            bool sums = row->sums && j != 2;
            bool does = sums || (row->any_d && (j == 2 || j == 3)) || (row->finish == 2 && j < 2);
            assert_int_equal(problem_check(&others[j], &problem), CARAT_OK);
            assert_int_equal(plan_choose_row(&h200, &problem, row, &plan),
                             does ? CARAT_OK : CARAT_UNSUPPORTED);
            if (does) {
                check_stand_in(&h200, &plan, row);
            }
        }
        assert_int_equal(row->stream, 0);
        rows++;
        rows_of_any_d += row->any_d;
        rows_that_finish += row->plain == 0;
        halves[0] += row->element == ELEMENT_F16;
        halves[1] += row->element == ELEMENT_BF16;
    }
    assert_true(rows > rows_of_any_d + rows_that_finish && rows_of_any_d > 0 && rows_that_finish > 0);
    assert_int_equal(halves[0], halves[1]);
}

/* Which row reduces how large a D: threads with vectors want many, of columns that are whole vectors, and of f32 sums. */
static void large_reductions_are_by_vectors(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        int64_t m;
        int64_t n;
        const char *row;
    } cases[] = {{CARAT_BF16, 2048, 256, "reduce_f32_4"}, {CARAT_BF16, 2046, 256, "reduce_f32"},
                 {CARAT_BF16, 256, 256, "reduce_f32"},    {CARAT_F32, 452, 448, "reduce_f32"},
                 {CARAT_F32, 452, 449, "reduce_f32_4"},   {CARAT_S8, 2048, 256, "reduce_s32"},
                 {CARAT_F64, 2048, 256, "reduce_f64"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        carat_gemm_problem described = carat_gemm_describe(cases[i].type, cases[i].m, cases[i].n, 4096);
        struct problem problem;
        described.order = CARAT_COLUMN_MAJOR;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        assert_string_equal(find_reduce_row(&h200, &problem)->name, cases[i].row);
    }
}

/* Rows with planes are forced on what may be split alone, and rows that rescue on nothing. */
static void planes_are_refused_what_they_lose(void **state)
{
    (void)state;
    int rows = 0;
    int rescues = 0;
    struct problem strict = large_f32(CARAT_ACCURACY_STRICT, 128);
    struct problem halves;
    carat_gemm_problem described = carat_gemm_describe(CARAT_BF16, 4000, 3000, 32);
    assert_int_equal(problem_check(&described, &halves), CARAT_OK);
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        struct plan plan;
        if (row->planes == 0 && !row->rescues) {
            continue;
        }
        bool two = row->planes == 2;
        struct problem good = large_f32(two ? CARAT_ACCURACY_CLOSE : CARAT_ACCURACY_STANDARD, two ? 96 : 32);
        struct problem shallow = large_f32(good.accuracy, good.k - 1);
        const struct problem *refused[] = {&strict, &shallow, &halves};
        for (int r = 0; r < 3; r++) {
            assert_int_equal(plan_choose_row(&h200, refused[r], row, &plan), CARAT_UNSUPPORTED);
        }
        assert_false(kernel_multiplies(row, &h200, &good));
        assert_false(kernel_multiplies(row, &h200, &halves));
        bool laid_out = row->layout == (good.trans_a ? (good.trans_b ? LAYOUT_TT : LAYOUT_TN)
                                                     : (good.trans_b ? LAYOUT_NT : LAYOUT_NN));
        if (row->rescues || !laid_out) {
            assert_int_equal(plan_choose_row(&h200, &good, row, &plan), CARAT_UNSUPPORTED);
        } else {
            assert_int_equal(plan_choose_row(&h200, &good, row, &plan), CARAT_OK);
            assert_ptr_equal(multiplying_row(&plan), row);
            check_plan(&h200, &plan);
            rows++;
        }
        rescues += row->rescues;
    }
    assert_true(rows > 1 && rescues > 0);
}

/* ---- The best accuracy ---- */

static struct plan best_plan(const struct device_traits *traits, carat_type type, carat_type type_cd,
                             carat_activation activation, int64_t m, int64_t k)
{
    carat_gemm_problem described = carat_gemm_describe(type, m, m, k);
    struct problem problem;
    struct plan plan;
    described.accuracy = CARAT_ACCURACY_BEST;
    described.type_cd = type_cd;
    described.activation = activation;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_int_equal(plan_choose(traits, &problem, &plan), CARAT_OK);
    check_plan(traits, &plan);
    return plan;
}

/* Large products on the double-precision tensor unit: f32 by two kernels, what such rows do not finish by three. */
static void large_floats_are_widened(void **state)
{
    static const carat_type narrow[][2] = {
        {CARAT_F16, CARAT_F16}, {CARAT_BF16, CARAT_BF16}, {CARAT_E4M3, CARAT_BF16}, {CARAT_E5M2, CARAT_F32}};
    (void)state;
    const carat_activation none = CARAT_ACTIVATION_NONE;
    struct plan plan = best_plan(&h200, CARAT_F32, CARAT_F32, none, 4096, 4096);
    assert_int_equal(plan.step_count, 2);
    assert_int_equal(plan.product.type_a, CARAT_F64);
    assert_int_equal(plan.workspace_bytes, 2 * 4096 * 4096 * sizeof(double));
    assert_non_null(strstr(plan.explanation, "A as f64 and B as f64 packed first by widen_4"));

    plan = best_plan(&h200, CARAT_F32, CARAT_F32, CARAT_ACTIVATION_RELU, 4096, 4096);
    assert_int_equal(plan.steps[2].kind, STEP_REDUCE);
    plan = best_plan(&h200, CARAT_BF16, CARAT_F32, none, 4096, 4096);
    assert_int_equal(plan.step_count, 2);
    assert_int_equal(plan.product.type_a, CARAT_F64);
    for (size_t i = 0; i < sizeof(narrow) / sizeof(narrow[0]); i++) {
        plan = best_plan(&h200, narrow[i][0], narrow[i][1], none, 4096, 4096);
        assert_int_equal(plan.step_count, 3);
        assert_int_equal(plan.product.type_a, CARAT_F64);
        assert_int_equal(plan.steps[2].kernel->element, ELEMENT_F64);
    }
    /* A K that is split: partial sums are f64. */
    plan = best_plan(&h200, CARAT_F32, CARAT_F32, none, 256, 100000);
    assert_true(plan.parts > 1);
}

/* And on other devices, and small ones, by sums in f64 without a launch more. */
static void others_are_summed_in_f64_at_once(void **state)
{
    (void)state;
    struct device_traits other = h200;
    other.compute_capability = 80;
    for (int large = 0; large < 2; large++) {
        const struct device_traits *traits = large ? &other : &h200;
        int64_t m = large ? 4096 : 40;
        struct plan plan = best_plan(traits, CARAT_F32, CARAT_F32, CARAT_ACTIVATION_NONE, m, m);
        assert_int_equal(plan.step_count, 1);
        assert_int_equal(plan.steps[0].kernel->accuracy, ACCURACY_BEST);
        assert_int_equal(plan.workspace_bytes, 0);
        plan = best_plan(traits, CARAT_E4M3, CARAT_BF16, CARAT_ACTIVATION_NONE, m, m);
        assert_int_equal(plan.product.type_a, CARAT_F16);
    }
}

/* f64 has no better type: its sums are compensated, in one part whatever K is. Integers are exact. */
static void best_of_f64_is_compensated(void **state)
{
    (void)state;
    const carat_activation none = CARAT_ACTIVATION_NONE;
    struct plan plan = best_plan(&h200, CARAT_F64, CARAT_F64, none, 100, 100000);
    assert_int_equal(plan.step_count, 1);
    assert_int_equal(plan.steps[0].kernel->accuracy, ACCURACY_BEST);
    assert_int_equal(plan.parts, 1);
    carat_type integers[][2] = {{CARAT_S8, CARAT_S32}, {CARAT_S32, CARAT_S32}, {CARAT_S8, CARAT_F32}};
    for (int i = 0; i < 3; i++) {
        struct problem strict;
        plan = best_plan(&h200, integers[i][0], integers[i][1], none, 1000, 1000);
        strict = plan.problem;
        strict.accuracy = CARAT_ACCURACY_STRICT;
        struct plan as_ever;
        assert_int_equal(plan_choose(&h200, &strict, &as_ever), CARAT_OK);
        assert_string_equal(plan.explanation, as_ever.explanation);
    }
}

/* ---- Shared tiles ---- */

/* The ways of one row to do a bf16 product whose operands run along k. */
struct shared_ways {
    const struct kernel *row;
    const struct device_traits *traits;
    struct problem problem;
    int count;         /* with and without */
    struct plan plain; /* of parts 1 */
    struct plan shared;
    double plain_cycles;
    double shared_cycles; /* 0: none */
};

static void take_way(void *context, const struct candidate *way)
{
    struct shared_ways *ways = context;
    if (way->kernel != ways->row || way->parts > 1 || way->pack) {
        return;
    }
    bool shares = way->stream_tiles > 0;
    struct plan *plan = shares ? &ways->shared : &ways->plain;
    assert_int_equal(plan_of_candidate(ways->traits, &ways->problem, way, plan), CARAT_OK);
    assert_int_equal(plan->stream_tiles, way->stream_tiles);
    check_plan(ways->traits, plan);
    *(shares ? &ways->shared_cycles : &ways->plain_cycles) = way->cycles;
    ways->count++;
}

static struct shared_ways ways_of(const struct kernel *row, const struct device_traits *traits, int64_t m,
                                  int64_t n, int64_t k, int64_t batch)
{
    struct shared_ways ways = {.row = row, .traits = traits};
    carat_gemm_problem described = carat_gemm_describe(CARAT_BF16, m, n, k);
    described.order = CARAT_COLUMN_MAJOR;
    described.op_a = CARAT_TRANSPOSE;
    described.batch = batch;
    if (batch > 1) {
        described.stride_a = m * k;
        described.stride_b = n * k;
        described.stride_d = m * n;
    }
    assert_int_equal(problem_check(&described, &ways.problem), CARAT_OK);
    plan_visit(traits, &ways.problem, take_way, &ways);
    assert_int_equal(ways.count, ways.shared_cycles > 0 ? 2 : 1);
    return ways;
}

/* How many tiles are shared by so many clusters, and that nothing else is tried. */
static void the_last_wave_is_shared(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    const struct kernel *pairs = catalog_find("wgmma_bf16_tn_256x128_c2");
    assert_true(row && row->stream && pairs);
    const struct {
        int64_t tiles_m;
        int64_t tiles_n;
        int64_t k;
        int64_t batch;
        int64_t shared; /* of 132 clusters */
    } cases[] = {
        {12, 24, 4096, 1, 288 - 132},      /* two waves and a bit: one stays whole */
        {12, 24, 4096, 3, 864 - 660},      /* the tiles of all problems of a batch count */
        {19, 7, 4096, 1, 133},             /* a wave and one tile */
        {12, 11, 4096, 1, 0},              /* one whole wave */
        {24, 11, 4096, 1, 0},              /* two */
        {10, 10, 4096, 1, 100},            /* less than one */
        {11, 3, 4096, 1, 33},              /* four clusters a tile */
        {8, 4, 4096, 1, 0},                /* more */
        {10, 10, 3 * 64, 1, 100},          /* 2.27 steps a cluster */
        {10, 10, 2 * 64 + 8, 1, 100},      /* no whole ones, but three of them */
        {10, 10, 2 * 64, 1, 0},            /* 1.5 */
        {19, 7, 64, 1, 0},                 /* 1.01 */
        {19, 7, ((int64_t)1 << 30), 1, 0}, /* more steps than can be counted */
        {19, 7, 64 * (INT32_MAX / 133), 1, 133},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shared_ways ways =
            ways_of(row, &h200, 256 * cases[i].tiles_m, 128 * cases[i].tiles_n, cases[i].k, cases[i].batch);
        if (ways.shared.stream_tiles != cases[i].shared) {
            fail_msg("case %zu: %" PRId64 " tiles are shared", i, ways.shared.stream_tiles);
        }
        assert_int_equal(ways.plain.workspace_bytes, 0);
    }
    if (pairs->stream) {
        /* 66 clusters, and 144 tiles of them. */
        assert_int_equal(ways_of(pairs, &h200, 3072, 3072, 4096, 1).shared.stream_tiles, 144 - 66);
    }
    /* What bare sums are for, sharing does not do. */
    struct problem problem = ways_of(row, &h200, 3072, 3072, 4096, 1).problem;
    struct plan plan;
    assert_int_equal(plan_choose_row(&h200, &problem, catalog_find("wgmma_bf16_tn_32x64"), &plan), CARAT_OK);
    assert_int_equal(plan.stream_tiles, 0);
}

/* Where the last wave would be nearly idle sharing wins, where it is nearly full it does not; nor does it for short k. */
static void sharing_pays_for_idle_waves(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    struct shared_ways idle = ways_of(row, &h200, 3072, 3072, 3072, 1); /* 2.2 waves */
    assert_true(idle.shared_cycles < 0.85 * idle.plain_cycles);
    struct shared_ways full = ways_of(row, &h200, 256 * 131, 128, 3072, 1); /* 0.99 */
    assert_true(full.shared_cycles > full.plain_cycles);
    struct shared_ways brief = ways_of(row, &h200, 3072, 3072, 128, 1);
    assert_true(brief.shared_cycles > brief.plain_cycles);
    /* More waves are less idle. */
    struct shared_ways many = ways_of(row, &h200, 3072, 8 * 3072, 3072, 1); /* 17.5 */
    double gain = idle.plain_cycles / idle.shared_cycles;
    assert_true(many.shared_cycles < many.plain_cycles);
    assert_true(many.plain_cycles / many.shared_cycles < gain);

    struct plan chosen = plan_of(CARAT_BF16, 1448, 1448, 8192);
    assert_true(chosen.stream_tiles > 0);
    assert_int_equal(plan_of(CARAT_BF16, 256 * 12, 256 * 11, 4096).stream_tiles, 0); /* two whole waves */
}

static void what_no_grid_holds_is_refused(void **state)
{
    (void)state;
    carat_gemm_problem described = carat_gemm_describe(CARAT_F32, (int64_t)1 << 40, 1024, 1);
    struct problem problem;
    struct plan plan;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_refused(plan_choose(&h200, &problem, &plan), CARAT_UNSUPPORTED, "m is 1099511627776");
    described = carat_gemm_describe(CARAT_F32, 1, 1, 1);
    described.batch = (int64_t)1 << 31;
    described.stride_d = 1;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_refused(plan_choose(&h200, &problem, &plan), CARAT_UNSUPPORTED, "batch is 2147483648");
    /* As long as it may be, and not split into more than fits. */
    described = carat_gemm_describe(CARAT_S8, 1, 1, INT64_MAX - 1000);
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_int_equal(plan_choose(&h200, &problem, &plan), CARAT_OK);
    check_plan(&h200, &plan);
}

static void chips_without_kernels_are_refused(void **state)
{
    (void)state;
    struct device_traits old = {.kind = CARAT_DEVICE_CUDA, .compute_capability = 61, .multiprocessors = 20};
    for (int t = 0; t < TYPES; t++) {
        carat_gemm_problem described = carat_gemm_describe(types[t], 10, 10, 10);
        struct problem problem;
        struct plan plan;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        assert_refused(plan_choose(&old, &problem, &plan), CARAT_UNSUPPORTED, "on compute capability 6.1");
    }
}

/* ---- Plans of the CPU ---- */

static carat_context *cpu_context(void)
{
    carat_context *context;
    assert_int_equal(carat_context_create(CARAT_DEVICE_CPU, 0, &context), CARAT_OK);
    return context;
}

/* OpenBLAS says what it is; another CBLAS does not have this function. */
__attribute__((weak)) char *openblas_get_config(void);

static void cpu_plans_say_how_they_multiply(void **state)
{
    (void)state;
    static const char *const words[] = {"sgemm",  "dgemm", "f16 widened to f32", "bf16 widened to f32",
                                        "halves", "s8"};
    carat_context *context = cpu_context();
    for (int t = 0; t < 6; t++) {
        carat_gemm_problem problem = carat_gemm_describe(types[t], 30, 20, 10);
        carat_plan *plan;
        assert_int_equal(carat_plan_create(context, &problem, &plan), CARAT_OK);
        assert_non_null(strstr(carat_plan_explain(plan), words[t]));
        assert_non_null(
            strstr(carat_plan_explain(plan), openblas_get_config ? "CPU, OpenBLAS " : "CPU, the CBLAS"));
        assert_int_equal(carat_plan_workspace(plan), 0);
        carat_plan_destroy(plan);
        problem.k = 0;
        assert_int_equal(carat_plan_create(context, &problem, &plan), CARAT_OK);
        assert_non_null(strstr(carat_plan_explain(plan), "k is 0"));
        carat_plan_destroy(plan);
    }
    carat_context_destroy(context);
}

/* ---- The cache ---- */

static void one_problem_has_one_plan(void **state)
{
    (void)state;
    carat_context *context = cpu_context();
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 30, 20, 10);
    carat_plan *first;
    carat_plan *second;
    carat_plan *third;
    assert_int_equal(carat_plan_create(context, &problem, &first), CARAT_OK);
    problem.lda = 30; /* said aloud */
    assert_int_equal(carat_plan_create(context, &problem, &second), CARAT_OK);
    problem.lda = 31;
    assert_int_equal(carat_plan_create(context, &problem, &third), CARAT_OK);
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, third);
    carat_plan_destroy(first);
    assert_true(strlen(carat_plan_explain(second)) > 0);
    carat_plan_destroy(second);
    carat_plan_destroy(third);
    carat_context_destroy(context);
}

/* Every field that a plan depends on is part of its name in the cache. */
static void problems_that_differ_have_their_own_plans(void **state)
{
    (void)state;
    carat_context *context = cpu_context();
    enum { VARIANTS = 25 };
    carat_gemm_problem problems[VARIANTS];
    for (int i = 0; i < VARIANTS; i++) {
        problems[i] = carat_gemm_describe(CARAT_F32, 40, 40, 40);
        problems[i].batch = 2;
        problems[i].stride_a = problems[i].stride_b = problems[i].stride_c = problems[i].stride_d = 4000;
    }
    problems[1].order = CARAT_ROW_MAJOR;
    problems[2].op_a = CARAT_TRANSPOSE;
    problems[3].op_b = CARAT_TRANSPOSE;
    problems[4] = carat_gemm_describe(CARAT_F64, 40, 40, 40);
    problems[5].m = 39;
    problems[6].n = 39;
    problems[7].k = 39;
    problems[8].lda = 41;
    problems[9].ldb = 41;
    problems[10].ldc = 41;
    problems[11].ldd = 41;
    problems[12].batch = 3;
    problems[13].stride_a = 4001;
    problems[14].stride_b = 4001;
    problems[15].stride_c = 4001;
    problems[16].stride_d = 4001;
    problems[17].accuracy = CARAT_ACCURACY_STRICT;
    problems[18].activation = CARAT_ACTIVATION_RELU;
    for (int i = 19; i < 23; i++) {
        problems[i].bias = CARAT_BIAS_PER_ROW;
    }
    problems[20].bias = CARAT_BIAS_PER_COLUMN;
    problems[21].type_bias = CARAT_F16;
    problems[22].stride_bias = 50;
    problems[23] = carat_gemm_describe(CARAT_E4M3, 40, 40, 40);
    problems[24] = problems[23];
    problems[24].type_b = CARAT_E5M2;
    carat_plan *plans[VARIANTS];
    for (int i = 0; i < VARIANTS; i++) {
        assert_int_equal(carat_plan_create(context, &problems[i], &plans[i]), CARAT_OK);
        for (int j = 0; j < i; j++) {
            assert_ptr_not_equal(plans[i], plans[j]);
        }
    }
    for (int i = 0; i < VARIANTS; i++) {
        carat_plan_destroy(plans[i]);
    }
    carat_context_destroy(context);
}

/* Plans more problems than the cache has places; and between any two of them, if given, the one in use. */
static void make_other_plans(carat_context *context, const carat_gemm_problem *in_use,
                             const carat_plan *its_plan)
{
    for (int64_t i = 0; i < 20000; i++) {
        carat_gemm_problem other = carat_gemm_describe(CARAT_F32, i + 4, 2, 1);
        carat_plan *plan;
        assert_int_equal(carat_plan_create(context, &other, &plan), CARAT_OK);
        carat_plan_destroy(plan);
        if (in_use) {
            assert_int_equal(carat_plan_create(context, in_use, &plan), CARAT_OK);
            assert_ptr_equal(plan, its_plan);
            carat_plan_destroy(plan);
        }
    }
}

static void plans_in_use_keep_their_place(void **state)
{
    (void)state;
    carat_context *context = cpu_context();
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 3, 2, 1);
    carat_plan *plan;
    assert_int_equal(carat_plan_create(context, &problem, &plan), CARAT_OK);
    make_other_plans(context, &problem, plan);
    carat_plan_destroy(plan);
    carat_context_destroy(context);
}

/* A plan that its holder keeps outlives its place in the cache, which more problems take than it has. */
static void held_plans_outlive_their_place(void **state)
{
    (void)state;
    carat_context *context = cpu_context();
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 3, 2, 1);
    carat_plan *held;
    assert_int_equal(carat_plan_create(context, &problem, &held), CARAT_OK);
    make_other_plans(context, NULL, NULL);
    float one = 1;
    float zero = 0;
    float a[3] = {1, 2, 3};
    float b[2] = {10, 100};
    float d[6];
    assert_int_equal(carat_plan_run(held, &one, a, b, &zero, NULL, d, NULL), CARAT_OK);
    assert_true(d[0] == 10 && d[2] == 30 && d[5] == 300);
    carat_plan_destroy(held);
    carat_context_destroy(context);
}

struct worker {
    carat_context *context;
    pthread_t thread;
    uint64_t seed;
    int wrong;
};

/* Multiplies 1 x k by k x 1 for many k, more than the cache holds, by call and by plan in turns. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    struct random random = {worker->seed};
    double ones[3000];
    for (int i = 0; i < 3000; i++) {
        ones[i] = 1;
    }
    double one = 1;
    double zero = 0;
    for (int i = 0; i < 4000; i++) {
        int64_t k = random_between(&random, 1, random_one_in(&random, 2) ? 20 : 3000);
        carat_gemm_problem problem = carat_gemm_describe(CARAT_F64, 1, 1, k);
        double d = -1;
        if (random_one_in(&random, 2)) {
            worker->wrong +=
                carat_gemm(worker->context, &problem, &one, ones, ones, &zero, NULL, &d, NULL) != CARAT_OK;
        } else {
            carat_plan *plan;
            worker->wrong += carat_plan_create(worker->context, &problem, &plan) != CARAT_OK;
            worker->wrong += carat_plan_run(plan, &one, ones, ones, &zero, NULL, &d, NULL) != CARAT_OK;
            carat_plan_destroy(plan);
        }
        worker->wrong += d != (double)k;
    }
    return NULL;
}

static void threads_share_a_context(void **state)
{
    (void)state;
    enum { THREADS = 8 };
    struct worker workers[THREADS];
    carat_context *context = cpu_context();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){.context = context, .seed = (uint64_t)i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
    carat_context_destroy(context);
}

/* A message belongs to the thread whose call failed. */
static void *fail_here(void *message_there)
{
    assert_string_equal(carat_last_message(), "");
    carat_plan_run(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
    *(char **)message_there = strdup(carat_last_message());
    return NULL;
}

static void messages_belong_to_threads(void **state)
{
    (void)state;
    carat_context_create((carat_device_kind)77, 0, &(carat_context *){NULL});
    char here[200];
    strncpy(here, carat_last_message(), sizeof(here) - 1);
    here[sizeof(here) - 1] = '\0';
    char *there = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_here, &there), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(there);
    assert_string_equal(there, "plan is NULL");
    assert_string_equal(carat_last_message(), here);
    assert_non_null(strstr(here, "kind is 77"));
    free(there);
}

int main(void)
{
    struct CMUnitTest tests[32 + 2 * TYPES];
    static char names[2 * TYPES][60];
    int count = 0;
    for (int t = 0; t < TYPES; t++) {
        void *type = (void *)(uintptr_t)&types[t];
        snprintf(names[2 * t], sizeof(names[0]), "every_plan_is_consistent %s", carat_type_name(types[t]));
        snprintf(names[2 * t + 1], sizeof(names[0]), "all_candidates_are_plans %s",
                 carat_type_name(types[t]));
        tests[count++] = (struct CMUnitTest){names[2 * t], every_plan_is_consistent, NULL, NULL, type};
        tests[count++] = (struct CMUnitTest){names[2 * t + 1], all_candidates_are_plans, NULL, NULL, type};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(rows_are_found_by_name);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(clusters_stand_side_by_side);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(blocks_that_share_k_have_a_step_each);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(long_sums_of_few_tiles_are_split);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(small_rows_are_for_batches);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(short_sums_go_direct);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(tiny_sums_are_brief);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(small_thin_products_come_at_once);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(large_sums_of_f32_are_split);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(rows_that_share_nothing_are_shown_by_name);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(rows_without_a_whole_image_have_one_that_stands_in);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(large_reductions_are_by_vectors);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(planes_are_refused_what_they_lose);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(short_workspace_is_kept_to);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(replanning_ends);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(long_sums_of_few_tiles_are_compensated);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(warps_that_share_k_serve_longer_k);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(close_sums_are_split_in_two);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(large_floats_are_widened);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(others_are_summed_in_f64_at_once);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(best_of_f64_is_compensated);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_last_wave_is_shared);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(sharing_pays_for_idle_waves);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(what_no_grid_holds_is_refused);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(chips_without_kernels_are_refused);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(cpu_plans_say_how_they_multiply);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(one_problem_has_one_plan);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(problems_that_differ_have_their_own_plans);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(plans_in_use_keep_their_place);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(held_plans_outlive_their_place);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(threads_share_a_context);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(messages_belong_to_threads);
    return _cmocka_run_group_tests("plan", tests, (size_t)count, NULL, NULL);
}
