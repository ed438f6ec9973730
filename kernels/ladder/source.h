/*
 * source.h - what rungs 8, 10 and 11 share: where a block's next pair of tiles comes from, when cp.async brings them
 * several ahead.
 */
#ifndef CARAT_LADDER_SOURCE_H
#define CARAT_LADDER_SOURCE_H

#define PIECE (16 / (int)sizeof(element)) /* elements of a 16-byte copy */

/* How many bytes of a piece lie in the matrix, whose column ends `left` elements from the piece's first. */
static __device__ inline int piece_bytes(int left)
{
    return left >= PIECE ? 16 : left > 0 ? (int)sizeof(element) * left : 0;
}

typedef struct source {
    const element *a;
    const element *b;
    int64_t lda;
    int64_t ldb;
    int rows;      /* of A's tile in the matrix */
    int columns;   /* of B's */
    int64_t depth; /* k that are left */
} source;

/* The first tiles of a block; of depth k, which is 0 where nothing is to be read. */
static __device__ inline source source_of_block(const gemm_arguments *arguments, block_share share,
                                                int64_t depth)
{
    source first = {(const element *)arguments->a + share.row,
                    (const element *)arguments->b + share.column * arguments->ldb,
                    arguments->lda,
                    arguments->ldb,
                    arguments->m - share.row < TILE_M ? (int)(arguments->m - share.row) : TILE_M,
                    arguments->n - share.column < TILE_N ? (int)(arguments->n - share.column) : TILE_N,
                    depth};
    return first;
}

/* How many k of the next tiles lie in the matrices, if any are left. */
static __device__ inline int tile_depth(const source *from)
{
    return from->depth < TILE_K ? (int)from->depth : TILE_K;
}

/* The copies of these tiles are all started: goes on to the next. */
static __device__ inline void next_tiles(source *from)
{
    from->a += TILE_K * from->lda;
    from->b += TILE_K;
    from->depth -= TILE_K;
    /* A group is closed even when it is empty, so that counting groups counts tiles. */
    copy_async_commit();
}

#endif
