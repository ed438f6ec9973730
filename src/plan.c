/*
 * plan.c - plan objects, and the cache that remembers the plan of every recent problem.
 *
 * The cache is a hash table of fixed size: a plan stands in one of the WAYS slots from its hash on.
 * When all of them are taken, the one used longest ago makes room. Its clock ticks with every
 * insertion, so that a lookup writes nothing that other threads' lookups contend for.
 */
#include <pthread.h>
#include <stdlib.h>

#include "context.h"
#include "status.h"

#define SLOTS 1024
#define WAYS 8

struct plan_cache {
    pthread_rwlock_t lock;
    atomic_uint_fast64_t clock;
    carat_plan *slots[SLOTS];
};

struct plan_cache *plan_cache_create(void)
{
    struct plan_cache *cache = calloc(1, sizeof(*cache));
    if (cache && pthread_rwlock_init(&cache->lock, NULL) != 0) {
        free(cache);
        return NULL;
    }
    return cache;
}

void plan_cache_destroy(struct plan_cache *cache)
{
    if (cache) {
        for (int i = 0; i < SLOTS; i++) {
            plan_release(cache->slots[i]);
        }
        pthread_rwlock_destroy(&cache->lock);
        free(cache);
    }
}

void plan_release(carat_plan *plan)
{
    if (plan && atomic_fetch_sub(&plan->holders, 1) == 1) {
        free(plan);
    }
}

/* A plan that had no room for this is made anew to do without any. */
#define LEAST_WORKSPACE ((int64_t)16 << 20)

int64_t plan_less_workspace(const struct plan *plan)
{
    int64_t asked = plan->problem.most_workspace;
    int64_t taken = (int64_t)plan->workspace_bytes;
    if (taken == 0 || (asked > 0 && taken > asked)) {
        return 0;
    }
    return taken / 2 < LEAST_WORKSPACE ? 1 : taken / 2;
}

/* The numbers that make one problem differ from another, in one row. */
struct key {
    int64_t values[16];
};

#define KEY_LENGTH ((int)(sizeof(((struct key *)0)->values) / sizeof(int64_t)))

static struct key problem_key(const struct problem *problem)
{
    int64_t kinds = (int64_t)problem->type_a << 32 | (int64_t)problem->type_cd << 16 |
                    (int64_t)problem->accuracy << 8 | problem->mirrors_b << 4 | problem->mirrors_a << 3 |
                    problem->swapped << 2 | problem->trans_a << 1 | (int64_t)problem->trans_b;
    /* Alignments are powers of two up to 16. */
    int64_t epilogue = (int64_t)problem->align_a << 48 | (int64_t)problem->align_b << 40 |
                       (int64_t)problem->type_b << 32 | (int64_t)problem->type_bias << 16 |
                       (int64_t)problem->activation << 8 | problem->bias << 1 | problem->bias_along_n;
    struct key key = {{kinds, problem->m, problem->n, problem->k, problem->lda, problem->ldb, problem->ldc,
                       problem->ldd, problem->batch, problem->stride_a, problem->stride_b, problem->stride_c,
                       problem->stride_d, epilogue, problem->stride_bias, problem->most_workspace}};
    return key;
}

static uint64_t problem_hash(const struct problem *problem)
{
    struct key key = problem_key(problem);
    uint64_t hash = 0;
    for (int i = 0; i < KEY_LENGTH; i++) {
        hash = (hash ^ (uint64_t)key.values[i]) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
    }
    return hash;
}

bool problem_equal(const struct problem *x, const struct problem *y)
{
    struct key key_x = problem_key(x);
    struct key key_y = problem_key(y);
    for (int i = 0; i < KEY_LENGTH; i++) {
        if (key_x.values[i] != key_y.values[i]) {
            return false;
        }
    }
    return true;
}

static carat_plan **slot_of(struct plan_cache *cache, uint64_t hash, int way)
{
    return &cache->slots[(hash + (uint64_t)way) % SLOTS];
}

/* The remembered plan, held for the caller, or NULL. The lock is held by the caller. */
static carat_plan *find(struct plan_cache *cache, const struct problem *problem, uint64_t hash)
{
    for (int way = 0; way < WAYS; way++) {
        carat_plan *plan = *slot_of(cache, hash, way);
        if (plan && plan->hash == hash && problem_equal(&plan->plan.problem, problem)) {
            uint_fast64_t now = atomic_load_explicit(&cache->clock, memory_order_relaxed);
            atomic_store_explicit(&plan->used, now, memory_order_relaxed);
            atomic_fetch_add(&plan->holders, 1);
            return plan;
        }
    }
    return NULL;
}

/* Puts a plan in an empty slot or in the one used longest ago. The lock is held by the caller. */
static void insert(struct plan_cache *cache, carat_plan *plan)
{
    carat_plan **place = slot_of(cache, plan->hash, 0);
    for (int way = 0; way < WAYS && *place; way++) {
        carat_plan **slot = slot_of(cache, plan->hash, way);
        if (!*slot || atomic_load(&(*slot)->used) < atomic_load(&(*place)->used)) {
            place = slot;
        }
    }
    plan_release(*place);
    *place = plan;
    atomic_store(&plan->used, atomic_fetch_add(&cache->clock, 1) + 1);
    atomic_fetch_add(&plan->holders, 1);
}

carat_status plan_acquire(carat_context *context, const struct problem *problem, carat_plan **plan)
{
    struct plan_cache *cache = context->plans;
    uint64_t hash = problem_hash(problem);

    pthread_rwlock_rdlock(&cache->lock);
    *plan = find(cache, problem, hash);
    pthread_rwlock_unlock(&cache->lock);
    if (*plan) {
        return CARAT_OK;
    }

    carat_plan *made = calloc(1, sizeof(*made) + context->device->functions->kept_bytes);
    if (!made) {
        return fail(CARAT_OUT_OF_HOST_MEMORY, "no host memory for a plan");
    }
    carat_status status = plan_choose(&context->device->traits, problem, &made->plan);
    if (status != CARAT_OK) {
        free(made);
        return status;
    }
    made->plan.kept = context->device->functions->kept_bytes > 0 ? made + 1 : NULL;
    made->context = context;
    made->hash = hash;
    atomic_init(&made->holders, 1);

    /* Another thread may have been quicker: then its plan serves. */
    pthread_rwlock_wrlock(&cache->lock);
    *plan = find(cache, problem, hash);
    if (!*plan) {
        insert(cache, made);
        *plan = made;
        made = NULL;
    }
    pthread_rwlock_unlock(&cache->lock);
    plan_release(made);
    return CARAT_OK;
}
