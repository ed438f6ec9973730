/*
 * check.c - see check.h.
 *
 * The sums are taken in double with the rounding error of every product and every addition carried along
 * (the compensated dot product of Ogita, Rump and Oishi, 2005), as good as twice double's precision, which is
 * what judging f64 takes. Integers are summed modulo 2^32.
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

struct scalars {
    double alpha;
    double beta;
};

/* What the formats of D and of the sums can hold. */
struct limits {
    double unit;           /* of the sums */
    double result_unit;    /* of D where it is narrower, else 0 */
    double overflow;       /* D becomes infinite from here on */
    double sum_overflow;   /* and the sums from here on */
    double least_denormal; /* of D */
    double sum_least_denormal;
};

static struct limits limits_of(carat_type type)
{
    static const double f32_overflow = 0x1.ffffffp127;
    struct limits limits = {0x1p-24, 0, f32_overflow, f32_overflow, 0x1p-149, 0x1p-149};
    switch (type) {
    case CARAT_F64:
        return (struct limits){0x1p-53, 0, (double)INFINITY, (double)INFINITY, 0x1p-1074, 0x1p-1074};
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
    default:
        return limits;
    }
}

/*
 * How many rounding units of the sums can add up. In the worst case one for each addition, in whatever order,
 * and some for joining partial sums and for alpha and beta; the sums of random terms err by the root of that,
 * and 8 times it is out of chance's reach.
 */
static double growth_of(double k, bool random)
{
    double worst = 1.0625 * k + 8;
    double likely = 8 * sqrt(k) + 8;
    return random ? fmin(worst, likely) : worst;
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

/* The reference of one entry, as an unevaluated high + low, and what it is measured by. */
struct reference {
    double high;
    double low;
    double scale;
};

static struct reference finish_reference(const struct sum *sum, struct scalars scalars, double c)
{
    double scaled = scalars.alpha * sum->high;
    double scaled_error = fma(scalars.alpha, sum->high, -scaled) + scalars.alpha * sum->low;
    double kept = scalars.beta == 0 ? 0 : scalars.beta * c;
    double kept_error = scalars.beta == 0 ? 0 : fma(scalars.beta, c, -kept);
    double high = scaled + kept;
    double added = high - scaled;
    double low = (scaled - (high - added)) + (kept - added) + scaled_error + kept_error;
    double scale = fabs(scalars.alpha) * sum->magnitude + fabs(kept);
    /* Infinities and NaN make errors that are NaN, and need none. */
    return (struct reference){high, isfinite(high) ? low : 0, scale};
}

/* How far off one entry is, over its scale; *right says whether it may be. */
static double judge_entry(double value, const struct reference *reference, double growth, double terms,
                          double alpha, const struct limits *limits, double magnitude, bool *right)
{
    double total = reference->high + reference->low;
    double allowed = growth * limits->unit * reference->scale;
    if (!isfinite(value) || !isfinite(total)) {
        bool same = isnan(total) ? isnan(value) : value == total;
        /* Where the sums, or the result, leave the format's range, infinity (and NaN after it) is right. */
        bool overflown = !isfinite(value) && isfinite(total) &&
                         (fabs(total) + allowed >= limits->overflow ||
                          reference->scale >= limits->sum_overflow || magnitude >= limits->sum_overflow);
        *right = same || overflown;
        return *right ? 0 : (double)INFINITY;
    }
    double off = fabs((value - reference->high) - reference->low);
    /* Below the formats' least numbers rounding errs by steps of fixed size. */
    double steps = 0.5 * limits->least_denormal + fabs(alpha) * (terms + 1) * limits->sum_least_denormal;
    *right = off <= allowed + limits->result_unit * (fabs(total) + allowed) + steps;
    return off <= steps ? 0 : (off - steps) / reference->scale;
}

static double scalar_value(carat_type type, const void *scalar)
{
    return element_value(carat_scalar_type(type), scalar, 0);
}

static void judge(const carat_gemm_problem *problem, struct scalars scalars, const void *c, const void *d,
                  bool random, const struct sum *sums, const struct lines *rows, const struct lines *columns,
                  struct check *check)
{
    bool column_major = problem->order == CARAT_COLUMN_MAJOR;
    int64_t ldc = problem->ldc, ldd = problem->ldd;
    double terms = scalars.alpha == 0 ? 0 : (double)problem->k;
    double growth = growth_of(terms, random);
    struct limits limits = limits_of(problem->type_cd);
    double worst = -1;
    check->bound = check->exact ? 0 : growth * limits.unit + limits.result_unit;
    for (int64_t s = 0; s < rows->count * columns->count; s++) {
        int64_t i = rows->samples[s / columns->count];
        int64_t j = columns->samples[s % columns->count];
        double value = element_value(problem->type_cd, d, column_major ? i + j * ldd : i * ldd + j);
        double old = scalars.beta == 0
                         ? 0
                         : element_value(problem->type_cd, c, column_major ? i + j * ldc : i * ldc + j);
        double off, wanted;
        bool right;
        if (check->exact) {
            uint32_t sum = wrap(scalars.alpha) * sums[s].wrapped + wrap(scalars.beta) * wrap(old);
            wanted = (double)(int32_t)sum;
            right = value == wanted;
            off = fabs(value - wanted);
        } else {
            struct reference reference = finish_reference(&sums[s], scalars, old);
            wanted = reference.high + reference.low;
            off = judge_entry(value, &reference, growth, terms, scalars.alpha, &limits, sums[s].magnitude,
                              &right);
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

bool check_gemm(const carat_gemm_problem *problem, const void *alpha, const void *a, const void *b,
                const void *beta, const void *c, const void *d, bool random, struct check *check)
{
    bool exact = problem->type_cd == CARAT_S32;
    *check = (struct check){.pass = true, .exact = exact};
    if (problem->m == 0 || problem->n == 0) {
        return true;
    }
    choose_counts(problem, &check->rows, &check->columns);
    carat_type type = problem->type_a;
    struct scalars scalars = {scalar_value(type, alpha), scalar_value(type, beta)};
    struct lines rows =
        make_lines(type, a, problem->order, problem->op_a == CARAT_NO_TRANSPOSE, problem->lda, check->rows);
    struct lines columns =
        make_lines(type, b, problem->order, problem->op_b == CARAT_TRANSPOSE, problem->ldb, check->columns);
    struct sum *sums = (struct sum *)calloc((size_t)(check->rows * check->columns), sizeof(*sums));
    bool ready = sums && allocate_lines(&rows, problem->m) && allocate_lines(&columns, problem->n);
    int64_t k = scalars.alpha == 0 ? 0 : problem->k;
    for (int64_t p = 0; ready && p < k; p += K_BLOCK) {
        int64_t count = least(K_BLOCK, k - p);
        pack(&rows, p, count);
        pack(&columns, p, count);
        for (int64_t s = 0; s < check->rows * check->columns; s++) {
            const double *x = rows.packed + s / check->columns * K_BLOCK;
            const double *y = columns.packed + s % check->columns * K_BLOCK;
            (exact ? add_wrapped : add_products)(&sums[s], x, y, count);
        }
    }
    if (ready) {
        judge(problem, scalars, c, d, random, sums, &rows, &columns, check);
    }
    free_lines(&rows);
    free_lines(&columns);
    free(sums);
    return ready;
}
