/* grow.h - grows trees.h's trees from lessons. */
#ifndef CARAT_GROW_H
#define CARAT_GROW_H

#include <stdbool.h>

#include "trees.h"

/* The most features that a lesson may have. */
enum { MOST_FEATURES = 64 };

/* So many lessons: each one's features, one behind the other, and what the trees are to say there. */
struct lessons {
    int count;
    int feature_count;
    const float *features;
    const float *targets;
};

struct grown {
    struct trees trees;
    void *memory;
};

/*
 * Grows so many trees; false without memory, or of more than four million lessons. What they are to say may be 8 at most, up or
 * down. The same lessons give the same trees.
 */
bool grow(const struct lessons *lessons, int tree_count, struct grown *grown);

void grown_free(struct grown *grown);

#endif
