/* reference.c - products in higher precision, on all or on sampled entries. */
#include "reference.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "element.h"
#include "status.h"

static bool is_integer(carat_type type) { return type == CARAT_S8 || type == CARAT_S32; }

/* The wanted count of positions out of length: all, or ends and one from each strip between. */
static int64_t *sample_positions(int64_t length, int64_t wanted)
{
    int64_t *positions = malloc((size_t)wanted * sizeof(*positions));
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; positions && i < wanted; i++) {
        int64_t begin = (int64_t)((double)length * (double)i / (double)wanted);
        int64_t end = (int64_t)((double)length * (double)(i + 1) / (double)wanted);
        state = state * 6364136223846793005u + 1442695040888963407u;
        int64_t within = end > begin ? (int64_t)((state >> 33) % (uint64_t)(end - begin)) : 0;
        positions[i] = begin + within;
        if (i == 0) {
            positions[i] = 0;
        } else if (i == wanted - 1) {
            positions[i] = length - 1;
        }
    }
    return positions;
}

/* length elements of a source, from element `at` on in steps of `step`, as doubles. */
static void gather(const struct source *source, int64_t at, int64_t step, int64_t length, double *line)
{
    int64_t place = (source->first + at) % source->period;
    int64_t reduced_step = step % source->period;
    for (int64_t i = 0; i < length; i++) {
        line[i] = element_value(source->type, source->elements, place);
        place += reduced_step;
        if (place >= source->period) {
            place -= source->period;
        }
    }
}

static void dot_double(const double *x, const double *y, int64_t length, double *value, double *magnitude)
{
    /* Four chains of sums, so that one addition need not wait for the one before. */
    double sums[4] = {0};
    double sizes[4] = {0};
    int64_t i = 0;
    for (; i + 4 <= length; i += 4) {
        for (int lane = 0; lane < 4; lane++) {
            double product = x[i + lane] * y[i + lane];
            sums[lane] += product;
            sizes[lane] += fabs(product);
        }
    }
    for (; i < length; i++) {
        sums[0] += x[i] * y[i];
        sizes[0] += fabs(x[i] * y[i]);
    }
    *value = (sums[0] + sums[1]) + (sums[2] + sums[3]);
    *magnitude = (sizes[0] + sizes[1]) + (sizes[2] + sizes[3]);
}

static void dot_long_double(const double *x, const double *y, int64_t length, double *value,
                            double *magnitude)
{
    long double sum = 0;
    double size = 0;
    for (int64_t i = 0; i < length; i++) {
        sum += (long double)x[i] * (long double)y[i];
        size += fabs(x[i] * y[i]);
    }
    *value = (double)sum;
    *magnitude = size;
}

static void dot_wrapping(const double *x, const double *y, int64_t length, double *value, double *magnitude)
{
    uint32_t sum = 0;
    for (int64_t i = 0; i < length; i++) {
        sum += (uint32_t)(int32_t)x[i] * (uint32_t)(int32_t)y[i];
    }
    *value = (double)(int32_t)sum;
    *magnitude = 1;
}

