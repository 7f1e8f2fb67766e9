/* waves.c - see run.h: the ranks' steps on the device, and what the
** records keep of them */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/adapters.h"
#include "run/dump.h"
#include "run/crew.h"
#include "run/labels.h"
#include "snapshot/snapshot.h"

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

/* What one layer of each kind holds for its backward in wave i, from the
** rank's events. */
static int list_kept(struct run_work *w, const struct ranks_one *o, int64_t i,
                     struct record_rank *out, struct err *e)
{
    const struct rank_plan *p = &w->plan->rank[o->rank];
    const struct ranks_wave *v = &o->wave[i];
    struct record_layer which = {.rank = o->rank};
    const struct mem_event *trace;
    struct record_tensor *t = NULL;
    uint64_t end;
    int64_t n = 0;
    int kind, rc = ERR_OK;

    if (w->x->totals) return ERR_OK;
    trace = mem_trace(o->mem, &end);
    for (kind = 0; kind < LAYER_KINDS && rc == ERR_OK; kind++) {
        which.kind = (enum layer_kind)kind;
        which.layer = last_layer(&w->model, which.kind);
        which.rows = kind == LAYER_GDN ? p->gdn_rows : p->attention_rows;
        if (which.layer < 0) continue;
        rc = record_inventory(trace, v->first, v->end, &which, &t, &n,
                              out->kept[kind], e);
        if (rc != ERR_OK) break;
        if (w->inventory && i == 0 && n > 0) rc = add_tensors(w, t, n, e);
        free(t);
    }
    out->has_kept = rc == ERR_OK;
    return rc;
}

/* What records keep of a rank's wave; the rest of the result is the step's. */
static int note_wave(struct run_work *w, const struct ranks_one *o, int64_t i,
                     struct err *e)
{
    const struct rank_plan *p = &w->plan->rank[o->rank];
    const struct step_result *got = &o->wave[i].got;
    struct record_rank *out = &w->wave[i].rank[o->rank];

    run_time(w, &w->wave[i], o->rank, "step", o->wave[i].ns);
    out->peak = got->peak;
    out->beside = RECORD_UNKNOWN;
    if (w->model.experts > 0) out->beside.received_pairs = got->received_max;
    out->beside.hybridep_bytes = (int64_t)got->hybridep_bytes;
    out->beside.retained_bytes = got->retained_bytes;
    out->beside.start_bytes = (int64_t)got->start_bytes;
    /* one rank has no executor to mirror */
    out->executor_bytes = w->plan->cp > 1 ? got->records_bytes : -1;
    out->mirror_bytes = w->plan->cp == 1 ? -1
        : price_stage_records(&w->model, p->stage, p->n_stage,
                              p->attention_rows, PRICE_Q_BLOCK,
                              PRICE_K_BLOCK);
    return list_kept(w, o, i, out, e);
}

static void note_status(struct run_wave *v, enum record_status s,
                        const char *text)
{
    v->status = s;
    snprintf(v->note, sizeof v->note, "%.255s", text);
}

static const struct ranks_one *first_here(const struct ranks *r)
{
    int64_t i = 0;

    while (!crew_is_here(r, i)) i++;
    return &r->one[i];
}

static int not_finite(int64_t wave, const char *why, struct err *e)
{
    return err_set(e, ERR_WRONG, "wave %" PRId64 ": the loss is not a finite "
                   "number (%s)", wave, why);
}

/* The waves that every rank finished, up to one whose loss is no number: what
** comes after it means nothing. */
static int note_waves(struct run_work *w, const struct ranks *r,
                      struct err *e)
{
    int64_t i, k;
    int rc = ERR_OK;

    for (i = 0; i < r->good; i++) {
        struct run_wave *v = &w->wave[i];
        for (k = 0; k < w->plan->cp && rc == ERR_OK; k++)
            if (crew_is_here(r, k)) rc = note_wave(w, &r->one[k], i, e);
        if (rc != ERR_OK) return rc;
        v->measured = true;
        note_status(v, STATUS_OK, "");
        v->has_loss = r->ops->computes;
        v->loss = first_here(r)->wave[i].got.loss;
        if (isfinite(v->loss)) continue;
        rc = not_finite(i, i > 0 && w->c->learning_rate > 0
                        ? "is learning_rate too high?"
                        : "no step came before it, and all weights are "
                          "finite: a value overflows in the forward pass", e);
        v->has_loss = false;
        note_status(v, STATUS_WRONG, e->text);
        return rc;
    }
    return ERR_OK;
}

