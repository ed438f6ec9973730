/*
 * test_cuda_pipeline.c - calls on host memory: that every way of cutting them up gives the right answer and
 * writes nothing else. The limits are made small, so that small matrices go the way of large ones.
 */
#include <inttypes.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "context.h"
#include "cuda/host_set.h"
#include "reference.h"
#include "standin.h"

#define GUARD 64

static carat_context *carat;

static struct cuda_device *device(void) { return cuda_device_of(carat_context_device(carat)); }

/* Frees what earlier calls have left for later ones. */
static void forget_sets(void)
{
    assert_int_equal(cuda_enter(&device()->base), CARAT_OK);
    host_sets_destroy(device());
    cuda_leave(&device()->base);
}

/* ---- Buffers -------------------------------------------------------------------------------- */

/* Host memory, pinned or not, with guards on both sides, and a copy of how it was. */
struct buffer {
    unsigned char *memory;
    unsigned char *before;
    size_t bytes; /* guards included */
    bool pinned;
};

static struct buffer buffer_create(size_t content, bool pinned)
{
    struct buffer buffer = {.bytes = content + 2 * GUARD, .pinned = pinned};
    if (pinned) {
        void *memory;
        assert_int_equal(carat_allocate(carat, CARAT_MEMORY_PINNED, buffer.bytes, &memory), CARAT_OK);
        buffer.memory = memory;
    } else {
        buffer.memory = malloc(buffer.bytes);
    }
    buffer.before = malloc(buffer.bytes);
    assert_non_null(buffer.memory);
    assert_non_null(buffer.before);
    for (size_t i = 0; i < buffer.bytes; ++i) {
        buffer.memory[i] = (unsigned char)(i * 29 + 7);
    }
    return buffer;
}

static void *content(const struct buffer *buffer) { return buffer->memory + GUARD; }
static void *content_before(const struct buffer *buffer) { return buffer->before + GUARD; }
static void remember(struct buffer *buffer) { memcpy(buffer->before, buffer->memory, buffer->bytes); }
static bool unchanged(const struct buffer *buffer)
{
    return memcmp(buffer->before, buffer->memory, buffer->bytes) == 0;
}

static void buffer_destroy(struct buffer *buffer)
{
    if (buffer->pinned) {
        assert_int_equal(carat_release(carat, buffer->memory), CARAT_OK);
    } else {
        free(buffer->memory);
    }
    free(buffer->before);
}

/* Elements from the first to past the last of a batch of matrices whose lines are so long and so many. */
static int64_t span(int64_t line, int64_t lines, int64_t ld, int64_t batch, int64_t stride)
{
    return line && lines ? (lines - 1) * ld + line + (batch - 1) * stride : 0;
}

/* ---- One product ---------------------------------------------------------------------------- */

struct product {
    carat_gemm_problem problem;
    struct buffer a;
    struct buffer b;
    struct buffer c;
    struct buffer d;
    struct buffer bias;
    float scales[3]; /* of A, B and D, where the problem takes them */
    carat_run run;
    bool in_place; /* d is c */
    double alpha_bits;
    double beta_bits;
    void *alpha; /* to the bits, or in device memory */
    void *beta;
    bool beta_is_zero;
};

static void fill(carat_type type, const struct buffer *buffer, int64_t count, struct random *random)
{
    for (int64_t i = 0; i < count; ++i) {
        element_random(type, content(buffer), i, random);
    }
}

static void random_strides(carat_gemm_problem *p, struct random *random, int64_t span_a, int64_t span_b,
                           int64_t span_c, int64_t span_d)
{
    p->stride_a = random_one_in(random, 3) ? 0 : span_a + random_between(random, 0, 3) * 5;
    p->stride_b = random_one_in(random, 3) ? 0 : span_b + random_between(random, 0, 3) * 5;
    p->stride_c = random_one_in(random, 4) ? 0 : span_c + random_between(random, 0, 3) * 5;
    p->stride_d = span_d + random_between(random, 0, 3) * 5;
}

