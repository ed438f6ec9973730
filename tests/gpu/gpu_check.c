/*
 * gpu_check.c - what only a device shows, against a reference in higher precision: every row of the catalogue
 * by itself, the library's choices, split K, streams, graphs, threads, host pointers, running out of
 * memory, the same bits every time.
 *
 * A plain program, so that it can be carried to where the device is. --reduced runs a few small cases of each
 * kind, for a device that is watched by a sanitizer or played by a stand-in. Prints a line a group, and
 * passed, failed and skipped at the end; exits 1 where something failed.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "context.h"
#include "cuda/cuda.h"
#include "guarded.h"
#include "reference.h"

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16, CARAT_BF16, CARAT_S32, CARAT_S8};
enum { TYPE_COUNT = 6, MOST_FAILURES_SHOWN = 30 };

static carat_context *context;
static struct device *device;
static bool reduced;

static struct {
    int passed;
    int failed;
    int skipped;
} total, group;

static void begin_group(void) { memset(&group, 0, sizeof(group)); }

static void end_group(const char *name)
{
    printf("%-28s %4d passed", name, group.passed);
    if (group.failed) {
        printf(", %d FAILED", group.failed);
    }
    if (group.skipped) {
        printf(", %d skipped", group.skipped);
    }
    printf("\n");
    fflush(stdout);
    total.passed += group.passed;
    total.failed += group.failed;
    total.skipped += group.skipped;
}

__attribute__((format(printf, 1, 2))) static void failed(const char *format, ...)
{
    if (total.failed + group.failed++ < MOST_FAILURES_SHOWN) {
        va_list list;
        va_start(list, format);
        printf("  failed: ");
        vprintf(format, list);
        printf("\n");
        va_end(list);
    }
}

/* Counts whether a condition that should hold does. */
static void expect(bool holds, const char *what)
{
    if (holds) {
        group.passed++;
    } else {
        failed("%s (last message: %s)", what, carat_last_message());
    }
}

/* ---- One product ---- */

struct scalar {
    uint64_t bits[1]; /* of carat_scalar_type() */
};

static struct scalar scalar_of(carat_type type, double value)
{
    struct scalar scalar = {{0}};
    element_set(carat_scalar_type(type), scalar.bits, 0, value);
    return scalar;
}

enum place { PLACE_DEVICE, PLACE_PINNED, PLACE_PAGEABLE };

/* A product, and how it is to be run. */
struct product {
    carat_gemm_problem problem;
    const struct kernel *row; /* NULL: the library chooses */
    double alpha;
    double beta; /* C is D */
    enum place place;
    int64_t shift; /* of A's and B's addresses, in elements */
    bool scalars_on_device;
};

static void describe(const struct product *x, char *text, size_t size)
{
    const carat_gemm_problem *p = &x->problem;
    snprintf(text, size,
             "%s %s order %d ops %d%d %" PRId64 " x %" PRId64 " x %" PRId64 " ld %" PRId64 " %" PRId64
             " %" PRId64 " batch %" PRId64 " alpha %g beta %g place %d shift %" PRId64,
             x->row ? x->row->name : "library", carat_type_name(p->type_a), (int)p->order, (int)p->op_a,
             (int)p->op_b, p->m, p->n, p->k, p->lda, p->ldb, p->ldd, p->batch, x->alpha, x->beta,
             (int)x->place, x->shift);
}

/* A buffer in one of the places, with guard bytes, and the host's picture of it. */
struct buffer {
    enum place place;
    size_t bytes;
    size_t shift;
    unsigned char *picture; /* what it should hold, guards included */
    unsigned char *memory;
};

static size_t buffer_total(const struct buffer *buffer)
{
    return buffer->bytes + buffer->shift + 2 * GUARD_BYTES;
}

static void *buffer_picture(const struct buffer *buffer)
{
    return buffer->picture + GUARD_BYTES + buffer->shift;
}

static void *buffer_pointer(const struct buffer *buffer)
{
    return buffer->memory + GUARD_BYTES + buffer->shift;
}

static bool buffer_create(struct buffer *buffer, enum place place, size_t bytes, size_t shift)
{
    *buffer = (struct buffer){.place = place, .bytes = bytes, .shift = shift};
    buffer->picture = malloc(buffer_total(buffer));
    void *memory = NULL;
    if (place == PLACE_PAGEABLE) {
        memory = malloc(buffer_total(buffer));
    } else {
        carat_memory kind = place == PLACE_PINNED ? CARAT_MEMORY_PINNED : CARAT_MEMORY_DEVICE;
        if (carat_allocate(context, kind, buffer_total(buffer), &memory) != CARAT_OK) {
            memory = NULL;
        }
    }
    buffer->memory = memory;
    if (!buffer->picture || !memory) {
        return false;
    }
    memset(buffer->picture, 0xa5, buffer_total(buffer));
    return true;
}

