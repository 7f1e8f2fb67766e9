/* simulate.c - see simulate.h */
#include "fit/simulate.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fit/dry.h"

static void put_place(const struct mem_tag *t, char *out, size_t cap)
{
    const char *phase = mem_phase_name((enum mem_phase)t->phase);
    const char *op = t->op != NULL ? t->op : "";

    if (t->layer < 0)
        snprintf(out, cap, "%s, %s", phase, op);
    else
        snprintf(out, cap, "%s, layer %d, %s", phase, (int)t->layer, op);
}

/* The rank that takes most, and where the highest of its waves has its
** peak. */
static void describe(const struct ranks *r, struct simulated *out)
{
    int64_t i, k;

    out->needed = -1;
    for (i = 0; i < r->w->plan->cp; i++) {
        const struct ranks_one *o = &r->one[i];
        uint64_t most = 0;
        if (dry_taken(o) <= out->needed) continue;
        out->needed = dry_taken(o);
        out->dispatch = dry_dispatch(o);
        out->rank = i;
        for (k = 0; k < o->good; k++) {
            const struct step_result *got = &o->wave[k].got;
            uint64_t top = got->start_bytes + got->peak.allocated;
            if (top <= most) continue;
            most = top;
            out->wave = k;
            put_place(&got->peak.tag, out->place, sizeof out->place);
        }
    }
}

/* ---- runs ---------------------------------------------------------------- */

static int run_once(const struct shape *s, const struct batch *b,
                    const struct plan *p, int64_t limit,
                    struct simulated *out, struct err *e)
{
    struct dry d;
    int rc;

    dry_fill(&d, s, b, p, limit);
    rc = ranks_run(&d.r, e);
    if (rc == ERR_OK) describe(&d.r, out);
    ranks_close(&d.r);
    return rc;
}

/* Without a limit first: what that takes may fit as it is. Else the allocator
** gives back what it caches when memory runs short, and may get by. */
static int run_plan(const struct shape *s, const struct batch *b,
                    const struct plan *p, int64_t limit,
                    struct simulated *out, struct err *e)
{
    struct simulated tight = {0};
    int rc;

    memset(out, 0, sizeof *out);
    rc = run_once(s, b, p, 0, out, e);
    if (rc != ERR_OK) return rc;
    out->fits = out->needed <= limit;
    if (out->fits || limit <= 0) return ERR_OK;
    rc = run_once(s, b, p, limit, &tight, e);
    if (rc == ERR_OK) {
        *out = tight;
        out->fits = true;
    }
    return rc == ERR_OOM ? ERR_OK : rc;
}

static int plan_of(const struct shape *s, const struct batch *b,
                   struct plan *out, struct err *e)
{
    return b != NULL ? plan_make(&s->model, b, &s->options, out, e)
                     : plan_from_layout(s->options.cp, s->layout, out, e);
}

int simulate(const struct shape *s, const struct batch *b, int64_t limit,
             struct simulated *out, struct err *e)
{
    struct plan p;
    int rc = plan_of(s, b, &p, e);

    assert(b != NULL || s->layout != NULL);
    if (rc != ERR_OK) return rc;
    rc = run_plan(s, b, &p, limit, out, e);
    plan_free(&p);
    return rc;
}

int simulate_fits(const struct shape *s, const struct batch *b, int64_t limit,
                  bool *fits, struct err *e)
{
    struct simulated x;
    struct plan p;
    int rc = plan_of(s, b, &p, e);

    *fits = false;
    if (rc != ERR_OK) return rc;
    rc = limit > 0 ? run_once(s, b, &p, limit, &x, e) : ERR_OOM;
    plan_free(&p);
    *fits = rc == ERR_OK;
    return rc == ERR_OOM ? ERR_OK : rc;
}
