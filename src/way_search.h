/* way_search.h - a search among all ways to compute a problem. */
#ifndef CARAT_WAY_SEARCH_H
#define CARAT_WAY_SEARCH_H

#include "plan.h"

/* What is looked for, and the best so far. */
struct search {
    const struct device_traits *traits;
    const struct problem *problem;
    const struct kernel *only;   /* this row; NULL: any */
    const struct kernel *reduce; /* NULL where sums cannot be finished by another kernel */
    bool always_pack;            /* both A and B */
    bool forced;                 /* that row has been asked for by name */
    bool looks_at_all;           /* also at rows that are not worth a look: kernel_shares_nothing() */
    bool limited;                /* to so much workspace as most_workspace() says */
    struct candidate best;       /* kernel NULL: none so far */
    struct candidate best_timed; /* of those timed of this very problem */
    int timed;                   /* how many were */
    struct shortlist *shortlist; /* of ways that may be the best; NULL where they need no second look */
    plan_visitor *visitor;       /* is shown every candidate; NULL: nobody */
    void *context;
    struct ways_near *near; /* what was measured near of the row at hand; NULL: nothing */
};

/* For the best way of any row. */
struct search search_of(const struct device_traits *traits, const struct problem *p);

/* The best way, within the limits if there is one. */
void search_best(struct search *search);

/* The same within the limits that the search has. */
void search_all(struct search *search);

/* From how many cycles on a way cannot be the best any more, so that it does not matter how many they are. */
double search_cutoff(const struct search *search, const struct candidate *candidate);

/*
 * Completes a candidate with a row and at most the given parts, all of them with work; false where it is
 * no choice.
 */
bool complete_way(const struct search *search, const struct kernel *kernel, int parts,
                  struct candidate *candidate);

/*
 * The same way with its last, partly idle wave shared evenly by all clusters; false where that is no choice.
 *
 *     clusters   | whole | whole | idle    becomes     | share     | whole |
 *                | whole | whole | whole               | share     | whole |
 *
 * A whole wave is shared with it, where there is one, so that a share is no less than a tile: then no tile is of more
 * than two clusters. Below a wave a tile is of several, whose sums its last one adds one after the other.
 */
bool share_tiles(const struct search *search, struct candidate *candidate);

/*
 * The best row for the product of a way whose row has no whole image: one of its kind that does all that a call may ask for, of whole
 * tiles and as many parts of K, so that it needs nothing of the workspace but what the way does. NULL where there is none.
 */
const struct kernel *search_stand_in(const struct search *search, const struct candidate *way);

#endif
