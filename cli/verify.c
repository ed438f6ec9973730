/*
 * verify.c - carat verify: how large errors are, over families of input, of every kernel by itself.
 *
 *     kind (types and accuracy) x family x layout x shape -> input and reference -> each contender -> its mark
 *
 * A mark is the worst of one contender on one family. cuBLAS is measured beside, and not judged.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "element.h"
#include "families.h"
#include "field.h"
#include "options.h"
#include "progress.h"
#include "report.h"
#include "status.h"

enum { MOST_DEPTHS = 8, MOST_COLUMNS = 12 };

struct verify {
    struct field field;
    FILE *table;
    json_t *results;
    json_t *versions;   /* of who was measured, by name */
    const char *kernel; /* only this row; NULL: all */
    int against;        /* 0: cuBLAS beside, 1: nobody */
    int64_t size;
    int64_t deepest;
    int checked;
    int wrong;
    int skipped;
};

/* What one contender reached on one family (or depth): the worst over layouts and shapes. */
struct mark {
    bool ran;
    bool right;
    double error;
    double times_f32; /* 8-bit floats: its error over that of exact products summed in f32 */
    char why[300];
};

/* Types and an accuracy that have arithmetic of their own. */
struct kind {
    carat_type type_a;
    carat_type type_b;
    carat_type type_cd;
    carat_accuracy accuracy;
    bool narrow; /* D cannot hold the products of all families: only of normal and uniform ones */
};

static const struct kind kinds[] = {
    {CARAT_F32, CARAT_F32, CARAT_F32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_F32, CARAT_F32, CARAT_F32, CARAT_ACCURACY_STRICT, false},
    {CARAT_F32, CARAT_F32, CARAT_F32, CARAT_ACCURACY_FAST, false},
    {CARAT_F64, CARAT_F64, CARAT_F64, CARAT_ACCURACY_STANDARD, false},
    {CARAT_F16, CARAT_F16, CARAT_F16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_F16, CARAT_F16, CARAT_F32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_BF16, CARAT_BF16, CARAT_BF16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_BF16, CARAT_BF16, CARAT_F32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E4M3, CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E4M3, CARAT_E5M2, CARAT_BF16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E5M2, CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E5M2, CARAT_E5M2, CARAT_BF16, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E4M3, CARAT_E4M3, CARAT_F32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_E4M3, CARAT_E4M3, CARAT_F16, CARAT_ACCURACY_STANDARD, true},
    {CARAT_E4M3, CARAT_E4M3, CARAT_E4M3, CARAT_ACCURACY_STANDARD, true},
    {CARAT_E4M3, CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_STRICT, false},
    {CARAT_E4M3, CARAT_E4M3, CARAT_BF16, CARAT_ACCURACY_FAST, false},
    {CARAT_E4M3, CARAT_E4M3, CARAT_F32, CARAT_ACCURACY_FAST, false},
    {CARAT_E5M2, CARAT_E4M3, CARAT_F32, CARAT_ACCURACY_FAST, false},
    {CARAT_F32, CARAT_F32, CARAT_F32, CARAT_ACCURACY_CLOSE, false},
    {CARAT_F32, CARAT_F32, CARAT_F32, CARAT_ACCURACY_BEST, false},
    {CARAT_F64, CARAT_F64, CARAT_F64, CARAT_ACCURACY_BEST, false},
    {CARAT_F16, CARAT_F16, CARAT_F16, CARAT_ACCURACY_BEST, false},
    {CARAT_BF16, CARAT_BF16, CARAT_F32, CARAT_ACCURACY_BEST, false},
    {CARAT_E4M3, CARAT_E5M2, CARAT_F32, CARAT_ACCURACY_BEST, false},
    {CARAT_S32, CARAT_S32, CARAT_S32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_S8, CARAT_S8, CARAT_S32, CARAT_ACCURACY_STANDARD, false},
    {CARAT_S8, CARAT_S8, CARAT_F32, CARAT_ACCURACY_STANDARD, false},
};
enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

static bool is_integer(carat_type type) { return type == CARAT_S8 || type == CARAT_S32; }

