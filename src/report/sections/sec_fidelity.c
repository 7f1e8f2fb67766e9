/*
** sec_fidelity.c - how far the simulated peaks are from those the published
** table implies, and how routing moves them. Nothing is fitted: every
** routing is stated in its scenario.
*/
#include <math.h>
#include <string.h>

#include "report/sections/sections.h"

static const char scenario[] = "routing";

/* The most-loaded layer's pairs on any rank over the even share; NaN when
** not known. */
static double share(const struct record_found *c, int64_t wave)
{
    const struct record_case *s = &c->shape;
    double even;
    int64_t i, most = -1;

    for (i = 0; i < c->n_peak; i++)
        if (c->peak[i].wave == wave && c->peak[i].beside.received_pairs > most)
            most = c->peak[i].beside.received_pairs;
    if (most < 0 || s->top_k == 0 || s->tokens == 0) return NAN;
    even = (double)s->tokens * (double)s->top_k;
    if (s->ep > 1) even /= (double)s->cp;
    return (double)most / even;
}

double sec_share_at_peak(const struct record_found *base,
                         const struct record_found *c)
{
    int64_t even = view_bytes(base, view_wave(base, true), RECORD_MAX, "peak",
                              "moe_dispatch");
    int64_t ours = view_bytes(c, view_wave(c, true), RECORD_MAX, "peak",
                              "moe_dispatch");

    return even > 0 ? (double)ours / (double)even : (double)NAN;
}

/* The same case under other routing: what that alone changes. */
static void put_routing(struct view *v, struct table *t,
                        const struct record_found *base,
                        const struct record_found *c)
{
    int64_t wave = view_wave(c, true);
    const struct record_peak *at = record_peak_max(c, wave);
    struct miss before = view_miss(c, wave, BEFORE, "admitted");
    struct miss after = view_miss(c, wave, AFTER, "admitted");
    double a = view_implied(base, BEFORE, base->shape.published_before_cold);
    double b = view_implied(base, AFTER, base->shape.published_after_cold);
    double peak = after.known ? (double)after.peak : (double)NAN;

    doc_row(v->d, t);
    cell_code(v->d, t, c->shape.name);
    cell_text(v->d, t, c->shape.routing);
    cell_number(v->d, t, share(c, wave), 3);
    cell_number(v->d, t, sec_share_at_peak(base, c), 3);
    cell_printf(v->d, t, "rank %d, layer %d", (int)at->rank, (int)at->layer);
    cell_number(v->d, t, peak / 1e9, 3);
    cell_percent(v->d, t, 100.0 * (peak - a) / a, false);
    cell_percent(v->d, t, 100.0 * (peak - b) / b, false);
    cell_percent(v->d, t, before.percent, before.under);
    cell_percent(v->d, t, after.percent, after.under);
}

enum { MAX_VARIANTS = 24 };

/* The cases of base's shape in order, base's own first; returns how many are
** in out, *more says how many are not. Routers of random weights have a
** section of their own. */
static int variants(const struct view *v, const struct record_found *base,
                    const struct record_found *out[MAX_VARIANTS],
                    int64_t *more)
{
    int n = 0;
    int64_t i;

    *more = 0;
    out[n++] = base;
    for (i = 0; i < v->n_case; i++) {
        if (v->kase[i] == base || !view_same_shape(base, v->kase[i]) ||
            view_is_published(v->kase[i]) ||
            strcmp(v->kase[i]->shape.routing, "loads") == 0 ||
            view_wave(v->kase[i], true) < 0) continue;
        if (n < MAX_VARIANTS) out[n++] = v->kase[i];
        else ++*more;
    }
    return n;
}

/* Of the variants those that tell something new: one seed of each draw, and
** none with the balanced peak. Base stays first; returns how many. */
static int distinct(const struct record_found **k, int n)
{
    int64_t even = view_bytes(k[0], view_wave(k[0], true), RECORD_MAX, "peak",
                              "total");
    int i, j, kept = 1;

    for (i = 1; i < n; i++) {
        const char *r = k[i]->shape.routing;
        const char *seed = strstr(r, " seed ");
        size_t len = seed ? (size_t)(seed - r) : strlen(r);
        bool again = view_bytes(k[i], view_wave(k[i], true), RECORD_MAX,
                                "peak", "total") == even;
        for (j = 1; j < kept; j++)
            again |= strncmp(k[j]->shape.routing, r, len) == 0 &&
                     strchr(" ", k[j]->shape.routing[len]) != NULL;
        if (!again) k[kept++] = k[i];
    }
    return kept;
}

