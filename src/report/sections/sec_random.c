/*
** sec_random.c - the published random cases with the loads that routers of
** random weights give: do they explain the distance from the implied peaks?
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections/sections.h"

static const char scenario[] = "random-weights";

static bool is_random_of(const struct record_found *base,
                         const struct record_found *c)
{
    return strcmp(c->shape.scenario, scenario) == 0 &&
           view_same_shape(base, c) && view_wave(c, true) >= 0;
}

static void widen(double range[2], double x)
{
    if (!(x >= range[0])) range[0] = x;
    if (!(x <= range[1])) range[1] = x;
}

bool sec_random_range(const struct view *v, const struct record_found *base,
                      const char *estimator, double out[2])
{
    int64_t i;

    out[0] = out[1] = NAN;
    for (i = 0; i < v->n_case; i++)
        if (is_random_of(base, v->kase[i]))
            widen(out, view_miss(v->kase[i], view_wave(v->kase[i], true),
                                 estimator, "admitted").percent);
    return !isnan(out[0]);
}

/* How a case is named without its seed: "random-8.megatron". */
static size_t kind_length(const char *name)
{
    const char *seed = strstr(name, "-seed-");

    return seed != NULL ? (size_t)(seed - name) : strlen(name);
}

static bool same_kind(const struct record_found *a,
                      const struct record_found *b)
{
    size_t n = kind_length(a->shape.name);

    return n == kind_length(b->shape.name) &&
           strncmp(a->shape.name, b->shape.name, n) == 0;
}

static void cell_range(struct view *v, struct table *t, const double x[2],
                       int decimals)
{
    if (isnan(x[0])) cell_none(v->d, t);
    else cell_printf(v->d, t, "%.*f to %.*f", decimals, x[0], decimals, x[1]);
}

static void cell_percents(struct view *v, struct table *t, const double x[2])
{
    if (isnan(x[0])) cell_none(v->d, t);
    else cell_printf(v->d, t, "%+.1f to %+.1f %%", x[0], x[1]);
}

/* The sets that differ in their seed alone, from the first on. */
static void put_kind(struct view *v, struct table *t,
                     const struct record_found *base, int64_t first)
{
    const struct record_found *c = v->kase[first];
    double implied = view_implied(base, AFTER,
                                  base->shape.published_after_cold);
    double share[2] = {NAN, NAN}, peak[2] = {NAN, NAN}, far[2] = {NAN, NAN},
           error[2] = {NAN, NAN};
    char kind[128];
    int64_t i, n = 0;

    for (i = first; i < v->n_case; i++) {
        struct miss m;
        if (!is_random_of(base, v->kase[i]) || !same_kind(c, v->kase[i]))
            continue;
        m = view_miss(v->kase[i], view_wave(v->kase[i], true), AFTER,
                      "admitted");
        widen(share, sec_share_at_peak(base, v->kase[i]));
        widen(peak, (double)m.peak / 1e9);
        widen(far, 100.0 * ((double)m.peak - implied) / implied);
        widen(error, m.percent);
        n++;
    }
    snprintf(kind, sizeof kind, "%.*s", (int)kind_length(c->shape.name),
             c->shape.name);
    doc_row(v->d, t);
    cell_code(v->d, t, kind);
    cell_count(v->d, t, n);
    cell_range(v, t, share, 3);
    cell_range(v, t, peak, 2);
    cell_number(v->d, t, implied / 1e9, 2);
    cell_percents(v, t, far);
    cell_percents(v, t, error);
}

static bool is_first(const struct view *v, const struct record_found *base,
                     int64_t i)
{
    int64_t k;

    for (k = 0; k < i; k++)
        if (is_random_of(base, v->kase[k]) &&
            same_kind(v->kase[i], v->kase[k])) return false;
    return is_random_of(base, v->kase[i]);
}

/* What is missing to a case's implied peak under even routing. */
struct missing { double bytes, a_row; int64_t rows; };

static struct missing missing_of(const struct record_found *c)
{
    const struct record_peak *at = record_peak_max(c, view_wave(c, true));
    const int64_t *rows = view_peak_in_gdn(c, at->wave, at->rank)
                          ? c->shape.gdn_rows : c->shape.attention_rows;
    struct missing m = {.rows = rows[at->rank]};

    m.bytes = view_implied(c, AFTER, c->shape.published_after_cold) -
              (double)at->allocated;
    m.a_row = m.bytes / (double)m.rows;
    return m;
}

