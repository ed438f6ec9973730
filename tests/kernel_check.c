/*
 * kernel_check.c - see kernel_check.h.
 *
 * Every buffer is exactly as long as the work needs and stands between poisoned guards; its base is aligned
 * as the row asks, and no better. What lies between the columns of an input is NaN, and what lies between
 * those of an output must stay.
 */
#include "kernel_check.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sanitizer/asan_interface.h>

#include "../kernels/common/arguments.h"

#define GUARD 512

/* ---- Buffers -------------------------------------------------------------------------------- */

struct buffer {
    unsigned char *memory; /* with the guards */
    unsigned char *at;     /* the content */
    unsigned char *before; /* what the content was when the work began */
    size_t bytes;
};

/* Content of the given bytes whose address is `shift` past a multiple of 256. */
static struct buffer buffer_create(size_t bytes, size_t shift)
{
    struct buffer buffer = {.bytes = bytes};
    void *memory = NULL;
    buffer.before = malloc(bytes + 1);
    if (!buffer.before || posix_memalign(&memory, 256, bytes + shift + 2 * GUARD)) {
        abort();
    }
    buffer.memory = memory;
    buffer.at = buffer.memory + GUARD + shift;
    memset(memory, 0xa5, bytes + shift + 2 * GUARD);
    __asan_poison_memory_region(buffer.memory, GUARD + shift);
    __asan_poison_memory_region(buffer.at + bytes, GUARD);
    return buffer;
}

/* Remembers the content as it is now. */
static void buffer_keep(const struct buffer *buffer) { memcpy(buffer->before, buffer->at, buffer->bytes); }

static bool buffer_is_kept(const struct buffer *buffer)
{
    return memcmp(buffer->before, buffer->at, buffer->bytes) == 0;
}

/* Frees it; false where a guard was written. */
static bool buffer_destroy(struct buffer *buffer)
{
    size_t front = (size_t)(buffer->at - buffer->memory);
    bool whole = true;
    __asan_unpoison_memory_region(buffer->memory, front + buffer->bytes + GUARD);
    for (size_t i = 0; i < front; ++i) {
        whole &= buffer->memory[i] == 0xa5;
    }
    for (size_t i = 0; i < GUARD; ++i) {
        whole &= buffer->at[buffer->bytes + i] == 0xa5;
    }
    free(buffer->memory);
    free(buffer->before);
    return whole;
}

/* ---- Random work ---------------------------------------------------------------------------- */

/* How the values of a case are spread. */
enum values { PLAIN, TINY, SPECIAL };

static void value_set(carat_type type, void *array, int64_t index, enum values values, struct random *random)
{
    element_random(type, array, index, random);
    if (type == CARAT_S32 || type == CARAT_S8) {
        return;
    }
    if (values == TINY) {
        /* Products and sums near and below the least normal number. */
        int exponent = type == CARAT_F64 ? -530 : type == CARAT_F16 ? -18 : -70;
        element_set(type, array, index, ldexpl(element_get(type, array, index), exponent));
    }
    if (values == SPECIAL && random_one_in(random, 40)) {
        static const float special[] = {INFINITY, -INFINITY, NAN, 0.0f, -0.0f};
        element_set(type, array, index, (long double)special[random_bits(random) % 5]);
    }
    if (values == SPECIAL && type == CARAT_F32 && random_one_in(random, 100)) {
        /* What rounds by adding to the bits makes zeros of these NaNs. */
        uint32_t bits = random_one_in(random, 2) ? 0x7fffffff : 0xffffffff;
        memcpy((char *)array + (size_t)index * sizeof bits, &bits, sizeof bits);
    }
}

static enum values random_values(struct random *random)
{
    return random_one_in(random, 6) ? TINY : random_one_in(random, 6) ? SPECIAL : PLAIN;
}

/* A length that ends inside a tile, at its end, or just past it: 1 .. about `tiles` tiles. */
static int64_t random_length(struct random *random, int64_t tile, int64_t tiles)
{
    int64_t whole = random_between(random, 0, tiles) * tile;
    switch (random_between(random, 0, 4)) {
    case 0:
        return whole > 0 ? whole : tile;
    case 1:
        return whole + 1;
    case 2:
        return whole + tile - 1 > 0 ? whole + tile - 1 : 1;
    default:
        return whole + random_between(random, 1, tile);
    }
}

/* Of more tiles than kernels walk in one band (8): one band and a little, or two with the last tile missing. */
static int64_t tall_length(struct random *random, int64_t tile)
{
    int64_t tiles = random_one_in(random, 2) ? 15 : random_between(random, 9, 10);
    return (tiles - 1) * tile + random_between(random, 1, tile);
}

static int64_t round_up(int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; }

static int64_t ceiling(int64_t x, int64_t y) { return (x + y - 1) / y; }

static int64_t at_least_1(int64_t x) { return x > 1 ? x : 1; }

/* A batch of matrices in memory, rows contiguous. */
struct matrix {
    carat_type type;
    int64_t rows;
    int64_t columns;
    int64_t ld;
    int64_t stride;
    int64_t batch;
    struct buffer buffer;
};

/*
 * A matrix whose base, columns and problems are at multiples of `alignment` bytes (0: of the element's
 * size), filled with values, NaN between them.
 */
static struct matrix matrix_create(carat_type type, int64_t rows, int64_t columns, int64_t batch,
                                   int alignment, bool one_for_all, enum values values, struct random *random)
{
    int64_t size = (int64_t)carat_type_size(type);
    int64_t unit = alignment > size ? alignment / size : 1;
    struct matrix matrix = {.type = type, .rows = rows, .columns = columns, .batch = batch};
    matrix.ld = round_up(at_least_1(rows), unit) +
                unit * (random_one_in(random, 2) ? 0 : random_between(random, 0, 9));
    matrix.stride = one_for_all ? 0 : matrix.ld * columns + unit * random_between(random, 0, 3);
    int64_t length = rows && columns
                         ? (one_for_all ? 0 : (batch - 1) * matrix.stride) + (columns - 1) * matrix.ld + rows
                         : 0;
    size_t shift = (size_t)(unit * size * random_between(random, 0, 255 / (unit * size)));
    matrix.buffer = buffer_create((size_t)(length * size), shift);
    for (int64_t i = 0; i < length; ++i) {
        element_poison(type, matrix.buffer.at, i);
    }
    for (int64_t problem = 0; problem < (one_for_all ? 1 : batch); ++problem) {
        for (int64_t j = 0; j < columns; ++j) {
            for (int64_t i = 0; i < rows; ++i) {
                value_set(type, matrix.buffer.at, problem * matrix.stride + j * matrix.ld + i, values,
                          random);
            }
        }
    }
    buffer_keep(&matrix.buffer);
    return matrix;
}

/* What the row asks of A and B; where that is nothing, kernels look for themselves, and get either. */
static int alignment_for(const struct kernel *row, struct random *random)
{
    return row->alignment ? row->alignment : random_one_in(random, 2) ? 16 : 0;
}

/* A scalar: 0, 1, -1 or any; its value in the arguments, or in memory of the "device". */
struct scalar {
    scalar_argument argument;
    union {
        float f32;
        double f64;
        int32_t s32;
    } value;
    struct buffer device;
};

static struct scalar scalar_create(carat_type type, struct random *random)
{
    struct scalar scalar = {.device = {NULL, NULL, NULL, 0}};
    long double value = 0;
    int64_t kind = random_between(random, 0, 4);
    if (kind == 1) {
        value = 1;
    } else if (kind == 2) {
        value = -1;
    } else if (kind > 2) {
        value = type == CARAT_S32 ? (long double)random_between(random, INT32_MIN, INT32_MAX)
                                  : 4 * (long double)random_unit(random);
    }
    element_set(type, &scalar.value, 0, value);
    size_t size = carat_type_size(type);
    if (random_one_in(random, 3)) {
        scalar.device = buffer_create(size, 0);
        memcpy(scalar.device.at, &scalar.value, size);
        buffer_keep(&scalar.device);
        scalar.argument.device = scalar.device.at;
        memset(&scalar.argument.value, 0xff, sizeof scalar.argument.value);
    } else {
        scalar.argument.device = NULL;
        memcpy(&scalar.argument.value, &scalar.value, size);
    }
    return scalar;
}

/* One that the caller has by value. */
static struct scalar scalar_of(carat_type type, long double value)
{
    struct scalar scalar = {.device = {NULL, NULL, NULL, 0}};
    element_set(type, &scalar.value, 0, value);
    memcpy(&scalar.argument.value, &scalar.value, carat_type_size(type));
    return scalar;
}

static bool scalar_destroy(struct scalar *scalar)
{
    bool kept = !scalar->device.memory || buffer_is_kept(&scalar->device);
    bool guarded = !scalar->device.memory || buffer_destroy(&scalar->device);
    return kept && guarded;
}

static bool scalar_is_zero(const struct scalar *scalar, carat_type type)
{
    return element_get(type, &scalar->value, 0) == 0;
}

/* ---- Running and reporting ------------------------------------------------------------------ */

static void launch(const struct kernel *row, const struct cpu_kernel *kernel, int64_t blocks,
                   const void *arguments, struct random *random)
{
    int threads_y = row->threads_y ? row->threads_y : 1;
    struct cpu_launch launch = {.grid = {(uint32_t)blocks, 1, 1},
                                .block = {(uint32_t)row->threads_x, (uint32_t)threads_y, 1},
                                .dynamic_shared_bytes = (size_t)row->shared_bytes,
                                .seed = random_bits(random)};
    cpu_run(kernel, &launch, arguments);
}

__attribute__((format(printf, 2, 3))) static bool wrong(const struct kernel *row, const char *format, ...)
{
    va_list values;
    fprintf(stderr, "%s: ", row->name);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
    return false;
}

typedef struct expected expect_function(const void *work, int64_t problem, int64_t i, int64_t j);

/*
 * Of a large D about so many elements are compared, others from case to case, and all along its edges: the
 * reference takes most of the time, and a kernel that goes wrong does so in many elements.
 */
#define MOST_COMPARED 40000

static bool is_compared(const struct matrix *d, int64_t problem, int64_t i, int64_t j)
{
    int64_t every = ceiling(d->rows * d->columns * d->batch, MOST_COMPARED);
    bool edge = i == 0 || j == 0 || i == d->rows - 1 || j == d->columns - 1;
    return edge || (i + j + problem + d->ld) % every == 0;
}

/* Whether all of D but its elements is as it was, and the elements compared hold what is expected. */
static bool check_result(const struct kernel *row, const struct matrix *d, expect_function *expect,
                         const void *work)
{
    size_t size = carat_type_size(d->type);
    for (int64_t problem = 0; problem < d->batch; ++problem) {
        for (int64_t j = 0; j < d->columns; ++j) {
            for (int64_t i = 0; i < d->rows; ++i) {
                int64_t index = problem * d->stride + j * d->ld + i;
                struct expected expected = {0, 0};
                bool compared = is_compared(d, problem, i, j);
                if (compared) {
                    expected = expect(work, problem, i, j);
                }
                if (compared && !expected_holds(&expected, d->type, d->buffer.at, index)) {
                    return wrong(row,
                                 "element (%" PRId64 ", %" PRId64 ") of problem %" PRId64 " of %" PRId64
                                 " x %" PRId64 " is %.9Lg, not %.9Lg +- %.2Lg",
                                 i, j, problem, d->rows, d->columns,
                                 element_get(d->type, d->buffer.at, index), expected.value, expected.bound);
                }
                /* The kernel may write it: the rest must be as it was. */
                memcpy(d->buffer.at + (size_t)index * size, d->buffer.before + (size_t)index * size, size);
            }
        }
    }
    return buffer_is_kept(&d->buffer) || wrong(row, "writes between the columns of D");
}

