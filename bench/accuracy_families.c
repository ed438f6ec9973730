/* accuracy_families.c - see accuracy_families.h. */
#include "accuracy_families.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "generate.h"
#include "share.h"
#include "status.h"

/* What is drawn from one seed: each kind of number needs a stream of its own. */
enum stream { STREAM_A, STREAM_B, STREAM_A_MORE, STREAM_B_MORE, STREAM_K, STREAMS };

enum {
    INTEGERS_MOST = 1000,
    SMALL_MOST = 8,
    EXPONENTS_MOST = 60,
    SCALE_MOST = 40,
    HUGE_EXPONENT = 20,
    DENORMAL_A_EXPONENT = -132,
    DENORMAL_B_EXPONENT = 30
};

static const struct {
    const char *name;
    bool easy;
    bool exact;
} families[ACCURACY_FAMILIES] = {
    [ACCURACY_NORMAL] = {"normal", true, false},
    [ACCURACY_UNIFORM] = {"uniform", true, false},
    [ACCURACY_POSITIVE] = {"positive", true, false},
    [ACCURACY_INTEGERS] = {"integers", true, false},
    [ACCURACY_ORTHOGONAL] = {"orthogonal", true, false},
    [ACCURACY_SPREAD] = {"spread", false, false},
    [ACCURACY_EXPONENTS] = {"exponents", false, false},
    [ACCURACY_SCALED] = {"scaled", false, false},
    [ACCURACY_HUGE] = {"huge", false, false},
    [ACCURACY_DENORMALS] = {"denormals", false, false},
    [ACCURACY_HILBERT] = {"hilbert", false, false},
    [ACCURACY_VANDERMONDE] = {"vandermonde", false, false},
    [ACCURACY_IDENTITY] = {"identity", false, true},
    [ACCURACY_PERMUTATION] = {"permutation", false, true},
    [ACCURACY_ONE_HOT] = {"one-hot", false, true},
    [ACCURACY_SMALL] = {"small", false, true},
};

const char *accuracy_family_name(enum accuracy_family family) { return families[family].name; }

enum accuracy_family accuracy_family_find(const char *name)
{
    int family = 0;
    while (family < ACCURACY_FAMILIES && strcmp(families[family].name, name) != 0) {
        family++;
    }
    return (enum accuracy_family)family;
}

bool accuracy_family_easy(enum accuracy_family family) { return families[family].easy; }

bool accuracy_family_exact(enum accuracy_family family) { return families[family].exact; }

static uint64_t stream_seed(uint64_t seed, enum stream stream) { return seed * STREAMS + (uint64_t)stream; }

/* Where u of [-1, 1] lies among the whole numbers from -most to most. */
static int whole(double u, int most) { return (int)fmin(most, fmax(-most, floor(u * (most + 0.5) + 0.5))); }

static float spread(float x, float y) { return (float)(x * exp(2 * (double)y)); }

/* ---- Transposing ---- */

struct turn {
    int64_t rows;
    int64_t columns;
    const float *from;
    float *to;
};

/* For some blocks of rows, which become blocks of columns: a line of the cache is then used up while it is there. */
enum { TURN_BLOCK = 64 };

static void turn_blocks(const void *context, int64_t begin, int64_t end)
{
    const struct turn *turn = (const struct turn *)context;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * TURN_BLOCK;
        int64_t last = first + TURN_BLOCK < turn->rows ? first + TURN_BLOCK : turn->rows;
        for (int64_t j = 0; j < turn->columns; j++) {
            for (int64_t i = first; i < last; i++) {
                turn->to[j + i * turn->columns] = turn->from[i + j * turn->rows];
            }
        }
    }
}

void accuracy_transpose(int64_t rows, int64_t columns, const float *from, float *to)
{
    share_out((rows + TURN_BLOCK - 1) / TURN_BLOCK, TURN_BLOCK * columns, turn_blocks,
              &(struct turn){rows, columns, from, to});
}

/* ---- Matrices whose elements are drawn one by one ---- */

