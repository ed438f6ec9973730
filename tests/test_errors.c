/*
 * test_errors.c - every refusal of the public interface that needs no device: its status, its words, and
 * that nothing was written. Runs where no CUDA driver is found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "assertions.h"
#include "carat/carat.h"
#include "context.h"

/* Allocations of more than 3 MB fail, as they would where memory is short: a panel of f16 has 4. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1:max_allocation_size_mb=3"; }

static carat_context *context;

static int set_up(void **state)
{
    (void)state;
    return carat_context_create(CARAT_DEVICE_CPU, 0, &context) != CARAT_OK;
}

static int tear_down(void **state)
{
    (void)state;
    carat_context_destroy(context);
    return 0;
}

#define assert_invalid(call, words) assert_refused(call, CARAT_INVALID_ARGUMENT, words)

/* ---- Names ---- */

static void statuses_have_names(void **state)
{
    (void)state;
    static const char *const names[] = {
        "CARAT_OK",
        "CARAT_INVALID_ARGUMENT",
        "CARAT_UNSUPPORTED",
        "CARAT_OUT_OF_HOST_MEMORY",
        "CARAT_OUT_OF_DEVICE_MEMORY",
        "CARAT_WORKSPACE_TOO_SMALL",
        "CARAT_NO_DRIVER",
        "CARAT_DRIVER_TOO_OLD",
        "CARAT_NO_DEVICE",
        "CARAT_DEVICE_LOST",
        "CARAT_DEVICE_ERROR",
    };
    for (int i = 0; i <= 10; i++) {
        assert_string_equal(carat_status_name((carat_status)i), names[i]);
    }
    assert_string_equal(carat_status_name((carat_status)11), "unknown status");
    assert_string_equal(carat_status_name((carat_status)-1), "unknown status");
}

static void types_have_sizes_and_names(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        size_t size;
        const char *name;
        carat_type scalar;
    } rows[] = {
        {CARAT_F32, 4, "f32", CARAT_F32},   {CARAT_F64, 8, "f64", CARAT_F64},
        {CARAT_F16, 2, "f16", CARAT_F32},   {CARAT_BF16, 2, "bf16", CARAT_F32},
        {CARAT_S32, 4, "s32", CARAT_S32},   {CARAT_S8, 1, "s8", CARAT_F32},
        {CARAT_E4M3, 1, "e4m3", CARAT_F32}, {CARAT_E5M2, 1, "e5m2", CARAT_F32},
    };
    for (int i = 0; i < 8; i++) {
        assert_int_equal(carat_type_size(rows[i].type), rows[i].size);
        assert_string_equal(carat_type_name(rows[i].type), rows[i].name);
        assert_int_equal(carat_scalar_type(rows[i].type), rows[i].scalar);
    }
    assert_int_equal(carat_type_size((carat_type)0), 0);
    assert_int_equal(carat_type_size((carat_type)9), 0);
    assert_string_equal(carat_type_name((carat_type)0), "unknown type");
}

static void the_library_has_the_headers_version(void **state)
{
    (void)state;
    char version[64];
    snprintf(version, sizeof(version), "%d.%d.%d", CARAT_VERSION_MAJOR, CARAT_VERSION_MINOR,
             CARAT_VERSION_PATCH);
    assert_string_equal(carat_version(), version);
}

static void long_messages_are_cut(void **state)
{
    (void)state;
    char words[2000];
    memset(words, 'x', sizeof(words) - 1);
    words[sizeof(words) - 1] = '\0';
    set_message("%s", words);
    assert_true(strlen(carat_last_message()) > 100 && strlen(carat_last_message()) < sizeof(words) - 1);
    set_message("short");
    set_message("[%s]", carat_last_message());
    assert_string_equal(carat_last_message(), "[short]");
}

/* ---- Contexts and devices ---- */

