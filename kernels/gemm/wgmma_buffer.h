/*
 * wgmma_buffer.h - how results are rounded into a buffer in shared memory, and how they are carried out of it to D, by
 * the copy engine or where it cannot: a part of wgmma.cu.
 *
 * A buffer is 128 bytes along m of BUFFER_ROWS columns of D, under the 128-byte swizzle: 16-byte piece p of row r
 * stands at place p ^ (r mod 8) of its row, so that threads which take a column of pieces have all banks to themselves.
 *
 *     registers --stmatrix--> buffer --copy engine-----> D
 *                                    --16 bytes a lane--> D     where D does not lie as the engine wants it
 */
#ifndef CARAT_GEMM_WGMMA_BUFFER_H
#define CARAT_GEMM_WGMMA_BUFFER_H

#include "../ptx/store_matrix.h"

/* ---- Into a buffer ---- */

/* Byte offset of a 16-byte piece of a buffer's row, under the swizzle. */
static __device__ inline int piece_at(int row, int piece)
{
    return row * ROW_BYTES + ((piece ^ (row & 7)) << 4);
}

/*
 * Where a lane's first 16 bytes of 16-bit results go, and its first 8 or 4 of 32-bit ones. It is worked out once for all
 * pieces of a tile; the rest are a constant away, or a constant of the swizzle.
 */
static __device__ inline int place_of_16(standing at)
{
    int matrix = at.lane / 8; /* of the four 8 x 8 of a store whose row this lane points to */
    if (!SWAPPED && ROWS_IN_PAIRS) {
        return piece_at(2 * at.member, 2 * at.warp + at.group / 4) + at.group % 4 * 4; /* of its own pair */
    }
    return SWAPPED ? piece_at(FIRST_OF_ROWS(at.lane % 8) + matrix % 2 * SECOND_ROW, matrix / 2)
                   : piece_at(8 * (matrix / 2) + at.lane % 8, 2 * at.warp + matrix % 2);
}
static __device__ inline int place_of_32(standing at)
{
    int m = at.warp % 2 * 16 + FIRST_OF_ROWS(at.group);
    return SWAPPED ? piece_at(FIRST_OF_ROWS(at.group), at.member / 2) + at.member % 2 * 8
                   : piece_at(2 * at.member, m / 4) + m % 4 * 4;
}

/*
 * 16-bit results, two in a word: `width` along m, or BUFFER_ROWS columns of 64 where the rows run along m. There rows in pairs
 * are neighbours along m, and a word has both of a column: each lane stores its own.
 */
static __device__ __forceinline__ void fill_words(int place, unsigned char *buffer, const uint32_t *words,
                                                  int width)
{
#pragma unroll
    for (int j = 0; j < (SWAPPED ? 64 : BUFFER_ROWS) / 8; j += 2) {
        if (SWAPPED && 8 * j >= width) {
            continue;
        }
        if (SWAPPED) {
            store_matrix_x4(buffer + (place ^ j << 4), words + 2 * j);
        } else if (ROWS_IN_PAIRS) {
#pragma unroll
            for (int e = 0; e < 4; ++e) { /* columns e % 2 of eight, then of the next eight */
                int row = 8 * (j + e / 2) + e % 2;
                *(uint32_t *)(buffer + (place ^ e % 2 << 4) + row * ROW_BYTES) = words[2 * j + e];
            }
        } else {
            store_matrix_x4_trans(buffer + place + 8 * j * ROW_BYTES, words + 2 * j);
        }
    }
}

/* Two results as 16-bit ones in a word; of rows of 16-bit types always theirs. */
static __device__ inline uint32_t pack_result(float low, float high, int32_t type)
{
#if ELEMENT == ELEMENT_F16
    (void)type;
    return pack_f16(low, high);
#elif ELEMENT == ELEMENT_BF16
    (void)type;
    return pack_bf16(low, high);
#else
    return type == ELEMENT_BF16 ? pack_bf16(low, high) : pack_f16(low, high);
#endif
}

#if FINISHES

/* The type of what is finished; and two results of it, of which what is less than 0 is 0, as by relu(). */
#if ELEMENT == ELEMENT_F16
#define FINISHED_TYPE ELEMENT_F16
#else
#define FINISHED_TYPE ELEMENT_BF16
#endif

