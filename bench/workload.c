/* workload.c - lays out the operands of a measured problem and checks its result. */
#include "workload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cuda/cuda.h"
#include "generate.h"
#include "status.h"

enum { MOST_SETS = 1024 };

/* Host memory is rotated beyond this: more than the share of the last cache that a few cores have. */
static const double HOST_CACHE_BYTES = 32e6;

carat_status place_open(carat_device_kind kind, int index, struct place *place)
{
    *place = (struct place){0};
    CARAT_TRY(carat_context_create(kind, index, &place->context));
    place->device = carat_context_device(place->context);
    carat_status status = carat_device_query(place->context, &place->info);
    if (status == CARAT_OK) {
        place->cuda = place->info.kind == CARAT_DEVICE_CUDA;
        status = carat_stream_create(place->context, &place->stream);
    }
    if (status != CARAT_OK) {
        carat_context_destroy(place->context);
        *place = (struct place){0};
    }
    return status;
}

void place_close(struct place *place)
{
    if (place->context) {
        carat_stream_destroy(place->context, place->stream);
        carat_context_destroy(place->context);
    }
    *place = (struct place){0};
}

carat_status place_memset(struct place *place, void *pointer, int byte, size_t bytes)
{
    if (place->cuda) {
        return cuda_memset(place->device, pointer, (unsigned char)byte, bytes, place->stream);
    }
    memset(pointer, byte, bytes);
    return CARAT_OK;
}

static int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

static void release_inputs(struct arena *arena)
{
    if (arena->place) {
        carat_release(arena->place->context, arena->inputs);
    }
    arena->inputs = NULL;
    arena->input_elements = 0;
}

static void release_outputs(struct arena *arena)
{
    if (arena->place) {
        carat_release(arena->place->context, arena->outputs);
    }
    arena->outputs = NULL;
    arena->output_bytes = 0;
}

static void release_bias(struct arena *arena)
{
    if (arena->place) {
        carat_release(arena->place->context, arena->bias);
    }
    free(arena->bias_on_host);
    arena->bias = NULL;
    arena->bias_on_host = NULL;
    arena->bias_elements = 0;
}

void arena_free(struct arena *arena)
{
    release_inputs(arena);
    release_outputs(arena);
    release_bias(arena);
    if (arena->place) {
        carat_release(arena->place->context, arena->one);
    }
    free(arena->tile);
    free(arena->copy);
    *arena = (struct arena){.place = arena->place};
}

carat_status fill_periodic(struct place *place, carat_type type, const void *tile, int64_t period,
                           void *pointer, int64_t elements)
{
    size_t size = carat_type_size(type);
    int64_t done = elements < period ? elements : period;
    CARAT_TRY(carat_copy(place->context, pointer, tile, (size_t)done * size, place->stream));
    while (done < elements) { /* the tile is there once; the rest are copies, twice as much each time */
        int64_t more = elements - done < done ? elements - done : done;
        CARAT_TRY(carat_copy(place->context, (char *)pointer + (size_t)done * size, pointer,
                             (size_t)more * size, place->stream));
        done += more;
    }
    return carat_synchronize(place->context, place->stream);
}

carat_status make_random_tile(carat_type type, void **tile)
{
    *tile = malloc(RANDOM_PERIOD * carat_type_size(type));
    if (!*tile) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d random numbers", RANDOM_PERIOD);
    }
    generate(type, FAMILY_NORMAL, 1, RANDOM_PERIOD, *tile);
    return CARAT_OK;
}

/* Whether what was made for one problem serves another, whatever accuracy that asks for. */
static bool same_operands(const carat_gemm_problem *x, const carat_gemm_problem *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k && x->batch == y->batch && x->op_a == y->op_a &&
           x->op_b == y->op_b;
}

/* Whether the arena's tile is one of the workload's operands. */
static bool has_tile(const struct arena *arena, const struct workload *workload)
{
    return arena->tile && arena->type == workload->problem.type_a && arena->tile_family == arena->family &&
           (arena->family == ACCURACY_NORMAL || same_operands(&arena->tile_problem, &workload->problem));
}

