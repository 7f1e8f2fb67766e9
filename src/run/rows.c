/* rows.c - see work.h: a case as rows of the files that a run writes */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean.h"
#include "run/work.h"

static const char *batch_name(enum batch_kind k)
{
    static const char *const name[] = {
        [BATCH_LAYOUT] = "layout", [BATCH_LENGTHS] = "lengths",
        [BATCH_TREE] = "tree", [BATCH_CORPUS] = "sequences"
    };
    return name[k];
}

static void describe_wave(const struct run_work *w, int64_t i,
                          struct record_wave *out)
{
    const struct run_wave *v = &w->wave[i];

    *out = (struct record_wave){
        .wave = i, .cold = v->cold, .status = v->status,
        .note = v->note[0] ? v->note : NULL,
        .rank = v->rank, .n_rank = v->measured ? w->c->cp : 0,
        .estimate = v->estimate, .n_estimate = v->n_estimate,
        .variant = v->variant, .n_variant = v->n_variant,
        .driver = i == 0 ? w->driver : NULL,
        .n_driver = i == 0 ? w->n_driver : 0,
        .timing = v->timing, .n_timing = v->n_timing,
        .has_loss = v->has_loss, .loss = v->loss
    };
}

/* What the files say of a case, waves aside. */
static void describe_case(const struct run_context *x,
                          const struct scenario *s,
                          const struct scenario_case *c, const char *routing,
                          struct record_case *out)
{
    *out = (struct record_case){
        .totals = x->totals,
        .device = x->device, .scenario = s->name, .name = c->name,
        .about = c->about, .layers = c->layers,
        .cp = c->cp, .ep = c->ep, .tp = c->tp, .pp = c->pp,
        .lora_rank = c->lora_rank, .dtype = c->dtype,
        .recompute = mode_recompute_words[c->mode.recompute],
        .grad = !c->mode.no_grad, .compiled = !c->mode.eager,
        .kind = mode_wave_words[c->mode.wave],
        .batch = batch_name(c->batch_kind),
        .tokens = c->batch_kind == BATCH_LAYOUT ? c->layout_tokens
                                                : c->batch.tokens,
        .sequences = c->batch_kind == BATCH_LAYOUT ? 0 : c->batch.n_seq,
        .routed_rows = -1, .head_rows = c->head_rows,
        .output_bytes = c->output_bytes, .routing = routing, .seed = c->seed,
        .published_before_cold = c->published_before_cold,
        .published_before_warm = c->published_before_warm,
        .published_after_cold = c->published_after_cold,
        .published_after_warm = c->published_after_warm,
        .series = c->measured.series, .measured_note = c->measured.note,
        .measured_peak = c->measured.peak,
        .measured_first = c->measured.first,
        .measured_retained = c->measured.retained,
        .printed_estimate = c->measured.estimate,
        .printed_by = c->measured.estimator != NULL
                      ? c->measured.estimator->name : NULL
    };
}

/* Each rank's rows in both layouts, attention first: [2 cp], or NULL. */
static int64_t *list_rows(const struct plan *p)
{
    int64_t *rows = calloc(2 * (size_t)p->cp + 1, sizeof *rows), i;

    for (i = 0; rows != NULL && i < p->cp; i++) {
        rows[i] = p->rank[i].attention_rows;
        rows[p->cp + i] = p->rank[i].gdn_rows;
    }
    return rows;
}

/* What --resume needs to end with the same exit code. */
static const char *put_note(const struct case_result *r, char *out, size_t cap)
{
    if (r->message[0] == '\0') return NULL;
    if (r->status != STATUS_ERROR || r->code == ERR_RUN) return r->message;
    snprintf(out, cap, RECORD_EXIT "%d: %s", (int)r->code, r->message);
    return out;
}

int run_render(const struct run_work *w, struct case_result *out,
               struct err *e)
{
    bool planned = w->plan != NULL;
    int64_t n = planned && w->wave != NULL ? w->c->waves : 0, i;
    struct record_wave *wave = calloc((size_t)n + 1, sizeof *wave);
    int64_t *rows = planned ? list_rows(w->plan) : NULL;
    char *weights = strdup(w->c->weights);
    struct record_case c;
    char modules[MODE_MODULES_SIZE], otherwise[MODE_MODULES_SIZE];
    char routing[ROUTING_WORDS];
    char note[sizeof out->message + 32];
    int rc = ERR_OK;

    routing_words(&w->c->routing, routing);
    mode_modules(w->c->mode.modules, modules);
    mode_otherwise(w->c->mode.otherwise, otherwise);
    describe_case(w->x, w->s, w->c, routing, &c);
    if (wave == NULL || weights == NULL || (planned && rows == NULL))
        rc = err_nomem(e);
    if (rc == ERR_OK) {
        text_clean(weights);    /* folders on the way have any name */
        c.weights = weights;
        for (i = 0; i < n; i++) describe_wave(w, i, &wave[i]);
        c.wave = wave;
        c.n_wave = n;
        c.tensor = w->tensor;
        c.n_tensor = w->n_tensor;
        c.modules = modules;
        if (otherwise[0] != '\0') c.otherwise = otherwise;
        c.model = w->model.name;
        c.layers = w->model.layers;
        c.top_k = w->model.experts > 0 ? w->model.top_k : 0;
        c.routed_rows = w->routed_rows;
        if (c.head_rows < 0) c.head_rows = c.tokens;
        c.attention_rows = rows;
        c.gdn_rows = rows != NULL ? rows + w->plan->cp : NULL;
        c.status = out->status;
        c.note = put_note(out, note, sizeof note);
        rc = record_render(&c, &out->rows, e);
    }
    free(weights);
    free(rows);
    free(wave);
    return rc;
}
