/*
 * treatments.c - what is multiplied: A and B as they lie, copies whose columns are aligned, transposes that run along k,
 * or elements of another type.
 */
#include "treatments.h"

#include "planes.h"
#include "rows.h"

/* A thread of a pack moves so much at a time. */
#define PACK_BYTES 16

/* Lays one operand out anew: columns of length elements, count of them; its bytes in whole units. */
static int64_t lay_out(int64_t length, int64_t count, int64_t size, int64_t batch, int64_t *ld,
                       int64_t *stride)
{
    *ld = round_up(length, PACKED_UNIT / size);
    bool shared = *stride == 0 || batch == 1;
    *stride = shared ? 0 : *ld * count;
    return round_up(*ld * count * (shared ? 1 : batch) * size, WORKSPACE_UNIT);
}

bool treat(const struct device_traits *traits, const struct problem *p, enum treatment a, enum treatment b,
           int as, struct candidate *candidate)
{
    struct problem *to = &candidate->product;
    *candidate = (struct candidate){.product = *p, .packs_a = a != AS_IT_IS, .packs_b = b != AS_IT_IS};
    if (as != ELEMENT_NONE) {
        to->type_a = (carat_type)as;
        to->type_b = (carat_type)as;
    }
    if (a == AS_IT_IS && b == AS_IT_IS) {
        return true;
    }
    int64_t size = (int64_t)carat_type_size(to->type_a);
    to->trans_a = a == TURNED || p->trans_a;
    to->trans_b = b != TURNED && p->trans_b;
    candidate->pack = find_pack_row(traits, carat_type_size(p->type_a), as);
    double bytes = ((a != AS_IT_IS ? (double)p->m : 0) + (b != AS_IT_IS ? (double)p->n : 0) + PACKED_UNIT) *
                   ((double)p->k + PACKED_UNIT) * (double)p->batch * (double)size;
    if (!candidate->pack || bytes > 0x1p60) {
        return false;
    }
    if (a != AS_IT_IS && b != AS_IT_IS && (to->trans_a || !to->trans_b)) {
        /*
         * k too, where an operand runs along it, since kernels begin with what their tiles leave over of k:
         * all that follows would lie off the sectors. What is added is zero.
         */
        to->k = round_up(p->k, PACKED_UNIT / size);
    }
    if (a != AS_IT_IS) {
        to->align_a = MAP_ALIGNMENT;
        candidate->packed_bytes = lay_out(to->trans_a ? to->k : p->m, to->trans_a ? p->m : to->k, size,
                                          p->batch, &to->lda, &to->stride_a);
    }
    candidate->packed_b_at = candidate->packed_bytes;
    if (b != AS_IT_IS) {
        to->align_b = MAP_ALIGNMENT;
        candidate->packed_bytes += lay_out(to->trans_b ? p->n : to->k, to->trans_b ? to->k : p->n, size,
                                           p->batch, &to->ldb, &to->stride_b);
    }
    /* Every block of a straight pack has so many bytes, one of a turned pack no fewer: it fits a grid. */
    int64_t block_bytes = (int64_t)candidate->pack->threads_x * PACK_BYTES;
    return candidate->packed_bytes / block_bytes < MOST_BLOCKS && to->lda * size / PACK_BYTES < MOST_BLOCKS &&
           to->ldb * size / PACK_BYTES < MOST_BLOCKS;
}

/* ---- As letters ---- */

/* What a way does to one operand, see plan_marks(). */
static char mark_of(const struct problem *p, const struct candidate *way, bool packs, bool turned)
{
    carat_type to = way->product.type_a;
    char converted = to == CARAT_F16 ? 'h' : 'd';
    return !packs ? '-' : way->rescue ? 's' : to != p->type_a ? converted : turned ? 't' : 'p';
}

void plan_marks(const struct problem *problem, const struct candidate *way, char marks[2])
{
    const struct problem *to = &way->product;
    marks[0] = mark_of(problem, way, way->packs_a, to->trans_a != problem->trans_a);
    marks[1] = mark_of(problem, way, way->packs_b, to->trans_b != problem->trans_b);
}

bool treat_as_marked(const struct device_traits *traits, const struct problem *p, const char marks[2],
                     int planes, struct candidate *candidate)
{
    enum treatment treatments[2];
    if (marks[0] == 's' && marks[1] == 's') {
        return treat_as_planes(traits, p, planes, MOST_WORKSPACE, candidate);
    }
    for (int i = 0; i < 2; i++) {
        treatments[i] = marks[i] == '-' ? AS_IT_IS : marks[i] == 't' ? TURNED : PACKED;
    }
    int as = marks[0] == 'h' ? ELEMENT_F16 : marks[0] == 'd' ? ELEMENT_F64 : ELEMENT_NONE;
    return treat(traits, p, treatments[0], treatments[1], as, candidate);
}
