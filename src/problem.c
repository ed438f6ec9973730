/* problem.c - checking what a caller asks for, once, and bringing it into canonical form. */
#include "problem.h"

#include <inttypes.h>

#include "dtype.h"
#include "status.h"

static bool is_float8(carat_type type) { return type == CARAT_E4M3 || type == CARAT_E5M2; }

/* What C and D are where nobody says otherwise. */
static carat_type natural_result(carat_type type)
{
    return type == CARAT_S8 ? CARAT_S32 : (is_float8(type) ? CARAT_BF16 : type);
}

carat_type problem_scalar_type(const struct problem *p) { return carat_scalar_type(p->type_cd); }

carat_type problem_sum_type(const struct problem *p)
{
    return p->type_a == CARAT_S8   ? CARAT_S32
           : problem_wants_best(p) ? CARAT_F64
                                   : carat_scalar_type(p->type_cd);
}

bool problem_wants_best(const struct problem *p)
{
    return p->accuracy == CARAT_ACCURACY_BEST && p->type_a != CARAT_S8 && p->type_a != CARAT_S32;
}

bool problem_takes_scales(const struct problem *p)
{
    return is_float8(p->type_a) || (p->type_a == CARAT_S8 && p->type_cd != CARAT_S32);
}

bool problem_is_plain(const struct problem *p)
{
    carat_type own = p->type_a == CARAT_S8 ? CARAT_S32 : p->type_a;
    return p->type_cd == own && !p->bias && p->activation == CARAT_ACTIVATION_NONE &&
           !problem_takes_scales(p);
}

carat_gemm_problem carat_gemm_describe(carat_type type, int64_t m, int64_t n, int64_t k)
{
    return (carat_gemm_problem){
        .struct_size = sizeof(carat_gemm_problem),
        .order = CARAT_COLUMN_MAJOR,
        .op_a = CARAT_NO_TRANSPOSE,
        .op_b = CARAT_NO_TRANSPOSE,
        .type_a = type,
        .type_b = type,
        .type_cd = natural_result(type),
        .type_bias = carat_scalar_type(natural_result(type)),
        .m = m,
        .n = n,
        .k = k,
        .batch = 1,
        .accuracy = CARAT_ACCURACY_STANDARD,
    };
}

/* ---- Matrices ---- */

/* Elements from the first of a batch of matrices to past the last; false where int64_t cannot say it. */
static bool span_elements(int64_t rows, int64_t columns, int64_t ld, int64_t batch, int64_t stride,
                          int64_t *span)
{
    *span = 0;
    if (rows == 0 || columns == 0 || batch == 0) {
        return true;
    }
    int64_t to_last_column;
    int64_t to_last_problem;
    return !__builtin_mul_overflow(columns - 1, ld, &to_last_column) &&
           !__builtin_mul_overflow(batch - 1, stride, &to_last_problem) &&
           !__builtin_add_overflow(to_last_column, to_last_problem, span) &&
           !__builtin_add_overflow(*span, rows, span);
}

carat_status matrix_check(const char *name, const char *ld_name, carat_order order, int64_t rows,
                          int64_t columns, int64_t *ld, int64_t batch, int64_t stride, size_t element_bytes)
{
    bool row_major = order == CARAT_ROW_MAJOR;
    int64_t contiguous = row_major ? columns : rows;
    int64_t across = row_major ? rows : columns;
    int64_t least = contiguous > 1 ? contiguous : 1;
    if (*ld == 0) {
        *ld = least;
    }
    if (*ld < least) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is %" PRId64 ", but %s has %" PRId64 " %s", ld_name, *ld,
                    name, contiguous,
                    row_major ? "columns stored row by row" : "rows stored column by column");
    }
    if (rows == 0 || columns == 0 || batch == 0) {
        *ld = least; /* what was given says nothing, and need not be counted */
        return CARAT_OK;
    }
    int64_t span;
    int64_t bytes;
    /* From a single column on nobody goes ld further, but its bytes are counted all the same. */
    if (!span_elements(contiguous, across, *ld, batch, stride, &span) ||
        __builtin_mul_overflow(span, (int64_t)element_bytes, &bytes) ||
        __builtin_mul_overflow(*ld, (int64_t)element_bytes, &bytes)) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "%s is too large for 63 bits of bytes: %" PRId64 " x %" PRId64 ", %s %" PRId64
                    ", batch %" PRId64 ", stride %" PRId64,
                    name, rows, columns, ld_name, *ld, batch, stride);
    }
    return CARAT_OK;
}

