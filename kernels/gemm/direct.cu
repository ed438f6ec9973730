/*
 * direct.cu - products of short k, straight from memory to D: f16, bf16 and f32 with f32 sums, and s8. One launch and no
 * packed operands; any shape, alignment and layout.
 *
 * Where k is short there is next to nothing to multiply. What takes time is to begin, one trip to memory, and the storing
 * of D. So each thread has all its loads of a chunk of k on the way at once, and one barrier follows them:
 *
 *     A, B --fetch--> registers, widened --stow--> tiles --read--> registers --> sums --> D
 *
 * D's columns may begin at any address. A thread's pieces are VECTOR elements that stand where one instruction may store
 * them, in each of its columns, whose number in D is the same modulo VECTOR: so they are the same rows in each, and a row
 * of A is read for all of them. Against the block's rows those pieces are shifted up by what the column's address says:
 *
 *      rows  | before | 0                TILE_M        of a block; what lies above the first row of D is left out,
 *     col 0    [piece][piece] ... [piece]              what is left below, in the last block of the column, is one
 *     col 1  [piece][piece] ... [piece]                more piece, and takes a second pass
 *
 * Two shapes of tile: with VECTOR=8 (of 16 bits) or 4 tiles are large and stores are whole pieces: for a large D of k up to
 * TILE_K or a little more. With VECTOR=1 tiles are small, neighbouring threads have neighbouring rows, and the block's
 * warps share not only the columns but each chunk's k (SLICES), for what counts is how few steps there are.
 *
 * Needs: nothing. Limits: of each element of D it takes k multiply-adds of the plain unit.
 */
#include "kernel.h"

#include "epilogue.h"
#include "store_sum.h"
#include "tiles.h"

enum {
    SIZE = sizeof(element),
    PIECES = THREAD_M / VECTOR, /* of a thread, in each of its columns */
    PIECE_STEP = TILE_M / PIECES,
    THREADS_M = TILE_M / THREAD_M, /* threads along m */
    GROUPS = TILE_N / THREAD_N,    /* threads along n; a thread's columns are so many apart */
    SLICES = THREADS_X / (THREADS_M * GROUPS),
    BEFORE = VECTOR > 1 ? VECTOR : 0, /* rows that are read before the block's first */
    LOADS_A = TILE_M * TILE_K / THREADS_X,
    LOADS_B = TILE_N * TILE_K / THREADS_X,
    ROWS = BEFORE + TILE_M + BEFORE, /* with what a second pass reads for nobody */
    PITCH_A = VECTOR > 1 ? ROWS + ROWS / 32 + 1 : ROWS + 1,
    PITCH_B = TILE_N + 4,
    UNROLL = VECTOR > 1 ? 1 : 4, /* k in a row: more would take more registers */
    AT_ONCE = 4,                 /* loads of a later chunk */
    BAND = 8
};

static_assert(PIECES * VECTOR == THREAD_M && THREADS_M * THREAD_M == TILE_M, "pieces tile the block's rows");
static_assert(GROUPS * THREAD_N == TILE_N && THREAD_N % 4 == 0, "a thread's columns are read by fours");
static_assert(THREADS_M * GROUPS * SLICES == THREADS_X, "the threads tile the block, once or several times");
static_assert(VECTOR == 1 || (GROUPS % VECTOR == 0 && SLICES == 1), "a thread's columns are shifted alike");
static_assert(SLICES == 1 || TILE_M * TILE_N % THREADS_X == 0, "the threads share the block's sums evenly");
static_assert(LOADS_A * THREADS_X == TILE_M * TILE_K && LOADS_B > 0, "the threads share the tiles evenly");
static_assert(LOADS_B * THREADS_X == TILE_N * TILE_K && TILE_M <= THREADS_X, "and have whole rows of them");
static_assert(TILE_K == 16 || TILE_K == 32 || TILE_K == 64, "for log2_of_depth()");
static_assert(BEFORE * TILE_K <= THREADS_X && TILE_N <= THREADS_X, "one load each fetches the rows before");
static_assert(VECTOR == 1 || LOADS_A % AT_ONCE == 0, "later chunks are copied by so many loads");
static_assert(VECTOR == 1 || ELEMENT != ELEMENT_S8, "pieces are of floats");
static_assert(VECTOR == 1 || VECTOR == 16 / SIZE, "and 16 bytes of the own type");