static void contexts_are_refused(void **state)
{
    (void)state;
    carat_context *created = context;
    assert_invalid(carat_context_create(CARAT_DEVICE_CPU, 0, NULL), "context is NULL");
    assert_invalid(carat_context_create((carat_device_kind)3, 0, &created), "kind is 3");
    assert_null(created);
    created = context;
    assert_refused(carat_context_create(CARAT_DEVICE_CPU, 1, &created), CARAT_NO_DEVICE, "index is 1");
    assert_null(created);
    created = context;
    assert_refused(carat_context_create(CARAT_DEVICE_CPU, -1, &created), CARAT_NO_DEVICE, "index is -1");
    assert_null(created);
    created = context;
    assert_refused(carat_context_create(CARAT_DEVICE_AUTO, 3, &created), CARAT_NO_DEVICE, "index is 3");
    assert_null(created);
    created = context;
    assert_refused(carat_context_create(CARAT_DEVICE_CUDA, 0, &created), CARAT_NO_DRIVER, "driver");
    assert_null(created);
    carat_context_destroy(NULL);
}

/* Without a driver AUTO is the CPU, without a word. */
static void auto_falls_back_to_the_cpu(void **state)
{
    (void)state;
    set_message("as it was");
    carat_context *created;
    carat_device_info info;
    assert_int_equal(carat_context_create(CARAT_DEVICE_AUTO, 0, &created), CARAT_OK);
    assert_string_equal(carat_last_message(), "as it was");
    assert_int_equal(carat_device_query(created, &info), CARAT_OK);
    assert_int_equal(info.kind, CARAT_DEVICE_CPU);
    assert_int_equal(carat_context_device(created)->traits.kind, CARAT_DEVICE_CPU);
    carat_context_destroy(created);
}

static void devices_are_counted(void **state)
{
    (void)state;
    assert_int_equal(carat_device_count(CARAT_DEVICE_CPU), 1);
    assert_int_equal(carat_device_count(CARAT_DEVICE_CUDA), 0);
    assert_int_equal(carat_device_count(CARAT_DEVICE_AUTO), 1);
    assert_int_equal(carat_device_count((carat_device_kind)9), 0);
}

static void the_cpu_is_described(void **state)
{
    (void)state;
    carat_device_info info;
    memset(&info, 0xff, sizeof(info));
    assert_invalid(carat_device_query(NULL, &info), "context is NULL");
    assert_invalid(carat_device_query(context, NULL), "info is NULL");
    assert_int_equal(carat_device_query(context, &info), CARAT_OK);
    assert_int_equal(info.kind, CARAT_DEVICE_CPU);
    assert_int_equal(info.index, 0);
    assert_true(strlen(info.name) > 0);
    assert_true(info.multiprocessors >= 1);
    assert_true(info.memory_bytes > 0);
    assert_true(info.memory_free_bytes > 0 && info.memory_free_bytes <= info.memory_bytes);
    assert_int_equal(info.warp_size, 0);
}

/* ---- Memory and streams ---- */

static void memory_and_streams_are_checked(void **state)
{
    (void)state;
    char bytes[8] = "before";
    void *pointer = bytes;
    void *stream = bytes;
    assert_invalid(carat_allocate(NULL, CARAT_MEMORY_DEVICE, 1, &pointer), "context is NULL");
    assert_invalid(carat_allocate(context, CARAT_MEMORY_DEVICE, 1, NULL), "pointer is NULL");
    assert_invalid(carat_allocate(context, (carat_memory)2, 1, &pointer), "memory is 2");
    assert_null(pointer);
    assert_refused(carat_allocate(context, CARAT_MEMORY_PINNED, SIZE_MAX / 4, &pointer),
                   CARAT_OUT_OF_HOST_MEMORY, "4611686018427387903 bytes");
    assert_null(pointer);
    pointer = bytes;
    assert_int_equal(carat_allocate(context, CARAT_MEMORY_DEVICE, 0, &pointer), CARAT_OK);
    assert_null(pointer);
    assert_int_equal(carat_allocate(context, CARAT_MEMORY_DEVICE, 1000, &pointer), CARAT_OK);
    assert_int_equal((uintptr_t)pointer % 256, 0);
    assert_invalid(carat_release(NULL, pointer), "context is NULL");
    assert_int_equal(carat_release(context, pointer), CARAT_OK);
    assert_int_equal(carat_release(context, NULL), CARAT_OK);

    assert_invalid(carat_copy(NULL, bytes, "after", 6, NULL), "context is NULL");
    assert_invalid(carat_copy(context, NULL, "after", 6, NULL), "to is NULL");
    assert_invalid(carat_copy(context, bytes, NULL, 6, NULL), "from is NULL");
    assert_string_equal(bytes, "before");
    assert_int_equal(carat_copy(context, NULL, NULL, 0, NULL), CARAT_OK);
    assert_int_equal(carat_copy(context, bytes, "after", 6, NULL), CARAT_OK);
    assert_string_equal(bytes, "after");

    assert_invalid(carat_stream_create(NULL, &stream), "context is NULL");
    assert_invalid(carat_stream_create(context, NULL), "stream is NULL");
    assert_int_equal(carat_stream_create(context, &stream), CARAT_OK);
    assert_null(stream);
    assert_invalid(carat_stream_destroy(NULL, stream), "context is NULL");
    assert_int_equal(carat_stream_destroy(context, stream), CARAT_OK);
    assert_invalid(carat_synchronize(NULL, stream), "context is NULL");
    assert_int_equal(carat_synchronize(context, stream), CARAT_OK);
}

