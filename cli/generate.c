/*
 * generate.c - see generate.h.
 *
 * The elements are drawn a chunk at a time, each chunk from a stream of its own that starts from the seed and
 * the chunk's number: so threads can fill chunks in any order.
 *
 * Normal numbers come from a ziggurat (Marsaglia and Tsang, 2000): the area under exp(-x^2 / 2) is
 * covered by LAYERS strips of one area, the lowest with the tail. A point drawn in a random strip lies nearly
 * always inside the curve, which one comparison shows.
 */
#include "generate.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "element.h"

enum { LAYERS = 128, CHUNK = 1 << 16, MOST_THREADS = 16 };

static const double tail_begin = 3.442619855899;
static const double layer_area = 9.91256303526217e-3;
static double layer_edge[LAYERS + 1]; /* the right end of each strip, from the widest to 0 */
static pthread_once_t layers_once = PTHREAD_ONCE_INIT;

static double density(double x) { return exp(-0.5 * x * x); }

static void make_layers(void)
{
    layer_edge[0] = layer_area / density(tail_begin);
    layer_edge[1] = tail_begin;
    for (int i = 2; i < LAYERS; i++) {
        double edge = layer_edge[i - 1];
        layer_edge[i] = sqrt(-2 * log(layer_area / edge + density(edge)));
    }
    layer_edge[LAYERS] = 0;
}

uint64_t next_word(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t word = *state;
    word = (word ^ word >> 30) * 0xbf58476d1ce4e5b9u;
    word = (word ^ word >> 27) * 0x94d049bb133111ebu;
    return word ^ word >> 31;
}

/* The upper 53 bits of a word as a number in (-1, 1), never 0. */
static double symmetric(uint64_t word) { return ((double)(word >> 11) + 0.5) * 0x1p-52 - 1; }

static double positive(uint64_t word) { return ((double)(word >> 11) + 0.5) * 0x1p-53; }

static double draw_normal(uint64_t *state)
{
    for (;;) {
        uint64_t word = next_word(state);
        int layer = (int)(word & (LAYERS - 1));
        double u = symmetric(word);
        double x = u * layer_edge[layer];
        if (fabs(x) < layer_edge[layer + 1]) {
            return x;
        }
        if (layer == 0) { /* beyond the lowest strip's edge: the tail, by Marsaglia's method */
            double beyond, height;
            do {
                beyond = -log(positive(next_word(state))) / tail_begin;
                height = -log(positive(next_word(state)));
            } while (2 * height < beyond * beyond);
            return u < 0 ? -tail_begin - beyond : tail_begin + beyond;
        }
        double low = density(layer_edge[layer]);
        double high = density(layer_edge[layer + 1]);
        if (low + positive(next_word(state)) * (high - low) < density(x)) {
            return x;
        }
    }
}

struct job {
    carat_type type;
    enum family family;
    uint64_t seed;
    int64_t count;
    void *elements;
    double scale;
    atomic_int_least64_t next_chunk;
};

static double family_scale(carat_type type, enum family family)
{
    bool normal = family == FAMILY_NORMAL;
    switch (type) {
    case CARAT_S8:
        return normal ? 32 : 128;
    case CARAT_S32:
        return normal ? 65536 : 0x1p31;
    default:
        return 1;
    }
}

static void *fill_chunks(void *argument)
{
    struct job *job = (struct job *)argument;
    for (;;) {
        int64_t chunk = atomic_fetch_add(&job->next_chunk, 1);
        if (chunk > job->count / CHUNK) {
            return NULL;
        }
        /* The seed and the number each go through the mixer, or neighbours would share a stream. */
        uint64_t state = job->seed;
        state = next_word(&state) ^ (uint64_t)chunk;
        state = next_word(&state);
        int64_t begin = chunk * CHUNK;
        int64_t end = job->count - begin < CHUNK ? job->count : begin + CHUNK;
        for (int64_t at = begin; at < end; at++) {
            double value = job->family == FAMILY_NORMAL ? draw_normal(&state) : symmetric(next_word(&state));
            element_store(job->type, job->elements, at, value * job->scale);
        }
    }
}

void generate(carat_type type, enum family family, uint64_t seed, int64_t count, void *elements)
{
    pthread_once(&layers_once, make_layers);
    struct job job = {type, family, seed, count, elements, family_scale(type, family), 0};
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[MOST_THREADS];
    int started = 0;
    /* This thread is one of them; one that cannot be started leaves its chunks to the others. */
    while (started < MOST_THREADS && started + 1 < processors && started < count / CHUNK &&
           pthread_create(&threads[started], NULL, fill_chunks, &job) == 0) {
        started++;
    }
    fill_chunks(&job);
    for (int i = 0; i < started; i++) {
        pthread_join(threads[i], NULL);
    }
}
