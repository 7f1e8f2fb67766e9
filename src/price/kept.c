/*
** kept.c - "kept-rank": what each rank keeps of a dense model's wave in every
** recompute mode, tensor by tensor, and the largest workspace beside it.
**
** The operators are those of the traced software as evidence.md lists them
** (section numbers are evidence.md's); written from that list, not from the
** step's code. Two of it were inferred from cells whose sizes leave no
** remainder: the delta rule keeps the index of its rows, and a forward holds
** its token ids, 8 B a row each. A tensor counts as a block of the allocator:
** rounded up to 512 B. Blocks that are cut from larger ones leave remainders
** that are too small to split off; they are priced as one term (unsplit).
*/
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "price/internal.h"
#include "price/slack.h"

#define REAL 4                  /* bytes of an f32 number */
#define INDEX 8                 /* of a row's or a segment's index */

/* A plain GEMM's workspace and a BLAS handle, which the first forward
** allocates; and the handle of the thread that runs backward (1). */
#define COLD_FORWARD (2 * ((int64_t)32 << 20) + 1024)
#define COLD_BACKWARD ((int64_t)32 << 20)

/* What one layer, or all of them, keep. */
struct kept {
    int64_t term[CAT_COUNT];    /* bytes of blocks */
    int64_t own;                /* tensors with a segment of their own */
    int64_t grain;              /* of the sizes of all large tensors */
    int64_t left;               /* remainders beside states */
};

/* One rank of a wave. Widths are bytes a row times tp. */
struct rank {
    const struct price_facts *f;
    const struct model *m;
    int64_t rows[LAYER_KINDS];  /* of its layouts */
    int64_t executed;           /* rows that its delta rule runs */
    int64_t segments;
    int64_t records;            /* of one attention layer; 0: not kept */
    int64_t tp;
    bool parallel;              /* norms and residuals are divided over tp */
    bool fused;                 /* SwiGLU */
    int64_t hidden, whole;      /* a divided, and a whole hidden row */
    int64_t ffn, q, kv, key, value;
};

/* ---- modes (2) ----------------------------------------------------------- */

static bool keeps_mixers(const struct price_facts *f)
{
    return f->mode.recompute != RECOMPUTE_FULL;
}

static bool runs_again(const struct price_facts *f, unsigned module)
{
    return f->mode.recompute == RECOMPUTE_SELECTIVE &&
           (f->mode.modules & module) != 0;
}

static bool keeps_mlps(const struct price_facts *f)
{
    return keeps_mixers(f) && !runs_again(f, MODULE_MLP);
}

static bool keeps_records(const struct price_facts *f)
{
    return f->cp > 1 && keeps_mixers(f) && !runs_again(f, MODULE_CORE_ATTN);
}

/* ---- tensors ------------------------------------------------------------- */

static int64_t bytes_of(const struct rank *r, int64_t width, int64_t rows)
{
    int64_t bytes = num_smul(width, rows);

    return bytes == INT64_MAX ? bytes : num_ceil_div(bytes, r->tp);
}

static int64_t block_of(const struct rank *r, int64_t width, int64_t rows)
{
    int64_t bytes = bytes_of(r, width, rows);

    return bytes > INT64_MAX - SMALLEST_BLOCK
           ? INT64_MAX : num_round_up(bytes, SMALLEST_BLOCK);
}

static void add(struct kept *k, enum category c, int64_t bytes)
{
    k->term[c] = num_sadd(k->term[c], bytes);
}

static void keep(const struct rank *r, struct kept *k, enum category c,
                 int64_t width, int64_t rows)
{
    int64_t bytes = block_of(r, width, rows);

    add(k, c, bytes);
    if (bytes > LARGE_BLOCK) k->grain = num_gcd(k->grain, bytes);
    k->own += bytes >= OWN_SEGMENT;
}

/* States are as large in every layer and at any number of rows: the block of
** one is known, and what is left of it. */
static void keep_states(const struct rank *r, struct kept *k, int64_t each)
{
    int64_t bytes = block_of(r, each, r->segments);
    int64_t rest = num_round_up(num_min(bytes, INT64_MAX - OWN_STEP), OWN_STEP)
                   - bytes;

    add(k, CAT_GDN, bytes);
    if (bytes > LARGE_BLOCK && rest <= LARGE_BLOCK) k->left += rest;
}

