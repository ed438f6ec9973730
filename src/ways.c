/* ways.c - learns from measured ways. */
#include "ways.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * All of these were fitted on an H200, each shape's choice made from the ways of all others. Distances are in powers of
 * two of k: the one at which a weight has fallen to exp(-1/2). The other sides count less, the parts of K more; and so
 * far apart are layouts, and problems whose operands or result begin at 16 bytes and those that begin anywhere. What is
 * far says roughly what is to be expected, and what is near what differs from that.
 */
static const float REACH_NEAR = 1.25F;
enum { FAR_TO_NEAR = 2 }; /* how much farther what is far reaches: see near_weight() */
static const float AXIS_SCALES[4] = {0.7F, 0.7F, 1, 0.25F};
static const float PARTS_SCALE = 3;
static const float LAYOUT_DISTANCE = 4.9F;
static const float OFF_DISTANCE = 2.5F;
/* What weighs against what is far, that it took as long as usual; and what is far against what is near. */
static const float DOUBT_FAR = 0.3F;
static const float DOUBT_NEAR = 0.1F;
/*
 * What little is known of may as well be slow, and the one that looks best of many is rather one that was guessed too low:
 * so much is added to its residual, over this and what weighs near.
 */
static const float CAUTION = 0.05F;
static const float CAUTION_WEIGHT = 0.2F;
/* Logarithms of factors beyond this are taken as this: something else was wrong there. */
static const float MOST_RESIDUAL = 1;
/* Farther than so many times its reach nothing counts. */
static const float FARTHEST = 3;
/* Fewer ways than this do not say how long all others usually take. */
enum { LEAST_USUAL = 5000 };

enum { FAR, NEAR };

struct sample {
    float at[4];
    float residual;
    uint16_t parts;
    uint8_t traits;
    uint8_t accuracy;
};

/* What may be done to an operand, see plan_marks(); samples of the same row, of the same of that, and shared, are a bucket. */
static const char MARKS[] = "-pthds";
enum { MARK_COUNT = sizeof(MARKS) - 1, BUCKETS_OF_ROW = MARK_COUNT * MARK_COUNT * 2 };

/* What a sample is until all are there. */
struct loose_sample {
    int32_t bucket;
    bool borrowed;
    struct sample sample;
};

/* Of a sample that is near to every problem, and was timed of none. */
enum { NO_ACCURACY = UINT8_MAX };

struct ways {
    struct loose_sample *loose; /* NULL: sorted */
    int room;
    int count;
    float usual; /* the mean of all residuals: what is to be expected of a way of which nothing is known */
    const struct sample *samples;     /* by bucket, then by place */
    const int32_t *first;             /* of each bucket, in samples; one more than there are buckets */
    const float *least;               /* of a bucket's residuals */
    void *memory;                     /* in which all that is; NULL: it lies in an image */
    int32_t *twins;                   /* of each row of the catalogue */
    bool leaves_out;                  /* the problem itself */
    bool takes_no_word;               /* of what was timed of it */
    float trait_distance[WAY_TRAITS]; /* squared, by what two places do not have in common */
};

/* ---- Rows and places ---- */

/* bf16 and f16 take as long as each other: of rows that are the same but for that, the first stands for both. */
static bool are_twins(const struct kernel *x, const struct kernel *y)
{
    bool half = (x->element == ELEMENT_F16 || x->element == ELEMENT_BF16) &&
                (y->element == ELEMENT_F16 || y->element == ELEMENT_BF16) && x->element != y->element;
    return half && strcmp(x->source, y->source) == 0 && x->operation == y->operation &&
           x->layout == y->layout && x->tile_m == y->tile_m && x->tile_n == y->tile_n &&
           x->tile_k == y->tile_k && x->stages == y->stages && x->threads_x == y->threads_x &&
           x->warp_m == y->warp_m && x->warp_n == y->warp_n && x->thread_m == y->thread_m &&
           x->cluster == y->cluster && x->swapped == y->swapped && x->shares_rows == y->shares_rows &&
           x->shares_k == y->shares_k && x->turns == y->turns && x->consumers == y->consumers &&
           x->planes == y->planes && x->stream == y->stream && x->min_blocks == y->min_blocks &&
           x->alignment == y->alignment && x->k_limit == y->k_limit && x->shared_bytes == y->shared_bytes;
}

int ways_row(const struct ways *ways, const struct kernel *kernel)
{
    return ways->twins[kernel - carat_catalog];
}

