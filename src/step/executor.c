/* executor.c - what the stages need before any wave: see executor.h */
#include <stdlib.h>

#include "base/num.h"
#include "step/executor.h"
#include "step/rows.h"

/* Flex attention takes whole blocks, and never fewer than two of them. */
static int64_t padded(int64_t len, int64_t block)
{
    return len == 0 ? 0 : num_max(num_round_up(len, block), 2 * block);
}

/* Rows by peer, summed up: of ranges (first NULL: of none), or counted. */
static int64_t *sent_first(int64_t cp, const struct range *range,
                           const int64_t *first)
{
    int64_t *out = calloc((size_t)cp + 1, sizeof *out);
    int64_t r, i;

    for (r = 0; out != NULL && first != NULL && r < cp; r++) {
        out[r + 1] = out[r];
        for (i = first[r]; i < first[r + 1]; i++) out[r + 1] += range[i].len;
    }
    return out;
}

static int64_t *recv_first(int64_t cp, const int64_t *count)
{
    int64_t *out = calloc((size_t)cp + 1, sizeof *out);
    int64_t r;

    for (r = 0; out != NULL && count != NULL && r < cp; r++)
        out[r + 1] = out[r] + count[r];
    return out;
}

/* Rows that the peers fetch from here in a wave of a recorded layout. With
** two ranks they are the other's keys; with more, nothing says who sends, and
** every peer of a rank is taken to send it an even share. */
static int64_t recorded_sent(const struct step *s, int64_t stage)
{
    int64_t r, sent = 0;

    for (r = 0; r < s->cp; r++) {
        const struct rank_plan *rp = &s->c.plan->rank[r];

        if (r == s->c.rank || stage >= rp->n_stage || rp->stage[stage].local)
            continue;
        sent += num_ceil_div(rp->stage[stage].k, s->cp - 1);
    }
    return sent;
}

/* Own rows of the queries, for the merges of a stage that takes some. */
static int64_t *query_rows(const struct stage *st)
{
    int64_t *row = malloc((size_t)num_max(st->q, 1) * sizeof *row);
    int64_t i, j, n = 0;

    for (i = 0; row != NULL && i < st->n_q_range; i++)
        for (j = 0; j < st->q_range[i].len; j++)
            row[n++] = st->q_range[i].start + j;
    return row;
}

/* Lists that only exact plans and computing devices have. */
static int stage_lists(struct step *s, struct stage_plan *p)
{
    if (s->c.plan->exact && !p->st.local) {
        p->sent_first = sent_first(s->cp, p->st.send, p->st.send_first);
        p->recv_first = recv_first(s->cp, p->st.recv_rows);
        if (p->sent_first == NULL || p->recv_first == NULL)
            return err_nomem(s->e);
        p->sent = p->sent_first[s->cp];
    }
    if (s->k != NULL && stage_works(p) && !p->st.q_full) {
        p->row = query_rows(&p->st);
        if (p->row == NULL) return err_nomem(s->e);
    }
    return ERR_OK;
}

static int stage_plan_make(struct step *s, int64_t i, struct stage_plan *p)
{
    if (i < s->rp->n_stage) p->st = s->rp->stage[i];
    p->q_pad = padded(p->st.q_len, s->c.q_block);
    p->k_pad = padded(p->st.k_len, s->c.k_block);
    if (!s->c.plan->exact && s->cp > 1) p->sent = recorded_sent(s, i);
    return stage_lists(s, p);
}

int executor_new(struct step *s)
{
    struct executor *x = calloc(1, sizeof *x);
    int64_t i, r;

    if (x == NULL) return s->rc = err_nomem(s->e);
    s->exec = x;
    if (s->cp == 1) return ERR_OK;
    for (r = 0; r < s->cp; r++)
        x->n = num_max(x->n, s->c.plan->rank[r].n_stage);
    x->plan = calloc((size_t)x->n + 1, sizeof *x->plan);
    x->record = calloc((size_t)(s->m->layers * x->n) + 1,
                       sizeof *x->record);
    if (x->plan == NULL || x->record == NULL)
        return s->rc = err_nomem(s->e);
    for (i = 0; i < x->n && s->rc == ERR_OK; i++)
        s->rc = stage_plan_make(s, i, &x->plan[i]);
    while (x->first < x->n && !stage_works(&x->plan[x->first])) x->first++;
    return s->rc;
}

void executor_free(struct executor *x)
{
    int64_t i;

    if (x == NULL) return;
    for (i = 0; x->plan != NULL && i < x->n; i++) {
        free(x->plan[i].sent_first);
        free(x->plan[i].recv_first);
        free(x->plan[i].row);
    }
    free(x->plan);
    free(x->record);
    free(x);
}

struct mat stage_k(const struct stage_plan *p, const struct stage_record *r)
{
    if (r->k.b != NULL) return r->k.m;
    return p->st.local ? r->k_rows.m : mat_rows(r->fetch.m, 0, p->st.k);
}

struct mat stage_v(const struct stage_plan *p, const struct stage_record *r)
{
    if (r->v.b != NULL) return r->v.m;
    return p->st.local ? r->v_rows.m
                       : mat_rows(r->fetch.m, p->st.k, p->st.k);
}

struct mat stage_out(const struct stage_record *r)
{
    return r->out_cut.b != NULL ? r->out_cut.m : r->out.m;
}

struct mat stage_lse(const struct stage_record *r)
{
    return r->lse_cut.b != NULL ? r->lse_cut.m : r->lse_natural.m;
}

struct tensor stage_rows(struct step *s, const struct stage_plan *p,
                         enum category c)
{
    struct tensor row = {NULL, {0}};

    if (p->st.q_full) return row;
    row = ten_of(s, c, "attention.row_index", p->st.q, 1, DT_I64);
    step_upload(s, row.m, p->row);
    return row;
}

static void stage_record_drop(struct step *s, struct tensor *t)
{
    if (t->b == NULL) return;
    s->exec->held -= (int64_t)mem_requested(t->b);
    ten_free(s, t);
}

void stage_records_free(struct step *s, struct stage_record *r)
{
    stage_record_drop(s, &r->tape_o);
    stage_record_drop(s, &r->tape_lse);
    stage_record_drop(s, &r->row);
    stage_record_drop(s, &r->lse_cut);
    stage_record_drop(s, &r->out_cut);
    stage_record_drop(s, &r->lse_natural);
    stage_record_drop(s, &r->lse);
    stage_record_drop(s, &r->out);
    stage_record_drop(s, &r->v);
    stage_record_drop(s, &r->k);
    stage_record_drop(s, &r->v_rows);
    stage_record_drop(s, &r->k_rows);
    stage_record_drop(s, &r->fetch);
    stage_record_drop(s, &r->q);
    stage_record_drop(s, &r->q_rows);
}

void executor_drop(struct step *s)
{
    int64_t i;

    for (i = 0; i < s->exec->n; i++)
        stage_records_free(s, &stage_records(s)[i]);
}
