/*
 * contender_cublaslt.c - cublasLt with the fastest of the candidates that its heuristic proposes, each timed on
 * the workload at hand.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "cublas.h"
#include "cuda/cuda.h"
#include "status.h"
#include "timer.h"

enum { CANDIDATES = 16 };

/* Seconds that trying the candidates of one workload may take, beyond the first. */
static const double PATIENCE = 4.0;

/* About how long one trial of a candidate takes. */
static const double TRIAL_SECONDS = 2e-3;

/* cublasLtMatmulHeuristicResult_t; the algorithm comes first in it. */
struct lt_candidate {
    uint64_t algorithm[8];
    size_t workspace_bytes;
    int status;
    float waves;
    int reserved[4];
};

enum {
    DESC_TRANS_A = 3,
    DESC_TRANS_B = 4,
    DESC_A_SCALE_POINTER = 17,
    DESC_B_SCALE_POINTER = 18,
    DESC_FAST_ACCUM = 25,
    LAYOUT_BATCH_COUNT = 5,
    LAYOUT_BATCH_STRIDE = 6,
    PREFERENCE_MAX_WORKSPACE = 1
};

struct functions_of_lt {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    size_t (*get_version)(void);
    int (*desc_create)(void **desc, int compute, int scalar);
    int (*desc_set)(void *desc, int attribute, const void *value, size_t bytes);
    int (*desc_destroy)(void *desc);
    int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t columns, int64_t ld);
    int (*layout_set)(void *layout, int attribute, const void *value, size_t bytes);
    int (*layout_destroy)(void *layout);
    int (*preference_create)(void **preference);
    int (*preference_set)(void *preference, int attribute, const void *value, size_t bytes);
    int (*preference_destroy)(void *preference);
    int (*heuristic)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference,
                     int wanted, struct lt_candidate *candidates, int *found);
    int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *layout_a, const void *b,
                  void *layout_b, const void *beta, const void *c, void *layout_c, void *d, void *layout_d,
                  const void *algorithm, void *workspace, size_t workspace_bytes, void *stream);
};

struct lt_contender {
    struct contender head;
    void *library;
    struct functions_of_lt lt;
    void *handle;
    void *workspace;
    struct timer timer;
    struct cublas_types types;
    void *desc;
    void *layouts[3]; /* A, B, D */
    struct lt_candidate chosen;
    bool entered; /* the device's context is current */
};

static carat_status run(struct contender *contender, const struct workload *workload, int set)
{
    struct lt_contender *self = (struct lt_contender *)contender;
    void *d = workload_d(workload, set);
    int status =
        self->lt.matmul(self->handle, self->desc, &self->types.one, workload_a(workload, set),
                        self->layouts[0], workload_b(workload, set), self->layouts[1], &self->types.zero, d,
                        self->layouts[2], d, self->layouts[2], self->chosen.algorithm, self->workspace,
                        self->chosen.workspace_bytes, contender->place->stream);
    return status ? fail(CARAT_UNSUPPORTED, "cublasLtMatmul returned status %d", status) : CARAT_OK;
}

static void unprepare(struct contender *contender)
{
    struct lt_contender *self = (struct lt_contender *)contender;
    if (self->entered) {
        cuda_leave(contender->place->device);
        self->entered = false;
    }
    if (self->desc) {
        self->lt.desc_destroy(self->desc);
        self->desc = NULL;
    }
    for (int i = 0; i < 3; i++) {
        if (self->layouts[i]) {
            self->lt.layout_destroy(self->layouts[i]);
            self->layouts[i] = NULL;
        }
    }
}

static bool make_layout(struct lt_contender *self, int which, int type, int64_t rows, int64_t columns,
                        int64_t ld, int32_t batch, int64_t stride)
{
    void **layout = &self->layouts[which];
    return self->lt.layout_create(layout, type, (uint64_t)rows, (uint64_t)columns, ld) == 0 &&
           (batch == 1 || (self->lt.layout_set(*layout, LAYOUT_BATCH_COUNT, &batch, sizeof(batch)) == 0 &&
                           self->lt.layout_set(*layout, LAYOUT_BATCH_STRIDE, &stride, sizeof(stride)) == 0));
}

