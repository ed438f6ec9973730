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
#include "device.h"
#include "element.h"
#include "accuracy.h"
#include "families.h"
#include "field.h"
#include "ladder.h"
#include "plain.h"
#include "plot.h"
#include "report.h"
#include "shapes.h"
#include "statistics.h"
#include "summary.h"
#include "survey.h"
#include "tune.h"

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
    assert_int_equal(shapes_read_line("x", "fp4 TN 8 8 8", &shapes), CARAT_OK);
    assert_int_equal(shapes.count, 3);
    assert_int_equal(shapes.items[0].type, CARAT_BF16);
    assert_string_equal(shapes.items[0].layout, "TN");
    assert_int_equal(shapes.items[0].k, 14336);
    assert_int_equal(shapes.items[0].batch, 1);
    assert_int_equal(shapes.items[1].batch, 512);
    assert_int_equal(shapes.items[2].type, 0);
    assert_string_equal(shapes.items[2].dtype, "fp4");

    carat_gemm_problem problem = shape_problem(&shapes.items[0]);
    assert_int_equal(problem.order, CARAT_COLUMN_MAJOR);
    assert_int_equal(problem.op_a, CARAT_TRANSPOSE);
    assert_int_equal(problem.op_b, CARAT_NO_TRANSPOSE);
    assert_int_equal(problem.lda, 14336); /* A is stored k x m */
    assert_int_equal(problem.ldb, 14336);
    assert_int_equal(problem.ldd, 4096);
    assert_string_equal(layout_name(&problem), "TN");
    /* Sides whose products 64 bits do not hold, of strides, are none. */
    assert_int_equal(shapes_read_line("x", "f32 NN 2147483647 2147483647 2147483647", &shapes), CARAT_OK);
    problem = shape_problem(&shapes.items[3]);
    assert_true(problem.stride_a == (int64_t)INT32_MAX * INT32_MAX);
    assert_int_equal(shapes_read_line("x:7", "f32 NN 4 2147483648 4", &shapes), CARAT_INVALID_ARGUMENT);
    assert_non_null(
        strstr(carat_last_message(), "x:7: n is '2147483648', not a whole number from 1 to 2147483647"));
    problem = shape_problem(&shapes.items[1]);
    assert_int_equal(problem.stride_a, 128);
    assert_int_equal(problem.stride_b, 4096 * 128);
    assert_int_equal(problem.stride_d, 4096);
    shapes_free(&shapes);
    assert_int_equal(shapes.count, 0);
}

static void fast_types_are_read(void **state)
{
    (void)state;
    static const struct {
        const char *dtype;
        carat_type type;
        carat_type type_cd;
        carat_accuracy accuracy;
        const char *name;
    } cases[] = {
        {"f32", CARAT_F32, CARAT_F32, CARAT_ACCURACY_STANDARD, "f32"},
        {"tf32", CARAT_F32, CARAT_F32, CARAT_ACCURACY_FAST, "tf32"},
        {"f32-fast", CARAT_F32, CARAT_F32, CARAT_ACCURACY_FAST, "tf32"},
        {"f32-strict", CARAT_F32, CARAT_F32, CARAT_ACCURACY_STRICT, "f32-strict"},
        {"e4m3", CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_STANDARD, "e4m3"},
        {"e4m3-fast", CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_FAST, "e4m3-fast"},
        {"e4m3-strict", CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_STRICT, "e4m3-strict"},
        {"f32-best", CARAT_F32, CARAT_F32, CARAT_ACCURACY_BEST, "f32-best"},
        {"f32-close", CARAT_F32, CARAT_F32, CARAT_ACCURACY_CLOSE, "f32-close"},
        {"bf16-close", CARAT_BF16, CARAT_BF16, CARAT_ACCURACY_CLOSE, "bf16"}, /* as standard */
        {"e4m3-close", CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_CLOSE, "e4m3"},
        {"f64-best", CARAT_F64, CARAT_F64, CARAT_ACCURACY_BEST, "f64-best"},
        {"s8", CARAT_S8, CARAT_S32, CARAT_ACCURACY_STANDARD, "s8"},
        {"s8-best", CARAT_S8, CARAT_S32, CARAT_ACCURACY_BEST, "s8"}, /* exact in any accuracy */
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct shapes shapes = {0};
        char line[80];
        char name[32];
        snprintf(line, sizeof(line), "%s TN 8 16 24", cases[i].dtype);
        assert_int_equal(shapes_read_line("x", line, &shapes), CARAT_OK);
        assert_int_equal(shapes.items[0].type, cases[i].type);
        carat_gemm_problem problem = shape_problem(&shapes.items[0]);
        assert_int_equal(problem.type_cd, cases[i].type_cd);
        assert_int_equal(problem.accuracy, cases[i].accuracy);
        dtype_name(&problem, name, sizeof(name));
        assert_string_equal(name, cases[i].name);
        shapes_free(&shapes);
    }
    carat_gemm_problem mixed = carat_gemm_describe(CARAT_E4M3, 8, 8, 8);
    char name[32];
    mixed.type_b = CARAT_E5M2;
    dtype_name(&mixed, name, sizeof(name));
    assert_string_equal(name, "e4m3:e5m2");
    struct shapes shapes = {0};
    assert_int_equal(shapes_read_line("x", "-fast TN 8 8 8", &shapes), CARAT_OK);
    assert_int_equal(shapes.items[0].type, 0);
    assert_int_equal(shapes_read_line("x", "f32-most TN 8 8 8", &shapes), CARAT_OK);
    assert_int_equal(shapes.items[1].type, 0);
    shapes_free(&shapes);
}

static void eight_bit_floats_are_measured_both_ways(void **state)
{
    (void)state;
    static const char *const wanted[] = {"bf16", "e4m3", "e4m3-fast", "e4m3-fast", "s8", "e4m3-strict"};
    struct shapes shapes = {0};
    shapes_read_line("x", "bf16 TN 8 8 8", &shapes);
    shapes_read_line("x", "e4m3 TN 8 8 8", &shapes);
    shapes_read_line("x", "e4m3-fast TN 16 8 8", &shapes);
    shapes_read_line("x", "s8 TN 8 8 8", &shapes);
    shapes_read_line("x", "e4m3-strict TN 8 8 8", &shapes);
    assert_int_equal(shapes_add_fast(&shapes), CARAT_OK);
    assert_int_equal(shapes.count, 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(shapes.items[i].dtype, wanted[i]);
    }
    assert_int_equal(shapes.items[2].m, 8);
    assert_int_equal(shapes.items[2].accuracy, CARAT_ACCURACY_FAST);
    assert_true(shape_wanted(&shapes.items[0], NULL));
    assert_true(shape_wanted(&shapes.items[0], "f32,bf16"));
    assert_false(shape_wanted(&shapes.items[0], "f32,bf1,b,bf160"));
    assert_true(shape_wanted(&shapes.items[2], "e4m3"));
    assert_true(shape_wanted(&shapes.items[2], "e4m3-fast"));
    assert_false(shape_wanted(&shapes.items[1], "e4m3-fast"));
    shapes_free(&shapes);
}

