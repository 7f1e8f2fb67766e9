/* Any tree file, after a byte that picks ranks and profile: an error, or a
** batch whose plan holds every row once and sees every pair once. */
#include <stdint.h>
#include <stdlib.h>

#include "batch/tree.h"
#include "plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Pairs of the mask, by segments: exact far beyond what a test would walk. */
static int64_t mask_pairs(const struct batch *b)
{
    int64_t i, n = 0;

    for (i = 0; i < b->n_seg; i++) {
        const struct segment *s = &b->seg[i];
        int64_t below = batch_subtree_end(b, i) - s->start - s->tokens;
        n += s->tokens * (s->tokens + 1) / 2 + s->tokens * below;
    }
    return n;
}

static int64_t stage_pairs(const struct stage *s)
{
    int64_t i, n = 0;

    for (i = 0; i < s->n_slice; i++) {
        const struct slice *v = &s->slice[i];
        if (v->q < 0 || v->k < 0 || v->q + v->n_q > s->q ||
            v->k + v->n_k > s->k)
            abort();
        n += v->causal ? v->n_q * v->diag + v->n_q * (v->n_q + 1) / 2
                       : v->n_q * v->n_k;
    }
    return n;
}

static void check_plan(const struct plan *p)
{
    int64_t r, i, attention = 0, gdn = 0, pairs = 0;

    for (r = 0; r < p->cp; r++) {
        const struct rank_plan *x = &p->rank[r];
        attention += x->attention_rows;
        gdn += x->gdn_rows;
        if (x->n_stage != p->rounds + 1) abort();
        for (i = 0; i < x->n_stage; i++) pairs += stage_pairs(&x->stage[i]);
        for (i = 0; i < x->n_piece; i++)
            if (x->piece[i].from_rank >= p->cp) abort();
    }
    if (attention != p->tokens || gdn != p->tokens) abort();
    if (pairs != mask_pairs(p->batch)) abort();
}

/* What batch_load_tree does with a file's text. */
static int read_batch(const char *text, size_t len, struct batch *out,
                      struct err *e)
{
    struct csv_table *table;
    struct tree t;
    int64_t bad = -1;
    int rc = csv_parse_text(text, len, "f", &table, e);

    if (rc == ERR_OK) rc = tree_read(table, &t, e);
    if (rc != ERR_OK) return rc;
    rc = tree_to_batch(t.parent, t.tokens, t.n, NULL, &bad, out, e);
    if (rc == ERR_INPUT) rc = tree_blame(&t, bad, e);
    tree_free(&t);
    return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static enum layer_kind kinds[] = {LAYER_GDN, LAYER_ATTENTION};
    const struct model m = {
        .layers = 2, .hidden = 2048, .k_heads = 16, .k_dim = 128,
        .v_heads = 32, .v_dim = 128, .conv = 4, .experts = 256, .top_k = 8,
        .expert_ffn = 512, .shared_ffn = 512, .kind = kinds
    };
    struct plan_options o = {.ep = 1, .tp = 1, .owned_ms = -1};
    struct batch b;
    struct plan p;
    struct err e;

    if (size < 1) return 0;
    o.cp = 1 + data[0] % 9;
    o.profile = data[0] & 0x80 ? PLAN_OLD : PLAN_NEW;
    if (read_batch((const char *)data + 1, size - 1, &b, &e) != ERR_OK)
        return 0;
    if (plan_make(&m, &b, &o, &p, &e) == ERR_OK) {
        check_plan(&p);
        plan_free(&p);
    } else if (e.code != ERR_INPUT) {
        abort();
    }
    batch_free(&b);
    return 0;
}
