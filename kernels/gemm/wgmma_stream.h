/*
 * wgmma_stream.h - how blocks add up a tile whose steps of k they share (STREAM=1, see wgmma_walk.h): a part of wgmma.cu.
 *
 *     who begins a tile      sums --> stream_sums, in the order of registers, then raises its flag
 *     who finishes it        waits for the flags of all who began it, the nearest first, adds their sums to its own
 *
 * Always in that order, so that the bits of the sum are the same from run to run.
 */
#ifndef CARAT_GEMM_WGMMA_STREAM_H
#define CARAT_GEMM_WGMMA_STREAM_H

#include "../ptx/flag.h"

#if STREAM

/* The sum whose 32 bits these are. */
static __device__ inline wgmma_sum sum_of_bits(float bits)
{
#if ELEMENT == ELEMENT_S8
    return __float_as_int(bits);
#else
    return bits;
#endif
}

/* Where a warpgroup leaves its sums of a tile that another block finishes, as they stand in registers. */
static __device__ inline float2 *handed_sums(const tensor_gemm_arguments *arguments, uint32_t block,
                                             int consumer)
{
    float *sums = arguments->stream_sums + ((size_t)block * CONSUMERS + consumer) * 64 * WGMMA_N;
    return (float2 *)sums + thread_number() % WARPGROUP;
}

static __device__ inline uint64_t *flag_of(const tensor_gemm_arguments *arguments, uint32_t block,
                                           int consumer)
{
    return arguments->stream_flags + block * CONSUMERS + consumer;
}

static __device__ inline void hand_on(const tensor_gemm_arguments *arguments, const wgmma_sum sum[WGMMA_SUMS],
                                      int consumer)
{
    float2 *to = handed_sums(arguments, blockIdx.x, consumer);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; i += 2) {
        float2 two = {sum_as_float(sum[i]), sum_as_float(sum[i + 1])};
        __stcg(to + i / 2 * WARPGROUP, two);
    }
    meet(consumer);
    if (thread_number() % WARPGROUP == 0) {
        flag_raise(flag_of(arguments, blockIdx.x, consumer), arguments->stream_token);
    }
}

/* Adds what one other block has summed of this tile; its flag has then served. */
static __device__ inline void add_handed(const tensor_gemm_arguments *arguments, wgmma_sum sum[WGMMA_SUMS],
                                         uint32_t block, int consumer)
{
    if (thread_number() % WARPGROUP == 0) {
        uint64_t *flag = flag_of(arguments, block, consumer);
        flag_wait(flag, arguments->stream_token);
        flag_clear(flag);
    }
    meet(consumer);
    const float2 *from = handed_sums(arguments, block, consumer);
#pragma unroll
    for (int i = 0; i < WGMMA_SUMS; i += 2) {
        float2 two = __ldcg(from + i / 2 * WARPGROUP);
        sum[i] += sum_of_bits(two.x);
        sum[i + 1] += sum_of_bits(two.y);
    }
}

/* Adds what the clusters before have summed of a tile that ends here: those whose shares reach into it. */
static __device__ inline void add_earlier_steps(const tensor_gemm_arguments *arguments,
                                                wgmma_sum sum[WGMMA_SUMS], const piece *work, int consumer)
{
    uint32_t tile_begin = work->tile * steps_of_tile(arguments);
    uint32_t block = blockIdx.x;
    uint32_t begin = tile_begin + work->first;
    while (begin > tile_begin) {
        block -= CLUSTER;
        add_handed(arguments, sum, block, consumer);
        begin = share_begin(arguments, block / CLUSTER);
    }
}

#endif

#endif
