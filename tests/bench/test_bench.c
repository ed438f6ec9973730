/* test_bench.c - the parts of bench/: shape files, statistics, references, families, rungs, ceilings, JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ceiling.h"
#include "element.h"
#include "families.h"
#include "field.h"
#include "ladder.h"
#include "plain.h"
#include "plot.h"
#include "report.h"
#include "shapes.h"
#include "statistics.h"

/* ---- Statistics ---- */

static void median_is_the_middle(void **state)
{
    (void)state;
    double odd[] = {5, 1, 3};
    double even[] = {4, 1, 3, 2};
    assert_true(median(odd, 3) == 3);
    assert_true(median(even, 4) == 2.5);
    assert_true(median(odd, 0) == 0);
    assert_true(odd[0] == 1 && odd[2] == 5); /* sorted: the spread is read off the ends */
}

static void geometric_mean_of_a_ratio_and_its_inverse_is_one(void **state)
{
    (void)state;
    const double values[] = {4, 0.25, 1};
    assert_true(fabs(geometric_mean(values, 3) - 1) < 1e-15);
    assert_true(geometric_mean(values, 0) == 0);
}

/* ---- Shape files ---- */

static void shape_lines_are_read(void **state)
{
    (void)state;
    struct shapes shapes = {0};
    assert_int_equal(shapes_read_line("x", "# only a comment\n", &shapes), CARAT_OK);
    assert_int_equal(shapes_read_line("x", " \t\r\n", &shapes), CARAT_OK);
    assert_int_equal(shapes.count, 0);
    assert_int_equal(shapes_read_line("x", "bf16 TN 4096 16 14336 # decode\n", &shapes), CARAT_OK);
    assert_int_equal(shapes_read_line("x", "f32\tNT 1 4096 128 512", &shapes), CARAT_OK);
    assert_int_equal(shapes_read_line("x", "e4m3 TN 8 8 8", &shapes), CARAT_OK);
    assert_int_equal(shapes.count, 3);
    assert_int_equal(shapes.items[0].type, CARAT_BF16);
    assert_string_equal(shapes.items[0].layout, "TN");
    assert_int_equal(shapes.items[0].k, 14336);
    assert_int_equal(shapes.items[0].batch, 1);
    assert_int_equal(shapes.items[1].batch, 512);
    assert_int_equal(shapes.items[2].type, 0);
    assert_string_equal(shapes.items[2].dtype, "e4m3");

    carat_gemm_problem problem = shape_problem(&shapes.items[0]);
    assert_int_equal(problem.order, CARAT_COLUMN_MAJOR);
    assert_int_equal(problem.op_a, CARAT_TRANSPOSE);
    assert_int_equal(problem.op_b, CARAT_NO_TRANSPOSE);
    assert_int_equal(problem.lda, 14336); /* A is stored k x m */
    assert_int_equal(problem.ldb, 14336);
    assert_int_equal(problem.ldd, 4096);
    assert_string_equal(layout_name(&problem), "TN");
    problem = shape_problem(&shapes.items[1]);
    assert_int_equal(problem.stride_a, 128);
    assert_int_equal(problem.stride_b, 4096 * 128);
    assert_int_equal(problem.stride_d, 4096);
    shapes_free(&shapes);
    assert_int_equal(shapes.count, 0);
}

static void wrong_shape_lines_are_refused_with_their_place(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "f32",
        "f32 NN",
        "f32 NX 1 1 1",
        "f32 NN 1 1",
        "f32 NN 0 1 1",
        "f32 NN 1 -1 1",
        "f32 NN 1 1 x",
        "f32 NN 1 1 1 0",
        "f32 NN 1 1 1 1 1",
        "float_with_a_long_name NN 1 1 1",
        "f32 N 1 1 1",
        "f32 NNN 1 1 1",
        "f32 NN 1.5 1 1",
        "f32 NN 99999999999999999999 1 1",
    };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        struct shapes shapes = {0};
        assert_int_equal(shapes_read_line("file.txt:7", lines[i], &shapes), CARAT_INVALID_ARGUMENT);
        assert_non_null(strstr(carat_last_message(), "file.txt:7"));
        assert_int_equal(shapes.count, 0);
        shapes_free(&shapes);
    }
    char long_line[600];
    memset(long_line, 'x', sizeof(long_line) - 1);
    long_line[sizeof(long_line) - 1] = 0;
    struct shapes shapes = {0};
    assert_int_equal(shapes_read_line("x", long_line, &shapes), CARAT_INVALID_ARGUMENT);
    assert_int_equal(shapes_read("/nonexistent/shapes", &shapes), CARAT_INVALID_ARGUMENT);
}

