/* facts.c - facts from a plan, and their memory. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "batch/routing.h"
#include "model/param.h"
#include "price/internal.h"

#define CHUNK 64        /* rows that the delta rule takes at a time */

void price_facts_init(struct price_facts *f)
{
    *f = (struct price_facts){
        .cp = 1, .ep = 1, .tp = 1, .pp = 1,
        .moe_stages = true, .routing_state = true, .cp_attention = true,
        .hybridep_held_rows = -1, .packed_length = -1,
        .q_block = PRICE_Q_BLOCK, .k_block = PRICE_K_BLOCK,
        .sequence_parallel = -1, .packed_rows = -1, .rank_rows = -1,
        .segments = -1, .gdn_executed_rows = -1,
    };
}

/* Sizes of a rank's stages, without the ranges behind them. */
static int copy_stages(const struct rank_plan *r, struct stage **out,
                       int64_t *n)
{
    int64_t i;

    *out = calloc((size_t)r->n_stage + 1, sizeof **out);
    if (*out == NULL) return ERR_RUN;
    *n = r->n_stage;
    for (i = 0; i < r->n_stage; i++) {
        const struct stage *s = &r->stage[i];
        (*out)[i] = (struct stage){
            .local = s->local, .q_full = s->q_full, .k_full = s->k_full,
            .q = s->q, .k = s->k, .q_len = s->q_len, .k_len = s->k_len,
        };
    }
    return ERR_OK;
}

/* Own rows that each stage's peers fetch. */
static int copy_sent(const struct plan *p, struct price_group *g)
{
    int64_t r, i;

    g->n_sent = p->rank[0].n_stage;
    for (r = 1; r < p->cp; r++)
        g->n_sent = num_max(g->n_sent, p->rank[r].n_stage);
    g->sent_rows = calloc((size_t)(p->cp * g->n_sent) + 1,
                          sizeof *g->sent_rows);
    if (g->sent_rows == NULL) return ERR_RUN;
    for (r = 0; r < p->cp; r++)
        for (i = 0; i < p->rank[r].n_stage; i++) {
            const struct stage *s = &p->rank[r].stage[i];
            int64_t k, *out = &g->sent_rows[r * g->n_sent + i];
            if (s->local || s->send_first == NULL) continue;
            for (k = 0; k < s->send_first[p->cp]; k++) *out += s->send[k].len;
        }
    return ERR_OK;
}

/* Recorded layouts know no pieces: one a rank, as the step takes them; nor who
** sends. */
static int copy_pieces(const struct plan *p, struct price_group *g)
{
    int64_t r, i;

    if (!p->exact) return ERR_OK;
    if (p->cp > 1 && copy_sent(p, g) != ERR_OK) return ERR_RUN;
    g->gdn_states = calloc((size_t)p->cp, sizeof *g->gdn_states);
    g->gdn_chunks = calloc((size_t)p->cp, sizeof *g->gdn_chunks);
    g->gdn_sent = calloc((size_t)p->cp, sizeof *g->gdn_sent);
    if (g->gdn_states == NULL || g->gdn_chunks == NULL || g->gdn_sent == NULL)
        return ERR_RUN;
    for (r = 0; r < p->cp; r++) {
        const struct rank_plan *k = &p->rank[r];
        for (i = 0; i < k->n_piece; i++)
            g->gdn_chunks[r] += num_ceil_div(k->piece[i].len, CHUNK);
    }
    return price_count_states(p, g);
}

static int copy_ranks(const struct plan *p, struct price_group *g)
{
    size_t cp = (size_t)p->cp;
    int64_t r;
    int rc = copy_pieces(p, g);

    g->attention_rows = calloc(cp, sizeof *g->attention_rows);
    g->gdn_rows = calloc(cp, sizeof *g->gdn_rows);
    g->stage = calloc(cp, sizeof *g->stage);
    g->n_stage = calloc(cp, sizeof *g->n_stage);
    if (g->attention_rows == NULL || g->gdn_rows == NULL || g->stage == NULL
        || g->n_stage == NULL)
        return ERR_RUN;
    for (r = 0; rc == ERR_OK && r < p->cp; r++) {
        g->attention_rows[r] = p->rank[r].attention_rows;
        g->gdn_rows[r] = p->rank[r].gdn_rows;
        rc = copy_stages(&p->rank[r], &g->stage[r], &g->n_stage[r]);
    }
    return rc;
}

/* Rows that a gated delta net runs of a batch that one rank holds: a segment
** with children ends at its last whole chunk, and its tail runs at the head
** of each child. */
static int64_t executed_rows(const struct batch *b)
{
    int64_t *tail = calloc((size_t)b->n_seg + 1, sizeof *tail);
    int64_t i, sum = 0;

    if (tail == NULL) return -1;
    for (i = 0; i < b->n_seg; i++) {
        const struct segment *s = &b->seg[i];
        int64_t rows = s->tokens + (s->parent >= 0 ? tail[s->parent] : 0);
        bool parent = s->next > i + 1;
        tail[i] = parent ? rows % CHUNK : 0;
        sum += rows - tail[i];
    }
    free(tail);
    return sum;
}

