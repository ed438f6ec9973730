/* lane.c - one trial at a time: see lane.h. */
#include "lane.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guarded.h"
#include "shared.h"
#include "status.h"

/* Bytes that are NaN in every floating type, and -1 in the integers. */
#define POISON 0xff
/* The addresses of matrices without a shift are multiples of this. */
#define BASE 256
/* Elements of a pool of random ones. */
#define POOL 65536

double lane_reference_work = 2e6;

/* ---- Memory ---- */

enum region_name { REGION_A, REGION_B, REGION_C, REGION_BIAS, REGION_D, REGIONS };
enum scalar_name { ALPHA, BETA, SCALE_A, SCALE_B, SCALE_D, SCALARS };

/* Where one matrix stands among the lane's bytes. */
struct region {
    size_t at;      /* of the guard bytes before it */
    size_t content; /* of its first element */
    size_t bytes;   /* of its elements and the gaps between them */
    size_t end;     /* past the guard bytes behind it */
};

/* A block that grows. */
struct block {
    unsigned char *bytes;
    size_t size;
};

struct lane {
    carat_context *context;
    struct device *device;
    void *stream;
    struct trial trial; /* the one that was placed */
    struct plan plan;   /* its, where that is not the library's choice */
    bool planned;
    struct region regions[REGIONS];
    struct block places[PLACE_COUNT]; /* what the calls see */
    struct block picture;             /* what it should hold, D as it was before */
    struct block now;                 /* what was fetched */
    struct block first;               /* D of the first of several runs */
    struct block workspace;
    size_t workspace_used;
    unsigned char *scalars_on_device; /* BASE bytes apart */
    uint64_t scalars[SCALARS];
    unsigned char *pools[CARAT_E5M2 + 1];
    char how[sizeof(((struct plan *)0)->explanation)]; /* what the last plan said of itself */
    int64_t special_rows[4]; /* of D, that NaN, infinity or what is huge goes to; -1: none */
    int64_t special_columns[4];
};

static size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

static carat_status block_grow(struct lane *lane, enum place place, struct block *block, size_t size)
{
    if (block->size >= size) {
        return CARAT_OK;
    }
    size = round_up(size + size / 4, (size_t)1 << 16);
    if (place == PLACE_PAGEABLE) {
        free(block->bytes);
        block->bytes = malloc(size);
        block->size = block->bytes ? size : 0;
        return block->bytes ? CARAT_OK : CARAT_OUT_OF_HOST_MEMORY;
    }
    void *made = NULL;
    carat_status status = carat_release(lane->context, block->bytes);
    *block = (struct block){NULL, 0};
    if (status == CARAT_OK) {
        carat_memory kind = place == PLACE_PINNED ? CARAT_MEMORY_PINNED : CARAT_MEMORY_DEVICE;
        status = carat_allocate(lane->context, kind, size, &made);
    }
    if (status == CARAT_OK) {
        *block = (struct block){made, size};
    }
    return status;
}

struct lane *lane_create(carat_context *context)
{
    struct lane *lane = calloc(1, sizeof(*lane));
    void *scalars = NULL;
    if (!lane) {
        return NULL;
    }
    lane->context = context;
    lane->device = carat_context_device(context);
    if (carat_stream_create(context, &lane->stream) != CARAT_OK ||
        carat_allocate(context, CARAT_MEMORY_DEVICE, (size_t)SCALARS * BASE, &scalars) != CARAT_OK) {
        lane_destroy(lane);
        return NULL;
    }
    lane->scalars_on_device = scalars;
    return lane;
}

void lane_destroy(struct lane *lane)
{
    if (!lane) {
        return;
    }
    carat_release(lane->context, lane->places[PLACE_DEVICE].bytes);
    carat_release(lane->context, lane->places[PLACE_PINNED].bytes);
    carat_release(lane->context, lane->workspace.bytes);
    carat_release(lane->context, lane->scalars_on_device);
    carat_stream_destroy(lane->context, lane->stream);
    free(lane->places[PLACE_PAGEABLE].bytes);
    free(lane->picture.bytes);
    free(lane->now.bytes);
    free(lane->first.bytes);
    for (int type = 0; type <= CARAT_E5M2; type++) {
        free(lane->pools[type]);
    }
    free(lane);
}

void *lane_stream(struct lane *lane) { return lane->stream; }

/* A region's content in the picture, and where the calls see it. */
static void *picture_of(const struct lane *lane, enum region_name name)
{
    return lane->picture.bytes + lane->regions[name].content;
}

static void *pointer_to(const struct lane *lane, enum region_name name)
{
    return lane->places[lane->trial.place].bytes + lane->regions[name].content;
}

/* C is D where it has no place of its own. */
static enum region_name region_of_c(const struct trial *trial) { return trial->own_c ? REGION_C : REGION_D; }

/* ---- Placing ---- */

