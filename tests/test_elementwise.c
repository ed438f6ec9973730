/*
 * test_elementwise.c - scale_add and transpose over random shapes, layouts and places of memory, to the
 * last bit; and the conversions of the small floats that the CPU device and the reference rest on.
 *
 * test_elementwise_cuda.c runs the same on the CUDA device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "assertions.h"
#include "cpu/activation.h"
#include "cpu/float8.h"
#include "cpu/half.h"
#include "guarded.h"
#include "reference.h"

#ifndef TEST_DEVICE
#define TEST_DEVICE CARAT_DEVICE_CPU
#define CASES 150
#define MOST_ELEMENTS 30000
#endif

static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_F16,  CARAT_BF16,
                                   CARAT_S32, CARAT_S8,  CARAT_E4M3, CARAT_E5M2};

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

/* ---- One case: A is m x n, B as large or its transpose ---- */

struct shape {
    carat_order order;
    carat_type type;
    int64_t m;
    int64_t n;
    int64_t lda;
    int64_t ldb;
    bool transposed;
    bool in_place;
    bool on_device;
    bool scalars_on_device;
    bool on_stream;
    size_t shift; /* of the addresses, in elements */
};

static struct shape random_shape(struct random *random, carat_type type, bool transposed)
{
    struct shape x = {.type = type, .transposed = transposed};
    do {
        x.m = random_one_in(random, 3) ? random_between(random, 0, 3000) : random_between(random, 0, 130);
        x.n = random_one_in(random, 3) ? random_between(random, 0, 3000) : random_between(random, 0, 130);
    } while (x.m * x.n > MOST_ELEMENTS);
    x.order = random_one_in(random, 2) ? CARAT_ROW_MAJOR : CARAT_COLUMN_MAJOR;
    x.in_place = !transposed && random_one_in(random, 4);
    x.lda = packed_ld(x.order, x.m, x.n);
    x.lda += random_one_in(random, 2) ? random_between(random, 0, 20) : (16 - x.lda % 16) % 16;
    x.ldb = transposed ? packed_ld(x.order, x.n, x.m) : packed_ld(x.order, x.m, x.n);
    x.ldb += random_one_in(random, 2) ? random_between(random, 0, 20) : (16 - x.ldb % 16) % 16;
    x.ldb = x.in_place ? x.lda : x.ldb;
    x.on_device = random_one_in(random, 2);
    x.scalars_on_device = random_one_in(random, 3);
    x.on_stream = random_one_in(random, 3);
    x.shift = random_one_in(random, 2) ? (size_t)random_between(random, 0, 9) : 0;
    return x;
}

static void describe(const struct shape *x)
{
    print_message("%s order %d m %" PRId64 " n %" PRId64 " lda %" PRId64 " ldb %" PRId64
                  " in_place %d on_device %d scalars_on_device %d on_stream %d shift %zu\n",
                  carat_type_name(x->type), (int)x->order, x->m, x->n, x->lda, x->ldb, x->in_place,
                  x->on_device, x->scalars_on_device, x->on_stream, x->shift);
}

static size_t bytes_of(const struct shape *x, int64_t rows, int64_t columns, int64_t ld)
{
    return rows == 0 || columns == 0
               ? 0
               : (size_t)(element_index(x->order, rows - 1, columns - 1, ld) + 1) * carat_type_size(x->type);
}

static struct guarded create_a(const struct shape *x)
{
    return guarded_create(context, x->on_device, bytes_of(x, x->m, x->n, x->lda),
                          x->shift * carat_type_size(x->type));
}

static struct guarded create_b(const struct shape *x)
{
    size_t bytes = x->transposed ? bytes_of(x, x->n, x->m, x->ldb) : bytes_of(x, x->m, x->n, x->ldb);
    return guarded_create(context, x->on_device, bytes, x->shift * carat_type_size(x->type));
}

static int64_t index_a(const struct shape *x, int64_t i, int64_t j)
{
    return element_index(x->order, i, j, x->lda);
}

