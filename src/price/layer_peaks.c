/*
** layer_peaks.c - what one rank holds at the instants at which a recomputed
** layer may reach its peak: per-rank-any's stage.
**
** The published stage (pricing.md 2 to 5) is the MoE of the recompute, with
** everything that the mixer saved beside it. Where a rank's experts are given
** less than its own rows route, or where it holds few rows, other instants are
** dearer: the experts' backward, when the layer's adapter gradients appear,
** and the mixer's backward, when the MoE is gone. All widths are of the
** operators that the executor runs (model.md 3), from sizes alone.
*/
#include <assert.h>
#include <string.h>

#include "base/num.h"
#include "price/any.h"

#define F32 4

/* n tensors that are alive. */
static void list(struct instant *t, int64_t n, int64_t bytes)
{
    assert(t->n < INSTANT_LIST);
    t->tensors += n;
    t->large += bytes > LARGE_BLOCK ? n : 0;
    t->list[t->n++] = (struct alive){n, bytes};
}

/* Small ones that are counted elsewhere. */
static void more(struct instant *t, int64_t n)
{
    t->tensors += n;
    t->small += n;
}

/* n tensors, each of so many rows and bytes a row. */
static void put(struct instant *t, enum category c, int64_t n, int64_t rows,
                int64_t width)
{
    int64_t bytes = num_smul(rows, width);

    t->term[c] = num_sadd(t->term[c], num_smul(n, bytes));
    list(t, n, bytes);
}

/* The same of act elements a row. */
static void put_act(struct instant *t, enum category c, int64_t n,
                    int64_t rows, int64_t elements)
{
    put(t, c, n, rows, num_smul(elements, PRICE_ELEMENT));
}

static const struct model *model_of(const struct layer_at *at)
{
    return at->w->f->model;
}

/* Elements of a state of the delta rule, f32, and bytes of its convolution's
** halo. */
static int64_t state_elements(const struct model *m)
{
    return num_smul(m->v_heads, num_smul(m->k_dim, m->v_dim));
}

static int64_t halo_bytes(const struct model *m)
{
    return num_smul(m->conv - 1, model_conv_channels(m) * PRICE_ELEMENT);
}

#define STAGE_TENSORS 11         /* at most, pricing.md 5 */

static void put_records(const struct layer_at *at, int64_t n_stage,
                        int64_t bytes, struct instant *t)
{
    t->term[CAT_ATTENTION_RECORDS] = bytes;
    t->records = at;
    t->n_stage = n_stage;
    t->tensors += STAGE_TENSORS * num_max(1, n_stage);
    t->large += STAGE_TENSORS * num_max(1, n_stage);
}

static void add_records(const struct instant *t, struct blocks *b)
{
    const struct layer_at *at = t->records;
    const struct price_facts *f = at->w->f;

    if (at->stage != NULL)
        (void)price_records_lse(f->model, at->stage, t->n_stage, at->own,
                                f->q_block, f->k_block, 2, b);
    else
        blocks_add(b, STAGE_TENSORS, at->records / STAGE_TENSORS);
}

/* ---- what the recompute keeps -------------------------------------------- */

/* What the published widths leave out: statistics of norms, gates and their
** sums in f32, and the adapters' rank-wide rows. */
static int64_t mixer_statistics(const struct layer_at *at)
{
    const struct model *m = model_of(at);
    int64_t rank = at->w->f->lora_rank;

    if (at->kind == LAYER_GDN)      /* beta, g, its sum, three norms, a */
        return m->v_heads * (6 * F32 + PRICE_ELEMENT)
               + 3 * rank * PRICE_ELEMENT;
    return (m->q_heads + m->kv_heads) * F32 + 4 * rank * PRICE_ELEMENT;
}

