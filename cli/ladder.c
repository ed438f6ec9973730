/* ladder.c - carat ladder: every rung from the first kernel one writes to the library's own. */
#include "ladder.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ceiling.h"
#include "commands.h"
#include "context.h"
#include "dtype.h"
#include "field.h"
#include "options.h"
#include "plain.h"
#include "plot.h"
#include "progress.h"
#include "report.h"
#include "status.h"

enum { MOST_SIZES = 32, PLAIN_MOST = 2048 };

/* A time that was measured, or worked out from the largest size at which it was. */
struct estimate {
    double seconds; /* 0: not known */
    bool extrapolated;
    double rate; /* operations a second of the largest size measured */
};

struct ladder {
    struct field field;
    struct ceilings ceilings;
    struct measure_options measure;
    struct rungs rungs;
    carat_type type;
    bool cpu;
    bool transfers;
    double call_limit; /* a kernel foreseen to take longer for one product is left out */
    struct estimate plain;
    struct estimate blas;
    double rates[MOST_CONTENDERS]; /* of each rung or setting at the size before, operations a second */
    double copies_seconds;         /* of A and B in and D out, at the size at hand */
    double host_call_seconds;      /* the library's product from pinned host memory */
    json_t *document;
    json_t *results;
    const char
        *json_path; /* written after every size, so that a run that is stopped leaves something; NULL */
    FILE *table;
    int64_t gpu_wins_from; /* with copies; 0: not known */
    int wrong;
    int skipped;
};

static void update_estimate(struct estimate *estimate, double measured, double operations)
{
    estimate->extrapolated = measured <= 0;
    if (measured > 0) {
        estimate->rate = operations / measured;
    }
    estimate->seconds = estimate->rate > 0 ? operations / estimate->rate : 0;
}

/* The kernel behind a rung: its row, or what the library chooses. NULL where that is not known. */
static const struct kernel *kernel_of(const struct ladder *ladder, const struct rung *rung,
                                      const carat_gemm_problem *problem)
{
    if (rung->row) {
        return rung->row;
    }
    carat_plan *plan = NULL;
    if (carat_plan_create(ladder->field.stages[0].place.context, problem, &plan) != CARAT_OK) {
        return NULL;
    }
    bool prepares = plan_has(&plan->plan, STEP_PACK) || plan_has(&plan->plan, STEP_SPLIT);
    const struct kernel *kernel = plan->plan.steps[prepares].kernel;
    carat_plan_destroy(plan);
    return kernel;
}

/* ---- With copies ---- */

struct transfer {
    struct place *place;
    const struct workload *workload;
    void *host[3]; /* A, B, D */
    size_t bytes[3];
};

static carat_status copy_all(void *context, int i)
{
    (void)i;
    struct transfer *transfer = context;
    carat_context *carat = transfer->place->context;
    void *stream = transfer->place->stream;
    CARAT_TRY(carat_copy(carat, (void *)workload_a(transfer->workload, 0), transfer->host[0],
                         transfer->bytes[0], stream));
    CARAT_TRY(carat_copy(carat, (void *)workload_b(transfer->workload, 0), transfer->host[1],
                         transfer->bytes[1], stream));
    return carat_copy(carat, transfer->host[2], workload_d(transfer->workload, 0), transfer->bytes[2],
                      stream);
}

static carat_status time_host_call(struct ladder *ladder, const struct transfer *transfer)
{
    const union {
        float f32;
        double f64;
        int32_t s32;
    } zero = {0};
    const float one_f32 = 1;
    const double one_f64 = 1;
    const int32_t one_s32 = 1;
    carat_type scalar = carat_scalar_type(ladder->type);
    const void *one = scalar == CARAT_F64   ? (const void *)&one_f64
                      : scalar == CARAT_S32 ? (const void *)&one_s32
                                            : &one_f32;
    carat_run run = {.stream = transfer->place->stream};
    ladder->host_call_seconds = 0;
    for (int i = 0; i < 3; i++) {
        double begin = now_seconds();
        CARAT_TRY(carat_gemm(transfer->place->context, &transfer->workload->problem, one, transfer->host[0],
                             transfer->host[1], &zero, NULL, transfer->host[2], &run));
        double seconds = now_seconds() - begin;
        if (i > 0 && (ladder->host_call_seconds == 0 || seconds < ladder->host_call_seconds)) {
            ladder->host_call_seconds = seconds; /* the first call grows buffers */
        }
    }
    return CARAT_OK;
}

