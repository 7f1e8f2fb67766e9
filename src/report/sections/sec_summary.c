/*
** sec_summary.c - every published claim on one page: published, ours, and
** the section that has the rest. Figures are those of the sections, made
** from the same records.
*/
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "report/sections/sections.h"

static const char real[] = "real-40";

/* One line; why is the cause of a difference, where the section's id. */
static void line(struct view *v, struct table *t, const char *claim,
                 const char *published, const char *ours, bool agrees,
                 const char *why, const char *where)
{
    doc_row(v->d, t);
    cell_text(v->d, t, claim);
    cell_text(v->d, t, published);
    cell_text(v->d, t, ours);
    cell_text(v->d, t, agrees ? "agrees" : "differs");
    cell_text(v->d, t, agrees ? NULL : why);
    cell_link(v->d, t, where);
}

/* Two percentages, to one point. */
static bool same_points(double a, double b)
{
    return fabs(a - b) <= 1;
}

/* Two amounts, to one percent. */
static bool same_size(double ours, double theirs)
{
    return fabs(ours - theirs) <= 0.01 * fabs(theirs);
}

/* One line for each published case. */
static void errors(struct view *v, struct table *t)
{
    char claim[160], theirs[80], ours[80];
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        struct miss b = view_miss(c, w, BEFORE, "admitted");
        struct miss a = view_miss(c, w, AFTER, "admitted");
        if (!view_is_published(c) || !b.known || !a.known) continue;
        snprintf(claim, sizeof claim, "error cold, %.80s: before, after",
                 c->shape.name);
        snprintf(theirs, sizeof theirs, "%+.1f %%, %+.1f %%",
                 c->shape.published_before_cold,
                 c->shape.published_after_cold);
        snprintf(ours, sizeof ours, "%+.1f %%, %+.1f %%", b.percent,
                 a.percent);
        line(v, t, claim, theirs, ours,
             same_points(b.percent, c->shape.published_before_cold) &&
             same_points(a.percent, c->shape.published_after_cold),
             "the peak, not the estimate: see the table", "table");
    }
}

/* "4.150, 5.760" of a key's two ranks. */
static void put_pair(struct view *v, const char *key, char out[80])
{
    snprintf(out, 80, "%.3f, %.3f GB", figure(v->published, "%s.rank0", key),
             figure(v->published, "%s.rank1", key));
}

/* Sums of the published trace, rank by rank. */
static void ranks(struct view *v, struct table *t)
{
    static const struct {
        const char *claim, *key, *source, *term[2];
    } q[] = {
        {"boundaries, rank 0, rank 1", "trace.boundaries", "peak",
         {"boundaries", NULL}},
        {"executor records, rank 0, rank 1", "trace.attention_records",
         "kept/attention", {"attention_records", NULL}},
        {"attention kept, rank 0, rank 1", "trace.attention_retained",
         "kept/attention", {"attention_records", "attention"}},
    };
    const struct record_found *c = view_published(v, real);
    int64_t w = c ? view_wave(c, true) : -1, sum[2];
    char theirs[80], ours[80];
    bool agrees;
    size_t i;
    int r;

    if (w < 0 || c->shape.cp != 2) return;
    for (i = 0; i < sizeof q / sizeof *q; i++) {
        agrees = true;
        for (r = 0; r < 2; r++) {
            sum[r] = view_bytes(c, w, r, q[i].source, q[i].term[0]);
            if (q[i].term[1] != NULL)
                sum[r] += view_bytes(c, w, r, q[i].source, q[i].term[1]);
            agrees &= same_size((double)sum[r] / 1e9,
                                figure(v->published, "%s.rank%d", q[i].key,
                                       r));
        }
        put_pair(v, q[i].key, theirs);
        snprintf(ours, sizeof ours, "%.3f, %.3f GB", (double)sum[0] / 1e9,
                 (double)sum[1] / 1e9);
        line(v, t, q[i].claim, theirs, ours, agrees, "ours counts the normed "
             "input, 4,096 B a row", "attention");
    }
}

/* Errors of one estimator over a scenario's cold waves at one EP; scenario
** NULL and EP 0 are all there are. */
struct spread { double min, max; int64_t waves, under, also; };

/* Least, most and those under, of the waves of a scenario. */
static struct spread spread_of(const struct view *v, const char *scenario,
                               int64_t ep, const char *estimator)
{
    struct spread s = {NAN, NAN, 0, 0, 0};
    int64_t i;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        struct miss m;
        if (ep != 0 && c->shape.ep != ep) continue;
        if (scenario && strcmp(c->shape.scenario, scenario) != 0) continue;
        m = view_miss(c, w, estimator, "raw");
        if (!m.known) continue;
        if (!(m.percent >= s.min)) s.min = m.percent;
        if (!(m.percent <= s.max)) s.max = m.percent;
        s.waves++;
        s.under += m.under;
        s.also += view_miss_requested(c, w, estimator, "raw").under;
    }
    return s;
}