double extent_elements(struct extent extent)
{
    return (double)extent.rows * (double)extent.columns * (double)(extent.stride == 0 ? 1 : extent.batch);
}

size_t extent_bytes(const struct extent *extent)
{
    int64_t span;
    span_elements(extent->rows, extent->columns, extent->ld, extent->batch, extent->stride, &span);
    return (size_t)span * extent->element_bytes;
}

/* One matrix of a batch, in bytes. */
struct rectangle {
    int64_t begin;  /* from the first matrix of the batch X on */
    int64_t length; /* of a column */
    int64_t columns;
    int64_t pitch;
};

static int64_t end_of(const struct rectangle *x)
{
    return x->begin + (x->columns - 1) * x->pitch + x->length;
}

static int64_t floor_divide(int64_t x, int64_t y) { return x / y - (x % y < 0); }

/* Whether the bytes [begin, begin + length) meet a column of the rectangle. */
static bool column_meets(int64_t begin, int64_t length, const struct rectangle *x)
{
    /* The last column that begins before the end of the bytes is the one that reaches furthest. */
    int64_t column = floor_divide(begin + length - 1 - x->begin, x->pitch);
    if (column < 0) {
        return false;
    }
    column = column < x->columns ? column : x->columns - 1;
    return x->begin + column * x->pitch + x->length > begin;
}

static bool rectangles_meet(const struct rectangle *x, const struct rectangle *y)
{
    if (x->begin >= end_of(y) || y->begin >= end_of(x)) {
        return false;
    }
    if (x->pitch == y->pitch) {
        /*
         * Columns of equal pitch stand against each other everywhere as they do anywhere, and as the ranges
         * meet they do somewhere: a column of y begins in one of x, or reaches into the next.
         */
        int64_t distance = y->begin - x->begin;
        int64_t offset = distance - floor_divide(distance, x->pitch) * x->pitch;
        return offset < x->length || offset + y->length > x->pitch;
    }
    if (x->columns > y->columns) {
        return rectangles_meet(y, x);
    }
    for (int64_t column = 0; column < x->columns; column++) {
        if (column_meets(x->begin + column * x->pitch, x->length, y)) {
            return true;
        }
    }
    return false;
}

static struct rectangle rectangle_of(const struct extent *extent, int64_t begin)
{
    int64_t bytes = (int64_t)extent->element_bytes;
    return (struct rectangle){begin, extent->rows * bytes, extent->columns, extent->ld * bytes};
}

/* The matrices of a batch that differ: a stride of 0 says they are all one. */
static int64_t distinct(const struct extent *extent) { return extent->stride == 0 ? 1 : extent->batch; }

bool extents_overlap(const void *x, const struct extent *extent_x, const void *y,
                     const struct extent *extent_y)
{
    size_t bytes_x = extent_bytes(extent_x);
    size_t bytes_y = extent_bytes(extent_y);
    if ((uintptr_t)x >= (uintptr_t)y + bytes_y || (uintptr_t)y >= (uintptr_t)x + bytes_x || bytes_x == 0 ||
        bytes_y == 0) {
        return false;
    }
    int64_t offset = (int64_t)((uintptr_t)y - (uintptr_t)x);
    int64_t stride_x = extent_x->stride * (int64_t)extent_x->element_bytes;
    int64_t stride_y = extent_y->stride * (int64_t)extent_y->element_bytes;
    int64_t last_y = distinct(extent_y) - 1;
    for (int64_t i = 0; i < distinct(extent_x); i++) {
        struct rectangle one = rectangle_of(extent_x, i * stride_x);
        /* Only the matrices of Y that begin before this one ends and end after it begins. */
        struct rectangle other = rectangle_of(extent_y, offset);
        int64_t from = 0;
        int64_t to = last_y;
        if (stride_y > 0) {
            int64_t past = floor_divide(end_of(&one) - 1 - offset, stride_y);
            int64_t before = floor_divide(one.begin - end_of(&other), stride_y) + 1;
            to = past < to ? past : to;
            from = before > from ? before : from;
        }
        for (int64_t j = from; j <= to; j++) {
            other.begin = offset + j * stride_y;
            if (rectangles_meet(&one, &other)) {
                return true;
            }
        }
    }
    return false;
}