/* Bytes from a matrix's first element to past its last, of all problems. */
static size_t stored_bytes(const carat_gemm_problem *p, int64_t rows, int64_t columns, int64_t ld,
                           int64_t stride, carat_type type)
{
    if (rows == 0 || columns == 0 || p->batch == 0) {
        return 0;
    }
    int64_t last = element_index(p->order, rows - 1, columns - 1, ld) + (p->batch - 1) * stride;
    return (size_t)(last + 1) * carat_type_size(type);
}

static int64_t bias_length(const carat_gemm_problem *p)
{
    return p->bias == CARAT_BIAS_NONE ? 0 : p->bias == CARAT_BIAS_PER_ROW ? p->m : p->n;
}

static void lay_out(struct lane *lane)
{
    const struct trial *trial = &lane->trial;
    const carat_gemm_problem *p = &trial->problem;
    size_t bytes_of_bias =
        bias_length(p) && p->batch
            ? (size_t)(bias_length(p) + (p->batch - 1) * p->stride_bias) * carat_type_size(p->type_bias)
            : 0;
    const size_t bytes[REGIONS] = {
        [REGION_A] = stored_bytes(p, rows_of_a(p), columns_of_a(p), p->lda, p->stride_a, p->type_a),
        [REGION_B] = stored_bytes(p, rows_of_b(p), columns_of_b(p), p->ldb, p->stride_b, p->type_b),
        [REGION_C] = trial->own_c ? stored_bytes(p, p->m, p->n, p->ldc, p->stride_c, p->type_cd) : 0,
        [REGION_BIAS] = bytes_of_bias,
        [REGION_D] = stored_bytes(p, p->m, p->n, p->ldd, p->stride_d, p->type_cd),
    };
    const size_t shifts[REGIONS] = {
        [REGION_A] = (size_t)trial->shift_a * carat_type_size(p->type_a),
        [REGION_B] = (size_t)trial->shift_b * carat_type_size(p->type_b),
        [REGION_C] = (size_t)trial->shift_c * carat_type_size(p->type_cd),
        [REGION_BIAS] = (size_t)trial->shift_bias * carat_type_size(p->type_bias),
        [REGION_D] = (size_t)trial->shift_d * carat_type_size(p->type_cd),
    };
    size_t at = 0;
    for (int i = 0; i < REGIONS; i++) {
        struct region *region = &lane->regions[i];
        region->at = at;
        region->content = at + GUARD_BYTES + shifts[i];
        region->bytes = bytes[i];
        region->end = at = round_up(region->content + bytes[i] + GUARD_BYTES, BASE);
    }
}

/* A pool of random elements of a type, the same in every lane. */
static bool make_pool(struct lane *lane, carat_type type)
{
    if (lane->pools[type]) {
        return true;
    }
    struct random random = {(uint64_t)type};
    lane->pools[type] = malloc(POOL * carat_type_size(type));
    for (int64_t i = 0; i < POOL && lane->pools[type]; i++) {
        element_random(type, lane->pools[type], i, &random);
    }
    return lane->pools[type] != NULL;
}

/* Random elements, so many in a row: taken from a pool, since to make them anew takes longer than all the rest. */
static void fill_row(const struct lane *lane, carat_type type, unsigned char *to, int64_t count,
                     struct random *random)
{
    int64_t size = (int64_t)carat_type_size(type);
    while (count > 0) {
        int64_t part = count < POOL / 2 ? count : POOL / 2;
        int64_t from = random_between(random, 0, POOL - part);
        memcpy(to, lane->pools[type] + from * size, (size_t)(part * size));
        to += part * size;
        count -= part;
    }
}

static void fill(const struct lane *lane, void *matrix, carat_type type, int64_t rows, int64_t columns,
                 int64_t ld, int64_t stride, struct random *random)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    bool column_major = p->order == CARAT_COLUMN_MAJOR;
    int64_t along = column_major ? rows : columns;
    int64_t across = column_major ? columns : rows;
    for (int64_t index = 0; index < (stride == 0 ? 1 : p->batch); index++) {
        for (int64_t j = 0; j < across; j++) {
            int64_t at = (index * stride + j * ld) * (int64_t)carat_type_size(type);
            fill_row(lane, type, (unsigned char *)matrix + at, along, random);
        }
    }
}

/* An element of op(A) in the picture, by its index there. */
static int64_t place_in_a(const struct lane *lane, int64_t problem, int64_t row, int64_t l)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    bool transposed = p->op_a == CARAT_TRANSPOSE;
    return problem * p->stride_a +
           element_index(p->order, transposed ? l : row, transposed ? row : l, p->lda);
}

static int64_t place_in_b(const struct lane *lane, int64_t problem, int64_t l, int64_t column)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    bool transposed = p->op_b == CARAT_TRANSPOSE;
    return problem * p->stride_b +
           element_index(p->order, transposed ? column : l, transposed ? l : column, p->ldb);
}

