/*
** linear.c - frozen linear layers with adapters: see internal.h.
**
** y = x W^T + s (x A^T) B^T (model.md 3.4). Weights are [out, in], A is
** [r, in], B [out, r], all in the activation type. Projections of one input
** write side by side into one joined output, as the traced framework's fused
** projections do.
*/
#include "step/linear.h"

#include <assert.h>

#include "step/rows.h"

static int64_t joined_width(const struct projection *p, int n)
{
    int64_t w = 0;
    int i;

    for (i = 0; i < n; i++) w += p[i].out;
    return w;
}

/* Columns of a projection's adapter output. */
static int64_t adapter_width(const struct projection *p)
{
    return p->whole > 0 ? p->whole : p->out;
}

static int64_t adapters_width(const struct projection *p, int n)
{
    int64_t w = 0;
    int i;

    for (i = 0; i < n; i++) w += adapter_width(&p[i]);
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

/* (x A^T) B^T of one projection; h keeps x A^T. */
static struct tensor adapter_product(struct step *s, enum category c,
                                     const char *op, struct mat x,
                                     const struct projection *p,
                                     struct tensor *h)
{
    struct adapter *a = adapter_of(s, p->site);
    struct tensor out;

    *h = ten_act(s, c, op, x.rows, s->c.lora_rank);
    RUN(s, gemm, .c = h->m, .a = x, .b = a->a.m, .trans_b = true, .alpha = 1);
    out = ten_act(s, c, op, x.rows, adapter_width(p));
    RUN(s, gemm, .c = out.m, .a = h->m, .b = a->b.m, .trans_b = true,
        .alpha = 1);
    return out;
}

/* *x times the adapters' scale, in a tensor of its own. */
static void scaled(struct step *s, enum category c, const char *op,
                   struct tensor *x)
{
    struct tensor y = ten_act(s, c, op, x->m.rows, x->m.cols);

    RUN(s, scale, .out = y.m, .a = x->m, .s = s->lora_scale);
    ten_free(s, x);
    *x = y;
}

static struct tensor adapter_forward(struct step *s, enum category c,
                                     const char *op, struct mat x,
                                     const struct projection *p,
                                     struct tensor *h)
{
    struct tensor out = adapter_product(s, c, op, x, p, h);

    scaled(s, c, op, &out);
    return out;
}

static struct tensor zero_piece(struct step *s, enum category c,
                                const char *op, int64_t rows, int64_t cols)
{
    struct tensor x = ten_act(s, c, op, rows, cols);

    RUN(s, fill, .x = x.m, .value = 0);
    return x;
}

/* Layers that the framework compiles have the scale, the join and the sum of
** adapters in one kernel. Its delta net stays outside of what is compiled. */
static bool is_fused(const struct step *s, enum category c)
{
    return !s->c.mode.eager && c != CAT_GDN;
}

/* The adapters' outputs, scaled where nothing is fused; projections without
** an adapter contribute zeros, of which a fused kernel makes no tensor. */
static void adapters_forward(struct step *s, enum category c, const char *op,
                             struct mat x, const struct projection *p, int n,
                             struct tensor *h, struct tensor *part)
{
    bool fused = is_fused(s, c);
    int i;

    for (i = 0; i < n; i++)
        if (!has_adapter(s, &p[i]) && !fused)
            part[i] = zero_piece(s, c, op, x.rows, adapter_width(&p[i]));
        else if (has_adapter(s, &p[i]) && fused)
            part[i] = adapter_product(s, c, op, x, &p[i], &h[i]);
        else if (has_adapter(s, &p[i]))
            part[i] = adapter_forward(s, c, op, x, &p[i], &h[i]);
}

/* The n parts side by side. One part needs no join and is taken. */
static struct tensor join_parts(struct step *s, enum category c,
                                const char *op, const struct projection *p,
                                int n, struct tensor *part)
{
    struct tensor joined = part[0];
    int64_t col = 0;
    int i;

    if (n == 1) {
        part[0].b = NULL;
        return joined;
    }
    joined = ten_act(s, c, op, part[0].m.rows, adapters_width(p, n));
    for (i = 0; i < n; col += adapter_width(&p[i++]))
        RUN(s, copy, .dst = mat_cols(joined.m, col, part[i].m.cols),
            .src = part[i].m);
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

static struct tensor base_product(struct step *s, enum category c,
                                  const char *op, struct mat x,
                                  const struct projection *p, int n)
{
    struct tensor base;
    int64_t col = 0;
    int i;

    workspace_use(s, WS_PLAIN);
    base = ten_act(s, c, op, x.rows, joined_width(p, n));
    for (i = 0; i < n; col += p[i++].out)
        base_forward(s, mat_cols(base.m, col, p[i].out), x, &p[i]);
    return base;
}

/* base + delta in a tensor of its own; both are freed. */
static struct tensor sum_of(struct step *s, enum category c, const char *op,
                            struct tensor *base, struct tensor *delta)
{
    struct tensor sum = ten_act(s, c, op, base->m.rows, base->m.cols);

    RUN(s, add, .out = sum.m, .a = base->m, .b = delta->m);
    ten_free(s, base);
    ten_free(s, delta);
    return sum;
}

/* base and the scaled parts in a tensor of its own, at once; base is freed. */
static struct tensor fused_sum(struct step *s, enum category c,
                               const char *op, struct tensor *base,
                               const struct projection *p, int n,
                               const struct tensor *part)
{
    struct tensor sum = ten_act(s, c, op, base->m.rows, base->m.cols);
    int64_t col = 0;
    int i;

    for (i = 0; i < n; col += p[i++].out) {
        struct mat to = mat_cols(sum.m, col, p[i].out);

        if (part[i].b == NULL)
            RUN(s, fill, .x = to, .value = 0);
        else
            RUN(s, scale, .out = to, .a = part[i].m, .s = s->lora_scale);
    }
    RUN(s, add, .out = sum.m, .a = sum.m, .b = base->m);
    ten_free(s, base);
    return sum;
}

/* base and the adapters' outputs on x, summed; base is freed. The adapters of
** attention are held by name until their layer's forward returns, those of
** others go when they are joined. */
static struct tensor adapted(struct step *s, enum category c, const char *op,
                             struct tensor *base, struct mat x,
                             const struct projection *p, int n,
                             struct tensor *h)
{
    struct tensor own[PROJECTIONS] = {{NULL, {0}}}, sum, delta;
    struct tensor part[PROJECTIONS] = {{NULL, {0}}};

    if (!any_adapter(s, p, n)) return *base;
    workspace_use(s, WS_BLAS);
    adapters_forward(s, c, op, x, p, n, h != NULL ? h : own, part);
    if (is_fused(s, c)) {
        sum = fused_sum(s, c, op, base, p, n, part);
    } else {
        delta = join_parts(s, c, op, p, n, part);
        if (c != CAT_ATTENTION) ten_free_all(s, part, PROJECTIONS);
        sum = sum_of(s, c, op, base, &delta);
    }
    ten_free_all(s, part, PROJECTIONS);
    if (h == NULL) ten_free_all(s, own, PROJECTIONS);
    return sum;
}

static struct tensor linear_forward(struct step *s, enum category c,
                                    const char *op, struct mat x,
                                    const struct projection *p, int n,
                                    struct tensor *h)
{
    struct tensor base = base_product(s, c, op, x, p, n);

    assert(n >= 1 && n <= PROJECTIONS);
    return adapted(s, c, op, &base, x, p, n, h);
}

struct tensor linear_columns(struct step *s, enum category c, const char *op,
                             struct norm_saved *in, const struct projection *p,
                             int n, struct tensor *h)
{
    struct tensor base = base_product(s, c, op, in->out.m, p, n), sum;

    assert(n >= 1 && n <= PROJECTIONS);
    if (h == NULL) {
        ten_free(s, &in->rstd);
        ten_free(s, &in->local);
    }
    if (s->c.mode.otherwise & OTHERWISE_NORM_FREED) ten_free(s, &in->local);
    sum = adapted(s, c, op, &base, in->out.m, p, n, h);
    if (h == NULL) ten_free(s, &in->out);
    return sum;
}

struct tensor split_forward(struct step *s, enum category c, const char *op,
                            struct mat x, const struct projection *p, int n,
                            struct tensor *whole, struct tensor *h)
{
    struct tensor gathered, base, sum;

    if (s->tp == 1) return linear_forward(s, c, op, x, p, n, h);
    gathered = tp_gather(s, c, op, x);
    *whole = (struct tensor){NULL, gathered.m};
    base = base_product(s, c, op, gathered.m, p, n);
    ten_free(s, &gathered);
    if (!any_adapter(s, p, n)) return base;
    *whole = tp_gather(s, c, op, x);
    sum = adapted(s, c, op, &base, whole->m, p, n, h);
    if (h == NULL) ten_free(s, whole);
    return sum;
}

struct tensor linear_rows(struct step *s, enum category c, const char *op,
                          struct mat x, const struct projection *p,
                          struct tensor *h)
{
    struct tensor own = {NULL, {0}}, base, delta, sum;

    base = base_product(s, c, op, x, p, 1);
    if (s->tp == 1) return adapted(s, c, op, &base, x, p, 1, h);
    tp_scatter(s, c, op, &base);
    if (!any_adapter(s, p, 1)) return base;
    workspace_use(s, WS_BLAS);
    delta = adapter_product(s, c, op, x, p, h != NULL ? h : &own);
    if (!is_fused(s, c)) scaled(s, c, op, &delta);  /* else where it lies */
    tp_scatter(s, c, op, &delta);
    sum = sum_of(s, c, op, &base, &delta);
    ten_free(s, &own);
    return sum;
}

/* The thread that runs the backward makes a BLAS handle of its own, once; for
** mixtures of experts it was not seen in what was traced of them. */
static void backward_begins(struct step *s)
{
    if (s->m->experts == 0 || (s->c.mode.otherwise & OTHERWISE_AUTOGRAD))
        workspace_use(s, WS_AUTOGRAD);
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

/* Adds to dx the adapter's share of one projection from d, the scaled
** gradient of its output, freed; its gradients appear. */
static void adapter_backward(struct step *s, enum category c, const char *op,
                             struct tensor *d, struct mat x,
                             const struct projection *p, struct tensor *h,
                             struct tensor *dx)
{
    struct adapter *a = adapter_of(s, p->site);
    bool first = dx->b == NULL;
    struct tensor dh, part;

    dh = ten_act(s, c, op, d->m.rows, s->c.lora_rank);
    RUN(s, gemm, .c = dh.m, .a = d->m, .b = a->b.m, .alpha = 1);
    gradient_add(s, a->grad_b.m, a->grad_fresh, d->m, h->m);
    ten_free(s, d);
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

static struct tensor base_backward(struct step *s, enum category c,
                                   const char *op, struct mat dy,
                                   struct mat x, const struct projection *p,
                                   int n)
{
    struct tensor base = ten_act(s, c, op, x.rows, x.cols);
    int64_t col = 0;
    int i;

    for (i = 0; i < n; col += p[i++].out)
        RUN(s, gemm, .c = base.m, .a = mat_cols(dy, col, p[i].out),
            .b = weight_of(s, p[i].w), .alpha = 1, .beta = i > 0);
    return base;
}

struct tensor linear_backward(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, int n,
                              struct tensor *h)
{
    struct tensor dx = {NULL, {NULL, x.rows, x.cols, x.cols, x.t}}, base, d;
    int64_t col = 0;
    int i;

    assert(n >= 1 && n <= PROJECTIONS);
    for (i = 0; i < n; col += p[i++].out) {
        if (!has_adapter(s, &p[i])) continue;
        backward_begins(s);
        adapter_gradients(s, adapter_of(s, p[i].site));
        d = ten_act(s, c, op, dy.rows, adapter_width(&p[i]));
        RUN(s, scale, .out = d.m, .a = mat_cols(dy, col, p[i].out),
            .s = s->lora_scale);
        adapter_backward(s, c, op, &d, x, &p[i], &h[i], &dx);
    }
    base = base_backward(s, c, op, dy, x, p, n);
    if (dx.b == NULL && x.rows > 0) return base;
    RUN(s, add, .out = dx.m, .a = dx.m, .b = base.m);
    ten_free(s, &base);
    return dx;
}

/* Over several ranks the base's path comes first, each path gathers the
** gradient for itself, and the scale stands before the gather. */
struct tensor linear_rows_bwd(struct step *s, enum category c, const char *op,
                              struct mat dy, struct mat x,
                              const struct projection *p, struct tensor *h)
{
    struct tensor whole, dx, d;

    if (s->tp == 1) return linear_backward(s, c, op, dy, x, p, 1, h);
    whole = tp_gather(s, c, op, dy);
    dx = base_backward(s, c, op, whole.m, x, p, 1);
    ten_free(s, &whole);
    if (!has_adapter(s, p)) return dx;
    backward_begins(s);
    adapter_gradients(s, adapter_of(s, p->site));
    d = ten_act(s, c, op, dy.rows, dy.cols);
    whole = tp_gather(s, c, op, d.m);
    ten_free(s, &d);
    adapter_backward(s, c, op, &whole, x, p, h, &dx);
    return dx;
}