/* Puts a packed matrix of rows x columns where its problem wants it. */
static void lay_out(carat_op op, int64_t rows, int64_t columns, const float *from, float *to)
{
    if (op == CARAT_TRANSPOSE) {
        accuracy_transpose(rows, columns, from, to);
    } else {
        memcpy(to, from, (size_t)(rows * columns) * sizeof(*to));
    }
}

/* A and B of a family, of each problem of the batch, as one set of the workload holds them. */
static carat_status fill_set(const struct workload *workload, float *set)
{
    const carat_gemm_problem *problem = &workload->problem;
    int64_t m = problem->m;
    int64_t n = problem->n;
    int64_t k = problem->k;
    float *a = malloc((size_t)(m * k + k * n) * sizeof(*a));
    if (!a) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for operands of %lld x %lld x %lld", (long long)m,
                    (long long)n, (long long)k);
    }
    float *b = a + m * k;
    carat_status status = CARAT_OK;
    for (int64_t i = 0; i < problem->batch && status == CARAT_OK; i++) {
        status = accuracy_fill(workload->arena->family, (uint64_t)i + 1, m, n, k, a, b);
        if (status == CARAT_OK) {
            lay_out(problem->op_a, m, k, a, set + i * m * k);
            lay_out(problem->op_b, k, n, b, set + workload->b_first + i * k * n);
        }
    }
    free(a);
    return status;
}

static bool is_packed(const carat_gemm_problem *problem)
{
    bool trans_a = problem->op_a == CARAT_TRANSPOSE;
    bool trans_b = problem->op_b == CARAT_TRANSPOSE;
    return problem->lda == (trans_a ? problem->k : problem->m) &&
           problem->ldb == (trans_b ? problem->n : problem->k) &&
           (problem->batch == 1 ||
            (problem->stride_a == problem->m * problem->k && problem->stride_b == problem->k * problem->n));
}

/* Operands of another family than the random numbers are a set of the workload, and are made anew for each. */
static carat_status make_family_tile(const struct workload *workload)
{
    struct arena *arena = workload->arena;
    const carat_gemm_problem *problem = &workload->problem;
    const char *name = accuracy_family_name(arena->family);
    if (problem->type_a != CARAT_F32 || problem->type_b != CARAT_F32 || !is_packed(problem)) {
        return fail(CARAT_UNSUPPORTED, "inputs of family %s are packed matrices of f32", name);
    }
    arena->period = workload->set_elements;
    arena->tile = calloc((size_t)arena->period, sizeof(float));
    if (!arena->tile) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for inputs of family %s (%lld elements)", name,
                    (long long)arena->period);
    }
    return fill_set(workload, arena->tile);
}

static carat_status make_tile(const struct workload *workload)
{
    struct arena *arena = workload->arena;
    carat_type type = workload->problem.type_a;
    free(arena->tile);
    arena->tile = NULL;
    arena->period = RANDOM_PERIOD;
    carat_status status =
        arena->family == ACCURACY_NORMAL ? make_random_tile(type, &arena->tile) : make_family_tile(workload);
    if (status != CARAT_OK) {
        free(arena->tile);
        arena->tile = NULL;
        return status;
    }
    arena->type = type;
    arena->tile_family = arena->family;
    arena->tile_problem = workload->problem;
    return CARAT_OK;
}

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

/* What the host has, in new memory of the place. */
static carat_status place_upload(struct place *place, const void *from, size_t bytes, void **to)
{
    CARAT_TRY(carat_allocate(place->context, CARAT_MEMORY_DEVICE, bytes, to));
    CARAT_TRY(carat_copy(place->context, *to, from, bytes, place->stream));
    return carat_synchronize(place->context, place->stream);
}

carat_status workload_make_bias(const struct workload *workload)
{
    struct arena *arena = workload->arena;
    const carat_gemm_problem *problem = &workload->problem;
    carat_type type = carat_scalar_type(problem->type_cd);
    int64_t elements = problem->m > problem->n ? problem->m : problem->n;
    if (arena->bias_type == type && arena->bias_elements >= elements) {
        return CARAT_OK;
    }
    release_bias(arena);
    size_t bytes = (size_t)elements * carat_type_size(type);
    arena->bias_on_host = malloc(bytes);
    if (!arena->bias_on_host) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a bias of %lld numbers", (long long)elements);
    }
    generate(type, FAMILY_NORMAL, 2, elements, arena->bias_on_host);
    CARAT_TRY(place_upload(arena->place, arena->bias_on_host, bytes, &arena->bias));
    arena->bias_type = type;
    arena->bias_elements = elements;
    return CARAT_OK;
}

