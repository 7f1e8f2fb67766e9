/*
** sec_stack.c - scenarios of many waves: how far estimates lie above the
** peaks, which lie under and why, what pairing saves, where peaks lie.
*/
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

enum { MANY = 5, MAX_GROUPS = 32, MAX_UNDER = 200 };

/* Cases of one scenario at one EP. */
struct group {
    const char *scenario;
    int64_t ep;
    int64_t sizes;          /* times that tokens differ from the case before */
    int64_t tokens;         /* of its last case */
};

/* Groups with at least MANY waves of different size, by first case. */
static int find_groups(const struct view *v, struct group *out)
{
    int n = 0, i, kept = 0;
    int64_t c;

    for (c = 0; c < v->n_case; c++) {
        const struct record_case *s = &v->kase[c]->shape;
        for (i = 0; i < n; i++)
            if (out[i].ep == s->ep &&
                strcmp(out[i].scenario, s->scenario) == 0) break;
        if (i == n && n < MAX_GROUPS)
            out[n++] = (struct group){s->scenario, s->ep, 0, -1};
        if (i == n) continue;
        out[i].sizes += s->tokens != out[i].tokens;
        out[i].tokens = s->tokens;
    }
    for (i = 0; i < n; i++)
        if (out[i].sizes >= MANY) out[kept++] = out[i];
    return kept;
}

static bool in_group(const struct record_found *c, const struct group *g)
{
    return c->shape.ep == g->ep &&
           strcmp(c->shape.scenario, g->scenario) == 0;
}

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

static struct spread find_spread(const struct view *v, const struct group *g,
                               const char *name, bool requested)
{
    struct spread r = {.margin = 0};
    int64_t c;

    for (c = 0; c < v->n_case; c++) {
        int64_t w = view_wave(v->kase[c], true);
        struct miss m;
        if (!in_group(v->kase[c], g)) continue;
        m = requested ? view_miss_requested(v->kase[c], w, name, "raw")
                      : view_miss(v->kase[c], w, name, "raw");
        if (m.known && m.estimate > 0) widen(&r, &m);
    }
    return r;
}

