/*
 * staging.c - runs a job: every thread takes one chunk after another, first of what must come in, then
 * of what may go out, and puts its copy on a stream. Chunks of pageable memory go through the thread's
 * own pinned slots, by turns: while the device copies one, the thread fills or empties the other.
 *
 * The thread that puts the last missing piece of a block on the stream also launches the block.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "pipeline.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

#define SLOTS_PER_THREAD 2
#define MOST_THREADS 64

enum task_kind {
    TASK_END,  /* nothing is left to do */
    TASK_WAIT, /* nothing can be done now */
    TASK_COPY
};

/* One chunk of a piece; all of it where the matrix is copied directly. */
struct task {
    enum task_kind kind;
    enum direction direction;
    struct piece *piece;
    int64_t chunk;
};

struct slot {
    char *memory;
    CUevent event;
    bool pending;     /* a copy to or from it is under way */
    struct task task; /* which one */
};

struct worker {
    struct job *job;
    struct slot slots[SLOTS_PER_THREAD];
    int turn;
    pthread_t thread;
};

/* ---- Progress, under the job's mutex -------------------------------------------------------- */

static void fail_locked(struct job *job, carat_status status)
{
    if (job->status == CARAT_OK) {
        job->status = status;
        snprintf(job->message, sizeof(job->message), "%s", carat_last_message());
    }
    pthread_cond_broadcast(&job->progress);
}

/* The event after which a block's D may be copied out. */
static CUevent event_of_block(const struct job *job, int64_t block) { return job->set->events[block]; }

static carat_status launch_block(struct job *job, int64_t index)
{
    struct cuda_device *device = job->device;
    struct host_set *set = job->set;
    CARAT_TRY(DRIVER(device, cuEventRecord(set->arrived, set->in)));
    CARAT_TRY(DRIVER(device, cuStreamWaitEvent(set->compute, set->arrived, 0)));
    CARAT_TRY(job->launch(job, &job->blocks[index]));
    return DRIVER(device, cuEventRecord(event_of_block(job, index), set->compute));
}

static carat_status launch_ready_blocks(struct job *job)
{
    while (job->blocks_launched < job->block_count) {
        const struct block *block = &job->blocks[job->blocks_launched];
        if (block->pieces_before > job->pieces_on_stream || block->blocks_before > job->blocks_out) {
            break;
        }
        CARAT_TRY(launch_block(job, job->blocks_launched));
        ++job->blocks_launched;
    }
    return CARAT_OK;
}

/* From here on a later group may be copied into and computed in the place that this one leaves. */
static carat_status leave_place(struct job *job)
{
    struct cuda_device *device = job->device;
    struct host_set *set = job->set;
    CARAT_TRY(DRIVER(device, cuEventRecord(set->left, set->out)));
    CARAT_TRY(DRIVER(device, cuStreamWaitEvent(set->in, set->left, 0)));
    return DRIVER(device, cuStreamWaitEvent(set->compute, set->left, 0));
}

static carat_status count_copy(struct job *job, const struct task *task)
{
    --task->piece->chunks_left;
    while (job->pieces_on_stream < job->piece_count && job->pieces[job->pieces_on_stream].chunks_left == 0) {
        ++job->pieces_on_stream;
    }
    while (job->blocks_out < job->block_count && job->blocks[job->blocks_out].out.chunks_left == 0) {
        if (job->blocks[job->blocks_out].ends_group) {
            CARAT_TRY(leave_place(job));
        }
        ++job->blocks_out;
    }
    return launch_ready_blocks(job);
}

/* The task's copy is on its stream, or status says why not. */
static void finish_task(struct job *job, const struct task *task, carat_status status)
{
    pthread_mutex_lock(&job->mutex);
    if (status == CARAT_OK && job->status == CARAT_OK) {
        status = count_copy(job, task);
    }
    if (status != CARAT_OK) {
        fail_locked(job, status);
    }
    pthread_cond_broadcast(&job->progress);
    pthread_mutex_unlock(&job->mutex);
}

static bool may_come_in(const struct job *job)
{
    return job->piece_next < job->piece_count &&
           job->pieces[job->piece_next].blocks_before <= job->blocks_out;
}

static struct task take_in(struct job *job)
{
    struct piece *piece = &job->pieces[job->piece_next];
    struct task task = {TASK_COPY, INWARD, piece, job->chunk_next};
    if (++job->chunk_next == piece->chunks) {
        job->chunk_next = 0;
        ++job->piece_next;
    }
    return task;
}

