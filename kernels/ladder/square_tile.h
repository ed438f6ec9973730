/*
 * square_tile.h - what rungs 3 to 5 share: square tiles, of which a thread copies an element each; and rungs 4 and
 * 5: zeros for what lies outside a matrix.
 */
#ifndef CARAT_LADDER_SQUARE_TILE_H
#define CARAT_LADDER_SQUARE_TILE_H

#define TILE TILE_K

static_assert(TILE_M == TILE && TILE_N == TILE, "the tiles are square");
static_assert(THREADS_X == TILE && THREADS_Y == TILE, "a thread an element of each tile");

/* Element (i, j) of a rows x columns matrix, and zero outside it. */
static __device__ inline accumulator element_or_zero(const element *matrix, int64_t ld, int64_t i, int64_t j,
                                                     int64_t rows, int64_t columns)
{
    return i < rows && j < columns ? widen(matrix[i + j * ld]) : 0;
}

#endif