static int64_t index_b(const struct shape *x, int64_t i, int64_t j)
{
    return x->transposed ? element_index(x->order, j, i, x->ldb) : element_index(x->order, i, j, x->ldb);
}

/* What the case is run on, and where its answer is. */
struct call {
    struct guarded a;
    struct guarded b;
    struct guarded scale;
    struct guarded shift;
};

static void run(const struct shape *x, const struct call *call)
{
    carat_run how = {.stream = NULL};
    if (x->on_stream) {
        assert_ok(carat_stream_create(context, &how.stream));
    }
    const void *a = guarded_pointer(x->in_place ? &call->b : &call->a);
    carat_status status =
        x->transposed
            ? carat_transpose(context, x->order, x->type, x->m, x->n, a, x->lda, guarded_pointer(&call->b),
                              x->ldb, &how)
            : carat_scale_add(context, x->order, x->type, x->m, x->n, guarded_pointer(&call->scale), a,
                              x->lda, guarded_pointer(&call->shift), guarded_pointer(&call->b), x->ldb, &how);
    assert_ok(carat_synchronize(context, how.stream));
    if (x->on_stream) {
        assert_ok(carat_stream_destroy(context, how.stream));
    }
    if (status != CARAT_OK) {
        describe(x);
        fail_msg("%s: %s", carat_status_name(status), carat_last_message());
    }
}

/*
 * Puts every element that B should have into the copy of what B was, and then compares all bytes: so
 * those around B and between its columns are compared too. NaNs compare as NaNs.
 */
static void check_b(const struct shape *x, const struct call *call,
                    void (*expected)(const struct shape *x, const struct call *call, int64_t i, int64_t j,
                                     void *element))
{
    size_t size = carat_type_size(x->type);
    unsigned char *now = guarded_download(&call->b);
    unsigned char *got = guarded_content_of(&call->b, now);
    unsigned char *want = malloc(guarded_total(&call->b));
    assert_non_null(want);
    memcpy(want, call->b.expect, guarded_total(&call->b));
    for (int64_t j = 0; j < x->n; j++) {
        for (int64_t i = 0; i < x->m; i++) {
            uint64_t element[1];
            expected(x, call, i, j, element);
            size_t place = (size_t)index_b(x, i, j) * size;
            bool both_nan =
                isnan(element_get(x->type, element, 0)) && isnan(element_get(x->type, got + place, 0));
            if (!both_nan && memcmp(element, got + place, size) != 0) {
                describe(x);
                fail_msg("(%" PRId64 ", %" PRId64 ") is %.20Lg, but should be %.20Lg", i, j,
                         element_get(x->type, got + place, 0), element_get(x->type, element, 0));
            }
            memcpy((unsigned char *)guarded_content_of(&call->b, want) + place, got + place, size);
        }
    }
    assert_memory_equal(now, want, guarded_total(&call->b));
    free(want);
    free(now);
}

static void check(const struct shape *x, struct call *call,
                  void (*expected)(const struct shape *x, const struct call *call, int64_t i, int64_t j,
                                   void *element))
{
    struct guarded *all[] = {&call->a, &call->scale, &call->shift, &call->b};
    for (int i = 0; i < 4; i++) {
        assert_ok(guarded_upload(all[i]));
    }
    run(x, call);
    check_b(x, call, expected);
    for (int i = 0; i < 4; i++) {
        assert_true(all[i] == &call->b || guarded_untouched(all[i]));
        guarded_destroy(all[i]);
    }
}

static struct call create_call(const struct shape *x)
{
    size_t scalar = carat_type_size(carat_scalar_type(x->type));
    return (struct call){create_a(x), create_b(x), guarded_create(context, x->scalars_on_device, scalar, 0),
                         guarded_create(context, x->scalars_on_device, scalar, 0)};
}

/* ---- scale_add ---- */

