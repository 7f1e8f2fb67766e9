/* explain.c - one case: estimate against peak, term by term, rank by rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/doc/render.h"
#include "report/report.h"
#include "report/view.h"

/* What the case is, before any number of it. */
static void put_shape(struct doc *d, const struct record_found *c)
{
    const struct record_case *s = &c->shape;
    int64_t r;

    doc_item(d, "model %s, %d layers, CP%d EP%d TP%d PP%d, LoRA rank %d, %s",
             s->model, (int)s->layers, (int)s->cp, (int)s->ep, (int)s->tp,
             (int)s->pp, (int)s->lora_rank, s->dtype);
    if (strcmp(s->recompute, "full") != 0 || strcmp(s->kind, "train") != 0 ||
        !s->grad || !s->compiled)
        doc_item(d, "recompute %s%s%s, wave %s%s%s", s->recompute,
                 *s->modules != '\0' ? " of " : "", s->modules, s->kind,
                 s->grad ? "" : ", no gradients",
                 s->compiled ? "" : ", eager");
    doc_item(d, "%lld tokens, routing %s, device %s: peaks are %s",
             (long long)s->tokens, s->routing, s->device,
             view_peak_word(s->device));
    for (r = 0; r < s->cp && s->attention_rows && s->gdn_rows; r++)
        doc_item(d, "rank %d: %lld attention rows, %lld GDN rows", (int)r,
                 (long long)s->attention_rows[r], (long long)s->gdn_rows[r]);
    if (s->status != STATUS_OK)
        doc_item(d, "status %s: %s", record_status_name(s->status), s->note);
}

/* Every estimator of a wave, in the order of its rows. */
static void put_errors(struct doc *d, const struct record_found *c,
                       int64_t wave)
{
    struct table *t = doc_table(d, "errors", "estimate|>raw|>peak|>error"
                                "|>admitted|>error|note");
    int64_t i, end = record_rows_of(c, wave, &i);

    for (; i < end; i++) {
        const struct record_row *r = &c->row[i];
        struct miss raw, admitted;
        if (r->rank != RECORD_MAX || strcmp(r->term, "admitted") != 0)
            continue;
        raw = view_miss(c, wave, r->source, "raw");
        admitted = view_miss(c, wave, r->source, "admitted");
        doc_row(d, t);
        cell_code(d, t, r->source);
        cell_bytes(d, t, view_bytes(c, wave, RECORD_MAX, r->source, "raw"));
        if (raw.known) cell_bytes(d, t, raw.peak);
        else cell_none(d, t);
        cell_percent(d, t, raw.percent, raw.under);
        cell_bytes(d, t, r->bytes);
        cell_percent(d, t, admitted.percent, admitted.under);
        cell_text(d, t, r->note);
    }
}

/* One source against one peak, category by category; what is left at the
** end is the sum of all differences. */
static void put_terms(struct doc *d, const struct record_found *c,
                      int64_t wave, int64_t rank, const char *source)
{
    struct table *t = doc_table(d, "terms", "category|>estimate|>peak"
                                "|>difference");
    int64_t estimate = 0, peak = 0, rest;
    int k;

    for (k = 0; k < CAT_COUNT; k++) {
        const char *name = category_name((enum category)k);
        int64_t a = view_bytes(c, wave, rank, source, name);
        int64_t b = view_bytes(c, wave, rank, "peak", name);
        if (a == 0 && b == 0) continue;
        doc_row(d, t);
        cell_code(d, t, name);
        cell_bytes(d, t, a);
        cell_bytes(d, t, b);
        cell_diff(d, t, a - b);
        estimate += a;
        peak += b;
    }
    rest = view_bytes(c, wave, rank, source, "raw") - estimate;
    if (rest != 0) {
        doc_row(d, t);
        cell_text(d, t, "in no category");
        cell_bytes(d, t, rest);
        cell_none(d, t);
        cell_diff(d, t, rest);
        estimate += rest;
    }
    doc_row(d, t);
    cell_text(d, t, "total (residue)");
    cell_bytes(d, t, estimate);
    cell_bytes(d, t, peak);
    cell_diff(d, t, estimate - peak);
}

