/*
 * cost.h - a model of what a way to compute a problem costs, in cycles.
 *
 * The model counts cycles of the busiest multiprocessor. It knows no device by name: what the rows say of themselves
 * (RATE, MIN_BLOCKS) was measured, and the few numbers in it are of the right size for the chips at hand. It has to
 * rank, not to predict.
 */
#ifndef CARAT_COST_H
#define CARAT_COST_H

#include "way_search.h"

/* ---- The product's own kernel ---- */

double multiply_cycles(const struct device_traits *traits, const struct candidate *candidate);

/* How many of them are there because the copy engine cannot store D's columns. */
double odd_store_cycles(const struct device_traits *traits, const struct candidate *candidate, double cycles);

/* Every byte has to come from memory or go there once, shared between the multiprocessors. */
double memory_cycles(const struct device_traits *traits, double bytes);

/* What the product's kernel reads and writes at least. */
double product_bytes(const struct candidate *candidate);

/* Steps of k of one tile. */
int64_t candidate_steps(const struct candidate *candidate);

/* How much longer a product takes for the tiles that are shared. */
double shared_factor(const struct device_traits *traits, const struct candidate *candidate);

/* What a block does more where clusters share tiles: it writes its sums of one, and reads the others' of another. */
double hand_over_cycles(const struct device_traits *traits, const struct candidate *candidate);

/* ---- The steps around it ---- */

/* Cycles of one more kernel that finishes bare sums. */
double reduce_cycles(const struct device_traits *traits, double partials, double results);

/* A pack of so many columns of a length. */
double pack_alone_cycles(const struct device_traits *traits, const struct tuning_line *line);

/* ---- Another memory ---- */

/*
 * Of a way, what takes so many cycles on the device whose times it was foreseen by, with the memory of this one; and the other
 * way round.
 */
double cycles_here(const struct device_traits *traits, const struct candidate *way, double there);
double cycles_there(const struct device_traits *traits, const struct candidate *way, double here);

/* ---- All steps ---- */

double candidate_cycles(const struct search *search, struct candidate *candidate);

#endif
