/*
 * pipeline.c - cuts work on host matrices into pieces and blocks (pipeline.h), and runs small work in one
 * go: everything gathered in one pinned buffer, one copy in, one launch, one copy out.
 */
#include "pipeline.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "status.h"

const struct pipeline_limits pipeline_limits_default = {
    .gather_bytes = (size_t)1 << 20,
    .group_bytes = (size_t)64 << 20,
    .panel_bytes = (size_t)8 << 20,
    .most_panels = 10,
    .panel_granule = 256,
    .direct_line_bytes = 512,
    .direct_problem_bytes = (size_t)64 << 10,
    .slot_bytes = (size_t)2 << 20,
    .bytes_per_thread = (size_t)4 << 20,
    .most_threads = 12,
};

/* Columns start at multiples of this on the device, which is what the fastest kernels ask for. */
#define COLUMN_ALIGNMENT 16
#define PLACE_ALIGNMENT 256

static int64_t divide_up(int64_t x, int64_t y) { return x / y + (x % y != 0); }
static int64_t round_up(int64_t x, int64_t y) { return divide_up(x, y) * y; }
static int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }
static size_t align_up(size_t x, size_t y) { return (x + y - 1) / y * y; }

/* ---- Addresses ------------------------------------------------------------------------------ */

/* Of the first element of a group's place on the device. */
static CUdeviceptr place_of_group(const struct job *job, int matrix, int64_t group)
{
    const struct host_matrix *m = &job->matrices[matrix];
    size_t place = m->shared ? 0 : (size_t)(group % job->places);
    return job->set->device_bytes + m->offset + place * m->place_bytes;
}

static CUdeviceptr element_on_device(const struct job *job, int matrix, int64_t group, int64_t row,
                                     int64_t column)
{
    const struct host_matrix *m = &job->matrices[matrix];
    return place_of_group(job, matrix, group) + (size_t)(column * m->ld + row) * m->extent.element_bytes;
}

CUdeviceptr line_on_device(const struct job *job, const struct piece *piece, int64_t line, int64_t row)
{
    /* A piece of several problems has all their columns, so lines go on from problem to problem. */
    return element_on_device(job, piece->matrix, piece->group, row, piece->column + line);
}

char *line_on_host(const struct job *job, const struct piece *piece, int64_t line, int64_t row)
{
    const struct host_matrix *m = &job->matrices[piece->matrix];
    int64_t problem = piece->problem + line / piece->columns;
    int64_t column = piece->column + line % piece->columns;
    return m->host +
           (problem * m->extent.stride + column * m->extent.ld + row) * (int64_t)m->extent.element_bytes;
}

size_t slot_pitch(const struct job *job, int matrix, int64_t rows)
{
    const struct host_matrix *m = &job->matrices[matrix];
    return (size_t)(rows == m->extent.rows ? m->ld : rows) * m->extent.element_bytes;
}

void lines_copy(const struct job *job, const struct piece *piece, enum direction direction, int64_t line,
                int64_t lines, int64_t row, int64_t rows, char *packed, size_t pitch)
{
    const struct extent *extent = &job->matrices[piece->matrix].extent;
    size_t bytes = (size_t)rows * extent->element_bytes;
    /* Where neither side has padding, the columns of a problem are one line. */
    bool seamless = rows == extent->ld && bytes == pitch;
    for (int64_t i = 0; i < lines;) {
        int64_t run = seamless ? least(lines - i, piece->columns - (line + i) % piece->columns) : 1;
        char *host = line_on_host(job, piece, line + i, row);
        char *slot = packed + (size_t)i * pitch;
        if (direction == INWARD) {
            memcpy(slot, host, (size_t)run * bytes);
        } else {
            memcpy(host, slot, (size_t)run * bytes);
        }
        i += run;
    }
}

/* ---- Layout on the device ------------------------------------------------------------------- */

