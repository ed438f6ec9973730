/*
 * cost_product.c - how long the product's own kernel takes: cycles of the busiest multiprocessor, or what memory needs.
 */
#include <math.h>

#include "cost.h"
#include "rows.h"

/*
 * A memory sector; where columns do not begin at one, asynchronous copies of wide elements reach this
 * share.
 */
#define SECTOR 32
#define OFF_SECTOR 0.8

/* Cycles from a block's launch to its first product, and from its last one to its end. */
#define BLOCK_CYCLES 1500.0
/* The same from tile to tile of a block that goes on. */
#define TILE_CYCLES 400.0
/* The same to store a tile that the copy engine cannot store, and for each of its elements: whole columns, or */
#define ODD_TILE_CYCLES 800.0
#define ODD_COLUMN_ELEMENT_CYCLES 0.05
#define ODD_LATE_ELEMENT_CYCLES                                                                              \
    0.33 /* of tiles before the last, so much of which the next one's products hide */
#define WHOLE_COLUMNS                                                                                        \
    64 /* of the sums: the tile stands in the stages then, see STORES_COLUMNS in wgmma_store.h */
/* short ones, one after the other, */
#define CARRY_CYCLES 5000.0
#define SHORT_COLUMN 32
/*
 * and longer ones by pieces: of four bytes more than of two. So much of that the next tile's products hide, but never all.
 */
#define ODD_ELEMENT_CYCLES 0.55
#define ODD_WIDE_ELEMENT_CYCLES 0.85
#define ANY_D_ELEMENT_CYCLES 0.25 /* each column a copy of its own, see ANY_D in catalog.txt */
#define HIDING_SHARE 0.75
#define NEVER_HIDDEN 0.35
/* The same of rows whose threads store their own sums, */
#define STORE_ELEMENT_CYCLES 0.3
/* which takes so much longer where they store 16 bytes of a column at a time, and columns begin anywhere. */
#define ODD_LINE_CYCLES 0.8
/* Sums of planes are put together before they are stored, which nothing hides: of a tile, and for each element. */
#define PLANES_TILE_CYCLES 1600.0
#define PLANES_ELEMENT_CYCLES 0.38
/*
 * Where clusters share tiles: cycles until one sees what another has handed on, and bytes a cycle at which a block writes
 * its sums of a tile or reads another's.
 */
#define HAND_OVER_CYCLES 1500.0
#define HAND_OVER_RATE 48.0
/* Where the blocks of a cluster share a tile's k: cycles until sums come, and bytes of them a cycle that come to a block. */
#define EXCHANGE_CYCLES 1200.0
#define EXCHANGE_RATE 32.0
/* How much longer shared tiles take than whole ones: at different k at a time, blocks read nothing in common. */
#define SHARED_COST 1.15

/*
 * Bytes a cycle and multiprocessor: to and from memory, from it where nothing else is to do, from the
 * second-level cache, and from that by the copy engine; and what the driver of that device promises of its memory.
 */
#define PROMISED_RATE 18.81
#define MEMORY_RATE 16.0
#define READ_RATE 18.5
#define WRITE_RATE 10.5 /* to memory, where nothing else is to do */
#define CACHE_RATE 28.0
#define ENGINE_RATE 38.0
#define ENGINE_RATE_OFF_LINES 25.0
#define CACHE_LINE 128
/* The share of its rate that one block alone on a multiprocessor reaches, where more would fit. */
#define ALONE 0.5
/* The share of its unit's rate that a row for thin operands reaches. */
#define THIN_RATE 0.7
/* Cycles that a block waits for what it needs next, where nothing is fetched ahead. */
#define LOAD_CYCLES 750.0
#define ODD_LOAD_CYCLES 3000.0
#define WASTED_LOAD 4.0
/* And that many for each element which it has to fit into place, whatever else runs. */
#define ODD_FETCH_CYCLES 0.25
/*
 * Rows that go straight from memory to D: cycles before and after all tiles, of one tile, of each element
 * that is stored, and of each later chunk of k, which nothing hides.
 */
