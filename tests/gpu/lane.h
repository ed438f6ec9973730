/*
 * lane.h - a stream and memory of a GPU, on which trials are laid out among poison, run, and compared with a
 * reference on the CPU. One trial at a time.
 *
 * Everything that a trial's kernels must not read is NaN (of integers, -1): the gaps between columns and between
 * problems, the bytes around each matrix, D where it is not read, and the caller's workspace before each run.
 * Everything that they must not write is compared afterwards.
 */
#ifndef CARAT_TESTS_LANE_H
#define CARAT_TESTS_LANE_H

#include "context.h"
#include "cuda/cuda.h"
#include "trial.h"

/* How thorough: multiply-adds of the reference for one trial, about. */
extern double lane_reference_work;

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

/* The same by the device alone, in the order of the lane's stream; for trials whose C is not D, or not read. */
carat_status lane_poison(struct lane *lane);

/* What the plan that ran last said of itself; "" where there was none. */
const char *lane_how(const struct lane *lane);

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

/* Fetches D and keeps it; then fetches it again after other runs, which must have given the same bits. */
bool lane_keep(struct lane *lane, char *why, size_t why_size);
bool lane_same(struct lane *lane, char *why, size_t why_size);

enum outcome { OUTCOME_PASSED, OUTCOME_FAILED, OUTCOME_SKIPPED };

/* Places, runs and compares; then runs again until there were `runs`, each to give the same bits. */
enum outcome lane_try(struct lane *lane, const struct trial *trial, int runs, char *why, size_t why_size);

#endif
