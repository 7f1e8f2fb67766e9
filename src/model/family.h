/*
** family.h - one description per model family: of which parts its layers
** are, what its config.json calls them, and how its checkpoints pack them.
**
** A new decoder of the same parts is an entry of the table in family.c, a
** config in lua/models and goldens in tests/golden/hf. What differs in a
** layer is copied into struct model (model.h); price and step read it there.
*/
#ifndef MODEL_FAMILY_H
#define MODEL_FAMILY_H

#include <stddef.h>

enum family_part {
    FAMILY_GDN = 1,         /* gated delta net layers beside attention */
    FAMILY_MOE = 2,         /* routed experts; else a dense SwiGLU */
    FAMILY_SHARED = 4,      /* a shared expert behind a sigmoid gate */
    FAMILY_CENTRED = 8,     /* norm weights are stored as w of 1 + w */
    FAMILY_GATE = 16,       /* sigmoid output gate beside the queries */
    FAMILY_HEAD_NORM = 32,  /* norms of every query and key head */
    FAMILY_BIAS = 64,       /* of q, k, v, unless qkv_bias is false */
    FAMILY_TOPK_FLAG = 128, /* norm_topk_prob says whether weights sum to 1;
                               without it they do */
    FAMILY_HEAD_DIM = 256,  /* head_dim may be left out: hidden / heads */
    FAMILY_WINDOW = 512,    /* sliding_window counts without a switch */
    FAMILY_LLAMA3 = 1024    /* rope_type "llama3" is known */
};

/* Names in checkpoints beside those of param.h; NULL: none. Experts stored
** one by one are experts.e.{gate, up, down}.weight. */
struct family_names {
    const char *router;
    const char *experts, *gate, *up, *down;
    const char *fused_qkvz, *fused_ba;      /* grouped by key head */
};

struct family {
    const char *type;           /* model_type of the file */
    const char *text_type;      /* of its text_config; NULL: has none */
    unsigned parts;             /* of enum family_part */
    const char *expert_ffn;     /* key of the experts' width */
    const struct family_names *names;
};

/* One by one from 0, in the order of the table; NULL behind the last. */
const struct family *family_at(int i);
/* NULL when the type is not known. */
const struct family *family_find(const char *type);
/* The known types, for messages: "a, b, c", cut where out ends. Of a model
** and its text alone the first. */
void family_list(char *out, size_t cap);

#endif