/* The most-loaded rank against every estimator but per-rank, which follows
** rank by rank. */
static void put_estimators(struct doc *d, const struct record_found *c,
                           int64_t wave)
{
    int64_t i, end = record_rows_of(c, wave, &i), bytes;

    for (; i < end; i++) {
        const struct record_row *r = &c->row[i];
        if (r->rank != RECORD_MAX || strcmp(r->term, "admitted") != 0 ||
            strcmp(r->source, AFTER) == 0 ||
            !record_bytes(c, wave, RECORD_MAX, r->source, "raw", &bytes))
            continue;
        doc_para(d, "The most-loaded rank against `%s`:", r->source);
        put_terms(d, c, wave, RECORD_MAX, r->source);
    }
}

/* Where the rank's peak lies, then its categories beside the estimate's
** terms. */
static void put_rank(struct doc *d, const struct record_found *c,
                     int64_t wave, int64_t rank)
{
    const struct record_peak *p = record_peak_of(c, wave, rank);
    const char *source = view_rank_source(c, wave, rank);
    char where[40] = "outside the decoder", title[40];
    char allocated[32], requested[32], reserved[32], taken[32], dispatch[32];

    if (p == NULL) return;
    snprintf(title, sizeof title, "Rank %d", (int)rank);
    doc_heading(d, 3, "rank", title);
    if (p->layer >= 0)
        snprintf(where, sizeof where, "layer %d", (int)p->layer);
    doc_para(d, "Peak of rank %d in `%s`, %s, at `%s`, event %lld. Above "
             "what was allocated when the wave began: %s bytes allocated, "
             "%s requested. Reserved by the allocator in all, weights and "
             "earlier waves included: %s. Of its device the rank takes %s "
             "bytes, dispatch buffers of %s included.", (int)rank, p->phase,
             where, p->op, (long long)p->event,
             buf_grouped(p->allocated, allocated),
             buf_grouped(p->requested, requested),
             buf_grouped(p->reserved, reserved),
             buf_grouped(record_taken(p), taken),
             buf_grouped(record_taken(p) - p->reserved, dispatch));
    if (record_get(c, wave, rank, source, "raw") == NULL) return;
    doc_para(d, "Against `%s`:", source);
    put_terms(d, c, wave, rank, source);
}

static void put_wave(struct doc *d, const struct record_found *c,
                     int64_t wave, bool cold)
{
    char title[64];
    int64_t r;

    snprintf(title, sizeof title, "Wave %d, %s", (int)wave,
             cold ? "cold" : "warm");
    doc_heading(d, 2, "wave", title);
    put_errors(d, c, wave);
    if (record_peak_max(c, wave) == NULL) {
        const struct record_row *x = record_get(c, wave, RECORD_MAX, "peak",
                                                "total");
        doc_para(d, "No peak: %s%s%s.", x ? record_status_name(x->status)
                 : "not run", x && *x->note ? ", " : "", x ? x->note : "");
        return;
    }
    put_estimators(d, c, wave);
    for (r = 0; r < c->shape.cp; r++) put_rank(d, c, wave, r);
}

static void put_case(struct doc *d, const struct record_set *s,
                     const struct record_found *c)
{
    char name[200];
    int64_t i, last = -1;

    doc_heading(d, 1, "case", view_name(c, name, sizeof name));
    if (!s->finished)
        doc_para(d, "The run in `%s` is not finished; this case is.", s->dir);
    put_shape(d, c);
    for (i = 0; i < c->n_row; i++) {
        if (c->row[i].wave == last) continue;
        last = c->row[i].wave;
        put_wave(d, c, last, c->row[i].cold);
    }
}

int report_explain(const char *dir, const char *name, struct buf *text,
                   json_t **json, struct err *e)
{
    struct record_set *s = NULL;
    const struct record_found *c;
    struct doc d = {0};
    int rc = record_read(dir, &s, e);

    if (rc == ERR_OK) rc = record_find(s, name, &c, e);
    if (rc == ERR_OK) {
        put_case(&d, s, c);
        if (json != NULL) *json = render_json(&d);
        else render_md(&d, text);
        if (d.failed || (json ? *json == NULL : text->failed))
            rc = err_nomem(e);
    }
    doc_free(&d);
    record_set_free(s);
    return rc;
}
