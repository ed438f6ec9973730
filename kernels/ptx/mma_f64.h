/*
 * mma_f64.h - the double-precision tensor instruction, one warp together: D = A * B + D with A 16 x 16,
 * B 16 x 8, D 16 x 8 (PTX ISA, "Matrix Fragments for mma.m16n8k16"; sm_90).
 *
 * With group = lane / 4 and member = lane % 4, a lane holds
 *
 *     a[2 * s + r]   A(row = group + 8 * r, k = member + 4 * s)         s = 0..3, r = 0..1
 *     b[s]           B(k = member + 4 * s, column = group)              s = 0..3
 *     d[2 * r + c]   D(row = group + 8 * r, column = 2 * member + c)    r, c = 0..1
 */
#ifndef CARAT_PTX_MMA_F64_H
#define CARAT_PTX_MMA_F64_H

#if __CUDA_ARCH__ >= 900

static __device__ inline void mma_f64_16x8x16(double d[4], const double a[8], const double b[4])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]),
          "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

/* Half as deep: A 16 x 8, B 8 x 8, with s = 0..1 above. */
static __device__ inline void mma_f64_16x8x8(double d[4], const double a[4], const double b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
}

#endif

#endif
