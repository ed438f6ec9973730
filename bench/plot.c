/* plot.c - writes scripts for gnuplot and has it draw them. */
#include "plot.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ladder.h"
#include "report.h"
#include "status.h"

/* Text within single quotes, where gnuplot reads '' as one quote. */
static void put_quoted(FILE *script, const char *text)
{
    fputc('\'', script);
    for (; *text; text++) {
        fputc(*text, script);
        if (*text == '\'') {
            fputc('\'', script);
        }
    }
    fputc('\'', script);
}

static FILE *open_gnuplot(const char *path, const char *title)
{
    if (system("command -v gnuplot >/dev/null 2>&1") != 0) {
        fail(CARAT_UNSUPPORTED, "gnuplot is not installed; plot a JSON file later with --from");
        return NULL;
    }
    FILE *script = popen("gnuplot", "w");
    if (!script) {
        fail(CARAT_UNSUPPORTED, "gnuplot could not be started");
        return NULL;
    }
    signal(SIGPIPE, SIG_IGN); /* should gnuplot end early, its exit status says so */
    fprintf(
        script,
        "set terminal svg size 1000,640 dynamic background rgb 'white' font 'sans-serif,13'\nset output ");
    put_quoted(script, path);
    fprintf(script, "\nset title ");
    put_quoted(script, title);
    fprintf(script, " noenhanced\nset grid\nset key outside right noenhanced\nset logscale xy\n");
    return script;
}

static carat_status close_gnuplot(FILE *script, const char *path)
{
    return pclose(script) == 0 ? CARAT_OK : fail(CARAT_INVALID_ARGUMENT, "gnuplot could not draw %s", path);
}

static double ceiling_value(const json_t *document, const char *name)
{
    size_t i;
    json_t *item;
    json_array_foreach(json_object_get(document, "ceilings"), i, item)
    {
        if (strcmp(text_of(item, "name"), name) == 0) {
            return number_of(item, "value");
        }
    }
    return 0;
}

static void title_of(const json_t *document, char *title, size_t size)
{
    snprintf(title, size, "carat ladder, %s, %s", text_of(document, "dtype"), text_of(document, "device"));
}

/* Whether a result is its kernel's last word: timed, and not at a larger size too. */
static bool is_largest(const json_t *results, const json_t *result)
{
    size_t i;
    json_t *other;
    json_array_foreach(results, i, other)
    {
        if (strcmp(text_of(other, "kernel"), text_of(result, "kernel")) == 0 &&
            number_of(other, "gflops") > 0 && number_of(other, "size") > number_of(result, "size")) {
            return false;
        }
    }
    return number_of(result, "gflops") > 0;
}

/* Whether no other kernel of the rung is faster: that one is drawn. */
static bool is_fastest(const json_t *results, const json_t *result)
{
    size_t i;
    json_t *other;
    json_array_foreach(results, i, other)
    {
        if (number_of(other, "rung") == number_of(result, "rung") && number_of(other, "rung") > 0 &&
            is_largest(results, other) && number_of(other, "gflops") > number_of(result, "gflops")) {
            return false;
        }
    }
    return true;
}

/* A block of data with a line of "size rate" for each timed result of one kernel. */
static void put_series(FILE *script, int number, const json_t *results, const char *kernel)
{
    fprintf(script, "$series%d << END\n", number);
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        if (strcmp(text_of(result, "kernel"), kernel) == 0 && number_of(result, "gflops") > 0) {
            fprintf(script, "%.0f %.6g\n", number_of(result, "size"), number_of(result, "gflops"));
        }
    }
    fprintf(script, "END\n");
}

enum { MOST_SERIES = 24 };

/* A colour for each rung and each peer; gnuplot's own begin anew with the ninth. */
static const char *const colours[] = {"#999999", "#56b4e9", "#e69f00", "#b5a800", "#0072b2", "#d55e00",
                                      "#8b4513", "#9400d3", "#009e73", "#000000", "#cc0066", "#666666"};
enum { COLOURS = sizeof(colours) / sizeof(colours[0]) };