/* What the mixer saves, its norm's output and an input converted to its
** layout first. Attention: the joined projection; q, gate and the output, and
** that gated; k; q and k rotated. GDN (pricing.md 2): qkv; z, v, the output,
** normed, gated; q and k spread over the value heads; the chunk matrix. */
static void put_mixer(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t q = model_q(m), kv = model_kv(m), value = model_value(m);
    bool gdn = at->kind == LAYER_GDN;
    enum category c = gdn ? CAT_GDN : CAT_ATTENTION;

    put_act(t, c, at->converted ? 2 : 1, at->rows, m->hidden);
    put(t, c, 1, at->rows, mixer_statistics(at));
    if (gdn) {
        put_act(t, c, 1, at->rows, model_conv_channels(m));
        put_act(t, c, 5, at->rows, value);
        put_act(t, c, 2, at->rows, m->v_heads * m->k_dim);
        put_act(t, c, 1, at->rows, 64 * m->v_heads);
        put(t, c, 1, at->states, num_smul(state_elements(m), F32));
        put(t, c, 1, at->states, halo_bytes(m));
        return;
    }
    put_act(t, c, 1, at->rows, (m->attn_gate ? 2 : 1) * q + 2 * kv);
    put_act(t, c, m->attn_gate ? 5 : 3, at->rows, q);
    put_act(t, c, 2, at->rows, kv);
    put_records(at, at->n_stage, at->records, t);
}

/* Router and shared expert: scores, map, indices and weights of the top k,
** the row map or handle; its two outputs, and its rank-wide rows. */
static void put_routing(const struct layer_at *at, struct instant *t)
{
    const struct price_wave *w = at->w;
    const struct model *m = model_of(at);
    int64_t shared = w->moe[1].shared, scores = m->experts * F32;

    put(t, CAT_MOE_ROUTING, 1, at->rows, scores);
    put(t, CAT_MOE_ROUTING, 1, at->rows, num_max(0, w->routing - scores));
    put(t, CAT_MOE_ROUTING, 1, at->rows, m->top_k * (8 + 2 * F32));
    put(t, CAT_MOE_EXPERTS, 1, at->pairs, F32);
    more(t, 8);
    if (shared == 0) return;
    put(t, CAT_SHARED_EXPERT, shared / w->row, at->rows, w->row);
    put(t, CAT_SHARED_EXPERT, 1, at->rows, w->shared_state);
    put(t, CAT_SHARED_EXPERT, 1, at->rows,
        F32 + 3 * w->f->lora_rank * PRICE_ELEMENT);
}

/* ---- the experts' tensors ------------------------------------------------ */

/* Of FC1 and FC2, a pair: results of FC1 (2F wide), activations (F) and rows
** (H); and weights converted for the grouped adapters: of FC1 (a H and a 2F
** wide one), of FC2 (a F and a H wide one). */
struct experts { int64_t sums, acts, rows, up, down; };

static void list_experts(const struct layer_at *at, struct instant *t,
                         struct experts x)
{
    const struct model *m = model_of(at);
    int64_t rank = at->w->f->lora_rank;
    int64_t h = m->hidden * PRICE_ELEMENT, f = m->expert_ffn * PRICE_ELEMENT;
    int64_t unit = m->experts / at->w->f->ep * num_max(8, rank);

    list(t, x.rows, num_smul(at->pairs, h));
    list(t, x.sums, num_smul(at->pairs, 2 * f));
    list(t, x.acts, num_smul(at->pairs, f));
    more(t, 4);            /* rank-wide rows */
    if (rank == 0) return;
    list(t, x.up + x.down, num_smul(unit, h));
    list(t, x.up, num_smul(unit, 2 * f));
    list(t, x.down, num_smul(unit, f));
}

/* S5 is of the backward, which has an instant of its own. */
enum { RECOMPUTE_PEAKS = MOE_PEAKS - 1 };

/* Beside the dispatched rows, at the peaks of the stage (pricing.md 3.1, 3.2):
** FC2's sum; FC1's second product and its sum; FC2's second product and its
** return. Padded weights stand beside transposes. */
static struct experts experts_at(const struct layer_at *at, int peak)
{
    static const struct experts whole[RECOMPUTE_PEAKS] = {
        {1, 1, 3, 0, 0}, {2, 0, 0, 1, 0}, {3, 0, 0, 0, 0},
        {1, 1, 2, 0, 1}, {1, 1, 3, 0, 0}
    };
    struct experts x = whole[peak];
    int64_t rank = at->w->f->lora_rank;

