/* trial.c - what is tried: see trial.h. */
#include "trial.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

struct trial trial_of(carat_type type_a, carat_type type_b, carat_type type_cd, int64_t m, int64_t n,
                      int64_t k)
{
    struct trial trial = {.problem = carat_gemm_describe(type_a, m, n, k),
                          .alpha = 1,
                          .scale_a = 1,
                          .scale_b = 1,
                          .scale_d = 1,
                          .own_workspace = true,
                          .seed = (uint64_t)(m * 31 + n * 7 + k)};
    trial.problem.type_b = type_b;
    trial.problem.type_cd = type_cd;
    trial.problem.type_bias = carat_scalar_type(type_cd);
    trial_layout(&trial, CARAT_COLUMN_MAJOR, 0, 0);
    return trial;
}

void trial_layout(struct trial *trial, carat_order order, int ops, int64_t pad)
{
    carat_gemm_problem *p = &trial->problem;
    p->order = order;
    p->op_a = ops & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->op_b = ops & 1 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    p->lda = packed_ld(order, rows_of_a(p), columns_of_a(p)) + pad;
    p->ldb = packed_ld(order, rows_of_b(p), columns_of_b(p)) + pad;
    p->ldc = p->ldd = packed_ld(order, p->m, p->n) + pad;
}

/* Elements from a matrix's first to past the last of its last column, the gap behind that included. */
static int64_t footprint(const carat_gemm_problem *p, int64_t rows, int64_t columns, int64_t ld)
{
    return ld * (p->order == CARAT_COLUMN_MAJOR ? columns : rows);
}

void trial_batch(struct trial *trial, int64_t batch, int64_t gap)
{
    carat_gemm_problem *p = &trial->problem;
    p->batch = batch;
    p->stride_a = footprint(p, rows_of_a(p), columns_of_a(p), p->lda) + gap;
    p->stride_b = footprint(p, rows_of_b(p), columns_of_b(p), p->ldb) + gap;
    p->stride_c = p->stride_d = footprint(p, p->m, p->n, p->ldd) + gap;
}

void trial_describe(const struct trial *trial, char *text, size_t size)
{
    static const char *const places[] = {"device", "pinned", "pageable"};
    static const char *const scales[] = {"none", "host", "device", "device, but D's"};
    const carat_gemm_problem *p = &trial->problem;
    static const char *const ways[] = {"library",      "alone",       "packed",    "any way",
                                       "shared tiles", "whole tiles", "k in parts"};
    static const char *const ranges[RANGES] = {
        "", ", A small", ", A tiny", ", some tiny", ", exponents far apart", ", two huge"};
    snprintf(text, size,
             "%s%s%s: %s x %s -> %s%s, %s-major %c%c, %" PRId64 " x %" PRId64 " x %" PRId64 ", ld %" PRId64
             " %" PRId64 " %" PRId64 " %" PRId64 ", batch %" PRId64 " strides %" PRId64 " %" PRId64
             " %" PRId64 " %" PRId64 ", alpha %g beta %g%s%s, bias %d %s stride %" PRId64
             ", activation %d, scales %s %g %g %g, %s, shifts %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
             " %" PRId64 "%s%s%s, seed %" PRIu64,
             trial->row ? trial->row->name : "", trial->row ? " " : "", ways[trial->way],
             carat_type_name(p->type_a), carat_type_name(p->type_b), carat_type_name(p->type_cd),
             p->accuracy == CARAT_ACCURACY_FAST     ? " fast"
             : p->accuracy == CARAT_ACCURACY_STRICT ? " strict"
             : p->accuracy == CARAT_ACCURACY_BEST   ? " best"
             : p->accuracy == CARAT_ACCURACY_CLOSE  ? " close"
                                                    : "",
             p->order == CARAT_ROW_MAJOR ? "row" : "column", p->op_a == CARAT_TRANSPOSE ? 'T' : 'N',
             p->op_b == CARAT_TRANSPOSE ? 'T' : 'N', p->m, p->n, p->k, p->lda, p->ldb, p->ldc, p->ldd,
             p->batch, p->stride_a, p->stride_b, p->stride_c, p->stride_d, trial->alpha, trial->beta,
             trial->scalars_on_device ? " on device" : "", trial->own_c ? ", C apart" : "", (int)p->bias,
             carat_type_name(p->type_bias), p->stride_bias, (int)p->activation, scales[trial->scales],
             trial->scale_a, trial->scale_b, trial->scale_d, places[trial->place], trial->shift_a,
             trial->shift_b, trial->shift_c, trial->shift_d, trial->shift_bias,
             trial->own_workspace ? ", own workspace" : "", trial->special ? ", NaN and infinity" : "",
             ranges[trial_range(trial)], trial->seed);
}

