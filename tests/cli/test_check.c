/*
 * test_check.c - the program's check of a product must pass what is right, in every type, order and op, and
 * notice what is wrong: one entry off by little, an entry not written, a product in lower precision. Also
 * the conversions of elements and the random input that it stands on.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "element.h"
#include "generate.h"

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16, CARAT_BF16, CARAT_S32, CARAT_S8};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

/* A problem with its matrices. */
struct product {
    carat_gemm_problem problem;
    void *a;
    void *b;
    void *c;
    void *d;
    double alpha; /* a scalar of the type, in the first bytes */
    double beta;
};

static int64_t leading(carat_order order, int64_t rows, int64_t columns)
{
    return order == CARAT_COLUMN_MAJOR ? rows : columns;
}

static void *make_elements(carat_type type, uint64_t seed, int64_t count)
{
    void *elements = malloc((size_t)count * carat_type_size(type));
    assert_non_null(elements);
    generate(type, FAMILY_NORMAL, seed, count, elements);
    return elements;
}

static double at(carat_type type, const void *elements, carat_order order, int64_t ld, bool turned, int64_t i,
                 int64_t j)
{
    int64_t row = turned ? j : i;
    int64_t column = turned ? i : j;
    return element_value(type, elements, order == CARAT_COLUMN_MAJOR ? row + column * ld : row * ld + column);
}

/* The product by the definition, summed in the type of the sums, as a device would. */
static void multiply(struct product *product)
{
    const carat_gemm_problem *p = &product->problem;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    double alpha = element_value(scalar_type, &product->alpha, 0);
    double beta = element_value(scalar_type, &product->beta, 0);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            float sum_f32 = 0;
            double sum_f64 = 0;
            uint32_t sum_s32 = 0;
            for (int64_t l = 0; l < p->k; l++) {
                double x = at(p->type_a, product->a, p->order, p->lda, p->op_a == CARAT_TRANSPOSE, i, l);
                double y = at(p->type_a, product->b, p->order, p->ldb, p->op_b == CARAT_TRANSPOSE, l, j);
                if (scalar_type == CARAT_S32) {
                    sum_s32 += (uint32_t)(int32_t)x * (uint32_t)(int32_t)y;
                } else if (scalar_type == CARAT_F64) {
                    sum_f64 = fma(x, y, sum_f64);
                } else {
                    sum_f32 = fmaf((float)x, (float)y, sum_f32);
                }
            }
            int64_t place = p->order == CARAT_COLUMN_MAJOR ? i + j * p->ldd : i * p->ldd + j;
            double c = beta == 0 ? 0 : element_value(p->type_cd, product->c, place);
            double result;
            if (scalar_type == CARAT_S32) {
                result = (int32_t)((uint32_t)(int32_t)alpha * sum_s32 +
                                   (uint32_t)(int32_t)beta * (uint32_t)(int32_t)c);
            } else if (scalar_type == CARAT_F64) {
                result = alpha * sum_f64 + beta * c;
            } else {
                result = (float)alpha * sum_f32 + (float)beta * (float)c;
            }
            element_store(p->type_cd, product->d, place, result);
        }
    }
}

static struct product make_product(carat_type type, carat_order order, carat_op op_a, carat_op op_b,
                                   int64_t m, int64_t n, int64_t k, double alpha, double beta)
{
    struct product product = {.problem = carat_gemm_describe(type, m, n, k)};
    carat_gemm_problem *p = &product.problem;
    p->order = order;
    p->op_a = op_a;
    p->op_b = op_b;
    p->lda = op_a == CARAT_TRANSPOSE ? leading(order, k, m) : leading(order, m, k);
    p->ldb = op_b == CARAT_TRANSPOSE ? leading(order, n, k) : leading(order, k, n);
    p->ldc = p->ldd = leading(order, m, n);
    element_store(carat_scalar_type(type), &product.alpha, 0, alpha);
    element_store(carat_scalar_type(type), &product.beta, 0, beta);
    product.a = make_elements(type, 1, m * k);
    product.b = make_elements(type, 2, k * n);
    product.c = make_elements(p->type_cd, 3, m * n);
    product.d = make_elements(p->type_cd, 4, m * n);
    multiply(&product);
    return product;
}

static void free_product(struct product *product)
{
    free(product->a);
    free(product->b);
    free(product->c);
    free(product->d);
}

static struct check run_check(const struct product *product, bool random)
{
    struct check check;
    assert_true(check_gemm(&product->problem, &product->alpha, product->a, product->b, &product->beta,
                           product->c, product->d, random, &check));
    return check;
}

static void right_products_pass(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT * 8; i++) {
        carat_order order = i & 1 ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
        carat_op op_a = i & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        carat_op op_b = i & 4 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        for (int beta = 0; beta < 3; beta++) {
            struct product product = make_product(types[i / 8], order, op_a, op_b, 9, 14, 600, 3, beta - 1);
            struct check check = run_check(&product, true);
            assert_true(check.pass);
            assert_int_equal(check.wrong, 0);
            assert_true(check.error <= check.bound);
            assert_int_equal(check.rows * check.columns, 9 * 14);
            assert_true(run_check(&product, false).pass);
            free_product(&product);
        }
    }
}