/* The first problem whose D has an element in common with that of problem 0; 0 where there is none. */
static int64_t overlapping_problem(const struct extent *d)
{
    if (d->batch <= 1 || extent_bytes(d) == 0) {
        return 0;
    }
    /* Interleaved: all begin in the same column's length, one behind the other. */
    if (d->stride >= d->rows && d->ld >= d->rows && (d->ld - d->rows) / d->stride >= d->batch - 1) {
        return 0;
    }
    int64_t own = (d->columns - 1) * d->ld + d->rows;
    struct rectangle first = rectangle_of(d, 0);
    for (int64_t i = 1; i < d->batch && d->stride < (own + i - 1) / i; i++) {
        struct rectangle other = rectangle_of(d, i * d->stride * (int64_t)d->element_bytes);
        if (rectangles_meet(&first, &other)) {
            return i;
        }
    }
    return 0;
}

/* ---- The problem ---- */

static carat_status choice_check(const char *name, int value, int least, int most, const char *type)
{
    if (value < least || value > most) {
        return fail(CARAT_INVALID_ARGUMENT, "problem->%s is %d, which is no %s", name, value, type);
    }
    return CARAT_OK;
}

static carat_status count_check(const char *name, int64_t value)
{
    if (value < 0) {
        return fail(CARAT_INVALID_ARGUMENT, "problem->%s is %" PRId64 ", but must be at least 0", name,
                    value);
    }
    return CARAT_OK;
}

/* The types that C and D may have where A and B are of that type, and their names. */
struct results {
    carat_type types[4];
    int count;
    const char *names;
};

static struct results results_of(carat_type type_a)
{
    switch (type_a) {
    case CARAT_F16:
        return (struct results){{CARAT_F16, CARAT_F32}, 2, "f16 or f32"};
    case CARAT_BF16:
        return (struct results){{CARAT_BF16, CARAT_F32}, 2, "bf16 or f32"};
    case CARAT_S8:
        return (struct results){{CARAT_S32, CARAT_F32, CARAT_S8}, 3, "s32, f32 or s8"};
    case CARAT_E4M3:
    case CARAT_E5M2:
        return (struct results){{CARAT_BF16, CARAT_F16, CARAT_F32, CARAT_E4M3}, 4, "bf16, f16, f32 or e4m3"};
    default:
        return (struct results){{type_a}, 1, carat_type_name(type_a)};
    }
}

static bool gives(const struct results *results, carat_type type_cd)
{
    for (int i = 0; i < results->count; i++) {
        if (results->types[i] == type_cd) {
            return true;
        }
    }
    return false;
}

