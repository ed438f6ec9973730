/*
 * test_gemm.c - products against a reference in higher precision: every choice of types, random shapes,
 * layouts, leading dimensions, strides, scalars, scales, biases, activations, aliasing and places of
 * memory; special values; what must not be read.
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

#include "assertions.h"
#include "guarded.h"
#include "reference.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE CARAT_DEVICE_CPU
#define ON_CPU
#define CASES 150        /* of each element type */
#define MOST_WORK 400000 /* multiply-adds of one */
#define LONGEST 2100     /* dimension: past the panels that the CPU device works in */
#endif

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16,  CARAT_BF16,
                                   CARAT_S32, CARAT_S8,  CARAT_E4M3, CARAT_E5M2};
#define TYPES ((int)(sizeof(types) / sizeof(types[0])))
#define CLASSIC_TYPES 6 /* the first of them, which have calls in the manner of CBLAS */

/* Which types go together. */
struct kind {
    carat_type a;
    carat_type b;
    carat_type cd;
};

static const struct kind kinds[] = {
    {CARAT_F32, CARAT_F32, CARAT_F32},    {CARAT_F64, CARAT_F64, CARAT_F64},
    {CARAT_F16, CARAT_F16, CARAT_F16},    {CARAT_F16, CARAT_F16, CARAT_F32},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16}, {CARAT_BF16, CARAT_BF16, CARAT_F32},
    {CARAT_S32, CARAT_S32, CARAT_S32},    {CARAT_S8, CARAT_S8, CARAT_S32},
    {CARAT_S8, CARAT_S8, CARAT_F32},      {CARAT_S8, CARAT_S8, CARAT_S8},
    {CARAT_E4M3, CARAT_E4M3, CARAT_BF16}, {CARAT_E4M3, CARAT_E4M3, CARAT_F16},
    {CARAT_E4M3, CARAT_E4M3, CARAT_F32},  {CARAT_E4M3, CARAT_E4M3, CARAT_E4M3},
    {CARAT_E4M3, CARAT_E5M2, CARAT_BF16}, {CARAT_E4M3, CARAT_E5M2, CARAT_F16},
    {CARAT_E4M3, CARAT_E5M2, CARAT_F32},  {CARAT_E4M3, CARAT_E5M2, CARAT_E4M3},
    {CARAT_E5M2, CARAT_E4M3, CARAT_BF16}, {CARAT_E5M2, CARAT_E4M3, CARAT_F16},
    {CARAT_E5M2, CARAT_E4M3, CARAT_F32},  {CARAT_E5M2, CARAT_E4M3, CARAT_E4M3},
    {CARAT_E5M2, CARAT_E5M2, CARAT_BF16}, {CARAT_E5M2, CARAT_E5M2, CARAT_F16},
    {CARAT_E5M2, CARAT_E5M2, CARAT_F32},  {CARAT_E5M2, CARAT_E5M2, CARAT_E4M3},
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

static bool is_integer(carat_type type) { return type == CARAT_S32 || type == CARAT_S8; }
static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

static bool takes_scales(const struct kind *kind)
{
    return is_float8(kind->a) || (kind->a == CARAT_S8 && kind->cd != CARAT_S32);
}

static carat_gemm_problem describe_kind(const struct kind *kind, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem p = carat_gemm_describe(kind->a, m, n, k);
    p.type_b = kind->b;
    p.type_cd = kind->cd;
    p.type_bias = carat_scalar_type(kind->cd);
    return p;
}

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

/* ---- One case ---- */

struct scalar {
    unsigned char bytes[8]; /* of carat_scalar_type() */
} __attribute__((aligned(8)));

static struct scalar scalar_of(carat_type type_cd, long double value)
{
    struct scalar scalar = {{0}};
    element_set(carat_scalar_type(type_cd), scalar.bytes, 0, value);
    return scalar;
}

/* One of scale_a, scale_b and scale_d. */
struct scale {
    bool given;
    bool on_device;
    float value;
};

