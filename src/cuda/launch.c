/* launch.c - puts the steps of a plan on a stream, for matrices that are in device memory. */
#include "device_cuda.h"

#include <inttypes.h>
#include <string.h>

#include "dtype.h"
#include "rows.h"
#include "status.h"

/* Packs of 16 bytes that a thread takes of an operand, as many as there are for the device's blocks; see pack_operand. */
#define PACK_BYTES 16
#define CONVERTING_ROUNDS 4
#define MOST_PACK_ROUNDS 32

/* ---- Scalars ------------------------------------------------------------------------------- */

carat_status scalar_of(struct cuda_device *device, const char *name, carat_type type, const void *pointer,
                       scalar_argument *scalar)
{
    enum place place = PLACE_PAGEABLE;
    *scalar = (scalar_argument){0};
    if (!is_on_own_stack(pointer, type_bytes(type))) {
        CARAT_TRY(pointer_place(device, name, pointer, &place));
    }
    if (place != PLACE_DEVICE) {
        memcpy(&scalar->value, pointer, type_bytes(type));
        return CARAT_OK;
    }
    if ((uintptr_t)pointer % type_bytes(type) != 0) {
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

/* The f32 scale of a matrix: 1 where the caller gave none. */
static carat_status scale_of(struct cuda_device *device, const char *name, const float *pointer,
                             scalar_argument *scale)
{
    *scale = (scalar_argument){.value.f32 = 1};
    return pointer ? scalar_of(device, name, CARAT_F32, pointer, scale) : CARAT_OK;
}

carat_status operands_of(struct cuda_device *device, const struct problem *problem,
                         const struct operands *operands, struct device_operands *placed)
{
    carat_type type = problem_scalar_type(problem);
    *placed = (struct device_operands){
        .a = operands->a, .b = operands->b, .c = operands->c, .d = operands->d, .bias = operands->bias};
    CARAT_TRY(scalar_of(device, "alpha", type, operands->alpha, &placed->alpha));
    CARAT_TRY(scalar_of(device, "beta", type, operands->beta, &placed->beta));
    CARAT_TRY(scale_of(device, problem->swapped ? "run->scale_b" : "run->scale_a", operands->scale_a,
                       &placed->scale_a));
    CARAT_TRY(scale_of(device, problem->swapped ? "run->scale_a" : "run->scale_b", operands->scale_b,
                       &placed->scale_b));
    return scale_of(device, "run->scale_d", operands->scale_d, &placed->scale_d);
}

/* ---- Steps --------------------------------------------------------------------------------- */

static int64_t divide_up(int64_t x, int64_t y) { return x / y + (x % y != 0); }

static epilogue_arguments epilogue_of(const struct problem *problem, const struct device_operands *operands)
{
    return (epilogue_arguments){
        .bias = operands->bias,
        .scale_a = operands->scale_a,
        .scale_b = operands->scale_b,
        .scale_d = operands->scale_d,
        .stride_bias = problem->stride_bias,
        .bias_type = (int32_t)problem->type_bias,
        .bias_along_n = problem->bias_along_n,
        .activation = (int32_t)problem->activation,
        .result_type = (int32_t)problem->type_cd,
    };
}

/* The plan's row for a kind of step that it has. */
static const struct kernel *kernel_of_step(const struct plan *plan, enum step_kind kind)
{
    int i = 0;
    while (plan->steps[i].kind != kind) {
        ++i;
    }
    return plan->steps[i].kernel;
}

/* How many tiles a row's clusters share: the plan's, also behind its product where the tiles are the same ones. */
static int64_t shared_tiles(const struct plan *plan, const struct kernel *kernel)
{
    if (plan->stream_tiles == 0) {
        return 0;
    }
    const struct kernel *product = kernel_of_step(plan, STEP_MULTIPLY);
    return kernel_shares_as(kernel, product) ? plan->stream_tiles : 0;
}

/* Whether an image of a row that lacks a whole one does what a call asks for, and has found room. */
static bool can_launch_image(struct cuda_device *device, const struct kernel *kernel,
                             const struct problem *problem, const gemm_arguments *arguments)
{
    CUfunction function;
    enum kernel_image image = tensor_image(kernel, problem, arguments);
    return image != IMAGE_WHOLE &&
           kernel_load(device, kernel, image, &function) != CARAT_OUT_OF_DEVICE_MEMORY;
}

static carat_status refuse_more(const struct kernel *kernel)
{
    return fail(CARAT_UNSUPPORTED, "kernel %s computes products of %s alone%s", kernel->name,
                kernel->finish == 2 ? "an alpha that the host knows and is not 0, beta 0 and no scale of D"
                                    : "alpha 1, beta 0 and no scales",
                kernel->any_d ? "" : ", to a D at multiples of 16 bytes");
}

/*
 * A product: the plan's, or of a row that goes behind it. Where the plan has a reduce it stores bare sums to partials; else
 * its clusters may hand sums to each other there.
 */
static carat_status multiply_launch(struct cuda_device *device, const struct plan *plan,
                                    const struct kernel *kernel, const struct problem *problem,
                                    const struct device_operands *operands, const verdict_arguments *verdict,
                                    CUdeviceptr partials, CUstream stream)
{
    /* A cluster's tile is several side by side. */
    int64_t tiles_m = divide_up(problem->m, (int64_t)kernel->tile_m * kernel_cluster_m(kernel));
    int64_t tiles_n = divide_up(problem->n, (int64_t)kernel->tile_n * kernel_cluster_n(kernel));
    int64_t blocks;
    if (tiles_m > INT32_MAX || tiles_n > INT32_MAX || __builtin_mul_overflow(tiles_m, tiles_n, &blocks) ||
        __builtin_mul_overflow(blocks, plan->parts, &blocks) ||
        __builtin_mul_overflow(blocks, problem->batch, &blocks)) {
        return fail(CARAT_UNSUPPORTED,
                    "kernel %s would need %" PRId64 " x %" PRId64 " tiles for each of %" PRId64
                    " problems, but a grid has at most %d blocks",
                    kernel->name, tiles_m, tiles_n, problem->batch, INT32_MAX);
    }
    tensor_gemm_arguments arguments; /* of which rows without maps take gemm alone */
    arguments.gemm = (gemm_arguments){
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
        .alpha = operands->alpha,
        .beta = operands->beta,
        .trans_a = problem->trans_a,
        .trans_b = problem->trans_b,
        .tiles_m = (int32_t)tiles_m,
        .tiles_n = (int32_t)tiles_n,
        .parts = plan->parts,
        .tiles = (int32_t)blocks,
        .k_per_part = plan->k_per_part,
        .partials = plan_has(plan, STEP_REDUCE) ? (void *)(uintptr_t)partials : NULL,
        .epilogue = epilogue_of(problem, operands),
        .verdict = *verdict,
    };
    if (kernel_lacks_whole(kernel) && !can_launch_image(device, kernel, problem, &arguments.gemm)) {
        if (plan->stand_in) {
            return multiply_launch(device, plan, plan->stand_in, problem, operands, verdict, partials,
                                   stream);
        }
        if (tensor_image(kernel, problem, &arguments.gemm) == IMAGE_WHOLE) {
            return refuse_more(kernel);
        } /* else it finds no memory, which the launch says */
    }
    if (kernel->tensor_maps) {
        /* The maps that a plan keeps are of its own row's boxes. */
        return tensor_launch(device, kernel, problem, &arguments, blocks, shared_tiles(plan, kernel),
                             partials, kernel == plan->stand_in ? NULL : plan->kept, stream);
    }
    if (kernel_has_consumers(kernel) && blocks <= INT32_MAX) { /* of more the launch complains */
        int64_t at_once = (int64_t)device->base.traits.multiprocessors * kernel_most_resident(kernel);
        blocks = blocks < at_once ? blocks : at_once;
    }
    return kernel_launch(device, kernel, blocks, &arguments.gemm, stream);
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
        .epilogue = epilogue_of(problem, operands),
    };
    /* The partials were allocated, so their number fits. */
    int64_t elements = problem->m * problem->n * problem->batch;
    int64_t of_block = (int64_t)kernel_threads(kernel) * (kernel->vector > 0 ? kernel->vector : 1);
    return kernel_launch(device, kernel, divide_up(elements, of_block), &arguments, stream);
}

/* One operand's way into the workspace; in how many rounds is chosen for both. */
static pack_operand pack_of(const struct kernel *kernel, struct extent from, struct extent to, bool turned,
                            carat_type type, const void *source, CUdeviceptr workspace)
{
    return (pack_operand){
        .from = source,
        .to = (void *)(uintptr_t)workspace,
        .rows = from.rows,
        .columns = from.columns,
        .ld = from.ld,
        .stride = from.stride,
        .columns_to = to.columns,
        .ld_to = to.ld,
        .problems = from.stride == 0 ? 1 : from.batch, /* a matrix that all problems share is copied once */
        .turned = turned,
        .type = (int32_t)type,
        .tiles_m = turned ? (int32_t)divide_up(to.columns, kernel->tile_m) : 0,
        .tiles_n = turned ? (int32_t)divide_up(to.ld, kernel->tile_n) : 0,
    };
}

/* Packs of 16 bytes that are written of it; none of an operand that is not packed. */
static int64_t packs_of(const pack_operand *operand, const struct kernel *kernel)
{
    return operand->columns_to * operand->ld_to * operand->problems * kernel->element_bytes / PACK_BYTES;
}

/*
 * How many blocks turn over its tiles: one each, or where a block may take several, one coming while another is written (see
 * stream_tiles() in kernels/memory/pack.cu), as many as it has a share of one wave beside the other operand.
 */
static int64_t turning_blocks(const struct cuda_device *device, const struct kernel *kernel,
                              const pack_operand *operand, const pack_operand *other)
{
    int64_t tiles = (int64_t)operand->tiles_m * operand->tiles_n * operand->problems;
    bool streams =
        kernel->element_bytes == 1 &&
        ((uintptr_t)operand->from | (uint64_t)operand->ld | (uint64_t)operand->stride) % PACK_BYTES == 0;
    if (tiles == 0 || !streams) {
        return tiles;
    }
    double packs = (double)packs_of(operand, kernel);
    double places = (double)device->base.traits.multiprocessors * kernel_most_resident(kernel);
    int64_t share = (int64_t)(places * packs / (packs + (double)packs_of(other, kernel)));
    return share < 1 ? 1 : share < tiles ? share : tiles;
}

/* How many blocks copy it; `turning`: where it is turned. */
static int64_t pack_blocks(const pack_operand *operand, const struct kernel *kernel, int64_t turning,
                           int64_t rounds)
{
    return operand->turned ? turning : divide_up(packs_of(operand, kernel), kernel->threads_x * rounds);
}

/*
 * In how many rounds blocks copy what is not turned: so many that the launch is one wave of blocks, or, where those that turn
 * are more than that, that these blocks take as long as all of those in their places.
 */
static int64_t pack_rounds(const struct cuda_device *device, const struct kernel *kernel,
                           const pack_operand *a, const pack_operand *b, int64_t turning)
{
    int64_t packs_a = packs_of(a, kernel);
    int64_t packs_b = packs_of(b, kernel);
    int64_t straight = (a->turned ? 0 : packs_a) + (b->turned ? 0 : packs_b);
    if (kernel->converts) {
        return CONVERTING_ROUNDS;
    }
    if (straight == 0) {
        return 1;
    }
    int64_t places = (int64_t)device->base.traits.multiprocessors * kernel_most_resident(kernel);
    int64_t share = (int64_t)((double)places * (double)straight / (double)(packs_a + packs_b));
    int64_t blocks = places - turning > share / 2 ? places - turning : share;
    int64_t rounds = divide_up(straight, kernel->threads_x * (blocks > 0 ? blocks : 1));
    /* Each operand ends in a block of its own, which may be one too many. */
    while (pack_blocks(a, kernel, 0, rounds) + pack_blocks(b, kernel, 0, rounds) > blocks &&
           rounds < MOST_PACK_ROUNDS) {
        ++rounds;
    }
    return rounds < MOST_PACK_ROUNDS ? rounds : MOST_PACK_ROUNDS;
}

/* Copies what the plan packs into the workspace, and has operands point there. */
static carat_status pack_launch(struct cuda_device *device, const struct plan *plan,
                                const struct kernel *kernel, struct device_operands *operands,
                                CUdeviceptr workspace, bool reads_ab, CUstream stream)
{
    const struct problem *from = &plan->problem;
    const struct problem *to = &plan->product;
    pack_operand a = {0};
    pack_operand b = {0};
    if (plan->packs_a) {
        a = pack_of(kernel, problem_extent_a(from), problem_extent_a(to), from->trans_a != to->trans_a,
                    from->type_a, operands->a, workspace);
        operands->a = a.to;
    }
    if (plan->packs_b) {
        b = pack_of(kernel, problem_extent_b(from), problem_extent_b(to), from->trans_b != to->trans_b,
                    from->type_b, operands->b, workspace + plan->packed_b_at);
        operands->b = b.to;
    }
    int64_t turning_a = turning_blocks(device, kernel, &a, &b);
    int64_t turning_b = turning_blocks(device, kernel, &b, &a);
    int64_t rounds = pack_rounds(device, kernel, &a, &b, turning_a + turning_b);
    int64_t blocks_a = pack_blocks(&a, kernel, turning_a, rounds);
    int64_t blocks_b = pack_blocks(&b, kernel, turning_b, rounds);
    a.rounds = (int32_t)rounds;
    b.rounds = (int32_t)rounds;
    /* The plan has counted both: they fit a grid together. Tiles end a launch better than blocks of many rounds. */
    bool b_first = a.turned && !b.turned;
    pack_arguments arguments = {
        .a = b_first ? b : a,
        .b = b_first ? a : b,
        .blocks_a = (int32_t)(b_first ? blocks_b : blocks_a),
        .alpha = operands->alpha,
        .result_type = (int32_t)from->type_cd,
    };
    return reads_ab ? kernel_launch(device, kernel, blocks_a + blocks_b, &arguments, stream) : CARAT_OK;
}

/* Blocks of a split: in proportion to what they write, one an operand at least, as many as the device holds at most. */
static int64_t split_blocks_a(int64_t strips_a, int64_t strips_b, int64_t blocks)
{
    int64_t of_a = (int64_t)((double)blocks * (double)strips_a / ((double)strips_a + (double)strips_b));
    return of_a < 1 ? 1 : of_a > blocks - 1 ? blocks - 1 : of_a;
}

static split_operand split_of(struct extent from, struct extent to, bool along_k, const void *source,
                              CUdeviceptr workspace)
{
    return (split_operand){
        .from = source,
        .to = (void *)(uintptr_t)workspace,
        .rows = from.rows,
        .columns = from.columns,
        .ld = from.ld,
        .stride = from.stride,
        .columns_to = to.columns,
        .ld_to = to.ld,
        .problems = from.stride == 0 ? 1 : from.batch,
        .along_k = along_k,
    };
}

/* How many blocks split the operands, and how many of them A; where A has `words` words of a panel before, B alone. */
static int64_t count_split_blocks(const struct cuda_device *device, const struct plan *plan,
                                  const struct kernel *kernel, int32_t words, split_arguments *arguments)
{
    const int64_t strip = 8; /* elements of a thread: see split_arguments */
    const struct problem *from = &plan->problem;
    if (kernel->planes == 2) {
        int64_t words_a = split_words(problem_extent_a(from), from->k, from->trans_a);
        int64_t words_b = split_words(problem_extent_b(from), from->k, !from->trans_b);
        arguments->slices = (int32_t)split_slices(from->k);
        arguments->blocks_a = (int32_t)words_a;
        return words_a + words_b; /* the plan has counted them */
    }
    int64_t strips_a = arguments->a.columns_to * arguments->a.ld_to / strip * arguments->a.problems;
    int64_t strips_b = arguments->b.columns_to * arguments->b.ld_to / strip * arguments->b.problems;
    int64_t blocks = divide_up(strips_a, kernel->threads_x) + divide_up(strips_b, kernel->threads_x);
    int64_t most = split_blocks(kernel, &device->base.traits);
    if (words > 0) {
        arguments->blocks_a = 0;
        arguments->verdicts += words;
        blocks = divide_up(strips_b, kernel->threads_x);
        return blocks < most - words ? blocks : most - words;
    }
    blocks = blocks < most ? blocks : most;
    arguments->blocks_a = (int32_t)split_blocks_a(strips_a, strips_b, blocks);
    return blocks;
}

/* What steps of a plan that splits tell each other, and where planes of A and B stand. */
struct splitting {
    verdict_arguments verdict;
    const void *a;
    const void *b;
    bool keeps_a; /* of the panel before */
};

/*
 * Writes A and B as planes into the workspace, and says where its verdict will stand. Behind a product of planes it
 * computes what that has left. A's planes may be there from the panel before, with what was said of them.
 */
static carat_status split_launch(struct cuda_device *device, const struct plan *plan, const struct step *step,
                                 const struct device_operands *operands, CUdeviceptr workspace,
                                 struct splitting *splitting, CUstream stream)
{
    bool safe = step->kind == STEP_SPLIT_SAFE;
    const struct kernel *kernel = step->kernel;
    const struct problem *from = &plan->problem;
    const struct problem *to = safe ? &plan->safe_product : &plan->product;
    const struct planes_places *places = safe ? &plan->safe_planes : &plan->planes;
    bool scales = kernel->planes == 2;
    uint32_t *left = (uint32_t *)(uintptr_t)(workspace + plan->left_at);
    split_arguments arguments = {
        .a = split_of(problem_extent_a(from), problem_extent_a(to), from->trans_a, operands->a, workspace),
        .b = split_of(problem_extent_b(from), problem_extent_b(to), !from->trans_b, operands->b,
                      workspace + (CUdeviceptr)places->b),
        .alpha = operands->alpha,
        .verdicts = (uint32_t *)(uintptr_t)(workspace + (CUdeviceptr)places->verdicts),
        .left = safe || scales ? left : NULL,
    };
    int32_t words = splitting->keeps_a ? splitting->verdict.count_a : 0;
    const uint32_t *verdicts = arguments.verdicts;
    int64_t blocks = count_split_blocks(device, plan, kernel, words, &arguments);
    CUdeviceptr count = 0;
    if (scales) {
        CARAT_TRY(count_left_of(device, &count));
    }
    splitting->verdict = (verdict_arguments){
        .words = verdicts,
        .spoiled = (uint32_t *)(uintptr_t)(workspace + (CUdeviceptr)places->spoiled),
        .earlier = safe ? splitting->verdict.spoiled : NULL,
        .left = arguments.left,
        .count_left = (unsigned long long *)(uintptr_t)count,
        .count_a = words > 0 ? words : arguments.blocks_a,
        .count = words + (int32_t)blocks,
        .short_k = !scales && from->k < (safe ? LEAST_K_OF_FAR_APART_BEHIND : LEAST_K_OF_FAR_APART),
        .long_k = from->k >= LEAST_LONG_K,
        .spoiled_rows = kernel_of_step(plan, STEP_MULTIPLY)->tile_m, /* it says which parts it leaves */
        .slices = arguments.slices,
    };
    splitting->a = arguments.a.to;
    splitting->b = arguments.b.to;
    return kernel_launch(device, kernel, blocks, &arguments, stream);
}

/* A product of what stands in the workspace, or, of a rescue, of A and B themselves. */
static carat_status split_multiply_launch(struct cuda_device *device, const struct plan *plan,
                                          const struct step *step, const struct device_operands *operands,
                                          const struct splitting *splitting, CUdeviceptr partials,
                                          CUstream stream)
{
    struct device_operands at = *operands;
    verdict_arguments verdict = splitting->verdict;
    const struct problem *problem = step->kind == STEP_SAFE ? &plan->safe_product : &plan->product;
    if (step->kind == STEP_RESCUE) {
        problem = &plan->problem;
        if (verdict.slices > 0) {
            verdict.count_a = verdict.count = 0; /* words of scaled blocks are not of its kind */
        }
    } else {
        at.a = splitting->a;
        at.b = splitting->b;
    }
    return multiply_launch(device, plan, step->kernel, problem, &at, &verdict, partials, stream);
}

/* All steps of a plan without panels, or of one panel. */
static carat_status steps_launch(struct cuda_device *device, const struct plan *plan,
                                 const struct device_operands *operands, CUdeviceptr workspace,
                                 struct splitting *splitting, CUstream stream)
{
    struct device_operands at = *operands;
    bool reads_ab = !scalar_is_zero(&at.alpha, problem_scalar_type(&plan->problem));
    CUdeviceptr partials = workspace + plan->partials_at;
    for (int i = 0; i < plan->step_count; ++i) {
        const struct step *step = &plan->steps[i];
        if (step->kind == STEP_PACK) {
            CARAT_TRY(pack_launch(device, plan, step->kernel, &at, workspace, reads_ab, stream));
        } else if (step->kind == STEP_SPLIT || step->kind == STEP_SPLIT_SAFE) {
            CARAT_TRY(split_launch(device, plan, step, &at, workspace, splitting, stream));
        } else if (splitting->a &&
                   (step->kind == STEP_MULTIPLY || step->kind == STEP_SAFE || step->kind == STEP_RESCUE)) {
            CARAT_TRY(split_multiply_launch(device, plan, step, &at, splitting, partials, stream));
        } else if (step->kind == STEP_MULTIPLY) {
            CARAT_TRY(multiply_launch(device, plan, step->kernel, &plan->product, &at, &splitting->verdict,
                                      partials, stream));
        } else if (step->kind == STEP_REDUCE) {
            CARAT_TRY(reduce_launch(device, plan, step->kernel, &at, partials, stream));
        } else {
            return fail(CARAT_UNSUPPORTED, "a plan for the CPU cannot run on a CUDA device");
        }
    }
    return CARAT_OK;
}

/* The address of an element; NULL where there is no matrix. */
static void *element_at(const void *matrix, int64_t index, carat_type type)
{
    return matrix ? (char *)(uintptr_t)matrix + index * (int64_t)type_bytes(type) : NULL;
}

/* The operands of the panel of D that begins at that row and column. */
static struct device_operands operands_at(const struct problem *problem, const struct device_operands *whole,
                                          int64_t row, int64_t column)
{
    struct device_operands at = *whole;
    at.a = element_at(whole->a, row * (problem->trans_a ? problem->lda : 1), problem->type_a);
    at.b = element_at(whole->b, column * (problem->trans_b ? 1 : problem->ldb), problem->type_b);
    at.c = element_at(whole->c, row + column * problem->ldc, problem->type_cd);
    at.d = element_at(whole->d, row + column * problem->ldd, problem->type_cd);
    at.bias = element_at(whole->bias, problem->bias_along_n ? column : row, problem->type_bias);
    return at;
}

carat_status plan_launch(struct cuda_device *device, const struct plan *plan,
                         const struct device_operands *operands, CUdeviceptr workspace, CUstream stream)
{
    const struct problem *problem = &plan->problem;
    struct device_operands all = *operands;
    struct splitting splitting = {0};
    if (problem->k == 0) {
        /* A sum of nothing is 0, whatever alpha is: NaN and infinity too. */
        all.alpha = (scalar_argument){0};
    }
    if (!plan_has_panels(plan)) {
        return steps_launch(device, plan, &all, workspace, &splitting, stream);
    }
    for (int64_t row = 0; row < problem->m; row += plan->product.m) {
        for (int64_t column = 0; column < problem->n; column += plan->product.n) {
            struct plan panel;
            plan_panel(plan, row, column, &panel);
            struct device_operands at = operands_at(problem, &all, row, column);
            splitting.keeps_a = column > 0 && keeps_planes_of_a(&plan->product);
            CARAT_TRY(steps_launch(device, &panel, &at, workspace, &splitting, stream));
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
        bool suits = operation == OPERATION_TRANSPOSE ? kernel->element_bytes == (int)type_bytes(type)
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
                              const struct problem *problem)
{
    CARAT_TRY(cuda_kernel_check(&device->base, kernel));
    if (!kernel_multiplies(kernel, &device->base.traits, problem) || !kernel_finishes(kernel, problem)) {
        return fail(
            CARAT_UNSUPPORTED,
            "kernel %s alone does not multiply %s by %s to %s, op %c by op %c, k %" PRId64 ", lda %" PRId64
            ", ldb %" PRId64 ", batch %" PRId64 ", A at a multiple of %d bytes and B of %d (column-major)",
            kernel->name, carat_type_name(problem->type_a), carat_type_name(problem->type_b),
            carat_type_name(problem->type_cd), problem->trans_a ? 'T' : 'N', problem->trans_b ? 'T' : 'N',
            problem->k, problem->lda, problem->ldb, problem->batch, problem->align_a, problem->align_b);
    }
    return CARAT_OK;
}

static carat_status row_run(struct cuda_device *device, const struct kernel *kernel,
                            const struct problem *problem, const struct operands *operands, CUstream stream)
{
    struct problem here = *problem;
    struct device_operands placed;
    problem_note_addresses(&here, problem->swapped ? operands->b : operands->a,
                           problem->swapped ? operands->a : operands->b);
    CARAT_TRY(row_check(device, kernel, &here));
    int64_t tile_k = kernel->tile_k > 0 ? kernel->tile_k : 1;
    struct plan plan = {
        .problem = *problem,
        .product = *problem,
        .steps = {{STEP_MULTIPLY, kernel}},
        .step_count = 1,
        .parts = 1,
        .k_per_part = divide_up(problem->k, tile_k) * tile_k,
    };
    CARAT_TRY(operands_of(device, problem, operands, &placed));
    return plan_launch(device, &plan, &placed, 0, stream);
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
