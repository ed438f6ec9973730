/*
 * mma.h - the tensor instruction of one warp together, mma.sync: D = A * B + D with A 16 rows by 32 bytes
 * along k, B as long along k by 8 columns, D 16 x 8 (PTX ISA, "Matrix Fragments for mma"; sm_80 and up).
 *
 * With group = lane / 4 and member = lane % 4, a lane holds, 4 bytes along k in a register,
 *
 *     a[r + 2 * h]   A(row = group + 8 * r, bytes 16 * h + 4 * member and on)    h, r = 0..1
 *     b[h]           B(bytes 16 * h + 4 * member and on, column = group)
 *     d[2 * r + c]   D(row = group + 8 * r, column = 2 * member + c)             r, c = 0..1
 *
 * f16, bf16 and tf32 products are exact and are summed in f32, less exactly than by fused multiply-adds: the
 * unit aligns them to the largest and cuts off what is below. s8 products are summed modulo 2^32.
 */
#ifndef CARAT_PTX_MMA_H
#define CARAT_PTX_MMA_H

#if __CUDA_ARCH__ >= 800

static __device__ inline void mma_f16_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ inline void mma_bf16_16x8x16(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* A and B as tf32_from_f32() gives them. */
static __device__ inline void mma_tf32_16x8x8(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

static __device__ inline void mma_s8_16x8x32(uint32_t d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/*
 * f32 rounded to tf32 (8 bits of exponent, 10 of fraction) to nearest, ties away from zero; the bits below are
 * zero.
 */
static __device__ inline uint32_t tf32_from_f32(uint32_t bits)
{
    uint32_t rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(__uint_as_float(bits)));
    return rounded;
}

/*
 * Rounds two elements of one row of A (or one column of B) as tf32_from_f32() does, with three instructions
 * for both instead of four. If either is NaN neither is rounded, only cut off: with a NaN in the row all sums
 * of it are NaN, whatever the other is. (Adding half of the last place to 0x7fffffff would make a zero of it.)
 * In place, or by four instructions that also move the elements, where they stand in registers that the unit
 * does not take.
 */
static __device__ inline void tf32_pair_from_f32(uint32_t *first, uint32_t *second, int in_place)
{
    if (in_place) {
        asm("{.reg .pred numbers;\n"
            " setp.num.f32 numbers, %2, %3;\n"
            " @numbers add.u32 %0, %0, 0x1000;\n"
            " @numbers add.u32 %1, %1, 0x1000;}"
            : "+r"(*first), "+r"(*second)
            : "f"(__uint_as_float(*first)), "f"(__uint_as_float(*second)));
    } else {
        asm("{.reg .pred numbers;\n"
            " .reg .u32 half;\n"
            " setp.num.f32 numbers, %2, %3;\n"
            " selp.u32 half, 0x1000, 0, numbers;\n"
            " add.u32 %0, %0, half;\n"
            " add.u32 %1, %1, half;}"
            : "+r"(*first), "+r"(*second)
            : "f"(__uint_as_float(*first)), "f"(__uint_as_float(*second)));
    }
    /* The unit takes no notice of these bits, and the compiler knows that. */
    *first &= 0xffffe000;
    *second &= 0xffffe000;
}

#endif

#endif
