/*
 * widen.cu - copies A and B into workspace as f64, in one launch, so that the tensor unit for f64 can multiply narrower
 * floats in best accuracy: products of them are exact in f64.
 *
 *        from: columns ld apart           to: columns ld_to apart, columns_to of them, no gaps
 *      +--------------+                       +--------------+--+
 *      | f32, or less |                       |     f64      | 0|
 *      |              |          -->          |              |  |
 *      +--------------+                       +--------------+  |
 *                                             |0                |
 *                                             +-----------------+
 *
 * What is added is zero in both operands, so that the product may sum over it. `to` is one line of pairs, 16 bytes each
 * and aligned, for ld_to is a multiple of 128 bytes. A block writes a stretch of the line, a thread every THREADS_X-th
 * pair of it; so neighbours write neighbouring pairs, and read neighbouring elements, one at a time: those may begin
 * anywhere, and two loads for four times the bytes that are stored cost nothing. Memory limits it: of 12 bytes that an
 * f32 moves 8 are written.
 */
#include "kernel.h"

#include "epilogue.h"

#define PAIRS (64 / ELEMENT_BYTES / 2) /* of a thread: 64 bytes that are read */
#define AT_ONCE 8                      /* pairs whose loads a thread has under way */

static_assert(PAIRS % AT_ONCE == 0, "a thread takes its pairs so many at a time");
static_assert(CONVERTS == CONVERTS_F64, "all becomes f64");

/* Element number index of a matrix, of a type of ELEMENT_BYTES. */
static __device__ inline float load_element(const void *from, int64_t index, int32_t type)
{
#if ELEMENT_BYTES == 4
    return ((const float *)from)[index];
#elif ELEMENT_BYTES == 2
    uint16_t bits = ((const uint16_t *)from)[index];
    return type == ELEMENT_F16 ? f32_from_f16(bits) : f32_from_bf16(bits);
#else
    uint8_t bits = ((const uint8_t *)from)[index];
    /* e5m2 is the upper half of an f16. */
    return type == ELEMENT_E5M2 ? f32_from_f16((uint16_t)(bits << 8)) : f32_from_e4m3(bits);
#endif
}

/* Writes the pairs of one block, counted along the columns, then through the problems. */
static __device__ inline void widen_pairs(const pack_operand *operand, uint32_t block)
{
    uint32_t pairs = (uint32_t)(operand->ld_to / 2); /* of a column */
    int64_t columns = operand->columns_to * operand->problems;
    int64_t first = (int64_t)block * (THREADS_X * PAIRS);
    int64_t first_column = first / pairs;
    uint32_t within = (uint32_t)(first - first_column * pairs) + threadIdx.x;
    double2 *to = (double2 *)operand->to + first + threadIdx.x;
#pragma unroll 1
    for (int round = 0; round < PAIRS / AT_ONCE; ++round) {
        uint32_t begun = (uint32_t)(round * AT_ONCE);
        float elements[AT_ONCE][2];
        int inside[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            uint32_t at = within + (begun + u) * THREADS_X;
            uint32_t across = at / pairs;
            int64_t column = first_column + across;
            int64_t row = (int64_t)(at - across * pairs) * 2;
            int64_t problem = operand->problems == 1 ? 0 : column / operand->columns_to;
            int64_t j = column - problem * operand->columns_to;
            int64_t from = problem * operand->stride + j * operand->ld + row;
            int64_t left = column < columns && j < operand->columns ? operand->rows - row : 0;
            inside[u] = column < columns;
            elements[u][0] = left > 0 ? load_element(operand->from, from, operand->type) : 0;
            elements[u][1] = left > 1 ? load_element(operand->from, from + 1, operand->type) : 0;
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            if (inside[u]) {
                to[(begun + u) * THREADS_X] = make_double2(elements[u][0], elements[u][1]);
            }
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const pack_arguments arguments)
{
    wait_for_kernels_before();
    let_next_kernel_begin();
    /* The product will not look at what it need not multiply by 0. */
    if (alpha_is_zero(arguments.alpha, arguments.result_type)) {
        return;
    }
    int of_a = blockIdx.x < (uint32_t)arguments.blocks_a;
    widen_pairs(of_a ? &arguments.a : &arguments.b,
                of_a ? blockIdx.x : blockIdx.x - (uint32_t)arguments.blocks_a);
}
