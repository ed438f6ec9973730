/* contender_carat.c - Carat as its users call it (with a plan made once), a given way, or a single row. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "context.h"
#include "cuda/cuda.h"
#include "status.h"

/* One or zero in the type of the scalars. */
union scalar {
    float f32;
    double f64;
    int32_t s32;
};

struct carat_contender {
    struct contender head;
    const struct kernel *row;    /* NULL: the library chooses, or the way is given */
    const struct candidate *way; /* NULL: the library chooses */
    enum step_kind step;         /* of the way, where one_step */
    bool one_step;
    carat_plan *plan;
    struct plan given; /* of the way, or of a row that cannot multiply A and B as they are */
    struct problem problem;
    union scalar one;
    union scalar zero;
};

static union scalar scalar_of(carat_type type, int value)
{
    union scalar scalar = {0};
    switch (carat_scalar_type(type)) {
    case CARAT_F64:
        scalar.f64 = value;
        break;
    case CARAT_S32:
        scalar.s32 = value;
        break;
    default:
        scalar.f32 = (float)value;
    }
    return scalar;
}

static bool has_bias(const struct contender *contender)
{
    return contender->epilogue && contender->epilogue->bias != CARAT_BIAS_NONE;
}

/* Leaves one step of a plan. */
static void keep_step(struct plan *plan, enum step_kind kind)
{
    int kept = 0;
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == kind) {
            plan->steps[kept++] = plan->steps[i];
        }
    }
    plan->step_count = kept;
}

/* Whether a row is alone: those of planes need a split before them, f64 rows a pack for what is no f64. */
static bool is_alone(const struct carat_contender *contender)
{
    const struct kernel *row = contender->row;
    return row && row->planes == 0 && (!row->widened || contender->problem.type_a == CARAT_F64);
}

/* Readies the plan that is given, or one step of it. */
static carat_status prepare_given(struct contender *contender)
{
    struct carat_contender *self = (struct carat_contender *)contender;
    struct device *device = contender->place->device;
    snprintf(contender->plan, sizeof(contender->plan), "%.*s", (int)sizeof(contender->plan) - 1,
             self->given.explanation);
    if (self->one_step) {
        keep_step(&self->given, self->step);
    }
    contender->launches = self->given.step_count;
    return device->functions->prepare(device, &self->given);
}

static carat_status prepare(struct contender *contender, const struct workload *workload)
{
    struct carat_contender *self = (struct carat_contender *)contender;
    contender->accuracy = accuracy_name(&workload->problem);
    self->one = scalar_of(workload->problem.type_cd, 1);
    self->zero = scalar_of(workload->problem.type_cd, 0);
    if (self->row) {
        struct device *device = contender->place->device;
        CARAT_TRY(problem_check(&workload->problem, &self->problem));
        CARAT_TRY(cuda_kernel_check(device, self->row));
        if (!is_alone(self)) {
            CARAT_TRY(plan_choose_row(&device->traits, &self->problem, self->row, &self->given));
            return prepare_given(contender);
        }
        contender->launches = 1;
        snprintf(contender->plan, sizeof(contender->plan), "%s", self->row->name);
        return CARAT_OK;
    }
    if (self->way) {
        struct device *device = contender->place->device;
        CARAT_TRY(problem_check(&workload->problem, &self->problem));
        struct problem simple = self->problem;
        problem_simplify(&simple);
        /* Surveys of single kernels find ways for a D of one row as it is. */
        if (self->way->product.swapped == simple.swapped) {
            self->problem = simple;
        }
        CARAT_TRY(plan_of_candidate(&device->traits, &self->problem, self->way, &self->given));
        return prepare_given(contender);
    }
    carat_gemm_problem problem = workload->problem;
    if (contender->epilogue) {
        problem.bias = contender->epilogue->bias;
        problem.activation = contender->epilogue->activation;
    }
    if (has_bias(contender)) {
        CARAT_TRY(workload_make_bias(workload));
    }
    CARAT_TRY(carat_plan_create(contender->place->context, &problem, &self->plan));
    contender->launches = contender->place->cuda ? self->plan->plan.step_count : 0;
    snprintf(contender->plan, sizeof(contender->plan), "%s", carat_plan_explain(self->plan));
    return CARAT_OK;
}