/* How drawn numbers become an element: x of the first stream, y of the second (0 where there is none). */
static float element(enum accuracy_family family, float x, float y)
{
    switch (family) {
    case ACCURACY_POSITIVE:
        return fabsf(x);
    case ACCURACY_INTEGERS:
        return (float)whole(x, INTEGERS_MOST);
    case ACCURACY_SMALL:
        return (float)whole(x, SMALL_MOST);
    case ACCURACY_SPREAD:
        return spread(x, y);
    case ACCURACY_EXPONENTS:
        return ldexpf(copysignf(1 + fabsf(x), x), whole(y, EXPONENTS_MOST));
    default:
        return x;
    }
}

static bool is_even(enum accuracy_family family)
{
    return family == ACCURACY_UNIFORM || family == ACCURACY_POSITIVE || family == ACCURACY_INTEGERS ||
           family == ACCURACY_SMALL || family == ACCURACY_EXPONENTS;
}

struct drawn {
    enum accuracy_family family;
    float *elements;
    const float *more; /* of the second stream; NULL: there is none */
};

static void make_elements(const void *context, int64_t begin, int64_t end)
{
    const struct drawn *drawn = (const struct drawn *)context;
    for (int64_t i = begin; i < end; i++) {
        drawn->elements[i] = element(drawn->family, drawn->elements[i], drawn->more ? drawn->more[i] : 0);
    }
}

static carat_status fill_drawn(enum accuracy_family family, uint64_t seed, bool is_b, int64_t count,
                               float *elements)
{
    enum family kind = is_even(family) ? FAMILY_UNIFORM : FAMILY_NORMAL;
    generate(CARAT_F32, kind, stream_seed(seed, is_b ? STREAM_B : STREAM_A), count, elements);
    float *more = NULL;
    if (family == ACCURACY_SPREAD || family == ACCURACY_EXPONENTS) {
        more = malloc((size_t)count * sizeof(*more));
        if (!more) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld numbers", (long long)count);
        }
        generate(CARAT_F32, kind, stream_seed(seed, is_b ? STREAM_B_MORE : STREAM_A_MORE), count, more);
    }
    struct drawn drawn = {family, elements, more};
    share_out(count, 1, make_elements, &drawn);
    free(more);
    return CARAT_OK;
}

/* ---- Matrices with something along k, or one thing in a row ---- */

struct scaling {
    int64_t m;
    int64_t n;
    int64_t k;
    const float *scale;
    float *a;
    float *b;
};

/* A S and S^-1 B, for some of k: scale[l] is even over [-1, 1). */
static void scale_some_of_k(const void *context, int64_t begin, int64_t end)
{
    const struct scaling *of = (const struct scaling *)context;
    for (int64_t l = begin; l < end; l++) {
        int exponent = whole(of->scale[l], SCALE_MOST);
        for (int64_t i = 0; i < of->m; i++) {
            of->a[i + l * of->m] = ldexpf(of->a[i + l * of->m], exponent);
        }
    }
    for (int64_t j = 0; j < of->n; j++) {
        for (int64_t l = begin; l < end; l++) {
            of->b[l + j * of->k] = ldexpf(of->b[l + j * of->k], -whole(of->scale[l], SCALE_MOST));
        }
    }
}

/* A number of 0 to count - 1 for a place, in no order. */
static int64_t pick(uint64_t seed, int64_t place, int64_t count)
{
    uint64_t mixed = (seed + 1) * 0xbf58476d1ce4e5b9u + (uint64_t)place * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 31) * 0x94d049bb133111ebu;
    return (int64_t)((mixed >> 20) % (uint64_t)count);
}

static void enlarge_one_a_row(uint64_t seed, int64_t m, int64_t n, int64_t k, float *a, float *b)
{
    for (int64_t i = 0; i < m; i++) {
        int64_t l = pick(seed, i, k);
        a[i + l * m] = ldexpf(a[i + l * m], HUGE_EXPONENT);
    }
    for (int64_t j = 0; j < n; j++) {
        int64_t l = pick(seed, m + j, k);
        b[l + j * k] = ldexpf(b[l + j * k], HUGE_EXPONENT);
    }
}

struct shift {
    float *elements;
    int exponent;
};

