/* elementwise.c - scale_add and transpose on the CPU: plain loops, in blocks where order matters. */
#include <math.h>

#include "cpu.h"

#define RUN 512

/* ---- scale_add: one fused multiply-add an element, rounded once ---- */

static void scale_add_f64(const struct elementwise *work)
{
    double scale = *(const double *)work->scale;
    double shift = *(const double *)work->shift;
    for (int64_t j = 0; j < work->n; j++) {
        const double *a = (const double *)work->a + j * work->lda;
        double *b = (double *)work->b + j * work->ldb;
        for (int64_t i = 0; i < work->m; i++) {
            b[i] = fma(scale, a[i], shift);
        }
    }
}

/* Of all types but f64: a run of elements at a time, widened and rounded again. */
static void scale_add_f32(const struct elementwise *work)
{
    float scale = *(const float *)work->scale;
    float shift = *(const float *)work->shift;
    size_t bytes = carat_type_size(work->type);
    float values[RUN];
    for (int64_t j = 0; j < work->n; j++) {
        for (int64_t i = 0; i < work->m; i += RUN) {
            int64_t count = i + RUN < work->m ? RUN : work->m - i;
            cpu_widen(work->type, (const char *)work->a + (size_t)(i + j * work->lda) * bytes, count, values);
            for (int64_t e = 0; e < count; e++) {
                values[e] = fmaf(scale, values[e], shift);
            }
            cpu_narrow(work->type, values, count, (char *)work->b + (size_t)(i + j * work->ldb) * bytes);
        }
    }
}

void cpu_scale_add(const struct elementwise *work)
{
    if (work->type == CARAT_F64) {
        scale_add_f64(work);
    } else {
        scale_add_f32(work);
    }
}

/* ---- transpose: by squares whose rows and columns stay in the first-level cache ---- */

#define SQUARE 32

static void transpose_square(const struct elementwise *work, int64_t row, int64_t column, size_t bytes)
{
    int64_t row_end = row + SQUARE < work->m ? row + SQUARE : work->m;
    int64_t column_end = column + SQUARE < work->n ? column + SQUARE : work->n;
    for (int64_t i = row; i < row_end; i++) {
        for (int64_t j = column; j < column_end; j++) {
            int64_t from = i + j * work->lda;
            int64_t to = j + i * work->ldb;
            switch (bytes) {
            case 1:
                ((uint8_t *)work->b)[to] = ((const uint8_t *)work->a)[from];
                break;
            case 2:
                ((uint16_t *)work->b)[to] = ((const uint16_t *)work->a)[from];
                break;
            case 4:
                ((uint32_t *)work->b)[to] = ((const uint32_t *)work->a)[from];
                break;
            default:
                ((uint64_t *)work->b)[to] = ((const uint64_t *)work->a)[from];
                break;
            }
        }
    }
}

void cpu_transpose(const struct elementwise *work)
{
    size_t bytes = carat_type_size(work->type);
    for (int64_t column = 0; column < work->n; column += SQUARE) {
        for (int64_t row = 0; row < work->m; row += SQUARE) {
            transpose_square(work, row, column, bytes);
        }
    }
}
