/*
 * test_problem.c - the checks of a problem: what is refused and in which words, the canonical form, and
 * which matrices overlap.
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
#include "plan.h"
#include "problem.h"
#include "reference.h"

static const carat_run no_run;

static void description_fills_every_field(void **state)
{
    (void)state;
    carat_gemm_problem p = carat_gemm_describe(CARAT_S8, 2, 3, 4);
    assert_int_equal(p.struct_size, sizeof(p));
    assert_int_equal(p.order, CARAT_COLUMN_MAJOR);
    assert_int_equal(p.op_a, CARAT_NO_TRANSPOSE);
    assert_int_equal(p.op_b, CARAT_NO_TRANSPOSE);
    assert_int_equal(p.type_a, CARAT_S8);
    assert_int_equal(p.type_b, CARAT_S8);
    assert_int_equal(p.type_cd, CARAT_S32);
    assert_int_equal(p.bias, CARAT_BIAS_NONE);
    assert_int_equal(p.type_bias, CARAT_S32);
    assert_int_equal(p.activation, CARAT_ACTIVATION_NONE);
    assert_int_equal(p.m, 2);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.k, 4);
    assert_int_equal(p.batch, 1);
    assert_int_equal(p.accuracy, CARAT_ACCURACY_STANDARD);
    static const carat_type results[][3] = {
        {CARAT_F32, CARAT_F32, CARAT_F32},   {CARAT_F64, CARAT_F64, CARAT_F64},
        {CARAT_F16, CARAT_F16, CARAT_F32},   {CARAT_BF16, CARAT_BF16, CARAT_F32},
        {CARAT_S32, CARAT_S32, CARAT_S32},   {CARAT_S8, CARAT_S32, CARAT_S32},
        {CARAT_E4M3, CARAT_BF16, CARAT_F32}, {CARAT_E5M2, CARAT_BF16, CARAT_F32},
    };
    for (int i = 0; i < 8; i++) {
        p = carat_gemm_describe(results[i][0], 1, 1, 1);
        assert_int_equal(p.type_cd, results[i][1]);
        assert_int_equal(p.type_bias, results[i][2]);
    }
}

/* ---- Refusals ---- */

/* A problem with one field wrong, and what the message must say. */
struct refusal {
    size_t field; /* its offset */
    int64_t value;
    carat_status status;
    const char *words;
};

#define FIELD(name) offsetof(carat_gemm_problem, name)

/* Fields are enums of int's size, or 64 bits wide. */
static void set_field(carat_gemm_problem *p, size_t field, int64_t value)
{
    static const size_t enums[] = {
        FIELD(order),   FIELD(op_a),     FIELD(op_b), FIELD(type_a),    FIELD(type_b),
        FIELD(type_cd), FIELD(accuracy), FIELD(bias), FIELD(type_bias), FIELD(activation),
    };
    bool is_enum = false;
    for (size_t i = 0; i < sizeof(enums) / sizeof(enums[0]); i++) {
        is_enum = is_enum || field == enums[i];
    }
    int narrow = (int)value;
    memcpy((char *)p + field, is_enum ? (void *)&narrow : (void *)&value,
           is_enum ? sizeof(narrow) : sizeof(value));
}

static void every_wrong_field_is_named(void **state)
{
    (void)state;
    static const struct refusal refusals[] = {
        {FIELD(struct_size), 0, CARAT_INVALID_ARGUMENT, "struct_size is 0, but must be"},
        {FIELD(struct_size), 8, CARAT_INVALID_ARGUMENT, "struct_size is 8, but must be"},
        {FIELD(order), 2, CARAT_INVALID_ARGUMENT, "order is 2, which is no carat_order"},
        {FIELD(order), -1, CARAT_INVALID_ARGUMENT, "order is -1, which is no carat_order"},
        {FIELD(op_a), 2, CARAT_INVALID_ARGUMENT, "op_a is 2, which is no carat_op"},
        {FIELD(op_b), 112, CARAT_INVALID_ARGUMENT, "op_b is 112, which is no carat_op"},
        {FIELD(type_a), 0, CARAT_INVALID_ARGUMENT, "type_a is 0, which is no carat_type"},
        {FIELD(type_a), 9, CARAT_INVALID_ARGUMENT, "type_a is 9, which is no carat_type"},
        {FIELD(type_b), 0, CARAT_INVALID_ARGUMENT, "type_b is 0, which is no carat_type"},
        {FIELD(type_b), -3, CARAT_INVALID_ARGUMENT, "type_b is -3, which is no carat_type"},
        {FIELD(type_cd), 99, CARAT_INVALID_ARGUMENT, "type_cd is 99, which is no carat_type"},
        {FIELD(accuracy), 5, CARAT_INVALID_ARGUMENT, "accuracy is 5, which is no carat_accuracy"},
        {FIELD(bias), 3, CARAT_INVALID_ARGUMENT, "bias is 3, which is no carat_bias"},
        {FIELD(bias), -1, CARAT_INVALID_ARGUMENT, "bias is -1, which is no carat_bias"},
        {FIELD(activation), 5, CARAT_INVALID_ARGUMENT, "activation is 5, which is no carat_activation"},
        {FIELD(activation), -1, CARAT_INVALID_ARGUMENT, "activation is -1, which is no carat_activation"},
        {FIELD(type_cd), CARAT_F64, CARAT_UNSUPPORTED,
         "type_cd is f64, but A and B of f32 give C and D of f32"},
        {FIELD(type_a), CARAT_S8, CARAT_UNSUPPORTED, "type_a is s8, but type_b is f32: only e4m3 and e5m2"},
        {FIELD(m), -1, CARAT_INVALID_ARGUMENT, "m is -1"},
        {FIELD(n), -7, CARAT_INVALID_ARGUMENT, "n is -7"},
        {FIELD(k), INT64_MIN, CARAT_INVALID_ARGUMENT, "k is -9223372036854775808"},
        {FIELD(batch), -1, CARAT_INVALID_ARGUMENT, "batch is -1"},
        {FIELD(lda), -128, CARAT_INVALID_ARGUMENT, "lda is -128"},
        {FIELD(ldb), -1, CARAT_INVALID_ARGUMENT, "ldb is -1"},
        {FIELD(ldc), -1, CARAT_INVALID_ARGUMENT, "ldc is -1"},
        {FIELD(ldd), -1, CARAT_INVALID_ARGUMENT, "ldd is -1"},
        {FIELD(stride_a), -1, CARAT_INVALID_ARGUMENT, "stride_a is -1"},
        {FIELD(stride_b), -1, CARAT_INVALID_ARGUMENT, "stride_b is -1"},
        {FIELD(stride_c), -1, CARAT_INVALID_ARGUMENT, "stride_c is -1"},
        {FIELD(stride_d), -1, CARAT_INVALID_ARGUMENT, "stride_d is -1"},
        {FIELD(stride_bias), -1, CARAT_INVALID_ARGUMENT, "stride_bias is -1"},
        {FIELD(lda), 127, CARAT_INVALID_ARGUMENT, "lda is 127, but A has 128 rows stored column by column"},
        {FIELD(ldb), 31, CARAT_INVALID_ARGUMENT, "ldb is 31, but B has 32 rows stored column by column"},
        {FIELD(ldc), 100, CARAT_INVALID_ARGUMENT, "ldc is 100, but C has 128 rows stored column by column"},
        {FIELD(ldd), 1, CARAT_INVALID_ARGUMENT, "ldd is 1, but D has 128 rows stored column by column"},
        {FIELD(batch), 2, CARAT_INVALID_ARGUMENT, "stride_d is 0, but D is 128 x 64 with ldd 128"},
    };
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 128, 64, 32);
        struct problem checked;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        set_field(&p, refusals[i].field, refusals[i].value);
        assert_refused(problem_check(&p, &checked), refusals[i].status, refusals[i].words);
    }
    struct problem checked;
    assert_refused(problem_check(NULL, &checked), CARAT_INVALID_ARGUMENT, "problem is NULL");
}

