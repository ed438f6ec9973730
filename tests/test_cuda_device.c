/*
 * test_cuda_device.c - the CUDA device end to end, on the stand-in: what its memory, streams, graphs,
 * plans, threads and queries promise. Shapes, layouts and values are the matter of the other tests; here
 * matrices hold small integers, of which every product is exact in every type.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kernels/common/arguments.h"
#include "assertions.h"
#include "context.h"
#include "cuda/cuda.h"
#include "cuda/driver.h"
#include "reference.h"
#include "rows.h"
#include "standin.h"

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16,  CARAT_BF16,
                                   CARAT_S32, CARAT_S8,  CARAT_E4M3, CARAT_E5M2};
#define TYPE_COUNT 8

/* ---- A product of integers, in host memory -------------------------------------------------- */

struct work {
    carat_gemm_problem problem;
    size_t bytes_a;
    size_t bytes_b;
    size_t bytes_d;
    void *a;
    void *b;
    void *d; /* what the product should be */
    union {
        float f32;
        double f64;
        int32_t s32;
    } alpha, beta;
};

static void *filled(carat_type type, int64_t count, struct random *random)
{
    void *array = malloc((size_t)count * carat_type_size(type));
    assert_non_null(array);
    for (int64_t i = 0; i < count; ++i) {
        element_set(type, array, i, random_between(random, -3, 3));
    }
    return array;
}

/* D = 2 A B, column-major. */
static void work_multiply(struct work *w)
{
    carat_type type = w->problem.type_a;
    int64_t m = w->problem.m;
    int64_t k = w->problem.k;
    for (int64_t j = 0; j < w->problem.n; ++j) {
        for (int64_t i = 0; i < m; ++i) {
            long double sum = 0;
            for (int64_t l = 0; l < k; ++l) {
                sum += element_get(type, w->a, i + l * m) * element_get(type, w->b, l + j * k);
            }
            element_set(w->problem.type_cd, w->d, i + j * m, 2 * sum);
        }
    }
}

static struct work work_create(carat_type type, int64_t m, int64_t n, int64_t k, uint64_t seed)
{
    struct random random = {seed};
    struct work w = {.problem = carat_gemm_describe(type, m, n, k)};
    carat_type type_d = w.problem.type_cd;
    w.bytes_a = (size_t)(m * k) * carat_type_size(type);
    w.bytes_b = (size_t)(k * n) * carat_type_size(type);
    w.bytes_d = (size_t)(m * n) * carat_type_size(type_d);
    w.a = filled(type, m * k, &random);
    w.b = filled(type, k * n, &random);
    w.d = malloc(w.bytes_d);
    assert_non_null(w.d);
    element_set(carat_scalar_type(type_d), &w.alpha, 0, 2);
    element_set(carat_scalar_type(type_d), &w.beta, 0, 0);
    work_multiply(&w);
    return w;
}

static void work_destroy(struct work *w)
{
    free(w->a);
    free(w->b);
    free(w->d);
}

/* ---- Device memory -------------------------------------------------------------------------- */

static void *device_memory(carat_context *carat, size_t bytes)
{
    void *pointer = NULL;
    assert_ok(carat_allocate(carat, CARAT_MEMORY_DEVICE, bytes, &pointer));
    return pointer;
}

static void *device_copy(carat_context *carat, const void *from, size_t bytes, void *stream)
{
    void *pointer = device_memory(carat, bytes);
    assert_ok(carat_copy(carat, pointer, from, bytes, stream));
    return pointer;
}

static void assert_device_holds(carat_context *carat, const void *pointer, const void *expected, size_t bytes,
                                void *stream)
{
    void *now = malloc(bytes);
    assert_non_null(now);
    assert_ok(carat_copy(carat, now, pointer, bytes, stream));
    assert_ok(carat_synchronize(carat, stream));
    assert_memory_equal(now, expected, bytes);
    free(now);
}

/* The operands of a work in device memory. */
struct placed {
    void *a;
    void *b;
    void *d;
};

static struct placed placed_create(carat_context *carat, const struct work *w, void *stream)
{
    return (struct placed){device_copy(carat, w->a, w->bytes_a, stream),
                           device_copy(carat, w->b, w->bytes_b, stream), device_memory(carat, w->bytes_d)};
}

static void placed_destroy(carat_context *carat, struct placed *p)
{
    assert_ok(carat_release(carat, p->a));
    assert_ok(carat_release(carat, p->b));
    assert_ok(carat_release(carat, p->d));
}

static carat_status multiply(carat_context *carat, const struct work *w, const struct placed *p, void *stream)
{
    carat_run run = {.stream = stream};
    return carat_gemm(carat, &w->problem, &w->alpha, p->a, p->b, &w->beta, NULL, p->d, &run);
}

static int set_up(void **state)
{
    carat_context *carat = NULL;
    if (carat_context_create(CARAT_DEVICE_CUDA, 0, &carat) != CARAT_OK) {
        fprintf(stderr, "%s\n", carat_last_message());
        return 1;
    }
    *state = carat;
    return 0;
}

/* After every test nothing may be left. */
static int tear_down(void **state)
{
    carat_context_destroy(*state);
    int left = standin_leaks() + standin_pushed();
    standin_reset();
    return left;
}

/* ---- Products on device memory --------------------------------------------------------------- */

static void every_type_multiplies(void **state)
{
    carat_context *carat = *state;
    for (int t = 0; t < TYPE_COUNT; ++t) {
        struct work w = work_create(types[t], 70, 45, 33, 1);
        void *stream;
        assert_ok(carat_stream_create(carat, &stream));
        struct placed p = placed_create(carat, &w, stream);
        assert_ok(multiply(carat, &w, &p, stream));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, stream);
        placed_destroy(carat, &p);
        assert_ok(carat_stream_destroy(carat, stream));
        work_destroy(&w);
    }
}

static void every_order_of_streams_gives_the_same(void **state)
{
    carat_context *carat = *state;
    /* Few results and a long k: split, so that each stream needs workspace of its own. */
    enum { STREAMS = 3 };
    for (uint64_t seed = 0; seed < 5; ++seed) {
        standin_seed(seed);
        struct work w[STREAMS];
        struct placed p[STREAMS];
        void *streams[STREAMS];
        for (int i = 0; i < STREAMS; ++i) {
            w[i] = work_create(CARAT_F32, 40, 30, 700, seed * 10 + (uint64_t)i);
            assert_ok(carat_stream_create(carat, &streams[i]));
            p[i] = placed_create(carat, &w[i], streams[i]);
        }
        for (int round = 0; round < 3; ++round) {
            for (int i = 0; i < STREAMS; ++i) {
                assert_ok(multiply(carat, &w[i], &p[i], streams[i]));
            }
        }
        for (int i = 0; i < STREAMS; ++i) {
            assert_device_holds(carat, p[i].d, w[i].d, w[i].bytes_d, streams[i]);
            placed_destroy(carat, &p[i]);
            assert_ok(carat_stream_destroy(carat, streams[i]));
            work_destroy(&w[i]);
        }
    }
}

static void calls_on_device_memory_return_at_once(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F32, 64, 64, 64, 2);
    void *stream;
    assert_ok(carat_stream_create(carat, &stream));
    struct placed p = placed_create(carat, &w, stream);
    assert_ok(carat_synchronize(carat, stream));
    long launches = standin_launches();
    assert_ok(multiply(carat, &w, &p, stream));
    assert_true(standin_waiting() > 0);
    assert_int_equal(standin_launches(), launches);
    assert_ok(carat_synchronize(carat, stream));
    assert_int_equal(standin_waiting(), 0);
    assert_true(standin_launches() > launches);
    assert_device_holds(carat, p.d, w.d, w.bytes_d, stream);
    placed_destroy(carat, &p);
    assert_ok(carat_stream_destroy(carat, stream));
    work_destroy(&w);
}

static void the_default_stream_works(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F64, 33, 65, 20, 3);
    struct placed p = placed_create(carat, &w, NULL);
    assert_ok(multiply(carat, &w, &p, NULL));
    assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

static void host_scalars_are_read_before_the_call_returns(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F32, 40, 40, 900, 4);
    struct placed p = placed_create(carat, &w, NULL);
    float alpha = 2;
    float beta = 0;
    assert_ok(carat_gemm(carat, &w.problem, &alpha, p.a, p.b, &beta, NULL, p.d, NULL));
    alpha = 77;
    beta = 77;
    assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

static void device_scalars_are_read_when_the_kernel_runs(void **state)
{
    carat_context *carat = *state;
    for (int t = 0; t < TYPE_COUNT; ++t) {
        struct work w = work_create(types[t], 40, 40, 900, 5);
        struct placed p = placed_create(carat, &w, NULL);
        size_t size = carat_type_size(carat_scalar_type(w.problem.type_cd));
        void *scalars = device_memory(carat, 2 * size);
        char *beta = (char *)scalars + size;
        assert_ok(carat_copy(carat, scalars, &w.alpha, size, NULL));
        assert_ok(carat_copy(carat, beta, &w.beta, size, NULL));
        assert_ok(carat_gemm(carat, &w.problem, scalars, p.a, p.b, beta, p.d, p.d, NULL));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
        /* One on the device, one here. */
        assert_ok(carat_gemm(carat, &w.problem, scalars, p.a, p.b, &w.beta, NULL, p.d, NULL));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
        assert_ok(carat_gemm(carat, &w.problem, &w.alpha, p.a, p.b, beta, p.d, p.d, NULL));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
        assert_ok(carat_release(carat, scalars));
        placed_destroy(carat, &p);
        work_destroy(&w);
    }
}

/* ---- Products on host memory ----------------------------------------------------------------- */

static void host_memory_is_complete_on_return(void **state)
{
    carat_context *carat = *state;
    for (int t = 0; t < TYPE_COUNT; ++t) {
        for (int pinned = 0; pinned < 2; ++pinned) {
            struct work w = work_create(types[t], 130, 50, 70, 6);
            void *d = NULL;
            void *a = w.a;
            if (pinned) {
                assert_ok(carat_allocate(carat, CARAT_MEMORY_PINNED, w.bytes_d, &d));
                assert_ok(carat_allocate(carat, CARAT_MEMORY_PINNED, w.bytes_a, &a));
                memcpy(a, w.a, w.bytes_a);
            } else {
                d = malloc(w.bytes_d);
            }
            assert_ok(carat_gemm(carat, &w.problem, &w.alpha, a, w.b, &w.beta, NULL, d, NULL));
            assert_memory_equal(d, w.d, w.bytes_d);
            if (pinned) {
                assert_ok(carat_release(carat, d));
                assert_ok(carat_release(carat, a));
            } else {
                free(d);
            }
            work_destroy(&w);
        }
    }
}

static void mixed_memory_is_refused(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F32, 20, 20, 20, 7);
    struct placed p = placed_create(carat, &w, NULL);
    void *d = calloc(1, w.bytes_d);
    assert_refused(carat_gemm(carat, &w.problem, &w.alpha, w.a, p.b, &w.beta, NULL, p.d, NULL),
                   CARAT_INVALID_ARGUMENT, "a is in host memory");
    assert_refused(carat_gemm(carat, &w.problem, &w.alpha, p.a, w.b, &w.beta, NULL, p.d, NULL),
                   CARAT_INVALID_ARGUMENT, "b is in host memory");
    assert_refused(carat_gemm(carat, &w.problem, &w.alpha, p.a, p.b, &w.beta, NULL, d, NULL),
                   CARAT_INVALID_ARGUMENT, "device memory");
    for (size_t i = 0; i < w.bytes_d; ++i) {
        assert_int_equal(((unsigned char *)d)[i], 0);
    }
    free(d);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

/* ---- Plans and workspace --------------------------------------------------------------------- */

static void plans_run_often_and_explain_themselves(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F32, 40, 30, 2000, 8);
    carat_plan *plan = NULL;
    assert_ok(carat_plan_create(carat, &w.problem, &plan));
    assert_true(strlen(carat_plan_explain(plan)) > 10);
    struct placed p = placed_create(carat, &w, NULL);
    for (int i = 0; i < 3; ++i) {
        assert_ok(carat_plan_run(plan, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, NULL));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
    }
    carat_plan_destroy(plan);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

static void the_callers_workspace_is_used(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_S32, 40, 30, 4000, 9);
    carat_plan *plan = NULL;
    assert_ok(carat_plan_create(carat, &w.problem, &plan));
    size_t needed = carat_plan_workspace(plan);
    assert_true(needed > 0); /* few results, a long k: it is split */
    struct placed p = placed_create(carat, &w, NULL);
    void *workspace = device_memory(carat, needed);
    carat_run run = {.workspace = workspace, .workspace_bytes = needed};
    assert_ok(carat_plan_run(plan, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, &run));
    assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
    run.workspace_bytes = needed - 1;
    assert_refused(carat_plan_run(plan, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, &run),
                   CARAT_WORKSPACE_TOO_SMALL, "workspace");
    /* Also where A is aligned to no more than its elements; but not in host memory, which takes none of it. */
    assert_refused(carat_plan_run(plan, &w.alpha, (char *)p.a + 4, p.b, &w.beta, NULL, p.d, &run),
                   CARAT_WORKSPACE_TOO_SMALL, "workspace");
    void *d = malloc(w.bytes_d);
    assert_non_null(d);
    assert_ok(carat_plan_run(plan, &w.alpha, w.a, w.b, &w.beta, NULL, d, &run));
    assert_memory_equal(d, w.d, w.bytes_d);
    free(d);
    run = (carat_run){.workspace = w.a, .workspace_bytes = needed};
    assert_refused(carat_plan_run(plan, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, &run), CARAT_INVALID_ARGUMENT,
                   "workspace");
    assert_ok(carat_release(carat, workspace));
    carat_plan_destroy(plan);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

/* A call with less workspace than is best is planned with that; a call whose pool cannot grow, with less and less. */
static void short_workspace_makes_another_plan(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_S32, 40, 30, 4000, 9);
    struct placed p = placed_create(carat, &w, NULL);
    carat_plan *plan = NULL;
    assert_ok(carat_plan_create(carat, &w.problem, &plan));
    assert_true(carat_plan_workspace(plan) > 256);
    void *workspace = device_memory(carat, 256);
    for (size_t bytes = 0; bytes <= 256; bytes += 256) {
        carat_run run = {.workspace = workspace, .workspace_bytes = bytes};
        assert_ok(cuda_memset(carat_context_device(carat), p.d, 0xff, w.bytes_d, NULL));
        assert_ok(carat_gemm(carat, &w.problem, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, &run));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
    }
    assert_ok(carat_release(carat, workspace));

    void *stream = NULL; /* whose pool is empty yet */
    assert_ok(carat_stream_create(carat, &stream));
    carat_run run = {.stream = stream};
    assert_ok(cuda_memset(carat_context_device(carat), p.d, 0xff, w.bytes_d, stream));
    standin_set_memory(1);
    assert_ok(carat_plan_run(plan, &w.alpha, p.a, p.b, &w.beta, NULL, p.d, &run));
    assert_device_holds(carat, p.d, w.d, w.bytes_d, stream);
    carat_plan_destroy(plan);
    assert_ok(carat_stream_destroy(carat, stream));
    placed_destroy(carat, &p);
    work_destroy(&w);
}

