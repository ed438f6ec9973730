/* field.c - opens contenders by name and measures them together. */
#include "field.h"

#include <string.h>

#include "status.h"

carat_status field_open(carat_device_kind kind, int index, struct field *field)
{
    *field = (struct field){0};
    CARAT_TRY(stage_open(kind, index, &field->stages[0]));
    field->open_stages[field->stage_count++] = &field->stages[0];
    return CARAT_OK;
}

void field_clear(struct field *field)
{
    for (int i = 0; i < field->count; i++) {
        contender_close(field->contenders[i]);
    }
    field->count = 0;
}

void field_close(struct field *field)
{
    field_clear(field);
    for (int i = 0; i < field->stage_count; i++) {
        stage_close(field->open_stages[i]);
    }
    field->stage_count = 0;
}

static carat_status take(struct field *field, carat_status status, struct contender *contender)
{
    if (status != CARAT_OK) {
        return status;
    }
    if (field->count == MOST_CONTENDERS) {
        contender_close(contender);
        return fail(CARAT_INVALID_ARGUMENT, "more than %d contenders", MOST_CONTENDERS);
    }
    field->contenders[field->count++] = contender;
    return CARAT_OK;
}

carat_status field_add_carat(struct field *field)
{
    struct contender *contender = NULL;
    carat_status status = contender_open_carat(&field->stages[0].place, "carat", &contender);
    return take(field, status, contender);
}

carat_status field_add_epilogue(struct field *field, const struct epilogue *epilogue)
{
    struct contender *contender = NULL;
    carat_status status = contender_open_epilogue(&field->stages[0].place, epilogue, &contender);
    return take(field, status, contender);
}

carat_status field_add_setting(struct field *field, carat_accuracy asked)
{
    struct contender *contender = NULL;
    carat_status status = contender_open_setting(&field->stages[0].place, asked, &contender);
    return take(field, status, contender);
}

carat_status field_add_row(struct field *field, const struct kernel *row)
{
    struct contender *contender = NULL;
    carat_status status = contender_open_row(&field->stages[0].place, row, &contender);
    return take(field, status, contender);
}

/* The place of those who run on the CPU. */
static carat_status host_place(struct field *field, struct place **place)
{
    if (!field->stages[0].place.cuda) {
        *place = &field->stages[0].place;
        return CARAT_OK;
    }
    if (field->stage_count == 1) {
        CARAT_TRY(stage_open(CARAT_DEVICE_CPU, 0, &field->stages[1]));
        field->open_stages[field->stage_count++] = &field->stages[1];
    }
    *place = &field->stages[1].place;
    return CARAT_OK;
}

carat_status field_add_peer(struct field *field, const char *name)
{
    struct contender *contender = NULL;
    struct place *device = &field->stages[0].place;
    struct place *host = NULL;
    carat_status status;
    if (strcmp(name, "cublas") == 0) {
        status = contender_open_cublas(device, &contender);
    } else if (strcmp(name, "cublaslt") == 0) {
        status = contender_open_cublaslt(device, &contender);
    } else if (strcmp(name, "openblas") == 0) {
        CARAT_TRY(host_place(field, &host));
        status = contender_open_carat(host, name, &contender);
    } else if (strncmp(name, "blas:", 5) == 0 && name[5]) {
        CARAT_TRY(host_place(field, &host));
        status = contender_open_blas(host, name + 5, &contender);
    } else {
        status = fail(CARAT_INVALID_ARGUMENT, "'%s' is no contender: cublas, cublaslt, openblas or blas:PATH",
                      name);
    }
    return take(field, status, contender);
}

carat_status field_measure(struct field *field, const carat_gemm_problem *problem,
                           const struct measure_options *options, struct result *results)
{
    return measure_problem(field->open_stages, field->stage_count, field->contenders, field->count, problem,
                           options, results);
}

int field_find(const struct field *field, const char *name)
{
    for (int i = 0; i < field->count; i++) {
        if (strcmp(field->contenders[i]->name, name) == 0) {
            return i;
        }
    }
    return -1;
}

static bool is_peer(const struct field *field, int i, bool cublas_only)
{
    const char *name = field->contenders[i]->name;
    if (strcmp(name, "cublas") == 0 || strcmp(name, "cublaslt") == 0) {
        return true;
    }
    return !cublas_only && (strcmp(name, "openblas") == 0 || strncmp(name, "blas:", 5) == 0);
}

/* The smaller of two times, of which 0 is none. */
static double less_time(double x, double y) { return x == 0 || (y > 0 && y < x) ? y : x; }

static struct peer best_peer(const struct field *field, const struct result *results, bool cublas_only)
{
    struct peer peer = {.at = -1};
    for (int i = 0; i < field->count; i++) {
        double seconds = result_seconds(&results[i]);
        if (seconds == 0 || !is_peer(field, i, cublas_only)) {
            continue;
        }
        if (peer.at < 0 || seconds < peer.seconds) {
            peer.at = i;
            peer.seconds = seconds;
        }
        peer.call_us = less_time(peer.call_us, results[i].time_us);
        peer.graph_us = less_time(peer.graph_us, results[i].graph_time_us);
    }
    return peer;
}

double field_cublas_seconds(const struct field *field, const struct result *results)
{
    return best_peer(field, results, true).seconds;
}

struct peer field_peer(const struct field *field, const struct result *results)
{
    struct peer cublas = best_peer(field, results, true);
    return cublas.at >= 0 ? cublas : best_peer(field, results, false);
}
