/*
 * trees.h - many small decisions, each of which says a little of what is left over: boosted regression trees.
 *
 * A tree asks of one feature after the other whether it is at most so much, and comes to a value; the sum of all trees'
 * values is what is to be expected. tuning/grow.c grows them, while the library is built.
 *
 *     log2 k <= 9.5 ?
 *        yes: fill of the last wave <= 0.3 ?   yes: +0.04   no: -0.01
 *        no:  +0.02
 */
#ifndef CARAT_TREES_H
#define CARAT_TREES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A decision, behind which stands what is asked next where the answer is yes; or a leaf. Six bytes, as a library has hundreds of
 * thousands.
 */
enum { TREE_FEATURE_BITS = 6, TREE_MOST_FEATURES = 1 << TREE_FEATURE_BITS, TREE_MOST_NODES = 1 << 10 };
struct tree_node {
    uint16_t value[2]; /* the bits of a float: the most that is a yes, or what the leaf says */
    uint16_t step;     /* nodes to the one for a no, and the feature that is asked of; 0: a leaf */
};

/* A node of a tree of TREE_MOST_NODES at most; `other` is 0 for a leaf. */
struct tree_node tree_node_of(float value, int other, int feature);

struct trees {
    int32_t count;
    const int32_t *first;          /* node of each */
    const struct tree_node *nodes; /* first[count] of them */
};

/* The sum of all trees' values. */
float trees_sum(const struct trees *trees, const float features[]);

/* Writes them so that the same program reads them where they lie, in a multiple of 4 bytes; false where that fails. */
bool trees_write(const struct trees *trees, FILE *file);

/* Trees that lie in an image, which has to stay; returns what lies behind it. */
const unsigned char *trees_of_image(const unsigned char *image, struct trees *trees);

#endif
