/*
 * tensor_map.c - launches the rows whose tiles the copy engine moves: the maps by which it sees the matrices, and
 * how many persistent blocks share the tiles.
 */
#include "device_cuda.h"

#include <inttypes.h>
#include <string.h>

#include "dtype.h"
#include "rows.h"
#include "status.h"

#define ROW_BYTES 128 /* of a box under the 128-byte swizzle */
/* Columns of D in a buffer: 64, or 32 or 16 where the tile has no multiple of that (32 of 16 neither), or PIECE_N; and with the rows along n. */
#define BUFFER_ROWS 64
#define BUFFER_ROWS_SWAPPED 16
#define MAP_ALIGNMENT 16 /* of addresses and strides */
#define MOST_LENGTH ((int64_t)1 << 31)
#define MOST_STRIDE ((int64_t)1 << 40)

/* Whether the engine can address the matrix. */
static bool has_map(const void *address, const struct extent *extent)
{
    int64_t bytes = (int64_t)extent->element_bytes;
    if (extent->ld >= MOST_STRIDE / bytes || extent->stride >= MOST_STRIDE / bytes) {
        return false;
    }
    return (uintptr_t)address % MAP_ALIGNMENT == 0 && extent->ld * bytes % MAP_ALIGNMENT == 0 &&
           extent->stride * bytes % MAP_ALIGNMENT == 0 && extent->rows < MOST_LENGTH &&
           extent->columns < MOST_LENGTH && (extent->stride == 0 || extent->batch < MOST_LENGTH);
}

