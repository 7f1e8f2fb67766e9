/* sec_checks.c - what was checked many times over, and what falls back. */
#include <math.h>
#include <string.h>

#include "report/sections/sections.h"

static const struct record_check *find(const struct view *v, const char *name)
{
    int64_t i;

    for (i = 0; i < v->set->n_check; i++)
        if (strcmp(v->set->check[i].check, name) == 0)
            return &v->set->check[i];
    return NULL;
}

/* One sentence on a row of checks.csv; false when it is not there. */
static bool say_check(struct view *v, const char *name, const char *what)
{
    const struct record_check *c = find(v, name);
    char n[32], worst[32];

    if (c == NULL) return false;
    doc_para(v->d, "Check `%s` (%s): %s cases from seed %llu, %lld failed. "
             "Worst %s (%s).", name, what, buf_grouped(c->cases, n),
             (unsigned long long)c->seed, (long long)c->failed,
             buf_grouped(c->worst, worst), c->note);
    return true;
}

/* One rank: the size-only mirror beside what the executor held, and beside the
** published trace, which is of one case. */
static void put_mirror(struct view *v, struct table **t,
                       const struct record_found *c, int64_t w, int64_t r)
{
    double traced = NAN;
    int64_t mirror, step;

    if (!record_bytes(c, w, r, "mirror", "attention_records", &mirror) ||
        !record_bytes(c, w, r, "executor", "attention_records", &step))
        return;
    if (strcmp(c->shape.name, "real-40") == 0)
        traced = figure(v->published, "trace.attention_records.rank%d",
                        (int)r);
    if (*t == NULL)
        *t = doc_table(v->d, "mirror", "case|>rank|>mirror|>executor"
                       "|>difference|>traced, GB|>mirror to traced");
    doc_row(v->d, *t);
    cell_code(v->d, *t, c->shape.name);
    cell_count(v->d, *t, r);
    cell_bytes(v->d, *t, mirror);
    cell_bytes(v->d, *t, step);
    cell_diff(v->d, *t, mirror - step);
    cell_number(v->d, *t, traced, 3);
    cell_percent(v->d, *t, 100.0 * ((double)mirror / 1e9 - traced) / traced,
                 false);
}

void sec_mirror(struct view *v)
{
    struct table *t = NULL;
    int64_t i, r;

    doc_heading(v->d, 2, "mirror", "Mirror against executor");
    for (i = 0; i < v->n_case; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        if (!view_is_published(c) || w < 0) continue;
        for (r = 0; r < c->shape.cp; r++) put_mirror(v, &t, c, w, r);
    }
    if (t == NULL)
        view_absent(v, "mirror and executor of the published cases",
                    "pr-accuracy");
    else
        doc_para(v->d, "Bytes that one rank's attention executor keeps for "
                 "backward in one layer: as the size-only mirror prices "
                 "them, and as the step's executor holds them (requested). "
                 "The published text has no such test, because there it "
                 "needs GPUs; its mirror is within %.1f %% of traces.",
                 figure(v->published, "trace.mirror_difference.max"));
    if (!say_check(v, "mirror-executor", "random stage plans"))
        doc_para(v->d, "`checks.csv` has no row `mirror-executor`: "
                 "`peakproof run` with `--check` writes it.");
}

