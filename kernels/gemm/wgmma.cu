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
 * across the threads fetch themselves, and hand over in registers (fetch_rows()). The CLUSTER blocks of a cluster stand side by
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
 * own: where rows are fetched a tile of 64 of them has instructions of twice as many columns then.
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
 * are summed apart and added to f32 sums in registers.
 *
 * With PLANES=3 an operand is the sum of three bf16 matrices, which hold all 24 bits of an f32 one (kernels/memory/
 * split.cu), as three problems of one map. A stage has TILE_K = 64 bytes of k of all planes, of whose products the six
 * largest are summed, the small ones first, and moved like those of 8-bit floats: the unit cuts its sums. Where
 * registers allow and k is long, what the additions round away is kept and given back. Where the
 * planes cannot stand for the operands nothing is stored, and where sums are not finite a warp's part of a tile is not:
 * a row that rescues comes next (verdict.h).
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
#include "../ptx/ldmatrix.h"
#include "../ptx/mbarrier.h"
#include "../ptx/tensor_copy.h"
#include "../ptx/warp.h"
#include "blocks.h"
#include "epilogue.h"

#ifndef ELEMENT_B
#define ELEMENT_B ELEMENT
#endif

#define A_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_TT)
#define B_ALONG_K (LAYOUT == LAYOUT_TN || LAYOUT == LAYOUT_NN)

#if SWAPPED
#define WGMMA_N TILE_M
#define WGMMA_TYPE_A ELEMENT_B
#define WGMMA_TYPE_B ELEMENT
#define ROWS_ACROSS (!B_ALONG_K)
#define COLUMNS_ACROSS (!A_ALONG_K)
#define TILE_ROWS TILE_N
#else
#define WGMMA_N TILE_N
#define WGMMA_TYPE_A ELEMENT
#define WGMMA_TYPE_B ELEMENT_B
#define ROWS_ACROSS (!A_ALONG_K)
#define COLUMNS_ACROSS (!B_ALONG_K)
#define TILE_ROWS TILE_M
#endif

/* How many of a cluster's blocks have the rows in common, and how many the columns; they stand along the other side. */
#ifndef ROW_SHARERS
#define ROW_SHARERS 1
#endif
/* And how many such rectangles multiply parts of k of the same tiles. */
#ifndef K_SHARERS
#define K_SHARERS 1
#endif
#define RECTANGLE (CLUSTER / K_SHARERS)
#define COLUMN_SHARERS (RECTANGLE / ROW_SHARERS)
#if SWAPPED
#define CLUSTER_M (TILE_M * ROW_SHARERS)
#define CLUSTER_N (TILE_N * COLUMN_SHARERS)
#else
#define CLUSTER_M (TILE_M * COLUMN_SHARERS)
#define CLUSTER_N (TILE_N * ROW_SHARERS)
#endif

/* The rows of a tile that a consumer has, and how many consumers work on one. */
#ifndef TURNS
#define TURNS 0
#endif
#ifndef SHARES_K
#define SHARES_K 0
#endif
#ifndef ANY_D
#define ANY_D 0
#endif
#ifdef PIECE_N
#define TALL 1
#else
#define TALL 0
#endif
#ifndef TRANSPOSES
#define TRANSPOSES 0
#endif
/* Of blocks that share k so many store as many columns of the tile, in whole sixteens; and a thread's sums of these. */
#define COULD_STORE(blocks) (K_SHARERS >= (blocks) && WGMMA_N % (16 * (blocks)) == 0)
#define K_STORERS                                                                                            \
    (COULD_STORE(8)   ? 8                                                                                    \
     : COULD_STORE(7) ? 7                                                                                    \
     : COULD_STORE(6) ? 6                                                                                    \
     : COULD_STORE(5) ? 5                                                                                    \
     : COULD_STORE(4) ? 4                                                                                    \
     : COULD_STORE(3) ? 3                                                                                    \
     : COULD_STORE(2) ? 2                                                                                    \
                      : 1)
#define STORED_N (WGMMA_N / K_STORERS)
#define STORED_SUMS (STORED_N / 2)
#define CONSUMERS_OF_TILE (TURNS || SHARES_K ? 1 : CONSUMERS)
#define ROW_HALVES (1 + TALL) /* of a consumer's rows: 64 each, with sums of their own */
#define FIRST_ROW(consumer) (TURNS || SHARES_K ? 0 : (consumer)*64 * ROW_HALVES)
#define STORES_TILES(consumer) (!SHARES_K || (consumer) == 0)
/* Rows that lie across, of a type that the instruction does not read across: threads fetch them, of 8-bit types two at a time. */
#define HAS_8_BITS (ELEMENT == ELEMENT_S8 || ELEMENT == ELEMENT_E4M3 || ELEMENT == ELEMENT_E5M2)
#define FETCHES_ROWS (ROWS_ACROSS && (ELEMENT == ELEMENT_F32 || HAS_8_BITS))
#define ROWS_IN_PAIRS (ROWS_ACROSS && HAS_8_BITS)
#if ROWS_ACROSS && !FETCHES_ROWS
#define WGMMA_A_ACROSS 1
#else
#define WGMMA_A_ACROSS 0
#endif
#if COLUMNS_ACROSS && !TRANSPOSES
#define WGMMA_B_ACROSS 1
#else
#define WGMMA_B_ACROSS 0
#endif
#include "../ptx/wgmma.h"
#include "wgmma_stages.h"

#ifndef PLANES
#define PLANES 1
#endif

/* Planes of scaled blocks, and how many of these a tile's rows and columns are; their factors, all of a stage. */
#define SCALED (PLANES == 2)
#define ROW_BLOCKS (TILE_ROWS / BLOCK_SIDE)
#define COLUMN_BLOCKS ((WGMMA_N + BLOCK_SIDE - 1) / BLOCK_SIDE)
#define BLOCKS_OF_TILE (ROW_BLOCKS + COLUMN_BLOCKS)
#define FACTORS 8
#define RELEASES (SCALED || FETCHES_ROWS ? 4 : 1) /* of a stage by a warpgroup */

#define ROW_BYTES 128
#define ATOM_BYTES 1024                           /* eight rows, after which the swizzle repeats */
#define ACROSS (ROW_BYTES / (int)sizeof(element)) /* elements of a row where they lie across */
#define K_BYTES (TILE_K * (int)sizeof(element))   /* of k in a stage: the rows of operands along k */
#define STEPS (K_BYTES / 32)                      /* instructions along k in a stage */
#if TRANSPOSES && HAS_8_BITS && WGMMA_N == 64
#define BOX_COLUMNS 64 /* bytes that are transposed may come in a box half as wide as others */
#else
#define BOX_COLUMNS ACROSS
#endif
#define BOXES_OF(count) (((count) + ACROSS - 1) / ACROSS)
/* Columns that lie across come in whole boxes, of the last of which the instruction may use a part only. */
#define COLUMNS_LOADED (COLUMNS_ACROSS ? (WGMMA_N + BOX_COLUMNS - 1) / BOX_COLUMNS * BOX_COLUMNS : WGMMA_N)
#define ROWS_BYTES (TILE_ROWS * K_BYTES)         /* a stage's rows of k, a plane, ... */
#define COLUMNS_BYTES (COLUMNS_LOADED * K_BYTES) /* ... and its columns */

