/*
 * small.cu - batches of small products, f16 and bf16 with f32 sums, by the tensor instruction of one warp.
 *
 * Of a batch of small products every byte is needed once, and there is little to multiply: for 32x32x32 the reading
 * and writing of 6 KiB takes a multiprocessor of an H200 some 330 cycles, the 16 instructions of a warp some 40 of
 * a quarter of it. So what counts is how many bytes are on the way, and how few instructions there are besides. Where
 * loads are aligned nothing goes through shared memory, which a block would have to fill, wait for and read; warps share
 * nothing and wait for nobody. What they have on the way is in their registers:
 *
 *        k          lane 4 * group + member takes, of op(A) and of op(B), rows (columns) 4 * group + 0..3
 *      +---+        and of each 16 bytes along k, number `member` of the step's four:
 *    m |   |
 *      +---+            memory runs along k       4 loads of 16 bytes
 *   32 rows by 32 k     memory runs across k      8 loads of 8 bytes, four rows each, turned in registers
 *   of a warp and step
 *
 * That is how the tensor instruction wants its operands but for the order of k, of rows and of columns. k's order is any
 * as long as both operands have the same. The others are chosen so that a lane's sums are 8 neighbours of each of 4 columns
 * of D: 16 bytes of f16.
 *
 * Needs: nothing; any shape, alignment and layout. Where columns are not aligned to the loads, or end between two, the
 * warp copies the chunks of 16 bytes around them to its shared memory as they lie, and a lane moves its pieces into place
 * as it reads them from there. No byte is read that does not belong to the operand. Sums go through shared memory only
 * where D is not aligned, so that neighbouring lanes store neighbours.
 */
#include "kernel.h"

#include "epilogue.h"
#include "tiles.h"

enum {
    SIZE = sizeof(element),
    SIDE = 32, /* of a warp's tile, and k of a step */
    ROWS = 4,  /* of an operand, which a lane has: columns of op(B) are its rows */
    WORDS = 4, /* of 4 bytes of such a row */
    PIECE = WORDS * 4 / SIZE,
    STACK_WORDS = ROWS * SIZE / 4, /* where memory runs across k: of ROWS neighbours */
    MEMBERS = SIDE / PIECE,
    LINE = 8, /* neighbours of a column of D, which a lane has */
    WARPS_M = TILE_M / SIDE,
    WARPS = THREADS_X / 32,
    BAND = 8
};

static_assert(ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16, "there is an instruction for the elements");
static_assert(WARP_M == SIDE && WARP_N == SIDE && TILE_K == SIDE, "of a warp is one size only");
static_assert(WARPS_M * SIDE == TILE_M && TILE_N % SIDE == 0, "warps tile the block");
static_assert(WARPS_M * (TILE_N / SIDE) == WARPS, "and it has no others");

static __device__ inline int least(int64_t x, int most) { return x < most ? (int)x : most; }

static __device__ inline int lane_group(void) { return (int)threadIdx.x % 32 / MEMBERS; }

static __device__ inline int lane_member(void) { return (int)threadIdx.x % MEMBERS; }

/* One operand of a warp's tile; columns of op(B) are its rows. */
typedef struct matrix {
    const char *from;  /* the tile's first row and first k */
    int64_t pitch;     /* bytes from one row (along k) or one k (across it) to the next */
    const char *begin; /* of the whole operand of this problem, */
    const char *end;
    int rows; /* of the tile that lie inside */
    int along_k;
} matrix;

/* All but the end, which aligned loads do not ask for. */
static __device__ inline matrix matrix_of(const void *begin, int64_t ld, int64_t row, int rows, int64_t k,
                                          int along_k)
{
    matrix x;
    x.begin = (const char *)begin;
    x.end = x.begin;
    x.from = x.begin + (along_k ? row * ld + k : row + k * ld) * SIZE;
    x.pitch = ld * SIZE;
    x.rows = rows;
    x.along_k = along_k;
    return x;
}