static void the_shape_files_that_come_along_are_read(void **state)
{
    (void)state;
    static const char *const names[] = {"square", "odd", "ragged", "layouts", "batched", "skinny", "llm"};
    struct shapes shapes = {0};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char path[500];
        int before = shapes.count;
        snprintf(path, sizeof(path), "%s/%s.txt", SHAPES, names[i]);
        assert_int_equal(shapes_read(path, &shapes), CARAT_OK);
        assert_true(shapes.count > before + 10);
    }
    shapes_free(&shapes);
}

/* ---- References ---- */

/* A 3 x 2 product of depth 2, worked out by hand. */
static void reference_of_a_small_product(void **state)
{
    (void)state;
    const float a[] = {1, 2, 3, 4, 5, 6}; /* columns (1 2 3) (4 5 6) */
    const float b[] = {1, -1, 2, 0.5f};   /* columns (1 -1) (2 0.5) */
    const double wanted[] = {-3, -3, -3, 4, 6.5, 9};
    const double sizes[] = {5, 7, 9, 4, 6.5, 9};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 3, 2, 2);
    problem.lda = problem.ldc = problem.ldd = 3;
    problem.ldb = 2;
    struct source source_a = {CARAT_F32, a, 0, 6};
    struct source source_b = {CARAT_F32, b, 0, 4};
    struct reference reference;
    assert_int_equal(reference_compute(&problem, 0, &source_a, &source_b, 1000, &reference), CARAT_OK);
    assert_int_equal(reference.row_count, 3);
    assert_int_equal(reference.column_count, 2);
    for (int i = 0; i < 6; i++) {
        assert_true(reference.value[i] == wanted[i]);
        assert_true(reference.magnitude[i] == sizes[i]);
    }
    float d[] = {-3, -3, -3, 4, 6.5f, 9};
    struct verdict verdict = reference_compare(&reference, d, 32);
    assert_true(verdict.right && verdict.error == 0);
    d[4] = 6.5f + 0x1p-16f;
    verdict = reference_compare(&reference, d, 32);
    assert_false(verdict.right);
    assert_true(fabs(verdict.error - 0x1p-16 / 6.5) < 1e-12);
    assert_non_null(strstr(verdict.why, "D(1, 1)"));
    d[4] = NAN;
    verdict = reference_compare(&reference, d, 32);
    assert_false(verdict.right);
    assert_true(isnan(verdict.error));
    reference_free(&reference);
}

/* Transposes, a batch's strides and a source that repeats, against the plain definition. */
static void reference_reads_what_the_problem_says(void **state)
{
    (void)state;
    enum { M = 5, N = 4, K = 3, PERIOD = 37 };
    double numbers[PERIOD];
    for (int i = 0; i < PERIOD; i++) {
        numbers[i] = (i * 7) % 11 - 5;
    }
    for (int ops = 0; ops < 4; ops++) {
        carat_gemm_problem problem = carat_gemm_describe(CARAT_F64, M, N, K);
        bool ta = ops & 1;
        bool tb = ops & 2;
        problem.op_a = ta ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        problem.op_b = tb ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        problem.lda = 6;
        problem.ldb = 7;
        problem.ldd = problem.ldc = M;
        problem.batch = 3;
        problem.stride_a = 41;
        problem.stride_b = 29;
        problem.stride_d = problem.stride_c = M * N;
        struct source a = {CARAT_F64, numbers, 5, PERIOD};
        struct source b = {CARAT_F64, numbers, 90, PERIOD};
        struct reference reference;
        assert_int_equal(reference_compute(&problem, 2, &a, &b, 1000, &reference), CARAT_OK);
        for (int j = 0; j < N; j++) {
            for (int i = 0; i < M; i++) {
                double sum = 0;
                for (int k = 0; k < K; k++) {
                    int at_a = 5 + 2 * 41 + (ta ? k + i * 6 : i + k * 6);
                    int at_b = 90 + 2 * 29 + (tb ? j + k * 7 : k + j * 7);
                    sum += numbers[at_a % PERIOD] * numbers[at_b % PERIOD];
                }
                assert_true(reference.value[j * M + i] == sum);
            }
        }
        assert_int_equal(reference.problem_offset, 2 * M * N);
        reference_free(&reference);
    }
}