#define DIRECT_CYCLES 200.0
#define DIRECT_TILE_CYCLES 1150.0
#define DIRECT_ELEMENT_CYCLES 0.15
#define LATER_CHUNK_CYCLES 1200.0
/*
 * Rows whose threads have elements of D to themselves: cycles before and after all, of one tile more, of an element more of
 * a thread, and of as many k as are summed in one turn.
 */
#define BRIEF_CYCLES 300.0
#define BRIEF_TILE_CYCLES 300.0
#define BRIEF_ELEMENT_CYCLES 60.0
#define BRIEF_CHUNK_CYCLES 700.0
#define BRIEF_LOADS 8 /* k of one element, */
#define BRIEF_WARP 32 /* or elements of B that a warp has, where a thread has several columns */
/*
 * Thin rows: cycles before the first round of k and after the last, of a round, in which the warps fetch
 * TILE_K of k, and where each warp has all of k for itself. By multiply-adds of the plain unit each column
 * costs more. How much longer it takes where what is narrower than a word begins anywhere, and what one more
 * tile of a multiprocessor takes of all that: they hardly help each other.
 */
#define THIN_CYCLES 1500.0
#define THIN_ROUND_CYCLES 2400.0
#define THIN_ALONE_CYCLES 1500.0
#define PLAIN_THIN_CYCLES 1200.0
#define PLAIN_THIN_COLUMN_CYCLES 330.0
#define PLAIN_THIN_ROUND_CYCLES 700.0
#define PLAIN_THIN_ROUND_COLUMN_CYCLES 300.0
#define ODD_THIN 1.4
#define ONE_MORE_THIN 0.8
/*
 * Those that read all that they have of k at once: cycles of a round, and for each byte of an element and row
 * of a warp. Where the long operand runs across k, each thread has so many k of one row on the way, and that
 * takes so long. A block of more threads than usual begins later.
 */
#define DOTS_CYCLES 1000.0
#define DOTS_USUAL_THREADS 256
#define DOTS_THREAD_CYCLES 3.2
#define DOTS_BYTE_CYCLES 150.0
#define DOTS_AHEAD 8
#define DOTS_ACROSS_CYCLES 1200.0

double memory_cycles(const struct device_traits *traits, double bytes)
{
    return bytes / (MEMORY_RATE * traits->multiprocessors);
}

double memory_share_of(double gigabytes, double clock, int multiprocessors)
{
    bool known = gigabytes > 0 && clock > 0 && multiprocessors > 0;
    return known ? gigabytes * 1e9 / (clock * 1e6 * multiprocessors) / PROMISED_RATE : 0;
}

/* ---- K ---- */

/* What a block multiplies of k, beside the other parts and the other blocks of its cluster. */
static double k_of_block(const struct candidate *candidate)
{
    int64_t k = candidate->parts > 1 ? candidate->k_per_part : candidate->product.k;
    return (double)k / kernel_k_sharers(candidate->kernel);
}

/* Cycles until blocks that share a tile's k have sent each other their sums of it, and added them. */
static double exchange_cycles(const struct kernel *kernel)
{
    int sharers = kernel_k_sharers(kernel);
    double stored_bytes = (double)kernel_tile_sum_bytes(kernel) / kernel_k_storers(kernel);
    return sharers == 1 ? 0 : EXCHANGE_CYCLES + (sharers - 1) * stored_bytes / EXCHANGE_RATE;
}

/* ---- Fetching ---- */

/* What it waits for each step of k: longer where it has to fit that into place, and where hardly anything of a tile is used. */
static double load_cycles(const struct kernel *kernel, const struct problem *p)
{
    bool wasted = 4 * p->m < kernel->tile_m || 4 * p->n < kernel->tile_n;
    return (problem_lies_in_place(p) ? LOAD_CYCLES : ODD_LOAD_CYCLES) * (wasted ? WASTED_LOAD : 1);
}

/* The share of its unit's rate, or of the read ceiling, that a row reaches. */
static double rate_of(const struct kernel *kernel) { return (kernel->rate > 0 ? kernel->rate : 50) / 100.0; }

