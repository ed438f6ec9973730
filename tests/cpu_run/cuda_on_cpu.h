/*
 * cuda_on_cpu.h - CUDA's words with a meaning on the CPU, so that a C compiler takes the very files of
 * kernels/ and the tests run them. kernel.h includes it where CUDA_ON_CPU is defined.
 *
 * A block's threads are coroutines (cuda_on_cpu.c): one runs until it waits for others, and then another
 * one is drawn. So what the hardware leaves open (the order of threads, of warps and of blocks, when an
 * asynchronous copy lands) is drawn at random here, and what it leaves undefined stops the program.
 */
#ifndef CARAT_TESTS_CUDA_ON_CPU_H
#define CARAT_TESTS_CUDA_ON_CPU_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ---- Functions and memory ---- */

/* A kernel is a plain function; row.c makes it known under the row's name. */
#define KERNEL void
#define __global__
#define __device__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))

/*
 * Shared memory is static, since one block runs at a time, in a section of the row's own, which lets
 * every block begin with poison in it.
 */
#define CUDA_TEXT_OF(name) #name
#define CUDA_SECTION_OF(name) "shared_" CUDA_TEXT_OF(name)
#define __shared__ static __attribute__((section(CUDA_SECTION_OF(KERNEL_NAME))))
#define DYNAMIC_SHARED(type, name) type *name = (type *)cuda_dynamic_shared()

void *cuda_dynamic_shared(void);

/* ---- Where a thread stands ---- */

typedef struct cuda_index {
    unsigned int x;
    unsigned int y;
    unsigned int z;
} cuda_index;

extern cuda_index threadIdx;
extern cuda_index blockIdx;
extern cuda_index blockDim;
extern cuda_index gridDim;

/* ---- Vectors, aligned as CUDA's are: the sanitizer reports a vector access that is not ---- */

typedef struct __attribute__((aligned(8))) float2 {
    float x, y;
} float2;
typedef struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
} float4;
typedef struct __attribute__((aligned(16))) double2 {
    double x, y;
} double2;
typedef struct __attribute__((aligned(8))) int2 {
    int x, y;
} int2;
typedef struct __attribute__((aligned(16))) int4 {
    int x, y, z, w;
} int4;
typedef struct __attribute__((aligned(8))) uint2 {
    unsigned int x, y;
} uint2;
typedef struct __attribute__((aligned(16))) uint4 {
    unsigned int x, y, z, w;
} uint4;
typedef struct __attribute__((aligned(4))) ushort2 {
    unsigned short x, y;
} ushort2;
typedef struct __attribute__((aligned(8))) ushort4 {
    unsigned short x, y, z, w;
} ushort4;
typedef struct __attribute__((aligned(4))) char4 {
    signed char x, y, z, w;
} char4;

#define make_float2(...) ((float2){__VA_ARGS__})
#define make_float4(...) ((float4){__VA_ARGS__})
#define make_double2(...) ((double2){__VA_ARGS__})
#define make_int2(...) ((int2){__VA_ARGS__})
#define make_int4(...) ((int4){__VA_ARGS__})
#define make_uint2(...) ((uint2){__VA_ARGS__})
#define make_uint4(...) ((uint4){__VA_ARGS__})
#define make_ushort2(...) ((ushort2){__VA_ARGS__})
#define make_ushort4(...) ((ushort4){__VA_ARGS__})
#define make_char4(...) ((char4){__VA_ARGS__})

/* ---- Loads of what the kernel does not write ---- */

#define __ldg(pointer) (*(pointer))

/* ---- Waiting for other threads: the line tells barriers apart ---- */

#define __syncthreads() cuda_wait_for_block(__LINE__)
#define __syncwarp(...) cuda_wait_for_warp(__LINE__)

void cuda_wait_for_block(int line);
void cuda_wait_for_warp(int line);

/* ---- Bits and arithmetic ---- */

static inline float __uint_as_float(unsigned int bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline unsigned int __float_as_uint(float value)
{
    unsigned int bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Four bytes picked from the eight of x (0 to 3) and y (4 to 7): the lowest by the lowest digit. */
static inline unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int digits)
{
    uint64_t both = (uint64_t)y << 32 | x;
    unsigned int picked = 0;
    for (int place = 0; place < 4; place++) {
        unsigned int digit = digits >> 4 * place & 7;
        picked |= (unsigned int)(both >> 8 * digit & 0xff) << 8 * place;
    }
    return picked;
}

/* The compiler of the kernels is told not to contract, so one operation is one rounding. */
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }

