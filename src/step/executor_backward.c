/* executor_backward.c - the stages back, last fold first: see executor.h */
#include <math.h>

#include "step/executor.h"
#include "step/rows.h"

/* Gradients of the merged output and log-sum-exp, turned fold by fold into
** those of the accumulators before, and sums over stages of dq, dk, dv. */
struct gradients {
    struct tensor o_acc, lse_acc;       /* acc */
    struct tensor dq;                   /* act [own, heads * d] */
    struct tensor dk, dv;               /* acc [own, kv_heads * d] */
};

static struct tensor zeroed(struct step *s, const char *op, int64_t rows,
                            int64_t cols, enum dtype t)
{
    struct tensor x = ten_of(s, CAT_ATTENTION, op, rows, cols, t);

    RUN(s, fill, .x = x.m, .value = 0);
    return x;
}

/* Back through the fold: gradients of the stage's own output and log-sum-exp,
** zero in the padding. */
static void unfold(struct step *s, const struct stage_plan *sp,
                   const struct stage_record *r, struct gradients *g,
                   struct mat d_o, struct mat dlse)
{
    int64_t n = sp->st.q, rest = sp->q_pad - n;
    struct tensor row = {NULL, {0}};

    if (r->row.b == NULL) row = stage_rows(s, sp, CAT_ATTENTION);
    RUN(s, merge_bwd, .d_acc = g->o_acc.m, .dlse_acc = g->lse_acc.m,
        .d_o = mat_rows(d_o, 0, n), .dlse = mat_rows(dlse, 0, n),
        .tape_o = r->tape_o.m, .tape_lse = r->tape_lse.m, .o = stage_out(r),
        .lse = stage_lse(r), .heads = s->m->q_heads,
        .row = r->row.b != NULL ? r->row.m.p : row.m.p);
    ten_free(s, &row);
    if (rest == 0) return;
    RUN(s, fill, .x = mat_rows(d_o, n, rest), .value = 0);
    RUN(s, fill, .x = mat_rows(dlse, n, rest), .value = 0);
}

/* dq of the stage is added to the own rows; dk and dv are left to the
** caller. */
static void stage_gradients(struct step *s, const struct stage_plan *sp,
                            struct stage_record *r, struct gradients *g,
                            struct tensor *dk, struct tensor *dv)
{
    int64_t heads = s->m->q_heads, q = g->dq.m.cols, kv = g->dk.m.cols;
    struct tensor d_o, dlse, dq;

    d_o = ten_act(s, CAT_ATTENTION, "attention.stage_dout", sp->q_pad, q);
    dlse = ten_acc(s, CAT_ATTENTION, "attention.stage_dlse", sp->q_pad,
                   heads);
    unfold(s, sp, r, g, d_o.m, dlse.m);
    dq = ten_act(s, CAT_ATTENTION, "attention.stage_dq", sp->q_pad, q);
    *dk = ten_acc(s, CAT_ATTENTION, "attention.stage_dk", sp->k_pad, kv);
    *dv = ten_acc(s, CAT_ATTENTION, "attention.stage_dv", sp->k_pad, kv);
    RUN(s, attention_bwd, .dq = dq.m, .dk = dk->m, .dv = dv->m,
        .q = stage_q(r), .k = stage_k(sp, r), .v = stage_v(sp, r),
        .out = r->out.m, .lse = r->lse.m, .dout = d_o.m, .dlse = dlse.m,
        .heads = heads, .kv_heads = s->m->kv_heads,
        .scale = 1 / sqrt((double)s->m->head_dim), .slice = sp->st.slice,
        .n_slice = sp->st.n_slice);
    ten_free(s, &d_o);
    ten_free(s, &dlse);
    RUN(s, scatter, .out = g->dq.m, .x = mat_rows(dq.m, 0, sp->st.q),
        .r = sp->st.q_range, .n = sp->st.n_q_range, .add = true);
    ten_free(s, &dq);
}

