/*
 * wgmma_tall.h - how a tile goes to D where a consumer has two times 64 rows: a part of wgmma.cu, of rows with PIECE_N.
 *
 * Results go by way of a buffer in shared memory, PIECE_N columns of 64 rows at a time: a piece; where the rows run along n, each warp's
 * 16 of 64 columns of the instruction's, along m. Of a tile that both consumers have
 * four stages leave room for one buffer each, and a thread has no registers for all of its results, two in a word, beside the next
 * tile's sums. So the first 64 rows go at once, piece by piece, each when the engine has read the one before; the other 64 wait in
 * registers, and go while the next tile is multiplied. A block's last tile, after which nothing is loaded any more, goes through the
 * stages, and waits for nothing.
 *
 *     | multiply 0 | first half, at once | multiply 1                       | first half, at once | multiply 2
 *                                        | second half, a piece a step      |                     | ...
 *
 * With TURNS=1 a consumer has tiles of its own, and stores all of one while the other multiplies: tiles of 128 rows, from one to the
 * next of which the tensor unit does not wait where k is long enough for one to be stored while the other is multiplied.
 *
 *     consumer 0   | multiply 0 | store 0 ...  | multiply 2 | store 2 ...
 *     consumer 1                | multiply 1   | store 1 ...             | multiply 3
 *
 * The last piece ends where the tile does, and may have some columns of the one before: both store the same.
 */
#ifndef CARAT_GEMM_WGMMA_TALL_H
#define CARAT_GEMM_WGMMA_TALL_H

#define RESULT_BYTES_OF_STORERS (ROW_HALVES * PIECES_OF_HALF * BUFFER_BYTES)
static_assert(TURNS ||
                  (sizeof(stage) >= WARPGROUP / STORERS * RESULT_BYTES_OF_STORERS && STAGES >= CONSUMERS),
              "a consumer's results fit where a stage was");
static_assert(PIECE_WIDTH % 8 == 0 && PIECE_WIDTH <= WGMMA_N, "pieces are of whole eights");
static_assert(!SWAPPED || PIECE_N == BUFFER_ROWS, "a warp stores its 16 columns of D");

/* Of the instruction's columns the one at which a piece begins. */
static __device__ __forceinline__ int piece_begin(int number)
{
    return number * PIECE_WIDTH < WGMMA_N - PIECE_WIDTH ? number * PIECE_WIDTH : WGMMA_N - PIECE_WIDTH;
}

/* The first of the storers' buffers, and what a block's last tile goes through in their place, of a stage. */
static __device__ __forceinline__ unsigned char *first_buffer(standing at, shared_memory *shared,
                                                              int consumer)
{
    return shared->buffers[STORERS == 32 ? 4 * consumer + at.warp : consumer][0];
}
static __device__ __forceinline__ unsigned char *part_of_stage(standing at, shared_memory *shared,
                                                               int consumer)
{
    return (unsigned char *)&shared->stages[consumer] +
           (STORERS == 32 ? at.warp * RESULT_BYTES_OF_STORERS : 0);
}

/* Has a filled buffer stored, which begins at a row of the consumer's, and at a column. */
static __device__ __forceinline__ void send_piece(standing at, const tensor_gemm_arguments *arguments,
                                                  const unsigned char *buffer, const place_of_tile *tile,
                                                  int row, int column, int consumer)
{
    fence_async_shared();
    meet_storers(consumer);
    send(at, arguments, buffer, tile, SWAPPED ? column : row, SWAPPED ? row : column);
}

#if FINISHES

/* A tile's bias as one half of its rows has it. */
static __device__ __forceinline__ const float *bias_of_half(const float *shared_bias, uint32_t todo, int half)
{
    int along_rows = (todo & ADDS_BIAS) && ((todo & BIAS_ALONG_N) != 0) == SWAPPED;
    return shared_bias + (along_rows ? 64 * half : 0);
}

#endif

#if PLAIN_BYTES == 4

#if FINISHES

/* From all of a tile's sums to its results. */
static __device__ __forceinline__ void finish_halves(standing at, const gemm_arguments *gemm,
                                                     wgmma_sum sum[CONSUMER_SUMS], uint32_t todo,
                                                     const float *shared_bias, int consumer)
{
#pragma unroll
    for (int half = 0; half < ROW_HALVES; ++half) {
        finish_sums(at, gemm, sum + half * WGMMA_SUMS, todo, bias_of_half(shared_bias, todo, half), consumer);
    }
}

#endif

/*
 * The 32 bits of a sum, by an instruction that the compiler leaves where it is: else it takes floats that are only stored for words
 * all the way, with a move before each product, for which ptxas serializes them.
 */
static __device__ __forceinline__ uint32_t bits_of_sum(wgmma_sum sum)
{
#if ELEMENT == ELEMENT_S8
    return (uint32_t)sum;
#else
    uint32_t bits;
    asm volatile("mov.b32 %0, %1;" : "=r"(bits) : "f"(sum));
    return bits;
#endif
}

/* Stores a tile of 32-bit results, of which a piece has 32 rows, those of two warps. */
static __device__ __forceinline__ void store_wide(standing at, const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, const place_of_tile *tile,
                                                  const wgmma_sum sum[CONSUMER_SUMS], int consumer)
{
#pragma unroll
    for (int i = 0; i < ROW_HALVES * PIECES_OF_HALF; ++i) {
        const int half = i / PIECES_OF_HALF;
        const int begin = piece_begin(i % PIECES_OF_HALF);
        uint32_t words[PIECE_N / 2];
#pragma unroll
        for (int j = 0; j < PIECE_N / 2; ++j) {
            words[j] = bits_of_sum(sum[half * WGMMA_SUMS + begin / 2 + j]);
        }
#pragma unroll
        for (int part = 0; part < 2; ++part) {
            unsigned char *buffer = shared->buffers[consumer][part];
            await_buffer_before(at, consumer);
            fill_32(place_of_32(at), buffer, words, 0, at.warp / 2 == part, 64);
            send_piece(at, arguments, buffer, tile, 64 * half + 32 * part, begin, consumer);
        }
    }
    __syncwarp(); /* instructions of whole warpgroups follow */
}

