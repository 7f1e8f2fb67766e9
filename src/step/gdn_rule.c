/*
** gdn_rule.c - convolution and gated delta rule over the buckets of
** gdn_flow.h, forward and backward (model.md 2.3, 3.10 to 3.13).
**
** q and k are repeated to the value heads and then normed; the chunk matrix
** is kept, w, u, the chunk states and new values are rebuilt.
*/
#include <math.h>

#include "step/gdn_table.h"
#include "step/mixers.h"

/* Of the l2 norm of q and k, whatever the config says (model.md 1). */
#define L2_EPS 1e-6

static int64_t state_width(const struct model *m)
{
    return m->v_heads * m->k_dim * m->v_dim;
}

static int64_t halo_rows(const struct model *m)
{
    return m->conv - 1;
}

/* ---- convolution -------------------------------------------------------- */

/* c = silu(conv(m)); the bucket's halo table is left to its children. */
static struct tensor convolve(struct step *s, const struct gdn_bucket *b,
                              struct gdn_kept *v, struct gdn_table *table)
{
    int64_t keep = halo_rows(s->m), cols = v->m.m.cols, l;
    struct mat parent = {NULL, 0, 0, 0, s->dev->act};
    struct tensor c, halo;

    if (b->parent >= 0) parent = s->flow->table[b->parent].halo.m;
    gdn_begin_table(s, b, v->halo.m, parent, keep);
    halo = gdn_whole_table(s, b, "gdn.halo.final", v->halo, keep);
    c = ten_act(s, CAT_GDN, "gdn.conv", b->rows, cols);
    v->segment = ten_of(s, CAT_GDN, "gdn.conv.segment", b->rows, 1, DT_I32);
    v->place = ten_of(s, CAT_GDN, "gdn.conv.place", b->rows, 1, DT_I32);
    for (l = 0; l < b->n_level; l++) {
        const struct gdn_level *x = &b->level[l];

        gdn_flow_fetch(s, b, l, mat_shape(halo.m, b->n_state, keep * cols),
                       "gdn.halo.fetch");
        RUN(s, conv, .y = c.m, .x = v->m.m, .w = weight_of(s, W_CONV),
            .halo = halo.m, .piece = x->piece, .n_piece = x->n_piece);
    }
    if (halo.b != v->halo.b) table->halo = halo;
    return c;
}

/* From the last level up, so that a halo's gradient is whole when it is sent
** or given to the rows that it came from. */
static struct tensor convolve_backward(struct step *s,
                                       const struct gdn_bucket *b,
                                       struct gdn_kept *v,
                                       struct gdn_table *table, struct mat dc)
{
    int64_t keep = halo_rows(s->m), cols = dc.cols, l;
    struct tensor halo, dm, dhalo, none = {NULL, {0}};
    struct tensor *left = &none;

    if (b->parent >= 0) left = &s->flow->table[b->parent].halo;
    halo = gdn_whole_table(s, b, "gdn.halo.final", v->halo, keep);
    dhalo = gdn_gradient_table(s, b, "gdn.dhalo", cols, keep, &table->halo);
    dm = ten_act(s, CAT_GDN, "gdn.conv.backward", b->rows, cols);
    for (l = b->n_level - 1; l >= 0; l--) {
        const struct gdn_level *x = &b->level[l];

        RUN(s, conv_bwd, .dx = dm.m, .dhalo = dhalo.m, .dy = dc,
            .x = v->m.m, .w = weight_of(s, W_CONV), .halo = halo.m,
            .piece = x->piece, .n_piece = x->n_piece);
        gdn_flow_return(s, b, l, mat_shape(dhalo.m, b->n_state, keep * cols),
                        "gdn.halo.return");
    }
    gdn_free_copy(s, &halo, &v->halo);
    gdn_leave_to_parent(s, b, "gdn.dhalo.final", &dhalo, keep, left);
    return dm;
}

/* ---- q and k ------------------------------------------------------------ */

/* Repeated to the value heads. */
static struct tensor expand(struct step *s, struct mat x)
{
    const struct model *m = s->m;
    struct tensor y = ten_act(s, CAT_GDN, "gdn.repeat", x.rows,
                              m->v_heads * m->k_dim);

    RUN(s, repeat_heads, .y = y.m, .x = x, .rep = m->v_heads / m->k_heads,
        .head_dim = m->k_dim);
    return y;
}