static void large_references_are_sampled_from_end_to_end(void **state)
{
    (void)state;
    float numbers[101];
    for (int i = 0; i < 101; i++) {
        numbers[i] = (float)i;
    }
    struct source source = {CARAT_F32, numbers, 0, 101};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 5000, 3000, 10);
    problem.lda = problem.ldd = problem.ldc = 5000;
    problem.ldb = 10;
    struct reference reference;
    assert_int_equal(reference_compute(&problem, 0, &source, &source, 10000, &reference), CARAT_OK);
    assert_int_equal(reference.row_count, 31);
    assert_int_equal(reference.column_count, 31);
    assert_int_equal(reference.rows[0], 0);
    assert_int_equal(reference.rows[30], 4999);
    assert_int_equal(reference.columns[30], 2999);
    for (int i = 1; i < 31; i++) {
        assert_true(reference.rows[i] > reference.rows[i - 1]);
    }
    reference_free(&reference);
}

static void integers_wrap_and_must_be_exact(void **state)
{
    (void)state;
    const int32_t a[] = {INT32_MAX, 2};
    const int32_t b[] = {3, 5};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_S32, 1, 1, 2);
    problem.lda = problem.ldd = problem.ldc = 1;
    problem.ldb = 2;
    struct source source_a = {CARAT_S32, a, 0, 2};
    struct source source_b = {CARAT_S32, b, 0, 2};
    struct reference reference;
    assert_int_equal(reference_compute(&problem, 0, &source_a, &source_b, 1000, &reference), CARAT_OK);
    int32_t d = (int32_t)((uint32_t)INT32_MAX * 3u + 10u);
    assert_true(reference_compare(&reference, &d, 32).right);
    d++;
    assert_false(reference_compare(&reference, &d, 32).right);
    reference_free(&reference);
}

static void poison_is_found(void **state)
{
    (void)state;
    float d[100];
    memset(d, 0, sizeof(d));
    assert_int_equal(find_poison(CARAT_F32, d, 100), -1);
    memset(&d[77], 0xff, sizeof(float));
    assert_int_equal(find_poison(CARAT_F32, d, 100), 77);
    uint16_t h[3] = {0, 1, 0xffff};
    assert_int_equal(find_poison(CARAT_BF16, h, 3), 2);
    assert_int_equal(find_poison(CARAT_S32, d, 100), -1); /* -1 may be right */
}

static void nan_stays_the_largest_error(void **state)
{
    (void)state;
    assert_true(larger_or_nan(1, 2) == 2);
    assert_true(larger_or_nan(2, 1) == 2);
    assert_true(isnan(larger_or_nan(NAN, 1)));
    assert_true(isnan(larger_or_nan(1, NAN)));
}

/* ---- Families ---- */