/* ---- A pool that cannot grow ---- */

/* Runs the plan, and the same as a call; whether the driver was asked for memory, which it did not have. */
static bool asks_for_memory(carat_context *carat, carat_plan *plan, const struct work *w,
                            const struct placed *p, void *stream)
{
    carat_run run = {.stream = stream};
    standin_fail("cuMemAlloc_v2", 1, 2 /* CUDA_ERROR_OUT_OF_MEMORY */);
    set_message("as it was");
    for (int call = 0; call < 2; ++call) {
        assert_ok(cuda_memset(carat_context_device(carat), p->d, 0xff, w->bytes_d, stream));
        assert_ok(call ? multiply(carat, w, p, stream)
                       : carat_plan_run(plan, &w->alpha, p->a, p->b, &w->beta, NULL, p->d, &run));
        assert_device_holds(carat, p->d, w->d, w->bytes_d, stream);
    }
    /* A call that does with less has not failed, whatever it was refused on its way. */
    assert_string_equal(carat_last_message(), "as it was");
    bool asked = standin_failed() != NULL;
    standin_fail(NULL, 0, 0);
    return asked;
}

/* What may have brought memory back, as far as the context can know. */
static void make_a_plan(carat_context *carat, const struct work *w)
{
    carat_plan *plan = NULL;
    assert_ok(carat_plan_create(carat, &w->problem, &plan));
    assert_true(carat_plan_workspace(plan) > 0); /* the default stream's pool was not short */
    carat_plan_destroy(plan);
}

static void release_memory(carat_context *carat, const struct work *w)
{
    (void)w;
    standin_set_memory((size_t)64 << 20);
    void *memory = device_memory(carat, 1);
    standin_set_memory(1);
    assert_ok(carat_release(carat, memory));
}

static void destroy_a_stream(carat_context *carat, const struct work *w)
{
    (void)w;
    void *stream = NULL;
    assert_ok(carat_stream_create(carat, &stream));
    assert_ok(carat_stream_destroy(carat, stream));
}

/* A plan that is made while there is no room for the best one says nothing of that in the message. */
static void plans_made_where_memory_is_short(void **state)
{
    carat_context *carat = *state;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_S32, 40, 30, 4000);
    carat_plan *plan = NULL;
    standin_set_memory(1);
    set_message("as it was");
    assert_ok(carat_plan_create(carat, &problem, &plan));
    assert_string_equal(carat_last_message(), "as it was");
    assert_int_equal(carat_plan_workspace(plan), 0);
    carat_plan_destroy(plan);
}

/* The driver is asked once; then not until there may be room again, and then once more. */
static void a_pool_that_cannot_grow_is_remembered(void **state)
{
    carat_context *carat = *state;
    static void (*const bring_back[])(carat_context *, const struct work *) = {make_a_plan, release_memory,
                                                                               destroy_a_stream};
    struct work w = work_create(CARAT_S32, 40, 30, 4000, 9);
    struct placed p = placed_create(carat, &w, NULL);
    struct work small = work_create(CARAT_S32, 10, 8, 4000, 10);
    struct placed q = placed_create(carat, &small, NULL);
    carat_plan *plan = NULL;
    carat_plan *small_plan = NULL;
    void *stream = NULL;
    assert_ok(carat_plan_create(carat, &w.problem, &plan));
    assert_ok(carat_plan_create(carat, &small.problem, &small_plan));
    assert_in_range(carat_plan_workspace(small_plan), 1, carat_plan_workspace(plan) - 1);
    assert_ok(carat_stream_create(carat, &stream));
    standin_set_memory(1);
    assert_true(asks_for_memory(carat, plan, &w, &p, stream));
    assert_false(asks_for_memory(carat, plan, &w, &p, stream));
    for (size_t i = 0; i < sizeof bring_back / sizeof bring_back[0]; ++i) {
        bring_back[i](carat, &w);
        assert_true(asks_for_memory(carat, plan, &w, &p, stream));
        assert_false(asks_for_memory(carat, plan, &w, &p, stream));
    }

    /* Memory that came back elsewhere it does not hear of; but what takes less than there was no room for may have it. */
    standin_set_memory((size_t)64 << 20);
    assert_false(asks_for_memory(carat, plan, &w, &p, stream));
    assert_true(asks_for_memory(carat, small_plan, &small, &q, stream));
    assert_false(asks_for_memory(carat, small_plan, &small, &q, stream));
    assert_false(asks_for_memory(carat, plan, &w, &p, stream));
    carat_plan_destroy(plan);
    carat_plan_destroy(small_plan);
    assert_ok(carat_stream_destroy(carat, stream));
    placed_destroy(carat, &p);
    placed_destroy(carat, &q);
    work_destroy(&w);
    work_destroy(&small);
}

/* What cannot do without workspace is refused where there is none: nothing is tried for ever. */
static void what_needs_workspace_is_refused_without(void **state)
{
    carat_context *carat = *state;
    enum { SIDE = 4096 };
    const float one = 1;
    const float zero = 0;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_E4M3, SIDE, SIDE, SIDE);
    problem.accuracy = CARAT_ACCURACY_STRICT; /* A and B as f16, 64 MB */
    void *ab = device_memory(carat, (size_t)SIDE * SIDE);
    void *d = device_memory(carat, (size_t)SIDE * SIDE * 2);
    carat_plan *plan = NULL;
    standin_set_memory(1);
    assert_refused(carat_gemm(carat, &problem, &one, ab, ab, &zero, NULL, d, NULL),
                   CARAT_OUT_OF_DEVICE_MEMORY, "bytes are wanted");
    assert_refused(carat_plan_create(carat, &problem, &plan), CARAT_OUT_OF_DEVICE_MEMORY, "bytes are wanted");
    assert_null(plan);
    assert_ok(carat_release(carat, ab));
    assert_ok(carat_release(carat, d));
}

/* Matrices in host memory take room on the device beside the workspace: the call does with less of that. */
static void host_calls_do_with_less_workspace(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_S32, 40, 30, 4000, 9);
    struct problem problem;
    struct plan plan;
    assert_ok(problem_check(&w.problem, &problem));
    assert_ok(plan_choose(&carat_context_device(carat)->traits, &problem, &plan));
    assert_true(plan.workspace_bytes > 4096);
    void *d = malloc(w.bytes_d);
    assert_non_null(d);
    memset(d, 0xff, w.bytes_d);
    standin_set_memory(w.bytes_a + w.bytes_b + w.bytes_d + 1024);
    set_message("as it was");
    assert_ok(carat_gemm(carat, &w.problem, &w.alpha, w.a, w.b, &w.beta, NULL, d, NULL));
    assert_string_equal(carat_last_message(), "as it was");
    assert_memory_equal(d, w.d, w.bytes_d);
    standin_set_memory(w.bytes_a);
    assert_refused(carat_gemm(carat, &w.problem, &w.alpha, w.a, w.b, &w.beta, NULL, d, NULL),
                   CARAT_OUT_OF_DEVICE_MEMORY, "bytes are wanted");
    free(d);
    work_destroy(&w);
}

/* The kernels that a call on host memory launches. */
static long launches_of_host_call(carat_context *carat, const struct work *w, const carat_run *run)
{
    void *d = malloc(w->bytes_d);
    assert_non_null(d);
    long before = standin_launches();
    assert_ok(carat_gemm(carat, &w->problem, &w->alpha, w->a, w->b, &w->beta, NULL, d, run));
    assert_memory_equal(d, w->d, w->bytes_d);
    free(d);
    return standin_launches() - before;
}

/* And as they do not use the caller's workspace, they are planned as if there were none. */
static void host_calls_make_nothing_of_the_callers_workspace(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_S32, 40, 30, 4000, 9);
    carat_run run = {.workspace = device_memory(carat, 256), .workspace_bytes = 256};
    long launches = launches_of_host_call(carat, &w, NULL);
    assert_true(launches > 1); /* K is split, and a reduce comes last */
    assert_int_equal(launches_of_host_call(carat, &w, &run), launches);
    assert_ok(carat_release(carat, run.workspace));
    work_destroy(&w);
}

/*
 * A plan is made for addresses that kernels like; elsewhere it gives way to another one, which takes the pool's
 * workspace where it needs more than the caller has brought for the plan he knows.
 */
static void plans_run_at_any_address(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F16, 128, 64, 64, 13);
    carat_plan *plan;
    assert_ok(carat_plan_create(carat, &w.problem, &plan));
    size_t needed = carat_plan_workspace(plan);
    void *workspace = device_memory(carat, needed + 256);
    char *a = device_memory(carat, w.bytes_a + 2);
    char *b = device_memory(carat, w.bytes_b + 2);
    void *d = device_memory(carat, w.bytes_d);
    for (int odd = 0; odd < 4; ++odd) {
        const char *here_a = a + (odd & 1 ? 2 : 0);
        const char *here_b = b + (odd & 2 ? 2 : 0);
        carat_run run = {.workspace = odd ? workspace : NULL, .workspace_bytes = odd ? needed : 0};
        assert_ok(carat_copy(carat, (void *)(uintptr_t)here_a, w.a, w.bytes_a, NULL));
        assert_ok(carat_copy(carat, (void *)(uintptr_t)here_b, w.b, w.bytes_b, NULL));
        assert_ok(cuda_memset(carat_context_device(carat), d, 0xff, w.bytes_d, NULL));
        assert_ok(carat_plan_run(plan, &w.alpha, here_a, here_b, &w.beta, NULL, d, &run));
        assert_device_holds(carat, d, w.d, w.bytes_d, NULL);
    }
    carat_plan_destroy(plan);
    assert_ok(carat_release(carat, workspace));
    assert_ok(carat_release(carat, a));
    assert_ok(carat_release(carat, b));
    assert_ok(carat_release(carat, d));
    work_destroy(&w);
}

/* A problem of odd sizes in one of the layouts, its second operand shared by the batch. */
static carat_gemm_problem odd_problem(carat_type type, int layout, struct random *random)
{
    carat_gemm_problem p = carat_gemm_describe(type, random_between(random, 1, 150),
                                               random_between(random, 1, 150), random_between(random, 1, 70));
    p.op_a = layout & 1 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.op_b = layout & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.batch = random_between(random, 1, 3);
    p.lda = (p.op_a ? p.k : p.m) + random_between(random, 0, 3);
    p.ldb = (p.op_b ? p.n : p.k) + random_between(random, 0, 3);
    p.stride_a = p.lda * (p.op_a ? p.m : p.k) + 1;
    p.stride_d = p.m * p.n;
    return p;
}

static void check_packed_product(carat_context *carat, const carat_gemm_problem *described,
                                 struct random *random)
{
    struct device *device = carat_context_device(carat);
    carat_type type = described->type_a;
    struct problem problem;
    struct plan plan;
    assert_ok(problem_check(described, &problem));
    assert_ok(plan_choose_packed(&device->traits, &problem, &plan));
    assert_true(plan_has(&plan, STEP_PACK));

    carat_type type_d = described->type_cd;
    size_t size = carat_type_size(type);
    size_t size_d = carat_type_size(type_d);
    int64_t count_a = described->stride_a * described->batch;
    int64_t count_b = described->ldb * (described->op_b ? described->k : described->n);
    int64_t count_d = described->stride_d * described->batch;
    void *a = filled(type, count_a, random);
    void *b = filled(type, count_b, random);
    void *d = malloc((size_t)count_d * size_d);
    assert_non_null(d);
    double alpha = 0;
    double beta = 0;
    element_set(carat_scalar_type(type_d), &alpha, 0, 2);
    struct placed p = {device_copy(carat, a, (size_t)count_a * size, NULL),
                       device_copy(carat, b, (size_t)count_b * size, NULL),
                       device_memory(carat, (size_t)count_d * size_d)};
    struct operands operands = {.alpha = &alpha, .a = p.a, .b = p.b, .beta = &beta, .d = p.d};
    carat_run run = {.workspace = device_memory(carat, plan.workspace_bytes),
                     .workspace_bytes = plan.workspace_bytes};
    assert_ok(device->functions->gemm(device, &plan, &operands, &run));
    for (int64_t batch = 0; batch < described->batch; ++batch) {
        for (int64_t j = 0; j < described->n; ++j) {
            for (int64_t i = 0; i < described->m; ++i) {
                struct expected expected =
                    reference_gemm(described, &alpha, a, b, &beta, NULL, NULL, batch, i, j);
                element_set(type_d, d, batch * described->stride_d + i + j * described->m, expected.value);
            }
        }
    }
    assert_device_holds(carat, p.d, d, (size_t)count_d * size_d, NULL);

    /* With alpha 0 A and B are not read: they may be nowhere. */
    alpha = 0;
    operands.a = NULL;
    operands.b = NULL;
    assert_ok(device->functions->gemm(device, &plan, &operands, &run));
    memset(d, 0, (size_t)count_d * size_d);
    assert_device_holds(carat, p.d, d, (size_t)count_d * size_d, NULL);
    assert_ok(carat_release(carat, run.workspace));
    placed_destroy(carat, &p);
    free(a);
    free(b);
    free(d);
}

static void odd_products_may_be_packed(void **state)
{
    struct random random = {77};
    for (int i = 0; i < 4 * TYPE_COUNT; ++i) {
        carat_gemm_problem p = odd_problem(types[i / 4], i % 4, &random);
        check_packed_product(*state, &p, &random);
    }
}

/* ---- Scalars --------------------------------------------------------------------------------- */

static struct {
    CUresult (*ask)(unsigned count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer);
    int times;
} questions;

static CUresult count_questions(unsigned count, CUpointer_attribute *attributes, void **values,
                                CUdeviceptr pointer)
{
    questions.times++;
    return questions.ask(count, attributes, values, pointer);
}

/* Calls and how often they asked the driver where something lies; A, B and D always, whose product is right. */
static int questions_of(carat_context *carat, const struct work *w, const struct placed *p,
                        const float *alpha, const float *beta)
{
    questions.times = 0;
    questions.ask = driver.cuPointerGetAttributes;
    driver.cuPointerGetAttributes = count_questions;
    carat_status status = carat_gemm(carat, &w->problem, alpha, p->a, p->b, beta, NULL, p->d, NULL);
    driver.cuPointerGetAttributes = questions.ask;
    assert_ok(status);
    assert_device_holds(carat, p->d, w->d, w->bytes_d, NULL);
    return questions.times;
}

struct asker {
    carat_context *carat;
    const struct work *w;
    const struct placed *p;
    const float *others; /* on another thread's stack */
    int own;
    int shared;
};

static void *ask_from_a_thread(void *given)
{
    struct asker *asker = given;
    float scalars[2] = {asker->others[0], asker->others[1]};
    asker->own = questions_of(asker->carat, asker->w, asker->p, &scalars[0], &scalars[1]);
    asker->shared = questions_of(asker->carat, asker->w, asker->p, &asker->others[0], &asker->others[1]);
    return NULL;
}