struct gemm_case {
    carat_gemm_problem problem;
    struct scalar alpha;
    struct scalar beta;
    struct scale scales[3];
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
    print_message("%s x %s -> %s order %d ops %d%d m %" PRId64 " n %" PRId64 " k %" PRId64 " ld %" PRId64
                  " %" PRId64 " %" PRId64 " %" PRId64 " batch %" PRId64 " strides %" PRId64 " %" PRId64
                  " %" PRId64 " %" PRId64 "\n",
                  carat_type_name(p->type_a), carat_type_name(p->type_b), carat_type_name(p->type_cd),
                  (int)p->order, (int)p->op_a, (int)p->op_b, p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->ldd,
                  p->batch, p->stride_a, p->stride_b, p->stride_c, p->stride_d);
    print_message("accuracy %d bias %d of %s stride %" PRId64 " activation %d scales given %d%d%d %g %g %g "
                  "alpha %Lg beta %Lg\n",
                  (int)p->accuracy, (int)p->bias, carat_type_name(p->type_bias), p->stride_bias,
                  (int)p->activation, x->scales[0].given, x->scales[1].given, x->scales[2].given,
                  (double)x->scales[0].value, (double)x->scales[1].value, (double)x->scales[2].value,
                  element_get(scalar, x->alpha.bytes, 0), element_get(scalar, x->beta.bytes, 0));
    print_message("c_is_d %d c_is_null %d on_device %d scalars_on_device %d planned %d on_stream %d "
                  "shifts %zu %zu %zu\n",
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
    return matrix_bytes(p, t ? p->n : p->k, t ? p->k : p->n, p->ldb, p->stride_b, p->type_b);
}

static size_t bytes_of_bias(const carat_gemm_problem *p)
{
    int64_t length = p->bias == CARAT_BIAS_PER_ROW ? p->m : p->n;
    if (p->bias == CARAT_BIAS_NONE || length == 0 || p->batch == 0) {
        return 0;
    }
    return (size_t)(length + (p->batch - 1) * p->stride_bias) * carat_type_size(p->type_bias);
}

/* The matrices and the bias of a case, filled by the test. */
struct matrices {
    struct guarded a;
    struct guarded b;
    struct guarded c;
    struct guarded d;
    struct guarded bias;
};

static struct matrices matrices_create(const struct gemm_case *x)
{
    const carat_gemm_problem *p = &x->problem;
    size_t cd = carat_type_size(p->type_cd);
    return (struct matrices){
        .a = guarded_create(context, x->on_device, bytes_of_a(p), x->shift_a * carat_type_size(p->type_a)),
        .b = guarded_create(context, x->on_device, bytes_of_b(p), x->shift_b * carat_type_size(p->type_b)),
        .c = guarded_create(context, x->on_device,
                            matrix_bytes(p, p->m, p->n, p->ldc, p->stride_c, p->type_cd), 0),
        .d = guarded_create(context, x->on_device,
                            matrix_bytes(p, p->m, p->n, p->ldd, p->stride_d, p->type_cd), x->shift_d * cd),
        .bias = guarded_create(context, x->on_device, bytes_of_bias(p),
                               x->shift_a * carat_type_size(p->type_bias)),
    };
}

static void matrices_destroy(struct matrices *x)
{
    guarded_destroy(&x->a);
    guarded_destroy(&x->b);
    guarded_destroy(&x->c);
    guarded_destroy(&x->d);
    guarded_destroy(&x->bias);
}

static void fill(const struct guarded *g, carat_type type, struct random *random)
{
    for (size_t i = 0; i < g->bytes / carat_type_size(type); i++) {
        element_random(type, guarded_content(g), (int64_t)i, random);
    }
}

/* Any finite bits: numbers of every size that the type has. */
static void fill_wide(const struct guarded *g, carat_type type, struct random *random)
{
    for (size_t i = 0; i < g->bytes; i++) {
        unsigned char *byte = (unsigned char *)guarded_content(g) + i;
        do {
            *byte = (unsigned char)random_bits(random);
        } while (!isfinite(element_get(type, byte, 0)));
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
                             const void *beta, const void *c, void *d, const carat_run *extras)
{
    carat_run run = *extras;
    if (x->on_stream) {
        assert_ok(carat_stream_create(context, &run.stream));
    }
    bool has_extras = run.bias || run.scale_a || run.scale_b || run.scale_d;
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
        status = carat_gemm(context, &x->problem, alpha, a, b, beta, c, d,
                            x->on_stream || has_extras ? &run : NULL);
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
    struct guarded scales[3];
    for (int i = 0; i < 3; i++) {
        scales[i] = guarded_create(context, x->scales[i].on_device, sizeof(float), 0);
        memcpy(guarded_content(&scales[i]), &x->scales[i].value, sizeof(float));
    }
    const struct guarded *all[] = {&alpha, &beta, &scales[0], &scales[1], &scales[2],
                                   &m->a,  &m->b, &m->c,      &m->bias,   &m->d};
    for (int i = 0; i < 10; i++) {
        assert_ok(guarded_upload(all[i]));
    }
    const float *scale_at[3];
    const float *scale_value[3];
    for (int i = 0; i < 3; i++) {
        scale_at[i] = x->scales[i].given ? guarded_pointer(&scales[i]) : NULL;
        scale_value[i] = x->scales[i].given ? &x->scales[i].value : NULL;
    }
    bool has_bias = p->bias != CARAT_BIAS_NONE;
    carat_run extras = {.bias = has_bias ? guarded_pointer(&m->bias) : NULL,
                        .scale_a = scale_at[0],
                        .scale_b = scale_at[1],
                        .scale_d = scale_at[2]};
    carat_run in_reference = {.bias = guarded_content(&m->bias),
                              .scale_a = scale_value[0],
                              .scale_b = scale_value[1],
                              .scale_d = scale_value[2]};

    carat_status status = run_case(x, guarded_pointer(&alpha), guarded_pointer(&m->a), guarded_pointer(&m->b),
                                   guarded_pointer(&beta), x->c_is_null ? NULL : guarded_pointer(source),
                                   guarded_pointer(&m->d), &extras);
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
                                   x->beta.bytes, before, &in_reference, index, i, j);
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
    for (int i = 0; i < 9; i++) {
        assert_true(guarded_untouched(all[i]));
    }
    for (int i = 0; i < 5; i++) {
        guarded_destroy((struct guarded *)(uintptr_t)all[i]);
    }
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

static long double random_scalar(struct random *random, carat_type type_cd)
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
        return carat_scalar_type(type_cd) == CARAT_S32
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

/*
 * Bias, activation and scales, each in half of the cases. Products of s8 are large: their scales bring results
 * of s8 into its range as often as not.
 */
static void random_epilogue(struct random *random, const struct kind *kind, struct gemm_case *x)
{
    carat_gemm_problem *p = &x->problem;
    carat_type scalar = carat_scalar_type(p->type_cd);
    if (random_one_in(random, 2)) {
        static const carat_type of_f32[] = {CARAT_F32, CARAT_F16, CARAT_BF16};
        p->bias = random_one_in(random, 2) ? CARAT_BIAS_PER_ROW : CARAT_BIAS_PER_COLUMN;
        p->type_bias = scalar == CARAT_F32 ? of_f32[random_between(random, 0, 2)] : scalar;
        p->stride_bias = random_one_in(random, 3) ? 0 : random_between(random, 1, 200);
    }
    if (random_one_in(random, 2)) {
        p->activation = (carat_activation)random_between(
            random, 1, scalar == CARAT_S32 ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_SILU);
    }
    for (int i = 0; i < 3 && takes_scales(kind); i++) {
        double size = kind->a == CARAT_S8 && i < 2 ? 0.01 : 4;
        x->scales[i].given = random_one_in(random, 2);
        x->scales[i].on_device = random_one_in(random, 2);
        x->scales[i].value = (float)(size * random_unit(random));
    }
}

static struct gemm_case random_case(struct random *random, const struct kind *kind)
{
    struct gemm_case x = {0};
    carat_gemm_problem *p = &x.problem;
    bool vector = random_one_in(random, 6);
    do {
        int64_t m = random_size(random, LONGEST);
        int64_t n = random_size(random, LONGEST);
        if (vector) {
            *(random_one_in(random, 2) ? &m : &n) = 1;
        }
        *p = describe_kind(kind, m, n, random_size(random, LONGEST));
        p->batch = random_one_in(random, 3) ? random_between(random, 0, 4) : 1;
    } while (p->m * p->n * (p->k + 8) * p->batch > MOST_WORK);
    p->order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p->op_a = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->op_b = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->accuracy = (carat_accuracy)random_between(random, CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_BEST);
    x.c_is_d = random_one_in(random, 2);
    x.alpha = scalar_of(kind->cd, random_scalar(random, kind->cd));
    x.beta = scalar_of(kind->cd, random_scalar(random, kind->cd));
    random_epilogue(random, kind, &x);

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
    } else {
        p->stride_bias = 0;
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

static bool is_zero(const carat_gemm_problem *p, const struct scalar *scalar)
{
    return element_get(carat_scalar_type(p->type_cd), scalar->bytes, 0) == 0;
}

static void random_products(void **state)
{
    const struct kind *kind = *state;
    struct random random = {(uint64_t)(kind - kinds) + 1};
    /* The mixes of 8-bit floats share the cases of one. */
    int cases = is_float8(kind->a) ? CASES / 3 : CASES;
    for (int i = 0; i < cases; i++) {
        struct gemm_case x = random_case(&random, kind);
        const carat_gemm_problem *p = &x.problem;
        x.c_is_null = is_zero(p, &x.beta) && !x.scalars_on_device && random_one_in(&random, 2);
        struct matrices m = matrices_create(&x);
        bool wide = is_float8(kind->a) && random_one_in(&random, 3);
        (wide ? fill_wide : fill)(&m.a, kind->a, &random);
        (wide ? fill_wide : fill)(&m.b, kind->b, &random);
        fill(&m.bias, p->type_bias, &random);
        /* C and D hold what must not be read; C's elements are numbers where they must. */
        poison(&m.c, kind->cd);
        poison(&m.d, kind->cd);
        if (!is_zero(p, &x.beta)) {
            fill(x.c_is_d ? &m.d : &m.c, kind->cd, &random);
        }
        if (is_zero(p, &x.alpha)) {
            poison(&m.a, kind->a);
            poison(&m.b, kind->b);
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
    for (int t = 0; t < KINDS; t++) {
        const struct kind *kind = &kinds[t];
        for (int pattern = 0; pattern < 3 && is_integer(kind->a); pattern++) {
            struct gemm_case x = {.problem = describe_kind(kind, 3, 2, 2 * LONGEST + 1)};
            carat_gemm_problem *p = &x.problem;
            p->op_a = CARAT_TRANSPOSE;
            p->lda = p->k;
            p->ldb = p->k;
            p->ldc = p->ldd = 3;
            x.alpha = scalar_of(kind->cd, 1);
            x.beta = scalar_of(kind->cd, 0);
            struct matrices m = matrices_create(&x);
            long double low = kind->a == CARAT_S8 ? -128 : INT32_MIN;
            long double high = kind->a == CARAT_S8 ? 127 : INT32_MAX;
            for (int64_t i = 0; i < 3 * p->k; i++) {
                element_set(kind->a, guarded_content(&m.a), i, pattern == 2 ? high : low);
                if (i < 2 * p->k) {
                    element_set(kind->a, guarded_content(&m.b), i, pattern == 1 ? high : low);
                }
            }
            check_case(&x, &m);
            matrices_destroy(&m);
        }
    }
}

/* ---- Special values ---- */

/* NaN, infinities of both signs and zeros sown into A, B, C and the bias, where the types have them. */
static void special_values_go_where_arithmetic_takes_them(void **state)
{
    (void)state;
    static const long double specials[] = {NAN, INFINITY, -INFINITY, 0.0L, -0.0L};
    struct random random = {99};
    for (int t = 0; t < KINDS; t++) {
        const struct kind *kind = &kinds[t];
        if (carat_scalar_type(kind->cd) == CARAT_S32) {
            continue; /* has none of them */
        }
        for (int i = 0; i < 30; i++) {
            struct gemm_case x = random_case(&random, kind);
            if (x.problem.k > 100) {
                x.problem = describe_kind(kind, 9, 21, 33);
                x.problem.lda = x.problem.ldc = x.problem.ldd = 9;
                x.problem.ldb = 33;
            }
            x.beta = scalar_of(kind->cd, i % 2);
            x.alpha = scalar_of(kind->cd, i % 3 == 0 ? 1.0L : -2.0L);
            struct matrices m = matrices_create(&x);
            const struct guarded *inputs[] = {&m.a, &m.b, x.c_is_d ? &m.d : &m.c, &m.bias};
            const carat_type of[] = {kind->a, kind->b, kind->cd, x.problem.type_bias};
            for (int input = 0; input < 4; input++) {
                fill(inputs[input], of[input], &random);
                int64_t count = (int64_t)(inputs[input]->bytes / carat_type_size(of[input]));
                for (int special = 0; special < 5 && count > 0 && of[input] != CARAT_S8; special++) {
                    element_set(of[input], guarded_content(inputs[input]),
                                random_between(&random, 0, count - 1), specials[special]);
                }
            }
            check_case(&x, &m);
            matrices_destroy(&m);
        }
    }
}

/* One product of two numbers: exact in every type, denormal, at the edge of the range and beyond. */
static void denormals_and_edges_are_exact(void **state)
{
    (void)state;
    static const struct {
        struct kind kind;
        long double a;
        long double b;
        long double d;
    } rows[] = {
        {{CARAT_F32, CARAT_F32, CARAT_F32}, 0x1p-149L, 1, 0x1p-149L},
        {{CARAT_F32, CARAT_F32, CARAT_F32}, 0x1p-126L, 0.5L, 0x1p-127L},
        {{CARAT_F32, CARAT_F32, CARAT_F32}, 0x1.8p-148L, -1, -0x1.8p-148L},
        {{CARAT_F32, CARAT_F32, CARAT_F32}, 0x1p127L, 2, INFINITY},
        {{CARAT_F64, CARAT_F64, CARAT_F64}, 0x1p-1074L, 1, 0x1p-1074L},
        {{CARAT_F64, CARAT_F64, CARAT_F64}, 0x1p-1022L, 0.25L, 0x1p-1024L},
        {{CARAT_F64, CARAT_F64, CARAT_F64}, 0x1p1023L, -2, -INFINITY},
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 0x1p-24L, 1, 0x1p-24L},
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 0x1p-14L, 0.75L, 0x1.8p-15L},
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 65504, 1, 65504},
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 65504, 2, INFINITY},
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 0x1p-24L, 0.5L, 0},          /* half the least: to even */
        {{CARAT_F16, CARAT_F16, CARAT_F16}, 0x1.8p-23L, 0.5L, 0x1p-23L}, /* one and a half: to even */
        {{CARAT_F16, CARAT_F16, CARAT_F32}, 0x1p-24L, 0x1p-24L, 0x1p-48L},
        {{CARAT_F16, CARAT_F16, CARAT_F32}, 65504, -65504, -65504.0L * 65504},
        {{CARAT_BF16, CARAT_BF16, CARAT_BF16}, 0x1p-133L, 1, 0x1p-133L},
        {{CARAT_BF16, CARAT_BF16, CARAT_BF16}, 0x1p-126L, 0.5L, 0x1p-127L},
        {{CARAT_BF16, CARAT_BF16, CARAT_BF16}, 0x1p127L, -4, -INFINITY},
        {{CARAT_BF16, CARAT_BF16, CARAT_F32}, 0x1.02p0L, 0x1.02p0L, 0x1.0404p0L},
        {{CARAT_S8, CARAT_S8, CARAT_F32}, -128, -128, 16384},
        {{CARAT_S8, CARAT_S8, CARAT_S8}, -128, 1, -128},
        {{CARAT_S8, CARAT_S8, CARAT_S8}, 64, 2, 127},
        {{CARAT_S8, CARAT_S8, CARAT_S8}, -43, 3, -128},
        {{CARAT_E4M3, CARAT_E4M3, CARAT_F32}, 0x1p-9L, 0x1p-9L, 0x1p-18L},
        {{CARAT_E4M3, CARAT_E4M3, CARAT_F32}, 448, -448, -448.0L * 448},
        {{CARAT_E4M3, CARAT_E4M3, CARAT_F16}, 448, 448, INFINITY},
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 448, 1, 448},
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 448, -2, -448},            /* saturates */
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 0x1p-9L, 0.5L, 0},         /* half the least: to even */
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 0x1.8p-8L, 0.5L, 0x1p-8L}, /* one and a half: to even */
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 17.0L / 16, 1, 1},         /* E4M3 of 17/16 is 1 */
        {{CARAT_E4M3, CARAT_E4M3, CARAT_E4M3}, 1.125L, 1.125L, 1.25L},
        {{CARAT_E5M2, CARAT_E5M2, CARAT_F32}, 0x1p-16L, 0x1p-16L, 0x1p-32L},
        {{CARAT_E5M2, CARAT_E5M2, CARAT_F32}, 57344, 57344, 57344.0L * 57344},
        {{CARAT_E5M2, CARAT_E4M3, CARAT_BF16}, INFINITY, 1, INFINITY},
        {{CARAT_E5M2, CARAT_E4M3, CARAT_E4M3}, -INFINITY, 1, -448},
        {{CARAT_E4M3, CARAT_E5M2, CARAT_F16}, 0x1p-9L, 57344, 112},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct kind *kind = &rows[i].kind;
        uint64_t a[1];
        uint64_t b[1];
        uint64_t d[1] = {0};
        element_set(kind->a, a, 0, rows[i].a);
        element_set(kind->b, b, 0, rows[i].b);
        struct scalar one = scalar_of(kind->cd, 1);
        struct scalar zero = scalar_of(kind->cd, 0);
        carat_gemm_problem problem = describe_kind(kind, 1, 1, 1);
        assert_ok(carat_gemm(context, &problem, one.bytes, a, b, zero.bytes, NULL, d, NULL));
        if (element_get(kind->cd, d, 0) != rows[i].d) {
            fail_msg("%s x %s -> %s: %Lg * %Lg gave %Lg", carat_type_name(kind->a), carat_type_name(kind->b),
                     carat_type_name(kind->cd), rows[i].a, rows[i].b, element_get(kind->cd, d, 0));
        }
    }
}

