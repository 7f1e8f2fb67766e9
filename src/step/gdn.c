/*
** gdn.c - the gated delta net mixer, forward and backward (model.md 2.3,
** 3.3, 3.9 to 3.13), on this rank's GDN rows.
**
** What is kept for backward and what dies at once follows the traced
** framework's operators: one fused input projection, split into tensors of
** their own; q and k repeated to the value heads and then normed; the chunk
** matrix kept, w, u, the chunk states and new values rebuilt.
*/
#include <math.h>

/* Of the l2 norm of q and k, whatever the config says (model.md 1). */
#define L2_EPS 1e-6

#include "step/gdn_flow.h"
#include "step/mixers.h"


/* Frees a tensor that a forward without saving is done with. */
#define LET_GO(t)                       \
    do {                                \
        if (saved == NULL) ten_free(s, &(t)); \
    } while (0)

static void in_projections(const struct model *m, struct projection *p)
{
    p[0] = (struct projection){W_QKV, SITE_GDN_QKV, model_conv_channels(m), 0};
    p[1] = (struct projection){W_Z, SITE_GDN_Z, model_value(m), 0};
    p[2] = (struct projection){W_B, SITE_COUNT, m->v_heads, 0};
    p[3] = (struct projection){W_A, SITE_COUNT, m->v_heads, 0};
}

static struct projection out_projection(const struct model *m)
{
    return (struct projection){W_GDN_OUT, SITE_GDN_OUT, m->hidden, 0};
}

/* A copy of columns [first, first + n) as a tensor of its own. */
static struct tensor take_cols(struct step *s, const char *op, struct mat x,
                               int64_t first, int64_t n)
{
    struct tensor t = ten_act(s, CAT_GDN, op, x.rows, n);

    RUN(s, copy, .dst = t.m, .src = mat_cols(x, first, n));
    return t;
}

static int64_t state_width(const struct model *m)
{
    return m->v_heads * m->k_dim * m->v_dim;
}

/* ---- convolution over levels -------------------------------------------- */

/* The last kernel - 1 rows before a piece's end, as the next piece's halo:
** from m, and from the piece's own halo where it is shorter than that. */
static void tail_rows(struct step *s, const struct dev_piece *p, struct mat m,
                      struct mat halo)
{
    int64_t keep = s->m->conv - 1, own = p->len < keep ? p->len : keep;
    struct mat to = mat_rows(halo, p->state_out * keep, keep);

    if (own < keep && p->state_in < 0)
        RUN(s, fill, .x = mat_rows(to, 0, keep - own), .value = 0);
    else if (own < keep)
        RUN(s, copy, .dst = mat_rows(to, 0, keep - own),
            .src = mat_rows(halo, p->state_in * keep + own, keep - own));
    RUN(s, copy, .dst = mat_rows(to, keep - own, own),
        .src = mat_rows(m, p->row + p->len - own, own));
}

/* Its backward: the halo's gradient goes to the rows it came from. */
static void tail_rows_backward(struct step *s, const struct dev_piece *p,
                               struct mat dm, struct mat dhalo)
{
    int64_t keep = s->m->conv - 1, own = p->len < keep ? p->len : keep;
    struct mat from = mat_rows(dhalo, p->state_out * keep, keep);
    struct mat rows = mat_rows(dm, p->row + p->len - own, own);

    if (own < keep && p->state_in >= 0) {
        struct mat up = mat_rows(dhalo, p->state_in * keep + own, keep - own);
        RUN(s, add, .out = up, .a = up, .b = mat_rows(from, 0, keep - own));
    }
    RUN(s, add, .out = rows, .a = rows, .b = mat_rows(from, keep - own, own));
}

/* c = silu(conv(m)); halo holds every piece's last rows afterwards. */
static struct tensor convolve(struct step *s, struct mat m,
                              struct tensor *halo)
{
    const struct gdn_flow *f = s->flow;
    int64_t keep = s->m->conv - 1, l, i;
    struct tensor c;

