/*
** config.c - a Hugging Face config.json into a struct model.
**
** Every key that shapes a tensor is read and checked; a key is never
** replaced by a default of ours. Keys that would change what a layer
** computes in a way the program does not know (biases, other activations,
** sliding windows, quantized weights) are refused by name.
*/
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "model/model.h"

/* What the keys of a family are. */
enum trait { HYBRID = 1, MOE = 2, DENSE = 4, TOPK_FLAG = 8 };

struct family {
    const char *type, *text_type;   /* of the file, of its text_config */
    unsigned traits;
};

static const struct family families[] = {
    {"qwen3_next", NULL, HYBRID | MOE | TOPK_FLAG},
    {"qwen3_5_moe", "qwen3_5_moe_text", HYBRID | MOE},
    {"qwen3_5_moe_text", NULL, HYBRID | MOE},
    {"qwen3_5", "qwen3_5_text", HYBRID | DENSE},
    {"qwen3_5_text", NULL, HYBRID | DENSE},
    {"qwen3_moe", NULL, MOE | TOPK_FLAG},
};
#define N_FAMILIES (sizeof families / sizeof families[0])
#define SUPPORTED "qwen3_next, qwen3_5_moe, qwen3_5, qwen3_moe"

struct config {
    const char *origin;     /* for messages */
    json_t *outer, *text;   /* the same object unless text_config is there */
    const struct family *family;
    struct err *e;
};