/* Category by category: the estimate, then the peak under each routing. */
static void put_categories(struct view *v, const struct record_found *base)
{
    const struct record_found *k[MAX_VARIANTS];
    struct buf columns = BUF_INIT, id = BUF_INIT;
    int64_t more;
    int n = distinct(k, variants(v, base, k, &more)), i, c;
    struct table *t;

    buf_puts(&columns, "category|>estimate, GB");
    for (i = 0; i < n; i++)
        buf_printf(&columns, "|>peak, %s, GB", k[i]->shape.routing);
    buf_printf(&id, "fidelity-%s", base->shape.name);
    doc_heading(v->d, 3, buf_text(&id), base->shape.name);
    t = doc_table(v->d, buf_text(&id), buf_text(&columns));
    if (columns.failed || id.failed) v->d->failed = true;
    buf_free(&columns);
    buf_free(&id);
    for (c = 0; c <= CAT_COUNT; c++) {
        const char *name = c == CAT_COUNT ? "total"
                                          : category_name((enum category)c);
        int64_t w = view_wave(base, true);
        int64_t e = view_bytes(base, w, RECORD_MAX, AFTER,
                               c == CAT_COUNT ? "raw" : name);
        int64_t sum = e;
        for (i = 0; i < n; i++)
            sum |= view_bytes(k[i], view_wave(k[i], true), RECORD_MAX, "peak",
                              name);
        if (sum == 0) continue;
        doc_row(v->d, t);
        cell_code(v->d, t, name);
        cell_gb(v->d, t, e);
        for (i = 0; i < n; i++)
            cell_gb(v->d, t, view_bytes(k[i], view_wave(k[i], true),
                                        RECORD_MAX, "peak", name));
    }
}

static void put_intro(struct view *v)
{
    doc_para(v->d, "The published table and the estimates together imply "
             "what the traced peaks were (above: estimate or peak). Ours are "
             "held against them at several routings: exactly balanced, "
             "expert loads with a coefficient of variation (drawn for each "
             "layer from a seed), and a stated share for one rank in every "
             "layer. Most share is what any rank receives in any layer over "
             "an even share; share at the peak is what the peak's rank holds "
             "in the peak's layer.");
}

/* Widens [range] by the distance of a published case from one implied peak. */
static void widen(double range[2], const struct record_found *c,
                  const char *estimator, double percent)
{
    double implied = view_implied(c, estimator, percent);
    struct miss m = view_miss(c, view_wave(c, true), estimator, "raw");
    double x = 100.0 * ((double)m.peak - implied) / implied;

    if (!m.known || isnan(x)) return;
    if (!(x >= range[0])) range[0] = x;
    if (!(x <= range[1])) range[1] = x;
}

static void put_outro(struct view *v)
{
    double range[2] = {NAN, NAN};
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        if (!view_is_published(c)) continue;
        widen(range, c, BEFORE, c->shape.published_before_cold);
        widen(range, c, AFTER, c->shape.published_after_cold);
    }
    doc_para(v->d, "With balanced routing our peaks lie %+.1f %% to %+.1f %% "
             "from the implied ones. Unevenness moves a peak only where it "
             "falls on the rank with the larger floor and on one of the last "
             "layers: backward releases a boundary with each layer, so a "
             "crowded layer further down peaks lower. How the traced runs "
             "routed is not published, and nothing is chosen to fit: the "
             "distance stands as it is, and the rows above say what share at "
             "the peak would explain it.", range[0], range[1]);
}

