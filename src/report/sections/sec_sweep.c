/*
** sec_sweep.c - runs of totals, of many drawn waves: how far each estimator is
** off, where it is under, and in what terms.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "report/sections/errors.h"
#include "report/sections/sections.h"

enum {
    WORST = 10,
    LEAST_GAP = 50000       /* bytes of a term that are told, as 0.1 MB */
};

/* ---- what was run -------------------------------------------------------- */

/* Sums alone, where there is a peak. */
static bool is_total(const struct record_found *c)
{
    int64_t i, peaks = 0;

    for (i = 0; i < c->n_row; i++) {
        if (strcmp(c->row[i].source, "peak") != 0) continue;
        if (strcmp(c->row[i].term, "total") != 0) return false;
        peaks++;
    }
    return peaks > 0 && c->n_peak > 0;
}

/* Scenarios that have such cases, in their order; *name is the caller's. */
static int64_t find_sweeps(const struct view *v, const char ***name)
{
    int64_t c, i, n = 0;

    *name = calloc((size_t)v->n_case + 1, sizeof **name);
    if (*name == NULL) {
        v->d->failed = true;
        return 0;
    }
    for (c = 0; c < v->n_case; c++) {
        const char *s = v->kase[c]->shape.scenario;
        for (i = 0; i < n && strcmp((*name)[i], s) != 0;) i++;
        if (i == n && is_total(v->kase[c])) (*name)[n++] = s;
    }
    return n;
}

bool view_has_sweep(const struct view *v)
{
    int64_t c = 0;

    while (c < v->n_case && !is_total(v->kase[c])) c++;
    return c < v->n_case;
}

/* What stood after "--" when the folder was run; "" where that is unknown. */
static void put_options(struct view *v, struct buf *out)
{
    const char *command, *at;

    command = json_string_value(json_object_get(v->set->run, "command"));
    at = command != NULL ? strstr(command, " -- ") : NULL;
    if (at != NULL) buf_printf(out, " (`%s`)", at + 4);
}

static void put_counts(struct view *v, const char *scenario, int64_t waves)
{
    int64_t count[STATUS_COUNT] = {0}, c, n = 0;
    struct buf with = BUF_INIT;

    for (c = 0; c < v->n_case; c++) {
        if (strcmp(v->kase[c]->shape.scenario, scenario) != 0) continue;
        count[v->kase[c]->shape.status]++;
        n++;
    }
    put_options(v, &with);
    doc_para(v->d, "`%s`%s: %d cases, of which %d ran out of memory, %d were "
             "refused and %d failed; %d waves have a peak. Raw errors against "
             "the most-loaded rank's peak, of each estimator where it covers "
             "the wave:", scenario, buf_text(&with), (int)n,
             (int)count[STATUS_OOM], (int)count[STATUS_REFUSED],
             (int)(count[STATUS_ERROR] + count[STATUS_WRONG]), (int)waves);
    if (with.failed) v->d->failed = true;
    buf_free(&with);
}

/* ---- how far off --------------------------------------------------------- */

/* A row of the table of errors: an estimator's waves under, its quantiles. */
static void put_quantiles(struct view *v, struct table *t, const char *name,
                          const struct record_error *x, int64_t n)
{
    static const int at[] = {0, 5, 50, 95, 100};
    int64_t under = 0, admitted = 0, i;
    size_t k;

    for (i = 0; i < n; i++) {
        under += x[i].raw < x[i].peak;
        admitted += x[i].admitted < x[i].peak;
    }
    doc_row(v->d, t);
    cell_code(v->d, t, name);
    cell_count(v->d, t, n);
    cell_count(v->d, t, under);
    for (k = 0; k < sizeof at / sizeof *at; k++) {
        double e = n > 0 ? x[(n - 1) * at[k] / 100].percent : (double)NAN;
        cell_percent(v->d, t, e, e < 0);
    }
    cell_count(v->d, t, admitted);
}

/* ---- in what terms ------------------------------------------------------- */

/* The same case among those that were run again with all terms. */
static const struct record_found *with_terms(const struct view *v,
                                             const struct record_found *c)
{
    int64_t i;

    for (i = 0; v->worst != NULL && i < v->worst->n_case; i++) {
        const struct record_found *w = &v->worst->kase[i];
        if (strcmp(w->shape.name, c->shape.name) == 0 &&
            strcmp(w->shape.scenario, c->shape.scenario) == 0) return w;
    }
    return NULL;
}

/* The two terms that the estimate has most too little (sign -1) or too much
** of, in MB. */
static void put_terms(struct view *v, struct table *t,
                      const struct record_error *x, int sign)
{
    const struct record_found *c = with_terms(v, x->c);
    struct buf b = BUF_INIT;
    int64_t gap[CAT_COUNT];
    int k, round;

    for (k = 0; k < CAT_COUNT; k++) {
        const char *term = category_name((enum category)k);
        gap[k] = c == NULL ? 0 : sign
            * (view_bytes(c, x->wave, RECORD_MAX, x->source, term)
               - view_bytes(c, x->wave, RECORD_MAX, "peak", term));
    }
    for (round = 0; round < 2; round++) {
        int most = 0;
        for (k = 1; k < CAT_COUNT; k++)
            if (gap[k] > gap[most]) most = k;
        if (gap[most] < LEAST_GAP) break;
        buf_printf(&b, "%s%s %.1f", b.len > 0 ? ", " : "",
                   category_name((enum category)most),
                   (double)gap[most] / 1e6);
        gap[most] = 0;
    }
    cell_text(v->d, t, b.len > 0 ? buf_text(&b) : NULL);
    if (b.failed) v->d->failed = true;
    buf_free(&b);
}