/* A scalar of 0, 1 or a small number, now and then in device memory. */
static void *random_scalar(carat_type type, double *bits, struct random *random, bool *zero)
{
    static const int values[] = {0, 1, -2, 3};
    int value = values[random_between(random, 0, 3)];
    element_set(type, bits, 0, value);
    *zero = value == 0;
    if (!random_one_in(random, 6)) {
        return bits;
    }
    void *pointer;
    assert_int_equal(carat_allocate(carat, CARAT_MEMORY_DEVICE, 8, &pointer), CARAT_OK);
    assert_int_equal(carat_copy(carat, pointer, bits, 8, NULL), CARAT_OK);
    return pointer;
}

/* Results of another type, bias, activation and scales, as the problem's types allow. */
static void random_epilogue(struct product *product, struct random *random)
{
    static const carat_type small[] = {CARAT_BF16, CARAT_F16, CARAT_F32, CARAT_E4M3};
    static const carat_type integer[] = {CARAT_S32, CARAT_F32, CARAT_S8};
    carat_gemm_problem *p = &product->problem;
    bool float8 = p->type_a == CARAT_E4M3 || p->type_a == CARAT_E5M2;
    if (float8) {
        p->type_b = random_one_in(random, 2) ? CARAT_E4M3 : CARAT_E5M2;
        p->type_cd = small[random_between(random, 0, 3)];
    } else if (p->type_a == CARAT_S8) {
        p->type_cd = integer[random_between(random, 0, 2)];
    } else if (carat_type_size(p->type_a) == 2 && random_one_in(random, 2)) {
        p->type_cd = CARAT_F32;
    }
    carat_type scalar = carat_scalar_type(p->type_cd);
    p->bias = (carat_bias)random_between(random, CARAT_BIAS_NONE, CARAT_BIAS_PER_COLUMN);
    p->type_bias = scalar == CARAT_F32 && random_one_in(random, 2) ? CARAT_BF16 : scalar;
    p->activation = (carat_activation)random_between(
        random, CARAT_ACTIVATION_NONE, scalar == CARAT_S32 ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_SILU);
    if (float8 || (p->type_a == CARAT_S8 && p->type_cd != CARAT_S32)) {
        for (int i = 0; i < 3; ++i) {
            product->scales[i] = (float)random_between(random, 1, 8) / 16;
        }
        product->run.scale_a = &product->scales[0];
        product->run.scale_b = random_one_in(random, 2) ? &product->scales[1] : NULL;
        product->run.scale_d = &product->scales[2];
    }
}