static carat_status measure_transfers(struct ladder *ladder, const carat_gemm_problem *problem)
{
    struct stage *stage = &ladder->field.stages[0];
    struct workload workload;
    CARAT_TRY(workload_open(&stage->arena, problem, &workload));
    size_t input = (size_t)(problem->m * problem->k) * carat_type_size(problem->type_a);
    size_t output = (size_t)(problem->m * problem->n) * carat_type_size(problem->type_cd);
    struct transfer transfer = {
        .place = &stage->place, .workload = &workload, .bytes = {input, input, output}};
    carat_status status = CARAT_OK;
    for (int i = 0; i < 3 && status == CARAT_OK; i++) {
        status =
            carat_allocate(stage->place.context, CARAT_MEMORY_PINNED, transfer.bytes[i], &transfer.host[i]);
    }
    for (int i = 0; i < 2 && status == CARAT_OK; i++) { /* the numbers that the device holds */
        status = carat_copy(stage->place.context, transfer.host[i],
                            i ? workload_b(&workload, 0) : workload_a(&workload, 0), transfer.bytes[i],
                            stage->place.stream);
    }
    double times[5] = {0};
    for (int i = -1; i < 5 && status == CARAT_OK; i++) {
        status = timer_region(&stage->timer, copy_all, &transfer, 1, &times[i < 0 ? 0 : i], NULL);
    }
    if (status == CARAT_OK) {
        ladder->copies_seconds = times[0];
        for (int i = 1; i < 5; i++) {
            ladder->copies_seconds = times[i] < ladder->copies_seconds ? times[i] : ladder->copies_seconds;
        }
        status = time_host_call(ladder, &transfer);
    }
    for (int i = 0; i < 3; i++) {
        carat_release(stage->place.context, transfer.host[i]);
    }
    return status;
}

/* ---- One size ---- */

/* The best time of the rung that a rung builds on; of that one's base where it has none. */
static double base_seconds(const struct ladder *ladder, const struct result *results, int number, int *base)
{
    for (*base = rung_base(number); *base > 0; *base = rung_base(*base)) {
        double best = 0;
        for (int i = 0; i < ladder->rungs.count; i++) {
            double seconds = results[i].time_us / 1e6;
            if (ladder->rungs.items[i].number == *base && seconds > 0 && (best == 0 || seconds < best)) {
                best = seconds;
            }
        }
        if (best > 0) {
            return best;
        }
    }
    return 0;
}

static json_t *speedup_json(const struct estimate *estimate, double seconds)
{
    return seconds > 0 && estimate->seconds > 0 ? json_real(estimate->seconds / seconds) : json_null();
}

/* A column of the table: a number, or - where there is none; ~ says that it is extrapolated. */
static void put_column(FILE *table, int width, int digits, double value, bool extrapolated)
{
    if (value > 0) {
        char text[48];
        snprintf(text, sizeof(text), "%s%.*f", extrapolated ? "~" : "", digits, value);
        fprintf(table, " %*s", width, text);
    } else {
        fprintf(table, " %*s", width, "-");
    }
}