static int count_sets(const struct arena *arena, double set_bytes)
{
    const struct place *place = arena->place;
    double cache = place->cuda ? (double)place->info.l2_bytes : HOST_CACHE_BYTES;
    if (arena->one_set || set_bytes >= 8 * cache) {
        return 1; /* what stays in the cache from the run before is a small part */
    }
    double sets = 2 * cache / set_bytes + 1;
    return sets > MOST_SETS ? MOST_SETS : (int)sets;
}

carat_status workload_open(struct arena *arena, const carat_gemm_problem *problem, struct workload *workload)
{
    size_t size = carat_type_size(problem->type_a);
    size_t result_size = carat_type_size(problem->type_cd);
    int64_t unit = 256; /* elements, so that every base is aligned as an allocation is */
    int64_t a_elements = round_up(problem->m * problem->k * problem->batch, unit);
    int64_t b_elements = round_up(problem->k * problem->n * problem->batch, unit);
    *workload = (struct workload){
        .arena = arena,
        .problem = *problem,
        .set_elements = a_elements + b_elements,
        .b_first = a_elements,
        .output_elements = round_up(problem->m * problem->n * problem->batch, unit),
    };
    double set_bytes = (double)workload->set_elements * (double)size +
                       (double)workload->output_elements * (double)result_size;
    workload->sets = count_sets(arena, set_bytes);
    if (is_float8(problem->type_a) && !arena->one) {
        static const float one = 1;
        CARAT_TRY(place_upload(arena->place, &one, sizeof(one), &arena->one));
    }

    int64_t input_elements = workload->set_elements * workload->sets;
    size_t output_bytes = (size_t)workload->output_elements * result_size * (size_t)workload->sets;
    /* What is too small is released before anything is allocated: there may be no room for both. */
    bool same_inputs = has_tile(arena, workload) && arena->input_elements >= input_elements;
    if (!same_inputs) {
        release_inputs(arena);
    }
    if (arena->output_bytes < output_bytes) {
        release_outputs(arena);
        CARAT_TRY(carat_allocate(arena->place->context, CARAT_MEMORY_DEVICE, output_bytes, &arena->outputs));
        arena->output_bytes = output_bytes;
    }
    if (same_inputs) {
        return CARAT_OK;
    }
    if (!has_tile(arena, workload)) {
        CARAT_TRY(make_tile(workload));
    }
    CARAT_TRY(carat_allocate(arena->place->context, CARAT_MEMORY_DEVICE, (size_t)input_elements * size,
                             &arena->inputs));
    arena->input_elements = input_elements;
    return fill_periodic(arena->place, arena->type, arena->tile, arena->period, arena->inputs,
                         input_elements);
}

const void *workload_a(const struct workload *workload, int set)
{
    size_t size = carat_type_size(workload->problem.type_a);
    return (const char *)workload->arena->inputs + (size_t)(workload->set_elements * set) * size;
}

const void *workload_b(const struct workload *workload, int set)
{
    size_t size = carat_type_size(workload->problem.type_a);
    return (const char *)workload_a(workload, set) + (size_t)workload->b_first * size;
}

void *workload_d(const struct workload *workload, int set)
{
    size_t size = carat_type_size(workload->problem.type_cd);
    return (char *)workload->arena->outputs + (size_t)(workload->output_elements * set) * size;
}

const float *workload_scale(const struct workload *workload)
{
    return is_float8(workload->problem.type_a) ? workload->arena->one : NULL;
}

double workload_operations(const carat_gemm_problem *problem)
{
    return 2.0 * (double)problem->m * (double)problem->n * (double)problem->k * (double)problem->batch;
}

