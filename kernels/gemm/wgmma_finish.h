/*
 * wgmma_finish.h - results of which more is asked than their sums, of images that know but that (FINISHES=1, see wgmma_plain.h):
 * a part of wgmma.cu.
 */
#ifndef CARAT_GEMM_WGMMA_FINISH_H
#define CARAT_GEMM_WGMMA_FINISH_H

/* What is added to a tile's sums: nothing, or bias along the instruction's rows or its columns. */
enum { BIAS_NOWHERE, BIAS_ALONG_ROWS, BIAS_ALONG_COLUMNS };

/*
 * Two results in a word, from all of a tile's sums, which are multiplied by alpha. Whose bias they have and which activation are
 * constants: what rounds them goes beside what adds to the next ones, and is what makes relu() as well.
 */
static __device__ __forceinline__ void finish_pairs(standing at, const float value[WGMMA_SUMS],
                                                    uint32_t words[WGMMA_SUMS / 2], float alpha,
                                                    const float *shared_bias, int bias, int32_t activation)
{
    float of_row[2] = {0, 0};
    if (bias == BIAS_ALONG_ROWS) {
        of_row[0] = shared_bias[row_of(at, 0)];
        of_row[1] = shared_bias[row_of(at, 2)];
    }
    float2 of_columns = {0, 0};
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS / 2; ++i) {
        if (bias == BIAS_ALONG_COLUMNS && i % 2 == 0) {
            of_columns = *(const float2 *)&shared_bias[column_of(at, 2 * i)];
        }
        float low = value[2 * i];
        float high = value[2 * i + 1];
        if (bias != BIAS_NOWHERE) {
            low = fmaf(alpha, low, bias == BIAS_ALONG_ROWS ? of_row[i % 2] : of_columns.x);
            high = fmaf(alpha, high, bias == BIAS_ALONG_ROWS ? of_row[i % 2] : of_columns.y);
        }
        words[i] = activation == ACTIVATION_RELU
                       ? pack_above_zero(low, high)
                       : pack_result(activate(low, activation), activate(high, activation), FINISHED_TYPE);
    }
}

/* From a tile's sums, which are lost, to its results: all of the epilogue, in as few instructions as there are. */
static __device__ __forceinline__ void finish_words(standing at, const gemm_arguments *gemm,
                                                    float value[WGMMA_SUMS], uint32_t words[WGMMA_SUMS / 2],
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
