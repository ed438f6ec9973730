/* test_tuning.c - tables of measured times: how they are read, what they make of the model, and when they apply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "assertions.h"
#include "carat/carat.h"
#include "dtype.h"
#include "plan.h"
#include "reference.h"
#include "rows.h"
#include "standin.h"
#include "tuning.h"

#define HEAD "carat-tuning 1\ndevice A chip\nclock 1000\n"
#define ROW "simt_f32_32x32"
#define SHAPE HEAD "shape f32 NN 8 8 8\n"

static const struct device_traits chip = {
    .kind = CARAT_DEVICE_CUDA, .compute_capability = 90, .multiprocessors = 128, .name = "A chip"};

#define assert_no_table(call, words) assert_refused(call, CARAT_INVALID_ARGUMENT, words)

/* ---- Reading ---- */

struct copy {
    char text[2000];
    int unknown;
};

static carat_status copy_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    struct copy *copy = context;
    size_t length = strlen(copy->text);
    assert_string_equal(head->device, "A chip");
    if (line->kernel) {
        if (line->whole) {
            length += (size_t)tuning_shape_text(line, copy->text + length, sizeof(copy->text) - length);
        }
        tuning_line_text(line, copy->text + length, sizeof(copy->text) - length);
    } else {
        copy->unknown++;
    }
    return CARAT_OK;
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    static const char lines[] = "product " ROW " TN 96 128 64 12.500\n"
                                "product " ROW " NT 1 2 16384 0.125\n"
                                "pack pack_2 turned 16 32 3.250\n"
                                "pack pack_f8_to_f16 straight 1024 4 7.000\n"
                                "reduce reduce_f32 65536 4 2.000\n"
                                "shape f32 TN 96 128 64\n"
                                "way " ROW " -- 3 12.500\n"
                                "shape bf16 NN 1 2 3 4\n"
                                "way simt_bf16_32x32 pt shared 0.250\n"
                                "shape e4m3-fast NT 2147483647 1 1\n"
                                "way simt_f16_32x32 hh 1 1.000\n"
                                "shape f32-strict TT 1 1 7\n"
                                "way " ROW " -- 1 1.000\n";
    const struct tuning_head written = {.device = "A chip",
                                        .over = "Another chip",
                                        .capability = 90,
                                        .multiprocessors = 128,
                                        .memory = 4917,
                                        .driver = 13000,
                                        .library = "0.1.0",
                                        .clock = 1980};
    char text[3000];
    int length = tuning_head_text(&written, text, sizeof(text));
    snprintf(text + length, sizeof(text) - (size_t)length,
             "%s# a comment\n\nproduct gone NN 1 1 1 1.0\nway gone -- 1 1.0\n", lines);
    struct copy copy = {.unknown = 0};
    struct tuning_head head;
    assert_int_equal(tuning_read("file", text, strlen(text), copy_line, &copy, &head), CARAT_OK);
    assert_string_equal(copy.text, lines);
    assert_int_equal(copy.unknown, 2); /* a row that this build does not have is no mistake */
    assert_int_equal(head.capability, 90);
    assert_int_equal(head.multiprocessors, 128);
    assert_int_equal(head.memory, 4917);
    assert_string_equal(head.over, "Another chip");
    assert_int_equal(head.driver, 13000);
    assert_string_equal(head.library, "0.1.0");
    assert_true(head.clock == 1980);
    /* The last line needs no newline, and lines may end as those of DOS do. */
    copy.text[0] = 0;
    const char dos[] = "carat-tuning 1\r\ndevice A chip\r\nclock 1000\r\nreduce reduce_f32 65536 4 2.000";
    assert_int_equal(tuning_read("file", dos, strlen(dos), copy_line, &copy, &head), CARAT_OK);
    assert_string_equal(copy.text, "reduce reduce_f32 65536 4 2.000\n");
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } files[] = {
        {"", "file, line 1: a tuning table begins with 'carat-tuning 1'"},
        {"carat-tuning 2\n", "line 1: a tuning table begins with"},
        {"carat-tuning 1\n", "the file ends without the lines 'device' and 'clock'"},
        {"carat-tuning 1\ndevice\n", "line 2: 'device ' is no line"},
        {"carat-tuning 1\nclock fast\n", "line 2: 'clock fast' is no line"},
        {"carat-tuning 1\nclock -1\n", "line 2: 'clock -1' is no line"},
        {"carat-tuning 1\nmemory -1\n", "line 2: 'memory -1' is no line"},
        {"carat-tuning 1\nmemory 4.9e3\n", "line 2: 'memory 4.9e3' is no line"},
        {"carat-tuning 1\ncapability 99999999999\n", "line 2: 'capability 99999999999' is no line"},
        {"carat-tuning 1\ndevice A chip\nproduct " ROW " NN 1 1 1 1.0\n", "line 3: a time before the lines"},
        {HEAD "guess 1\n", "line 4: 'guess 1' is no line"},
        {HEAD "device Another chip\n",
         "line 4: a table is of one device, but this is the second line 'device'"},
        {HEAD "\nproduct " ROW " NN 1 1 1\n", "line 5: a product has 7 words, but this line has 6"},
        {HEAD "product " ROW " NN 1 1 1 1.0 1 1 1\n", "line 4: a product has 7 words, but this line has 10"},
        {HEAD "product pack_2 NN 1 1 1 1.0\n", "line 4: pack_2 is no row for a product"},
        {HEAD "reduce " ROW " 1 1 1.0\n", "line 4: " ROW " is no row for a reduce"},
        {HEAD "product " ROW " NX 1 1 1 1.0\n", "'NX' is neither NN, NT, TN nor TT"},
        {HEAD "pack pack_2 bent 1 1 1.0\n", "'bent' is neither straight nor turned"},
        {HEAD "product " ROW " NN 0 1 1 1.0\n", "'0' is no size"},
        {HEAD "product " ROW " NN 1 -1 1 1.0\n", "'-1' is no size"},
        {HEAD "product " ROW " NN 1 1 99999999999999999999 1.0\n", "'99999999999999999999' is no size"},
        {HEAD "product " ROW " NN 1 1 1x 1.0\n", "'1x' is no size"},
        {HEAD "product " ROW " NN 1 1 1 nan\n", "'nan' is no time"},
        {HEAD "product " ROW " NN 1 1 1 0\n", "'0' is no time"},
        {HEAD "product " ROW " NN 1 1 1 1e999\n", "'1e999' is no time"},
        {HEAD "way " ROW " -- 1 1.0\n", "line 4: a way before any line 'shape'"},
        {HEAD "shape f32 NN 1 1\n", "line 4: a shape has 6 or 7 words, but this line has 5"},
        {HEAD "shape f32 NN 1 1 1 1 1\n", "line 4: a shape has 6 or 7 words, but this line has 8"},
        {HEAD "shape f31 NN 1 1 1\n", "'f31' is no type"},
        {HEAD "shape f32-slow NN 1 1 1\n", "'f32-slow' is no type"},
        {HEAD "shape f32 NX 1 1 1\n", "'NX' is neither NN, NT, TN nor TT"},
        {HEAD "shape f32 NN 1 2147483648 1\n", "'2147483648' is no size of a shape"},
        {HEAD "shape f32 NN 1 1 1 0\n", "'0' is no size of a shape"},
        {SHAPE "way " ROW " -- 1\n", "line 5: a way has 5 words, but this line has 4"},
        {SHAPE "way pack_2 -- 1 1.0\n", "line 5: pack_2 is no row for a product"},
        {SHAPE "way " ROW " - 1 1.0\n", "'-' is no letter for each of A and B"},
        {SHAPE "way " ROW " -- all 1.0\n", "'all' is neither a number of parts up to 256 nor 'shared'"},
        {SHAPE "way " ROW " -- 257 1.0\n", "'257' is neither a number of parts up to 256"},
        {SHAPE "way " ROW " -- 1 fast\n", "'fast' is no time"},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct tuning_table *table;
        assert_no_table(tuning_parse(&chip, "file", files[i].text, strlen(files[i].text), &table),
                        files[i].words);
        assert_null(table);
    }
    char text[1000] = HEAD;
    struct tuning_table *table;
    size_t length = strlen(text);
    memset(text + length, 'x', 400);
    assert_no_table(tuning_parse(&chip, "file", text, length + 400, &table), "line 4: no line of text");
    assert_no_table(tuning_parse(&chip, "file", HEAD "a\0b\n", sizeof(HEAD) + 3, &table),
                    "line 4: no line of");
}

