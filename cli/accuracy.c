/*
 * accuracy.c - carat accuracy: how far each setting of accuracy is from the true product of f32 matrices,
 * family by family and k by k, beside other libraries.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "accuracy.h"
#include "commands.h"
#include "field.h"
#include "options.h"
#include "plot.h"
#include "progress.h"
#include "report.h"
#include "status.h"
#include "tradeoff.h"

enum { MOST_DEPTHS = 32, MOST_RATE_FILES = 16, MOST_ELEMENTS = 1 << 24, LEAST_SIDE = 64 };

/* A contender with one of its settings: what a column of the results stands for. */
struct setting {
    const char *contender;
    const char *name;
    carat_accuracy accuracy;
};

/* The peers come first: what others reached is shown beside. */
static const struct setting settings[] = {
    {"cublas", "default", CARAT_ACCURACY_STANDARD},   {"cublas", "fast", CARAT_ACCURACY_FAST},
    {"openblas", "default", CARAT_ACCURACY_STANDARD}, {"carat", "standard", CARAT_ACCURACY_STANDARD},
    {"carat", "strict", CARAT_ACCURACY_STRICT},       {"carat", "fast", CARAT_ACCURACY_FAST},
    {"carat", "best", CARAT_ACCURACY_BEST},           {"carat", "close", CARAT_ACCURACY_CLOSE},
};
enum { SETTING_COUNT = sizeof(settings) / sizeof(settings[0]) };

struct accuracy {
    struct field field;
    FILE *table;
    FILE *json;
    struct accuracy_input input;
    int64_t side;
    int64_t seed;
    int64_t entries;
    int64_t depths[MOST_DEPTHS];
    int depth_count;
    double begin;
    double time_limit; /* seconds; 0: there is none */
    double seconds[SETTING_COUNT];
    int measured;
    int over;  /* settings of Carat that were over their bound */
    int cases; /* so far, with those left out */
    int left_out;
};

/* ---- What is printed and written -------------------------------------------------------------------- */

/* A setting's outcome on one case. */
struct outcome_line {
    const struct setting *setting;
    const struct accuracy_case *what;
    const struct accuracy_errors *errors; /* NULL: the contender cannot */
    const struct accuracy_errors *peer;   /* NULL: nobody is beside */
    const char *peer_name;
    const char *text; /* the plan, or why not */
    bool over;
};

static double ratio(double x, double y) { return y > 0 ? x / y : 0; }

static bool write_line(FILE *file, const struct outcome_line *line)
{
    const struct accuracy_case *what = line->what;
    const char *outcome = !line->errors ? "cannot" : line->over ? "over" : "measured";
    json_t *json = json_pack(
        "{s:s, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:s, s:s, s:s, s:s?}", "kind", "accuracy", "family",
        accuracy_family_name(what->family), "easy", accuracy_family_easy(what->family), "exact",
        accuracy_family_exact(what->family), "m", (json_int_t)what->m, "n", (json_int_t)what->n, "k",
        (json_int_t)what->k, "seed", (json_int_t)what->seed, "contender", line->setting->contender,
        "accuracy", line->setting->name, "outcome", outcome, line->errors ? "plan" : "reason", line->text);
    if (line->errors) {
        const struct accuracy_errors *errors = line->errors;
        json_object_set_new(json, "entries", json_integer(errors->entries));
        json_object_set_new(json, "misrounded", json_integer(errors->misrounded));
        /* 0 is a figure here, and what is no number is null. */
        json_object_set_new(json, "error_max",
                            isfinite(errors->most) ? json_real(errors->most) : json_null());
        json_object_set_new(json, "error_mean",
                            isfinite(errors->mean) ? json_real(errors->mean) : json_null());
        json_object_set_new(json, "peer", line->peer ? json_string(line->peer_name) : json_null());
        if (line->peer) {
            json_object_set_new(json, "ratio_max", json_known(ratio(errors->most, line->peer->most)));
            json_object_set_new(json, "ratio_mean", json_known(ratio(errors->mean, line->peer->mean)));
        }
    }
    bool written = report_line(file, json);
    json_decref(json);
    return written;
}

