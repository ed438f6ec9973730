/*
 * ways.h - what was measured of whole ways to do a problem, and what that says of the ways to do another one.
 *
 * The model, as the grids of a tuning table correct it, foresees a time for each way: a row, what is done to A and B
 * before, the parts of K. Ways that were measured on problems drawn at random say how far off that is, and near
 * problems have much of it in common. So a way's cycles are multiplied by what the same way took longer than
 * foreseen on problems nearby: the mean of the logarithms, each with a weight that falls with the distance, drawn
 * towards that of all ways there are where there are few, and a little more: of many of which little is known, the one that
 * looks best was rather guessed too low. Ways that were timed of the very problem are taken at their word,
 * and where they are several all others count for a little more than is foreseen of them.
 *
 *     log2 n |        . +0.1
 *            |   x           . +0.2     the way at x takes about 1.07 times what is foreseen;
 *            | . 0                      far from all that was measured, as ways usually do
 *            +------------- log2 m
 */
#ifndef CARAT_WAYS_H
#define CARAT_WAYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "catalog.h"

/* Where a problem lies, and what is done to it; that and the row are the same of the ways that are compared. */
struct way_place {
    float at[4];     /* powers of two: m, n, k, batch */
    unsigned traits; /* WAY_... */
    int accuracy;    /* that is asked for: tells problems apart, not ways */
    char packs[2];   /* what is done to A and B, see plan_marks() */
};

/*
 * What tells problems of the same size apart: how A and B lie, and whether where they and D begin is in the way. And which
 * of two types it is whose rows are alike otherwise: either learns from the other, but what was timed of the one was not
 * of the other.
 */
enum {
    WAY_TRANS_A = 1,
    WAY_TRANS_B = 2,
    WAY_OFF_A = 4,
    WAY_OFF_B = 8,
    WAY_OFF_D = 16,
    WAY_OTHER_TYPE = 32,
    WAY_TRAITS = 64
};

struct ways;

/* NULL without memory. */
struct ways *ways_open(void);

/* NULL is allowed. */
void ways_close(struct ways *ways);

/* Takes note of a way that took `factor` times what was foreseen; false without memory. */
bool ways_add(struct ways *ways, const struct kernel *kernel, const struct way_place *place, int parts,
              bool shares, double factor);

/* The number of the row whose ways stand for a row's: of rows of types that take as long as each other the first. */
int ways_row(const struct ways *ways, const struct kernel *kernel);

/* Of so many different problems, and as many different lengths of their sides, ways can be kept. */
enum { WAYS_MOST_PROBLEMS = 1 << 18, WAYS_MOST_LENGTHS = 1 << 16 };

/* When all are there; before it, nothing may be asked. False without memory, or where there are too many. */
bool ways_sort(struct ways *ways);

/* Whether it was that; ways may be NULL. */
bool ways_are_too_many(const struct ways *ways);

/*
 * From now on what others know counts too. Both have to be sorted, the others to stay, and layers to be no more than MOST_LAYERS.
 * What was timed of a problem there counts as timed here where the same way was not timed of it here; near to others are both.
 */
void ways_lie_over(struct ways *ways, const struct ways *others);

/*
 * From now on, what was measured of a problem, here or in what lies under it, says nothing of the same one: so who has no device
 * can judge what is learned by what it says of the problems that were measured.
 */
void ways_leave_out(struct ways *ways);

/*
 * From now on, what was timed of a problem here, and not in what lies over it or under it, is no more than near to the same one: it
 * was timed on another device.
 */
void ways_take_no_word(struct ways *ways);

/*
 * What was measured near a place of a row. Looked up, it knows what was timed of the very problem; what lies beside that is
 * gathered when it is first asked for.
 */
enum { MOST_NEAR_GROUPS = 512 };
enum { MOST_LAYERS = 3 }; /* a table of one's own, over one of the library's, over another */
struct bucket;
struct ways_near {
    const struct ways *ways; /* NULL: nothing is near */
    struct way_place place;
    /* Of these ways, of those on which they lie, and so on. */
    struct ways_layer {
        const struct ways *ways;
        /* Of ways whose clusters do not share tiles, and of those that do; NULL: of none. */
        const struct bucket *buckets[2];
        int there[2][2]; /* where in them the very problem's begin and end */
    } layers[MOST_LAYERS];
    int layer_count;
    int known;   /* samples in all layers */
    float usual; /* the mean of their residuals; 0 where they are few */
    int count;   /* of groups; below 0: not gathered yet */
    struct {
        int parts;
        bool shares;
        float parts_log;  /* a power of two */
        float weights[2]; /* of what was measured so, by how near it is: far and near */
        float sums[2];    /* the same of its residuals, each times its weight */
    } groups[MOST_NEAR_GROUPS];
};

/* Looks them up; ways may be NULL: nothing is near. */
void ways_look_up(const struct ways *ways, const struct kernel *kernel, const struct way_place *place,
                  struct ways_near *near);

/* How many times what is foreseen a way takes with so many parts of K, tiles shared or not; 1 where nothing is known. */
double ways_factor(struct ways_near *near, int parts, bool shares);

/* What that factor is never less than; which is known without a look at what is near. */
double ways_least_factor(const struct ways_near *near, bool shares);

/*
 * Whether that way itself was timed of the very problem; then factor becomes how many times what is foreseen it took, on
 * average of all times.
 */
bool ways_timed(const struct ways_near *near, int parts, bool shares, double *factor);

/* Whether any way of the row was timed of the very problem, with what is done to A and B. */
bool ways_know_problem(const struct ways_near *near);

/* ---- As an image ---- */

/* Writes sorted ways, without what lies under them, so that the same program reads them where they are; false where that fails. */
bool ways_write(const struct ways *ways, FILE *file);

/* Ways that lie in an image, which has to stay; NULL without memory. */
struct ways *ways_of_image(const unsigned char *image);

#endif
