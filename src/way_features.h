/* way_features.h - what the trees of a tuning table are asked about a way, see trees.h. */
#ifndef CARAT_WAY_FEATURES_H
#define CARAT_WAY_FEATURES_H

#include "plan.h"

enum { WAY_FEATURES = 46 };

/*
 * A way to do a problem, of which `foreseen` cycles are foreseen, of them `factor` times as many by what was measured near:
 * what the trees say is the logarithm of what it takes over that.
 */
struct way_case {
    const struct device_traits *traits;
    const struct problem *problem;
    const struct way_place *place;
    const struct candidate *way;
    int row; /* see ways_row() */
    double foreseen;
    double factor;
};

void way_features(const struct way_case *asked, float features[WAY_FEATURES]);

#endif