/* Both operands of the block's problem, from its first row, column and k on. */
typedef struct operands {
    const element *a;
    const element *b;
    int64_t a_k; /* elements from one k to the next */
    int64_t b_k;
    int64_t a_row;
    int rows; /* of the tiles, inside */
    int columns;
    int has_before; /* the rows before the tile's first are there too */
} operands;

/* What a block does. */
typedef struct work {
    block_share share;
    operands of;
    int64_t length; /* of k */
} work;

typedef struct tiles {
    accumulator a[TILE_K][PITCH_A];
    __align__(16) accumulator b[TILE_K][PITCH_B];
#if VECTOR == 1
    accumulator sums[SLICES][TILE_N][TILE_M];
#else
    work work; /* for those who come later: sums have the registers */
#endif
} tiles;

static __device__ inline int64_t least(int64_t x, int64_t y) { return x < y ? x : y; }

/* Where a row of A stands in its tile: one word further for every 32, so that pieces begin in different banks. */
static __device__ inline int place_of_row(int row)
{
    int place = row + BEFORE;
    return VECTOR > 1 ? place + place / 32 : place;
}

/* A thread's columns side by side. */
static __device__ inline int place_of_column(int column)
{
    return column % GROUPS * THREAD_N + column / GROUPS;
}

/* ---- From memory to the tiles --------------------------------------------------------------- */

static __device__ inline int log2_of(int x)
{
    return x >= 256   ? 8
           : x >= 128 ? 7
           : x >= 64  ? 6
           : x >= 32  ? 5
           : x >= 16  ? 4
           : x >= 8   ? 3
           : x >= 4   ? 2
                      : x / 2;
}

/* Of so many neighbouring k, or a few more. */
static __device__ inline int log2_of_depth(int depth)
{
    return depth > 16 ? log2_of(TILE_K) : depth > 4 ? 4 : depth > 1 ? 2 : 0;
}

/*
 * What a thread fetches of a chunk of an operand, columns of op(B) being its rows. Memory runs along k or along the rows.
 * Thread t has, of every `step` lines of memory, place `low` of line number `high`.
 */
typedef struct share {
    const element *from; /* its first element */
    int64_t ld;
    int low;
    int high;
    int step;
    int lines; /* of the chunk, inside the matrix; 0 where `low` is not */
    int along_k;
} share;

/* Of `wide` rows, the first of which `from` points at, for k number 0; `rows` of them and `depth` of k are inside. */
static __device__ __forceinline__ share share_of(const element *from, int64_t ld, int along_k, int wide,
                                                 int rows, int depth)
{
    share share;
    int bits = along_k ? log2_of_depth(depth) : log2_of(wide);
    share.ld = ld;
    share.along_k = along_k;
    share.low = (int)threadIdx.x & ((1 << bits) - 1);
    share.high = (int)threadIdx.x >> bits;
    share.step = THREADS_X >> bits;
    share.lines = share.low < (along_k ? depth : rows) ? (along_k ? rows : depth) : 0;
    share.from = from + share.low + share.high * ld;
    return share;
}

/* Where a thread's element number i belongs, and whether there is one. */
static __device__ __forceinline__ int row_of(const share *share, int i)
{
    return share->along_k ? share->high + i * share->step : share->low;
}

static __device__ __forceinline__ int k_of(const share *share, int i)
{
    return share->along_k ? share->low : share->high + i * share->step;
}

static __device__ __forceinline__ int has_element(const share *share, int i)
{
    return share->high + i * share->step < share->lines;
}

/* A thread's elements from number `first` on. */
static __device__ __forceinline__ void fetch(element *x, const share *share, int first, int count)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        x[i] = 0;
        if (has_element(share, first + i)) {
            x[i] = __ldg(share->from + (first + i) * share->step * share->ld);
        }
    }
}

/* Of rows that begin so many before the block's first. */
static __device__ __forceinline__ void stow_rows(tiles *tiles, const element *x, const share *share,
                                                 int first, int count, int before)
{
#pragma unroll
    for (int i = 0; i < count; ++i) {
        if (has_element(share, first + i)) {
            int row = row_of(share, first + i) - before;
            tiles->a[k_of(share, first + i)][place_of_row(row)] = widen(x[i]);
        }
    }
}

