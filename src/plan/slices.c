/* slices.c - see slices.h */
#include "plan/slices.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/num.h"

void slices_reset(struct slices *s)
{
    s->made += s->n;
    s->n = s->last = s->band = 0;
}

void slices_free(struct slices *s)
{
    free(s->v);
}

static int grow(struct slices *s, struct err *e)
{
    int64_t cap = s->cap > 0 ? s->cap * 2 : 64;
    struct slice *v = realloc(s->v, (size_t)cap * sizeof *v);

    if (v == NULL) return err_nomem(e);
    s->v = v;
    s->cap = cap;
    s->allocations++;
    return ERR_OK;
}

static int put(struct slices *s, int64_t k, int64_t n_k, bool causal,
               struct err *e)
{
    if (s->made + s->n >= PLAN_MAX_SLICES)
        return err_set(e, ERR_INPUT, "the batch needs more than %" PRId64
                       " attention slices (let its tree branch at fewer "
                       "depths)", PLAN_MAX_SLICES);
    if (s->n == s->cap) {
        int rc = grow(s, e);
        if (rc != ERR_OK) return rc;
    }
    s->v[s->n++] = (struct slice){.k = k, .n_k = n_k, .causal = causal};
    return ERR_OK;
}

/* The keys of packed rows [start, end) that the stage has. */
static int put_rows(struct slices *s, const struct places *key, int64_t start,
                    int64_t end, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    if (start >= end) return ERR_OK;
    for (i = places_find(key, start);
         rc == ERR_OK && i < key->n && key->v[i].start < end; i++) {
        const struct place *p = &key->v[i];
        int64_t from = num_max(start, p->start);
        rc = put(s, p->row + from - p->start, num_min(end, p->end) - from,
                 false, e);
    }
    return rc;
}

/* ---- joining ------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    int64_t x = ((const struct slice *)a)->k, y = ((const struct slice *)b)->k;
    return (x > y) - (x < y);
}

/* Keys of several sources arrive in the ranks' order, which is the packed one
** but for chunks that the search moved: few bands have anything to sort. */
static void sort_band(struct slices *s)
{
    int64_t i = s->band + 1;

    while (i < s->n && s->v[i - 1].k <= s->v[i].k) i++;
    if (i < s->n)
        qsort(s->v + s->band, (size_t)(s->n - s->band), sizeof *s->v, by_key);
}

/* Slices whose keys touch become one; the triangle, which is last, then
** starts on a diagonal further right. */
static void join_keys(struct slices *s)
{
    int64_t i, n = s->band;

    for (i = s->band; i < s->n; i++) {
        const struct slice *x = &s->v[i];
        struct slice *y = &s->v[n - 1];
        if (n > s->band && y->k + y->n_k == x->k) {
            if (x->causal) y->diag = y->n_k;
            y->causal = x->causal;
            y->n_k += x->n_k;
        } else {
            s->v[n++] = *x;
        }
    }
    s->n = n;
}

/* The band's queries come right after the last one's. Do they see the same
** keys, the triangle's own rows aside? */
static bool continues(const struct slices *s)
{
    int64_t i, n = s->band - s->last;

    if (s->n - s->band != n) return false;
    for (i = 0; i < n; i++) {
        const struct slice *x = &s->v[s->last + i], *y = &s->v[s->band + i];
        if (x->k != y->k || x->causal != y->causal) return false;
        if (x->causal ? y->diag != x->diag + x->n_q : y->n_k != x->n_k)
            return false;
    }
    return true;
}

/* Queries that see the same keys as those before go into the same slices. */
static void finish_band(struct slices *s, int64_t row, int64_t rows)
{
    int64_t i, n = s->n - s->band;

    sort_band(s);
    join_keys(s);
    if (s->band > 0 && continues(s)) {
        n = s->n - s->band;
        for (i = 0; i < n; i++) {
            s->v[s->last + i].n_q += rows;
            s->v[s->last + i].n_k = s->v[s->band + i].n_k;
        }
        s->n = s->band;
        return;
    }
    for (i = s->band; i < s->n; i++) {
        s->v[i].q = row;
        s->v[i].n_q = rows;
    }
    s->last = s->band;
    s->band = s->n;
}

/* ---- one query ---------------------------------------------------------- */

/* Chains above the query's, root first; returns how many. */
static int64_t climb_path(const struct slices *s, const struct chains *c,
                          int64_t chain)
{
    int64_t depth = c->v[chain].depth, i;

    for (i = depth; i > 0; i--) {
        s->path[i - 1] = chain;
        chain = c->v[chain].up;
    }
    return depth;
}

int slices_add(struct slices *s, const struct chains *c, const struct query *q,
               int64_t row, const struct places *key, bool local, bool *any,
               struct err *e)
{
    int64_t i, depth, rows = q->end - q->start;
    int rc = ERR_OK;

    assert(q->start < q->end && row >= 0);
    *any = false;
    if (key->n == 0) return ERR_OK;
    depth = climb_path(s, c, q->chain);
    for (i = 0; i < depth && rc == ERR_OK; i++) {
        const struct chain *below = &c->v[s->path[i]];
        rc = put_rows(s, key, c->v[below->up].start, below->cut, e);
    }
    if (rc == ERR_OK)
        rc = put_rows(s, key, c->v[q->chain].start, q->start, e);
    if (rc == ERR_OK && local) rc = put(s, q->row, rows, true, e);
    if (rc != ERR_OK || s->n == s->band) return rc;
    *any = true;
    finish_band(s, row, rows);
    return ERR_OK;
}
