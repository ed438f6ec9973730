/*
 * square.h - the pieces of a transpose: squares of PACK x PACK elements that a thread turns over in its
 * registers, and the way of tiles that are not aligned.
 */
#ifndef CARAT_MEMORY_SQUARE_H
#define CARAT_MEMORY_SQUARE_H

#if ELEMENT_BYTES == 1
typedef uint8_t unit;
#elif ELEMENT_BYTES == 2
typedef uint16_t unit;
#elif ELEMENT_BYTES == 4
typedef uint32_t unit;
#elif ELEMENT_BYTES == 8
typedef uint64_t unit;
#endif

#define PACK (16 / ELEMENT_BYTES) /* elements in the 16 bytes of one access */
#define PACKS_M (TILE_M / PACK)   /* packs down a column of the tile */
#define PACKS_N (TILE_N / PACK)   /* packs along a row of it, once it is turned over */

typedef struct pack {
    uint32_t word[4];
} pack;

/* Whole packs move as uint4, which the compiler keeps in one access. */
static __device__ inline pack load_pack(const uint4 *from)
{
    uint4 words = *from;
    pack pack = {{words.x, words.y, words.z, words.w}};
    return pack;
}

static __device__ inline void store_pack(uint4 *to, pack pack)
{
    *to = make_uint4(pack.word[0], pack.word[1], pack.word[2], pack.word[3]);
}

static __device__ inline void swap_words(uint32_t *x, uint32_t *y)
{
    uint32_t was = *x;
    *x = *y;
    *y = was;
}

/*
 * Turns a square over: square[c] holds column c, and afterwards row c. Elements that share a word go
 * first, in their small squares of PER_WORD x PER_WORD, by picking bytes out of word pairs; then the
 * words change places, which costs nothing: registers only change their names.
 */
#if ELEMENT_BYTES == 8

static __device__ inline void turn_over(pack square[PACK])
{
    swap_words(&square[0].word[2], &square[1].word[0]);
    swap_words(&square[0].word[3], &square[1].word[1]);
}

#else

#define PER_WORD (4 / ELEMENT_BYTES)

/* The small square of word w in the columns from `first` on. */
static __device__ inline void turn_small_square(pack square[PACK], int first, int w)
{
#if PER_WORD == 2
    uint32_t x = square[first].word[w];
    uint32_t y = square[first + 1].word[w];
    square[first].word[w] = __byte_perm(x, y, 0x5410);     /* the lower halves */
    square[first + 1].word[w] = __byte_perm(x, y, 0x7632); /* the upper halves */
#elif PER_WORD == 4
    uint32_t low_01 = __byte_perm(square[first].word[w], square[first + 1].word[w], 0x5140);  /* 0 0 1 1 */
    uint32_t high_01 = __byte_perm(square[first].word[w], square[first + 1].word[w], 0x7362); /* 2 2 3 3 */
    uint32_t low_23 = __byte_perm(square[first + 2].word[w], square[first + 3].word[w], 0x5140);
    uint32_t high_23 = __byte_perm(square[first + 2].word[w], square[first + 3].word[w], 0x7362);
    square[first].word[w] = __byte_perm(low_01, low_23, 0x5410);
    square[first + 1].word[w] = __byte_perm(low_01, low_23, 0x7632);
    square[first + 2].word[w] = __byte_perm(high_01, high_23, 0x5410);
    square[first + 3].word[w] = __byte_perm(high_01, high_23, 0x7632);
#else
    (void)square;
    (void)first;
    (void)w;
#endif
}

static __device__ inline void turn_over(pack square[PACK])
{
#pragma unroll
    for (int first = 0; first < PACK; first += PER_WORD) {
#pragma unroll
        for (int w = 0; w < 4; w++) {
            turn_small_square(square, first, w);
        }
    }
#pragma unroll
    for (int p = 0; p < 4; p++) {
#pragma unroll
        for (int w = p + 1; w < 4; w++) {
#pragma unroll
            for (int r = 0; r < PER_WORD; r++) {
                swap_words(&square[PER_WORD * p + r].word[w], &square[PER_WORD * w + r].word[p]);
            }
        }
    }
}

#endif

/* The tile of a block: its first row and column in A, and how far it reaches. */
typedef struct tile {
    int64_t row;
    int64_t column;
    int32_t rows; /* at most TILE_M */
    int32_t columns;
} tile;

/*
 * Tiles are walked in bands of BAND tiles of m high, down a band's first column of tiles, then its
 * second. What runs at once is then about square: long runs of columns in both matrices.
 */