/* The same seed draws the same shapes; sides span the scale; every layout comes; no shape is over the limits. */
static void random_shapes_are_even_on_a_logarithmic_scale(void **state)
{
    (void)state;
    enum { COUNT = 4000 };
    struct draw draw = {
        .dtypes = "bf16,tf32", .seed = 7, .largest_side = 16384, .most_operations = 1e11, .most_bytes = 1e8};
    struct shapes shapes = {0};
    struct shapes again = {0};
    assert_int_equal(shapes_random(&draw, COUNT, &shapes), CARAT_OK);
    assert_int_equal(shapes_random(&draw, COUNT, &again), CARAT_OK);
    int layouts[4] = {0};
    for (int i = 0; i < COUNT; i++) {
        const struct shape *shape = &shapes.items[i];
        carat_gemm_problem problem = shape_problem(shape);
        assert_true(shape->m == again.items[i].m && shape->n == again.items[i].n &&
                    shape->k == again.items[i].k);
        assert_string_equal(shape->dtype, i % 2 ? "tf32" : "bf16");
        assert_true(workload_operations(&problem) <= 1e11 && workload_bytes(&problem) <= 1e8);
        layouts[(shape->layout[0] == 'T') * 2 + (shape->layout[1] == 'T')]++;
    }
    for (int i = 0; i < 4; i++) {
        assert_true(layouts[i] > COUNT / 5);
    }
    shapes_free(&shapes);
    shapes_free(&again);
    /* Without limits each of the 14 powers of two has its share. */
    draw.most_operations = draw.most_bytes = INFINITY;
    assert_int_equal(shapes_random(&draw, COUNT, &shapes), CARAT_OK);
    int sides[15] = {0};
    for (int i = 0; i < COUNT; i++) {
        assert_true(shapes.items[i].k >= 1 && shapes.items[i].k <= 16384);
        sides[ilogb((double)shapes.items[i].k)]++;
    }
    for (int i = 0; i < 14; i++) {
        assert_true(sides[i] > COUNT / 14 * 3 / 4);
    }
    shapes_free(&shapes);
    draw.seed = 8;
    assert_int_equal(shapes_random(&draw, 1, &again), CARAT_OK);
    draw.most_operations = 1;
    assert_int_equal(shapes_random(&draw, 1, &again), CARAT_INVALID_ARGUMENT);
    draw.dtypes = "bf16,none";
    draw.most_operations = INFINITY;
    assert_int_equal(shapes_random(&draw, 2, &again), CARAT_INVALID_ARGUMENT);
    shapes_free(&again);
}

static bool same_sides(const struct shape *x, const struct shape *y)
{
    return x->m == y->m && x->n == y->n && x->k == y->k;
}

/* What the library chooses is the first of the ways that are tried, once, whatever its parts of K; the others go by what they cost. */
static void what_is_chosen_is_tried_first(void **state)
{
    (void)state;
    const struct device_traits traits = {.kind = CARAT_DEVICE_CUDA,
                                         .compute_capability = 90,
                                         .multiprocessors = 132,
                                         .shared_bytes = 232448,
                                         .name = "A Hopper"};
    const struct tune_options how = {.slack = 1.3, .most_ways = 4};
    int odd_parts = 0;
    for (int64_t k = 300; k < 40000; k = k * 7 / 5) {
        carat_gemm_problem described = carat_gemm_describe(CARAT_BF16, 60, 200, k);
        struct problem problem;
        struct candidate choice;
        struct tuning list;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        problem_simplify(&problem);
        assert_true(plan_best(&traits, &problem, &choice));
        assert_int_equal(tune_list(&traits, &problem, &how, &list), CARAT_OK);
        const struct candidate *first = &list.ways[0].way;
        assert_true(first->kernel == choice.kernel && first->parts == choice.parts &&
                    first->stream_tiles == choice.stream_tiles && first->cycles == choice.cycles);
        for (int i = 1; i < list.count; i++) {
            const struct candidate *way = &list.ways[i].way;
            assert_true(i == 1 || list.ways[i - 1].way.cycles <= way->cycles);
            assert_false(way->kernel == first->kernel && way->parts == first->parts &&
                         way->packs_a == first->packs_a && way->packs_b == first->packs_b &&
                         way->stream_tiles == first->stream_tiles && way->pack == first->pack);
        }
        odd_parts += choice.parts > 4 && choice.parts % 2;
        tuning_free(&list);
    }
    assert_true(odd_parts > 0);
}

/* What a table learns from: other shapes than those that the bench draws, and many that are like a program's. */
static void shapes_to_tune_with_are_drawn(void **state)
{
    (void)state;
    enum { COUNT = 3200 };
    struct draw draw = {
        .dtypes = "bf16,tf32", .seed = 7, .largest_side = 16384, .most_operations = 1e13, .most_bytes = 2e9};
    struct shapes random = {0};
    assert_int_equal(shapes_random(&draw, COUNT, &random), CARAT_OK);
    draw.largest_side = 0;
    int round = 0;
    int odd = 0;
    int thin = 0;
    int batches = 0;
    int same = 0;
    for (int i = 0; i < COUNT; i++) {
        struct shape shape;
        struct shape again;
        assert_int_equal(shapes_draw(&draw, i, &shape), CARAT_OK);
        assert_int_equal(shapes_draw(&draw, i, &again), CARAT_OK);
        assert_true(same_sides(&shape, &again) && shape.batch == again.batch);
        assert_string_equal(shape.dtype, i / SHAPES_OF_TYPE % 2 ? "tf32" : "bf16");
        carat_gemm_problem problem = shape_problem(&shape);
        assert_true(workload_operations(&problem) <= 1e13 && workload_bytes(&problem) <= 2e9);
        bool small = shape.m < 64 || shape.n < 64 || shape.k < 64;
        round += !small && (shape.m | shape.n | shape.k) % 8 == 0;
        odd += !small && (shape.m | shape.n | shape.k) % 8 != 0;
        thin += (shape.m % 1024 == 0 || shape.n % 1024 == 0) && shape.k % 1024 == 0;
        batches += shape.batch > 1;
        for (int j = 0; j < COUNT && !small; j++) {
            same += same_sides(&shape, &random.items[j]);
        }
    }
    assert_int_equal(same, 0);
    assert_true(round > odd / 2 && odd > round / 2);
    assert_true(thin > COUNT / 15 && thin < COUNT / 6);
    assert_true(batches > COUNT / 30 && batches < COUNT / 8);
    shapes_free(&random);
    struct shape shape;
    draw.most_operations = 1;
    assert_int_equal(shapes_draw(&draw, 0, &shape), CARAT_INVALID_ARGUMENT);
    draw.dtypes = "none";
    draw.most_operations = INFINITY;
    assert_int_equal(shapes_draw(&draw, 0, &shape), CARAT_INVALID_ARGUMENT);
}