double workload_bytes(const carat_gemm_problem *problem)
{
    double m = (double)problem->m;
    double n = (double)problem->n;
    double k = (double)problem->k;
    double input = (m * k + k * n) * (double)carat_type_size(problem->type_a);
    return (double)problem->batch * (input + m * n * (double)carat_type_size(problem->type_cd));
}

carat_status references_compute(const struct workload *workload, int64_t budget,
                                struct references *references)
{
    const struct arena *arena = workload->arena;
    *references = (struct references){.ulps = reference_ulps_on(&workload->problem, arena->family)};
    int64_t batch = workload->problem.batch;
    const int64_t problems[] = {0, batch / 3, batch / 2, batch - 1};
    for (int i = 0; i < 4; i++) {
        if (i > 0 && problems[i] == problems[i - 1]) {
            continue;
        }
        struct source a = {workload->problem.type_a, arena->tile, 0, arena->period};
        struct source b = a;
        b.type = workload->problem.type_b; /* 8-bit floats of one type are numbers of the other too */
        b.first = workload->b_first;
        struct reference *reference = &references->items[references->count++];
        carat_status status = reference_compute(&workload->problem, problems[i], &a, &b, budget, reference);
        if (status != CARAT_OK) {
            references_free(references);
            return status;
        }
    }
    return CARAT_OK;
}

void references_free(struct references *references)
{
    for (int i = 0; i < references->count; i++) {
        reference_free(&references->items[i]);
    }
    references->count = 0;
}

carat_status references_finish(const struct references *plain, const struct workload *workload,
                               const struct epilogue *epilogue, struct references *finished)
{
    *finished = (struct references){.ulps = 2 * plain->ulps}; /* activations are steeper than 1 in places */
    const struct arena *arena = workload->arena;
    struct source bias = {arena->bias_type, arena->bias_on_host, 0, arena->bias_elements};
    for (int i = 0; i < plain->count; i++) {
        struct reference *reference = &finished->items[finished->count++];
        carat_status status = reference_finish(&plain->items[i], &bias, epilogue, reference);
        if (status != CARAT_OK) {
            references_free(finished);
            return status;
        }
    }
    return CARAT_OK;
}

static size_t result_bytes(const struct workload *workload)
{
    const carat_gemm_problem *problem = &workload->problem;
    return (size_t)(problem->m * problem->n * problem->batch) * carat_type_size(problem->type_cd);
}

carat_status workload_poison(const struct workload *workload)
{
    return place_memset(workload->arena->place, workload_d(workload, 0), 0xff, result_bytes(workload));
}

carat_status workload_check(const struct workload *workload, const struct references *references,
                            struct verdict *verdict)
{
    struct place *place = workload->arena->place;
    const carat_gemm_problem *problem = &workload->problem;
    struct arena *arena = workload->arena;
    size_t bytes = result_bytes(workload);
    if (arena->copy_bytes <
        bytes) { /* kept, for fresh memory of this size takes longer than the copy into it */
        free(arena->copy);
        arena->copy = malloc(bytes);
        arena->copy_bytes = arena->copy ? bytes : 0;
        if (!arena->copy) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a copy of D (%zu bytes)", bytes);
        }
    }
    const void *d = arena->copy;
    carat_status status =
        carat_copy(place->context, arena->copy, workload_d(workload, 0), bytes, place->stream);
    if (status == CARAT_OK) {
        status = carat_synchronize(place->context, place->stream);
    }
    if (status == CARAT_OK) {
        *verdict = (struct verdict){.right = true};
        for (int i = 0; i < references->count; i++) {
            struct verdict one = reference_compare(&references->items[i], d, references->ulps);
            verdict->error = larger_or_nan(verdict->error, one.error);
            if (!one.right && verdict->right) {
                verdict->right = false;
                memcpy(verdict->why, one.why, sizeof(verdict->why));
            }
        }
        int64_t unwritten = find_poison(problem->type_cd, d, problem->m * problem->n * problem->batch);
        if (unwritten >= 0) {
            verdict->right = false;
            snprintf(verdict->why, sizeof(verdict->why), "element %lld of D was not written",
                     (long long)unwritten);
        }
    }
    return status;
}
