/*
** Base weights from a folder are those that were written into it, however a
** family packs them: as in the config's own list, GDN projections fused by
** key head, experts one by one; on every rank of an expert group.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "safetensors.h"
#include "model/weights_map.h"
#include "step_world.h"

enum { H = 16, FFN = 8, EXPERTS = 4, KEY_HEADS = 2, K = 4, VALUE = 2 * 8 };

/* ---- writing ------------------------------------------------------------ */

struct source { const struct step *s; struct st *out; int64_t layer; };

static void put(const struct source *w, const char *name, const int64_t *dim,
                int64_t n_dim, const float *x)
{
    char full[256];
    int64_t i, n = 1;

    for (i = 0; i < n_dim; i++) n *= dim[i];
    stored_full_name(w->s->m, w->layer, name, full, sizeof full);
    st_tensor(w->out, full, dim, n_dim);
    st_f32(w->out, x, n);
}

static const float *values(const struct source *w, enum weight x)
{
    return w->s->lw[w->layer].w[x].m.p;
}

/* Rows of several matrices, group by group: what model.md 1 says of qwen3_next
** (per key head q, k, the v of its value heads, their z; b, then a). */
struct part { const float *x; int64_t rows; };

static void put_groups(const struct source *w, const char *name,
                       const struct part *p, int n)
{
    int64_t dim[2] = {0, H}, j;
    char full[256];
    int i;

    for (i = 0; i < n; i++) dim[0] += KEY_HEADS * p[i].rows;
    stored_full_name(w->s->m, w->layer, name, full, sizeof full);
    st_tensor(w->out, full, dim, 2);
    for (j = 0; j < KEY_HEADS; j++)
        for (i = 0; i < n; i++)
            st_f32(w->out, p[i].x + j * p[i].rows * H, p[i].rows * H);
}

static void put_fused(const struct source *w)
{
    const float *qkv = values(w, W_QKV);
    struct part qkvz[4] = {
        {qkv, K}, {qkv + KEY_HEADS * K * H, K},
        {qkv + 2 * KEY_HEADS * K * H, VALUE}, {values(w, W_Z), VALUE}
    };
    struct part ba[2] = {{values(w, W_B), 2}, {values(w, W_A), 2}};

    put_groups(w, "linear_attn.in_proj_qkvz.weight", qkvz, 4);
    put_groups(w, "linear_attn.in_proj_ba.weight", ba, 2);
}

static void put_experts(const struct source *w)
{
    static const int64_t up[2] = {FFN, H}, down[2] = {H, FFN};
    const float *x = values(w, W_EXPERT_UP), *y = values(w, W_EXPERT_DOWN);
    char name[80];
    int i;

    for (i = 0; i < EXPERTS; i++) {
        snprintf(name, sizeof name, "mlp.experts.%d.gate_proj.weight", i);
        put(w, name, up, 2, x + 2 * i * FFN * H);
        snprintf(name, sizeof name, "mlp.experts.%d.up_proj.weight", i);
        put(w, name, up, 2, x + (2 * i + 1) * FFN * H);
        snprintf(name, sizeof name, "mlp.experts.%d.down_proj.weight", i);
        put(w, name, down, 2, y + i * FFN * H);
    }
}

/* The base tensors of the list that are stored under their own names. */
static const struct { const char *name; enum weight w; } own[] = {
    {"input_layernorm.weight", W_NORM1},
    {"post_attention_layernorm.weight", W_NORM2},
    {"self_attn.q_proj.weight", W_Q}, {"self_attn.k_proj.weight", W_K},
    {"self_attn.v_proj.weight", W_V}, {"self_attn.o_proj.weight", W_O},
    {"self_attn.q_norm.weight", W_Q_NORM},
    {"self_attn.k_norm.weight", W_K_NORM},
    {"linear_attn.in_proj_qkv.weight", W_QKV},
    {"linear_attn.in_proj_z.weight", W_Z},
    {"linear_attn.in_proj_b.weight", W_B},
    {"linear_attn.in_proj_a.weight", W_A},
    {"linear_attn.conv1d.weight", W_CONV},
    {"linear_attn.A_log", W_A_LOG}, {"linear_attn.dt_bias", W_DT_BIAS},
    {"linear_attn.norm.weight", W_GDN_NORM},
    {"linear_attn.out_proj.weight", W_GDN_OUT},
    {"mlp.gate.weight", W_ROUTER},
    {"mlp.experts.gate_up_proj", W_EXPERT_UP},
    {"mlp.experts.down_proj", W_EXPERT_DOWN},
    {"mlp.shared_expert.gate_proj.weight", W_SHARED_GATE},
    {"mlp.shared_expert.up_proj.weight", W_SHARED_UP},
    {"mlp.shared_expert.down_proj.weight", W_SHARED_DOWN},
    {"mlp.shared_expert_gate.weight", W_SHARED_SIGMA},
};

