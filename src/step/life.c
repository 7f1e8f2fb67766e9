/* life.c - a rank's step: what it accepts, its life: see step.h */
#include <stdlib.h>

#include "base/num.h"
#include "step/dump.h"
#include "step/executor.h"
#include "step/gdn_flow.h"
#include "step/layers.h"
#include "step/watch.h"

/* No tensor may come near 2^64 bytes, nor all of a rank's together. */
#define MAX_BYTES ((int64_t)1 << 55)
#define MAX_BLOCK 65536
#define MAX_LORA_RANK 65536

#define BAD(...) err_set(e, ERR_INPUT, __VA_ARGS__)

/* Which ranks hold what has to come out even. */
static int check_parallel(const struct step_config *c, struct err *e)
{
    int64_t cp = c->plan->cp, experts = c->model->experts;
    int64_t tp = mode_tp(&c->mode);

    if (cp < 1 || cp > PLAN_MAX_RANKS)
        return BAD("cp: %lld is not from 1 to %d", (long long)cp,
                   PLAN_MAX_RANKS);
    if (c->rank < 0 || c->rank >= cp)
        return BAD("rank: %lld is not from 0 to %lld", (long long)c->rank,
                   (long long)cp - 1);
    if (c->pp > 1)
        return BAD("pp: %lld: the step has one pipeline stage, all layers on "
                   "each rank (leave pp out; estimators alone are told of it)",
                   (long long)c->pp);
    if (c->ep < 1 || cp * tp % c->ep != 0)
        return BAD("ep: %lld does not divide cp%s, which is %lld",
                   (long long)c->ep, tp > 1 ? " x tp" : "",
                   (long long)(cp * tp));
    if (c->ep % tp != 0 && tp % c->ep != 0)
        return BAD("ep: %lld neither divides tp, which is %lld, nor is a "
                   "multiple of it", (long long)c->ep, (long long)tp);
    if (c->ep > 1 && experts % c->ep != 0)
        return BAD("ep: %lld does not divide the %lld experts (num_experts)",
                   (long long)c->ep, (long long)experts);
    return ERR_OK;
}

static int check_range(const char *key, int64_t v, int64_t lo, int64_t hi,
                       struct err *e)
{
    if (v >= lo && v <= hi) return ERR_OK;
    return BAD("%s: %lld is not from %lld to %lld", key, (long long)v,
               (long long)lo, (long long)hi);
}

static int check_numbers(const struct step_config *c, struct err *e)
{
    int64_t rows = c->plan->rank[c->rank].attention_rows;
    int rc = check_range("layers", c->model->layers, 1, INT16_MAX, e);

    if (rc == ERR_OK)
        rc = check_range("lora_rank", c->lora_rank, 0, MAX_LORA_RANK, e);
    if (rc == ERR_OK)
        rc = check_range("q_block", c->q_block, 1, MAX_BLOCK, e);
    if (rc == ERR_OK)
        rc = check_range("k_block", c->k_block, 1, MAX_BLOCK, e);
    if (rc == ERR_OK) rc = check_range("head_rows", c->head_rows, 0, rows, e);
    if (rc == ERR_OK)
        rc = check_range("more_labels", c->more_labels, 0, BATCH_MAX_TOKENS,
                         e);
    return rc;
}

/* Elements per row of all tensors that a layer may hold beside each other,
** generously: a bound for overflow checks and nothing else. */
static int64_t row_elements(const struct model *m, int64_t lora_rank)
{
    int64_t ffn = num_sadd(num_sadd(m->expert_ffn, m->ffn), m->shared_ffn);
    int64_t mlp = num_sadd(num_smul(8, num_sadd(ffn, m->hidden)), lora_rank);
    int64_t q = num_smul(num_sadd(m->q_heads, m->kv_heads), m->head_dim);
    int64_t gdn = num_smul(num_sadd(m->v_heads, m->k_heads),
                           num_sadd(num_sadd(m->k_dim, m->v_dim), 64));
    int64_t state = num_smul(m->v_heads, num_smul(m->k_dim, m->v_dim));
    int64_t sum = num_smul(num_sadd(num_max(m->top_k, 1), 1), mlp);

    sum = num_sadd(sum, num_smul(16, num_sadd(q, num_sadd(gdn, m->hidden))));
    sum = num_sadd(sum, num_sadd(state, m->experts));
    return num_sadd(sum, num_smul(m->layers, m->hidden));
}