/*
 * Who stores together, and how many columns of D at a time: with SWAPPED=1 a warp has the whole of its 16, along m as
 * long as the tile; else the four warps of a consumer have a part of m each.
 */
#if SWAPPED
#define STORERS 32
#define BUFFER_ROWS 16 /* of two times 64 rows PIECE_N says so too */
#elif TALL
#define STORERS WARPGROUP
#define BUFFER_ROWS PIECE_N
#else
#define STORERS WARPGROUP
/* Of a width that is no multiple of 16 the last piece has some columns of the one before: both store the same. */
#define BUFFER_ROWS (STORED_N % 64 == 0 ? 64 : STORED_N % 32 == 0 || STORED_N % 16 != 0 ? 32 : 16)
#endif
#if ANY_D
#define BUFFERS 1 /* of a warp, for all of its columns: see wgmma_columns.h */
#define COLUMN_BYTES (WGMMA_N * PLAIN_BYTES + 16)
#define BUFFER_BYTES (BUFFER_ROWS * COLUMN_BYTES)
#elif TALL
#define BUFFERS (1 + TURNS)                                     /* of a consumer: see wgmma_tall.h */
#define BUFFER_BYTES ((BUFFER_ROWS + 15) / 16 * 16 * ROW_BYTES) /* sixteen columns are filled at a time */
#else
#define BUFFERS 2 /* of each group, used in turn */
#define BUFFER_BYTES (BUFFER_ROWS * ROW_BYTES)
#endif
#define STORING_GROUPS (CONSUMERS * WARPGROUP / STORERS)

/* 8-bit floats and planes, whose sums are moved; everything else stays in the instruction's own sums. */
#define MOVES_SUMS (PLANES > 1 || (ELEMENT >= ELEMENT_E4M3 && ACCURACY != ACCURACY_FAST))

/*
 * Moved sums of planes are compensated (Kahan) for long k, where a thread has registers for a third array: their error
 * then does not grow with k. Wider tiles are for products of so many of them that nobody else splits k.
 */
#define COMPENSATES (PLANES == 3 && WGMMA_N <= 64)

/*
 * Where a thread has registers for the unit's sums twice, those of one stage are moved while the next is multiplied. Else
 * the unit has nothing to do for as long as both consumers move at the same time, and they fall into step often.
 */
#if MOVES_SUMS && WGMMA_N <= 128 && (PLANES == 1 || WGMMA_N == 128) && !FETCHES_ROWS
#define OVERLAPS_MOVES 1
#else
#define OVERLAPS_MOVES 0
#endif

/*
 * Whether a tile's first step is taken by itself, so that the loop of the others need not ask whether the tile is left alone.
 * Where tiles are narrow its code, which has to be fetched once more, takes longer than that. Only tiles of planes are: of
 * others no step is by itself, but while something waits for it.
 */
#define ASKS_FIRST (PLANES > 1 && (OVERLAPS_MOVES || (SCALED && WGMMA_N > 128)))

/*
 * Whether sums of scaled planes are moved after two stages where k is long: 64 k of a block have one factor. Their error by
 * cuts is four times as large then, and that by roundings half, which are as many as k has stages. Only where a tile's first
 * step is taken by itself: the one stage of a tile that is left alone is no pair's.
 */
#define MOVES_PAIRS (SCALED && ASKS_FIRST)
#define LEAST_K_OF_PAIRS 4096

#if TALL
/* Of one half of a consumer's results, two in a word: their pieces, and their words, with some zeros behind them. */
#define PIECE_WIDTH (SWAPPED ? 64 : PIECE_N) /* of the instruction's columns */
#define PIECES_OF_HALF ((WGMMA_N + PIECE_WIDTH - 1) / PIECE_WIDTH)
#define HALF_WORDS (WGMMA_N / 4 + 4)
#endif

/*
 * Registers in which results wait to be stored while the next tile is multiplied: half as many as the tile has sums are
 * to spare (a few more where the width is no multiple of 64), for all of its 16-bit results or the last of its 32-bit
 * ones: pieces of 64 16-bit results along m, or of 32. Not where moved sums or fetched rows take the registers, or both do, nor
 * where another consumer multiplies meanwhile, nor where a block has but one tile. Of two times 64 rows those of the second half
 * wait, all of them.
 */
#if SWAPPED && TILE_M >= 64 && K_SHARERS == 1 && !TURNS && !ANY_D && !TALL &&                                \
    !(MOVES_SUMS && (TILE_M > 160 || SHARES_K)) && !(FETCHES_ROWS && TILE_M > 192)
#define LATE_PIECES ((WGMMA_N + 63) / 64)
#define LATE_WORDS (WGMMA_N % 64 == 0 ? LATE_PIECES * 16 : WGMMA_N / 4 + 8)
#elif TALL && !TURNS
#define LATE_PIECES PIECES_OF_HALF
#define LATE_WORDS HALF_WORDS
#else
#define LATE_PIECES 0
#define LATE_WORDS 0
#endif

#ifndef BAND
#define BAND 8
#endif

#include "wgmma_plain.h"

static_assert(!PLAIN || PLANES == 1, "of planes it must be asked whether they can stand for the operands");
static_assert(K_BYTES == ROW_BYTES || (K_BYTES == ROW_BYTES / 2 && PLANES > 1),
              "a stage is one row of a swizzle deep");
static_assert(PLANES == 1 || (SWAPPED && sizeof(element) == 2),
              "planes are of 16-bit types, their rows along n");
static_assert(PLANES == 1 || ROW_SHARERS == 1, "a tile's part beyond D is one along n, see part_is_left()");
static_assert(!SCALED || (WGMMA_N % BLOCK_SIDE == 0 && BLOCKS_OF_TILE <= FACTORS),
              "scaled blocks lie in one tile each");
static_assert(TILE_ROWS == 64 * ROW_HALVES * CONSUMERS_OF_TILE, "a consumer has 64 rows, or twice as many");
#if FINISHES && (!PLAIN || (TURNS && !TALL) || SHARES_K || (ANY_D && PLAIN_BYTES == 4))
#error "finished are results of a tile that both consumers sum or of 128 rows; of 32 bits not anywhere"
#endif
#if SUMS && (!PLAIN || FINISHES || ANY_D)
#error "bare sums of a part of k are neither finished nor stored anywhere"
#endif
#if ANY_D && (!PLAIN || !SWAPPED || TURNS || SHARES_K || MOVES_SUMS || ROWS_IN_PAIRS || ROW_SHARERS > 1)
#error "columns that begin anywhere are of bare sums, or finished ones, and a warp's whole"
#endif
#if TALL &&                                                                                                  \
    (!PLAIN || MOVES_SUMS || FETCHES_ROWS || SHARES_K || (PLAIN_BYTES == 2 && HAS_8_BITS && !FINISHES))