/* What a line of the table says of times and the error; or why there is no time. */
static void put_columns(const struct ladder *ladder, const carat_gemm_problem *problem,
                        const struct result *result, double share, double gain, double cublas)
{
    FILE *table = ladder->table;
    double seconds = result->time_us / 1e6;
    if (seconds <= 0) {
        fprintf(table, "  %s: %s", outcome_name(result->outcome), result->reason);
        return;
    }
    put_column(table, 11, 4, seconds * 1e3, false);
    put_column(table, 9, 1, workload_operations(problem) / seconds * 1e-9, false);
    put_column(table, 7, 1, share * 100, false);
    put_column(table, 6, 2, gain, false);
    put_column(table, 9, 1, ladder->plain.seconds / seconds, ladder->plain.extrapolated);
    put_column(table, 8, 2, ladder->blas.seconds / seconds, ladder->blas.extrapolated);
    put_column(table, 7, 3, cublas / seconds, false);
    fprintf(table, " %9.1e", result->error);
    put_column(table, 9, 2, result->first_call_us / 1e3, false);
}

/* What lines of rungs and of settings say alike: rates of calls, of their own unit's ceiling and over cuBLAS. */
static void add_rates(json_t *line, const carat_gemm_problem *problem, const struct result *result,
                      double share, double cublas)
{
    double seconds = result->time_us / 1e6;
    double gflops = seconds > 0 ? workload_operations(problem) / seconds * 1e-9 : 0;
    json_object_set_new(line, "size", json_integer((json_int_t)problem->m));
    json_object_set_new(line, "gflops", json_known(gflops));
    json_object_set_new(line, "share_of_ceiling", json_known(share));
    json_object_set_new(line, "ratio", seconds > 0 ? json_known(cublas / seconds) : json_null());
}

static void report_rung(struct ladder *ladder, const carat_gemm_problem *problem,
                        const struct result *results, int at, double cublas)
{
    const struct rung *rung = &ladder->rungs.items[at];
    const struct result *result = &results[at];
    double seconds = result->time_us / 1e6;
    double operations = workload_operations(problem);
    const struct ceiling *ceiling = ceilings_of_type(&ladder->ceilings, problem->type_a);
    double share = ceiling && seconds > 0 ? operations / seconds / (ceiling->value * 1e12) : 0;
    int base = 0;
    double before = base_seconds(ladder, results, rung->number, &base);
    double gain = seconds > 0 ? before / seconds : 0;
    const struct kernel *kernel = kernel_of(ladder, rung, problem);
    double traffic =
        kernel ? rung_traffic_bytes(rung->number, kernel, problem->m, problem->n, problem->k) : 0;

    json_t *line = report_result(ladder->field.contenders[at], problem, result, &ladder->ceilings, cublas);
    add_rates(line, problem, result, share, cublas);
    json_object_set_new(line, "rung", json_integer(rung->number));
    json_object_set_new(line, "kernel", json_string(rung->name));
    json_object_set_new(line, "row", kernel ? json_string(kernel->name) : json_null());
    json_object_set_new(line, "gain", json_known(gain));
    json_object_set_new(line, "gain_over_rung", base ? json_integer(base) : json_null());
    json_object_set_new(line, "speedup_over_plain", speedup_json(&ladder->plain, seconds));
    json_object_set_new(line, "plain_extrapolated", json_boolean(ladder->plain.extrapolated));
    json_object_set_new(line, "speedup_over_blas", speedup_json(&ladder->blas, seconds));
    json_object_set_new(line, "blas_extrapolated", json_boolean(ladder->blas.extrapolated));
    json_object_set_new(line, "traffic_bytes", json_known(traffic));
    json_object_set_new(line, "intensity", traffic > 0 ? json_real(operations / traffic) : json_null());
    if (ladder->transfers) {
        bool library = !rung->row;
        double with_copies = library       ? ladder->host_call_seconds
                             : seconds > 0 ? seconds + ladder->copies_seconds
                                           : 0;
        json_object_set_new(line, "with_copies_us", json_known(with_copies * 1e6));
    }
    json_array_append_new(ladder->results, line);

    fprintf(ladder->table, "%4d %-26.26s", rung->number, rung->name);
    put_columns(ladder, problem, result, share, gain, cublas);
    if (ladder->transfers && seconds > 0) {
        put_column(ladder->table, 11, 4,
                   (rung->row ? seconds + ladder->copies_seconds : ladder->host_call_seconds) * 1e3, false);
    }
    fputc('\n', ladder->table);
}

