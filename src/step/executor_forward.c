/* executor_forward.c - the stages forward: see executor.h */
#include <math.h>

#include "step/executor.h"
#include "step/rows.h"

/* One pass over the stages. */
struct pass {
    struct mat q, k, v;
    struct tensor o_acc, lse_acc;
    enum category c;            /* of what a backward reads */
    bool save;
};

static struct tensor record(struct step *s, enum category c, const char *op,
                            int64_t rows, int64_t cols, enum dtype t)
{
    struct tensor x = ten_of(s, c, op, rows, cols, t);

    if (x.b != NULL) s->exec->held += (int64_t)mem_requested(x.b);
    return x;
}

static struct tensor record_act(struct step *s, const struct pass *p,
                                const char *op, int64_t rows, int64_t cols)
{
    return record(s, p->c, op, rows, cols, s->dev->act);
}

static struct tensor record_acc(struct step *s, const struct pass *p,
                                const char *op, int64_t rows, int64_t cols)
{
    return record(s, p->c, op, rows, cols, s->dev->acc);
}

/* x in a buffer of its own with zero rows up to rows. */
static struct tensor padded_copy(struct step *s, const struct pass *p,
                                 const char *op, struct mat x, int64_t rows)
{
    struct tensor t = record_act(s, p, op, rows, x.cols);

    RUN(s, copy, .dst = mat_rows(t.m, 0, x.rows), .src = x);
    if (rows > x.rows)
        RUN(s, fill, .x = mat_rows(t.m, x.rows, rows - x.rows), .value = 0);
    return t;
}

/* Keys and values of the own rows that the peers read in this wave go out,
** and those of this stage come in: first keys, then values. */
static void fetch_keys(struct step *s, const struct pass *p,
                       const struct stage_plan *sp, struct stage_record *r)
{
    struct comm_part out[PLAN_MAX_RANKS], in[PLAN_MAX_RANKS];
    int64_t rows = stage_works(sp) ? sp->st.k : 0;
    struct tensor send = ten_act(s, CAT_ATTENTION, "attention.kv_send",
                                 2 * sp->sent, p->k.cols);
    const struct mat *own[2] = {&p->k, &p->v};
    int i;

    r->fetch = record_act(s, p, "attention.kv_fetch", 2 * rows, p->k.cols);
    for (i = 0; i < 2 && s->comm != NULL && s->rc == ERR_OK; i++) {
        struct mat part = mat_rows(send.m, i * sp->sent, sp->sent);

        RUN(s, gather, .out = part, .x = *own[i], .r = sp->st.send,
            .n = sp->sent > 0 ? sp->st.send_first[s->cp] : 0);
        step_parts(s, part, sp->sent_first, out);
        step_parts(s, mat_rows(r->fetch.m, i * rows, rows), sp->recv_first,
                   in);
        step_exchange(s, i == 0 ? "key fetch" : "value fetch", out, in);
    }
    ten_free(s, &send);
}

static void stage_queries(struct step *s, const struct pass *p,
                          const struct stage_plan *sp, struct stage_record *r)
{
    const struct stage *st = &sp->st;
    struct mat q = p->q;

    if (!st->q_full) {
        r->q_rows = record_act(s, p, "attention.q_gather", st->q, q.cols);
        RUN(s, gather, .out = r->q_rows.m, .x = q, .r = st->q_range,
            .n = st->n_q_range);
        q = r->q_rows.m;
    }
    if (sp->q_pad != st->q)
        r->q = padded_copy(s, p, "attention.q_pad", q, sp->q_pad);
    else if (st->q_full)
        r->q = padded_copy(s, p, "attention.q_contiguous", q, st->q);
}

/* Keys as the kernel wants them: gathered, padded, or as they lie. */
static void stage_keys(struct step *s, const struct pass *p,
                       const struct stage_plan *sp, struct stage_record *r)
{
    const struct stage *st = &sp->st;
    struct mat k = p->k, v = p->v;

    if (st->local && !st->k_full) {
        r->k_rows = record_act(s, p, "attention.k_gather", st->k, k.cols);
        r->v_rows = record_act(s, p, "attention.v_gather", st->k, v.cols);
        RUN(s, gather, .out = r->k_rows.m, .x = k, .r = st->k_range,
            .n = st->n_k_range);
        RUN(s, gather, .out = r->v_rows.m, .x = v, .r = st->k_range,
            .n = st->n_k_range);
    }
    if (!st->k_full) {
        k = stage_k(sp, r);
        v = stage_v(sp, r);
    }
    if (sp->k_pad != st->k) {
        r->k = padded_copy(s, p, "attention.k_pad", k, sp->k_pad);
        r->v = padded_copy(s, p, "attention.v_pad", v, sp->k_pad);
    } else if (st->k_full) {
        r->k = padded_copy(s, p, "attention.k_contiguous", k, st->k);
        r->v = padded_copy(s, p, "attention.v_contiguous", v, st->k);
    }
}