#error "consumers of two times 64 rows have sums that stay"
#endif
#if TALL && PLAIN_BYTES == 4 && (!TURNS || SWAPPED)
#error "consumers of two times 64 rows have 32-bit results in turn alone, and along m"
#endif
#if K_SHARERS > 1 && (!PLAIN || SUMS || ANY_D || TALL || TURNS || SHARES_K || PLANES > 1)
#error "parts of k are added of tiles that are stored by the engine"
#endif
#if CLUSTER % K_SHARERS != 0 || K_SHARERS > 8
#error "a cluster's rectangles are as large, and at most eight"
#endif
#if TURNS && (STREAM || PLANES > 1 || MOVES_SUMS || FETCHES_ROWS || CONSUMERS < 2)
#error "whole tiles alone are taken in turn, of sums that stay where they are"
#endif
static_assert(THREADS_X == WARPGROUP * (CONSUMERS + 1), "one more warpgroup for the producer");
static_assert(sizeof(element) == 2 || COLUMNS_ACROSS == TRANSPOSES,
              "the instruction reads 16-bit types alone across");
static_assert(!TRANSPOSES || (HAS_8_BITS ? WGMMA_N == BOX_COLUMNS : WGMMA_N % BOX_COLUMNS == 0),
              "whole boxes are transposed, of bytes one");
static_assert(!TRANSPOSES || (FETCHES_ROWS && CLUSTER == 1),
              "what is transposed is one block's, beside rows that are fetched");
static_assert(!ROWS_IN_PAIRS || TILE_ROWS == ROW_BYTES || (SHARES_K && TILE_ROWS == ROW_BYTES / 2),
              "8-bit rows that lie across are one box, as wide as a row of a swizzle");
static_assert(!FETCHES_ROWS || CONSUMERS == 2, "while a warpgroup fetches the other multiplies");
#if SHARES_K && (!FETCHES_ROWS || STREAM || CLUSTER > 1 || TURNS || TRANSPOSES || STAGES % 2 != 0)
#error "steps in turn are of whole tiles with fetched rows, and of every other stage"
#endif
#if RECTANGLE % ROW_SHARERS != 0
#error "a cluster is a rectangle"
#endif
/* A share may begin within eight rows: the engine puts pieces where their own address says, not where the box begins. */
static_assert(COLUMNS_ACROSS || WGMMA_N % COLUMN_SHARERS == 0, "each block loads as many columns");
static_assert(ROWS_ACROSS || TILE_ROWS % ROW_SHARERS == 0, "each block loads as many rows");
/*
 * Of what lies across there may be fewer boxes than sharers. For a block that loads nothing nobody waits, and another may arrive
 * twice at its barrier before it has gone once; that may be of one operand, for then who loads the other waits for all.
 */
static_assert(ROW_SHARERS == 1 || COLUMN_SHARERS == 1 || !ROWS_ACROSS || TILE_ROWS / ACROSS >= ROW_SHARERS ||
                  !COLUMNS_ACROSS || COLUMNS_LOADED / BOX_COLUMNS >= COLUMN_SHARERS,
              "of a rectangle's two operands one has a share for each block");

typedef struct stage {
    unsigned char rows[PLANES][ROWS_BYTES];
    unsigned char columns[PLANES][COLUMNS_BYTES];
} stage;

#define PLACES 16

/* Sums of a thread, as they are sent from block to block. */
typedef struct __attribute__((aligned(16))) four_sums {
    wgmma_sum sum[4];
} four_sums;

#if K_SHARERS > 1
typedef four_sums parts_of_tile[K_SHARERS - 1][CONSUMERS][STORED_SUMS / 4][WARPGROUP]; /* see wgmma_parts.h */
#endif

/* Other blocks' sums come into the stages where they are many, once no block needs its stages any more. */
#define PARTS_IN_STAGES                                                                                      \
    (K_SHARERS > 1 && (K_SHARERS - 1) * CONSUMERS * STORED_SUMS * WARPGROUP * 4 > 48 * 1024)

typedef struct shared_memory {
#if PARTS_IN_STAGES
    union {
        stage stages[STAGES];
        parts_of_tile parts;
    };
    unsigned char buffers[1][1][BUFFER_BYTES]; /* a block's only tile goes through the stages */
#elif K_SHARERS > 1
    stage stages[STAGES];
    union {
        parts_of_tile parts;
        unsigned char buffers[1][1][BUFFER_BYTES]; /* a block's only tile goes through the stages */
    };
#else
    stage stages[STAGES];
    unsigned char buffers[STORING_GROUPS][BUFFERS][BUFFER_BYTES]; /* on D's way to memory */
#endif
    float bias[CONSUMERS][STORED_N > 64 * ROW_HALVES ? STORED_N : 64 * ROW_HALVES];
#if SHARES_K
    wgmma_sum handed[WGMMA_SUMS][WARPGROUP]; /* consumer 1's sums of a tile, for consumer 0 */
#endif
    place places[PLACES]; /* of the pieces of work, in turn, from the producer to the consumers */
#if SCALED
    float factors[STAGES][FACTORS]; /* of the blocks of rows, then of columns; NaN: the tile is left alone */
#endif
    uint64_t full[STAGES];
    uint64_t empty[STAGES];
#if TRANSPOSES
    uint64_t turned[STAGES]; /* full, and columns lie along k */
#endif
#if K_SHARERS > 1
    uint64_t parts_come; /* all of them */
#endif
} shared_memory;

static_assert(__builtin_offsetof(shared_memory, stages) == 0 &&
                  __builtin_offsetof(stage, columns) == PLANES * ROWS_BYTES,
              "places in shared memory are worked out as numbers");
static_assert(SWAPPED || TALL || STORED_N % BUFFER_ROWS == 0 ||
                  (PLAIN && !FINISHES && !SUMS && PLAIN_BYTES == 2),
              "columns of D fill whole buffers, or are stored plainly");
static_assert(!FINISHES || STORED_N % 16 == 0 || LATE_WORDS > 0 || TALL,
              "what is stored of results are whole buffers' rows");
static_assert(STAGES + 2 + (LATE_WORDS > 0) + (TURNS || SHARES_K ? CONSUMERS - 1 : 0) <= PLACES,
              "the producer is so many pieces ahead at most");
static_assert(sizeof(shared_memory) == SHARED_BYTES, "the row says how much shared memory a block takes");

/*
 * The parts of the kernel that are ideas of their own, and know the names above (beside wgmma_plain.h, which they know too):
 *
 *     walk      which tiles and steps of k, in what order
 *     pace      how clusters stay close to each other
 *     transpose columns that lie across, turned between the engine and the consumers
 *     moves     from the unit's sums of a stage to those of the tile
 *     values    from sums to D's values
 *     buffer    from values to a buffer in shared memory, and out of it
 *     finish    from sums to results with bias and the like, where nothing else is asked
 *     store     from values to D, by way of buffers
 *     columns   the same to a D that begins anywhere
 *     tall      the same where a consumer has two times 64 rows
 *     stream    tiles whose steps blocks share
 *     parts     tiles whose k the blocks of a cluster share
 *     planes    what is left to a row that rescues
 */
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

