/* test_trees.c - trees: what they say, how they grow, and that a search finds what they say is the best. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "grow.h"
#include "measured.h"
#include "plan.h"
#include "trees.h"
#include "tuning.h"

/* ---- What they say ---- */

/*
 *     f0 <= 1 ?  yes: f1 <= 5 ?  yes: 1
 *                                no:  2
 *                no:  4
 * and a tree of one leaf: 8.
 */
static struct tree_node nodes[6];
static const int32_t first[] = {0, 5, 6};
static const struct trees two_trees = {2, first, nodes};

static int make_nodes(void **state)
{
    (void)state;
    nodes[0] = tree_node_of(1, 4, 0);
    nodes[1] = tree_node_of(5, 2, 1);
    nodes[2] = tree_node_of(1, 0, 0);
    nodes[3] = tree_node_of(2, 0, 0);
    nodes[4] = tree_node_of(4, 0, 0);
    nodes[5] = tree_node_of(8, 0, 0);
    return 0;
}

/* The last feature, the longest step, and a value of all bits. */
static void a_node_holds_what_there_can_be(void **state)
{
    (void)state;
    static struct tree_node long_tree[TREE_MOST_NODES];
    static const int32_t only[] = {0, TREE_MOST_NODES};
    const struct trees trees = {1, only, long_tree};
    const float limit = -1.000000119F;
    float features[TREE_MOST_FEATURES] = {0};
    long_tree[0] = tree_node_of(limit, TREE_MOST_NODES - 1, TREE_MOST_FEATURES - 1);
    long_tree[1] = tree_node_of(0.1F, 0, 0);
    long_tree[TREE_MOST_NODES - 1] = tree_node_of(-3e-30F, 0, 0);
    features[TREE_MOST_FEATURES - 1] = limit;
    assert_true(trees_sum(&trees, features) == 0.1F);
    features[TREE_MOST_FEATURES - 1] = -1;
    assert_true(trees_sum(&trees, features) == -3e-30F);
}

static void all_trees_are_added_up(void **state)
{
    (void)state;
    static const struct {
        float features[2];
        float sum;
    } cases[] = {{{1, 5}, 9}, {{0, 0}, 9}, {{1, 5.5F}, 10}, {{1.5F, 0}, 12}, {{1.5F, 9}, 12}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        assert_true(trees_sum(&two_trees, cases[i].features) == cases[i].sum);
    }
    const struct trees none = {.count = 0};
    assert_true(trees_sum(&none, cases[0].features) == 0);
}

/* Of the first of two trees, which has an odd number of nodes, and of both. */
static void an_image_says_the_same(void **state)
{
    (void)state;
    for (int32_t count = 1; count <= 2; count++) {
        _Alignas(4) unsigned char image[200];
        const struct trees written = {count, first, nodes};
        struct trees trees;
        FILE *file = tmpfile();
        assert_non_null(file);
        assert_true(trees_write(&written, file));
        size_t length = (size_t)ftell(file);
        rewind(file);
        assert_true(length < sizeof(image) && length % 4 == 0);
        assert_int_equal(fread(image, 1, length, file), length);
        fclose(file);
        assert_ptr_equal(trees_of_image(image, &trees), image + length);
        assert_int_equal(trees.count, count);
        assert_memory_equal(trees.first, first, ((size_t)count + 1) * sizeof(*first));
        assert_memory_equal(trees.nodes, nodes, (size_t)first[count] * sizeof(*nodes));
    }
}

/* ---- How they grow ---- */

enum { LESSONS = 4000, FEATURES = 4, GROWN = 60 };

static float random_share(uint64_t *luck)
{
    *luck = *luck * 6364136223846793005U + 1442695040888963407U;
    return (float)(*luck >> 40) / (float)(1 << 24);
}

/* Two features that hang together, one by itself, and one that does not matter. */
static float truth(const float features[FEATURES])
{
    return (features[0] > 0.3F && features[1] <= 0.6F ? 0.5F : -0.25F) + 0.4F * features[2];
}

struct class
{
    float features[LESSONS][FEATURES];
    float targets[LESSONS];
};

static struct class *open_class(float noise)
{
    struct class *class = calloc(1, sizeof(*class));
    uint64_t luck = 1;
    assert_non_null(class);
    for (int i = 0; i < LESSONS; i++) {
        for (int j = 0; j < FEATURES; j++) {
            class->features[i][j] = random_share(&luck);
        }
        class->targets[i] = truth(class->features[i]) + noise * (random_share(&luck) - 0.5F);
    }
    return class;
}

static void grow_class(const struct class *class, int count, int trees, struct grown *grown)
{
    const struct lessons lessons = {
        .count = count, .feature_count = FEATURES, .features = class->features[0], .targets = class->targets};
    assert_true(grow(&lessons, trees, grown));
}

