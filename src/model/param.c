/*
** param.c - see param.h. Two tables hold everything: base tensors and
** adapter sites, their dimensions as names of widths. A tensor with a
** dimension of 0 does not exist in the model at hand.
*/
#include "model/param.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum width {
    W_END,          /* no further dimension */
    W_ONE, W_H, W_VOCAB,
    W_Q, W_QG,      /* queries; queries and gate */
    W_KV, W_NORM,   /* of a head, where heads have norms */
    W_Q_BIAS, W_KV_BIAS,
    W_KEY2V,        /* conv channels: q, k and v of a GDN layer */
    W_VALUE, W_VHEADS, W_VDIM, W_CONV,
    W_E, W_EL, W_F, W_2F,
    W_FS, W_SGATE, W_FFN,
    W_RANK
};

/* The only place where a name of a width becomes a number. */
static int64_t width_of(const struct model *m, int64_t ep, int64_t r,
                        enum width w)
{
    switch (w) {
    case W_END: case W_ONE: return 1;
    case W_H: return m->hidden;
    case W_VOCAB: return m->vocab;
    case W_Q: return model_q(m);
    case W_QG: return model_q(m) * (m->attn_gate ? 2 : 1);
    case W_KV: return model_kv(m);
    case W_NORM: return m->head_norm ? m->head_dim : 0;
    case W_Q_BIAS: return m->qkv_bias ? model_q(m) : 0;
    case W_KV_BIAS: return m->qkv_bias ? model_kv(m) : 0;
    case W_KEY2V: return model_conv_channels(m);
    case W_VALUE: return model_value(m);
    case W_VHEADS: return m->v_heads;
    case W_VDIM: return m->v_dim;
    case W_CONV: return m->conv;
    case W_E: return m->experts;
    case W_EL: return m->experts / ep;
    case W_F: return m->expert_ffn;
    case W_2F: return 2 * m->expert_ffn;
    case W_FS: return m->shared_ffn;
    case W_SGATE: return m->shared_gate ? 1 : 0;
    case W_FFN: return m->ffn;
    case W_RANK: return r;
    }
    return 0;
}

/* ---- base tensors -------------------------------------------------------- */

enum place { IN_ALL, IN_ATTENTION, IN_GDN, OUTSIDE };

struct base_tensor {
    const char *name;
    enum place place;
    enum site site;
    enum width dim[3];
    enum param_pack pack;   /* where the family's checkpoints pack it */
    enum { ALONE, JOINS } joins;    /* see param.h */
};

