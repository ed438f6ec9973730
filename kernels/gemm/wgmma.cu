/*
 * wgmma.cu - the product on Hopper's tensor cores: warpgroups multiply out of shared memory what the copy engine
 * brings there (rung 14 of the ladder).
 *
 *     producer (one thread)              CONSUMERS warpgroups
 *
 *     wait until stage s is empty        wait until stage s is full
 *     have the engine fill it     -->    multiply its tiles, 64 rows a warpgroup
 *     next stage                  <--    say that the stage before is empty
 *
 * The instruction adds 64 x WGMMA_N products a warpgroup. Which of D's sides its rows run along is the row's
 * choice. With SWAPPED=1 they run along n: then the sums that neighbour each other in a thread neighbour each
 * other in memory, D being column-major.
 *
 *                       SWAPPED=1                              SWAPPED=0
 *         rows          64 * CONSUMERS = TILE_N, of B          64 * CONSUMERS = TILE_M, of A
 *         columns       WGMMA_N = TILE_M, of A                 WGMMA_N = TILE_N, of B
 *
 * A stage holds TILE_K = 128 bytes of k of both operands, under the 128-byte swizzle (64 rows of 8 bits that lie across: under
 * that of 64), along k or across as they lie in memory. The instruction reads 16-bit types across as well; other rows that lie
 * across the threads fetch themselves, and hand over in registers (wgmma_sum_fetched.h). The CLUSTER blocks of a cluster stand side by
 * side along the rows and have the columns' operand in common: each loads its share of that for all of them. With
 * ROW_SHARERS=CLUSTER they stand along the columns, and have the rows in common; with something between both, in a rectangle.
 *
 *                  columns (shared)                        a cluster of 2, tiles of 128 x 256:
 *             +-----------------------+                    each block loads 128 rows of its own
 *     rows 0  |  tile of block 0      |  + half of columns  and 128 of the 256 columns, 32 KB
 *             +-----------------------+                    instead of 48
 *     rows 1  |  tile of block 1      |  + other half
 *             +-----------------------+
 *
 * With K_SHARERS blocks, or rectangles of them, of a cluster multiply a part each of one tile's k, and add the sums through each
 * other's shared memory: see wgmma_parts.h.
 *
 * Blocks are persistent (but where they share k, and a cluster has one tile): while the consumers store one tile, the producer
 * fills the stages for the next. Of large operands clusters stay close to each other, for the cache's sake: see wgmma_pace.h.
 *
 * Three consumers have a tile of 192 rows, and 160 registers a thread: enough for sums of 192 columns, which wait in none, or where the
 * rows run along n of 176 and results that wait.
 *
 * With TURNS=1 each consumer has tiles of its own, of all its rows, and multiplies in turn with the others: while one stores its
 * tile the next one's is multiplied. Both take their stages from one line, in which the producer fills them.
 *
 *     consumer 0   | multiply 0 | store 0 ...  | multiply 2 | store 2 ...
 *     consumer 1                | multiply 1   | store 1 ...             | multiply 3
 *
 * With SHARES_K=1 both consumers multiply the same tile, each every other step of its k, and one adds the other's sums to its
 * own: where rows are fetched a tile of 64 of them has instructions of twice as many columns then. See wgmma_sum_fetched.h.
 *
 * With TRANSPOSES=1 columns of other types may lie across too: the warps beside the producer's turn them in shared memory, see
 * wgmma_transpose.h.
 *
 * With STREAM=1 the tiles that would make up a last, partly idle wave can be dealt out by their steps of k instead,
 * each cluster an equal share ("stream-K", Osama et al., PPoPP 2023): see wgmma_walk.h.
 *
 * Tiles can be of any width that is a multiple of 16, and from 96 on of 8 with SWAPPED=1 and floats, with PIECE_N, or with plain results of 16 bits: between two of them lies the one with which a product
 * nearly fills its last wave. Of 3840 x 3840, tiles of 176 x 128 are 660, five for each of 132 multiprocessors; of 256 x 128, 450
 * in four waves.
 *
 * 8-bit floats: the unit keeps sums of their products in fewer than 24 bits. Without ACCURACY=FAST every 128 of k
 * are summed apart and added to f32 sums in registers: see wgmma_sum_moved.h.
 *
 * With PLANES=3 an operand is the sum of three bf16 matrices, which hold all 24 bits of an f32 one (kernels/memory/
 * split.cu), as three problems of one map. A stage has TILE_K = 64 bytes of k of all planes, of whose products the six
 * largest are summed, the small ones first, and moved like those of 8-bit floats: the unit cuts its sums. Where
 * registers allow and k is long, what the additions round away is kept and given back. Where the
 * planes cannot stand for the operands nothing is stored, and where sums are not finite a warp's part of a tile is not:
 * a row that rescues comes next (verdict.h, wgmma_planes.h).
 *
 * With PLANES=2 they are two f16 matrices, which hold 22 bits: three products are summed. Each block of 64 rows (columns)
 * by 64 k of an operand is multiplied by a power of two (common/blocks.h), which is taken back as sums are moved: the
 * producer puts the factors beside each stage. It also looks through a tile's blocks before it loads any, all lanes of
 * its warp together; of a tile that they do not hold there comes one stage, empty, whose factors are NaN, and so are the
 * sums then. The tiles of a cluster share a fate, as its blocks load for each other. Two stages of 32 k are in one block of 64,
 * with one factor, and where k is long wide tiles move the sums of both at once.
 *
 *     with SWAPPED=1      columns of the stage, 64 of A each
 *                         |  f0  |  f1  |  f2  |
 *        rows, 64 of B  g |      |      |      |     sum += g * f1 * part in the middle
 *
 * With PLAIN=1 it is a row's second image, or its only one, for products of which nothing is asked but their sums, rounded to D's usual type and
 * stored by the engine; with FINISHES=1 beside that also bias, an activation and a factor: see wgmma_plain.h. With ANY_D=1 D's columns may
 * begin anywhere then: see wgmma_columns.h. With SUMS=1 beside PLAIN=1 bare 32-bit sums of a part of k are stored. With PIECE_N a consumer has two times 64 rows, each half with instructions and sums of its
 * own: tiles of 256 by any width up to 176, or with TURNS=1 of 128 by up to 208, between which the tensor unit has no gap: see wgmma_tall.h.
 * Its rows run along the side whose operand lies across, if one does: columns that lie along k come in boxes of any width.
 *
 * What limits it: 128 x 256 x 64 products of 16 bits are 1024 cycles of the tensor unit, for which 32 KB come
 * from the L2 cache; where all units run, the device's power.
 */
