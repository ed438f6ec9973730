/* bench.c - carat bench: how fast the shapes of a file go, beside other libraries. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_host.h"
#include "bench_memory.h"
#include "ceiling.h"
#include "commands.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "shapes.h"
#include "statistics.h"

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
    /* Carat's rates over the peer's, of all cases that had both. */
    double *ratios;
    int ratio_count;
    double worst;
    char worst_case[128];
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

/* One row of the table: every contender's rate, then Carat's over the peer's. */
static void print_case(const struct bench *bench, const char *name, const carat_gemm_problem *problem,
                       const struct result *results, double ratio)
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
    double floor = ceilings_floor_seconds(&bench->ceilings, problem, NULL);
    if (seconds > 0) {
        fprintf(bench->table, " %9.2f us", results[0].time_us);
    }
    if (seconds > 0 && floor > 0) {
        fprintf(bench->table, " %5.1f%%", floor / seconds * 100);
    }
    if (ratio > 0) {
        fprintf(bench->table, "  %.3f", ratio);
    }
    fputc('\n', bench->table);
    for (int i = 0; i < bench->field.count; i++) {
        if (results[i].outcome == OUTCOME_WRONG || results[i].outcome == OUTCOME_FAILED) {
            fprintf(bench->table, "    %s %s: %s\n", bench->field.contenders[i]->name,
                    outcome_name(results[i].outcome), results[i].reason);
        }
    }
    fflush(bench->table);
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
    carat_gemm_problem problem = shape_problem(shape);
    struct result results[MOST_CONTENDERS];
    carat_status status = field_measure(&bench->field, &problem, &bench->measure, results);
    progress_end();
    if (status != CARAT_OK) {
        return status;
    }
    double peer = field_peer_seconds(&bench->field, results);
    double own = result_seconds(&results[0]);
    double ratio = own > 0 ? peer / own : 0;
    for (int i = 0; i < bench->field.count; i++) {
        const char *who = bench->field.contenders[i]->name;
        bench->wrong += results[i].outcome == OUTCOME_WRONG || results[i].outcome == OUTCOME_FAILED;
        if (results[i].outcome == OUTCOME_SKIPPED) {
            count_skip(bench, who, results[i].reason);
        }
        json_t *line =
            report_result(bench->field.contenders[i], &problem, &results[i], &bench->ceilings, peer);
        json_object_set_new(line, "file", json_string(file));
        if (!write_json(bench, line)) {
            count_skip(bench, who, "the JSON could not be written");
            bench->wrong++;
        }
    }
    print_case(bench, name, &problem, results, ratio);
    bench->done++;
    if (ratio > 0) {
        if (bench->ratio_count == 0 || ratio < bench->worst) {
            bench->worst = ratio;
            memcpy(bench->worst_case, name, sizeof(name));
        }
        bench->ratios[bench->ratio_count++] = ratio;
    }
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
    fprintf(bench->table, "\n%-34s", "TFLOP/s");
    for (int i = 0; i < bench->field.count; i++) {
        fprintf(bench->table, " %10.10s", bench->field.contenders[i]->name);
    }
    fprintf(bench->table, "   carat takes   share  ratio\n");
}

static void print_summary(const struct bench *bench)
{
    fprintf(bench->table, "%d cases", bench->done);
    if (bench->ratio_count > 0) {
        fprintf(bench->table, "; carat over the best peer: geometric mean %.3f, worst %.3f (%s), of %d",
                geometric_mean(bench->ratios, bench->ratio_count), bench->worst, bench->worst_case,
                bench->ratio_count);
    }
    fputc('\n', bench->table);
    for (int i = 0; i < bench->skip_count; i++) {
        fprintf(bench->table, "skipped %d times: %s\n", bench->skips[i].count, bench->skips[i].reason);
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
        carat_status status = ceilings_measure(&stage->timer, 0.3, 0, &bench->ceilings);
        progress_end();
        if (status != CARAT_OK) {
            return command_failed(command, "%s", carat_last_message());
        }
    }
    return EXIT_OK;
}

