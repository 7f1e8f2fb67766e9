/* run.c - see run.h: the order of things in one case */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "run/miss.h"
#include "run/run.h"
#include "model/param.h"

int64_t run_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void run_time(const struct run_work *w, struct run_wave *wave, int64_t rank,
              const char *what, int64_t ns)
{
    if (wave->n_timing == w->c->cp + RUN_WAVE_TIMINGS) return;
    wave->timing[wave->n_timing++] = (struct record_timing){rank, what, ns};
}

/* The most-loaded rank's allocated bytes, -1 where the wave has no peak. */
int64_t run_peak(const struct run_work *w, int64_t wave)
{
    const struct run_wave *v = &w->wave[wave];
    int64_t i, most = -1;

    for (i = 0; v->measured && i < w->c->cp; i++)
        if ((int64_t)v->rank[i].peak.allocated > most)
            most = (int64_t)v->rank[i].peak.allocated;
    return most;
}

static int take_memory(struct run_work *w, struct err *e)
{
    size_t cp = (size_t)w->c->cp;
    int64_t i;

    w->wave = calloc((size_t)w->c->waves, sizeof *w->wave);
    if (w->wave == NULL) return err_nomem(e);
    for (i = 0; i < w->c->waves; i++) {
        struct run_wave *v = &w->wave[i];
        v->cold = i == 0;
        v->status = STATUS_SKIPPED;
        snprintf(v->note, sizeof v->note, "an earlier wave failed");
        v->rank = calloc(cp, sizeof *v->rank);
        v->timing = calloc(cp + RUN_WAVE_TIMINGS, sizeof *v->timing);
        if (v->rank == NULL || v->timing == NULL) return err_nomem(e);
    }
    return ERR_OK;
}

/* A planner meets the batch of a later wave again: the first plan is timed,
** and one that is found. */
static int plan_tokens(struct run_work *w, const struct plan_options *o,
                       struct err *e)
{
    int64_t start = run_now_ns();
    int rc = plan_cache_new(1, &w->cache, e);

    if (rc == ERR_OK)
        rc = plan_cache_get(w->cache, &w->model, &w->c->batch, o, &w->plan,
                            e);
    if (rc != ERR_OK) return rc;
    run_time(w, &w->wave[0], -1, "plan", run_now_ns() - start);
    start = run_now_ns();
    rc = plan_cache_get(w->cache, &w->model, &w->c->batch, o, &w->plan, e);
    run_time(w, &w->wave[0], -1, "plan.cached", run_now_ns() - start);
    return rc;
}

static int make_plan(struct run_work *w, struct err *e)
{
    const struct scenario_case *c = w->c;
    struct plan_options o = {
        .cp = c->cp, .ep = c->ep, .tp = c->tp, .profile = c->profile,
        .owned_ms = -1, .cut_rows = c->cut
    };
    int rc;

    if (c->batch_kind != BATCH_LAYOUT) return plan_tokens(w, &o, e);
    rc = plan_from_layout(c->cp, c->layout, &w->recorded, e);
    if (rc == ERR_OK) w->plan = &w->recorded;
    return rc;
}

/* A recorded histogram must cover the case. */
static int check_histogram(const struct scenario_case *c,
                           const struct model *m, struct err *e)
{
    const struct routing *r = &c->routing;

    if (r->kind != ROUTING_HISTOGRAM ||
        ((r->waves == 1 || r->waves >= c->waves) && r->layers >= m->layers &&
         r->experts == m->experts)) return ERR_OK;
    return err_set(e, ERR_INPUT, "routing: the histogram has %" PRId64
                   " waves, %" PRId64 " layers and %" PRId64 " experts (%"
                   PRId64 ", %" PRId64 " and %" PRId64 " are needed)",
                   r->waves, r->layers, r->experts, c->waves, m->layers,
                   m->experts);
}

int run_case_check(const struct scenario_case *c, struct err *e)
{
    struct param_list l;
    struct model m;
    int rc = model_load(c->model_path, c->layers, &m, e);

    if (rc != ERR_OK) return rc;
    rc = param_list_make(&m, c->ep, c->lora_rank, &l, e);
    if (rc == ERR_OK) param_list_free(&l);
    if (rc == ERR_OK) rc = mode_check(&c->mode, &m, e);
    if (rc == ERR_OK) rc = check_histogram(c, &m, e);
    model_free(&m);
    return rc;
}

