/* report.c - measurements as JSON. */
#include "report.h"

#include <math.h>
#include <string.h>
#include <time.h>

#include "dtype.h"

json_t *json_known(double value) { return isfinite(value) && value != 0 ? json_real(value) : json_null(); }

const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text ? text : "";
}

double number_of(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

const char *outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"timed", "skipped", "wrong", "failed", "cannot"};
    return names[outcome];
}

void dtype_name(const carat_gemm_problem *problem, char *name, size_t size)
{
    const char *type_a = carat_type_name(problem->type_a);
    const char *ending = accuracy_ending(problem->accuracy);
    if (*ending && strcmp(ending + 1, accuracy_name(problem)) != 0) {
        ending = ""; /* that accuracy is this type's standard one */
    }
    if (problem->type_a == CARAT_F32 && problem->accuracy == CARAT_ACCURACY_FAST) {
        snprintf(name, size, "tf32");
    } else if (problem->type_a == problem->type_b) {
        snprintf(name, size, "%s%s", type_a, ending);
    } else {
        snprintf(name, size, "%s:%s%s", type_a, carat_type_name(problem->type_b), ending);
    }
}

const char *layout_name(const carat_gemm_problem *problem)
{
    static const char *const names[2][2] = {{"NN", "NT"}, {"TN", "TT"}};
    return names[problem->op_a == CARAT_TRANSPOSE][problem->op_b == CARAT_TRANSPOSE];
}

const char *ceiling_short_name(const char *name)
{
    static const char prefix[] = "ceiling_";
    return strncmp(name, prefix, sizeof(prefix) - 1) == 0 ? name + sizeof(prefix) - 1 : name;
}

json_t *report_head(const struct place *place, struct contender *const *contenders, int count,
                    const struct ceilings *ceilings)
{
    char when[32];
    time_t now = time(NULL);
    struct tm utc;
    strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
    char driver[16];
    int version = place->info.driver_version;
    snprintf(driver, sizeof(driver), "%d.%d", version / 1000, version % 1000 / 10);
    json_t *head = json_pack("{s:s, s:s, s:s, s:s, s:s?, s:i, s:I}", "kind", "head", "time", when, "carat",
                             carat_version(), "device", place->info.name, "driver", version ? driver : NULL,
                             "multiprocessors", place->info.multiprocessors, "l2_bytes",
                             (json_int_t)place->info.l2_bytes);
    json_t *versions = json_object();
    for (int i = 0; i < count; i++) {
        json_object_set_new(versions, contenders[i]->name, json_string(contenders[i]->version));
    }
    json_object_set_new(head, "contenders", versions);
    if (ceilings && ceilings->count) {
        json_object_set_new(head, "ceilings", ceilings_to_json(ceilings));
    }
    return head;
}

json_t *report_result(const struct contender *contender, const carat_gemm_problem *problem,
                      const struct result *result, const struct ceilings *ceilings, double peer_seconds)
{
    double seconds = result_seconds(result);
    struct floor floor = ceilings_floor(ceilings, problem);
    char dtype[32];
    dtype_name(problem, dtype, sizeof(dtype));
    json_t *line =
        json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:s}", "kind", "result", "dtype", dtype,
                  "dtype_d", carat_type_name(problem->type_cd), "layout", layout_name(problem), "m",
                  (json_int_t)problem->m, "n", (json_int_t)problem->n, "k", (json_int_t)problem->k, "batch",
                  (json_int_t)problem->batch, "contender", contender->name, "accuracy",
                  contender->accuracy ? contender->accuracy : "", "outcome", outcome_name(result->outcome));
    json_object_set_new(line, "time_us", json_known(result->time_us));
    json_object_set_new(line, "graph_time_us", json_known(result->graph_time_us));
    json_object_set_new(line, "first_call_us", json_known(result->first_call_us));
    json_object_set_new(line, "host_us", json_known(result->host_us));
    json_object_set_new(line, "launches", result->launches ? json_integer(result->launches) : json_null());
    json_object_set_new(line, "spread", result->time_us > 0 ? json_real(result->spread) : json_null());
    json_object_set_new(line, "rounds", json_integer(result->rounds));
    json_object_set_new(line, "calls", json_integer(result->calls));
    json_object_set_new(line, "tflops",
                        seconds > 0 ? json_real(workload_operations(problem) / seconds * 1e-12)
                                    : json_null());
    json_object_set_new(line, "share_of_ceiling",
                        seconds > 0 ? json_known(floor.seconds / seconds) : json_null());
    json_object_set_new(line, "ceiling",
                        floor.bound ? json_string(ceiling_short_name(floor.bound->name)) : json_null());
    json_object_set_new(line, "share_of_unit",
                        seconds > 0 ? json_known(floor.unit_seconds / seconds) : json_null());
    json_object_set_new(line, "unit",
                        floor.unit ? json_string(ceiling_short_name(floor.unit->name)) : json_null());
    json_object_set_new(line, "ratio", seconds > 0 ? json_known(peer_seconds / seconds) : json_null());
    bool compared = result->outcome == OUTCOME_TIMED || result->outcome == OUTCOME_WRONG;
    json_object_set_new(line, "error",
                        compared && isfinite(result->error) ? json_real(result->error) : json_null());
    bool close = contender->accuracy && strcmp(contender->accuracy, "close") == 0;
    json_object_set_new(line, "safe_share", compared && close ? json_real(result->safe_share) : json_null());
    json_object_set_new(line, "plan", json_string(result->plan));
    json_object_set_new(line, "sm_clock_mhz", json_known(result->sm_clock_mhz));
    json_object_set_new(line, "power_w", json_known(result->power_w));
    if (result->reason[0]) {
        json_object_set_new(line, "reason", json_string(result->reason));
    }
    return line;
}

bool report_line(FILE *file, const json_t *value)
{
    return json_dumpf(value, file, JSON_COMPACT | JSON_REAL_PRECISION(9)) == 0 && fputc('\n', file) != EOF &&
           fflush(file) == 0;
}

bool report_document(const char *path, const json_t *value)
{
    bool to_stdout = strcmp(path, "-") == 0;
    FILE *file = to_stdout ? stdout : fopen(path, "w");
    if (!file) {
        return false;
    }
    bool written = json_dumpf(value, file, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0 &&
                   fputc('\n', file) != EOF && fflush(file) == 0;
    return (to_stdout || fclose(file) == 0) && written;
}
