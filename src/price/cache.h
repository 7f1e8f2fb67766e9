/*
** cache.h - prices by what they were made from, beside the plans.
**
** A planner meets the same batch again and again while it searches. The
** plan's key is content (plan/cache.h); a price's is its plan and the few
** numbers below. One thread at a time.
*/
#ifndef PRICE_CACHE_H
#define PRICE_CACHE_H

#include "plan/cache.h"
#include "price/price.h"

/* What a price depends on beside model, batch and plan options. */
struct price_ask {
    const struct price_estimator *by;
    int64_t lora_rank;
    int64_t head_rows;          /* -1: all */
    bool cold;                  /* a first wave, with all adapter gradients
                                   pending; else a later one */
};

struct price_cache;

/* Holds up to capacity plans, and as many prices (less than 1 is taken as 1).
** The model must outlive the cache and stay as it is. */
int price_cache_new(const struct model *m, int64_t capacity,
                    struct price_cache **out, struct err *e) MUST_CHECK;
void price_cache_free(struct price_cache *c);   /* NULL is fine */

/* The plan of the batch and what the estimator says of it. Both are the
** cache's, and stay until the next call. */
int price_cache_get(struct price_cache *c, const struct batch *b,
                    const struct plan_options *o, const struct price_ask *ask,
                    const struct plan **plan, const struct estimate **out,
                    struct err *e) MUST_CHECK;

#endif
