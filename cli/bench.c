/* bench.c - carat bench: how fast the shapes of a file go, beside other libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_choice.h"
#include "bench_epilogues.h"
#include "bench_host.h"
#include "bench_memory.h"
#include "ceiling.h"
#include "commands.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "shapes.h"
#include "status.h"
#include "summary.h"

enum { MOST_FILES = 32, MOST_SKIPS = 64 };

/* How often something was left out for one reason. */
struct skip {
    char reason[400];
    int count;
};

struct bench {
    struct field field;
    struct ceilings ceilings;
    struct measure_options measure;
    FILE *json;
    FILE *table;
    int done;
    int wrong;
    struct skip skips[MOST_SKIPS];
    int skip_count;
    bool summary_only; /* no line a case in the table */
    bool every_row;    /* instead of contenders: every way to compute a shape */
    struct summary summary;
    struct choice_totals choices;
};

static void count_skip(struct bench *bench, const char *who, const char *reason)
{
    char text[400];
    snprintf(text, sizeof(text), "%.90s: %.300s", who, reason);
    for (int i = 0; i < bench->skip_count; i++) {
        if (strcmp(bench->skips[i].reason, text) == 0) {
            bench->skips[i].count++;
            return;
        }
    }
    struct skip *skip = &bench->skips[bench->skip_count < MOST_SKIPS ? bench->skip_count++ : MOST_SKIPS - 1];
    if (skip->count > 0) { /* the list is full: the last entry stands for all other reasons */
        snprintf(skip->reason, sizeof(skip->reason), "other reasons");
    } else {
        memcpy(skip->reason, text, sizeof(skip->reason));
    }
    skip->count++;
}

static void case_name(const struct shape *shape, char *name, size_t size)
{
    char batch[32] = "";
    if (shape->batch > 1) {
        snprintf(batch, sizeof(batch), " x %lld", (long long)shape->batch);
    }
    snprintf(name, size, "%s %s %lld %lld %lld%s", shape->dtype, shape->layout, (long long)shape->m,
             (long long)shape->n, (long long)shape->k, batch);
}

/* y over x, where both are known. */
static double over(double y, double x) { return x > 0 ? y / x : 0; }

static void print_ratio(FILE *table, const char *name, double ratio)
{
    if (ratio > 0) {
        fprintf(table, " %s %.3f", name, ratio);
    }
}

/* What a call takes of the host, and for how many kernels where there are several. */
static void print_host(FILE *table, const struct result *result)
{
    char launches[16] = "";
    if (result->host_us <= 0) {
        fprintf(table, " %11s", "-");
        return;
    }
    if (result->launches > 1) {
        snprintf(launches, sizeof(launches), " / %d", result->launches);
    }
    fprintf(table, " %7.2f%-4s", result->host_us, launches);
}

/* One row of the table: every contender's rate, then how Carat stands. */
static void print_case(const struct bench *bench, const char *name, const carat_gemm_problem *problem,
                       const struct result *results, const struct peer *peer, const struct ratios *ratios)
{
    fprintf(bench->table, "%-34s", name);
    for (int i = 0; i < bench->field.count; i++) {
        double seconds = result_seconds(&results[i]);
        if (seconds > 0) {
            fprintf(bench->table, " %10.3f", workload_operations(problem) / seconds * 1e-12);
        } else {
            fprintf(bench->table, " %10s", outcome_name(results[i].outcome));
        }
    }
    double seconds = result_seconds(&results[0]);
    struct floor floor = ceilings_floor(&bench->ceilings, problem);
    if (seconds > 0) {
        fprintf(bench->table, " %9.2f us", results[0].time_us);
        print_host(bench->table, &results[0]);
    }
    if (seconds > 0 && floor.seconds > 0) {
        fprintf(bench->table, " %5.1f%% of %-10s", floor.unit_seconds / seconds * 100,
                ceiling_short_name(floor.unit->name));
        if (floor.bound != floor.unit) {
            fprintf(bench->table, " %5.1f%% of %s", floor.seconds / seconds * 100,
                    ceiling_short_name(floor.bound->name));
        }
    }
    if (results[0].safe_share > 0) {
        fprintf(bench->table, "  %.0f%% safe", results[0].safe_share * 100);
    }
    if (ratios->best > 0) {
        fprintf(bench->table, "  %.3f", ratios->best);
        print_ratio(bench->table, "calls", ratios->calls);
        print_ratio(bench->table, "graph", ratios->graph);
        fprintf(bench->table, " %s", bench->field.contenders[peer->at]->name);
    }
    fputc('\n', bench->table);
    fflush(bench->table);
}

