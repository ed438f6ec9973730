/* trees.c - asks trees, and keeps them as an image. */
#include "trees.h"

#include <assert.h>
#include <string.h>

static_assert(sizeof(struct tree_node) == 6 && sizeof(float) == 4, "nodes lie in images as they are");

struct tree_node tree_node_of(float value, int other, int feature)
{
    struct tree_node node = {.step = (uint16_t)(other << TREE_FEATURE_BITS | feature)};
    memcpy(node.value, &value, sizeof(node.value));
    return node;
}

static float value_of(const struct tree_node *node)
{
    float value;
    memcpy(&value, node->value, sizeof(value));
    return value;
}

float trees_sum(const struct trees *trees, const float features[])
{
    float sum = 0;
    for (int32_t i = 0; i < trees->count; i++) {
        const struct tree_node *node = &trees->nodes[trees->first[i]];
        while (node->step > 0) {
            float feature = features[node->step % TREE_MOST_FEATURES];
            node += feature <= value_of(node) ? 1 : node->step >> TREE_FEATURE_BITS;
        }
        sum += value_of(node);
    }
    return sum;
}

/* ---- As an image ---- */

/* Nodes that lie in an image: an even number, for what lies behind them begins at 4 bytes. */
static size_t node_room(const struct trees *trees)
{
    return ((size_t)trees->first[trees->count] + 1) / 2 * 2;
}

bool trees_write(const struct trees *trees, FILE *file)
{
    static const struct tree_node nobodys;
    size_t firsts = (size_t)trees->count + 1;
    size_t nodes = (size_t)trees->first[trees->count];
    size_t behind = node_room(trees) - nodes;
    return fwrite(&trees->count, sizeof(trees->count), 1, file) == 1 &&
           fwrite(trees->first, sizeof(*trees->first), firsts, file) == firsts &&
           fwrite(trees->nodes, sizeof(*trees->nodes), nodes, file) == nodes &&
           fwrite(&nobodys, sizeof(nobodys), behind, file) == behind;
}

const unsigned char *trees_of_image(const unsigned char *image, struct trees *trees)
{
    trees->count = *(const int32_t *)image;
    trees->first = (const int32_t *)image + 1;
    trees->nodes = (const struct tree_node *)(trees->first + trees->count + 1);
    return (const unsigned char *)(trees->nodes + node_room(trees));
}