static const struct base_tensor base_tensors[] = {
    {"input_layernorm.weight", IN_ALL, SITE_COUNT, {W_H}, 0, ALONE},
    {"self_attn.q_proj.weight", IN_ATTENTION, SITE_Q, {W_QG, W_H}, 0, ALONE},
    {"self_attn.k_proj.weight", IN_ATTENTION, SITE_K, {W_KV, W_H}, 0, JOINS},
    {"self_attn.v_proj.weight", IN_ATTENTION, SITE_V, {W_KV, W_H}, 0, JOINS},
    {"self_attn.q_proj.bias", IN_ATTENTION, SITE_COUNT, {W_Q_BIAS}, 0, ALONE},
    {"self_attn.k_proj.bias", IN_ATTENTION, SITE_COUNT, {W_KV_BIAS}, 0, JOINS},
    {"self_attn.v_proj.bias", IN_ATTENTION, SITE_COUNT, {W_KV_BIAS}, 0, JOINS},
    {"self_attn.q_norm.weight", IN_ATTENTION, SITE_COUNT, {W_NORM}, 0, ALONE},
    {"self_attn.k_norm.weight", IN_ATTENTION, SITE_COUNT, {W_NORM}, 0, ALONE},
    {"self_attn.o_proj.weight", IN_ATTENTION, SITE_O, {W_H, W_Q}, 0, ALONE},
    {"linear_attn.in_proj_qkv.weight", IN_GDN, SITE_GDN_QKV,
     {W_KEY2V, W_H}, PACK_QKVZ, ALONE},
    {"linear_attn.in_proj_z.weight", IN_GDN, SITE_GDN_Z,
     {W_VALUE, W_H}, PACK_QKVZ, JOINS},
    {"linear_attn.in_proj_b.weight", IN_GDN, SITE_COUNT,
     {W_VHEADS, W_H}, PACK_BA, JOINS},
    {"linear_attn.in_proj_a.weight", IN_GDN, SITE_COUNT,
     {W_VHEADS, W_H}, PACK_BA, JOINS},
    {"linear_attn.conv1d.weight", IN_GDN, SITE_COUNT,
     {W_KEY2V, W_ONE, W_CONV}, 0, ALONE},
    {"linear_attn.A_log", IN_GDN, SITE_COUNT, {W_VHEADS}, 0, ALONE},
    {"linear_attn.dt_bias", IN_GDN, SITE_COUNT, {W_VHEADS}, 0, ALONE},
    {"linear_attn.norm.weight", IN_GDN, SITE_COUNT, {W_VDIM}, 0, ALONE},
    {"linear_attn.out_proj.weight", IN_GDN, SITE_GDN_OUT,
     {W_H, W_VALUE}, 0, ALONE},
    {"post_attention_layernorm.weight", IN_ALL, SITE_COUNT, {W_H}, 0, ALONE},
    {"mlp.gate.weight", IN_ALL, SITE_COUNT, {W_E, W_H}, PACK_ROUTER, ALONE},
    {"mlp.experts.gate_up_proj", IN_ALL, SITE_EXPERT_UP,
     {W_EL, W_2F, W_H}, PACK_EACH_EXPERT, ALONE},
    {"mlp.experts.down_proj", IN_ALL, SITE_EXPERT_DOWN,
     {W_EL, W_H, W_F}, PACK_EACH_EXPERT, ALONE},
    {"mlp.shared_expert.gate_proj.weight", IN_ALL, SITE_SHARED_GATE,
     {W_FS, W_H}, 0, ALONE},
    {"mlp.shared_expert.up_proj.weight", IN_ALL, SITE_SHARED_UP,
     {W_FS, W_H}, 0, JOINS},
    {"mlp.shared_expert.down_proj.weight", IN_ALL, SITE_SHARED_DOWN,
     {W_H, W_FS}, 0, ALONE},
    {"mlp.shared_expert_gate.weight", IN_ALL, SITE_COUNT,
     {W_SGATE, W_H}, 0, ALONE},
    {"mlp.gate_proj.weight", IN_ALL, SITE_MLP_GATE, {W_FFN, W_H}, 0, ALONE},
    {"mlp.up_proj.weight", IN_ALL, SITE_MLP_UP, {W_FFN, W_H}, 0, JOINS},
    {"mlp.down_proj.weight", IN_ALL, SITE_MLP_DOWN, {W_H, W_FFN}, 0, ALONE},
    {"embed_tokens.weight", OUTSIDE, SITE_COUNT, {W_VOCAB, W_H}, 0, ALONE},
    {"norm.weight", OUTSIDE, SITE_COUNT, {W_H}, 0, ALONE},
    {"lm_head.weight", OUTSIDE, SITE_COUNT, {W_VOCAB, W_H}, 0, ALONE},
};
#define N_BASE (sizeof base_tensors / sizeof base_tensors[0])

/* ---- adapters ------------------------------------------------------------ */

struct adapter {
    const char *a, *b;
    enum place place;
    enum width in, out;
    bool routed;            /* one pair per local expert */
};

#define LORA(module) module ".lora_A.weight", module ".lora_B.weight"