/* Multiplies all elements of A or B by 2 to the given power, or each by one of its own, from -power to power. */
static void scale_by_power(struct lane *lane, enum region_name name, int power, bool each,
                           struct random *random)
{
    float *elements = picture_of(lane, name);
    int64_t count = (int64_t)(lane->regions[name].bytes / sizeof(float));
    for (int64_t i = 0; i < count; i++) { /* poison stays NaN */
        elements[i] = ldexpf(elements[i], each ? (int)random_between(random, -power, power) : power);
    }
}

static void put_few_tiny(struct lane *lane, struct random *random)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    for (int i = 0; i < 3 && p->m > 0 && p->n > 0 && p->k > 0 && p->batch > 0; i++) {
        int64_t problem = random_between(random, 0, p->batch - 1);
        int64_t l = random_between(random, 0, p->k - 1);
        float tiny = ldexpf(random_one_in(random, 2) ? 1 : -1.75f, (int)random_between(random, -149, -101));
        if (random_one_in(random, 2)) {
            int64_t row = random_between(random, 0, p->m - 1);
            ((float *)picture_of(lane, REGION_A))[place_in_a(lane, problem, row, l)] = tiny;
        } else {
            int64_t column = random_between(random, 0, p->n - 1);
            ((float *)picture_of(lane, REGION_B))[place_in_b(lane, problem, l, column)] = tiny;
        }
    }
}

/* Two huge elements, often in one row of A or one column of B, where they then overflow together in one element of D. */
static void put_huge(struct lane *lane, struct random *random)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    float *a = picture_of(lane, REGION_A);
    float *b = picture_of(lane, REGION_B);
    bool of_a = random_one_in(random, 2);
    bool together = random_one_in(random, 2);
    int64_t problem = random_between(random, 0, p->batch - 1);
    int64_t row = random_between(random, 0, p->m - 1);
    int64_t column = random_between(random, 0, p->n - 1);
    for (int i = 0; i < 2; i++) {
        int64_t l = i == 0 ? random_between(random, 0, p->k - 1) : p->k - 1;
        if (i == 1 && !together) {
            row = random_between(random, 0, p->m - 1);
            column = random_between(random, 0, p->n - 1);
        }
        float huge = i == 0 ? 0x1.8p127f : 0x1.fffffep127f;
        a[place_in_a(lane, problem, row, l)] = of_a ? huge : 1;
        b[place_in_b(lane, problem, l, column)] = of_a ? 1 : huge;
        lane->special_rows[i] = row;
        lane->special_columns[i] = column;
    }
}

static void put_range(struct lane *lane, struct random *random)
{
    switch (trial_range(&lane->trial)) {
    case RANGE_SMALL:
        scale_by_power(lane, REGION_A, -70, false, random);
        break;
    case RANGE_TINY:
        scale_by_power(lane, REGION_A, -105, false, random);
        break;
    case RANGE_FEW_TINY:
        put_few_tiny(lane, random);
        break;
    case RANGE_WIDE: {
        int power = (int)random_between(random, 20, 55);
        scale_by_power(lane, REGION_A, power, true, random);
        scale_by_power(lane, REGION_B, power, true, random);
        break;
    }
    case RANGE_HUGE:
        put_huge(lane, random);
        break;
    default:
        break;
    }
}

/* NaN or infinity in a few elements of A and B; keeps in mind which rows and columns of D have to do with them. */
static void put_special(struct lane *lane, struct random *random)
{
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    const struct trial *trial = &lane->trial;
    const carat_gemm_problem *p = &trial->problem;
    bool integers = p->type_a == CARAT_S8 || p->type_a == CARAT_S32;
    if (!trial->special || integers || p->m == 0 || p->n == 0 || p->k == 0 || p->batch == 0) {
        return;
    }
    for (int64_t i = random_between(random, 0, 3); i < 4; i++) {
        int64_t index = random_one_in(random, 2) ? 0 : random_between(random, 0, p->batch - 1);
        int64_t l = random_one_in(random, 2) ? p->k - 1 : random_between(random, 0, p->k - 1);
        long double value = values[random_between(random, 0, 2)];
        if (random_one_in(random, 2)) {
            int64_t row = random_between(random, 0, p->m - 1);
            element_set(p->type_a, picture_of(lane, REGION_A), place_in_a(lane, index, row, l), value);
            lane->special_rows[i] = row;
        } else {
            int64_t column = random_between(random, 0, p->n - 1);
            element_set(p->type_b, picture_of(lane, REGION_B), place_in_b(lane, index, l, column), value);
            lane->special_columns[i] = column;
        }
    }
}

static void set_scalars(struct lane *lane)
{
    const struct trial *trial = &lane->trial;
    carat_type scalar = carat_scalar_type(trial->problem.type_cd);
    memset(lane->scalars, 0, sizeof(lane->scalars));
    element_set(scalar, &lane->scalars[ALPHA], 0, trial->alpha);
    element_set(scalar, &lane->scalars[BETA], 0, trial->beta);
    element_set(CARAT_F32, &lane->scalars[SCALE_A], 0, trial->scale_a);
    element_set(CARAT_F32, &lane->scalars[SCALE_B], 0, trial->scale_b);
    element_set(CARAT_F32, &lane->scalars[SCALE_D], 0, trial->scale_d);
}