static __device__ __forceinline__ void stow_columns(tiles *tiles, const element *x, const share *share)
{
#pragma unroll
    for (int i = 0; i < LOADS_B; ++i) {
        if (has_element(share, i)) {
            tiles->b[k_of(share, i)][place_of_column(row_of(share, i))] = widen(x[i]);
        }
    }
}

static __device__ inline operands operands_of(const gemm_arguments *arguments, const block_share *share)
{
    operands of;
    of.a_k = arguments->trans_a ? 1 : arguments->lda;
    of.a_row = arguments->trans_a ? arguments->lda : 1;
    of.b_k = arguments->trans_b ? arguments->ldb : 1;
    int64_t b_column = arguments->trans_b ? 1 : arguments->ldb;
    of.a = (const element *)arguments->a + share->problem * arguments->stride_a + share->row * of.a_row +
           share->k_begin * of.a_k;
    of.b = (const element *)arguments->b + share->problem * arguments->stride_b + share->column * b_column +
           share->k_begin * of.b_k;
    of.rows = (int)least(arguments->m - share->row, TILE_M);
    of.columns = (int)least(arguments->n - share->column, TILE_N);
    of.has_before = BEFORE > 0 && share->row > 0;
    return of;
}

/* A chunk on its way: what a thread fetches, and has fetched. */
typedef struct chunk {
    share a;
    share b;
    element x[LOADS_A];
    element y[LOADS_B];
    int depth;
} chunk;

/* Starts the loads of the chunk that begins at number k of `length`. */
static __device__ __forceinline__ void fetch_chunk(chunk *chunk, const gemm_arguments *arguments,
                                                   const operands *of, int64_t k, int64_t length)
{
    int depth = (int)least(length - k, TILE_K);
    chunk->depth = depth;
    chunk->a = share_of(of->a + k * of->a_k, arguments->lda, arguments->trans_a, TILE_M, of->rows, depth);
    chunk->b = share_of(of->b + k * of->b_k, arguments->ldb, !arguments->trans_b, TILE_N, of->columns, depth);
    fetch(chunk->x, &chunk->a, 0, LOADS_A);
    fetch(chunk->y, &chunk->b, 0, LOADS_B);
}

static __device__ __forceinline__ void stow_chunk(tiles *tiles, const chunk *chunk)
{
    stow_rows(tiles, chunk->x, &chunk->a, 0, LOADS_A, 0);
    stow_columns(tiles, chunk->y, &chunk->b);
}

#if VECTOR > 1

/* The rows before the block's first, of the same chunk. */
static __device__ __forceinline__ share share_before(const gemm_arguments *arguments, const operands *of,
                                                     int64_t k, int depth)
{
    const element *a = of->a + k * of->a_k - BEFORE * of->a_row;
    return share_of(a, arguments->lda, arguments->trans_a, BEFORE, of->has_before ? BEFORE : 0, depth);
}

/* All of the first chunk, every load before the first is waited for. */
static __device__ __forceinline__ void copy_first(tiles *tiles, const gemm_arguments *arguments,
                                                  const operands *of, int64_t length)
{
    chunk chunk;
    element before[1];
    fetch_chunk(&chunk, arguments, of, 0, length);
    share share = share_before(arguments, of, 0, chunk.depth);
    fetch(before, &share, 0, 1);
    stow_chunk(tiles, &chunk);
    stow_rows(tiles, before, &share, 0, 1, BEFORE);
}

/* A later one, a few loads at a time: sums have the registers. */
static __device__ __forceinline__ void copy_later(tiles *tiles, const gemm_arguments *arguments,
                                                  const operands *of, int64_t k, int64_t length)
{
    int depth = (int)least(length - k, TILE_K);
    share share = share_of(of->a + k * of->a_k, arguments->lda, arguments->trans_a, TILE_M, of->rows, depth);
#pragma unroll 1
    for (int i = 0; i < LOADS_A; i += AT_ONCE) {
        element x[AT_ONCE];
        fetch(x, &share, i, AT_ONCE);
        stow_rows(tiles, x, &share, i, AT_ONCE, 0);
    }
    element x[LOADS_B > 1 ? LOADS_B : 1];
    share = share_before(arguments, of, k, depth);
    fetch(x, &share, 0, 1);
    stow_rows(tiles, x, &share, 0, 1, BEFORE);
    share = share_of(of->b + k * of->b_k, arguments->ldb, !arguments->trans_b, TILE_N, of->columns, depth);
    fetch(x, &share, 0, LOADS_B);
    stow_columns(tiles, x, &share);
}