/* Columns aligned, except where they are short and packed: then it is better to copy them as one. */
static int64_t ld_on_device(const struct job *job, const struct extent *extent)
{
    int64_t bytes = extent->rows * (int64_t)extent->element_bytes;
    bool keep = extent->ld == extent->rows && (size_t)bytes < job->device->limits.direct_line_bytes;
    return keep ? extent->rows : round_up(bytes, COLUMN_ALIGNMENT) / (int64_t)extent->element_bytes;
}

/* Whether the device should copy the caller's memory itself: long lines, and not too many calls. */
static bool is_direct(const struct job *job, const struct host_matrix *m, enum place place)
{
    const struct pipeline_limits *limits = &job->device->limits;
    const struct extent *extent = &m->extent;
    size_t line = (size_t)extent->rows * extent->element_bytes;
    bool packed = extent->ld == extent->rows && m->ld == extent->rows;
    bool spaced = extent->batch == 1 || extent->stride == extent->ld * extent->columns;
    return place == PLACE_PINNED && (packed || line >= limits->direct_line_bytes) &&
           (spaced || line * (size_t)extent->columns >= limits->direct_problem_bytes) &&
           (size_t)extent->ld * extent->element_bytes <= job->device->max_pitch;
}

/* Of a batch, where each problem has one column, these are columns side by side: the stride is their pitch. */
static int64_t pitch_of_lone_columns(const struct job *job, const struct extent *extent)
{
    bool side_by_side = extent->batch > 1 && extent->stride >= extent->rows &&
                        (size_t)extent->stride <= job->device->max_pitch / extent->element_bytes;
    return side_by_side ? extent->stride : extent->rows;
}

static void matrix_init(struct job *job, int matrix, const void *host, const struct extent *extent,
                        enum place place)
{
    struct host_matrix *m = &job->matrices[matrix];
    *m = (struct host_matrix){
        .host = (char *)(uintptr_t)host,
        .extent = *extent,
        .used = host && extent->rows > 0 && extent->columns > 0,
        /* Every problem's C is needed where its D will be. */
        .shared = matrix != MATRIX_C && extent->batch > 1 && extent->stride == 0,
    };
    if (extent->columns == 1) {
        m->extent.ld = pitch_of_lone_columns(job, extent);
    }
    m->ld = ld_on_device(job, &m->extent);
    m->stride = m->shared ? 0 : m->ld * extent->columns;
    m->direct = is_direct(job, m, place);
}

/* Bytes that one problem takes on the device, or that the shared matrices take. */
static size_t bytes_on_device(const struct job *job, bool shared)
{
    size_t bytes = 0;
    for (int i = 0; i < MATRIX_COUNT; ++i) {
        const struct host_matrix *m = &job->matrices[i];
        if (m->used && m->shared == shared && i != MATRIX_C) {
            bytes += (size_t)(m->ld * m->extent.columns) * m->extent.element_bytes;
        }
    }
    return bytes;
}

/*
 * Assigns places to the matrices in the order A, B, bias, D; C goes to D's. Returns the bytes they all
 * take.
 */
static size_t assign_places(struct job *job, int64_t group_problems)
{
    size_t offset = 0;
    for (int i = 0; i < MATRIX_COUNT; ++i) {
        struct host_matrix *m = &job->matrices[i];
        if (!m->used || i == MATRIX_C) {
            continue;
        }
        int64_t problems = m->shared ? 1 : group_problems;
        size_t bytes = (size_t)(m->ld * m->extent.columns * problems) * m->extent.element_bytes;
        m->place_bytes = align_up(bytes, PLACE_ALIGNMENT);
        m->offset = offset;
        offset += m->place_bytes * (size_t)(m->shared ? 1 : job->places);
    }
    job->matrices[MATRIX_C].offset = job->matrices[MATRIX_D].offset;
    job->matrices[MATRIX_C].place_bytes = job->matrices[MATRIX_D].place_bytes;
    job->workspace_offset = offset;
    return offset;
}