static void expected_scale_add(const struct shape *x, const struct call *call, int64_t i, int64_t j,
                               void *element)
{
    const void *a = guarded_content(x->in_place ? &call->b : &call->a);
    if (x->type == CARAT_F64) {
        *(double *)element =
            fma(*(const double *)guarded_content(&call->scale), ((const double *)a)[index_a(x, i, j)],
                *(const double *)guarded_content(&call->shift));
    } else {
        float sum = fmaf(*(const float *)guarded_content(&call->scale),
                         (float)element_get(x->type, a, index_a(x, i, j)),
                         *(const float *)guarded_content(&call->shift));
        element_set(x->type, element, 0, sum);
    }
}

/* Numbers, and now and then what is special about floating point. */
static void element_any(carat_type type, void *array, int64_t index, struct random *random)
{
    static const long double specials[] = {NAN,      INFINITY,  -INFINITY,  0.0L,     -0.0L,
                                           0x1p-24L, 0x1p-149L, -0x1p-126L, 65504.0L, 0x1p127L};
    if (random_one_in(random, 20)) {
        element_set(type, array, index, specials[random_between(random, 0, 9)]);
    } else {
        element_random(type, array, index, random);
    }
}

static void random_scale_adds(void **state)
{
    carat_type type = *(const carat_type *)*state;
    struct random random = {(uint64_t)type + 100};
    for (int i = 0; i < CASES; i++) {
        struct shape x = random_shape(&random, type, false);
        struct call call = create_call(&x);
        carat_type scalar = carat_scalar_type(type);
        element_any(scalar, guarded_content(&call.scale), 0, &random);
        element_any(scalar, guarded_content(&call.shift), 0, &random);
        const struct guarded *a = x.in_place ? &call.b : &call.a;
        for (size_t e = 0; e < a->bytes / carat_type_size(type); e++) {
            element_any(type, guarded_content(a), (int64_t)e, &random);
        }
        check(&x, &call, expected_scale_add);
    }
}

/* ---- transpose ---- */

static void expected_transpose(const struct shape *x, const struct call *call, int64_t i, int64_t j,
                               void *element)
{
    size_t size = carat_type_size(x->type);
    memcpy(element, (const char *)guarded_content(&call->a) + (size_t)index_a(x, i, j) * size, size);
}

static void random_transposes(void **state)
{
    carat_type type = *(const carat_type *)*state;
    struct random random = {(uint64_t)type + 200};
    for (int i = 0; i < CASES; i++) {
        struct shape x = random_shape(&random, type, true);
        struct call call = create_call(&x);
        for (size_t byte = 0; byte < call.a.bytes; byte++) {
            ((unsigned char *)guarded_content(&call.a))[byte] = (unsigned char)random_bits(&random);
        }
        check(&x, &call, expected_transpose);
    }
}

/* ---- f16 and bf16 ---- */

/* Every f16 and bf16 number comes back from f32 as it went. */
static void halves_survive_f32(void **state)
{
    (void)state;
    for (uint32_t x = 0; x <= 0xffff; x++) {
        float f16 = f32_from_f16((uint16_t)x);
        float bf16 = f32_from_bf16((uint16_t)x);
        assert_true(isnan(f16) ? isnan(f32_from_f16(f16_from_f32(f16))) : f16_from_f32(f16) == x);
        assert_true(isnan(bf16) ? isnan(f32_from_bf16(bf16_from_f32(bf16))) : bf16_from_f32(bf16) == x);
        /* The value by the format's definition. */
        int exponent = (int)(x >> 10 & 31);
        double fraction = (x & 0x3ff) / 1024.0;
        double value = exponent == 0 ? ldexp(fraction, -14) : ldexp(1 + fraction, exponent - 15);
        if (exponent < 31) {
            assert_true(f16 == (float)(x & 0x8000 ? -value : value));
        } else {
            assert_true(fraction == 0 ? isinf(f16) && !signbit(f16) == !(x & 0x8000) : isnan(f16));
        }
    }
}

/*
 * Rounding is to the nearest number and to the even one in the middle: checked at, just below and just above
 * the middle of all neighbours.
 */
