/* sec_table.c - the published before/after table, regenerated. */
#include <math.h>
#include <string.h>

#include "report/sections/sections.h"

static const char scenario[] = "pr-accuracy";

struct cells { double cold, warm; };

static struct cells published(const struct record_found *c, bool after)
{
    const struct record_case *s = &c->shape;

    return after ? (struct cells){s->published_after_cold,
                                  s->published_after_warm}
                 : (struct cells){s->published_before_cold,
                                  s->published_before_warm};
}

/* A cell is estimate and peak: which of them is another. */
static void put_why(struct view *v, struct table *t,
                    const struct record_found *c, struct miss cold,
                    double published_cold)
{
    double implied;

    if (!cold.known || isnan(published_cold)) {
        cell_none(v->d, t);
        return;
    }
    implied = (double)cold.estimate / (1 + published_cold / 100);
    cell_printf(v->d, t, "peak %+.1f %%%s",
                100.0 * ((double)cold.peak - implied) / implied,
                strcmp(c->shape.routing, "balanced") == 0
                ? ", routing even" : "");
}

/* The errors under routers of random weights, least to most. */
static void put_random(struct view *v, struct table *t,
                       const struct record_found *c, const char *name)
{
    double range[2];

    if (!sec_random_range(v, c, name, range)) cell_none(v->d, t);
    else cell_printf(v->d, t, "%+.1f to %+.1f %%", range[0], range[1]);
}

static void put_line(struct view *v, struct table *t,
                     const struct record_found *c, bool after)
{
    const char *name = after ? AFTER : BEFORE;
    struct cells p = published(c, after);
    struct miss cold = view_miss(c, view_wave(c, true), name, "admitted");
    struct miss warm = view_miss(c, view_wave(c, false), name, "admitted");

    doc_row(v->d, t);
    cell_code(v->d, t, c->shape.name);
    cell_text(v->d, t, after ? "after" : "before");
    cell_percent(v->d, t, p.cold, p.cold < 0);
    cell_percent(v->d, t, cold.percent, cold.under);
    put_random(v, t, c, name);
    cell_percent(v->d, t, p.warm, p.warm < 0);
    cell_percent(v->d, t, warm.percent, warm.under);
    put_why(v, t, c, cold, p.cold);
}

/* How many raw estimates of published cases are the published formulas'. */
static void count_raw(const struct view *v, int *same, int *all)
{
    int64_t i;
    int after;

    *same = *all = 0;
    for (i = 0; i < v->n_case; i++)
        for (after = 0; after < 2 && view_is_published(v->kase[i]); after++) {
            const struct record_found *c = v->kase[i];
            struct miss m = view_miss(c, view_wave(c, true),
                                      after ? AFTER : BEFORE, "raw");
            double want = figure(v->published, "raw.%s.%s", c->shape.name,
                                 after ? "after" : "before");
            *all += 1;
            *same += m.known && !isnan(want) && m.estimate == (int64_t)want;
        }
}

void sec_table(struct view *v)
{
    struct table *t;
    int64_t i;
    int same, all;

    doc_heading(v->d, 2, "table", "The accuracy table, before and after");
    if (!v->published_here) {
        view_absent(v, "the cases of the published table", scenario);
        return;
    }
    t = doc_table(v->d, "table", "case|estimate|>cold, published|>cold, ours"
                  "|>random routers|>warm, published|>warm, ours|why");
    for (i = 0; i < v->n_case; i++) {
        if (!view_is_published(v->kase[i])) continue;
        put_line(v, t, v->kase[i], false);
        put_line(v, t, v->kase[i], true);
    }
    count_raw(v, &same, &all);
    doc_para(v->d, "Admitted estimate (raw x 1.10) against the simulated peak "
             "of the most-loaded rank, EP2 and CP2; the published table has "
             "two H200s' PyTorch peak in its place. %d of %d raw estimates "
             "are the published formulas' to the byte%s: why gives ours "
             "against the implied one, the estimate divided by 1 + the "
             "published error. Published warm calls ran other batches, whose "
             "layouts are not known. Random routers: the cold errors with the "
             "loads that random weights route by. In the picture a whisker "
             "spans our errors over every routing that a case was run with.",
             same, all, same == all ? ", so what differs is the peak" : "");
    view_picture(v, PICTURE_ERRORS, "Error by case: before, after, published");
}

/* One estimate of one case; true when it is the published one, to the byte. */
static bool put_raw(struct view *v, struct table *t,
                    const struct record_found *c, bool after)
{
    const char *name = after ? AFTER : BEFORE;
    struct miss m = view_miss(c, view_wave(c, true), name, "raw");
    double want = figure(v->published, "raw.%s.%s", c->shape.name,
                         after ? "after" : "before");
    double implied = view_implied(c, name, published(c, after).cold);
    bool both = m.known && !isnan(want);

    doc_row(v->d, t);
    cell_code(v->d, t, c->shape.name);
    cell_text(v->d, t, name);
    if (isnan(want)) cell_none(v->d, t);
    else cell_bytes(v->d, t, (int64_t)want);
    if (m.known) cell_bytes(v->d, t, m.estimate);
    else cell_none(v->d, t);
    if (both) cell_diff(v->d, t, m.estimate - (int64_t)want);
    else cell_none(v->d, t);
    cell_number(v->d, t, implied / 1e9, 2);
    if (m.known) cell_gb(v->d, t, m.peak);
    else cell_none(v->d, t);
    cell_percent(v->d, t, m.known ? 100.0 * ((double)m.peak - implied) /
                 implied : (double)NAN, false);
    return both && m.estimate == (int64_t)want;
}

void sec_raw(struct view *v)
{
    struct table *t;
    int64_t i;
    int same = 0, all = 0;

    if (!v->published_here) return;
    doc_heading(v->d, 2, "raw", "Where the difference comes from: estimate "
                "or peak");
    t = doc_table(v->d, "raw", "case|estimate|>raw by the published formulas"
                  "|>raw, ours|>difference|>peak implied, GB|>peak, ours, GB"
                  "|>peak difference");
    for (i = 0; i < v->n_case; i++) {
        if (!view_is_published(v->kase[i])) continue;
        same += put_raw(v, t, v->kase[i], false);
        same += put_raw(v, t, v->kase[i], true);
        all += 2;
    }
    doc_para(v->d, "%d of %d raw estimates are those of the published "
             "formulas to the byte. The implied peak is the admitted "
             "estimate divided by one plus the published error; the table "
             "gives one decimal, so it is good to about 0.05 %%. Where the "
             "estimate is the same, the whole difference between the error "
             "tables is the difference between the peaks.", same, all);
}