/* The wave that failed says why. */
static void note_failure(struct run_work *w, int64_t wave, int rc,
                         const struct err *e)
{
    if (wave < w->c->waves)
        note_status(&w->wave[wave], run_status(rc), e->text);
}

/* Those of the waves, and of a rank that found no room for its weights. */
static int take_snapshots(struct run_work *w, const struct ranks *r,
                          struct err *e)
{
    int64_t waves = w->c->waves, i, k;
    int rc = ERR_OK;

    if (!r->snapshots || r->one == NULL) return ERR_OK;
    w->snapshot = calloc((size_t)(w->plan->cp * waves), sizeof *w->snapshot);
    if (w->snapshot == NULL) return err_nomem(e);
    for (i = 0; i < w->plan->cp && rc == ERR_OK; i++) {
        struct ranks_one *o = &r->one[i];
        struct buf *all = &w->snapshot[i * waves];

        if (o->step == NULL && o->mem != NULL)
            rc = snapshot_write(o->mem, 0, NULL, all, e);
        for (k = 0; o->step != NULL && k < r->waves; k++) {
            all[k] = o->wave[k].snapshot;
            o->wave[k].snapshot = (struct buf)BUF_INIT;
        }
    }
    return rc;
}

/* What the ranks did, into the case; a failure of the run is the one to
** tell. */
static int note_ranks(struct run_work *w, const struct ranks *r, int rc,
                      struct err *e)
{
    struct err late;
    int noted;

    if (rc != ERR_OK) note_failure(w, r->good, rc, e);
    noted = note_waves(w, r, &late);
    if (noted == ERR_OK) noted = driver_note(w, r, &late);
    if (noted == ERR_OK) noted = take_snapshots(w, r, &late);
    if (rc != ERR_OK || noted == ERR_OK) return rc;
    *e = late;
    return noted;
}

static int run_dry(struct run_work *w, struct err *e)
{
    struct ranks r = {.w = w, .ops = w->x->ops, .routing = &w->routing,
                      .waves = w->c->waves, .trace = !w->x->totals,
                      .snapshots = w->x->snapshots};
    int rc = ranks_run(&r, e);

    rc = note_ranks(w, &r, rc, e);
    ranks_close(&r);
    return rc;
}

/* The routes of all waves as a CSV that routing = {histogram = ...} reads. */
static int put_histogram(struct run_work *w, const struct ranks *r,
                         struct err *e)
{
    struct buf *b = &w->histogram;
    struct routing h;
    int64_t i, n, x;
    int rc;

    if (!w->x->histograms || w->model.experts == 0) return ERR_OK;
    rc = run_routing_of(r, &h, e);
    if (rc != ERR_OK) return rc;
    buf_puts(b, "wave,layer,rank,expert,rows\n");
    n = h.waves * h.layers * h.ranks * h.experts;
    for (i = 0; i < n; i++) {
        x = i / h.experts;
        buf_printf(b, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",%"
                   PRId64 "\n", x / h.ranks / h.layers,
                   x / h.ranks % h.layers, x % h.ranks, i % h.experts,
                   h.rows[i]);
    }
    routing_free(&h);
    return b->failed ? err_nomem(e) : ERR_OK;
}

/* What a case that computes is given. */
struct given {
    struct checkpoint *weights;     /* or NULL */
    struct peft *adapters;          /* or NULL */
    struct step_data data;
};

/* The first find of all ranks, or NULL: ranks run the same kernels, more or
** less, so the one that came to it after fewest was the first. */
static const struct ranks_one *first_found(const struct ranks *r, int64_t wave)
{
    const struct ranks_one *first = NULL;
    int64_t i;

    for (i = 0; i < r->w->plan->cp; i++) {
        const struct step_found *f = &r->one[i].wave[wave].got.found;
        if (f->kernel == NULL) continue;
        if (first == NULL || f->wave < first->wave[wave].got.found.wave ||
            (f->wave == first->wave[wave].got.found.wave &&
             f->run < first->wave[wave].got.found.run)) first = &r->one[i];
    }
    return first;
}

