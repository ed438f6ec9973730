/*
 * pipeline.h - work on matrices in host memory, cut up so that copies in, compute and copies out run
 * at the same time.
 *
 * A job is a list of pieces to copy in and a list of blocks to compute, each in order. A block starts
 * when the pieces up to its own have arrived; what it has computed is then copied out:
 *
 *     copy in    A0 B0 | B1   | A1      | ...
 *     compute          | D00  | D01     | D10 D11 (one block) | ...
 *     copy out                | D00     | D01                 | D10 D11 ...
 *
 * A batch is worked off in groups of problems. Each matrix has one or two places on the device, which
 * the groups take in turns.
 */
#ifndef CARAT_CUDA_PIPELINE_H
#define CARAT_CUDA_PIPELINE_H

#include "device_cuda.h"
#include "host_set.h"

/* A matrix, or a batch of them, in host memory and on the device. */
struct host_matrix {
    char *host; /* only D is written */
    struct extent extent;
    bool used;
    bool shared; /* one matrix for all problems of a batch */
    bool direct; /* the device copies the caller's memory itself; else through pinned slots */
    int64_t ld;  /* on the device, in elements */
    int64_t stride;
    size_t place_bytes; /* of one place; there are job.places of them, or one of a shared matrix */
    size_t offset;      /* of the first place in the set's device memory */
};

/*
 * The matrices of a job; a bias is one of one column. C goes into D's place. Work on one matrix has A and
 * D.
 */
enum { MATRIX_A, MATRIX_B, MATRIX_BIAS, MATRIX_C, MATRIX_D, MATRIX_COUNT };

/* A rectangle of each of some problems of a matrix, to be copied in or out in chunks. */
struct piece {
    int matrix;
    int64_t group;   /* says which place on the device */
    int64_t problem; /* the first, of the whole batch */
    int64_t problems;
    int64_t column;
    int64_t columns;
    int64_t row;
    int64_t rows;
    int64_t lines_per_chunk; /* a line is what is contiguous: some rows of one column */
    int64_t chunks_per_line; /* 1, or lines are longer than a slot and lines_per_chunk is 1 */
    int64_t chunks;
    int64_t chunks_left;   /* not yet put on the stream */
    int64_t blocks_before; /* whose D must have been put on the stream: the group before in this place */
};

/* A rectangle of D for all problems of a group. */
struct block {
    int plan;              /* in job.plans; products only */
    int64_t pieces_before; /* that must have been put on the stream */
    int64_t blocks_before; /* as of its pieces */
    bool ends_group;
    struct piece out;
};

struct job {
    struct cuda_device *device;
    struct host_set *set;
    struct host_matrix matrices[MATRIX_COUNT];
    int64_t places;
    size_t workspace_offset;

    /* What is computed: launch puts one block on the compute stream. */
    const struct plan *plan; /* the caller's, of the whole product */
    struct problem problem;  /* its problem, with k 0 where A and B are not read, and workspace as it likes */
    struct elementwise work; /* of scale_add and transpose */
    scalar_argument scale;   /* of scale_add */
    scalar_argument shift;
    struct device_operands operands; /* of a product: its scalars */
    carat_status (*launch)(struct job *job, const struct block *block);

    struct plan *plans;
    int plan_count;
    struct piece *pieces;
    int64_t piece_count;
    struct block *blocks;
    int64_t block_count;

    /* How far it has come; under the mutex. */
    pthread_mutex_t mutex;
    pthread_cond_t progress;
    int64_t piece_next; /* to be taken by a thread, at chunk_next */
    int64_t chunk_next;
    int64_t pieces_on_stream;
    int64_t blocks_launched;
    int64_t out_next; /* block whose D is to be taken, at out_chunk_next */
    int64_t out_chunk_next;
    int64_t blocks_out; /* whose D has been put on the stream */
    carat_status status;
    char message[400];
};

/* Where a line of a piece begins, or rather the element of it that is in that row of the matrix. */
char *line_on_host(const struct job *job, const struct piece *piece, int64_t line, int64_t row);
CUdeviceptr line_on_device(const struct job *job, const struct piece *piece, int64_t line, int64_t row);

/* Bytes from line to line in pinned memory: as on the device where a line is a whole column. */
size_t slot_pitch(const struct job *job, int matrix, int64_t rows);

/*
 * Copies lines of a piece from the caller's memory to packed ones, pitch bytes apart, or back. Of each
 * line rows elements are copied, from row on.
 */
enum direction { INWARD, OUTWARD };
void lines_copy(const struct job *job, const struct piece *piece, enum direction direction, int64_t line,
                int64_t lines, int64_t row, int64_t rows, char *packed, size_t pitch);

/* Runs the job's pieces and blocks with as many threads as its staged bytes are worth (staging.c). */
carat_status job_run_staged(struct job *job);

/* Where the matrices of a product are: host memory that is pinned, or not. */
struct host_places {
    enum place a;
    enum place b;
    enum place bias;
    enum place c;
    enum place d;
};

/* A product whose matrices are in host memory; a, b and c are NULL where they are not read. */
carat_status host_gemm(struct cuda_device *device, const struct plan *plan,
                       const struct device_operands *operands, const struct host_places *places,
                       CUstream stream);

/* work's a and b are in host memory; scale and shift are NULL for a transpose. */
carat_status host_elementwise(struct cuda_device *device, const struct elementwise *work, enum place a_place,
                              enum place b_place, const scalar_argument *scale, const scalar_argument *shift,
                              CUstream stream);

#endif
