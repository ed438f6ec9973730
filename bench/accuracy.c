/* accuracy.c - see accuracy.h. */
#include "accuracy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "share.h"
#include "status.h"

/* ---- The truth -------------------------------------------------------------------------------------- */

void truth_free(struct truth *truth)
{
    free(truth->rows);
    free(truth->columns);
    free(truth->value);
    *truth = (struct truth){0};
}

/* Of length places: count of them, the first and the last among them, one of each of equal strips. */
static int64_t *sample(int64_t length, int64_t count)
{
    int64_t *places = malloc((size_t)count * sizeof(*places));
    for (int64_t i = 0; places && i < count; i++) {
        int64_t begin = i * length / count;
        int64_t size = (i + 1) * length / count - begin;
        uint64_t mixed = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u;
        places[i] = i == 0           ? 0
                    : i == count - 1 ? length - 1
                                     : begin + (int64_t)((mixed >> 20) % (uint64_t)size);
    }
    return places;
}

/* How many rows and columns to take for so many entries, of sums of k products. */
static void take_entries(int64_t m, int64_t n, int64_t k, int64_t entries, struct truth *truth)
{
    static const double most_whole = (double)ACCURACY_WHOLE_SIDE * ACCURACY_WHOLE_SIDE;
    static const double most_products = (double)ACCURACY_WHOLE_PRODUCTS;
    double all = (double)m * (double)n;
    truth->row_count = m;
    truth->column_count = n;
    if (entries == 0 || all <= (double)entries || (all <= most_whole && all * (double)k <= most_products)) {
        return;
    }
    int64_t side = (int64_t)ceil(sqrt((double)entries));
    int64_t rows = m < side ? m : side;
    int64_t columns = (entries + rows - 1) / rows;
    truth->column_count = columns < n ? columns : n;
    rows = (entries + truth->column_count - 1) / truth->column_count;
    truth->row_count = rows < m ? rows : m;
}

/*
 * Sums of PANEL rows and one column go on side by side, in as many lanes as the CPU has. The rows that are taken lie
 * together for that, panel by panel: panels[(panel * k + l) * PANEL + row], with zeros where there are no more rows.
 */
enum { PANEL = 32 };

struct truth_job {
    const struct truth *truth;
    int64_t m;
    int64_t k;
    int64_t panel_count;
    const float *a;
    const float *b;
    float *panels;
};

/* Fills the panels for some of k. */
static void gather_panels(const void *context, int64_t begin, int64_t end)
{
    const struct truth_job *job = (const struct truth_job *)context;
    const struct truth *truth = job->truth;
    for (int64_t panel = 0; panel < job->panel_count; panel++) {
        int64_t first = panel * PANEL;
        int64_t rows = truth->row_count - first < PANEL ? truth->row_count - first : PANEL;
        for (int64_t l = begin; l < end; l++) {
            float *to = job->panels + (panel * job->k + l) * PANEL;
            for (int64_t i = 0; i < PANEL; i++) {
                to[i] = i < rows ? job->a[truth->rows[first + i] + l * job->m] : 0;
            }
        }
    }
}

/*
 * The entries of one panel and one column. A product of two f32 is exact in f64, and what each addition rounds away
 * is exact too: those are summed beside.
 */
static void sum_panel(const struct truth_job *job, int64_t panel, int64_t column)
{
    const struct truth *truth = job->truth;
    const float *b = job->b + truth->columns[column] * job->k;
    const float *a = job->panels + panel * job->k * PANEL;
    double value[PANEL] = {0};
    double rest[PANEL] = {0};
    double magnitude[PANEL] = {0};
    for (int64_t l = 0; l < job->k; l++) {
        double factor = b[l];
        for (int i = 0; i < PANEL; i++) {
            double product = a[l * PANEL + i] * factor;
            double sum = value[i] + product;
            double taken = sum - value[i];
            rest[i] += (value[i] - (sum - taken)) + (product - taken);
            value[i] = sum;
            magnitude[i] += fabs(product);
        }
    }
    int64_t first = panel * PANEL;
    size_t rows = (size_t)(truth->row_count - first < PANEL ? truth->row_count - first : PANEL);
    int64_t at = column * truth->row_count + first;
    memcpy(truth->value + at, value, rows * sizeof(double));
    memcpy(truth->rest + at, rest, rows * sizeof(double));
    memcpy(truth->magnitude + at, magnitude, rows * sizeof(double));
}

