/* plot.c - writes scripts for gnuplot and has it draw them. */
#include "plot.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    fprintf(script, "set terminal svg size 1000,640 dynamic background rgb 'white' font 'sans-serif,13'\nset output ");
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

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
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

/* Whether an earlier result has the same kernel: then its series has been begun. */
static bool seen_before(const json_t *results, size_t at)
{
    const char *name = text_of(json_array_get(results, at), "kernel");
    for (size_t i = 0; i < at; i++) {
        if (strcmp(text_of(json_array_get(results, i), "kernel"), name) == 0) {
            return true;
        }
    }
    return false;
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

enum { MOST_SERIES = 80 };

carat_status plot_ladder(const json_t *document, const char *path)
{
    const json_t *results = json_object_get(document, "results");
    const char *names[MOST_SERIES];
    int rungs[MOST_SERIES];
    int count = 0;
    size_t i;
    json_t *result;
    char title[400];
    title_of(document, title, sizeof(title));
    FILE *script = open_gnuplot(path, title);
    if (!script) {
        return CARAT_UNSUPPORTED;
    }
    json_array_foreach(results, i, result)
    {
        if (count < MOST_SERIES && !seen_before(results, i)) {
            names[count] = text_of(result, "kernel");
            rungs[count] = (int)number_of(result, "rung");
            put_series(script, count, results, names[count]);
            count++;
        }
    }
    fprintf(script, "set xlabel 'm = n = k'\nset ylabel 'GFLOP/s'\nset logscale x 2\nset format y '%%g'\n"
                    "set xtics (128, 256, 512, 1024, 2048, 4096, 8192, 16384)\nplot ");
    for (int k = 0; k < count; k++) {
        fprintf(script, "%s$series%d using 1:2 with linespoints lw %d%s title ", k ? ", " : "", k, rungs[k] ? 2 : 1,
                rungs[k] ? "" : " dt 2");
        char label[120];
        if (rungs[k]) {
            snprintf(label, sizeof(label), "%d %s", rungs[k], names[k]);
        } else {
            snprintf(label, sizeof(label), "%s", names[k]);
        }
        put_quoted(script, label);
    }
    double ceiling = number_of(document, "ceiling_gflops");
    if (ceiling > 0) {
        fprintf(script, "%s%.6g with lines lw 1 lc 'black' title 'ceiling'", count ? ", " : "", ceiling);
    }
    fprintf(script, "\n");
    return close_gnuplot(script, path);
}

carat_status plot_roofline(const json_t *document, const char *path)
{
    const json_t *results = json_object_get(document, "results");
    double ceiling = number_of(document, "ceiling_gflops");
    double memory = ceiling_value(document, "ceiling_read");
    double copy = ceiling_value(document, "ceiling_copy");
    memory = memory > copy ? memory : copy;
    double largest = 0;
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        double size = number_of(result, "size");
        if (number_of(result, "rung") > 0 && number_of(result, "gflops") > 0 && size > largest) {
            largest = size;
        }
    }
    if (largest == 0 || ceiling == 0 || memory == 0) {
        return fail(CARAT_INVALID_ARGUMENT, "the results have no rung with a time, or no ceilings");
    }
    char title[400];
    char name[300];
    title_of(document, name, sizeof(name));
    snprintf(title, sizeof(title), "%s: roofline (each rung at its largest size up to %.0f)", name, largest);
    FILE *script = open_gnuplot(path, title);
    if (!script) {
        return CARAT_UNSUPPORTED;
    }
    /* Each rung once, at the largest size that it was timed at. */
    fprintf(script, "$rungs << END\n");
    json_array_foreach(results, i, result)
    {
        bool last = true;
        for (size_t j = 0; j < json_array_size(results); j++) {
            const json_t *other = json_array_get(results, j);
            last = last && !(strcmp(text_of(other, "kernel"), text_of(result, "kernel")) == 0 &&
                             number_of(other, "gflops") > 0 && number_of(other, "size") > number_of(result, "size"));
        }
        if (last && number_of(result, "intensity") > 0 && number_of(result, "gflops") > 0) {
            fprintf(script, "%.6g %.6g \"%.0f %s\"\n", number_of(result, "intensity"), number_of(result, "gflops"),
                    number_of(result, "rung"), text_of(result, "kernel"));
        }
    }
    fprintf(script,
            "END\nset xlabel 'arithmetic intensity of the counted global traffic, FLOP/byte'\nset ylabel 'GFLOP/s'\n"
            "set format y '%%g'\nset xrange [0.1:512]\nset yrange [100:%.6g]\nset key top left\n"
            "set samples 400\nplot (x * %.6g < %.6g ? x * %.6g : %.6g) with lines lw 2 lc 'black' title "
            "'roof: %.0f GB/s, %.0f GFLOP/s', $rungs using 1:2 with points pt 7 ps 0.8 lc 'red' notitle, "
            "$rungs using 1:2:3 with labels offset 0,0.8 noenhanced font ',10' notitle\n",
            ceiling * 2, memory, ceiling, memory, ceiling, memory, ceiling);
    return close_gnuplot(script, path);
}
