/* element.c - see element.h. */
#include "element.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A binary floating-point format of 8 or 16 bits. */
struct format {
    int bits;
    int fraction;       /* bits of it that are stored */
    int least_exponent; /* of the normal numbers */
    bool finite;        /* no infinity: all ones are NaN, what is below them are numbers */
};
static const struct format f16_format = {16, 10, -14, false};
static const struct format bf16_format = {16, 7, -126, false};
static const struct format e4m3_format = {8, 3, -6, true};
static const struct format e5m2_format = {8, 2, -14, false};

enum { F64_FRACTION = 52, F64_BIAS = 1023, F64_EXPONENT_MASK = 0x7ff };

/* All bits but the sign. */
static uint16_t magnitude_mask(struct format format) { return (uint16_t)((1u << (format.bits - 1)) - 1); }

/* The least magnitude, as bits, that is no number: infinity, or NaN where there is none. */
static uint16_t first_beyond(struct format format)
{
    unsigned mask = magnitude_mask(format);
    return (uint16_t)(format.finite ? mask : mask >> format.fraction << format.fraction);
}

static double widen(struct format format, uint16_t bits)
{
    uint16_t stored = bits & magnitude_mask(format);
    int exponent = stored >> format.fraction;
    int fraction = stored & ((1 << format.fraction) - 1);
    double magnitude;
    if (stored >= first_beyond(format)) {
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    } else if (exponent == 0) {
        magnitude = ldexp(fraction, format.least_exponent - format.fraction);
    } else {
        uint64_t word = (uint64_t)(exponent - 1 + format.least_exponent + F64_BIAS) << F64_FRACTION |
                        (uint64_t)fraction << (F64_FRACTION - format.fraction);
        memcpy(&magnitude, &word, sizeof(magnitude));
    }
    return bits >> (format.bits - 1) ? -magnitude : magnitude;
}

/* By way of f32 some values would be rounded twice, so this goes down from f64 in one step. */
static uint16_t narrow(struct format format, double value)
{
    uint64_t word;
    memcpy(&word, &value, sizeof(word));
    uint16_t sign = (uint16_t)((word >> 63) << (format.bits - 1));
    int exponent = (int)(word >> F64_FRACTION & F64_EXPONENT_MASK) - F64_BIAS;
    uint64_t significand = (word & ((1ull << F64_FRACTION) - 1)) | 1ull << F64_FRACTION;
    uint64_t beyond = first_beyond(format);
    if (isnan(value)) {
        return (uint16_t)(sign | beyond | 1u << (format.fraction - 1));
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
    uint64_t greatest = format.finite ? beyond - 1 : beyond; /* saturated, or infinite */
    return (uint16_t)(sign | (result < greatest ? result : greatest));
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
    case CARAT_E4M3:
        return widen(e4m3_format, ((const uint8_t *)elements)[at]);
    case CARAT_E5M2:
        return widen(e5m2_format, ((const uint8_t *)elements)[at]);
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
    case CARAT_E4M3:
        ((uint8_t *)elements)[at] = (uint8_t)narrow(e4m3_format, value);
        return;
    case CARAT_E5M2:
        ((uint8_t *)elements)[at] = (uint8_t)narrow(e5m2_format, value);
        return;
    }
}