/* ---- Random trials ---- */

#define STANDARD CARAT_ACCURACY_STANDARD
#define STRICT CARAT_ACCURACY_STRICT
#define FAST CARAT_ACCURACY_FAST
#define BEST CARAT_ACCURACY_BEST
#define CLOSE CARAT_ACCURACY_CLOSE
/* clang-format off */
#define MIXES(D, ACCURACY) \
    {CARAT_E4M3, CARAT_E4M3, D, ACCURACY}, {CARAT_E4M3, CARAT_E5M2, D, ACCURACY}, \
    {CARAT_E5M2, CARAT_E4M3, D, ACCURACY}, {CARAT_E5M2, CARAT_E5M2, D, ACCURACY}
/* clang-format on */

const struct trial_types trial_types[] = {
    {CARAT_F32, CARAT_F32, CARAT_F32, STANDARD},
    {CARAT_F32, CARAT_F32, CARAT_F32, FAST},
    {CARAT_F32, CARAT_F32, CARAT_F32, STRICT},
    {CARAT_F32, CARAT_F32, CARAT_F32, CLOSE},
    {CARAT_F64, CARAT_F64, CARAT_F64, STANDARD},
    {CARAT_F16, CARAT_F16, CARAT_F16, STANDARD},
    {CARAT_F16, CARAT_F16, CARAT_F32, STANDARD},
    {CARAT_F16, CARAT_F16, CARAT_F16, FAST},
    {CARAT_F16, CARAT_F16, CARAT_F16, STRICT},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16, STANDARD},
    {CARAT_BF16, CARAT_BF16, CARAT_F32, STANDARD},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16, FAST},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16, STRICT},
    {CARAT_S32, CARAT_S32, CARAT_S32, STANDARD},
    {CARAT_S8, CARAT_S8, CARAT_S32, STANDARD},
    {CARAT_S8, CARAT_S8, CARAT_F32, STANDARD},
    {CARAT_S8, CARAT_S8, CARAT_S8, STANDARD},
    MIXES(CARAT_BF16, STANDARD),
    MIXES(CARAT_BF16, FAST),
    MIXES(CARAT_F16, STANDARD),
    MIXES(CARAT_F16, FAST),
    MIXES(CARAT_F32, STANDARD),
    MIXES(CARAT_F32, FAST),
    MIXES(CARAT_E4M3, STANDARD),
    MIXES(CARAT_E4M3, FAST),
    {CARAT_F32, CARAT_F32, CARAT_F32, BEST},
    {CARAT_F64, CARAT_F64, CARAT_F64, BEST},
    {CARAT_F16, CARAT_F16, CARAT_F16, BEST},
    {CARAT_F16, CARAT_F16, CARAT_F32, BEST},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16, BEST},
    {CARAT_BF16, CARAT_BF16, CARAT_F32, BEST},
    {CARAT_S8, CARAT_S8, CARAT_S32, BEST},
    {CARAT_E4M3, CARAT_E4M3, CARAT_E4M3, BEST},
    {CARAT_E4M3, CARAT_E5M2, CARAT_F32, BEST},
    {CARAT_E5M2, CARAT_E4M3, CARAT_F16, BEST},
    {CARAT_E5M2, CARAT_E5M2, CARAT_BF16, BEST},
};
const int trial_type_count = sizeof(trial_types) / sizeof(trial_types[0]);

