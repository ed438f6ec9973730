/*
 * scale_add.cu - B = scale * A + shift, one fused multiply-add an element.
 *
 * Nothing here can be slower than memory: a multiprocessor must take in and give out about 10 bytes
 * a clock, and has hundreds of instruction slots for that. All that counts is to keep enough bytes on
 * the way. Little's law says how many: 4.3 TB/s times about 0.8 microseconds of latency under load is
 * 3.4 MB, 26 KB a multiprocessor, half of them reads. A thread therefore asks for UNROLL packs of 16
 * bytes before it waits for the first of them:
 *
 *     A  |pack|pack| ... |pack|   THREADS_X packs, one a thread: a warp reads 512 bytes in a row
 *        |pack|pack| ... |pack|   the next THREADS_X packs, asked for at once
 *         ...                     UNROLL of these are a tile, a block's work
 *
 * A matrix without gaps is one long column, and is cut like that. Else the threads of a block stand as a
 * rectangle 2^shift high, as high as the matrix if that is less than THREADS_X, and go UNROLL steps to
 * the right: so at most half of the threads are idle, whatever the shape, and a row vector is read by
 * all of them.
 *
 *     m >= THREADS_X       m = 3, shift = 2               m = 1, shift = 0
 *      0  0' 0" ..          0 4 ..  0' 4' ..               0 1 2 3 .. 0' 1' 2' 3' ..
 *      1  1' 1"             1 5     1' 5'
 *      2  2' 2"             2 6     2' 6'                  (0' is thread 0's second step)
 *      ..                  (3 7: idle)
 *
 * Rows of a column before the first 16-byte boundary (the head) and after the last one (the tail)
 * go element by element, and so does the whole matrix where A and B or their columns are not aligned
 * alike. b may be a: each element is read before it is written, and by the thread that writes it.
 */
#include "kernel.h"

#define PACK ((int)(16 / sizeof(element))) /* elements in 16 bytes */
#define UNROLL (TILE_M / (THREADS_X * PACK))
#define SLOTS (THREADS_X * UNROLL) /* units of a tile */

static_assert(UNROLL * THREADS_X * PACK == TILE_M, "a tile is a whole number of packs a thread");
static_assert((THREADS_X & (THREADS_X - 1)) == 0, "threads stand in rectangles 2^shift high");

typedef struct pack {
    element part[PACK];
} __attribute__((aligned(16))) pack;

static __device__ inline pack scale_pack(pack elements, accumulator scale, accumulator shift)
{
    pack scaled;
#pragma unroll
    for (int e = 0; e < PACK; e++) {
        scaled.part[e] = narrow(multiply_add(scale, widen(elements.part[e]), shift));
    }
    return scaled;
}

/* How tiles lie over a matrix of height x n units, a unit being a pack or an element. */
typedef struct tiling {
    int64_t height;
    int64_t n;
    int64_t tiles_m;
    int64_t tiles;
    int32_t shift;     /* the threads stand 2^shift high */
    int32_t step_rows; /* from a thread's unit to its next one */
    int32_t step_columns;
} tiling;

/* A thread's units of a tile: the first one, and how many steps there are from it to the edge. */
typedef struct thread_run {
    int64_t row;
    int64_t column;
    int32_t left; /* a unit u steps on is inside if u * step < left */
} thread_run;

static __device__ inline tiling tile_matrix(int64_t height, int64_t n)
{
    tiling tiling;
    tiling.height = height;
    tiling.n = n;
    tiling.shift = 0;
    if (n == 1) {
        tiling.step_rows = THREADS_X;
        tiling.step_columns = 0;
        tiling.tiles_m = (height + SLOTS - 1) / SLOTS;
        tiling.tiles = tiling.tiles_m;
        return tiling;
    }
    while ((1 << tiling.shift) < THREADS_X && (1 << tiling.shift) < height) {
        tiling.shift++;
    }
    tiling.step_rows = 0;
    tiling.step_columns = THREADS_X >> tiling.shift;
    int64_t columns_a_tile = tiling.step_columns * UNROLL;
    tiling.tiles_m = (height + (1 << tiling.shift) - 1) >> tiling.shift;
    tiling.tiles = tiling.tiles_m * ((n + columns_a_tile - 1) / columns_a_tile);
    return tiling;
}

