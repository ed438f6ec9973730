/*
 * What the host hands to kernels: one plain structure a launch, the same bytes on both sides. It is
 * C for the host compiler and for nvcc alike.
 *
 * Everything here is in the canonical form: column-major, one problem or a strided batch,
 *
 *     D (m x n) = alpha * op(A) (m x k) * op(B) (k x n) + beta * C (m x n)
 *
 * with leading dimensions and strides in elements.
 */
#ifndef CARAT_KERNELS_ARGUMENTS_H
#define CARAT_KERNELS_ARGUMENTS_H

#include <stdint.h>

/* A scalar: where device is not NULL it is read there when the kernel runs, else it is value. */
typedef struct scalar_argument {
    const void *device;
    union {
        float f32;
        double f64;
        int32_t s32;
    } value;
} scalar_argument;

/*
 * What becomes of a finished sum:
 *
 *     D = round(scale_d * act(alpha * scale_a * scale_b * sum + beta * C + bias))
 *
 * A row with EPILOGUE=1 does all of that as these fields say. Any other row knows only D = round(alpha * sum +
 * beta * C) with C and D of its own type; for all else it stores its bare sums to partials, and a
 * reduce kernel goes on from there.
 */
typedef struct epilogue_arguments {
    const void *bias;        /* NULL: none */
    scalar_argument scale_a; /* f32, 1 where the caller gave none */
    scalar_argument scale_b;
    scalar_argument scale_d;
    int64_t stride_bias;  /* in elements, from one problem's bias to the next */
    int32_t bias_type;    /* ELEMENT_... */
    int32_t bias_along_n; /* 0: bias[i] goes to row i; 1: bias[j] goes to column j */
    int32_t activation;   /* ACTIVATION_... */
    int32_t result_type;  /* ELEMENT_... of C and D */
} epilogue_arguments;

/* What the blocks of a split say, for who multiplies next: see kernels/common/verdict.h and blocks.h. */
typedef struct verdict_arguments {
    const uint32_t *words;
    uint32_t *spoiled; /* of each part of D: not 0 where the product has left it alone */
    const uint32_t
        *earlier;   /* the same of a product before, whose leavings alone are computed; NULL: all of D is */
    uint32_t *left; /* not 0 where a product of two planes has left anything; NULL: there was none */
    unsigned long long *count_left; /* such a product adds how many elements of D it has left */
    int32_t count_a;                /* of A's blocks, which are the first */
    int32_t count;                  /* of all; 0: nothing is refused as a whole */
    int32_t short_k;                /* 1: operands whose exponents are far apart are refused too */
    int32_t spoiled_rows;           /* of D, of which a word of `spoiled` and of `earlier` speaks */
    int32_t slices;                 /* of k, that blocks of two planes have */
    int32_t long_k;                 /* 1: rows that can compensate the sums that they move */
} verdict_arguments;

/*
 * Blocks stand in one line, blockIdx.x = tile + tiles * (part + parts * problem): tiles_m * tiles_n
 * tiles of D, then the parts of K (1 unless K is split), then the problems of the batch.
 *
 * Part p sums k in [p * k_per_part, (p + 1) * k_per_part). Where partials is not NULL (always with parts > 1) it
 * stores its sums, in the accumulator's type and without alpha, at
 * partials[((problem * parts + p) * n + j) * m + i], and D is left alone.
 */
typedef struct gemm_arguments {
    int64_t m;
    int64_t n;
    int64_t k;
    const void *a;
    const void *b;
    const void *c;
    void *d;
    int64_t lda;
    int64_t ldb;
    int64_t ldc;
    int64_t ldd;
    int64_t stride_a;
    int64_t stride_b;
    int64_t stride_c;
    int64_t stride_d;
    scalar_argument alpha;
    scalar_argument beta;
    int32_t trans_a; /* 0: A is stored m x k; 1: k x m */
    int32_t trans_b; /* 0: B is stored k x n; 1: n x k */
    int32_t tiles_m;
    int32_t tiles_n;
    int32_t parts;
    int32_t tiles; /* of all parts and problems together: of rows whose blocks are persistent */
    int64_t k_per_part;
    void *partials;
    epilogue_arguments epilogue;
    verdict_arguments verdict; /* what rows with PLANES leave alone, and rows with RESCUES compute */
} gemm_arguments;

/* A tensor map: how the copy engine sees a matrix. The driver makes it; only the engine reads it. */
typedef struct tensor_map {
    uint64_t words[16];
} __attribute__((aligned(64))) tensor_map;