/* What a reader must know even where he asked for no line a case. */
static void print_mishaps(const struct bench *bench, const char *name, const struct result *results)
{
    for (int i = 0; i < bench->field.count; i++) {
        if (results[i].outcome == OUTCOME_WRONG || results[i].outcome == OUTCOME_FAILED) {
            fprintf(bench->table, "    %s: %s %s: %s\n", name, bench->field.contenders[i]->name,
                    outcome_name(results[i].outcome), results[i].reason);
        }
    }
}

static bool write_json(const struct bench *bench, json_t *line)
{
    bool written = !bench->json || report_line(bench->json, line);
    json_decref(line);
    return written;
}

/* Measures one shape; CARAT_OK also where a contender was wrong, which is counted. */
static carat_status bench_shape(struct bench *bench, const char *file, const struct shape *shape)
{
    char name[128];
    case_name(shape, name, sizeof(name));
    if (!shape->type) {
        char reason[64];
        snprintf(reason, sizeof(reason), "Carat has no type %s", shape->dtype);
        count_skip(bench, "all", reason);
        json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s}", "kind", "skipped", "file", file, "case", name,
                                 "dtype", shape->dtype, "reason", reason);
        write_json(bench, line);
        return CARAT_OK;
    }
    progress("%s", name);
    if (bench->every_row) {
        const struct tune_options options = {.slack = 4, .most_ways = 48, .seconds = 1e-3, .rounds = 7};
        carat_status status = bench_choice(&bench->field.stages[0], shape, name, &options, bench->json,
                                           bench->table, &bench->choices);
        progress_end();
        return status;
    }
    carat_gemm_problem problem = shape_problem(shape);
    struct result results[MOST_CONTENDERS];
    carat_status status = field_measure(&bench->field, &problem, &bench->measure, results);
    progress_end();
    if (status != CARAT_OK) {
        return status;
    }
    struct peer peer = field_peer(&bench->field, results);
    struct ratios ratios = {
        .best = over(peer.seconds, result_seconds(&results[0])),
        .calls = over(peer.call_us, results[0].time_us),
        .graph = over(peer.graph_us, results[0].graph_time_us),
    };
    for (int i = 0; i < bench->field.count; i++) {
        const char *who = bench->field.contenders[i]->name;
        bench->wrong += results[i].outcome == OUTCOME_WRONG || results[i].outcome == OUTCOME_FAILED;
        if (results[i].outcome == OUTCOME_SKIPPED || results[i].outcome == OUTCOME_CANNOT) {
            count_skip(bench, who, results[i].reason);
        }
        json_t *line =
            report_result(bench->field.contenders[i], &problem, &results[i], &bench->ceilings, peer.seconds);
        json_object_set_new(line, "ratio_calls", json_known(over(peer.call_us, results[i].time_us)));
        json_object_set_new(line, "ratio_graph", json_known(over(peer.graph_us, results[i].graph_time_us)));
        json_object_set_new(line, "peer",
                            peer.at >= 0 ? json_string(bench->field.contenders[peer.at]->name) : json_null());
        json_object_set_new(line, "file", json_string(file));
        json_object_set_new(line, "input", json_string(accuracy_family_name(bench->measure.input)));
        if (!write_json(bench, line)) {
            count_skip(bench, who, "the JSON could not be written");
            bench->wrong++;
        }
    }
    if (!bench->summary_only) {
        print_case(bench, name, &problem, results, &peer, &ratios);
    }
    print_mishaps(bench, name, results);
    bench->done++;
    double unit_seconds = ceilings_floor(&bench->ceilings, &problem).unit_seconds;
    summary_add(&bench->summary, &(struct summary_case){
                                     .file = file,
                                     .dtype = shape->dtype,
                                     .name = name,
                                     .timed = results[0].outcome == OUTCOME_TIMED,
                                     .ratios = ratios,
                                     .share = over(unit_seconds, result_seconds(&results[0])),
                                     .host_us = results[0].host_us,
                                     .launches = results[0].launches,
                                 });
    return CARAT_OK;
}

