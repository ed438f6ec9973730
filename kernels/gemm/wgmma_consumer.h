/*
 * wgmma_consumer.h - what consumers have in common, however they sum (some of it but where rows are fetched): wait for a stage, start
 * its instructions, leave it; and beside that store what waits of the tile before, and fetch this one's bias. A part of wgmma.cu.
 */
#ifndef CARAT_GEMM_WGMMA_CONSUMER_H
#define CARAT_GEMM_WGMMA_CONSUMER_H

/* ---- Stages ---- */

/* Whether a thread has a register for the barrier at which it says that stages are left, or works it out each time. */
#define KEEPS_EMPTY (!FETCHES_ROWS && CONSUMER_SUMS < 200)

/* Where a warpgroup's operands lie in stage 0, and the barriers' addresses: numbers that stay in registers. */
typedef struct operand_places {
    uint64_t rows;
    uint64_t columns;
    uint32_t full;
#if KEEPS_EMPTY
    uint32_t empty; /* see empty_to_tell() */
#endif
} operand_places;

#define EMPTY_BEHIND_FULL                                                                                    \
    (uint32_t)(__builtin_offsetof(shared_memory, empty) - __builtin_offsetof(shared_memory, full))

/* Rows that lie across are boxes of TILE_K k; rows of k have either swizzle. */
static __device__ inline uint64_t place_of_operand(const unsigned char *rows, int across)
{
    uint64_t place = !across && K_BYTES < ROW_BYTES ? wgmma_descriptor_64(rows, 8 * K_BYTES)
                                                    : wgmma_descriptor(rows, TILE_K * ROW_BYTES, ATOM_BYTES);
    return wgmma_with_low(place, keep((uint32_t)place));
}

/*
 * The barrier by which this thread tells a producer that stage 0 is left; 0: it tells none. Of a block alone the first thread of a
 * warpgroup does, or of a warp; of a cluster as many tell one block each, of those that load for theirs.
 */
static __device__ inline uint32_t empty_to_tell(operand_places places)
{
    uint32_t thread = threadIdx.x % (WARPGROUP / RELEASES);
    uint32_t empty = places.full + EMPTY_BEHIND_FULL;
    if (RECTANGLE == 1) {
        return thread == 0 ? empty : 0;
    }
    int tells = thread < CLUSTER && (LOADERS == CLUSTER || loads_for(thread, block_rank()));
    return tells ? cluster_address(empty, thread) : 0;
}

static __device__ inline operand_places places_of(shared_memory *shared, int consumer)
{
    operand_places places;
    /* 64 rows are 64 * K_BYTES either way: of k each, or boxes of TILE_K rows where they lie across. */
    places.rows = place_of_operand(shared->stages[0].rows[0] + FIRST_ROW(consumer) * K_BYTES, ROWS_ACROSS);
    places.columns = place_of_operand(shared->stages[0].columns[0], COLUMNS_ACROSS && !TRANSPOSES);
    places.full = keep(shared_address(shared->full));
#if KEEPS_EMPTY
    places.empty = empty_to_tell(places);
#endif
    return places;
}

#if !FETCHES_ROWS

/* Starts the instructions of one stage, and commits them. */
static __device__ inline void multiply_stage(wgmma_sum sum[CONSUMER_SUMS], operand_places places,
                                             uint32_t number, int accumulate)
{
    const uint32_t rows_step = ROWS_ACROSS ? 16 * ROW_BYTES : 32;
    const uint32_t columns_step = COLUMNS_ACROSS ? 16 * ROW_BYTES : 32;
    uint64_t rows = wgmma_advance_by(places.rows, number, sizeof(stage));
    uint64_t columns = wgmma_advance_by(places.columns, number, sizeof(stage));
    /* Planes whose numbers have the largest sum come first: their products are the smallest. */
#pragma unroll
    for (int both = PLANES - 1; both >= 0; --both) {
#pragma unroll
        for (int plane = 0; plane <= both; ++plane) {
            uint64_t row_plane = wgmma_advance(rows, plane * ROWS_BYTES);
            uint64_t column_plane = wgmma_advance(columns, (both - plane) * COLUMNS_BYTES);
#pragma unroll
            for (int step = 0; step < STEPS; ++step) {
#pragma unroll
                for (int half = 0; half < ROW_HALVES; ++half) {
                    wgmma(sum + half * WGMMA_SUMS,
                          wgmma_advance(row_plane, step * rows_step + half * 64 * K_BYTES),
                          wgmma_advance(column_plane, step * columns_step),
                          both < PLANES - 1 || plane > 0 || step > 0 || accumulate);
                }
            }
        }
    }
    wgmma_commit();
}

#endif

/*
 * Tells the producers of all blocks of the cluster that this warpgroup is through with a stage. Instructions read stages
 * for all of its warps; factors and rows that lie across each warp reads itself, and says so itself.
 */
static __device__ inline void release(operand_places places, uint32_t number)
{
#if KEEPS_EMPTY
    uint32_t first = places.empty;
#else
    uint32_t first = empty_to_tell(places);
#endif
    uint32_t empty = first + number * (uint32_t)sizeof(uint64_t);
    if (first != 0 && RECTANGLE == 1) {
        mbarrier_arrive_address(empty);
    } else if (first != 0) {
        mbarrier_arrive_at(empty);
    }
}

/* Waits until the stage that is next has come. */
static __device__ inline void await_stage(operand_places places, position at)
{
    mbarrier_wait_address(places.full + at.stage * (uint32_t)sizeof(uint64_t), at.parity);
}

/* ---- What a consumer knows, and what it has yet to do of the tile before ---- */