    *halo = ten_act(s, CAT_GDN, "gdn.halo", f->n_state * keep, m.cols);
    c = ten_act(s, CAT_GDN, "gdn.conv", m.rows, m.cols);
    for (l = 0; l < f->n_level; l++) {
        const struct gdn_level *v = &f->level[l];

        gdn_flow_fetch(s, l, mat_shape(halo->m, f->n_state, keep * m.cols),
                       "gdn.halo.fetch");
        RUN(s, conv, .y = c.m, .x = m, .w = weight_of(s, W_CONV),
            .halo = halo->m, .piece = v->piece, .n_piece = v->n_piece);
        for (i = 0; s->k != NULL && i < v->n_piece; i++)
            tail_rows(s, &v->piece[i], m, halo->m);
    }
    return c;
}

static struct tensor convolve_backward(struct step *s, struct mat dc,
                                       struct mat m, struct mat halo)
{
    const struct gdn_flow *f = s->flow;
    int64_t keep = s->m->conv - 1, l, i;
    struct tensor dm, dhalo;

    dhalo = ten_acc(s, CAT_GDN, "gdn.dhalo", f->n_state * keep, m.cols);
    RUN(s, fill, .x = dhalo.m, .value = 0);
    dm = ten_act(s, CAT_GDN, "gdn.conv.backward", m.rows, m.cols);
    for (l = f->n_level - 1; l >= 0; l--) {
        const struct gdn_level *v = &f->level[l];

        RUN(s, conv_bwd, .dx = dm.m, .dhalo = dhalo.m, .dy = dc, .x = m,
            .w = weight_of(s, W_CONV), .halo = halo, .piece = v->piece,
            .n_piece = v->n_piece);
        for (i = 0; s->k != NULL && i < v->n_piece; i++)
            tail_rows_backward(s, &v->piece[i], dm.m, dhalo.m);
        gdn_flow_return(s, l, mat_shape(dhalo.m, f->n_state, keep * m.cols),
                        "gdn.halo.return");
    }
    ten_free(s, &dhalo);
    return dm;
}

/* ---- q and k ------------------------------------------------------------ */

/* Repeated to the value heads, then l2-normed per head. */
static struct tensor expand_norm(struct step *s, struct tensor *x,
                                 struct tensor *rnorm)
{
    const struct model *m = s->m;
    int64_t rep = m->v_heads / m->k_heads, rows = x->m.rows;
    struct tensor wide, y;

    wide = ten_act(s, CAT_GDN, "gdn.repeat", rows, m->v_heads * m->k_dim);
    RUN(s, repeat_heads, .y = wide.m, .x = x->m, .rep = rep,
        .head_dim = m->k_dim);
    ten_free(s, x);
    y = ten_act(s, CAT_GDN, "gdn.l2norm", rows, m->v_heads * m->k_dim);
    *rnorm = ten_acc(s, CAT_GDN, "gdn.l2norm.rnorm", rows * m->v_heads, 1);
    RUN(s, l2_norm, .y = mat_shape(y.m, rows * m->v_heads, m->k_dim),
        .x = mat_shape(wide.m, rows * m->v_heads, m->k_dim),
        .rnorm = rnorm->m, .eps = L2_EPS);
    ten_free(s, &wide);
    return y;
}

static struct tensor expand_norm_backward(struct step *s, struct tensor *dy,
                                          struct tensor *y,
                                          struct tensor *rnorm)
{
    const struct model *m = s->m;
    int64_t rep = m->v_heads / m->k_heads, rows = y->m.rows;
    struct tensor wide, dx;

    wide = ten_act(s, CAT_GDN, "gdn.l2norm.backward", rows, y->m.cols);
    RUN(s, l2_norm_bwd,
        .dx = mat_shape(wide.m, rows * m->v_heads, m->k_dim),
        .dy = mat_shape(dy->m, rows * m->v_heads, m->k_dim),
        .y = mat_shape(y->m, rows * m->v_heads, m->k_dim), .rnorm = rnorm->m);
    ten_free(s, dy);
    ten_free(s, y);
    ten_free(s, rnorm);
    dx = ten_act(s, CAT_GDN, "gdn.repeat.backward", rows, model_key(m));
    RUN(s, sum_heads, .x = dx.m, .y = wide.m, .rep = rep,
        .head_dim = m->k_dim);
    ten_free(s, &wide);
    return dx;
}

/* ---- the delta rule over levels ----------------------------------------- */

/* What the chunk form rebuilds in both directions. */
struct chunk_scratch { struct tensor w, u, v_new, h; };

