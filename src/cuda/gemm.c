/* gemm.c - a call: where its matrices are, and which way it goes from there. */
#include "device_cuda.h"

#include <stdio.h>

#include "dtype.h"
#include "pipeline.h"
#include "rows.h"
#include "status.h"

/* One matrix of a call, by the name that the caller knows it by; pointer is NULL where it is not read. */
struct matrix_argument {
    const char *name;
    const void *pointer;
    size_t element_bytes;
    enum place place;
};

static const char *place_name(enum place place)
{
    return place == PLACE_DEVICE ? "device memory" : "host memory";
}

/* Finds where the matrices are: all on the device, or all in host memory, or the call is refused. */
static carat_status find_places(struct cuda_device *device, struct matrix_argument *matrices, int count,
                                bool *on_device)
{
    const struct matrix_argument *last = &matrices[count - 1]; /* what the call writes */
    for (int i = 0; i < count; ++i) {
        if (matrices[i].pointer) {
            CARAT_TRY(pointer_place(device, matrices[i].name, matrices[i].pointer, &matrices[i].place));
        }
    }
    *on_device = last->place == PLACE_DEVICE;
    for (int i = 0; i < count; ++i) {
        const struct matrix_argument *matrix = &matrices[i];
        if (!matrix->pointer) {
            continue;
        }
        if ((matrix->place == PLACE_DEVICE) != *on_device) {
            return fail(CARAT_INVALID_ARGUMENT,
                        "%s is in %s, but %s is in %s: a call's matrices must be in one kind", matrix->name,
                        place_name(matrix->place), last->name, place_name(last->place));
        }
        if (*on_device && (uintptr_t)matrix->pointer % matrix->element_bytes != 0) {
            return fail(CARAT_INVALID_ARGUMENT, "%s is %p, which is not aligned to its elements of %zu bytes",
                        matrix->name, matrix->pointer, matrix->element_bytes);
        }
    }
    return CARAT_OK;
}

/* The pool's workspace of a stream; CARAT_WORKSPACE_TOO_SMALL, which nothing else says of it, where it cannot grow. */
static carat_status pool_workspace(struct cuda_device *device, CUstream stream, size_t bytes,
                                   CUdeviceptr *workspace)
{
    carat_status status = workspace_of_stream(device, stream, bytes, workspace);
    return status == CARAT_OUT_OF_DEVICE_MEMORY ? CARAT_WORKSPACE_TOO_SMALL : status;
}

/* The caller's workspace, or the pool's. */
static carat_status find_workspace(struct cuda_device *device, const struct plan *plan, const carat_run *run,
                                   CUdeviceptr *workspace)
{
    *workspace = (CUdeviceptr)(uintptr_t)run->workspace;
    if (plan->workspace_bytes == 0) {
        return CARAT_OK;
    }
    if (!run->workspace) {
        return pool_workspace(device, run->stream, plan->workspace_bytes, workspace);
    }
    if (run->workspace_bytes < plan->workspace_bytes) {
        return fail(CARAT_WORKSPACE_TOO_SMALL, "run->workspace_bytes is %zu, but the plan needs %zu",
                    run->workspace_bytes, plan->workspace_bytes);
    }
    enum place place;
    CARAT_TRY(pointer_place(device, "run->workspace", run->workspace, &place));
    return place == PLACE_DEVICE ? CARAT_OK
                                 : fail(CARAT_INVALID_ARGUMENT,
                                        "run->workspace is in host memory, but must be in device memory");
}

/*
 * Launches a plan's steps. Steps that hand workspace on to each other must follow each other on their
 * stream, and no other thread may grow the pool's buffer away between finding and using it: so threads take
 * turns.
 */
static carat_status launch_with_workspace(struct cuda_device *device, const struct plan *plan,
                                          const struct device_operands *operands, const carat_run *run)
{
    if (plan->workspace_bytes == 0) {
        return plan_launch(device, plan, operands, 0, run->stream);
    }
    CUdeviceptr workspace;
    pthread_mutex_lock(&device->launching);
    carat_status status = find_workspace(device, plan, run, &workspace);
    if (status == CARAT_OK) {
        status = plan_launch(device, plan, operands, workspace, run->stream);
    }
    pthread_mutex_unlock(&device->launching);
    return status;
}

static carat_status gemm(struct cuda_device *device, const struct plan *plan, const struct operands *operands,
                         const carat_run *run)
{
    const struct problem *problem = &plan->problem;
    carat_type scalar_type = problem_scalar_type(problem);
    struct device_operands placed;
    CARAT_TRY(operands_of(device, problem, operands, &placed));
    bool reads_ab = problem->k > 0 && !scalar_is_zero(&placed.alpha, scalar_type);
    bool reads_c = !scalar_is_zero(&placed.beta, scalar_type);
    if (reads_c && !operands->c) {
        return fail(CARAT_INVALID_ARGUMENT, "c is NULL, but beta is %s",
                    placed.beta.device ? "in device memory" : "not 0");
    }
    enum { A, B, BIAS, C, D, COUNT };
    size_t bytes_cd = type_bytes(problem->type_cd);
    struct matrix_argument matrices[] = {
        [A] = {problem->swapped ? "b" : "a", reads_ab ? operands->a : NULL, type_bytes(problem->type_a),
               PLACE_PAGEABLE},
        [B] = {problem->swapped ? "a" : "b", reads_ab ? operands->b : NULL, type_bytes(problem->type_b),
               PLACE_PAGEABLE},
        [BIAS] = {"run->bias", operands->bias, type_bytes(problem->type_bias), PLACE_PAGEABLE},
        [C] = {"c", reads_c ? operands->c : NULL, bytes_cd, PLACE_PAGEABLE},
        [D] = {"d", operands->d, bytes_cd, PLACE_PAGEABLE},
    };
    bool on_device;
    CARAT_TRY(find_places(device, matrices, COUNT, &on_device));
    if (on_device) {
        return launch_with_workspace(device, plan, &placed, run);
    }
    placed.a = matrices[A].pointer;
    placed.b = matrices[B].pointer;
    placed.c = matrices[C].pointer;
    struct host_places places = {
        .a = matrices[A].place,
        .b = matrices[B].place,
        .bias = matrices[BIAS].place,
        .c = matrices[C].place,
        .d = matrices[D].place,
    };
    return host_gemm(device, plan, &placed, &places, run->stream);
}

