/*
 * test_cuda_failures.c - what the CUDA device does when the driver fails: each call of a whole program
 * in turn, memory that runs out, devices that are lost, drivers that are missing or old.
 *
 * The driver is loaded once in a process, so whatever concerns its loading happens in a child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "context.h"
#include "cuda/cuda.h"
#include "standin.h"

enum {
    OUT_OF_MEMORY = 2,     /* CUDA_ERROR_OUT_OF_MEMORY */
    LAUNCH_FAILED = 719,   /* CUDA_ERROR_LAUNCH_FAILED, which loses the device */
    UNKNOWN = 999,         /* CUDA_ERROR_UNKNOWN */
    NOT_EVEN_NAMED = 12345 /* a code the driver has no name for */
};

/* ---- A program that uses everything --------------------------------------------------------- */

enum { M = 24, N = 20, K = 600 };

static float a[M * K];
static float b[K * N];
static float product[M * N]; /* A B */
static float scaled[M * N];  /* 2 A B + 1 */
static float turned[N * M];  /* of the product */

static void make_matrices(void)
{
    for (int i = 0; i < M * K; ++i) {
        a[i] = (float)(i % 7 - 3);
    }
    for (int i = 0; i < K * N; ++i) {
        b[i] = (float)(i % 5 - 2);
    }
    for (int j = 0; j < N; ++j) {
        for (int i = 0; i < M; ++i) {
            float sum = 0;
            for (int l = 0; l < K; ++l) {
                sum += a[i + l * M] * b[l + j * K];
            }
            product[i + j * M] = sum;
            scaled[i + j * M] = 2 * sum + 1;
            turned[j + i * N] = sum;
        }
    }
}

/* What the program holds, to be given back whatever happened. */
struct program {
    carat_context *context;
    carat_plan *plan;
    void *stream;
    void *memory[5]; /* A, B, D, scaled, turned; memory of the device */
    void *pinned;
    void *graph;
    void *begin;
    void *end;
    carat_status failure; /* the first */
    char message[600];    /* its */
    int wrong;            /* results that are not what they should be */
};

/* Does the next step unless an earlier one failed, and remembers the first failure. */
#define STEP(program, call)                                                                                  \
    do {                                                                                                     \
        if ((program)->failure == CARAT_OK) {                                                                \
            note((program), (call));                                                                         \
        }                                                                                                    \
    } while (0)

static void note(struct program *p, carat_status status)
{
    if (status != CARAT_OK && p->failure == CARAT_OK) {
        p->failure = status;
        snprintf(p->message, sizeof p->message, "%s", carat_last_message());
    }
}

static void compare(struct program *p, const void *result, const void *expected, size_t bytes)
{
    p->wrong += p->failure == CARAT_OK && memcmp(result, expected, bytes) != 0;
}

static void on_device_memory(struct program *p, const carat_gemm_problem *problem)
{
    static const size_t bytes[5] = {sizeof a, sizeof b, sizeof product, sizeof scaled, sizeof turned};
    static float result[M * N];
    float one = 1;
    float two = 2;
    float zero = 0;
    struct device *device = carat_context_device(p->context);
    carat_run run = {.stream = p->stream};
    for (int i = 0; i < 5; ++i) {
        STEP(p, carat_allocate(p->context, CARAT_MEMORY_DEVICE, bytes[i], &p->memory[i]));
    }
    STEP(p, carat_allocate(p->context, CARAT_MEMORY_PINNED, sizeof product, &p->pinned));
    STEP(p, carat_copy(p->context, p->memory[0], a, sizeof a, p->stream));
    STEP(p, carat_copy(p->context, p->memory[1], b, sizeof b, p->stream));
    STEP(p, carat_plan_create(p->context, problem, &p->plan));
    STEP(p, cuda_event_create(device, &p->begin));
    STEP(p, cuda_event_create(device, &p->end));
    STEP(p, cuda_event_record(device, p->begin, p->stream));
    STEP(p, carat_plan_run(p->plan, &one, p->memory[0], p->memory[1], &zero, NULL, p->memory[2], &run));
    STEP(p, cuda_event_record(device, p->end, p->stream));
    STEP(p, carat_scale_add(p->context, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, &two, p->memory[2], M, &one,
                            p->memory[3], M, &run));
    STEP(p, carat_transpose(p->context, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, p->memory[2], M, p->memory[4], N,
                            &run));
    STEP(p, carat_copy(p->context, p->pinned, p->memory[2], sizeof product, p->stream));
    float milliseconds;
    STEP(p, cuda_event_elapsed_ms(device, p->begin, p->end, &milliseconds));
    STEP(p, carat_synchronize(p->context, p->stream));
    compare(p, p->pinned, product, sizeof product);
    STEP(p, carat_copy(p->context, result, p->memory[3], sizeof scaled, p->stream));
    compare(p, result, scaled, sizeof scaled);
    STEP(p, carat_copy(p->context, result, p->memory[4], sizeof turned, p->stream));
    compare(p, result, turned, sizeof turned);

    /* The same as a graph. */
    STEP(p, cuda_memset(device, p->memory[2], 0, sizeof product, p->stream));
    STEP(p, carat_synchronize(p->context, p->stream));
    if (p->failure == CARAT_OK) {
        note(p, cuda_capture_begin(device, p->stream));
        bool captures = p->failure == CARAT_OK;
        STEP(p, carat_gemm(p->context, problem, &one, p->memory[0], p->memory[1], &zero, NULL, p->memory[2],
                           &run));
        if (captures) {
            note(p, cuda_capture_end(device, p->stream, &p->graph));
        }
    }
    STEP(p, cuda_graph_launch(device, p->graph, p->stream));
    STEP(p, carat_copy(p->context, result, p->memory[2], sizeof product, p->stream));
    compare(p, result, product, sizeof product);
}

