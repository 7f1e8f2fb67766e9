/*
** per_rank_any.c - every rank priced on its own rows and its own experts'
** pairs, layer by layer, at every CP and EP.
**
** The published per-rank pricing takes a rank's largest layer beside all its
** boundaries, charges every rank the busiest one's routed rows and, with EP,
** an allowance for what it does not know. Here each layer stands beside the
** boundaries that are still there when it is recomputed, and the adapter
** gradients that have appeared by then; the head stands beside all
** boundaries; and the rank that needs most is the price.
*/
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "model/param.h"
#include "price/any.h"

#define BLAS_WORKSPACE (INT64_C(32) << 20)
#define F32 4

/* ---- one layer ----------------------------------------------------------- */

/* Rows that peers fetched in a stage: as the facts say, else every peer no more
** than it attends to, nor than this rank has. */
static int64_t sent_rows(const struct price_facts *f,
                         const struct price_group *p, int64_t r, int64_t i)
{
    int64_t k, sum = 0;

    if (p->sent_rows != NULL)
        return i < p->n_sent ? p->sent_rows[r * p->n_sent + i] : 0;
    for (k = 0; k < f->cp; k++) {
        if (k == r || i >= p->n_stage[k] || p->stage[k][i].local) continue;
        sum = num_sadd(sum, num_min(p->stage[k][i].k, p->attention_rows[r]));
    }
    return sum;
}

static int64_t back_bytes(const struct model *m, const struct stage_back *b)
{
    int64_t kv = model_kv(m) * F32;
    int64_t q = 2 * model_q(m) * PRICE_ELEMENT + m->q_heads * F32;

    return num_sadd(num_sadd(b->records, num_smul(b->q, q)),
                    num_sadd(num_smul(b->k, 2 * kv),
                             num_smul(b->sent, 2 * kv)));
}

static void take_back(const struct model *m, struct stage_back x,
                      struct stage_back *dearest)
{
    if (back_bytes(m, &x) > back_bytes(m, dearest)) *dearest = x;
}

/* A stage's backward beside its records and those of the stages before it;
** then, these gone, the gradients that its keys' owners are sent. */
static void put_back(const struct price_facts *f, const struct price_group *p,
                     int64_t r, struct layer_at *at)
{
    struct stage_back x = {.n_stage = 0};
    int64_t i, all = 0;

    for (i = 0; i < f->cp; i++) all = num_max(all, p->n_stage[i]);
    at->back = x;
    for (i = 0; i < all; i++) {
        const struct stage *s = i < at->n_stage ? &at->stage[i] : NULL;
        bool works = s != NULL && s->q > 0 && s->k > 0;

        x.q = 0;
        x.k = works ? price_padded(s->k_len, f->k_block) : 0;
        x.sent = sent_rows(f, p, r, i);
        if (s == NULL || !s->local) take_back(f->model, x, &at->back);
        x.n_stage = num_min(i + 1, at->n_stage);
        x.records = price_stage_records(f->model, at->stage, x.n_stage,
                                        at->own, f->q_block, f->k_block);
        x.q = works ? price_padded(s->q_len, f->q_block) : 0;
        x.sent = 0;
        take_back(f->model, x, &at->back);
    }
}

/* The executor's records and its dearest stage. One rank keeps none. */
static void put_stages(const struct price_facts *f,
                       const struct price_group *p, int64_t r,
                       struct layer_at *at)
{
    at->back.q = at->back.k = at->rows;
    if (f->cp == 1) return;
    if (p->attention_retained != NULL) {
        at->records = at->back.records = p->attention_retained[r];
        return;
    }
    at->stage = p->stage[r];
    at->n_stage = p->n_stage[r];
    at->own = p->attention_rows[r];
    at->records = price_stage_records(f->model, at->stage, at->n_stage,
                                      at->own, f->q_block, f->k_block);
    put_back(f, p, r, at);
}