struct trial_types trial_random_types(struct random *random)
{
    /* First the type of A, so that the many mixes of 8-bit floats do not crowd out the rest. */
    static const carat_type types[] = {CARAT_F32, CARAT_F32,  CARAT_F64, CARAT_F16,  CARAT_BF16,
                                       CARAT_S32, CARAT_S8,   CARAT_S8,  CARAT_E4M3, CARAT_E5M2,
                                       CARAT_F16, CARAT_BF16, CARAT_E4M3};
    carat_type type = types[random_between(random, 0, sizeof(types) / sizeof(types[0]) - 1)];
    for (;;) {
        const struct trial_types *types_of = &trial_types[random_between(random, 0, trial_type_count - 1)];
        if (types_of->a == type) {
            return *types_of;
        }
    }
}

enum range trial_range(const struct trial *trial)
{
    const carat_gemm_problem *p = &trial->problem;
    /* What is huge overflows in the sum, or after it. */
    bool huge_is_clear = fabs(trial->alpha) >= 1 && !trial->special &&
                         p->activation == CARAT_ACTIVATION_NONE && p->m > 0 && p->n > 0 && p->k > 0 &&
                         p->batch > 0;
    bool is_f32 = p->type_a == CARAT_F32 && p->accuracy != CARAT_ACCURACY_FAST && trial->alpha != 0;
    return !is_f32 || (trial->range == RANGE_HUGE && !huge_is_clear) ? RANGE_ONE : trial->range;
}

struct trial trial_of_row(struct random *random, const struct kernel *row)
{
    carat_type type_a = row->planes > 0 ? CARAT_F32 : (carat_type)row->element;
    carat_type type_b = row->element_b ? (carat_type)row->element_b : type_a;
    struct trial trial = trial_of(type_a, type_b, carat_gemm_describe(type_a, 1, 1, 1).type_cd, 1, 1, 1);
    trial.problem.accuracy = row->planes == 2 ? CLOSE : (carat_accuracy)row->accuracy;
    if (row->epilogue) {
        const struct trial_types *types;
        do {
            types = &trial_types[random_between(random, 0, trial_type_count - 1)];
        } while (types->a != type_a || types->b != type_b);
        trial.problem.type_cd = types->cd;
        trial.problem.type_bias = carat_scalar_type(types->cd);
    }
    trial.row = row;
    return trial;
}

void trial_widen(struct random *random, struct trial *trial)
{
    const struct trial_types *types;
    do {
        types = &trial_types[random_between(random, 0, trial_type_count - 1)];
    } while (types->accuracy != BEST || types->a == CARAT_F64 || types->a == CARAT_S8);
    carat_gemm_problem *p = &trial->problem;
    p->type_a = types->a;
    p->type_b = types->b;
    p->type_cd = types->cd;
    p->type_bias = carat_scalar_type(types->cd);
    p->accuracy = BEST;
}

static int64_t up_to(int64_t length, int64_t unit) { return (length + unit - 1) / unit * unit; }

void trial_align(struct trial *trial, int64_t unit)
{
    carat_gemm_problem *p = &trial->problem;
    p->lda = up_to(p->lda, unit);
    p->ldb = up_to(p->ldb, unit);
    p->stride_a = up_to(p->stride_a, unit);
    p->stride_b = up_to(p->stride_b, unit);
    trial->shift_a = up_to(trial->shift_a, unit);
    trial->shift_b = up_to(trial->shift_b, unit);
}

void trial_plain_types(struct trial *trial)
{
    carat_gemm_problem *p = &trial->problem;
    bool is_float_8 = carat_type_size(p->type_a) == 1 && p->type_a != CARAT_S8;
    p->type_cd = p->type_a == CARAT_S8 ? CARAT_S32 : is_float_8 ? CARAT_BF16 : p->type_a;
    p->type_bias = carat_scalar_type(p->type_cd);
    p->bias = CARAT_BIAS_NONE;
    p->activation = CARAT_ACTIVATION_NONE;
    trial->scales = SCALES_NONE;
}

