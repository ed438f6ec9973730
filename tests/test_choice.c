/*
 * test_choice.c - how good the choice of a way is, with no device: the tables of tuning/ say how long ways of many
 * problems took, and the choice for a third of them is made from what was measured of all others: each one's means leave
 * out that problem, and the trees of this test's table learned from the other two thirds, if not from another table.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "held_out.h"
#include "plan.h"
#include "rows.h"
#include "tuning.h"

/* A table, the device that it is of, and what is reached on its shapes, and a little more. */
struct table_case {
    const char *path;
    const char *device;
    bool grew;         /* at its end, over days: rows may be younger than a shape's lines */
    int least_choices; /* as many choices at least */
    double mean;
    double of_95;
    double of_99;
    double unmeasured;
    double measured;
    double unknown;
};

static const struct table_case tables[] = {
    /*
     * Of 16-bit types, tf32, 8-bit floats and s8 nearly all of its shapes of up to 30 us were timed in one day, at its end,
     * in a cache that knows nothing of them, with all rows that there were; what comes before is older, and knows the younger
     * rows in part. Of those whose consumers have two times 64 rows, which came then, some 4,400 shapes have times, and
     * of the last 17, for few columns and for few tiles of a long k, 1,900. Rows that sum parts of k without a whole image have times of
     * 5,800 shapes, and what was in parts before is brought to the reduction by vectors by arithmetic. Those whose blocks share k have times
     * of 20,500 shapes, most of few tiles. An older shape for which one of these is chosen counts as the slowest way, or as unknown.
     * Of the youngest rows, 92 for one wave without clusters and of 192 rows, 72 for layouts other
     * than TN and 32 of two times 64 rows for TT and NN, it has times of some 20,000 shapes.
     */
    {TUNING "/nvidia-h200.txt", "NVIDIA H200", true, 1000, 1.07, 1.55, 1.85, 0.1, 1.019, 0.19},
    /*
     * Nearly all of its shapes of up to 30 us have been timed anew in a cache that knows nothing of them, with the rows as they were
     * then. After came 64 x 128 for 8-bit operands that lie across k, and clusters that share the rows, or both operands: with these
     * the larger ones of 16-bit types and half of the others of TN have been timed once more. Most rows that are only plain
     * have been timed on an H200 alone, and none that sums parts of k without a whole image has been timed so here;
     * times of parts with a large D are brought to the reduction by vectors as those above. Those whose blocks share k have times of 3,700.
     * Of the 92 rows for one wave without clusters and of 192 rows, and the 104 for layouts other than TN, it has none: a choice of these
     * is one that it cannot judge. The more shapes of the H200's table know of them, the more are chosen here.
     */
    {TUNING "/nvidia-h100-80gb-hbm3.txt", "NVIDIA H100 80GB HBM3", true, 400, 1.08, 1.55, 1.7, 0.11, 1.02,
     0.17},
};

enum { MOST_WAYS = 128, MOST_ROWS = 2048 };

/* What the choices of all shapes so far took, over the best way that was measured. */
struct judged {
    struct device_traits traits;
    const struct table_case *table;
    int shape;                          /* its number in the table, from 1 on */
    int born[MOST_ROWS];                /* of each row the first shape that it was timed of; 0: of none */
    struct tuning_line ways[MOST_WAYS]; /* of one shape */
    int count;
    int chosen;
    int unmeasured; /* choices of which nothing is known: they count as the slowest way that is */
    int unknown;    /* choices of rows that are younger than the table, of which it cannot judge */
    double sum;
    double sum_measured; /* of the choices that were measured alone */
    double ratios[60000];
};

static bool is_way(const struct tuning_line *line, const struct candidate *way, const char marks[2])
{
    return line->kernel == way->kernel && memcmp(line->packs, marks, sizeof(line->packs)) == 0 &&
           line->parts == way->parts && line->shares == (way->stream_tiles > 0);
}

/* Whether the choice is of a kind that there was none of when the shape's ways were timed: tables grow at their ends. */
static bool is_younger(const struct judged *judged, const struct candidate *choice)
{
    int born = judged->born[choice->kernel - carat_catalog];
    return born == 0 || born > judged->shape;
}

static carat_status note_births(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct judged *judged = context;
    (void)head;
    if (line->whole && line->kernel) {
        int row = (int)(line->kernel - carat_catalog);
        judged->shape += !tuning_same_shape(line, &judged->ways[0]);
        judged->ways[0] = *line;
        judged->born[row] = judged->born[row] ? judged->born[row] : judged->table->grew ? judged->shape : 1;
    }
    return CARAT_OK;
}