static bool lies_on_device(const struct trial *trial, int scalar)
{
    if (scalar < SCALE_A) {
        return trial->scalars_on_device;
    }
    return trial->scales == SCALES_DEVICE || (trial->scales == SCALES_INPUTS_DEVICE && scalar != SCALE_D);
}

static carat_status upload_scalars(struct lane *lane)
{
    const struct trial *trial = &lane->trial;
    for (int i = 0; i < SCALARS; i++) {
        bool on_device = lies_on_device(trial, i);
        if (on_device) {
            carat_status status = carat_copy(lane->context, lane->scalars_on_device + (size_t)i * BASE,
                                             &lane->scalars[i], sizeof(lane->scalars[i]), lane->stream);
            if (status != CARAT_OK) {
                return status;
            }
        }
    }
    return CARAT_OK;
}

carat_status lane_place(struct lane *lane, const struct trial *trial)
{
    lane->trial = *trial;
    lane->planned = false;
    const carat_gemm_problem *p = &trial->problem;
    struct block *place = &lane->places[trial->place];
    lay_out(lane);
    size_t bytes = lane->regions[REGIONS - 1].end;
    carat_status status = block_grow(lane, PLACE_PAGEABLE, &lane->picture, bytes);
    status = status == CARAT_OK ? block_grow(lane, PLACE_PAGEABLE, &lane->now, bytes) : status;
    status = status == CARAT_OK ? block_grow(lane, trial->place, place, bytes) : status;
    if (status != CARAT_OK) {
        return status;
    }
    if (!make_pool(lane, p->type_a) || !make_pool(lane, p->type_b) || !make_pool(lane, p->type_cd)) {
        return CARAT_OUT_OF_HOST_MEMORY;
    }
    struct random random = {trial->seed};
    memset(lane->picture.bytes, POISON, bytes);
    if (trial->alpha != 0) { /* else nothing reads them */
        fill(lane, picture_of(lane, REGION_A), p->type_a, rows_of_a(p), columns_of_a(p), p->lda, p->stride_a,
             &random);
        fill(lane, picture_of(lane, REGION_B), p->type_b, rows_of_b(p), columns_of_b(p), p->ldb, p->stride_b,
             &random);
    }
    for (int i = 0; i < 4; i++) {
        lane->special_rows[i] = lane->special_columns[i] = -1;
    }
    put_range(lane, &random);
    put_special(lane, &random);
    if (trial->beta != 0) {
        fill(lane, picture_of(lane, region_of_c(trial)), p->type_cd, p->m, p->n, p->ldc, p->stride_c,
             &random);
    }
    for (int64_t index = 0; index < (p->stride_bias == 0 ? 1 : p->batch); index++) {
        for (int64_t i = 0; i < bias_length(p); i++) {
            element_random(p->type_bias, picture_of(lane, REGION_BIAS), index * p->stride_bias + i, &random);
        }
    }
    set_scalars(lane);
    status = upload_scalars(lane);
    return status == CARAT_OK
               ? carat_copy(lane->context, place->bytes, lane->picture.bytes, bytes, lane->stream)
               : status;
}

carat_status lane_restore(struct lane *lane)
{
    const struct region *d = &lane->regions[REGION_D];
    return carat_copy(lane->context, lane->places[lane->trial.place].bytes + d->at,
                      lane->picture.bytes + d->at, d->end - d->at, lane->stream);
}

carat_status lane_poison(struct lane *lane)
{
    const struct region *d = &lane->regions[REGION_D];
    return cuda_memset(lane->device, lane->places[PLACE_DEVICE].bytes + d->at, POISON, d->end - d->at,
                       lane->stream);
}

/* ---- Running ---- */

/* Workspace of that size, all poison, with guard bytes behind it. */
static carat_status poison_workspace(struct lane *lane, size_t bytes, void *stream, carat_run *run)
{
    lane->workspace_used = bytes;
    carat_status status = block_grow(lane, PLACE_DEVICE, &lane->workspace, bytes + GUARD_BYTES);
    if (status == CARAT_OK) {
        status = cuda_memset(lane->device, lane->workspace.bytes, POISON, bytes + GUARD_BYTES, stream);
    }
    run->workspace = lane->workspace.bytes;
    run->workspace_bytes = bytes;
    return status;
}

/* The operands of the trial in canonical order. */
static carat_status operands_of(const struct lane *lane, const void *alpha, const void *beta, const void *c,
                                const carat_run *run, struct problem *problem, struct operands *operands)
{
    carat_status status = problem_check(&lane->trial.problem, problem);
    problem->most_workspace = lane->trial.most_workspace;
    return status == CARAT_OK
               ? problem_operands(problem, alpha, pointer_to(lane, REGION_A), pointer_to(lane, REGION_B),
                                  beta, c, pointer_to(lane, REGION_D), run, operands)
               : status;
}

