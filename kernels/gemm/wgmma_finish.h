/*
 * wgmma_finish.h - results of which more is asked than their sums, of images that know but that (FINISHES=1, see wgmma_plain.h):
 * a part of wgmma.cu.
 */
#ifndef CARAT_GEMM_WGMMA_FINISH_H
#define CARAT_GEMM_WGMMA_FINISH_H

#if PLAIN_BYTES == 4

/* From a tile's sums to its results, of as many bits, where they stand. */
static __device__ __forceinline__ void finish_sums(standing at, const gemm_arguments *gemm,
                                                   wgmma_sum sum[STORED_SUMS], uint32_t todo,
                                                   const float *shared_bias, int consumer)
{
    place here = {0, 0, 0}; /* C alone would be looked for there */
    if (todo == 0) {
        return;
    }
#if ELEMENT == ELEMENT_S8
    finish_integers(at, sum, gemm, here, todo, shared_bias, consumer);
#else
    finish_values(at, sum, gemm, here, todo & ~(ADDS_C | SCALES_RESULTS), shared_bias, consumer);
#endif
}

#else

/* What is added to a tile's sums: nothing, or bias along the instruction's rows or its columns. */
enum { BIAS_NOWHERE, BIAS_ALONG_ROWS, BIAS_ALONG_COLUMNS };

/*
 * Which of a thread's sums stand in a word, two that are next to each other in D: neighbours along the instruction's columns, or,
 * where its rows run along m in pairs, of one column those of a pair.
 */
#if !SWAPPED && ROWS_IN_PAIRS
#define LOW_OF_WORD(i) ((i) / 2 * 4 + (i) % 2)
#define HIGH_OF_WORD(i) (LOW_OF_WORD(i) + 2)
#else
#define LOW_OF_WORD(i) (2 * (i))
#define HIGH_OF_WORD(i) (2 * (i) + 1)
#endif

/* The bias of a sum, of so many that a thread has along its two rows, or along two columns next to each other. */
static __device__ __forceinline__ float bias_of(int sum, int bias, const float of_rows[2], float2 of_columns)
{
    if (bias == BIAS_ALONG_ROWS) {
        return of_rows[sum % 4 / 2];
    }
    return sum % 2 == 0 ? of_columns.x : of_columns.y;
}

/*
 * Two results in a word, from all of a tile's sums, which are multiplied by alpha. Whose bias they have and which activation are
 * constants: what rounds them goes beside what adds to the next ones, and is what makes relu() as well.
 */
static __device__ __forceinline__ void finish_pairs(standing at, const float value[STORED_SUMS],
                                                    uint32_t words[STORED_SUMS / 2], float alpha,
                                                    const float *shared_bias, int bias, int32_t activation)
{
    float of_rows[2] = {0, 0};
    if (bias == BIAS_ALONG_ROWS) {
        of_rows[0] = shared_bias[row_of(at, 0)];
        of_rows[1] = shared_bias[row_of(at, 2)];
    }
    float2 of_columns = {0, 0};
#pragma unroll
    for (int i = 0; i < STORED_SUMS / 2; ++i) {
        if (bias == BIAS_ALONG_COLUMNS && i % 2 == 0) {
            of_columns = *(const float2 *)&shared_bias[column_of(at, 2 * i)];
        }
        float low = value[LOW_OF_WORD(i)];
        float high = value[HIGH_OF_WORD(i)];
        if (bias != BIAS_NOWHERE) {
            low = fmaf(alpha, low, bias_of(LOW_OF_WORD(i), bias, of_rows, of_columns));
            high = fmaf(alpha, high, bias_of(HIGH_OF_WORD(i), bias, of_rows, of_columns));
        }
        words[i] = activation == ACTIVATION_RELU
                       ? pack_above_zero(low, high)
                       : pack_result(activate(low, activation), activate(high, activation), FINISHED_TYPE);
    }
}

/* From a tile's sums, which are lost, to its results: all of the epilogue, in as few instructions as there are. */
static __device__ __forceinline__ void finish_words(standing at, const gemm_arguments *gemm,
                                                    float value[STORED_SUMS], uint32_t words[STORED_SUMS / 2],
                                                    uint32_t todo, const float *shared_bias, int consumer)
{
#define FINISH(alpha, bias, activation) finish_pairs(at, value, words, alpha, shared_bias, bias, activation)
    int32_t activation = (int32_t)(todo >> ACTIVATION_SHIFT);
    float alpha = 1;
    if (todo & SCALES_SUMS) {
        alpha = epilogue_scalars_of(&gemm->epilogue, gemm->alpha, gemm->beta).alpha;
    }
    if (todo & ADDS_BIAS) {
        int along_rows = ((todo & BIAS_ALONG_N) != 0) == SWAPPED;
        meet(consumer); /* all have fetched it */
        if (activation == ACTIVATION_NONE && along_rows) {
            FINISH(alpha, BIAS_ALONG_ROWS, ACTIVATION_NONE);
            return;
        }
        if (activation == ACTIVATION_NONE) {
            FINISH(alpha, BIAS_ALONG_COLUMNS, ACTIVATION_NONE);
            return;
        }
        if (activation == ACTIVATION_RELU && along_rows) {
            FINISH(alpha, BIAS_ALONG_ROWS, ACTIVATION_RELU);
            return;
        }
        if (activation == ACTIVATION_RELU) {
            FINISH(alpha, BIAS_ALONG_COLUMNS, ACTIVATION_RELU);
            return;
        }
        add_bias(at, value, alpha, todo, shared_bias);
    } else if (todo & SCALES_SUMS) {
        scale(value, alpha);
    }
    switch (activation) {
    case ACTIVATION_RELU:
        FINISH(1, BIAS_NOWHERE, ACTIVATION_RELU);
        break;
    case ACTIVATION_GELU_TANH:
        FINISH(1, BIAS_NOWHERE, ACTIVATION_GELU_TANH);
        break;
    case ACTIVATION_GELU_ERF:
        FINISH(1, BIAS_NOWHERE, ACTIVATION_GELU_ERF);
        break;
    case ACTIVATION_SILU:
        FINISH(1, BIAS_NOWHERE, ACTIVATION_SILU);
        break;
    default:
        FINISH(1, BIAS_NOWHERE, ACTIVATION_NONE);
        break;
    }
#undef FINISH
}

#endif

#endif
