/*
 * transpose.cu - B (n x m) = transpose of A (m x n), both column-major.
 *
 * A column of A is contiguous, and so is a column of B, which is a row of A. Memory is quick where both
 * are read and written in long runs, 16 bytes a thread. A tile of A goes through a block thus:
 *
 *     A, columns contiguous         registers               shared, lines of rows      B
 *      x = 0    1    2 ..           PACK x PACK             line i: TILE_N elements    one line is a run
 *     +----+----+----+              elements: column c  --> of row i, in packs     --> of one column of B
 *     |pack|pack|pack| column j     of the square         +----+----+----+
 *     +----+----+----+              becomes row c         |pack|pack|pack|
 *     |pack|pack|pack| column j+1   (turn_over)           +----+----+----+
 *
 * 1. Each thread loads squares of PACK columns x 16 bytes; consecutive threads take consecutive packs of
 *    a column, so a warp reads runs of PACKS_M * 16 bytes. All loads come before the first use.
 * 2. It turns each square over in registers, which makes packs of rows.
 * 3. It writes those to shared memory, pack y of row i at
 *        line i, place y ^ ((i / PACK) % 8)
 * 4. After the barrier consecutive threads take consecutive packs of a line and store runs of PACKS_N * 16
 *    bytes.
 *
 * Bank conflicts. A warp's 16-byte accesses are served 8 threads at a time; those 8 are free of
 * conflicts if their places modulo 8 differ (8 places of 16 bytes are the 32 banks; lines are multiples
 * of 128 bytes long).
 *     step 3: 8 threads have one y, and x, .., x + 7 with i / PACK = x: places y ^ (x % 8): all different
 *     step 4: 8 threads have one i, and y, .., y + 7: places y ^ constant: all different
 *
 * What limits it: memory alone. A block has TILE_M * TILE_N * ELEMENT_BYTES bytes on the way in, and a
 * multiprocessor several blocks, some that read while others write.
 */
#include "kernel.h"
#include "square.h"

#define SQUARES (PACKS_M * PACKS_N / THREADS_X) /* of a thread */

static_assert(SQUARES * THREADS_X == PACKS_M * PACKS_N, "each thread takes the same number of squares");
static_assert(PACKS_M % 8 == 0 && PACKS_N % 8 == 0, "lines of whole 128 bytes, in both matrices");
static_assert(TILE_M * TILE_N * ELEMENT_BYTES == SHARED_BYTES, "shared memory holds one tile");

static __device__ inline uint4 *staged_pack(uint4 *staged, int32_t i, int32_t y)
{
    return &staged[i * PACKS_N + (y ^ (i / PACK % 8))];
}

static __device__ inline void load_squares(const transpose_arguments *arguments, const tile *tile,
                                           pack squares[SQUARES][PACK])
{
    const uint4 *a = (const uint4 *)((const unit *)arguments->a + tile->row + tile->column * arguments->lda);
    int64_t lda = arguments->lda / PACK;
#pragma unroll
    for (int s = 0; s < SQUARES; s++) {
        int32_t x = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_M;
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_M;
        if (x * PACK < tile->rows && y * PACK < tile->columns) {
#pragma unroll
            for (int c = 0; c < PACK; c++) {
                squares[s][c] = load_pack(&a[x + (y * PACK + c) * lda]);
            }
        }
    }
}

static __device__ inline void stage_squares(pack squares[SQUARES][PACK], uint4 *staged)
{
#pragma unroll
    for (int s = 0; s < SQUARES; s++) {
        int32_t x = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_M;
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_M;
        turn_over(squares[s]);
#pragma unroll
        for (int r = 0; r < PACK; r++) {
            store_pack(staged_pack(staged, x * PACK + r, y), squares[s][r]);
        }
    }
}

static __device__ inline void store_lines(const transpose_arguments *arguments, const tile *tile,
                                          uint4 *staged)
{
    uint4 *b = (uint4 *)((unit *)arguments->b + tile->column + tile->row * arguments->ldb);
    int64_t ldb = arguments->ldb / PACK;
    uint4 packs[SQUARES * PACK];
#pragma unroll
    for (int s = 0; s < SQUARES * PACK; s++) {
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_N;
        int32_t i = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_N;
        if (i < tile->rows && y * PACK < tile->columns) {
            packs[s] = *staged_pack(staged, i, y);
        }
    }
#pragma unroll
    for (int s = 0; s < SQUARES * PACK; s++) {
        int32_t y = ((int32_t)threadIdx.x + s * THREADS_X) % PACKS_N;
        int32_t i = ((int32_t)threadIdx.x + s * THREADS_X) / PACKS_N;
        if (i < tile->rows && y * PACK < tile->columns) {
            b[y + i * ldb] = packs[s];
        }
    }
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(transpose_arguments arguments)
{
    DYNAMIC_SHARED(uint4, staged);
    tile tile = tile_of_block(&arguments);
    if (is_aligned(&arguments, &tile)) {
        pack squares[SQUARES][PACK];
        load_squares(&arguments, &tile, squares);
        stage_squares(squares, staged);
        __syncthreads();
        store_lines(&arguments, &tile, staged);
    } else {
        load_elements(&arguments, &tile, (unsigned char *)staged);
        __syncthreads();
        store_elements(&arguments, &tile, (unsigned char *)staged);
    }
}