/* Whether A and B of these types give C and D of that one, by the table in carat.h. */
static bool go_together(carat_type a, carat_type b, carat_type cd)
{
    bool float8_a = a == CARAT_E4M3 || a == CARAT_E5M2;
    bool float8_b = b == CARAT_E4M3 || b == CARAT_E5M2;
    if (float8_a && float8_b) {
        return cd == CARAT_BF16 || cd == CARAT_F16 || cd == CARAT_F32 || cd == CARAT_E4M3;
    }
    if (a != b) {
        return false;
    }
    if (a == CARAT_S8) {
        return cd == CARAT_S32 || cd == CARAT_F32 || cd == CARAT_S8;
    }
    return cd == a || (cd == CARAT_F32 && (a == CARAT_F16 || a == CARAT_BF16));
}

/* Every three types, and what a problem of them is. */
static void types_go_together_as_documented(void **state)
{
    (void)state;
    int accepted = 0;
    for (int i = 0; i < 8 * 8 * 8; i++) {
        carat_gemm_problem p = carat_gemm_describe((carat_type)(i % 8 + 1), 4, 4, 4);
        p.type_b = (carat_type)(i / 8 % 8 + 1);
        p.type_cd = (carat_type)(i / 64 + 1);
        struct problem checked;
        bool wanted = go_together(p.type_a, p.type_b, p.type_cd);
        assert_int_equal(problem_check(&p, &checked), wanted ? CARAT_OK : CARAT_UNSUPPORTED);
        if (!wanted) {
            assert_non_null(strstr(carat_last_message(), carat_type_name(p.type_a)));
            continue;
        }
        accepted++;
        bool float8 = p.type_a >= CARAT_E4M3;
        bool s8 = p.type_a == CARAT_S8;
        assert_int_equal(problem_scalar_type(&checked), carat_scalar_type(p.type_cd));
        assert_int_equal(problem_sum_type(&checked), s8 ? CARAT_S32 : carat_scalar_type(p.type_cd));
        assert_int_equal(problem_takes_scales(&checked), float8 || (s8 && p.type_cd != CARAT_S32));
        assert_int_equal(problem_is_plain(&checked),
                         !float8 && p.type_cd == carat_gemm_describe(p.type_a, 1, 1, 1).type_cd);
        checked.activation = CARAT_ACTIVATION_RELU;
        assert_false(problem_is_plain(&checked));
        checked.activation = CARAT_ACTIVATION_NONE;
        checked.bias = true;
        assert_false(problem_is_plain(&checked));
    }
    /* f32, f64 and s32; f16 and bf16; s8; the mixes of 8-bit floats. */
    assert_int_equal(accepted, 3 * 1 + 2 * 2 + 1 * 3 + 4 * 4);
}