static carat_status types_check(const carat_gemm_problem *p)
{
    if (p->type_a != p->type_b && !(is_float8(p->type_a) && is_float8(p->type_b))) {
        return fail(CARAT_UNSUPPORTED,
                    "problem->type_a is %s, but type_b is %s: only e4m3 and e5m2 may be mixed",
                    carat_type_name(p->type_a), carat_type_name(p->type_b));
    }
    struct results results = results_of(p->type_a);
    if (!gives(&results, p->type_cd)) {
        return fail(CARAT_UNSUPPORTED, "problem->type_cd is %s, but A and B of %s give C and D of %s",
                    carat_type_name(p->type_cd), carat_type_name(p->type_a), results.names);
    }
    carat_type scalar = carat_scalar_type(p->type_cd);
    if (p->activation > CARAT_ACTIVATION_RELU && scalar == CARAT_S32) {
        return fail(CARAT_UNSUPPORTED, "problem->activation is %d, but sums of s32 know only ReLU, %d",
                    (int)p->activation, (int)CARAT_ACTIVATION_RELU);
    }
    if (p->bias == CARAT_BIAS_NONE) {
        return CARAT_OK;
    }
    bool half = p->type_bias == CARAT_F16 || p->type_bias == CARAT_BF16;
    if (p->type_bias != scalar && !(half && scalar == CARAT_F32)) {
        return fail(CARAT_UNSUPPORTED, "problem->type_bias is %s, but D of %s takes a bias of %s%s",
                    carat_type_name(p->type_bias), carat_type_name(p->type_cd), carat_type_name(scalar),
                    scalar == CARAT_F32 ? ", f16 or bf16" : "");
    }
    return CARAT_OK;
}

static carat_status words_check(const carat_gemm_problem *p)
{
    if (p->struct_size != sizeof(*p)) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "problem->struct_size is %zu, but must be %zu: start from carat_gemm_describe()",
                    p->struct_size, sizeof(*p));
    }
    CARAT_TRY(choice_check("order", (int)p->order, CARAT_COLUMN_MAJOR, CARAT_ROW_MAJOR, "carat_order"));
    CARAT_TRY(choice_check("op_a", (int)p->op_a, CARAT_NO_TRANSPOSE, CARAT_TRANSPOSE, "carat_op"));
    CARAT_TRY(choice_check("op_b", (int)p->op_b, CARAT_NO_TRANSPOSE, CARAT_TRANSPOSE, "carat_op"));
    CARAT_TRY(choice_check("type_a", (int)p->type_a, CARAT_F32, CARAT_E5M2, "carat_type"));
    CARAT_TRY(choice_check("type_b", (int)p->type_b, CARAT_F32, CARAT_E5M2, "carat_type"));
    CARAT_TRY(choice_check("type_cd", (int)p->type_cd, CARAT_F32, CARAT_E5M2, "carat_type"));
    CARAT_TRY(choice_check("accuracy", (int)p->accuracy, CARAT_ACCURACY_STANDARD, CARAT_ACCURACY_CLOSE,
                           "carat_accuracy"));
    CARAT_TRY(choice_check("bias", (int)p->bias, CARAT_BIAS_NONE, CARAT_BIAS_PER_COLUMN, "carat_bias"));
    if (p->bias != CARAT_BIAS_NONE) {
        CARAT_TRY(choice_check("type_bias", (int)p->type_bias, CARAT_F32, CARAT_E5M2, "carat_type"));
    }
    CARAT_TRY(choice_check("activation", (int)p->activation, CARAT_ACTIVATION_NONE, CARAT_ACTIVATION_SILU,
                           "carat_activation"));
    return types_check(p);
}

static carat_status bias_check(const struct problem *p)
{
    struct extent bias = problem_extent_bias(p);
    int64_t span;
    int64_t bytes;
    if (!span_elements(bias.rows, 1, bias.ld, bias.batch, bias.stride, &span) ||
        __builtin_mul_overflow(span, (int64_t)bias.element_bytes, &bytes)) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "the bias is too large for 63 bits of bytes: %" PRId64 " numbers, batch %" PRId64
                    ", stride_bias %" PRId64,
                    bias.rows, p->batch, p->stride_bias);
    }
    return CARAT_OK;
}

