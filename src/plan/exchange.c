/* exchange.c - rows that change rank between the layouts; see exact.h */
#include "base/num.h"
#include "plan/exact.h"

/* len packed rows: row_a of rank a in attention layout, row_g of rank g in
** GDN layout. k counts the moves of the same two ranks. */
struct move { int64_t a, row_a, g, row_g, len, k; };

struct moves {
    struct move *v;             /* in packed order */
    int64_t n, cp;
    int64_t *count;             /* [cp][cp] moves from a to g */
    int64_t *newest;            /* [cp][cp] index of the last one */
};

/* A move that goes on where the last of its two ranks ended joins it. */
static void add_move(struct moves *m, struct move x)
{
    int64_t pair = x.a * m->cp + x.g;

    if (m->count[pair] > 0) {
        struct move *y = &m->v[m->newest[pair]];
        if (y->row_a + y->len == x.row_a && y->row_g + y->len == x.row_g) {
            y->len += x.len;
            return;
        }
    }
    x.k = m->count[pair]++;
    m->newest[pair] = m->n;
    m->v[m->n++] = x;
}

/* Both lists cover all rows in order. */
static void find_moves(struct moves *m, const struct held_list *attention,
                       const struct held_list *gdn)
{
    const struct held *a = attention->v, *g = gdn->v;
    int64_t row = 0, end;

    while (a < attention->v + attention->n && g < gdn->v + gdn->n) {
        end = num_min(a->end, g->end);
        add_move(m, (struct move){a->rank, a->row + row - a->start, g->rank,
                                  g->row + row - g->start, end - row, 0});
        row = end;
        if (a->end == end) a++;
        if (g->end == end) g++;
    }
}

/* Sizes of one rank's exchange; the way back has them swapped, and is the
** same ranges. */
static bool size_exchange(struct plan *p, const struct moves *m, int64_t rank)
{
    struct exchange *x = &p->rank[rank].to_gdn;
    int64_t i;

    x->send_first = ARENA_TAKE(&p->arena, p->cp + 1, int64_t);
    x->recv_first = ARENA_TAKE(&p->arena, p->cp + 1, int64_t);
    if (x->send_first == NULL || x->recv_first == NULL) return false;
    for (i = 0; i < p->cp; i++) {
        x->send_first[i + 1] = x->send_first[i] + m->count[rank * p->cp + i];
        x->recv_first[i + 1] = x->recv_first[i] + m->count[i * p->cp + rank];
    }
    x->send = ARENA_TAKE(&p->arena, x->send_first[p->cp], struct range);
    x->recv = ARENA_TAKE(&p->arena, x->recv_first[p->cp], struct range);
    p->rank[rank].to_attention = (struct exchange){
        x->recv, x->recv_first, x->send, x->send_first
    };
    return x->send != NULL && x->recv != NULL;
}

bool exchanges_make(struct plan *p, const struct held_list *attention,
                    const struct held_list *gdn, struct arena *scratch)
{
    struct moves m = {.cp = p->cp};
    int64_t i;

    m.v = ARENA_TAKE(scratch, attention->n + gdn->n, struct move);
    m.count = ARENA_TAKE(scratch, p->cp * p->cp, int64_t);
    m.newest = ARENA_TAKE(scratch, p->cp * p->cp, int64_t);
    if (m.v == NULL || m.count == NULL || m.newest == NULL) return false;
    find_moves(&m, attention, gdn);
    for (i = 0; i < p->cp; i++)
        if (!size_exchange(p, &m, i)) return false;
    for (i = 0; i < m.n; i++) {
        const struct move *x = &m.v[i];
        struct exchange *a = &p->rank[x->a].to_gdn;
        struct exchange *g = &p->rank[x->g].to_gdn;
        a->send[a->send_first[x->g] + x->k] =
            (struct range){x->row_a, x->len};
        g->recv[g->recv_first[x->a] + x->k] =
            (struct range){x->row_g, x->len};
    }
    return true;
}