static void buffer_destroy(struct buffer *buffer)
{
    if (buffer->place == PLACE_PAGEABLE) {
        free(buffer->memory);
    } else {
        carat_release(context, buffer->memory);
    }
    free(buffer->picture);
}

static carat_status buffer_upload(const struct buffer *buffer)
{
    return carat_copy(context, buffer->memory, buffer->picture, buffer_total(buffer), NULL);
}

static void buffer_fill(const struct buffer *buffer, carat_type type, struct random *random)
{
    int64_t count = (int64_t)(buffer->bytes / carat_type_size(type));
    for (int64_t i = 0; i < count; i++) {
        element_random(type, buffer_picture(buffer), i, random);
    }
}

static size_t stored_bytes(const carat_gemm_problem *p, int64_t rows, int64_t columns, int64_t ld,
                           int64_t stride, carat_type type)
{
    if (rows == 0 || columns == 0 || p->batch == 0) {
        return 0;
    }
    int64_t last = element_index(p->order, rows - 1, columns - 1, ld) + (p->batch - 1) * stride;
    return (size_t)(last + 1) * carat_type_size(type);
}

struct matrices {
    struct buffer a;
    struct buffer b;
    struct buffer d;
    struct buffer alpha;
    struct buffer beta;
};

static void matrices_destroy(struct matrices *x)
{
    buffer_destroy(&x->a);
    buffer_destroy(&x->b);
    buffer_destroy(&x->d);
    buffer_destroy(&x->alpha);
    buffer_destroy(&x->beta);
}

/* Random A and B; D random where it is read, else poison. */
static carat_status matrices_create(const struct product *x, uint64_t seed, struct matrices *matrices)
{
    const carat_gemm_problem *p = &x->problem;
    bool ta = p->op_a == CARAT_TRANSPOSE;
    bool tb = p->op_b == CARAT_TRANSPOSE;
    size_t shift = (size_t)x->shift * carat_type_size(p->type_a);
    size_t scalar_bytes = carat_type_size(carat_scalar_type(p->type_cd));
    enum place scalars = x->scalars_on_device ? PLACE_DEVICE : PLACE_PAGEABLE;
    memset(matrices, 0, sizeof(*matrices));
    bool made = buffer_create(
        &matrices->a, x->place,
        stored_bytes(p, ta ? p->k : p->m, ta ? p->m : p->k, p->lda, p->stride_a, p->type_a), shift);
    made = buffer_create(&matrices->b, x->place,
                         stored_bytes(p, tb ? p->n : p->k, tb ? p->k : p->n, p->ldb, p->stride_b, p->type_a),
                         shift) &&
           made;
    made = buffer_create(&matrices->d, x->place, stored_bytes(p, p->m, p->n, p->ldd, p->stride_d, p->type_cd),
                         0) &&
           made;
    made = buffer_create(&matrices->alpha, scalars, scalar_bytes, 0) && made;
    made = buffer_create(&matrices->beta, scalars, scalar_bytes, 0) && made;
    if (!made) {
        return CARAT_OUT_OF_HOST_MEMORY;
    }
    struct random random = {seed};
    buffer_fill(&matrices->a, p->type_a, &random);
    buffer_fill(&matrices->b, p->type_a, &random);
    if (x->beta != 0) {
        buffer_fill(&matrices->d, p->type_cd, &random);
    } else {
        for (size_t i = 0; i < matrices->d.bytes / carat_type_size(p->type_cd); i++) {
            element_poison(p->type_cd, buffer_picture(&matrices->d), (int64_t)i);
        }
    }
    struct scalar alpha = scalar_of(p->type_cd, x->alpha);
    struct scalar beta = scalar_of(p->type_cd, x->beta);
    memcpy(buffer_picture(&matrices->alpha), alpha.bits, scalar_bytes);
    memcpy(buffer_picture(&matrices->beta), beta.bits, scalar_bytes);
    const struct buffer *all[] = {&matrices->a, &matrices->b, &matrices->d, &matrices->alpha,
                                  &matrices->beta};
    for (int i = 0; i < 5; i++) {
        carat_status status = buffer_upload(all[i]);
        if (status != CARAT_OK) {
            return status;
        }
    }
    return CARAT_OK;
}

