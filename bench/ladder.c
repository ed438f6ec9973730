/* ladder.c - the rungs of the ladder, from the catalogue. */
#include "ladder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contender.h"
#include "problem.h"
#include "report.h"
#include "rows.h"

static bool in_list(const char *list, int number)
{
    for (const char *at = list; *at;) {
        if (strtol(at, NULL, 10) == number) {
            return true;
        }
        at = strchr(at, ',') ? strchr(at, ',') + 1 : "";
    }
    return false;
}

static bool is_rung(const struct kernel *row, carat_type type, int number)
{
    return row->rung == number && row->element == (int)type;
}

int library_rung(carat_type type)
{
    for (int i = 0; i < carat_catalog_count; i++) {
        if (carat_catalog[i].rung > 9 && carat_catalog[i].element == (int)type) {
            return TOP_RUNG;
        }
    }
    return 9;
}

bool rungs_list(carat_type type, const char *filter, struct rungs *rungs)
{
    rungs->count = 0;
    if (filter && (!*filter || strspn(filter, "0123456789,") != strlen(filter))) {
        return false;
    }
    for (int number = 1; number <= library_rung(type); number++) {
        if (filter && !in_list(filter, number)) {
            continue;
        }
        for (int i = 0; i < carat_catalog_count; i++) {
            const struct kernel *row = &carat_catalog[i];
            if (is_rung(row, type, number) && rungs->count < MOST_RUNGS - 1) {
                rungs->items[rungs->count++] = (struct rung){number, row->name, row};
            }
        }
        if (number == library_rung(type)) {
            rungs->items[rungs->count++] = (struct rung){number, "carat", NULL};
        }
    }
    return true;
}

int ladder_settings(carat_type type, carat_accuracy settings[MOST_SETTINGS])
{
    static const char *const order[] = {"fast", "close", "standard", "strict", "best"};
    carat_gemm_problem problem = carat_gemm_describe(type, 1, 1, 1);
    struct problem checked;
    int count = 0;
    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]) && type == CARAT_F32; i++) {
        /* As far as this library knows them. */
        for (int number = 0; count < MOST_SETTINGS; number++) {
            problem.accuracy = (carat_accuracy)number;
            if (problem_check(&problem, &checked) != CARAT_OK) {
                break;
            }
            if (strcmp(accuracy_name(&problem), order[i]) == 0) {
                settings[count++] = problem.accuracy;
            }
        }
    }
    return count;
}

int rung_base(int number)
{
    /* Pitched, Kahan and the register tile each add to the tiled kernel; the rest to the rung before. */
    static const int bases[TOP_RUNG + 1] = {0, 0, 1, 2, 3, 3, 3, 6, 7, 8, 9, 10, 11, 12, 13};
    return number >= 1 && number <= TOP_RUNG ? bases[number] : 0;
}

double rung_traffic_bytes(int number, const struct kernel *kernel, int64_t m, int64_t n, int64_t k)
{
    double size = (double)carat_type_size((carat_type)kernel->element);
    double written = (double)m * (double)n * (kernel->element == ELEMENT_S8 ? 4 : size);
    if (number <= 2) {
        return 2.0 * (double)m * (double)n * (double)k * size + written;
    }
    int64_t tile_m = (int64_t)kernel->tile_m * kernel_cluster_m(kernel);
    int64_t tile_n = (int64_t)kernel->tile_n * kernel_cluster_n(kernel);
    int64_t tiles_m = (m + tile_m - 1) / tile_m;
    int64_t tiles_n = (n + tile_n - 1) / tile_n;
    return ((double)m * (double)tiles_n + (double)n * (double)tiles_m) * (double)k * size + written;
}

void rung_label(const json_t *result, char *label, size_t size)
{
    const char *name = text_of(result, "kernel");
    int rung = (int)number_of(result, "rung");
    int length = 0;
    if (sscanf(name, "ladder_%*d_%n", &length) == 0 && length > 0) {
        name += length;
    }
    if (rung) {
        snprintf(label, size, "%d %s", rung, name);
    } else {
        snprintf(label, size, "%s", name);
    }
}

bool is_setting(const json_t *result) { return json_is_true(json_object_get(result, "setting")); }

static void put_line(const json_t *result, FILE *to)
{
    char label[120];
    rung_label(result, label, sizeof(label));
    fprintf(to, "| %s | %.2f |", label, number_of(result, "gflops") * 1e-3);
    if (number_of(result, "rung") == 0) {
        fprintf(to, " | | | |\n");
        return;
    }
    fprintf(to, " %.1f%% |", number_of(result, "share_of_ceiling") * 100);
    if (number_of(result, "gain") > 0) {
        fprintf(to, " %.2f over %.0f |", number_of(result, "gain"), number_of(result, "gain_over_rung"));
    } else {
        fprintf(to, " |");
    }
    fprintf(to, number_of(result, "ratio") > 0 ? " %.3f |" : " |", number_of(result, "ratio"));
    fprintf(to, number_of(result, "traffic_bytes") > 0 ? " %.2f GB |\n" : " |\n",
            number_of(result, "traffic_bytes") * 1e-9);
}

/* The library at the accuracies that it was asked for. */
static void put_settings(const json_t *results, double size, FILE *to)
{
    bool any = false;
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        if (!is_setting(result) || number_of(result, "size") != size || number_of(result, "gflops") <= 0) {
            continue;
        }
        if (!any) {
            fprintf(to, "\n| accuracy | TFLOP/s | of the ceiling | cuBLAS's time over its | error |\n"
                        "|---|---|---|---|---|\n");
            any = true;
        }
        fprintf(to, "| %s | %.2f |", text_of(result, "accuracy"), number_of(result, "gflops") * 1e-3);
        fprintf(to, " %.1f%% |", number_of(result, "share_of_ceiling") * 100);
        fprintf(to, number_of(result, "ratio") > 0 ? " %.3f |" : " |", number_of(result, "ratio"));
        fprintf(to, " %.1e |\n", number_of(result, "error"));
    }
}

bool ladder_tables(const json_t *document, int64_t size, FILE *to)
{
    const json_t *results = json_object_get(document, "results");
    double last = 0;
    size_t i;
    json_t *result;
    json_array_foreach(results, i, result)
    {
        double its_size = number_of(result, "size");
        if (number_of(result, "gflops") <= 0 || (size && its_size != (double)size) || is_setting(result)) {
            continue;
        }
        if (its_size != last) {
            put_settings(results, last, to);
            fprintf(to,
                    "%s%s, m = n = k = %.0f\n\n"
                    "| rung | TFLOP/s | of the ceiling | gain, over rung | cuBLAS's time over its | counted "
                    "traffic |\n"
                    "|---|---|---|---|---|---|\n",
                    last > 0 ? "\n" : "", text_of(document, "dtype"), its_size);
            last = its_size;
        }
        put_line(result, to);
    }
    put_settings(results, last, to);
    return last > 0;
}
