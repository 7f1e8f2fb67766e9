/* scale.c - see scale.h */
#include "fit/scale.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

__extension__ typedef __int128 wide;

/* x * to / from, rounded down; INT64_MAX when that is more. */
static int64_t scale(int64_t x, int64_t to, int64_t from)
{
    wide y = (wide)x * to / from;

    return y > INT64_MAX ? INT64_MAX : (int64_t)y;
}

/* ---- batches ------------------------------------------------------------ */

int fit_scale_batch(const struct batch *b, int64_t tokens, struct batch *out,
                    struct err *e)
{
    int64_t *parent = calloc((size_t)b->n_seg, sizeof *parent);
    int64_t *length = calloc((size_t)b->n_seg, sizeof *length), i;
    int rc = parent == NULL || length == NULL ? err_nomem(e) : ERR_OK;

    assert(tokens >= 0);
    for (i = 0; i < b->n_seg && rc == ERR_OK; i++) {
        const struct segment *s = &b->seg[i];
        parent[i] = s->parent;
        length[i] = num_max(1, scale(s->tokens, tokens, b->tokens));
    }
    if (rc == ERR_OK)
        rc = batch_from_tree(parent, length, b->n_seg, out, e);
    free(parent);
    free(length);
    return rc;
}

/* ---- facts -------------------------------------------------------------- */

int64_t fit_tokens(const struct price_facts *f)
{
    int64_t i, r, tokens = 0;

    for (i = 0; i < f->n_group; i++)
        for (r = 0; r < f->cp; r++) tokens += f->group[i].attention_rows[r];
    return tokens;
}

/* Boundaries between ranks are scaled, so the sum is exact. */
static void scale_rows(int64_t *rows, int64_t cp, int64_t to, int64_t from)
{
    int64_t r, before = 0, end = 0;

    for (r = 0; r < cp; r++) {
        int64_t at;
        end += rows[r];
        at = scale(end, to, from);
        rows[r] = at - before;
        before = at;
    }
}

static void scale_stage(struct stage *s, int64_t own, int64_t to, int64_t from)
{
    s->q = s->q_full ? own : num_min(own, scale(s->q, to, from));
    s->k = s->k_full ? own : scale(s->k, to, from);
    if (s->local) s->k = num_min(own, s->k);
    if (s->q == 0 || s->k == 0) s->q = s->k = 0;
    s->q_full = s->q_full && s->q > 0;
    s->q_len = num_round_up(s->q, PLAN_STAGE_BLOCK);
    s->k_len = num_round_up(s->k, PLAN_STAGE_BLOCK);
}

/* A longer wave of the same shape has as many states, and more chunks. */
static void scale_list(int64_t *v, int64_t n, int64_t to, int64_t from)
{
    int64_t i;

    for (i = 0; v != NULL && i < n; i++) v[i] = scale(v[i], to, from);
}

static void scale_group(struct price_group *g, int64_t cp, int64_t layers,
                        int64_t to, int64_t from)
{
    int64_t r, i;

    scale_list(g->gdn_chunks, cp, to, from);
    scale_list(g->sent_rows, cp * g->n_sent, to, from);
    scale_list(g->routed_pairs, cp * layers, to, from);

    scale_rows(g->attention_rows, cp, to, from);
    scale_rows(g->gdn_rows, cp, to, from);
    if (g->routed_rows > 0) g->routed_rows = scale(g->routed_rows, to, from);
    for (r = 0; r < cp; r++) {
        if (g->attention_retained != NULL)
            g->attention_retained[r] =
                scale(g->attention_retained[r], to, from);
        for (i = 0; g->stage != NULL && i < g->n_stage[r]; i++)
            scale_stage(&g->stage[r][i], g->attention_rows[r], to, from);
    }
}

static int64_t *copy_ints(const int64_t *v, int64_t n)
{
    int64_t *copy;

    if (v == NULL) return NULL;
    copy = calloc((size_t)n + 1, sizeof *copy);
    if (copy != NULL) memcpy(copy, v, (size_t)n * sizeof *v);
    return copy;
}

static bool copy_stages(const struct price_group *g, int64_t cp,
                        struct price_group *out)
{
    int64_t r;

    out->stage = NULL;
    out->n_stage = NULL;
    if (g->stage == NULL) return true;
    out->n_stage = copy_ints(g->n_stage, cp);
    out->stage = calloc((size_t)cp, sizeof *out->stage);
    if (out->n_stage == NULL || out->stage == NULL) return false;
    for (r = 0; r < cp; r++) {
        size_t n = (size_t)g->n_stage[r];
        out->stage[r] = calloc(n + 1, sizeof **out->stage);
        if (out->stage[r] == NULL) return false;
        memcpy(out->stage[r], g->stage[r], n * sizeof **out->stage);
    }
    return true;
}

/* What may be left out. */
static bool copy_routing(const struct price_group *g, int64_t cp,
                         int64_t layers, struct price_group *out)
{
    out->routed_pairs = copy_ints(g->routed_pairs, cp * layers);
    out->gdn_states = copy_ints(g->gdn_states, cp);
    out->gdn_chunks = copy_ints(g->gdn_chunks, cp);
    out->gdn_sent = copy_ints(g->gdn_sent, cp);
    out->sent_rows = copy_ints(g->sent_rows, cp * g->n_sent);
    return (g->routed_pairs == NULL || out->routed_pairs != NULL) &&
           (g->gdn_states == NULL || out->gdn_states != NULL) &&
           (g->gdn_chunks == NULL || out->gdn_chunks != NULL) &&
           (g->gdn_sent == NULL || out->gdn_sent != NULL) &&
           (g->sent_rows == NULL || out->sent_rows != NULL);
}

static bool copy_group(const struct price_group *g, int64_t cp,
                       int64_t layers, struct price_group *out)
{
    bool routing;

    *out = *g;
    out->attention_rows = copy_ints(g->attention_rows, cp);
    out->gdn_rows = copy_ints(g->gdn_rows, cp);
    out->attention_retained = copy_ints(g->attention_retained, cp);
    out->pending = copy_ints(g->pending, layers + 1);
    routing = copy_routing(g, cp, layers, out) &&
              (g->pending == NULL || out->pending != NULL);
    return copy_stages(g, cp, out) && routing && out->attention_rows != NULL &&
           out->gdn_rows != NULL &&
           (g->attention_retained == NULL || out->attention_retained != NULL);
}

int fit_scale_facts(const struct price_facts *f, int64_t tokens,
                    struct price_facts *out, struct err *e)
{
    struct price_facts x = *f;
    int64_t i, from = fit_tokens(f);
    bool ok;

    x.own_model = NULL;
    x.model_ref = NULL;
    x.pending = copy_ints(f->pending, f->model->layers + 1);
    x.group = calloc((size_t)f->n_group, sizeof *x.group);
    ok = x.group != NULL && (f->pending == NULL || x.pending != NULL);
    if (x.group == NULL) x.n_group = 0;
    for (i = 0; i < f->n_group && ok; i++) {
        ok = copy_group(&f->group[i], f->cp, f->model->layers, &x.group[i]);
        if (ok)
            scale_group(&x.group[i], f->cp, f->model->layers, tokens, from);
    }
    if (!ok) {
        price_facts_free(&x);
        return err_nomem(e);
    }
    x.head_rows = num_min(scale(f->head_rows, tokens, from), tokens);
    if (f->packed_length > 0)
        x.packed_length = num_max(1, scale(f->packed_length, tokens, from));
    *out = x;
    return ERR_OK;
}