/* Bytes of one k that come to a block; or that it asks for: its part alone of an operand that its cluster shares. */
static double bytes_of_k(const struct kernel *kernel, const struct problem *p, bool asked)
{
    double wide_m = fmin(kernel->tile_m, (double)p->m) / (asked ? kernel_cluster_n(kernel) : 1);
    double wide_n = fmin(kernel->tile_n, (double)p->n) / (asked ? kernel_cluster_m(kernel) : 1);
    return (wide_m + wide_n) * (double)carat_type_size(p->type_a);
}

/*
 * Cycles that it takes to fetch one k. The copy engine's bytes come to each block at the same rate, shared or not; but
 * rows that do not begin at lines are two requests each, and it is requests that the cache then has no more of.
 */
static double fetch_cycles(const struct kernel *kernel, const struct problem *p)
{
    if (!kernel->tensor_maps) {
        return bytes_of_k(kernel, p, false) / CACHE_RATE;
    }
    bool on_lines = p->lda * (int64_t)carat_type_size(p->type_a) % CACHE_LINE == 0 &&
                    p->ldb * (int64_t)carat_type_size(p->type_b) % CACHE_LINE == 0;
    double requests = bytes_of_k(kernel, p, true) / ENGINE_RATE_OFF_LINES;
    return fmax(bytes_of_k(kernel, p, false) / ENGINE_RATE, on_lines ? 0 : requests);
}

/* ---- Tiles, whole and shared ---- */

int64_t candidate_steps(const struct candidate *candidate)
{
    return ceiling(candidate->product.k, candidate->kernel->tile_k);
}

/* How many clusters stand side by side, one block a multiprocessor. */
static int64_t clusters_beside(const struct device_traits *traits, const struct kernel *kernel)
{
    int64_t clusters = kernel_clusters(kernel, traits) / kernel_most_resident(kernel);
    return clusters > 0 ? clusters : 1;
}

/*
 * The tiles of the busiest multiprocessor: whole ones in waves, but where the clusters share some, a real number of
 * them, to the step.
 */
static double busiest_tiles(const struct device_traits *traits, const struct candidate *candidate)
{
    int cluster = kernel_cluster_blocks(candidate->kernel);
    int64_t tiles = candidate->blocks / cluster;
    int64_t clusters_at_once = clusters_beside(traits, candidate->kernel);
    if (candidate->stream_tiles == 0) {
        return (double)ceiling(tiles, clusters_at_once);
    }
    int64_t steps = candidate_steps(candidate);
    double share = (double)ceiling(candidate->stream_tiles * steps, clusters_at_once) / (double)steps;
    return share + (double)ceiling(tiles - candidate->stream_tiles, clusters_at_once);
}

double shared_factor(const struct device_traits *traits, const struct candidate *candidate)
{
    if (candidate->stream_tiles == 0) {
        return 1;
    }
    double all = busiest_tiles(traits, candidate);
    int64_t clusters = kernel_clusters(candidate->kernel, traits);
    double whole = (double)ceiling(
        candidate->blocks / kernel_cluster_blocks(candidate->kernel) - candidate->stream_tiles, clusters);
    return 1 + (SHARED_COST - 1) * (all - whole) / all;
}

double hand_over_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    int64_t clusters = kernel_clusters(candidate->kernel, traits);
    /* Shares that do not begin with a tile reach into one more at either end. */
    int64_t sharers = clusters / candidate->stream_tiles + (clusters % candidate->stream_tiles == 0 ? 0 : 2);
    return HAND_OVER_CYCLES +
           (double)sharers * (double)kernel_tile_sum_bytes(candidate->kernel) / HAND_OVER_RATE;
}

/* Whether D's columns begin at multiples of 16 bytes. */
static bool stores_aligned(const struct problem *p)
{
    return (p->ldd | p->stride_d) * (int64_t)carat_type_size(p->type_cd) % MAP_ALIGNMENT == 0;
}

/*
 * Where the copy engine cannot store D's columns: whole ones, but of a block's tiles before the last by pieces while the next
 * tile is multiplied; else short ones a warp one after the other, long ones by pieces. Of all of a block's tiles.
 */