/* Results of s8 are rounded to even in the middle, and a NaN is 0. */
static void results_of_s8_round_to_even(void **state)
{
    (void)state;
    static const struct {
        float scale;
        int d;
    } rows[] = {
        {0.5f, 0},      {1.5f, 2},       {2.5f, 2},         {-0.5f, 0},     {-1.5f, -2},     {-2.5f, -2},
        {0.51f, 1},     {-126.5f, -126}, {126.5f, 126},     {127.49f, 127}, {-128.5f, -128}, {1e30f, 127},
        {-1e30f, -128}, {INFINITY, 127}, {-INFINITY, -128}, {NAN, 0},
    };
    int8_t one = 1;
    float zero = 0;
    carat_gemm_problem p = carat_gemm_describe(CARAT_S8, 1, 1, 1);
    p.type_cd = CARAT_S8;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int8_t d = 77;
        assert_ok(carat_gemm(context, &p, &rows[i].scale, &one, &one, &zero, NULL, &d, NULL));
        assert_int_equal(d, rows[i].d);
    }
}

/* Scales of what is not read are not used. */
static void scales_of_nothing_are_not_used(void **state)
{
    (void)state;
    float nan = NAN;
    carat_run run = {.scale_a = &nan, .scale_b = &nan};
    for (int t = 0; t < KINDS; t++) {
        if (!takes_scales(&kinds[t])) {
            continue;
        }
        for (int k = 0; k <= 1; k++) {
            carat_gemm_problem p = describe_kind(&kinds[t], 1, 1, k);
            float alpha = k == 0 ? 1 : 0;
            float two = 2;
            uint64_t a = UINT64_MAX;
            uint64_t c = 0;
            uint64_t d = 0;
            element_set(kinds[t].cd, &c, 0, 3);
            assert_ok(carat_gemm(context, &p, &alpha, &a, &a, &two, &c, &d, &run));
            assert_true(element_get(kinds[t].cd, &d, 0) == 6);
        }
    }
}