static bool wanted(const struct shape *shape, const char *filter)
{
    if (!filter) {
        return true;
    }
    size_t length = strlen(shape->dtype);
    for (const char *word = filter; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        if (strncmp(word, shape->dtype, length) == 0 && (word[length] == 0 || word[length] == ',')) {
            return true;
        }
    }
    return false;
}

static int bench_files(struct bench *bench, const char *command, const char *const *paths, int path_count,
                       const char *filter, const char *ceilings_path)
{
    /* All files are read before the first case runs: a wrong line should not show after minutes. */
    struct shapes files[MOST_FILES] = {{0}};
    int total = 0;
    int exit_code = EXIT_OK;
    for (int i = 0; i < path_count && exit_code == EXIT_OK; i++) {
        if (shapes_read(paths[i], &files[i]) != CARAT_OK) {
            exit_code = command_failed(command, "%s", carat_last_message());
        }
        total += files[i].count;
    }
    bench->ratios = malloc((size_t)(total + 1) * sizeof(*bench->ratios));
    if (exit_code == EXIT_OK && !bench->ratios) {
        exit_code = command_failed(command, "no memory for %d cases", total);
    }
    if (exit_code == EXIT_OK) {
        exit_code = read_ceilings(bench, command, ceilings_path);
    }
    if (exit_code == EXIT_OK) {
        write_json(bench, report_head(&bench->field.stages[0].place, bench->field.contenders,
                                      bench->field.count, &bench->ceilings));
        print_head(bench);
        for (int i = 0; i < path_count && exit_code == EXIT_OK; i++) {
            const char *slash = strrchr(paths[i], '/');
            for (int j = 0; j < files[i].count && exit_code == EXIT_OK; j++) {
                if (wanted(&files[i].items[j], filter) &&
                    bench_shape(bench, slash ? slash + 1 : paths[i], &files[i].items[j]) != CARAT_OK) {
                    exit_code = command_failed(command, "%s", carat_last_message());
                }
            }
        }
        print_summary(bench);
    }
    for (int i = 0; i < path_count; i++) {
        shapes_free(&files[i]);
    }
    free(bench->ratios);
    return exit_code == EXIT_OK && bench->wrong > 0 ? EXIT_FAILED : exit_code;
}

