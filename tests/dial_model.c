/* dial_model.c - see dial_model.h. */
#include "dial_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_F32 = -149,      /* the exponent of the smallest denormal number */
    LEAST_EXPONENT = -100, /* smaller elements do not split into three bf16 without loss */
    FAR_APART = 64         /* exponents of one operand that short products are too rough for */
};

enum { PARTS = 3 };

/* ---- Bits ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* 2^exponent, for exponents of normal doubles. */
static double power_of_two(int exponent) { return double_of((uint64_t)(exponent + 1023) << 52); }

/* The exponent of a double: INT_MIN-like for 0. */
static int exponent_of(double x) { return (int)(bits_of_double(x) >> 52 & 0x7ff) - 1023; }

/* The f32 next to x on the side of 0. */
static float cut_to_f32(double x)
{
    if (fabs(x) < 0x1p-126) {
        return (float)(trunc(x * 0x1p149) * 0x1p-149);
    }
    return (float)double_of(bits_of_double(x) & ~(uint64_t)0x1fffffff);
}

/* ---- The tensor unit ---- */

float tensor_step(const struct tensor_unit *unit, float accumulator, const float x[UNIT_K],
                  const float y[UNIT_K])
{
    double products[UNIT_K];
    int largest = exponent_of(accumulator);
    for (int i = 0; i < UNIT_K; i++) {
        products[i] = (double)x[i] * y[i];
    }
    if (unit->products_normal) {
        for (int i = 0; i < UNIT_K; i++) {
            int exponent = exponent_of(products[i]);
            largest = exponent > largest ? exponent : largest;
        }
    } else {
        for (int i = 0; i < UNIT_K; i++) {
            int exponent = products[i] == 0 ? -1023 : exponent_of(x[i]) + exponent_of(y[i]);
            largest = exponent > largest ? exponent : largest;
        }
    }
    if (largest == -1023) {
        return accumulator;
    }
    int last = largest - 23 - unit->extra_bits;
    double scale = power_of_two(-last);
    double sum = trunc(accumulator * scale);
    for (int i = 0; i < UNIT_K; i++) {
        sum += trunc(products[i] * scale);
    }
    return cut_to_f32(sum * power_of_two(last));
}

/* ---- Parts ---- */

float round_to_bf16(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    bool overflows = (rounded & 0x7f800000) == 0x7f800000;
    return float_of(overflows ? bits & 0xffff0000 : rounded);
}

void split_bf16(float x, float parts[3])
{
    parts[0] = round_to_bf16(x);
    parts[1] = round_to_bf16(x - parts[0]);
    parts[2] = round_to_bf16(x - parts[0] - parts[1]);
}

/* Parts of a matrix, each vector of k in one piece and filled with zeros to whole steps of the unit. */
struct planes {
    int64_t vectors;
    int64_t k;
    float *parts; /* [part][vector][k] */
};

static const float *plane(const struct planes *planes, int part, int64_t vector, int64_t l)
{
    return planes->parts + ((int64_t)part * planes->vectors + vector) * planes->k + l;
}

/* Element l of vector v is at x[v * along + l * step]. */
static struct planes split_matrix(int64_t vectors, int64_t k, const float *x, int64_t along, int64_t step)
{
    struct planes planes = {vectors, (k + UNIT_K - 1) / UNIT_K * UNIT_K, NULL};
    planes.parts = calloc((size_t)(PARTS * vectors * planes.k), sizeof(*planes.parts));
    if (!planes.parts) {
        abort();
    }
    for (int64_t v = 0; v < vectors; v++) {
        for (int64_t l = 0; l < k; l++) {
            float parts[PARTS];
            split_bf16(x[v * along + l * step], parts);
            for (int part = 0; part < PARTS; part++) {
                planes.parts[((int64_t)part * vectors + v) * planes.k + l] = parts[part];
            }
        }
    }
    return planes;
}

/* ---- strict ---- */