void sec_one_lse(struct view *v)
{
    static const char title[] = "One more LSE per attention stage";
    struct table *t = NULL;
    int64_t i, raw, one, shown = 0;

    for (i = 0; i < v->n_case && shown < MAX_SUBJECTS; i++) {
        const struct record_found *c = v->kase[i];
        int64_t w = view_wave(c, true);
        if (!view_is_subject(v, c) || w < 0 ||
            !record_bytes(c, w, RECORD_MAX, AFTER, "raw", &raw) ||
            !record_bytes(c, w, RECORD_MAX, AFTER "/one-lse", "raw", &one))
            continue;
        shown++;
        if (t == NULL) doc_heading(v->d, 2, "one-lse", title);
        if (t == NULL)
            t = doc_table(v->d, "one-lse", "case|>per-rank, raw|>with one LSE"
                          "|>the second LSE|>published, GB below");
        doc_row(v->d, t);
        cell_code(v->d, t, c->shape.name);
        cell_bytes(v->d, t, raw);
        cell_bytes(v->d, t, one);
        cell_bytes(v->d, t, raw - one);
        cell_number(v->d, t, view_is_published(c) ?
                    figure(v->published, "trace.one_lse.max") : (double)NAN,
                    2);
    }
    view_left_out(v, shown);
    if (t == NULL) {
        if (!v->published_here) return;
        doc_heading(v->d, 2, "one-lse", title);
        view_absent(v, "estimates with one LSE a stage", "pr-accuracy");
        return;
    }
    doc_para(v->d, "A later fix of the published text counts the second LSE "
             "of every stage: 4 B for each query head and padded row. The "
             "estimates here have it.");
    if (v->published_here) view_command(v, "pr-accuracy");
}

void sec_bound(struct view *v)
{
    doc_heading(v->d, 2, "bound", "Lower bound of the split search");
    doc_para(v->d, "The search prices even shares at the least attention "
             "state per row and must stay at or below the exact per-rank "
             "cost of every split.");
    if (!say_check(v, "lower-bound", "random splits"))
        doc_para(v->d, "`checks.csv` has no row `lower-bound`: `peakproof "
                 "run` with `--check` writes it.");
}

void sec_checks(struct view *v)
{
    struct table *t;
    int64_t i;

    doc_heading(v->d, 2, "checks", "All checks");
    if (v->set->n_check == 0) {
        doc_para(v->d, "None in this folder: `peakproof run` with `--check` "
                 "writes `checks.csv`.");
        return;
    }
    t = doc_table(v->d, "checks", "check|>cases|>seed|>failed|>worst|note");
    for (i = 0; i < v->set->n_check; i++) {
        const struct record_check *c = &v->set->check[i];
        doc_row(v->d, t);
        cell_code(v->d, t, c->check);
        cell_count(v->d, t, c->cases);
        cell_printf(v->d, t, "%llu", (unsigned long long)c->seed);
        cell_count(v->d, t, c->failed);
        cell_count(v->d, t, c->worst);
        cell_text(v->d, t, c->note);
    }
}

/* Lines for estimates that were refused; the first wave tells. */
static void put_refused(struct view *v, struct table **t,
                        const struct record_found *c)
{
    int64_t i;

    for (i = 0; i < c->n_row; i++) {
        const struct record_row *r = &c->row[i];
        if (r->status != STATUS_REFUSED || r->wave != c->row[0].wave ||
            strcmp(r->term, "raw") != 0) continue;
        if (*t == NULL)
            *t = doc_table(v->d, "fallbacks", "scenario|case|estimate|reason"
                           "|>raw bytes it falls back to");
        doc_row(v->d, *t);
        cell_code(v->d, *t, c->shape.scenario);
        cell_code(v->d, *t, c->shape.name);
        cell_text(v->d, *t, r->source);
        cell_text(v->d, *t, r->note);
        if (r->measured) cell_bytes(v->d, *t, r->bytes);
        else cell_none(v->d, *t);
    }
}

static bool any_refused(const struct view *v)
{
    int64_t i, k;

    for (i = 0; i < v->n_case; i++)
        for (k = 0; k < v->kase[i]->n_row; k++)
            if (v->kase[i]->row[k].status == STATUS_REFUSED) return true;
    return false;
}

void sec_fallbacks(struct view *v)
{
    struct table *t = NULL;
    int64_t i;

    if (!v->published_here && !any_refused(v)) return;

    doc_heading(v->d, 2, "fallbacks", "Where per-rank pricing does not "
                "apply");
    doc_para(v->d, "Per-rank pricing covers CP2, TP1, PP1, all groups with "
             "gradients, and the project's own CP attention without a "
             "softmax offset. Everything else keeps the busiest-rank floor "
             "and says so; TP or PP other than 1 is priced by neither.");
    for (i = 0; i < v->n_case; i++) put_refused(v, &t, v->kase[i]);
    if (t == NULL) view_absent(v, "a case that falls back", "fallbacks");
}