static __device__ inline const char *end_of(const matrix *matrix, int64_t count, int64_t k)
{
    int64_t lines = matrix->along_k ? count : k;
    int64_t length = matrix->along_k ? k : count;
    return matrix->begin + (lines - 1) * matrix->pitch + length * SIZE;
}

/* ---- Operands where all loads are aligned --------------------------------------------------- */

/*
 * Whether loads of 16 bytes along k, or 8 across it, are aligned in all problems, and lie inside or outside as a whole.
 * Every lane finds the same.
 */
static __device__ inline int loads_fit(const void *begin, int64_t ld, int64_t stride, int64_t count,
                                       int64_t k, int along_k)
{
    int bytes = along_k ? WORDS * 4 : STACK_WORDS * 4;
    int off = (int)(uintptr_t)begin | ((int)ld | (int)stride) * SIZE;
    return ((off & (bytes - 1)) | ((int)count & (ROWS - 1)) | ((int)k & (PIECE - 1))) == 0;
}

/*
 * Where a lane reads an operand first: at its rows and k of the first step. If those rows lie outside it has others, which
 * become sums of no place in D: so no load asks where it is.
 */
static __device__ __forceinline__ const char *place_of_lane(const matrix *matrix)
{
    int row = lane_group() * ROWS < matrix->rows ? lane_group() * ROWS : 0;
    int k = lane_member() * PIECE;
    return matrix->from + (matrix->along_k ? row * matrix->pitch + k * SIZE : row * SIZE + k * matrix->pitch);
}

/* Starts the loads of a lane's pieces. */
static __device__ __forceinline__ void load_pieces(uint32_t *x, const char *from, int64_t pitch, int along_k)
{
    if (along_k) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            uint4 some = __ldg((const uint4 *)from);
            x[r * WORDS] = some.x;
            x[r * WORDS + 1] = some.y;
            x[r * WORDS + 2] = some.z;
            x[r * WORDS + 3] = some.w;
            from += pitch;
        }
    } else {
#pragma unroll
        for (int k = 0; k < PIECE; ++k) {
            uint2 some = __ldg((const uint2 *)from);
            x[k * STACK_WORDS] = some.x;
            x[k * STACK_WORDS + 1] = some.y;
            from += pitch;
        }
    }
}

static __device__ __forceinline__ void clear(uint32_t *x)
{
#pragma unroll
    for (int i = 0; i < ROWS * WORDS; ++i) {
        x[i] = 0;
    }
}

/* From PIECE stacks of ROWS rows, as they are loaded across k, to ROWS pieces along k. */
static __device__ __forceinline__ void turn(uint32_t *x)
{
    uint32_t stacks[ROWS * WORDS];
#pragma unroll
    for (int i = 0; i < ROWS * WORDS; ++i) {
        stacks[i] = x[i];
    }
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
#pragma unroll
        for (int r = 0; r < ROWS; r += 2) {
            uint32_t first = stacks[2 * w * STACK_WORDS + r / 2];
            uint32_t second = stacks[(2 * w + 1) * STACK_WORDS + r / 2];
            x[r * WORDS + w] = __byte_perm(first, second, 0x5410);
            x[(r + 1) * WORDS + w] = __byte_perm(first, second, 0x7632);
        }
    }
}

/* ---- Operands where they are not ------------------------------------------------------------ */

/* Any 64 bytes that begin with an element lie in so many chunks of 16; what the lines of an operand take in all. */
enum { CHUNKS = SIDE * SIZE / 16 + 1, LINES_BYTES = SIDE * CHUNKS * 16 + MEMBERS * 64 };

static_assert(2 * LINES_BYTES >= SIDE * SIDE * (int)sizeof(float), "sums take the place of lines");

/* Where a line lies: those of neighbouring members in different banks. */
static __device__ inline int place_of_line(int line) { return line * CHUNKS * 16 + line / PIECE * 64; }

/* Lanes that copy: five have the chunks of a line, and so six lines are copied at a time. */
enum { LINES_AT_ONCE = 32 / CHUNKS };

/*
 * Starts the copies of a step's lines, that is, rows along k or k across it: the chunks of 16 bytes around them as they lie
 * in memory, but for bytes that lie outside of the operand.
 */