static const struct adapter adapters[SITE_COUNT] = {
    [SITE_Q] = {LORA("self_attn.q_proj"), IN_ATTENTION, W_H, W_QG, false},
    [SITE_K] = {LORA("self_attn.k_proj"), IN_ATTENTION, W_H, W_KV, false},
    [SITE_V] = {LORA("self_attn.v_proj"), IN_ATTENTION, W_H, W_KV, false},
    [SITE_O] = {LORA("self_attn.o_proj"), IN_ATTENTION, W_Q, W_H, false},
    [SITE_GDN_QKV] = {LORA("linear_attn.in_proj_qkv"), IN_GDN, W_H, W_KEY2V,
                      false},
    [SITE_GDN_Z] = {LORA("linear_attn.in_proj_z"), IN_GDN, W_H, W_VALUE,
                    false},
    [SITE_GDN_OUT] = {LORA("linear_attn.out_proj"), IN_GDN, W_VALUE, W_H,
                      false},
    [SITE_SHARED_GATE] = {LORA("mlp.shared_expert.gate_proj"), IN_ALL, W_H,
                          W_FS, false},
    [SITE_SHARED_UP] = {LORA("mlp.shared_expert.up_proj"), IN_ALL, W_H, W_FS,
                        false},
    [SITE_SHARED_DOWN] = {LORA("mlp.shared_expert.down_proj"), IN_ALL, W_FS,
                          W_H, false},
    [SITE_EXPERT_UP] = {LORA("mlp.experts.gate_up_proj"), IN_ALL, W_H, W_2F,
                        true},
    [SITE_EXPERT_DOWN] = {LORA("mlp.experts.down_proj"), IN_ALL, W_F, W_H,
                          true},
    [SITE_MLP_GATE] = {LORA("mlp.gate_proj"), IN_ALL, W_H, W_FFN, false},
    [SITE_MLP_UP] = {LORA("mlp.up_proj"), IN_ALL, W_H, W_FFN, false},
    [SITE_MLP_DOWN] = {LORA("mlp.down_proj"), IN_ALL, W_FFN, W_H, false},
};

/* ---- the list ------------------------------------------------------------ */

struct maker {
    const struct model *m;
    int64_t ep, r;
    struct param_list *out;
    int64_t cap;
    int64_t total;          /* bytes so far, to refuse what cannot be summed */
    struct err *e;
};

/* Absent tensors have a width of 0 and vanish here; sums are checked once. */
static int add(struct maker *k, struct param p)
{
    int64_t i;

    p.count = 1;
    for (i = 0; i < 4; i++)
        if (!num_mul(p.count, p.dim[i], &p.count)) p.count = INT64_MAX;
    if (p.count == 0) return ERR_OK;
    if (!num_mul(p.count, 2, &p.bytes)
        || !num_add(k->total, p.bytes, &k->total))
        return err_set(k->e, ERR_INPUT, "%s: %s: the parameters do not fit "
                       "64-bit sizes", k->m->name, p.tensor);
    if (k->out->n == k->cap) {
        int64_t cap = k->cap ? 2 * k->cap : 256;
        struct param *q = realloc(k->out->p, (size_t)cap * sizeof *q);
        if (q == NULL) return err_nomem(k->e);
        k->out->p = q;
        k->cap = cap;
    }
    k->out->p[k->out->n++] = p;
    return ERR_OK;
}

static bool stands_in(enum place place, const struct model *m, int64_t layer)
{
    switch (place) {
    case IN_ALL: return layer >= 0;
    case IN_ATTENTION: return layer >= 0 && m->kind[layer] == LAYER_ATTENTION;
    case IN_GDN: return layer >= 0 && m->kind[layer] == LAYER_GDN;
    case OUTSIDE: return layer < 0;
    }
    return false;
}