static void the_messages_name_the_types_that_go(void **state)
{
    (void)state;
    struct problem checked;
    static const struct {
        carat_type a;
        const char *words;
    } rows[] = {
        {CARAT_F16, "type_cd is f64, but A and B of f16 give C and D of f16 or f32"},
        {CARAT_BF16, "type_cd is f64, but A and B of bf16 give C and D of bf16 or f32"},
        {CARAT_S32, "type_cd is f64, but A and B of s32 give C and D of s32"},
        {CARAT_S8, "type_cd is f64, but A and B of s8 give C and D of s32, f32 or s8"},
        {CARAT_E4M3, "type_cd is f64, but A and B of e4m3 give C and D of bf16, f16, f32 or e4m3"},
        {CARAT_E5M2, "type_cd is f64, but A and B of e5m2 give C and D of bf16, f16, f32 or e4m3"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        carat_gemm_problem p = carat_gemm_describe(rows[i].a, 2, 2, 2);
        p.type_cd = CARAT_F64;
        assert_refused(problem_check(&p, &checked), CARAT_UNSUPPORTED, rows[i].words);
    }
}

/* A bias of the scalar type, or a half where that is f32; and its type is looked at only where there is one. */
static void types_of_bias_and_activations_are_checked(void **state)
{
    (void)state;
    struct problem checked;
    static const carat_type results[][2] = {
        {CARAT_F32, CARAT_F32}, {CARAT_F64, CARAT_F64}, {CARAT_F16, CARAT_F16}, {CARAT_BF16, CARAT_F32},
        {CARAT_S32, CARAT_S32}, {CARAT_S8, CARAT_S32},  {CARAT_S8, CARAT_S8},   {CARAT_E5M2, CARAT_E4M3},
    };
    for (int i = 0; i < 8; i++) {
        carat_type scalar = carat_scalar_type(results[i][1]);
        carat_gemm_problem described = carat_gemm_describe(results[i][0], 2, 2, 2);
        described.type_cd = results[i][1];
        for (int bias = 1; bias <= 8; bias++) {
            carat_gemm_problem p = described;
            p.bias = CARAT_BIAS_PER_ROW;
            p.type_bias = (carat_type)bias;
            bool half = bias == CARAT_F16 || bias == CARAT_BF16;
            bool wanted = bias == (int)scalar || (half && scalar == CARAT_F32);
            assert_int_equal(problem_check(&p, &checked), wanted ? CARAT_OK : CARAT_UNSUPPORTED);
            if (!wanted) {
                assert_non_null(strstr(carat_last_message(), "problem->type_bias is "));
                assert_non_null(strstr(carat_last_message(), carat_type_name(p.type_cd)));
            }
        }
        for (int activation = 0; activation <= 4; activation++) {
            carat_gemm_problem p = described;
            p.activation = (carat_activation)activation;
            bool wanted = scalar != CARAT_S32 || activation <= CARAT_ACTIVATION_RELU;
            assert_int_equal(problem_check(&p, &checked), wanted ? CARAT_OK : CARAT_UNSUPPORTED);
        }
    }
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 2, 2, 2);
    p.bias = CARAT_BIAS_PER_COLUMN;
    p.type_bias = CARAT_F64;
    assert_refused(problem_check(&p, &checked), CARAT_UNSUPPORTED,
                   "type_bias is f64, but D of f32 takes a bias of f32, f16 or bf16");
    p.type_bias = (carat_type)99;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "type_bias is 99, which is no carat_type");
    p.bias = CARAT_BIAS_NONE;
    p.stride_bias = 77;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    assert_int_equal(checked.type_bias, CARAT_F32);
    assert_int_equal(checked.stride_bias, 0);
    p = carat_gemm_describe(CARAT_S8, 2, 2, 2);
    p.activation = CARAT_ACTIVATION_SILU;
    assert_refused(problem_check(&p, &checked), CARAT_UNSUPPORTED,
                   "activation is 4, but sums of s32 know only ReLU, 1");
    p = carat_gemm_describe(CARAT_S8, 2, 2, 2);
    p.bias = CARAT_BIAS_PER_ROW;
    p.type_bias = CARAT_F16;
    assert_refused(problem_check(&p, &checked), CARAT_UNSUPPORTED,
                   "type_bias is f16, but D of s32 takes a bias of s32");
}

/* Row-major: the messages speak of the caller's A and B, whatever the canonical form makes of them. */
static void row_major_messages_name_the_callers_arguments(void **state)
{
    (void)state;
    struct problem checked;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F64, 128, 64, 32);
    p.order = CARAT_ROW_MAJOR;
    p.lda = 31;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "lda is 31, but A has 32 columns stored row by row");
    p.op_a = CARAT_TRANSPOSE;
    p.lda = 127;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "lda is 127, but A has 128 columns stored row by row");
    p.lda = 0;
    p.ldb = 63;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "ldb is 63, but B has 64 columns stored row by row");
    p.ldb = 0;
    p.ldd = 63;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "ldd is 63, but D has 64 columns stored row by row");
}

static void sizes_that_int64_cannot_count_are_refused(void **state)
{
    (void)state;
    struct problem checked;
    int64_t huge = INT64_MAX / 2;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, huge, 2, 1);
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "A is too large");
    p = carat_gemm_describe(CARAT_F32, 1, huge, 1);
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "B is too large");
    p = carat_gemm_describe(CARAT_S8, 1, 1, INT64_MAX);
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    p = carat_gemm_describe(CARAT_F32, (int64_t)1 << 40, (int64_t)1 << 40, 0);
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "C is too large");
    p = carat_gemm_describe(CARAT_F32, 4, 4, 4);
    p.ldd = INT64_MAX;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "D is too large");
    p.ldd = 0;
    p.lda = INT64_MAX / 4;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "lda 2305843009213693951");
    p.lda = 0;
    p.batch = INT64_MAX;
    p.stride_d = 16;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "D is too large");
    p.batch = 3;
    p.stride_b = INT64_MAX / 2;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "B is too large");
    p = carat_gemm_describe(CARAT_F32, 4, 4, 4);
    p.batch = 3;
    p.stride_d = 16;
    p.stride_bias = INT64_MAX / 2;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK); /* no bias */
    p.bias = CARAT_BIAS_PER_ROW;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "the bias is too large for 63 bits of bytes: 4 numbers, batch 3, stride_bias "
                   "4611686018427387903");
    p.stride_bias = (INT64_MAX / 4 - 4) / 2; /* the longest */
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    p.stride_bias++;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "the bias is too large");
    /* An empty matrix has no bytes, however long it would be. */
    p = carat_gemm_describe(CARAT_F32, 0, INT64_MAX, INT64_MAX);
    p.ldb = INT64_MAX;
    p.k = 0;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    assert_true(problem_is_empty(&checked));
    /* Nor one of which there is no k; and what was said of its columns is forgotten. */
    p = carat_gemm_describe(CARAT_F64, 3, 3, 0);
    p.batch = 2;
    p.stride_d = 9;
    p.lda = p.ldb = p.stride_a = p.stride_b = INT64_MAX;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    assert_true(checked.lda == 3 && checked.ldb == 1 && checked.stride_a == 0 && checked.stride_b == 0);
}