/* ---- The producer --------------------------------------------------------------------------- */

/*
 * Has the engine load `count` rows from `first` on, of TILE_K k from k on, into `to`, for `blocks` of the cluster, whose ranks
 * are the bits of `sharers`.
 */
static __device__ inline void load_rows(uint32_t to, const tensor_map *map, uint32_t barrier, int across,
                                        int count, int first, int k, int plane, int blocks, uint32_t sharers)
{
    if (!across) {
        if (blocks == 1) {
            tensor_load(to, map, barrier, k, first, plane);
        } else {
            tensor_load_multicast(to, map, barrier, (uint16_t)sharers, k, first, plane);
        }
        return;
    }
    for (int box = 0; box < BOXES_OF(count); ++box) {
        uint32_t at = to + (uint32_t)(box * TILE_K * ROW_BYTES);
        if (blocks == 1) {
            tensor_load(at, map, barrier, first + box * ACROSS, k, plane);
        } else {
            tensor_load_multicast(at, map, barrier, (uint16_t)sharers, first + box * ACROSS, k, plane);
        }
    }
}

/*
 * Of `count` rows or columns the first that block `rank` of a cluster loads, where `blocks` of it share them; where they lie
 * across, in whole boxes, of which there may be fewer than blocks.
 */
static __device__ inline int own_share(int count, int across, int blocks, uint32_t rank)
{
    const int unit = across ? (count < ACROSS ? count : ACROSS) : count / blocks;
    return (int)rank * (count / unit) / blocks * unit;
}

/* The blocks of a cluster that have the rows of block `rank` in common, a bit each, and those that have its columns. */
static __device__ inline uint32_t row_sharers(uint32_t rank)
{
    const uint32_t every = ((1u << RECTANGLE) - 1) / ((1u << COLUMN_SHARERS) - 1); /* COLUMN_SHARERS apart */
    return every << place_among_rows(rank) << first_of_rectangle(rank);
}
static __device__ inline uint32_t column_sharers(uint32_t rank)
{
    return ((1u << COLUMN_SHARERS) - 1) << (rank - place_among_rows(rank));
}

/* Addresses of barriers and of what a stage holds, of the block's shared memory at `base`. */
#define FULL(base, number) ((base) + (uint32_t) __builtin_offsetof(shared_memory, full) + (number)*8u)
#define EMPTY(base, number) ((base) + (uint32_t) __builtin_offsetof(shared_memory, empty) + (number)*8u)
#define ROWS_OF(stage, plane) ((stage) + (uint32_t)((plane)*ROWS_BYTES))
#define COLUMNS_OF(stage, plane) ((stage) + (uint32_t)(PLANES * ROWS_BYTES + (plane)*COLUMNS_BYTES))
#define TURNED_BEHIND_FULL                                                                                   \
    (uint32_t)(__builtin_offsetof(shared_memory, turned) - __builtin_offsetof(shared_memory, full))
#define TRANSPOSERS 3 /* warps of the producer's warpgroup */

#include "wgmma_transpose.h"

/*
 * One thread loads everything. The others of its warp go along, so that all of the warp works with the same numbers, as
 * the engine's instructions want them; of scaled planes they look through the blocks' words. Not with three planes, whose
 * six loads or more a stage then come at once, and crowd out what the tensor unit reads: a thread alone takes its time.
 */
#define WARP_GOES_ALONG (PLANES < 3)

static __device__ inline int loads(void) { return WARP_GOES_ALONG ? is_elected() : 1; }

/*
 * Whether the producer tells the consumers where their tiles begin. Where it waits for nobody, since nothing is read of
 * some tiles, it may be any number of places ahead, and consumers work them out.
 */
static __device__ inline int places_come(const gemm_arguments *gemm, int reads)
{
#if PLANES > 2
    reads &= gemm->verdict.earlier == 0;
#endif
    return PLAIN || (reads && gemm->k > 0);
}

/* What can be worked out before anything may be read is worked out while the kernel before ends. */
static __device__ inline void produce(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      uint32_t base, uint32_t rank, int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    const tensor_map *row_map = SWAPPED ? &arguments->b : &arguments->a;
    const tensor_map *column_map = SWAPPED ? &arguments->a : &arguments->b;
    int row_problems = (SWAPPED ? gemm->stride_b : gemm->stride_a) != 0;
    int column_problems = (SWAPPED ? gemm->stride_a : gemm->stride_b) != 0;
    /* Among those that have the rows in common, and the columns, which are so many, as the compiler has to be told. */
    uint32_t row_rank = place_among_columns(rank);
    uint32_t column_rank = place_among_rows(rank) % COLUMN_SHARERS;
    int rows_begin = own_share(TILE_ROWS, ROWS_ACROSS, ROW_SHARERS, row_rank);
    int rows_count = own_share(TILE_ROWS, ROWS_ACROSS, ROW_SHARERS, row_rank + 1) - rows_begin;
    int columns_begin = own_share(COLUMNS_LOADED, COLUMNS_ACROSS, COLUMN_SHARERS, column_rank);
    int columns_count =
        own_share(COLUMNS_LOADED, COLUMNS_ACROSS, COLUMN_SHARERS, column_rank + 1) - columns_begin;
    position at = {0, 0};
    int tells = places_come(gemm, reads);
#if PACES
    /* One block of a cluster looks: none gets ahead of the others by more than the stages, in a rectangle twice those. */
    uint32_t launch = rank == 0 ? keep(arguments->pace) : 0;
    uint32_t between_looks = launch != 0 ? PACE_STEPS - 1 : ~0u;
    uint32_t done = 0;
#endif
    walk way = walk_begin(arguments, reads);
    piece work;
    for (uint32_t number = 0; walk_on(arguments, &way, &work, reads); ++number) {
        place here = place_of_piece(arguments, &work, rank);
        int row = (SWAPPED ? here.column : here.row) + rows_begin;
        int column = (SWAPPED ? here.row : here.column) + columns_begin;
        int row_plane = (row_problems ? here.problem : 0) * PLANES;
        int column_plane = (column_problems ? here.problem : 0) * PLANES;
        int k = here.part * (int)gemm->k_per_part + (int)work.first * TILE_K;
        if (tells && loads()) {
            shared->places[number % PLACES] = here;
        }
        if (number == 0) {
            wait_for_kernels_before();
        }
        uint32_t steps = work.count;
#if PACES
        done += steps;
#endif
#if SCALED
        uint32_t words = words_of_lane(gemm, here, threadIdx.x);
        int refused = steps > 0 && tiles_are_refused(arguments, &work, threadIdx.x);
#elif PLANES > 2
        steps = gemm->verdict.earlier && !tiles_are_left(arguments, &work) ? 0 : steps;
#endif
#pragma unroll 1
        for (; steps > 0; --steps) {
#if PACES
            if ((steps & between_looks) == 0 && !keep_pace(launch, done - steps)) {
                launch = 0;
                between_looks = ~0u;
            }
#endif
            uint32_t full = FULL(base, at.stage);
            mbarrier_wait_address(EMPTY(base, at.stage), at.parity ^ 1);
#if SCALED
            put_factors(shared->factors[at.stage], gemm, words, k, refused);
            if (threadIdx.x < BLOCKS_OF_TILE) {
                mbarrier_arrive_address(full);
            }
            if (refused) {
                if (loads()) {
                    mbarrier_arrive_address(full);
                }
                step_on(&at);
#if PACES
                if (launch != 0) {
                    tell_progress(launch, done);
                }
#endif
                break;
            }
#endif
            if (loads()) {
                uint32_t to = base + at.stage * (uint32_t)sizeof(stage);
                mbarrier_arrive_expect(full, sizeof(stage));
#pragma unroll
                for (int plane = 0; plane < PLANES; ++plane) {
                    load_rows(ROWS_OF(to, plane) + (uint32_t)rows_begin * K_BYTES, row_map, full, ROWS_ACROSS,
                              rows_count, row, k, row_plane + plane, ROW_SHARERS, row_sharers(rank));
                    load_rows(COLUMNS_OF(to, plane) + (uint32_t)columns_begin * K_BYTES, column_map, full,
                              COLUMNS_ACROSS, columns_count, column, k, column_plane + plane, COLUMN_SHARERS,
                              column_sharers(rank));
                }
            }
            k += TILE_K;
            step_on(&at);
        }
    }
#if PACES
    if (launch != 0) {
        tell_progress(launch, ALL_STEPS);
    }
#endif
}

