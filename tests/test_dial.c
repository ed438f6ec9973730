/*
 * test_dial.c - what the settings of accuracy promise for f32, held against a model of their arithmetic (see
 * dial_model.h) on all families of inputs, at small sizes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "accuracy_families.h"
#include "dial_model.h"

enum { M = 20, N = 24, DEEPEST = 4096 + 97, SEEDS = 2 };

/* A unit in the first place of the error bounds: half a unit in the last place of 1. */
static const double u = 0x1p-24;

/* Products whose sums are not compensated are of short k. */
#define NEVER INT32_MAX

/* The unit of Hopper keeps two bits more than f32, that of Ampere one, and it adds 8 products at once. */
#define HOPPER                                                                                               \
    {                                                                                                        \
        .extra_bits = 2, .at_once = 16                                                                       \
    }
#define AMPERE                                                                                               \
    {                                                                                                        \
        .extra_bits = 1, .at_once = 8                                                                        \
    }

/* What multiplies planes moves sums every 32 of k, */
static const struct dial device_dial = {.unit = HOPPER,
                                        .move = 32,
                                        .order = ORDER_BY_MOVE,
                                        .chains = 1,
                                        .least_k = 32,
                                        .far_apart_k = 2048,
                                        .long_k = 4096,
                                        .rescue_moves_k = 128,
                                        .rescue_move = 16};

/* and what splits in registers every 16, to the sums of the warps that share k. */
static const struct dial dials[] = {
    {.unit = HOPPER,
     .move = 32,
     .order = ORDER_BY_MOVE,
     .chains = 1,
     .least_k = 32,
     .far_apart_k = 2048,
     .long_k = 4096,
     .rescue_moves_k = 128,
     .rescue_move = 16},
    {.unit = HOPPER,
     .move = 16,
     .order = ORDER_BY_MOVE,
     .chains = 2,
     .least_k = 32,
     .far_apart_k = 2048,
     .long_k = NEVER,
     .rescue_moves_k = 128,
     .rescue_move = 16},
    {.unit = HOPPER,
     .move = 16,
     .order = ORDER_BY_MOVE,
     .chains = 8,
     .least_k = 32,
     .far_apart_k = 2048,
     .long_k = NEVER,
     .rescue_moves_k = 128,
     .rescue_move = 16},
    {.unit = AMPERE,
     .move = 16,
     .order = ORDER_BY_MOVE,
     .chains = 4,
     .least_k = 32,
     .far_apart_k = 2048,
     .long_k = NEVER,
     .rescue_moves_k = 128,
     .rescue_move = 16},
};
enum { DIALS = sizeof(dials) / sizeof(dials[0]) };

/*
 * Two f16 parts keep fewer bits: on average no worse than a chain from k = 96 on. Where k is long all moves are modelled in
 * pairs; a kernel takes a few singly.
 */
static const struct dial close_dial = {
    .unit = HOPPER, .move = 32, .order = ORDER_BY_MOVE, .chains = 1, .least_k = 96, .pairs_k = 4096};

static float a[M * DEEPEST];
static float b[DEEPEST * N];
static float c[M * N];
static float chain[M * N];

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

/* A number of any sign and significand, and an exponent from least to most. */
static float any_float(uint64_t *state, int least, int most)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    uint32_t word = (uint32_t)(*state >> 32);
    float significand = 1 + (float)(word & 0x7fffff) * 0x1p-23f;
    int exponent = least + (int)((*state >> 8 & 0xffffff) % (uint64_t)(most - least + 1));
    return ldexpf(word >> 31 ? -significand : significand, exponent);
}

/* ---- Parts ---- */

static void three_parts_keep_every_bit(void **test)
{
    (void)test;
    uint64_t state = 1;
    for (int i = 0; i < 100000; i++) {
        float x = any_float(&state, -100, 127);
        float parts[3];
        split_bf16(x, parts);
        for (int part = 0; part < 3; part++) {
            assert_int_equal(bits_of(parts[part]) & 0xffff, 0);
        }
        assert_true((double)parts[0] + parts[1] + parts[2] == x);
        assert_true(fabsf(parts[1]) <= 0x1p-7f * fabsf(x));
        assert_true(fabsf(parts[2]) <= 0x1p-8f * fabsf(parts[1]));
    }
}

