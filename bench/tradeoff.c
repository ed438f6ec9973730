/* tradeoff.c - reads errors and rates of the settings of accuracy from files of results. */
#include "tradeoff.h"

#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

/* ---- Files of one JSON value a line, the first of which is the head --------------------------------- */

/* What is done with a line. */
typedef carat_status take_line(const json_t *line, struct tradeoff *tradeoff);

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

static bool says(const json_t *object, const char *key, const char *text)
{
    return strcmp(text_of(object, key), text) == 0;
}

static bool is_number(const json_t *object, const char *key, int64_t value)
{
    const json_t *number = json_object_get(object, key);
    return json_is_integer(number) && json_integer_value(number) == value;
}

static carat_status take_head(const json_t *line, const char *path, struct tradeoff *tradeoff)
{
    const char *device = text_of(line, "device");
    if (!says(line, "kind", "head") || !*device) {
        return fail(CARAT_INVALID_ARGUMENT, "%s does not begin as a file of results", path);
    }
    if (*tradeoff->device && strcmp(tradeoff->device, device) != 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is of %s, but the errors are of %s", path, device,
                    tradeoff->device);
    }
    snprintf(tradeoff->device, sizeof(tradeoff->device), "%s", device);
    return CARAT_OK;
}

/* Whether anything but space is left. */
static bool has_more(FILE *file)
{
    int c = fgetc(file);
    while (c == ' ' || c == '\n' || c == '\r' || c == '\t') {
        c = fgetc(file);
    }
    return c != EOF && ungetc(c, file) != EOF;
}

static carat_status take_lines(FILE *file, const char *path, take_line *take, struct tradeoff *tradeoff)
{
    carat_status status = CARAT_OK;
    for (int number = 0; status == CARAT_OK && (number == 0 || has_more(file)); number++) {
        json_error_t error;
        json_t *line = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error);
        if (!line) {
            return fail(CARAT_INVALID_ARGUMENT, "cannot read %s: value %d: %s", path, number + 1, error.text);
        }
        status = number == 0 ? take_head(line, path, tradeoff) : take(line, tradeoff);
        json_decref(line);
    }
    return status;
}

static carat_status read_lines(const char *path, take_line *take, struct tradeoff *tradeoff)
{
    FILE *file = fopen(path, "r");
    if (!file) {
        return fail(CARAT_INVALID_ARGUMENT, "cannot open %s", path);
    }
    carat_status status = take_lines(file, path, take, tradeoff);
    fclose(file);
    return status;
}

/* ---- Errors ----------------------------------------------------------------------------------------- */

static carat_status take_error(const json_t *line, struct tradeoff *tradeoff)
{
    double error = json_number_value(json_object_get(line, "error_max"));
    if (!says(line, "kind", "accuracy") || !says(line, "family", tradeoff->family) ||
        !is_number(line, "k", tradeoff->k) || !(error > 0)) {
        return CARAT_OK;
    }
    if (tradeoff->count == MOST_TRADEOFF_POINTS) {
        return fail(CARAT_INVALID_ARGUMENT, "there are more than %d settings", MOST_TRADEOFF_POINTS);
    }
    struct tradeoff_point *point = &tradeoff->points[tradeoff->count++];
    *point = (struct tradeoff_point){.error = error};
    snprintf(point->contender, sizeof(point->contender), "%s", text_of(line, "contender"));
    snprintf(point->setting, sizeof(point->setting), "%s", text_of(line, "accuracy"));
    return CARAT_OK;
}

carat_status tradeoff_read_errors(const char *path, struct tradeoff *tradeoff)
{
    tradeoff->device[0] = '\0';
    tradeoff->count = 0;
    CARAT_TRY(read_lines(path, take_error, tradeoff));
    if (tradeoff->count == 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s has no errors of the family %s at k = %lld", path,
                    tradeoff->family, (long long)tradeoff->k);
    }
    return CARAT_OK;
}

/* ---- Rates ------------------------------------------------------------------------------------------ */

/* The type by which a shape file asks for a setting: "f32-close". */
static void setting_dtype(const char *setting, char *dtype, size_t size)
{
    if (strcmp(setting, "fast") == 0) {
        snprintf(dtype, size, "tf32");
    } else if (strcmp(setting, "standard") == 0 || strcmp(setting, "default") == 0) {
        snprintf(dtype, size, "f32");
    } else {
        snprintf(dtype, size, "f32-%s", setting);
    }
}

static carat_status take_rate(const json_t *line, struct tradeoff *tradeoff)
{
    int64_t side = tradeoff->side;
    if (!says(line, "kind", "result") || !says(line, "outcome", "timed") || !says(line, "layout", "NN") ||
        !is_number(line, "m", side) || !is_number(line, "n", side) || !is_number(line, "k", side) ||
        !is_number(line, "batch", 1) || (json_object_get(line, "input") && !says(line, "input", "normal"))) {
        return CARAT_OK;
    }
    for (int i = 0; i < tradeoff->count; i++) {
        struct tradeoff_point *point = &tradeoff->points[i];
        char dtype[40];
        setting_dtype(point->setting, dtype, sizeof(dtype));
        if (point->tflops == 0 && says(line, "contender", point->contender) && says(line, "dtype", dtype)) {
            point->tflops = json_number_value(json_object_get(line, "tflops"));
        }
    }
    return CARAT_OK;
}

carat_status tradeoff_read_rates(const char *path, struct tradeoff *tradeoff)
{
    return read_lines(path, take_rate, tradeoff);
}