/* Column-major, packed. */
static carat_gemm_problem packed_problem(const struct kind *kind, int ops, int64_t m, int64_t n, int64_t k)
{
    carat_gemm_problem problem = carat_gemm_describe(kind->type_a, m, n, k);
    problem.type_b = kind->type_b;
    problem.type_cd = kind->type_cd;
    problem.type_bias = carat_scalar_type(kind->type_cd);
    problem.accuracy = kind->accuracy;
    problem.op_a = ops & 2 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = ops & 1 ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.lda = ops & 2 ? k : m;
    problem.ldb = ops & 1 ? n : k;
    problem.ldc = problem.ldd = m;
    return problem;
}

/* As dtypes are written in shape files: "e4m3", "e4m3:e5m2-fast", "f32-strict", "f32-close", "tf32". */
static void kind_name(const struct kind *kind, char *name, size_t size)
{
    carat_gemm_problem problem = packed_problem(kind, 0, 1, 1, 1);
    dtype_name(&problem, name, size);
}

/* Whether a kind is of the dtype that was asked for ("e4m3" is all that begins with it), and the accuracy; -1: any. */
static bool kind_wanted(const struct kind *kind, const char *word, int accuracy)
{
    if (accuracy >= 0 && (int)kind->accuracy != accuracy) {
        return false;
    }
    char name[32];
    kind_name(kind, name, sizeof(name));
    size_t length = word ? strlen(word) : 0;
    return !word ||
           (strncmp(name, word, length) == 0 && (name[length] == '\0' || strchr(":-", name[length])));
}

/*
 * On numbers of mean 0 errors cancel; on others they add up, to the bound of the arithmetic at the worst: a
 * rounding for each addition, twice that where a tensor unit cuts off, and what tf32 and short sums lose.
 */
static double worst_ulps(const carat_gemm_problem *problem, bool cuda)
{
    enum { FLOAT8_RUN = 128 };
    bool fast = problem->accuracy == CARAT_ACCURACY_FAST;
    double k = (double)problem->k;
    double additions = k + 4;
    if (problem->accuracy == CARAT_ACCURACY_BEST) {
        return reference_ulps(problem); /* a bound of any sums */
    }
    if (problem->type_a == CARAT_F64 || (problem->type_a == CARAT_F32 && !fast)) {
        return additions;
    }
    if (problem->type_a == CARAT_F32) {
        return 2 * additions + 0x1p24 * 0x1p-10; /* two operands, 2^-11 each */
    }
    if (is_float8(problem->type_a) && cuda && problem->accuracy != CARAT_ACCURACY_STRICT) {
        /* 32 products and the sum so far are cut off 13 bits below the largest of them. */
        double run = fast ? k : fmin(k, FLOAT8_RUN);
        return 2 * additions + 0x1p24 * fmin(1, 33.0 / 32 * run * 0x1p-13);
    }
    return 2 * additions;
}

/* How many half units in the last place of |A||B| a sum may be off. */
static double allowed_ulps(enum input_family family, const struct contender *contender,
                           const carat_gemm_problem *problem)
{
    bool kahan = strstr(contender->name, "kahan") != NULL;
    if (family == INPUT_INTEGERS) {
        return 0;
    }
    if (kahan) {
        return 2; /* one unit in the last place, whatever k is */
    }
    bool cancels = family == INPUT_NORMAL || family == INPUT_UNIFORM;
    return cancels ? reference_ulps(problem) : worst_ulps(problem, contender->place->cuda);
}

/* ---- One input -------------------------------------------------------------------------------------- */

/* Inputs of a family in the arena's place and on the host, with their reference. */
struct input {
    struct workload workload;
    void *a;
    void *b;
    struct references references;
    double f32_error; /* 8-bit floats: of exact products summed in f32, one after the other */
};