static __device__ __forceinline__ void copy_lines(char *to, const matrix *matrix, int64_t k_first,
                                                  int k_inside)
{
    int lane = (int)threadIdx.x % 32;
    int chunk = lane % CHUNKS;
    int line = lane < LINES_AT_ONCE * CHUNKS ? lane / CHUNKS : SIDE;
    int lines = matrix->along_k ? matrix->rows : k_inside;
    int bytes = (matrix->along_k ? k_inside : matrix->rows) * SIZE;
    const char *place =
        matrix->from + k_first * (matrix->along_k ? SIZE : matrix->pitch) + line * matrix->pitch + chunk * 16;
#pragma unroll 1
    for (; line < lines; line += LINES_AT_ONCE) {
        int off = (int)((uintptr_t)place & 15);
        const char *from = place - off;
        char *copy = to + place_of_line(line) + chunk * 16;
        if (chunk * 16 - off >= bytes) {
            /* nothing of the line is there */
        } else if (from >= matrix->begin) {
            copy_async_16(copy, from, least(matrix->end - from, 16));
        } else {
#pragma unroll 1
            for (int e = (int)(matrix->begin - from); e < least(matrix->end - from, 16); e += SIZE) {
                *(element *)(copy + e) = *(const element *)(from + e);
            }
        }
        place += LINES_AT_ONCE * matrix->pitch;
    }
}

/* So many words from a lane's place in a line on. */
static __device__ __forceinline__ void read_words(uint32_t *words, int count, const char *from)
{
    const char *word = from - (uintptr_t)from % 4;
    int bits = (int)((uintptr_t)from % 4) * 8;
    uint32_t low = *(const uint32_t *)word;
#pragma unroll
    for (int w = 0; w < count; ++w) {
        uint32_t high = *(const uint32_t *)(word + 4 * w + 4);
        words[w] = (uint32_t)(((uint64_t)high << 32 | low) >> bits);
        low = high;
    }
}

/* The lane's pieces of a step from its lines, with zeros from number k_left on. */
static __device__ __forceinline__ void read_step(uint32_t *x, const char *lines, const matrix *matrix,
                                                 int64_t k_first, int k_left)
{
    int group = lane_group();
    int member = lane_member();
    int off = (int)(uintptr_t)(matrix->from + k_first * (matrix->along_k ? SIZE : matrix->pitch));
    int pitch = (int)matrix->pitch;
    if (matrix->along_k) {
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            int line = group * ROWS + r;
            read_words(&x[r * WORDS], WORDS,
                       lines + place_of_line(line) + ((off + line * pitch) & 15) + member * WORDS * 4);
        }
    } else {
#pragma unroll
        for (int k = 0; k < PIECE; ++k) {
            int line = member * PIECE + k;
            read_words(&x[k * STACK_WORDS], STACK_WORDS,
                       lines + place_of_line(line) + ((off + line * pitch) & 15) + group * STACK_WORDS * 4);
        }
        turn(x);
    }
#pragma unroll
    for (int w = 0; w < WORDS; ++w) {
        uint32_t mask = k_left >= 2 * w + 2 ? 0xffffffffu : k_left == 2 * w + 1 ? 0xffffu : 0;
#pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            x[r * WORDS + w] &= mask;
        }
    }
}

/* ---- Products ------------------------------------------------------------------------------- */

#if ELEMENT == ELEMENT_F16
#define multiply_tile mma_f16_16x8x16
#define pack_result pack_f16
#else
#define multiply_tile mma_bf16_16x8x16
#define pack_result pack_bf16
#endif

/*
 * The lane's sums of D, as the instructions leave them. Those have columns of op(B) for rows, lane group and group + 8 of
 * instruction i its columns 2 i and 2 i + 1; and for columns rows of op(A), lane group's row j of instruction j. So of
 * D(8 * member + e, 4 * group + q) of the warp's tile, which sum_of() gives, the lane has all sums.
 */
typedef float sums[ROWS / 2][ROWS][4];

