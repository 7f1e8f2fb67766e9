/*
** attention.c - the full-attention mixer: projections, head norms, rotary
** angles, the executor, the output gate (model.md 2.2, 3.5 to 3.7).
**
** The joined projection is q|gate per head, k, v; without a gate q, k, v.
** q, gate and k are copied out of it, v stays a view.
*/
#include "step/executor.h"
#include "step/mixers.h"

#define QKV 3

struct split {
    int64_t q, k, v;            /* first columns in the joined rows */
    int64_t width;
    int64_t q_stride;           /* from one query head to the next */
};

static struct split split_of(const struct model *m)
{
    struct split x;
    int64_t q = model_q(m) * (m->attn_gate ? 2 : 1);

    x.q = 0;
    x.k = q;
    x.v = q + model_kv(m);
    x.width = x.v + model_kv(m);
    x.q_stride = m->head_dim * (m->attn_gate ? 2 : 1);
    return x;
}

static void projections(const struct model *m, struct projection p[QKV])
{
    static const enum weight bias[QKV] = {W_Q_BIAS, W_K_BIAS, W_V_BIAS};
    int i;

    p[0] = (struct projection){W_Q, SITE_Q, split_of(m).k, 0};
    p[1] = (struct projection){W_K, SITE_K, model_kv(m), 0};
    p[2] = (struct projection){W_V, SITE_V, model_kv(m), 0};
    for (i = 0; m->qkv_bias && i < QKV; i++) p[i].bias = bias[i];
}

static struct projection projection_out(const struct model *m)
{
    return (struct projection){W_O, SITE_O, m->hidden, 0};
}

/* Angles of every position, made once. */
static struct mat rotary_table(struct step *s)
{
    int64_t layer = s->layer;

    if (s->rotary.b == NULL) {
        s->layer = -1;
        s->rotary = ten_acc(s, CAT_WORKSPACE, "attention.rotary_table",
                            s->m->max_positions, s->m->rotary_dim / 2);
        s->layer = layer;
        RUN(s, rotary_table, .table = s->rotary.m, .theta = s->m->rope_theta,
            .factor = s->m->rope.factor, .low = s->m->rope.low,
            .high = s->m->rope.high, .positions = s->m->rope.positions);
    }
    return s->rotary.m;
}

/* Heads out of the joined rows into a tensor of their own. */
static struct tensor take_heads(struct step *s, const char *op,
                                struct mat joined, int64_t heads,
                                int64_t stride, int64_t offset)
{
    int64_t d = s->m->head_dim;
    struct tensor x = ten_act(s, CAT_ATTENTION, op, joined.rows, heads * d);

    RUN(s, heads, .packed = x.m, .joined = joined, .heads = heads,
        .head_dim = d, .stride = stride, .offset = offset);
    return x;
}

static struct mat per_head(const struct step *s, struct mat x)
{
    int64_t d = s->m->head_dim;

    return mat_shape(x, x.rows * x.cols / d, d);
}

static struct tensor rotate(struct step *s, const char *op, struct mat x,
                            int sign)
{
    int64_t d = s->m->head_dim;
    struct mat table = rotary_table(s);
    struct tensor y = ten_act(s, CAT_ATTENTION, op, x.rows, x.cols);

    RUN(s, rotary, .y = y.m, .x = x, .table = table, .pos = s->positions.m.p,
        .heads = x.cols / d, .head_dim = d, .sign = sign);
    return y;
}

/* Norm over every head where the model has it, then rotation: the rotated
** rows. x and rstd are kept for the norm's backward, the normed rows are
** not; without a norm x goes. */
static struct tensor norm_rotate(struct step *s, struct tensor *x,
                                 enum weight w, struct tensor *rstd)
{
    int64_t heads = x->m.cols / s->m->head_dim;
    struct tensor normed, rotated;

    if (!s->m->head_norm) {
        rotated = rotate(s, "attention.rotary", x->m, 1);
        ten_free(s, x);
        return rotated;
    }
    rotary_table(s);
    *rstd = ten_acc(s, CAT_ATTENTION, "attention.head_rstd",
                    x->m.rows * heads, 1);
    normed = ten_act(s, CAT_ATTENTION, "attention.head_norm", x->m.rows,
                     x->m.cols);
    RUN(s, rms_norm, .y = per_head(s, normed.m), .x = per_head(s, x->m),
        .w = weight_of(s, w), .rstd = rstd->m, .eps = s->m->eps,
        .zero_centred = s->m->norm_zero_centred);
    rotated = rotate(s, "attention.rotary", normed.m, 1);
    ten_free(s, &normed);
    return rotated;
}

/* The way back; dy and what the norm kept are freed. */
static struct tensor norm_rotate_backward(struct step *s, struct tensor *dy,
                                          struct tensor *x, enum weight w,
                                          struct tensor *rstd)
{
    int64_t rows = dy->m.rows, cols = dy->m.cols;
    struct tensor dn, dx;

    dn = rotate(s, "attention.rotary_bwd", dy->m, -1);
    ten_free(s, dy);
    if (!s->m->head_norm) return dn;
    dx = ten_act(s, CAT_ATTENTION, "attention.head_norm_bwd", rows, cols);
    RUN(s, rms_norm_bwd, .dx = per_head(s, dx.m), .dy = per_head(s, dn.m),
        .x = per_head(s, x->m), .w = weight_of(s, w), .rstd = rstd->m,
        .zero_centred = s->m->norm_zero_centred);
    ten_free(s, &dn);
    ten_free(s, x);
    ten_free(s, rstd);
    return dx;
}