static void families_are_what_they_are_called(void **state)
{
    (void)state;
    enum { ROWS = 40, COLUMNS = 50, COUNT = ROWS * COLUMNS };
    static double x[COUNT];
    assert_int_equal(input_fill(CARAT_F64, INPUT_NORMAL, 1, ROWS, COLUMNS, x), CARAT_OK);
    double mean = 0;
    double square = 0;
    for (int i = 0; i < COUNT; i++) {
        mean += x[i] / COUNT;
        square += x[i] * x[i] / COUNT;
    }
    assert_true(fabs(mean) < 0.1 && fabs(square - 1) < 0.15);
    assert_int_equal(input_fill(CARAT_F64, INPUT_POSITIVE, 1, ROWS, COLUMNS, x), CARAT_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_true(x[i] >= 0 && x[i] <= 1);
    }
    assert_int_equal(input_fill(CARAT_F64, INPUT_INTEGERS, 1, ROWS, COLUMNS, x), CARAT_OK);
    double most = 0;
    for (int i = 0; i < COUNT; i++) {
        assert_true(x[i] == floor(x[i]) && fabs(x[i]) <= 8);
        most = fmax(most, fabs(x[i]));
    }
    assert_true(most == 8);
    double least = INFINITY;
    most = 0;
    assert_int_equal(input_fill(CARAT_F64, INPUT_WIDE, 1, ROWS, COLUMNS, x), CARAT_OK);
    for (int i = 0; i < COUNT; i++) {
        least = fmin(least, fabs(x[i]));
        most = fmax(most, fabs(x[i]));
    }
    assert_true(most / least > 0x1p22);
    int8_t bytes[COUNT];
    assert_int_equal(input_fill(CARAT_S8, INPUT_POSITIVE, 1, ROWS, COLUMNS, bytes), CARAT_OK);
    int low = 0;
    int high = 0;
    for (int i = 0; i < COUNT; i++) {
        low = bytes[i] < low ? bytes[i] : low;
        high = bytes[i] > high ? bytes[i] : high;
    }
    assert_true(low < -120 && high > 120);
}

/* ---- The ladder ---- */

static void every_rung_has_a_row_and_a_base_below_it(void **state)
{
    (void)state;
    struct rungs rungs;
    assert_true(rungs_list(CARAT_F32, NULL, &rungs));
    for (int number = 1; number <= LIBRARY_RUNG; number++) {
        bool found = false;
        for (int i = 0; i < rungs.count; i++) {
            found = found || rungs.items[i].number == number;
        }
        assert_true(found);
        assert_true(rung_base(number) < number);
        assert_true(number == 1 || rung_base(number) > 0);
    }
    for (int i = 1; i < rungs.count; i++) {
        assert_true(rungs.items[i].number >= rungs.items[i - 1].number);
    }
    assert_true(rungs_list(CARAT_F32, "1,9", &rungs));
    assert_int_equal(rungs.items[0].number, 1);
    assert_int_equal(rungs.items[rungs.count - 1].number, LIBRARY_RUNG);
    assert_null(rungs.items[rungs.count - 1].row);
    for (int i = 0; i < rungs.count; i++) {
        assert_true(rungs.items[i].number == 1 || rungs.items[i].number == 9);
    }
    assert_false(rungs_list(CARAT_F32, "one", &rungs));
    assert_false(rungs_list(CARAT_F32, "", &rungs));
}

static void traffic_is_counted_from_the_tiles(void **state)
{
    (void)state;
    struct kernel kernel = {.element = ELEMENT_F32, .tile_m = 16, .tile_n = 32};
    /* Rung 1: 2 m n k words read, m n written. */
    assert_true(rung_traffic_bytes(1, &kernel, 64, 64, 64) == 4.0 * (2 * 64 * 64 * 64 + 64 * 64));
    /* Tiles: A once for each of 2 tile columns, B once for each of 4 tile rows. */
    assert_true(rung_traffic_bytes(3, &kernel, 64, 64, 64) == 4.0 * (64 * 64 * 2 + 64 * 64 * 4 + 64 * 64));
    /* A tile that sticks out reads only what is there. */
    assert_true(rung_traffic_bytes(3, &kernel, 17, 32, 10) == 4.0 * (17 * 10 + 32 * 10 * 2 + 17 * 32));
}

static void plain_loops_take_time(void **state)
{
    (void)state;
    assert_true(plain_seconds(CARAT_F32, 32) > 0);
    assert_true(plain_seconds(CARAT_F64, 32) > 0);
    assert_true(plain_seconds(CARAT_S8, 32) == 0);
}

/* ---- Ceilings ---- */

static struct ceilings some_ceilings(void)
{
    struct ceilings ceilings = {.count = 3};
    ceilings.items[0] = (struct ceiling){.name = "ceiling_ffma", .unit = "TFLOP/s", .value = 50};
    ceilings.items[1] = (struct ceiling){.name = "ceiling_copy", .unit = "GB/s", .value = 4000};
    ceilings.items[2] =
        (struct ceiling){.name = "ceiling_dmma", .unit = "TFLOP/s", .reason = "not on this device"};
    return ceilings;
}

