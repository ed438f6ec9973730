/* ways.c - learns from measured ways. */
#include "ways.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "plan.h"

/*
 * All of these were fitted on an H200, each shape's choice made from the ways of all others. Distances are in powers of
 * two of k: the one at which a weight has fallen to exp(-1/2). The other sides count less, the parts of K more; and so
 * far apart are layouts, and problems whose operands or result begin at 16 bytes and those that begin anywhere. What is
 * far says roughly what is to be expected, and what is near what differs from that.
 */
static const float REACH_NEAR = 1;
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

/* Where what was measured lies: a problem, of which there are many ways. */
struct spot {
    float at[4];
    uint16_t traits;
    uint16_t accuracy;
};

/* The same in ten bytes: which of all lengths that there are, and traits and accuracy in one. */
enum { ACCURACY_BITS = 8 };
struct small_spot {
    uint16_t at[4];
    uint16_t kind;
};

static_assert(WAY_TRAITS << ACCURACY_BITS <= 1 << 16, "traits and accuracy are two bytes together");

/*
 * Four bytes, as there are more than a million: the lower bits of the spot's number, whose upper ones the bucket knows, the parts
 * less one, and the residual, by its inverse hyperbolic sine: to a fifth of a percent where it is small, to a hundredth of itself where it
 * is large, up to e to the 3rd. (Two times of one way differ by three percent.)
 */
enum {
    SPOT_BITS = 15,
    PARTS_BITS = 8,
    RESIDUAL_BITS = 9,
    SPOT_BLOCKS = 8, /* of 2 to the SPOT_BITS spots */
    RESIDUAL_ZERO = 1 << (RESIDUAL_BITS - 1)
};
static const float RESIDUAL_SCALE = 0.35F;
static const float RESIDUAL_UNITS = 87.5F;
struct sample {
    uint32_t bits; /* the spot's are the lowest, the residual's the highest */
};

static_assert(WAYS_MOST_PROBLEMS == SPOT_BLOCKS << SPOT_BITS, "the blocks have all spots");
static_assert(WAYS_MOST_LENGTHS == 1 << 16, "a small spot numbers lengths by two bytes");
static_assert(MOST_PARTS <= 1 << PARTS_BITS, "a sample holds all parts of K that there may be");
static_assert(SPOT_BITS + PARTS_BITS + RESIDUAL_BITS == 8 * sizeof(struct sample),
              "in four bytes there is nothing but that");

static int code_of_residual(float residual)
{
    float code = roundf(RESIDUAL_UNITS * asinhf(residual / RESIDUAL_SCALE));
    return (int)fminf(fmaxf(code, -RESIDUAL_ZERO), RESIDUAL_ZERO - 1);
}

static float residual_of_code(int code) { return RESIDUAL_SCALE * sinhf((float)code / RESIDUAL_UNITS); }

static struct sample pack_sample(int spot, int parts, float residual, float middle)
{
    uint32_t code = (uint32_t)(RESIDUAL_ZERO + code_of_residual(residual - middle));
    return (struct sample){(uint32_t)spot % (1U << SPOT_BITS) | (uint32_t)(parts - 1) << SPOT_BITS |
                           code << (SPOT_BITS + PARTS_BITS)};
}

static int sample_parts(struct sample sample)
{
    return (int)(sample.bits >> SPOT_BITS) % (1 << PARTS_BITS) + 1;
}

static float sample_residual(struct sample sample, float middle)
{
    return middle + residual_of_code((int)(sample.bits >> (SPOT_BITS + PARTS_BITS)) - RESIDUAL_ZERO);
}

/* What may be done to an operand, see plan_marks(); samples of the same row, of the same of that, and shared, are a bucket. */
static const char MARKS[] = "-pthds";
enum { MARK_COUNT = sizeof(MARKS) - 1, BUCKETS_OF_ROW = MARK_COUNT * MARK_COUNT * 2 };

/* What a sample is until all are there. */
struct loose_sample {
    int32_t bucket;
    struct spot spot;
    uint16_t parts;
    float residual;
};

/*
 * The samples of one bucket, which begin here and end where the next one's begin. Of a hundred possible buckets four have any;
 * behind the last one stands where its samples end.
 */
