/*
 * wgmma_producer.h - what the producer's warp does: fills stage after stage, for all tiles of its block, as the consumers leave
 * them. A part of wgmma.cu.
 *
 *     for each tile:   tell the consumers where it begins
 *     for each stage:  wait until it is empty  -->  say how many bytes come  -->  have the engine load its share of rows and columns
 *
 * Of a cluster each block loads a share of what blocks have in common, for all of these: a stage is empty when all of them have
 * left it.
 */
#ifndef CARAT_GEMM_WGMMA_PRODUCER_H
#define CARAT_GEMM_WGMMA_PRODUCER_H

/*
 * Has the engine load `count` rows of `all` that a tile has, from `first` on, of TILE_K k from k on, into `to`, for `blocks` of the
 * cluster, whose ranks are the bits of `sharers`.
 */
static __device__ inline void load_rows(uint32_t to, const tensor_map *map, uint32_t barrier, int across,
                                        int count, int all, int first, int k, int plane, int blocks,
                                        uint32_t sharers)
{
    if (!across) {
        if (blocks == 1) {
            tensor_load(to, map, barrier, k, first, plane);
        } else {
            tensor_load_multicast(to, map, barrier, (uint16_t)sharers, k, first, plane);
        }
        return;
    }
    /* Of boxes that blocks share each loads as many, or one less: so written, no loop is unrolled for any number. */
    const int most = (BOXES_OF(all) + blocks - 1) / blocks;
#pragma unroll
    for (int box = 0; box < most; ++box) {
        if (blocks > 1 && box * ACROSS >= count) {
            continue;
        }
        uint32_t at = to + (uint32_t)(box * TILE_K * ROW_BYTES);
        if (blocks == 1) {
            tensor_load(at, map, barrier, first + box * ACROSS, k, plane);
        } else {
            tensor_load_multicast(at, map, barrier, (uint16_t)sharers, first + box * ACROSS, k, plane);
        }
    }
}

/*
 * Of `count` rows or columns the first that block `rank` of a cluster loads, where `blocks` of it share them; where they lie
 * across, in whole boxes, of which there may be fewer than blocks.
 */
static __device__ inline int own_share(int count, int across, int blocks, uint32_t rank)
{
    const uint32_t unit = (uint32_t)(across ? (count < ACROSS ? count : ACROSS) : count / blocks);
    return (int)(rank * ((uint32_t)count / unit) / (uint32_t)blocks * unit);
}

/* The blocks of a cluster that have the rows of block `rank` in common, a bit each, and those that have its columns. */
static __device__ inline uint32_t row_sharers(uint32_t rank)
{
    const uint32_t every = ((1u << RECTANGLE) - 1) / ((1u << COLUMN_SHARERS) - 1); /* COLUMN_SHARERS apart */
    return every << place_among_rows(rank) << first_of_rectangle(rank);
}
static __device__ inline uint32_t column_sharers(uint32_t rank)
{
    return ((1u << COLUMN_SHARERS) - 1) << (rank - place_among_rows(rank));
}

/* Addresses of barriers and of what a stage holds, of the block's shared memory at `base`. */
#define FULL(base, number) ((base) + (uint32_t) __builtin_offsetof(shared_memory, full) + (number)*8u)
#define EMPTY(base, number) ((base) + (uint32_t) __builtin_offsetof(shared_memory, empty) + (number)*8u)
#define ROWS_OF(stage, plane) ((stage) + (uint32_t)((plane)*ROWS_BYTES))
#define COLUMNS_OF(stage, plane) ((stage) + (uint32_t)(PLANES * ROWS_BYTES + (plane)*COLUMNS_BYTES))
/*
 * One thread loads everything. The others of its warp go along, so that all of the warp works with the same numbers, as
 * the engine's instructions want them; of scaled planes they look through the blocks' words. Not with three planes, whose
 * six loads or more a stage then come at once, and crowd out what the tensor unit reads: a thread alone takes its time.
 */
#define WARP_GOES_ALONG (PLANES < 3)

static __device__ inline int loads(void) { return WARP_GOES_ALONG ? is_elected() : 1; }

/*
 * Whether the producer tells the consumers where their tiles begin. Where it waits for nobody, since nothing is read of
 * some tiles, it may be any number of places ahead, and consumers work them out.
 */
static __device__ inline int places_come(const gemm_arguments *gemm, int reads)
{
#if PLANES > 2
    reads &= gemm->verdict.earlier == 0;
#endif
    return PLAIN || (reads && gemm->k > 0);
}

/*
 * Waits until every stage has been left by all for whom this block loaded. Then nobody arrives at its barriers any more, and what
 * others loaded for it its consumers have waited for: it may leave the cluster. Where a block has no share of an operand, arrivals of
 * some phase are another's second; each arrives once a stage, so that the last phase ends with the last arrival all the same. (A
 * barrier of the cluster would say it too, but who arrives there with what it wrote to be seen first waits for all of that, half a
 * microsecond of a block's end.)
 */
static __device__ inline void await_releases(uint32_t base, position at)
{
#pragma unroll 1
    for (int s = 0; s < STAGES; ++s) {
        mbarrier_wait_address(EMPTY(base, at.stage), at.parity ^ 1);
        step_on(&at);
    }
}

