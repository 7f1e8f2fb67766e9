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
#define I32 4

/* n tensors that are alive. */
static void list(struct instant *t, int64_t n, int64_t bytes)
{
    assert(t->n < INSTANT_LIST);
    t->tensors += n;
    t->large += bytes > LARGE_BLOCK ? n : 0;
    t->list[t->n++] = (struct alive){n, bytes};
}

/* Whose size rows or pairs make. */
static void list_rows(struct instant *t, int64_t n, int64_t bytes)
{
    list(t, n, bytes);
    if (bytes > LARGE_BLOCK) t->loose += n;
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
    list_rows(t, n, bytes);
}

/* Of states, or of rows that the kernel pads to whole blocks. */
static void put_whole(struct instant *t, enum category c, int64_t n,
                      int64_t rows, int64_t width)
{
    int64_t loose = t->loose;

    put(t, c, n, rows, width);
    t->loose = loose;
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

/* n tensors of f32 numbers, so many of the heads' a row. */
static void put_heads(struct instant *t, enum category c, int64_t n,
                      int64_t rows, int64_t heads)
{
    put(t, c, n, rows, num_smul(heads, F32));
}

/* The adapters' rank-wide rows, of n of them. */
static void put_ranks(const struct layer_at *at, enum category c, int64_t n,
                      struct instant *t)
{
    put_act(t, c, n, at->rows, at->w->f->lora_rank);
}

/* What its convolution keeps of each row, an i32 which segment's it is and one
** where in it, and the decay's factor of each head. */
static void put_gdn_marks(const struct layer_at *at, struct instant *t)
{
    put(t, CAT_GDN, 2, at->rows, I32);
    put_act(t, CAT_GDN, 1, 1, model_of(at)->v_heads);
}

/* What the gated delta net saves (pricing.md 2): qkv; z, v, the output, normed,
** gated; q and k spread over the value heads; the chunk matrix. In f32 three
** norms, a and the sum of g; beta, twice; a mask; and what it began with. */
static void put_gdn(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);

    put_act(t, CAT_GDN, 1, at->rows, model_conv_channels(m));
    put_act(t, CAT_GDN, 5, at->rows, model_value(m));
    put_act(t, CAT_GDN, 2, at->rows, m->v_heads * m->k_dim);
    put_act(t, CAT_GDN, 1, at->rows, 64 * m->v_heads);
    put_heads(t, CAT_GDN, 5, at->rows, m->v_heads);
    put_act(t, CAT_GDN, 2, at->rows, m->v_heads);
    put(t, CAT_GDN, 1, at->rows, 1);
    put_gdn_marks(at, t);
    put_ranks(at, CAT_GDN, 3, t);
    put_whole(t, CAT_GDN, 1, at->states, num_smul(state_elements(m), F32));
    put(t, CAT_GDN, 1, at->states, halo_bytes(m));
}

/* What a mixer saves, its norm's output and statistics and an input converted
** to its layout first. Attention: the joined projection; q, gate and the
** output, and that gated; k; q and k rotated; two norms; records. */
static void put_mixer(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t q = model_q(m), kv = model_kv(m);
    enum category c = at->kind == LAYER_GDN ? CAT_GDN : CAT_ATTENTION;

    put_act(t, c, at->converted ? 2 : 1, at->rows, m->hidden);
    put(t, c, 1, at->rows, F32);
    if (at->kind == LAYER_GDN) {
        put_gdn(at, t);
        return;
    }
    put_act(t, c, 1, at->rows, (m->attn_gate ? 2 : 1) * q + 2 * kv);
    put_act(t, c, m->attn_gate ? 5 : 3, at->rows, q);
    put_act(t, c, 2, at->rows, kv);
    put_heads(t, c, 1, at->rows, m->q_heads);
    put_heads(t, c, 1, at->rows, m->kv_heads);
    put_ranks(at, c, 4, t);
    put_records(at, at->n_stage, at->records, t);
}

/* Router and shared expert: scores, map, indices and weights of the top k,
** the row map or handle; its output, if a gate takes it, and its rank-wide
** rows. */
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
    put(t, CAT_SHARED_EXPERT, shared / w->row - 1, at->rows, w->row);
    put(t, CAT_SHARED_EXPERT, 1, at->rows, w->shared_state);
    put(t, CAT_SHARED_EXPERT, 1, at->rows,
        F32 + 3 * w->f->lora_rank * PRICE_ELEMENT);
}

/* ---- the experts' tensors ------------------------------------------------ */

