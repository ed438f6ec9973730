/*
 * wgmma_epilogue.h - the way of a consumer's sums to D, the second half of wgmma.cu.
 *
 * First the sums become D's values where they stand, in registers; then they are rounded and go by way of buffers in
 * shared memory (a block's last tile: of its stages), each 128 bytes of BUFFER_ROWS columns of D under the 128-byte
 * swizzle:
 *
 *     registers --stmatrix--> buffer --copy engine-----> D
 *                                    --16 bytes a lane--> D     where D does not lie as the engine wants it
 *
 * Where there are registers to spare a tile waits in them, and is stored while the next tile is multiplied.
 *
 * Or the bare sums go to the partial sums of a split k in the same two steps.
 */
#ifndef CARAT_KERNELS_WGMMA_EPILOGUE_H
#define CARAT_KERNELS_WGMMA_EPILOGUE_H

#include "../ptx/store_matrix.h"
#include "epilogue.h"

/* Where a thread stands among the sums: see wgmma.h. */
typedef struct standing {
    int thread; /* in its warpgroup */
    int warp;
    int lane;
    int group;
    int member;
} standing;

/*
 * The number is read anew for each tile: from threadIdx the compiler would work out all addresses before the first
 * tile and keep them in registers that the sums need.
 */
static __device__ inline standing standing_of_thread(void)
{
    int thread = (int)thread_number();
    standing at;
    at.thread = thread % WARPGROUP;
    at.warp = thread / 32 % 4;
    at.lane = thread % 32;
    at.group = at.lane / 4;
    at.member = at.lane % 4;
    return at;
}

/* Row and column of sum number i in the consumer's 64 x WGMMA_N. */
static __device__ inline int row_of(standing at, int i) { return 16 * at.warp + at.group + i % 4 / 2 * 8; }
static __device__ inline int column_of(standing at, int i) { return i / 4 * 8 + 2 * at.member + i % 2; }

/* The same along m and along n. */
static __device__ inline int along_m(standing at, int i)
{
    return SWAPPED ? column_of(at, i) : row_of(at, i);
}
static __device__ inline int along_n(standing at, int i)
{
    return SWAPPED ? row_of(at, i) : column_of(at, i);
}

static __device__ inline void meet(int consumer) { barrier_sync(1 + consumer, WARPGROUP); }

/* Those who store together. */
static __device__ inline void meet_storers(int consumer)
{
    if (STORERS == 32) {
        __syncwarp();
    } else {
        meet(consumer);
    }
}

/* A thread's rows in its buffer. */
static __device__ inline int buffer_row_of(standing at, int i) { return at.group + i % 4 / 2 * 8; }

/* ---- From sums to values ---- */

/* How many of a tile's rows or columns lie in the matrix, where so many are left. */
static __device__ inline int inside(int64_t left) { return left < WGMMA_N + 64 ? (int)left : WGMMA_N + 64; }

/* An element of C of less than 32 bits. */
static __device__ inline float load_narrow(const void *c, int64_t index, int32_t type)
{
#if ELEMENT == ELEMENT_F16 || ELEMENT == ELEMENT_BF16
    (void)type; /* C is of A's type */
    return widen(((const element *)c)[index]);
#else
    return load_result_as_f32(c, index, type);
#endif
}

/* Adds beta * C; unaligned C and any edge are allowed, so each element is read by itself. */
static __device__ inline void add_c(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                    place share, float beta)
{
    int32_t type = gemm->epilogue.result_type;
    int64_t first = share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        if (i % 16 == 0) {
            __syncwarp(); /* or the compiler has more loads under way than it has registers */
        }
        if (along_m(at, i) < rows && along_n(at, i) < columns) {
            int64_t index = first + along_m(at, i) + along_n(at, i) * gemm->ldc;
            float c =
                type == ELEMENT_F32 ? ((const float *)gemm->c)[index] : load_narrow(gemm->c, index, type);
            value[i] = fmaf(beta, c, value[i]);
        }
    }
}

