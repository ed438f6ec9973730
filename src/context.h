/*
 * context.h - one device and the plans made for it.
 *
 * A plan that carat_plan_create() gives and a plan that the context remembers are the same object,
 * counted by its holders: so a plan may leave the cache while another thread still runs it.
 */
#ifndef CARAT_CONTEXT_H
#define CARAT_CONTEXT_H

#include <stdatomic.h>

#include "device.h"
#include "plan.h"

struct plan_cache;

struct carat_context {
    struct device *device;
    struct plan_cache *plans;
    struct tuning_table *tuning; /* of the device's traits; NULL: none */
};

struct carat_plan {
    carat_context *context;
    uint64_t hash;             /* of plan.problem */
    atomic_int holders;        /* the cache, and every caller that has it */
    atomic_uint_fast64_t used; /* when last, as the cache counts time */
    struct plan plan;
};

/* The device of a context, for what goes beyond the public interface. */
struct device *carat_context_device(carat_context *context);

struct plan_cache *plan_cache_create(void);

/* Frees the cache and the plans that nobody else holds. NULL is allowed. */
void plan_cache_destroy(struct plan_cache *cache);

/*
 * The plan of a problem: the remembered one, or one made now and remembered. The caller holds it
 * until plan_release().
 */
carat_status plan_acquire(carat_context *context, const struct problem *problem, carat_plan **plan);
void plan_release(carat_plan *plan);

#endif