/* Of FC1 and FC2, a pair: results of FC1 (2F wide), activations (F) and rows
** (H), and the adapters' (e wide); weights converted for the grouped adapters:
** of FC1 (a H and a 2F wide one), of FC2 (a F and a H wide one); and of a
** gradient that is made apart how many H and F it is wide. */
struct experts { int64_t sums, acts, rows, ranks, up, down, h, f; };

static void list_experts(const struct layer_at *at, struct instant *t,
                         struct experts x)
{
    const struct model *m = model_of(at);
    int64_t h = m->hidden, f = m->expert_ffn, unit = at->unit;

    list_rows(t, x.rows, num_smul(at->pairs, h * PRICE_ELEMENT));
    list_rows(t, x.sums, num_smul(at->pairs, 2 * f * PRICE_ELEMENT));
    list_rows(t, x.acts, num_smul(at->pairs, f * PRICE_ELEMENT));
    list_rows(t, x.ranks, num_smul(at->pairs, at->padded));
    list(t, x.up + x.down, num_smul(unit, h));
    list(t, x.up, num_smul(unit, 2 * f));
    list(t, x.down, num_smul(unit, f));
    list(t, x.h + x.f > 0, num_smul(unit, x.h * h + x.f * f));
}

static int64_t experts_bytes(const struct layer_at *at, struct experts x)
{
    const struct model *m = model_of(at);
    int64_t h = m->hidden, f = m->expert_ffn;
    int64_t pair = (x.rows * h + (2 * x.sums + x.acts) * f) * PRICE_ELEMENT
                   + x.ranks * at->padded;
    int64_t wide = (x.up + x.down + x.h) * h
                   + (2 * x.up + x.down + x.f) * f;

    return num_sadd(num_smul(at->pairs, pair),
                    num_smul(at->unit, wide));
}

/* S5 is of the backward, which has an instant of its own. */
enum { RECOMPUTE_PEAKS = MOE_PEAKS - 1 };