/* ---- Pieces and blocks ---------------------------------------------------------------------- */

/* A rectangle of D and of the group it belongs to. */
struct rectangle {
    int64_t group;
    int64_t problem;
    int64_t problems;
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
};

static struct piece piece_of(const struct job *job, int matrix, const struct rectangle *rectangle)
{
    const struct host_matrix *m = &job->matrices[matrix];
    struct piece piece = {
        .matrix = matrix,
        .group = rectangle->group,
        .problem = m->shared ? 0 : rectangle->problem,
        .problems = m->shared ? 1 : rectangle->problems,
        .row = rectangle->row,
        .rows = rectangle->rows,
        .column = rectangle->column,
        .columns = rectangle->columns,
        .lines_per_chunk = 1,
        .chunks_per_line = 1,
        .chunks = 1,
    };
    if (!m->direct) {
        size_t slot_bytes = job->device->limits.slot_bytes;
        size_t pitch = slot_pitch(job, matrix, piece.rows);
        if (pitch <= slot_bytes) {
            piece.lines_per_chunk = (int64_t)(slot_bytes / pitch);
        } else {
            piece.chunks_per_line = divide_up(piece.rows, (int64_t)(slot_bytes / m->extent.element_bytes));
        }
        piece.chunks =
            divide_up(piece.problems * piece.columns, piece.lines_per_chunk) * piece.chunks_per_line;
    }
    piece.chunks_left = piece.chunks;
    return piece;
}

/* Doubles an array whose count has come to a power of two, or is 0. */
static carat_status make_room(void **array, int64_t count, size_t element_bytes)
{
    if (count & (count - 1)) {
        return CARAT_OK;
    }
    void *larger = realloc(*array, (size_t)(count ? 2 * count : 1) * element_bytes);
    if (!larger) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory to plan a call on host matrices");
    }
    *array = larger;
    return CARAT_OK;
}

/* The blocks that must be out of the way before a group is copied in: those up to the group `places` back. */
static int64_t blocks_before_group(const struct job *job, int64_t group)
{
    if (group < job->places) {
        return 0;
    }
    /* Every group has as many blocks as the first, which is complete by now. */
    int64_t blocks_per_group = 0;
    while (!job->blocks[blocks_per_group++].ends_group) {
    }
    return (group - job->places + 1) * blocks_per_group;
}

static carat_status add_piece(struct job *job, int matrix, const struct rectangle *rectangle)
{
    const struct host_matrix *m = &job->matrices[matrix];
    if (!m->used || (m->shared && rectangle->group > 0)) {
        return CARAT_OK;
    }
    void *pieces = job->pieces;
    CARAT_TRY(make_room(&pieces, job->piece_count, sizeof(*job->pieces)));
    job->pieces = pieces;
    struct piece piece = piece_of(job, matrix, rectangle);
    piece.blocks_before = blocks_before_group(job, rectangle->group);
    job->pieces[job->piece_count++] = piece;
    return CARAT_OK;
}

/* A block that computes the rectangle of D once C's part of it and all pieces so far are there. */
static carat_status add_block(struct job *job, const struct rectangle *rectangle, bool ends_group)
{
    CARAT_TRY(add_piece(job, MATRIX_C, rectangle));
    void *blocks = job->blocks;
    CARAT_TRY(make_room(&blocks, job->block_count, sizeof(*job->blocks)));
    job->blocks = blocks;
    struct block block = {
        .pieces_before = job->piece_count,
        .blocks_before = blocks_before_group(job, rectangle->group),
        .ends_group = ends_group,
        .out = piece_of(job, MATRIX_D, rectangle),
    };
    job->blocks[job->block_count++] = block;
    return CARAT_OK;
}

/* ---- Products ------------------------------------------------------------------------------- */

