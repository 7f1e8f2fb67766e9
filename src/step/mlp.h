/*
** mlp.h - the MoE with its shared expert, or the dense MLP of dense members:
** what it keeps when it is recomputed, and its parts.
** Inside src/step.
*/
#ifndef STEP_MLP_H
#define STEP_MLP_H

#include "step/linear.h"

/* Padded copies of one expert adapter (r < 8), kept for its backward. */
struct expert_pad { struct tensor a, b; };

struct mlp_saved {
    struct tensor scores, map, idx, weight;     /* router */
    struct tensor row_map;      /* holds the row and slot arrays */
    struct tensor permuted;     /* ep 1, until the MoE forward returns */
    struct tensor sorted, weight_permuted, weight_sorted;
    struct tensor fc1, act, h1, h2;
    struct tensor part[3];      /* silu, up and their product, where SwiGLU
                                   is not one operator */
    struct expert_pad pad1, pad2;
    /* shared expert, or the dense MLP */
    struct tensor s_in;         /* rows of all tensor-parallel ranks */
    struct tensor s_fc1, s_act, s_pre, s_logit, s_h[PROJECTIONS], s_h_down;
    struct tensor s_part[2];    /* gate and up apart, where SwiGLU is not
                                   one operator */
    int64_t pairs;              /* received on this rank; here tensors end */
    int32_t *row, *slot;        /* device, within row_map */
};

/* MoE with shared expert, or the dense MLP of dense members: [rows / tp, H].
** saved NULL: nothing is kept, n included; but a norm in front of a MoE that
** runs again alone is no part of it, and stays. The backward frees what was
** saved and n's output, and returns the gradient of that. */
struct tensor mlp_forward(struct step *s, struct norm_saved *n,
                          struct mlp_saved *saved);
struct tensor mlp_backward(struct step *s, struct mlp_saved *saved,
                           struct norm_saved *n, struct mat dout);
void mlp_drop(struct step *s, struct mlp_saved *v);

/* Whether gate and up go through operators of their own, whose results are
** kept: in eager layers, but for the dense MLP of a hybrid, whose fused kernel
** the framework has there too. */
bool swiglu_apart(const struct step *s);

/* ---- the MoE's parts ---------------------------------------------------- */

int moe_route_new(struct step *s);          /* host arrays; moe_route.c */
void moe_route_enter(struct step *s);       /* the current layer's counts */
void moe_route_free(struct step *s);
/* Router and sort: who gets which pairs. Fills the router's part of v and
** s->route. */
void moe_route(struct step *s, struct mat n, struct mlp_saved *v);
/* Gradient of the router's input from the pairs' weight gradients, added to
** dn; frees the router's part of v. dweight [T, K] acc is freed. */
void moe_route_backward(struct step *s, struct mlp_saved *v,
                        struct tensor *dweight, struct mat dn);

/* Rows to their experts: v->sorted and v->weight_sorted (dispatch.c). */
void dispatch_forward(struct step *s, struct mat n, struct mlp_saved *v);
/* And back: [T, H], the sum over each token's pairs; frees *y. */
struct tensor combine_forward(struct step *s, struct mlp_saved *v,
                              struct tensor *y);
/* Gradient of the combine: [pairs, H] in expert order. */
struct tensor combine_backward(struct step *s, struct mlp_saved *v,
                               struct mat dy);
/* Gradient of the dispatch: [T, H] from d_sorted, freed; the pair weights'
** gradients [pairs, 1] acc, freed, come back as [T, K]. */
struct tensor dispatch_backward(struct step *s, struct mlp_saved *v,
                                struct tensor *d_sorted,
                                struct tensor *d_pair,
                                struct tensor *dweight);
void dispatch_free(struct step *s);

/* Grouped FC1, SwiGLU and FC2 with adapters on v->sorted: [pairs, H]
** (experts.c). The backward frees *dy and what was saved, v->sorted and the
** weights included. */
struct tensor experts_forward(struct step *s, struct mlp_saved *v, bool save);
struct tensor experts_backward(struct step *s, struct mlp_saved *v,
                               struct tensor *dy, struct tensor *d_pair);

/* Shared expert, or the dense MLP (shared.c): [T, H]. The backward returns
** the gradient of n. */
struct tensor shared_forward(struct step *s, struct norm_saved *n,
                             struct mlp_saved *v, bool save);
struct tensor shared_backward(struct step *s, struct mlp_saved *v,
                              struct mat n, struct mat dy);

#endif