/* What layers of a kind have in common. */
static struct layer_at layers_of(const struct price_wave *w, int64_t g,
                                 int64_t r, enum layer_kind kind)
{
    const struct price_group *p = &w->f->group[g];
    struct layer_at at = {.w = w, .kind = kind, .pairs = -1,
                          .rows = price_rows_of(p, r, kind)};

    if (!w->has[kind]) return at;
    if (w->f->lora_rank > 0)
        at.padded = num_max(8, w->f->lora_rank) * PRICE_ELEMENT;
    at.unit = w->f->model->experts / w->f->ep * at.padded;
    if (kind == LAYER_ATTENTION) {
        put_stages(w->f, p, r, &at);
        return at;
    }
    at.states = p->gdn_states != NULL ? p->gdn_states[r] : at.rows > 0;
    at.sent = p->gdn_sent != NULL ? p->gdn_sent[r] : 0;
    at.chunks = p->gdn_chunks != NULL ? p->gdn_chunks[r]
                                      : num_ceil_div(at.rows, 64);
    return at;
}

static void put_layer(const struct price_facts *f, int64_t g, int64_t r,
                      int64_t layer, int64_t share, int64_t gradients,
                      struct layer_at *at)
{
    enum layer_kind in = model_input_layout(f->model, layer);
    enum layer_kind out = model_output_layout(f->model, layer);

    if (f->group[g].routed_pairs != NULL || at->pairs < 0)
        at->pairs = price_pairs_of(f, g, r, layer, share);
    at->gradients = gradients;
    at->first = layer == 0;
    at->converted = f->cp > 1 && in != at->kind;
    at->leaves = f->cp > 1 && out != at->kind;
    at->out_rows = price_rows_of(&f->group[g], r, out);
}

/* ---- one rank ------------------------------------------------------------ */

/* What is alive beside a layer: boundaries of all groups, the gradients that
** are there already being counted elsewhere; and their blocks. */
struct beside {
    bool loose;                 /* a layer had tensors as large as its rows */
    int64_t hole;               /* of what gradients leave where it had none */
    int64_t boundaries;
    struct blocks blocks, gradients;
};

/* A group's boundaries, by the layout that they come in: how many, and of
** each its bytes and block. */
struct boundary { int64_t n, bytes; struct blocks blocks; };
struct boundaries { struct boundary in[LAYER_KINDS]; };

static struct boundaries boundaries_of(const struct price_facts *f, int64_t g,
                                       int64_t r)
{
    struct boundaries b = {.in = {{.n = 0}}};
    int64_t l;

    for (l = 0; l < f->model->layers; l++) {
        struct boundary *x = &b.in[model_input_layout(f->model, l)];
        if (x->n++ > 0) continue;
        x->bytes = price_boundary(f, g, r, l);
        blocks_alike(&x->blocks, 1, x->bytes);
        blocks_repeat(&x->blocks);
    }
    return b;
}

static void add_boundaries(const struct price_facts *f, int64_t g, int64_t r,
                           struct beside *b)
{
    struct boundaries of = boundaries_of(f, g, r);
    int k;

    for (k = 0; k < LAYER_KINDS; k++) {
        const struct boundary *x = &of.in[k];
        b->boundaries = num_sadd(b->boundaries, num_smul(x->n, x->bytes));
        blocks_join_all(&b->blocks, x->n, &x->blocks);
    }
}

/* Weights converted for the grouped adapters, of at least 8 columns, and
** gradients of earlier waves and layers are what other tensors fall between. */
static void add_adapters(const struct price_facts *f, struct beside *b)
{
    int64_t unit = f->model->experts / f->ep * PRICE_ELEMENT, width[3], i;

    if (f->lora_rank == 0) return;
    for (i = 0; i < price_adapter_widths(f->model, width); i++) {
        blocks_grain(&b->blocks, num_smul(unit * f->lora_rank, width[i]));
        blocks_grain(&b->blocks, num_smul(unit * num_max(8, f->lora_rank),
                                          width[i]));
    }
    b->hole = num_smul(unit * f->lora_rank, f->model->expert_ffn);
}