/* n layers like k. */
static void add_layers(struct kept *all, const struct kept *k, int64_t n)
{
    int c;

    if (n == 0) return;
    for (c = 0; c < CAT_COUNT; c++) add(all, c, num_smul(k->term[c], n));
    all->own += n * k->own;
    all->left = num_sadd(all->left, num_smul(k->left, n));
    all->grain = num_gcd(all->grain, k->grain);
}

/* ---- the parts of a layer (3) -------------------------------------------- */

static int64_t adapter(const struct rank *r)
{
    return num_smul(PRICE_ELEMENT * r->tp, r->f->lora_rank);
}

/* rstd, the normed rows, and with sequence parallelism their gathering. */
static void keep_norm(const struct rank *r, struct kept *k, int64_t rows)
{
    keep(r, k, CAT_RESIDUAL_NORM, r->parallel ? REAL : REAL * r->tp, rows);
    keep(r, k, CAT_RESIDUAL_NORM, r->hidden, rows);
    if (r->parallel) keep(r, k, CAT_RESIDUAL_NORM, r->whole, rows);
}

static void keep_adapters(const struct rank *r, struct kept *k,
                          enum category c, int64_t rows, int n)
{
    while (n-- > 0) keep(r, k, c, adapter(r), rows);
}

/* q, k and v of a rank: with fewer key heads than ranks the joined projection
** stays whole, and each rank holds one key head. */
static void keep_attention(const struct rank *r, struct kept *k)
{
    const struct model *m = r->m;
    int64_t n = r->rows[LAYER_ATTENTION];
    int64_t joined = (m->attn_gate ? 2 : 1) * r->q + 2 * r->kv;
    bool shared = m->kv_heads < r->tp;
    int64_t heads = shared ? r->tp : m->kv_heads;
    int64_t kv = heads * m->head_dim * PRICE_ELEMENT;
    bool core = runs_again(r->f, MODULE_CORE_ATTN);

    keep_norm(r, k, n);
    keep(r, k, CAT_ATTENTION, shared ? joined * r->tp : joined, n);
    if (m->head_norm) {
        keep(r, k, CAT_ATTENTION, r->q, n);             /* before its norm */
        keep(r, k, CAT_ATTENTION, kv, n);
        keep(r, k, CAT_ATTENTION, REAL * m->q_heads, n);    /* rstd */
        keep(r, k, CAT_ATTENTION, REAL * heads, n);
    }
    keep(r, k, CAT_ATTENTION, r->q, n);                 /* rotated */
    keep(r, k, CAT_ATTENTION, kv, n);
    if (m->attn_gate && heads > r->tp) keep(r, k, CAT_ATTENTION, r->q, n);
    if (r->f->mode.eager && r->f->cp == 1)              /* v, dense */
        keep(r, k, CAT_ATTENTION, kv, n);
    keep(r, k, CAT_ATTENTION, r->q, n);                 /* output */
    if (!core && r->f->cp == 1)                         /* its LSE */
        keep(r, k, CAT_ATTENTION, REAL * m->q_heads, n);
    if (m->attn_gate) keep(r, k, CAT_ATTENTION, r->q, n);
    keep_adapters(r, k, CAT_ATTENTION, n, 4);
    add(k, CAT_ATTENTION_RECORDS, r->records);
}

static void keep_delta_rule(const struct rank *r, struct kept *k)
{
    const struct model *m = r->m;
    int64_t n = r->executed, heads = m->v_heads, channels = 2 * r->key
                                                            + r->value;
    int i;

    keep(r, k, CAT_GDN, channels, n);                   /* q, k, v joined */
    keep(r, k, CAT_GDN, PRICE_ELEMENT * heads, n);      /* beta */
    for (i = 0; i < 3; i++)                             /* q, k, v expanded */
        keep(r, k, CAT_GDN, r->value, n);
    for (i = 0; i < 3; i++)                             /* two rstd, decay */
        keep(r, k, CAT_GDN, REAL * heads, n);
    keep(r, k, CAT_GDN, 2 * 64 * heads, n);             /* chunk matrix */
    keep(r, k, CAT_GDN, INDEX * r->tp, n);              /* gathered rows */
    keep(r, k, CAT_GDN, INDEX * r->tp, r->segments + 1);
    keep_states(r, k, REAL * heads * m->k_dim * m->v_dim);
    keep_states(r, k, (m->conv - 1) * channels);
}

