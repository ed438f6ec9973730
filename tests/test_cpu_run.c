/*
 * test_cpu_run.c - the CPU runner itself: it runs right kernels right, whatever the order, and catches
 * kernels that are wrong (cpu_run/samples.cu). And its conversions, over every f16 and bf16.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../kernels/common/arguments.h"
#include "cpu_run.h"

#define COUNT 64
#define BLOCKS 3
#define SEEDS 20

float f32_from_f16(uint16_t bits);
uint16_t f16_from_f32(float value);
float f32_from_bf16(uint16_t bits);
uint16_t bf16_from_f32(float value);
uint32_t dot4_s8(uint32_t x, uint32_t y, uint32_t sum);
uint32_t tf32_from_f32(uint32_t bits);
void tf32_pair_from_f32(uint32_t *first, uint32_t *second, int in_place);

/* Runs a sample with one seed and returns what it made of 1, 2, 3, ...; the caller frees it. */
static float *outcome(const char *name, uint64_t seed)
{
    const struct cpu_kernel *kernel = cpu_kernel_find(name);
    assert_non_null(kernel);
    float *a = aligned_alloc(16, BLOCKS * COUNT * sizeof *a);
    float *b = calloc(4 * BLOCKS * COUNT, sizeof *b); /* room for a matrix of double as well */
    assert_non_null(a);
    assert_non_null(b);
    for (int i = 0; i < BLOCKS * COUNT; ++i) {
        a[i] = (float)(i + 1);
    }
    scale_add_arguments arguments = {.m = BLOCKS * COUNT, .n = 1, .a = a, .b = b};
    struct cpu_launch launch = {{BLOCKS, 1, 1}, {COUNT, 1, 1}, COUNT * sizeof(float), seed};
    cpu_run(kernel, &launch, &arguments);
    free(a);
    return b;
}

static int is_turned(const float *b)
{
    for (int i = 0; i < BLOCKS * COUNT; ++i) {
        int block = i / COUNT;
        int place = i % COUNT;
        if (b[i] != (float)(block * COUNT + COUNT - place)) {
            return 0;
        }
    }
    return 1;
}

/* In how many of the seeds the sample turned its elements. */
static int times_turned(const char *name)
{
    int times = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        float *b = outcome(name, seed);
        times += is_turned(b);
        free(b);
    }
    return times;
}

/* Asserts that the sample ends its process, and that its last words contain text. */
static void assert_dies(const char *name, const char *text)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        dup2(ends[1], STDERR_FILENO);
        free(outcome(name, 1));
        _exit(0);
    }
    close(ends[1]);
    char words[1 << 16];
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], words + length, sizeof words - 1 - length)) > 0) {
        length += (size_t)got;
    }
    words[length] = 0;
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        fail_msg("%s went through", name);
    }
    if (!strstr(words, text)) {
        fail_msg("%s died without \"%s\":\n%s", name, text, words);
    }
}

static void right_kernels_are_right(void **state)
{
    (void)state;
    assert_int_equal(times_turned("sample_right"), SEEDS);
    assert_int_equal(times_turned("sample_copy_right"), SEEDS);
    assert_int_equal(times_turned("sample_dynamic_right"), SEEDS);
}

static void missing_barriers_show(void **state)
{
    (void)state;
    assert_int_equal(times_turned("sample_no_barrier"), 0);
    assert_true(times_turned("sample_copy_no_wait") < SEEDS / 4);
    assert_true(times_turned("sample_copy_too_soon") < SEEDS / 4);
}

static void the_same_seed_does_the_same(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        float *first = outcome("sample_no_barrier", seed);
        float *second = outcome("sample_no_barrier", seed);
        assert_memory_equal(first, second, BLOCKS * COUNT * sizeof *first);
        free(first);
        free(second);
    }
}

static void warps_wait_for_themselves(void **state)
{
    (void)state;
    int wrong = 0;
    for (uint64_t seed = 0; seed < SEEDS; ++seed) {
        float *right = outcome("sample_warp_right", seed);
        float *bare = outcome("sample_warp_no_barrier", seed);
        for (int i = 0; i < BLOCKS * COUNT; ++i) {
            int from = i % 32 < 31 ? i + 1 : i - 31;
            assert_true(right[i / COUNT * COUNT + COUNT - 1 - i % COUNT] == (float)(from + 1));
        }
        wrong += memcmp(right, bare, BLOCKS * COUNT * sizeof *right) != 0;
        free(right);
        free(bare);
    }
    assert_int_equal(wrong, SEEDS);
}

