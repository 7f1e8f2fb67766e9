/*
** total.c - from a floor to raw and admitted bytes: the head stage, HybridEP
** growth, and the sum of pricing.md 0.1, term by term.
*/
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

#define HEAD_BUFFERS 3          /* logits, their gradient, its scatter */

/* ---- HybridEP (pricing.md 7.4) ------------------------------------------- */

int64_t price_hybridep_rows(int64_t capacity, int64_t ranks)
{
    int64_t rows = num_round_up(capacity, 4 / num_gcd(4, ranks));

    assert(capacity >= 0 && ranks >= 1);
    return num_round_up(num_max(rows, 512), 64);
}

/* Rows a rank may be given of the longest packed row: whole planner chunks,
** twice the even share, and never more than there are. */
static int64_t token_capacity(int64_t packed, int64_t cp)
{
    int64_t share = num_ceil_div(packed, PLAN_CHUNK_ROWS * cp);
    return num_min(packed, 2 * share * PLAN_CHUNK_ROWS);
}

/* The old buffers are still referenced while the new ones are made. */
int64_t price_hybridep_growth(const struct price_facts *f)
{
    const struct model *m = f->model;
    int64_t g, capacity, rows, width;

    if (f->hybridep_held_rows < 0 || f->ep == 1) return 0;
    capacity = token_capacity(f->packed_length, f->cp);
    for (g = 0; g < f->n_group; g++)
        capacity = num_max(capacity, price_busiest_rows(f, g));
    rows = price_hybridep_rows(capacity, f->ep);
    if (rows <= f->hybridep_held_rows) return 0;
    /* bf16 tokens, f32 probabilities and the map, f32 scales of 128 */
    width = PRICE_ELEMENT * m->hidden + 5 * m->experts + 4 * (m->hidden / 128);
    return num_smul(num_smul(rows, f->ep), width);
}

/* ---- the head stage (pricing.md 10) -------------------------------------- */

/* Terms of the head's backward, before the recomputing one begins, beside
** boundaries and the one input gradient. */
static void head_terms(const struct price_wave *w, const struct price_parts *p,
                       int64_t gradient, int64_t term[CAT_COUNT])
{
    const struct price_facts *f = w->f;
    const struct model *m = f->model;
    int64_t chunk = num_min(HEAD_CHUNK, f->head_rows);
    int64_t logits = num_smul(chunk, m->vocab * PRICE_ELEMENT);

    if (f->head_rows == 0) return;
    term[CAT_HEAD] = num_smul(w->has_grad ? HEAD_BUFFERS : 1, logits);
    if (!w->moe[1].covered) {   /* not staged: beside the adapters */
        term[CAT_ADAPTER_GRADIENTS] = p->extra;
        return;
    }
    term[CAT_HEAD] = num_sadd(term[CAT_HEAD],
                              num_smul(w->input_rows,
                                       ROW_STATE + 4 * m->rotary_dim));
    term[CAT_INPUT_GRADIENT] = num_smul(2, gradient);
    term[CAT_ADAPTER_GRADIENTS] = p->at_head;
    term[CAT_WORKSPACE] = w->te;
}

/* ---- the sum ------------------------------------------------------------- */

static void put_rank_terms(struct estimate *est, const int64_t *common,
                           int64_t extra, int64_t te)
{
    int64_t r;
    int k, c;

    for (r = 0; r < est->n_rank; r++) {
        for (k = 0; k < LAYER_KINDS; k++) {
            int64_t *t = est->rank[r].term[k];
            for (c = 0; c < CAT_COUNT; c++) t[c] = num_sadd(t[c], common[c]);
            t[CAT_ADAPTER_GRADIENTS] = num_sadd(t[CAT_ADAPTER_GRADIENTS],
                                                extra);
            t[CAT_WORKSPACE] = num_sadd(t[CAT_WORKSPACE], te);
        }
    }
}

int price_total(const struct price_wave *w, const struct price_parts *p,
                struct estimate *out, struct err *e)
{
    const struct price_facts *f = w->f;
    int64_t common[CAT_COUNT] = {0}, head[CAT_COUNT] = {0};
    int64_t gradient = w->moe[1].covered ? num_smul(w->input_rows, w->row)
                                         : p->boundaries;
    int c;

    common[CAT_OUTPUTS] = f->output_bytes;
    common[CAT_INPUT_GRADIENT] = gradient;
    common[CAT_WORKSPACE] = w->cold;
    common[CAT_HYBRIDEP] = price_hybridep_growth(f);
    head_terms(w, p, gradient, head);
    out->head_binds = price_sum(head) > num_sadd(p->workspace, p->extra);
    if (out->head_binds) {
        memcpy(out->term, head, sizeof head);
        out->term[CAT_BOUNDARIES] = p->boundaries;
    } else {
        memcpy(out->term, p->term, sizeof out->term);
        out->term[CAT_ADAPTER_GRADIENTS] = p->extra;
        out->term[CAT_WORKSPACE] = w->te;
    }
    for (c = 0; c < CAT_COUNT; c++)
        out->term[c] = num_sadd(out->term[c], common[c]);
    put_rank_terms(out, common, p->extra, w->te);
    out->raw = price_sum(out->term);
    out->admitted = num_sadd(out->raw, out->raw / 10);
    return out->admitted == INT64_MAX ? price_too_big(f, e) : ERR_OK;
}