static struct chunk_scratch scratch_new(struct step *s, int64_t rows)
{
    const struct model *m = s->m;
    struct chunk_scratch c;

    c.w = ten_act(s, CAT_GDN, "gdn.delta.w", rows, m->v_heads * m->k_dim);
    c.u = ten_act(s, CAT_GDN, "gdn.delta.u", rows, model_value(m));
    c.h = ten_act(s, CAT_GDN, "gdn.delta.h", s->flow->chunks, state_width(m));
    c.v_new = ten_act(s, CAT_GDN, "gdn.delta.v_new", rows, model_value(m));
    return c;
}

static void scratch_free(struct step *s, struct chunk_scratch *c)
{
    ten_free(s, &c->w);
    ten_free(s, &c->u);
    ten_free(s, &c->v_new);
    ten_free(s, &c->h);
}

static double query_scale(const struct model *m)
{
    return 1.0 / sqrt((double)m->k_dim);
}

/* Fills o, states, g_cum and x of v from its q, k, v, g, beta. */
static void delta_forward(struct step *s, struct gdn_saved *v, int64_t rows)
{
    const struct model *m = s->m;
    const struct gdn_flow *f = s->flow;
    struct chunk_scratch c;
    int64_t l;

    v->states = ten_acc(s, CAT_GDN, "gdn.states", f->n_state, state_width(m));
    v->g_cum = ten_acc(s, CAT_GDN, "gdn.g_cum", rows, m->v_heads);
    v->x = ten_act(s, CAT_GDN, "gdn.chunk_matrix", rows,
                   m->v_heads * DELTA_CHUNK);
    c = scratch_new(s, rows);
    v->o = ten_act(s, CAT_GDN, "gdn.delta", rows, model_value(m));
    for (l = 0; l < f->n_level; l++) {
        gdn_flow_fetch(s, l, v->states.m, "gdn.state.fetch");
        RUN(s, delta, .o = v->o.m, .states = v->states.m, .g_cum = v->g_cum.m,
            .x = v->x.m, .q = v->qn.m, .k = v->kn.m, .v = v->v.m,
            .g = v->g.m, .beta = v->beta.m, .w = c.w.m, .u = c.u.m,
            .v_new = c.v_new.m, .h = c.h.m, .heads = m->v_heads,
            .k_dim = m->k_dim, .v_dim = m->v_dim, .scale = query_scale(m),
            .piece = f->level[l].piece, .n_piece = f->level[l].n_piece);
    }
    scratch_free(s, &c);
}

struct delta_grads { struct tensor dq, dk, dv, dg, dbeta; };

static struct delta_grads delta_backward(struct step *s, struct gdn_saved *v,
                                         struct mat d_o)
{
    const struct model *m = s->m;
    const struct gdn_flow *f = s->flow;
    int64_t rows = d_o.rows, l;
    struct chunk_scratch c = scratch_new(s, rows);
    struct tensor dw, du, dh, dstates;
    struct delta_grads g;

    dstates = ten_acc(s, CAT_GDN, "gdn.dstates", f->n_state, state_width(m));
    RUN(s, fill, .x = dstates.m, .value = 0);
    dh = ten_act(s, CAT_GDN, "gdn.delta.dh", f->chunks, state_width(m));
    dw = ten_act(s, CAT_GDN, "gdn.delta.dw", rows, m->v_heads * m->k_dim);
    du = ten_act(s, CAT_GDN, "gdn.delta.du", rows, model_value(m));
    g.dq = ten_act(s, CAT_GDN, "gdn.delta.dq", rows, m->v_heads * m->k_dim);
    g.dk = ten_act(s, CAT_GDN, "gdn.delta.dk", rows, m->v_heads * m->k_dim);
    g.dv = ten_act(s, CAT_GDN, "gdn.delta.dv", rows, model_value(m));
    g.dg = ten_acc(s, CAT_GDN, "gdn.delta.dg", rows, m->v_heads);
    g.dbeta = ten_acc(s, CAT_GDN, "gdn.delta.dbeta", rows, m->v_heads);
    for (l = f->n_level - 1; l >= 0; l--) {
        RUN(s, delta_bwd, .dq = g.dq.m, .dk = g.dk.m, .dv = g.dv.m,
            .dg = g.dg.m, .dbeta = g.dbeta.m, .dstates = dstates.m,
            .d_o = d_o, .states = v->states.m, .g_cum = v->g_cum.m,
            .x = v->x.m, .q = v->qn.m, .k = v->kn.m, .v = v->v.m,
            .beta = v->beta.m, .w = c.w.m, .u = c.u.m, .v_new = c.v_new.m,
            .h = c.h.m, .dw = dw.m, .du = du.m, .dh = dh.m,
            .heads = m->v_heads, .k_dim = m->k_dim, .v_dim = m->v_dim,
            .scale = query_scale(m), .piece = f->level[l].piece,
            .n_piece = f->level[l].n_piece);
        gdn_flow_return(s, l, dstates.m, "gdn.state.return");
    }
    scratch_free(s, &c);
    ten_free(s, &dw);
    ten_free(s, &du);
    ten_free(s, &dh);
    ten_free(s, &dstates);
    ten_free(s, &v->v);
    ten_free(s, &v->x);
    ten_free(s, &v->g_cum);
    ten_free(s, &v->g);
    ten_free(s, &v->states);
    return g;
}