/* Adds the bias, read once into shared memory as f32. */
static __device__ inline void add_bias(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                       place share, float *shared_bias, int consumer)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    int64_t first = epilogue->bias_along_n ? share.column : share.row;
    int64_t left = (epilogue->bias_along_n ? gemm->n : gemm->m) - first;
    int count = epilogue->bias_along_n == SWAPPED ? 64 : WGMMA_N;
    meet(consumer); /* everybody has read the last tile's */
    for (int i = at.thread; i < count; i += WARPGROUP) {
        shared_bias[i] =
            i < left ? load_result_as_f32(epilogue->bias, share.problem * epilogue->stride_bias + first + i,
                                          epilogue->bias_type)
                     : 0;
    }
    meet(consumer);
    if (epilogue->bias_along_n == SWAPPED) {
        float low = shared_bias[row_of(at, 0)];
        float high = shared_bias[row_of(at, 2)];
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] += i % 4 < 2 ? low : high;
        }
    } else {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; i += 4) {
            float2 both = *(const float2 *)&shared_bias[column_of(at, i)];
            value[i] += both.x;
            value[i + 1] += both.y;
            value[i + 2] += both.x;
            value[i + 3] += both.y;
        }
    }
}

/* Whether the sums are D's values as they are. */
static __device__ inline int epilogue_is_plain(const gemm_arguments *gemm)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    if (gemm->partials) {
        return 1;
    }
#if ELEMENT == ELEMENT_S8
    if (epilogue->result_type == ELEMENT_S32) {
        return scalar_s32(gemm->alpha) == 1 && scalar_s32(gemm->beta) == 0 && !epilogue->bias &&
               epilogue->activation == ACTIVATION_NONE;
    }
#endif
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, gemm->alpha, gemm->beta);
    return scalars.alpha == 1 && scalars.beta == 0 && scalars.scale_d == 1 && !epilogue->bias &&
           epilogue->activation == ACTIVATION_NONE;
}

/* Everything but the rounding: value holds the sums, and then D's elements. */
static __device__ inline void finish_values(standing at, float value[WGMMA_SUMS], const gemm_arguments *gemm,
                                            place share, float *shared_bias, int consumer)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    epilogue_scalars scalars = epilogue_scalars_of(epilogue, gemm->alpha, gemm->beta);
    if (scalars.alpha != 1) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] *= scalars.alpha;
        }
    }
    if (scalars.beta != 0) {
        add_c(at, value, gemm, share, scalars.beta);
    }
    if (epilogue->bias) {
        add_bias(at, value, gemm, share, shared_bias, consumer);
    }
    activate_all(value, WGMMA_SUMS, epilogue->activation);
    if (scalars.scale_d != 1) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            value[i] *= scalars.scale_d;
        }
    }
}

#if ELEMENT == ELEMENT_S8

/* The same in s32, modulo 2^32: for D of s32. */
static __device__ inline void finish_integers(standing at, wgmma_sum sum[WGMMA_SUMS],
                                              const gemm_arguments *gemm, place share)
{
    const epilogue_arguments *epilogue = &gemm->epilogue;
    uint32_t alpha = scalar_s32(gemm->alpha);
    uint32_t beta = scalar_s32(gemm->beta);
    int rows = inside(gemm->m - share.row);
    int columns = inside(gemm->n - share.column);
    const int32_t *bias = (const int32_t *)epilogue->bias + share.problem * epilogue->stride_bias +
                          (epilogue->bias_along_n ? share.column : share.row);
    const int32_t *c =
        (const int32_t *)gemm->c + share.problem * gemm->stride_c + share.row + share.column * gemm->ldc;
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        if (i % 16 == 0) {
            __syncwarp(); /* as in add_c */
        }
        uint32_t value = alpha * (uint32_t)sum[i];
        if (along_m(at, i) < rows && along_n(at, i) < columns) {
            if (beta != 0) {
                value += beta * (uint32_t)c[along_m(at, i) + along_n(at, i) * gemm->ldc];
            }
            if (epilogue->bias) {
                value += (uint32_t)bias[epilogue->bias_along_n ? along_n(at, i) : along_m(at, i)];
            }
        }
        if (epilogue->activation == ACTIVATION_RELU && (int32_t)value < 0) {
            value = 0;
        }
        sum[i] = (int32_t)value;
    }
}