static void the_floor_is_what_binds(void **state)
{
    (void)state;
    struct ceilings ceilings = some_ceilings();
    const char *bound = NULL;
    carat_gemm_problem square = carat_gemm_describe(CARAT_F32, 4096, 4096, 4096);
    double floor = ceilings_floor_seconds(&ceilings, &square, &bound);
    assert_true(fabs(floor - 2.0 * 4096 * 4096 * 4096 / 50e12) < 1e-12);
    assert_string_equal(bound, "ceiling_ffma");
    carat_gemm_problem thin = carat_gemm_describe(CARAT_F32, 8192, 1, 8192);
    floor = ceilings_floor_seconds(&ceilings, &thin, &bound);
    assert_true(fabs(floor - 4.0 * (8192.0 * 8192 + 2 * 8192) / 4e12) < 1e-12);
    assert_string_equal(bound, "ceiling_copy");
    assert_string_equal(ceiling_short_name(bound), "copy");
    carat_gemm_problem other = carat_gemm_describe(CARAT_F64, 64, 64, 64);
    assert_true(ceilings_floor_seconds(&ceilings, &other, NULL) == 0); /* not measured */
}

static void ceilings_survive_json(void **state)
{
    (void)state;
    char path[] = "/tmp/carat_ceilings_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    struct ceilings written = some_ceilings();
    json_t *document = json_pack("{s:o}", "ceilings", ceilings_to_json(&written));
    assert_true(report_document(path, document));
    json_decref(document);
    struct ceilings read;
    assert_int_equal(ceilings_read(path, &read), CARAT_OK);
    assert_int_equal(read.count, 3);
    assert_true(ceilings_value(&read, "ceiling_ffma") == 50);
    assert_true(ceilings_value(&read, "ceiling_dmma") == 0);
    document = json_pack("{s:i}", "ceilings", 1);
    assert_true(report_document(path, document));
    json_decref(document);
    assert_int_equal(ceilings_read(path, &read), CARAT_INVALID_ARGUMENT);
    remove(path);
    assert_int_equal(ceilings_read(path, &read), CARAT_INVALID_ARGUMENT);
}

/* ---- Contenders, on the CPU ---- */

static void unknown_and_absent_contenders_are_told_apart(void **state)
{
    (void)state;
    struct field field;
    assert_int_equal(field_open(CARAT_DEVICE_CPU, 0, &field), CARAT_OK);
    assert_int_equal(field_add_peer(&field, "mkl"), CARAT_INVALID_ARGUMENT);
    assert_int_equal(field_add_peer(&field, "blas:"), CARAT_INVALID_ARGUMENT);
    assert_int_equal(field_add_peer(&field, "blas:/nonexistent/lib.so"), CARAT_UNSUPPORTED);
    assert_int_equal(field_add_peer(&field, "blas:libm.so.6"), CARAT_UNSUPPORTED);
    assert_int_equal(field_add_peer(&field, "cublas"), CARAT_UNSUPPORTED);
    assert_int_equal(field_add_peer(&field, "cublaslt"), CARAT_UNSUPPORTED);
    assert_int_equal(field.count, 0);
    field_close(&field);
}

