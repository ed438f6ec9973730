/* reference.c - plain loops in long double and in wrapping integers: see reference.h. */
#include "reference.h"

#include <math.h>
#include <string.h>

#include "cpu/float8.h"
#include "cpu/half.h"

/* ---- Random numbers ---- */

uint64_t random_bits(struct random *random)
{
    /* A counter, well mixed. */
    uint64_t x = random->state += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

int64_t random_between(struct random *random, int64_t least, int64_t most)
{
    return least + (int64_t)(random_bits(random) % (uint64_t)(most - least + 1));
}

bool random_one_in(struct random *random, int in) { return random_bits(random) % (uint64_t)in == 0; }

double random_unit(struct random *random) { return (double)(int64_t)random_bits(random) * 0x1p-63; }

/* ---- Elements ---- */

long double element_get(carat_type type, const void *array, int64_t index)
{
    switch (type) {
    case CARAT_F32:
        return ((const float *)array)[index];
    case CARAT_F64:
        return ((const double *)array)[index];
    case CARAT_F16:
        return f32_from_f16(((const uint16_t *)array)[index]);
    case CARAT_BF16:
        return f32_from_bf16(((const uint16_t *)array)[index]);
    case CARAT_S32:
        return ((const int32_t *)array)[index];
    case CARAT_S8:
        return ((const int8_t *)array)[index];
    case CARAT_E4M3:
        return f32_from_e4m3(((const uint8_t *)array)[index]);
    case CARAT_E5M2:
        return f32_from_e5m2(((const uint8_t *)array)[index]);
    }
    return NAN;
}

/* As f32 with the last bit set where something is cut off: rounded again, it becomes what the number itself would. */
static float to_odd_f32(long double value)
{
    float cut = (float)value;
    if (isnan(value) || (long double)cut == value) {
        return cut;
    }
    if (fabsl((long double)cut) > fabsl(value)) {
        cut = nextafterf(cut, 0);
    }
    uint32_t bits;
    memcpy(&bits, &cut, sizeof(bits));
    bits |= 1;
    memcpy(&cut, &bits, sizeof(bits));
    return cut;
}

void element_set(carat_type type, void *array, int64_t index, long double value)
{
    switch (type) {
    case CARAT_F32:
        ((float *)array)[index] = (float)value;
        break;
    case CARAT_F64:
        ((double *)array)[index] = (double)value;
        break;
    case CARAT_F16:
        ((uint16_t *)array)[index] = f16_from_f32(to_odd_f32(value));
        break;
    case CARAT_BF16:
        ((uint16_t *)array)[index] = bf16_from_f32(to_odd_f32(value));
        break;
    case CARAT_S32:
        ((int32_t *)array)[index] = (int32_t)(uint32_t)(int64_t)value;
        break;
    case CARAT_S8:
        ((int8_t *)array)[index] = (int8_t)(uint8_t)(int64_t)value;
        break;
    case CARAT_E4M3:
        ((uint8_t *)array)[index] = e4m3_from_f32(to_odd_f32(value));
        break;
    case CARAT_E5M2:
        ((uint8_t *)array)[index] = e5m2_from_f32(to_odd_f32(value));
        break;
    }
}

void element_random(carat_type type, void *array, int64_t index, struct random *random)
{
    if (type == CARAT_S32 || type == CARAT_S8) {
        element_set(type, array, index, (int64_t)random_bits(random) >> 16);
    } else {
        element_set(type, array, index, random_unit(random));
    }
}

void element_poison(carat_type type, void *array, int64_t index)
{
    element_set(type, array, index, type == CARAT_S32 || type == CARAT_S8 ? 0x5a5a5a : NAN);
}

/* ---- Products ---- */

int64_t element_index(carat_order order, int64_t row, int64_t column, int64_t ld)
{
    return order == CARAT_COLUMN_MAJOR ? row + column * ld : row * ld + column;
}

int64_t packed_ld(carat_order order, int64_t rows, int64_t columns)
{
    int64_t length = order == CARAT_COLUMN_MAJOR ? rows : columns;
    return length > 0 ? length : 1;
}

/* The rounding unit of the sums. */
static long double unit_roundoff(carat_type scalar_type)
{
    return scalar_type == CARAT_F64 ? 0x1p-53L : 0x1p-24L;
}

/* What a sum of that many products may lose to gradual underflow. */
static long double underflow(carat_type scalar_type)
{
    return scalar_type == CARAT_F64 ? 0x1p-1074L : 0x1p-149L;
}

static int64_t index_of_a(const carat_gemm_problem *p, int64_t index, int64_t row, int64_t l)
{
    bool transposed = p->op_a == CARAT_TRANSPOSE;
    return index * p->stride_a + element_index(p->order, transposed ? l : row, transposed ? row : l, p->lda);
}

static int64_t index_of_b(const carat_gemm_problem *p, int64_t index, int64_t l, int64_t column)
{
    bool transposed = p->op_b == CARAT_TRANSPOSE;
    return index * p->stride_b +
           element_index(p->order, transposed ? column : l, transposed ? l : column, p->ldb);
}

/* Bias (row, column) of a problem of the batch. */
static int64_t index_of_bias(const carat_gemm_problem *p, int64_t index, int64_t row, int64_t column)
{
    return index * p->stride_bias + (p->bias == CARAT_BIAS_PER_ROW ? row : column);
}

/* An integer element modulo 2^32: by way of a long double it would take ten times as long. */
static uint32_t integer_get(carat_type type, const void *array, int64_t index)
{
    return type == CARAT_S8 ? (uint32_t)((const int8_t *)array)[index] : ((const uint32_t *)array)[index];
}

/* The sum of the products modulo 2^32. */
static uint32_t wrapping_sum(const carat_gemm_problem *p, const void *a, const void *b, int64_t index,
                             int64_t row, int64_t column)
{
    uint32_t sum = 0;
    for (int64_t l = 0; l < p->k; l++) {
        sum += integer_get(p->type_a, a, index_of_a(p, index, row, l)) *
               integer_get(p->type_b, b, index_of_b(p, index, l, column));
    }
    return sum;
}

static struct expected wrapping_gemm(const carat_gemm_problem *p, const void *alpha, const void *a,
                                     const void *b, const void *beta, const void *c, const carat_run *extras,
                                     int64_t index, int64_t row, int64_t column)
{
    uint32_t scale = *(const uint32_t *)alpha;
    uint32_t scale_c = *(const uint32_t *)beta;
    uint32_t sum = scale != 0 ? scale * wrapping_sum(p, a, b, index, row, column) : 0;
    if (scale_c != 0) {
        sum += scale_c *
               ((const uint32_t *)c)[index * p->stride_c + element_index(p->order, row, column, p->ldc)];
    }
    if (p->bias != CARAT_BIAS_NONE) {
        sum += ((const uint32_t *)extras->bias)[index_of_bias(p, index, row, column)];
    }
    if (p->activation == CARAT_ACTIVATION_RELU && sum > INT32_MAX) {
        sum = 0;
    }
    return (struct expected){sum, 0};
}

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

/* Whether sums are to be of the best accuracy, which integers know nothing of. */
static bool wants_best(const carat_gemm_problem *p)
{
    return p->accuracy == CARAT_ACCURACY_BEST && p->type_a != CARAT_S8 && p->type_a != CARAT_S32;
}

/* In which all is computed. */
static carat_type arithmetic_type(const carat_gemm_problem *p)
{
    return wants_best(p) ? CARAT_F64 : carat_scalar_type(p->type_cd);
}

/* A sum of products, without alpha. */
struct products {
    long double sum;
    long double size; /* of |A||B| */
    long double lost; /* the most that is lost besides the roundings of f32 sums */
};

/* A number of the f32 range to tf32: 11 bits, or the last bit of its denormals. */
static long double tf32_error(long double x) { return fmaxl(fabsl(x) * 0x1p-11L, 0x1p-137L); }

/*
 * What tensor units cost besides. Of f32 in the fast way: both factors are rounded to tf32.
 *
 * Of 8-bit floats: an instruction adds 32 products and the sum so far, all aligned to the largest of them and cut
 * off below 13 bits under its leading one. Each of the 33 loses at most 2^-13 of the largest. In the fast way the sum
 * so far is that of all products, by default of those since k was last a multiple of 128; strict products are
 * multiplied as f16, which loses nothing. (Of |A||B| that is less than 2^-13 in 128 of k for products of random
 * signs, and much more where all have one sign, so the sum itself is followed.)
 */
static struct products sum_of_products(const carat_gemm_problem *p, const void *a, const void *b,
                                       int64_t index, int64_t row, int64_t column)
{
    struct products products = {0, 0, 0};
    bool fast = p->accuracy == CARAT_ACCURACY_FAST;
    bool cut = is_float8(p->type_a) && p->accuracy != CARAT_ACCURACY_STRICT && !wants_best(p);
    long double so_far = 0;
    long double largest = 0;
    for (int64_t l = 0; l < p->k; l++) {
        long double x = element_get(p->type_a, a, index_of_a(p, index, row, l));
        long double y = element_get(p->type_b, b, index_of_b(p, index, l, column));
        products.sum += x * y;
        products.size += fabsl(x * y);
        if (fast && p->type_a == CARAT_F32) {
            long double error_x = tf32_error(x);
            long double error_y = tf32_error(y);
            products.lost += error_x * fabsl(y) + error_y * fabsl(x) + error_x * error_y;
        }
        so_far += x * y;
        largest = fmaxl(largest, fmaxl(fabsl(so_far), fabsl(x * y)));
        if (cut && (l % 32 == 31 || l == p->k - 1)) {
            products.lost += 33 * 0x1p-13L * largest;
        }
        if (!fast && l % 128 == 127) {
            so_far = 0;
            largest = 0;
        }
    }
    return products;
}

/* sum + term, and what is lost of it added to *rest; where it is finite. */
static long double add_exactly(long double sum, long double term, long double *rest)
{
    long double next = sum + term;
    long double added = next - sum;
    long double error = (sum - (next - added)) + (term - added);
    *rest += isfinite(next) ? error : 0;
    return next;
}

/*
 * Of f64 in the best accuracy: sums of twice the precision, for which products are taken as two f64, and the sum as two
 * long doubles. What it may lose itself is of second order.
 */
static struct products sum_of_f64_products(const carat_gemm_problem *p, const double *a, const double *b,
                                           int64_t index, int64_t row, int64_t column)
{
    struct products products = {0, 0, 0};
    long double rest = 0;
    for (int64_t l = 0; l < p->k; l++) {
        double x = a[index_of_a(p, index, row, l)];
        double y = b[index_of_b(p, index, l, column)];
        double product = x * y;
        double product_error = fma(x, y, -product);
        products.sum = add_exactly(products.sum, product, &rest);
        products.sum = add_exactly(products.sum, isfinite(product) ? product_error : 0, &rest);
        products.size += fabsl((long double)x * y);
    }
    products.sum += rest;
    long double unit = (long double)p->k * 0x1p-53L;
    products.lost = 2 * unit * unit * products.size;
    products.size = fabsl(products.sum);
    return products;
}

/*
 * What each addition to a sum may cost, of what is added up. Sums of f32 are rounded to nearest; tensor units, which
 * add the rest, cut off what is below the last bit of an f32 sum, which is twice as much.
 */
static long double addition_error(const carat_gemm_problem *p)
{
    bool in_f32 = arithmetic_type(p) == CARAT_F32;
    bool tensor = p->type_a != CARAT_F32 || p->accuracy == CARAT_ACCURACY_FAST;
    return unit_roundoff(arithmetic_type(p)) * (in_f32 && tensor ? 2 : 1);
}

/* x through the activation, by its definition. */
static long double activated(carat_activation activation, long double x)
{
    switch (activation) {
    case CARAT_ACTIVATION_NONE:
        return x;
    case CARAT_ACTIVATION_RELU:
        return x > 0 || isnan(x) ? x : 0;
    case CARAT_ACTIVATION_GELU_TANH:
        return x / 2 * (1 + tanhl(sqrtl(2 / acosl(-1)) * (x + 0.044715L * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x / 2 * (1 + erfl(x / sqrtl(2)));
    case CARAT_ACTIVATION_SILU:
        return x / (1 + expl(-x));
    }
    return NAN;
}

/*
 * An expected value through the activation. No activation is steeper than 1.13, and each is granted 16 roundings of
 * x: enough for exp, tanh and erf of a few, and for 1 + tanh(x), which cancels where x is negative.
 */
static struct expected through_activation(const struct expected *before, carat_activation activation,
                                          carat_type scalar_type)
{
    if (activation == CARAT_ACTIVATION_NONE) {
        return *before;
    }
    bool smooth = activation != CARAT_ACTIVATION_RELU;
    struct expected after = {activated(activation, before->value), before->bound};
    if (smooth) {
        after.bound = 1.13L * before->bound +
                      16 * (unit_roundoff(scalar_type) * fabsl(before->value) + underflow(scalar_type));
    }
    if (isinf(before->value) && !isinf(after.value)) {
        after.bound = 0;
    }
    return after;
}

/* A scale that was given, or 1. */
static long double scale_or_1(const float *scale) { return scale ? *scale : 1.0L; }

struct expected reference_gemm(const carat_gemm_problem *p, const void *alpha, const void *a, const void *b,
                               const void *beta, const void *c, const carat_run *extras, int64_t index,
                               int64_t row, int64_t column)
{
    static const carat_run nothing;
    extras = extras ? extras : &nothing;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    if (scalar_type == CARAT_S32) {
        return wrapping_gemm(p, alpha, a, b, beta, c, extras, index, row, column);
    }
    carat_type arithmetic = arithmetic_type(p);
    bool compensated = wants_best(p) && p->type_a == CARAT_F64 && p->type_cd == CARAT_F64;
    long double scale = element_get(scalar_type, alpha, 0);
    long double scale_c = element_get(scalar_type, beta, 0);
    long double value = 0;
    long double size = 0;  /* of |A||B|, and of all that is added */
    long double extra = 0; /* of the bound: what is not a matter of f32 or f64 roundings */
    if (scale != 0 && p->k > 0) {
        scale *= scale_or_1(extras->scale_a) * scale_or_1(extras->scale_b);
        struct products products = {0, 0, 0};
        if (p->type_a == CARAT_S8) {
            products.sum = (int32_t)wrapping_sum(p, a, b, index, row, column);
            products.size = fabsl(products.sum);
        } else if (compensated) {
            products = sum_of_f64_products(p, a, b, index, row, column);
        } else {
            products = sum_of_products(p, a, b, index, row, column);
        }
        value = scale * products.sum;
        size = fabsl(scale) * products.size;
        extra = fabsl(scale) * products.lost;
    }
    if (scale_c != 0) {
        int64_t place = index * p->stride_c + element_index(p->order, row, column, p->ldc);
        long double product = scale_c * element_get(p->type_cd, c, place);
        value += product;
        size += fabsl(product);
    }
    if (p->bias != CARAT_BIAS_NONE) {
        long double bias = element_get(p->type_bias, extras->bias, index_of_bias(p, index, row, column));
        value += bias;
        size += fabsl(bias);
    }
    /* k roundings of the sum, and those of alpha, beta, and of adding the two; of the scales and the bias. */
    int64_t terms = (p->type_a == CARAT_S8 || compensated ? 1 : p->k) + 4 + (p->bias != CARAT_BIAS_NONE) +
                    (extras->scale_a != NULL) + (extras->scale_b != NULL);
    long double roundings = (long double)terms * addition_error(p);
    /* A product that underflows is off by itself, compensated or not. */
    long double lost =
        (long double)(terms + (compensated ? p->k : 0)) * underflow(arithmetic) * (fabsl(scale) + 1);
    struct expected sum = {value, roundings / (1 - roundings) * size + extra + lost};
    struct expected result = through_activation(&sum, p->activation, arithmetic);
    if (extras->scale_d) {
        long double scale_d = *extras->scale_d;
        result.value *= scale_d;
        result.bound = fabsl(scale_d) * result.bound + unit_roundoff(arithmetic) * fabsl(result.value) +
                       underflow(arithmetic);
    }
    if (arithmetic == CARAT_F32 && carat_type_size(p->type_cd) <= 2) {
        /* By way of f32 D is rounded twice. */
        result.bound += 0x1p-23L * (fabsl(result.value) + result.bound) + underflow(CARAT_F32);
    }
    return result;
}

/* ---- Comparing ---- */

/* The element of D that a number becomes. */
static long double rounded_to(carat_type type, long double x)
{
    if (type == CARAT_S8) {
        return isnan(x) ? 0 : fminl(fmaxl(nearbyintl(x), -128), 127);
    }
    uint64_t element[1];
    element_set(type, element, 0, x);
    return element_get(type, element, 0);
}

bool expected_holds(const struct expected *expected, carat_type type, const void *d, int64_t index)
{
    if (type == CARAT_S32) {
        return ((const uint32_t *)d)[index] == (uint32_t)expected->value;
    }
    long double got = element_get(type, d, index);
    if (isnan(expected->value) || isinf(expected->value)) {
        long double want = rounded_to(type, expected->value);
        return isnan(want) ? isnan(got) : got == want;
    }
    /* Rounding is monotone: D lies between the rounded ends. */
    long double ends[2];
    for (int i = 0; i < 2; i++) {
        long double end = expected->value + (i == 0 ? -1 : 1) * expected->bound;
        ends[i] = rounded_to(type, end);
    }
    return ends[0] <= got && got <= ends[1];
}