/* Lines of op(A) or op(B) along k, as floats: count of them. */
static float *decode_lines(carat_type type, const void *elements, int64_t ld, bool along_k,
                           const int64_t *places, int64_t count, int64_t k)
{
    float *lines = malloc((size_t)(count * k + 1) * sizeof(*lines));
    for (int64_t i = 0; lines && i < count; i++) {
        for (int64_t p = 0; p < k; p++) {
            int64_t at = along_k ? places[i] * ld + p : places[i] + p * ld;
            lines[i * k + p] = (float)element_value(type, elements, at);
        }
    }
    return lines;
}

/* What the plainest sum of exact products errs by: products of 8-bit floats have no more bits than f32. */
static carat_status measure_f32_sums(const carat_gemm_problem *problem, struct input *input)
{
    const struct reference *reference = &input->references.items[0];
    int64_t k = problem->k;
    float *a = decode_lines(problem->type_a, input->a, problem->lda, problem->op_a == CARAT_TRANSPOSE,
                            reference->rows, reference->row_count, k);
    float *b = decode_lines(problem->type_b, input->b, problem->ldb, problem->op_b == CARAT_NO_TRANSPOSE,
                            reference->columns, reference->column_count, k);
    for (int64_t at = 0; a && b && at < reference->row_count * reference->column_count; at++) {
        const float *x = a + at % reference->row_count * k;
        const float *y = b + at / reference->row_count * k;
        float sum = 0;
        for (int64_t p = 0; p < k; p++) {
            sum += x[p] * y[p];
        }
        uint64_t stored;
        element_store(problem->type_cd, &stored, 0, (double)sum);
        double off = fabs(element_value(problem->type_cd, &stored, 0) - reference->value[at]);
        if (reference->magnitude[at] > 0) {
            input->f32_error = fmax(input->f32_error, off / reference->magnitude[at]);
        }
    }
    bool good = a && b;
    free(a);
    free(b);
    return good ? CARAT_OK : fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld lines", (long long)k);
}

static carat_status input_open(struct stage *stage, const carat_gemm_problem *problem,
                               enum input_family family, struct input *input)
{
    memset(input, 0, sizeof(*input));
    size_t size = carat_type_size(problem->type_a);
    int64_t a_columns = problem->op_a == CARAT_TRANSPOSE ? problem->m : problem->k;
    int64_t b_columns = problem->op_b == CARAT_TRANSPOSE ? problem->k : problem->n;
    int64_t a_count = problem->lda * a_columns;
    int64_t b_count = problem->ldb * b_columns;
    CARAT_TRY(workload_open(&stage->arena, problem, &input->workload));
    input->a = malloc((size_t)a_count * size);
    input->b = malloc((size_t)b_count * size);
    if (!input->a || !input->b) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld elements", (long long)(a_count + b_count));
    }
    CARAT_TRY(input_fill(problem->type_a, family, 1, problem->lda, a_columns, input->a));
    CARAT_TRY(input_fill(problem->type_b, family, 2, problem->ldb, b_columns, input->b));
    carat_context *context = stage->place.context;
    void *stream = stage->place.stream;
    CARAT_TRY(carat_copy(context, (void *)workload_a(&input->workload, 0), input->a, (size_t)a_count * size,
                         stream));
    CARAT_TRY(carat_copy(context, (void *)workload_b(&input->workload, 0), input->b, (size_t)b_count * size,
                         stream));
    struct source a = {problem->type_a, input->a, 0, a_count};
    struct source b = {problem->type_b, input->b, 0, b_count};
    input->references.count = 1;
    CARAT_TRY(reference_compute(problem, 0, &a, &b, (int64_t)1 << 40, &input->references.items[0]));
    return is_float8(problem->type_a) ? measure_f32_sums(problem, input) : CARAT_OK;
}

static void input_close(struct input *input)
{
    references_free(&input->references);
    free(input->a);
    free(input->b);
}

/* ---- One contender ---------------------------------------------------------------------------------- */

/* cuBLAS: its errors are shown beside, and are its own. */
static bool is_peer(const struct contender *contender)
{
    return strncmp(contender->name, "cublas", strlen("cublas")) == 0;
}

