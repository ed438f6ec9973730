/* explain.c - carat explain: how a product will be computed, and what else could have done it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "context.h"
#include "cuda/cuda.h"
#include "dtype.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "rows.h"
#include "shapes.h"
#include "status.h"

/* What a row's layout is called, or what it is for where it turns operands itself. */
static const char *layout_of_row(const struct kernel *row)
{
    static const char *const names[] = {"any", "NN", "NT", "TN", "TT"};
    return names[row->layout];
}

/* Whether a row is for the problem's types, in whatever layout and accuracy. */
static bool row_is_of_type(const struct kernel *row, const struct problem *problem)
{
    /* Sums of planes are f32. */
    int element = row->planes > 0 ? ELEMENT_F32 : row->element;
    int element_b = row->element_b ? row->element_b : element;
    bool widened = row->widened && problem_wants_best(problem) && problem->type_a != CARAT_F64;
    return row->operation == OPERATION_GEMM &&
           (widened || (element == (int)problem->type_a && element_b == (int)problem->type_b));
}

/* Why a row of the problem's type is no candidate. */
static void why_not(struct device *device, const struct kernel *row, const struct problem *problem,
                    const char *layout, char *why, size_t size)
{
    if (cuda_kernel_check(device, row) != CARAT_OK) {
        /* "kernel NAME needs ..": the name stands before it already. */
        const char *message = carat_last_message();
        const char *needs = strstr(message, row->name);
        snprintf(why, size, "it%s", needs ? needs + strlen(row->name) : message);
    } else if (row->accuracy == ACCURACY_FAST && problem->accuracy != CARAT_ACCURACY_FAST) {
        snprintf(why, size, "its sums are those of the fast accuracy, which was not asked for");
    } else if (row->accuracy == ACCURACY_BEST && !problem_wants_best(problem)) {
        snprintf(why, size, "its sums are those of the best accuracy, which was not asked for");
    } else if (row->accuracy != ACCURACY_BEST && problem_wants_best(problem) &&
               !(row->widened && problem->type_a != CARAT_F64)) {
        snprintf(why, size, "its sums are not as accurate as the best, which was asked for");
    } else if (row->rescues) {
        snprintf(why, size, "it only computes what planes cannot hold, behind a product of planes");
    } else if (row->planes + row->splits > 0 && problem->accuracy == CARAT_ACCURACY_STRICT) {
        snprintf(why, size, "its sums are those of the standard accuracy, but strict was asked for");
    } else if (row->splits > 0 && problem->accuracy == CARAT_ACCURACY_FAST) {
        snprintf(why, size, "its sums are those of the standard accuracy, but fast was asked for");
    } else if (row->layout != LAYOUT_ANY && strcmp(layout_of_row(row), layout) != 0) {
        snprintf(why, size, "it is for layout %s", layout_of_row(row));
    } else if (row->splits > 0) {
        snprintf(why, size, "it is for k of 32 and more");
    } else if (row->planes == 2 && problem->accuracy != CARAT_ACCURACY_CLOSE) {
        snprintf(why, size, "its sums are those of the close accuracy, which was not asked for");
    } else if (row->planes > 0) {
        snprintf(why, size, "it is for k of %d and more", row->planes == 2 ? 96 : 32);
    } else if (kernel_shares_nothing(row, problem)) {
        snprintf(why, size, "its tiles are three times as long as the product, or more");
    } else if (kernel_lacks_whole(row) && !kernel_suits_images(row, problem)) {
        snprintf(why, size, "it is for %s%s%s",
                 row->plain == 0    ? "results of bf16"
                 : row->finish == 2 ? "results of its own type"
                                    : "plain products",
                 row->any_d ? "" : " whose m, leading dimensions and strides are multiples of 16 bytes",
                 row->sums ? ", or for parts of a long k" : "");
    } else if (!kernel_multiplies(row, &device->traits, problem)) {
        snprintf(why, size, "leading dimensions, strides or k are no multiples of %d bytes%s", row->alignment,
                 row->ld_limit ? ", or too large" : "");
    } else {
        snprintf(why, size, "a grid or the workspace would be too large");
    }
}