/* Rows [row, row + rows) of op(A) as they are stored; all of them for a batch. */
static carat_status add_panel_of_a(struct job *job, const struct rectangle *d)
{
    bool turned = job->problem.trans_a;
    struct rectangle panel = *d;
    panel.row = turned ? 0 : d->row;
    panel.rows = turned ? job->problem.k : d->rows;
    panel.column = turned ? d->row : 0;
    panel.columns = turned ? d->rows : job->problem.k;
    return add_piece(job, MATRIX_A, &panel);
}

static carat_status add_panel_of_b(struct job *job, const struct rectangle *d)
{
    bool turned = job->problem.trans_b;
    struct rectangle panel = *d;
    panel.row = turned ? d->column : 0;
    panel.rows = turned ? d->columns : job->problem.k;
    panel.column = turned ? 0 : d->column;
    panel.columns = turned ? job->problem.k : d->columns;
    return add_piece(job, MATRIX_B, &panel);
}

/* All of the bias of a group's problems, whatever part of D comes first. */
static carat_status add_bias(struct job *job, const struct rectangle *d)
{
    struct rectangle whole = *d;
    whole.row = 0;
    whole.rows = job->matrices[MATRIX_BIAS].extent.rows;
    whole.column = 0;
    whole.columns = 1;
    return add_piece(job, MATRIX_BIAS, &whole);
}

/* Where a block's part of an operand begins: in a place, some panels along a column, or at a column. */
static int panel_alignment(const struct job *job, const struct host_matrix *m)
{
    size_t bytes = (size_t)job->device->limits.panel_granule * m->extent.element_bytes | MOST_ALIGNMENT;
    return (int)(bytes & (~bytes + 1));
}

/* The problem of one block, on the device's own leading dimensions. */
static struct problem problem_of_block(const struct job *job, const struct block *block)
{
    const struct host_matrix *a = &job->matrices[MATRIX_A];
    const struct host_matrix *b = &job->matrices[MATRIX_B];
    const struct host_matrix *d = &job->matrices[MATRIX_D];
    bool batched = block->out.problems > 1;
    struct problem problem = job->problem;
    problem.m = block->out.rows;
    problem.n = block->out.columns;
    problem.batch = block->out.problems;
    problem.lda = a->ld > 0 ? a->ld : 1;
    problem.ldb = b->ld > 0 ? b->ld : 1;
    problem.ldc = d->ld;
    problem.ldd = d->ld;
    problem.stride_a = batched ? a->stride : 0;
    problem.stride_b = batched ? b->stride : 0;
    problem.stride_c = batched ? d->stride : 0;
    problem.stride_d = batched ? d->stride : 0;
    problem.align_a = panel_alignment(job, a);
    problem.align_b = panel_alignment(job, b);
    problem.stride_bias = batched ? job->matrices[MATRIX_BIAS].stride : 0;
    problem_align_lone_columns(&problem); /* as the call's problem has them */
    return problem;
}

/* Plans a block, unless one of the same shape has been planned: all groups but the last are alike. */
static carat_status plan_block(struct job *job, struct block *block)
{
    struct problem problem = problem_of_block(job, block);
    for (int i = 0; i < job->plan_count; ++i) {
        const struct problem *planned = &job->plans[i].problem;
        if (planned->m == problem.m && planned->n == problem.n && planned->batch == problem.batch) {
            block->plan = i;
            return CARAT_OK;
        }
    }
    void *plans = job->plans;
    CARAT_TRY(make_room(&plans, job->plan_count, sizeof(*job->plans)));
    job->plans = plans;
    if (problem_equal(&problem, &job->plan->problem)) {
        job->plans[job->plan_count] = *job->plan;
    } else {
        CARAT_TRY(plan_choose(&job->device->base.traits, &problem, &job->plans[job->plan_count]));
    }
    block->plan = job->plan_count++;
    return CARAT_OK;
}

