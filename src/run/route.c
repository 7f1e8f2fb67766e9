/* route.c - see route.h */
#include "run/route.h"

#include "run/device.h"
#include "run/ranks.h"

/* A forward to hidden states of a single rank. */
static struct scenario_case case_of(const struct route *r,
                                    const struct batch *b)
{
    struct scenario_case c = {
        .layers = r->layers, .cp = 1, .ep = 1, .tp = 1, .pp = 1, .waves = 1,
        .mode = {.wave = WAVE_HIDDEN, .no_grad = true},
        .lora_rank = r->lora_rank, .lora_alpha = 32, .init = r->init,
        .seed = r->seed, .head_rows = -1, .price_head_rows = -1,
        .hybridep_held_rows = -1, .cp_attention = true,
        .batch_kind = BATCH_LENGTHS, .batch = *b
    };

    c.model_path = (char *)(uintptr_t)r->model;
    c.dtype = (char *)(uintptr_t)"f32";
    c.weights = (char *)(uintptr_t)"random";
    return c;
}

static int run_ranks(struct run_work *w, struct routing *out, struct err *e)
{
    struct step_data data = {.ids = NULL};
    struct ranks r = {.w = w, .ops = w->x->ops, .routing = &w->c->routing,
                      .data = &data, .waves = 1, .stream = true};
    int rc = run_data_make(w, &data, e);

    if (rc == ERR_OK) rc = ranks_run(&r, e);
    if (rc == ERR_OK) rc = run_routing_of(&r, out, e);
    ranks_close(&r);
    run_data_free(&data);
    return rc;
}

static int run_planned(struct run_work *w, struct routing *out,
                       struct err *e)
{
    struct plan_options o = {.cp = 1, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct plan p;
    int rc = plan_make(&w->model, &w->c->batch, &o, &p, e);

    if (rc != ERR_OK) return rc;
    w->plan = &p;
    rc = run_ranks(w, out, e);
    plan_free(&p);
    return rc;
}

int run_route(const struct route *r, struct routing *out, struct err *e)
{
    static const atomic_int never;
    struct run_context x = {.device = "cpu", .interrupt = &never};
    struct batch b;
    struct scenario_case c;
    struct run_work w = {.x = &x, .c = &c};
    int rc = device_find("cpu", &x.ops, e);

    if (rc == ERR_OK) rc = model_load(r->model, r->layers, &w.model, e);
    if (rc != ERR_OK) return rc;
    rc = w.model.experts > 0 ? batch_from_lengths(&r->rows, 1, &b, e)
         : err_set(e, ERR_INPUT, "%s: a dense model has no router", r->model);
    if (rc == ERR_OK) {
        c = case_of(r, &b);
        rc = run_planned(&w, out, e);
        batch_free(&b);
    }
    model_free(&w.model);
    return rc;
}
