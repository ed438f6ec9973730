/* statistics.h - what a list of measured times is boiled down to. */
#ifndef CARAT_BENCH_STATISTICS_H
#define CARAT_BENCH_STATISTICS_H

/* The middle value (the mean of the middle two); sorts values. 0 where there are none. */
double median(double *values, int count);

/* The geometric mean of positive values; 0 where there are none. */
double geometric_mean(const double *values, int count);

#endif
