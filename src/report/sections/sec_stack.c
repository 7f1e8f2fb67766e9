/*
** sec_stack.c - scenarios of many waves: how far estimates lie above the
** peaks, which lie under, and why.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections/sweep.h"
#include "report/sections/sections.h"

enum { MAX_UNDER = 200 };

struct spread {
    int64_t waves, under, worst;    /* worst: bytes under, <= 0 */
    double min, max, margin;        /* margin: the least factor that covers */
};

static void widen(struct spread *r, const struct miss *m)
{
    double factor = (double)m->peak / (double)m->estimate;
    int64_t gap = m->estimate - m->peak;

    if (r->waves == 0 || m->percent < r->min) r->min = m->percent;
    if (r->waves == 0 || m->percent > r->max) r->max = m->percent;
    if (r->waves == 0 || gap < r->worst) r->worst = gap;
    if (factor > r->margin) r->margin = factor;
    r->under += m->under;
    r->waves++;
}

static struct spread find_spread(const struct view *v, const struct sweep *g,
                               const char *name, bool requested)
{
    struct spread r = {.margin = 0};
    int64_t c;

    for (c = 0; c < v->n_case; c++) {
        int64_t w = view_wave(v->kase[c], true);
        struct miss m;
        if (!sweep_has(v->kase[c], g)) continue;
        m = requested ? view_miss_requested(v->kase[c], w, name, "raw")
                      : view_miss(v->kase[c], w, name, "raw");
        if (m.known && m.estimate > 0) widen(&r, &m);
    }
    return r;
}

static void put_range(struct view *v, struct table *t, const struct sweep *g,
                      const char *name, bool requested)
{
    struct spread r = find_spread(v, g, name, requested);

    if (r.waves == 0) return;
    doc_row(v->d, t);
    cell_code(v->d, t, g->scenario);
    cell_count(v->d, t, g->ep);
    cell_text(v->d, t, name);
    cell_text(v->d, t, requested ? "requested" : "allocated");
    cell_count(v->d, t, r.waves);
    cell_percent(v->d, t, r.min, r.min < 0);
    cell_percent(v->d, t, r.max, r.max < 0);
    cell_count(v->d, t, r.under);
    if (r.worst < 0) cell_diff(v->d, t, r.worst);
    else cell_none(v->d, t);
    cell_number(v->d, t, r.margin <= 1 ? 1.0 : ceil(r.margin * 1e4) / 1e4, 4);
}

static void put_published(struct view *v, struct table *t,
                          const struct sweep *g)
{
    double min = figure(v->published, "full_stack.ep%d.min", (int)g->ep);

    if (strcmp(g->scenario, FULL_STACK) != 0 || isnan(min)) return;
    doc_row(v->d, t);
    cell_code(v->d, t, g->scenario);
    cell_count(v->d, t, g->ep);
    cell_text(v->d, t, "published (" AFTER ")");
    cell_text(v->d, t, "allocated");
    cell_none(v->d, t);
    cell_percent(v->d, t, min, false);
    cell_percent(v->d, t, figure(v->published, "full_stack.ep%d.max",
                                 (int)g->ep), false);
    cell_number(v->d, t, figure(v->published, "full_stack.under"), 0);
    cell_none(v->d, t);
    cell_none(v->d, t);
}

/* The two categories in which sign * (peak - estimate) is largest. */
static void put_gaps(struct view *v, struct table *t,
                     const struct record_found *c, int64_t w, int64_t sign)
{
    struct buf b = BUF_INIT;
    int64_t gap[CAT_COUNT], best;
    int k, round, at;

    for (k = 0; k < CAT_COUNT; k++) {
        const char *name = category_name((enum category)k);
        gap[k] = sign * (view_bytes(c, w, RECORD_MAX, "peak", name) -
                         view_bytes(c, w, RECORD_MAX, AFTER, name));
    }
    for (round = 0; round < 2; round++) {
        for (best = 0, at = -1, k = 0; k < CAT_COUNT; k++)
            if (gap[k] > best) best = gap[k], at = k;
        if (at < 0) break;
        buf_puts(&b, round ? ", " : "");
        buf_puts(&b, category_name((enum category)at));
        buf_putc(&b, ' ');
        buf_put_grouped(&b, gap[at]);
        gap[at] = 0;
    }
    cell_text(v->d, t, buf_text(&b));
    if (b.failed) v->d->failed = true;
    buf_free(&b);
}

