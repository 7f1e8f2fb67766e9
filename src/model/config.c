/*
** config.c - a Hugging Face config.json into a struct model.
**
** Every key that shapes a tensor is read and checked; a key is never
** replaced by a default of ours. Keys that would change what a layer
** computes in a way the program does not know (biases, other activations,
** sliding windows, quantized weights) are refused by name.
*/
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/num.h"
#include "model/family.h"
#include "model/model.h"

struct config {
    struct js outer, text;  /* the same object unless text_config is there */
    bool nested;
    const struct family *family;
    struct err *e;
};

static bool is_string(const struct js *v, const char *s)
{
    return json_is_string(v->v) && strcmp(json_string_value(v->v), s) == 0;
}

/* ---- integers, by table -------------------------------------------------- */

struct int_key {
    const char *key;
    size_t field;
    int64_t lo, hi;
    unsigned of;            /* parts that bring the key; 0: always there */
};

#define WIDTH MODEL_MAX_WIDTH
#define FIELD(f) offsetof(struct model, f)

static const struct int_key int_keys[] = {
    {"num_hidden_layers", FIELD(layers), 1, MODEL_MAX_LAYERS, 0},
    {"hidden_size", FIELD(hidden), 1, WIDTH, 0},
    {"vocab_size", FIELD(vocab), 1, 1 << 24, 0},
    {"max_position_embeddings", FIELD(max_positions), 1, 1 << 30, 0},
    {"num_attention_heads", FIELD(q_heads), 1, 4096, 0},
    {"num_key_value_heads", FIELD(kv_heads), 1, 4096, 0},
    {"linear_num_key_heads", FIELD(k_heads), 1, 4096, FAMILY_GDN},
    {"linear_key_head_dim", FIELD(k_dim), 1, 4096, FAMILY_GDN},
    {"linear_num_value_heads", FIELD(v_heads), 1, 4096, FAMILY_GDN},
    {"linear_value_head_dim", FIELD(v_dim), 1, 4096, FAMILY_GDN},
    {"linear_conv_kernel_dim", FIELD(conv), 1, 64, FAMILY_GDN},
    {"num_experts_per_tok", FIELD(top_k), 1, 1024, FAMILY_MOE},
    {"shared_expert_intermediate_size", FIELD(shared_ffn), 0, WIDTH,
     FAMILY_SHARED},
};
#define N_INT_KEYS (sizeof int_keys / sizeof int_keys[0])

static int read_ints(const struct config *c, struct model *m)
{
    size_t i;

    for (i = 0; i < N_INT_KEYS; i++) {
        const struct int_key *k = &int_keys[i];
        int64_t v;
        int rc;

        if ((c->family->parts & k->of) != k->of) continue;
        rc = js_need_int(&c->text, k->key, k->lo, k->hi, &v, c->e);
        if (rc != ERR_OK) return rc;
        memcpy((char *)m + k->field, &v, sizeof v);
    }
    return ERR_OK;
}

/* Newer configs say num_local_experts; where both stand they agree. */
static int read_experts(const struct config *c, struct model *m)
{
    const char *key = "num_experts", *local = "num_local_experts";
    struct js v = js_get(&c->text, local);
    int64_t again;
    int rc;

    if (js_get(&c->text, key).v == NULL && v.v != NULL) key = local;
    rc = js_need_int(&c->text, key, 1, 1 << 16, &m->experts, c->e);
    if (rc == ERR_OK && v.v != NULL)
        rc = js_int(&v, 1, 1 << 16, &again, c->e);
    if (rc == ERR_OK && v.v != NULL && again != m->experts)
        rc = js_error(&v, c->e, "differs from num_experts");
    return rc == ERR_OK ? js_need_int(&c->text, c->family->expert_ffn, 1,
                                      WIDTH, &m->expert_ffn, c->e) : rc;
}