/* What 8-bit floats need beside their types: scales, and whether sums stay in the unit as they are. */
static bool describe_float8(struct lt_contender *self, const struct workload *workload)
{
    const float *scale = workload_scale(workload);
    int8_t fast = self->types.fast_sums;
    return self->lt.desc_set(self->desc, DESC_A_SCALE_POINTER, &scale, sizeof(scale)) == 0 &&
           self->lt.desc_set(self->desc, DESC_B_SCALE_POINTER, &scale, sizeof(scale)) == 0 &&
           self->lt.desc_set(self->desc, DESC_FAST_ACCUM, &fast, sizeof(fast)) == 0;
}

static bool describe(struct lt_contender *self, const struct workload *workload)
{
    const carat_gemm_problem *problem = &workload->problem;
    const struct cublas_types *types = &self->types;
    bool trans_a = problem->op_a == CARAT_TRANSPOSE;
    bool trans_b = problem->op_b == CARAT_TRANSPOSE;
    int32_t op_a = trans_a;
    int32_t op_b = trans_b;
    int32_t batch = (int32_t)problem->batch;
    int64_t m = problem->m;
    int64_t n = problem->n;
    int64_t k = problem->k;
    return self->lt.desc_create(&self->desc, types->compute, types->scalar) == 0 &&
           self->lt.desc_set(self->desc, DESC_TRANS_A, &op_a, sizeof(op_a)) == 0 &&
           self->lt.desc_set(self->desc, DESC_TRANS_B, &op_b, sizeof(op_b)) == 0 &&
           (!types->float8 || describe_float8(self, workload)) &&
           make_layout(self, 0, types->a, trans_a ? k : m, trans_a ? m : k, problem->lda, batch,
                       problem->stride_a) &&
           make_layout(self, 1, types->b, trans_b ? n : k, trans_b ? k : n, problem->ldb, batch,
                       problem->stride_b) &&
           make_layout(self, 2, types->cd, m, n, problem->ldd, batch, problem->stride_d);
}

static int find_candidates(struct lt_contender *self, struct lt_candidate *candidates)
{
    void *preference = NULL;
    size_t bytes = CUBLAS_WORKSPACE_BYTES;
    int found = 0;
    if (self->lt.preference_create(&preference) == 0 &&
        self->lt.preference_set(preference, PREFERENCE_MAX_WORKSPACE, &bytes, sizeof(bytes)) == 0 &&
        self->lt.heuristic(self->handle, self->desc, self->layouts[0], self->layouts[1], self->layouts[2],
                           self->layouts[2], preference, CANDIDATES, candidates, &found) != 0) {
        found = 0;
    }
    if (preference) {
        self->lt.preference_destroy(preference);
    }
    return found;
}

/* Times each candidate, twice in turn, and keeps the fastest. */
static carat_status choose(struct lt_contender *self, const struct workload *workload,
                           const struct lt_candidate *candidates, int found)
{
    double best = 0;
    int best_at = -1;
    int tried = 0;
    double estimates[CANDIDATES] = {0}; /* 0: it does not run */
    double begin = now_seconds();
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < found && (best_at < 0 || now_seconds() - begin < PATIENCE); i++) {
            double seconds = 0;
            self->chosen = candidates[i];
            if (pass == 0) {
                /* The first call carries the loading of its kernel. */
                if (candidates[i].status != 0 ||
                    timer_products(&self->timer, &self->head, workload, 0, 1, &seconds, NULL) != CARAT_OK) {
                    continue;
                }
                CARAT_TRY(timer_products(&self->timer, &self->head, workload, 1, 1, &estimates[i], NULL));
                tried++;
            }
            if (estimates[i] == 0) {
                continue;
            }
            CARAT_TRY(
                timer_trial(&self->timer, &self->head, workload, estimates[i], TRIAL_SECONDS, &seconds));
            if (best_at < 0 || seconds < best) {
                best = seconds;
                best_at = i;
            }
        }
    }
    if (best_at < 0) {
        return fail(CARAT_UNSUPPORTED, "cublasLt has no candidate for this problem");
    }
    self->chosen = candidates[best_at];
    snprintf(self->head.plan, sizeof(self->head.plan), "candidate %d, the fastest of %d tried (%d proposed)",
             best_at, tried, found);
    return CARAT_OK;
}