static carat_status take_out(struct job *job, struct task *task)
{
    struct cuda_device *device = job->device;
    struct piece *piece = &job->blocks[job->out_next].out;
    *task = (struct task){TASK_COPY, OUTWARD, piece, job->out_chunk_next};
    if (task->chunk == 0) {
        CARAT_TRY(DRIVER(device, cuStreamWaitEvent(job->set->out, event_of_block(job, job->out_next), 0)));
    }
    if (++job->out_chunk_next == piece->chunks) {
        job->out_chunk_next = 0;
        ++job->out_next;
    }
    return CARAT_OK;
}

static struct task take_locked(struct job *job, bool may_wait)
{
    struct task task = {.kind = TASK_END};
    for (;;) {
        bool all_taken = job->piece_next == job->piece_count && job->out_next == job->block_count;
        if (job->status != CARAT_OK || all_taken) {
            return (struct task){.kind = TASK_END};
        }
        if (may_come_in(job)) {
            return take_in(job);
        }
        if (job->out_next < job->blocks_launched) {
            carat_status status = take_out(job, &task);
            if (status == CARAT_OK) {
                return task;
            }
            fail_locked(job, status);
        } else if (!may_wait) {
            return (struct task){.kind = TASK_WAIT};
        } else {
            pthread_cond_wait(&job->progress, &job->mutex);
        }
    }
}

static struct task take_task(struct job *job, bool may_wait)
{
    pthread_mutex_lock(&job->mutex);
    struct task task = take_locked(job, may_wait);
    pthread_mutex_unlock(&job->mutex);
    return task;
}

/* ---- Copies between host and device --------------------------------------------------------- */

/* Lines as they lie in host memory, caller's or slot's, and on the device. */
struct lines {
    char *host;
    size_t host_pitch;
    CUdeviceptr device;
    size_t device_pitch;
    size_t bytes; /* of a line */
    int64_t count;
};

static carat_status copy_flat(struct cuda_device *device, CUstream stream, enum direction direction,
                              char *host, CUdeviceptr on_device, size_t bytes)
{
    CUdeviceptr on_host = (CUdeviceptr)(uintptr_t)host;
    return direction == INWARD ? DRIVER(device, cuMemcpyAsync(on_device, on_host, bytes, stream))
                               : DRIVER(device, cuMemcpyAsync(on_host, on_device, bytes, stream));
}

static carat_status copy_pitched(struct cuda_device *device, CUstream stream, enum direction direction,
                                 const struct lines *lines)
{
    CUDA_MEMCPY2D copy = {.WidthInBytes = lines->bytes, .Height = (size_t)lines->count};
    if (direction == INWARD) {
        copy.srcMemoryType = CU_MEMORYTYPE_HOST;
        copy.srcHost = lines->host;
        copy.srcPitch = lines->host_pitch;
        copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.dstDevice = lines->device;
        copy.dstPitch = lines->device_pitch;
    } else {
        copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
        copy.srcDevice = lines->device;
        copy.srcPitch = lines->device_pitch;
        copy.dstMemoryType = CU_MEMORYTYPE_HOST;
        copy.dstHost = lines->host;
        copy.dstPitch = lines->host_pitch;
    }
    return DRIVER(device, cuMemcpy2DAsync_v2(&copy, stream));
}

static carat_status copy_on_stream(struct job *job, enum direction direction, const struct lines *lines)
{
    struct cuda_device *device = job->device;
    CUstream stream = direction == INWARD ? job->set->in : job->set->out;
    if (lines->bytes == lines->host_pitch && lines->bytes == lines->device_pitch) {
        return copy_flat(device, stream, direction, lines->host, lines->device,
                         lines->bytes * (size_t)lines->count);
    }
    if (lines->host_pitch <= device->max_pitch && lines->device_pitch <= device->max_pitch) {
        return copy_pitched(device, stream, direction, lines);
    }
    for (int64_t i = 0; i < lines->count; ++i) {
        CARAT_TRY(copy_flat(device, stream, direction, lines->host + i * (int64_t)lines->host_pitch,
                            lines->device + (size_t)i * lines->device_pitch, lines->bytes));
    }
    return CARAT_OK;
}

