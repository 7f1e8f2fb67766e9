/*
** linear.c - frozen linear layers with adapters: see linear.h.
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

/* What products make of one another needs no kernel between them: the scale is
** a factor of the adapter's second product, which adds to what the base's has
** written. So of the traced framework's temporaries (adapter outputs, scaled
** ones, the joined ones, the base's) only the sum is written; the others are
** taken and freed as traced. */

/* Room for (x A^T) B^T of one projection; h becomes x A^T. */
static struct tensor adapter_begin(struct step *s, enum category c,
                                   const char *op, struct mat x,
                                   const struct projection *p,
                                   struct tensor *h)
{
    struct adapter *a = adapter_of(s, p->site);

    *h = ten_act(s, c, op, x.rows, s->c.lora_rank);
    RUN(s, gemm, .c = h->m, .a = x, .b = a->a.m, .trans_b = true, .alpha = 1);
    return ten_act(s, c, op, x.rows, adapter_width(p));
}

/* Room for the scaled output in the place of x. */
static void scaled(struct step *s, enum category c, const char *op,
                   struct tensor *x)
{
    struct tensor y = ten_act(s, c, op, x->m.rows, x->m.cols);

    ten_free(s, x);
    *x = y;
}

/* out = scale h B^T + beta out */
static void adapter_output(struct step *s, struct mat out, struct mat h,
                           const struct projection *p, double beta)
{
    RUN(s, gemm, .c = out, .a = h, .b = adapter_of(s, p->site)->b.m,
        .trans_b = true, .alpha = s->lora_scale, .beta = beta);
}

/* Layers that the framework compiles have the scale, the join and the sum of
** adapters in one kernel. Its delta net stays outside of what is compiled. */
static bool is_fused(const struct step *s, enum category c)
{
    return !s->c.mode.eager && c != CAT_GDN;
}

/* x A^T of all, and room for the adapters' outputs, scaled ones where nothing
** is fused; projections without an adapter have zeros there, of which a fused
** kernel makes no tensor. */
static void adapters_forward(struct step *s, enum category c, const char *op,
                             struct mat x, const struct projection *p, int n,
                             struct tensor *h, struct tensor *part)
{
    bool fused = is_fused(s, c);
    int i;

    for (i = 0; i < n; i++) {
        bool has = has_adapter(s, &p[i]);

        if (has)
            part[i] = adapter_begin(s, c, op, x, &p[i], &h[i]);
        else if (!fused)
            part[i] = ten_act(s, c, op, x.rows, adapter_width(&p[i]));
        if (has && !fused) scaled(s, c, op, &part[i]);
    }
}

