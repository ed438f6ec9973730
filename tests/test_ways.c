/* test_ways.c - what is learned from measured ways: near them, far away, and of other ways. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "plan.h"
#include "ways.h"

static const struct way_place here = {.at = {10, 8, 9, 0}, .packs = {'-', '-'}};

static const struct kernel *row(const char *name)
{
    const struct kernel *kernel = catalog_find(name);
    assert_non_null(kernel);
    return kernel;
}

/* What ways of a row at one place that took so many times what was foreseen say of it. */
static struct ways *learn(const char *name, int often, double factor)
{
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int i = 0; i < often; i++) {
        assert_true(ways_add(ways, row(name), &here, 4, false, factor));
    }
    assert_true(ways_sort(ways));
    return ways;
}

static double ask(const struct ways *ways, const char *name, const struct way_place *place, int parts,
                  bool shares)
{
    struct ways_near near;
    ways_look_up(ways, row(name), place, &near);
    return ways_factor(&near, parts, shares);
}

static void nothing_is_known_without_measurements(void **state)
{
    (void)state;
    assert_true(ask(NULL, "simt_f32_32x32", &here, 1, false) == 1);
    struct ways *ways = learn("simt_f32_32x32", 0, 1);
    assert_true(ask(ways, "simt_f32_32x32", &here, 1, false) == 1);
    ways_close(ways);
    ways_close(NULL);
}

/* Rows of bf16 and f16 that are alike count as one; no two rows of one element do. */
static void each_row_of_a_type_is_its_own(void **state)
{
    (void)state;
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int i = 0; i < carat_catalog_count; i++) {
        for (int j = 0; j < i; j++) {
            if (carat_catalog[i].element == carat_catalog[j].element) {
                assert_true(ways_row(ways, &carat_catalog[i]) != ways_row(ways, &carat_catalog[j]));
            }
        }
    }
    assert_int_equal(ways_row(ways, row("wgmma_bf16_tn_224x128_r2")),
                     ways_row(ways, row("wgmma_f16_tn_224x128_r2")));
    ways_close(ways);
}

/* What is measured is kept in few bits: a factor near 1 to a fifth of a percent, one of 8 or an eighth to a little more than one. */
static const double ROUNDED_NEAR = 0.0022;
static const double ROUNDED = 0.013;

/* Many measurements are believed, one nearly. */
static void what_was_measured_is_learned(void **state)
{
    (void)state;
    for (int slower = 0; slower <= 1; slower++) {
        double factor = slower ? 1.5 : 0.7;
        struct ways *once = learn("simt_f32_32x32", 1, factor);
        struct ways *often = learn("simt_f32_32x32", 100, factor);
        double most = log(ask(once, "simt_f32_32x32", &here, 4, false)) / log(factor);
        double whole = log(ask(often, "simt_f32_32x32", &here, 4, false)) / log(factor);
        assert_true(most > 0.8 && most < 0.99);
        assert_true(whole > 0.99 && whole < 1 + 2 * ROUNDED_NEAR / fabs(log(factor)));
        ways_close(once);
        ways_close(often);
    }
}

/* The less, the farther away, in every direction; and nothing in the end. */
static void it_fades_with_the_distance(void **state)
{
    (void)state;
    struct ways *ways = learn("simt_f32_32x32", 3, 1.5);
    for (int axis = 0; axis < 5; axis++) {
        double before = ask(ways, "simt_f32_32x32", &here, 4, false);
        for (int i = 1; i <= 20; i++) {
            struct way_place place = here;
            if (axis < 4) {
                place.at[axis] += (float)(2 * i);
            }
            int parts = axis < 4 ? 4 : 4 << i;
            double factor = ask(ways, "simt_f32_32x32", &place, parts, false);
            assert_true(factor < before || (factor == 1 && before == 1));
            before = factor;
        }
        assert_true(before == 1);
    }
    for (unsigned traits = 1; traits < WAY_OTHER_TYPE; traits++) {
        struct way_place place = here;
        place.traits = traits;
        double factor = ask(ways, "simt_f32_32x32", &place, 4, false);
        assert_true(factor >= 1 && factor < ask(ways, "simt_f32_32x32", &here, 4, false));
    }
    ways_close(ways);
}