#endif

/* ---- Products ------------------------------------------------------------------------------- */

static __device__ inline int thread_group(void) { return (int)threadIdx.x / THREADS_M % GROUPS; }

static __device__ inline int thread_slice(void) { return (int)threadIdx.x / (THREADS_M * GROUPS); }

typedef accumulator sums[THREAD_N][THREAD_M];

/* A thread's rows, of which none, or all of a piece, may lie outside of D. */
typedef struct rows {
    int first; /* of its first piece, against the tile's first row */
    int step;  /* from piece to piece */
} rows;

typedef struct __align__(16) four { accumulator x[4]; }
four;

/* Adds the products of the thread's slice of a chunk: k in order. */
static __device__ __forceinline__ void multiply(sums sum, const tiles *tiles, int depth, const rows *rows)
{
    int places[THREAD_M];
#pragma unroll
    for (int r = 0; r < THREAD_M; ++r) {
        places[r] = place_of_row(rows->first + r / VECTOR * rows->step + r % VECTOR);
    }
    int column = thread_group() * THREAD_N;
#pragma unroll UNROLL
    for (int k = thread_slice(); k < depth; k += SLICES) {
        accumulator a[THREAD_M];
#pragma unroll
        for (int r = 0; r < THREAD_M; ++r) {
            a[r] = tiles->a[k][places[r]];
        }
#pragma unroll
        for (int c = 0; c < THREAD_N; c += 4) {
            four b = *(const four *)&tiles->b[k][column + c];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int r = 0; r < THREAD_M; ++r) {
                    sum[c + i][r] = multiply_add(a[r], b.x[i], sum[c + i][r]);
                }
            }
        }
    }
}

static __device__ __forceinline__ void clear(sums sum)
{
#pragma unroll
    for (int x = 0; x < THREAD_N * THREAD_M; ++x) {
        sum[x / THREAD_M][x % THREAD_M] = 0;
    }
}

#if VECTOR > 1

/* All of the block's k, mostly one chunk; the first one is there already, but for a second pass. */
static __device__ __forceinline__ void add_products(sums sum, tiles *tiles, const gemm_arguments *arguments,
                                                    const rows *rows, int second)
{
    const work *work = &tiles->work;
    int64_t k = second && work->length > TILE_K ? 0 : TILE_K;
    clear(sum);
    if (k > 0) {
        multiply(sum, tiles, (int)least(work->length, TILE_K), rows);
    }
#pragma unroll 1
    for (; k < work->length; k += TILE_K) {
        __syncthreads();
        copy_later(tiles, arguments, &work->of, k, work->length);
        __syncthreads();
        multiply(sum, tiles, (int)least(work->length - k, TILE_K), rows);
    }
}

#else

/* All of the block's k: while a chunk is multiplied the next one is on its way. */
static __device__ __forceinline__ void add_products(sums sum, tiles *tiles, const gemm_arguments *arguments,
                                                    const operands *of, int64_t length, const rows *rows)
{
    chunk chunk;
    clear(sum);
    if (length > 0) {
        fetch_chunk(&chunk, arguments, of, 0, length);
    }
#pragma unroll 1
    for (int64_t k = 0; k < length;) {
        int depth = chunk.depth;
        stow_chunk(tiles, &chunk);
        __syncthreads();
        k += TILE_K;
        if (k < length) {
            fetch_chunk(&chunk, arguments, of, k, length);
        }
        multiply(sum, tiles, depth, rows);
        if (k < length) {
            __syncthreads();
        }
    }
}

#endif

/* ---- From sums to D ------------------------------------------------------------------------- */

#if VECTOR > 1

/* Where sums go: D, or the partial sums. */
typedef struct target {
    char *to; /* its element (0, 0) of this problem or part */
    int64_t ld;
    int size; /* bytes of an element */
} target;

static __device__ inline target target_of(const gemm_arguments *arguments, const block_share *share)
{
    target target;
    if (arguments->partials) {
        int64_t part = share->problem * arguments->parts + share->part;
        target.size = sizeof(accumulator);
        target.ld = arguments->m;
        target.to = (char *)arguments->partials + part * arguments->n * arguments->m * target.size;
    } else {
        int type = arguments->epilogue.result_type;
        target.size = type == ELEMENT_F32 || type == ELEMENT_S32 ? 4 : SIZE;
        target.ld = arguments->ldd;
        target.to = (char *)arguments->d + share->problem * arguments->stride_d * target.size;
    }
    return target;
}

