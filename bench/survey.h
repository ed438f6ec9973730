/*
 * survey.h - measures what a tuning table holds (src/tuning.h): each row of the catalogue over a coarse grid of
 * shapes, and the packs and reduces that go with them. The grid is one of what a row sees: how many blocks there
 * are for a multiprocessor, how long their k is, and whether the problem is thinner than a tile.
 */
#ifndef CARAT_BENCH_SURVEY_H
#define CARAT_BENCH_SURVEY_H

#include <stdio.h>

#include "measure.h"
#include "shapes.h"
#include "tuning.h"

struct survey_options {
    double seconds;       /* to measure in; what is left over is not measured */
    const char *types;    /* names separated by commas, "tf32" is one; NULL: all */
    double most_seconds;  /* of one product */
    double most_bytes;    /* of A, B and D */
    int64_t largest_side; /* 0: any */
    double slack; /* products that the model thinks take more than this times the best way are left out */
    const struct tuning_table *base; /* whose rows are left out: the table adds to it; NULL: to none */
};

/* Whole ways to do problems: drawn at random, or given. */
struct ways_options {
    double seconds;
    const char *dtypes; /* of shape files, separated by commas, in turn; NULL: those that tell most */
    uint64_t seed;
    double most_seconds;  /* of one product */
    double most_bytes;    /* of A, B and D */
    int64_t largest_side; /* as in struct draw */
};

struct ways_totals {
    int drawn; /* shapes of the series so far */
    int shapes;
    int ways;
    int too_large; /* shapes that take longer, or no way does them */
    int failed;    /* ways */
};

/* What came of it. */
struct survey_totals {
    int measured;
    int known;      /* were in the table already */
    int hopeless;   /* left out for the slack */
    int impossible; /* too large, too long, or no way to do just this */
    int failed;
    char why[300]; /* the first one did */
    int late;      /* for which there was no time */
    int of_split;  /* rows, not points: they multiply planes, or what a split refuses, and have no points */
    int of_base;   /* rows, not points: the table to which this one adds knows them */
};

/* The head of the table of a device. */
struct tuning_head survey_head(const struct place *place);

/* Shows every line that a table of a device may have, in the order in which they are measured. types as above. */
typedef void survey_visitor(void *context, const struct tuning_line *line);
carat_status survey_visit(const struct device_traits *traits, const char *types, survey_visitor *visitor,
                          void *context);

/*
 * Measures, and writes a line each to `out`, the most valuable ones first. `known` are lines that need not be
 * measured again.
 */
carat_status survey(struct stage *stage, const struct survey_options *options,
                    const struct tuning_line *known, int known_count, FILE *out,
                    struct survey_totals *totals);

/*
 * Draws shapes, times those ways to do each that are best by the traits' table and a few others, and writes a line each
 * to `out`. Totals begin with all zero, and go on from there.
 */
carat_status survey_ways(struct stage *stage, const struct device_traits *traits,
                         const struct ways_options *options, FILE *out, struct ways_totals *totals);

/* The same of each shape of a list that is of the dtypes; seconds, seed, most_bytes and largest_side mean nothing here. */
carat_status survey_shapes(struct stage *stage, const struct device_traits *traits,
                           const struct ways_options *options, const struct shapes *shapes, FILE *out,
                           struct ways_totals *totals);

#endif