static carat_status count_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    int *counts = context;
    assert_true(head->device[0] && head->clock > 0);
    counts[line->kernel != NULL]++;
    return CARAT_OK;
}

/* The tables that the library ships: times of rows that there are, but for a few that are gone by now. */
static void shipped_tables_are_right(void **state)
{
    (void)state;
    glob_t tables;
    assert_int_equal(glob(TUNING "/*.txt", 0, NULL, &tables), 0);
    for (size_t i = 0; i < tables.gl_pathc; i++) {
        int counts[2] = {0, 0};
        struct tuning_head head;
        char *text;
        size_t length;
        assert_int_equal(tuning_load(tables.gl_pathv[i], &text, &length), CARAT_OK);
        assert_int_equal(tuning_read(tables.gl_pathv[i], text, length, count_line, counts, &head), CARAT_OK);
        assert_true(counts[1] > 10 * counts[0]);
        free(text);
    }
    globfree(&tables);
}

/* A product of one of the files by which a table is judged. */
struct judge {
    carat_type type;
    bool trans_a;
    bool trans_b;
    int64_t sizes[3];
};

struct judges {
    struct judge list[256];
    int count;
    struct tuning_line last;
    int shapes;
};

static void read_judges(struct judges *judges, const char *path)
{
    FILE *file = fopen(path, "r");
    char line[256];
    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        char type[8];
        char layout[3];
        struct judge judge;
        if (line[0] == '#' || line[0] == '\n') {
            continue;
        }
        assert_int_equal(sscanf(line, "%7s %2s %" SCNd64 " %" SCNd64 " %" SCNd64, type, layout,
                                &judge.sizes[0], &judge.sizes[1], &judge.sizes[2]),
                         5);
        carat_accuracy accuracy; /* not compared: in none may it have been timed */
        assert_true(dtype_read(type, &judge.type, &accuracy));
        judge.trans_a = layout[0] == 'T';
        judge.trans_b = layout[1] == 'T';
        assert_true(judges->count < (int)(sizeof(judges->list) / sizeof(judges->list[0])));
        judges->list[judges->count++] = judge;
    }
    fclose(file);
}

static carat_status look_for_judges(void *context, const struct tuning_head *head,
                                    const struct tuning_line *line)
{
    struct judges *judges = context;
    (void)head;
    if (!line->whole || line->batch != 1 || tuning_same_shape(line, &judges->last)) {
        return CARAT_OK;
    }
    judges->last = *line;
    judges->shapes++;
    for (int i = 0; i < judges->count; i++) {
        const struct judge *judge = &judges->list[i];
        assert_false(line->type == judge->type && line->trans_a == judge->trans_a &&
                     line->trans_b == judge->trans_b &&
                     memcmp(line->sizes, judge->sizes, sizeof(line->sizes)) == 0);
    }
    return CARAT_OK;
}

/* What a table is judged by it does not know: no product of these files has been timed for it. */
static void no_table_knows_its_judges(void **state)
{
    (void)state;
    static struct judges judges;
    read_judges(&judges, SHAPES "/layers.txt");
    read_judges(&judges, SHAPES "/across.txt");
    glob_t tables;
    assert_int_equal(glob(TUNING "/*.txt", 0, NULL, &tables), 0);
    for (size_t i = 0; i < tables.gl_pathc; i++) {
        struct tuning_head head;
        char *text;
        size_t length;
        assert_int_equal(tuning_load(tables.gl_pathv[i], &text, &length), CARAT_OK);
        assert_int_equal(tuning_read(tables.gl_pathv[i], text, length, look_for_judges, &judges, &head),
                         CARAT_OK);
        free(text);
    }
    assert_true(judges.count > 120 && judges.shapes > 10000);
    globfree(&tables);
}

/* What the library says of a row near a place drawn at random. */
static double random_factor(const struct tuning_table *table, const struct kernel *kernel, unsigned draw)
{
    struct way_place place = {
        .at = {(float)(draw % 13), (float)(draw / 13 % 13), (float)(draw / 169 % 13), 0},
        .packs = {'-', '-'},
        .traits = draw % WAY_TRAITS};
    struct ways_near near;
    ways_look_up(tuning_ways(table), kernel, &place, &near);
    struct tuning_point point = {{(double)(draw % 40) / 4 - 5, (double)(draw % 31) / 4, 0}};
    return ways_factor(&near, 1 + (int)(draw % 9), false) *
           tuning_factor(table, kernel, (int)(draw % TUNING_VARIANTS), point, NULL);
}

static const struct device_traits h200 = {.kind = CARAT_DEVICE_CUDA,
                                          .compute_capability = 90,
                                          .multiprocessors = 132,
                                          .shared_bytes = 232448,
                                          .name = "NVIDIA H200"};

/* What the build learned is what this program learns, of a table by itself and of one that adds to another. */
static void shipped_images_are_of_the_tables(void **state)
{
    (void)state;
    static const struct {
        const char *path;
        const char *device;
        const char *over;
        int memory; /* as in the head */
    } cases[] = {{TUNING "/nvidia-h200.txt", "NVIDIA H200", NULL, 0},
                 {TUNING "/nvidia-h100-80gb-hbm3.txt", "NVIDIA H100 80GB HBM3", "NVIDIA H200", 3352}};
    unsetenv("CARAT_TUNING");
    for (int c = 0; c < 2; c++) {
        struct device_traits traits = h200;
        struct tuning_table *shipped;
        struct tuning_table *learned;
        char *text;
        size_t length;
        traits.name = cases[c].device;
        traits.memory_promised = memory_share_of(cases[c].memory, 1980, traits.multiprocessors);
        assert_int_equal(tuning_open(&traits, &shipped), CARAT_OK);
        assert_int_equal(tuning_load(cases[c].path, &text, &length), CARAT_OK);
        assert_int_equal(tuning_parse(&traits, cases[c].path, text, length, &learned), CARAT_OK);
        free(text);
        assert_true(shipped && learned);
        /* Trees take the build's time: who reads a text has those of the table to which it adds, or none. */
        assert_true(tuning_trees(shipped) && !tuning_trees(learned) == !cases[c].over);
        int differing = 0; /* from 1, so that there is something to say at all */
        for (unsigned i = 0; i < 20000; i++) {
            const struct kernel *kernel = &carat_catalog[i * 7919U % (unsigned)carat_catalog_count];
            if (kernel->operation == OPERATION_GEMM) {
                double factor = random_factor(shipped, kernel, i * 104729U);
                assert_true(fabs(random_factor(learned, kernel, i * 104729U) / factor - 1) < 1e-5);
                differing += fabs(factor - 1) > 1e-3;
            }
        }
        assert_true(differing > 5000);
        const struct tuning_table *both[] = {shipped, learned};
        for (int i = 0; i < 2; i++) {
            const char *relative = tuning_relative(both[i]);
            assert_true(cases[c].over ? relative && strcmp(relative, cases[c].over) == 0 : !relative);
            assert_int_equal(tuning_adds(both[i]), cases[c].over != NULL);
        }
        tuning_close(learned);
        tuning_close(shipped);
    }
}

