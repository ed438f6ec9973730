/* launch.c - puts the steps of a plan on a stream, for matrices that are in device memory. */
#include "device_cuda.h"

#include <inttypes.h>
#include <string.h>

#include "status.h"

/* ---- Scalars ------------------------------------------------------------------------------- */

carat_status scalar_of(struct cuda_device *device, const char *name, carat_type type, const void *pointer,
                       scalar_argument *scalar)
{
    enum place place;
    *scalar = (scalar_argument){0};
    CARAT_TRY(pointer_place(device, name, pointer, &place));
    if (place != PLACE_DEVICE) {
        memcpy(&scalar->value, pointer, carat_type_size(type));
        return CARAT_OK;
    }
    if ((uintptr_t)pointer % carat_type_size(type) != 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is %p, which is not aligned for an %s", name, pointer,
                    carat_type_name(type));
    }
    scalar->device = pointer;
    return CARAT_OK;
}

bool scalar_is_zero(const scalar_argument *scalar, carat_type type)
{
    if (scalar->device) {
        return false;
    }
    switch (type) {
    case CARAT_F64:
        return scalar->value.f64 == 0;
    case CARAT_S32:
        return scalar->value.s32 == 0;
    default:
        return scalar->value.f32 == 0;
    }
}

/* ---- Steps --------------------------------------------------------------------------------- */

static int64_t divide_up(int64_t x, int64_t y) { return x / y + (x % y != 0); }

/* Which of a step's two kernels suits where A and B begin; the plan has looked at all else. */
static const struct kernel *kernel_for(const struct step *step, const void *a, const void *b)
{
    return kernel_takes_address(step->kernel, a) && kernel_takes_address(step->kernel, b) ? step->kernel
                                                                                          : step->unaligned;
}

static carat_status multiply_launch(struct cuda_device *device, const struct plan *plan,
                                    const struct kernel *kernel, const struct device_operands *operands,
                                    CUdeviceptr partials, CUstream stream)
{
    const struct problem *problem = &plan->product;
    int64_t tiles_m = divide_up(problem->m, kernel->tile_m);
    int64_t tiles_n = divide_up(problem->n, kernel->tile_n);
    int64_t blocks;
    if (tiles_m > INT32_MAX || tiles_n > INT32_MAX || __builtin_mul_overflow(tiles_m, tiles_n, &blocks) ||
        __builtin_mul_overflow(blocks, plan->parts, &blocks) ||
        __builtin_mul_overflow(blocks, problem->batch, &blocks)) {
        return fail(CARAT_UNSUPPORTED,
                    "kernel %s would need %" PRId64 " x %" PRId64 " tiles for each of %" PRId64
                    " problems, but a grid has at most %d blocks",
                    kernel->name, tiles_m, tiles_n, problem->batch, INT32_MAX);
    }
    gemm_arguments arguments = {
        .m = problem->m,
        .n = problem->n,
        .k = problem->k,
        .a = operands->a,
        .b = operands->b,
        .c = operands->c,
        .d = operands->d,
        .lda = problem->lda,
        .ldb = problem->ldb,
        .ldc = problem->ldc,
        .ldd = problem->ldd,
        .stride_a = problem->stride_a,
        .stride_b = problem->stride_b,
        .stride_c = problem->stride_c,
        .stride_d = problem->stride_d,
        /* A sum of nothing is 0, whatever alpha is: NaN and infinity too. */
        .alpha = problem->k > 0 ? operands->alpha : (scalar_argument){0},
        .beta = operands->beta,
        .trans_a = problem->trans_a,
        .trans_b = problem->trans_b,
        .tiles_m = (int32_t)tiles_m,
        .tiles_n = (int32_t)tiles_n,
        .parts = plan->parts,
        .k_per_part = plan->k_per_part,
        .partials = (void *)(uintptr_t)partials,
    };
    return kernel_launch(device, kernel, blocks, &arguments, stream);
}

static carat_status reduce_launch(struct cuda_device *device, const struct plan *plan,
                                  const struct kernel *kernel, const struct device_operands *operands,
                                  CUdeviceptr partials, CUstream stream)
{
    const struct problem *problem = &plan->problem;
    reduce_arguments arguments = {
        .m = problem->m,
        .n = problem->n,
        .batch = problem->batch,
        .partials = (const void *)(uintptr_t)partials,
        .c = operands->c,
        .d = operands->d,
        .ldc = problem->ldc,
        .ldd = problem->ldd,
        .stride_c = problem->stride_c,
        .stride_d = problem->stride_d,
        .alpha = operands->alpha,
        .beta = operands->beta,
        .parts = plan->parts,
    };
    /* The partials were allocated, so their number fits. */
    int64_t elements = problem->m * problem->n * problem->batch;
    return kernel_launch(device, kernel, divide_up(elements, kernel_threads(kernel)), &arguments, stream);
}