/* All types, batches too: right results, sensible times, and the same input for everyone. */
static void contenders_are_checked_and_timed(void **state)
{
    (void)state;
    struct field field;
    struct measure_options options = {.seconds = 0.01, .rounds = 5, .check_budget = 1 << 20};
    struct result results[MOST_CONTENDERS];
    assert_int_equal(field_open(CARAT_DEVICE_CPU, 0, &field), CARAT_OK);
    assert_int_equal(field_add_carat(&field), CARAT_OK);
    assert_int_equal(field_add_peer(&field, "openblas"), CARAT_OK);
    for (int type = CARAT_F32; type <= CARAT_S8; type++) {
        struct shape shape = {
            .type = (carat_type)type, .layout = "TN", .m = 33, .n = 20, .k = 40, .batch = 3};
        carat_gemm_problem problem = shape_problem(&shape);
        assert_int_equal(field_measure(&field, &problem, &options, results), CARAT_OK);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(results[i].outcome, OUTCOME_TIMED);
            assert_true(results[i].time_us > 0);
            assert_true(results[i].graph_time_us == 0);
            assert_true(results[i].rounds >= 1 && results[i].rounds <= 5);
            assert_true(results[i].plan[0] != 0);
        }
        assert_true(results[0].error == results[1].error);
        assert_true(field_peer_seconds(&field, results) == result_seconds(&results[1]));
        assert_true(field_cublas_seconds(&field, results) == 0);
    }
    /* What would take the CPU minutes is not begun. */
    carat_gemm_problem huge = carat_gemm_describe(CARAT_F32, 30000, 30000, 30000);
    huge.lda = huge.ldb = huge.ldc = huge.ldd = 30000;
    assert_int_equal(field_measure(&field, &huge, &options, results), CARAT_OK);
    assert_int_equal(results[0].outcome, OUTCOME_SKIPPED);
    assert_non_null(strstr(results[0].reason, "too large for the CPU"));
    field_close(&field);
}

static void a_result_in_json_has_every_field(void **state)
{
    (void)state;
    static const char *const keys[] = {"dtype",   "layout",        "m",         "n",
                                       "k",       "batch",         "contender", "accuracy",
                                       "time_us", "graph_time_us", "tflops",    "share_of_ceiling",
                                       "plan",    "sm_clock_mhz",  "power_w",   "error",
                                       "ratio"};
    struct ceilings ceilings = some_ceilings();
    struct contender contender = {.name = "carat", .accuracy = "strict"};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 1000, 1000, 1000);
    struct result result = {.outcome = OUTCOME_TIMED,
                            .time_us = 100,
                            .graph_time_us = 80,
                            .error = 1e-7,
                            .plan = "p",
                            .sm_clock_mhz = 1980,
                            .power_w = 500};
    json_t *line = report_result(&contender, &problem, &result, &ceilings, 40e-6);
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        assert_non_null(json_object_get(line, keys[i]));
    }
    /* The better of the two times counts. */
    assert_true(fabs(json_number_value(json_object_get(line, "tflops")) - 25) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(line, "share_of_ceiling")) - 0.5) < 1e-9);
    assert_true(fabs(json_number_value(json_object_get(line, "ratio")) - 0.5) < 1e-9);
    json_decref(line);
    struct result wrong = {.outcome = OUTCOME_WRONG, .reason = "off", .error = NAN};
    line = report_result(&contender, &problem, &wrong, &ceilings, 0);
    assert_true(json_is_null(json_object_get(line, "time_us")));
    assert_true(json_is_null(json_object_get(line, "tflops")));
    assert_true(json_is_null(json_object_get(line, "error")));
    assert_string_equal(json_string_value(json_object_get(line, "outcome")), "wrong");
    assert_string_equal(json_string_value(json_object_get(line, "reason")), "off");
    json_decref(line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_is_the_middle),
        cmocka_unit_test(geometric_mean_of_a_ratio_and_its_inverse_is_one),
        cmocka_unit_test(shape_lines_are_read),
        cmocka_unit_test(wrong_shape_lines_are_refused_with_their_place),
        cmocka_unit_test(the_shape_files_that_come_along_are_read),
        cmocka_unit_test(reference_of_a_small_product),
        cmocka_unit_test(reference_reads_what_the_problem_says),
        cmocka_unit_test(large_references_are_sampled_from_end_to_end),
        cmocka_unit_test(integers_wrap_and_must_be_exact),
        cmocka_unit_test(poison_is_found),
        cmocka_unit_test(nan_stays_the_largest_error),
        cmocka_unit_test(families_are_what_they_are_called),
        cmocka_unit_test(every_rung_has_a_row_and_a_base_below_it),
        cmocka_unit_test(traffic_is_counted_from_the_tiles),
        cmocka_unit_test(plain_loops_take_time),
        cmocka_unit_test(the_floor_is_what_binds),
        cmocka_unit_test(ceilings_survive_json),
        cmocka_unit_test(unknown_and_absent_contenders_are_told_apart),
        cmocka_unit_test(contenders_are_checked_and_timed),
        cmocka_unit_test(a_result_in_json_has_every_field),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
