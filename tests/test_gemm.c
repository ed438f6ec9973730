/*
 * test_gemm.c - products against a reference in higher precision: random shapes, layouts, leading
 * dimensions, strides, scalars, aliasing and places of memory; special values; what must not be read.
 *
 * test_gemm_cuda.c runs the same on the CUDA device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "guarded.h"
#include "reference.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE CARAT_DEVICE_CPU
#define CASES 150        /* of each element type */
#define MOST_WORK 400000 /* multiply-adds of one */
#define LONGEST 2100     /* dimension: past the panels that the CPU device works in */
#endif

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16, CARAT_BF16, CARAT_S32, CARAT_S8};

static carat_context *context;

static int set_up(void **state)
{
    (void)state;
    if (carat_context_create(TEST_DEVICE, 0, &context) != CARAT_OK) {
        fprintf(stderr, "no context: %s\n", carat_last_message());
        return 1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    carat_context_destroy(context);
    return 0;
}

#define assert_ok(call)                                                                                      \
    do {                                                                                                     \
        carat_status ok_status = (call);                                                                     \
        if (ok_status != CARAT_OK) {                                                                         \
            fail_msg("%s: %s: %s", #call, carat_status_name(ok_status), carat_last_message());               \
        }                                                                                                    \
    } while (0)

/* ---- One case ---- */

struct scalar {
    unsigned char bytes[8]; /* of carat_scalar_type() */
} __attribute__((aligned(8)));

static struct scalar scalar_of(carat_type type, long double value)
{
    struct scalar scalar = {{0}};
    element_set(carat_scalar_type(type), scalar.bytes, 0, value);
    return scalar;
}

struct gemm_case {
    carat_gemm_problem problem;
    struct scalar alpha;
    struct scalar beta;
    bool c_is_d;
    bool c_is_null;
    bool on_device; /* the matrices */
    bool scalars_on_device;
    bool planned; /* carat_plan_create, own workspace, carat_plan_run */
    bool on_stream;
    size_t shift_a; /* of the addresses, in elements */
    size_t shift_b;
    size_t shift_d;
};

static void describe_case(const struct gemm_case *x)
{
    const carat_gemm_problem *p = &x->problem;
    carat_type scalar = carat_scalar_type(p->type_cd);
    print_message("%s order %d ops %d%d m %" PRId64 " n %" PRId64 " k %" PRId64 " ld %" PRId64 " %" PRId64
                  " %" PRId64 " %" PRId64 " batch %" PRId64 " strides %" PRId64 " %" PRId64 " %" PRId64
                  " %" PRId64
                  " alpha %Lg beta %Lg c_is_d %d c_is_null %d on_device %d scalars_on_device %d planned %d "
                  "on_stream %d shifts %zu %zu %zu\n",
                  carat_type_name(p->type_a), (int)p->order, (int)p->op_a, (int)p->op_b, p->m, p->n, p->k,
                  p->lda, p->ldb, p->ldc, p->ldd, p->batch, p->stride_a, p->stride_b, p->stride_c,
                  p->stride_d, element_get(scalar, x->alpha.bytes, 0), element_get(scalar, x->beta.bytes, 0),
                  x->c_is_d, x->c_is_null, x->on_device, x->scalars_on_device, x->planned, x->on_stream,
                  x->shift_a, x->shift_b, x->shift_d);
}

/* Bytes of a batch of stored matrices. */
static size_t matrix_bytes(const carat_gemm_problem *p, int64_t rows, int64_t columns, int64_t ld,
                           int64_t stride, carat_type type)
{
    if (rows == 0 || columns == 0 || p->batch == 0) {
        return 0;
    }
    int64_t last = element_index(p->order, rows - 1, columns - 1, ld) + (p->batch - 1) * stride;
    return (size_t)(last + 1) * carat_type_size(type);
}

static size_t bytes_of_a(const carat_gemm_problem *p)
{
    bool t = p->op_a == CARAT_TRANSPOSE;
    return matrix_bytes(p, t ? p->k : p->m, t ? p->m : p->k, p->lda, p->stride_a, p->type_a);
}

static size_t bytes_of_b(const carat_gemm_problem *p)
{
    bool t = p->op_b == CARAT_TRANSPOSE;
    return matrix_bytes(p, t ? p->n : p->k, t ? p->k : p->n, p->ldb, p->stride_b, p->type_a);
}

/* The matrices of a case, filled by the test. */
struct matrices {
    struct guarded a;
    struct guarded b;
    struct guarded c;
    struct guarded d;
};

static struct matrices matrices_create(const struct gemm_case *x)
{
    const carat_gemm_problem *p = &x->problem;
    size_t ab = carat_type_size(p->type_a);
    size_t cd = carat_type_size(p->type_cd);
    return (struct matrices){
        .a = guarded_create(context, x->on_device, bytes_of_a(p), x->shift_a * ab),
        .b = guarded_create(context, x->on_device, bytes_of_b(p), x->shift_b * ab),
        .c = guarded_create(context, x->on_device,
                            matrix_bytes(p, p->m, p->n, p->ldc, p->stride_c, p->type_cd), 0),
        .d = guarded_create(context, x->on_device,
                            matrix_bytes(p, p->m, p->n, p->ldd, p->stride_d, p->type_cd), x->shift_d * cd),
    };
}

static void matrices_destroy(struct matrices *x)
{
    guarded_destroy(&x->a);
    guarded_destroy(&x->b);
    guarded_destroy(&x->c);
    guarded_destroy(&x->d);
}

static void fill(const struct guarded *g, carat_type type, struct random *random)
{
    for (size_t i = 0; i < g->bytes / carat_type_size(type); i++) {
        element_random(type, guarded_content(g), (int64_t)i, random);
    }
}

static void poison(const struct guarded *g, carat_type type)
{
    for (size_t i = 0; i < g->bytes / carat_type_size(type); i++) {
        element_poison(type, guarded_content(g), (int64_t)i);
    }
}

/* The call itself, in the way that the case asks for. */
static carat_status run_case(const struct gemm_case *x, const void *alpha, const void *a, const void *b,
                             const void *beta, const void *c, void *d)
{
    carat_run run = {.stream = NULL};
    if (x->on_stream) {
        assert_ok(carat_stream_create(context, &run.stream));
    }
    carat_status status;
    if (x->planned) {
        carat_plan *plan;
        assert_ok(carat_plan_create(context, &x->problem, &plan));
        assert_true(strlen(carat_plan_explain(plan)) > 0);
        run.workspace_bytes = carat_plan_workspace(plan);
        struct guarded workspace = guarded_create(context, true, run.workspace_bytes, 0);
        assert_ok(guarded_upload(&workspace));
        run.workspace = run.workspace_bytes ? guarded_pointer(&workspace) : NULL;
        status = carat_plan_run(plan, alpha, a, b, beta, c, d, &run);
        assert_ok(carat_synchronize(context, run.stream));
        carat_plan_destroy(plan);

        /* What is written of the workspace is inside it. */
        unsigned char *now = guarded_download(&workspace);
        assert_memory_equal(now, workspace.expect, GUARD_BYTES);
        assert_memory_equal(now + GUARD_BYTES + workspace.bytes,
                            workspace.expect + GUARD_BYTES + workspace.bytes, GUARD_BYTES);
        free(now);
        guarded_destroy(&workspace);
    } else {
        status = carat_gemm(context, &x->problem, alpha, a, b, beta, c, d, x->on_stream ? &run : NULL);
        assert_ok(carat_synchronize(context, run.stream));
    }
    if (x->on_stream) {
        assert_ok(carat_stream_destroy(context, run.stream));
    }
    return status;
}

/*
 * Runs the case on its matrices and checks every byte: D within the bound, what lies between D's columns
 * and around it as it was, all other matrices as they were.
 */
static void check_case(const struct gemm_case *x, const struct matrices *m)
{
    const carat_gemm_problem *p = &x->problem;
    const struct guarded *source = x->c_is_d ? &m->d : &m->c;
    size_t scalar_bytes = carat_type_size(carat_scalar_type(p->type_cd));
    struct guarded alpha = guarded_create(context, x->scalars_on_device, scalar_bytes, 0);
    struct guarded beta = guarded_create(context, x->scalars_on_device, scalar_bytes, 0);
    memcpy(guarded_content(&alpha), x->alpha.bytes, scalar_bytes);
    memcpy(guarded_content(&beta), x->beta.bytes, scalar_bytes);
    const struct guarded *all[] = {&alpha, &beta, &m->a, &m->b, &m->c, &m->d};
    for (int i = 0; i < 6; i++) {
        assert_ok(guarded_upload(all[i]));
    }

    carat_status status = run_case(x, guarded_pointer(&alpha), guarded_pointer(&m->a), guarded_pointer(&m->b),
                                   guarded_pointer(&beta), x->c_is_null ? NULL : guarded_pointer(source),
                                   guarded_pointer(&m->d));
    if (status != CARAT_OK) {
        describe_case(x);
        fail_msg("%s: %s", carat_status_name(status), carat_last_message());
    }

    unsigned char *now = guarded_download(&m->d);
    void *d = guarded_content_of(&m->d, now);
    const void *before = guarded_content(source);
    for (int64_t index = 0; index < p->batch; index++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++) {
                struct expected expected =
                    reference_gemm(p, x->alpha.bytes, guarded_content(&m->a), guarded_content(&m->b),
                                   x->beta.bytes, before, NULL, index, i, j);
                int64_t place = index * p->stride_d + element_index(p->order, i, j, p->ldd);
                if (!expected_holds(&expected, p->type_cd, d, place)) {
                    describe_case(x);
                    fail_msg("D(%" PRId64 ", %" PRId64 ") of problem %" PRId64
                             " is %.20Lg, but should be %.20Lg "
                             "within %Lg",
                             i, j, index, element_get(p->type_cd, d, place), expected.value, expected.bound);
                }
            }
        }
    }
    /* With the elements of D put back, nothing differs. */
    for (int64_t index = 0; index < p->batch; index++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++) {
                size_t size = carat_type_size(p->type_cd);
                size_t place = (size_t)(index * p->stride_d + element_index(p->order, i, j, p->ldd)) * size;
                memcpy((char *)d + place, (char *)guarded_content(&m->d) + place, size);
            }
        }
    }
    assert_memory_equal(now, m->d.expect, guarded_total(&m->d));
    free(now);
    for (int i = 0; i < 5; i++) {
        assert_true(guarded_untouched(all[i]));
    }
    guarded_destroy(&alpha);
    guarded_destroy(&beta);
}

