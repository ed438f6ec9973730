/* summary.c - gathers ratios by file and type. */
#include "summary.h"

#include <math.h>
#include <string.h>

#include "report.h"

/* No shape at all should be slower than this share of the better peer's rate. */
static const double SLOW = 0.9;

/* What a call should take of the host, and what more for every launch beyond the first. */
static const double HOST_US = 4;
static const double HOST_US_A_LAUNCH = 2;

static void mean_add(struct mean *mean, double ratio, const char *name)
{
    if (ratio <= 0) {
        return;
    }
    if (mean->count == 0 || ratio < mean->worst) {
        mean->worst = ratio;
        snprintf(mean->worst_case, sizeof(mean->worst_case), "%s", name);
    }
    mean->count++;
    mean->log_sum += log(ratio);
}

double mean_value(const struct mean *mean) { return mean->count ? exp(mean->log_sum / mean->count) : 0; }

static void standing_add(struct standing *standing, const struct summary_case *one)
{
    standing->cases++;
    standing->lost += !one->timed;
    standing->alone += one->timed && one->ratios.best == 0;
    standing->slow += one->ratios.best > 0 && one->ratios.best < SLOW;
    mean_add(&standing->best, one->ratios.best, one->name);
    mean_add(&standing->calls, one->ratios.calls, one->name);
    mean_add(&standing->graph, one->ratios.graph, one->name);
    standing->share_sum += one->share;
    standing->share_count += one->share > 0;
}

static void host_add(struct host_times *host, const struct summary_case *one)
{
    if (one->host_us <= 0) {
        return;
    }
    host->count++;
    host->over += one->host_us > HOST_US + HOST_US_A_LAUNCH * (one->launches - 1);
    host->sum += one->host_us;
    if (one->host_us > host->most) {
        host->most = one->host_us;
        snprintf(host->most_case, sizeof(host->most_case), "%s", one->name);
    }
}

void summary_add(struct summary *summary, const struct summary_case *one)
{
    host_add(&summary->host, one);
    standing_add(&summary->all, one);
    for (int i = 0; i < summary->count; i++) {
        struct standing *standing = &summary->items[i];
        if (strcmp(standing->file, one->file) == 0 && strcmp(standing->dtype, one->dtype) == 0) {
            standing_add(standing, one);
            return;
        }
    }
    if (summary->count == MOST_STANDINGS) {
        summary->overflowed = true;
        return;
    }
    struct standing *standing = &summary->items[summary->count++];
    *standing = (struct standing){0};
    snprintf(standing->file, sizeof(standing->file), "%s", one->file);
    snprintf(standing->dtype, sizeof(standing->dtype), "%s", one->dtype);
    standing_add(standing, one);
}

static void print_mean(FILE *file, const struct mean *mean)
{
    if (mean->count) {
        fprintf(file, "  %6.3f / %5.3f", mean_value(mean), mean->worst);
    } else {
        fprintf(file, "  %6s / %5s", "-", "-");
    }
}

static void print_standing(FILE *file, const char *name, const struct standing *standing)
{
    fprintf(file, "%-16.40s %-10s %5d", name, standing->dtype, standing->cases);
    print_mean(file, &standing->best);
    print_mean(file, &standing->calls);
    print_mean(file, &standing->graph);
    if (standing->share_count) {
        fprintf(file, "  %5.1f%%", standing->share_sum / standing->share_count * 100);
    } else {
        fprintf(file, "  %6s", "-");
    }
    fprintf(file, "  %s", standing->best.worst_case);
    if (standing->slow) {
        fprintf(file, "; %d under %.1f", standing->slow, SLOW);
    }
    if (standing->alone) {
        fprintf(file, "; %d without a peer", standing->alone);
    }
    if (standing->lost) {
        fprintf(file, "; %d without a time of Carat's", standing->lost);
    }
    fputc('\n', file);
}

void summary_print(const struct summary *summary, FILE *file)
{
    if (summary->all.cases == 0) {
        return;
    }
    fprintf(file, "\n%-16s %-10s %5s  %-14s  %-14s  %-14s  %6s  %s\n", "geometric mean", "type", "cases",
            "ratio / worst", "calls / worst", "graphs / worst", "share", "worst case");
    for (int i = 0; i < summary->count; i++) {
        print_standing(file, summary->items[i].file, &summary->items[i]);
    }
    if (summary->overflowed) {
        fprintf(file, "(more files and types than %d: the rest only here)\n", MOST_STANDINGS);
    }
    if (summary->count != 1) {
        print_standing(file, "all", &summary->all);
    }
    const struct host_times *host = &summary->host;
    if (host->count > 0) {
        fprintf(file,
                "host time of a call: %.2f us on average, %.2f at most (%s); %d of %d over %g us and %g for "
                "each further launch\n",
                host->sum / host->count, host->most, host->most_case, host->over, host->count, HOST_US,
                HOST_US_A_LAUNCH);
    }
}

static void mean_to_json(json_t *line, const char *key, const struct mean *mean)
{
    json_t *value = json_pack("{s:i}", "count", mean->count);
    json_object_set_new(value, "geometric_mean", json_known(mean_value(mean)));
    json_object_set_new(value, "worst", json_known(mean->worst));
    json_object_set_new(value, "worst_case", mean->count ? json_string(mean->worst_case) : json_null());
    json_object_set_new(line, key, value);
}

json_t *standing_to_json(const struct standing *standing)
{
    json_t *line = json_pack("{s:s, s:s, s:s, s:i, s:i, s:i, s:i}", "kind", "summary", "file", standing->file,
                             "dtype", standing->dtype, "cases", standing->cases, "without_a_peer",
                             standing->alone, "without_a_time", standing->lost, "under_0.9", standing->slow);
    mean_to_json(line, "ratio", &standing->best);
    mean_to_json(line, "ratio_calls", &standing->calls);
    mean_to_json(line, "ratio_graph", &standing->graph);
    double share = standing->share_count ? standing->share_sum / standing->share_count : 0;
    json_object_set_new(line, "mean_share_of_unit", json_known(share));
    return line;
}
