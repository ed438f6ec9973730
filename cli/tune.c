/* tune.c - carat tune: writes the table of measured times that corrects the cost model on a device. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "device.h"
#include "dtype.h"
#include "options.h"
#include "status.h"
#include "survey.h"
#include "tune.h"

enum { MOST_FILES = 32 };
/* A product of a shape that was asked for may take so long, one of a shape drawn or of the grid much less. */
static const double MOST_SECONDS_OF_GIVEN = 0.1;

/* What a table that is gone on with holds. */
struct lines {
    struct tuning_line *items;
    int count;
    int room;
    int ways; /* lines of whole ways, which are not kept */
};

static carat_status keep_line(void *context, const struct tuning_head *head, const struct tuning_line *line)
{
    (void)head;
    struct lines *lines = context;
    if (line->whole) {
        lines->ways++;
        return CARAT_OK;
    }
    if (lines->count == lines->room) {
        int room = lines->room ? 2 * lines->room : 1024;
        struct tuning_line *items = realloc(lines->items, (size_t)room * sizeof(*items));
        if (!items) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %d lines", room);
        }
        lines->items = items;
        lines->room = room;
    }
    lines->items[lines->count++] = *line;
    return CARAT_OK;
}

/* The lines of a table of this device, and its head in place of what this device's would be. */
static carat_status read_lines(const char *path, struct tuning_head *head, struct lines *lines)
{
    char *text;
    size_t length;
    const struct tuning_head here = *head;
    CARAT_TRY(tuning_load(path, &text, &length));
    carat_status status = tuning_read(path, text, length, keep_line, lines, head);
    free(text);
    if (status == CARAT_OK && strcmp(head->device, here.device) != 0) {
        status = fail(CARAT_INVALID_ARGUMENT, "%s is a table of %s, but this is %s", path, head->device,
                      here.device);
    }
    return status;
}

/* The library's table to which one adds, or a new one is to add. */
static carat_status open_base(const struct device_traits *traits, struct tuning_head *head,
                              struct tuning_table **base)
{
    const char *device = head->over[0] ? head->over : NULL;
    CARAT_TRY(tuning_open_shipped(traits, device, base));
    if (!*base) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "there is nothing to add to: the library has no table%s%s for a device like %s",
                    device ? " of " : "", device ? device : "", traits->name);
    }
    snprintf(head->over, sizeof(head->over), "%s", tuning_device(*base));
    return CARAT_OK;
}

/* "NVIDIA H200" as "nvidia-h200.txt". */
static void default_path(const char *device, char *path, size_t size)
{
    size_t length = 0;
    for (const char *at = device; *at && length + 5 < size; at++) {
        path[length++] = isalnum((unsigned char)*at) ? (char)tolower((unsigned char)*at) : '-';
    }
    snprintf(path + length, size - length, ".txt");
}

static void print_totals(const char *path, const struct survey_totals *totals)
{
    printf("%s: %d measured", path, totals->measured);
    const struct {
        int count;
        const char *why;
    } others[] = {
        {totals->known, "there already"},
        {totals->hopeless, "left out as too slow ever to be chosen"},
        {totals->impossible, "left out as too large or without a way to do them"},
        {totals->failed, "failed"},
        {totals->late, "not come to in the time"},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (others[i].count > 0) {
            printf(", %d %s", others[i].count, others[i].why);
        }
    }
    printf("\n");
    if (totals->of_base > 0) {
        printf("rows that the table knows to which this one adds: %d\n", totals->of_base);
    }
    if (totals->of_split > 0) {
        printf("rows that multiply split operands, which have no points of their own: %d\n",
               totals->of_split);
    }
    if (totals->failed > 0) {
        printf("the first that failed: %s\n", totals->why);
    }
}

/* Whether every word of a list, separated by commas, is a type; what is none goes to word. */
static bool are_types(const char *list, char *word, size_t size)
{
    for (const char *at = list; at; at = strchr(at, ',')) {
        carat_type type;
        at += *at == ',';
        snprintf(word, size, "%.*s", (int)strcspn(at, ","), at);
        if (strcmp(word, "tf32") != 0 && !type_read(word, &type)) {
            return false;
        }
    }
    return true;
}