/* Beside the dispatched rows, at the peaks of the stage (pricing.md 3.1, 3.2):
** FC2's sum; FC1's second product and its sum; FC2's second product and its
** return. Padded weights stand beside transposes. */
static struct experts experts_at(const struct layer_at *at, int peak)
{
    static const struct experts whole[RECOMPUTE_PEAKS] = {
        {1, 1, 3, 2, 0, 0, 0, 0}, {2, 0, 0, 1, 1, 0, 0, 0},
        {3, 0, 0, 1, 0, 0, 0, 0}, {1, 1, 2, 2, 0, 1, 0, 0},
        {1, 1, 3, 2, 0, 0, 0, 0}
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

/* What stands beside the experts' work: the mixer's, the MoE's and the norms'
** of the residual. */
static void put_beside_experts(const struct layer_at *at, struct instant *t)
{
    put_mixer(at, t);
    put_routing(at, t);
    put(t, CAT_RESIDUAL_NORM, 2, at->rows, at->w->row);
    put(t, CAT_RESIDUAL_NORM, 1, at->rows, F32);
}

/* The MoE of the recompute: pricing.md 3 on the pairs that the rank's experts
** are given. Of a shared expert with a gate there are two outputs. */
static void recompute(const struct layer_at *at, struct instant *t)
{
    const struct moe *e = &at->w->moe[1];
    int64_t top_k = model_of(at)->top_k, most = 0, dispatch = 0;
    int i, peak = 0;

    for (i = 0; i < num_min(e->n, RECOMPUTE_PEAKS); i++) {
        const struct moe_peak *p = &e->peak[i];
        int64_t b = num_sadd(num_smul(at->pairs,
                                      (p->per_row - p->shared) / top_k),
                             p->fixed);
        if (b <= most) continue;
        most = b;
        peak = i;
        dispatch = num_smul(at->pairs, p->dispatch / top_k);
    }
    put(t, CAT_SHARED_EXPERT, e->shared > 0, at->rows, at->w->row);
    t->term[CAT_MOE_DISPATCH] = dispatch;
    t->term[CAT_MOE_EXPERTS] = num_sadd(
        t->term[CAT_MOE_EXPERTS],
        most == INT64_MAX ? most : most - dispatch);
    list_experts(at, t, experts_at(at, peak));
}

/* The experts' backward through FC2, with FC1's output and the activation
** still there, or through FC1: as each of the adapter's gradients is made
** apart, which one of a padded rank is, and one that is there already; as the
** adapter's share of dx appears, and as the base's does beside it. */
enum { BACKWARD_PEAKS = 4 };
static const struct experts backward_peaks[2][BACKWARD_PEAKS] = {
    {{1, 0, 1, 2, 1, 0, 0, 2}, {1, 0, 1, 1, 1, 0, 1, 0},
     {1, 0, 2, 1, 1, 0, 0, 0}, {1, 0, 3, 0, 0, 0, 0, 0}},
    {{1, 1, 2, 3, 1, 1, 1, 0}, {1, 1, 2, 2, 1, 1, 0, 1},
     {1, 2, 2, 2, 1, 1, 0, 0}, {1, 3, 2, 1, 1, 0, 0, 0}}
};

/* The dearest of them beside what the mixer and the MoE keep. */
static void experts_backward(const struct layer_at *at, bool fc2,
                             struct instant *t)
{
    int64_t rank = at->w->f->lora_rank, most = -1;
    bool padded = rank > 0 && rank < 8, apart = at->gradients == 0 || padded;
    struct experts dearest = {0};
    int i;

    for (i = 0; i < BACKWARD_PEAKS; i++) {
        struct experts x = backward_peaks[fc2][i];
        if (!padded) x.up = x.down = 0;
        if (!apart) x.h = x.f = 0;
        if (experts_bytes(at, x) <= most) continue;
        most = experts_bytes(at, x);
        dearest = x;
    }
    put(t, CAT_INPUT_GRADIENT, at->leaves, at->rows, at->w->row);
    t->term[CAT_MOE_EXPERTS] = num_sadd(t->term[CAT_MOE_EXPERTS], most);
    list_experts(at, t, dearest);
}

/* Beside a mixer's backward: the norm's output and statistics, the converted
** input; and the gradient that comes out of the MoE. */
static void put_residual(const struct layer_at *at, struct instant *t)
{
    enum category c = at->kind == LAYER_GDN ? CAT_GDN : CAT_ATTENTION;

    put(t, c, at->converted ? 2 : 1, at->rows, at->w->row);
    put(t, c, 1, at->rows, F32);
    put(t, CAT_INPUT_GRADIENT, 1, at->rows, at->w->row);
}

/* The delta rule's backward: what it read; the chunk matrix; dz and do; w, u
** and new values, dw and du; dq, dk and dv (model.md 3.12); in f32 two norms,
** a, the sum of g, beta, dg and dbeta; beta, twice; and gradients of states
** that come back from other ranks. */
static void gdn_backward(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t states = state_elements(m);

    put_act(t, CAT_GDN, 1, at->rows, model_conv_channels(m));
    put_act(t, CAT_GDN, 6, at->rows, m->v_heads * m->k_dim);
    put_act(t, CAT_GDN, 7, at->rows, model_value(m));
    put_act(t, CAT_GDN, 1, at->rows, 64 * m->v_heads);
    put_gdn_marks(at, t);
    put_heads(t, CAT_GDN, 7, at->rows, m->v_heads);
    put_act(t, CAT_GDN, 2, at->rows, m->v_heads);
    put_ranks(at, CAT_GDN, 2, t);
    put_whole(t, CAT_GDN, 2, at->chunks, num_smul(states, PRICE_ELEMENT));
    put_whole(t, CAT_GDN, 2, at->states, num_smul(states, F32));
    put_whole(t, CAT_GDN, 1, at->sent, num_smul(states, F32));
    put(t, CAT_GDN, 1, at->states, halo_bytes(m));
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
    put_heads(t, CAT_ATTENTION, 2, at->rows, m->q_heads);
    put_heads(t, CAT_ATTENTION, 1, at->rows, m->kv_heads);
    put_ranks(at, CAT_ATTENTION, 3, t);
    put_whole(t, CAT_ATTENTION, 2, at->back.q, q * PRICE_ELEMENT);
    put(t, CAT_ATTENTION, 1, at->back.q, m->q_heads * F32);
    put_whole(t, CAT_ATTENTION, 2, at->back.k, kv * F32);
    put(t, CAT_ATTENTION, 1, at->back.sent, 2 * kv * F32);
    put_records(at, at->back.n_stage, at->back.records, t);
    put_residual(at, t);
}

/* The first projections' backward: the joined gradient, of it the last part,
** scaled for its adapter, or the base's dx, beside the adapters'. */
static void projections_backward(const struct layer_at *at, struct instant *t)
{
    const struct model *m = model_of(at);
    int64_t value = model_value(m), kv = model_kv(m);
    bool gdn = at->kind == LAYER_GDN;
    int64_t joined = gdn ? model_conv_channels(m) + value + 2 * m->v_heads
                         : (m->attn_gate ? 2 : 1) * model_q(m) + 2 * kv;
    enum category c = gdn ? CAT_GDN : CAT_ATTENTION;

    put_act(t, c, 1, at->rows, joined);
    put_act(t, c, 1, at->rows, m->hidden);
    put_act(t, c, 1, at->rows, num_max(m->hidden, gdn ? value : kv));
    put_ranks(at, c, 2, t);
    put_residual(at, t);
}

/* ---- gradients ----------------------------------------------------------- */

/* Of an adapter of so many columns in and out. */
static int64_t gradient_bytes(const struct price_facts *f, int64_t widths)
{
    return num_smul(f->lora_rank * PRICE_ELEMENT, widths);
}

/* Of a layer's own, all bytes that appear, those that are there at each
** instant. */
static void gradients_at(const struct layer_at *at, int64_t there[INSTANTS])
{
    const struct price_facts *f = at->w->f;
    const struct model *m = f->model;
    int64_t h = m->hidden, ffn = m->expert_ffn, el = m->experts / f->ep;
    int64_t fc2 = el * (h + ffn), experts = fc2 + el * (h + 2 * ffn);
    int64_t shared = m->shared_ffn > 0 ? 3 * (h + m->shared_ffn) : 0;
    int64_t own = at->gradients;
    bool gdn = at->kind == LAYER_GDN;
    int64_t out = h + (gdn ? model_value(m) : model_q(m));
    int64_t in = gdn ? 2 * h + model_conv_channels(m) + model_value(m)
                     : 3 * h + (m->attn_gate ? 2 : 1) * model_q(m)
                       + 2 * model_kv(m);

    there[AT_RECOMPUTE] = 0;
    there[AT_FC2] = num_min(own, gradient_bytes(f, fc2));
    there[AT_FC1] = num_min(own, gradient_bytes(f, experts));
    there[AT_MIXER] = there[AT_PROJECTIONS] = own;
    if (own == gradient_bytes(f, experts + shared + out + in))
        there[AT_MIXER] = gradient_bytes(f, experts + shared + out);
}

/* ---- all of them --------------------------------------------------------- */

const struct blocks *instant_blocks(struct instant *t, int64_t base,
                                    int64_t hole)
{
    int i;

    if (t->counted && t->blocks.base == base && t->blocks.hole == hole)
        return &t->blocks;
    t->counted = true;
    t->blocks = (struct blocks){.base = base, .hole = hole};
    if (t->records != NULL) add_records(t, &t->blocks);
    for (i = 0; i < t->n; i++)
        blocks_add(&t->blocks, t->list[i].n, t->list[i].bytes);
    t->blocks.tensors += t->small;
    return &t->blocks;
}

static void open_instant(struct instant *t)
{
    memset(t->term, 0, sizeof t->term);
    t->tensors = t->large = t->loose = t->small = 0;
    t->records = NULL;
    t->counted = false;
    t->n = 0;
}

/* Its sum; and no more is it ever worth. */
static int64_t close_instant(struct instant *t, int64_t gradients)
{
    t->sum = price_sum(t->term);
    t->gradients = gradients;
    return num_sadd(num_sadd(t->sum, gradients),
                    blocks_most(t->tensors, t->large));
}

void price_layer_instants(const struct layer_at *at, struct layer_instants *out)
{
    int64_t there[INSTANTS];
    int i;

    out->made = true;
    out->first = at->first;
    out->pairs = at->pairs;
    out->gradients = at->gradients;
    out->n = at->first ? INSTANTS : AT_PROJECTIONS;
    open_instant(&out->at[AT_RECOMPUTE]);
    put_beside_experts(at, &out->at[AT_RECOMPUTE]);
    out->at[AT_FC2] = out->at[AT_FC1] = out->at[AT_RECOMPUTE];
    recompute(at, &out->at[AT_RECOMPUTE]);
    experts_backward(at, true, &out->at[AT_FC2]);
    experts_backward(at, false, &out->at[AT_FC1]);
    open_instant(&out->at[AT_MIXER]);
    if (at->kind == LAYER_GDN)
        gdn_backward(at, &out->at[AT_MIXER]);
    else
        attention_backward(at, &out->at[AT_MIXER]);
    if (at->first) {
        open_instant(&out->at[AT_PROJECTIONS]);
        projections_backward(at, &out->at[AT_PROJECTIONS]);
    }
    gradients_at(at, there);
    out->most = 0;
    out->loose = false;
    for (i = 0; i < out->n; i++) {
        out->most = num_max(out->most, close_instant(&out->at[i], there[i]));
        out->loose = out->loose || out->at[i].loose > 0;
    }
}
