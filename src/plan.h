/*
 * plan.h - how a problem is computed: an ordered list of steps and the workspace they need.
 */
#ifndef CARAT_PLAN_H
#define CARAT_PLAN_H

#include "catalog.h"
#include "problem.h"
#include "tuning.h"

enum step_kind {
    STEP_BLAS,     /* the CPU device's multiplication, whole */
    STEP_PACK,     /* copies A, B or both into workspace, as the product's kernel wants them */
    STEP_SPLIT,    /* writes A and B into workspace as sums of planes, and says whether they can be */
    STEP_MULTIPLY, /* a product kernel */
    STEP_REDUCE,   /* adds the parts of K, and finishes the sums */
    STEP_SPLIT_SAFE, /* where a product of two planes has left anything: writes A and B as three, which hold more */
    STEP_SAFE,       /* computes what it has left from those */
    STEP_RESCUE /* computes what products have left alone from A and B themselves: they could not be split */
};

struct step {
    enum step_kind kind;
    const struct kernel *kernel;
};

/* K is split into no more parts than this. */
#define MOST_PARTS 256

/* Where in the workspace, in bytes, operands as planes stand, and what goes with them: see verdict_arguments. */
struct planes_places {
    int64_t b;        /* B's; A's are at the beginning */
    int64_t verdicts; /* what the blocks of a split say of A and B */
    int64_t spoiled;  /* which parts of D the product has left alone */
};

struct plan {
    struct problem problem;
    struct problem
        product; /* what the product's kernel sees: the problem, or its packed operands; of one panel */
    struct problem safe_product; /* what that of STEP_SAFE sees */
    struct step steps[6];
    int step_count;
    const struct kernel
        *stand_in;      /* for a product's kernel without a whole image, where a call asks for more */
    int parts;          /* of K */
    int64_t k_per_part; /* a multiple of the kernel's TILE_K */
    bool packs_a;       /* or splits, to the workspace's beginning; its layout and type are the product's */
    bool packs_b;
    size_t packed_b_at; /* where in the workspace, in bytes */
    struct planes_places planes;
    struct planes_places safe_planes;
    size_t left_at;     /* whether a product of two planes has left anything: a word */
    size_t partials_at; /* or, with stream_tiles, what clusters hand to each other: the flags first */
    int64_t
        stream_tiles; /* of the product's kernel, see tensor_gemm_arguments; 0: every cluster has its own */
    size_t workspace_bytes;
    /*
     * The device's own, kept_bytes of it, all zeros at first; NULL: there is no room for any. Calls that run the plan at once
     * write there: the device sees to it that they agree.
     */
    void *kept;
    char explanation[800];
};

/* What a planner must know of a device. */
struct device_traits {
    carat_device_kind kind;
    int compute_capability; /* major * 10 + minor */
    int multiprocessors;
    int shared_bytes;       /* the most that a block may ask for; 0 where nothing is known */
    double memory_promised; /* by its driver, see memory_share_of() */
    double memory_share; /* of what times and model are of: what a memory gives; 0: as much, or not known */
    const char *name;    /* of the chip, as its driver calls it; NULL for a CPU */
    const struct tuning_table *tuning; /* measured corrections, see tuning_apply(); NULL: none */
};

/*
 * What a memory of so many GB/s gives a multiprocessor in a cycle, clock being in MHz, over what that is on the device which
 * the model was fitted on; 0 where one of the numbers is not known.
 */
double memory_share_of(double gigabytes, double clock, int multiprocessors);

/* Whether A's planes outlast a panel: those of two make room for the safe product's. */
bool keeps_planes_of_a(const struct problem *product);

/* Whether the plan has a step of that kind. */
bool plan_has(const struct plan *plan, enum step_kind kind);

/*
 * From here on of k, sums of products of bf16 planes are as good as f32 arithmetic's whatever the range of the operands, also
 * as cublasSgemm does it, which cuts k of 1024 into chains. Behind a product of close accuracy, which may err twice as much,
 * from half of that on.
 */
#define LEAST_K_OF_FAR_APART 2048
#define LEAST_K_OF_FAR_APART_BEHIND 1024
/* From here on they are compensated where others sum k in several chains, which costs a third of the speed. */
#define LEAST_LONG_K 4096