/* ---- The consumers -------------------------------------------------------------------------- */

/* Where a warpgroup's operands lie in stage 0, and the barriers' addresses: numbers that stay in registers. */
typedef struct operand_places {
    uint64_t rows;
    uint64_t columns;
    uint32_t full;
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

static __device__ inline operand_places places_of(shared_memory *shared, int consumer)
{
    operand_places places;
    /* 64 rows are 64 * K_BYTES either way: of k each, or boxes of TILE_K rows where they lie across. */
    places.rows = place_of_operand(shared->stages[0].rows[0] + FIRST_ROW(consumer) * K_BYTES, ROWS_ACROSS);
    places.columns = place_of_operand(shared->stages[0].columns[0], COLUMNS_ACROSS && !TRANSPOSES);
    places.full = keep(shared_address(shared->full));
    return places;
}

#if FETCHES_ROWS

#if ROWS_IN_PAIRS

/* Bytes from one k to the next, where rows lie across. Of 64 rows that is half of the 128 by which the swizzle goes. */
#define PITCH_OF_K TILE_ROWS

/*
 * A consumer's rows of a stage, for wgmma_a_registers(). ldmatrix turns pairs of bytes: of 16 rows that lie across, in 16 bytes
 * of each k, a lane gets rows 2 * group and the next of two k. The instruction wants four k of a row in a word, so of 16 k
 * the first matrix has two of each four, and the second the other two:
 *
 *     k of four    0 .. 3      4 .. 7      8 .. 11     12 .. 15       for member 0, 1, 2, 3
 *     matrix 0     0, 1        4, 5        10, 11      14, 15         eight k of different rows of the swizzle
 *     matrix 1     2, 3        6, 7        8, 9        12, 13
 *
 * loaded[s] are two such pairs of matrices, of 32 k. Row `group` of the instruction is then row 2 * group, and row group + 8 the
 * next one: see row_of().
 */
static __device__ __forceinline__ void fetch_rows(uint32_t loaded[STEPS][4], const stage *from, int consumer)
{
    standing at = standing_of_thread();
    int matrix = at.lane / 8;
    int member = at.lane % 8 / 2;
    int k = matrix / 2 * 16 + member * 4 + (matrix % 2 ^ member / 2) * 2 + at.lane % 2;
    int piece = FIRST_ROW(consumer) / 16 + at.warp;
    int turn = k / (ROW_BYTES / PITCH_OF_K) % (PITCH_OF_K / 16);
    const unsigned char *first = from->rows[0] + k * PITCH_OF_K + ((piece ^ turn) << 4);
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        ldmatrix_x4_trans(loaded[s], first + s * 32 * PITCH_OF_K);
    }
}

/* What was fetched, four k of a row in a word. Its registers may not be written while an instruction runs. */
static __device__ __forceinline__ void order_rows(uint32_t words[STEPS][4], uint32_t loaded[STEPS][4])
{
    /* Whether matrix 0 has the first two of four k. */
    int low_first = standing_of_thread().member / 2 == 0;
    uint32_t even = low_first ? 0x6420 : 0x2064;
    uint32_t odd = low_first ? 0x7531 : 0x3175;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            words[s][2 * half] = __byte_perm(loaded[s][2 * half], loaded[s][2 * half + 1], even);
            words[s][2 * half + 1] = __byte_perm(loaded[s][2 * half], loaded[s][2 * half + 1], odd);
        }
    }
}

#else

/*
 * A consumer's rows of a stage, for wgmma_a_registers(): words[s][2 * q + h] is k 8 * s + member + 4 * q of row
 * 16 * warp + group + 8 * h. A box has ACROSS = 32 rows, 8 pieces of four, of TILE_K k. Of one k the eight groups have two
 * pieces, so the second four begin with the other q: then the swizzle gives each lane of a load a bank of its own.
 *
 *     groups      0 .. 3 (piece p)                    4 .. 7 (piece p + 1)
 *     load 0      k of q = 0, at p ^ member           k of q = 1, at (p + 1) ^ (member + 4)
 *     load 1      k of q = 1, at p ^ (member + 4)     k of q = 0, at (p + 1) ^ member
 */
static __device__ __forceinline__ void fetch_rows(uint32_t loaded[STEPS][4], const stage *from, int consumer)
{
    standing at = standing_of_thread();
    int row = 16 * at.warp + at.group;
    int piece = row % ACROSS / 4;
    int other = at.group / 4;
    const unsigned char *box = from->rows[0] + (FIRST_ROW(consumer) + row) / ACROSS * (TILE_K * ROW_BYTES);
    uint32_t first = (uint32_t)(at.member * ROW_BYTES + ((piece ^ at.member) << 4) + row % 4 * 4);
    uint32_t place = first ^ (uint32_t)other << 6; /* of load 0; q of the swizzle, then of the row */
    uint32_t places[2] = {place + (uint32_t)other * 4 * ROW_BYTES,
                          (place ^ 1 << 6) + (uint32_t)(1 - other) * 4 * ROW_BYTES};
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                loaded[s][2 * i + h] =
                    *(const uint32_t *)(box + s * 8 * ROW_BYTES + (places[i] ^ (uint32_t)h << 5));
            }
        }
    }
}

/* What was fetched, in the instruction's order. Its registers may not be written while an instruction runs. */
static __device__ __forceinline__ void order_rows(uint32_t words[STEPS][4], uint32_t loaded[STEPS][4])
{
    int other = standing_of_thread().group / 4;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            words[s][h] = other ? loaded[s][2 + h] : loaded[s][h];
            words[s][2 + h] = other ? loaded[s][h] : loaded[s][2 + h];
        }
    }
}

#endif

