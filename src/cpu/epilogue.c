/*
 * epilogue.c - what becomes of the sums of products on the CPU:
 *
 *     D = round(scale_d * act(alpha * scale_a * scale_b * sum + beta * C + bias))
 *
 * column by column, a run of rows at a time that stays in the first-level cache:
 *
 *     sums --scale--> values --+ beta C--> --+ bias--> --act, scale_d--> --round--> D
 *
 * in f64 where the sums are f64, in s32 where D is s32, else in f32.
 */
#include "activation.h"
#include "cpu.h"

#define RUN 512

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* ---- f32: all but f64 and s32 results ---- */

/* values = alpha * sums, from row i of column j of the block on; 0 where nothing was summed. */
static void scaled_sums(const struct problem *p, const struct operands *operands, const struct block *block,
                        int64_t i, int64_t j, int64_t count, float *values)
{
    if (!block->sums) {
        for (int64_t e = 0; e < count; e++) {
            values[e] = 0;
        }
        return;
    }
    float alpha = *(const float *)operands->alpha * (operands->scale_a ? *operands->scale_a : 1.0f) *
                  (operands->scale_b ? *operands->scale_b : 1.0f);
    if (problem_sum_type(p) == CARAT_S32) {
        const int32_t *sums = (const int32_t *)block->sums + i + j * block->rows;
        for (int64_t e = 0; e < count; e++) {
            values[e] = alpha * (float)sums[e];
        }
    } else {
        const float *sums = (const float *)block->sums + i + j * block->rows;
        for (int64_t e = 0; e < count; e++) {
            values[e] = alpha * sums[e];
        }
    }
}

/* Adds the bias of D's rows from row on and of that column. */
static void add_bias_f32(const struct problem *p, const void *bias, int64_t row, int64_t column,
                         int64_t count, float *values)
{
    size_t bytes = carat_type_size(p->type_bias);
    float widened[RUN];
    if (p->bias_along_n) {
        cpu_widen(p->type_bias, (const char *)bias + (size_t)column * bytes, 1, widened);
        for (int64_t e = 0; e < count; e++) {
            values[e] += widened[0];
        }
    } else {
        cpu_widen(p->type_bias, (const char *)bias + (size_t)row * bytes, count, widened);
        for (int64_t e = 0; e < count; e++) {
            values[e] += widened[e];
        }
    }
}

/* What follows alpha * sum + beta * C, for at most RUN rows of one column of D. */
static void last_steps_f32(const struct problem *p, const struct operands *operands, int64_t row,
                           int64_t column, int64_t count, float *values)
{
    if (p->bias) {
        add_bias_f32(p, operands->bias, row, column, count, values);
    }
    if (p->activation != CARAT_ACTIVATION_NONE) {
        for (int64_t e = 0; e < count; e++) {
            values[e] = activate_f32(p->activation, values[e]);
        }
    }
    if (operands->scale_d) {
        float scale = *operands->scale_d;
        for (int64_t e = 0; e < count; e++) {
            values[e] *= scale;
        }
    }
}

static void finish_f32(const struct problem *p, const struct operands *operands, const struct block *block)
{
    float beta = *(const float *)operands->beta;
    size_t bytes = carat_type_size(p->type_cd);
    float values[RUN];
    float of_c[RUN];
    for (int64_t j = 0; j < block->columns; j++) {
        int64_t column = block->column + j;
        for (int64_t i = 0; i < block->rows; i += RUN) {
            int64_t row = block->row + i;
            int64_t count = least(RUN, block->rows - i);
            scaled_sums(p, operands, block, i, j, count, values);
            if (beta != 0) {
                cpu_widen(p->type_cd, (const char *)operands->c + (size_t)(row + column * p->ldc) * bytes,
                          count, of_c);
                for (int64_t e = 0; e < count; e++) {
                    values[e] += beta * of_c[e];
                }
            }
            last_steps_f32(p, operands, row, column, count, values);
            cpu_narrow(p->type_cd, values, count,
                       (char *)operands->d + (size_t)(row + column * p->ldd) * bytes);
        }
    }
}

/* ---- f64 sums of narrower floats, in best accuracy: all in f64, rounded once ---- */

/* The bias of D's rows from row on and of that column, added. */
static void add_bias_wide(const struct problem *p, const void *bias, int64_t row, int64_t column,
                          int64_t count, double *values)
{
    size_t bytes = carat_type_size(p->type_bias);
    float widened[RUN];
    cpu_widen(p->type_bias, (const char *)bias + (size_t)(p->bias_along_n ? column : row) * bytes,
              p->bias_along_n ? 1 : count, widened);
    for (int64_t e = 0; e < count; e++) {
        values[e] += widened[p->bias_along_n ? 0 : e];
    }
}