static void halves_round_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t x = 0; x < 0x7c00; x++) {
        /* Past the largest f16 comes infinity, at what would be the next power of 2. */
        double next = x + 1 == 0x7c00 ? 65536.0 : f32_from_f16((uint16_t)(x + 1));
        float middle = (float)((f32_from_f16((uint16_t)x) + next) / 2);
        assert_int_equal(f16_from_f32(middle), x % 2 == 0 ? x : x + 1);
        assert_int_equal(f16_from_f32(nextafterf(middle, 0)), x);
        assert_int_equal(f16_from_f32(nextafterf(middle, INFINITY)), x + 1);
        assert_int_equal(f16_from_f32(-middle), 0x8000 | (x % 2 == 0 ? x : x + 1));
    }
    for (uint32_t x = 0; x < 0x7f80; x++) {
        double next = x + 1 == 0x7f80 ? 0x1p128 : f32_from_bf16((uint16_t)(x + 1));
        float middle = (float)((f32_from_bf16((uint16_t)x) + next) / 2);
        assert_int_equal(bf16_from_f32(middle), x % 2 == 0 ? x : x + 1);
        assert_int_equal(bf16_from_f32(nextafterf(middle, 0)), x);
        assert_int_equal(bf16_from_f32(nextafterf(middle, INFINITY)), x + 1);
        assert_int_equal(bf16_from_f32(-middle), 0x8000 | (x % 2 == 0 ? x : x + 1));
    }
}

/* ---- 8-bit floats ---- */

/* One of the formats, by its definition. */
struct float8 {
    float (*to_f32)(uint8_t x);
    uint8_t (*from_f32)(float x);
    int fraction_bits;
    int bias;
    uint8_t largest; /* the bits of the largest number */
    uint8_t beyond;  /* what is larger than that becomes */
};

static const struct float8 float8s[] = {
    {f32_from_e4m3, e4m3_from_f32, 3, 7, 0x7e, 0x7e},  /* up to 448, where it saturates */
    {f32_from_e5m2, e5m2_from_f32, 2, 15, 0x7b, 0x7c}, /* up to 57344, and infinity */
};

static double float8_value(const struct float8 *format, int x)
{
    int exponent = x >> format->fraction_bits;
    double fraction = ldexp(x & ((1 << format->fraction_bits) - 1), -format->fraction_bits);
    return exponent == 0 ? ldexp(fraction, 1 - format->bias) : ldexp(1 + fraction, exponent - format->bias);
}

static void float8s_are_what_their_bits_say(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        const struct float8 *format = &float8s[f];
        for (int x = 0; x < 256; x++) {
            float got = format->to_f32((uint8_t)x);
            int magnitude = x & 0x7f;
            if (magnitude <= format->largest) {
                double value = float8_value(format, magnitude);
                assert_true(got == (float)(x & 0x80 ? -value : value));
                assert_int_equal(!signbit(got), !(x & 0x80));
                assert_int_equal(format->from_f32(got), x);
            } else if (magnitude == 0x7c && f == 1) {
                assert_true(isinf(got) && !signbit(got) == !(x & 0x80));
                assert_int_equal(format->from_f32(got), x);
            } else {
                assert_true(isnan(got));
                assert_int_equal(format->from_f32(got) & 0x7f, 0x7f);
            }
        }
    }
    assert_true(f32_from_e4m3(0x7e) == 448 && f32_from_e5m2(0x7b) == 57344);
    assert_int_equal(e4m3_from_f32(NAN), 0x7f);
    assert_int_equal(e4m3_from_f32(-NAN), 0x7f);
    assert_true(isnan(f32_from_e5m2(e5m2_from_f32(NAN))));
}