static __device__ __forceinline__ float sum_of(sums sum, int e, int q)
{
    return sum[q / 2][e % 4][q % 2 * 2 + e / 4];
}

static __device__ __forceinline__ void multiply(sums sum, const uint32_t *a, const uint32_t *b)
{
#pragma unroll
    for (int w = 0; w < WORDS; w += 2) {
#pragma unroll
        for (int i = 0; i < ROWS / 2; ++i) {
            const uint32_t *first = &b[2 * i * WORDS + w];
            const uint32_t *second = first + WORDS;
            uint32_t rows[4] = {first[0], second[0], first[1], second[1]};
#pragma unroll
            for (int j = 0; j < ROWS; ++j) {
                multiply_tile(sum[i][j], rows, &a[j * WORDS + w]);
            }
        }
    }
}

/* Adds the products of `length` k, loads of both operands straight to registers. */
static __device__ __forceinline__ void add_aligned(sums sum, const matrix *a, const matrix *b, int64_t length)
{
    const char *from_a = place_of_lane(a);
    const char *from_b = place_of_lane(b);
    int64_t step_a = a->along_k ? SIDE * SIZE : SIDE * a->pitch;
    int64_t step_b = b->along_k ? SIDE * SIZE : SIDE * b->pitch;
#pragma unroll 1
    for (; length > 0; length -= SIDE) {
        uint32_t pieces_a[ROWS * WORDS];
        uint32_t pieces_b[ROWS * WORDS];
        if (length >= SIDE || lane_member() * PIECE < (int)length) {
            load_pieces(pieces_a, from_a, a->pitch, a->along_k);
            load_pieces(pieces_b, from_b, b->pitch, b->along_k);
        } else {
            clear(pieces_a);
            clear(pieces_b);
        }
        __syncwarp();
        from_a += step_a;
        from_b += step_b;
        if (!a->along_k) {
            turn(pieces_a);
        }
        if (!b->along_k) {
            turn(pieces_b);
        }
        multiply(sum, pieces_a, pieces_b);
    }
}

/* The same by way of the warp's shared memory. */
static __device__ __forceinline__ void add_unaligned(sums sum, const matrix *a, const matrix *b,
                                                     int64_t length, char *lines)
{
#pragma unroll 1
    for (int64_t k = 0; k < length; k += SIDE) {
        uint32_t pieces_a[ROWS * WORDS];
        uint32_t pieces_b[ROWS * WORDS];
        int k_inside = least(length - k, SIDE);
        int k_left = k_inside - lane_member() * PIECE;
        __syncwarp();
        copy_lines(lines, a, k, k_inside);
        copy_lines(lines + LINES_BYTES, b, k, k_inside);
        copy_async_commit();
        copy_async_wait(0);
        __syncwarp();
        read_step(pieces_a, lines, a, k, k_left);
        read_step(pieces_b, lines + LINES_BYTES, b, k, k_left);
        multiply(sum, pieces_a, pieces_b);
    }
}

/* ---- From sums to D ------------------------------------------------------------------------- */

/* Where a warp's sums go: the first row and column of its tile, and how many lie inside. */
typedef struct target {
    int64_t problem;
    int64_t row;
    int64_t column;
    int rows;
    int columns;
    int part;
} target;

static __device__ inline int64_t index_of_c(const gemm_arguments *arguments, const target *to, int64_t i,
                                            int64_t j)
{
    return to->problem * arguments->stride_c + j * arguments->ldc + i;
}

static __device__ inline int64_t index_of_d(const gemm_arguments *arguments, const target *to, int64_t i,
                                            int64_t j)
{
    return to->problem * arguments->stride_d + j * arguments->ldd + i;
}

/* Whether every LINE elements of a matrix of results stand where 16 bytes may be read or written. */
static __device__ inline int lines_aligned(const void *base, int64_t ld, int64_t stride, int size)
{
    return ((int)(uintptr_t)base | ((int)ld | (int)stride) * size) % 16 == 0;
}

