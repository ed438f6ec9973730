/* explain.c - carat explain: how a product will be computed, and what else could have done it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "context.h"
#include "cuda/cuda.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "shapes.h"
#include "status.h"

static const char *layout_of_row(const struct kernel *row)
{
    static const char *const names[] = {"any", "NN", "NT", "TN", "TT"};
    return names[row->layout];
}

/* Why a row cannot compute the problem; "" where it can. */
static void why_not(struct device *device, const struct kernel *row, const struct problem *problem,
                    const char *layout, char *why, size_t size)
{
    why[0] = 0;
    if (cuda_kernel_check(device, row) != CARAT_OK) {
        snprintf(why, size, "%s", carat_last_message());
    } else if (row->layout != LAYOUT_ANY && strcmp(layout_of_row(row), layout) != 0) {
        snprintf(why, size, "it is for layout %s", layout_of_row(row));
    } else if (!kernel_multiplies(row, &device->traits, problem)) {
        snprintf(why, size, "leading dimensions, strides or k are no multiples of %d bytes%s", row->alignment,
                 row->ld_limit ? ", or too large" : "");
    }
}

static const char *role_of(const struct plan *plan, const struct kernel *row)
{
    for (int i = 0; i < plan->step_count; i++) {
        if (plan->steps[i].kernel == row) {
            return "chosen";
        }
        if (plan->steps[i].unaligned == row) {
            return "if unaligned";
        }
    }
    return "";
}

/* All rows for the type: what they are, whether they could, and how fast where that was measured. */
static void print_candidates(struct device *device, const struct plan *plan, carat_type type,
                             const char *layout, const struct field *field, const struct result *results)
{
    printf("\n%-28s %-13s %6s %7s  %-12s %s\n", "kernel", "tile", "stages", "layout", results ? "us" : "",
           "");
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation != OPERATION_GEMM || row->element != (int)type) {
            continue;
        }
        char tile[32];
        char why[200];
        char time[32] = "";
        snprintf(tile, sizeof(tile), "%dx%dx%d", row->tile_m, row->tile_n, row->tile_k);
        why_not(device, row, &plan->problem, layout, why, sizeof(why));
        int at = results ? field_find(field, row->name) : -1;
        if (at >= 0 && results[at].outcome == OUTCOME_TIMED) {
            snprintf(time, sizeof(time), "%.2f", results[at].time_us);
        }
        printf("%-28s %-13s %6d %7s  %-12s %s%s\n", row->name, tile, row->stages, layout_of_row(row), time,
               role_of(plan, row), why[0] ? why : "");
    }
}

/* Times the library's choice and every row that can. */
static carat_status measure_rows(struct field *field, const carat_gemm_problem *problem,
                                 struct result *results)
{
    CARAT_TRY(field_add_carat(field));
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row->operation == OPERATION_GEMM && row->element == (int)problem->type_a) {
            CARAT_TRY(field_add_row(field, row));
        }
    }
    struct measure_options options = {.seconds = 0.1, .rounds = 10, .check_budget = 1 << 24};
    progress("explain: measuring %d kernels", field->count);
    carat_status status = field_measure(field, problem, &options, results);
    progress_end();
    return status;
}

static carat_status explain(struct field *field, const carat_gemm_problem *problem, bool measure)
{
    struct place *place = &field->stages[0].place;
    carat_plan *plan = NULL;
    CARAT_TRY(carat_plan_create(place->context, problem, &plan));
    printf("%s %s %lld x %lld x %lld", carat_type_name(problem->type_a), layout_name(problem),
           (long long)problem->m, (long long)problem->n, (long long)problem->k);
    if (problem->batch != 1) {
        printf(", batch %lld", (long long)problem->batch);
    }
    printf(" on %s\n%s\nworkspace: %zu bytes\n", place->info.name, carat_plan_explain(plan),
           carat_plan_workspace(plan));
    carat_status status = CARAT_OK;
    if (place->cuda && !problem_is_empty(&plan->plan.problem)) {
        static struct result results[MOST_CONTENDERS];
        status = measure ? measure_rows(field, problem, results) : CARAT_OK;
        if (status == CARAT_OK) {
            print_candidates(place->device, &plan->plan, problem->type_a, layout_name(problem), field,
                             measure ? results : NULL);
            if (measure) {
                printf("%-28s %-13s %6s %7s  %.2f\n", "the plan, as it runs", "", "", "", results[0].time_us);
            }
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
    int64_t batch = 1;
    bool measure = false;
    const struct option options[] = {
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &type_text,
         .value = "TYPE",
         .help = "the element type (f32)"},
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
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--measure",
         .kind = OPTION_FLAG,
         .target = &measure,
         .help = "also time every kernel that could do it, in one part"},
    };
    const struct usage usage = {
        .synopsis = "carat explain [options] M N K",
        .description =
            "Says how a product would be computed and why, and which other kernels there are for it.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes = "  carat explain --type bf16 --layout TN 4096 16 8192",
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
    struct field field;
    if (field_open(kind, index, &field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    exit_code = EXIT_OK;
    if (explain(&field, &problem, measure) != CARAT_OK) {
        exit_code = command_failed(argv[0], "%s", carat_last_message());
    }
    field_close(&field);
    return exit_code;
}
