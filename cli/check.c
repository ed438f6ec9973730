/*
 * check.c - see check.h.
 *
 * The sums are taken in double with the rounding error of every product and every addition carried along
 * (the compensated dot product of Ogita, Rump and Oishi, 2005), as good as twice double's precision, which is
 * what judging f64 takes. Integers are summed modulo 2^32. What comes after the sums is done in long double.
 *
 *     rows of op(A)  ->  packed, a block of K at a time  \
 *                                                          sums (sampled rows x sampled columns)  ->  judge
 *     columns of op(B)  ->  packed likewise              /
 */
#include "check.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "element.h"

enum {
    K_BLOCK = 512,
    MOST_SAMPLES = 1 << 13, /* rows, and columns */
    MOST_ENTRIES = 1 << 20,
    LEAST_SIDE = 16
};
static const double most_products = 1 << 27; /* about a second */

/* The sum of products high + low, and the sum of their magnitudes. */
struct sum {
    double high;
    double low;
    double magnitude;
    uint32_t wrapped; /* integers */
};

/* One operand's sampled vectors along K: element p of a line stands at [line * line_step + p * k_step]. */
struct lines {
    carat_type type;
    const void *elements;
    int64_t line_step;
    int64_t k_step;
    int64_t *samples;
    int64_t count;
    double *packed; /* count x K_BLOCK */
};

/* The numbers that D = scale_d act(product * sum + beta C + bias) is made with. */
struct scalars {
    double product; /* alpha scale_a scale_b */
    double beta;
    double scale_d;
};

/* What the formats of D and of the sums can hold, and how D is rounded. */
struct limits {
    double unit;           /* of the sums */
    double result_unit;    /* of D where it is narrower, else 0 */
    double overflow;       /* D becomes infinite from here on, or stays at the largest where it saturates */
    double sum_overflow;   /* and the sums from here on */
    double least_denormal; /* of D; of integers the step */
    double sum_least_denormal;
    double least; /* where D saturates: the least and the largest that it holds; else both infinite */
    double largest;
};

static struct limits limits_of(carat_type type)
{
    static const double f32_overflow = 0x1.ffffffp127;
    static const double none = (double)INFINITY;
    struct limits limits = {0x1p-24, 0, f32_overflow, f32_overflow, 0x1p-149, 0x1p-149, -none, none};
    switch (type) {
    case CARAT_F64:
        return (struct limits){0x1p-53, 0, none, none, 0x1p-1074, 0x1p-1074, -none, none};
    case CARAT_F16:
        limits.result_unit = 0x1p-11;
        limits.overflow = 65520;
        limits.least_denormal = 0x1p-24;
        return limits;
    case CARAT_BF16:
        limits.result_unit = 0x1p-8;
        limits.overflow = 0x1.ffp127;
        limits.least_denormal = 0x1p-133;
        return limits;
    case CARAT_E4M3:
        limits.result_unit = 0x1p-4;
        limits.least_denormal = 0x1p-9;
        limits.least = -448;
        limits.largest = 448;
        return limits;
    case CARAT_S8:
        limits.least_denormal = 1;
        limits.least = INT8_MIN;
        limits.largest = INT8_MAX;
        return limits;
    default:
        return limits;
    }
}

static bool is_integer(carat_type type) { return type == CARAT_S8 || type == CARAT_S32; }

/* Whether sums are f64, or compensated f64, whatever D is. */
static bool wants_best(const carat_gemm_problem *problem)
{
    return problem->accuracy == CARAT_ACCURACY_BEST && !is_integer(problem->type_a);
}

/* The same where the best accuracy was asked for: D may then be narrower than the sums though it is f32. */
static struct limits limits_of_problem(const carat_gemm_problem *problem)
{
    struct limits limits = limits_of(problem->type_cd);
    if (wants_best(problem)) {
        const struct limits sums = limits_of(CARAT_F64);
        limits.result_unit = limits.result_unit > 0 ? limits.result_unit : limits.unit;
        limits.unit = sums.unit;
        limits.sum_overflow = sums.sum_overflow;
        limits.sum_least_denormal = sums.sum_least_denormal;
    }
    return limits;
}

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

/*
 * How many rounding units of the sums can add up. In the worst case one for each addition, in whatever order,
 * and some for joining partial sums and for alpha and beta; twice that where a tensor unit cuts off instead of
 * rounding; the sums of random terms err by the root of that, and 8 times it is out of chance's reach.
 */