/* D = beta * C without A and B, whatever alpha is, where k is 0; and NULL for them. */
static void nothing_to_sum(void **state)
{
    (void)state;
    for (int t = 0; t < KINDS; t++) {
        carat_type type = kinds[t].cd;
        carat_gemm_problem problem = describe_kind(&kinds[t], 5, 3, 0);
        uint64_t c[15];
        uint64_t d[15];
        struct scalar alpha = scalar_of(type, carat_scalar_type(type) == CARAT_S32 ? 7 : NAN);
        for (int beta = 0; beta <= 2; beta++) {
            struct scalar scale = scalar_of(type, beta);
            for (int i = 0; i < 15; i++) {
                element_set(type, c, i, i - 7);
                element_poison(type, d, i);
            }
            assert_ok(carat_gemm(context, &problem, alpha.bytes, NULL, NULL, scale.bytes, beta ? c : NULL, d,
                                 NULL));
            for (int i = 0; i < 15; i++) {
                long double got = element_get(type, d, i);
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
    for (int t = 0; t < TYPES; t++) {
        struct scalar one = scalar_of(carat_gemm_describe(types[t], 1, 1, 1).type_cd, 1);
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
    for (int t = 0; t < CLASSIC_TYPES; t++) {
        carat_gemm_problem plain = carat_gemm_describe(types[t], 1, 1, 1);
        struct kind kind = {plain.type_a, plain.type_b, plain.type_cd};
        for (int i = 0; i < 10; i++) {
            struct gemm_case x = random_case(&random, &kind);
            carat_gemm_problem *p = &x.problem;
            p->bias = CARAT_BIAS_NONE;
            p->activation = CARAT_ACTIVATION_NONE;
            p->accuracy = CARAT_ACCURACY_STANDARD;
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
    for (int t = 0; t < TYPES; t++) {
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
        struct scalar one = scalar_of(problem.type_cd, 1);
        struct scalar zero = scalar_of(problem.type_cd, 0);
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

#ifdef ON_CPU
/* ---- What the CPU says of itself ---- */

static void the_cpu_says_how(void **state)
{
    (void)state;
    static const struct {
        struct kind kind;
        carat_accuracy accuracy;
        carat_activation activation;
        const char *words;
    } rows[] = {
        {{CARAT_F32, CARAT_F32, CARAT_F32}, CARAT_ACCURACY_STANDARD, CARAT_ACTIVATION_NONE, "sgemm as it is"},
        {{CARAT_F64, CARAT_F64, CARAT_F64}, CARAT_ACCURACY_FAST, CARAT_ACTIVATION_NONE, "dgemm as it is"},
        {{CARAT_F32, CARAT_F32, CARAT_F32},
         CARAT_ACCURACY_FAST,
         CARAT_ACTIVATION_NONE,
         "no less accurate than the fast way"},
        {{CARAT_F32, CARAT_F32, CARAT_F32},
         CARAT_ACCURACY_STANDARD,
         CARAT_ACTIVATION_SILU,
         "bias and activation in a pass over D"},
        {{CARAT_F16, CARAT_F16, CARAT_F16},
         CARAT_ACCURACY_STANDARD,
         CARAT_ACTIVATION_RELU,
         "f16 widened to f32 in panels, to sgemm, with bias and activation rounded once"},
        {{CARAT_BF16, CARAT_BF16, CARAT_BF16},
         CARAT_ACCURACY_STANDARD,
         CARAT_ACTIVATION_NONE,
         "bf16 widened to f32 in panels, to sgemm, rounded once"},
        {{CARAT_S8, CARAT_S8, CARAT_S8},
         CARAT_ACCURACY_STANDARD,
         CARAT_ACTIVATION_NONE,
         "exact, summed in s32, rounded once"},
        {{CARAT_S32, CARAT_S32, CARAT_S32},
         CARAT_ACCURACY_STANDARD,
         CARAT_ACTIVATION_RELU,
         "three dgemm that are exact, with bias and activation"},
        {{CARAT_E4M3, CARAT_E5M2, CARAT_E4M3},
         CARAT_ACCURACY_FAST,
         CARAT_ACTIVATION_NONE,
         "8-bit floats widened to f32 in panels"},
        {{CARAT_F32, CARAT_F32, CARAT_F32},
         CARAT_ACCURACY_BEST,
         CARAT_ACTIVATION_SILU,
         "widened to f64 in panels, to dgemm, whose products of them are exact, with bias and activation "
         "rounded once"},
        {{CARAT_F64, CARAT_F64, CARAT_F64},
         CARAT_ACCURACY_BEST,
         CARAT_ACTIVATION_NONE,
         "summed with what roundings lose beside, not by the BLAS"},
        {{CARAT_S8, CARAT_S8, CARAT_S32}, CARAT_ACCURACY_BEST, CARAT_ACTIVATION_NONE, "summed in s32"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        carat_gemm_problem problem = describe_kind(&rows[i].kind, 3, 3, 3);
        problem.accuracy = rows[i].accuracy;
        problem.activation = rows[i].activation;
        carat_plan *plan;
        assert_ok(carat_plan_create(context, &problem, &plan));
        if (!strstr(carat_plan_explain(plan), rows[i].words)) {
            fail_msg("\"%s\" does not say \"%s\"", carat_plan_explain(plan), rows[i].words);
        }
        carat_plan_destroy(plan);
    }
}

#endif

int main(void)
{
    struct CMUnitTest tests[KINDS + 20];
    char names[KINDS][64];
    int count = 0;
    for (int t = 0; t < KINDS; t++) {
        snprintf(names[t], sizeof(names[t]), "random_products_%s_%s_%s", carat_type_name(kinds[t].a),
                 carat_type_name(kinds[t].b), carat_type_name(kinds[t].cd));
        tests[count++] =
            (struct CMUnitTest){names[t], random_products, NULL, NULL, (void *)(uintptr_t)&kinds[t]};
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(extreme_integers_are_exact);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(special_values_go_where_arithmetic_takes_them);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(denormals_and_edges_are_exact);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(results_of_s8_round_to_even);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(scales_of_nothing_are_not_used);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(nothing_to_sum);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(nothing_to_write);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(classic_calls_are_the_general_call);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(leading_dimensions_beyond_int);
#ifdef ON_CPU
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(the_cpu_says_how);
#endif
    return _cmocka_run_group_tests("gemm", tests, (size_t)count, set_up, tear_down);
}
