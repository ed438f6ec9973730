/*
 * test_problem.c - the checks of a problem: what is refused and in which words, the canonical form, and
 * which matrices overlap.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "problem.h"
#include "reference.h"

#define assert_refused(call, status, words)                                                                  \
    do {                                                                                                     \
        assert_int_equal((call), (status));                                                                  \
        if (!strstr(carat_last_message(), (words))) {                                                        \
            fail_msg("the message is \"%s\", but should say \"%s\"", carat_last_message(), (words));         \
        }                                                                                                    \
    } while (0)

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
    assert_int_equal(p.type_cd, CARAT_S32);
    assert_int_equal(p.m, 2);
    assert_int_equal(p.n, 3);
    assert_int_equal(p.k, 4);
    assert_int_equal(p.batch, 1);
    assert_int_equal(p.accuracy, CARAT_ACCURACY_DEFAULT);
    assert_int_equal(carat_gemm_describe(CARAT_BF16, 1, 1, 1).type_cd, CARAT_BF16);
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
    bool is_enum = field == FIELD(order) || field == FIELD(op_a) || field == FIELD(op_b) ||
                   field == FIELD(type_a) || field == FIELD(type_cd) || field == FIELD(accuracy);
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
        {FIELD(type_a), 7, CARAT_INVALID_ARGUMENT, "type_a is 7, which is no carat_type"},
        {FIELD(type_cd), 99, CARAT_INVALID_ARGUMENT, "type_cd is 99, which is no carat_type"},
        {FIELD(accuracy), 2, CARAT_INVALID_ARGUMENT, "accuracy is 2, which is no carat_accuracy"},
        {FIELD(type_cd), CARAT_F64, CARAT_UNSUPPORTED,
         "type_cd is f64, but A and B of f32 give C and D of f32"},
        {FIELD(type_a), CARAT_S8, CARAT_UNSUPPORTED, "type_cd is f32, but A and B of s8 give C and D of s32"},
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
    /* An empty matrix has no bytes, however long it would be. */
    p = carat_gemm_describe(CARAT_F32, 0, INT64_MAX, INT64_MAX);
    p.ldb = INT64_MAX;
    p.k = 0;
    assert_int_equal(problem_check(&p, &checked), CARAT_OK);
    assert_true(problem_is_empty(&checked));
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
    return q;
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
            carat_gemm_describe(CARAT_S32, random_between(&random, 1, 9), random_between(&random, 1, 9),
                                random_between(&random, 1, 9));
        p.order = random_one_in(&random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
        p.op_a = random_one_in(&random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        p.op_b = random_one_in(&random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        p.lda = random_between(&random, 9, 12);
        p.ldb = random_between(&random, 9, 12);
        p.ldc = random_between(&random, 9, 12);
        p.ldd = random_between(&random, 9, 12);
        p.batch = 2;
        p.stride_a = random_between(&random, 0, 200);
        p.stride_b = random_between(&random, 0, 200);
        p.stride_c = random_between(&random, 0, 200);
        p.stride_d = random_between(&random, 110, 200);
        struct problem checked;
        assert_int_equal(problem_check(&p, &checked), CARAT_OK);
        assert_int_equal(checked.swapped, p.order == CARAT_ROW_MAJOR);
        carat_gemm_problem q = description_of(&checked);
        struct operands operands;
        int32_t d[1000];
        assert_int_equal(problem_operands(&checked, &one, a, b, &one, c, d, &no_run, &operands), CARAT_OK);
        int64_t row = random_between(&random, 0, p.m - 1);
        int64_t column = random_between(&random, 0, p.n - 1);
        struct expected x = reference_gemm(&p, &one, a, b, &one, c, NULL, 1, row, column);
        int64_t row_of_q = checked.swapped ? column : row;
        int64_t column_of_q = checked.swapped ? row : column;
        struct expected y = reference_gemm(&q, &one, operands.a, operands.b, &one, operands.c, NULL, 1,
                                           row_of_q, column_of_q);
        assert_true(x.value == y.value);
        assert_int_equal(element_index(p.order, row, column, p.ldd) + p.stride_d,
                         element_index(CARAT_COLUMN_MAJOR, row_of_q, column_of_q, q.ldd) + q.stride_d);
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
                       CARAT_INVALID_ARGUMENT, "a is NULL");
        assert_refused(problem_operands(&checked, &one, a, NULL, &one, c, d, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "b is NULL");
        assert_refused(problem_operands(&checked, &one, a, b, &one, c, NULL, &no_run, &operands),
                       CARAT_INVALID_ARGUMENT, "d is NULL");
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
        cmocka_unit_test(row_major_messages_name_the_callers_arguments),
        cmocka_unit_test(sizes_that_int64_cannot_count_are_refused),
        cmocka_unit_test(canonical_form_computes_the_same),
        cmocka_unit_test(packed_and_single_problems_have_one_form),
        cmocka_unit_test(overlap_is_of_elements_not_of_ranges),
        cmocka_unit_test(problems_of_a_batch_must_not_share_d),
        cmocka_unit_test(wrong_pointers_are_named),
        cmocka_unit_test(blocks_of_one_matrix_are_apart),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