    x.rows += at->w->f->ep > 1 ? 1 : 2;
    if (rank == 0 || rank >= 8 || peak == 0) return x;
    x.up++;
    if (peak > 2) x.down++;
    return x;
}

/* ---- instants ------------------------------------------------------------ */

/* The MoE of the recompute: pricing.md 3 on the pairs that the rank's experts
** are given. */
static void recompute(const struct layer_at *at, struct instant *t)
{
    const struct moe *e = &at->w->moe[1];
    int64_t routed = num_ceil_div(at->pairs, model_of(at)->top_k);
    int64_t most = 0, dispatch = 0;
    int i, peak = 0;

    for (i = 0; i < num_min(e->n, RECOMPUTE_PEAKS); i++) {
        const struct moe_peak *p = &e->peak[i];
        int64_t b = num_sadd(num_smul(routed, p->per_row - p->shared),
                             p->fixed);
        if (b <= most) continue;
        most = b;
        peak = i;
        dispatch = num_smul(routed, p->dispatch);
    }
    put_mixer(at, t);
    put_routing(at, t);
    put(t, CAT_RESIDUAL_NORM, 2, at->rows, at->w->row + F32);
    t->term[CAT_MOE_DISPATCH] = dispatch;
    t->term[CAT_MOE_EXPERTS] = num_sadd(
        t->term[CAT_MOE_EXPERTS],
        most == INT64_MAX ? most : most - dispatch);
    list_experts(at, t, experts_at(at, peak));
}

/* Bytes of a converted weight of each grouped adapter, and the padding that
** ranks below 8 keep for the backward. */
struct converted { int64_t up, down, padding; };

static struct converted converted_of(const struct layer_at *at)
{
    const struct model *m = model_of(at);
    int64_t rank = at->w->f->lora_rank, e = num_max(8, rank);
    int64_t unit = m->experts / at->w->f->ep * e * PRICE_ELEMENT;
    struct converted c = {num_smul(unit, num_max(m->hidden,
                                                 2 * m->expert_ffn)),
                          num_smul(unit, num_max(m->hidden, m->expert_ffn)),
                          0};

    if (rank == 0) return (struct converted){0, 0, 0};
    if (rank < 8)
        c.padding = num_smul(unit, m->hidden + 2 * m->expert_ffn);
    return c;
}

/* The experts' backward through FC2 with FC1's output and the activation still
** there, or through FC1. A gradient that is there already, or of a padded rank,
** is made beside it first. */
static void experts_backward(const struct layer_at *at, bool fc2,
                             struct instant *t)
{
    const struct model *m = model_of(at);
    struct converted c = converted_of(at);
    int64_t h = m->hidden, f = m->expert_ffn;
    int64_t e = at->w->f->lora_rank > 0 ? num_max(8, at->w->f->lora_rank) : 0;
    int64_t width = fc2 ? 2 * h + 5 * f + 3 * e : 3 * h + 2 * f + 2 * e;
    int64_t bytes = num_smul(at->pairs, width * PRICE_ELEMENT);
    bool padded = c.padding > 0;
    struct experts x = {1, 0, 3, padded, 0};

    put_mixer(at, t);
    put_routing(at, t);
    put(t, CAT_RESIDUAL_NORM, 3, at->rows, at->w->row + F32);
    if (!at->fresh || padded) {
        bytes = num_sadd(bytes, fc2 ? c.down : c.up);
        list(t, 1, fc2 ? c.down : c.up);
    }
    if (fc2) {
        bytes = num_sadd(bytes, c.padding / (h + 2 * f) * (f + h));
        x = (struct experts){2, 1, 2, padded, padded};
    }
    t->term[CAT_MOE_EXPERTS] = num_sadd(t->term[CAT_MOE_EXPERTS],
                                        num_sadd(bytes, c.padding));
    list_experts(at, t, x);
}

/* Beside a mixer's backward: the norm's output and the converted input; the
** layer's output; the gradient that comes in, and the one beyond the MoE. */
static void put_residual(const struct layer_at *at, struct instant *t)
{
    int64_t row = at->w->row;

    put(t, at->kind == LAYER_GDN ? CAT_GDN : CAT_ATTENTION,
        at->converted ? 2 : 1, at->rows, row);
    put(t, CAT_RESIDUAL_NORM, 1, at->out_rows, row);
    put(t, CAT_RESIDUAL_NORM, 1, at->rows, F32);
    put(t, CAT_INPUT_GRADIENT, 1, at->rows, row);
}

