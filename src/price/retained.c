/*
** retained.c - what a rank holds of a wave that does not recompute whole
** layers, as the planner printed it: the older heuristic and the versions of
** its successor (retained.md 2, 3).
**
** Widths are elements a row times tp, so that all is an integer whether a
** tensor is divided over ranks or whole on each; bytes are divided once.
*/
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"

#define COLD ((int64_t)64 << 20)    /* GEMM workspaces of a first wave */
#define MOE_WIDTHS 6                /* of an expert's SwiGLU, never fused */

/* Each version adds to those before it, from parts on. */
enum version { HEURISTIC, FLAT, SPLIT4, SPLIT6, PARTS, PARTS64, STATES, RANK };

struct wave {
    const struct price_facts *f;
    const struct model *m;
    enum version version;
    int64_t tp;
    int64_t hidden;             /* H of a tensor that sequence parallelism
                                   divides, x tp */
    int64_t attention, gdn;     /* layers of each kind */
    int64_t packed, rows;
    int64_t term[CAT_COUNT];    /* bytes x tp */
};

/* ---- facts --------------------------------------------------------------- */

bool price_has_grad(const struct price_facts *f)
{
    int64_t g;

    for (g = 0; g < f->n_group && !f->mode.no_grad; g++)
        if (f->group[g].grad) return true;
    return false;
}

bool price_sequence_parallel(const struct price_facts *f)
{
    return f->sequence_parallel < 0 ? f->tp > 1 : f->sequence_parallel > 0;
}

static int64_t group_rows(const struct price_facts *f, int64_t g)
{
    int64_t r, sum = 0;

    for (r = 0; r < f->cp; r++)
        sum = num_sadd(sum, f->group[g].attention_rows[r]);
    return sum;
}

int64_t price_packed_rows(const struct price_facts *f)
{
    int64_t g, sum = 0;

    if (f->packed_rows >= 0) return f->packed_rows;
    for (g = 0; g < f->n_group; g++)
        sum = num_sadd(sum, num_round_up(group_rows(f, g), f->tp));
    return sum;
}

int64_t price_rank_rows(const struct price_facts *f)
{
    int64_t g, sum = 0;

    if (f->rank_rows >= 0) return f->rank_rows;
    for (g = 0; g < f->n_group; g++)
        sum = num_sadd(sum, num_round_up(price_busiest_rows(f, g), f->tp));
    return sum;
}

int64_t price_segments(const struct price_facts *f)
{
    int64_t g, n = 0;

    if (f->segments >= 0) return f->segments;
    for (g = 0; g < f->n_group; g++) n += f->group[g].grad;
    return n;
}

int64_t price_swiglu_widths(const struct price_facts *f)
{
    if (f->swiglu_widths > 0) return f->swiglu_widths;
    return strcmp(f->model->family, "qwen3") == 0 ? 5 : 3;
}

/* ---- widths, from parts on ----------------------------------------------- */

/* Of a layer's part: the norm's tensors, and the rest. */
static int64_t norm_width(const struct wave *w)
{
    bool gathered = w->hidden < w->m->hidden * w->tp;

    return 2 * w->hidden + (gathered ? w->m->hidden * w->tp : 0);
}

static int64_t attention_width(const struct wave *w)
{
    const struct model *m = w->m;
    int64_t q = model_q(m), kv = model_kv(m);
    int64_t width = (m->attn_gate ? 7 : 5) * q + 3 * kv;

    /* fewer key heads than ranks: the joined projection stays whole */
    if (m->kv_heads < w->tp)
        width += (w->tp - 1) * ((m->attn_gate ? 2 : 1) * q + 2 * kv);
    return width;
}

static int64_t gdn_width(const struct wave *w)
{
    return 4 * model_key(w->m) + 8 * model_value(w->m);
}

static int64_t dense_ffn(const struct model *m)
{
    return m->ffn > 0 ? m->ffn : 4 * m->hidden;
}

/* Of all experts that a row goes through. */
static int64_t expert_ffn(const struct wave *w)
{
    const struct model *m = w->m;
    int64_t ffn = m->top_k * m->expert_ffn + m->shared_ffn;

    return w->version <= PARTS ? num_max(dense_ffn(m), ffn) : ffn;
}

