/*
** model.h - the geometry of a decoder, read from a Hugging Face config.json.
**
** A struct model is plain numbers: what a layer is made of and how wide.
** Everything downstream (plan, price, step) derives its sizes from it and
** from the parameter list of param.h, and reads no config key itself.
*/
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum layer_kind { LAYER_ATTENTION, LAYER_GDN };
#define LAYER_KINDS 2

struct model {
    char name[64];          /* file name without .json (of config.json, its
                               folder's name), or "inline" */
    char family[32];        /* model_type as written in the config */
    char prefix[32];        /* of tensor names: "model.language_model." */
    const struct family_names *names;   /* of tensors; family.h; static */
    int64_t layers;
    int64_t hidden;         /* H */
    int64_t vocab;          /* V */
    int64_t max_positions;
    double eps;             /* of every norm */
    bool norm_zero_centred; /* weight is stored as w, applied as 1 + w */
    bool tied;              /* the head is the embedding */
    /* attention: q_heads * head_dim queries, kv_heads * head_dim keys */
    int64_t q_heads, kv_heads, head_dim;
    int64_t rotary_dim;     /* dims of a head that are rotated, even */
    double rope_theta;
    /* "llama3": waves longer than positions / low are factor times slower,
    ** those shorter than positions / high as they are, others between;
    ** factor 0: none */
    struct { double factor, low, high, positions; } rope;
    bool head_norm;         /* of every query and key head, before rotation */
    bool qkv_bias;
    bool attn_gate;         /* sigmoid output gate beside the queries */
    bool hybrid;            /* of a family with gated delta nets, also where
                               the layers at hand have none */
    /* gated delta net; all 0 when no layer is GDN */
    int64_t k_heads, k_dim, v_heads, v_dim;
    int64_t conv;           /* kernel width of the causal convolution */
    /* mixture of experts; experts 0 means a dense SwiGLU of width ffn */
    int64_t experts, top_k, expert_ffn;
    int64_t shared_ffn;     /* 0: no shared expert */
    bool shared_gate;       /* sigmoid gate on the shared expert's output */
    bool norm_topk;         /* top-k weights sum to one */
    int64_t ffn;
    enum layer_kind *kind;  /* [layers], owned */
};

/* Widths that are used everywhere, in elements per row. */
static inline int64_t model_q(const struct model *m)
{
    return m->q_heads * m->head_dim;
}
static inline int64_t model_kv(const struct model *m)
{
    return m->kv_heads * m->head_dim;
}
static inline int64_t model_key(const struct model *m)
{
    return m->k_heads * m->k_dim;
}
static inline int64_t model_value(const struct model *m)
{
    return m->v_heads * m->v_dim;
}
static inline int64_t model_conv_channels(const struct model *m)
{
    return 2 * model_key(m) + model_value(m);
}

/* The layout in which layer i's input arrives, and in which its output
** leaves: LAYER_GDN inside an island of consecutive GDN layers, else
** LAYER_ATTENTION. A GDN layer computes on GDN rows in any case: at an
** island's edges rows are converted (planner.md 7.1). */
static inline enum layer_kind model_input_layout(const struct model *m,
                                                 int64_t layer)
{
    assert(layer >= 0 && layer < m->layers);
    return layer > 0 && m->kind[layer - 1] == LAYER_GDN ? m->kind[layer]
                                                        : LAYER_ATTENTION;
}
static inline enum layer_kind model_output_layout(const struct model *m,
                                                  int64_t layer)
{
    assert(layer >= 0 && layer < m->layers);
    return layer + 1 < m->layers && m->kind[layer + 1] == LAYER_GDN
           ? m->kind[layer] : LAYER_ATTENTION;
}

/* The share of one of tp tensor-parallel ranks: heads and MLP widths divided,
** at least one group of keys, the vocabulary rounded up. Borrows m's kinds;
** not to be freed. tp as mode_check accepts it. */
struct model model_share(const struct model *m, int64_t tp);

int64_t model_count(const struct model *m, enum layer_kind kind);

/* The largest values that a config may hold, so that products of a few of
** them fit 64 bits. */
#define MODEL_MAX_LAYERS 1024
#define MODEL_MAX_WIDTH (1 << 20)

/* Reads config.json (nested text_config too). layers > 0 keeps only the
** first layers (they must exist). The families of family.h load; any other
** model_type is refused by name. Errors (ERR_INPUT) name file, key, remedy.
** On success the caller owns *out and calls model_free. */
int model_load(const char *path, int64_t layers, struct model *out,
               struct err *e) MUST_CHECK;
/* The same from an object within a larger file; the name is "inline". */
struct js;
int model_from_json(const struct js *at, int64_t layers, struct model *out,
                    struct err *e) MUST_CHECK;
void model_free(struct model *m);

#endif