void trial_make_plain(struct trial *trial, bool anywhere)
{
    carat_gemm_problem *p = &trial->problem;
    const int64_t unit = anywhere ? 1 : 16 / (int64_t)carat_type_size(p->type_cd);
    p->ldc = p->ldd = up_to(p->ldd, unit);
    trial->shift_c = trial->shift_d = up_to(trial->shift_d, unit);
    trial->alpha = 1;
    trial->beta = 0;
    trial->scalars_on_device = false;
}

int64_t trial_unit(const struct kernel *row)
{
    /* Planes are laid out anew, from wherever A and B lie. */
    int64_t size = (int64_t)carat_type_size((carat_type)row->element);
    return row->alignment > size && row->planes == 0 ? row->alignment / size : 1;
}

static int64_t random_log(struct random *random, int64_t most)
{
    double exponent = (random_unit(random) + 1) / 2 * log2((double)most + 1);
    int64_t length = (int64_t)exp2(exponent);
    return length < 1 ? 1 : length > most ? most : length;
}

void trial_random_shape(struct random *random, const struct trial_limits *limits, struct trial *trial)
{
    int64_t m;
    int64_t n;
    int64_t k;
    do {
        m = random_log(random, limits->most_side);
        n = random_log(random, limits->most_side);
        k = random_one_in(random, 200) ? 0 : random_log(random, limits->most_side);
    } while ((double)m * (double)n * (double)k > limits->most_work || m * n > limits->most_elements ||
             m * k > limits->most_elements || n * k > limits->most_elements);
    trial->problem.m = m;
    trial->problem.n = n;
    trial->problem.k = k;
}

/* A leading dimension: as short as can be, a multiple of 16 elements, or any. */
static int64_t random_ld(struct random *random, int64_t least)
{
    switch (random_between(random, 0, 3)) {
    case 0:
        return least;
    case 1:
        return least + random_between(random, 1, 9);
    default:
        return (least + 15) / 16 * 16 + (random_one_in(random, 3) ? 16 : 0);
    }
}

static int64_t random_shift(struct random *random)
{
    return random_one_in(random, 2)   ? 0
           : random_one_in(random, 2) ? 16 * random_between(random, 1, 4)
                                      : random_between(random, 1, 17);
}

/* Keeps the sums of s8 products, and what else an f32 would make of them, in a range that shows. */
static double random_alpha(struct random *random, const carat_gemm_problem *p)
{
    static const double alphas[] = {1, 1, 1, -2, 0.5, 1.25, -0.75, 0};
    double alpha = alphas[random_between(random, 0, random_one_in(random, 5) ? 7 : 6)];
    if (carat_scalar_type(p->type_cd) == CARAT_S32) {
        return alpha < 1 ? alpha * 4 : alpha;
    }
    if (p->type_a == CARAT_S8) {
        return alpha * (p->type_cd == CARAT_S8 ? 0x1p-6 : 0x1p-12) / sqrt((double)p->k + 1);
    }
    return alpha;
}

void trial_random_placing(struct random *random, struct trial *trial)
{
    carat_gemm_problem *p = &trial->problem;
    static const double betas[] = {0, 0, 0, 1, -2, 3, 0.5};
    trial_layout(trial, (carat_order)random_between(random, 0, 1), (int)random_between(random, 0, 3), 0);
    p->lda = random_ld(random, p->lda);
    p->ldb = random_ld(random, p->ldb);
    int64_t least = p->ldd;
    p->ldd = p->ldc = random_ld(random, least);
    trial->own_c = random_one_in(random, 3);
    if (trial->own_c) {
        p->ldc = random_ld(random, least);
    }
    trial->alpha = random_alpha(random, p);
    trial->beta = betas[random_between(random, 0, 6)];
    if (carat_scalar_type(p->type_cd) == CARAT_S32 && trial->beta == 0.5) {
        trial->beta = 7;
    }
    trial->scalars_on_device = random_one_in(random, 3);
    trial->own_workspace = !random_one_in(random, 4);
    trial->special = random_one_in(random, 8);
    trial->range = random_one_in(random, 6) ? (enum range)random_between(random, 1, RANGES - 1) : RANGE_ONE;
    trial->shift_a = random_shift(random);
    trial->shift_b = random_shift(random);
    trial->shift_c = random_shift(random);
    trial->shift_d = random_shift(random);
    trial->seed = random_bits(random);
}