/* Errors in units of 2^-24, which is half a unit in the last place of 1. */
static void print_line(FILE *out, const struct outcome_line *line)
{
    char name[64];
    snprintf(name, sizeof(name), "%s %s", line->setting->contender, line->setting->name);
    fprintf(out, "  %-18s", name);
    if (!line->errors) {
        fprintf(out, " cannot: %s\n", line->text);
        return;
    }
    const struct accuracy_errors *errors = line->errors;
    fprintf(out, " %12.4f %12.5f %9lld%s", errors->most * 0x1p24, errors->mean * 0x1p24,
            (long long)errors->misrounded, line->over ? " !" : "");
    if (line->peer && line->peer->most > 0) {
        fprintf(out, " %8.2f %8.2f", errors->most / line->peer->most, errors->mean / line->peer->mean);
    }
    fputc('\n', out);
}

/* ---- Measuring -------------------------------------------------------------------------------------- */

/* One setting on an input. The first that succeeds of the peers is who the others stand beside. */
static carat_status measure_setting(struct accuracy *accuracy, const struct setting *setting,
                                    struct accuracy_errors *peer, const char **peer_name)
{
    struct accuracy_input *input = &accuracy->input;
    int at = field_find(&accuracy->field, setting->contender);
    if (at < 0) {
        return CARAT_OK;
    }
    struct contender *contender = accuracy->field.contenders[at];
    struct accuracy_errors errors = {0};
    carat_status status = accuracy_measure(contender, setting->accuracy, input, &errors);
    if (status != CARAT_OK && status != CARAT_UNSUPPORTED) {
        return status;
    }
    bool own = strcmp(setting->contender, "carat") == 0;
    struct outcome_line line = {
        .setting = setting,
        .what = &input->what,
        .errors = status == CARAT_OK ? &errors : NULL,
        .peer = *peer_name ? peer : NULL,
        .peer_name = *peer_name,
        .text = status == CARAT_OK ? contender->plan : carat_last_message(),
        .over = own && status == CARAT_OK && !accuracy_holds(setting->accuracy, &input->what, &errors),
    };
    accuracy->measured += status == CARAT_OK;
    accuracy->over += line.over;
    print_line(accuracy->table, &line);
    if (accuracy->json && !write_line(accuracy->json, &line)) {
        return fail(CARAT_INVALID_ARGUMENT, "cannot write the results");
    }
    if (!own && !*peer_name && status == CARAT_OK) {
        *peer = errors;
        *peer_name = setting->contender;
    }
    return CARAT_OK;
}

static carat_status measure_case(struct accuracy *accuracy, const struct accuracy_case *what)
{
    const struct field *field = &accuracy->field;
    struct accuracy_input *input = &accuracy->input;
    carat_status status =
        accuracy_input_open(field->open_stages, field->stage_count, what, accuracy->entries, input);
    progress_end();
    CARAT_TRY(status);
    int64_t compared = input->truth.row_count * input->truth.column_count;
    fprintf(accuracy->table, "%s %lld x %lld x %lld, %lld entries\n", accuracy_family_name(what->family),
            (long long)what->m, (long long)what->n, (long long)what->k, (long long)compared);
    struct accuracy_errors peer = {0};
    const char *peer_name = NULL;
    for (int i = 0; i < SETTING_COUNT; i++) {
        double begin = now_seconds();
        CARAT_TRY(measure_setting(accuracy, &settings[i], &peer, &peer_name));
        accuracy->seconds[i] += now_seconds() - begin;
    }
    return CARAT_OK;
}

/* Says that there is no time for a case. */
static carat_status leave_out(struct accuracy *accuracy, const struct accuracy_case *what)
{
    const char *family = accuracy_family_name(what->family);
    char reason[64];
    snprintf(reason, sizeof(reason), "no time left of %g s", accuracy->time_limit);
    accuracy->left_out++;
    fprintf(accuracy->table, "%s %lld x %lld x %lld is left out: %s\n", family, (long long)what->m,
            (long long)what->n, (long long)what->k, reason);
    if (!accuracy->json) {
        return CARAT_OK;
    }
    json_t *json = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "kind", "skipped", "family", family, "m",
                             (json_int_t)what->m, "n", (json_int_t)what->n, "k", (json_int_t)what->k, "seed",
                             (json_int_t)what->seed, "reason", reason);
    bool written = report_line(accuracy->json, json);
    json_decref(json);
    return written ? CARAT_OK : fail(CARAT_INVALID_ARGUMENT, "cannot write the results");
}

/* ---- Drawing ---------------------------------------------------------------------------------------- */

/* What is drawn of results that were written before. */
struct drawing {
    const char *from; /* of carat accuracy */
    const char *plot;
    const char *rates[MOST_RATE_FILES]; /* of carat bench */
    int rate_count;
};