static carat_status launch_product(struct job *job, const struct block *block)
{
    const struct plan *plan = &job->plans[block->plan];
    const struct piece *out = &block->out;
    bool trans_a = job->problem.trans_a;
    bool trans_b = job->problem.trans_b;
    CUdeviceptr a =
        element_on_device(job, MATRIX_A, out->group, trans_a ? 0 : out->row, trans_a ? out->row : 0);
    CUdeviceptr b =
        element_on_device(job, MATRIX_B, out->group, trans_b ? out->column : 0, trans_b ? 0 : out->column);
    CUdeviceptr d = element_on_device(job, MATRIX_D, out->group, out->row, out->column);
    struct device_operands operands = job->operands;
    operands.a = (const void *)(uintptr_t)a;
    operands.b = (const void *)(uintptr_t)b;
    operands.c = (const void *)(uintptr_t)d;
    operands.d = (void *)(uintptr_t)d;
    if (job->problem.bias) {
        int64_t first = job->problem.bias_along_n ? out->column : out->row;
        operands.bias = (const void *)(uintptr_t)element_on_device(job, MATRIX_BIAS, out->group, first, 0);
    }
    return plan_launch(job->device, plan, &operands, job->set->device_bytes + job->workspace_offset,
                       job->set->compute);
}

/*
 * The rows or columns of a panel. Panels are as many as the bytes of their operand, or of their part of
 * D, are worth; the first is half as large, so that computing starts early.
 */
static int64_t panel_size(const struct job *job, int64_t dimension, size_t operand_bytes, size_t d_bytes)
{
    const struct pipeline_limits *limits = &job->device->limits;
    size_t bytes = operand_bytes > d_bytes ? operand_bytes : d_bytes;
    int64_t panels = least((int64_t)(bytes / limits->panel_bytes), limits->most_panels);
    return panels > 1 ? round_up(divide_up(dimension, panels), limits->panel_granule) : dimension;
}

static int64_t first_panel_size(const struct job *job, int64_t dimension, int64_t panel)
{
    return panel < dimension ? round_up(divide_up(panel, 2), job->device->limits.panel_granule) : dimension;
}

/*
 * D grows from its upper left corner. A new panel of A adds the rows below, as one block over all columns
 * so far, a new panel of B the columns to the right; the one that adds more work comes first.
 *
 *     D00 | D01 | D03          in: A0 B0, B1, A1, B2, ...
 *     ----+-----+
 *        D02    |
 */
static carat_status cut_problem(struct job *job, int64_t problem)
{
    const struct problem *p = &job->problem;
    struct rectangle d = {.group = problem, .problem = problem, .problems = 1};
    size_t d_bytes = (size_t)(p->m * p->n) * carat_type_size(p->type_cd);
    int64_t rows = panel_size(job, p->m, (size_t)(p->m * p->k) * carat_type_size(p->type_a), d_bytes);
    int64_t columns = panel_size(job, p->n, (size_t)(p->k * p->n) * carat_type_size(p->type_b), d_bytes);
    int64_t rows_in = least(first_panel_size(job, p->m, rows), p->m);
    int64_t columns_in = least(first_panel_size(job, p->n, columns), p->n);

    d.rows = rows_in;
    d.columns = columns_in;
    CARAT_TRY(add_bias(job, &d));
    CARAT_TRY(add_panel_of_a(job, &d));
    CARAT_TRY(add_panel_of_b(job, &d));
    CARAT_TRY(add_block(job, &d, rows_in == p->m && columns_in == p->n));
    while (rows_in < p->m || columns_in < p->n) {
        bool down = rows_in < p->m && (columns_in == p->n || columns_in > rows_in);
        if (down) {
            d.row = rows_in;
            d.rows = least(rows, p->m - rows_in);
            d.column = 0;
            d.columns = columns_in;
            rows_in += d.rows;
            CARAT_TRY(add_panel_of_a(job, &d));
        } else {
            d.column = columns_in;
            d.columns = least(columns, p->n - columns_in);
            d.row = 0;
            d.rows = rows_in;
            columns_in += d.columns;
            CARAT_TRY(add_panel_of_b(job, &d));
        }
        CARAT_TRY(add_block(job, &d, rows_in == p->m && columns_in == p->n));
    }
    return CARAT_OK;
}

