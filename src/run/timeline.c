/* timeline.c - see timeline.h */
#include "run/timeline.h"

#include <inttypes.h>

#include "run/ranks.h"

static int plan_of(const struct scenario_case *c, const struct model *m,
                   struct plan *out, struct err *e)
{
    struct plan_options o = run_plan_options(c);

    return c->batch_kind == BATCH_LAYOUT
           ? plan_from_layout(c->cp, c->layout, out, e)
           : plan_make(m, &c->batch, &o, out, e);
}

static int look(const struct ranks *r, int64_t wave, int64_t rank,
                struct timeline *out, struct err *e)
{
    const struct ranks_one *o = &r->one[rank];
    const struct ranks_wave *v = &o->wave[wave];
    const struct mem_event *trace;
    uint64_t n;

    trace = mem_trace(o->mem, &n);
    if (v->end > n || v->first >= v->end)
        return err_set(e, ERR_RUN, "wave %" PRId64 " has no events", wave);
    record_timeline(trace + v->first, (int64_t)(v->end - v->first),
                    &v->got.peak, out);
    return ERR_OK;
}

static int run_waves(const struct scenario_case *c, struct run_work *w,
                     int64_t wave, int64_t rank, struct timeline *out,
                     struct err *e)
{
    struct ranks r = {.w = w, .ops = &dev_dry, .routing = &c->routing,
                      .waves = wave + 1, .trace = true};
    int rc = ranks_run(&r, e);

    if (rc == ERR_OK) rc = look(&r, wave, rank, out, e);
    ranks_close(&r);
    return rc;
}

int run_timeline(const struct scenario *s, int64_t i, int64_t wave,
                 int64_t rank, struct timeline *out, struct err *e)
{
    static const atomic_int never;
    const struct scenario_case *c = &s->kase[i];
    struct run_context x = {.device = "dry", .ops = &dev_dry,
                            .interrupt = &never};
    struct run_work w = {.x = &x, .s = s, .c = c};
    struct plan p;
    int rc;

    if (wave >= c->waves || rank >= c->cp)
        return err_set(e, ERR_USAGE, "case '%s' has %" PRId64 " waves of %"
                       PRId64 " ranks, counted from 0", c->name, c->waves,
                       c->cp);
    rc = model_load(c->model_path, c->layers, &w.model, e);
    if (rc != ERR_OK) return rc;
    rc = plan_of(c, &w.model, &p, e);
    if (rc == ERR_OK) {
        w.plan = &p;
        rc = run_waves(c, &w, wave, rank, out, e);
        plan_free(&p);
    }
    model_free(&w.model);
    return rc;
}