/* Of all groups but one; -1: of all. */
static struct beside beside_but(const struct price_facts *f, int64_t r,
                                int64_t but)
{
    struct beside b = {.boundaries = 0};
    int64_t g;

    for (g = 0; g < f->n_group; g++)
        if (g != but) add_boundaries(f, g, r, &b);
    add_adapters(f, &b);
    return b;
}

/* ---- several groups ------------------------------------------------------ */

static int64_t pending_sum(const struct price_facts *f, const int64_t *p)
{
    int64_t i, sum = 0;

    for (i = 0; p != NULL && i <= f->model->layers; i++)
        sum = num_sadd(sum, p[i]);
    return sum;
}

static bool same_slot(const struct price_facts *f, int64_t a, int64_t b)
{
    return strcmp(f->group[a].slot, f->group[b].slot) == 0;
}

/* ---- layer by layer ------------------------------------------------------ */

/* The dearest instants so far of one rank, by kind of layer. */
struct dearest { int64_t bytes[LAYER_KINDS]; };

/* An instant's blocks and what is beside it. Where base divides all that is
** large and none of it comes with rows, here and in the layers before, the
** gradients lie in segments of their own. Else one that has the grain of all
** that stays falls into a hole that has it, but for those beside tensors that
** have not: into no more of a layer than there are of these. */
static struct blocks blocks_at(struct instant *t, const struct beside *b,
                               int64_t incoming)
{
    bool alone = !b->loose && incoming <= LARGE_BLOCK;
    int64_t grain = blocks_base(&b->blocks);
    int64_t base = alone || grain > LARGE_BLOCK ? grain : 0;
    struct blocks all = *instant_blocks(t, base, 0), gradients = b->gradients;
    bool regular = alone && base > 0 && all.odd == 0;

    if (regular && base <= LARGE_BLOCK) all = *instant_blocks(t, base, b->hole);
    blocks_join(&all, &b->blocks);
    blocks_add(&all, 1, incoming);
    if (regular)
        blocks_pack(&gradients);
    else if (base > LARGE_BLOCK)
        blocks_part(&gradients, all.odd, LARGE_GRADIENTS);
    blocks_join(&all, &gradients);
    return all;
}

/* An instant with what is beside it, where that is dearer. */
static void finish(struct instant *t, const struct beside *b, int64_t incoming,
                   int64_t above, int64_t *dearest, int64_t term[CAT_COUNT])
{
    int64_t gradients = num_sadd(above, t->gradients);
    int64_t bytes = num_sadd(num_sadd(t->sum, gradients),
                             num_sadd(b->boundaries, incoming));
    struct blocks all;
    int64_t slack = blocks_most(
        t->tensors + b->blocks.tensors + b->gradients.tensors + 1,
        t->large + b->blocks.large + b->gradients.large + 1);

    if (num_sadd(bytes, slack) <= *dearest) return;
    all = blocks_at(t, b, incoming);
    slack = blocks_slack(&all, bytes);
    bytes = num_sadd(bytes, slack);
    if (bytes <= *dearest) return;
    *dearest = bytes;
    memcpy(term, t->term, sizeof t->term);
    term[CAT_BOUNDARIES] = b->boundaries;
    term[CAT_INPUT_GRADIENT] = num_sadd(term[CAT_INPUT_GRADIENT], incoming);
    term[CAT_ADAPTER_GRADIENTS] = gradients;
    term[CAT_ROUNDING] = slack;
}

/* What layers of a group hold, made once for those that are alike: by kind,
** whether the input is converted, and the output's layout. */
struct alike {
    struct layer_at at[LAYER_KINDS];
    struct layer_instants made[LAYER_KINDS][2][LAYER_KINDS];
};