/* The best way of a column-major TN product of bf16, and the plan. */
static struct candidate best_of(const struct device_traits *traits, int64_t m, int64_t n, int64_t k,
                                struct plan *plan)
{
    carat_gemm_problem described = carat_gemm_describe(CARAT_BF16, m, n, k);
    struct problem problem;
    struct candidate best;
    described.order = CARAT_COLUMN_MAJOR;
    described.op_a = CARAT_TRANSPOSE;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    assert_true(plan_best(traits, &problem, &best));
    assert_int_equal(plan_choose(traits, &problem, plan), CARAT_OK);
    return best;
}

/* The same on a device that plans by the nearest table of the library. */
static struct candidate best_on(const struct device_traits *device, int64_t m, int64_t n, int64_t k,
                                struct plan *plan)
{
    struct device_traits traits = *device;
    struct tuning_table *table;
    unsetenv("CARAT_TUNING");
    assert_int_equal(tuning_open(&traits, &table), CARAT_OK);
    tuning_apply(table, &traits);
    struct candidate best = best_of(&traits, m, n, k, plan);
    tuning_close(table);
    return best;
}

/* A device that nobody has measured goes by the times of the nearest one of its compute capability that somebody has. */
static void devices_go_by_their_relatives(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int capability;
        int multiprocessors;
        bool related;
        bool timed; /* what was timed of the very problem is taken at its word there */
    } devices[] = {
        {"NVIDIA H200", 90, 132, true, true},    {"Another Hopper", 90, 132, true, true},
        {"NVIDIA H200", 90, 131, true, false},   {"A smaller Hopper", 90, 114, true, false},
        {"A small Hopper", 90, 78, true, false}, {"NVIDIA H200 MIG 3g.71gb", 90, 60, false, false},
        {"NVIDIA B200", 100, 132, false, false}, {"NVIDIA A100-SXM4-80GB", 80, 108, false, false},
    };
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        struct device_traits device = h200;
        struct plan plan;
        device.name = devices[i].name;
        device.compute_capability = devices[i].capability;
        device.multiprocessors = devices[i].multiprocessors;
        struct candidate best = best_on(&device, 4096, 4096, 4096, &plan);
        bool own = strcmp(device.name, h200.name) == 0 && device.multiprocessors == h200.multiprocessors;
        assert_int_equal(best.corrected, devices[i].related);
        assert_int_equal(best.timed, devices[i].timed);
        assert_int_equal(strstr(plan.explanation, " by measured times") != NULL, own);
        assert_int_equal(strstr(plan.explanation, " by times of the NVIDIA H200") != NULL,
                         devices[i].related && !own);
    }
}

/*
 * By a relative's times, and by none: what is read once and multiplied by one column takes as long as memory does, in the same way;
 * and a square as long as the unit.
 */
static void memory_is_as_quick_as_its_driver_says(void **state)
{
    (void)state;
    const double clock = 1980;
    struct plan plan;
    assert_true(memory_share_of(0, clock, 132) == 0 && memory_share_of(4917, 0, 132) == 0 &&
                memory_share_of(4917, clock, 0) == 0);
    assert_true(fabs(memory_share_of(4917, clock, 132) - 1) < 0.001);
    for (int by_model = 0; by_model <= 1; by_model++) {
        static const double gigabytes[] = {4917, 4300, 2 * 4917};
        const double ratios[] = {1, 4917.0 / 4300, 0.5};
        double columns[3];
        double squares[3];
        const struct kernel *rows[3];
        for (int i = 0; i < 3; i++) {
            struct device_traits traits = h200;
            traits.name = "A relative";
            traits.compute_capability = by_model ? 100 : 90;
            traits.memory_promised = memory_share_of(gigabytes[i], clock, traits.multiprocessors);
            struct candidate best = best_on(&traits, 16384, 1, 16384, &plan);
            columns[i] = best.cycles;
            rows[i] = best.kernel;
            squares[i] = best_on(&traits, 8192, 8192, 8192, &plan).cycles;
            assert_true(fabs(columns[i] / columns[0] / ratios[i] - 1) < 0.1);
            assert_true(fabs(squares[i] / squares[0] - 1) < 0.05);
        }
        assert_ptr_equal(rows[1], rows[0]);
    }
    /* The table's own device is foreseen by its own times, whatever its driver says. */
    struct device_traits odd = h200;
    odd.memory_promised = 2;
    assert_true(best_on(&odd, 16384, 1, 16384, &plan).cycles ==
                best_on(&h200, 16384, 1, 16384, &plan).cycles);
}

static void keep_cheapest(void *context, const struct candidate *way)
{
    struct candidate *cheapest = context;
    if (!cheapest->kernel || way->cycles < cheapest->cycles) {
        *cheapest = *way;
    }
}

/* What the search passes over unlooked at would not have been taken, whatever the memory: shown, all ways are looked at. */
static void no_better_way_is_passed_over(void **state)
{
    (void)state;
    static const double memory_shares[] = {0, 0.17, 0.68, 1.4, 3};
    static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_BF16, CARAT_S8};
    struct random random = {500};
    unsetenv("CARAT_TUNING");
    for (int i = 0; i < 400; i++) {
        struct device_traits traits = h200;
        struct tuning_table *table;
        struct problem problem;
        struct candidate best;
        struct candidate cheapest = {.kernel = NULL};
        int64_t sizes[3];
        traits.name = "A relative";
        traits.multiprocessors = 114;
        traits.memory_promised = memory_shares[i % 5];
        assert_int_equal(tuning_open(&traits, &table), CARAT_OK);
        tuning_apply(table, &traits);
        for (int side = 0; side < 3; side++) {
            sizes[side] = random_between(&random, 1, (int64_t)1 << random_between(&random, 0, 14));
        }
        carat_gemm_problem described = carat_gemm_describe(types[i % 4], sizes[0], sizes[1], sizes[2]);
        described.op_a = random_one_in(&random, 2) ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
        assert_int_equal(problem_check(&described, &problem), CARAT_OK);
        assert_true(plan_best(&traits, &problem, &best));
        plan_visit(&traits, &problem, keep_cheapest, &cheapest);
        assert_true(best.cycles == cheapest.cycles && best.kernel == cheapest.kernel);
        tuning_close(table);
    }
}

/* ---- Tables that add to others ---- */

#define OVER_HEAD "carat-tuning 1\ndevice %s\nover %s\nmultiprocessors 132\nclock 1980\n"
#define OWN_SHAPE "shape bf16 TN 3000 300 5000\n"