static struct product *product_random(struct random *random)
{
    static const carat_type types[] = {CARAT_F32, CARAT_F32, CARAT_F64,  CARAT_F16, CARAT_BF16,
                                       CARAT_S32, CARAT_S8,  CARAT_E4M3, CARAT_E5M2};
    struct product *product = calloc(1, sizeof(*product));
    assert_non_null(product);
    carat_type type = types[random_between(random, 0, 8)];
    int64_t most = random_one_in(random, 3) ? 120 : 40;
    carat_gemm_problem *p = &product->problem;
    *p = carat_gemm_describe(type, random_between(random, 1, most), random_between(random, 1, most),
                             random_one_in(random, 10) ? 0 : random_between(random, 1, 40));
    p->order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    p->op_a = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->op_b = random_one_in(random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    random_epilogue(product, random);

    bool row_major = p->order == CARAT_ROW_MAJOR;
    int64_t line_a = (p->op_a == CARAT_TRANSPOSE) != row_major ? p->k : p->m;
    int64_t lines_a = (p->op_a == CARAT_TRANSPOSE) != row_major ? p->m : p->k;
    int64_t line_b = (p->op_b == CARAT_TRANSPOSE) != row_major ? p->n : p->k;
    int64_t lines_b = (p->op_b == CARAT_TRANSPOSE) != row_major ? p->k : p->n;
    int64_t line_c = row_major ? p->n : p->m;
    int64_t lines_c = row_major ? p->m : p->n;
    bool packed = random_one_in(random, 3);
    p->lda = (line_a ? line_a : 1) + (packed ? 0 : random_between(random, 0, 7));
    p->ldb = (line_b ? line_b : 1) + (packed ? 0 : random_between(random, 0, 7));
    p->ldc = line_c + (packed ? 0 : random_between(random, 0, 7));
    p->ldd = line_c + (packed ? 0 : random_between(random, 0, 7));
    product->in_place = random_one_in(random, 3);
    if (product->in_place) {
        p->ldd = p->ldc;
    }
    if (random_one_in(random, 3)) {
        p->batch = random_between(random, 2, 6);
        random_strides(p, random, span(line_a, lines_a, p->lda, 1, 0), span(line_b, lines_b, p->ldb, 1, 0),
                       p->ldc * lines_c, p->ldd * lines_c);
        if (random_one_in(random, 4)) { /* the D of all problems side by side in one wide matrix */
            p->stride_d = line_c;
            p->ldd = line_c * p->batch + 3;
        }
        if (product->in_place) {
            p->ldc = p->ldd;
            p->stride_c = p->stride_d;
        }
    }
    int64_t count_a = span(line_a, lines_a, p->lda, p->batch, p->stride_a);
    int64_t count_b = span(line_b, lines_b, p->ldb, p->batch, p->stride_b);
    int64_t count_c = span(line_c, lines_c, p->ldc, p->batch, p->stride_c);
    int64_t count_d = span(line_c, lines_c, p->ldd, p->batch, p->stride_d);
    int64_t bias = p->bias == CARAT_BIAS_NONE ? 0 : p->bias == CARAT_BIAS_PER_ROW ? p->m : p->n;
    p->stride_bias = random_one_in(random, 2) ? 0 : bias + random_between(random, 0, 3);
    int64_t count_bias = span(bias, 1, bias, p->batch, p->stride_bias);
    size_t bytes_ab = carat_type_size(p->type_a);
    size_t bytes_cd = carat_type_size(p->type_cd);
    product->bias =
        buffer_create((size_t)count_bias * carat_type_size(p->type_bias), random_one_in(random, 2));
    product->run.bias = bias > 0 ? content(&product->bias) : NULL;
    fill(p->type_bias, &product->bias, count_bias, random);
    product->a = buffer_create((size_t)count_a * bytes_ab, random_one_in(random, 2));
    product->b = buffer_create((size_t)count_b * bytes_ab, random_one_in(random, 2));
    product->c = buffer_create((size_t)count_c * bytes_cd, random_one_in(random, 2));
    product->d = buffer_create((size_t)count_d * bytes_cd, random_one_in(random, 2));
    fill(p->type_a, &product->a, count_a, random);
    fill(p->type_b, &product->b, count_b, random);
    fill(p->type_cd, &product->c, count_c, random);

    bool alpha_is_zero;
    carat_type scalar = carat_scalar_type(p->type_cd);
    product->alpha = random_scalar(scalar, &product->alpha_bits, random, &alpha_is_zero);
    product->beta = random_scalar(scalar, &product->beta_bits, random, &product->beta_is_zero);
    remember(&product->a);
    remember(&product->b);
    remember(&product->c);
    remember(&product->d);
    remember(&product->bias);
    return product;
}

static void product_destroy(struct product *product)
{
    if (product->alpha != &product->alpha_bits) {
        assert_int_equal(carat_release(carat, product->alpha), CARAT_OK);
    }
    if (product->beta != &product->beta_bits) {
        assert_int_equal(carat_release(carat, product->beta), CARAT_OK);
    }
    buffer_destroy(&product->a);
    buffer_destroy(&product->b);
    buffer_destroy(&product->c);
    buffer_destroy(&product->d);
    buffer_destroy(&product->bias);
    free(product);
}

static struct buffer *result_of(struct product *product)
{
    return product->in_place ? &product->c : &product->d;
}

static carat_status product_run(struct product *product)
{
    bool may_be_null = product->beta == &product->beta_bits && product->beta_is_zero && !product->in_place;
    return carat_gemm(carat, &product->problem, product->alpha, content(&product->a), content(&product->b),
                      product->beta, may_be_null ? NULL : content(&product->c), content(result_of(product)),
                      &product->run);
}

/* D is right; what is not D, and every input, is as it was. Ends with D's memory as it was before. */
static void product_check(struct product *product)
{
    const carat_gemm_problem *p = &product->problem;
    struct buffer *d = result_of(product);
    size_t bytes = carat_type_size(p->type_cd);
    for (int64_t index = 0; index < p->batch; ++index) {
        for (int64_t row = 0; row < p->m; ++row) {
            for (int64_t column = 0; column < p->n; ++column) {
                struct expected expected = reference_gemm(
                    p, &product->alpha_bits, content(&product->a), content(&product->b), &product->beta_bits,
                    content_before(&product->c), &product->run, index, row, column);
                int64_t at = index * p->stride_d + element_index(p->order, row, column, p->ldd);
                if (!expected_holds(&expected, p->type_cd, content(d), at)) {
                    fail_msg("D(%" PRId64 ", %" PRId64 ") of problem %" PRId64 " of %" PRId64
                             " is %.9Lg instead of %.9Lg: %s, %" PRId64 " x %" PRId64 " x %" PRId64,
                             row, column, index, p->batch, element_get(p->type_cd, content(d), at),
                             expected.value, carat_type_name(p->type_a), p->m, p->n, p->k);
                }
                memcpy((char *)content(d) + (size_t)at * bytes,
                       (char *)content_before(d) + (size_t)at * bytes, bytes);
            }
        }
    }
    assert_true(unchanged(&product->a));
    assert_true(unchanged(&product->b));
    assert_true(unchanged(&product->c));
    assert_true(unchanged(&product->d));
    assert_true(unchanged(&product->bias));
}

/* ---- Limits --------------------------------------------------------------------------------- */

static void random_limits(struct random *random)
{
    device()->limits = (struct pipeline_limits){
        .gather_bytes = random_one_in(random, 6) ? (size_t)1 << 30 : 0,
        .group_bytes = (size_t)random_between(random, 1, 20000),
        .panel_bytes = (size_t)random_between(random, 64, 4000),
        .most_panels = (int)random_between(random, 1, 6),
        .panel_granule = 1 << random_between(random, 0, 5),
        .direct_line_bytes = (size_t)random_between(random, 0, 200),
        .direct_problem_bytes = (size_t)random_between(random, 0, 2000),
        .slot_bytes = (size_t)8 << random_between(random, 0, 10),
        .bytes_per_thread = (size_t)random_between(random, 500, 20000),
        .most_threads = (int)random_between(random, 1, 4),
    };
    device()->max_pitch = random_one_in(random, 4) ? 64 : (size_t)1 << 30;
}

/* Cut up as finely as can be, on one thread, so that every run makes the same calls in the same order. */
static void finest_limits(void)
{
    device()->limits = (struct pipeline_limits){
        .group_bytes = 1,
        .panel_bytes = 256,
        .most_panels = 3,
        .panel_granule = 8,
        .slot_bytes = 256,
        .bytes_per_thread = 1 << 20,
        .most_threads = 1,
    };
}

/* ---- Tests ---------------------------------------------------------------------------------- */

static void random_products(void **state)
{
    (void)state;
    struct random random = {20};
    for (int i = 0; i < 200; ++i) {
        random_limits(&random);
        struct product *product = product_random(&random);
        if (product_run(product) != CARAT_OK) {
            fail_msg("case %d: %s", i, carat_last_message());
        }
        product_check(product);
        product_destroy(product);
    }
}

static void same_bits_every_time(void **state)
{
    (void)state;
    struct random random = {21};
    for (int i = 0; i < 30; ++i) {
        random_limits(&random);
        struct product *product = product_random(&random);
        struct buffer *d = result_of(product);
        unsigned char *first = malloc(d->bytes);
        assert_non_null(first);
        assert_int_equal(product_run(product), CARAT_OK);
        memcpy(first, d->memory, d->bytes);
        memcpy(d->memory, d->before, d->bytes);
        assert_int_equal(product_run(product), CARAT_OK);
        assert_memory_equal(first, d->memory, d->bytes);
        free(first);
        product_destroy(product);
    }
}

/* Random shapes of scale_add and transpose, against plain loops. */
static void elementwise_case(struct random *random, bool transpose)
{
    static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16, CARAT_BF16, CARAT_S32, CARAT_S8};
    carat_type type = types[random_between(random, 0, transpose ? 5 : 3)];
    int64_t m = random_between(random, 1, 90);
    int64_t n = random_between(random, 1, 90);
    int64_t lda = m + random_between(random, 0, 4);
    int64_t rows_b = transpose ? n : m;
    int64_t columns_b = transpose ? m : n;
    int64_t ldb = rows_b + random_between(random, 0, 4);
    size_t bytes = carat_type_size(type);
    struct buffer a = buffer_create((size_t)span(m, n, lda, 1, 0) * bytes, random_one_in(random, 2));
    struct buffer b =
        buffer_create((size_t)span(rows_b, columns_b, ldb, 1, 0) * bytes, random_one_in(random, 2));
    fill(type, &a, span(m, n, lda, 1, 0), random);
    remember(&a);
    remember(&b);
    double scale = 0;
    double shift = 0;
    element_set(carat_scalar_type(type), &scale, 0, 2);
    element_set(carat_scalar_type(type), &shift, 0, 0.25L);
    carat_status status = transpose ? carat_transpose(carat, CARAT_COLUMN_MAJOR, type, m, n, content(&a), lda,
                                                      content(&b), ldb, NULL)
                                    : carat_scale_add(carat, CARAT_COLUMN_MAJOR, type, m, n, &scale,
                                                      content(&a), lda, &shift, content(&b), ldb, NULL);
    assert_int_equal(status, CARAT_OK);
    assert_true(unchanged(&a));
    for (int64_t j = 0; j < n; ++j) {
        for (int64_t i = 0; i < m; ++i) {
            int64_t at = transpose ? j + i * ldb : i + j * ldb;
            long double value = element_get(type, content(&a), i + j * lda);
            double wanted = 0;
            element_set(type, &wanted, 0, transpose ? value : 2 * value + 0.25L);
            assert_memory_equal((char *)content(&b) + (size_t)at * bytes, &wanted, bytes);
            memcpy((char *)content(&b) + (size_t)at * bytes, (char *)content_before(&b) + (size_t)at * bytes,
                   bytes);
        }
    }
    assert_true(unchanged(&b));
    buffer_destroy(&a);
    buffer_destroy(&b);
}

