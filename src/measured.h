/* measured.h - what was measured of rows and of whole ways, applied to the model's cycles. */
#ifndef CARAT_MEASURED_H
#define CARAT_MEASURED_H

#include "plan.h"

/*
 * The product's cycles as the table corrects them. A launch counts there, which is the same for all ways but not
 * the same share of them. Tables know of no shared tiles: those run as fast as the row does in whole waves, of which
 * they are so much less as the model says, and what the clusters hand over comes on top as foreseen. So does what it
 * takes where the copy engine cannot store D, of which they do not know either.
 */
double corrected_multiply(const struct device_traits *traits, struct candidate *candidate, double cycles);

/* The same of the row that adds the parts of K. */
double corrected_reduce(const struct device_traits *traits, const struct problem *p,
                        const struct kernel *reduce, const struct candidate *candidate, double cycles);

/* What a table does not know: of clusters that reach beyond the matrix by whole tiles some blocks have nothing to do. */
double idle_factor(const struct candidate *candidate);

/* Where the ways that treat A and B so lie among those that were measured. */
struct way_place place_of_way(const struct problem *p, const struct candidate *treated);

/*
 * How much longer than foreseen such a way took; near may be NULL. Where it would take `cutoff` cycles or more in any case, as
 * so many are foreseen, that is not looked at closely: then the factor is the least that it could be.
 */
double way_factor(struct ways_near *near, struct candidate *candidate, double foreseen, double cutoff);

/*
 * How much longer than its cycles, by all that was measured near, a way takes by what the table's trees say; never less than
 * LEAST_BY_TREES times as long. 1 where there are none, and of a way that was timed itself.
 */
#define LEAST_BY_TREES 0.75
double tree_factor(const struct device_traits *traits, const struct problem *p,
                   const struct candidate *candidate);

#endif
