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

/* The tile of a block: its first row and column in A, and how far it reaches. */
typedef struct tile {
    int64_t row;
    int64_t column;
    int32_t rows; /* at most TILE_M */
    int32_t columns;
} tile;

/*
 * Tiles are walked in bands of BAND tiles of m high, down a band's first column of tiles, then its
 * second. What runs at once is then about square: long runs of columns in both matrices.
 */
static __device__ inline tile tile_of_block(const transpose_arguments *arguments)
{
    /* A grid has fewer than 2^31 blocks, so that 32 bits do, whose divisions are quicker. */
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    uint32_t tiles_n = (uint32_t)arguments->tiles_n;
    uint32_t band = BAND < tiles_m ? BAND : tiles_m;
    uint32_t first = blockIdx.x / (band * tiles_n) * band;
    uint32_t height = tiles_m - first < band ? tiles_m - first : band;
    uint32_t within = blockIdx.x - first * tiles_n;

    tile tile;
    tile.row = (int64_t)(first + within % height) * TILE_M;
    tile.column = (int64_t)(within / height) * TILE_N;
    int64_t rows = arguments->m - tile.row;
    int64_t columns = arguments->n - tile.column;
    tile.rows = (int32_t)(rows < TILE_M ? rows : TILE_M);
    tile.columns = (int32_t)(columns < TILE_N ? columns : TILE_N);
    return tile;
}

/* Whether the tile is made of whole squares at 16-byte boundaries of both matrices. */
static __device__ inline int is_aligned(const transpose_arguments *arguments, const tile *tile)
{
    return (uintptr_t)arguments->a % 16 == 0 && (uintptr_t)arguments->b % 16 == 0 &&
           arguments->lda % PACK == 0 && arguments->ldb % PACK == 0 && tile->rows % PACK == 0 &&
           tile->columns % PACK == 0;
}

/*
 * Any tile, element by element, by way of shared memory. Element (i, j) lies in line j, which is at least
 * 128 bytes long, and in it in the word i * ELEMENT_BYTES / 4 with its number's lower bits turned by j
 * (exclusive or). Banks are words modulo 32, so
 *
 *     writing: a warp has one j and consecutive i: consecutive words, in another order: no conflict
 *     reading: a warp has one i and 32 consecutive j: 32 different words: no conflict
 *
 * and likewise for 8-byte elements, of which the 16 threads of half a warp are served at a time.
 */
#define WIDE (ELEMENT_BYTES < 4 ? 4 : ELEMENT_BYTES)
#define SPAN_M (THREADS_X < TILE_M ? THREADS_X : TILE_M) /* rows that the block loads at a time */
#define SPAN_N (THREADS_X < TILE_N ? THREADS_X : TILE_N) /* columns that it stores at a time */
#define STEP_N (THREADS_X / SPAN_M)                      /* columns that it loads at a time */
#define STEP_M (THREADS_X / SPAN_N)                      /* rows that it stores at a time */

/* Loads that a thread has on the way: more of the narrow ones. */
#define MOST_AT_ONCE (ELEMENT_BYTES < 4 ? 16 : 8)
#define AT_ONCE (TILE_N / STEP_N < MOST_AT_ONCE ? TILE_N / STEP_N : MOST_AT_ONCE)

static_assert(TILE_M * ELEMENT_BYTES % 128 == 0, "lines of whole 128 bytes");
static_assert(THREADS_X % SPAN_M == 0 && THREADS_X % SPAN_N == 0, "the threads stand in a rectangle");

static __device__ inline unit *staged_element(unsigned char *staged, int32_t i, int32_t j)
{
    return (unit *)(staged + j * TILE_M * ELEMENT_BYTES + ((i * ELEMENT_BYTES) ^ (j % (128 / WIDE) * WIDE)));
}

/* Loads the tile's row i, a column every STEP_N. */
static __device__ inline void load_row(const transpose_arguments *arguments, const tile *tile, int32_t i,
                                       unsigned char *staged)
{
    for (int32_t first = (int32_t)threadIdx.x / SPAN_M; first < tile->columns; first += AT_ONCE * STEP_N) {
        const unit *a = (const unit *)arguments->a + tile->row + i + (tile->column + first) * arguments->lda;
        unit elements[AT_ONCE];
#pragma unroll
        for (int32_t u = 0; u < AT_ONCE; u++) {
            if (first + u * STEP_N < tile->columns) {
                elements[u] = *a;
            }
            a += STEP_N * arguments->lda;
        }
#pragma unroll
        for (int32_t u = 0; u < AT_ONCE; u++) {
            if (first + u * STEP_N < tile->columns) {
                *staged_element(staged, i, first + u * STEP_N) = elements[u];
            }
        }
    }
}

static __device__ inline void load_elements(const transpose_arguments *arguments, const tile *tile,
                                            unsigned char *staged)
{
    for (int32_t i = (int32_t)threadIdx.x % SPAN_M; i < tile->rows; i += SPAN_M) {
        load_row(arguments, tile, i, staged);
    }
}

static __device__ inline void store_elements(const transpose_arguments *arguments, const tile *tile,
                                             unsigned char *staged)
{
    unit *b = (unit *)arguments->b + tile->column + tile->row * arguments->ldb;
    for (int32_t j = (int32_t)threadIdx.x % SPAN_N; j < tile->columns; j += SPAN_N) {
#pragma unroll 4
        for (int32_t i = (int32_t)threadIdx.x / SPAN_N; i < tile->rows; i += STEP_M) {
            b[j + i * arguments->ldb] = *staged_element(staged, i, j);
        }
    }
}

/* ---- Tiles of whole squares ---- */

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