/* How far off a time is kept: near what was foreseen, and many times that or a fraction of it (see the samples of ways.c). */
static const double KEPT_NEAR = 0.0022;
static const double KEPT = 0.013;

/* A table of a device's own that adds to the library's; the device plans by it from then on. */
static struct tuning_table *add_to_library(struct device_traits *device, const char *over, const char *lines)
{
    char text[2000];
    struct tuning_table *table;
    snprintf(text, sizeof(text), OVER_HEAD "%s", device->name, over, lines);
    if (tuning_parse(device, "file", text, strlen(text), &table) != CARAT_OK) {
        fail_msg("%s", carat_last_message());
    }
    assert_non_null(table);
    tuning_apply(table, device);
    return table;
}

/*
 * What is timed here is taken at its word, and of all else is known what the library knows; on whatever device, and also where the
 * library's table itself adds to another.
 */
static void own_times_come_first(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int multiprocessors;
        int memory;
        const char *over;
    } devices[] = {{"NVIDIA H200", 132, 4917, "NVIDIA H200"},
                   {"Another Hopper", 132, 4300, "NVIDIA H200"},
                   {"A smaller Hopper", 114, 4500, "NVIDIA H200"},
                   {"A quicker Hopper", 100, 5000, "NVIDIA H200"},
                   {"NVIDIA H100 80GB HBM3", 132, 3352, "NVIDIA H100 80GB HBM3"}};
    static const char lines[] =
        OWN_SHAPE "way wgmma_bf16_tn_64x16 -- 1 60.0\nway wgmma_bf16_tn_128x16 -- 1 57.0\n"
                  "way wgmma_bf16_tn_128x64 -- 1 22.0\nway thin_bf16_32x16 -- 1 120.0\n"
                  "way wgmma_bf16_tn_64x64 -- shared 42.0\n";
    unsetenv("CARAT_TUNING");
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
        struct device_traits device = h200;
        struct plan plan;
        struct plan alone;
        bool relative = strcmp(devices[i].name, h200.name) != 0;
        device.name = devices[i].name;
        device.multiprocessors = devices[i].multiprocessors;
        device.memory_promised = memory_share_of(devices[i].memory, 1980, device.multiprocessors);
        struct device_traits library = device;
        struct tuning_table *shipped;
        bool has_layers = strcmp(devices[i].over, h200.name) != 0;
        struct tuning_table *table = add_to_library(&device, devices[i].over, lines);
        assert_int_equal(tuning_open_shipped(&library, NULL, &shipped), CARAT_OK);
        tuning_apply(shipped, &library);
        assert_string_equal(tuning_device(table), devices[i].over);
        assert_true(tuning_adds(table) && tuning_adds(shipped) == has_layers);
        assert_true(device.memory_share == library.memory_share);
        assert_int_equal(tuning_relative(table) != NULL, relative);

        struct candidate best = best_of(&device, 3000, 300, 5000, &plan);
        assert_string_equal(best.kernel->name, "wgmma_bf16_tn_128x64");
        assert_true(best.timed && fabs(best.cycles / (22.0 * 1980) - 1) < KEPT_NEAR);
        assert_non_null(strstr(plan.explanation, " by measured times"));
        assert_int_equal(strstr(plan.explanation, " by measured times and those of the NVIDIA H200") != NULL,
                         relative);

        /* Far from that shape nothing has changed. */
        struct candidate far = best_of(&device, 4096, 4096, 4096, &plan);
        struct candidate before = best_of(&library, 4096, 4096, 4096, &alone);
        assert_ptr_equal(far.kernel, before.kernel);
        assert_int_equal(far.timed, before.timed);
        assert_true(fabs(far.cycles / before.cycles - 1) < 1e-4);
        tuning_close(table);
        tuning_close(shipped);
    }
}

/* A way that the library was told the time of takes the time that was measured here. */
static void own_times_replace_the_librarys(void **state)
{
    (void)state;
    struct device_traits relative = h200;
    struct plan plan;
    char lines[200];
    unsetenv("CARAT_TUNING");
    relative.name = "Another Hopper";
    struct tuning_table *table = add_to_library(&relative, h200.name, "");
    struct candidate before = best_of(&relative, 4096, 4096, 4096, &plan);
    assert_true(before.timed);
    tuning_close(table);
    relative.memory_share = 0;
    snprintf(lines, sizeof(lines), "shape bf16 TN 4096 4096 4096\nway %s -- %s 30.0\n", before.kernel->name,
             before.stream_tiles > 0 ? "shared" : "1");
    table = add_to_library(&relative, h200.name, lines);
    struct candidate after = best_of(&relative, 4096, 4096, 4096, &plan);
    assert_ptr_equal(after.kernel, before.kernel);
    assert_true(after.timed && fabs(after.cycles / (30.0 * 1980) - 1) < KEPT);
    tuning_close(table);
}

/* The best of the ways that were not timed, by what is foreseen. */
static void note_guess(void *context, const struct candidate *way)
{
    struct candidate *best = context;
    if (!way->timed && (!best->kernel || way->cycles < best->cycles)) {
        *best = *way;
    }
}

/* Adds times to the library's of five ways of that shape, the best of which takes so many cycles: what is chosen, and the best guess. */
static struct candidate choice_beside(double cycles, struct candidate *guess)
{
    struct device_traits device = h200;
    struct problem problem;
    struct plan plan;
    char lines[400];
    double time = cycles / 1980;
    snprintf(lines, sizeof(lines),
             OWN_SHAPE "way wgmma_bf16_tn_128x64 -- 1 %.3f\nway wgmma_bf16_tn_64x16 -- 1 %.3f\n"
                       "way wgmma_bf16_tn_128x16 -- 1 %.3f\nway thin_bf16_32x16 -- 1 %.3f\n"
                       "way wgmma_bf16_tn_64x64 -- shared %.3f\n",
             time, 4 * time, 4 * time, 8 * time, 2 * time);
    unsetenv("CARAT_TUNING");
    struct tuning_table *table = add_to_library(&device, h200.name, lines);
    struct candidate choice = best_of(&device, 3000, 300, 5000, &plan);
    problem = plan.problem;
    *guess = (struct candidate){.kernel = NULL};
    plan_visit(&device, &problem, note_guess, guess);
    tuning_close(table);
    return choice;
}

/* Where ways of the very problem were timed, one that was not is chosen if it is foreseen to be the best by some more. */
static void guesses_are_doubted(void **state)
{
    (void)state;
    struct candidate guess;
    struct candidate again;
    struct candidate choice = choice_beside(1000000, &guess);
    assert_true(!choice.timed && choice.kernel == guess.kernel);
    choice = choice_beside(1.02 * guess.cycles, &again);
    assert_true(again.kernel == guess.kernel && fabs(again.cycles / guess.cycles - 1) < 0.01);
    assert_true(choice.timed && choice.cycles > again.cycles);
    choice = choice_beside(1.1 * guess.cycles, &again);
    assert_true(again.kernel == guess.kernel && fabs(again.cycles / guess.cycles - 1) < 0.01);
    assert_true(!choice.timed && choice.kernel == guess.kernel);
}