/* ---- Products ---- */

static void wrong_products_write_nothing(void **state)
{
    (void)state;
    float one = 1;
    float zero = 0;
    float a[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    float d[9] = {7, 7, 7, 7, 7, 7, 7, 7, 7};
    float before[9];
    memcpy(before, d, sizeof(d));
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 3, 3, 3);
    carat_gemm_problem wrong = p;
    wrong.ldb = 2;
    carat_run run = {.workspace = (void *)(uintptr_t)8, .workspace_bytes = 1000};

    assert_invalid(carat_gemm(NULL, &p, &one, a, a, &zero, NULL, d, NULL), "context is NULL");
    assert_invalid(carat_gemm(context, NULL, &one, a, a, &zero, NULL, d, NULL), "problem is NULL");
    assert_invalid(carat_gemm(context, &wrong, &one, a, a, &zero, NULL, d, NULL),
                   "ldb is 2, but B has 3 rows");
    assert_invalid(carat_gemm(context, &p, NULL, a, a, &zero, NULL, d, NULL), "alpha is NULL");
    assert_invalid(carat_gemm(context, &p, &one, a, a, NULL, NULL, d, NULL), "beta is NULL");
    assert_invalid(carat_gemm(context, &p, &one, NULL, a, &zero, NULL, d, NULL), "a is NULL");
    assert_invalid(carat_gemm(context, &p, &one, a, NULL, &zero, NULL, d, NULL), "b is NULL");
    assert_invalid(carat_gemm(context, &p, &one, a, a, &one, NULL, d, NULL), "c is NULL");
    assert_invalid(carat_gemm(context, &p, &one, a, a, &zero, NULL, NULL, NULL), "d is NULL");
    assert_invalid(carat_gemm(context, &p, &one, a, a, &zero, NULL, a + 1, NULL), "overlaps a");
    assert_invalid(carat_gemm(context, &p, &one, a, a, &one, d + 1, d, NULL), "overlaps c");
    assert_invalid(carat_gemm(context, &p, &one, a, a, &zero, NULL, d, &run), "not 256-byte aligned");
    carat_run extras = {.bias = a};
    assert_invalid(carat_gemm(context, &p, &one, a, a, &zero, NULL, d, &extras), "run->bias is given");
    extras = (carat_run){.scale_b = &one};
    assert_invalid(carat_gemm(context, &p, &one, a, a, &zero, NULL, d, &extras), "run->scale_b is given");
    carat_gemm_problem biased = p;
    biased.bias = CARAT_BIAS_PER_ROW;
    assert_invalid(carat_gemm(context, &biased, &one, a, a, &zero, NULL, d, NULL), "run->bias is NULL");
    extras = (carat_run){.bias = d + 8};
    assert_invalid(carat_gemm(context, &biased, &one, a, a, &zero, NULL, d, &extras), "overlaps run->bias");
    biased.type_bias = CARAT_S8;
    assert_refused(carat_gemm(context, &biased, &one, a, a, &zero, NULL, d, &extras), CARAT_UNSUPPORTED,
                   "type_bias is s8");
    assert_memory_equal(d, before, sizeof(d));

    carat_plan *plan = (carat_plan *)&one;
    assert_invalid(carat_plan_create(context, &p, NULL), "plan is NULL");
    assert_invalid(carat_plan_create(NULL, &p, &plan), "context is NULL");
    assert_null(plan);
    plan = (carat_plan *)&one;
    assert_invalid(carat_plan_create(context, &wrong, &plan), "ldb is 2");
    assert_null(plan);
    assert_int_equal(carat_plan_create(context, &p, &plan), CARAT_OK);
    assert_invalid(carat_plan_run(NULL, &one, a, a, &zero, NULL, d, NULL), "plan is NULL");
    assert_invalid(carat_plan_run(plan, &one, a, a, &one, NULL, d, NULL), "c is NULL");
    assert_invalid(carat_plan_run(plan, &one, a, a, &zero, NULL, d, &run), "not 256-byte aligned");
    assert_memory_equal(d, before, sizeof(d));
    carat_plan_destroy(plan);
    carat_plan_destroy(NULL);
    assert_int_equal(carat_plan_workspace(NULL), 0);
    assert_string_equal(carat_plan_explain(NULL), "");
}