/* Gradients of fetched keys or values go back to their owners and are added
** there; a row may have gone to several ranks, so each peer's come apart. */
static void return_one(struct step *s, const char *what,
                       const struct stage_plan *sp, struct mat d,
                       struct mat back, struct mat own)
{
    struct comm_part out[PLAN_MAX_RANKS], in[PLAN_MAX_RANKS];
    const int64_t *first = sp->sent_first;
    int64_t r;

    if (s->comm == NULL || s->rc != ERR_OK) return;
    step_parts(s, d, sp->recv_first, out);
    step_parts(s, back, first, in);
    step_exchange(s, what, out, in);
    for (r = 0; r < s->cp && sp->sent > 0; r++)
        RUN(s, scatter, .out = own, .add = true,
            .x = mat_rows(back, first[r], first[r + 1] - first[r]),
            .r = sp->st.send + sp->st.send_first[r],
            .n = sp->st.send_first[r + 1] - sp->st.send_first[r]);
}

static void return_keys(struct step *s, const struct stage_plan *sp,
                        struct gradients *g, struct mat dk, struct mat dv)
{
    int64_t n = sp->sent;
    struct tensor back = ten_acc(s, CAT_ATTENTION, "attention.kv_return",
                                 2 * n, g->dk.m.cols);

    return_one(s, "key gradients", sp, dk, mat_rows(back.m, 0, n), g->dk.m);
    return_one(s, "value gradients", sp, dv, mat_rows(back.m, n, n),
               g->dv.m);
    ten_free(s, &back);
}

static void stage_backward(struct step *s, const struct stage_plan *sp,
                           struct stage_record *r, struct gradients *g)
{
    struct mat none = {NULL, 0, g->dk.m.cols, g->dk.m.cols, g->dk.m.t};
    struct tensor dk = {NULL, none}, dv = {NULL, none};

    if (stage_works(sp)) stage_gradients(s, sp, r, g, &dk, &dv);
    stage_records_free(s, r);
    if (!sp->st.local) {
        return_keys(s, sp, g, dk.m, dv.m);
    } else if (stage_works(sp)) {
        RUN(s, scatter, .out = g->dk.m, .x = mat_rows(dk.m, 0, sp->st.k),
            .r = sp->st.k_range, .n = sp->st.n_k_range, .add = true);
        RUN(s, scatter, .out = g->dv.m, .x = mat_rows(dv.m, 0, sp->st.k),
            .r = sp->st.k_range, .n = sp->st.n_k_range, .add = true);
    }
    ten_free(s, &dk);
    ten_free(s, &dv);
}

void executor_backward(struct step *s, struct mat dout, struct tensor *dq,
                       struct tensor *dk, struct tensor *dv)
{
    int64_t own = dout.rows, kv = model_kv(s->m), i;
    struct gradients g;

    g.o_acc = ten_acc(s, CAT_ATTENTION, "attention.dout_acc", own, dout.cols);
    RUN(s, copy, .dst = g.o_acc.m, .src = dout);
    g.lse_acc = zeroed(s, "attention.dlse_acc", own, s->m->q_heads,
                       s->dev->acc);
    g.dq = zeroed(s, "attention.dq", own, dout.cols, s->dev->act);
    g.dk = zeroed(s, "attention.dk_acc", own, kv, s->dev->acc);
    g.dv = zeroed(s, "attention.dv_acc", own, kv, s->dev->acc);
    for (i = s->exec->n - 1; i >= 0; i--)
        stage_backward(s, &s->exec->plan[i], &stage_records(s)[i], &g);
    ten_free(s, &g.o_acc);
    ten_free(s, &g.lse_acc);
    *dq = g.dq;
    *dk = ten_to_act(s, CAT_ATTENTION, "attention.dk", &g.dk);
    *dv = ten_to_act(s, CAT_ATTENTION, "attention.dv", &g.dv);
}