static int run_all(struct run_work *w, struct err *e)
{
    int rc = take_memory(w, e);

    if (rc == ERR_OK)
        rc = model_load(w->c->model_path, w->c->layers, &w->model, e);
    if (rc == ERR_OK) rc = make_plan(w, e);
    if (rc == ERR_OK) rc = run_price(w, e);
    if (rc == ERR_OK) rc = run_step(w, e);
    return rc;
}

static void work_free(struct run_work *w)
{
    int64_t i;

    for (i = 0; w->wave != NULL && i < w->c->waves; i++) {
        free(w->wave[i].rank);
        free(w->wave[i].estimate);
        free(w->wave[i].timing);
    }
    free(w->wave);
    for (i = 0; w->snapshot != NULL && i < w->c->cp * w->c->waves; i++)
        buf_free(&w->snapshot[i]);
    free(w->snapshot);
    buf_free(&w->histogram);
    free(w->tensor);
    free(w->driver);
    free(w->peer_op);
    plan_cache_free(w->cache);
    plan_free(&w->recorded);
    model_free(&w->model);
}

/* ---- the case as records ------------------------------------------------ */

static const char *batch_name(enum batch_kind k)
{
    static const char *const name[] = {
        [BATCH_LAYOUT] = "layout", [BATCH_LENGTHS] = "lengths",
        [BATCH_TREE] = "tree", [BATCH_CORPUS] = "sequences"
    };
    return name[k];
}

static void put_routing(const struct routing *r, char *out, size_t cap)
{
    switch (r->kind) {
    case ROUTING_BALANCED:
        snprintf(out, cap, "balanced");
        break;
    case ROUTING_CV:
        snprintf(out, cap, "cv %g seed %" PRIu64, r->cv, r->seed);
        break;
    case ROUTING_SHARE:
        snprintf(out, cap, "share %g rank %" PRId64, r->share, r->share_rank);
        break;
    case ROUTING_HISTOGRAM:
        snprintf(out, cap, "histogram");
        break;
    }
}

enum record_status run_status(int code)
{
    switch (code) {
    case ERR_OK: return STATUS_OK;
    case ERR_OOM: return STATUS_OOM;
    case ERR_WRONG: return STATUS_WRONG;
    case ERR_DEVICE: return STATUS_REFUSED;
    default: return STATUS_ERROR;
    }
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
        .device = x->device, .scenario = s->name, .name = c->name,
        .about = c->about, .layers = c->layers,
        .cp = c->cp, .ep = c->ep, .tp = c->tp, .pp = c->pp,
        .lora_rank = c->lora_rank, .dtype = c->dtype, .weights = c->weights,
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
        .published_after_warm = c->published_after_warm
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
    snprintf(out, cap, RUN_EXIT "%d: %s", (int)r->code, r->message);
    return out;
}

static int render(const struct run_work *w, struct case_result *out,
                  struct err *e)
{
    bool planned = w->plan != NULL;
    int64_t n = planned && w->wave != NULL ? w->c->waves : 0, i;
    struct record_wave *wave = calloc((size_t)n + 1, sizeof *wave);
    int64_t *rows = planned ? list_rows(w->plan) : NULL;
    struct record_case c;
    char modules[MODE_MODULES_SIZE], routing[64];
    char note[sizeof out->message + 32];
    int rc = ERR_OK;

    put_routing(&w->c->routing, routing, sizeof routing);
    mode_modules(w->c->mode.modules, modules);
    describe_case(w->x, w->s, w->c, routing, &c);
    if (wave == NULL || (planned && rows == NULL)) rc = err_nomem(e);
    if (rc == ERR_OK) {
        for (i = 0; i < n; i++) describe_wave(w, i, &wave[i]);
        c.wave = wave;
        c.n_wave = n;
        c.tensor = w->tensor;
        c.n_tensor = w->n_tensor;
        c.modules = modules;
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
    free(rows);
    free(wave);
    return rc;
}

/* ---- files beside the records ------------------------------------------- */

static void put_name(struct buf *b, const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char c = (unsigned char)*s;
        if (c < 128 && (isalnum(c) || strchr("-_.", c) != NULL))
            buf_putc(b, *s);
        else
            buf_printf(b, "%%%02X", c);
    }
}