static void parts_of_the_largest_number_are_finite(void **test)
{
    (void)test;
    float parts[3];
    split_bf16(-0x1.fffffep127f, parts);
    assert_true(parts[0] == -0x1.fep127f);
    assert_true(isfinite(parts[1]) && isfinite(parts[2]));
    assert_true((double)parts[0] + parts[1] + parts[2] == -0x1.fffffep127);
}

static void smaller_numbers_lose_bits(void **test)
{
    (void)test;
    float parts[3];
    split_bf16(0x1.ffff02p-124f, parts);
    assert_true((double)parts[0] + parts[1] + parts[2] != 0x1.ffff02p-124);
}

static void two_parts_keep_22_bits(void **test)
{
    (void)test;
    uint64_t state = 3;
    for (int i = 0; i < 100000; i++) {
        float x = any_float(&state, -40, 14);
        float parts[2];
        split_f16(x, parts);
        double off = fabs((double)x - parts[0] - parts[1]);
        assert_true(off <= fmax(0x1p-23 * fabsf(x), 0x1p-25));
        for (int part = 0; part < 2; part++) {
            assert_true(round_to_f16(parts[part]) == parts[part]);
        }
        assert_true(fabsf(parts[1]) <= fmaxf(0x1p-11f * fabsf(x), 0x1p-25f));
    }
    assert_true(round_to_f16(0x1.002p0f) == 1 && round_to_f16(0x1.006p0f) == 0x1.008p0f);
    assert_true(round_to_f16(0x1.8p-24f) == 0x1p-23f && round_to_f16(0x1p-25f) == 0);
    assert_true(round_to_f16(-0x1.ffcp14f) == -0x1.ffcp14f);
}

/* ---- The unit ---- */

/* 1 plus eight products of 2^-place. */
static float one_and_eight(const struct tensor_unit *unit, int place)
{
    float x[UNIT_K] = {1};
    float y[UNIT_K] = {1};
    for (int i = 1; i <= 8; i++) {
        x[i] = 0x1p-12f;
        y[i] = ldexpf(1, 12 - place);
    }
    return tensor_step(unit, 0, x, y);
}

static void the_unit_keeps_its_extra_bits(void **test)
{
    (void)test;
    for (int extra = 0; extra <= 3; extra++) {
        struct tensor_unit unit = {.extra_bits = extra, .at_once = 16};
        for (int place = 23; place <= 27; place++) {
            double sum = 1 + 8 * ldexp(1, -place);
            assert_true(one_and_eight(&unit, place) ==
                        (place <= 23 + extra ? trunc(sum * 0x1p23) * 0x1p-23 : 1));
        }
    }
}

static void the_unit_cuts_towards_zero(void **test)
{
    (void)test;
    struct tensor_unit unit = {.extra_bits = 3, .at_once = 16};
    float x[UNIT_K] = {1, 1};
    float y[UNIT_K] = {1, 0x1.8p-23f};
    assert_true(tensor_step(&unit, 0, x, y) == 0x1.000002p0f);
    assert_true(tensor_step(&unit, 1, x, y) == 2);
    y[0] = -1;
    y[1] = -0x1.8p-23f;
    assert_true(tensor_step(&unit, 0, x, y) == -0x1.000002p0f);
}

static void a_large_product_sets_its_own_exponent(void **test)
{
    (void)test;
    /* 1.5 x 1.5 is 2.25: with its own exponent, the last place that is kept is twice as large. */
    float x[UNIT_K] = {1.5f, 0x1p-12f, 0x1p-12f, 0x1p-12f, 0x1p-12f};
    float y[UNIT_K] = {1.5f, 0x1p-12f, 0x1p-12f, 0x1p-12f, 0x1p-12f};
    struct tensor_unit apart = {.extra_bits = 1, .at_once = 16};
    struct tensor_unit normal = {.extra_bits = 1, .at_once = 16, .products_normal = true};
    assert_true(tensor_step(&apart, 0, x, y) == 2.25f + 0x1p-22f);
    assert_true(tensor_step(&normal, 0, x, y) == 2.25f);
}