/* Thin shapes and rounded sides too. */
static void no_side_is_longer_than_asked_for(void **state)
{
    (void)state;
    static const int64_t sides[] = {100, 16384, 20000, 32767};
    for (size_t s = 0; s < sizeof(sides) / sizeof(sides[0]); s++) {
        struct draw draw = {.dtypes = "bf16",
                            .seed = 7,
                            .largest_side = sides[s],
                            .most_operations = INFINITY,
                            .most_bytes = INFINITY};
        for (int i = 0; i < 1000; i++) {
            struct shape shape;
            assert_int_equal(shapes_draw(&draw, i, &shape), CARAT_OK);
            assert_true(shape.m <= sides[s] && shape.n <= sides[s] && shape.k <= sides[s]);
        }
    }
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
    static const char *const names[] = {"square", "odd", "ragged", "layouts", "batched",
                                        "skinny", "llm", "tokens", "layers"};
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

/* act(A B + bias), against the definitions. */
static void references_are_finished(void **state)
{
    (void)state;
    enum { M = 4, N = 3 };
    const float a[M] = {-3, -0.5f, 0.25f, 2};
    const float b[N] = {1, -1, 0.5f};
    const float bias[M] = {0.5f, -1, 2, 0.125f};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, M, N, 1);
    problem.lda = problem.ldc = problem.ldd = M;
    problem.ldb = 1;
    struct source source_a = {CARAT_F32, a, 0, M};
    struct source source_b = {CARAT_F32, b, 0, N};
    struct source source_bias = {CARAT_F32, bias, 0, M};
    struct reference plain;
    assert_int_equal(reference_compute(&problem, 0, &source_a, &source_b, 1000, &plain), CARAT_OK);
    for (int which = 0; which < epilogue_count; which++) {
        const struct epilogue *epilogue = &epilogues[which];
        struct reference finished;
        assert_int_equal(reference_finish(&plain, &source_bias, epilogue, &finished), CARAT_OK);
        for (int at = 0; at < M * N; at++) {
            double added = epilogue->bias == CARAT_BIAS_PER_ROW      ? (double)bias[at % M]
                           : epilogue->bias == CARAT_BIAS_PER_COLUMN ? (double)bias[at / M]
                                                                     : 0;
            double x = (double)a[at % M] * (double)b[at / M] + added;
            double pi = 3.14159265358979323846;
            double wanted = x;
            if (epilogue->activation == CARAT_ACTIVATION_RELU) {
                wanted = x > 0 ? x : 0;
            } else if (epilogue->activation == CARAT_ACTIVATION_GELU_TANH) {
                wanted = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3))));
            } else if (epilogue->activation == CARAT_ACTIVATION_GELU_ERF) {
                wanted = 0.5 * x * (1 + erf(x / sqrt(2)));
            } else if (epilogue->activation == CARAT_ACTIVATION_SILU) {
                wanted = x / (1 + exp(-x));
            }
            assert_true(fabs(finished.value[at] - wanted) < 1e-14);
            assert_true(fabs(finished.magnitude[at] - plain.magnitude[at] - fabs(added)) < 1e-14);
        }
        reference_free(&finished);
    }
    reference_free(&plain);
}

/* Rounded to 11 bits. */
static double to_tf32(double x)
{
    int exponent;
    double fraction = frexp(x, &exponent);
    return ldexp(rint(fraction * 2048) / 2048, exponent);
}

/*
 * What each accuracy may be off by: f32 operands rounded to tf32 pass as tf32 and not as f32, and a product with a few
 * k left out passes in none.
 */