#if ELEMENT == ELEMENT_BF16
#define pack_result pack_bf16
#else
#define pack_result pack_f16
#endif

/* How far the columns of the thread's group begin behind a place where a piece may be stored. */
static __device__ inline int shift_of(const target *target, int64_t column)
{
    uint32_t number = (uint32_t)((uintptr_t)target->to / (target->size == 4 ? 4 : 2));
    return (int)((number + (uint32_t)column * (uint32_t)target->ld) % VECTOR);
}

/* A piece where it may be stored at once. */
static __device__ __forceinline__ void store_piece(char *to, const float *v, int size)
{
    if (size == 4) {
#pragma unroll
        for (int e = 0; e < VECTOR; e += 4) {
            ((float4 *)to)[e / 4] = make_float4(v[e], v[e + 1], v[e + 2], v[e + 3]);
        }
    } else {
        uint32_t words[VECTOR / 2];
#pragma unroll
        for (int e = 0; e < VECTOR; e += 2) {
            words[e / 2] = pack_result(v[e], v[e + 1]);
        }
        *(uint4 *)to = make_uint4(words[0], words[1], words[VECTOR / 2 - 2], words[VECTOR / 2 - 1]);
    }
}

static __device__ __forceinline__ void store_element(char *to, int e, float value, int size)
{
    if (size == 4) {
        ((float *)to)[e] = value;
    } else {
        store_result_as(to, e, ELEMENT, value);
    }
}

/* Puts alpha * sum + beta * C + bias in the place of the sums. */
static __device__ __forceinline__ void scale_sums(sums sum, const gemm_arguments *arguments,
                                                  const block_share *share, const epilogue_scalars *scalars,
                                                  const rows *rows, const target *target)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    if (!epilogue->bias && scalars->beta == 0) {
#pragma unroll
        for (int x = 0; x < THREAD_N * THREAD_M; ++x) {
            sum[x / THREAD_M][x % THREAD_M] *= scalars->alpha;
        }
        return;
    }
    int along_m = epilogue->bias && !epilogue->bias_along_n;
#pragma unroll
    for (int r = 0; r < THREAD_M; ++r) {
        int64_t i = share->row + rows->first + r / VECTOR * rows->step + r % VECTOR;
        int inside = i >= 0 && i < arguments->m;
        float of_row = along_m && inside ? bias_of(epilogue, share->problem, i, 0) : -0.0f;
#pragma unroll
        for (int c = 0; c < THREAD_N; ++c) {
            sum[c][r] = fmaf(scalars->alpha, sum[c][r], of_row);
        }
    }
#pragma unroll
    for (int c = 0; c < THREAD_N; ++c) {
        int64_t j = share->column + thread_group() + c * GROUPS;
        if (j < arguments->n) {
            float of_column = epilogue->bias_along_n ? bias_of(epilogue, share->problem, 0, j) : -0.0f;
            int64_t at_c = share->problem * arguments->stride_c + j * arguments->ldc;
#pragma unroll
            for (int r = 0; r < THREAD_M; ++r) {
                int64_t i = share->row + rows->first + r / VECTOR * rows->step + r % VECTOR;
                float c_value = 0;
                if (scalars->beta != 0 && i >= 0 && i < arguments->m) {
                    c_value = target->size == 4 ? ((const float *)arguments->c)[at_c + i]
                                                : load_result_as_f32(arguments->c, at_c + i, ELEMENT);
                }
                sum[c][r] += of_column;
                sum[c][r] = scalars->beta != 0 ? fmaf(scalars->beta, c_value, sum[c][r]) : sum[c][r];
            }
        }
    }
}

