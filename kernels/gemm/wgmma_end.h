/*
 * wgmma_end.h - which way a tile's values go to D, and what there is to know for that: a part of wgmma.cu.
 *
 *     the block's last tile   by way of the stages, which nobody needs any more, if it may
 *     others                  by way of the buffers; the last results wait in registers where there are any to spare
 *
 * Columns that begin anywhere and two times 64 rows a consumer have ways of their own, and so have finished results in words.
 */
#ifndef CARAT_GEMM_WGMMA_END_H
#define CARAT_GEMM_WGMMA_END_H

#if !ANY_D && !TALL

/*
 * Before results go into the stages, which were every warp's to read; rows in pairs lie in one box, half a line for either
 * consumer, and parts that came lie anywhere, so that both have to be through, if both store.
 */
static __device__ inline void meet_over_stages(int consumer)
{
    if ((ROWS_IN_PAIRS && !SHARES_K) || PARTS_IN_STAGES) {
        barrier_sync(1 + CONSUMERS, CONSUMERS * WARPGROUP);
    } else {
        meet(consumer);
    }
}

#endif

#if !FINISHES_WORDS && !ANY_D && !TALL

/*
 * Consumers that take turns have their stages in common: another may be multiplying out of them yet. Of two that share a
 * tile's k the other has handed its sums on, and is through with the stages.
 */
static __device__ inline int goes_through_stages(const consumer_state *self, int last)
{
    int bytes = bytes_of_result(self);
    int whole = (STORES_COLUMNS(2) && bytes == 2) || (STORES_COLUMNS(4) && bytes == 4);
    return !TURNS && last && bytes > 1 && (whole || engine_knows_d(self->arguments));
}

/* Stores a tile whose D the engine knows, or a block's last one; bytes of a result are 4 or 2. */
static __device__ __forceinline__ void store_by_map(const consumer_state *self, standing at,
                                                    const place_of_tile *tile, const float value[STORED_SUMS],
                                                    int bytes, int through_stages)
{
    if (__builtin_expect(!engine_knows_d(self->arguments), 0)) {
        if (STORES_COLUMNS(2) && bytes == 2) {
            store_columns(at, self->arguments, self->shared, tile, value, 2, self->number);
        } else if (STORES_COLUMNS(4)) {
            store_columns(at, self->arguments, self->shared, tile, value, 4, self->number);
        }
        return;
    }
#if STORES_16
    if (bytes == 2) {
        store_by_engine(at, self->arguments, self->shared, tile, value, 2, self->number, through_stages);
        return;
    }
#endif
    store_by_engine(at, self->arguments, self->shared, tile, value, 4, self->number, through_stages);
}

/*
 * Stores the consumer's share of a tile. The block's last goes through the stages, if it may; of others, where registers are to
 * spare, the last results wait in them.
 */
static __device__ __forceinline__ void store_tile(consumer_state *self, standing at, place here,
                                                  const float value[STORED_SUMS], int last)
{
    const tensor_gemm_arguments *arguments = self->arguments;
    int bytes = bytes_of_result(self);
    place_of_tile tile = place_of_storers(&arguments->gemm, here, at);
    int through_stages = goes_through_stages(self, last);
    if (through_stages || (LATE_WORDS == 0 && engine_knows_d(arguments) && bytes > 1)) {
        store_by_map(self, at, &tile, value, bytes, LATE_WORDS > 0 || through_stages);
        return;
    }
#if LATE_WORDS > 0
    if (bytes > 1) {
        if (bytes == 4) {
            store_pieces(at, arguments, self->shared, &tile, value, 4, PIECE_COUNT(4) - LATE_PIECES,
                         self->number);
        }
        keep_tile(&arguments->gemm, bytes, &self->late, value);
        self->waits = LATE_PIECES;
        return;
    }
#endif
    int count = bytes == 4 ? PIECE_COUNT(4) : bytes == 2 ? PIECE_COUNT(2) : PIECE_COUNT(1);
    store_pieces(at, arguments, self->shared, &tile, value, bytes, count, self->number);
}

#if !PLAIN

/* Whether sums are D's values as they are, of its usual type, and go through the stages where the tile is the block's last. */
static __device__ inline int goes_express(const consumer_state *self)
{
#if ELEMENT == ELEMENT_S8
    const gemm_arguments *gemm = &self->arguments->gemm;
    if (!gemm->partials && gemm->epilogue.result_type != ELEMENT_S32) {
        return 0;
    }
#endif
    return PLANES == 1 && (self->todo & ALL_TODO) == 0 && bytes_of_result(self) == PLAIN_BYTES &&
           goes_through_stages(self, 1);
}

#endif

#endif

#endif
