/*
 * dial_model.h - what the settings of accuracy compute for f32, bit by bit, on the CPU: the split into parts,
 * the guard, and the sums of a tensor core, which truncate.
 *
 * A is m x k and B k x n, column-major and packed, as everywhere.
 */
#ifndef CARAT_TESTS_DIAL_MODEL_H
#define CARAT_TESTS_DIAL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Multiply-adds of one instruction of the tensor core. */
enum { UNIT_K = 16 };

/* f32 sums that a product may have. */
enum { MOST_CHAINS = 8 };

/*
 * How a tensor core adds. The products (exact) and the accumulator are shifted to the largest exponent among them,
 * cut to 24 + extra_bits bits, added exactly, and the sum is cut to f32.
 */
struct tensor_unit {
    int extra_bits;
    int at_once;          /* products that it adds at once, 8 or 16 */
    bool products_normal; /* a product of 2 or more counts with its own exponent, not its factors' sum */
};

/* In which order the products of parts go into the accumulator. */
enum part_order {
    ORDER_BY_STEP, /* all products of parts of UNIT_K of k, then those of the next */
    ORDER_BY_MOVE  /* the smallest products of all of a move's k, then the next larger ones */
};

struct dial {
    struct tensor_unit unit;
    int move; /* after so many k the accumulator is added to an f32 sum and cleared; 0: never */
    enum part_order order;
    int chains; /* up to MOST_CHAINS: f32 sums to which the accumulators go in turn, and which are added in the end */
    int least_k;     /* shorter products are strict */
    int far_apart_k; /* so are shorter ones with exponents that are far apart */
    int long_k;      /* from here on the f32 sums are compensated */
    int pairs_k;     /* of close: from here on the accumulator is added after two moves' k; 0: never */
    /* What is refused is summed in f32: from some k on by so many at a time, whose sums are compensated. */
    int rescue_moves_k;
    int rescue_move;
};

/* One instruction: the accumulator plus the sum of x[i] y[i]; x and y hold numbers of 11 bits or fewer. */
float tensor_step(const struct tensor_unit *unit, float accumulator, const float x[UNIT_K],
                  const float y[UNIT_K]);

/* The nearest bf16, ties to even; the one below in magnitude where that overflows. */
float round_to_bf16(float x);

/* x = parts[0] + parts[1] + parts[2], exactly where |x| >= 2^-100. */
void split_bf16(float x, float parts[3]);

/* The nearest f16, ties to even, for |x| below 65520. */
float round_to_f16(float x);

/* x is parts[0] + parts[1] to 22 bits from 2^-2 on, and to half of 2^-24 below; |x| is below 65520. */
void split_f16(float x, float parts[2]);

/* Whether `standard` computes this whole product from f32. */
bool standard_is_guarded(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a,
                         const float *b);

/*
 * Whether `close` takes the safe path for the tile of D at (row, column), of BLOCK_SIDE rows and columns or what there
 * is of them.
 */
enum { BLOCK_SIDE = 64 };
bool close_is_guarded(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a,
                      const float *b, int64_t row, int64_t column);

/*
 * Products of the whole matrices. An entry of `standard` that is not finite is computed from f32, as all are where it is
 * refused.
 */
void model_strict(int64_t m, int64_t n, int64_t k, int64_t block, const float *a, const float *b, float *c);
void model_rescue(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                  float *c);
void model_standard(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                    float *c);

/* The same of `close`: tiles that are guarded are computed as `standard` does, whose dial is `safe`. */
void model_close(const struct dial *dial, const struct dial *safe, int64_t m, int64_t n, int64_t k,
                 const float *a, const float *b, float *c);

/* Errors |c - ref| / (|A||B|) over all entries, where |A||B| is not 0. */
struct model_errors {
    double most;
    double mean;
    int64_t different; /* entries that are not the reference's rounding, in any way */
};
struct model_errors model_compare(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                  const float *c);

#endif