static void the_unit_overflows_and_underflows(void **test)
{
    (void)test;
    struct tensor_unit unit = HOPPER;
    float x[UNIT_K] = {0x1p64f, 0x1p-75f};
    float y[UNIT_K] = {0x1p64f, 0};
    assert_true(isinf(tensor_step(&unit, 0, x, y)));
    x[0] = 0;
    y[1] = 0x1.8p-74f;
    assert_true(tensor_step(&unit, 0, x, y) == 0x1p-149f);
    y[1] = NAN;
    assert_true(isnan(tensor_step(&unit, 0, x, y)));
}

static void eight_at_once_are_cut_before_the_rest(void **test)
{
    (void)test;
    /* 1 and eight times 2^-25, of which the unit keeps nothing beside 1, and all among themselves. */
    float x[UNIT_K] = {0};
    float y[UNIT_K] = {0};
    for (int i = 0; i < 8; i++) {
        x[i] = 0x1p-12f;
        y[i] = 0x1p-13f;
    }
    x[8] = y[8] = 1;
    struct tensor_unit unit = AMPERE;
    assert_true(tensor_step(&unit, 0, x, y) == 1 + 0x1p-22f);
    unit.at_once = 16;
    assert_true(tensor_step(&unit, 0, x, y) == 1);
}

/* ---- The guard ---- */

static void fill(enum accuracy_family family, uint64_t seed, int64_t k)
{
    assert_int_equal(accuracy_fill(family, seed, M, N, k, a, b), CARAT_OK);
}

/* Whether `standard` gives the bits that the row which rescues gives, NaN for NaN; of short k, those of a chain. */
static bool is_from_f32(const struct dial *dial, int64_t k)
{
    model_standard(dial, M, N, k, a, b, c);
    if (k < dial->least_k) {
        model_strict(M, N, k, 0, a, b, chain);
    } else {
        model_rescue(dial, M, N, k, a, b, chain);
    }
    for (int i = 0; i < M * N; i++) {
        if (!(isnan(c[i]) && isnan(chain[i])) && bits_of(c[i]) != bits_of(chain[i])) {
            return false;
        }
    }
    return true;
}

static void small_elements_and_short_products_stay_f32(void **test)
{
    (void)test;
    enum { K = 2048 };
    fill(ACCURACY_NORMAL, 1, K);
    assert_false(standard_is_guarded(&device_dial, M, N, K, a, b));
    assert_false(is_from_f32(&device_dial, K));
    assert_false(is_from_f32(&device_dial, 32));
    assert_true(is_from_f32(&device_dial, 31));
    b[77] = 0x1.fffffep-101f;
    assert_true(standard_is_guarded(&device_dial, M, N, K, a, b));
    assert_true(is_from_f32(&device_dial, K));
    b[77] = 0x1p-100f;
    assert_false(standard_is_guarded(&device_dial, M, N, K, a, b));
    b[77] = 0;
    assert_false(standard_is_guarded(&device_dial, M, N, K, a, b));
    fill(ACCURACY_DENORMALS, 1, K);
    assert_true(is_from_f32(&device_dial, K));
}

static void specials_come_out_as_from_f32(void **test)
{
    (void)test;
    enum { K = 2048 }; /* long enough for any range of exponents */
    static const float specials[] = {INFINITY, -INFINITY, NAN, 0x1.fffffep127f};
    for (int i = 0; i < 4; i++) {
        fill(ACCURACY_NORMAL, 2, K);
        a[3 + 7 * M] = specials[i];
        b[7 + 5 * K] = 4;
        assert_false(standard_is_guarded(&device_dial, M, N, K, a, b));
        model_standard(&device_dial, M, N, K, a, b, c);
        model_strict(M, N, K, 0, a, b, chain);
        assert_false(isfinite(chain[3 + 5 * M]));
        for (int at = 0; at < M * N; at++) {
            assert_true(isnan(chain[at])   ? isnan(c[at])
                        : isinf(chain[at]) ? c[at] == chain[at]
                                           : isfinite(c[at]));
        }
    }
}

