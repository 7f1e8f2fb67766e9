/* tried.c - see tried.h */
#include "fit/tried.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/least.h"
#include "base/num.h"
#include "base/random.h"

/* ---- what is known ------------------------------------------------------- */

void tried_free(struct tried *all)
{
    int i;

    for (i = 0; i < PLAN_MAX_RANKS; i++) ranks_desk_close(&all->desk[i]);
    free(all->one);
}

/* The first that is not below tokens; n: none. */
static int64_t find(const struct tried *all, int64_t tokens)
{
    int64_t lo = 0, hi = all->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (all->one[mid].tokens < tokens) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static bool is_known(const struct tried *all, int64_t tokens)
{
    int64_t i = find(all, tokens);

    return i < all->n && all->one[i].tokens == tokens;
}

int tried_note(struct tried *all, int64_t tokens, uint64_t decisions,
               struct err *e)
{
    int64_t i = find(all, tokens), cap = num_max(64, 2 * all->cap);

    if (i < all->n && all->one[i].tokens == tokens) return ERR_OK;
    if (all->n == all->cap) {
        struct tried_one *t = realloc(all->one, (size_t)cap * sizeof *t);
        if (t == NULL) return err_nomem(e);
        all->one = t;
        all->cap = cap;
    }
    memmove(all->one + i + 1, all->one + i,
            (size_t)(all->n - i) * sizeof *all->one);
    all->one[i] = (struct tried_one){tokens, decisions};
    all->n++;
    return ERR_OK;
}

void tried_drop(struct tried *all, int64_t tokens)
{
    all->n = find(all, tokens);
}

int64_t tried_count(const struct tried *all, int64_t from, int64_t to)
{
    return find(all, to) - find(all, from);
}

/* ---- a list, tried ------------------------------------------------------- */

/* Numbers, ascending, that threads take one after another. */
struct batch_of {
    struct tried *all;
    int64_t *tokens;
    struct trial *trial;            /* [n] beside them */
    int64_t n;
    atomic_llong next;
    atomic_llong end;               /* the first that is of no use any more */
};

struct looker {
    struct batch_of *b;
    struct ranks_desk *desk;
    pthread_t thread;
    int64_t at;                     /* the one that ended it, or -1 */
    int rc;
    struct err e;
};

/* Until what is tried does not fit, or cannot be run. */
static void *look(void *arg)
{
    struct looker *l = arg;
    struct batch_of *b = l->b;
    const struct tried *all = b->all;
    long long k;

    l->at = -1;
    l->rc = ERR_OK;
    while ((k = atomic_fetch_add(&b->next, 1)) < atomic_load(&b->end)) {
        l->rc = trial_run(all->s, all->limit, b->tokens[k], all->ground,
                          l->desk, &b->trial[k], &l->e);
        if (l->rc == ERR_OK && b->trial[k].fits) continue;
        l->at = k;
        least_put(&b->end, k);
        return NULL;
    }
    return NULL;
}

/* On all cores. The lowest that does not fit is b->end: the same by however
** many threads, since each goes on with what lies lower. */
static int look_at_all(struct batch_of *b, struct err *e)
{
    struct looker one[PLAN_MAX_RANKS];
    int cores = (int)num_min(sysconf(_SC_NPROCESSORS_ONLN), PLAN_MAX_RANKS);
    int n, i, rc = ERR_OK;

    atomic_init(&b->next, 0);
    atomic_init(&b->end, b->n);
    for (n = 1; n < num_min(cores, b->n); n++) {
        one[n].b = b;
        one[n].desk = &b->all->desk[n];
        if (pthread_create(&one[n].thread, NULL, look, &one[n]) != 0) break;
    }
    one[0].b = b;
    one[0].desk = &b->all->desk[0];
    look(&one[0]);
    for (i = 1; i < n; i++) pthread_join(one[i].thread, NULL);
    for (i = 0; i < n; i++) {
        if (one[i].at < 0 || one[i].at != atomic_load(&b->end)) continue;
        rc = one[i].rc;
        if (rc != ERR_OK) *e = one[i].e;
    }
    return rc;
}

/* What fits below the first that does not is noted. */
static int try_all(struct tried *all, struct batch_of *b, int64_t *hole,
                   struct err *e)
{
    int64_t i, end;
    int rc = look_at_all(b, e);

    end = atomic_load(&b->end);
    if (rc == ERR_OK && end < b->n) *hole = b->tokens[end];
    for (i = 0; i < end && rc == ERR_OK; i++)
        rc = tried_note(all, b->tokens[i], b->trial[i].decisions, e);
    return rc;
}

/* ---- what to try --------------------------------------------------------- */

static void put(struct batch_of *b, int64_t tokens)
{
    if (is_known(b->all, tokens)) return;
    if (b->n > 0 && b->tokens[b->n - 1] >= tokens) return;
    b->tokens[b->n++] = tokens;
}

/* Both ends, and of each stretch one: no period of segments is met again and
** again. */
static void put_spread(struct batch_of *b, int64_t from, int64_t to)
{
    int64_t s = b->all->stretch, k;

    put(b, from);
    for (k = from / s; k <= to / s; k++) {
        int64_t at = k * s + (int64_t)(random_mix((uint64_t)k) % (uint64_t)s);
        if (at > from && at < to) put(b, at);
    }
    put(b, to);
}

/* Tokens from entry i to the next where something may lie between; 0: not. */
static int64_t gap(const struct tried *all, int64_t i)
{
    const struct tried_one *t = &all->one[i];
    int64_t apart = t[1].tokens - t[0].tokens;

    return t[0].decisions != t[1].decisions && apart > all->finest ? apart : 0;
}

/* The middles of neighbours that decided otherwise, the widest apart first:
** all that are half as wide or more, or the highest of them, as far as there
** are trials left. */
static void put_middles(struct batch_of *b, int64_t from, int64_t to)
{
    const struct tried *all = b->all;
    int64_t first = find(all, from), last = find(all, to), widest = 0, n = 0, i;
    int64_t left = all->most - (last - first);

    for (i = first; i < last; i++) widest = num_max(widest, gap(all, i));
    if (widest == 0) return;
    for (i = first; i < last; i++) n += gap(all, i) > widest / 2;
    for (i = first; i < last; i++) {
        if (gap(all, i) <= widest / 2 || n-- > left) continue;
        put(b, all->one[i].tokens + gap(all, i) / 2);
    }
}

int tried_check(struct tried *all, int64_t from, int64_t to, int64_t *hole,
                struct err *e)
{
    int64_t room = num_max(all->most, (to - from) / all->stretch) + 4;
    struct batch_of b = {.all = all};
    int rc = ERR_OK;

    *hole = -1;
    b.tokens = calloc((size_t)room, sizeof *b.tokens);
    b.trial = calloc((size_t)room, sizeof *b.trial);
    if (b.tokens == NULL || b.trial == NULL) rc = err_nomem(e);
    else put_spread(&b, from, to);
    while (rc == ERR_OK) {
        rc = try_all(all, &b, hole, e);
        b.n = 0;
        if (rc == ERR_OK && *hole < 0) put_middles(&b, from, to);
        if (b.n == 0) break;
    }
    free(b.tokens);
    free(b.trial);
    return rc;
}