static void tables_add_to_what_is_there(void **state)
{
    (void)state;
    static const char grid[] = "product simt_f32_32x32 NN 64 64 64 1000.0\n";
    struct tuning_table *table;
    struct device_traits device = h200;
    struct tuning_point point = {{0, 2, 0}};
    char text[300];
    unsetenv("CARAT_TUNING");
    /* The grids of rows that the library has times of are the library's. */
    struct tuning_table *shipped;
    assert_int_equal(tuning_open_shipped(&h200, NULL, &shipped), CARAT_OK);
    table = add_to_library(&device, h200.name, grid);
    const struct kernel *row = NULL;
    for (int i = 0; i < carat_catalog_count; i++) {
        row = strcmp(carat_catalog[i].name, ROW) == 0 ? &carat_catalog[i] : row;
    }
    assert_true(tuning_knows(shipped, row) && tuning_knows(table, row));
    assert_true(tuning_factor(table, row, 1, point, NULL) == tuning_factor(shipped, row, 1, point, NULL));
    tuning_close(shipped);
    tuning_close(table);
    /* There has to be such a table, of such a device. */
    snprintf(text, sizeof(text), "carat-tuning 1\ndevice NVIDIA H200\nover NVIDIA V100\nclock 1980\n%s",
             grid);
    assert_no_table(
        tuning_parse(&h200, "file", text, strlen(text), &table),
        "the table adds to that of NVIDIA V100, but the library has none for a device like this one");
    assert_null(table);
    device = h200;
    device.compute_capability = 80;
    snprintf(text, sizeof(text), OVER_HEAD, "NVIDIA H200", "NVIDIA H200");
    assert_no_table(tuning_parse(&device, "file", text, strlen(text), &table), "adds to that of NVIDIA H200");
    /* Of another device than this it says nothing, and is not asked what it adds to. */
    snprintf(text, sizeof(text), "carat-tuning 1\ndevice Other\nover NVIDIA V100\nclock 1980\n%s", grid);
    assert_int_equal(tuning_parse(&h200, "file", text, strlen(text), &table), CARAT_OK);
    assert_null(table);
}

/* ---- Factors ---- */

/* Appends a line whose time is so many times what the model foresees; the line's place on the grid. */
static struct tuning_point add_line(char *text, size_t size, struct tuning_line line, double factor,
                                    int *variant)
{
    struct tuning_point point;
    double cycles;
    assert_true(plan_predict(&chip, &line, &cycles, variant, &point));
    line.microseconds = factor * cycles / 1000;
    size_t length = strlen(text);
    tuning_line_text(&line, text + length, size - length);
    return point;
}

static struct tuning_table *parse(const char *text)
{
    struct tuning_table *table;
    if (tuning_parse(&chip, "file", text, strlen(text), &table) != CARAT_OK) {
        fail_msg("%s", carat_last_message());
    }
    return table;
}

static void factors_lie_between_measurements(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find(ROW);
    assert_non_null(row);
    const int64_t n = (int64_t)row->tile_n * 16;
    const int64_t m = (int64_t)row->tile_m * 8; /* 128 blocks on 128 multiprocessors */
    struct tuning_line line = {.operation = OPERATION_GEMM, .kernel = row, .trans_a = true};
    char text[1000] = HEAD;
    int variant;
    /* Nearest to the same point of the grid as the next one, but less near. */
    memcpy(line.sizes, (int64_t[]){m, n / 4 * 3, row->tile_k * 4}, sizeof(line.sizes));
    assert_true(add_line(text, sizeof(text), line, 100, &variant).at[0] < -0.4);
    memcpy(line.sizes, (int64_t[]){m, n, row->tile_k * 4}, sizeof(line.sizes));
    struct tuning_point first = add_line(text, sizeof(text), line, 2, &variant);
    memcpy(line.sizes, (int64_t[]){m, n, row->tile_k * 16}, sizeof(line.sizes));
    struct tuning_point second = add_line(text, sizeof(text), line, 8, &variant);
    memcpy(line.sizes, (int64_t[]){m, 2 * n, row->tile_k * 16}, sizeof(line.sizes));
    struct tuning_point third = add_line(text, sizeof(text), line, 4, &variant);
    assert_true(first.at[0] == 0 && first.at[1] == 2 && first.at[2] == 0);
    memcpy(line.sizes, (int64_t[]){m, n / 4 * 3, row->tile_k * 16}, sizeof(line.sizes));
    add_line(text, sizeof(text), line, 100, &variant);
    assert_true(second.at[1] == 4 && third.at[0] == 1);

    struct tuning_table *table = parse(text);
    assert_non_null(table);
    bool known;
    const struct {
        double at[3];
        double factor;
    } expected[] = {
        {{0, 2, 0}, 2},          {{0, 4, 0}, 8},       {{1, 4, 0}, 4},          {{0, 3, 0}, 4},
        {{0.5, 4, 0}, sqrt(32)}, {{1, 3, 0}, sqrt(8)}, /* at 1 and 2 nothing was measured, so it is as at 0 and 2 */
        {{0, 0, 0}, 2},          {{0, 40, 0}, 8},      {{-9, 2, 0}, 2},         {{9, 4, 0}, 4},
        {{0, 2, 3}, 2},          {{0, 2, -9}, 2},      {{0, 3.5, 1}, sqrt(32)},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        struct tuning_point point;
        memcpy(point.at, expected[i].at, sizeof(point.at));
        double factor = tuning_factor(table, row, variant, point, &known);
        assert_true(known);
        if (fabs(factor / expected[i].factor - 1) > 1e-3) {
            fail_msg("the factor at %g %g %g is %g, but should be %g", point.at[0], point.at[1], point.at[2],
                     factor, expected[i].factor);
        }
    }
    assert_true(tuning_factor(table, row, variant ^ 4, first, &known) == 1);
    assert_false(known);
    assert_true(tuning_factor(table, catalog_find("simt_f32_64x64"), variant, first, &known) == 1);
    assert_false(known);
    tuning_close(table);
}

/* Times that nothing takes give factors that still can be counted with; and a line may stand there often. */
static void absurd_times_are_bounded(void **state)
{
    (void)state;
    enum { OFTEN = 40000 };
    static const char line[] = "reduce reduce_f32 65536 4 10.000\n";
    const struct kernel *reduce = catalog_find("reduce_f32");
    const struct tuning_point point = {{16, 2}};
    char text[300];
    for (int large = 0; large <= 1; large++) {
        snprintf(text, sizeof(text),
                 "carat-tuning 1\ndevice A chip\nclock %s\nreduce reduce_f32 65536 4 %s\n",
                 large ? "999999999999999" : "0.000000000001", large ? "999999999999999" : "0.000000000001");
        struct tuning_table *table = parse(text);
        double factor = tuning_factor(table, reduce, 0, point, NULL);
        assert_true(large ? factor > 0.99e6 && factor < 1.01e6 : factor < 1.01e-6 && factor > 0.99e-6);
        tuning_close(table);
    }
    snprintf(text, sizeof(text), HEAD "%s", line);
    struct tuning_table *once = parse(text);
    char *long_text = malloc(sizeof(HEAD) + OFTEN * (sizeof(line) - 1));
    assert_non_null(long_text);
    char *end = stpcpy(long_text, HEAD);
    for (int i = 0; i < OFTEN; i++) {
        end = stpcpy(end, line);
    }
    struct tuning_table *often = parse(long_text);
    double ratio = tuning_factor(often, reduce, 0, point, NULL) / tuning_factor(once, reduce, 0, point, NULL);
    assert_true(fabs(ratio - 1) < 1e-2); /* sums of floats */
    free(long_text);
    tuning_close(once);
    tuning_close(often);
}