struct bucket {
    int32_t number;
    int32_t first;
    int32_t turns[SPOT_BLOCKS - 1]; /* where the samples of spots of the next block begin */
    float least;                    /* of their residuals; at most 0 */
};

struct ways {
    struct loose_sample *loose; /* NULL: sorted */
    int room;
    int count;
    const struct ways *under; /* what others know, on which these lie; NULL: nothing */
    float usual;  /* the mean of their residuals: what is to be expected of a way of which nothing is known */
    float middle; /* what samples have their residuals from: see middle_of_residuals() */
    int length_count;
    int spot_count;
    int bucket_count;
    const float *lengths;             /* powers of two, sorted */
    const struct small_spot *spots;   /* sorted */
    const struct sample *samples;     /* by bucket, then by spot */
    const struct bucket *buckets;     /* by number */
    void *memory;                     /* in which all that is; NULL: it lies in an image */
    const int32_t *twins;             /* of each row of the catalogue */
    int32_t *made_twins;              /* the same; NULL: they lie in an image */
    bool leaves_out;                  /* the problem itself */
    bool takes_no_word;               /* of what was timed of it */
    float trait_distance[WAY_TRAITS]; /* squared, by what two places do not have in common */
};

/* The number of the spot of sample i, which lies in the bucket. */
static int sample_spot(const struct ways *ways, const struct bucket *bucket, int i)
{
    int block = 0;
    for (int turn = 0; turn < SPOT_BLOCKS - 1; turn++) {
        block += i >= bucket->turns[turn];
    }
    return block << SPOT_BITS | (int)(ways->samples[i].bits % (1U << SPOT_BITS));
}

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
           x->cluster == y->cluster && x->swapped == y->swapped && x->row_sharers == y->row_sharers &&
           x->k_sharers == y->k_sharers && x->shares_k == y->shares_k && x->turns == y->turns &&
           x->consumers == y->consumers && x->planes == y->planes && x->stream == y->stream &&
           x->min_blocks == y->min_blocks && x->alignment == y->alignment && x->k_limit == y->k_limit &&
           x->shared_bytes == y->shared_bytes;
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

static int compare_spots(const void *first, const void *second)
{
    const struct spot *x = first;
    const struct spot *y = second;
    for (int axis = 0; axis < 4; axis++) {
        if (x->at[axis] != y->at[axis]) {
            return x->at[axis] < y->at[axis] ? -1 : 1;
        }
    }
    int traits = x->traits - y->traits;
    return traits != 0 ? traits : x->accuracy - y->accuracy;
}

static struct spot spot_at(const struct way_place *place)
{
    struct spot spot = {.traits = (uint16_t)place->traits, .accuracy = (uint16_t)place->accuracy};
    memcpy(spot.at, place->at, sizeof(spot.at));
    return spot;
}

/* ---- Learning ---- */

static struct ways *ways_without_twins(void)
{
    struct ways *ways = calloc(1, sizeof(*ways));
    for (unsigned differing = 0; ways && differing < WAY_TRAITS; differing++) {
        int layouts = !!(differing & WAY_TRANS_A) + !!(differing & WAY_TRANS_B);
        int offs = !!(differing & WAY_OFF_A) + !!(differing & WAY_OFF_B) + !!(differing & WAY_OFF_D);
        ways->trait_distance[differing] =
            (float)layouts * LAYOUT_DISTANCE * LAYOUT_DISTANCE + (float)offs * OFF_DISTANCE * OFF_DISTANCE;
    }
    return ways;
}

struct ways *ways_open(void)
{
    struct ways *ways = ways_without_twins();
    int32_t *twins = ways ? calloc((size_t)carat_catalog_count + 1, sizeof(*twins)) : NULL;
    if (!twins) {
        free(ways);
        return NULL;
    }
    for (int i = 0; i < carat_catalog_count; i++) {
        while (twins[i] < i && !are_twins(&carat_catalog[twins[i]], &carat_catalog[i])) {
            twins[i]++;
        }
    }
    ways->twins = twins;
    ways->made_twins = twins;
    return ways;
}

