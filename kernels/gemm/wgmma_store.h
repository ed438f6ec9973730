/*
 * wgmma_store.h - how a consumer's results go to D, piece by piece: a part of wgmma.cu.
 *
 * A piece is what a buffer holds. Buffers are used in turn; a block's last tile, after which nothing is loaded any more,
 * goes by way of the stages. Where there are registers to spare a tile's last pieces (of 16-bit results all) wait in
 * them, and are stored while the next tile is multiplied:
 *
 *     | multiply 0 | store its first | multiply 1            | store its first | multiply 2            | store all |
 *                                    | store the rest of 0   |                 | store the rest of 1   |
 *
 * Or the bare sums go to the partial sums of a split k in the same way.
 */
#ifndef CARAT_GEMM_WGMMA_STORE_H
#define CARAT_GEMM_WGMMA_STORE_H

/* Which results rows store: 16-bit ones those of 16-bit types and of 8-bit floats, 8-bit ones those of 8-bit types. */
#define STORES_16 (ELEMENT != ELEMENT_F32 && ELEMENT != ELEMENT_S8 && PLANES == 1)
#define STORES_8 (ELEMENT == ELEMENT_S8 || ELEMENT == ELEMENT_E4M3 || ELEMENT == ELEMENT_E5M2)

/* Pieces of 128 bytes along m, times BUFFER_ROWS columns, that a consumer's results make. */
#define PIECE_COUNT(bytes)                                                                                   \
    (SWAPPED ? (STORED_N * (bytes) + ROW_BYTES - 1) / ROW_BYTES                                              \
             : (64 * (bytes) + ROW_BYTES - 1) / ROW_BYTES * ((STORED_N + BUFFER_ROWS - 1) / BUFFER_ROWS))

/* Elements of a whole piece along m. */
static __device__ __forceinline__ int row_length(int bytes)
{
    return bytes == 4 ? ROW_BYTES / 4 : bytes == 2 ? ROW_BYTES / 2 : ROW_BYTES;
}

/* Where piece `number` begins in the consumer's part of a tile. */
static __device__ __forceinline__ int piece_m(int number, int bytes)
{
    const int along_row = 64 * bytes > ROW_BYTES ? 2 : 1; /* pieces along m where the rows run along m */
    return SWAPPED ? number * row_length(bytes) : number % along_row * row_length(bytes);
}
static __device__ __forceinline__ int piece_n(int number, int bytes)
{
    const int along_row = 64 * bytes > ROW_BYTES ? 2 : 1;
    const int n = number / along_row * BUFFER_ROWS;
    return SWAPPED ? 0 : n < STORED_N - BUFFER_ROWS ? n : STORED_N - BUFFER_ROWS;
}

/* Elements of the piece that begins at m, which is less than a whole one where the tile ends. */
static __device__ __forceinline__ int piece_width(int m, int bytes)
{
    int left = (SWAPPED ? STORED_N : 64) - m;
    return row_length(bytes) < left ? row_length(bytes) : left;
}

/* The buffer through which piece `number` goes. */
static __device__ __forceinline__ unsigned char *buffer_of(standing at, shared_memory *shared, int consumer,
                                                           int number)
{
    return shared->buffers[STORERS == 32 ? 4 * consumer + at.warp : consumer][number % BUFFERS];
}

/* Or of a block's last tile, after which nothing is loaded: what a stage held of the consumer's own rows. */
static __device__ __forceinline__ unsigned char *stage_for_piece(standing at, shared_memory *shared,
                                                                 int consumer, int number)
{
    const int of_plane = 64 * K_BYTES / BUFFER_BYTES; /* buffers in the consumer's rows of a plane */
    int buffer = STORERS == 32 ? at.warp : 0;
    return shared->stages[number % STAGES].rows[buffer / of_plane] + FIRST_ROW(consumer) * K_BYTES +
           buffer % of_plane * BUFFER_BYTES;
}