/* Of the ways to compute a problem number `wanted`; of those alone that sum A and B where they lie in several parts, or of all. */
struct pick {
    bool in_parts;
    int64_t wanted;
    int64_t count;
    struct candidate picked;
};

static void visit(void *context, const struct candidate *candidate)
{
    struct pick *pick = context;
    bool counts = !pick->in_parts || (candidate->parts > 1 && !candidate->pack);
    if (counts && pick->count++ == pick->wanted) {
        pick->picked = *candidate;
    }
}

static carat_status choose_any(const struct lane *lane, const struct problem *problem, struct plan *plan)
{
    const struct device_traits *traits = &lane->device->traits;
    struct pick pick = {.in_parts = lane->trial.way == WAY_PARTS, .wanted = -1};
    plan_visit_row(traits, problem, lane->trial.row, visit, &pick);
    if (pick.count == 0) {
        return fail(CARAT_UNSUPPORTED, "there is no such way");
    }
    pick.wanted = (int64_t)(lane->trial.seed % (uint64_t)pick.count);
    pick.count = 0;
    plan_visit_row(traits, problem, lane->trial.row, visit, &pick);
    return plan_of_candidate(traits, problem, &pick.picked, plan);
}

typedef bool find_way(const struct device_traits *traits, const struct problem *problem,
                      const struct kernel *row, struct candidate *way);

static carat_status choose_of_row(const struct lane *lane, const struct problem *problem, find_way *find,
                                  struct plan *plan)
{
    const struct device_traits *traits = &lane->device->traits;
    struct candidate way;
    return find(traits, problem, lane->trial.row, &way) ? plan_of_candidate(traits, problem, &way, plan)
                                                        : fail(CARAT_UNSUPPORTED, "there is no such way");
}

/* Makes the plan of the trial that was placed, where it is not the library's choice. */
static carat_status choose(struct lane *lane, const struct problem *problem)
{
    switch (lane->trial.way) {
    case WAY_PACKED:
        return plan_choose_packed(&lane->device->traits, problem, &lane->plan);
    case WAY_SHARED:
        return choose_of_row(lane, problem, shared_way, &lane->plan);
    case WAY_WHOLE:
        return choose_of_row(lane, problem, whole_way, &lane->plan);
    default:
        return choose_any(lane, problem, &lane->plan);
    }
}

/* Runs a plan that is not the library's choice. */
static carat_status run_forced(struct lane *lane, struct problem *problem, const struct operands *operands,
                               carat_run *run)
{
    carat_status status = CARAT_OK;
    if (problem_is_empty(problem)) {
        return CARAT_OK;
    }
    if (!lane->planned) {
        problem_note_addresses(problem, pointer_to(lane, REGION_A), pointer_to(lane, REGION_B));
        status = choose(lane, problem);
        lane->planned = status == CARAT_OK;
    }
    if (status != CARAT_OK) {
        return status;
    }
    snprintf(lane->how, sizeof(lane->how), "%s", lane->plan.explanation);
    if (lane->trial.own_workspace && lane->trial.place == PLACE_DEVICE) {
        status = poison_workspace(lane, lane->plan.workspace_bytes, run->stream, run);
    }
    return status == CARAT_OK ? lane->device->functions->gemm(lane->device, &lane->plan, operands, run)
                              : status;
}

static carat_status run_planned(struct lane *lane, const void *alpha, const void *beta, const void *c,
                                carat_run *run)
{
    carat_plan *plan;
    carat_status status = carat_plan_create(lane->context, &lane->trial.problem, &plan);
    if (status == CARAT_OK) {
        snprintf(lane->how, sizeof(lane->how), "%s", carat_plan_explain(plan));
        status = poison_workspace(lane, carat_plan_workspace(plan), run->stream, run);
    }
    if (status == CARAT_OK) {
        status = carat_plan_run(plan, alpha, pointer_to(lane, REGION_A), pointer_to(lane, REGION_B), beta, c,
                                pointer_to(lane, REGION_D), run);
    }
    carat_plan_destroy(plan);
    return status;
}