static int add_base(struct maker *k, int64_t layer)
{
    size_t i, d;

    for (i = 0; i < N_BASE; i++) {
        const struct base_tensor *t = &base_tensors[i];
        struct param p = {t->name, layer, PARAM_BASE, t->site,
                          t->pack, t->joins == JOINS, {1, 1, 1, 1}, 0, 0};
        int rc;

        if (!stands_in(t->place, k->m, layer)) continue;
        if (k->m->tied && strcmp(t->name, "lm_head.weight") == 0) continue;
        for (d = 0; d < 3; d++)
            p.dim[d] = width_of(k->m, k->ep, k->r, t->dim[d]);
        rc = add(k, p);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

/* Routed experts have their pair transposed and stacked, others plain. */
static int add_adapters(struct maker *k, int64_t layer)
{
    int s;

    for (s = 0; s < SITE_COUNT; s++) {
        const struct adapter *t = &adapters[s];
        int64_t in = width_of(k->m, k->ep, k->r, t->in);
        int64_t out = width_of(k->m, k->ep, k->r, t->out);
        struct param a = {t->a, layer, PARAM_LORA_A, (enum site)s, PACK_NONE,
                          false, {k->r, in, 1, 1}, 0, 0};
        struct param b = {t->b, layer, PARAM_LORA_B, (enum site)s, PACK_NONE,
                          false, {out, k->r, 1, 1}, 0, 0};
        int rc;

        if (!stands_in(t->place, k->m, layer) || in == 0 || out == 0) continue;
        if (t->routed) {
            int64_t el = k->m->experts / k->ep;
            memcpy(a.dim, (int64_t[4]){el, in, k->r, 1}, sizeof a.dim);
            memcpy(b.dim, (int64_t[4]){el, k->r, out, 1}, sizeof b.dim);
        }
        rc = add(k, a);
        if (rc == ERR_OK) rc = add(k, b);
        if (rc != ERR_OK) return rc;
    }
    return ERR_OK;
}

static int check_split(const struct model *m, int64_t ep, int64_t lora_rank,
                       struct err *e)
{
    if (m->experts == 0 && ep > 1)
        return err_set(e, ERR_INPUT, "ep: %s is dense, it has no experts to "
                       "split (use 1)", m->name);
    if (ep < 1 || m->experts % ep != 0)
        return err_set(e, ERR_INPUT, "ep: %lld does not divide the %lld "
                       "experts of %s", (long long)ep, (long long)m->experts,
                       m->name);
    if (lora_rank < 0 || lora_rank > PARAM_MAX_LORA_RANK)
        return err_set(e, ERR_INPUT, "lora_rank: must lie between 0 and %d, "
                       "not %lld", PARAM_MAX_LORA_RANK, (long long)lora_rank);
    return ERR_OK;
}

int param_list_make(const struct model *m, int64_t ep, int64_t lora_rank,
                    struct param_list *out, struct err *e)
{
    struct param_list list = {NULL, 0};
    struct maker k = {m, ep, lora_rank, &list, 0, 0, e};
    int64_t i;
    int rc = check_split(m, ep, lora_rank, e);

    for (i = 0; rc == ERR_OK && i < m->layers; i++) {
        rc = add_base(&k, i);
        if (rc == ERR_OK && lora_rank > 0) rc = add_adapters(&k, i);
    }
    if (rc == ERR_OK) rc = add_base(&k, -1);
    if (rc != ERR_OK) {
        param_list_free(&list);
        return rc;
    }
    *out = list;
    return ERR_OK;
}

void param_list_free(struct param_list *l)
{
    free(l->p);
    l->p = NULL;
    l->n = 0;
}

int64_t param_joined(const struct param_list *l, int64_t i)
{
    int64_t n = l->p[i].count;

    while (++i < l->n && l->p[i].joins) n += l->p[i].count;
    return n;
}

int64_t param_base_bytes(const struct param_list *l)
{
    int64_t i, sum = 0;

    for (i = 0; i < l->n; i++)
        if (l->p[i].role == PARAM_BASE) sum += l->p[i].bytes;
    return sum;
}

void param_adapter_bytes(const struct model *m, const struct param_list *l,
                         int64_t *out)
{
    int64_t i;

    memset(out, 0, (size_t)(m->layers + 1) * sizeof *out);
    for (i = 0; i < l->n; i++) {
        const struct param *p = &l->p[i];
        if (p->role != PARAM_BASE)
            out[p->layer < 0 ? m->layers : p->layer] += p->bytes;
    }
}
