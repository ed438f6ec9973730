/*
 * wgmma_transpose_words.h - how a warp turns its part of a stage's columns of f32: a part of wgmma.cu, see wgmma_transpose.h.
 *
 * A box of 32 k by 32 columns is 8 x 8 blocks of 4 x 4, of which a lane loads one, four vectors of 16 bytes, and stores it,
 * turned, where the one across the diagonal stood. Lane 8 * u + a has, of t = u or u + 4, the block of
 *
 *     k from 4 * (a ^ t) on,  columns from 4 * a on
 *
 * Blocks of the same t trade places with each other, so that a warp needs no room but its registers; and the eight lanes of one t
 * load from, and store to, all 32 banks. A half of a box has four t, 2 KB.
 */
#ifndef CARAT_GEMM_WGMMA_TRANSPOSE_WORDS_H
#define CARAT_GEMM_WGMMA_TRANSPOSE_WORDS_H

#define SIDE_OF_BOX 32
#define HALVES (WGMMA_N / SIDE_OF_BOX * 2) /* of a stage's boxes, dealt out to the warps one by one */
#define NEXT_ROW (ROW_BYTES + 16) /* the next row of a block, and its part in the swizzle: an exclusive or */

/* Where a lane loads and stores in a box's first half, and which half is the warp's first. */
typedef struct transposer {
    uint32_t load;
    uint32_t store;
    uint32_t first;
} transposer;

/* The first row of a block in the swizzle, 4 * row_block k or columns into the box. */
static __device__ inline uint32_t place_of_block(uint32_t row_block, uint32_t piece)
{
    return row_block * 4 * ROW_BYTES | (piece ^ row_block % 2 * 4) << 4;
}

static __device__ inline transposer transposer_of_warp(uint32_t lane, uint32_t number)
{
    uint32_t along_columns = lane % 8;
    uint32_t along_k = along_columns ^ lane / 8;
    transposer self = {place_of_block(along_k, along_columns), place_of_block(along_columns, along_k),
                       number};
    return self;
}

/* The vectors of a lane's block in a half, as they lie. */
static __device__ __forceinline__ void load_half(const transposer *self, const unsigned char *columns,
                                                 uint32_t half, uint4 row[4])
{
    const unsigned char *box = columns + half / 2 * (SIDE_OF_BOX * ROW_BYTES);
    uint32_t first = self->load ^ half % 2 * (16 * ROW_BYTES); /* t + 4, by k */
#pragma unroll
    for (uint32_t r = 0; r < 4; ++r) {
        row[r] = *(const uint4 *)(box + (first ^ r * NEXT_ROW));
    }
}

static __device__ __forceinline__ void store_half(const transposer *self, unsigned char *columns,
                                                  uint32_t half, const uint4 row[4])
{
    unsigned char *box = columns + half / 2 * (SIDE_OF_BOX * ROW_BYTES);
    uint32_t first = self->store ^ half % 2 * (4 << 4); /* t + 4, as a piece */
    const uint4 column[4] = {{row[0].x, row[1].x, row[2].x, row[3].x},
                             {row[0].y, row[1].y, row[2].y, row[3].y},
                             {row[0].z, row[1].z, row[2].z, row[3].z},
                             {row[0].w, row[1].w, row[2].w, row[3].w}};
#pragma unroll
    for (uint32_t c = 0; c < 4; ++c) {
        *(uint4 *)(box + (first ^ c * NEXT_ROW)) = column[c];
    }
}

/* Two halves at a time, so that one is on its way while the other is stored. */
static __device__ __forceinline__ void transpose_stage(const transposer *self, unsigned char *columns)
{
#pragma unroll 1
    for (uint32_t half = self->first; half < HALVES; half += 2 * TRANSPOSERS) {
        uint4 row[2][4];
        int both = half + TRANSPOSERS < HALVES;
        load_half(self, columns, half, row[0]);
        if (both) {
            load_half(self, columns, half + TRANSPOSERS, row[1]);
        }
        __syncwarp(); /* all lanes have loaded what others overwrite */
        store_half(self, columns, half, row[0]);
        if (both) {
            store_half(self, columns, half + TRANSPOSERS, row[1]);
        }
    }
}

#endif