/* ---- forward ------------------------------------------------------------ */

/* The fused projection and its split: m, z, a kept; b goes into the gates. */
static void project(struct step *s, struct mat n, struct gdn_saved *v,
                    bool save)
{
    const struct model *m = s->m;
    struct projection p[PROJECTIONS];
    struct tensor joined, b;
    int64_t conv = model_conv_channels(m), value = model_value(m);

    in_projections(m, p);
    joined = linear_forward(s, CAT_GDN, "gdn.in_proj", n, p, PROJECTIONS,
                            save ? v->h : NULL);
    v->m = take_cols(s, "gdn.qkv", joined.m, 0, conv);
    v->z = take_cols(s, "gdn.z", joined.m, conv, value);
    b = take_cols(s, "gdn.b", joined.m, conv + value, m->v_heads);
    v->a = take_cols(s, "gdn.a", joined.m, conv + value + m->v_heads,
                     m->v_heads);
    ten_free(s, &joined);
    v->beta = ten_acc(s, CAT_GDN, "gdn.beta", n.rows, m->v_heads);
    v->g = ten_acc(s, CAT_GDN, "gdn.g", n.rows, m->v_heads);
    RUN(s, gdn_gates, .g = v->g.m, .beta = v->beta.m, .a = v->a.m, .b = b.m,
        .a_log = weight_of(s, W_A_LOG), .dt_bias = weight_of(s, W_DT_BIAS));
    ten_free(s, &b);
}

