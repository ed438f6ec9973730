/* reference.c - plain loops in long double and in wrapping integers: see reference.h. */
#include "reference.h"

#include <math.h>

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
    }
    return NAN;
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
        ((uint16_t *)array)[index] = f16_from_f32((float)value);
        break;
    case CARAT_BF16:
        ((uint16_t *)array)[index] = bf16_from_f32((float)value);
        break;
    case CARAT_S32:
        ((int32_t *)array)[index] = (int32_t)(uint32_t)(int64_t)value;
        break;
    case CARAT_S8:
        ((int8_t *)array)[index] = (int8_t)(uint8_t)(int64_t)value;
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

static struct expected wrapping_gemm(const carat_gemm_problem *p, const void *alpha, const void *a,
                                     const void *b, const void *beta, const void *c, int64_t index,
                                     int64_t row, int64_t column)
{
    uint32_t scale = *(const uint32_t *)alpha;
    uint32_t scale_c = *(const uint32_t *)beta;
    uint32_t sum = 0;
    for (int64_t l = 0; l < p->k && scale != 0; l++) {
        uint32_t x = (uint32_t)(int64_t)element_get(p->type_a, a, index_of_a(p, index, row, l));
        uint32_t y = (uint32_t)(int64_t)element_get(p->type_a, b, index_of_b(p, index, l, column));
        sum += x * y;
    }
    sum *= scale;
    if (scale_c != 0) {
        sum += scale_c *
               ((const uint32_t *)c)[index * p->stride_c + element_index(p->order, row, column, p->ldc)];
    }
    return (struct expected){sum, 0};
}

struct expected reference_gemm(const carat_gemm_problem *p, const void *alpha, const void *a, const void *b,
                               const void *beta, const void *c, int64_t index, int64_t row, int64_t column)
{
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    if (scalar_type == CARAT_S32) {
        return wrapping_gemm(p, alpha, a, b, beta, c, index, row, column);
    }
    long double scale = element_get(scalar_type, alpha, 0);
    long double scale_c = element_get(scalar_type, beta, 0);
    long double sum = 0;
    long double size = 0; /* of |A||B|, and of all that is added */
    if (scale != 0 && p->k > 0) {
        for (int64_t l = 0; l < p->k; l++) {
            long double product = element_get(p->type_a, a, index_of_a(p, index, row, l)) *
                                  element_get(p->type_a, b, index_of_b(p, index, l, column));
            sum += product;
            size += fabsl(product);
        }
        sum *= scale;
        size *= fabsl(scale);
    }
    if (scale_c != 0) {
        int64_t place = index * p->stride_c + element_index(p->order, row, column, p->ldc);
        long double product = scale_c * element_get(p->type_cd, c, place);
        sum += product;
        size += fabsl(product);
    }
    /* k roundings of the sum, and those of alpha, beta, and of adding the two. */
    long double roundings = (long double)(p->k + 4) * unit_roundoff(scalar_type);
    long double lost = (long double)(p->k + 4) * underflow(scalar_type) * (fabsl(scale) + 1);
    return (struct expected){sum, roundings / (1 - roundings) * size + lost};
}

bool expected_holds(const struct expected *expected, carat_type type, const void *d, int64_t index)
{
    if (type == CARAT_S32) {
        return ((const uint32_t *)d)[index] == (uint32_t)expected->value;
    }
    long double got = element_get(type, d, index);
    if (isnan(expected->value)) {
        return isnan(got);
    }
    if (isinf(expected->value)) {
        return got == expected->value;
    }
    /* Rounding is monotone: D lies between the rounded ends. One more float covers rounding twice. */
    long double ends[2];
    for (int i = 0; i < 2; i++) {
        long double end = expected->value + (i == 0 ? -1 : 1) * expected->bound;
        uint64_t rounded[1];
        if (type == CARAT_F16 || type == CARAT_BF16) {
            end = nextafterf((float)end, i == 0 ? -INFINITY : INFINITY);
        }
        element_set(type, rounded, 0, end);
        ends[i] = element_get(type, rounded, 0);
    }
    return ends[0] <= got && got <= ends[1];
}
