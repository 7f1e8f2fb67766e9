/*
** dispatch.c - rows to their experts and back.
**
** EP1: pairs are permuted within the rank; the traced all-to-all path holds
** the permuted rows until the MoE forward returns and a copy sorted by
** expert beside them. EP > 1: rows cross through buffers that lie outside the
** caching allocator (grow only, counted apart), and one copy sorted by
** expert is made inside it. Their size is that of the traced framework, by
** token and rank; devices that compute move routed pairs and may need more.
*/
#include <string.h>

#include "base/num.h"
#include "step/mlp.h"
#include "step/rows.h"

/* ---- buffers outside the allocator -------------------------------------- */

/* Two row areas and two weight areas: what is sent, what is received. */
struct wire {
    struct mat send, recv;              /* [pairs, H] act */
    struct mat send_weight, recv_weight;    /* [pairs, 1] acc */
};

#define ALIGN 512       /* as the allocator's blocks: kernels load vectors */

static struct mat area(uint64_t *at, int64_t rows, int64_t cols, enum dtype t)
{
    struct mat m = {(void *)(uintptr_t)*at, rows, cols, cols, t};
    int64_t bytes = rows * cols * dtype_bytes(t);

    *at += (uint64_t)num_round_up(bytes, ALIGN);
    return m;
}

static void grow(struct step *s, uint64_t bytes)
{
    if (bytes <= s->hybridep_bytes || s->rc != ERR_OK) return;
    dispatch_free(s);
    s->rc = s->dev->source.get(s->dev->source.ctx, bytes, &s->hybridep_addr,
                               s->e);
    if (s->rc != ERR_OK) {
        err_wrap(s->e, "dispatch buffers of layer %lld request %llu B",
                 (long long)s->layer, (unsigned long long)bytes);
        return;
    }
    s->hybridep_bytes = bytes;
}

void dispatch_free(struct step *s)
{
    if (s->hybridep_bytes > 0)
        s->dev->source.put(s->dev->source.ctx, s->hybridep_addr,
                           s->hybridep_bytes);
    s->hybridep_bytes = 0;
}

/* The areas one after another from address at; *end is behind the last. */
static struct wire lay_out(const struct step *s, uint64_t at, int64_t sent,
                           int64_t received, uint64_t *end)
{
    int64_t h = s->m->hidden;
    struct wire w;

    w.send_weight = area(&at, sent, 1, s->dev->acc);
    w.recv_weight = area(&at, received, 1, s->dev->acc);
    w.send = area(&at, sent, h, s->dev->act);
    w.recv = area(&at, received, h, s->dev->act);
    *end = at;
    return w;
}

/* Rows that a rank's traced buffer has room for: the planner's token capacity
** of the packed row, or the busiest rank's rows if they are more; a multiple
** of 4 / gcd(4, ranks) and of 64, 512 at least (pricing.md 7.4). */
static int64_t capacity(const struct step *s)
{
    int64_t chunk = PLAN_CHUNK_ROWS * s->cp, rows, r;
    int64_t unit = s->c.ep % 4 == 0 ? 1 : s->c.ep % 2 == 0 ? 2 : 4;

    for (rows = 0, r = 0; r < s->cp; r++)
        rows += s->c.plan->rank[r].attention_rows;
    rows = num_min(rows, 2 * num_ceil_div(rows, chunk) * PLAN_CHUNK_ROWS);
    for (r = 0; r < s->cp; r++) {
        rows = num_max(rows, s->c.plan->rank[r].attention_rows);
        rows = num_max(rows, s->c.plan->rank[r].gdn_rows);
    }
    rows = num_ceil_div(rows, s->tp);
    return num_round_up(num_max(num_round_up(rows, unit), 512), 64);
}

/* The traced buffers: tokens of every rank of the group, for each expert an
** f32 probability and a map byte, f32 scales of 128 columns. */
static uint64_t traced_bytes(const struct step *s)
{
    int64_t h = s->m->hidden;
    int64_t row = 2 * h + 5 * s->m->experts + 4 * (h / 128);

    return (uint64_t)(capacity(s) * s->c.ep * row);
}

/* Room for the traced buffers, and on devices that compute for our own areas
** of routed pairs where those are larger; nothing reads the others'. */
static struct wire wire_of(struct step *s, int64_t sent, int64_t received)
{
    struct wire none = {.send = {NULL, 0, 0, 0, s->dev->act}};
    uint64_t end;