static const float *own_values(const struct step *s, const struct param *p)
{
    size_t i;

    if (p->layer < 0)
        return strcmp(p->tensor, "norm.weight") == 0 ? s->final_norm.m.p
            : strcmp(p->tensor, "lm_head.weight") == 0 ? s->head.m.p
            : s->embedding.m.p;
    for (i = 0; i < sizeof own / sizeof own[0]; i++)
        if (strcmp(own[i].name, p->tensor) == 0)
            return s->lw[p->layer].w[own[i].w].m.p;
    fail_msg("no place for %s", p->tensor);
    return NULL;
}

static int64_t rank_of_shape(const int64_t *dim)
{
    int64_t n = 4;

    while (n > 1 && dim[n - 1] == 1) n--;
    return n;
}

/* Not under its own name when the folder packs what can be packed. */
static bool packs(enum param_pack p, bool packed)
{
    return packed && p != PACK_NONE && p != PACK_ROUTER;
}

/* Everything that step s holds, layer 0 in the second shard. Tensor skip
** is left out; misshape gets its first two dimensions swapped. */
static void write_folder(const struct step *s, const char *dir, bool packed,
                         const char *skip, const char *misshape)
{
    struct st shard[2] = {{BUF_INIT, BUF_INIT}, {BUF_INIT, BUF_INIT}};
    struct param_list l;
    struct err e;
    int64_t i, layer = -1;

    world_need(param_list_make(s->m, 1, 0, &l, &e), &e);
    for (i = 0; i < l.n; i++) {
        const struct param *p = &l.p[i];
        struct source w = {s, &shard[p->layer == 0], p->layer};
        int64_t dim[4] = {p->dim[0], p->dim[1], p->dim[2], p->dim[3]};

        if (p->layer != layer && p->layer >= 0) {
            if (packed) put_experts(&w);
            if (packed && s->m->kind[p->layer] == LAYER_GDN)
                put_fused(&w);
            layer = p->layer;
        }
        if (packs(p->pack, packed) || strcmp(p->tensor, skip) == 0) continue;
        if (strcmp(p->tensor, misshape) == 0) {
            dim[0] = p->dim[1];
            dim[1] = p->dim[0];
        }
        put(&w, p->tensor, dim, rank_of_shape(dim), own_values(s, p));
    }
    st_save(&shard[0], dir, "model-00001-of-00002.safetensors");
    st_save(&shard[1], dir, "model-00002-of-00002.safetensors");
    param_list_free(&l);
}

/* ---- reading back ------------------------------------------------------- */

struct loaded { struct dev *dev; struct mem *mem; struct step *s; };

static int load(const struct world *w, const struct plan *p, int64_t rank,
                const struct checkpoint *c, struct loaded *out, struct err *e)
{
    struct run run = {.cp = p->cp, .ep = p->cp, .lora = 2};
    struct step_config config = world_config(w, &run, p, rank);
    struct dev_options o = {.act = DT_F32};
    struct mem_config mc = {0};
    struct comm *comm[2] = {NULL, NULL};
    int64_t i;
    int rc;

    *out = (struct loaded){NULL, NULL, NULL};
    config.checkpoint = c;
    if (c != NULL) config.seed = 99;    /* base weights must not show it */
    world_need(dev_cpu.open(&o, &out->dev, e), e);
    world_need(mem_new(&mc, out->dev->source, &out->mem, e), e);
    if (p->cp > 1) world_need(comm_local((int)p->cp, 1000, comm, e), e);
    rc = step_new(&config, out->dev, out->mem, comm[rank], &out->s, e);
    for (i = 0; i < p->cp && p->cp > 1; i++) comm[i]->ops->close(comm[i]);
    return rc;
}

static void unload(struct loaded *x)
{
    step_free(x->s);
    mem_free_all(x->mem);
    x->dev->ops->close(x->dev);
}

static void same(const struct tensor *got, const struct tensor *want,
                 const char *what, int64_t layer)
{
    size_t n = (size_t)(want->m.rows * want->m.cols) * sizeof(float);

    assert_int_equal(got->m.rows, want->m.rows);
    assert_int_equal(got->m.cols, want->m.cols);
    if (n > 0 && memcmp(got->m.p, want->m.p, n) != 0)
        fail_msg("%s of layer %d differs", what, (int)layer);
}

