/* rows.c - what the rows of the catalogue can do, of which kind they are, and which one does a step. */
#include "rows.h"

#include <string.h>

/* A tensor map's limits: elements a dimension, bytes from column to column and from problem to problem. */
#define MAP_ELEMENTS ((int64_t)1 << 31)
#define MAP_BYTES ((int64_t)1 << 40)
/* What k of thin rows is counted by at most, see kernel_k_step(). */
#define THIN_K_STEP 128
/* The share of the tensor unit's rate that instructions of one warp reach. */
#define OF_ONE_WARP 0.62

/* From so many blocks for a multiprocessor on a reduction's threads add vectors; with fewer a thread for each element is quicker. */
#define LEAST_BLOCKS_OF_VECTORS 1.5

/* ---- What a row can do ---- */

bool kernel_runs_on(const struct kernel *kernel, const struct device_traits *traits)
{
    bool has_instructions = kernel->arch_specific ? kernel->arch == traits->compute_capability
                                                  : kernel->arch <= traits->compute_capability;
    bool has_memory = traits->shared_bytes == 0 || kernel->shared_bytes <= traits->shared_bytes;
    return kernel_has_image(kernel) && has_instructions && has_memory;
}

bool kernel_has_image(const struct kernel *kernel)
{
    return kernel->image || kernel->plain_image || kernel->finish_image;
}
bool kernel_lacks_whole(const struct kernel *kernel) { return kernel->plain == 2 || kernel->finish == 2; }

bool kernel_stands_in(const struct kernel *kernel, const struct kernel *other)
{
    return kernel->operation == OPERATION_GEMM && strcmp(kernel->source, other->source) == 0 &&
           kernel->element == other->element && kernel->element_b == other->element_b &&
           kernel->accuracy == other->accuracy && kernel->planes == other->planes &&
           kernel->tile_k == other->tile_k && kernel->shares_k == other->shares_k &&
           !kernel_lacks_whole(kernel);
}

/* Whether A and B are f64 that were narrower floats. */
static bool is_widened(const struct problem *p) { return p->type_a == CARAT_F64 && p->type_cd != CARAT_F64; }

bool problem_keeps_all_bits(const struct problem *p)
{
    return p->accuracy == CARAT_ACCURACY_STANDARD || p->accuracy == CARAT_ACCURACY_CLOSE;
}

bool kernel_has_types(const struct kernel *kernel, const struct problem *p)
{
    int element_b = kernel->element_b ? kernel->element_b : kernel->element;
    /* The tensor unit keeps sums of 8-bit floats in fewer than 24 bits. */
    bool cuts_sums = kernel->element == ELEMENT_E4M3 || kernel->element == ELEMENT_E5M2;
    bool is_best = is_widened(p) ? kernel->widened != 0 : kernel->accuracy == ACCURACY_BEST;
    return kernel->element == (int)p->type_a && element_b == (int)p->type_b && kernel->planes == p->planes &&
           !kernel->rescues && is_best == problem_wants_best(p) &&
           (kernel->accuracy != ACCURACY_FAST || p->accuracy == CARAT_ACCURACY_FAST) &&
           (kernel->splits == 0 || problem_keeps_all_bits(p)) &&
           !(cuts_sums && p->accuracy == CARAT_ACCURACY_STRICT);
}

static bool has_layout(const struct kernel *kernel, const struct problem *p)
{
    int layout = p->trans_a ? (p->trans_b ? LAYOUT_TT : LAYOUT_TN) : (p->trans_b ? LAYOUT_NT : LAYOUT_NN);
    return kernel->layout == LAYOUT_ANY || kernel->layout == layout;
}

int64_t kernel_aligned_elements(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    int64_t bytes = kernel->tensor_maps ? MAP_ALIGNMENT : kernel->alignment;
    return bytes > size ? bytes / size : 1;
}

static bool is_aligned(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    int64_t unit = kernel_aligned_elements(kernel, p);
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
    if (kernel->splits > 0 && kernel_has_consumers(kernel) &&
        (p->m >= MAP_ELEMENTS || p->n >= MAP_ELEMENTS || p->k >= MAP_ELEMENTS)) {
        return false;
    }
    int64_t most = MAP_BYTES / (int64_t)carat_type_size(p->type_a);
    /* Blocks of a cluster begin beyond D where its tile reaches over the end, and 32 bits have to hold that. */
    int64_t most_m = MAP_ELEMENTS - (int64_t)kernel->tile_m * kernel_cluster_m(kernel);
    int64_t most_n = MAP_ELEMENTS - (int64_t)kernel->tile_n * kernel_cluster_n(kernel);
    /* Of what blocks share each has a step at least. */
    int64_t least_k = (int64_t)kernel->tile_k * (kernel_k_sharers(kernel) - 1);
    return !kernel->tensor_maps || (p->k > least_k && p->m < most_m && p->n < most_n && p->k < MAP_ELEMENTS &&
                                    p->batch < MAP_ELEMENTS && p->lda < most && p->ldb < most &&
                                    p->stride_a < most && p->stride_b < most);
}