/* Convolution, split, repeat and norm: qn, kn, v, their norms, halo. */
static void make_qkv(struct step *s, struct gdn_saved *v)
{
    int64_t key = model_key(s->m);
    struct tensor c = convolve(s, v->m.m, &v->halo), q, k;

    q = take_cols(s, "gdn.q", c.m, 0, key);
    k = take_cols(s, "gdn.k", c.m, key, key);
    v->v = take_cols(s, "gdn.v", c.m, 2 * key, model_value(s->m));
    ten_free(s, &c);
    v->qn = expand_norm(s, &q, &v->q_rnorm);
    v->kn = expand_norm(s, &k, &v->k_rnorm);
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

struct tensor gdn_forward(struct step *s, struct mat n,
                          struct gdn_saved *saved)
{
    struct gdn_saved local = {0};
    struct gdn_saved *v = saved != NULL ? saved : &local;
    struct projection p = out_projection(s->m);
    struct tensor out;

    project(s, n, v, saved != NULL);
    LET_GO(v->a);
    make_qkv(s, v);
    LET_GO(v->m);
    LET_GO(v->halo);
    LET_GO(v->q_rnorm);
    LET_GO(v->k_rnorm);
    delta_forward(s, v, n.rows);
    LET_GO(v->qn);
    LET_GO(v->kn);
    LET_GO(v->v);
    LET_GO(v->g);
    LET_GO(v->beta);
    LET_GO(v->g_cum);
    LET_GO(v->x);
    LET_GO(v->states);
    gated_norm(s, v, n.rows, saved != NULL);
    LET_GO(v->normed);
    LET_GO(v->z);
    out = linear_forward(s, CAT_GDN, "gdn.out_proj", v->gated.m, &p, 1,
                         saved != NULL ? &v->h_out : NULL);
    LET_GO(v->gated);
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
    int64_t rows = dout.rows, heads = rows * m->v_heads;
    struct tensor dgated, dnormed, d_o;

    dgated = linear_backward(s, CAT_GDN, "gdn.out_proj.backward", dout,
                             v->gated.m, &p, 1, &v->h_out);
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

/* The three gradients of the convolution's output, joined. */
static struct tensor join_qkv(struct step *s, struct tensor *dq,
                              struct tensor *dk, struct tensor *dv)
{
    int64_t key = model_key(s->m);
    struct tensor dc = ten_act(s, CAT_GDN, "gdn.qkv.backward", dv->m.rows,
                               model_conv_channels(s->m));

    RUN(s, copy, .dst = mat_cols(dc.m, 0, key), .src = dq->m);
    RUN(s, copy, .dst = mat_cols(dc.m, key, key), .src = dk->m);
    RUN(s, copy, .dst = mat_cols(dc.m, 2 * key, dv->m.cols), .src = dv->m);
    ten_free(s, dq);
    ten_free(s, dk);
    ten_free(s, dv);
    return dc;
}

/* The gradient of the fused projection's output: dm | dz | db | da. */
static struct tensor join_projections(struct step *s, struct gdn_saved *v,
                                      struct delta_grads *g,
                                      struct tensor *dm, struct tensor *dz)
{
    int64_t conv = dm->m.cols, value = dz->m.cols, heads = s->m->v_heads;
    struct tensor d, da, db;

    da = ten_act(s, CAT_GDN, "gdn.a.backward", dm->m.rows, heads);
    db = ten_act(s, CAT_GDN, "gdn.b.backward", dm->m.rows, heads);
    RUN(s, gdn_gates_bwd, .da = da.m, .db = db.m, .dg = g->dg.m,
        .dbeta = g->dbeta.m, .a = v->a.m, .beta = v->beta.m,
        .a_log = weight_of(s, W_A_LOG), .dt_bias = weight_of(s, W_DT_BIAS));
    ten_free(s, &g->dg);
    ten_free(s, &g->dbeta);
    ten_free(s, &v->a);
    ten_free(s, &v->beta);
    d = ten_act(s, CAT_GDN, "gdn.in_proj.backward", dm->m.rows,
                conv + value + 2 * heads);
    RUN(s, copy, .dst = mat_cols(d.m, 0, conv), .src = dm->m);
    RUN(s, copy, .dst = mat_cols(d.m, conv, value), .src = dz->m);
    RUN(s, copy, .dst = mat_cols(d.m, conv + value, heads), .src = db.m);
    RUN(s, copy, .dst = mat_cols(d.m, conv + value + heads, heads),
        .src = da.m);
    ten_free(s, dm);
    ten_free(s, dz);
    ten_free(s, &db);
    ten_free(s, &da);
    return d;
}

struct tensor gdn_backward(struct step *s, struct gdn_saved *v,
                           struct tensor *n, struct mat dout)
{
    struct projection p[PROJECTIONS];
    struct delta_grads g;
    struct tensor dz, d_o, dq, dk, dc, dm, joined, dn;

    in_projections(s->m, p);
    d_o = output_backward(s, v, dout, &dz);
    g = delta_backward(s, v, d_o.m);
    ten_free(s, &d_o);
    dq = expand_norm_backward(s, &g.dq, &v->qn, &v->q_rnorm);
    dk = expand_norm_backward(s, &g.dk, &v->kn, &v->k_rnorm);
    dc = join_qkv(s, &dq, &dk, &g.dv);
    dm = convolve_backward(s, dc.m, v->m.m, v->halo.m);
    ten_free(s, &dc);
    ten_free(s, &v->m);
    ten_free(s, &v->halo);
    joined = join_projections(s, v, &g, &dm, &dz);
    dn = linear_backward(s, CAT_GDN, "gdn.in_proj.backward", joined.m, n->m,
                         p, PROJECTIONS, v->h);
    ten_free(s, &joined);
    ten_free(s, n);
    return dn;
}