static void keep_gdn(const struct rank *r, struct kept *k)
{
    int64_t n = r->rows[LAYER_GDN], heads = r->m->v_heads;
    int i;

    keep_norm(r, k, n);
    for (i = 0; i < 4; i++)     /* gate, result, normed, gated */
        keep(r, k, CAT_GDN, r->value, n);
    keep(r, k, CAT_GDN, PRICE_ELEMENT * heads, n);      /* beta */
    keep(r, k, CAT_GDN, REAL * heads, n);               /* alpha */
    keep(r, k, CAT_GDN, REAL * heads, n);               /* rstd */
    keep(r, k, CAT_GDN, r->parallel ? 1 : r->tp, n);    /* mask */
    keep_adapters(r, k, CAT_GDN, n, 3);
    keep_delta_rule(r, k);
}

static void keep_mlp(const struct rank *r, struct kept *k, int64_t n)
{
    int i;

    keep_norm(r, k, n);
    keep(r, k, CAT_SHARED_EXPERT, 2 * r->ffn, n);
    for (i = 0; i < (r->fused ? 1 : 3); i++)
        keep(r, k, CAT_SHARED_EXPERT, r->ffn, n);
    keep_adapters(r, k, CAT_SHARED_EXPERT, n, 3);
}

static void keep_input(const struct rank *r, struct kept *k, int64_t n)
{
    keep(r, k, CAT_BOUNDARIES, r->hidden, n);
}

/* ---- layers ------------------------------------------------------------- */

static struct kept kept_layer(const struct rank *r, enum layer_kind kind)
{
    struct kept k = {.grain = OWN_STEP};

    keep_input(r, &k, r->rows[kind]);
    if (!keeps_mixers(r->f)) return k;
    if (kind == LAYER_GDN) keep_gdn(r, &k);
    else keep_attention(r, &k);
    keep_input(r, &k, r->rows[kind]);           /* of the MLP */
    if (keeps_mlps(r->f)) keep_mlp(r, &k, r->rows[kind]);
    return k;
}

/* All layers, and what the wave keeps beside them: rotary and plan rows,
** token ids. */
static struct kept kept_layers(const struct rank *r)
{
    struct kept all = {.grain = OWN_STEP};
    int kind;

    for (kind = 0; kind < LAYER_KINDS && price_has_grad(r->f); kind++) {
        struct kept k = kept_layer(r, (enum layer_kind)kind);
        add_layers(&all, &k, model_count(r->m, (enum layer_kind)kind));
    }
    add(&all, CAT_OTHER, block_of(r, r->tp * (REAL * r->m->rotary_dim + 56),
                                  r->rows[LAYER_ATTENTION]));
    add(&all, CAT_OTHER, block_of(r, r->tp * INDEX,
                                  r->rows[LAYER_ATTENTION]));
    return all;
}

/*
** What unsplit remainders come to. A tensor with a segment of its own, or in
** a block that another left, is followed by a remainder: a multiple of the
** grain of all sizes, because sizes and segments are. Above LARGE_BLOCK it is
** split off and serves others; else it stays, as likely of one size as of
** another: half of the largest multiple on average, nothing where all sizes
** are multiples of a segment's step.
*/
static void add_unsplit(struct kept *k)
{
    int64_t mean = k->grain * (LARGE_BLOCK / k->grain) / 2;

    add(k, CAT_OTHER, num_sadd(num_smul(k->own, mean), k->left));
}

/* ---- places of the peak (3) ---------------------------------------------- */

static int64_t last_rows(const struct rank *r)
{
    return r->rows[r->m->kind[r->m->layers - 1]];
}

/* The largest of places so far. */
static void take(struct kept *most, const struct kept *at)
{
    if (price_sum(at->term) > price_sum(most->term)) *most = *at;
}

/* The first product of the last layer's MLP: base, joined adapters, sum. */
static struct kept at_fc1(const struct rank *r, const struct kept *layers)
{
    struct kept k = *layers;
    int64_t n = last_rows(r), act = block_of(r, r->ffn, n);

    if (price_has_grad(r->f) && keeps_mlps(r->f)) {
        act = num_smul(r->fused ? 1 : 3, act);      /* not there yet */
        k.term[CAT_SHARED_EXPERT] -= num_min(act, k.term[CAT_SHARED_EXPERT]);
        add(&k, CAT_WORKSPACE, bytes_of(r, 4 * r->ffn, n));
        return k;
    }
    add(&k, CAT_WORKSPACE, bytes_of(r, 6 * r->ffn, n));
    add(&k, CAT_RESIDUAL_NORM, bytes_of(r, r->whole, n));
    if (!price_has_grad(r->f)) keep_input(r, &k, n);
    if (!price_has_grad(r->f) || !keeps_mixers(r->f)) keep_input(r, &k, n);
    return k;
}

