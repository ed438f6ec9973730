/* plain.c - three plain loops on one core. */
#include "plain.h"

#include <stdlib.h>

#include "generate.h"
#include "timer.h"

static void multiply_f32(int64_t n, const float *a, const float *b, float *c)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < n; k++) {
            for (int64_t i = 0; i < n; i++) {
                c[i + j * n] += a[i + k * n] * b[k + j * n];
            }
        }
    }
}

static void multiply_f64(int64_t n, const double *a, const double *b, double *c)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t k = 0; k < n; k++) {
            for (int64_t i = 0; i < n; i++) {
                c[i + j * n] += a[i + k * n] * b[k + j * n];
            }
        }
    }
}

double plain_seconds(carat_type type, int64_t n)
{
    if (type != CARAT_F32 && type != CARAT_F64) {
        return 0;
    }
    size_t bytes = (size_t)(n * n) * carat_type_size(type);
    void *a = malloc(bytes);
    void *b = malloc(bytes);
    void *c = calloc(1, bytes);
    double seconds = 0;
    if (a && b && c) {
        generate(type, FAMILY_NORMAL, 1, n * n, a);
        generate(type, FAMILY_NORMAL, 2, n * n, b);
        /* Small products are repeated until the clock can tell. */
        int64_t times = 0;
        double begin = now_seconds();
        do {
            if (type == CARAT_F32) {
                multiply_f32(n, a, b, c);
            } else {
                multiply_f64(n, a, b, c);
            }
            times++;
            seconds = now_seconds() - begin;
        } while (seconds < 0.02);
        seconds /= (double)times;
    }
    free(a);
    free(b);
    free(c);
    return seconds;
}