    if (s->hybridep_traced == 0) s->hybridep_traced = traced_bytes(s);
    if (s->k == NULL) {
        grow(s, s->hybridep_traced);
        return none;
    }
    lay_out(s, 0, sent, received, &end);
    if (end < s->hybridep_traced) end = s->hybridep_traced;
    grow(s, end);
    return lay_out(s, s->hybridep_addr, sent, received, &end);
}

/* Pairs that rank from routes to experts of rank to, of the same EP group. */
static int64_t routed(const struct step *s, int64_t from, int64_t to)
{
    const int64_t *c = s->route.counts + from * s->m->experts;
    int64_t el = s->local_experts, first = to % s->c.ep * el, x, n = 0;

    for (x = first; x < first + el; x++) n += c[x];
    return n;
}

/* out: from this rank's routed pairs to the experts' ranks; else back. Ranks
** of other EP groups take part with nothing to give. */
static void cross(struct step *s, const char *what, struct mat from,
                  struct mat to, bool out)
{
    struct comm_part send[PLAN_MAX_RANKS], recv[PLAN_MAX_RANKS];
    int64_t me = s->c.rank, group = moe_group(s), r, a = 0, b = 0;
    int64_t width = from.cols * dtype_bytes(from.t);

    if (s->comm == NULL || s->k == NULL || s->rc != ERR_OK) return;
    memset(send, 0, sizeof send);
    memset(recv, 0, sizeof recv);
    for (r = group; r < group + s->c.ep; r++) {
        int64_t there = out ? routed(s, me, r) : routed(s, r, me);
        int64_t here = out ? routed(s, r, me) : routed(s, me, r);

        send[r] = (struct comm_part){mat_rows(from, a, there).p,
                                     there * width};
        recv[r] = (struct comm_part){mat_rows(to, b, here).p, here * width};
        a += there;
        b += here;
    }
    step_exchange(s, what, send, recv);
}

static int64_t own_pairs(const struct step *s)
{
    return moe_rows(s) * s->m->top_k;
}

static int64_t n_block(const struct step *s)
{
    return s->local_experts * s->c.ep;
}

/* ---- EP1 ---------------------------------------------------------------- */

static void permute_local(struct step *s, struct mat n, struct mlp_saved *v)
{
    v->permuted = ten_act(s, CAT_MOE_DISPATCH, "moe.permute", v->pairs,
                          n.cols);
    RUN(s, permute, .out = v->permuted.m, .x = n, .row = v->row);
    v->sorted = ten_act(s, CAT_MOE_DISPATCH, "moe.sort", v->pairs, n.cols);
    RUN(s, copy, .dst = v->sorted.m, .src = v->permuted.m);
    v->weight_sorted = ten_acc(s, CAT_MOE_EXPERTS, "moe.sort.weight",
                               v->pairs, 1);
    RUN(s, copy, .dst = v->weight_sorted.m, .src = v->weight_permuted.m);
}

/* ---- forward ------------------------------------------------------------ */

void dispatch_forward(struct step *s, struct mat n, struct mlp_saved *v)
{
    struct wire w;

    if (s->c.ep == 1) {
        permute_local(s, n, v);
        return;
    }
    w = wire_of(s, own_pairs(s), v->pairs);
    RUN(s, permute, .out = w.send, .x = n, .row = v->row);
    RUN(s, copy, .dst = w.send_weight, .src = v->weight_permuted.m);
    ten_free(s, &v->weight_permuted);
    cross(s, "expert dispatch", w.send, w.recv, true);
    cross(s, "expert weights", w.send_weight, w.recv_weight, true);
    v->sorted = ten_act(s, CAT_MOE_DISPATCH, "moe.sort", v->pairs, n.cols);
    RUN(s, gather, .out = v->sorted.m, .x = w.recv, .r = s->route.block,
        .n = n_block(s));
    v->weight_sorted = ten_acc(s, CAT_MOE_EXPERTS, "moe.sort.weight",
                               v->pairs, 1);
    RUN(s, gather, .out = v->weight_sorted.m, .x = w.recv_weight,
        .r = s->route.block, .n = n_block(s));
}

struct tensor combine_forward(struct step *s, struct mlp_saved *v,
                              struct tensor *y)
{
    int64_t rows = moe_rows(s), h = s->m->hidden;
    struct tensor unsorted = {NULL, {0}}, out;
    struct mat pairs;