/* Where no second column is ever gone to, the way there must still be so many bytes that overlaps can be told. */
static void columns_too_far_apart_are_refused(void **state)
{
    (void)state;
    struct problem checked;
    const int64_t most = INT64_MAX / (int64_t)sizeof(double);
    carat_gemm_problem p = carat_gemm_describe(CARAT_F64, 4, 1, 1);
    p.lda = p.ldc = p.ldd = most;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    p.ldd++;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT,
                   "D is too large for 63 bits of bytes: 4 x 1, ldd 1152921504606846976");
    p.ldd = most;
    p.lda = (int64_t)1 << 61; /* 2^64 bytes */
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "A is too large");
}

/* ---- The canonical form ---- */

/* The canonical problem in the words of the public one. */
static carat_gemm_problem description_of(const struct problem *p)
{
    carat_gemm_problem q = carat_gemm_describe(p->type_a, p->m, p->n, p->k);
    q.op_a = p->trans_a ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    q.op_b = p->trans_b ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    q.lda = p->lda;
    q.ldb = p->ldb;
    q.ldc = p->ldc;
    q.ldd = p->ldd;
    q.batch = p->batch;
    q.stride_a = p->stride_a;
    q.stride_b = p->stride_b;
    q.stride_c = p->stride_c;
    q.stride_d = p->stride_d;
    q.bias = !p->bias ? CARAT_BIAS_NONE : (p->bias_along_n ? CARAT_BIAS_PER_COLUMN : CARAT_BIAS_PER_ROW);
    q.type_bias = p->type_bias;
    q.stride_bias = p->stride_bias;
    q.activation = p->activation;
    return q;
}

/* For lines of up to 9 elements; where it may be tight, 0 in half of the cases, which says so. */
static int64_t random_ld(struct random *random, bool may_be_tight)
{
    return may_be_tight && random_one_in(random, 2) ? 0 : random_between(random, 9, 12);
}

/* A batch of two small products in any layout, with or without bias. */
static carat_gemm_problem random_problem(struct random *random, int64_t m, int64_t n, bool may_be_tight)
{
    carat_gemm_problem p = carat_gemm_describe(CARAT_S32, m, n, random_between(random, 1, 9));
    p.order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p.op_a = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.op_b = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p.lda = random_ld(random, may_be_tight);
    p.ldb = random_ld(random, may_be_tight);
    p.ldc = random_ld(random, may_be_tight);
    p.ldd = random_ld(random, may_be_tight);
    p.batch = 2;
    p.stride_a = random_between(random, 0, 200);
    p.stride_b = random_between(random, 0, 200);
    p.stride_c = random_between(random, 0, 200);
    p.stride_d = random_between(random, 110, 200);
    p.bias = (carat_bias)random_between(random, 0, 2);
    p.stride_bias = random_between(random, 0, 9);
    return p;
}

/* Column-major or row-major, the canonical problem has the same products at the same addresses. */
static void canonical_form_computes_the_same(void **state)
{
    (void)state;
    struct random random = {1};
    static int32_t a[4000];
    static int32_t b[4000];
    static int32_t c[4000];
    int32_t one = 1;
    for (int i = 0; i < 4000; i++) {
        element_random(CARAT_S32, a, i, &random);
        element_random(CARAT_S32, b, i, &random);
        element_random(CARAT_S32, c, i, &random);
    }
    for (int i = 0; i < 500; i++) {
        carat_gemm_problem p =
            random_problem(&random, random_between(&random, 1, 9), random_between(&random, 1, 9), false);
        p.activation = random_one_in(&random, 2) ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_NONE;
        struct problem checked;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_int_equal(checked.swapped, p.order == CARAT_ROW_MAJOR);
        carat_gemm_problem q = description_of(&checked);
        struct operands operands;
        int32_t d[1000];
        carat_run run = {.bias = p.bias != CARAT_BIAS_NONE ? c + 2000 : NULL};
        assert_int_equal(problem_operands(&checked, &one, a, b, &one, c, d, &run, &operands), CARAT_OK);
        assert_ptr_equal(operands.bias, run.bias);
        int64_t row = random_between(&random, 0, p.m - 1);
        int64_t column = random_between(&random, 0, p.n - 1);
        struct expected x = reference_gemm(&p, &one, a, b, &one, c, &run, 1, row, column);
        int64_t row_of_q = checked.swapped ? column : row;
        int64_t column_of_q = checked.swapped ? row : column;
        struct expected y = reference_gemm(&q, &one, operands.a, operands.b, &one, operands.c, &run, 1,
                                           row_of_q, column_of_q);
        assert_true(x.value == y.value);
        assert_int_equal(element_index(p.order, row, column, p.ldd) + p.stride_d,
                         element_index(CARAT_COLUMN_MAJOR, row_of_q, column_of_q, q.ldd) + q.stride_d);
    }
}

/* A problem as simple as may be, of that many bytes an element, column-major. */
static void check_simplest(const carat_gemm_problem *p, const struct problem *simple, int64_t bytes)
{
    bool tight_row = simple->m == 1 && simple->n > 1 && simple->ldc == 1 && simple->ldd == 1;
    assert_false(tight_row);
    assert_true(simple->m * simple->n == p->m * p->n && simple->k == p->k && simple->batch == p->batch);
    if (simple->n == 1) {
        assert_true(!simple->trans_b || simple->ldb > 1);
        assert_int_equal(simple->trans_b || simple->ldb * bytes % MOST_ALIGNMENT == 0, true);
        assert_true(simple->ldd * bytes % MOST_ALIGNMENT == 0 && simple->ldd == simple->ldc);
    }
    if (simple->m == 1) {
        assert_true(simple->trans_a || simple->lda > 1);
        assert_int_equal(!simple->trans_a || simple->lda * bytes % MOST_ALIGNMENT == 0, true);
    }
}

