/* peft_name.c - see peft_name.h */
#include "model/peft_name.h"

#include <stdio.h>
#include <string.h>

#include "model/family.h"

#define FUSED_MODULE "linear_attn.in_proj_qkvz"

bool peft_is_fused(const struct model *m, const struct param *p)
{
    return m->names->fused_qkvz != NULL
        && (p->site == SITE_GDN_QKV || p->site == SITE_GDN_Z);
}

static const char *suffix_of(const struct param *p)
{
    return p->role == PARAM_LORA_A ? ".lora_A.weight" : ".lora_B.weight";
}

void peft_module(const struct model *m, const struct param *p, char *out)
{
    size_t n = strlen(p->tensor) - strlen(suffix_of(p));

    if (p->site == SITE_EXPERT_UP)
        snprintf(out, PEFT_NAME, "mlp.experts.base_layer");
    else if (p->site == SITE_EXPERT_DOWN)
        snprintf(out, PEFT_NAME, "mlp.experts");
    else if (peft_is_fused(m, p))
        snprintf(out, PEFT_NAME, FUSED_MODULE);
    else
        snprintf(out, PEFT_NAME, "%.*s", (int)n, p->tensor);
}

void peft_name(const struct model *m, const struct param *p, char *out)
{
    char module[PEFT_NAME];

    peft_module(m, p, module);
    snprintf(out, PEFT_NAME, "base_model.model.%slayers.%lld.%.120s%s",
             m->prefix, (long long)p->layer, module, suffix_of(p));
}

void peft_state_name(const struct model *m, const struct param *p,
                     enum peft_part part, char *out)
{
    snprintf(out, PEFT_NAME, "exp_avg%s.%slayers.%lld.%s",
             part == PEFT_SQUARE ? "_sq" : "", m->prefix,
             (long long)p->layer, p->tensor);
}

/* ---- elements ------------------------------------------------------------ */

static int64_t fused_rows(const struct model *m)
{
    return model_conv_channels(m) + model_value(m);
}

/* Row of in_proj_qkvz, grouped by key head: q, k, v of its value heads, z of
** them (model.md 1). */
static int64_t fused_row(const struct model *m, enum site site, int64_t row)
{
    int64_t k = m->k_dim, v = m->v_heads / m->k_heads * m->v_dim;
    int64_t group = 2 * k + 2 * v, key = model_key(m);

    if (site == SITE_GDN_Z) return row / v * group + 2 * k + v + row % v;
    if (row < key) return row / k * group + row % k;
    row -= key;
    if (row < key) return row / k * group + k + row % k;
    row -= key;
    return row / v * group + 2 * k + row % v;
}

void peft_shape(const struct model *m, const struct param *p, int64_t r,
                bool blocks, int64_t dim[2])
{
    bool a = p->role == PARAM_LORA_A, fused = peft_is_fused(m, p);
    int64_t rank = fused && blocks ? 2 * r : r;

    if (site_is_routed(p->site)) {
        dim[0] = a ? m->experts * r : p->dim[2];
        dim[1] = a ? p->dim[1] : m->experts * r;
        return;
    }
    dim[0] = a ? rank : fused ? fused_rows(m) : p->dim[0];
    dim[1] = a ? p->dim[1] : rank;
}

int64_t peft_index(const struct model *m, const struct param *p, int64_t r,
                   int64_t first, bool blocks, int64_t i)
{
    int64_t expert, j, x, e = m->experts;
    int64_t shift = blocks && p->site == SITE_GDN_Z ? r : 0;

    if (site_is_routed(p->site) && p->role == PARAM_LORA_A) {
        j = i % r;                          /* [expert, x, j] */
        x = i / r % p->dim[1];
        expert = first + i / r / p->dim[1];
        return (expert * r + j) * p->dim[1] + x;
    }
    if (site_is_routed(p->site)) {
        x = i % p->dim[2];                  /* [expert, j, x] */
        j = i / p->dim[2] % r;
        expert = first + i / p->dim[2] / r;
        return x * r * e + j * e + expert;
    }
    if (!peft_is_fused(m, p)) return i;
    if (p->role == PARAM_LORA_A) return shift * p->dim[1] + i;
    return fused_row(m, p->site, i / r) * (blocks ? 2 * r : r) + shift
        + i % r;
}
