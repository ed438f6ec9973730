/* carat.c - the public calls that compute: check, look up or make the plan, run it. */
#include "carat/carat.h"

#include <string.h>

#include "context.h"
#include "elementwise.h"
#include "status.h"

static const carat_run default_run;

/* The caller's run, or the default one, checked as far as that needs no device. */
static carat_status run_check(const carat_run **run)
{
    if (!*run) {
        *run = &default_run;
    }
    if ((uintptr_t)(*run)->workspace % 256 != 0) {
        return fail(CARAT_INVALID_ARGUMENT, "run->workspace is %p, which is not 256-byte aligned",
                    (*run)->workspace);
    }
    return CARAT_OK;
}

/* Of a call around the product, which knows neither bias nor scales, and takes no workspace. */
static carat_status elementwise_run_check(const char *call, const carat_run **run)
{
    if (!*run) {
        *run = &default_run;
    }
    const carat_run *given = *run;
    if (given->bias || given->scale_a || given->scale_b || given->scale_d) {
        return fail(CARAT_INVALID_ARGUMENT, "run->%s is given, but %s takes none",
                    given->bias      ? "bias"
                    : given->scale_a ? "scale_a"
                    : given->scale_b ? "scale_b"
                                     : "scale_d",
                    call);
    }
    return CARAT_OK;
}

/* The problem with A and B where this call has them, as far as that matters to the device. */
static struct problem problem_here(const carat_context *context, const struct problem *problem,
                                   const struct operands *given)
{
    struct problem here = *problem;
    if (context->device->traits.kind == CARAT_DEVICE_CUDA) {
        problem_note_addresses(&here, given->a, given->b);
    }
    return here;
}

/* A caller's problem, checked and in its simplest form. */
static carat_status problem_of(const carat_gemm_problem *described, struct problem *problem)
{
    CARAT_TRY(problem_check(described, problem));
    problem_simplify(problem);
    return CARAT_OK;
}

/* ---- Where memory for workspace is short ---- */

/* Asks for a plan with less workspace than there was no room for; false where there is none. */
static bool ask_for_less(struct problem *problem, const struct plan *plan)
{
    int64_t less = plan_less_workspace(plan);
    if (less > 0) {
        problem->most_workspace = less;
    }
    return less > 0;
}

/* The plan of a problem, one that does with the caller's workspace where it can. */
static carat_status plan_acquire_within(carat_context *context, struct problem *problem, const carat_run *run,
                                        carat_plan **plan)
{
    CARAT_TRY(plan_acquire(context, problem, plan));
    if (!run->workspace || run->workspace_bytes >= (*plan)->plan.workspace_bytes) {
        return CARAT_OK;
    }
    plan_release(*plan);
    problem->most_workspace = run->workspace_bytes > 0 ? (int64_t)run->workspace_bytes : 1;
    return plan_acquire(context, problem, plan);
}

/* Runs a plan that the caller holds on operands in the caller's own order. */
static carat_status run_plan(const carat_plan *plan, const struct operands *given, const carat_run *run)
{
    const struct problem *problem = &plan->plan.problem;
    struct operands operands;
    CARAT_TRY(problem_operands(problem, given->alpha, given->a, given->b, given->beta, given->c, given->d,
                               run, &operands));
    if (problem_is_empty(problem)) {
        return CARAT_OK;
    }
    struct device *device = plan->context->device;
    return device->functions->gemm(device, &plan->plan, &operands, run);
}

/*
 * Plans and runs a problem. Where the pool cannot grow it is planned again with less workspace; the pool remembers what it
 * could not get, and does not ask the driver for it with each call.
 */
static carat_status plan_and_run(carat_context *context, struct problem *problem,
                                 const struct operands *given, const carat_run *run)
{
    for (;;) {
        carat_plan *plan;
        CARAT_TRY(plan_acquire_within(context, problem, run, &plan));
        carat_status status = run_plan(plan, given, run);
        bool is_short = status == CARAT_WORKSPACE_TOO_SMALL && !run->workspace;
        bool again = is_short && ask_for_less(problem, &plan->plan);
        plan_release(plan);
        if (!again) {
            return is_short ? CARAT_OUT_OF_DEVICE_MEMORY : status;
        }
    }
}