/* Products with vectors in any layout, tight or not: the simplest form has the same products at the same addresses. */
static void simplest_form_computes_the_same(void **state)
{
    (void)state;
    struct random random = {2};
    static int32_t a[4000];
    static int32_t b[4000];
    static int32_t c[4000];
    int32_t one = 1;
    int turned = 0;
    for (int i = 0; i < 4000; i++) {
        element_random(CARAT_S32, a, i, &random);
        element_random(CARAT_S32, b, i, &random);
        element_random(CARAT_S32, c, i, &random);
    }
    for (int i = 0; i < 2000; i++) {
        int64_t sides[2] = {random_one_in(&random, 3) ? 1 : random_between(&random, 1, 9),
                            random_one_in(&random, 3) ? 1 : random_between(&random, 1, 9)};
        carat_gemm_problem p = random_problem(&random, sides[0], sides[1], true);
        struct problem checked;
        struct problem simple;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        simple = checked;
        problem_simplify(&simple);
        check_simplest(&p, &simple, 4);
        bool is_turned = simple.swapped != checked.swapped;
        turned += is_turned;
        struct problem again = simple;
        problem_simplify(&again);
        assert_true(problem_equal(&again, &simple));
        carat_gemm_problem q = description_of(&checked);
        carat_gemm_problem r = description_of(&simple);
        struct operands old;
        struct operands new;
        int32_t d[1000];
        carat_run run = {.bias = p.bias != CARAT_BIAS_NONE ? c + 2000 : NULL};
        assert_int_equal(problem_operands(&checked, &one, a, b, &one, c, d, &run, &old), CARAT_OK);
        assert_int_equal(problem_operands(&simple, &one, a, b, &one, c, d, &run, &new), CARAT_OK);
        int64_t row = random_between(&random, 0, q.m - 1);
        int64_t column = random_between(&random, 0, q.n - 1);
        int64_t row_of_r = is_turned ? column : row;
        int64_t column_of_r = is_turned ? row : column;
        struct expected x = reference_gemm(&q, &one, old.a, old.b, &one, old.c, &run, 1, row, column);
        struct expected y =
            reference_gemm(&r, &one, new.a, new.b, &one, new.c, &run, 1, row_of_r, column_of_r);
        assert_true(x.value == y.value);
        assert_int_equal(element_index(CARAT_COLUMN_MAJOR, row, column, q.ldd) + q.stride_d,
                         element_index(CARAT_COLUMN_MAJOR, row_of_r, column_of_r, r.ldd) + r.stride_d);
    }
    assert_true(turned > 100);
}

/* Whatever form a vector has here, messages have the caller's. */
static void messages_about_vectors_are_the_callers(void **state)
{
    (void)state;
    static const struct {
        carat_order order;
        int64_t m;
        int64_t n;
        int missing; /* 0: a, 1: b, 2: d */
        const char *words;
    } cases[] = {
        {CARAT_COLUMN_MAJOR, 1, 4, 0, "a is NULL, but has 1 x 5 elements"},
        {CARAT_COLUMN_MAJOR, 1, 4, 1, "b is NULL, but has 5 x 4 elements"},
        {CARAT_COLUMN_MAJOR, 1, 4, 2, "d is NULL, but has 1 x 4 elements"},
        {CARAT_COLUMN_MAJOR, 4, 1, 0, "a is NULL, but has 4 x 5 elements"},
        {CARAT_COLUMN_MAJOR, 4, 1, 1, "b is NULL, but has 5 x 1 elements"},
        {CARAT_COLUMN_MAJOR, 4, 1, 2, "d is NULL, but has 4 x 1 elements"},
        {CARAT_ROW_MAJOR, 1, 4, 0, "a is NULL, but has 1 x 5 elements"},
        {CARAT_ROW_MAJOR, 1, 4, 1, "b is NULL, but has 5 x 4 elements"},
        {CARAT_ROW_MAJOR, 4, 1, 0, "a is NULL, but has 4 x 5 elements"},
        {CARAT_ROW_MAJOR, 4, 1, 1, "b is NULL, but has 5 x 1 elements"},
        {CARAT_ROW_MAJOR, 4, 1, 2, "d is NULL, but has 4 x 1 elements"},
    };
    float numbers[64] = {0};
    float one = 1;
    float d[64];
    carat_run run = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        carat_gemm_problem p = carat_gemm_describe(CARAT_F32, cases[i].m, cases[i].n, 5);
        struct problem simple;
        struct operands operands;
        p.order = cases[i].order;
        assert_int_equal(problem_check(&p, &simple), CARAT_OK);
        problem_simplify(&simple);
        int missing = cases[i].missing;
        assert_refused(problem_operands(&simple, &one, missing == 0 ? NULL : numbers,
                                        missing == 1 ? NULL : numbers, &one, NULL, missing == 2 ? NULL : d,
                                        &run, &operands),
                       CARAT_INVALID_ARGUMENT, cases[i].words);
    }
}

/* Sizes of which multiples cannot be counted any more are left as they are. */
static void lone_columns_of_any_length(void **state)
{
    (void)state;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F16, 1, 1, INT64_MAX / 2);
    p.op_a = CARAT_TRANSPOSE;
    struct problem simple;
    assert_int_equal(problem_check(&p, &simple), CARAT_OK);
    problem_simplify(&simple);
    assert_int_equal(simple.ldb, INT64_MAX / 2);
    assert_int_equal(simple.ldd, 8);
    p = carat_gemm_describe(CARAT_F16, 3, 1, 0);
    assert_int_equal(problem_check(&p, &simple), CARAT_OK);
    problem_simplify(&simple);
    assert_true(simple.lda == 3 && simple.ldb == 1 && simple.ldd == 8);
}

/* Row-major: types and scales change places with the matrices they belong to. */
static void types_and_scales_go_with_their_matrices(void **state)
{
    (void)state;
    uint8_t a[4] = {0};
    uint8_t b[4] = {0};
    uint16_t d[4];
    float scalars[5] = {1, 1, 2, 3, 4};
    carat_run run = {.scale_a = &scalars[2], .scale_b = &scalars[3], .scale_d = &scalars[4]};
    for (int row_major = 0; row_major < 2; row_major++) {
        carat_gemm_problem p = carat_gemm_describe(CARAT_E4M3, 2, 2, 2);
        p.type_b = CARAT_E5M2;
        p.order = row_major ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
        struct problem checked;
        struct operands operands;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_int_equal(checked.type_a, row_major ? CARAT_E5M2 : CARAT_E4M3);
        assert_int_equal(checked.type_b, row_major ? CARAT_E4M3 : CARAT_E5M2);
        assert_int_equal(problem_operands(&checked, &scalars[0], a, b, &scalars[1], NULL, d, &run, &operands),
                         CARAT_OK);
        assert_ptr_equal(operands.a, row_major ? b : a);
        assert_ptr_equal(operands.scale_a, row_major ? &scalars[3] : &scalars[2]);
        assert_ptr_equal(operands.scale_b, row_major ? &scalars[2] : &scalars[3]);
        assert_ptr_equal(operands.scale_d, &scalars[4]);
    }
}