/* l2-normed per head; the repeated rows are freed. */
static struct tensor l2_normed(struct step *s, struct tensor *wide,
                               struct tensor *rnorm)
{
    const struct model *m = s->m;
    int64_t rows = wide->m.rows;
    struct tensor y;

    y = ten_act(s, CAT_GDN, "gdn.l2norm", rows, m->v_heads * m->k_dim);
    *rnorm = ten_acc(s, CAT_GDN, "gdn.l2norm.rnorm", rows * m->v_heads, 1);
    RUN(s, l2_norm, .y = mat_shape(y.m, rows * m->v_heads, m->k_dim),
        .x = mat_shape(wide->m, rows * m->v_heads, m->k_dim),
        .rnorm = rnorm->m, .eps = L2_EPS);
    ten_free(s, wide);
    return y;
}

/* Norm and repetition in one: gradients of a key's heads are added. */
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

/* Repeat, norm and split of the convolution's output c: qn, kn, their norms,
** v. */
static void make_qkv(struct step *s, struct gdn_kept *v, struct mat c)
{
    int64_t key = model_key(s->m);
    struct tensor q = expand(s, mat_cols(c, 0, key));
    struct tensor k = expand(s, mat_cols(c, key, key));

    v->qn = l2_normed(s, &q, &v->q_rnorm);
    v->kn = l2_normed(s, &k, &v->k_rnorm);
    v->v = ten_cols(s, CAT_GDN, "gdn.v", c, 2 * key, model_value(s->m));
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

/* ---- the delta rule ----------------------------------------------------- */

/* What the chunk form rebuilds in both directions. */
struct chunk_scratch { struct tensor w, u, v_new, h; };

static struct chunk_scratch scratch_new(struct step *s,
                                        const struct gdn_bucket *b)
{
    const struct model *m = s->m;
    struct chunk_scratch c;

    c.w = ten_act(s, CAT_GDN, "gdn.delta.w", b->rows, m->v_heads * m->k_dim);
    c.u = ten_act(s, CAT_GDN, "gdn.delta.u", b->rows, model_value(m));
    c.h = ten_act(s, CAT_GDN, "gdn.delta.h", b->chunks, state_width(m));
    c.v_new = ten_act(s, CAT_GDN, "gdn.delta.v_new", b->rows,
                      model_value(m));
    return c;
}

static double query_scale(const struct model *m)
{
    return 1.0 / sqrt((double)m->k_dim);
}

/* The writing strength in the kernels' type. */
static struct tensor beta_acc(struct step *s, struct mat beta)
{
    struct tensor x = ten_acc(s, CAT_GDN, "gdn.beta.wide", beta.rows,
                              beta.cols);

    RUN(s, copy, .dst = x.m, .src = beta);
    return x;
}

/* The bucket's output from v's q, k, v and beta; fills states, g_cum, x. */
static struct tensor delta_forward(struct step *s, const struct gdn_bucket *b,
                                   struct gdn_kept *v,
                                   struct gdn_table *table, struct mat g)
{
    const struct model *m = s->m;
    struct mat parent = {NULL, 0, 0, 0, s->dev->acc};
    struct tensor o, states, beta;
    struct chunk_scratch c;
    int64_t l;

    if (b->parent >= 0) parent = s->flow->table[b->parent].states.m;
    gdn_begin_table(s, b, v->states.m, parent, 1);
    states = gdn_whole_table(s, b, "gdn.states.final", v->states, 1);
    v->g_cum = ten_acc(s, CAT_GDN, "gdn.g_cum", b->rows, m->v_heads);
    v->x = ten_act(s, CAT_GDN, "gdn.chunk_matrix", b->rows,
                   m->v_heads * DELTA_CHUNK);
    c = scratch_new(s, b);
    o = ten_act(s, CAT_GDN, "gdn.delta", b->rows, model_value(m));
    beta = beta_acc(s, v->beta.m);      /* our kernel's need: last */
    for (l = 0; l < b->n_level; l++) {
        gdn_flow_fetch(s, b, l, states.m, "gdn.state.fetch");
        RUN(s, delta, .o = o.m, .states = states.m, .g_cum = v->g_cum.m,
            .x = v->x.m, .q = v->qn.m, .k = v->kn.m, .v = v->v.m, .g = g,
            .beta = beta.m, .w = c.w.m, .u = c.u.m, .v_new = c.v_new.m,
            .h = c.h.m, .heads = m->v_heads, .k_dim = m->k_dim,
            .v_dim = m->v_dim, .scale = query_scale(m),
            .piece = b->level[l].piece, .n_piece = b->level[l].n_piece);
    }
    ten_free_all(s, TENSORS(&c));
    ten_free(s, &beta);
    if (states.b != v->states.b) table->states = states;
    return o;
}

/* Gradients that the rule's backward writes, and what it needs to. */
struct delta_work {
    struct chunk_scratch c;
    struct tensor states, dstates, dh, dw, du, beta;
};
struct delta_grads { struct tensor dq, dk, dv, dg, dbeta; };

static struct delta_work work_new(struct step *s, const struct gdn_bucket *b,
                                  struct gdn_kept *v, struct tensor *left)
{
    const struct model *m = s->m;
    struct delta_work w;

    w.beta = beta_acc(s, v->beta.m);
    w.states = gdn_whole_table(s, b, "gdn.states.final", v->states, 1);
    w.c = scratch_new(s, b);
    w.dstates = gdn_gradient_table(s, b, "gdn.dstates", state_width(m), 1,
                                   left);
    w.dh = ten_act(s, CAT_GDN, "gdn.delta.dh", b->chunks, state_width(m));
    w.dw = ten_act(s, CAT_GDN, "gdn.delta.dw", b->rows,
                   m->v_heads * m->k_dim);
    w.du = ten_act(s, CAT_GDN, "gdn.delta.du", b->rows, model_value(m));
    return w;
}

static struct delta_grads grads_new(struct step *s, int64_t rows)
{
    const struct model *m = s->m;
    int64_t wide = m->v_heads * m->k_dim;
    struct delta_grads g;

    g.dq = ten_act(s, CAT_GDN, "gdn.delta.dq", rows, wide);
    g.dk = ten_act(s, CAT_GDN, "gdn.delta.dk", rows, wide);
    g.dv = ten_act(s, CAT_GDN, "gdn.delta.dv", rows, model_value(m));
    g.dg = ten_acc(s, CAT_GDN, "gdn.delta.dg", rows, m->v_heads);
    g.dbeta = ten_acc(s, CAT_GDN, "gdn.delta.dbeta", rows, m->v_heads);
    return g;
}

static void work_free(struct step *s, const struct gdn_bucket *b,
                      struct gdn_kept *v, struct delta_work *w)
{
    struct tensor none = {NULL, {0}}, *left = &none;

    if (b->parent >= 0) left = &s->flow->table[b->parent].states;
    ten_free_all(s, TENSORS(&w->c));
    ten_free(s, &w->dw);
    ten_free(s, &w->du);
    ten_free(s, &w->dh);
    ten_free(s, &w->beta);
    gdn_leave_to_parent(s, b, "gdn.dstates.final", &w->dstates, 1, left);
    gdn_free_copy(s, &w->states, &v->states);
    ten_free(s, &v->v);
    ten_free(s, &v->x);
    ten_free(s, &v->g_cum);
    ten_free(s, &v->beta);
    ten_free(s, &v->states);
}

/* From the last level up; states' gradients go back before they are used. */
static struct delta_grads delta_backward(struct step *s,
                                         const struct gdn_bucket *b,
                                         struct gdn_kept *v,
                                         struct gdn_table *table,
                                         struct mat d_o)
{
    const struct model *m = s->m;
    struct delta_work w = work_new(s, b, v, &table->states);
    struct delta_grads g = grads_new(s, b->rows);
    int64_t l;

    for (l = b->n_level - 1; l >= 0; l--) {
        RUN(s, delta_bwd, .dq = g.dq.m, .dk = g.dk.m, .dv = g.dv.m,
            .dg = g.dg.m, .dbeta = g.dbeta.m, .dstates = w.dstates.m,
            .d_o = d_o, .states = w.states.m, .g_cum = v->g_cum.m,
            .x = v->x.m, .q = v->qn.m, .k = v->kn.m, .v = v->v.m,
            .beta = w.beta.m, .w = w.c.w.m, .u = w.c.u.m,
            .v_new = w.c.v_new.m, .h = w.c.h.m, .dw = w.dw.m, .du = w.du.m,
            .dh = w.dh.m, .heads = m->v_heads, .k_dim = m->k_dim,
            .v_dim = m->v_dim, .scale = query_scale(m),
            .piece = b->level[l].piece, .n_piece = b->level[l].n_piece);
        gdn_flow_return(s, b, l, w.dstates.m, "gdn.state.return");
    }
    work_free(s, b, v, &w);
    return g;
}

/* ---- all buckets -------------------------------------------------------- */

static struct tensor copy_of(struct step *s, const char *op, struct mat x)
{
    struct tensor y = ten_of(s, CAT_GDN, op, x.rows, x.cols, x.t);

    RUN(s, copy, .dst = y.m, .src = x);
    return y;
}

/* One bucket: convolution, norms, the rule; its tables wait for its
** children. */
static void bucket_forward(struct step *s, int64_t i, struct tensor *m,
                           struct mat beta, struct tensor *g,
                           struct tensor *o, bool save)
{
    const struct gdn_bucket *b = &s->flow->bucket[i];
    struct gdn_kept *v = &gdn_kept_of(s)[i];
    struct gdn_table *table = &s->flow->table[i];
    struct tensor own_g, c, part, whole = {NULL, beta};

    v->halo = ten_act(s, CAT_GDN, "gdn.halo", b->n_kept * halo_rows(s->m),
                      m->m.cols);
    v->states = ten_acc(s, CAT_GDN, "gdn.states", b->n_kept,
                        state_width(s->m));
    v->m = gdn_take_rows(s, b, "gdn.bucket.qkv", m, false);
    if (b->run == NULL)
        v->beta = copy_of(s, "gdn.bucket.beta", beta);
    else
        v->beta = gdn_take_rows(s, b, "gdn.bucket.beta", &whole, false);
    own_g = gdn_take_rows(s, b, "gdn.bucket.g", g, false);
    c = convolve(s, b, v, table);
    make_qkv(s, v, c.m);
    part = delta_forward(s, b, v, table, own_g.m);
    ten_free(s, &c);            /* v is a view of it in the framework */
    ten_free(s, &own_g);
    if (b->parent >= 0)
        ten_free_all(s, TENSORS(&s->flow->table[b->parent]));
    gdn_put_rows(s, b, o, &part);
    if (!save) ten_free_all(s, TENSORS(v));
}

struct tensor gdn_rule_forward(struct step *s, struct tensor *m,
                               struct mat beta, struct tensor *g, bool save)
{
    struct tensor o = gdn_all_rows(s, "gdn.zeros", m->m.rows, model_value(s->m),
                                   s->dev->act);
    int64_t i;

    for (i = 0; i < s->flow->n_bucket; i++)
        bucket_forward(s, i, m, beta, g, &o, save);
    return o;
}

/* The way back, its children's gradients having come. */
static void bucket_backward(struct step *s, int64_t i, struct tensor *d_o,
                            struct gdn_gradients *d)
{
    const struct gdn_bucket *b = &s->flow->bucket[i];
    struct gdn_kept *v = &gdn_kept_of(s)[i];
    struct gdn_table *table = &s->flow->table[i];
    struct tensor part = gdn_take_rows(s, b, "gdn.bucket.dout", d_o, true);
    struct tensor dq, dk, dc, dm;
    struct delta_grads g;

    g = delta_backward(s, b, v, table, part.m);
    ten_free(s, &part);
    dq = expand_norm_backward(s, &g.dq, &v->qn, &v->q_rnorm);
    dk = expand_norm_backward(s, &g.dk, &v->kn, &v->k_rnorm);
    dc = join_qkv(s, &dq, &dk, &g.dv);
    dm = convolve_backward(s, b, v, table, dc.m);
    ten_free(s, &dc);
    ten_free(s, &v->m);
    ten_free(s, &v->halo);
    ten_free(s, &v->segment);
    ten_free(s, &v->place);
    gdn_add_rows(s, b, &d->dm, &dm);
    gdn_add_rows(s, b, &d->dg, &g.dg);
    gdn_add_rows(s, b, &d->dbeta, &g.dbeta);
}

struct gdn_gradients gdn_rule_backward(struct step *s, struct tensor *d_o)
{
    const struct model *m = s->m;
    int64_t rows = d_o->m.rows, i;
    struct gdn_gradients d;

    d.dm = gdn_all_rows(s, "gdn.dqkv", rows, model_conv_channels(m),
                        s->dev->act);
    d.dg = gdn_all_rows(s, "gdn.dg", rows, m->v_heads, s->dev->acc);
    d.dbeta = gdn_all_rows(s, "gdn.dbeta", rows, m->v_heads, s->dev->acc);
    for (i = s->flow->n_bucket - 1; i >= 0; i--)
        bucket_backward(s, i, d_o, &d);
    ten_free(s, d_o);
    return d;
}