static struct layer_instants *instants_of(struct alike *x,
                                          const struct price_wave *w,
                                          int64_t g, int64_t r, int64_t layer,
                                          int64_t own)
{
    const struct model *m = w->f->model;
    enum layer_kind kind = m->kind[layer];
    struct layer_at *at = &x->at[kind];
    struct layer_instants *i;

    put_layer(w->f, g, r, layer, w->share, own, at);
    i = &x->made[kind][at->converted][model_output_layout(m, layer)];
    if (!i->made || i->pairs != at->pairs || i->gradients != own ||
        i->first != at->first)
        price_layer_instants(at, i);
    return i;
}

static void forget(struct alike *x)
{
    int k, c, o;

    for (k = 0; k < LAYER_KINDS; k++)
        for (c = 0; c < 2; c++)
            for (o = 0; o < LAYER_KINDS; o++) x->made[k][c][o].made = false;
}

/* Can any of a layer's instants be dearer, with what is beside them at most,
** its own gradients among it? */
static bool may_bind(const struct layer_instants *at, const struct beside *b,
                     const struct blocks *own, int64_t incoming, int64_t above,
                     int64_t dearest)
{
    int64_t bytes = num_sadd(num_sadd(at->most, above),
                             num_sadd(b->boundaries, incoming));
    int64_t slack = blocks_most(
        b->blocks.tensors + b->gradients.tensors + own->tensors + 1,
        b->blocks.large + b->gradients.large + own->large + 1);

    return num_sadd(bytes, slack) > dearest;
}

/* The group's layers from the last one down; above: gradients that are there
** when it begins. */
static void walk_layers(const struct price_wave *w, int64_t g, int64_t r,
                        const int64_t *pending, int64_t above,
                        struct beside b, struct alike *x, struct dearest *d,
                        struct price_rank *out)
{
    const struct price_facts *f = w->f;
    struct blocks gradients = price_gradient_blocks(f, g, r);
    struct boundaries of = boundaries_of(f, g, r);
    const struct blocks none = {.tensors = 0};
    int64_t l;
    bool binds;
    int i;

    for (l = f->model->layers - 1; l >= 0; l--) {
        enum layer_kind kind = f->model->kind[l];
        int64_t own = pending != NULL ? pending[l] : 0, incoming;
        const struct boundary *saved = &of.in[model_input_layout(f->model, l)];
        struct layer_instants *at = instants_of(x, w, g, r, l, own);

        b.loose = b.loose || at->loose || w->f->lora_rank < 8;
        incoming = num_smul(x->at[kind].out_rows, w->row);
        binds = may_bind(at, &b, own > 0 ? &gradients : &none, incoming, above,
                         d->bytes[kind]);
        for (i = 0; i < (binds ? at->n : 0); i++) {
            if (i == AT_FC2 && own > 0) blocks_join(&b.gradients, &gradients);
            finish(&at->at[i], &b, incoming, above, &d->bytes[kind],
                   out->term[kind]);
        }
        if (!binds && own > 0) blocks_join(&b.gradients, &gradients);
        above = num_sadd(above, own);
        b.boundaries -= saved->bytes;
        blocks_drop(&b.blocks, &saved->blocks);
    }
}

/* Groups run one after another, in any order. A slot's gradients appear once,
** in the first of its groups. The worst order for a group runs other slots
** first, where they leave more behind than the boundaries that they free; a
** group of the same slot may also have come before. */
static void rank_layers(const struct price_wave *w, int64_t r,
                        const struct beside *b,
                        const struct adapter_left *behind,
                        struct price_rank *out)
{
    const struct price_facts *f = w->f;
    struct dearest d = {{0, 0}};
    struct alike x;
    int64_t g, o;

