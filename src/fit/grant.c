/* grant.c - see grant.h */
#include "fit/grant.h"

#include "base/num.h"
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

/* The i-th trial's distance below, from 1 to a hundredth of tokens: multiples
** of the golden section, which no period of segments meets again and again. */
static int64_t distance(int64_t tokens, int64_t i)
{
    const int64_t golden = 618034, million = 1000000;

    return 1 + tokens / 100 * (i * golden % million) / million;
}

/* Does every trial of the hundredth below fit? The lowest that does not is
** *hole, -1 when all do. */
static int check_window(const struct search *q, int64_t tokens, int64_t *hole,
                        struct err *e)
{
    int64_t i;
    bool fits;

    *hole = -1;
    for (i = 0; i < GRANT_TRIALS; i++) {
        int64_t n = tokens - distance(tokens, i);
        int rc;
        if (n < q->least || (*hole >= 0 && n > *hole)) continue;
        rc = grant_fits(q->s, q->limit, n, &fits, e);
        if (rc != ERR_OK) return rc;
        if (!fits) *hole = n;
    }
    return ERR_OK;
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

int grant_tokens(const struct shape *s, int64_t limit, int64_t start,
                 struct grant *out, struct err *e)
{
    struct search q = {.s = s, .limit = limit, .least = s->batch.n_seg,
                       .most = num_max(GRANT_MOST, s->batch.n_seg)};
    int64_t hole = -1;
    int rc;

    q.good = q.least - 1;
    q.bad = q.most + 1;
    rc = narrow(&q, start, e);
    while (rc == ERR_OK && q.good >= q.least) {
        rc = check_window(&q, q.good, &hole, e);
        if (rc != ERR_OK || hole < 0) break;
        rc = below(&q, hole, e);
    }
    out->tokens = q.good < q.least ? 0 : q.good;
    out->failure = q.bad > q.most ? -1 : q.bad;
    return rc;
}