/* ---- Choices ---- */

static struct problem checked(carat_type type, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem described = carat_gemm_describe(type, m, n, k);
    struct problem problem;
    described.order = CARAT_COLUMN_MAJOR;
    assert_int_equal(problem_check(&described, &problem), CARAT_OK);
    return problem;
}

static const struct kernel *step_of(const struct plan *plan, enum step_kind kind)
{
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kind == kind) {
            return plan->steps[i].kernel;
        }
    }
    return NULL;
}

/* Of the ways to do what a plan's row does, in as many parts and whole tiles, that of the least cycles whose row could stand in. */
struct stand_ins {
    const struct plan *plan;
    struct candidate best;
    int count;
};

static void note_stand_in(void *context, const struct candidate *way)
{
    struct stand_ins *seen = context;
    const struct plan *plan = seen->plan;
    if (kernel_stands_in(way->kernel, step_of(plan, STEP_MULTIPLY)) && way->parts == plan->parts &&
        way->stream_tiles == 0 && way->bare == plan_has(plan, STEP_REDUCE) && way->packs_a == plan->packs_a &&
        way->packs_b == plan->packs_b && way->product.trans_a == plan->product.trans_a &&
        way->product.trans_b == plan->product.trans_b) {
        seen->best = seen->count == 0 || way->cycles < seen->best.cycles ? *way : seen->best;
        seen->count++;
    }
}

/* With a table, where most rows are looked at no longer than they can be the best. */
static void the_quickest_row_stands_in(void **state)
{
    (void)state;
    static const int64_t shapes[][3] = {{1664, 1664, 1664}, {2304, 2304, 2304}, {2560, 2560, 2560},
                                        {3328, 3328, 3328}, {3840, 3840, 3840}, {5000, 5000, 5000},
                                        {768, 120, 7168},   {2048, 400, 16384}, {5120, 200, 5120}};
    struct device_traits traits = h200;
    struct tuning_table *table;
    int whole = 0;
    int in_parts = 0;
    unsetenv("CARAT_TUNING");
    assert_int_equal(tuning_open(&traits, &table), CARAT_OK);
    traits.tuning = table;
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct plan plan;
        best_of(&traits, shapes[i][0], shapes[i][1], shapes[i][2], &plan);
        struct stand_ins seen = {.plan = &plan};
        if (plan.stand_in) {
            plan_visit(&traits, &plan.problem, note_stand_in, &seen);
            assert_true(seen.count > 1);
            assert_string_equal(plan.stand_in->name, seen.best.kernel->name);
            whole += plan.parts == 1;
            in_parts += plan.parts > 1;
        }
    }
    assert_true(whole > 1 && in_parts > 0);
    tuning_close(table);
}

/* The plan with a table. */
static struct plan plan_with(const char *text, const struct problem *problem)
{
    struct device_traits traits = chip;
    struct tuning_table *table = parse(text);
    struct plan plan;
    assert_non_null(table);
    traits.tuning = table;
    assert_int_equal(plan_choose(&traits, problem, &plan), CARAT_OK);
    tuning_close(table);
    return plan;
}

static void a_slow_row_is_not_chosen(void **state)
{
    (void)state;
    struct problem problem = checked(CARAT_F32, 1024, 1024, 1024);
    struct plan without;
    problem.accuracy = CARAT_ACCURACY_STRICT;
    assert_int_equal(plan_choose(&chip, &problem, &without), CARAT_OK);
    assert_null(strstr(without.explanation, "measured"));
    const struct kernel *row = step_of(&without, STEP_MULTIPLY);
    struct tuning_line line = {.operation = OPERATION_GEMM, .kernel = row, .sizes = {1024, 1024, 1024}};
    char text[1000] = HEAD;
    int variant;
    add_line(text, sizeof(text), line, 50, &variant);
    struct plan with = plan_with(text, &problem);
    assert_ptr_not_equal(step_of(&with, STEP_MULTIPLY), row);

    /* And one that is faster than foreseen is. */
    const struct kernel *other = catalog_find("simt_f32_64x64");
    assert_ptr_not_equal(row, other);
    char fast[1000] = HEAD;
    line.kernel = other;
    add_line(fast, sizeof(fast), line, 0.02, &variant);
    with = plan_with(fast, &problem);
    assert_ptr_equal(step_of(&with, STEP_MULTIPLY), other);
    assert_non_null(strstr(with.explanation, "predicted by measured times"));
    /* In standard accuracy too, where a row that splits would have been. */
    problem.accuracy = CARAT_ACCURACY_STANDARD;
    assert_int_equal(plan_choose(&chip, &problem, &without), CARAT_OK);
    assert_true(step_of(&without, STEP_MULTIPLY)->splits > 0);
    with = plan_with(fast, &problem);
    assert_ptr_equal(step_of(&with, STEP_MULTIPLY), other);
    assert_int_equal(with.step_count, 1);
}

/* Rows that do no product by themselves: lines of theirs, which nobody can have measured, are passed over. */
static void rows_of_several_steps_have_no_times(void **state)
{
    (void)state;
    static const char other[] = HEAD "reduce reduce_f64 65536 4 10.000\n";
    int rows = 0;
    struct problem problem = checked(CARAT_F32, 4096, 4096, 1024);
    struct plan without = plan_with(other, &problem);
    assert_true(plan_has(&without, STEP_SPLIT));
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation != OPERATION_GEMM || (row->planes == 0 && !row->rescues)) {
            continue;
        }
        struct tuning_line line = {.operation = OPERATION_GEMM,
                                   .kernel = row,
                                   .trans_a = row->layout == LAYOUT_TN || row->layout == LAYOUT_TT,
                                   .trans_b = row->layout == LAYOUT_NT || row->layout == LAYOUT_TT,
                                   .sizes = {1024, 1024, 1024},
                                   .microseconds = 0.001};
        struct tuning_point point;
        double cycles;
        int variant;
        assert_false(plan_predict(&chip, &line, &cycles, &variant, &point));
        char text[1000];
        int length = snprintf(text, sizeof(text), "%s", other);
        tuning_line_text(&line, text + length, sizeof(text) - (size_t)length);
        struct plan with = plan_with(text, &problem);
        assert_string_equal(with.explanation, without.explanation);
        rows++;
    }
    assert_true(rows > 1);
}

struct shared_way {
    const struct kernel *row;
    double cycles;
};

static void take_shared(void *context, const struct candidate *way)
{
    struct shared_way *shared = context;
    if (way->kernel == shared->row && way->stream_tiles > 0 && !way->pack) {
        shared->cycles = way->cycles;
    }
}

/* Cycles of a way whose clusters share tiles, with a table. */
static double shared_cycles(const char *text, const struct kernel *row, const struct problem *problem)
{
    struct device_traits traits = chip;
    struct tuning_table *table = parse(text);
    struct shared_way shared = {.row = row};
    traits.tuning = table;
    plan_visit(&traits, problem, take_shared, &shared);
    assert_true(shared.cycles > 0);
    tuning_close(table);
    return shared.cycles;
}

/*
 * Where clusters share tiles all are busy: the time is of the row's whole waves, whatever fewer blocks take, and
 * the hand-over is not corrected.
 */
