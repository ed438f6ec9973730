/*
 * grow.c - grows trees, one after the other, each on what those before it have left over.
 *
 * A tree begins as one leaf with half of the lessons, drawn anew for each tree so that no two trees learn the same accidents.
 * Where the most is gained, a leaf is split in two, by the feature and the limit which leave the least squares; for that, the
 * values of each feature are put in few bins, and sums are taken by bin. Of two new leaves one is counted, and the other's
 * sums are what is left of their parent's.
 */
#include "grow.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    BINS = 64,
    LEAVES = 511,
    LEAST_LESSONS = 20, /* of a leaf */
    MOST_SEEN = 20000,  /* values by which bins are chosen */
    NODES = 2 * LEAVES - 1,
};
static_assert((int)NODES <= (int)TREE_MOST_NODES, "a step leads as far as a tree is long");
static const float RATE = 0.2F;    /* so much of what a leaf has left is learned at a time */
static const double RESTRAINT = 1; /* lessons that weigh in each leaf, which have nothing left over */

/*
 * What the lessons of a leaf have in a bin: how many they are in the lowest bits, and above them the sum of what they have left, in
 * parts of 1. One addition counts a lesson, and all bins of a leaf stay in the first-level cache.
 */
typedef int64_t bin;
enum { COUNT_BITS = 22, PARTS = 1 << 16 };
#define COUNTED ((bin)1 << COUNT_BITS)

static bin bin_of_lesson(float left) { return (bin)lrintf(left * (float)PARTS) * COUNTED + 1; }
static int64_t bin_count(bin all) { return all & (COUNTED - 1); }
static double bin_sum(bin all)
{
    bin parts = (all - bin_count(all)) / COUNTED;
    return (double)parts / PARTS;
}

struct leaf {
    int node;
    int begin; /* of the order */
    int end;
    int feature; /* of the best split */
    int limit;   /* the last bin of its first part */
    double gain; /* 0: none is any good */
    bin *bins;   /* BINS a feature */
};

/* A node while its tree grows. */
struct node {
    int feature; /* below 0: a leaf */
    int limit;
    int children[2];
    float value;
};

struct grower {
    const struct lessons *lessons;
    float (*limits)[BINS]; /* of a feature: the most that is in each bin but the last */
    int *bin_counts;
    uint8_t *in_bin; /* of each lesson's features; and behind these once more, of each feature's lessons */
    float *left;     /* over, of each lesson */
    bin *alone;      /* of each lesson */
    int *order;      /* of the lessons drawn, leaf by leaf */
    int *aside;
    bool asks[MOST_FEATURES]; /* this tree, the feature */
    struct leaf leaves[LEAVES];
    int leaf_count;
    struct node nodes[NODES];
    int node_count;
    uint64_t luck;
};

/* ---- Bins ---- */

static int compare_floats(const void *x, const void *y)
{
    float first = *(const float *)x;
    float second = *(const float *)y;
    return (first > second) - (first < second);
}

/* Limits between bins with about as many of the sorted values each; equal ones are in the same bin. */
static int choose_limits(const float *sorted, int count, float limits[BINS])
{
    int bins = 0;
    int begin = 0;
    for (int i = 1; i < count && bins < BINS - 1; i++) {
        bool is_full = (int64_t)(i - begin) * (BINS - bins) >= count - begin;
        if (sorted[i] > sorted[i - 1] && is_full) {
            limits[bins++] = sorted[i - 1] + (sorted[i] - sorted[i - 1]) / 2;
            begin = i;
        }
    }
    return bins + 1;
}