/* Whether a row's plain image stores results of a type. */
static bool stores_plainly(const struct kernel *kernel, carat_type type)
{
    switch (kernel->element) {
    case ELEMENT_F32:
        return type == CARAT_F32;
    case ELEMENT_S8:
        return type == CARAT_S32;
    default:
        return type == CARAT_F16 || type == CARAT_BF16;
    }
}

bool kernel_may_be_plain(const struct kernel *kernel, const struct problem *p)
{
    return kernel->plain_image && p->k > 0 && !p->bias && p->activation == CARAT_ACTIVATION_NONE &&
           stores_plainly(kernel, p->type_cd);
}

/* The type of the results that a row's image for finished products stores. */
static carat_type finished_type(const struct kernel *kernel)
{
    switch (kernel->element) {
    case ELEMENT_F32:
        return CARAT_F32;
    case ELEMENT_S8:
        return CARAT_S32;
    case ELEMENT_F16:
        return CARAT_F16;
    default:
        return CARAT_BF16;
    }
}

bool kernel_may_finish(const struct kernel *kernel, const struct problem *p)
{
    return kernel->finish_image && p->k > 0 && p->type_cd == finished_type(kernel);
}

bool kernel_suits_images(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_cd);
    bool lies_well = (p->m | p->ldd | p->stride_d) * size % MAP_ALIGNMENT == 0;
    return (kernel_may_be_plain(kernel, p) || kernel_may_finish(kernel, p)) && (lies_well || kernel->any_d);
}

bool kernel_may_sum(const struct kernel *kernel, const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(problem_sum_type(p));
    return kernel->sums_image && p->k > 0 && p->m * size % MAP_ALIGNMENT == 0;
}

/* Whether a row multiplies a problem's A and B as they lie, whatever becomes of the sums. */
static bool multiplies_operands(const struct kernel *kernel, const struct device_traits *traits,
                                const struct problem *p)
{
    /* Rungs of the ladder know nothing of batches. */
    bool product =
        kernel->operation == OPERATION_GEMM || (kernel->operation == OPERATION_LADDER && p->batch == 1);
    return product && kernel_has_types(kernel, p) && kernel_runs_on(kernel, traits) &&
           has_layout(kernel, p) && within_limits(kernel, p) && is_aligned(kernel, p);
}

bool kernel_multiplies(const struct kernel *kernel, const struct device_traits *traits,
                       const struct problem *p)
{
    return multiplies_operands(kernel, traits, p) &&
           (!kernel_lacks_whole(kernel) || kernel_suits_images(kernel, p));
}

bool kernel_has_way(const struct kernel *kernel, const struct device_traits *traits, const struct problem *p)
{
    return kernel_multiplies(kernel, traits, p) ||
           (multiplies_operands(kernel, traits, p) && kernel_may_sum(kernel, p));
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

/* ---- Which row does a step ---- */

/* Whether a row's threads have whole vectors of D, and so many that each multiprocessor has some blocks of them. */
static bool suits_vectors(const struct device_traits *traits, const struct kernel *kernel,
                          const struct problem *p)
{
    double blocks =
        (double)p->m * (double)p->n * (double)p->batch / ((double)kernel_threads(kernel) * kernel->vector);
    return p->m % kernel->vector == 0 && blocks >= LEAST_BLOCKS_OF_VECTORS * (double)traits->multiprocessors;
}

const struct kernel *find_reduce_row(const struct device_traits *traits, const struct problem *p)
{
    const struct kernel *found = NULL;
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *kernel = &carat_catalog[i];
        if (kernel->operation == OPERATION_REDUCE && kernel->element == (int)problem_sum_type(p) &&
            kernel_runs_on(kernel, traits) &&
            (kernel->vector > 0 ? suits_vectors(traits, kernel, p) : !found)) {
            found = kernel;
        }
    }
    return found;
}

const struct kernel *find_pack_row(const struct device_traits *traits, size_t element_bytes, int converts)
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

