/* contender_blas.c - any library with the CBLAS interface (32-bit dimensions), named by its path. */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "status.h"

enum { CBLAS_COLUMN_MAJOR = 102, CBLAS_NO_TRANSPOSE = 111, CBLAS_TRANSPOSE = 112 };

typedef void sgemm(int order, int op_a, int op_b, int m, int n, int k, float alpha, const float *a, int lda,
                   const float *b, int ldb, float beta, float *c, int ldc);

typedef void dgemm(int order, int op_a, int op_b, int m, int n, int k, double alpha, const double *a, int lda,
                   const double *b, int ldb, double beta, double *c, int ldc);

struct blas_contender {
    struct contender head;
    void *library;
    sgemm *f32;
    dgemm *f64;
};

static carat_status prepare(struct contender *contender, const struct workload *workload)
{
    struct blas_contender *self = (struct blas_contender *)contender;
    const carat_gemm_problem *problem = &workload->problem;
    bool has_type = problem->type_a == CARAT_F32   ? self->f32 != NULL
                    : problem->type_a == CARAT_F64 ? self->f64 != NULL
                                                   : false;
    if (!has_type) {
        return fail(CARAT_UNSUPPORTED, "CBLAS has no %s product", carat_type_name(problem->type_a));
    }
    contender->accuracy = "strict";
    if (problem->m > INT_MAX || problem->n > INT_MAX || problem->k > INT_MAX) {
        return fail(CARAT_UNSUPPORTED, "a dimension is over 32 bits");
    }
    snprintf(contender->plan, sizeof(contender->plan), "%s",
             problem->type_a == CARAT_F32 ? "cblas_sgemm" : "cblas_dgemm");
    return CARAT_OK;
}

static carat_status run(struct contender *contender, const struct workload *workload, int set)
{
    struct blas_contender *self = (struct blas_contender *)contender;
    const carat_gemm_problem *problem = &workload->problem;
    int op_a = problem->op_a == CARAT_TRANSPOSE ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE;
    int op_b = problem->op_b == CARAT_TRANSPOSE ? CBLAS_TRANSPOSE : CBLAS_NO_TRANSPOSE;
    int m = (int)problem->m;
    int n = (int)problem->n;
    int k = (int)problem->k;
    for (int64_t i = 0; i < problem->batch; i++) {
        if (problem->type_a == CARAT_F32) {
            self->f32(CBLAS_COLUMN_MAJOR, op_a, op_b, m, n, k, 1,
                      (const float *)workload_a(workload, set) + i * problem->stride_a, (int)problem->lda,
                      (const float *)workload_b(workload, set) + i * problem->stride_b, (int)problem->ldb, 0,
                      (float *)workload_d(workload, set) + i * problem->stride_d, (int)problem->ldd);
        } else {
            self->f64(CBLAS_COLUMN_MAJOR, op_a, op_b, m, n, k, 1,
                      (const double *)workload_a(workload, set) + i * problem->stride_a, (int)problem->lda,
                      (const double *)workload_b(workload, set) + i * problem->stride_b, (int)problem->ldb, 0,
                      (double *)workload_d(workload, set) + i * problem->stride_d, (int)problem->ldd);
        }
    }
    return CARAT_OK;
}

static void unprepare(struct contender *contender) { (void)contender; }

static void close_blas(struct contender *contender)
{
    struct blas_contender *self = (struct blas_contender *)contender;
    if (self->library) {
        dlclose(self->library);
    }
    free(self);
}

static const struct contender_functions functions = {prepare, run, unprepare, close_blas};

carat_status contender_open_blas(struct place *place, const char *path, struct contender **contender)
{
    *contender = NULL;
    struct blas_contender *self = calloc(1, sizeof(*self));
    if (!self) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a contender");
    }
    self->head = (struct contender){.functions = &functions, .place = place};
    snprintf(self->head.name, sizeof(self->head.name), "blas:%s", path);
    self->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    carat_status status = CARAT_OK;
    if (!self->library) {
        status = fail(CARAT_UNSUPPORTED, "cannot load %s: %s", path, dlerror());
    } else {
        *(void **)&self->f32 = dlsym(self->library, "cblas_sgemm");
        *(void **)&self->f64 = dlsym(self->library, "cblas_dgemm");
        if (!self->f32 && !self->f64) {
            status = fail(CARAT_UNSUPPORTED, "%s has neither cblas_sgemm nor cblas_dgemm", path);
        }
    }
    if (status != CARAT_OK) {
        close_blas(&self->head);
        return status;
    }
    *contender = &self->head;
    return CARAT_OK;
}