static void same_weights(const struct step *got, const struct step *want)
{
    char what[40];
    int64_t l;
    int i, n = 0;

    for (l = 0; l < want->m->layers; l++)
        for (i = 0; i < W_COUNT; i++) {
            snprintf(what, sizeof what, "weight %d", i);
            same(&got->lw[l].w[i], &want->lw[l].w[i], what, l);
            n += want->lw[l].w[i].m.p != NULL;
        }
    same(&got->embedding, &want->embedding, "embedding", -1);
    same(&got->head, &want->head, "head", -1);
    same(&got->final_norm, &want->final_norm, "norm", -1);
    assert_int_equal(n, 6 + 9 + 2 * 9);  /* attention, GDN, the rest */
}

static void plan_of(const struct world *w, int64_t cp, struct plan *p)
{
    struct plan_options o = {.cp = cp, .ep = cp, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1, .cut_rows = cp > 1 ? 5 : 0};
    struct err e;

    *p = (struct plan){0};
    world_need(plan_make(&w->m, &w->b, &o, p, &e), &e);
}

static void round_trip(const char *json, bool packed)
{
    static const int64_t parent[] = {-1}, tokens[] = {9};
    char *dir = st_folder();
    struct checkpoint *c = NULL;
    struct loaded all, want, got;
    struct plan one, two;
    struct world w;
    struct err e;
    int64_t r;

    world_new(&w, json, parent, tokens, 1);
    plan_of(&w, 1, &one);
    plan_of(&w, 2, &two);
    world_need(load(&w, &one, 0, NULL, &all, &e), &e);
    write_folder(all.s, dir, packed, "", "");
    world_need(checkpoint_open(dir, &c, &e), &e);
    world_need(load(&w, &one, 0, c, &got, &e), &e);
    same_weights(got.s, all.s);
    unload(&got);
    for (r = 0; r < 2; r++) {
        world_need(load(&w, &two, r, NULL, &want, &e), &e);
        world_need(load(&w, &two, r, c, &got, &e), &e);
        same_weights(got.s, want.s);
        unload(&got);
        unload(&want);
    }
    unload(&all);
    checkpoint_close(c);
    plan_free(&one);
    plan_free(&two);
    world_free(&w);
    st_remove(dir);
}

static void test_flat(void **state)
{
    (void)state;
    round_trip(world_small, false);
}

static void test_fused(void **state)
{
    (void)state;
    round_trip(world_fused, true);
    round_trip(world_fused, false);
}

/* A tensor that is missing, and one of another shape. */
static void test_refused(void **state)
{
    static const struct { const char *skip, *misshape, *text; } bad[] = {
        {"mlp.gate.weight", "", "tensor model.language_model.layers.0.mlp."
         "gate.weight is missing"},
        {"mlp.experts.gate_up_proj", "", "layers.0.mlp.experts.gate_up_proj "
         "is missing, and so is model.language_model.layers.0.mlp.experts.0."
         "gate_proj.weight"},
        {"lm_head.weight", "", "tensor lm_head.weight is missing"},
        {"", "mlp.experts.down_proj", "layers.0.mlp.experts.down_proj has "
         "shape [16, 4, 8], the model needs [4, 16, 8]"},
        {"", "norm.weight", "model.language_model.norm.weight has shape "
         "[1, 16], the model needs [16]"},
    };
    static const int64_t parent[] = {-1}, tokens[] = {9};
    struct loaded all, got;
    struct plan one;
    struct world w;
    struct err e;
    size_t i;

    (void)state;
    world_new(&w, world_small, parent, tokens, 1);
    plan_of(&w, 1, &one);
    world_need(load(&w, &one, 0, NULL, &all, &e), &e);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct checkpoint *c = NULL;
        char *dir = st_folder();

        write_folder(all.s, dir, false, bad[i].skip, bad[i].misshape);
        world_need(checkpoint_open(dir, &c, &e), &e);
        assert_int_equal(load(&w, &one, 0, c, &got, &e), ERR_INPUT);
        if (strstr(e.text, bad[i].text) == NULL)
            fail_msg("expected \"%s\", got \"%s\"", bad[i].text, e.text);
        unload(&got);
        checkpoint_close(c);
        st_remove(dir);
    }
    unload(&all);
    plan_free(&one);
    world_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flat), cmocka_unit_test(test_fused),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
