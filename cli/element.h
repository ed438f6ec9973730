/* element.h - single elements as doubles: what input is made of and what answers are checked with. */
#ifndef CARAT_CLI_ELEMENT_H
#define CARAT_CLI_ELEMENT_H

#include <stdint.h>

#include "carat/carat.h"

/* elements[at] as a double, without loss. */
double element_value(carat_type type, const void *elements, int64_t at);

/*
 * elements[at] = value, rounded once to nearest even. The integer types and e4m3 get the nearest number that they
 * hold where value is beyond them all; NaN gives 0 in an integer.
 */
void element_store(carat_type type, void *elements, int64_t at, double value);

#endif