/* Of scalars on the caller's own stack the driver is not asked: of those elsewhere it is, another thread's stack as well. */
static void scalars_on_the_stack_need_no_question(void **state)
{
    carat_context *carat = *state;
    struct work w = work_create(CARAT_F32, 9, 7, 5, 21);
    struct placed p = placed_create(carat, &w, NULL);
    float scalars[2] = {2, 0}; /* as work_multiply() does it */
    float *heap = malloc(sizeof(scalars));
    assert_non_null(heap);
    memcpy(heap, scalars, sizeof(scalars));
    assert_int_equal(questions_of(carat, &w, &p, &scalars[0], &scalars[1]), 3);
    assert_int_equal(questions_of(carat, &w, &p, &heap[0], &scalars[1]), 4);
    assert_int_equal(questions_of(carat, &w, &p, &heap[0], &heap[1]), 5);
    struct asker asker = {.carat = carat, .w = &w, .p = &p, .others = scalars};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, ask_from_a_thread, &asker), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(asker.own, 3);
    assert_int_equal(asker.shared, 5);
    free(heap);
    placed_destroy(carat, &p);
    work_destroy(&w);
}

/* ---- Graphs ---------------------------------------------------------------------------------- */

static void a_planned_call_can_be_captured(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    for (int t = 0; t < TYPE_COUNT; ++t) {
        struct work w = work_create(types[t], 40, 30, 1500, 10);
        struct work other = work_create(types[t], 40, 30, 1500, 11);
        carat_plan *plan = NULL;
        void *stream;
        void *graph = NULL;
        assert_ok(carat_plan_create(carat, &w.problem, &plan));
        assert_ok(carat_stream_create(carat, &stream));
        struct placed p = placed_create(carat, &w, stream);
        assert_ok(multiply(carat, &w, &p, stream));
        assert_ok(carat_synchronize(carat, stream));
        assert_ok(cuda_memset(device, p.d, 0, w.bytes_d, stream));
        assert_ok(carat_synchronize(carat, stream));

        assert_ok(cuda_capture_begin(device, stream));
        assert_ok(multiply(carat, &w, &p, stream));
        assert_ok(cuda_capture_end(device, stream, &graph));
        assert_int_equal(standin_waiting(), 0); /* recorded, not run */

        assert_ok(cuda_graph_launch(device, graph, stream));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, stream);
        /* The graph reads what its matrices hold when it runs. */
        assert_ok(carat_copy(carat, p.a, other.a, other.bytes_a, stream));
        assert_ok(carat_copy(carat, p.b, other.b, other.bytes_b, stream));
        assert_ok(cuda_graph_launch(device, graph, stream));
        assert_device_holds(carat, p.d, other.d, other.bytes_d, stream);
        assert_ok(cuda_graph_destroy(device, graph));
        carat_plan_destroy(plan);
        placed_destroy(carat, &p);
        assert_ok(carat_stream_destroy(carat, stream));
        work_destroy(&w);
        work_destroy(&other);
    }
}

/* Memory may come and go in this thread while another's stream is recorded, for which the driver forbids it to all. */
static void memory_is_freed_while_a_stream_is_captured(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    CUstream recorded = NULL;
    CUgraph graph = NULL;
    void *pinned = NULL;
    struct work small = work_create(CARAT_F32, 8, 8, 8, 30);
    struct work large = work_create(CARAT_F32, 150, 130, 110, 31);
    float *d = malloc(large.bytes_d);
    assert_non_null(d);
    assert_ok(carat_allocate(carat, CARAT_MEMORY_PINNED, 100, &pinned));
    void *memory = device_memory(carat, 100);
    assert_ok(cuda_enter(device));
    assert_int_equal(driver.cuStreamCreate(&recorded, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(driver.cuStreamBeginCapture_v2(recorded, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
    /* Calls on host memory, whose buffers have to grow. */
    assert_ok(carat_gemm(carat, &small.problem, &small.alpha, small.a, small.b, &small.beta, NULL, d, NULL));
    assert_ok(carat_gemm(carat, &large.problem, &large.alpha, large.a, large.b, &large.beta, NULL, d, NULL));
    assert_memory_equal(d, large.d, large.bytes_d);
    assert_ok(carat_release(carat, memory));
    assert_ok(carat_release(carat, pinned));
    assert_int_equal(driver.cuStreamEndCapture(recorded, &graph), CUDA_SUCCESS);
    assert_int_equal(driver.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(driver.cuStreamDestroy_v2(recorded), CUDA_SUCCESS);
    cuda_leave(device);
    free(d);
    work_destroy(&small);
    work_destroy(&large);
}

/* A plan asks nothing of the default stream while another one, which that waits for, is being captured. */
static void plans_are_made_while_a_stream_is_captured(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    CUstream recorded = NULL;
    CUgraph graph = NULL;
    carat_plan *plan = NULL;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 16, 16, 20000);
    assert_ok(cuda_enter(device));
    assert_int_equal(driver.cuStreamCreate(&recorded, 0), CUDA_SUCCESS);
    assert_int_equal(driver.cuStreamBeginCapture_v2(recorded, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                     CUDA_SUCCESS);
    assert_ok(carat_plan_create(carat, &problem, &plan));
    assert_true(carat_plan_workspace(plan) > 0);
    assert_int_equal(driver.cuStreamEndCapture(recorded, &graph), CUDA_SUCCESS);
    assert_int_equal(driver.cuGraphDestroy(graph), CUDA_SUCCESS);
    assert_int_equal(driver.cuStreamDestroy_v2(recorded), CUDA_SUCCESS);
    cuda_leave(device);
    carat_plan_destroy(plan);
}

static void elementwise_calls_can_be_captured(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    enum { M = 50, N = 70 };
    static float a[M * N];
    static float scaled[M * N];
    static float turned[M * N];
    for (int i = 0; i < M * N; ++i) {
        a[i] = (float)i;
        scaled[i] = 2 * (float)i + 1;
        turned[i % M * N + i / M] = (float)i;
    }
    float two = 2;
    float one = 1;
    void *stream;
    void *graph = NULL;
    assert_ok(carat_stream_create(carat, &stream));
    carat_run run = {.stream = stream};
    void *from = device_copy(carat, a, sizeof a, stream);
    void *to = device_memory(carat, sizeof a);
    void *across = device_memory(carat, sizeof a);
    run.workspace = (char *)to + 4; /* which does not count */
    assert_ok(carat_scale_add(carat, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, &two, from, M, &one, to, M, &run));
    assert_ok(carat_transpose(carat, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, from, M, across, N, &run));
    run.workspace = NULL;
    assert_ok(cuda_memset(device, to, 0, sizeof a, stream));
    assert_ok(cuda_memset(device, across, 0, sizeof a, stream));
    assert_ok(cuda_capture_begin(device, stream));
    assert_ok(carat_scale_add(carat, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, &two, from, M, &one, to, M, &run));
    assert_ok(carat_transpose(carat, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, from, M, across, N, &run));
    assert_ok(cuda_capture_end(device, stream, &graph));
    assert_ok(cuda_graph_launch(device, graph, stream));
    assert_device_holds(carat, to, scaled, sizeof a, stream);
    assert_device_holds(carat, across, turned, sizeof a, stream);
    assert_ok(cuda_graph_destroy(device, graph));
    assert_ok(carat_release(carat, from));
    assert_ok(carat_release(carat, to));
    assert_ok(carat_release(carat, across));
    assert_ok(carat_stream_destroy(carat, stream));
}

/* ---- Single rows, events --------------------------------------------------------------------- */

static void every_product_row_can_be_run_by_itself(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    int run = 0;
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation != OPERATION_GEMM && row->operation != OPERATION_LADDER) {
            continue;
        }
        if (row->arch_specific) {
            assert_int_equal(cuda_kernel_check(device, row), CARAT_UNSUPPORTED);
            continue;
        }
        struct cuda_kernel_info info;
        assert_ok(cuda_kernel_check(device, row));
        assert_ok(cuda_kernel_query(device, row, &info));
        assert_true(info.max_threads >= kernel_threads(row));
        assert_true(info.blocks_per_multiprocessor >= 1);

        const int64_t k = row->k_limit > 0 && row->k_limit < 64 ? row->k_limit : 64;
        struct work w = work_create((carat_type)row->element, 48, 32, k, 12);
        bool trans_a = row->layout == LAYOUT_TN || row->layout == LAYOUT_TT;
        bool trans_b = row->layout == LAYOUT_NT || row->layout == LAYOUT_TT;
        struct problem problem = {
            .type_a = w.problem.type_a,
            .type_b = w.problem.type_b,
            .type_cd = w.problem.type_cd,
            .trans_a = trans_a,
            .trans_b = trans_b,
            .m = 48,
            .n = 32,
            .k = k,
            .lda = trans_a ? k : 48,
            .ldb = trans_b ? 32 : k,
            .ldc = 48,
            .ldd = 48,
            .batch = 1,
            .accuracy = (carat_accuracy)row->accuracy,
        };
        /* The rows that want a transposed operand get it so. */
        void *a = malloc(w.bytes_a);
        void *b = malloc(w.bytes_b);
        assert_true(a && b);
        for (int64_t l = 0; l < k; ++l) {
            for (int64_t x = 0; x < 48; ++x) {
                element_set(problem.type_a, a, trans_a ? l + x * k : x + l * 48,
                            element_get(problem.type_a, w.a, x + l * 48));
            }
            for (int64_t y = 0; y < 32; ++y) {
                element_set(problem.type_a, b, trans_b ? y + l * 32 : l + y * k,
                            element_get(problem.type_a, w.b, l + y * k));
            }
        }
        struct placed p = {device_copy(carat, a, w.bytes_a, NULL), device_copy(carat, b, w.bytes_b, NULL),
                           device_memory(carat, w.bytes_d)};
        struct operands operands = {.alpha = &w.alpha, .a = p.a, .b = p.b, .beta = &w.beta, .d = p.d};
        if (row->rescues) {
            /* It computes what others leave to it, and nothing by itself. */
            assert_refused(cuda_gemm_with(device, row, &problem, &operands, NULL), CARAT_UNSUPPORTED,
                           "alone does not multiply");
        } else {
            assert_ok(cuda_gemm_with(device, row, &problem, &operands, NULL));
            assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
        }
        placed_destroy(carat, &p);
        free(a);
        free(b);
        work_destroy(&w);
        ++run;
    }
    assert_true(run > 0);
}

static void events_tell_the_time(void **state)
{
    carat_context *carat = *state;
    struct device *device = carat_context_device(carat);
    struct work w = work_create(CARAT_F32, 64, 64, 64, 13);
    struct placed p = placed_create(carat, &w, NULL);
    void *begin = NULL;
    void *end = NULL;
    float milliseconds = -1;
    assert_ok(cuda_event_create(device, &begin));
    assert_ok(cuda_event_create(device, &end));
    assert_ok(cuda_event_record(device, begin, NULL));
    assert_ok(multiply(carat, &w, &p, NULL));
    assert_ok(cuda_event_record(device, end, NULL));
    assert_ok(cuda_event_elapsed_ms(device, begin, end, &milliseconds));
    assert_true(milliseconds > 0);
    assert_ok(cuda_event_destroy(device, begin));
    assert_ok(cuda_event_destroy(device, end));
    assert_ok(cuda_event_destroy(device, NULL));
    placed_destroy(carat, &p);
    work_destroy(&w);
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct worker {
    carat_context *carat;
    const struct work *work;
    bool on_host;
    int failures;
};

static void *multiply_often(void *argument)
{
    struct worker *worker = argument;
    const struct work *w = worker->work;
    carat_context *carat = worker->carat;
    void *stream = NULL;
    void *d = malloc(w->bytes_d);
    worker->failures += !d || carat_stream_create(carat, &stream) != CARAT_OK;
    for (int round = 0; round < 6 && d && !worker->failures; ++round) {
        memset(d, 0xff, w->bytes_d);
        if (worker->on_host) {
            carat_run run = {.stream = stream};
            worker->failures +=
                carat_gemm(carat, &w->problem, &w->alpha, w->a, w->b, &w->beta, NULL, d, &run) != CARAT_OK;
        } else {
            struct placed p = placed_create(carat, w, stream);
            worker->failures += multiply(carat, w, &p, stream) != CARAT_OK;
            worker->failures += carat_copy(carat, d, p.d, w->bytes_d, stream) != CARAT_OK;
            worker->failures += carat_synchronize(carat, stream) != CARAT_OK;
            placed_destroy(carat, &p);
        }
        worker->failures += memcmp(d, w->d, w->bytes_d) != 0;
    }
    worker->failures += carat_stream_destroy(carat, stream) != CARAT_OK;
    free(d);
    return NULL;
}

static void threads_share_a_context(void **state)
{
    enum { THREADS = 6 };
    struct work small = work_create(CARAT_F32, 40, 30, 900, 14);
    struct work other = work_create(CARAT_F64, 65, 20, 30, 15);
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    for (int i = 0; i < THREADS; ++i) {
        workers[i] = (struct worker){*state, i % 2 ? &small : &other, i % 3 == 0, 0};
        assert_int_equal(pthread_create(&threads[i], NULL, multiply_often, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; ++i) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].failures, 0);
    }
    work_destroy(&small);
    work_destroy(&other);
}

/* ---- The device ------------------------------------------------------------------------------ */

static void the_device_describes_itself(void **state)
{
    carat_device_info info;
    char address[32];
    assert_ok(carat_device_query(*state, &info));
    assert_int_equal(info.kind, CARAT_DEVICE_CUDA);
    assert_int_equal(info.index, 0);
    assert_string_equal(info.name, "Stand-in 0");
    assert_int_equal(info.driver_version, 13000);
    assert_int_equal(info.compute_capability_major, 10);
    assert_int_equal(info.compute_capability_minor, 0);
    assert_int_equal(info.multiprocessors, 4);
    assert_int_equal(info.warp_size, 32);
    assert_int_equal(info.max_threads_per_block, 1024);
    assert_int_equal(info.max_threads_per_multiprocessor, 2048);
    assert_int_equal(info.max_warps_per_multiprocessor, 64);
    assert_int_equal(info.max_blocks_per_multiprocessor, 32);
    assert_int_equal(info.max_block_dim[2], 64);
    assert_int_equal(info.max_grid_dim[0], 2147483647);
    assert_int_equal(info.max_grid_dim[1], 65535);
    assert_int_equal(info.registers_per_block, 65536);
    assert_int_equal(info.max_registers_per_thread, 255);
    assert_int_equal(info.register_allocation_unit, 256);
    assert_int_equal(info.warp_allocation_granularity, 4);
    assert_int_equal(info.shared_bytes_per_block, 49152);
    assert_int_equal(info.shared_bytes_per_block_optin, 232448);
    assert_int_equal(info.shared_bytes_reserved, 1024);
    assert_int_equal(info.l2_bytes, 52428800);
    assert_int_equal(info.memory_bytes, 256 << 20);
    assert_int_equal(info.memory_free_bytes, 256 << 20);
    assert_int_equal(info.memory_bus_bits, 5120);
    assert_int_equal(info.copy_engines, 3);
    assert_ok(cuda_pci_address(carat_context_device(*state), address, sizeof address));
    assert_string_equal(address, "0000:00:00.0");
    assert_int_equal(carat_device_count(CARAT_DEVICE_CUDA), 1);
}

static void other_devices_have_other_memory(void **state)
{
    standin_set_devices(2);
    assert_int_equal(carat_device_count(CARAT_DEVICE_CUDA), 2);
    carat_context *second = NULL;
    carat_context *third = NULL;
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 1, &second));
    assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 2, &third), CARAT_NO_DEVICE);
    assert_null(third);
    struct work w = work_create(CARAT_F32, 30, 20, 10, 16);
    struct placed p = placed_create(second, &w, NULL);
    assert_ok(multiply(second, &w, &p, NULL));
    assert_device_holds(second, p.d, w.d, w.bytes_d, NULL);
    assert_int_equal(multiply(*state, &w, &p, NULL), CARAT_INVALID_ARGUMENT);
    placed_destroy(second, &p);
    work_destroy(&w);
    carat_context_destroy(second);
    standin_set_devices(1);
}