static void put_case(struct view *v, struct table *t,
                     const struct record_error *x)
{
    const struct record_peak *p = record_peak_max(x->c, x->wave);

    doc_row(v->d, t);
    cell_code(v->d, t, x->c->shape.name);
    cell_count(v->d, t, x->wave);
    cell_count(v->d, t, x->c->shape.tokens);
    if (p == NULL) cell_none(v->d, t);
    else if (p->layer < 0) cell_text(v->d, t, p->phase);
    else cell_printf(v->d, t, "%s, layer %d", p->phase, (int)p->layer);
    cell_number(v->d, t, (double)x->peak / 1e6, 1);
    cell_percent(v->d, t, x->percent, x->raw < x->peak);
    put_terms(v, t, x, -1);
    put_terms(v, t, x, 1);
}

/* Those under first, then the furthest over. */
static void put_worst(struct view *v, const char *scenario, const char *name,
                      const struct record_error *x, int64_t n)
{
    char id[200];
    struct table *t;
    int64_t under = 0, i;

    if (n == 0) return;
    while (under < n && x[under].raw < x[under].peak) under++;
    doc_para(v->d, "`%s`: %d of %d waves are under%s. The furthest under, if "
             "any, then the furthest over, and the terms of which the "
             "estimate has too little and too much (MB):", name, (int)under,
             (int)n, under > WORST ? "; the worst ten of them here" : "");
    snprintf(id, sizeof id, "worst-%.80s-%.80s", scenario, name);
    t = doc_table(v->d, id, "case|>wave|>tokens|peak in|>peak, MB|>raw error"
                  "|too little|too much");
    for (i = 0; i < under && i < WORST; i++) put_case(v, t, &x[i]);
    for (i = 0; i < WORST && n - 1 - i >= under; i++)
        put_case(v, t, &x[n - 1 - i]);
}

/* ---- a scenario ---------------------------------------------------------- */

/* A scenario of drawn cases: what was drawn, how far off, the worst. */
static void put_sweep(struct view *v, const char *scenario)
{
    struct record_errors all;
    struct table *t;
    char id[100];
    int k;

    errors_of(v, scenario, &all);
    put_counts(v, scenario, all.waves);
    snprintf(id, sizeof id, "sweep-%.80s", scenario);
    t = doc_table(v->d, id, "estimator|>waves|>under|>least|>5 %|>median"
                  "|>95 %|>most|>admitted under");
    for (k = 0; k < all.n_source; k++) {
        const struct record_error *x;
        int64_t n = record_errors_part(&all, k, &x);
        if (strchr(all.source[k], '/') == NULL)
            put_quantiles(v, t, all.source[k], x, n);
    }
    for (k = all.n_source - 1; k >= 0; k--) {
        const struct record_error *x;
        int64_t n = record_errors_part(&all, k, &x);
        if (strchr(all.source[k], '/') == NULL)
            put_worst(v, scenario, all.source[k], x, n);
    }
    record_errors_free(&all);
}

void sec_sweep(struct view *v)
{
    const char **name;
    int64_t n = find_sweeps(v, &name), i;

    if (n > 0) doc_heading(v->d, 2, "sweep", "Waves of other shapes, drawn");
    for (i = 0; i < n; i++) put_sweep(v, name[i]);
    free(name);
    if (n == 0) return;
    doc_para(v->d, "Where `rounding` is what an estimate has too little or "
             "too much of, the cause is the allocator: which piece of a "
             "segment a tensor gets, and how much of it, depends on all that "
             "was there before, which no estimator knows. The smaller the "
             "peak, the more that is of it.");
}

/* ---- in a sentence ------------------------------------------------------- */

void sec_sweep_short(struct view *v, struct view *sweep)
{
    const char **name;
    int64_t n = find_sweeps(sweep, &name), i;
    int k;

    if (n > 0) doc_heading(v->d, 2, "shapes", "Other shapes");
    for (i = 0; i < n; i++) {
        struct record_errors all;
        errors_of(sweep, name[i], &all);
        for (k = 0; k < all.n_source; k++) {
            const struct record_error *x;
            int64_t waves = record_errors_part(&all, k, &x), under = 0;
            if (waves == 0 || strcmp(all.source[k], EVERYWHERE) != 0)
                continue;
            while (under < waves && x[under].raw < x[under].peak) under++;
            doc_para(v->d, "`%s`, %d waves of any tokens, CP, EP, layers, "
                     "adapters and routing: raw `" EVERYWHERE "` is under in "
                     "%d, %+.2f %% at least, %+.2f %% for the median wave, "
                     "%+.2f %% for 95 in 100, %+.2f %% at most. `shapes.md` "
                     "has every estimator and the worst waves, with their "
                     "terms and causes.", name[i], (int)waves, (int)under,
                     x[0].percent, x[(waves - 1) / 2].percent,
                     x[(waves - 1) * 95 / 100].percent,
                     x[waves - 1].percent);
        }
        record_errors_free(&all);
    }
    free(name);
}
