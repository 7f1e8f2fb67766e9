/*
** step_world.h - small models that really compute: all ranks of one wave as
** threads, on the cpu device unless another whose memory the host can read
** is named, losses and every adapter gradient gathered.
*/
#ifndef STEP_WORLD_H
#define STEP_WORLD_H

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "step/layers.h"
#include "model_text.h"

#define WORLD_DEADLINE_MS 20000

/* The small model of model.md section 6. */
static const char world_hybrid[] =
    "{\"model_type\":\"qwen3_5_moe\",\"tie_word_embeddings\":false,"
    "\"text_config\":{\"model_type\":\"qwen3_5_moe_text\","
    "\"hidden_size\":64,\"num_hidden_layers\":4,"
    "\"full_attention_interval\":4,\"attn_output_gate\":true,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"head_dim\":16,"
    "\"partial_rotary_factor\":0.25,\"rope_parameters\":"
    "{\"rope_theta\":10000000,\"partial_rotary_factor\":0.25},"
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"linear_key_head_dim\":16,\"linear_value_head_dim\":16,"
    "\"linear_conv_kernel_dim\":4,\"num_experts\":8,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,"
    "\"shared_expert_intermediate_size\":32,\"vocab_size\":256,"
    "\"max_position_embeddings\":4096,\"rms_norm_eps\":1e-06,"
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}}";

/* Two narrow layers of the same family. */
static const char world_small[] =
    "{\"model_type\":\"qwen3_5_moe\",\"tie_word_embeddings\":false,"
    "\"text_config\":{\"model_type\":\"qwen3_5_moe_text\","
    "\"hidden_size\":16,\"num_hidden_layers\":2,"
    "\"full_attention_interval\":2,\"attn_output_gate\":true,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,"
    "\"partial_rotary_factor\":0.25,\"rope_parameters\":"
    "{\"rope_theta\":10000000,\"partial_rotary_factor\":0.25},"
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"linear_key_head_dim\":4,\"linear_value_head_dim\":8,"
    "\"linear_conv_kernel_dim\":4,\"num_experts\":4,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":8,"
    "\"shared_expert_intermediate_size\":8,\"vocab_size\":32,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-06,"
    "\"hidden_act\":\"silu\",\"tie_word_embeddings\":false}}";

/* world_small as qwen3_next: GDN projections fused, twice as many value as key
** heads; every kind of adapter. */
static const char world_fused[] =
    "{\"model_type\":\"qwen3_next\",\"hidden_size\":16,"
    "\"num_hidden_layers\":2,\"full_attention_interval\":2,"
    "\"num_attention_heads\":2,\"num_key_value_heads\":1,\"head_dim\":8,"
    "\"partial_rotary_factor\":0.25,\"rope_theta\":10000000,"
    "\"linear_num_key_heads\":2,\"linear_num_value_heads\":4,"
    "\"linear_key_head_dim\":4,\"linear_value_head_dim\":8,"
    "\"linear_conv_kernel_dim\":4,\"num_experts\":4,"
    "\"num_experts_per_tok\":2,\"moe_intermediate_size\":8,"
    "\"shared_expert_intermediate_size\":8,\"vocab_size\":32,"
    "\"max_position_embeddings\":64,\"rms_norm_eps\":1e-06,"
    "\"norm_topk_prob\":true,\"hidden_act\":\"silu\","
    "\"mlp_only_layers\":[],\"decoder_sparse_step\":1,"
    "\"tie_word_embeddings\":false}";

struct world {
    struct model m;
    struct batch b;
    int32_t *ids, *target;
    double *weight;
    int64_t *forced;        /* routes to replay, drawn at random */
    struct step_label *more;    /* further labels; owned, may be NULL */
    int64_t n_more;
    uint64_t seed;          /* of weights; 7 by world_new */
};

/* One way of running it. */
struct run {
    int64_t cp, ep, cut, lora;
    enum dtype act;
    int64_t waves;
    double learning_rate;
    bool forced;            /* routes are replayed, not chosen */
    bool trace;             /* allocators keep their events */
    struct mode mode;
    const struct dev_ops *device;   /* NULL: cpu */
    const struct peft *adapters;    /* NULL: random ones */
    bool dump;              /* step_dumped has the last wave's numbers */
};

struct outcome {
    double loss;            /* of the last wave */
    double *grad;           /* every adapter, experts in order; owned */
    int64_t n_grad;
    struct step_result res[PLAN_MAX_RANKS];
    struct mem_stats stats[PLAN_MAX_RANKS];
    int64_t *received;      /* [waves][layers][cp] pairs; owned */
};