/* A device that has neither asynchronous copies nor the double-precision instruction. */
static void an_older_device_has_kernels_too(void **state)
{
    (void)state;
    carat_context *carat = NULL;
    standin_set_capability(75);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    for (int t = 0; t < TYPE_COUNT; ++t) {
        struct work w = work_create(types[t], 50, 60, 40, 17);
        struct placed p = placed_create(carat, &w, NULL);
        assert_ok(multiply(carat, &w, &p, NULL));
        assert_device_holds(carat, p.d, w.d, w.bytes_d, NULL);
        placed_destroy(carat, &p);
        work_destroy(&w);
    }
    for (int i = 0; i < carat_catalog_count; ++i) {
        assert_int_equal(cuda_kernel_check(carat_context_device(carat), &carat_catalog[i]),
                         carat_catalog[i].arch > 75 ? CARAT_UNSUPPORTED : CARAT_OK);
    }
    carat_context_destroy(carat);
    standin_set_capability(90);
}

/* ---- Launches of rows that only Hopper runs, noted as they reach the driver ------------------ */

static struct {
    unsigned grid;
    tensor_gemm_arguments arguments;
    int count;
} noted;

static CUresult note_launch(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)function;
    (void)extra;
    noted.grid = config->gridDimX;
    memcpy(&noted.arguments, arguments[0], sizeof(noted.arguments));
    noted.count++;
    return CUDA_SUCCESS;
}

static CUresult count_launch(const CUlaunchConfig *config, CUfunction function, void **arguments,
                             void **extra)
{
    (void)config;
    (void)function;
    (void)arguments;
    (void)extra;
    noted.count++;
    return CUDA_SUCCESS;
}

static CUresult load_nothing(CUmodule *module, const void *image)
{
    (void)image;
    *module = NULL;
    return CUDA_SUCCESS;
}

static CUresult get_a_function(CUfunction *function, CUmodule module, const char *name)
{
    static char somewhere;
    (void)module;
    (void)name;
    *function = (CUfunction)(void *)&somewhere;
    return CUDA_SUCCESS;
}

static CUresult set_nothing(CUfunction function, CUfunction_attribute attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return CUDA_SUCCESS;
}

/* The driver that notes launches; the one before. */
static struct driver driver_that_notes(void)
{
    struct driver before = driver;
    driver.cuModuleLoadData = load_nothing;
    driver.cuModuleGetFunction = get_a_function;
    driver.cuFuncSetAttribute = set_nothing;
    driver.cuLaunchKernelEx = note_launch;
    return before;
}

/* A product of bf16 whose operands run along k, and where it lies. */
struct along_k {
    struct problem problem;
    struct operands operands;
};

static struct along_k described_along_k(carat_gemm_problem described, void *somewhere)
{
    static const float one = 1;
    static const int32_t one_s32 = 1;
    static const float zero = 0; /* of either type */
    const void *alpha = described.type_cd == CARAT_S32 ? (const void *)&one_s32 : &one;
    struct along_k w = {
        .operands = {.alpha = alpha, .a = somewhere, .b = somewhere, .beta = &zero, .d = somewhere}};
    described.order = CARAT_COLUMN_MAJOR;
    described.op_a = CARAT_TRANSPOSE;
    assert_ok(problem_check(&described, &w.problem));
    return w;
}

static struct along_k along_k(int64_t m, int64_t n, int64_t k, void *somewhere)
{
    return described_along_k(carat_gemm_describe(CARAT_BF16, m, n, k), somewhere);
}

static void take_shared(void *context, const struct candidate *way)
{
    struct candidate *found = context;
    if (way->kernel == found->kernel && way->stream_tiles > 0 && (!way->pack || way->rescue)) {
        *found = *way;
    }
}

/* The way in which a row's clusters share tiles. */
static struct plan sharing_plan(struct device *device, const struct kernel *row,
                                const struct problem *problem)
{
    struct candidate found = {.kernel = row};
    struct plan plan;
    plan_visit(&device->traits, problem, take_shared, &found);
    assert_true(found.stream_tiles > 0);
    assert_ok(plan_of_candidate(&device->traits, problem, &found, &plan));
    return plan;
}

/* That a launch's number is right to divide by: x / divisor is x times it / 2^63, worked out as the kernels do. */
static void assert_divides(uint64_t over, int32_t divisor)
{
    const uint32_t most = INT32_MAX;
    const uint32_t d = (uint32_t)divisor;
    const uint32_t samples[] = {0, 1, d - 1, d, d + 1, most / d * d - 1, most / d * d, most - 1, most};
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); ++i) {
        uint64_t x = samples[i] <= most ? samples[i] : most;
        uint64_t low = x * (uint32_t)over;
        assert_int_equal((x * (uint32_t)(over >> 32) + (low >> 32)) >> 31, x / d);
    }
}

/* Runs a plan and checks what its launch was given; the token. */
static uint64_t launch_shared(struct device *device, const struct plan *plan, const struct along_k *w,
                              const carat_run *run)
{
    const struct kernel *row = plan->steps[0].kernel;
    const tensor_gemm_arguments *given = &noted.arguments;
    int before = noted.count;
    assert_ok(device->functions->gemm(device, plan, &w->operands, run));
    assert_int_equal(noted.count, before + 1);
    assert_int_equal(noted.grid, 4); /* all multiprocessors, however few tiles there are */
    assert_int_equal(given->stream_tiles, plan->stream_tiles);
    assert_divides(given->over_tiles_m, given->gemm.tiles_m);
    assert_divides(given->over_tiles_n, given->gemm.tiles_n);
    assert_int_equal(given->gemm.parts, 1);
    assert_null(given->gemm.partials);
    const char *flags = (const char *)given->stream_flags;
    const char *sums = (const char *)given->stream_sums;
    assert_non_null(flags);
    assert_true(!run->workspace || flags == (char *)run->workspace + plan->partials_at);
    assert_true((uintptr_t)sums % 256 == 0 && sums - flags >= 4 * row->consumers * (int)sizeof(uint64_t));
    assert_true(sums + (size_t)4 * 4 * row->tile_m * row->tile_n <=
                flags - plan->partials_at + plan->workspace_bytes);
    assert_true(given->stream_token != 0);
    return given->stream_token;
}

/* What the launch of a row by itself was given as its number for clusters that keep pace. */
static uint32_t pace_of(struct device *device, const struct kernel *row, const struct along_k *w)
{
    int before = noted.count;
    noted.arguments.pace = 12345;
    assert_ok(cuda_gemm_with(device, row, &w->problem, &w->operands, NULL));
    assert_int_equal(noted.count, before + 1);
    assert_divides(noted.arguments.over_tiles_m, noted.arguments.gemm.tiles_m);
    assert_divides(noted.arguments.over_tiles_n, noted.arguments.gemm.tiles_n);
    return noted.arguments.pace;
}

/*
 * Clusters keep pace where there is more than a tile for each, and A and B have more bytes than sixteen caches; not where they
 * share tiles, nor where nothing is read.
 */
static void large_operands_have_clusters_keep_pace(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    const struct kernel *small = catalog_find("wgmma_bf16_tn_64x128");
    carat_context *carat;
    assert_true(row && small && kernel_keeps_pace(row) && !kernel_keeps_pace(small));
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    void *somewhere = device_memory(carat, 4096);
    struct along_k few = along_k(256, 3 * 128, 1024, somewhere); /* tiles for three of four multiprocessors */
    struct along_k many = along_k(3 * 256, 3 * 128, 1024, somewhere); /* and nine */
    struct plan shared = sharing_plan(device, row, &many.problem);
    carat_run run = {.workspace = device_memory(carat, shared.workspace_bytes),
                     .workspace_bytes = shared.workspace_bytes};
    struct driver before = driver_that_notes();
    int64_t sixteenth = 2 * (3 * 256 + 3 * 128) * 1024 / 16;

    assert_int_equal(cuda_pretend_cache(device, sixteenth), 52428800);
    assert_int_equal(pace_of(device, row, &many), 0);
    assert_int_equal(cuda_pretend_cache(device, sixteenth - 1), sixteenth);
    uint32_t first = pace_of(device, row, &many);
    uint32_t second = pace_of(device, row, &many);
    assert_true(first && second && first != second); /* each launch has its own number */
    assert_int_equal(pace_of(device, small, &many), 0);
    const float nothing = 0;
    struct along_k unread = many;
    unread.operands.alpha = &nothing;
    assert_int_equal(pace_of(device, row, &unread), 0);
    launch_shared(device, &shared, &many, &run);
    assert_int_equal(noted.arguments.pace, 0);
    cuda_pretend_cache(device, 0);
    assert_int_equal(pace_of(device, row, &few), 0);

    driver = before;
    assert_ok(carat_release(carat, run.workspace));
    assert_ok(carat_release(carat, somewhere));
    carat_context_destroy(carat);
    standin_set_capability(100);
}

static void shared_tiles_have_room_and_tokens(void **state)
{
    (void)state;
    enum { TIMES = 8, ALL = 4 * TIMES };
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    assert_true(row && row->stream);
    carat_context *contexts[2];
    uint64_t tokens[ALL];
    int count = 0;
    standin_set_capability(90);
    for (int c = 0; c < 2; ++c) {
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &contexts[c]));
        struct device *device = carat_context_device(contexts[c]);
        void *somewhere = device_memory(contexts[c], 4096);
        struct along_k few = along_k(256, 3 * 128, 1024, somewhere);
        struct along_k many = along_k(3 * 256, 3 * 128, 1024, somewhere);
        struct plan few_plan = sharing_plan(device, row, &few.problem);
        struct plan many_plan = sharing_plan(device, row, &many.problem);
        assert_int_equal(few_plan.stream_tiles, 3);
        assert_int_equal(many_plan.stream_tiles, 5); /* of 9, four of which are a whole wave */
        carat_run own = {.workspace = device_memory(contexts[c], many_plan.workspace_bytes),
                         .workspace_bytes = many_plan.workspace_bytes};
        carat_run pool = {.workspace = NULL};
        struct driver before = driver_that_notes();
        for (int i = 0; i < TIMES; ++i) {
            tokens[count++] = launch_shared(device, &few_plan, &few, i % 2 ? &own : &pool);
            tokens[count++] = launch_shared(device, &many_plan, &many, i % 2 ? &pool : &own);
        }
        /* A row by itself shares nothing, and has no more blocks than there are tiles. */
        assert_ok(cuda_gemm_with(device, row, &few.problem, &few.operands, NULL));
        assert_int_equal(noted.grid, 3);
        assert_int_equal(noted.arguments.tiles, 3);
        assert_int_equal(noted.arguments.stream_tiles, 0);
        assert_true(!noted.arguments.stream_flags && !noted.arguments.stream_sums);
        assert_ok(cuda_gemm_with(device, row, &many.problem, &many.operands, NULL));
        assert_int_equal(noted.grid, 4);
        assert_int_equal(noted.arguments.tiles, 9);
        struct along_k most = along_k((int64_t)1 << 30, (int64_t)1 << 30, 64, somewhere);
        assert_refused(cuda_gemm_with(device, row, &most.problem, &most.operands, NULL), CARAT_UNSUPPORTED,
                       "would need 35184372088832 tiles, but a launch has at most 2147483647");
        driver = before;
        assert_ok(carat_release(contexts[c], own.workspace));
        assert_ok(carat_release(contexts[c], somewhere));
    }
    assert_int_equal(count, ALL);
    for (int i = 0; i < ALL; ++i) {
        for (int j = 0; j < i; ++j) {
            assert_true(tokens[i] != tokens[j]);
        }
    }
    carat_context_destroy(contexts[0]);
    carat_context_destroy(contexts[1]);
    standin_set_capability(100);
}

/* Launches of one plan, a step each. */
static struct {
    const struct plan *plan;
    int count;
    tensor_gemm_arguments product;
    tensor_gemm_arguments safe;
} noted_steps;

static CUresult note_step(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)config;
    (void)function;
    (void)extra;
    assert_true(noted_steps.count < noted_steps.plan->step_count);
    enum step_kind kind = noted_steps.plan->steps[noted_steps.count++].kind;
    if (kind == STEP_MULTIPLY || kind == STEP_SAFE) {
        memcpy(kind == STEP_SAFE ? &noted_steps.safe : &noted_steps.product, arguments[0],
               sizeof(tensor_gemm_arguments));
    }
    return CUDA_SUCCESS;
}

/* Behind close accuracy the product of three parts shares its tiles as that of two does: in its place, by its own token. */
static void safe_product_shares_as_the_one_before(void **state)
{
    (void)state;
    static const struct {
        const char *row;
        carat_op op; /* of A and B */
    } cases[] = {{"wgmma_2xf16_nn_192x128", CARAT_NO_TRANSPOSE},
                 {"wgmma_2xf16_nn_128x128", CARAT_NO_TRANSPOSE},
                 {"wgmma_2xf16_tt_192x128_c2", CARAT_TRANSPOSE}};
    standin_set_capability(90);
    carat_context *carat;
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        const float one = 1;
        const float zero = 0;
        /* So many that a product in parts goes out behind; nothing is read. */
        carat_gemm_problem described = carat_gemm_describe(CARAT_F32, 2400, 2176, 2048);
        described.order = CARAT_COLUMN_MAJOR;
        described.op_a = described.op_b = cases[i].op;
        described.accuracy = CARAT_ACCURACY_CLOSE;
        struct problem problem;
        assert_ok(problem_check(&described, &problem));
        const struct kernel *row = catalog_find(cases[i].row);
        assert_non_null(row);
        struct plan plan = sharing_plan(device, row, &problem);
        assert_int_equal(plan.step_count, 5);
        assert_int_equal(plan.steps[3].kind, STEP_SAFE);
        assert_true(kernel_shares_as(plan.steps[3].kernel, row));
        void *somewhere = device_memory(carat, 4096);
        carat_run run = {.workspace = device_memory(carat, plan.workspace_bytes),
                         .workspace_bytes = plan.workspace_bytes};
        struct operands operands = {
            .alpha = &one, .a = somewhere, .b = somewhere, .beta = &zero, .d = somewhere};
        struct driver before = driver_that_notes();
        driver.cuLaunchKernelEx = note_step;
        noted_steps.plan = &plan;
        noted_steps.count = 0;
        assert_ok(device->functions->gemm(device, &plan, &operands, &run));
        driver = before;
        const tensor_gemm_arguments *product = &noted_steps.product;
        const tensor_gemm_arguments *safe = &noted_steps.safe;
        assert_int_equal(noted_steps.count, 5);
        assert_int_equal(product->stream_tiles, plan.stream_tiles);
        assert_int_equal(safe->stream_tiles, plan.stream_tiles);
        assert_true(product->stream_flags && product->stream_sums);
        assert_ptr_equal(safe->stream_flags, product->stream_flags);
        assert_ptr_equal(safe->stream_sums, product->stream_sums);
        assert_true(product->stream_token != 0 && safe->stream_token != 0);
        assert_true(product->stream_token != safe->stream_token);
        assert_ok(carat_release(carat, run.workspace));
        assert_ok(carat_release(carat, somewhere));
    }
    carat_context_destroy(carat);
    standin_set_capability(100);
}