int run_add_file(const struct run_work *w, enum run_file_kind kind,
                 const char *suffix, struct buf *text,
                 struct case_result *out, struct err *e)
{
    size_t n = (size_t)out->n_file + 1;
    struct run_file *all = realloc(out->file, n * sizeof *all);
    struct buf name = BUF_INIT;

    put_name(&name, w->s->name);
    buf_putc(&name, '.');
    put_name(&name, w->c->name);
    buf_puts(&name, suffix);
    if (all != NULL) out->file = all;
    if (all == NULL || name.failed || text->failed) {
        buf_free(&name);
        buf_free(text);
        return err_nomem(e);
    }
    all[out->n_file++] = (struct run_file){kind, name.data, *text};
    *text = (struct buf)BUF_INIT;
    return ERR_OK;
}

static int add_snapshots(struct run_work *w, struct case_result *out,
                         struct err *e)
{
    int64_t waves = w->c->waves, i, n = w->c->cp * waves;
    char wave[32] = "", suffix[72];
    int rc = ERR_OK;

    for (i = 0; w->snapshot != NULL && i < n && rc == ERR_OK; i++) {
        if (w->snapshot[i].len == 0) continue;
        if (waves > 1)
            snprintf(wave, sizeof wave, ".wave%" PRId64, i % waves);
        snprintf(suffix, sizeof suffix, "%s.rank%" PRId64 ".pickle", wave,
                 i / waves);
        rc = run_add_file(w, RUN_SNAPSHOT, suffix, &w->snapshot[i], out, e);
    }
    return rc;
}

static int add_histogram(struct run_work *w, struct case_result *out,
                         struct err *e)
{
    if (w->histogram.len == 0) return ERR_OK;
    return run_add_file(w, RUN_HISTOGRAM, ".csv", &w->histogram, out, e);
}

static void note_failure(struct case_result *out, int code,
                         const struct err *e)
{
    out->code = (enum err_code)code;
    out->status = run_status(code);
    snprintf(out->message, sizeof out->message, "%s", e->text);
}

void run_case(const struct run_context *x, const struct scenario *s,
              int64_t i, struct case_result *out)
{
    struct run_work w = {
        .x = x, .s = s, .c = &s->kase[i], .inventory = i == 0,
        .routed_rows = -1
    };
    struct err e = {ERR_OK, ""};
    int rc;

    *out = (struct case_result){0};
    rc = run_all(&w, &e);
    if (rc != ERR_OK) note_failure(out, rc, &e);
    rc = run_show(&w, out, &e);
    if (rc == ERR_OK) rc = miss_add(&w, out, &e);
    if (rc == ERR_OK) rc = add_snapshots(&w, out, &e);
    if (rc == ERR_OK) rc = add_histogram(&w, out, &e);
    if (rc == ERR_OK) rc = render(&w, out, &e);
    if (rc != ERR_OK) note_failure(out, rc, &e);
    work_free(&w);
}

void run_case_died(const struct run_context *x, const struct scenario *s,
                   int64_t i, const char *how, struct case_result *out)
{
    struct run_work w = {.x = x, .s = s, .c = &s->kase[i], .routed_rows = -1};
    struct err e = {ERR_OK, ""};
    int rc;

    *out = (struct case_result){0};
    err_set(&e, ERR_RUN, RECORD_DIED "%s", how);
    note_failure(out, ERR_RUN, &e);
    rc = run_show(&w, out, &e);
    if (rc == ERR_OK) rc = render(&w, out, &e);
    if (rc != ERR_OK) note_failure(out, rc, &e);
}

void case_result_free(struct case_result *r)
{
    int64_t i;

    record_text_free(&r->rows);
    buf_free(&r->table);
    buf_free(&r->json);
    buf_free(&r->complaint);
    for (i = 0; i < r->n_file; i++) {
        free(r->file[i].name);
        buf_free(&r->file[i].text);
    }
    free(r->file);
    *r = (struct case_result){0};
}
