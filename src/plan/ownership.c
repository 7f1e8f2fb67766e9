/* ownership.c - an attention layout as ranges of rows; see exact.h */
#include "base/num.h"

#include <assert.h>
#include "plan/exact.h"

int64_t places_find(const struct places *p, int64_t row)
{
    int64_t lo = 0, hi = p->n;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (p->v[mid].end > row)
            hi = mid;
        else
            lo = mid + 1;
    }
    return lo;
}

void places_add(struct places *p, int64_t start, int64_t end, int64_t *row)
{
    assert(start < end);
    if (start >= end) return;
    if (p->n > 0 && p->v[p->n - 1].end == start)
        p->v[p->n - 1].end = end;
    else
        p->v[p->n++] = (struct place){start, end, *row};
    *row += end - start;
}

struct range *places_ranges(const struct places *p, struct arena *a)
{
    struct range *r = ARENA_TAKE(a, p->n, struct range);
    int64_t i;

    for (i = 0; r != NULL && i < p->n; i++)
        r[i] = (struct range){p->v[i].start, p->v[i].end - p->v[i].start};
    return r;
}

static void find_regions(const struct chunks *c, const struct layout *l,
                         struct ownership *o)
{
    int64_t i;

    for (i = 0; i < c->n; i++) {
        if (i == 0 || l->owner[i] != l->owner[i - 1] ||
            l->round[i] != l->round[i - 1])
            o->region[o->n_region++] = (struct region){
                c->start[i], 0, l->owner[i], l->round[i]
            };
        o->region[o->n_region - 1].end = c->start[i + 1];
    }
}

void held_add(struct held_list *h, int64_t start, int64_t end, int64_t rank,
              int64_t *row)
{
    if (h->n > 0 && h->v[h->n - 1].rank == rank)
        h->v[h->n - 1].end = end;
    else
        h->v[h->n++] = (struct held){start, end, rank, *row};
    *row += end - start;
}

/* What each rank holds, from the list of all. */
static bool sort_by_rank(struct ownership *o, struct arena *a)
{
    int64_t *row = ARENA_TAKE(a, o->cp, int64_t), i, r;

    if (row == NULL) return false;
    for (i = 0; i < o->held.n; i++) row[o->held.v[i].rank]++;
    for (r = 0; r < o->cp; r++) {
        o->own[r].v = ARENA_TAKE(a, row[r], struct place);
        if (o->own[r].v == NULL) return false;
        row[r] = 0;
    }
    for (i = 0; i < o->held.n; i++) {
        const struct held *h = &o->held.v[i];
        places_add(&o->own[h->rank], h->start, h->end, &row[h->rank]);
    }
    return true;
}

bool ownership_make(const struct chunks *c, const struct layout *l,
                    int64_t cp, struct arena *a, struct ownership *out)
{
    struct ownership o = {.cp = cp, .rounds = cp > 1 ? l->rounds : 0};
    int64_t *row = ARENA_TAKE(a, cp, int64_t), i;

    o.region = ARENA_TAKE(a, c->n, struct region);
    o.held.v = ARENA_TAKE(a, c->n, struct held);
    o.own = ARENA_TAKE(a, cp, struct places);
    if (row == NULL || o.region == NULL || o.held.v == NULL || o.own == NULL)
        return false;
    find_regions(c, l, &o);
    for (i = 0; i < o.n_region; i++) {
        const struct region *g = &o.region[i];
        held_add(&o.held, g->start, g->end, g->rank, &row[g->rank]);
    }
    if (!sort_by_rank(&o, a)) return false;
    *out = o;
    return true;
}

int64_t ownership_overlap(const struct ownership *o, int64_t rank,
                          int64_t start, int64_t end)
{
    const struct places *p = &o->own[rank];
    int64_t i, rows = 0;

    for (i = places_find(p, start); i < p->n && p->v[i].start < end; i++)
        rows += num_min(end, p->v[i].end) - num_max(start, p->v[i].start);
    return rows;
}
