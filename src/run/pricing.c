/* pricing.c - see run.h: what the estimators are told and what they say */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "run/labels.h"

/* The rows of each hidden result: a sequence ends in each leaf. */
static int set_outputs(const struct run_work *w, struct price_facts *f,
                       struct err *e)
{
    const struct batch *b = &w->c->batch;
    int64_t i, rows = 0;

    if (f->mode.wave == WAVE_TRAIN) return ERR_OK;
    f->output_rows = calloc((size_t)b->n_seg + 1, sizeof *f->output_rows);
    if (f->output_rows == NULL) return err_nomem(e);
    if (b->seg == NULL) {       /* recorded: one result of all rows */
        for (i = 0; i < w->plan->cp; i++)
            rows += w->plan->rank[i].attention_rows;
        f->output_rows[f->n_output++] = rows;
    }
    for (i = 0; i < b->n_seg; i++) {
        if (b->seg[i].next > i + 1) continue;
        f->output_rows[f->n_output] = b->seg[i].position + b->seg[i].tokens;
        rows += f->output_rows[f->n_output++];
    }
    if (f->output_bytes == 0) f->output_bytes = 2 * rows * w->model.hidden;
    return ERR_OK;
}

/* On a device whose router is the scenario, routing is known exactly. */
static int put_pairs(const struct run_work *w, int64_t wave,
                     struct price_facts *f, struct err *e)
{
    return w->x->ops->computes ? ERR_OK
                               : price_facts_route(f, &w->routing, wave, e);
}

int run_facts(const struct run_work *w, int64_t wave, struct price_facts *out,
              struct err *e)
{
    bool cold = w->wave[wave].cold;
    const struct scenario_case *c = w->c;
    int64_t rows = c->price_head_rows >= 0 ? c->price_head_rows
                                           : c->head_rows;
    int rc = price_facts_from_plan(&w->model, w->plan, c->ep, c->lora_rank,
                                   out, e);

    if (rc != ERR_OK) return rc;
    out->group[0].routed_rows = c->routed_rows;
    out->tp = c->tp;
    out->pp = c->pp;
    out->mode = c->mode;
    out->group[0].grad = !c->mode.no_grad;
    out->cold = cold;
    if (rows < 0)
        rows = w->labels != NULL ? w->labels->total : w->plan->tokens;
    out->head_rows = rows;
    out->output_bytes = c->output_bytes;
    out->softmax_offset = c->softmax_offset;
    out->cp_attention = c->cp_attention;
    out->hybridep_held_rows = c->hybridep_held_rows;
    if (c->hybridep_held_rows >= 0) out->packed_length = w->plan->tokens;
    /* gradients stay between waves: only a first one has them pending */
    if (cold) rc = price_facts_all_pending(out, e);
    if (rc == ERR_OK) rc = set_outputs(w, out, e);
    if (rc == ERR_OK && c->batch_kind == BATCH_LAYOUT)
        rc = price_check_whole(out, e);
    if (rc == ERR_OK) rc = put_pairs(w, wave, out, e);
    if (rc != ERR_OK) price_facts_free(out);
    return rc;
}

typedef int price_as(const struct price_facts *f, unsigned change,
                     struct estimate *out, struct err *e);

static int add_variant(struct run_wave *v, const struct price_facts *f,
                       const char *source, price_as *price, unsigned change,
                       struct err *e)
{
    struct estimate x;
    int rc = price(f, change, &x, e);

    if (rc != ERR_OK || !x.supported) return rc;
    v->variant[v->n_variant++] = (struct record_variant){source, x.raw};
    return ERR_OK;
}

/* The estimators with one thing changed, as record.h lists them. */
static int add_variants(struct run_wave *v, const struct price_facts *f,
                        struct err *e)
{
    static const struct {
        const char *source;
        price_as *price;
        unsigned change;
    } variant[] = {
        {"per-rank/unpaired", price_per_rank_as, PRICE_UNPAIRED},
        {"per-rank/no-allowance", price_per_rank_as, PRICE_NO_ALLOWANCE},
        {"per-rank/one-lse", price_per_rank_as, PRICE_ONE_LSE},
        {"busiest-rank/no-allowance", price_busiest_rank_as,
         PRICE_NO_ALLOWANCE},
    };
    size_t i;
    int rc = ERR_OK;

    for (i = 0; i < sizeof variant / sizeof variant[0] && rc == ERR_OK; i++)
        rc = add_variant(v, f, variant[i].source, variant[i].price,
                         variant[i].change, e);
    return rc;
}

static int add_any(struct run_wave *v, const struct price_facts *f,
                   const char *source, struct err *e)
{
    struct estimate *x = malloc(sizeof *x);
    int rc = x == NULL ? err_nomem(e) : price_per_rank_any(f, x, e);

    if (rc == ERR_OK && x->supported)
        v->variant[v->n_variant++] = (struct record_variant){source, x->raw};
    free(x);
    return rc;
}