static __device__ inline uint32_t pack_above_zero(float low, float high)
{
    return FINISHED_TYPE == ELEMENT_F16 ? f16x2_above_zero(low, high) : bf16x2_above_zero(low, high);
}

#endif

/* The same from the values, from column `first` of the sums on. */
static __device__ __forceinline__ void fill_16(int place, unsigned char *buffer, const float *value,
                                               int first, int32_t type, int width)
{
#if STORED_N % 16 != 0
    uint32_t words[16] = {
        0}; /* of the last piece eight columns more are stored than there are, and are nobody's */
#else
    uint32_t words[16];
#endif
#pragma unroll
    for (int w = 0; w < (SWAPPED ? 64 : BUFFER_ROWS) / 4; ++w) {
        int i = first / 2 + 2 * w;
        if (SWAPPED && 4 * w >= width) {
            continue;
        }
        if (!SWAPPED && ROWS_IN_PAIRS) {
            i = first / 2 + w / 2 * 4 + w % 2; /* the pair of one column, not two columns of a row */
            words[w] = pack_result(value[i], value[i + 2], type);
            continue;
        }
        words[w] = pack_result(value[i], value[i + 1], type);
    }
    fill_words(place, buffer, words, width);
}

/*
 * 32-bit results or sums: `width` along m. Where the rows run along m a buffer has the 32 of two warps, which `mine` says;
 * sums that neighbour each other there lie in neighbouring rows of it.
 */
static __device__ __forceinline__ void fill_32(int place, unsigned char *buffer, const uint32_t *value,
                                               int first, int mine, int width)
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
                int turn = j << 5 ^ (ROWS_IN_PAIRS ? r << 4 : 0); /* the next row's swizzle */
                uint2 both = {value[i], value[i + 1]};
                *(uint2 *)(buffer + (place ^ turn) + r * SECOND_ROW * ROW_BYTES) = both;
            }
        }
    } else if (mine) {
#pragma unroll
        for (int j = 0; j < BUFFER_ROWS / 8; ++j) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int i = (first / 8 + j) * 4 + e;
                /* The next row's swizzle; then 8 further along m, or the next. */
                int turn = (e % 2 << 4) ^ (ROWS_IN_PAIRS ? e / 2 << 2 : e / 2 << 5);
                *(uint32_t *)(buffer + (place ^ turn) + (8 * j + e % 2) * ROW_BYTES) = value[i];
            }
        }
    }
}

