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

static const carat_type types[] = {CARAT_F32,  CARAT_F64,  CARAT_F16, CARAT_BF16,
                                   CARAT_E4M3, CARAT_E5M2, CARAT_S32, CARAT_S8};
enum { TYPE_COUNT = sizeof(types) / sizeof(types[0]) };

/* A problem with its matrices. */
struct product {
    carat_gemm_problem problem;
    void *a;
    void *b;
    void *c;
    void *d;
    void *bias;
    double alpha; /* a scalar of the type, in the first bytes */
    double beta;
    double scale_a;
    double scale_b;
    double scale_d;
    bool tensor_unit; /* 8-bit floats: sum as that does */
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

/*
 * A sum of 8-bit floats as a tensor unit makes it: 32 products and the sum so far are aligned to the largest
 * of them, and what is below 13 bits of that is cut off. The sum moves to f32 after every `run` terms.
 */
static float tensor_unit_sum(const double *products, int64_t k, int64_t run)
{
    float total = 0;
    for (int64_t begin = 0; begin < k; begin += run) {
        int64_t end = begin + run < k ? begin + run : k;
        double sum = 0;
        for (int64_t p = begin; p < end; p += 32) {
            int64_t stop = p + 32 < end ? p + 32 : end;
            double most = fabs(sum);
            for (int64_t i = p; i < stop; i++) {
                most = fmax(most, fabs(products[i]));
            }
            int exponent;
            frexp(most, &exponent);
            double step = ldexp(1, exponent - 1 - 13);
            double aligned = trunc(sum / step);
            for (int64_t i = p; i < stop; i++) {
                aligned += trunc(products[i] / step);
            }
            sum = aligned * step;
        }
        total += (float)sum;
    }
    return total;
}

/* alpha sum + beta c + bias as a device has it before the activation, in f32 (f64 for f64). */
static double activate_as_device(carat_activation activation, double x)
{
    switch (activation) {
    case CARAT_ACTIVATION_RELU:
        return x < 0 ? 0 : x;
    case CARAT_ACTIVATION_GELU_TANH:
        return x * 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x * 0.5 * (1 + erf(x * 0.7071067811865476));
    case CARAT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case CARAT_ACTIVATION_NONE:
        break;
    }
    return x;
}

/* One entry's result from its products. */
static double entry(const struct product *product, const double *products, double c, double bias)
{
    const carat_gemm_problem *p = &product->problem;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    double alpha = element_value(scalar_type, &product->alpha, 0);
    double beta = element_value(scalar_type, &product->beta, 0);
    float sum_f32 = 0;
    double sum_f64 = 0;
    uint32_t sum_s32 = 0;
    for (int64_t l = 0; l < p->k; l++) {
        sum_s32 += (uint32_t)(int64_t)products[l];
        sum_f64 += products[l];
        sum_f32 = (float)((double)sum_f32 + products[l]);
    }
    if (product->tensor_unit) {
        sum_f32 = tensor_unit_sum(products, p->k, p->accuracy == CARAT_ACCURACY_FAST ? p->k : 128);
    }
    if (p->type_a == CARAT_S8) {
        sum_f32 = (float)(int32_t)sum_s32;
    }
    if (scalar_type == CARAT_S32) {
        int32_t total = (int32_t)((uint32_t)(int32_t)alpha * sum_s32 +
                                  (uint32_t)(int32_t)beta * (uint32_t)(int32_t)c + (uint32_t)(int32_t)bias);
        return p->activation == CARAT_ACTIVATION_RELU && total < 0 ? 0 : total;
    }
    if (scalar_type == CARAT_F64) {
        return activate_as_device(p->activation, alpha * sum_f64 + beta * c + bias);
    }
    if (p->accuracy == CARAT_ACCURACY_BEST) {
        double before = alpha * product->scale_a * product->scale_b * sum_f64 + beta * c + bias;
        return product->scale_d * activate_as_device(p->activation, before);
    }
    float factor = (float)alpha * (float)product->scale_a * (float)product->scale_b;
    float x = factor * sum_f32 + (float)beta * (float)c + (float)bias;
    return (float)product->scale_d * (float)activate_as_device(p->activation, (double)x);
}

/* The product by the definition, summed in the type of the sums, as a device would. */
static void multiply(struct product *product)
{
    const carat_gemm_problem *p = &product->problem;
    double beta = element_value(carat_scalar_type(p->type_cd), &product->beta, 0);
    double *products = (double *)malloc((size_t)(p->k + 1) * sizeof(*products));
    assert_non_null(products);
    for (int64_t i = 0; i < p->m; i++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t l = 0; l < p->k; l++) {
                products[l] = at(p->type_a, product->a, p->order, p->lda, p->op_a == CARAT_TRANSPOSE, i, l) *
                              at(p->type_b, product->b, p->order, p->ldb, p->op_b == CARAT_TRANSPOSE, l, j);
                if (p->type_a == CARAT_S32) { /* what 53 bits cannot hold */
                    products[l] = (int32_t)((uint32_t)(int32_t)at(p->type_a, product->a, p->order, p->lda,
                                                                  p->op_a == CARAT_TRANSPOSE, i, l) *
                                            (uint32_t)(int32_t)at(p->type_b, product->b, p->order, p->ldb,
                                                                  p->op_b == CARAT_TRANSPOSE, l, j));
                }
            }
            int64_t place = p->order == CARAT_COLUMN_MAJOR ? i + j * p->ldd : i * p->ldd + j;
            double c = beta == 0 ? 0 : element_value(p->type_cd, product->c, place);
            double bias = p->bias == CARAT_BIAS_NONE ? 0
                                                     : element_value(p->type_bias, product->bias,
                                                                     p->bias == CARAT_BIAS_PER_ROW ? i : j);
            element_store(p->type_cd, product->d, place, entry(product, products, c, bias));
        }
    }
    free(products);
}