carat_status lane_run(struct lane *lane, void *stream)
{
    const struct trial *trial = &lane->trial;
    const void *scalars[SCALARS];
    for (int i = 0; i < SCALARS; i++) {
        bool on_device = lies_on_device(trial, i);
        scalars[i] = on_device ? (const void *)(lane->scalars_on_device + (size_t)i * BASE)
                               : (const void *)&lane->scalars[i];
    }
    bool scaled = trial->scales != SCALES_NONE;
    carat_run run = {
        .stream = stream,
        .bias = trial->problem.bias != CARAT_BIAS_NONE ? pointer_to(lane, REGION_BIAS) : NULL,
        .scale_a = scaled ? scalars[SCALE_A] : NULL,
        .scale_b = scaled ? scalars[SCALE_B] : NULL,
        .scale_d = scaled ? scalars[SCALE_D] : NULL,
    };
    /* A C that is not read: NaN all over, or no C at all. */
    bool no_c = trial->beta == 0 && !trial->scalars_on_device && trial->seed % 2 == 0;
    const void *c = no_c ? NULL : pointer_to(lane, region_of_c(trial));
    lane->workspace_used = 0;
    lane->how[0] = 0;
    if (trial->way == WAY_LIBRARY) {
        return trial->own_workspace && trial->place == PLACE_DEVICE
                   ? run_planned(lane, scalars[ALPHA], scalars[BETA], c, &run)
                   : carat_gemm(lane->context, &trial->problem, scalars[ALPHA], pointer_to(lane, REGION_A),
                                pointer_to(lane, REGION_B), scalars[BETA], c, pointer_to(lane, REGION_D),
                                &run);
    }
    struct problem problem;
    struct operands operands;
    carat_status status = operands_of(lane, scalars[ALPHA], scalars[BETA], c, &run, &problem, &operands);
    if (status != CARAT_OK) {
        return status;
    }
    return trial->way == WAY_ROW ? cuda_gemm_with(lane->device, trial->row, &problem, &operands, stream)
                                 : run_forced(lane, &problem, &operands, &run);
}

/* ---- Comparing ---- */

/* Positions along one dimension of D: all of them, or its ends, edges of tiles, and one of each strip between. */
struct positions {
    int64_t at[400];
    int64_t count; /* where all: the length */
    bool all;
};

enum { MOST_POSITIONS = sizeof(((struct positions *)0)->at) / sizeof(int64_t) };

static int64_t position(const struct positions *positions, int64_t i)
{
    return positions->all ? i : positions->at[i];
}

static void add_position(struct positions *positions, int64_t at, int64_t length)
{
    if (at >= 0 && at < length && positions->count < MOST_POSITIONS) {
        positions->at[positions->count++] = at;
    }
}

static void choose_positions(int64_t length, int64_t wanted, const int64_t *special, struct random *random,
                             struct positions *positions)
{
    positions->count = 0;
    positions->all = length <= wanted;
    if (positions->all) {
        positions->count = length;
        return;
    }
    for (int i = 0; i < 4; i++) {
        add_position(positions, special[i], length);
    }
    add_position(positions, 0, length);
    add_position(positions, length - 1, length);
    int64_t strips = wanted > 16 ? wanted / 2 : wanted - 4;
    int64_t edges = (wanted - strips) / 2;
    for (int64_t i = 0; i < edges && length > 64; i++) { /* the sides of tiles are multiples of 64, mostly */
        int64_t edge = 64 * random_between(random, 1, length / 64);
        add_position(positions, edge - 1, length);
        add_position(positions, edge, length);
    }
    for (int64_t i = 0; i < strips; i++) {
        int64_t begin = length * i / strips;
        int64_t end = length * (i + 1) / strips;
        add_position(positions, random_between(random, begin, end - 1), length);
    }
}

/*
 * Sums of parts err less than the roundings of a chain of k, which reference_gemm() grants: by (22.5 + k/32) 2^-24 of
 * |A||B|, of f16 ones 10 more, where the parts could stand for A and B. (What is left to f32 sums has their bound.)
 */
static void tighten(const struct lane *lane, struct expected *expected)
{
    const struct trial *trial = &lane->trial;
    enum range range = trial_range(trial);
    bool two = strstr(lane->how, " f16 planes") != NULL;
    bool held = range == RANGE_ONE ||
                (!two && (range == RANGE_SMALL || (range == RANGE_WIDE && trial->problem.k >= 1024)));
    bool exact_after = trial->problem.activation == CARAT_ACTIVATION_NONE;
    if (strstr(lane->how, " split into ") && held && exact_after && !trial->special && trial->alpha != 0) {
        long double terms = (long double)trial->problem.k + 4;
        long double lost = terms * 0x1p-149L * (fabsl((long double)trial->alpha) + 1);
        long double parts = (two ? 32.5L : 22.5L) + (long double)trial->problem.k / 32 + 4;
        expected->bound = (expected->bound - lost) * parts / terms + lost;
    }
}