static void shift_some(const void *context, int64_t begin, int64_t end)
{
    const struct shift *shift = (const struct shift *)context;
    for (int64_t i = begin; i < end; i++) {
        shift->elements[i] = ldexpf(shift->elements[i], shift->exponent);
    }
}

static void make_denormal(int64_t count_a, int64_t count_b, float *a, float *b)
{
    share_out(count_a, 1, shift_some, &(struct shift){a, DENORMAL_A_EXPONENT});
    share_out(count_b, 1, shift_some, &(struct shift){b, DENORMAL_B_EXPONENT});
}

/* ---- Matrices by a formula ---- */

/* Node i of count ones: the zeros of a Chebyshev polynomial, which crowd at -1 and 1. */
static double node(int64_t i, int64_t count)
{
    return cos(acos(-1) * (2 * (double)i + 1) / (2 * (double)count));
}

struct hilbert {
    int64_t rows;
    float *elements;
};

static void make_hilbert_columns(const void *context, int64_t begin, int64_t end)
{
    const struct hilbert *of = (const struct hilbert *)context;
    for (int64_t j = begin; j < end; j++) {
        for (int64_t i = 0; i < of->rows; i++) {
            of->elements[i + j * of->rows] = (float)(1 / ((double)i + (double)j + 1));
        }
    }
}

static void fill_hilbert(int64_t rows, int64_t columns, float *elements)
{
    share_out(columns, rows, make_hilbert_columns, &(struct hilbert){rows, elements});
}

struct powers {
    int64_t count;
    int64_t k;
    float *columns;
};

/* Columns of powers of the nodes. From the one on that is 0, all are. */
static void make_powers(const void *context, int64_t begin, int64_t end)
{
    const struct powers *of = (const struct powers *)context;
    for (int64_t i = begin; i < end; i++) {
        float *column = of->columns + i * of->k;
        double base = node(i, of->count);
        int64_t l = 0;
        do {
            column[l] = (float)pow(base, (double)l);
        } while (column[l] != 0 && ++l < of->k);
        memset(column + l, 0, (size_t)(of->k - l) * sizeof(*column));
    }
}

static carat_status fill_vandermonde(int64_t m, int64_t n, int64_t k, float *a, float *b)
{
    float *columns = malloc((size_t)(m * k) * sizeof(*columns));
    if (!columns) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld numbers", (long long)(m * k));
    }
    share_out(m, k, make_powers, &(struct powers){m, k, columns});
    accuracy_transpose(k, m, columns, a);
    share_out(n, k, make_powers, &(struct powers){n, k, b});
    free(columns);
    return CARAT_OK;
}

static int64_t common_divisor(int64_t x, int64_t y)
{
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}

/* One 1 in each row of a zeroed A. The permutation goes round k by steps that share no factor with it. */
static void fill_ones(enum accuracy_family family, uint64_t seed, int64_t m, int64_t k, float *a)
{
    int64_t step = k / 3 + 1;
    while (common_divisor(step, k) != 1) {
        step++;
    }
    memset(a, 0, (size_t)(m * k) * sizeof(*a));
    for (int64_t i = 0; i < m; i++) {
        int64_t l = family == ACCURACY_IDENTITY      ? i % k
                    : family == ACCURACY_PERMUTATION ? (pick(seed, 0, k) + i % k * step) % k
                                                     : pick(seed, i, k);
        a[i + l * m] = 1;
    }
}

/* ---- The orthogonal family ---- */

/* Columns of a k x k matrix Q: the first ones go to `columns`, and start over where there are more than k. */
struct orthogonal {
    int64_t k;
    const double *cosines; /* [t]: of pi t / 2k */
    const double *signs;
    const double *v; /* of unit length */
    float *columns;
};

static int64_t next_angle(int64_t angle, int64_t j, int64_t k)
{
    angle += 2 * j;
    return angle < 4 * k ? angle : angle - 4 * k;
}

