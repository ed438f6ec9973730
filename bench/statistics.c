/* statistics.c - what a list of measured times is boiled down to. */
#include "statistics.h"

#include <math.h>
#include <stdlib.h>

static int compare_doubles(const void *left, const void *right)
{
    double x = *(const double *)left;
    double y = *(const double *)right;
    return (x > y) - (x < y);
}

double median(double *values, int count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, (size_t)count, sizeof(*values), compare_doubles);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

double geometric_mean(const double *values, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        sum += log(values[i]);
    }
    return count ? exp(sum / count) : 0;
}