static int read_mlp(const struct config *c, struct model *m)
{
    if (c->family->parts & FAMILY_MOE) return read_experts(c, m);
    return js_need_int(&c->text, "intermediate_size", 1, WIDTH, &m->ffn,
                       c->e);
}

static int read_head_dim(const struct config *c, struct model *m)
{
    struct js v = js_get(&c->text, "head_dim"), h;

    if (!js_is_null(&v) || !(c->family->parts & FAMILY_HEAD_DIM))
        return js_need_int(&c->text, "head_dim", 1, 4096, &m->head_dim,
                           c->e);
    h = js_get(&c->text, "hidden_size");
    if (m->hidden % m->q_heads != 0)
        return js_error(&h, c->e, "without head_dim, num_attention_heads "
                        "must divide it");
    m->head_dim = m->hidden / m->q_heads;
    return ERR_OK;
}

static int check_ints(const struct config *c, const struct model *m)
{
    struct js v = js_get(&c->text, "num_key_value_heads");

    if (m->q_heads % m->kv_heads != 0)
        return js_error(&v, c->e, "must divide num_attention_heads");
    v = js_get(&c->text, "linear_num_key_heads");
    if (m->k_heads > 0 && m->v_heads % m->k_heads != 0)
        return js_error(&v, c->e, "must divide linear_num_value_heads");
    v = js_get(&c->text, "num_experts_per_tok");
    if (m->top_k > m->experts)
        return js_error(&v, c->e, "is more than num_experts");
    return ERR_OK;
}

/* ---- what would compute something else ----------------------------------- */

/* Keys that would make another model of it: better refused than left out. */
static int refuse_unknown_layers(const struct config *c)
{
    static const char *const off[] = {"attention_bias", "mlp_bias",
                                      "use_sliding_window"};
    static const char *const quant = "quantization_config";
    struct js v;
    size_t i;

    for (i = 0; i < sizeof off / sizeof off[0]; i++) {
        v = js_get(&c->text, off[i]);
        if (!js_is_null(&v) && !json_is_false(v.v))
            return js_error(&v, c->e, "only false is supported");
    }
    v = js_get(&c->text, "hidden_act");
    if (!is_string(&v, "silu"))
        return js_error(&v, c->e, "only \"silu\" is supported");
    v = js_get(&c->text, quant);
    if (js_is_null(&v)) v = js_get(&c->outer, quant);
    if (!js_is_null(&v))
        return js_error(&v, c->e, "quantized weights are not supported (use "
                        "the model's bf16 form)");
    return ERR_OK;
}

/* A window that holds every position is none. */
static int refuse_window(const struct config *c, const struct model *m)
{
    struct js v = js_get(&c->text, "sliding_window");
    int64_t w;
    int rc;

    if (!(c->family->parts & FAMILY_WINDOW) || js_is_null(&v)) return ERR_OK;
    rc = js_int(&v, 1, INT64_MAX, &w, c->e);
    if (rc == ERR_OK && w < m->max_positions)
        rc = js_error(&v, c->e, "only null is supported, or a window of "
                      "max_position_embeddings");
    return rc;
}

/* Every layer must be built alike: price and step know one MLP a model. */
static int refuse_mixed_mlp(const struct config *c)
{
    struct js v = js_get(&c->text, "mlp_only_layers");

    if (!js_is_null(&v) && !(json_is_array(v.v) && js_size(&v) == 0))
        return js_error(&v, c->e, "only an empty list is supported (every "
                        "layer must have the same MLP)");
    v = js_get(&c->text, "decoder_sparse_step");
    if (v.v != NULL && !(json_is_integer(v.v) && json_integer_value(v.v) == 1))
        return js_error(&v, c->e, "only 1 is supported (every layer must "
                        "have the same MLP)");
    return ERR_OK;
}

/* ---- flags --------------------------------------------------------------- */