static void on_host_memory(struct program *p, const carat_gemm_problem *problem)
{
    static float result[M * N];
    float one = 1;
    float two = 2;
    float zero = 0;
    STEP(p, carat_gemm(p->context, problem, &one, a, b, &zero, NULL, result, NULL));
    compare(p, result, product, sizeof product);
    STEP(p, carat_scale_add(p->context, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, &two, product, M, &one, result,
                            M, NULL));
    compare(p, result, scaled, sizeof scaled);
    STEP(p, carat_transpose(p->context, CARAT_COLUMN_MAJOR, CARAT_F32, M, N, product, M, result, N, NULL));
    compare(p, result, turned, sizeof turned);
    STEP(p, carat_gemm_f32(p->context, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, M, N, K, 1,
                           a, M, b, K, 0, result, M));
    compare(p, result, product, sizeof product);
}

/* Gives a thing back; where the call failed before it came to that, again. */
static void give_back(struct program *p, void *thing, carat_status (*release)(carat_context *, void *))
{
    for (int attempt = 0; attempt < 2 && standin_exists(thing); ++attempt) {
        note(p, release(p->context, thing));
    }
}

static carat_status destroy_graph(carat_context *context, void *graph)
{
    return cuda_graph_destroy(carat_context_device(context), graph);
}

static carat_status destroy_event(carat_context *context, void *event)
{
    return cuda_event_destroy(carat_context_device(context), event);
}

static void end(struct program *p)
{
    give_back(p, p->graph, destroy_graph);
    give_back(p, p->begin, destroy_event);
    give_back(p, p->end, destroy_event);
    carat_plan_destroy(p->plan);
    for (int i = 0; i < 5; ++i) {
        give_back(p, p->memory[i], carat_release);
    }
    give_back(p, p->pinned, carat_release);
    give_back(p, p->stream, carat_stream_destroy);
    carat_context_destroy(p->context);
}

static struct program run_program(void)
{
    struct program p = {.failure = CARAT_OK};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, M, N, K);
    carat_device_info info;
    STEP(&p, carat_context_create(CARAT_DEVICE_CUDA, 0, &p.context));
    if (p.failure != CARAT_OK) {
        assert_null(p.context);
        return p;
    }
    STEP(&p, carat_device_query(p.context, &info));
    STEP(&p, carat_stream_create(p.context, &p.stream));
    on_device_memory(&p, &problem);
    on_host_memory(&p, &problem);
    end(&p);
    return p;
}

/* ---- Every call in turn --------------------------------------------------------------------- */

/*
 * Calls whose failure is nobody's: those that describe an error, that put back what the calling thread
 * had, or that give something back where no status can say so (destroying a context or a plan).
 */