static void other_ways_learn_nothing(void **state)
{
    (void)state;
    struct ways *ways = learn("simt_f16_32x32", 10, 1.5);
    struct way_place packed = here;
    packed.packs[1] = 'p';
    assert_true(ask(ways, "simt_f16_32x32", &here, 4, false) > 1.3);
    assert_true(ask(ways, "simt_f16_32x32", &packed, 4, false) == 1);
    assert_true(ask(ways, "simt_f16_32x32", &here, 4, true) == 1);
    assert_true(ask(ways, "simt_f16_64x64", &here, 4, false) == 1);
    assert_true(ask(ways, "simt_s8_32x32", &here, 4, false) == 1);
    /* Times of f16 are as good for bf16. */
    assert_true(ask(ways, "simt_bf16_32x32", &here, 4, false) ==
                ask(ways, "simt_f16_32x32", &here, 4, false));
    ways_close(ways);
}

/* Absurd times are not believed. */
static void what_is_learned_is_bounded(void **state)
{
    (void)state;
    struct ways *fast = learn("simt_f32_32x32", 10, 1e-30);
    struct ways *slow = learn("simt_f32_32x32", 10, 1e30);
    double least = ask(fast, "simt_f32_32x32", &here, 4, false);
    double most = ask(slow, "simt_f32_32x32", &here, 4, false);
    assert_true(least > 0.3 && least < 0.5 && most > 2 && most < 3);
    ways_close(fast);
    ways_close(slow);
}

/* Where many were measured, others are expected to take as long as is usual, and a little more; a few say nothing of them. */
static void what_is_usual_is_expected_of_others(void **state)
{
    (void)state;
    struct way_place far = here;
    far.at[0] += 40;
    for (int many = 0; many <= 1; many++) {
        struct ways *ways = learn("simt_f32_32x32", many ? 6000 : 600, 1.25);
        double unknown = ask(ways, "simt_f32_64x64", &here, 1, false);
        assert_true(many ? unknown > 1.3 && unknown < 1.6 : unknown == 1);
        assert_true(ask(ways, "simt_f32_32x32", &far, 1, false) == unknown);
        assert_true(ask(ways, "simt_f32_32x32", &here, 4, true) == unknown);
        /* Of what is known, no more is expected than was measured. */
        assert_true(fabs(ask(ways, "simt_f32_32x32", &here, 4, false) - 1.25) < 0.01);
        ways_close(ways);
    }
}

