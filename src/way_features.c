/* way_features.c - a way in numbers, such as its time may hang on. */
#include "way_features.h"

#include <math.h>
#include <string.h>

#include "rows.h"

/* Beyond so many powers of two, alignment is as good as any. */
enum { BEST_ALIGNMENT = 12 };

static float power_of(double x) { return log2f((float)x); }

/* The power of two that columns so many elements apart, of problems so many apart, begin at multiples of, in bytes. */
static float alignment(carat_type type, int64_t ld, int64_t stride)
{
    int64_t bytes = (ld | stride) * (int64_t)carat_type_size(type);
    int power = bytes == 0 ? BEST_ALIGNMENT : __builtin_ctzll((unsigned long long)bytes);
    return (float)(power < BEST_ALIGNMENT ? power : BEST_ALIGNMENT);
}

/* How often all multiprocessors have a tile, a real number. */
static double waves(const struct device_traits *traits, const struct candidate *way)
{
    double at_once = way->kernel->tensor_maps
                         ? (double)kernel_clusters(way->kernel, traits) * kernel_cluster_blocks(way->kernel)
                         : traits->multiprocessors;
    return (double)way->blocks / at_once;
}

/* The share of whole ones that is there: of waves or tiles. */
static float fill(double count) { return (float)(count / ceil(count)); }

/* What must be read and written at least. */
static double least_bytes(const struct problem *p, const struct problem *product)
{
    double inputs = extent_elements(problem_extent_a(product)) + extent_elements(problem_extent_b(product));
    return inputs * (double)carat_type_size(product->type_a) +
           extent_elements(problem_extent_d(product)) * (double)carat_type_size(p->type_cd);
}

void way_features(const struct way_case *asked, float features[WAY_FEATURES])
{
    const struct problem *p = asked->problem;
    const struct candidate *way = asked->way;
    const struct problem *product = &way->product;
    const struct kernel *kernel = way->kernel;
    const struct way_place *place = asked->place;
    double k = (double)(way->parts > 1   ? way->k_per_part
                        : product->k > 0 ? product->k
                                         : 1) /
               kernel_k_sharers(kernel); /* a block's */
    double tiles_m = (double)product->m / kernel->tile_m;
    double tiles_n = (double)product->n / kernel->tile_n;
    double in_waves = waves(asked->traits, way);
    double bytes = least_bytes(p, product);
    const float all[WAY_FEATURES] = {
        /* The problem, */
        place->at[0],
        place->at[1],
        place->at[2],
        place->at[3],
        (float)p->trans_a,
        (float)p->trans_b,
        (float)p->type_a,
        (float)p->accuracy,
        alignment(product->type_a, product->lda, product->stride_a),
        alignment(product->type_b, product->ldb, product->stride_b),
        alignment(p->type_cd, p->ldd, p->stride_d),
        /* its row, */
        (float)asked->row,
        (float)kernel->tile_m,
        (float)kernel->tile_n,
        (float)kernel->tile_k,
        (float)kernel->threads_x,
        (float)kernel->stages,
        (float)kernel->consumers,
        (float)kernel->min_blocks,
        (float)kernel->cluster,
        (float)kernel_cluster_m(kernel),
        (float)kernel->swapped,
        (float)kernel->layout,
        (float)kernel->warp_m,
        (float)kernel->warp_n,
        (float)kernel->shared_bytes,
        (float)kernel->rate,
        (float)(kernel->planes + kernel->splits),
        (float)kernel->element,
        /* what is done to A, B and k, */
        (float)place->packs[0],
        (float)place->packs[1],
        (float)way->parts,
        (float)(way->stream_tiles > 0),
        /* and how much there is of everything. */
        power_of(in_waves),
        fill(in_waves),
        fill(tiles_m),
        fill(tiles_n),
        power_of(tiles_m),
        power_of(tiles_n),
        power_of(k),
        (float)ceil(k / kernel->tile_k),
        power_of((double)way->blocks),
        power_of(asked->foreseen),
        power_of(asked->factor),
        power_of(bytes),
        power_of(bytes / asked->foreseen),
    };
    memcpy(features, all, sizeof(all));
}