/* ---- Packs ----------------------------------------------------------------------------------- */

static struct {
    unsigned grid;
    pack_arguments arguments;
    int count;
} noted_pack;

/* Of the launches of a product the first. */
static CUresult note_pack(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)function;
    (void)extra;
    if (noted_pack.count++ == 0) {
        noted_pack.grid = config->gridDimX;
        memcpy(&noted_pack.arguments, arguments[0], sizeof(noted_pack.arguments));
    }
    return CUDA_SUCCESS;
}

/* Plans a product that begins with a pack and launches it, of which the pack is noted; the row that packs. */
static const struct kernel *launch_noted_pack(struct device *device, const carat_gemm_problem *described,
                                              const struct operands *operands)
{
    struct problem problem;
    struct plan plan;
    carat_run run = {.workspace = NULL};
    assert_ok(problem_check(described, &problem));
    assert_ok(plan_choose_packed(&device->traits, &problem, &plan));
    assert_int_equal(plan.steps[0].kind, STEP_PACK);
    struct driver before = driver_that_notes();
    driver.cuLaunchKernelEx = note_pack;
    noted_pack.count = 0;
    assert_ok(device->functions->gemm(device, &plan, operands, &run));
    driver = before;
    return plan.steps[0].kernel;
}

/* Blocks for an operand in so many rounds. */
static int64_t blocks_in_rounds(const struct kernel *pack, const pack_operand *operand, int64_t rounds)
{
    int64_t packs = operand->columns_to * operand->ld_to * operand->problems * pack->element_bytes / 16;
    int64_t at_once = pack->threads_x * rounds;
    return operand->turned ? (int64_t)operand->tiles_m * operand->tiles_n * operand->problems
                           : (packs + at_once - 1) / at_once;
}

/* Checks the launch of a pack on the stand-in's four multiprocessors; whether an operand is turned over. */
static bool check_pack_launch(const struct kernel *pack)
{
    const pack_operand *a = &noted_pack.arguments.a;
    const pack_operand *b = &noted_pack.arguments.b;
    int64_t rounds = a->turned ? b->rounds : a->rounds;
    int64_t places = (int64_t)4 * kernel_most_resident(pack);
    assert_int_equal(noted_pack.arguments.blocks_a, blocks_in_rounds(pack, a, rounds));
    assert_int_equal(noted_pack.grid, blocks_in_rounds(pack, a, rounds) + blocks_in_rounds(pack, b, rounds));
    assert_in_range(rounds, 1, 32);
    if (a->turned || b->turned) {
        assert_true(b->turned || !b->from); /* tiles end the launch */
        return true;
    }
    assert_true(rounds == 32 || noted_pack.grid <= places);
    assert_true(rounds == 1 ||
                blocks_in_rounds(pack, a, rounds - 1) + blocks_in_rounds(pack, b, rounds - 1) > places);
    return false;
}

/* One wave of blocks for both operands, in no more rounds than that takes. */
static void packs_are_one_wave(void **state)
{
    (void)state;
    static const carat_type packed_types[] = {CARAT_BF16, CARAT_F32, CARAT_F64};
    static const int64_t sizes[] = {33, 129, 257, 385, 513, 771, 1023};
    enum { COUNT = 3 * 4 * 7 }; /* types, layouts and sizes */
    int turned = 0;
    carat_context *carat = NULL;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    double one = 0;
    double zero = 0;
    void *somewhere = device_memory(carat, 4096);
    struct operands operands = {.alpha = &one, .a = somewhere, .b = somewhere, .beta = &zero, .d = somewhere};
    for (int number = 0; number < COUNT; ++number) {
        carat_type type = packed_types[number % 3];
        int64_t size = sizes[number / 12];
        carat_gemm_problem described = carat_gemm_describe(type, size, size, size);
        described.order = CARAT_COLUMN_MAJOR;
        described.op_a = number / 3 % 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        described.op_b = number / 6 % 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        described.accuracy = type == CARAT_F32 ? CARAT_ACCURACY_FAST : CARAT_ACCURACY_STANDARD;
        element_set(carat_scalar_type(type), &one, 0, 1);
        const struct kernel *kernel = launch_noted_pack(device, &described, &operands);
        turned += check_pack_launch(kernel);
    }
    assert_ok(carat_release(carat, somewhere));
    carat_context_destroy(carat);
    standin_set_capability(100);
    assert_in_range(turned, 1, COUNT - 1); /* both are seen */
}

/* Blocks of an operand that is turned over: where its columns begin at packs they share its tiles, else each has one. */
static void check_blocks_that_turn(const pack_operand *operand, int64_t blocks, int64_t places)
{
    int64_t tiles = (int64_t)operand->tiles_m * operand->tiles_n * operand->problems;
    assert_true(operand->turned);
    if ((uint64_t)operand->ld % 16 == 0) {
        assert_in_range(blocks, 1, tiles < places ? tiles : places);
    } else {
        assert_int_equal(blocks, tiles);
    }
}

/* Of bytes whose columns begin at packs the blocks of one wave turn over all tiles, of both operands as many as these are large. */
static void bytes_are_turned_over_by_one_wave(void **state)
{
    (void)state;
    static const int64_t sizes[] = {512, 1040, 1552, 2048, 3088, 1023, 1028};
    carat_context *carat = NULL;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    const int32_t one = 1;
    const int32_t zero = 0;
    void *somewhere = device_memory(carat, 4096);
    struct operands operands = {.alpha = &one, .a = somewhere, .b = somewhere, .beta = &zero, .d = somewhere};
    int shared = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        carat_gemm_problem described = carat_gemm_describe(CARAT_S8, sizes[i], sizes[i], sizes[i]);
        described.order = CARAT_COLUMN_MAJOR; /* NT: both lie across k */
        described.op_b = CARAT_TRANSPOSE;
        const struct kernel *kernel = launch_noted_pack(device, &described, &operands);
        const pack_arguments *pack = &noted_pack.arguments;
        int64_t places = (int64_t)4 * kernel_most_resident(kernel);
        int64_t blocks_b = noted_pack.grid - pack->blocks_a;
        if (pack->b.turned) { /* of one that is turned and one that is not it comes last */
            check_blocks_that_turn(&pack->b, blocks_b, places);
            shared += blocks_b < (int64_t)pack->b.tiles_m * pack->b.tiles_n;
        }
        if (pack->a.turned) {
            check_blocks_that_turn(&pack->a, pack->blocks_a, places);
            assert_true(sizes[i] % 16 != 0 || noted_pack.grid <= places);
        }
    }
    assert_true(shared >= 3); /* blocks with several tiles have been seen */
    assert_ok(carat_release(carat, somewhere));
    carat_context_destroy(carat);
    standin_set_capability(100);
}

/* ---- Launches before the kernel ahead has ended ---------------------------------------------- */

static int ptx_version; /* that the driver tells of what it has loaded */
static struct driver driver_behind;

