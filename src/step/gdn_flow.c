/* gdn_flow.c - see gdn_flow.h */
#include "step/gdn_flow.h"
#include "step/rows.h"

#include <stdlib.h>

#include "base/num.h"

/* One state that crosses: needed at a level, by or from a peer. */
struct need { int64_t level, peer, piece; };

static int by_need(const void *a, const void *b)
{
    const struct need *x = a, *y = b;

    if (x->level != y->level) return x->level < y->level ? -1 : 1;
    if (x->peer != y->peer) return x->peer < y->peer ? -1 : 1;
    return (x->piece > y->piece) - (x->piece < y->piece);
}

static int64_t sort_unique(struct need *n, int64_t count)
{
    int64_t i, kept = 0;

    if (count == 0) return 0;
    qsort(n, (size_t)count, sizeof *n, by_need);
    for (i = 0; i < count; i++)
        if (kept == 0 || by_need(&n[kept - 1], &n[i]) != 0) n[kept++] = n[i];
    return kept;
}

/* ---- levels over all ranks ---------------------------------------------- */

/* level[r][i] for every piece of every rank. Pieces are walked in the order
** of their tokens over all ranks at once, so a source comes first. */
static int64_t *next_in_order(const struct plan *p, int64_t *cursor,
                              int64_t *rank)
{
    const struct gdn_piece *best = NULL;
    int64_t r;

    for (r = 0; r < p->cp; r++) {
        const struct rank_plan *rp = &p->rank[r];
        const struct gdn_piece *x = &rp->piece[cursor[r]];

        if (cursor[r] == rp->n_piece) continue;
        if (best == NULL || x->segment < best->segment ||
            (x->segment == best->segment && x->offset < best->offset)) {
            best = x;
            *rank = r;
        }
    }
    return best == NULL ? NULL : &cursor[*rank];
}

static int64_t assign_levels(const struct plan *p, int64_t **level,
                             int64_t *cursor)
{
    int64_t n_level = 0, rank = 0, *at;

    while ((at = next_in_order(p, cursor, &rank)) != NULL) {
        const struct gdn_piece *x = &p->rank[rank].piece[*at];
        int64_t l = x->from_rank < 0
                        ? 0 : level[x->from_rank][x->from_piece] + 1;

        level[rank][*at] = l;
        if (l + 1 > n_level) n_level = l + 1;
        (*at)++;
    }
    return n_level;
}

/* Needs of rank to against rank from; peer is what the caller files them
** under. */
static int64_t collect(const struct plan *p, int64_t *const *level, int64_t to,
                       int64_t from, int64_t peer, struct need *out)
{
    const struct rank_plan *rp = &p->rank[to];
    int64_t i, n = 0;

    for (i = 0; i < rp->n_piece; i++)
        if (rp->piece[i].from_rank == from)
            out[n++] = (struct need){level[to][i], peer,
                                     rp->piece[i].from_piece};
    return n;
}

/* ---- one rank's tables -------------------------------------------------- */

static int64_t import_row(const struct need *in, int64_t n_in, int64_t base,
                          struct need key)
{
    const struct need *hit = bsearch(&key, in, (size_t)n_in, sizeof *in,
                                     by_need);

    return base + (hit - in);
}

/* Pieces by level, each with the row of the state it begins with. */
static int place_pieces(struct gdn_bucket *f, const struct rank_plan *rp,
                        const int64_t *level, int64_t me,
                        const struct need *in, int64_t n_in)
{
    int64_t i, l;

    for (i = 0; i < rp->n_piece; i++) f->level[level[i]].n_piece++;
    for (l = 0; l < f->n_level; l++) {
        f->level[l].piece = calloc((size_t)f->level[l].n_piece + 1,
                                   sizeof *f->level[l].piece);
        if (f->level[l].piece == NULL) return ERR_RUN;
        f->level[l].n_piece = 0;
    }
    for (i = 0; i < rp->n_piece; i++) {
        const struct gdn_piece *x = &rp->piece[i];
        struct gdn_level *v = &f->level[level[i]];
        int64_t from = -1;

        if (x->from_rank == me)
            from = x->from_piece;
        else if (x->from_rank >= 0)
            from = import_row(in, n_in, rp->n_piece,
                              (struct need){level[i], x->from_rank,
                                            x->from_piece});
        v->piece[v->n_piece++] = (struct dev_piece){x->row, x->len, from, i};
        f->chunks += num_ceil_div(x->len, DELTA_CHUNK);
    }
    return ERR_OK;
}