/* One operand's way into the workspace; both extents are of the same batch. */
static pack_operand pack_of(const struct kernel *kernel, struct extent from, struct extent to,
                            const void *source, CUdeviceptr workspace)
{
    return (pack_operand){
        .from = source,
        .to = (void *)(uintptr_t)workspace,
        .rows = from.rows,
        .columns = from.columns,
        .ld = from.ld,
        .stride = from.stride,
        .rows_to = to.rows,
        .columns_to = to.columns,
        .ld_to = to.ld,
        .stride_to = to.stride,
        .tiles_m = (int32_t)divide_up(to.rows, kernel->tile_m),
        .tiles_n = (int32_t)divide_up(to.columns, kernel->tile_n),
    };
}

/* Copies A and B into the workspace, and has operands point there. */
static carat_status pack_launch(struct cuda_device *device, const struct plan *plan,
                                const struct kernel *kernel, struct device_operands *operands,
                                CUdeviceptr workspace, CUstream stream)
{
    struct extent a = problem_extent_a(&plan->product);
    struct extent b = problem_extent_b(&plan->product);
    pack_arguments arguments = {
        .a = pack_of(kernel, problem_extent_a(&plan->problem), a, operands->a, workspace + plan->packed_a_at),
        .b = pack_of(kernel, problem_extent_b(&plan->problem), b, operands->b, workspace + plan->packed_b_at),
        .alpha = operands->alpha,
    };
    /* The plan has counted both: they fit a grid together. A matrix that all problems share is copied once. */
    int64_t blocks_a = (int64_t)arguments.a.tiles_m * arguments.a.tiles_n * (a.stride == 0 ? 1 : a.batch);
    int64_t blocks_b = (int64_t)arguments.b.tiles_m * arguments.b.tiles_n * (b.stride == 0 ? 1 : b.batch);
    arguments.blocks_a = (int32_t)blocks_a;
    operands->a = arguments.a.to;
    operands->b = arguments.b.to;
    return kernel_launch(device, kernel, blocks_a + blocks_b, &arguments, stream);
}

carat_status plan_launch(struct cuda_device *device, const struct plan *plan,
                         const struct device_operands *operands, CUdeviceptr workspace, CUstream stream)
{
    struct device_operands at = *operands;
    bool reads_ab = !scalar_is_zero(&at.alpha, carat_scalar_type(plan->problem.type_cd));
    CUdeviceptr partials = workspace + plan->partials_at;
    for (int i = 0; i < plan->step_count; ++i) {
        const struct step *step = &plan->steps[i];
        if (step->kind == STEP_PACK) {
            if (reads_ab) {
                CARAT_TRY(pack_launch(device, plan, step->kernel, &at, workspace, stream));
            }
        } else if (step->kind == STEP_MULTIPLY) {
            const struct kernel *kernel = kernel_for(step, at.a, at.b);
            CARAT_TRY(multiply_launch(device, plan, kernel, &at, partials, stream));
        } else if (step->kind == STEP_REDUCE) {
            CARAT_TRY(reduce_launch(device, plan, step->kernel, &at, partials, stream));
        } else {
            return fail(CARAT_UNSUPPORTED, "a plan for the CPU cannot run on a CUDA device");
        }
    }
    return CARAT_OK;
}

/* ---- Element by element -------------------------------------------------------------------- */

/* The first row of the catalogue that does the operation on this device. */
static carat_status elementwise_kernel(struct cuda_device *device, int operation, carat_type type,
                                       const struct kernel **chosen)
{
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *kernel = &carat_catalog[i];
        bool suits = operation == OPERATION_TRANSPOSE ? kernel->element_bytes == (int)carat_type_size(type)
                                                      : kernel->element == (int)type;
        if (kernel->operation == operation && suits && kernel_runs_on(kernel, &device->base.traits)) {
            *chosen = kernel;
            return CARAT_OK;
        }
    }
    return fail(CARAT_UNSUPPORTED, "no kernel of this library does this for %s on compute capability %d.%d",
                carat_type_name(type), device->base.traits.compute_capability / 10,
                device->base.traits.compute_capability % 10);
}