/* Compares D with the references, or with what the contender's epilogue makes of them. */
static carat_status compare(const struct contender *contender, struct input *input, struct verdict *verdict)
{
    if (!contender->epilogue) {
        return workload_check(&input->workload, &input->references, verdict);
    }
    struct references finished;
    CARAT_TRY(references_finish(&input->references, &input->workload, contender->epilogue, &finished));
    carat_status status = workload_check(&input->workload, &finished, verdict);
    references_free(&finished);
    return status;
}

/*
 * By default sums of 8-bit floats are to be as good as twice the error of exact products summed in f32, when
 * D is of its own type.
 */
static void judge_float8(const struct contender *contender, const struct input *input, struct mark *mark,
                         struct verdict *verdict)
{
    const carat_gemm_problem *problem = &input->workload.problem;
    if (!is_float8(problem->type_a) || contender->epilogue || input->f32_error == 0) {
        return;
    }
    double times = verdict->error / input->f32_error;
    mark->times_f32 = larger_or_nan(mark->times_f32, times);
    if (problem->accuracy != CARAT_ACCURACY_FAST && problem->accuracy != CARAT_ACCURACY_BEST &&
        problem->type_cd == CARAT_BF16 && !(times <= 2) && verdict->right) {
        verdict->right = false;
        snprintf(verdict->why, sizeof(verdict->why),
                 "the error is %.3g times that of exact products summed in f32, %.2e", times,
                 input->f32_error);
    }
}

/* One contender on one input, added to its mark. Fails only where going on makes no sense. */
static carat_status try_contender(struct contender *contender, struct input *input, enum input_family family,
                                  struct mark *mark)
{
    struct verdict verdict = {0};
    input->references.ulps = allowed_ulps(family, contender, &input->workload.problem);
    carat_status status = contender->functions->prepare(contender, &input->workload);
    if (status == CARAT_OK) {
        status = workload_poison(&input->workload);
    }
    if (status == CARAT_OK) {
        status = contender->functions->run(contender, &input->workload, 0);
    }
    if (status == CARAT_OK) {
        status = compare(contender, input, &verdict);
    }
    contender->functions->unprepare(contender);
    bool peer_failed = is_peer(contender) && status != CARAT_OK && status != CARAT_DEVICE_LOST;
    if (status == CARAT_UNSUPPORTED || peer_failed) { /* a layout or alignment that it does not do */
        if (!mark->ran) {
            snprintf(mark->why, sizeof(mark->why), "%.290s", carat_last_message());
        }
        return CARAT_OK;
    }
    CARAT_TRY(status);
    judge_float8(contender, input, mark, &verdict);
    mark->right = (mark->ran ? mark->right : true) && verdict.right;
    mark->ran = true;
    mark->error = larger_or_nan(mark->error, verdict.error);
    if (!verdict.right) {
        snprintf(mark->why, sizeof(mark->why), "%s", verdict.why);
    }
    return CARAT_OK;
}

/* The accuracy of a row's sums. Of f32, those of bf16 parts are standard, and those in f32 itself strict. */
static carat_accuracy accuracy_of_row(const struct kernel *row)
{
    return row->planes == 2                                  ? CARAT_ACCURACY_CLOSE
           : row->accuracy != 0                              ? (carat_accuracy)row->accuracy
           : row->element == ELEMENT_F32 && row->splits == 0 ? CARAT_ACCURACY_STRICT
                                                             : CARAT_ACCURACY_STANDARD;
}

/* Whether a row computes products of a kind, and of no other accuracy. One that rescues computes none by itself. */
static bool row_is_of_kind(const struct kernel *row, const struct kind *kind)
{
    int element = row->planes > 0 ? ELEMENT_F32 : row->element; /* sums of planes */
    int element_b = row->element_b ? row->element_b : element;
    bool product = row->operation == OPERATION_GEMM || row->operation == OPERATION_LADDER;
    if (row->widened && kind->accuracy == CARAT_ACCURACY_BEST) {
        return kind->type_a != CARAT_F64;
    }
    return product && !row->rescues && element == (int)kind->type_a && element_b == (int)kind->type_b &&
           accuracy_of_row(row) == kind->accuracy;
}