static void random_elementwise(void **state)
{
    (void)state;
    struct random random = {22};
    for (int i = 0; i < 120; ++i) {
        random_limits(&random);
        elementwise_case(&random, i % 2);
    }
}

/* The limits as they are: a gathered product, and one large enough for panels and several threads. */
static void real_limits(void **state)
{
    (void)state;
    static const int64_t sizes[][3] = {{33, 65, 17}, {1100, 2500, 3}, {2500, 900, 3}};
    device()->limits = pipeline_limits_default;
    for (int i = 0; i < 3; ++i) {
        int64_t m = sizes[i][0];
        int64_t n = sizes[i][1];
        int64_t k = sizes[i][2];
        int32_t *a = malloc((size_t)(m * k) * sizeof(*a));
        int32_t *b = malloc((size_t)(k * n) * sizeof(*b));
        int32_t *c = malloc((size_t)(m * n) * sizeof(*c));
        assert_true(a && b && c);
        for (int64_t j = 0; j < m * k; ++j) {
            a[j] = (int32_t)(j * 7 % 101);
        }
        for (int64_t j = 0; j < k * n; ++j) {
            b[j] = (int32_t)(j * 5 % 97);
        }
        for (int64_t j = 0; j < m * n; ++j) {
            c[j] = (int32_t)j;
        }
        assert_int_equal(carat_gemm_s32(carat, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE, CARAT_NO_TRANSPOSE, m,
                                        n, k, 2, a, m, b, k, 3, c, m),
                         CARAT_OK);
        for (int64_t column = 0; column < n; ++column) {
            for (int64_t row = 0; row < m; ++row) {
                int32_t sum = 0;
                for (int64_t l = 0; l < k; ++l) {
                    sum += a[row + l * m] * b[l + column * k];
                }
                assert_int_equal(c[row + column * m], 2 * sum + 3 * (int32_t)(row + column * m));
            }
        }
        free(a);
        free(b);
        free(c);
    }
}