#include "kernel.h"

#include "../ptx/cluster.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "../ptx/warp.h"
#include "blocks.h"
#include "epilogue.h"

/*
 * The parts of the kernel, each in a header wgmma_NAME.h, in the order in which work goes through them. They are included in another: each
 * knows the names of those before it.
 *
 *     plain     what images for plain and for finished products take for granted
 *     tile      what a row's constants come to, and what a block's shared memory holds
 *     stages    which stage comes next, and where a tile begins
 *     walk      which tiles and steps of k, in what order
 *     pace      how clusters stay close to each other
 *     planes    which tiles' planes can stand for the operands, by what factors, and what is left to a row that rescues
 *     producer  fills the stages
 *     transpose columns that lie across, turned between the engine and the consumers
 *     consumer  waits for a stage, starts its instructions, leaves it; and what else it does meanwhile
 *     sum       a tile's sums; sum_moved and sum_fetched the same where they are moved, or rows are fetched
 *     moves     from the unit's sums of a stage to those of the tile
 *     values    from sums to D's values
 *     finish    from sums to results with bias and the like, where nothing else is asked
 *     buffer    from values to a buffer in shared memory, and out of it
 *     store     from values to D, by way of buffers
 *     columns   the same to a D that begins anywhere
 *     tall      the same where a consumer has two times 64 rows
 *     stream    tiles whose steps blocks share
 *     parts     tiles whose k the blocks of a cluster share
 *     end       which way a tile's values go
 */
#include "wgmma_tile.h"
#include "wgmma_walk.h"
#include "wgmma_pace.h"
#include "wgmma_moves.h"
#include "wgmma_values.h"
#include "wgmma_buffer.h"
#if FINISHES
#include "wgmma_finish.h"
#endif
#if ANY_D
#include "wgmma_columns.h"
#elif TALL
#include "wgmma_tall.h"
#else
#include "wgmma_store.h"
#endif
#include "wgmma_stream.h"
#if K_SHARERS > 1
#include "wgmma_parts.h"
#endif
#include "wgmma_planes.h"
#include "wgmma_producer.h"
#if TRANSPOSES
#include "wgmma_transpose.h"
#endif
#include "wgmma_consumer.h"
#if FETCHES_ROWS
#include "wgmma_sum_fetched.h"
#elif MOVES_SUMS
#include "wgmma_sum_moved.h"
#else
#include "wgmma_sum.h"
#endif
#include "wgmma_end.h"

