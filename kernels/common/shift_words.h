/*
 * shift_words.h - 16 bytes that begin anywhere, out of the two aligned packs of 16 that they lie in.
 *
 *     low, high     | . . a b c d e f | g h i j k l . . |      they begin 2 elements into the first
 *     shifted       | a b c d e f g h |
 */
#ifndef CARAT_KERNELS_SHIFT_WORDS_H
#define CARAT_KERNELS_SHIFT_WORDS_H

/*
 * The four words that begin `offset` bytes into the eight of two packs, by halves of what is left to go. The offset is a multiple
 * of `unit` bytes, a constant. Changes the eight.
 */
static __device__ __forceinline__ void shift_words(uint32_t shifted[4], uint32_t words[8], int offset,
                                                   int unit)
{
#pragma unroll
    for (int w = 0; w < 6; ++w) {
        words[w] = offset & 8 ? words[w + 2] : words[w];
    }
    if (unit != 8) {
#pragma unroll
        for (int w = 0; w < 5; ++w) {
            words[w] = offset & 4 ? words[w + 1] : words[w];
        }
    }
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        shifted[w] = unit < 4 ? __byte_perm(words[w], words[w + 1], 0x3210 + 0x1111 * (unsigned)(offset % 4))
                              : words[w];
    }
}

#endif