/* ---- Batches of vectors ---------------------------------------------------------------------- */

static struct driver copying; /* the driver that copies */
static atomic_int copies;

static CUresult count_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    atomic_fetch_add(&copies, 1);
    return copying.cuMemcpyAsync(to, from, bytes, stream);
}

static CUresult count_copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream)
{
    atomic_fetch_add(&copies, 1);
    return copying.cuMemcpy2DAsync_v2(copy, stream);
}

/* The vectors of a batch are columns side by side, at any pitch: pinned, they are copied as one matrix. */
static void vectors_side_by_side_are_one_copy(void **state)
{
    (void)state;
    enum { M = 333, K = 40, BATCH = 300, APART = 350 };
    struct buffer a = buffer_create((size_t)M * K * sizeof(int32_t), true);
    struct buffer b = buffer_create((size_t)APART * BATCH * sizeof(int32_t), true);
    struct buffer d = buffer_create((size_t)APART * BATCH * sizeof(int32_t), true);
    device()->limits = pipeline_limits_default;
    device()->limits.gather_bytes = 0;
    device()->limits.direct_line_bytes = 0;
    device()->limits.slot_bytes = 2048; /* so that through slots there are hundreds of copies */
    device()->max_pitch = (size_t)1 << 30;
    carat_gemm_problem p = carat_gemm_describe(CARAT_S32, M, 1, K);
    p.batch = BATCH;
    p.stride_b = p.stride_d = APART;
    const int32_t one = 1;
    const int32_t zero = 0;
    int32_t *from = content(&a);
    int32_t *vectors = content(&b);
    int32_t *sums = content(&d);
    for (int row_of_d = 0; row_of_d < 2; ++row_of_d) {
        if (row_of_d) {
            /* The same, every D a row: A and B change places. */
            p.m = 1;
            p.n = M;
            p.op_b = CARAT_TRANSPOSE;
            p.stride_a = APART;
            p.stride_b = 0;
        }
        copying = driver;
        driver.cuMemcpyAsync = count_copy;
        driver.cuMemcpy2DAsync_v2 = count_copy_2d;
        atomic_store(&copies, 0);
        carat_status status = carat_gemm(carat, &p, &one, row_of_d ? vectors : from,
                                         row_of_d ? from : vectors, &zero, NULL, sums, NULL);
        driver = copying;
        assert_int_equal(status, CARAT_OK);
        assert_in_range(atomic_load(&copies), 3, K + 12); /* the matrix goes through slots */
        for (int at = 0; at < BATCH; at += 37) {
            for (int row = 0; row < M; row += 11) {
                uint32_t sum = 0;
                for (int k = 0; k < K; ++k) {
                    sum += (uint32_t)from[row + k * M] * (uint32_t)vectors[at * APART + k];
                }
                assert_int_equal((uint32_t)sums[at * APART + row], sum);
            }
        }
    }
    buffer_destroy(&a);
    buffer_destroy(&b);
    buffer_destroy(&d);
}

