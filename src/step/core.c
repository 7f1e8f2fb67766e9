/*
** core.c - the core of attention: softmax(q k^T) v (model.md 2.2, 3.5).
**
** One rank of context parallelism needs no executor: the framework's flash
** attention reads q, k and v where they lie and keeps log-sum-exps beside
** its inputs and output. Where operators are not compiled together v arrives
** as a copy of its own, which is kept.
*/
#include <math.h>

#include "step/executor.h"
#include "step/mixers.h"

static struct mat core_v(const struct step *s, const struct attention_saved *a)
{
    return a->v.b != NULL ? a->v.m : attention_v(s, a->joined.m);
}

static void flash(struct step *s, struct attention_saved *a, struct mat out,
                  struct mat lse)
{
    const struct stage *st = s->rp->stage;

    RUN(s, attention, .out = out, .lse = lse, .q = a->q_rot.m,
        .k = a->k_rot.m, .v = core_v(s, a), .heads = s->m->q_heads,
        .kv_heads = s->m->kv_heads,
        .scale = 1 / sqrt((double)s->m->head_dim), .slice = st->slice,
        .n_slice = st->n_slice);
}

struct tensor core_forward(struct step *s, struct attention_saved *a,
                           bool save)
{
    int64_t rows = a->q_rot.m.rows;
    struct tensor out;

    if (s->cp > 1)
        return executor_forward(s, a->q_rot.m, a->k_rot.m,
                                attention_v(s, a->joined.m), save);
    if (s->c.mode.eager && a->v.b == NULL) {
        a->v = ten_act(s, CAT_ATTENTION, "attention.v", rows,
                       a->k_rot.m.cols);
        RUN(s, copy, .dst = a->v.m, .src = attention_v(s, a->joined.m));
    }
    out = ten_act(s, CAT_ATTENTION, "attention.out", rows, a->q_rot.m.cols);
    a->lse = ten_acc(s, CAT_ATTENTION, "attention.lse", rows,
                     s->m->q_heads);
    flash(s, a, out.m, a->lse.m);
    if (!save) ten_free(s, &a->lse);
    return out;
}

static void flash_backward(struct step *s, struct attention_saved *a,
                           struct mat dout, struct tensor *dq,
                           struct tensor *dk, struct tensor *dv)
{
    int64_t rows = dout.rows, kv = a->k_rot.m.cols;

    *dq = ten_act(s, CAT_ATTENTION, "attention.dq", rows, dout.cols);
    *dk = ten_acc(s, CAT_ATTENTION, "attention.dk_acc", rows, kv);
    *dv = ten_acc(s, CAT_ATTENTION, "attention.dv_acc", rows, kv);
    RUN(s, attention_bwd, .dq = dq->m, .dk = dk->m, .dv = dv->m,
        .q = a->q_rot.m, .k = a->k_rot.m, .v = core_v(s, a),
        .out = a->out.m, .lse = a->lse.m, .dout = dout,
        .heads = s->m->q_heads, .kv_heads = s->m->kv_heads,
        .scale = 1 / sqrt((double)s->m->head_dim),
        .slice = s->rp->stage->slice, .n_slice = s->rp->stage->n_slice);
    ten_free(s, &a->out);
    ten_free(s, &a->lse);
    *dk = ten_to_act(s, CAT_ATTENTION, "attention.dk", dk);
    *dv = ten_to_act(s, CAT_ATTENTION, "attention.dv", dv);
}

void core_backward(struct step *s, struct attention_saved *a, struct mat dout,
                   bool saved, struct tensor *dq, struct tensor *dk,
                   struct tensor *dv)
{
    struct tensor out = {NULL, {0}};

    if (!saved) {
        out = core_forward(s, a, true);
        ten_free(s, &a->out);
    }
    if (s->cp > 1) {
        ten_free(s, &out);
        ten_free(s, &a->out);
        executor_backward(s, dout, dq, dk, dv);
        return;
    }
    if (!saved) a->out = out;
    flash_backward(s, a, dout, dq, dk, dv);
}
