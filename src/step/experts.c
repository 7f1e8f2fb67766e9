/*
** experts.c - the routed experts on this rank's received pairs: grouped FC1
** with its adapter, SwiGLU with the routing weight folded in, grouped FC2
** with its adapter (model.md 2.4, 3.14; adapters as pricing.md 3.2 describes
** the traced path: expert matrices padded to at least 8 ranks, transposes
** that live only inside the adapter's two GEMMs).
**
** A is [El, in, r], B [El, r, out]; e = max(8, r).
*/
#include "step/mlp.h"

struct grouped {
    enum weight w;
    enum site site;
    int64_t in, out;
    const char *op, *op_adapter, *op_backward;
};

static struct grouped fc1_of(const struct model *m)
{
    return (struct grouped){W_EXPERT_UP, SITE_EXPERT_UP, m->hidden,
                            2 * m->expert_ffn, "experts.fc1",
                            "experts.fc1.adapter", "experts.fc1.backward"};
}

static struct grouped fc2_of(const struct model *m)
{
    return (struct grouped){W_EXPERT_DOWN, SITE_EXPERT_DOWN, m->expert_ffn,
                            m->hidden, "experts.fc2", "experts.fc2.adapter",
                            "experts.fc2.backward"};
}

static bool padded(const struct step *s)
{
    return s->c.lora_rank < s->lora_pad;
}

/* ---- forward ------------------------------------------------------------ */

/* A^T [El, e, in] and B^T [El, out, e], which the traced path multiplies with;
** here A and B serve as they are. r < 8 makes of them the padded A and B, zero
** beyond r, that the backward uses too. */
struct transposes { struct tensor a, b; };

static struct transposes transpose(struct step *s, const struct grouped *g,
                                   struct expert_pad *pad)
{
    struct adapter *ad = adapter_of(s, g->site);
    int64_t el = s->local_experts, e = s->lora_pad;
    struct transposes t;

    t.a = ten_act(s, CAT_MOE_EXPERTS, g->op_adapter, el * e, g->in);
    t.b = ten_act(s, CAT_MOE_EXPERTS, g->op_adapter, el * g->out, e);
    if (!padded(s)) return t;
    RUN(s, transpose, .y = t.a.m, .x = ad->a.m, .n_group = el);
    RUN(s, transpose, .y = t.b.m, .x = ad->b.m, .n_group = el);
    pad->a = ten_act(s, CAT_MOE_EXPERTS, "experts.adapter.pad", el * g->in,
                     e);
    RUN(s, transpose, .y = pad->a.m, .x = t.a.m, .n_group = el);
    pad->b = ten_act(s, CAT_MOE_EXPERTS, "experts.adapter.pad", el * e,
                     g->out);
    RUN(s, transpose, .y = pad->b.m, .x = t.b.m, .n_group = el);
    return t;
}

static struct mat a_of(struct step *s, const struct grouped *g,
                       const struct expert_pad *pad)
{
    return padded(s) ? pad->a.m : adapter_of(s, g->site)->a.m;
}

static struct mat b_of(struct step *s, const struct grouped *g,
                       const struct expert_pad *pad)
{
    return padded(s) ? pad->b.m : adapter_of(s, g->site)->b.m;
}

/* Room for scale (x A) B per expert; *h becomes x A. */
static struct tensor adapter_begin(struct step *s, const struct grouped *g,
                                   struct mat x, struct tensor *h,
                                   struct expert_pad *pad)
{
    int64_t el = s->local_experts;
    struct transposes t = transpose(s, g, pad);
    struct tensor out;

    *h = ten_act(s, CAT_MOE_EXPERTS, g->op_adapter, x.rows, s->lora_pad);
    RUN(s, group_gemm, .form = GROUP_NN, .c = h->m, .a = x,
        .w = a_of(s, g, pad), .w_rows = g->in, .offset = s->route.offset,
        .n_group = el, .alpha = 1);
    out = ten_act(s, CAT_MOE_EXPERTS, g->op_adapter, x.rows, g->out);
    ten_free(s, &t.a);
    ten_free(s, &t.b);
    return out;
}

static void base_forward(struct step *s, const struct grouped *g,
                         struct mat y, struct mat x)
{
    RUN(s, group_gemm, .form = GROUP_NT, .c = y, .a = x,
        .w = weight_of(s, g->w), .w_rows = g->out, .offset = s->route.offset,
        .n_group = s->local_experts, .alpha = 1);
}