/* Fills the buffer of piece `number` with results of so many bytes; constants. */
static __device__ __forceinline__ void fill(standing at, unsigned char *buffer, const float *value,
                                            int number, int bytes, int32_t type)
{
    const int m = piece_m(number, bytes);
    const int n = piece_n(number, bytes);
    if (bytes == 4) {
        uint32_t words[STORED_SUMS];
#pragma unroll
        for (int i = 0; i < STORED_SUMS; ++i) {
            words[i] = __float_as_uint(value[i]);
        }
        fill_32(place_of_32(at), buffer, words, SWAPPED ? m : n, at.warp / 2 == number % 2,
                piece_width(m, bytes));
    } else if (bytes == 2) {
        fill_16(place_of_16(at), buffer, value, SWAPPED ? m : n, type, piece_width(m, bytes));
    } else {
        fill_8(at, buffer, value, SWAPPED ? m : n, type);
    }
}

/* Whether the engine stores a piece: it knows D, and the piece is whole. */
static __device__ __forceinline__ int goes_by_engine(const tensor_gemm_arguments *arguments, int m, int bytes)
{
    return engine_knows_d(arguments) && piece_width(m, bytes) == row_length(bytes);
}

/*
 * Has piece `number` of a tile, whose buffer is filled, stored by whom it may be. The storers have met, after a fence each. Of columns
 * that a warp has the whole of, and of which the engine stores nothing, pieces end where memory wants it; 16-bit ones where
 * all of them wait, and so come one after the other.
 */
static __device__ __forceinline__ void store_filled(standing at, const tensor_gemm_arguments *arguments,
                                                    shared_memory *shared, const place_of_tile *tile,
                                                    int number, int bytes, int consumer)
{
    const unsigned char *buffer = buffer_of(at, shared, consumer, number);
    int m = piece_m(number, bytes);
    int n = piece_n(number, bytes);
    if (goes_by_engine(arguments, m, bytes)) {
        send(at, arguments, buffer, tile, m, n);
        return;
    }
    destination to = destination_of(&arguments->gemm, tile, bytes);
    const unsigned char *before = buffer_of(at, shared, consumer, number + 1);
    if (SWAPPED && bytes == 4 && !engine_knows_d(arguments)) {
        copy_piece(at, buffer, before, &to, number, 4, 32);
    } else if (LATE_PIECES > 0 && STORES_16 && bytes == 2 && !engine_knows_d(arguments)) {
        copy_piece(at, buffer, before, &to, number, 2, 16);
    } else {
        copy_out(at, buffer, &to, m, n, piece_width(m, bytes), bytes);
    }
}

/* ---- Storing while the next tile is multiplied ---- */

#if LATE_WORDS > 0

/* The first of the words among a tile's sums, where results have 32 bits. */
#define LATE_FIRST ((PIECE_COUNT(4) - LATE_PIECES) * 16)

static __device__ inline void keep_tile(const gemm_arguments *gemm, int bytes, late_tile *late,
                                        const float value[STORED_SUMS])
{
    if (bytes == 4) {
#pragma unroll
        for (int i = 0; i < STORED_SUMS - LATE_FIRST; ++i) {
            late->words[i] = __float_as_uint(value[LATE_FIRST + i]);
        }
        return;
    }
#if STORES_16
    int32_t type = gemm->epilogue.result_type;
#pragma unroll
    for (int i = 0; i < STORED_SUMS / 2; ++i) {
        late->words[i] = pack_result(value[2 * i], value[2 * i + 1], type);
    }
#endif
}

/*
 * Stores one more piece of the tile that waits, whose place is `here`. What differs from piece to piece is but which
 * registers go into the buffer: the rest stands here once. It is worked out after that: registers are few here.
 */
static __device__ __forceinline__ void store_late(const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, const late_tile *late, int left,
                                                  const place *here, int bytes, int consumer)
{
    standing at = standing_of_thread();
    int waiting = LATE_PIECES - left; /* the piece's number among those that wait, and among all */
    int number = bytes == 4 ? PIECE_COUNT(4) - LATE_PIECES + waiting : waiting;
    unsigned char *buffer = buffer_of(at, shared, consumer, number);
    if (left == LATE_PIECES) {
        /* 16-bit pieces are numbered anew in a tile: the last one may have been of any buffer. */
        await_buffers(at, consumer);
    } else {
        await_buffer_before(at, consumer);
    }
    if (bytes == 4) {
        int lane = place_of_32(at);
#pragma unroll
        for (int i = 0; i < LATE_PIECES; ++i) {
            if (i == waiting) {
                const int m = (PIECE_COUNT(4) - LATE_PIECES + i) * (ROW_BYTES / 4);
                fill_32(lane, buffer, &late->words[i * 16], 0, 1, piece_width(m, 4));
            }
        }
    }
#if STORES_16
    else {
        int lane = place_of_16(at);
#pragma unroll
        for (int i = 0; i < LATE_PIECES; ++i) {
            if (i == waiting) {
                fill_words(lane, buffer, &late->words[i * 16], piece_width(i * (ROW_BYTES / 2), 2));
            }
        }
    }
#endif
    fence_async_shared();
    meet_storers(consumer);
    at = standing_of_thread();
    place_of_tile tile = place_of_storers(&arguments->gemm, part_of_consumer(*here, consumer), at);
    store_filled(at, arguments, shared, &tile, number, bytes, consumer);
    __syncwarp(); /* instructions of whole warpgroups follow */
}