/* The library's line at an accuracy that it was asked for: as a peer's, rung 0. */
static void report_setting(struct ladder *ladder, const carat_gemm_problem *problem,
                           const struct result *result, int at, double cublas)
{
    const struct contender *contender = ladder->field.contenders[at];
    carat_gemm_problem own = *problem;
    own.accuracy = contender->asked;
    double seconds = result->time_us / 1e6;
    double least = ceilings_floor(&ladder->ceilings, &own).unit_seconds;
    double share = seconds > 0 ? least / seconds : 0;
    json_t *line = report_result(contender, &own, result, &ladder->ceilings, cublas);
    add_rates(line, &own, result, share, cublas);
    json_object_set_new(line, "rung", json_integer(0));
    json_object_set_new(line, "setting", json_true());
    json_object_set_new(line, "kernel", json_string(contender->name));
    json_array_append_new(ladder->results, line);
    fprintf(ladder->table, "     %-26.26s", contender->name);
    put_columns(ladder, problem, result, share, 0, cublas);
    fputc('\n', ladder->table);
}

/* A peer's line in the document, for plots: rung 0. */
static void report_peer(struct ladder *ladder, const carat_gemm_problem *problem, const struct result *result,
                        int at)
{
    if (result->outcome == OUTCOME_TIMED) {
        double seconds = result->time_us / 1e6;
        json_t *line = report_result(ladder->field.contenders[at], problem, result, &ladder->ceilings, 0);
        json_object_set_new(line, "size", json_integer((json_int_t)problem->m));
        json_object_set_new(line, "rung", json_integer(0));
        json_object_set_new(line, "kernel", json_string(ladder->field.contenders[at]->name));
        json_object_set_new(line, "gflops", json_real(workload_operations(problem) / seconds * 1e-9));
        json_array_append_new(ladder->results, line);
        fprintf(ladder->table, "     %-26.26s", ladder->field.contenders[at]->name);
        put_column(ladder->table, 11, 4, seconds * 1e3, false);
        put_column(ladder->table, 9, 1, workload_operations(problem) / seconds * 1e-9, false);
        fputc('\n', ladder->table);
    }
}

static void print_head(const struct ladder *ladder, int64_t size)
{
    const struct ceiling *ceiling = ceilings_of_type(&ladder->ceilings, ladder->type);
    fprintf(ladder->table, "\n%s, m = n = k = %lld", carat_type_name(ladder->type), (long long)size);
    if (ceiling) {
        fprintf(ladder->table, "; ceiling %s %.2f %s", ceiling_short_name(ceiling->name), ceiling->value,
                ceiling->unit);
    }
    fprintf(ladder->table, "\nrung %-26s %11s %9s %7s %6s %9s %8s %7s %9s %9s%s\n", "kernel", "ms", "GFLOP/s",
            "share %", "gain", "x a core", "x BLAS", "cuBLAS", "error", "first ms",
            ladder->transfers ? "  with copies" : "");
}