/* ---- Epilogues ------------------------------------------------------------------------------ */

/* What is given with a call beside A, B and C: for the reference and for the kernel. */
struct extras {
    struct matrix bias;
    struct scalar scales[3]; /* of A, B and D */
    carat_run run;           /* scales NULL where there are none */
    epilogue_arguments epilogue;
};

/* Types of C and D, bias and activation that go with A's type, in a problem of a row with EPILOGUE=1. */
static void random_epilogue(carat_gemm_problem *p, struct random *random)
{
    carat_type own = p->type_a == CARAT_S8 ? CARAT_S32 : p->type_a;
    int64_t choice = p->type_a == CARAT_F64 ? 0 : random_between(random, 0, p->type_a == CARAT_S8 ? 2 : 1);
    p->type_cd = choice == 0 ? own : choice == 1 ? CARAT_F32 : CARAT_S8;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    int64_t most = scalar_type == CARAT_S32 ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_SILU;
    p->activation = (carat_activation)random_between(random, 0, most);
    p->bias = (carat_bias)random_between(random, 0, 2);
    p->type_bias = scalar_type;
    if (scalar_type == CARAT_F32 && random_one_in(random, 2)) {
        p->type_bias = random_one_in(random, 2) ? CARAT_F16 : CARAT_BF16;
    }
}

static struct extras extras_create(carat_gemm_problem *p, enum values values, struct random *random)
{
    struct extras extras = {.epilogue = {.result_type = (int32_t)p->type_cd,
                                         .activation = (int32_t)p->activation,
                                         .bias_along_n = p->bias == CARAT_BIAS_PER_COLUMN,
                                         .bias_type = (int32_t)p->type_bias}};
    int64_t length = p->bias == CARAT_BIAS_NONE ? 0 : p->bias == CARAT_BIAS_PER_ROW ? p->m : p->n;
    extras.bias = matrix_create(p->bias == CARAT_BIAS_NONE ? CARAT_F32 : p->type_bias, length, 1, p->batch, 0,
                                random_one_in(random, 3), values, random);
    p->stride_bias = extras.epilogue.stride_bias = extras.bias.stride;
    extras.run.bias = extras.bias.buffer.before;
    extras.epilogue.bias = length > 0 ? extras.bias.buffer.at : NULL;
    bool scaled = p->type_a == CARAT_S8 && p->type_cd != CARAT_S32;
    scalar_argument *arguments[] = {&extras.epilogue.scale_a, &extras.epilogue.scale_b,
                                    &extras.epilogue.scale_d};
    for (int i = 0; i < 3; ++i) {
        extras.scales[i] =
            scaled ? scalar_create(CARAT_F32, random) : (struct scalar){.argument.value.f32 = 1};
        *arguments[i] = extras.scales[i].argument;
    }
    return extras;
}

/* The reference's view of the extras, which may have been moved. */
static const carat_run *extras_run(struct extras *extras, const carat_gemm_problem *p)
{
    if (p->type_a == CARAT_S8 && p->type_cd != CARAT_S32) {
        extras->run.scale_a = &extras->scales[0].value.f32;
        extras->run.scale_b = &extras->scales[1].value.f32;
        extras->run.scale_d = &extras->scales[2].value.f32;
    }
    return &extras->run;
}

static bool extras_destroy(struct extras *extras)
{
    bool right = buffer_is_kept(&extras->bias.buffer);
    right &= buffer_destroy(&extras->bias.buffer);
    for (int i = 0; i < 3; ++i) {
        right &= scalar_destroy(&extras->scales[i]);
    }
    return right;
}

/* ---- What rows with planes leave to one that rescues ---------------------------------------- */

#define SPOILED_COLUMNS 16
#define MOST_WORDS 70 /* of an operand; a warp takes 32 at a time */

/* The words of a split and of a product, and what they come to. */
struct leavings {
    struct buffer words;
    struct buffer spoiled;
    struct buffer earlier; /* of a product before, which may have left nothing, and says so in `left` */
    struct buffer left;
    verdict_arguments verdict;
    bool refused; /* all of D, or all that was left before */
    bool any;     /* or some of it */
};

/* A word of a block that has seen magnitudes of these exponents. */
static uint32_t exponents_word(int64_t largest, int64_t least)
{
    return (uint32_t)(largest << 8 | (255 - least));
}

/* Words of one operand with exponents from least to most, both of which are there, in a word each or in one. */
static void random_exponents(uint32_t *words, int64_t count, int64_t least, int64_t most,
                             struct random *random)
{
    for (int64_t i = 0; i < count; ++i) {
        int64_t within = most > least + 1;
        int64_t from = random_between(random, least + within, most - within);
        int64_t to = random_between(random, from, most - within);
        words[i] = random_one_in(random, 4) ? 0 : exponents_word(to, from);
    }
    int64_t one = random_one_in(random, 2) ? count - 1 : random_between(random, 0, count - 1);
    int64_t other = random_one_in(random, 2) ? one : random_between(random, 0, count - 1);
    /* What the same lane has seen before each of them is just short of it. */
    for (int of_other = 0; of_other < 2 && most > least + 1; ++of_other) {
        int64_t before = (of_other ? other : one) - 32;
        if (before >= 0) {
            words[before] = exponents_word(most - 1, least + 1);
        }
    }
    words[one] = exponents_word(one == other ? most : least, least);
    words[other] = exponents_word(most, one == other ? least : most);
}

/* Words of parts of D: none is left, one alone in a corner, every one in so many, or all. */
static struct buffer random_parts(int64_t parts, struct random *random)
{
    struct buffer buffer = buffer_create((size_t)parts * sizeof(uint32_t), 4);
    uint32_t *words = (uint32_t *)(void *)buffer.at;
    int64_t kind = random_between(random, 0, 3);
    int every = (int)random_between(random, 1, 9);
    for (int64_t i = 0; i < parts; ++i) {
        bool is = kind == 1 ? i == parts - 1 : kind > 1 && random_one_in(random, every);
        words[i] = is ? (random_one_in(random, 2) ? 1 : 0x80000000) : 0;
    }
    buffer_keep(&buffer);
    return buffer;
}

/* Which words say what is left to the row; NULL: all is. */
static const uint32_t *left_words(const struct leavings *leavings)
{
    return leavings->refused ? leavings->verdict.earlier : leavings->verdict.spoiled;
}

static struct leavings leavings_create(int64_t m, int64_t n, int64_t batch, struct random *random)
{
    static const int32_t rows[] = {32, 64, 128, 192};
    struct leavings leavings = {.verdict = {
                                    .count_a = (int32_t)random_between(random, 1, MOST_WORDS),
                                    .short_k = random_one_in(random, 2),
                                    .spoiled_rows = rows[random_between(random, 0, 3)],
                                }};
    verdict_arguments *verdict = &leavings.verdict;
    verdict->count = verdict->count_a + (int32_t)random_between(random, 1, MOST_WORDS);
    leavings.words = buffer_create((size_t)verdict->count * sizeof(uint32_t), 4);
    uint32_t *words = (uint32_t *)(void *)leavings.words.at;
    for (int of_b = 0; of_b < 2; ++of_b) {
        bool apart = random_one_in(random, 4);
        int64_t least = random_one_in(random, 10)  ? 26
                        : random_one_in(random, 2) ? 27
                                                   : random_between(random, 27, 189);
        int64_t most = least + (apart ? 65 : random_one_in(random, 2) ? 64 : random_between(random, 0, 64));
        random_exponents(words + (of_b ? verdict->count_a : 0),
                         of_b ? verdict->count - verdict->count_a : verdict->count_a, least, most, random);
        leavings.refused |= least < 27 || (apart && verdict->short_k);
    }
    buffer_keep(&leavings.words);

    int64_t parts = ceiling(m, verdict->spoiled_rows) * ceiling(n, SPOILED_COLUMNS) * batch;
    leavings.spoiled = random_parts(parts, random);
    leavings.earlier = random_parts(parts, random);
    leavings.left = random_parts(1, random);
    verdict->words = words;
    verdict->spoiled = (uint32_t *)(void *)leavings.spoiled.at;
    if (random_one_in(random, 2)) {
        verdict->earlier = (const uint32_t *)(const void *)leavings.earlier.at;
        verdict->left = (uint32_t *)(void *)leavings.left.at;
    } else if (random_one_in(random, 3)) {
        /* Behind a product of scaled blocks there are words of another kind, which say nothing here. */
        verdict->left = (uint32_t *)(void *)leavings.left.at;
        verdict->count = verdict->count_a = 0;
        leavings.refused = false;
    }
    const uint32_t *left = left_words(&leavings);
    bool none = verdict->left && *verdict->left == 0;
    leavings.any = !none && !left;
    for (int64_t i = 0; i < parts && left && !none; ++i) {
        leavings.any |= left[i] != 0;
    }
    return leavings;
}

/* Whether an element of D has been left to the row. */
static bool is_left(const struct leavings *leavings, int64_t m, int64_t n, int64_t problem, int64_t i,
                    int64_t j)
{
    int64_t rows = leavings->verdict.spoiled_rows;
    int64_t strip = problem * ceiling(n, SPOILED_COLUMNS) + j / SPOILED_COLUMNS;
    const uint32_t *left = left_words(leavings);
    return leavings->any && (!left || left[strip * ceiling(m, rows) + i / rows] != 0);
}

static bool leavings_destroy(struct leavings *leavings)
{
    if (!leavings->words.memory) {
        return true;
    }
    struct buffer *buffers[] = {&leavings->words, &leavings->spoiled, &leavings->earlier, &leavings->left};
    bool right = true;
    for (int i = 0; i < 4; ++i) {
        right &= buffer_is_kept(buffers[i]);
        right &= buffer_destroy(buffers[i]);
    }
    return right;
}

/* ---- Products ------------------------------------------------------------------------------- */

struct product {
    const struct kernel *row;
    carat_gemm_problem problem;
    const void *alpha;
    const void *beta;
    const void *a;
    const void *b;
    const void *c; /* as it was */
    const carat_run *run;
    const struct leavings *leavings; /* of a row that rescues; else NULL */
    const struct matrix *d;
    const struct matrix *partials;
    int64_t k_per_part;
    int parts;
    int terms; /* what errors grow with in its place, where that is not k; else 0 */
};

static carat_type result_type(const struct kernel *row)
{
    return row->element == ELEMENT_S8 ? CARAT_S32 : (carat_type)row->element;
}