static void *thread_of_products(void *argument)
{
    struct product *product = argument;
    return product_run(product) == CARAT_OK ? NULL : product;
}

static void calls_at_once(void **state)
{
    (void)state;
    struct random random = {23};
    finest_limits();
    device()->limits.most_threads = 2;
    device()->limits.bytes_per_thread = 1000;
    for (int i = 0; i < 10; ++i) {
        struct product *products[4];
        pthread_t threads[4];
        for (int j = 0; j < 4; ++j) {
            products[j] = product_random(&random);
        }
        for (int j = 0; j < 4; ++j) {
            assert_int_equal(pthread_create(&threads[j], NULL, thread_of_products, products[j]), 0);
        }
        for (int j = 0; j < 4; ++j) {
            void *failed;
            pthread_join(threads[j], &failed);
            assert_null(failed);
            product_check(products[j]);
            product_destroy(products[j]);
        }
    }
}

static void work_on_the_stream_comes_first(void **state)
{
    (void)state;
    enum { N = 8 };
    void *stream;
    void *on_device;
    void *pinned;
    float ones[N * N];
    float c[N * N];
    float one = 1;
    float zero = 0;
    for (int i = 0; i < N * N; ++i) {
        ones[i] = 1;
    }
    assert_int_equal(carat_stream_create(carat, &stream), CARAT_OK);
    assert_int_equal(carat_allocate(carat, CARAT_MEMORY_DEVICE, sizeof(ones), &on_device), CARAT_OK);
    assert_int_equal(carat_allocate(carat, CARAT_MEMORY_PINNED, sizeof(ones), &pinned), CARAT_OK);
    memset(pinned, 0, sizeof(ones));
    assert_int_equal(carat_copy(carat, on_device, ones, sizeof(ones), stream), CARAT_OK);
    /* This copy into A may still wait on the stream when the product is called. */
    assert_int_equal(carat_copy(carat, pinned, on_device, sizeof(ones), stream), CARAT_OK);
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, N, N, N);
    carat_run run = {.stream = stream};
    assert_int_equal(carat_gemm(carat, &problem, &one, pinned, ones, &zero, NULL, c, &run), CARAT_OK);
    for (int i = 0; i < N * N; ++i) {
        assert_true(c[i] == N);
    }
    assert_int_equal(carat_release(carat, on_device), CARAT_OK);
    assert_int_equal(carat_release(carat, pinned), CARAT_OK);

    /* In a capture there is no now in which host memory could be read. */
    void *graph;
    assert_int_equal(cuda_capture_begin(carat_context_device(carat), stream), CARAT_OK);
    assert_int_equal(carat_gemm(carat, &problem, &one, ones, ones, &zero, NULL, c, &run), CARAT_UNSUPPORTED);
    assert_int_equal(cuda_capture_end(carat_context_device(carat), stream, &graph), CARAT_OK);
    assert_int_equal(cuda_graph_destroy(carat_context_device(carat), graph), CARAT_OK);
    assert_int_equal(carat_stream_destroy(carat, stream), CARAT_OK);
}