static int bin_of(const float *limits, int bins, float value)
{
    int low = 0;
    int high = bins - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (value <= limits[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Of a leaf's lessons in turn one feature is asked for: there they lie close to each other. */
static uint8_t *bins_of_feature(const struct grower *grower, int feature)
{
    return &grower->in_bin[(size_t)(grower->lessons->feature_count + feature) * grower->lessons->count];
}

static bool fill_bins(struct grower *grower)
{
    const struct lessons *lessons = grower->lessons;
    int step = lessons->count / MOST_SEEN + 1;
    float *seen = malloc((size_t)(lessons->count / step + 1) * sizeof(*seen));
    for (int feature = 0; feature < lessons->feature_count && seen; feature++) {
        int count = 0;
        for (int i = 0; i < lessons->count; i += step) {
            seen[count++] = lessons->features[(size_t)i * lessons->feature_count + feature];
        }
        qsort(seen, (size_t)count, sizeof(*seen), compare_floats);
        grower->bin_counts[feature] = choose_limits(seen, count, grower->limits[feature]);
        uint8_t *of_feature = bins_of_feature(grower, feature);
        for (int i = 0; i < lessons->count; i++) {
            size_t at = (size_t)i * lessons->feature_count + feature;
            of_feature[i] =
                (uint8_t)bin_of(grower->limits[feature], grower->bin_counts[feature], lessons->features[at]);
            grower->in_bin[at] = of_feature[i];
        }
    }
    free(seen);
    return seen != NULL;
}

/* ---- Leaves ---- */

static size_t bins_of_leaf(const struct grower *grower)
{
    return (size_t)grower->lessons->feature_count * BINS;
}

/* Adds up by bins what the lessons of a leaf have left over. */
static void count_bins(const struct grower *grower, struct leaf *leaf)
{
    int features[MOST_FEATURES];
    int asked = 0;
    for (int feature = 0; feature < grower->lessons->feature_count; feature++) {
        features[asked] = feature;
        asked += grower->asks[feature];
    }
    memset(leaf->bins, 0, bins_of_leaf(grower) * sizeof(*leaf->bins));
    for (int i = leaf->begin; i < leaf->end; i++) {
        int lesson = grower->order[i];
        const uint8_t *in_bin = &grower->in_bin[(size_t)lesson * grower->lessons->feature_count];
        bin alone = grower->alone[lesson];
        for (int j = 0; j < asked; j++) {
            leaf->bins[features[j] * BINS + in_bin[features[j]]] += alone;
        }
    }
}

/* The larger leaf's bins are its parent's, which it has, less the smaller one's. */
static void subtract_bins(const struct grower *grower, struct leaf *leaf, const struct leaf *sibling)
{
    for (size_t i = 0; i < bins_of_leaf(grower); i++) {
        leaf->bins[i] -= sibling->bins[i];
    }
}

/* By how much squares fall where lessons with that sum become a leaf. */
static double worth(double sum, int64_t count) { return sum * sum / ((double)count + RESTRAINT); }

static bin bin_of_leaf(const struct grower *grower, const struct leaf *leaf)
{
    bin all = 0;
    for (int i = leaf->begin; i < leaf->end; i++) {
        all += grower->alone[grower->order[i]];
    }
    return all;
}

/* Finds where to split a leaf. */
static void look_for_split(const struct grower *grower, struct leaf *leaf)
{
    bin all = bin_of_leaf(grower, leaf);
    double whole = worth(bin_sum(all), bin_count(all));
    leaf->gain = 0;
    for (int feature = 0; feature < grower->lessons->feature_count; feature++) {
        bin below = 0;
        for (int i = 0; i < grower->bin_counts[feature] - 1 && grower->asks[feature]; i++) {
            below += leaf->bins[feature * BINS + i];
            bin above = all - below;
            if (bin_count(below) < LEAST_LESSONS || bin_count(above) < LEAST_LESSONS) {
                continue;
            }
            double gain =
                worth(bin_sum(below), bin_count(below)) + worth(bin_sum(above), bin_count(above)) - whole;
            if (gain > leaf->gain) {
                leaf->gain = gain;
                leaf->feature = feature;
                leaf->limit = i;
            }
        }
    }
}

/* ---- One tree ---- */

static uint32_t draw(struct grower *grower)
{
    grower->luck = grower->luck * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(grower->luck >> 33);
}

static int add_node(struct grower *grower)
{
    grower->nodes[grower->node_count].feature = -1;
    return grower->node_count++;
}

/* One leaf with half of the lessons; the tree may ask for half of the features. */
static void begin_tree(struct grower *grower)
{
    struct leaf *root = &grower->leaves[0];
    grower->node_count = 0;
    grower->leaf_count = 1;
    for (int feature = 0; feature < grower->lessons->feature_count; feature++) {
        grower->asks[feature] = draw(grower) % 2;
    }
    root->node = add_node(grower);
    root->begin = root->end = 0;
    for (int i = 0; i < grower->lessons->count; i++) {
        grower->alone[i] = bin_of_lesson(grower->left[i]);
        grower->order[root->end] = i;
        root->end += (int)(draw(grower) % 2);
    }
    count_bins(grower, root);
    look_for_split(grower, root);
}

/* Puts the lessons of a leaf's first part before the others, in the same order; where those begin. */
static int part_lessons(struct grower *grower, const struct leaf *leaf)
{
    const uint8_t *in_bin = bins_of_feature(grower, leaf->feature);
    int middle = leaf->begin;
    int others = 0;
    for (int i = leaf->begin; i < leaf->end; i++) {
        int lesson = grower->order[i];
        if (in_bin[lesson] <= leaf->limit) {
            grower->order[middle++] = lesson;
        } else {
            grower->aside[others++] = lesson;
        }
    }
    memcpy(&grower->order[middle], grower->aside, (size_t)others * sizeof(*grower->order));
    return middle;
}

static void split(struct grower *grower, struct leaf *leaf)
{
    struct leaf *added = &grower->leaves[grower->leaf_count++];
    struct node *node = &grower->nodes[leaf->node];
    int middle = part_lessons(grower, leaf);
    node->feature = leaf->feature;
    node->limit = leaf->limit;
    node->children[0] = add_node(grower);
    node->children[1] = add_node(grower);
    /* The larger part keeps the bins that are there. */
    bool first_is_larger = middle - leaf->begin >= leaf->end - middle;
    added->node = node->children[first_is_larger];
    added->begin = first_is_larger ? middle : leaf->begin;
    added->end = first_is_larger ? leaf->end : middle;
    leaf->node = node->children[!first_is_larger];
    leaf->begin = first_is_larger ? leaf->begin : middle;
    leaf->end = first_is_larger ? middle : leaf->end;
    count_bins(grower, added);
    subtract_bins(grower, leaf, added);
    look_for_split(grower, leaf);
    look_for_split(grower, added);
}

static struct leaf *best_leaf(struct grower *grower)
{
    struct leaf *best = &grower->leaves[0];
    for (int i = 1; i < grower->leaf_count; i++) {
        best = grower->leaves[i].gain > best->gain ? &grower->leaves[i] : best;
    }
    return best;
}

/* What the tree says is learned: of all lessons, drawn or not, that is not left over any more. */
static void learn_tree(struct grower *grower)
{
    for (int i = 0; i < grower->leaf_count; i++) {
        bin all = bin_of_leaf(grower, &grower->leaves[i]);
        double mean = bin_sum(all) / ((double)bin_count(all) + RESTRAINT);
        grower->nodes[grower->leaves[i].node].value = RATE * (float)mean;
    }
    for (int i = 0; i < grower->lessons->count; i++) {
        const uint8_t *in_bin = &grower->in_bin[(size_t)i * grower->lessons->feature_count];
        const struct node *node = &grower->nodes[0];
        while (node->feature >= 0) {
            node = &grower->nodes[node->children[in_bin[node->feature] > node->limit]];
        }
        grower->left[i] -= node->value;
    }
}

static void grow_tree(struct grower *grower)
{
    begin_tree(grower);
    for (struct leaf *leaf = best_leaf(grower); leaf->gain > 0 && grower->leaf_count < LEAVES;
         leaf = best_leaf(grower)) {
        split(grower, leaf);
    }
    learn_tree(grower);
}

/* Writes a node and all below it; behind a decision comes what is asked where it is a yes. */
static int write_node(const struct grower *grower, int from, struct tree_node *to)
{
    const struct node *node = &grower->nodes[from];
    if (node->feature < 0) {
        *to = tree_node_of(node->value, 0, 0);
        return 1;
    }
    int yes = write_node(grower, node->children[0], to + 1);
    *to = tree_node_of(grower->limits[node->feature][node->limit], 1 + yes, node->feature);
    return 1 + yes + write_node(grower, node->children[1], to + 1 + yes);
}

/* ---- All of them ---- */

static void close_grower(struct grower *grower)
{
    if (grower) {
        free(grower->limits);
        free(grower->bin_counts);
        free(grower->in_bin);
        free(grower->left);
        free(grower->alone);
        free(grower->order);
        free(grower->aside);
        free(grower->leaves[0].bins);
    }
    free(grower);
}

static struct grower *open_grower(const struct lessons *lessons)
{
    struct grower *grower = lessons->count < COUNTED ? calloc(1, sizeof(*grower)) : NULL;
    if (!grower) {
        return NULL;
    }
    size_t count = (size_t)lessons->count + 1;
    size_t features = (size_t)lessons->feature_count;
    grower->lessons = lessons;
    grower->limits = calloc(features, sizeof(*grower->limits));
    grower->bin_counts = calloc(features, sizeof(*grower->bin_counts));
    grower->in_bin = malloc(2 * count * features);
    grower->left = malloc(count * sizeof(*grower->left));
    grower->alone = malloc(count * sizeof(*grower->alone));
    grower->order = malloc(count * sizeof(*grower->order));
    grower->aside = malloc(count * sizeof(*grower->aside));
    bin *bins = malloc(LEAVES * bins_of_leaf(grower) * sizeof(*bins));
    if (!grower->limits || !grower->bin_counts || !grower->in_bin || !grower->left || !grower->alone ||
        !grower->order || !grower->aside || !bins || !fill_bins(grower)) {
        free(bins);
        close_grower(grower);
        return NULL;
    }
    for (int i = 0; i < LEAVES; i++) {
        grower->leaves[i].bins = bins + i * bins_of_leaf(grower);
    }
    memcpy(grower->left, lessons->targets, (size_t)lessons->count * sizeof(*grower->left));
    return grower;
}

bool grow(const struct lessons *lessons, int tree_count, struct grown *grown)
{
    size_t firsts = ((size_t)tree_count + 1) * sizeof(int32_t);
    struct grower *grower = open_grower(lessons);
    int32_t *first = malloc(firsts + (size_t)tree_count * NODES * sizeof(struct tree_node));
    if (!grower || !first) {
        close_grower(grower);
        free(first);
        return false;
    }
    struct tree_node *nodes = (struct tree_node *)(first + tree_count + 1);
    first[0] = 0;
    for (int i = 0; i < tree_count; i++) {
        grow_tree(grower);
        first[i + 1] = first[i] + write_node(grower, 0, nodes + first[i]);
    }
    close_grower(grower);
    *grown = (struct grown){{tree_count, first, nodes}, first};
    return true;
}

void grown_free(struct grown *grown) { free(grown->memory); }
