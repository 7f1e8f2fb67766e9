/*
** gdn.c - the gated delta net mixer around its rule: the fused input
** projection and its split, gates, output norm and gate, output projection
** (model.md 2.3, 3.3, 3.9).
**
** What is kept for backward and what dies at once follows the traced
** framework's operators: the gate is cloned, the writing strength is kept in
** the activation type, the decay's logits in f32 with the factor of a head
** that multiplies their softplus, and rows of padding are masked by a copy.
*/
#include "step/gdn_flow.h"
#include "step/mixers.h"

/* Frees a tensor that a forward without saving is done with. */
#define LET_GO(t)                       \
    do {                                \
        if (saved == NULL) ten_free(s, &(t)); \
    } while (0)

static void in_projections(const struct model *m, struct projection *p)
{
    p[0] = (struct projection){W_QKV, SITE_GDN_QKV, model_conv_channels(m),
                               0, 0};
    p[1] = (struct projection){W_Z, SITE_GDN_Z, model_value(m), 0, 0};
    p[2] = (struct projection){W_B, SITE_COUNT, m->v_heads, 0, 0};
    p[3] = (struct projection){W_A, SITE_COUNT, m->v_heads, 0, 0};
}

static struct projection out_projection(const struct model *m)
{
    return (struct projection){W_GDN_OUT, SITE_GDN_OUT, m->hidden, 0, 0};
}

/* x in the accumulator's type, or back. */
static struct tensor as_type(struct step *s, const char *op, struct mat x,
                             enum dtype t)
{
    struct tensor y = ten_of(s, CAT_GDN, op, x.rows, x.cols, t);

    RUN(s, copy, .dst = y.m, .src = x);
    return y;
}

/* ---- forward ------------------------------------------------------------ */

/* What the split leaves for the rule alone. The framework holds both by name
** until the layer's output is made. */
struct rule_input { struct tensor m, g; };

/* beta and g from the logits b and a: columns of the joined rows. The logits
** of the decay are widened, shifted and kept shifted; what they were lives as
** long as that takes, their softplus until g is there. */
static struct tensor make_gates(struct step *s, struct mat b, struct mat a,
                                struct gdn_saved *v)
{
    int64_t rows = b.rows, heads = s->m->v_heads;
    struct tensor g, wide, softplus, rate;

    v->beta = ten_act(s, CAT_GDN, "gdn.beta", rows, heads);
    rate = ten_act(s, CAT_GDN, "gdn.rate", 1, heads);   /* before its sign */
    v->rate = ten_act(s, CAT_GDN, "gdn.rate", 1, heads);
    ten_free(s, &rate);
    wide = ten_acc(s, CAT_GDN, "gdn.a.wide", rows, heads);
    v->a = ten_acc(s, CAT_GDN, "gdn.a", rows, heads);
    RUN(s, copy, .dst = v->a.m, .src = a);
    ten_free(s, &wide);
    softplus = ten_acc(s, CAT_GDN, "gdn.softplus", rows, heads);
    g = ten_acc(s, CAT_GDN, "gdn.g", rows, heads);
    /* our kernel makes both at once: beta, widened, has the softplus' place */
    RUN(s, gdn_gates, .g = g.m, .beta = softplus.m, .a = a, .b = b,
        .a_log = weight_of(s, W_A_LOG), .dt_bias = weight_of(s, W_DT_BIAS));
    RUN(s, copy, .dst = v->beta.m, .src = softplus.m);
    ten_free(s, &softplus);
    return g;
}

/* The fused projection and its split; z, a and beta stay in v. */
static struct rule_input project(struct step *s, struct norm_saved *n,
                                 struct gdn_saved *v, bool save)
{
    const struct model *m = s->m;
    int64_t conv = model_conv_channels(m), value = model_value(m);
    int64_t heads = m->v_heads;
    struct projection p[PROJECTIONS];
    struct tensor joined, gate;
    struct rule_input in;