/* After the last layer: the final norm's input and the results. */
static struct kept after_forward(const struct rank *r,
                                 const struct kept *layers)
{
    struct kept k = *layers;
    int64_t n = last_rows(r);

    keep_input(r, &k, n);
    add(&k, CAT_RESIDUAL_NORM,
        block_of(r, r->parallel ? REAL : REAL * r->tp, n));
    add(&k, CAT_OUTPUTS, r->f->output_bytes);
    return k;
}

/* The results are copied out of the gathered rows. */
static struct kept at_outputs(const struct rank *r, const struct kept *after)
{
    struct kept k = *after;

    add(&k, CAT_WORKSPACE, bytes_of(r, r->whole, last_rows(r)));
    return k;
}

/* The mean of f32 squares: every result's, and four copies of the last. */
static struct kept at_loss(const struct rank *r, const struct kept *after)
{
    const struct price_facts *f = r->f;
    int64_t width = PRICE_ELEMENT * r->m->hidden;
    int64_t all = f->output_bytes / width;
    int64_t last = f->n_output > 0 ? f->output_rows[f->n_output - 1] : all;
    struct kept k = *after;

    add(&k, CAT_HEAD, num_smul(REAL * r->m->hidden,
                               num_sadd(all, num_smul(4, last))));
    return k;
}

/* Logits of a chunk, their gradient and its scatter. */
static struct kept at_head(const struct rank *r, const struct kept *after)
{
    int64_t rows = num_min(HEAD_CHUNK, r->f->head_rows);
    struct kept k = *after;

    add(&k, CAT_HEAD, bytes_of(r, 3 * PRICE_ELEMENT * r->m->vocab, rows));
    add(&k, CAT_INPUT_GRADIENT,
        bytes_of(r, 2 * r->whole, last_rows(r)));
    return k;
}

/* Backward of an MLP that ran again: of the last layer, or where whole
** layers do, of the last gated delta net, which keeps more. */
static struct kept at_mlp_backward(const struct rank *r,
                                   const struct kept *after)
{
    bool gdn = model_count(r->m, LAYER_GDN) > 0;
    enum layer_kind kind = gdn ? LAYER_GDN : LAYER_ATTENTION;
    int64_t n = keeps_mixers(r->f) ? last_rows(r) : r->rows[kind];
    struct kept k = *after;

    if (keeps_mixers(r->f)) {
        keep_norm(r, &k, n);
        add(&k, CAT_WORKSPACE, bytes_of(r, 6 * r->ffn, n));
        return k;
    }
    if (gdn) keep_gdn(r, &k);
    else keep_attention(r, &k);
    keep_mlp(r, &k, n);
    if (!gdn) keep_input(r, &k, n);     /* of the MLP; else the last layer's
                                           output is gone by then */
    add(&k, CAT_WORKSPACE, bytes_of(r, 3 * r->ffn, n));
    return k;
}

/* The first wave of a process; attention-only models also make a rotary
** table for a new length. */
static void add_cold(const struct rank *r, bool backward, struct kept *k)
{
    if (!r->f->cold) return;
    add(k, CAT_WORKSPACE, COLD_FORWARD + (backward ? COLD_BACKWARD : 0));
    if (model_count(r->m, LAYER_GDN) > 0) return;
    add(k, CAT_OTHER, block_of(r, r->tp * REAL * r->m->rotary_dim,
                               r->rows[LAYER_ATTENTION]));
}

/* A wave's peak is the largest of a few instants; each is priced. */
static struct kept peak_of(const struct rank *r)
{
    enum wave_kind wave = r->f->mode.wave;
    bool backward = price_has_grad(r->f) && wave != WAVE_HIDDEN;
    struct kept layers = kept_layers(r), after, most, at;

    add_unsplit(&layers);
    after = after_forward(r, &layers);
    most = at_fc1(r, &layers);
    at = at_outputs(r, &after);
    take(&most, &at);
    if (backward && wave == WAVE_HIDDEN_LOSS) {
        at = at_loss(r, &after);
        take(&most, &at);
    }
    if (wave == WAVE_TRAIN) {
        at = at_head(r, &after);
        take(&most, &at);
    }
    if (backward && !keeps_mlps(r->f)) {
        at = at_mlp_backward(r, &after);
        take(&most, &at);
    }
    add_cold(r, backward, &most);
    return most;
}

