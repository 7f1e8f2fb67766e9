/* trial.c - see trial.h */
#include "fit/trial.h"

#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "base/random.h"
#include "fit/dry.h"
#include "fit/scale.h"
#include "fit/simulate.h"

/* A rank that takes less than so many tenths of what another does is left
** out. Twice what the numbers beside each other differ by: where a rank's
** segments break otherwise it took a tenth more. */
enum { CLOSE_TENTHS = 8 };
/* What the third wave would do, the second has mostly done. */
enum { TRIAL_WAVES = SIMULATE_WAVES - 1 };

/* A batch with its plan, made and freed together. */
struct planned {
    struct batch batch;
    struct plan plan;
};

static int plan_tokens(const struct shape *s, int64_t tokens,
                       struct planned *out, struct err *e)
{
    int rc;

    assert(s->layout == NULL && tokens >= 0);
    rc = fit_scale_batch(&s->batch, tokens, &out->batch, e);
    if (rc != ERR_OK) return rc;
    rc = plan_make(&s->model, &out->batch, &s->options, &out->plan, e);
    if (rc != ERR_OK) batch_free(&out->batch);
    return rc;
}

static void planned_free(struct planned *p)
{
    plan_free(&p->plan);
    batch_free(&p->batch);
}

/* An answer of a run: out of memory is one, and so is what cannot be. */
static int answered(int rc, bool *fits)
{
    *fits = rc == ERR_OK;
    return rc == ERR_OOM || rc == ERR_INPUT ? ERR_OK : rc;
}

/* ---- the ground ---------------------------------------------------------- */

/* part, grown as from grew to to. */
static int64_t grown(int64_t part, int64_t from, int64_t to)
{
    if (to <= from) return part;
    return from > 0 ? num_smul(part / from + 1, to) : INT64_MAX;
}

/* Ranks that would still take less, had all that they took grown as the rows
** of one of their layouts, or as the wave. */
static uint64_t idle_in(const struct plan *p, int64_t tokens,
                        const struct ground *g)
{
    int64_t most = grown(g->most / 10 * CLOSE_TENTHS, g->tokens, tokens), i;
    uint64_t idle = 0;

    for (i = 0; i < p->cp; i++) {
        const struct ground_rank *r = &g->rank[i];
        int64_t took = grown(r->took, g->tokens, tokens);

        took = num_max(took, grown(r->took, r->attention_rows,
                                   p->rank[i].attention_rows));
        took = num_max(took, grown(r->took, r->gdn_rows,
                                   p->rank[i].gdn_rows));
        if (took < most) idle |= UINT64_C(1) << i;
    }
    return idle;
}

/* What a rank has taken for its waves: all but what it holds between them. */
static int64_t for_waves(const struct ranks_one *o)
{
    return dry_taken(o) - (int64_t)o->wave[o->good - 1].got.start_bytes;
}

/* Where a rank that never ran short has taken what there is, more tokens end
** at the size of the device; elsewhere at what allocators make of it. */
static bool is_full(const struct ranks *r)
{
    int64_t limit = r->w->c->device_bytes > INT64_MAX
                  ? INT64_MAX : (int64_t)r->w->c->device_bytes;
    int64_t most = 0, i;

    for (i = 0; i < r->w->plan->cp; i++) {
        if (r->one[i].stats.retries > 0) return false;
        most = num_max(most, dry_taken(&r->one[i]));
    }
    return limit - most <= limit / 1000;
}

/* What later trials are measured by, all of it from one run. */
static void note_ground(const struct ranks *r, int64_t tokens,
                        struct ground *out)
{
    int64_t cp = r->w->plan->cp, i;
    int64_t waves = out->whole ? SIMULATE_WAVES : TRIAL_WAVES;
    uint64_t idle;

    *out = (struct ground){.whole = out->whole};
    out->tokens = tokens;
    for (i = 0; i < cp; i++) {
        out->rank[i] = (struct ground_rank){
            for_waves(&r->one[i]), r->w->plan->rank[i].attention_rows,
            r->w->plan->rank[i].gdn_rows};
        out->most = num_max(out->most, out->rank[i].took);
    }
    out->full = is_full(r);
    idle = idle_in(r->w->plan, tokens, out);
    for (i = 0; i < cp; i++)
        if ((idle >> i & 1) == 0)
            out->events += (int64_t)r->one[i].stats.events / r->waves * waves;
}

int trial_ground(const struct shape *s, int64_t limit, int64_t tokens,
                 struct ground *out, bool *fits, struct err *e)
{
    struct planned p;
    struct dry d;
    int rc = plan_tokens(s, tokens, &p, e);

    if (rc != ERR_OK) return answered(rc, fits);
    dry_fill(&d, s, &p.batch, &p.plan, limit);
    rc = ranks_run(&d.r, e);
    if (rc == ERR_OK) note_ground(&d.r, tokens, out);
    ranks_close(&d.r);
    planned_free(&p);
    return answered(rc, fits);
}

/* ---- a trial ------------------------------------------------------------- */

static void note_decisions(const struct ranks *r, struct trial *out)
{
    int64_t i;

    for (i = 0; i < r->w->plan->cp; i++) {
        const struct ranks_one *o = &r->one[i];
        if (r->idle >> i & 1) continue;
        out->decisions[i] = random_mix(o->stats.decisions)
                          + (uint64_t)dry_dispatch(o);
    }
}

int trial_run(const struct shape *s, int64_t limit, int64_t tokens,
              const struct ground *g, struct ranks_desk *desk,
              struct trial *out, struct err *e)
{
    struct planned p;
    struct dry d;
    int rc = plan_tokens(s, tokens, &p, e);

    memset(out->decisions, 0, sizeof out->decisions);
    if (rc != ERR_OK) return answered(rc, &out->fits);
    dry_fill(&d, s, &p.batch, &p.plan, limit);
    if (g != NULL) {
        if (!g->whole) d.r.enough = TRIAL_WAVES;
        d.r.idle = idle_in(&p.plan, tokens, g);
        if (out->ranks != 0) d.r.idle |= ~out->ranks;
        d.r.threads = 1;
        d.r.desk = desk;
    }
    rc = ranks_run(&d.r, e);
    if (rc == ERR_OK) note_decisions(&d.r, out);
    ranks_close(&d.r);
    planned_free(&p);
    return answered(rc, &out->fits);
}
