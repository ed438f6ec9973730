/* planes.h - f32 as sums of 16-bit planes, which the tensor unit multiplies. */
#ifndef CARAT_PLANES_H
#define CARAT_PLANES_H

#include "plan.h"

#define PLANES_OF_BF16 3
#define PLANES_OF_F16 2

/*
 * The product of f32 with A and B as sums of planes: three of bf16 hold all of their bits, two of f16 22 of them. In panels
 * where workspace has to be no more than `most`. False where that is not wanted, or has no rows.
 */
bool treat_as_planes(const struct device_traits *traits, const struct problem *p, int planes, int64_t most,
                     struct candidate *candidate);

/* Makes room for what is left of each part of K. */
void place_parts(struct candidate *candidate, int parts);

/* Whether D is computed in panels, one after the other. */
bool candidate_has_panels(const struct candidate *candidate);

/*
 * The row of three planes that goes behind one of two, in tiles of the same height, so that both mean the same parts of
 * D; NULL where there is none, or none is wanted.
 */
const struct kernel *find_safe_row(const struct device_traits *traits, const struct candidate *candidate,
                                   const struct kernel *behind);

#endif