/* The delta rule's backward: what it read; the chunk matrix; dz and do; w, u
** and new values, dw and du; dq, dk and dv (model.md 3.12); and gradients of
** states that come back from other ranks. */
static void gdn_backward(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t states = state_elements(m);

    put_act(t, CAT_GDN, 1, at->rows, model_conv_channels(m));
    put_act(t, CAT_GDN, 6, at->rows, m->v_heads * m->k_dim);
    put_act(t, CAT_GDN, 7, at->rows, model_value(m));
    put_act(t, CAT_GDN, 1, at->rows, 64 * m->v_heads);
    put(t, CAT_GDN, 1, at->rows, mixer_statistics(at)
                                 + 2 * m->v_heads * F32);
    put_act(t, CAT_GDN, 2, at->chunks, states);
    put(t, CAT_GDN, 2, at->states, num_smul(states, F32));
    put(t, CAT_GDN, 1, at->sent, num_smul(states, F32));
    put(t, CAT_GDN, 1, at->states, halo_bytes(m));
    more(t, 16);
    put_residual(at, t);
}

/* The executor's backward: the joined projection, q and k, rotated; do, its
** f32 sum, the gate's gradient and dq; dk and dv in f32; and what is there at
** the dearest stage. */
static void attention_backward(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t q = model_q(m), kv = model_kv(m), gate = m->attn_gate ? 1 : 0;

    put_act(t, CAT_ATTENTION, 1, at->rows, (1 + gate) * q + 2 * kv);
    put_act(t, CAT_ATTENTION, 4 + gate, at->rows, q);
    put_act(t, CAT_ATTENTION, 2, at->rows, kv);
    put(t, CAT_ATTENTION, 1, at->rows, q * F32);
    put(t, CAT_ATTENTION, 2, at->rows, kv * F32);
    put(t, CAT_ATTENTION, 1, at->rows, mixer_statistics(at)
                                       + m->q_heads * F32);
    put_act(t, CAT_ATTENTION, 2, at->back.q, q);
    put(t, CAT_ATTENTION, 1, at->back.q, m->q_heads * F32);
    put(t, CAT_ATTENTION, 2, at->back.k, kv * F32);
    put(t, CAT_ATTENTION, 1, at->back.sent, 2 * kv * F32);
    more(t, 8);
    put_records(at, at->back.n_stage, at->back.records, t);
    put_residual(at, t);
}

/* ---- all of them --------------------------------------------------------- */

const struct blocks *instant_blocks(struct instant *t, int64_t base)
{
    int i;

    if (t->counted && t->blocks.base == base) return &t->blocks;
    t->counted = true;
    t->blocks = (struct blocks){.base = base};
    if (t->records != NULL) add_records(t, &t->blocks);
    for (i = 0; i < t->n; i++)
        blocks_add(&t->blocks, t->list[i].n, t->list[i].bytes);
    t->blocks.tensors += t->small;
    return &t->blocks;
}

static void open_instant(struct instant *t)
{
    memset(t->term, 0, sizeof t->term);
    t->tensors = t->large = t->small = 0;
    t->records = NULL;
    t->counted = false;
    t->n = 0;
}

void price_layer_instants(const struct layer_at *at, struct layer_instants *out)
{
    int i;

    out->made = true;
    out->pairs = at->pairs;
    out->fresh = at->fresh;
    for (i = 0; i < INSTANTS; i++) open_instant(&out->at[i]);
    recompute(at, &out->at[AT_RECOMPUTE]);
    experts_backward(at, true, &out->at[AT_FC2]);
    experts_backward(at, false, &out->at[AT_FC1]);
    if (at->kind == LAYER_GDN)
        gdn_backward(at, &out->at[AT_MIXER]);
    else
        attention_backward(at, &out->at[AT_MIXER]);
    for (i = 0; i < INSTANTS; i++)
        out->at[i].sum = price_sum(out->at[i].term);
}