/* The matrices of a problem, drawn, and its D. */
static void fill_product(struct product *product)
{
    carat_gemm_problem *p = &product->problem;
    product->a = make_elements(p->type_a, 1, p->m * p->k);
    product->b = make_elements(p->type_b, 2, p->k * p->n);
    product->c = make_elements(p->type_cd, 3, p->m * p->n);
    product->d = make_elements(p->type_cd, 4, p->m * p->n);
    product->bias = make_elements(p->type_bias, 5, p->m + p->n);
    multiply(product);
}

static struct product make_product(carat_type type, carat_order order, carat_op op_a, carat_op op_b,
                                   int64_t m, int64_t n, int64_t k, double alpha, double beta)
{
    struct product product = {
        .problem = carat_gemm_describe(type, m, n, k), .scale_a = 1, .scale_b = 1, .scale_d = 1};
    carat_gemm_problem *p = &product.problem;
    p->order = order;
    p->op_a = op_a;
    p->op_b = op_b;
    p->lda = op_a == CARAT_TRANSPOSE ? leading(order, k, m) : leading(order, m, k);
    p->ldb = op_b == CARAT_TRANSPOSE ? leading(order, n, k) : leading(order, k, n);
    p->ldc = p->ldd = leading(order, m, n);
    element_store(carat_scalar_type(p->type_cd), &product.alpha, 0, alpha);
    element_store(carat_scalar_type(p->type_cd), &product.beta, 0, beta);
    fill_product(&product);
    return product;
}

static void free_product(struct product *product)
{
    free(product->a);
    free(product->b);
    free(product->c);
    free(product->d);
    free(product->bias);
}

