/*
** moe_route.c - the router, and who gets which (token, expert) pairs.
**
** EP groups are ep ranks in a row, each with all experts among them; over
** tensor-parallel ranks, each of which routes its share of the rows, they take
** those of a context-parallel rank first, and experts are not split. On
** devices that compute, counts come from the router's own choice: every
** rank's counts per expert are gathered. Elsewhere the scenario states them
** (routing.h). A rank's sorted pairs lie by expert, so
** with contiguous experts they also lie by destination; what it receives
** comes as [source][own expert] blocks and is put in the order
** [own expert][source].
*/
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "step/dump.h"
#include "step/mlp.h"

/* What a router's choice is counted in. */
static bool new_counts(struct step *s)
{
    int64_t el = s->local_experts, ep = s->c.ep;
    struct moe_route *r = &s->route;
    size_t layers = (size_t)s->m->layers;

    r->all_counts = calloc(layers * (size_t)(s->cp * s->m->experts) + 1,
                           sizeof *r->counts);
    r->own = calloc((size_t)s->m->experts + 1, sizeof *r->own);
    r->all_offset = calloc(layers * ((size_t)el + 1), sizeof *r->offset);
    r->all_block = calloc(layers * (size_t)(el * ep) + 1, sizeof *r->block);
    s->sent = calloc(layers * (size_t)s->m->experts + 1, sizeof *s->sent);
    return r->all_counts != NULL && r->own != NULL && r->all_offset != NULL &&
           r->all_block != NULL && s->sent != NULL;
}

int moe_route_new(struct step *s)
{
    s->received = calloc((size_t)s->m->layers + 1, sizeof *s->received);
    s->route.stated = calloc((size_t)s->c.ep, sizeof *s->route.stated);
    if (s->received == NULL || s->route.stated == NULL ||
        (s->k != NULL && !new_counts(s)))
        return s->rc = err_nomem(s->e);
    return ERR_OK;
}

void moe_route_enter(struct step *s)
{
    struct moe_route *r = &s->route;

    if (s->k == NULL) return;
    r->counts = r->all_counts + s->layer * s->cp * s->m->experts;
    r->offset = r->all_offset + s->layer * (s->local_experts + 1);
    r->block = r->all_block + s->layer * s->local_experts * s->c.ep;
}

void moe_route_free(struct step *s)
{
    free(s->route.all_counts);
    free(s->route.own);
    free(s->route.all_offset);
    free(s->route.all_block);
    free(s->route.forced);
    free(s->route.stated);
    free(s->received);
    free(s->sent);
}

/* ---- replayed routes ---------------------------------------------------- */

/* The layer's routes for this rank's rows, into v->row_map's memory (it is
** larger and not in use yet). Returns NULL where nothing is replayed. */
static const int64_t *forced_routes(struct step *s, struct mat n,
                                    const struct mlp_saved *v)
{
    enum layer_kind kind = s->m->kind[s->layer];
    const struct range *r = kind == LAYER_GDN ? s->rp->gdn
                                              : s->rp->attention;
    int64_t n_range = kind == LAYER_GDN ? s->rp->n_gdn : s->rp->n_attention;
    int64_t k = s->m->top_k, i, row = 0;
    const int64_t *all;
    int64_t *mine;

    if (s->data == NULL || s->data->forced == NULL || s->rc != ERR_OK)
        return NULL;
    all = s->data->forced + s->layer * s->c.plan->tokens * k;
    mine = realloc(s->route.forced, (size_t)(n.rows * k + 1) * sizeof *mine);
    if (mine == NULL) {
        s->rc = err_nomem(s->e);
        return NULL;
    }
    s->route.forced = mine;
    for (i = 0; i < n_range; row += r[i++].len)
        memcpy(mine + row * k, all + r[i].start * k,
               (size_t)(r[i].len * k) * sizeof *mine);
    s->rc = s->dev->ops->upload(s->dev, v->row_map.m.p, mine,
                                (size_t)(n.rows * k) * sizeof *mine, s->e);
    return v->row_map.m.p;
}

/* ---- counts ------------------------------------------------------------- */

/* Pairs of this layer over all ranks of the EP group, which takes the
** tensor-parallel ranks of a context-parallel one first: each of them routes
** its share of the rows. */
static int64_t group_pairs(const struct step *s)
{
    enum layer_kind kind = s->m->kind[s->layer];
    int64_t first = moe_group(s), n = num_ceil_div(s->c.ep, s->tp), r;
    int64_t rows = 0;

    for (r = first; r < first + n; r++)
        rows += num_ceil_div(kind == LAYER_GDN
                             ? s->c.plan->rank[r].gdn_rows
                             : s->c.plan->rank[r].attention_rows, s->tp);
    return rows * num_min(s->c.ep, s->tp) * s->m->top_k;
}

/* What the most loaded of this rank's tensor-parallel ranks receives. */
static int64_t most_received(const struct step *s, const int64_t *got)
{
    int64_t n = num_min(s->c.ep, s->tp), most = 0, i;
    int64_t first = s->c.rank * s->tp % s->c.ep;

    for (i = first; i < first + n; i++) most = num_max(most, got[i]);
    return most;
}

