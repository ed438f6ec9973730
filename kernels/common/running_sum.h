/*
 * running_sum.h - a sum of products on its way, and what it comes to.
 *
 *     add_product   adds x * y
 *     sum_of        the sum, in one accumulator
 *
 * For all types but one that is a multiply-add in the accumulator itself. Sums of f64 in best accuracy are compensated
 * (Ogita, Rump and Oishi, 2005): what rounding takes from the product and from the sum is found exactly, and added up
 * beside. The result is as good as one of twice the precision that is rounded in the end.
 *
 *     high     s0 -(+ p1)-> s1 -(+ p2)-> s2 ...          p = x y rounded
 *     low           e1 ----------> e1 + e2 ...           e = what p and s have lost
 */
#ifndef CARAT_KERNELS_RUNNING_SUM_H
#define CARAT_KERNELS_RUNNING_SUM_H

#if ELEMENT == ELEMENT_F64 && WIDE_SUMS

typedef struct running_sum {
    double high;
    double low;
} running_sum;

/* By intrinsics that the compiler does not contract: each is one rounding. */
static __device__ inline void add_product(running_sum *sum, double x, double y)
{
    double product = __dmul_rn(x, y);
    double product_error = fma(x, y, -product);
    double high = __dadd_rn(sum->high, product);
    double added = __dsub_rn(high, sum->high);
    double kept = __dsub_rn(high, added);
    double sum_error = __dadd_rn(__dsub_rn(sum->high, kept), __dsub_rn(product, added));
    sum->low = __dadd_rn(sum->low, __dadd_rn(sum_error, product_error));
    sum->high = high;
}

/* Where the sum is infinite or no number, its errors are none, and need not be added. */
static __device__ inline double sum_of(const running_sum *sum)
{
    return __dsub_rn(sum->low, sum->low) == 0 ? __dadd_rn(sum->high, sum->low) : sum->high;
}

#else

typedef accumulator running_sum;

static __device__ inline void add_product(running_sum *sum, accumulator x, accumulator y)
{
    *sum = multiply_add(x, y, *sum);
}

static __device__ inline accumulator sum_of(const running_sum *sum) { return *sum; }

#endif

#endif