/* Room for the n parts side by side. One part needs no join and is taken. */
static struct tensor join_parts(struct step *s, enum category c,
                                const char *op, const struct projection *p,
                                int n, struct tensor *part)
{
    struct tensor joined = part[0];

    if (n > 1)
        return ten_act(s, c, op, part[0].m.rows, adapters_width(p, n));
    part[0].b = NULL;
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

static void base_outputs(struct step *s, struct mat out, struct mat x,
                         const struct projection *p, int n)
{
    int64_t col = 0;
    int i;

    for (i = 0; i < n; col += p[i++].out)
        base_forward(s, mat_cols(out, col, p[i].out), x, &p[i]);
}

/* The base's outputs side by side; with adapters, room for them. */
static struct tensor base_product(struct step *s, enum category c,
                                  const char *op, struct mat x,
                                  const struct projection *p, int n)
{
    struct tensor base;

    workspace_use(s, WS_PLAIN);
    base = ten_act(s, c, op, x.rows, joined_width(p, n));
    if (!any_adapter(s, p, n)) base_outputs(s, base.m, x, p, n);
    return base;
}

/* Room for base + delta; both are freed. */
static struct tensor sum_of(struct step *s, enum category c, const char *op,
                            struct tensor *base, struct tensor *delta)
{
    struct tensor sum = ten_act(s, c, op, base->m.rows, base->m.cols);

    ten_free(s, base);
    ten_free(s, delta);
    return sum;
}

/* The sum of base and adapters on x. */
static void write_sum(struct step *s, struct mat sum, struct mat x,
                      const struct projection *p, int n,
                      const struct tensor *h)
{
    int64_t col = 0;
    int i;

    base_outputs(s, sum, x, p, n);
    for (i = 0; i < n; col += p[i++].out)
        if (has_adapter(s, &p[i]))
            adapter_output(s, mat_cols(sum, col, p[i].out), h[i].m, &p[i], 1);
}

/* base and the adapters' outputs on x, summed; base is freed. The adapters of
** attention are held by name until their layer's forward returns, those of
** others go when they are joined. */
static struct tensor adapted(struct step *s, enum category c, const char *op,
                             struct tensor *base, struct mat x,
                             const struct projection *p, int n,
                             struct tensor *h)
{
    struct tensor own[PROJECTIONS] = {{NULL, {0}}}, sum, delta = {NULL, {0}};
    struct tensor part[PROJECTIONS] = {{NULL, {0}}};

    if (!any_adapter(s, p, n)) return *base;
    if (h == NULL) h = own;
    workspace_use(s, WS_BLAS);
    adapters_forward(s, c, op, x, p, n, h, part);
    if (!is_fused(s, c)) {
        delta = join_parts(s, c, op, p, n, part);
        if (c != CAT_ATTENTION) ten_free_all(s, part, PROJECTIONS);
    }
    sum = sum_of(s, c, op, base, &delta);
    write_sum(s, sum.m, x, p, n, h);
    ten_free_all(s, part, PROJECTIONS);
    ten_free_all(s, own, PROJECTIONS);
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

static bool is_otherwise(const struct step *s, unsigned choice)
{
    return (s->c.mode.otherwise & choice) != 0;
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
    delta = adapter_begin(s, c, op, x, p, h != NULL ? h : &own);
    if (!is_fused(s, c) || is_otherwise(s, OTHERWISE_ADAPTER_SCALED))
        scaled(s, c, op, &delta);   /* else where it lies */
    tp_scatter(s, c, op, &delta);
    if (is_fused(s, c) && is_otherwise(s, OTHERWISE_RESIDUAL_FUSED)) {
        s->unsummed = delta;
        ten_free(s, &own);
        return base;
    }
    sum = sum_of(s, c, op, &base, &delta);
    ten_free(s, &own);
    return sum;
}

/* The thread that runs the backward makes a BLAS handle of its own, once. For
** mixtures of experts it was not seen in what was traced of them, though
** measured ones have it (evidence.md 1): a choice, until both are explained. */
static void backward_begins(struct step *s)
{
    if (s->m->experts == 0 || (s->c.mode.otherwise & OTHERWISE_AUTOGRAD))
        workspace_use(s, WS_AUTOGRAD);
}

/* g = alpha a^T b, of adapter ad. From the second wave on the traced framework
** zeroes g, makes a temporary of the product and adds it: the temporary is
** taken and freed, and g written as in the first. */
static void gradient_set(struct step *s, const struct adapter *ad,
                         struct mat g, struct mat a, struct mat b,
                         double alpha)
{
    struct tensor t = {NULL, {0}};

    if (a.rows > 0 && !ad->grad_fresh)
        t = ten_act(s, CAT_ADAPTER_GRADIENTS, "adapter.gradient", g.rows,
                    g.cols);
    RUN(s, gemm, .c = g, .a = a, .b = b, .trans_a = true, .alpha = alpha);
    ten_free(s, &t);
}

/* Adds to dx the adapter's share of one projection from dy, the gradient of
** its output, for whose scaled copy d has room, freed; its gradients
** appear. */
static void adapter_backward(struct step *s, enum category c, const char *op,
                             struct mat dy, struct tensor *d, struct mat x,
                             const struct projection *p, struct tensor *h,
                             struct tensor *dx)
{
    struct adapter *a = adapter_of(s, p->site);
    bool first = dx->b == NULL;
    struct tensor dh, part;

    dh = ten_act(s, c, op, d->m.rows, s->c.lora_rank);
    RUN(s, gemm, .c = dh.m, .a = dy, .b = a->b.m, .alpha = s->lora_scale);
    gradient_set(s, a, a->grad_b.m, dy, h->m, s->lora_scale);
    ten_free(s, d);
    ten_free(s, h);
    gradient_set(s, a, a->grad_a.m, dh.m, x, 1);
    part = ten_act(s, c, op, x.rows, x.cols);
    RUN(s, gemm, .c = first ? part.m : dx->m, .a = dh.m, .b = a->a.m,
        .alpha = 1, .beta = first ? 0 : 1);
    ten_free(s, &dh);
    if (first)
        *dx = part;
    else
        ten_free(s, &part);
}

/* dx from the base's path alone, or with beta 1 added to it. */
static void base_backward(struct step *s, struct mat dx, struct mat dy,
                          const struct projection *p, int n, double beta)
{
    int64_t col = 0;
    int i;

    for (i = 0; i < n; col += p[i++].out)
        RUN(s, gemm, .c = dx, .a = mat_cols(dy, col, p[i].out),
            .b = weight_of(s, p[i].w), .alpha = 1, .beta = i > 0 ? 1 : beta);
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
        adapter_backward(s, c, op, mat_cols(dy, col, p[i].out), &d, x, &p[i],
                         &h[i], &dx);
    }
    base = ten_act(s, c, op, x.rows, x.cols);
    if (dx.b == NULL && x.rows > 0) {
        base_backward(s, base.m, dy, p, n, 0);
        return base;
    }
    base_backward(s, dx.m, dy, p, n, 1);
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
    dx = ten_act(s, c, op, x.rows, x.cols);
    base_backward(s, dx.m, whole.m, p, 1, 0);
    ten_free(s, &whole);
    if (!has_adapter(s, p)) return dx;
    backward_begins(s);
    adapter_gradients(s, adapter_of(s, p->site));
    d = ten_act(s, c, op, dy.rows, dy.cols);
    whole = tp_gather(s, c, op, d.m);
    ten_free(s, &d);
    adapter_backward(s, c, op, whole.m, &whole, x, p, h, &dx);
    return dx;
}
