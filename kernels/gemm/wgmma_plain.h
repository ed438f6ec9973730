/*
 * wgmma_plain.h - what the images for plain and for finished products take for granted: a part of wgmma.cu.
 *
 * An image for everything has 36 to 300 KB of instructions. A tile that is stored as it was summed goes through some of
 * them, here and there, each of which has to be fetched, and what else there could be to do is asked for. Most products
 * ask for nothing else, so rows with PLAIN=1 in the catalogue are compiled a second time with PLAIN=1: 10 to 34 KB. It is
 * launched where (see tensor_map.c)
 *
 *     alpha and the scales     are 1, and known to the host; beta is 0; no bias, no activation
 *     K                        is not split, not shared, and not 0
 *     D                        is of 16 bits for 16-bit types (and 8-bit floats, of which a row may be plain), f32 for tf32, s32 for
 *                              s8, and lies as the engine wants it
 *     a cluster of blocks      has more tiles than one, or the row has no other image
 *
 * Rows with PLAIN=2 have no other image. They differ from others in the tile's width or in the cluster, or were hardly ever the best at what asks for it: for a call that asks for
 * more, or whose D does not lie so, another row stands in (see plan.h). Those with ANY_D=1 differ in how D is stored, which may lie
 * anywhere: see wgmma_columns.h; those with PIECE_N in how many rows a consumer has: see wgmma_tall.h.
 *
 * Rows with FINISH=1 have one image more, compiled with PLAIN=1 and FINISHES=1, those of 8-bit floats in place of the plain one, and
 * rows with FINISH=2 no other: for alpha times the sums, with bias and an activation. It asks for what a plain product does but
 * that alpha may be any number but 0 that the host knows, scales of A and B any, also in device memory, and that D is bf16, or f16
 * for f16, f32 for tf32, s32 for s8. What the whole image loses there is not arithmetic: of bf16 with ReLU 2.8% of a product of
 * 4096 cubed, where this one loses 0.7, and with bias 3.3 to 3.9, where this one loses 1.
 *
 * Rows with SUMS=1 lack the whole image too, and have one compiled with PLAIN=1 and SUMS=1: the bare 32-bit sums of a part of K, for
 * a reduction to add and to finish, whatever else is asked for. It wants an alpha that the host knows and that is not 0, and an m of
 * whole 16 bytes of sums. It has no more code than the plain one, and a tile's width or a cluster that only few whole images have
 * does for a K in parts as well.
 *
 * The bits of D are the same from any image: the instructions that sum and round are the same ones, but with ReLU, which there is part
 * of the one that rounds, and has the bits of both for every f32.
 */
#ifndef CARAT_GEMM_WGMMA_PLAIN_H
#define CARAT_GEMM_WGMMA_PLAIN_H

#ifndef PLAIN
#define PLAIN 0
#endif

#ifndef STREAM
#define STREAM 0
#endif
#if PLAIN
#undef STREAM
#define STREAM 0
#endif

#ifndef FINISHES
#define FINISHES 0
#endif

#ifndef SUMS
#define SUMS 0
#endif

/* Whether a tile may have a part of k, and its sums be stored as they are, for another kernel to add and to finish. */
#define KNOWS_PARTS (!PLAIN || SUMS)

/* Bytes of an element of D, or of a sum. */
#define PLAIN_BYTES (SUMS || ELEMENT == ELEMENT_F32 || ELEMENT == ELEMENT_S8 ? 4 : 2)

/* Finished sums become words of two results before any are stored; 32-bit ones are finished where they stand. */
#define FINISHES_WORDS (FINISHES && PLAIN_BYTES == 2)

static __device__ inline int engine_knows_d(const tensor_gemm_arguments *arguments)
{
    return (PLAIN && !ANY_D) || arguments->d_by_map;
}

static __device__ inline int has_partials(const gemm_arguments *gemm)
{
    return KNOWS_PARTS && gemm->partials;
}

#endif
