/* family.c - see family.h: the table of families */
#include "model/family.h"

#include <string.h>

static const struct family_names plain = {
    .experts = "mlp.experts", .gate = "gate_proj", .up = "up_proj",
    .down = "down_proj",
};

static const struct family_names next = {
    .experts = "mlp.experts", .gate = "gate_proj", .up = "up_proj",
    .down = "down_proj", .fused_qkvz = "linear_attn.in_proj_qkvz.weight",
    .fused_ba = "linear_attn.in_proj_ba.weight",
};

static const struct family_names mixtral = {
    .router = "block_sparse_moe.gate.weight",
    .experts = "block_sparse_moe.experts", .gate = "w1", .up = "w3",
    .down = "w2",
};

#define HYBRID (FAMILY_GDN | FAMILY_CENTRED | FAMILY_GATE | FAMILY_HEAD_NORM)
#define MOE FAMILY_MOE
#define SHARED FAMILY_SHARED

static const struct family families[] = {
    {"qwen3_next", NULL, HYBRID | MOE | SHARED | FAMILY_TOPK_FLAG,
     "moe_intermediate_size", &next},
    {"qwen3_5_moe", "qwen3_5_moe_text", HYBRID | MOE | SHARED,
     "moe_intermediate_size", &plain},
    {"qwen3_5_moe_text", NULL, HYBRID | MOE | SHARED,
     "moe_intermediate_size", &plain},
    {"qwen3_5", "qwen3_5_text", HYBRID, NULL, &plain},
    {"qwen3_5_text", NULL, HYBRID, NULL, &plain},
    {"qwen3_moe", NULL, MOE | FAMILY_HEAD_NORM | FAMILY_TOPK_FLAG,
     "moe_intermediate_size", &plain},
    {"qwen3", NULL, FAMILY_HEAD_NORM, NULL, &plain},
    {"qwen2_moe", NULL, MOE | SHARED | FAMILY_BIAS | FAMILY_TOPK_FLAG
     | FAMILY_HEAD_DIM, "moe_intermediate_size", &plain},
    {"mixtral", NULL, MOE | FAMILY_HEAD_DIM | FAMILY_WINDOW,
     "intermediate_size", &mixtral},
    {"llama", NULL, FAMILY_HEAD_DIM | FAMILY_LLAMA3, NULL, &plain},
};
#define N_FAMILIES (sizeof families / sizeof families[0])

const struct family *family_at(int i)
{
    return i >= 0 && i < (int)N_FAMILIES ? &families[i] : NULL;
}

const struct family *family_find(const char *type)
{
    size_t i;

    for (i = 0; i < N_FAMILIES; i++)
        if (strcmp(type, families[i].type) == 0) return &families[i];
    return NULL;
}

const char *family_list(void)
{
    return "qwen3_next, qwen3_5_moe, qwen3_5, qwen3_moe, qwen3, qwen2_moe, "
           "mixtral, llama";
}