static void the_allowance_fits_the_accuracy(void **state)
{
    (void)state;
    enum { SIDE = 24, K = 4096 };
    static float a[SIDE * K];
    static float b[SIDE * K];
    assert_int_equal(input_fill(CARAT_F32, INPUT_NORMAL, 1, K, SIDE, a), CARAT_OK);
    assert_int_equal(input_fill(CARAT_F32, INPUT_NORMAL, 2, K, SIDE, b), CARAT_OK);
    carat_gemm_problem strict = carat_gemm_describe(CARAT_F32, SIDE, SIDE, K);
    strict.op_a = CARAT_TRANSPOSE;
    strict.lda = strict.ldb = K;
    strict.ldc = strict.ldd = SIDE;
    carat_gemm_problem fast = strict;
    fast.accuracy = CARAT_ACCURACY_FAST;
    struct source source_a = {CARAT_F32, a, 0, SIDE * K};
    struct source source_b = {CARAT_F32, b, 0, SIDE * K};
    struct reference reference;
    assert_int_equal(reference_compute(&strict, 0, &source_a, &source_b, 1 << 30, &reference), CARAT_OK);
    carat_gemm_problem best = strict;
    best.accuracy = CARAT_ACCURACY_BEST;
    /* Operands rounded to tf32, f64 sums, f64 sums without the last 8 of k, f32 sums. */
    float d[4][SIDE * SIDE];
    for (int i = 0; i < SIDE * SIDE; i++) {
        double sums[3] = {0};
        d[3][i] = 0;
        for (int k = 0; k < K; k++) {
            double x = (double)a[i % SIDE * K + k];
            double y = (double)b[i / SIDE * K + k];
            sums[0] += to_tf32(x) * to_tf32(y);
            sums[1] += x * y;
            sums[2] += k < K - 8 ? x * y : 0;
            d[3][i] += (float)(x * y);
        }
        for (int way = 0; way < 3; way++) {
            d[way][i] = (float)sums[way];
        }
    }
    assert_true(reference_compare(&reference, d[0], reference_ulps(&fast)).right);
    assert_false(reference_compare(&reference, d[0], reference_ulps(&strict)).right);
    assert_true(reference_compare(&reference, d[1], reference_ulps(&strict)).right);
    assert_false(reference_compare(&reference, d[2], reference_ulps(&fast)).right);
    assert_true(reference_compare(&reference, d[3], reference_ulps(&strict)).right);
    assert_true(reference_compare(&reference, d[1], reference_ulps(&best)).right);
    assert_false(reference_compare(&reference, d[3], reference_ulps(&best)).right);
    assert_true(reference_compare(&reference, d[3], reference_peer_ulps(&best, ACCURACY_NORMAL)).right);
    carat_gemm_problem float8 = carat_gemm_describe(CARAT_E4M3, SIDE, SIDE, K);
    assert_false(reference_compare(&reference, d[2], reference_ulps(&float8)).right);
    double by_default = reference_ulps(&float8);
    float8.accuracy = CARAT_ACCURACY_FAST;
    assert_true(reference_ulps(&float8) > 4 * by_default);
    reference_free(&reference);
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

/* ---- Accuracy ---- */

static void the_truth_knows_more_than_f64(void **state)
{
    (void)state;
    /* Columns of A cancel in f64 and leave 2^-40 + 1; |A||B| is 2^61 + 1 + 2^-40, or so. */
    static const float a[] = {0x1p60f, 0, 1, 0, 0x1p-40f, 0, -0x1p60f, 0};
    static const float b[] = {1, 1, 1, 1};
    struct truth truth;
    assert_int_equal(truth_compute(2, 1, 4, a, b, 0, &truth), CARAT_OK);
    assert_int_equal(truth.row_count * truth.column_count, 2);
    assert_true(truth.value[0] + truth.rest[0] == 1 + 0x1p-40);
    assert_true(truth.magnitude[0] == 0x1p61);
    assert_true(truth.value[1] == 0 && truth.magnitude[1] == 0);
    float d[] = {1, 0};
    struct accuracy_errors errors = truth_compare(&truth, d, 2);
    assert_int_equal(errors.misrounded, 0);
    assert_true(errors.most == 0x1p-101 && errors.mean == 0x1p-102);
    const struct accuracy_case what = {ACCURACY_NORMAL, 1, 2, 1, 4};
    assert_true(errors.beyond == 0 && accuracy_holds(CARAT_ACCURACY_BEST, &what, &errors));
    d[0] = 1 + 0x1p-23f;
    assert_int_equal(truth_compare(&truth, d, 2).misrounded, 1);
    /* One unit off is half a unit too much, however little it is of |A||B|; but not where that allows as much. */
    errors = truth_compare(&truth, d, 2);
    assert_true(errors.beyond == (0x1p-24 - 0x1p-40) / 0x1p61);
    assert_true(accuracy_holds(CARAT_ACCURACY_BEST, &what, &errors));
    d[0] = 0x1p14f;
    errors = truth_compare(&truth, d, 2);
    assert_false(accuracy_holds(CARAT_ACCURACY_BEST, &what, &errors));
    assert_true(accuracy_holds(CARAT_ACCURACY_STRICT, &what, &errors));
    d[0] = NAN;
    assert_true(isnan(truth_compare(&truth, d, 2).most));
    d[0] = 1;
    d[1] = 1;
    assert_true(isinf(truth_compare(&truth, d, 2).most));
    truth_free(&truth);
}

static void samples_reach_the_corners(void **state)
{
    (void)state;
    enum { ROWS = 300, COLUMNS = 900, ENTRIES = 5000 };
    static float a[ROWS];
    static float b[COLUMNS];
    struct truth truth;
    assert_int_equal(truth_compute(ROWS, COLUMNS, 1, a, b, ENTRIES, &truth), CARAT_OK);
    assert_true(truth.row_count * truth.column_count >= ENTRIES);
    assert_true(truth.row_count * truth.column_count < 2 * ENTRIES);
    assert_true(truth.rows[0] == 0 && truth.rows[truth.row_count - 1] == ROWS - 1);
    assert_true(truth.columns[0] == 0 && truth.columns[truth.column_count - 1] == COLUMNS - 1);
    for (int64_t i = 1; i < truth.column_count; i++) {
        assert_true(truth.columns[i] > truth.columns[i - 1]);
    }
    truth_free(&truth);
}

static void accuracy_families_are_what_they_are_called(void **state)
{
    (void)state;
    enum { M = 12, N = 10, K = 64 };
    static float a[M * K];
    static float b[K * N];
    assert_int_equal(accuracy_fill(ACCURACY_PERMUTATION, 1, M, N, K, a, b), CARAT_OK);
    for (int l = 0; l < K; l++) {
        float sum = 0;
        for (int i = 0; i < M; i++) {
            sum += a[i + l * M];
        }
        assert_true(sum == 0 || sum == 1);
    }
    for (enum accuracy_family family = ACCURACY_IDENTITY; family <= ACCURACY_ONE_HOT; family++) {
        assert_int_equal(accuracy_fill(family, 2, M, N, K, a, b), CARAT_OK);
        for (int i = 0; i < M; i++) {
            float sum = 0;
            for (int l = 0; l < K; l++) {
                assert_true(a[i + l * M] == 0 || a[i + l * M] == 1);
                sum += a[i + l * M];
            }
            assert_true(sum == 1);
        }
    }
    assert_int_equal(accuracy_fill(ACCURACY_ORTHOGONAL, 3, M, N, K, a, b), CARAT_OK);
    for (int i = 0; i < M; i++) {
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int l = 0; l < K; l++) {
                sum += (double)a[i + l * M] * b[l + j * K];
            }
            assert_true(fabs(sum - (i == j)) < 1e-6);
        }
    }
    assert_int_equal(accuracy_fill(ACCURACY_EXPONENTS, 4, M, N, K, a, b), CARAT_OK);
    float least = INFINITY;
    float most = 0;
    for (int i = 0; i < M * K; i++) {
        least = fminf(least, fabsf(a[i]));
        most = fmaxf(most, fabsf(a[i]));
    }
    assert_true(least >= 0x1p-60f && least < 0x1p-55f && most > 0x1p55f && most < 0x1p61f);
    assert_int_equal(accuracy_fill(ACCURACY_DENORMALS, 5, M, N, K, a, b), CARAT_OK);
    int denormal = 0;
    for (int i = 0; i < M * K; i++) {
        denormal += a[i] != 0 && fabsf(a[i]) < 0x1p-126f;
    }
    assert_true(denormal > M * K * 9 / 10);
    assert_int_equal(accuracy_fill(ACCURACY_NORMAL, 5, 0, N, K, a, b), CARAT_INVALID_ARGUMENT);
    assert_int_equal(accuracy_fill(ACCURACY_VANDERMONDE, 1, M, N, K, a, b), CARAT_OK);
    for (int l = 0; l < K; l++) {
        for (int i = 0; i < M; i++) {
            double node = cos(acos(-1) * (2 * i + 1) / (2.0 * M));
            assert_true(a[i + l * M] == (float)pow(node, l));
        }
    }
    assert_int_equal(accuracy_fill(ACCURACY_HILBERT, 1, M, N, K, a, b), CARAT_OK);
    assert_true(a[3 + 5 * M] == 1 / 9.0F && b[5 + 3 * K] == 1 / 9.0F);
    assert_int_equal(accuracy_family_find("one-hot"), ACCURACY_ONE_HOT);
    assert_int_equal(accuracy_family_find("one"), ACCURACY_FAMILIES);
}

/* More than a thread takes at a time, and more than one block of a transposition. */
static void long_columns_are_made_by_several_threads(void **state)
{
    (void)state;
    enum { M = 70, N = 3, K = 40000 };
    float *a = malloc(sizeof(*a) * M * K);
    float *b = malloc(sizeof(*b) * K * N);
    assert_true(a && b);
    assert_int_equal(accuracy_fill(ACCURACY_ORTHOGONAL, 3, M, N, K, a, b), CARAT_OK);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < M; i++) {
            double sum = 0;
            for (int l = 0; l < K; l++) {
                sum += (double)a[i + (int64_t)l * M] * b[l + j * K];
            }
            assert_true(fabs(sum - (i == j)) < 1e-6);
        }
    }
    struct truth truth;
    assert_int_equal(truth_compute(M, N, K, a, b, 0, &truth), CARAT_OK);
    assert_true(truth.row_count == M && truth.column_count == N);
    for (int j = 0; j < N; j++) {
        for (int i = 0; i < M; i++) {
            long double sum = 0;
            double magnitude = 0;
            for (int l = 0; l < K; l++) {
                double product = (double)a[i + (int64_t)l * M] * b[l + j * K];
                sum += product;
                magnitude += fabs(product);
            }
            long double difference = sum - truth.value[j * M + i] - truth.rest[j * M + i];
            assert_true(fabsl(difference) < 1e-15L * magnitude); /* of k roundings to 64 bits */
            assert_true(fabs(truth.magnitude[j * M + i] - magnitude) <= 1e-12 * magnitude);
        }
    }
    truth_free(&truth);
    free(a);
    free(b);
}