/*
 * Runs a plan where A and B are. One that was made for other addresses gives way to another: where the
 * caller has brought workspace for the plan he knows, and this one needs more, it takes the pool's. But too little for the
 * plan he knows is refused, if need be by that plan, whatever the addresses; on host memory, which needs none, any will do.
 */
static carat_status run_plan_here(carat_plan *plan, const struct operands *given, const carat_run *run)
{
    CARAT_TRY(run_check(&run));
    struct problem here = problem_here(plan->context, &plan->plan.problem, given);
    bool too_little = run->workspace && run->workspace_bytes < plan->plan.workspace_bytes;
    const struct problem *planned = &plan->plan.problem; /* of which a call's differs in alignment alone */
    if (too_little || (here.align_a == planned->align_a && here.align_b == planned->align_b)) {
        carat_status status = run_plan(plan, given, run);
        if (status != CARAT_WORKSPACE_TOO_SMALL || run->workspace) {
            return status;
        }
        return ask_for_less(&here, &plan->plan) ? plan_and_run(plan->context, &here, given, run)
                                                : CARAT_OUT_OF_DEVICE_MEMORY;
    }
    carat_run with = *run;
    if (with.workspace) {
        carat_plan *other;
        CARAT_TRY(plan_acquire(plan->context, &here, &other));
        if (with.workspace_bytes < other->plan.workspace_bytes) {
            with.workspace = NULL;
        }
        plan_release(other);
    }
    return plan_and_run(plan->context, &here, given, &with);
}

carat_status carat_gemm(carat_context *context, const carat_gemm_problem *problem, const void *alpha,
                        const void *a, const void *b, const void *beta, const void *c, void *d,
                        const carat_run *run)
{
    if (!context) {
        return fail(CARAT_INVALID_ARGUMENT, "context is NULL");
    }
    struct problem checked;
    CARAT_TRY(problem_of(problem, &checked));
    CARAT_TRY(run_check(&run));
    struct operands given = {.alpha = alpha, .a = a, .b = b, .beta = beta, .c = c, .d = d};
    struct message before;
    message_keep(&before);
    checked = problem_here(context, &checked, &given);
    return message_settle(plan_and_run(context, &checked, &given, run), &before);
}

/* ---- Plans ---- */

carat_status carat_plan_create(carat_context *context, const carat_gemm_problem *problem, carat_plan **plan)
{
    if (!plan) {
        return fail(CARAT_INVALID_ARGUMENT, "plan is NULL");
    }
    *plan = NULL;
    if (!context) {
        return fail(CARAT_INVALID_ARGUMENT, "context is NULL");
    }
    struct problem checked;
    struct message before;
    message_keep(&before);
    CARAT_TRY(problem_of(problem, &checked));
    for (;;) {
        carat_plan *acquired;
        CARAT_TRY(plan_acquire(context, &checked, &acquired));
        carat_status status = problem_is_empty(&checked)
                                  ? CARAT_OK
                                  : context->device->functions->prepare(context->device, &acquired->plan);
        if (status == CARAT_OK) {
            *plan = acquired;
            return message_settle(CARAT_OK, &before);
        }
        bool again = status == CARAT_WORKSPACE_TOO_SMALL && ask_for_less(&checked, &acquired->plan);
        plan_release(acquired);
        if (!again) {
            return status == CARAT_WORKSPACE_TOO_SMALL ? CARAT_OUT_OF_DEVICE_MEMORY : status;
        }
    }
}

void carat_plan_destroy(carat_plan *plan) { plan_release(plan); }

size_t carat_plan_workspace(const carat_plan *plan) { return plan ? plan->plan.workspace_bytes : 0; }

const char *carat_plan_explain(const carat_plan *plan) { return plan ? plan->plan.explanation : ""; }

carat_status carat_plan_run(carat_plan *plan, const void *alpha, const void *a, const void *b,
                            const void *beta, const void *c, void *d, const carat_run *run)
{
    if (!plan) {
        return fail(CARAT_INVALID_ARGUMENT, "plan is NULL");
    }
    struct operands given = {.alpha = alpha, .a = a, .b = b, .beta = beta, .c = c, .d = d};
    struct message before;
    message_keep(&before);
    return message_settle(run_plan_here(plan, &given, run), &before);
}

/* ---- GEMM in the manner of CBLAS ---- */