/* Exchanges the two operands, of which no address is known: the column-major problem of the transposes. */
static void swap_operands(struct problem *p)
{
    struct problem old = *p;
    p->m = old.n;
    p->n = old.m;
    p->trans_a = old.trans_b;
    p->trans_b = old.trans_a;
    p->lda = old.ldb;
    p->ldb = old.lda;
    p->stride_a = old.stride_b;
    p->stride_b = old.stride_a;
    p->type_a = old.type_b;
    p->type_b = old.type_a;
    p->bias_along_n = old.bias && !old.bias_along_n;
    p->swapped = !old.swapped;
    p->mirrors_a = old.mirrors_b;
    p->mirrors_b = old.mirrors_a;
}

carat_status problem_check(const carat_gemm_problem *described, struct problem *problem)
{
    const carat_gemm_problem *p = described;
    if (!p) {
        return fail(CARAT_INVALID_ARGUMENT, "problem is NULL");
    }
    CARAT_TRY(words_check(p));
    CARAT_TRY(count_check("m", p->m));
    CARAT_TRY(count_check("n", p->n));
    CARAT_TRY(count_check("k", p->k));
    CARAT_TRY(count_check("lda", p->lda));
    CARAT_TRY(count_check("ldb", p->ldb));
    CARAT_TRY(count_check("ldc", p->ldc));
    CARAT_TRY(count_check("ldd", p->ldd));
    CARAT_TRY(count_check("batch", p->batch));
    CARAT_TRY(count_check("stride_a", p->stride_a));
    CARAT_TRY(count_check("stride_b", p->stride_b));
    CARAT_TRY(count_check("stride_c", p->stride_c));
    CARAT_TRY(count_check("stride_d", p->stride_d));
    CARAT_TRY(count_check("stride_bias", p->stride_bias));

    /* The strides of a single problem, and of nothing, say nothing, and are 0 in the canonical form. */
    bool batched = p->batch > 1;
    bool sums = p->k > 0;
    bool has_bias = p->bias != CARAT_BIAS_NONE;
    *problem = (struct problem){
        .type_a = p->type_a,
        .type_b = p->type_b,
        .type_cd = p->type_cd,
        .trans_a = p->op_a == CARAT_TRANSPOSE,
        .trans_b = p->op_b == CARAT_TRANSPOSE,
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
        .ldd = p->ldd,
        .batch = p->batch,
        .stride_a = batched && sums ? p->stride_a : 0,
        .stride_b = batched && sums ? p->stride_b : 0,
        .stride_c = batched ? p->stride_c : 0,
        .stride_d = batched ? p->stride_d : 0,
        .align_a = MOST_ALIGNMENT,
        .align_b = MOST_ALIGNMENT,
        .accuracy = p->accuracy,
        .bias = has_bias,
        .bias_along_n = p->bias == CARAT_BIAS_PER_COLUMN,
        .type_bias = has_bias ? p->type_bias : carat_scalar_type(p->type_cd),
        .stride_bias = has_bias && batched ? p->stride_bias : 0,
        .activation = p->activation,
    };
    struct problem *q = problem;
    size_t bytes_a = type_bytes(q->type_a);
    size_t bytes_cd = type_bytes(q->type_cd);
    CARAT_TRY(matrix_check("A", "lda", p->order, q->trans_a ? q->k : q->m, q->trans_a ? q->m : q->k, &q->lda,
                           q->batch, q->stride_a, bytes_a));
    CARAT_TRY(matrix_check("B", "ldb", p->order, q->trans_b ? q->n : q->k, q->trans_b ? q->k : q->n, &q->ldb,
                           q->batch, q->stride_b, type_bytes(q->type_b)));
    CARAT_TRY(matrix_check("C", "ldc", p->order, q->m, q->n, &q->ldc, q->batch, q->stride_c, bytes_cd));
    CARAT_TRY(matrix_check("D", "ldd", p->order, q->m, q->n, &q->ldd, q->batch, q->stride_d, bytes_cd));
    if (p->order == CARAT_ROW_MAJOR) {
        swap_operands(problem);
        problem->mirrors_a = problem->mirrors_b = true;
    }
    CARAT_TRY(bias_check(problem));

    struct extent d = problem_extent_d(problem);
    int64_t second = overlapping_problem(&d);
    if (second != 0) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "problem->stride_d is %" PRId64 ", but D is %" PRId64 " x %" PRId64 " with ldd %" PRId64
                    ": the D of problems 0 and %" PRId64 " overlap",
                    p->stride_d, p->m, p->n, q->ldd, second);
    }
    return CARAT_OK;
}