static void wrong_classic_calls_write_nothing(void **state)
{
    (void)state;
    uint64_t a[4] = {0};
    uint64_t c[4] = {1, 2, 3, 4};
    uint64_t before[4];
    memcpy(before, c, sizeof(c));
    carat_op n = CARAT_NO_TRANSPOSE;
    carat_op t = CARAT_TRANSPOSE;
    assert_invalid(carat_gemm_f32(context, (carat_order)5, n, n, 2, 2, 2, 1, (float *)a, 2, (float *)a, 2, 0,
                                  (float *)c, 2),
                   "order is 5");
    assert_invalid(carat_gemm_f32(NULL, CARAT_ROW_MAJOR, n, n, 2, 2, 2, 1, (float *)a, 2, (float *)a, 2, 0,
                                  (float *)c, 2),
                   "context is NULL");
    assert_invalid(carat_gemm_f64(context, CARAT_ROW_MAJOR, (carat_op)3, n, 2, 2, 2, 1, (double *)a, 2,
                                  (double *)a, 2, 0, (double *)c, 2),
                   "op_a is 3");
    assert_invalid(carat_gemm_f16(context, CARAT_ROW_MAJOR, t, n, 2, 2, 2, 1, (uint16_t *)a, 1, (uint16_t *)a,
                                  2, 0, (uint16_t *)c, 2),
                   "lda is 1, but A has 2 columns stored row by row");
    assert_invalid(carat_gemm_bf16(context, CARAT_COLUMN_MAJOR, n, n, 2, -2, 2, 1, (uint16_t *)a, 2,
                                   (uint16_t *)a, 2, 0, (uint16_t *)c, 2),
                   "n is -2");
    assert_invalid(carat_gemm_s32(context, CARAT_COLUMN_MAJOR, n, t, 2, 2, 2, 1, (int32_t *)a, 2,
                                  (int32_t *)a, 1, 0, (int32_t *)c, 2),
                   "ldb is 1, but B has 2 rows stored column by column");
    assert_invalid(carat_gemm_s8(context, CARAT_COLUMN_MAJOR, n, t, 2, 2, 2, 1, (int8_t *)a, 2, (int8_t *)a,
                                 2, 0, (int32_t *)c, 1),
                   "ldc is 1, but C has 2 rows stored column by column");
    assert_invalid(carat_gemm_f64(context, CARAT_ROW_MAJOR, n, n, 2, 2, 2, 1, (double *)a, 2, (double *)a, 2,
                                  0, NULL, 2),
                   "c is NULL");
    assert_invalid(carat_gemm_f64(context, CARAT_ROW_MAJOR, n, n, 2, 2, 2, 1, (double *)c, 2, (double *)a, 2,
                                  0, (double *)c, 2),
                   "c at ");
    assert_invalid(carat_gemm_s8(context, CARAT_COLUMN_MAJOR, n, n, 2, 2, 2, 1, (int8_t *)a, 0, (int8_t *)a,
                                 2, 0, (int32_t *)c, 2),
                   "lda is 0");
    assert_invalid(carat_gemm_s8(context, CARAT_COLUMN_MAJOR, n, n, 2, 2, 2, 1, (int8_t *)a, 2, (int8_t *)a,
                                 0, 0, (int32_t *)c, 2),
                   "ldb is 0");
    assert_invalid(carat_gemm_s8(context, CARAT_COLUMN_MAJOR, n, n, 2, 2, 2, 1, (int8_t *)a, 2, (int8_t *)a,
                                 2, 0, (int32_t *)c, 0),
                   "ldc is 0");
    assert_memory_equal(c, before, sizeof(c));
}