/* All of 256 x 256 entries where that takes 2^30 products, and what was asked for where it takes more. */
static void few_products_are_compared_whole(void **state)
{
    (void)state;
    enum { SIDE = 256, K = (1 << 14) + 1 };
    float *zeros = calloc((size_t)SIDE * K, sizeof(*zeros));
    assert_non_null(zeros);
    struct truth truth;
    assert_int_equal(truth_compute(SIDE, SIDE, 4, zeros, zeros, 16, &truth), CARAT_OK);
    assert_int_equal(truth.row_count * truth.column_count, SIDE * SIDE);
    truth_free(&truth);
    assert_int_equal(truth_compute(SIDE, SIDE, K, zeros, zeros, 16, &truth), CARAT_OK);
    assert_int_equal(truth.row_count * truth.column_count, 16);
    truth_free(&truth);
    free(zeros);
}

/* ---- The ladder ---- */

static bool has_rung(const struct rungs *rungs, int number)
{
    for (int i = 0; i < rungs->count; i++) {
        if (rungs->items[i].number == number) {
            return true;
        }
    }
    return false;
}

static void every_rung_has_a_row_and_a_base_below_it(void **state)
{
    (void)state;
    struct rungs rungs;
    struct rungs tensor;
    assert_true(rungs_list(CARAT_F32, NULL, &rungs));
    assert_true(rungs_list(CARAT_BF16, NULL, &tensor));
    for (int number = 1; number <= TOP_RUNG; number++) {
        assert_true(has_rung(number <= 9 ? &rungs : &tensor, number));
        assert_true(rung_base(number) < number);
        assert_true(number == 1 || rung_base(number) > 0);
    }
    for (int i = 1; i < rungs.count; i++) {
        assert_true(rungs.items[i].number >= rungs.items[i - 1].number);
    }
    assert_true(rungs_list(CARAT_F32, "1,9", &rungs));
    assert_int_equal(rungs.items[0].number, 1);
    assert_int_equal(rungs.items[rungs.count - 1].number, 9);
    assert_null(rungs.items[rungs.count - 1].row);
    for (int i = 0; i < rungs.count; i++) {
        assert_true(rungs.items[i].number == 1 || rungs.items[i].number == 9);
    }
    assert_false(rungs_list(CARAT_F32, "one", &rungs));
    assert_false(rungs_list(CARAT_F32, "", &rungs));
}

static void types_of_the_tensor_instructions_go_on_to_the_top(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        int top;
    } tops[] = {{CARAT_F32, 9}, {CARAT_F64, 9}, {CARAT_F16, TOP_RUNG}, {CARAT_BF16, TOP_RUNG}};
    for (int t = 0; t < 4; t++) {
        struct rungs rungs;
        assert_int_equal(library_rung(tops[t].type), tops[t].top);
        assert_true(rungs_list(tops[t].type, NULL, &rungs));
        int libraries = 0;
        for (int i = 0; i < rungs.count; i++) {
            const struct rung *rung = &rungs.items[i];
            assert_true(!rung->row || rung->row->element == (int)tops[t].type);
            libraries += rung->row == NULL;
        }
        assert_int_equal(libraries, 1);
        assert_null(rungs.items[rungs.count - 1].row);
        assert_int_equal(rungs.items[rungs.count - 1].number, tops[t].top);
    }
    /* Rung 9 is a row there, and comes with its own. */
    struct rungs rungs;
    assert_true(rungs_list(CARAT_BF16, "9", &rungs));
    assert_int_equal(rungs.count, 1);
    assert_non_null(rungs.items[0].row);
}

static void traffic_is_counted_from_the_tiles(void **state)
{
    (void)state;
    struct kernel kernel = {.element = ELEMENT_F32, .tile_m = 16, .tile_n = 32};
    /* Rung 1: 2 m n k words read, m n written. */
    assert_true(rung_traffic_bytes(1, &kernel, 64, 64, 64) == 4.0 * (2 * 64 * 64 * 64 + 64 * 64));
    /* Tiles: A once for each of 2 tile columns, B once for each of 4 tile rows. */
    assert_true(rung_traffic_bytes(3, &kernel, 64, 64, 64) == 4.0 * (64 * 64 * 2 + 64 * 64 * 4 + 64 * 64));
    /* A cluster of two side by side along n, or along m, reads what it has in common once. */
    struct kernel pair = {.element = ELEMENT_BF16, .tile_m = 32, .tile_n = 16, .cluster = 2, .swapped = 1};
    assert_true(rung_traffic_bytes(14, &pair, 64, 64, 64) == 2.0 * (64 * 64 * 2 + 64 * 64 * 2 + 64 * 64));
    pair.swapped = 0;
    assert_true(rung_traffic_bytes(14, &pair, 64, 64, 64) == 2.0 * (64 * 64 * 4 + 64 * 64 * 1 + 64 * 64));
    pair.row_sharers = 2; /* along n again */
    assert_true(rung_traffic_bytes(14, &pair, 64, 64, 64) == 2.0 * (64 * 64 * 2 + 64 * 64 * 2 + 64 * 64));
    pair.cluster = 4; /* two by two */
    assert_true(rung_traffic_bytes(14, &pair, 64, 64, 64) == 2.0 * (64 * 64 * 2 + 64 * 64 * 1 + 64 * 64));
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
    struct ceilings ceilings = {.count = 6};
    ceilings.items[0] = (struct ceiling){.name = "ceiling_ffma", .unit = "TFLOP/s", .value = 50};
    ceilings.items[1] = (struct ceiling){.name = "ceiling_copy", .unit = "GB/s", .value = 4000};
    ceilings.items[2] =
        (struct ceiling){.name = "ceiling_dmma", .unit = "TFLOP/s", .reason = "not on this device"};
    ceilings.items[3] = (struct ceiling){.name = "ceiling_wgmma_bf16", .unit = "TFLOP/s", .value = 800};
    ceilings.items[4] = (struct ceiling){.name = "ceiling_mma_bf16", .unit = "TFLOP/s", .value = 500};
    ceilings.items[5] = (struct ceiling){.name = "ceiling_mma_tf32", .unit = "TFLOP/s", .value = 250};
    return ceilings;
}

static void the_floor_is_what_binds(void **state)
{
    (void)state;
    struct ceilings ceilings = some_ceilings();
    carat_gemm_problem square = carat_gemm_describe(CARAT_F32, 4096, 4096, 4096);
    /* Six products of bf16 at 800 are quicker than one of f32 at 50. */
    struct floor floor = ceilings_floor(&ceilings, &square);
    assert_true(fabs(floor.seconds - 12.0 * 4096 * 4096 * 4096 / 800e12) < 1e-12);
    assert_string_equal(floor.unit->name, "ceiling_wgmma_bf16");
    square.accuracy = CARAT_ACCURACY_STRICT;
    floor = ceilings_floor(&ceilings, &square);
    assert_true(fabs(floor.seconds - 2.0 * 4096 * 4096 * 4096 / 50e12) < 1e-12);
    assert_true(floor.unit_seconds == floor.seconds);
    assert_string_equal(floor.bound->name, "ceiling_ffma");
    carat_gemm_problem thin = carat_gemm_describe(CARAT_F32, 8192, 1, 8192);
    thin.accuracy = CARAT_ACCURACY_STRICT;
    floor = ceilings_floor(&ceilings, &thin);
    assert_true(fabs(floor.seconds - 4.0 * (8192.0 * 8192 + 2 * 8192) / 4e12) < 1e-12);
    assert_true(fabs(floor.unit_seconds - 2.0 * 8192 * 8192 / 50e12) < 1e-12);
    assert_string_equal(floor.bound->name, "ceiling_copy");
    assert_string_equal(floor.unit->name, "ceiling_ffma");
    assert_string_equal(ceiling_short_name(floor.bound->name), "copy");
    carat_gemm_problem other = carat_gemm_describe(CARAT_F64, 64, 64, 64);
    assert_true(ceilings_floor(&ceilings, &other).seconds == 0); /* not measured */
    assert_null(ceilings_floor(NULL, &square).unit);
}