static int64_t mlp_width(const struct wave *w)
{
    const struct model *m = w->m;

    if (m->experts == 0)
        return price_swiglu_widths(w->f) * dense_ffn(m);
    return w->tp * (MOE_WIDTHS * expert_ffn(w)
                    + 2 * m->hidden * num_max(0, m->top_k - 1));
}

/* Layers whose MLP runs again in backward. */
static int64_t recomputed_mlps(const struct wave *w)
{
    const struct mode *o = &w->f->mode;
    unsigned named = w->m->experts > 0 ? MODULE_MOE : MODULE_MLP;

    if (o->recompute != RECOMPUTE_SELECTIVE || !(o->modules & named)) return 0;
    if (w->m->experts > 0 && w->version == PARTS) return 0;
    return w->m->layers;
}

/* ---- terms --------------------------------------------------------------- */

static void add(struct wave *w, enum category c, int64_t bytes)
{
    w->term[c] = num_sadd(w->term[c], bytes);
}

static void add_width(struct wave *w, enum category c, int64_t layers,
                      int64_t width)
{
    add(w, c, num_smul(num_smul(w->rows, PRICE_ELEMENT), layers * width));
}

/* One of the recomputed MLPs is priced whole: the one that runs. */
static void add_parts(struct wave *w)
{
    enum category mlp = w->m->experts > 0 ? CAT_MOE_EXPERTS
                                          : CAT_SHARED_EXPERT;
    int64_t again = recomputed_mlps(w), spared = num_max(0, again - 1);
    int64_t norm = norm_width(w), whole = mlp_width(w);
    int64_t input = (w->m->experts > 0 ? 2 : 1) * w->hidden;

    add_width(w, CAT_ATTENTION, w->attention, attention_width(w));
    add_width(w, CAT_GDN, w->gdn, gdn_width(w));
    add_width(w, CAT_RESIDUAL_NORM, 2 * w->m->layers - spared, norm);
    add_width(w, CAT_BOUNDARIES, spared, input);
    add_width(w, mlp, w->m->layers - again, whole);
    add_width(w, CAT_WORKSPACE, num_min(1, again), whole);
    if (w->version >= PARTS64) add(w, CAT_WORKSPACE, COLD * w->tp);
}

/* First and last state and convolution history of every segment. */
static void add_states(struct wave *w)
{
    const struct model *m = w->m;
    int64_t state = 4 * m->v_heads * m->k_dim * m->v_dim;
    int64_t history = 2 * model_conv_channels(m) * num_max(0, m->conv - 1);

    add(w, CAT_GDN, num_smul(num_smul(price_segments(w->f), w->gdn),
                             2 * (state + history)));
}

static void add_flat(struct wave *w)
{
    const struct model *m = w->m;
    int64_t width = num_max(m->hidden, model_q(m));

    if (w->gdn > 0)
        width = num_max(width, 2 * model_key(m) + 2 * model_value(m));
    add_width(w, CAT_OTHER, m->layers,
              w->tp * (9 * width + 4 * dense_ffn(m)));
}

static void add_split(struct wave *w)
{
    const struct model *m = w->m;
    int64_t h = m->hidden, widths = w->version == SPLIT4 ? 4 : MOE_WIDTHS;
    int64_t a = num_max(h, model_q(m));
    int64_t g = num_max(h, 2 * model_key(m) + 2 * model_value(m));
    int64_t mlp = widths * expert_ffn(w);

    if (m->experts > 0) mlp = w->tp * (mlp + 2 * h * (m->top_k - 1));
    add_width(w, CAT_ATTENTION, w->attention, 9 * a - 5 * h);
    add_width(w, CAT_GDN, w->gdn, 7 * g - 5 * h);
    add_width(w, CAT_OTHER, m->layers, 5 * w->hidden + 2 * h * w->tp + mlp);
}

static void add_retained(struct wave *w)
{
    if (w->version == FLAT) add_flat(w);
    else if (w->version <= SPLIT6) add_split(w);
    else add_parts(w);
    if (w->version >= STATES) add_states(w);
}

/* Boundaries and a few layers' worth of hidden rows. */
static int64_t old_floor(const struct wave *w)
{
    int64_t layers = w->m->layers / 4 + 4;

    layers = num_min(num_max(layers, 4), 16);
    return num_smul(num_smul(w->packed, layers * PRICE_ELEMENT),
                    w->m->hidden * w->tp);
}

