/* accuracy.c - see accuracy.h. */
#include "accuracy.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "status.h"

enum { MOST_THREADS = 64, BLOCK = 64 };

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

/* How many rows and columns to take for so many entries. */
static void share_out(int64_t m, int64_t n, int64_t entries, struct truth *truth)
{
    int64_t whole = (int64_t)ACCURACY_WHOLE_SIDE * ACCURACY_WHOLE_SIDE;
    truth->row_count = m;
    truth->column_count = n;
    if (entries == 0 || (double)m * (double)n <= (double)(entries > whole ? entries : whole)) {
        return;
    }
    int64_t side = (int64_t)ceil(sqrt((double)entries));
    int64_t rows = m < side ? m : side;
    int64_t columns = (entries + rows - 1) / rows;
    truth->column_count = columns < n ? columns : n;
    rows = (entries + truth->column_count - 1) / truth->column_count;
    truth->row_count = rows < m ? rows : m;
}

struct truth_job {
    const struct truth *truth;
    int64_t m;
    int64_t k;
    const float *a;
    const float *b;
    atomic_int_least64_t next; /* block of rows of a column */
};

/*
 * Entries of one column of B and up to BLOCK rows of A. A product of two f32 is exact in f64, and what each
 * addition rounds away is exact too: those are summed beside.
 */
static void truth_block(const struct truth_job *job, int64_t column, int64_t first, int64_t count)
{
    const struct truth *truth = job->truth;
    const float *b = job->b + truth->columns[column] * job->k;
    double value[BLOCK] = {0};
    double rest[BLOCK] = {0};
    double magnitude[BLOCK] = {0};
    double row[BLOCK];
    for (int64_t l = 0; l < job->k; l++) {
        const float *a = job->a + l * job->m;
        for (int64_t i = 0; i < count; i++) {
            row[i] = a[truth->rows[first + i]];
        }
        double factor = b[l];
        for (int64_t i = 0; i < count; i++) {
            double product = row[i] * factor;
            double sum = value[i] + product;
            double taken = sum - value[i];
            rest[i] += (value[i] - (sum - taken)) + (product - taken);
            value[i] = sum;
            magnitude[i] += fabs(product);
        }
    }
    size_t bytes = (size_t)count * sizeof(double);
    int64_t at = column * truth->row_count + first;
    memcpy(truth->value + at, value, bytes);
    memcpy(truth->rest + at, rest, bytes);
    memcpy(truth->magnitude + at, magnitude, bytes);
}

static void *truth_work(void *argument)
{
    struct truth_job *job = (struct truth_job *)argument;
    int64_t rows = job->truth->row_count;
    int64_t blocks = (rows + BLOCK - 1) / BLOCK;
    for (;;) {
        int64_t at = atomic_fetch_add(&job->next, 1);
        if (at >= blocks * job->truth->column_count) {
            return NULL;
        }
        int64_t first = at % blocks * BLOCK;
        truth_block(job, at / blocks, first, rows - first < BLOCK ? rows - first : BLOCK);
    }
}

carat_status truth_compute(int64_t m, int64_t n, int64_t k, const float *a, const float *b, int64_t entries,
                           struct truth *truth)
{
    *truth = (struct truth){0};
    share_out(m, n, entries, truth);
    int64_t count = truth->row_count * truth->column_count;
    truth->rows = sample(m, truth->row_count);
    truth->columns = sample(n, truth->column_count);
    truth->value = malloc((size_t)count * 3 * sizeof(*truth->value));
    if (!truth->rows || !truth->columns || !truth->value) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld entries", (long long)count);
    }
    truth->rest = truth->value + count;
    truth->magnitude = truth->rest + count;
    struct truth_job job = {.truth = truth, .m = m, .k = k, .a = a, .b = b, .next = 0};
    pthread_t threads[MOST_THREADS];
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int started = 0;
    /* This thread is one of them; one that cannot be started leaves its blocks to the others. */
    while (started < MOST_THREADS && started + 1 < processors &&
           pthread_create(&threads[started], NULL, truth_work, &job) == 0) {
        started++;
    }
    truth_work(&job);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
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
    free(input->a);
    free(input->b);
    free(input->d);
    *input = (struct accuracy_input){0};
}

static carat_status upload(struct stage *stage, const carat_gemm_problem *problem,
                           const struct accuracy_input *input, struct workload *workload)
{
    carat_context *context = stage->place.context;
    void *stream = stage->place.stream;
    CARAT_TRY(workload_open(&stage->arena, problem, workload));
    CARAT_TRY(carat_copy(context, (void *)workload_a(workload, 0), input->a,
                         (size_t)(problem->m * problem->k) * sizeof(float), stream));
    CARAT_TRY(carat_copy(context, (void *)workload_b(workload, 0), input->b,
                         (size_t)(problem->k * problem->n) * sizeof(float), stream));
    return carat_synchronize(context, stream);
}

carat_status accuracy_input_open(struct stage *const *stages, int stage_count,
                                 const struct accuracy_case *what, int64_t entries,
                                 struct accuracy_input *input)
{
    *input = (struct accuracy_input){.what = *what};
    int64_t m = what->m;
    int64_t n = what->n;
    int64_t k = what->k;
    input->a = malloc((size_t)(m * k) * sizeof(float));
    input->b = malloc((size_t)(k * n) * sizeof(float));
    input->d = malloc((size_t)(m * n) * sizeof(float));
    if (!input->a || !input->b || !input->d) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for matrices of %lld x %lld x %lld", (long long)m,
                    (long long)n, (long long)k);
    }
    CARAT_TRY(accuracy_fill(what->family, what->seed, m, n, k, input->a, input->b));
    carat_gemm_problem problem = carat_gemm_describe(CARAT_F32, m, n, k);
    problem.lda = problem.ldc = problem.ldd = m;
    problem.ldb = k;
    for (int i = 0; i < stage_count; i++) {
        input->stages[i] = stages[i];
        input->stage_count = i + 1;
        CARAT_TRY(upload(stages[i], &problem, input, &input->workloads[i]));
    }
    return truth_compute(m, n, k, input->a, input->b, entries, &input->truth);
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
        status = carat_copy(place->context, input->d, workload_d(workload, 0), bytes, place->stream);
    }
    if (status == CARAT_OK) {
        status = carat_synchronize(place->context, place->stream);
    }
    contender->functions->unprepare(contender);
    CARAT_TRY(status);
    *errors = truth_compare(&input->truth, input->d, input->what.m);
    return CARAT_OK;
}

/* What sums in f64 may be off by before they are rounded. */
static double best_bound(const struct accuracy_case *what) { return 4 * 0x1p-53 * (double)what->k; }

double accuracy_bound(carat_accuracy accuracy, const struct accuracy_case *what)
{
    static const double unit = 0x1p-24;
    bool denormal = what->family == ACCURACY_DENORMALS || what->family == ACCURACY_VANDERMONDE;
    double chain = (double)what->k * unit * (1 + 0x1p-10); /* a few units for what is of second order */
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
