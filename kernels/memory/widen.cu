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
 * What is added is zero in both operands, so that the product may sum over it. The units of the line that is written
 * (line.h) are pairs, aligned to their 16 bytes, for ld_to is a multiple of 128 bytes. Elements are read one at a time:
 * they may begin anywhere, and two loads cost nothing beside the store of their pair, of two to eight times the bytes.
 * Memory limits it: of 12 bytes that an f32 moves 8 are written.
 */
#include "kernel.h"

#include "epilogue.h"
#include "line.h"

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

/* Writes the pairs of a block. */
static __device__ inline void widen_pairs(operand_share share)
{
    const pack_operand *operand = share.operand;
    stretch stretch = stretch_of_share(share, 2, PAIRS);
    double2 *to = (double2 *)operand->to + stretch.first + threadIdx.x;
#pragma unroll 1
    for (int round = 0; round < PAIRS / AT_ONCE; ++round) {
        uint32_t begun = (uint32_t)(round * AT_ONCE);
        float elements[AT_ONCE][2];
        int inside[AT_ONCE];
#pragma unroll
        for (int u = 0; u < AT_ONCE; ++u) {
            unit_source pair = source_of_unit(operand, &stretch, begun + u, 2);
            inside[u] = pair.inside;
            elements[u][0] = pair.left > 0 ? load_element(operand->from, pair.from, operand->type) : 0;
            elements[u][1] = pair.left > 1 ? load_element(operand->from, pair.from + 1, operand->type) : 0;
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
    widen_pairs(operand_share_of_block(&arguments));
}
