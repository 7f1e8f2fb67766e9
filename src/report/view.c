/* view.c - see view.h. */
#include "report/view.h"

#include "report/measured.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool view_add_name(const char ***list, int *n, const char *name)
{
    const char **more;
    int k;

    for (k = 0; k < *n; k++)
        if (strcmp((*list)[k], name) == 0) return true;
    more = realloc(*list, (size_t)(*n + 1) * sizeof *more);
    if (more == NULL) return false;
    more[*n] = name;
    *list = more;
    ++*n;
    return true;
}

/* Adds the estimators of one case that are not there yet. */
static bool add_estimators(struct view *v, const struct record_found *c)
{
    int64_t i;

    for (i = 0; i < c->n_row; i++) {
        const struct record_row *r = &c->row[i];
        if (r->rank != RECORD_MAX || strcmp(r->term, "admitted") != 0)
            continue;
        if (!view_add_name(&v->estimator, &v->n_estimator, r->source))
            return false;
    }
    return true;
}

const struct record_found *view_sibling(const struct record_set *set,
                                        const struct record_found *like,
                                        const char *suffix)
{
    size_t n = strlen(like->shape.name);
    int64_t i;

    for (i = 0; i < set->n_case; i++) {
        const struct record_case *s = &set->kase[i].shape;
        if (strncmp(s->name, like->shape.name, n) == 0 &&
            strcmp(s->name + n, suffix) == 0 &&
            strcmp(s->device, like->shape.device) == 0 &&
            strcmp(s->scenario, like->shape.scenario) == 0)
            return &set->kase[i];
    }
    return NULL;
}

/* A measured case, as a cell of its own or, if it is the one with a loss, as
** part of one. */
static void add_measured(struct view *v, const struct record_found *c)
{
    bool loss = strcmp(c->shape.kind, "hidden-loss") == 0;
    struct measured *m = &v->measured[v->n_measured];

    if (loss || c->shape.otherwise[0] != '\0') return;
    m->forward = c;
    m->backward = view_sibling(v->set, c, ".loss");
    v->n_measured++;
}

int view_open(struct view *v, const char *device, struct err *e)
{
    int64_t i;

    v->kase = malloc((size_t)(v->set->n_case + 1) * sizeof *v->kase);
    v->measured = malloc((size_t)(v->set->n_case + 1) * sizeof *v->measured);
    v->estimator = NULL;
    v->n_estimator = 0;
    v->n_case = v->n_measured = v->n_otherwise = 0;
    if (v->kase == NULL || v->measured == NULL ||
        !view_add_name(&v->estimator, &v->n_estimator, BEFORE) ||
        !view_add_name(&v->estimator, &v->n_estimator, AFTER))
        return err_nomem(e);
    v->published_here = false;
    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];
        if (strcmp(c->shape.device, device) != 0) continue;
        if (c->shape.series[0] != '\0') {
            add_measured(v, c);
            continue;
        }
        if (strcmp(c->shape.scenario, SENSITIVITY) == 0) {
            v->n_otherwise++;
            continue;
        }
        v->kase[v->n_case++] = c;
        v->published_here |= view_is_published(c);
        if (!add_estimators(v, c)) return err_nomem(e);
    }
    return ERR_OK;
}

void view_close(struct view *v)
{
    free(v->kase);
    free(v->measured);
    free(v->estimator);
    v->estimator = NULL;
    v->kase = NULL;
    v->measured = NULL;
}

const char *view_picture_name(enum picture p)
{
#define NAME(constant, name) [PICTURE_##constant] = name,
    static const char *const names[PICTURE_COUNT] = {PICTURES(NAME)};
#undef NAME

    assert(p < PICTURE_COUNT);
    return names[p];
}

void view_picture(struct view *v, enum picture p, const char *caption)
{
    const char *name = view_picture_name(p);

    if (v->picture[p] == PICTURE_DRAWN)
        doc_plot(v->d, name, caption);
    else if (v->picture[p] == PICTURE_SCRIPT)
        doc_para(v->d, "%s: `gnuplot %s.gp`, in this folder, draws the "
                 "picture.", caption, name);
}

const char *view_reason(const struct view *v, const char *estimator)
{
    int64_t i, k;

    for (i = 0; i < v->n_case; i++)
        for (k = 0; k < v->kase[i]->n_row; k++) {
            const struct record_row *r = &v->kase[i]->row[k];
            if (r->status == STATUS_REFUSED && r->rank == RECORD_MAX &&
                strcmp(r->source, estimator) == 0) return r->note;
        }
    return "";
}

void view_unfinished(struct doc *d, const struct record_set *s,
                     const char *folder)
{
    if (!s->finished)
        doc_para(d, "The run in %s is not finished; what follows covers the "
                 "cases that are.", folder);
}

bool view_has_peak(const struct view *v)
{
    int64_t i;

    for (i = 0; i < v->n_case; i++)
        if (v->kase[i]->n_peak > 0) return true;
    return false;
}

int64_t view_wave(const struct record_found *c, bool cold)
{
    int64_t i;

    for (i = 0; i < c->n_peak; i++)
        if (c->peak[i].cold == cold) return c->peak[i].wave;
    return -1;
}

static struct miss make_miss(bool known, int64_t estimate, int64_t peak)
{
    struct miss m = {.known = known && peak > 0, .estimate = estimate,
                     .peak = peak, .percent = NAN};

    if (!m.known) return m;
    m.under = estimate < peak;
    m.percent = 100.0 * ((double)estimate - (double)peak) / (double)peak;
    return m;
}