static double carry_cycles(const struct kernel *kernel, const struct problem *p, double multiply,
                           double tiles)
{
    int columns = kernel->swapped ? kernel->tile_m : kernel->tile_n; /* of the instruction */
    double elements = (double)kernel->tile_m * kernel->tile_n;
    if (kernel->any_d) {
        return tiles * fmax(0, ANY_D_ELEMENT_CYCLES * elements - HIDING_SHARE * multiply);
    }
    if (stores_aligned(p)) {
        return 0;
    }
    bool whole = columns % WHOLE_COLUMNS == 0 && kernel->splits == 0 && !kernel->turns;
    if (whole && carat_type_size(p->type_cd) > 1) {
        double seen = fmax(0, ODD_LATE_ELEMENT_CYCLES * elements - HIDING_SHARE * multiply);
        return tiles * (ODD_TILE_CYCLES + ODD_COLUMN_ELEMENT_CYCLES * elements) + (tiles - 1) * seen;
    }
    bool wide = carat_type_size(p->type_cd) == 4;
    double all = (wide ? ODD_WIDE_ELEMENT_CYCLES : ODD_ELEMENT_CYCLES) * elements;
    double hidden = kernel->planes > 0 ? 0 : HIDING_SHARE * multiply;
    double seen = fmax(NEVER_HIDDEN * all, all - hidden);
    return tiles * (p->m < SHORT_COLUMN ? CARRY_CYCLES : seen);
}

/* What a persistent block needs before its tiles and after them, and from piece to piece of them. */
static double between_tiles(const struct kernel *kernel, double mine, double pieces, double carry)
{
    double sums = PLANES_ELEMENT_CYCLES * kernel->tile_m * kernel->tile_n;
    double planes = kernel->planes > 0 ? PLANES_TILE_CYCLES + sums : 0;
    return BLOCK_CYCLES + (pieces - 1) * TILE_CYCLES + carry + mine * planes;
}

/* What a thread's block needs to store a tile. */
static double store_cycles(const struct kernel *kernel, const struct problem *p)
{
    double elements = (double)kernel->tile_m * kernel->tile_n;
    double used = fmin(kernel->tile_m, (double)p->m) * fmin(kernel->tile_n, (double)p->n);
    /* Columns that lie one behind the other, all of them in one tile, are stored whole wherever they begin. */
    bool in_pieces = p->m > kernel->tile_m || p->ldd > p->m;
    bool odd = kernel_stores_lines(kernel) && in_pieces && !stores_aligned(p);
    return STORE_ELEMENT_CYCLES * elements + (odd ? ODD_LINE_CYCLES * used : 0);
}

/* ---- Rows of their own kinds ---- */

/* What a block of a row that has all of its k on the way at once waits for. */
static double dots_cycles(const struct kernel *kernel, const struct problem *p, double k)
{
    bool along_k = kernel->swapped ? !p->trans_b || p->ldb == 1 : p->trans_a || p->lda == 1;
    double length = kernel->swapped ? kernel->tile_n : kernel->tile_m;
    double rows = kernel->swapped ? kernel->warp_n : kernel->warp_m;
    double size = (double)carat_type_size(p->type_a);
    double across = ceil(k * length / (DOTS_AHEAD * (double)kernel_threads(kernel)));
    double late = DOTS_THREAD_CYCLES * fmax(0, kernel_threads(kernel) - DOTS_USUAL_THREADS);
    if (along_k) {
        return late + ceil(k / kernel->tile_k) * (DOTS_CYCLES + DOTS_BYTE_CYCLES * size * rows);
    }
    /* Of each k at least a sector is fetched, however few elements of it are wanted. */
    double fetch = k * fmax(SECTOR, length * size) / CACHE_RATE;
    return late + fmax(across * DOTS_ACROSS_CYCLES, fetch);
}

/* What a block of another thin row waits for. */
static double thin_round_cycles(const struct kernel *kernel, const struct problem *p, double k)
{
    double rounds = k / kernel->tile_k;
    double columns = kernel->swapped ? kernel->tile_m : kernel->tile_n;
    bool odd = carat_type_size(p->type_a) < 4 && !problem_lies_aligned(p);
    bool alone =
        kernel_threads(kernel) / 32 * kernel->warp_m * kernel->warp_n == kernel->tile_m * kernel->tile_n;
    double cycles = kernel_multiplies_by_warp(kernel)
                        ? THIN_CYCLES + (alone ? THIN_ALONE_CYCLES : 0) + rounds * THIN_ROUND_CYCLES
                        : PLAIN_THIN_CYCLES + PLAIN_THIN_COLUMN_CYCLES * columns +
                              rounds * (PLAIN_THIN_ROUND_CYCLES + PLAIN_THIN_ROUND_COLUMN_CYCLES * columns);
    return cycles * (odd ? ODD_THIN : 1);
}