/* One block for the whole group. */
static carat_status take_group(struct job *job, int64_t group, int64_t group_problems)
{
    const struct problem *p = &job->problem;
    int64_t first = group * group_problems;
    struct rectangle d = {
        .group = group,
        .problem = first,
        .problems = least(group_problems, p->batch - first),
        .rows = p->m,
        .columns = p->n,
    };
    CARAT_TRY(add_bias(job, &d));
    CARAT_TRY(add_panel_of_a(job, &d));
    CARAT_TRY(add_panel_of_b(job, &d));
    return add_block(job, &d, true);
}

static carat_status cut_product(struct job *job, int64_t group_problems, bool whole)
{
    int64_t groups = divide_up(job->problem.batch, group_problems);
    for (int64_t group = 0; group < groups; ++group) {
        CARAT_TRY(group_problems == 1 && !whole ? cut_problem(job, group)
                                                : take_group(job, group, group_problems));
    }
    for (int64_t i = 0; i < job->block_count; ++i) {
        CARAT_TRY(plan_block(job, &job->blocks[i]));
    }
    return CARAT_OK;
}

/* ---- Element by element --------------------------------------------------------------------- */

static bool is_transpose(const struct job *job) { return !job->work.scale; }

/* The columns of A that a block has read: those of B, or its rows. */
static carat_status launch_elementwise(struct job *job, const struct block *block)
{
    const struct piece *out = &block->out;
    struct elementwise work = job->work;
    CUdeviceptr b = element_on_device(job, MATRIX_D, out->group, out->row, out->column);
    CUdeviceptr a =
        element_on_device(job, MATRIX_A, out->group, 0, is_transpose(job) ? out->row : out->column);
    work.a = (const void *)(uintptr_t)a;
    work.b = (void *)(uintptr_t)b;
    work.lda = job->matrices[MATRIX_A].ld;
    work.ldb = job->matrices[MATRIX_D].ld;
    work.n = is_transpose(job) ? out->rows : out->columns;
    return is_transpose(job)
               ? transpose_launch(job->device, &work, job->set->compute)
               : scale_add_launch(job->device, &work, &job->scale, &job->shift, job->set->compute);
}

static carat_status cut_elementwise(struct job *job, bool whole)
{
    int64_t m = job->work.m;
    int64_t n = job->work.n;
    size_t bytes = (size_t)(m * n) * carat_type_size(job->work.type);
    int64_t panel = whole ? n : panel_size(job, n, bytes, bytes);
    for (int64_t column = 0; column < n; column += panel) {
        int64_t columns = least(panel, n - column);
        struct rectangle a = {.problems = 1, .rows = m, .column = column, .columns = columns};
        struct rectangle b = a;
        if (is_transpose(job)) {
            b = (struct rectangle){.problems = 1, .row = column, .rows = columns, .columns = m};
        }
        CARAT_TRY(add_piece(job, MATRIX_A, &a));
        CARAT_TRY(add_block(job, &b, column + columns == n));
    }
    return CARAT_OK;
}

/* ---- Running a job -------------------------------------------------------------------------- */

static void job_clear(struct job *job)
{
    free(job->plans);
    free(job->pieces);
    free(job->blocks);
    job->plans = NULL;
    job->pieces = NULL;
    job->blocks = NULL;
    job->plan_count = 0;
    job->piece_count = 0;
    job->block_count = 0;
}

static size_t workspace_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < job->plan_count; ++i) {
        bytes = job->plans[i].workspace_bytes > bytes ? job->plans[i].workspace_bytes : bytes;
    }
    return bytes;
}