/* A way that was timed of the very problem takes what it took, on average of its times, however far from foreseen. */
static void what_was_timed_is_taken_at_its_word(void **state)
{
    (void)state;
    struct way_place close = here;
    struct way_place beside = here;
    struct ways_near near;
    double factor = 0;
    close.accuracy = 1;
    beside.at[1] += 0.01F;
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int i = 0; i < 1000; i++) {
        assert_true(ways_add(ways, row("simt_f32_32x32"), &beside, 4, false, 1));
    }
    assert_true(ways_add(ways, row("simt_f32_32x32"), &here, 4, false, 8));
    assert_true(ways_add(ways, row("simt_f32_32x32"), &here, 7, false, 0.125));
    assert_true(ways_add(ways, row("simt_f32_32x32"), &here, 1, false, 1.017));
    assert_true(ways_add(ways, row("simt_f32_32x32"), &here, MOST_PARTS, false, 0.9));
    assert_true(ways_add(ways, row("simt_f32_64x64"), &here, 2, true, 2));
    assert_true(ways_add(ways, row("simt_f32_64x64"), &here, 2, true, 4.5));
    assert_true(ways_sort(ways));
    ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
    assert_true(ways_timed(&near, 7, false, &factor) && fabs(factor / 0.125 - 1) < ROUNDED);
    assert_true(ways_timed(&near, 4, false, &factor) && fabs(factor / 8 - 1) < ROUNDED);
    assert_true(ways_timed(&near, 1, false, &factor) && fabs(factor / 1.017 - 1) < ROUNDED_NEAR);
    assert_true(ways_timed(&near, MOST_PARTS, false, &factor) && fabs(factor / 0.9 - 1) < ROUNDED_NEAR);
    assert_true(ways_know_problem(&near));
    assert_false(ways_timed(&near, 4, true, &factor));
    assert_false(ways_timed(&near, 5, false, &factor));
    ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
    assert_true(ways_timed(&near, 2, true, &factor) && fabs(factor / 3 - 1) < ROUNDED);
    ways_look_up(ways, row("simt_f32_64x64"), &close, &near);
    assert_true(!ways_timed(&near, 2, true, &factor) && !ways_know_problem(&near));
    ways_look_up(ways, row("simt_f32_64x64"), &beside, &near);
    assert_true(!ways_timed(&near, 2, true, &factor) && !ways_know_problem(&near));
    ways_look_up(NULL, row("simt_f32_64x64"), &here, &near);
    assert_false(ways_timed(&near, 2, true, &factor));
    assert_true(fabs(factor / 3 - 1) < ROUNDED);
    /* On another device it is near, and no more. */
    ways_take_no_word(ways);
    ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
    assert_true(!ways_timed(&near, 2, true, &factor) && !ways_know_problem(&near));
    assert_true(ways_factor(&near, 2, true) > 1.5);
    ways_leave_out(ways);
    ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
    assert_false(ways_timed(&near, 2, true, &factor));
    ways_close(ways);
}

/* What lies under ways is near, and was timed unless they know better, or it is of a device whose word is not taken. */
static void what_lies_under_gives_way(void **state)
{
    (void)state;
    struct way_place other = here;
    struct ways_near near;
    double factor = 0;
    other.at[0] += 1;
    for (int word = 1; word >= 0; word--) {
        struct ways *under = ways_open();
        struct ways *ways = ways_open();
        assert_true(under && ways);
        assert_true(ways_add(under, row("simt_f32_32x32"), &here, 4, false, 8));
        assert_true(ways_add(under, row("simt_f32_32x32"), &here, 2, false, 3));
        assert_true(ways_add(under, row("simt_f32_32x32"), &other, 4, false, 5));
        assert_true(ways_add(under, row("simt_f32_64x64"), &here, 4, true, 7));
        assert_true(ways_add(under, row("simt_f32_128x128"), &here, 4, false, 0.5));
        assert_true(ways_add(ways, row("simt_f32_32x32"), &here, 4, false, 2));
        assert_true(ways_sort(under) && ways_sort(ways));
        ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
        assert_false(ways_know_problem(&near));
        ways_lie_over(ways, under);
        if (!word) {
            ways_take_no_word(under);
        }
        ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
        assert_true(ways_timed(&near, 4, false, &factor));
        assert_true(fabs(factor / 2 - 1) < ROUNDED);
        assert_int_equal(ways_timed(&near, 2, false, &factor), word);
        assert_true(ways_factor(&near, 2, false) > 1.5); /* it is near all the same */
        ways_look_up(ways, row("simt_f32_32x32"), &other, &near);
        assert_int_equal(ways_timed(&near, 4, false, &factor), word);
        ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
        assert_int_equal(ways_timed(&near, 4, true, &factor), word);
        assert_int_equal(ways_know_problem(&near), word);
        ways_look_up(ways, row("simt_f32_128x128"), &here, &near);
        double least = ways_least_factor(&near, false);
        assert_true(least < 0.5 + ROUNDED && least <= ways_factor(&near, 4, false));
        ways_leave_out(ways);
        ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
        assert_false(ways_timed(&near, 4, false, &factor) || ways_know_problem(&near));
        ways_close(ways);
        ways_close(under);
    }
}