/* What can be worked out before anything may be read is worked out while the kernel before ends. */
static __device__ inline void produce(const tensor_gemm_arguments *arguments, shared_memory *shared,
                                      uint32_t base, uint32_t rank, int reads)
{
    const gemm_arguments *gemm = &arguments->gemm;
    const tensor_map *row_map = SWAPPED ? &arguments->b : &arguments->a;
    const tensor_map *column_map = SWAPPED ? &arguments->a : &arguments->b;
    int row_problems = SWAPPED ? arguments->problems_b : arguments->problems_a;
    int column_problems = SWAPPED ? arguments->problems_a : arguments->problems_b;
    /* Among those that have the rows in common, and the columns, which are so many, as the compiler has to be told. */
    uint32_t row_rank = place_among_columns(rank);
    uint32_t column_rank = place_among_rows(rank) % COLUMN_SHARERS;
    int rows_begin = own_share(TILE_ROWS, ROWS_ACROSS, ROW_SHARERS, row_rank);
    int rows_count = own_share(TILE_ROWS, ROWS_ACROSS, ROW_SHARERS, row_rank + 1) - rows_begin;
    int columns_begin = own_share(COLUMNS_LOADED, COLUMNS_ACROSS, COLUMN_SHARERS, column_rank);
    int columns_count =
        own_share(COLUMNS_LOADED, COLUMNS_ACROSS, COLUMN_SHARERS, column_rank + 1) - columns_begin;
    position at = {0, 0};
    int waits = PLANES == 1; /* for the kernels before, right ahead of the first load */
    int tells = places_come(gemm, reads);
#if PACES
    /* One block of a cluster looks: none gets ahead of the others by more than the stages, in a rectangle twice those. */
    uint32_t launch = rank == 0 ? keep(arguments->pace) : 0;
    uint32_t between_looks = launch != 0 ? PACE_STEPS - 1 : ~0u;
    uint32_t done = 0;
#endif
    walk way = walk_begin(arguments, reads);
    piece work;
    uint32_t number = 0;
    for (; walk_on(arguments, &way, &work, reads); ++number) {
        place here = place_of_piece(arguments, &work, rank);
        int row = (SWAPPED ? here.column : here.row) + rows_begin;
        int column = (SWAPPED ? here.row : here.column) + columns_begin;
        int row_plane = row_problems * here.problem * PLANES;
        int column_plane = column_problems * here.problem * PLANES;
        int k = here.part * (int)arguments->k_per_part + (int)work.first * TILE_K;
        if (tells && loads()) {
            shared->places[number % PLACES] = here;
        }
        if (number == 0 && PLANES < 3) {
            await_barriers();
        }
        if (number == 0 && PLANES == 2) { /* what a tile's blocks hold is asked ahead of its loads */
            wait_for_kernels_before();
        }
        uint32_t steps = work.count;
#if PACES
        done += steps;
#endif
#if SCALED
        uint32_t words = words_of_lane(gemm, here, threadIdx.x);
        int refused = steps > 0 && tiles_are_refused(arguments, &work, threadIdx.x);
#elif PLANES > 2
        steps = gemm->verdict.earlier && !tiles_are_left(arguments, &work) ? 0 : steps;
#endif
#pragma unroll 1
        for (; steps > 0; --steps) {
            uint32_t full = FULL(base, at.stage);
            mbarrier_wait_address(EMPTY(base, at.stage), at.parity ^ 1);
            if (waits) {
                wait_for_kernels_before();
                waits = 0;
            }
#if PACES
            if ((steps & between_looks) == 0 && !keep_pace(launch, done - steps)) {
                launch = 0;
                between_looks = ~0u;
            }
#endif
#if SCALED
            put_factors(shared->factors[at.stage], gemm, words, k, refused);
            if (threadIdx.x < BLOCKS_OF_TILE) {
                mbarrier_arrive_address(full);
            }
            if (refused) {
                if (loads()) {
                    mbarrier_arrive_address(full);
                }
                step_on(&at);
#if PACES
                if (launch != 0) {
                    tell_progress(launch, done);
                }
#endif
                break;
            }
#endif
            if (loads()) {
                uint32_t to = base + at.stage * (uint32_t)sizeof(stage);
                mbarrier_arrive_expect(full, sizeof(stage));
#pragma unroll
                for (int plane = 0; plane < PLANES; ++plane) {
                    load_rows(ROWS_OF(to, plane) + (uint32_t)rows_begin * K_BYTES, row_map, full, ROWS_ACROSS,
                              rows_count, TILE_ROWS, row, k, row_plane + plane, ROW_SHARERS,
                              row_sharers(rank));
                    load_rows(COLUMNS_OF(to, plane) + (uint32_t)columns_begin * K_BYTES, column_map, full,
                              COLUMNS_ACROSS, columns_count, COLUMNS_LOADED, column, k, column_plane + plane,
                              COLUMN_SHARERS, column_sharers(rank));
                }
            }
            k += TILE_K;
            step_on(&at);
        }
    }
#if PACES
    if (launch != 0) {
        tell_progress(launch, ALL_STEPS);
    }
#endif
    /* Of tiles that would be shared, but are not read, some clusters have none; their consumers wait for this all the same. */
    if (STREAM && number == 0 && PLANES < 3) {
        await_barriers();
    }
    if (RECTANGLE > 1) {
        await_releases(base, at);
    }
}

#endif