/* Copies a piece, whole, between the caller's memory and the pinned image of the device memory. */
static void gather(struct job *job, const struct piece *piece, enum direction direction)
{
    const struct host_matrix *m = &job->matrices[piece->matrix];
    lines_copy(job, piece, direction, 0, piece->problems * piece->columns, 0, piece->rows,
               (char *)job->set->pinned + m->offset, slot_pitch(job, piece->matrix, piece->rows));
}

/* One block; its matrices are gathered. D and with it C stand last. */
static carat_status run_gathered(struct job *job)
{
    struct cuda_device *device = job->device;
    struct host_set *set = job->set;
    const struct host_matrix *d = &job->matrices[MATRIX_D];
    size_t bytes_in = d->offset + (job->matrices[MATRIX_C].used ? d->place_bytes : 0);
    CARAT_TRY(host_set_pinned_bytes(device, set, d->offset + d->place_bytes));
    CUdeviceptr pinned = (CUdeviceptr)(uintptr_t)set->pinned;
    for (int64_t i = 0; i < job->piece_count; ++i) {
        gather(job, &job->pieces[i], INWARD);
    }
    if (bytes_in > 0) {
        CARAT_TRY(DRIVER(device, cuMemcpyAsync(set->device_bytes, pinned, bytes_in, set->compute)));
    }
    CARAT_TRY(job->launch(job, &job->blocks[0]));
    CARAT_TRY(DRIVER(device, cuMemcpyAsync(pinned + d->offset, set->device_bytes + d->offset, d->place_bytes,
                                           set->compute)));
    CARAT_TRY(DRIVER(device, cuStreamSynchronize(set->compute)));
    gather(job, &job->blocks[0].out, OUTWARD);
    return CARAT_OK;
}

/* Work already on the caller's stream comes before this, as it would for device memory. */
static carat_status wait_for_stream(struct cuda_device *device, CUstream stream)
{
    bool capturing;
    CARAT_TRY(stream_is_capturing(device, stream, &capturing));
    if (capturing) {
        return fail(CARAT_UNSUPPORTED, "the stream is being captured, but the matrices are in host memory; "
                                       "a captured call needs them in device memory");
    }
    return DRIVER(device, cuStreamSynchronize(stream));
}

static carat_status run_cut(struct job *job, bool whole)
{
    carat_status status = whole ? run_gathered(job) : job_run_staged(job);
    if (status != CARAT_OK) {
        host_set_settle(job->set);
    }
    return status;
}

/* Cuts a product up, with so many places for its groups, and makes room for it on the device. */
static carat_status place_product(struct job *job, int64_t places, int64_t group_problems, bool whole)
{
    job_clear(job);
    job->places = places;
    size_t bytes = assign_places(job, group_problems);
    CARAT_TRY(cut_product(job, group_problems, whole));
    return host_set_device_bytes(job->device, job->set, bytes + workspace_bytes(job));
}

/* Has the blocks planned with less workspace than there was no room for; false where they cannot be. */
static bool ask_for_less(struct job *job)
{
    int64_t least_workspace = 0;
    size_t most = workspace_bytes(job);
    for (int i = 0; i < job->plan_count; ++i) {
        if (job->plans[i].workspace_bytes == most) {
            least_workspace = plan_less_workspace(&job->plans[i]);
        }
    }
    if (least_workspace > 0) {
        job->problem.most_workspace = least_workspace;
    }
    return least_workspace > 0;
}

/* Groups take turns in two places, or in one where the device has no room for two; then plans do with less. */
static carat_status run_product(struct job *job, bool whole)
{
    int64_t batch = job->problem.batch;
    size_t problem_bytes = bytes_on_device(job, false);
    int64_t fitting = least((int64_t)(job->device->limits.group_bytes / problem_bytes), batch);
    int64_t group_problems = whole ? batch : fitting > 1 ? fitting : 1;
    carat_status status = place_product(job, group_problems < batch ? 2 : 1, group_problems, whole);
    if (status == CARAT_OUT_OF_DEVICE_MEMORY && job->places > 1) {
        status = place_product(job, 1, group_problems, whole);
    }
    while (status == CARAT_OUT_OF_DEVICE_MEMORY && ask_for_less(job)) {
        status = place_product(job, 1, group_problems, whole);
    }
    return status == CARAT_OK ? run_cut(job, whole) : status;
}