static void shared_memory_begins_as_nan(void **state)
{
    (void)state;
    float *b = outcome("sample_shared_unset", 0);
    for (int i = 0; i < BLOCKS * COUNT; ++i) {
        assert_true(isnan(b[i]));
    }
    free(b);
}

static void faults_end_the_program(void **state)
{
    (void)state;
    assert_dies("sample_barrier_of_some", "diverge");
    assert_dies("sample_return_of_some", "has returned");
    assert_dies("sample_past_shared", "out of bounds");
    assert_dies("sample_past_global", "AddressSanitizer");
    assert_dies("sample_dynamic_past", "AddressSanitizer");
    assert_dies("sample_copy_unaligned", "aligned");
    assert_dies("sample_copy_past_global", "outside of every buffer");
    assert_dies("sample_mma_of_some", "diverge");
    assert_dies("sample_ldmatrix_unaligned", "aligned");
    assert_dies("sample_mma_no_tf32", "is no tf32");
}

static void assert_multiplies(const char *name)
{
    const struct cpu_kernel *kernel = cpu_kernel_find(name);
    assert_non_null(kernel);
    double d[16 * 8];
    scale_add_arguments arguments = {.m = COUNT, .n = 1, .b = d};
    struct cpu_launch launch = {{1, 1, 1}, {COUNT, 1, 1}, 0, 3};
    cpu_run(kernel, &launch, &arguments);
    for (int row = 0; row < 16; ++row) {
        for (int column = 0; column < 8; ++column) {
            double sum = 0;
            for (int k = 0; k < 16; ++k) {
                sum += (double)(row + k) * (k - column);
            }
            assert_true(d[row * 8 + column] == sum);
        }
    }
}

static void matrix_products_are_products(void **state)
{
    (void)state;
    assert_multiplies("sample_mma_right");
    assert_multiplies("sample_ldmatrix_right");
}

/* ---- The verdict on a split, common/verdict.h ---- */

/* What all threads of a block of two warps say. */
static bool is_refused(const uint32_t *words, int count_a, int count_b, bool short_k)
{
    verdict_arguments verdict = {
        .words = words, .count_a = count_a, .count = count_a + count_b, .short_k = short_k};
    float answers[COUNT];
    scale_add_arguments arguments = {.m = COUNT, .n = 1, .a = &verdict, .b = answers};
    struct cpu_launch launch = {{1, 1, 1}, {COUNT, 1, 1}, 0, 7};
    const struct cpu_kernel *kernel = cpu_kernel_find("sample_verdict");
    assert_non_null(kernel);
    cpu_run(kernel, &launch, &arguments);
    for (int i = 1; i < COUNT; ++i) {
        assert_true(answers[i] == answers[0]);
    }
    return answers[0] != 0;
}

#define MOST_WORDS 97

/* The word of a block that has seen magnitudes with these exponents, biased. */
static uint32_t word_of(int least, int largest) { return (uint32_t)largest << 8 | (uint32_t)(255 - least); }

/* Words of A, then of B, in memory of just their length, that say little but for one of each. */
static bool is_refused_at(int count_a, int at_a, uint32_t word_a, int count_b, int at_b, uint32_t word_b,
                          bool short_k)
{
    uint32_t *words = malloc((size_t)(count_a + count_b) * sizeof *words);
    assert_non_null(words);
    for (int i = 0; i < count_a + count_b; ++i) {
        words[i] = i % 5 == 0 ? 0 : word_of(127 - i % 3, 127 + i % 4);
    }
    words[at_a] = word_a;
    words[count_a + at_b] = word_b;
    bool refused = is_refused(words, count_a, count_b, short_k);
    free(words);
    return refused;
}

static void what_has_lost_bits_is_refused(void **state)
{
    (void)state;
    for (int exponent = 0; exponent < 255; ++exponent) {
        uint32_t words[2] = {word_of(exponent, exponent), word_of(127, 127)};
        assert_int_equal(is_refused(words, 1, 1, false), exponent < 127 - 100);
        words[1] = words[0];
        words[0] = 0;
        assert_int_equal(is_refused(words, 1, 1, true), exponent < 127 - 100);
    }
}