carat_status plot_ladder(const json_t *document, const char *path)
{
    const json_t *results = json_object_get(document, "results");
    const json_t *series[MOST_SERIES];
    int count = 0;
    double smallest = 0;
    double largest = 0;
    size_t i;
    json_t *result;
    char title[400];
    title_of(document, title, sizeof(title));
    FILE *script = open_gnuplot(path, title);
    if (!script) {
        return CARAT_UNSUPPORTED;
    }
    /* Peers come after the rungs. */
    for (int peers = 0; peers < 2; peers++) {
        json_array_foreach(results, i, result)
        {
            double size = number_of(result, "size");
            if (is_setting(result)) {
                continue; /* several times as fast as any rung, which would be hard to see beside it */
            }
            smallest = smallest == 0 || size < smallest ? size : smallest;
            largest = size > largest ? size : largest;
            if ((number_of(result, "rung") > 0) != peers && count < MOST_SERIES &&
                is_largest(results, result) && is_fastest(results, result)) {
                put_series(script, count, results, text_of(result, "kernel"));
                series[count++] = result;
            }
        }
    }
    fprintf(script,
            "set xlabel 'm = n = k'\nset ylabel 'GFLOP/s'\nset logscale x 2\nset format y '%%g'\n"
            "set xtics (128, 256, 512, 1024, 2048, 4096, 8192, 16384)\nset xrange [%.6g:%.6g]\nplot ",
            smallest * 0.9, largest * 1.1);
    for (int k = 0; k < count; k++) {
        bool rung = number_of(series[k], "rung") > 0;
        char label[120];
        rung_label(series[k], label, sizeof(label));
        fprintf(script, "%s$series%d using 1:2 with linespoints %s lc rgb '%s' title ", k ? ", " : "", k,
                rung ? "lw 2" : "dt 2", colours[k % COLOURS]);
        put_quoted(script, label);
    }
    double ceiling = number_of(document, "ceiling_gflops");
    if (ceiling > 0) {
        fprintf(script, "%s%.6g with lines lw 3 lc 'black' title 'ceiling'", count ? ", " : "", ceiling);
    }
    fprintf(script, "\n");
    return close_gnuplot(script, path);
}

carat_status plot_roofline(const json_t *document, const char *path)
{
    const json_t *results = json_object_get(document, "results");
    double ceiling = number_of(document, "ceiling_gflops");
    double read = ceiling_value(document, "ceiling_read");
    double copy = ceiling_value(document, "ceiling_copy");
    double memory = read > copy ? read : copy;
    double least = 0;
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        double rate =
            is_largest(results, result) && number_of(result, "rung") > 0 ? number_of(result, "gflops") : 0;
        least = rate > 0 && (least == 0 || rate < least) ? rate : least;
    }
    if (least == 0 || ceiling == 0 || memory == 0) {
        return fail(CARAT_INVALID_ARGUMENT, "the results have no rung with a time, or no ceilings");
    }
    char title[400];
    char name[300];
    title_of(document, name, sizeof(name));
    snprintf(title, sizeof(title), "%s: roofline, each rung at its largest size", name);
    FILE *script = open_gnuplot(path, title);
    if (!script) {
        return CARAT_UNSUPPORTED;
    }
    /* Odd rungs have their names to the right, even ones to the left: neighbours lie close together. */
    for (int even = 0; even < 2; even++) {
        fprintf(script, "$rungs%d << END\n", even);
        json_array_foreach(results, i, result)
        {
            int rung = (int)number_of(result, "rung");
            if (number_of(result, "intensity") > 0 && rung % 2 != even && is_largest(results, result) &&
                is_fastest(results, result)) {
                char label[120];
                rung_label(result, label, sizeof(label));
                fprintf(script, "%.6g %.6g \"%s\"\n", number_of(result, "intensity"),
                        number_of(result, "gflops"), label);
            }
        }
        fprintf(script, "END\n");
    }
    fprintf(
        script,
        "set xlabel 'arithmetic intensity of the counted global traffic, FLOP/byte'\nset ylabel 'GFLOP/s'\n"
        "set format y '%%g'\nset xrange [0.1:512]\nset yrange [%.6g:%.6g]\nset key inside top left\n"
        "set samples 400\nplot (x * %.6g < %.6g ? x * %.6g : %.6g) with lines lw 2 lc 'black' title "
        "'roof: %.0f GB/s, %.0f GFLOP/s', for [i=0:1] '$rungs'.i using 1:2 with points pt 7 ps 0.6 lc 'red' "
        "notitle, "
        "$rungs0 using 1:2:3 with labels left offset 0.7,0 noenhanced font ',11' notitle, "
        "$rungs1 using 1:2:3 with labels right offset -0.7,0 noenhanced font ',11' notitle\n",
        least / 4, (ceiling > least ? ceiling : least) * 2, memory, ceiling, memory, ceiling, memory,
        ceiling);
    return close_gnuplot(script, path);
}

/* ---- The settings of accuracy ---- */

