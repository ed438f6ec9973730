/*
 * pack.cu - copies A, B or both into workspace as a product's kernel wants them, in one launch: every column at
 * 128 bytes, op(A) and op(B) along k where only that will do, 8-bit floats as f16.
 *
 * A product reads each element once for every tile across, and the copy engine only where columns begin
 * at 16 bytes; this reads each element once in all, however the columns lie, and writes it once.
 *
 *        from: columns ld apart           to, straight: columns ld_to apart, columns_to of them, no gaps
 *      +--------------+                       +--------------+--+
 *      |              |                       |              | 0|
 *      |              |          -->          |              |  |
 *      +--------------+                       +--------------+  |
 *                                             |0                |   to, turned: the transpose of that
 *                                             +-----------------+
 *
 * What is added is zero in both operands, so that the product may sum over it. All of ld_to is written, and ld_to
 * is a multiple of 128 bytes: so there are only whole packs of 16 bytes to write, at aligned addresses. A source
 * column may begin anywhere, see pieces.h.
 *
 * Straight: packs are the units of the line that is written (line.h), a block's THREADS_X * AT_ONCE of them, each thread
 * its loads before its stores. Turned: a block takes a tile of TILE_M x TILE_N through registers and shared memory, as
 * transpose.cu does. Memory limits both.
 */
#include "kernel.h"

#include "epilogue.h"
#include "line.h"
#include "pieces.h"
#include "square.h"

#define AT_ONCE 4 /* packs whose loads a thread has under way */

/* Two bytes come of one where 8-bit floats become f16. */
#ifdef CONVERTS
#define WIDER 2
#else
#define WIDER 1
#endif

static __device__ inline source source_of(const pack_operand *operand)
{
    int64_t last = (operand->problems - 1) * operand->stride + (operand->columns - 1) * operand->ld;
    source source;
    source.begin = (const unsigned char *)operand->from;
    source.end = source.begin + (last + operand->rows) * ELEMENT_BYTES;
    return source;
}

#ifdef CONVERTS

/* Two 8-bit floats, the lower halves' bytes of `bits`, as f16: exact. */
static __device__ inline uint32_t widen_pair(uint32_t bits, int32_t type)
{
    if (type == ELEMENT_E5M2) {
        return (bits & 0xffu) << 8 | (bits & 0xff00u) << 16; /* the upper half of an f16 */
    }
#if __CUDA_ARCH__ >= 890
    return f16x2_from_e4m3x2((uint16_t)bits);
#else
    return pack_f16(f32_from_e4m3((uint8_t)bits), f32_from_e4m3((uint8_t)(bits >> 8)));
#endif
}

static __device__ inline void store_packs(uint4 *to, const pack *pack, int32_t type)
{
    const uint32_t *word = pack->word;
    to[0] = make_uint4(widen_pair(word[0], type), widen_pair(word[0] >> 16, type), widen_pair(word[1], type),
                       widen_pair(word[1] >> 16, type));
    to[1] = make_uint4(widen_pair(word[2], type), widen_pair(word[2] >> 16, type), widen_pair(word[3], type),
                       widen_pair(word[3] >> 16, type));
}

#else

static __device__ inline void store_packs(uint4 *to, const pack *pack, int32_t type)
{
    (void)type;
    store_pack(to, *pack);
}

#endif

/* Writes the packs of a block. */
static __device__ inline void pack_straight(operand_share share)
{
    const pack_operand *operand = share.operand;
    source source = source_of(operand);
    stretch stretch = stretch_of_share(share, PACK, AT_ONCE);
    uint4 *to = (uint4 *)operand->to + (stretch.first + threadIdx.x) * WIDER;
    int32_t inside[AT_ONCE];
    pieces pieces[AT_ONCE];
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
        unit_source pack = source_of_unit(operand, &stretch, u, PACK);
        inside[u] = pack.inside;
        pieces[u] = read_pieces(&source, source.begin + pack.from * ELEMENT_BYTES, pack.left * ELEMENT_BYTES);
    }