/* Starts the instructions of one stage with those rows, and commits them. */
static __device__ inline void multiply_rows(wgmma_sum sum[WGMMA_SUMS], uint32_t words[STEPS][4],
                                            operand_places places, uint32_t number, int accumulate)
{
    uint64_t columns = wgmma_advance_by(places.columns, number, sizeof(stage));
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        wgmma_a_registers(sum, words[s], wgmma_advance(columns, s * 32), s > 0 || accumulate);
    }
    wgmma_commit();
}

#else

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
    uint32_t thread = threadIdx.x % (WARPGROUP / RELEASES);
    uint32_t empty = places.full + EMPTY_BEHIND_FULL + number * (uint32_t)sizeof(uint64_t);
    if (RECTANGLE == 1) {
        if (thread == 0) {
            mbarrier_arrive_address(empty);
        }
    } else if (thread < CLUSTER && (LOADERS == CLUSTER || loads_for(thread, block_rank()))) {
        mbarrier_arrive_at(empty, thread);
    }
}

/* Waits until the stage that is next has come. */
static __device__ inline void await_stage(operand_places places, position at)
{
    mbarrier_wait_address(places.full + at.stage * (uint32_t)sizeof(uint64_t), at.parity);
}

#if FETCHES_ROWS

/* Waits until it may be multiplied, which is later where columns are transposed. */
static __device__ inline void await_columns(operand_places places, position at)
{
#if TRANSPOSES
    at.stage += TURNED_BEHIND_FULL / (uint32_t)sizeof(uint64_t);
    await_stage(places, at);
#else
    (void)places;
    (void)at;
#endif
}

#endif

/* What a consumer has at hand. */
typedef struct consumer_state {
    const tensor_gemm_arguments *arguments;
    shared_memory *shared;
    operand_places places;
    position at;
    int number;
    uint32_t pieces; /* done so far */
    int last;        /* with TURNS: whether this one is the block's last */
    uint32_t todo; /* with sums, see todo_of(), and what stands below: one register, the same for all lanes */
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
#define EXPRESS (1u << 22) /* the last tile is stored without more ado, see consume() */

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

#if SHARES_K

/*
 * Of a tile's steps those of this consumer: the ones whose stages are its own. Each looks at its own alone, for who passes
 * stages by could take one's last phase but one for the next. Goes to the first of them.
 */
static __device__ inline uint32_t own_steps(consumer_state *self, uint32_t steps)
{
    uint32_t passed = self->at.stage % 2 != (uint32_t)self->number;
    if (passed) {
        step_on(&self->at);
    }
    return (steps + 1 - passed) / 2;
}

/* Barriers at which sums are there, and have been taken. */
#define SUMS_ARE_HANDED (1 + CONSUMERS)
#define SUMS_ARE_TAKEN (2 + CONSUMERS)

/* Hands consumer 1's sums to the other, as soon as that has taken those of the tile before. */
static __device__ __forceinline__ void hand_sums(const consumer_state *self, const wgmma_sum sum[WGMMA_SUMS])
{
    if (self->pieces > 0) {
        barrier_sync(SUMS_ARE_TAKEN, 2 * WARPGROUP);
    }
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        self->shared->handed[i][thread_number() % WARPGROUP] = sum[i];
    }
    barrier_arrive(SUMS_ARE_HANDED, 2 * WARPGROUP);
}

/* Adds them. Which of the two has a tile's first step differs, but not the sum's bits. */
static __device__ __forceinline__ void take_sums(const consumer_state *self, wgmma_sum sum[WGMMA_SUMS],
                                                 int last)
{
    barrier_sync(SUMS_ARE_HANDED, 2 * WARPGROUP);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] += self->shared->handed[i][thread_number() % WARPGROUP];
    }
    if (!last) {
        barrier_arrive(SUMS_ARE_TAKEN, 2 * WARPGROUP);
    }
}

#endif

#if !MOVES_SUMS && !FETCHES_ROWS

/*
 * Consumers that multiply in turn wait for the one before until it has seen all of its stages come: who looked at them
 * earlier could take a stage's last phase but one for its own, of the same parity.
 */
static __device__ inline void await_turn(const consumer_state *self)
{
    if (TURNS && self->pieces > 0) {
        barrier_sync(1 + CONSUMERS + self->number, 2 * WARPGROUP);
    }
}
static __device__ inline void hand_turn_on(const consumer_state *self)
{
    if (TURNS && !self->last) {
        barrier_arrive(1 + CONSUMERS + (self->number + 1) % CONSUMERS, 2 * WARPGROUP);
    }
}

/* Starts the instructions of the stage that is next, as soon as it is there. */
static __device__ __forceinline__ void start_step(wgmma_sum sum[CONSUMER_SUMS], const consumer_state *self)
{
    await_stage(self->places, self->at);
    wgmma_fence();
    multiply_stage(sum, self->places, self->at.stage, 1);
}

/* Waits for those of the stage before, if there is one, and goes on. */
static __device__ __forceinline__ void end_step_before(consumer_state *self, uint32_t *before)
{
    wgmma_wait(1);
    if (*before < STAGES) {
        release(self->places, *before);
    }
    *before = self->at.stage;
    step_on(&self->at);
}

#endif

#if MOVES_SUMS && !FETCHES_ROWS

/* What sums are moved from, and what is known of the way. */
typedef struct moved_sums {
    wgmma_sum part[1 + OVERLAPS_MOVES][WGMMA_SUMS]; /* the unit's, of a stage or a pair each */
#if COMPENSATES
    int compensates;
    wgmma_sum excess[WGMMA_SUMS]; /* what sum has more than was added to it */
#endif
} moved_sums;

/* Starts the instructions of the stage that is next, as soon as it is there, and says which one it is. */
static __device__ __forceinline__ uint32_t start_part(wgmma_sum part[WGMMA_SUMS], consumer_state *self)
{
    uint32_t stage = self->at.stage;
    await_stage(self->places, self->at);
    wgmma_hold(part);
    wgmma_fence();
    multiply_stage(part, self->places, stage, 0);
    step_on(&self->at);
    return stage;
}

/* Adds a stage's sums to the tile's; with scaled planes by the factors that stand beside the stage. */
static __device__ __forceinline__ void move_part(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                 wgmma_sum part[WGMMA_SUMS], const float *factors)
{
#if SCALED
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; ++i) {
        sum[i] = fmaf(part[i], factors[i / (BLOCK_SIDE / 2)], sum[i]);
    }
#elif COMPENSATES
    if (moved->compensates) {
        add_compensated(sum, moved->excess, part);
    } else {
        add(sum, part);
    }
#else
    add(sum, part);
#endif
    (void)moved;
    (void)factors;
}

/* Multiplies the stage that is next, and moves its sums; 0: the tile is left alone, and no stage of it follows. */
static __device__ __forceinline__ int move_step(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                consumer_state *self)
{
    float *factors = 0;
#if SCALED
    float of_stage[COLUMN_BLOCKS];
    await_stage(self->places, self->at);
    if (read_factors(of_stage, self->shared->factors[self->at.stage], self->number)) {
        spoil(sum);
        release(self->places, self->at.stage);
        step_on(&self->at);
        return 0;
    }
    factors = of_stage;
#endif
    uint32_t stage = start_part(moved->part[0], self);
    wgmma_wait(0);
    wgmma_hold(moved->part[0]);
    release(self->places, stage);
    move_part(sum, moved, moved->part[0], factors);
    return 1;
}