/* The whole piece straight between the caller's memory and the device, a problem at a time if need be. */
static carat_status copy_directly(struct job *job, const struct task *task)
{
    const struct piece *piece = task->piece;
    const struct host_matrix *matrix = &job->matrices[piece->matrix];
    const struct extent *extent = &matrix->extent;
    size_t element_bytes = extent->element_bytes;
    bool evenly_spaced = piece->problems == 1 || extent->stride == extent->ld * piece->columns;
    int64_t problems_at_once = evenly_spaced ? piece->problems : 1;
    for (int64_t problem = 0; problem < piece->problems; problem += problems_at_once) {
        int64_t line = problem * piece->columns;
        struct lines lines = {
            .host = line_on_host(job, piece, line, piece->row),
            .host_pitch = (size_t)extent->ld * element_bytes,
            .device = line_on_device(job, piece, line, piece->row),
            .device_pitch = (size_t)matrix->ld * element_bytes,
            .bytes = (size_t)piece->rows * element_bytes,
            .count = problems_at_once * piece->columns,
        };
        CARAT_TRY(copy_on_stream(job, task->direction, &lines));
    }
    return CARAT_OK;
}

/* ---- Through slots -------------------------------------------------------------------------- */

/* What a chunk is of its piece, and how it lies in a slot. */
struct chunk {
    int64_t line;
    int64_t lines;
    int64_t row;
    int64_t rows;
    size_t pitch;
};

static struct chunk chunk_of(const struct job *job, const struct task *task)
{
    const struct piece *piece = task->piece;
    int64_t all_lines = piece->problems * piece->columns;
    struct chunk chunk = {.row = piece->row, .rows = piece->rows, .lines = 1};
    if (piece->chunks_per_line == 1) {
        chunk.line = task->chunk * piece->lines_per_chunk;
        chunk.lines =
            all_lines - chunk.line < piece->lines_per_chunk ? all_lines - chunk.line : piece->lines_per_chunk;
    } else {
        size_t element_bytes = job->matrices[piece->matrix].extent.element_bytes;
        int64_t rows = (int64_t)(job->device->limits.slot_bytes / element_bytes);
        int64_t done = task->chunk % piece->chunks_per_line * rows;
        chunk.line = task->chunk / piece->chunks_per_line;
        chunk.row = piece->row + done;
        chunk.rows = piece->rows - done < rows ? piece->rows - done : rows;
    }
    chunk.pitch = slot_pitch(job, piece->matrix, chunk.rows);
    return chunk;
}

static carat_status copy_slot(struct job *job, const struct task *task, const struct chunk *chunk, char *slot)
{
    const struct host_matrix *matrix = &job->matrices[task->piece->matrix];
    struct lines lines = {
        .host = slot,
        .host_pitch = chunk->pitch,
        .device = line_on_device(job, task->piece, chunk->line, chunk->row),
        .device_pitch = (size_t)matrix->ld * matrix->extent.element_bytes,
        .bytes = (size_t)chunk->rows * matrix->extent.element_bytes,
        .count = chunk->lines,
    };
    if (lines.host_pitch == lines.device_pitch) {
        lines.bytes = lines.device_pitch; /* padding and all, so that it is one copy */
    }
    return copy_on_stream(job, task->direction, &lines);
}

/* Waits until a slot's copy is done; what came out then goes to the caller's memory. */
static carat_status settle_slot(struct job *job, struct slot *slot)
{
    struct cuda_device *device = job->device;
    if (!slot->pending) {
        return CARAT_OK;
    }
    slot->pending = false;
    CARAT_TRY(DRIVER(device, cuEventSynchronize(slot->event)));
    if (slot->task.direction == OUTWARD) {
        struct chunk chunk = chunk_of(job, &slot->task);
        lines_copy(job, slot->task.piece, OUTWARD, chunk.line, chunk.lines, chunk.row, chunk.rows,
                   slot->memory, chunk.pitch);
    }
    return CARAT_OK;
}

static carat_status copy_through_slot(struct job *job, struct slot *slot, const struct task *task)
{
    struct cuda_device *device = job->device;
    CARAT_TRY(settle_slot(job, slot));
    struct chunk chunk = chunk_of(job, task);
    if (task->direction == INWARD) {
        lines_copy(job, task->piece, INWARD, chunk.line, chunk.lines, chunk.row, chunk.rows, slot->memory,
                   chunk.pitch);
    }
    CARAT_TRY(copy_slot(job, task, &chunk, slot->memory));
    CARAT_TRY(
        DRIVER(device, cuEventRecord(slot->event, task->direction == INWARD ? job->set->in : job->set->out)));
    slot->task = *task;
    slot->pending = true;
    return CARAT_OK;
}

/* ---- Threads -------------------------------------------------------------------------------- */

static carat_status settle_slots(struct worker *worker)
{
    for (int i = 0; i < SLOTS_PER_THREAD; ++i) {
        /* The slot whose copy began first comes first. */
        struct slot *slot = &worker->slots[(worker->turn + i) % SLOTS_PER_THREAD];
        CARAT_TRY(settle_slot(worker->job, slot));
    }
    return CARAT_OK;
}