/* What ways usually take is what all of them do, in however many layers. */
static void the_usual_is_of_all_layers(void **state)
{
    (void)state;
    struct ways *under = learn("simt_f32_32x32", 3000, 2);
    struct ways *ways = learn("simt_f32_64x64", 3000, 1);
    double alone = ask(ways, "simt_f32_128x128", &here, 4, false);
    ways_lie_over(ways, under);
    double both = ask(ways, "simt_f32_128x128", &here, 4, false);
    assert_true(alone == 1);
    assert_true(both > sqrt(2) && both < 1.3 * sqrt(2)); /* and the caution of what is not known */
    ways_close(ways);
    ways_close(under);
}

/* A problem of the other of two types whose rows are alike is learned from, but was not timed itself. */
static void another_type_is_no_timed_problem(void **state)
{
    (void)state;
    struct ways *ways = learn("simt_f32_32x32", 10, 1.5);
    struct way_place other = here;
    struct ways_near near;
    double factor;
    other.traits ^= WAY_OTHER_TYPE;
    ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
    assert_true(ways_timed(&near, 4, false, &factor));
    ways_look_up(ways, row("simt_f32_32x32"), &other, &near);
    assert_false(ways_timed(&near, 4, false, &factor));
    double learned = ask(ways, "simt_f32_32x32", &other, 4, false);
    ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
    assert_true(learned > 1.4 && learned == ways_factor(&near, 4, false));
    ways_close(ways);
}

/* Who judges what is learned may leave out what was measured of the very problem, in whatever way. */
static void the_problem_itself_is_left_out(void **state)
{
    (void)state;
    struct ways *ways = learn("simt_f32_32x32", 10, 1.5);
    struct way_place beside = here;
    beside.at[2] += 0.01F;
    ways_leave_out(ways);
    assert_true(ask(ways, "simt_f32_32x32", &here, 4, false) == 1);
    assert_true(ask(ways, "simt_f32_32x32", &here, 8, false) == 1);
    assert_true(ask(ways, "simt_f32_32x32", &beside, 4, false) > 1.4);
    beside = here;
    beside.traits = WAY_OFF_D;
    assert_true(ask(ways, "simt_f32_32x32", &beside, 4, false) > 1.2);
    ways_close(ways);
}

/* All numbers of parts that there may be. */
static void many_numbers_of_parts_are_told_apart(void **state)
{
    (void)state;
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int parts = 1; parts <= MOST_PARTS; parts++) {
        assert_true(ways_add(ways, row("simt_f32_32x32"), &here, parts, false, parts < 16 ? 1.5 : 0.8));
    }
    assert_true(ways_sort(ways));
    assert_true(ask(ways, "simt_f32_32x32", &here, 2, false) > 1.4);
    assert_true(ask(ways, "simt_f32_32x32", &here, 256, false) < 0.85);
    ways_close(ways);
}

/* No factor is less than the least one, and where one thing alone is known it is hardly more. */
static void the_least_factor_bounds_all(void **state)
{
    (void)state;
    struct ways *ways = ways_open();
    struct ways_near near;
    assert_non_null(ways);
    for (int i = 0; i < 6000; i++) {
        struct way_place place = here;
        place.at[0] += (float)(i % 5);
        place.traits = (unsigned)i % WAY_TRAITS;
        assert_true(ways_add(ways, row("simt_f32_32x32"), &place, 1 + i % 9, i % 9 == 0, i % 7 ? 1.3 : 0.7));
    }
    for (int i = 0; i < 1000; i++) {
        assert_true(ways_add(ways, row("simt_f32_64x64"), &here, 4, false, 0.7));
    }
    assert_true(ways_sort(ways));
    for (int i = 0; i < 200; i++) {
        struct way_place place = here;
        place.at[1] += (float)i / 8;
        ways_look_up(ways, row("simt_f32_32x32"), &place, &near);
        double least = ways_least_factor(&near, i % 3 == 0);
        assert_true(ways_factor(&near, 1 + i % 20, i % 3 == 0) >= least && least > 0.69);
    }
    ways_look_up(ways, row("simt_f32_64x64"), &here, &near);
    assert_true(ways_factor(&near, 4, false) < 1.001 * ways_least_factor(&near, false));
    ways_look_up(NULL, row("simt_f32_64x64"), &here, &near);
    double nothing = ways_least_factor(&near, false);
    assert_true(nothing > 0.999 && nothing <= ways_factor(&near, 4, false));
    ways_close(ways);
}