/* Written in text_config, beside it, or in both. */
static int read_tied(const struct config *c, struct model *m)
{
    const char *key = "tie_word_embeddings";
    struct js in = js_get(&c->text, key), out = js_get(&c->outer, key);
    bool outer;
    int rc;

    if (in.v == NULL && out.v != NULL) in = out;
    if (out.v == NULL) out = in;
    rc = in.v == NULL ? js_error(&in, c->e, "missing")
                      : js_bool(&in, &m->tied, c->e);
    if (rc == ERR_OK) rc = js_bool(&out, &outer, c->e);
    if (rc == ERR_OK && outer != m->tied)
        rc = js_error(&in, c->e, "differs from the value beside text_config");
    return rc;
}

/* What the family fixes, then what its config may still say. */
static int read_gates(const struct config *c, struct model *m)
{
    unsigned parts = c->family->parts;
    struct js v = js_get(&c->text, "output_gate_type");
    int rc;

    /* the architectures fix what their configs leave out */
    m->norm_zero_centred = parts & FAMILY_CENTRED;
    m->attn_gate = parts & FAMILY_GATE;
    m->hybrid = parts & FAMILY_GDN;
    m->head_norm = parts & FAMILY_HEAD_NORM;
    m->qkv_bias = parts & FAMILY_BIAS;
    m->shared_gate = m->shared_ffn > 0;
    m->norm_topk = parts & FAMILY_MOE;
    /* names the activation on z in the GDN output norm */
    if (!js_is_null(&v) && !is_string(&v, "swish") && !is_string(&v, "silu"))
        return js_error(&v, c->e, "only \"swish\" and \"silu\" are supported");
    rc = js_opt_bool(&c->text, "attn_output_gate", &m->attn_gate, c->e);
    if (rc == ERR_OK && (parts & FAMILY_BIAS))
        rc = js_opt_bool(&c->text, "qkv_bias", &m->qkv_bias, c->e);
    if (rc == ERR_OK && (parts & FAMILY_TOPK_FLAG))
        rc = js_need_bool(&c->text, "norm_topk_prob", &m->norm_topk, c->e);
    if (rc == ERR_OK) rc = read_tied(c, m);
    return rc;
}

/* ---- reals: eps and rotary ----------------------------------------------- */

/* lo < value <= hi */
static int read_real(const struct config *c, const struct js *at, double lo,
                     double hi, double *out)
{
    int rc = at->v == NULL ? js_error(at, c->e, "missing")
                           : js_double(at, out, c->e);

    if (rc == ERR_OK && !(*out > lo && *out <= hi))
        rc = js_error(at, c->e, "must be above %g and at most %g, not %g",
                      lo, hi, *out);
    return rc;
}

/* A rotary key stands at the top level, under rope_parameters, or in both. */
static int rope_real(const struct config *c, const struct js *rope,
                     const char *key, double hi, double *out)
{
    struct js a = js_get(&c->text, key), b = js_get(rope, key);
    double again;
    int rc = read_real(c, a.v == NULL && b.v != NULL ? &b : &a, 0.0, hi, out);

    if (rc != ERR_OK || a.v == NULL || b.v == NULL) return rc;
    rc = read_real(c, &b, 0.0, hi, &again);
    if (rc == ERR_OK && (again < *out || again > *out))
        rc = js_error(&a, c->e, "differs from rope_parameters.%s", key);
    return rc;
}

/* The four numbers of "llama3" (model.h). */
static int read_llama3(const struct config *c, const struct js *rope,
                       struct model *m)
{
    static const struct { const char *key; size_t field; } keys[] = {
        {"factor", FIELD(rope.factor)}, {"low_freq_factor", FIELD(rope.low)},
        {"high_freq_factor", FIELD(rope.high)},
        {"original_max_position_embeddings", FIELD(rope.positions)},
    };
    struct js v;
    size_t i;