/* ---- Random cases ---- */

static int64_t random_size(struct random *random, int64_t longest)
{
    switch (random_between(random, 0, 11)) {
    case 0:
        return random_between(random, 0, 2);
    case 1:
        return random_between(random, 1, longest);
    case 2:
    case 3:
        return 16 * random_between(random, 1, 8);
    default:
        return random_between(random, 1, 70);
    }
}

static long double random_scalar(struct random *random, carat_type type)
{
    switch (random_between(random, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return 1;
    case 2:
        return -1;
    case 3:
        return 2;
    default:
        return carat_scalar_type(type) == CARAT_S32
                   ? (long double)random_between(random, INT32_MIN, INT32_MAX)
                   : (long double)(3 * random_unit(random));
    }
}

/* Rows that are packed, a little longer, or padded to 16 bytes and more. */
static int64_t random_ld(struct random *random, carat_order order, int64_t rows, int64_t columns)
{
    int64_t packed = packed_ld(order, rows, columns);
    switch (random_between(random, 0, 2)) {
    case 0:
        return packed;
    case 1:
        return packed + random_between(random, 1, 9);
    default:
        return (packed + 15) / 16 * 16 + 16 * random_between(random, 0, 1);
    }
}

/* From one matrix of a batch to the next: as short as may be, longer, or padded. */
static int64_t random_stride(struct random *random, carat_order order, int64_t rows, int64_t columns,
                             int64_t ld)
{
    int64_t least = rows == 0 || columns == 0 ? 1 : element_index(order, rows - 1, columns - 1, ld) + 1;
    return random_one_in(random, 2) ? least + random_between(random, 0, 9) : (least + 31) / 32 * 32;
}

static struct gemm_case random_case(struct random *random, carat_type type)
{
    struct gemm_case x = {0};
    carat_gemm_problem *p = &x.problem;
    do {
        int64_t m = random_size(random, LONGEST);
        int64_t n = random_size(random, LONGEST);
        *p = carat_gemm_describe(type, m, n, random_size(random, LONGEST));
        p->batch = random_one_in(random, 3) ? random_between(random, 0, 4) : 1;
    } while (p->m * p->n * (p->k + 8) * p->batch > MOST_WORK);
    p->order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p->op_a = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->op_b = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->accuracy = random_one_in(random, 2) ? CARAT_ACCURACY_STRICT : CARAT_ACCURACY_DEFAULT;
    x.c_is_d = random_one_in(random, 2);
    x.alpha = scalar_of(type, random_scalar(random, type));
    x.beta = scalar_of(type, random_scalar(random, type));

    bool ta = p->op_a == CARAT_TRANSPOSE;
    bool tb = p->op_b == CARAT_TRANSPOSE;
    p->lda = random_ld(random, p->order, ta ? p->k : p->m, ta ? p->m : p->k);
    p->ldb = random_ld(random, p->order, tb ? p->n : p->k, tb ? p->k : p->n);
    p->ldd = random_ld(random, p->order, p->m, p->n);
    p->ldc = x.c_is_d ? p->ldd : random_ld(random, p->order, p->m, p->n);
    if (p->batch > 1) {
        bool same = random_one_in(random, 4);
        p->stride_a = same ? 0 : random_stride(random, p->order, ta ? p->k : p->m, ta ? p->m : p->k, p->lda);
        p->stride_b = random_stride(random, p->order, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb);
        p->stride_d = random_stride(random, p->order, p->m, p->n, p->ldd);
        p->stride_c = x.c_is_d ? p->stride_d : random_stride(random, p->order, p->m, p->n, p->ldc);
        if (!x.c_is_d && random_one_in(random, 4)) {
            p->stride_c = 0;
        }
    }
    x.on_device = random_one_in(random, 2);
    x.scalars_on_device = random_one_in(random, 3);
    x.planned = random_one_in(random, 3);
    x.on_stream = random_one_in(random, 3);
    x.shift_a = random_one_in(random, 3) ? (size_t)random_between(random, 0, 9) : 0;
    x.shift_b = random_one_in(random, 3) ? (size_t)random_between(random, 0, 9) : 0;
    x.shift_d = random_one_in(random, 3) ? (size_t)random_between(random, 0, 9) : 0;
    return x;
}

static bool is_zero(carat_type type, const struct scalar *scalar)
{
    return element_get(carat_scalar_type(type), scalar->bytes, 0) == 0;
}

static void random_products(void **state)
{
    carat_type type = *(const carat_type *)*state;
    struct random random = {(uint64_t)type};
    for (int i = 0; i < CASES; i++) {
        struct gemm_case x = random_case(&random, type);
        x.c_is_null = is_zero(type, &x.beta) && !x.scalars_on_device && random_one_in(&random, 2);
        struct matrices m = matrices_create(&x);
        fill(&m.a, type, &random);
        fill(&m.b, type, &random);
        /* C and D hold what must not be read; C's elements are numbers where they must. */
        poison(&m.c, x.problem.type_cd);
        poison(&m.d, x.problem.type_cd);
        if (!is_zero(type, &x.beta)) {
            fill(x.c_is_d ? &m.d : &m.c, x.problem.type_cd, &random);
        }
        if (is_zero(type, &x.alpha)) {
            poison(&m.a, type);
            poison(&m.b, type);
        }
        check_case(&x, &m);
        matrices_destroy(&m);
    }
}

/* ---- What is long ---- */

/* Sums of -128 * -128 and of the largest s32: every bit of the sum counts, and it wraps. */
static void extreme_integers_are_exact(void **state)
{
    (void)state;
    static const carat_type integers[] = {CARAT_S8, CARAT_S32};
    for (int t = 0; t < 2; t++) {
        for (int pattern = 0; pattern < 3; pattern++) {
            struct gemm_case x = {.problem = carat_gemm_describe(integers[t], 3, 2, 2 * LONGEST + 1)};
            carat_gemm_problem *p = &x.problem;
            p->op_a = CARAT_TRANSPOSE;
            p->lda = p->k;
            p->ldb = p->k;
            p->ldc = p->ldd = 3;
            x.alpha = scalar_of(integers[t], 1);
            x.beta = scalar_of(integers[t], 0);
            struct matrices m = matrices_create(&x);
            long double low = integers[t] == CARAT_S8 ? -128 : INT32_MIN;
            long double high = integers[t] == CARAT_S8 ? 127 : INT32_MAX;
            for (int64_t i = 0; i < 3 * p->k; i++) {
                element_set(integers[t], guarded_content(&m.a), i, pattern == 2 ? high : low);
                if (i < 2 * p->k) {
                    element_set(integers[t], guarded_content(&m.b), i, pattern == 1 ? high : low);
                }
            }
            check_case(&x, &m);
            matrices_destroy(&m);
        }
    }
}

/* ---- Special values ---- */

/* NaN, infinities of both signs and zeros sown into A, B and C, in every floating type. */
static void special_values_go_where_arithmetic_takes_them(void **state)
{
    (void)state;
    static const long double specials[] = {NAN, INFINITY, -INFINITY, 0.0L, -0.0L};
    struct random random = {99};
    for (int t = 0; t < 4; t++) {
        for (int i = 0; i < 40; i++) {
            struct gemm_case x = random_case(&random, types[t]);
            if (x.problem.k > 100) {
                x.problem = carat_gemm_describe(types[t], 9, 21, 33);
                x.problem.lda = x.problem.ldc = x.problem.ldd = 9;
                x.problem.ldb = 33;
            }
            x.beta = scalar_of(types[t], i % 2);
            x.alpha = scalar_of(types[t], i % 3 == 0 ? 1.0L : -2.0L);
            struct matrices m = matrices_create(&x);
            const struct guarded *source = x.c_is_d ? &m.d : &m.c;
            const struct guarded *inputs[] = {&m.a, &m.b, source};
            for (int input = 0; input < 3; input++) {
                fill(inputs[input], types[t], &random);
                int64_t count = (int64_t)(inputs[input]->bytes / carat_type_size(types[t]));
                for (int special = 0; special < 5 && count > 0; special++) {
                    element_set(types[t], guarded_content(inputs[input]),
                                random_between(&random, 0, count - 1), specials[special]);
                }
            }
            check_case(&x, &m);
            matrices_destroy(&m);
        }
    }
}

/* One product of two numbers: exact in every type, denormal or at the edge of the range. */
static void denormals_and_edges_are_exact(void **state)
{
    (void)state;
    static const struct {
        carat_type type;
        long double a;
        long double b;
        long double d;
    } rows[] = {
        {CARAT_F32, 0x1p-149L, 1, 0x1p-149L},
        {CARAT_F32, 0x1p-126L, 0.5L, 0x1p-127L},
        {CARAT_F32, 0x1.8p-148L, -1, -0x1.8p-148L},
        {CARAT_F32, 0x1p127L, 2, INFINITY},
        {CARAT_F64, 0x1p-1074L, 1, 0x1p-1074L},
        {CARAT_F64, 0x1p-1022L, 0.25L, 0x1p-1024L},
        {CARAT_F64, 0x1p1023L, -2, -INFINITY},
        {CARAT_F16, 0x1p-24L, 1, 0x1p-24L},
        {CARAT_F16, 0x1p-14L, 0.75L, 0x1.8p-15L},
        {CARAT_F16, 65504, 1, 65504},
        {CARAT_F16, 65504, 2, INFINITY},
        {CARAT_F16, 0x1p-24L, 0.5L, 0},          /* half the least: to even */
        {CARAT_F16, 0x1.8p-23L, 0.5L, 0x1p-23L}, /* one and a half: to even */
        {CARAT_BF16, 0x1p-133L, 1, 0x1p-133L},
        {CARAT_BF16, 0x1p-126L, 0.5L, 0x1p-127L},
        {CARAT_BF16, 0x1p127L, -4, -INFINITY},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        carat_type type = rows[i].type;
        uint64_t a[1];
        uint64_t b[1];
        uint64_t d[1] = {0};
        element_set(type, a, 0, rows[i].a);
        element_set(type, b, 0, rows[i].b);
        assert_true(element_get(type, a, 0) == rows[i].a);
        struct scalar one = scalar_of(type, 1);
        struct scalar zero = scalar_of(type, 0);
        carat_gemm_problem problem = carat_gemm_describe(type, 1, 1, 1);
        assert_ok(carat_gemm(context, &problem, one.bytes, a, b, zero.bytes, NULL, d, NULL));
        if (element_get(type, d, 0) != rows[i].d) {
            fail_msg("%s: %Lg * %Lg gave %Lg", carat_type_name(type), rows[i].a, rows[i].b,
                     element_get(type, d, 0));
        }
    }
}

/* D = beta * C without A and B, whatever alpha is, where k is 0; and NULL for them. */
static void nothing_to_sum(void **state)
{
    (void)state;
    for (int t = 0; t < 6; t++) {
        carat_type type = types[t];
        bool integer = carat_scalar_type(type) == CARAT_S32;
        carat_gemm_problem problem = carat_gemm_describe(type, 5, 3, 0);
        uint64_t c[15];
        uint64_t d[15];
        struct scalar alpha = scalar_of(type, integer ? 7 : NAN);
        for (int beta = 0; beta <= 2; beta++) {
            struct scalar scale = scalar_of(type, beta);
            for (int i = 0; i < 15; i++) {
                element_set(problem.type_cd, c, i, i - 7);
                element_poison(problem.type_cd, d, i);
            }
            assert_ok(carat_gemm(context, &problem, alpha.bytes, NULL, NULL, scale.bytes, beta ? c : NULL, d,
                                 NULL));
            for (int i = 0; i < 15; i++) {
                long double got = element_get(problem.type_cd, d, i);
                if (got != beta * (i - 7)) {
                    fail_msg("%s: beta %d gave %Lg for %d", carat_type_name(type), beta, got, i - 7);
                }
            }
        }
    }
}

/* An empty D needs no memory. */
static void nothing_to_write(void **state)
{
    (void)state;
    static const int64_t sizes[][4] = {{0, 5, 5, 1}, {5, 0, 5, 1}, {5, 5, 5, 0}, {0, 0, 0, 0}};
    for (int t = 0; t < 6; t++) {
        struct scalar one = scalar_of(types[t], 1);
        for (int i = 0; i < 4; i++) {
            carat_gemm_problem problem = carat_gemm_describe(types[t], sizes[i][0], sizes[i][1], sizes[i][2]);
            problem.batch = sizes[i][3];
            assert_ok(carat_gemm(context, &problem, one.bytes, NULL, NULL, one.bytes, NULL, NULL, NULL));
            carat_plan *plan;
            assert_ok(carat_plan_create(context, &problem, &plan));
            assert_int_equal(carat_plan_workspace(plan), 0);
            assert_ok(carat_plan_run(plan, one.bytes, NULL, NULL, one.bytes, NULL, NULL, NULL));
            carat_plan_destroy(plan);
        }
    }
}

/* ---- The calls in the manner of CBLAS ---- */

static carat_status classic(carat_type type, const carat_gemm_problem *p, const struct scalar *alpha,
                            const void *a, const void *b, const struct scalar *beta, void *c)
{
    float alpha_f32 = *(const float *)alpha->bytes;
    float beta_f32 = *(const float *)beta->bytes;
    int32_t alpha_s32 = *(const int32_t *)alpha->bytes;
    int32_t beta_s32 = *(const int32_t *)beta->bytes;
    switch (type) {
    case CARAT_F32:
        return carat_gemm_f32(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k, alpha_f32, a, p->lda, b,
                              p->ldb, beta_f32, c, p->ldd);
    case CARAT_F64:
        return carat_gemm_f64(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k,
                              *(const double *)alpha->bytes, a, p->lda, b, p->ldb,
                              *(const double *)beta->bytes, c, p->ldd);
    case CARAT_F16:
        return carat_gemm_f16(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k, alpha_f32, a, p->lda, b,
                              p->ldb, beta_f32, c, p->ldd);
    case CARAT_BF16:
        return carat_gemm_bf16(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k, alpha_f32, a, p->lda, b,
                               p->ldb, beta_f32, c, p->ldd);
    case CARAT_S32:
        return carat_gemm_s32(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k, alpha_s32, a, p->lda, b,
                              p->ldb, beta_s32, c, p->ldd);
    case CARAT_S8:
        return carat_gemm_s8(context, p->order, p->op_a, p->op_b, p->m, p->n, p->k, alpha_s32, a, p->lda, b,
                             p->ldb, beta_s32, c, p->ldd);
    default:
        break;
    }
    return CARAT_UNSUPPORTED;
}

/* They give the bits of the general call, and the same bits again. */
static void classic_calls_are_the_general_call(void **state)
{
    (void)state;
    struct random random = {7};
    for (int t = 0; t < 6; t++) {
        for (int i = 0; i < 10; i++) {
            struct gemm_case x = random_case(&random, types[t]);
            carat_gemm_problem *p = &x.problem;
            p->batch = 1;
            p->stride_a = p->stride_b = p->stride_c = p->stride_d = 0;
            p->ldc = p->ldd;
            x.on_device = false;
            struct matrices m = matrices_create(&x);
            fill(&m.a, types[t], &random);
            fill(&m.b, types[t], &random);
            fill(&m.d, p->type_cd, &random);
            memcpy(guarded_content(&m.c), guarded_content(&m.d), m.d.bytes);
            void *a = guarded_content(&m.a);
            void *b = guarded_content(&m.b);
            void *c = guarded_content(&m.c);
            void *d = guarded_content(&m.d);
            assert_ok(carat_gemm(context, p, x.alpha.bytes, a, b, x.beta.bytes, d, d, NULL));
            assert_ok(classic(types[t], p, &x.alpha, a, b, &x.beta, c));
            if (m.d.bytes > 0) {
                assert_memory_equal(c, d, m.d.bytes);
            }
            matrices_destroy(&m);
        }
    }
}

/* ---- Sizes beyond 32 bits ---- */

/* A matrix of two columns so far apart that its leading dimension needs 33 bits. */
static void leading_dimensions_beyond_int(void **state)
{
    (void)state;
    int64_t ld = (int64_t)INT32_MAX + 10;
    for (int t = 0; t < 6; t++) {
        size_t bytes = ((size_t)ld + 2) * carat_type_size(types[t]);
        void *a =
            mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (a == MAP_FAILED) {
            print_message("skipped %s: no address space of %zu bytes\n", carat_type_name(types[t]), bytes);
            continue;
        }
        uint64_t b[4];
        uint64_t d[4];
        static const int values[4] = {1, 2, 3, 4};
        carat_gemm_problem problem = carat_gemm_describe(types[t], 2, 2, 2);
        problem.lda = ld;
        struct scalar one = scalar_of(types[t], 1);
        struct scalar zero = scalar_of(types[t], 0);
        for (int i = 0; i < 4; i++) {
            element_set(types[t], a, i % 2 + i / 2 * ld, values[i]);
            element_set(types[t], b, i, values[i]);
        }
        assert_ok(carat_gemm(context, &problem, one.bytes, a, b, zero.bytes, NULL, d, NULL));
        static const int product[4] = {7, 10, 15, 22};
        for (int i = 0; i < 4; i++) {
            assert_true(element_get(problem.type_cd, d, i) == product[i]);
        }
        munmap(a, bytes);
    }
}

int main(void)
{
    struct CMUnitTest tests[20];
    char names[6][64];
    int count = 0;
    for (int t = 0; t < 6; t++) {
        snprintf(names[t], sizeof(names[t]), "random_products_%s", carat_type_name(types[t]));
        tests[count++] =
            (struct CMUnitTest){names[t], random_products, NULL, NULL, (void *)(uintptr_t)&types[t]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(extreme_integers_are_exact);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(special_values_go_where_arithmetic_takes_them);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(denormals_and_edges_are_exact);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(nothing_to_sum);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(nothing_to_write);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(classic_calls_are_the_general_call);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(leading_dimensions_beyond_int);
    return _cmocka_run_group_tests("gemm", tests, (size_t)count, set_up, tear_down);
}
