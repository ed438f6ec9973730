/*
 * blocks.h - what a split into two f16 (memory/split_f16.cu) says of the blocks of A and B, and whether that is enough
 * for a tile of D.
 *
 * A block is BLOCK_SIDE rows of op(A), or columns of op(B), by BLOCK_SIDE of k; what k leaves over belongs to the last,
 * so that no block has fewer, unless k itself has, nor 2 * BLOCK_SIDE or more. Its word:
 *
 *     bits 8 to 15    the biased exponent of E, the power of two at or below its largest magnitude; 0: there are
 *                     only zeros; 255: there is what f16 cannot stand for
 *     bit 7           there is a row (column) of zeros alone
 *     bits 0 to 6     how many of its k have an element of E / 2^BLOCK_LARGE or more, of the row (column) that
 *                     has the fewest. One of zeros alone does not count. 0 where f16 cannot stand for the block
 *
 * The elements of a block are multiplied by 2^BLOCK_TOP / E before they are split. Then their parts keep 22 bits from
 * 2^-16 E on, and below that leave out no more than 2^-39 E. That is nothing beside the other products of an entry of
 * D - if there are any: n_a large elements in a row and n_b in a column meet in n_a + n_b - k places at least.
 * So of two blocks that meet
 *
 *     what is left out    is at most   k 2^-37 E_a E_b
 *     what remains        is at least  (n_a + n_b - k) 2^-12 E_a E_b     in absolute values
 *
 * for every entry whose row and column are not zeros there; of others nothing is left out, and nothing remains. So where
 * there are such rows (columns) two blocks that meet may not stand in for others. A tile whose sums over all k of the one
 * are at most 2^-22 of those of the other may be computed from parts.
 */
#ifndef CARAT_KERNELS_BLOCKS_H
#define CARAT_KERNELS_BLOCKS_H

#define BLOCK_SIDE 64
#define BLOCK_TOP 14
#define BLOCK_LARGE 6
#define BLOCK_LEAST_EXPONENT                                                                                 \
    (127 - 50) /* so that products of any two are far from overflow and from denormals */
#define BLOCK_MOST_EXPONENT (127 + 50)
#define BLOCK_EVIDENCE 8 /* 2^-22 * 2^-12 / 2^-37 */

#define BLOCK_ZEROS 0x80u

static __device__ inline uint32_t block_word(uint32_t exponent, uint32_t count, uint32_t zeros)
{
    return exponent << 8 | (zeros ? BLOCK_ZEROS : 0) | count;
}

/* E; 0 or infinity where there is none. */
static __device__ inline float block_scale(uint32_t word) { return __uint_as_float((word >> 8) << 23); }

static __device__ inline int32_t block_count(uint32_t word) { return (int32_t)(word & (BLOCK_ZEROS - 1)); }

/* How many k the block of a slice has. */
static __device__ inline int32_t slice_length(int64_t k, int32_t slices, int32_t slice)
{
    return slice + 1 < slices ? BLOCK_SIDE : (int32_t)(k - (int64_t)slice * BLOCK_SIDE);
}

#endif