/* Whether lanes store their lines as they have them. */
static __device__ inline int stores_lines(const gemm_arguments *arguments, float beta)
{
    int size = arguments->epilogue.result_type == ELEMENT_F32 ? 4 : SIZE;
    return !arguments->partials && (int)arguments->m % LINE == 0 &&
           lines_aligned(arguments->d, arguments->ldd, arguments->stride_d, size) &&
           (beta == 0 || lines_aligned(arguments->c, arguments->ldc, arguments->stride_c, size));
}

/* LINE elements of C from number `at` on. */
static __device__ __forceinline__ void load_line(float *v, const void *c, int64_t at, int is_f32)
{
    if (is_f32) {
        const float4 *from = (const float4 *)((const float *)c + at);
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            float4 four = from[h];
            v[4 * h] = four.x;
            v[4 * h + 1] = four.y;
            v[4 * h + 2] = four.z;
            v[4 * h + 3] = four.w;
        }
    } else {
        uint4 words = *(const uint4 *)((const result *)c + at);
        uint32_t x[LINE / 2] = {words.x, words.y, words.z, words.w};
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            uint16_t half = (uint16_t)(x[e / 2] >> e % 2 * 16);
            v[e] = load_result_as_f32(&half, 0, ELEMENT);
        }
    }
}

static __device__ __forceinline__ void store_line(void *d, int64_t at, const float *v, int is_f32)
{
    if (is_f32) {
        float4 *to = (float4 *)((float *)d + at);
        to[0] = make_float4(v[0], v[1], v[2], v[3]);
        to[1] = make_float4(v[4], v[5], v[6], v[7]);
    } else {
        *(uint4 *)((result *)d + at) = make_uint4(pack_result(v[0], v[1]), pack_result(v[2], v[3]),
                                                  pack_result(v[4], v[5]), pack_result(v[6], v[7]));
    }
}

/* LINE sums of a column, from D(i, j) on and all inside, to D. */
static __device__ __forceinline__ void finish_line(const gemm_arguments *arguments, const target *to,
                                                   const epilogue_scalars *scalars, const float *bias,
                                                   float *v, int64_t i, int64_t j)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int is_f32 = epilogue->result_type == ELEMENT_F32;
    float added[LINE];
    float of_column = epilogue->bias_along_n ? bias_of(epilogue, to->problem, i, j) : -0.0f;
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        added[e] = epilogue->bias_along_n ? of_column : bias[e];
    }
    if (scalars->beta != 0) {
        float c[LINE];
        load_line(c, arguments->c, index_of_c(arguments, to, i, j), is_f32);
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            added[e] = fmaf(scalars->beta, c[e], added[e]);
        }
    }
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        v[e] = fmaf(scalars->alpha, v[e], added[e]);
    }
    activate_all(v, LINE, epilogue->activation);
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        v[e] *= scalars->scale_d;
    }
    store_line(arguments->d, index_of_d(arguments, to, i, j), v, is_f32);
}

/* Where a sum lies in shared memory: columns are turned by one for every four, so that lanes write to different banks. */
static __device__ inline int place_of(int row, int column)
{
    return column * SIDE + (row + column / ROWS) % SIDE;
}

static __device__ __forceinline__ void store_lines(const gemm_arguments *arguments, const target *to,
                                                   const epilogue_scalars *scalars, sums sum)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int row = lane_member() * LINE;
    float bias[LINE]; /* of the lane's rows */
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        bias[e] = -0.0f;
    }
    if (epilogue->bias && !epilogue->bias_along_n && row < to->rows) {
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            bias[e] = bias_of(epilogue, to->problem, to->row + row + e, 0);
        }
    }
#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        int column = lane_group() * ROWS + q;
        float v[LINE];
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            v[e] = sum_of(sum, e, q);
        }
        if (row < to->rows && column < to->columns) {
            finish_line(arguments, to, scalars, bias, v, to->row + row, to->column + column);
        }
    }
}

