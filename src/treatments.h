/* treatments.h - what is done to A and B before they are multiplied. */
#ifndef CARAT_TREATMENTS_H
#define CARAT_TREATMENTS_H

#include "plan.h"

/* What a row cannot do without, or packed operands, take no more than this while there is another way. */
#define MOST_WORKSPACE ((int64_t)8 << 30)
/* Packed columns begin at multiples of this. */
#define PACKED_UNIT 128

/* What happens to an operand before the product. */
enum treatment { AS_IT_IS, PACKED, TURNED };

/*
 * The product with A and B treated so, and where they lie in the workspace; false where they cannot be
 * treated so. Where `as` is a type both become that.
 */
bool treat(const struct device_traits *traits, const struct problem *p, enum treatment a, enum treatment b,
           int as, struct candidate *candidate);

/* The problem as the letters of a whole way say; planes are those that the way's row multiplies. */
bool treat_as_marked(const struct device_traits *traits, const struct problem *p, const char marks[2],
                     int planes, struct candidate *candidate);

#endif