/* Whole ways, the best by the table as it stands in the file: of the shapes given, or else of such as are drawn. */
static carat_status tune_ways_by(struct stage *stage, const struct ways_options *options,
                                 const struct shapes *shapes, const char *path, FILE *out,
                                 struct ways_totals *totals)
{
    struct device_traits traits = stage->place.device->traits;
    struct tuning_table *table;
    char *text;
    size_t length;
    fflush(out);
    CARAT_TRY(tuning_load(path, &text, &length));
    carat_status status = tuning_parse(&traits, path, text, length, &table);
    free(text);
    CARAT_TRY(status);
    tuning_apply(table, &traits);
    status = shapes ? survey_shapes(stage, &traits, options, shapes, out, totals)
                    : survey_ways(stage, &traits, options, out, totals);
    tuning_close(table);
    return status;
}

/*
 * Those drawn so many times over: with what was learned, other ways look best, and those are measured next that only
 * look so because nobody has. The shapes given come last, when most is known of them.
 */
static carat_status tune_all_ways(struct stage *stage, const struct ways_options *options,
                                  const struct shapes *shapes, const char *path, FILE *out)
{
    enum { TIMES = 6 };
    struct ways_options how = *options;
    struct ways_totals totals = {0};
    how.seconds /= TIMES;
    for (int i = 0; i < TIMES && how.seconds > 0; i++) {
        CARAT_TRY(tune_ways_by(stage, &how, NULL, path, out, &totals));
    }
    if (shapes->count > 0) {
        how.most_seconds = MOST_SECONDS_OF_GIVEN;
        CARAT_TRY(tune_ways_by(stage, &how, shapes, path, out, &totals));
    }
    printf("%s: %d ways to do %d shapes measured, %d shapes left out as too large, %d ways failed\n", path,
           totals.ways, totals.shapes, totals.too_large, totals.failed);
    return CARAT_OK;
}

/* What is done with a table that is there, or to be: begun anew, gone on with, or begun as one that adds to the library's. */
enum beginning { BEGIN_ANEW, RESUME, ADD };

static carat_status tune(struct stage *stage, struct survey_options *options, struct ways_options *ways,
                         const struct shapes *shapes, const char *path, enum beginning beginning)
{
    CARAT_TRY(tune_has_ways(stage)); /* before a table that is there is written over */
    struct tuning_head head = survey_head(&stage->place);
    struct tuning_table *base = NULL;
    struct lines lines = {0};
    struct survey_totals totals = {0};
    char text[600];
    bool resume = beginning == RESUME;
    carat_status status = resume ? read_lines(path, &head, &lines) : CARAT_OK;
    if (status == CARAT_OK && (beginning == ADD || head.over[0])) {
        status = open_base(&stage->place.device->traits, &head, &base);
    }
    options->base = base;
    FILE *out = status == CARAT_OK ? fopen(path, resume ? "a" : "w") : NULL;
    if (status == CARAT_OK && !out) {
        status = fail(CARAT_INVALID_ARGUMENT, "cannot write %s", path);
    }
    if (status == CARAT_OK) {
        setvbuf(out, NULL, _IOLBF, 0); /* a run that is cut short leaves whole lines, to go on from */
        if (!resume) {
            tuning_head_text(&head, text, sizeof(text));
            fputs(text, out);
        }
    }
    if (status == CARAT_OK && options->seconds > 0) {
        status = survey(stage, options, lines.items, lines.count, out, &totals);
        if (status == CARAT_OK) {
            print_totals(path, &totals);
        }
    }
    if (status == CARAT_OK && (ways->seconds > 0 || shapes->count > 0)) {
        ways->seed += (uint64_t)lines.ways << 32; /* other shapes than those that are there */
        status = tune_all_ways(stage, ways, shapes, path, out);
    }
    if (out && fclose(out) != 0 && status == CARAT_OK) {
        status = fail(CARAT_INVALID_ARGUMENT, "cannot write %s", path);
    }
    free(lines.items);
    tuning_close(base);
    return status;
}

/* All of the files, 8-bit floats both ways. */
static carat_status read_shapes(const char *const *paths, int count, struct shapes *shapes)
{
    for (int i = 0; i < count; i++) {
        CARAT_TRY(shapes_read(paths[i], shapes));
    }
    return shapes_add_fast(shapes);
}