/* A batch that does not fit twice is worked off in one place; what does not fit at all is refused. */
static void little_device_memory(void **state)
{
    (void)state;
    enum { M = 40, BATCH = 5, BYTES = M * M * 4 };
    float *a = calloc(BATCH * M * M, sizeof(*a));
    float *b = calloc(BATCH * M * M, sizeof(*b));
    float *d = calloc(BATCH * M * M, sizeof(*d));
    float one = 1;
    float zero = 0;
    assert_true(a && b && d);
    for (int i = 0; i < BATCH * M * M; ++i) {
        a[i] = (float)(i % 7);
        b[i] = i % (M * M) % (M + 1) == 0; /* the unit matrix */
        d[i] = -1;
    }
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, M, M, M);
    problem.batch = BATCH;
    problem.stride_a = problem.stride_b = problem.stride_c = problem.stride_d = M * M;
    finest_limits();
    forget_sets();
    standin_set_memory(5 * BYTES);
    if (carat_gemm(carat, &problem, &one, a, b, &zero, NULL, d, NULL) != CARAT_OK) {
        fail_msg("%s", carat_last_message());
    }
    assert_memory_equal(a, d, BATCH * BYTES);

    forget_sets();
    standin_set_memory(2 * BYTES);
    memset(d, 0x7f, BATCH * BYTES);
    assert_int_equal(carat_gemm(carat, &problem, &one, a, b, &zero, NULL, d, NULL),
                     CARAT_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(carat_last_message(), "free"));
    for (int i = 0; i < BATCH * BYTES; ++i) {
        assert_int_equal(((unsigned char *)d)[i], 0x7f);
    }
    standin_reset();
    free(a);
    free(b);
    free(d);
}