static __device__ inline thread_run run_of_thread(const tiling *tiling, int64_t tile)
{
    int32_t thread = (int32_t)threadIdx.x;
    thread_run run;
    int64_t left;
    if (tiling->n == 1) {
        run.row = tile * SLOTS + thread;
        run.column = 0;
        left = tiling->height - run.row;
    } else {
        int64_t tile_column = tile / tiling->tiles_m;
        int64_t tile_row = tile % tiling->tiles_m;
        run.row = (tile_row << tiling->shift) + (thread & ((1 << tiling->shift) - 1));
        run.column = tile_column * UNROLL * tiling->step_columns + (thread >> tiling->shift);
        left = run.row < tiling->height ? tiling->n - run.column : 0;
    }
    run.left = (int32_t)(left < SLOTS ? left : SLOTS);
    return run;
}

/* height packs of each column, from the first row that a and b point to. */
static __device__ inline void scale_packs(const element *a, element *b, int64_t height,
                                          const scale_add_arguments *arguments, accumulator scale,
                                          accumulator shift)
{
    int64_t lda = arguments->lda / PACK;
    int64_t ldb = arguments->ldb / PACK;
    tiling tiling = tile_matrix(height, arguments->n);
    int32_t step = tiling.step_rows + tiling.step_columns; /* one of them is 0 */
    int64_t step_a = tiling.step_rows + tiling.step_columns * lda;
    int64_t step_b = tiling.step_rows + tiling.step_columns * ldb;
    for (int64_t tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
        thread_run run = run_of_thread(&tiling, tile);
        const pack *from = (const pack *)a + run.row + run.column * lda;
        pack *to = (pack *)b + run.row + run.column * ldb;
        pack packs[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (u * step < run.left) {
                packs[u] = from[u * step_a];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (u * step < run.left) {
                to[u * step_b] = scale_pack(packs[u], scale, shift);
            }
        }
    }
}

/* height elements of each column, from the first row that a and b point to. */
static __device__ inline void scale_elements(const element *a, element *b, int64_t height,
                                             const scale_add_arguments *arguments, accumulator scale,
                                             accumulator shift)
{
    int64_t lda = arguments->lda;
    int64_t ldb = arguments->ldb;
    tiling tiling = tile_matrix(height, arguments->n);
    int32_t step = tiling.step_rows + tiling.step_columns;
    int64_t step_a = tiling.step_rows + tiling.step_columns * lda;
    int64_t step_b = tiling.step_rows + tiling.step_columns * ldb;
    for (int64_t tile = blockIdx.x; tile < tiling.tiles; tile += gridDim.x) {
        thread_run run = run_of_thread(&tiling, tile);
        const element *from = a + run.row + run.column * lda;
        element *to = b + run.row + run.column * ldb;
        element elements[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (u * step < run.left) {
                elements[u] = from[u * step_a];
            }
        }
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (u * step < run.left) {
                to[u * step_b] = narrow(multiply_add(scale, widen(elements[u]), shift));
            }
        }
    }
}

/*
 * The rows of a column before its first 16-byte boundary; m, where A and B never reach such a boundary
 * together, or not in every column at the same row.
 */
static __device__ inline int64_t rows_of_head(const scale_add_arguments *arguments)
{
    int64_t past = (int64_t)((uintptr_t)arguments->a % 16);
    int columns_alike = arguments->n == 1 || (arguments->lda % PACK == 0 && arguments->ldb % PACK == 0);
    if (past != (int64_t)((uintptr_t)arguments->b % 16) || past % (int64_t)sizeof(element) != 0 ||
        !columns_alike) {
        return arguments->m;
    }
    int64_t head = past == 0 ? 0 : (16 - past) / (int64_t)sizeof(element);
    return head < arguments->m ? head : arguments->m;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(scale_add_arguments arguments)
{
    if (arguments.lda == arguments.m && arguments.ldb == arguments.m) {
        arguments.m *= arguments.n; /* no gaps: one long column */
        arguments.n = 1;
    }
    const element *a = (const element *)arguments.a;
    element *b = (element *)arguments.b;
    accumulator scale = scalar_value(arguments.scale);
    accumulator shift = scalar_value(arguments.shift);

    int64_t head = rows_of_head(&arguments);
    int64_t height = (arguments.m - head) / PACK;
    int64_t tail = head + height * PACK;
    if (height > 0) {
        scale_packs(a + head, b + head, height, &arguments, scale, shift);
    }
    if (head > 0) {
        scale_elements(a, b, head, &arguments, scale, shift);
    }
    if (tail < arguments.m) {
        scale_elements(a + tail, b + tail, arguments.m - tail, &arguments, scale, shift);
    }
}