/* What the scenario states. Asked once a layer and wave: the recompute sees
** what the forward saw. */
static void stated_counts(struct step *s, int64_t own_pairs)
{
    int64_t *got = s->route.stated;

    if (s->c.ep == 1) {
        s->route.received = own_pairs;
    } else if (s->phase == PHASE_FORWARD) {
        s->rc = routing_received(s->c.routing, s->wave, s->layer,
                                 s->m->experts, s->c.ep, moe_group(s),
                                 group_pairs(s), got, s->e);
        s->route.received = s->rc == ERR_OK ? most_received(s, got) : 0;
    } else {
        s->route.received = s->received[s->layer];
    }
}

/* Rows per own expert and where the received blocks lie. */
static void lay_out_blocks(struct step *s)
{
    struct moe_route *r = &s->route;
    int64_t el = s->local_experts, ep = s->c.ep, q, x;
    int64_t first = s->c.rank % ep * el, at = 0;
    const int64_t *counts = r->counts + moe_group(s) * s->m->experts;

    memset(r->offset, 0, (size_t)(el + 1) * sizeof *r->offset);
    for (q = 0; q < ep; q++)
        for (x = 0; x < el; x++) {
            int64_t n = counts[q * s->m->experts + first + x];

            r->block[x * ep + q] = (struct range){at, n};
            r->offset[x + 1] += n;
            at += n;
        }
    for (x = 0; x < el; x++) r->offset[x + 1] += r->offset[x];
    r->received = at;
}

static void computed_counts(struct step *s, const int64_t *own)
{
    struct moe_route *r = &s->route;
    int64_t n = s->m->experts;

    if (s->c.ep == 1)
        memcpy(r->counts + s->c.rank * n, own, (size_t)n * sizeof *own);
    else if (s->rc == ERR_OK)
        s->rc = s->comm->ops->gather_counts(s->comm, "expert counts", own, n,
                                            r->counts, s->e);
    if (s->rc == ERR_OK) lay_out_blocks(s);
}

/* ---- forward ------------------------------------------------------------ */

/* Sorts the pairs; row and slot live in row_map, which the traced framework
** fills with its own map of the same purpose. */
static void sort_pairs(struct step *s, struct mat n, struct mlp_saved *v)
{
    int64_t pairs = n.rows * s->m->top_k;
    int64_t *own = s->route.own;

    v->weight_permuted = ten_acc(s, CAT_MOE_EXPERTS, "moe.pair_weight", pairs,
                                 1);
    v->slot = v->row_map.m.p;
    v->row = v->slot == NULL ? NULL : v->slot + pairs;
    RUN(s, route_sort, .idx = v->idx.m, .weight = v->weight.m,
        .pair_weight = v->weight_permuted.m, .experts = s->m->experts,
        .counts = own, .row = v->row, .slot = v->slot);
    if (s->k != NULL) {
        memcpy(s->sent + s->layer * s->m->experts, own,
               (size_t)s->m->experts * sizeof *own);
        computed_counts(s, own);
    } else if (s->rc == ERR_OK) {
        stated_counts(s, pairs);
    }
    s->received[s->layer] = s->route.received;
    v->pairs = s->route.received;
}

void moe_route(struct step *s, struct mat n, struct mlp_saved *v)
{
    const struct model *m = s->m;
    int64_t experts = m->experts, k = m->top_k;
    const int64_t *forced;
    struct tensor logits;

    workspace_use(s, WS_BLAS);
    logits = ten_acc(s, CAT_MOE_ROUTING, "router.logits", n.rows, experts);
    RUN(s, gemm, .c = logits.m, .a = n, .b = weight_of(s, W_ROUTER),
        .trans_b = true, .alpha = 1);
    v->scores = ten_acc(s, CAT_MOE_ROUTING, "router.scores", n.rows, experts);
    v->map = ten_of(s, CAT_MOE_ROUTING, "router.map", n.rows, experts, DT_U8);
    v->idx = ten_of(s, CAT_MOE_ROUTING, "router.topk", n.rows, k, DT_I64);
    v->weight = ten_acc(s, CAT_MOE_ROUTING, "router.weight", n.rows, k);
    if (s->c.ep == 1)
        v->row_map = ten_of(s, CAT_MOE_ROUTING, "moe.row_map", n.rows,
                            2 * experts + 1, DT_I32);
    else
        v->row_map = ten_of(s, CAT_MOE_ROUTING, "moe.handle", n.rows,
                            9 * experts + 16, DT_U8);
    forced = forced_routes(s, n, v);
    RUN(s, router, .logits = logits.m, .scores = v->scores.m,
        .map = v->map.m, .idx = v->idx.m, .weight = v->weight.m,
        .forced = forced, .norm = m->norm_topk);
    dump_routes(s, v->idx.m);
    ten_free(s, &logits);
    sort_pairs(s, n, v);
}

/* ---- backward ----------------------------------------------------------- */

void moe_route_backward(struct step *s, struct mlp_saved *v,
                        struct tensor *dweight, struct mat dn)
{
    struct tensor dlogits;

    dlogits = ten_acc(s, CAT_MOE_ROUTING, "router.backward", dn.rows,
                      s->m->experts);
    RUN(s, router_bwd, .dlogits = dlogits.m, .dweight = dweight->m,
        .scores = v->scores.m, .idx = v->idx.m, .weight = v->weight.m,
        .norm = s->m->norm_topk);
    ten_free(s, dweight);
    ten_free(s, &v->scores);
    ten_free(s, &v->map);
    ten_free(s, &v->idx);
    ten_free(s, &v->weight);
    RUN(s, gemm, .c = dn, .a = dlogits.m, .b = weight_of(s, W_ROUTER),
        .alpha = 1, .beta = 1);
    ten_free(s, &dlogits);
}
