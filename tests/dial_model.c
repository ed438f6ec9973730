/* dial_model.c - see dial_model.h. */
#include "dial_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEAST_F32 = -149,      /* the exponent of the smallest denormal number */
    LEAST_EXPONENT = -100, /* smaller elements do not split into three bf16 without loss */
    FAR_APART = 64         /* exponents of one operand that short products are too rough for */
};

enum { PARTS = 3 };

/* Of `close`: the exponents of blocks that are scaled, where that puts them, and how far below counts as large. */
enum { BLOCK_LEAST = -50, BLOCK_MOST = 50, BLOCK_TOP = 14, LARGE = 6, EVIDENCE = 8, CLOSE_PARTS = 2 };

/* ---- Bits ---- */

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

static uint64_t bits_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof(bits));
    return bits;
}

static double double_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* 2^exponent, for exponents of normal doubles. */
static double power_of_two(int exponent) { return double_of((uint64_t)(exponent + 1023) << 52); }

/* The exponent of a double: INT_MIN-like for 0. */
static int exponent_of(double x) { return (int)(bits_of_double(x) >> 52 & 0x7ff) - 1023; }

/* The f32 next to x on the side of 0. */
static float cut_to_f32(double x)
{
    if (fabs(x) < 0x1p-126) {
        return (float)(trunc(x * 0x1p149) * 0x1p-149);
    }
    return (float)double_of(bits_of_double(x) & ~(uint64_t)0x1fffffff);
}

/* ---- The tensor unit ---- */

/* The accumulator plus the sum of so many products, all at once. */
static float add_at_once(const struct tensor_unit *unit, float accumulator, int count, const float *x,
                         const float *y)
{
    double products[UNIT_K];
    int largest = exponent_of(accumulator);
    for (int i = 0; i < count; i++) {
        products[i] = (double)x[i] * y[i];
    }
    if (unit->products_normal) {
        for (int i = 0; i < count; i++) {
            int exponent = exponent_of(products[i]);
            largest = exponent > largest ? exponent : largest;
        }
    } else {
        for (int i = 0; i < count; i++) {
            int exponent = products[i] == 0 ? -1023 : exponent_of(x[i]) + exponent_of(y[i]);
            largest = exponent > largest ? exponent : largest;
        }
    }
    if (largest == -1023) {
        return accumulator;
    }
    int last = largest - 23 - unit->extra_bits;
    double scale = power_of_two(-last);
    double sum = trunc(accumulator * scale);
    for (int i = 0; i < count; i++) {
        sum += trunc(products[i] * scale);
    }
    return cut_to_f32(sum * power_of_two(last));
}

float tensor_step(const struct tensor_unit *unit, float accumulator, const float x[UNIT_K],
                  const float y[UNIT_K])
{
    for (int i = 0; i < UNIT_K; i += unit->at_once) {
        accumulator = add_at_once(unit, accumulator, unit->at_once, x + i, y + i);
    }
    return accumulator;
}

/* ---- Parts ---- */

float round_to_bf16(float x)
{
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000;
    bool overflows = (rounded & 0x7f800000) == 0x7f800000;
    return float_of(overflows ? bits & 0xffff0000 : rounded);
}

void split_bf16(float x, float parts[3])
{
    parts[0] = round_to_bf16(x);
    parts[1] = round_to_bf16(x - parts[0]);
    parts[2] = round_to_bf16(x - parts[0] - parts[1]);
}

float round_to_f16(float x)
{
    double last = power_of_two(x == 0 || fabsf(x) < 0x1p-14f ? -24 : exponent_of(x) - 10);
    return (float)(nearbyint(x / last) * last);
}

void split_f16(float x, float parts[2])
{
    parts[0] = round_to_f16(x);
    parts[1] = round_to_f16(x - parts[0]);
}

/* Parts of a matrix, each vector of k in one piece and filled with zeros to whole steps of the unit. */
struct planes {
    int64_t vectors;
    int64_t k;
    float *parts; /* [part][vector][k] */
};

static const float *plane(const struct planes *planes, int part, int64_t vector, int64_t l)
{
    return planes->parts + ((int64_t)part * planes->vectors + vector) * planes->k + l;
}

/* Element l of vector v is at x[v * along + l * step]. */
static struct planes split_matrix(int64_t vectors, int64_t k, const float *x, int64_t along, int64_t step)
{
    struct planes planes = {vectors, (k + UNIT_K - 1) / UNIT_K * UNIT_K, NULL};
    planes.parts = calloc((size_t)(PARTS * vectors * planes.k), sizeof(*planes.parts));
    if (!planes.parts) {
        abort();
    }
    for (int64_t v = 0; v < vectors; v++) {
        for (int64_t l = 0; l < k; l++) {
            float parts[PARTS];
            split_bf16(x[v * along + l * step], parts);
            for (int part = 0; part < PARTS; part++) {
                planes.parts[((int64_t)part * vectors + v) * planes.k + l] = parts[part];
            }
        }
    }
    return planes;
}