static CUresult tell_ptx_version(int *value, CUfunction_attribute attribute, CUfunction function)
{
    if (attribute != CU_FUNC_ATTRIBUTE_PTX_VERSION) {
        return driver_behind.cuFuncGetAttribute(value, attribute, function);
    }
    *value = ptx_version;
    return ptx_version < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static unsigned early_launches;

static CUresult count_early(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    early_launches += config->numAttrs;
    return driver_behind.cuLaunchKernelEx(config, function, arguments, extra);
}

/* Code that was compiled from what is older than 9.0 does not wait for the kernel ahead, whatever the row says. */
static void only_code_that_waits_starts_early(void **state)
{
    (void)state;
    static const struct {
        int capability;
        int version;
        int ptx;
        bool early;
    } cases[] = {{90, 13000, 90, true},  {90, 13000, 0, true},   {90, 13000, 75, false},
                 {90, 13000, 80, false}, {90, 13000, -1, false}, {100, 13000, 90, false},
                 {90, 12020, 90, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        carat_context *carat = NULL;
        standin_set_capability(cases[i].capability);
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct work w = work_create(CARAT_F32, 8, 6, 5, 20);
        struct placed p = placed_create(carat, &w, NULL);
        driver_behind = driver;
        driver.cuFuncGetAttribute = tell_ptx_version;
        driver.cuLaunchKernelEx = count_early;
        driver.version = cases[i].version;
        ptx_version = cases[i].ptx;
        early_launches = 0;
        carat_status status = multiply(carat, &w, &p, NULL);
        driver = driver_behind;
        assert_ok(status);
        assert_int_equal(early_launches, cases[i].early);
        placed_destroy(carat, &p);
        work_destroy(&w);
        carat_context_destroy(carat);
    }
    standin_set_capability(100);
}

/* ---- Products of planes: the steps around the product, which itself only Hopper runs ---------- */

static struct {
    struct driver before;
    const struct plan *plan;
    bool spoils; /* every third part of D, as a product does whose sums are not all finite there */
    int products;
    tensor_gemm_arguments arguments;
} planes;

/* A row of Hopper alone is loaded as nothing, and runs as note_planes(). */
static CUresult load_but_planes(CUmodule *module, const void *image)
{
    return image == planes.plan->steps[1].kernel->image ? load_nothing(module, image)
                                                        : planes.before.cuModuleLoadData(module, image);
}

static CUresult get_function_but_planes(CUfunction *function, CUmodule module, const char *name)
{
    return module ? planes.before.cuModuleGetFunction(function, module, name)
                  : get_a_function(function, module, name);
}

static bool is_planes_function(CUfunction function)
{
    CUfunction nothing;
    get_a_function(&nothing, NULL, NULL);
    return function == nothing;
}

static CUresult set_attribute_but_planes(CUfunction function, CUfunction_attribute attribute, int value)
{
    return is_planes_function(function) ? CUDA_SUCCESS
                                        : planes.before.cuFuncSetAttribute(function, attribute, value);
}

static int64_t parts_of_d(const struct problem *p, int64_t rows)
{
    return (p->m + rows - 1) / rows * ((p->n + 15) / 16) * p->batch;
}

/* In the product's place: it says which parts of D it has left alone. */
static CUresult launch_but_planes(const CUlaunchConfig *config, CUfunction function, void **arguments,
                                  void **extra)
{
    if (!is_planes_function(function)) {
        return planes.before.cuLaunchKernelEx(config, function, arguments, extra);
    }
    memcpy(&planes.arguments, arguments[0], sizeof(planes.arguments));
    planes.products++;
    const verdict_arguments *verdict = &planes.arguments.gemm.verdict;
    CUdeviceptr words = (CUdeviceptr)(uintptr_t)verdict->spoiled;
    int64_t parts = planes.plan->parts;
    int64_t count = parts_of_d(&planes.plan->problem, verdict->spoiled_rows) * parts;
    CUresult result = driver.cuMemsetD8Async(words, 0, (size_t)count * 4, config->hStream);
    for (int64_t i = 0; planes.spoils && i < count && result == CUDA_SUCCESS; i += 3) {
        result = driver.cuMemsetD8Async(words + (CUdeviceptr)i * 4, 0xff, 4, config->hStream);
    }
    CUdeviceptr partials = (CUdeviceptr)(uintptr_t)planes.arguments.gemm.partials;
    if (partials != 0 && result == CUDA_SUCCESS) {
        const struct problem *p = &planes.plan->problem;
        result = driver.cuMemsetD8Async(partials, 0, (size_t)(p->m * p->n * parts) * 4, config->hStream);
    }
    return result;
}

enum computed { NOTHING, SUMS_OF_NOTHING, SPOILED_PARTS, EVERYTHING };

/* Runs the plan of a work, D first all NaN; what is computed must be right, and all else as it was. */
static void assert_planes_leave(carat_context *carat, const struct plan *plan, const struct work *w,
                                enum computed computed)
{
    struct device *device = carat_context_device(carat);
    const struct problem *p = &plan->problem;
    struct placed at = placed_create(carat, w, NULL);
    struct operands operands = {.alpha = &w->alpha, .a = at.a, .b = at.b, .beta = &w->beta, .d = at.d};
    carat_run run = {.workspace = NULL};
    uint32_t *expected = malloc(w->bytes_d);
    assert_non_null(expected);
    memcpy(expected, w->d, w->bytes_d);
    int64_t rows = plan->steps[1].kernel->tile_m;
    int64_t words = (p->m + rows - 1) / rows;
    for (int64_t i = 0; i < p->m * p->n; ++i) {
        int64_t word = i / p->m / 16 * words + i % p->m / rows;
        if (computed == NOTHING || (computed == SPOILED_PARTS && word % 3 != 0)) {
            expected[i] = 0xffffffff;
        } else if (computed == SUMS_OF_NOTHING) {
            expected[i] = 0;
        }
    }
    planes.plan = plan;
    planes.spoils = computed > SUMS_OF_NOTHING; /* of which nothing must be asked where all is computed */
    planes.products = 0;
    planes.before = driver;
    driver.cuModuleLoadData = load_but_planes;
    driver.cuModuleGetFunction = get_function_but_planes;
    driver.cuFuncSetAttribute = set_attribute_but_planes;
    driver.cuLaunchKernelEx = launch_but_planes;
    assert_ok(cuda_memset(device, at.d, 0xff, w->bytes_d, NULL));
    assert_ok(device->functions->gemm(device, plan, &operands, &run));
    assert_ok(carat_synchronize(carat, NULL));
    driver = planes.before;
    assert_int_equal(planes.products, 1);
    const gemm_arguments *given = &planes.arguments.gemm;
    assert_true(given->a != at.a && given->b != at.b && given->lda == plan->product.lda);
    assert_int_equal(given->verdict.spoiled_rows, rows);
    assert_int_equal(given->verdict.short_k, p->k < 2048);
    assert_true(given->verdict.count_a >= 1 && given->verdict.count > given->verdict.count_a);
    assert_device_holds(carat, at.d, expected, w->bytes_d, NULL);
    free(expected);
    placed_destroy(carat, &at);
}

struct in_parts {
    const struct kernel *row;
    int parts;
    struct candidate found;
};

static void take_in_parts(void *context, const struct candidate *way)
{
    struct in_parts *wanted = context;
    if (way->kernel == wanted->row && way->parts == wanted->parts && way->stream_tiles == 0) {
        wanted->found = *way;
    }
}

/* The way in which a row multiplies so many parts of K. */
static struct plan plan_in_parts(struct device *device, const struct kernel *row,
                                 const struct problem *problem, int parts)
{
    struct in_parts wanted = {.row = row, .parts = parts};
    struct plan plan;
    plan_visit(&device->traits, problem, take_in_parts, &wanted);
    assert_non_null(wanted.found.kernel);
    assert_ok(plan_of_candidate(&device->traits, problem, &wanted.found, &plan));
    assert_int_equal(plan.parts, parts);
    return plan;
}

/* Of an A of small integers with a lesser element in it, which no column of B has to do with. */
static void what_planes_leave_is_computed_from_f32(void **state)
{
    (void)state;
    carat_context *carat = NULL;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    const struct kernel *row = catalog_find("wgmma_3xbf16_nn_64x128");
    assert_non_null(row);
    static const struct {
        int64_t k;
        int exponent; /* of the lesser element */
        bool refused;
    } cases[] = {{64, 0, false},     {64, -63, false},    {64, -64, true},
                 {2048, -64, false}, {2048, -100, false}, {2048, -101, true}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        struct work w = work_create(CARAT_F32, 300, 72, cases[i].k, 23);
        for (int64_t j = 0; j < 72; ++j) {
            element_set(CARAT_F32, w.b, j * cases[i].k, 0);
        }
        element_set(CARAT_F32, w.a, 5, 0);
        work_multiply(&w);
        element_set(CARAT_F32, w.a, 5, ldexpl(1, cases[i].exponent));
        struct problem problem;
        struct plan plan;
        assert_ok(problem_check(&w.problem, &problem));
        struct device *device = carat_context_device(carat);
        plan = plan_in_parts(device, row, &problem, 2);
        assert_true(plan_has(&plan, STEP_RESCUE) && plan_has(&plan, STEP_REDUCE));
        assert_planes_leave(carat, &plan, &w, cases[i].refused ? EVERYTHING : SUMS_OF_NOTHING);
        plan = plan_in_parts(device, row, &problem, 1);
        assert_true(plan_has(&plan, STEP_SPLIT) && plan_has(&plan, STEP_RESCUE));
        if (cases[i].refused) {
            assert_planes_leave(carat, &plan, &w, EVERYTHING);
        } else {
            assert_planes_leave(carat, &plan, &w, NOTHING);
            assert_planes_leave(carat, &plan, &w, SPOILED_PARTS);
        }
        work_destroy(&w);
    }
    carat_context_destroy(carat);
    standin_set_capability(100);
}

/* A plan of two planes has what it counts in, so that with workspace of the caller's a call makes nothing any more. */
static void planned_products_of_two_planes_allocate_nothing(void **state)
{
    (void)state;
    enum { SIDE = 1024 };
    const float one = 1;
    const float zero = 0;
    carat_context *carat = NULL;
    carat_plan *plan = NULL;
    uint64_t count = 1;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, SIDE, SIDE, SIDE);
    problem.accuracy = CARAT_ACCURACY_CLOSE;
    assert_ok(carat_count_safe(carat, &count));
    assert_int_equal(count, 0);
    struct driver before = driver_that_notes();
    driver.cuLaunchKernelEx = count_launch;
    assert_ok(carat_plan_create(carat, &problem, &plan));
    assert_non_null(strstr(carat_plan_explain(plan), "f16 planes"));
    count = 1;
    assert_ok(carat_count_safe(carat, &count));
    assert_int_equal(count, 0);
    void *matrix = device_memory(carat, (size_t)SIDE * SIDE * sizeof(float));
    void *d = device_memory(carat, (size_t)SIDE * SIDE * sizeof(float));
    size_t bytes = carat_plan_workspace(plan);
    carat_run run = {.workspace = device_memory(carat, bytes), .workspace_bytes = bytes};
    standin_set_memory(1);
    noted.count = 0;
    assert_ok(carat_plan_run(plan, &one, matrix, matrix, &zero, NULL, d, &run));
    assert_true(noted.count >= 3);
    driver = before;

    /* The count can be read while a stream is recorded for which the default stream would wait. */
    struct device *device = carat_context_device(carat);
    CUstream recorded = NULL;
    void *graph = NULL;
    assert_ok(cuda_enter(device));
    assert_int_equal(driver.cuStreamCreate(&recorded, 0), CUDA_SUCCESS);
    assert_ok(cuda_capture_begin(device, recorded));
    assert_ok(carat_count_safe(carat, &count));
    assert_ok(cuda_capture_end(device, recorded, &graph));
    assert_ok(cuda_graph_destroy(device, graph));
    assert_int_equal(driver.cuStreamDestroy_v2(recorded), CUDA_SUCCESS);
    cuda_leave(device);
    carat_plan_destroy(plan);
    assert_ok(carat_release(carat, run.workspace));
    assert_ok(carat_release(carat, matrix));
    assert_ok(carat_release(carat, d));
    carat_context_destroy(carat);
    standin_set_capability(100);
}

/* ---- Images for less than all that a row can do, of rows that only Hopper runs ---------------- */

static struct {
    int loads;
    int launches;
    const unsigned char *first;  /* the image whose kernel was launched first */
    const unsigned char *barred; /* one for which there is no memory */
    unsigned blocks;             /* of the last launch */
} noted_images;

/* A module is its image, and so is a function. */
static CUresult load_image(CUmodule *module, const void *image)
{
    if (image == noted_images.barred) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    noted_images.loads++;
    *module = (CUmodule)(uintptr_t)image;
    return CUDA_SUCCESS;
}

static CUresult get_function_of_image(CUfunction *function, CUmodule module, const char *name)
{
    (void)name;
    *function = (CUfunction)(void *)module;
    return CUDA_SUCCESS;
}

static CUresult unload_image(CUmodule module)
{
    (void)module;
    return CUDA_SUCCESS;
}

static CUresult note_image(const CUlaunchConfig *config, CUfunction function, void **arguments, void **extra)
{
    (void)arguments;
    (void)extra;
    noted_images.blocks = config->gridDimX;
    if (noted_images.launches++ == 0) {
        noted_images.first = (const unsigned char *)(const void *)function;
    }
    return CUDA_SUCCESS;
}

/* The driver that notes which image is loaded and launched; the one before. */
static struct driver driver_that_notes_images(void)
{
    struct driver before = driver_that_notes();
    driver.cuModuleLoadData = load_image;
    driver.cuModuleGetFunction = get_function_of_image;
    driver.cuModuleUnload = unload_image;
    driver.cuLaunchKernelEx = note_image;
    return before;
}

static const char *name_of_image(enum kernel_image image)
{
    return image == IMAGE_PLAIN       ? "the image for plain products"
           : image == IMAGE_FINISHING ? "the image that finishes sums"
           : image == IMAGE_SUMS      ? "the image for parts of k"
                                      : "the whole image";
}

/* One of a row's images; NULL where it has none of that kind. */
static const unsigned char *image_of(const struct kernel *row, enum kernel_image image)
{
    const unsigned char *const images[KERNEL_IMAGES] = {
        [IMAGE_WHOLE] = row->image,
        [IMAGE_PLAIN] = row->plain_image,
        [IMAGE_FINISHING] = row->finish_image,
        [IMAGE_SUMS] = row->sums_image,
    };
    return images[image];
}

/* Which of a row's images the last product was launched with, and that it was launched once. */
static enum kernel_image launched_image(const struct kernel *row)
{
    enum kernel_image image = IMAGE_WHOLE;
    assert_int_equal(noted_images.launches, 1);
    assert_non_null(noted_images.first);
    while (image < KERNEL_IMAGES && image_of(row, image) != noted_images.first) {
        ++image;
    }
    assert_true(image < KERNEL_IMAGES);
    return image;
}

/* Tiles that a product has for the row's clusters. */
enum tile_count { ONE_TOO_MANY, ONE_EACH, ONE_IN_ALL };

/*
 * What is asked for beside the sums, and how D lies; 0 is what plain products have. Of scales, whose they are: 'a', 'b', 'd'.
 * Results are those of which the row's plain image knows, or all others. What is neither plain nor finishes is for the whole image.
 */
static const struct demand {
    const char *what;
    bool plain;
    bool lies_anywhere; /* plain, or with an activation one that finishes, but for where D lies */
    bool finishes;      /* is no more than sums times a factor, a bias and an activation */
    enum tile_count tiles;
    int more_alpha; /* than 1 */
    int beta;
    bool alpha_is_no_1;     /* but has the bits that a 1 of another type would have */
    bool alpha_is_minus_0;  /* or its bits, which are no 0 of s32 */
    bool finishes_integers; /* as finishes, where the result is s32 */
    bool alpha_on_device;
    bool beta_on_device;
    bool c;
    carat_bias bias;
    carat_activation activation;
    char scale;
    float scale_is;
    bool scale_on_device;
    bool other_results;
    int shift_d; /* in elements, as what follows */
    int more_ldd;
    int more_m;
    int more_n;
    int batch; /* 0: 1 */
    int more_stride_d;
    int k;
} demands[] = {
    {"nothing", .plain = true},
    {"C, without beta", .plain = true, .c = true},
    {"a last column of tiles with one of D", .plain = true, .more_n = 1},
    {"gaps of 16 elements", .plain = true, .more_ldd = 16},
    {"a k that ends within a step", .plain = true, .k = 100},
    {"a k of one", .plain = true, .k = 1},
    {"three problems", .plain = true, .batch = 3},
    {"a tile for each cluster", .plain = true, .tiles = ONE_EACH},
    {"one tile", .plain = true, .tiles = ONE_IN_ALL},
    {"a scale of A, of 1", .plain = true, .scale = 'a', .scale_is = 1},
    {"a scale of B, of 1", .plain = true, .scale = 'b', .scale_is = 1},
    {"alpha 2", .finishes = true, .more_alpha = 1},
    {"alpha of the bits of another 1", .finishes = true, .alpha_is_no_1 = true},
    {"alpha -0, or of its bits", .finishes_integers = true, .alpha_is_minus_0 = true},
    {"a bias along m", .finishes = true, .bias = CARAT_BIAS_PER_ROW},
    {"a bias along n", .finishes = true, .bias = CARAT_BIAS_PER_COLUMN},
    {"ReLU", .finishes = true, .activation = CARAT_ACTIVATION_RELU},
    {"GELU by tanh", .finishes = true, .activation = CARAT_ACTIVATION_GELU_TANH},
    {"GELU by erf", .finishes = true, .activation = CARAT_ACTIVATION_GELU_ERF},
    {"SiLU", .finishes = true, .activation = CARAT_ACTIVATION_SILU},
    {"a bias along m and ReLU", .finishes = true, .bias = CARAT_BIAS_PER_ROW,
     .activation = CARAT_ACTIVATION_RELU},
    {"alpha 2, a bias along n and SiLU, of three problems", .finishes = true, .more_alpha = 1,
     .bias = CARAT_BIAS_PER_COLUMN, .activation = CARAT_ACTIVATION_SILU, .batch = 3},
    {"ReLU and C, without beta", .finishes = true, .activation = CARAT_ACTIVATION_RELU, .c = true},
    {"ReLU and gaps of 16 elements", .finishes = true, .activation = CARAT_ACTIVATION_RELU, .more_ldd = 16},
    {"ReLU of a k of one", .finishes = true, .activation = CARAT_ACTIVATION_RELU, .k = 1},
    {"ReLU of a tile for each cluster", .finishes = true, .activation = CARAT_ACTIVATION_RELU,
     .tiles = ONE_EACH},
    {"ReLU of one tile", .finishes = true, .activation = CARAT_ACTIVATION_RELU, .tiles = ONE_IN_ALL},
    {"a scale of A", .finishes = true, .scale = 'a', .scale_is = 2},
    {"a scale of B", .finishes = true, .scale = 'b', .scale_is = 2},
    {"a scale of A in device memory", .finishes = true, .scale = 'a', .scale_on_device = true},
    {"a scale of B in device memory", .finishes = true, .scale = 'b', .scale_on_device = true},
    {"alpha 0", .more_alpha = -1},
    {"alpha in device memory", .alpha_on_device = true},
    {"beta 1", .beta = 1, .c = true},
    {"beta in device memory", .beta_on_device = true, .c = true},
    {"a scale of D", .scale = 'd', .scale_is = 2},
    {"a scale of D in device memory", .scale = 'd', .scale_on_device = true},
    {"ReLU and alpha 0", .activation = CARAT_ACTIVATION_RELU, .more_alpha = -1},
    {"ReLU and beta 1", .activation = CARAT_ACTIVATION_RELU, .beta = 1, .c = true},
    {"ReLU and another result", .activation = CARAT_ACTIVATION_RELU, .other_results = true},
    {"ReLU and a D that begins anywhere", .lies_anywhere = true, .activation = CARAT_ACTIVATION_RELU,
     .shift_d = 1},
    {"another result", .other_results = true},
    {"a D that begins anywhere", .lies_anywhere = true, .shift_d = 1},
    {"a D whose columns begin anywhere", .lies_anywhere = true, .more_ldd = 1},
    {"a D whose columns end anywhere", .lies_anywhere = true, .more_m = 1},
    {"a D of three that begin anywhere", .lies_anywhere = true, .batch = 3, .more_stride_d = 1},
};
#define DEMAND_COUNT ((int)(sizeof(demands) / sizeof(demands[0])))

/* Whether it is plain to a row, and whether an image that finishes sums does it, to a result that such images know or not. */
static bool is_plain_to(const struct kernel *row, const struct demand *demand)
{
    bool plain_elsewhere = demand->lies_anywhere && demand->activation == CARAT_ACTIVATION_NONE;
    return row->plain && (demand->plain || (row->any_d && plain_elsewhere));
}
static bool is_finished_by(const struct kernel *row, const struct demand *demand, bool finishes_result)
{
    bool finishes = demand->finishes || (demand->finishes_integers && row->element == ELEMENT_S8);
    return row->finish && finishes_result &&
           (demand->plain || finishes || (row->any_d && demand->lies_anywhere));
}

/* What products of a type may give, those first that the plain image stores, the last of which a finishing one does too. */
static const struct {
    carat_type element;
    int plain;
    int count;
    carat_type types[4];
} results_of_images[] = {
    {CARAT_F16, 1, 2, {CARAT_F16, CARAT_F32}},
    {CARAT_BF16, 1, 2, {CARAT_BF16, CARAT_F32}},
    {CARAT_F32, 1, 1, {CARAT_F32}},
    {CARAT_S8, 1, 3, {CARAT_S32, CARAT_F32, CARAT_S8}},
    {CARAT_E4M3, 2, 4, {CARAT_F16, CARAT_BF16, CARAT_F32, CARAT_E4M3}},
    {CARAT_E5M2, 2, 4, {CARAT_F16, CARAT_BF16, CARAT_F32, CARAT_E4M3}},
};

/* Which of these a row's are. */
static int results_of_row(const struct kernel *row)
{
    int of = 0;
    while (results_of_images[of].element != (carat_type)row->element) {
        ++of;
    }
    return of;
}

/* What a row's image that finishes sums gives, if it has one. */
static carat_type finished_result(const struct kernel *row)
{
    int of = results_of_row(row);
    return results_of_images[of].types[results_of_images[of].plain - 1];
}

/* A product for a row: so many tiles along m of one along n. */
static carat_gemm_problem demanded_problem(const struct device *device, const struct kernel *row,
                                           const struct demand *demand, carat_type result)
{
    int64_t clusters = kernel_clusters(row, &device->traits);
    int64_t tiles = demand->tiles == ONE_TOO_MANY ? clusters + 1 : demand->tiles == ONE_EACH ? clusters : 1;
    int64_t m = tiles * row->tile_m * kernel_cluster_m(row) + demand->more_m;
    int64_t n = (int64_t)row->tile_n * kernel_cluster_n(row) + demand->more_n;
    /* Blocks that share k have a step each, at least. */
    int64_t k = (int64_t)row->tile_k * (kernel_k_sharers(row) - 1) + (demand->k ? demand->k : 256);
    carat_gemm_problem p = carat_gemm_describe((carat_type)row->element, m, n, k);
    p.type_b = (carat_type)(row->element_b ? row->element_b : row->element);
    p.type_cd = result;
    p.type_bias = carat_scalar_type(result);
    p.op_a = row->layout == LAYOUT_TN || row->layout == LAYOUT_TT ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.op_b = row->layout == LAYOUT_NT || row->layout == LAYOUT_TT ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.accuracy = CARAT_ACCURACY_FAST;
    p.bias = demand->bias;
    p.activation = demand->activation;
    p.lda = round_up((p.op_a ? k : m) + 1, 16);
    p.ldb = round_up((p.op_b ? n : k) + 1, 16);
    p.ldc = p.ldd = round_up(m, 16) + demand->more_ldd;
    if (demand->batch) {
        p.batch = demand->batch;
        p.stride_a = p.lda * (p.op_a ? m : k);
        p.stride_b = p.ldb * (p.op_b ? k : n);
        p.stride_c = p.stride_d = p.ldd * n + demand->more_stride_d;
    }
    return p;
}

/*
 * The same, checked; false where its types do not know what is demanded, and nowhere else: of these only 8-bit floats take scales,
 * and sums of s32 no activation but ReLU.
 */
static bool check_demanded(const struct device *device, const struct kernel *row, const struct demand *demand,
                           carat_type result, struct problem *problem)
{
    carat_gemm_problem described = demanded_problem(device, row, demand, result);
    if (result == CARAT_S32 && demand->activation > CARAT_ACTIVATION_RELU) {
        assert_int_equal(problem_check(&described, problem), CARAT_UNSUPPORTED);
        return false;
    }
    assert_ok(problem_check(&described, problem));
    if (!demand->scale) {
        return true;
    }
    bool is_float8 = row->element == ELEMENT_E4M3 || row->element == ELEMENT_E5M2;
    assert_int_equal(problem_takes_scales(problem), is_float8);
    return is_float8;
}

/*
 * Launches a row on a product, which reads and writes nothing; false where its types do not know what is demanded, and where a row
 * without a whole image is asked for more, which it refuses.
 */
static bool launch_demanded(struct device *device, const struct kernel *row, const struct demand *demand,
                            carat_type result, char *somewhere)
{
    struct problem problem;
    if (!check_demanded(device, row, demand, result, &problem)) {
        return false;
    }
    union {
        float f32;
        int32_t s32;
    } alpha, beta;
    carat_type scalar = carat_scalar_type(result);
    element_set(scalar, &alpha, 0, 1 + demand->more_alpha);
    element_set(scalar, &beta, 0, demand->beta);
    if (demand->alpha_is_no_1 && scalar == CARAT_S32) {
        alpha.f32 = 1;
    } else if (demand->alpha_is_no_1) {
        alpha.s32 = 1;
    }
    if (demand->alpha_is_minus_0) {
        alpha.f32 = -0.0f;
    }
    const float *scale = demand->scale_on_device ? (const float *)(void *)somewhere : &demand->scale_is;
    struct operands operands = {
        .alpha = demand->alpha_on_device ? (const void *)somewhere : &alpha,
        .a = somewhere,
        .b = somewhere,
        .beta = demand->beta_on_device ? (const void *)somewhere : &beta,
        .c = demand->c ? somewhere : NULL,
        .d = somewhere + demand->shift_d * (int)carat_type_size(result),
        .bias = demand->bias != CARAT_BIAS_NONE ? somewhere : NULL,
        .scale_a = demand->scale == 'a' ? scale : NULL,
        .scale_b = demand->scale == 'b' ? scale : NULL,
        .scale_d = demand->scale == 'd' ? scale : NULL,
    };
    noted_images.launches = 0;
    carat_status status = cuda_gemm_with(device, row, &problem, &operands, NULL);
    bool finishes_result = result == finished_result(row);
    if (kernel_lacks_whole(row) && !is_plain_to(row, demand) &&
        !is_finished_by(row, demand, finishes_result)) {
        assert_int_equal(status, CARAT_UNSUPPORTED);
        assert_int_equal(noted_images.launches, 0);
        return false;
    }
    assert_ok(status);
    return true;
}

/* The image that a demand is to be launched with; of these results but one is known to those that finish. */
static enum kernel_image demanded_image(const struct kernel *row, const struct demand *demand,
                                        bool finishes_result)
{
    bool suits = demand->tiles == ONE_TOO_MANY || kernel_cluster_blocks(row) == 1 || kernel_lacks_whole(row);
    if (is_plain_to(row, demand) && suits) {
        return IMAGE_PLAIN;
    }
    return is_finished_by(row, demand, finishes_result) && suits ? IMAGE_FINISHING : IMAGE_WHOLE;
}

/* Every demand on a row, with every result; counts how many launches were of which image. */
static void check_demands(struct device *device, const struct kernel *row, char *somewhere,
                          int launches[KERNEL_IMAGES])
{
    int of = results_of_row(row);
    int plain_results = results_of_images[of].plain;
    for (int i = 0; i < DEMAND_COUNT; ++i) {
        const struct demand *demand = &demands[i];
        int begin = demand->other_results ? plain_results : 0;
        int end = demand->other_results ? results_of_images[of].count : plain_results;
        for (int r = begin; r < end; ++r) {
            carat_type result = results_of_images[of].types[r];
            if (!launch_demanded(device, row, demand, result, somewhere)) {
                continue;
            }
            enum kernel_image wanted = demanded_image(row, demand, r == plain_results - 1);
            enum kernel_image launched = launched_image(row);
            if (launched != wanted) {
                fail_msg("%s to %s, %s: %s is launched, not %s", row->name, carat_type_name(result),
                         demand->what, name_of_image(launched), name_of_image(wanted));
            }
            launches[launched]++;
        }
    }
}

/* Whether a row is among those of which some have an image for plain products. */
static bool is_of_images(const struct kernel *row)
{
    return row->operation == OPERATION_GEMM && row->tensor_maps && row->element != ELEMENT_F64 &&
           row->planes == 0 && !row->rescues;
}

static void plain_products_have_an_image_of_their_own(void **state)
{
    (void)state;
    carat_context *carat = NULL;
    int rows = 0;
    int finishing = 0;
    int others = 0;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    char *somewhere = device_memory(carat, 4096);
    struct driver before = driver_that_notes_images();
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        assert_int_equal(row->plain_image != NULL, row->plain > 0);
        assert_int_equal(row->image != NULL, row->plain < 2 && row->finish < 2);
        assert_int_equal(row->finish_image != NULL, row->finish > 0);
        assert_int_equal(row->sums_image != NULL, row->sums > 0);
        assert_true(!row->sums || !row->image);
        bool is_float_8 = row->element == ELEMENT_E4M3 || row->element == ELEMENT_E5M2;
        assert_true(!row->finish || row->plain == (is_float_8 ? 0 : row->finish));
        if (is_of_images(row)) {
            int launches[KERNEL_IMAGES] = {0};
            check_demands(device, row, somewhere, launches);
            for (enum kernel_image image = IMAGE_WHOLE; image < KERNEL_IMAGES; ++image) {
                bool launched = image_of(row, image) && image != IMAGE_SUMS; /* in one part */
                assert_int_equal(launches[image] > 0, launched);
                assert_int_equal(cuda_kernel_is_loaded(device, row, image), launched);
            }
            rows += row->plain > 0;
            finishing += row->finish > 0;
            others += !row->plain && !row->finish;
        }
        assert_true((!row->plain && !row->finish) || is_of_images(row));
    }
    assert_ok(carat_release(carat, somewhere));
    carat_context_destroy(carat);
    driver = before;
    standin_set_capability(100);
    print_message("%d rows have an image for plain products, %d one that finishes sums\n", rows, finishing);
    assert_true(finishing > 0 && rows > 0 && others > 0);
}