/* The first bucket of a row and of what is done to A and B; that of shared tiles is the next. */
static int bucket_of(const struct ways *ways, const struct kernel *kernel, const char packs[2])
{
    int marks[2];
    for (int i = 0; i < 2; i++) {
        const char *mark = packs[i] ? strchr(MARKS, packs[i]) : NULL;
        marks[i] = mark ? (int)(mark - MARKS) : 0;
    }
    return ways_row(ways, kernel) * BUCKETS_OF_ROW + (marks[0] * MARK_COUNT + marks[1]) * 2;
}

static int bucket_count(void) { return carat_catalog_count * BUCKETS_OF_ROW; }

/* By the place, whatever was measured there. */
static int compare_places(const struct sample *x, const struct sample *y)
{
    for (int axis = 0; axis < 4; axis++) {
        if (x->at[axis] != y->at[axis]) {
            return x->at[axis] < y->at[axis] ? -1 : 1;
        }
    }
    int traits = x->traits - y->traits;
    return traits != 0 ? traits : x->accuracy - y->accuracy;
}

static struct sample sample_at(const struct way_place *place)
{
    struct sample sample = {.traits = (uint8_t)place->traits, .accuracy = (uint8_t)place->accuracy};
    memcpy(sample.at, place->at, sizeof(sample.at));
    return sample;
}

/* ---- Learning ---- */

struct ways *ways_open(void)
{
    struct ways *ways = calloc(1, sizeof(*ways));
    if (!ways) {
        return NULL;
    }
    ways->twins = calloc((size_t)carat_catalog_count + 1, sizeof(*ways->twins));
    if (!ways->twins) {
        free(ways);
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
        free(ways->loose);
        free(ways->memory);
        free(ways->twins);
    }
    free(ways);
}

/* What counts of a residual where others are foreseen from it. */
static float counted(float residual) { return fminf(fmaxf(residual, -MOST_RESIDUAL), MOST_RESIDUAL); }

static bool add_loose(struct ways *ways, const struct loose_sample *added)
{
    if (ways->count == ways->room) {
        int room = ways->room ? 2 * ways->room : 1024;
        struct loose_sample *loose = realloc(ways->loose, (size_t)room * sizeof(*loose));
        if (!loose) {
            return false;
        }
        ways->loose = loose;
        ways->room = room;
    }
    ways->loose[ways->count++] = *added;
    return true;
}

bool ways_add(struct ways *ways, const struct kernel *kernel, const struct way_place *place, int parts,
              bool shares, double factor)
{
    struct loose_sample added = {.bucket = bucket_of(ways, kernel, place->packs) + shares,
                                 .sample = sample_at(place)};
    added.sample.parts = (uint16_t)parts;
    added.sample.residual = (float)log(factor);
    return add_loose(ways, &added);
}

bool ways_borrow(struct ways *ways, const struct ways *others, bool at_their_word)
{
    bool fits = true;
    for (int bucket = 0; bucket < bucket_count(); bucket++) {
        for (int i = others->first[bucket]; i < others->first[bucket + 1] && fits; i++) {
            struct loose_sample added = {.bucket = bucket, .borrowed = true, .sample = others->samples[i]};
            added.sample.accuracy = at_their_word ? added.sample.accuracy : NO_ACCURACY;
            fits = add_loose(ways, &added);
        }
    }
    return fits;
}

/* By the way and the problem. */
static int compare_ways(const struct loose_sample *x, const struct loose_sample *y)
{
    if (x->bucket != y->bucket) {
        return x->bucket - y->bucket;
    }
    int places = compare_places(&x->sample, &y->sample);
    return places != 0 ? places : x->sample.parts - y->sample.parts;
}

/* All that differs tells them apart, so that their order is one; of a way what is borrowed comes last. */
static int compare_loose(const void *x, const void *y)
{
    const struct loose_sample *first = x;
    const struct loose_sample *second = y;
    int ways = compare_ways(first, second);
    if (ways != 0) {
        return ways;
    }
    if (first->borrowed != second->borrowed) {
        return first->borrowed - second->borrowed;
    }
    return (first->sample.residual > second->sample.residual) -
           (first->sample.residual < second->sample.residual);
}

