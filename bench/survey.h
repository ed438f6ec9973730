/*
 * survey.h - measures what a tuning table holds (src/tuning.h): each row of the catalogue over a coarse grid of
 * shapes, and the packs and reduces that go with them. The grid is one of what a row sees: how many blocks there
 * are for a multiprocessor, how long their k is, and whether the problem is thinner than a tile.
 */
#ifndef CARAT_BENCH_SURVEY_H
#define CARAT_BENCH_SURVEY_H

#include <stdio.h>

#include "measure.h"
#include "tuning.h"

struct survey_options {
    double seconds;       /* to measure in; what is left over is not measured */
    const char *types;    /* names separated by commas, "tf32" is one; NULL: all */
    double most_seconds;  /* of one product */
    double most_bytes;    /* of A, B and D */
    int64_t largest_side; /* 0: any */
    double slack; /* products that the model thinks take more than this times the best way are left out */
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
};

/* The head of the table of a device. */
struct tuning_head survey_head(const struct place *place);

/*
 * Measures, and writes a line each to `out`, the most valuable ones first. `known` are lines that need not be
 * measured again.
 */
carat_status survey(struct stage *stage, const struct survey_options *options,
                    const struct tuning_line *known, int known_count, FILE *out,
                    struct survey_totals *totals);

#endif
