/*
 * gemm.c - products on the CPU, multiplied by a BLAS.
 *
 * f32 and f64 go to it as they are. What it does not have goes through it by panels:
 *
 *          k            n                 n
 *       +--+--+      +--+--+           +--+--+
 *     m |A0|A1|    k |B0|..|         m |D |..|     D's panel = finish(sum of panels A * B)
 *       +--+--+      +--+--+           +--+--+
 *       |  |  |      |B1|..|           |  |  |
 *       +--+--+      +--+--+           +--+--+
 *
 * A panel of A and one of B are loaded into the type that the BLAS multiplies, their product is added
 * to a panel of sums, and when k is through, the epilogue makes D of the sums, with one rounding.
 *
 *     f16, bf16   f32 panels, f32 sums
 *     e4m3, e5m2  f32 panels, in which the products are exact; f32 sums
 *     s8          f32 panels, products exact as long as k * 2^14 <= 2^24; s32 sums
 *     s32         the halves of x = 2^16 high + low in f64 panels, each product of halves exact;
 *                 s32 sums: low*low + 2^16 (high*low + low*high) modulo 2^32
 *     f32, f64    copied, where a size or a leading dimension is beyond the BLAS's int
 *
 * In best accuracy no BLAS serves f64, and f32 is as the others:
 *
 *     f32, f16, bf16, e4m3, e5m2    f64 panels, in which the products are exact; f64 sums, rounded once
 *     f64         copied; sums with what their roundings lose beside them (Ogita, Rump and Oishi, 2005)
 */
#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../status.h"
#include "cpu.h"

/* ---- Panels ---- */

struct shape {
    int64_t m;
    int64_t n;
    int64_t k;
};

/* A panel of A or B as the BLAS sees it, packed; s32 has two, one after the other. */
struct scratch {
    void *a;
    void *b;
    void *product; /* where it is not added to the sums by the BLAS; or what the sums have lost */
    void *sums;
};

/* How one element type goes through the BLAS. */
struct arithmetic {
    int64_t side; /* of a panel: its most rows and columns */
    size_t loaded_bytes;
    size_t product_bytes;
    size_t sum_bytes;

    /* Loads rows x columns elements of the type, ld apart, into a packed panel. */
    void (*load)(carat_type type, void *panel, const void *from, int64_t rows, int64_t columns, int64_t ld);

    /* Adds the product of the loaded panels to the sums, or makes it the sums where first. */
    void (*multiply)(const struct problem *problem, struct shape shape, const struct scratch *scratch,
                     bool first);

    /* Makes the sums whole once k is through; NULL where they are. */
    void (*settle)(struct shape shape, const struct scratch *scratch);
};