static carat_status run_on(const struct product *x, const struct matrices *m, void *stream)
{
    const void *alpha = buffer_pointer(&m->alpha);
    const void *beta = buffer_pointer(&m->beta);
    void *d = buffer_pointer(&m->d);
    const void *c = x->beta != 0 ? d : NULL;
    if (x->row) {
        struct problem problem;
        struct operands operands;
        carat_status status = problem_check(&x->problem, &problem);
        if (status == CARAT_OK) {
            status = problem_operands(&problem, alpha, buffer_pointer(&m->a), buffer_pointer(&m->b), beta, c,
                                      d, &(carat_run){.stream = stream}, &operands);
        }
        return status == CARAT_OK ? cuda_gemm_with(device, x->row, &problem, &operands, stream) : status;
    }
    carat_run run = {.stream = stream};
    return carat_gemm(context, &x->problem, alpha, buffer_pointer(&m->a), buffer_pointer(&m->b), beta, c, d,
                      &run);
}

/* The i-th of `wanted` positions out of length: all, or the ends and one of each strip between. */
static int64_t position(int64_t i, int64_t wanted, int64_t length, struct random *random)
{
    if (wanted >= length) {
        return i;
    }
    int64_t begin = length * i / wanted;
    int64_t end = length * (i + 1) / wanted;
    return i == 0 ? 0 : i == wanted - 1 ? length - 1 : random_between(random, begin, end - 1);
}

/* Compares D with the reference, on samples where it is large, and all around D with what was there. */
static bool compare(const struct product *x, const struct matrices *m, char *why, size_t why_size)
{
    const carat_gemm_problem *p = &x->problem;
    unsigned char *now = malloc(buffer_total(&m->d));
    if (!now || carat_copy(context, now, m->d.memory, buffer_total(&m->d), NULL) != CARAT_OK) {
        snprintf(why, why_size, "D could not be fetched: %s", carat_last_message());
        free(now);
        return false;
    }
    void *d = now + GUARD_BYTES + m->d.shift;
    struct random random = {77};
    double budget = reduced ? 2e5 : 2e6; /* multiply-adds of the reference */
    int64_t side = 6;
    while (side < 300 && (double)(side * side * 4) * (double)(p->k + 1) * (double)p->batch < budget) {
        side *= 2;
    }
    int64_t rows = side < p->m ? side : p->m;
    int64_t columns = side < p->n ? side : p->n;
    bool right = true;
    for (int64_t index = 0; index < p->batch && right; index++) {
        for (int64_t j = 0; j < columns && right; j++) {
            int64_t column = position(j, columns, p->n, &random);
            for (int64_t i = 0; i < rows && right; i++) {
                int64_t row = position(i, rows, p->m, &random);
                struct expected expected =
                    reference_gemm(p, buffer_picture(&m->alpha), buffer_picture(&m->a), buffer_picture(&m->b),
                                   buffer_picture(&m->beta), buffer_picture(&m->d), NULL, index, row, column);
                int64_t at = index * p->stride_d + element_index(p->order, row, column, p->ldd);
                right = expected_holds(&expected, p->type_cd, d, at);
                if (!right) {
                    snprintf(why, why_size,
                             "D(%" PRId64 ", %" PRId64 ") of problem %" PRId64
                             " is %.17Lg, not %.17Lg within %.3Lg",
                             row, column, index, element_get(p->type_cd, d, at), expected.value,
                             expected.bound);
                }
            }
        }
    }
    /* With D's elements put back, every other byte is as it was. */
    size_t size = carat_type_size(p->type_cd);
    for (int64_t index = 0; index < p->batch; index++) {
        for (int64_t j = 0; j < p->n; j++) {
            for (int64_t i = 0; i < p->m; i++) {
                size_t at = (size_t)(index * p->stride_d + element_index(p->order, i, j, p->ldd)) * size;
                memcpy((char *)d + at, (char *)buffer_picture(&m->d) + at, size);
            }
        }
    }
    if (right && memcmp(now, m->d.picture, buffer_total(&m->d)) != 0) {
        right = false;
        snprintf(why, why_size, "bytes around D's elements were written");
    }
    free(now);
    return right;
}

/* Runs a product and counts it. Where a row refuses the product, it is skipped. */
static void check_product(const struct product *x)
{
    struct matrices m;
    char text[400];
    char why[400];
    describe(x, text, sizeof(text));
    carat_status status =
        matrices_create(x, 1234567 + (uint64_t)(x->problem.m * 31 + x->problem.n * 7 + x->problem.k), &m);
    if (status != CARAT_OK) {
        failed("%s: its matrices: %s", text, carat_last_message());
    } else {
        status = run_on(x, &m, NULL);
        if (status == CARAT_OK) {
            status = carat_synchronize(context, NULL);
        }
        if (status == CARAT_UNSUPPORTED && x->row) {
            group.skipped++;
        } else if (status != CARAT_OK) {
            failed("%s: %s: %s", text, carat_status_name(status), carat_last_message());
        } else if (!compare(x, &m, why, sizeof(why))) {
            failed("%s: %s", text, why);
        } else {
            group.passed++;
        }
    }
    matrices_destroy(&m);
}

