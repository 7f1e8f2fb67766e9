/* grant.c - see grant.h */
#include "fit/grant.h"

#include <assert.h>

#include "base/num.h"
#include "fit/tried.h"

/* A search over numbers of tokens: what is known to fit, what is not to. */
struct search {
    const struct shape *s;
    int64_t limit, least, most;
    int64_t good;           /* fits, or least - 1 */
    int64_t bad;            /* does not fit, or most + 1 */
    struct ground ground;   /* of a number that fitted; tokens 0: of none */
    struct tried tried;     /* what such trials found to fit */
    int64_t holes;          /* that were met below a number that fits */
};

static int fits(struct search *q, int64_t n, bool *out, struct err *e)
{
    bool known = q->ground.tokens > 0;
    struct trial t = {.ranks = 0};
    int rc = trial_run(q->s, q->limit, n, known ? &q->ground : NULL,
                       &q->tried.desk[0], &t, e);

    if (rc != ERR_OK) return rc;
    *out = t.fits;
    return known && t.fits ? tried_note(&q->tried, n, &t, e)
                           : ERR_OK;
}

/* ---- the edge ------------------------------------------------------------ */

/* Tries n, which lies between what is known. */
static int try(struct search *q, int64_t n, struct err *e)
{
    bool ok;
    int rc = q->ground.tokens > 0
           ? fits(q, n, &ok, e)
           : trial_ground(q->s, q->limit, n, &q->ground, &ok, e);

    if (rc != ERR_OK) return rc;
    if (ok) q->good = n;
    else q->bad = n;
    return ERR_OK;
}

/* Steps that double away from a first guess until both sides are known, then
** halves until they are neighbours. */
static int narrow(struct search *q, int64_t start, struct err *e)
{
    int64_t at = num_min(q->most, num_max(q->least, start));
    int64_t step = num_max(1, at / 64);
    int rc = try(q, at, e);

    while (rc == ERR_OK && q->bad - q->good > 1) {
        if (q->good < q->least && q->bad > q->least)
            at = num_max(q->least, q->bad - step);
        else if (q->bad > q->most && q->good < q->most)
            at = num_min(q->most, q->good + step);
        else
            at = q->good + (q->bad - q->good) / 2;
        step = num_min(step * 2, q->most);
        rc = try(q, at, e);
    }
    return rc;
}

/* Goes down below a hole until a number fits. */
static int below(struct search *q, int64_t hole, struct err *e)
{
    int64_t step = num_max(1, hole / 1600);
    bool ok = false;
    int rc = ERR_OK;

    q->bad = hole;
    q->good = hole - 1;
    while (q->good >= q->least) {
        rc = fits(q, q->good, &ok, e);
        if (rc != ERR_OK || ok) return rc;
        q->bad = q->good;
        q->good -= step;
    }
    q->good = q->least - 1;
    return rc;
}

/* ---- the hundredth below ------------------------------------------------- */

static int64_t low(const struct search *q)
{
    return num_max(q->least, q->good - q->good / 100);
}

/* As many trials as take the events of grant.h together, but no fewer than
** GRANT_TRIALS; what lies closer than so many would is not looked at. */
static void set_trials(struct search *q)
{
    int64_t ranks = num_min(GRANT_RANKS, num_max(2, q->s->options.cp));
    int64_t events = ranks * GRANT_EVENTS;

    if (q->ground.full) events /= 2;
    if (q->holes > 1) events *= 2;
    q->tried.most = num_max(GRANT_TRIALS,
                            events / num_max(1, q->ground.events));
    q->tried.finest = num_max(1, q->good / 100 / q->tried.most);
    if (q->tried.stretch == 0)      /* else what is known would not be met */
        q->tried.stretch = num_max(1, q->good / 100 / GRANT_TRIALS);
}

/* Whatever lies above a hole, less than a hundredth, has it in its window: the
** search goes on below, and tries no number twice. Where a trial took for
** fitting what does not, the edge is looked for again, with whole trials. */
static int settle(struct search *q, struct err *e)
{
    int rc = ERR_OK;

    while (rc == ERR_OK && q->good >= q->least) {
        int64_t hole = q->good;
        bool ok;

        rc = trial_ground(q->s, q->limit, q->good, &q->ground, &ok, e);
        if (rc != ERR_OK) return rc;
        if (!ok && !q->ground.whole) {
            q->ground = (struct ground){.whole = true};
            tried_drop(&q->tried, 0);     /* what was tried was not whole */
            q->bad = q->good;
            q->good = q->least - 1;
            rc = narrow(q, q->bad - 1, e);
            continue;
        }
        if (!ok) {
            q->ground.tokens = 0;       /* what it left out was of use */
        } else {
            set_trials(q);
            rc = tried_check(&q->tried, low(q), q->good, &hole, e);
            if (rc != ERR_OK || hole < 0) return rc;
            q->holes++;
        }
        tried_drop(&q->tried, hole);
        rc = below(q, hole, e);
    }
    return rc;
}

static int search(const struct shape *s, int64_t limit, int64_t start,
                  struct grant *out, struct err *e)
{
    struct search q = {.s = s, .limit = limit, .least = s->batch.n_seg,
                       .most = num_max(GRANT_MOST, s->batch.n_seg)};
    int rc;

    q.good = q.least - 1;
    q.bad = q.most + 1;
    q.tried = (struct tried){.s = s, .ground = &q.ground, .limit = limit};
    rc = narrow(&q, start, e);
    if (rc == ERR_OK && q.good >= q.least) rc = settle(&q, e);
    out->tokens = q.good < q.least ? 0 : q.good;
    out->failure = q.bad > q.most ? -1 : q.bad;
    out->trials = rc == ERR_OK && out->tokens > 0
                  ? tried_count(&q.tried, low(&q), q.good) : 0;
    tried_free(&q.tried);
    return rc;
}

int grant_tokens(const struct shape *s, int64_t limit, int64_t start,
                 struct grant *out, struct err *e)
{
    struct shape x = *s;        /* all trials have the same loads */
    int rc = routing_draw(&s->routing, SIMULATE_WAVES, s->model.layers,
                          s->model.experts, &x.routing, e);

    assert(s->layout == NULL && s->batch.n_seg > 0);
    if (rc != ERR_OK) return rc;
    rc = search(&x, limit, start, out, e);
    routing_drawn_free(&s->routing, &x.routing);
    return rc;
}
