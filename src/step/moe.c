/*
** moe.c - the MLP of a layer: router, shared expert, dispatch, experts and
** combine, forward and backward (model.md 2.4, 3.14, 3.15, 5); or the dense
** MLP of dense members.
*/
#include <stddef.h>

#include "step/mlp.h"

static void free_routed(struct step *s, struct mlp_saved *v)
{
    ten_free(s, &v->sorted);
    ten_free(s, &v->weight_permuted);
    ten_free(s, &v->weight_sorted);
    ten_free(s, &v->scores);
    ten_free(s, &v->map);
    ten_free(s, &v->idx);
    ten_free(s, &v->weight);
    ten_free(s, &v->row_map);
}

/* In the framework's order: the shared expert runs before rows are
** dispatched. */
static struct tensor moe_forward(struct step *s, struct mat n,
                                 struct mlp_saved *v,
                                 struct norm_saved *norm, bool save)
{
    struct tensor shared = {NULL, {0}}, y, out;
    bool has_shared = s->m->shared_ffn > 0;

    moe_route(s, n, v);
    if (has_shared) shared = shared_forward(s, norm, v, save);
    dispatch_forward(s, n, v);
    y = experts_forward(s, v, save);
    y = combine_forward(s, v, &y);
    if (has_shared) {
        out = ten_act(s, CAT_SHARED_EXPERT, "moe.out", n.rows, n.cols);
        RUN(s, add, .out = out.m, .a = y.m, .b = shared.m);
        ten_free(s, &y);
        ten_free(s, &shared);
    } else {
        out = y;
    }
    ten_free(s, &v->permuted);
    if (!save) free_routed(s, v);
    return out;
}

/* The norm of a MoE that runs again without its mixer: what the framework
** checkpoints is the MoE, and its input is the norm's output. */
static bool holds_norm(const struct step *s)
{
    return mode_keep(&s->c.mode).mixer;
}

struct tensor mlp_forward(struct step *s, struct norm_saved *n,
                          struct mlp_saved *saved)
{
    struct mlp_saved local = {0};
    struct mlp_saved *v = saved != NULL ? saved : &local;
    bool save = saved != NULL;
    struct tensor out;

    if (s->m->experts == 0) return shared_forward(s, n, v, save);
    moe_route_enter(s);
    if (!holds_norm(s) && !save) ten_free(s, &n->rstd);
    out = moe_forward(s, n->out.m, v, n, save);
    if (!holds_norm(s) && !save) ten_free(s, &n->out);
    return out;
}

struct tensor mlp_backward(struct step *s, struct mlp_saved *v,
                           struct norm_saved *n, struct mat dout)
{
    struct tensor dn, d_pair, dweight, d, part;

    if (s->m->experts == 0) {
        dn = shared_backward(s, v, n->out.m, dout);
        ten_free(s, &n->out);
        return dn;
    }
    moe_route_enter(s);
    d = combine_backward(s, v, dout);
    d = experts_backward(s, v, &d, &d_pair);
    dn = dispatch_backward(s, v, &d, &d_pair, &dweight);
    if (s->m->shared_ffn > 0) {
        part = shared_backward(s, v, n->out.m, dout);
        RUN(s, add, .out = dn.m, .a = dn.m, .b = part.m);
        ten_free(s, &part);
    }
    moe_route_backward(s, v, &dweight, dn.m);
    ten_free(s, &n->out);
    return dn;
}

void mlp_drop(struct step *s, struct mlp_saved *v)
{
    ten_free_all(s, (struct tensor *)v,
                 offsetof(struct mlp_saved, pairs) / sizeof(struct tensor));
}