#endif

/* ---- Into a buffer ---- */

/* Byte offset of a 16-byte piece of a buffer's row, under the swizzle. */
static __device__ inline int piece_at(int row, int piece)
{
    return row * ROW_BYTES + ((piece ^ (row & 7)) << 4);
}

/* 16-bit results, two in a word: `width` along m, or BUFFER_ROWS columns of 64 where the rows run along m. */
static __device__ __forceinline__ void fill_words(standing at, unsigned char *buffer, const uint32_t *words,
                                                  int width)
{
    int matrix = at.lane / 8; /* of the four 8 x 8 of a store whose row this lane points to */
#pragma unroll
    for (int j = 0; j < (SWAPPED ? 64 : BUFFER_ROWS) / 8; j += 2) {
        if (SWAPPED && 8 * j >= width) {
            continue;
        }
        if (SWAPPED) {
            int row = 8 * (matrix % 2) + at.lane % 8;
            store_matrix_x4(buffer + piece_at(row, j + matrix / 2), words + 2 * j);
        } else {
            int row = 8 * (j + matrix / 2) + at.lane % 8;
            store_matrix_x4_trans(buffer + piece_at(row, 2 * at.warp + matrix % 2), words + 2 * j);
        }
    }
}

/* The same from the values, from column `first` of the sums on. */
static __device__ __forceinline__ void fill_16(standing at, unsigned char *buffer, const float *value,
                                               int first, int32_t type, int width)
{
    uint32_t words[16];
#pragma unroll
    for (int w = 0; w < (SWAPPED ? 64 : BUFFER_ROWS) / 4; ++w) {
        int i = first / 2 + 2 * w;
        if (SWAPPED && 4 * w >= width) {
            continue;
        }
        words[w] =
            type == ELEMENT_BF16 ? pack_bf16(value[i], value[i + 1]) : pack_f16(value[i], value[i + 1]);
    }
    fill_words(at, buffer, words, width);
}

/* 32-bit results or sums: `width` along m; half says which 32 of the rows where they run along m. */
static __device__ __forceinline__ void fill_32(standing at, unsigned char *buffer, const uint32_t *value,
                                               int first, int half, int width)
{
    if (SWAPPED) {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            if (8 * j >= width) {
                continue;
            }
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                int i = (first / 8 + j) * 4 + 2 * r;
                uint2 both = {value[i], value[i + 1]};
                *(uint2 *)(buffer + piece_at(buffer_row_of(at, i), 2 * j + at.member / 2) +
                           at.member % 2 * 8) = both;
            }
        }
    } else if (at.warp / 2 == half) {
#pragma unroll
        for (int j = 0; j < BUFFER_ROWS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int i = (first / 8 + j) * 4 + e;
                int row = 8 * j + 2 * at.member + e % 2;
                int m = at.warp % 2 * 16 + at.group + e / 2 * 8;
                *(uint32_t *)(buffer + piece_at(row, m / 4) + m % 4 * 4) = value[i];
            }
        }
    }
}