/* per-rank-any with what a planner may know instead of the wave's routing:
** nothing, experts' loads by their spread, or the wave before. */
static int add_routed(struct run_work *w, struct run_wave *v,
                      const struct price_facts *f, struct err *e)
{
    int64_t *exact = f->group[0].routed_pairs, wave = v - w->wave;
    struct price_facts x = *f;
    int rc;

    if (exact == NULL) return ERR_OK;
    x.group[0].routed_pairs = NULL;
    rc = add_any(v, &x, PRICE_PER_RANK_ANY "/no-allowance", e);
    x.load_cv = w->c->load_cv;
    if (rc == ERR_OK) rc = add_any(v, &x, PRICE_PER_RANK_ANY "/quantile", e);
    if (rc == ERR_OK && wave > 0) {
        rc = put_pairs(w, wave - 1, &x, e);
        if (rc == ERR_OK)
            rc = add_any(v, &x, PRICE_PER_RANK_ANY "/last-histogram", e);
        free(x.group[0].routed_pairs);
    }
    x.group[0].routed_pairs = exact;    /* the group is f's too */
    return rc;
}

/* Estimators of one Lua file, after those that are there. */
static int price_lua(struct run_wave *v, struct scenario_estimators *lua,
                     const struct price_facts *f,
                     const struct scenario_known *known, struct err *e)
{
    int64_t i, n = scenario_estimator_count(lua);
    int rc = ERR_OK;

    for (i = 0; i < n && rc == ERR_OK; i++) {
        rc = scenario_estimator_call(lua, i, f, known,
                                     &v->estimate[v->n_estimate], e);
        if (rc == ERR_OK) v->n_estimate++;
    }
    return rc;
}

/* The scenario's and those of --estimator. */
static int price_script(struct run_work *w, struct run_wave *v,
                        const struct price_facts *f, struct err *e)
{
    struct scenario_known known = {
        .scenario = w->s->name, .name = w->c->name, .dtype = w->c->dtype,
        .wave = v - w->wave, .load_cv = w->c->load_cv
    };
    struct price_group group = f->group[0];
    struct price_facts last = *f;
    int rc = ERR_OK, i;

    group.routed_pairs = NULL;
    last.group = &group;
    if (known.wave > 0) rc = put_pairs(w, known.wave - 1, &last, e);
    known.last_pairs = group.routed_pairs;
    if (rc == ERR_OK) rc = price_lua(v, w->s->estimators, f, &known, e);
    for (i = 0; i < w->x->n_extra && rc == ERR_OK; i++)
        rc = price_lua(v, w->x->extra[i], f, &known, e);
    free(group.routed_pairs);
    return rc;
}

static int64_t count_estimators(const struct run_work *w)
{
    int64_t n = num_max(PRICE_ESTIMATORS, SCENARIO_MAX_ESTIMATORS) +
                scenario_estimator_count(w->s->estimators);
    int i;

    for (i = 0; i < w->x->n_extra; i++)
        n += scenario_estimator_count(w->x->extra[i]);
    return n;
}

/* Every activation is priced as bf16. */
static bool is_bf16(const struct run_work *w)
{
    return strcmp(w->c->dtype, "bf16") == 0;
}

static void refuse_dtype(const struct run_work *w, struct estimate *x)
{
    x->supported = x->priced = false;
    snprintf(x->reason, sizeof x->reason, "dtype %s: priced in bf16 only",
             w->c->dtype);
}

static int price_one(struct run_work *w, struct run_wave *v,
                     const struct price_facts *f,
                     const struct price_estimator *p, struct err *e)
{
    struct estimate *x = &v->estimate[v->n_estimate];
    int rc = p->price(f, x, e);

    if (rc == ERR_OK) v->n_estimate++;
    if (rc == ERR_OK && !is_bf16(w)) refuse_dtype(w, x);
    return rc;
}

/* The program's own estimators: those that the case names, or those that are
** shown beside such a wave. */
static int price_own(struct run_work *w, struct run_wave *v,
                     const struct price_facts *f, struct err *e)
{
    int i, rc = ERR_OK;

    for (i = 0; i < w->c->n_estimator && rc == ERR_OK; i++)
        rc = price_one(w, v, f, w->c->estimator[i], e);
    if (w->c->names_estimators) return rc;
    for (i = 0; i < PRICE_ESTIMATORS && rc == ERR_OK; i++)
        if (price_shows(i, f) && (i < PRICE_RECOMPUTING || is_bf16(w)))
            rc = price_one(w, v, f, &price_estimators[i], e);
    return rc;
}

static int price_all(struct run_work *w, struct run_wave *v,
                     const struct price_facts *f, struct err *e)
{
    int rc;

    v->estimate = calloc((size_t)count_estimators(w), sizeof *v->estimate);
    if (v->estimate == NULL) return err_nomem(e);
    rc = price_own(w, v, f, e);
    if (rc == ERR_OK) rc = price_script(w, v, f, e);
    if (rc == ERR_OK && is_bf16(w)) rc = add_variants(v, f, e);
    return rc == ERR_OK && is_bf16(w) ? add_routed(w, v, f, e) : rc;
}

static int price_wave(struct run_work *w, struct run_wave *v, struct err *e)
{
    int64_t start = run_now_ns();
    struct price_facts f;
    int rc = run_facts(w, v - w->wave, &f, e);

    if (rc != ERR_OK) return rc;
    rc = price_all(w, v, &f, e);
    run_time(w, v, -1, "price", run_now_ns() - start);
    if (w->model.experts > 0) w->routed_rows = price_routed_rows(&f, 0);
    price_facts_free(&f);
    return rc;
}

int run_price(struct run_work *w, struct err *e)
{
    int64_t i;
    int rc = ERR_OK;

    for (i = 0; i < w->c->waves && rc == ERR_OK; i++)
        rc = price_wave(w, &w->wave[i], e);
    return rc;
}
