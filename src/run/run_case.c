/* run_case.c - see run.h: the order of things in one case */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "run/labels.h"
#include "run/miss.h"
#include "run/work.h"
#include "model/param.h"

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
    struct plan_options o = run_plan_options(c);
    int rc;

    if (c->batch_kind != BATCH_LAYOUT) return plan_tokens(w, &o, e);
    rc = plan_from_layout(c->cp, c->layout, &w->recorded, e);
    if (rc == ERR_OK) w->plan = &w->recorded;
    return rc;
}

/* An expert that is named must be there, and a recorded histogram cover the
** case; experts beyond its last got nothing. */
static int check_routing(const struct scenario_case *c,
                         const struct routing *r, const struct model *m,
                         struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < r->n_each && rc == ERR_OK; i++)
        rc = check_routing(c, &r->each[i], m, e);
    if (rc != ERR_OK) return rc;
    if (r->kind == ROUTING_HOT && m->experts > 0 && r->expert >= m->experts)
        return err_set(e, ERR_INPUT, "routing: hot_expert: must be below the "
                       "model's experts, %" PRId64 ", not %" PRId64,
                       m->experts, r->expert);
    if (r->kind != ROUTING_HISTOGRAM ||
        ((r->waves == 1 || r->waves >= c->waves) && r->layers >= m->layers &&
         r->experts <= m->experts)) return ERR_OK;
    return err_set(e, ERR_INPUT, "routing: the histogram has %" PRId64
                   " waves, %" PRId64 " layers and %" PRId64 " experts (%"
                   PRId64 ", %" PRId64 " and at most %" PRId64 " are "
                   "needed)",
                   r->waves, r->layers, r->experts, c->waves, m->layers,
                   m->experts);
}

int run_case_check(const struct scenario *s, const struct scenario_case *c,
                   struct err *e)
{
    struct param_list l;
    struct model m;
    bool loaded;
    int rc = model_load(c->model_path, c->layers, &m, e);

    loaded = rc == ERR_OK;
    if (loaded) rc = param_list_make(&m, c->ep, c->lora_rank, &l, e);
    if (rc == ERR_OK) param_list_free(&l);
    if (rc == ERR_OK) rc = mode_check(&c->mode, &m, e);
    if (rc == ERR_OK) rc = check_routing(c, &c->routing, &m, e);
    if (loaded) model_free(&m);
    if (rc == ERR_OK) return rc;
    return err_wrap(e, "%s: case '%s'", c->origin != NULL ? c->origin
                    : s->path, c->name);
}

/* A device that computes has a router, and one EP rank receives what it
** routes. */
static int draw_routing(struct run_work *w, struct err *e)
{
    const struct scenario_case *c = w->c;

    if (w->x->ops->computes || c->ep == 1 || w->model.experts == 0)
        return ERR_OK;
    return routing_draw(&c->routing, c->waves, w->model.layers,
                        w->model.experts, &w->routing, e);
}

static int run_all(struct run_work *w, struct err *e)
{
    int rc = take_memory(w, e);

    if (rc == ERR_OK)
        rc = model_load(w->c->model_path, w->c->layers, &w->model, e);
    if (rc == ERR_OK) rc = make_plan(w, e);
    if (rc == ERR_OK && w->c->labels != NULL)
        rc = run_labels_read(w, &w->labels, e);
    if (rc == ERR_OK) rc = draw_routing(w, e);
    if (rc == ERR_OK) rc = run_price(w, e);
    if (rc == ERR_OK) rc = run_step(w, e);
    return rc;
}

/* Also after a part has failed: what was not reached is zero. */
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
    run_labels_free(w->labels);
    routing_drawn_free(&w->c->routing, &w->routing);
    buf_free(&w->histogram);
    free(w->tensor);
    free(w->driver);
    free(w->peer_op);
    plan_cache_free(w->cache);
    plan_free(&w->recorded);
    model_free(&w->model);
}

/* ---- files beside the records ------------------------------------------- */

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
        .x = x, .s = s, .c = &s->kase[i], .inventory = i == 0 && !x->totals,
        .routed_rows = -1, .routing = s->kase[i].routing
    };
    struct err e = {ERR_OK, ""};
    int rc;

    assert(i >= 0 && i < s->n_case);
    *out = (struct case_result){0};
    js_begin();             /* what the case before was refused is its own */
    rc = run_all(&w, &e);
    if (rc != ERR_OK) note_failure(out, rc, &e);
    rc = run_show(&w, out, &e);
    if (rc == ERR_OK) rc = miss_add(&w, out, &e);
    if (rc == ERR_OK) rc = add_snapshots(&w, out, &e);
    if (rc == ERR_OK) rc = add_histogram(&w, out, &e);
    if (rc == ERR_OK) rc = run_render(&w, out, &e);
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
    err_set(&e, ERR_RUN, "worker was ended %s", how);
    note_failure(out, ERR_RUN, &e);
    rc = run_show(&w, out, &e);
    if (rc == ERR_OK) rc = run_render(&w, out, &e);
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
