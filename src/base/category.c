/* category.c - names, see category.h */
#include "base/category.h"

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