static void one_wrong_entry_is_found(void **state)
{
    (void)state;
    for (int i = 0; i < TYPE_COUNT; i++) {
        carat_type type = types[i];
        struct product product =
            make_product(type, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, 11, 7, 200, 1, 1);
        carat_type type_d = product.problem.type_cd;
        struct check right = run_check(&product, true);
        for (int64_t place = 0; place < 11 * 7; place++) {
            double kept = element_value(type_d, product.d, place);
            /* |A||B| is near 0.64 k; integers are off by the least that there is. */
            double off = right.exact ? (kept > 0 ? -1 : 1) : 4 * right.bound * 200;
            element_store(type_d, product.d, place, kept + off);
            struct check check = run_check(&product, true);
            assert_false(check.pass);
            assert_int_equal(check.wrong, 1);
            assert_int_equal(check.worst_row + check.worst_column * 11, place);
            assert_true(check.worst_value == element_value(type_d, product.d, place));
            element_store(type_d, product.d, place, kept);
        }
        assert_true(run_check(&product, true).pass);
        free_product(&product);
    }
}

/* What a forgotten tile leaves behind, and what an addition too many of NaN or infinity gives. */
static void values_that_are_no_numbers_are_found(void **state)
{
    (void)state;
    static const double values[] = {(double)NAN, (double)INFINITY, -(double)INFINITY};
    for (int i = 0; i < 4; i++) { /* the types that have them */
        struct product product =
            make_product(types[i], CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE, CARAT_TRANSPOSE, 5, 6, 30, 1, 0);
        carat_type type_d = product.problem.type_cd;
        for (int value = 0; value < 3; value++) {
            double kept = element_value(type_d, product.d, 17);
            element_store(type_d, product.d, 17, values[value]);
            struct check check = run_check(&product, false);
            assert_false(check.pass);
            assert_int_equal(check.wrong, 1);
            assert_true(isinf(check.error));
            element_store(type_d, product.d, 17, kept);
        }
        /* In a row of A they belong into that row of D, and nowhere else. */
        element_store(types[i], product.a, 2 * 30 + 5, values[1]);
        assert_int_equal(run_check(&product, false).wrong, 6);
        multiply(&product);
        assert_true(run_check(&product, false).pass);
        element_store(types[i], product.a, 2 * 30 + 5, values[0]);
        assert_int_equal(run_check(&product, false).wrong, 6);
        multiply(&product);
        assert_true(run_check(&product, false).pass);
        free_product(&product);
    }
}

/* Operands cut to f16's 11 bits of fraction, as a tensor unit that rounds its operands would take them. */
static void low_precision_is_found(void **state)
{
    (void)state;
    struct product product =
        make_product(CARAT_F32, CARAT_COLUMN_MAJOR, CARAT_TRANSPOSE, CARAT_NO_TRANSPOSE, 20, 20, 1000, 1, 0);
    float *a = (float *)product.a;
    float *exact = (float *)malloc(20 * 1000 * sizeof(*exact));
    assert_non_null(exact);
    memcpy(exact, a, 20 * 1000 * sizeof(*exact));
    for (int i = 0; i < 20 * 1000; i++) {
        uint16_t half;
        element_store(CARAT_F16, &half, 0, (double)a[i]);
        a[i] = (float)element_value(CARAT_F16, &half, 0);
    }
    multiply(&product);
    memcpy(a, exact, 20 * 1000 * sizeof(*exact));
    free(exact);
    assert_false(run_check(&product, true).pass);
    free_product(&product);
}

/* A product of 1200 x 1100 is sampled; any tile that is wrong as a whole is seen. */
static void a_wrong_tile_is_found(void **state)
{
    (void)state;
    enum { M = 1200, N = 1100, K = 3, TILE = 64 };
    struct product product =
        make_product(CARAT_F32, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, M, N, K, 1, 0);
    struct check check = run_check(&product, true);
    assert_true(check.pass);
    assert_true(check.rows < M || check.columns < N);
    float *d = (float *)product.d;
    for (int64_t row = 0; row + TILE <= M; row += 4 * TILE) {
        for (int64_t column = 0; column + TILE <= N; column += 8 * TILE) {
            for (int64_t i = 0; i < TILE * TILE; i++) {
                d[row + i % TILE + (column + i / TILE) * M] += 1;
            }
            assert_false(run_check(&product, true).pass);
            for (int64_t i = 0; i < TILE * TILE; i++) {
                d[row + i % TILE + (column + i / TILE) * M] -= 1;
            }
        }
        multiply(&product);
    }
    /* The last row and column, where kernels go wrong first, are always among the samples. */
    d[M - 1 + (int64_t)(N - 1) * M] += 1;
    assert_int_equal(run_check(&product, true).wrong, 1);
    free_product(&product);
}

