/* bench_choice.c - how near the library's choice of a kernel comes to the best of all ways. */
#include "bench_choice.h"

#include <string.h>

#include "report.h"
#include "status.h"

static json_t *way_to_json(const struct tuned_way *tuned)
{
    const struct candidate *way = &tuned->way;
    char layout[3] = {way->product.trans_a ? 'T' : 'N', way->product.trans_b ? 'T' : 'N', 0};
    json_t *line = json_pack(
        "{s:s, s:i, s:I, s:b, s:b, s:s, s:s, s:f}", "row", way->kernel->name, "parts", way->parts,
        "stream_tiles", (json_int_t)way->stream_tiles, "packs_a", way->packs_a, "packs_b", way->packs_b,
        "as_type", carat_type_name(way->product.type_a), "as_layout", layout, "model_cycles", way->cycles);
    json_object_set_new(line, "time_us", json_known(tuned->seconds * 1e6));
    return line;
}

static void write_choice(FILE *json, const struct shape *shape, const struct tuning *tuning, double loss)
{
    carat_gemm_problem problem = shape_problem(shape);
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s}", "kind", "choice", "dtype", shape->dtype,
                  "layout", layout_name(&problem), "m", (json_int_t)shape->m, "n", (json_int_t)shape->n, "k",
                  (json_int_t)shape->k, "batch", (json_int_t)shape->batch, "plan", tuning->plan);
    json_t *ways = json_array();
    for (int i = 0; i < tuning->count; i++) {
        json_array_append_new(ways, way_to_json(&tuning->ways[i]));
    }
    json_object_set_new(line, "plan_us", json_known(tuning->plan_seconds * 1e6));
    json_object_set_new(line, "loss", json_real(loss));
    json_object_set_new(line, "ways", ways);
    report_line(json, line);
    json_decref(line);
}

carat_status bench_choice(struct stage *stage, const struct shape *shape, const char *name,
                          const struct tune_options *options, FILE *json, FILE *table,
                          struct choice_totals *totals)
{
    carat_gemm_problem problem = shape_problem(shape);
    struct tuning tuning;
    carat_status status = tune_problem(stage, &problem, options, &tuning);
    bool known = status == CARAT_OK && tuning.plan_seconds > 0 && tuning.ways[0].seconds > 0;
    if (known) {
        const struct tuned_way *best = &tuning.ways[0];
        /* The plan is one of the ways: where it was measured a little faster than as such, it is the best. */
        double loss = tuning.plan_seconds / best->seconds - 1;
        loss = loss > 0 ? loss : 0;
        fprintf(table, "%-34s %10.2f us  %+6.1f%%  best %10.2f us %s", name, tuning.plan_seconds * 1e6,
                loss * 100, best->seconds * 1e6, best->way.kernel->name);
        if (best->way.parts > 1) {
            fprintf(table, ", %d parts", best->way.parts);
        }
        if (best->way.stream_tiles > 0) {
            fprintf(table, ", tiles shared");
        }
        if (best->way.pack) {
            fprintf(table, ", packed%s%s", best->way.packs_a ? " A" : "", best->way.packs_b ? " B" : "");
        }
        fprintf(table, " of %d; plan: %.*s\n", tuning.count, (int)strcspn(tuning.plan, ":"), tuning.plan);
        fflush(table);
        if (json) {
            write_choice(json, shape, &tuning, loss);
        }
        if (totals->count == 0 || loss > totals->worst) {
            totals->worst = loss;
            snprintf(totals->worst_case, sizeof(totals->worst_case), "%s", name);
        }
        totals->count++;
        totals->loss_sum += loss;
    } else if (status == CARAT_OK || status == CARAT_UNSUPPORTED || status == CARAT_OUT_OF_DEVICE_MEMORY) {
        fprintf(table, "%-34s cannot: %s\n", name, carat_last_message());
        totals->cannot++;
        status = CARAT_OK;
    }
    tuning_free(&tuning);
    return status;
}

void choice_totals_print(const struct choice_totals *totals, FILE *json, FILE *table)
{
    double mean = totals->count ? totals->loss_sum / totals->count : 0;
    fprintf(table, "%d cases, %d cannot", totals->count, totals->cannot);
    if (totals->count) {
        fprintf(table, "; the choice takes %.1f%% more than the best way on average, %.1f%% at worst (%s)",
                mean * 100, totals->worst * 100, totals->worst_case);
    }
    fputc('\n', table);
    if (json) {
        json_t *line = json_pack("{s:s, s:i, s:i, s:f, s:f, s:s}", "kind", "choice_summary", "cases",
                                 totals->count, "cannot", totals->cannot, "mean_loss", mean, "worst_loss",
                                 totals->worst, "worst_case", totals->worst_case);
        report_line(json, line);
        json_decref(line);
    }
}
