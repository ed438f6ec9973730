/*
 * wgmma_tile.h - what a row's constants come to: which operand lies how, who of a cluster and of a block has what of a tile, what of it
 * waits in registers, what a stage holds and where all of it stands in shared memory; and which constants go together. A part of
 * wgmma.cu.
 */
#ifndef CARAT_GEMM_WGMMA_TILE_H
#define CARAT_GEMM_WGMMA_TILE_H

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

/* What a row need not say. */
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

/* How many consumers work on a tile, and the rows of it that one has. */
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

/* ---- What goes together ---- */

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

/* ---- Shared memory ---- */

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

/* ---- How a block begins ---- */

/* The producer's warp, the next one, which makes the barriers, and the consumers. */
#define THREADS_THAT_MEET (64 + CONSUMERS * WARPGROUP)

/* Waits until the barriers are there, those of all blocks of the cluster. */
static __device__ inline void await_barriers(void)
{
    if (CLUSTER > 1) {
        cluster_wait();
    } else {
        barrier_sync(0, THREADS_THAT_MEET);
    }
}

/* ---- What has to be so ---- */

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

#endif