#pragma unroll
    for (int u = 0; u < AT_ONCE; ++u) {
        if (inside[u]) {
            pack joined = join_pieces(&pieces[u], 0);
            store_packs(&to[u * THREADS_X * WIDER], &joined, operand->type);
        }
    }
}

#ifndef CONVERTS

#define SQUARES (PACKS_M * PACKS_N / THREADS_X) /* of a thread */
#define COLUMNS_AT_ONCE (PACK < AT_ONCE ? PACK : AT_ONCE)

static_assert(SQUARES * THREADS_X == PACKS_M * PACKS_N, "each thread takes the same number of squares");
static_assert(PACKS_M % 8 == 0 && PACKS_N % 8 == 0, "lines of whole 128 bytes, in both matrices");
static_assert(TILE_M * TILE_N * ELEMENT_BYTES == SHARED_BYTES, "shared memory holds one tile");

/* Reads a square whose first element is (row, column) of a matrix that begins at `at`, and turns it over. */
static __device__ inline void read_square(const pack_operand *operand, const source *source,
                                          const unsigned char *at, int64_t row, int64_t column,
                                          pack square[PACK])
{
#pragma unroll
    for (int first = 0; first < PACK; first += COLUMNS_AT_ONCE) {
        pieces pieces[COLUMNS_AT_ONCE];
#pragma unroll
        for (int c = 0; c < COLUMNS_AT_ONCE; ++c) {
            int64_t j = column + first + c;
            int64_t left = j < operand->columns ? operand->rows - row : 0;
            pieces[c] =
                read_pieces(source, at + (row + j * operand->ld) * ELEMENT_BYTES, left * ELEMENT_BYTES);
        }
#pragma unroll
        for (int c = 0; c < COLUMNS_AT_ONCE; ++c) {
            square[first + c] = join_pieces(&pieces[c], 0);
        }
    }
    turn_over(square);
}

/* Moves one tile, counted down the rows of `from`, then along its columns, then through the problems. */
static __device__ inline void pack_turned(operand_share share, uint4 *staged)
{
    const pack_operand *operand = share.operand;
    source source = source_of(operand);
    uint32_t tiles = (uint32_t)operand->tiles_m * (uint32_t)operand->tiles_n;
    int64_t problem = share.block / tiles;
    int64_t row = (int64_t)(share.block % tiles % (uint32_t)operand->tiles_m) * TILE_M;
    int64_t column = (int64_t)(share.block % tiles / (uint32_t)operand->tiles_m) * TILE_N;
    const unsigned char *at = source.begin + problem * operand->stride * ELEMENT_BYTES;
#pragma unroll
    for (int s = 0; s < SQUARES; ++s) {
        int32_t x = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_M;
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_M;
        pack square[PACK];
        read_square(operand, &source, at, row + x * PACK, column + y * PACK, square);
#pragma unroll
        for (int r = 0; r < PACK; ++r) {
            store_pack(staged_pack(staged, x * PACK + r, y), square[r]);
        }
    }
    __syncthreads();
    uint4 *to = (uint4 *)operand->to + problem * (operand->ld_to / PACK) * operand->columns_to;
#pragma unroll
    for (int s = 0; s < SQUARES * PACK; ++s) {
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_N;
        int32_t i = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_N;
        if (row + i < operand->columns_to && column + y * PACK < operand->ld_to) {
            to[column / PACK + y + (row + i) * (operand->ld_to / PACK)] = *staged_pack(staged, i, y);
        }
    }
}

#endif

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const pack_arguments arguments)
{
    wait_for_kernels_before();
    let_next_kernel_begin();
    /* The product will not look at what it need not multiply by 0. */
    if (alpha_is_zero(arguments.alpha, arguments.result_type)) {
        return;
    }
    operand_share share = operand_share_of_block(&arguments);
#ifdef CONVERTS
    pack_straight(share);
#else
    DYNAMIC_SHARED(uint4, staged);
    if (share.operand->turned) {
        pack_turned(share, staged);
    } else {
        pack_straight(share);
    }
#endif
}