/* As in linear.c the adapter's product adds to the base's in the sum; the
** tensors of either are taken and freed as traced. */
static struct tensor grouped_forward(struct step *s, const struct grouped *g,
                                     struct mat x, struct tensor *h,
                                     struct expert_pad *pad)
{
    struct tensor base, delta, sum;

    workspace_use(s, WS_GROUPED);
    base = ten_act(s, CAT_MOE_EXPERTS, g->op, x.rows, g->out);
    if (s->c.lora_rank == 0) {
        base_forward(s, g, base.m, x);
        return base;
    }
    delta = adapter_begin(s, g, x, h, pad);
    sum = ten_act(s, CAT_MOE_EXPERTS, g->op, x.rows, g->out);
    base_forward(s, g, sum.m, x);
    RUN(s, group_gemm, .form = GROUP_NN, .c = sum.m, .a = h->m,
        .w = b_of(s, g, pad), .w_rows = s->lora_pad,
        .offset = s->route.offset, .n_group = s->local_experts,
        .alpha = s->lora_scale, .beta = 1);
    ten_free(s, &base);
    ten_free(s, &delta);
    return sum;
}

static void free_pad(struct step *s, struct expert_pad *p)
{
    ten_free(s, &p->a);
    ten_free(s, &p->b);
}

/* SwiGLU in operators of their own: what each of them keeps, and the product
** times the routing weights in the accumulator's type. Kernels that do it at
** once write the product, and silu's place has the gate. */
static void act_in_parts(struct step *s, struct mlp_saved *v, bool save)
{
    int64_t rows = v->fc1.m.rows, ffn = s->m->expert_ffn;
    struct tensor wide;
    int i;

    for (i = 0; i < 3; i++)
        v->part[i] = ten_act(s, CAT_MOE_EXPERTS, "experts.act.part", rows,
                             ffn);
    for (i = 0; i < 2; i++)
        RUN(s, copy, .dst = v->part[i].m,
            .src = mat_cols(v->fc1.m, i * ffn, ffn));
    RUN(s, swiglu, .out = v->part[2].m, .gu = v->fc1.m);
    if (!save) ten_free_all(s, v->part, 2);
    wide = ten_acc(s, CAT_MOE_EXPERTS, "experts.act.weighted", rows, ffn);
    if (!save) ten_free(s, &v->part[2]);
    v->act = ten_act(s, CAT_MOE_EXPERTS, "experts.act", rows, ffn);
    ten_free(s, &wide);
}

static void activate(struct step *s, struct mlp_saved *v, bool save)
{
    if (swiglu_apart(s))
        act_in_parts(s, v, save);
    else
        v->act = ten_act(s, CAT_MOE_EXPERTS, "experts.act",
                         v->fc1.m.rows, s->m->expert_ffn);
    RUN(s, swiglu, .out = v->act.m, .gu = v->fc1.m,
        .weight = v->weight_sorted.m);
}

struct tensor experts_forward(struct step *s, struct mlp_saved *v, bool save)
{
    struct grouped g1 = fc1_of(s->m), g2 = fc2_of(s->m);
    struct tensor y;

    v->fc1 = grouped_forward(s, &g1, v->sorted.m, &v->h1, &v->pad1);
    activate(s, v, save);
    y = grouped_forward(s, &g2, v->act.m, &v->h2, &v->pad2);
    if (save) return y;
    ten_free(s, &v->fc1);
    ten_free(s, &v->act);
    ten_free(s, &v->h1);
    ten_free(s, &v->h2);
    free_pad(s, &v->pad1);
    free_pad(s, &v->pad2);
    return y;
}

/* ---- backward ----------------------------------------------------------- */

/* Copies a gradient of the padded shape into the adapter's own: rows per
** group are cut for B ([El, e, out] to [El, r, out]), columns for A. */
static struct mat unpadded(const struct step *s, struct mat padded_grad,
                           bool rows_are_rank)
{
    int64_t r = s->c.lora_rank, e = s->lora_pad;

    if (!rows_are_rank) return mat_cols(padded_grad, 0, r);
    return mat_cols(mat_shape(padded_grad, s->local_experts,
                              e * padded_grad.cols),
                    0, r * padded_grad.cols);
}

/* The wave's gradient alpha a^T c per expert, as in linear.c; of the padded
** shape it is made apart. */
static void gradient(struct step *s, struct adapter *ad, bool is_b,
                     struct mat a, struct mat c, double alpha)
{
    struct mat grad = is_b ? ad->grad_b.m : ad->grad_a.m, part;
    struct tensor t = {NULL, {0}};

