/*
 * rows.h - what the rows of the catalogue can do, of which kind they are, and which one does a step: for those who
 * choose among them. What others may ask of a row is in plan.h.
 */
#ifndef CARAT_ROWS_H
#define CARAT_ROWS_H

#include "plan.h"

#define MOST_BLOCKS 2147483647 /* of a grid in its first dimension */
/* What lies in the workspace begins at multiples of this. */
#define WORKSPACE_UNIT 256
/* The copy engine's columns begin at multiples of this. */
#define MAP_ALIGNMENT 16
/* Below this k the unit's cut sums of bf16 parts may be off by more than a chain of roundings. */
#define LEAST_SPLIT_K 32

static inline int64_t ceiling(int64_t x, int64_t y) { return x / y + (x % y != 0); }
static inline int64_t round_up(int64_t x, int64_t unit) { return ceiling(x, unit) * unit; }

/* ---- What a row can do ---- */

/* Whether sums of three bf16 parts, which hold all bits of an f32, are what a problem asks for, or better. */
bool problem_keeps_all_bits(const struct problem *p);

/* Whether a row multiplies what the problem is of, as accurately as it asks for. */
bool kernel_has_types(const struct kernel *kernel, const struct problem *p);

/*
 * Whether a row can stand in for another that lacks a whole image: with the same instructions, and so with the same bits where both
 * do what is asked for; but where blocks share k (kernel_k_sharers()), whose parts of it are added last.
 */
bool kernel_stands_in(const struct kernel *kernel, const struct kernel *other);

/* Whether a row's plain image may do what is asked for, when alpha, beta, the scales and D's address are known. */
bool kernel_may_be_plain(const struct kernel *kernel, const struct problem *p);

/* The same of the image that finishes sums, too. */
bool kernel_may_finish(const struct kernel *kernel, const struct problem *p);

/* Of a row without a whole image: whether one does the product, and D lies as the engine stores it, but for its address, or anywhere. */
bool kernel_suits_images(const struct kernel *kernel, const struct problem *p);

/* Of the same: whether it has an image for parts of k, and their sums lie as the engine stores them. */
bool kernel_may_sum(const struct kernel *kernel, const struct problem *p);

/* Whether a row multiplies a problem as it is, in one part or in several. */
bool kernel_has_way(const struct kernel *kernel, const struct device_traits *traits, const struct problem *p);

/* Elements of which bases, columns and strides of A and B must be multiples; 1 where the row takes any. */
int64_t kernel_aligned_elements(const struct kernel *kernel, const struct problem *p);

/* ---- Which row does a step ---- */

/* The row that adds and finishes the sums of a product; NULL where there is none. */
const struct kernel *find_reduce_row(const struct device_traits *traits, const struct problem *p);

/* The row that packs elements of a size as they are (0) or as another type; NULL where there is none. */
const struct kernel *find_pack_row(const struct device_traits *traits, size_t element_bytes, int converts);

/* The first row that runs on the device, splits f32 into so many planes or rescues what cannot be split. */
const struct kernel *find_row_of_planes(const struct device_traits *traits, int operation, int planes,
                                        bool rescues);

/* ---- Of which kind a row is ---- */

/* Whether whole warpgroups multiply what others bring: on Hopper. */
bool kernel_has_consumers(const struct kernel *kernel);

/* Whether a row's clusters may be told to stay close to each other: those of gemm/wgmma_pace.h. */
bool kernel_keeps_pace(const struct kernel *kernel);

/* Whether a row is for one thin operand: then RATE is of what reading the other one could reach. */
bool kernel_is_thin(const struct kernel *kernel);

/* Whether a row is for short k, from memory to D with nothing between: it multiplies no k that is not there. */
bool kernel_is_direct(const struct kernel *kernel);

/* Whether it is such a row whose threads have elements of D to themselves, and wait for nobody. */
bool kernel_is_brief(const struct kernel *kernel);

/* Whether a thin row fetches all that it has of k at once: for small products. */
bool kernel_is_dots(const struct kernel *kernel);

/* Whether a row's products run on the tensor unit, by instructions of one warp. */
bool kernel_multiplies_by_warp(const struct kernel *kernel);

/* Of a row of narrow tiles, whether the long side is along m; of tiles of one element, whether it is for long ones. */
bool kernel_is_long_along_m(const struct kernel *kernel);

/* How many warps of a block share a tile's k where they split f32 themselves: so many chains there are of each sum, not one. */
int kernel_chains(const struct kernel *kernel);

/* Whether a row begins to fetch what it multiplies next only when it needs it; other blocks have to fill the time. */
bool kernel_fetches_late(const struct kernel *kernel);

/* Whether a row's threads store 16 bytes of a column at a time, where columns begin at such. */
bool kernel_stores_lines(const struct kernel *kernel);

/* Blocks that fit a multiprocessor at once. */
int kernel_most_resident(const struct kernel *kernel);

/* ---- Tiles ---- */

int kernel_cluster_blocks(const struct kernel *kernel);

/* Those of them that stand side by side along m, and have B in common; and along n, which have A. One of the two is 1. */
int kernel_cluster_m(const struct kernel *kernel);
int kernel_cluster_n(const struct kernel *kernel);

/*
 * Whether clusters would share what is not there: a side of their tiles is three times the product's and more. Of 53,000 shapes that
 * an H200 and an H100 have timed such a row is the best of four, by 6% at most; but where few have been timed it may be foreseen to be.
 */
bool kernel_shares_nothing(const struct kernel *kernel, const struct problem *p);

/* Whether a row has the same tiles as another, of the same clusters and steps, so that as many of them can be shared. */
bool kernel_shares_as(const struct kernel *kernel, const struct kernel *other);

/* Tiles of the whole product, whole clusters of them; false where there are more than a grid can have. */
bool kernel_count_blocks(const struct kernel *kernel, const struct problem *p, int parts, int64_t *blocks);

/* Parts of a tile's k that blocks of a cluster multiply, and add through each other's shared memory. */
int kernel_k_sharers(const struct kernel *kernel);
/* And how many of these blocks store a share of the tile: as K_STORERS of kernels/gemm/wgmma_tile.h. */
int kernel_k_storers(const struct kernel *kernel);

/* Bytes of a block's sums of a tile, 4 each, which it hands to another block. */
int64_t kernel_tile_sum_bytes(const struct kernel *kernel);

/* ---- How a problem lies ---- */

/* Whether columns of A and B begin at multiples of 16 bytes. */
bool problem_lies_aligned(const struct problem *p);

/* Whether what a row loads that fetches late lies as its instructions want it. */
bool problem_lies_in_place(const struct problem *p);

#endif
