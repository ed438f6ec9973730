/*
 * contender_cublas.c - cuBLAS through cublasGemmEx and its batched sister, loaded where it is installed.
 * Carat needs none of its headers: the few declarations used stand here. It works in the device's
 * primary context, on the same stream as everyone else.
 */
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "cublas.h"
#include "cuda/cuda.h"
#include "status.h"

typedef int gemm_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha, const void *a,
                    int type_a, int lda, const void *b, int type_b, int ldb, const void *beta, void *c,
                    int type_c, int ldc, int compute, int algorithm);

typedef int gemm_batched_ex(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                            const void *a, int type_a, int lda, long long stride_a, const void *b, int type_b,
                            int ldb, long long stride_b, const void *beta, void *c, int type_c, int ldc,
                            long long stride_c, int batch, int compute, int algorithm);

struct cublas_contender {
    struct contender head;
    void *library;
    void *handle;
    int (*destroy)(void *handle);
    int (*set_workspace)(void *handle, void *workspace, size_t bytes);
    gemm_ex *gemm;
    gemm_batched_ex *gemm_batched;
    void *workspace;
    struct cublas_types types;
    bool entered; /* the device's context is current */
};

static carat_status refused(const char *function, int status)
{
    /* 7 and 15 are how cuBLAS says that it does not do this shape, alignment or type. */
    carat_status kind = status == 7 || status == 15 ? CARAT_UNSUPPORTED : CARAT_DEVICE_ERROR;
    return fail(kind, "%s returned status %d", function, status);
}

/* cudaDataType of an element type; -1 where there is none. */
static int data_type(carat_type type)
{
    static const int types[] = {
        [CARAT_F32] = CUBLAS_F32, [CARAT_F64] = CUBLAS_F64,   [CARAT_F16] = CUBLAS_F16,
        [CARAT_S8] = CUBLAS_S8,   [CARAT_BF16] = CUBLAS_BF16, [CARAT_E4M3] = CUBLAS_E4M3,
        [CARAT_S32] = CUBLAS_S32, [CARAT_E5M2] = CUBLAS_E5M2,
    };
    return type >= CARAT_F32 && type <= CARAT_E5M2 ? types[type] : -1;
}

carat_status cublas_types_of(const carat_gemm_problem *problem, struct cublas_types *types)
{
    bool fast = problem->accuracy == CARAT_ACCURACY_FAST;
    *types = (struct cublas_types){
        .a = data_type(problem->type_a),
        .b = data_type(problem->type_b),
        .cd = data_type(problem->type_cd),
        .one.f32 = 1,
        .compute = CUBLAS_COMPUTE_32F,
        .scalar = CUBLAS_F32,
    };
    switch (problem->type_a) {
    case CARAT_F32:
        types->compute = fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
        break;
    case CARAT_F64:
        types->scalar = CUBLAS_F64;
        types->compute = CUBLAS_COMPUTE_64F;
        types->one.f64 = 1;
        break;
    case CARAT_S8:
        types->scalar = CUBLAS_S32;
        types->compute = CUBLAS_COMPUTE_32I;
        types->one.s32 = 1;
        break;
    case CARAT_E4M3:
    case CARAT_E5M2:
        types->float8 = true;
        types->fast_sums = fast;
        break;
    case CARAT_F16:
    case CARAT_BF16:
        break;
    default:
        return fail(CARAT_UNSUPPORTED, "cuBLAS has no %s", carat_type_name(problem->type_a));
    }
    return CARAT_OK;
}

static carat_status run(struct contender *contender, const struct workload *workload, int set)
{
    struct cublas_contender *self = (struct cublas_contender *)contender;
    const carat_gemm_problem *problem = &workload->problem;
    const struct cublas_types *types = &self->types;
    int op_a = problem->op_a == CARAT_TRANSPOSE;
    int op_b = problem->op_b == CARAT_TRANSPOSE;
    int status;
    if (problem->batch == 1) {
        status = self->gemm(self->handle, op_a, op_b, (int)problem->m, (int)problem->n, (int)problem->k,
                            &types->one, workload_a(workload, set), types->a, (int)problem->lda,
                            workload_b(workload, set), types->b, (int)problem->ldb, &types->zero,
                            workload_d(workload, set), types->cd, (int)problem->ldd, types->compute,
                            CUBLAS_GEMM_DEFAULT);
    } else {
        status = self->gemm_batched(
            self->handle, op_a, op_b, (int)problem->m, (int)problem->n, (int)problem->k, &types->one,
            workload_a(workload, set), types->a, (int)problem->lda, problem->stride_a,
            workload_b(workload, set), types->b, (int)problem->ldb, problem->stride_b, &types->zero,
            workload_d(workload, set), types->cd, (int)problem->ldd, problem->stride_d, (int)problem->batch,
            types->compute, CUBLAS_GEMM_DEFAULT);
    }
    return status ? refused("cublasGemmEx", status) : CARAT_OK;
}