static void what_is_far_apart_is_refused_where_k_is_short(void **state)
{
    (void)state;
    for (int apart = 0; apart < 128; ++apart) {
        uint32_t words[2] = {word_of(100, 100 + apart), word_of(127, 127)};
        assert_int_equal(is_refused(words, 1, 1, true), apart > 64);
        assert_false(is_refused(words, 1, 1, false));
        /* Far apart in different words of one operand, but not of two. */
        uint32_t of_one[3] = {word_of(100, 101), word_of(100 + apart, 100 + apart), word_of(127, 127)};
        assert_int_equal(is_refused(of_one, 2, 1, true), apart > 64);
        uint32_t of_two[2] = {word_of(100, 100), word_of(100 + apart, 100 + apart)};
        assert_false(is_refused(of_two, 1, 1, true));
    }
}

static void every_word_is_heard(void **state)
{
    (void)state;
    uint32_t plain = word_of(120, 130);
    uint32_t tiny = word_of(26, 26);
    for (int count_a = 1; count_a < MOST_WORDS; count_a += 5) {
        for (int count_b = 1; count_b < MOST_WORDS; count_b += 7) {
            int at_a = 11 * count_b % count_a;
            int at_b = 13 * count_a % count_b;
            assert_true(is_refused_at(count_a, at_a, tiny, count_b, at_b, plain, false));
            assert_true(is_refused_at(count_a, at_a, plain, count_b, at_b, tiny, false));
            assert_true(is_refused_at(count_a, at_a, word_of(60, 130), count_b, at_b, plain, true));
            assert_true(is_refused_at(count_a, at_a, plain, count_b, at_b, word_of(120, 200), true));
            assert_false(is_refused_at(count_a, at_a, word_of(60, 130), count_b, at_b, plain, false));
            assert_false(is_refused_at(count_a, at_a, plain, count_b, at_b, plain, true));
        }
    }
    uint32_t nothing[2] = {0, 0};
    assert_false(is_refused(nothing, 1, 1, true));
}

/* ---- Conversions ---- */

/* The value of f16 bits by the definition. */
static double f16_value(int bits)
{
    int exponent = bits >> 10 & 31;
    double fraction = bits & 1023;
    double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return bits >> 15 ? -size : size;
}

static void every_f16_goes_up_and_comes_back(void **state)
{
    (void)state;
    for (int bits = 0; bits < 65536; ++bits) {
        float up = f32_from_f16((uint16_t)bits);
        if ((bits & 0x7fff) > 0x7c00) {
            assert_true(isnan(up));
            assert_true(isnan(f32_from_f16(f16_from_f32(up))));
        } else if ((bits & 0x7fff) == 0x7c00) {
            assert_true(isinf(up) && !signbit(up) == !(bits >> 15));
            assert_int_equal(f16_from_f32(up), bits);
        } else {
            assert_true((double)up == f16_value(bits));
            assert_int_equal(f16_from_f32(up), bits);
        }
    }
}

/* Between two neighbours: the nearer one, and of two equally near ones the even one. */
static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int bits = 0; bits < 0x7c00; ++bits) {
        double low = f16_value(bits);
        double high = bits == 0x7bff ? 65536.0 : f16_value(bits + 1);
        float middle = (float)((low + high) / 2);
        int even = bits & 1 ? bits + 1 : bits;
        for (int sign = 0; sign < 2; ++sign) {
            float s = sign ? -1.0f : 1.0f;
            int top = sign << 15;
            assert_int_equal(f16_from_f32(s * middle), top | even);
            assert_int_equal(f16_from_f32(s * nextafterf(middle, 0)), top | bits);
            assert_int_equal(f16_from_f32(s * nextafterf(middle, INFINITY)), top | (bits + 1));
        }
    }
    assert_int_equal(f16_from_f32(1e30f), 0x7c00);
    assert_int_equal(f16_from_f32(1e-30f), 0);
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (int bits = 0; bits < 65536; ++bits) {
        float up = f32_from_bf16((uint16_t)bits);
        if (isnan(up)) {
            assert_true(isnan(f32_from_bf16(bf16_from_f32(up))));
            continue;
        }
        assert_int_equal(bf16_from_f32(up), bits);
        if (isinf(up)) {
            continue;
        }
        uint32_t word = (uint32_t)bits << 16 | 0x8000;
        float middle;
        memcpy(&middle, &word, sizeof middle);
        assert_int_equal(bf16_from_f32(middle), bits & 1 ? bits + 1 : bits);
        assert_int_equal(bf16_from_f32(nextafterf(middle, 0)), bits);
        assert_int_equal(bf16_from_f32(nextafterf(middle, middle > 0 ? INFINITY : -INFINITY)), bits + 1);
    }
    uint32_t loud = 0x7f800001; /* a NaN whose upper half is an infinity's */
    float nan_value;
    memcpy(&nan_value, &loud, sizeof nan_value);
    assert_true(isnan(f32_from_bf16(bf16_from_f32(nan_value))));
}

