/*
** attention.c - the full-attention mixer: projections, head norms, rotary
** angles, the executor, the output gate (model.md 2.2, 3.5 to 3.7).
**
** The joined projection is q|gate per head, k, v; without a gate q, k, v.
** q and k are copied out of it, v stays a view, and so does the gate where
** the rank has one group of keys: its columns then lie side by side.
**
** Fewer groups of keys than tensor-parallel ranks: a rank's columns of the
** projection are then no whole group, so the sum is gathered, kept whole,
** and each rank takes one group.
*/
#include "step/executor.h"
#include "step/mixers.h"
#include "step/rows.h"

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

static bool shares_keys(const struct step *s)
{
    return s->whole->kv_heads < s->tp;
}

static void projections(const struct step *s, struct projection p[QKV])
{
    static const enum weight bias[QKV] = {W_Q_BIAS, W_K_BIAS, W_V_BIAS};
    const struct model *m = s->m, *all = s->whole;
    int i;

    p[0] = (struct projection){W_Q, SITE_Q, split_of(m).k, 0, 0};
    p[1] = (struct projection){W_K, SITE_K, model_kv(m), 0, 0};
    p[2] = (struct projection){W_V, SITE_V, model_kv(m), 0, 0};
    for (i = 0; m->qkv_bias && i < QKV; i++) p[i].bias = bias[i];
    if (!shares_keys(s)) return;
    p[0].whole = split_of(all).k;
    p[1].whole = p[2].whole = model_kv(all);
    p[1].out = p[2].out = model_kv(all) / s->tp;
}

static struct projection projection_out(const struct model *m)
{
    return (struct projection){W_O, SITE_O, m->hidden, 0, 0};
}

struct mat attention_v(const struct step *s, struct mat joined)
{
    return mat_cols(joined, split_of(s->m).v, model_kv(s->m));
}

/* A gate that is no tensor of its own. */
static bool gate_is_view(const struct model *m)
{
    return m->attn_gate && m->kv_heads == 1;
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
    struct tensor y = ten_act(s, CAT_ATTENTION, op, x.rows, x.cols);

    RUN(s, rotary, .y = y.m, .x = x, .table = rotary_of(s),
        .pos = s->rotary_row.m.p, .heads = x.cols / d, .head_dim = d,
        .sign = sign);
    return y;
}

/* Norm over every head where the model has it: the normed rows. x and rstd
** are kept for the norm's backward, if save says so; without a norm x itself
** comes back. */
static struct tensor head_norm(struct step *s, struct tensor *x,
                               enum weight w, struct tensor *rstd, bool save)
{
    int64_t heads = x->m.cols / s->m->head_dim;
    struct tensor normed = *x;

    if (!s->m->head_norm) {
        *x = (struct tensor){NULL, {0}};
        return normed;
    }
    *rstd = ten_acc(s, CAT_ATTENTION, "attention.head_rstd",
                    x->m.rows * heads, 1);
    normed = ten_act(s, CAT_ATTENTION, "attention.head_norm", x->m.rows,
                     x->m.cols);
    RUN(s, rms_norm, .y = per_head(s, normed.m), .x = per_head(s, x->m),
        .w = weight_of(s, w), .rstd = rstd->m, .eps = s->m->eps,
        .zero_centred = s->m->norm_zero_centred);
    if (save) return normed;
    ten_free(s, x);
    ten_free(s, rstd);
    return normed;
}

/* x rotated by its rows' angles; x is freed. */
static struct tensor rotated(struct step *s, struct tensor *x)
{
    struct tensor y = rotate(s, "attention.rotary", x->m, 1);

    ten_free(s, x);
    return y;
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

/* The joined columns of all ranks: what arrives lies rank by rank and is
** copied into rows. */
static void gather_joined(struct step *s, struct attention_saved *a)
{
    int64_t rows = a->joined.m.rows, width = split_of(s->whole).width;
    struct tensor parts, part = a->joined;

    parts = ten_act(s, CAT_ATTENTION, "attention.qkv_gather", rows, width);
    a->joined = ten_act(s, CAT_ATTENTION, "attention.qkv_gather", rows,
                        width);
    ten_free(s, &parts);
    ten_free(s, &part);
    if (!(s->c.mode.otherwise & OTHERWISE_QKV_SLICED)) return;
    part = a->joined;
    a->joined = ten_act(s, CAT_ATTENTION, "attention.qkv_slice", rows,
                        split_of(s->m).width);
    ten_free(s, &part);
}

/* Projections up to the rotated q and k in a. */
static void project(struct step *s, struct norm_saved *n,
                    struct attention_saved *a, bool save)
{
    const struct model *m = s->m;
    struct split sp = split_of(m);
    struct projection p[QKV];
    struct tensor q, k;

