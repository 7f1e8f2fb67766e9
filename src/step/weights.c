/*
** weights.c - base weights, adapters, their gradients and Adam's moments of
** one rank, and the GEMM workspaces: see weights.h.
**
** Everything here but gradients and workspaces is baseline: allocated by
** step_new, before any wave. The list of parameters is model/param.h's; this
** file only gives each entry its place in the layer tables. Weights that the
** traced framework has side by side in one projection are one block: what is
** left of its segment, or is not, decides where small tensors of a wave lie.
*/
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "step/weights.h"

#define PLAIN_BYTES (32 * 1024 * 1024 + 1024)
#define BLAS_BYTES (32 * 1024 * 1024)

static const struct { const char *name; enum weight w; } base_names[] = {
    {"input_layernorm.weight", W_NORM1},
    {"post_attention_layernorm.weight", W_NORM2},
    {"self_attn.q_proj.weight", W_Q},
    {"self_attn.k_proj.weight", W_K},
    {"self_attn.v_proj.weight", W_V},
    {"self_attn.o_proj.weight", W_O},
    {"self_attn.q_proj.bias", W_Q_BIAS},
    {"self_attn.k_proj.bias", W_K_BIAS},
    {"self_attn.v_proj.bias", W_V_BIAS},
    {"self_attn.q_norm.weight", W_Q_NORM},
    {"self_attn.k_norm.weight", W_K_NORM},
    {"linear_attn.in_proj_qkv.weight", W_QKV},
    {"linear_attn.in_proj_z.weight", W_Z},
    {"linear_attn.in_proj_b.weight", W_B},
    {"linear_attn.in_proj_a.weight", W_A},
    {"linear_attn.conv1d.weight", W_CONV},
    {"linear_attn.A_log", W_A_LOG},
    {"linear_attn.dt_bias", W_DT_BIAS},
    {"linear_attn.norm.weight", W_GDN_NORM},
    {"linear_attn.out_proj.weight", W_GDN_OUT},
    {"mlp.gate.weight", W_ROUTER},
    {"mlp.experts.gate_up_proj", W_EXPERT_UP},
    {"mlp.experts.down_proj", W_EXPERT_DOWN},
    {"mlp.shared_expert.gate_proj.weight", W_SHARED_GATE},
    {"mlp.shared_expert.up_proj.weight", W_SHARED_UP},
    {"mlp.shared_expert.down_proj.weight", W_SHARED_DOWN},
    {"mlp.shared_expert_gate.weight", W_SHARED_SIGMA},
    {"mlp.gate_proj.weight", W_MLP_GATE},
    {"mlp.up_proj.weight", W_MLP_UP},
    {"mlp.down_proj.weight", W_MLP_DOWN},
};

static struct tensor *outside_tensor(struct step *s, const char *name)
{
    if (strcmp(name, "embed_tokens.weight") == 0) return &s->embedding;
    if (strcmp(name, "norm.weight") == 0) return &s->final_norm;
    if (strcmp(name, "lm_head.weight") == 0) return &s->head;
    return NULL;
}

static struct tensor *layer_tensor(struct layer_weights *lw, const char *name)
{
    size_t i;

    for (i = 0; i < sizeof base_names / sizeof base_names[0]; i++)
        if (strcmp(base_names[i].name, name) == 0)
            return &lw->w[base_names[i].w];
    return NULL;
}

/* Where a parameter lives in the tables. */
static struct tensor *slot_of(struct step *s, const struct param *p)
{
    struct adapter *a;

    if (p->layer < 0) return outside_tensor(s, p->tensor);
    if (p->role == PARAM_BASE)
        return layer_tensor(&s->lw[p->layer], p->tensor);
    a = &s->lw[p->layer].site[p->site];
    return p->role == PARAM_LORA_A ? &a->a : &a->b;
}

/* A parameter as a matrix: all but the last used dimension are rows. The last
** of an adapter may be a rank of 1. */
static void shape_of(const struct param *p, int64_t *rows, int64_t *cols)
{
    bool routed = site_is_routed(p->site);
    int d = p->role == PARAM_BASE ? 3 : routed ? 2 : 1;

    while (p->role == PARAM_BASE && d > 0 && p->dim[d] == 1) d--;
    *cols = p->dim[d];
    *rows = p->count / p->dim[d];
}

static void new_moments(struct step *s, const struct param *p, int64_t rows,
                        int64_t cols)
{
    struct adapter *a = &s->lw[p->layer].site[p->site];
    int first = p->role == PARAM_LORA_A ? 0 : 2;
    int i;

    if (p->role == PARAM_BASE || !s->c.optimizer) return;
    for (i = first; i < first + 2; i++) {
        a->moment[i] = ten_acc(s, CAT_OTHER, "optimizer.moment", rows, cols);
        if (s->k != NULL && s->rc == ERR_OK && s->c.adapters != NULL
            && peft_has_moments(s->c.adapters))
            adapters_load(s, p, i == first ? PEFT_MEAN : PEFT_SQUARE,
                          a->moment[i].m);
        else
            RUN(s, fill, .x = a->moment[i].m, .value = 0);
    }
}