/* The MoE stage of all rows; none is priced under tensor parallelism. */
static int64_t routed_floor(const struct wave *w)
{
    struct moe_shape shape;
    struct moe moe;

    if (w->tp > 1 || w->m->experts == 0) return 0;
    shape = price_moe_shape(w->f, true, PRICE_AS_IS);
    price_moe_make(&shape, &moe);
    return num_smul(w->packed, moe.peak[0].per_row);
}

static void add_floor(struct wave *w)
{
    bool keeps = w->version != HEURISTIC && price_has_grad(w->f) &&
                 w->f->mode.recompute != RECOMPUTE_FULL;
    int64_t old = old_floor(w), routed = keeps ? routed_floor(w) : 0;

    if (keeps) add_retained(w);
    if (price_sum(w->term) >= num_max(old, routed)) return;
    memset(w->term, 0, sizeof w->term);
    add(w, routed > old ? CAT_MOE_EXPERTS : CAT_BOUNDARIES,
        num_max(old, routed));
}

/* ---- the sum ------------------------------------------------------------- */

static struct wave wave_of(const struct price_facts *f, enum version version)
{
    const struct model *m = f->model;
    struct wave w = {.f = f, .m = m, .version = version, .tp = f->tp};

    w.hidden = price_sequence_parallel(f) ? m->hidden : m->hidden * f->tp;
    w.gdn = model_count(m, LAYER_GDN);
    w.attention = m->layers - w.gdn;
    w.packed = w.rows = price_packed_rows(f);
    if (version == RANK && m->experts == 0) w.rows = price_rank_rows(f);
    return w;
}

/* Outputs are gathered over context-parallel ranks into a second copy. */
static int64_t output_bytes(const struct price_facts *f)
{
    return num_smul(f->output_bytes, f->cp > 1 ? 2 : 1);
}

/* Each term is rounded down; what that leaves, under a byte each, is
** "other". */
static int divide(struct wave *w, struct estimate *out, struct err *e)
{
    int64_t sum = price_sum(w->term);
    int c;

    if (sum > INT64_MAX / 11) return price_too_big(w->f, e);
    out->raw = sum / w->tp;
    out->admitted = sum * 11 / (10 * w->tp);
    for (c = 0; c < CAT_COUNT; c++) out->term[c] = w->term[c] / w->tp;
    out->term[CAT_OTHER] += out->raw - price_sum(out->term);
    return ERR_OK;
}

/* All published versions differ in what they sum, not in how they answer. */
static int retained(const struct price_facts *f, enum version version,
                    const char *name, struct estimate *out, struct err *e)
{
    struct wave w;
    int rc = price_check(f, e);

    if (rc != ERR_OK) return rc;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->binding_rank = -1;
    if (f->pp != 1) {
        snprintf(out->reason, sizeof out->reason, "PP%lld: only PP1 is priced",
                 (long long)f->pp);
        return ERR_OK;
    }
    out->supported = out->priced = true;
    w = wave_of(f, version);
    if (w.packed == 0) {
        out->raw = out->admitted = out->term[CAT_OUTPUTS] = f->output_bytes;
        return ERR_OK;
    }
    add_floor(&w);
    add(&w, CAT_OUTPUTS, num_smul(output_bytes(f), w.tp));
    return divide(&w, out, e);
}

#define VERSION(function, version, name)                                     \
int function(const struct price_facts *f, struct estimate *out,              \
             struct err *e)                                                  \
{                                                                            \
    return retained(f, version, name, out, e);                               \
}

VERSION(price_heuristic, HEURISTIC, PRICE_HEURISTIC)
VERSION(price_retained_flat, FLAT, "retained-flat")
VERSION(price_retained_split4, SPLIT4, "retained-split4")
VERSION(price_retained_split6, SPLIT6, "retained-split6")
VERSION(price_retained_parts, PARTS, "retained-parts")
VERSION(price_retained_parts64, PARTS64, "retained-parts64")
VERSION(price_retained_states, STATES, PRICE_RETAINED_STATES)
VERSION(price_retained_rank, RANK, PRICE_RETAINED_RANK)