enum { SIDE = 300 };

/* Spot i of a grid of SIDE * SIDE, a unit apart. */
static struct way_place grid_place(int i)
{
    struct way_place place = here;
    int step = i / SIDE;
    place.at[0] += (float)step;
    place.at[1] += (float)(i % SIDE);
    return place;
}

/* Of more spots than the bits of a sample can number, each is found by what was timed there. */
static void every_spot_is_found(void **state)
{
    (void)state;
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int i = 0; i < SIDE * SIDE; i++) {
        struct way_place place = grid_place(i);
        const char *name = i % 7 == 0 ? "simt_f32_64x64" : "simt_f32_32x32";
        assert_true(ways_add(ways, row(name), &place, 1 + i % 5, false, i % 2 == 0 ? 1.25 : 0.8));
    }
    assert_true(ways_sort(ways));
    for (int i = 0; i < SIDE * SIDE; i++) {
        struct way_place place = grid_place(i);
        struct ways_near near;
        double factor = 0;
        ways_look_up(ways, row(i % 7 == 0 ? "simt_f32_64x64" : "simt_f32_32x32"), &place, &near);
        assert_true(ways_timed(&near, 1 + i % 5, false, &factor));
        assert_true(fabs(factor / (i % 2 == 0 ? 1.25 : 0.8) - 1) < ROUNDED_NEAR);
        assert_false(ways_timed(&near, 1 + (i + 1) % 5, false, &factor));
        ways_look_up(ways, row(i % 7 == 0 ? "simt_f32_32x32" : "simt_f32_64x64"), &place, &near);
        assert_false(ways_know_problem(&near));
    }
    ways_close(ways);
}

/* Where everything takes a thousand times as long as was foreseen, or a thousandth, ways are told from each other as well. */
static void what_all_have_in_common_does_not_count(void **state)
{
    (void)state;
    static const double factors[] = {0.3, 0.7, 1, 1.3, 6};
    enum { COUNT = sizeof(factors) / sizeof(factors[0]) };
    static const double common[] = {1000, 0.001};
    for (size_t c = 0; c < sizeof(common) / sizeof(common[0]); c++) {
        struct ways *ways = ways_open();
        struct ways_near near;
        assert_non_null(ways);
        for (int i = 0; i < COUNT; i++) {
            assert_true(ways_add(ways, row("simt_f32_32x32"), &here, i + 1, false, common[c] * factors[i]));
        }
        assert_true(ways_sort(ways));
        ways_look_up(ways, row("simt_f32_32x32"), &here, &near);
        for (int i = 0; i < COUNT; i++) {
            double factor = 0;
            assert_true(ways_timed(&near, i + 1, false, &factor));
            assert_true(fabs(factor / (common[c] * factors[i]) - 1) < ROUNDED);
        }
        ways_close(ways);
    }
}

/* One spot more than can be numbered is too many, which is not to be without memory. */
static void too_many_spots_are_told(void **state)
{
    (void)state;
    for (int more = 0; more <= 1; more++) {
        struct ways *ways = ways_open();
        assert_non_null(ways);
        for (int i = 0; i < WAYS_MOST_PROBLEMS + more; i++) {
            struct way_place place = grid_place(i);
            assert_true(ways_add(ways, row("simt_f32_32x32"), &place, 1, false, 1));
        }
        assert_int_equal(ways_sort(ways), !more);
        assert_int_equal(ways_are_too_many(ways), more);
        ways_close(ways);
    }
    assert_false(ways_are_too_many(NULL));
}