static double growth_of(double k, bool random, bool cut_off)
{
    double worst = (cut_off ? 2 : 1) * 1.0625 * k + 8;
    double likely = 8 * sqrt(k) + 8;
    return random ? fmin(worst, likely) : worst;
}

/*
 * The share of |A||B| that operands rounded to tf32 lose: each is off by 2^-11 of itself at most. Of numbers of mean
 * 0 the errors cancel; 3 is half as much again as the most that was seen over many, and truncation is beyond it.
 */
static double tf32_share(double k, bool random)
{
    double worst = 0x1p-10;
    return random ? fmin(worst, 3 * 0x1p-10 / sqrt(fmax(k, 1))) : worst;
}

/*
 * The share of |A||B| that the tensor unit's sums of 8-bit floats lose: an instruction aligns its 32 products and the
 * sum so far to the largest of them and cuts what is below 13 bits of it. `run` terms are summed so at a time.
 */
static double float8_share(double k, double run, bool random)
{
    double worst = fmin(1, 33.0 / 32 * run * 0x1p-13);
    double likely = (8 + sqrt(run) / 8) * 0x1p-13 / sqrt(fmax(k / run, 1));
    return random ? fmin(worst, likely) : worst;
}

/* What the accuracy that was asked for gives up beside the rounding of its sums. */
static double rough_share(const struct check_input *input, double k)
{
    enum { FLOAT8_RUN = 128 };
    const carat_gemm_problem *problem = input->problem;
    bool fast = problem->accuracy == CARAT_ACCURACY_FAST;
    if (problem->type_a == CARAT_F32 && fast) {
        return tf32_share(k, input->random);
    }
    if (is_float8(problem->type_a) && input->tensor_unit && !wants_best(problem)) {
        double run = fast ? k : fmin(k, FLOAT8_RUN);
        return float8_share(k, fmax(run, 1), input->random);
    }
    return 0;
}

/* The steepest that an activation is; none makes a number larger. */
static double slope_of(carat_activation activation)
{
    bool steep = activation == CARAT_ACTIVATION_GELU_TANH || activation == CARAT_ACTIVATION_GELU_ERF ||
                 activation == CARAT_ACTIVATION_SILU;
    return steep ? 1.13 : 1;
}

/* The roundings of an activation itself and of scale_d, in units of what goes in. */
static double after_of(carat_activation activation)
{
    enum { ROUNDINGS = 8 };
    return activation == CARAT_ACTIVATION_NONE ? 1 : ROUNDINGS;
}