static carat_status run(struct contender *contender, const struct workload *workload, int set)
{
    struct carat_contender *self = (struct carat_contender *)contender;
    const void *a = workload_a(workload, set);
    const void *b = workload_b(workload, set);
    void *d = workload_d(workload, set);
    if (is_alone(self)) {
        struct operands operands = {
            .alpha = &self->one, .a = a, .b = b, .beta = &self->zero, .c = NULL, .d = d};
        return cuda_gemm_with(contender->place->device, self->row, &self->problem, &operands,
                              contender->place->stream);
    }
    carat_run how = {
        .stream = contender->place->stream,
        .bias = has_bias(contender) ? workload->arena->bias : NULL,
        .scale_a = workload_scale(workload),
        .scale_b = workload_scale(workload),
    };
    if (self->way || self->row) {
        struct device *device = contender->place->device;
        struct operands operands;
        CARAT_TRY(problem_operands(&self->problem, &self->one, a, b, &self->zero, NULL, d, &how, &operands));
        return device->functions->gemm(device, &self->given, &operands, &how);
    }
    return carat_plan_run(self->plan, &self->one, a, b, &self->zero, NULL, d, &how);
}

static void unprepare(struct contender *contender)
{
    struct carat_contender *self = (struct carat_contender *)contender;
    carat_plan_destroy(self->plan);
    self->plan = NULL;
}

static void close_carat(struct contender *contender)
{
    unprepare(contender);
    free(contender);
}

static const struct contender_functions functions = {prepare, run, unprepare, close_carat};

static carat_status open_contender(struct place *place, const char *name, const struct kernel *row,
                                   struct contender **contender)
{
    *contender = NULL;
    struct carat_contender *self = calloc(1, sizeof(*self));
    if (!self) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a contender");
    }
    self->head.functions = &functions;
    self->head.place = place;
    self->row = row;
    snprintf(self->head.name, sizeof(self->head.name), "%s", name);
    snprintf(self->head.version, sizeof(self->head.version), "%s", carat_version());
    *contender = &self->head;
    return CARAT_OK;
}

/* The CPU device says which BLAS it has in the first words of a plan: "CPU, OpenBLAS 0.3.21: ...". */
static void ask_blas_version(struct contender *contender)
{
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 1, 1, 1);
    carat_plan *plan = NULL;
    if (carat_plan_create(contender->place->context, &problem, &plan) == CARAT_OK) {
        const char *text = carat_plan_explain(plan);
        const char *name = strstr(text, ", ");
        name = name ? name + 2 : text;
        snprintf(contender->version, sizeof(contender->version), "%.*s", (int)strcspn(name, ":"), name);
        carat_plan_destroy(plan);
    }
}

carat_status contender_open_carat(struct place *place, const char *name, struct contender **contender)
{
    CARAT_TRY(open_contender(place, name, NULL, contender));
    if (strcmp(name, "carat") != 0) {
        ask_blas_version(*contender);
    }
    return CARAT_OK;
}

carat_status contender_open_epilogue(struct place *place, const struct epilogue *epilogue,
                                     struct contender **contender)
{
    CARAT_TRY(open_contender(place, epilogue->name, NULL, contender));
    (*contender)->epilogue = epilogue;
    return CARAT_OK;
}

carat_status contender_open_setting(struct place *place, carat_accuracy asked, struct contender **contender)
{
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 1, 1, 1);
    problem.accuracy = asked;
    char name[40];
    snprintf(name, sizeof(name), "carat %s", accuracy_name(&problem));
    CARAT_TRY(open_contender(place, name, NULL, contender));
    (*contender)->asks = true;
    (*contender)->asked = asked;
    return CARAT_OK;
}

carat_status contender_open_way(struct place *place, const struct candidate *way,
                                struct contender **contender)
{
    CARAT_TRY(open_contender(place, way->kernel->name, NULL, contender));
    ((struct carat_contender *)*contender)->way = way;
    return CARAT_OK;
}

carat_status contender_open_step(struct place *place, const struct candidate *way, enum step_kind step,
                                 struct contender **contender)
{
    CARAT_TRY(contender_open_way(place, way, contender));
    struct carat_contender *self = (struct carat_contender *)*contender;
    self->one_step = true;
    self->step = step;
    return CARAT_OK;
}

carat_status contender_open_row(struct place *place, const struct kernel *row, struct contender **contender)
{
    return open_contender(place, row->name, row, contender);
}