/* ---- strict ---- */

/* One entry: row is a row of A, m apart; column is one of B. */
static float strict_entry(int64_t m, int64_t k, int64_t block, const float *row, const float *column)
{
    float sum = 0;
    float part = 0;
    for (int64_t l = 0; l < k; l++) {
        part = fmaf(row[l * m], column[l], part);
        if (block > 0 && (l + 1) % block == 0) {
            sum += part;
            part = 0;
        }
    }
    return sum + part;
}

void model_strict(int64_t m, int64_t n, int64_t k, int64_t block, const float *a, const float *b, float *c)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            c[i + j * m] = strict_entry(m, k, block, a + i, b + j * k);
        }
    }
}

/* ---- Compensated sums ---- */

/* A sum, and how much it is more than what was added to it. */
struct running_sum {
    float sum;
    float excess;
};

static void add(struct running_sum *running, float part)
{
    float added = part - running->excess;
    float next = running->sum + added;
    float excess = (next - running->sum) - added;
    running->excess = isfinite(excess) ? excess : 0;
    running->sum = next;
}

/* One entry by the row that rescues. */
static float rescued_entry(const struct dial *dial, int64_t m, int64_t k, const float *row,
                           const float *column)
{
    struct running_sum running = {0, 0};
    int64_t move = k < dial->rescue_moves_k ? k : dial->rescue_move;
    for (int64_t begin = 0; begin < k; begin += move) {
        float part = 0;
        for (int64_t l = begin; l < begin + move && l < k; l++) {
            part = fmaf(row[l * m], column[l], part);
        }
        add(&running, part);
    }
    return running.sum;
}

void model_rescue(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                  float *c)
{
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            c[i + j * m] = rescued_entry(dial, m, k, a + i, b + j * k);
        }
    }
}

/* ---- standard ---- */

/* The products of parts, small ones first. */
static const int six_products[6][2] = {{0, 2}, {1, 1}, {2, 0}, {0, 1}, {1, 0}, {0, 0}};

static float standard_entry(const struct dial *dial, const struct planes *a, const struct planes *b,
                            int64_t i, int64_t j)
{
    struct running_sum sums[MOST_CHAINS] = {{0, 0}};
    int chain = 0;
    int64_t move = dial->move > 0 ? dial->move : a->k;
    int64_t stretch = dial->order == ORDER_BY_STEP ? UNIT_K : move;
    for (int64_t begin = 0; begin < a->k; begin += move) {
        int64_t end = begin + move < a->k ? begin + move : a->k;
        float accumulator = 0;
        for (int64_t first = begin; first < end; first += stretch) {
            int64_t last = first + stretch < end ? first + stretch : end;
            for (int product = 0; product < 6; product++) {
                int part_a = six_products[product][0];
                int part_b = six_products[product][1];
                for (int64_t l = first; l < last; l += UNIT_K) {
                    accumulator =
                        tensor_step(&dial->unit, accumulator, plane(a, part_a, i, l), plane(b, part_b, j, l));
                }
            }
        }
        if (a->k >= dial->long_k) {
            add(&sums[chain], accumulator);
        } else {
            sums[chain].sum += accumulator;
        }
        chain = (chain + 1) % dial->chains;
    }
    for (chain = 1; chain < dial->chains; chain++) {
        sums[0].sum += sums[chain].sum;
    }
    return sums[0].sum;
}

/* Whether three bf16 may stand for a matrix: the kernels' own question, see kernels/common/verdict.h. */
static bool is_refused(const struct dial *dial, int64_t k, int64_t count, const float *x)
{
    int least = 127;
    int most = LEAST_F32;
    for (int64_t i = 0; i < count; i++) {
        if (x[i] != 0) {
            /* All denormal numbers have one exponent there, and what is not finite has the largest. */
            int exponent = isfinite(x[i]) ? ilogbf(x[i]) : 128;
            least = exponent < least ? exponent : least;
            most = exponent > most ? exponent : most;
        }
    }
    least = least < -127 ? -127 : least;
    return least < LEAST_EXPONENT || (k < dial->far_apart_k && most - least > FAR_APART);
}

bool standard_is_guarded(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a,
                         const float *b)
{
    return k < dial->least_k || is_refused(dial, k, m * k, a) || is_refused(dial, k, k * n, b);
}

