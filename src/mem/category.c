/* category.c - names, see category.h and mem.h */
#include "mem/category.h"

#include "mem/mem.h"

const char *category_name(enum category c)
{
    static const char *const name[CAT_COUNT] = {
        "boundaries", "attention", "attention_records", "gdn",
        "residual_norm", "moe_routing", "moe_dispatch", "moe_experts",
        "shared_expert", "input_gradient", "adapter_gradients", "head",
        "workspace", "outputs", "hybridep", "rounding", "other"
    };
    return name[c];
}

const char *mem_phase_name(enum mem_phase p)
{
    static const char *const name[PHASE_COUNT] = {
        "none", "forward", "head", "recompute", "backward", "optimizer"
    };
    return name[p];
}
