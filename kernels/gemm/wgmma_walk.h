/*
 * wgmma_walk.h - which tiles a cluster works on, which steps of their k, and in what order: a part of wgmma.cu. The
 * producer and the consumers walk the same way, each by itself.
 *
 * With STREAM=1 first comes the cluster's share of a line of steps that the clusters share evenly:
 *
 *     steps    |  tile 0   |  tile 1   |  tile 2   |
 *     cluster  |   0    |   1    |   2    |   3    |
 *
 * from its end to its beginning: first the beginning of a tile that the next cluster finishes, last the end of one that
 * the cluster before began. So who waits for a sum waits for what blocks of lower number do first, and those have begun.
 * Then, and without STREAM from the start, come whole tiles, each as many further as there are clusters; with K_SHARERS one, of whose
 * steps each block has a part.
 */
#ifndef CARAT_GEMM_WGMMA_WALK_H
#define CARAT_GEMM_WGMMA_WALK_H

#include "tiles.h"

/* Where a cluster is in its work. */
typedef struct walk {
#if STREAM
    uint32_t begin; /* what is left of its share */
    uint32_t end;
#endif
    uint32_t tile; /* the next whole one */
} walk;

/* Of a tile the `count` steps from `first` on; whether another cluster does the rest and finishes it. */
typedef struct piece {
    uint32_t tile;
    uint32_t first;
    uint32_t count;
    int goes_on;
} piece;

static __device__ inline uint32_t block_rank(void) { return CLUSTER == 1 ? 0 : cluster_rank(); }
static __device__ inline uint32_t this_cluster(void) { return blockIdx.x / CLUSTER; }
static __device__ inline uint32_t count_clusters(void) { return gridDim.x / CLUSTER; }

/* With K_SHARERS ranks go through one rectangle after the other: which one a block is in, and the rank that it begins with. */
static __device__ inline uint32_t part_of_rank(uint32_t rank)
{
    return K_SHARERS == 1 ? 0 : rank / RECTANGLE;
}
static __device__ inline uint32_t first_of_rectangle(uint32_t rank) { return part_of_rank(rank) * RECTANGLE; }
static __device__ inline uint32_t within_rectangle(uint32_t rank)
{
    return K_SHARERS == 1 ? rank : rank % RECTANGLE;
}

/*
 * Where block `rank` of a cluster stands: of 2 x 2,
 *
 *                      columns
 *     rows       rank 0      rank 2
 *                rank 1      rank 3
 */
static __device__ inline uint32_t place_among_rows(uint32_t rank)
{
    return ROW_SHARERS == 1 ? within_rectangle(rank) : within_rectangle(rank) % COLUMN_SHARERS;
}
static __device__ inline uint32_t place_among_columns(uint32_t rank)
{
    return ROW_SHARERS == 1 ? 0 : within_rectangle(rank) / COLUMN_SHARERS;
}

/* Whether one block loads some of another's operands: so many do, itself among them. */
#define LOADERS (ROW_SHARERS + COLUMN_SHARERS - 1)
static __device__ inline int loads_for(uint32_t rank, uint32_t other)
{
    return part_of_rank(rank) == part_of_rank(other) &&
           (place_among_rows(rank) == place_among_rows(other) ||
            place_among_columns(rank) == place_among_columns(other));
}

#if STREAM
static __device__ inline uint32_t steps_of_tile(const tensor_gemm_arguments *arguments)
{
    return (arguments->k + TILE_K - 1) / TILE_K;
}

/* Whether a thread alone loads, which then may not ask the others of its warp: see WARP_GOES_ALONG in wgmma_producer.h. */
static __device__ inline uint32_t same_for_all(uint32_t number) { return PLANES < 3 ? keep(number) : number; }

/* Where the share of a cluster begins, which is where the one before ends. */
static __device__ inline uint32_t share_begin(const tensor_gemm_arguments *arguments, uint32_t cluster)
{
    uint64_t line = (uint64_t)(uint32_t)arguments->stream_tiles * steps_of_tile(arguments);
    return (uint32_t)(line * cluster / count_clusters());
}
#endif

static __device__ inline walk walk_begin(const tensor_gemm_arguments *arguments, int reads)
{
    walk at;
    at.tile = this_cluster();
#if STREAM
    at.begin = 0;
    at.end = 0;
    if (reads && arguments->stream_tiles > 0) {
        at.begin = same_for_all(share_begin(arguments, this_cluster()));
        at.end = same_for_all(share_begin(arguments, this_cluster() + 1));
        at.tile += (uint32_t)arguments->stream_tiles;
    }
#else
    (void)reads;
#endif
    return at;
}

/* Steps of a whole tile, or of its part of k. */
static __device__ inline uint32_t steps_of_whole(const tensor_gemm_arguments *arguments, uint32_t tile)
{
    /* Of 32 bits ptxas keeps more than tall tiles have registers for. */
    int64_t count = TALL ? arguments->gemm.k : arguments->k;
    if (KNOWS_PARTS && arguments->parts > 1) {
        uint32_t part =
            tile / (uint32_t)(arguments->tiles_m * arguments->tiles_n) % (uint32_t)arguments->parts;
        int64_t left = count - (int64_t)part * arguments->k_per_part;
        count = left < arguments->k_per_part ? left : arguments->k_per_part;
    }
    return (uint32_t)((count + TILE_K - 1) / TILE_K);
}

#if K_SHARERS > 1