int command_tune(int argc, char **argv)
{
    const char *device = "cuda";
    const char *types = NULL;
    const char *path = NULL;
    double minutes = 4;
    double seconds = 60;
    int64_t seed = 1;
    int64_t largest = 0;
    bool resume = false;
    bool add = false;
    const struct option options[] = {
        {.name = "--minutes",
         .kind = OPTION_AMOUNT,
         .target = &minutes,
         .value = "N",
         .help = "measure kernels for so long at most; what tells most comes first (4)"},
        {.name = "--ways",
         .kind = OPTION_AMOUNT,
         .target = &seconds,
         .value = "SECONDS",
         .help = "then time whole ways to do shapes drawn at random for so long (60)"},
        {.name = "--seed",
         .kind = OPTION_COUNT,
         .target = &seed,
         .value = "N",
         .help = "what --ways begins with: other shapes for each number, and none that bench\n"
                 "draws (1)"},
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &types,
         .value = "TYPES",
         .help = "only these types, separated by commas: bf16,tf32 (all)"},
        {.name = "--out",
         .kind = OPTION_TEXT,
         .target = &path,
         .value = "FILE",
         .help = "the table to write (the device's name: nvidia-h200.txt)"},
        {.name = "--resume",
         .kind = OPTION_FLAG,
         .target = &resume,
         .help = "go on with a table: measure what it lacks"},
        {.name = "--add",
         .kind = OPTION_FLAG,
         .target = &add,
         .help = "begin a table that adds to the library's own for this device, or for one much\n"
                 "like it: measure what that lacks"},
        {.name = "--largest",
         .kind = OPTION_COUNT,
         .target = &largest,
         .value = "N",
         .help = "leave out products with a side longer than this"},
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "cuda or cuda:N (cuda)"},
    };
    const struct usage usage = {
        .synopsis = "carat tune [options] [SHAPES ...]",
        .description =
            "Measures every kernel of the library on this device over a coarse grid of shapes, and writes a "
            "table\n"
            "of times; then whole ways to do random shapes, to learn from what the choice is worth. With the "
            "table\n"
            "the choice of kernels rests on measurements, also between the points of the grid. It is a text "
            "file,\n"
            "used where the environment's CARAT_TUNING names it.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes = "Of the shapes in files like those of bench, if any are given, whole ways are timed last, "
                 "of each.\n\n"
                 "  carat tune --out here.txt\n"
                 "  carat tune --out here.txt --resume --minutes 0 --ways 0 bench/shapes/llm.txt\n"
                 "  carat tune --out mine.txt --add --ways 0 my-shapes.txt\n"
                 "  CARAT_TUNING=here.txt carat bench --random 200 --every-row",
    };
    const char *paths[MOST_FILES];
    int exit_code;
    int path_count = options_parse(&usage, argc, argv, paths, MOST_FILES, &exit_code);
    if (path_count < 0) {
        return exit_code;
    }
    carat_device_kind kind;
    int index;
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be cuda or cuda:N", device);
    }
    char word[32];
    if (!are_types(types, word, sizeof(word))) {
        return usage_error(argv[0], "--type has '%s', which is no element type", word);
    }
    if (resume && add) {
        return usage_error(argv[0],
                           "--resume and --add are given, but a table that is there adds or does not");
    }
    if (minutes + seconds == 0 && path_count == 0) {
        return usage_error(
            argv[0], "--minutes is %g and --ways is %g, but there must be time for one of them, or shapes",
            minutes, seconds);
    }
    struct shapes shapes = {0};
    struct stage stage;
    if (read_shapes(paths, path_count, &shapes) != CARAT_OK || stage_open(kind, index, &stage) != CARAT_OK) {
        shapes_free(&shapes);
        return command_failed(argv[0], "%s", carat_last_message());
    }
    char own_path[300];
    default_path(stage.place.info.name, own_path, sizeof(own_path));
    struct survey_options how = {
        .seconds = 60 * minutes,
        .types = types,
        .most_seconds = 4e-3,
        .most_bytes = stage.place.cuda ? (double)stage.place.info.memory_bytes / 64 : 0,
        .largest_side = largest,
        .slack = 3,
    };
    struct ways_options ways = {
        .seconds = seconds,
        .dtypes = types,
        .seed = (uint64_t)seed,
        .most_seconds = 3e-3,
        .most_bytes = how.most_bytes,
        .largest_side = largest,
    };
    exit_code = EXIT_OK;
    enum beginning beginning = resume ? RESUME : add ? ADD : BEGIN_ANEW;
    if (tune(&stage, &how, &ways, &shapes, path ? path : own_path, beginning) != CARAT_OK) {
        exit_code = command_failed(argv[0], "%s", carat_last_message());
    }
    stage_close(&stage);
    shapes_free(&shapes);
    return exit_code;
}
