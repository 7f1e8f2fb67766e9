/*
** sec_waves.c - scenarios of many waves: what pairing saves, and where peaks
** lie with how many adapter gradients.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections/sweep.h"
#include "report/sections/sections.h"

/* The wave with the largest over-count in a sweep; NULL without figures. */
static const struct record_found *worst_pair(const struct view *v,
                                             const struct sweep *g,
                                             int64_t *most, int64_t *waves)
{
    const struct record_found *at = NULL;
    int64_t c, raw, loose;

    *most = *waves = 0;
    for (c = 0; c < v->n_case; c++) {
        const struct record_found *k = v->kase[c];
        int64_t w = view_wave(k, true);
        if (!sweep_has(k, g) || w < 0 ||
            !record_bytes(k, w, RECORD_MAX, AFTER, "raw", &raw) ||
            !record_bytes(k, w, RECORD_MAX, AFTER "/unpaired", "raw",
                          &loose)) continue;
        *waves += loose > raw;
        if (at == NULL || loose - raw > *most) at = k, *most = loose - raw;
    }
    return at;
}

/* "4608 / 752", of two ranks. */
static void put_rows(struct view *v, struct table *t,
                     const struct record_found *c, const int64_t *rows)
{
    char a[32], b[32];

    if (rows == NULL || c->shape.cp != 2)
        cell_none(v->d, t);
    else
        cell_printf(v->d, t, "%s / %s", buf_grouped(rows[0], a),
                    buf_grouped(rows[1], b));
}

static void put_pair(struct view *v, struct table *t, const struct sweep *g,
                     const struct record_found *at, int64_t most,
                     int64_t waves)
{
    doc_row(v->d, t);
    cell_code(v->d, t, g->scenario);
    cell_count(v->d, t, g->ep);
    cell_count(v->d, t, waves);
    cell_number(v->d, t, (double)most / 1e6, 1);
    cell_number(v->d, t, strcmp(g->scenario, FULL_STACK) == 0 ?
                figure(v->published, "pairing.overcount.max")
                : (double)NAN, 0);
    cell_code(v->d, t, at->shape.name);
    cell_count(v->d, t, at->shape.tokens);
    put_rows(v, t, at, at->shape.attention_rows);
    put_rows(v, t, at, at->shape.gdn_rows);
}

void sec_pairing(struct view *v)
{
    struct sweep *g;
    int n = sweep_find(v, &g), i;
    struct table *t = NULL;

    if (n == 0 && !v->published_here) return;
    doc_heading(v->d, 2, "pairing", "Over-count that pairing avoids");
    for (i = 0; i < n; i++) {
        int64_t most, waves;
        const struct record_found *at = worst_pair(v, &g[i], &most, &waves);
        if (at == NULL) continue;
        if (t == NULL)
            t = doc_table(v->d, "pairing", "scenario|>EP|>waves over-counted"
                          "|>largest, MB|>published, up to MB|case|>tokens"
                          "|>attention rows|>GDN rows");
        put_pair(v, t, &g[i], at, most, waves);
    }
    free(g);
    if (t == NULL) {
        view_absent(v, "waves of one real sequence each", FULL_STACK);
        return;
    }
    doc_para(v->d, "Each rank's adapter-gradient extra belongs to that "
             "rank's own floor. Adding the largest extra to the largest "
             "floor counts gradients of a rank that holds few rows on top of "
             "one that holds many; the table has the worst such wave. It "
             "grows with the wave for as long as one rank holds no GDN rows, "
             "so the largest depends on the lengths at hand.");
    if (view_has_scenario(v, FULL_STACK)) view_command(v, FULL_STACK);
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

static void put_spot(struct view *v, struct table *t, const struct sweep *g,
                     const struct spot *s)
{
    if (s->waves == 0) return;
    doc_row(v->d, t);
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

/* Where peaks lie, for the places that have most of them. */
static void put_places(struct view *v, struct table *t,
                       const struct sweep *g)
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
        if (!sweep_has(f, g) || p == NULL) continue;
        at = &s[place_of(f, p)];
        see(at->tokens, f->shape.tokens, at->waves == 0);
        see(at->layer, p->layer, at->waves == 0);
        see(at->bytes, view_bytes(f, w, RECORD_MAX, "peak",
                                  "adapter_gradients"), at->waves == 0);
        at->waves++;
    }
    for (k = 0; k < PLACES; k++) put_spot(v, t, g, &s[k]);
}

/* What is published on the waves of FULL_STACK. */
static void put_traced(struct view *v)
{
    doc_para(v->d, "Published traces: %.0f to %.0f MB of expert "
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
}

void sec_adapters(struct view *v)
{
    struct sweep *g;
    int n = sweep_find(v, &g), i;
    struct table *t;

    if (n == 0 && !v->published_here) return;
    doc_heading(v->d, 2, "adapters", "Adapter gradients at the peak, and its "
                "layer");
    if (n == 0) {
        view_absent(v, "short and long waves", FULL_STACK);
        return;
    }
    doc_para(v->d, "Backward goes from the last layer down: boundaries are "
             "released, adapter gradients appear. Where gradients outweigh "
             "boundaries the peak moves to layer 0 and holds those of every "
             "layer above it.");
    if (view_has_scenario(v, FULL_STACK)) put_traced(v);
    t = doc_table(v->d, "adapters", "scenario|>EP|peak in|>waves"
                  "|>tokens, from|>to|>adapter gradients at the peak, MB, "
                  "from|>to");
    for (i = 0; i < n; i++) put_places(v, t, &g[i]);
    free(g);
    if (view_has_scenario(v, FULL_STACK)) view_command(v, FULL_STACK);
}