carat_status cuda_gemm(struct device *base, const struct plan *plan, const struct operands *operands,
                       const carat_run *run)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = gemm(device, plan, operands, run);
    device_leave(device, pushed);
    return status;
}

/*
 * Loads those images of a plan's product beside the whole one of which some launch may be; of clusters there may yet be too few
 * tiles for them.
 */
static carat_status prepare_images(struct cuda_device *device, const struct plan *plan,
                                   const struct kernel *kernel)
{
    bool is_whole = plan->parts == 1 && plan->stream_tiles == 0;
    bool may_be[KERNEL_IMAGES] = {
        [IMAGE_PLAIN] = is_whole && kernel_may_be_plain(kernel, &plan->product),
        [IMAGE_FINISHING] = is_whole && kernel_may_finish(kernel, &plan->product),
        [IMAGE_SUMS] = plan->parts > 1 && kernel_may_sum(kernel, &plan->product),
    };
    for (enum kernel_image image = IMAGE_PLAIN; image < KERNEL_IMAGES; ++image) {
        CUfunction function;
        carat_status status = may_be[image] ? kernel_load(device, kernel, image, &function) : CARAT_OK;
        if (status != CARAT_OUT_OF_DEVICE_MEMORY) { /* then launches are of the whole one */
            CARAT_TRY(status);
        }
    }
    return CARAT_OK;
}

static carat_status prepare(struct cuda_device *device, const struct plan *plan)
{
    CUfunction function;
    CUdeviceptr workspace;
    CUdeviceptr count;
    /* One that is limited was made since there was no room for the plan that the caller has asked for. */
    if (plan->problem.most_workspace == 0) {
        workspace_expect_room(device);
    }
    for (int i = 0; i < plan->step_count; ++i) {
        const struct step *step = &plan->steps[i];
        bool lacks_whole = kernel_lacks_whole(step->kernel);
        CARAT_TRY(kernel_load(device, lacks_whole ? plan->stand_in : step->kernel, IMAGE_WHOLE, &function));
        if (step->kind == STEP_MULTIPLY) {
            CARAT_TRY(prepare_images(device, plan, step->kernel));
            if (lacks_whole) {
                CARAT_TRY(prepare_images(device, plan, plan->stand_in));
            }
        }
        if (step->kind == STEP_SPLIT && step->kernel->planes == 2) {
            CARAT_TRY(count_left_of(device, &count));
        }
    }
    /* The default stream's workspace, for who will run the plan there; another stream's comes with its first call. */
    if (plan->workspace_bytes == 0 || default_stream_waits_for_capture()) {
        return CARAT_OK;
    }
    pthread_mutex_lock(&device->launching);
    carat_status status = pool_workspace(device, NULL, plan->workspace_bytes, &workspace);
    pthread_mutex_unlock(&device->launching);
    return status;
}

carat_status cuda_prepare(struct device *base, const struct plan *plan)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = prepare(device, plan);
    device_leave(device, pushed);
    return status;
}

/* ---- Around the product --------------------------------------------------------------------- */

/* scale_add, or transpose where there is no scale. */
static carat_status elementwise(struct cuda_device *device, const struct elementwise *work,
                                const carat_run *run)
{
    carat_type scalar_type = carat_scalar_type(work->type);
    scalar_argument scale;
    scalar_argument shift;
    if (work->scale) {
        CARAT_TRY(scalar_of(device, "scale", scalar_type, work->scale, &scale));
        CARAT_TRY(scalar_of(device, "shift", scalar_type, work->shift, &shift));
    }
    size_t bytes = type_bytes(work->type);
    struct matrix_argument matrices[] = {
        {"a", work->a, bytes, PLACE_PAGEABLE},
        {"b", work->b, bytes, PLACE_PAGEABLE},
    };
    bool on_device;
    CARAT_TRY(find_places(device, matrices, 2, &on_device));
    if (!on_device) {
        return host_elementwise(device, work, matrices[0].place, matrices[1].place,
                                work->scale ? &scale : NULL, work->scale ? &shift : NULL, run->stream);
    }
    return work->scale ? scale_add_launch(device, work, &scale, &shift, run->stream)
                       : transpose_launch(device, work, run->stream);
}

static carat_status enter_elementwise(struct device *base, const struct elementwise *work,
                                      const carat_run *run)
{
    struct cuda_device *device = cuda_device_of(base);
    bool pushed;
    CARAT_TRY(device_enter(device, &pushed));
    carat_status status = elementwise(device, work, run);
    device_leave(device, pushed);
    return status;
}

carat_status cuda_scale_add(struct device *device, const struct elementwise *work, const carat_run *run)
{
    return enter_elementwise(device, work, run);
}

carat_status cuda_transpose(struct device *device, const struct elementwise *work, const carat_run *run)
{
    return enter_elementwise(device, work, run);
}
