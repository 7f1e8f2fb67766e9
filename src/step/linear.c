/*
** linear.c - frozen linear layers with adapters: see internal.h.
**
** y = x W^T + s (x A^T) B^T (model.md 3.4). Weights are [out, in], A is
** [r, in], B [out, r], all in the activation type. Projections of one input
** write side by side into one joined output, as the traced framework's fused
** projections do.
*/
#include "step/rank_state.h"

static int64_t joined_width(const struct projection *p, int n)
{
    int64_t w = 0;
    int i;

    for (i = 0; i < n; i++) w += p[i].out;
    return w;
}

static bool has_adapter(const struct step *s, const struct projection *p)
{
    return p->site != SITE_COUNT && s->c.lora_rank > 0;
}

static bool any_adapter(const struct step *s, const struct projection *p,
                        int n)
{
    int i;

    for (i = 0; i < n; i++)
        if (has_adapter(s, &p[i])) return true;
    return false;
}

/* scale (x A^T) B^T of one projection; h keeps x A^T. */
static struct tensor adapter_forward(struct step *s, enum category c,
                                     const char *op, struct mat x,
                                     const struct projection *p,
                                     struct tensor *h)
{
    struct adapter *a = adapter_of(s, p->site);
    struct tensor out, scaled;

    *h = ten_act(s, c, op, x.rows, s->c.lora_rank);
    RUN(s, gemm, .c = h->m, .a = x, .b = a->a.m, .trans_b = true, .alpha = 1);
    out = ten_act(s, c, op, x.rows, p->out);
    RUN(s, gemm, .c = out.m, .a = h->m, .b = a->b.m, .trans_b = true,
        .alpha = 1);
    scaled = ten_act(s, c, op, x.rows, p->out);
    RUN(s, scale, .out = scaled.m, .a = out.m, .s = s->lora_scale);
    ten_free(s, &out);
    return scaled;
}

/* The scaled adapter outputs side by side; projections without an adapter
** contribute zeros. One projection needs no join. */
static struct tensor adapters_forward(struct step *s, enum category c,
                                      const char *op, struct mat x,
                                      const struct projection *p, int n,
                                      struct tensor *h)
{
    struct tensor part[PROJECTIONS] = {{NULL, {0}}}, joined;
    int64_t col = 0;
    int i;

    for (i = 0; i < n; i++)
        if (has_adapter(s, &p[i]))
            part[i] = adapter_forward(s, c, op, x, &p[i], &h[i]);
    if (n == 1) return part[0];
    joined = ten_act(s, c, op, x.rows, joined_width(p, n));
    for (i = 0; i < n; col += p[i++].out) {
        struct mat to = mat_cols(joined.m, col, p[i].out);
        if (has_adapter(s, &p[i]))
            RUN(s, copy, .dst = to, .src = part[i].m);
        else
            RUN(s, fill, .x = to, .value = 0);
        ten_free(s, &part[i]);
    }
    return joined;
}

/* out = x W^T, and the bias, which a GEMM adds as it writes. */
static void base_forward(struct step *s, struct mat out, struct mat x,
                         const struct projection *p)
{
    RUN(s, gemm, .c = out, .a = x, .b = weight_of(s, p->w), .trans_b = true,
        .alpha = 1);
    if (p->bias != 0 && out.rows > 0)
        RUN(s, add, .out = out, .a = out, .b = weight_of(s, p->bias));
}

struct tensor linear_forward(struct step *s, enum category c, const char *op,
                             struct mat x, const struct projection *p, int n,
                             struct tensor *h)
{
    struct tensor own[PROJECTIONS] = {{NULL, {0}}};
    struct tensor *keep = h != NULL ? h : own;
    struct tensor base, delta, sum;
    int64_t col = 0;
    int i;

    workspace_use(s, WS_PLAIN);
    base = ten_act(s, c, op, x.rows, joined_width(p, n));
    for (i = 0; i < n; col += p[i++].out)
        base_forward(s, mat_cols(base.m, col, p[i].out), x, &p[i]);
    if (!any_adapter(s, p, n)) return base;
    workspace_use(s, WS_BLAS);
    delta = adapters_forward(s, c, op, x, p, n, keep);
    sum = ten_act(s, c, op, x.rows, joined_width(p, n));
    RUN(s, add, .out = sum.m, .a = base.m, .b = delta.m);
    ten_free(s, &base);
    ten_free(s, &delta);
    for (i = 0; h == NULL && i < n; i++) ten_free(s, &own[i]);
    return sum;
}

/* g (op)= a^T b: straight into the gradient the first time, through a
** temporary that is added later, as the traced framework accumulates. */
static void gradient_add(struct step *s, struct mat g, bool fresh,
                         struct mat a, struct mat b)
{
    struct tensor t;

    if (a.rows == 0) {
        if (fresh) RUN(s, fill, .x = g, .value = 0);
        return;
    }
    if (fresh) {
        RUN(s, gemm, .c = g, .a = a, .b = b, .trans_a = true, .alpha = 1);
        return;
    }
    t = ten_act(s, CAT_ADAPTER_GRADIENTS, "adapter.gradient", g.rows, g.cols);
    RUN(s, gemm, .c = t.m, .a = a, .b = b, .trans_a = true, .alpha = 1);
    RUN(s, add, .out = g, .a = g, .b = t.m);
    ten_free(s, &t);
}

/* Adds to dx the adapter's share of one projection; its gradients appear. */
static void adapter_backward(struct step *s, enum category c, const char *op,
                             struct mat dy, struct mat x,
                             const struct projection *p, struct tensor *h,
                             struct tensor *dx)
{
    struct adapter *a = adapter_of(s, p->site);
    bool first = dx->b == NULL;
    struct tensor d, dh, part;

    adapter_gradients(s, a);
    d = ten_act(s, c, op, dy.rows, dy.cols);
    RUN(s, scale, .out = d.m, .a = dy, .s = s->lora_scale);
    dh = ten_act(s, c, op, dy.rows, s->c.lora_rank);
    RUN(s, gemm, .c = dh.m, .a = d.m, .b = a->b.m, .alpha = 1);
    gradient_add(s, a->grad_b.m, a->grad_fresh, d.m, h->m);
    ten_free(s, &d);
    ten_free(s, h);
    gradient_add(s, a->grad_a.m, a->grad_fresh, dh.m, x);
    part = ten_act(s, c, op, x.rows, x.cols);
    RUN(s, gemm, .c = part.m, .a = dh.m, .b = a->a.m, .alpha = 1);
    ten_free(s, &dh);
    if (first) {
        *dx = part;
        return;
    }
    RUN(s, add, .out = dx->m, .a = dx->m, .b = part.m);
    ten_free(s, &part);
}

struct tensor linear_backward(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, int n,
                              struct tensor *h)
{
    struct tensor dx = {NULL, {NULL, x.rows, x.cols, x.cols, x.t}}, base;
    int64_t col = 0;
    int i;

    for (i = 0; i < n; col += p[i++].out)
        if (has_adapter(s, &p[i]))
            adapter_backward(s, c, op, mat_cols(dy, col, p[i].out), x, &p[i],
                             &h[i], &dx);
    base = ten_act(s, c, op, x.rows, x.cols);
    for (col = 0, i = 0; i < n; col += p[i++].out)
        RUN(s, gemm, .c = base.m, .a = mat_cols(dy, col, p[i].out),
            .b = weight_of(s, p[i].w), .alpha = 1, .beta = i > 0);
    if (dx.b == NULL && x.rows > 0) return base;
    RUN(s, add, .out = dx.m, .a = dx.m, .b = base.m);
    ten_free(s, &base);
    return dx;
}