/* "A along k, B as f16": what is done to the caller's operands first. */
static void print_treatment(const struct problem *p, const struct candidate *candidate, char *text,
                            size_t size)
{
    const struct problem *to = &candidate->product;
    bool packs[2] = {candidate->packs_a, candidate->packs_b};
    bool turns[2] = {to->trans_a != p->trans_a, to->trans_b != p->trans_b};
    const char *converted = to->planes == 2           ? " as f16 planes"
                            : to->planes > 0          ? " as bf16 planes"
                            : to->type_a == p->type_a ? ""
                            : to->type_a == CARAT_F64 ? " as f64"
                                                      : " as f16";
    snprintf(text, size, "-");
    size_t length = 0;
    for (int i = 0; i < 2; i++) {
        if (candidate->pack && packs[i] && length < size) {
            length +=
                (size_t)snprintf(text + length, size - length, "%s%c%s%s", length ? ", " : "",
                                 (i == 1) != p->swapped ? 'B' : 'A', turns[i] ? " along k" : "", converted);
        }
    }
}

/* The blocks that a device holds at a time, over which the blocks of a candidate go in waves. */
static double waves_of(const struct device_traits *traits, const struct candidate *candidate)
{
    int resident = candidate->kernel->min_blocks > 0 ? candidate->kernel->min_blocks : 1;
    return (double)candidate->blocks / ((double)traits->multiprocessors * resident);
}

/* The share of its unit's peak that a candidate is predicted to reach. */
static double share_of_peak(const struct device_traits *traits, const struct problem *p,
                            const struct candidate *candidate)
{
    double products = (double)p->m * (double)p->n * (double)p->k * (double)p->batch;
    return products / (kernel_unit_rate(candidate->kernel) * traits->multiprocessors * candidate->cycles);
}

/* What is known of one row: a line. predicted and measured are microseconds, or 0. */
static void print_candidate(const struct place *place, const struct plan *plan,
                            const struct candidate *candidate, bool chosen, double best_cycles,
                            double measured)
{
    const struct device_traits *traits = &place->device->traits;
    const struct kernel *row = candidate->kernel;
    double megahertz = place->info.core_clock_khz > 0 ? place->info.core_clock_khz / 1e3 : 1e3;
    char tile[32], time[32] = "", treatment[80], sums[64] = "";
    snprintf(tile, sizeof(tile), "%dx%dx%d", row->tile_m, row->tile_n, row->tile_k);
    print_treatment(&plan->problem, candidate, treatment, sizeof(treatment));
    if (measured > 0) {
        snprintf(time, sizeof(time), "%.2f", measured);
    }
    if (candidate->bare) {
        snprintf(sums, sizeof(sums), "%s", candidate->parts > 1 ? ", parts added" : ", sums finished");
    } else if (candidate->stream_tiles > 0) {
        snprintf(sums, sizeof(sums), ", %lld tiles shared",
                 (long long)candidate->stream_tiles * kernel_cluster_blocks(row));
    }
    printf("%-30s %-12s %5d %8lld %7.2f %9.2f %5.0f%% %9s  ", row->name, tile, candidate->parts,
           (long long)candidate->blocks, waves_of(traits, candidate), candidate->cycles / megahertz,
           100 * share_of_peak(traits, &plan->problem, candidate), time);
    if (chosen) {
        printf("chosen");
    } else {
        printf("+%.0f%%", 100 * (candidate->cycles / best_cycles - 1));
    }
    printf("%s%s%s\n", strcmp(treatment, "-") == 0 ? "" : "; packed first: ",
           strcmp(treatment, "-") == 0 ? "" : treatment, sums);
}

static bool is_chosen(const struct plan *plan, const struct kernel *row)
{
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kernel == row) {
            return true;
        }
    }
    return false;
}

static void print_head(const char *what, bool measured)
{
    printf("\n%-30s %-12s %5s %8s %7s %9s %6s %9s\n", what, "tile", "parts", "blocks", "waves", "model us",
           "peak", measured ? "us" : "");
}

/* Whether times are of a table, measured nearby, or of the model alone. */
static void print_grounds(const struct device_traits *traits, const struct candidate *candidates, int count)
{
    int corrected = 0;
    for (int i = 0; i < count; i++) {
        corrected += candidates[i].corrected;
    }
    if (corrected > 0) {
        const char *relative = tuning_relative(traits->tuning);
        bool here = !relative || tuning_adds(traits->tuning);
        printf("%d of %d kernels' times are corrected by a table of times measured on %s%s%s\n", corrected,
               count, here ? "this device" : "the ", here && relative ? " and the " : "",
               relative ? relative : "");
    }
}