static struct check run_check(const struct product *product, bool random)
{
    const struct check_input input = {
        .problem = &product->problem,
        .alpha = &product->alpha,
        .a = product->a,
        .b = product->b,
        .beta = &product->beta,
        .c = product->c,
        .d = product->d,
        .bias = product->bias,
        .scale_a = product->scale_a,
        .scale_b = product->scale_b,
        .scale_d = product->scale_d,
        .random = random,
        .tensor_unit = product->tensor_unit,
    };
    struct check check;
    assert_true(check_gemm(&input, &check));
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

/* A number with the bits below tf32's 10 of fraction rounded away, or cut off. */
static float tf32(float x, bool cut)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    bits += cut ? 0 : 0xfff + (bits >> 13 & 1);
    bits &= 0xffffe000;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* Where the caller allows it operands may be rounded to tf32, but no more is forgiven than that. */
static void tf32_is_rounded_and_not_cut(void **state)
{
    (void)state;
    static const int64_t lengths[] = {30, 300, 3000};
    for (int i = 0; i < 3; i++) {
        int64_t k = lengths[i];
        for (int cut = 0; cut < 2; cut++) {
            struct product product = make_product(CARAT_F32, CARAT_COLUMN_MAJOR, CARAT_TRANSPOSE,
                                                  CARAT_NO_TRANSPOSE, 100, 90, k, 1, 0);
            float *operands[] = {(float *)product.a, (float *)product.b};
            int64_t counts[] = {100 * k, 90 * k};
            float *exact[2];
            for (int operand = 0; operand < 2; operand++) {
                size_t bytes = (size_t)counts[operand] * sizeof(float);
                exact[operand] = (float *)malloc(bytes);
                assert_non_null(exact[operand]);
                memcpy(exact[operand], operands[operand], bytes);
                for (int64_t at = 0; at < counts[operand]; at++) {
                    operands[operand][at] = tf32(operands[operand][at], cut);
                }
            }
            multiply(&product);
            for (int operand = 0; operand < 2; operand++) {
                memcpy(operands[operand], exact[operand], (size_t)counts[operand] * sizeof(float));
                free(exact[operand]);
            }
            assert_false(run_check(&product, true).pass);
            product.problem.accuracy = CARAT_ACCURACY_FAST;
            assert_int_equal(run_check(&product, true).pass, !cut);
            assert_int_equal(run_check(&product, false).pass, true);
            free_product(&product);
        }
    }
}

/* What the tensor unit's short sums lose is forgiven where it summed, and as little as was asked for. */
static void short_sums_are_forgiven_where_they_may_be(void **state)
{
    (void)state;
    static const carat_type pairs[][2] = {{CARAT_E4M3, CARAT_E4M3}, {CARAT_E5M2, CARAT_E4M3}};
    static const int64_t lengths[] = {100, 1000, 6000};
    for (int i = 0; i < 6; i++) {
        struct product product = make_product(CARAT_E4M3, CARAT_COLUMN_MAJOR, CARAT_TRANSPOSE,
                                              CARAT_NO_TRANSPOSE, 20, 30, lengths[i / 2], 1, 0);
        struct product wide = product;
        wide.problem.type_a = pairs[i % 2][0];
        wide.problem.type_b = pairs[i % 2][1];
        wide.problem.type_cd = CARAT_F32;
        wide.d = malloc(20 * 30 * sizeof(float));
        assert_non_null(wide.d);
        generate(wide.problem.type_a, FAMILY_NORMAL, 1, 20 * wide.problem.k, wide.a);
        multiply(&wide);
        assert_true(run_check(&wide, true).pass);
        wide.tensor_unit = true;
        for (int fast = 0; fast < 2; fast++) {
            wide.problem.accuracy = fast ? CARAT_ACCURACY_FAST : CARAT_ACCURACY_STANDARD;
            multiply(&wide);
            struct check check = run_check(&wide, true);
            assert_true(check.pass);
            assert_true(run_check(&wide, false).pass);
            assert_true(check.error < check.bound / 2);
            wide.tensor_unit = false;
            /* Of many short sums the errors cancel, and are no more than f32's may be. */
            assert_int_equal(run_check(&wide, true).pass, wide.problem.k == 6000 && !fast);
            wide.tensor_unit = true;
        }
        free(wide.d);
        free_product(&product);
    }
}

/* Who asks for the best is not content with sums of f32, nor of f64 with sums that are not compensated. */
static void the_best_is_more_than_the_type_has(void **state)
{
    (void)state;
    static const carat_type floats[] = {CARAT_F32, CARAT_F16, CARAT_E4M3, CARAT_F64};
    for (int t = 0; t < 4; t++) {
        for (int random = 0; random < 2; random++) {
            struct product product = make_product(floats[t], CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE,
                                                  CARAT_NO_TRANSPOSE, 20, 30, 20000, 1, 0);
            bool narrow = carat_type_size(floats[t]) < 4;
            assert_true(run_check(&product, random).pass);
            product.problem.accuracy = CARAT_ACCURACY_BEST;
            /* D of 16 bits hardly shows it. */
            assert_true(narrow || !run_check(&product, random).pass);
            if (floats[t] != CARAT_F64) {
                multiply(&product);
                assert_true(run_check(&product, random).pass);
                product.tensor_unit = true;
                assert_true(run_check(&product, random).pass);
            }
            free_product(&product);
        }
    }
    /* One that is exact, of what f64 sums would lose. */
    struct product exact =
        make_product(CARAT_F64, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, 1, 1, 3, 1, 0);
    double a[] = {0x1p60, 1, 0x1p60};
    double b[] = {1, 1, -1};
    exact.problem.accuracy = CARAT_ACCURACY_BEST;
    memcpy(exact.a, a, sizeof(a));
    memcpy(exact.b, b, sizeof(b));
    *(double *)exact.d = 1;
    assert_true(run_check(&exact, false).pass);
    *(double *)exact.d = 0;
    assert_false(run_check(&exact, false).pass);
    free_product(&exact);
}

/* Every kind of result, bias, activation and scale, and each of them forgotten. */
static void what_comes_after_the_sums_is_checked(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        carat_type type_d;
        carat_type type_bias;
        bool scaled;
    } cases[] = {
        {CARAT_F32, CARAT_F32, CARAT_F32, false},   {CARAT_F64, CARAT_F64, CARAT_F64, false},
        {CARAT_F16, CARAT_F32, CARAT_F16, false},   {CARAT_BF16, CARAT_BF16, CARAT_BF16, false},
        {CARAT_E4M3, CARAT_E4M3, CARAT_BF16, true}, {CARAT_E5M2, CARAT_F16, CARAT_F32, true},
        {CARAT_S8, CARAT_F32, CARAT_F32, true},     {CARAT_S8, CARAT_S8, CARAT_F32, true},
        {CARAT_S8, CARAT_S32, CARAT_S32, false},
    };
    for (int i = 0; i < 9 * 10; i++) {
        carat_type type_d = cases[i / 10].type_d;
        carat_activation activation = (carat_activation)(i % 5);
        bool exact = type_d == CARAT_S32;
        if (exact && activation > CARAT_ACTIVATION_RELU) {
            continue; /* sums of s32 know no other */
        }
        struct product product = make_product(cases[i / 10].type, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE,
                                              CARAT_NO_TRANSPOSE, 12, 13, 40, exact ? 1 : 0.25, 1);
        free(product.c);
        free(product.d);
        free(product.bias);
        product.problem.type_cd = type_d;
        product.problem.type_bias = cases[i / 10].type_bias;
        product.problem.bias = i % 2 ? CARAT_BIAS_PER_ROW : CARAT_BIAS_PER_COLUMN;
        product.problem.activation = activation;
        element_store(carat_scalar_type(type_d), &product.alpha, 0, exact ? 1 : 0.25);
        element_store(carat_scalar_type(type_d), &product.beta, 0, 1);
        if (cases[i / 10].scaled) {
            bool integers = cases[i / 10].type == CARAT_S8;
            product.scale_a = integers ? 0x1p-9 : 0.75;
            product.scale_b = 0.5;
            product.scale_d = 1.5;
        }
        free(product.a);
        free(product.b);
        fill_product(&product);
        assert_true(run_check(&product, true).pass);
        assert_true(run_check(&product, false).pass);
        struct product other = product;
        other.problem.bias = i % 2 ? CARAT_BIAS_PER_COLUMN : CARAT_BIAS_PER_ROW;
        assert_false(run_check(&other, true).pass);
        other.problem.bias = CARAT_BIAS_NONE;
        assert_false(run_check(&other, true).pass);
        other = product;
        other.problem.activation =
            activation == CARAT_ACTIVATION_NONE ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_NONE;
        assert_false(run_check(&other, true).pass);
        if (cases[i / 10].scaled) {
            other = product;
            other.scale_b = 1;
            assert_false(run_check(&other, true).pass);
            other = product;
            other.scale_d = 1;
            assert_false(run_check(&other, true).pass);
        }
        free_product(&product);
    }
    /* The two forms of GELU are near each other, but not the same. */
    struct product product =
        make_product(CARAT_F32, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, 12, 13, 4, 1, 0);
    product.problem.activation = CARAT_ACTIVATION_GELU_TANH;
    multiply(&product);
    assert_true(run_check(&product, true).pass);
    product.problem.activation = CARAT_ACTIVATION_GELU_ERF;
    assert_false(run_check(&product, true).pass);
    free_product(&product);
}

