/* run_price.c - see run.h: what the estimators are told and what they say */
#include <stdlib.h>
#include <string.h>

#include "bench/run.h"

int run_facts(const struct run_work *w, bool cold, struct price_facts *out,
              struct err *e)
{
    const struct scenario_case *c = w->c;
    size_t n = (size_t)w->model.layers + 1;
    int64_t rows = c->price_head_rows >= 0 ? c->price_head_rows
                                           : c->head_rows;
    int rc = price_facts_from_plan(&w->model, &w->plan, c->ep, c->lora_rank,
                                   out, e);

    if (rc != ERR_OK) return rc;
    out->tp = c->tp;
    out->pp = c->pp;
    out->cold = cold;
    out->head_rows = rows >= 0 ? rows : w->plan.tokens;
    out->output_bytes = c->output_bytes;
    out->softmax_offset = c->softmax_offset;
    out->cp_attention = c->cp_attention;
    out->hybridep_held_rows = c->hybridep_held_rows;
    if (c->hybridep_held_rows >= 0) out->packed_length = w->plan.tokens;
    if (!cold) return ERR_OK;       /* gradients stay between waves */
    out->pending = malloc(n * sizeof *out->pending);
    if (out->pending == NULL) {
        price_facts_free(out);
        return err_nomem(e);
    }
    memcpy(out->pending, w->pending, n * sizeof *out->pending);
    return ERR_OK;
}

static int price_wave(struct run_work *w, struct run_wave *v, struct err *e)
{
    int64_t start = run_now_ns();
    struct price_facts f;
    int rc = run_facts(w, v->cold, &f, e);

    if (rc != ERR_OK) return rc;
    v->estimate = calloc(2, sizeof *v->estimate);
    if (v->estimate == NULL) rc = err_nomem(e);
    if (rc == ERR_OK) rc = price_busiest_rank(&f, &v->estimate[0], e);
    if (rc == ERR_OK) rc = price_per_rank(&f, &v->estimate[1], e);
    if (rc == ERR_OK) v->n_estimate = 2;
    price_facts_free(&f);
    run_time(w, v, -1, "price", start);
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
