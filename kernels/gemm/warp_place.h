/*
 * warp_place.h - where a warp is whose block's warps share k: WARPS of them tile the block, WARPS_M along m, for each slice of k. A
 * kernel includes it where it has said so.
 */
#ifndef CARAT_GEMM_WARP_PLACE_H
#define CARAT_GEMM_WARP_PLACE_H

/* A warp's slice, and its part of the tile. */
typedef struct warp_place {
    int slice;
    int row;
    int column;
} warp_place;

static __device__ inline warp_place place_of_warp(void)
{
    int warp = (int)threadIdx.x / 32;
    warp_place at;
    at.slice = warp / WARPS;
    at.row = warp % WARPS_M * WARP_M;
    at.column = warp % WARPS / WARPS_M * WARP_N;
    return at;
}

#endif
