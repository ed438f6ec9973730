/* verify.c - carat verify: how large errors are, over families of input, of every kernel by itself. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "families.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "status.h"

enum { MOST_DEPTHS = 8 };

struct verify {
    struct field field;
    FILE *table;
    json_t *results;
    int64_t size;
    int64_t deepest;
    int checked;
    int wrong;
    int skipped;
};

/* What one contender reached on one family (or depth): the worst over layouts and shapes. */
struct mark {
    bool ran;
    bool right;
    double error;
    char why[300];
};

/* Column-major, packed. */
static carat_gemm_problem packed_problem(carat_type type, int ops, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem problem = carat_gemm_describe(type, m, n, k);
    problem.op_a = ops & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = ops & 1 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.lda = ops & 2 ? k : m;
    problem.ldb = ops & 1 ? n : k;
    problem.ldc = problem.ldd = m;
    return problem;
}

/* How many half units in the last place of |A||B| a sum may be off. */
static double allowed_ulps(enum input_family family, const struct contender *contender, int64_t k)
{
    bool kahan = strstr(contender->name, "kahan") != NULL;
    if (family == INPUT_INTEGERS) {
        return 0;
    }
    if (kahan) {
        return 2; /* one unit in the last place, whatever k is */
    }
    /* On numbers of mean 0 errors cancel; on others they add up, to the bound of the arithmetic at the worst. */
    return family == INPUT_NORMAL || family == INPUT_UNIFORM ? 32 : (double)k + 4;
}

/* Inputs of a family in the arena's place and on the host, with their reference. */
struct input {
    struct workload workload;
    void *a;
    void *b;
    struct references references;
};

static carat_status input_open(struct stage *stage, const carat_gemm_problem *problem,
                               enum input_family family, struct input *input)
{
    memset(input, 0, sizeof(*input));
    size_t size = carat_type_size(problem->type_a);
    int64_t a_columns = problem->op_a == CARAT_TRANSPOSE ? problem->m : problem->k;
    int64_t b_columns = problem->op_b == CARAT_TRANSPOSE ? problem->k : problem->n;
    int64_t a_count = problem->lda * a_columns;
    int64_t b_count = problem->ldb * b_columns;
    CARAT_TRY(workload_open(&stage->arena, problem, &input->workload));
    input->a = malloc((size_t)a_count * size);
    input->b = malloc((size_t)b_count * size);
    if (!input->a || !input->b) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld elements", (long long)(a_count + b_count));
    }
    CARAT_TRY(input_fill(problem->type_a, family, 1, problem->lda, a_columns, input->a));
    CARAT_TRY(input_fill(problem->type_a, family, 2, problem->ldb, b_columns, input->b));
    carat_context *context = stage->place.context;
    void *stream = stage->place.stream;
    CARAT_TRY(carat_copy(context, (void *)workload_a(&input->workload, 0), input->a, (size_t)a_count * size,
                         stream));
    CARAT_TRY(carat_copy(context, (void *)workload_b(&input->workload, 0), input->b, (size_t)b_count * size,
                         stream));
    struct source a = {problem->type_a, input->a, 0, a_count};
    struct source b = {problem->type_a, input->b, 0, b_count};
    input->references.count = 1;
    return reference_compute(problem, 0, &a, &b, (int64_t)1 << 40, &input->references.items[0]);
}

static void input_close(struct input *input)
{
    references_free(&input->references);
    free(input->a);
    free(input->b);
}

/* One contender on one input, added to its mark. Fails only where going on makes no sense. */
static carat_status try_contender(struct contender *contender, struct input *input, enum input_family family,
                                  struct mark *mark)
{
    struct verdict verdict = {0};
    input->references.ulps = allowed_ulps(family, contender, input->workload.problem.k);
    carat_status status = contender->functions->prepare(contender, &input->workload);
    if (status == CARAT_OK) {
        status = workload_poison(&input->workload);
    }
    if (status == CARAT_OK) {
        status = contender->functions->run(contender, &input->workload, 0);
    }
    if (status == CARAT_OK) {
        status = workload_check(&input->workload, &input->references, &verdict);
    }
    contender->functions->unprepare(contender);
    if (status == CARAT_UNSUPPORTED) { /* a layout or alignment that the row does not do */
        if (!mark->ran) {
            snprintf(mark->why, sizeof(mark->why), "%.290s", carat_last_message());
        }
        return CARAT_OK;
    }
    CARAT_TRY(status);
    mark->right = (mark->ran ? mark->right : true) && verdict.right;
    mark->ran = true;
    mark->error = larger_or_nan(mark->error, verdict.error);
    if (!verdict.right) {
        snprintf(mark->why, sizeof(mark->why), "%s", verdict.why);
    }
    return CARAT_OK;
}