static void large_products_that_cancel_stay_finite(void **test)
{
    (void)test;
    /* Products near 2^127 of both signs in turn: by the range they might overflow, and they do not. */
    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    for (int l = 0; l < 64; l++) {
        a[l * M] = l % 2 ? -0x1.2p63f : 0x1.2p63f;
        b[l] = l % 4 ? 0x1.6p63f : 0x1.4p63f;
    }
    assert_false(standard_is_guarded(&device_dial, M, N, 64, a, b));
    model_standard(&device_dial, M, N, 64, a, b, c);
    model_strict(M, N, 64, 0, a, b, chain);
    assert_true(isfinite(chain[0]) && c[0] == chain[0]);
}

/* ---- The guard of close ---- */

static bool close_refuses(int64_t k) { return close_is_guarded(&close_dial, M, N, k, a, b, 0, 0); }

/* Of the families that are easy none is refused, at any k from which parts are used; of the others those that are far apart. */
static void families_that_are_easy_are_close(void **test)
{
    (void)test;
    static const int64_t ks[] = {96, 100, 127, 128, 129, 191, 200, 1000, 1024, DEEPEST};
    static const enum accuracy_family far[] = {
        ACCURACY_SPREAD,      ACCURACY_EXPONENTS, ACCURACY_SCALED,      ACCURACY_HUGE,    ACCURACY_DENORMALS,
        ACCURACY_VANDERMONDE, ACCURACY_IDENTITY,  ACCURACY_PERMUTATION, ACCURACY_ONE_HOT,
    };
    for (int i = 0; i < 10; i++) {
        for (int family = 0; family < ACCURACY_FAMILIES; family++) {
            fill((enum accuracy_family)family, 1 + (uint64_t)i, ks[i]);
            if (accuracy_family_easy((enum accuracy_family)family)) {
                assert_false(close_refuses(ks[i]));
            }
        }
        for (size_t f = 0; f < sizeof(far) / sizeof(far[0]); f++) {
            fill(far[f], 1 + (uint64_t)i, ks[i]);
            assert_true(close_refuses(ks[i]));
        }
    }
}

/* A column that is nearly zero in one slice of k is no matter, nor are rows of zeros; one that is so in all of them is. */
static void what_counts_is_all_of_k(void **test)
{
    (void)test;
    enum { K = 512 };
    fill(ACCURACY_NORMAL, 1, K);
    for (int l = 128; l < 192; l++) {
        b[l + 3 * K] *= 0x1p-20f;
    }
    assert_false(close_refuses(K));
    for (int l = 0; l < K; l++) {
        b[l + 3 * K] *= 0x1p-20f;
    }
    assert_true(close_refuses(K));
    fill(ACCURACY_NORMAL, 1, K);
    for (int l = 0; l < K; l++) {
        a[5 + l * M] = 0;
    }
    assert_false(close_refuses(K));
}

static void numbers_that_f16_cannot_scale_are_refused(void **test)
{
    (void)test;
    enum { K = 256 };
    static const float far[] = {0x1p51f, INFINITY, NAN};
    for (int i = 0; i < 3; i++) {
        fill(ACCURACY_NORMAL, 2, K);
        assert_false(close_refuses(K));
        a[7 + 100 * M] = far[i];
        assert_true(close_refuses(K));
        model_close(&close_dial, &device_dial, M, N, K, a, b, c);
        model_standard(&device_dial, M, N, K, a, b, chain);
        assert_memory_equal(c, chain, sizeof(c));
    }
    for (int exponent = -60; exponent <= 60; exponent += 5) {
        fill(ACCURACY_POSITIVE, 2, K);
        for (int i = 0; i < M * K; i++) {
            a[i] = ldexpf(a[i], exponent);
        }
        assert_int_equal(close_refuses(K), exponent < -45 || exponent > 50);
    }
}

/*
 * What the guard lets pass may lose no more than 4 u of |A||B| below the range of f16: a slice whose rows have 5 in 8
 * large elements each, all others just below that range with bits to lose, and nothing there of the other operand.
 */
