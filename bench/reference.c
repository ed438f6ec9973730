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
    default:
        return 0;
    }
}

struct verdict reference_compare(const struct reference *reference, const void *d, double ulps)
{
    struct verdict verdict = {.right = true};
    double sum_error = ulps * half_ulp(carat_scalar_type(reference->type_cd));
    double rounding = half_ulp(reference->type_cd);
    double least = reference->type_cd == CARAT_F16 ? 0x1p-25 : 0; /* half the least denormal */
    for (int64_t j = 0; j < reference->column_count; j++) {
        for (int64_t i = 0; i < reference->row_count; i++) {
            int64_t row = reference->rows[i];
            int64_t column = reference->columns[j];
            double wanted = reference->value[j * reference->row_count + i];
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