/* Measures all rungs and peers at one size and reports them. */
static carat_status run_size(struct ladder *ladder, int64_t size)
{
    carat_gemm_problem problem = carat_gemm_describe(ladder->type, size, size, size);
    if (ladder->type == CARAT_F32) {
        problem.accuracy = CARAT_ACCURACY_STRICT; /* as all of its rungs are */
    }
    problem.lda = problem.ldb = problem.ldc = problem.ldd = size;
    double operations = workload_operations(&problem);
    struct field *field = &ladder->field;
    struct contender *running[MOST_CONTENDERS];
    struct result measured[MOST_CONTENDERS];
    struct result results[MOST_CONTENDERS] = {{0}};
    int places[MOST_CONTENDERS];
    int count = 0;
    for (int i = 0; i < field->count; i++) {
        double foreseen = ladder->rates[i] > 0 ? operations / ladder->rates[i] : 0;
        if (foreseen > ladder->call_limit) {
            results[i].outcome = OUTCOME_SKIPPED;
            snprintf(results[i].reason, sizeof(results[i].reason), "one product would take about %.0f s",
                     foreseen);
        } else {
            places[count] = i;
            running[count++] = field->contenders[i];
        }
    }
    progress("ladder: %lld", (long long)size);
    CARAT_TRY(measure_problem(field->open_stages, field->stage_count, running, count, &problem,
                              &ladder->measure, measured));
    for (int i = 0; i < count; i++) {
        results[places[i]] = measured[i];
    }
    int openblas = field_find(field, "openblas");
    if (ladder->cpu) {
        update_estimate(&ladder->plain, size <= PLAIN_MOST ? plain_seconds(ladder->type, size) : 0,
                        operations);
        update_estimate(&ladder->blas, openblas >= 0 ? result_seconds(&results[openblas]) : 0, operations);
    }
    if (ladder->transfers) {
        CARAT_TRY(measure_transfers(ladder, &problem));
        /* The first size from which every larger one wins too. */
        bool wins = ladder->blas.seconds > 0 && ladder->host_call_seconds < ladder->blas.seconds;
        ladder->gpu_wins_from = !wins ? 0 : ladder->gpu_wins_from ? ladder->gpu_wins_from : size;
    }
    progress_end();
    print_head(ladder, size);
    double cublas = field_cublas_seconds(field, results);
    for (int i = 0; i < field->count; i++) {
        ladder->wrong += results[i].outcome == OUTCOME_WRONG || results[i].outcome == OUTCOME_FAILED;
        ladder->skipped += results[i].outcome == OUTCOME_SKIPPED || results[i].outcome == OUTCOME_CANNOT;
        bool setting = field->contenders[i]->asks;
        if ((i < ladder->rungs.count || setting) && results[i].time_us > 0) {
            ladder->rates[i] = operations / results[i].time_us * 1e6;
        }
        if (i < ladder->rungs.count) {
            report_rung(ladder, &problem, results, i, cublas);
        } else if (setting) {
            report_setting(ladder, &problem, &results[i], i, cublas);
        } else {
            report_peer(ladder, &problem, &results[i], i);
        }
    }
    fflush(ladder->table);
    return CARAT_OK;
}

/* ---- The command ---- */

