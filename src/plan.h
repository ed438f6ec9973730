/*
 * plan.h - how a problem is computed: an ordered list of steps and the workspace they need.
 */
#ifndef CARAT_PLAN_H
#define CARAT_PLAN_H

#include "catalog.h"
#include "problem.h"

enum step_kind {
    STEP_BLAS,     /* the CPU device's multiplication, whole */
    STEP_PACK,     /* copies A and B into workspace, columns aligned */
    STEP_MULTIPLY, /* a product kernel */
    STEP_REDUCE    /* adds the parts of a split K */
};

struct step {
    enum step_kind kind;
    const struct kernel *kernel;    /* when A and B bases are aligned as it wants */
    const struct kernel *unaligned; /* when they are not; may be the same */
};

struct plan {
    struct problem problem;
    struct problem product; /* what the product's kernel sees: the problem, or its packed operands */
    struct step steps[4];
    int step_count;
    int parts;          /* of K */
    int64_t k_per_part; /* a multiple of the kernels' TILE_K */
    size_t packed_a_at; /* where in the workspace, in bytes */
    size_t packed_b_at;
    size_t partials_at;
    size_t workspace_bytes;
    char explanation[500];
};

/* What a planner must know of a device. */
struct device_traits {
    carat_device_kind kind;
    int compute_capability; /* major * 10 + minor */
    int multiprocessors;
    int shared_bytes; /* the most that a block may ask for; 0 where nothing is known */
};

/* Whether the plan has a step of that kind. */
bool plan_has(const struct plan *plan, enum step_kind kind);

/* Chooses the steps (choose.c). Fails only with CARAT_UNSUPPORTED. */
carat_status plan_choose(const struct device_traits *traits, const struct problem *problem,
                         struct plan *plan);

/* Whether two problems are the same, so that one's plan serves the other. */
bool problem_equal(const struct problem *x, const struct problem *y);

/* Whether a row of any kind is in this build and runs on the device. */
bool kernel_runs_on(const struct kernel *kernel, const struct device_traits *traits);

/*
 * The same for a problem that is not empty on a CUDA device, with A and B packed first wherever there are rows for
 * it: by its cost that pays only for products too large to test without a device.
 */
carat_status plan_choose_packed(const struct device_traits *traits, const struct problem *problem,
                                struct plan *plan);

/* Whether a row of OPERATION_GEMM can compute the problem on the device, where A and B begin aligned. */
bool kernel_multiplies(const struct kernel *kernel, const struct device_traits *traits,
                       const struct problem *problem);

#endif
