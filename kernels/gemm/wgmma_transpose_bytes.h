/*
 * wgmma_transpose_bytes.h - how a warp turns its part of a stage's columns of 8-bit elements: a part of wgmma.cu, see
 * wgmma_transpose.h.
 *
 * A box is 8 x 8 blocks of 16 x 16 bytes. A warp loads a block and the one that stands across the diagonal from it, and
 * stores each, turned, in the other's place: nobody else touches either, and no second box is needed. Two blocks that lie on
 * the diagonal go together as well, which makes 32 pairs of 512 bytes. Block (i, j) stands i * 16 k and j * 16 columns into
 * the box. With j = i ^ e the pairs of one e are a group of four, and differ from the group's first by an exclusive or:
 *
 *     e           i of the four pairs              0 (blocks of the diagonal, i and i + 4)
 *     1, 3, 5, 7  0, 2, 4, 6                       0, 1, 2, 3
 *     2, 6        0, 1, 4, 5
 *     4           0, 1, 2, 3
 *
 * so that a lane works out two places a group, once, and one number more for each pair: a warp that is alone on its part of the
 * multiprocessor takes four cycles and more for each instruction (worked out anew for each pair they took 1,700 a box).
 *
 * Of a tile of 64 columns the box is 64 columns wide, 8 KB under the 64-byte swizzle, and 8 x 4 blocks become 4 x 8, so what is
 * stored lies where others have yet to load. There the transposers take all of the box into their registers, meet, and store.
 */
#ifndef CARAT_GEMM_WGMMA_TRANSPOSE_BYTES_H
#define CARAT_GEMM_WGMMA_TRANSPOSE_BYTES_H

#include "../ptx/ldmatrix.h"

#include "../ptx/store_matrix.h"

/* Bytes from a block to the next along the columns, in a row of k; or along k, in a column. */
#define BLOCK_COLUMNS 16

/*
 * A lane brings the address of one row of 16 bytes, k when it loads and a column when it stores, of the first block of a pair
 * (lanes 0 to 15) or of the other. ldmatrix turns pairs of bytes, as fetch_rows() in wgmma_sum_fetched.h says: the k of a block are dealt out to its
 * two matrices so that a lane gets four k of two columns, and all eight rows of a matrix lie in different places of the
 * swizzle. When they are stored the same is done for the columns.
 */
static __device__ inline uint32_t row_to_load(uint32_t lane)
{
    uint32_t row = lane % 8;
    return row / 2 * 4 + (lane / 8 % 2 ^ row / 4) * 2 + row % 2;
}
static __device__ inline uint32_t column_to_store(uint32_t lane)
{
    uint32_t row = lane % 8;
    return row * 2 + (lane / 8 % 2 ^ row / 4);
}

/* The swizzle of a row of 16 bytes: by the row's number where rows have 128 bytes, by that of a pair where they have 64. */
static __device__ inline uint32_t place_of_row(uint32_t row, uint32_t bytes)
{
    return row * bytes | row * bytes / ROW_BYTES * 16 % bytes;
}

/* Which of the bytes that a lane has loaded go into the first matrix that it stores of a block, and which into the second. */
typedef struct byte_choice {
    uint32_t first;
    uint32_t second;
} byte_choice;

static __device__ inline byte_choice choice_of_lane(uint32_t lane)
{
    int low_first = lane % 4 < 2; /* whether the first matrix loaded has the first two of the lane's four k */
    uint32_t even = low_first ? 0x6420 : 0x2064;
    uint32_t odd = low_first ? 0x7531 : 0x3175;
    byte_choice choice = {lane / 4 < 4 ? even : odd, lane / 4 < 4 ? odd : even};
    return choice;
}

/* Stores two blocks, turned. */
static __device__ __forceinline__ void store_pair(void *to, const uint32_t words[4], byte_choice choice)
{
    uint32_t turned[4];
#pragma unroll
    for (int block = 0; block < 2; ++block) {
        turned[2 * block] = __byte_perm(words[2 * block], words[2 * block + 1], choice.first);
        turned[2 * block + 1] = __byte_perm(words[2 * block], words[2 * block + 1], choice.second);
    }
    store_matrix_x4(to, turned);
}

#if WGMMA_N == 64

#define PAIRS_OF_BOX 16
#define PAIRS_OF_WARP ((PAIRS_OF_BOX + TRANSPOSERS - 1) / TRANSPOSERS)

/* Pair p is blocks (p % 4, p / 4) and (p % 4 + 4, p / 4). */
typedef struct transposer {
    uint32_t load[PAIRS_OF_WARP];
    uint32_t store[PAIRS_OF_WARP];
    byte_choice choice;
    int count;
} transposer;

static __device__ inline transposer transposer_of_warp(uint32_t lane, uint32_t number)
{
    transposer self;
    uint32_t half = lane / 16 * 4;
#pragma unroll
    for (int i = 0; i < PAIRS_OF_WARP; ++i) {
        uint32_t pair = number + (uint32_t)i * TRANSPOSERS;
        uint32_t along_k = pair % 4 + half;
        uint32_t along_columns = pair / 4 % 4;
        self.load[i] = (along_k * 16 * BOX_COLUMNS + place_of_row(row_to_load(lane), BOX_COLUMNS)) ^
                       along_columns * BLOCK_COLUMNS;
        self.store[i] = (along_columns * 16 * ROW_BYTES + place_of_row(column_to_store(lane), ROW_BYTES)) ^
                        along_k * BLOCK_COLUMNS;
    }
    self.choice = choice_of_lane(lane);
    self.count =
        number < PAIRS_OF_BOX - (PAIRS_OF_WARP - 1) * TRANSPOSERS ? PAIRS_OF_WARP : PAIRS_OF_WARP - 1;
    return self;
}