/* Of what the products of a type are summed to by a row. */
static carat_type sum_type(const struct kernel *row)
{
    carat_type type = (carat_type)row->element;
    return row->accuracy == ACCURACY_BEST          ? CARAT_F64
           : type == CARAT_F64                     ? CARAT_F64
           : type == CARAT_S32 || type == CARAT_S8 ? CARAT_S32
                                                   : CARAT_F32;
}

/* The bound of a row that compensates: its error does not grow with k, but for what underflows. */
static void tighten(const struct product *work, struct expected *expected)
{
    long double alpha = fabsl(element_get(CARAT_F32, work->alpha, 0));
    long double terms = (long double)(work->problem.k + 4);
    long double lost = terms * 0x1p-149L * (alpha + 1);
    bool plain = work->problem.bias == CARAT_BIAS_NONE && work->problem.activation == CARAT_ACTIVATION_NONE;
    if (work->terms > 0 && terms > work->terms && plain) {
        expected->bound = (expected->bound - lost) * work->terms / terms + lost;
    }
}

static struct expected expect_product(const void *context, int64_t problem, int64_t i, int64_t j)
{
    const struct product *work = context;
    if (work->leavings && !is_left(work->leavings, work->problem.m, work->problem.n, problem, i, j)) {
        const struct matrix *d = work->d;
        return (struct expected){element_get(d->type, d->buffer.before, problem * d->stride + j * d->ld + i),
                                 0};
    }
    struct expected expected = reference_gemm(&work->problem, work->alpha, work->a, work->b, work->beta,
                                              work->c, work->run, problem, i, j);
    tighten(work, &expected);
    return expected;
}

/* The sums of one part of k, which stand as problem `problem * parts + part` of the partials. */
static struct expected expect_part(const void *context, int64_t index, int64_t i, int64_t j)
{
    const struct product *work = context;
    if (work->leavings && !is_left(work->leavings, work->problem.m, work->problem.n, index, i, j)) {
        const struct matrix *to = work->partials;
        return (struct expected){
            element_get(to->type, to->buffer.before, index * to->stride + j * to->ld + i), 0};
    }
    int64_t part = index % work->parts;
    carat_gemm_problem piece = work->problem;
    int64_t begin = part * work->k_per_part < piece.k ? part * work->k_per_part : piece.k;
    int64_t end = begin + work->k_per_part < piece.k ? begin + work->k_per_part : piece.k;
    size_t size = carat_type_size(piece.type_a);
    const char *a =
        (const char *)work->a + (size_t)(begin * (piece.op_a == CARAT_TRANSPOSE ? 1 : piece.lda)) * size;
    const char *b =
        (const char *)work->b + (size_t)(begin * (piece.op_b == CARAT_TRANSPOSE ? piece.ldb : 1)) * size;
    carat_type scalar = sum_type(work->row);
    double one[1];
    double zero[1];
    element_set(scalar, one, 0, 1);
    element_set(scalar, zero, 0, 0);
    piece.k = end - begin;
    piece.accuracy = (carat_accuracy)work->row->accuracy;
    piece.type_cd = scalar;
    piece.bias = CARAT_BIAS_NONE;
    piece.activation = CARAT_ACTIVATION_NONE;
    return reference_gemm(&piece, one, a, b, zero, NULL, NULL, index / work->parts, i, j);
}

static void describe(const struct product *work)
{
    const carat_gemm_problem *p = &work->problem;
    fprintf(stderr,
            "  m %" PRId64 " n %" PRId64 " k %" PRId64 " op %d %d ld %" PRId64 " %" PRId64 " %" PRId64
            " %" PRId64 " batch %" PRId64 " parts %d alpha %Lg beta %Lg\n",
            p->m, p->n, p->k, p->op_a, p->op_b, p->lda, p->ldb, p->ldc, p->ldd, p->batch, work->parts,
            element_get(carat_scalar_type(p->type_cd), work->alpha, 0),
            element_get(carat_scalar_type(p->type_cd), work->beta, 0));
}

/* Whether a row has a way of its own where there is nothing to do but the rounding: brief.cu, batch.cu, dots.cu and singles.cu. */
static bool ends_plainly(const struct kernel *row)
{
    bool by_warp = row->warp_m > 0 && row->tensor_maps == 0 && (row->k_limit > 0 || row->stages == 1);
    return row->lanes_m > 0 || (row->epilogue && (by_warp || (row->thread_m > 0 && row->stages > 1)));
}

/* Layouts and shape, of m and n at most a few hundred and of few multiply-adds in all. */
static carat_gemm_problem random_product(const struct kernel *row, struct random *random)
{
    /* Two tiles in one dimension at a time where they are large, several where they are small. */
    int64_t most_m = row->tile_m >= 64 ? 1 : 3;
    int64_t most_n = row->tile_n >= 64 ? 1 : 3;
    int64_t ahead = row->stages > 2 || row->splits ? row->stages + 2 : 3;
    int64_t most_k = row->tile_k > 0 ? ahead : 3;
    int64_t tile_k = row->tile_k > 1 ? row->tile_k : 16;
    if (row->tile_m >= 64 && row->tile_n >= 64 && random_one_in(random, 2)) {
        *(random_one_in(random, 2) ? &most_m : &most_n) = 0;
    }
    bool tall = random_one_in(random, 5);
    if (tall) {
        most_n = 1;
        most_k = 0;
    }
    int64_t m = tall ? tall_length(random, row->tile_m) : random_length(random, row->tile_m, most_m);
    int64_t n = random_length(random, row->tile_n, most_n);
    int64_t k = random_one_in(random, 10) ? 0 : random_length(random, tile_k, most_k);
    if (row->k_limit > 0 && random_one_in(random, 2)) {
        /* One more than such a row fetches at once, or has threads along k for. */
        int64_t edges[] = {tile_k + 1, 2, 5, 17};
        k = edges[random_between(random, 0, 3)];
    }
    if (random_one_in(random, 3)) {
        m = round_up(m, row->tile_m); /* blocks that lie inside whole, which may take another way */
        n = round_up(n, row->tile_n);
        k = k > 0 && random_one_in(random, 2) ? round_up(k, tile_k) - 1 : k;
    }
    carat_gemm_problem problem = carat_gemm_describe((carat_type)row->element, m, n, k);
    problem.type_cd = result_type(row);
    problem.accuracy = (carat_accuracy)row->accuracy;
    if (row->epilogue && !(ends_plainly(row) && random_one_in(random, 2))) {
        random_epilogue(&problem, random);
    }
    if (row->widened && random_one_in(random, 2)) {
        /* What was narrower once may be stored so. */
        problem.type_cd = CARAT_F32;
        problem.accuracy = CARAT_ACCURACY_BEST;
    }
    bool any = row->layout == LAYOUT_ANY && row->operation == OPERATION_GEMM;
    bool trans_a = any ? random_one_in(random, 2) : row->layout == LAYOUT_TN || row->layout == LAYOUT_TT;
    bool trans_b = any ? random_one_in(random, 2) : row->layout == LAYOUT_NT || row->layout == LAYOUT_TT;
    problem.op_a = trans_a ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    problem.op_b = trans_b ? CARAT_TRANSPOSE : CARAT_NO_TRANSPOSE;
    /* A row that wants its operands aligned wants as much of k where one of them runs along it. */
    int64_t size = (int64_t)carat_type_size(problem.type_a);
    if (row->alignment > size && (trans_a || !trans_b)) {
        problem.k = round_up(k, row->alignment / size);
    }
    if (row->operation == OPERATION_GEMM && random_one_in(random, 3)) {
        problem.batch = random_between(random, 2, 3);
    }
    return problem;
}

/* From so many k on a row that rescues compensates its sums: see kernels/gemm/simt.cu. */
#define LEAST_MOVED_K 128

/* Products of one 1, and then of so little that a sum which has it forgets all others. */
static void make_creep(struct matrix *a, struct matrix *b, bool trans_b)
{
    for (int64_t problem = 0; problem < a->batch; ++problem) {
        for (int64_t i = 0; i < a->rows * a->columns; ++i) {
            int64_t at = problem * a->stride + i / a->rows * a->ld + i % a->rows;
            element_set(a->type, a->buffer.at, at, 1);
        }
    }
    for (int64_t problem = 0; problem < b->batch; ++problem) {
        for (int64_t i = 0; i < b->rows * b->columns; ++i) {
            int64_t at = problem * b->stride + i / b->rows * b->ld + i % b->rows;
            int64_t l = trans_b ? i / b->rows : i % b->rows;
            element_set(b->type, b->buffer.at, at, l == 0 ? 1 : 0x1p-25L);
        }
    }
    buffer_keep(&a->buffer);
    buffer_keep(&b->buffer);
}