#if MOVES_PAIRS

/* Starts the instructions of the stage that is next, which add to what those before leave. */
static __device__ __forceinline__ uint32_t start_rest(wgmma_sum part[WGMMA_SUMS], consumer_state *self)
{
    uint32_t stage = self->at.stage;
    await_stage(self->places, self->at);
    wgmma_fence();
    multiply_stage(part, self->places, stage, 1);
    step_on(&self->at);
    return stage;
}

#endif

#if OVERLAPS_MOVES || MOVES_PAIRS

/* Moves what the instructions of `stage` have left, which are over. A tile that is left alone has none here. */
static __device__ __forceinline__ void end_part(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                const consumer_state *self, uint32_t stage)
{
    wgmma_hold(moved->part[which]);
    float *factors = 0;
#if SCALED
    float of_stage[COLUMN_BLOCKS];
    read_factors(of_stage, self->shared->factors[stage], self->number);
    factors = of_stage;
    __syncwarp(); /* all have read them before one says so */
#endif
    release(self->places, stage);
    move_part(sum, moved, moved->part[which], factors);
}

#endif

#if OVERLAPS_MOVES

/* Sums `steps` stages more: while the sums of one are moved the unit has the next to multiply. */
static __device__ __forceinline__ void move_steps(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                  consumer_state *self, uint32_t steps)
{
    if (steps == 0) {
        return;
    }
    uint32_t first = start_part(moved->part[0], self);
#pragma unroll 1
    for (; steps > 2; steps -= 2) {
        uint32_t second = start_part(moved->part[1], self);
        wgmma_wait(1);
        end_part(sum, moved, 0, self, first);
        first = start_part(moved->part[0], self);
        wgmma_wait(1);
        end_part(sum, moved, 1, self, second);
    }
    if (steps == 2) {
        uint32_t second = start_part(moved->part[1], self);
        wgmma_wait(1);
        end_part(sum, moved, 0, self, first);
        wgmma_wait(0);
        end_part(sum, moved, 1, self, second);
    } else {
        wgmma_wait(0);
        end_part(sum, moved, 0, self, first);
    }
}

#if MOVES_PAIRS

/* Two stages whose sums are under way. */
typedef struct stage_pair {
    uint32_t first;
    uint32_t second;
} stage_pair;

/* Starts two stages more, and moves the sums `which` of the two before them. */
static __device__ __forceinline__ void move_pair(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                 consumer_state *self, stage_pair *before)
{
    stage_pair next;
    next.first = start_part(moved->part[1 - which], self);
    wgmma_wait(2);
    release(self->places, before->first);
    next.second = start_rest(moved->part[1 - which], self);
    wgmma_wait(2);
    end_part(sum, moved, which, self, before->second);
    *before = next;
}

/* Moves the sums `which` of the last two. */
static __device__ __forceinline__ void end_pair(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved, int which,
                                                const consumer_state *self, stage_pair last)
{
    wgmma_wait(0);
    release(self->places, last.first);
    end_part(sum, moved, which, self, last.second);
}

/* Sums stages two by two, and returns how many are left, one or none. */
static __device__ __forceinline__ uint32_t move_pairs(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                      consumer_state *self, uint32_t steps)
{
    if (steps < 2) {
        return steps;
    }
    stage_pair before;
    before.first = start_part(moved->part[0], self);
    before.second = start_rest(moved->part[0], self);
#pragma unroll 1
    for (; steps > 5; steps -= 4) {
        move_pair(sum, moved, 0, self, &before);
        move_pair(sum, moved, 1, self, &before);
    }
    if (steps > 3) {
        move_pair(sum, moved, 0, self, &before);
        end_pair(sum, moved, 1, self, before);
    } else {
        end_pair(sum, moved, 0, self, before);
    }
    return steps % 2;
}

#endif

#else

static __device__ __forceinline__ void move_steps(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                  consumer_state *self, uint32_t steps)
{
#pragma unroll 1
    for (; steps > 0; --steps) {
        if (!move_step(sum, moved, self) && !ASKS_FIRST) {
            break;
        }
    }
}

#if MOVES_PAIRS

/* Sums stages two by two, and returns how many are left, one or none. */
static __device__ __forceinline__ uint32_t move_pairs(wgmma_sum sum[WGMMA_SUMS], moved_sums *moved,
                                                      consumer_state *self, uint32_t steps)
{
#pragma unroll 1
    for (; steps > 1; steps -= 2) {
        uint32_t first = start_part(moved->part[0], self);
        uint32_t second = start_rest(moved->part[0], self);
        wgmma_wait(1);
        release(self->places, first);
        wgmma_wait(0);
        end_part(sum, moved, 0, self, second);
    }
    return steps;
}

#endif

#endif

#endif

/*
 * Sums `steps` stages, of which the first is number `number` along k. Two groups of instructions are under way at a time: a
 * stage is released when the one after it has been started. Meanwhile the last tile is stored, and what is left of that in
 * the end.
 */