    for (i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        double x = 0;
        int rc;

        v = js_get(rope, keys[i].key);
        rc = read_real(c, &v, 0.0, 1e9, &x);
        if (rc != ERR_OK) return rc;
        memcpy((char *)m + keys[i].field, &x, sizeof x);
    }
    v = js_get(rope, "high_freq_factor");
    if (m->rope.high <= m->rope.low)
        return js_error(&v, c->e, "must be above low_freq_factor");
    return ERR_OK;
}

static int read_rope_type(const struct config *c, const char *where,
                          struct model *m)
{
    struct js rope = js_get(&c->text, where), v;
    bool llama3 = c->family->parts & FAMILY_LLAMA3;
    int rc;

    if (js_is_null(&rope)) return ERR_OK;
    rc = js_object(&rope, NULL, c->e);
    if (rc != ERR_OK) return rc;
    v = js_get(&rope, "rope_type");
    if (v.v == NULL) v = js_get(&rope, "type");
    if (v.v == NULL || is_string(&v, "default")) return ERR_OK;
    if (llama3 && is_string(&v, "llama3")) return read_llama3(c, &rope, m);
    return js_error(&v, c->e, llama3 ? "only \"default\" and \"llama3\" are "
                    "supported" : "only \"default\" is supported");
}

/* The key has moved between versions of the format; each place is looked at. */
static int read_rope(const struct config *c, struct model *m)
{
    const char *key = "partial_rotary_factor";
    struct js rope = js_get(&c->text, "rope_parameters");
    struct js part_key = js_get(&c->text, key);
    double part = 1.0, dims;
    int rc = read_rope_type(c, "rope_parameters", m);

    if (rc == ERR_OK) rc = read_rope_type(c, "rope_scaling", m);
    if (rc == ERR_OK)
        rc = rope_real(c, &rope, "rope_theta", 1e15, &m->rope_theta);
    /* families of full attention rotate the whole head and have no key */
    if (rc == ERR_OK && ((c->family->parts & FAMILY_GDN) || part_key.v != NULL
                         || js_get(&rope, key).v != NULL))
        rc = rope_real(c, &rope, key, 1.0, &part);
    if (rc != ERR_OK) return rc;
    dims = part * (double)m->head_dim;
    m->rotary_dim = (int64_t)dims;
    if (dims > floor(dims) || m->rotary_dim % 2 != 0 || m->rotary_dim == 0)
        return js_error(&part_key, c->e, "%g of head_dim %lld is not an even "
                        "number", part, (long long)m->head_dim);
    return ERR_OK;
}

/* ---- layer kinds --------------------------------------------------------- */

/* A list of kinds wins over an interval, as in transformers. */
static int kinds_from_types(const struct config *c, const struct js *types,
                            struct model *m)
{
    int rc = js_array(types, m->layers, c->e);
    int64_t i;

    for (i = 0; rc == ERR_OK && i < m->layers; i++) {
        struct js t = js_item(types, i);
        if (is_string(&t, "full_attention"))
            m->kind[i] = LAYER_ATTENTION;
        else if (is_string(&t, "linear_attention")
                 && (c->family->parts & FAMILY_GDN))
            m->kind[i] = LAYER_GDN;
        else
            rc = js_error(&t, c->e, "is not a layer of %s (\"full_attention\""
                          "%s)", c->family->type,
                          c->family->parts & FAMILY_GDN
                          ? " or \"linear_attention\"" : "");
    }
    return rc;
}

/* layer_types wins over full_attention_interval. */
static int read_kinds(const struct config *c, struct model *m)
{
    struct js types = js_get(&c->text, "layer_types");
    int64_t every = 1, i;
    int rc = ERR_OK;

    m->kind = calloc((size_t)m->layers, sizeof *m->kind);
    if (m->kind == NULL) return err_nomem(c->e);
    if (!js_is_null(&types)) return kinds_from_types(c, &types, m);
    if (c->family->parts & FAMILY_GDN)
        rc = js_need_int(&c->text, "full_attention_interval", 1,
                         MODEL_MAX_LAYERS, &every, c->e);
    for (i = 0; rc == ERR_OK && i < m->layers; i++)
        m->kind[i] = (i + 1) % every == 0 ? LAYER_ATTENTION : LAYER_GDN;
    return rc;
}