/* A product with tight or padded matrices (pad: elements behind every column or row). */
static struct product product_of(carat_type type, carat_order order, int ops, int64_t m, int64_t n, int64_t k,
                                 int64_t pad)
{
    struct product x = {.problem = carat_gemm_describe(type, m, n, k), .alpha = 1};
    carat_gemm_problem *p = &x.problem;
    p->order = order;
    p->op_a = ops & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->op_b = ops & 1 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->lda = packed_ld(order, ops & 2 ? k : m, ops & 2 ? m : k) + pad;
    p->ldb = packed_ld(order, ops & 1 ? n : k, ops & 1 ? k : n) + pad;
    p->ldd = p->ldc = packed_ld(order, m, n) + pad;
    return x;
}

/* Makes it a batch, with a gap between the problems. */
static void make_batch(struct product *x, int64_t batch, int64_t gap)
{
    carat_gemm_problem *p = &x->problem;
    int64_t a = p->lda * (p->m > p->k ? p->m : p->k);
    int64_t b = p->ldb * (p->k > p->n ? p->k : p->n);
    p->batch = batch;
    p->stride_a = a + gap;
    p->stride_b = b + gap;
    p->stride_c = p->stride_d = p->ldd * (p->m > p->n ? p->m : p->n) + gap;
}

struct shape {
    int64_t m;
    int64_t n;
    int64_t k;
};

static const struct shape small_shapes[] = {{33, 17, 20}, {64, 64, 32}, {1, 1, 1}};
static const struct shape shapes[] = {{1, 1, 1},       {3, 5, 7},      {33, 65, 129},  {128, 128, 128},
                                      {129, 257, 100}, {256, 384, 64}, {100, 1, 300},  {1, 100, 300},
                                      {77, 31, 0},     {512, 130, 40}, {64, 64, 1000}, {1000, 700, 90},
                                      {260, 132, 516}, {128, 256, 17}};

static const struct shape *shape_list(int *count)
{
    *count = reduced ? (int)(sizeof(small_shapes) / sizeof(small_shapes[0]))
                     : (int)(sizeof(shapes) / sizeof(shapes[0]));
    return reduced ? small_shapes : shapes;
}

/* ---- The groups ---- */

static void check_rows(void)
{
    int count;
    const struct shape *list = shape_list(&count);
    for (int r = 0; r < carat_catalog_count; r++) {
        const struct kernel *row = &carat_catalog[r];
        if (row->operation != OPERATION_GEMM && row->operation != OPERATION_LADDER) {
            continue;
        }
        begin_group();
        if (cuda_kernel_check(device, row) != CARAT_OK) {
            printf("%-28s skipped: %s\n", row->name, carat_last_message());
            total.skipped++;
            continue;
        }
        bool ladder = row->operation == OPERATION_LADDER;
        for (int s = 0; s < count; s++) {
            /* A row that wants aligned columns gets them: its dimensions rounded up. */
            int64_t unit = row->alignment > (int)carat_type_size((carat_type)row->element)
                               ? row->alignment / (int64_t)carat_type_size((carat_type)row->element)
                               : 1;
            int64_t m = (list[s].m + unit - 1) / unit * unit;
            int64_t n = (list[s].n + unit - 1) / unit * unit;
            int64_t k = (list[s].k + unit - 1) / unit * unit;
            for (int ops = 0; ops < (ladder ? 1 : 4); ops++) {
                if (row->layout != LAYOUT_ANY && row->layout != LAYOUT_NN + ops) {
                    continue;
                }
                struct product x =
                    product_of((carat_type)row->element, CARAT_COLUMN_MAJOR, ops, m, n, k, s % 2 ? unit : 0);
                x.row = row;
                x.alpha = s % 3 ? -2 : 1;
                x.beta = s % 2 ? 3 : 0;
                x.scalars_on_device = s % 4 == 3;
                check_product(&x);
            }
        }
        if (!ladder) {
            struct product x =
                product_of((carat_type)row->element, CARAT_COLUMN_MAJOR,
                           row->layout == LAYOUT_ANY ? 0 : row->layout - LAYOUT_NN, 48, 32, 64, 0);
            x.row = row;
            make_batch(&x, 3, 64);
            check_product(&x);
        }
        if (row->rung > 0 || !ladder) {
            struct product x =
                product_of((carat_type)row->element, CARAT_COLUMN_MAJOR,
                           row->layout == LAYOUT_ANY ? 0 : row->layout - LAYOUT_NN, 64, 48, 32, 0);
            x.row = row;
            x.alpha = 0; /* A and B are not read */
            x.beta = 2;
            check_product(&x);
        }
        end_group(row->name);
    }
}