/* One call of the kernel; a padded stage's output and log sums are cut to
** its rows. */
static void stage_attend(struct step *s, const struct pass *p,
                         const struct stage_plan *sp, struct stage_record *r)
{
    int64_t heads = s->m->q_heads, n = sp->st.q;

    r->out = record_act(s, p, "attention.stage_out", sp->q_pad, p->q.cols);
    r->lse = record_acc(s, p, "attention.stage_lse", sp->q_pad, heads);
    RUN(s, attention, .out = r->out.m, .lse = r->lse.m, .q = stage_q(r),
        .k = stage_k(sp, r), .v = stage_v(sp, r), .heads = heads,
        .kv_heads = s->m->kv_heads,
        .scale = 1 / sqrt((double)s->m->head_dim), .slice = sp->st.slice,
        .n_slice = sp->st.n_slice);
    /* flex keeps base-2 logarithms and hands out natural ones beside them */
    r->lse_natural = record_acc(s, p, "attention.stage_lse_natural",
                                sp->q_pad, heads);
    RUN(s, copy, .dst = r->lse_natural.m, .src = r->lse.m);
    if (sp->q_pad == n) return;
    r->out_cut = record_act(s, p, "attention.stage_out_cut", n, p->q.cols);
    RUN(s, copy, .dst = r->out_cut.m, .src = mat_rows(r->out.m, 0, n));
    r->lse_cut = record_acc(s, p, "attention.stage_lse_cut", n, heads);
    RUN(s, copy, .dst = r->lse_cut.m,
        .src = mat_rows(r->lse_natural.m, 0, n));
}

/* The tape of the fold: the accumulators before it. The first fold needs
** none, and neither does a pass without a backward. */
static void stage_fold(struct step *s, const struct pass *p,
                       const struct stage_plan *sp, struct stage_record *r)
{
    bool tape = p->save && sp != &s->exec->plan[s->exec->first];
    struct tensor row = stage_rows(s, sp, tape ? p->c : CAT_ATTENTION);
    int64_t heads = s->m->q_heads;

    if (tape) {
        if (row.b != NULL) s->exec->held += (int64_t)mem_requested(row.b);
        r->tape_o = record_acc(s, p, "attention.tape_out", sp->st.q,
                               p->q.cols);
        r->tape_lse = record_acc(s, p, "attention.tape_lse", sp->st.q, heads);
    }
    RUN(s, merge, .o_acc = p->o_acc.m, .lse_acc = p->lse_acc.m,
        .tape_o = r->tape_o.m, .tape_lse = r->tape_lse.m, .o = stage_out(r),
        .lse = stage_lse(r), .row = row.m.p, .heads = heads);
    if (tape)
        r->row = row;
    else
        ten_free(s, &row);
}

struct tensor executor_forward(struct step *s, struct mat q, struct mat k,
                               struct mat v, bool save)
{
    struct executor *x = s->exec;
    struct pass p = {.q = q, .k = k, .v = v, .save = save,
                     .c = save ? CAT_ATTENTION_RECORDS : CAT_ATTENTION};
    struct tensor out;
    int64_t i, held = x->held;

    p.o_acc = ten_acc(s, CAT_ATTENTION, "attention.out_acc", q.rows, q.cols);
    p.lse_acc = ten_acc(s, CAT_ATTENTION, "attention.lse_acc", q.rows,
                        s->m->q_heads);
    RUN(s, fill, .x = p.o_acc.m, .value = 0);
    RUN(s, fill, .x = p.lse_acc.m, .value = -INFINITY);
    for (i = 0; i < x->n; i++) {
        struct stage_record *r = &stage_records(s)[i];

        if (!x->plan[i].st.local) fetch_keys(s, &p, &x->plan[i], r);
        if (!stage_works(&x->plan[i])) continue;
        stage_queries(s, &p, &x->plan[i], r);
        stage_keys(s, &p, &x->plan[i], r);
        stage_attend(s, &p, &x->plan[i], r);
        stage_fold(s, &p, &x->plan[i], r);
        if (!save) stage_records_free(s, r);
    }
    if (save) s->records_bytes = x->held - held;
    out = ten_act(s, CAT_ATTENTION, "attention.out", q.rows, q.cols);
    RUN(s, copy, .dst = out.m, .src = p.o_acc.m);
    ten_free(s, &p.o_acc);
    ten_free(s, &p.lse_acc);
    return out;
}