void model_standard(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                    float *c)
{
    if (standard_is_guarded(dial, m, n, k, a, b)) {
        if (k < dial->least_k) {
            model_strict(m, n, k, 0, a, b, c);
        } else {
            model_rescue(dial, m, n, k, a, b, c);
        }
        return;
    }
    struct planes parts_a = split_matrix(m, k, a, 1, m);
    struct planes parts_b = split_matrix(n, k, b, k, 1);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            float sum = standard_entry(dial, &parts_a, &parts_b, i, j);
            c[i + j * m] = isfinite(sum) ? sum : rescued_entry(dial, m, k, a + i, b + j * k);
        }
    }
    free(parts_a.parts);
    free(parts_b.parts);
}

/* ---- close ---- */

/*
 * What a block of the split finds: the exponent of its largest element, and how many elements of k each vector has
 * within LARGE exponents of that, of the vector that has the fewest. Vectors of zeros do not count, but are noted.
 */
struct found {
    double scale; /* 2^exponent; 0: only zeros; infinity: it cannot be split */
    int64_t large;
    bool zeros;
};

/* One operand as blocks of BLOCK_SIDE vectors and so many k, the last of up to twice that. */
struct blocks {
    int64_t vectors;
    int64_t k;
    int64_t slices;
    struct found *found; /* [block of vectors][slice] */
    struct planes planes;
};

static int64_t slice_end(int64_t k, int64_t slices, int64_t slice)
{
    return slice + 1 == slices ? k : (slice + 1) * BLOCK_SIDE;
}

static int64_t least_of(int64_t x, int64_t y) { return x < y ? x : y; }

/* Element l of vector v is at x[v * along + l * step]. */
static struct found find_block(const struct blocks *blocks, const float *x, int64_t along, int64_t step,
                               int64_t first, int64_t slice)
{
    int64_t last = least_of(first + BLOCK_SIDE, blocks->vectors);
    int64_t begin = slice * BLOCK_SIDE;
    int64_t end = slice_end(blocks->k, blocks->slices, slice);
    float largest = 0;
    for (int64_t v = first; v < last; v++) {
        for (int64_t l = begin; l < end; l++) {
            float magnitude = fabsf(x[v * along + l * step]);
            largest = magnitude > largest || isnan(magnitude) ? magnitude : largest;
        }
    }
    if (largest == 0) {
        return (struct found){0, end - begin, true};
    }
    int exponent = isfinite(largest) ? exponent_of(largest) : 1024;
    if (exponent < BLOCK_LEAST || exponent > BLOCK_MOST) {
        return (struct found){INFINITY, 0, false};
    }
    struct found found = {power_of_two(exponent), end - begin, false};
    for (int64_t v = first; v < last; v++) {
        int64_t large = 0;
        bool zero = true;
        for (int64_t l = begin; l < end; l++) {
            float magnitude = fabsf(x[v * along + l * step]);
            large += magnitude >= power_of_two(exponent - LARGE);
            zero = zero && magnitude == 0;
        }
        found.large = !zero && large < found.large ? large : found.large;
        found.zeros |= zero;
    }
    return found;
}

static struct blocks block_matrix(int64_t vectors, int64_t k, const float *x, int64_t along, int64_t step)
{
    struct blocks blocks = {.vectors = vectors, .k = k, .slices = k < BLOCK_SIDE ? 1 : k / BLOCK_SIDE};
    blocks.planes = (struct planes){vectors, (k + UNIT_K - 1) / UNIT_K * UNIT_K, NULL};
    int64_t count = (vectors + BLOCK_SIDE - 1) / BLOCK_SIDE * blocks.slices;
    blocks.found = calloc((size_t)count, sizeof(*blocks.found));
    blocks.planes.parts =
        calloc((size_t)(CLOSE_PARTS * vectors * blocks.planes.k), sizeof(*blocks.planes.parts));
    if (!blocks.found || !blocks.planes.parts) {
        abort();
    }
    for (int64_t at = 0; at < count; at++) {
        int64_t first = at / blocks.slices * BLOCK_SIDE;
        int64_t slice = at % blocks.slices;
        struct found found = find_block(&blocks, x, along, step, first, slice);
        blocks.found[at] = found;
        for (int64_t v = first; v < least_of(first + BLOCK_SIDE, vectors) && isfinite(found.scale); v++) {
            for (int64_t l = slice * BLOCK_SIDE; l < slice_end(k, blocks.slices, slice); l++) {
                float parts[CLOSE_PARTS];
                double lifted =
                    found.scale == 0 ? 0 : x[v * along + l * step] / found.scale * (1 << BLOCK_TOP);
                split_f16((float)lifted, parts);
                for (int64_t part = 0; part < CLOSE_PARTS; part++) {
                    blocks.planes.parts[(part * vectors + v) * blocks.planes.k + l] = parts[part];
                }
            }
        }
    }
    return blocks;
}

static void blocks_free(struct blocks *blocks)
{
    free(blocks->found);
    free(blocks->planes.parts);
}

static const struct found *found_in(const struct blocks *blocks, int64_t vector, int64_t slice)
{
    return &blocks->found[vector / BLOCK_SIDE * blocks->slices + slice];
}