/*
 * For rows with TENSOR_MAPS=1, whose tiles the copy engine moves. Each map has three dimensions: along the
 * columns, across them, and the problems of the batch (of d, where partials is set: the parts of all problems).
 * Boxes are 128 bytes wide under the 128-byte swizzle:
 *
 *     a    128 bytes x BOX_A, where BOX_A rows (op(A) along k) or TILE_K k (along m) make a box
 *     b    the same of B
 *     d    128 bytes along m x BOX_D columns; not valid, and not used, where d_by_map is 0
 *
 * Rows with PLANES have so many problems of a and b for each of the batch, the planes of that; boxes are TILE_K elements of
 * k wide, under the 64-byte swizzle where that is 64 bytes, or 128 bytes across it.
 *
 * A cluster's tile is CLUSTER / K_SHARERS tiles: so many over ROW_SHARERS side by side along n where SWAPPED is 1, else along m, and
 * ROW_SHARERS (1) the other way; tiles_m and tiles_n count those. With K_SHARERS over 1 there is a cluster for each. Else blocks are
 * persistent: gridDim.x is what fits the device at most, a multiple of CLUSTER, and the clusters go on from tile to tile in the
 * order that blockIdx.x would have, see
 * gemm_arguments.
 *
 * Rows with STREAM=1 may have the first stream_tiles tiles summed by all clusters in equal shares ("stream-K"): their
 * steps of TILE_K, tile after tile, are one line of stream_tiles * ceil(k / TILE_K), of which cluster c of C has
 * [c * steps / C, (c + 1) * steps / C). Who has a tile's last step finishes it; the sums of those who have its
 * other steps come by way of stream_sums, TILE_M * TILE_N for each block, which says so in its CONSUMERS stream_flags
 * by stream_token. The flags may hold anything but the token before, and do not hold it afterwards. No share is empty,
 * and parts is 1. Clusters wait for those of lower number: blocks have to begin in their order, as they do.
 *
 * Where pace is not 0 it is a number of this launch, of PACE_CLUSTERS clusters at most, that stay close to each other: see
 * gemm/wgmma_pace.h.
 */
#define PACE_CLUSTERS 256

typedef struct tensor_gemm_arguments {
    tensor_map a;
    tensor_map b;
    tensor_map d;
    /*
     * What a block asks before its first load and behind its last product, some of it in gemm too: 64 bytes of constant memory,
     * which no cache holds when a kernel begins, come at once. over_tiles_m is 2^63 / tiles_m, rounded up: x / tiles_m is
     * x * over_tiles_m / 2^63, for x below 2^31; over_tiles_n the same of tiles_n.
     */
    uint64_t over_tiles_m;
    uint64_t over_tiles_n;
    int32_t tiles; /* of all clusters, parts and problems together */
    int32_t tiles_m;
    int32_t tiles_n;
    uint32_t k;
    uint32_t k_per_part;
    int32_t parts;
    int32_t problems_a; /* 0: all problems have one A; 1: each its own */
    int32_t problems_b;
    int32_t stream_tiles; /* 0: every tile is summed by one cluster */
    uint32_t pace;        /* 0: every cluster goes on as it can */
    int32_t d_by_map;
    int32_t unused;
    gemm_arguments gemm;
    uint64_t stream_token;
    float *stream_sums;
    uint64_t *stream_flags;
} tensor_gemm_arguments;

/*
 * Adds the parts of a split K in a fixed order and applies alpha and beta: D from partials. One
 * thread an element of D, in one line over m * n * batch: launch ceil(m * n * batch / THREADS_X) blocks. Of a row with
 * VECTOR one thread has so many, of which m is a multiple, and partials lie at a multiple of their bytes.
 */
typedef struct reduce_arguments {
    int64_t m;
    int64_t n;
    int64_t batch;
    const void *partials;
    const void *c;
    void *d;
    int64_t ldc;
    int64_t ldd;
    int64_t stride_c;
    int64_t stride_d;
    scalar_argument alpha;
    scalar_argument beta;
    int32_t parts;
    int32_t unused;
    epilogue_arguments epilogue;
} reduce_arguments;

/*
 * One operand of a pack: rows x columns, ld apart, go to columns_to columns of ld_to elements (a multiple of 128
 * bytes) without gaps, zero where there is nothing to copy; where turned is 1, the transpose of them does. With
 * stride 0 all problems share one matrix, and problems is 1.
 *
 * Blocks: turned, one for each of tiles_m * tiles_n * problems tiles, TILE_M x TILE_N of the columns_to x ld_to elements
 * that are read, or, where these are bytes, and `from`, ld and stride multiples of 16, any number up
 * to that; else ceil(packs / (THREADS_X * rounds)), where packs = columns_to * ld_to * problems elements of 16 bytes
 * together, and rounds are what each thread takes of them, one or more; of rows that convert 4.
 */
typedef struct pack_operand {
    const void *from;
    void *to;
    int64_t rows;
    int64_t columns;
    int64_t ld;
    int64_t stride;
    int64_t columns_to;
    int64_t ld_to;
    int64_t problems;
    int32_t tiles_m;
    int32_t tiles_n;
    int32_t turned;
    int32_t type; /* ELEMENT_..., where it becomes another */
    int32_t rounds;
    int32_t unused;
} pack_operand;