static void world_need(int rc, const struct err *e)
{
    if (rc == ERR_OK) return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static uint64_t world_random(uint64_t *s)
{
    *s ^= *s << 13;
    *s ^= *s >> 7;
    *s ^= *s << 17;
    return *s;
}

/* Distinct experts for every layer and row. */
static int64_t *world_routes(const struct world *w, uint64_t *s)
{
    int64_t k = w->m.top_k, n = w->m.layers * w->b.tokens * k, i;
    int64_t *out = malloc((size_t)(n + 1) * sizeof *out);
    uint64_t experts = (uint64_t)w->m.experts;

    if (out == NULL) abort();
    for (i = 0; i < n; i++)
        out[i] = i % k == 0
            ? (int64_t)(world_random(s) % experts)
            : (int64_t)(((uint64_t)out[i - 1] + 1 + world_random(s) % 3)
                        % experts);
    return out;
}

/* Segments by parent (-1) and length; labels on four rows of five. */
static void world_new(struct world *w, const char *json,
                      const int64_t *parent, const int64_t *tokens, int64_t n)
{
    uint64_t s = 88172645463325252u;
    struct err e;
    int64_t i;
    size_t t;

    world_need(model_of_text(json, &w->m, &e), &e);
    strcpy(w->m.name, "tiny");
    world_need(batch_from_tree(parent, tokens, n, &w->b, &e), &e);
    t = (size_t)w->b.tokens;
    w->ids = malloc(t * sizeof *w->ids);
    w->target = malloc(t * sizeof *w->target);
    w->weight = malloc(t * sizeof *w->weight);
    for (i = 0; i < w->b.tokens; i++) {
        w->ids[i] = (int32_t)(world_random(&s) % (uint64_t)w->m.vocab);
        w->target[i] = world_random(&s) % 5 == 0 ? -1
            : (int32_t)(world_random(&s) % (uint64_t)w->m.vocab);
        w->weight[i] = (double)(world_random(&s) % 1000) / 100000;
    }
    w->forced = world_routes(w, &s);
    w->more = NULL;
    w->n_more = 0;
    w->seed = 7;
}

static void world_free(struct world *w)
{
    free(w->ids);
    free(w->target);
    free(w->weight);
    free(w->forced);
    free(w->more);
    batch_free(&w->b);
    model_free(&w->m);
}

static int64_t world_labels(const struct world *w, const struct plan *p,
                            int64_t rank)
{
    int64_t rows = p->rank[rank].attention_rows, i, n = 0;
    int32_t *own = malloc((size_t)(rows + 1) * sizeof *own);

    plan_gather(p, rank, LAYER_ATTENTION, w->target, sizeof *own, own);
    for (i = 0; i < rows; i++) n += own[i] >= 0;
    free(own);
    return n;
}

/* Further labels of a rank's rows. */
static int64_t world_more(const struct world *w, const struct plan *p,
                          int64_t rank)
{
    const struct rank_plan *r = &p->rank[rank];
    int64_t i, j, n = 0;

    for (i = 0; i < r->n_attention; i++)
        for (j = 0; j < w->n_more; j++)
            n += w->more[j].row >= r->attention[i].start
                && w->more[j].row < r->attention[i].start
                   + r->attention[i].len;
    return n;
}

static struct step_config world_config(const struct world *w,
                                       const struct run *run,
                                       const struct plan *p, int64_t rank)
{
    return (struct step_config){
        .model = &w->m, .plan = p, .rank = rank, .ep = run->ep,
        .mode = run->mode, .lora_rank = run->lora, .lora_alpha = 32,
        .q_block = 16,
        .k_block = 8, .seed = w->seed,
        .head_rows = world_labels(w, p, rank),
        .more_labels = world_more(w, p, rank),
        .learning_rate = run->learning_rate, .adapters = run->adapters,
        .dump = run->dump,
        .optimizer = run->learning_rate > 0,
    };
}

/* ---- ranks -------------------------------------------------------------- */

struct session;

struct world_rank {
    struct session *all;
    struct comm *comm;
    struct dev *dev;
    struct mem *mem;
    struct step *s;
    struct step_config c;
    struct step_result res;
    pthread_t thread;
    int rc;
    struct err e;
};

/* All ranks of one way of running it, with waves to come. */
struct session {
    const struct world *w;
    struct run run;
    struct plan plan;
    struct world_rank r[PLAN_MAX_RANKS];
    int64_t wave;
};

static void *rank_open(void *arg)
{
    struct world_rank *r = arg;
    struct mem_config mc = {.trace = r->all->run.trace};
    struct dev_options o = {.act = r->all->run.act, .rank = (int)r->c.rank};

    const struct dev_ops *ops = r->all->run.device;

    if (ops == NULL) ops = &dev_cpu;
    world_need(ops->open(&o, &r->dev, &r->e), &r->e);
    world_need(mem_new(&mc, r->dev->source, &r->mem, &r->e), &r->e);
    r->rc = step_new(&r->c, r->dev, r->mem, r->comm, &r->s, &r->e);
    return NULL;
}

static void *rank_wave(void *arg)
{
    struct world_rank *r = arg;
    const struct world *w = r->all->w;
    struct step_data d = {w->ids, w->target, w->weight,
                          r->all->run.forced ? w->forced : NULL, w->more,
                          w->n_more};

    r->rc = step_wave(r->s, r->all->wave, &d, &r->res, &r->e);
    return NULL;
}

/* Runs f on every rank's thread; ranks must succeed. */
static void each_rank(struct session *x, void *(*f)(void *))
{
    int64_t i;

    for (i = 0; i < x->run.cp; i++)
        pthread_create(&x->r[i].thread, NULL, f, &x->r[i]);
    for (i = 0; i < x->run.cp; i++) pthread_join(x->r[i].thread, NULL);
    for (i = 0; i < x->run.cp; i++) world_need(x->r[i].rc, &x->r[i].e);
}

static inline struct session *world_open(const struct world *w,
                                         const struct run *run)
{
    struct session *x = calloc(1, sizeof *x);
    struct plan_options o = {.cp = run->cp, .ep = run->ep, .tp = 1,
                             .profile = PLAN_NEW, .owned_ms = -1,
                             .cut_rows = run->cut};
    struct comm *comm[PLAN_MAX_RANKS] = {NULL};
    struct err e;
    int64_t i;

    if (x == NULL) abort();
    x->w = w;
    x->run = *run;
    world_need(plan_make(&w->m, &w->b, &o, &x->plan, &e), &e);
    if (run->cp > 1)
        world_need(comm_local((int)run->cp, WORLD_DEADLINE_MS, comm, &e), &e);
    for (i = 0; i < run->cp; i++) {
        x->r[i].all = x;
        x->r[i].comm = comm[i];
        x->r[i].c = world_config(w, run, &x->plan, i);
    }
    each_rank(x, rank_open);
    return x;
}

/* One wave; its loss. */
static inline double world_wave(struct session *x)
{
    each_rank(x, rank_wave);
    x->wave++;
    return x->r[0].res.loss;
}

static inline void world_close(struct session *x)
{
    int64_t i;

    for (i = 0; i < x->run.cp; i++) {
        step_free(x->r[i].s);
        mem_free_all(x->r[i].mem);
        x->r[i].dev->ops->close(x->r[i].dev);
        if (x->r[i].comm != NULL) x->r[i].comm->ops->close(x->r[i].comm);
    }
    plan_free(&x->plan);
    free(x);
}

/* ---- gradients ---------------------------------------------------------- */

static double world_value(const struct tensor *t, int64_t i)
{
    uint32_t bits;
    float x;

    if (t->m.t == DT_F64) return ((const double *)t->m.p)[i];
    if (t->m.t == DT_BF16) {
        bits = (uint32_t)((const uint16_t *)t->m.p)[i] << 16;
        memcpy(&x, &bits, sizeof x);
        return (double)x;
    }
    return (double)((const float *)t->m.p)[i];
}

static void take_tensor(struct outcome *o, const struct tensor *t)
{
    int64_t i, n = t->b == NULL ? 0 : t->m.rows * t->m.cols;

    o->grad = realloc(o->grad, (size_t)(o->n_grad + n + 1) * sizeof(double));
    for (i = 0; i < n; i++) o->grad[o->n_grad++] = world_value(t, i);
}

/* Adapters that every rank has come from rank 0, experts from each. */
static void take_gradients(const struct session *x, struct outcome *o)
{
    const struct world_rank *r = x->r;
    int64_t layer, q;
    int site;

    for (layer = 0; layer < x->w->m.layers; layer++)
        for (site = 0; site < SITE_COUNT; site++) {
            bool expert = site == SITE_EXPERT_UP || site == SITE_EXPERT_DOWN;
            int64_t n = expert ? x->run.ep : 1;

            for (q = 0; q < n; q++)
                take_tensor(o, &r[q].s->lw[layer].site[site].grad_a);
            for (q = 0; q < n; q++)
                take_tensor(o, &r[q].s->lw[layer].site[site].grad_b);
        }
}

static inline void world_run(const struct world *w, const struct run *run,
                             struct outcome *o)
{
    struct session *x = world_open(w, run);
    int64_t i, l, wave, *at;

    memset(o, 0, sizeof *o);
    at = calloc((size_t)(run->waves * w->m.layers * run->cp), sizeof *at);
    if (at == NULL) abort();
    o->received = at;
    for (wave = 0; wave < run->waves; wave++) {
        o->loss = world_wave(x);
        for (l = 0; l < w->m.layers; l++)
            for (i = 0; i < run->cp; i++) *at++ = x->r[i].res.received[l];
    }
    for (i = 0; i < run->cp; i++) {
        o->res[i] = x->r[i].res;
        mem_stats(x->r[i].mem, &o->stats[i]);
    }
    take_gradients(x, o);
    world_close(x);
}

static inline void outcome_free(struct outcome *o)
{
    free(o->grad);
    free(o->received);
}

/* |a - b| / |b|, or 1e9 where they cannot be compared. */
static inline double world_distance(const struct outcome *a,
                                    const struct outcome *b)
{
    double d = 0, n = 0;
    int64_t i;

    if (a->n_grad != b->n_grad || a->n_grad == 0) return 1e9;
    for (i = 0; i < a->n_grad; i++) {
        d += (a->grad[i] - b->grad[i]) * (a->grad[i] - b->grad[i]);
        n += b->grad[i] * b->grad[i];
    }
    return n > 0 ? sqrt(d / n) : 1e9;
}

#endif