static bool may_be_silent(const char *function)
{
    static const char *const silent[] = {
        "cuGetErrorName",
        "cuGetErrorString",
        "cuCtxPopCurrent_v2",
        "cuThreadExchangeStreamCaptureMode",
        "cuCtxPushCurrent_v2",
        "cuCtxSynchronize",
        "cuModuleUnload",
        "cuMemFree_v2",
        "cuMemFreeHost",
        "cuStreamDestroy_v2",
        "cuEventDestroy_v2",
        "cuGraphDestroy",
        "cuDevicePrimaryCtxRelease_v2",
    };
    for (size_t i = 0; i < sizeof silent / sizeof silent[0]; ++i) {
        if (!strcmp(silent[i], function)) {
            return true;
        }
    }
    return false;
}

static void check_outcome(const struct program *p, long nth, int code)
{
    const char *function = standin_failed();
    if (p->wrong) {
        fail_msg("call %ld, %s: failed with %d, and a result is wrong", nth, function, code);
    }
    if (p->failure == CARAT_OK) {
        if (!may_be_silent(function)) {
            fail_msg("call %ld, %s: failed with %d, and no call of the library did", nth, function, code);
        }
    } else if (!strstr(p->message, function) && code != LAUNCH_FAILED) {
        fail_msg("call %ld, %s: failed with %d, and the message is \"%s\"", nth, function, code, p->message);
    }
    if (p->failure != CARAT_OK) {
        carat_status expected = code == LAUNCH_FAILED                 ? CARAT_DEVICE_LOST
                                : code != OUT_OF_MEMORY               ? CARAT_DEVICE_ERROR
                                : !strcmp(function, "cuMemHostAlloc") ? CARAT_OUT_OF_HOST_MEMORY
                                                                      : CARAT_OUT_OF_DEVICE_MEMORY;
        if (p->failure != expected) {
            fail_msg("call %ld, %s: failed with %d, and the status is %s: %s", nth, function, code,
                     carat_status_name(p->failure), p->message);
        }
    }
    /* Without its context current, a device that is destroyed can free nothing but the context. */
    bool could_free = strcmp(function, "cuCtxPushCurrent_v2") != 0;
    if ((standin_leaks() && could_free) || standin_pushed()) {
        fail_msg("call %ld, %s: failed with %d, and something is left (%d contexts pushed)", nth, function,
                 code, standin_pushed());
    }
}

static void each_call_fails_in_turn(int code, long step)
{
    struct program healthy = run_program();
    if (healthy.failure != CARAT_OK || healthy.wrong) {
        fail_msg("without any failure: %s", healthy.message);
    }
    for (long nth = 1;; nth += step) {
        standin_reset();
        standin_seed((uint64_t)nth);
        standin_fail(NULL, nth, code);
        struct program p = run_program();
        if (!standin_failed()) {
            printf("of %ld driver calls, every %ld. failed in turn with %d\n", standin_calls(), step, code);
            assert_true(nth > 150);
            break;
        }
        check_outcome(&p, nth, code);
    }
    standin_reset();
}

static void each_call_fails(void **state)
{
    (void)state;
    each_call_fails_in_turn(UNKNOWN, 1);
}

static void each_call_loses_the_device(void **state)
{
    (void)state;
    each_call_fails_in_turn(LAUNCH_FAILED, 1);
}

static void each_call_fails_without_a_name(void **state)
{
    (void)state;
    each_call_fails_in_turn(NOT_EVEN_NAMED, 7);
}

/* Only allocations and loading find no memory; the library may get along with less, and then is right. */
static void each_allocation_fails(void **state)
{
    (void)state;
    static const char *const functions[] = {"cuMemAlloc_v2", "cuMemHostAlloc", "cuModuleLoadData"};
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; ++f) {
        long nth = 1;
        for (;; ++nth) {
            standin_reset();
            standin_fail(functions[f], nth, OUT_OF_MEMORY);
            struct program p = run_program();
            if (!standin_failed()) {
                break;
            }
            assert_int_equal(p.wrong, 0);
            if (p.failure != CARAT_OK) {
                check_outcome(&p, nth, OUT_OF_MEMORY);
            }
            assert_int_equal(standin_leaks() + standin_pushed(), 0);
        }
        printf("each of %ld calls of %s found no memory\n", nth - 1, functions[f]);
        assert_true(nth > 1);
    }
    standin_reset();
}