static carat_status prepare(struct contender *contender, const struct workload *workload)
{
    struct cublas_contender *self = (struct cublas_contender *)contender;
    const carat_gemm_problem *problem = &workload->problem;
    if (problem->m > INT_MAX || problem->n > INT_MAX || problem->k > INT_MAX || problem->batch > INT_MAX) {
        return fail(CARAT_UNSUPPORTED, "a dimension is over 32 bits");
    }
    CARAT_TRY(cublas_types_of(problem, &self->types));
    if (self->types.float8) {
        return fail(CARAT_UNSUPPORTED, "cublasGemmEx has no %s", carat_type_name(problem->type_a));
    }
    contender->accuracy = peer_accuracy_name(problem);
    CARAT_TRY(cuda_enter(contender->place->device)); /* until unprepare, so that run() need not */
    self->entered = true;
    snprintf(contender->plan, sizeof(contender->plan), "%s",
             problem->batch == 1 ? "cublasGemmEx" : "cublasGemmStridedBatchedEx");
    return CARAT_OK;
}

static void unprepare(struct contender *contender)
{
    struct cublas_contender *self = (struct cublas_contender *)contender;
    if (self->entered) {
        cuda_leave(contender->place->device);
        self->entered = false;
    }
}

static void close_cublas(struct contender *contender)
{
    struct cublas_contender *self = (struct cublas_contender *)contender;
    unprepare(contender);
    if (self->handle && cuda_enter(contender->place->device) == CARAT_OK) {
        self->destroy(self->handle);
        cuda_leave(contender->place->device);
    }
    carat_release(contender->place->context, self->workspace);
    /* The library stays: CUDA libraries have work of their own to do at the program's end. */
    free(self);
}

static const struct contender_functions functions = {prepare, run, unprepare, close_cublas};

void *cublas_open_library(const char *stem)
{
    static const char *const endings[] = {".so.13", ".so.12", ".so"};
    static const char *const folders[] = {"", "/usr/local/cuda/lib64/"};
    char names[6][128];
    const char *list[7] = {0};
    for (int i = 0; i < 6; i++) {
        snprintf(names[i], sizeof(names[i]), "%s%s%s", folders[i / 3], stem, endings[i % 3]);
        list[i] = names[i];
    }
    return open_library(list);
}

/* The handle and the entry points of an opened library. */
static carat_status start(struct cublas_contender *self)
{
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*get_property)(int which, int *value);
    *(void **)&create = dlsym(self->library, "cublasCreate_v2");
    *(void **)&set_stream = dlsym(self->library, "cublasSetStream_v2");
    *(void **)&get_property = dlsym(self->library, "cublasGetProperty");
    *(void **)&self->destroy = dlsym(self->library, "cublasDestroy_v2");
    *(void **)&self->set_workspace = dlsym(self->library, "cublasSetWorkspace_v2");
    *(void **)&self->gemm = dlsym(self->library, "cublasGemmEx");
    *(void **)&self->gemm_batched = dlsym(self->library, "cublasGemmStridedBatchedEx");
    if (!create || !set_stream || !get_property || !self->destroy || !self->set_workspace || !self->gemm ||
        !self->gemm_batched) {
        return fail(CARAT_UNSUPPORTED, "the cuBLAS found here lacks a function: too old");
    }
    int version[3] = {0};
    for (int i = 0; i < 3; i++) {
        get_property(i, &version[i]);
    }
    snprintf(self->head.version, sizeof(self->head.version), "%d.%d.%d", version[0], version[1], version[2]);
    struct place *place = self->head.place;
    CARAT_TRY(carat_allocate(place->context, CARAT_MEMORY_DEVICE, CUBLAS_WORKSPACE_BYTES, &self->workspace));
    CARAT_TRY(cuda_enter(place->device));
    int status = create(&self->handle);
    if (status == 0) {
        status = set_stream(self->handle, place->stream);
    }
    if (status == 0) {
        /* Its own pool cannot grow while a graph is captured; the stream resets it, so it comes after. */
        status = self->set_workspace(self->handle, self->workspace, CUBLAS_WORKSPACE_BYTES);
    }
    cuda_leave(place->device);
    return status ? fail(CARAT_UNSUPPORTED, "cuBLAS does not start (status %d)", status) : CARAT_OK;
}

carat_status contender_open_cublas(struct place *place, struct contender **contender)
{
    *contender = NULL;
    if (!place->cuda) {
        return fail(CARAT_UNSUPPORTED, "cuBLAS needs a CUDA device");
    }
    struct cublas_contender *self = calloc(1, sizeof(*self));
    if (!self) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a contender");
    }
    self->head = (struct contender){.functions = &functions, .place = place, .name = "cublas"};
    self->library = cublas_open_library("libcublas");
    carat_status status = self->library ? start(self) : fail(CARAT_UNSUPPORTED, "no libcublas was found");
    if (status != CARAT_OK) {
        close_cublas(&self->head);
        return status;
    }
    *contender = &self->head;
    return CARAT_OK;
}