carat_status scale_add_launch(struct cuda_device *device, const struct elementwise *work,
                              const scalar_argument *scale, const scalar_argument *shift, CUstream stream)
{
    const struct kernel *kernel;
    CARAT_TRY(elementwise_kernel(device, OPERATION_SCALE_ADD, work->type, &kernel));
    scale_add_arguments arguments = {
        .m = work->m,
        .n = work->n,
        .a = work->a,
        .b = work->b,
        .lda = work->lda,
        .ldb = work->ldb,
        .scale = *scale,
        .shift = *shift,
    };
    /* The blocks stride over the matrix, so fewer than there are tiles will do. */
    int64_t tiles = divide_up(work->m * work->n, kernel->tile_m);
    return kernel_launch(device, kernel, tiles < INT32_MAX ? tiles : INT32_MAX, &arguments, stream);
}

carat_status transpose_launch(struct cuda_device *device, const struct elementwise *work, CUstream stream)
{
    const struct kernel *kernel;
    CARAT_TRY(elementwise_kernel(device, OPERATION_TRANSPOSE, work->type, &kernel));
    int64_t tiles_m = divide_up(work->m, kernel->tile_m);
    int64_t tiles_n = divide_up(work->n, kernel->tile_n);
    if (tiles_m > INT32_MAX || tiles_n > INT32_MAX) {
        return fail(CARAT_UNSUPPORTED,
                    "kernel %s would need %" PRId64 " x %" PRId64 " tiles, but a grid has at most %d blocks",
                    kernel->name, tiles_m, tiles_n, INT32_MAX);
    }
    transpose_arguments arguments = {
        .m = work->m,
        .n = work->n,
        .a = work->a,
        .b = work->b,
        .lda = work->lda,
        .ldb = work->ldb,
        .tiles_m = (int32_t)tiles_m,
        .tiles_n = (int32_t)tiles_n,
    };
    return kernel_launch(device, kernel, tiles_m * tiles_n, &arguments, stream);
}

/* ---- One given row, for the command line and the bench -------------------------------------- */

static carat_status row_check(struct cuda_device *device, const struct kernel *kernel,
                              const struct problem *problem, const void *a, const void *b)
{
    CARAT_TRY(cuda_kernel_check(&device->base, kernel));
    bool suits;
    if (kernel->operation == OPERATION_LADDER) {
        suits = kernel->element == (int)problem->type_a && !problem->trans_a && !problem->trans_b &&
                problem->batch == 1;
    } else {
        suits = kernel_multiplies(kernel, &device->base.traits, problem);
    }
    if (!suits) {
        return fail(CARAT_UNSUPPORTED,
                    "kernel %s does not multiply %s, op %c by op %c, k %" PRId64 ", lda %" PRId64
                    ", ldb %" PRId64 ", batch %" PRId64 " (column-major)",
                    kernel->name, carat_type_name(problem->type_a), problem->trans_a ? 'T' : 'N',
                    problem->trans_b ? 'T' : 'N', problem->k, problem->lda, problem->ldb, problem->batch);
    }
    if (!kernel_takes_address(kernel, a) || !kernel_takes_address(kernel, b)) {
        return fail(CARAT_UNSUPPORTED, "kernel %s wants A and B to begin at multiples of %d bytes: %p, %p",
                    kernel->name, kernel->alignment, a, b);
    }
    return CARAT_OK;
}

static carat_status row_run(struct cuda_device *device, const struct kernel *kernel,
                            const struct problem *problem, const struct operands *operands, CUstream stream)
{
    carat_type scalar_type = carat_scalar_type(problem->type_cd);
    CARAT_TRY(row_check(device, kernel, problem, operands->a, operands->b));
    struct device_operands on_device = {
        .a = operands->a, .b = operands->b, .c = operands->c, .d = operands->d};
    int64_t tile_k = kernel->tile_k > 0 ? kernel->tile_k : 1;
    struct plan plan = {.problem = *problem,
                        .product = *problem,
                        .parts = 1,
                        .k_per_part = divide_up(problem->k, tile_k) * tile_k};
    CARAT_TRY(scalar_of(device, "alpha", scalar_type, operands->alpha, &on_device.alpha));
    CARAT_TRY(scalar_of(device, "beta", scalar_type, operands->beta, &on_device.beta));
    return multiply_launch(device, &plan, kernel, &on_device, 0, stream);
}

carat_status cuda_gemm_with(struct device *base, const struct kernel *kernel, const struct problem *problem,
                            const struct operands *operands, void *stream)
{
    struct cuda_device *device = cuda_device_of(base);
    if (problem_is_empty(problem)) {
        return CARAT_OK;
    }
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = row_run(device, kernel, problem, operands, stream);
    device_leave(device, pushed);
    return status;
}