/* 8-bit results: 128 along m, or what is left of the tile; where the rows run along m there are but 64 of them. */
static __device__ __forceinline__ void fill_8(standing at, unsigned char *buffer, const float *value,
                                              int first, int32_t type)
{
#pragma unroll
    for (int j = 0; j < (SWAPPED ? (WGMMA_N < 128 ? WGMMA_N : 128) : BUFFER_ROWS) / 8; ++j) {
        if (first + 8 * j >= WGMMA_N) {
            continue;
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int i = (first / 8 + j) * 4 + 2 * r;
            uint16_t both =
                type == ELEMENT_E4M3 ? pack_e4m3(value[i], value[i + 1]) : pack_s8(value[i], value[i + 1]);
            if (SWAPPED) {
                *(uint16_t *)(buffer + piece_at(buffer_row_of(at, i), j / 2) + j % 2 * 8 + 2 * at.member) =
                    both;
            } else {
                int m = row_of(at, i);
                int row = 8 * j + 2 * at.member;
                buffer[piece_at(row, m / 16) + m % 16] = (unsigned char)both;
                buffer[piece_at(row + 1, m / 16) + m % 16] = (unsigned char)(both >> 8);
            }
        }
    }
}

/* ---- Out of a buffer ---- */

/* Where a thread's storers begin in D, or among the partial sums. */
typedef struct place_of_tile {
    int m;
    int n;
    int problem; /* or the part, counted through all problems */
} place_of_tile;

static __device__ inline place_of_tile place_of_storers(const gemm_arguments *gemm, place here, standing at)
{
    place_of_tile tile;
    tile.m = here.row;
    tile.n = here.column + (STORERS == 32 ? 16 * at.warp : 0);
    tile.problem = gemm->stride_d != 0 ? here.problem : 0;
    if (gemm->partials) {
        tile.problem = here.problem * gemm->parts + here.part;
    }
    return tile;
}

/* The same in memory. */
typedef struct destination {
    char *first; /* its first element */
    int64_t ld_bytes;
    int rows; /* elements along m and columns that lie inside */
    int columns;
} destination;

static __device__ inline destination destination_of(const gemm_arguments *gemm, const place_of_tile *tile,
                                                    int bytes)
{
    char *base = (char *)(gemm->partials ? gemm->partials : gemm->d);
    int64_t stride = gemm->partials ? gemm->m * gemm->n : gemm->stride_d;
    int64_t ld = gemm->partials ? gemm->m : gemm->ldd;
    destination to;
    to.ld_bytes = ld * bytes;
    to.first = base + (tile->problem * stride + tile->m) * bytes + tile->n * to.ld_bytes;
    to.rows = inside(gemm->m - tile->m);
    to.columns = inside(gemm->n - tile->n);
    return to;
}

/* Bytes of an element of D, or of the sums that are stored instead. */
static __device__ inline int result_bytes(const gemm_arguments *gemm)
{
    int32_t type = gemm->epilogue.result_type;
    if (gemm->partials || type == ELEMENT_F32 || type == ELEMENT_S32) {
        return 4;
    }
    return type == ELEMENT_F16 || type == ELEMENT_BF16 ? 2 : 1;
}

static __device__ inline void copy_element(char *to, const unsigned char *from, int bytes)
{
    if (bytes == 4) {
        *(uint32_t *)to = *(const uint32_t *)from;
    } else if (bytes == 2) {
        *(uint16_t *)to = *(const uint16_t *)from;
    } else {
        *to = (char)*from;
    }
}

/* 16 bytes of a buffer's row from `byte` on, out of the two pieces that they lie in. */
static __device__ __forceinline__ uint4 bytes_of_row(const unsigned char *buffer, int row, int byte)
{
    uint4 low = *(const uint4 *)(buffer + piece_at(row, byte / 16));
    int offset = byte % 16;
    if (offset == 0) {
        return low;
    }
    uint4 high = *(const uint4 *)(buffer + piece_at(row, byte / 16 + 1));
    if (offset & 8) {
        low = make_uint4(low.z, low.w, high.x, high.y);
        high.x = high.z;
        high.y = high.w;
    }
    if (offset & 4) {
        low = make_uint4(low.y, low.z, low.w, high.x);
        high.x = high.y;
    }
    uint32_t selector = 0x3210 + 0x1111 * (uint32_t)(offset % 4);
    return make_uint4(__byte_perm(low.x, low.y, selector), __byte_perm(low.y, low.z, selector),
                      __byte_perm(low.z, low.w, selector), __byte_perm(low.w, high.x, selector));
}

