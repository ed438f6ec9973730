/*
 * pieces.h - packs of 16 bytes, the most that a thread moves in one access, and how one is picked out of a column that
 * begins anywhere: out of the two aligned packs that it lies in, the second of which the neighbouring thread wants too
 * and the L1 cache holds.
 *
 *     column        | . . a b c d e f | g h i j k l . . |      begins 2 elements into an aligned pack
 *     joined        | a b c d e f g h | ...
 *
 * A thread begins to read as many as it wants under way (read_pieces), and only then waits for them (join_pieces).
 */
#ifndef CARAT_MEMORY_PIECES_H
#define CARAT_MEMORY_PIECES_H

#include "shift_words.h"

#if ELEMENT_BYTES == 1
typedef uint8_t unit;
#elif ELEMENT_BYTES == 2
typedef uint16_t unit;
#elif ELEMENT_BYTES == 4
typedef uint32_t unit;
#elif ELEMENT_BYTES == 8
typedef uint64_t unit;
#endif

#define PACK (16 / ELEMENT_BYTES) /* elements in the 16 bytes of one access */

/* How many packs in a row a thread picks out of a column together: 1 or 2. */
#ifndef PACKS_JOINED
#define PACKS_JOINED 1
#endif

typedef struct pack {
    uint32_t word[4];
} pack;

/* Whole packs move as uint4, which the compiler keeps in one access. */
static __device__ inline pack load_pack(const uint4 *from)
{
    uint4 words = *from;
    pack pack = {{words.x, words.y, words.z, words.w}};
    return pack;
}

static __device__ inline void store_pack(uint4 *to, pack pack)
{
    *to = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
}

/* The matrices that an operand's packs are read from, and where they end. */
typedef struct source {
    const unsigned char *begin;
    const unsigned char *end;
} source;

/* PACKS_JOINED packs in a row of a column, on their way: the aligned packs that they lie in, and how many bytes count. */
typedef struct pieces {
    const unsigned char *from;
    int32_t valid; /* bytes inside the column; 0 or less: none */
    int32_t whole; /* the packs lie in the matrices, and were read */
    uint4 packs[PACKS_JOINED + 1];
} pieces;

/* Begins to read PACKS_JOINED packs at an address, of whose bytes those below `valid` count. */
static __device__ inline pieces read_pieces(const source *source, const unsigned char *from, int64_t valid)
{
    pieces pieces;
    int between = (uintptr_t)from % 16 != 0;
    const unsigned char *aligned = from - (uintptr_t)from % 16;
    pieces.from = from;
    pieces.valid = valid < 16 * PACKS_JOINED ? (int32_t)valid : 16 * PACKS_JOINED;
    pieces.whole = valid > 0 && aligned >= source->begin &&
                   aligned + (between ? 16 * (PACKS_JOINED + 1) : 16 * PACKS_JOINED) <= source->end;
    pieces.packs[0] = make_uint4(0, 0, 0, 0);
    pieces.packs[1] = pieces.packs[0];
    pieces.packs[PACKS_JOINED] = pieces.packs[0];
    if (pieces.whole) {
        pieces.packs[0] = *(const uint4 *)aligned;
    }
    if (pieces.whole && PACKS_JOINED == 2) {
        pieces.packs[1] = *(const uint4 *)(aligned + 16);
    }
    if (pieces.whole && between) {
        pieces.packs[PACKS_JOINED] = *(const uint4 *)(aligned + 16 * PACKS_JOINED);
    }
    return pieces;
}

/* Element by element, at the ends of the matrices. */
static __device__ inline pack gather_pack(const unsigned char *from, int32_t valid)
{
    pack gathered = {{0, 0, 0, 0}};
#pragma unroll 1
    for (int byte = 0; byte < valid; byte += ELEMENT_BYTES) {
#if ELEMENT_BYTES == 8
        uint64_t element = *(const unit *)(from + byte);
        gathered.word[0] = byte == 0 ? (uint32_t)element : gathered.word[0];
        gathered.word[1] = byte == 0 ? (uint32_t)(element >> 32) : gathered.word[1];
        gathered.word[2] = byte == 8 ? (uint32_t)element : gathered.word[2];
        gathered.word[3] = byte == 8 ? (uint32_t)(element >> 32) : gathered.word[3];
#else
        uint32_t element = (uint32_t) * (const unit *)(from + byte) << byte % 4 * 8;
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            gathered.word[w] |= byte / 4 == w ? element : 0;
        }
#endif
    }
    return gathered;
}

/* The 16 bytes that begin `offset` bytes into the first of two packs. */
static __device__ __forceinline__ pack shift_packs(uint4 low, uint4 high, int offset)
{
    uint32_t words[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    pack shifted;
    shift_words(shifted.word, words, offset, ELEMENT_BYTES);
    return shifted;
}

/* Pack p of them, zero from `valid` on. */
static __device__ inline pack join_pieces(const pieces *pieces, int p)
{
    int32_t valid = pieces->valid - 16 * p; /* of its bytes */
    if (!pieces->whole) {
        return gather_pack(pieces->from + 16 * p, PACKS_JOINED > 1 && valid > 16 ? 16 : valid);
    }
    pack joined = shift_packs(pieces->packs[p], pieces->packs[p + 1], (int)((uintptr_t)pieces->from % 16));
    if (valid < 16) {
#pragma unroll
        for (int w = 0; w < 4; ++w) {
            int bytes = valid - 4 * w;
            uint32_t mask = bytes >= 4 ? 0xffffffffu : bytes <= 0 ? 0 : (1u << 8 * bytes) - 1;
            joined.word[w] &= mask;
        }
    }
    return joined;
}

#endif