/* Every row that can do it in its best way, cheapest first by the model; then those that cannot, and why. */
static void print_candidates(const struct place *place, const struct plan *plan,
                             const struct candidate *candidates, int count, const char *layout,
                             const struct result *results)
{
    print_head("kernel, in its best way", results != NULL);
    for (int i = 0; i < count; i++) {
        /* The first result is of the library's choice. */
        bool timed = results && 1 + i < MOST_CONTENDERS && results[1 + i].outcome == OUTCOME_TIMED;
        double measured = timed ? results[1 + i].time_us : 0;
        print_candidate(place, plan, &candidates[i], is_chosen(plan, candidates[i].kernel),
                        candidates[0].cycles, measured);
    }
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        bool listed = !row_is_of_type(row, &plan->problem);
        for (int at = 0; at < count && !listed; at++) {
            listed = candidates[at].kernel == row;
        }
        if (!listed) {
            char why[200];
            why_not(place->device, row, &plan->problem, layout, why, sizeof(why));
            printf("%-30s %s\n", row->name, why);
        }
    }
    print_grounds(&place->device->traits, candidates, count);
}

/* All ways that the planner looks at. */
struct ways {
    struct candidate *items;
    int64_t count;
    int64_t room;
    bool failed; /* no memory */
};

static void take_way(void *context, const struct candidate *candidate)
{
    struct ways *ways = context;
    if (ways->count == ways->room) {
        int64_t room = ways->room ? 2 * ways->room : 64;
        struct candidate *items = realloc(ways->items, (size_t)room * sizeof(*items));
        if (!items) {
            ways->failed = true;
            return;
        }
        ways->items = items;
        ways->room = room;
    }
    ways->items[ways->count++] = *candidate;
}

/* By cycles, then in the order in which the planner looks at them. */
static int by_cycles(const void *x, const void *y)
{
    const struct candidate *first = x;
    const struct candidate *second = y;
    int rows = (first->kernel > second->kernel) - (first->kernel < second->kernel);
    int cycles = (first->cycles > second->cycles) - (first->cycles < second->cycles);
    int parts = first->parts - second->parts;
    int shared = (first->stream_tiles > 0) - (second->stream_tiles > 0);
    return cycles ? cycles : rows ? rows : parts ? parts : shared;
}

static bool is_plan(const struct plan *plan, const struct candidate *way)
{
    return is_chosen(plan, way->kernel) && way->parts == plan->parts &&
           way->stream_tiles == plan->stream_tiles && way->packs_a == plan->packs_a &&
           way->packs_b == plan->packs_b && way->product.trans_a == plan->product.trans_a &&
           way->product.trans_b == plan->product.trans_b;
}

/* The cheapest ways: rows, packings and parts each by themselves. */
static carat_status explain_ways(const struct place *place, const struct plan *plan, int64_t most)
{
    struct ways ways = {0};
    plan_visit(&place->device->traits, &plan->problem, take_way, &ways);
    if (ways.failed) {
        free(ways.items);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for more than %lld ways", (long long)ways.count);
    }
    qsort(ways.items, (size_t)ways.count, sizeof(*ways.items), by_cycles);
    print_head("way, of any kernel", false);
    for (int64_t i = 0; i < ways.count && i < most; i++) {
        bool chosen = is_plan(plan, &ways.items[i]);
        print_candidate(place, plan, &ways.items[i], chosen, ways.items[0].cycles, 0);
    }
    printf("%lld ways in all\n", (long long)ways.count);
    free(ways.items);
    return CARAT_OK;
}

/* Times the library's choice, then every candidate as it is listed. */
static carat_status measure_rows(struct field *field, const carat_gemm_problem *problem,
                                 const struct candidate *candidates, int count, struct result *results)
{
    CARAT_TRY(field_add_carat(field));
    for (int i = 0; i < count && field->count < MOST_CONTENDERS; i++) {
        CARAT_TRY(
            contender_open_way(&field->stages[0].place, &candidates[i], &field->contenders[field->count]));
        field->count++;
    }
    struct measure_options options = {.seconds = 0.1, .rounds = 10, .check_budget = 1 << 24};
    progress("explain: measuring %d kernels", field->count);
    carat_status status = field_measure(field, problem, &options, results);
    progress_end();
    return status;
}

