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

static int64_t ranks_of(const struct tried *all)
{
    return all->s->options.cp;
}

void tried_free(struct tried *all)
{
    int i;

    for (i = 0; i < PLAN_MAX_RANKS; i++) {
        ranks_desk_close(&all->desk[i]);
        free(all->rank[i].one);
    }
}

/* The first entry that is not below tokens; n: none. */
static int64_t find(const struct tried_rank *r, int64_t tokens)
{
    int64_t lo = 0, hi = r->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (r->one[mid].tokens < tokens) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static bool is_known(const struct tried_rank *r, int64_t tokens)
{
    int64_t i = find(r, tokens);

    return i < r->n && r->one[i].tokens == tokens;
}

static int note_rank(struct tried_rank *r, int64_t tokens, uint64_t decisions,
                     struct err *e)
{
    int64_t i = find(r, tokens), cap = num_max(64, 2 * r->cap);

    if (i < r->n && r->one[i].tokens == tokens) return ERR_OK;
    if (r->n == r->cap) {
        struct tried_one *t = realloc(r->one, (size_t)cap * sizeof *t);
        if (t == NULL) return err_nomem(e);
        r->one = t;
        r->cap = cap;
    }
    memmove(r->one + i + 1, r->one + i, (size_t)(r->n - i) * sizeof *r->one);
    r->one[i] = (struct tried_one){tokens, decisions};
    r->n++;
    return ERR_OK;
}

int tried_note(struct tried *all, int64_t tokens, const struct trial *t,
               struct err *e)
{
    int rc = ERR_OK;
    int64_t i;

    for (i = 0; i < ranks_of(all) && rc == ERR_OK; i++)
        if (t->ranks == 0 || t->ranks >> i & 1)
            rc = note_rank(&all->rank[i], tokens, t->decisions[i], e);
    return rc;
}

void tried_drop(struct tried *all, int64_t tokens)
{
    int64_t i;

    for (i = 0; i < ranks_of(all); i++)
        all->rank[i].n = find(&all->rank[i], tokens);
}

/* The least number from from on that some rank has; INT64_MAX: none. */
static int64_t next_tokens(const struct tried *all, int64_t from)
{
    int64_t least = INT64_MAX, i;

    for (i = 0; i < ranks_of(all); i++) {
        const struct tried_rank *r = &all->rank[i];
        int64_t k = find(r, from);
        if (k < r->n) least = num_min(least, r->one[k].tokens);
    }
    return least;
}

int64_t tried_count(const struct tried *all, int64_t from, int64_t to)
{
    int64_t n = 0;

    while ((from = next_tokens(all, from)) < to) {
        from++;
        n++;
    }
    return n;
}

/* ---- a list, tried ------------------------------------------------------- */

/* Numbers, ascending, that threads take one after another. */
struct batch_of {
    struct tried *all;
    struct planned_trial { int64_t tokens; struct trial trial; } *one;
    int64_t n, cap;
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
        l->rc = trial_run(all->s, all->limit, b->one[k].tokens, all->ground,
                          l->desk, &b->one[k].trial, &l->e);
        if (l->rc == ERR_OK && b->one[k].trial.fits) continue;
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
    if (rc == ERR_OK && end < b->n) *hole = b->one[end].tokens;
    for (i = 0; i < end && rc == ERR_OK; i++)
        rc = tried_note(all, b->one[i].tokens, &b->one[i].trial, e);
    return rc;
}

/* ---- what to try --------------------------------------------------------- */

/* A number for the ranks that have not run it. */
static int put(struct batch_of *b, int64_t tokens, uint64_t ranks,
               struct err *e)
{
    int64_t i, cap = num_max(64, 2 * b->cap);

    for (i = 0; i < ranks_of(b->all); i++)
        if (is_known(&b->all->rank[i], tokens)) ranks &= ~(UINT64_C(1) << i);
    if (ranks == 0) return ERR_OK;
    if (b->n == b->cap) {
        struct planned_trial *p = realloc(b->one, (size_t)cap * sizeof *p);
        if (p == NULL) return err_nomem(e);
        b->one = p;
        b->cap = cap;
    }
    b->one[b->n].tokens = tokens;
    b->one[b->n++].trial.ranks = ranks;
    return ERR_OK;
}

static int compare(const void *a, const void *b)
{
    const struct planned_trial *x = a, *y = b;

    return (x->tokens > y->tokens) - (x->tokens < y->tokens);
}

/* Ascending, each number once, with all that run of it. */
static void sort(struct batch_of *b)
{
    int64_t i, n = 0;

    qsort(b->one, (size_t)b->n, sizeof *b->one, compare);
    for (i = 0; i < b->n; i++) {
        if (n > 0 && b->one[n - 1].tokens == b->one[i].tokens)
            b->one[n - 1].trial.ranks |= b->one[i].trial.ranks;
        else
            b->one[n++] = b->one[i];
    }
    b->n = n;
}

/* Both ends, and of each stretch one: no period of segments is met again and
** again. */
static int put_spread(struct batch_of *b, int64_t from, int64_t to,
                      struct err *e)
{
    int64_t s = b->all->stretch, k;
    uint64_t ranks = UINT64_MAX >> (64 - ranks_of(b->all));
    int rc = put(b, from, ranks, e);

    for (k = from / s; k <= to / s && rc == ERR_OK; k++) {
        int64_t at = k * s + (int64_t)(random_mix((uint64_t)k) % (uint64_t)s);
        if (at > from && at < to) rc = put(b, at, ranks, e);
    }
    return rc == ERR_OK ? put(b, to, ranks, e) : rc;
}

/* Tokens from a rank's entry i to the next where something may lie between;
** 0: not. */
static int64_t gap(const struct tried *all, int64_t rank, int64_t i)
{
    const struct tried_one *t = &all->rank[rank].one[i];
    int64_t apart = t[1].tokens - t[0].tokens;

    return t[0].decisions != t[1].decisions && apart > all->finest ? apart : 0;
}

/* The middles of a rank's neighbours that decided otherwise, of those that are
** wider apart than least. */
static int put_rank(struct batch_of *b, int64_t rank, int64_t from, int64_t to,
                    int64_t least, struct err *e)
{
    const struct tried *all = b->all;
    const struct tried_rank *r = &all->rank[rank];
    int64_t first = find(r, from), last = find(r, to), i;
    int rc = ERR_OK;

    for (i = first; i < last && rc == ERR_OK; i++) {
        int64_t g = gap(all, rank, i);
        if (g > least)
            rc = put(b, r->one[i].tokens + g / 2, UINT64_C(1) << rank, e);
    }
    return rc;
}

/* Ranks that ran, in all numbers from from to before to. */
static int64_t runs(const struct tried *all, int64_t from, int64_t to)
{
    int64_t n = 0, rank, i;

    for (rank = 0; rank < ranks_of(all); rank++) {
        const struct tried_rank *r = &all->rank[rank];
        int64_t last = find(r, to);
        for (i = find(r, from); i < last; i++) n += r->one[i].decisions != 0;
    }
    return n;
}

/* The highest alone, of so many ranks together. */
static void trim(struct batch_of *b, int64_t left)
{
    int64_t i = b->n;

    while (i > 0 && left > 0)
        left -= __builtin_popcountll(b->one[--i].trial.ranks);
    b->n -= i;
    memmove(b->one, b->one + i, (size_t)b->n * sizeof *b->one);
}

/* The widest apart first: all that are half as wide or more, or the highest of
** them, as far as there are trials left: each of all ranks that run. */
static int put_middles(struct batch_of *b, int64_t from, int64_t to,
                       struct err *e)
{
    const struct tried *all = b->all;
    int64_t left = all->most * runs(all, to, to + 1) - runs(all, from, to);
    int64_t widest = 0, rank, i;
    int rc = ERR_OK;

    for (rank = 0; rank < ranks_of(all); rank++) {
        int64_t last = find(&all->rank[rank], to);
        for (i = find(&all->rank[rank], from); i < last; i++)
            widest = num_max(widest, gap(all, rank, i));
    }
    for (rank = 0; rank < ranks_of(all) && widest > 0 && rc == ERR_OK; rank++)
        rc = put_rank(b, rank, from, to, widest / 2, e);
    if (rc != ERR_OK || b->n == 0) return rc;
    sort(b);
    trim(b, left);
    return ERR_OK;
}

int tried_check(struct tried *all, int64_t from, int64_t to, int64_t *hole,
                struct err *e)
{
    struct batch_of b = {.all = all};
    int rc = put_spread(&b, from, to, e);

    *hole = -1;
    while (rc == ERR_OK && b.n > 0) {
        rc = try_all(all, &b, hole, e);
        b.n = 0;
        if (rc == ERR_OK && *hole < 0) rc = put_middles(&b, from, to, e);
    }
    free(b.one);
    return rc;
}