static void print_head(const struct bench *bench)
{
    const struct place *place = &bench->field.stages[0].place;
    fprintf(bench->table, "carat %s on %s", carat_version(), place->info.name);
    for (int i = 1; i < bench->field.count; i++) {
        const struct contender *contender = bench->field.contenders[i];
        fprintf(bench->table, ", %s %s", contender->name, contender->version);
    }
    fputc('\n', bench->table);
    if (bench->measure.input != ACCURACY_NORMAL) {
        fprintf(bench->table, "inputs of family %s\n", accuracy_family_name(bench->measure.input));
    }
    if (bench->every_row) {
        fprintf(bench->table, "%-34s %13s  %7s  %18s\n", "", "the plan takes", "over", "the best way");
        return;
    }
    if (bench->summary_only) {
        return;
    }
    fprintf(bench->table, "%-34s", "TFLOP/s");
    for (int i = 0; i < bench->field.count; i++) {
        fprintf(bench->table, " %10.10s", bench->field.contenders[i]->name);
    }
    fprintf(bench->table, "   carat takes  host us    share of a limit    ratio\n");
}

static void conclude(struct bench *bench)
{
    if (bench->every_row) {
        choice_totals_print(&bench->choices, bench->json, bench->table);
        return;
    }
    summary_print(&bench->summary, bench->table);
    for (int i = 0; i < bench->summary.count; i++) {
        write_json(bench, standing_to_json(&bench->summary.items[i]));
    }
    write_json(bench, standing_to_json(&bench->summary.all));
    fprintf(bench->table, "%d cases\n", bench->done);
    for (int i = 0; i < bench->skip_count; i++) {
        fprintf(bench->table, "left out %d times: %s\n", bench->skips[i].count, bench->skips[i].reason);
    }
    if (bench->wrong > 0) {
        fprintf(bench->table, "%d results were wrong or failed\n", bench->wrong);
    }
}

/* Opens everyone in the comma-separated list. */
static int add_peers(struct bench *bench, const char *command, const char *list)
{
    char names[1000];
    if (strlen(list) >= sizeof(names)) {
        return usage_error(command, "--against is longer than %zu characters", sizeof(names));
    }
    snprintf(names, sizeof(names), "%s", list);
    char *rest = NULL;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        carat_status status = field_add_peer(&bench->field, name);
        if (status == CARAT_INVALID_ARGUMENT) {
            return usage_error(command, "%s", carat_last_message());
        }
        if (status == CARAT_UNSUPPORTED) {
            fprintf(stderr, "carat %s: without %s: %s\n", command, name, carat_last_message());
            count_skip(bench, name, carat_last_message());
        } else if (status != CARAT_OK) {
            return command_failed(command, "%s: %s", name, carat_last_message());
        }
    }
    return EXIT_OK;
}

static int read_ceilings(struct bench *bench, const char *command, const char *path)
{
    if (path) {
        return ceilings_read(path, &bench->ceilings) == CARAT_OK
                   ? EXIT_OK
                   : command_failed(command, "%s", carat_last_message());
    }
    struct stage *stage = &bench->field.stages[0];
    if (stage->place.cuda) {
        progress("measuring the device's limits");
        carat_status status = ceilings_measure(&stage->timer, 0.6, 0, &bench->ceilings);
        progress_end();
        if (status != CARAT_OK) {
            return command_failed(command, "%s", carat_last_message());
        }
    }
    return EXIT_OK;
}

/* Everyone measures the shapes of one list. */
static carat_status bench_list(struct bench *bench, const char *file, const struct shapes *shapes,
                               const char *filter)
{
    for (int i = 0; i < shapes->count; i++) {
        if (shape_wanted(&shapes->items[i], filter)) {
            CARAT_TRY(bench_shape(bench, file, &shapes->items[i]));
        }
    }
    return CARAT_OK;
}