static carat_status copy_task(struct worker *worker, const struct task *task)
{
    struct job *job = worker->job;
    if (job->matrices[task->piece->matrix].direct) {
        return copy_directly(job, task);
    }
    struct slot *slot = &worker->slots[worker->turn];
    worker->turn = (worker->turn + 1) % SLOTS_PER_THREAD;
    return copy_through_slot(job, slot, task);
}

static carat_status copy_tasks(struct worker *worker)
{
    struct job *job = worker->job;
    for (;;) {
        struct task task = take_task(job, false);
        if (task.kind == TASK_WAIT) {
            /* Better empty the slots than wait with them full. */
            CARAT_TRY(settle_slots(worker));
            task = take_task(job, true);
        }
        if (task.kind == TASK_END) {
            return settle_slots(worker);
        }
        finish_task(job, &task, copy_task(worker, &task));
    }
}

static void work(struct worker *worker)
{
    struct job *job = worker->job;
    carat_status status = copy_tasks(worker);
    if (status != CARAT_OK) {
        pthread_mutex_lock(&job->mutex);
        fail_locked(job, status);
        pthread_mutex_unlock(&job->mutex);
    }
}

static void *thread_main(void *argument)
{
    struct worker *worker = argument;
    struct job *job = worker->job;
    bool pushed;
    carat_status status = device_enter(job->device, &pushed);
    if (status == CARAT_OK) {
        work(worker);
        device_leave(job->device, pushed);
    } else {
        pthread_mutex_lock(&job->mutex);
        fail_locked(job, status);
        pthread_mutex_unlock(&job->mutex);
    }
    return NULL;
}

static int processors(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* Bytes that go through slots; those of pieces that are copied directly do not count. */
static size_t staged_bytes(const struct job *job)
{
    size_t bytes = 0;
    for (int i = 0; i < MATRIX_COUNT; ++i) {
        const struct host_matrix *matrix = &job->matrices[i];
        if (matrix->used && !matrix->direct) {
            bytes += (size_t)matrix->extent.rows * (size_t)matrix->extent.columns *
                     matrix->extent.element_bytes * (size_t)(matrix->shared ? 1 : matrix->extent.batch);
        }
    }
    return bytes;
}

static int thread_count(const struct job *job)
{
    size_t wanted = 1 + staged_bytes(job) / job->device->limits.bytes_per_thread;
    int most = processors();
    most = job->device->limits.most_threads < most ? job->device->limits.most_threads : most;
    most = most < MOST_THREADS ? most : MOST_THREADS;
    return wanted < (size_t)most ? (int)wanted : most;
}

static carat_status prepare_slots(struct job *job, struct worker *workers, int threads)
{
    size_t slot_bytes = job->device->limits.slot_bytes;
    size_t slots = (size_t)threads * SLOTS_PER_THREAD;
    /* The events of the blocks come first, then the slots'. */
    CARAT_TRY(host_set_events(job->device, job->set, (size_t)job->block_count + slots));
    if (staged_bytes(job) > 0) {
        CARAT_TRY(host_set_pinned_bytes(job->device, job->set, slots * slot_bytes));
    }
    for (size_t i = 0; i < slots; ++i) {
        workers[i / SLOTS_PER_THREAD].slots[i % SLOTS_PER_THREAD] = (struct slot){
            .memory = job->set->pinned ? (char *)job->set->pinned + i * slot_bytes : NULL,
            .event = job->set->events[(size_t)job->block_count + i],
        };
    }
    return CARAT_OK;
}

carat_status job_run_staged(struct job *job)
{
    struct worker workers[MOST_THREADS] = {0};
    int threads = thread_count(job);
    for (int i = 0; i < MOST_THREADS; ++i) {
        workers[i].job = job;
    }
    CARAT_TRY(prepare_slots(job, workers, threads));
    CARAT_TRY(launch_ready_blocks(job));

    /* This thread is the first worker. Where no more can be started, fewer do the work. */
    int started = 1;
    while (started < threads &&
           pthread_create(&workers[started].thread, NULL, thread_main, &workers[started]) == 0) {
        ++started;
    }
    work(&workers[0]);
    for (int i = 1; i < started; ++i) {
        pthread_join(workers[i].thread, NULL);
    }
    if (job->status != CARAT_OK) {
        return fail(job->status, "%s", job->message);
    }
    return host_set_wait(job->device, job->set);
}