#endif

/* ---- Storing at once ---- */

/*
 * Whether a block's last tile stands in the stages before it is stored where the engine does not know D, for it is of whole
 * pieces: then columns go out as long as they are, or half of that, not by 128 bytes, each with edges.
 */
#define STORES_COLUMNS(bytes) (!TURNS && STORED_N % 64 == 0 && ((bytes) == 4 || STORES_16))

/* Pieces that the stages hold of columns: so many of each, and no more than a warp copies of one at a time. */
#define PIECES_OF_COLUMN 4
#define FIT_AT_ONCE(pieces) ((pieces) <= STAGES && (pieces) <= PIECES_OF_COLUMN)
#define PIECES_AT_ONCE(bytes)                                                                                \
    (!SWAPPED ? (bytes) / 2 : FIT_AT_ONCE(PIECE_COUNT(bytes)) ? PIECE_COUNT(bytes) : PIECE_COUNT(bytes) / 2)

static_assert(!STORES_COLUMNS(4) ||
                  (FIT_AT_ONCE(PIECES_AT_ONCE(4)) && PIECE_COUNT(4) % PIECES_AT_ONCE(4) == 0),
              "the stages hold a tile of 32 bits or half of it, and a warp a column of that");
static_assert(!STORES_COLUMNS(2) ||
                  (FIT_AT_ONCE(PIECES_AT_ONCE(2)) && PIECE_COUNT(2) % PIECES_AT_ONCE(2) == 0),
              "and one of 16 bits");

static __device__ __forceinline__ void store_columns(standing at, const tensor_gemm_arguments *arguments,
                                                     shared_memory *shared, const place_of_tile *tile,
                                                     const float value[STORED_SUMS], int bytes, int consumer)
{
    const int at_once = PIECES_AT_ONCE(bytes);
    int32_t type = arguments->gemm.epilogue.result_type;
    destination to = destination_of(&arguments->gemm, tile, bytes);
#pragma unroll 1
    for (int first = 0; first < PIECE_COUNT(bytes); first += at_once) {
#pragma unroll
        for (int i = 0; i < PIECE_COUNT(bytes); ++i) {
            if (i / at_once * at_once == first) {
                fill(at, stage_for_piece(at, shared, consumer, i % at_once), value, i, bytes, type);
            }
        }
        meet_storers(consumer);
        int m = piece_m(first, bytes);
        int n = piece_n(first, bytes);
        int rows = to.rows - m < at_once * row_length(bytes) ? to.rows - m : at_once * row_length(bytes);
        if (rows > 0) {
            copy_columns(STORERS == 32 ? at.lane : at.thread, stage_for_piece(at, shared, consumer, 0),
                         sizeof(stage), at_once, to.first + m * bytes + n * to.ld_bytes, to.ld_bytes,
                         to.columns - n, rows * bytes, bytes);
        }
        meet_storers(consumer);
    }
}

/* Fills the buffer of a piece whose number is known as the kernel runs. */
static __device__ __forceinline__ void fill_one(standing at, unsigned char *buffer, const float *value,
                                                int number, int bytes, int32_t type)
{
    const int most = LATE_PIECES > 0 ? PIECE_COUNT(4) - LATE_PIECES : PIECE_COUNT(4); /* the others wait */
    if (bytes == 4) {
#pragma unroll
        for (int i = 0; i < most; ++i) {
            if (i == number) {
                fill(at, buffer, value, i, 4, type);
            }
        }
    }
#if STORES_16 && LATE_PIECES == 0
    if (bytes == 2) {
#pragma unroll
        for (int i = 0; i < PIECE_COUNT(2); ++i) {
            if (i == number) {
                fill(at, buffer, value, i, 2, type);
            }
        }
    }
#endif
#if STORES_8
    if (bytes == 1) {
#pragma unroll
        for (int i = 0; i < PIECE_COUNT(1); ++i) {
            if (i == number) {
                fill(at, buffer, value, i, 1, type);
            }
        }
    }
#endif
}