static void shared_tiles_run_as_whole_waves_do(void **state)
{
    (void)state;
    const struct kernel *row = catalog_find("wgmma_bf16_tn_256x128");
    assert_true(row && row->stream);
    struct problem problem = checked(CARAT_BF16, 256 * 12, 128 * 8, 4096); /* 96 tiles on 128 */
    problem.trans_a = true;
    problem.lda = 4096;
    struct tuning_line line = {.operation = OPERATION_GEMM, .kernel = row, .trans_a = true};
    double cycles[3];
    for (int i = 0; i < 3; i++) {
        char text[1000] = HEAD;
        int variant;
        memcpy(line.sizes, (int64_t[]){256 * 16, 128 * 8, 4096}, sizeof(line.sizes));
        add_line(text, sizeof(text), line, i == 0 ? 1 : 3, &variant);
        memcpy(line.sizes, (int64_t[]){256 * 8, 128 * 8, 4096}, sizeof(line.sizes));
        add_line(text, sizeof(text), line, i == 2 ? 100 : 1, &variant);
        cycles[i] = shared_cycles(text, row, &problem);
    }
    double corrected = (cycles[1] - cycles[0]) / 2;
    double handed = cycles[0] - corrected;
    assert_true(corrected > 0 && handed > 1000 && handed < corrected / 2);
    assert_true(fabs(cycles[2] / cycles[1] - 1) < 1e-6);
}

static void slow_packs_and_reduces_are_avoided(void **state)
{
    (void)state;
    struct problem odd = checked(CARAT_BF16, 1001, 1001, 1001);
    struct plan plan;
    char text[1000] = HEAD;
    int variant;
    assert_int_equal(plan_choose(&chip, &odd, &plan), CARAT_OK);
    assert_true(plan_has(&plan, STEP_PACK));
    struct tuning_line line = {.operation = OPERATION_PACK, .kernel = step_of(&plan, STEP_PACK)};
    memcpy(line.sizes, (int64_t[]){1024, 1024, 0}, sizeof(line.sizes));
    add_line(text, sizeof(text), line, 1000, &variant);
    line.turned = true;
    add_line(text, sizeof(text), line, 1000, &variant);
    plan = plan_with(text, &odd);
    assert_false(plan_has(&plan, STEP_PACK));

    struct problem deep = checked(CARAT_F32, 64, 64, 65536);
    char slow[1000] = HEAD;
    assert_int_equal(plan_choose(&chip, &deep, &plan), CARAT_OK);
    assert_true(plan.parts > 1);
    line = (struct tuning_line){.operation = OPERATION_REDUCE, .kernel = step_of(&plan, STEP_REDUCE)};
    memcpy(line.sizes, (int64_t[]){4096, 16, 0}, sizeof(line.sizes));
    add_line(slow, sizeof(slow), line, 100000, &variant);
    assert_int_equal(plan_with(slow, &deep).parts, 1);
}

static void tables_of_others_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "carat-tuning 1\ndevice Another chip\nclock 1000\nproduct " ROW " NN 64 64 64 1000.0\n",
        HEAD,
        HEAD "product gone NN 64 64 64 1000.0\n",
        HEAD "product f32_nn_128x128 TN 64 64 64 1000.0\n", /* no layout of that row */
        SHAPE,
        SHAPE "way gone -- 1 1.0\n",
        SHAPE "way " ROW " -- 2 1.0\n",      /* nothing to share k of 8 in */
        SHAPE "way " ROW " -- shared 1.0\n", /* no such row */
        SHAPE "way " ROW " x- 1 1.0\n",
        SHAPE "way " ROW " ht 1 1.0\n",
        SHAPE "way " ROW " ss 1 1.0\n",
        SHAPE "way simt_f64_32x32 -- 1 1.0\n",
        "carat-tuning 1\ndevice Another chip\nclock 1000\nshape f32 NN 8 8 8\nway " ROW " -- 1 1.0\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_null(parse(texts[i]));
    }
}

/* ---- Whole ways ---- */

/* The lines of a way that takes so many times what a table without it foresees. */
static void add_way(char *text, size_t size, const struct problem *p, const struct candidate *way,
                    double factor)
{
    struct tuning_line line = {
        .operation = OPERATION_GEMM,
        .kernel = way->kernel,
        .trans_a = p->trans_a,
        .trans_b = p->trans_b,
        .sizes = {p->m, p->n, p->k},
        .microseconds = factor * way->cycles / 1000,
        .whole = true,
        .type = p->type_a,
        .accuracy = p->accuracy,
        .batch = p->batch,
        .parts = way->parts,
        .shares = way->stream_tiles > 0,
    };
    plan_marks(p, way, line.packs);
    size_t length = strlen(text);
    length += (size_t)tuning_shape_text(&line, text + length, size - length);
    tuning_line_text(&line, text + length, size - length);
}

/* A table, in which launches count, that knows nothing of products. */
static const char no_product[] = HEAD "reduce reduce_f64 65536 4 10.000\n";

static struct candidate best_with(const char *text, const struct problem *problem)
{
    struct device_traits traits = chip;
    struct tuning_table *table = parse(text);
    struct candidate best;
    traits.tuning = table;
    assert_true(plan_best(&traits, problem, &best));
    tuning_close(table);
    return best;
}

static bool same_way(const struct candidate *x, const struct candidate *y)
{
    return x->kernel == y->kernel && x->parts == y->parts && x->pack == y->pack &&
           x->stream_tiles == y->stream_tiles;
}

/* A way that took longer than foreseen is not taken, on problems near by neither, but far away it still is. */
static void ways_that_were_slow_are_not_chosen(void **state)
{
    (void)state;
    static const int64_t sides[][3] = {{1024, 1024, 1024}, {3000, 77, 500}, {100, 2000, 3000}};
    for (size_t i = 0; i < sizeof(sides) / sizeof(sides[0]); i++) {
        struct problem here = checked(CARAT_BF16, sides[i][0], sides[i][1], sides[i][2]);
        struct problem near = checked(CARAT_BF16, sides[i][0] + 8, sides[i][1] + 8, sides[i][2]);
        struct problem far = checked(CARAT_BF16, 2, 3, 1);
        struct candidate before = best_with(no_product, &here);
        struct candidate near_before = best_with(no_product, &near);
        struct candidate far_before = best_with(no_product, &far);
        char text[3000];
        memcpy(text, no_product, sizeof(no_product));
        for (int often = 0; often < 20; often++) {
            add_way(text, sizeof(text), &here, &before, 2.5);
        }
        struct candidate after = best_with(text, &here);
        struct candidate again = best_with(text, &here);
        assert_false(same_way(&before, &after));
        assert_true(after.cycles >= before.cycles && after.cycles < 2.5 * before.cycles);
        assert_true(same_way(&after, &again) && after.cycles == again.cycles);
        struct candidate near_after = best_with(text, &near);
        assert_true(!same_way(&near_before, &before) || !same_way(&near_after, &before));
        struct candidate far_after = best_with(text, &far);
        assert_true(same_way(&far_before, &far_after) && far_before.cycles == far_after.cycles);
    }
}