static void sum_panels(const void *context, int64_t begin, int64_t end)
{
    const struct truth_job *job = (const struct truth_job *)context;
    for (int64_t at = begin; at < end; at++) {
        sum_panel(job, at % job->panel_count, at / job->panel_count);
    }
}

carat_status truth_compute(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t entries,
                           struct truth *truth)
{
    *truth = (struct truth){0};
    take_entries(m, n, k, entries, truth);
    int64_t count = truth->row_count * truth->column_count;
    struct truth_job job = {.truth = truth,
                            .m = m,
                            .k = k,
                            .panel_count = (truth->row_count + PANEL - 1) / PANEL,
                            .a = a,
                            .b = b};
    truth->rows = sample(m, truth->row_count);
    truth->columns = sample(n, truth->column_count);
    truth->value = malloc((size_t)count * 3 * sizeof(*truth->value));
    job.panels = malloc((size_t)(job.panel_count * k * PANEL) * sizeof(*job.panels));
    if (!truth->rows || !truth->columns || !truth->value || !job.panels) {
        free(job.panels);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld entries", (long long)count);
    }
    truth->rest = truth->value + count;
    truth->magnitude = truth->rest + count;
    share_out(k, job.panel_count * PANEL, gather_panels, &job);
    share_out(job.panel_count * truth->column_count, k * PANEL, sum_panels, &job);
    free(job.panels);
    return CARAT_OK;
}

struct accuracy_errors truth_compare(const struct truth *truth, const float *d, int64_t ldd)
{
    struct accuracy_errors errors = {0};
    double sum = 0;
    for (int64_t at = 0; at < truth->row_count * truth->column_count; at++) {
        float x = d[truth->rows[at % truth->row_count] + truth->columns[at / truth->row_count] * ldd];
        double off = fabs(((double)x - truth->value[at]) - truth->rest[at]);
        errors.misrounded += x != (float)(truth->value[at] + truth->rest[at]);
        double error = truth->magnitude[at] > 0 ? off / truth->magnitude[at] : x == 0 ? 0 : INFINITY;
        errors.most = larger_or_nan(errors.most, error);
        double half_ulp = ((double)nextafterf(fabsf(x), INFINITY) - fabs((double)x)) / 2;
        double beyond = off - half_ulp;
        if (!(beyond <= 0)) {
            errors.beyond = larger_or_nan(errors.beyond, beyond / truth->magnitude[at]);
        }
        sum += error;
        errors.entries++;
    }
    errors.mean = sum / (double)errors.entries;
    return errors;
}

/* ---- One case --------------------------------------------------------------------------------------- */

void accuracy_input_close(struct accuracy_input *input)
{
    truth_free(&input->truth);
    free(input->a.elements);
    free(input->b.elements);
    free(input->d.elements);
    *input = (struct accuracy_input){0};
}

/* Memory is kept from case to case: fresh memory takes longer than what is put into it. */
static carat_status make_room(int64_t count, struct accuracy_matrix *matrix)
{
    if (matrix->room >= count) {
        return CARAT_OK;
    }
    free(matrix->elements);
    matrix->elements = malloc((size_t)count * sizeof(*matrix->elements));
    matrix->room = matrix->elements ? count : 0;
    return matrix->elements
               ? CARAT_OK
               : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for a matrix of %lld elements", (long long)count);
}

/* Adds the time since *begin, which becomes now. */
static void count_seconds(double *seconds, double *begin)
{
    double now = now_seconds();
    *seconds += now - *begin;
    *begin = now;
}

static carat_status upload(struct stage *stage, const carat_gemm_problem *problem,
                           const struct accuracy_input *input, struct workload *workload)
{
    carat_context *context = stage->place.context;
    void *stream = stage->place.stream;
    CARAT_TRY(workload_open(&stage->arena, problem, workload));
    CARAT_TRY(carat_copy(context, (void *)workload_a(workload, 0), input->a.elements,
                         (size_t)(problem->m * problem->k) * sizeof(float), stream));
    CARAT_TRY(carat_copy(context, (void *)workload_b(workload, 0), input->b.elements,
                         (size_t)(problem->k * problem->n) * sizeof(float), stream));
    return carat_synchronize(context, stream);
}