/* Cycles of a multiprocessor's tiles of a thin row: each waits for memory, round after round. */
static double thin_cycles(const struct kernel *kernel, const struct problem *p, double k, double mine)
{
    return kernel_is_dots(kernel) ? mine * dots_cycles(kernel, p, k)
                                  : (1 + ONE_MORE_THIN * (mine - 1)) * thin_round_cycles(kernel, p, k);
}

/* The same of a row that goes straight from memory to D, beside the multiplying. */
static double direct_cycles(const struct kernel *kernel, double k, double mine)
{
    double stored = DIRECT_ELEMENT_CYCLES * kernel->tile_m * kernel->tile_n;
    double later = fmax(0, ceil(k / kernel->tile_k) - 1) * ceil(mine / kernel_most_resident(kernel));
    return DIRECT_CYCLES + mine * (DIRECT_TILE_CYCLES + stored) + later * LATER_CHUNK_CYCLES;
}

/* The same of a row whose threads wait for nobody. */
static double brief_cycles(const struct kernel *kernel, double k, double mine)
{
    double ahead = kernel->thread_n > 1 ? (double)BRIEF_WARP / kernel->thread_n : BRIEF_LOADS;
    double chunks = fmax(1, ceil(k / ahead)) * ceil(mine / kernel_most_resident(kernel));
    double tile = BRIEF_TILE_CYCLES + BRIEF_ELEMENT_CYCLES * (kernel->thread_n - 1);
    return BRIEF_CYCLES + mine * tile + chunks * BRIEF_CHUNK_CYCLES;
}

/* ---- All of it ---- */

/* Whether who splits f32 itself reads it by 16 bytes. */
static bool is_read_by_fours(const struct problem *p)
{
    return p->m % 4 == 0 && p->n % 4 == 0 && p->k % 4 == 0 && problem_lies_aligned(p);
}

static double product_cycles(const struct device_traits *traits, const struct candidate *candidate,
                             bool by_engine)
{
    const struct kernel *kernel = candidate->kernel;
    const struct problem *p = &candidate->product;
    double fit = kernel_most_resident(kernel);
    double rate = kernel_is_thin(kernel) ? THIN_RATE : rate_of(kernel);

    /* The busiest multiprocessor's tiles, and how many of them are there at a time. */
    double mine = busiest_tiles(traits, candidate);
    double resident = mine < fit ? mine : fit;
    double busy = fit > 1 ? ALONE + (1 - ALONE) * resident / fit : 1;

    double used_k = k_of_block(candidate);
    double k = kernel_is_direct(kernel) ? used_k : ceil(used_k / kernel->tile_k) * kernel->tile_k;
    if (kernel->element == ELEMENT_F64 && kernel_aligned_elements(kernel, p) > 1 &&
        (p->lda * (int64_t)sizeof(double) % SECTOR != 0 || p->ldb * (int64_t)sizeof(double) % SECTOR != 0)) {
        rate *= OFF_SECTOR;
    }
    double multiply = (double)kernel->tile_m * kernel->tile_n * k / (kernel_unit_rate(kernel) * rate * busy);
    double fetch = fetch_cycles(kernel, p) * k;
    double wait = kernel_fetches_late(kernel) ? k / kernel->tile_k * load_cycles(kernel, p) / resident : 0;
    bool fits =
        kernel->splits > 0 ? is_read_by_fours(p) : !kernel_fetches_late(kernel) || problem_lies_in_place(p);
    if (!fits) {
        wait = fmax(wait, ODD_FETCH_CYCLES * (kernel->tile_m + kernel->tile_n) * k);
    }
    if (kernel_is_thin(kernel)) {
        return fmax(mine * fmax(multiply, fetch), thin_cycles(kernel, p, used_k, mine));
    }
    if (kernel_is_brief(kernel)) {
        return brief_cycles(kernel, k, mine);
    }
    if (kernel_is_direct(kernel)) {
        return mine * fmax(multiply, fetch) + direct_cycles(kernel, k, mine);
    }
    /* A share of tiles has one piece more than it is tiles long. */
    double pieces = candidate->stream_tiles > 0 ? ceil(mine) + 1 : mine;
    double carry = by_engine ? 0 : carry_cycles(kernel, p, multiply, pieces);
    double begins = kernel_has_consumers(kernel) ? BLOCK_CYCLES + (mine - 1) * TILE_CYCLES
                                                 : ceil(mine / fit) * BLOCK_CYCLES;
    double between = kernel->tensor_maps ? between_tiles(kernel, mine, pieces, carry)
                                         : begins + mine * store_cycles(kernel, p);
    return mine * (fmax(fmax(multiply, fetch), wait) + exchange_cycles(kernel)) + between;
}

