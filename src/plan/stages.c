/* stages.c - the exact attention stages; see exact.h, and struct stage in
** plan.h for what they mean. */
#include <string.h>

#include "base/num.h"
#include "plan/keys.h"
#include "plan/slices.h"

/* What is shared while a plan's stages are made. */
struct maker {
    struct plan *plan;
    const struct ownership *own;
    struct chains chains;
    struct fetch *fetch;        /* [cp][rounds] */
    struct slices slices;
    struct places query;        /* scratch: one stage's queries */
    int64_t block;
};

static bool copy_slices(struct maker *m, struct stage *s)
{
    const struct slices *v = &m->slices;

    s->n_slice = v->n;
    s->slice = ARENA_TAKE(&m->plan->arena, v->n, struct slice);
    if (s->slice == NULL) return false;
    if (v->n > 0) memcpy(s->slice, v->v, (size_t)v->n * sizeof *v->v);
    m->plan->work.slices += v->n;
    return true;
}

/* Queries and slices of one stage; key maps packed rows to its keys. */
static int make_queries(struct maker *m, int64_t rank,
                        const struct places *key, struct stage *s,
                        struct err *e)
{
    const struct chains *c = &m->chains;
    int64_t i;
    int rc = ERR_OK;

    slices_reset(&m->slices);
    m->query.n = 0;
    for (i = c->first[rank]; i < c->first[rank + 1] && rc == ERR_OK; i++) {
        const struct query *q = &c->query[i];
        bool any = false;
        rc = slices_add(&m->slices, c, q, s->q, key, s->local, &any, e);
        if (any)
            places_add(&m->query, q->row, q->row + q->end - q->start, &s->q);
    }
    if (rc != ERR_OK) return rc;
    s->n_q_range = m->query.n;
    s->q_range = places_ranges(&m->query, &m->plan->arena);
    if (s->q_range == NULL || !copy_slices(m, s)) return err_nomem(e);
    s->q_full = s->q > 0 && s->q == m->plan->rank[rank].attention_rows;
    s->q_len = num_round_up(s->q, m->block);
    s->k_len = num_round_up(s->k, m->block);
    return ERR_OK;
}

static int make_local(struct maker *m, int64_t rank, struct stage *s,
                      struct err *e)
{
    struct plan *p = m->plan;

    s->local = true;
    s->k = p->rank[rank].attention_rows;
    s->k_full = s->k > 0;
    s->n_k_range = s->k > 0;
    s->k_range = ARENA_TAKE(&p->arena, s->n_k_range, struct range);
    s->send_first = ARENA_TAKE(&p->arena, p->cp + 1, int64_t);
    s->recv_rows = ARENA_TAKE(&p->arena, p->cp, int64_t);
    if (s->k_range == NULL || s->send_first == NULL || s->recv_rows == NULL)
        return err_nomem(e);
    if (s->k > 0) s->k_range[0] = (struct range){0, s->k};
    return make_queries(m, rank, &m->own->own[rank], s, e);
}

static int make_remote(struct maker *m, int64_t rank, int64_t round,
                       struct stage *s, struct err *e)
{
    struct fetch *f = &m->fetch[rank * m->own->rounds + round];
    int64_t i;

    for (i = 0; i < m->plan->cp; i++) s->k += f->rows[i];
    s->k_range = f->received;
    s->n_k_range = f->at.n;
    s->recv_rows = f->rows;
    return make_queries(m, rank, &f->at, s, e);
}

/* Local rows of what a peer fetches of this rank, given as packed ranges that
** each lie in one place. Returns the number of ranges. */
static int64_t to_local(const struct places *own, const struct range *packed,
                        int64_t n, struct range *out)
{
    int64_t i, k = 0;

    for (i = 0; i < n; i++) {
        const struct place *p = &own->v[places_find(own, packed[i].start)];
        int64_t row = p->row + packed[i].start - p->start;
        if (k > 0 && out[k - 1].start + out[k - 1].len == row)
            out[k - 1].len += packed[i].len;
        else
            out[k++] = (struct range){row, packed[i].len};
    }
    return k;
}

/* What a rank sends is what the others fetch of it, in their order. */
static bool make_sends(struct maker *m, int64_t rank, int64_t round,
                       struct stage *s)
{
    struct plan *p = m->plan;
    const struct places *own = &m->own->own[rank];
    int64_t most = 0, r, n;
    const struct fetch *f;

    s->send_first = ARENA_TAKE(&p->arena, p->cp + 1, int64_t);
    for (r = 0; r < p->cp; r++) {
        f = &m->fetch[r * m->own->rounds + round];
        most += f->first[rank + 1] - f->first[rank];
    }
    s->send = ARENA_TAKE(&p->arena, most, struct range);
    if (s->send_first == NULL || s->send == NULL) return false;
    for (r = 0; r < p->cp; r++) {
        f = &m->fetch[r * m->own->rounds + round];
        n = to_local(own, f->received + f->first[rank],
                     f->first[rank + 1] - f->first[rank],
                     s->send + s->send_first[r]);
        s->send_first[r + 1] = s->send_first[r] + n;
    }
    return true;
}

static int make_rank(struct maker *m, int64_t rank, struct err *e)
{
    struct rank_plan *r = &m->plan->rank[rank];
    int64_t v;
    int rc;

    r->n_stage = m->own->rounds + 1;
    r->stage = ARENA_TAKE(&m->plan->arena, r->n_stage, struct stage);
    if (r->stage == NULL) return err_nomem(e);
    rc = make_local(m, rank, &r->stage[0], e);
    for (v = 0; v < m->own->rounds && rc == ERR_OK; v++) {
        struct stage *s = &r->stage[v + 1];
        rc = make_remote(m, rank, v, s, e);
        if (rc == ERR_OK && !make_sends(m, rank, v, s)) rc = err_nomem(e);
    }
    return rc;
}

static bool fill_rows(struct plan *p, const struct ownership *o)
{
    int64_t r, i;

    for (r = 0; r < p->cp; r++) {
        const struct places *own = &o->own[r];
        for (i = 0; i < own->n; i++)
            p->rank[r].attention_rows += own->v[i].end - own->v[i].start;
        p->rank[r].n_attention = own->n;
        p->rank[r].attention = places_ranges(own, &p->arena);
        if (p->rank[r].attention == NULL) return false;
    }
    return true;
}

/* Rows and what crosses ranks, before any stage. */
static bool prepare(struct maker *m, struct arena *scratch)
{
    struct plan *p = m->plan;

    if (!fill_rows(p, m->own) ||
        !chains_make(p->batch, m->own, scratch, &m->chains))
        return false;
    m->slices.path = ARENA_TAKE(scratch, m->chains.deepest, int64_t);
    m->query.v = ARENA_TAKE(scratch, m->chains.n_query, struct place);
    m->fetch = fetches_make(m->own, &m->chains, &p->arena, scratch);
    return m->slices.path != NULL && m->query.v != NULL && m->fetch != NULL;
}

int stages_make(struct plan *p, const struct ownership *o, int64_t block,
                struct arena *scratch, struct err *e)
{
    struct maker m = {.plan = p, .own = o, .block = block};
    int64_t r;
    int rc = prepare(&m, scratch) ? ERR_OK : err_nomem(e);

    for (r = 0; r < p->cp && rc == ERR_OK; r++) rc = make_rank(&m, r, e);
    p->work.allocations += m.slices.allocations;
    slices_free(&m.slices);
    return rc;
}