/* A bound far above any device, so that no size overflows later. */
static int check_rows(const struct step_config *c, struct err *e)
{
    int64_t r, total[LAYER_KINDS] = {0, 0};
    int64_t bytes = num_smul(8, row_elements(c->model, c->lora_rank));
    static const char *const key[LAYER_KINDS] = {"attention_rows",
                                                 "gdn_rows"};
    int k;

    for (r = 0; r < c->plan->cp; r++) {
        const struct rank_plan *rp = &c->plan->rank[r];

        if (rp->attention_rows < 0 || rp->gdn_rows < 0)
            return BAD("%s: rank %lld has a negative number of rows",
                       key[rp->attention_rows < 0 ? LAYER_ATTENTION
                                                  : LAYER_GDN],
                       (long long)r);
        total[LAYER_ATTENTION] = num_sadd(total[LAYER_ATTENTION],
                                          rp->attention_rows);
        total[LAYER_GDN] = num_sadd(total[LAYER_GDN], rp->gdn_rows);
    }
    for (k = 0; k < LAYER_KINDS; k++)
        if (num_smul(total[k], bytes) > MAX_BYTES)
            return BAD("%s: %lld rows of this model overflow 64-bit sizes "
                       "(use fewer rows)", key[k], (long long)total[k]);
    return ERR_OK;
}

/* Recorded layouts come from outside: sizes that no stage has are named. */
static int check_stages(const struct step_config *c, struct err *e)
{
    const struct rank_plan *rp = &c->plan->rank[c->rank];
    int64_t i;

    for (i = 0; i < rp->n_stage; i++) {
        const struct stage *st = &rp->stage[i];

        if (st->q < 0 || st->k < 0 || st->q_len < st->q ||
            st->k_len < st->k || st->q > rp->attention_rows)
            return BAD("stages: stage %lld of rank %lld has q %lld of q_len "
                       "%lld, k %lld of k_len %lld (rows must fit their "
                       "lengths, and q the rank's rows)", (long long)i,
                       (long long)c->rank, (long long)st->q,
                       (long long)st->q_len, (long long)st->k,
                       (long long)st->k_len);
        if ((st->q_full && st->q != rp->attention_rows) ||
            (st->k_full && (!st->local || st->k != rp->attention_rows)))
            return BAD("stages: stage %lld of rank %lld is called full and "
                       "is not", (long long)i, (long long)c->rank);
        if (num_smul(num_max(st->q_len, st->k_len), 8 * model_q(c->model)) >
            MAX_BYTES)
            return BAD("stages: stage %lld of rank %lld: %lld rows overflow "
                       "64-bit sizes (use fewer rows)", (long long)i,
                       (long long)c->rank,
                       (long long)num_max(st->q_len, st->k_len));
    }
    return ERR_OK;
}

static int check_device(const struct step_config *c, const struct dev *d,
                        const struct comm *comm, struct err *e)
{
    if (d->k == NULL) {
        if (c->model->experts == 0 || c->routing != NULL) return ERR_OK;
        return BAD("routing: device %s has no router, so the scenario must "
                   "state it", d->ops->name);
    }
    if (!c->plan->exact)
        return BAD("batch: a recorded layout holds sizes only, and device %s "
                   "computes (use tokens, or --device dry)", d->ops->name);
    if (c->plan->cp > 1 && (comm == NULL || comm->size != c->plan->cp))
        return BAD("cp: %lld ranks need a communicator of that size",
                   (long long)c->plan->cp);
    return ERR_OK;
}

/* What is not built yet is said, not run as something else. */
static int check_mode(const struct step_config *c, const struct dev *d,
                      struct err *e)
{
    const struct mode *o = &c->mode;
    int rc = mode_check(o, c->model, e);

    if (rc != ERR_OK) return rc;
    if (mode_tp(o) > 1 && d->k != NULL)
        return BAD("tp: %lld: device %s computes one tensor-parallel rank "
                   "only (use --device dry)", (long long)o->tp,
                   d->ops->name);
    if (o->otherwise != 0 && d->k != NULL)
        return BAD("otherwise: on device dry only, not on %s",
                   d->ops->name);
    if (c->stream && (o->wave != WAVE_HIDDEN || !o->no_grad))
        return BAD("wave: a step that streams its weights ends with hidden "
                   "states, without gradients");
    if (o->wave != WAVE_TRAIN && c->plan->cp > 1 && d->k != NULL)
        return BAD("wave: device %s makes hidden outputs at cp 1 only (use "
                   "--device dry)", d->ops->name);
    return ERR_OK;
}