void sec_fidelity(struct view *v)
{
    const struct record_found *k[MAX_VARIANTS];
    struct table *t = NULL;
    int64_t i, more, left_out = 0;
    int n, j;

    doc_heading(v->d, 2, "fidelity", "Distance from the implied peaks, and "
                "what routing does");
    for (i = 0; i < v->n_case; i++) {
        if (!view_is_published(v->kase[i]) ||
            view_wave(v->kase[i], true) < 0) continue;
        if (t == NULL) {
            put_intro(v);
            t = doc_table(v->d, "fidelity", "case|routing|>most share"
                          "|>share at the peak|peak in|>peak, GB"
                          "|>to implied (before)|>to implied (after)"
                          "|>error before|>error after");
        }
        n = variants(v, v->kase[i], k, &more);
        left_out += more;
        for (j = 0; j < n; j++) put_routing(v, t, v->kase[i], k[j]);
    }
    if (t == NULL) {
        view_absent(v, "the cases of the published table", "pr-accuracy");
        return;
    }
    if (left_out > 0)
        doc_para(v->d, "At most %d routings of a case are looked at, here and "
                 "by category; `records.csv` has %lld more.",
                 MAX_VARIANTS, (long long)left_out);
    if (!view_has_scenario(v, scenario))
        view_absent(v, "the other routings", scenario);
    else
        view_command(v, scenario);
    put_outro(v);
    doc_para(v->d, "The same by category: the most-loaded rank at its peak, "
             "and the raw `per-rank` estimate, whose dispatch and expert "
             "terms hold the EP routing allowance.");
    for (i = 0; i < v->n_case; i++)
        if (view_is_published(v->kase[i]) && view_wave(v->kase[i], true) >= 0)
            put_categories(v, v->kase[i]);
    view_picture(v, PICTURE_COMPOSITION, "The peak's categories against both "
             "estimates");
}

static const char allowance_title[] = "What the EP routing allowance costs";

/* One estimate with and without the allowance; false without figures. */
static bool put_allowance(struct view *v, struct table **t,
                          const struct record_found *c, bool after)
{
    int64_t w = view_wave(c, true), none;
    struct miss m = view_miss(c, w, after ? AFTER : BEFORE, "raw");

    if (!m.known || !record_bytes(c, w, RECORD_MAX, after ?
            AFTER "/no-allowance" : BEFORE "/no-allowance", "raw", &none))
        return false;
    if (*t == NULL) {
        doc_heading(v->d, 2, "allowance", allowance_title);
        *t = doc_table(v->d, "allowance", "case|estimate|>raw, GB"
                       "|>raw at 1.0 x, GB|>allowance, GB|>of the gap, %"
                       "|>raw error|>raw error at 1.0 x");
    }
    doc_row(v->d, *t);
    cell_code(v->d, *t, c->shape.name);
    cell_text(v->d, *t, after ? AFTER : BEFORE);
    cell_gb(v->d, *t, m.estimate);
    cell_gb(v->d, *t, none);
    cell_gb(v->d, *t, m.estimate - none);
    cell_number(v->d, *t, 100.0 * (double)(m.estimate - none) /
                (double)(m.estimate - m.peak), 1);
    cell_percent(v->d, *t, m.percent, m.under);
    cell_percent(v->d, *t, 100.0 * (double)(none - m.peak) / (double)m.peak,
                 none < m.peak);
    return true;
}

void sec_allowance(struct view *v)
{
    struct table *t = NULL;
    int64_t i, shown = 0;

    for (i = 0; i < v->n_case && shown < MAX_SUBJECTS; i++) {
        bool any;
        if (!view_is_subject(v, v->kase[i])) continue;
        any = put_allowance(v, &t, v->kase[i], false);
        any |= put_allowance(v, &t, v->kase[i], true);
        shown += any;
    }
    view_left_out(v, shown);
    if (t == NULL) {
        if (!v->published_here) return;
        doc_heading(v->d, 2, "allowance", allowance_title);
        view_absent(v, "estimates without the allowance", "pr-accuracy");
        return;
    }
    doc_para(v->d, "At EP2 and more the estimates price 1.4 x the balanced "
             "routed rows. Published: the allowance accounts for most of the "
             "remaining EP2 gap. The gap is raw estimate less peak, under "
             "the case's routing; the last column is what is left of the "
             "error without the allowance.");
    if (v->published_here) view_command(v, "pr-accuracy");
}