/* Notes the version of the contender that was added last. */
static void note_version(struct verify *verify)
{
    const struct contender *last = verify->field.contenders[verify->field.count - 1];
    json_object_set_new(verify->versions, last->name, json_string(last->version));
}

/* The library's choice, every row of the kind, and on CUDA the cuBLAS that does it. */
static carat_status open_contenders(struct verify *verify, const struct kind *kind)
{
    struct field *field = &verify->field;
    field_clear(field);
    CARAT_TRY(field_add_carat(field));
    note_version(verify);
    if (!field->stages[0].place.cuda) {
        return CARAT_OK;
    }
    for (int i = 0; i < carat_catalog_count; i++) {
        const struct kernel *row = &carat_catalog[i];
        if (row_is_of_kind(row, kind) && (!verify->kernel || strcmp(verify->kernel, row->name) == 0)) {
            CARAT_TRY(field_add_row(field, row));
        }
    }
    if (verify->against != 0) {
        return CARAT_OK;
    }
    carat_status status = field_add_peer(field, is_float8(kind->type_a) ? "cublaslt" : "cublas");
    if (status == CARAT_UNSUPPORTED) { /* it is not installed */
        return CARAT_OK;
    }
    CARAT_TRY(status);
    note_version(verify);
    return CARAT_OK;
}

/* ---- What is said ----------------------------------------------------------------------------------- */

/* One mark's place in the results. */
struct column {
    const char *family;
    int64_t k;
};

static void report_mark(struct verify *verify, const struct contender *contender, const struct kind *kind,
                        const struct column *column, const struct mark *mark)
{
    bool peer = is_peer(contender);
    char dtype[32];
    kind_name(kind, dtype, sizeof(dtype));
    json_t *line = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:s}", "kind", "verify", "contender",
                             contender->name, "dtype", dtype, "dtype_d", carat_type_name(kind->type_cd),
                             "family", column->family, "k", (json_int_t)column->k, "outcome",
                             !mark->ran    ? "skipped"
                             : peer        ? "beside"
                             : mark->right ? "right"
                                           : "wrong");
    json_object_set_new(line, "error",
                        mark->ran && isfinite(mark->error) ? json_real(mark->error) : json_null());
    if (is_float8(kind->type_a)) {
        json_object_set_new(line, "times_f32_sums", json_known(mark->times_f32));
    }
    if (!mark->ran || !mark->right) {
        json_object_set_new(line, "reason", json_string(mark->why));
    }
    json_array_append_new(verify->results, line);
    verify->checked += mark->ran && !peer;
    verify->wrong += mark->ran && !mark->right && !peer;
    verify->skipped += !mark->ran && !peer;
    if (!mark->ran) {
        fprintf(verify->table, " %10s", "-");
    } else {
        fprintf(verify->table, " %9.2e%s", mark->error, mark->right || peer ? " " : "!");
    }
}

/* Prints why, below a contender's line, where it was wrong. */
static void explain_wrong(struct verify *verify, const struct mark *marks, int count)
{
    for (int i = 0; i < count; i++) {
        if (marks[i].ran && !marks[i].right) {
            fprintf(verify->table, "  ! %s\n", marks[i].why);
            return;
        }
    }
}

/* A line of the table for each contender, below one of the errors of plain f32 sums where there are such (else
 * NULL). */
static void report_marks(struct verify *verify, const struct kind *kind, const struct column *columns,
                         int count, struct mark marks[][MOST_COLUMNS], const double *f32_errors)
{
    struct field *field = &verify->field;
    if (f32_errors && is_float8(kind->type_a)) {
        fprintf(verify->table, "%-34s", "(exact products, f32 sums)");
        for (int i = 0; i < count; i++) {
            fprintf(verify->table, " %9.2e ", f32_errors[i]);
        }
        fputc('\n', verify->table);
    }
    for (int i = 0; i < field->count; i++) {
        fprintf(verify->table, "%-34.34s", field->contenders[i]->name);
        for (int at = 0; at < count; at++) {
            report_mark(verify, field->contenders[i], kind, &columns[at], &marks[i][at]);
        }
        fputc('\n', verify->table);
        if (!is_peer(field->contenders[i])) {
            explain_wrong(verify, marks[i], count);
        }
    }
}

