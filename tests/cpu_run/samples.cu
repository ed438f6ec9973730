/*
 * samples.cu - small kernels, one a value of SAMPLE, some of them wrong on purpose: test_cpu_run.c shows
 * that the CPU runner takes the right ones and catches the others.
 *
 * A block of 64 threads turns its 64 elements of A around, through shared memory, into B.
 */
#include "kernel.h"

#include "verdict.h"

#define COUNT 64

#define SAMPLE_RIGHT 0
#define SAMPLE_NO_BARRIER 1
#define SAMPLE_BARRIER_OF_SOME 2
#define SAMPLE_RETURN_OF_SOME 3
#define SAMPLE_PAST_SHARED 4
#define SAMPLE_PAST_GLOBAL 5
#define SAMPLE_COPY_RIGHT 6
#define SAMPLE_COPY_NO_WAIT 7
#define SAMPLE_COPY_UNALIGNED 8
#define SAMPLE_COPY_PAST_GLOBAL 9
#define SAMPLE_WARP_RIGHT 10
#define SAMPLE_WARP_NO_BARRIER 11
#define SAMPLE_SHARED_UNSET 12
#define SAMPLE_DYNAMIC_RIGHT 13
#define SAMPLE_DYNAMIC_PAST 14
#define SAMPLE_COPY_TOO_SOON 15
#define SAMPLE_MMA_RIGHT 16
#define SAMPLE_MMA_OF_SOME 17
#define SAMPLE_LDMATRIX_RIGHT 18
#define SAMPLE_LDMATRIX_UNALIGNED 19
#define SAMPLE_MMA_NO_TF32 20
#define SAMPLE_VERDICT 21

KERNEL KERNEL_NAME(scale_add_arguments arguments)
{
    __shared__ __align__(16) float held[COUNT];
    int i = (int)threadIdx.x;
    const float *a = (const float *)arguments.a + blockIdx.x * COUNT;
    float *b = (float *)arguments.b + blockIdx.x * COUNT;
    (void)held, (void)a, (void)b; /* not every sample uses all */

#if SAMPLE == SAMPLE_RIGHT || SAMPLE == SAMPLE_NO_BARRIER || SAMPLE == SAMPLE_BARRIER_OF_SOME ||             \
    SAMPLE == SAMPLE_RETURN_OF_SOME
    held[i] = a[i];
#if SAMPLE == SAMPLE_BARRIER_OF_SOME
    if (i < COUNT / 2) {
        __syncthreads();
    } else {
        __syncthreads();
    }
#elif SAMPLE == SAMPLE_RETURN_OF_SOME
    if (i == 5) {
        return;
    }
    __syncthreads();
#elif SAMPLE == SAMPLE_RIGHT
    __syncthreads();
#endif
    b[i] = held[COUNT - 1 - i];

#elif SAMPLE == SAMPLE_PAST_SHARED
    held[i + (int)(arguments.m - COUNT * gridDim.x) + 1] = a[i];
    __syncthreads();
    b[i] = held[COUNT - 1 - i];

#elif SAMPLE == SAMPLE_PAST_GLOBAL
    held[i] = a[i + 1];
    __syncthreads();
    b[i] = held[COUNT - 1 - i];

#elif SAMPLE == SAMPLE_COPY_RIGHT || SAMPLE == SAMPLE_COPY_NO_WAIT || SAMPLE == SAMPLE_COPY_UNALIGNED ||     \
    SAMPLE == SAMPLE_COPY_PAST_GLOBAL
    if (i < COUNT / 4) {
        int at = 4 * i + (SAMPLE == SAMPLE_COPY_UNALIGNED);
        copy_async_16(&held[4 * i], a + (SAMPLE == SAMPLE_COPY_PAST_GLOBAL ? at + 4 : at), 16);
    }
    copy_async_commit();
#if SAMPLE != SAMPLE_COPY_NO_WAIT
    copy_async_wait(0);
#endif
    __syncthreads();
    b[i] = held[COUNT - 1 - i];

#elif SAMPLE == SAMPLE_COPY_TOO_SOON
    /* The second copy may land before the others have read what the first one brought. */
    copy_async_4(&held[i], a + i, 4);
    copy_async_commit();
    copy_async_wait(0);
    __syncthreads();
    copy_async_4(&held[i], a, 0);
    copy_async_commit();
    b[i] = held[COUNT - 1 - i];
    copy_async_wait(0);

#elif SAMPLE == SAMPLE_WARP_RIGHT || SAMPLE == SAMPLE_WARP_NO_BARRIER
    /* Each warp turns its own half; the halves change places. */
    held[i] = a[i];
#if SAMPLE == SAMPLE_WARP_RIGHT
    __syncwarp();
#endif
    b[COUNT - 1 - i] = held[i % 32 < 31 ? i + 1 : i - 31];

#elif SAMPLE == SAMPLE_SHARED_UNSET
    b[i] = held[i];

#elif SAMPLE == SAMPLE_DYNAMIC_RIGHT || SAMPLE == SAMPLE_DYNAMIC_PAST
    DYNAMIC_SHARED(float, more);
    more[i + (SAMPLE == SAMPLE_DYNAMIC_PAST)] = a[i];
    __syncthreads();
    b[i] = more[COUNT - 1 - i];

#elif SAMPLE == SAMPLE_MMA_RIGHT || SAMPLE == SAMPLE_MMA_OF_SOME
    /* The warps do the same: A(row, k) = row + k, B(k, column) = k - column, and B of the call holds D. */
    int lane = i % 32;
    double at_a[8];
    double at_b[4];
    double d[4] = {0, 0, 0, 0};
    for (int s = 0; s < 4; ++s) {
        int k = lane % 4 + 4 * s;
        at_a[2 * s] = lane / 4 + k;
        at_a[2 * s + 1] = lane / 4 + 8 + k;
        at_b[s] = k - lane / 4;
    }
    if (SAMPLE == SAMPLE_MMA_RIGHT || lane < 31) {
        mma_f64_16x8x16(d, at_a, at_b);
    }
    for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < 2; ++c) {
            ((double *)arguments.b)[(lane / 4 + 8 * r) * 8 + 2 * (lane % 4) + c] = d[2 * r + c];
        }
    }