/* What was not among the lessons is foreseen, and noise is not. */
static void trees_learn_what_holds_for_others(void **state)
{
    (void)state;
    struct class *class = open_class(0.2F);
    struct grown grown;
    grow_class(class, LESSONS, GROWN, &grown);
    uint64_t luck = 77;
    double squares = 0;
    for (int i = 0; i < LESSONS; i++) {
        float features[FEATURES];
        for (int j = 0; j < FEATURES; j++) {
            features[j] = random_share(&luck);
        }
        double off = (double)(trees_sum(&grown.trees, features) - truth(features));
        squares += off * off;
    }
    assert_true(sqrt(squares / LESSONS) < 0.09); /* of 0.36; most of it is where two bins meet */
    grown_free(&grown);
    free(class);
}

static void the_same_lessons_give_the_same_trees(void **state)
{
    (void)state;
    struct class *class = open_class(0.2F);
    struct grown grown[2];
    for (int i = 0; i < 2; i++) {
        grow_class(class, LESSONS, 5, &grown[i]);
    }
    assert_int_equal(grown[0].trees.count, 5);
    assert_memory_equal(grown[0].trees.first, grown[1].trees.first, 6 * sizeof(int32_t));
    assert_memory_equal(grown[0].trees.nodes, grown[1].trees.nodes,
                        (size_t)grown[0].trees.first[5] * sizeof(struct tree_node));
    for (int i = 0; i < 2; i++) {
        grown_free(&grown[i]);
    }
    free(class);
}

/* Too few lessons make no decision, and none say nothing. */
static void few_lessons_make_leaves(void **state)
{
    (void)state;
    struct class *class = open_class(0);
    for (int count = 0; count <= 30; count += 10) {
        struct grown grown;
        grow_class(class, count, 3, &grown);
        assert_int_equal(grown.trees.first[3], 3);
        float said = trees_sum(&grown.trees, class->features[0]);
        assert_true(fabsf(said) < 0.5F && (count > 0 || said == 0));
        grown_free(&grown);
    }
    free(class);
}

/* ---- What is chosen by them ---- */

struct visited {
    struct device_traits *traits;
    const struct problem *problem;
    struct candidate best;
    int asked;     /* ways of which the trees say anything */
    int beyond;    /* the bounds */
    int different; /* from what is asked alone */
};

static void visit(void *context, const struct candidate *way)
{
    struct visited *visited = context;
    if (!visited->best.kernel || way->cycles < visited->best.cycles) {
        visited->best = *way;
    }
    struct candidate before = *way;
    const struct tuning_table *table = visited->traits->tuning;
    const struct way_place place = place_of_way(visited->problem, way);
    struct ways_near near;
    ways_look_up(tuning_ways(table), way->kernel, &place, &near);
    before.learned = before.cycles = way->foreseen * ways_factor(&near, way->parts, way->stream_tiles > 0);
    double factor = tree_factor(visited->traits, visited->problem, &before);
    visited->asked += factor != 1;
    visited->beyond += factor < LEAST_BY_TREES || factor > 1 / LEAST_BY_TREES;
    visited->different += fabs(before.cycles * factor / way->cycles - 1) > 1e-6;
}

/* The shortlist leaves out nothing that would have been the best. */
static void the_best_of_all_ways_is_found(void **state)
{
    (void)state;
    static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_BF16, CARAT_S8};
    static const int64_t sides[] = {3, 40, 300, 2100};
    struct device_traits h200 = {.kind = CARAT_DEVICE_CUDA,
                                 .compute_capability = 90,
                                 .multiprocessors = 132,
                                 .shared_bytes = 232448,
                                 .name = "NVIDIA H200"};
    struct tuning_table *table;
    unsetenv("CARAT_TUNING");
    assert_int_equal(tuning_open(&h200, &table), CARAT_OK);
    assert_true(table && tuning_trees(table));
    tuning_leave_out(table);
    h200.tuning = table;
    int asked = 0;
    for (int i = 0; i < 64; i++) {
        struct tuning_line line = {
            .type = types[i % 4],
            .sizes = {sides[i / 4 % 4], sides[i / 16 % 4], sides[(i * 7 + i / 16) % 4]},
            .batch = 1,
            .trans_a = i % 2,
            .trans_b = i % 3 == 0};
        struct problem problem;
        struct candidate best;
        assert_true(tuning_whole_problem(&line, &problem));
        struct visited visited = {.traits = &h200, .problem = &problem};
        plan_visit(&h200, &problem, visit, &visited);
        assert_true(plan_best(&h200, &problem, &best));
        assert_ptr_equal(best.kernel, visited.best.kernel);
        assert_int_equal(best.parts, visited.best.parts);
        assert_true(best.cycles == visited.best.cycles);
        assert_int_equal(visited.beyond, 0);
        assert_int_equal(visited.different, 0);
        asked += visited.asked;
    }
    assert_true(asked > 1000);
    tuning_close(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_trees_are_added_up),
        cmocka_unit_test(a_node_holds_what_there_can_be),
        cmocka_unit_test(an_image_says_the_same),
        cmocka_unit_test(trees_learn_what_holds_for_others),
        cmocka_unit_test(the_same_lessons_give_the_same_trees),
        cmocka_unit_test(few_lessons_make_leaves),
        cmocka_unit_test(the_best_of_all_ways_is_found),
    };
    return cmocka_run_group_tests(tests, make_nodes, NULL);
}