static int cut_layers(const struct config *c, int64_t layers, struct model *m)
{
    if (layers < 0 || layers > m->layers)
        return err_set(c->e, ERR_INPUT, "%s: layers: %lld asked, the model "
                       "has %lld", c->text.origin, (long long)layers,
                       (long long)m->layers);
    if (layers > 0) m->layers = layers;
    if (model_count(m, LAYER_GDN) == 0)
        m->k_heads = m->k_dim = m->v_heads = m->v_dim = m->conv = 0;
    return ERR_OK;
}

/* ---- the file ------------------------------------------------------------ */

static int read_text_config(struct config *c)
{
    const char *want = c->family->text_type;
    struct js text = js_get(&c->outer, "text_config"), type;
    int rc;

    if (js_is_null(&text)) return ERR_OK;
    rc = js_object(&text, NULL, c->e);
    if (rc != ERR_OK) return rc;
    type = js_get(&text, "model_type");
    if (want == NULL)
        return js_error(&text, c->e, "a %s config has none", c->family->type);
    if (type.v != NULL && !is_string(&type, want))
        return js_error(&type, c->e, "must be \"%s\" inside %s", want,
                        c->family->type);
    c->text = text;
    c->nested = true;
    return ERR_OK;
}

static int read_family(struct config *c)
{
    const char *type;
    char list[256];
    struct js at;
    int rc = js_need(&c->outer, "model_type", &at, c->e);

    if (rc == ERR_OK) rc = js_string(&at, &type, c->e);
    if (rc != ERR_OK) return rc;
    c->family = family_find(type);
    family_list(list, sizeof list);
    if (c->family == NULL)
        return js_error(&at, c->e, "\"%.64s\" is not supported (supported: "
                        "%s; use a model of one of these)", type, list);
    return read_text_config(c);
}

static int read_config(struct config *c, int64_t layers, struct model *m)
{
    struct js eps;
    int rc = read_family(c);

    if (rc == ERR_OK) rc = refuse_unknown_layers(c);
    if (rc == ERR_OK) rc = refuse_mixed_mlp(c);
    if (rc == ERR_OK) rc = read_ints(c, m);
    if (rc == ERR_OK) rc = read_mlp(c, m);
    if (rc == ERR_OK) rc = read_head_dim(c, m);
    if (rc == ERR_OK) rc = check_ints(c, m);
    if (rc == ERR_OK) rc = refuse_window(c, m);
    if (rc == ERR_OK) rc = read_gates(c, m);
    eps = js_get(&c->text, "rms_norm_eps");
    if (rc == ERR_OK) rc = read_real(c, &eps, 0.0, 1.0, &m->eps);
    if (rc == ERR_OK) rc = read_rope(c, m);
    if (rc == ERR_OK) rc = read_kinds(c, m);
    if (rc == ERR_OK) rc = cut_layers(c, layers, m);
    return rc;
}

int model_from_json(const struct js *at, int64_t layers, struct model *out,
                    struct err *e)
{
    struct config c = {*at, *at, false, NULL, e};
    struct model m = {0};
    int rc = js_object(at, NULL, e);

    if (rc == ERR_OK) rc = read_config(&c, layers, &m);
    if (rc != ERR_OK) {
        free(m.kind);
        return rc;
    }
    snprintf(m.name, sizeof m.name, "inline");
    snprintf(m.family, sizeof m.family, "%s", c.family->type);
    snprintf(m.prefix, sizeof m.prefix,
             c.nested ? "model.language_model." : "model.");
    m.names = c.family->names;
    *out = m;
    return ERR_OK;
}