/* Sorts them, and drops what was borrowed of a way and a problem that is known better. */
static void sort_loose(struct ways *ways)
{
    int kept = 0;
    if (ways->count > 0) {
        qsort(ways->loose, (size_t)ways->count, sizeof(*ways->loose), compare_loose);
    }
    for (int i = 0; i < ways->count; i++) {
        const struct loose_sample *loose = &ways->loose[i];
        const struct loose_sample *last = kept > 0 ? &ways->loose[kept - 1] : NULL;
        bool known = loose->borrowed && last && !last->borrowed && compare_ways(last, loose) == 0;
        if (!known) {
            ways->loose[kept++] = *loose;
        }
    }
    ways->count = kept;
}

/* Bytes of the arrays of so many sorted samples, which lie one behind the other: samples, first, least. */
static size_t sorted_bytes(int count)
{
    return (size_t)count * sizeof(struct sample) + (size_t)(bucket_count() + 1) * sizeof(int32_t) +
           (size_t)bucket_count() * sizeof(float);
}

/* Where they lie. */
static void place_sorted(struct ways *ways, const void *memory)
{
    ways->samples = memory;
    ways->first = (const int32_t *)(ways->samples + ways->count);
    ways->least = (const float *)(ways->first + bucket_count() + 1);
}

bool ways_sort(struct ways *ways)
{
    sort_loose(ways);
    struct sample *samples = calloc(1, sorted_bytes(ways->count));
    if (!samples) {
        return false;
    }
    ways->memory = samples;
    place_sorted(ways, samples);
    int32_t *first = (int32_t *)(samples + ways->count);
    float *least = (float *)(first + bucket_count() + 1);
    double sum = 0;
    for (int i = 0; i < ways->count; i++) {
        const struct loose_sample *loose = &ways->loose[i];
        float residual = counted(loose->sample.residual);
        samples[i] = loose->sample;
        first[loose->bucket + 1] = i + 1;
        least[loose->bucket] = fminf(least[loose->bucket], residual);
        sum += (double)residual;
    }
    /* A bucket without samples ends where the one before it does. */
    for (int bucket = 0; bucket < bucket_count(); bucket++) {
        first[bucket + 1] = first[bucket + 1] > first[bucket] ? first[bucket + 1] : first[bucket];
    }
    ways->usual = ways->count >= LEAST_USUAL ? (float)(sum / ways->count) : 0;
    free(ways->loose);
    ways->loose = NULL;
    return true;
}

void ways_leave_out(struct ways *ways) { ways->leaves_out = true; }

void ways_take_no_word(struct ways *ways) { ways->takes_no_word = true; }

/* ---- Asking ---- */

