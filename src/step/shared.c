/*
** shared.c - the shared expert with its sigmoid gate, and the dense MLP of
** dense members: SwiGLU with adapters on gate, up and down.
*/
#include "step/mlp.h"
#include "step/rows.h"

struct swiglu_sites {
    struct projection up[2];    /* gate | up */
    struct projection down;
    int64_t ffn;
    bool gated;
};

static struct swiglu_sites sites_of(const struct model *m)
{
    struct swiglu_sites t;
    bool dense = m->experts == 0;

    t.ffn = dense ? m->ffn : m->shared_ffn;
    t.gated = !dense && m->shared_gate;
    t.up[0] = (struct projection){dense ? W_MLP_GATE : W_SHARED_GATE,
                                  dense ? SITE_MLP_GATE : SITE_SHARED_GATE,
                                  t.ffn, 0, 0};
    t.up[1] = (struct projection){dense ? W_MLP_UP : W_SHARED_UP,
                                  dense ? SITE_MLP_UP : SITE_SHARED_UP,
                                  t.ffn, 0, 0};
    t.down = (struct projection){dense ? W_MLP_DOWN : W_SHARED_DOWN,
                                 dense ? SITE_MLP_DOWN : SITE_SHARED_DOWN,
                                 m->hidden, 0, 0};
    return t;
}

/* out = sigmoid(n w) * pre; pre and the logit are kept for backward. */
static struct tensor gate_forward(struct step *s, struct mat n,
                                  struct mlp_saved *v)
{
    struct tensor out;

    workspace_use(s, WS_BLAS);
    v->s_logit = ten_acc(s, CAT_SHARED_EXPERT, "shared.gate.logit", n.rows,
                         1);
    RUN(s, gemm, .c = v->s_logit.m, .a = n, .b = weight_of(s, W_SHARED_SIGMA),
        .trans_b = true, .alpha = 1);
    out = ten_act(s, CAT_SHARED_EXPERT, "shared.gate", n.rows, n.cols);
    RUN(s, row_gate, .out = out.m, .x = v->s_pre.m, .logit = v->s_logit.m);
    return out;
}

bool swiglu_apart(const struct step *s)
{
    return s->c.mode.eager && (s->m->experts > 0 || !s->m->hybrid) &&
           !(s->c.mode.otherwise & OTHERWISE_FUSED);
}

static void swiglu(struct step *s, struct mlp_saved *v, int64_t ffn)
{
    int64_t rows = v->s_fc1.m.rows;
    int i;

    for (i = 0; i < 2 && swiglu_apart(s); i++) {
        v->s_part[i] = ten_act(s, CAT_SHARED_EXPERT, "shared.act.part", rows,
                               ffn);
        RUN(s, copy, .dst = v->s_part[i].m,
            .src = mat_cols(v->s_fc1.m, i * ffn, ffn));
    }
    v->s_act = ten_act(s, CAT_SHARED_EXPERT, "shared.act", rows, ffn);
    RUN(s, swiglu, .out = v->s_act.m, .gu = v->s_fc1.m);
}

static void free_fc1(struct step *s, struct mlp_saved *v)
{
    ten_free(s, &v->s_fc1);
    ten_free(s, &v->s_part[0]);
    ten_free(s, &v->s_part[1]);
}

struct tensor shared_forward(struct step *s, struct norm_saved *n,
                             struct mlp_saved *v, bool save)
{
    struct swiglu_sites t = sites_of(s->m);
    struct tensor *h = save ? v->s_h : NULL, out;

    if (s->m->experts == 0)
        v->s_fc1 = linear_columns(s, CAT_SHARED_EXPERT, "shared.fc1", n,
                                  t.up, 2, h);
    else
        v->s_fc1 = split_forward(s, CAT_SHARED_EXPERT, "shared.fc1",
                                 n->out.m, t.up, 2, &v->s_in, h);
    swiglu(s, v, t.ffn);
    if (!save) free_fc1(s, v);
    v->s_pre = linear_rows(s, CAT_SHARED_EXPERT, "shared.fc2", v->s_act.m,
                           &t.down, save ? &v->s_h_down : NULL);
    if (!save) ten_free(s, &v->s_act);
    if (!t.gated) {
        out = v->s_pre;
        v->s_pre = (struct tensor){NULL, {0}};
        return out;
    }
    out = gate_forward(s, n->out.m, v);
    if (!save) ten_free(s, &v->s_pre);
    if (!save) ten_free(s, &v->s_logit);
    return out;
}

/* dn += dlogit w; the logit's gradient comes from the gate. */
static void gate_input_backward(struct step *s, struct tensor *dlogit,
                                struct mat dn)
{
    RUN(s, gemm, .c = dn, .a = dlogit->m, .b = weight_of(s, W_SHARED_SIGMA),
        .alpha = 1, .beta = 1);
    ten_free(s, dlogit);
}

/* A module that runs again inside the backward holds its activation until
** the operators in front of it are done (evidence.md 3, last paragraph). */
static bool ran_again(const struct step *s)
{
    return !mode_keep(&s->c.mode).mlp;
}

struct tensor shared_backward(struct step *s, struct mlp_saved *v,
                              struct mat n, struct mat dy)
{
    struct swiglu_sites t = sites_of(s->m);
    bool split = s->tp > 1 && s->m->experts > 0;
    struct tensor dpre = {NULL, {0}}, dlogit = {NULL, {0}}, dact, dfc1, dn;
    struct mat d = dy;

    if (t.gated) {
        dpre = ten_act(s, CAT_SHARED_EXPERT, "shared.gate.backward", dy.rows,
                       dy.cols);
        dlogit = ten_acc(s, CAT_SHARED_EXPERT, "shared.gate.backward",
                         dy.rows, 1);
        RUN(s, row_gate_bwd, .dx = dpre.m, .dlogit = dlogit.m, .dout = dy,
            .x = v->s_pre.m, .logit = v->s_logit.m);
        ten_free(s, &v->s_pre);
        ten_free(s, &v->s_logit);
        d = dpre.m;
    }
    dact = linear_rows_bwd(s, CAT_SHARED_EXPERT, "shared.fc2.backward", d,
                           v->s_act.m, &t.down, &v->s_h_down);
    ten_free(s, &dpre);
    if (!ran_again(s)) ten_free(s, &v->s_act);
    dfc1 = ten_act(s, CAT_SHARED_EXPERT, "shared.act.backward",
                   v->s_fc1.m.rows, 2 * t.ffn);
    RUN(s, swiglu_bwd, .dgu = dfc1.m, .dout = dact.m, .gu = v->s_fc1.m);
    ten_free(s, &dact);
    if (ran_again(s)) ten_free(s, &v->s_act);
    free_fc1(s, v);
    dn = linear_backward(s, CAT_SHARED_EXPERT, "shared.fc1.backward", dfc1.m,
                         split ? v->s_in.m : n, t.up, 2, v->s_h);
    ten_free(s, &dfc1);
    if (split)
        tp_scatter(s, CAT_SHARED_EXPERT, "shared.fc1.backward", &dn);
    ten_free(s, &v->s_in);
    if (t.gated) gate_input_backward(s, &dlogit, dn.m);
    return dn;
}
