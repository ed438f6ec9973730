/*
 * square.h - the pieces of a transpose: squares of PACK x PACK elements that a thread turns over in its
 * registers, and their places in shared memory.
 */
#ifndef CARAT_MEMORY_SQUARE_H
#define CARAT_MEMORY_SQUARE_H

#include "pieces.h"

#define PACKS_M (TILE_M / PACK) /* packs down a column of the tile */
#define PACKS_N (TILE_N / PACK) /* packs along a row of it, once it is turned over */

static __device__ inline void swap_words(uint32_t *x, uint32_t *y)
{
    uint32_t was = *x;
    *x = *y;
    *y = was;
}

/*
 * Turns a square over: square[c] holds column c, and afterwards row c. Elements that share a word go
 * first, in their small squares of PER_WORD x PER_WORD, by picking bytes out of word pairs; then the
 * words change places, which costs nothing: registers only change their names.
 */
#if ELEMENT_BYTES == 8

static __device__ inline void turn_over(pack square[PACK])
{
    swap_words(&square[0].word[2], &square[1].word[0]);
    swap_words(&square[0].word[3], &square[1].word[1]);
}

#else

#define PER_WORD (4 / ELEMENT_BYTES)

/* The small square of word w in the columns from `first` on. */
static __device__ inline void turn_small_square(pack *square, int first, int w)
{
#if PER_WORD == 2
    uint32_t x = square[first].word[w];
    uint32_t y = square[first + 1].word[w];
    square[first].word[w] = __byte_perm(x, y, 0x5410);     /* the lower halves */
    square[first + 1].word[w] = __byte_perm(x, y, 0x7632); /* the upper halves */
#elif PER_WORD == 4
    uint32_t low_01 = __byte_perm(square[first].word[w], square[first + 1].word[w], 0x5140);  /* 0 0 1 1 */
    uint32_t high_01 = __byte_perm(square[first].word[w], square[first + 1].word[w], 0x7362); /* 2 2 3 3 */
    uint32_t low_23 = __byte_perm(square[first + 2].word[w], square[first + 3].word[w], 0x5140);
    uint32_t high_23 = __byte_perm(square[first + 2].word[w], square[first + 3].word[w], 0x7362);
    square[first].word[w] = __byte_perm(low_01, low_23, 0x5410);
    square[first + 1].word[w] = __byte_perm(low_01, low_23, 0x7632);
    square[first + 2].word[w] = __byte_perm(high_01, high_23, 0x5410);
    square[first + 3].word[w] = __byte_perm(high_01, high_23, 0x7632);
#else
    (void)square;
    (void)first;
    (void)w;
#endif
}

static __device__ inline void turn_over(pack square[PACK])
{
#pragma unroll
    for (int first = 0; first < PACK; first += PER_WORD) {
#pragma unroll
        for (int w = 0; w < 4; w++) {
            turn_small_square(square, first, w);
        }
    }
#pragma unroll
    for (int p = 0; p < 4; p++) {
#pragma unroll
        for (int w = p + 1; w < 4; w++) {
#pragma unroll
            for (int r = 0; r < PER_WORD; r++) {
                swap_words(&square[PER_WORD * p + r].word[w], &square[PER_WORD * w + r].word[p]);
            }
        }
    }
}

#endif

/*
 * A square's packs in shared memory, once turned over: pack y of row i, in lines of PACKS_N packs. Threads that take
 * consecutive squares down a column, and threads that take consecutive packs of a line, have all banks to themselves:
 * see transpose.cu.
 */
static __device__ inline uint4 *staged_pack(uint4 *staged, int32_t i, int32_t y)
{
    return &staged[i * PACKS_N + (y ^ (i / PACK % 8))];
}

#endif