static void tf32_rounds_to_nearest_ties_away(void **state)
{
    (void)state;
    static const uint32_t pairs[][2] = {
        {0x3f800000, 0x3f800000}, {0x3f800fff, 0x3f800000}, {0x3f801000, 0x3f802000},
        {0x3f802fff, 0x3f802000}, {0xbf803000, 0xbf804000}, {0x3fffffff, 0x40000000},
        {0x00000fff, 0x00000000}, {0x80001000, 0x80002000}, {0x7f7fffff, 0x7f800000},
        {0x7f800000, 0x7f800000}, {0xff800000, 0xff800000}, {0x7fffffff, 0x7fffe000},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; ++i) {
        assert_int_equal(tf32_from_f32(pairs[i][0]), pairs[i][1]);
    }
}

/* Every pair of exponents, the fractions of the first from word to word through all sorts of ties. */
static void tf32_pairs_round_as_one_and_keep_nans(void **state)
{
    (void)state;
    uint32_t fraction = 1;
    for (uint32_t i = 0; i < 512 * 512; ++i) {
        fraction = fraction * 1664525 + 1013904223;
        uint32_t pair[2] = {(i / 512) << 23 | ((fraction >> 9 & ~0xfffu) + (i % 3) * 0x7ff),
                            (i % 512) << 23 | fraction >> 9};
        uint32_t rounded[2] = {pair[0], pair[1]};
        tf32_pair_from_f32(&rounded[0], &rounded[1], (int)(i % 2));
        bool numbers = (pair[0] & 0x7fffffff) <= 0x7f800000 && (pair[1] & 0x7fffffff) <= 0x7f800000;
        for (int j = 0; j < 2; ++j) {
            assert_int_equal(rounded[j], numbers ? tf32_from_f32(pair[j]) : pair[j] & 0xffffe000);
        }
    }
    uint32_t nan = 0x7fffffff;
    uint32_t other_nan = 0xffffffff;
    tf32_pair_from_f32(&nan, &other_nan, 1);
    assert_int_equal(nan, 0x7fffe000);
    assert_int_equal(other_nan, 0xffffe000);
}

static void dot4_takes_signed_bytes_and_wraps(void **state)
{
    (void)state;
    assert_int_equal(dot4_s8(0x80808080u, 0x80808080u, 1), 4 * 16384 + 1);
    assert_int_equal(dot4_s8(0xff000000u, 0x02000000u, 5), 3);
    assert_int_equal(dot4_s8(0x01020304u, 0x05060708u, 0), 5 + 12 + 21 + 32);
    assert_int_equal(dot4_s8(0x01000000u, 0x01000000u, UINT32_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels_are_right),
        cmocka_unit_test(missing_barriers_show),
        cmocka_unit_test(the_same_seed_does_the_same),
        cmocka_unit_test(warps_wait_for_themselves),
        cmocka_unit_test(shared_memory_begins_as_nan),
        cmocka_unit_test(faults_end_the_program),
        cmocka_unit_test(matrix_products_are_products),
        cmocka_unit_test(what_has_lost_bits_is_refused),
        cmocka_unit_test(what_is_far_apart_is_refused_where_k_is_short),
        cmocka_unit_test(every_word_is_heard),
        cmocka_unit_test(every_f16_goes_up_and_comes_back),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(tf32_rounds_to_nearest_ties_away),
        cmocka_unit_test(tf32_pairs_round_as_one_and_keep_nans),
        cmocka_unit_test(dot4_takes_signed_bytes_and_wraps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