static void put_where(struct view *v, struct table *t,
                      const struct record_peak *p)
{
    if (p->layer < 0) cell_text(v->d, t, p->phase);
    else cell_printf(v->d, t, "layer %d", (int)p->layer);
}

static struct table *under_table(struct view *v, const struct sweep *g)
{
    char id[200];

    doc_para(v->d, "Waves of `%s` at EP%d whose raw `per-rank` estimate is "
             "under the allocated peak, with the cause: the categories in "
             "which the peak holds most more than the estimate has, and the "
             "other way round (bytes).", g->scenario, (int)g->ep);
    snprintf(id, sizeof id, "under-%s-ep%d", g->scenario, (int)g->ep);
    return doc_table(v->d, id, "case|>tokens|peak in|>peak|>estimate"
                     "|>under by|>error|peak has more in"
                     "|estimate has more in");
}

static void put_under_line(struct view *v, struct table *t,
                           const struct record_found *k, int64_t w,
                           const struct miss *m)
{
    doc_row(v->d, t);
    cell_code(v->d, t, k->shape.name);
    cell_count(v->d, t, k->shape.tokens);
    put_where(v, t, record_peak_max(k, w));
    cell_bytes(v->d, t, m->peak);
    cell_bytes(v->d, t, m->estimate);
    cell_bytes(v->d, t, m->peak - m->estimate);
    cell_percent(v->d, t, m->percent, true);
    put_gaps(v, t, k, w, 1);
    put_gaps(v, t, k, w, -1);
}

/* Estimates below the peak are the ones that matter: each is listed. */
static void put_under(struct view *v, const struct sweep *g)
{
    struct table *t = NULL;
    int64_t c, n = 0, also = 0;

    for (c = 0; c < v->n_case; c++) {
        const struct record_found *k = v->kase[c];
        int64_t w = view_wave(k, true);
        struct miss m;
        if (!sweep_has(k, g)) continue;
        m = view_miss(k, w, AFTER, "raw");
        if (!m.known || !m.under) continue;
        also += view_miss_requested(k, w, AFTER, "raw").under;
        if (n++ >= MAX_UNDER) continue;
        if (t == NULL) t = under_table(v, g);
        put_under_line(v, t, k, w, &m);
    }
    if (n > MAX_UNDER)
        doc_para(v->d, "%d more are under; `records.csv` has them.",
                 (int)(n - MAX_UNDER));
    if (n > 0)
        doc_para(v->d, "In requested bytes %d of %d are under as well; in the "
                 "others the rounding to blocks, which no estimate has, "
                 "makes the difference. An estimate charges adapter "
                 "gradients less the boundaries that backward has released "
                 "by then, and the head's gradients as input gradient, so "
                 "those pairs of categories belong together.", (int)also,
                 (int)n);
}

void sec_stack(struct view *v)
{
    struct sweep *g;
    int n = sweep_find(v, &g), i, k;
    struct table *t;

    if (n == 0 && !v->published_here) return;
    doc_heading(v->d, 2, "stack", v->published_here ||
                view_has_scenario(v, FULL_STACK) ?
                "Full stack: cold first waves"
                : "Many waves: cold first waves");
    if (v->published_here && !view_has_scenario(v, FULL_STACK))
        view_absent(v, "one real sequence per wave, EP1 and EP2",
                    FULL_STACK);
    if (n == 0) return;
    doc_para(v->d, "Raw estimates of every scenario with at least %d waves "
             "of different size, against the most-loaded rank's peak of the "
             "cold wave: in allocated bytes (block sizes, what PyTorch's "
             "max_memory_allocated counts) and in requested bytes. Margin is "
             "the smallest factor on the raw estimate that would have left "
             "no wave under; admission uses %.2f.", MANY_SIZES,
             figure(v->published, "margin"));
    t = doc_table(v->d, "stack", "scenario|>EP|estimate|bytes|>waves|>min"
                  "|>max|>under|>worst under|>margin");
    for (i = 0; i < n; i++) {
        put_published(v, t, &g[i]);
        put_range(v, t, &g[i], AFTER, false);
        put_range(v, t, &g[i], AFTER, true);
        put_range(v, t, &g[i], BEFORE, false);
        for (k = 2; k < v->n_estimator; k++)
            put_range(v, t, &g[i], v->estimator[k], false);
    }
    for (i = 0; i < n; i++) put_under(v, &g[i]);
    free(g);
    if (view_has_scenario(v, FULL_STACK)) view_command(v, FULL_STACK);
    if (v->published_here)
        view_picture(v, PICTURE_TOKENS, "Raw error against tokens; below "
                     "the line the "
             "estimate is under");
}