/* ---- A consumer, from tile to tile ----------------------------------------------------------- */

/* All that consumer_state.todo says. */
static __device__ inline uint32_t all_todo(consumer_state *self, int reads)
{
#if FINISHES
    (void)reads;
    return keep((todo_of(&self->arguments->gemm) & ALL_TODO) | PLACES_COME | READS | EXPRESS);
#elif ANY_D || TALL
    (void)self;
    (void)reads;
    return PLACES_COME | READS;
#elif PLAIN
    (void)reads;
    return PLACES_COME | READS | (goes_through_stages(self, 1) ? EXPRESS : 0);
#else
    const gemm_arguments *gemm = &self->arguments->gemm;
    self->todo = keep(todo_of(gemm) | (uint32_t)result_bytes(gemm) << BYTES_SHIFT |
                      (places_come(gemm, reads) ? PLACES_COME : 0) | (reads ? READS : 0));
    return keep(self->todo | (goes_express(self) ? EXPRESS : 0));
#endif
}

/*
 * What a consumer does: sums tile after tile, and brings each one's results to where they belong, at once, while the producer fills the
 * next one's stages, or those that wait in registers while that is multiplied.
 */
static __device__ inline void consume(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      int consumer, int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    consumer_state self;
    self.arguments = arguments;
    self.shared = shared;
    self.places = places_of(shared, consumer);
    self.at.stage = 0;
    self.at.parity = 0;
    self.number = consumer;
    self.pieces = 0;
    self.todo = all_todo(&self, reads);
    self.waits = 0;
    walk way = walk_begin(arguments, reads);
    piece work;
    for (;; ++self.pieces) {
        int more = walk_on(arguments, &way, &work, (self.todo & READS) != 0);
        self.waits = keep(self.waits);
        if (!more && self.waits == 0) {
            break;
        }
        if (TURNS && more && self.pieces % CONSUMERS != (uint32_t)consumer) {
            step_over(&self.at, work.count);
            continue;
        }
        wgmma_sum sum[CONSUMER_SUMS];
#if !FINISHES_WORDS && !ANY_D && !TALL
        float value[STORED_SUMS];
#endif
#if PLANES > 2
        if (more && gemm->verdict.earlier && !keep(tiles_are_left(arguments, &work))) {
            work.count = 0;
        }
#endif
        if (more && !(self.todo & PLACES_COME)) {
            tell_place(&self, &work);
        }
        self.waits += more && wants_bias(self.todo) && STORES_TILES(consumer) ? BIAS_IS_DUE : 0;
        int last = K_SHARERS > 1 ? 1 : (int)keep((uint32_t)walk_is_over(arguments, &way));
        self.last = TURNS && last;
        sum_products(sum, &self, more ? work.count : 0, work.first); /* of moved pairs k is never in parts */
        if (!more) {
            break; /* what waited has been stored */
        }
#if LATE_WORDS > 0
        forget_words(&self.late);
#endif
#if SHARES_K
        if (!STORES_TILES(consumer)) {
            hand_sums(&self, sum);
            continue;
        }
        take_sums(&self, sum, last);
        fetch_due_bias(&self); /* where this one had no step of the tile */
#endif
        if (PARTS_IN_STAGES) { /* all blocks are through with their stages */
            cluster_arrive_relaxed();
            cluster_wait();
        }
#if K_SHARERS > 1
        wgmma_sum stored[STORED_SUMS];
        if (!add_parts(shared, sum, stored, consumer)) {
            break; /* others store all of the tile */
        }
#elif !ANY_D && !TALL
        wgmma_sum *stored = sum;
#endif
#if ANY_D
        standing at = standing_of_thread();
        place here = part_of_consumer(*place_of_number(&self, self.pieces), consumer);
#if PLAIN_BYTES == 4
        const column_word *words = sum;
#else
        column_word words[COLUMN_WORDS];
#if FINISHES
        finish_words(at, gemm, sum, words, self.todo & ALL_TODO, shared->bias[consumer], consumer);
        at = standing_of_thread();
#else
        words_of_sums(sum, words);
#endif
#endif
        place_of_tile tile = place_of_storers(gemm, here, at);
        store_anywhere(at, gemm, shared->buffers[4 * consumer + at.warp][0], &tile, words);
#elif TALL
        standing at = standing_of_thread();
        place here = part_of_consumer(*place_of_number(&self, self.pieces), consumer);
        place_of_tile tile = place_of_storers(gemm, here, at);
#if PLAIN_BYTES == 4
#if FINISHES
        finish_halves(at, gemm, sum, self.todo & ALL_TODO, shared->bias[consumer], consumer);
#endif
        store_wide(at, arguments, shared, &tile, sum, consumer);
#else
        uint32_t first_half[HALF_WORDS];
#if LATE_WORDS > 0
        uint32_t *second_half = self.late.words;
#else
        uint32_t second_half[HALF_WORDS];
#endif
        words_of_halves(at, gemm, sum, first_half, second_half, self.todo & ALL_TODO, shared->bias[consumer],
                        consumer);
        at = standing_of_thread();
#if !TURNS
        if (!last) {
            store_half(at, arguments, shared, &tile, first_half, consumer);
            self.waits = LATE_PIECES;
            continue;
        }
#endif
        store_halves(at, arguments, shared, &tile, first_half, second_half, consumer);
#endif
#elif FINISHES_WORDS
        standing at = standing_of_thread();
        place here = part_of_consumer(*place_of_number(&self, self.pieces), consumer);
#if LATE_WORDS > 0
        uint32_t *words = self.late.words;
#else
        uint32_t words[STORED_SUMS / 2];
#endif
        finish_words(at, gemm, stored, words, self.todo & ALL_TODO, shared->bias[consumer], consumer);
        if (LATE_WORDS > 0 && !last) {
            self.waits = LATE_PIECES;
            continue;
        }
        if (last) {
            meet_over_stages(consumer);
        }
        at = standing_of_thread();
        place_of_tile tile = place_of_storers(gemm, here, at);
        store_words(at, arguments, shared, &tile, words, consumer, LATE_WORDS > 0 || last);
#else
#if FINISHES
        finish_sums(standing_of_thread(), gemm, stored, self.todo & ALL_TODO, shared->bias[consumer],
                    consumer);
#endif
        /*
         * What is left to do of most products stands right behind their loop, and once more below: it is run once, and code
         * that has to be fetched first takes longer than its instructions.
         */
        if (__builtin_expect(last && (self.todo & EXPRESS) && is_whole(&work), 1)) {
            meet_over_stages(consumer);
#pragma unroll
            for (int i = 0; i < STORED_SUMS; ++i) {
                value[i] = sum_as_float(stored[i]);
            }
            place here = part_of_consumer(*place_of_number(&self, self.pieces), consumer);
            standing at = standing_of_thread();
            place_of_tile tile = place_of_storers(gemm, here, at);
            store_by_map(&self, at, &tile, value, PLAIN_BYTES, 1);
            ++self.pieces;
            break;
        }
#if STREAM
        if (work.goes_on) {
            hand_on(arguments, sum, consumer);
            continue;
        }
        if (work.first > 0) {
            add_earlier_steps(arguments, sum, &work, consumer);
        }
#endif
        standing at = standing_of_thread();
        place here = part_of_consumer(*place_of_number(&self, self.pieces), consumer);
#if PLANES > 1
        int left_alone = note_spoiled(at, gemm, here, sum);
#endif
        values_of_sums(at, gemm, here, stored, value, FINISHES ? 0 : self.todo & ALL_TODO,
                       shared->bias[consumer], consumer);
        if (goes_through_stages(&self, last)) {
            meet_over_stages(consumer);
        }
#if PLANES > 1
        if (left_alone) { /* this warp, not the others */
            self.waits = LATE_WORDS > 0 && !goes_through_stages(&self, last) ? LATE_PIECES | LEFT_ALONE : 0;
            continue;
        }
#endif
        store_tile(&self, at, here, value, last);
#endif
#if K_SHARERS > 1
        break; /* a cluster has one tile, and as many are launched as there are tiles: each has one */
#endif
    }
    if (ANY_D || threadIdx.x % STORERS == 0) {
        tensor_store_wait_read(0);
    }
}