static bool check_product(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    struct product work = {.row = row, .parts = 1, .problem = random_product(row, random)};
    carat_gemm_problem *p = &work.problem;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    bool plain = ends_plainly(row) && p->bias == CARAT_BIAS_NONE && p->activation == CARAT_ACTIVATION_NONE &&
                 random_one_in(random, 2);
    struct scalar alpha = plain ? scalar_of(scalar_type, -3) : scalar_create(scalar_type, random);
    struct scalar beta = plain ? scalar_of(scalar_type, 0) : scalar_create(scalar_type, random);
    /* What rounds f32 as it comes could lose a NaN. */
    bool rounds = row->element == ELEMENT_F32 && row->accuracy == ACCURACY_FAST;
    enum values values = rounds && random_one_in(random, 3) ? SPECIAL : random_values(random);
    struct extras extras = extras_create(p, values, random);
    work.run = extras_run(&extras, p);
    work.k_per_part = at_least_1(p->k);
    bool splits_k = row->operation == OPERATION_GEMM;
    bool creeps = row->rescues && random_one_in(random, 4);
    if (creeps) {
        p->k = random_between(random, LEAST_MOVED_K, LEAST_MOVED_K + 64);
        values = PLAIN;
        work.k_per_part = p->k;
    }
    work.terms = strstr(row->source, "kahan") ? 5 : creeps ? row->tile_k + 5 : 0;
    if (splits_k && !creeps && random_one_in(random, 3)) {
        work.parts = (int)random_between(random, 2, 4);
        work.k_per_part = round_up(at_least_1(ceiling(p->k, work.parts)), row->tile_k);
    }
    /* Sums of one part may be wanted bare as well. */
    bool bare = work.parts > 1 || (splits_k && random_one_in(random, 8));
    struct leavings leavings = {.any = true};
    if (row->rescues) {
        leavings = leavings_create(p->m, p->n, p->batch * work.parts, random);
        work.leavings = &leavings;
    }

    bool trans_a = p->op_a == CARAT_TRANSPOSE;
    bool trans_b = p->op_b == CARAT_TRANSPOSE;
    struct matrix a = matrix_create(p->type_a, trans_a ? p->k : p->m, trans_a ? p->m : p->k, p->batch,
                                    alignment_for(row, random), random_one_in(random, 5), values, random);
    struct matrix b = matrix_create(p->type_a, trans_b ? p->n : p->k, trans_b ? p->k : p->n, p->batch,
                                    alignment_for(row, random), random_one_in(random, 5), values, random);
    int alignment_d = random_one_in(random, 2) ? 16 : 0;
    struct matrix c = matrix_create(p->type_cd, p->m, p->n, p->batch, alignment_d, random_one_in(random, 5),
                                    values, random);
    struct matrix d = matrix_create(p->type_cd, p->m, p->n, p->batch, alignment_d, false, values, random);
    if (creeps) {
        make_creep(&a, &b, trans_b);
    }
    bool in_place = random_one_in(random, 3);
    bool reads_ab = p->k > 0 && leavings.any && (bare || !scalar_is_zero(&alpha, scalar_type));
    bool reads_c = !bare && leavings.any && !scalar_is_zero(&beta, scalar_type);
    work.d = &d;
    p->lda = a.ld, p->ldb = b.ld, p->ldd = d.ld, p->ldc = in_place ? d.ld : c.ld;
    p->stride_a = a.stride, p->stride_b = b.stride, p->stride_d = d.stride,
    p->stride_c = in_place ? d.stride : c.stride;
    work.alpha = &alpha.value;
    work.beta = &beta.value;
    work.a = a.buffer.at;
    work.b = b.buffer.at;
    work.c = in_place ? d.buffer.before : c.buffer.before;

    /* The sums of the parts, each a plain m x n, as so many problems. */
    carat_type type_sum = sum_type(row);
    struct matrix partials = {.type = type_sum,
                              .rows = p->m,
                              .columns = p->n,
                              .ld = p->m,
                              .stride = p->m * p->n,
                              .batch = p->batch * work.parts};
    partials.buffer =
        buffer_create(bare ? (size_t)(partials.stride * partials.batch) * carat_type_size(type_sum) : 0, 0);
    memset(partials.buffer.at, 0xff, partials.buffer.bytes);
    buffer_keep(&partials.buffer);

    work.partials = &partials;

    int64_t tiles_m = ceiling(p->m, row->tile_m);
    int64_t tiles_n = ceiling(p->n, row->tile_n);
    gemm_arguments arguments = {
        .m = p->m,
        .n = p->n,
        .k = p->k,
        .a = reads_ab ? a.buffer.at : NULL,
        .b = reads_ab ? b.buffer.at : NULL,
        .c = !reads_c   ? NULL
             : in_place ? d.buffer.at
                        : c.buffer.at,
        .d = bare ? NULL : d.buffer.at,
        .lda = p->lda,
        .ldb = p->ldb,
        .ldc = p->ldc,
        .ldd = p->ldd,
        .stride_a = p->stride_a,
        .stride_b = p->stride_b,
        .stride_c = p->stride_c,
        .stride_d = p->stride_d,
        .alpha = alpha.argument,
        .beta = beta.argument,
        .trans_a = trans_a,
        .trans_b = trans_b,
        .tiles_m = (int32_t)tiles_m,
        .tiles_n = (int32_t)tiles_n,
        .parts = work.parts,
        .k_per_part = work.k_per_part,
        .partials = bare ? partials.buffer.at : NULL,
        .epilogue = extras.epilogue,
        .verdict = leavings.verdict,
    };
    if (getenv("KERNEL_VERBOSE")) {
        describe(&work); /* for where the sanitizer ends the program */
    }
    launch(row, kernel, tiles_m * tiles_n * work.parts * p->batch, &arguments, random);

    /* With alpha 0 whatever the parts hold is left out later. */
    bool right = true;
    if (!bare) {
        right = check_result(row, &d, expect_product, &work);
    } else if (!scalar_is_zero(&alpha, scalar_type)) {
        right = check_result(row, &partials, expect_part, &work);
    }
    right &= (buffer_is_kept(&d.buffer) && buffer_is_kept(&a.buffer) && buffer_is_kept(&b.buffer) &&
              buffer_is_kept(&c.buffer)) ||
             !right || wrong(row, "writes where it should read");
    bool guards = buffer_destroy(&a.buffer);
    guards &= buffer_destroy(&b.buffer);
    guards &= buffer_destroy(&c.buffer);
    guards &= buffer_destroy(&d.buffer);
    guards &= buffer_destroy(&partials.buffer);
    right &= guards || wrong(row, "writes past a buffer");
    right &= leavings_destroy(&leavings) || wrong(row, "writes words that are given to it");
    if (!right) {
        describe(&work);
    }
    right &= scalar_destroy(&alpha);
    right &= scalar_destroy(&beta);
    return right & (extras_destroy(&extras) || wrong(row, "writes to the bias or a scale"));
}

/* ---- f32 that a row splits itself ----------------------------------------------------------- */

/* From 1 to 2, of either sign. */
static float float_near_one(struct random *random)
{
    uint64_t bits = random_bits(random);
    float size = 1 + (float)(bits & 0x7fffff) * 0x1p-23f;
    return bits >> 63 ? -size : size;
}

/* A product of one block, packed: A is m x k, B k x n, as they are or transposed. */
struct split_case {
    int64_t m;
    int64_t n;
    int64_t k;
    bool trans_a;
    bool trans_b;
    float *a;
    float *b;
};

static float *element_of_a(const struct split_case *c, int64_t i, int64_t l)
{
    return &c->a[c->trans_a ? l + i * c->k : i + l * c->m];
}

static float *element_of_b(const struct split_case *c, int64_t l, int64_t j)
{
    return &c->b[c->trans_b ? j + l * c->n : l + j * c->k];
}

/* Whether an element of D has the bits of a chain of f32 multiply-adds, or is NaN where that gives it. */
static bool is_chained(const struct split_case *c, const float *d, int64_t i, int64_t j)
{
    float x = d[i + j * c->m];
    float sum = 0;
    for (int64_t l = 0; l < c->k; ++l) {
        sum = fmaf(*element_of_a(c, i, l), *element_of_b(c, l, j), sum);
    }
    return isnan(sum) ? isnan(x) : memcmp(&x, &sum, sizeof x) == 0;
}

static void run_split_case(const struct kernel *row, const struct cpu_kernel *kernel,
                           const struct split_case *c, float *d, struct random *random)
{
    const scalar_argument one = {.value.f32 = 1};
    gemm_arguments arguments = {
        .m = c->m,
        .n = c->n,
        .k = c->k,
        .a = c->a,
        .b = c->b,
        .d = d,
        .lda = c->trans_a ? c->k : c->m,
        .ldb = c->trans_b ? c->n : c->k,
        .ldd = c->m,
        .alpha = one,
        .trans_a = c->trans_a,
        .trans_b = c->trans_b,
        .tiles_m = 1,
        .tiles_n = 1,
        .parts = 1,
        .k_per_part = c->k,
        .epilogue = {.result_type = CARAT_F32, .scale_a = one, .scale_b = one, .scale_d = one},
    };
    launch(row, kernel, 1, &arguments, random);
}

/* One element of either operand that matters, and what must come of it; all others are near 1. */
static const struct refusal {
    const char *name;
    float element;
    float second; /* another one, which would not matter alone; 0: none */
    int64_t k;    /* 0: some short one */
    bool all;     /* the whole block has the bits of a chain, */
    bool line;    /* or the elements of D that it goes to */
} refusals[] = {
    {"fits", 0x1p-64f, 0, 0, false, false},
    {"too small", 0x1.fffffep-101f, 0, 0, true, true},
    {"too small, of long k", 0x1p-149f, 0, 2048, true, true},
    {"too far below", 0x1p-65f, 0x1p-64f, 0, true, true},
    {"too far above", 0x1p65f, 0x1p64f, 2047, true, true},
    {"far, of long k", 0x1p-65f, 0, 2048, false, false},
    {"infinite as a part", 0x1.ffffp127f, 0, 2048, false, true},
};

#define MOST_SIDE 64 /* of a tile */

/* Some elements of each row and column have other bits than a chain's where parts may stand for them. */
static bool check_refusal(const struct kernel *row, const struct cpu_kernel *kernel,
                          const struct refusal *refusal, struct random *random)
{
    struct split_case c = {.m = random_between(random, row->tile_m / 2, row->tile_m),
                           .n = random_between(random, row->tile_n / 2, row->tile_n),
                           .k = refusal->k ? refusal->k : random_between(random, 100, 300),
                           .trans_a = random_one_in(random, 2),
                           .trans_b = random_one_in(random, 2)};
    if (random_one_in(random, 3)) { /* some warps have nothing to do, and loads are aligned */
        c.m = row->tile_m / 2;
        c.n = row->tile_n / 2;
    }
    c.a = calloc((size_t)(c.m * c.k), sizeof(float));
    c.b = calloc((size_t)(c.k * c.n), sizeof(float));
    float *d = calloc((size_t)(c.m * c.n), sizeof(float));
    if (!c.a || !c.b || !d) {
        abort();
    }
    for (int64_t i = 0; i < c.m * c.k; ++i) {
        c.a[i] = float_near_one(random);
    }
    for (int64_t i = 0; i < c.k * c.n; ++i) {
        c.b[i] = float_near_one(random);
    }
    *element_of_a(&c, 0, 1) = 0; /* which does not matter */
    bool of_a = random_one_in(random, 2);
    int64_t at = random_between(random, 1, (of_a ? c.m : c.n) - 1);
    int64_t l = random_one_in(random, 2) ? c.k - 1 : random_between(random, 0, c.k - 1);
    *(of_a ? element_of_a(&c, at, l) : element_of_b(&c, l, at)) =
        random_one_in(random, 2) ? refusal->element : -refusal->element;
    int64_t second = random_between(random, 0, c.k - 1);
    if (refusal->second != 0 && second != l) {
        *(of_a ? element_of_a(&c, at, second) : element_of_b(&c, second, at)) = refusal->second;
    }
    run_split_case(row, kernel, &c, d, random);
    /* What was lost on its way may be no number, and is summed again as well: then a whole row or column is chained. */
    int64_t in_rows[MOST_SIDE] = {0};
    int64_t in_columns[MOST_SIDE] = {0};
    int64_t others = 0;       /* with other bits, */
    int64_t wrong_others = 0; /* which must have a chain's */
    for (int64_t j = 0; j < c.n; ++j) {
        for (int64_t i = 0; i < c.m; ++i) {
            bool other = !is_chained(&c, d, i, j);
            others += other;
            in_rows[i] += other;
            in_columns[j] += other;
            wrong_others += other && (refusal->all || (refusal->line && (of_a ? i : j) == at));
        }
    }
    free(c.a);
    free(c.b);
    free(d);
    /* A thread sums all of its elements again, where one is not finite. */
    bool by_parts = others > 0;
    for (int64_t i = 0; i < c.m; ++i) {
        by_parts &= in_rows[i] > 0 || refusal->line;
    }
    for (int64_t j = 0; j < c.n; ++j) {
        by_parts &= in_columns[j] > 0 || refusal->line;
    }
    return (wrong_others == 0 && (refusal->all || by_parts)) ||
           wrong(row,
                 "%s, %" PRId64 " x %" PRId64 " x %" PRId64 ": %" PRId64
                 " elements are not those of a chain, %" PRId64 " of them wrongly%s",
                 refusal->name, c.m, c.n, c.k, others, wrong_others,
                 by_parts ? "" : "; a whole row or column is");
}