void ways_close(struct ways *ways)
{
    if (ways) {
        free(ways->loose);
        free(ways->memory);
        free(ways->made_twins);
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
    const struct loose_sample added = {.bucket = bucket_of(ways, kernel, place->packs) + shares,
                                       .spot = spot_at(place),
                                       .parts = (uint16_t)parts,
                                       .residual = (float)log(factor)};
    return add_loose(ways, &added);
}

/* By the way and the problem; all that differs tells them apart, so that their order is one. */
static int compare_loose(const void *x, const void *y)
{
    const struct loose_sample *first = x;
    const struct loose_sample *second = y;
    if (first->bucket != second->bucket) {
        return first->bucket - second->bucket;
    }
    int spots = compare_spots(&first->spot, &second->spot);
    if (spots != 0) {
        return spots;
    }
    if (first->parts != second->parts) {
        return first->parts - second->parts;
    }
    return (first->residual > second->residual) - (first->residual < second->residual);
}

/* Samples or spots for which there is room: numbers of four bytes lie behind them. */
static size_t whole_room(int count) { return ((size_t)count + 3) / 4 * 4; }

/* Bytes of the arrays of sorted ways, which lie one behind the other: lengths, spots, samples, buckets. */
static size_t sorted_bytes(const struct ways *ways)
{
    return (size_t)ways->length_count * sizeof(float) +
           whole_room(ways->spot_count) * sizeof(struct small_spot) +
           whole_room(ways->count) * sizeof(struct sample) +
           (size_t)(ways->bucket_count + 1) * sizeof(struct bucket);
}

/* Where they lie. */
static void place_sorted(struct ways *ways, const void *memory)
{
    ways->lengths = memory;
    ways->spots = (const struct small_spot *)(ways->lengths + ways->length_count);
    ways->samples = (const struct sample *)(ways->spots + whole_room(ways->spot_count));
    ways->buckets = (const struct bucket *)(ways->samples + whole_room(ways->count));
}

/* The first spot that is not before one; as many as there are, where all are. */
static int find_spot(const struct spot *spots, int count, const struct spot *sought)
{
    int begin = 0;
    int end = count;
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        if (compare_spots(&spots[middle], sought) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

/* All spots of the loose samples, sorted, each once; NULL without memory. */
static struct spot *collect_spots(const struct ways *ways, int *count)
{
    struct spot *spots = malloc(((size_t)ways->count + 1) * sizeof(*spots));
    *count = 0;
    if (!spots) {
        return NULL;
    }
    for (int i = 0; i < ways->count; i++) {
        spots[i] = ways->loose[i].spot;
    }
    qsort(spots, (size_t)ways->count, sizeof(*spots), compare_spots);
    for (int i = 0; i < ways->count; i++) {
        if (i == 0 || compare_spots(&spots[i], &spots[*count - 1]) != 0) {
            spots[(*count)++] = spots[i];
        }
    }
    return spots;
}

static int compare_floats(const void *first, const void *second)
{
    float x = *(const float *)first;
    float y = *(const float *)second;
    return (x > y) - (x < y);
}

/* All lengths of spots, sorted, each once; NULL without memory. */
static float *collect_lengths(const struct spot *spots, int spot_count, int *count)
{
    float *lengths = malloc(((size_t)spot_count * 4 + 1) * sizeof(*lengths));
    int all = 0;
    *count = 0;
    if (!lengths) {
        return NULL;
    }
    for (int i = 0; i < spot_count; i++) {
        for (int axis = 0; axis < 4; axis++) {
            lengths[all++] = spots[i].at[axis];
        }
    }
    qsort(lengths, (size_t)all, sizeof(*lengths), compare_floats);
    for (int i = 0; i < all; i++) {
        if (i == 0 || lengths[i] != lengths[*count - 1]) {
            lengths[(*count)++] = lengths[i];
        }
    }
    return lengths;
}

/* A spot by the numbers of its lengths; false where there is none of such a length. */
static bool make_small(const float *lengths, int count, const struct spot *spot, struct small_spot *small)
{
    small->kind = (uint16_t)(spot->traits << ACCURACY_BITS | spot->accuracy);
    for (int axis = 0; axis < 4; axis++) {
        const float *length =
            bsearch(&spot->at[axis], lengths, (size_t)count, sizeof(*lengths), compare_floats);
        if (!length) {
            return false;
        }
        small->at[axis] = (uint16_t)(length - lengths);
    }
    return true;
}

/* As compare_spots(). */
static int compare_small(const struct small_spot *x, const struct small_spot *y)
{
    for (int axis = 0; axis < 4; axis++) {
        if (x->at[axis] != y->at[axis]) {
            return x->at[axis] - y->at[axis];
        }
    }
    return x->kind - y->kind;
}

/* The number of the spot; below 0 where it is none of those that there are. */
static int find_small(const struct ways *ways, const struct spot *sought)
{
    struct small_spot small;
    int begin = 0;
    int end = make_small(ways->lengths, ways->length_count, sought, &small) ? ways->spot_count : 0;
    const int none = end;
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        if (compare_small(&ways->spots[middle], &small) < 0) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < none && compare_small(&ways->spots[begin], &small) == 0 ? begin : -1;
}

/* How many buckets the loose samples, which are sorted, lie in. */
static int count_buckets(const struct ways *ways)
{
    int count = 0;
    for (int i = 0; i < ways->count; i++) {
        count += i == 0 || ways->loose[i].bucket != ways->loose[i - 1].bucket;
    }
    return count;
}

/* Sample i of the bucket, the last so far, is of the spot: those of later blocks begin behind it. */
static void note_turns(struct bucket *bucket, int spot, int i)
{
    for (int turn = spot >> SPOT_BITS; turn < SPOT_BLOCKS - 1; turn++) {
        bucket->turns[turn] = i + 1;
    }
}

/* Fills the arrays in memory from the loose samples, which are sorted. */
static void fill_sorted(struct ways *ways, const struct spot *spots, const float *lengths, void *memory)
{
    memcpy(memory, lengths, (size_t)ways->length_count * sizeof(*lengths));
    struct small_spot *small = (struct small_spot *)((float *)memory + ways->length_count);
    struct sample *samples = (struct sample *)(small + whole_room(ways->spot_count));
    struct bucket *buckets = (struct bucket *)(samples + whole_room(ways->count));
    for (int i = 0; i < ways->spot_count; i++) {
        make_small(lengths, ways->length_count, &spots[i], &small[i]);
    }
    int bucket = -1;
    double sum = 0;
    for (int i = 0; i < ways->count; i++) {
        const struct loose_sample *loose = &ways->loose[i];
        int spot = find_spot(spots, ways->spot_count, &loose->spot);
        samples[i] = pack_sample(spot, loose->parts, loose->residual, ways->middle);
        float residual = counted(sample_residual(samples[i], ways->middle));
        if (i == 0 || loose->bucket != buckets[bucket].number) {
            buckets[++bucket] = (struct bucket){.number = loose->bucket, .first = i};
        }
        note_turns(&buckets[bucket], spot, i);
        buckets[bucket].least = fminf(buckets[bucket].least, residual);
        sum += (double)residual;
    }
    buckets[bucket + 1] = (struct bucket){.number = INT32_MAX, .first = ways->count};
    ways->usual = ways->count > 0 ? (float)(sum / ways->count) : 0;
}

/*
 * Residuals are kept from 0, where a model foresees what it was fitted to. Of a device that takes some thousand times as long, as one that is
 * played by a CPU does, they would all be the largest that there is: from their mean they are not.
 */
static float middle_of_residuals(const struct ways *ways)
{
    double sum = 0;
    for (int i = 0; i < ways->count; i++) {
        sum += (double)ways->loose[i].residual;
    }
    float mean = ways->count > 0 ? (float)(sum / ways->count) : 0;
    return isfinite(mean) && fabsf(mean) > MOST_RESIDUAL ? mean : 0;
}

bool ways_are_too_many(const struct ways *ways)
{
    return ways && (ways->spot_count > WAYS_MOST_PROBLEMS || ways->length_count > WAYS_MOST_LENGTHS);
}

bool ways_sort(struct ways *ways)
{
    if (ways->count > 0) {
        qsort(ways->loose, (size_t)ways->count, sizeof(*ways->loose), compare_loose);
    }
    struct spot *spots = collect_spots(ways, &ways->spot_count);
    float *lengths = spots ? collect_lengths(spots, ways->spot_count, &ways->length_count) : NULL;
    bool fits = lengths && !ways_are_too_many(ways);
    ways->bucket_count = count_buckets(ways);
    ways->middle = middle_of_residuals(ways);
    void *memory = fits ? calloc(1, sorted_bytes(ways)) : NULL;
    if (memory) {
        fill_sorted(ways, spots, lengths, memory);
        ways->memory = memory;
        place_sorted(ways, memory);
        free(ways->loose);
        ways->loose = NULL;
    }
    free(lengths);
    free(spots);
    return memory != NULL;
}

void ways_lie_over(struct ways *ways, const struct ways *others)
{
    int layers = 1;
    ways->under = others;
    for (; others; others = others->under) {
        layers++;
    }
    assert(layers <= MOST_LAYERS);
    (void)layers;
}

void ways_leave_out(struct ways *ways) { ways->leaves_out = true; }

void ways_take_no_word(struct ways *ways) { ways->takes_no_word = true; }

/* ---- Asking ---- */

/* The bucket of a number; NULL where it has no samples. */
static const struct bucket *find_bucket(const struct ways *ways, int number)
{
    int begin = 0;
    int end = ways->bucket_count;
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        if (ways->buckets[middle].number < number) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin < ways->bucket_count && ways->buckets[begin].number == number ? &ways->buckets[begin] : NULL;
}

/* Where in a bucket the first sample lies that is of no spot before this one. */
static int lower_bound(const struct ways *ways, const struct bucket *bucket, int spot)
{
    int begin = bucket[0].first;
    int end = bucket[1].first;
    while (begin < end) {
        int middle = begin + (end - begin) / 2;
        if (sample_spot(ways, bucket, middle) < spot) {
            begin = middle + 1;
        } else {
            end = middle;
        }
    }
    return begin;
}

static void look_up_layer(const struct ways *ways, int number, const struct spot *sought, bool may_be_there,
                          struct ways_layer *layer)
{
    int spot = may_be_there && !ways->takes_no_word ? find_small(ways, sought) : -1;
    *layer = (struct ways_layer){.ways = ways};
    for (int shares = 0; shares < 2; shares++) {
        const struct bucket *bucket = find_bucket(ways, number + shares);
        layer->buckets[shares] = bucket;
        if (spot >= 0 && bucket) {
            layer->there[shares][0] = lower_bound(ways, bucket, spot);
            layer->there[shares][1] = lower_bound(ways, bucket, spot + 1);
        }
    }
}

void ways_look_up(const struct ways *ways, const struct kernel *kernel, const struct way_place *place,
                  struct ways_near *near)
{
    near->ways = ways;
    near->place = *place;
    near->count = -1;
    near->layer_count = 0;
    near->known = 0;
    near->usual = 0;
    if (!ways) {
        return;
    }
    struct spot sought = spot_at(place);
    int number = bucket_of(ways, kernel, place->packs);
    float sum = 0;
    for (const struct ways *layer = ways; layer && near->layer_count < MOST_LAYERS; layer = layer->under) {
        look_up_layer(layer, number, &sought, !ways->leaves_out, &near->layers[near->layer_count++]);
        near->known += layer->count;
        sum += (float)layer->count * layer->usual;
    }
    near->usual = near->known >= LEAST_USUAL ? sum / (float)near->known : 0;
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
static void gather_bucket(struct ways_near *near, const struct ways_layer *layer, bool shares)
{
    const struct ways *ways = layer->ways;
    const struct bucket *bucket = layer->buckets[shares];
    for (int i = bucket ? bucket[0].first : 0; bucket && i < bucket[1].first; i++) {
        const struct sample sample = ways->samples[i];
        const struct small_spot *spot = &ways->spots[sample_spot(ways, bucket, i)];
        float distance = ways->trait_distance[spot->kind >> ACCURACY_BITS ^ (int)near->place.traits];
        for (int axis = 0; axis < 4; axis++) {
            float along = AXIS_SCALES[axis] * (ways->lengths[spot->at[axis]] - near->place.at[axis]);
            distance += along * along;
        }
        float far = far_weight(distance);
        if (far == 0 || (near->ways->leaves_out && distance == 0)) {
            continue;
        }
        int group = group_of(near, sample_parts(sample), shares);
        float residual = counted(sample_residual(sample, ways->middle));
        near->groups[group].weights[FAR] += far;
        near->groups[group].sums[FAR] += far * residual;
        near->groups[group].weights[NEAR] += near_weight(far);
        near->groups[group].sums[NEAR] += near_weight(far) * residual;
    }
}

static void gather(struct ways_near *near)
{
    near->count = 0;
    for (int shares = 0; shares < 2; shares++) {
        for (int i = 0; i < near->layer_count; i++) {
            gather_bucket(near, &near->layers[i], shares);
        }
    }
}

double ways_factor(struct ways_near *near, int parts, bool shares)
{
    if (near->ways && near->count < 0) {
        gather(near);
    }
    float here = log2f((float)parts);
    float weights[2] = {[FAR] = DOUBT_FAR, [NEAR] = DOUBT_NEAR};
    float sums[2] = {[FAR] = DOUBT_FAR * near->usual, [NEAR] = 0};
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
    float caution = near->known >= LEAST_USUAL ? CAUTION / (CAUTION_WEIGHT + weights[NEAR]) : 0;
    return exp((double)(caution + (DOUBT_NEAR * expected + sums[NEAR]) / weights[NEAR]));
}

double ways_least_factor(const struct ways_near *near, bool shares)
{
    /* Means of what is there and of what is usual; a little less, as they are rounded. */
    float least = fminf(0, near->usual);
    for (int i = 0; i < near->layer_count; i++) {
        const struct bucket *bucket = near->layers[i].buckets[shares];
        least = fminf(least, bucket ? bucket->least : 0);
    }
    return exp((double)least) * (1 - 8 * (double)FLT_EPSILON);
}

static bool is_timed_in(const struct ways_layer *layer, int parts, bool shares, double *factor)
{
    double sum = 0;
    int count = 0;
    for (int i = layer->there[shares][0]; i < layer->there[shares][1]; i++) {
        const struct sample sample = layer->ways->samples[i];
        if (sample_parts(sample) == parts) {
            sum += (double)sample_residual(sample, layer->ways->middle);
            count++;
        }
    }
    if (count > 0) {
        *factor = exp(sum / count);
    }
    return count > 0;
}

bool ways_timed(const struct ways_near *near, int parts, bool shares, double *factor)
{
    bool timed = false;
    for (int i = 0; i < near->layer_count && !timed; i++) {
        timed = is_timed_in(&near->layers[i], parts, shares, factor);
    }
    return timed;
}

bool ways_know_problem(const struct ways_near *near)
{
    bool known = false;
    for (int i = 0; i < near->layer_count; i++) {
        const struct ways_layer *layer = &near->layers[i];
        known = known || layer->there[0][0] < layer->there[0][1] || layer->there[1][0] < layer->there[1][1];
    }
    return known;
}

/* ---- As an image ---- */

struct image_head {
    int32_t lengths;
    int32_t spots;
    int32_t count;
    int32_t buckets;
    int32_t rows;
    float usual;
    float middle;
};

bool ways_write(const struct ways *ways, FILE *file)
{
    const struct image_head head = {.lengths = ways->length_count,
                                    .spots = ways->spot_count,
                                    .count = ways->count,
                                    .buckets = ways->bucket_count,
                                    .rows = carat_catalog_count,
                                    .usual = ways->usual,
                                    .middle = ways->middle};
    size_t rows = (size_t)carat_catalog_count;
    return fwrite(&head, sizeof(head), 1, file) == 1 &&
           fwrite(ways->twins, sizeof(*ways->twins), rows, file) == rows &&
           fwrite(ways->lengths, sorted_bytes(ways), 1, file) == 1;
}

struct ways *ways_of_image(const unsigned char *image)
{
    struct ways *ways = ways_without_twins();
    const struct image_head *head = (const struct image_head *)image;
    if (ways) {
        ways->length_count = head->lengths;
        ways->spot_count = head->spots;
        ways->count = head->count;
        ways->bucket_count = head->buckets;
        ways->usual = head->usual;
        ways->middle = head->middle;
        ways->twins = (const int32_t *)(head + 1);
        place_sorted(ways, ways->twins + head->rows);
    }
    return ways;
}