    in_projections(m, p);
    joined = linear_columns(s, CAT_GDN, "gdn.in_proj", n, p, PROJECTIONS,
                            save ? v->h : NULL);
    gate = ten_cols(s, CAT_GDN, "gdn.z", joined.m, conv, value);
    in.g = make_gates(s, mat_cols(joined.m, conv + value, heads),
                      mat_cols(joined.m, conv + value + heads, heads), v);
    in.m = ten_cols(s, CAT_GDN, "gdn.qkv", joined.m, 0, conv);
    ten_free(s, &joined);
    v->z = ten_cols(s, CAT_GDN, "gdn.z.clone", gate.m, 0, value);
    ten_free(s, &gate);
    return in;
}

static void gated_norm(struct step *s, struct gdn_saved *v, int64_t rows,
                       bool save)
{
    const struct model *m = s->m;
    int64_t heads = rows * m->v_heads;

    v->normed = ten_act(s, CAT_GDN, "gdn.norm", rows, model_value(m));
    v->o_rstd = ten_acc(s, CAT_GDN, "gdn.norm.rstd", heads, 1);
    RUN(s, rms_norm, .y = mat_shape(v->normed.m, heads, m->v_dim),
        .x = mat_shape(v->o.m, heads, m->v_dim),
        .w = weight_of(s, W_GDN_NORM), .rstd = v->o_rstd.m, .eps = m->eps,
        .zero_centred = false);
    if (!save) ten_free(s, &v->o);
    if (!save) ten_free(s, &v->o_rstd);
    v->gated = ten_act(s, CAT_GDN, "gdn.gate", rows, model_value(m));
    RUN(s, silu_gate, .out = v->gated.m, .a = v->normed.m, .z = v->z.m);
}

/* The output with padded rows at zero: a copy; y is freed. */
static struct tensor mask_rows(struct step *s, struct gdn_saved *v,
                               struct tensor *y)
{
    struct tensor out;

    v->mask = ten_of(s, CAT_GDN, "gdn.mask", y->m.rows, 1, DT_U8);
    RUN(s, fill, .x = v->mask.m, .value = 0);
    out = ten_act(s, CAT_GDN, "gdn.masked", y->m.rows, y->m.cols);
    RUN(s, copy, .dst = out.m, .src = y->m);
    ten_free(s, y);
    return out;
}

struct tensor gdn_forward(struct step *s, struct norm_saved *n,
                          struct gdn_saved *saved)
{
    struct gdn_saved local = {0};
    struct gdn_saved *v = saved != NULL ? saved : &local;
    struct projection p = out_projection(s->m);
    struct rule_input in;
    struct tensor out;

    in = project(s, n, v, saved != NULL);
    LET_GO(v->a);
    LET_GO(v->rate);
    v->o = gdn_rule_forward(s, &in.m, v->beta.m, &in.g, saved != NULL);
    LET_GO(v->beta);
    gated_norm(s, v, v->o.m.rows, saved != NULL);
    LET_GO(v->normed);
    LET_GO(v->z);
    out = linear_rows(s, CAT_GDN, "gdn.out_proj", v->gated.m, &p,
                      saved != NULL ? &v->h_out : NULL);
    LET_GO(v->gated);
    out = mask_rows(s, v, &out);
    LET_GO(v->mask);
    ten_free(s, &in.m);
    ten_free(s, &in.g);
    return out;
}

/* ---- backward ----------------------------------------------------------- */

/* From the gradient of the mixer's output to that of the recurrence's o; dz
** on the way. */
static struct tensor output_backward(struct step *s, struct gdn_saved *v,
                                     struct mat dout, struct tensor *dz)
{
    const struct model *m = s->m;
    struct projection p = out_projection(m);
    int64_t rows = v->o.m.rows, heads = rows * m->v_heads;
    struct tensor dgated, dnormed, d_o;