/* Compares elements of D of one problem of the batch. */
static bool compare_problem(const struct lane *lane, int64_t index, const struct positions *rows,
                            const struct positions *columns, char *why, size_t why_size)
{
    const struct trial *trial = &lane->trial;
    const carat_gemm_problem *p = &trial->problem;
    const void *d = lane->now.bytes + lane->regions[REGION_D].content;
    bool scaled = trial->scales != SCALES_NONE;
    const carat_run extras = {
        .bias = picture_of(lane, REGION_BIAS),
        .scale_a = scaled ? (const float *)&lane->scalars[SCALE_A] : NULL,
        .scale_b = scaled ? (const float *)&lane->scalars[SCALE_B] : NULL,
        .scale_d = scaled ? (const float *)&lane->scalars[SCALE_D] : NULL,
    };
    for (int64_t j = 0; j < columns->count; j++) {
        for (int64_t i = 0; i < rows->count; i++) {
            int64_t row = position(rows, i);
            int64_t column = position(columns, j);
            struct expected expected = reference_gemm(
                p, &lane->scalars[ALPHA], picture_of(lane, REGION_A), picture_of(lane, REGION_B),
                &lane->scalars[BETA], picture_of(lane, region_of_c(trial)), &extras, index, row, column);
            tighten(lane, &expected);
            int64_t at = index * p->stride_d + element_index(p->order, row, column, p->ldd);
            if (!expected_holds(&expected, p->type_cd, d, at)) {
                snprintf(why, why_size,
                         "D(%" PRId64 ", %" PRId64 ") of problem %" PRId64
                         " is %.17Lg, not %.17Lg within %.3Lg",
                         row, column, index, element_get(p->type_cd, d, at), expected.value, expected.bound);
                return false;
            }
        }
    }
    return true;
}

/* Takes the elements of D out of what was fetched, so that what is left must be as it was. */
static void put_back(struct lane *lane)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    bool column_major = p->order == CARAT_COLUMN_MAJOR;
    size_t size = carat_type_size(p->type_cd);
    size_t along = (size_t)(column_major ? p->m : p->n) * size;
    int64_t across = column_major ? p->n : p->m;
    for (int64_t index = 0; index < p->batch && along > 0; index++) {
        for (int64_t j = 0; j < across; j++) {
            size_t at = lane->regions[REGION_D].content + (size_t)(index * p->stride_d + j * p->ldd) * size;
            memcpy(lane->now.bytes + at, lane->picture.bytes + at, along);
        }
    }
}

/* Fetches D, and, where that is little, all the rest. Returns from where on. */
static carat_status fetch(struct lane *lane, size_t *from)
{
    size_t end = lane->regions[REGION_D].end;
    *from = end < (size_t)4 << 20 ? 0 : lane->regions[REGION_D].at;
    carat_status status =
        carat_copy(lane->context, lane->now.bytes + *from, lane->places[lane->trial.place].bytes + *from,
                   end - *from, lane->stream);
    return status == CARAT_OK ? carat_synchronize(lane->context, lane->stream) : status;
}

static bool workspace_guarded(struct lane *lane)
{
    unsigned char behind[GUARD_BYTES];
    if (lane->workspace_used == 0) {
        return true;
    }
    if (carat_copy(lane->context, behind, lane->workspace.bytes + lane->workspace_used, GUARD_BYTES,
                   lane->stream) != CARAT_OK ||
        carat_synchronize(lane->context, lane->stream) != CARAT_OK) {
        return false;
    }
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (behind[i] != POISON) {
            return false;
        }
    }
    return true;
}

/* Whether what was fetched is what was placed. */
static bool as_placed(const struct lane *lane, size_t from, char *why, size_t why_size)
{
    static const char *const names[REGIONS] = {"A", "B", "C", "the bias", "D"};
    size_t end = lane->regions[REGION_D].end;
    if (memcmp(lane->now.bytes + from, lane->picture.bytes + from, end - from) == 0) {
        return true;
    }
    size_t at = from;
    while (lane->now.bytes[at] == lane->picture.bytes[at]) {
        at++;
    }
    int region = 0;
    while (at >= lane->regions[region].end) {
        region++;
    }
    snprintf(why, why_size, "a byte was written that is no element of D's, %" PRId64 " from the begin of %s",
             (int64_t)at - (int64_t)lane->regions[region].content, names[region]);
    return false;
}

const char *lane_how(const struct lane *lane) { return lane->how; }

struct lane_pointers lane_pointers(const struct lane *lane)
{
    return (struct lane_pointers){pointer_to(lane, REGION_A), pointer_to(lane, REGION_B),
                                  pointer_to(lane, REGION_D)};
}

bool lane_untouched(struct lane *lane, char *why, size_t why_size)
{
    size_t from;
    return fetch(lane, &from) == CARAT_OK && as_placed(lane, from, why, why_size);
}