/* Bytes of a column that begins at an address: before the first 16 that lie at 16 bytes, and after the last. */
typedef struct edges {
    int head;
    int tail;
} edges;

static __device__ __forceinline__ edges edges_of(const char *first, int bytes)
{
    edges edges;
    int head = (int)(-(uintptr_t)first % 16);
    edges.head = head < bytes ? head : bytes;
    edges.tail = (bytes - edges.head) % 16;
    return edges;
}

/*
 * Stores a buffer, whose first element is (m, n) of the tile and which holds `width` elements along m. Columns may
 * begin anywhere:
 *
 *     | . . e e e e e e | 16 bytes | 16 bytes | ... | e e . . . . . . |
 *
 * What lies at 16 bytes goes so, eight lanes a column; then the elements at the edges one by one. Elements of four bytes
 * go one a lane: a whole warp's are one access anyhow.
 */
static __device__ __forceinline__ void copy_out(standing at, const unsigned char *buffer,
                                                const destination *to, int m, int n, int width, int bytes)
{
    char *first = to->first + m * bytes + n * to->ld_bytes;
    int rows = to->rows - m < width ? to->rows - m : width;
    int columns = to->columns - n < BUFFER_ROWS ? to->columns - n : BUFFER_ROWS;
    int length = rows * bytes;
    if (length <= 0) {
        return;
    }
    int index = STORERS == 32 ? at.lane : at.thread;
    if (((uintptr_t)first | (uint64_t)to->ld_bytes | (uint64_t)length) % 16 == 0) {
#pragma unroll
        for (int row = 0; row < BUFFER_ROWS; row += STORERS / 8) {
            int column = row + index / 8;
            if (column < columns && index % 8 * 16 < length) {
                *(uint4 *)(first + column * to->ld_bytes + index % 8 * 16) =
                    *(const uint4 *)(buffer + piece_at(column, index % 8));
            }
        }
        return;
    }
    if (bytes == 4) {
#pragma unroll 4
        for (int row = 0; row < BUFFER_ROWS; row += STORERS / 32) {
            int column = row + index / 32;
            int lane = index % 32;
            if (column < columns && lane < rows) {
                *(uint32_t *)(first + column * to->ld_bytes + lane * 4) =
                    *(const uint32_t *)(buffer + piece_at(column, lane / 4) + lane % 4 * 4);
            }
        }
        return;
    }
#pragma unroll 1
    for (int column = index / 8; column < columns; column += STORERS / 8) {
        char *begin = first + column * to->ld_bytes;
        int byte = edges_of(begin, length).head + index % 8 * 16;
        if (byte + 16 <= length) {
            *(uint4 *)(begin + byte) = bytes_of_row(buffer, column, byte);
        }
    }
    /* Of a whole piece the edges are 16 bytes together, of another 30 at most. */
    int shift = (length == ROW_BYTES ? 4 : 5) - bytes / 2;
#pragma unroll 1
    for (int i = index; i >> shift < columns; i += STORERS) {
        int column = i >> shift;
        int byte = (i - (column << shift)) * bytes;
        char *begin = first + column * to->ld_bytes;
        edges edges = edges_of(begin, length);
        if (byte < edges.head + edges.tail) {
            byte += byte < edges.head ? 0 : length - edges.head - edges.tail;
            copy_element(begin + byte, buffer + piece_at(column, byte / 16) + byte % 16, bytes);
        }
    }
}

/* Pieces of 128 bytes along m, times BUFFER_ROWS columns, that a consumer's results make. */
#define PIECE_COUNT(bytes)                                                                                   \
    (SWAPPED ? (WGMMA_N * (bytes) + ROW_BYTES - 1) / ROW_BYTES                                               \
             : (64 * (bytes) + ROW_BYTES - 1) / ROW_BYTES * (WGMMA_N / BUFFER_ROWS))