/* ---- The measurements ------------------------------------------------------------------------------- */

/* Every contender of a kind over one family: all layouts, a shape of whole tiles and an odd one. */
static carat_status verify_family(struct verify *verify, const struct kind *kind, enum input_family family,
                                  int at, struct mark marks[][MOST_COLUMNS], double *f32_error)
{
    static const int odd[3] = {-61, -125, 3};
    struct field *field = &verify->field;
    int64_t size = verify->size;
    for (int turn = 0; turn < 4 * 2; turn++) {
        int shape = turn % 2;
        int64_t m = shape && size > 61 ? size + odd[0] : size;
        int64_t n = shape && size > 125 ? size + odd[1] : size;
        int64_t k = shape ? size + odd[2] : size;
        carat_gemm_problem problem = packed_problem(kind, turn / 2, m, n, k);
        struct input input;
        carat_status status = input_open(&field->stages[0], &problem, family, &input);
        *f32_error = fmax(*f32_error, input.f32_error);
        for (int i = 0; i < field->count && status == CARAT_OK; i++) {
            status = try_contender(field->contenders[i], &input, family, &marks[i][at]);
        }
        input_close(&input);
        CARAT_TRY(status);
    }
    return CARAT_OK;
}

static void print_kind(struct verify *verify, const struct kind *kind, const char *what)
{
    char dtype[32], text[80];
    kind_name(kind, dtype, sizeof(dtype));
    snprintf(text, sizeof(text), "%s to %s, %s", dtype, carat_type_name(kind->type_cd), what);
    fprintf(verify->table, "\n%-34s", text);
}

static carat_status verify_kind(struct verify *verify, const struct kind *kind)
{
    struct mark marks[MOST_CONTENDERS][MOST_COLUMNS] = {{{0}}};
    double f32_errors[MOST_COLUMNS] = {0};
    struct column columns[MOST_COLUMNS];
    bool integer = is_integer(kind->type_a);
    int families = integer ? 1 : kind->narrow ? INPUT_UNIFORM + 1 : INPUT_FAMILIES;
    char dtype[32], size[40];
    kind_name(kind, dtype, sizeof(dtype));
    CARAT_TRY(open_contenders(verify, kind));
    for (int family = 0; family < families; family++) {
        const char *name = integer ? "all" : input_family_name((enum input_family)family);
        progress("verify: %s %s", dtype, name);
        columns[family] = (struct column){name, verify->size};
        CARAT_TRY(verify_family(verify, kind, (enum input_family)family, family, marks, &f32_errors[family]));
    }
    progress_end();
    snprintf(size, sizeof(size), "about %lld", (long long)verify->size);
    print_kind(verify, kind, size);
    for (int family = 0; family < families; family++) {
        fprintf(verify->table, " %10s", columns[family].family);
    }
    fputc('\n', verify->table);
    report_marks(verify, kind, columns, families, marks, f32_errors);
    return CARAT_OK;
}

/* A kind's contenders on sums of positive numbers that get longer and longer. */
static carat_status verify_depth(struct verify *verify, const struct kind *kind)
{
    struct mark marks[MOST_CONTENDERS][MOST_COLUMNS] = {{{0}}};
    double f32_errors[MOST_COLUMNS] = {0};
    struct column columns[MOST_COLUMNS];
    int count = 0;
    struct field *field = &verify->field;
    for (int64_t k = 16; k <= verify->deepest && count < MOST_DEPTHS; k *= 4) {
        columns[count++] = (struct column){"positive", k};
    }
    CARAT_TRY(open_contenders(verify, kind));
    for (int depth = 0; depth < count; depth++) {
        progress("verify: k = %lld", (long long)columns[depth].k);
        carat_gemm_problem problem = packed_problem(kind, 0, 32, 32, columns[depth].k);
        struct input input;
        carat_status status = input_open(&field->stages[0], &problem, INPUT_POSITIVE, &input);
        f32_errors[depth] = input.f32_error;
        for (int i = 0; i < field->count && status == CARAT_OK; i++) {
            status = try_contender(field->contenders[i], &input, INPUT_POSITIVE, &marks[i][depth]);
        }
        input_close(&input);
        CARAT_TRY(status);
    }
    progress_end();
    print_kind(verify, kind, "positive, k =");
    for (int depth = 0; depth < count; depth++) {
        fprintf(verify->table, " %10lld", (long long)columns[depth].k);
    }
    fputc('\n', verify->table);
    report_marks(verify, kind, columns, count, marks, f32_errors);
    return CARAT_OK;
}