static void check_products(void)
{
    int count;
    const struct shape *list = shape_list(&count);
    static const double scalars[][2] = {{1, 0}, {-2, 3}, {0, 2}};
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int ops = 0; ops < 4; ops++) {
            for (int s = 0; s < count; s++) {
                for (int order = 0; order < 2; order++) {
                    struct product x =
                        product_of(types[t], (carat_order)order, ops, list[s].m, list[s].n, list[s].k, 0);
                    x.alpha = scalars[(s + ops + order) % 3][0];
                    x.beta = scalars[(s + ops + order) % 3][1];
                    check_product(&x);
                }
            }
        }
    }
    end_group("all types and layouts");

    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int ops = 0; ops < 4; ops++) {
            for (int pad = 0; pad < 3; pad++) {
                struct product x = product_of(types[t], CARAT_COLUMN_MAJOR, ops, 127, 66, 70, pad);
                x.shift = pad; /* addresses and columns that no wide access can walk */
                x.beta = 1;
                x.scalars_on_device = true;
                check_product(&x);
            }
        }
    }
    end_group("odd addresses and columns");

    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int ops = 0; ops < 4; ops++) {
            struct product x = product_of(types[t], CARAT_COLUMN_MAJOR, ops, 40, 24, 32, 0);
            make_batch(&x, 5, ops % 2 ? 3 : 64);
            check_product(&x);
            x.problem.stride_a = 0; /* one A for all */
            x.beta = -1;
            check_product(&x);
        }
    }
    end_group("batches");

    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int ops = 0; ops < 4; ops++) {
            struct product x =
                product_of(types[t], CARAT_COLUMN_MAJOR, ops, 24, 20, reduced ? 1500 : 30000, 0);
            x.alpha = 2;
            x.beta = 1;
            check_product(&x);
        }
    }
    end_group("split K");
    if (reduced) {
        return;
    }
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int ops = 0; ops < 4; ops++) {
            struct product x = product_of(types[t], CARAT_COLUMN_MAJOR, ops, 2048, 1536, 1024, 0);
            check_product(&x);
            x = product_of(types[t], CARAT_ROW_MAJOR, ops, 1531, 1023, 777, 0);
            check_product(&x);
        }
    }
    end_group("large");
}

static void check_host_pointers(void)
{
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int place = PLACE_PINNED; place <= PLACE_PAGEABLE; place++) {
            for (int ops = 0; ops < 4; ops++) {
                struct product x = reduced
                                       ? product_of(types[t], CARAT_COLUMN_MAJOR, ops, 40, 30, 20, ops)
                                       : product_of(types[t], CARAT_COLUMN_MAJOR, ops, 700, 500, 300, ops);
                x.place = (enum place)place;
                x.beta = ops % 2;
                check_product(&x);
            }
            struct product x = product_of(types[t], CARAT_ROW_MAJOR, 1, 60, 50, 40, 1);
            x.place = (enum place)place;
            make_batch(&x, 4, 5);
            check_product(&x);
        }
    }
    if (!reduced) { /* several slots of staging, and several blocks of D */
        for (int place = PLACE_PINNED; place <= PLACE_PAGEABLE; place++) {
            struct product x = product_of(CARAT_F32, CARAT_COLUMN_MAJOR, 0, 5000, 6000, 3000, 17);
            x.place = (enum place)place;
            x.beta = 1;
            check_product(&x);
            x = product_of(CARAT_F64, CARAT_ROW_MAJOR, 3, 4001, 3001, 2001, 0);
            x.place = (enum place)place;
            check_product(&x);
        }
    }
    end_group("host pointers");
}

/* Products put on several streams at once, none waited for until all are. */
static void check_streams(void)
{
    enum { STREAMS = 4 };
    void *streams[STREAMS] = {NULL};
    struct product x[STREAMS];
    struct matrices m[STREAMS];
    begin_group();
    for (int i = 0; i < STREAMS; i++) {
        x[i] = product_of(types[i % TYPE_COUNT], CARAT_COLUMN_MAJOR, i, 200 + i, 100, reduced ? 40 : 4000, 0);
        expect(carat_stream_create(context, &streams[i]) == CARAT_OK, "a stream is made");
        expect(matrices_create(&x[i], (uint64_t)i + 5, &m[i]) == CARAT_OK, "matrices are made");
    }
    expect(carat_synchronize(context, NULL) == CARAT_OK, "the uploads end");
    bool ran = true;
    for (int round = 0; round < (reduced ? 2 : 20); round++) {
        for (int i = 0; i < STREAMS; i++) {
            ran = ran && run_on(&x[i], &m[i], streams[i]) == CARAT_OK;
        }
    }
    expect(ran, "products go on streams");
    for (int i = 0; i < STREAMS; i++) {
        char why[400];
        expect(carat_synchronize(context, streams[i]) == CARAT_OK, "a stream ends");
        if (compare(&x[i], &m[i], why, sizeof(why))) {
            group.passed++;
        } else {
            failed("stream %d: %s", i, why);
        }
        expect(carat_stream_destroy(context, streams[i]) == CARAT_OK, "a stream goes");
        matrices_destroy(&m[i]);
    }
    end_group("streams");
}