/* The stride of a matrix that is only read: its own place, a gap, the same matrix, or matrices that overlap. */
static int64_t random_read_stride(struct random *random, int64_t whole, int64_t ld)
{
    switch (random_between(random, 0, 5)) {
    case 0:
        return 0;
    case 1:
        return ld;
    case 2:
        return whole + random_between(random, 1, 9);
    case 3:
        return (whole + 15) / 16 * 16 + 16;
    default:
        return whole;
    }
}

void trial_random_batch(struct random *random, int64_t most, struct trial *trial)
{
    carat_gemm_problem *p = &trial->problem;
    trial_batch(trial, random_between(random, 2, most), 0);
    p->stride_a = random_read_stride(random, p->stride_a, p->lda);
    p->stride_b = random_read_stride(random, p->stride_b, p->ldb);
    int64_t gap = random_one_in(random, 2) ? 0 : random_between(random, 1, 17);
    p->stride_d += gap;
    p->stride_c =
        trial->own_c ? random_read_stride(random, footprint(p, p->m, p->n, p->ldc), p->ldc) : p->stride_d;
    if (p->bias != CARAT_BIAS_NONE && random_one_in(random, 2)) {
        p->stride_bias = (p->bias == CARAT_BIAS_PER_ROW ? p->m : p->n) + random_between(random, 0, 3);
    }
}

void trial_random_epilogue(struct random *random, struct trial *trial)
{
    carat_gemm_problem *p = &trial->problem;
    carat_type scalar = carat_scalar_type(p->type_cd);
    p->bias = (carat_bias)random_between(random, 0, 2);
    p->type_bias = scalar;
    if (scalar == CARAT_F32) {
        static const carat_type types[] = {CARAT_F32, CARAT_F16, CARAT_BF16};
        p->type_bias = types[random_between(random, 0, 2)];
    }
    trial->shift_bias = random_shift(random);
    int activations = scalar == CARAT_S32 ? 1 : 4;
    p->activation = (carat_activation)(random_one_in(random, 2) ? 0 : random_between(random, 1, activations));
    bool takes_scales = carat_type_size(p->type_a) == 1 && scalar != CARAT_S32;
    if (takes_scales && !random_one_in(random, 3)) {
        trial->scales = random_one_in(random, 2) ? SCALES_HOST : SCALES_DEVICE;
        trial->scale_a = (float)(1 + random_unit(random) / 2);
        trial->scale_b = (float)(1 + random_unit(random) / 2);
        trial->scale_d = (float)(1 + random_unit(random) / 2);
    }
}

struct trial trial_random(struct random *random, const struct trial_limits *limits)
{
    struct trial_types types = trial_random_types(random);
    struct trial trial = trial_of(types.a, types.b, types.cd, 1, 1, 1);
    carat_gemm_problem *p = &trial.problem;
    p->accuracy = types.accuracy;
    trial_random_shape(random, limits, &trial);
    trial_random_placing(random, &trial);
    if (random_one_in(random, 2)) {
        trial_random_epilogue(random, &trial);
    }
    int64_t largest = p->lda * columns_of_a(p); /* in one order or the other, about */
    largest = p->ldb * columns_of_b(p) > largest ? p->ldb * columns_of_b(p) : largest;
    largest = p->ldd * (p->m > p->n ? p->m : p->n) > largest ? p->ldd * (p->m > p->n ? p->m : p->n) : largest;
    double most = limits->most_work / ((double)p->m * (double)p->n * (double)(p->k + 1));
    int64_t most_batch = limits->most_elements / (largest + 1);
    most_batch = most < (double)most_batch ? (int64_t)most : most_batch;
    most_batch = most_batch < limits->most_batch ? most_batch : limits->most_batch;
    if (most_batch >= 2 && random_one_in(random, 5)) {
        trial_random_batch(random, most_batch, &trial);
    }
    return trial;
}
