/* fit.c - see fit.h */
#include "fit/fit.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/param.h"
#include "price/cache.h"

/* Of every hundred bytes so many are kept free (pricing.md 1). */
#define RESERVE_PERCENT 3
/* f32, two for each adapter element; adapters are bf16. */
#define MOMENT_BYTES 8
#define ADAPTER_BYTES 2
/* The estimators' searches begin alike: plans that are kept meanwhile. */
#define PROBES 64

/* ---- what is held -------------------------------------------------------- */

/* Slots with adapters of their own: all names but the base model's. */
static int64_t count_slots(const struct price_facts *f)
{
    int64_t i, j, n = 0;

    for (i = 0; i < f->n_group; i++) {
        if (strcmp(f->group[i].slot, PRICE_BASE_SLOT) == 0) continue;
        for (j = 0; j < i; j++)
            if (strcmp(f->group[j].slot, f->group[i].slot) == 0) break;
        n += j == i;
    }
    return n;
}

/* What a rank holds between waves follows from its list of parameters. */
static int measure_base(const struct price_facts *f, struct fit_base *out,
                        struct err *e)
{
    struct param_list list;
    int64_t i, *adapters;
    int rc = param_list_make(f->model, f->ep, f->lora_rank, &list, e);

    if (rc != ERR_OK) return rc;
    *out = (struct fit_base){.weights = param_base_bytes(&list),
                             .slots = count_slots(f)};
    adapters = calloc((size_t)f->model->layers + 1, sizeof *adapters);
    if (adapters != NULL) param_adapter_bytes(f->model, &list, adapters);
    param_list_free(&list);
    if (adapters == NULL) return err_nomem(e);
    for (i = 0; i <= f->model->layers; i++)
        out->adapters = num_sadd(out->adapters, adapters[i]);
    free(adapters);
    out->adapters = num_smul(out->adapters, out->slots);
    out->moments = num_smul(out->adapters / ADAPTER_BYTES, MOMENT_BYTES);
    return ERR_OK;
}

/* Adapter gradients that were allocated before the wave. */
static int64_t held_gradients(const struct price_facts *f,
                              const struct fit_base *b)
{
    int64_t g, k, i, pending = 0;

    for (g = 0; g < f->n_group; g++) {
        const int64_t *p = f->group[g].pending != NULL ? f->group[g].pending
                                                       : f->pending;
        for (k = 0; k < g; k++)
            if (strcmp(f->group[k].slot, f->group[g].slot) == 0) break;
        if (p == NULL || k < g ||
            strcmp(f->group[g].slot, PRICE_BASE_SLOT) == 0) continue;
        for (i = 0; i <= f->model->layers; i++)
            pending = num_sadd(pending, p[i]);
    }
    return num_max(0, b->adapters - pending);
}

/* ---- one wave ------------------------------------------------------------ */

/* Puts a wave's needs into the answers where they are larger. */
static int add_wave(const struct price_facts *f, struct fit *fit,
                    struct err *e)
{
    struct estimate *x = malloc(sizeof *x);
    int64_t held = fit->base.weights, gradients, needed;
    int i, rc = x == NULL ? err_nomem(e) : ERR_OK;

    gradients = fit->known ? held_gradients(f, &fit->base) : 0;
    held = num_sadd(held, num_sadd(fit->base.adapters, fit->base.moments));
    held = num_sadd(held, gradients);
    for (i = 0; i < PRICE_RECOMPUTING && rc == ERR_OK; i++) {
        struct fit_answer *a = &fit->answer[i];
        rc = price_estimators[i].price(f, x, e);
        if (rc != ERR_OK) break;
        needed = num_sadd(held, x->admitted);
        if (a->estimate.name[0] != '\0' && needed <= a->needed) continue;
        a->estimate = *x;
        a->cold = f->cold;
        a->gradients = gradients;
        a->needed = needed;
    }
    free(x);
    return rc;
}

static int add_facts(const struct price_facts *f, struct fit *fit,
                     struct err *e)
{
    int rc = ERR_OK;

    fit->tokens = fit_tokens(f);
    fit->known = f->tp == 1 && f->pp == 1;
    if (fit->known) rc = measure_base(f, &fit->base, e);
    return rc == ERR_OK ? add_wave(f, fit, e) : rc;
}

/* Weights and activations are priced as bf16. */
static void refuse_dtype(const char *dtype, struct fit *fit)
{
    int i;

    fit->known = false;
    for (i = 0; i < PRICE_RECOMPUTING; i++) {
        struct estimate *x = &fit->answer[i].estimate;
        x->supported = x->priced = false;
        snprintf(x->reason, sizeof x->reason, "dtype %s: priced in bf16 only",
                 dtype);
    }
}