/* The published sweep's ranges, at both expert shapes. */
static void stack(struct view *v, struct table *t)
{
    char claim[80], theirs[80], ours[120];
    int64_t ep;

    for (ep = 1; ep <= 2; ep++) {
        struct spread s = spread_of(v, "full-stack", ep, AFTER);
        double min = figure(v->published, "full_stack.ep%d.min", (int)ep);
        double max = figure(v->published, "full_stack.ep%d.max", (int)ep);
        double under = figure(v->published, "full_stack.under");
        if (s.waves == 0) continue;
        snprintf(claim, sizeof claim, "full stack cold, EP%d, raw", (int)ep);
        snprintf(theirs, sizeof theirs, "%+.1f to %+.1f %%, %.0f under",
                 min, max, under);
        snprintf(ours, sizeof ours, "%+.1f to %+.1f %%, %d of %d under (%d "
                 "in requested bytes)", s.min, s.max, (int)s.under,
                 (int)s.waves, (int)s.also);
        line(v, t, claim, theirs, ours, same_points(s.min, min) &&
             same_points(s.max, max) && (double)s.under <= under,
             "short waves: their peak lies in the head, and blocks are larger "
             "than requests", "stack");
    }
}

/* The case for pricing by rank: packed real waves without the EP2 allowance
** that hides what busiest-rank leaves out. */
static void packed(struct view *v, struct table *t)
{
    struct spread b = spread_of(v, "real-waves", 1, BEFORE);
    struct spread a = spread_of(v, "real-waves", 1, AFTER);
    char ours[120];

    if (b.waves == 0 || a.waves == 0) return;
    snprintf(ours, sizeof ours, "before %+.1f to %+.1f %%, %d of %d under; "
             "after %+.1f to %+.1f %%, %d under", b.min, b.max, (int)b.under,
             (int)b.waves, a.min, a.max, (int)a.under);
    line(v, t, "packed real waves cold, EP1, raw", "before under for a rank, "
         "hidden by over-charges", ours, b.under > 0 && a.under == 0,
         "other waves than the published", "stack");
}

/* The largest difference over all cold waves between per-rank and a variant
** of it, over scenario (NULL: the published cases). */
static int64_t most(const struct view *v, const char *variant,
                    const char *scenario, int64_t sign)
{
    int64_t i, a, b, best = -1;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        if (scenario ? strcmp(c->shape.scenario, scenario) != 0
                     : !view_is_published(c)) continue;
        if (w >= 0 && record_bytes(c, w, RECORD_MAX, AFTER, "raw", &a) &&
            record_bytes(c, w, RECORD_MAX, variant, "raw", &b) &&
            sign * (b - a) > best) best = sign * (b - a);
    }
    return best;
}

/* Is the allowance more than half of every published case's gap? */
static bool allowance_is_most(const struct view *v)
{
    int64_t i, none;

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        struct miss m = view_miss(c, view_wave(c, true), AFTER, "raw");
        if (!view_is_published(c) || !m.known ||
            !record_bytes(c, view_wave(c, true), RECORD_MAX,
                          AFTER "/no-allowance", "raw", &none)) continue;
        if (m.estimate - none <= (m.estimate - m.peak) / 2) return false;
    }
    return true;
}

/* What single choices of the estimator are worth. */
static void variants(struct view *v, struct table *t)
{
    char theirs[80], ours[80];
    int64_t x = most(v, AFTER "/unpaired", "full-stack", 1);

    if (x >= 0) {
        snprintf(theirs, sizeof theirs, "up to %.0f MB",
                 figure(v->published, "pairing.overcount.max"));
        snprintf(ours, sizeof ours, "up to %.0f MB", (double)x / 1e6);
        line(v, t, "over-count that pairing avoids", theirs, ours,
             same_size((double)x / 1e6,
                       figure(v->published, "pairing.overcount.max")),
             "ours goes by a rank's chunks: no length tried gives theirs",
             "pairing");
    }
    x = most(v, AFTER "/one-lse", NULL, -1);
    if (x >= 0) {
        snprintf(theirs, sizeof theirs, "under %.2f GB",
                 figure(v->published, "trace.one_lse.max"));
        snprintf(ours, sizeof ours, "up to %.4f GB", (double)x / 1e9);
        line(v, t, "one more LSE per stage", theirs, ours, (double)x / 1e9 <
             figure(v->published, "trace.one_lse.max"),
             "other stages", "one-lse");
    }
    x = most(v, AFTER "/no-allowance", NULL, -1);
    if (x >= 0) {
        snprintf(ours, sizeof ours, "up to %.3f GB", (double)x / 1e9);
        line(v, t, "EP2 routing allowance", "most of the EP2 gap", ours,
             allowance_is_most(v), "other gap", "allowance");
    }
}