static void packed_and_single_problems_have_one_form(void **state)
{
    (void)state;
    struct problem packed;
    struct problem spelled;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 5, 6, 7);
    p.op_b = CARAT_TRANSPOSE;
    assert_int_equal(problem_check(&p, &packed), CARAT_OK);
    p.lda = 5;
    p.ldb = 6;
    p.ldc = 5;
    p.ldd = 5;
    p.stride_a = 1000; /* of a batch of one: says nothing */
    assert_int_equal(problem_check(&p, &spelled), CARAT_OK);
    assert_int_equal(packed.lda, 5);
    assert_int_equal(packed.ldb, 6);
    assert_int_equal(spelled.stride_a, packed.stride_a);
    struct extent b = problem_extent_b(&packed);
    assert_int_equal(b.rows, 6);
    assert_int_equal(b.columns, 7);
    assert_int_equal(extent_bytes(&b), 6 * 7 * 4);
}

/* ---- Overlap ---- */

#define ARENA 400

static void mark(const struct extent *extent, int64_t at, unsigned char *arena)
{
    for (int64_t index = 0; index < extent->batch; index++) {
        for (int64_t j = 0; j < extent->columns; j++) {
            for (int64_t i = 0; i < extent->rows; i++) {
                size_t element = (size_t)(index * extent->stride + j * extent->ld + i);
                memset(arena + at + element * extent->element_bytes, 1, extent->element_bytes);
            }
        }
    }
}

static struct extent random_extent(struct random *random, size_t element_bytes)
{
    struct extent extent = {random_between(random, 0, 4), random_between(random, 0, 4),  0,
                            random_between(random, 0, 3), random_between(random, 0, 12), element_bytes};
    extent.ld = random_between(random, extent.rows > 1 ? extent.rows : 1, 8);
    return extent;
}

/* Against the marks that both leave in a small piece of memory. */
static void overlap_is_of_elements_not_of_ranges(void **state)
{
    (void)state;
    struct random random = {2};
    int overlapping = 0;
    int interleaved = 0;
    for (int i = 0; i < 100000; i++) {
        /* Elements of 1 and 2 bytes, not only at multiples of each other. */
        struct extent x = random_extent(&random, random_one_in(&random, 2) ? 1 : 2);
        struct extent y =
            random_one_in(&random, 2) ? x : random_extent(&random, random_one_in(&random, 2) ? 1 : 2);
        if (random_one_in(&random, 3)) {
            y.ld = x.ld > y.rows ? x.ld : y.ld;
        }
        int64_t at_x = random_between(&random, 0, 120);
        int64_t at_y = random_between(&random, 0, 120);
        unsigned char marks_x[ARENA] = {0};
        unsigned char marks_y[ARENA] = {0};
        mark(&x, at_x, marks_x);
        mark(&y, at_y, marks_y);
        bool overlap = false;
        for (int byte = 0; byte < ARENA; byte++) {
            overlap = overlap || (marks_x[byte] && marks_y[byte]);
        }
        char arena[ARENA];
        bool ranges = extent_bytes(&x) && extent_bytes(&y) && at_x < at_y + (int64_t)extent_bytes(&y) &&
                      at_y < at_x + (int64_t)extent_bytes(&x);
        overlapping += overlap;
        interleaved += ranges && !overlap;
        assert_int_equal(extents_overlap(arena + at_x, &x, arena + at_y, &y), overlap);
    }
    /* Both answers were asked for often. */
    assert_true(overlapping > 1000);
    assert_true(interleaved > 1000);
}

/* The D of a batch: side by side, one behind the other, or one on the other. */
static void problems_of_a_batch_must_not_share_d(void **state)
{
    (void)state;
    struct random random = {3};
    int refused = 0;
    int accepted = 0;
    for (int i = 0; i < 20000; i++) {
        carat_gemm_problem p =
            carat_gemm_describe(CARAT_F32, random_between(&random, 1, 4), random_between(&random, 1, 4), 1);
        p.order = random_one_in(&random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
        p.ldd = packed_ld(p.order, p.m, p.n) + random_between(&random, 0, 12);
        p.batch = random_between(&random, 2, 5);
        p.stride_d = random_between(&random, 0, 20);
        int marks[ARENA] = {0};
        bool shared = false;
        for (int64_t index = 0; index < p.batch; index++) {
            for (int64_t e = 0; e < p.m * p.n; e++) {
                int64_t place = index * p.stride_d + element_index(p.order, e / p.n, e % p.n, p.ldd);
                shared = shared || marks[place];
                marks[place] = 1;
            }
        }
        struct problem checked;
        assert_int_equal(problem_check(&p, &checked), shared ? CARAT_INVALID_ARGUMENT : CARAT_OK);
        refused += shared;
        accepted += !shared;
    }
    assert_true(refused > 1000);
    assert_true(accepted > 1000);
}

/* A trillion problems, of each of which D has an element in each column: that they are apart is not looked up one by one. */
static void many_interleaved_problems_are_no_work(void **state)
{
    (void)state;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 1, 16, 1);
    struct problem checked;
    p.order = CARAT_COLUMN_MAJOR;
    p.batch = p.ldd = INT64_C(1) << 40;
    p.stride_d = 1;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    p.m = 2;
    p.lda = p.ldc = 2;
    assert_refused(problem_check(&p, &checked), CARAT_INVALID_ARGUMENT, "problem->stride_d");
}