/* A panel that does not fit into memory, of A, of B, of the sums: the status says so, and D is as it was. */
static void no_memory_for_panels(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {
        {1024, 8, 1024}, {8, 1024, 1024}, {1024, 1024, 8}, {1024, 1024, 1024}};
    size_t bytes = (size_t)2 << 20;
    uint16_t *a = calloc(1, bytes);
    uint16_t *d = malloc(bytes);
    uint16_t *before = malloc(bytes);
    assert_non_null(a);
    assert_non_null(d);
    assert_non_null(before);
    memset(d, 0x3c, bytes);
    memset(before, 0x3c, bytes);
    for (int i = 0; i < 4; i++) {
        int64_t m = shapes[i][0];
        int64_t n = shapes[i][1];
        int64_t k = shapes[i][2];
        assert_refused(carat_gemm_f16(context, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, m,
                                      n, k, 1, a, m, a, k, 1, d, m),
                       CARAT_OUT_OF_HOST_MEMORY, "panels");
        assert_memory_equal(d, before, bytes);
    }
    free(a);
    free(d);
    free(before);
}

/* ---- Around the product ---- */

static void wrong_scale_adds_write_nothing(void **state)
{
    (void)state;
    carat_order order = CARAT_ROW_MAJOR;
    float one = 1;
    float a[12] = {0};
    float b[12];
    float before[12];
    memset(b, 0x11, sizeof(b));
    memset(before, 0x11, sizeof(b));
    assert_invalid(carat_scale_add(NULL, order, CARAT_F32, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   "context is NULL");
    assert_invalid(carat_scale_add(context, (carat_order)2, CARAT_F32, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   "order is 2");
    assert_invalid(carat_scale_add(context, order, (carat_type)0, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   "type is 0");
    assert_refused(carat_scale_add(context, order, CARAT_S32, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   CARAT_UNSUPPORTED, "type is s32");
    assert_refused(carat_scale_add(context, order, CARAT_S8, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   CARAT_UNSUPPORTED, "type is s8");
    assert_refused(carat_scale_add(context, order, CARAT_E4M3, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   CARAT_UNSUPPORTED, "type is e4m3");
    assert_refused(carat_scale_add(context, order, CARAT_E5M2, 2, 3, &one, a, 3, &one, b, 3, NULL),
                   CARAT_UNSUPPORTED, "type is e5m2");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, -2, 3, &one, a, 3, &one, b, 3, NULL),
                   "m is -2");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, -3, &one, a, 3, &one, b, 3, NULL),
                   "n is -3");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 0, -3, &one, a, 3, &one, b, 3, NULL),
                   "n is -3");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, NULL, a, 3, &one, b, 3, NULL),
                   "scale is NULL");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 3, NULL, b, 3, NULL),
                   "shift is NULL");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, NULL, 3, &one, b, 3, NULL),
                   "a is NULL");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 3, &one, NULL, 3, NULL),
                   "b is NULL");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 2, &one, b, 3, NULL),
                   "lda is 2, but A has 3 columns stored row by row");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 3, &one, b, -3, NULL),
                   "ldb is -3");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, b, 3, &one, b, 4, NULL),
                   "lda is 3 and ldb is 4");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, b + 1, 3, &one, b, 3, NULL),
                   "overlaps a");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, INT64_MAX, 3, &one, a, 3, &one, b, 3, NULL),
                   "A is too large");
    carat_run for_products = {.bias = a};
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 3, &one, b, 3, &for_products),
                   "run->bias is given, but scale_add takes none");
    for_products = (carat_run){.scale_d = a};
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 2, 3, &one, a, 3, &one, b, 3, &for_products),
                   "run->scale_d is given, but scale_add takes none");
    const char *odd = (const char *)a + 3;
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 1, 1, odd, a, 1, &one, b, 1, NULL),
                   "is not at a multiple of 4 bytes, the size of f32");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 1, 1, &one, odd, 1, &one, b, 1, NULL), "a at ");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 1, 1, &one, a, 1, odd, b, 1, NULL),
                   "shift at ");
    assert_invalid(carat_scale_add(context, order, CARAT_F32, 1, 1, &one, a, 1, &one, (char *)b + 2, 1, NULL),
                   "b at ");
    assert_memory_equal(b, before, sizeof(b));
    assert_int_equal(carat_scale_add(context, order, CARAT_F32, 0, 3, &one, NULL, 3, &one, NULL, 3, NULL),
                     CARAT_OK);
    carat_run run = {.workspace = (void *)(uintptr_t)1}; /* of which the stream alone counts */
    assert_int_equal(carat_scale_add(context, order, CARAT_F32, 0, 3, &one, NULL, 3, &one, NULL, 3, &run),
                     CARAT_OK);
}