#elif SAMPLE == SAMPLE_LDMATRIX_RIGHT || SAMPLE == SAMPLE_LDMATRIX_UNALIGNED
    /* The same product in f16: A lies row by row, B too, and so is read transposed. The warps do the same. */
    __shared__ __align__(16) uint16_t both[2][16][16];
    for (int at = i; at < 256; at += COUNT) {
        both[0][at / 16][at % 16] = f16_from_f32((float)(at / 16 + at % 16));
        both[1][at / 16][at % 16] = f16_from_f32((float)(at / 16 - at % 16));
    }
    __syncthreads();
    int lane = i % 32;
    int shift = SAMPLE == SAMPLE_LDMATRIX_UNALIGNED ? 4 : 0;
    uint32_t from_a[4];
    uint32_t from_b[4];
    float d[4] = {0, 0, 0, 0};
    ldmatrix_x4(from_a, &both[0][lane % 16][lane / 16 * 8 + shift]);
    ldmatrix_x4_trans(from_b, &both[1][lane % 16][lane / 16 * 8]);
    mma_f16_16x8x16(d, from_a, from_b);
    for (int r = 0; r < 2; ++r) {
        for (int c = 0; c < 2; ++c) {
            ((double *)arguments.b)[(lane / 4 + 8 * r) * 8 + 2 * (lane % 4) + c] = d[2 * r + c];
        }
    }

#elif SAMPLE == SAMPLE_MMA_NO_TF32
    /* 1 + 2^-12, which tf32 cannot hold. */
    uint32_t word = 0x3f800800u;
    uint32_t at_a[4] = {word, word, word, word};
    float d[4] = {0, 0, 0, 0};
    mma_tf32_16x8x8(d, at_a, at_a);
    b[i] = d[0];

#elif SAMPLE == SAMPLE_VERDICT
    b[blockIdx.x * COUNT + i] = (float)verdict_refuses((const verdict_arguments *)arguments.a);
#endif
}