static void what_is_left_out_is_bounded(void **test)
{
    (void)test;
    enum { K = 128 };
    memset(a, 0, sizeof(a));
    memset(b, 0, sizeof(b));
    for (int l = 0; l < K; l++) {
        bool tiny_a = l % 8 < 3;
        bool tiny_b = l % 8 >= 5;
        for (int i = 0; i < M; i++) {
            a[i + l * M] = i == 0 && l == 3 ? 1 : tiny_a ? 0x1.fffffep-18f : 0x1p-6f;
        }
        for (int j = 0; j < N; j++) {
            b[l + j * K] = j == 0 && l == 3 ? 1 : tiny_b ? 0x1.fffffep-18f : 0x1p-6f;
        }
        /* Where A is tiny B is as large as a block allows. */
        for (int j = 1; j < N && tiny_a; j++) {
            b[l + j * K] = 0x1.fffffep0f;
        }
    }
    assert_false(close_refuses(K));
    model_close(&close_dial, &device_dial, M, N, K, a, b, c);
    assert_true(model_compare(M, N, K, a, b, c).most <= (32.5 + K / 32.0) * u);
}

/*
 * What others multiply where a row (column) has only zeros says nothing of its entries: here one has nothing but zeros in the
 * first slice, and nothing but what f16 loses bits of in the other.
 */
static void zeros_are_no_evidence(void **test)
{
    (void)test;
    enum { K = 128 };
    for (int of_b = 0; of_b < 2; of_b++) {
        fill(ACCURACY_POSITIVE, 3, K);
        for (int l = 0; l < K; l++) {
            float *element = of_b ? &b[l] : &a[l * M];
            *element = l < K / 2 ? 0 : *element * 0x1p-30f;
        }
        assert_true(close_refuses(K));
        model_close(&close_dial, &device_dial, M, N, K, a, b, c);
        assert_true(model_compare(M, N, K, a, b, c).most <= (32.5 + K / 32.0) * u);
    }
}

/* ---- The promises ---- */

static const int64_t depths[] = {32, 33, 48, 64, 65, 96, 128, 256, 512, 1024, 4096, DEEPEST};
enum { DEPTHS = sizeof(depths) / sizeof(depths[0]) };

/* What a family gave at one depth over all seeds: the largest error and the sum of means. */
struct total {
    double most;
    double mean;
    int64_t different;
};

static void add(struct total *total, struct model_errors errors)
{
    total->most = fmax(total->most, errors.most);
    total->mean += errors.mean;
    total->different += errors.different;
}

/*
 * In half units in the last place of |A||B|, see docs/accuracy.md. A term is rounded as often as its chain goes on,
 * and then as there are chains to add.
 */
static double standard_bound(const struct dial *dial, int64_t k)
{
    double at_once = dial->unit.at_once;
    double step = 2 + 2 * at_once / (1 << dial->unit.extra_bits);
    double steps = ceil((double)(k < dial->move ? k : dial->move) / at_once);
    double moves = ceil((double)k / dial->move);
    double moved = k < dial->long_k ? ceil(moves / dial->chains) - 1 + fmin(moves, dial->chains) - 1 : 2.1;
    return 1.02 * step * steps + 2.1 + moved;
}

/* Of a pair of moves the second's small products too go to an accumulator that has its full size: 8 cuts instead of 2. */
static double close_bound(int64_t k)
{
    const double cuts = 1.02 * 10 * 2;
    const double parts = 12.1;
    if (k < close_dial.pairs_k) {
        return cuts + parts + ceil((double)k / 32) - 1;
    }
    return 4 * cuts + parts + ceil((double)k / 64) - 1;
}

/*
 * Other libraries sum long k in several chains where D is small: such as cublasSgemm does 512 x 512 x 4096, to the bit.
 */
enum { CHAIN_OF_LONG_K = 256 };

/* A family's totals of one depth. */
struct totals {
    struct total chain;
    struct total chains; /* added in the end */
    struct total standard[DIALS];
    bool strict; /* with some seed all of them were */
    struct total close;
};