/* The same where there is nothing to do but to scale, activate and round. */
static __device__ __forceinline__ void store_plain(const gemm_arguments *arguments, const target *to,
                                                   const epilogue_scalars *scalars, sums sum)
{
    int row = lane_member() * LINE;
    int column = lane_group() * ROWS;
    element *d = (element *)arguments->d + index_of_d(arguments, to, to->row + row, to->column + column);
    float v[ROWS * LINE];
#pragma unroll
    for (int i = 0; i < ROWS * LINE; ++i) {
        v[i] = scalars->alpha * sum_of(sum, i % LINE, i / LINE);
    }
    activate_all(v, ROWS * LINE, arguments->epilogue.activation);
#pragma unroll
    for (int i = 0; i < ROWS * LINE; ++i) {
        v[i] *= scalars->scale_d;
    }
#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
        if (row < to->rows && column + q < to->columns) {
            store_line(d, 0, &v[q * LINE], 0);
        }
        d += arguments->ldd;
    }
}

/* LINE sums of a row, from D(i, j) on and `columns` of them inside, to D. */
static __device__ __forceinline__ void finish_row(const gemm_arguments *arguments, const target *to,
                                                  const epilogue_scalars *scalars, float bias, float *v,
                                                  int64_t i, int64_t j, int columns)
{
    const epilogue_arguments *epilogue = &arguments->epilogue;
    int is_f32 = epilogue->result_type == ELEMENT_F32;
    float added[LINE];
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        added[e] = bias;
        if (epilogue->bias_along_n && e < columns) {
            added[e] = bias_of(epilogue, to->problem, i, j + e);
        }
    }
    if (scalars->beta != 0) {
        int64_t at = index_of_c(arguments, to, i, j);
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            if (e < columns) {
                float c = is_f32 ? ((const float *)arguments->c)[at]
                                 : load_result_as_f32(arguments->c, at, ELEMENT);
                added[e] = fmaf(scalars->beta, c, added[e]);
            }
            at += arguments->ldc;
        }
    }
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        v[e] = fmaf(scalars->alpha, v[e], added[e]);
    }
    activate_all(v, LINE, epilogue->activation);
    int64_t at = index_of_d(arguments, to, i, j);
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        if (e < columns && is_f32) {
            ((float *)arguments->d)[at] = scalars->scale_d * v[e];
        } else if (e < columns) {
            store_result_as(arguments->d, at, ELEMENT, scalars->scale_d * v[e]);
        }
        at += arguments->ldd;
    }
}

/* Bare sums of a row. */
static __device__ __forceinline__ void store_partials(const gemm_arguments *arguments, const target *to,
                                                      const float *v, int64_t i, int64_t j, int columns)
{
    int64_t number = to->problem * arguments->parts + to->part;
    float *partials = (float *)arguments->partials + (number * arguments->n + j) * arguments->m + i;
#pragma unroll
    for (int e = 0; e < LINE; ++e) {
        if (e < columns) {
            *partials = v[e];
        }
        partials += arguments->m;
    }
}

/* Any result: lanes exchange their sums first, so that each has a row. */
static __device__ __forceinline__ void store_exchanged(const gemm_arguments *arguments, const target *to,
                                                       const epilogue_scalars *scalars, sums sum,
                                                       float *exchanged)
{
#pragma unroll
    for (int q = 0; q < ROWS; ++q) {
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            exchanged[place_of(lane_member() * LINE + e, lane_group() * ROWS + q)] = sum_of(sum, e, q);
        }
    }
    __syncwarp();
    int row = (int)threadIdx.x % 32;
    if (row >= to->rows) {
        return;
    }
    float bias = arguments->epilogue.bias_along_n
                     ? -0.0f
                     : bias_of(&arguments->epilogue, to->problem, to->row + row, 0);
#pragma unroll 1
    for (int column = 0; column < to->columns; column += LINE) {
        float v[LINE];
#pragma unroll
        for (int e = 0; e < LINE; ++e) {
            v[e] = exchanged[place_of(row, column + e)];
        }
        if (arguments->partials) {
            store_partials(arguments, to, v, to->row + row, to->column + column, to->columns - column);
        } else {
            finish_row(arguments, to, scalars, bias, v, to->row + row, to->column + column,
                       to->columns - column);
        }
    }
}