/* Adapter gradients at the peak where that lies in layer 0. */
static void adapters(struct view *v, struct table *t)
{
    int64_t i, most_bytes = -1, waves = 0;
    char theirs[80], ours[80];

    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true), bytes;
        const struct record_peak *p = record_peak_max(c, w);
        if (p == NULL || p->layer != 0 || c->shape.ep != 1 ||
            strcmp(c->shape.scenario, "full-stack") != 0) continue;
        bytes = view_bytes(c, w, RECORD_MAX, "peak", "adapter_gradients");
        if (bytes > most_bytes) most_bytes = bytes;
        waves++;
    }
    if (waves == 0) return;
    snprintf(theirs, sizeof theirs, "%.0f to %.0f MB (experts), layer 0",
             figure(v->published, "trace.adapter_gradients.short_wave.min"),
             figure(v->published, "trace.adapter_gradients.short_wave.max"));
    snprintf(ours, sizeof ours, "%.0f MB (all), layer 0, %d waves",
             (double)most_bytes / 1e6, (int)waves);
    line(v, t, "adapter gradients at a short wave's peak, EP1", theirs, ours,
         (double)most_bytes / 1e6 <= 1.01 *
         figure(v->published, "trace.adapter_gradients.short_wave.max") &&
         (double)most_bytes / 1e6 >= 0.99 *
         figure(v->published, "trace.adapter_gradients.short_wave.min"),
         "ours counts all adapters, published those of experts", "adapters");
}

static void checks(struct view *v, struct table *t)
{
    int64_t i;
    char ours[80], theirs[80];

    snprintf(theirs, sizeof theirs, "within %.1f %% of traces, no test",
             figure(v->published, "trace.mirror_difference.max"));
    for (i = 0; i < v->set->n_check; i++) {
        const struct record_check *c = &v->set->check[i];
        bool mirror = strcmp(c->check, "mirror-executor") == 0;
        snprintf(ours, sizeof ours, "%d failed of %d", (int)c->failed,
                 (int)c->cases);
        if (mirror)
            line(v, t, "mirror against executor", theirs, ours,
                 c->failed == 0, "checks.csv has the worst", "mirror");
        if (strcmp(c->check, "lower-bound") == 0)
            line(v, t, "lower bound at or below every split", "stated", ours,
                 c->failed == 0, "checks.csv has the worst", "bound");
    }
}

/* One estimator over the cold waves of a scenario (NULL: all). */
static void verdict(struct view *v, const char *scenario, const char *name)
{
    struct spread s = spread_of(v, scenario, 0, name);
    struct spread one = spread_of(v, scenario, 1, name);
    char label[80], at_one[80] = "";
    bool own = strcmp(name, BEFORE) != 0 && strcmp(name, AFTER) != 0;

    if (s.waves == 0) return;
    if (one.waves > 0 && one.waves < s.waves)
        snprintf(at_one, sizeof at_one, ", %d of %d at EP1", (int)one.under,
                 (int)one.waves);
    doc_item(v->d, "%s`%s`: %d of %d under the peak%s; raw error %+.1f to "
             "%+.1f %%", own ? "" : strcmp(name, BEFORE) == 0 ? "before, "
             : "after, ", own ? view_label(name, label, sizeof label) : name,
             (int)s.under, (int)s.waves, at_one, s.min, s.max);
}

void sec_verdict(struct view *v)
{
    const char *scenario = view_has_scenario(v, "real-waves") ? "real-waves"
                                                              : NULL;
    int k;

    if (!v->published_here) scenario = NULL;
    if (v->n_case == 0) return;
    doc_para(v->d, "%s, raw estimates against the peak of the cold wave:",
             scenario ? "Packed real waves" : "All cases");
    for (k = 0; k < v->n_estimator; k++)
        verdict(v, scenario, v->estimator[k]);
}

/* How many lines of the summary agree. */
static void count_verdicts(struct view *v, const struct table *t)
{
    int64_t i, n = 0;

    for (i = 0; i < table_rows(t); i++) {
        const char *word = t->cell[i * t->n_column + 3].text;
        n += word != NULL && strcmp(word, "agrees") == 0;
    }
    doc_para(v->d, "%d of %d agree: an error or a range of errors to one "
             "point, an amount to 1 %%, a bound or a count of waves under "
             "where it holds. The sections have the rest.",
             (int)n, (int)table_rows(t));
}

void sec_result(struct view *v)
{
    struct spread b = spread_of(v, "real-waves", 1, BEFORE);
    struct spread a = spread_of(v, "real-waves", 1, AFTER);

    if (b.waves == 0 || a.waves == 0) return;
    doc_para(v->d, "Of %d packed real waves without expert parallelism the "
             "estimate before the change is under the peak in %d (%+.1f to "
             "%+.1f %% raw), the one after it in %d (%+.1f to %+.1f %%).",
             (int)b.waves, (int)b.under, b.min, b.max, (int)a.under, a.min,
             a.max);
}

void sec_summary(struct view *v)
{
    struct table *t;

    doc_heading(v->d, 2, "summary", "Every claim on one page");
    t = doc_table(v->d, "summary", "claim|published|ours|verdict|why"
                  "|section");
    errors(v, t);
    ranks(v, t);
    stack(v, t);
    packed(v, t);
    variants(v, t);
    adapters(v, t);
    checks(v, t);
    count_verdicts(v, t);
}