static bool is_own(const struct tradeoff_point *point) { return strcmp(point->contender, "carat") == 0; }

/* "close"; a peer's with its name, and with the type that its products are rounded to: "cublas tf32". */
static void tradeoff_label(const struct tradeoff_point *point, char *label, size_t size)
{
    if (is_own(point)) {
        snprintf(label, size, "%s", point->setting);
    } else {
        snprintf(label, size, "%s %s", point->contender,
                 strcmp(point->setting, "fast") == 0 ? "tf32" : "f32");
    }
}

/* The points of Carat's, or those of the others, and how they look. */
struct tradeoff_group {
    const char *data;
    const char *title;
    bool own;
    int point_type;
    const char *colour;
    int label_offset; /* in lines: the two lie close together, so names stand above the one and below the other */
};

static const struct tradeoff_group tradeoff_groups[] = {
    {"$own", "Carat", true, 7, "#0072b2", -1},
    {"$others", "other libraries", false, 5, "#d55e00", 1},
};

/* A block of data with a line of "rate error label" for each point of a group; how many there are. */
static int put_points(FILE *script, const struct tradeoff *tradeoff, const struct tradeoff_group *group)
{
    int count = 0;
    fprintf(script, "%s << END\n", group->data);
    for (int i = 0; i < tradeoff->count; i++) {
        const struct tradeoff_point *point = &tradeoff->points[i];
        if (point->tflops > 0 && is_own(point) == group->own) {
            char label[80];
            tradeoff_label(point, label, sizeof(label));
            fprintf(script, "%.6g %.6g \"%s\"\n", point->tflops, point->error, label);
            count++;
        }
    }
    fprintf(script, "END\n");
    return count;
}

/* The axes, with room for labels around all points. */
static void put_tradeoff_axes(FILE *script, const struct tradeoff *tradeoff)
{
    double least = 0;
    double most = 0;
    double fastest = 0;
    for (int i = 0; i < tradeoff->count; i++) {
        const struct tradeoff_point *point = &tradeoff->points[i];
        if (point->tflops > 0) {
            least = least == 0 || point->error < least ? point->error : least;
            most = point->error > most ? point->error : most;
            fastest = point->tflops > fastest ? point->tflops : fastest;
        }
    }
    fprintf(
        script,
        "unset logscale x\nset xlabel 'TFLOP/s at m = n = k = %lld (NN)'\n"
        "set ylabel 'largest |c - ref| / (|A||B|) at k = %lld, %s inputs'\n"
        "set format y '10^{%%L}'\nset xrange [0:%.6g]\nset yrange [%.6g:%.6g]\nset key inside bottom right\n",
        (long long)tradeoff->side, (long long)tradeoff->k, tradeoff->family, fastest * 1.15, least / 4,
        most * 4);
}

static void put_tradeoff(FILE *script, const struct tradeoff *tradeoff)
{
    enum { GROUPS = sizeof(tradeoff_groups) / sizeof(tradeoff_groups[0]) };
    int counts[GROUPS];
    put_tradeoff_axes(script, tradeoff);
    for (int i = 0; i < GROUPS; i++) {
        counts[i] = put_points(script, tradeoff, &tradeoff_groups[i]);
    }
    const char *between = "plot ";
    for (int i = 0; i < GROUPS; i++) {
        const struct tradeoff_group *group = &tradeoff_groups[i];
        if (counts[i] > 0) {
            fprintf(script,
                    "%s%s using 1:2 with points pt %d ps 1.1 lc rgb '%s' title '%s', "
                    "%s using 1:2:3 with labels center offset 0,%d tc rgb '%s' noenhanced notitle",
                    between, group->data, group->point_type, group->colour, group->title, group->data,
                    group->label_offset, group->colour);
            between = ", ";
        }
    }
    fprintf(script, "\n");
}

carat_status plot_tradeoff(const struct tradeoff *tradeoff, const char *path)
{
    bool any = false;
    for (int i = 0; i < tradeoff->count; i++) {
        any = any || tradeoff->points[i].tflops > 0;
    }
    if (!any) {
        return fail(CARAT_INVALID_ARGUMENT, "no setting has a rate at m = n = k = %lld (NN)",
                    (long long)tradeoff->side);
    }
    char title[300];
    snprintf(title, sizeof(title), "carat accuracy, f32, %s: error over speed of each setting",
             tradeoff->device);
    FILE *script = open_gnuplot(path, title);
    if (!script) {
        return CARAT_UNSUPPORTED;
    }
    put_tradeoff(script, tradeoff);
    return close_gnuplot(script, path);
}