/* Whether what elements next to 0 lose might count: see kernels/common/blocks.h. */
static bool is_thin(const struct blocks *a, const struct blocks *b, int64_t row, int64_t column)
{
    double margin = 0;
    for (int64_t slice = 0; slice < a->slices; slice++) {
        const struct found *of_a = found_in(a, row, slice);
        const struct found *of_b = found_in(b, column, slice);
        int64_t count = slice_end(a->k, a->slices, slice) - slice * BLOCK_SIDE;
        int64_t common = of_a->large + of_b->large - count;
        int64_t of_slice = EVIDENCE * (common > 0 ? common : 0) - count;
        /* Entries whose row or column is zero there have nothing of what remains. */
        of_slice = of_a->zeros || of_b->zeros ? least_of(of_slice, 0) : of_slice;
        margin += (double)of_slice * of_a->scale * of_b->scale;
    }
    return !(margin >= 0);
}

bool close_is_guarded(const struct dial *dial, int64_t m, int64_t n, int64_t k, const float *a,
                      const float *b, int64_t row, int64_t column)
{
    if (k < dial->least_k) {
        return true;
    }
    struct blocks blocks_a = block_matrix(m, k, a, 1, m);
    struct blocks blocks_b = block_matrix(n, k, b, k, 1);
    bool thin = is_thin(&blocks_a, &blocks_b, row, column);
    blocks_free(&blocks_a);
    blocks_free(&blocks_b);
    return thin;
}

/* The products of parts, small ones first; a move lies in one slice. */
static const int three_products[3][2] = {{0, 1}, {1, 0}, {0, 0}};

static float close_entry(const struct dial *dial, const struct blocks *a, const struct blocks *b, int64_t i,
                         int64_t j)
{
    float sum = 0;
    float accumulator = 0;
    bool in_pairs = dial->pairs_k > 0 && a->k >= dial->pairs_k;
    for (int64_t begin = 0; begin < a->planes.k; begin += dial->move) {
        int64_t end = least_of(begin + dial->move, a->planes.k);
        int64_t slice = least_of(begin / BLOCK_SIDE, a->slices - 1);
        for (int product = 0; product < 3; product++) {
            for (int64_t l = begin; l < end; l += UNIT_K) {
                accumulator =
                    tensor_step(&dial->unit, accumulator, plane(&a->planes, three_products[product][0], i, l),
                                plane(&b->planes, three_products[product][1], j, l));
            }
        }
        if (in_pairs && begin / dial->move % 2 == 0 && end < a->planes.k) {
            continue;
        }
        double factor = found_in(a, i, slice)->scale * found_in(b, j, slice)->scale;
        sum = fmaf(accumulator, (float)(factor / (1 << 2 * BLOCK_TOP)), sum);
        accumulator = 0;
    }
    return sum;
}

void model_close(const struct dial *dial, const struct dial *safe, int64_t m, int64_t n, int64_t k,
                 const float *a, const float *b, float *c)
{
    model_standard(safe, m, n, k, a, b, c);
    if (k < dial->least_k) {
        return;
    }
    struct blocks blocks_a = block_matrix(m, k, a, 1, m);
    struct blocks blocks_b = block_matrix(n, k, b, k, 1);
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            if (!is_thin(&blocks_a, &blocks_b, i, j)) {
                float sum = close_entry(dial, &blocks_a, &blocks_b, i, j);
                c[i + j * m] = isfinite(sum) ? sum : c[i + j * m];
            }
        }
    }
    blocks_free(&blocks_a);
    blocks_free(&blocks_b);
}

/* ---- The reference ---- */

/* Products of f32 are exact in f64; their sum is kept with all its rounding errors beside it. */
struct model_errors model_compare(int64_t m, int64_t n, int64_t k, const float *a, const float *b,
                                  const float *c)
{
    struct model_errors errors = {0, 0, 0};
    int64_t counted = 0;
    for (int64_t j = 0; j < n; j++) {
        for (int64_t i = 0; i < m; i++) {
            double sum = 0;
            double rest = 0;
            double magnitude = 0;
            for (int64_t l = 0; l < k; l++) {
                double product = (double)a[i + l * m] * b[l + j * k];
                double next = sum + product;
                double taken = next - sum;
                rest += (sum - (next - taken)) + (product - taken);
                sum = next;
                magnitude += fabs(product);
            }
            double difference = fabs((c[i + j * m] - sum) - rest);
            errors.different += c[i + j * m] != (float)(sum + rest);
            if (magnitude > 0) {
                double error = difference / magnitude;
                errors.most = error > errors.most || isnan(error) ? error : errors.most;
                errors.mean += error;
                counted++;
            }
        }
    }
    errors.mean /= counted > 0 ? (double)counted : 1;
    return errors;
}