/* Of a tile's steps those of this block's part of k; of as many as there are parts or more, each has one. */
static __device__ inline void take_part_of_steps(piece *work)
{
    uint32_t part = part_of_rank(block_rank());
    work->first = work->count * part / K_SHARERS;
    work->count = work->count * (part + 1) / K_SHARERS - work->first;
}

#endif

/* The next piece; 0 where there is none. */
static __device__ inline int walk_on(const tensor_gemm_arguments *arguments, walk *at, piece *next, int reads)
{
    next->goes_on = 0;
    next->first = 0;
#if STREAM
    if (at->begin < at->end) {
        uint32_t steps = steps_of_tile(arguments);
        next->tile = (at->end - 1) / steps;
        uint32_t tile_begin = next->tile * steps;
        uint32_t begin = at->begin > tile_begin ? at->begin : tile_begin;
        next->first = begin - tile_begin;
        next->count = at->end - begin;
        next->goes_on = at->end < tile_begin + steps;
        at->end = begin;
        return 1;
    }
#endif
    next->tile = at->tile;
    next->count = reads ? steps_of_whole(arguments, next->tile) : 0;
#if K_SHARERS > 1
    take_part_of_steps(next);
#endif
    at->tile += count_clusters();
    return next->tile < (uint32_t)arguments->tiles;
}

/* Whether there is no next piece. */
static __device__ inline int walk_is_over(const tensor_gemm_arguments *arguments, const walk *at)
{
#if STREAM
    if (at->begin < at->end) {
        return 0;
    }
#endif
    return at->tile >= (uint32_t)arguments->tiles;
}

/* x / d, of which the host knows 2^63 / d: a division takes 150 cycles, and the first load waits for it. */
static __device__ inline uint32_t divide_by(uint32_t x, uint64_t over)
{
    uint64_t low = (uint64_t)x * (uint32_t)over;
    return (uint32_t)((((uint64_t)x * (uint32_t)(over >> 32)) + (low >> 32)) >> 31);
}

/* A cluster's tile among those of D, its part of k and its problem. */
typedef struct tile_share {
    uint32_t row;
    uint32_t column;
    uint32_t part;
    uint32_t problem;
} tile_share;

/*
 * Which one a number stands for, in the order of tiles.h: down the first column of a band of BAND tiles, then its second. Rows of
 * two planes are 2% quicker by the divisions there (2xf16, 128 x 128 at 1024 cubed), why is not known; of three nothing was seen.
 */
static __device__ inline tile_share share_of_number(const tensor_gemm_arguments *arguments, uint32_t number)
{
#if PLANES > 1
    block_share planes = share_of_tile(&arguments->gemm, BAND, number, 1, 1);
    return (tile_share){(uint32_t)planes.row, (uint32_t)planes.column, (uint32_t)planes.part,
                        (uint32_t)planes.problem};
#else
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    uint32_t tiles_n = (uint32_t)arguments->tiles_n;
    tile_share share = {0, 0, 0, 0};
    if ((uint32_t)arguments->tiles > tiles_m * tiles_n) {
        uint32_t parts = KNOWS_PARTS ? (uint32_t)arguments->parts : 1;
        uint32_t rest = divide_by(divide_by(number, arguments->over_tiles_m), arguments->over_tiles_n);
        number -= rest * tiles_m * tiles_n;
        share.problem = parts > 1 ? rest / parts : rest;
        share.part = rest - share.problem * parts;
    }
    if (tiles_m < BAND) {
        share.column = divide_by(number, arguments->over_tiles_m);
        share.row = number - share.column * tiles_m;
        return share;
    }
    uint32_t first = divide_by(number / BAND, arguments->over_tiles_n) * BAND; /* of the band */
    uint32_t within = number - first * tiles_n;
    uint32_t height = tiles_m - first < BAND ? tiles_m - first : BAND;
    share.column = height == BAND ? within / BAND : within / height;
    share.row = first + within - share.column * height;
    return share;
#endif
}

/* Where a piece's tile begins for this block. */
static __device__ inline place place_of_piece(const tensor_gemm_arguments *arguments, const piece *work,
                                              uint32_t rank)
{
    tile_share share = share_of_number(arguments, work->tile);
    place here;
    uint32_t along_m = SWAPPED ? place_among_columns(rank) : place_among_rows(rank);
    uint32_t along_n = SWAPPED ? place_among_rows(rank) : place_among_columns(rank);
    here.row = (int32_t)(share.row * CLUSTER_M + along_m * TILE_M);
    here.column = (int32_t)(share.column * CLUSTER_N + along_n * TILE_N);
    here.problem = (int32_t)share.problem;
    here.part = (int32_t)share.part;
    return here;
}

/* The same for a consumer. */
static __device__ inline place part_of_consumer(place here, int consumer)
{
    here.row += SWAPPED ? 0 : FIRST_ROW(consumer);
    here.column += SWAPPED ? FIRST_ROW(consumer) : 0;
#if K_SHARERS > 1
    int32_t first_column =
        (int32_t)part_of_rank(block_rank()) * STORED_N; /* of those that this block stores */
    here.row += SWAPPED ? first_column : 0;
    here.column += SWAPPED ? 0 : first_column;
#endif
    return here;
}

/* Whether a piece is all of its tile's steps. */
static __device__ inline int is_whole(const piece *work)
{
    return !STREAM || (work->first == 0 && !work->goes_on);
}

#endif