static carat_status explain_rows(struct field *field, const carat_gemm_problem *problem,
                                 const struct plan *plan, struct candidate *candidates, bool measure)
{
    static struct result results[MOST_CONTENDERS];
    struct place *place = &field->stages[0].place;
    int count = plan_candidates(&place->device->traits, &plan->problem, candidates);
    if (measure) {
        CARAT_TRY(measure_rows(field, problem, candidates, count, results));
    }
    print_candidates(place, plan, candidates, count, layout_name(problem), measure ? results : NULL);
    if (measure) {
        printf("%-30s %56s%9.2f\n", "the plan, as it runs", "", results[0].time_us);
    }
    field_clear(field); /* before the candidates go */
    return CARAT_OK;
}

static carat_status explain(struct field *field, const carat_gemm_problem *problem, bool measure,
                            int64_t ways)
{
    struct place *place = &field->stages[0].place;
    carat_plan *plan = NULL;
    char dtype[32];
    dtype_name(problem, dtype, sizeof(dtype));
    CARAT_TRY(carat_plan_create(place->context, problem, &plan));
    printf("%s %s %lld x %lld x %lld", dtype, layout_name(problem), (long long)problem->m,
           (long long)problem->n, (long long)problem->k);
    if (problem->batch != 1) {
        printf(", batch %lld", (long long)problem->batch);
    }
    printf(" to %s on %s\n%s\nworkspace: %zu bytes\n", carat_type_name(problem->type_cd), place->info.name,
           carat_plan_explain(plan), carat_plan_workspace(plan));
    carat_status status = CARAT_OK;
    if (place->cuda && !problem_is_empty(&plan->plan.problem)) {
        struct candidate *candidates = malloc((size_t)carat_catalog_count * sizeof(*candidates));
        status = candidates ? explain_rows(field, problem, &plan->plan, candidates, measure)
                            : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for the candidates");
        free(candidates);
        if (status == CARAT_OK && ways > 0) {
            status = explain_ways(place, &plan->plan, ways);
        }
    }
    carat_plan_destroy(plan);
    return status;
}