/* What the six calls have in common: all but the types of the scalars. */
struct classic {
    carat_order order;
    carat_op op_a;
    carat_op op_b;
    int64_t m;
    int64_t n;
    int64_t k;
    const void *a;
    int64_t lda;
    const void *b;
    int64_t ldb;
    void *c;
    int64_t ldc;
};

static carat_status classic_gemm(carat_context *context, carat_type type, const struct classic *call,
                                 const void *alpha, const void *beta)
{
    if (!call->c && call->m > 0 && call->n > 0) {
        return fail(CARAT_INVALID_ARGUMENT, "c is NULL");
    }
    /* A 0 would mean tightly packed to the general call; here it is a mistake. */
    if (call->lda == 0 || call->ldb == 0 || call->ldc == 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is 0, but must be at least 1",
                    call->lda == 0 ? "lda" : (call->ldb == 0 ? "ldb" : "ldc"));
    }
    carat_gemm_problem problem = carat_gemm_describe(type, call->m, call->n, call->k);
    problem.order = call->order;
    problem.op_a = call->op_a;
    problem.op_b = call->op_b;
    problem.lda = call->lda;
    problem.ldb = call->ldb;
    problem.ldc = call->ldc;
    problem.ldd = call->ldc;
    return carat_gemm(context, &problem, alpha, call->a, call->b, beta, call->c, call->c, NULL);
}

carat_status carat_gemm_f32(carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
                            int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                            const float *b, int64_t ldb, float beta, float *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_F32, &call, &alpha, &beta);
}

carat_status carat_gemm_f64(carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
                            int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t lda,
                            const double *b, int64_t ldb, double beta, double *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_F64, &call, &alpha, &beta);
}

carat_status carat_gemm_f16(carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
                            int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *a, int64_t lda,
                            const uint16_t *b, int64_t ldb, float beta, uint16_t *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_F16, &call, &alpha, &beta);
}

carat_status carat_gemm_bf16(carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
                             int64_t m, int64_t n, int64_t k, float alpha, const uint16_t *a, int64_t lda,
                             const uint16_t *b, int64_t ldb, float beta, uint16_t *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_BF16, &call, &alpha, &beta);
}

carat_status carat_gemm_s32(carat_context *context, carat_order order, carat_op op_a, carat_op op_b,
                            int64_t m, int64_t n, int64_t k, int32_t alpha, const int32_t *a, int64_t lda,
                            const int32_t *b, int64_t ldb, int32_t beta, int32_t *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_S32, &call, &alpha, &beta);
}

carat_status carat_gemm_s8(carat_context *context, carat_order order, carat_op op_a, carat_op op_b, int64_t m,
                           int64_t n, int64_t k, int32_t alpha, const int8_t *a, int64_t lda, const int8_t *b,
                           int64_t ldb, int32_t beta, int32_t *c, int64_t ldc)
{
    struct classic call = {order, op_a, op_b, m, n, k, a, lda, b, ldb, c, ldc};
    return classic_gemm(context, CARAT_S8, &call, &alpha, &beta);
}

/* ---- Around the product ---- */

carat_status carat_scale_add(carat_context *context, carat_order order, carat_type type, int64_t m, int64_t n,
                             const void *scale, const void *a, int64_t lda, const void *shift, void *b,
                             int64_t ldb, const carat_run *run)
{
    if (!context) {
        return fail(CARAT_INVALID_ARGUMENT, "context is NULL");
    }
    struct elementwise_call call = {order, type, m, n, scale, shift, a, lda, b, ldb};
    struct elementwise work;
    CARAT_TRY(scale_add_check(&call, &work));
    CARAT_TRY(elementwise_run_check("scale_add", &run));
    if (m == 0 || n == 0) {
        return CARAT_OK;
    }
    return context->device->functions->scale_add(context->device, &work, run);
}

carat_status carat_transpose(carat_context *context, carat_order order, carat_type type, int64_t m, int64_t n,
                             const void *a, int64_t lda, void *b, int64_t ldb, const carat_run *run)
{
    if (!context) {
        return fail(CARAT_INVALID_ARGUMENT, "context is NULL");
    }
    struct elementwise_call call = {order, type, m, n, NULL, NULL, a, lda, b, ldb};
    struct elementwise work;
    CARAT_TRY(transpose_check(&call, &work));
    CARAT_TRY(elementwise_run_check("transpose", &run));
    if (m == 0 || n == 0) {
        return CARAT_OK;
    }
    return context->device->functions->transpose(context->device, &work, run);
}
