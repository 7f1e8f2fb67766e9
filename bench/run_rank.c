/* run_rank.c - see run_rank.h */
#include "bench/run_rank.h"

#include <stdlib.h>
#include <string.h>

#include "bench/run_data.h"
#include "mem/snapshot.h"

enum { Q_BLOCK = 128, K_BLOCK = 64 };   /* flex attention blocks on H200 */

static enum dtype dtype_of(const char *name)
{
    if (strcmp(name, "f64") == 0) return DT_F64;
    return strcmp(name, "f32") == 0 ? DT_F32 : DT_BF16;
}

static const struct rank_plan *plan_of(const struct rank_run *r)
{
    return &r->w->plan->rank[r->rank];
}

static int rank_open(struct rank_run *r, struct err *e)
{
    const struct scenario_case *c = r->w->c;
    struct dev_options o = {
        .rank = (int)r->rank, .act = dtype_of(c->dtype),
        .limit_bytes = c->device_bytes
    };
    struct mem_config memory = {.trace = !r->probe};
    struct step_config step = {
        .model = &r->w->model, .plan = r->w->plan, .rank = r->rank,
        .ep = c->ep, .lora_rank = c->lora_rank, .lora_alpha = c->lora_alpha,
        .head_rows = run_labels(c, plan_of(r)),
        .q_block = Q_BLOCK, .k_block = K_BLOCK, .routing = &c->routing,
        .seed = c->seed, .checkpoint = r->checkpoint,
        .learning_rate = c->learning_rate, .optimizer = c->learning_rate > 0
    };
    int rc = r->ops->open(&o, &r->dev, e);

    if (rc == ERR_OK) rc = mem_new(&memory, r->dev->source, &r->mem, e);
    if (rc == ERR_OK)
        rc = step_new(&step, r->dev, r->mem, r->comm, &r->step, e);
    return rc;
}

static void rank_close(struct rank_run *r)
{
    struct mem_stats stats = {0};

    if (r->mem != NULL) mem_stats(r->mem, &stats);
    r->reserved = stats.reserved_peak;
    step_free(r->step);
    mem_free_all(r->mem);
    if (r->dev != NULL) r->dev->ops->close(r->dev);
}

void run_rank_free(struct rank_run *r)
{
    free(r->ns);
    free(r->tensor);
}

/* ---- what a layer keeps ------------------------------------------------- */

/* The last layer of a kind, -1 when the model has none. */
static int64_t last_layer(const struct model *m, enum layer_kind kind)
{
    int64_t i = m->layers - 1;

    while (i >= 0 && m->kind[i] != kind) i--;
    return i;
}

static int add_tensors(struct rank_run *r, const struct record_tensor *t,
                       int64_t n, struct err *e)
{
    size_t more = (size_t)(r->n_tensor + n) * sizeof *t;
    struct record_tensor *all = realloc(r->tensor, more);

    if (all == NULL) return err_nomem(e);
    memcpy(all + r->n_tensor, t, (size_t)n * sizeof *t);
    r->tensor = all;
    r->n_tensor += n;
    return ERR_OK;
}

/* What one layer of each kind holds for its backward, from the events of the
** wave that began at event first. */
static int list_kept(struct rank_run *r, uint64_t first,
                     struct record_rank *out, struct err *e)
{
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
        which.rows = kind == LAYER_GDN ? plan_of(r)->gdn_rows
                                       : plan_of(r)->attention_rows;
        if (which.layer < 0) continue;
        rc = record_inventory(trace, first, end, &which, &t, &n,
                              out->kept[kind], e);
        if (rc != ERR_OK) break;
        if (r->w->inventory && r->done == 0 && n > 0)
            rc = add_tensors(r, t, n, e);
        free(t);
    }
    out->has_kept = rc == ERR_OK;
    return rc;
}

/* ---- waves -------------------------------------------------------------- */

static int record_wave_of(struct rank_run *r, int64_t i, uint64_t first,
                          const struct step_result *got, struct err *e)
{
    const struct rank_plan *p = plan_of(r);
    struct record_rank *out = &r->w->wave[i].rank[r->rank];

    out->peak = got->peak;
    out->received_max = r->w->model.experts > 0 ? got->received_max : -1;
    out->hybridep_bytes = (int64_t)got->hybridep_bytes;
    out->executor_bytes = got->records_bytes;
    out->mirror_bytes = price_stage_records(&r->w->model, p->stage,
                                            p->n_stage, p->attention_rows,
                                            Q_BLOCK, K_BLOCK);
    return list_kept(r, first, out, e);
}

static int rank_wave(struct rank_run *r, int64_t i, struct err *e)
{
    int64_t start = run_now_ns();
    struct step_result got;
    uint64_t first = 0;
    int rc;

    if (*r->w->x->interrupt != 0)
        return err_set(e, ERR_INTERRUPTED, "interrupted");
    if (!r->probe) mem_trace(r->mem, &first);
    rc = step_wave(r->step, i, r->data, &got, e);
    if (rc != ERR_OK || r->probe) return rc;
    r->ns[i] = run_now_ns() - start;
    if (r->rank == 0 && r->ops->computes) {
        r->w->wave[i].loss = got.loss;
        r->w->wave[i].has_loss = true;
    }
    return record_wave_of(r, i, first, &got, e);
}

/* The allocator as it is, also after a failure, which then stays the one to
** tell. */
static int take_snapshot(struct rank_run *r, int rc, struct err *e)
{
    struct err own;
    int failed = snapshot_write(r->mem, &r->w->snapshot[r->rank], &own);

    if (rc == ERR_OK && failed != ERR_OK) {
        *e = own;
        rc = failed;
    }
    return rc;
}

int run_rank(struct rank_run *r, struct err *e)
{
    int rc;

    r->done = 0;
    r->ns = calloc((size_t)r->waves + 1, sizeof *r->ns);
    if (r->ns == NULL) return err_nomem(e);
    rc = rank_open(r, e);
    while (rc == ERR_OK && r->done < r->waves) {
        rc = rank_wave(r, r->done, e);
        if (rc == ERR_OK) r->done++;
    }
    if (r->w->snapshot != NULL && !r->probe && r->mem != NULL)
        rc = take_snapshot(r, rc, e);
    rank_close(r);
    return rc == ERR_OK ? rc : err_wrap(e, "rank %d", (int)r->rank);
}