/* The fastest unit that was measured and does the type in the accuracy asked for. */
static void every_type_has_its_unit(void **state)
{
    (void)state;
    struct ceilings ceilings = some_ceilings();
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 64, 64, 64);
    assert_string_equal(ceilings_of_problem(&ceilings, &problem)->name, "ceiling_wgmma_bf16");
    ceilings.items[3].value = 299; /* less than six times that of f32 */
    assert_string_equal(ceilings_of_problem(&ceilings, &problem)->name, "ceiling_ffma");
    ceilings.items[3].value = 800;
    problem.accuracy = CARAT_ACCURACY_STRICT;
    assert_string_equal(ceilings_of_problem(&ceilings, &problem)->name, "ceiling_ffma");
    problem.accuracy = CARAT_ACCURACY_FAST;
    assert_string_equal(ceilings_of_problem(&ceilings, &problem)->name, "ceiling_mma_tf32");
    problem.accuracy = CARAT_ACCURACY_BEST;
    assert_null(ceilings_of_problem(&ceilings, &problem)); /* that of f64, which was not measured */
    assert_string_equal(ceilings_of_type(&ceilings, CARAT_F32)->name, "ceiling_ffma");
    assert_string_equal(ceilings_of_type(&ceilings, CARAT_BF16)->name, "ceiling_wgmma_bf16");
    assert_string_equal(ceilings_of_type(&ceilings, CARAT_F16)->name, "ceiling_ffma");
    assert_null(ceilings_of_type(&ceilings, CARAT_S8));
    assert_null(ceilings_of_type(&ceilings, CARAT_F64));
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
    assert_int_equal(read.count, 6);
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
    for (int type = CARAT_F32; type <= CARAT_E5M2; type++) {
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
        struct peer peer = field_peer(&field, results);
        assert_int_equal(peer.at, 1);
        assert_true(peer.seconds == result_seconds(&results[1]));
        assert_true(peer.call_us == results[1].time_us && peer.graph_us == 0);
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

/* What a workload's memory holds is the family's A and B, as the problem lays them out, in every set. */
static void workloads_of_a_family_hold_it(void **state)
{
    (void)state;
    enum { M = 12, N = 9, K = 20, BATCH = 2 };
    static float a[M * K];
    static float b[K * N];
    struct stage stage;
    assert_int_equal(stage_open(CARAT_DEVICE_CPU, 0, &stage), CARAT_OK);
    for (int ops = 0; ops < 4; ops++) {
        struct shape shape = {.type = CARAT_F32, .m = M, .n = N, .k = K, .batch = BATCH};
        snprintf(shape.layout, sizeof(shape.layout), "%c%c", ops & 2 ? 'T' : 'N', ops & 1 ? 'T' : 'N');
        carat_gemm_problem problem = shape_problem(&shape);
        struct workload workload;
        stage.arena.family = ACCURACY_EXPONENTS;
        assert_int_equal(workload_open(&stage.arena, &problem, &workload), CARAT_OK);
        assert_true(workload.sets > 1);
        for (int set = 0; set < workload.sets; set += workload.sets - 1) {
            const float *stored_a = workload_a(&workload, set);
            const float *stored_b = workload_b(&workload, set);
            for (int index = 0; index < BATCH; index++) {
                uint64_t seed = (uint64_t)index + 1;
                assert_int_equal(accuracy_fill(ACCURACY_EXPONENTS, seed, M, N, K, a, b), CARAT_OK);
                for (int l = 0; l < K; l++) {
                    for (int i = 0; i < M; i++) {
                        int at = ops & 2 ? l + i * K : i + l * M;
                        assert_true(stored_a[index * M * K + at] == a[i + l * M]);
                    }
                    for (int j = 0; j < N; j++) {
                        int at = ops & 1 ? j + l * N : l + j * K;
                        assert_true(stored_b[index * K * N + at] == b[l + j * K]);
                    }
                }
            }
        }
    }
    /* Another family, and back to random numbers: nothing is left of the one before. */
    struct shape shape = {.type = CARAT_F32, .layout = "NN", .m = M, .n = N, .k = K, .batch = 1};
    carat_gemm_problem problem = shape_problem(&shape);
    struct workload workload;
    stage.arena.family = ACCURACY_SMALL;
    assert_int_equal(workload_open(&stage.arena, &problem, &workload), CARAT_OK);
    assert_true(fabsf(((const float *)workload_a(&workload, 0))[3]) <= 8);
    stage.arena.family = ACCURACY_NORMAL;
    assert_int_equal(workload_open(&stage.arena, &problem, &workload), CARAT_OK);
    assert_true(((const float *)workload_a(&workload, 0))[3] == ((const float *)stage.arena.tile)[3]);
    assert_int_equal(stage.arena.period, RANDOM_PERIOD);
    /* There are no families of other types. */
    stage.arena.family = ACCURACY_EXPONENTS;
    problem = carat_gemm_describe(CARAT_BF16, M, N, K);
    assert_int_equal(workload_open(&stage.arena, &problem, &workload), CARAT_UNSUPPORTED);
    assert_non_null(strstr(carat_last_message(), "exponents"));
    stage_close(&stage);
}

/* Right results pass on every family, and what is wrong in one does not. */
static void families_are_checked_entry_by_entry(void **state)
{
    (void)state;
    struct measure_options options = {.seconds = 1e-4, .rounds = 1, .check_budget = 1 << 22};
    struct result results[MOST_CONTENDERS];
    struct field field;
    assert_int_equal(field_open(CARAT_DEVICE_CPU, 0, &field), CARAT_OK);
    assert_int_equal(field_add_carat(&field), CARAT_OK);
    assert_int_equal(field_add_peer(&field, "openblas"), CARAT_OK);
    static const carat_accuracy settings[] = {CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_FAST,
                                              CARAT_ACCURACY_CLOSE, CARAT_ACCURACY_BEST};
    for (int family = 0; family < ACCURACY_FAMILIES; family++) {
        for (int i = 0; i < 4; i++) {
            struct shape shape = {.type = CARAT_F32,
                                  .accuracy = settings[i],
                                  .layout = "TN",
                                  .m = 40,
                                  .n = 30,
                                  .k = 70,
                                  .batch = 2};
            carat_gemm_problem problem = shape_problem(&shape);
            options.input = (enum accuracy_family)family;
            assert_int_equal(field_measure(&field, &problem, &options, results), CARAT_OK);
            assert_int_equal(results[0].outcome, OUTCOME_TIMED);
            assert_int_equal(results[1].outcome, OUTCOME_TIMED);
            assert_true(results[0].safe_share == 0);
        }
    }
    field_close(&field);

    /* An entry of little products beside large ones: what is wrong in it is seen, as each has its own |A||B|. */
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 1, 2, 2);
    problem.lda = problem.ldc = problem.ldd = 1;
    problem.ldb = 2;
    static const float numbers[] = {0x1p60f, 0x1p-60f, 0x1p60f, 0, 0, 0x1p-60f};
    struct source a = {CARAT_F32, numbers, 0, 6};
    struct source b = {CARAT_F32, numbers, 2, 6};
    struct reference reference;
    assert_int_equal(reference_compute(&problem, 0, &a, &b, 1 << 20, &reference), CARAT_OK);
    double ulps = reference_ulps_on(&problem, ACCURACY_EXPONENTS);
    assert_true(reference_compare(&reference, (float[]){0x1p120f, 0x1p-120f}, ulps).right);
    assert_false(reference_compare(&reference, (float[]){0x1p120f, 0x1.001p-120f}, ulps).right);
    assert_false(reference_compare(&reference, (float[]){0x1p120f, 0}, ulps).right);
    reference_free(&reference);
}