/* ---- The block ------------------------------------------------------------------------------ */

/*
 * Whether anything is read: alpha may be 0. Where it lies in device memory, a kernel before may write it. All lanes
 * agree, which the compiler has to know where warpgroups part.
 */
static __device__ inline int reads_operands(const gemm_arguments *gemm)
{
    if (PLAIN) {
        return 1;
    }
    if (gemm->alpha.device) {
        wait_for_kernels_before();
    }
    return __shfl_sync(0xffffffffu, !alpha_is_zero(gemm->alpha, gemm->epilogue.result_type), 0);
}

/*
 * Registers a thread, of 168 for each when the block begins, with three consumers 128; a producer of planes wants more, and so do
 * transposers. One that keeps pace just does with 24, and in an image that finishes ptxas spills one of them: where tiles leave some
 * there it has more, too.
 */
#define WIDE_PRODUCER (TRANSPOSES || PLANES > 1)
#if CONSUMERS == 3
#define PRODUCER_REGISTERS 32
#define CONSUMER_REGISTERS 160
#else
#define PRODUCER_REGISTERS (WIDE_PRODUCER ? 56 : FINISHES && CONSUMER_SUMS < 128 ? 40 : 24)
#define CONSUMER_REGISTERS (WIDE_PRODUCER ? 224 : FINISHES && CONSUMER_SUMS < 128 ? 232 : 240)
#endif

