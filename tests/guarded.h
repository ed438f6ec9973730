/*
 * guarded.h - memory for a call under test, wherever the call wants it, with guard bytes on both
 * sides and a copy of what it should hold.
 */
#ifndef CARAT_TESTS_GUARDED_H
#define CARAT_TESTS_GUARDED_H

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "carat/carat.h"

#define GUARD_BYTES 256

struct guarded {
    carat_context *context;
    bool on_device;
    size_t bytes;          /* of the content */
    size_t shift;          /* of the content's address from a multiple of 256 */
    unsigned char *expect; /* guards and content, as they should be */
    unsigned char *memory; /* as they are */
};

static inline size_t guarded_total(const struct guarded *g) { return g->bytes + g->shift + 2 * GUARD_BYTES; }

/* What the test writes and reads, and what the call is given. */
static inline void *guarded_content(const struct guarded *g) { return g->expect + GUARD_BYTES + g->shift; }
static inline void *guarded_pointer(const struct guarded *g) { return g->memory + GUARD_BYTES + g->shift; }

/* Content begins as pattern bytes that differ from place to place. */
static inline struct guarded guarded_create(carat_context *context, bool on_device, size_t bytes,
                                            size_t shift)
{
    struct guarded g = {context, on_device, bytes, shift, NULL, NULL};
    g.expect = malloc(guarded_total(&g));
    void *memory = NULL;
    if (on_device) {
        if (carat_allocate(context, CARAT_MEMORY_DEVICE, guarded_total(&g), &memory) != CARAT_OK) {
            abort();
        }
    } else {
        memory = aligned_alloc(256, (guarded_total(&g) + 255) / 256 * 256);
    }
    g.memory = memory;
    if (!g.expect || !g.memory) {
        abort();
    }
    for (size_t i = 0; i < guarded_total(&g); i++) {
        g.expect[i] = (unsigned char)(0x55 + i * 37);
    }
    return g;
}

static inline void guarded_destroy(struct guarded *g)
{
    if (g->on_device) {
        carat_release(g->context, g->memory);
    } else {
        free(g->memory);
    }
    free(g->expect);
}

/* Brings what the test wrote to where the call sees it. */
static inline carat_status guarded_upload(const struct guarded *g)
{
    if (g->on_device) {
        return carat_copy(g->context, g->memory, g->expect, guarded_total(g), NULL);
    }
    memcpy(g->memory, g->expect, guarded_total(g));
    return CARAT_OK;
}

/* What is there now, guards included; the caller frees it. Its content begins at guarded_content_of(). */
static inline unsigned char *guarded_download(const struct guarded *g)
{
    unsigned char *now = malloc(guarded_total(g));
    if (!now) {
        abort();
    }
    if (!g->on_device) {
        memcpy(now, g->memory, guarded_total(g));
    } else if (carat_copy(g->context, now, g->memory, guarded_total(g), NULL) != CARAT_OK) {
        abort();
    }
    return now;
}

static inline void *guarded_content_of(const struct guarded *g, unsigned char *downloaded)
{
    return downloaded + GUARD_BYTES + g->shift;
}

/* Whether every byte is as it was uploaded. */
static inline bool guarded_untouched(const struct guarded *g)
{
    unsigned char *now = guarded_download(g);
    bool same = memcmp(now, g->expect, guarded_total(g)) == 0;
    free(now);
    return same;
}

#endif