    projections(s, p);
    a->joined = linear_columns(s, CAT_ATTENTION, "attention.qkv", n, p, QKV,
                               save ? a->h : NULL);
    if (shares_keys(s)) gather_joined(s, a);
    a->q = take_heads(s, "attention.q", a->joined.m, m->q_heads, sp.q_stride,
                      sp.q);
    q = head_norm(s, &a->q, W_Q_NORM, &a->q_rstd, save);
    a->k = take_heads(s, "attention.k", a->joined.m, m->kv_heads,
                      m->head_dim, sp.k);
    k = head_norm(s, &a->k, W_K_NORM, &a->k_rstd, save);
    if (m->attn_gate && !gate_is_view(m))
        a->gate = take_heads(s, "attention.gate", a->joined.m, m->q_heads,
                             sp.q_stride, sp.q + m->head_dim);
    a->q_rot = rotated(s, &q);
    a->k_rot = rotated(s, &k);
}

/* v as a tensor of its own, without the joined projection. */
static bool copies_v(const struct step *s)
{
    return (s->c.mode.otherwise & OTHERWISE_V_COPIED) != 0 &&
           s->cp == 1 && !gate_is_view(s->m);
}

static void drop_rotated(struct step *s, struct attention_saved *a)
{
    ten_free(s, &a->q_rot);
    ten_free(s, &a->k_rot);
    ten_free(s, &a->v);
}

/* Columns of query head i in x, and of its gate. */
static struct mat head_cols(const struct step *s, struct mat x, int64_t i)
{
    return mat_cols(x, i * s->m->head_dim, s->m->head_dim);
}

static struct mat gate_cols(const struct step *s,
                            const struct attention_saved *a, int64_t i)
{
    int64_t d = s->m->head_dim;

    if (a->gate.b != NULL) return head_cols(s, a->gate.m, i);
    return mat_cols(a->joined.m, i * 2 * d + d, d);
}

/* The gated output, from the output that a then keeps only for a backward. */
static void gate_output(struct step *s, struct attention_saved *a, bool save)
{
    int64_t i;

    a->gated = ten_act(s, CAT_ATTENTION, "attention.gated", a->out.m.rows,
                       a->out.m.cols);
    if (!gate_is_view(s->m))
        RUN(s, sigmoid_gate, .out = a->gated.m, .o = a->out.m,
            .gate = a->gate.m);
    for (i = 0; gate_is_view(s->m) && i < s->m->q_heads; i++)
        RUN(s, sigmoid_gate, .out = head_cols(s, a->gated.m, i),
            .o = head_cols(s, a->out.m, i), .gate = gate_cols(s, a, i));
    if (save) return;
    ten_free(s, &a->out);
    ten_free(s, &a->gate);
    ten_free(s, &a->joined);
}

struct tensor attention_forward(struct step *s, struct norm_saved *n,
                                struct attention_saved *saved, bool core)
{
    struct attention_saved own = {.joined = {NULL, {0}}};
    struct attention_saved *a = saved != NULL ? saved : &own;
    struct tensor *in = s->m->attn_gate ? &a->gated : &a->out, y;
    struct projection p = projection_out(s->m);
    bool save = saved != NULL;

    project(s, n, a, save);
    if (copies_v(s))
        a->v = take_heads(s, "attention.v", a->joined.m, s->m->kv_heads,
                          s->m->head_dim, split_of(s->m).v);
    a->out = core_forward(s, a, save && core);
    if (!save) drop_rotated(s, a);
    if (copies_v(s)) ten_free(s, &a->joined);
    if (!save && !gate_is_view(s->m)) ten_free(s, &a->joined);
    if (s->m->attn_gate) gate_output(s, a, save);
    y = linear_rows(s, CAT_ATTENTION, "attention.o", in->m, &p,
                    save ? &a->h_out : NULL);
    if (!save) ten_free(s, in);
    return y;
}

/* Through the gate: gradients of the core's output and, in *dgate, of the
** gate. */
static struct tensor gate_backward(struct step *s, struct attention_saved *a,
                                   struct tensor *dgated,
                                   struct tensor *dgate)
{
    int64_t rows = dgated->m.rows, q = model_q(s->m), i;
    struct tensor d_o;