/* Projections up to the rotated q and k in a. */
static void project(struct step *s, struct mat n, struct attention_saved *a,
                    bool save)
{
    const struct model *m = s->m;
    struct split sp = split_of(m);
    struct projection p[QKV];

    projections(m, p);
    a->joined = linear_forward(s, CAT_ATTENTION, "attention.qkv", n, p, QKV,
                               save ? a->h : NULL);
    a->q = take_heads(s, "attention.q", a->joined.m, m->q_heads, sp.q_stride,
                      sp.q);
    if (m->attn_gate)
        a->gate = take_heads(s, "attention.gate", a->joined.m, m->q_heads,
                             sp.q_stride, sp.q + m->head_dim);
    a->k = take_heads(s, "attention.k", a->joined.m, m->kv_heads,
                      m->head_dim, sp.k);
    a->q_rot = norm_rotate(s, &a->q, W_Q_NORM, &a->q_rstd);
    a->k_rot = norm_rotate(s, &a->k, W_K_NORM, &a->k_rstd);
}

static void drop_inputs(struct step *s, struct attention_saved *a)
{
    ten_free(s, &a->q);
    ten_free(s, &a->q_rstd);
    ten_free(s, &a->k);
    ten_free(s, &a->k_rstd);
}

static void drop_rotated(struct step *s, struct attention_saved *a)
{
    ten_free(s, &a->q_rot);
    ten_free(s, &a->k_rot);
    ten_free(s, &a->joined);
}

/* The gated output, from the output that a then keeps only for a backward. */
static void gate_output(struct step *s, struct attention_saved *a, bool save)
{
    a->gated = ten_act(s, CAT_ATTENTION, "attention.gated", a->out.m.rows,
                       a->out.m.cols);
    RUN(s, sigmoid_gate, .out = a->gated.m, .o = a->out.m, .gate = a->gate.m);
    if (save) return;
    ten_free(s, &a->out);
    ten_free(s, &a->gate);
}

struct tensor attention_forward(struct step *s, struct mat n,
                                struct attention_saved *saved)
{
    struct attention_saved own = {.joined = {NULL, {0}}};
    struct attention_saved *a = saved != NULL ? saved : &own;
    struct tensor *in = s->m->attn_gate ? &a->gated : &a->out, y;
    struct projection p = projection_out(s->m);
    bool save = saved != NULL;

    project(s, n, a, save);
    if (!save) drop_inputs(s, a);
    a->out = executor_forward(s, a->q_rot.m, a->k_rot.m,
                              mat_cols(a->joined.m, split_of(s->m).v,
                                       model_kv(s->m)), save);
    if (!save) drop_rotated(s, a);
    if (s->m->attn_gate) gate_output(s, a, save);
    y = linear_forward(s, CAT_ATTENTION, "attention.o", in->m, &p, 1,
                       save ? &a->h_out : NULL);
    if (!save) ten_free(s, in);
    return y;
}

/* Through the output projection and the gate: gradient of the executor's
** output; dgate stays empty without a gate. */
static struct tensor output_backward(struct step *s,
                                     struct attention_saved *a,
                                     struct mat dout, struct tensor *dgate)
{
    struct projection p = projection_out(s->m);
    struct tensor *in = s->m->attn_gate ? &a->gated : &a->out;
    struct tensor dgated, d_o;

    dgated = linear_backward(s, CAT_ATTENTION, "attention.o_bwd", dout, in->m,
                             &p, 1, &a->h_out);
    ten_free(s, in);
    if (!s->m->attn_gate) return dgated;
    d_o = ten_act(s, CAT_ATTENTION, "attention.dout", dout.rows,
                  model_q(s->m));
    *dgate = ten_act(s, CAT_ATTENTION, "attention.dgate", dout.rows,
                     model_q(s->m));
    RUN(s, sigmoid_gate_bwd, .d_o = d_o.m, .dgate = dgate->m,
        .dout = dgated.m, .o = a->out.m, .gate = a->gate.m);
    ten_free(s, &dgated);
    ten_free(s, &a->out);
    ten_free(s, &a->gate);
    return d_o;
}

static void put_heads(struct step *s, struct mat joined, struct tensor *x,
                      int64_t stride, int64_t offset)
{
    int64_t d = s->m->head_dim;

    RUN(s, heads, .packed = x->m, .joined = joined, .heads = x->m.cols / d,
        .head_dim = d, .stride = stride, .offset = offset, .join = true);
    ten_free(s, x);
}

struct tensor attention_backward(struct step *s, struct attention_saved *a,
                                 struct tensor *n, struct mat dout)
{
    const struct model *m = s->m;
    struct split sp = split_of(m);
    struct projection p[QKV];
    struct tensor dgate = {NULL, {0}}, d_o, dq, dk, dv, joined, dn;

    d_o = output_backward(s, a, dout, &dgate);
    executor_backward(s, d_o.m, &dq, &dk, &dv);
    ten_free(s, &d_o);
    drop_rotated(s, a);
    dq = norm_rotate_backward(s, &dq, &a->q, W_Q_NORM, &a->q_rstd);
    dk = norm_rotate_backward(s, &dk, &a->k, W_K_NORM, &a->k_rstd);
    joined = ten_act(s, CAT_ATTENTION, "attention.djoined", n->m.rows,
                     sp.width);
    put_heads(s, joined.m, &dq, sp.q_stride, sp.q);
    if (m->attn_gate)
        put_heads(s, joined.m, &dgate, sp.q_stride, sp.q + m->head_dim);
    put_heads(s, joined.m, &dk, m->head_dim, sp.k);
    put_heads(s, joined.m, &dv, m->head_dim, sp.v);
    projections(m, p);
    dn = linear_backward(s, CAT_ATTENTION, "attention.qkv_bwd", joined.m,
                         n->m, p, QKV, a->h);
    ten_free(s, &joined);
    ten_free(s, n);
    return dn;
}