carat_status reference_compute(const carat_gemm_problem *problem, int64_t index, const struct source *a,
                               const struct source *b, int64_t budget, struct reference *reference)
{
    int64_t k = problem->k;
    int64_t side = (int64_t)sqrt((double)budget / (double)(k > 0 ? k : 1));
    side = side < 8 ? 8 : side;
    bool all = (double)problem->m * (double)problem->n * (double)k <= (double)budget;
    *reference = (struct reference){
        .type_a = problem->type_a,
        .type_cd = problem->type_cd,
        .m = problem->m,
        .k = k,
        .ldd = problem->ldd,
        .problem_offset = index * problem->stride_d,
        .row_count = all || problem->m < side ? problem->m : side,
        .column_count = all || problem->n < side ? problem->n : side,
    };
    int64_t row_count = reference->row_count;
    int64_t column_count = reference->column_count;
    size_t length = (size_t)(k > 0 ? k : 1);
    double *rows = malloc((size_t)row_count * length * sizeof(*rows));
    double *column = malloc(length * sizeof(*column));
    reference->rows = sample_positions(problem->m, row_count);
    reference->columns = sample_positions(problem->n, column_count);
    reference->value = malloc((size_t)(row_count * column_count) * sizeof(double));
    reference->magnitude = malloc((size_t)(row_count * column_count) * sizeof(double));
    if (!rows || !column || !reference->rows || !reference->columns || !reference->value ||
        !reference->magnitude) {
        free(rows);
        free(column);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a reference of %lld x %lld entries",
                    (long long)row_count, (long long)column_count);
    }

    bool trans_a = problem->op_a == CARAT_TRANSPOSE;
    bool trans_b = problem->op_b == CARAT_TRANSPOSE;
    for (int64_t i = 0; i < row_count; i++) {
        int64_t row = reference->rows[i];
        gather(a, index * problem->stride_a + (trans_a ? row * problem->lda : row),
               trans_a ? 1 : problem->lda, k, rows + i * k);
    }
    for (int64_t j = 0; j < column_count; j++) {
        int64_t at = reference->columns[j];
        gather(b, index * problem->stride_b + (trans_b ? at : at * problem->ldb), trans_b ? problem->ldb : 1,
               k, column);
        for (int64_t i = 0; i < row_count; i++) {
            double *value = &reference->value[j * row_count + i];
            double *magnitude = &reference->magnitude[j * row_count + i];
            if (is_integer(problem->type_a)) {
                dot_wrapping(rows + i * k, column, k, value, magnitude);
            } else if (problem->type_a == CARAT_F64) {
                dot_long_double(rows + i * k, column, k, value, magnitude);
            } else {
                dot_double(rows + i * k, column, k, value, magnitude);
            }
        }
    }
    free(rows);
    free(column);
    return CARAT_OK;
}

void reference_free(struct reference *reference)
{
    free(reference->rows);
    free(reference->columns);
    free(reference->value);
    free(reference->magnitude);
    *reference = (struct reference){0};
}

const struct epilogue epilogues[] = {
    {"plain", CARAT_BIAS_NONE, CARAT_ACTIVATION_NONE},
    {"bias per row", CARAT_BIAS_PER_ROW, CARAT_ACTIVATION_NONE},
    {"bias per column", CARAT_BIAS_PER_COLUMN, CARAT_ACTIVATION_NONE},
    {"relu", CARAT_BIAS_NONE, CARAT_ACTIVATION_RELU},
    {"bias per row, relu", CARAT_BIAS_PER_ROW, CARAT_ACTIVATION_RELU},
    {"bias per column, relu", CARAT_BIAS_PER_COLUMN, CARAT_ACTIVATION_RELU},
    {"gelu, tanh form", CARAT_BIAS_NONE, CARAT_ACTIVATION_GELU_TANH},
    {"gelu, erf form", CARAT_BIAS_NONE, CARAT_ACTIVATION_GELU_ERF},
    {"silu", CARAT_BIAS_NONE, CARAT_ACTIVATION_SILU},
    {"bias per row, gelu", CARAT_BIAS_PER_ROW, CARAT_ACTIVATION_GELU_ERF},
    {"bias per row, silu", CARAT_BIAS_PER_ROW, CARAT_ACTIVATION_SILU},
};
const int epilogue_count = sizeof(epilogues) / sizeof(epilogues[0]);

static double activate(carat_activation activation, double x)
{
    switch (activation) {
    case CARAT_ACTIVATION_RELU:
        return x > 0 ? x : 0;
    case CARAT_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x / 2 * erfc(-x / sqrt(2)); /* 1 + erf, without cancellation */
    case CARAT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    case CARAT_ACTIVATION_NONE:
        break;
    }
    return x;
}

static void *copy_of(const void *from, size_t bytes)
{
    void *copy = malloc(bytes);
    return copy ? memcpy(copy, from, bytes) : NULL;
}