/* Of the random cases beside the one with real weights. */
static void put_missing(struct view *v)
{
    struct table *t = doc_table(v->d, "random-missing", "case|>layers"
                                "|>implied less ours, even routing, GB"
                                "|>rows of the rank|>bytes a row");
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        struct missing m;
        if (!view_is_published(c) || view_wave(c, true) < 0) continue;
        m = missing_of(c);
        doc_row(v->d, t);
        cell_code(v->d, t, c->shape.name);
        cell_count(v->d, t, c->shape.layers);
        cell_number(v->d, t, m.bytes / 1e9, 2);
        cell_count(v->d, t, m.rows);
        cell_count(v->d, t, llround(m.a_row));
    }
}

/* By the two random cases: so much a row, and so much a row and layer. */
static void put_slope(struct view *v)
{
    const struct record_found *a = view_published(v, "random-8");
    const struct record_found *b = view_published(v, "random-40");
    double layer, row;

    if (a == NULL || b == NULL || view_wave(a, true) < 0 ||
        view_wave(b, true) < 0) return;
    layer = (missing_of(b).a_row - missing_of(a).a_row) /
            (double)(b->shape.layers - a->shape.layers);
    row = missing_of(a).a_row - layer * (double)a->shape.layers;
    doc_para(v->d, "Open: what the traced runs held beside. By the random "
             "cases it is %.0f bytes a row and %.0f more for each layer. Three "
             "tensors of hidden width (4,096 B a row each) alive when the last "
             "layer runs backward would be the first, a router state of 256 B "
             "a row and layer most of the second; outputs that the measuring "
             "program keeps would be another reading. Against either: the "
             "published full stack at EP2, %+.1f %% at most, leaves long waves "
             "no room for them. This is drawn from two numbers, with one to "
             "check it, and no default.", row, layer,
             figure(v->published, "full_stack.ep%d.max", 2));
}

/* most: the largest distance of a set from its implied peak. */
static void put_outro(struct view *v, const struct record_found *nearest,
                      double distance, double most)
{
    if (most >= 0)
        doc_para(v->d, "Not refuted: that routers of random weights crowd one "
                 "rank enough. A set reaches its implied peak (%+.1f %%).",
                 most);
    else
        doc_para(v->d, "Refuted: that routers of random weights crowd one "
                 "rank enough. Where no direction is common to all rows they "
                 "are even to a few percent, more so with 40 layers than with "
                 "8. The nearest of all sets, `%s`, is %+.1f %% from the "
                 "implied peak. Weights as Hugging Face draws them are the "
                 "exception in depth: rows of one sequence share a direction "
                 "there, which leans the last layers to one rank or the "
                 "other; a set is one sequence, and over the ten of the "
                 "published batch, each with a direction of its own, that "
                 "averages out.", nearest->shape.name, distance);
    put_missing(v);
    put_slope(v);
}

void sec_random(struct view *v)
{
    struct table *t = NULL;
    const struct record_found *nearest = NULL;
    double distance = NAN, most = NAN;
    int64_t i, k;

    if (!v->published_here) return;
    doc_heading(v->d, 2, "random", "Random weights routed by random weights");
    for (k = 0; k < v->n_case; k++) {
        const struct record_found *base = v->kase[k];
        if (!view_is_published(base)) continue;
        for (i = 0; i < v->n_case; i++) {
            double x, implied = view_implied(base, AFTER, base->shape
                                             .published_after_cold);
            if (!is_random_of(base, v->kase[i])) continue;
            x = 100.0 * ((double)record_peak_max(v->kase[i], view_wave(
                         v->kase[i], true))->allocated - implied) / implied;
            most = fmax(most, x);
            if (nearest == NULL || fabs(x) < fabs(distance)) {
                nearest = v->kase[i];
                distance = x;
            }
            if (!is_first(v, base, i)) continue;
            if (t == NULL)
                t = doc_table(v->d, "random", "weights|>sets"
                              "|>share at the peak|>peak, GB"
                              "|>implied peak, GB|>to implied"
                              "|>error after");
            put_kind(v, t, base, i);
        }
    }
    if (t == NULL) {
        view_absent(v, "random weights", scenario);
        return;
    }
    doc_para(v->d, "The loads are those of routers measured in a forward of "
             "the 35B model at full width, weights drawn as Megatron or "
             "Hugging Face draw them, with random adapters of rank 8 or 1 or "
             "none, 1,024 to 4,096 rows, scaled to the batch: `peakproof "
             "route` makes such a file anew. A set is a seed.");
    view_command(v, scenario);
    put_outro(v, nearest, distance, most);
}
