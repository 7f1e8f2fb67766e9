/* grant.c - see grant.h */
#include "fit/grant.h"

#include <assert.h>

#include "base/num.h"
#include "base/random.h"
#include "fit/fit.h"

/* A search over numbers of tokens: what is known to fit, what is not to. */
struct search {
    const struct shape *s;
    int64_t limit, least, most;
    int64_t good;           /* fits, or least - 1 */
    int64_t bad;            /* does not fit, or most + 1 */
};

int grant_fits(const struct shape *s, int64_t limit, int64_t tokens,
               bool *fits, struct err *e)
{
    struct batch b;
    int rc = fit_scale_batch(&s->batch, tokens, &b, e);

    assert(s->layout == NULL && tokens >= 0);
    *fits = false;
    if (rc == ERR_OK) {
        rc = simulate_fits(s, &b, limit, fits, e);
        batch_free(&b);
    }
    return rc == ERR_INPUT ? ERR_OK : rc;
}

/* Tries n, which lies between what is known. */
static int try(struct search *q, int64_t n, struct err *e)
{
    bool fits;
    int rc = grant_fits(q->s, q->limit, n, &fits, e);

    if (rc != ERR_OK) return rc;
    if (fits) q->good = n;
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
    bool fits = false;
    int rc = ERR_OK;

    q->bad = hole;
    q->good = hole - 1;
    while (q->good >= q->least) {
        rc = grant_fits(q->s, q->limit, q->good, &fits, e);
        if (rc != ERR_OK || fits) return rc;
        q->bad = q->good;
        q->good -= step;
    }
    q->good = q->least - 1;
    return rc;
}

/* As many trials as take as long as GRANT_TRIALS of GRANT_EVENTS each, but no
** fewer than these. */
static int count_trials(const struct search *q, int64_t *out, struct err *e)
{
    struct simulated at;
    struct batch b;
    int rc = fit_scale_batch(&q->s->batch, q->good, &b, e);

    if (rc != ERR_OK) return rc;
    rc = simulate(q->s, &b, q->limit, &at, e);
    batch_free(&b);
    if (rc != ERR_OK) return rc;
    *out = GRANT_TRIALS;
    if (at.events < GRANT_EVENTS)
        *out = GRANT_TRIALS * GRANT_EVENTS / num_max(1, at.events);
    return ERR_OK;
}

/* A trial in each stretch of so many tokens of the hundredth below what fits,
** somewhere in it: no period of segments is met again and again. The lowest
** that does not is *hole, -1 when all do. */
static int check_window(const struct search *q, int64_t stretch,
                        struct grant *out, int64_t *hole, struct err *e)
{
    int64_t low = num_max(q->least, q->good - q->good / 100), k;
    int rc = ERR_OK;

    *hole = -1;
    out->trials = 0;
    for (k = low / stretch; rc == ERR_OK; k++) {
        int64_t n = k * stretch + (int64_t)(random_mix((uint64_t)k)
                                            % (uint64_t)stretch);
        bool fits = false;
        if (n < low) continue;
        if (n >= q->good) break;
        rc = grant_fits(q->s, q->limit, n, &fits, e);
        out->trials++;
        if (rc != ERR_OK || fits) continue;
        *hole = n;
        break;
    }
    return rc;
}

/* Whatever lies above a hole, less than a hundredth, has it in its window: the
** search goes on below. */
static int settle(struct search *q, struct grant *out, struct err *e)
{
    int64_t trials = GRANT_TRIALS, hole = 0, stretch;
    int rc = count_trials(q, &trials, e);

    stretch = num_max(1, q->good / 100 / trials);
    while (rc == ERR_OK && q->good >= q->least) {
        rc = check_window(q, stretch, out, &hole, e);
        if (rc != ERR_OK || hole < 0) break;
        rc = below(q, hole, e);
    }
    return rc;
}

int grant_tokens(const struct shape *s, int64_t limit, int64_t start,
                 struct grant *out, struct err *e)
{
    struct search q = {.s = s, .limit = limit, .least = s->batch.n_seg,
                       .most = num_max(GRANT_MOST, s->batch.n_seg)};
    int rc;

    assert(s->layout == NULL && s->batch.n_seg > 0);
    q.good = q.least - 1;
    q.bad = q.most + 1;
    out->trials = 0;
    rc = narrow(&q, start, e);
    if (rc == ERR_OK && q.good >= q.least) rc = settle(&q, out, e);
    out->tokens = q.good < q.least ? 0 : q.good;
    out->failure = q.bad > q.most ? -1 : q.bad;
    return rc;
}