static void report_mark(struct verify *verify, const struct contender *contender, carat_type type,
                        const char *what, int64_t k, const struct mark *mark)
{
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s}", "kind", "verify", "contender", contender->name,
                             "dtype", carat_type_name(type), "family", what, "k", (json_int_t)k, "outcome",
                             !mark->ran    ? "skipped"
                             : mark->right ? "right"
                                           : "wrong");
    json_object_set_new(line, "error",
                        mark->ran && isfinite(mark->error) ? json_real(mark->error) : json_null());
    if (!mark->ran || !mark->right) {
        json_object_set_new(line, "reason", json_string(mark->why));
    }
    json_array_append_new(verify->results, line);
    verify->checked += mark->ran;
    verify->wrong += mark->ran && !mark->right;
    verify->skipped += !mark->ran;
    if (!mark->ran) {
        fprintf(verify->table, " %10s", "-");
    } else {
        fprintf(verify->table, " %9.2e%s", mark->error, mark->right ? " " : "!");
    }
}

/* Prints why, below a contender's line, where it was wrong. */
static void explain_wrong(struct verify *verify, const struct mark *marks, int count)
{
    for (int i = 0; i < count; i++) {
        if (marks[i].ran && !marks[i].right) {
            fprintf(verify->table, "  ! %s\n", marks[i].why);
            return;
        }
    }
}

static int row_type(const struct field *field, int i)
{
    const struct kernel *row = catalog_find(field->contenders[i]->name);
    return row ? row->element : 0;
}

/* Every contender of a type over the families, all layouts, a shape of whole tiles and an odd one. */
static carat_status verify_type(struct verify *verify, carat_type type)
{
    static const int odd[3] = {-61, -125, 3};
    struct mark marks[MOST_CONTENDERS][INPUT_FAMILIES] = {{{0}}};
    struct field *field = &verify->field;
    bool integer = type == CARAT_S32 || type == CARAT_S8;
    int families = integer ? 1 : INPUT_FAMILIES;
    int64_t size = verify->size;
    for (int family = 0; family < families; family++) {
        for (int ops = 0; ops < 4; ops++) {
            for (int shape = 0; shape < 2; shape++) {
                int64_t m = shape && size > 61 ? size + odd[0] : size;
                int64_t n = shape && size > 125 ? size + odd[1] : size;
                int64_t k = shape ? size + odd[2] : size;
                progress("verify: %s %s", carat_type_name(type),
                         input_family_name((enum input_family)family));
                carat_gemm_problem problem = packed_problem(type, ops, m, n, k);
                struct input input;
                carat_status status =
                    input_open(&field->stages[0], &problem, (enum input_family)family, &input);
                for (int i = 0; i < field->count && status == CARAT_OK; i++) {
                    int of_row = row_type(field, i);
                    if (of_row == 0 || of_row == (int)type) {
                        status = try_contender(field->contenders[i], &input, (enum input_family)family,
                                               &marks[i][family]);
                    }
                }
                input_close(&input);
                CARAT_TRY(status);
            }
        }
    }
    progress_end();
    fprintf(verify->table, "\n%-5s m, n, k about %-12lld", carat_type_name(type), (long long)size);
    for (int family = 0; family < families; family++) {
        fprintf(verify->table, " %10s", integer ? "all" : input_family_name((enum input_family)family));
    }
    fputc('\n', verify->table);
    for (int i = 0; i < field->count; i++) {
        int of_row = row_type(field, i);
        if (of_row == 0 || of_row == (int)type) {
            fprintf(verify->table, "%-34.34s", field->contenders[i]->name);
            for (int family = 0; family < families; family++) {
                report_mark(verify, field->contenders[i], type,
                            integer ? "all" : input_family_name((enum input_family)family), size,
                            &marks[i][family]);
            }
            fputc('\n', verify->table);
            explain_wrong(verify, marks[i], families);
        }
    }
    return CARAT_OK;
}

/* The f32 contenders on sums of positive numbers that get longer and longer. */
static carat_status verify_depth(struct verify *verify)
{
    struct mark marks[MOST_CONTENDERS][MOST_DEPTHS] = {{{0}}};
    int64_t depths[MOST_DEPTHS];
    int count = 0;
    struct field *field = &verify->field;
    for (int64_t k = 16; k <= verify->deepest && count < MOST_DEPTHS; k *= 4) {
        depths[count++] = k;
    }
    for (int depth = 0; depth < count; depth++) {
        progress("verify: k = %lld", (long long)depths[depth]);
        carat_gemm_problem problem = packed_problem(CARAT_F32, 0, 32, 32, depths[depth]);
        struct input input;
        carat_status status = input_open(&field->stages[0], &problem, INPUT_POSITIVE, &input);
        for (int i = 0; i < field->count && status == CARAT_OK; i++) {
            int of_row = row_type(field, i);
            if (of_row == 0 || of_row == CARAT_F32) {
                status = try_contender(field->contenders[i], &input, INPUT_POSITIVE, &marks[i][depth]);
            }
        }
        input_close(&input);
        CARAT_TRY(status);
    }
    progress_end();
    fprintf(verify->table, "\n%-34s", "f32, 32 x 32, positive input, k =");
    for (int depth = 0; depth < count; depth++) {
        fprintf(verify->table, " %10lld", (long long)depths[depth]);
    }
    fputc('\n', verify->table);
    for (int i = 0; i < field->count; i++) {
        int of_row = row_type(field, i);
        if (of_row == 0 || of_row == CARAT_F32) {
            fprintf(verify->table, "%-34.34s", field->contenders[i]->name);
            for (int depth = 0; depth < count; depth++) {
                report_mark(verify, field->contenders[i], CARAT_F32, "positive", depths[depth],
                            &marks[i][depth]);
            }
            fputc('\n', verify->table);
            explain_wrong(verify, marks[i], count);
        }
    }
    return CARAT_OK;
}