/* The product of along_k() by a plan, whose launch is noted. */
static void run_noted(struct device *device, const struct plan *plan, const struct along_k *w, void *stream)
{
    carat_run run = {.stream = stream};
    noted_images.launches = 0;
    assert_ok(device->functions->gemm(device, plan, &w->operands, &run));
    noted_images.launches -= plan_has(plan, STEP_REDUCE);
}

/* Which of the row's images the launch was of. */
static enum kernel_image plan_launches(struct device *device, const struct plan *plan,
                                       const struct along_k *w, void *stream)
{
    run_noted(device, plan, w, stream);
    return launched_image(plan->steps[0].kernel);
}

/* The image for a row's products times a factor. */
static enum kernel_image image_for_factors(const struct kernel *row)
{
    return row->finish ? IMAGE_FINISHING : IMAGE_WHOLE;
}

static struct along_k times_two(const struct along_k *w)
{
    static const float two = 2;
    static const int32_t two_s32 = 2;
    struct along_k doubled = *w;
    doubled.operands.alpha = w->problem.type_cd == CARAT_S32 ? (const void *)&two_s32 : &two;
    return doubled;
}

/* Where blocks of a cluster share k each cluster has one tile, were they more than find a place at a time; others stay, and go on. */
static void clusters_that_share_k_have_a_tile_each(void **state)
{
    (void)state;
    static const char *const names[] = {"wgmma_bf16_tn_64x64_k2",      "wgmma_bf16_tn_128x64_k4",
                                        "wgmma_bf16_tn_128x96_k3",     "wgmma_bf16_tn_128x160_c2_k2",
                                        "wgmma_bf16_tn_128x112_r2_k2", "wgmma_bf16_tn_64x64"};
    standin_set_capability(90);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        const struct kernel *row = catalog_find(names[i]);
        int64_t clusters = kernel_clusters(row, &device->traits);
        int64_t tiles = clusters + 1;
        struct driver before = driver_that_notes_images();
        struct along_k w = along_k(tiles * row->tile_m * kernel_cluster_m(row),
                                   (int64_t)row->tile_n * kernel_cluster_n(row), 4096, somewhere);
        noted_images.launches = 0;
        assert_ok(cuda_gemm_with(device, row, &w.problem, &w.operands, NULL));
        int64_t launched = kernel_k_sharers(row) > 1 ? tiles : clusters;
        assert_int_equal(noted_images.blocks, launched * kernel_cluster_blocks(row));
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
    }
    standin_set_capability(100);
}

/* Products in parts, and those whose tiles are shared, are for the whole image of a row that has it, and their plans load no other. */
static void plain_products_are_in_one_part_and_share_nothing(void **state)
{
    (void)state;
    static const char *const names[] = {"wgmma_bf16_tn_256x128", "wgmma_bf16_tn_256x128_c2",
                                        "wgmma_bf16_tn_64x128", "wgmma_bf16_tn_192x128_c2"};
    int finishing = 0;
    standin_set_capability(90);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        const struct kernel *row = catalog_find(names[i]);
        assert_true(row && row->plain && row->stream);
        struct driver before = driver_that_notes_images();
        /* More tiles than clusters, an odd number of them. */
        struct along_k w = along_k((int64_t)3 * row->tile_m * kernel_cluster_m(row),
                                   (int64_t)3 * row->tile_n * kernel_cluster_n(row), 4096, somewhere);
        struct along_k doubled = times_two(&w);
        struct plan parts = plan_in_parts(device, row, &w.problem, 2);
        struct plan shared = sharing_plan(device, row, &w.problem);
        assert_int_equal(parts.steps[0].kind, STEP_MULTIPLY);
        assert_ok(device->functions->prepare(device, &parts));
        assert_ok(device->functions->prepare(device, &shared));
        assert_int_equal(plan_launches(device, &parts, &w, NULL), IMAGE_WHOLE);
        assert_int_equal(plan_launches(device, &parts, &doubled, NULL), IMAGE_WHOLE);
        assert_int_equal(plan_launches(device, &shared, &w, NULL), IMAGE_WHOLE);
        assert_int_equal(plan_launches(device, &shared, &doubled, NULL), IMAGE_WHOLE);
        assert_true(cuda_kernel_is_loaded(device, row, IMAGE_WHOLE));
        assert_false(cuda_kernel_is_loaded(device, row, IMAGE_PLAIN));
        assert_false(cuda_kernel_is_loaded(device, row, IMAGE_FINISHING));
        /* The same products, whole. */
        noted_images.launches = 0;
        assert_ok(cuda_gemm_with(device, row, &w.problem, &w.operands, NULL));
        assert_int_equal(launched_image(row), IMAGE_PLAIN);
        noted_images.launches = 0;
        assert_ok(cuda_gemm_with(device, row, &doubled.problem, &doubled.operands, NULL));
        assert_int_equal(launched_image(row), image_for_factors(row));
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
        finishing += row->finish;
    }
    standin_set_capability(100);
    assert_true(finishing > 0);
}

/* The plan of a row for the product of along_k(), as it lies: no more than the row's launch. */
static struct plan plan_in_one_launch(struct device *device, const struct kernel *row,
                                      const struct along_k *w)
{
    struct candidate way;
    struct plan plan;
    assert_true(plan_as_it_is(&device->traits, &w->problem, row, &way));
    assert_ok(plan_of_candidate(&device->traits, &w->problem, &way, &plan));
    assert_true(plan.parts == 1 && plan.stream_tiles == 0 && plan.step_count == 1);
    return plan;
}

/* A plan has every image loaded of which its launches may be: what alpha is shows only when it is run, or recorded. */
static void plans_load_every_image_they_may_launch(void **state)
{
    (void)state;
    carat_context *carat = NULL;
    int rows = 0;
    int finishing = 0;
    standin_set_capability(90);
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct device *device = carat_context_device(carat);
    void *somewhere = device_memory(carat, 4096);
    void *stream = NULL;
    assert_ok(carat_stream_create(carat, &stream));
    struct driver before = driver_that_notes_images();
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        if (row->plain != 1 || row->element != ELEMENT_BF16 || row->layout != LAYOUT_TN) {
            continue;
        }
        struct along_k w = along_k((int64_t)5 * row->tile_m * kernel_cluster_m(row),
                                   (int64_t)row->tile_n * kernel_cluster_n(row), 256, somewhere);
        struct along_k doubled = times_two(&w);
        struct plan plan = plan_in_one_launch(device, row, &w);
        int not_plain = row->finish ? 2 : 1; /* images */
        void *graph = NULL;

        /* Never plain: with a bias. */
        struct plan other = plan;
        other.product.bias = true;
        noted_images.loads = 0;
        assert_ok(device->functions->prepare(device, &other));
        assert_int_equal(noted_images.loads, not_plain);
        assert_true(cuda_kernel_is_loaded(device, row, IMAGE_WHOLE));
        assert_int_equal(cuda_kernel_is_loaded(device, row, IMAGE_FINISHING), row->finish);
        assert_false(cuda_kernel_is_loaded(device, row, IMAGE_PLAIN));

        assert_ok(device->functions->prepare(device, &plan));
        assert_int_equal(noted_images.loads, not_plain + 1);
        assert_true(cuda_kernel_is_loaded(device, row, IMAGE_PLAIN));

        assert_ok(cuda_capture_begin(device, stream));
        assert_int_equal(plan_launches(device, &plan, &w, stream), IMAGE_PLAIN);
        assert_int_equal(plan_launches(device, &plan, &doubled, stream), image_for_factors(row));
        assert_ok(cuda_capture_end(device, stream, &graph));
        assert_ok(cuda_graph_destroy(device, graph));
        assert_int_equal(noted_images.loads, not_plain + 1);
        rows++;
        finishing += row->finish;
    }
    assert_ok(carat_stream_destroy(carat, stream));
    assert_ok(carat_release(carat, somewhere));
    carat_context_destroy(carat);
    driver = before;
    standin_set_capability(100);
    assert_true(finishing > 0 && rows > finishing);
}

