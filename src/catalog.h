/*
 * catalog.h - the list of kernels, read from kernels/catalog.txt by the build.
 *
 * A row says what a kernel can do, its tile shape, and where its compiled image lies in the library.
 */
#ifndef CARAT_CATALOG_H
#define CARAT_CATALOG_H

#include <stddef.h>

#include "../kernels/common/words.h"

/* One row. A key that the row does not set is 0. */
struct kernel {
    const char *name;   /* also the symbol in the image */
    const char *source; /* under kernels/ */
    int arch;           /* least compute capability, major * 10 + minor */
    int arch_specific;  /* 1 for 90a: this architecture and no later one */
    int operation;      /* OPERATION_... */
    int element;        /* ELEMENT_... of A and B */
    int element_bytes;  /* transpose, pack and split: the size of an element */
    int converts;       /* pack: CONVERTS_..., what narrower floats become; 0: they stay what they are */
    int element_b;      /* of B where it is another than A's, else 0 */
    int accuracy; /* ACCURACY_FAST: only for who allows it; ACCURACY_BEST: who asks for it; 0: all others */
    int widened;  /* 1: f64 products also of narrower floats made f64; alpha, beta, C and D may then be f32 */
    int epilogue; /* 1: knows all of epilogue_arguments; 0: alpha and beta alone, C and D of its own type */
    int layout;   /* LAYOUT_... */
    int alignment; /* bytes: A and B (bases, columns, strides) must be multiples; 0 or the element's size: any */
    int ld_limit; /* the most that lda and ldb may be; 0: anything */
    int k_limit;  /* the most that k may be where the row is offered; 0: anything */
    int tile_m;
    int tile_n;
    int tile_k;
    int stages;
    int threads_x;
    int threads_y;    /* 0 in the table means 1 */
    int shared_bytes; /* dynamic shared memory */
    int tensor_maps;  /* 1: takes tensor_gemm_arguments, blocks persistent */
    int cluster;      /* blocks of a cluster; 0 means 1 */
    int consumers;    /* warpgroups that multiply, beside one that copies or splits */
    int swapped;      /* 1: the instruction's rows run along n, not along m */
    int row_sharers;  /* blocks of a cluster that have the instruction's rows in common (1) */
    int k_sharers; /* parts of a tile's k, each multiplied by blocks of their own in the cluster, which add them (1) */
    int piece_n;  /* columns of D that are stored at a time where a consumer has two times 64 rows; else 0 */
    int shares_k; /* 1: two consumers have one tile, every other step of its k each */
    int turns; /* 1: each consumer has tiles of its own, of 64 rows or two times 64, in turn with the others */
    int planes;  /* matrices whose sum an operand is, one behind the other; 0: it is one itself */
    int splits;  /* bf16 parts that the kernel makes of each f32 itself; 0: it multiplies what is there */
    int slices;  /* of a tile along k, each multiplied by warps of its own; 0: warps have all of k */
    int rescues; /* 1: computes what rows with planes refuse, see verdict_arguments */
    int plain;   /* 1: has an image for plain products, see kernels/gemm/wgmma_plain.h; 2: and no whole one */
    int any_d;  /* 1: D's columns may begin anywhere; 0: a row without a whole image wants them at 16 bytes */
    int finish; /* 1: has an image for scales, bias, an activation or a factor; 2: and no whole one */
    int sums;   /* 1: lacks a whole image, but has one for parts of k */
    int stream; /* 1: clusters may share tiles' steps evenly, see tensor_gemm_arguments */
    int early;  /* 1: waits by itself for the kernels before it, so that it may be launched before they end */
    int rung;   /* of the ladder, 1 and up */
    int b_transposed; /* ladder rung 3: B's tile is stored transposed */
    int vector; /* reduce: elements that a thread has, above each other, 0 being 1; of others only the kernel reads it */
    /* Constants that only the kernel itself reads; kept so that a row's numbers can be shown. */
    int warp_m;
    int warp_n;
    int thread_m;
    int thread_n;
    int lanes_m;    /* lanes of a warp along m, where each thread has elements of D of its own; else 0 */
    int transposes; /* 1: turns columns that lie across in shared memory, which its instruction does not read */
    int copy_parts;
    int band; /* tiles of m high in which a transpose walks its tiles */
    int min_blocks; /* blocks at once that the kernel was built for; with less shared memory than an H200's fewer may fit */
    int ops_per_round; /* ceilings: what a round is worth, see ceiling_arguments */
    int rate;          /* percent of its unit's ceiling that large problems reach, for the cost model */
    /* CUDA fat binaries; NULL in a build without nvcc, and where there is none: for everything, ... */
    const unsigned char *image;
    const unsigned char *image_end;
    const unsigned char *plain_image; /* ... for plain products, ... */
    const unsigned char *plain_image_end;
    const unsigned char *finish_image; /* ... the one that finishes sums, ... */
    const unsigned char *finish_image_end;
    const unsigned char *sums_image; /* ... and the one for bare sums, also of parts of k */
    const unsigned char *sums_image_end;
};

extern const struct kernel carat_catalog[];
extern const int carat_catalog_count;

/* The row of that name, or NULL. */
const struct kernel *catalog_find(const char *name);

/* Threads in a block of the kernel. */
int kernel_threads(const struct kernel *kernel);

#endif