/*
 * Parts must not stand for what is too small or too far apart, wherever in A or B it lies, nor for what they make
 * infinite.
 */
static bool check_refusals(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    bool right = true;
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; ++i) {
        right &= check_refusal(row, kernel, &refusals[i], random);
    }
    return right;
}

/* ---- Sums of parts -------------------------------------------------------------------------- */

struct reduction {
    const reduce_arguments *arguments;
    carat_type type_sum;
    carat_gemm_problem problem; /* of the epilogue: its types, C, bias and activation */
    const void *alpha;
    const void *beta;
    const void *partials;
    const void *c; /* as it was */
    const carat_run *run;
};

/* The parts of an element are a row that is multiplied by ones; those of s32 are added here, modulo 2^32. */
static struct expected expect_reduced(const void *context, int64_t problem, int64_t i, int64_t j)
{
    enum { MOST_PARTS = 20 };
    const struct reduction *work = context;
    const reduce_arguments *r = work->arguments;
    carat_gemm_problem p = work->problem;
    double parts[MOST_PARTS];
    double ones[MOST_PARTS];
    uint32_t wrapped = 0;
    for (int32_t part = 0; part < r->parts; ++part) {
        int64_t at = ((problem * r->parts + part) * r->n + j) * r->m + i;
        if (work->type_sum == CARAT_S32) {
            wrapped += ((const uint32_t *)work->partials)[at];
        } else {
            element_set(work->type_sum, parts, part, element_get(work->type_sum, work->partials, at));
        }
        element_set(work->type_sum, ones, part, 1);
    }
    p.k = r->parts;
    if (work->type_sum == CARAT_S32) {
        memcpy(parts, &wrapped, sizeof wrapped);
        p.k = 1;
    }
    /* One row and one column for all. */
    p.type_a = p.type_b = work->type_sum;
    p.op_a = CARAT_TRANSPOSE;
    p.lda = p.ldb = p.stride_a = p.stride_b = 0;
    return reference_gemm(&p, work->alpha, parts, ones, work->beta, work->c, work->run, problem, i, j);
}

/* What sums of a type may become, and what goes with it. */
static carat_gemm_problem random_finish(carat_type type_sum, int64_t m, int64_t n, int64_t batch,
                                        struct random *random)
{
    static const carat_type of_f32[] = {CARAT_F32, CARAT_F16, CARAT_BF16, CARAT_E4M3};
    static const carat_type of_s32[] = {CARAT_S32, CARAT_F32, CARAT_S8};
    carat_gemm_problem p = carat_gemm_describe(CARAT_S8, m, n, 1);     /* which takes scales */
    bool narrowed = type_sum == CARAT_F64 && random_one_in(random, 2); /* in best accuracy */
    p.type_cd = type_sum == CARAT_F64 && !narrowed ? CARAT_F64
                : type_sum != CARAT_S32            ? of_f32[random_between(random, 0, 3)]
                                                   : of_s32[random_between(random, 0, 2)];
    if (type_sum == CARAT_F64 && !narrowed) {
        p.type_a = p.type_b = CARAT_F64;
    }
    p.accuracy = narrowed ? CARAT_ACCURACY_BEST : CARAT_ACCURACY_STANDARD;
    carat_type scalar_type = carat_scalar_type(p.type_cd);
    p.batch = batch;
    p.activation = (carat_activation)random_between(
        random, 0, scalar_type == CARAT_S32 ? CARAT_ACTIVATION_RELU : CARAT_ACTIVATION_SILU);
    p.bias = (carat_bias)random_between(random, 0, 2);
    p.type_bias = scalar_type;
    if (scalar_type == CARAT_F32 && random_one_in(random, 2)) {
        p.type_bias = random_one_in(random, 2) ? CARAT_F16 : CARAT_BF16;
    }
    return p;
}

static bool check_reduction(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    carat_type type_sum = (carat_type)row->element;
    int vector = row->vector > 0 ? row->vector : 1; /* elements of a thread, above each other */
    int64_t m = vector * random_between(random, 1, 150 / vector);
    int64_t n = random_between(random, 1, 40);
    int64_t batch = random_one_in(random, 2) ? 1 : random_between(random, 2, 4);
    int parts = (int)random_between(random, 1, 20);
    struct reduction work = {.type_sum = type_sum, .problem = random_finish(type_sum, m, n, batch, random)};
    carat_gemm_problem *p = &work.problem;
    carat_type scalar_type = carat_scalar_type(p->type_cd);
    enum values values = random_values(random);
    struct scalar alpha = scalar_create(scalar_type, random);
    struct scalar beta = scalar_create(scalar_type, random);
    struct extras extras = extras_create(p, values, random);
    bool in_place = random_one_in(random, 3);
    struct matrix partials = {.type = type_sum};
    partials.buffer = buffer_create((size_t)(m * n * batch * parts) * carat_type_size(type_sum), 0);
    for (int64_t i = 0; i < m * n * batch * parts; ++i) {
        value_set(type_sum, partials.buffer.at, i, values, random);
        if (p->type_cd == CARAT_S8) {
            ((int32_t *)partials.buffer.at)[i] %= 1000; /* so that not all of D saturates */
        }
    }
    buffer_keep(&partials.buffer);
    struct matrix c = matrix_create(p->type_cd, m, n, batch, 0, false, values, random);
    struct matrix d = matrix_create(p->type_cd, m, n, batch, 0, false, values, random);
    bool reads_c = !scalar_is_zero(&beta, scalar_type);
    p->ldc = in_place ? d.ld : c.ld;
    p->stride_c = in_place ? d.stride : c.stride;
    reduce_arguments arguments = {
        .m = m,
        .n = n,
        .batch = batch,
        .partials = partials.buffer.at,
        .c = !reads_c   ? NULL
             : in_place ? d.buffer.at
                        : c.buffer.at,
        .d = d.buffer.at,
        .ldc = p->ldc,
        .ldd = d.ld,
        .stride_c = p->stride_c,
        .stride_d = d.stride,
        .alpha = alpha.argument,
        .beta = beta.argument,
        .parts = parts,
        .epilogue = extras.epilogue,
    };
    work.arguments = &arguments;
    work.alpha = &alpha.value;
    work.beta = &beta.value;
    work.partials = partials.buffer.before;
    work.c = in_place ? d.buffer.before : c.buffer.before;
    work.run = extras_run(&extras, p);
    launch(row, kernel, ceiling(m * n * batch, (int64_t)row->threads_x * vector), &arguments, random);
    bool right = check_result(row, &d, expect_reduced, &work);
    right &= buffer_is_kept(&partials.buffer) && buffer_is_kept(&c.buffer);
    bool guards = buffer_destroy(&partials.buffer);
    guards &= buffer_destroy(&c.buffer);
    guards &= buffer_destroy(&d.buffer);
    right &= guards || wrong(row, "writes past a buffer");
    if (!right) {
        fprintf(stderr,
                "  m %" PRId64 " n %" PRId64 " batch %" PRId64
                " parts %d to %s, bias %d of %s, activation %d, alpha "
                "%Lg, beta %Lg\n",
                m, n, batch, parts, carat_type_name(p->type_cd), p->bias, carat_type_name(p->type_bias),
                p->activation, element_get(scalar_type, &alpha.value, 0),
                element_get(scalar_type, &beta.value, 0));
    }
    right &= scalar_destroy(&alpha);
    right &= scalar_destroy(&beta);
    return right & (extras_destroy(&extras) || wrong(row, "writes to the bias or a scale"));
}

/* ---- scale * A + shift ---------------------------------------------------------------------- */

struct scaling {
    carat_type type;
    const void *scale;
    const void *shift;
    const void *a; /* as it was */
    int64_t lda;
};

/* One fused multiply-add is exact, so there is nothing to grant. */
static struct expected expect_scaled(const void *context, int64_t problem, int64_t i, int64_t j)
{
    (void)problem;
    const struct scaling *work = context;
    int64_t index = j * work->lda + i;
    if (work->type == CARAT_F64) {
        return (struct expected){
            fma(*(const double *)work->scale, ((const double *)work->a)[index], *(const double *)work->shift),
            0};
    }
    float x = (float)element_get(work->type, work->a, index);
    float sum = fmaf(*(const float *)work->scale, x, *(const float *)work->shift);
    uint16_t rounded[2];
    element_set(work->type, rounded, 0, sum);
    return (struct expected){element_get(work->type, rounded, 0), 0};
}

/* Shapes for kernels that stream: long columns, short ones, single ones. */
static void random_area(struct random *random, int64_t most, int64_t *m, int64_t *n)
{
    switch (random_between(random, 0, 3)) {
    case 0:
        *m = random_between(random, 1, most);
        *n = 1;
        break;
    case 1:
        *m = random_between(random, 1, 40);
        *n = random_between(random, 1, at_least_1(most / *m));
        break;
    case 2:
        *m = random_between(random, 1, at_least_1(most / 8));
        *n = random_between(random, 1, 8);
        break;
    default:
        *m = random_between(random, 1, 300);
        *n = random_between(random, 1, at_least_1(most / *m));
        break;
    }
}

static bool check_scaling(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    carat_type type = (carat_type)row->element;
    carat_type scalar_type = carat_scalar_type(type);
    int64_t m;
    int64_t n;
    random_area(random, 5 * row->tile_m / 2, &m, &n);
    enum values values = random_values(random);
    struct scalar scale = scalar_create(scalar_type, random);
    struct scalar shift = scalar_create(scalar_type, random);
    int alignment = random_one_in(random, 2) ? 16 : 0;
    bool in_place = random_one_in(random, 3);
    struct matrix a = matrix_create(type, m, n, 1, alignment, false, values, random);
    struct matrix b = matrix_create(type, m, n, 1, alignment, false, values, random);
    struct scaling work = {type, &scale.value, &shift.value, in_place ? b.buffer.before : a.buffer.before,
                           in_place ? b.ld : a.ld};
    scale_add_arguments arguments = {
        .m = m,
        .n = n,
        .a = in_place ? b.buffer.at : a.buffer.at,
        .b = b.buffer.at,
        .lda = work.lda,
        .ldb = b.ld,
        .scale = scale.argument,
        .shift = shift.argument,
    };
    int64_t blocks = ceiling(m * n, row->tile_m);
    launch(row, kernel, random_one_in(random, 2) ? blocks : random_between(random, 1, blocks + 1), &arguments,
           random);
    bool right = check_result(row, &b, expect_scaled, &work) && buffer_is_kept(&a.buffer);
    bool guards = buffer_destroy(&a.buffer);
    guards &= buffer_destroy(&b.buffer);
    right &= guards || wrong(row, "writes past a buffer");
    if (!right) {
        fprintf(stderr, "  m %" PRId64 " n %" PRId64 " lda %" PRId64 " ldb %" PRId64 "\n", m, n, work.lda,
                b.ld);
    }
    right &= scalar_destroy(&scale);
    right &= scalar_destroy(&shift);
    return right;
}

/* ---- Transposes ----------------------------------------------------------------------------- */

