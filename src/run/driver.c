/*
** driver.c - see crew.h: what the GPU's driver says of its memory, beside
** what our allocators hold. Highest is the most that was seen, at the start,
** at each new segment and at the end.
*/
#include <stdlib.h>

#include "base/num.h"
#include "run/crew.h"

static uint64_t used_of(struct ranks_one *o)
{
    uint64_t free_bytes, total;
    struct err e;

    if (o->dev == NULL || o->dev->ops->memory == NULL ||
        o->dev->ops->memory(o->dev, &free_bytes, &total, &e) != ERR_OK ||
        free_bytes > total) return 0;
    return total - free_bytes;
}

static void see(struct ranks_one *o)
{
    uint64_t used = used_of(o);

    if (used > o->driver.highest) o->driver.highest = used;
}

void driver_before(struct ranks *r)
{
    const struct cuda_module *m = r->w->x->module;
    struct cuda_info g;
    struct err e;
    int64_t i;

    if (!r->ops->computes || m == NULL) return;
    for (i = 0; i < r->w->plan->cp; i++) {
        struct ranks_one *o = &r->one[i];
        if (!crew_is_here(r, i) || m->info(o->gpu, &g, &e) != ERR_OK)
            continue;
        o->driver.known = true;
        o->driver.before = g.total_bytes - g.free_bytes;
        o->driver.highest = o->driver.before;
    }
}

void driver_after(struct ranks *r)
{
    int64_t i;

    for (i = 0; i < r->w->plan->cp; i++) {
        see(&r->one[i]);
        r->one[i].driver.after = used_of(&r->one[i]);
    }
}

static int watched_get(void *ctx, uint64_t bytes, uint64_t *addr,
                       struct err *e)
{
    struct ranks_one *o = ctx;
    int rc = o->dev->source.get(o->dev->source.ctx, bytes, addr, e);

    if (rc == ERR_OK) see(o);
    return rc;
}

static void watched_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct ranks_one *o = ctx;

    o->dev->source.put(o->dev->source.ctx, addr, bytes);
}

struct mem_source driver_watch(struct ranks_one *o)
{
    if (o->dev->ops->memory == NULL) return o->dev->source;
    return (struct mem_source){o, watched_get, watched_put};
}

/* ---- rows --------------------------------------------------------------- */

/* What the rank itself took: segments and dispatch buffers. */
static int64_t taken(const struct ranks *r, const struct ranks_one *o)
{
    struct mem_stats s = {0};
    int64_t dispatch = 0, i;

    if (o->mem != NULL) mem_stats(o->mem, &s);
    for (i = 0; i < r->good; i++)
        dispatch = num_max(dispatch, (int64_t)o->wave[i].got.hybridep_bytes);
    return num_sadd((int64_t)s.reserved_peak, dispatch);
}

/* The ranks that share this one's GPU, itself among them. */
static int64_t taken_on_gpu(const struct ranks *r, int gpu)
{
    int64_t sum = 0, i;

    for (i = 0; i < r->w->plan->cp; i++)
        if (crew_is_here(r, i) && r->one[i].gpu == gpu)
            sum = num_sadd(sum, taken(r, &r->one[i]));
    return sum;
}

static uint64_t highest_on_gpu(const struct ranks *r, int gpu)
{
    uint64_t most = 0;
    int64_t i;

    for (i = 0; i < r->w->plan->cp; i++)
        if (r->one[i].gpu == gpu && r->one[i].driver.highest > most)
            most = r->one[i].driver.highest;
    return most;
}

static void put_rank(struct run_work *w, const struct ranks *r, int64_t rank)
{
    const struct ranks_one *o = &r->one[rank];
    int64_t before = (int64_t)o->driver.before;
    int64_t highest = (int64_t)highest_on_gpu(r, o->gpu);
    const int64_t bytes[DRIVER_ROWS] = {
        before, highest, (int64_t)o->driver.after, taken(r, o),
        highest - before - taken_on_gpu(r, o->gpu),
    };

    for (int i = 0; i < DRIVER_ROWS; i++)
        w->driver[w->n_driver++] =
            (struct record_device){rank, run_driver_rows[i], bytes[i]};
}

int driver_note(struct run_work *w, const struct ranks *r, struct err *e)
{
    int64_t i, cp = w->plan->cp;

    if (w->x->module == NULL || r->one == NULL) return ERR_OK;
    w->driver = calloc((size_t)cp * DRIVER_ROWS, sizeof *w->driver);
    if (w->driver == NULL) return err_nomem(e);
    for (i = 0; i < cp; i++)
        if (crew_is_here(r, i) && r->one[i].driver.known) put_rank(w, r, i);
    return ERR_OK;
}