/* What a driver does not know of the clocks and the memory it need not know; all else it must. */
static void a_driver_may_know_less(void **state)
{
    (void)state;
    enum { NEEDED = 7, ASKED_FOR = 10, INVALID_VALUE = 1 };
    for (long nth = 1; nth <= ASKED_FOR + 1; ++nth) {
        carat_context *context;
        standin_reset();
        standin_fail("cuDeviceGetAttribute", nth, INVALID_VALUE);
        carat_status status = carat_context_create(CARAT_DEVICE_CUDA, 0, &context);
        assert_int_equal(status, nth <= NEEDED ? CARAT_DEVICE_ERROR : CARAT_OK);
        assert_int_equal(standin_failed() != NULL, nth <= ASKED_FOR);
        carat_context_destroy(context);
        assert_int_equal(standin_leaks() + standin_pushed(), 0);
    }
    standin_reset();
}

/* ---- Too little memory ---------------------------------------------------------------------- */

static void little_device_memory(void **state)
{
    (void)state;
    int without = 0;
    int enough = 0;
    for (size_t bytes = 1; bytes < (size_t)64 << 20; bytes *= 2) {
        standin_reset();
        standin_set_memory(bytes);
        struct program p = run_program();
        assert_int_equal(p.wrong, 0);
        if (p.failure != CARAT_OK) {
            assert_int_equal(p.failure, CARAT_OUT_OF_DEVICE_MEMORY);
            assert_true(strlen(p.message) > 0);
            ++without;
        } else {
            ++enough;
        }
        assert_int_equal(standin_leaks() + standin_pushed(), 0);
    }
    assert_true(without > 0);
    assert_true(enough > 0);
    standin_reset();
}

static void little_pinned_memory(void **state)
{
    (void)state;
    int without = 0;
    int enough = 0;
    for (size_t bytes = 1; bytes < (size_t)1 << 32; bytes *= 2) {
        standin_reset();
        standin_set_pinned(bytes);
        struct program p = run_program();
        assert_int_equal(p.wrong, 0);
        if (p.failure != CARAT_OK) {
            assert_int_equal(p.failure, CARAT_OUT_OF_HOST_MEMORY);
            assert_true(strlen(p.message) > 0);
            ++without;
        } else {
            ++enough;
        }
        assert_int_equal(standin_leaks() + standin_pushed(), 0);
    }
    assert_true(without > 0);
    assert_true(enough > 0);
    standin_reset();
}

/* ---- A lost device -------------------------------------------------------------------------- */

static void each_kernel_loses_the_device(void **state)
{
    (void)state;
    long nth = 1;
    for (;; ++nth) {
        standin_reset();
        standin_lose_device(nth);
        struct program p = run_program();
        if (standin_launches() < nth) {
            break;
        }
        assert_int_equal(p.wrong, 0);
        assert_int_equal(p.failure, CARAT_DEVICE_LOST);
        assert_true(strlen(p.message) > 0);
        assert_int_equal(standin_leaks() + standin_pushed(), 0);
    }
    printf("each of %ld kernels lost the device\n", nth - 1);
    assert_true(nth > 4);
    standin_reset();
}

static void a_lost_device_stays_lost(void **state)
{
    (void)state;
    carat_context *context = NULL;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, M, N, K);
    static float result[M * N];
    float one = 1;
    float zero = 0;
    void *memory = NULL;
    carat_device_info info;
    standin_reset();
    assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), CARAT_OK);
    standin_lose_device(1);
    assert_int_equal(carat_gemm(context, &problem, &one, a, b, &zero, NULL, result, NULL), CARAT_DEVICE_LOST);
    standin_lose_device(0);
    assert_int_equal(carat_gemm(context, &problem, &one, a, b, &zero, NULL, result, NULL), CARAT_DEVICE_LOST);
    assert_int_equal(carat_allocate(context, CARAT_MEMORY_DEVICE, 100, &memory), CARAT_DEVICE_LOST);
    assert_null(memory);
    assert_int_equal(carat_synchronize(context, NULL), CARAT_DEVICE_LOST);
    assert_non_null(strstr(carat_last_message(), "lost"));
    carat_status status = carat_device_query(context, &info);
    assert_true(status == CARAT_OK || status == CARAT_DEVICE_LOST);
    carat_context_destroy(context);
    assert_int_equal(standin_leaks() + standin_pushed(), 0);
    standin_reset();
}

/* ---- Drivers -------------------------------------------------------------------------------- */