/* Elements are bytes here: whatever they are, they arrive. */
static bool check_turned(const struct kernel *row, const struct matrix *a, const struct matrix *b,
                         size_t size)
{
    for (int64_t j = 0; j < a->columns; ++j) {
        for (int64_t i = 0; i < a->rows; ++i) {
            size_t to = (size_t)(j + i * b->ld) * size;
            if (memcmp(a->buffer.before + (size_t)(i + j * a->ld) * size, b->buffer.at + to, size)) {
                return wrong(row,
                             "element (%" PRId64 ", %" PRId64 ") of %" PRId64 " x %" PRId64 " did not arrive",
                             i, j, a->rows, a->columns);
            }
            memcpy(b->buffer.at + to, b->buffer.before + to, size);
        }
    }
    return buffer_is_kept(&b->buffer) || wrong(row, "writes between the columns of B");
}

static struct matrix bytes_create(int64_t rows, int64_t columns, int64_t size, bool aligned,
                                  struct random *random)
{
    int64_t unit = aligned ? 16 / size : 1;
    struct matrix matrix = {.rows = rows, .columns = columns};
    matrix.ld = round_up(rows, unit) + unit * random_between(random, 0, 5);
    size_t shift = (size_t)(unit * size * random_between(random, 0, 255 / (unit * size)));
    matrix.buffer = buffer_create((size_t)(((columns - 1) * matrix.ld + rows) * size), shift);
    for (size_t i = 0; i < matrix.buffer.bytes; ++i) {
        matrix.buffer.at[i] = (unsigned char)random_bits(random);
    }
    buffer_keep(&matrix.buffer);
    return matrix;
}

static bool check_transpose(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    int64_t size = row->element_bytes;
    int64_t pack = 16 / size;
    bool tall = random_one_in(random, 5);
    int64_t m = tall ? tall_length(random, row->tile_m) : random_length(random, row->tile_m, 2);
    int64_t n = random_length(random, row->tile_n, tall ? 1 : 2);
    bool aligned = random_one_in(random, 2);
    if (aligned && random_one_in(random, 2)) {
        m = round_up(m, pack);
        n = round_up(n, pack);
    }
    struct matrix a = bytes_create(m, n, size, aligned, random);
    struct matrix b = bytes_create(n, m, size, aligned, random);
    int64_t tiles_m = ceiling(m, row->tile_m);
    int64_t tiles_n = ceiling(n, row->tile_n);
    transpose_arguments arguments = {
        .m = m,
        .n = n,
        .a = a.buffer.at,
        .b = b.buffer.at,
        .lda = a.ld,
        .ldb = b.ld,
        .tiles_m = (int32_t)tiles_m,
        .tiles_n = (int32_t)tiles_n,
    };
    launch(row, kernel, tiles_m * tiles_n, &arguments, random);
    bool right = check_turned(row, &a, &b, (size_t)size) && buffer_is_kept(&a.buffer);
    bool guards = buffer_destroy(&a.buffer);
    guards &= buffer_destroy(&b.buffer);
    return right & (guards || wrong(row, "writes past a buffer"));
}

/* ---- Packing -------------------------------------------------------------------------------- */

/* One operand of a pack: the matrices of a batch, and where they go. */
struct packed {
    struct matrix from;
    struct matrix to; /* as the operand wants it: without gaps */
    bool turned;
};

/* A type of the row's size; where the row converts, one that it does. */
static carat_type packed_type(const struct kernel *row, struct random *random)
{
    switch (row->element_bytes) {
    case 1:
        return row->converts ? (random_one_in(random, 2) ? CARAT_E4M3 : CARAT_E5M2) : CARAT_S8;
    case 2:
        return row->converts && random_one_in(random, 2) ? CARAT_F16 : CARAT_BF16;
    case 4:
        return CARAT_F32;
    default:
        return CARAT_F64;
    }
}

static struct packed packed_create(const struct kernel *row, int64_t batch, struct random *random)
{
    carat_type type = packed_type(row, random);
    carat_type type_to = row->converts ? (carat_type)row->converts : type;
    struct packed packed = {.turned = !row->converts && random_one_in(random, 2)};
    /* Down to operands of a few bytes. */
    int64_t most_rows = random_one_in(random, 3) ? 20 : 700;
    int64_t most_columns = random_one_in(random, 3) ? 2 : 60;
    int64_t rows =
        packed.turned ? random_length(random, row->tile_m, 1) : random_between(random, 1, most_rows);
    int64_t columns =
        packed.turned ? random_length(random, row->tile_n, 1) : random_between(random, 1, most_columns);
    int alignment = 1 << random_between(random, 0, 4);
    packed.from =
        matrix_create(type, rows, columns, batch, alignment, random_one_in(random, 3), PLAIN, random);
    packed.to = (struct matrix){
        .type = type_to,
        .rows = round_up(packed.turned ? columns : rows, 128 / (int64_t)carat_type_size(type_to)),
        .columns =
            packed.turned ? rows : columns + random_between(random, 0, 3) * random_between(random, 0, 3),
        .batch = packed.from.stride == 0 ? 1 : batch,
    };
    packed.to.ld = packed.to.rows;
    packed.to.stride = packed.to.rows * packed.to.columns;
    packed.to.buffer =
        buffer_create((size_t)(packed.to.stride * packed.to.batch) * carat_type_size(type_to), 0);
    memset(packed.to.buffer.at, 0xff, packed.to.buffer.bytes);
    buffer_keep(&packed.to.buffer);
    return packed;
}

static pack_operand packed_operand(const struct kernel *row, const struct packed *packed,
                                   struct random *random, int64_t *blocks)
{
    int64_t rounds = row->converts ? 4 : random_between(random, 1, 20);
    pack_operand operand = {
        .from = packed->from.buffer.at,
        .to = packed->to.buffer.at,
        .rows = packed->from.rows,
        .columns = packed->from.columns,
        .ld = packed->from.ld,
        .stride = packed->from.stride,
        .columns_to = packed->to.columns,
        .ld_to = packed->to.ld,
        .problems = packed->to.batch,
        .turned = packed->turned,
        .type = (int32_t)packed->from.type,
        .rounds = (int32_t)rounds,
    };
    if (packed->turned) {
        operand.tiles_m = (int32_t)ceiling(packed->to.columns, row->tile_m);
        operand.tiles_n = (int32_t)ceiling(packed->to.ld, row->tile_n);
        *blocks = (int64_t)operand.tiles_m * operand.tiles_n * operand.problems;
        uint64_t begins = (uintptr_t)operand.from | (uint64_t)operand.ld | (uint64_t)operand.stride;
        if (row->element_bytes == 1 && begins % 16 == 0) {
            *blocks = random_between(random, 1, *blocks); /* which then have several tiles */
        }
    } else {
        *blocks =
            ceiling(packed->to.stride * packed->to.batch * row->element_bytes, row->threads_x * 16 * rounds);
    }
    return operand;
}

/* Whether one element arrived; NaN as some NaN. */
static bool has_arrived(const struct packed *packed, int64_t problem, int64_t i, int64_t j)
{
    static const unsigned char zero[8];
    int64_t row = packed->turned ? j : i;
    int64_t column = packed->turned ? i : j;
    size_t size = carat_type_size(packed->to.type);
    int64_t to = i + j * packed->to.ld + problem * packed->to.stride;
    if (row >= packed->from.rows || column >= packed->from.columns) {
        return memcmp(zero, packed->to.buffer.at + (size_t)to * size, size) == 0;
    }
    int64_t from = row + column * packed->from.ld + problem * packed->from.stride;
    if (packed->from.type != packed->to.type) {
        long double before = element_get(packed->from.type, packed->from.buffer.before, from);
        long double after = element_get(packed->to.type, packed->to.buffer.at, to);
        return before == after ? signbit(before) == signbit(after) : isnan(before) && isnan(after);
    }
    return memcmp(packed->from.buffer.before + (size_t)from * size, packed->to.buffer.at + (size_t)to * size,
                  size) == 0;
}

/* Every element arrived or is zero; with nothing moved, all is as it was. */
static bool check_packed(const struct kernel *row, struct packed *packed, bool moved)
{
    for (int64_t p = 0; moved && p < packed->to.batch; ++p) {
        for (int64_t j = 0; j < packed->to.columns; ++j) {
            for (int64_t i = 0; i < packed->to.rows; ++i) {
                if (!has_arrived(packed, p, i, j)) {
                    return wrong(row,
                                 "element (%" PRId64 ", %" PRId64 ") of problem %" PRId64
                                 " is wrong: %" PRId64 " x %" PRId64 " to %" PRId64 " x %" PRId64 "%s",
                                 i, j, p, packed->from.rows, packed->from.columns, packed->to.rows,
                                 packed->to.columns, packed->turned ? " turned" : "");
                }
            }
        }
    }
    return (moved || buffer_is_kept(&packed->to.buffer)) &&
           (buffer_is_kept(&packed->from.buffer) || wrong(row, "writes what it should not"));
}

static bool check_packing(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    static const carat_type results[] = {CARAT_F32, CARAT_F64, CARAT_S32, CARAT_BF16};
    carat_type result = results[random_between(random, 0, 3)];
    int64_t batch = random_one_in(random, 3) ? random_between(random, 2, 3) : 1;
    struct packed a = packed_create(row, batch, random);
    struct packed b = packed_create(row, batch, random);
    struct scalar alpha = scalar_create(carat_scalar_type(result), random);
    bool packs_a = !random_one_in(random, 4);
    bool packs_b = !packs_a || !random_one_in(random, 4);
    int64_t blocks_a = 0;
    int64_t blocks_b = 0;
    pack_arguments arguments = {.alpha = alpha.argument, .result_type = (int32_t)result};
    if (packs_a) {
        arguments.a = packed_operand(row, &a, random, &blocks_a);
    }
    if (packs_b) {
        arguments.b = packed_operand(row, &b, random, &blocks_b);
    }
    arguments.blocks_a = (int32_t)blocks_a;
    launch(row, kernel, blocks_a + blocks_b, &arguments, random);
    bool moved = !scalar_is_zero(&alpha, carat_scalar_type(result));
    bool right = check_packed(row, &a, moved && packs_a);
    right &= check_packed(row, &b, moved && packs_b);
    bool guards = buffer_destroy(&a.from.buffer);
    guards &= buffer_destroy(&a.to.buffer);
    guards &= buffer_destroy(&b.from.buffer);
    guards &= buffer_destroy(&b.to.buffer);
    right &= guards || wrong(row, "writes past a buffer");
    right &= scalar_destroy(&alpha);
    return right;
}

/* ---- Splitting ------------------------------------------------------------------------------ */

#define PARTS 3
#define STRIP 8 /* elements that a thread takes at a time */

/* One operand of a split: the matrices of a batch, and their parts, to.batch planes of which three are a problem's. */
struct parted {
    struct matrix from;
    struct matrix to;
};

static uint32_t word_of(const struct matrix *matrix, int64_t index)
{
    uint32_t word;
    memcpy(&word, matrix->buffer.before + (size_t)index * sizeof word, sizeof word);
    return word;
}

/* Whether the parts can carry it. */
static bool is_parted(uint32_t word)
{
    uint32_t magnitude = word & 0x7fffffff;
    return magnitude == 0 || (magnitude >= 0x0d800000 && magnitude < 0x7f800000);
}