/* 8-bit results: 128 along m, or what is left of the tile; where the rows run along m there are but 64 of them. */
static __device__ __forceinline__ void fill_8(standing at, unsigned char *buffer, const float *value,
                                              int first, int32_t type)
{
    int row = FIRST_OF_ROWS(at.group);
    int place = SWAPPED ? piece_at(row, 0) + 2 * at.member : piece_at(2 * at.member, at.warp) + row;
#pragma unroll
    for (int j = 0; j < (SWAPPED ? (STORED_N < 128 ? STORED_N : 128) : BUFFER_ROWS) / 8; ++j) {
        if (first + 8 * j >= STORED_N) {
            continue;
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            int i = (first / 8 + j) * 4 + 2 * r;
            uint16_t both =
                type == ELEMENT_E4M3 ? pack_e4m3(value[i], value[i + 1]) : pack_s8(value[i], value[i + 1]);
            if (SWAPPED) {
                int turn = j / 2 << 4 ^ (ROWS_IN_PAIRS ? r << 4 : 0);
                *(uint16_t *)(buffer + (place ^ turn) + j % 2 * 8 + r * SECOND_ROW * ROW_BYTES) = both;
            } else {
                unsigned char *to = buffer + 8 * j * ROW_BYTES + SECOND_ROW * r;
                to[place] = (unsigned char)both;
                to[(place ^ 1 << 4) + ROW_BYTES] = (unsigned char)(both >> 8);
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
    tile.problem = here.problem;
    if (has_partials(gemm)) {
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
    char *base = (char *)(has_partials(gemm) ? gemm->partials : gemm->d);
    int64_t stride = has_partials(gemm) ? gemm->m * gemm->n : gemm->stride_d;
    int64_t ld = has_partials(gemm) ? gemm->m : gemm->ldd;
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

/* Stores what of a buffer lies inside, `length` bytes of each column, all of which lie at 16 bytes. */
static __device__ __forceinline__ void copy_aligned(int index, const unsigned char *buffer, char *first,
                                                    int64_t ld_bytes, int columns, int length)
{
#pragma unroll
    for (int row = 0; row < BUFFER_ROWS; row += STORERS / 8) {
        int column = row + index / 8;
        if (column < columns && index % 8 * 16 < length) {
            *(uint4 *)(first + column * ld_bytes + index % 8 * 16) =
                *(const uint4 *)(buffer + piece_at(column, index % 8));
        }
    }
}

/* The 16 bytes from byte `offset` of the first of two neighbouring pieces on; a multiple of so many `bytes`, 2 or 4. */
static __device__ __forceinline__ uint4 join(uint4 low, uint4 high, int offset, int bytes)
{
    uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int i = 0; i < 6; ++i) {
        word[i] = offset & 8 ? word[i + 2] : word[i];
    }
#pragma unroll
    for (int i = 0; i < 5; ++i) {
        word[i] = offset & 4 ? word[i + 1] : word[i];
    }
    uint32_t selector = bytes < 4 && offset & 2 ? 0x5432 : 0x3210;
    return make_uint4(__byte_perm(word[0], word[1], selector), __byte_perm(word[1], word[2], selector),
                      __byte_perm(word[2], word[3], selector), __byte_perm(word[3], word[4], selector));
}

#define COLUMNS_AT_ONCE 4 /* of a thread */

/*
 * Stores `columns` of D, BUFFER_ROWS at most, of which so many pieces of 128 bytes stand at `from`, `stride` from one to the
 * next, and `length` bytes lie inside; wherever they begin. What of each lies at 16 bytes goes so, the edges element by
 * element. `pieces` and `bytes` of an element are constants, `index` is the thread's among those that store.
 */
static __device__ __forceinline__ void copy_columns(int index, const unsigned char *from, uint32_t stride,
                                                    int pieces, char *to, int64_t ld_bytes, int columns,
                                                    int length, int bytes)
{
    const int vectors = pieces * 8;
    const int lanes = vectors > 16 ? 32 : vectors > 8 ? 16 : 8; /* of a column */
    const int edge_lanes = bytes < 4 ? 16 : 8;
    int low = index % lanes;
    int high = low < vectors - 1 ? low + 1 : low;
    /* Rolled up, as the edges are, for it is of a block's last tile alone; of planes ptxas would spill a register then. */
    const int rounds_in_line = PLANES > 1 ? BUFFER_ROWS : 1;
#pragma unroll(rounds_in_line)
    for (int first = 0; first < BUFFER_ROWS; first += STORERS / lanes * COLUMNS_AT_ONCE) {
        uint4 joined[COLUMNS_AT_ONCE];
        char *at[COLUMNS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < COLUMNS_AT_ONCE; ++i) {
            if (first + i * (STORERS / lanes) >= BUFFER_ROWS) {
                continue;
            }
            int column = first + i * (STORERS / lanes) + index / lanes;
            char *begin = to + column * ld_bytes;
            int head = (int)(-(uintptr_t)begin % 16);
            joined[i] =
                join(*(const uint4 *)(from + low / 8 * stride + piece_at(column, low % 8)),
                     *(const uint4 *)(from + high / 8 * stride + piece_at(column, high % 8)), head, bytes);
            at[i] = column < columns && head + 16 * low + 16 <= length ? begin + head + 16 * low : 0;
        }
#pragma unroll
        for (int i = 0; i < COLUMNS_AT_ONCE; ++i) {
            if (first + i * (STORERS / lanes) < BUFFER_ROWS && at[i]) {
                *(uint4 *)at[i] = joined[i];
            }
        }
    }
#pragma unroll 1
    for (int first = 0; first < BUFFER_ROWS; first += STORERS / edge_lanes) {
        int column = first + index / edge_lanes;
        char *begin = to + column * ld_bytes;
        edges edges = edges_of(begin, length);
        int byte = index % edge_lanes * bytes;
        int is_edge = column < columns && byte < edges.head + edges.tail;
        byte += byte < edges.head ? 0 : length - edges.head - edges.tail;
        if (is_edge) {
            copy_element(begin + byte,
                         from + byte / ROW_BYTES * stride + piece_at(column, byte / 16 % 8) + byte % 16,
                         bytes);
        }
    }
}

/*
 * Stores what can go out when piece `number` of a warp's 16 columns of results of 2 or 4 bytes has come into `buffer`, the one
 * before being in `before` yet: eight vectors of 16 bytes of each column. The first begins where memory has a multiple of `unit`,
 * 16 or 32 bytes, less than that before the piece does. What is left of a column before the first vector and behind the last goes
 * element by element.
 *
 *     pieces      |       0       |       1       |       2       |
 *     vectors     . e|---|---|---|---|---|---|---|---|---|---|---|e
 *     with piece     0           | 1             | 2
 *
 * 32 bytes are a sector of memory, and of 32-bit results, whose way to memory is what takes time, two pieces share none then: 8195 x 8192
 * x 64 of tf32 223 to 164 us. 16-bit results are slower so: more of a column are edges.
 */
static __device__ __forceinline__ void copy_piece(standing at, const unsigned char *buffer,
                                                  const unsigned char *before, const destination *to,
                                                  int number, int bytes, int unit)
{
    int length = (to->rows < STORED_N ? to->rows : STORED_N) * bytes;
    int first = number * ROW_BYTES;
    int place = at.lane % 8;
#pragma unroll 4
    for (int row = 0; row < BUFFER_ROWS; row += 4) {
        int column = row + at.lane / 8;
        char *begin = to->first + column * to->ld_bytes;
        int past = (int)((uintptr_t)begin % (unsigned)unit);
        int byte = first + 16 * place - past;
        int low = place - (past + 15) / 16; /* of the two pieces of 16 bytes that the vector lies in */
        int high = low + 1;
        uint4 joined = join(*(const uint4 *)((low < 0 ? before : buffer) + piece_at(column, low & 7)),
                            *(const uint4 *)((high < 0 ? before : buffer) + piece_at(column, high & 7)),
                            -past & 15, bytes);
        if (column < to->columns && byte >= 0 && byte + 16 <= length) {
            *(uint4 *)(begin + byte) = joined;
        }
    }
    int last = (length - 1) / ROW_BYTES * ROW_BYTES;
    if (first != 0 && first != last) {
        return;
    }
#pragma unroll 1
    for (int row = 0; row < BUFFER_ROWS; row += 4) {
        int column = row + at.lane / 8;
        char *begin = to->first + column * to->ld_bytes;
        int past = (int)((uintptr_t)begin % (unsigned)unit);
        int head = -past & 15;
        int tail = head + (length - head) / 16 * 16;
        tail = tail < last + ROW_BYTES - past ? tail : last + ROW_BYTES - past;
        int byte = bytes * place;
        if (first == 0 && column < to->columns && byte < head && byte < length) {
            copy_element(begin + byte, buffer + piece_at(column, 0) + byte, bytes);
        }
        byte += tail;
        if (first == last && column < to->columns && byte >= head && byte < length) {
            const unsigned char *from = byte < last ? before : buffer;
            copy_element(begin + byte, from + piece_at(column, byte % ROW_BYTES / 16) + byte % 16, bytes);
        }
    }
}

/*
 * Stores a buffer, whose first element is (m, n) of the tile and which holds `width` elements along m. Columns may
 * begin anywhere:
 *
 *     | . . e e e e e e | 16 bytes | 16 bytes | ... | e e . . . . . . |
 *
 * What lies at 16 bytes goes so, eight lanes a column; then the elements at the edges one by one. Elements of four bytes
 * go one a lane: a whole warp's are one access anyhow. (Of a warp with whole columns they are copy_piece()'s.)
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
        copy_aligned(index, buffer, first, to->ld_bytes, columns, length);
        return;
    }
    if (!SWAPPED && bytes == 4) {
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

/* ---- By the engine ---- */

/* Waits until the engine has read all buffers that it was sent. */
static __device__ inline void await_buffers(standing at, int consumer)
{
    if (at.thread % STORERS == 0) {
        tensor_store_wait_read(0);
    }
    meet_storers(consumer);
}

/* As await_buffers(), for all but the buffer that was sent last. */
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

#if LATE_WORDS > 0

/* The last results of a tile, which are final, but not in memory yet. 16-bit ones are two in a word. */
typedef struct late_tile {
    uint32_t words[LATE_WORDS];
} late_tile;

/* Nothing waits: the words are given a value, so that nobody keeps registers for the old ones. */
static __device__ __forceinline__ void forget_words(late_tile *late)
{
#pragma unroll
    for (int i = 0; i < LATE_WORDS; ++i) {
        late->words[i] = 0;
    }
}

#endif

#endif