/* In a child: a CUDA context of this status, whose message has these words, and what AUTO gives then. */
static void expect_in_child(const char *library, const char *variable, const char *value,
                            carat_status expected, const char *words, carat_status automatic)
{
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        carat_context *context = (carat_context *)&context;
        setenv("CARAT_DRIVER_LIBRARY", library, 1);
        if (variable && !strcmp(variable, "version")) {
            standin_set_version(atoi(value));
        } else if (variable && !strcmp(variable, "devices")) {
            standin_set_devices(atoi(value));
        } else if (variable) {
            standin_fail(variable, 1, atoi(value));
        }
        carat_status status = carat_context_create(CARAT_DEVICE_CUDA, 0, &context);
        if (status != expected || context || !strstr(carat_last_message(), words)) {
            fprintf(stderr, "%s %s=%s: %s: %s\n", library, variable ? variable : "", value ? value : "",
                    carat_status_name(status), carat_last_message());
            _exit(1);
        }
        /* The answer does not change. */
        status = carat_context_create(CARAT_DEVICE_CUDA, 0, &context);
        if (status != expected || carat_device_count(CARAT_DEVICE_CUDA) != 0) {
            fprintf(stderr, "then: %s: %s\n", carat_status_name(status), carat_last_message());
            _exit(2);
        }
        status = carat_context_create(CARAT_DEVICE_AUTO, 0, &context);
        if (status != automatic || !context != (status != CARAT_OK)) {
            fprintf(stderr, "AUTO: %s: %s\n", carat_status_name(status), carat_last_message());
            _exit(3);
        }
        carat_context_destroy(context);
        if (standin_leaks() || standin_pushed()) {
            _exit(4);
        }
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static const char *standin_path;

static void without_a_driver(void **state)
{
    (void)state;
    expect_in_child("/nonexistent/libcuda.so", NULL, NULL, CARAT_NO_DRIVER, "/nonexistent/libcuda.so",
                    CARAT_OK);
    expect_in_child("/dev/null", NULL, NULL, CARAT_NO_DRIVER, "/dev/null", CARAT_OK);
}

static void with_an_old_driver(void **state)
{
    (void)state;
    expect_in_child(standin_path, "version", "11080", CARAT_DRIVER_TOO_OLD, "11.8", CARAT_DRIVER_TOO_OLD);
    expect_in_child(standin_path, "version", "10020", CARAT_DRIVER_TOO_OLD, "10.2", CARAT_DRIVER_TOO_OLD);
}

static void with_a_driver_that_lacks_functions(void **state)
{
    (void)state;
    expect_in_child(STANDIN_INCOMPLETE, NULL, NULL, CARAT_DRIVER_TOO_OLD, "cu", CARAT_DRIVER_TOO_OLD);
}

static void without_a_device(void **state)
{
    (void)state;
    expect_in_child(standin_path, "devices", "0", CARAT_NO_DEVICE, "CUDA_ERROR_NO_DEVICE", CARAT_OK);
}

static void with_a_driver_that_does_not_start(void **state)
{
    (void)state;
    expect_in_child(standin_path, "cuInit", "999", CARAT_DEVICE_ERROR, "cuInit", CARAT_DEVICE_ERROR);
    expect_in_child(standin_path, "cuInit", "803", CARAT_DRIVER_TOO_OLD, "cuInit", CARAT_DRIVER_TOO_OLD);
    expect_in_child(standin_path, "cuInit", "34", CARAT_NO_DRIVER, "cuInit", CARAT_OK);
    expect_in_child(standin_path, "cuDriverGetVersion", "999", CARAT_DEVICE_ERROR, "cuDriverGetVersion",
                    CARAT_DEVICE_ERROR);
}

int main(void)
{
    standin_path = getenv("CARAT_DRIVER_LIBRARY");
    if (!standin_path) {
        fprintf(stderr, "CARAT_DRIVER_LIBRARY must name the stand-in\n");
        return 2;
    }
    make_matrices();
    const struct CMUnitTest tests[] = {
        /* First those in children, before this process has a driver. */
        cmocka_unit_test(without_a_driver),
        cmocka_unit_test(with_an_old_driver),
        cmocka_unit_test(with_a_driver_that_lacks_functions),
        cmocka_unit_test(without_a_device),
        cmocka_unit_test(with_a_driver_that_does_not_start),
        cmocka_unit_test(each_call_fails),
        cmocka_unit_test(each_call_loses_the_device),
        cmocka_unit_test(each_call_fails_without_a_name),
        cmocka_unit_test(each_allocation_fails),
        cmocka_unit_test(a_driver_may_know_less),
        cmocka_unit_test(little_device_memory),
        cmocka_unit_test(little_pinned_memory),
        cmocka_unit_test(each_kernel_loses_the_device),
        cmocka_unit_test(a_lost_device_stays_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
