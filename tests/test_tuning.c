/* test_tuning.c - tables of measured times: how they are read, what they make of the model, and when they apply. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "carat/carat.h"
#include "plan.h"
#include "standin.h"
#include "tuning.h"

#define HEAD "carat-tuning 1\ndevice A chip\nclock 1000\n"
#define ROW "simt_f32_32x32"

static const struct device_traits chip = {
    .kind = CARAT_DEVICE_CUDA, .compute_capability = 90, .multiprocessors = 128, .name = "A chip"};

#define assert_refused(call, words)                                                                          \
    do {                                                                                                     \
        assert_int_equal((call), CARAT_INVALID_ARGUMENT);                                                    \
        if (!strstr(carat_last_message(), (words))) {                                                        \
            fail_msg("the message is \"%s\", but should say \"%s\"", carat_last_message(), (words));         \
        }                                                                                                    \
    } while (0)

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
                                "reduce reduce_f32 65536 4 2.000\n";
    const struct tuning_head written = {.device = "A chip",
                                        .capability = 90,
                                        .multiprocessors = 128,
                                        .driver = 13000,
                                        .library = "0.1.0",
                                        .clock = 1980};
    char text[3000];
    int length = tuning_head_text(&written, text, sizeof(text));
    snprintf(text + length, sizeof(text) - (size_t)length, "%s# a comment\n\nproduct gone NN 1 1 1 1.0\n",
             lines);
    struct copy copy = {.unknown = 0};
    struct tuning_head head;
    assert_int_equal(tuning_read("file", text, strlen(text), copy_line, &copy, &head), CARAT_OK);
    assert_string_equal(copy.text, lines);
    assert_int_equal(copy.unknown, 1); /* a row that this build does not have is no mistake */
    assert_int_equal(head.capability, 90);
    assert_int_equal(head.multiprocessors, 128);
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
        {"carat-tuning 1\ncapability 99999999999\n", "line 2: 'capability 99999999999' is no line"},
        {"carat-tuning 1\ndevice A chip\nproduct " ROW " NN 1 1 1 1.0\n", "line 3: a time before the lines"},
        {HEAD "guess 1\n", "line 4: 'guess 1' is no line"},
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
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        struct tuning_table *table;
        assert_refused(tuning_parse(&chip, "file", files[i].text, strlen(files[i].text), &table),
                       files[i].words);
        assert_null(table);
    }
    char text[1000] = HEAD;
    struct tuning_table *table;
    size_t length = strlen(text);
    memset(text + length, 'x', 400);
    assert_refused(tuning_parse(&chip, "file", text, length + 400, &table), "line 4: no line of text");
    assert_refused(tuning_parse(&chip, "file", HEAD "a\0b\n", sizeof(HEAD) + 3, &table),
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
    for (const struct tuning_source *source = carat_tunings; source->name; source++) {
        int counts[2] = {0, 0};
        struct tuning_head head;
        size_t length = (size_t)(source->text_end - source->text);
        assert_int_equal(tuning_read(source->name, source->text, length, count_line, counts, &head),
                         CARAT_OK);
        assert_true(counts[1] > 10 * counts[0]);
    }
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
    assert_int_equal(tuning_parse(&chip, "file", text, strlen(text), &table), CARAT_OK);
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
    /* In standard accuracy too, where a row with planes would have been. */
    problem.accuracy = CARAT_ACCURACY_STANDARD;
    assert_int_equal(plan_choose(&chip, &problem, &without), CARAT_OK);
    assert_true(plan_has(&without, STEP_SPLIT));
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
    struct problem problem = checked(CARAT_F32, 1024, 1024, 1024);
    struct plan without = plan_with(other, &problem);
    assert_true(plan_has(&without, STEP_SPLIT));
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->planes == 0 && !row->rescues) {
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
        "carat-tuning 1\ndevice Another chip\nclock 1000\nproduct " ROW " NN 64 64 64 1000.0\n", HEAD,
        HEAD "product gone NN 64 64 64 1000.0\n",
        HEAD "product f32_nn_128x128 TN 64 64 64 1000.0\n", /* no layout of that row */
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_null(parse(texts[i]));
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
    write_file(path, "carat-tuning 1\nnothing\n");
    assert_refused(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "line 2: 'nothing ' is no line");
    assert_non_null(strstr(carat_last_message(), path));
    assert_null(context);
    assert_refused(carat_context_create(CARAT_DEVICE_AUTO, 0, &context), "line 2");
    /* The CPU has no table. */
    assert_int_equal(carat_context_create(CARAT_DEVICE_CPU, 0, &context), CARAT_OK);
    carat_context_destroy(context);
    unlink(path);
    assert_refused(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "No such file");
    setenv("CARAT_TUNING", "/", 1);
    assert_refused(carat_context_create(CARAT_DEVICE_CUDA, 0, &context), "/: it cannot be read");
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
        cmocka_unit_test(factors_lie_between_measurements),
        cmocka_unit_test(absurd_times_are_bounded),
        cmocka_unit_test(a_slow_row_is_not_chosen),
        cmocka_unit_test(rows_of_several_steps_have_no_times),
        cmocka_unit_test(shared_tiles_run_as_whole_waves_do),
        cmocka_unit_test(slow_packs_and_reduces_are_avoided),
        cmocka_unit_test(tables_of_others_change_nothing),
        cmocka_unit_test(contexts_take_the_table_of_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
