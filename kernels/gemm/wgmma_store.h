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
        return shared->stages[number % STAGES].rows[buffer / of_plane] + FIRST_ROW(consumer) * K_BYTES +
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

/*
 * Stores a block's last tile where its sums are D's values and the engine knows D, through the stages: what is left to do
 * of most products when the last instruction has ended. It stands behind their loop and does nothing else, for it is run
 * once, and code that has to be fetched first takes longer than its instructions.
 */
static __device__ __forceinline__ void store_last(const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, place here,
                                                  const float value[WGMMA_SUMS], int bytes, int consumer)
{
    int32_t type = arguments->gemm.epilogue.result_type;
    standing at = standing_of_thread();
    place_of_tile tile = place_of_storers(&arguments->gemm, here, at);
    meet(consumer); /* the stages were every warp's to read */
#pragma unroll
    for (int number = 0; number < PIECE_COUNT(bytes); ++number) {
        const int m = piece_m(number, bytes);
        const int width = piece_width(m, bytes);
        unsigned char *buffer = buffer_of(at, shared, consumer, number % STAGES, 1);
        if (number >= STAGES) {
            await_buffers(at, consumer);
        }
        fill(at, buffer, value, number, bytes, type);
        if (width == ROW_BYTES / bytes) {
            fence_async_shared();
            meet_storers(consumer);
            send(at, arguments, buffer, &tile, m, piece_n(number, bytes));
        } else {
            destination to = destination_of(&arguments->gemm, &tile, bytes);
            int rows = to.rows - m < width ? to.rows - m : width;
            int n = piece_n(number, bytes);
            meet_storers(consumer);
            copy_aligned(STORERS == 32 ? at.lane : at.thread, buffer, to.first + m * bytes + n * to.ld_bytes,
                         to.ld_bytes, to.columns - n, rows * bytes);
        }
    }
}

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
