/* mode.c - see mode.h */
#include "model/mode.h"

#include <assert.h>
#include <string.h>

#define BAD(...) err_set(e, ERR_INPUT, __VA_ARGS__)

const char *const mode_recompute_words[] = {
    [RECOMPUTE_FULL] = "full", [RECOMPUTE_NONE] = "none",
    [RECOMPUTE_SELECTIVE] = "selective", [RECOMPUTE_COUNT] = NULL
};
const char *const mode_module_words[] = {"core_attn", "mlp", "moe", NULL};
const char *const mode_wave_words[] = {
    [WAVE_TRAIN] = "train", [WAVE_HIDDEN] = "hidden",
    [WAVE_HIDDEN_LOSS] = "hidden-loss", [WAVE_COUNT] = NULL
};

const char *const mode_otherwise_words[] = {
    "norm-freed", "v-copied", "fused", "autograd", "rounded", "table-late",
    "blas-late", "wide-last", "router-state", "qkv-sliced", "embedding-whole",
    "adapter-scaled", "residual-fused", "weights-apart", NULL
};

static void join(const char *const words[], unsigned set,
                 char out[MODE_MODULES_SIZE])
{
    int i;

    out[0] = '\0';
    for (i = 0; words[i] != NULL; i++) {
        if ((set >> i & 1) == 0) continue;
        if (out[0] != '\0') strcat(out, "+");
        strcat(out, words[i]);
    }
}

void mode_modules(unsigned modules, char out[MODE_MODULES_SIZE])
{
    assert(modules < MODULE_MOE << 1);
    join(mode_module_words, modules, out);
}

void mode_otherwise(unsigned otherwise, char out[MODE_MODULES_SIZE])
{
    assert(otherwise < OTHERWISE_WEIGHTS_APART << 1);
    join(mode_otherwise_words, otherwise, out);
}

struct mode_keep mode_keep(const struct mode *o)
{
    unsigned again = o->recompute == RECOMPUTE_SELECTIVE ? o->modules : 0;

    if (o->no_grad || o->recompute == RECOMPUTE_FULL)
        return (struct mode_keep){false, false, false};
    return (struct mode_keep){true, (again & MODULE_CORE_ATTN) == 0,
                              (again & (MODULE_MLP | MODULE_MOE)) == 0};
}

static int check_modules(const struct mode *o, const struct model *m,
                         struct err *e)
{
    bool selective = o->recompute == RECOMPUTE_SELECTIVE;

    if (o->modules != 0 && !selective)
        return BAD("recompute_modules: go with recompute = \"selective\" "
                   "only, not with \"%s\"",
                   mode_recompute_words[o->recompute]);
    if (o->modules == 0 && selective)
        return BAD("recompute_modules: selective recompute needs one of "
                   "core_attn, mlp and moe");
    if ((o->modules & MODULE_MOE) != 0 && m->experts == 0)
        return BAD("recompute_modules: moe: the model has no experts (use "
                   "mlp)");
    if ((o->modules & MODULE_MLP) != 0 && m->experts > 0)
        return BAD("recompute_modules: mlp: every layer of the model has "
                   "experts (use moe)");
    return ERR_OK;
}

/* Key heads may be fewer than ranks, which then share them. */
static int check_tp(const struct mode *o, const struct model *m,
                    struct err *e)
{
    int64_t tp = mode_tp(o), kv = m->kv_heads;
    const struct { const char *what; int64_t n; } part[] = {
        {"query heads (num_attention_heads)", m->q_heads},
        {"key heads of the delta net (linear_num_key_heads)", m->k_heads},
        {"value heads of the delta net (linear_num_value_heads)", m->v_heads},
        {"columns of the MLP (intermediate_size)", m->ffn},
        {"columns of the shared expert (shared_expert_intermediate_size)",
         m->shared_ffn},
    };
    size_t i;

    if (tp > MODE_MAX_TP)
        return BAD("tp: %lld is not from 1 to %d", (long long)tp,
                   MODE_MAX_TP);
    for (i = 0; i < sizeof part / sizeof *part; i++)
        if (part[i].n % tp != 0)
            return BAD("tp: %lld does not divide the %lld %s",
                       (long long)tp, (long long)part[i].n, part[i].what);
    if (kv % tp != 0 && tp % kv != 0)
        return BAD("tp: %lld neither divides the %lld key heads "
                   "(num_key_value_heads) nor is a multiple of them",
                   (long long)tp, (long long)kv);
    return ERR_OK;
}

int mode_check(const struct mode *o, const struct model *m, struct err *e)
{
    int rc = check_modules(o, m, e);

    if (rc == ERR_OK) rc = check_tp(o, m, e);
    if (rc != ERR_OK || !o->no_grad || o->wave == WAVE_HIDDEN) return rc;
    return BAD("grad: a wave without gradients ends with the hidden states "
               "(use wave = \"hidden\")");
}
