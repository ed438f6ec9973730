/*
 * column.h - a lane's sums on their way to D.
 *
 * The tensor instructions leave a lane with pairs of neighbours along their own columns. Rungs 10 to 13 let
 * those run along m. Then a lane's pairs of one column of D are 8 rows apart, and two 16-bit results make one
 * store:
 *
 *      lane           0  0  1  1  2  2  3  3  0  0  1  1  2  2  3  3  0  0 ...
 *      column of D   |00 01|02 03|04 05|06 07|08 09|10 11|12 13|14 15|16 17|
 */
#ifndef CARAT_LADDER_COLUMN_H
#define CARAT_LADDER_COLUMN_H

static_assert(sizeof(result) == 2, "two results are a word");

/* Where sums go, and what becomes of them on the way. */
typedef struct destination {
    const gemm_arguments *arguments;
    float alpha;
    float beta;
    int words; /* whether D is written in whole words, without looking at C */
} destination;

static __device__ inline destination destination_of(const gemm_arguments *arguments)
{
    destination to;
    to.arguments = arguments;
    to.alpha = scalar_value(arguments->alpha);
    to.beta = scalar_value(arguments->beta);
    to.words =
        to.beta == 0 && (uintptr_t)arguments->d % 4 == 0 && arguments->ldd % 2 == 0 && arguments->m % 2 == 0;
    return to;
}

/*
 * Stores a lane's part of column j: pair p, sum[4 * p] and sum[4 * p + 1], is of rows i + 8 * p and the
 * next.
 */
static __device__ inline void store_column(const destination *to, int64_t i, int64_t j, const float *sum,
                                           int pairs)
{
    const gemm_arguments *arguments = to->arguments;
    int64_t rows = j < arguments->n ? arguments->m - i : 0;
    if (to->words) {
        uint32_t *words = (uint32_t *)((result *)arguments->d + i + j * arguments->ldd);
#pragma unroll
        for (int p = 0; p < pairs; ++p) {
            if (8 * p < rows) {
                uint32_t low = narrow(to->alpha * sum[4 * p]);
                words[4 * p] = low | (uint32_t)narrow(to->alpha * sum[4 * p + 1]) << 16;
            }
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < 2 * pairs; ++e) {
        int row = e / 2 * 8 + e % 2;
        if (row < rows) {
            store_result(arguments, 0, i + row, j, sum[e / 2 * 4 + e % 2], to->alpha, to->beta);
        }
    }
}

#endif
