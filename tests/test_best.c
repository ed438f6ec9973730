/*
 * test_best.c - what the best accuracy promises: of f32 and narrower floats that D is within half a unit in its last
 * place and (k + 4) 2^-53 |A||B| of the truth, on all families of inputs; that D is rounded once; that sums neither
 * overflow nor lose what cancels; and of f64 that sums are as good as of twice the precision.
 *
 * test_best_cuda.c runs the same on the CUDA device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "accuracy_families.h"
#include "reference.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE CARAT_DEVICE_CPU
#define DEEPEST 2100 /* past the panels that the CPU device works in */
#endif

enum { M = 17, N = 19, MOST_TERMS = 4 };

static carat_context *context;

static int set_up(void **state)
{
    (void)state;
    return carat_context_create(TEST_DEVICE, 0, &context) == CARAT_OK ? 0 : 1;
}

static int tear_down(void **state)
{
    (void)state;
    carat_context_destroy(context);
    return 0;
}

/* D = A B in column-major order, tightly packed. */
static void multiply(const carat_gemm_problem *p, const void *a, const void *b, void *d)
{
    float one = 1;
    float zero = 0;
    double one_f64 = 1;
    double zero_f64 = 0;
    bool wide = p->type_cd == CARAT_F64;
    carat_status status = carat_gemm(context, p, wide ? (const void *)&one_f64 : &one, a, b,
                                     wide ? (const void *)&zero_f64 : &zero, NULL, d, NULL);
    if (status != CARAT_OK) {
        fail_msg("%s", carat_last_message());
    }
}

static carat_gemm_problem best_problem(carat_type type, carat_type type_cd, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem p = carat_gemm_describe(type, m, n, k);
    p.type_cd = type_cd;
    p.accuracy = CARAT_ACCURACY_BEST;
    p.lda = p.ldc = p.ldd = m;
    p.ldb = k;
    return p;
}

/* The sum of x[i] * y[i], as one entry. */
static long double sum_of(carat_type type, carat_type type_cd, int terms, const long double *x,
                          const long double *y)
{
    uint64_t a[MOST_TERMS];
    uint64_t b[MOST_TERMS];
    uint64_t d[1];
    carat_gemm_problem p = best_problem(type, type_cd, 1, 1, terms);
    for (int i = 0; i < terms; i++) {
        element_set(type, a, i, x[i]);
        element_set(type, b, i, y[i]);
        assert_true(element_get(type, a, i) == x[i] && element_get(type, b, i) == y[i]);
    }
    multiply(&p, a, b, d);
    return element_get(type_cd, d, 0);
}

/*
 * 1, or its next neighbour, and half a unit in the last place, and far below that a little more or less: rounded to f32
 * before, the sum would stand in the middle and go to the even neighbour.
 */
static void results_are_rounded_once(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        carat_type type_cd;
        int bits;   /* of D, behind the point */
        int little; /* its exponent, halved */
    } rows[] = {
        {CARAT_F32, CARAT_F32, 23, -25},  {CARAT_F16, CARAT_F16, 10, -20},  {CARAT_F16, CARAT_F32, 23, -24},
        {CARAT_BF16, CARAT_BF16, 7, -22}, {CARAT_BF16, CARAT_F32, 23, -25}, {CARAT_E5M2, CARAT_E4M3, 3, -15},
        {CARAT_E5M2, CARAT_BF16, 7, -15}, {CARAT_E5M2, CARAT_F16, 10, -16},
    };
    for (size_t r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
        int half = rows[r].bits + 1;
        long double ulp = ldexpl(1, -rows[r].bits);
        for (int odd = 0; odd < 2; odd++) {
            for (int sign = -1; sign <= 1; sign++) {
                const long double x[] = {1, odd * ldexpl(1, -rows[r].bits / 2), ldexpl(1, -half / 2),
                                         sign * ldexpl(1, rows[r].little)};
                const long double y[] = {1, ldexpl(1, rows[r].bits / 2 - rows[r].bits),
                                         ldexpl(1, half / 2 - half), ldexpl(1, rows[r].little)};
                long double up = sign > 0 || (sign == 0 && odd) ? ulp : 0;
                assert_true(sum_of(rows[r].type, rows[r].type_cd, 4, x, y) == 1 + odd * ulp + up);
                /* The same below 0. */
                const long double minus[] = {-y[0], -y[1], -y[2], -y[3]};
                assert_true(sum_of(rows[r].type, rows[r].type_cd, 4, x, minus) == -(1 + odd * ulp + up));
            }
        }
    }
}

/* Only D itself overflows, and what f32 sums would lose comes back. */
static void sums_of_f32_have_room(void **state)
{
    (void)state;
    const long double most = FLT_MAX;
    const long double cancel[2][3] = {{most, most, 3}, {most, -most, 1}};
    assert_true(sum_of(CARAT_F32, CARAT_F32, 3, cancel[0], cancel[1]) == 3 + 0 * most);
    const long double beyond[2][3] = {{most, most, 1}, {2, 1, 1}};
    assert_true(sum_of(CARAT_F32, CARAT_F32, 3, beyond[0], beyond[1]) == (long double)INFINITY);
    const long double back[2][3] = {{most, most, most}, {2, -1, -0.5L}};
    assert_true(sum_of(CARAT_F32, CARAT_F32, 3, back[0], back[1]) == most / 2);
    const long double small[2][2] = {{0x1p-100L, 0x1p-100L}, {0x1p-49L, 0x1p-49L}};
    assert_true(sum_of(CARAT_F32, CARAT_F32, 2, small[0], small[1]) == 0x1p-148L);
    const long double special[2][3] = {{(long double)INFINITY, 1, 2}, {1, 1, (long double)INFINITY}};
    assert_true(sum_of(CARAT_F32, CARAT_F32, 3, special[0], special[1]) == (long double)INFINITY);
    const long double opposite[2][2] = {{(long double)INFINITY, 1}, {1, -(long double)INFINITY}};
    assert_true(isnan(sum_of(CARAT_F32, CARAT_F32, 2, opposite[0], opposite[1])));
}

