/* element.c - see element.h. */
#include "element.h"

#include <math.h>
#include <string.h>

/* A binary floating-point format of 16 bits: the bits of its fraction, and its least exponent. */
struct format {
    int fraction;
    int least_exponent;
};
static const struct format f16_format = {10, -14};
static const struct format bf16_format = {7, -126};

enum { F64_FRACTION = 52, F64_BIAS = 1023, F64_EXPONENT_MASK = 0x7ff };

static double widen(struct format format, uint16_t bits)
{
    int exponent_mask = 0x7fff >> format.fraction;
    int exponent = bits >> format.fraction & exponent_mask;
    int fraction = bits & ((1 << format.fraction) - 1);
    double magnitude;
    if (exponent == exponent_mask) {
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, format.least_exponent - format.fraction);
    } else {
        uint64_t word = (uint64_t)(exponent - 1 + format.least_exponent + F64_BIAS) << F64_FRACTION |
                        (uint64_t)fraction << (F64_FRACTION - format.fraction);
        memcpy(&magnitude, &word, sizeof(magnitude));
    }
    return bits & 0x8000 ? -magnitude : magnitude;
}

/* By way of f32 some values would be rounded twice, so this goes down from f64 in one step. */
static uint16_t narrow(struct format format, double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    uint16_t sign = (uint16_t)(word >> 48 & 0x8000);
    int exponent = (int)(word >> F64_FRACTION & F64_EXPONENT_MASK) - F64_BIAS;
    uint64_t significand = (word & ((1ull << F64_FRACTION) - 1)) | 1ull << F64_FRACTION;
    uint64_t infinity = 0x7fffull >> format.fraction << format.fraction;
    if (isnan(value)) {
        return (uint16_t)(sign | infinity | 1u << (format.fraction - 1));
    }
    int shift = F64_FRACTION - format.fraction;
    if (exponent < format.least_exponent) { /* denormal: more of the significand falls off */
        shift += format.least_exponent - exponent;
        exponent = format.least_exponent;
    }
    if (shift > F64_FRACTION + 1) { /* less than half of the least denormal */
        return sign;
    }
    uint64_t kept = significand >> shift;
    uint64_t rest = significand & ((1ull << shift) - 1);
    uint64_t half = 1ull << (shift - 1);
    if (rest > half || (rest == half && (kept & 1))) {
        kept++; /* may carry into the exponent, and that is right */
    }
    uint64_t result = ((uint64_t)(exponent - format.least_exponent) << format.fraction) + kept;
    return (uint16_t)(sign | (result < infinity ? result : infinity));
}

double element_value(carat_type type, const void *elements, int64_t at)
{
    switch (type) {
    case CARAT_F32:
        return (double)((const float *)elements)[at];
    case CARAT_F64:
        return ((const double *)elements)[at];
    case CARAT_F16:
        return widen(f16_format, ((const uint16_t *)elements)[at]);
    case CARAT_BF16:
        return widen(bf16_format, ((const uint16_t *)elements)[at]);
    case CARAT_S32:
        return ((const int32_t *)elements)[at];
    case CARAT_S8:
        return ((const int8_t *)elements)[at];
    }
    return (double)NAN;
}

static double to_integer(double value, double least, double greatest)
{
    if (isnan(value)) {
        return 0;
    }
    return fmin(fmax(rint(value), least), greatest);
}

void element_store(carat_type type, void *elements, int64_t at, double value)
{
    switch (type) {
    case CARAT_F32:
        ((float *)elements)[at] = (float)value;
        return;
    case CARAT_F64:
        ((double *)elements)[at] = value;
        return;
    case CARAT_F16:
        ((uint16_t *)elements)[at] = narrow(f16_format, value);
        return;
    case CARAT_BF16:
        ((uint16_t *)elements)[at] = narrow(bf16_format, value);
        return;
    case CARAT_S32:
        ((int32_t *)elements)[at] = (int32_t)to_integer(value, INT32_MIN, INT32_MAX);
        return;
    case CARAT_S8:
        ((int8_t *)elements)[at] = (int8_t)to_integer(value, INT8_MIN, INT8_MAX);
        return;
    }
}