static int fail(const struct config *c, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static int fail(const struct config *c, const char *key, const char *fmt, ...)
{
    char why[256];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    return err_set(c->e, ERR_INPUT, "%s: %s%s: %s", c->origin,
                   c->text != c->outer ? "text_config." : "", key, why);
}

static bool has(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    return v != NULL && !json_is_null(v);
}

/* ---- integers, by table -------------------------------------------------- */

struct int_key {
    const char *key;
    size_t field;
    int64_t lo, hi;
    unsigned of;            /* trait that brings the key; 0: always there */
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
    {"head_dim", FIELD(head_dim), 1, 4096, 0},
    {"linear_num_key_heads", FIELD(k_heads), 1, 4096, HYBRID},
    {"linear_key_head_dim", FIELD(k_dim), 1, 4096, HYBRID},
    {"linear_num_value_heads", FIELD(v_heads), 1, 4096, HYBRID},
    {"linear_value_head_dim", FIELD(v_dim), 1, 4096, HYBRID},
    {"linear_conv_kernel_dim", FIELD(conv), 1, 64, HYBRID},
    {"num_experts", FIELD(experts), 1, 1 << 16, MOE},
    {"num_experts_per_tok", FIELD(top_k), 1, 1024, MOE},
    {"moe_intermediate_size", FIELD(expert_ffn), 1, WIDTH, MOE},
    {"shared_expert_intermediate_size", FIELD(shared_ffn), 0, WIDTH,
     HYBRID | MOE},
    {"intermediate_size", FIELD(ffn), 1, WIDTH, DENSE},
};
#define N_INT_KEYS (sizeof int_keys / sizeof int_keys[0])

static int get_int(const struct config *c, const char *key, int64_t lo,
                   int64_t hi, int64_t *out)
{
    const json_t *v = json_object_get(c->text, key);

    if (v == NULL) return fail(c, key, "missing");
    if (!json_is_integer(v)) return fail(c, key, "must be an integer");
    *out = json_integer_value(v);
    if (*out < lo || *out > hi)
        return fail(c, key, "must lie between %lld and %lld, not %lld",
                    (long long)lo, (long long)hi, (long long)*out);
    return ERR_OK;
}

static int read_ints(const struct config *c, struct model *m)
{
    size_t i;

    for (i = 0; i < N_INT_KEYS; i++) {
        const struct int_key *k = &int_keys[i];
        int64_t v;
        int rc;

        if ((c->family->traits & k->of) != k->of) continue;
        rc = get_int(c, k->key, k->lo, k->hi, &v);
        if (rc != ERR_OK) return rc;
        memcpy((char *)m + k->field, &v, sizeof v);
    }
    return ERR_OK;
}

static int check_ints(const struct config *c, const struct model *m)
{
    if (m->q_heads % m->kv_heads != 0)
        return fail(c, "num_key_value_heads",
                    "must divide num_attention_heads");
    if (m->k_heads > 0 && m->v_heads % m->k_heads != 0)
        return fail(c, "linear_num_key_heads",
                    "must divide linear_num_value_heads");
    if (m->top_k > m->experts)
        return fail(c, "num_experts_per_tok", "more than num_experts");
    return ERR_OK;
}

/* ---- what would compute something else ------------------------------------ */

static int refuse_unknown_layers(const struct config *c)
{
    static const char *const off[] = {"attention_bias", "use_sliding_window"};
    const json_t *v;
    size_t i;

    for (i = 0; i < sizeof off / sizeof off[0]; i++)
        if (has(c->text, off[i]) && !json_is_false(json_object_get(c->text,
                                                                   off[i])))
            return fail(c, off[i], "only false is supported");
    v = json_object_get(c->text, "hidden_act");
    if (v == NULL || !json_is_string(v)
        || strcmp(json_string_value(v), "silu") != 0)
        return fail(c, "hidden_act", "only \"silu\" is supported");
    if (has(c->text, "quantization_config")
        || has(c->outer, "quantization_config"))
        return fail(c, "quantization_config",
                    "quantized weights are not supported (use a bf16 model)");
    return ERR_OK;
}

/* Every layer must be built alike: price and step know one MLP a model. */
static int refuse_mixed_mlp(const struct config *c)
{
    const json_t *v = json_object_get(c->text, "mlp_only_layers");

    if (v != NULL && !json_is_null(v)
        && (!json_is_array(v) || json_array_size(v) != 0))
        return fail(c, "mlp_only_layers", "only an empty list is supported "
                    "(every layer must have the same MLP)");
    v = json_object_get(c->text, "decoder_sparse_step");
    if (v != NULL && (!json_is_integer(v) || json_integer_value(v) != 1))
        return fail(c, "decoder_sparse_step", "only 1 is supported "
                    "(every layer must have the same MLP)");
    return ERR_OK;
}

/* ---- flags ------------------------------------------------------------------ */

static int get_bool(const struct config *c, const char *key, bool *out)
{
    const json_t *v = json_object_get(c->text, key);

    if (v == NULL) return fail(c, key, "missing");
    if (!json_is_boolean(v)) return fail(c, key, "must be true or false");
    *out = json_is_true(v);
    return ERR_OK;
}

/* Written in text_config, beside it, or in both. */
static int read_tied(const struct config *c, struct model *m)
{
    const char *key = "tie_word_embeddings";
    const json_t *in = json_object_get(c->text, key);
    const json_t *out = json_object_get(c->outer, key);

    if (in == NULL) in = out;
    if (out == NULL) out = in;
    if (in == NULL) return fail(c, key, "missing");
    if (!json_is_boolean(in) || !json_is_boolean(out))
        return fail(c, key, "must be true or false");
    if (json_is_true(in) != json_is_true(out))
        return fail(c, key, "differs from the value beside text_config");
    m->tied = json_is_true(in);
    return ERR_OK;
}

static int read_gates(const struct config *c, struct model *m)
{
    bool hybrid = c->family->traits & HYBRID;
    const json_t *v = json_object_get(c->text, "output_gate_type");
    int rc;

    /* the architectures fix what their configs leave out */
    m->norm_zero_centred = hybrid;
    m->attn_gate = hybrid;
    m->shared_gate = m->shared_ffn > 0;
    m->norm_topk = c->family->traits & MOE;
    if (has(c->text, "attn_output_gate")) {
        rc = get_bool(c, "attn_output_gate", &m->attn_gate);
        if (rc != ERR_OK) return rc;
    }
    if (c->family->traits & TOPK_FLAG) {
        rc = get_bool(c, "norm_topk_prob", &m->norm_topk);
        if (rc != ERR_OK) return rc;
    }
    /* names the activation on z in the GDN output norm */
    if (v != NULL && !(json_is_string(v)
                       && (strcmp(json_string_value(v), "swish") == 0
                           || strcmp(json_string_value(v), "silu") == 0)))
        return fail(c, "output_gate_type",
                    "only \"swish\" and \"silu\" are supported");
    return read_tied(c, m);
}

/* ---- reals: eps and rotary --------------------------------------------------- */

static int check_real(const struct config *c, const char *key, const json_t *v,
                      double lo, double hi, double *out)
{
    if (v == NULL) return fail(c, key, "missing");
    if (!json_is_number(v)) return fail(c, key, "must be a number");
    *out = json_number_value(v);
    if (!(*out > lo && *out <= hi))
        return fail(c, key, "must be above %g and at most %g, not %g", lo, hi,
                    *out);
    return ERR_OK;
}

/* A rotary key stands at the top level, under rope_parameters, or in both. */
static int rope_real(const struct config *c, const json_t *rope,
                     const char *key, double hi, double *out)
{
    const json_t *a = json_object_get(c->text, key);
    const json_t *b = json_object_get(rope, key);
    double again;
    int rc = check_real(c, key, a != NULL ? a : b, 0.0, hi, out);

    if (rc != ERR_OK || a == NULL || b == NULL) return rc;
    rc = check_real(c, key, b, 0.0, hi, &again);
    if (rc == ERR_OK && (again < *out || again > *out))
        rc = fail(c, key, "differs from rope_parameters.%s", key);
    return rc;
}

static int check_rope_type(const struct config *c, const char *where)
{
    const json_t *rope = json_object_get(c->text, where), *v;

    if (rope == NULL || json_is_null(rope)) return ERR_OK;
    if (!json_is_object(rope)) return fail(c, where, "must be an object");
    v = json_object_get(rope, "rope_type");
    if (v == NULL) v = json_object_get(rope, "type");
    if (v != NULL && !(json_is_string(v)
                       && strcmp(json_string_value(v), "default") == 0))
        return fail(c, where, "only rope_type \"default\" is supported");
    return ERR_OK;
}

static int read_rope(const struct config *c, struct model *m)
{
    const json_t *rope = json_object_get(c->text, "rope_parameters");
    const char *key = "partial_rotary_factor";
    double part = 1.0, dims;
    int rc = check_rope_type(c, "rope_parameters");

    if (rc == ERR_OK) rc = check_rope_type(c, "rope_scaling");
    if (rc == ERR_OK)
        rc = rope_real(c, rope, "rope_theta", 1e15, &m->rope_theta);
    /* families of full attention rotate the whole head and have no key */
    if (rc == ERR_OK && ((c->family->traits & HYBRID) || has(c->text, key)
                         || has(rope, key)))
        rc = rope_real(c, rope, key, 1.0, &part);
    if (rc != ERR_OK) return rc;
    dims = part * (double)m->head_dim;
    m->rotary_dim = (int64_t)floor(dims);
    if (dims > floor(dims) || m->rotary_dim % 2 != 0 || m->rotary_dim == 0)
        return fail(c, key, "%g of head_dim %lld is not an even number", part,
                    (long long)m->head_dim);
    return ERR_OK;
}

/* ---- layer kinds -------------------------------------------------------------- */

static int kind_from_types(const struct config *c, const json_t *types,
                           struct model *m)
{
    const char *key = "layer_types";
    int64_t i;

    if (!json_is_array(types)) return fail(c, key, "must be a list");
    if (json_array_size(types) != (size_t)m->layers)
        return fail(c, key, "has %zu entries, num_hidden_layers says %lld",
                    json_array_size(types), (long long)m->layers);
    for (i = 0; i < m->layers; i++) {
        const char *t = json_string_value(json_array_get(types, (size_t)i));
        if (t != NULL && strcmp(t, "full_attention") == 0)
            m->kind[i] = LAYER_ATTENTION;
        else if (t != NULL && strcmp(t, "linear_attention") == 0
                 && (c->family->traits & HYBRID))
            m->kind[i] = LAYER_GDN;
        else
            return fail(c, key, "entry %lld (%s) is not a layer of %s",
                        (long long)i, t ? t : "no string", c->family->type);
    }
    return ERR_OK;
}

/* layer_types wins over full_attention_interval. */
static int read_kinds(const struct config *c, struct model *m)
{
    const json_t *types = json_object_get(c->text, "layer_types");
    int64_t every = 1, i;
    int rc = ERR_OK;

    m->kind = calloc((size_t)m->layers, sizeof *m->kind);
    if (m->kind == NULL) return err_nomem(c->e);
    if (types != NULL && !json_is_null(types))
        return kind_from_types(c, types, m);
    if (c->family->traits & HYBRID)
        rc = get_int(c, "full_attention_interval", 1, MODEL_MAX_LAYERS,
                     &every);
    for (i = 0; rc == ERR_OK && i < m->layers; i++)
        m->kind[i] = (i + 1) % every == 0 ? LAYER_ATTENTION : LAYER_GDN;
    return rc;
}

static int cut_layers(const struct config *c, int64_t layers, struct model *m)
{
    if (layers < 0 || layers > m->layers)
        return err_set(c->e, ERR_INPUT, "%s: layers: %lld asked, the model "
                       "has %lld", c->origin, (long long)layers,
                       (long long)m->layers);
    if (layers > 0) m->layers = layers;
    if (model_count(m, LAYER_GDN) == 0)
        m->k_heads = m->k_dim = m->v_heads = m->v_dim = m->conv = 0;
    return ERR_OK;
}

/* ---- the file ------------------------------------------------------------------ */

static const struct family *find_family(const char *type)
{
    size_t i;

    for (i = 0; i < N_FAMILIES; i++)
        if (strcmp(type, families[i].type) == 0) return &families[i];
    return NULL;
}

static int check_text_type(const struct config *c)
{
    const char *type = c->family->text_type;
    const json_t *v = json_object_get(c->text, "model_type");

    if (type == NULL)
        return err_set(c->e, ERR_INPUT, "%s: text_config: model_type %s has "
                       "none", c->origin, c->family->type);
    if (v != NULL && !(json_is_string(v)
                       && strcmp(json_string_value(v), type) == 0))
        return fail(c, "model_type", "must be \"%s\" inside %s", type,
                    c->family->type);
    return ERR_OK;
}

static int read_family(struct config *c)
{
    const json_t *v = json_object_get(c->outer, "model_type");
    const char *type = json_string_value(v);

    if (v == NULL) return fail(c, "model_type", "missing");
    if (type == NULL) return fail(c, "model_type", "must be a string");
    c->family = find_family(type);
    if (c->family == NULL)
        return fail(c, "model_type", "\"%.64s\" is not supported (supported: "
                    SUPPORTED ")", type);
    if (!has(c->outer, "text_config")) return ERR_OK;
    c->text = json_object_get(c->outer, "text_config");
    if (!json_is_object(c->text)) {
        c->text = c->outer;
        return fail(c, "text_config", "must be an object");
    }
    return check_text_type(c);
}

static int read_config(struct config *c, int64_t layers, struct model *m)
{
    int rc = read_family(c);

    if (rc == ERR_OK) rc = refuse_unknown_layers(c);
    if (rc == ERR_OK) rc = refuse_mixed_mlp(c);
    if (rc == ERR_OK) rc = read_ints(c, m);
    if (rc == ERR_OK) rc = check_ints(c, m);
    if (rc == ERR_OK) rc = read_gates(c, m);
    if (rc == ERR_OK)
        rc = check_real(c, "rms_norm_eps",
                        json_object_get(c->text, "rms_norm_eps"), 0.0, 1.0,
                        &m->eps);
    if (rc == ERR_OK) rc = read_rope(c, m);
    if (rc == ERR_OK) rc = read_kinds(c, m);
    if (rc == ERR_OK) rc = cut_layers(c, layers, m);
    return rc;
}

/* "a/b.json" is b, "a/config.json" is a. */
static void name_from_origin(const char *origin, struct model *m)
{
    const char *base = strrchr(origin, '/'), *end;

    base = base ? base + 1 : origin;
    if (strcmp(base, "config.json") == 0 && base - origin > 1) {
        for (end = base - 1; end > origin && end[-1] == '/'; end--)
            ;
        for (base = end; base > origin && base[-1] != '/'; base--)
            ;
    } else {
        end = strrchr(base, '.');
        if (end == NULL || end == base) end = base + strlen(base);
    }
    snprintf(m->name, sizeof m->name, "%.*s", (int)(end - base), base);
}

int model_parse(const char *json, const char *origin, int64_t layers,
                struct model *out, struct err *e)
{
    struct config c = {origin, NULL, NULL, NULL, e};
    struct model m = {0};
    json_error_t je;
    int rc;

    c.outer = c.text = json_loads(json, JSON_REJECT_DUPLICATES, &je);
    if (c.outer == NULL && json_error_code(&je) == json_error_out_of_memory)
        return err_nomem(e);
    if (c.outer == NULL)
        return err_set(e, ERR_INPUT, "%s:%d:%d: %s", origin, je.line,
                       je.column, je.text);
    if (json_is_object(c.outer))
        rc = read_config(&c, layers, &m);
    else
        rc = err_set(e, ERR_INPUT, "%s: must be a JSON object", origin);
    if (rc == ERR_OK) {
        bool nested = c.text != c.outer;
        name_from_origin(origin, &m);
        snprintf(m.family, sizeof m.family, "%s", c.family->type);
        snprintf(m.prefix, sizeof m.prefix,
                 nested ? "model.language_model." : "model.");
        m.ckpt_fused_gdn = strcmp(m.family, "qwen3_next") == 0;
        m.ckpt_each_expert = c.family->traits & TOPK_FLAG;
        *out = m;
    } else {
        free(m.kind);
    }
    json_decref(c.outer);
    return rc;
}
