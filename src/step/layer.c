/*
** layer.c - one decoder layer: x1 = x + mixer(N1(x)), y = x1 + mlp(N2(x1)),
** on attention rows or GDN rows, converted at an island's edges.
*/
#include <assert.h>

#include "step/executor.h"
#include "step/gdn_flow.h"
#include "step/layers.h"
#include "step/rows.h"

/* The layout on which the current layer computes. */
static enum layer_kind kind_of(const struct step *s)
{
    return s->m->kind[s->layer];
}

/* Where every rank holds the same rows in both layouts nothing is converted:
** one rank alone, and sequences that lie whole on a rank in both. */
static bool converts_in(const struct step *s)
{
    return s->converts && model_input_layout(s->m, s->layer) != kind_of(s);
}

static bool converts_out(const struct step *s)
{
    return s->converts && model_output_layout(s->m, s->layer) != kind_of(s);
}

static enum category mixer_category(const struct step *s)
{
    return kind_of(s) == LAYER_GDN ? CAT_GDN : CAT_ATTENTION;
}

static struct tensor residual(struct step *s, enum category c, const char *op,
                              struct mat x, struct tensor *branch)
{
    struct tensor y = ten_act(s, c, op, x.rows, x.cols);

    RUN(s, add, .out = y.m, .a = x, .b = branch->m);
    ten_free(s, branch);
    ten_free(s, &s->unsummed);
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

/* x1 = x + mixer(N1(x)) */
static void mixer_part(struct step *s, struct mat x, struct layer_saved *l,
                       struct mode_keep keep)
{
    struct tensor branch;

    norm_forward(s, mixer_category(s), "layer.norm1", x,
                 weight_of(s, W_NORM1), true, &l->n1);
    if (kind_of(s) == LAYER_GDN)
        branch = gdn_forward(s, &l->n1, keep.mixer ? &l->gdn : NULL);
    else
        branch = attention_forward(s, &l->n1,
                                   keep.mixer ? &l->attention : NULL,
                                   keep.core);
    l->x1 = residual(s, CAT_RESIDUAL_NORM, "layer.residual1", x, &branch);
}

/* mlp(N2(x1)) */
static struct tensor mlp_part(struct step *s, struct layer_saved *l,
                              bool keep)
{
    norm_forward(s, CAT_RESIDUAL_NORM, "layer.norm2", l->x1.m,
                 weight_of(s, W_NORM2), s->m->experts == 0, &l->n2);
    return mlp_forward(s, &l->n2, keep ? &l->mlp : NULL);
}

/* The output's name: a boundary, the head's input, or of a pass that runs
** again. */
static struct tensor output_of(struct step *s, struct layer_saved *l,
                               struct tensor *branch)
{
    bool last = s->layer == s->m->layers - 1;
    bool again = s->phase == PHASE_RECOMPUTE;
    enum category c = again ? CAT_RESIDUAL_NORM
                            : last ? CAT_HEAD : CAT_BOUNDARIES;
    const char *op = again ? "layer.output"
                           : last ? "head.input" : "layer.boundary";
    struct tensor y = residual(s, c, op, l->x1.m, branch);

    return leave(s, c, op, &y);
}

struct tensor layer_forward(struct step *s, struct mat x,
                            struct layer_saved *l, struct mode_keep keep)
{
    struct tensor branch, y;

    assert(s->layer >= 0 && s->layer < s->m->layers);
    x = enter(s, x, &l->entry);
    mixer_part(s, x, l, keep);
    branch = mlp_part(s, l, keep.mlp);
    y = output_of(s, l, &branch);
    if (keep.mixer) return y;
    ten_free(s, &l->x1);
    ten_free(s, &l->entry);     /* the caller's argument: held to the end */
    return y;
}

void layer_restore(struct step *s, struct mat x, struct layer_saved *l)
{
    struct mode_keep keep = mode_keep(&s->c.mode);
    struct tensor y = {NULL, {0}};

    if (!keep.mixer)
        y = layer_forward(s, x, l, (struct mode_keep){true, true, true});
    else if (!keep.mlp && s->m->experts > 0)
        y = mlp_forward(s, &l->n2, &l->mlp);
    else if (!keep.mlp)
        y = mlp_part(s, l, true);
    ten_free(s, &y);
}

/* What the layer of a recomputing pass kept of the core. */
static bool core_kept(const struct step *s)
{
    struct mode_keep keep = mode_keep(&s->c.mode);

    return keep.core || !keep.mixer;
}

static struct tensor mixer_backward(struct step *s, struct mat x,
                                    struct layer_saved *l, struct mat d)
{
    struct tensor dn;

    if (kind_of(s) == LAYER_GDN)
        dn = gdn_backward(s, &l->gdn, &l->n1, d);
    else
        dn = attention_backward(s, &l->attention, &l->n1, d, core_kept(s));
    return norm_backward(s, "layer.norm1_bwd", &dn,
                         converts_in(s) ? l->entry.m : x,
                         weight_of(s, W_NORM1), &l->n1);
}

struct tensor layer_backward(struct step *s, struct mat x,
                             struct layer_saved *l, struct tensor *dy)
{
    struct tensor inner = {NULL, {0}}, dn, dx1, dx, out;
    struct mat d = dy->m;

    assert(s->layer >= 0 && s->layer < s->m->layers);
    if (converts_out(s)) {
        inner = rows_convert(s, CAT_INPUT_GRADIENT, "island.exit_bwd", dy->m,
                             LAYER_GDN);
        d = inner.m;
    }
    dn = mlp_backward(s, &l->mlp, &l->n2, d);
    dx1 = norm_backward(s, "layer.norm2_bwd", &dn, l->x1.m,
                        weight_of(s, W_NORM2), &l->n2);
    ten_free(s, &l->x1);
    RUN(s, add, .out = dx1.m, .a = dx1.m, .b = d);
    ten_free(s, &inner);
    dx = mixer_backward(s, x, l, dx1.m);
    ten_free(s, &l->entry);
    RUN(s, add, .out = dx.m, .a = dx.m, .b = dx1.m);
    ten_free(s, &dx1);
    out = dx;
    if (converts_in(s)) {
        out = rows_convert(s, CAT_INPUT_GRADIENT, "island.entry_bwd", dx.m,
                           LAYER_ATTENTION);
        ten_free(s, &dx);
    }
    ten_free(s, dy);
    return out;
}

void layer_drop(struct step *s, struct layer_saved *l)
{
    ten_free(s, &l->entry);
    ten_free_all(s, TENSORS(&l->n1));
    ten_free(s, &l->x1);
    ten_free_all(s, TENSORS(&l->n2));
    ten_free_all(s, TENSORS(&l->attention));
    ten_free_all(s, TENSORS(&l->gdn));
    mlp_drop(s, &l->mlp);
    if (kind_of(s) == LAYER_GDN)
        gdn_drop(s);
    else
        executor_drop(s);
}
