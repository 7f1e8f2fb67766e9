/* chains.c - see chains.h */
#include "plan/chains.h"

#include "base/num.h"

/* A segment that follows its parent at once goes on its chain. */
static void join_segments(const struct batch *b, int64_t *chain_of,
                          struct chains *c)
{
    int64_t i;

    for (i = 0; i < b->n_seg; i++) {
        const struct segment *s = &b->seg[i];
        struct chain *new;
        if (i == 0 || s->parent != i - 1) {
            new = &c->v[c->n++];
            *new = (struct chain){.start = s->start, .up = -1};
            if (s->parent >= 0) {
                const struct segment *p = &b->seg[s->parent];
                new->up = chain_of[s->parent];
                new->cut = p->start + p->tokens;
                new->depth = c->v[new->up].depth + 1;
                c->deepest = num_max(c->deepest, new->depth);
            }
        }
        chain_of[i] = c->n - 1;
        c->v[c->n - 1].end = s->start + s->tokens;
    }
}

/* Chains and what a rank holds are both sorted: one walk over both. */
static void cut_queries(const struct ownership *o, struct chains *c)
{
    int64_t r, i, k, row;

    for (r = 0; r < o->cp; r++) {
        const struct places *own = &o->own[r];
        c->first[r] = c->n_query;
        for (i = 0, k = 0; i < own->n; i++) {
            const struct place *p = &own->v[i];
            for (row = p->start; row < p->end; row = num_min(p->end,
                                                             c->v[k].end)) {
                while (c->v[k].end <= row) k++;
                c->query[c->n_query++] = (struct query){
                    k, row, num_min(p->end, c->v[k].end), r,
                    p->row + row - p->start
                };
            }
        }
    }
    c->first[o->cp] = c->n_query;
}

bool chains_make(const struct batch *b, const struct ownership *o,
                 struct arena *a, struct chains *out)
{
    struct chains c = {0};
    int64_t *chain_of = ARENA_TAKE(a, b->n_seg, int64_t);

    c.v = ARENA_TAKE(a, b->n_seg, struct chain);
    c.query = ARENA_TAKE(a, b->n_seg + o->n_region, struct query);
    c.first = ARENA_TAKE(a, o->cp + 1, int64_t);
    if (chain_of == NULL || c.v == NULL || c.query == NULL || c.first == NULL)
        return false;
    join_segments(b, chain_of, &c);
    cut_queries(o, &c);
    *out = c;
    return true;
}