static struct totals measure(enum accuracy_family family, int64_t k)
{
    struct totals totals = {0};
    for (uint64_t seed = 1; seed <= (k >= 4096 ? 1 : SEEDS); seed++) {
        fill(family, seed, k);
        model_strict(M, N, k, 0, a, b, chain);
        add(&totals.chain, model_compare(M, N, k, a, b, chain));
        model_strict(M, N, k, CHAIN_OF_LONG_K, a, b, chain);
        add(&totals.chains, model_compare(M, N, k, a, b, chain));
        for (int d = 0; d < DIALS; d++) {
            model_standard(&dials[d], M, N, k, a, b, c);
            add(&totals.standard[d], model_compare(M, N, k, a, b, c));
            totals.strict |= standard_is_guarded(&dials[d], M, N, k, a, b);
        }
        model_close(&close_dial, &device_dial, M, N, k, a, b, c);
        add(&totals.close, model_compare(M, N, k, a, b, c));
    }
    return totals;
}

/*
 * How many times the chain's errors those of `standard` may be. Where exponents are wide, few products decide an
 * entry: one cut errs twice as much as one rounding. With k of 1024 there are enough of them for the mean, while
 * the largest error of so few entries is a matter of luck. (Shorter products are strict there.) So it is for
 * the shortest products on the unit that cuts twice.
 */
static double allowance(const struct dial *dial, enum accuracy_family family, bool largest)
{
    bool lucky = family == ACCURACY_EXPONENTS || (family == ACCURACY_ORTHOGONAL && dial->unit.at_once == 8);
    return lucky && largest ? 1.25 : 1;
}

static void check(bool holds, const char *what, enum accuracy_family family, int64_t k, double x, double y)
{
    if (!holds) {
        fail_msg("%s: %s at k = %d: %.4f u, against %.4f u", what, accuracy_family_name(family), (int)k,
                 x / u, y / u);
    }
}

static void check_standard(int d, enum accuracy_family family, int64_t k, const struct totals *totals)
{
    const struct dial *dial = &dials[d];
    const struct total *standard = &totals->standard[d];
    double bound = (totals->strict ? (double)k : standard_bound(dial, k)) * u;
    bool compensated = k >= dial->long_k;
    const struct total *others = compensated ? &totals->chains : &totals->chain;
    double mean = (compensated ? 1 : allowance(dial, family, false)) * others->mean;
    double most = (compensated ? 1 : allowance(dial, family, true)) * others->most;
    check(standard->most <= bound, "bound", family, k, standard->most, bound);
    check(standard->mean <= mean, "mean", family, k, standard->mean, mean);
    check(standard->most <= most, "most", family, k, standard->most, most);
    if (accuracy_family_exact(family)) {
        assert_int_equal(standard->different, 0);
    }
}

/* No worse than a chain on the families that are easy, and never twice as far off. Where it is as standard, as that. */
static void check_close(enum accuracy_family family, int64_t k, const struct totals *totals)
{
    const struct total *close = &totals->close;
    bool easy = accuracy_family_easy(family);
    double mean = (easy ? 1 : 2 * allowance(&device_dial, family, false)) * totals->chain.mean;
    double most = (easy ? 1 : 2 * allowance(&device_dial, family, true)) * totals->chain.most;
    check(close->most <= close_bound(k) * u, "close bound", family, k, close->most, close_bound(k) * u);
    check(close->mean <= mean, "close mean", family, k, close->mean, mean);
    check(close->most <= most, "close most", family, k, close->most, most);
    if (accuracy_family_exact(family)) {
        assert_int_equal(close->different, 0);
    }
}

static void check_bounds(const struct dial *dial)
{
    for (int64_t k = dial->least_k; k <= 1 << 18; k++) {
        double bound = standard_bound(dial, k);
        assert_true(bound <= (double)k);
        /* As docs/accuracy.md says it, of Hopper and of others. */
        assert_true(bound <= 22.51 + ceil((double)k / 32) + (dial->unit.at_once == 8 ? 3 : 0));
    }
}

static void bounds_are_below_the_conventional_one(void **test)
{
    (void)test;
    for (int d = 0; d < DIALS; d++) {
        check_bounds(&dials[d]);
        struct dial dial = dials[d];
        for (dial.chains = 2; dial.move == 16 && dial.chains <= MOST_CHAINS; dial.chains *= 2) {
            check_bounds(&dial);
        }
    }
    for (int64_t k = close_dial.least_k; k <= 1 << 18; k++) {
        assert_true(close_bound(k) <= 32.51 + ceil((double)k / 32) && close_bound(k) <= (double)k);
    }
}

