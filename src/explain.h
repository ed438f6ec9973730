/* explain.h - says how a problem is computed, and why it cannot be. */
#ifndef CARAT_EXPLAIN_H
#define CARAT_EXPLAIN_H

#include "way_search.h"

/* The plan of the search's best way, in words. */
void explain_plan(const struct search *search, struct plan *plan);

/* Fails, and says why no row serves: the build, the device, or the size. */
carat_status explain_refusal(const struct search *search);

#endif
