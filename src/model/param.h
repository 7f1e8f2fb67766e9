/*
** param.h - the list of parameters of a model on one rank: base weights
** (frozen) and LoRA adapters (trained).
**
** One function makes the list; weights, adapters, gradients, optimizer state
** and checkpoint reading are all walks over it.
*/
#ifndef MODEL_PARAM_H
#define MODEL_PARAM_H

#include <stdbool.h>

#include "model/model.h"

/* One projection that may carry an adapter. LoRA A is [r, in], B [out, r];
** for routed experts there is one pair per local expert, held transposed as
** [El, in, r] and [El, r, out] (model.md 7). */
enum site {
    SITE_Q, SITE_K, SITE_V, SITE_O,             /* q holds the gate */
    SITE_GDN_QKV, SITE_GDN_Z, SITE_GDN_OUT,
    SITE_SHARED_GATE, SITE_SHARED_UP, SITE_SHARED_DOWN,
    SITE_EXPERT_UP,                             /* fused gate and up */
    SITE_EXPERT_DOWN,
    SITE_MLP_GATE, SITE_MLP_UP, SITE_MLP_DOWN,  /* dense members */
    SITE_COUNT
};

/* Of the routed experts: each rank has its own. */
static inline bool site_is_routed(enum site s)
{
    return s == SITE_EXPERT_UP || s == SITE_EXPERT_DOWN;
}

enum param_role { PARAM_BASE, PARAM_LORA_A, PARAM_LORA_B };

/* How a checkpoint may hold a base tensor otherwise than under its own name
** and shape: by the names of family.h, where the family has them. The list
** itself is the same for every family: flat, split, experts stacked. */
enum param_pack {
    PACK_NONE,          /* under its own name and shape */
    PACK_QKVZ,          /* in fused_qkvz, grouped by key head */
    PACK_BA,            /* in fused_ba, grouped by key head */
    PACK_EACH_EXPERT,   /* one by one: gate, up and down of each */
    PACK_ROUTER         /* under another name */
};

/* One tensor, row-major [dim 0, dim 1, ...]. Routed experts are the rank's
** own El = E / ep. */
struct param {
    const char *tensor;     /* Hugging Face name after m->prefix and, for a
                               layer, "layers.i."; static text. lm_head has
                               no prefix. */
    int64_t layer;          /* -1: outside the decoder */
    enum param_role role;
    enum site site;         /* whose weight or adapter; SITE_COUNT: none */
    enum param_pack pack;
    bool joins;             /* the framework has it in one tensor with the
                               entry before it, whose rows come first */
    int64_t dim[4];         /* unused dims are 1 */
    int64_t count;          /* product */
    int64_t bytes;          /* bf16: 2 * count (checkpoints store all of the
                               text model so; model.md 0) */
};

struct param_list {
    struct param *p;        /* owned; order: layers ascending, then outside;
                               within a layer base weights, then adapters in
                               order of site, A before B */
    int64_t n;
};

#define PARAM_MAX_LORA_RANK 65536

/* The parameters of one rank. ep must divide the experts (be 1 for dense
** members). lora_rank 0 means no adapters. Overflow and ep errors are
** ERR_INPUT naming the key. */
int param_list_make(const struct model *m, int64_t ep, int64_t lora_rank,
                    struct param_list *out, struct err *e) MUST_CHECK;
void param_list_free(struct param_list *l);
/* Elements of the tensor that entry i begins, joined ones included. */
int64_t param_joined(const struct param_list *l, int64_t i);

/* Bytes of the list by role: bf16 text parameters and head of
** Qwen3.6-35B-A3B are 69,321,221,376 (EP1) and 37,108,966,656 (EP2). */
int64_t param_base_bytes(const struct param_list *l);
/* Adapter bytes per layer into out[layers + 1]; the last entry is what lies
** outside the decoder (pricing.md 8). */
void param_adapter_bytes(const struct model *m, const struct param_list *l,
                         int64_t *out);

#endif