static void wrong_transposes_write_nothing(void **state)
{
    (void)state;
    carat_order order = CARAT_COLUMN_MAJOR;
    int8_t a[12] = {0};
    int8_t b[12];
    int8_t before[12];
    memset(b, 0x11, sizeof(b));
    memset(before, 0x11, sizeof(b));
    assert_invalid(carat_transpose(NULL, order, CARAT_S8, 2, 3, a, 2, b, 3, NULL), "context is NULL");
    assert_invalid(carat_transpose(context, (carat_order)-1, CARAT_S8, 2, 3, a, 2, b, 3, NULL),
                   "order is -1");
    assert_invalid(carat_transpose(context, order, (carat_type)9, 2, 3, a, 2, b, 3, NULL), "type is 9");
    assert_invalid(carat_transpose(context, order, CARAT_S8, -1, 3, a, 2, b, 3, NULL), "m is -1");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, -1, a, 2, b, 3, NULL), "n is -1");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 1, b, 3, NULL),
                   "lda is 1, but A has 2 rows stored column by column");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 2, b, 2, NULL),
                   "ldb is 2, but B has 3 rows stored column by column");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, NULL, 2, b, 3, NULL), "a is NULL");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 2, NULL, 3, NULL), "b is NULL");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, b, 2, b, 3, NULL), "overlaps a");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, b + 5, 2, b, 3, NULL), "overlaps a");
    float one = 1;
    carat_run for_products = {.scale_a = &one};
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 2, b, 3, &for_products),
                   "run->scale_a is given, but transpose takes none");
    for_products = (carat_run){.scale_b = &one};
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 2, b, 3, &for_products),
                   "run->scale_b is given, but transpose takes none");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 0, b, 3, NULL), "lda is 0");
    assert_invalid(carat_transpose(context, order, CARAT_S8, 2, 3, a, 2, b, 0, NULL), "ldb is 0");
    assert_memory_equal(b, before, sizeof(b));
    assert_int_equal(carat_transpose(context, order, CARAT_S8, 2, 0, NULL, 2, NULL, 1, NULL), CARAT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_have_names),
        cmocka_unit_test(types_have_sizes_and_names),
        cmocka_unit_test(the_library_has_the_headers_version),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(contexts_are_refused),
        cmocka_unit_test(auto_falls_back_to_the_cpu),
        cmocka_unit_test(devices_are_counted),
        cmocka_unit_test(the_cpu_is_described),
        cmocka_unit_test(memory_and_streams_are_checked),
        cmocka_unit_test(wrong_products_write_nothing),
        cmocka_unit_test(wrong_classic_calls_write_nothing),
        cmocka_unit_test(no_memory_for_panels),
        cmocka_unit_test(wrong_scale_adds_write_nothing),
        cmocka_unit_test(wrong_transposes_write_nothing),
    };
    return cmocka_run_group_tests_name("errors", tests, set_up, tear_down);
}