int command_explain(int argc, char **argv)
{
    const char *device = "auto";
    const char *type_text = "f32";
    const char *layout = "NN";
    const char *type_b = NULL;
    const char *type_d = NULL;
    int64_t batch = 1;
    int64_t lda = 0, ldb = 0, ldd = 0;
    int bias = CARAT_BIAS_NONE;
    int activation = CARAT_ACTIVATION_NONE;
    int64_t ways = 0;
    int accuracy = CARAT_ACCURACY_STANDARD;
    bool accuracy_given = false;
    bool measure = false;
    const struct option options[] = {
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &type_text,
         .value = "TYPE",
         .help = "the element type (f32); tf32, e4m3-fast, f32-best and the like ask for an accuracy too"},
        {.name = "--type-b",
         .kind = OPTION_TEXT,
         .target = &type_b,
         .value = "TYPE",
         .help = "of B, where it is the other 8-bit float"},
        {.name = "--type-d",
         .kind = OPTION_TEXT,
         .target = &type_d,
         .value = "TYPE",
         .help = "of C and D (the type's own result)"},
        {.name = "--accuracy",
         .kind = OPTION_CHOICE,
         .target = &accuracy,
         .choices = "standard|strict|fast|best|close",
         .given = &accuracy_given,
         .help = "how exact the sums must be (standard, or what the type says)"},
        {.name = "--bias",
         .kind = OPTION_CHOICE,
         .target = &bias,
         .choices = "none|row|column",
         .help = "with a bias"},
        {.name = "--activation",
         .kind = OPTION_CHOICE,
         .target = &activation,
         .choices = "none|relu|gelu-tanh|gelu-erf|silu",
         .help = "with an activation"},
        {.name = "--layout",
         .kind = OPTION_TEXT,
         .target = &layout,
         .value = "LAYOUT",
         .help = "of op(A) and op(B), column-major: NN, NT, TN or TT (NN)"},
        {.name = "--batch",
         .kind = OPTION_COUNT,
         .target = &batch,
         .value = "N",
         .help = "how many problems (1)"},
        {.name = "--lda",
         .kind = OPTION_COUNT,
         .target = &lda,
         .value = "N",
         .help = "leading dimensions, in elements (tightly packed)"},
        {.name = "--ldb", .kind = OPTION_COUNT, .target = &ldb, .value = "N", .help = "of B"},
        {.name = "--ldd", .kind = OPTION_COUNT, .target = &ldd, .value = "N", .help = "of C and D"},
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--ways",
         .kind = OPTION_COUNT,
         .target = &ways,
         .value = "N",
         .help = "also the N cheapest ways: each packing and number of parts of a kernel is one"},
        {.name = "--measure",
         .kind = OPTION_FLAG,
         .target = &measure,
         .help = "also time every kernel that can do it"},
    };
    const struct usage usage = {
        .synopsis = "carat explain [options] M N K",
        .description =
            "Says how a product would be computed and why. Of every kernel that can do it: its best way, the "
            "time\n"
            "and the share of its unit's peak that the model predicts; of the others why they cannot.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes = "model us: the model's cycles at the device's highest clock; it ranks, and knows nothing of "
                 "power.\n"
                 "Where there is a table of the device (carat tune), it has corrected them.\n"
                 "+12%: the model's time over that of the cheapest.\n\n"
                 "  carat explain --type bf16 --layout TN 4096 16 8192\n"
                 "  carat explain --type e4m3 --type-d e4m3 --bias row --activation silu --lda 1001 1000 "
                 "1000 1000",
    };
    const char *sizes[3];
    int exit_code;
    int count = options_parse(&usage, argc, argv, sizes, 3, &exit_code);
    if (count < 0) {
        return exit_code;
    }
    carat_device_kind kind;
    int index;
    if (count != 3) {
        return usage_error(argv[0], "give M, N and K");
    }
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    bool plain = bias == CARAT_BIAS_NONE && activation == CARAT_ACTIVATION_NONE;
    if (measure && (!plain || lda > 0 || ldb > 0 || ldd > 0)) {
        return usage_error(argv[0], "--measure is for packed products without --bias and --activation");
    }
    char line[200];
    struct shapes shapes = {0};
    snprintf(line, sizeof(line), "%.16s %.16s %.24s %.24s %.24s %lld", type_text, layout, sizes[0], sizes[1],
             sizes[2], (long long)batch);
    if (shapes_read_line("the problem", line, &shapes) != CARAT_OK) {
        return usage_error(argv[0], "%s", carat_last_message());
    }
    if (shapes.count != 1 || !shapes.items[0].type) {
        shapes_free(&shapes);
        return usage_error(argv[0], "'%s' is no element type", type_text);
    }
    carat_gemm_problem problem = shape_problem(&shapes.items[0]);
    shapes_free(&shapes);
    if (accuracy_given && problem.accuracy != CARAT_ACCURACY_STANDARD && (int)problem.accuracy != accuracy) {
        return usage_error(argv[0], "--type %s asks for another accuracy than --accuracy does", type_text);
    }
    if (accuracy_given) {
        problem.accuracy = (carat_accuracy)accuracy;
    }
    if ((type_b && !type_read(type_b, &problem.type_b)) || (type_d && !type_read(type_d, &problem.type_cd))) {
        return usage_error(argv[0], "--type-b or --type-d is no element type");
    }
    problem.bias = (carat_bias)bias;
    problem.activation = (carat_activation)activation;
    problem.type_bias = carat_scalar_type(problem.type_cd);
    problem.lda = lda > 0 ? lda : problem.lda;
    problem.ldb = ldb > 0 ? ldb : problem.ldb;
    problem.ldd = problem.ldc = ldd > 0 ? ldd : problem.ldd;
    struct field field;
    if (field_open(kind, index, &field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    exit_code = EXIT_OK;
    if (explain(&field, &problem, measure, ways) != CARAT_OK) {
        exit_code = command_failed(argv[0], "%s", carat_last_message());
    }
    field_close(&field);
    return exit_code;
}