/* Of longer columns the bytes might not be counted any more. */
#define LONGEST_ALIGNED ((int64_t)1 << 48)

/* Nobody goes from one column to the next where there is but one: the next could as well begin where all kernels like it. */
static void align_lone_column(int64_t rows, int64_t columns, size_t element_bytes, int64_t *ld)
{
    int64_t unit = MOST_ALIGNMENT / (int64_t)element_bytes;
    if (columns == 1 && rows > 0 && rows < LONGEST_ALIGNED) {
        *ld = (rows + unit - 1) / unit * unit;
    }
}

void problem_align_lone_columns(struct problem *p)
{
    size_t bytes = type_bytes(p->type_a);
    size_t bytes_cd = type_bytes(p->type_cd);
    align_lone_column(p->k, p->trans_a ? p->m : 0, bytes, &p->lda);
    align_lone_column(p->k, p->trans_b ? 0 : p->n, bytes, &p->ldb);
    align_lone_column(p->m, p->n, bytes_cd, &p->ldc);
    align_lone_column(p->m, p->n, bytes_cd, &p->ldd);
}

void problem_simplify(struct problem *p)
{
    /* Not of a single element, which is a column already. */
    if (p->m == 1 && p->n > 1 && p->ldc == 1 && p->ldd == 1) {
        swap_operands(p); /* as if all were transposed, which A and B are not */
        p->trans_a = !p->trans_a;
        p->trans_b = !p->trans_b;
        p->ldc = p->m;
        p->ldd = p->m;
    }
    /* One row without gaps runs along k as one column does. */
    if (p->m == 1 && !p->trans_a && p->lda == 1) {
        p->trans_a = true;
        p->mirrors_a = !p->mirrors_a;
    }
    if (p->n == 1 && p->trans_b && p->ldb == 1) {
        p->trans_b = false;
        p->mirrors_b = !p->mirrors_b;
    }
    problem_align_lone_columns(p);
}

/* The power of two that an address is a multiple of, at most MOST_ALIGNMENT. */
static int alignment_of(const void *address)
{
    uintptr_t bits = (uintptr_t)address | MOST_ALIGNMENT;
    return (int)(bits & (~bits + 1));
}

void problem_note_addresses(struct problem *problem, const void *a, const void *b)
{
    problem->align_a = alignment_of(problem->swapped ? b : a);
    problem->align_b = alignment_of(problem->swapped ? a : b);
}

bool problem_is_empty(const struct problem *problem)
{
    return problem->m == 0 || problem->n == 0 || problem->batch == 0;
}

struct extent problem_extent_a(const struct problem *p)
{
    return (struct extent){
        .rows = p->trans_a ? p->k : p->m,
        .columns = p->trans_a ? p->m : p->k,
        .ld = p->lda,
        .batch = p->batch,
        .stride = p->stride_a,
        .element_bytes = type_bytes(p->type_a),
    };
}

struct extent problem_extent_b(const struct problem *p)
{
    return (struct extent){
        .rows = p->trans_b ? p->n : p->k,
        .columns = p->trans_b ? p->k : p->n,
        .ld = p->ldb,
        .batch = p->batch,
        .stride = p->stride_b,
        .element_bytes = type_bytes(p->type_b),
    };
}

struct extent problem_extent_c(const struct problem *p)
{
    return (struct extent){p->m, p->n, p->ldc, p->batch, p->stride_c, type_bytes(p->type_cd)};
}

struct extent problem_extent_d(const struct problem *p)
{
    return (struct extent){p->m, p->n, p->ldd, p->batch, p->stride_d, type_bytes(p->type_cd)};
}

