/*
 * workload.h - the operands of a measured problem: where they lie and what is in them.
 *
 * One long array of random numbers holds the inputs, set behind set, and another the outputs:
 *
 *     inputs   A of set 0 | B of set 0 | A of set 1 | B of set 1 | ...
 *     outputs  D of set 0 | D of set 1 | ...
 *
 * There are as many sets as it takes to exceed the last cache twice over; runs go round them, so that no
 * run finds its operands in the cache from the run before. The random numbers repeat with a prime period, so
 * the host knows every element without keeping a copy. Operands of another family than normal are made for
 * their problem, and all sets hold the same.
 */
#ifndef CARAT_BENCH_WORKLOAD_H
#define CARAT_BENCH_WORKLOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "accuracy_families.h"
#include "carat/carat.h"
#include "reference.h"

/* A device to run on, and one stream of it. */
struct place {
    carat_context *context;
    struct device *device;
    bool cuda;
    carat_device_info info;
    void *stream;
};

carat_status place_open(carat_device_kind kind, int index, struct place *place);
void place_close(struct place *place);

/* Sets bytes of the place's memory, in the order of its stream. */
carat_status place_memset(struct place *place, void *pointer, int byte, size_t bytes);

/*
 * A prime, which no dimension in use divides; nor is a matrix of usual sides nearly a multiple of it, which would give B what A
 * has, a little further on: with 2^22 - 3 a row of a 2048 x 2048 A was a column of its B.
 */
enum { RANDOM_PERIOD = 4139417 };

/* One period of random numbers; free() it. */
carat_status make_random_tile(carat_type type, void **tile);

/* Fills memory of the place with a tile of `period` elements over and over, and waits for that. */
carat_status fill_periodic(struct place *place, carat_type type, const void *tile, int64_t period,
                           void *pointer, int64_t elements);

/* The two arrays; they grow with the largest workload and are kept between cases of one type. */
struct arena {
    struct place *place;
    bool one_set;                /* of operands, as nothing is timed */
    enum accuracy_family family; /* of the operands that workloads ask for; any but NORMAL are f32 */
    carat_type type;
    void *tile; /* one period of the inputs, on the host */
    int64_t period;
    enum accuracy_family tile_family;
    carat_gemm_problem tile_problem; /* that the tile was made for, where it is not of random numbers */
    void *inputs;
    int64_t input_elements; /* filled so far */
    void *outputs;
    size_t output_bytes;
    void *copy; /* the host's, of one D */
    size_t copy_bytes;
    void *one;          /* 1.0f, for the scales of 8-bit floats; NULL until then */
    void *bias;         /* random numbers of bias_type, for contenders with a bias; NULL until then */
    void *bias_on_host; /* the same */
    carat_type bias_type;
    int64_t bias_elements;
};

void arena_free(struct arena *arena);

struct workload {
    struct arena *arena;
    carat_gemm_problem problem;
    int sets;
    int64_t set_elements;    /* from one set's A to the next one's */
    int64_t b_first;         /* of a set's B, from its A */
    int64_t output_elements; /* of one D, rounded up */
};

/* Makes room for a column-major problem and fills it. The memory belongs to the arena. */
carat_status workload_open(struct arena *arena, const carat_gemm_problem *problem, struct workload *workload);

const void *workload_a(const struct workload *workload, int set);
const void *workload_b(const struct workload *workload, int set);
void *workload_d(const struct workload *workload, int set);

/* The scale of A and of B: 1 in the place's memory for 8-bit floats, NULL for all else. */
const float *workload_scale(const struct workload *workload);

/* Makes room for a bias of as many elements as D has rows or columns, of the type of the sums. */
carat_status workload_make_bias(const struct workload *workload);

/* How many multiply-adds, times two; and the fewest bytes that must move (A, B read, D written). */
double workload_operations(const carat_gemm_problem *problem);
double workload_bytes(const carat_gemm_problem *problem);

/* The references of a few problems of the batch, on set 0. */
struct references {
    struct reference items[4];
    int count;
    double ulps; /* that a result may be off, see reference_compare(); by default by reference_ulps_on() */
};

carat_status references_compute(const struct workload *workload, int64_t budget,
                                struct references *references);
void references_free(struct references *references);

/*
 * A copy of the references, made into those of act(A B + bias), with the bias of workload_make_bias().
 * references_free() as for the others, also on failure.
 */
carat_status references_finish(const struct references *plain, const struct workload *workload,
                               const struct epilogue *epilogue, struct references *finished);

/* Fills D of set 0 with 0xff, so that an element that is not written is seen. */
carat_status workload_poison(const struct workload *workload);

/* Waits for the stream, fetches D of set 0 and compares it. */
carat_status workload_check(const struct workload *workload, const struct references *references,
                            struct verdict *verdict);

#endif