static long double activate(carat_activation activation, long double x)
{
    static const long double root_2_over_pi = 0.797884560802865355879892119868763737L;
    switch (activation) {
    case CARAT_ACTIVATION_RELU:
        return isnan(x) || x > 0 ? x : 0;
    case CARAT_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanhl(root_2_over_pi * (x + 0.044715L * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x / 2 * erfcl(-x / sqrtl(2));
    case CARAT_ACTIVATION_SILU:
        return x / (1 + expl(-x));
    case CARAT_ACTIVATION_NONE:
        break;
    }
    return x;
}

/* count numbers below length, in order: all of them, or one at random from each stretch, and both ends. */
static void choose_samples(int64_t length, int64_t count, int64_t *samples)
{
    uint64_t state = 1;
    for (int64_t i = 0; i < count; i++) {
        int64_t begin = (int64_t)((double)length * (double)i / (double)count);
        int64_t end = (int64_t)((double)length * (double)(i + 1) / (double)count);
        state = state * 6364136223846793005u + 1442695040888963407u;
        samples[i] = count == length ? i : begin + (int64_t)((state >> 33) % (uint64_t)(end - begin));
    }
    samples[0] = 0;
    samples[count - 1] = length - 1;
}

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* How many rows and columns to sample so that the work stays bearable. */
static void choose_counts(const carat_gemm_problem *problem, int64_t *rows, int64_t *columns)
{
    double entries = fmin(MOST_ENTRIES, most_products / fmax((double)problem->k, 1));
    int64_t side = (int64_t)sqrt(entries);
    side = side < LEAST_SIDE ? LEAST_SIDE : side;
    *rows = least(problem->m, side);
    *columns = least(problem->n, side);
    /* What a short side leaves over goes to the other. */
    if (*rows < side) {
        *columns = least(least(problem->n, MOST_SAMPLES), side * side / *rows);
    } else if (*columns < side) {
        *rows = least(least(problem->m, MOST_SAMPLES), side * side / *columns);
    }
}

static struct lines make_lines(carat_type type, const void *elements, carat_order order, bool line_is_row,
                               int64_t ld, int64_t count)
{
    /* From one row of the stored matrix to the next it is 1 element in column-major order, else ld. */
    bool line_is_near = line_is_row == (order == CARAT_COLUMN_MAJOR);
    return (struct lines){type, elements, line_is_near ? 1 : ld, line_is_near ? ld : 1, NULL, count, NULL};
}

static bool allocate_lines(struct lines *lines, int64_t length)
{
    lines->samples = (int64_t *)malloc((size_t)lines->count * sizeof(*lines->samples));
    lines->packed = (double *)calloc((size_t)lines->count * K_BLOCK, sizeof(*lines->packed));
    if (!lines->samples || !lines->packed) {
        return false;
    }
    choose_samples(length, lines->count, lines->samples);
    return true;
}

static void free_lines(struct lines *lines)
{
    free(lines->samples);
    free(lines->packed);
}

static void pack(const struct lines *lines, int64_t k_begin, int64_t k_count)
{
    for (int64_t line = 0; line < lines->count; line++) {
        int64_t at = lines->samples[line] * lines->line_step + k_begin * lines->k_step;
        for (int64_t p = 0; p < k_count; p++) {
            lines->packed[line * K_BLOCK + p] =
                element_value(lines->type, lines->elements, at + p * lines->k_step);
        }
    }
}

static void add_products(struct sum *sum, const double *x, const double *y, int64_t count)
{
    double high = sum->high, low = sum->low, magnitude = sum->magnitude;
    for (int64_t p = 0; p < count; p++) {
        double product = x[p] * y[p];
        double product_error = fma(x[p], y[p], -product);
        double next = high + product;
        double added = next - high;
        double sum_error = (high - (next - added)) + (product - added);
        high = next;
        low += sum_error + product_error;
        magnitude += fabs(product);
    }
    sum->high = high;
    sum->low = low;
    sum->magnitude = magnitude;
}

static uint32_t wrap(double value) { return (uint32_t)(int32_t)value; }

static void add_wrapped(struct sum *sum, const double *x, const double *y, int64_t count)
{
    for (int64_t p = 0; p < count; p++) {
        sum->wrapped += wrap(x[p]) * wrap(y[p]);
    }
}

/* What D should be in one entry, as an unevaluated high + low, and how far off it may be before it is rounded. */
struct reference {
    double high;
    double low;
    double scale;       /* what errors are measured by */
    double rounded;     /* the sizes of the terms that are added in the end */
    double allowed;     /* without the rounding to D's type */
    double steps;       /* where numbers are so small that rounding errs by steps of fixed size */
    bool sums_overflow; /* on the way to it, sums may leave the format's range */
};

/* Whether a tensor unit that cuts off what it adds may have made the sums. */
static bool may_cut_off(const struct check_input *input)
{
    carat_type type = input->problem->type_a;
    bool tf32 = type == CARAT_F32 && input->problem->accuracy == CARAT_ACCURACY_FAST;
    return input->tensor_unit && !wants_best(input->problem) && (tf32 || carat_type_size(type) <= 2);
}

/* How far the arithmetic of a problem may be off, see check.h. */
struct tolerance {
    struct limits limits;
    double before; /* the activation: growth * u + rough */
    double slope;
    double after; /* few * u */
    double terms; /* of a sum */
    bool compensated;
};

static struct tolerance tolerance_of(const struct check_input *input, double terms)
{
    const carat_gemm_problem *problem = input->problem;
    struct tolerance tolerance = {.limits = limits_of_problem(problem)};
    double unit = tolerance.limits.unit;
    tolerance.terms = terms;
    /* Sums of integers are exact. */
    tolerance.compensated = wants_best(problem) && problem->type_a == CARAT_F64;
    double rounded = is_integer(problem->type_a) || tolerance.compensated ? 0 : terms;
    tolerance.before =
        growth_of(rounded, input->random, may_cut_off(input)) * unit + rough_share(input, terms);
    tolerance.slope = slope_of(problem->activation);
    tolerance.after = problem->activation == CARAT_ACTIVATION_NONE && input->scale_d == 1
                          ? 0
                          : after_of(problem->activation) * unit;
    return tolerance;
}

/* x = product * sum + beta C + bias, with its error carried along. */
static struct reference finish_sum(const struct sum *sum, struct scalars scalars, double c, double bias)
{
    double scaled = scalars.product * sum->high;
    double scaled_error = fma(scalars.product, sum->high, -scaled) + scalars.product * sum->low;
    double kept = scalars.beta == 0 ? 0 : scalars.beta * c;
    double kept_error = scalars.beta == 0 ? 0 : fma(scalars.beta, c, -kept);
    double both = scaled + kept;
    double added = both - scaled;
    double low = (scaled - (both - added)) + (kept - added) + scaled_error + kept_error;
    double high = both + bias;
    added = high - both;
    low += (both - (high - added)) + (bias - added);
    double scale = fabs(scalars.product) * sum->magnitude + fabs(kept) + fabs(bias);
    /* Infinities and NaN make errors that are NaN, and need none. */
    return (struct reference){
        .high = high,
        .low = isfinite(high) ? low : 0,
        .scale = scale,
        .rounded = fabs(scaled) + fabs(kept) + fabs(bias),
    };
}

/* The share of |A||B| that compensated sums lose, which are rounded but once beside. */
static double second_order(const struct tolerance *tolerance)
{
    double first = tolerance->terms * tolerance->limits.unit;
    return 2 * first * first;
}

static struct reference finish_reference(const struct check_input *input, const struct tolerance *tolerance,
                                         const struct sum *sum, struct scalars scalars, double c, double bias)
{
    const struct limits *limits = &tolerance->limits;
    struct reference reference = finish_sum(sum, scalars, c, bias);
    double factor = fabs(scalars.scale_d);
    double size = fabs(reference.high);
    reference.sums_overflow =
        reference.scale >= limits->sum_overflow || sum->magnitude >= limits->sum_overflow;
    double before = tolerance->before * reference.scale;
    if (tolerance->compensated) {
        before = tolerance->before * reference.rounded +
                 second_order(tolerance) * fabs(scalars.product) * sum->magnitude;
    }
    reference.allowed = factor * (tolerance->slope * before + tolerance->after * size);
    reference.steps =
        0.5 * limits->least_denormal +
        factor * (fabs(scalars.product) * (tolerance->terms + 1) + 4) * limits->sum_least_denormal;
    if (input->problem->activation != CARAT_ACTIVATION_NONE || scalars.scale_d != 1) {
        long double x = (long double)reference.high + (long double)reference.low;
        long double y = (long double)scalars.scale_d * activate(input->problem->activation, x);
        reference.high = (double)y;
        reference.low = isfinite(reference.high) ? (double)(y - (long double)reference.high) : 0;
    }
    reference.scale *= factor;
    return reference;
}

/* What D holds of a number. */
static double saturate(const struct limits *limits, double value)
{
    return isnan(value) ? value : fmin(fmax(value, limits->least), limits->largest);
}

/* How far off one entry is, over its scale; *right says whether it may be. */
static double judge_entry(carat_type type, double value, const struct reference *reference,
                          const struct limits *limits, bool *right)
{
    double total = saturate(limits, reference->high + reference->low);
    if (isnan(total) && is_integer(type)) {
        *right = value == 0;
        return fabs(value);
    }
    if (!isfinite(value) || !isfinite(total)) {
        bool same = isnan(total) ? isnan(value) : value == total;
        /* Where the sums, or the result, leave the format's range, infinity (and NaN after it) is right. */
        bool overflown = !isfinite(value) && isfinite(total) &&
                         (fabs(total) + reference->allowed >= limits->overflow || reference->sums_overflow);
        *right = same || overflown;
        return *right ? 0 : (double)INFINITY;
    }
    /* An infinite sum saturates too. */
    if (reference->sums_overflow && (value == limits->least || value == limits->largest)) {
        *right = true;
        return 0;
    }
    bool saturated = total != reference->high + reference->low;
    double off = saturated ? fabs(value - total) : fabs((value - reference->high) - reference->low);
    double rounding = limits->result_unit * (fabs(total) + reference->allowed);
    *right = off <= reference->allowed + rounding + reference->steps;
    return off <= reference->steps ? 0 : (off - reference->steps) / reference->scale;
}

static double scalar_value(carat_type type_cd, const void *scalar)
{
    return element_value(carat_scalar_type(type_cd), scalar, 0);
}

/* D where it is s32: everything modulo 2^32. */
static double wrapped_result(const struct check_input *input, const struct sum *sum, struct scalars scalars,
                             double c, double bias)
{
    uint32_t total = wrap(scalars.product) * sum->wrapped + wrap(scalars.beta) * wrap(c) + wrap(bias);
    double result = (double)(int32_t)total;
    return input->problem->activation == CARAT_ACTIVATION_RELU ? fmax(result, 0) : result;
}

static double bias_at(const struct check_input *input, int64_t row, int64_t column)
{
    const carat_gemm_problem *problem = input->problem;
    return problem->bias == CARAT_BIAS_NONE
               ? 0
               : element_value(problem->type_bias, input->bias,
                               problem->bias == CARAT_BIAS_PER_ROW ? row : column);
}

static void judge(const struct check_input *input, struct scalars scalars, const struct sum *sums,
                  const struct lines *rows, const struct lines *columns, struct check *check)
{
    const carat_gemm_problem *problem = input->problem;
    bool column_major = problem->order == CARAT_COLUMN_MAJOR;
    int64_t ldc = problem->ldc, ldd = problem->ldd;
    struct tolerance tolerance = tolerance_of(input, scalars.product == 0 ? 0 : (double)problem->k);
    double worst = -1;
    check->bound = check->exact
                       ? 0
                       : tolerance.slope * tolerance.before + tolerance.after + tolerance.limits.result_unit;
    for (int64_t s = 0; s < rows->count * columns->count; s++) {
        int64_t i = rows->samples[s / columns->count];
        int64_t j = columns->samples[s % columns->count];
        double value = element_value(problem->type_cd, input->d, column_major ? i + j * ldd : i * ldd + j);
        double c = scalars.beta == 0
                       ? 0
                       : element_value(problem->type_cd, input->c, column_major ? i + j * ldc : i * ldc + j);
        double bias = bias_at(input, i, j);
        double off, wanted;
        bool right;
        if (check->exact) {
            wanted = wrapped_result(input, &sums[s], scalars, c, bias);
            right = value == wanted;
            off = fabs(value - wanted);
        } else {
            struct reference reference = finish_reference(input, &tolerance, &sums[s], scalars, c, bias);
            wanted = saturate(&tolerance.limits, reference.high + reference.low);
            off = judge_entry(problem->type_cd, value, &reference, &tolerance.limits, &right);
            check->error = fmax(check->error, off);
        }
        check->wrong += !right;
        /* A wrong entry goes before any right one. */
        double rank = right ? fmin(off, DBL_MAX / 2) : fmax(off, DBL_MAX / 2);
        if (rank > worst) {
            worst = rank;
            check->worst_row = i;
            check->worst_column = j;
            check->worst_value = value;
            check->worst_reference = wanted;
        }
    }
    check->pass = check->wrong == 0;
}

/* Sums of integers as exact numbers: s32 holds them modulo 2^32. */
static void take_wrapped(struct sum *sums, int64_t count)
{
    for (int64_t s = 0; s < count; s++) {
        sums[s].high = (double)(int32_t)sums[s].wrapped;
        sums[s].magnitude = fabs(sums[s].high);
    }
}

bool check_gemm(const struct check_input *input, struct check *check)
{
    const carat_gemm_problem *problem = input->problem;
    bool integers = is_integer(problem->type_a);
    *check = (struct check){.pass = true, .exact = problem->type_cd == CARAT_S32};
    if (problem->m == 0 || problem->n == 0) {
        return true;
    }
    choose_counts(problem, &check->rows, &check->columns);
    double alpha = scalar_value(problem->type_cd, input->alpha);
    struct scalars scalars = {
        .product = alpha * input->scale_a * input->scale_b,
        .beta = scalar_value(problem->type_cd, input->beta),
        .scale_d = input->scale_d,
    };
    struct lines rows = make_lines(problem->type_a, input->a, problem->order,
                                   problem->op_a == CARAT_NO_TRANSPOSE, problem->lda, check->rows);
    struct lines columns = make_lines(problem->type_b, input->b, problem->order,
                                      problem->op_b == CARAT_TRANSPOSE, problem->ldb, check->columns);
    int64_t entries = check->rows * check->columns;
    struct sum *sums = (struct sum *)calloc((size_t)entries, sizeof(*sums));
    bool ready = sums && allocate_lines(&rows, problem->m) && allocate_lines(&columns, problem->n);
    int64_t k = alpha == 0 ? 0 : problem->k;
    for (int64_t p = 0; ready && p < k; p += K_BLOCK) {
        int64_t count = least(K_BLOCK, k - p);
        pack(&rows, p, count);
        pack(&columns, p, count);
        for (int64_t s = 0; s < entries; s++) {
            const double *x = rows.packed + s / check->columns * K_BLOCK;
            const double *y = columns.packed + s % check->columns * K_BLOCK;
            (integers ? add_wrapped : add_products)(&sums[s], x, y, count);
        }
    }
    if (ready) {
        if (integers) {
            take_wrapped(sums, entries);
        }
        judge(input, scalars, sums, &rows, &columns, check);
    }
    free_lines(&rows);
    free_lines(&columns);
    free(sums);
    return ready;
}