static void finish_wide(const struct problem *p, const struct operands *operands, const struct block *block)
{
    double alpha = *(const float *)operands->alpha;
    double beta = *(const float *)operands->beta;
    double scale = operands->scale_d ? *operands->scale_d : 1.0;
    size_t bytes = carat_type_size(p->type_cd);
    double values[RUN];
    float of_c[RUN];
    alpha *= operands->scale_a ? *operands->scale_a : 1.0;
    alpha *= operands->scale_b ? *operands->scale_b : 1.0;
    for (int64_t j = 0; j < block->columns; j++) {
        int64_t column = block->column + j;
        for (int64_t i = 0; i < block->rows; i += RUN) {
            int64_t row = block->row + i;
            int64_t count = least(RUN, block->rows - i);
            const double *sums = block->sums ? (const double *)block->sums + i + j * block->rows : NULL;
            for (int64_t e = 0; e < count; e++) {
                values[e] = sums ? alpha * sums[e] : 0;
            }
            if (beta != 0) {
                cpu_widen(p->type_cd, (const char *)operands->c + (size_t)(row + column * p->ldc) * bytes,
                          count, of_c);
                for (int64_t e = 0; e < count; e++) {
                    values[e] += beta * of_c[e];
                }
            }
            if (p->bias) {
                add_bias_wide(p, operands->bias, row, column, count, values);
            }
            for (int64_t e = 0; e < count; e++) {
                values[e] = scale * activate_f64(p->activation, values[e]);
            }
            cpu_narrow_f64(p->type_cd, values, count,
                           (char *)operands->d + (size_t)(row + column * p->ldd) * bytes);
        }
    }
}

/* ---- f64 ---- */

static double last_steps_f64(const struct problem *p, const void *bias, int64_t row, int64_t column,
                             double value)
{
    value += p->bias ? ((const double *)bias)[p->bias_along_n ? column : row] : 0.0;
    return activate_f64(p->activation, value);
}

static void finish_f64(const struct problem *p, const struct operands *operands, const struct block *block)
{
    double alpha = *(const double *)operands->alpha;
    double beta = *(const double *)operands->beta;
    for (int64_t j = 0; j < block->columns; j++) {
        int64_t column = block->column + j;
        for (int64_t i = 0; i < block->rows; i++) {
            int64_t row = block->row + i;
            double value = block->sums ? alpha * ((const double *)block->sums)[i + j * block->rows] : 0.0;
            if (beta != 0) {
                value += beta * ((const double *)operands->c)[row + column * p->ldc];
            }
            ((double *)operands->d)[row + column * p->ldd] =
                last_steps_f64(p, operands->bias, row, column, value);
        }
    }
}

/* ---- s32: modulo 2^32, which unsigned arithmetic says without undefined behaviour ---- */

static void finish_s32(const struct problem *p, const struct operands *operands, const struct block *block)
{
    uint32_t alpha = *(const uint32_t *)operands->alpha;
    uint32_t beta = *(const uint32_t *)operands->beta;
    bool relu = p->activation == CARAT_ACTIVATION_RELU;
    for (int64_t j = 0; j < block->columns; j++) {
        int64_t column = block->column + j;
        for (int64_t i = 0; i < block->rows; i++) {
            int64_t row = block->row + i;
            uint32_t value = block->sums ? alpha * ((const uint32_t *)block->sums)[i + j * block->rows] : 0;
            if (beta != 0) {
                value += beta * ((const uint32_t *)operands->c)[row + column * p->ldc];
            }
            if (p->bias) {
                value += ((const uint32_t *)operands->bias)[p->bias_along_n ? column : row];
            }
            ((uint32_t *)operands->d)[row + column * p->ldd] = relu && value > INT32_MAX ? 0 : value;
        }
    }
}

/* ---- Which ---- */

void cpu_finish(const struct problem *problem, const struct operands *operands, const struct block *block)
{
    if (problem_sum_type(problem) == CARAT_F64 && problem_scalar_type(problem) != CARAT_F64) {
        finish_wide(problem, operands, block);
        return;
    }
    switch (problem_scalar_type(problem)) {
    case CARAT_F64:
        finish_f64(problem, operands, block);
        break;
    case CARAT_S32:
        finish_s32(problem, operands, block);
        break;
    default:
        finish_f32(problem, operands, block);
        break;
    }
}

void cpu_finish_in_place(const struct problem *p, const struct operands *operands)
{
    for (int64_t j = 0; j < p->n; j++) {
        if (p->type_cd == CARAT_F64) {
            double *d = (double *)operands->d + j * p->ldd;
            for (int64_t i = 0; i < p->m; i++) {
                d[i] = last_steps_f64(p, operands->bias, i, j, d[i]);
            }
        } else {
            float *d = (float *)operands->d + j * p->ldd;
            for (int64_t i = 0; i < p->m; i += RUN) {
                last_steps_f32(p, operands, i, j, least(RUN, p->m - i), d + i);
            }
        }
    }
}