static void check_graphs(void)
{
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int split = 0; split < 2; split++) {
            struct product x =
                product_of(types[t], CARAT_COLUMN_MAJOR, 2, 48, 40, split ? reduced ? 1500 : 20000 : 64, 0);
            struct matrices m;
            void *stream = NULL;
            void *graph = NULL;
            carat_plan *plan = NULL;
            char why[400];
            expect(matrices_create(&x, 99, &m) == CARAT_OK, "matrices are made");
            expect(carat_stream_create(context, &stream) == CARAT_OK, "a stream is made");
            expect(run_on(&x, &m, stream) == CARAT_OK, "one call goes before the capture");
            expect(carat_plan_create(context, &x.problem, &plan) == CARAT_OK, "the problem is planned");
            expect(carat_synchronize(context, stream) == CARAT_OK, "the stream is idle");
            expect(cuda_capture_begin(device, stream) == CARAT_OK, "a capture begins");
            expect(run_on(&x, &m, stream) == CARAT_OK, "a call is captured");
            expect(cuda_capture_end(device, stream, &graph) == CARAT_OK && graph, "a graph comes of it");
            /* D is poisoned again, so that only the replay can have written it. */
            expect(buffer_upload(&m.d) == CARAT_OK, "D is poisoned");
            for (int i = 0; i < 3 && graph; i++) {
                expect(cuda_graph_launch(device, graph, stream) == CARAT_OK, "a replay starts");
            }
            expect(carat_synchronize(context, stream) == CARAT_OK, "the replays end");
            if (compare(&x, &m, why, sizeof(why))) {
                group.passed++;
            } else {
                failed("graph, %s: %s", carat_type_name(types[t]), why);
            }
            cuda_graph_destroy(device, graph);
            carat_plan_destroy(plan);
            carat_stream_destroy(context, stream);
            matrices_destroy(&m);
        }
    }
    end_group("graphs");
}

/* The same call gives the same bits. */
static void check_bits(void)
{
    enum { RUNS = 10 };
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int kind = 0; kind < 3; kind++) {
            struct product x =
                kind == 0   ? product_of(types[t], CARAT_COLUMN_MAJOR, 0, 150, 130, 97, 0)
                : kind == 1 ? product_of(types[t], CARAT_COLUMN_MAJOR, 1, 30, 20, reduced ? 1500 : 30000, 0)
                            : product_of(types[t], CARAT_COLUMN_MAJOR, 2, reduced ? 64 : 1024, 256, 128, 0);
            struct matrices m;
            expect(matrices_create(&x, 3, &m) == CARAT_OK, "matrices are made");
            unsigned char *first = malloc(buffer_total(&m.d));
            unsigned char *later = malloc(buffer_total(&m.d));
            bool same = first && later;
            for (int run = 0; run < RUNS && same; run++) {
                same = run_on(&x, &m, NULL) == CARAT_OK && carat_synchronize(context, NULL) == CARAT_OK &&
                       carat_copy(context, run ? later : first, m.d.memory, buffer_total(&m.d), NULL) ==
                           CARAT_OK &&
                       (run == 0 || memcmp(first, later, buffer_total(&m.d)) == 0);
            }
            char text[400];
            describe(&x, text, sizeof(text));
            expect(same, text);
            free(first);
            free(later);
            matrices_destroy(&m);
        }
    }
    end_group("the same bits, ten runs");
}

struct worker {
    int number;
    int wrong;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    void *stream = NULL;
    if (carat_stream_create(context, &stream) != CARAT_OK) {
        worker->wrong++;
        return NULL;
    }
    for (int i = 0; i < (reduced ? 2 : 12); i++) {
        struct product x =
            product_of(types[(worker->number + i) % TYPE_COUNT], CARAT_COLUMN_MAJOR, i % 4, 60 + i, 50,
                       i % 3     ? 30
                       : reduced ? 500
                                 : 9000,
                       0);
        struct matrices m;
        char why[400];
        bool right = matrices_create(&x, (uint64_t)worker->number * 100 + (uint64_t)i, &m) == CARAT_OK &&
                     run_on(&x, &m, stream) == CARAT_OK && carat_synchronize(context, stream) == CARAT_OK &&
                     compare(&x, &m, why, sizeof(why));
        worker->wrong += !right;
        matrices_destroy(&m);
    }
    carat_stream_destroy(context, stream);
    return NULL;
}