static int set_segments(const struct plan *p, struct price_facts *f,
                        struct err *e)
{
    int64_t rows;

    if (p->batch == NULL) return ERR_OK;
    if (p->batch->n_seg > 1) f->segments = p->batch->n_seg;
    if (p->cp > 1 || model_count(f->model, LAYER_GDN) == 0) return ERR_OK;
    rows = executed_rows(p->batch);
    if (rows < 0) return err_nomem(e);
    if (rows != p->batch->tokens) f->gdn_executed_rows = rows;
    return ERR_OK;
}

int price_facts_from_plan(const struct model *m, const struct plan *p,
                          int64_t ep, int64_t lora_rank,
                          struct price_facts *out, struct err *e)
{
    struct price_facts f;
    int rc;

    price_facts_init(&f);
    f.model = m;
    f.cp = p->cp;
    f.ep = ep;
    f.lora_rank = lora_rank;
    f.group = calloc(1, sizeof *f.group);
    if (f.group == NULL) return err_nomem(e);
    f.n_group = 1;
    f.group->grad = true;
    f.group->routed_rows = -1;
    snprintf(f.group->slot, sizeof f.group->slot, "policy");
    rc = copy_ranks(p, f.group) == ERR_OK ? set_segments(p, &f, e)
                                          : err_nomem(e);
    if (rc != ERR_OK) {
        price_facts_free(&f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}

/* Layers of a kind have the same adapters: one of each stands for all. */
int price_all_pending(const struct price_facts *f, int64_t **out,
                      struct err *e)
{
    enum layer_kind kinds[LAYER_KINDS] = {LAYER_ATTENTION, LAYER_GDN};
    int64_t of[LAYER_KINDS + 1], *pending, i, n = f->model->layers;
    struct model each = *f->model;
    struct param_list list;
    int rc;

    each.layers = LAYER_KINDS;
    each.kind = kinds;
    rc = param_list_make(&each, f->ep, f->lora_rank, &list, e);
    if (rc != ERR_OK) return rc;
    param_adapter_bytes(&each, &list, of);
    param_list_free(&list);
    pending = calloc((size_t)n + 1, sizeof *pending);
    if (pending == NULL) return err_nomem(e);
    for (i = 0; i < n; i++) pending[i] = of[f->model->kind[i]];
    pending[n] = of[LAYER_KINDS];       /* outside the decoder */
    *out = pending;
    return ERR_OK;
}

int price_facts_all_pending(struct price_facts *f, struct err *e)
{
    int64_t *pending;
    int rc = price_all_pending(f, &pending, e);

    if (rc != ERR_OK) return rc;
    free(f->pending);
    f->pending = pending;
    return ERR_OK;
}

/* Of one group; false: the routing cannot be of these rows. */
static bool stated_pairs(const struct price_facts *f, const struct routing *r,
                         int64_t wave, int64_t *out)
{
    const struct price_group *g = f->group;
    int64_t layers = f->model->layers, got[PRICE_MAX_RANKS], first, l, i;
    struct err e;

    for (first = 0; first < f->cp; first += f->ep)
        for (l = 0; l < layers; l++) {
            const int64_t *rows = f->model->kind[l] == LAYER_GDN
                                  ? g->gdn_rows : g->attention_rows;
            int64_t all = 0;
            for (i = first; i < first + f->ep; i++) all += rows[i];
            if (routing_received(r, wave, l, f->model->experts, f->ep, first,
                                 all * f->model->top_k, got, &e) != ERR_OK)
                return false;
            for (i = 0; i < f->ep; i++)
                out[(first + i) * layers + l] = got[i];
        }
    return true;
}

int price_facts_route(struct price_facts *f, const struct routing *r,
                      int64_t wave, struct err *e)
{
    int64_t *pairs;

    assert(f->n_group == 1);
    if (f->ep == 1 || f->tp > 1 || f->model->experts == 0 ||
        r->kind == ROUTING_BALANCED) return ERR_OK;
    pairs = calloc((size_t)(f->cp * f->model->layers), sizeof *pairs);
    if (pairs == NULL) return err_nomem(e);
    if (!stated_pairs(f, r, wave, pairs)) {
        free(pairs);
        return ERR_OK;
    }
    free(f->group->routed_pairs);
    f->group->routed_pairs = pairs;
    return ERR_OK;
}

static void free_group(struct price_group *g, int64_t cp)
{
    int64_t r;

    for (r = 0; g->stage != NULL && r < cp; r++) free(g->stage[r]);
    free(g->stage);
    free(g->n_stage);
    free(g->attention_rows);
    free(g->gdn_rows);
    free(g->attention_retained);
    free(g->routed_pairs);
    free(g->gdn_states);
    free(g->gdn_sent);
    free(g->sent_rows);
    free(g->gdn_chunks);
    free(g->pending);
}

void price_facts_free(struct price_facts *f)
{
    int64_t i;

    for (i = 0; f->group != NULL && i < f->n_group; i++)
        free_group(&f->group[i], f->cp);
    free(f->group);
    free(f->pending);
    free(f->output_rows);
    if (f->own_model != NULL) model_free(f->own_model);
    free(f->own_model);
    free(f->model_ref);
    price_facts_init(f);
}