/* Beyond what they hold e4m3 and s8 stay at their ends, and NaN is NaN or 0. */
static void saturation_is_right(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        double end;
        double nan;
    } cases[] = {{CARAT_E4M3, 448, (double)NAN}, {CARAT_S8, 127, 0}};
    for (int i = 0; i < 2; i++) {
        struct product product = make_product(cases[i].type, CARAT_ROW_MAJOR, CARAT_NO_TRANSPOSE,
                                              CARAT_NO_TRANSPOSE, 6, 7, 20, 1, 0);
        product.problem.type_cd = cases[i].type;
        float alpha = 1000, beta = 0;
        memcpy(&product.alpha, &alpha, sizeof(alpha));
        memcpy(&product.beta, &beta, sizeof(beta));
        multiply(&product);
        assert_true(run_check(&product, true).pass);
        double stored = element_value(cases[i].type, product.d, 8);
        assert_true(stored == cases[i].end || stored == (i == 0 ? -448 : -128));
        element_store(cases[i].type, product.d, 8, stored / 2);
        assert_int_equal(run_check(&product, true).wrong, 1);
        alpha = (float)NAN;
        memcpy(&product.alpha, &alpha, sizeof(alpha));
        multiply(&product);
        assert_true(run_check(&product, true).pass);
        element_store(cases[i].type, product.d, 8, 1);
        assert_int_equal(run_check(&product, true).wrong, 1);
        free_product(&product);
    }
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
    const struct check_input empty = {.problem = &problem, .alpha = &scalar, .beta = &scalar};
    assert_true(check_gemm(&empty, &check));
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
    const struct check_input input = {.problem = &problem,
                                      .alpha = &one,
                                      .a = a,
                                      .b = b,
                                      .beta = &zero,
                                      .d = &d,
                                      .scale_a = 1,
                                      .scale_b = 1,
                                      .scale_d = 1};
    assert_true(check_gemm(&input, &check));
    assert_true(check.pass);
    assert_true(check.error == 0);
    assert_true(check.worst_reference == d);
}