static carat_status draw(const struct drawing *drawing, struct tradeoff *tradeoff)
{
    CARAT_TRY(tradeoff_read_errors(drawing->from, tradeoff));
    for (int i = 0; i < drawing->rate_count; i++) {
        CARAT_TRY(tradeoff_read_rates(drawing->rates[i], tradeoff));
    }
    CARAT_TRY(plot_tradeoff(tradeoff, drawing->plot));
    for (int i = 0; i < tradeoff->count; i++) {
        const struct tradeoff_point *point = &tradeoff->points[i];
        if (point->tflops == 0) {
            printf("%s %s is left out: no file has its rate at m = n = k = %lld, NN\n", point->contender,
                   point->setting, (long long)tradeoff->side);
        }
    }
    return CARAT_OK;
}

/* ---- The command ------------------------------------------------------------------------------------ */

/* "16,64,1024" */
static bool parse_depths(const char *text, struct accuracy *accuracy)
{
    while (accuracy->depth_count < MOST_DEPTHS) {
        char word[24];
        size_t length = strcspn(text, ",");
        if (length >= sizeof(word)) {
            return false;
        }
        memcpy(word, text, length);
        word[length] = '\0';
        int64_t depth;
        if (!parse_count(word, &depth) || depth < 1) {
            return false;
        }
        accuracy->depths[accuracy->depth_count++] = depth;
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
    return false;
}

static const char *const peers[] = {"cublas", "openblas"};
enum { PEER_COUNT = sizeof(peers) / sizeof(peers[0]) };

/* "cublas,openblas", of which any may be missing; "none" has none. */
static bool parse_peers(const char *text, bool *wanted)
{
    bool none = strcmp(text, "none") == 0;
    while (!none) {
        size_t length = strcspn(text, ",");
        int peer = 0;
        while (peer < PEER_COUNT &&
               (strlen(peers[peer]) != length || strncmp(peers[peer], text, length) != 0)) {
            peer++;
        }
        if (peer == PEER_COUNT) {
            return false;
        }
        wanted[peer] = true;
        if (text[length] == '\0') {
            return true;
        }
        text += length + 1;
    }
    return true;
}

/*
 * NULL for wanted: the first one that is there. On a GPU that spares OpenBLAS, whose product of denormal numbers may take
 * a hundred times as long as of others.
 */
static carat_status open_field(struct accuracy *accuracy, carat_device_kind kind, int index,
                               const bool *wanted)
{
    CARAT_TRY(field_open(kind, index, &accuracy->field));
    for (int i = 0; i < PEER_COUNT; i++) {
        bool adds = wanted ? wanted[i] : accuracy->field.count == 0;
        carat_status status = adds ? field_add_peer(&accuracy->field, peers[i]) : CARAT_OK;
        if (status == CARAT_UNSUPPORTED) {
            fprintf(accuracy->table, "%s is left out: %s\n", peers[i], carat_last_message());
        } else {
            CARAT_TRY(status);
        }
    }
    return field_add_carat(&accuracy->field);
}

/* m and n of products of this k: a long k has the fewer rows and columns, for A and B would take too long to make. */
static int64_t side_of(const struct accuracy *accuracy, int64_t k)
{
    int64_t most = MOST_ELEMENTS / k > LEAST_SIDE ? MOST_ELEMENTS / k : LEAST_SIDE;
    return accuracy->side < most ? accuracy->side : most;
}

/*
 * The families at one depth; ACCURACY_FAMILIES for only: all of them. A case is begun where there is time for one as
 * long as the longest of this depth so far.
 */
static carat_status measure_depth(struct accuracy *accuracy, int64_t k, enum accuracy_family only, int cases)
{
    int64_t side = side_of(accuracy, k);
    double longest = 0;
    for (int family = 0; family < ACCURACY_FAMILIES; family++) {
        if (only != ACCURACY_FAMILIES && (int)only != family) {
            continue;
        }
        struct accuracy_case what = {(enum accuracy_family)family, (uint64_t)accuracy->seed, side, side, k};
        progress("%d of %d: %s, k = %lld", ++accuracy->cases, cases, accuracy_family_name(what.family),
                 (long long)k);
        double begin = now_seconds();
        if (accuracy->time_limit > 0 && begin - accuracy->begin + longest > accuracy->time_limit) {
            progress_end();
            CARAT_TRY(leave_out(accuracy, &what));
            continue;
        }
        CARAT_TRY(measure_case(accuracy, &what));
        double seconds = now_seconds() - begin;
        longest = seconds > longest ? seconds : longest;
    }
    return CARAT_OK;
}

static carat_status measure_all(struct accuracy *accuracy, enum accuracy_family only)
{
    fprintf(accuracy->table, "carat %s on %s\nerrors in 2^-24 |A||B|; * that of the first one named\n",
            carat_version(), accuracy->field.stages[0].place.info.name);
    fprintf(accuracy->table, "  %-18s %12s %12s %9s %8s %8s\n", "", "max", "mean", "misround", "max *",
            "mean *");
    int cases = accuracy->depth_count * (only == ACCURACY_FAMILIES ? ACCURACY_FAMILIES : 1);
    for (int i = 0; i < accuracy->depth_count; i++) {
        CARAT_TRY(measure_depth(accuracy, accuracy->depths[i], only, cases));
    }
    return CARAT_OK;
}

/* What was done, and what took how long. */
static void print_totals(const struct accuracy *accuracy)
{
    FILE *table = accuracy->table;
    const struct accuracy_seconds *seconds = &accuracy->input.seconds;
    fprintf(table, "seconds: inputs %.1f, their copies %.1f, true entries %.1f", seconds->fill,
            seconds->upload, seconds->truth);
    for (int i = 0; i < SETTING_COUNT; i++) {
        if (field_find(&accuracy->field, settings[i].contender) >= 0) {
            fprintf(table, ", %s %s %.1f", settings[i].contender, settings[i].name, accuracy->seconds[i]);
        }
    }
    fprintf(table, "\n%d measured, %d over their bound", accuracy->measured, accuracy->over);
    if (accuracy->left_out > 0) {
        fprintf(table, "; %d cases left out for want of time", accuracy->left_out);
    }
    fputc('\n', table);
}

int command_accuracy(int argc, char **argv)
{
    const char *device = "auto";
    const char *family = NULL;
    const char *depths = NULL;
    const char *json_path = NULL;
    const char *against = NULL;
    bool peers_wanted[PEER_COUNT] = {false};
    struct drawing drawing = {0};
    int64_t side = 0;
    bool side_given = false;
    int64_t entries = 4096;
    int64_t seed = 1;
    double time_limit = 0;
    const struct option options[] = {
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "where: auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--family",
         .kind = OPTION_TEXT,
         .target = &family,
         .value = "NAME",
         .help = "only this family of inputs"},
        {.name = "--size",
         .kind = OPTION_COUNT,
         .target = &side,
         .value = "N",
         .given = &side_given,
         .help =
             "m and n (512), fewer where k is so long that A would have more than 2^24 elements, but not\n"
             "under 64 then; of the products whose rates are drawn (4096)"},
        {.name = "--depths",
         .kind = OPTION_TEXT,
         .target = &depths,
         .value = "K,K,...",
         .help = "the values of k (16,64,256,1024,4096); the one that is drawn (1024)"},
        {.name = "--entries",
         .kind = OPTION_COUNT,
         .target = &entries,
         .value = "N",
         .help = "how many entries are compared at the least, beyond 256 x 256 or 2^30 products (4096); 0 "
                 "for all"},
        {.name = "--seed",
         .kind = OPTION_COUNT,
         .target = &seed,
         .value = "N",
         .help = "where random numbers start (1)"},
        {.name = "--against",
         .kind = OPTION_TEXT,
         .target = &against,
         .value = "LIST",
         .help =
             "who is measured beside, where he is installed: cublas, openblas, both with a comma, or none.\n"
             "Default: cublas, or openblas where there is no cublas"},
        {.name = "--time-limit",
         .kind = OPTION_AMOUNT,
         .target = &time_limit,
         .value = "S",
         .help = "begin no case that would not be done by then, in the order of --depths (no limit)"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write a line of JSON a result (-: to standard output, with the table on standard error)"},
        {.name = "--from",
         .kind = OPTION_TEXT,
         .target = &drawing.from,
         .value = "FILE",
         .help = "measure nothing: draw what --json FILE wrote before, with --plot"},
        {.name = "--plot",
         .kind = OPTION_TEXT,
         .target = &drawing.plot,
         .value = "FILE",
         .help = "draw the largest error of every setting over its rate as SVG, with gnuplot"},
    };
    const struct usage usage = {
        .synopsis = "carat accuracy [options]\ncarat accuracy --from FILE --plot FILE BENCH...",
        .description =
            "Multiplies f32 matrices of many families with every setting of accuracy, and prints the\n"
            "largest and the mean |D - true| / (|A||B|), entry by entry, against sums of twice the\n"
            "precision of f64; and how many entries are not the f32 nearest to the truth. cuBLAS or\n"
            "OpenBLAS, where it is installed, is measured beside and not judged.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "Families: normal, uniform, positive, integers, orthogonal, spread, exponents, scaled, huge,\n"
            "denormals, hilbert, vandermonde, identity, permutation, one-hot, small. An error over the\n"
            "a-priori bound of its setting is marked !, and the exit code is then 1.\n"
            "BENCH is what 'carat bench --json' wrote on the same device. Drawn are one family (normal) and "
            "one\n"
            "k, with the rates of m = n = k, NN, by the first file that has them.",
    };
    int exit_code;
    drawing.rate_count = options_parse(&usage, argc, argv, drawing.rates, MOST_RATE_FILES, &exit_code);
    if (drawing.rate_count < 0) {
        return exit_code;
    }
    carat_device_kind kind;
    int index;
    struct accuracy accuracy = {
        .seed = seed,
        .entries = entries,
        .begin = now_seconds(),
        .time_limit = time_limit,
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
    };
    enum accuracy_family only = family ? accuracy_family_find(family) : ACCURACY_FAMILIES;
    if (family && only == ACCURACY_FAMILIES) {
        return usage_error(argv[0], "there is no family '%s'", family);
    }
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    if (!depths) {
        depths = drawing.from ? "1024" : "16,64,256,1024,4096";
    }
    if (!parse_depths(depths, &accuracy)) {
        return usage_error(argv[0], "--depths is '%s', but should be up to %d numbers over 0, with commas",
                           depths, MOST_DEPTHS);
    }
    if (!side_given) {
        side = drawing.from ? 4096 : 512;
    }
    if (side < 1 || side > 65536) {
        return usage_error(argv[0], "--size is %lld, but should be from 1 to 65536", (long long)side);
    }
    accuracy.side = side;
    if (against && !parse_peers(against, peers_wanted)) {
        return usage_error(argv[0], "--against is '%s', but should be of cublas and openblas, or none",
                           against);
    }
    if (time_limit < 0) {
        return usage_error(argv[0], "--time-limit is %g, but should not be less than 0", time_limit);
    }
    if ((drawing.from == NULL) != (drawing.plot == NULL) ||
        (drawing.from != NULL) != (drawing.rate_count > 0)) {
        return usage_error(argv[0], "a plot takes --from, --plot and files of carat bench");
    }
    if (drawing.from) {
        if (accuracy.depth_count != 1 || json_path) {
            return usage_error(argv[0], "a plot is of one of --depths, and writes no --json");
        }
        struct tradeoff tradeoff = {.k = accuracy.depths[0], .side = side};
        snprintf(tradeoff.family, sizeof(tradeoff.family), "%s", family ? family : "normal");
        return draw(&drawing, &tradeoff) == CARAT_OK ? EXIT_OK
                                                     : command_failed(argv[0], "%s", carat_last_message());
    }
    if (json_path) {
        accuracy.json = strcmp(json_path, "-") == 0 ? stdout : fopen(json_path, "w");
        if (!accuracy.json) {
            return command_failed(argv[0], "cannot write %s", json_path);
        }
    }
    carat_status status = open_field(&accuracy, kind, index, against ? peers_wanted : NULL);
    if (status == CARAT_OK && accuracy.json) {
        json_t *head = report_head(&accuracy.field.stages[0].place, accuracy.field.contenders,
                                   accuracy.field.count, NULL);
        if (!report_line(accuracy.json, head)) {
            status = fail(CARAT_INVALID_ARGUMENT, "cannot write %s", json_path);
        }
        json_decref(head);
    }
    if (status == CARAT_OK) {
        status = measure_all(&accuracy, only);
    }
    exit_code = status == CARAT_OK ? EXIT_OK : command_failed(argv[0], "%s", carat_last_message());
    print_totals(&accuracy);
    if (accuracy.json && accuracy.json != stdout && fclose(accuracy.json) != 0) {
        exit_code = command_failed(argv[0], "cannot write %s", json_path);
    }
    accuracy_input_close(&accuracy.input);
    field_close(&accuracy.field);
    return exit_code == EXIT_OK && accuracy.over > 0 ? EXIT_FAILED : exit_code;
}
