/* keys.c - see keys.h */
#include "plan/keys.h"

#include "base/num.h"

/* A fetched run of rows; its region knows source and round. */
struct key { int64_t start, end, region; };

/* Every row of a chain sees the same rows before it, so what a rank needs of
** a chain is one run from its start: need[k] is where it ends. Chains above
** come before their branches, so one walk backwards suffices. */
static void find_need(const struct chains *c, int64_t rank, int64_t *need)
{
    int64_t i, k;

    for (k = 0; k < c->n; k++) need[k] = -1;
    for (i = c->first[rank]; i < c->first[rank + 1]; i++)
        need[c->query[i].chain] = c->query[i].start;
    for (k = c->n - 1; k >= 0; k--) {
        const struct chain *v = &c->v[k];
        if (need[k] >= 0 && v->up >= 0)
            need[v->up] = num_max(need[v->up], v->cut);
    }
}

/* The needed rows that others hold, cut by region. */
static int64_t cut_keys(const struct ownership *o, const struct chains *c,
                        int64_t rank, const int64_t *need, struct key *key)
{
    int64_t k, g = 0, n = 0;

    for (k = 0; k < c->n; k++) {
        int64_t row = c->v[k].start;
        while (row < need[k]) {
            const struct region *r = &o->region[g];
            int64_t end = num_min(need[k], r->end);
            if (r->end <= row) {
                g++;
                continue;
            }
            if (r->rank != rank) {
                if (n > 0 && key[n - 1].end == row && key[n - 1].region == g)
                    key[n - 1].end = end;
                else
                    key[n++] = (struct key){row, end, g};
            }
            row = end;
        }
    }
    return n;
}

/* The keys of one round, numbered in the order of arrival: rows and first
** are counted, so every source's numbers start where they must. */
static void place_keys(const struct ownership *o, const struct key *key,
                       struct fetch *f)
{
    int64_t row[PLAN_MAX_RANKS], next[PLAN_MAX_RANKS], i, s, total = 0;

    for (s = 0; s < o->cp; s++) {
        f->first[s + 1] += f->first[s];
        next[s] = f->first[s];
        row[s] = total;
        total += f->rows[s];
    }
    for (i = 0; i < f->at.n; i++) {
        int64_t len = key[i].end - key[i].start;
        s = o->region[key[i].region].rank;
        f->at.v[i] = (struct place){key[i].start, key[i].end, row[s]};
        f->received[next[s]++] = (struct range){key[i].start, len};
        row[s] += len;
    }
}

/* One rank's fetches of one round, in the order in which rows arrive. */
static bool fetch_round(const struct ownership *o, const struct key *key,
                       int64_t n, struct arena *keep, struct arena *scratch,
                       struct fetch *f)
{
    int64_t i;

    f->at.n = n;
    f->at.v = ARENA_TAKE(scratch, n, struct place);
    f->first = ARENA_TAKE(scratch, o->cp + 1, int64_t);
    f->received = ARENA_TAKE(keep, n, struct range);
    f->rows = ARENA_TAKE(keep, o->cp, int64_t);
    if (f->at.v == NULL || f->first == NULL || f->received == NULL ||
        f->rows == NULL)
        return false;
    for (i = 0; i < n; i++) {
        int64_t source = o->region[key[i].region].rank;
        f->first[source + 1]++;
        f->rows[source] += key[i].end - key[i].start;
    }
    place_keys(o, key, f);
    return true;
}

struct fetch *fetches_make(const struct ownership *o, const struct chains *c,
                           struct arena *keep, struct arena *scratch)
{
    int64_t *need = ARENA_TAKE(scratch, c->n, int64_t), rank, v, n, i, end;
    struct key *key = ARENA_TAKE(scratch, c->n + o->n_region, struct key);
    struct fetch *f = ARENA_TAKE(scratch, o->cp * o->rounds, struct fetch);

    if (need == NULL || key == NULL || f == NULL) return NULL;
    for (rank = 0; rank < o->cp; rank++) {
        find_need(c, rank, need);
        n = cut_keys(o, c, rank, need, key);
        for (v = 0, i = 0; v < o->rounds; v++, i = end) {
            for (end = i; end < n && o->region[key[end].region].round == v;)
                end++;
            if (!fetch_round(o, key + i, end - i, keep, scratch,
                            &f[rank * o->rounds + v]))
                return NULL;
        }
    }
    return f;
}