carat_status reference_finish(const struct reference *plain, const struct source *bias,
                              const struct epilogue *epilogue, struct reference *finished)
{
    size_t rows = (size_t)plain->row_count;
    size_t columns = (size_t)plain->column_count;
    *finished = *plain;
    finished->rows = copy_of(plain->rows, rows * sizeof(*plain->rows));
    finished->columns = copy_of(plain->columns, columns * sizeof(*plain->columns));
    finished->value = copy_of(plain->value, rows * columns * sizeof(*plain->value));
    finished->magnitude = copy_of(plain->magnitude, rows * columns * sizeof(*plain->magnitude));
    if (!finished->rows || !finished->columns || !finished->value || !finished->magnitude) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a reference of %zu x %zu entries", rows,
                    columns);
    }
    for (size_t at = 0; at < rows * columns; at++) {
        double added = 0;
        if (epilogue->bias != CARAT_BIAS_NONE) {
            int64_t place =
                epilogue->bias == CARAT_BIAS_PER_ROW ? plain->rows[at % rows] : plain->columns[at / rows];
            gather(bias, place, 1, 1, &added);
        }
        finished->value[at] = activate(epilogue->activation, plain->value[at] + added);
        finished->magnitude[at] += fabs(added);
    }
    return CARAT_OK;
}

static bool wants_best(const carat_gemm_problem *problem)
{
    return problem->accuracy == CARAT_ACCURACY_BEST && !is_integer(problem->type_a);
}

double reference_ulps(const carat_gemm_problem *problem)
{
    /*
     * Sums in the type of the sums wander by a few units, also where a tensor unit cuts off what it adds. 32
     * is ample whatever k is; a product in tf32, or with a k left out, is far above it.
     */
    double ulps = 32;
    double k = problem->k > 1 ? (double)problem->k : 1;
    bool fast = problem->accuracy == CARAT_ACCURACY_FAST;
    if (wants_best(problem)) {
        /*
         * Of f64, what the reference in long double errs by, and that it is rounded as well. Of others the bound that
         * is promised, and once more the same for the reference.
         */
        return problem->type_a == CARAT_F64 ? 2 + k * 0x1p-11 : 8 * k * 0x1p-53 / 0x1p-24;
    }
    if (problem->type_a == CARAT_F32 && fast) {
        /*
         * Both factors are rounded to 11 bits, at most 2 * 2^-11 of each product. Errors of k products cancel to
         * about 5 / sqrt(k) at the worst of a million entries; operands cut off instead would show 10 / sqrt(k).
         */
        ulps += 0x1p24 * 0x1p-11 * fmin(2, 8 / sqrt(k));
    } else if (problem->type_a == CARAT_E4M3 || problem->type_a == CARAT_E5M2) {
        /*
         * The unit adds 32 products at a time, cut off 13 bits below the largest: each sum of 128 is as good as
         * that, and the errors of many sums cancel. Where sums stay in the unit, what is cut off grows with them.
         */
        ulps += 0x1p24 * 0x1p-13 * (fmin(8, 80 / sqrt(k)) + (fast ? 8 + sqrt(k) / 8 : 0));
    }
    return ulps;
}

double reference_ulps_on(const carat_gemm_problem *problem, enum accuracy_family family)
{
    double k = problem->k > 1 ? (double)problem->k : 1;
    if (family == ACCURACY_NORMAL || wants_best(problem)) {
        return reference_ulps(problem); /* the latter is a bound for any numbers */
    }
    if (problem->accuracy == CARAT_ACCURACY_FAST) {
        /* 2^-11 of either factor at the most; but of a denormal one tf32 may keep nothing. */
        return family == ACCURACY_DENORMALS ? 0x1p24 : 0x1p14 + 2 * k;
    }
    if (accuracy_family_exact(family)) {
        return 0;
    }
    /*
     * A sum of numbers of one sign grows to |A||B| and is rounded k times on the way: k at the worst, and a few times
     * sqrt(k) / 2 as roundings go either way.
     */
    return 32 + sqrt(k);
}