/* Both sides derive the same order from the plan: no rank sends a list. */
static int place_crossings(struct gdn_bucket *f, int64_t cp, int64_t n_piece,
                           const struct need *in, int64_t n_in,
                           const struct need *out, int64_t n_out)
{
    int64_t l, r, i = 0, o = 0;

    f->send = calloc((size_t)n_out + 1, sizeof *f->send);
    if (f->send == NULL) return ERR_RUN;
    for (l = 0; l < f->n_level; l++) {
        struct gdn_level *v = &f->level[l];
        int64_t first_out = o;

        v->send = f->send + o;
        v->send_first = calloc((size_t)cp + 1, sizeof *v->send_first);
        v->recv_first = calloc((size_t)cp + 1, sizeof *v->recv_first);
        if (v->send_first == NULL || v->recv_first == NULL)
            return ERR_RUN;
        v->recv_row = n_piece + i;
        for (r = 0; r < cp; r++) {
            for (; o < n_out && out[o].level == l && out[o].peer == r; o++)
                f->send[o] = (struct range){out[o].piece, 1};
            v->send_first[r + 1] = o - first_out;
            while (i < n_in && in[i].level == l && in[i].peer == r) i++;
            v->recv_first[r + 1] = n_piece + i - v->recv_row;
        }
    }
    return ERR_OK;
}

/* A level crosses when any rank sends, so that all take part. */
static void mark_crossings(struct gdn_bucket *f, const struct plan *p,
                           int64_t *const *level)
{
    int64_t r, i;

    for (r = 0; r < p->cp; r++)
        for (i = 0; i < p->rank[r].n_piece; i++) {
            int32_t from = p->rank[r].piece[i].from_rank;
            if (from >= 0 && from != r) f->level[level[r][i]].crosses = true;
        }
}

/* What this rank needs of others and they of it, each state once. */
static int build_rank(struct gdn_bucket *f, const struct plan *p, int64_t me,
                      int64_t *const *level, struct need *in,
                      struct need *out)
{
    int64_t n_in = 0, n_out = 0, r;
    int rc;

    for (r = 0; r < p->cp; r++) {
        if (r == me) continue;
        n_in += collect(p, level, me, r, r, in + n_in);
        n_out += collect(p, level, r, me, r, out + n_out);
    }
    n_in = sort_unique(in, n_in);
    n_out = sort_unique(out, n_out);
    f->n_state = p->rank[me].n_piece + n_in;
    rc = place_pieces(f, &p->rank[me], level[me], me, in, n_in);
    if (rc == ERR_OK)
        rc = place_crossings(f, p->cp, p->rank[me].n_piece, in, n_in, out,
                             n_out);
    mark_crossings(f, p, level);
    return rc;
}

/* Levels of all ranks' pieces: who waits for whom is known to each. */
static int build_ranks(struct gdn_bucket *f, const struct plan *p, int64_t me)
{
    int64_t **level = calloc((size_t)p->cp, sizeof *level);
    int64_t *cursor = calloc((size_t)p->cp, sizeof *cursor);
    struct need *in = NULL, *out = NULL;
    int64_t r, total = 0;
    int rc = level == NULL || cursor == NULL ? ERR_RUN : ERR_OK;

    for (r = 0; rc == ERR_OK && r < p->cp; r++) {
        total += p->rank[r].n_piece;
        level[r] = calloc((size_t)p->rank[r].n_piece + 1, sizeof **level);
        if (level[r] == NULL) rc = ERR_RUN;
    }
    in = calloc((size_t)total + 1, sizeof *in);
    out = calloc((size_t)total + 1, sizeof *out);
    if (in == NULL || out == NULL) rc = ERR_RUN;
    if (rc == ERR_OK) {
        f->n_level = assign_levels(p, level, cursor);
        f->level = calloc((size_t)f->n_level + 1, sizeof *f->level);
        rc = f->level == NULL ? ERR_RUN
                              : build_rank(f, p, me, level, in, out);
    }
    for (r = 0; level != NULL && r < p->cp; r++) free(level[r]);
    free(level);
    free(cursor);
    free(in);
    free(out);
    return rc;
}