/* ---- The pointers of a call ---- */

static void wrong_pointers_are_named(void **state)
{
    (void)state;
    float one = 1;
    float a[64];
    float b[64];
    float c[64];
    float d[64];
    for (int row_major = 0; row_major < 2; row_major++) {
        carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 4, 5, 6);
        p.order = row_major ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
        struct problem checked;
        struct operands operands;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_refused(problem_operands(&checked, NULL, a, b, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "alpha is NULL");
        assert_refused(problem_operands(&checked, &one, a, b, NULL, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "beta is NULL");
        assert_refused(problem_operands(&checked, &one, NULL, b, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "a is NULL, but has 4 x 6 elements");
        assert_refused(problem_operands(&checked, &one, a, NULL, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "b is NULL, but has 6 x 5 elements");
        assert_refused(problem_operands(&checked, &one, a, b, &one, c, NULL, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "d is NULL, but has 4 x 5 elements");
        assert_refused(problem_operands(&checked, &one, d, b, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "overlaps a at");
        assert_refused(problem_operands(&checked, &one, a, d + 19, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "overlaps b at");
        assert_refused(problem_operands(&checked, &one, a, b, &one, d + 1, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "overlaps c at");
        assert_int_equal(problem_operands(&checked, &one, a, a, &one, d, d, &no_run, &operands), CARAT_OK);
        assert_int_equal(problem_operands(&checked, &one, d + 20, b, &one, NULL, d, &no_run, &operands),
                         CARAT_OK);

        p.ldd = 8;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_refused(problem_operands(&checked, &one, a, b, &one, d, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, row_major ? "ldc is 5 and ldd is 8" : "ldc is 4 and ldd is 8");
        p.ldd = 0;
        p.batch = 2;
        p.stride_c = 21;
        p.stride_d = 20;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_refused(problem_operands(&checked, &one, a, b, &one, d, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "stride_c is 21 and stride_d is 20");
    }
}

/* Numbers are read whole, and not while D is written over them. */
static void scattered_and_written_inputs_are_refused(void **state)
{
    (void)state;
    float numbers[64];
    float d[64];
    char *odd = (char *)numbers + 2;
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 4, 5, 6);
    struct problem checked;
    struct operands operands;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    static const char *const names[] = {"alpha", "a", "b", "beta", "c", "d"};
    for (int wrong = 0; wrong < 6; wrong++) {
        void *at[6];
        for (int i = 0; i < 6; i++) {
            at[i] = i == wrong ? (void *)odd : (i == 5 ? (void *)d : (void *)numbers);
        }
        char words[100];
        snprintf(words, sizeof(words), "%s at %p is not at a multiple of 4 bytes, the size of f32",
                 names[wrong], (void *)odd);
        assert_refused(
            problem_operands(&checked, at[0], at[1], at[2], at[3], at[4], at[5], &no_run, &operands),
            CARAT_INVALID_ARGUMENT, words);
    }
    assert_refused(problem_operands(&checked, d + 19, numbers, numbers, numbers, NULL, d, &no_run, &operands),
                   CARAT_INVALID_ARGUMENT, "overlaps alpha at");
    assert_refused(problem_operands(&checked, numbers, numbers, numbers, d, NULL, d, &no_run, &operands),
                   CARAT_INVALID_ARGUMENT, "overlaps beta at");
    assert_int_equal(
        problem_operands(&checked, d + 20, numbers, numbers, d + 21, NULL, d, &no_run, &operands), CARAT_OK);
}

/* One of every layout: column-major and row-major, a number a row and a number a column. */
static carat_gemm_problem with_bias(int form)
{
    carat_gemm_problem p = carat_gemm_describe(CARAT_F32, 4, 5, 6);
    p.order = form / 2 ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p.bias = form % 2 ? CARAT_BIAS_PER_COLUMN : CARAT_BIAS_PER_ROW;
    return p;
}

/* problem_operands() for a bias at that address, and D. */
static carat_status operands_with_bias(const carat_gemm_problem *p, const void *bias, float *d)
{
    static const float numbers[64];
    struct problem checked;
    struct operands operands;
    assert_int_equal(problem_check(p, &checked), CARAT_OK);
    return problem_operands(&checked, numbers, numbers, numbers, numbers, NULL, d, &(carat_run){.bias = bias},
                            &operands);
}

static void a_wrong_bias_is_named(void **state)
{
    (void)state;
    float numbers[64] = {0};
    float d[200];
    for (int form = 0; form < 4; form++) {
        int64_t length = form % 2 ? 5 : 4;
        carat_gemm_problem p = with_bias(form);
        assert_refused(operands_with_bias(&p, NULL, d), CARAT_INVALID_ARGUMENT,
                       form % 2 ? "run->bias is NULL, but the problem has a bias of 5 numbers"
                                : "run->bias is NULL, but the problem has a bias of 4 numbers");
        assert_refused(operands_with_bias(&p, (char *)numbers + 1, d), CARAT_INVALID_ARGUMENT,
                       "is not at a multiple of 4 bytes, the size of f32");
        /* It may begin where D ends, and end where D begins. */
        assert_int_equal(operands_with_bias(&p, d + 20, d), CARAT_OK);
        assert_refused(operands_with_bias(&p, d + 19, d), CARAT_INVALID_ARGUMENT, "overlaps run->bias at");
        assert_int_equal(operands_with_bias(&p, d + 8 - length, d + 8), CARAT_OK);
        assert_refused(operands_with_bias(&p, d + 9 - length, d + 8), CARAT_INVALID_ARGUMENT,
                       "overlaps run->bias at");

        /* Of a batch the last problem's counts too; D of 2 x 20 lies between the two biases, or does not. */
        p.batch = 2;
        p.stride_d = 20;
        p.stride_bias = 50;
        assert_int_equal(operands_with_bias(&p, d, d + 10), CARAT_OK);
        assert_refused(operands_with_bias(&p, d, d + 11), CARAT_INVALID_ARGUMENT, "overlaps run->bias at");
        struct problem checked;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        struct extent extent = problem_extent_bias(&checked);
        assert_int_equal(extent_bytes(&extent), (size_t)(50 + length) * sizeof(float));

        /* Halves lie at multiples of 2. */
        p.type_bias = CARAT_BF16;
        assert_int_equal(operands_with_bias(&p, (char *)numbers + 2, d), CARAT_OK);

        /* An empty D takes none; one that is not asked for is a mistake. */
        p = with_bias(form);
        p.m = 0;
        assert_int_equal(operands_with_bias(&p, NULL, NULL), CARAT_OK);
        p = with_bias(form);
        p.bias = CARAT_BIAS_NONE;
        assert_refused(operands_with_bias(&p, numbers, d), CARAT_INVALID_ARGUMENT,
                       "run->bias is given, but problem->bias is CARAT_BIAS_NONE");
    }
}

static void wrong_scales_are_named(void **state)
{
    (void)state;
    float one = 1;
    double numbers[64] = {0};
    double d[64];
    static const carat_type refusing[][2] = {
        {CARAT_F32, CARAT_F32},  {CARAT_F64, CARAT_F64}, {CARAT_F16, CARAT_F32},
        {CARAT_BF16, CARAT_F32}, {CARAT_S32, CARAT_S32}, {CARAT_S8, CARAT_S32},
    };
    const void *odd = (char *)d + 241;
    const void *last = (char *)d + 19 * sizeof(float);
    const carat_run given[] = {{.scale_a = &one}, {.scale_b = &one}, {.scale_d = &one}};
    const carat_run scattered[] = {{.scale_a = odd}, {.scale_b = odd}, {.scale_d = odd}};
    const carat_run written[] = {{.scale_a = last}, {.scale_b = last}, {.scale_d = last}};
    static const char *const names[] = {"run->scale_a", "run->scale_b", "run->scale_d"};
    struct problem checked;
    struct operands operands;
    char words[100];
    for (int scale = 0; scale < 3; scale++) {
        for (int i = 0; i < 6; i++) {
            carat_gemm_problem p = carat_gemm_describe(refusing[i][0], 4, 5, 6);
            p.type_cd = refusing[i][1];
            p.order = i % 2 ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
            assert_int_equal(problem_check(&p, &checked), CARAT_OK);
            snprintf(words, sizeof(words), "%s is given, but products of %s with D of %s take no scales",
                     names[scale], carat_type_name(p.type_a), carat_type_name(p.type_cd));
            assert_refused(problem_operands(&checked, numbers, numbers, numbers, numbers, NULL, d,
                                            &given[scale], &operands),
                           CARAT_INVALID_ARGUMENT, words);
        }
        /* Where they are taken: aligned, apart from D, named by the caller's matrix in either order. */
        for (int row_major = 0; row_major < 2; row_major++) {
            carat_gemm_problem p = carat_gemm_describe(CARAT_S8, 4, 5, 6);
            p.type_cd = CARAT_F32;
            p.order = row_major ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
            assert_int_equal(problem_check(&p, &checked), CARAT_OK);
            snprintf(words, sizeof(words), "%s at %p is not at a multiple of 4", names[scale], odd);
            assert_refused(problem_operands(&checked, &one, numbers, numbers, &one, NULL, d,
                                            &scattered[scale], &operands),
                           CARAT_INVALID_ARGUMENT, words);
            snprintf(words, sizeof(words), "overlaps %s at", names[scale]);
            assert_refused(
                problem_operands(&checked, &one, numbers, numbers, &one, NULL, d, &written[scale], &operands),
                CARAT_INVALID_ARGUMENT, words);
            assert_int_equal(
                problem_operands(&checked, &one, numbers, numbers, &one, NULL, d, &given[scale], &operands),
                CARAT_OK);
        }
    }
}

/* Blocks of one larger matrix, as factorizations use them: their columns stand between each other. */
static void blocks_of_one_matrix_are_apart(void **state)
{
    (void)state;
    double one = 1;
    double matrix[10 * 10];
    carat_gemm_problem p = carat_gemm_describe(CARAT_F64, 5, 5, 5);
    p.lda = p.ldb = p.ldc = p.ldd = 10;
    struct problem checked;
    struct operands operands;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    double *lower_right = matrix + 55;
    assert_int_equal(problem_operands(&checked, &one, matrix + 5, matrix + 50, &one, lower_right, lower_right,
                                      &no_run, &operands),
                     CARAT_OK);
    assert_refused(problem_operands(&checked, &one, matrix + 5, matrix + 49, &one, matrix + 49, matrix + 53,
                                    &no_run, &operands),
                   CARAT_INVALID_ARGUMENT, "overlaps b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(description_fills_every_field),
        cmocka_unit_test(every_wrong_field_is_named),
        cmocka_unit_test(types_go_together_as_documented),
        cmocka_unit_test(the_messages_name_the_types_that_go),
        cmocka_unit_test(types_of_bias_and_activations_are_checked),
        cmocka_unit_test(row_major_messages_name_the_callers_arguments),
        cmocka_unit_test(sizes_that_int64_cannot_count_are_refused),
        cmocka_unit_test(columns_too_far_apart_are_refused),
        cmocka_unit_test(canonical_form_computes_the_same),
        cmocka_unit_test(simplest_form_computes_the_same),
        cmocka_unit_test(lone_columns_of_any_length),
        cmocka_unit_test(messages_about_vectors_are_the_callers),
        cmocka_unit_test(types_and_scales_go_with_their_matrices),
        cmocka_unit_test(packed_and_single_problems_have_one_form),
        cmocka_unit_test(overlap_is_of_elements_not_of_ranges),
        cmocka_unit_test(problems_of_a_batch_must_not_share_d),
        cmocka_unit_test(many_interleaved_problems_are_no_work),
        cmocka_unit_test(wrong_pointers_are_named),
        cmocka_unit_test(scattered_and_written_inputs_are_refused),
        cmocka_unit_test(a_wrong_bias_is_named),
        cmocka_unit_test(wrong_scales_are_named),
        cmocka_unit_test(blocks_of_one_matrix_are_apart),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