struct extent problem_extent_bias(const struct problem *p)
{
    int64_t length = !p->bias ? 0 : (p->bias_along_n ? p->n : p->m);
    return (struct extent){
        length, 1, length > 1 ? length : 1, p->batch, p->stride_bias, type_bytes(p->type_bias)};
}

/* ---- The operands ---- */

carat_status alignment_check(const char *name, const void *pointer, carat_type type)
{
    size_t bytes = type_bytes(type); /* a power of 2 */
    if (((uintptr_t)pointer & (bytes - 1)) != 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s at %p is not at a multiple of %zu bytes, the size of %s",
                    name, pointer, bytes, carat_type_name(type));
    }
    return CARAT_OK;
}

/* That a matrix is there, whose extent is in canonical form: said in the caller's, of which it may be the transpose. */
static carat_status presence_check(const char *name, const void *pointer, const struct extent *extent,
                                   bool transposed)
{
    if (!pointer && extent_bytes(extent) != 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is NULL, but has %" PRId64 " x %" PRId64 " elements", name,
                    transposed ? extent->columns : extent->rows, transposed ? extent->rows : extent->columns);
    }
    return CARAT_OK;
}

/* Where a matrix's bytes lie, from the first to the last. */
struct range {
    uintptr_t begin;
    uintptr_t end;
};

static struct range range_of(const void *pointer, const struct extent *extent)
{
    return (struct range){(uintptr_t)pointer, (uintptr_t)pointer + extent_bytes(extent)};
}

/* D, as what is read while it is written has to stay apart from it. */
struct written {
    const char *name; /* by which the caller knows it */
    const void *pointer;
    const struct extent *extent;
    struct range range;
};

/* A pointer to numbers that are read, where there is one: aligned, and apart from D. */
static carat_status input_check(const struct written *d, const char *name, const void *pointer,
                                const struct extent *extent, carat_type type)
{
    if (!pointer) {
        return CARAT_OK;
    }
    CARAT_TRY(alignment_check(name, pointer, type));
    struct range range = range_of(pointer, extent);
    bool apart = range.begin >= d->range.end || d->range.begin >= range.end; /* as they nearly always are */
    if (!apart && extents_overlap(pointer, extent, d->pointer, d->extent)) {
        return fail(CARAT_INVALID_ARGUMENT, "%s at %p overlaps %s at %p", d->name, d->pointer, name, pointer);
    }
    return CARAT_OK;
}

/* The bias and the scales. */
static carat_status extra_inputs_check(const struct problem *problem, const carat_run *run,
                                       const struct written *d)
{
    struct extent bias = problem_extent_bias(problem);
    struct extent scale = {1, 1, 1, 1, 0, type_bytes(CARAT_F32)};
    CARAT_TRY(input_check(d, "run->bias", run->bias, &bias, problem->type_bias));
    CARAT_TRY(input_check(d, "run->scale_a", run->scale_a, &scale, CARAT_F32));
    CARAT_TRY(input_check(d, "run->scale_b", run->scale_b, &scale, CARAT_F32));
    return input_check(d, "run->scale_d", run->scale_d, &scale, CARAT_F32);
}

/* C may be D itself, seen with the same leading dimension and stride, and nothing in between. */
static carat_status c_against_d(const void *c, const struct extent *extent_c, const void *d,
                                const struct extent *extent_d, carat_type type)
{
    CARAT_TRY(alignment_check("c", c, type));
    if (c != d) {
        return extents_overlap(c, extent_c, d, extent_d)
                   ? fail(CARAT_INVALID_ARGUMENT, "d at %p overlaps c at %p, but is not the same matrix", d,
                          c)
                   : CARAT_OK;
    }
    if (extent_c->ld != extent_d->ld) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "c and d are one buffer, but ldc is %" PRId64 " and ldd is %" PRId64, extent_c->ld,
                    extent_d->ld);
    }
    if (extent_c->stride != extent_d->stride) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "c and d are one buffer, but stride_c is %" PRId64 " and stride_d is %" PRId64,
                    extent_c->stride, extent_d->stride);
    }
    return CARAT_OK;
}

