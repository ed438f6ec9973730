/*
 * wgmma_columns.h - how a tile goes to a D whose columns may begin anywhere: a part of wgmma.cu, of rows with ANY_D=1.
 *
 * The copy engine stores boxes of a matrix whose columns begin at 16 bytes, or pieces of memory that do. So a warp puts each of its 16
 * columns together in shared memory, as far behind a multiple of 16 bytes as it is in D. What of it is whole pieces the
 * engine copies, all at once; the elements at both ends the lanes store.
 *
 *     in D                . . . e e e|........|........|  ...  |........|e e . . .
 *     in shared memory    . . . e e e|........|........|  ...  |........|e e . . .
 *                                    '------- one copy of the engine ---'
 *
 * Half of the columns go while the other half is filled, and both while the next tile is multiplied.
 */
#ifndef CARAT_GEMM_WGMMA_COLUMNS_H
#define CARAT_GEMM_WGMMA_COLUMNS_H

#include "../ptx/bulk_copy.h"

#define PIECE 16       /* bytes that the engine counts by */
#define HALF_COLUMNS 8 /* of a warp: one of a quad of lanes, its sums of one row of the instruction */
#define EDGE_LANES (2 * PIECE / PLAIN_BYTES) /* elements at both ends of a column are fewer */

/* A column of D: where it begins, how many bytes of it lie in the tile, and how many of these come before whole pieces, and after. */
typedef struct column {
    char *begin;
    int length;
    int head;
    int tail;
} column;

static __device__ __forceinline__ column column_of_d(const destination *to, int number)
{
    column of;
    of.begin = to->first + number * to->ld_bytes;
    int in_tile = (to->rows < WGMMA_N ? to->rows : WGMMA_N) * PLAIN_BYTES;
    of.length = number < to->columns ? in_tile : 0;
    edges edges = edges_of(of.begin, of.length);
    of.head = edges.head;
    of.tail = edges.tail;
    return of;
}

/* Where it stands in the warp's buffer. */
static __device__ __forceinline__ unsigned char *column_in_buffer(unsigned char *buffer, const column *of,
                                                                  int number)
{
    return buffer + number * COLUMN_BYTES + (uintptr_t)of->begin % PIECE;
}

/* A thread's results, as they are stored: its sums, or of 16 bits two next to each other in a word. */
#if PLAIN_BYTES == 4
typedef wgmma_sum column_word;
#else
typedef uint32_t column_word;
#endif
#define COLUMN_WORDS (WGMMA_SUMS * PLAIN_BYTES / 4)

#if PLAIN_BYTES == 2 && !FINISHES

static __device__ __forceinline__ void words_of_sums(const wgmma_sum sum[WGMMA_SUMS],
                                                     column_word words[COLUMN_WORDS])
{
#pragma unroll
    for (int i = 0; i < COLUMN_WORDS; ++i) {
        words[i] = pack_result(sum[2 * i], sum[2 * i + 1], ELEMENT);
    }
}

#endif

/* Those of one row of the instruction: two results next to each other of each eight. `odd`: they begin between words. */
static __device__ __forceinline__ void fill_column(unsigned char *to, const column_word words[COLUMN_WORDS],
                                                   int half, int odd)
{
#pragma unroll
    for (int j = 0; j < WGMMA_N / 8; ++j) {
        unsigned char *at = to + 8 * j * PLAIN_BYTES;
#if PLAIN_BYTES == 4
        ((column_word *)at)[0] = words[4 * j + 2 * half];
        ((column_word *)at)[1] = words[4 * j + 2 * half + 1];
#else
        uint32_t both = words[2 * j + half];
        if (odd) {
            ((uint16_t *)at)[0] = (uint16_t)both;
            ((uint16_t *)at)[1] = (uint16_t)(both >> 16);
        } else {
            *(uint32_t *)at = both;
        }
#endif
    }
}

/* What the engine does not copy of so many columns from `first` on, an element a lane. */
static __device__ __forceinline__ void store_edges(standing at, const destination *to, unsigned char *buffer,
                                                   int first)
{
#pragma unroll
    for (int i = 0; i < HALF_COLUMNS; i += 32 / EDGE_LANES) {
        int number = first + i + at.lane / EDGE_LANES;
        column of = column_of_d(to, number);
        int byte = at.lane % EDGE_LANES * PLAIN_BYTES;
        int is_edge = byte < of.head + of.tail;
        byte += byte < of.head ? 0 : of.length - of.head - of.tail;
        if (is_edge) {
            copy_element(of.begin + byte, column_in_buffer(buffer, &of, number) + byte, PLAIN_BYTES);
        }
    }
}

/* Stores a warp's part of a tile by way of its buffer. */
static __device__ __forceinline__ void store_anywhere(standing at, const gemm_arguments *gemm,
                                                      unsigned char *buffer, const place_of_tile *tile,
                                                      const column_word words[COLUMN_WORDS])
{
    destination to = destination_of(gemm, tile, PLAIN_BYTES);
    int odd = ((uintptr_t)to.first | (uint64_t)to.ld_bytes) % 4 != 0; /* of some column */
    int has_edges =
        ((uintptr_t)to.first | (uint64_t)to.ld_bytes | (uint64_t)to.rows * PLAIN_BYTES) % PIECE != 0;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        tensor_store_wait_read(1); /* by whoever had these columns copied before: the group before the last */
        __syncwarp();
        int number = half * HALF_COLUMNS + at.group;
        column of = column_of_d(&to, number);
        unsigned char *mine = column_in_buffer(buffer, &of, number) + 2 * at.member * PLAIN_BYTES;
        if (odd) {
            fill_column(mine, words, half, 1);
        } else {
            fill_column(mine, words, half, 0);
        }
        fence_async_shared();
        __syncwarp();
        int bytes = of.length - of.head - of.tail;
        if (at.member == 0) { /* one of the four lanes that filled it */
            if (bytes > 0) {
                bulk_store(of.begin + of.head, column_in_buffer(buffer, &of, number) + of.head,
                           (uint32_t)bytes);
            }
            tensor_store_commit();
        }
        if (has_edges) {
            store_edges(at, &to, buffer, half * HALF_COLUMNS);
        }
    }
    __syncwarp(); /* instructions of whole warpgroups follow */
}

#endif