/* Q = H D F: F the cosine transform of k points, D random signs, H a reflection in the random direction v. */
static void make_orthogonal_columns(const void *context, int64_t begin, int64_t end)
{
    const struct orthogonal *of = (const struct orthogonal *)context;
    int64_t k = of->k;
    for (int64_t at = begin; at < end; at++) {
        int64_t j = at % k;
        float *column = of->columns + at * k;
        double size = sqrt((j == 0 ? 1 : 2) / (double)k);
        double along = 0;
        int64_t angle = j; /* (2 l + 1) j, modulo the 4 k of a turn */
        for (int64_t l = 0; l < k; l++) {
            along += of->signs[l] * size * of->cosines[angle] * of->v[l];
            angle = next_angle(angle, j, k);
        }
        angle = j;
        for (int64_t l = 0; l < k; l++) {
            double q = of->signs[l] * size * of->cosines[angle];
            column[l] = (float)(q - 2 * along * of->v[l]);
            angle = next_angle(angle, j, k);
        }
    }
}

/* B's columns are columns of Q, which start over after k; A's rows are the same. */
static carat_status fill_orthogonal(uint64_t seed, int64_t m, int64_t n, int64_t k, float *a, float *b)
{
    double *cosines = malloc((size_t)(6 * k) * sizeof(*cosines));
    float *columns = malloc((size_t)(k * (m > n ? m : n)) * sizeof(*columns));
    if (!cosines || !columns) {
        free(cosines);
        free(columns);
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for columns of %lld numbers", (long long)k);
    }
    double *v = cosines + 4 * k;
    double *signs = v + k;
    for (int64_t t = 0; t < 4 * k; t++) {
        cosines[t] = cos(acos(-1) * (double)t / (2 * (double)k));
    }
    generate(CARAT_F64, FAMILY_NORMAL, stream_seed(seed, STREAM_K), k, v);
    double square = 0;
    for (int64_t l = 0; l < k; l++) {
        square += v[l] * v[l];
    }
    for (int64_t l = 0; l < k; l++) {
        v[l] /= sqrt(square);
        signs[l] = pick(7, l, 2) ? 1 : -1;
    }
    share_out(m > n ? m : n, k, make_orthogonal_columns, &(struct orthogonal){k, cosines, signs, v, columns});
    accuracy_transpose(k, m, columns, a);
    memcpy(b, columns, (size_t)(k * n) * sizeof(*b));
    free(columns);
    free(cosines);
    return CARAT_OK;
}

carat_status accuracy_fill(enum accuracy_family family, uint64_t seed, int64_t m, int64_t n, int64_t k,
                           float *a, float *b)
{
    if (m < 1 || n < 1 || k < 1) {
        return fail(CARAT_INVALID_ARGUMENT, "no family fills %lld x %lld x %lld", (long long)m, (long long)n,
                    (long long)k);
    }
    carat_status status;
    switch (family) {
    case ACCURACY_ORTHOGONAL:
        return fill_orthogonal(seed, m, n, k, a, b);
    case ACCURACY_HILBERT:
        fill_hilbert(m, k, a);
        fill_hilbert(k, n, b);
        return CARAT_OK;
    case ACCURACY_VANDERMONDE:
        return fill_vandermonde(m, n, k, a, b);
    case ACCURACY_IDENTITY:
    case ACCURACY_PERMUTATION:
    case ACCURACY_ONE_HOT:
        fill_ones(family, seed, m, k, a);
        return fill_drawn(ACCURACY_SPREAD, seed, true, k * n, b);
    default:
        break;
    }
    status = fill_drawn(family, seed, false, m * k, a);
    if (status == CARAT_OK) {
        status = fill_drawn(family, seed, true, k * n, b);
    }
    if (status != CARAT_OK) {
        return status;
    }
    if (family == ACCURACY_HUGE) {
        enlarge_one_a_row(seed, m, n, k, a, b);
    } else if (family == ACCURACY_DENORMALS) {
        make_denormal(m * k, k * n, a, b);
    } else if (family == ACCURACY_SCALED) {
        float *scale = malloc((size_t)k * sizeof(*scale));
        if (!scale) {
            return fail(CARAT_OUT_OF_HOST_MEMORY, "no memory for %lld numbers", (long long)k);
        }
        generate(CARAT_F32, FAMILY_UNIFORM, stream_seed(seed, STREAM_K), k, scale);
        share_out(k, m + n, scale_some_of_k, &(struct scaling){m, n, k, scale, a, b});
        free(scale);
    }
    return CARAT_OK;
}
