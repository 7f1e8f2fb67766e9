/*
** layer.c - one decoder layer: x1 = x + mixer(N1(x)), y = x1 + mlp(N2(x1)),
** on attention rows or GDN rows, converted at an island's edges.
*/
#include "step/layers.h"
#include "step/rows.h"

/* The layout on which the current layer computes. */
static enum layer_kind kind_of(const struct step *s)
{
    return s->m->kind[s->layer];
}

/* One rank holds every row in packed order in both layouts: nothing to
** convert. */
static bool converts_in(const struct step *s)
{
    return s->cp > 1 && model_input_layout(s->m, s->layer) != kind_of(s);
}

static bool converts_out(const struct step *s)
{
    return s->cp > 1 && model_output_layout(s->m, s->layer) != kind_of(s);
}

static enum category mixer_category(const struct step *s)
{
    return kind_of(s) == LAYER_GDN ? CAT_GDN : CAT_ATTENTION;
}

static struct tensor norm(struct step *s, enum category c, const char *op,
                          struct mat x, enum weight w, struct tensor *rstd)
{
    struct tensor y = ten_act(s, c, op, x.rows, x.cols);

    *rstd = ten_acc(s, c, op, x.rows, 1);
    RUN(s, rms_norm, .y = y.m, .x = x, .w = weight_of(s, w), .rstd = rstd->m,
        .eps = s->m->eps, .zero_centred = s->m->norm_zero_centred);
    return y;
}

/* Gradient of the norm's input; dy and rstd are freed. */
static struct tensor norm_backward(struct step *s, const char *op,
                                   struct tensor *dy, struct mat x,
                                   enum weight w, struct tensor *rstd)
{
    struct tensor dx = ten_act(s, CAT_INPUT_GRADIENT, op, x.rows, x.cols);

    RUN(s, rms_norm_bwd, .dx = dx.m, .dy = dy->m, .x = x,
        .w = weight_of(s, w), .rstd = rstd->m,
        .zero_centred = s->m->norm_zero_centred);
    ten_free(s, dy);
    ten_free(s, rstd);
    return dx;
}

static struct tensor residual(struct step *s, enum category c, const char *op,
                              struct mat x, struct tensor *branch)
{
    struct tensor y = ten_act(s, c, op, x.rows, x.cols);

    RUN(s, add, .out = y.m, .a = x, .b = branch->m);
    ten_free(s, branch);
    return y;
}

/* The layer's input on its own rows; the copy goes to *entry. */
static struct mat enter(struct step *s, struct mat x, struct tensor *entry)
{
    if (!converts_in(s)) return x;
    *entry = rows_convert(s, CAT_GDN, "island.entry", x, LAYER_GDN);
    return entry->m;
}

/* The output in the layout in which it leaves. */
static struct tensor leave(struct step *s, enum category c, const char *op,
                           struct tensor *y)
{
    struct tensor out = *y;

    if (!converts_out(s)) return out;
    out = rows_convert(s, c, op, y->m, LAYER_ATTENTION);
    ten_free(s, y);
    return out;
}

struct tensor layer_forward(struct step *s, struct mat x)
{
    bool last = s->layer == s->m->layers - 1;
    enum category c = last ? CAT_HEAD : CAT_BOUNDARIES;
    const char *op = last ? "head.input" : "layer.boundary";
    bool gdn = kind_of(s) == LAYER_GDN;
    struct tensor entry = {NULL, {0}}, n, rstd, branch, x1, y;

    x = enter(s, x, &entry);
    n = norm(s, mixer_category(s), "layer.norm1", x, W_NORM1, &rstd);
    ten_free(s, &rstd);
    branch = gdn ? gdn_forward(s, n.m, NULL)
                 : attention_forward(s, n.m, NULL);
    ten_free(s, &n);
    x1 = residual(s, CAT_RESIDUAL_NORM, "layer.residual1", x, &branch);
    n = norm(s, CAT_RESIDUAL_NORM, "layer.norm2", x1.m, W_NORM2, &rstd);
    ten_free(s, &rstd);
    branch = mlp_forward(s, n.m, NULL);
    ten_free(s, &n);
    y = residual(s, c, op, x1.m, &branch);
    ten_free(s, &x1);
    ten_free(s, &entry);    /* the caller's argument: held to the end */
    return leave(s, c, op, &y);
}

void layer_recompute(struct step *s, struct mat x, struct layer_saved *l)
{
    bool gdn = kind_of(s) == LAYER_GDN;
    struct tensor branch, y;

    x = enter(s, x, &l->entry);
    l->n1 = norm(s, mixer_category(s), "layer.norm1", x, W_NORM1,
                 &l->n1_rstd);
    branch = gdn ? gdn_forward(s, l->n1.m, &l->gdn)
                 : attention_forward(s, l->n1.m, &l->attention);
    l->x1 = residual(s, CAT_RESIDUAL_NORM, "layer.residual1", x, &branch);
    l->n2 = norm(s, CAT_RESIDUAL_NORM, "layer.norm2", l->x1.m, W_NORM2,
                 &l->n2_rstd);
    branch = mlp_forward(s, l->n2.m, &l->mlp);
    y = residual(s, CAT_RESIDUAL_NORM, "layer.output", l->x1.m, &branch);
    l->y = leave(s, CAT_RESIDUAL_NORM, "layer.output", &y);
}

struct tensor layer_backward(struct step *s, struct mat x,
                             struct layer_saved *l, struct tensor *dy)
{
    bool gdn = kind_of(s) == LAYER_GDN;
    struct tensor inner = {NULL, {0}}, dn, dx1, dx, out;
    struct mat d = dy->m;

    if (converts_out(s)) {
        inner = rows_convert(s, CAT_INPUT_GRADIENT, "island.exit_bwd", dy->m,
                             LAYER_GDN);
        d = inner.m;
    }
    dn = mlp_backward(s, &l->mlp, &l->n2, d);
    dx1 = norm_backward(s, "layer.norm2_bwd", &dn, l->x1.m, W_NORM2,
                        &l->n2_rstd);
    ten_free(s, &l->x1);
    RUN(s, add, .out = dx1.m, .a = dx1.m, .b = d);
    ten_free(s, &inner);
    dn = gdn ? gdn_backward(s, &l->gdn, &l->n1, dx1.m)
             : attention_backward(s, &l->attention, &l->n1, dx1.m);
    dx = norm_backward(s, "layer.norm1_bwd", &dn,
                       converts_in(s) ? l->entry.m : x, W_NORM1, &l->n1_rstd);
    ten_free(s, &l->entry);
    RUN(s, add, .out = dx.m, .a = dx.m, .b = dx1.m);
    ten_free(s, &dx1);
    out = dx;
    if (converts_in(s)) {
        out = rows_convert(s, CAT_INPUT_GRADIENT, "island.entry_bwd", dx.m,
                           LAYER_ATTENTION);
        ten_free(s, &dx);
    }
    ten_free(s, &l->y);
    ten_free(s, dy);
    return out;
}