static carat_status run_elementwise(struct job *job, bool whole)
{
    job->places = 1;
    size_t bytes = assign_places(job, 1);
    CARAT_TRY(cut_elementwise(job, whole));
    CARAT_TRY(host_set_device_bytes(job->device, job->set, bytes));
    return run_cut(job, whole);
}

static carat_status run_with_set(struct job *job, carat_status (*run)(struct job *job, bool whole),
                                 int64_t batch, CUstream stream)
{
    size_t bytes = bytes_on_device(job, true) + bytes_on_device(job, false) * (size_t)batch;
    bool whole = bytes <= job->device->limits.gather_bytes;
    CARAT_TRY(wait_for_stream(job->device, stream));
    CARAT_TRY(host_set_take(job->device, &job->set));
    pthread_mutex_init(&job->mutex, NULL);
    pthread_cond_init(&job->progress, NULL);
    carat_status status = run(job, whole);
    pthread_cond_destroy(&job->progress);
    pthread_mutex_destroy(&job->mutex);
    host_set_give(job->device, job->set);
    job_clear(job);
    return status;
}

carat_status host_gemm(struct cuda_device *device, const struct plan *plan,
                       const struct device_operands *operands, const struct host_places *places,
                       CUstream stream)
{
    struct job job = {
        .device = device,
        .problem = plan->problem,
        .plan = plan,
        .operands = *operands,
        .launch = launch_product,
    };
    /* Its workspace lies behind its matrices: neither the caller's nor the pool's sets a limit to it. */
    job.problem.most_workspace = 0;
    if (!operands->a) {
        job.problem.k = 0;
    }
    const struct problem *problem = &job.problem;
    struct extent a = problem_extent_a(problem);
    struct extent b = problem_extent_b(problem);
    struct extent c = problem_extent_c(problem);
    struct extent d = problem_extent_d(problem);
    struct extent bias = problem_extent_bias(problem);
    matrix_init(&job, MATRIX_A, operands->a, &a, places->a);
    matrix_init(&job, MATRIX_B, operands->b, &b, places->b);
    matrix_init(&job, MATRIX_BIAS, operands->bias, &bias, places->bias);
    matrix_init(&job, MATRIX_D, operands->d, &d, places->d);
    matrix_init(&job, MATRIX_C, operands->c, &c, places->c);
    /* C is copied to where D will be computed. */
    job.matrices[MATRIX_C].ld = job.matrices[MATRIX_D].ld;
    job.matrices[MATRIX_C].stride = job.matrices[MATRIX_D].stride;
    job.matrices[MATRIX_C].direct = is_direct(&job, &job.matrices[MATRIX_C], places->c);
    return run_with_set(&job, run_product, problem->batch, stream);
}

carat_status host_elementwise(struct cuda_device *device, const struct elementwise *work, enum place a_place,
                              enum place b_place, const scalar_argument *scale, const scalar_argument *shift,
                              CUstream stream)
{
    struct job job = {.device = device, .work = *work, .launch = launch_elementwise};
    size_t bytes = carat_type_size(work->type);
    bool transpose = !scale;
    struct extent a = {work->m, work->n, work->lda, 1, 0, bytes};
    struct extent b = {transpose ? work->n : work->m, transpose ? work->m : work->n, work->ldb, 1, 0, bytes};
    if (!transpose) {
        job.scale = *scale;
        job.shift = *shift;
    }
    matrix_init(&job, MATRIX_A, work->a, &a, a_place);
    matrix_init(&job, MATRIX_D, work->b, &b, b_place);
    return run_with_set(&job, run_elementwise, 1, stream);
}