/* A first wave and later ones: which is dearer depends on where gradients
** are allocated, what only a first wave holds, and routing. */
static int add_plan(const struct shape *p, const struct batch *b,
                    struct fit *fit, struct err *e)
{
    struct price_facts f;
    struct plan plan;
    int64_t wave;
    int rc = p->layout == NULL
             ? plan_make(&p->model, b, &p->options, &plan, e)
             : plan_from_layout(p->options.cp, p->layout, &plan, e);

    if (rc != ERR_OK) return rc;
    for (wave = 0; wave < shape_waves(p) && rc == ERR_OK; wave++) {
        rc = shape_facts(p, &plan, wave, &f, e);
        if (rc != ERR_OK) break;
        rc = add_facts(&f, fit, e);
        price_facts_free(&f);
    }
    plan_free(&plan);
    if (rc == ERR_OK && p->dtype != NULL && strcmp(p->dtype, "bf16") != 0)
        refuse_dtype(p->dtype, fit);
    return rc;
}

/* A step that cannot be is said, and the estimators still answer. */
static int add_simulation(const struct shape *p, struct fit *out,
                          struct err *e)
{
    int rc = simulate(p, p->layout != NULL ? NULL : &p->batch, out->available,
                      &out->simulated, e);

    out->simulates = rc == ERR_OK;
    if (rc != ERR_INPUT) return rc;
    snprintf(out->reason, sizeof out->reason, "%.200s", e->text);
    return ERR_OK;
}

int fit_price(const struct fit_source *s, int64_t memory, int64_t reserve,
              struct fit *out, struct err *e)
{
    int i, rc;

    assert((s->plan != NULL) != (s->facts != NULL));
    assert(memory > 0 && reserve >= -1);
    memset(out, 0, sizeof *out);
    out->memory = memory;
    out->reserve = reserve >= 0 ? reserve : memory / 100 * RESERVE_PERCENT
                                          + memory % 100 * RESERVE_PERCENT
                                            / 100;
    out->available = memory - out->reserve;
    out->grant = (struct grant){-1, -1, 0};
    snprintf(out->reason, sizeof out->reason, "facts have no batch to run");
    for (i = 0; i < PRICE_RECOMPUTING; i++) out->answer[i].budget = -1;
    if (s->plan == NULL) return add_facts(s->facts, out, e);
    rc = add_plan(s->plan, &s->plan->batch, out, e);
    return rc == ERR_OK ? add_simulation(s->plan, out, e) : rc;
}

/* ---- budgets ------------------------------------------------------------- */

struct probe {
    const struct fit_source *source;
    const struct fit *known;    /* of the wave as it is */
    struct price_cache *cache;  /* of a plan's estimates */
    struct fit fit;             /* of the facts scaled last */
    struct estimate estimate;   /* of the wave asked for last */
    int64_t least, most;        /* tokens that can be tried */
};

/* The same with what the case tells, which no cache knows. */
static int ask_told(const struct shape *s, const struct batch *b,
                    const struct price_ask *ask, int64_t wave,
                    struct estimate *out, struct err *e)
{
    struct price_facts f;
    struct plan plan;
    int rc = plan_make(&s->model, b, &s->options, &plan, e);

    if (rc != ERR_OK) return rc;
    rc = shape_facts(s, &plan, wave, &f, e);
    if (rc == ERR_OK) {
        rc = ask->by->price(&f, out, e);
        price_facts_free(&f);
    }
    plan_free(&plan);
    return rc;
}

/* One wave of a plan's batch, as an estimator prices it. */
static int ask_wave(struct probe *p, const struct batch *b,
                    const struct price_ask *ask, int64_t wave,
                    struct estimate *out, struct err *e)
{
    const struct shape *s = p->source->plan;
    const struct estimate *x;
    const struct plan *plan;
    int rc;

    if (s->told != NULL) return ask_told(s, b, ask, wave, out, e);
    rc = price_cache_get(p->cache, b, &s->options, ask, &plan, &x, e);
    if (rc == ERR_OK) *out = *x;
    return rc;
}

/* The estimator's dearest wave of a plan's batch, a first one or a later one,
** whose gradients are all allocated. */
static int probe_batch(struct probe *p, const struct batch *b, int i,
                       bool *fits, struct err *e)
{
    const struct shape *s = p->source->plan;
    const struct fit_base *base = &p->known->base;
    struct price_ask ask = {&price_estimators[i], s->lora_rank, s->head_rows,
                            false};
    int64_t wave;
    int rc = ERR_OK;

    *fits = true;
    for (wave = 0; wave < shape_waves(s) && rc == ERR_OK && *fits; wave++) {
        int64_t held = num_sadd(base->weights, num_sadd(base->adapters,
                                                        base->moments));
        struct estimate *x = &p->estimate;

        ask.cold = wave == 0;
        if (!ask.cold) held = num_sadd(held, base->adapters);
        rc = ask_wave(p, b, &ask, wave, x, e);
        *fits = rc == ERR_OK && x->priced &&
                num_sadd(held, x->admitted) <= p->known->available;
    }
    return rc;
}