    for (g = 0; g < f->n_group; g++) {
        const int64_t *pending = price_pending(f, g);
        int64_t left = price_left_for(behind, g);
        int64_t all = num_sadd(left, pending_sum(f, pending));

        if (pending != NULL)
            left = num_sadd(left, pending[f->model->layers]);
        forget(&x);
        x.at[LAYER_ATTENTION] = layers_of(w, g, r, LAYER_ATTENTION);
        x.at[LAYER_GDN] = layers_of(w, g, r, LAYER_GDN);
        walk_layers(w, g, r, pending, left, *b, &x, &d, out);
        for (o = 0; pending != NULL && o < f->n_group; o++) {
            struct beside after;
            if (o == g || !same_slot(f, o, g)) continue;
            after = beside_but(f, r, o);
            walk_layers(w, g, r, NULL, all, after, &x, &d, out);
        }
    }
}

/* Gradients that are there when a group's head runs (pricing.md 8). */
static int64_t gradients_at_head(const struct price_facts *f,
                                 const struct adapter_left *behind)
{
    int64_t g, most = 0;

    for (g = 0; g < f->n_group; g++) {
        const int64_t *pending = price_pending(f, g);
        int64_t own = pending != NULL ? pending[f->model->layers] : 0;

        assert(f->group[g].grad);       /* refuses_any */
        most = num_max(most, num_sadd(own, price_left_for(behind, g)));
    }
    return most;
}

int64_t price_head_chunk(const struct price_facts *f, int64_t rows)
{
    return num_min(HEAD_CHUNK, num_min(f->head_rows, rows));
}

/* The head's backward beside all boundaries: its input, the norm's output and
** its gradient; of one chunk the rows, gathered where not all are labelled,
** their gradient, and three buffers of logits (pricing.md 10). */
static void rank_head(const struct price_wave *w, int64_t r,
                      const struct beside *b, int64_t at_head,
                      int64_t term[CAT_COUNT])
{
    const struct price_facts *f = w->f;
    int64_t rows = 0, all = 0, chunk, gathered, logits, g, i;
    struct blocks alike = {.tensors = 0}, blocks = b->blocks;

    for (g = 0; g < f->n_group; g++) {
        rows = num_max(rows, f->group[g].attention_rows[r]);
        for (i = 0; i < f->cp; i++)
            all = num_sadd(all, f->group[g].attention_rows[i]);
    }
    chunk = price_head_chunk(f, rows);
    logits = num_smul(chunk, f->model->vocab * PRICE_ELEMENT);
    memset(term, 0, CAT_COUNT * sizeof *term);
    term[CAT_BOUNDARIES] = b->boundaries;
    term[CAT_ADAPTER_GRADIENTS] = at_head;
    term[CAT_HEAD] = num_sadd(num_smul(rows, 3 * w->row + F32),
                              num_smul(3, logits));
    gathered = f->head_rows < all ? 2 : 1;
    term[CAT_HEAD] = num_sadd(term[CAT_HEAD],
                              num_smul(chunk, gathered * w->row));
    blocks_alike(&alike, 3, num_smul(rows, w->row));
    blocks_alike(&alike, gathered, num_smul(chunk, w->row));
    blocks_repeat(&alike);
    blocks_join(&blocks, &alike);
    blocks_fresh(&blocks, 3, logits);
    term[CAT_ROUNDING] = blocks_slack(&blocks, price_sum(term));
}

/* What stands beside every instant: outputs, the rows' state, and on a cold
** wave the GEMMs' workspaces and the rotary table. */
static void put_common(const struct price_wave *w, int64_t r,
                       int64_t term[CAT_COUNT])
{
    const struct price_facts *f = w->f;
    const struct model *m = f->model;
    int64_t g, rows = 0;

    for (g = 0; g < f->n_group; g++)
        rows = num_sadd(rows, f->group[g].attention_rows[r]);
    term[CAT_OUTPUTS] = f->output_bytes;
    term[CAT_HYBRIDEP] = price_hybridep_growth(f);
    term[CAT_OTHER] = num_sadd(term[CAT_OTHER],
                               num_smul(rows, ROW_STATE
                                              + m->rotary_dim * F32));
    if (w->cold == 0) return;
    term[CAT_WORKSPACE] = w->te + BLAS_WORKSPACE
        + m->max_positions * (m->rotary_dim / 2) * F32;
}

