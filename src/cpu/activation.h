/*
 * activation.h - the activations on the host, in f32 and f64: NaN stays NaN in each.
 *
 * GELU is written without the 1 + tanh(u) and 1 + erf(x / sqrt(2)) of its definition, which cancel where x is
 * negative: (1 + tanh(u)) / 2 is 1 / (1 + exp(-2u)), and 1 + erf(v) is erfc(-v). At minus infinity both of them and
 * SiLU are -infinity times 0, NaN, as by definition.
 */
#ifndef CARAT_CPU_ACTIVATION_H
#define CARAT_CPU_ACTIVATION_H

#include <math.h>

#include "carat/carat.h"

#define TWICE_SQRT_2_OVER_PI 1.5957691216057308
#define SQRT_HALF 0.70710678118654752

static inline double activate_f64(carat_activation activation, double x)
{
    switch (activation) {
    case CARAT_ACTIVATION_RELU:
        return x <= 0 ? 0 : x;
    case CARAT_ACTIVATION_GELU_TANH:
        return x / (1 + exp(-TWICE_SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x / 2 * erfc(-SQRT_HALF * x);
    case CARAT_ACTIVATION_SILU:
        return x / (1 + exp(-x));
    default:
        return x;
    }
}

static inline float activate_f32(carat_activation activation, float x)
{
    switch (activation) {
    case CARAT_ACTIVATION_RELU:
        return x <= 0 ? 0 : x;
    case CARAT_ACTIVATION_GELU_TANH:
        return x / (1 + expf((float)-TWICE_SQRT_2_OVER_PI * (x + 0.044715f * x * x * x)));
    case CARAT_ACTIVATION_GELU_ERF:
        return x / 2 * erfcf((float)-SQRT_HALF * x);
    case CARAT_ACTIVATION_SILU:
        return x / (1 + expf(-x));
    default:
        return x;
    }
}

#endif