#else

/* From all of a tile's sums, which are lost, to its results, and zeros behind each half: sixteen columns are filled at a time. */
static __device__ __forceinline__ void words_of_halves(standing at, const gemm_arguments *gemm,
                                                       wgmma_sum sum[CONSUMER_SUMS],
                                                       uint32_t first[HALF_WORDS],
                                                       uint32_t second[HALF_WORDS], uint32_t todo,
                                                       const float *shared_bias, int consumer)
{
#pragma unroll
    for (int half = 0; half < ROW_HALVES; ++half) {
        uint32_t *words = half == 0 ? first : second;
#if FINISHES
        finish_words(at, gemm, sum + half * WGMMA_SUMS, words, todo, bias_of_half(shared_bias, todo, half),
                     consumer);
#else
#pragma unroll
        for (int i = 0; i < WGMMA_SUMS / 2; ++i) {
            words[i] =
                pack_result(sum[half * WGMMA_SUMS + 2 * i], sum[half * WGMMA_SUMS + 2 * i + 1], ELEMENT);
        }
#endif
#pragma unroll
        for (int i = WGMMA_SUMS / 2; i < HALF_WORDS; ++i) {
            words[i] = 0;
        }
    }
    (void)at;
    (void)gemm;
    (void)todo;
    (void)shared_bias;
    (void)consumer;
}

/* Stores a piece, of which words has the first column, by way of a buffer that nobody reads any more. */
static __device__ __forceinline__ void store_piece(standing at, const tensor_gemm_arguments *arguments,
                                                   unsigned char *buffer, const place_of_tile *tile,
                                                   const uint32_t *words, int half, int begin, int consumer)
{
    fill_words(place_of_16(at), buffer, words, 64);
    send_piece(at, arguments, buffer, tile, 64 * half, begin, consumer);
}

/*
 * Stores both halves: in turn by way of two buffers (an even number of pieces, so that the next tile begins with the first again), or of
 * a block's last tile by way of a stage.
 */
static __device__ __forceinline__ void store_halves(standing at, const tensor_gemm_arguments *arguments,
                                                    shared_memory *shared, const place_of_tile *tile,
                                                    const uint32_t first[HALF_WORDS],
                                                    const uint32_t second[HALF_WORDS], int consumer)
{
    unsigned char *buffer = part_of_stage(at, shared, consumer);
    if (!TURNS) {
        barrier_sync(1 + CONSUMERS, CONSUMERS * WARPGROUP); /* all have read the stages */
    }
#pragma unroll
    for (int i = 0; i < ROW_HALVES * PIECES_OF_HALF; ++i) {
        const int half = i / PIECES_OF_HALF;
        const int begin = piece_begin(i % PIECES_OF_HALF);
        if (TURNS) {
            buffer = first_buffer(at, shared, consumer) + i % BUFFERS * BUFFER_BYTES;
            await_buffer_before(at, consumer);
        }
        store_piece(at, arguments, buffer, tile, (half == 0 ? first : second) + begin / 4, half, begin,
                    consumer);
        buffer += BUFFER_BYTES;
    }
    __syncwarp(); /* instructions of whole warpgroups follow */
}

#if !TURNS

#define WORDS_OF_PIECE ((PIECE_WIDTH + 15) / 16 * 4)

/* Stores a tile's first half. */
static __device__ __forceinline__ void store_half(standing at, const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, const place_of_tile *tile,
                                                  const uint32_t words[HALF_WORDS], int consumer)
{
    unsigned char *buffer = first_buffer(at, shared, consumer);
#pragma unroll
    for (int i = 0; i < PIECES_OF_HALF; ++i) {
        const int begin = piece_begin(i);
        await_buffers(at, consumer);
        store_piece(at, arguments, buffer, tile, words + begin / 4, 0, begin, consumer);
    }
    __syncwarp(); /* instructions of whole warpgroups follow */
}

/*
 * Stores one more piece of the half that waits, of the tile at `here`. Its words are chosen one by one: with a copy of what follows
 * for each piece the compiler looks them up by a number, which registers are not.
 */
static __device__ __forceinline__ void store_late(const tensor_gemm_arguments *arguments,
                                                  shared_memory *shared, const uint32_t late[HALF_WORDS],
                                                  int left, const place *here, int consumer)
{
    standing at = standing_of_thread();
    int waiting = PIECES_OF_HALF - left;
    uint32_t words[WORDS_OF_PIECE];
#pragma unroll
    for (int i = 0; i < WORDS_OF_PIECE; ++i) {
        words[i] = late[i];
#pragma unroll
        for (int piece = 1; piece < PIECES_OF_HALF; ++piece) {
            words[i] = piece == waiting ? late[piece_begin(piece) / 4 + i] : words[i];
        }
    }
    place_of_tile tile = place_of_storers(&arguments->gemm, part_of_consumer(*here, consumer), at);
    await_buffers(at, consumer);
    store_piece(at, arguments, first_buffer(at, shared, consumer), &tile, words, 1, piece_begin(waiting),
                consumer);
    __syncwarp(); /* instructions of whole warpgroups follow */
}

#endif

#endif

#endif