/*
 * Where planes of all of A and B would take too much workspace, D is computed in panels: all steps for product.m x
 * product.n of it at a time, along n first, and A is split once for all that stand side by side.
 */
bool plan_has_panels(const struct plan *plan);

/* The plan of the panel that begins at that row and column; at the lower and the right edge it may be smaller. */
void plan_panel(const struct plan *plan, int64_t row, int64_t column, struct plan *panel);

/*
 * What a problem's next plan may take of workspace (most_workspace) where there is no room for this one: half as much, in
 * the end a byte, which is none. 0 where there is no other plan: this one takes none, or more than it was asked to, since
 * nothing does with so little.
 */
int64_t plan_less_workspace(const struct plan *plan);

/* Chooses the steps (choose.c). Fails only with CARAT_UNSUPPORTED. */
carat_status plan_choose(const struct device_traits *traits, const struct problem *problem,
                         struct plan *plan);

/* Whether two problems are the same, so that one's plan serves the other. */
bool problem_equal(const struct problem *x, const struct problem *y);

/* Whether a row has been compiled, and whether it has no image for everything, but for plain products, to finish sums, or for parts of k. */
bool kernel_has_image(const struct kernel *kernel);
bool kernel_lacks_whole(const struct kernel *kernel);

/* Whether a row of any kind is in this build and runs on the device. */
bool kernel_runs_on(const struct kernel *kernel, const struct device_traits *traits);

/*
 * The same for a problem that is not empty on a CUDA device, with A and B packed first wherever there are
 * rows for it: by its cost that pays only for products too large to test without a device.
 */
carat_status plan_choose_packed(const struct device_traits *traits, const struct problem *problem,
                                struct plan *plan);

/* The same with a row of OPERATION_GEMM given, in the way that suits it best. */
carat_status plan_choose_row(const struct device_traits *traits, const struct problem *problem,
                             const struct kernel *kernel, struct plan *plan);

/* One way to compute a problem, and what the model thinks of it. */
struct candidate {
    const struct kernel *kernel;
    const struct kernel *pack;   /* or split; NULL: A and B are multiplied where they lie */
    const struct kernel *rescue; /* of what cannot be split; NULL: nothing is split */
    const struct kernel
        *safe_split; /* into three planes, where two do not do; NULL: the rescue alone goes behind */
    const struct kernel *safe;
    struct problem product; /* as in struct plan, and so on */
    struct problem safe_product;
    bool packs_a;
    bool packs_b;
    bool bare; /* the sums go to workspace, and a reduce row finishes them */
    int parts;
    int64_t k_per_part;
    int64_t blocks;       /* tiles of all parts and problems */
    int64_t stream_tiles; /* the first so many tiles of clusters are shared evenly by all; 0: none */
    int64_t panels_m;     /* with rescue: of D, product.m x product.n each */
    int64_t panels_n;
    int64_t packed_b_at;
    struct planes_places planes;
    struct planes_places safe_planes;
    int64_t left_at;
    int64_t packed_bytes;  /* with the verdicts and what is spoiled */
    int64_t partial_bytes; /* bare sums, or what clusters hand to each other */
    double cycles;         /* of the whole, by the model and all that was measured */
    double foreseen;       /* the same by the model and the grids, on the device whose times they are, */
    double learned;        /* and by what whole ways took there */
    double memory_cycles;  /* what the bytes that it moves take longer here: see cycles_here() */
    double finish_cycles;  /* what bias and an activation take that times of plain products do not have */
    bool corrected;        /* by a table that knows the row */
    bool surveyed;         /* the table knows the row's times, by itself or of this very problem */
    bool timed;            /* this way itself, of this very problem */
};

/*
 * For each row that can compute the problem on a CUDA device the best way, cheapest first: what
 * plan_choose() has looked at. candidates has room for carat_catalog_count. Returns how many there are.
 */
int plan_candidates(const struct device_traits *traits, const struct problem *problem,
                    struct candidate *candidates);