    ten_free(s, &v->mask);
    dgated = linear_rows_bwd(s, CAT_GDN, "gdn.out_proj.backward", dout,
                             v->gated.m, &p, &v->h_out);
    ten_free(s, &v->gated);
    dnormed = ten_act(s, CAT_GDN, "gdn.gate.backward", rows, model_value(m));
    *dz = ten_act(s, CAT_GDN, "gdn.gate.backward", rows, model_value(m));
    RUN(s, silu_gate_bwd, .da = dnormed.m, .dz = dz->m, .dout = dgated.m,
        .a = v->normed.m, .z = v->z.m);
    ten_free(s, &dgated);
    ten_free(s, &v->normed);
    ten_free(s, &v->z);
    d_o = ten_act(s, CAT_GDN, "gdn.norm.backward", rows, model_value(m));
    RUN(s, rms_norm_bwd, .dx = mat_shape(d_o.m, heads, m->v_dim),
        .dy = mat_shape(dnormed.m, heads, m->v_dim),
        .x = mat_shape(v->o.m, heads, m->v_dim),
        .w = weight_of(s, W_GDN_NORM), .rstd = v->o_rstd.m,
        .zero_centred = false);
    ten_free(s, &dnormed);
    ten_free(s, &v->o);
    ten_free(s, &v->o_rstd);
    return d_o;
}

/* Gradients of the logits a and b; dg, dbeta and what v kept are freed. */
static void gates_backward(struct step *s, struct gdn_saved *v,
                           struct gdn_gradients *g, struct tensor *da,
                           struct tensor *db)
{
    int64_t rows = v->a.m.rows, heads = s->m->v_heads;
    struct tensor a = as_type(s, "gdn.a", v->a.m, s->dev->act);
    struct tensor beta = as_type(s, "gdn.beta.wide", v->beta.m, s->dev->acc);

    *da = ten_act(s, CAT_GDN, "gdn.a.backward", rows, heads);
    *db = ten_act(s, CAT_GDN, "gdn.b.backward", rows, heads);
    RUN(s, gdn_gates_bwd, .da = da->m, .db = db->m, .dg = g->dg.m,
        .dbeta = g->dbeta.m, .a = a.m, .beta = beta.m,
        .a_log = weight_of(s, W_A_LOG), .dt_bias = weight_of(s, W_DT_BIAS));
    ten_free(s, &a);
    ten_free(s, &beta);
    ten_free(s, &g->dg);
    ten_free(s, &g->dbeta);
    ten_free(s, &v->a);
    ten_free(s, &v->rate);
    ten_free(s, &v->beta);
}

/* The gradient of the fused projection's output: dm | dz | db | da. */
static struct tensor join_projections(struct step *s, struct gdn_saved *v,
                                      struct gdn_gradients *g,
                                      struct tensor *dz)
{
    int64_t conv = g->dm.m.cols, value = dz->m.cols, heads = s->m->v_heads;
    struct tensor d, da, db;

    gates_backward(s, v, g, &da, &db);
    d = ten_act(s, CAT_GDN, "gdn.in_proj.backward", dz->m.rows,
                conv + value + 2 * heads);
    RUN(s, copy, .dst = mat_cols(d.m, 0, conv), .src = g->dm.m);
    RUN(s, copy, .dst = mat_cols(d.m, conv, value), .src = dz->m);
    RUN(s, copy, .dst = mat_cols(d.m, conv + value, heads), .src = db.m);
    RUN(s, copy, .dst = mat_cols(d.m, conv + value + heads, heads),
        .src = da.m);
    ten_free(s, &g->dm);
    ten_free(s, dz);
    ten_free(s, &db);
    ten_free(s, &da);
    return d;
}

struct tensor gdn_backward(struct step *s, struct gdn_saved *v,
                           struct norm_saved *n, struct mat dout)
{
    struct projection p[PROJECTIONS];
    struct gdn_gradients g;
    struct tensor dz, d_o, joined, dn;

    in_projections(s->m, p);
    d_o = output_backward(s, v, dout, &dz);
    g = gdn_rule_backward(s, &d_o);
    joined = join_projections(s, v, &g, &dz);
    dn = linear_backward(s, CAT_GDN, "gdn.in_proj.backward", joined.m,
                         n->out.m, p, PROJECTIONS, v->h);
    ten_free(s, &joined);
    ten_free(s, &n->out);
    return dn;
}
