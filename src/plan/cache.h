/*
** cache.h - plans by what they were made from.
**
** The key is content: the forest's parents and lengths, the options, and
** what the planner reads of the model. Two batches with the same numbers
** share a plan, whoever made them; the whole key is compared, not only its
** hash. The least recently used plan gives way when the cache is full. One
** thread at a time.
*/
#ifndef PLAN_CACHE_H
#define PLAN_CACHE_H

#include "plan/plan.h"

struct plan_cache;

/* Holds up to capacity plans (less than 1 is taken as 1). */
int plan_cache_new(int64_t capacity, struct plan_cache **out, struct err *e)
    MUST_CHECK;
void plan_cache_free(struct plan_cache *c);     /* NULL is fine */

/* As plan_make, but *out is the cache's: it has its own copy of the batch,
** and stays until capacity other plans have been asked for, or the cache is
** freed. */
int plan_cache_get(struct plan_cache *c, const struct model *m,
                   const struct batch *b, const struct plan_options *o,
                   const struct plan **out, struct err *e) MUST_CHECK;

#endif