/* The first contents of a parameter. */
static void set_param(struct step *s, const struct param *p, struct mat x)
{
    if (p->role == PARAM_BASE && s->c.checkpoint != NULL)
        weights_load(s, p, x);
    else if (p->role != PARAM_BASE && s->c.adapters != NULL)
        adapters_load(s, p, PEFT_VALUE, x);
    else
        weights_fill(s, p, x);
}

/* Entry i of the list, with room for what joins it; or the next rows of the
** room that the entry before it left. */
static struct tensor new_tensor(struct step *s, const struct param_list *l,
                                int64_t i, struct mat *room)
{
    const struct param *p = &l->p[i];
    struct tensor t = {NULL, *room};
    bool apart = (s->c.mode.otherwise & OTHERWISE_WEIGHTS_APART) != 0;

    if (!p->joins || apart)
        t = ten_act(s, CAT_OTHER,
                    p->role == PARAM_BASE ? "weights" : "adapters",
                    apart ? p->count : param_joined(l, i), 1);
    *room = mat_rows(t.m, p->count, t.m.rows - p->count);
    t.m = mat_rows(t.m, 0, p->count);
    return t;
}

static void new_param(struct step *s, const struct param_list *l, int64_t i,
                      struct mat *room)
{
    const struct param *p = &l->p[i];
    struct tensor *t = slot_of(s, p);
    int64_t rows, cols;

    if (t == NULL) {
        s->rc = err_set(s->e, ERR_RUN, "the step has no use for parameter %s",
                        p->tensor);
        return;
    }
    shape_of(p, &rows, &cols);
    s->layer = p->layer;
    *t = new_tensor(s, l, i, room);
    t->m = mat_shape(t->m, rows, cols);
    new_moments(s, p, rows, cols);
    if (s->rc == ERR_OK && s->k != NULL) set_param(s, p, t->m);
}

/* Is the parameter there from the start? */
static bool is_baseline(const struct step *s, const struct param *p)
{
    return !s->c.stream ||
           (p->layer < 0 && strcmp(p->tensor, "lm_head.weight") != 0);
}

/* ---- kept for the next step ---------------------------------------------- */

struct step_base {
    struct tensor embedding, head, final_norm;
    int64_t layers;
    struct layer_weights lw[];  /* [layers] */
};

int step_keep(const struct step *s, struct step_base **out, struct err *e)
{
    size_t bytes = (size_t)s->m->layers * sizeof *s->lw;
    struct step_base *b = malloc(sizeof *b + bytes);

    assert(s->k == NULL);
    if (b == NULL) return err_nomem(e);
    b->embedding = s->embedding;
    b->head = s->head;
    b->final_norm = s->final_norm;
    b->layers = s->m->layers;
    memcpy(b->lw, s->lw, bytes);
    *out = b;
    return ERR_OK;
}

void step_base_free(struct step_base *b)
{
    free(b);
}

static int weights_again(struct step *s)
{
    const struct step_base *b = s->c.base;

    assert(s->k == NULL && b->layers == s->m->layers);
    s->embedding = b->embedding;
    s->head = b->head;
    s->final_norm = b->final_norm;
    memcpy(s->lw, b->lw, (size_t)b->layers * sizeof *b->lw);
    return ERR_OK;
}

int weights_new(struct step *s)
{
    struct param_list list;
    struct mat room = {0};
    int64_t i;

    if (s->c.base != NULL) return weights_again(s);
    s->rc = param_list_make(s->m, s->c.ep, s->c.lora_rank, &list, s->e);
    if (s->rc != ERR_OK) return s->rc;
    for (i = 0; i < list.n && s->rc == ERR_OK; i++)
        if (is_baseline(s, &list.p[i])) new_param(s, &list, i, &room);
    if (s->c.adapters != NULL) s->adam_step = peft_step(s->c.adapters);
    s->layer = -1;
    param_list_free(&list);
    return s->rc;
}

void weights_layer(struct step *s)
{
    struct param_list list;
    int64_t layer = s->layer, i;
    struct mat room = {0};

    if (s->rc != ERR_OK) return;
    s->rc = param_list_make(s->m, s->c.ep, s->c.lora_rank, &list, s->e);
    if (s->rc != ERR_OK) return;
    for (i = 0; i < list.n && s->rc == ERR_OK; i++)
        if (list.p[i].layer == layer) new_param(s, &list, i, &room);
    s->layer = layer;
    param_list_free(&list);
}

