/* ways.c - learns from measured ways. */
#include "ways.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * All of these were fitted on an H200, each shape's choice made from the ways of all others. Distances are in powers
 * of two of a side: the one at which a weight has fallen to exp(-1/2), and how far apart layouts are, and problems
 * whose operands or result begin at 16 bytes and those that begin anywhere. What is far says roughly what is to be
 * expected, and what is near what differs from that.
 */
static const float REACH_NEAR = 1.25F;
static const float REACH_FAR = 3;
static const float LAYOUT_DISTANCE = 3.5F;
static const float OFF_DISTANCE = 2.5F;
/* What weighs against what is far, that it took as long as usual; and what is far against what is near. */
static const float DOUBT_FAR = 1;
static const float DOUBT_NEAR = 0.3F;
/* Logarithms of factors beyond this are taken as this: something else was wrong there. */
static const float MOST_RESIDUAL = 1;
/* Farther than so many times its reach nothing counts. */
static const float FARTHEST = 3;
/* Fewer ways than this do not say how long all others usually take. */
enum { LEAST_USUAL = 5000 };

struct sample {
    struct way_place place;
    int row; /* of the catalogue, the first of its twins */
    float parts;
    float residual;
    bool shares;
};

struct ways {
    struct sample *samples;
    int count;
    int room;
    float usual; /* the mean of all residuals: what is to be expected of a way of which nothing is known */
    int *first;  /* of each row of the catalogue, in samples; one more than there are rows */
    int *twins;  /* of each row */
    bool leaves_out;                  /* the problem itself */
    float trait_distance[WAY_TRAITS]; /* squared, by what two places do not have in common */
};

/* bf16 and f16 take as long as each other: of rows that are the same but for that, the first stands for both. */
static bool are_twins(const struct kernel *x, const struct kernel *y)
{
    bool half = (x->element == ELEMENT_F16 || x->element == ELEMENT_BF16) &&
                (y->element == ELEMENT_F16 || y->element == ELEMENT_BF16) && x->element != y->element;
    return half && strcmp(x->source, y->source) == 0 && x->operation == y->operation &&
           x->layout == y->layout && x->tile_m == y->tile_m && x->tile_n == y->tile_n &&
           x->tile_k == y->tile_k && x->stages == y->stages && x->threads_x == y->threads_x &&
           x->warp_m == y->warp_m && x->warp_n == y->warp_n && x->thread_m == y->thread_m &&
           x->cluster == y->cluster && x->swapped == y->swapped && x->planes == y->planes &&
           x->stream == y->stream && x->min_blocks == y->min_blocks && x->alignment == y->alignment &&
           x->k_limit == y->k_limit && x->shared_bytes == y->shared_bytes;
}

struct ways *ways_open(void)
{
    struct ways *ways = calloc(1, sizeof(*ways));
    size_t rows = (size_t)carat_catalog_count;
    if (!ways) {
        return NULL;
    }
    ways->first = calloc(rows + 1, sizeof(*ways->first));
    ways->twins = calloc(rows + 1, sizeof(*ways->twins));
    if (!ways->first || !ways->twins) {
        ways_close(ways);
        return NULL;
    }
    for (int i = 0; i < carat_catalog_count; i++) {
        int twin = 0;
        while (twin < i && !are_twins(&carat_catalog[twin], &carat_catalog[i])) {
            twin++;
        }
        ways->twins[i] = twin;
    }
    for (unsigned differing = 0; differing < WAY_TRAITS; differing++) {
        int layouts = !!(differing & WAY_TRANS_A) + !!(differing & WAY_TRANS_B);
        int offs = !!(differing & WAY_OFF_A) + !!(differing & WAY_OFF_B) + !!(differing & WAY_OFF_D);
        ways->trait_distance[differing] =
            (float)layouts * LAYOUT_DISTANCE * LAYOUT_DISTANCE + (float)offs * OFF_DISTANCE * OFF_DISTANCE;
    }
    return ways;
}

void ways_close(struct ways *ways)
{
    if (ways) {
        free(ways->samples);
        free(ways->first);
        free(ways->twins);
    }
    free(ways);
}

/* What counts of a residual where others are foreseen from it. */
static float counted(float residual) { return fminf(fmaxf(residual, -MOST_RESIDUAL), MOST_RESIDUAL); }

bool ways_add(struct ways *ways, const struct kernel *kernel, const struct way_place *place, int parts,
              bool shares, double factor)
{
    if (ways->count == ways->room) {
        int room = ways->room ? 2 * ways->room : 1024;
        struct sample *samples = realloc(ways->samples, (size_t)room * sizeof(*samples));
        if (!samples) {
            return false;
        }
        ways->samples = samples;
        ways->room = room;
    }
    float residual = (float)log(factor);
    ways->samples[ways->count++] = (struct sample){
        .place = *place,
        .row = ways->twins[kernel - carat_catalog],
        .parts = log2f((float)parts),
        .residual = residual,
        .shares = shares,
    };
    return true;
}

