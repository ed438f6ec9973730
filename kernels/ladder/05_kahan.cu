/*
 * 05_kahan.cu - rung 5: the tiled kernel with compensated summation, after Kahan.
 *
 * A float sum of k products loses up to half a place each time it is rounded, so its error grows with k. Here
 * what every rounding drops is computed exactly and summed beside:
 *
 *      a * b        =  product + e1        e1 = fma(a, b, -product)
 *      sum + product = next    + e2        e2 from four more subtractions and additions (Knuth)
 *      error        += e1 + e2
 *
 * sum + error is then the sum as if taken with twice the digits, and rounded once: half a unit in the last
 * place of the result, and k * 66 * 2^-48 of |A| |B| from the rounding of `error`, which stays small because
 * it is folded back into the sum after every tile. For every k below 250000 that is less than one unit in the
 * last place of |A| |B|. Kahan's own four-operation step would round each product, and be right to
 * one and a half such units.
 *
 * Infinities and NaN end in sum as they do in any sum; error is then NaN and is left out.
 *
 * Tiles as in rung 4. Needs: no reassociation of sums (nvcc does none), and products that are not
 * contracted into the addition after them (__fmul_rn). Limited by arithmetic: 10 instructions a product.
 */
#include "kernel.h"
#include "store.h"
#include "tiles.h"

#include "square_tile.h"

static_assert(ELEMENT == ELEMENT_F32, "the error terms are written for float");

/* The sum is sum + error, error being below the last place of sum. */
typedef struct long_sum {
    float sum;
    float error;
} long_sum;

/* What rounding x + y to sum has dropped, exactly. */
static __device__ inline float dropped(float x, float y, float sum)
{
    float y_in_sum = sum - x;
    float x_in_sum = sum - y_in_sum;
    return (x - x_in_sum) + (y - y_in_sum);
}

/* to + a * b. */
static __device__ inline long_sum add_product(long_sum to, float a, float b)
{
    float product = __fmul_rn(a, b);
    long_sum next;
    next.sum = to.sum + product;
    next.error = to.error + (fmaf(a, b, -product) + dropped(to.sum, product, next.sum));
    return next;
}

/* The same sum, with as much of it in sum as fits there. */
static __device__ inline long_sum fold(long_sum x)
{
    long_sum folded;
    folded.sum = x.sum + x.error;
    folded.error = dropped(x.sum, x.error, folded.sum);
    return isnan(x.error) ? x : folded;
}

KERNEL __launch_bounds__(THREADS_X *THREADS_Y) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ float tile_a[TILE][TILE];
    __shared__ __align__(16) float tile_b[TILE][TILE];

    block_share share = share_of_block(&arguments, 1);
    int x = (int)threadIdx.x;
    int y = (int)threadIdx.y;
    int64_t i = share.row + x;
    int64_t j = share.column + y;

    float alpha = scalar_value(arguments.alpha);
    int64_t depth = alpha == 0 ? 0 : arguments.k;
    const float *a = (const float *)arguments.a;
    const float *b = (const float *)arguments.b;
    long_sum total = {0, 0};
    for (int64_t k = 0; k < depth; k += TILE) {
        tile_a[y][x] = element_or_zero(a, arguments.lda, i, k + y, arguments.m, depth);
        tile_b[y][x] = element_or_zero(b, arguments.ldb, k + x, j, depth, arguments.n);
        __syncthreads();
#pragma unroll
        for (int step = 0; step < TILE; ++step) {
            total = add_product(total, tile_a[step][x], tile_b[y][step]);
        }
        total = fold(total);
        __syncthreads();
    }
    if (i < arguments.m && j < arguments.n) {
        store_result(&arguments, 0, i, j, total.sum, alpha, scalar_value(arguments.beta));
    }
}