#define KERNEL_CLUSTER __cluster_dims__(CLUSTER, 1, 1)

#if PLANES > 1
/*
 * Arguments are fetched when they are first looked at, line by line. Others ask little beyond one line before their first load; of
 * planes, what is refused, whose factors are whose and what is left over is asked too, and so each warp looks at one line, or a
 * few, and all come at once.
 */
static __device__ inline void fetch_arguments(const tensor_gemm_arguments *arguments)
{
    const uint32_t words_of_line = 16;
    for (uint32_t word = threadIdx.x / 32 * words_of_line; word < sizeof(*arguments) / 4;
         word += THREADS_X / 32 * words_of_line) {
        touch(((const uint32_t *)arguments)[word]);
    }
}
#endif

/* Makes the barriers: the second warp does, while the first, the producer's, works out where its tile begins. */
static __device__ inline void make_barriers(const tensor_gemm_arguments *arguments, shared_memory *shared)
{
    if (threadIdx.x == 32) {
        for (int s = 0; s < STAGES; ++s) {
            /* Who loads arrives, and who writes factors. */
            mbarrier_init(&shared->full[s], SCALED ? 1 + BLOCKS_OF_TILE : 1);
            mbarrier_init(&shared->empty[s], CONSUMERS_OF_TILE * LOADERS * RELEASES);
#if TRANSPOSES
            mbarrier_init(&shared->turned[s], TRANSPOSERS);
#endif
        }
#if K_SHARERS > 1
        mbarrier_init(&shared->parts_come, 1);
#endif
        mbarrier_init_fence();
#if K_SHARERS > 1
        mbarrier_arrive_expect(shared_address(&shared->parts_come),
                               sizeof(shared->parts)); /* who stores waits for it */
#endif
        tensor_map_prefetch(&arguments->a);
        tensor_map_prefetch(&arguments->b);
        if (engine_knows_d(arguments)) {
            tensor_map_prefetch(&arguments->d);
        }
    }
    __syncwarp();
    if (CLUSTER == 1) {
        barrier_arrive(0, THREADS_THAT_MEET);
    }
}

KERNEL __launch_bounds__(THREADS_X, 1) KERNEL_CLUSTER
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    let_next_kernel_begin();
#if PLANES > 1
    fetch_arguments(&arguments);
#endif
    /* All lanes agree on these, which the compiler has to know where warpgroups part. */
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    if (warp == 1) {
        make_barriers(&arguments, shared);
    }
    if (CLUSTER > 1) {
        cluster_arrive_relaxed(); /* behind the fence of who made the barriers */
    }
    if (warp < 4) {
#if CONSUMERS > 1
        registers_shrink_to(PRODUCER_REGISTERS);
#endif
        if (warp == 0) {
            if (PLANES > 2) { /* of which the kernel before says whether there is anything to do */
                await_barriers();
                wait_for_kernels_before();
            }
            int reads = reads_operands(&arguments.gemm);
            uint32_t base = keep(shared_address(shared));
            if ((PLAIN || !is_refused(&arguments.gemm)) && (WARP_GOES_ALONG || threadIdx.x == 0)) {
                produce(&arguments, shared, base, block_rank(), reads);
            }
            __syncwarp();
        }
#if TRANSPOSES
        if (warp > 0) {
            barrier_sync(TRANSPOSERS_BEGIN, 32 * TRANSPOSERS);
            transpose(&arguments, shared, keep(shared_address(shared)), (uint32_t)warp - 1,
                      reads_operands(&arguments.gemm));
        }
#endif
    } else {
#if CONSUMERS > 1
        registers_grow_to(CONSUMER_REGISTERS);
#endif
        await_barriers();
        int reads = reads_operands(&arguments.gemm);
        wait_for_kernels_before();
        if (PLAIN || !is_refused(&arguments.gemm)) {
            consume(&arguments, shared, warp / 4 - 1, reads);
        }
    }
}