static void promises_hold_on_every_family(void **test)
{
    (void)test;
    for (int family = 0; family < ACCURACY_FAMILIES; family++) {
        for (int i = 0; i < DEPTHS; i++) {
            struct totals totals = measure((enum accuracy_family)family, depths[i]);
            for (int d = 0; d < DIALS; d++) {
                check_standard(d, (enum accuracy_family)family, depths[i], &totals);
            }
            check_close((enum accuracy_family)family, depths[i], &totals);
        }
    }
}

static void short_products_of_wide_ranges_stay_f32(void **test)
{
    (void)test;
    fill(ACCURACY_EXPONENTS, 1, 256);
    assert_true(is_from_f32(&device_dial, 256));
    fill(ACCURACY_EXPONENTS, 1, 2047);
    assert_true(is_from_f32(&device_dial, 2047));
    fill(ACCURACY_EXPONENTS, 1, 2048);
    assert_false(standard_is_guarded(&device_dial, M, N, 2048, a, b));
    fill(ACCURACY_ONE_HOT, 1, 64);
    b[5] = 0x1p-32f;
    b[9] = 0x1p32f;
    assert_false(standard_is_guarded(&device_dial, M, N, 64, a, b));
    b[9] = 0x1p33f;
    assert_true(standard_is_guarded(&device_dial, M, N, 64, a, b));
}

/* The two choices that decide: with another order or without extra bits the promises would not hold. */
static void the_order_and_the_bits_matter(void **test)
{
    (void)test;
    enum { K = 64 };
    fill(ACCURACY_HILBERT, 1, K);
    model_strict(M, N, K, 0, a, b, chain);
    double conventional = model_compare(M, N, K, a, b, chain).mean;
    struct dial by_step = device_dial;
    by_step.order = ORDER_BY_STEP;
    model_standard(&by_step, M, N, K, a, b, c);
    assert_true(model_compare(M, N, K, a, b, c).mean > 1.5 * conventional);
    struct dial never = device_dial;
    never.move = 0;
    fill(ACCURACY_POSITIVE, 1, 1024);
    model_strict(M, N, 1024, 0, a, b, chain);
    conventional = model_compare(M, N, 1024, a, b, chain).mean;
    model_standard(&never, M, N, 1024, a, b, c);
    assert_true(model_compare(M, N, 1024, a, b, c).mean > 1.5 * conventional);
    struct dial bare = device_dial;
    bare.unit.extra_bits = 0;
    fill(ACCURACY_IDENTITY, 1, K);
    model_standard(&bare, M, N, K, a, b, c);
    assert_true(model_compare(M, N, K, a, b, c).different > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(three_parts_keep_every_bit),
        cmocka_unit_test(parts_of_the_largest_number_are_finite),
        cmocka_unit_test(smaller_numbers_lose_bits),
        cmocka_unit_test(the_unit_keeps_its_extra_bits),
        cmocka_unit_test(the_unit_cuts_towards_zero),
        cmocka_unit_test(a_large_product_sets_its_own_exponent),
        cmocka_unit_test(the_unit_overflows_and_underflows),
        cmocka_unit_test(eight_at_once_are_cut_before_the_rest),
        cmocka_unit_test(small_elements_and_short_products_stay_f32),
        cmocka_unit_test(specials_come_out_as_from_f32),
        cmocka_unit_test(large_products_that_cancel_stay_finite),
        cmocka_unit_test(two_parts_keep_22_bits),
        cmocka_unit_test(families_that_are_easy_are_close),
        cmocka_unit_test(what_counts_is_all_of_k),
        cmocka_unit_test(numbers_that_f16_cannot_scale_are_refused),
        cmocka_unit_test(what_is_left_out_is_bounded),
        cmocka_unit_test(zeros_are_no_evidence),
        cmocka_unit_test(bounds_are_below_the_conventional_one),
        cmocka_unit_test(promises_hold_on_every_family),
        cmocka_unit_test(short_products_of_wide_ranges_stay_f32),
        cmocka_unit_test(the_order_and_the_bits_matter),
    };
    return cmocka_run_group_tests_name("dial", tests, NULL, NULL);
}