static __device__ __forceinline__ void transpose_stage(const transposer *self, unsigned char *box)
{
    uint32_t words[PAIRS_OF_WARP][4];
#pragma unroll
    for (int i = 0; i < PAIRS_OF_WARP; ++i) {
        if (i < PAIRS_OF_WARP - 1 || self->count == PAIRS_OF_WARP) {
            ldmatrix_x4_trans(words[i], box + self->load[i]);
        }
    }
    barrier_sync(TRANSPOSERS_MEET, TRANSPOSERS * 32);
#pragma unroll
    for (int i = 0; i < PAIRS_OF_WARP; ++i) {
        if (i < PAIRS_OF_WARP - 1 || self->count == PAIRS_OF_WARP) {
            store_pair(box + self->store[i], words[i], self->choice);
        }
    }
}

#else

#define GROUPS_OF_BOX 8
#define GROUPS_OF_WARP ((GROUPS_OF_BOX + TRANSPOSERS - 1) / TRANSPOSERS)
#define GROUPS_AT_ONCE 2 /* on their way into registers, while the one before is stored */
#define PAIRS_OF_GROUP 4
#define BLOCK_K (16 * ROW_BYTES)
#define BLOCK_BOTH (BLOCK_K + BLOCK_COLUMNS)

/* Of a group: where a lane loads and stores in a box of its first pair, and what the others differ by. */
typedef struct group_of_pairs {
    uint32_t load;
    uint32_t store;
    uint32_t second; /* that of the second pair; the fourth's is both */
    uint32_t third;
} group_of_pairs;

static __device__ inline group_of_pairs group_of_lane(uint32_t lane, uint32_t e)
{
    uint32_t across = lane < 16 ? 0 : (e == 0 ? 4 : e) * BLOCK_BOTH; /* from the first block to the other */
    group_of_pairs group;
    group.load = place_of_row(row_to_load(lane), ROW_BYTES) ^ across ^ e * BLOCK_COLUMNS;
    group.store = place_of_row(column_to_store(lane), ROW_BYTES) ^ across ^ e * BLOCK_K;
    group.second = (e % 2 != 0 ? 2 : 1) * BLOCK_BOTH;
    group.third = (e % 4 != 0 ? 4 : 2) * BLOCK_BOTH;
    return group;
}

typedef struct transposer {
    group_of_pairs groups[GROUPS_OF_WARP];
    byte_choice choice;
    int count; /* of groups */
} transposer;

static __device__ inline transposer transposer_of_warp(uint32_t lane, uint32_t number)
{
    transposer self;
#pragma unroll
    for (int g = 0; g < GROUPS_OF_WARP; ++g) {
        self.groups[g] = group_of_lane(lane, (number + (uint32_t)g * TRANSPOSERS) % GROUPS_OF_BOX);
    }
    self.choice = choice_of_lane(lane);
    self.count =
        number + (GROUPS_OF_WARP - 1) * TRANSPOSERS < GROUPS_OF_BOX ? GROUPS_OF_WARP : GROUPS_OF_WARP - 1;
    return self;
}

static __device__ inline uint32_t pair_of_group(const group_of_pairs *group, int i)
{
    return (i % 2 != 0 ? group->second : 0) ^ (i / 2 != 0 ? group->third : 0);
}

static __device__ __forceinline__ void load_group(const transposer *self, int g, const unsigned char *box,
                                                  uint32_t words[PAIRS_OF_GROUP][4])
{
    if (g == GROUPS_OF_WARP - 1 && self->count < GROUPS_OF_WARP) {
        return;
    }
    uint32_t first =
        forget(self->groups[g].load); /* or all places of all groups would be kept in registers */
#pragma unroll
    for (int i = 0; i < PAIRS_OF_GROUP; ++i) {
        ldmatrix_x4_trans(words[i], box + (first ^ pair_of_group(&self->groups[g], i)));
    }
}

static __device__ __forceinline__ void store_group(const transposer *self, int g, unsigned char *box,
                                                   uint32_t words[PAIRS_OF_GROUP][4])
{
    if (g == GROUPS_OF_WARP - 1 && self->count < GROUPS_OF_WARP) {
        return;
    }
    uint32_t first = forget(self->groups[g].store);
#pragma unroll
    for (int i = 0; i < PAIRS_OF_GROUP; ++i) {
        store_pair(box + (first ^ pair_of_group(&self->groups[g], i)), words[i], self->choice);
    }
}

static __device__ __forceinline__ void transpose_stage(const transposer *self, unsigned char *box)
{
    uint32_t words[GROUPS_AT_ONCE][PAIRS_OF_GROUP][4];
    load_group(self, 0, box, words[0]);
#pragma unroll
    for (int g = 0; g < GROUPS_OF_WARP; ++g) {
        if (g + 1 < GROUPS_OF_WARP) {
            load_group(self, g + 1, box, words[(g + 1) % GROUPS_AT_ONCE]);
        }
        store_group(self, g, box, words[g % GROUPS_AT_ONCE]);
    }
}

#endif

#endif