/* Stores the first `count` pieces of a tile by way of the buffers. */
static __device__ __forceinline__ void store_pieces(standing at, const tensor_gemm_arguments *arguments,
                                                    shared_memory *shared, const place_of_tile *tile,
                                                    const float *value, int bytes, int count, int consumer)
{
    int32_t type = arguments->gemm.epilogue.result_type;
#pragma unroll 1
    for (int number = 0; number < count; ++number) {
        unsigned char *buffer = buffer_of(at, shared, consumer, number);
        if (number == 0) {
            await_buffers(at, consumer);
        } else {
            await_buffer_before(at, consumer);
        }
        fill_one(at, buffer, value, number, bytes, type);
        fence_async_shared();
        meet_storers(consumer);
        store_filled(at, arguments, shared, tile, number, bytes, consumer);
    }
}

/* Has a filled buffer stored where the engine knows D: by it, or of a piece that is not whole by the threads. */
static __device__ __forceinline__ void store_known(standing at, const tensor_gemm_arguments *arguments,
                                                   const unsigned char *buffer, const place_of_tile *tile,
                                                   int number, int bytes, int consumer)
{
    const int m = piece_m(number, bytes);
    const int n = piece_n(number, bytes);
    const int width = piece_width(m, bytes);
    if (width == row_length(bytes)) {
        fence_async_shared();
        meet_storers(consumer);
        send(at, arguments, buffer, tile, m, n);
    } else {
        destination to = destination_of(&arguments->gemm, tile, bytes);
        int rows = to.rows - m < width ? to.rows - m : width;
        meet_storers(consumer);
        copy_aligned(STORERS == 32 ? at.lane : at.thread, buffer, to.first + m * bytes + n * to.ld_bytes,
                     to.ld_bytes, to.columns - n, rows * bytes);
    }
}

/*
 * Stores a tile where the engine knows D. A block's last one, after which nothing is loaded any more, goes through the
 * stages: the consumer has met, for they were every warp's to read. All pieces stand one behind the other, which is what
 * most products have left to do when the last instruction has ended; bytes are 4 or 2, a constant.
 */
static __device__ __forceinline__ void store_by_engine(standing at, const tensor_gemm_arguments *arguments,
                                                       shared_memory *shared, const place_of_tile *tile,
                                                       const float value[STORED_SUMS], int bytes,
                                                       int consumer, int through_stages)
{
    int32_t type = arguments->gemm.epilogue.result_type;
#pragma unroll
    for (int number = 0; number < PIECE_COUNT(bytes); ++number) {
        unsigned char *buffer = through_stages ? stage_for_piece(at, shared, consumer, number)
                                               : buffer_of(at, shared, consumer, number);
        if (through_stages ? number >= STAGES : number % BUFFERS == 0) {
            await_buffers(at, consumer);
        }
        fill(at, buffer, value, number, bytes, type);
        store_known(at, arguments, buffer, tile, number, bytes, consumer);
    }
}

#if FINISHES_WORDS

/* The same of results that are in words already. */
static __device__ __forceinline__ void store_words(standing at, const tensor_gemm_arguments *arguments,
                                                   shared_memory *shared, const place_of_tile *tile,
                                                   const uint32_t words[STORED_SUMS / 2], int consumer,
                                                   int through_stages)
{
#pragma unroll
    for (int number = 0; number < PIECE_COUNT(2); ++number) {
        const int m = piece_m(number, 2);
        unsigned char *buffer = through_stages ? stage_for_piece(at, shared, consumer, number)
                                               : buffer_of(at, shared, consumer, number);
        if (through_stages ? number >= STAGES : number % BUFFERS == 0) {
            await_buffers(at, consumer);
        }
        fill_words(place_of_16(at), buffer, &words[(SWAPPED ? m : piece_n(number, 2)) / 4],
                   piece_width(m, 2));
        store_known(at, arguments, buffer, tile, number, 2, consumer);
    }
}

#endif

#endif