/* What a consumer has at hand. */
typedef struct consumer_state {
    const tensor_gemm_arguments *arguments;
    shared_memory *shared;
    operand_places places;
    position at;
    int number;
    uint32_t pieces; /* done so far */
    int last;        /* with TURNS: whether this one is the block's last */
    uint32_t
        todo; /* with sums, see todo_of(); and BYTES_SHIFT to EXPRESS: one register, the same for all lanes */
    uint32_t waits; /* pieces of the tile before that are not stored yet; and BIAS_IS_DUE or BIAS_COMES */
#if LATE_WORDS > 0
    late_tile late;
#endif
} consumer_state;

#define BIAS_IS_DUE (1u << 8) /* it has to be asked for */
#define BIAS_COMES (1u << 10) /* it has been, and has to be put into shared memory */
/* Whether it is asked for once no piece waits, and put in its place behind the tile's last instruction, not in the next step. */
#if FINISHES && (!MOVES_SUMS || OVERLAPS_MOVES)
#define BIAS_COMES_LAST 1
#else
#define BIAS_COMES_LAST 0
#endif
/*
 * With planes: the warp left its part of that tile alone, and has nothing to store. It goes the way of the others all the
 * same, for the tensor unit's instructions are of a whole warpgroup, which has to come to the same ones.
 */
#define LEFT_ALONE (1u << 9)

/* Bytes of an element of D, or of the sums that are stored instead; whether the producer tells places, and loads. */
#define BYTES_SHIFT 16
#define PLACES_COME (1u << 20)
#define READS (1u << 21)
#define EXPRESS (1u << 22) /* the last tile is stored without more ado, see consume() in wgmma.cu */

#if !ANY_D && !TALL && (!FINISHES_WORDS || LATE_WORDS > 0)

static __device__ inline int bytes_of_result(const consumer_state *self)
{
    return PLAIN ? PLAIN_BYTES : (int)(self->todo >> BYTES_SHIFT & 7);
}

#endif

/* Where piece `number` begins: as the producer says, or as tell_place() has written it. */
static __device__ inline place *place_of_number(const consumer_state *self, uint32_t number)
{
    uint32_t own = 2 * (uint32_t)self->number + number % 2;
    return &self->shared->places[self->todo & PLACES_COME ? number % PLACES : own];
}

/* Writes where this piece begins for the consumer, in the producer's stead. */
static __device__ inline void tell_place(consumer_state *self, const piece *work)
{
    meet(self->number); /* everybody has read what stands there */
    if (thread_number() % WARPGROUP == 0) {
        *place_of_number(self, self->pieces) = place_of_piece(self->arguments, work, block_rank());
    }
    meet(self->number);
}

#if FETCHES_ROWS || PLANES > 1

static __device__ __forceinline__ void fetch_due_bias(consumer_state *self)
{
    if (self->waits & BIAS_IS_DUE) {
        place here = part_of_consumer(*place_of_number(self, self->pieces), self->number);
        fetch_bias(&self->arguments->gemm, here, self->shared->bias[self->number], self->todo, self->number);
        self->waits -= BIAS_IS_DUE;
    }
}

#endif

static __device__ __forceinline__ void store_some_late(consumer_state *self)
{
#if LATE_WORDS > 0
    uint32_t left = self->waits % BIAS_IS_DUE;
    if (left == 0) {
        return;
    }
    --self->waits;
#if PLANES > 1
    if (self->waits & LEFT_ALONE) {
        self->waits -= left == 1 ? LEFT_ALONE : 0;
        return;
    }
#endif
#if TALL
    store_late(self->arguments, self->shared, self->late.words, (int)left,
               place_of_number(self, self->pieces - 1), self->number);
#else
    store_late(self->arguments, self->shared, &self->late, (int)left, place_of_number(self, self->pieces - 1),
               bytes_of_result(self), self->number);
#endif
#else
    (void)self;
#endif
}

#if !FETCHES_ROWS

#if PLANES == 1

/* Puts bias that was asked for where the tile's end looks for it. */
static __device__ __forceinline__ void put_what_comes(consumer_state *self, const coming_bias *bias)
{
    if (self->waits & BIAS_COMES) {
        put_bias(&self->arguments->gemm, bias, self->shared->bias[self->number], self->number);
        self->waits -= BIAS_COMES;
    }
}

static __device__ __forceinline__ void ask_for_what_is_due(consumer_state *self, coming_bias *bias)
{
    if (self->waits & BIAS_IS_DUE) {
        place here = part_of_consumer(*place_of_number(self, self->pieces), self->number);
        ask_for_bias(&self->arguments->gemm, here, bias, self->todo);
        self->waits += BIAS_COMES - BIAS_IS_DUE;
    }
}

#endif

/* What is left to do while the instructions of stages run; bias that comes last is not. */
static __device__ inline uint32_t waits_for_stages(const consumer_state *self)
{
    return BIAS_COMES_LAST ? self->waits % BIAS_COMES : self->waits;
}

/* Does what waits while the instructions of a stage run, as much as one gives time for. */
static __device__ __forceinline__ void do_what_waits(consumer_state *self, coming_bias *bias)
{
#if BIAS_COMES_LAST
    if (self->waits % BIAS_IS_DUE == 0) {
        ask_for_what_is_due(self, bias);
    }
#elif PLANES == 1
    put_what_comes(self, bias);
    ask_for_what_is_due(self, bias);
#else
    fetch_due_bias(self); /* there are no registers for what comes */
    (void)bias;
#endif
    store_some_late(self);
}

#endif

#endif