/* ---- ranks --------------------------------------------------------------- */

static bool counts(const struct price_facts *f, int64_t g)
{
    return f->group[g].grad || !price_has_grad(f);
}

static int64_t rank_records(const struct price_facts *f, int64_t number)
{
    int64_t g, sum = 0;

    for (g = 0; g < f->n_group; g++) {
        const struct price_group *p = &f->group[g];
        if (!counts(f, g)) continue;
        sum = num_sadd(sum, p->attention_retained != NULL
                       ? p->attention_retained[number]
                       : price_stage_records(f->model, p->stage[number],
                                             p->n_stage[number],
                                             p->attention_rows[number],
                                             f->q_block, f->k_block));
    }
    return sum;
}

/* A rank's rows of all groups that count, padded as the step pads them, and
** the bytes a row of what its instants are made of. */
static struct rank rank_of(const struct price_facts *f, int64_t number)
{
    const struct model *m = f->model;
    struct rank r = {.f = f, .m = m, .tp = f->tp};
    int64_t g, *a = &r.rows[LAYER_ATTENTION], *d = &r.rows[LAYER_GDN];

    for (g = 0; g < f->n_group; g++) {
        if (!counts(f, g)) continue;
        *a = num_sadd(*a, f->group[g].attention_rows[number]);
        *d = num_sadd(*d, f->group[g].gdn_rows[number]);
    }
    if (f->cp == 1) *a = *d = num_max(*a, price_packed_rows(f));
    *a = num_round_up(*a, f->tp);
    *d = num_round_up(*d, f->tp);
    r.executed = f->cp == 1 ? num_max(*d, f->gdn_executed_rows) : *d;
    r.segments = num_ceil_div(price_segments(f), f->cp);
    r.records = keeps_records(f) ? rank_records(f, number) : 0;
    r.parallel = price_sequence_parallel(f) && f->tp > 1;
    r.fused = price_swiglu_widths(f) == 3 || !f->mode.eager;
    r.whole = PRICE_ELEMENT * m->hidden * f->tp;
    r.hidden = r.parallel ? PRICE_ELEMENT * m->hidden : r.whole;
    r.ffn = PRICE_ELEMENT * m->ffn;
    r.q = PRICE_ELEMENT * model_q(m);
    r.kv = PRICE_ELEMENT * model_kv(m);
    r.key = PRICE_ELEMENT * model_key(m);
    r.value = PRICE_ELEMENT * model_value(m);
    return r;
}

static bool refuses(const struct price_facts *f, char *reason, size_t size)
{
    int64_t g;

    if (f->pp != 1)
        snprintf(reason, size, "PP%lld: only PP1 is priced",
                 (long long)f->pp);
    else if (f->model->experts > 0)
        snprintf(reason, size, "mixture of experts: only dense MLPs are "
                 "priced");
    else
        for (g = 0; g < f->n_group && keeps_records(f); g++)
            if (counts(f, g) && f->group[g].stage == NULL &&
                f->group[g].attention_retained == NULL)
                snprintf(reason, size, "group %lld has neither stages nor "
                         "attention_retained", (long long)g);
    return reason[0] != '\0';
}

int price_kept_rank(const struct price_facts *f, struct estimate *out,
                    struct err *e)
{
    int64_t number;
    int rc = price_check(f, e);

    if (rc != ERR_OK) return rc;
    memset(out, 0, sizeof *out);
    snprintf(out->name, sizeof out->name, PRICE_KEPT_RANK);
    out->binding_rank = -1;
    if (refuses(f, out->reason, sizeof out->reason)) return ERR_OK;
    out->supported = out->priced = true;
    for (number = 0; number < f->cp; number++) {
        struct rank r = rank_of(f, number);
        struct kept k = peak_of(&r);
        if (number > 0 && price_sum(k.term) <= out->raw) continue;
        memcpy(out->term, k.term, sizeof out->term);
        out->raw = price_sum(k.term);
        out->binding_rank = number;
    }
    out->admitted = num_sadd(out->raw, out->raw / 10);
    return out->admitted == INT64_MAX ? price_too_big(f, e) : ERR_OK;
}