static void check_threads(void)
{
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    struct worker workers[THREADS];
    begin_group();
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){i, 0};
        expect(pthread_create(&threads[i], NULL, work, &workers[i]) == 0, "a thread starts");
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        expect(workers[i].wrong == 0, "a thread's products are right");
    }
    end_group("threads");
}

/* ---- Around the product ---- */

static void check_elementwise(carat_type type, int64_t m, int64_t n, int64_t pad, int64_t shift,
                              bool transpose)
{
    struct buffer a;
    struct buffer b;
    size_t size = carat_type_size(type);
    int64_t lda = m + pad;
    int64_t rows_b = transpose ? n : m;
    int64_t ldb = rows_b + pad;
    int64_t columns_b = transpose ? m : n;
    double scale = 1.5;
    double add = -0.25;
    struct scalar scale_bits = scalar_of(type, scale);
    struct scalar add_bits = scalar_of(type, add);
    bool made = buffer_create(&a, PLACE_DEVICE, (size_t)(lda * (n - 1) + m) * size, (size_t)shift * size);
    made = buffer_create(&b, PLACE_DEVICE, (size_t)(ldb * (columns_b - 1) + rows_b) * size,
                         (size_t)shift * size) &&
           made;
    struct random random = {11};
    unsigned char *now = made ? malloc(buffer_total(&b)) : NULL;
    carat_status status = now ? CARAT_OK : CARAT_OUT_OF_HOST_MEMORY;
    if (status == CARAT_OK) {
        buffer_fill(&a, type, &random);
        status = buffer_upload(&a);
    }
    if (status == CARAT_OK) {
        status = buffer_upload(&b);
    }
    if (status == CARAT_OK) {
        status = transpose
                     ? carat_transpose(context, CARAT_COLUMN_MAJOR, type, m, n, buffer_pointer(&a), lda,
                                       buffer_pointer(&b), ldb, NULL)
                     : carat_scale_add(context, CARAT_COLUMN_MAJOR, type, m, n, scale_bits.bits,
                                       buffer_pointer(&a), lda, add_bits.bits, buffer_pointer(&b), ldb, NULL);
    }
    if (status == CARAT_OK) {
        status = carat_copy(context, now, b.memory, buffer_total(&b), NULL);
    }
    bool right = status == CARAT_OK;
    char *content = right ? (char *)now + GUARD_BYTES + b.shift : NULL;
    for (int64_t j = 0; j < n && right; j++) {
        for (int64_t i = 0; i < m && right; i++) {
            int64_t at = transpose ? j + i * ldb : i + j * ldb;
            uint64_t wanted[1];
            if (transpose) {
                memcpy(wanted, (char *)buffer_picture(&a) + (size_t)(i + j * lda) * size, size);
            } else { /* a long double holds the exact value of the fused multiply-add of all types but f64 */
                element_set(type, wanted, 0,
                            element_get(type, buffer_picture(&a), i + j * lda) * scale + add);
            }
            if (type == CARAT_F64 && !transpose) { /* it was rounded twice: one unit in the last place */
                long double got = element_get(type, content, at);
                long double should = element_get(type, wanted, 0);
                long double off = got > should ? got - should : should - got;
                right = off <= 0x1p-52L * (should < 0 ? -should : should);
            } else {
                right = memcmp(wanted, content + (size_t)at * size, size) == 0;
            }
            memcpy(content + (size_t)at * size, (char *)buffer_picture(&b) + (size_t)at * size, size);
        }
    }
    right = right && memcmp(now, b.picture, buffer_total(&b)) == 0; /* nothing else was written */
    if (right) {
        group.passed++;
    } else {
        failed("%s of %s %" PRId64 " x %" PRId64 " pad %" PRId64 " shift %" PRId64 " (%s)",
               transpose ? "transpose" : "scale_add", carat_type_name(type), m, n, pad, shift,
               status == CARAT_OK ? "wrong" : carat_last_message());
    }
    free(now);
    buffer_destroy(&a);
    buffer_destroy(&b);
}

static void check_around(void)
{
    static const struct shape sizes[] = {{1, 1, 0},   {7, 5, 0},   {64, 64, 0},   {129, 67, 0},
                                         {300, 1, 0}, {1, 300, 0}, {1000, 513, 0}};
    begin_group();
    for (int t = 0; t < TYPE_COUNT; t++) {
        for (int s = 0; s < (reduced ? 4 : 7); s++) {
            for (int pad = 0; pad < 2; pad++) {
                check_elementwise(types[t], sizes[s].m, sizes[s].n, pad * 3, pad, true);
                if (types[t] != CARAT_S32 && types[t] != CARAT_S8) {
                    check_elementwise(types[t], sizes[s].m, sizes[s].n, pad * 3, pad, false);
                }
            }
        }
    }
    end_group("scale_add and transpose");
}