void weights_layer_drop(struct step *s)
{
    struct layer_weights *lw = &s->lw[s->layer];
    int i;

    for (i = 0; i < W_COUNT; i++) ten_free(s, &lw->w[i]);
    for (i = 0; i < SITE_COUNT; i++) {
        ten_free(s, &lw->site[i].a);
        ten_free(s, &lw->site[i].b);
    }
}

void workspace_use(struct step *s, enum workspace w)
{
    static const struct { int n; int64_t bytes; const char *op; } kind[] = {
        [WS_PLAIN] = {1, PLAIN_BYTES, "workspace.gemm"},
        [WS_GROUPED] = {4, PLAIN_BYTES, "workspace.grouped"},
        [WS_BLAS] = {1, BLAS_BYTES, "workspace.blas"},
        [WS_AUTOGRAD] = {1, BLAS_BYTES, "workspace.autograd"},
    };
    int64_t layer = s->layer;
    int i;

    assert(w < WS_COUNT);
    if (s->ws[w][0].b != NULL || s->rc != ERR_OK) return;
    s->layer = -1;
    for (i = 0; i < kind[w].n; i++)
        s->ws[w][i] = ten_of(s, CAT_WORKSPACE, kind[w].op, 1, kind[w].bytes,
                             DT_U8);
    s->layer = layer;
    if (s->rc == ERR_OK && s->k != NULL && s->dev->ops->workspace != NULL)
        s->rc = s->dev->ops->workspace(s->dev, s->ws[w][0].m.p,
                                       (size_t)kind[w].bytes, s->e);
}

void adapter_gradients(struct step *s, struct adapter *a)
{
    a->grad_fresh = a->grad_a.b == NULL;
    if (!a->grad_fresh) return;
    a->grad_a = ten_act(s, CAT_ADAPTER_GRADIENTS, "adapter.gradient",
                        a->a.m.rows, a->a.m.cols);
    a->grad_b = ten_act(s, CAT_ADAPTER_GRADIENTS, "adapter.gradient",
                        a->b.m.rows, a->b.m.cols);
}

/* Calls f on every adapter that has gradients. */
static void each_adapter(struct step *s, int64_t arg,
                         void (*f)(struct step *, enum site, struct adapter *,
                                   int64_t))
{
    int64_t i;
    int j;

    for (i = 0; i < s->m->layers && s->rc == ERR_OK; i++)
        for (j = 0; j < SITE_COUNT; j++)
            if (s->lw[i].site[j].grad_a.b != NULL)
                f(s, (enum site)j, &s->lw[i].site[j], arg);
}

static void drop_one(struct step *s, enum site site, struct adapter *a,
                     int64_t unused)
{
    (void)site;
    (void)unused;
    ten_free(s, &a->grad_a);
    ten_free(s, &a->grad_b);
}

void adapters_drop(struct step *s)
{
    each_adapter(s, 0, drop_one);
}

/* Gradients are partial sums over a rank's rows. With expert parallelism an
** expert lives once in each EP group: there its gradient is whole already
** (model.md 5), and the groups' are summed. */
static void reduce_one(struct step *s, enum site site, struct adapter *a,
                       int64_t unused)
{
    bool expert = site_is_routed(site);
    int every = expert ? (int)s->c.ep : 1;

    (void)unused;
    if (expert && s->c.ep == s->cp) return;
    if (s->rc == ERR_OK)
        s->rc = s->comm->ops->all_reduce(s->comm, s->dev, "adapter gradients",
                                         a->grad_a.m, every, s->e);
    if (s->rc == ERR_OK)
        s->rc = s->comm->ops->all_reduce(s->comm, s->dev, "adapter gradients",
                                         a->grad_b.m, every, s->e);
}

void adapters_reduce(struct step *s)
{
    if (s->comm != NULL) each_adapter(s, 0, reduce_one);
}

static void update_one(struct step *s, enum site site, struct adapter *a,
                       int64_t step)
{
    (void)site;
    RUN(s, adam, .p = a->a.m, .g = a->grad_a.m, .m = a->moment[0].m,
        .v = a->moment[1].m, .lr = s->c.learning_rate, .beta1 = 0.9,
        .beta2 = 0.999, .eps = 1e-8, .step = step);
    RUN(s, adam, .p = a->b.m, .g = a->grad_b.m, .m = a->moment[2].m,
        .v = a->moment[3].m, .lr = s->c.learning_rate, .beta1 = 0.9,
        .beta2 = 0.999, .eps = 1e-8, .step = step);
}

void adapters_update(struct step *s, int64_t adam_step)
{
    if (s->k != NULL && s->c.optimizer && s->c.learning_rate > 0)
        each_adapter(s, adam_step, update_one);
}