static __device__ inline tile tile_of_block(const transpose_arguments *arguments)
{
    /* A grid has fewer than 2^31 blocks, so that 32 bits do, whose divisions are quicker. */
    uint32_t tiles_m = (uint32_t)arguments->tiles_m;
    uint32_t tiles_n = (uint32_t)arguments->tiles_n;
    uint32_t band = BAND < tiles_m ? BAND : tiles_m;
    uint32_t first = blockIdx.x / (band * tiles_n) * band;
    uint32_t height = tiles_m - first < band ? tiles_m - first : band;
    uint32_t within = blockIdx.x - first * tiles_n;

    tile tile;
    tile.row = (int64_t)(first + within % height) * TILE_M;
    tile.column = (int64_t)(within / height) * TILE_N;
    int64_t rows = arguments->m - tile.row;
    int64_t columns = arguments->n - tile.column;
    tile.rows = (int32_t)(rows < TILE_M ? rows : TILE_M);
    tile.columns = (int32_t)(columns < TILE_N ? columns : TILE_N);
    return tile;
}

/* Whether the tile is made of whole squares at 16-byte boundaries of both matrices. */
static __device__ inline int is_aligned(const transpose_arguments *arguments, const tile *tile)
{
    return (uintptr_t)arguments->a % 16 == 0 && (uintptr_t)arguments->b % 16 == 0 &&
           arguments->lda % PACK == 0 && arguments->ldb % PACK == 0 && tile->rows % PACK == 0 &&
           tile->columns % PACK == 0;
}

/*
 * Any tile, element by element, by way of shared memory. Element (i, j) lies in line j, which is at least
 * 128 bytes long, and in it in the word i * ELEMENT_BYTES / 4 with its number's lower bits turned by j
 * (exclusive or). Banks are words modulo 32, so
 *
 *     writing: a warp has one j and consecutive i: consecutive words, in another order: no conflict
 *     reading: a warp has one i and 32 consecutive j: 32 different words: no conflict
 *
 * and likewise for 8-byte elements, of which the 16 threads of half a warp are served at a time.
 */
#define WIDE (ELEMENT_BYTES < 4 ? 4 : ELEMENT_BYTES)
#define SPAN_M (THREADS_X < TILE_M ? THREADS_X : TILE_M) /* rows that the block loads at a time */
#define SPAN_N (THREADS_X < TILE_N ? THREADS_X : TILE_N) /* columns that it stores at a time */
#define STEP_N (THREADS_X / SPAN_M)                      /* columns that it loads at a time */
#define STEP_M (THREADS_X / SPAN_N)                      /* rows that it stores at a time */

/* Loads that a thread has on the way: more of the narrow ones. */
#define MOST_AT_ONCE (ELEMENT_BYTES < 4 ? 16 : 8)
#define AT_ONCE (TILE_N / STEP_N < MOST_AT_ONCE ? TILE_N / STEP_N : MOST_AT_ONCE)

static_assert(TILE_M * ELEMENT_BYTES % 128 == 0, "lines of whole 128 bytes");
static_assert(THREADS_X % SPAN_M == 0 && THREADS_X % SPAN_N == 0, "the threads stand in a rectangle");

static __device__ inline unit *staged_element(unsigned char *staged, int32_t i, int32_t j)
{
    return (unit *)(staged + j * TILE_M * ELEMENT_BYTES + ((i * ELEMENT_BYTES) ^ (j % (128 / WIDE) * WIDE)));
}

/* Loads the tile's row i, a column every STEP_N. */
static __device__ inline void load_row(const transpose_arguments *arguments, const tile *tile, int32_t i,
                                       unsigned char *staged)
{
    for (int32_t first = (int32_t)threadIdx.x / SPAN_M; first < tile->columns; first += AT_ONCE * STEP_N) {
        const unit *a = (const unit *)arguments->a + tile->row + i + (tile->column + first) * arguments->lda;
        unit elements[AT_ONCE];
#pragma unroll
        for (int32_t u = 0; u < AT_ONCE; u++) {
            if (first + u * STEP_N < tile->columns) {
                elements[u] = *a;
            }
            a += STEP_N * arguments->lda;
        }
#pragma unroll
        for (int32_t u = 0; u < AT_ONCE; u++) {
            if (first + u * STEP_N < tile->columns) {
                *staged_element(staged, i, first + u * STEP_N) = elements[u];
            }
        }
    }
}

static __device__ inline void load_elements(const transpose_arguments *arguments, const tile *tile,
                                            unsigned char *staged)
{
    for (int32_t i = (int32_t)threadIdx.x % SPAN_M; i < tile->rows; i += SPAN_M) {
        load_row(arguments, tile, i, staged);
    }
}

static __device__ inline void store_elements(const transpose_arguments *arguments, const tile *tile,
                                             unsigned char *staged)
{
    unit *b = (unit *)arguments->b + tile->column + tile->row * arguments->ldb;
    for (int32_t j = (int32_t)threadIdx.x % SPAN_N; j < tile->columns; j += SPAN_N) {
#pragma unroll 4
        for (int32_t i = (int32_t)threadIdx.x / SPAN_N; i < tile->rows; i += STEP_M) {
            b[j + i * arguments->ldb] = *staged_element(staged, i, j);
        }
    }
}

#endif