/* The thread's sums to D; `pieces` of each column. */
static __device__ __forceinline__ void finish_rows(sums sum, const gemm_arguments *arguments,
                                                   const block_share *share, const rows *rows,
                                                   const target *target, int pieces)
{
    if (!arguments->partials) {
        const epilogue_arguments *epilogue = &arguments->epilogue;
        epilogue_scalars scalars = epilogue_scalars_of(epilogue, arguments->alpha, arguments->beta);
        scale_sums(sum, arguments, share, &scalars, rows, target);
        activate_all(&sum[0][0], THREAD_N * THREAD_M, epilogue->activation);
#pragma unroll
        for (int x = 0; x < THREAD_N * THREAD_M; ++x) {
            sum[x / THREAD_M][x % THREAD_M] *= scalars.scale_d;
        }
    }
    int64_t first = share->row + rows->first;
    int columns = (int)least(arguments->n - share->column - thread_group(), TILE_N);
    char *column = target->to + ((share->column + thread_group()) * target->ld + first) * target->size;
#pragma unroll
    for (int c = 0; c < THREAD_N; ++c) {
#pragma unroll
        for (int p = 0; p < PIECES; ++p) {
            int64_t i = first + p * rows->step;
            char *to = column + p * rows->step * target->size;
            const float *v = &sum[c][p * VECTOR];
            if (c * GROUPS >= columns || p >= pieces) {
                /* Another thread's, or nobody's. */
            } else if (i >= 0 && i + VECTOR <= arguments->m) {
                store_piece(to, v, target->size);
            } else {
#pragma unroll
                for (int e = 0; e < VECTOR; ++e) {
                    if (i + e >= 0 && i + e < arguments->m) {
                        store_element(to, e, v[e], target->size);
                    }
                }
            }
        }
        column += GROUPS * target->ld * target->size;
    }
}

/* The thread's own pieces, or, below the last of them, what is left. */
static __device__ __forceinline__ void do_pass(tiles *tiles, const gemm_arguments *arguments, int below)
{
    const block_share *share = &tiles->work.share;
    target target = target_of(arguments, share);
    int lane = (int)threadIdx.x % THREADS_M;
    int shift = shift_of(&target, share->column + thread_group());
    rows rows;
    rows.first = (below ? TILE_M : lane * VECTOR) - shift;
    rows.step = below ? 0 : PIECE_STEP;
    sums sum;
    add_products(sum, tiles, arguments, &rows, below);
    /* Found again, since to keep it in registers meanwhile is dearer. */
    __syncwarp();
    target = target_of(arguments, share);
    /* Below there is one piece, which one thread of the group stores; the others had it for nobody. */
    finish_rows(sum, arguments, share, &rows, &target, !below ? PIECES : lane == 0);
}

#else

/* The block's only pass: the slices' sums are added up by all threads, neighbours for neighbours in D. */
static __device__ __forceinline__ void do_pass(tiles *tiles, const gemm_arguments *arguments,
                                               const block_share *share, const operands *of, int64_t length)
{
    rows rows = {(int)threadIdx.x % THREADS_M, THREADS_M};
    sums sum;
    add_products(sum, tiles, arguments, of, length, &rows);
#pragma unroll
    for (int c = 0; c < THREAD_N; ++c) {
#pragma unroll
        for (int r = 0; r < THREAD_M; ++r) {
            tiles->sums[thread_slice()][thread_group() + c * GROUPS][rows.first + r * rows.step] = sum[c][r];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TILE_M * TILE_N / THREADS_X; ++i) {
        int e = (int)threadIdx.x + i * THREADS_X;
        int row = e % TILE_M;
        int column = e / TILE_M;
        if (row < of->rows && column < of->columns) {
            accumulator all = 0;
#pragma unroll
            for (int s = 0; s < SLICES; ++s) {
                all += tiles->sums[s][column][row];
            }
            store_sum(arguments, share, share->row + row, share->column + column, all);
        }
    }
}

#endif

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    __shared__ tiles tiles;
    block_share share = share_of_lone_block(&arguments, BAND);
    operands of = operands_of(&arguments, &share);
    int64_t length = share.k_end - share.k_begin;
    wait_for_kernels_before();
    let_next_kernel_begin();
    if (alpha_is_zero(arguments.alpha, arguments.epilogue.result_type)) {
        length = 0;
    }
#if VECTOR > 1
    if (threadIdx.x == 0) {
        tiles.work.share = share;
        tiles.work.of = of;
        tiles.work.length = length;
    }
    if (length > 0) {
        copy_first(&tiles, &arguments, &of, length);
    }
    __syncthreads();
    /* Rows that the last block of a column may have to leave below its pieces. */
    int below = share.row + TILE_M >= arguments.m && of.rows > TILE_M - VECTOR + 1;
#pragma unroll 1
    for (int pass = 0; pass <= below; ++pass) {
        do_pass(&tiles, &arguments, pass);
    }
#else
    do_pass(&tiles, &arguments, &share, &of, length);
#endif
}