/* Measures lists of shapes; names[i] is the file of list i, or what stands for it. */
static int bench_lists(struct bench *bench, const char *command, const char *const *names,
                       const struct shapes *lists, int count, const char *filter, const char *ceilings_path)
{
    int exit_code = bench->every_row ? EXIT_OK : read_ceilings(bench, command, ceilings_path);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    write_json(bench, report_head(&bench->field.stages[0].place, bench->field.contenders, bench->field.count,
                                  &bench->ceilings));
    print_head(bench);
    for (int i = 0; i < count && exit_code == EXIT_OK; i++) {
        const char *slash = strrchr(names[i], '/');
        if (bench_list(bench, slash ? slash + 1 : names[i], &lists[i], filter) != CARAT_OK) {
            exit_code = command_failed(command, "%s", carat_last_message());
        }
    }
    conclude(bench);
    return exit_code == EXIT_OK && bench->wrong > 0 ? EXIT_FAILED : exit_code;
}

static int bench_files(struct bench *bench, const char *command, const char *const *paths, int count,
                       const char *filter, const char *ceilings_path)
{
    /* All files are read before the first case runs: a wrong line should not show after minutes. */
    struct shapes files[MOST_FILES] = {{0}};
    int exit_code = EXIT_OK;
    for (int i = 0; i < count && exit_code == EXIT_OK; i++) {
        if (shapes_read(paths[i], &files[i]) != CARAT_OK || shapes_add_fast(&files[i]) != CARAT_OK) {
            exit_code = command_failed(command, "%s", carat_last_message());
        }
    }
    if (exit_code == EXIT_OK) {
        exit_code = bench_lists(bench, command, paths, files, count, filter, ceilings_path);
    }
    for (int i = 0; i < count; i++) {
        shapes_free(&files[i]);
    }
    return exit_code;
}

/* Shapes drawn at random, as the command line wants them. */
static int bench_random(struct bench *bench, const char *command, const struct draw *draw, int count,
                        const char *ceilings_path)
{
    const struct place *place = &bench->field.stages[0].place;
    struct draw limited = *draw;
    if (limited.most_operations == 0) {
        limited.most_operations = place->cuda ? 1e13 : 1e9;
    }
    limited.most_bytes = place->cuda ? (double)place->info.memory_bytes / 8 : 256e6;
    char name[64];
    snprintf(name, sizeof(name), "random, seed %llu", (unsigned long long)draw->seed);
    const char *const names[] = {name};
    struct shapes shapes = {0};
    int exit_code = shapes_random(&limited, count, &shapes) == CARAT_OK
                        ? bench_lists(bench, command, names, &shapes, 1, NULL, ceilings_path)
                        : command_failed(command, "%s", carat_last_message());
    shapes_free(&shapes);
    return exit_code;
}

/* The product of one size with all epilogues, for each type of the list. */
static int bench_all_epilogues(struct bench *bench, const char *command, const char *dtypes,
                               const char *layout, int64_t size)
{
    struct shapes shapes = {0};
    char list[200];
    if (strlen(dtypes) >= sizeof(list)) {
        return usage_error(command, "--type is longer than %zu characters", sizeof(list));
    }
    snprintf(list, sizeof(list), "%s", dtypes);
    carat_status status = CARAT_OK;
    char *rest = NULL;
    for (char *dtype = strtok_r(list, ",", &rest); dtype && status == CARAT_OK;
         dtype = strtok_r(NULL, ",", &rest)) {
        char line[120];
        snprintf(line, sizeof(line), "%.40s %.10s %lld %lld %lld", dtype, layout, (long long)size,
                 (long long)size, (long long)size);
        status = shapes_read_line("--type or --layout", line, &shapes);
    }
    int exit_code = status == CARAT_OK ? EXIT_OK : usage_error(command, "%s", carat_last_message());
    if (exit_code == EXIT_OK) {
        write_json(bench, report_head(&bench->field.stages[0].place, NULL, 0, NULL));
    }
    for (int i = 0; i < shapes.count && exit_code != EXIT_USAGE; i++) {
        if (!shapes.items[i].type) {
            exit_code = usage_error(command, "'%s' is no element type", shapes.items[i].dtype);
            break;
        }
        carat_gemm_problem problem = shape_problem(&shapes.items[i]);
        progress("epilogues of %s", shapes.items[i].dtype);
        int failed = bench_epilogues(&bench->field, &problem, &bench->measure, bench->json, bench->table);
        progress_end();
        exit_code = failed ? EXIT_FAILED : exit_code;
    }
    shapes_free(&shapes);
    return exit_code;
}

