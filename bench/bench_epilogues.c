/* bench_epilogues.c - what bias and activations cost beside the plain product. */
#include "bench_epilogues.h"

#include "report.h"

static void print_epilogue(FILE *table, const struct epilogue *epilogue, const struct result *result,
                           double over_plain)
{
    fprintf(table, "%-24s", epilogue->name);
    if (result->outcome != OUTCOME_TIMED) {
        fprintf(table, " %s: %s\n", outcome_name(result->outcome), result->reason);
        return;
    }
    fprintf(table, " %10.2f us calls", result->time_us);
    if (result->graph_time_us > 0) {
        fprintf(table, " %10.2f us graph", result->graph_time_us);
    }
    if (over_plain > 0) {
        fprintf(table, "  %+6.2f%%", (over_plain - 1) * 100);
    }
    fputc('\n', table);
}

static bool write_epilogue(FILE *json, const struct contender *contender, const carat_gemm_problem *problem,
                           const struct result *result, double over_plain)
{
    if (!json) {
        return true;
    }
    json_t *line = report_result(contender, problem, result, NULL, 0);
    json_object_set_new(line, "kind", json_string("epilogue"));
    json_object_set_new(line, "over_plain", json_known(over_plain));
    bool written = report_line(json, line);
    json_decref(line);
    return written;
}

int bench_epilogues(struct field *field, const carat_gemm_problem *problem,
                    const struct measure_options *options, FILE *json, FILE *table)
{
    struct result results[MOST_CONTENDERS];
    carat_status status = CARAT_OK;
    for (int i = 0; i < epilogue_count && status == CARAT_OK; i++) {
        status = field_add_epilogue(field, &epilogues[i]);
    }
    if (status == CARAT_OK) {
        status = field_measure(field, problem, options, results);
    }
    int wrong = 0;
    if (status == CARAT_OK) {
        char dtype[32];
        dtype_name(problem, dtype, sizeof(dtype));
        fprintf(table, "%s %s %lld x %lld x %lld on %s, over the plain product: %s\n", dtype,
                layout_name(problem), (long long)problem->m, (long long)problem->n, (long long)problem->k,
                field->stages[0].place.info.name, results[0].plan);
        double plain = result_seconds(&results[0]);
        for (int i = 0; i < epilogue_count; i++) {
            double over_plain = plain > 0 ? result_seconds(&results[i]) / plain : 0;
            print_epilogue(table, &epilogues[i], &results[i], over_plain);
            bool written = write_epilogue(json, field->contenders[i], problem, &results[i], over_plain);
            enum outcome outcome = results[i].outcome;
            wrong += outcome == OUTCOME_WRONG || outcome == OUTCOME_FAILED || !written;
        }
    } else {
        fprintf(stderr, "carat bench: %s\n", carat_last_message());
    }
    field_clear(field);
    return status != CARAT_OK || wrong > 0;
}