/* Wave `wave` gave no finite loss. The case is run once more up to it, and in
** it and the one before, whose step may have done it, every output is looked
** at; e's text then also says which was the first. */
static void name_operator(struct run_work *w, const struct ranks *of,
                          int64_t wave, struct err *e)
{
    struct ranks r = {.w = w, .ops = of->ops, .routing = of->routing,
                      .data = of->data, .checkpoint = of->checkpoint,
                      .adapters = of->adapters, .waves = wave + 1,
                      .watch_from = wave > 0 ? wave : 1};
    const struct ranks_one *o = NULL;
    struct err ignored;

    if (ranks_run(&r, &ignored) == ERR_OK) o = first_found(&r, wave);
    if (o != NULL) {
        const struct step_found *f = &o->wave[wave].got.found;
        char layer[40] = "no layer", text[sizeof e->text];
        if (wave > 0 && f->wave == 0)   /* no step, no rate of one */
            (void)not_finite(wave, "learning_rate is not why: a value over"
                             "flows in wave 0, before the first step", e);
        if (f->layer >= 0)
            snprintf(layer, sizeof layer, "layer %" PRId64, f->layer);
        snprintf(text, sizeof text, "%s", e->text);
        err_set(e, ERR_WRONG, "%s; the first output that is not finite: wave "
                "%" PRId64 ", %s, %s, %s (kernel %s, rank %" PRId64 ")", text,
                f->wave, mem_phase_name(f->phase), layer, f->op, f->kernel,
                o->rank);
        note_status(&w->wave[wave], STATUS_WRONG, e->text);
    }
    ranks_close(&r);
}

/* The ranks at work, then held beside dry: both must take the same memory. */
static int run_computing(struct run_work *w, const struct given *g,
                         struct err *e)
{
    struct ranks r = {.w = w, .ops = w->x->ops, .routing = &w->c->routing,
                      .data = &g->data, .checkpoint = g->weights,
                      .adapters = g->adapters,
                      .waves = w->c->waves, .trace = true,
                      .snapshots = w->x->snapshots};
    int rc = ranks_run(&r, e);
    int64_t i;

    rc = note_ranks(w, &r, rc, e);
    for (i = 0; rc == ERR_WRONG && i < r.good; i++)
        if (w->wave[i].status == STATUS_WRONG &&
            strcmp(w->x->device, "cpu") == 0) name_operator(w, &r, i, e);
    if (rc == ERR_OK) rc = put_histogram(w, &r, e);
    if (rc == ERR_OK) rc = run_same_as_dry(w, &r, e);
    if (rc == ERR_OK) rc = run_adapters_save(&r, e);
    if (rc == ERR_OK) rc = run_dump_write(&r, e);
    rc = processes_gather(w, &r, rc, e);
    if (rc == ERR_WRONG && w->wave[r.good - 1].status == STATUS_OK)
        note_status(&w->wave[r.good - 1], STATUS_WRONG, e->text);
    ranks_close(&r);
    return rc;
}

static int open_given(const struct run_work *w, struct given *g,
                      struct err *e)
{
    const struct scenario_case *c = w->c;
    int rc = ERR_OK;

    if (strcmp(c->weights, "random") != 0)
        rc = checkpoint_open(c->weights, &g->weights, e);
    if (rc == ERR_OK && c->adapters != NULL)
        rc = peft_open(c->adapters, &w->model, c->lora_rank, c->lora_alpha,
                       &g->adapters, e);
    if (rc == ERR_OK && w->labels != NULL) g->data = w->labels->data;
    else if (rc == ERR_OK) rc = run_data_make(w, &g->data, e);
    return rc;
}

static int run_real(struct run_work *w, struct err *e)
{
    struct given g = {.weights = NULL};
    int rc = w->plan->exact ? run_fits(w, e)
             : err_set(e, ERR_DEVICE, "a recorded layout has no tokens to "
                       "compute on (use --device dry)");

    if (rc == ERR_OK) rc = open_given(w, &g, e);
    rc = processes_agree(w->x, rc, e);
    if (rc != ERR_OK) note_failure(w, 0, rc, e);
    if (rc == ERR_OK) rc = run_computing(w, &g, e);
    if (w->labels == NULL) run_data_free(&g.data);
    checkpoint_close(g.weights);
    peft_close(g.adapters);
    return rc;
}

int run_step(struct run_work *w, struct err *e)
{
    return w->x->ops->computes ? run_real(w, e) : run_dry(w, e);
}