/* Where piece `number` begins in the consumer's part of a tile. */
static __device__ __forceinline__ int piece_m(int number, int bytes)
{
    const int along_row = 64 * bytes > ROW_BYTES ? 2 : 1; /* pieces along m where the rows run along m */
    return SWAPPED ? number * (ROW_BYTES / bytes) : number % along_row * (ROW_BYTES / bytes);
}
static __device__ __forceinline__ int piece_n(int number, int bytes)
{
    const int along_row = 64 * bytes > ROW_BYTES ? 2 : 1;
    return SWAPPED ? 0 : number / along_row * BUFFER_ROWS;
}

/* Elements of the piece that begins at m, which is less than a whole one where the tile ends. */
static __device__ __forceinline__ int piece_width(int m, int bytes)
{
    int left = (SWAPPED ? WGMMA_N : 64) - m;
    return ROW_BYTES / bytes < left ? ROW_BYTES / bytes : left;
}

/*
 * The memory through which piece `number` goes: buffers in turn; of a block's last tile, after which nothing is loaded
 * any more, what the stages held of the consumer's own rows.
 */
static __device__ __forceinline__ unsigned char *buffer_of(standing at, shared_memory *shared, int consumer,
                                                           int number, int last)
{
    if (last) {
        const int of_plane = 64 * K_BYTES / BUFFER_BYTES; /* buffers in the consumer's rows of a plane */
        int buffer = STORERS == 32 ? at.warp : 0;
        return shared->stages[number % STAGES].rows[buffer / of_plane] + consumer * 64 * K_BYTES +
               buffer % of_plane * BUFFER_BYTES;
    }
    return shared->buffers[STORERS == 32 ? 4 * consumer + at.warp : consumer][number % BUFFERS];
}

/* Waits until the engine has read all buffers that it was sent. */
static __device__ inline void await_buffers(standing at, int consumer)
{
    if (at.thread % STORERS == 0) {
        tensor_store_wait_read(0);
    }
    meet_storers(consumer);
}

/* The same for all but the buffer that was sent last. */
static __device__ inline void await_buffer_before(standing at, int consumer)
{
    if (at.thread % STORERS == 0) {
        tensor_store_wait_read(1);
    }
    meet_storers(consumer);
}

/* Has the engine store a filled buffer at (m, n) of the tile. The storers have met, after a fence each. */
static __device__ __forceinline__ void send(standing at, const tensor_gemm_arguments *arguments,
                                            const unsigned char *buffer, const place_of_tile *tile, int m,
                                            int n)
{
    if (at.thread % STORERS == 0) {
        tensor_store(&arguments->d, buffer, tile->m + m, tile->n + n, tile->problem);
        tensor_store_commit();
    }
}

/* The same by the storers themselves. */
static __device__ __forceinline__ void carry(standing at, const tensor_gemm_arguments *arguments,
                                             const unsigned char *buffer, const place_of_tile *tile, int m,
                                             int n, int bytes)
{
    destination to = destination_of(&arguments->gemm, tile, bytes);
    copy_out(at, buffer, &to, m, n, piece_width(m, bytes), bytes);
}

/* Fills the buffer of piece `number` with results of so many bytes; constants. */
static __device__ __forceinline__ void fill(standing at, unsigned char *buffer, const float *value,
                                            int number, int bytes, int32_t type)
{
    const int m = piece_m(number, bytes);
    const int n = piece_n(number, bytes);
    if (bytes == 4) {
        uint32_t words[WGMMA_SUMS];
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS; ++i) {
            words[i] = __float_as_uint(value[i]);
        }
        fill_32(at, buffer, words, SWAPPED ? m : n, number % 2, piece_width(m, bytes));
    } else if (bytes == 2) {
        fill_16(at, buffer, value, SWAPPED ? m : n, type, piece_width(m, bytes));
    } else {
        fill_8(at, buffer, value, SWAPPED ? m : n, type);
    }
}