/*
 * Shows every way to compute a problem that plan_choose() looks at on a CUDA device, to those who measure
 * them.
 */
typedef void plan_visitor(void *context, const struct candidate *candidate);
void plan_visit(const struct device_traits *traits, const struct problem *problem, plan_visitor *visitor,
                void *context);

/* The same of the ways of one row (NULL: of any), also where kernel_shares_nothing() and plan_choose() does not look at it. */
void plan_visit_row(const struct device_traits *traits, const struct problem *problem,
                    const struct kernel *row, plan_visitor *visitor, void *context);

/* The plan of a given way to compute the problem. */
carat_status plan_of_candidate(const struct device_traits *traits, const struct problem *problem,
                               const struct candidate *candidate, struct plan *plan);

/* The best way, and whether there is one. */
bool plan_best(const struct device_traits *traits, const struct problem *problem, struct candidate *best);

/* The way in which a row multiplies A and B where they lie, K in one part; false where it does not. */
bool plan_as_it_is(const struct device_traits *traits, const struct problem *problem,
                   const struct kernel *kernel, struct candidate *way);

/*
 * What a way does to A and B, a letter for each: '-' nothing, 'p' packs it, 't' packs it so that it runs along k,
 * 'h' packs it as f16, 'd' as f64, 's' splits it.
 */
void plan_marks(const struct problem *problem, const struct candidate *way, char marks[2]);

/* Finds the ways of one problem by the lines of a tuning table; what several of them share is looked up once. */
struct way_finder {
    const struct device_traits *traits;
    const struct problem *problem;
    const struct kernel *reduce;
    int count; /* of what was done to A and B so far; the oldest gives way */
    struct {
        char packs[2];
        bool possible;
        int planes;
        struct candidate treated;
        struct way_place place;
    } treatments[4];
};
void way_finder_begin(struct way_finder *finder, const struct device_traits *traits,
                      const struct problem *problem);

/* The way that a line measured; where it lies, or NULL where this build has no such way. */
const struct way_place *way_find(struct way_finder *finder, const struct tuning_line *line,
                                 struct candidate *way);

/*
 * The cycles that the model foresees for what a line of a tuning table measured, and the place of that on the
 * row's grids; false where the row does not do it on this device.
 */
bool plan_predict(const struct device_traits *traits, const struct tuning_line *line, double *cycles,
                  int *variant, struct tuning_point *point);

/*
 * Whether a row of OPERATION_GEMM or a rung of the ladder multiplies the problem's A and B on the device
 * as they are.
 */
bool kernel_multiplies(const struct kernel *kernel, const struct device_traits *traits,
                       const struct problem *problem);

/* Whether a row is for problems with a side that other rows' tiles would hardly use. */
bool kernel_is_narrow(const struct kernel *kernel);

/*
 * What k is counted by on a row's grids of measured times: its TILE_K; of rows for short k, 1; of thin ones, which small
 * products have too, no more than 128.
 */
int kernel_k_step(const struct kernel *kernel);

/* Of a row with persistent blocks, the clusters that the device holds at a time: among them tiles are shared. */
int64_t kernel_clusters(const struct kernel *kernel, const struct device_traits *traits);

/*
 * Where the clusters share tiles, what they hand to each other: first the flags, in so many bytes, then the sums,
 * TILE_M * TILE_N words of 4 bytes for each block.
 */
int64_t kernel_flag_bytes(const struct kernel *kernel, const struct device_traits *traits);

/* The most blocks that a split into three planes is launched with: as many as the device holds. */
int64_t split_blocks(const struct kernel *kernel, const struct device_traits *traits);

/* Slices of k, and blocks of an operand, that two planes are scaled by: see kernels/common/blocks.h. */
int64_t split_slices(int64_t k);
int64_t split_words(struct extent operand, int64_t k, bool along_k);

/* Multiply-adds a cycle and multiprocessor of the unit that a row's products run on. */
double kernel_unit_rate(const struct kernel *kernel);

/*
 * Whether the row itself stores the problem's D; else it stores bare sums, from which a reduce row goes
 * on.
 */
bool kernel_finishes(const struct kernel *kernel, const struct problem *problem);

#endif
