/* miss.c - see miss.h: the report as it is written */
#include "run/miss.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/hash.h"
#include "price/price_json.h"

/* ---- parts that replaying makes again ----------------------------------- */

json_t *miss_layouts(const struct model *m)
{
    json_t *list = json_array();
    int64_t i;

    for (i = 0; i < m->layers; i++)
        json_array_append_new(list, json_string(
            model_input_layout(m, i) == LAYER_GDN ? "gdn" : "attention"));
    return list;
}

/* A copy in which a whole number is an integer, however it was spelt. */
static json_t *normal(const json_t *v)
{
    json_t *out, *item;
    const char *key;
    size_t i;

    if (json_is_object(v)) {
        out = json_object();
        json_object_foreach((json_t *)(uintptr_t)v, key, item)
            json_object_set_new(out, key, normal(item));
        return out;
    }
    if (json_is_array(v)) {
        out = json_array();
        json_array_foreach(v, i, item) json_array_append_new(out, normal(item));
        return out;
    }
    if (json_is_real(v) && fabs(json_real_value(v)) < 0x1p53 &&
        floor(json_real_value(v)) == json_real_value(v))
        return json_integer((json_int_t)json_real_value(v));
    return json_copy((json_t *)(uintptr_t)v);
}

int miss_fingerprint(const json_t *report, char out[20], struct err *e)
{
    json_t *rest = normal(report);
    uint64_t hash;
    char *text;

    json_object_del(rest, "fingerprint");
    text = json_dumps(rest, JSON_COMPACT | JSON_SORT_KEYS |
                            JSON_REAL_PRECISION(15));
    json_decref(rest);
    if (text == NULL) return err_nomem(e);
    hash = hash_text(HASH_START, text);
    free(text);
    snprintf(out, 20, "%016" PRIx64, hash);
    return ERR_OK;
}

/* ---- writing ------------------------------------------------------------ */

/* A peak with everything that is needed to look for what was missed. */
static json_t *rank_json(const struct mem_peak *p)
{
    json_t *v = json_object(), *by = json_object();
    int i;

    for (i = 0; i < CAT_COUNT; i++)
        json_object_set_new(by, category_name((enum category)i),
                            json_integer(p->by[i]));
    json_object_set_new(v, "allocated_bytes",
                        json_integer((json_int_t)p->allocated));
    json_object_set_new(v, "requested_bytes",
                        json_integer((json_int_t)p->requested));
    json_object_set_new(v, "reserved_bytes",
                        json_integer((json_int_t)p->reserved));
    json_object_set_new(v, "event", json_integer((json_int_t)p->event));
    json_object_set_new(v, "phase", json_string(
        mem_phase_name((enum mem_phase)p->tag.phase)));
    json_object_set_new(v, "layer", json_integer(p->tag.layer));
    json_object_set_new(v, "operator", p->tag.op ? json_string(p->tag.op)
                                                 : json_null());
    json_object_set_new(v, "categories", by);
    return v;
}

static json_t *peak_json(const struct run_work *w, int64_t wave)
{
    json_t *v = json_object(), *ranks = json_array();
    int64_t peak = run_peak(w, wave), i, at = -1;

    for (i = 0; i < w->c->cp; i++) {
        const struct mem_peak *p = &w->wave[wave].rank[i].peak;
        if (at < 0 && (int64_t)p->allocated == peak) at = i;
        json_array_append_new(ranks, rank_json(p));
    }
    json_object_set_new(v, "rank", json_integer(at));
    json_object_set_new(v, "allocated_bytes", json_integer(peak));
    json_object_set_new(v, "ranks", ranks);
    return v;
}

/* Is the peak too far from what the estimator said, as a part of that? */
static bool is_beyond(const struct estimate *x, int64_t peak, double percent)
{
    double off = x->raw > 0 ? run_percent(peak, x->raw) : 0;

    return x->supported && (off > percent || off < -percent);
}

/* Names of the estimators that are beyond the threshold; NULL: the wave is
** none to report. One that ran out of memory always is, with no names: what
** it would have reached is not known. */
static json_t *missed(const struct run_work *w, int64_t wave)
{
    const struct run_wave *v = &w->wave[wave];
    int64_t peak = run_peak(w, wave), i;
    json_t *list = json_array();

    for (i = 0; peak > 0 && i < v->n_estimate; i++)
        if (is_beyond(&v->estimate[i], peak, w->x->miss_percent))
            json_array_append_new(list, json_string(v->estimate[i].name));
    if (json_array_size(list) > 0 || v->status == STATUS_OOM) return list;
    json_decref(list);
    return NULL;
}