/* The library's choice with each bias and activation: a line of the table each. */
static carat_status verify_epilogues(struct verify *verify, const struct kind *kind)
{
    struct mark marks[MOST_CONTENDERS][MOST_COLUMNS] = {{{0}}};
    struct column column = {"normal", verify->size};
    double f32_error = 0;
    struct field *field = &verify->field;
    field_clear(field);
    for (int i = 1; i < epilogue_count; i++) {
        CARAT_TRY(field_add_epilogue(field, &epilogues[i]));
    }
    CARAT_TRY(verify_family(verify, kind, INPUT_NORMAL, 0, marks, &f32_error));
    progress_end();
    print_kind(verify, kind, "with");
    fprintf(verify->table, " %10s\n", column.family);
    report_marks(verify, kind, &column, 1, marks, NULL);
    return CARAT_OK;
}

/* The tables of one kind. */
static carat_status verify_all_of(struct verify *verify, const struct kind *kind)
{
    CARAT_TRY(verify_kind(verify, kind));
    bool own_result = kind->type_cd == carat_gemm_describe(kind->type_a, 1, 1, 1).type_cd;
    bool of_all = kind->accuracy == CARAT_ACCURACY_STANDARD || kind->accuracy == CARAT_ACCURACY_BEST;
    bool plain = of_all && kind->type_a == kind->type_b;
    if (!is_integer(kind->type_a) && own_result && plain) {
        CARAT_TRY(verify_epilogues(verify, kind));
    }
    /* f32, and 8-bit floats where rounding D does not hide what becomes of the sums. */
    bool deep = kind->type_cd == CARAT_F32 && (kind->type_a == CARAT_F32 || kind->type_a == CARAT_E4M3);
    return deep && verify->deepest >= 16 ? verify_depth(verify, kind) : CARAT_OK;
}