/* A device on which every look at the count finds a product's 40 x 30 elements more of it. */
static carat_status count_all(struct device *device, uint64_t *elements)
{
    (void)device;
    static uint64_t count;
    *elements = count += 40 * 30;
    return CARAT_OK;
}

static void what_the_safe_path_computes_is_counted(void **state)
{
    (void)state;
    struct measure_options options = {.seconds = 1e-4, .rounds = 1, .check_budget = 1 << 22};
    struct result result;
    struct field field;
    assert_int_equal(field_open(CARAT_DEVICE_CPU, 0, &field), CARAT_OK);
    assert_int_equal(field_add_carat(&field), CARAT_OK);
    struct device *device = field.stages[0].place.device;
    struct device_functions functions = *device->functions;
    functions.count_safe = count_all;
    device->functions = &functions;
    struct shape shape = {.type = CARAT_F32,
                          .accuracy = CARAT_ACCURACY_CLOSE,
                          .layout = "NN",
                          .m = 40,
                          .n = 30,
                          .k = 9,
                          .batch = 4};
    carat_gemm_problem problem = shape_problem(&shape);
    assert_int_equal(field_measure(&field, &problem, &options, &result), CARAT_OK);
    assert_true(result.safe_share == 0.25);
    json_t *line = report_result(field.contenders[0], &problem, &result, NULL, 0);
    assert_true(json_real_value(json_object_get(line, "safe_share")) == 0.25);
    json_decref(line);
    field_close(&field);
}

/* What is allowed grows with k where errors may add up, and is nothing where no one may make any. */
static void the_allowance_fits_the_family(void **state)
{
    (void)state;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 8, 8, 1 << 14);
    assert_true(reference_ulps_on(&problem, ACCURACY_NORMAL) == reference_ulps(&problem));
    assert_true(reference_ulps_on(&problem, ACCURACY_POSITIVE) == 32 + 128);
    assert_true(reference_ulps_on(&problem, ACCURACY_ONE_HOT) == 0);
    assert_true(reference_peer_ulps(&problem, ACCURACY_SMALL) == 0);
    problem.accuracy = CARAT_ACCURACY_BEST;
    assert_true(reference_ulps_on(&problem, ACCURACY_HUGE) < 1e-3);
    assert_true(reference_peer_ulps(&problem, ACCURACY_HUGE) == 32 + 128);
    problem.accuracy = CARAT_ACCURACY_FAST;
    assert_true(reference_ulps_on(&problem, ACCURACY_HUGE) > 0x1p14);
    assert_true(reference_ulps_on(&problem, ACCURACY_HUGE) < reference_ulps_on(&problem, ACCURACY_DENORMALS));
}

static void a_result_in_json_has_every_field(void **state)
{
    (void)state;
    static const char *const keys[] = {"dtype",
                                       "layout",
                                       "m",
                                       "n",
                                       "k",
                                       "batch",
                                       "contender",
                                       "accuracy",
                                       "time_us",
                                       "graph_time_us",
                                       "tflops",
                                       "share_of_ceiling",
                                       "share_of_unit",
                                       "unit",
                                       "safe_share",
                                       "plan",
                                       "sm_clock_mhz",
                                       "power_w",
                                       "error",
                                       "ratio"};
    struct ceilings ceilings = some_ceilings();
    struct contender contender = {.name = "carat", .accuracy = "strict"};
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 1000, 1000, 1000);
    problem.accuracy = CARAT_ACCURACY_STRICT;
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

/* The better of cublas and cublaslt counts, in either way of running; who else is there does not. */
static void the_better_cublas_is_the_peer(void **state)
{
    (void)state;
    struct contender carat = {.name = "carat"};
    struct contender cublas = {.name = "cublas"};
    struct contender cublaslt = {.name = "cublaslt"};
    struct contender openblas = {.name = "openblas"};
    struct field field = {.contenders = {&carat, &cublas, &cublaslt, &openblas}, .count = 4};
    struct result results[4] = {{.time_us = 1},
                                {.time_us = 20, .graph_time_us = 9},
                                {.time_us = 15, .graph_time_us = 10},
                                {.time_us = 2}};
    struct peer peer = field_peer(&field, results);
    assert_int_equal(peer.at, 1);
    assert_true(fabs(peer.seconds - 9e-6) < 1e-12 && peer.call_us == 15 && peer.graph_us == 9);
    results[1] = results[2] = (struct result){.outcome = OUTCOME_CANNOT};
    peer = field_peer(&field, results);
    assert_int_equal(peer.at, 3);
    assert_true(peer.call_us == 2 && peer.graph_us == 0);
    results[3] = (struct result){.outcome = OUTCOME_CANNOT};
    peer = field_peer(&field, results);
    assert_true(peer.at == -1 && peer.seconds == 0);
}