/* To nearest, and to even in the middle, of all neighbours and of what lies beyond the largest. */
static void float8s_round_to_nearest_even(void **state)
{
    (void)state;
    for (int f = 0; f < 2; f++) {
        const struct float8 *format = &float8s[f];
        for (int x = 0; x < format->largest; x++) {
            double middle = (float8_value(format, x) + float8_value(format, x + 1)) / 2;
            int even = x % 2 == 0 ? x : x + 1;
            assert_int_equal(format->from_f32((float)middle), even);
            assert_int_equal(format->from_f32((float)-middle), 0x80 | even);
            assert_int_equal(format->from_f32(nextafterf((float)middle, 0)), x);
            assert_int_equal(format->from_f32(nextafterf((float)middle, INFINITY)), x + 1);
        }
        /* What the next number would be, and the middle before it, where e5m2 goes to infinity. */
        double next = float8_value(format, format->largest + 1);
        float middle = (float)((float8_value(format, format->largest) + next) / 2);
        assert_int_equal(format->from_f32(nextafterf(middle, 0)), format->largest);
        const float beyond[] = {middle, (float)next, 1e30f, FLT_MAX, INFINITY};
        for (int i = 0; i < 5; i++) {
            assert_int_equal(format->from_f32(beyond[i]), format->beyond);
            assert_int_equal(format->from_f32(-beyond[i]), 0x80 | format->beyond);
        }
        assert_int_equal(format->from_f32(0x1p-149f), 0);
        assert_int_equal(format->from_f32(-0x1p-149f), 0x80);
    }
}

/* ---- Activations ---- */

/* Close to their definitions all over, in both precisions, and exact where nothing is left to round. */
static void activations_are_what_they_are_called(void **state)
{
    (void)state;
    long double sqrt_2_over_pi = sqrtl(2 / acosl(-1));
    for (int i = -4000; i <= 4000; i++) {
        double x = i / 200.0;
        long double cubic = x + 0.044715L * x * x * x;
        const long double wanted[] = {
            x,
            x > 0 ? x : 0,
            x / 2.0L * (1 + tanhl(sqrt_2_over_pi * cubic)),
            x / 2.0L * (1 + erfl(x / sqrtl(2))),
            x / (1 + expl(-(long double)x)),
        };
        for (int a = 0; a <= 4; a++) {
            long double size = fabsl((long double)x);
            assert_true(fabsl(activate_f64((carat_activation)a, x) - wanted[a]) <= 0x1p-51L * size);
            float as_float = (float)x;
            long double slope = 1.13L * fabsl((long double)as_float - x);
            assert_true(fabsl(activate_f32((carat_activation)a, as_float) - wanted[a]) <=
                        slope + 0x1p-22L * size);
        }
    }
    for (int a = 1; a <= 4; a++) {
        carat_activation activation = (carat_activation)a;
        assert_true(isnan(activate_f32(activation, NAN)) && isnan(activate_f64(activation, NAN)));
        assert_true(activate_f32(activation, INFINITY) == INFINITY);
        assert_true(activate_f64(activation, INFINITY) == INFINITY);
        assert_true(activate_f32(activation, 1e30f) == 1e30f && activate_f64(activation, 1e300) == 1e300);
        assert_true(activate_f32(activation, -1e30f) == 0 && activate_f64(activation, -1e300) == 0);
        assert_true(activate_f32(activation, 0) == 0);
        bool relu = activation == CARAT_ACTIVATION_RELU;
        assert_true(relu ? activate_f32(activation, -INFINITY) == 0
                         : isnan(activate_f32(activation, -INFINITY)));
        assert_true(relu ? activate_f64(activation, -INFINITY) == 0
                         : isnan(activate_f64(activation, -INFINITY)));
    }
}

int main(void)
{
    struct CMUnitTest tests[24];
    char names[12][64];
    int count = 0;
    for (int t = 0; t < 8; t++) {
        void *type = (void *)(uintptr_t)&types[t];
        if (types[t] <= CARAT_BF16) {
            snprintf(names[count], sizeof(names[count]), "random_scale_adds_%s", carat_type_name(types[t]));
            tests[count] = (struct CMUnitTest){names[count], random_scale_adds, NULL, NULL, type};
            count++;
        }
        snprintf(names[count], sizeof(names[count]), "random_transposes_%s", carat_type_name(types[t]));
        tests[count] = (struct CMUnitTest){names[count], random_transposes, NULL, NULL, type};
        count++;
    }
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(halves_survive_f32);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(halves_round_to_nearest_even);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(float8s_are_what_their_bits_say);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(float8s_round_to_nearest_even);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(activations_are_what_they_are_called);
    return _cmocka_run_group_tests("elementwise", tests, (size_t)count, set_up, tear_down);
}