static __device__ __forceinline__ void sum_products(wgmma_sum sum[CONSUMER_SUMS], consumer_state *self,
                                                    uint32_t steps, uint32_t number)
{
#if MOVES_SUMS && !FETCHES_ROWS
    moved_sums moved;
    clear(sum);
#if COMPENSATES
    moved.compensates = self->arguments->gemm.verdict.long_k;
    clear(moved.excess);
#endif
    int in_pairs = MOVES_PAIRS && self->arguments->gemm.k >= LEAST_K_OF_PAIRS;
    coming_bias bias = {{0}};
#if BIAS_COMES_LAST && LATE_PIECES == 0
    /* A step in the loop below does not overlap with the next: it is for what takes longer than to ask. */
    if (self->waits & BIAS_IS_DUE) {
        if (steps > 0) {
            await_stage(self->places, self->at); /* the tile's place has been written then */
        }
        ask_for_what_is_due(self, &bias);
    }
#endif
#pragma unroll 1
    while (waits_for_stages(self) > 0 || ASKS_FIRST) {
        if (steps > 0) {
            steps = move_step(sum, &moved, self) ? steps - 1 : 0;
            ++number;
        }
        do_what_waits(self, &bias);
        if (ASKS_FIRST && waits_for_stages(self) == 0 && (!in_pairs || number % 2 == 0 || steps == 0)) {
            break;
        }
    }
    self->at.stage = keep(self->at.stage);
    self->at.parity = keep(self->at.parity);
    steps = keep(steps);
#if MOVES_PAIRS
    if (in_pairs) {
        steps = move_pairs(sum, &moved, self, steps);
    }
#endif
    move_steps(sum, &moved, self, steps);
#if BIAS_COMES_LAST
    put_what_comes(self, &bias);
#endif
#elif FETCHES_ROWS
    uint32_t loaded[STEPS][4] = {{0}}; /* or ptxas spills one of them */
    clear(sum);
#if MOVES_SUMS
    const int accumulate = 0;
    wgmma_sum part[WGMMA_SUMS]; /* the unit's, of a stage */
#else
    const int accumulate = 1;
    wgmma_sum *part = sum;
    wgmma_hold(sum);
#endif
#if SHARES_K
    position begin = self->at;
    uint32_t all = steps;
    steps = own_steps(self, steps);
#endif
    if (steps > 0) {
        await_stage(self->places, self->at);
    }
    if (steps > 0 || !SHARES_K) { /* else nothing tells that the place has been written */
        fetch_due_bias(self);     /* here, for in the loop there are no registers for it */
    }
    if (steps > 0) {
        fetch_rows(loaded, &self->shared->stages[self->at.stage], self->number);
    }
#pragma unroll 1
    for (; steps > 0; --steps) {
        uint32_t words[STEPS][4];
        uint32_t stage = self->at.stage;
        order_rows(words, loaded);
        await_columns(self->places, self->at);
#if MOVES_SUMS
        wgmma_hold(part);
#endif
        wgmma_fence();
        multiply_rows(part, words, self->places, stage, accumulate);
        step_on(&self->at);
        if (SHARES_K) {
            step_on(&self->at); /* the other's */
        }
        store_some_late(self);
        if (steps > 1) {
            await_stage(self->places, self->at);
            fetch_rows(loaded, &self->shared->stages[self->at.stage], self->number);
        }
        wgmma_wait(0);
        release(self->places, stage);
#if MOVES_SUMS
        wgmma_hold(part);
        add(sum, part);
#endif
    }
#if !MOVES_SUMS
    wgmma_hold(sum);
#endif
    while (self->waits % BIAS_IS_DUE > 0) {
        store_some_late(self);
    }
#if SHARES_K
    self->at = begin;
    step_over(&self->at, all);
#endif
#else
    /* none */
    uint32_t before = STAGES;
    clear(sum);
    hold_sums(sum);
    await_turn(self);
    coming_bias bias = {{0}};
#pragma unroll 1
    while (waits_for_stages(self) > 0) {
        if (steps > 0) {
            start_step(sum, self);
        }
        do_what_waits(self, &bias);
        if (steps > 0) {
            end_step_before(self, &before);
            --steps;
        }
    }
    self->at.stage = keep(self->at.stage);
    self->at.parity = keep(self->at.parity);
    steps = keep(steps);
    before = keep(before);
    /* What the tensor unit waits for where tiles are small: nothing else is in this loop. */
#pragma unroll 1
    for (; steps > 0; --steps) {
        start_step(sum, self);
        end_step_before(self, &before);
    }
    hand_turn_on(self);
#if BIAS_COMES_LAST
    put_what_comes(self, &bias);
#endif
    wgmma_wait(0);
    hold_sums(sum);
    if (before < STAGES) {
        release(self->places, before);
    }
#endif
}

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

/* Whether a piece is all of its tile's steps. */
static __device__ inline int is_whole(const piece *work)
{
    return !STREAM || (work->first == 0 && !work->goes_on);
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

/* The 32 bits of a sum. */
static __device__ inline float sum_as_float(wgmma_sum sum)
{
#if ELEMENT == ELEMENT_S8
    return __int_as_float(sum);
#else
    return sum;
#endif
}

#endif

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
        int last = K_SHARERS > 1 ? 1 : walk_is_over(arguments, &way);
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
        if (CLUSTER > 1 && last && !TURNS) {
            cluster_arrive();
        }
        if (PARTS_IN_STAGES) {
            cluster_wait(); /* all blocks are through with their stages */
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
    if (CLUSTER > 1 && K_SHARERS == 1 && (self.pieces == 0 || TURNS)) {
        cluster_arrive();
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
#define THREADS_THAT_MEET (32 + CONSUMERS * WARPGROUP) /* the producer's warp and the consumers */

/*
 * The arguments are fetched when they are first looked at, line by line. Each warp looks at one line, so that they come
 * all at once.
 */
static __device__ inline void fetch_arguments(const tensor_gemm_arguments *arguments)
{
    const uint32_t words_of_line = 16;
    for (uint32_t word = threadIdx.x / 32 * words_of_line; word < sizeof(*arguments) / 4;
         word += THREADS_X / 32 * words_of_line) {
        touch(((const uint32_t *)arguments)[word]);
    }
}

/* Makes the barriers, and says so to all who wait for it; the producer's warp goes on. */
static __device__ inline void make_barriers(const tensor_gemm_arguments *arguments, shared_memory *shared)
{
    if (threadIdx.x == 0) {
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
#if TRANSPOSES
        barrier_arrive(TRANSPOSERS_BEGIN, WARPGROUP);
#endif
    }
}

KERNEL __launch_bounds__(THREADS_X, 1) KERNEL_CLUSTER
    KERNEL_NAME(const __grid_constant__ tensor_gemm_arguments arguments)
{
    DYNAMIC_SHARED(shared_memory, shared);
    let_next_kernel_begin();
    fetch_arguments(&arguments);
    /* All lanes agree on these, which the compiler has to know where warpgroups part. */
    int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0);
    if (warp == 0) {
        make_barriers(&arguments, shared);
    }
    if (CLUSTER > 1) {
        cluster_arrive_relaxed(); /* behind the fence of who made the barriers */
    }
    if (warp < 4) {
#if CONSUMERS > 1
        registers_shrink_to(PRODUCER_REGISTERS);
#endif
        if (CLUSTER > 1) {
            cluster_wait();
        }
        if (warp == 0) {
            int reads = reads_operands(&arguments.gemm);
            uint32_t base = keep(shared_address(shared));
            if ((PLAIN || !is_refused(&arguments.gemm)) && (WARP_GOES_ALONG || threadIdx.x == 0)) {
                produce(&arguments, shared, base, block_rank(), reads);
            }
            __syncwarp();
        }
#if TRANSPOSES
        if (warp > 0) {
            barrier_sync(TRANSPOSERS_BEGIN, WARPGROUP);
            transpose(&arguments, shared, keep(shared_address(shared)), (uint32_t)warp - 1,
                      reads_operands(&arguments.gemm));
        }
#endif
        if (CLUSTER > 1) {
            cluster_arrive();
        }
    } else {
#if CONSUMERS > 1
        registers_grow_to(CONSUMER_REGISTERS);
#endif
        if (CLUSTER == 1) {
            barrier_sync(0, THREADS_THAT_MEET);
        } else {
            cluster_wait();
        }
        int reads = reads_operands(&arguments.gemm);
        wait_for_kernels_before();
        if (PLAIN || !is_refused(&arguments.gemm)) {
            consume(&arguments, shared, warp / 4 - 1, reads);
        } else if (CLUSTER > 1) {
            cluster_arrive();
        }
    }
    /*
     * No block leaves while another may still write into its shared memory or arrive at its barriers. Of sums that come into stages
     * consumers have waited for that, and then for the sums.
     */
    if (CLUSTER > 1 && !(PARTS_IN_STAGES && warp >= 4)) {
        cluster_wait();
    }
}
