/* family.c - see family.h: the table of families */
#include "model/family.h"

#include <stdbool.h>
#include <stdio.h>
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

/* Whether an earlier row has that type's text config, and so its name. */
static bool is_text_of_another(size_t i)
{
    size_t k;

    for (k = 0; k < i; k++)
        if (families[k].text_type != NULL &&
            strcmp(families[k].text_type, families[i].type) == 0) return true;
    return false;
}

void family_list(char *out, size_t cap)
{
    size_t i, n = 0;

    for (i = 0; i < N_FAMILIES && n < cap; i++)
        if (!is_text_of_another(i))
            n += (size_t)snprintf(out + n, cap - n, "%s%s", n > 0 ? ", " : "",
                                  families[i].type);
}