/* share_of_block(), without its divisions where each problem is one tile. */
static __device__ inline block_share share_of_small_block(const gemm_arguments *arguments)
{
    if (arguments->tiles_m != 1 || arguments->tiles_n != 1 || arguments->parts != 1) {
        return share_of_block(arguments, BAND);
    }
    block_share share = {0, 0, 0, arguments->k, blockIdx.x, 0};
    return share;
}

static __device__ inline target target_of(const gemm_arguments *arguments, const block_share *share)
{
    int warp = (int)threadIdx.x / 32;
    target to;
    to.problem = share->problem;
    to.row = share->row + warp % WARPS_M * SIDE;
    to.column = share->column + warp / WARPS_M * SIDE;
    to.rows = least(arguments->m - to.row, SIDE);
    to.columns = least(arguments->n - to.column, SIDE);
    to.part = share->part;
    return to;
}

typedef struct operands {
    matrix a;
    matrix b;
} operands;

static __device__ inline operands operands_of(const gemm_arguments *arguments, const target *to, int64_t k)
{
    operands of;
    of.a = matrix_of((const element *)arguments->a + to->problem * arguments->stride_a, arguments->lda,
                     to->row, to->rows, k, arguments->trans_a != 0);
    of.b = matrix_of((const element *)arguments->b + to->problem * arguments->stride_b, arguments->ldb,
                     to->column, to->columns, k, arguments->trans_b == 0);
    return of;
}

static __device__ inline int all_loads_fit(const gemm_arguments *arguments)
{
    return loads_fit(arguments->a, arguments->lda, arguments->stride_a, arguments->m, arguments->k,
                     arguments->trans_a != 0) &&
           loads_fit(arguments->b, arguments->ldb, arguments->stride_b, arguments->n, arguments->k,
                     arguments->trans_b == 0);
}

static __device__ inline int is_plain(const gemm_arguments *arguments, float beta)
{
    return beta == 0 && !arguments->epilogue.bias && arguments->epilogue.result_type == ELEMENT;
}

KERNEL __launch_bounds__(THREADS_X, MIN_BLOCKS) KERNEL_NAME(const gemm_arguments arguments)
{
    /* A warp's lines of A and B, or its sums. */
    __shared__ __align__(16) char memory[WARPS][2 * LINES_BYTES];
    /* What a lane need not hold in registers leaves them to pieces. */
    __shared__ operands shared[WARPS];
    int warp = (int)threadIdx.x / 32;
    block_share share = share_of_small_block(&arguments);
    target to = target_of(&arguments, &share);
    if (to.rows <= 0 || to.columns <= 0) {
        return;
    }
    operands of = operands_of(&arguments, &to, share.k_begin);
    int64_t length = share.k_end - share.k_begin;
    int aligned = all_loads_fit(&arguments);
    wait_for_kernels_before();
    let_next_kernel_begin();

    sums sum = {{{0}}};
    if (alpha_is_zero(arguments.alpha, ELEMENT_F32)) {
        length = 0;
    }
    if (aligned) {
        add_aligned(sum, &of.a, &of.b, length);
    } else {
        if (threadIdx.x % 32 == 0) {
            of.a.end = end_of(&of.a, arguments.m, arguments.k);
            of.b.end = end_of(&of.b, arguments.n, arguments.k);
            shared[warp] = of;
        }
        __syncwarp();
        add_unaligned(sum, &shared[warp].a, &shared[warp].b, length, memory[warp]);
        /* Found again, since to keep it in registers meanwhile is dearer. */
        share = share_of_small_block(&arguments);
        to = target_of(&arguments, &share);
    }

    __syncwarp();
    epilogue_scalars scalars = epilogue_scalars_of(&arguments.epilogue, arguments.alpha, arguments.beta);
    if (!stores_lines(&arguments, scalars.beta)) {
        store_exchanged(&arguments, &to, &scalars, sum, (float *)memory[warp]);
    } else if (is_plain(&arguments, scalars.beta)) {
        store_plain(&arguments, &to, &scalars, sum);
    } else {
        store_lines(&arguments, &to, &scalars, sum);
    }
}