/* All rows of a rank among others as one bucket. */
static int make_ranks(struct gdn_flow *f, const struct plan *p, int64_t me)
{
    struct gdn_bucket *b = calloc(1, sizeof *b);
    int rc;

    f->bucket = b;
    f->n_bucket = b != NULL;
    if (b == NULL) return ERR_RUN;
    b->rows = p->rank[me].gdn_rows;
    b->parent = -1;
    rc = build_ranks(b, p, me);
    b->n_kept = b->n_state;
    return rc;
}

static int make_buckets(struct gdn_flow *f, const struct step *s)
{
    const struct plan *p = s->c.plan;

    if (!p->exact)
        return gdn_bucket_recorded(f, s->rp->gdn_rows);
    if (s->cp > 1) return make_ranks(f, p, s->c.rank);
    return gdn_buckets_make(f, p);
}

int gdn_flow_new(struct step *s)
{
    struct gdn_flow *f = calloc(1, sizeof *f);
    int rc;

    if (f == NULL) return s->rc = err_nomem(s->e);
    s->flow = f;
    if (model_count(s->m, LAYER_GDN) == 0) return ERR_OK;
    rc = make_buckets(f, s);
    if (rc == ERR_OK) {
        f->kept = calloc((size_t)(s->m->layers * f->n_bucket) + 1,
                         sizeof *f->kept);
        f->table = calloc((size_t)f->n_bucket + 1, sizeof *f->table);
        if (f->kept == NULL || f->table == NULL) rc = ERR_RUN;
    }
    if (rc != ERR_OK) s->rc = err_nomem(s->e);
    return s->rc;
}

static void bucket_free(struct gdn_bucket *b)
{
    int64_t l;

    for (l = 0; b->level != NULL && l < b->n_level; l++) {
        free(b->level[l].piece);
        free(b->level[l].send_first);
        free(b->level[l].recv_first);
    }
    free(b->level);
    free(b->send);
    free(b->run);
    free(b->init);
}

void gdn_flow_free(struct gdn_flow *f)
{
    int64_t i;

    if (f == NULL) return;
    for (i = 0; f->bucket != NULL && i < f->n_bucket; i++)
        bucket_free(&f->bucket[i]);
    free(f->bucket);
    free(f->kept);
    free(f->table);
    free(f);
}

void gdn_drop(struct step *s)
{
    int64_t i;

    for (i = 0; i < s->flow->n_bucket; i++)
        ten_free_all(s, TENSORS(&gdn_kept_of(s)[i]));
}

/* ---- exchanges ---------------------------------------------------------- */

static void exchange(struct step *s, const char *what, const int64_t *sent,
                     struct mat from, const int64_t *received, struct mat to)
{
    struct comm_part send[PLAN_MAX_RANKS], recv[PLAN_MAX_RANKS];

    if (s->comm == NULL) return;
    step_parts(s, from, sent, send);
    step_parts(s, to, received, recv);
    step_exchange(s, what, send, recv);
}

void gdn_flow_fetch(struct step *s, const struct gdn_bucket *b, int64_t l,
                    struct mat table, const char *what)
{
    const struct gdn_level *v = &b->level[l];
    int64_t n_send, n_recv;
    struct tensor send;

    if (!v->crosses) return;
    n_send = v->send_first[s->cp];
    n_recv = v->recv_first[s->cp];
    send = ten_of(s, CAT_GDN, what, n_send, table.cols, table.t);
    RUN(s, gather, .out = send.m, .x = table, .r = v->send, .n = n_send);
    exchange(s, what, v->send_first, send.m, v->recv_first,
             mat_rows(table, v->recv_row, n_recv));
    ten_free(s, &send);
}

void gdn_flow_return(struct step *s, const struct gdn_bucket *b, int64_t l,
                     struct mat table, const char *what)
{
    const struct gdn_level *v = &b->level[l];
    int64_t n_own, n_back;
    struct tensor back;

    if (!v->crosses) return;
    n_own = v->send_first[s->cp];
    n_back = v->recv_first[s->cp];
    back = ten_of(s, CAT_GDN, what, n_own, table.cols, table.t);
    exchange(s, what, v->recv_first, mat_rows(table, v->recv_row, n_back),
             v->send_first, back.m);
    RUN(s, scatter, .out = table, .x = back.m, .r = v->send, .n = n_own,
        .add = true);
    ten_free(s, &back);
}