int command_bench(int argc, char **argv)
{
    const char *shapes = NULL;
    const char *against = NULL;
    const char *json_path = NULL;
    const char *filter = NULL;
    const char *ceilings_path = NULL;
    const char *device = "auto";
    double seconds = 0.4;
    int64_t rounds = 20;
    int64_t size = 0;
    bool memory = false;
    bool host = false;
    const struct option options[] = {
        {.name = "--shapes",
         .kind = OPTION_TEXT,
         .target = &shapes,
         .value = "FILE",
         .help = "the products to run: lines of type, layout of op(A) op(B), m n k [batch];\n"
                 "more files may follow as arguments"},
        {.name = "--against",
         .kind = OPTION_TEXT,
         .target = &against,
         .value = "LIST",
         .help = "others to run too, separated by commas: cublas, cublaslt, openblas (the CPU\n"
                 "device's BLAS), blas:PATH (a CBLAS library). Default: cublas,cublaslt on a GPU"},
        {.name = "--filter",
         .kind = OPTION_TEXT,
         .target = &filter,
         .value = "TYPES",
         .help = "only the shapes of these types: f32,f64"},
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "where Carat runs: auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write a line of JSON a case and contender after one line with all versions (-: to\n"
                 "standard output, with the table on standard error)"},
        {.name = "--time-limit",
         .kind = OPTION_REAL,
         .target = &seconds,
         .value = "S",
         .help = "about how long a contender is timed on a case (0.4)"},
        {.name = "--repeat",
         .kind = OPTION_COUNT,
         .target = &rounds,
         .value = "N",
         .help = "rounds at most, whose median is the time (20)"},
        {.name = "--ceilings",
         .kind = OPTION_TEXT,
         .target = &ceilings_path,
         .value = "FILE",
         .help = "take the device's limits from what 'carat ceiling --json FILE' wrote, rather than\n"
                 "measure them"},
        {.name = "--memory",
         .kind = OPTION_FLAG,
         .target = &memory,
         .help = "instead of shapes: scale_add and transpose of each type against the device's own copy"},
        {.name = "--host",
         .kind = OPTION_FLAG,
         .target = &host,
         .help = "instead of shapes: a product from pinned and from pageable host memory"},
        {.name = "--size",
         .kind = OPTION_COUNT,
         .target = &size,
         .value = "N",
         .help = "the size of the matrices of --memory (8192) and --host (16384)"},
    };
    const struct usage usage = {
        .synopsis = "carat bench [options] --shapes FILE [FILE ...]\n"
                    "carat bench [options] --memory\n"
                    "carat bench [options] --host",
        .description =
            "Times products beside other libraries. Each is checked first, on random input with the\n"
            "output poisoned; who is wrong gets no time. Then all run in turn, over more operands than\n"
            "the cache holds, as calls on a stream and as replays of a graph.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "share: the time that the device's limits allow, over the time taken. ratio: the time of the\n"
            "better of cublas and cublaslt (where there is none, of the best peer) over Carat's.\n"
            "tflops is from the better of time_us (calls on a stream) and graph_time_us (replays of a "
            "graph).\n"
            "The exit code is 1 where a result was wrong.\n\n"
            "  carat bench --shapes bench/shapes/square.txt --against cublas,cublaslt --json out.json",
    };
    const char *paths[MOST_FILES];
    int exit_code;
    int count = options_parse(&usage, argc, argv, paths + 1, MOST_FILES - 1, &exit_code);
    if (count < 0) {
        return exit_code;
    }
    paths[0] = shapes;
    if (!!shapes + memory + host != 1 || (!shapes && count > 0)) {
        return usage_error(argv[0], "give --shapes FILE, --memory or --host");
    }
    carat_device_kind kind;
    int index;
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    if (seconds <= 0 || rounds < 1) {
        return usage_error(argv[0], "--time-limit and --repeat must be more than 0");
    }
    struct bench bench = {
        .measure = {.seconds = seconds,
                    .rounds = rounds > 1000 ? 1000 : (int)rounds,
                    .check_budget = 1 << 25},
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
    };
    if (field_open(kind, index, &bench.field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    bool cuda = bench.field.stages[0].place.cuda;
    exit_code = EXIT_OK;
    if (json_path) {
        bench.json = strcmp(json_path, "-") == 0 ? stdout : fopen(json_path, "w");
        if (!bench.json) {
            exit_code = command_failed(argv[0], "cannot write %s", json_path);
        }
    }
    if (exit_code == EXIT_OK && memory) {
        exit_code =
            bench_memory(&bench.field.stages[0], size ? size : 8192, seconds, bench.json, bench.table);
    } else if (exit_code == EXIT_OK && host) {
        exit_code = bench_host(&bench.field.stages[0], size ? size : 16384, bench.json, bench.table);
    } else if (exit_code == EXIT_OK) {
        if (field_add_carat(&bench.field) != CARAT_OK) {
            exit_code = command_failed(argv[0], "%s", carat_last_message());
        } else {
            exit_code = add_peers(&bench, argv[0], against ? against : cuda ? "cublas,cublaslt" : "");
        }
        if (exit_code == EXIT_OK) {
            exit_code = bench_files(&bench, argv[0], paths, count + 1, filter, ceilings_path);
        }
    }
    if (bench.json && bench.json != stdout && fclose(bench.json) != 0) {
        exit_code = command_failed(argv[0], "cannot write %s", json_path);
    }
    field_close(&bench.field);
    return exit_code;
}
