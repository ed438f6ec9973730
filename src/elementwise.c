/* elementwise.c - the checks of scale_add and transpose. */
#include "elementwise.h"

#include <inttypes.h>

#include "status.h"

static carat_status call_check(const struct elementwise_call *call)
{
    if ((int)call->order != CARAT_COLUMN_MAJOR && (int)call->order != CARAT_ROW_MAJOR) {
        return fail(CARAT_INVALID_ARGUMENT, "order is %d, which is no carat_order", (int)call->order);
    }
    if (carat_type_size(call->type) == 0) {
        return fail(CARAT_INVALID_ARGUMENT, "type is %d, which is no carat_type", (int)call->type);
    }
    if (call->m < 0 || call->n < 0) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is %" PRId64 ", but must be at least 0",
                    call->m < 0 ? "m" : "n", call->m < 0 ? call->m : call->n);
    }
    if (call->lda < 1 || call->ldb < 1) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is %" PRId64 ", but must be at least 1",
                    call->lda < 1 ? "lda" : "ldb", call->lda < 1 ? call->lda : call->ldb);
    }
    return CARAT_OK;
}

/* The pointers of a call in canonical form; B is m x n, or n x m where transposed. */
static carat_status pointers_check(const struct elementwise *work, bool transposed)
{
    size_t bytes = carat_type_size(work->type);
    struct extent extent_a = {work->m, work->n, work->lda, 1, 0, bytes};
    struct extent extent_b = extent_a;
    extent_b.ld = work->ldb;
    if (transposed) {
        extent_b.rows = work->n;
        extent_b.columns = work->m;
    }
    if (extent_bytes(&extent_a) == 0) {
        return CARAT_OK;
    }
    if (!work->a || !work->b) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is NULL, but has %" PRId64 " elements", work->a ? "b" : "a",
                    work->m * work->n);
    }
    CARAT_TRY(alignment_check("a", work->a, work->type));
    CARAT_TRY(alignment_check("b", work->b, work->type));
    if (work->a == work->b && !transposed) {
        return work->lda == work->ldb
                   ? CARAT_OK
                   : fail(CARAT_INVALID_ARGUMENT,
                          "a and b are one buffer, but lda is %" PRId64 " and ldb is %" PRId64, work->lda,
                          work->ldb);
    }
    if (extents_overlap(work->a, &extent_a, work->b, &extent_b)) {
        return fail(CARAT_INVALID_ARGUMENT, "b at %p overlaps a at %p", work->b, work->a);
    }
    return CARAT_OK;
}

static carat_status canonical(const struct elementwise_call *call, bool transposed, struct elementwise *work)
{
    CARAT_TRY(call_check(call));
    bool row_major = call->order == CARAT_ROW_MAJOR;
    *work = (struct elementwise){
        .type = call->type,
        .m = row_major ? call->n : call->m,
        .n = row_major ? call->m : call->n,
        .scale = call->scale,
        .shift = call->shift,
        .a = call->a,
        .lda = call->lda,
        .b = call->b,
        .ldb = call->ldb,
    };
    size_t bytes = carat_type_size(call->type);
    CARAT_TRY(matrix_check("A", "lda", call->order, call->m, call->n, &work->lda, 1, 0, bytes));
    CARAT_TRY(matrix_check("B", "ldb", call->order, transposed ? call->n : call->m,
                           transposed ? call->m : call->n, &work->ldb, 1, 0, bytes));
    return pointers_check(work, transposed);
}

carat_status scale_add_check(const struct elementwise_call *call, struct elementwise *work)
{
    CARAT_TRY(canonical(call, false, work));
    bool has_arithmetic = call->type == CARAT_F32 || call->type == CARAT_F64 || call->type == CARAT_F16 ||
                          call->type == CARAT_BF16;
    if (!has_arithmetic) {
        return fail(CARAT_UNSUPPORTED, "type is %s, but scale_add has only f32, f64, f16 and bf16",
                    carat_type_name(call->type));
    }
    if (!call->scale || !call->shift) {
        return fail(CARAT_INVALID_ARGUMENT, "%s is NULL", call->scale ? "shift" : "scale");
    }
    CARAT_TRY(alignment_check("scale", call->scale, carat_scalar_type(call->type)));
    CARAT_TRY(alignment_check("shift", call->shift, carat_scalar_type(call->type)));
    return CARAT_OK;
}

carat_status transpose_check(const struct elementwise_call *call, struct elementwise *work)
{
    return canonical(call, true, work);
}