    if (!ad->grad_fresh || padded(s))
        t = ten_act(s, CAT_ADAPTER_GRADIENTS, "adapter.gradient",
                    s->local_experts * a.cols, c.cols);
    RUN(s, group_gemm, .form = GROUP_TN, .c = c, .a = a,
        .w = padded(s) ? t.m : grad, .w_rows = a.cols,
        .offset = s->route.offset, .n_group = s->local_experts,
        .alpha = alpha);
    if (padded(s)) {
        part = unpadded(s, t.m, is_b);
        if (is_b) grad = mat_shape(grad, part.rows, part.cols);
        RUN(s, copy, .dst = grad, .src = part);
    }
    ten_free(s, &t);
}

/* The adapter's share of dx; its gradients appear. Frees h and pad. */
static struct tensor adapter_backward(struct step *s, const struct grouped *g,
                                      struct mat dy, struct mat x,
                                      struct tensor *h,
                                      struct expert_pad *pad)
{
    struct adapter *ad = adapter_of(s, g->site);
    int64_t el = s->local_experts, e = s->lora_pad;
    struct tensor dh, dx;

    adapter_gradients(s, ad);
    dh = ten_act(s, CAT_MOE_EXPERTS, g->op_backward, dy.rows, e);
    RUN(s, group_gemm, .form = GROUP_NT, .c = dh.m, .a = dy,
        .w = b_of(s, g, pad), .w_rows = e, .offset = s->route.offset,
        .n_group = el, .alpha = s->lora_scale);
    gradient(s, ad, true, h->m, dy, s->lora_scale);
    ten_free(s, h);
    gradient(s, ad, false, x, dh.m, 1);
    dx = ten_act(s, CAT_MOE_EXPERTS, g->op_backward, x.rows, g->in);
    RUN(s, group_gemm, .form = GROUP_NT, .c = dx.m, .a = dh.m,
        .w = a_of(s, g, pad), .w_rows = g->in, .offset = s->route.offset,
        .n_group = el, .alpha = 1);
    ten_free(s, &dh);
    free_pad(s, pad);
    return dx;
}

static struct tensor grouped_backward(struct step *s, const struct grouped *g,
                                      struct mat dy, struct mat x,
                                      struct tensor *h,
                                      struct expert_pad *pad)
{
    struct tensor dx, base;
    bool adapted = s->c.lora_rank > 0;

    if (adapted) dx = adapter_backward(s, g, dy, x, h, pad);
    base = ten_act(s, CAT_MOE_EXPERTS, g->op_backward, x.rows, g->in);
    RUN(s, group_gemm, .form = GROUP_NN, .c = adapted ? dx.m : base.m,
        .a = dy, .w = weight_of(s, g->w), .w_rows = g->out,
        .offset = s->route.offset, .n_group = s->local_experts, .alpha = 1,
        .beta = adapted ? 1 : 0);
    if (!adapted) return base;
    ten_free(s, &base);
    return dx;
}

struct tensor experts_backward(struct step *s, struct mlp_saved *v,
                               struct tensor *dy, struct tensor *d_pair)
{
    struct grouped g1 = fc1_of(s->m), g2 = fc2_of(s->m);
    struct tensor dact, dfc1, dx;

    dact = grouped_backward(s, &g2, dy->m, v->act.m, &v->h2, &v->pad2);
    ten_free(s, dy);
    ten_free(s, &v->act);
    dfc1 = ten_act(s, CAT_MOE_EXPERTS, "experts.act.backward", dact.m.rows,
                   2 * s->m->expert_ffn);
    *d_pair = ten_acc(s, CAT_MOE_EXPERTS, "experts.weight.backward",
                      dact.m.rows, 1);
    RUN(s, swiglu_bwd, .dgu = dfc1.m, .dweight = d_pair->m, .dout = dact.m,
        .gu = v->fc1.m, .weight = v->weight_sorted.m);
    ten_free(s, &dact);
    ten_free(s, &v->fc1);
    ten_free_all(s, v->part, 3);
    ten_free(s, &v->weight_sorted);
    ten_free(s, &v->weight_permuted);
    dx = grouped_backward(s, &g1, dfc1.m, v->sorted.m, &v->h1, &v->pad1);
    ten_free(s, &dfc1);
    ten_free(s, &v->sorted);
    return dx;
}