/* The wave's estimate; false where the estimator does not apply: what it
** falls back to is another estimator's. */
static bool estimate_of(const struct record_found *c, int64_t wave,
                        const char *estimator, const char *term, int64_t *out)
{
    const struct record_row *r = record_get(c, wave, RECORD_MAX, estimator,
                                            term);

    if (r == NULL || !r->measured || r->status == STATUS_REFUSED)
        return false;
    *out = r->bytes;
    return true;
}

struct miss view_miss(const struct record_found *c, int64_t wave,
                      const char *estimator, const char *term)
{
    int64_t estimate = 0, peak = 0;
    bool known = wave >= 0 &&
        estimate_of(c, wave, estimator, term, &estimate) &&
        record_bytes(c, wave, RECORD_MAX, "peak", "total", &peak);

    return make_miss(known, estimate, peak);
}

struct miss view_miss_requested(const struct record_found *c, int64_t wave,
                                const char *estimator, const char *term)
{
    int64_t estimate = 0, peak = 0, i, end = record_peaks_of(c, wave, &i);
    bool known = wave >= 0 &&
                 estimate_of(c, wave, estimator, term, &estimate);

    for (; i < end; i++)
        if (c->peak[i].requested > peak) peak = c->peak[i].requested;
    return make_miss(known, estimate, peak);
}

const char *view_peak_word(const char *device)
{
    return strcmp(device, "dry") == 0 ? "simulated" : "measured";
}

bool view_is_published(const struct record_found *c)
{
    const struct record_case *s = &c->shape;
    bool any = !isnan(s->published_before_cold) ||
               !isnan(s->published_before_warm) ||
               !isnan(s->published_after_cold) ||
               !isnan(s->published_after_warm);

    return any && strcmp(s->routing, "balanced") == 0;
}

bool view_is_subject(const struct view *v, const struct record_found *c)
{
    return view_is_published(c) || !v->published_here;
}

void view_left_out(struct view *v, int64_t shown)
{
    if (!v->published_here && shown == MAX_SUBJECTS && shown < v->n_case)
        doc_para(v->d, "The first %d of %lld cases; `records.csv` has all.",
                 (int)shown, (long long)v->n_case);
}

bool view_same_shape(const struct record_found *a,
                     const struct record_found *b)
{
    const struct record_case *x = &a->shape, *y = &b->shape;
    size_t size = (size_t)x->cp * sizeof *x->attention_rows;

    if (strcmp(x->model, y->model) != 0 || x->layers != y->layers ||
        x->cp != y->cp || x->ep != y->ep || x->tp != y->tp ||
        x->pp != y->pp || x->tokens != y->tokens ||
        x->lora_rank != y->lora_rank ||
        x->head_rows != y->head_rows || x->output_bytes != y->output_bytes)
        return false;
    if (x->attention_rows == NULL || y->attention_rows == NULL ||
        x->gdn_rows == NULL || y->gdn_rows == NULL) return false;
    return memcmp(x->attention_rows, y->attention_rows, size) == 0 &&
           memcmp(x->gdn_rows, y->gdn_rows, size) == 0;
}

const struct record_found *view_published(const struct view *v,
                                          const char *name)
{
    int64_t i;

    for (i = 0; i < v->n_case; i++)
        if (view_is_published(v->kase[i]) &&
            strcmp(v->kase[i]->shape.name, name) == 0) return v->kase[i];
    return NULL;
}

bool view_has_scenario(const struct view *v, const char *scenario)
{
    int64_t i;

    for (i = 0; i < v->n_case; i++)
        if (strcmp(v->kase[i]->shape.scenario, scenario) == 0) return true;
    return false;
}

double view_implied(const struct record_found *c, const char *estimator,
                    double published_percent)
{
    int64_t wave = view_wave(c, true), admitted;

    if (wave < 0 || !record_bytes(c, wave, RECORD_MAX, estimator, "admitted",
                                  &admitted)) return NAN;
    return (double)admitted / (1.0 + published_percent / 100.0);
}

int64_t view_bytes(const struct record_found *c, int64_t wave, int64_t rank,
                   const char *source, const char *term)
{
    int64_t bytes;

    return record_bytes(c, wave, rank, source, term, &bytes) ? bytes : 0;
}

bool view_peak_in_gdn(const struct record_found *c, int64_t wave,
                      int64_t rank)
{
    return view_bytes(c, wave, rank, "peak", "gdn") >
           view_bytes(c, wave, rank, "peak", "attention") +
           view_bytes(c, wave, rank, "peak", "attention_records");
}

const char *view_rank_source(const struct record_found *c, int64_t wave,
                             int64_t rank)
{
    return view_peak_in_gdn(c, wave, rank) ? AFTER "/gdn"
                                           : AFTER "/attention";
}

const char *view_name(const struct record_found *c, char *out, size_t cap)
{
    char *p;

    snprintf(out, cap, "%s/%s", c->shape.scenario, c->shape.name);
    for (p = out; *p != '\0'; p++)
        if (*p == '`' || *p == '|' || *p == '\n' || *p == '\r') *p = '?';
    return out;
}

const char *view_label(const char *estimator, char *out, size_t cap)
{
    char *p;

    if (strcmp(estimator, BEFORE) == 0) estimator = "before";
    else if (strcmp(estimator, AFTER) == 0) estimator = "after";
    snprintf(out, cap, "%s", estimator);
    for (p = out; *p != '\0'; p++)
        if (strchr("|`\n\r", *p) != NULL) *p = '?';
    return out;
}

void view_command(struct view *v, const char *scenario)
{
    doc_code(v->d, "peakproof run --out DIR lua/scenarios/%s.lua && "
             "peakproof report DIR", scenario);
}

void view_absent(struct view *v, const char *what, const char *scenario)
{
    doc_para(v->d, "Not in this folder: %s. This command makes it:", what);
    view_command(v, scenario);
}