static void put_range(struct view *v, struct table *t, const struct group *g,
                      const char *name, bool requested)
{
    struct spread r = find_spread(v, g, name, requested);

    if (r.waves == 0) return;
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
                          const struct group *g)
{
    double min = figure(v->published, "full_stack.ep%d.min", (int)g->ep);

    if (strcmp(g->scenario, "full-stack") != 0 || isnan(min)) return;
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

static void put_under(struct view *v, const struct group *g)
{
    struct table *t = NULL;
    int64_t c, more = 0, shown = 0;
    char id[200];

    for (c = 0; c < v->n_case; c++) {
        const struct record_found *k = v->kase[c];
        int64_t w = view_wave(k, true);
        struct miss m;
        if (!in_group(k, g)) continue;
        m = view_miss(k, w, AFTER, "raw");
        if (!m.known || !m.under) continue;
        if (shown++ >= MAX_UNDER) {
            more++;
            continue;
        }
        if (t == NULL) {
            doc_para(v->d, "Waves of `%s` at EP%d whose raw `per-rank` "
                     "estimate is under the allocated peak, with the cause: "
                     "the categories in which the peak holds most more than "
                     "the estimate has, and the other way round (bytes).",
                     g->scenario, (int)g->ep);
            snprintf(id, sizeof id, "under-%s-ep%d", g->scenario, (int)g->ep);
            t = doc_table(v->d, id, "case|>tokens|peak in|>peak|>estimate"
                          "|>under by|>error|peak has more in"
                          "|estimate has more in");
        }
        cell_code(v->d, t, k->shape.name);
        cell_count(v->d, t, k->shape.tokens);
        put_where(v, t, record_peak_max(k, w));
        cell_bytes(v->d, t, m.peak);
        cell_bytes(v->d, t, m.estimate);
        cell_bytes(v->d, t, m.peak - m.estimate);
        cell_percent(v->d, t, m.percent, true);
        put_gaps(v, t, k, w, 1);
        put_gaps(v, t, k, w, -1);
    }
    if (t != NULL)
        doc_para(v->d, "An estimate charges adapter gradients less the "
                 "boundaries that backward has released by then, so what "
                 "those two categories differ by belongs together.");
    if (more > 0)
        doc_para(v->d, "%d more waves are under; `records.csv` has them.",
                 (int)more);
}

void sec_stack(struct view *v)
{
    struct group g[MAX_GROUPS];
    int n = find_groups(v, g), i;
    struct table *t;

    doc_heading(v->d, 2, "stack", "Full stack: cold first waves");
    if (!view_has_scenario(v, "full-stack"))
        view_absent(v, "one real sequence per wave, EP1 and EP2",
                    "full-stack");
    if (n == 0) return;
    doc_para(v->d, "Raw estimates of every scenario with at least %d waves "
             "of different size, against the most-loaded rank's peak of the "
             "cold wave: in allocated bytes (block sizes, what PyTorch's "
             "max_memory_allocated counts) and in requested bytes. Margin is "
             "the smallest factor on the raw estimate that would have left "
             "no wave under; admission uses %.2f.", MANY,
             figure(v->published, "margin"));
    t = doc_table(v->d, "stack", "scenario|>EP|estimate|bytes|>waves|>min"
                  "|>max|>under|>worst under|>margin");
    for (i = 0; i < n; i++) {
        put_published(v, t, &g[i]);
        put_range(v, t, &g[i], AFTER, false);
        put_range(v, t, &g[i], AFTER, true);
        put_range(v, t, &g[i], BEFORE, false);
    }
    for (i = 0; i < n; i++) put_under(v, &g[i]);
    view_command(v, "full-stack");
    doc_plot(v->d, "tokens", "Raw error against tokens; below the line the "
             "estimate is under");
}

void sec_pairing(struct view *v)
{
    struct group g[MAX_GROUPS];
    int n = find_groups(v, g), i;
    struct table *t = NULL;
    int64_t c;

    doc_heading(v->d, 2, "pairing", "Over-count that pairing avoids");
    for (i = 0; i < n; i++) {
        const struct record_found *at = NULL;
        int64_t most = 0, waves = 0, raw, loose;
        for (c = 0; c < v->n_case; c++) {
            const struct record_found *k = v->kase[c];
            int64_t w = view_wave(k, true);
            if (!in_group(k, &g[i]) || w < 0 ||
                !record_bytes(k, w, RECORD_MAX, AFTER, "raw", &raw) ||
                !record_bytes(k, w, RECORD_MAX, AFTER "/unpaired", "raw",
                              &loose)) continue;
            waves += loose > raw;
            if (at == NULL || loose - raw > most) at = k, most = loose - raw;
        }
        if (at == NULL) continue;
        if (t == NULL)
            t = doc_table(v->d, "pairing", "scenario|>EP|>waves over-counted"
                          "|>largest, MB|>published, up to MB|case|>tokens"
                          "|>attention rows|>GDN rows");
        cell_code(v->d, t, g[i].scenario);
        cell_count(v->d, t, g[i].ep);
        cell_count(v->d, t, waves);
        cell_number(v->d, t, (double)most / 1e6, 1);
        cell_number(v->d, t, figure(v->published, "pairing.overcount.max"),
                    0);
        cell_code(v->d, t, at->shape.name);
        cell_count(v->d, t, at->shape.tokens);
        if (at->shape.cp == 2 && at->shape.attention_rows != NULL &&
            at->shape.gdn_rows != NULL) {
            cell_printf(v->d, t, "%d / %d", (int)at->shape.attention_rows[0],
                        (int)at->shape.attention_rows[1]);
            cell_printf(v->d, t, "%d / %d", (int)at->shape.gdn_rows[0],
                        (int)at->shape.gdn_rows[1]);
        } else {
            cell_none(v->d, t);
            cell_none(v->d, t);
        }
    }
    if (t == NULL) {
        view_absent(v, "waves of one real sequence each", "full-stack");
        return;
    }
    doc_para(v->d, "Each rank's adapter-gradient extra belongs to that "
             "rank's own floor. Adding the largest extra to the largest "
             "floor counts gradients of a rank that holds few rows on top of "
             "one that holds many; the table has the worst such wave.");
    view_command(v, "full-stack");
}

/* Where peaks lie. */
enum place { PLACE_FIRST, PLACE_BETWEEN, PLACE_LAST, PLACE_HEAD, PLACES };

static enum place place_of(const struct record_found *c,
                           const struct record_peak *p)
{
    if (p->layer < 0) return PLACE_HEAD;
    if (p->layer == 0) return PLACE_FIRST;
    return p->layer == c->shape.layers - 1 ? PLACE_LAST : PLACE_BETWEEN;
}

struct spot { int64_t waves, tokens[2], bytes[2], layer[2]; };

static void see(int64_t range[2], int64_t x, bool first)
{
    if (first || x < range[0]) range[0] = x;
    if (first || x > range[1]) range[1] = x;
}

static void put_spot(struct view *v, struct table *t, const struct group *g,
                     const struct spot *s)
{
    if (s->waves == 0) return;
    cell_code(v->d, t, g->scenario);
    cell_count(v->d, t, g->ep);
    if (s->layer[0] < 0)
        cell_text(v->d, t, "head");
    else if (s->layer[0] == s->layer[1])
        cell_printf(v->d, t, "layer %d", (int)s->layer[0]);
    else
        cell_printf(v->d, t, "layers %d to %d", (int)s->layer[0],
                    (int)s->layer[1]);
    cell_count(v->d, t, s->waves);
    cell_count(v->d, t, s->tokens[0]);
    cell_count(v->d, t, s->tokens[1]);
    cell_number(v->d, t, (double)s->bytes[0] / 1e6, 1);
    cell_number(v->d, t, (double)s->bytes[1] / 1e6, 1);
}

static void put_places(struct view *v, struct table *t,
                       const struct group *g)
{
    struct spot s[PLACES];
    int64_t c;
    int k;

    memset(s, 0, sizeof s);
    for (c = 0; c < v->n_case; c++) {
        const struct record_found *f = v->kase[c];
        int64_t w = view_wave(f, true);
        const struct record_peak *p = record_peak_max(f, w);
        struct spot *at;
        if (!in_group(f, g) || p == NULL) continue;
        at = &s[place_of(f, p)];
        see(at->tokens, f->shape.tokens, at->waves == 0);
        see(at->layer, p->layer, at->waves == 0);
        see(at->bytes, view_bytes(f, w, RECORD_MAX, "peak",
                                  "adapter_gradients"), at->waves == 0);
        at->waves++;
    }
    for (k = 0; k < PLACES; k++) put_spot(v, t, g, &s[k]);
}

void sec_adapters(struct view *v)
{
    struct group g[MAX_GROUPS];
    int n = find_groups(v, g), i;
    struct table *t;

    doc_heading(v->d, 2, "adapters", "Adapter gradients at the peak, and its "
                "layer");
    if (n == 0) {
        view_absent(v, "short and long waves", "full-stack");
        return;
    }
    doc_para(v->d, "Backward goes from the last layer down: boundaries are "
             "released, adapter gradients appear. Where gradients outweigh "
             "boundaries the peak moves to layer 0 and holds those of every "
             "layer above it. Published traces: %.0f to %.0f MB of expert "
             "gradients live at the peak of a short first wave, at layer "
             "%.0f; a long wave peaks at the last layer. At rank 8 and EP1 "
             "the experts' gradients of 39 layers are %.1f MB; ours count "
             "the other adapters too.",
             figure(v->published, "trace.adapter_gradients.short_wave.min"),
             figure(v->published, "trace.adapter_gradients.short_wave.max"),
             figure(v->published,
                    "trace.adapter_gradients.short_wave.peak_layer"),
             39 * figure(v->published, "adapters.expert_layer.ep1.rank8") /
             1e6);
    t = doc_table(v->d, "adapters", "scenario|>EP|peak in|>waves"
                  "|>tokens, from|>to|>adapter gradients at the peak, MB, "
                  "from|>to");
    for (i = 0; i < n; i++) put_places(v, t, &g[i]);
    view_command(v, "full-stack");
}