static bool parse_sizes(const char *list, int64_t *sizes, int *count)
{
    char words[400];
    if (strlen(list) >= sizeof(words)) {
        return false;
    }
    snprintf(words, sizeof(words), "%s", list);
    char *rest = NULL;
    *count = 0;
    for (char *word = strtok_r(words, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (*count == MOST_SIZES || !parse_count(word, &sizes[*count]) || sizes[*count] < 1 ||
            sizes[*count] > 1 << 20) {
            return false;
        }
        *count += 1;
    }
    return *count > 0;
}

static carat_status open_ladder(struct ladder *ladder)
{
    for (int i = 0; i < ladder->rungs.count; i++) {
        const struct rung *rung = &ladder->rungs.items[i];
        CARAT_TRY(rung->row ? field_add_row(&ladder->field, rung->row) : field_add_carat(&ladder->field));
    }
    const struct rungs *rungs = &ladder->rungs;
    bool to_the_top = rungs->count > 0 && !rungs->items[rungs->count - 1].row;
    carat_accuracy settings[MOST_SETTINGS];
    int setting_count = to_the_top ? ladder_settings(ladder->type, settings) : 0;
    for (int i = 0; i < setting_count; i++) {
        CARAT_TRY(field_add_setting(&ladder->field, settings[i]));
    }
    static const char *const peers[] = {"cublas", "cublaslt", "openblas"};
    for (int i = 0; i < (ladder->cpu ? 3 : 2); i++) {
        carat_status status = field_add_peer(&ladder->field, peers[i]);
        if (status == CARAT_UNSUPPORTED) {
            fprintf(stderr, "carat ladder: without %s: %s\n", peers[i], carat_last_message());
        } else if (status != CARAT_OK) {
            return status;
        }
    }
    return CARAT_OK;
}

static carat_status run_sizes(struct ladder *ladder, const int64_t *sizes, int count,
                              const char *ceilings_path, double ceiling_seconds)
{
    struct stage *stage = &ladder->field.stages[0];
    CARAT_TRY(open_ladder(ladder));
    if (ceilings_path) {
        CARAT_TRY(ceilings_read(ceilings_path, &ladder->ceilings));
    } else {
        progress("ladder: measuring the device's limits");
        CARAT_TRY(ceilings_measure(&stage->timer, ceiling_seconds, 0, &ladder->ceilings));
        progress_end();
    }
    ladder->document =
        report_head(&stage->place, ladder->field.contenders, ladder->field.count, &ladder->ceilings);
    const struct ceiling *ceiling = ceilings_of_type(&ladder->ceilings, ladder->type);
    json_object_set_new(ladder->document, "dtype", json_string(carat_type_name(ladder->type)));
    json_object_set_new(ladder->document, "ceiling_gflops", json_known(ceiling ? ceiling->value * 1e3 : 0));
    ladder->results = json_array();
    json_object_set_new(ladder->document, "results", ladder->results);
    fprintf(ladder->table, "carat %s on %s\n", carat_version(), stage->place.info.name);
    for (int i = 0; i < count; i++) {
        CARAT_TRY(run_size(ladder, sizes[i]));
        if (ladder->json_path && strcmp(ladder->json_path, "-") != 0 &&
            !report_document(ladder->json_path, ladder->document)) {
            return fail(CARAT_INVALID_ARGUMENT, "cannot write %s", ladder->json_path);
        }
    }
    if (ladder->transfers) {
        json_object_set_new(ladder->document, "gpu_wins_from", json_known((double)ladder->gpu_wins_from));
        if (ladder->gpu_wins_from > 0) {
            fprintf(ladder->table,
                    "\nWith copies in and out of pinned memory the GPU beats the CPU's BLAS from %lld on.\n",
                    (long long)ladder->gpu_wins_from);
        } else {
            fprintf(ladder->table,
                    "\nWith copies in and out the GPU does not beat the CPU's BLAS at the largest size.\n");
        }
    }
    return CARAT_OK;
}

/* What is made of a document: files, or NULL. */
struct drawings {
    const char *plot;
    const char *roofline;
    const char *markdown; /* "-": standard output */
    int64_t size;         /* of the Markdown's tables; 0: all */
};

static int write_tables(const char *command, const json_t *document, const struct drawings *wanted)
{
    bool standard = strcmp(wanted->markdown, "-") == 0;
    FILE *file = standard ? stdout : fopen(wanted->markdown, "w");
    if (!file) {
        return command_failed(command, "cannot write %s", wanted->markdown);
    }
    bool any = ladder_tables(document, wanted->size, file);
    bool written = !ferror(file);
    if ((standard ? fflush(file) : fclose(file)) != 0 || !written) {
        return command_failed(command, "cannot write %s", wanted->markdown);
    }
    return any ? EXIT_OK : command_failed(command, "there are no times for a table");
}

/* Draws what was asked for. */
static int draw(const char *command, const json_t *document, const struct drawings *wanted)
{
    if ((wanted->plot && plot_ladder(document, wanted->plot) != CARAT_OK) ||
        (wanted->roofline && plot_roofline(document, wanted->roofline) != CARAT_OK)) {
        return command_failed(command, "%s", carat_last_message());
    }
    return wanted->markdown ? write_tables(command, document, wanted) : EXIT_OK;
}

static int draw_again(const char *command, const char *from, const struct drawings *wanted)
{
    if (!wanted->plot && !wanted->roofline && !wanted->markdown) {
        return usage_error(command, "--from needs --plot, --roofline or --markdown");
    }
    json_error_t error;
    json_t *document = json_load_file(from, 0, &error);
    if (!document || !json_is_array(json_object_get(document, "results"))) {
        const char *text = document ? "it is no result of carat ladder" : error.text;
        int exit_code = command_failed(command, "cannot read %s: %s", from, text);
        json_decref(document);
        return exit_code;
    }
    int exit_code = draw(command, document, wanted);
    json_decref(document);
    return exit_code;
}

static int run_ladder(struct ladder *ladder, const char *command, const int64_t *sizes, int count,
                      const char *ceilings_path, double ceiling_seconds, const struct drawings *wanted)
{
    int exit_code = EXIT_OK;
    if (run_sizes(ladder, sizes, count, ceilings_path, ceiling_seconds) != CARAT_OK) {
        progress_end();
        exit_code = command_failed(command, "%s", carat_last_message());
    }
    if (ladder->document) { /* also what was measured before a failure */
        if (ladder->json_path && !report_document(ladder->json_path, ladder->document)) {
            exit_code = command_failed(command, "cannot write %s", ladder->json_path);
        }
        if (exit_code == EXIT_OK) {
            exit_code = draw(command, ladder->document, wanted);
        }
        json_decref(ladder->document);
    }
    if (ladder->skipped > 0) {
        fprintf(ladder->table, "%d skipped, each with its reason above or in the JSON\n", ladder->skipped);
    }
    if (ladder->wrong > 0) {
        fprintf(ladder->table, "%d wrong or failed\n", ladder->wrong);
        exit_code = exit_code == EXIT_OK ? EXIT_FAILED : exit_code;
    }
    return exit_code;
}

int command_ladder(int argc, char **argv)
{
    const char *sizes_text = "128,256,512,1024,2048,4096,8192,16384";
    const char *type_text = "f32";
    const char *rungs_text = NULL;
    const char *json_path = NULL;
    struct drawings wanted = {0};
    const char *from = NULL;
    const char *ceilings_path = NULL;
    const char *size_text = NULL;
    double seconds = 0.3;
    double ceiling_seconds = 0.5;
    double call_limit = 10;
    bool transfers = false;
    bool no_cpu = false;
    const struct option options[] = {
        {.name = "--size",
         .kind = OPTION_TEXT,
         .target = &size_text,
         .value = "N",
         .help = "run one size, m = n = k = N"},
        {.name = "--sizes",
         .kind = OPTION_TEXT,
         .target = &sizes_text,
         .value = "LIST",
         .help = "run these sizes (128,256,512,1024,2048,4096,8192,16384)"},
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &type_text,
         .value = "TYPE",
         .help = "the ladder of this type: f32 has 1 to 9, bf16 and f16 have 4 and 9 to 14 (f32)"},
        {.name = "--rungs",
         .kind = OPTION_TEXT,
         .target = &rungs_text,
         .value = "LIST",
         .help = "only these: 1,2,9 (the last is the library's own: 9, of bf16 and f16 14)"},
        {.name = "--transfers",
         .kind = OPTION_FLAG,
         .target = &transfers,
         .help = "also with copies in and out of pinned memory, and from which size the GPU wins"},
        {.name = "--no-cpu",
         .kind = OPTION_FLAG,
         .target = &no_cpu,
         .help = "without the CPU's plain loop and BLAS, which take their time"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write the results as JSON (-: to standard output, with the table on standard error)"},
        {.name = "--plot",
         .kind = OPTION_TEXT,
         .target = &wanted.plot,
         .value = "FILE",
         .help = "draw the rates over the size as SVG, with gnuplot"},
        {.name = "--roofline",
         .kind = OPTION_TEXT,
         .target = &wanted.roofline,
         .value = "FILE",
         .help = "draw the roofline with every rung on it as SVG"},
        {.name = "--markdown",
         .kind = OPTION_TEXT,
         .target = &wanted.markdown,
         .value = "FILE",
         .help = "write a table of each size, with --size of that one, in Markdown (-: to standard output)"},
        {.name = "--from",
         .kind = OPTION_TEXT,
         .target = &from,
         .value = "FILE",
         .help = "measure nothing: draw what --json FILE wrote before"},
        {.name = "--ceilings",
         .kind = OPTION_TEXT,
         .target = &ceilings_path,
         .value = "FILE",
         .help = "take the device's limits from what 'carat ceiling --json FILE' wrote"},
        {.name = "--ceiling-seconds",
         .kind = OPTION_AMOUNT,
         .target = &ceiling_seconds,
         .value = "S",
         .help = "how long each of the limits is measured (0.5)"},
        {.name = "--time-limit",
         .kind = OPTION_AMOUNT,
         .target = &seconds,
         .value = "S",
         .help = "about how long a kernel is timed at a size (0.3)"},
        {.name = "--call-limit",
         .kind = OPTION_AMOUNT,
         .target = &call_limit,
         .value = "S",
         .help = "leave out a kernel that would take longer for one product (10)"},
    };
    const struct usage usage = {
        .synopsis = "carat ladder [options]\ncarat ladder --from FILE --plot FILE\ncarat ladder --from FILE "
                    "--markdown - --size N",
        .description =
            "Runs the ladder of kernels, from the one first written to the library's own. Each is checked\n"
            "against a reference, then timed on the device: median of calls on a stream.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "share: of the measured ceiling of the type's unit. gain: over the rung it builds on. Below the\n"
            "last rung of f32 stands the library at each accuracy, with its share of what that multiplies "
            "on.\n"
            "x a core: over three plain loops on one core of the CPU, measured up to 2048, beyond (~)\n"
            "extrapolated. x BLAS: over the CPU's BLAS. cuBLAS: the time of the better of cublasGemmEx and\n"
            "the best cublasLt candidate over the kernel's. error: max |D - ref| / (|A||B|). first ms: the\n"
            "first call, which loads the kernel. Without a CUDA device it says so, and succeeds.",
    };
    int exit_code;
    if (options_parse(&usage, argc, argv, NULL, 0, &exit_code) < 0) {
        return exit_code;
    }
    if (from) {
        if (size_text && (!parse_count(size_text, &wanted.size) || wanted.size < 1)) {
            return usage_error(argv[0], "'%s' is no size", size_text);
        }
        return draw_again(argv[0], from, &wanted);
    }
    struct ladder ladder = {
        .measure = {.seconds = seconds, .rounds = 20, .check_budget = 1 << 25},
        .cpu = !no_cpu,
        .transfers = transfers,
        .call_limit = call_limit,
        .json_path = json_path,
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
    };
    int64_t sizes[MOST_SIZES];
    int size_count;
    if (!parse_sizes(size_text ? size_text : sizes_text, sizes, &size_count)) {
        return usage_error(argv[0], "'%s' is no list of sizes from 1 to 1048576",
                           size_text ? size_text : sizes_text);
    }
    if (!type_read(type_text, &ladder.type)) {
        return usage_error(argv[0], "'%s' is no element type", type_text);
    }
    if (!rungs_list(ladder.type, rungs_text, &ladder.rungs)) {
        return usage_error(argv[0], "--rungs is '%s', but should be a list like 1,2,9", rungs_text);
    }
    if (seconds <= 0 || ceiling_seconds <= 0 || call_limit <= 0) {
        return usage_error(argv[0], "a time must be more than 0");
    }
    if (field_open(CARAT_DEVICE_CUDA, 0, &ladder.field) != CARAT_OK) {
        printf("skipped: no CUDA device (%s): %d rungs at %d sizes not run\n", carat_last_message(),
               ladder.rungs.count, size_count);
        return EXIT_OK;
    }
    exit_code = run_ladder(&ladder, argv[0], sizes, size_count, ceilings_path, ceiling_seconds, &wanted);
    field_close(&ladder.field);
    return exit_code;
}