/* Whether the engine stores a piece: it knows D, and the piece is whole. */
static __device__ __forceinline__ int goes_by_engine(const tensor_gemm_arguments *arguments, int m, int bytes)
{
    return arguments->d_by_map && piece_width(m, bytes) == ROW_BYTES / bytes;
}

/*
 * Brings results of so many bytes to D, the first `count` pieces of a tile, as many at a time as there are buffers or,
 * for the last tile, stages; constants. The engine sets out with each piece as soon as it is there.
 */
static __device__ __forceinline__ void store_values(standing at, const tensor_gemm_arguments *arguments,
                                                    shared_memory *shared, const place_of_tile *tile,
                                                    const float *value, int bytes, int count, int consumer,
                                                    int last)
{
    const int together = last ? STAGES : BUFFERS;
    int32_t type = arguments->gemm.epilogue.result_type;
#pragma unroll
    for (int first = 0; first < count; first += together) {
        if (!last || first > 0) {
            await_buffers(at, consumer);
        }
#pragma unroll
        for (int i = 0; i < together; ++i) {
            if (first + i >= count) {
                continue;
            }
            unsigned char *buffer = buffer_of(at, shared, consumer, i, last);
            fill(at, buffer, value, first + i, bytes, type);
            fence_async_shared();
            meet_storers(consumer);
            const int m = piece_m(first + i, bytes);
            if (goes_by_engine(arguments, m, bytes)) {
                send(at, arguments, buffer, tile, m, piece_n(first + i, bytes));
            }
        }
        /* Nothing of this is in registers, so the code stands here once. */
#pragma unroll 1
        for (int number = first; number < first + together && number < count; ++number) {
            int m = piece_m(number, bytes);
            if (!goes_by_engine(arguments, m, bytes)) {
                const unsigned char *buffer = buffer_of(at, shared, consumer, number - first, last);
                carry(at, arguments, buffer, tile, m, piece_n(number, bytes), bytes);
            }
        }
    }
}

/* The sums become D's values, but for the rounding, where they are not with `plain`. Integers become f32 or stay. */
static __device__ __forceinline__ void values_of_sums(standing at, const gemm_arguments *gemm, place share,
                                                      wgmma_sum sum[WGMMA_SUMS], float value[WGMMA_SUMS],
                                                      float *shared_bias, int consumer, int plain)
{
#if ELEMENT == ELEMENT_S8
    int floats = !gemm->partials && gemm->epilogue.result_type != ELEMENT_S32;
    if (!plain && !floats) {
        finish_integers(at, sum, gemm, share);
    }
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        value[i] = floats ? (float)sum[i] : __int_as_float(sum[i]);
    }
    if (!plain && floats) {
        finish_values(at, value, gemm, share, shared_bias, consumer);
    }
#else
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        value[i] = sum[i];
    }
    if (!plain) {
        finish_values(at, value, gemm, share, shared_bias, consumer);
    }
#endif
}

/* ---- Storing while the next tile is multiplied ---- */

#if LATE_WORDS > 0

/* The first of the words among a tile's sums, where results have 32 bits. */
#define LATE_FIRST ((PIECE_COUNT(4) - LATE_PIECES) * 16)

/* The last results of a tile, which are final, but not in memory yet. 16-bit ones are two in a word. */
typedef struct late_tile {
    uint32_t words[LATE_WORDS];
    int left; /* pieces to be stored yet, the last ones of the tile */
} late_tile;

static __device__ inline void keep_tile(const gemm_arguments *gemm, late_tile *late,
                                        const float value[WGMMA_SUMS])
{
    late->left = LATE_PIECES;
    if (result_bytes(gemm) == 4) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS - LATE_FIRST; ++i) {
            late->words[i] = __float_as_uint(value[LATE_FIRST + i]);
        }
    } else if (gemm->epilogue.result_type == ELEMENT_BF16) {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS / 2; ++i) {
            late->words[i] = pack_bf16(value[2 * i], value[2 * i + 1]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS / 2; ++i) {
            late->words[i] = pack_f16(value[2 * i], value[2 * i + 1]);
        }
    }
}