/* Exponents in a range of the matrix's own, fractions that round every way. */
static uint32_t random_word(int64_t least, int64_t most, struct random *random)
{
    if (random_one_in(random, 12)) {
        return random_one_in(random, 2) ? 0x80000000 : 0;
    }
    uint64_t bits = random_bits(random);
    uint32_t fraction = (uint32_t)bits & 0x7fffff;
    fraction = bits >> 60 == 0 ? 0x7fffff : bits >> 60 == 1 ? fraction | 0x7f8000 : fraction;
    fraction = bits >> 60 == 2   ? (fraction & 0x7f0000) | 0x8000
               : bits >> 60 == 3 ? fraction & 0x7f0080
                                 : fraction;
    return (uint32_t)random_between(random, least, most) << 23 | fraction |
           ((uint32_t)(bits >> 32) & 0x80000000);
}

/* What the parts cannot carry, and what they just can. */
static uint32_t special_word(struct random *random)
{
    static const uint32_t words[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x7f800001, 0xffffffff, 0x0d7fffff,
                                     0x8d7fffff, 0x00000001, 0x80000001, 0x00800000, 0x0d800000, 0x8d800001,
                                     0x7f7fffff, 0xff7f8000, 0x7f7f7fff, 0x7f7f8001};
    return words[random_bits(random) % (sizeof words / sizeof *words)];
}

static struct parted parted_create(int64_t batch, struct random *random)
{
    int64_t rows = random_between(random, 1, 700);
    int64_t columns = random_between(random, 1, 60);
    int64_t least = random_between(random, 27, 254);
    int64_t most = random_between(random, least, 254);
    int alignment = 1 << random_between(random, 2, 4);
    struct parted parted;
    parted.from =
        matrix_create(CARAT_F32, rows, columns, batch, alignment, random_one_in(random, 3), PLAIN, random);
    struct matrix *from = &parted.from;
    int64_t problems = from->stride == 0 ? 1 : batch;
    int64_t specials = random_one_in(random, 2) ? 0 : random_between(random, 1, 3);
    uint32_t word;
    for (int64_t i = 0; i < problems * columns * rows; ++i) {
        int64_t at = i / rows / columns * from->stride + i / rows % columns * from->ld + i % rows;
        word = random_word(least, most, random);
        memcpy(from->buffer.at + (size_t)at * sizeof word, &word, sizeof word);
    }
    for (; specials > 0; --specials) {
        /* Most of them in the corners. */
        int64_t i = random_one_in(random, 3) ? random_between(random, 0, rows - 1) : rows - 1;
        int64_t j = random_one_in(random, 3) ? random_between(random, 0, columns - 1) : columns - 1;
        int64_t at = random_between(random, 0, problems - 1) * from->stride + j * from->ld + i;
        word = special_word(random);
        memcpy(from->buffer.at + (size_t)at * sizeof word, &word, sizeof word);
        if (i > 0 && random_one_in(random, 2)) {
            /* Ahead of it the largest that there is, which what is refused has to outdo. */
            word = 0x7f7fffff;
            memcpy(from->buffer.at + (size_t)(at - 1) * sizeof word, &word, sizeof word);
        }
    }
    buffer_keep(&from->buffer);
    parted.to = (struct matrix){
        .type = CARAT_BF16,
        .rows = round_up(rows, 64) + 64 * random_between(random, 0, 2) * random_between(random, 0, 1),
        .columns = columns + random_between(random, 0, 3) * random_between(random, 0, 3),
        .batch = PARTS * problems,
    };
    parted.to.ld = parted.to.rows;
    parted.to.stride = parted.to.rows * parted.to.columns;
    parted.to.buffer = buffer_create((size_t)(parted.to.stride * parted.to.batch) * sizeof(uint16_t), 0);
    memset(parted.to.buffer.at, 0xff, parted.to.buffer.bytes);
    buffer_keep(&parted.to.buffer);
    return parted;
}

static split_operand parted_operand(const struct parted *parted)
{
    return (split_operand){
        .from = parted->from.buffer.at,
        .to = parted->to.buffer.at,
        .rows = parted->from.rows,
        .columns = parted->from.columns,
        .ld = parted->from.ld,
        .stride = parted->from.stride,
        .columns_to = parted->to.columns,
        .ld_to = parted->to.ld,
        .problems = parted->to.batch / PARTS,
    };
}

/* The nearest bf16, but not infinity. */
static long double nearest_finite(long double value)
{
    uint16_t bits;
    element_set(CARAT_BF16, &bits, 0, value);
    bits = (bits & 0x7fff) == 0x7f80 ? (uint16_t)(bits - 1) : bits;
    return element_get(CARAT_BF16, &bits, 0);
}

/* Whether an element lies in its parts, each the nearest that there is. */
static bool has_parted(const struct parted *parted, int64_t problem, int64_t i, int64_t j)
{
    const struct matrix *from = &parted->from;
    const struct matrix *to = &parted->to;
    int64_t at = problem * PARTS * to->stride + j * to->ld + i;
    bool inside = i < from->rows && j < from->columns;
    int64_t index = problem * from->stride + j * from->ld + i;
    if (inside && !is_parted(word_of(from, index))) {
        return true;
    }
    long double left = inside ? element_get(CARAT_F32, from->buffer.before, index) : 0;
    for (int p = 0; p < PARTS; ++p) {
        long double part = element_get(CARAT_BF16, to->buffer.at, at + p * to->stride);
        if (part != nearest_finite(left)) {
            return false;
        }
        left -= part;
    }
    return left == 0;
}

static bool check_parts(const struct kernel *row, const struct parted *parted, bool read)
{
    const struct matrix *to = &parted->to;
    for (int64_t p = 0; read && p < to->batch / PARTS; ++p) {
        for (int64_t j = 0; j < to->columns; ++j) {
            for (int64_t i = 0; i < to->rows; ++i) {
                if (!has_parted(parted, p, i, j)) {
                    return wrong(row,
                                 "element (%" PRId64 ", %" PRId64 ") of problem %" PRId64
                                 " is not its parts: %" PRId64 " x %" PRId64 " to %" PRId64 " x %" PRId64,
                                 i, j, p, parted->from.rows, parted->from.columns, to->rows, to->columns);
                }
            }
        }
    }
    return (read || buffer_is_kept(&to->buffer) || wrong(row, "writes parts of what it should not read")) &&
           (buffer_is_kept(&parted->from.buffer) || wrong(row, "writes what it should not"));
}

/* A word and what one element more adds to it: exponents, the largest above, 255 less the least below. */
static uint32_t verdict_with(uint32_t word, uint32_t element)
{
    uint32_t exponent = element >> 23 & 0xff;
    uint32_t largest = word >> 8 > exponent ? word >> 8 : exponent;
    uint32_t least = (word & 0xff) > 255 - exponent ? word & 0xff : 255 - exponent;
    return (element & 0x7fffffffu) == 0 ? word : largest << 8 | least;
}

/* Adds what the operand's blocks have to say, which take strip after strip in turn, to their words. */
static void expect_verdicts(const struct kernel *row, const struct parted *parted, int64_t blocks,
                            uint32_t *words)
{
    const struct matrix *from = &parted->from;
    for (int64_t p = 0; p < parted->to.batch / PARTS; ++p) {
        for (int64_t j = 0; j < from->columns; ++j) {
            for (int64_t i = 0; i < from->rows; ++i) {
                int64_t strip = ((p * parted->to.columns + j) * parted->to.ld + i) / STRIP;
                uint32_t *expected = &words[strip / row->threads_x % blocks];
                *expected = verdict_with(*expected, word_of(from, p * from->stride + j * from->ld + i));
            }
        }
    }
}

static int64_t blocks_of_parted(const struct kernel *row, const struct parted *parted, struct random *random)
{
    int64_t strips = parted->to.stride * (parted->to.batch / PARTS) / STRIP;
    int64_t blocks = ceiling(strips, row->threads_x);
    return random_one_in(random, 2) ? blocks : random_between(random, 1, blocks + 1);
}

static bool check_splitting(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    int64_t batch = random_one_in(random, 3) ? random_between(random, 2, 3) : 1;
    /* A split behind another product may have nothing to do. */
    uint32_t left = random_one_in(random, 2);
    bool asks = random_one_in(random, 3);
    struct parted a = parted_create(batch, random);
    struct parted b = parted_create(batch, random);
    struct scalar alpha = scalar_create(CARAT_F32, random);
    bool splits_a = !random_one_in(random, 4);
    bool splits_b = !splits_a || !random_one_in(random, 4);
    bool read = !scalar_is_zero(&alpha, CARAT_F32) && (!asks || left != 0);
    int64_t blocks_a = splits_a ? blocks_of_parted(row, &a, random) : 0;
    int64_t blocks_b = splits_b ? blocks_of_parted(row, &b, random) : 0;
    struct buffer verdicts = buffer_create((size_t)(blocks_a + blocks_b) * sizeof(uint32_t), 4);
    memset(verdicts.at, 0xff, verdicts.bytes);
    split_arguments arguments = {.alpha = alpha.argument,
                                 .verdicts = (uint32_t *)(void *)verdicts.at,
                                 .left = asks ? &left : NULL,
                                 .blocks_a = (int32_t)blocks_a};
    uint32_t *expected = (uint32_t *)(void *)verdicts.before;
    memset(expected, 0, verdicts.bytes);
    if (splits_a) {
        arguments.a = parted_operand(&a);
    }
    if (splits_b) {
        arguments.b = parted_operand(&b);
    }
    if (splits_a && read) {
        expect_verdicts(row, &a, blocks_a, expected);
    }
    if (splits_b && read) {
        expect_verdicts(row, &b, blocks_b, expected + blocks_a);
    }
    launch(row, kernel, blocks_a + blocks_b, &arguments, random);
    bool right = check_parts(row, &a, read && splits_a);
    right &= check_parts(row, &b, read && splits_b);
    right &= buffer_is_kept(&verdicts) || wrong(row, "gives a wrong verdict");
    bool guards = buffer_destroy(&a.from.buffer);
    guards &= buffer_destroy(&a.to.buffer);
    guards &= buffer_destroy(&b.from.buffer);
    guards &= buffer_destroy(&b.to.buffer);
    guards &= buffer_destroy(&verdicts);
    right &= guards || wrong(row, "writes past a buffer");
    right &= scalar_destroy(&alpha);
    return right;
}

/* ---- Splitting into scaled f16 ----------------------------------------------------------------- */

#define BLOCK_SIDE 64

/* One operand: `vectors` rows of op(A) or columns of op(B), of k elements each. */
struct lifted {
    struct parted parted;
    int64_t vectors;
    int64_t k;
    bool along_k;
};

/* Exponents of an operand: near each other, far apart, or at the ends of what is scaled. */
static void lifted_exponents(int64_t *least, int64_t *most, struct random *random)
{
    switch (random_between(random, 0, 4)) {
    case 0:
        *least = 78 - random_between(random, 0, 2);
        *most = *least + random_between(random, 0, 1);
        break;
    case 1:
        *most = 177 + random_between(random, 0, 1);
        *least = *most - random_between(random, 0, 30);
        break;
    case 2:
        *least = random_between(random, 0, 254);
        *most = random_between(random, *least, 254);
        break;
    default:
        *least = random_between(random, 80, 160);
        *most = *least + random_between(random, 0, 12);
    }
}