double larger_or_nan(double x, double y) { return isnan(x) || x > y ? x : y; }

/* Half a unit in the last place of 1. */
static double half_ulp(carat_type type)
{
    switch (type) {
    case CARAT_F64:
        return 0x1p-53;
    case CARAT_F32:
        return 0x1p-24;
    case CARAT_F16:
        return 0x1p-11;
    case CARAT_BF16:
        return 0x1p-8;
    case CARAT_E4M3:
        return 0x1p-4;
    default:
        return 0;
    }
}

double reference_peer_ulps(const carat_gemm_problem *problem, enum accuracy_family family)
{
    /* The parts of a split k, rounded to D's type before they are added: their errors cancel like those of sums. */
    double k = problem->k > 1 ? (double)problem->k : 1;
    double parts = carat_type_size(problem->type_cd) < 4 ? 4 * half_ulp(problem->type_cd) / sqrt(k) : 0;
    carat_gemm_problem own = *problem;
    if (wants_best(problem)) {
        own.accuracy = CARAT_ACCURACY_STANDARD; /* no peer has the best */
    }
    return reference_ulps_on(&own, family) + parts / half_ulp(CARAT_F32);
}

struct verdict reference_compare(const struct reference *reference, const void *d, double ulps)
{
    struct verdict verdict = {.right = true};
    double sum_error = ulps * half_ulp(carat_scalar_type(reference->type_cd));
    double rounding = half_ulp(reference->type_cd);
    double least = reference->type_cd == CARAT_F16    ? 0x1p-25 /* half the least denormal */
                   : reference->type_cd == CARAT_E4M3 ? 0x1p-10
                                                      : 0;
    for (int64_t j = 0; j < reference->column_count; j++) {
        for (int64_t i = 0; i < reference->row_count; i++) {
            int64_t row = reference->rows[i];
            int64_t column = reference->columns[j];
            double wanted = reference->value[j * reference->row_count + i];
            if (reference->type_cd == CARAT_E4M3) { /* which saturates */
                wanted = fmax(-448, fmin(448, wanted));
            }
            double magnitude = reference->magnitude[j * reference->row_count + i];
            double got = element_value(reference->type_cd, d,
                                       reference->problem_offset + column * reference->ldd + row);
            double difference = fabs(got - wanted);
            double allowed = sum_error * magnitude + rounding * fabs(wanted) * (1 + sum_error) + least;
            double error = magnitude > 0 ? difference / magnitude : difference;
            /* Written so that NaN is a failure too. */
            if (!(difference <= allowed) && verdict.right) {
                verdict.right = false;
                snprintf(verdict.why, sizeof(verdict.why),
                         "D(%lld, %lld) is %.9g, the reference %.9g (error %.2g)", (long long)row,
                         (long long)column, got, wanted, error);
            }
            verdict.error = larger_or_nan(verdict.error, error);
        }
    }
    return verdict;
}

int64_t find_poison(carat_type type, const void *d, int64_t count)
{
    if (is_integer(type)) {
        return -1;
    }
    /* One plain loop a size: D can be a gigabyte. */
    size_t size = carat_type_size(type);
    for (int64_t i = 0; size == 1 && i < count; i++) {
        if (((const uint8_t *)d)[i] == UINT8_MAX) {
            return i;
        }
    }
    for (int64_t i = 0; size == 2 && i < count; i++) {
        if (((const uint16_t *)d)[i] == UINT16_MAX) {
            return i;
        }
    }
    for (int64_t i = 0; size == 4 && i < count; i++) {
        if (((const uint32_t *)d)[i] == UINT32_MAX) {
            return i;
        }
    }
    for (int64_t i = 0; size == 8 && i < count; i++) {
        if (((const uint64_t *)d)[i] == UINT64_MAX) {
            return i;
        }
    }
    return -1;
}
