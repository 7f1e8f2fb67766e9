/* run_step.c - see run.h: the ranks' steps on the device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "bench/run.h"

enum { Q_BLOCK = 128, K_BLOCK = 64 };   /* flex attention blocks on H200 */

/* One rank: its device, its allocator, its step. */
struct rank_run {
    struct run_work *w;
    int64_t rank;
    struct dev *dev;
    struct mem *mem;
    struct step *step;
    uint64_t first;         /* events before the first wave */
};

static enum dtype dtype_of(const char *name)
{
    if (strcmp(name, "f64") == 0) return DT_F64;
    return strcmp(name, "f32") == 0 ? DT_F32 : DT_BF16;
}

static void rank_close(struct rank_run *r)
{
    step_free(r->step);
    mem_free_all(r->mem);
    if (r->dev != NULL) r->dev->ops->close(r->dev);
}

static int rank_open(struct rank_run *r, struct err *e)
{
    const struct scenario_case *c = r->w->c;
    int64_t own = r->w->plan->rank[r->rank].attention_rows;
    struct dev_options o = {
        .rank = (int)r->rank, .act = dtype_of(c->dtype),
        .limit_bytes = c->device_bytes
    };
    struct mem_config memory = {.trace = true};
    struct step_config step = {
        .model = &r->w->model, .plan = r->w->plan, .rank = r->rank,
        .ep = c->ep, .lora_rank = c->lora_rank, .lora_alpha = c->lora_alpha,
        .head_rows = c->head_rows < 0 ? own : num_min(c->head_rows, own),
        .q_block = Q_BLOCK, .k_block = K_BLOCK, .routing = &c->routing,
        .seed = c->seed, .learning_rate = c->learning_rate,
        .optimizer = c->learning_rate > 0
    };
    int rc = r->w->x->ops->open(&o, &r->dev, e);

    if (rc == ERR_OK) rc = mem_new(&memory, r->dev->source, &r->mem, e);
    if (rc == ERR_OK)
        rc = step_new(&step, r->dev, r->mem, NULL, &r->step, e);
    return rc;
}

/* The last layer of a kind, -1 when the model has none. */
static int64_t last_layer(const struct model *m, enum layer_kind kind)
{
    int64_t i = m->layers - 1;

    while (i >= 0 && m->kind[i] != kind) i--;
    return i;
}

static int add_tensors(struct run_work *w, const struct record_tensor *t,
                       int64_t n, struct err *e)
{
    size_t more = (size_t)(w->n_tensor + n) * sizeof *t;
    struct record_tensor *all = realloc(w->tensor, more);

    if (all == NULL) return err_nomem(e);
    memcpy(all + w->n_tensor, t, (size_t)n * sizeof *t);
    w->tensor = all;
    w->n_tensor += n;
    return ERR_OK;
}

/* What one layer of each kind holds for its backward, from the events of the
** wave that began at event first. */
static int list_kept(const struct rank_run *r, uint64_t first,
                     struct record_rank *out, struct err *e)
{
    const struct rank_plan *p = &r->w->plan->rank[r->rank];
    struct record_layer which = {.rank = r->rank};
    const struct mem_event *trace;
    struct record_tensor *t = NULL;
    uint64_t end;
    int64_t n = 0;
    int kind, rc = ERR_OK;

    trace = mem_trace(r->mem, &end);
    for (kind = 0; kind < LAYER_KINDS && rc == ERR_OK; kind++) {
        which.kind = (enum layer_kind)kind;
        which.layer = last_layer(&r->w->model, which.kind);
        which.rows = kind == LAYER_GDN ? p->gdn_rows : p->attention_rows;
        if (which.layer < 0) continue;
        rc = record_inventory(trace, first, end, &which, &t, &n,
                              out->kept[kind], e);
        if (rc != ERR_OK) break;
        if (r->w->inventory && first == r->first && n > 0)
            rc = add_tensors(r->w, t, n, e);
        free(t);
    }
    out->has_kept = rc == ERR_OK;
    return rc;
}

static int rank_wave(struct rank_run *r, int64_t i, struct err *e)
{
    const struct rank_plan *p = &r->w->plan->rank[r->rank];
    struct run_wave *v = &r->w->wave[i];
    struct record_rank *out = &v->rank[r->rank];
    int64_t start = run_now_ns();
    struct step_result got;
    uint64_t first;
    int rc;

    mem_trace(r->mem, &first);
    if (i == 0) r->first = first;
    rc = step_wave(r->step, i, NULL, &got, e);
    if (rc != ERR_OK) return rc;
    run_time(r->w, v, r->rank, "step", start);
    out->peak = got.peak;
    out->received_max = r->w->model.experts > 0 ? got.received_max : -1;
    out->hybridep_bytes = (int64_t)got.hybridep_bytes;
    out->executor_bytes = got.records_bytes;
    out->mirror_bytes = price_stage_records(&r->w->model, p->stage,
                                            p->n_stage, p->attention_rows,
                                            Q_BLOCK, K_BLOCK);
    return list_kept(r, first, out, e);
}

/* All waves of one rank, up to the first that fails on any: *n_good. */
static int rank_run(struct run_work *w, int64_t rank, int64_t *n_good,
                    struct err *e)
{
    struct rank_run r = {.w = w, .rank = rank};
    int64_t i = 0;
    int rc = rank_open(&r, e);

    for (; rc == ERR_OK && i < *n_good; i++) {
        if (*w->x->interrupt != 0)
            rc = err_set(e, ERR_INTERRUPTED, "interrupted");
        else
            rc = rank_wave(&r, i, e);
        if (rc != ERR_OK) break;
    }
    *n_good = i;
    rank_close(&r);
    return rc == ERR_OK ? rc : err_wrap(e, "rank %d", (int)rank);
}

int run_step(struct run_work *w, struct err *e)
{
    int64_t good = w->c->waves, rank, before, i;
    struct err latest;
    int rc = ERR_OK;

    for (rank = 0; rank < w->c->cp; rank++) {
        before = good;
        if (rank_run(w, rank, &good, &latest) == ERR_OK) continue;
        /* an earlier wave that fails on a later rank is the one to tell */
        if (rc == ERR_OK || good < before) {
            *e = latest;
            rc = (int)latest.code;
        }
    }
    for (i = 0; i < good; i++) {
        w->wave[i].measured = true;
        w->wave[i].status = STATUS_OK;
        w->wave[i].note[0] = '\0';
    }
    if (rc == ERR_OK) return rc;
    w->wave[good].status = rc == ERR_OOM ? STATUS_OOM : STATUS_ERROR;
    snprintf(w->wave[good].note, sizeof w->wave[good].note, "%.255s", e->text);
    return rc;
}