static struct lifted lifted_create(int64_t k, int64_t batch, struct random *random)
{
    struct lifted lifted = {
        .vectors = random_between(random, 1, 140), .k = k, .along_k = random_one_in(random, 2)};
    int64_t rows = lifted.along_k ? k : lifted.vectors;
    int64_t columns = lifted.along_k ? lifted.vectors : k;
    struct matrix *from = &lifted.parted.from;
    int64_t least;
    int64_t most;
    lifted_exponents(&least, &most, random);
    *from = matrix_create(CARAT_F32, rows, columns, batch, 1 << random_between(random, 2, 4),
                          random_one_in(random, 3), PLAIN, random);
    int64_t problems = from->stride == 0 ? 1 : batch;
    /* Now and then whole stretches of memory are 0, and in them an element is not. */
    bool sparse = random_one_in(random, 4);
    uint64_t zeros = random_bits(random);
    for (int64_t i = 0; i < problems * columns * rows; ++i) {
        int64_t column = i / rows % columns;
        int64_t at = i / rows / columns * from->stride + column * from->ld + i % rows;
        bool zero =
            sparse && (zeros >> (lifted.along_k ? column : i % rows) % 64 & 1) && !random_one_in(random, 900);
        uint32_t word = zero ? 0 : random_word(least, most, random);
        if (random_one_in(random, 20000)) {
            word = special_word(random);
        }
        memcpy(from->buffer.at + (size_t)at * sizeof word, &word, sizeof word);
    }
    buffer_keep(&from->buffer);
    struct matrix *to = &lifted.parted.to;
    *to = (struct matrix){
        .type = CARAT_F16, .rows = round_up(rows, 64), .columns = columns, .batch = 2 * problems};
    to->ld = to->rows;
    to->stride = to->rows * to->columns;
    to->buffer = buffer_create((size_t)(to->stride * to->batch) * sizeof(uint16_t), 0);
    memset(to->buffer.at, 0xff, to->buffer.bytes);
    buffer_keep(&to->buffer);
    return lifted;
}

static int64_t slices_of(int64_t k) { return k < BLOCK_SIDE ? 1 : k / BLOCK_SIDE; }

static int64_t blocks_of_lifted(const struct lifted *lifted)
{
    return slices_of(lifted->k) * ceiling(lifted->vectors, BLOCK_SIDE) * lifted->parted.to.batch / 2;
}

/* Where element l of vector v of a problem lies in a matrix. */
static int64_t lifted_place(const struct lifted *lifted, const struct matrix *matrix, int64_t problem,
                            int64_t vector, int64_t l)
{
    return problem * matrix->stride + (lifted->along_k ? vector * matrix->ld + l : l * matrix->ld + vector);
}

/* A block: of one problem so many vectors and k, from the first ones on. */
struct lifted_block {
    int64_t problem;
    int64_t vector;
    int64_t vectors;
    int64_t l;
    int64_t length;
};

static struct lifted_block lifted_block_of(const struct lifted *lifted, int64_t index)
{
    int64_t slices = slices_of(lifted->k);
    int64_t high = ceiling(lifted->vectors, BLOCK_SIDE);
    struct lifted_block block = {.problem = index / slices / high,
                                 .vector = index / slices % high * BLOCK_SIDE,
                                 .l = index % slices * BLOCK_SIDE};
    int64_t left = lifted->vectors - block.vector;
    block.vectors = left < BLOCK_SIDE ? left : BLOCK_SIDE;
    block.length = index % slices == slices - 1 ? lifted->k - block.l : BLOCK_SIDE;
    return block;
}

static uint32_t magnitude_in(const struct lifted *lifted, const struct lifted_block *block, int64_t v,
                             int64_t l)
{
    const struct matrix *from = &lifted->parted.from;
    int64_t at = lifted_place(lifted, from, block->problem, block->vector + v, block->l + l);
    return word_of(from, at) & 0x7fffffff;
}

/* What a block's word should be. */
static uint32_t lifted_word(const struct lifted *lifted, const struct lifted_block *block)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < block->vectors * block->length; ++i) {
        uint32_t magnitude = magnitude_in(lifted, block, i / block->length, i % block->length);
        largest = magnitude > largest ? magnitude : largest;
    }
    uint32_t exponent = largest >> 23;
    bool usable = exponent >= 77 && exponent <= 177;
    uint32_t least = usable ? (exponent - 6) << 23 : 1;
    uint32_t fewest = 127;
    bool zeros = false;
    for (int64_t v = 0; v < block->vectors; ++v) {
        uint32_t large = 0;
        bool any = false;
        for (int64_t l = 0; l < block->length; ++l) {
            large += magnitude_in(lifted, block, v, l) >= least;
            any |= magnitude_in(lifted, block, v, l) != 0;
        }
        fewest = any && large < fewest ? large : fewest;
        zeros |= !any;
    }
    uint32_t seen = largest == 0 ? 0 : usable ? exponent : 255;
    return seen << 8 | (uint32_t)zeros << 7 | (seen == 255 ? 0 : fewest);
}

/* Whether an element of a block that is scaled by 2^power lies in its parts. */
static bool is_lifted(const struct lifted *lifted, const struct lifted_block *block, int64_t v, int64_t l,
                      int power)
{
    const struct matrix *to = &lifted->parted.to;
    int64_t at = lifted_place(lifted, &lifted->parted.from, block->problem, block->vector + v, block->l + l);
    int64_t in = lifted_place(lifted, to, 2 * block->problem, block->vector + v, block->l + l);
    long double left = ldexpl(element_get(CARAT_F32, lifted->parted.from.buffer.before, at), power);
    for (int part = 0; part < 2; ++part) {
        uint16_t nearest;
        element_set(CARAT_F16, &nearest, 0, left);
        long double given = element_get(CARAT_F16, to->buffer.at, in + part * to->stride);
        if (given != element_get(CARAT_F16, &nearest, 0)) {
            return false;
        }
        left -= given;
    }
    return true;
}

/* Whether what lies beyond the operand is zero. */
static bool pads_with_zeros(const struct lifted *lifted)
{
    const struct matrix *to = &lifted->parted.to;
    for (int64_t i = 0; i < to->batch * to->columns * to->rows; ++i) {
        bool inside = i % to->rows < lifted->parted.from.rows;
        if (!inside && element_get(CARAT_F16, to->buffer.at, i) != 0) {
            return false;
        }
    }
    return true;
}

/* Checks planes and the words of one operand. Blocks that cannot be scaled may hold anything. */
static bool check_lifted(const struct kernel *row, const struct lifted *lifted, const uint32_t *words,
                         bool read)
{
    const struct matrix *to = &lifted->parted.to;
    bool all_scaled = true;
    for (int64_t index = 0; read && index < blocks_of_lifted(lifted); ++index) {
        struct lifted_block block = lifted_block_of(lifted, index);
        uint32_t word = lifted_word(lifted, &block);
        if (words[index] != word) {
            return wrong(row, "gives word %x of block %" PRId64 ", not %x", words[index], index, word);
        }
        all_scaled &= word >> 8 != 255;
        int power = word >> 8 == 0 ? 0 : 127 + 14 - (int)(word >> 8);
        for (int64_t i = 0; word >> 8 != 255 && i < block.vectors * block.length; ++i) {
            if (!is_lifted(lifted, &block, i / block.length, i % block.length, power)) {
                return wrong(row, "element %" PRId64 " of block %" PRId64 " is not its parts", i, index);
            }
        }
    }
    if (read && all_scaled && !pads_with_zeros(lifted)) {
        return wrong(row, "puts something behind an operand");
    }
    return (read || buffer_is_kept(&to->buffer) || wrong(row, "writes parts of what it should not read")) &&
           (buffer_is_kept(&lifted->parted.from.buffer) || wrong(row, "writes what it should not"));
}

static split_operand lifted_operand(const struct lifted *lifted)
{
    split_operand operand = parted_operand(&lifted->parted);
    operand.problems = lifted->parted.to.batch / 2;
    operand.along_k = lifted->along_k;
    return operand;
}

static bool lifted_destroy(struct lifted *lifted)
{
    bool guarded = buffer_destroy(&lifted->parted.from.buffer);
    return guarded & buffer_destroy(&lifted->parted.to.buffer);
}

static bool check_lifting(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    static const int64_t edges[] = {1, 63, 64, 65, 127, 128, 129, 191, 192};
    int64_t batch = random_one_in(random, 3) ? 2 : 1;
    int64_t k =
        random_one_in(random, 2) ? edges[random_between(random, 0, 8)] : random_between(random, 1, 260);
    struct lifted a = lifted_create(k, batch, random);
    struct lifted b = lifted_create(k, batch, random);
    struct scalar alpha = scalar_create(CARAT_F32, random);
    bool read = !scalar_is_zero(&alpha, CARAT_F32);
    int64_t blocks_a = blocks_of_lifted(&a);
    int64_t blocks = blocks_a + blocks_of_lifted(&b);
    struct buffer words = buffer_create((size_t)blocks * sizeof(uint32_t), 4);
    struct buffer left = buffer_create(sizeof(uint32_t), 4);
    memset(left.at, 0xff, left.bytes);
    split_arguments arguments = {
        .a = lifted_operand(&a),
        .b = lifted_operand(&b),
        .alpha = alpha.argument,
        .verdicts = (uint32_t *)(void *)words.at,
        .left = (uint32_t *)(void *)left.at,
        .blocks_a = (int32_t)blocks_a,
        .slices = (int32_t)slices_of(k),
    };
    launch(row, kernel, blocks, &arguments, random);
    bool right = check_lifted(row, &a, arguments.verdicts, read);
    right &= check_lifted(row, &b, arguments.verdicts + blocks_a, read);
    right &= *arguments.left == 0 || wrong(row, "does not say that nothing is left so far");
    bool guards = lifted_destroy(&a);
    guards &= lifted_destroy(&b);
    guards &= buffer_destroy(&words);
    guards &= buffer_destroy(&left);
    right &= guards || wrong(row, "writes past a buffer");
    right &= scalar_destroy(&alpha);
    return right;
}

bool kernel_check(const struct kernel *row, const struct cpu_kernel *kernel, struct random *random)
{
    switch (row->operation) {
    case OPERATION_GEMM:
    case OPERATION_LADDER:
        return check_product(row, kernel, random) && (!row->splits || check_refusals(row, kernel, random));
    case OPERATION_REDUCE:
        return check_reduction(row, kernel, random);
    case OPERATION_PACK:
        return check_packing(row, kernel, random);
    case OPERATION_SPLIT:
        return row->planes == 2 ? check_lifting(row, kernel, random) : check_splitting(row, kernel, random);
    case OPERATION_SCALE_ADD:
        return check_scaling(row, kernel, random);
    case OPERATION_TRANSPOSE:
        return check_transpose(row, kernel, random);
    default:
        return wrong(row, "there is no check for its operation");
    }
}