static carat_status encode(struct cuda_device *device, const struct boxed *matrix, tensor_map *map)
{
    const struct extent *extent = &matrix->extent;
    unsigned long long bytes = extent->element_bytes;
    bool shared = extent->stride == 0;
    CUtensorMapDataType type = bytes == 1   ? CU_TENSOR_MAP_DATA_TYPE_UINT8
                               : bytes == 2 ? CU_TENSOR_MAP_DATA_TYPE_UINT16
                               : bytes == 4 ? CU_TENSOR_MAP_DATA_TYPE_UINT32
                                            : CU_TENSOR_MAP_DATA_TYPE_UINT64;
    if (matrix->rounded) {
        type = CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
    }
    const unsigned long long lengths[3] = {(unsigned long long)extent->rows,
                                           (unsigned long long)extent->columns,
                                           shared ? 1 : (unsigned long long)extent->batch};
    /* Of a single matrix the way to the next is never gone, but has to be a stride. */
    const unsigned long long strides[2] = {(unsigned long long)extent->ld * bytes,
                                           shared ? MAP_ALIGNMENT
                                                  : (unsigned long long)extent->stride * bytes};
    const unsigned box[3] = {(unsigned)matrix->box_rows, (unsigned)matrix->box_columns, 1};
    const unsigned steps[3] = {1, 1, 1};
    return DRIVER(device, cuTensorMapEncodeTiled(map, type, 3, (void *)(uintptr_t)matrix->address, lengths,
                                                 strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                                 matrix->swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

enum kept_state { NOTHING_KEPT, BEING_KEPT, KEPT };

/* Whether two matrices differ in their addresses at most, as maps see them. */
static bool same_but_address(const struct boxed *x, const struct boxed *y)
{
    const struct extent *of_x = &x->extent;
    const struct extent *of_y = &y->extent;
    return of_x->rows == of_y->rows && of_x->columns == of_y->columns && of_x->ld == of_y->ld &&
           of_x->batch == of_y->batch && of_x->stride == of_y->stride &&
           of_x->element_bytes == of_y->element_bytes && x->rounded == y->rounded &&
           x->box_rows == y->box_rows && x->box_columns == y->box_columns && x->swizzle == y->swizzle;
}

/* Keeps a map where none is kept yet. */
static void keep(struct kept_map *kept, const struct boxed *matrix, const tensor_map *map)
{
    int nothing = NOTHING_KEPT;
    if (atomic_compare_exchange_strong(&kept->state, &nothing, BEING_KEPT)) {
        kept->matrix = *matrix;
        memcpy(kept->words, map->words, sizeof(kept->words));
        atomic_store_explicit(&kept->state, KEPT, memory_order_release);
    }
}

/* The map of a matrix: the kept one with its address, where there is one. */
static carat_status make_map(struct cuda_device *device, const struct boxed *matrix, struct kept_map *kept,
                             tensor_map *map)
{
    bool has_kept = kept && atomic_load_explicit(&kept->state, memory_order_acquire) == KEPT;
    if (has_kept && same_but_address(&kept->matrix, matrix)) {
        memcpy(map->words, kept->words, sizeof(map->words));
        return matrix->address == kept->matrix.address
                   ? CARAT_OK
                   : DRIVER(device, cuTensorMapReplaceAddress(map, (void *)(uintptr_t)matrix->address));
    }
    CARAT_TRY(encode(device, matrix, map));
    if (kept && !has_kept) {
        keep(kept, matrix, map);
    }
    return CARAT_OK;
}

/*
 * An operand, of which a tile has `wide` rows and each block of a cluster loads its share: boxes of TILE_K elements of k, 128
 * bytes or 64, by that many rows where it runs along k, else of 128 bytes by TILE_K; of 8-bit types of as many as the tile has,
 * where those are fewer. Each plane is a problem of the map.
 */
static struct boxed operand_of(const struct kernel *kernel, const void *address, struct extent extent,
                               carat_type type, bool along_k, int64_t wide, int64_t sharers)
{
    int64_t across = ROW_BYTES / (int64_t)extent.element_bytes;
    if (extent.element_bytes == 1 && wide < across) {
        across = wide;
    }
    int64_t row = along_k ? kernel->tile_k : across;
    bool narrow = row * (int64_t)extent.element_bytes < ROW_BYTES;
    struct boxed matrix = {
        .address = address,
        .extent = extent,
        .rounded = type == CARAT_F32,
        .box_rows = row,
        .box_columns = along_k ? wide / sharers : kernel->tile_k,
        .swizzle = narrow ? CU_TENSOR_MAP_SWIZZLE_64B : CU_TENSOR_MAP_SWIZZLE_128B,
    };
    if (kernel->planes > 0) {
        matrix.extent.batch = kernel->planes * (extent.stride == 0 ? 1 : extent.batch);
        matrix.extent.stride = extent.ld * extent.columns;
    }
    return matrix;
}

/* D, or the partial sums, one matrix a part and problem. */
static struct boxed destination_of(const struct kernel *kernel, const struct problem *product,
                                   const gemm_arguments *arguments)
{
    struct boxed matrix = {
        .address = arguments->d, .extent = problem_extent_d(product), .swizzle = CU_TENSOR_MAP_SWIZZLE_128B};
    if (arguments->partials) {
        matrix.address = arguments->partials;
        matrix.extent = (struct extent){
            .rows = product->m,
            .columns = product->n,
            .ld = product->m,
            .batch = product->batch * arguments->parts,
            .stride = product->m * product->n,
            .element_bytes = type_bytes(problem_sum_type(product)),
        };
    }
    matrix.box_rows = ROW_BYTES / (int64_t)matrix.extent.element_bytes;
    if (kernel->swapped) {
        matrix.box_columns = BUFFER_ROWS_SWAPPED;
    } else if (kernel->piece_n > 0) {
        matrix.box_columns = kernel->piece_n;
    } else {
        /* A block stores so many of a tile's columns, in whole buffers where they are a multiple of 16. */
        int columns = kernel->tile_n / kernel_k_storers(kernel);
        matrix.box_columns = columns % 16 == 0 ? BUFFER_ROWS : BUFFER_ROWS / 2;
        while (columns % 16 == 0 && columns % matrix.box_columns != 0) {
            matrix.box_columns /= 2;
        }
    }
    return matrix;
}

/* Whether a buffer's rows are full where the matrix goes on: 8-bit results fill 128 bytes in wide tiles alone. */
static bool fills_boxes(const struct kernel *kernel, const struct boxed *matrix)
{
    return matrix->extent.element_bytes > 1 || (kernel->swapped && kernel->tile_m % ROW_BYTES == 0);
}

/* Whether the engine can store to it; it ends at whole pieces of 16 bytes, were it beyond the matrix. */
static bool has_map_of_d(const struct kernel *kernel, const struct boxed *d)
{
    bool whole = d->extent.rows * (int64_t)d->extent.element_bytes % MAP_ALIGNMENT == 0;
    return whole && has_map(d->address, &d->extent) && fills_boxes(kernel, d);
}

/* A map that is not made, as the driver copies it too. */
static void leave_out(tensor_map *map) { memset(map, 0, sizeof(*map)); }

static carat_status make_maps(struct cuda_device *device, const struct kernel *kernel,
                              const struct problem *product, struct plan_maps *kept,
                              tensor_gemm_arguments *arguments)
{
    const gemm_arguments *gemm = &arguments->gemm;
    /* The blocks of a cluster load their shares of what they have in common. */
    struct boxed a = operand_of(kernel, gemm->a, problem_extent_a(product), product->type_a, product->trans_a,
                                kernel->tile_m, kernel_cluster_n(kernel));
    struct boxed b = operand_of(kernel, gemm->b, problem_extent_b(product), product->type_b,
                                !product->trans_b, kernel->tile_n, kernel_cluster_m(kernel));
    struct boxed d = destination_of(kernel, product, gemm);
    arguments->d_by_map = !kernel->any_d && has_map_of_d(kernel, &d);
    if (arguments->d_by_map) {
        CARAT_TRY(make_map(device, &d, kept ? &kept->d : NULL, &arguments->d));
    } else {
        leave_out(&arguments->d);
    }
    /* Where nothing is summed A and B may be missing, and are not looked at. */
    bool reads = product->k > 0 && gemm->a && gemm->b;
    if (!reads) {
        leave_out(&arguments->a);
        leave_out(&arguments->b);
        return CARAT_OK;
    }
    if (!has_map(a.address, &a.extent) || !has_map(b.address, &b.extent)) {
        return fail(CARAT_UNSUPPORTED, "kernel %s wants A and B at multiples of %d bytes, columns too",
                    kernel->name, MAP_ALIGNMENT);
    }
    CARAT_TRY(make_map(device, &a, kept ? &kept->a : NULL, &arguments->a));
    return make_map(device, &b, kept ? &kept->b : NULL, &arguments->b);
}

/*
 * A token by which blocks say that their sums stand in workspace. Whatever the workspace holds from other launches or
 * other programs is none: a launch has its own, and they are scattered over 64 bits (splitmix64). Graphs launch again
 * with the same one, which is why the kernels take it back.
 */
static uint64_t next_token(struct cuda_device *device)
{
    const uint64_t step = 0x9e3779b97f4a7c15u;
    uint64_t token = atomic_fetch_add_explicit(&device->tokens, step, memory_order_relaxed) + step;
    token = (token ^ token >> 30) * 0xbf58476d1ce4e5b9u;
    token = (token ^ token >> 27) * 0x94d049bb133111ebu;
    token ^= token >> 31;
    return token != 0 ? token : step; /* 0 is how flags are taken back */
}

/* ---- Plain products ---- */

/* Whether a scalar is one number, as far as the host knows. */
static bool scalar_is(const scalar_argument *scalar, carat_type type, int32_t number)
{
    return !scalar->device &&
           (type == CARAT_S32 ? scalar->value.s32 == number : scalar->value.f32 == (float)number);
}

/* Whether an image that knows but one part, one D that the engine stores, and no C, does for a call. */
static bool is_of_sums_alone(const struct kernel *kernel, const struct problem *product,
                             const gemm_arguments *gemm)
{
    struct boxed d = destination_of(kernel, product, gemm);
    return scalar_is(&gemm->beta, problem_scalar_type(product), 0) &&
           scalar_is(&gemm->epilogue.scale_d, CARAT_F32, 1) && gemm->parts == 1 && !gemm->partials &&
           (kernel->any_d || has_map_of_d(kernel, &d));
}

bool tensor_is_plain(const struct kernel *kernel, const struct problem *product, const gemm_arguments *gemm)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    return kernel_may_be_plain(kernel, product) && scalar_is(&gemm->alpha, problem_scalar_type(product), 1) &&
           scalar_is(&epilogue->scale_a, CARAT_F32, 1) && scalar_is(&epilogue->scale_b, CARAT_F32, 1) &&
           is_of_sums_alone(kernel, product, gemm);
}

enum kernel_image tensor_image(const struct kernel *kernel, const struct problem *product,
                               const gemm_arguments *gemm)
{
    if (tensor_is_plain(kernel, product, gemm)) {
        return IMAGE_PLAIN;
    }
    /* With an alpha of 0 nothing may be read, which these images do not know. */
    bool reads = !gemm->alpha.device && !scalar_is(&gemm->alpha, problem_scalar_type(product), 0);
    if (gemm->partials) {
        struct boxed sums = destination_of(kernel, product, gemm);
        return kernel->sums_image && reads && has_map_of_d(kernel, &sums) ? IMAGE_SUMS : IMAGE_WHOLE;
    }
    return kernel_may_finish(kernel, product) && reads && is_of_sums_alone(kernel, product, gemm)
               ? IMAGE_FINISHING
               : IMAGE_WHOLE;
}

/* ---- Pace ---- */

/*
 * A and B are large beside the cache that multiprocessors share from so many times its size on. Of less, what memory's traffic
 * takes of the device's power is no more than what clusters lose that wait for each other: see docs/notes/wgmma.md.
 */
#define LARGE_IN_CACHES 16

/*
 * Whether the clusters of whole tiles should stay close to each other: where each has several, and A and B (of one problem) are large, and
 * read, as far as the host knows.
 */
static bool wants_pace(const struct cuda_device *device, const struct kernel *kernel,
                       const struct problem *product, int64_t tiles, int64_t clusters)
{
    double columns = (double)product->m + (double)product->n; /* of k */
    int matrices = kernel->planes > 0 ? kernel->planes : 1;
    double bytes = columns * (double)product->k * matrices * (double)type_bytes(product->type_a);
    return kernel_keeps_pace(kernel) && tiles > clusters && clusters <= PACE_CLUSTERS &&
           bytes > LARGE_IN_CACHES * (double)device->cache_bytes;
}

int64_t cuda_pretend_cache(struct device *base, int64_t bytes)
{
    struct cuda_device *device = cuda_device_of(base);
    int64_t before = device->cache_bytes;
    device->cache_bytes = bytes;
    return before;
}

/*
 * By what kernels divide numbers below 2^31: x / divisor is x times this / 2^63, rounded down (Granlund and Montgomery, "Division by
 * Invariant Integers using Multiplication", PLDI 1994).
 */
static uint64_t over(int32_t divisor)
{
    const uint64_t one = (uint64_t)1 << 63;
    return one / (uint64_t)divisor + (one % (uint64_t)divisor != 0);
}

carat_status tensor_launch(struct cuda_device *device, const struct kernel *kernel,
                           const struct problem *product, tensor_gemm_arguments *arguments, int64_t tiles,
                           int64_t stream_tiles, CUdeviceptr handed, struct plan_maps *maps, CUstream stream)
{
    const struct device_traits *traits = &device->base.traits;
    if (tiles > INT32_MAX) {
        return fail(CARAT_UNSUPPORTED, "kernel %s would need %" PRId64 " tiles, but a launch has at most %d",
                    kernel->name, tiles, INT32_MAX);
    }
    CARAT_TRY(make_maps(device, kernel, product, maps, arguments));
    const gemm_arguments *gemm = &arguments->gemm;
    arguments->over_tiles_m = over(gemm->tiles_m);
    arguments->over_tiles_n = over(gemm->tiles_n);
    arguments->tiles = (int32_t)tiles;
    arguments->tiles_m = gemm->tiles_m;
    arguments->tiles_n = gemm->tiles_n;
    arguments->k = (uint32_t)gemm->k;
    arguments->k_per_part = (uint32_t)gemm->k_per_part;
    arguments->parts = gemm->parts;
    arguments->problems_a = gemm->stride_a != 0;
    arguments->problems_b = gemm->stride_b != 0;
    arguments->unused = 0;
    arguments->stream_tiles = (int32_t)stream_tiles;
    arguments->pace = 0;
    arguments->stream_token = 0;
    arguments->stream_sums = NULL;
    arguments->stream_flags = NULL;
    if (stream_tiles > 0) {
        arguments->stream_token = next_token(device);
        arguments->stream_flags = (uint64_t *)(uintptr_t)handed;
        arguments->stream_sums =
            (float *)(uintptr_t)(handed + (CUdeviceptr)kernel_flag_bytes(kernel, traits));
    }
    /* All clusters share the first tiles. Else none is without one; and rungs, and rows whose blocks share k, have a cluster for each. */
    int64_t clusters = kernel_clusters(kernel, traits);
    if (kernel->operation == OPERATION_LADDER || kernel_k_sharers(kernel) > 1 ||
        (stream_tiles == 0 && tiles < clusters)) {
        clusters = tiles;
    }
    bool reads = !scalar_is(&gemm->alpha, problem_scalar_type(product), 0);
    if (stream_tiles == 0 && reads && wants_pace(device, kernel, product, tiles, clusters)) {
        arguments->pace = (uint32_t)next_token(device);
    }
    int64_t blocks = clusters * kernel_cluster_blocks(kernel);
    /* A cluster that has but one tile is a little quicker in the whole image, why is not known. */
    bool suits = tiles > clusters || kernel_cluster_blocks(kernel) == 1;
    enum kernel_image image = IMAGE_WHOLE;
    if (kernel_lacks_whole(kernel) || (suits && stream_tiles == 0)) {
        image = tensor_image(kernel, product, &arguments->gemm);
    }
    if (image != IMAGE_WHOLE) {
        carat_status status = kernel_launch_image(device, kernel, image, blocks, arguments, stream);
        /* Else the whole image may be there, and does the same. */
        if (status != CARAT_OUT_OF_DEVICE_MEMORY || kernel_lacks_whole(kernel)) {
            return status;
        }
    }
    return kernel_launch(device, kernel, blocks, arguments, stream);
}