/*
 * The operands of a product, copied as its kernel wants them: see kernels/memory/pack.cu. The first
 * blocks_a blocks are a's, which may be either operand, the rest b's. Where alpha is 0 nothing is read.
 */
typedef struct pack_arguments {
    pack_operand a;
    pack_operand b;
    scalar_argument alpha;
    int32_t blocks_a;
    int32_t result_type; /* of D, which says what alpha's is */
} pack_arguments;

/*
 * One operand of a split: rows x columns of f32, ld apart, as PLANES planes of 16 bits of columns_to columns of ld_to
 * elements (a multiple of 64), zero where there is nothing to split. Plane p of a problem begins (PLANES * problem + p) *
 * columns_to * ld_to elements behind `to`, without gaps. With stride 0 all problems share one matrix, and problems is 1.
 */
typedef struct split_operand {
    const void *from;
    void *to; /* at a multiple of 16 bytes */
    int64_t rows;
    int64_t columns;
    int64_t ld;
    int64_t stride;
    int64_t columns_to;
    int64_t ld_to;
    int64_t problems;
    int32_t along_k; /* columns run along k; only two planes are split differently then */
    int32_t unused;
} split_operand;

/*
 * The operands of a product in parts. The first blocks_a blocks are A's, the rest B's. Each writes a word of verdicts.
 * Where alpha, f32, is 0 nothing is read.
 *
 * PLANES=3, kernels/memory/split.cu: blocks stride over columns_to * ld_to / 8 * problems strips, one a thread, so any
 * number of blocks from 1 an operand up is right; no more than MIN_BLOCKS a multiprocessor for both together are at work
 * at once, nor should be launched. Where alpha is 0, or left is not NULL and 0, all words are 0 and nothing is read.
 *
 * PLANES=2, kernels/memory/split_f16.cu: ld_to is rows in whole multiples of 64, and columns_to is columns. A block of
 * threads each block of the operand (see kernels/common/blocks.h): slices of k, by 64 rows of op(A) or columns of op(B),
 * by the problems. The first sets left to 0.
 */
typedef struct split_arguments {
    split_operand a;
    split_operand b;
    scalar_argument alpha;
    uint32_t *verdicts; /* as many as there are blocks */
    uint32_t *left;     /* of verdict_arguments */
    int32_t blocks_a;
    int32_t slices;
} split_arguments;

/*
 * B = scale * A + shift over m x n, both column-major; b == a with ldb == lda is allowed.
 *
 * Launch with ceil(m * n / TILE_M) blocks of the row, at most as many as a grid can have. That is for
 * speed only: the blocks stride over the tiles, so any number of them from 1 up gives the right
 * answer, and the kernel itself sees where the matrices are one long column.
 */
typedef struct scale_add_arguments {
    int64_t m;
    int64_t n;
    const void *a;
    void *b;
    int64_t lda;
    int64_t ldb;
    scalar_argument scale;
    scalar_argument shift;
} scale_add_arguments;

/*
 * B (n x m) = transpose of A (m x n), both column-major: B(j, i) = A(i, j). Any alignment.
 *
 * Launch with tiles_m * tiles_n blocks: tiles_m = ceil(m / TILE_M), tiles_n = ceil(n / TILE_N).
 */
typedef struct transpose_arguments {
    int64_t m;
    int64_t n;
    const void *a;
    void *b;
    int64_t lda;
    int64_t ldb;
    int32_t tiles_m;
    int32_t tiles_n;
} transpose_arguments;

/*
 * The loops that measure a device's limits (kernels/ceiling/). A row's OPS_PER_ROUND says what one
 * round is worth. Two kinds of row, told apart by ELEMENT_BYTES:
 *
 * ELEMENT_BYTES 0: an instruction loop. count is the rounds each thread makes; launch MIN_BLOCKS
 *     blocks a multiprocessor, and
 *         operations = blocks * threads of a block * count * OPS_PER_ROUND
 *     (a multiply-add is two operations). from is not read; to takes 8 bytes a thread.
 *
 * ELEMENT_BYTES 16: memory traffic. count is the elements of 16 bytes to move, and
 *         bytes moved = count * OPS_PER_ROUND   (32 for a copy: read and written; 16 for a read)
 *     With TILE_M set launch ceil(count / TILE_M) blocks, else MIN_BLOCKS blocks a multiprocessor (any
 *     number from 1 up is right). from and to are 16-byte aligned; to takes count elements of a copy,
 *     and 4 bytes a thread of a read: the exclusive or of the words that the thread has read.
 *
 * Move far more bytes than the L2 cache holds, and run once before timing.
 */
typedef struct ceiling_arguments {
    const void *from;
    void *to;
    int64_t count;
} ceiling_arguments;

#endif