/* The choice for the shape whose ways have been gathered. */
static void judge(struct judged *judged)
{
    struct problem problem;
    struct candidate choice;
    char marks[2];
    double best = judged->ways[0].microseconds;
    double slowest = best;
    double taken = 0;
    assert_true(tuning_whole_problem(&judged->ways[0], &problem));
    assert_true(plan_best(&judged->traits, &problem, &choice));
    plan_marks(&problem, &choice, marks);
    for (int i = 0; i < judged->count; i++) {
        double time = judged->ways[i].microseconds;
        best = time < best ? time : best;
        slowest = time > slowest ? time : slowest;
        taken = is_way(&judged->ways[i], &choice, marks) ? time : taken;
    }
    if (taken == 0 && (!choice.surveyed || is_younger(judged, &choice))) {
        judged->unknown++;
        return;
    }
    judged->unmeasured += taken == 0;
    judged->sum_measured += taken / best;
    assert_true(judged->chosen < (int)(sizeof(judged->ratios) / sizeof(judged->ratios[0])));
    judged->ratios[judged->chosen] = (taken > 0 ? taken : slowest) / best;
    judged->sum += judged->ratios[judged->chosen++];
}

/* Ends a shape. */
static void next_shape(struct judged *judged)
{
    if (judged->count > 0 && is_held_out(&judged->ways[0])) {
        judge(judged);
    }
    judged->count = 0;
}

static carat_status gather(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct judged *judged = context;
    (void)head;
    if (line->whole && line->kernel) {
        if (judged->count == 0 || !tuning_same_shape(line, &judged->ways[0])) {
            next_shape(judged);
            judged->shape++;
        }
        assert_true(judged->count < MOST_WAYS);
        judged->ways[judged->count++] = *line;
    }
    return CARAT_OK;
}

static int compare_ratios(const void *x, const void *y)
{
    double first = *(const double *)x;
    double second = *(const double *)y;
    return (first > second) - (first < second);
}

static double share_of(struct judged *judged, double share)
{
    return judged->ratios[(int)(share * (judged->chosen - 1))];
}

static void judge_table(const struct table_case *one)
{
    char *text;
    size_t length;
    struct judged *judged = calloc(1, sizeof(*judged));
    struct tuning_table *table;
    struct tuning_head head;
    assert_non_null(judged);
    judged->traits = (struct device_traits){.kind = CARAT_DEVICE_CUDA,
                                            .compute_capability = 90,
                                            .multiprocessors = 132,
                                            .shared_bytes = 232448,
                                            .name = one->device};
    assert_int_equal(tuning_load(one->path, &text, &length), CARAT_OK);
    assert_int_equal(tuning_open(&judged->traits, &table), CARAT_OK);
    assert_non_null(table);
    assert_string_equal(tuning_device(table), one->device);
    tuning_leave_out(table);
    judged->traits.tuning = table;
    judged->table = one;
    assert_true(carat_catalog_count <= MOST_ROWS);
    assert_int_equal(tuning_read(one->path, text, length, note_births, judged, &head), CARAT_OK);
    judged->shape = 0;
    assert_int_equal(tuning_read(one->path, text, length, gather, judged, &head), CARAT_OK);
    next_shape(judged);
    assert_true(judged->chosen >= one->least_choices);
    qsort(judged->ratios, (size_t)judged->chosen, sizeof(judged->ratios[0]), compare_ratios);
    double mean = judged->sum / judged->chosen;
    double unmeasured = (double)judged->unmeasured / judged->chosen;
    double measured = judged->sum_measured / (judged->chosen - judged->unmeasured);
    printf("%s: %d choices take %.4f of the best way's time on average, %.3f of it where 5%% take longer, "
           "%.3f where 1%% do; %.1f%% are unmeasured, and the others take %.4f; %d more are of rows that the "
           "table does not know\n",
           one->device, judged->chosen, mean, share_of(judged, 0.95), share_of(judged, 0.99),
           100 * unmeasured, measured, judged->unknown);
    assert_true(mean < one->mean);
    assert_true(share_of(judged, 0.95) < one->of_95);
    assert_true(share_of(judged, 0.99) < one->of_99);
    assert_true(unmeasured < one->unmeasured);
    assert_true(measured < one->measured);
    assert_true(judged->unknown < one->unknown * judged->chosen);
    tuning_close(table);
    free(text);
    free(judged);
}

static void choices_are_near_the_best(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        judge_table(&tables[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_are_near_the_best),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