/* An image for which the device has no memory: the whole one does the same. */
static void images_without_memory_are_done_without(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    assert_true(row && row->finish);
    standin_set_capability(90);
    for (enum kernel_image image = IMAGE_PLAIN; image <= IMAGE_FINISHING; ++image) {
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        struct driver before = driver_that_notes_images();
        struct along_k w = along_k((int64_t)5 * row->tile_m, row->tile_n, 256, somewhere);
        struct plan plan = plan_in_one_launch(device, row, &w);
        w = image == IMAGE_PLAIN ? w : times_two(&w);
        noted_images.barred = image_of(row, image);
        assert_ok(device->functions->prepare(device, &plan));
        assert_int_equal(plan_launches(device, &plan, &w, NULL), IMAGE_WHOLE);
        noted_images.barred = NULL;
        assert_int_equal(plan_launches(device, &plan, &w, NULL), image);
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
    }
    standin_set_capability(100);
}

/* The image that a row stands in with: clusters with a tile each, or with none, are launched with the whole one. */
static enum kernel_image image_of_stand_in(const struct device *device, const struct plan *plan,
                                           enum kernel_image image)
{
    const struct kernel *other = plan->stand_in;
    int64_t blocks;
    assert_true(kernel_count_blocks(other, &plan->product, 1, &blocks));
    int cluster = kernel_cluster_blocks(other);
    bool suits = cluster == 1 || blocks / cluster > kernel_clusters(other, &device->traits);
    return suits && image_of(other, image) ? image : IMAGE_WHOLE;
}

/* For a row without a whole image another one stands in, which plans load too: when more is asked for, or it finds no memory. */
static void another_row_stands_in_for_one_without_a_whole_image(void **state)
{
    (void)state;
    int rows = 0;
    int finishing = 0;
    standin_set_capability(90);
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        if (!kernel_lacks_whole(row) || row->element != ELEMENT_BF16 || row->layout != LAYOUT_TN) {
            continue;
        }
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        struct driver before = driver_that_notes_images();
        struct along_k w = along_k((int64_t)5 * row->tile_m * kernel_cluster_m(row),
                                   (int64_t)3 * row->tile_n * kernel_cluster_n(row),
                                   (int64_t)256 * kernel_k_sharers(row), somewhere);
        struct plan plan = plan_in_one_launch(device, row, &w);
        struct along_k doubled = times_two(&w);
        const struct kernel *other = plan.stand_in;
        carat_run run = {0};
        assert_true(other && other->image);

        noted_images.loads = 0;
        noted_images.barred = row->plain_image;
        assert_ok(device->functions->prepare(device, &plan));
        noted_images.launches = 0;
        assert_ok(device->functions->gemm(device, &plan, &w.operands, &run));
        assert_int_equal(noted_images.launches, 1);
        /* For it is a plain product yet. */
        assert_int_equal(launched_image(other), image_of_stand_in(device, &plan, IMAGE_PLAIN));

        noted_images.barred = NULL;
        assert_ok(device->functions->prepare(device, &plan));
        const int loads = noted_images.loads;
        assert_int_equal(loads, 2 + (row->finish_image != NULL) + (other->plain_image != NULL) +
                                    (other->finish_image != NULL));
        noted_images.launches = 0;
        assert_ok(device->functions->gemm(device, &plan, &w.operands, &run));
        assert_true(noted_images.launches == 1 && noted_images.first == row->plain_image);
        noted_images.launches = 0;
        assert_ok(device->functions->gemm(device, &plan, &doubled.operands, &run));
        if (row->finish) {
            assert_int_equal(launched_image(row), IMAGE_FINISHING);
        } else {
            assert_int_equal(launched_image(other), image_of_stand_in(device, &plan, IMAGE_FINISHING));
        }
        assert_int_equal(noted_images.loads, loads);

        /* Nor does a D go by the copy engine's maps that does not begin at 16 bytes. */
        w.operands.d = (char *)somewhere + 2;
        noted_images.launches = 0;
        assert_ok(device->functions->gemm(device, &plan, &w.operands, &run));
        assert_true(noted_images.launches == 1 &&
                    noted_images.first == (row->any_d ? row->plain_image : other->image));
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
        rows++;
        finishing += other->finish;
    }
    standin_set_capability(100);
    assert_true(rows > 0 && finishing > 0);
}

/* A product of five tiles by three of a row, of 16-bit results. */
static struct along_k finished_along_k(const struct kernel *row, void *somewhere)
{
    carat_gemm_problem described = carat_gemm_describe(
        (carat_type)row->element, (int64_t)5 * row->tile_m * kernel_cluster_m(row),
        (int64_t)3 * row->tile_n * kernel_cluster_n(row), (int64_t)256 * kernel_k_sharers(row));
    described.type_b = (carat_type)(row->element_b ? row->element_b : row->element);
    described.type_cd = finished_result(row);
    described.accuracy = row->accuracy == ACCURACY_FAST ? CARAT_ACCURACY_FAST : CARAT_ACCURACY_STANDARD;
    return described_along_k(described, somewhere);
}

/* The same for what is finished: of 8-bit floats every product, of others those with a factor. */
static void another_row_stands_in_for_one_that_finishes(void **state)
{
    (void)state;
    int floats_8 = 0;
    int others = 0;
    standin_set_capability(90);
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        if (!kernel_lacks_whole(row) || !row->finish || row->layout != LAYOUT_TN) {
            continue;
        }
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        struct driver before = driver_that_notes_images();
        struct along_k w = finished_along_k(row, somewhere);
        struct along_k doubled = times_two(&w);
        struct plan plan = plan_in_one_launch(device, row, &w);
        const struct kernel *other = plan.stand_in;
        assert_true(other && other->image);

        noted_images.barred = row->finish_image;
        assert_ok(device->functions->prepare(device, &plan));
        run_noted(device, &plan, &doubled, NULL);
        assert_int_equal(launched_image(other), image_of_stand_in(device, &plan, IMAGE_FINISHING));
        noted_images.launches = 0;
        assert_int_equal(cuda_gemm_with(device, row, &doubled.problem, &doubled.operands, NULL),
                         CARAT_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(noted_images.launches, 0);

        noted_images.barred = NULL;
        assert_int_equal(plan_launches(device, &plan, &doubled, NULL), IMAGE_FINISHING);
        assert_int_equal(plan_launches(device, &plan, &w, NULL), row->plain ? IMAGE_PLAIN : IMAGE_FINISHING);
        doubled.operands.scale_d = doubled.operands.alpha;
        floats_8 += !row->plain;
        others += row->plain > 0;
        if (!row->plain) {
            run_noted(device, &plan, &doubled, NULL);
            assert_int_equal(launched_image(other), IMAGE_WHOLE);
        }
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
    }
    standin_set_capability(100);
    assert_true(floats_8 > 0 && others > 0);
}

/*
 * The sums of parts of k are of an image of their own where a row lacks the whole one, whatever is asked for beside them: that is the
 * reduction's. Not where alpha is 0, and nothing may be read, nor where the host does not know whether it is.
 */
static void parts_have_an_image_of_their_own(void **state)
{
    (void)state;
    static const float zero = 0;
    int rows = 0;
    standin_set_capability(90);
    for (int i = 0; i < carat_catalog_count; ++i) {
        const struct kernel *row = &carat_catalog[i];
        if (!row->sums || row->layout != LAYOUT_TN) {
            continue;
        }
        carat_context *carat = NULL;
        assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
        struct device *device = carat_context_device(carat);
        void *somewhere = device_memory(carat, 4096);
        struct driver before = driver_that_notes_images();
        carat_gemm_problem described =
            carat_gemm_describe((carat_type)row->element, (int64_t)3 * row->tile_m * kernel_cluster_m(row),
                                (int64_t)3 * row->tile_n * kernel_cluster_n(row), 4096);
        described.bias = CARAT_BIAS_PER_ROW;
        described.type_cd = CARAT_F32;
        struct along_k w = described_along_k(described, somewhere);
        w.operands.bias = somewhere;
        struct along_k doubled = times_two(&w);
        struct plan parts = plan_in_parts(device, row, &w.problem, 2);
        const struct kernel *other = parts.stand_in;
        assert_true(other && other->image && plan_has(&parts, STEP_REDUCE));

        noted_images.loads = 0;
        noted_images.barred = row->sums_image;
        assert_ok(device->functions->prepare(device, &parts));
        run_noted(device, &parts, &w, NULL);
        assert_int_equal(launched_image(other), IMAGE_WHOLE);
        noted_images.barred = NULL;
        assert_ok(device->functions->prepare(device, &parts));
        const int loads = noted_images.loads;
        assert_int_equal(loads, 3); /* this one, the other's, the reduction's */
        assert_int_equal(plan_launches(device, &parts, &w, NULL), IMAGE_SUMS);
        assert_int_equal(plan_launches(device, &parts, &doubled, NULL), IMAGE_SUMS);
        w.operands.alpha = &zero;
        run_noted(device, &parts, &w, NULL);
        assert_int_equal(launched_image(other), IMAGE_WHOLE);
        w.operands.alpha = somewhere;
        run_noted(device, &parts, &w, NULL);
        assert_int_equal(launched_image(other), IMAGE_WHOLE);
        assert_int_equal(noted_images.loads, loads);
        assert_ok(carat_release(carat, somewhere));
        carat_context_destroy(carat);
        driver = before;
        rows++;
    }
    standin_set_capability(100);
    assert_true(rows > 0);
}

static void a_context_waits_for_its_work(void **state)
{
    (void)state;
    carat_context *carat = NULL;
    assert_ok(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat));
    struct work w = work_create(CARAT_F32, 30, 20, 10, 18);
    struct placed p = placed_create(carat, &w, NULL);
    void *pinned = NULL;
    assert_ok(carat_allocate(carat, CARAT_MEMORY_PINNED, w.bytes_d, &pinned));
    assert_ok(multiply(carat, &w, &p, NULL));
    assert_ok(carat_copy(carat, pinned, p.d, w.bytes_d, NULL));
    /* Releasing memory that the stream still uses waits for it. */
    placed_destroy(carat, &p);
    assert_ok(carat_synchronize(carat, NULL));
    assert_memory_equal(pinned, w.d, w.bytes_d);
    assert_ok(carat_release(carat, pinned));
    carat_context_destroy(carat);
    assert_int_equal(standin_waiting(), 0);
    work_destroy(&w);
}

/* The program's own current context is left as it was. */
static void the_current_context_stays(void **state)
{
    struct device *device = carat_context_device(*state);
    int before = standin_pushed();
    assert_ok(cuda_enter(device));
    assert_int_equal(standin_pushed(), before + 1);
    struct work w = work_create(CARAT_F32, 30, 20, 10, 19);
    struct placed p = placed_create(*state, &w, NULL);
    assert_ok(multiply(*state, &w, &p, NULL));
    assert_device_holds(*state, p.d, w.d, w.bytes_d, NULL);
    placed_destroy(*state, &p);
    assert_int_equal(standin_pushed(), before + 1);
    cuda_leave(device);
    assert_int_equal(standin_pushed(), before);
    work_destroy(&w);
}

/* ---- The stand-in itself --------------------------------------------------------------------- */

static void device_memory_is_out_of_the_hosts_reach(void **state)
{
    unsigned char *memory = device_memory(*state, 4096);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) {
            _exit(1);
        }
        *(volatile unsigned char *)memory = 1;
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_ok(carat_release(*state, memory));
}

static void copies_past_an_allocation_are_refused(void **state)
{
    char host[200] = {0};
    char *memory = device_memory(*state, 100);
    assert_int_equal(carat_copy(*state, memory, host, 101, NULL), CARAT_DEVICE_ERROR);
    assert_int_equal(carat_copy(*state, memory + 50, host, 51, NULL), CARAT_DEVICE_ERROR);
    assert_ok(carat_copy(*state, memory + 50, host, 50, NULL));
    assert_ok(carat_release(*state, memory));
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(every_type_multiplies),
        test(every_order_of_streams_gives_the_same),
        test(calls_on_device_memory_return_at_once),
        test(the_default_stream_works),
        test(host_scalars_are_read_before_the_call_returns),
        test(device_scalars_are_read_when_the_kernel_runs),
        test(host_memory_is_complete_on_return),
        test(mixed_memory_is_refused),
        test(plans_run_often_and_explain_themselves),
        test(the_callers_workspace_is_used),
        test(short_workspace_makes_another_plan),
        test(plans_made_where_memory_is_short),
        test(a_pool_that_cannot_grow_is_remembered),
        test(what_needs_workspace_is_refused_without),
        test(host_calls_do_with_less_workspace),
        test(host_calls_make_nothing_of_the_callers_workspace),
        test(plans_run_at_any_address),
        test(odd_products_may_be_packed),
        test(scalars_on_the_stack_need_no_question),
        test(a_planned_call_can_be_captured),
        test(memory_is_freed_while_a_stream_is_captured),
        test(plans_are_made_while_a_stream_is_captured),
        test(elementwise_calls_can_be_captured),
        test(every_product_row_can_be_run_by_itself),
        test(events_tell_the_time),
        test(threads_share_a_context),
        test(the_device_describes_itself),
        test(other_devices_have_other_memory),
        test(an_older_device_has_kernels_too),
        test(large_operands_have_clusters_keep_pace),
        test(shared_tiles_have_room_and_tokens),
        test(safe_product_shares_as_the_one_before),
        test(packs_are_one_wave),
        test(bytes_are_turned_over_by_one_wave),
        test(only_code_that_waits_starts_early),
        test(what_planes_leave_is_computed_from_f32),
        test(planned_products_of_two_planes_allocate_nothing),
        test(plain_products_have_an_image_of_their_own),
        test(clusters_that_share_k_have_a_tile_each),
        test(plain_products_are_in_one_part_and_share_nothing),
        test(plans_load_every_image_they_may_launch),
        test(images_without_memory_are_done_without),
        test(another_row_stands_in_for_one_without_a_whole_image),
        test(another_row_stands_in_for_one_that_finishes),
        test(parts_have_an_image_of_their_own),
        test(a_context_waits_for_its_work),
        test(the_current_context_stays),
        test(device_memory_is_out_of_the_hosts_reach),
        test(copies_past_an_allocation_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