static carat_status open_contenders(struct verify *verify, const char *only)
{
    struct field *field = &verify->field;
    CARAT_TRY(field_add_carat(field));
    for (int i = 0; i < carat_catalog_count && field->stages[0].place.cuda; i++) {
        const struct kernel *row = &carat_catalog[i];
        bool product = row->operation == OPERATION_GEMM || row->operation == OPERATION_LADDER;
        if (product && (!only || strcmp(only, row->name) == 0)) {
            CARAT_TRY(field_add_row(field, row));
        }
    }
    return CARAT_OK;
}

int command_verify(int argc, char **argv)
{
    const char *device = "auto";
    const char *type_text = NULL;
    const char *json_path = NULL;
    const char *kernel = NULL;
    int64_t size = 192;
    int64_t deepest = 262144;
    const struct option options[] = {
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "what is verified: auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &type_text,
         .value = "TYPE",
         .help = "only this element type"},
        {.name = "--kernel",
         .kind = OPTION_TEXT,
         .target = &kernel,
         .value = "NAME",
         .help = "only this row of the catalogue, beside the library's choice"},
        {.name = "--size",
         .kind = OPTION_COUNT,
         .target = &size,
         .value = "N",
         .help = "m, n and k are about this (192)"},
        {.name = "--deepest",
         .kind = OPTION_COUNT,
         .target = &deepest,
         .value = "K",
         .help = "the longest sums of positive numbers (262144); 0 for none"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write the errors as JSON (-: to standard output, with the table on standard error)"},
    };
    const struct usage usage = {
        .synopsis = "carat verify [options]",
        .description =
            "Multiplies matrices of several families, in all layouts, with the library's choice and (on a\n"
            "CUDA device) with every kernel by itself, and prints the largest max |D - ref| / (|A||B|),\n"
            "entry by entry, against a reference in higher precision.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "Families: normal, uniform in [-1, 1), positive (uniform in [0, 1)), wide (each entry times its\n"
            "own power of two), scaled (each column), integers (whose products must be exact). An error is\n"
            "marked ! where it is over what the arithmetic allows; the exit code is then 1. Integer types "
            "are\n"
            "compared modulo 2^32.",
    };
    int exit_code;
    if (options_parse(&usage, argc, argv, NULL, 0, &exit_code) < 0) {
        return exit_code;
    }
    carat_type only = (carat_type)0;
    carat_device_kind kind;
    int index;
    if (type_text && !parse_type(type_text, &only)) {
        return usage_error(argv[0], "'%s' is no element type", type_text);
    }
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    if (kernel && !catalog_find(kernel)) {
        return usage_error(argv[0], "there is no kernel '%s'", kernel);
    }
    if (size < 1 || size > 4096) {
        return usage_error(argv[0], "--size is %lld, but should be from 1 to 4096", (long long)size);
    }
    struct verify verify = {
        .size = size,
        .deepest = deepest,
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
    };
    if (field_open(kind, index, &verify.field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    json_t *document = report_head(&verify.field.stages[0].place, NULL, 0, NULL);
    verify.results = json_array();
    json_object_set_new(document, "results", verify.results);
    fprintf(verify.table, "carat %s on %s\n", carat_version(), verify.field.stages[0].place.info.name);
    carat_status status = open_contenders(&verify, kernel);
    for (int type = CARAT_F32; type <= CARAT_S8 && status == CARAT_OK; type++) {
        if (!only || only == (carat_type)type) {
            status = verify_type(&verify, (carat_type)type);
        }
    }
    if (status == CARAT_OK && deepest >= 16 && (!only || only == CARAT_F32)) {
        status = verify_depth(&verify);
    }
    progress_end();
    exit_code = status == CARAT_OK ? EXIT_OK : command_failed(argv[0], "%s", carat_last_message());
    fprintf(verify.table, "\n%d right, %d wrong, %d skipped (a layout that a kernel does not have)\n",
            verify.checked - verify.wrong, verify.wrong, verify.skipped);
    if (json_path && !report_document(json_path, document)) {
        exit_code = command_failed(argv[0], "cannot write %s", json_path);
    }
    json_decref(document);
    field_close(&verify.field);
    return exit_code == EXIT_OK && verify.wrong > 0 ? EXIT_FAILED : exit_code;
}
