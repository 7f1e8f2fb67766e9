/* beside_dry.c - see ranks.h: a case on a device that computes, held beside
** the same case on dry */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "run/crew.h"

/* ---- does it fit? ------------------------------------------------------- */

/* Bytes that a rank takes from its device: segments, dispatch buffers. */
static int64_t taken(const struct ranks_one *o, int64_t waves)
{
    struct mem_stats s;

    mem_stats(o->mem, &s);
    return num_sadd((int64_t)s.reserved_peak,
                    (int64_t)o->wave[waves - 1].got.hybridep_bytes);
}

/* What the device has free; INT64_MAX where it cannot tell. */
static int free_bytes(const struct run_work *w, int64_t *out, struct err *e)
{
    struct dev_options o = {.act = DT_F32, .gpu = w->x->gpu};
    uint64_t unused, total;
    struct dev *d;
    int rc;

    *out = INT64_MAX;
    if (w->x->ops->memory == NULL) return ERR_OK;
    rc = w->x->ops->open(&o, &d, e);
    if (rc != ERR_OK) return rc;
    rc = w->x->ops->memory(d, &unused, &total, e);
    if (rc == ERR_OK && unused < INT64_MAX) *out = (int64_t)unused;
    d->ops->close(d);
    return rc;
}

/* Ranks share one device's memory, or have a GPU each. */
static int fits_together(const struct run_work *w, const struct ranks *r,
                         struct err *e)
{
    int64_t need = 0, most = 0, free, i;
    int rc = free_bytes(w, &free, e);

    for (i = 0; i < w->plan->cp; i++) {
        need = num_sadd(need, taken(&r->one[i], r->waves));
        most = num_max(most, taken(&r->one[i], r->waves));
    }
    if (!crew_shares_gpu(w)) need = most;
    if (rc != ERR_OK || need <= free) return rc;
    return err_set(e, ERR_OOM, "device %s: %" PRId64 " ranks need %" PRId64
                   " bytes, up to %" PRId64 " each, and %" PRId64 " are free "
                   "(use fewer layers or tokens, or --device dry)",
                   w->x->device, w->plan->cp, need, most, free);
}

int run_fits(struct run_work *w, struct err *e)
{
    /* later waves are as the second */
    struct ranks r = {.w = w, .ops = &dev_dry, .routing = &w->c->routing,
                      .waves = num_min(w->c->waves, 2)};
    int rc = ranks_run(&r, e);

    if (rc != ERR_OK) err_wrap(e, "by the dry device");
    if (rc == ERR_OK) rc = fits_together(w, &r, e);
    ranks_close(&r);
    return rc;
}

/* ---- the same as dry? --------------------------------------------------- */

int run_routing_of(const struct ranks *r, struct routing *out, struct err *e)
{
    const struct model *m = &r->w->model;
    int64_t ranks = r->w->plan->cp, i, k, cells = r->waves * m->layers;

    *out = (struct routing){.kind = ROUTING_HISTOGRAM, .waves = r->waves,
                            .layers = m->layers, .ranks = ranks,
                            .experts = m->experts};
    out->rows = calloc((size_t)(cells * ranks * m->experts) + 1,
                       sizeof *out->rows);
    if (out->rows == NULL) return err_nomem(e);
    for (i = 0; i < cells && m->experts > 0; i++)
        for (k = 0; k < ranks; k++)
            memcpy(out->rows + (i * ranks + k) * m->experts,
                   r->one[k].sent + i * m->experts,
                   (size_t)m->experts * sizeof *out->rows);
    return ERR_OK;
}

static bool same_event(const struct mem_event *a, const struct mem_event *b)
{
    return a->is_free == b->is_free && a->bytes == b->bytes &&
           a->category == b->category;
}

static int differs(const struct ranks_one *a, const struct ranks_one *dry,
                   struct err *e)
{
    uint64_t n, n_dry, i = 0;
    const struct mem_event *t = mem_trace(a->mem, &n);
    const struct mem_event *d = mem_trace(dry->mem, &n_dry);

    while (i < n && i < n_dry && same_event(&t[i], &d[i])) i++;
    if (i == n || i == n_dry)
        return err_set(e, ERR_WRONG, "rank %d: %" PRIu64 " allocations and "
                       "frees, but %" PRIu64 " on dry", (int)a->rank, n,
                       n_dry);
    return err_set(e, ERR_WRONG, "rank %d: event %" PRIu64 " is %s %" PRIu64
                   " bytes of %s, but %s %" PRIu64 " of %s on dry",
                   (int)a->rank, i, t[i].is_free ? "a free of" : "a request "
                   "of", t[i].bytes, t[i].op, d[i].is_free ? "a free of"
                   : "a request of", d[i].bytes, d[i].op);
}

static int same_peaks(const struct ranks_one *a, const struct ranks_one *dry,
                      struct err *e)
{
    int64_t i;

    for (i = 0; i < a->all->waves; i++) {
        const struct mem_peak *p = &a->wave[i].got.peak;
        const struct mem_peak *q = &dry->wave[i].got.peak;

        if (p->allocated == q->allocated && p->event == q->event &&
            memcmp(p->by, q->by, sizeof p->by) == 0) continue;
        return err_set(e, ERR_WRONG, "rank %d: wave %" PRId64 ": the peak is "
                       "%" PRIu64 " bytes at event %" PRIu64 ", but %" PRIu64
                       " at %" PRIu64 " on dry", (int)a->rank, i,
                       p->allocated, p->event, q->allocated, q->event);
    }
    return ERR_OK;
}

static int same_rank(const struct ranks_one *a, const struct ranks_one *dry,
                     struct err *e)
{
    struct mem_stats s, t;

    mem_stats(a->mem, &s);
    mem_stats(dry->mem, &t);
    if (s.events != t.events || s.fingerprint != t.fingerprint)
        return differs(a, dry, e);
    if (same_peaks(a, dry, e) != ERR_OK) return ERR_WRONG;
    if (s.reserved_peak == t.reserved_peak) return segment_all(&dry->again, e);
    return err_set(e, ERR_WRONG, "rank %d: %" PRIu64 " bytes reserved at the "
                   "most, but %" PRIu64 " on dry", (int)a->rank,
                   s.reserved_peak, t.reserved_peak);
}

int run_same_as_dry(struct run_work *w, const struct ranks *r, struct err *e)
{
    struct routing seen;
    struct ranks dry = {.w = w, .ops = &dev_dry, .routing = &seen,
                        .waves = r->waves, .trace = true, .like = r};
    int64_t i;
    int rc = run_routing_of(r, &seen, e);

    if (rc == ERR_OK) rc = ranks_run(&dry, e);
    for (i = 0; rc == ERR_OK && i < w->plan->cp; i++)
        if (crew_is_here(r, i)) rc = same_rank(&r->one[i], &dry.one[i], e);
    ranks_close(&dry);
    routing_free(&seen);
    return rc;
}
