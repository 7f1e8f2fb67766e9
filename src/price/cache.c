/* cache.c - see cache.h */
#include "price/cache.h"

#include <stdlib.h>

#include "base/num.h"

struct entry {
    int64_t plan_id;
    struct price_ask ask;
    struct estimate estimate;
    int64_t used;               /* when last; 0: the entry is free */
};

struct price_cache {
    const struct model *model;
    struct plan_cache *plans;
    struct entry *entry;
    int64_t capacity, clock;
};

int price_cache_new(const struct model *m, int64_t capacity,
                    struct price_cache **out, struct err *e)
{
    struct price_cache *c = calloc(1, sizeof *c);
    int rc;

    if (c == NULL) return err_nomem(e);
    c->model = m;
    c->capacity = num_max(1, capacity);
    c->entry = calloc((size_t)c->capacity, sizeof *c->entry);
    rc = c->entry == NULL ? err_nomem(e)
                          : plan_cache_new(c->capacity, &c->plans, e);
    if (rc == ERR_OK)
        *out = c;
    else
        price_cache_free(c);
    return rc;
}

void price_cache_free(struct price_cache *c)
{
    if (c == NULL) return;
    plan_cache_free(c->plans);
    free(c->entry);
    free(c);
}

static bool is_of(const struct entry *x, const struct plan *p,
                  const struct price_ask *ask)
{
    return x->used > 0 && x->plan_id == p->id && x->ask.by == ask->by &&
           x->ask.lora_rank == ask->lora_rank &&
           x->ask.head_rows == ask->head_rows && x->ask.cold == ask->cold;
}

/* The price of a plan: facts, and what the estimator makes of them. */
static int make(const struct price_cache *c, const struct plan *p, int64_t ep,
                const struct price_ask *ask, struct estimate *out,
                struct err *e)
{
    struct price_facts f;
    int rc = price_facts_from_plan(c->model, p, num_max(1, ep),
                                   ask->lora_rank, &f, e);

    if (rc != ERR_OK) return rc;
    f.cold = ask->cold;
    f.head_rows = ask->head_rows >= 0 ? ask->head_rows : p->tokens;
    if (ask->cold && ask->lora_rank > 0) rc = price_facts_all_pending(&f, e);
    if (rc == ERR_OK) rc = ask->by->price(&f, out, e);
    price_facts_free(&f);
    return rc;
}

/* In place of the price used longest ago. */
static int make_entry(struct price_cache *c, const struct plan *p, int64_t ep,
                      const struct price_ask *ask, struct entry **out,
                      struct err *e)
{
    struct entry *x = &c->entry[0];
    int64_t i;
    int rc;

    for (i = 1; i < c->capacity; i++)
        if (c->entry[i].used < x->used) x = &c->entry[i];
    x->used = 0;
    rc = make(c, p, ep, ask, &x->estimate, e);
    x->plan_id = p->id;
    x->ask = *ask;
    *out = x;
    return rc;
}

int price_cache_get(struct price_cache *c, const struct batch *b,
                    const struct plan_options *o, const struct price_ask *ask,
                    const struct plan **plan, const struct estimate **out,
                    struct err *e)
{
    struct entry *x = NULL;
    int64_t i;
    int rc = plan_cache_get(c->plans, c->model, b, o, plan, e);

    if (rc != ERR_OK) return rc;
    for (i = 0; i < c->capacity && x == NULL; i++)
        if (is_of(&c->entry[i], *plan, ask)) x = &c->entry[i];
    if (x == NULL) rc = make_entry(c, *plan, o->ep, ask, &x, e);
    if (rc != ERR_OK) return rc;
    x->used = ++c->clock;
    *out = &x->estimate;
    return ERR_OK;
}