/* What products and sums round away comes back: exact answers where a chain would give none of their digits. */
static void sums_of_f64_are_compensated(void **state)
{
    (void)state;
    const long double of_sums[2][3] = {{0x1p60L, 1, 0x1p60L}, {1, 1, -1}};
    assert_true(sum_of(CARAT_F64, CARAT_F64, 3, of_sums[0], of_sums[1]) == 1);
    const long double of_products[2][2] = {{1 + 0x1p-30L, 1}, {1 - 0x1p-30L, -1}};
    assert_true(sum_of(CARAT_F64, CARAT_F64, 2, of_products[0], of_products[1]) == -0x1p-60L);
    const long double special[2][3] = {{DBL_MAX, 1, 3}, {2, 1, 1}};
    assert_true(sum_of(CARAT_F64, CARAT_F64, 3, special[0], special[1]) == (long double)INFINITY);
    const long double opposite[2][3] = {{(long double)INFINITY, 1, 7}, {1, -(long double)INFINITY, 1}};
    assert_true(isnan(sum_of(CARAT_F64, CARAT_F64, 3, opposite[0], opposite[1])));
    const long double infinite[2][3] = {{1, 1, 0x1p-1000L}, {1, -(long double)INFINITY, 0x1p-70L}};
    assert_true(sum_of(CARAT_F64, CARAT_F64, 3, infinite[0], infinite[1]) == -(long double)INFINITY);
}

/* Every entry against the reference, which grants no more than is promised. */
static void check_entries(const carat_gemm_problem *p, const char *family, const void *a, const void *b,
                          const void *d)
{
    float one = 1;
    float zero = 0;
    double one_f64 = 1;
    double zero_f64 = 0;
    bool wide = p->type_cd == CARAT_F64;
    for (int64_t j = 0; j < N; j++) {
        for (int64_t i = 0; i < M; i++) {
            struct expected expected =
                reference_gemm(p, wide ? (const void *)&one_f64 : &one, a, b,
                               wide ? (const void *)&zero_f64 : &zero, NULL, NULL, 0, i, j);
            if (!expected_holds(&expected, p->type_cd, d, i + j * M)) {
                fail_msg("%s, k %lld: D(%d, %d) of %s is %.17Lg, not %.17Lg +- %.2Lg", family,
                         (long long)p->k, (int)i, (int)j, carat_type_name(p->type_cd),
                         element_get(p->type_cd, d, i + j * M), expected.value, expected.bound);
            }
        }
    }
}

static void promises_hold_on_every_family(void **state)
{
    (void)state;
    static const int64_t depths[] = {1, 16, 65, 300, DEEPEST};
    float *a = malloc((size_t)M * DEEPEST * sizeof(*a));
    float *b = malloc((size_t)N * DEEPEST * sizeof(*b));
    double *a_f64 = malloc((size_t)M * DEEPEST * sizeof(*a_f64));
    double *b_f64 = malloc((size_t)N * DEEPEST * sizeof(*b_f64));
    struct random random = {5};
    assert_true(a && b && a_f64 && b_f64);
    for (int family = 0; family < ACCURACY_FAMILIES; family++) {
        const char *name = accuracy_family_name((enum accuracy_family)family);
        for (size_t depth = 0; depth < sizeof(depths) / sizeof(depths[0]); depth++) {
            float d[M * N];
            double d_f64[M * N];
            int64_t k = depths[depth];
            assert_int_equal(accuracy_fill((enum accuracy_family)family, 3, M, N, k, a, b), CARAT_OK);
            carat_gemm_problem p = best_problem(CARAT_F32, CARAT_F32, M, N, k);
            multiply(&p, a, b, d);
            check_entries(&p, name, a, b, d);
            /* The same with all bits of f64; and each sum cancels but for what is of the last bits of its terms. */
            for (int64_t i = 0; i < M * k; i++) {
                a_f64[i] = (double)a[i] * (1 + 0x1p-28 * random_unit(&random));
            }
            for (int64_t i = 0; i < N * k; i++) {
                b_f64[i] = (double)b[i] * (1 + 0x1p-28 * random_unit(&random));
            }
            for (int64_t l = 1; l < k; l += 2) {
                for (int64_t i = 0; i < M; i++) {
                    a_f64[i + l * M] = -a_f64[i + (l - 1) * M];
                }
                for (int64_t j = 0; j < N; j++) {
                    b_f64[l + j * k] = b_f64[l - 1 + j * k] * (1 + 0x1p-40);
                }
            }
            p = best_problem(CARAT_F64, CARAT_F64, M, N, k);
            multiply(&p, a_f64, b_f64, d_f64);
            check_entries(&p, name, a_f64, b_f64, d_f64);
        }
    }
    free(a);
    free(b);
    free(a_f64);
    free(b_f64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_rounded_once),
        cmocka_unit_test(sums_of_f32_have_room),
        cmocka_unit_test(sums_of_f64_are_compensated),
        cmocka_unit_test(promises_hold_on_every_family),
    };
    return cmocka_run_group_tests_name("best", tests, set_up, tear_down);
}