/* Whether bias and scales are given where the problem takes them, and only there. */
static carat_status extras_check(const struct problem *problem, const carat_run *run)
{
    if (!problem_takes_scales(problem) && (run->scale_a || run->scale_b || run->scale_d)) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "run->%s is given, but products of %s with D of %s take no scales",
                    run->scale_a ? "scale_a" : (run->scale_b ? "scale_b" : "scale_d"),
                    carat_type_name(problem->type_a), carat_type_name(problem->type_cd));
    }
    if (run->bias && !problem->bias) {
        return fail(CARAT_INVALID_ARGUMENT, "run->bias is given, but problem->bias is CARAT_BIAS_NONE");
    }
    struct extent extent = problem_extent_bias(problem);
    if (!run->bias && problem->bias && !problem_is_empty(problem)) {
        return fail(CARAT_INVALID_ARGUMENT,
                    "run->bias is NULL, but the problem has a bias of %" PRId64 " numbers", extent.rows);
    }
    return CARAT_OK;
}

/* All that is read but C. */
static carat_status inputs_check(const struct problem *problem, const struct operands *operands,
                                 const struct extent *a, const struct extent *b, const carat_run *run,
                                 const struct written *d)
{
    carat_type scalar_type = problem_scalar_type(problem);
    struct extent scalar = {1, 1, 1, 1, 0, type_bytes(scalar_type)};
    CARAT_TRY(input_check(d, problem->swapped ? "b" : "a", operands->a, a, problem->type_a));
    CARAT_TRY(input_check(d, problem->swapped ? "a" : "b", operands->b, b, problem->type_b));
    CARAT_TRY(input_check(d, "alpha", operands->alpha, &scalar, scalar_type));
    CARAT_TRY(input_check(d, "beta", operands->beta, &scalar, scalar_type));
    bool has_extras = run->bias || run->scale_a || run->scale_b || run->scale_d;
    return has_extras ? extra_inputs_check(problem, run, d) : CARAT_OK;
}

carat_status problem_operands(const struct problem *problem, const void *alpha, const void *a, const void *b,
                              const void *beta, const void *c, void *d, const carat_run *run,
                              struct operands *operands)
{
    bool swapped = problem->swapped;
    *operands = (struct operands){
        .alpha = alpha,
        .a = swapped ? b : a,
        .b = swapped ? a : b,
        .beta = beta,
        .c = c,
        .d = d,
        .bias = run->bias,
        .scale_a = swapped ? run->scale_b : run->scale_a,
        .scale_b = swapped ? run->scale_a : run->scale_b,
        .scale_d = run->scale_d,
    };
    if (!alpha || !beta) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is NULL", alpha ? "beta" : "alpha");
    }
    CARAT_TRY(extras_check(problem, run));
    if (problem_is_empty(problem)) {
        return CARAT_OK;
    }
    struct extent extent_a = problem_extent_a(problem);
    struct extent extent_b = problem_extent_b(problem);
    struct extent extent_c = problem_extent_c(problem);
    struct extent extent_d = problem_extent_d(problem);
    const char *name_d = c == d ? "c" : "d"; /* the calls in the manner of CBLAS have no d */
    CARAT_TRY(presence_check(swapped ? "b" : "a", operands->a, &extent_a, problem->mirrors_a));
    CARAT_TRY(presence_check(swapped ? "a" : "b", operands->b, &extent_b, problem->mirrors_b));
    CARAT_TRY(presence_check("d", d, &extent_d, swapped));
    CARAT_TRY(alignment_check(name_d, d, problem->type_cd));

    struct written written = {name_d, d, &extent_d, range_of(d, &extent_d)};
    CARAT_TRY(inputs_check(problem, operands, &extent_a, &extent_b, run, &written));
    /* Whether beta is 0, so that C may be missing, only the device can say. */
    return c ? c_against_d(c, &extent_c, d, &extent_d, problem->type_cd) : CARAT_OK;
}