/* Every 8-bit float is what its three fields say, and what lies between two goes to the nearer. */
static void conversions_of_8_bits_are_exact(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        int fraction;
        int bias;
        uint8_t largest;
    } formats[] = {{CARAT_E4M3, 3, 7, 0x7e}, {CARAT_E5M2, 2, 15, 0x7b}};
    for (int f = 0; f < 2; f++) {
        carat_type type = formats[f].type;
        int fraction = formats[f].fraction;
        for (int bits = 0; bits <= formats[f].largest; bits++) {
            int exponent = bits >> fraction;
            int rest = bits & ((1 << fraction) - 1);
            double wanted = exponent == 0
                                ? ldexp(rest, 1 - formats[f].bias - fraction)
                                : ldexp(rest + (1 << fraction), exponent - formats[f].bias - fraction);
            uint8_t here = (uint8_t)bits, negative = (uint8_t)(bits | 0x80), stored;
            assert_true(element_value(type, &here, 0) == wanted);
            assert_true(element_value(type, &negative, 0) == -wanted);
            element_store(type, &stored, 0, -wanted);
            assert_int_equal(stored, negative);
            if (bits < formats[f].largest) {
                uint8_t next = (uint8_t)(bits + 1);
                double middle = (wanted + element_value(type, &next, 0)) / 2;
                element_store(type, &stored, 0, middle);
                assert_int_equal(stored, bits & 1 ? next : here);
                element_store(type, &stored, 0, nextafter(middle, 0));
                assert_int_equal(stored, here);
                element_store(type, &stored, 0, nextafter(middle, 1e9));
                assert_int_equal(stored, next);
            }
        }
    }
    uint8_t stored;
    element_store(CARAT_E4M3, &stored, 0, -1e6);
    assert_int_equal(stored, 0xfe);
    element_store(CARAT_E4M3, &stored, 0, (double)INFINITY);
    assert_int_equal(stored, 0x7e);
    element_store(CARAT_E5M2, &stored, 0, 61439);
    assert_int_equal(stored, 0x7b);
    element_store(CARAT_E5M2, &stored, 0, 61440);
    assert_int_equal(stored, 0x7c);
    static const uint8_t nans[] = {0x7f, 0xff};
    for (int f = 0; f < 2; f++) {
        element_store(formats[f].type, &stored, 0, (double)NAN);
        assert_true(isnan(element_value(formats[f].type, &stored, 0)));
        assert_true(isnan(element_value(formats[f].type, nans, f)));
    }
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
        cmocka_unit_test(tf32_is_rounded_and_not_cut),
        cmocka_unit_test(short_sums_are_forgiven_where_they_may_be),
        cmocka_unit_test(the_best_is_more_than_the_type_has),
        cmocka_unit_test(what_comes_after_the_sums_is_checked),
        cmocka_unit_test(saturation_is_right),
        cmocka_unit_test(a_wrong_tile_is_found),
        cmocka_unit_test(empty_products_pass),
        cmocka_unit_test(f64_is_judged_beyond_f64),
        cmocka_unit_test(conversions_of_8_bits_are_exact),
        cmocka_unit_test(conversions_are_exact),
        cmocka_unit_test(generated_numbers_are_as_promised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
