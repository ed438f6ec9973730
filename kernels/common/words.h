/*
 * The words of the catalogue as numbers, for the preprocessor: kernels test them, and catalog.c
 * checks that they agree with the public types.
 */
#ifndef CARAT_KERNELS_WORDS_H
#define CARAT_KERNELS_WORDS_H

/* ELEMENT: of A and B; the numbers of carat_type. */
#define ELEMENT_NONE 0
#define ELEMENT_F32 1
#define ELEMENT_F64 2
#define ELEMENT_F16 3
#define ELEMENT_BF16 4
#define ELEMENT_S32 5
#define ELEMENT_S8 6
#define ELEMENT_E4M3 7
#define ELEMENT_E5M2 8

/* ELEMENT_B: of B where it is not ELEMENT; the same numbers, NONE where it is. */
#define ELEMENT_B_E4M3 7
#define ELEMENT_B_E5M2 8

/*
 * ACCURACY: the numbers of carat_accuracy. A row with FAST serves only who allows that, one with BEST only who asks for
 * it: its sums are f64, those of f64 compensated.
 */
#define ACCURACY_FAST 2
#define ACCURACY_BEST 3

/* CONVERTS: what a pack makes of narrower floats; the same numbers as ELEMENT. */
#define CONVERTS_F16 3
#define CONVERTS_F64 2

/* The numbers of carat_activation. */
#define ACTIVATION_NONE 0
#define ACTIVATION_RELU 1
#define ACTIVATION_GELU_TANH 2
#define ACTIVATION_GELU_ERF 3
#define ACTIVATION_SILU 4

/* OPERATION: what a row of the catalogue computes. */
#define OPERATION_GEMM 1      /* gemm_arguments: a kernel the library ships */
#define OPERATION_LADDER 2    /* gemm_arguments, op none, one part: a rung of the ladder */
#define OPERATION_REDUCE 3    /* reduce_arguments */
#define OPERATION_SCALE_ADD 4 /* scale_add_arguments */
#define OPERATION_TRANSPOSE 5 /* transpose_arguments; ELEMENT_BYTES instead of ELEMENT */
#define OPERATION_CEILING 6   /* ceiling_arguments */
#define OPERATION_PACK 7      /* pack_arguments */
#define OPERATION_SPLIT 8     /* split_arguments */

/* LAYOUT: of op(A) op(B), column-major; ANY rows read trans_a and trans_b as they run. */
#define LAYOUT_ANY 0
#define LAYOUT_NN 1
#define LAYOUT_NT 2
#define LAYOUT_TN 3
#define LAYOUT_TT 4

#endif