/* Written and read where they lie, ways say the same. */
static void an_image_says_the_same(void **state)
{
    (void)state;
    enum { ROOM = 1 << 20 };
    unsigned char *image = malloc(ROOM);
    FILE *file = image ? fmemopen(image, ROOM, "wb") : NULL;
    struct ways *ways = learn("simt_f32_32x32", 7, 1.5);
    assert_non_null(file);
    assert_true(ways_write(ways, file));
    long size = ftell(file);
    assert_int_equal(fclose(file), 0);
    assert_true(size > 0 && size < ROOM);
    struct ways *read = ways_of_image(image);
    assert_non_null(read);
    struct way_place beside = here;
    beside.at[0] += 1;
    for (int parts = 1; parts < 10; parts++) {
        assert_true(ask(read, "simt_f32_32x32", &here, parts, false) ==
                    ask(ways, "simt_f32_32x32", &here, parts, false));
        assert_true(ask(read, "simt_f32_32x32", &beside, parts, false) ==
                    ask(ways, "simt_f32_32x32", &beside, parts, false));
    }
    struct ways_near near;
    double factor;
    ways_look_up(read, row("simt_f32_32x32"), &here, &near);
    assert_true(ways_timed(&near, 4, false, &factor) && fabs(factor / 1.5 - 1) < ROUNDED);
    ways_close(read);
    char little[64];
    file = fmemopen(little, sizeof(little), "wb");
    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    assert_false(ways_write(ways, file));
    fclose(file);
    ways_close(ways);
    free(image);
}

/* Rows are told apart, whatever the order in which they come. */
static void rows_are_sorted(void **state)
{
    (void)state;
    struct ways *ways = ways_open();
    assert_non_null(ways);
    for (int i = 0; i < 30; i++) {
        assert_true(ways_add(ways, &carat_catalog[carat_catalog_count - 1], &here, 1, false, 1.25));
        assert_true(ways_add(ways, row("simt_f32_64x64"), &here, 1, false, 1.5));
        assert_true(ways_add(ways, &carat_catalog[0], &here, 1, false, 2));
    }
    assert_true(ways_sort(ways));
    const struct {
        const char *name;
        double factor;
    } expected[] = {{carat_catalog[0].name, 2},
                    {carat_catalog[carat_catalog_count - 1].name, 1.25},
                    {"simt_f32_64x64", 1.5},
                    {"simt_f32_32x32", 1}};
    for (int i = 0; i < 4; i++) {
        double factor = ask(ways, expected[i].name, &here, 1, false);
        assert_true(fabs(factor / expected[i].factor - 1) < 0.03);
    }
    ways_close(ways);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_without_measurements),
        cmocka_unit_test(each_row_of_a_type_is_its_own),
        cmocka_unit_test(what_was_measured_is_learned),
        cmocka_unit_test(it_fades_with_the_distance),
        cmocka_unit_test(other_ways_learn_nothing),
        cmocka_unit_test(what_is_learned_is_bounded),
        cmocka_unit_test(what_is_usual_is_expected_of_others),
        cmocka_unit_test(what_was_timed_is_taken_at_its_word),
        cmocka_unit_test(what_lies_under_gives_way),
        cmocka_unit_test(the_usual_is_of_all_layers),
        cmocka_unit_test(another_type_is_no_timed_problem),
        cmocka_unit_test(the_problem_itself_is_left_out),
        cmocka_unit_test(many_numbers_of_parts_are_told_apart),
        cmocka_unit_test(the_least_factor_bounds_all),
        cmocka_unit_test(every_spot_is_found),
        cmocka_unit_test(too_many_spots_are_told),
        cmocka_unit_test(what_all_have_in_common_does_not_count),
        cmocka_unit_test(an_image_says_the_same),
        cmocka_unit_test(rows_are_sorted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
