/* pieces.c - the GDN layout as exact pieces; see exact.h, and struct
** gdn_piece in plan.h for what they mean. */
#include "base/num.h"
#include "plan/exact.h"

/* Where the end state of a segment lies. */
struct state { int64_t rank, piece; };

/* A rank's packed ranges, from the list of all ranks. */
static bool fill_ranges(struct plan *p, const struct held_list *held)
{
    int64_t i, r;

    for (i = 0; i < held->n; i++) p->rank[held->v[i].rank].n_gdn++;
    for (r = 0; r < p->cp; r++) {
        p->rank[r].gdn =
            ARENA_TAKE(&p->arena, p->rank[r].n_gdn, struct range);
        if (p->rank[r].gdn == NULL) return false;
        p->rank[r].n_gdn = 0;
    }
    for (i = 0; i < held->n; i++) {
        const struct held *h = &held->v[i];
        struct rank_plan *to = &p->rank[h->rank];
        to->gdn[to->n_gdn++] = (struct range){h->start, h->end - h->start};
    }
    return true;
}

static bool take_pieces(struct plan *p, const struct shards *s)
{
    int64_t i, r;

    for (i = 0; i < s->first[p->batch->n_seg]; i++)
        p->rank[s->v[i].rank].n_piece++;
    for (r = 0; r < p->cp; r++) {
        p->rank[r].piece =
            ARENA_TAKE(&p->arena, p->rank[r].n_piece, struct gdn_piece);
        if (p->rank[r].piece == NULL) return false;
        p->rank[r].n_piece = 0;
    }
    return true;
}

/* One segment's pieces; from is the state before its first token. */
static struct state add_segment(struct plan *p, const struct shards *s,
                                int64_t segment, struct state from,
                                struct held_list *held)
{
    const struct segment *seg = &p->batch->seg[segment];
    int64_t i, offset = 0;

    for (i = s->first[segment]; i < s->first[segment + 1]; i++) {
        const struct shard *d = &s->v[i];
        struct rank_plan *r = &p->rank[d->rank];
        r->piece[r->n_piece] = (struct gdn_piece){
            segment, r->gdn_rows, d->len, offset, seg->depth,
            (int32_t)from.rank, from.piece
        };
        from = (struct state){d->rank, r->n_piece++};
        held_add(held, seg->start + offset, seg->start + offset + d->len,
                 d->rank, &r->gdn_rows);
        offset += d->len;
    }
    return from;
}

bool pieces_make(struct plan *p, const struct shards *s, struct arena *scratch,
                 struct held_list *out)
{
    const struct batch *b = p->batch;
    struct state *end = ARENA_TAKE(scratch, b->n_seg, struct state);
    int64_t i, n = s->first[b->n_seg];

    *out = (struct held_list){ARENA_TAKE(scratch, n, struct held), 0};
    if (end == NULL || out->v == NULL || !take_pieces(p, s)) return false;
    for (i = 0; i < b->n_seg; i++) {
        struct state from = {-1, -1};
        if (b->seg[i].parent >= 0) from = end[b->seg[i].parent];
        end[i] = add_segment(p, s, i, from, out);
        if (s->first[i + 1] - s->first[i] > 1) p->chained = true;
    }
    return fill_ranges(p, out);
}

void pieces_none(struct plan *p)
{
    int64_t r;

    for (r = 0; r < p->cp; r++) {
        p->rank[r].gdn_rows = p->rank[r].attention_rows;
        p->rank[r].n_gdn = p->rank[r].n_attention;
        p->rank[r].gdn = p->rank[r].attention;
    }
}