bool ways_sort(struct ways *ways)
{
    int rows = carat_catalog_count;
    struct sample *sorted = calloc((size_t)ways->count + 1, sizeof(*sorted));
    if (!sorted) {
        return false;
    }
    for (int i = 0; i < ways->count; i++) {
        ways->first[ways->samples[i].row + 1]++;
    }
    for (int row = 0; row < rows; row++) {
        ways->first[row + 1] += ways->first[row];
    }
    /* Each row's place moves on as its samples come; in the end it is where the next row begins. */
    for (int i = 0; i < ways->count; i++) {
        sorted[ways->first[ways->samples[i].row]++] = ways->samples[i];
    }
    memmove(ways->first + 1, ways->first, (size_t)rows * sizeof(*ways->first));
    ways->first[0] = 0;
    free(ways->samples);
    ways->samples = sorted;
    double sum = 0;
    for (int i = 0; i < ways->count; i++) {
        sum += (double)counted(sorted[i].residual);
    }
    ways->usual = ways->count >= LEAST_USUAL ? (float)(sum / ways->count) : 0;
    return true;
}

void ways_leave_out(struct ways *ways) { ways->leaves_out = true; }

void ways_look_up(const struct ways *ways, const struct kernel *kernel, const struct way_place *place,
                  bool right_there, struct ways_near *near)
{
    const float farthest = right_there ? FLT_MIN : FARTHEST * FARTHEST * REACH_FAR * REACH_FAR;
    near->count = 0;
    near->usual = ways && !right_there ? ways->usual : 0;
    if (!ways) {
        return;
    }
    int row = ways->twins[kernel - carat_catalog];
    int last_other = MOST_NEAR;
    for (int i = ways->first[row]; i < ways->first[row + 1]; i++) {
        const struct sample *sample = &ways->samples[i];
        if (sample->place.packs[0] != place->packs[0] || sample->place.packs[1] != place->packs[1]) {
            continue;
        }
        float distance = ways->trait_distance[sample->place.traits ^ place->traits];
        for (int axis = 0; axis < 4; axis++) {
            float along = sample->place.at[axis] - place->at[axis];
            distance += along * along;
        }
        bool is_same = ways->leaves_out && distance == 0;
        bool is_there = distance == 0 && sample->place.accuracy == place->accuracy;
        if (distance >= farthest || is_same || (near->count == MOST_NEAR && !is_there)) {
            continue;
        }
        int item;
        if (near->count < MOST_NEAR) {
            item = near->count++;
        } else { /* those right there take the places of others, from the last one on */
            do {
                item = --last_other;
            } while (item >= 0 && near->items[item].is_there);
        }
        if (item < 0) {
            break;
        }
        near->items[item].distance = distance;
        near->items[item].parts = sample->parts;
        near->items[item].residual = counted(sample->residual);
        near->items[item].timed = sample->residual;
        near->items[item].is_there = is_there;
        near->items[item].shares = sample->shares;
    }
}

/* The weight of what is so far away, squared; 0 beyond all reach. */
static float weight_of(float distance, float reach)
{
    return distance < FARTHEST * FARTHEST * reach * reach ? expf(-distance / (2 * reach * reach)) : 0;
}

double ways_factor(const struct ways_near *near, int parts, bool shares)
{
    float here = near->count > 0 ? log2f((float)parts) : 0;
    float sums[2] = {DOUBT_FAR * near->usual, 0};
    float weights[2] = {DOUBT_FAR, DOUBT_NEAR};
    for (int i = 0; i < near->count; i++) {
        if (near->items[i].shares == shares) {
            float along = near->items[i].parts - here;
            float distance = near->items[i].distance + along * along;
            float far_weight = weight_of(distance, REACH_FAR);
            float near_weight = weight_of(distance, REACH_NEAR);
            weights[0] += far_weight;
            weights[1] += near_weight;
            sums[0] += far_weight * near->items[i].residual;
            sums[1] += near_weight * near->items[i].residual;
        }
    }
    float expected = sums[0] / weights[0];
    return exp((double)((DOUBT_NEAR * expected + sums[1]) / weights[1]));
}

bool ways_timed(const struct ways_near *near, int parts, bool shares, double *factor)
{
    float here = near->count > 0 ? log2f((float)parts) : 0;
    double sum = 0;
    int count = 0;
    for (int i = 0; i < near->count; i++) {
        if (near->items[i].is_there && near->items[i].parts == here && near->items[i].shares == shares) {
            sum += (double)near->items[i].timed;
            count++;
        }
    }
    if (count > 0) {
        *factor = exp(sum / count);
    }
    return count > 0;
}

bool ways_know_problem(const struct ways_near *near)
{
    bool known = false;
    for (int i = 0; i < near->count; i++) {
        known = known || near->items[i].is_there;
    }
    return known;
}
