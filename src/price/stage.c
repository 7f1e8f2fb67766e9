/*
** stage.c - rows and widths: what a recomputed layer holds beside and inside
** its mixer (pricing.md 2, 3.4, 4).
*/
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

/* Five GEMM workspaces of 32 MiB + 1 KiB (four grouped streams, one plain),
** and two 32 MiB transients: rotary frequencies, a frozen linear's output. */
#define TE_GROWTH (5 * ((INT64_C(32) << 20) + 1024))
#define COLD_TRANSIENT (INT64_C(64) << 20)

static int64_t attention_elements(const struct model *m, bool stage_buffers)
{
    int64_t q = model_q(m), kv = model_kv(m);
    int64_t n = 2 * m->hidden + (m->attn_gate ? 7 : 5) * q + 3 * kv;

    /* padded q, k, v, the stage's output and one copy for the kernel */
    return stage_buffers ? n + 3 * q + 2 * kv : n;
}

static int64_t gdn_elements(const struct model *m, int64_t cp)
{
    int64_t value = model_value(m);
    int64_t expanded = m->v_heads * m->k_dim;
    int64_t n = m->hidden + 2 * model_key(m) + 2 * expanded + 6 * value
                + 64 * m->v_heads;

    return cp > 1 ? n + m->hidden + value : n;
}

int64_t price_mixer_width(const struct model *m, enum layer_kind kind,
                          int64_t cp, bool stage_buffers)
{
    int64_t n = kind == LAYER_GDN
        ? gdn_elements(m, cp)
        : attention_elements(m, stage_buffers && cp > 1);
    return n * PRICE_ELEMENT;
}

int64_t price_busiest_rows(const struct price_facts *f, int64_t group)
{
    const struct price_group *g = &f->group[group];
    int64_t r, most = 1;

    for (r = 0; r < f->cp; r++)
        most = num_max(most, num_max(g->attention_rows[r], g->gdn_rows[r]));
    return most;
}

int64_t price_routed_rows(const struct price_facts *f, int64_t group)
{
    const struct price_group *g = &f->group[group];
    int64_t r, attention = 0, gdn = 0, busiest = price_busiest_rows(f, group);

    if (g->routed_rows >= 0) return g->routed_rows;
    if (f->ep == 1 || f->ep != f->cp) return busiest;
    for (r = 0; r < f->cp; r++) {
        attention = num_sadd(attention, g->attention_rows[r]);
        gdn = num_sadd(gdn, g->gdn_rows[r]);
    }
    return num_min(busiest,
                   num_ceil_div(num_max(attention, gdn), f->cp));
}

int64_t price_boundary(const struct price_facts *f, int64_t g, int64_t rank,
                       int64_t layer)
{
    int64_t rows, row = f->model->hidden * PRICE_ELEMENT;

    if (rank < 0)
        rows = price_busiest_rows(f, g);
    else if (model_input_layout(f->model, layer) == LAYER_GDN)
        rows = f->group[g].gdn_rows[rank];
    else
        rows = f->group[g].attention_rows[rank];
    return num_smul(num_max(1, rows), row);
}

/* fp32 scores and the bool map, then a row-id map (EP1) or HybridEP's copy of
** the probabilities and its handle. */
static int64_t routing_state(const struct model *m, int64_t ep)
{
    int64_t experts = m->experts;
    return 5 * experts + (ep == 1 ? 4 * (2 * experts + 1) : 9 * experts + 16);
}

void price_wave_make(const struct price_facts *f, unsigned change,
                     struct price_wave *out)
{
    const struct model *m = f->model;
    struct price_wave w = {.f = f, .change = change};
    struct moe_shape shape;
    int64_t g;
    int grad;

    for (grad = 0; grad < 2; grad++) {
        shape = price_moe_shape(f, grad, change);
        price_moe_make(&shape, &w.moe[grad]);
    }
    w.row = m->hidden * PRICE_ELEMENT;
    if (f->routing_state && m->experts > 0) {
        w.routing = routing_state(m, f->ep);
        w.shared_state = 3 * m->shared_ffn * PRICE_ELEMENT;
    }
    w.has[LAYER_ATTENTION] = model_count(m, LAYER_ATTENTION) > 0;
    w.has[LAYER_GDN] = model_count(m, LAYER_GDN) > 0;
    for (g = 0; g < f->n_group; g++) {
        if (!f->group[g].grad) continue;
        w.has_grad = true;
        w.input_rows = num_sadd(w.input_rows, price_busiest_rows(f, g));
    }
    if (f->cold && w.has_grad) {
        w.te = TE_GROWTH;
        w.cold = COLD_TRANSIENT;
    }
    *out = w;
}

static void add(int64_t term[CAT_COUNT], enum category c, int64_t rows,
                int64_t width)
{
    term[c] = num_sadd(term[c], num_smul(rows, width));
}

int64_t price_stage(const struct price_wave *w, enum layer_kind kind,
                    int64_t width, int64_t rows, int64_t routed,
                    int64_t records, int64_t term[CAT_COUNT])
{
    int64_t own[CAT_COUNT] = {0};
    int c;

    add(own, kind == LAYER_GDN ? CAT_GDN : CAT_ATTENTION, rows, width);
    add(own, CAT_ATTENTION_RECORDS, 1, records);
    if (w->f->model->experts > 0)           /* a dense stage has its own */
        add(own, CAT_RESIDUAL_NORM, rows, 2 * w->row);
    add(own, CAT_MOE_ROUTING, rows, w->routing);
    add(own, CAT_SHARED_EXPERT, rows, w->shared_state);
    price_moe_workspace(&w->moe[1], rows, routed, own);
    for (c = 0; c < CAT_COUNT; c++) term[c] = num_sadd(term[c], own[c]);
    return price_sum(own);
}

int64_t price_sum(const int64_t term[CAT_COUNT])
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) sum = num_sadd(sum, term[c]);
    return sum;
}