/* Each driver call of a cut up product fails in turn: the call fails, and the next one works. */
/* A product cut up, but into so few calls that each of them can fail in turn. */
static struct product *product_of_few_calls(struct random *random)
{
    for (;;) {
        struct product *product = product_random(random);
        standin_fail(NULL, 0, CUDA_SUCCESS);
        assert_int_equal(product_run(product), CARAT_OK);
        if (standin_calls() > 80 && standin_calls() < 250) {
            product_check(product);
            forget_sets();
            return product;
        }
        product_destroy(product);
    }
}

static void every_call_fails_in_turn(void **state)
{
    (void)state;
    finest_limits();
    for (int pass = 0; pass < 3; ++pass) {
        struct random random = {(uint64_t)(30 + pass)};
        struct product *product = product_of_few_calls(&random);
        for (long nth = 1;; ++nth) {
            standin_fail(NULL, nth, CUDA_ERROR_UNKNOWN);
            carat_status status = product_run(product);
            const char *failed = standin_failed();
            standin_fail(NULL, 0, CUDA_SUCCESS);
            if (!failed) {
                assert_int_equal(status, CARAT_OK);
                product_check(product);
                assert_true(nth > 20);
                break;
            }
            bool tells_nothing = strstr(failed, "PopCurrent") || strstr(failed, "ExchangeStreamCaptureMode");
            if (status != CARAT_DEVICE_ERROR && !tells_nothing) {
                fail_msg("call %ld, %s, failed, but the product gave %s", nth, failed,
                         carat_status_name(status));
            }
            if (status != CARAT_OK) {
                assert_non_null(strstr(carat_last_message(), failed));
            }
            assert_int_equal(standin_pushed(), 0);
            memcpy(product->c.memory, product->c.before, product->c.bytes);
            memcpy(product->d.memory, product->d.before, product->d.bytes);
            /* Sets are made anew, so that their making fails too. */
            if (nth % 2) {
                forget_sets();
            }
        }
        product_destroy(product);
    }
}

/* The device is lost while a cut up product runs: the call says so, and so does every later one. */
static void lost_in_mid_work(void **state)
{
    (void)state;
    enum { M = 60, K = 10 };
    static float a[M * K];
    static float b[K * M];
    static float c[M * M];
    carat_context *other = carat;
    for (long nth = 1; nth <= 4; ++nth) {
        assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, &carat), CARAT_OK);
        finest_limits();
        device()->limits.most_threads = nth % 2 ? 1 : 3;
        device()->limits.bytes_per_thread = 1000;
        standin_lose_device(nth);
        for (int call = 0; call < 2; ++call) {
            carat_status status = carat_gemm_f32(carat, CARAT_COLUMN_MAJOR, CARAT_NO_TRANSPOSE,
                                                 CARAT_NO_TRANSPOSE, M, M, K, 1, a, M, b, K, 1, c, M);
            assert_int_equal(status, CARAT_DEVICE_LOST);
            assert_non_null(strstr(carat_last_message(), "CUDA_ERROR_LAUNCH_FAILED"));
        }
        carat_context_destroy(carat);
        standin_reset();
    }
    carat = other;
}

static int setup(void **state)
{
    (void)state;
    if (carat_context_create(CARAT_DEVICE_CUDA, 0, &carat) != CARAT_OK) {
        fprintf(stderr, "%s\n", carat_last_message());
        return 1;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    carat_context_destroy(carat);
    return standin_leaks() != 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_products),      cmocka_unit_test(same_bits_every_time),
        cmocka_unit_test(random_elementwise),   cmocka_unit_test(real_limits),
        cmocka_unit_test(calls_at_once),        cmocka_unit_test(work_on_the_stream_comes_first),
        cmocka_unit_test(little_device_memory), cmocka_unit_test(every_call_fails_in_turn),
        cmocka_unit_test(lost_in_mid_work),     cmocka_unit_test(vectors_side_by_side_are_one_copy),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