static int check_config(const struct step_config *c, const struct dev *d,
                        const struct comm *comm, struct err *e)
{
    int rc = check_parallel(c, e);

    if (rc == ERR_OK) rc = check_mode(c, d, e);
    if (rc == ERR_OK) rc = check_numbers(c, e);
    if (rc == ERR_OK) rc = check_rows(c, e);
    if (rc == ERR_OK) rc = check_stages(c, e);
    if (rc == ERR_OK) rc = check_device(c, d, comm, e);
    return rc;
}

static bool same_ranges(const struct rank_plan *r)
{
    int64_t i;

    if (r->n_attention != r->n_gdn) return false;
    for (i = 0; i < r->n_gdn; i++)
        if (r->attention[i].start != r->gdn[i].start ||
            r->attention[i].len != r->gdn[i].len) return false;
    return true;
}

/* Do the layouts of some rank differ? Recorded ones are taken to. */
static bool layouts_differ(const struct plan *p)
{
    int64_t r;

    if (p->cp == 1) return false;
    for (r = 0; p->exact && r < p->cp; r++)
        if (!same_ranges(&p->rank[r])) return true;
    return !p->exact;
}

static int tables_new(struct step *s)
{
    size_t n = (size_t)s->m->layers;

    s->lw = s->c.base != NULL ? malloc(n * sizeof *s->lw)
                              : calloc(n, sizeof *s->lw);
    s->boundary = calloc(n + 1, sizeof *s->boundary);
    s->saved = calloc(n, sizeof *s->saved);
    if (s->lw == NULL || s->boundary == NULL || s->saved == NULL)
        return err_nomem(s->e);
    return ERR_OK;
}

/* A step of config c with nothing allocated yet. */
static struct step *step_bare(const struct step_config *c, struct dev *d,
                              struct mem *m, struct comm *comm, struct err *e)
{
    struct step *s = calloc(1, sizeof *s);

    if (s == NULL) return NULL;
    s->c = *c;
    s->whole = c->model;
    s->tp = mode_tp(&c->mode);
    s->share = model_share(c->model, s->tp);
    s->m = &s->share;
    s->rp = &c->plan->rank[c->rank];
    s->dev = d;
    s->k = d->k;
    s->mem = m;
    s->cp = c->plan->cp;
    s->converts = layouts_differ(c->plan);
    s->comm = d->k != NULL && s->cp > 1 ? comm : NULL;
    s->local_experts = s->m->experts / c->ep;
    s->lora_pad = num_max(8, c->lora_rank);
    if (c->lora_rank > 0) s->lora_scale = c->lora_alpha / (double)c->lora_rank;
    s->layer = -1;
    s->e = e;
    return s;
}

static int step_fill(struct step *s)
{
    s->rc = tables_new(s);
    if (s->rc == ERR_OK) s->rc = executor_new(s);
    if (s->rc == ERR_OK) s->rc = gdn_flow_new(s);
    if (s->rc == ERR_OK) s->rc = moe_route_new(s);
    if (s->rc == ERR_OK) s->rc = hidden_new(s);
    if (s->rc == ERR_OK) s->rc = dump_new(s);
    if (s->rc == ERR_OK) s->rc = weights_new(s);
    return s->rc;
}

int step_new(const struct step_config *c, struct dev *d, struct mem *m,
             struct comm *comm, struct step **out, struct err *e)
{
    struct step *s = NULL;
    int rc = check_config(c, d, comm, e);

    if (rc == ERR_OK) {
        s = step_bare(c, d, m, comm, e);
        rc = s == NULL ? err_nomem(e) : step_fill(s);
    }
    if (rc == ERR_OK && c->watch) {
        s->watch = watch_new();
        if (s->watch == NULL) rc = err_nomem(e);
    }
    if (rc == ERR_OK) {
        *out = s;
        return ERR_OK;
    }
    step_free(s);
    if (comm != NULL) comm->ops->abort(comm, e != NULL ? e->text : "failed");
    return rc;
}

void step_free(struct step *s)
{
    if (s == NULL) return;
    executor_free(s->exec);
    gdn_flow_free(s->flow);
    moe_route_free(s);
    dispatch_free(s);
    dump_free(s);
    free(s->label);
    free(s->label_part);
    free(s->lw);
    free(s->boundary);
    free(s->saved);
    hidden_free(s);
    watch_free(s->watch);
    free(s);
}