    d_o = ten_act(s, CAT_ATTENTION, "attention.dout", rows, q);
    *dgate = ten_act(s, CAT_ATTENTION, "attention.dgate", rows, q);
    if (!gate_is_view(s->m))
        RUN(s, sigmoid_gate_bwd, .d_o = d_o.m, .dgate = dgate->m,
            .dout = dgated->m, .o = a->out.m, .gate = a->gate.m);
    for (i = 0; gate_is_view(s->m) && i < s->m->q_heads; i++)
        RUN(s, sigmoid_gate_bwd, .d_o = head_cols(s, d_o.m, i),
            .dgate = head_cols(s, dgate->m, i),
            .dout = head_cols(s, dgated->m, i),
            .o = head_cols(s, a->out.m, i), .gate = gate_cols(s, a, i));
    ten_free(s, dgated);
    ten_free(s, &a->gate);
    return d_o;
}

/* Through the output projection and the gate: gradient of the core's output;
** dgate stays empty without a gate. */
static struct tensor output_backward(struct step *s,
                                     struct attention_saved *a,
                                     struct mat dout, struct tensor *dgate)
{
    struct projection p = projection_out(s->m);
    struct tensor *in = s->m->attn_gate ? &a->gated : &a->out;
    struct tensor dgated;

    dgated = linear_rows_bwd(s, CAT_ATTENTION, "attention.o_bwd", dout, in->m,
                             &p, &a->h_out);
    if (!s->m->attn_gate) return dgated;
    ten_free(s, &a->gated);
    return gate_backward(s, a, &dgated, dgate);
}

static void put_heads(struct step *s, struct mat joined, struct tensor *x,
                      int64_t stride, int64_t offset)
{
    int64_t d = s->m->head_dim;

    RUN(s, heads, .packed = x->m, .joined = joined, .heads = x->m.cols / d,
        .head_dim = d, .stride = stride, .offset = offset, .join = true);
    ten_free(s, x);
}

/* The gradient of the joined rows from those of its parts, freed. */
static struct tensor join_heads(struct step *s, int64_t rows,
                                struct tensor *dq, struct tensor *dgate,
                                struct tensor *dk, struct tensor *dv)
{
    struct split sp = split_of(s->m);
    struct tensor joined, part;
    int64_t width = shares_keys(s) ? split_of(s->whole).width : sp.width;

    joined = ten_act(s, CAT_ATTENTION, "attention.djoined", rows, width);
    put_heads(s, joined.m, dq, sp.q_stride, sp.q);
    if (s->m->attn_gate)
        put_heads(s, joined.m, dgate, sp.q_stride, sp.q + s->m->head_dim);
    put_heads(s, joined.m, dk, s->m->head_dim, sp.k);
    put_heads(s, joined.m, dv, s->m->head_dim, sp.v);
    if (!shares_keys(s)) return joined;
    part = ten_act(s, CAT_ATTENTION, "attention.djoined", rows,
                   width / s->tp);
    ten_free(s, &joined);
    return part;
}

struct tensor attention_backward(struct step *s, struct attention_saved *a,
                                 struct norm_saved *n, struct mat dout,
                                 bool core)
{
    struct projection p[QKV];
    struct tensor dgate = {NULL, {0}}, d_o, dq, dk, dv, joined, dn;

    d_o = output_backward(s, a, dout, &dgate);
    core_backward(s, a, d_o.m, core, &dq, &dk, &dv);
    ten_free(s, &d_o);
    drop_rotated(s, a);
    ten_free(s, &a->joined);
    dq = norm_rotate_backward(s, &dq, &a->q, W_Q_NORM, &a->q_rstd);
    dk = norm_rotate_backward(s, &dk, &a->k, W_K_NORM, &a->k_rstd);
    joined = join_heads(s, n->out.m.rows, &dq, &dgate, &dk, &dv);
    projections(s, p);
    dn = linear_backward(s, CAT_ATTENTION, "attention.qkv_bwd", joined.m,
                         n->out.m, p, QKV, a->h);
    ten_free(s, &joined);
    ten_free(s, &n->out);
    return dn;
}