/*
 * What memory needs where a last wave has only a few tiles: the waves before have all of its rate, but in the last one
 * each block fetches no faster than ever, and memory is idle. 0 where that is not so.
 */
static double memory_cycles_in_waves(const struct device_traits *traits, const struct candidate *candidate,
                                     double memory)
{
    const struct kernel *kernel = candidate->kernel;
    int cluster = kernel_cluster_blocks(kernel);
    int64_t tiles = candidate->blocks / cluster;
    int64_t at_once = clusters_beside(traits, kernel);
    int64_t last = tiles % at_once;
    if (!kernel->tensor_maps || candidate->stream_tiles > 0 || tiles < at_once || last == 0) {
        return 0;
    }
    double k = k_of_block(candidate);
    return memory * (1 - (double)last / (double)tiles) + fetch_cycles(kernel, &candidate->product) * k;
}

/* Bytes that the product's kernel reads at least, and that it writes. */
static double bytes_read(const struct problem *to)
{
    return (extent_elements(problem_extent_a(to)) + extent_elements(problem_extent_b(to))) *
           (double)carat_type_size(to->type_a);
}

static double bytes_written(const struct candidate *candidate)
{
    const struct problem *to = &candidate->product;
    double results = extent_elements(problem_extent_d(to)) * (double)carat_type_size(to->type_cd);
    return candidate->bare ? (double)candidate->partial_bytes : results;
}

double product_bytes(const struct candidate *candidate)
{
    return bytes_read(&candidate->product) + bytes_written(candidate);
}

/* The product's own kernel; by_engine: as if the copy engine could store D. */
static double kernel_cycles(const struct device_traits *traits, const struct candidate *candidate,
                            bool by_engine)
{
    const struct problem *to = &candidate->product;
    double inputs = bytes_read(to);
    if (kernel_is_thin(candidate->kernel)) {
        /* Of the thin operand each block has a piece, which is not read as well: where it is long, twice. */
        struct extent thin = candidate->kernel->swapped ? problem_extent_a(to) : problem_extent_b(to);
        inputs += extent_elements(thin) * (double)thin.element_bytes;
        /* Where more blocks would fit on a multiprocessor than there are, too little is on the way. */
        double fit = kernel_most_resident(candidate->kernel);
        double resident = fmin(fit, ceil((double)candidate->blocks / traits->multiprocessors));
        double busy = fit > 1 ? ALONE + (1 - ALONE) * resident / fit : 1;
        inputs *= MEMORY_RATE / (READ_RATE * rate_of(candidate->kernel) * busy);
    }
    double outputs = bytes_written(candidate);
    double written = outputs / (WRITE_RATE * traits->multiprocessors);
    double memory = fmax(memory_cycles(traits, inputs + outputs), written);
    return fmax(product_cycles(traits, candidate, by_engine),
                fmax(memory, memory_cycles_in_waves(traits, candidate, memory)));
}

double multiply_cycles(const struct device_traits *traits, const struct candidate *candidate)
{
    return kernel_cycles(traits, candidate, false);
}

double odd_store_cycles(const struct device_traits *traits, const struct candidate *candidate, double cycles)
{
    bool is_odd = candidate->kernel->tensor_maps && !stores_aligned(&candidate->product);
    return is_odd ? cycles - kernel_cycles(traits, candidate, true) : 0;
}