const struct kernel *find_row_of_planes(const struct device_traits *traits, int operation, int planes,
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

/* ---- Of which kind a row is ---- */

bool kernel_is_direct(const struct kernel *kernel) { return kernel->k_limit > 0; }

bool kernel_is_thin(const struct kernel *kernel)
{
    return !kernel->tensor_maps && kernel->warp_m > 0 && kernel->splits == 0 && kernel->slices == 0 &&
           !kernel_is_direct(kernel) && (kernel->tile_m <= 16 || kernel->tile_n <= 16);
}

bool kernel_is_brief(const struct kernel *kernel) { return kernel->lanes_m > 0; }

bool kernel_has_consumers(const struct kernel *kernel) { return kernel->consumers > 0; }

bool kernel_keeps_pace(const struct kernel *kernel)
{
    return kernel->operation == OPERATION_GEMM && kernel->tensor_maps && kernel->element != ELEMENT_F64 &&
           kernel->planes < 3 && kernel_k_sharers(kernel) == 1 &&
           kernel->tile_m * kernel->tile_n >= 128 * 128;
}

bool kernel_is_dots(const struct kernel *kernel) { return kernel_is_thin(kernel) && kernel->stages == 1; }

bool kernel_is_narrow(const struct kernel *kernel)
{
    return !kernel_is_direct(kernel) && kernel->splits == 0 && kernel->slices == 0 &&
           (kernel->tile_m <= 16 || kernel->tile_n <= 16);
}

bool kernel_multiplies_by_warp(const struct kernel *kernel)
{
    bool tensor_type =
        kernel->element == ELEMENT_F16 || kernel->element == ELEMENT_BF16 || kernel->element == ELEMENT_S8 ||
        kernel->element == ELEMENT_E4M3 || kernel->element == ELEMENT_E5M2 ||
        (kernel->element == ELEMENT_F32 && (kernel->accuracy == ACCURACY_FAST || kernel->splits > 0));
    return !kernel->tensor_maps && tensor_type && kernel->warp_m > 0 && !kernel_is_dots(kernel);
}

bool kernel_fetches_late(const struct kernel *kernel)
{
    return kernel_multiplies_by_warp(kernel) && kernel->stages == 0;
}

bool kernel_is_long_along_m(const struct kernel *kernel)
{
    return kernel->tile_m == kernel->tile_n ? !kernel->swapped : kernel->tile_m > kernel->tile_n;
}

int kernel_chains(const struct kernel *kernel)
{
    bool shares = kernel->splits > 0 && !kernel_has_consumers(kernel);
    return shares
               ? kernel->threads_x / 32 * kernel->warp_m * kernel->warp_n / (kernel->tile_m * kernel->tile_n)
               : 1;
}

bool kernel_stores_lines(const struct kernel *kernel)
{
    bool one_by_one =
        kernel->tensor_maps || kernel_is_thin(kernel) || kernel->splits > 0 || kernel->slices > 0;
    return !one_by_one &&
           (kernel_multiplies_by_warp(kernel) ? kernel_fetches_late(kernel) : kernel->stages > 1);
}

int kernel_k_step(const struct kernel *kernel)
{
    /* Small thin products have less k than a tile. */
    int thin = kernel->tile_k < THIN_K_STEP ? kernel->tile_k : THIN_K_STEP;
    return kernel_is_direct(kernel) ? 1 : kernel_is_thin(kernel) ? thin : kernel->tile_k;
}

double kernel_unit_rate(const struct kernel *kernel)
{
    bool is_double = kernel->element == ELEMENT_F64;
    if ((kernel_has_consumers(kernel) && !is_double) || kernel_multiplies_by_warp(kernel)) {
        /* Of three parts each the six largest products are summed, of two the three largest. */
        int parts = kernel->planes > 0 ? kernel->planes : kernel->splits;
        double products = parts > 0 ? parts * (parts + 1) / 2.0 : 1;
        carat_type multiplied = kernel->splits > 0 ? CARAT_BF16 : (carat_type)kernel->element;
        double rate = 4096.0 / products / (double)carat_type_size(multiplied);
        return kernel_has_consumers(kernel) ? rate : rate * OF_ONE_WARP;
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
        return kernel_is_direct(kernel) ? 64 : 256;
    default:
        return 128;
    }
}

int kernel_most_resident(const struct kernel *kernel)
{
    return kernel->min_blocks > 0 ? kernel->min_blocks : 1;
}

/* ---- Tiles ---- */

int kernel_cluster_blocks(const struct kernel *kernel) { return kernel->cluster > 1 ? kernel->cluster : 1; }

int kernel_k_sharers(const struct kernel *kernel) { return kernel->k_sharers > 1 ? kernel->k_sharers : 1; }
int kernel_k_storers(const struct kernel *kernel)
{
    int sharers = kernel_k_sharers(kernel);
    int columns = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    int storers = sharers;
    while (storers > 1 && columns % (16 * storers) != 0) {
        --storers;
    }
    return storers;
}

/* Blocks that have the instruction's rows in common stand along its columns, which are D's rows if swapped; the others along its rows. */
static int row_sharers(const struct kernel *kernel)
{
    return kernel->row_sharers > 1 ? kernel->row_sharers : 1;
}
static int column_sharers(const struct kernel *kernel)
{
    return kernel_cluster_blocks(kernel) / row_sharers(kernel) / kernel_k_sharers(kernel);
}
int kernel_cluster_m(const struct kernel *kernel)
{
    return kernel->swapped ? row_sharers(kernel) : column_sharers(kernel);
}
int kernel_cluster_n(const struct kernel *kernel)
{
    return kernel->swapped ? column_sharers(kernel) : row_sharers(kernel);
}

/* What a tile's side may be at most, in such lengths of the product's, each a multiple of 16. */
enum { LENGTH_UNIT = 16, MOST_LENGTHS = 3 };

bool kernel_shares_nothing(const struct kernel *kernel, const struct problem *p)
{
    return kernel_cluster_blocks(kernel) > 1 &&
           (kernel->tile_m >= MOST_LENGTHS * round_up(p->m, LENGTH_UNIT) ||
            kernel->tile_n >= MOST_LENGTHS * round_up(p->n, LENGTH_UNIT));
}

bool kernel_shares_as(const struct kernel *kernel, const struct kernel *other)
{
    return kernel->stream && other->stream && kernel->tile_m == other->tile_m &&
           kernel->tile_n == other->tile_n && kernel->tile_k == other->tile_k &&
           kernel->consumers == other->consumers && kernel_cluster_m(kernel) == kernel_cluster_m(other) &&
           kernel_cluster_n(kernel) == kernel_cluster_n(other) &&
           kernel_most_resident(kernel) == kernel_most_resident(other);
}

bool kernel_count_blocks(const struct kernel *kernel, const struct problem *p, int parts, int64_t *blocks)
{
    int64_t tiles_m = ceiling(p->m, (int64_t)kernel->tile_m * kernel_cluster_m(kernel));
    int64_t tiles_n = ceiling(p->n, (int64_t)kernel->tile_n * kernel_cluster_n(kernel));
    int64_t count = kernel_cluster_blocks(kernel);
    return !__builtin_mul_overflow(count, tiles_m, &count) &&
           !__builtin_mul_overflow(count, tiles_n, &count) &&
           !__builtin_mul_overflow(count, (int64_t)parts, &count) &&
           !__builtin_mul_overflow(count, p->batch, blocks) && *blocks <= MOST_BLOCKS;
}

int64_t kernel_clusters(const struct kernel *kernel, const struct device_traits *traits)
{
    int64_t blocks = (int64_t)traits->multiprocessors * kernel_most_resident(kernel);
    /* A cluster stands in one part of the chip. Of three 39 find a place on an H200, of four 30, and not 44 and 33; of eight 15. */
    if (kernel_cluster_blocks(kernel) > 2) {
        blocks -= ceiling(blocks, kernel_cluster_blocks(kernel) % 2 == 0 ? 11 : 9);
    }
    int64_t clusters = blocks / kernel_cluster_blocks(kernel);
    return clusters > 0 ? clusters : 1;
}

int64_t kernel_flag_bytes(const struct kernel *kernel, const struct device_traits *traits)
{
    int64_t blocks = kernel_clusters(kernel, traits) * kernel_cluster_blocks(kernel);
    return round_up(blocks * kernel->consumers * (int64_t)sizeof(uint64_t), WORKSPACE_UNIT);
}

int64_t kernel_tile_sum_bytes(const struct kernel *kernel)
{
    return (int64_t)kernel->tile_m * kernel->tile_n * 4;
}

/* ---- How a problem lies ---- */

bool problem_lies_aligned(const struct problem *p)
{
    int64_t size = (int64_t)carat_type_size(p->type_a);
    return (p->lda * size | p->ldb * size | p->align_a | p->align_b) % MAP_ALIGNMENT == 0;
}

bool problem_lies_in_place(const struct problem *p)
{
    return p->m % 4 == 0 && p->n % 4 == 0 && p->k % 8 == 0;
}