int command_verify(int argc, char **argv)
{
    const char *device = "auto";
    const char *type_text = NULL;
    const char *json_path = NULL;
    const char *kernel = NULL;
    int against = 0;
    int accuracy = -1;
    int64_t size = 192;
    int64_t deepest = 262144;
    const struct option options[] = {
        {.name = "--device",
         .kind = OPTION_TEXT,
         .target = &device,
         .value = "DEVICE",
         .help = "what is verified: auto, cpu, cuda or cuda:N (auto)"},
        {.name = "--type",
         .kind = OPTION_TEXT,
         .target = &type_text,
         .value = "TYPE",
         .help = "only this element type of A; also tf32, e4m3-fast, f32-best and the like"},
        {.name = "--accuracy",
         .kind = OPTION_CHOICE,
         .target = &accuracy,
         .choices = "standard|strict|fast|best|close",
         .help =
             "only this accuracy; f16, bf16 and f64 are verified in standard and best, integers in standard"},
        {.name = "--kernel",
         .kind = OPTION_TEXT,
         .target = &kernel,
         .value = "NAME",
         .help = "only this row of the catalogue, beside the library's choice"},
        {.name = "--against",
         .kind = OPTION_CHOICE,
         .target = &against,
         .choices = "cublas|none",
         .help = "who is measured beside on a CUDA device (cublas)"},
        {.name = "--size",
         .kind = OPTION_COUNT,
         .target = &size,
         .value = "N",
         .help = "m, n and k are about this (192)"},
        {.name = "--deepest",
         .kind = OPTION_COUNT,
         .target = &deepest,
         .value = "K",
         .help = "the longest sums of positive numbers (262144); 0 for none"},
        {.name = "--json",
         .kind = OPTION_TEXT,
         .target = &json_path,
         .value = "FILE",
         .help = "write the errors as JSON (-: to standard output, with the table on standard error)"},
    };
    const struct usage usage = {
        .synopsis = "carat verify [options]",
        .description =
            "Multiplies matrices of several families, in all layouts, with the library's choice and (on a\n"
            "CUDA device) with every kernel by itself, and prints the largest max |D - ref| / (|A||B|),\n"
            "entry by entry, against a reference in higher precision; then the same with each bias and\n"
            "activation. cuBLAS, where it is installed, is measured beside and not judged.",
        .options = options,
        .option_count = sizeof(options) / sizeof(options[0]),
        .notes =
            "Families: normal, uniform in [-1, 1), positive (uniform in [0, 1)), wide (each entry times its\n"
            "own power of two), scaled (each column), integers (whose products must be exact). An error is\n"
            "marked ! where it is over what the arithmetic allows; the exit code is then 1. Of 8-bit floats\n"
            "to bf16 it allows twice the error of exact products summed in f32, which is shown above them,\n"
            "unless the fast or the best accuracy was asked for. Integer types are compared modulo 2^32.",
    };
    int exit_code;
    if (options_parse(&usage, argc, argv, NULL, 0, &exit_code) < 0) {
        return exit_code;
    }
    carat_device_kind kind;
    int index;
    bool known = false;
    bool any = false;
    for (int i = 0; i < KIND_COUNT; i++) {
        known = known || kind_wanted(&kinds[i], type_text, -1);
        any = any || kind_wanted(&kinds[i], type_text, accuracy);
    }
    if (!known) {
        return usage_error(argv[0], "'%s' is no element type", type_text);
    }
    if (!any) {
        return usage_error(argv[0], "%s is not verified in that accuracy", type_text);
    }
    if (!parse_device(device, &kind, &index)) {
        return usage_error(argv[0], "--device is '%s', but should be auto, cpu, cuda or cuda:N", device);
    }
    const struct kernel *row = kernel ? catalog_find(kernel) : NULL;
    if (kernel && (!row || row->operation != OPERATION_GEMM)) {
        return usage_error(argv[0], "there is no kernel '%s' for a product", kernel);
    }
    if (size < 1 || size > 4096) {
        return usage_error(argv[0], "--size is %lld, but should be from 1 to 4096", (long long)size);
    }
    struct verify verify = {
        .kernel = kernel,
        .against = against,
        .size = size,
        .deepest = deepest,
        .table = json_path && strcmp(json_path, "-") == 0 ? stderr : stdout,
    };
    if (field_open(kind, index, &verify.field) != CARAT_OK) {
        return command_failed(argv[0], "%s", carat_last_message());
    }
    json_t *document = report_head(&verify.field.stages[0].place, NULL, 0, NULL);
    verify.results = json_array();
    verify.versions = json_object_get(document, "contenders");
    json_object_set_new(document, "results", verify.results);
    fprintf(verify.table, "carat %s on %s\n", carat_version(), verify.field.stages[0].place.info.name);
    carat_status status = CARAT_OK;
    for (int i = 0; i < KIND_COUNT && status == CARAT_OK; i++) {
        if (kind_wanted(&kinds[i], type_text, accuracy)) {
            status = verify_all_of(&verify, &kinds[i]);
        }
    }
    progress_end();
    exit_code = status == CARAT_OK ? EXIT_OK : command_failed(argv[0], "%s", carat_last_message());
    fprintf(verify.table, "\n%d right, %d wrong, %d skipped (a layout that a kernel does not have)\n",
            verify.checked - verify.wrong, verify.wrong, verify.skipped);
    if (json_path && !report_document(json_path, document)) {
        exit_code = command_failed(argv[0], "cannot write %s", json_path);
    }
    json_decref(document);
    field_close(&verify.field);
    return exit_code == EXIT_OK && verify.wrong > 0 ? EXIT_FAILED : exit_code;
}