static void empty_products_pass(void **state)
{
    (void)state;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 0, 5, 3);
    float scalar = 1;
    struct check check;
    assert_true(check_gemm(&problem, &scalar, NULL, NULL, &scalar, NULL, NULL, false, &check));
    assert_true(check.pass);
    /* Without terms D is 0, and with beta it is beta C. */
    struct product product =
        make_product(CARAT_F64, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, 4, 5, 0, 1, 2);
    assert_true(run_check(&product, false).pass);
    ((double *)product.d)[3] += 1e-3;
    assert_false(run_check(&product, false).pass);
    free_product(&product);
}

/* f64 is judged by a reference that is better than f64: where terms cancel, only that knows the sum. */
static void f64_is_judged_beyond_f64(void **state)
{
    (void)state;
    double a[] = {0x1p60, 1, -0x1p60, 0x1p-50};
    double b[] = {1, 1, 1, 1};
    double d = 1 + 0x1p-50;
    double one = 1, zero = 0;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F64, 1, 1, 4);
    problem.lda = problem.ldc = problem.ldd = 1;
    problem.ldb = 4;
    struct check check;
    assert_true(check_gemm(&problem, &one, a, b, &zero, NULL, &d, false, &check));
    assert_true(check.pass);
    assert_true(check.error == 0);
    assert_true(check.worst_reference == d);
}

/* Every f16 and bf16 goes up and comes down again, and what lies between two goes to the nearer, ties to
 * even. */
static void conversions_are_exact(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        uint16_t infinity;
        double overflow;
    } formats[] = {{CARAT_F16, 0x7c00, 65520}, {CARAT_BF16, 0x7f80, 0x1.ffp127}};
    for (int f = 0; f < 2; f++) {
        carat_type type = formats[f].type;
        for (uint32_t bits = 0; bits < formats[f].infinity; bits++) {
            uint16_t here = (uint16_t)bits, next = (uint16_t)(bits + 1), stored;
            double low = element_value(type, &here, 0);
            double high =
                next == formats[f].infinity ? 2 * formats[f].overflow - low : element_value(type, &next, 0);
            assert_true(low < high);
            double middle = low + (high - low) / 2;
            element_store(type, &stored, 0, low);
            assert_int_equal(stored, here);
            element_store(type, &stored, 0, -low);
            assert_int_equal(stored, here | 0x8000);
            element_store(type, &stored, 0, middle);
            assert_int_equal(stored, here & 1 ? next : here);
            element_store(type, &stored, 0, nextafter(middle, 0));
            assert_int_equal(stored, here);
            element_store(type, &stored, 0, nextafter(middle, high));
            assert_int_equal(stored, next);
        }
        uint16_t stored;
        element_store(type, &stored, 0, (double)INFINITY);
        assert_int_equal(stored, formats[f].infinity);
        element_store(type, &stored, 0, (double)NAN);
        assert_true(isnan(element_value(type, &stored, 0)));
        element_store(type, &stored, 0, DBL_MIN / 4);
        assert_int_equal(stored, 0);
    }
}

static void generated_numbers_are_as_promised(void **state)
{
    (void)state;
    enum { COUNT = 1 << 20 };
    double *x = (double *)malloc(COUNT * sizeof(*x));
    double *y = (double *)malloc(COUNT * sizeof(*y));
    assert_true(x && y);
    for (int family = FAMILY_NORMAL; family <= FAMILY_UNIFORM; family++) {
        generate(CARAT_F64, (enum family)family, 5, COUNT, x);
        double moments[5] = {0};
        double next_to = 0;
        double most = 0;
        for (int i = 0; i < COUNT; i++) {
            double power = 1;
            for (int p = 0; p < 5; p++) {
                moments[p] += power / COUNT;
                power *= x[i];
            }
            next_to += i > 0 ? x[i] * x[i - 1] / COUNT : 0;
            most = fmax(most, fabs(x[i]));
        }
        bool normal = family == FAMILY_NORMAL;
        /* Five times the standard deviation of each mean. */
        assert_true(fabs(moments[1]) < 5e-3);
        assert_true(fabs(moments[2] - (normal ? 1 : 1.0 / 3)) < 8e-3);
        assert_true(fabs(moments[3]) < 2e-2);
        assert_true(fabs(moments[4] - (normal ? 3 : 0.2)) < 5e-2);
        assert_true(fabs(next_to) < 5e-3);
        assert_true(normal ? most > 4 && most < 7 : most < 1);
        /* A shorter array is the beginning of a longer one, another seed is another array. */
        generate(CARAT_F64, (enum family)family, 5, 1000, y);
        assert_memory_equal(x, y, 1000 * sizeof(*x));
        generate(CARAT_F64, (enum family)family, 6, COUNT, y);
        int64_t same = 0;
        for (int i = 0; i < COUNT; i++) {
            same += x[i] == y[i];
        }
        assert_int_equal(same, 0);
    }
    free(x);
    free(y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_products_pass),
        cmocka_unit_test(one_wrong_entry_is_found),
        cmocka_unit_test(values_that_are_no_numbers_are_found),
        cmocka_unit_test(low_precision_is_found),
        cmocka_unit_test(a_wrong_tile_is_found),
        cmocka_unit_test(empty_products_pass),
        cmocka_unit_test(f64_is_judged_beyond_f64),
        cmocka_unit_test(conversions_are_exact),
        cmocka_unit_test(generated_numbers_are_as_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