/* One entry: row is a row of A, m apart; column is one of B. */
static float strict_entry(int64_t m, int64_t k, int64_t block, const float *row, const float *column)
{
    float sum = 0;
    float part = 0;
    for (int64_t l = 0; l < k; l++) {
        part = fmaf(row[l * m], column[l], part);
        if (block > 0 && (l + 1) % block == 0) {
            sum += part;
            part = 0;
        }
    }
    return sum + part;
}

void model_strict(int64_t m, int64_t n, int64_t k, int64_t block, const float *a, const float *b, float *c)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            c[i + j * m] = strict_entry(m, k, block, a + i, b + j * k);
        }
    }
}

/* ---- standard ---- */

/* The products of parts, small ones first. */
static const int six_products[6][2] = {{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};

static float standard_entry(const struct dial *dial, const struct planes *a, const struct planes *b,
                            int64_t i, int64_t j)
{
    float sum = 0;
    int64_t move = dial->move > 0 ? dial->move : a->k;
    int64_t stretch = dial->order == ORDER_BY_STEP ? UNIT_K : move;
    for (int64_t begin = 0; begin < a->k; begin += move) {
        int64_t end = begin + move < a->k ? begin + move : a->k;
        float accumulator = 0;
        for (int64_t first = begin; first < end; first += stretch) {
            int64_t last = first + stretch < end ? first + stretch : end;
            for (int product = 0; product < 6; product++) {
                int part_a = six_products[product][0];
                int part_b = six_products[product][1];
                for (int64_t l = first; l < last; l += UNIT_K) {
                    accumulator =
                        tensor_step(&dial->unit, accumulator, plane(a, part_a, i, l), plane(b, part_b, j, l));
                }
            }
        }
        sum += accumulator;
    }
    return sum;
}

/* Whether three bf16 may stand for a matrix: the kernels' own question, see kernels/common/verdict.h. */
static bool is_refused(const struct dial *dial, int64_t k, int64_t count, const float *x)
{
    int least = 127;
    int most = LEAST_F32;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != 0) {
            /* All denormal numbers have one exponent there, and what is not finite has the largest. */
            int exponent = isfinite(x[i]) ? ilogbf(x[i]) : 128;
            least = exponent < least ? exponent : least;
            most = exponent > most ? exponent : most;
        }
    }
    least = least < -127 ? -127 : least;
    return least < LEAST_EXPONENT || (k < dial->far_apart_k && most - least > FAR_APART);
}

bool standard_is_guarded(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a,
                         const float *b)
{
    return k < dial->least_k || is_refused(dial, k, m * k, a) || is_refused(dial, k, k * n, b);
}

void model_standard(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                    float *c)
{
    if (standard_is_guarded(dial, m, n, k, a, b)) {
        model_strict(m, n, k, 0, a, b, c);
        return;
    }
    struct planes parts_a = split_matrix(m, k, a, 1, m);
    struct planes parts_b = split_matrix(n, k, b, k, 1);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            float sum = standard_entry(dial, &parts_a, &parts_b, i, j);
            c[i + j * m] = isfinite(sum) ? sum : strict_entry(m, k, 0, a + i, b + j * k);
        }
    }
    free(parts_a.parts);
    free(parts_b.parts);
}

/* ---- The reference ---- */

/* Products of f32 are exact in f64; their sum is kept with all its rounding errors beside it. */
struct model_errors model_compare(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                  const float *c)
{
    struct model_errors errors = {0, 0, 0};
    int64_t counted = 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double sum = 0;
            double rest = 0;
            double magnitude = 0;
            for (int64_t l = 0; l < k; l++) {
                double product = (double)a[i + l * m] * b[l + j * k];
                double next = sum + product;
                double taken = next - sum;
                rest += (sum - (next - taken)) + (product - taken);
                sum = next;
                magnitude += fabs(product);
            }
            double difference = fabs((c[i + j * m] - sum) - rest);
            errors.different += c[i + j * m] != (float)(sum + rest);
            if (magnitude > 0) {
                double error = difference / magnitude;
                errors.most = error > errors.most || isnan(error) ? error : errors.most;
                errors.mean += error;
                counted++;
            }
        }
    }
    errors.mean /= counted > 0 ? (double)counted : 1;
    return errors;
}