static void summaries_are_kept_by_file_and_type(void **state)
{
    (void)state;
    static struct summary summary;
    const struct summary_case cases[] = {
        {"square", "bf16", "a", true, {.best = 2, .calls = 4}, .share = 0.5},
        {"square", "bf16", "b", true, {.best = 0.5, .calls = 1}, .share = 0.7},
        {"square", "f16", "c", true, {.best = 0}, .share = 0},
        {"odd", "bf16", "d", false, {.best = 0}, .share = 0},
        {"odd", "bf16", "e", true, {.best = 3, .graph = 3}, .share = 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        summary_add(&summary, &cases[i]);
    }
    assert_int_equal(summary.count, 3);
    const struct standing *first = &summary.items[0];
    assert_int_equal(first->cases, 2);
    assert_int_equal(first->slow, 1);
    assert_true(fabs(mean_value(&first->best) - 1) < 1e-12);
    assert_true(fabs(mean_value(&first->calls) - 2) < 1e-12);
    assert_true(mean_value(&first->graph) == 0);
    assert_true(first->best.worst == 0.5);
    assert_string_equal(first->best.worst_case, "b");
    assert_int_equal(summary.items[1].alone, 1);
    assert_int_equal(summary.items[2].lost, 1);
    assert_int_equal(summary.items[2].best.count, 1);
    assert_int_equal(summary.all.cases, 5);
    assert_true(fabs(mean_value(&summary.all.best) - cbrt(3)) < 1e-12);
    json_t *line = standing_to_json(first);
    assert_string_equal(json_string_value(json_object_get(line, "kind")), "summary");
    json_t *ratio = json_object_get(line, "ratio");
    assert_true(fabs(json_number_value(json_object_get(ratio, "geometric_mean")) - 1) < 1e-8);
    assert_true(json_number_value(json_object_get(ratio, "worst")) == 0.5);
    assert_true(fabs(json_number_value(json_object_get(line, "mean_share_of_unit")) - 0.6) < 1e-12);
    assert_true(json_is_null(json_object_get(json_object_get(line, "ratio_graph"), "worst")));
    json_decref(line);
}

/* A call may take 4 us of the host, and 2 more for every launch beyond the first. */
static void host_times_are_counted(void **state)
{
    (void)state;
    static struct summary summary;
    const struct summary_case cases[] = {
        {"x", "f32", "a", true, .host_us = 3.5, .launches = 1},
        {"x", "f32", "b", true, .host_us = 5.5, .launches = 2},
        {"x", "f32", "c", true, .host_us = 4.5, .launches = 1},
        {"x", "f32", "d", true, .host_us = 0, .launches = 1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        summary_add(&summary, &cases[i]);
    }
    assert_int_equal(summary.host.count, 3);
    assert_int_equal(summary.host.over, 1);
    assert_true(summary.host.sum == 13.5);
    assert_true(summary.host.most == 5.5);
    assert_string_equal(summary.host.most_case, "b");
}

/* What does not fit the list still counts in all. */
static void a_full_summary_says_so(void **state)
{
    (void)state;
    static struct summary summary;
    for (int i = 0; i < MOST_STANDINGS + 5; i++) {
        char file[20];
        snprintf(file, sizeof(file), "%d", i);
        summary_add(&summary, &(struct summary_case){file, "f32", "x", true, {.best = 1}, .share = 0});
    }
    assert_int_equal(summary.count, MOST_STANDINGS);
    assert_true(summary.overflowed);
    assert_int_equal(summary.all.cases, MOST_STANDINGS + 5);
}

/* ---- Settings of accuracy ---- */

static void settings_go_from_quick_to_accurate(void **state)
{
    (void)state;
    carat_accuracy settings[MOST_SETTINGS];
    int count = ladder_settings(CARAT_F32, settings);
    assert_true(count >= 3);
    assert_int_equal(settings[0], CARAT_ACCURACY_FAST);
    int strict = 0;
    while (strict < count && settings[strict] != CARAT_ACCURACY_STRICT) {
        strict++;
    }
    assert_in_range(strict, 2, count - 1);
    assert_int_equal(settings[strict - 1], CARAT_ACCURACY_STANDARD);
    assert_int_equal(ladder_settings(CARAT_BF16, settings), 0);
}

/* ---- What is surveyed ---- */

struct surveyed {
    int *points; /* of each row */
    int count;
};

static void look_at_line(void *context, const struct tuning_line *line)
{
    struct surveyed *surveyed = context;
    for (int i = 0; i < (line->operation == OPERATION_GEMM ? 3 : 2); i++) {
        assert_true(line->sizes[i] >= 1); /* a tile of two rows has no eighth part */
    }
    surveyed->points[line->kernel - carat_catalog]++;
    surveyed->count++;
}

static void every_row_is_surveyed_where_it_is_something(void **state)
{
    (void)state;
    const struct device_traits traits = {
        .kind = CARAT_DEVICE_CUDA, .compute_capability = 90, .multiprocessors = 132, .name = "A chip"};
    struct surveyed surveyed = {.points = calloc((size_t)carat_catalog_count, sizeof(int))};
    assert_non_null(surveyed.points);
    assert_int_equal(survey_visit(&traits, NULL, look_at_line, &surveyed), CARAT_OK);
    assert_true(surveyed.count > 10000);
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        bool alone = row->planes == 0 && !row->rescues;
        if (row->operation == OPERATION_GEMM && (surveyed.points[i] > 0) != alone) {
            fail_msg("%s has %d points", row->name, surveyed.points[i]);
        }
    }
    free(surveyed.points);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_is_the_middle),
        cmocka_unit_test(geometric_mean_of_a_ratio_and_its_inverse_is_one),
        cmocka_unit_test(shape_lines_are_read),
        cmocka_unit_test(fast_types_are_read),
        cmocka_unit_test(eight_bit_floats_are_measured_both_ways),
        cmocka_unit_test(random_shapes_are_even_on_a_logarithmic_scale),
        cmocka_unit_test(what_is_chosen_is_tried_first),
        cmocka_unit_test(shapes_to_tune_with_are_drawn),
        cmocka_unit_test(no_side_is_longer_than_asked_for),
        cmocka_unit_test(wrong_shape_lines_are_refused_with_their_place),
        cmocka_unit_test(the_shape_files_that_come_along_are_read),
        cmocka_unit_test(reference_of_a_small_product),
        cmocka_unit_test(reference_reads_what_the_problem_says),
        cmocka_unit_test(large_references_are_sampled_from_end_to_end),
        cmocka_unit_test(integers_wrap_and_must_be_exact),
        cmocka_unit_test(poison_is_found),
        cmocka_unit_test(nan_stays_the_largest_error),
        cmocka_unit_test(references_are_finished),
        cmocka_unit_test(the_allowance_fits_the_accuracy),
        cmocka_unit_test(families_are_what_they_are_called),
        cmocka_unit_test(the_truth_knows_more_than_f64),
        cmocka_unit_test(samples_reach_the_corners),
        cmocka_unit_test(accuracy_families_are_what_they_are_called),
        cmocka_unit_test(long_columns_are_made_by_several_threads),
        cmocka_unit_test(few_products_are_compared_whole),
        cmocka_unit_test(every_rung_has_a_row_and_a_base_below_it),
        cmocka_unit_test(types_of_the_tensor_instructions_go_on_to_the_top),
        cmocka_unit_test(traffic_is_counted_from_the_tiles),
        cmocka_unit_test(plain_loops_take_time),
        cmocka_unit_test(the_floor_is_what_binds),
        cmocka_unit_test(every_type_has_its_unit),
        cmocka_unit_test(ceilings_survive_json),
        cmocka_unit_test(unknown_and_absent_contenders_are_told_apart),
        cmocka_unit_test(contenders_are_checked_and_timed),
        cmocka_unit_test(the_better_cublas_is_the_peer),
        cmocka_unit_test(summaries_are_kept_by_file_and_type),
        cmocka_unit_test(host_times_are_counted),
        cmocka_unit_test(a_full_summary_says_so),
        cmocka_unit_test(workloads_of_a_family_hold_it),
        cmocka_unit_test(families_are_checked_entry_by_entry),
        cmocka_unit_test(what_the_safe_path_computes_is_counted),
        cmocka_unit_test(the_allowance_fits_the_family),
        cmocka_unit_test(a_result_in_json_has_every_field),
        cmocka_unit_test(settings_go_from_quick_to_accurate),
        cmocka_unit_test(every_row_is_surveyed_where_it_is_something),
    };
    return cmocka_run_group_tests_name("bench", tests, NULL, NULL);
}