/* ---- all ranks ----------------------------------------------------------- */

static void take(const int64_t term[CAT_COUNT], int64_t rank, bool head,
                 enum layer_kind kind, struct estimate *out)
{
    int64_t bytes = price_sum(term);

    out->rank[rank].total = num_max(out->rank[rank].total, bytes);
    if (bytes <= out->raw) return;
    out->raw = bytes;
    out->binding_rank = rank;
    out->binding_mixer = kind;
    out->head_binds = head;
    memcpy(out->term, term, sizeof out->term);
}

/* One rank: its layers, and its head beside what others leave. */
static void price_rank_any(const struct price_wave *w, int64_t r,
                           struct estimate *out)
{
    struct price_rank *p = &out->rank[r];
    struct beside b = beside_but(w->f, r, -1);
    struct adapter_left behind;
    int64_t head[CAT_COUNT];
    int k;

    p->boundaries = b.boundaries;
    price_left_make(w->f, r, &behind);
    rank_layers(w, r, &b, &behind, p);
    for (k = 0; k < LAYER_KINDS; k++) {
        if (!w->has[k]) continue;
        put_common(w, r, p->term[k]);
        take(p->term[k], r, false, (enum layer_kind)k, out);
    }
    p->attention_retained = p->term[LAYER_ATTENTION][CAT_ATTENTION_RECORDS];
    if (w->f->head_rows == 0) return;
    rank_head(w, r, &b, gradients_at_head(w->f, &behind), head);
    put_common(w, r, head);
    take(head, r, true, LAYER_ATTENTION, out);
}

static bool refuses_any(const struct price_facts *f, char reason[160])
{
    if (f->model->experts == 0)
        snprintf(reason, 160, "dense model: kept-rank prices each rank of one");
    else if (f->cp % f->ep != 0)
        snprintf(reason, 160, "EP%lld CP%lld: ranks that share experts are "
                 "others than the wave's", (long long)f->ep,
                 (long long)f->cp);
    else if (f->mode.eager)
        snprintf(reason, 160, "not compiled: operators are priced as fused");
    else
        return price_refuses_layouts(f, reason);
    return true;
}

/* What is not covered has the busiest rank's bytes, where that one has any. */
static int not_covered(const struct price_facts *f, struct estimate *out,
                       struct err *e)
{
    int rc = price_busiest_rank(f, out, e);

    if (rc != ERR_OK) return rc;
    snprintf(out->name, sizeof out->name, PRICE_PER_RANK_ANY);
    if (out->priced && refuses_any(f, out->reason)) out->supported = false;
    return ERR_OK;
}

int price_per_rank_any(const struct price_facts *f, struct estimate *out,
                       struct err *e)
{
    struct price_wave w;
    char reason[160];
    int64_t r;
    int rc = price_check(f, e);

    if (rc != ERR_OK) return rc;
    if (price_refuses(f, reason) || refuses_any(f, reason))
        return not_covered(f, out, e);
    price_wave_make(f, PRICE_NO_ALLOWANCE, &w);
    if (price_lacks_stages(&w, e)) return ERR_INPUT;
    if (f->load_cv > 0) w.share = price_share_quantile(f, f->load_cv);
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, PRICE_PER_RANK_ANY);
    out->supported = out->priced = true;
    out->n_rank = f->cp;
    for (r = 0; r < f->cp; r++) price_rank_any(&w, r, out);
    out->admitted = num_sadd(out->raw, out->raw / 10);
    return out->admitted == INT64_MAX ? price_too_big(f, e) : ERR_OK;
}