static CBLAS_TRANSPOSE blas_op(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

/* ---- Loading ---- */

static void load_as_f32(carat_type type, void *panel, const void *from, int64_t rows, int64_t columns,
                        int64_t ld)
{
    size_t bytes = carat_type_size(type);
    for (int64_t j = 0; j < columns; j++) {
        cpu_widen(type, (const char *)from + (size_t)(j * ld) * bytes, rows, (float *)panel + j * rows);
    }
}

/* Any type that f32 can hold, as f64. */
static void load_as_f64(carat_type type, void *panel, const void *from, int64_t rows, int64_t columns,
                        int64_t ld)
{
    enum { RUN = 512 };
    size_t bytes = carat_type_size(type);
    float run[RUN];
    for (int64_t j = 0; j < columns; j++) {
        double *to = (double *)panel + j * rows;
        for (int64_t i = 0; i < rows; i += RUN) {
            int64_t count = rows - i < RUN ? rows - i : RUN;
            cpu_widen(type, (const char *)from + (size_t)(i + j * ld) * bytes, count, run);
            for (int64_t e = 0; e < count; e++) {
                to[i + e] = run[e];
            }
        }
    }
}

static void load_f64(carat_type type, void *panel, const void *from, int64_t rows, int64_t columns,
                     int64_t ld)
{
    (void)type;
    for (int64_t j = 0; j < columns; j++) {
        memcpy((double *)panel + j * rows, (const double *)from + j * ld, (size_t)rows * sizeof(double));
    }
}

/* x = 2^16 high + low with low in [-2^15, 2^15): then both halves have at most 15 bits and a sign. */
static void load_s32(carat_type type, void *panel, const void *from, int64_t rows, int64_t columns,
                     int64_t ld)
{
    (void)type;
    double *low = panel;
    double *high = low + rows * columns;
    for (int64_t j = 0; j < columns; j++) {
        for (int64_t i = 0; i < rows; i++) {
            int64_t x = ((const int32_t *)from)[i + j * ld];
            int64_t low_half = (int16_t)(x & 0xffff);
            low[i + j * rows] = (double)low_half;
            high[i + j * rows] = (double)(x - low_half) / 65536;
        }
    }
}

/* ---- Multiplying ---- */

static void sgemm(const struct problem *p, struct shape s, const float *a, const float *b, float beta,
                  float *to)
{
    cblas_sgemm(CblasColMajor, blas_op(p->trans_a), blas_op(p->trans_b), (int)s.m, (int)s.n, (int)s.k, 1.0f,
                a, (int)(p->trans_a ? s.k : s.m), b, (int)(p->trans_b ? s.n : s.k), beta, to, (int)s.m);
}

static void dgemm(const struct problem *p, struct shape s, const double *a, const double *b, double beta,
                  double *to)
{
    cblas_dgemm(CblasColMajor, blas_op(p->trans_a), blas_op(p->trans_b), (int)s.m, (int)s.n, (int)s.k, 1.0, a,
                (int)(p->trans_a ? s.k : s.m), b, (int)(p->trans_b ? s.n : s.k), beta, to, (int)s.m);
}

static void multiply_f32(const struct problem *p, struct shape shape, const struct scratch *scratch,
                         bool first)
{
    sgemm(p, shape, scratch->a, scratch->b, first ? 0.0f : 1.0f, scratch->sums);
}

static void multiply_f64(const struct problem *p, struct shape shape, const struct scratch *scratch,
                         bool first)
{
    dgemm(p, shape, scratch->a, scratch->b, first ? 0.0 : 1.0, scratch->sums);
}

/* One more product for a sum, and for what the sum's roundings have lost. */
static void add_compensated(double x, double y, double *sum, double *lost)
{
    double product = x * y;
    double product_error = fma(x, y, -product);
    double next = *sum + product;
    double added = next - *sum;
    double sum_error = (*sum - (next - added)) + (product - added);
    *sum = next;
    *lost += sum_error + product_error;
}

static void multiply_compensated(const struct problem *p, struct shape shape, const struct scratch *scratch,
                                 bool first)
{
    const double *a = scratch->a;
    const double *b = scratch->b;
    double *sums = scratch->sums;
    double *lost = scratch->product;
    if (first) {
        memset(sums, 0, (size_t)(shape.m * shape.n) * sizeof(*sums));
        memset(lost, 0, (size_t)(shape.m * shape.n) * sizeof(*lost));
    }
    for (int64_t j = 0; j < shape.n; j++) {
        for (int64_t l = 0; l < shape.k; l++) {
            double y = p->trans_b ? b[j + l * shape.n] : b[l + j * shape.k];
            const double *x = p->trans_a ? a + l : a + l * shape.m;
            int64_t step = p->trans_a ? shape.k : 1;
            for (int64_t i = 0; i < shape.m; i++) {
                add_compensated(x[i * step], y, &sums[i + j * shape.m], &lost[i + j * shape.m]);
            }
        }
    }
}

/* A sum that is infinite or no number has lost nothing that counts. */
static void settle_compensated(struct shape shape, const struct scratch *scratch)
{
    double *sums = scratch->sums;
    const double *lost = scratch->product;
    for (int64_t i = 0; i < shape.m * shape.n; i++) {
        sums[i] += isfinite(lost[i]) ? lost[i] : 0;
    }
}

static void multiply_s8(const struct problem *p, struct shape shape, const struct scratch *scratch,
                        bool first)
{
    const float *product = scratch->product;
    uint32_t *sums = scratch->sums;
    sgemm(p, shape, scratch->a, scratch->b, 0.0f, scratch->product);
    for (int64_t i = 0; i < shape.m * shape.n; i++) {
        sums[i] = (first ? 0 : sums[i]) + (uint32_t)(int32_t)product[i];
    }
}

static void multiply_s32(const struct problem *p, struct shape shape, const struct scratch *scratch,
                         bool first)
{
    const double *a_low = scratch->a;
    const double *a_high = a_low + shape.m * shape.k;
    const double *b_low = scratch->b;
    const double *b_high = b_low + shape.k * shape.n;
    double *product = scratch->product;
    uint32_t *sums = scratch->sums;
    int64_t count = shape.m * shape.n;

    dgemm(p, shape, a_low, b_low, 0.0, product);
    for (int64_t i = 0; i < count; i++) {
        sums[i] = (first ? 0 : sums[i]) + (uint32_t)(int64_t)product[i];
    }
    dgemm(p, shape, a_high, b_low, 0.0, product);
    dgemm(p, shape, a_low, b_high, 1.0, product);
    for (int64_t i = 0; i < count; i++) {
        sums[i] += (uint32_t)(int64_t)product[i] << 16;
    }
}

/* ---- The types ---- */

static const struct arithmetic *arithmetic_of(const struct problem *p)
{
    static const struct arithmetic in_f32 = {1024, 4, 0, 4, load_as_f32, multiply_f32, NULL};
    static const struct arithmetic in_f64 = {1024, 8, 0, 8, load_f64, multiply_f64, NULL};
    static const struct arithmetic of_s8 = {1024, 4, 4, 4, load_as_f32, multiply_s8, NULL};
    static const struct arithmetic of_s32 = {512, 16, 8, 4, load_s32, multiply_s32, NULL};
    static const struct arithmetic wide = {1024, 8, 0, 8, load_as_f64, multiply_f64, NULL};
    static const struct arithmetic compensated = {
        512, 8, 8, 8, load_f64, multiply_compensated, settle_compensated};
    if (problem_wants_best(p)) {
        return p->type_a == CARAT_F64 ? &compensated : &wide;
    }
    switch (p->type_a) {
    case CARAT_F64:
        return &in_f64;
    case CARAT_S8:
        return &of_s8;
    case CARAT_S32:
        return &of_s32;
    default:
        return &in_f32;
    }
}

static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* The element at (row, column) of a stored matrix. */
static const void *element_at(const void *matrix, int64_t row, int64_t column, int64_t ld, size_t bytes)
{
    return (const char *)matrix + (size_t)(row + column * ld) * bytes;
}

/* Loads the panel of a stored matrix that is rows x columns of op(matrix) from (row, column) on. */
static void load_panel(const struct arithmetic *arithmetic, carat_type type, const void *matrix,
                       bool transposed, int64_t ld, int64_t row, int64_t column, int64_t rows,
                       int64_t columns, void *panel)
{
    size_t bytes = carat_type_size(type);
    if (transposed) {
        arithmetic->load(type, panel, element_at(matrix, column, row, ld, bytes), columns, rows, ld);
    } else {
        arithmetic->load(type, panel, element_at(matrix, row, column, ld, bytes), rows, columns, ld);
    }
}

/* One problem, panel by panel of D. */
static void gemm_by_panels(const struct arithmetic *arithmetic, const struct problem *p,
                           const struct operands *operands, const struct scratch *scratch)
{
    int64_t side = arithmetic->side;
    for (int64_t j = 0; j < p->n; j += side) {
        for (int64_t i = 0; i < p->m; i += side) {
            struct shape shape = {least(side, p->m - i), least(side, p->n - j), 0};
            for (int64_t l = 0; l < p->k && scratch->sums; l += side) {
                shape.k = least(side, p->k - l);
                load_panel(arithmetic, p->type_a, operands->a, p->trans_a, p->lda, i, l, shape.m, shape.k,
                           scratch->a);
                load_panel(arithmetic, p->type_b, operands->b, p->trans_b, p->ldb, l, j, shape.k, shape.n,
                           scratch->b);
                arithmetic->multiply(p, shape, scratch, l == 0);
            }
            if (arithmetic->settle && scratch->sums) {
                arithmetic->settle(shape, scratch);
            }
            cpu_finish(p, operands, &(struct block){i, j, shape.m, shape.n, scratch->sums});
        }
    }
}

/* ---- f32 and f64 as they are ---- */

static bool fits_blas(const struct problem *p)
{
    return (p->type_a == CARAT_F32 || p->type_a == CARAT_F64) && !problem_wants_best(p) && p->m <= INT_MAX &&
           p->n <= INT_MAX && p->k <= INT_MAX && p->lda <= INT_MAX && p->ldb <= INT_MAX && p->ldd <= INT_MAX;
}

/* Whether anything is done to alpha * sum + beta * C. */
static bool has_last_steps(const struct problem *p)
{
    return p->bias || p->activation != CARAT_ACTIVATION_NONE;
}

static void gemm_direct(const struct problem *p, const struct operands *operands, bool reads_c)
{
    size_t bytes = carat_type_size(p->type_cd);
    if (reads_c && operands->c != operands->d) {
        for (int64_t j = 0; j < p->n; j++) {
            memcpy((char *)operands->d + (size_t)(j * p->ldd) * bytes,
                   element_at(operands->c, 0, j, p->ldc, bytes), (size_t)p->m * bytes);
        }
    }
    if (p->type_a == CARAT_F32) {
        cblas_sgemm(CblasColMajor, blas_op(p->trans_a), blas_op(p->trans_b), (int)p->m, (int)p->n, (int)p->k,
                    *(const float *)operands->alpha, operands->a, (int)p->lda, operands->b, (int)p->ldb,
                    *(const float *)operands->beta, operands->d, (int)p->ldd);
    } else {
        cblas_dgemm(CblasColMajor, blas_op(p->trans_a), blas_op(p->trans_b), (int)p->m, (int)p->n, (int)p->k,
                    *(const double *)operands->alpha, operands->a, (int)p->lda, operands->b, (int)p->ldb,
                    *(const double *)operands->beta, operands->d, (int)p->ldd);
    }
    if (has_last_steps(p)) {
        cpu_finish_in_place(p, operands);
    }
}

/* ---- The whole call ---- */

static bool is_zero(carat_type scalar_type, const void *scalar)
{
    switch (scalar_type) {
    case CARAT_F64:
        return *(const double *)scalar == 0;
    case CARAT_S32:
        return *(const int32_t *)scalar == 0;
    default:
        return *(const float *)scalar == 0;
    }
}

/* Panels of the sizes the problem needs. What was allocated of them is freed by scratch_free(). */
static bool scratch_allocate(const struct arithmetic *arithmetic, const struct problem *p,
                             struct scratch *scratch)
{
    size_t m = (size_t)least(arithmetic->side, p->m);
    size_t n = (size_t)least(arithmetic->side, p->n);
    size_t k = (size_t)least(arithmetic->side, p->k);
    scratch->a = malloc(m * k * arithmetic->loaded_bytes);
    scratch->b = malloc(k * n * arithmetic->loaded_bytes);
    scratch->sums = malloc(m * n * arithmetic->sum_bytes);
    scratch->product = arithmetic->product_bytes ? malloc(m * n * arithmetic->product_bytes) : NULL;
    return scratch->a && scratch->b && scratch->sums && (scratch->product || !arithmetic->product_bytes);
}

static void scratch_free(struct scratch *scratch)
{
    free(scratch->a);
    free(scratch->b);
    free(scratch->product);
    free(scratch->sums);
}

/* The operands of one problem of the batch. */
static struct operands operands_of(const struct problem *p, const struct operands *batch, int64_t index)
{
    size_t bytes_cd = carat_type_size(p->type_cd);
    struct operands one = *batch;
    if (p->k > 0) {
        one.a = (const char *)batch->a + (size_t)(index * p->stride_a) * carat_type_size(p->type_a);
        one.b = (const char *)batch->b + (size_t)(index * p->stride_b) * carat_type_size(p->type_b);
    }
    if (batch->c) {
        one.c = (const char *)batch->c + (size_t)(index * p->stride_c) * bytes_cd;
    }
    if (batch->bias) {
        one.bias =
            (const char *)batch->bias + (size_t)(index * p->stride_bias) * carat_type_size(p->type_bias);
    }
    one.d = (char *)batch->d + (size_t)(index * p->stride_d) * bytes_cd;
    return one;
}

carat_status cpu_gemm(const struct problem *problem, const struct operands *operands)
{
    carat_type scalar_type = problem_scalar_type(problem);
    bool multiplies = problem->k > 0 && !is_zero(scalar_type, operands->alpha);
    bool reads_c = !is_zero(scalar_type, operands->beta);
    if (reads_c && !operands->c) {
        return fail(CARAT_INVALID_ARGUMENT, "c is NULL, but beta is not 0");
    }
    const struct arithmetic *arithmetic = arithmetic_of(problem);
    bool direct = multiplies && fits_blas(problem);
    struct scratch scratch = {NULL, NULL, NULL, NULL};
    if (multiplies && !direct && !scratch_allocate(arithmetic, problem, &scratch)) {
        scratch_free(&scratch);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for the panels of a product");
    }
    for (int64_t index = 0; index < problem->batch; index++) {
        struct operands one = operands_of(problem, operands, index);
        if (direct) {
            gemm_direct(problem, &one, reads_c);
        } else {
            gemm_by_panels(arithmetic, problem, &one, &scratch);
        }
    }
    scratch_free(&scratch);
    return CARAT_OK;
}

/* ---- Explaining ---- */

/* OpenBLAS says what it is; another CBLAS does not have this function. */
__attribute__((weak)) char *openblas_get_config(void); /* NOLINT(readability-redundant-declaration) */

/* How A and B are multiplied. */
static const char *how_multiplied(const struct problem *p)
{
    if (p->k == 0) {
        return "no product, as k is 0";
    }
    bool direct = fits_blas(p);
    if (problem_wants_best(p)) {
        return p->type_a == CARAT_F64
                   ? "f64 in panels, summed with what roundings lose beside, not by the BLAS"
                   : "floats widened to f64 in panels, to dgemm, whose products of them are exact";
    }
    switch (p->type_a) {
    case CARAT_F32:
        return direct ? "sgemm as it is" : "copied in panels for its 32-bit sizes, to sgemm";
    case CARAT_F64:
        return direct ? "dgemm as it is" : "copied in panels for its 32-bit sizes, to dgemm";
    case CARAT_S8:
        return "s8 as f32 in panels short enough for sgemm to be exact, summed in s32";
    case CARAT_S32:
        return "s32 as two halves in f64 panels, three dgemm that are exact";
    case CARAT_E4M3:
    case CARAT_E5M2:
        return "8-bit floats widened to f32 in panels, to sgemm, whose products of them are exact";
    default:
        return p->type_a == CARAT_F16 ? "f16 widened to f32 in panels, to sgemm"
                                      : "bf16 widened to f32 in panels, to sgemm";
    }
}

/* What becomes of the sums. */
static const char *how_finished(const struct problem *p)
{
    if (p->k > 0 && fits_blas(p)) {
        return has_last_steps(p) ? ", bias and activation in a pass over D" : "";
    }
    bool rounds = problem_sum_type(p) != p->type_cd;
    return has_last_steps(p)
               ? (rounds ? ", with bias and activation rounded once" : ", with bias and activation")
               : (rounds ? ", rounded once" : "");
}

void cpu_gemm_explain(const struct problem *problem, char *text, size_t size)
{
    /* "OpenBLAS 0.3.20 and its build options": the first two words. */
    char blas[64] = "the CBLAS it was built with";
    if (openblas_get_config) {
        char name[32];
        char version[24];
        if (sscanf(openblas_get_config(), "%31s %23s", name, version) == 2) {
            snprintf(blas, sizeof(blas), "%s %s", name, version);
        }
    }
    bool has_fast_way =
        problem->type_a == CARAT_F32 || problem->type_a == CARAT_E4M3 || problem->type_a == CARAT_E5M2;
    bool fast = has_fast_way && problem->accuracy == CARAT_ACCURACY_FAST && problem->k > 0;
    snprintf(text, size, "CPU, %s: %s%s%s", blas, how_multiplied(problem), how_finished(problem),
             fast ? "; f32 throughout, which is no less accurate than the fast way" : "");
}