    if (s->c.ep == 1) {
        unsorted = ten_act(s, CAT_MOE_EXPERTS, "moe.unsort", v->pairs, h);
        RUN(s, copy, .dst = unsorted.m, .src = y->m);
        pairs = unsorted.m;
    } else {
        struct wire w = wire_of(s, own_pairs(s), v->pairs);

        RUN(s, scatter, .out = w.recv, .x = y->m, .r = s->route.block,
            .n = n_block(s));
        cross(s, "expert combine", w.recv, w.send, false);
        pairs = w.send;
    }
    ten_free(s, y);
    out = ten_act(s, CAT_MOE_EXPERTS, "moe.combine", rows, h);
    RUN(s, combine, .out = out.m, .x = pairs, .slot = v->slot,
        .top_k = s->m->top_k);
    ten_free(s, &unsorted);
    return out;
}

/* ---- backward ----------------------------------------------------------- */

struct tensor combine_backward(struct step *s, struct mlp_saved *v,
                               struct mat dy)
{
    struct tensor d, permuted;

    if (s->c.ep == 1) {
        permuted = ten_act(s, CAT_MOE_EXPERTS, "moe.combine.backward",
                           v->pairs, dy.cols);
        RUN(s, permute, .out = permuted.m, .x = dy, .row = v->row);
        d = ten_act(s, CAT_MOE_EXPERTS, "moe.unsort.backward", v->pairs,
                    dy.cols);
        RUN(s, copy, .dst = d.m, .src = permuted.m);
        ten_free(s, &permuted);
    } else {
        struct wire w = wire_of(s, own_pairs(s), v->pairs);

        RUN(s, permute, .out = w.send, .x = dy, .row = v->row);
        cross(s, "expert combine backward", w.send, w.recv, true);
        d = ten_act(s, CAT_MOE_EXPERTS, "moe.combine.backward", v->pairs,
                    dy.cols);
        RUN(s, gather, .out = d.m, .x = w.recv, .r = s->route.block,
            .n = n_block(s));
    }
    return d;
}

/* Gradients of the received pairs' weights back to the tokens' ranks, then
** from sorted pairs to [T, K]. */
static struct tensor weights_back(struct step *s, struct mlp_saved *v,
                                  struct tensor *d_pair, int64_t rows)
{
    struct tensor dweight;
    struct mat pairs = d_pair->m;

    if (s->c.ep > 1) {
        struct wire w = wire_of(s, own_pairs(s), v->pairs);

        RUN(s, scatter, .out = w.recv_weight, .x = d_pair->m,
            .r = s->route.block, .n = n_block(s));
        cross(s, "expert weights backward", w.recv_weight, w.send_weight,
              false);
        pairs = w.send_weight;
    }
    dweight = ten_acc(s, CAT_MOE_ROUTING, "router.weight.backward", rows,
                      s->m->top_k);
    RUN(s, route_unsort, .dweight = dweight.m, .dpair = pairs,
        .slot = v->slot);
    ten_free(s, d_pair);
    return dweight;
}

struct tensor dispatch_backward(struct step *s, struct mlp_saved *v,
                                struct tensor *d_sorted,
                                struct tensor *d_pair, struct tensor *dweight)
{
    int64_t rows = moe_rows(s), h = s->m->hidden;
    struct tensor permuted = {NULL, {0}}, dn;
    struct mat pairs;

    *dweight = weights_back(s, v, d_pair, rows);
    if (s->c.ep == 1) {
        permuted = ten_act(s, CAT_MOE_DISPATCH, "moe.sort.backward", v->pairs,
                           h);
        RUN(s, copy, .dst = permuted.m, .src = d_sorted->m);
        pairs = permuted.m;
    } else {
        struct wire w = wire_of(s, own_pairs(s), v->pairs);

        RUN(s, scatter, .out = w.recv, .x = d_sorted->m, .r = s->route.block,
            .n = n_block(s));
        cross(s, "expert dispatch backward", w.recv, w.send, false);
        pairs = w.send;
    }
    ten_free(s, d_sorted);
    dn = ten_act(s, CAT_MOE_EXPERTS, "moe.dispatch.backward", rows, h);
    RUN(s, combine, .out = dn.m, .x = pairs, .slot = v->slot,
        .top_k = s->m->top_k);
    ten_free(s, &permuted);
    ten_free(s, &v->row_map);
    return dn;
}