/* ---- kernels/ptx, each instruction in software ---- */

float f32_from_f16(uint16_t bits);
uint16_t f16_from_f32(float value);
float f32_from_bf16(uint16_t bits);
uint16_t bf16_from_f32(float value);

static inline float exp2_approximate(float x) { return exp2f(x); }
static inline float reciprocal_approximate(float x) { return 1 / x; }

uint32_t dot4_s8(uint32_t x, uint32_t y, uint32_t sum);

/*
 * A copy lands at any time between its issue and the wait for its group: at once, at some barrier, or as
 * late as the wait.
 */
void copy_async_4(void *to_shared, const void *from_global, int valid);
void copy_async_8(void *to_shared, const void *from_global, int valid);
void copy_async_16(void *to_shared, const void *from_global, int valid);
#define copy_async_16_cached copy_async_16
void copy_async_commit(void);

/* One kernel runs at a time here, after those before it. */
static inline void wait_for_kernels_before(void) {}
static inline void let_next_kernel_begin(void) {}
static inline void prefetch_to_l2(const void *from, uint32_t bytes)
{
    (void)from;
    (void)bytes;
}

void copy_async_wait(int pending);

/*
 * The copy engine reads shared memory at any time between a store's begin and the wait for its group, without which no thread
 * may return. Whether the fence stands before the store only a device shows.
 */
void bulk_store(void *to, const void *from_shared, uint32_t bytes);
void tensor_store_commit(void);
void tensor_store_wait_read(int pending);
static inline void fence_async_shared(void) {}

/* The lanes of a warp meet, lay out their fragments, and each sums its own results in k order. */
#define mma_f64_16x8x16(d, a, b) cuda_mma_f64_16x8x16(__LINE__, d, a, b)
void cuda_mma_f64_16x8x16(int line, double d[4], const double a[8], const double b[4]);
#define mma_f64_16x8x8(d, a, b) cuda_mma_f64_16x8x8(__LINE__, d, a, b)
void cuda_mma_f64_16x8x8(int line, double d[4], const double a[4], const double b[2]);

/* Here the products are exact, their sum is double, and each instruction rounds once. */
#define mma_f16_16x8x16(d, a, b) cuda_mma_f16_16x8x16(__LINE__, d, a, b)
void cuda_mma_f16_16x8x16(int line, float d[4], const uint32_t a[4], const uint32_t b[2]);
#define mma_bf16_16x8x16(d, a, b) cuda_mma_bf16_16x8x16(__LINE__, d, a, b)
void cuda_mma_bf16_16x8x16(int line, float d[4], const uint32_t a[4], const uint32_t b[2]);
#define mma_tf32_16x8x8(d, a, b) cuda_mma_tf32_16x8x8(__LINE__, d, a, b)
void cuda_mma_tf32_16x8x8(int line, float d[4], const uint32_t a[4], const uint32_t b[2]);
#define mma_s8_16x8x32(d, a, b) cuda_mma_s8_16x8x32(__LINE__, d, a, b)
void cuda_mma_s8_16x8x32(int line, uint32_t d[4], const uint32_t a[4], const uint32_t b[2]);

uint32_t tf32_from_f32(uint32_t bits);
void tf32_pair_from_f32(uint32_t *first, uint32_t *second, int in_place);

/* The lanes of a warp meet, and all get the largest value. */
#define warp_max(value) cuda_warp_max(__LINE__, value)
uint32_t cuda_warp_max(int line, uint32_t value);

/* The lanes of a warp meet, and each gets the word of the one whose number differs in these bits. */
#define __shfl_xor_sync(mask, word, bits) cuda_shuffle_xor(__LINE__, word, bits)
uint32_t cuda_shuffle_xor(int line, uint32_t word, int bits);

/* The same of the one with that number. */
#define __shfl_sync(mask, word, lane) cuda_shuffle(__LINE__, word, lane)
uint32_t cuda_shuffle(int line, uint32_t word, int lane);

#define ldmatrix_x4(to, row) cuda_ldmatrix_x4(__LINE__, to, row)
void cuda_ldmatrix_x4(int line, uint32_t to[4], const void *row);
#define ldmatrix_x4_trans(to, row) cuda_ldmatrix_x4_trans(__LINE__, to, row)
void cuda_ldmatrix_x4_trans(int line, uint32_t to[4], const void *row);

#endif