static int probe_facts(struct probe *p, int64_t tokens, int i, bool *fits,
                       struct err *e)
{
    struct price_facts f;
    int rc = fit_scale_facts(p->source->facts, tokens, &f, e);

    if (rc != ERR_OK) return rc;
    memset(&p->fit, 0, sizeof p->fit);
    p->fit.available = p->known->available;
    rc = add_facts(&f, &p->fit, e);
    price_facts_free(&f);
    *fits = rc == ERR_OK && fit_fits(&p->fit, i);
    return rc;
}

/* Whether the wave scaled to tokens fits. Sizes that no plan or price can
** express do not. */
static int probe_fits(struct probe *p, int64_t tokens, int estimator_index,
                      bool *fits, struct err *e)
{
    const struct shape *s = p->source->plan;
    struct batch b;
    int rc;

    *fits = false;
    if (s == NULL) {
        rc = probe_facts(p, tokens, estimator_index, fits, e);
    } else {
        rc = fit_scale_batch(&s->batch, tokens, &b, e);
        if (rc != ERR_OK) return rc == ERR_INPUT ? ERR_OK : rc;
        rc = probe_batch(p, &b, estimator_index, fits, e);
        batch_free(&b);
    }
    return rc == ERR_INPUT ? ERR_OK : rc;
}

/* lo fits or is below all that can be tried, hi does not fit: halves the
** distance until they are neighbours. */
static int bisect(struct probe *p, int i, int64_t lo, int64_t hi, int64_t *out,
                  struct err *e)
{
    bool fits = false;
    int rc;

    while (hi - lo > 1) {
        int64_t mid = lo + (hi - lo) / 2;
        rc = probe_fits(p, mid, i, &fits, e);
        if (rc != ERR_OK) return rc;
        if (fits)
            lo = mid;
        else
            hi = mid;
    }
    *out = lo;
    return ERR_OK;
}

/* Doubles from the wave as it is while it fits, then narrows down. */
static int find_budget(struct probe *p, const struct fit *f, int i,
                       int64_t *out, struct err *e)
{
    int64_t lo = p->least - 1, hi = f->tokens;
    bool fits = fit_fits(f, i);
    int rc;

    while (fits && hi < p->most) {
        lo = hi;
        hi = num_min(p->most, 2 * hi);
        rc = probe_fits(p, hi, i, &fits, e);
        if (rc != ERR_OK) return rc;
    }
    if (fits) {
        *out = hi;
        return ERR_OK;
    }
    rc = bisect(p, i, lo, hi, out, e);
    if (rc == ERR_OK && *out < p->least) *out = 0;
    return rc;
}

/* Where to begin to look for what fits: at the lowest of the estimators'
** budgets, so that the same shape at another scale is searched alike. */
static int64_t start_of(const struct fit *f)
{
    int64_t least = BATCH_MAX_TOKENS;
    int i;

    for (i = 0; i < PRICE_RECOMPUTING; i++)
        if (fit_is_priced(f, i) && f->answer[i].budget > 0)
            least = num_min(least, f->answer[i].budget);
    return least < BATCH_MAX_TOKENS ? least : f->tokens;
}

static int find_budgets(const struct fit_source *s, struct fit *f,
                        struct probe *p, struct err *e)
{
    int i, rc = ERR_OK;

    p->source = s;
    p->known = f;
    p->least = s->plan != NULL ? s->plan->batch.n_seg : 1;
    p->most = BATCH_MAX_TOKENS;
    if (s->plan != NULL)
        rc = price_cache_new(&s->plan->model, PROBES, &p->cache, e);
    for (i = 0; i < PRICE_RECOMPUTING && rc == ERR_OK; i++)
        if (fit_is_priced(f, i))
            rc = find_budget(p, f, i, &f->answer[i].budget, e);
    price_cache_free(p->cache);
    return rc;
}

int fit_budgets(const struct fit_source *s, struct fit *f, struct err *e)
{
    struct probe *p;
    int rc;

    if (s->plan != NULL && s->plan->layout != NULL) return ERR_OK;
    p = calloc(1, sizeof *p);
    if (p == NULL) return err_nomem(e);
    rc = find_budgets(s, f, p, e);
    free(p);
    if (rc == ERR_OK && f->simulates)
        rc = grant_tokens(s->plan, f->available, start_of(f), &f->grant, e);
    return rc;
}