/* And one that was faster is. */
static void ways_that_were_fast_are_chosen(void **state)
{
    (void)state;
    struct problem p = checked(CARAT_F32, 1000, 1000, 100);
    p.accuracy = CARAT_ACCURACY_STRICT;
    struct candidate ways[64];
    struct device_traits traits = chip;
    struct tuning_table *table = parse(no_product);
    traits.tuning = table;
    int count = plan_candidates(&traits, &p, ways);
    tuning_close(table);
    assert_true(count > 1 && count <= 64);
    char text[3000];
    memcpy(text, no_product, sizeof(no_product));
    for (int often = 0; often < 20; often++) {
        add_way(text, sizeof(text), &p, &ways[1], 0.9 * ways[0].cycles / ways[1].cycles);
    }
    assert_true(ways[0].cycles > 0.5 * ways[1].cycles);
    struct candidate after = best_with(text, &p);
    assert_true(same_way(&after, &ways[1]));
    assert_true(fabs(after.cycles / ways[0].cycles - 0.9) < 0.03);
    struct plan plan = plan_with(text, &p);
    assert_non_null(strstr(plan.explanation, "predicted by measured times"));
}

struct named_ways {
    const struct problem *problem;
    struct way_finder finder;
    int count;
    int shared;
    int marked[128]; /* by their first letter */
};

/* A line that names a way finds it again. */
static void find_again(void *context, const struct candidate *way)
{
    struct named_ways *named = context;
    struct candidate found;
    struct tuning_line line = {.operation = OPERATION_GEMM,
                               .kernel = way->kernel,
                               .parts = way->parts,
                               .shares = way->stream_tiles > 0};
    plan_marks(named->problem, way, line.packs);
    const struct way_place *place = way_find(&named->finder, &line, &found);
    if (!place) {
        fail_msg("%s %.2s with %d parts is not found again", way->kernel->name, line.packs, way->parts);
    }
    assert_true(same_way(&found, way) && found.cycles == way->cycles && found.blocks == way->blocks);
    assert_int_equal(found.packed_bytes, way->packed_bytes);
    assert_int_equal(found.partial_bytes, way->partial_bytes);
    assert_memory_equal(place->packs, line.packs, sizeof(place->packs));
    named->count++;
    named->shared += line.shares;
    named->marked[(int)line.packs[0]]++;
}

static void every_way_has_a_name(void **state)
{
    (void)state;
    static const carat_type types[] = {CARAT_F32, CARAT_F64, CARAT_BF16, CARAT_S8, CARAT_E4M3};
    struct named_ways named = {.count = 0};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        for (int layout = 0; layout < 4; layout++) {
            for (int accuracy = 0; accuracy <= CARAT_ACCURACY_CLOSE; accuracy++) {
                carat_gemm_problem described = carat_gemm_describe(types[i], 1111, 900 + layout, 1500 + i);
                struct problem problem;
                described.order = CARAT_COLUMN_MAJOR;
                described.op_a = (carat_op)(layout / 2);
                described.op_b = (carat_op)(layout % 2);
                described.accuracy = (carat_accuracy)accuracy;
                assert_int_equal(problem_check(&described, &problem), CARAT_OK);
                named.problem = &problem;
                way_finder_begin(&named.finder, &chip, &problem);
                plan_visit(&chip, &problem, find_again, &named);
            }
        }
    }
    assert_true(named.count > 1000 && named.shared > 10);
    for (const char *mark = "-pthds"; *mark; mark++) {
        assert_true(named.marked[(int)*mark] > 0);
    }
}

/* ---- Contexts ---- */

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void contexts_take_the_table_of_the_environment(void **state)
{
    (void)state;
    static const char product[] = "clock 1000\nproduct " ROW " NN 64 64 64 0.001\n";
    char path[] = "/tmp/carat-tuning-XXXXXX";
    char text[300];
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    carat_context *context;
    carat_plan *plan;
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, 64, 64, 64);
    problem.order = CARAT_COLUMN_MAJOR;
    standin_reset();
    for (int own = 0; own <= 1; own++) {
        snprintf(text, sizeof(text), "carat-tuning 1\ndevice %s\n%s", own ? "Stand-in 0" : "Other", product);
        write_file(path, text);
        setenv("CARAT_TUNING", path, 1);
        assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), CARAT_OK);
        assert_int_equal(carat_plan_create(context, &problem, &plan), CARAT_OK);
        assert_int_equal(strstr(carat_plan_explain(plan), "measured") != NULL, own);
        assert_true(!own || strncmp(carat_plan_explain(plan), ROW ":", sizeof(ROW)) == 0);
        carat_plan_destroy(plan);
        carat_context_destroy(context);
    }
    /* A line of what is no problem is passed over, and that is no failure: the message stays that of the last one. */
    assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, NULL), CARAT_INVALID_ARGUMENT);
    snprintf(text, sizeof(text), "%s", carat_last_message());
    char lines[400];
    snprintf(lines, sizeof(lines),
             "carat-tuning 1\ndevice Stand-in 0\nclock 1000\nproduct " ROW
             " NN 4611686018427387904 64 64 5.0\n");
    write_file(path, lines);
    assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), CARAT_OK);
    assert_string_equal(carat_last_message(), text);
    carat_context_destroy(context);
    write_file(path, "carat-tuning 1\nnothing\n");
    assert_no_table(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "line 2: 'nothing ' is no line");
    assert_non_null(strstr(carat_last_message(), path));
    assert_null(context);
    assert_no_table(carat_context_create(CARAT_DEVICE_AUTO, 0, &context), "line 2");
    /* The CPU has no table. */
    assert_int_equal(carat_context_create(CARAT_DEVICE_CPU, 0, &context), CARAT_OK);
    carat_context_destroy(context);
    unlink(path);
    assert_no_table(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "No such file");
    setenv("CARAT_TUNING", "/dev/zero", 1);
    assert_no_table(carat_context_create(CARAT_DEVICE_CUDA, 0, &context),
                    "/dev/zero: it has 268435456 bytes or more");
    setenv("CARAT_TUNING", "/", 1);
    assert_no_table(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "/: it cannot be read");
    setenv("CARAT_TUNING", "", 1);
    assert_int_equal(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), CARAT_OK);
    carat_context_destroy(context);
    unsetenv("CARAT_TUNING");
    assert_int_equal(standin_leaks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(shipped_tables_are_right),
        cmocka_unit_test(no_table_knows_its_judges),
        cmocka_unit_test(shipped_images_are_of_the_tables),
        cmocka_unit_test(the_quickest_row_stands_in),
        cmocka_unit_test(devices_go_by_their_relatives),
        cmocka_unit_test(memory_is_as_quick_as_its_driver_says),
        cmocka_unit_test(no_better_way_is_passed_over),
        cmocka_unit_test(own_times_come_first),
        cmocka_unit_test(own_times_replace_the_librarys),
        cmocka_unit_test(guesses_are_doubted),
        cmocka_unit_test(tables_add_to_what_is_there),
        cmocka_unit_test(factors_lie_between_measurements),
        cmocka_unit_test(absurd_times_are_bounded),
        cmocka_unit_test(a_slow_row_is_not_chosen),
        cmocka_unit_test(rows_of_several_steps_have_no_times),
        cmocka_unit_test(shared_tiles_run_as_whole_waves_do),
        cmocka_unit_test(slow_packs_and_reduces_are_avoided),
        cmocka_unit_test(tables_of_others_change_nothing),
        cmocka_unit_test(ways_that_were_slow_are_not_chosen),
        cmocka_unit_test(ways_that_were_fast_are_chosen),
        cmocka_unit_test(every_way_has_a_name),
        cmocka_unit_test(contexts_take_the_table_of_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
