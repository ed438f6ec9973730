/*
 * trial.h - one product on a GPU, laid out among poison, run, and compared with a reference on the CPU; and the
 * threads that make many of them at once. What gpu_check and gpu_stress have in common.
 *
 * Everything that a trial's kernels must not read is NaN (of integers, -1): the gaps between columns and between
 * problems, the bytes around each matrix, D where it is not read, and the caller's workspace before each run.
 * Everything that they must not write is compared afterwards.
 */
#ifndef CARAT_TESTS_TRIAL_H
#define CARAT_TESTS_TRIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "context.h"
#include "cuda/cuda.h"
#include "reference.h"

/* ---- One product ---- */

enum place { PLACE_DEVICE, PLACE_PINNED, PLACE_PAGEABLE, PLACE_COUNT };

/*
 * How it is computed: as the library chooses, by one row of the catalogue alone, with A and B packed, or in any one
 * of the ways that the library looks at (of the row's, where one is given), whatever it thinks of it.
 */
enum way { WAY_LIBRARY, WAY_ROW, WAY_PACKED, WAY_ANY };

enum scales { SCALES_NONE, SCALES_HOST, SCALES_DEVICE };

/* A product, and how it is to be run. Shifts are of the matrices' addresses, in elements. */
struct trial {
    carat_gemm_problem problem; /* leading dimensions filled in */
    enum way way;
    const struct kernel *row; /* WAY_ROW, WAY_ANY; else NULL */
    uint64_t seed;            /* of its elements */
    double alpha;
    double beta;
    bool scalars_on_device;
    bool own_c; /* else C is D */
    enum scales scales;
    float scale_a;
    float scale_b;
    float scale_d;
    enum place place;
    bool own_workspace; /* else the context's pool */
    bool special;       /* NaN and infinity in a few places of A and B */
    int64_t shift_a;
    int64_t shift_b;
    int64_t shift_c;
    int64_t shift_d;
    int64_t shift_bias;
};

/* A trial of column-major matrices tightly packed, with alpha 1 and beta 0. */
struct trial trial_of(carat_type type_a, carat_type type_b, carat_type type_cd, int64_t m, int64_t n,
                      int64_t k);

/* Sets order and operations (bit 0: B, bit 1: A), and leading dimensions with so many elements behind each column. */
void trial_layout(struct trial *trial, carat_order order, int ops, int64_t pad);

/* Makes it a batch of problems with a gap between them; a stride of 0 where one is shared. */
void trial_batch(struct trial *trial, int64_t batch, int64_t gap);

/* In one line. */
void trial_describe(const struct trial *trial, char *text, size_t size);

/* ---- Random trials ---- */

struct trial_types {
    carat_type a;
    carat_type b;
    carat_type cd;
    carat_accuracy accuracy;
};

/* Every set of types and accuracy that there is. */
extern const struct trial_types trial_types[];
extern const int trial_type_count;

/* Random types, one of the above. */
struct trial_types trial_random_types(struct random *random);

struct trial_limits {
    int64_t most_side;     /* of m, n and k, whose logarithms are uniform */
    int64_t most_batch;    /* a batch is made one time in five */
    double most_work;      /* multiply-adds of all problems */
    int64_t most_elements; /* of any matrix, all problems together */
};

/* Random sizes within the limits. */
void trial_random_shape(struct random *random, const struct trial_limits *limits, struct trial *trial);

/* Random layout, leading dimensions, addresses, scalars, C, workspace, for the shape that it has. */
void trial_random_placing(struct random *random, struct trial *trial);

/* A random batch of at most that many problems, some matrices shared, some overlapping. */
void trial_random_batch(struct random *random, int64_t most, struct trial *trial);

/* A random bias, activation and scales, as its types allow. */
void trial_random_epilogue(struct random *random, struct trial *trial);

/* All of that. */
struct trial trial_random(struct random *random, const struct trial_limits *limits);

/* ---- Running one ---- */

/* What a thread runs trials with: a stream, memory, and what is in it. One trial at a time. */
struct lane;

struct lane *lane_create(carat_context *context);
void lane_destroy(struct lane *lane);
void *lane_stream(struct lane *lane);

/* Lays out the trial's matrices and uploads them. */
carat_status lane_place(struct lane *lane, const struct trial *trial);

/* Puts the trial that was placed on a stream. May be repeated, also into a graph. */
carat_status lane_run(struct lane *lane, void *stream);

/* D and what is around it, as it was placed. */
carat_status lane_restore(struct lane *lane);

/* Where the placed matrices are, for other calls than the trial's own. */
struct lane_pointers {
    void *a;
    void *b;
    void *d;
};
struct lane_pointers lane_pointers(const struct lane *lane);

/* Whether every byte is as it was placed. */
bool lane_untouched(struct lane *lane, char *why, size_t why_size);

/* Fetches D and compares it with the reference, and all else with what was there. */
bool lane_compare(struct lane *lane, char *why, size_t why_size);

enum outcome { OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED };

/* Places, runs and compares; then runs again until there were `runs`, each to give the same bits. */
enum outcome lane_try(struct lane *lane, const struct trial *trial, int runs, char *why, size_t why_size);

/* ---- Many of them ---- */

/* How thorough: multiply-adds of the reference for one trial, about. */
extern double trial_reference_work;

struct trial_tally {
    int passed;
    int failed;
    int skipped;
    int left_out; /* for want of time */
};

/* Makes trial number index; false where there is none of that number to be had. */
typedef bool trial_maker(int64_t index, void *what, struct trial *trial);

/* Threads with a lane each. */
struct crew;

struct crew *crew_create(carat_context *context, int threads);
void crew_destroy(struct crew *crew);

/*
 * Tries trials 0 to count - 1, several at once; prints the first failures. None is begun after the deadline (in
 * seconds of crew_seconds(); 0: never), or once the device is lost.
 */
struct trial_tally crew_try(struct crew *crew, trial_maker *make, void *what, int64_t count, int runs,
                            double deadline);

/* The number of the first trial that failed last time; -1 where none did. */
int64_t crew_first_failed(const struct crew *crew);

/* Seconds since the program began to ask. */
double crew_seconds(void);

#endif