/* Adds rows of the catalogue by their names, separated by commas. */
static int add_rows(struct bench *bench, const char *command, const char *list)
{
    char names[1000];
    if (strlen(list) >= sizeof(names)) {
        return usage_error(command, "--row is longer than %zu characters", sizeof(names));
    }
    snprintf(names, sizeof(names), "%s", list);
    char *rest = NULL;
    for (char *name = strtok_r(names, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        const struct kernel *row = catalog_find(name);
        if (!row || (row->operation != OPERATION_GEMM && row->operation != OPERATION_LADDER)) {
            return usage_error(command, "--row is '%s', but there is no such product in the catalogue", name);
        }
        if (field_add_row(&bench->field, row) != CARAT_OK) {
            return command_failed(command, "%s", carat_last_message());
        }
    }
    return EXIT_OK;
}

/* What the command line asks for. */
struct request {
    const char *shapes;
    const char *against;
    const char *rows;
    const char *filter;
    const char *ceilings_path;
    const char *layout;
    const char *input;
    int64_t size;
    int64_t random;
    int64_t seed;
    double largest; /* billions of operations */
    bool memory;
    bool host;
    bool epilogues;
};

/* Carat, and those who run beside it. */
static int add_contenders(struct bench *bench, const char *command, const struct request *request)
{
    bool cuda = bench->field.stages[0].place.cuda;
    if (field_add_carat(&bench->field) != CARAT_OK) {
        return command_failed(command, "%s", carat_last_message());
    }
    int exit_code = add_peers(bench, command,
                              request->against ? request->against
                              : cuda           ? "cublas,cublaslt"
                                               : "");
    return exit_code == EXIT_OK && request->rows ? add_rows(bench, command, request->rows) : exit_code;
}

static int run_request(struct bench *bench, const char *command, const struct request *request,
                       const char *const *paths, int path_count)
{
    struct stage *stage = &bench->field.stages[0];
    if (request->memory) {
        return bench_memory(stage, request->size ? request->size : 8192, bench->measure.seconds, bench->json,
                            bench->table);
    }
    if (request->host) {
        return bench_host(stage, request->size ? request->size : 16384, bench->json, bench->table);
    }
    if (request->epilogues) {
        return bench_all_epilogues(bench, command, request->filter ? request->filter : "bf16",
                                   request->layout, request->size ? request->size : 4096);
    }
    int exit_code = bench->every_row ? EXIT_OK : add_contenders(bench, command, request);
    if (exit_code != EXIT_OK) {
        return exit_code;
    }
    if (request->random > 0) {
        struct draw draw = {
            .dtypes = request->filter                           ? request->filter
                      : bench->measure.input != ACCURACY_NORMAL ? "f32,f32-close"
                                                                : "bf16,f16,tf32,e4m3,s8",
            .seed = (uint64_t)request->seed,
            .largest_side = request->size ? request->size : 16384,
            .most_operations = request->largest * 1e9,
        };
        return bench_random(bench, command, &draw, (int)request->random, request->ceilings_path);
    }
    return bench_files(bench, command, paths, path_count, request->filter, request->ceilings_path);
}

int command_bench(int argc, char **argv)
{
    enum { MOST_RANDOM = 1000000 };
    const char *json_path = NULL;
    const char *device = "auto";
    double seconds = 0.4;
    double turn = 0;
    int64_t rounds = 20;
    bool summary_only = false;
    bool every_row = false;
    struct request request = {.layout = "TN", .input = "normal", .seed = 1};
    const struct option options[] = {
        {.name = "--shapes",
         .kind = OPTION_TEXT,
         .target = &request.shapes,
         .value = "FILE",
         .help = "the products to run: lines of type, layout of op(A) op(B), m n k [batch]; \"tf32\" is f32\n"
                 "with fast accuracy, \"f32-strict\" with strict; more files may follow as arguments"},
        {.name = "--random",
         .kind = OPTION_COUNT,
         .target = &request.random,
         .value = "N",
         .help = "instead of a file: N shapes drawn at random, sides from 1 to --size even on a logarithmic\n"
                 "scale, in every layout"},
        {.name = "--seed",
         .kind = OPTION_COUNT,
         .target = &request.seed,
         .value = "N",
         .help = "what --random begins with: the same number draws the same shapes (1)"},
        {.name = "--largest",
         .kind = OPTION_AMOUNT,
         .target = &request.largest,
         .value = "GFLOP",
         .help = "--random: the most operations of a shape, in billions (10000; on the CPU 1)"},
        {.name = "--against",
         .kind = OPTION_TEXT,
         .target = &request.against,
         .value = "LIST",
         .help = "others to run too, separated by commas: cublas, cublaslt, openblas (the CPU\n"
                 "device's BLAS), blas:PATH (a CBLAS library). Default: cublas,cublaslt on a GPU"},
        {.name = "--row",
         .kind = OPTION_TEXT,
         .target = &request.rows,
         .value = "LIST",
         .help = "rows of the catalogue to run too, by their names, separated by commas"},
        {.name = "--every-row",
         .kind = OPTION_FLAG,
         .target = &every_row,
         .help =
             "instead of running against others: time every kernel that can do a shape, packed or not, in\n"
             "several numbers of parts, and say how near the library's choice comes to the best"},
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &request.filter,
         .value = "TYPES",
         .help = "only these types: bf16,tf32. Default: all of the files; for --random\n"
                 "bf16,f16,tf32,e4m3,s8; for --epilogues bf16"},
        {.name = "--filter",
         .kind = OPTION_TEXT,
         .target = &request.filter,
         .value = "TYPES",
         .help = "the same"},
        {.name = "--layout",
         .kind = OPTION_TEXT,
         .target = &request.layout,
         .value = "LAYOUT",
         .help = "--epilogues: NN, NT, TN or TT (TN)"},
        {.name = "--input",
         .kind = OPTION_TEXT,
         .target = &request.input,
         .value = "FAMILY",
         .help =
             "--shapes and --random: what A and B hold, of the families of 'carat accuracy' (normal); any\n"
             "other than normal is of f32 alone, and other types are left out"},
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "where Carat runs: auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help =
             "write a line of JSON a case and contender, after one line with all versions and before one\n"
             "a file and type (-: to standard output, with the table on standard error)"},
        {.name = "--summary",
         .kind = OPTION_FLAG,
         .target = &summary_only,
         .help = "print the means and worst cases of each file and type, without a line a case"},
        {.name = "--time-limit",
         .kind = OPTION_AMOUNT,
         .target = &seconds,
         .value = "S",
         .help = "about how long a contender is timed on a case (0.4)"},
        {.name = "--repeat",
         .kind = OPTION_COUNT,
         .target = &rounds,
         .value = "N",
         .help = "rounds at most, whose median is the time (20)"},
        {.name = "--turn",
         .kind = OPTION_AMOUNT,
         .target = &turn,
         .value = "S",
         .help = "let a contender have the device for so long in a round, as calls and again as replays,\n"
                 "so that each runs at the clock that its own power allows (0: until its time is known)"},
        {.name = "--ceilings",
         .kind = OPTION_TEXT,
         .target = &request.ceilings_path,
         .value = "FILE",
         .help = "take the device's limits from what 'carat ceiling --json FILE' wrote, rather than\n"
                 "measure them"},
        {.name = "--memory",
         .kind = OPTION_FLAG,
         .target = &request.memory,
         .help = "instead of shapes: scale_add and transpose of each type against the device's own copy"},
        {.name = "--host",
         .kind = OPTION_FLAG,
         .target = &request.host,
         .help = "instead of shapes: a product from pinned and from pageable host memory"},
        {.name = "--epilogues",
         .kind = OPTION_FLAG,
         .target = &request.epilogues,
         .help = "instead of shapes: a product with each bias and activation, over the plain one's time"},
        {.name = "--size",
         .kind = OPTION_COUNT,
         .target = &request.size,
         .value = "N",
         .help =
             "the size of the matrices of --memory (8192), --host (16384) and --epilogues (4096), and the\n"
             "longest side of --random (16384)"},
    };
    const struct usage usage = {
        .synopsis = "carat bench [options] --shapes FILE [FILE ...]\n"
                    "carat bench [options] --random N\n"
                    "carat bench [options] --epilogues\n"
                    "carat bench [options] --memory\n"
                    "carat bench [options] --host",
        .description =
            "Times products beside other libraries. Each is checked first, on random input with the\n"
            "output poisoned; who is wrong gets no time. Then all run in turn, over more operands than\n"
            "the cache holds, as calls on a stream and as replays of a graph.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "host us: the host's time in a call of Carat's on a stream that is not full, and the kernels\n"
            "launched, where there are several.\n"
            "safe: how much of D close accuracy left to its safe path.\n"
            "share: the time that the ceiling of its unit allows, over the time taken; and the same of the\n"
            "memory, where that is the limit that binds.\n"
            "ratio: the time of the better of cublas and cublaslt (where there is none, of the best peer) "
            "over\n"
            "Carat's, from the better of calls and graphs; then of both as calls on a stream, and of both "
            "as\n"
            "replays of a graph; and who the better one was. cublaslt runs the fastest of 16 candidates.\n"
            "8-bit floats of a file run twice: with standard accuracy, and with fast (\"e4m3-fast\").\n"
            "The exit code is 1 where a result was wrong.\n\n"
            "  carat bench --shapes bench/shapes/square.txt --against cublas,cublaslt --json out.json\n"
            "  carat bench --random 200 --seed 7 --type bf16 --summary",
    };
    const char *paths[MOST_FILES];
    int exit_code;
    int count = options_parse(&usage, argc, argv, paths + 1, MOST_FILES - 1, &exit_code);
    if (count < 0) {
        return exit_code;
    }
    paths[0] = request.shapes;
    int kinds = !!request.shapes + (request.random > 0) + request.memory + request.host + request.epilogues;
    if (kinds != 1 || (!request.shapes && count > 0)) {
        return usage_error(argv[0],
                           "give one of --shapes FILE, --random N, --epilogues, --memory and --host");
    }
    if (every_row && (!(request.shapes || request.random) || request.against || request.rows)) {
        return usage_error(argv[0], "--every-row goes with --shapes or --random, and without others to run");
    }
    enum accuracy_family input = accuracy_family_find(request.input);
    if (input == ACCURACY_FAMILIES) {
        return usage_error(argv[0], "--input is '%s', but there is no such family", request.input);
    }
    if (input != ACCURACY_NORMAL && (every_row || !(request.shapes || request.random))) {
        return usage_error(argv[0], "--input goes with --shapes or --random, and not with --every-row");
    }
    carat_device_kind kind;
    int index;
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    if (seconds <= 0 || rounds < 1) {
        return usage_error(argv[0], "--time-limit and --repeat must be more than 0");
    }
    if (turn > MEASURE_LONGEST_TURN) {
        return usage_error(argv[0], "--turn is %g, but should be 0 to %g seconds", turn,
                           MEASURE_LONGEST_TURN);
    }
    if (turn > 0 && (every_row || !(request.shapes || request.random || request.epilogues))) {
        return usage_error(argv[0],
                           "--turn goes with --shapes, --random and --epilogues, and not with --every-row");
    }
    if (rounds > MEASURE_MOST_ROUNDS) {
        return usage_error(argv[0], "--repeat is %lld, but should be at most %d", (long long)rounds,
                           MEASURE_MOST_ROUNDS);
    }
    if (request.largest < 0 || request.random > MOST_RANDOM || request.size > INT32_MAX) {
        return usage_error(argv[0], "--largest, --random or --size is out of range");
    }
    struct bench bench = {
        .measure = {.seconds = seconds,
                    .rounds = rounds > 1000 ? 1000 : (int)rounds,
                    .turn = turn,
                    .check_budget = 1 << 25,
                    .input = input},
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
        .summary_only = summary_only,
        .every_row = every_row,
    };
    if (field_open(kind, index, &bench.field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    exit_code = EXIT_OK;
    if (json_path) {
        bench.json = strcmp(json_path, "-") == 0 ? stdout : fopen(json_path, "w");
        if (!bench.json) {
            exit_code = command_failed(argv[0], "cannot write %s", json_path);
        }
    }
    if (exit_code == EXIT_OK) {
        exit_code = run_request(&bench, argv[0], &request, paths, count + 1);
    }
    if (bench.json && bench.json != stdout && fclose(bench.json) != 0) {
        exit_code = command_failed(argv[0], "cannot write %s", json_path);
    }
    field_close(&bench.field);
    return exit_code;
}