/* ---- Refusals ---- */

static void check_refusals(void)
{
    begin_group();
    struct product x = product_of(CARAT_F32, CARAT_COLUMN_MAJOR, 0, 16, 16, 16, 0);
    struct matrices m;
    expect(matrices_create(&x, 1, &m) == CARAT_OK, "matrices are made");
    float one = 1;
    float zero = 0;
    float host[256] = {0};
    void *a = buffer_pointer(&m.a);
    void *b = buffer_pointer(&m.b);
    void *d = buffer_pointer(&m.d);
    const carat_gemm_problem *p = &x.problem;
    expect(carat_gemm(context, p, &one, NULL, b, &zero, NULL, d, NULL) == CARAT_INVALID_ARGUMENT,
           "a NULL A is refused");
    expect(carat_gemm(context, p, &one, host, b, &zero, NULL, d, NULL) == CARAT_INVALID_ARGUMENT,
           "a mixed set of host and device matrices is refused");
    expect(carat_gemm(context, p, &one, d, b, &zero, NULL, d, NULL) == CARAT_INVALID_ARGUMENT,
           "D over A is refused");
    carat_gemm_problem wrong = *p;
    wrong.lda = 3;
    expect(carat_gemm(context, &wrong, &one, a, b, &zero, NULL, d, NULL) == CARAT_INVALID_ARGUMENT,
           "a short lda is refused");
    void *too_much = &host;
    expect(carat_allocate(context, CARAT_MEMORY_DEVICE, (size_t)1 << 46, &too_much) ==
                   CARAT_OUT_OF_DEVICE_MEMORY &&
               too_much == NULL,
           "64 TiB are refused");
    expect(carat_synchronize(context, NULL) == CARAT_OK, "the device works on");
    unsigned char now[16 * 16 * 4];
    expect(carat_copy(context, now, d, sizeof(now), NULL) == CARAT_OK &&
               memcmp(now, buffer_picture(&m.d), sizeof(now)) == 0,
           "the refused calls have written nothing");
    /* A plan that needs workspace, and gets too little. */
    carat_gemm_problem deep = carat_gemm_describe(CARAT_F32, 16, 16, 200000);
    carat_plan *plan = NULL;
    expect(carat_plan_create(context, &deep, &plan) == CARAT_OK, "a deep product is planned");
    if (plan && carat_plan_workspace(plan) > 256) {
        void *workspace = NULL;
        expect(carat_allocate(context, CARAT_MEMORY_DEVICE, 256, &workspace) == CARAT_OK,
               "256 bytes are there");
        struct product y = product_of(CARAT_F32, CARAT_COLUMN_MAJOR, 0, 16, 16, 200000, 0);
        struct matrices large;
        expect(matrices_create(&y, 1, &large) == CARAT_OK, "matrices are made");
        carat_run run = {.workspace = workspace, .workspace_bytes = 256};
        expect(carat_plan_run(plan, &one, buffer_pointer(&large.a), buffer_pointer(&large.b), &zero, NULL,
                              buffer_pointer(&large.d), &run) == CARAT_WORKSPACE_TOO_SMALL,
               "a workspace that is too small is refused");
        matrices_destroy(&large);
        carat_release(context, workspace);
    } else {
        group.skipped++;
        printf("  skipped: no plan here needs workspace\n");
    }
    carat_plan_destroy(plan);
    matrices_destroy(&m);
    end_group("refusals");
}

int main(int argc, char **argv)
{
    reduced = argc == 2 && strcmp(argv[1], "--reduced") == 0;
    if (argc > 2 || (argc == 2 && !reduced)) {
        fprintf(stderr, "Usage: gpu_check [--reduced]\n");
        return 2;
    }
    if (carat_context_create(CARAT_DEVICE_CUDA, 0, &context) != CARAT_OK) {
        printf("skipped: no CUDA device (%s)\n", carat_last_message());
        return 0;
    }
    device = carat_context_device(context);
    carat_device_info info;
    if (carat_device_query(context, &info) == CARAT_OK) {
        printf("%s, compute capability %d.%d\n", info.name, info.compute_capability_major,
               info.compute_capability_minor);
    }
    check_rows();
    check_products();
    check_host_pointers();
    check_streams();
    check_graphs();
    check_bits();
    check_threads();
    check_around();
    check_refusals();
    printf("%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped);
    carat_context_destroy(context);
    return total.failed > 0;
}