/* Where in a bucket the first sample lies that is not before a place. */
static int lower_bound(const struct ways *ways, int bucket, const struct sample *place)
{
    int begin = ways->first[bucket];
    int end = ways->first[bucket + 1];
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        if (compare_places(&ways->samples[middle], place) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

void ways_look_up(const struct ways *ways, const struct kernel *kernel, const struct way_place *place,
                  struct ways_near *near)
{
    near->ways = ways;
    near->place = *place;
    near->count = -1;
    memset(near->there, 0, sizeof(near->there));
    if (!ways) {
        return;
    }
    struct sample sought = sample_at(place);
    int bucket = bucket_of(ways, kernel, place->packs);
    for (int shares = 0; shares < 2; shares++) {
        near->buckets[shares] = bucket + shares;
        if (!ways->leaves_out && !ways->takes_no_word) {
            int i = lower_bound(ways, bucket + shares, &sought);
            near->there[shares][0] = i;
            while (i < ways->first[bucket + shares + 1] && compare_places(&ways->samples[i], &sought) == 0) {
                i++;
            }
            near->there[shares][1] = i;
        }
    }
}

/* The group of ways with so many parts; the last one, where there are more than there is room for. */
static int group_of(struct ways_near *near, int parts, bool shares)
{
    int i = near->count - 1;
    while (i >= 0 && (near->groups[i].parts != parts || near->groups[i].shares != shares)) {
        i--;
    }
    if (i >= 0 || near->count == MOST_NEAR_GROUPS) {
        return i >= 0 ? i : near->count - 1;
    }
    i = near->count++;
    near->groups[i].parts = parts;
    near->groups[i].shares = shares;
    near->groups[i].parts_log = log2f((float)parts);
    memset(near->groups[i].weights, 0, sizeof(near->groups[i].weights));
    memset(near->groups[i].sums, 0, sizeof(near->groups[i].sums));
    return i;
}

/* The weight of what is so far away, squared, where far counts; near it is the fourth power of that. */
static float far_weight(float distance)
{
    const float reach = FAR_TO_NEAR * REACH_NEAR;
    return distance < FARTHEST * FARTHEST * reach * reach ? expf(-distance / (2 * reach * reach)) : 0;
}

static float near_weight(float far)
{
    float power = far * far;
    return power * power;
}

/* Adds up what was measured near, by the parts of K: so much of the distances is the same for all ways of the row. */
static void gather(struct ways_near *near)
{
    const struct ways *ways = near->ways;
    near->count = 0;
    for (int shares = 0; shares < 2; shares++) {
        int bucket = near->buckets[shares];
        for (int i = ways->first[bucket]; i < ways->first[bucket + 1]; i++) {
            const struct sample *sample = &ways->samples[i];
            float distance = ways->trait_distance[sample->traits ^ near->place.traits];
            for (int axis = 0; axis < 4; axis++) {
                float along = AXIS_SCALES[axis] * (sample->at[axis] - near->place.at[axis]);
                distance += along * along;
            }
            float far = far_weight(distance);
            if (far == 0 || (ways->leaves_out && distance == 0)) {
                continue;
            }
            int group = group_of(near, sample->parts, shares);
            float residual = counted(sample->residual);
            near->groups[group].weights[FAR] += far;
            near->groups[group].sums[FAR] += far * residual;
            near->groups[group].weights[NEAR] += near_weight(far);
            near->groups[group].sums[NEAR] += near_weight(far) * residual;
        }
    }
}

/* Whether others say how long ways usually take. */
static bool is_usual_known(const struct ways_near *near)
{
    return near->ways && near->ways->count >= LEAST_USUAL;
}

/* What is to be expected, as a residual, where nothing is near. */
static float usual_at(const struct ways_near *near) { return near->ways ? near->ways->usual : 0; }

double ways_factor(struct ways_near *near, int parts, bool shares)
{
    if (near->ways && near->count < 0) {
        gather(near);
    }
    float here = log2f((float)parts);
    float weights[2] = {[FAR] = DOUBT_FAR, [NEAR] = DOUBT_NEAR};
    float sums[2] = {[FAR] = DOUBT_FAR * usual_at(near), [NEAR] = 0};
    for (int i = 0; i < near->count; i++) {
        if (near->groups[i].shares == shares) {
            float along = PARTS_SCALE * (near->groups[i].parts_log - here);
            float far = far_weight(along * along);
            weights[FAR] += far * near->groups[i].weights[FAR];
            sums[FAR] += far * near->groups[i].sums[FAR];
            weights[NEAR] += near_weight(far) * near->groups[i].weights[NEAR];
            sums[NEAR] += near_weight(far) * near->groups[i].sums[NEAR];
        }
    }
    float expected = sums[FAR] / weights[FAR];
    float caution = is_usual_known(near) ? CAUTION / (CAUTION_WEIGHT + weights[NEAR]) : 0;
    return exp((double)(caution + (DOUBT_NEAR * expected + sums[NEAR]) / weights[NEAR]));
}

double ways_least_factor(const struct ways_near *near, bool shares)
{
    /* Means of what is there and of what is usual; a little less, as they are rounded. */
    float least = near->ways ? fminf(near->ways->least[near->buckets[shares]], usual_at(near)) : 0;
    return exp((double)least) * (1 - 8 * (double)FLT_EPSILON);
}

bool ways_timed(const struct ways_near *near, int parts, bool shares, double *factor)
{
    double sum = 0;
    int count = 0;
    for (int i = near->there[shares][0]; i < near->there[shares][1]; i++) {
        const struct sample *sample = &near->ways->samples[i];
        if (sample->parts == parts) {
            sum += (double)sample->residual;
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
    return near->there[0][0] < near->there[0][1] || near->there[1][0] < near->there[1][1];
}

/* ---- As an image ---- */

struct image_head {
    int32_t count;
    float usual;
};

bool ways_write(const struct ways *ways, FILE *file)
{
    const struct image_head head = {ways->count, ways->usual};
    return fwrite(&head, sizeof(head), 1, file) == 1 &&
           fwrite(ways->samples, sorted_bytes(ways->count), 1, file) == 1;
}

struct ways *ways_of_image(const unsigned char *image)
{
    struct ways *ways = ways_open();
    const struct image_head *head = (const struct image_head *)image;
    if (ways) {
        ways->count = head->count;
        ways->usual = head->usual;
        place_sorted(ways, head + 1);
    }
    return ways;
}
