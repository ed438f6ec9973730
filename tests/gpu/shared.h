/*
 * shared.h - trials whose tiles are shared: the clusters of a row with STREAM=1 sum them in equal shares, and wait for
 * each other's sums.
 */
#ifndef CARAT_TESTS_SHARED_H
#define CARAT_TESTS_SHARED_H

#include "plan.h"
#include "trial.h"

/* The way in which a row shares a problem's tiles, or the one of whole tiles and K; A and B where they lie. False: there is none. */
bool shared_way(const struct device_traits *traits, const struct problem *problem, const struct kernel *row,
                struct candidate *way);
bool whole_way(const struct device_traits *traits, const struct problem *problem, const struct kernel *row,
               struct candidate *way);

/* As few tiles as are ever shared, and a short K; or up to two waves and more of them. */
enum shared_size { SHARED_LEAST, SHARED_MOST };

/* A random trial of the row that shares tiles, the caller's C apart from D; false where there is none to be had. */
bool shared_trial(struct random *random, const struct kernel *row, const struct device_traits *traits,
                  enum shared_size size, struct trial *trial);

#endif