/* [{"tokens", "parent"}], where the batch has tokens. */
static json_t *segments_json(const struct scenario_case *c)
{
    json_t *list = json_array();
    int64_t i;

    if (c->batch_kind == BATCH_LAYOUT) return list;
    for (i = 0; i < c->batch.n_seg; i++) {
        const struct segment *s = &c->batch.seg[i];
        json_array_append_new(list, json_pack(
            "{s:I, s:o}", "tokens", (json_int_t)s->tokens, "parent",
            s->parent < 0 ? json_null() : json_integer(s->parent)));
    }
    return list;
}

/* What every estimator of the wave said, the reader's own too. */
static int said_json(const struct run_wave *v, json_t **out, struct err *e)
{
    const struct estimate **list = calloc((size_t)v->n_estimate + 1,
                                          sizeof(void *));
    json_t *all;
    int64_t i;
    int rc = list == NULL ? err_nomem(e) : ERR_OK;

    for (i = 0; rc == ERR_OK && i < v->n_estimate; i++)
        list[i] = &v->estimate[i];
    if (rc == ERR_OK)
        rc = price_estimates_to_json(list, v->n_estimate, &all, e);
    free(list);
    if (rc != ERR_OK) return rc;
    *out = json_incref(json_object_get(all, "estimates"));
    json_decref(all);
    return ERR_OK;
}

/* A model that is not among the shipped ones goes into the facts whole. */
static int embed_model(const struct run_work *w, struct price_facts *f,
                       struct err *e)
{
    struct buf shipped = BUF_INIT, text = BUF_INIT;
    bool ours;
    int rc = ERR_OK;

    buf_printf(&shipped, "%s/models/%s.json", w->x->data, w->model.name);
    ours = strcmp(buf_text(&shipped), w->c->model_path) == 0;
    if (shipped.failed) rc = err_nomem(e);
    buf_free(&shipped);
    if (rc != ERR_OK || ours) return rc;
    rc = file_read(w->c->model_path, (size_t)16 << 20, &text, e);
    if (rc == ERR_OK) {
        free(f->model_ref);
        f->model_ref = strdup(buf_text(&text));
        if (f->model_ref == NULL) rc = err_nomem(e);
    }
    buf_free(&text);
    return rc;
}

/* Facts with the model inside, so that the report can be priced anywhere. */
static int report_json(const struct run_work *w, int64_t wave,
                       const json_t *names, json_t **out, struct err *e)
{
    struct price_facts f;
    json_t *v = json_object(), *facts = NULL, *estimates = NULL, *head;
    char mark[20];
    int rc = run_facts(w, wave, &f, e);

    if (rc == ERR_OK) {
        rc = embed_model(w, &f, e);
        if (rc == ERR_OK) rc = price_facts_to_json(&f, &facts, e);
        if (rc == ERR_OK) rc = said_json(&w->wave[wave], &estimates, e);
        price_facts_free(&f);
    }
    head = json_pack("{s:s, s:s, s:s, s:I, s:f, s:O}", "device", w->x->device,
                     "scenario", w->s->name, "case", w->c->name, "wave",
                     (json_int_t)wave, "threshold_percent",
                     w->x->miss_percent, "estimators", names);
    json_object_set_new(v, "format", json_integer(1));
    json_object_set_new(v, "miss", head);
    json_object_set_new(v, "facts", facts);
    json_object_set_new(v, "input_layouts", miss_layouts(&w->model));
    json_object_set_new(v, "estimates", estimates);
    json_object_set_new(v, "segments", segments_json(w->c));
    json_object_set_new(v, "peak", w->wave[wave].measured
                        ? peak_json(w, wave) : json_null());
    json_object_set_new(v, "note", json_string(w->wave[wave].note));
    if (rc == ERR_OK) rc = miss_fingerprint(v, mark, e);
    if (rc != ERR_OK) {
        json_decref(v);
        return rc;
    }
    json_object_set_new(v, "fingerprint", json_string(mark));
    *out = v;
    return ERR_OK;
}

int miss_add(const struct run_work *w, struct case_result *out,
             struct err *e)
{
    struct buf text = BUF_INIT;
    char suffix[40];
    int64_t i;
    int rc = ERR_OK;

    if (w->x->miss_percent < 0 || w->wave == NULL) return ERR_OK;
    for (i = 0; i < w->c->waves && rc == ERR_OK; i++) {
        json_t *names = missed(w, i), *v = NULL;
        if (names == NULL) continue;
        rc = report_json(w, i, names, &v, e);
        if (rc == ERR_OK) {
            snprintf(suffix, sizeof suffix, ".wave%" PRId64 ".json", i);
            js_put(&text, v);
            rc = run_add_file(w, RUN_MISS, suffix, &text, out, e);
        }
        json_decref(v);
        json_decref(names);
    }
    return rc;
}
