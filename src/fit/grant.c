/* grant.c - see grant.h */
#include "fit/grant.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/num.h"
#include "base/random.h"
#include "fit/trial.h"

/* A search over numbers of tokens: what is known to fit, what is not to. */
struct search {
    const struct shape *s;
    int64_t limit, least, most;
    int64_t good;           /* fits, or least - 1 */
    int64_t bad;            /* does not fit, or most + 1 */
    struct ground ground;   /* of a number that fitted; tokens 0: of none */
    int64_t stretch;        /* tokens, of which one is tried */
    int64_t known, hole;    /* all that is tried from known to before hole
                               fits */
};

static int fits(const struct search *q, int64_t n, bool *out, struct err *e)
{
    return trial_fits(q->s, q->limit, n,
                      q->ground.tokens > 0 ? &q->ground : NULL, out, e);
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

/* What is tried of stretch k: no period of segments is met again and again. */
static int64_t tried(const struct search *q, int64_t k)
{
    return k * q->stretch + (int64_t)(random_mix((uint64_t)k)
                                      % (uint64_t)q->stretch);
}

static int64_t low(const struct search *q)
{
    return num_max(q->least, q->good - q->good / 100);
}

static int64_t count_tried(const struct search *q)
{
    int64_t k, n = 0;

    for (k = low(q) / q->stretch; tried(q, k) < q->good; k++)
        n += tried(q, k) >= low(q);
    return n;
}

/* Stretches that threads take one after another, upwards. */
struct window {
    const struct search *q;
    int64_t from, to;               /* tokens */
    atomic_llong next;              /* stretch */
    atomic_llong end;               /* the first that is of no use any more */
};

struct looker {
    struct window *w;
    pthread_t thread;
    int64_t at;                     /* the stretch that ended it, or -1 */
    int rc;
    struct err e;
};

static void lower(atomic_llong *x, long long to)
{
    long long now = atomic_load(x);

    while (to < now && !atomic_compare_exchange_weak(x, &now, to)) {}
}

/* Until what is tried does not fit, or cannot be run. */
static void *look(void *arg)
{
    struct looker *l = arg;
    struct window *w = l->w;
    long long k;

    l->at = -1;
    l->rc = ERR_OK;
    while ((k = atomic_fetch_add(&w->next, 1)) < atomic_load(&w->end)) {
        int64_t n = tried(w->q, k);
        bool ok;

        if (n < w->from || n >= w->to) continue;
        l->rc = fits(w->q, n, &ok, &l->e);
        if (l->rc == ERR_OK && ok) continue;
        l->at = k;
        lower(&w->end, k);
        return NULL;
    }
    return NULL;
}

/* The lowest number tried that does not fit is *hole, -1 when all do: the same
** by however many threads, since each goes on with what lies lower. */
static int check_window(const struct search *q, int64_t from, int64_t to,
                        int64_t *hole, struct err *e)
{
    struct looker one[PLAN_MAX_RANKS];
    struct window w = {.q = q, .from = from, .to = to};
    int cores = (int)num_min(sysconf(_SC_NPROCESSORS_ONLN), PLAN_MAX_RANKS);
    int n, i, rc = ERR_OK;

    *hole = -1;
    atomic_init(&w.next, from / q->stretch);
    atomic_init(&w.end, to / q->stretch + 1);
    for (n = 1; n < cores; n++) {
        one[n].w = &w;
        if (pthread_create(&one[n].thread, NULL, look, &one[n]) != 0) break;
    }
    one[0].w = &w;
    look(&one[0]);
    for (i = 1; i < n; i++) pthread_join(one[i].thread, NULL);
    for (i = 0; i < n; i++) {
        if (one[i].at < 0 || one[i].at != atomic_load(&w.end)) continue;
        *hole = tried(q, one[i].at);
        rc = one[i].rc;
        if (rc != ERR_OK) *e = one[i].e;
    }
    return rc;
}

/* As many as take the events of grant.h together, but no fewer than
** GRANT_TRIALS. */
static int64_t stretch_of(const struct search *q)
{
    int64_t ranks = num_min(GRANT_RANKS, num_max(2, q->s->options.cp));
    int64_t trials = num_max(GRANT_TRIALS, ranks * GRANT_EVENTS
                                           / num_max(1, q->ground.events));

    return num_max(1, q->good / 100 / trials);
}

/* Whatever lies above a hole, less than a hundredth, has it in its window: the
** search goes on below, and tries no number twice. Where a trial took for
** fitting what does not, the edge is looked for again, with whole trials. */
static int settle(struct search *q, struct err *e)
{
    int rc = ERR_OK;

    while (rc == ERR_OK && q->good >= q->least) {
        int64_t hole = -1, to = q->good;
        bool ok;

        rc = trial_ground(q->s, q->limit, q->good, &q->ground, &ok, e);
        if (rc != ERR_OK) return rc;
        if (!ok && !q->ground.whole) {
            q->ground = (struct ground){.whole = true};
            q->hole = 0;                /* what was tried was not whole */
            q->bad = q->good;
            q->good = q->least - 1;
            rc = narrow(q, q->bad - 1, e);
            continue;
        }
        if (!ok) {
            hole = q->good;
            q->ground.tokens = 0;       /* what it left out was of use */
        } else {
            if (q->stretch == 0) q->stretch = stretch_of(q);
            if (q->hole > q->good) to = num_min(to, q->known);
            if (to > low(q)) rc = check_window(q, low(q), to, &hole, e);
            if (rc != ERR_OK || hole < 0) return rc;
            q->known = low(q);
            q->hole = hole;
        }
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
    rc = narrow(&q, start, e);
    if (rc == ERR_OK && q.good >= q.least) rc = settle(&q, e);
    out->tokens = q.good < q.least ? 0 : q.good;
    out->failure = q.bad > q.most ? -1 : q.bad;
    out->trials = rc == ERR_OK && out->tokens > 0 ? count_tried(&q) : 0;
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
