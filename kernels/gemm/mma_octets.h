/*
 * mma_octets.h - how a shared tile lies whose rows begin at 16 bytes, and how octets are read out of it and multiplied (see mma.cu): what
 * mma.cu, skew.cu and skew_wgmma.cu share. SIZE, ROWS and COLUMNS are the kernel's.
 */
#ifndef CARAT_GEMM_MMA_OCTETS_H
#define CARAT_GEMM_MMA_OCTETS_H

#include "mma_element.h"

/* Where a chunk of a row lies in a shared tile, in bytes. */
static __device__ inline int place_of(int row, int chunk, int along_k, int row_bytes)
{
    int other = row % 8;
    if (row_bytes == 64 && (along_k || SIZE == 2)) {
        other = row / 2 % 4; /* two rows fill all banks */
    } else if (!along_k && SIZE == 4) {
        other = row % 4 * 2; /* two chunks of four rows are read together */
    }
    return row * row_bytes + (chunk ^ other) * 16;
}

/*
 * One step of a warp's operands, in the order that the instruction takes its registers: the halves of 16 bytes
 * along k innermost for columns, the two octets innermost for rows.
 */
typedef struct octets {
    uint32_t rows[ROWS][4];           /* of B: octet 2 * i + r, half h at [i][r + 2 * h] */
    uint32_t columns[COLUMNS / 2][4]; /* of A: octet 2 * i + r, half h at [i][2 * r + h] */
} octets;

/*
 * Where a lane begins to read an operand: its bytes in the shared tile for the first two octets and the first
 * step. first is the warp's first row of the operand, as_rows whether they are the instruction's rows.
 */
static __device__ inline int begin_reading(int first, int along_k, int as_rows, int row_bytes)
{
    int lane = (int)threadIdx.x % 32;
    /* ldmatrix: lanes 8 * q and on bring the rows of matrix q, which goes to register q. */
    int in_eight = lane % 8;
    int octet = as_rows ? lane / 8 % 2 : lane / 16;
    int half = as_rows ? lane / 16 : lane / 8 % 2;
    if (along_k) {
        return place_of(first + 8 * octet + in_eight, half, along_k, row_bytes);
    }
    if (SIZE == 4) {
        return place_of(lane % 4, first / 4 + lane / 4, along_k, row_bytes);
    }
    return place_of(8 * half + in_eight, first / 8 + octet, along_k, row_bytes);
}

/*
 * Reads octets number 2 * pair and 2 * pair + 1 of a step, or of four-byte elements along m or n half pair % 2
 * of four octets. What the exclusive or of place_of touches must go through it; all else is added.
 */
static __device__ inline void load_pair(uint32_t to[][4], const char *tile, int lane_at, int pair, int step,
                                        int along_k, int as_rows, int row_bytes)
{
    if (along_k) {
        ldmatrix_x4(to[pair], tile + (lane_at ^ step * 32) + pair * 16 * row_bytes);
    } else if (SIZE == 2) {
        ldmatrix_x4_trans(to[pair], tile + (lane_at ^ pair * 32) + step * 16 * row_bytes);
    } else {
        int quad = pair / 2;
        int half = pair % 2;
        uint4 four = *(const uint4 *)(tile + lane_at + (8 * step + 4 * half) * row_bytes + quad * 128);
        to[2 * quad][as_rows ? 2 * half : half] = four.x;
        to[2 * quad][as_rows ? 2 * half + 1 : half + 2] = four.y;
        to[2 * quad + 1][as_rows ? 2 * half : half] = four.z;
        to[2 * quad + 1][as_rows ? 2 * half + 1 : half + 2] = four.w;
    }
}

/*
 * Rounds two registers of one row (or column) along k. Reading quads leaves octets in registers that the instruction does not take,
 * so there rounding also moves them, and is not in place.
 */
static __device__ inline void round_pair(uint32_t *first, uint32_t *second, int in_place)
{
#if ELEMENT == ELEMENT_F32
    tf32_pair_from_f32(first, second, in_place);
#endif
}

#endif