static carat_status prepare(struct contender *contender, const struct workload *workload)
{
    struct lt_contender *self = (struct lt_contender *)contender;
    CARAT_TRY(cublas_types_of(&workload->problem, &self->types));
    contender->accuracy = peer_accuracy_name(&workload->problem);
    CARAT_TRY(cuda_enter(contender->place->device)); /* until unprepare, so that run() need not */
    self->entered = true;
    struct lt_candidate candidates[CANDIDATES];
    int found = describe(self, workload) ? find_candidates(self, candidates) : 0;
    carat_status status = choose(self, workload, candidates, found);
    if (status != CARAT_OK) {
        unprepare(contender);
    }
    return status;
}

static void close_lt(struct contender *contender)
{
    struct lt_contender *self = (struct lt_contender *)contender;
    unprepare(contender);
    timer_close(&self->timer);
    if (self->handle && cuda_enter(contender->place->device) == CARAT_OK) {
        self->lt.destroy(self->handle);
        cuda_leave(contender->place->device);
    }
    carat_release(contender->place->context, self->workspace);
    /* The library stays: CUDA libraries have work of their own to do at the program's end. */
    free(self);
}

static const struct contender_functions functions = {prepare, run, unprepare, close_lt};

static bool find_functions(struct lt_contender *self)
{
    struct functions_of_lt *lt = &self->lt;
    const struct {
        const char *name;
        void **place;
    } wanted[] = {
        {"cublasLtCreate", (void **)&lt->create},
        {"cublasLtDestroy", (void **)&lt->destroy},
        {"cublasLtGetVersion", (void **)&lt->get_version},
        {"cublasLtMatmulDescCreate", (void **)&lt->desc_create},
        {"cublasLtMatmulDescSetAttribute", (void **)&lt->desc_set},
        {"cublasLtMatmulDescDestroy", (void **)&lt->desc_destroy},
        {"cublasLtMatrixLayoutCreate", (void **)&lt->layout_create},
        {"cublasLtMatrixLayoutSetAttribute", (void **)&lt->layout_set},
        {"cublasLtMatrixLayoutDestroy", (void **)&lt->layout_destroy},
        {"cublasLtMatmulPreferenceCreate", (void **)&lt->preference_create},
        {"cublasLtMatmulPreferenceSetAttribute", (void **)&lt->preference_set},
        {"cublasLtMatmulPreferenceDestroy", (void **)&lt->preference_destroy},
        {"cublasLtMatmulAlgoGetHeuristic", (void **)&lt->heuristic},
        {"cublasLtMatmul", (void **)&lt->matmul},
    };
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        *wanted[i].place = dlsym(self->library, wanted[i].name);
        if (!*wanted[i].place) {
            return false;
        }
    }
    return true;
}

static carat_status start(struct lt_contender *self)
{
    struct place *place = self->head.place;
    self->library = cublas_open_library("libcublasLt");
    if (!self->library) {
        return fail(CARAT_UNSUPPORTED, "no libcublasLt was found");
    }
    if (!find_functions(self)) {
        return fail(CARAT_UNSUPPORTED, "the cublasLt found here lacks a function: too old");
    }
    size_t version = self->lt.get_version();
    snprintf(self->head.version, sizeof(self->head.version), "%zu.%zu.%zu", version / 10000,
             version / 100 % 100, version % 100);
    CARAT_TRY(timer_open(place, NULL, &self->timer));
    CARAT_TRY(carat_allocate(place->context, CARAT_MEMORY_DEVICE, CUBLAS_WORKSPACE_BYTES, &self->workspace));
    CARAT_TRY(cuda_enter(place->device));
    int status = self->lt.create(&self->handle);
    cuda_leave(place->device);
    return status ? fail(CARAT_UNSUPPORTED, "cublasLt does not start (status %d)", status) : CARAT_OK;
}

carat_status contender_open_cublaslt(struct place *place, struct contender **contender)
{
    *contender = NULL;
    if (!place->cuda) {
        return fail(CARAT_UNSUPPORTED, "cublasLt needs a CUDA device");
    }
    struct lt_contender *self = calloc(1, sizeof(*self));
    if (!self) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a contender");
    }
    self->head = (struct contender){.functions = &functions, .place = place, .name = "cublaslt"};
    carat_status status = start(self);
    if (status != CARAT_OK) {
        close_lt(&self->head);
        return status;
    }
    *contender = &self->head;
    return CARAT_OK;
}
