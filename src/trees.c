/* trees.c - asks trees, and keeps them as an image. */
#include "trees.h"

float trees_sum(const struct trees *trees, const float features[])
{
    float sum = 0;
    for (int32_t i = 0; i < trees->count; i++) {
        const struct tree_node *node = &trees->nodes[trees->first[i]];
        while (node->other > 0) {
            node += features[node->feature] <= node->value ? 1 : node->other;
        }
        sum += node->value;
    }
    return sum;
}

/* ---- As an image ---- */

bool trees_write(const struct trees *trees, FILE *file)
{
    size_t firsts = (size_t)trees->count + 1;
    size_t nodes = (size_t)trees->first[trees->count];
    return fwrite(&trees->count, sizeof(trees->count), 1, file) == 1 &&
           fwrite(trees->first, sizeof(*trees->first), firsts, file) == firsts &&
           fwrite(trees->nodes, sizeof(*trees->nodes), nodes, file) == nodes;
}

const unsigned char *trees_of_image(const unsigned char *image, struct trees *trees)
{
    trees->count = *(const int32_t *)image;
    trees->first = (const int32_t *)image + 1;
    trees->nodes = (const struct tree_node *)(trees->first + trees->count + 1);
    return (const unsigned char *)(trees->nodes + trees->first[trees->count]);
}