carat_status accuracy_input_open(struct stage *const *stages, int stage_count,
                                 const struct accuracy_case *what, int64_t entries,
                                 struct accuracy_input *input)
{
    truth_free(&input->truth);
    input->what = *what;
    input->stage_count = 0;
    int64_t m = what->m;
    int64_t n = what->n;
    int64_t k = what->k;
    double begin = now_seconds();
    CARAT_TRY(make_room(m * k, &input->a));
    CARAT_TRY(make_room(k * n, &input->b));
    CARAT_TRY(make_room(m * n, &input->d));
    CARAT_TRY(accuracy_fill(what->family, what->seed, m, n, k, input->a.elements, input->b.elements));
    count_seconds(&input->seconds.fill, &begin);
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, m, n, k);
    problem.lda = problem.ldc = problem.ldd = m;
    problem.ldb = k;
    for (int i = 0; i < stage_count; i++) {
        input->stages[i] = stages[i];
        input->stage_count = i + 1;
        stages[i]->arena.one_set = true;
        CARAT_TRY(upload(stages[i], &problem, input, &input->workloads[i]));
    }
    count_seconds(&input->seconds.upload, &begin);
    CARAT_TRY(truth_compute(m, n, k, input->a.elements, input->b.elements, entries, &input->truth));
    count_seconds(&input->seconds.truth, &begin);
    return CARAT_OK;
}

/* The input's operands in the place of a contender. */
static struct workload *workload_of(struct accuracy_input *input, const struct contender *contender)
{
    for (int i = 0; i < input->stage_count; i++) {
        if (&input->stages[i]->place == contender->place) {
            return &input->workloads[i];
        }
    }
    return NULL;
}

carat_status accuracy_measure(struct contender *contender, carat_accuracy accuracy,
                              struct accuracy_input *input, struct accuracy_errors *errors)
{
    struct workload *workload = workload_of(input, contender);
    if (!workload) {
        return fail(CARAT_INVALID_ARGUMENT, "no operands where %s works", contender->name);
    }
    struct place *place = contender->place;
    size_t bytes = (size_t)(input->what.m * input->what.n) * sizeof(float);
    workload->problem.accuracy = accuracy;
    carat_status status = contender->functions->prepare(contender, workload);
    if (status == CARAT_OK) {
        status = workload_poison(workload);
    }
    if (status == CARAT_OK) {
        status = contender->functions->run(contender, workload, 0);
    }
    if (status == CARAT_OK) {
        status = carat_copy(place->context, input->d.elements, workload_d(workload, 0), bytes, place->stream);
    }
    if (status == CARAT_OK) {
        status = carat_synchronize(place->context, place->stream);
    }
    contender->functions->unprepare(contender);
    CARAT_TRY(status);
    *errors = truth_compare(&input->truth, input->d.elements, input->what.m);
    return CARAT_OK;
}

/* What sums in f64 may be off by before they are rounded. */
static double best_bound(const struct accuracy_case *what) { return 4 * 0x1p-53 * (double)what->k; }

double accuracy_bound(carat_accuracy accuracy, const struct accuracy_case *what)
{
    static const double unit = 0x1p-24;
    bool denormal = what->family == ACCURACY_DENORMALS || what->family == ACCURACY_VANDERMONDE;
    double first_order = (double)what->k * unit;
    double chain = first_order < 1 ? first_order * (1 + 0x1p-10) / (1 - first_order) : INFINITY;
    if (accuracy == CARAT_ACCURACY_BEST) {
        return unit + best_bound(what);
    }
    if (accuracy != CARAT_ACCURACY_FAST) {
        return chain;
    }
    return denormal ? 0 : 0x1p-10 + 2 * chain + 2 * unit;
}

bool accuracy_holds(carat_accuracy accuracy, const struct accuracy_case *what,
                    const struct accuracy_errors *errors)
{
    double bound = accuracy_bound(accuracy, what);
    return accuracy == CARAT_ACCURACY_BEST ? errors->beyond <= best_bound(what)
                                           : bound == 0 || errors->most <= bound;
}