/* Compares what was fetched. */
static bool compare_fetched(struct lane *lane, size_t from, char *why, size_t why_size)
{
    const carat_gemm_problem *p = &lane->trial.problem;
    struct random random = {lane->trial.seed + 1};
    int64_t problems = p->batch < 4 ? p->batch : 4;
    double budget = lane_reference_work / (double)(problems ? problems : 1) / (double)(p->k + 8);
    int64_t side = budget > 64 ? (int64_t)sqrt(budget) : 8;
    side = side < MOST_POSITIONS / 2 ? side : MOST_POSITIONS / 2;
    struct positions rows;
    struct positions columns;
    /* What the shorter side of D leaves over of the budget goes to the longer one. */
    int64_t wanted_rows = p->n < side && p->n > 0 ? (int64_t)(budget / (double)p->n) : side;
    int64_t wanted_columns = p->m < side && p->m > 0 ? (int64_t)(budget / (double)p->m) : side;
    wanted_rows = wanted_rows < 8 ? 8 : wanted_rows;
    wanted_columns = wanted_columns < 8 ? 8 : wanted_columns;
    if (p->m > wanted_rows && wanted_rows > MOST_POSITIONS / 2) {
        wanted_rows = MOST_POSITIONS / 2;
    }
    if (p->n > wanted_columns && wanted_columns > MOST_POSITIONS / 2) {
        wanted_columns = MOST_POSITIONS / 2;
    }
    for (int64_t i = 0; i < problems; i++) {
        int64_t index = p->batch <= 4 ? i
                        : i == 0      ? 0
                        : i == 1      ? p->batch - 1
                                      : random_between(&random, 1, p->batch - 2);
        choose_positions(p->m, wanted_rows, lane->special_rows, &random, &rows);
        choose_positions(p->n, wanted_columns, lane->special_columns, &random, &columns);
        if (!compare_problem(lane, index, &rows, &columns, why, why_size)) {
            return false;
        }
    }
    put_back(lane);
    if (!as_placed(lane, from, why, why_size)) {
        return false;
    }
    if (!workspace_guarded(lane)) {
        snprintf(why, why_size, "bytes behind the workspace of %zu bytes were written", lane->workspace_used);
        return false;
    }
    return true;
}

bool lane_compare(struct lane *lane, char *why, size_t why_size)
{
    size_t from;
    if (fetch(lane, &from) != CARAT_OK) {
        snprintf(why, why_size, "D could not be fetched: %s", carat_last_message());
        return false;
    }
    return compare_fetched(lane, from, why, why_size);
}

/* Keeps D, which was fetched. */
static bool keep_fetched(struct lane *lane, char *why, size_t why_size)
{
    const struct region *d = &lane->regions[REGION_D];
    if (block_grow(lane, PLACE_PAGEABLE, &lane->first, d->end - d->at) != CARAT_OK) {
        snprintf(why, why_size, "no memory to compare runs");
        return false;
    }
    memcpy(lane->first.bytes, lane->now.bytes + d->at, d->end - d->at);
    return true;
}

bool lane_keep(struct lane *lane, char *why, size_t why_size)
{
    size_t from;
    if (fetch(lane, &from) != CARAT_OK) {
        snprintf(why, why_size, "D could not be fetched: %s", carat_last_message());
        return false;
    }
    return keep_fetched(lane, why, why_size);
}

bool lane_same(struct lane *lane, char *why, size_t why_size)
{
    const struct region *d = &lane->regions[REGION_D];
    size_t from;
    if (fetch(lane, &from) != CARAT_OK) {
        snprintf(why, why_size, "%s", carat_last_message());
        return false;
    }
    if (memcmp(lane->first.bytes, lane->now.bytes + d->at, d->end - d->at) != 0) {
        snprintf(why, why_size, "gave other bits than the first");
        return false;
    }
    return true;
}

/* Runs the placed trial again and again; D's bits, as first fetched, must come each time. */
static bool same_bits(struct lane *lane, int runs, char *why, size_t why_size)
{
    char reason[1000];
    if (!keep_fetched(lane, why, why_size)) {
        return false;
    }
    for (int run = 1; run < runs; run++) {
        bool ran = lane_restore(lane) == CARAT_OK && lane_run(lane, lane->stream) == CARAT_OK;
        if (!ran) {
            snprintf(reason, sizeof(reason), "%s", carat_last_message());
        }
        if (!ran || !lane_same(lane, reason, sizeof(reason))) {
            snprintf(why, why_size, "run %d: %s", run + 1, reason);
            return false;
        }
    }
    return true;
}

enum outcome lane_try(struct lane *lane, const struct trial *trial, int runs, char *why, size_t why_size)
{
    size_t from = 0;
    carat_status status = lane_place(lane, trial);
    if (status == CARAT_OK) {
        status = lane_run(lane, lane->stream);
        if (status == CARAT_UNSUPPORTED && trial->way != WAY_LIBRARY && trial->way != WAY_SHARED &&
            trial->way != WAY_WHOLE && trial->way != WAY_PARTS) {
            snprintf(why, why_size, "%s", carat_last_message());
            return OUTCOME_SKIPPED;
        }
    }
    status = status == CARAT_OK ? fetch(lane, &from) : status;
    if (status != CARAT_OK) {
        snprintf(why, why_size, "%s: %s", carat_status_name(status), carat_last_message());
    } else if (same_bits(lane, runs, why, why_size) && compare_fetched(lane, from, why, why_size)) {
        return OUTCOME_PASSED;
    }
    size_t said = strlen(why);
    snprintf(why + said, why_size - said, "%s%s", lane->how[0] ? " | " : "", lane->how);
    return OUTCOME_FAILED;
}