/* Has a filled buffer stored. Everything is worked out after the filling: registers are few here. */
static __device__ __forceinline__ void store_late_piece(const tensor_gemm_arguments *arguments,
                                                        const shared_memory *shared,
                                                        const unsigned char *buffer, uint32_t number_of_tile,
                                                        int m, int bytes, int consumer)
{
    fence_async_shared();
    meet_storers(consumer);
    standing at = standing_of_thread();
    place here = part_of_consumer(shared->places[number_of_tile % PLACES], consumer);
    place_of_tile tile = place_of_storers(&arguments->gemm, here, at);
    if (goes_by_engine(arguments, m, bytes)) {
        send(at, arguments, buffer, &tile, m, 0);
    } else {
        carry(at, arguments, buffer, &tile, m, 0, bytes);
        __syncwarp(); /* instructions of whole warpgroups follow */
    }
}

/* Stores one more piece, if there is one, of the tile with that number. */
static __device__ inline void store_late(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                         late_tile *late, uint32_t number_of_tile, int consumer)
{
    if (late->left == 0) {
        return;
    }
    standing at = standing_of_thread();
    unsigned char *buffer = buffer_of(at, shared, consumer, late->left, 0);
    if (late->left == LATE_PIECES) {
        await_buffers(at, consumer); /* the tile's first pieces may have ended with any */
    } else {
        await_buffer_before(at, consumer);
    }
#pragma unroll
    for (int number = 0; number < LATE_PIECES; ++number) {
        if (number == LATE_PIECES - late->left) {
            if (result_bytes(&arguments->gemm) == 4) {
                const int m = (PIECE_COUNT(4) - LATE_PIECES + number) * (ROW_BYTES / 4);
                fill_32(at, buffer, &late->words[number * 16], 0, 0, piece_width(m, 4));
                store_late_piece(arguments, shared, buffer, number_of_tile, m, 4, consumer);
            } else {
                const int m = number * (ROW_BYTES / 2);
                fill_words(at, buffer, &late->words[number * 16], piece_width(m, 2));
                store_late_piece(arguments, shared, buffer, number_of_tile, m, 2, consumer);
            }
        }
    }
    --late->left;
}

/* Stores what is left. The words are given a value then, so that nobody keeps registers for the old ones. */
static __device__ inline void store_rest(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                         late_tile *late, uint32_t number_of_tile, int consumer)
{
    while (late->left > 0) {
        store_late(arguments, shared, late, number_of_tile, consumer);
    }
#pragma unroll
    for (int i = 0; i < LATE_WORDS; ++i) {
        late->words[i] = 0;
    }
}

#endif

/* ---- Storing at once ---- */

/* Stores the consumer's share of a tile; with but_late without the results that will be kept. Constants. */
static __device__ __forceinline__ void store_tile(standing at, const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, const place_of_tile *tile,
                                                  const float value[WGMMA_SUMS], int consumer, int but_late,
                                                  int last)
{
    int bytes = result_bytes(&arguments->gemm);
    if (bytes == 4) {
        const int first = PIECE_COUNT(4) - LATE_PIECES;
        store_values(at, arguments, shared, tile, value, 4, but_late ? first : PIECE_COUNT(4), consumer,
                     last);
    } else if (bytes == 2 && !but_late) {
        store_values(at, arguments, shared, tile, value, 2, PIECE_COUNT(2), consumer, last);
    }
#if ELEMENT == ELEMENT_S8 || ELEMENT == ELEMENT_E4M3 || ELEMENT == ELEMENT_E5M2
    else if (bytes == 1) {
        store_values(at, arguments, shared, tile, value, 1, PIECE_COUNT(1), consumer, last);
    }
#endif
}

#endif
