/*
** sec_estimates.c - the estimates of the measured cells: which printed ones
** come out, how far each estimator is from measured and simulated peaks, what
** its margin hides, and where kept-rank leaves its bounds.
*/
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "price/price.h"
#include "report/measured.h"
#include "report/sections/sections.h"

enum { BOUND_ROWS = 1000 };
#define BOUND_PERCENT 2.0

/* ---- one estimate -------------------------------------------------------- */

static bool estimate_of(const struct record_found *c, const char *name,
                        const char *term, int64_t *out)
{
    const struct record_row *r;

    if (c == NULL) return false;
    r = record_get(c, c->waves - 1, RECORD_MAX, name, term);
    if (r == NULL || !r->measured || r->status == STATUS_REFUSED) return false;
    *out = r->bytes;
    return true;
}

static double percent(int64_t estimate, int64_t peak)
{
    return 100.0 * ((double)estimate - (double)peak) / (double)peak;
}

/* Of the forward case, or of the one with backward, against measured bytes or
** ours; NaN where something is missing or does not count. */
static double error_of(const struct measured *m, enum measured_what what,
                       const char *name, const char *term, bool simulated)
{
    const struct record_found *c = what == MEASURED_BACKWARD ? m->backward
                                                             : m->forward;
    int64_t estimate, measured = 0, ours = 0;
    bool both = measured_pair(m, what, &measured, &ours);

    if (!estimate_of(c, name, term, &estimate)) return NAN;
    if (simulated) return both ? percent(estimate, ours) : (double)NAN;
    if (!measured_counts(m, what) && c->shape.top_k == 0) return NAN;
    return c->shape.measured_peak > 0
           ? percent(estimate, c->shape.measured_peak) : (double)NAN;
}

/* ---- by series ----------------------------------------------------------- */

struct set { const char *series; bool moe; };

static bool in_set(const struct measured *m, const struct set *s)
{
    return strcmp(m->forward->shape.series, s->series) == 0 &&
           (m->forward->shape.top_k > 0) == s->moe;
}

static struct spread spread_in(const struct view *v, const struct set *s,
                               const char *name, const char *term,
                               bool simulated, double *x)
{
    int64_t i, n = 0;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        double error = error_of(m, MEASURED_FORWARD, name, term, simulated);
        if (in_set(m, s) && !isnan(error)) x[n++] = error;
    }
    return spread_of(x, n);
}

static bool is_printed(const struct measured *m, const char *name, bool *same)
{
    const struct record_case *s = &m->forward->shape;
    int64_t bytes;

    *same = false;
    if (s->printed_estimate < 0 || strcmp(s->printed_by, name) != 0)
        return false;
    *same = estimate_of(m->forward, name, "admitted", &bytes) &&
            bytes == s->printed_estimate;
    return true;
}

/* "3 of 3" of what that estimator printed; nothing where it printed none. */
static void put_printed(struct view *v, struct table *t, const struct set *s,
                        const char *name)
{
    int64_t i, n = 0, right = 0;
    bool same;

    for (i = 0; i < v->n_measured; i++) {
        if (!in_set(&v->measured[i], s)) continue;
        n += is_printed(&v->measured[i], name, &same);
        right += same;
    }
    if (n == 0) cell_none(v->d, t);
    else cell_printf(v->d, t, "%d of %d", (int)right, (int)n);
}

static void put_estimator(struct view *v, struct table *t,
                          const struct set *s, const char *name, double *x)
{
    struct spread e = spread_in(v, s, name, "admitted", false, x);
    double raw = spread_in(v, s, name, "raw", false, x).median;
    double ours = spread_in(v, s, name, "admitted", true, x).median;

    if (e.n == 0) return;
    doc_row(v->d, t);
    cell_code(v->d, t, s->series);
    cell_text(v->d, t, s->moe ? "MoE" : "dense");
    cell_code(v->d, t, name);
    cell_count(v->d, t, e.n);
    put_printed(v, t, s, name);
    cell_percent(v->d, t, e.min, e.min < 0);
    cell_percent(v->d, t, e.median, e.median < 0);
    cell_percent(v->d, t, e.max, e.max < 0);
    cell_percent(v->d, t, raw, raw < 0);
    cell_percent(v->d, t, ours, ours < 0);
}

/* Every estimator of the set's cells, in the order of their first rows. */
static void put_set(struct view *v, struct table *t, const struct set *s,
                    double *x)
{
    const char **seen = NULL;
    int64_t i, k;
    int n = 0, j;

    for (i = 0; i < v->n_measured; i++) {
        const struct record_found *c = v->measured[i].forward;
        if (!in_set(&v->measured[i], s)) continue;
        for (k = 0; k < c->n_row; k++) {
            const struct record_row *r = &c->row[k];
            if (r->rank != RECORD_MAX || strcmp(r->term, "admitted") != 0)
                continue;
            v->d->failed |= !view_add_name(&seen, &n, r->source);
        }
    }
    for (j = 0; j < n; j++) put_estimator(v, t, s, seen[j], x);
    free(seen);
}

static bool is_first_in(const struct view *v, int64_t i, struct set *s)
{
    int64_t k;

    s->series = v->measured[i].forward->shape.series;
    s->moe = v->measured[i].forward->shape.top_k > 0;
    for (k = 0; k < i; k++)
        if (in_set(&v->measured[k], s)) return false;
    return true;
}

static void put_table(struct view *v, double *x)
{
    struct table *t = doc_table(v->d, "measured-estimates", "series|models"
                                "|estimator|>cells|>printed, to the byte"
                                "|>admitted, least|>median|>most"
                                "|>raw, median|>to simulated, median");
    int64_t i;

    for (i = 0; i < v->n_measured; i++) {
        struct set s;
        if (is_first_in(v, i, &s)) put_set(v, t, &s, x);
    }
}

static void put_printed_count(struct view *v)
{
    int64_t i, n = 0, right = 0;

    for (i = 0; i < v->n_measured; i++) {
        const struct record_case *s = &v->measured[i].forward->shape;
        bool same;
        if (s->printed_estimate < 0) continue;
        n++;
        if (is_printed(&v->measured[i], s->printed_by, &same)) right += same;
    }
    if (n > 0)
        doc_para(v->d, "Estimates printed beside these cells that come out "
                 "to the byte: %d of %d.", (int)right, (int)n);
}

/* ---- the margin ---------------------------------------------------------- */

/* The last published estimator that priced the cell: the one that printed
** its estimate, if that was no earlier version; where none was printed,
** retained-rank. */
static const char *last_version(const struct measured *m)
{
    const char *by = m->forward->shape.printed_by;

    if (m->forward->shape.top_k > 0 ||
        strcmp(m->forward->shape.recompute, "full") == 0) return NULL;
    if (by[0] == '\0') return PRICE_RETAINED_RANK;
    return strcmp(by, PRICE_RETAINED_STATES) == 0 ||
           strcmp(by, PRICE_RETAINED_RANK) == 0 ? by : NULL;
}

static struct spread last_spread(const struct view *v, const char *term,
                                 double *x)
{
    int64_t i, n = 0;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        const char *name = last_version(m);
        double error = name == NULL ? (double)NAN
                       : error_of(m, MEASURED_FORWARD, name, term, false);
        if (m->forward->shape.tokens >= BOUND_ROWS && !isnan(error))
            x[n++] = error;
    }
    return spread_of(x, n);
}

static void put_margin(struct view *v, double *x)
{
    struct spread admitted = last_spread(v, "admitted", x);
    struct spread raw = last_spread(v, "raw", x);

    if (admitted.n == 0) return;
    doc_para(v->d, "The margin of a tenth is %.1f points of the median error "
             "of `retained-states` and `retained-rank`: on %d dense cells of "
             "1,000 rows and more that do not recompute whole layers, "
             "admitted errors are %+.1f / %+.1f / %+.1f %% (least, median, "
             "most), raw ones %+.1f / %+.1f / %+.1f %%.",
             admitted.median - raw.median, (int)admitted.n, admitted.min,
             admitted.median, admitted.max, raw.min, raw.median, raw.max);
}

/* Cells that a version covers only with its margin, or not at all. */
static void put_hidden(struct view *v)
{
    struct table *t = NULL;
    int64_t i;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        const char *name = last_version(m);
        double raw, forward, backward;
        if (name == NULL) continue;
        raw = error_of(m, MEASURED_FORWARD, name, "raw", false);
        forward = error_of(m, MEASURED_FORWARD, name, "admitted", false);
        backward = error_of(m, MEASURED_BACKWARD, name, "admitted", false);
        if (!(raw < 0) && !(forward < 0) && !(backward < 0)) continue;
        if (t == NULL) {
            doc_para(v->d, "Where the margin hides an estimate below the "
                     "measured peak, or does not cover it. These versions do "
                     "not price the executor's records at context "
                     "parallelism without recompute, what the allocator "
                     "rounds up, and backward.");
            t = doc_table(v->d, "measured-hidden", "cell|estimator|>raw"
                          "|>admitted|>admitted, forward + backward");
        }
        doc_row(v->d, t);
        cell_code(v->d, t, m->forward->shape.name);
        cell_code(v->d, t, name);
        cell_percent(v->d, t, raw, raw < 0);
        cell_percent(v->d, t, forward, forward < 0);
        cell_percent(v->d, t, backward, backward < 0);
    }
}

/* ---- kept-rank ----------------------------------------------------------- */

static bool is_first_shape(const struct measured *m)
{
    return m->backward != NULL && !measured_counts(m, MEASURED_BACKWARD);
}

/* Why kept-rank makes no promise of a cell; NULL: it does. */
static const char *excuse(const struct measured *m)
{
    const struct record_case *s = &m->forward->shape;

    if (s->top_k > 0) return "mixture of experts";
    if (strcmp(s->recompute, "full") == 0)
        return "whole layers run again: remainders of a single layer decide";
    if (s->tokens < BOUND_ROWS)
        return "few rows: remainders of shared segments decide";
    if (s->cp > 1)
        return "context parallel: a rank's states and rows in part by bounds";
    if (is_first_shape(m)) return "first shape of a process";
    return NULL;
}

static bool is_outside(double error)
{
    return error < 0 || error > BOUND_PERCENT;
}

static struct spread kept_spread(const struct view *v,
                                 enum measured_what what, double *x)
{
    int64_t i, n = 0;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        double error = error_of(m, what, PRICE_KEPT_RANK, "raw", false);
        if (excuse(m) == NULL && !isnan(error)) x[n++] = error;
    }
    return spread_of(x, n);
}

/* Cells outside the claim are listed with the reason that they have. */
static void put_kept_cells(struct view *v)
{
    struct table *t = NULL;
    int64_t i;

    for (i = 0; i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        const char *why = excuse(m);
        double f = error_of(m, MEASURED_FORWARD, PRICE_KEPT_RANK, "raw",
                            false);
        double b = error_of(m, MEASURED_BACKWARD, PRICE_KEPT_RANK, "raw",
                            false);
        if (!is_outside(f) && !is_outside(b)) continue;
        if (t == NULL)
            t = doc_table(v->d, "measured-kept", "cell|model|recompute"
                          "|>rows|>forward|>forward + backward|why");
        doc_row(v->d, t);
        cell_code(v->d, t, m->forward->shape.name);
        cell_text(v->d, t, m->forward->shape.model);
        cell_text(v->d, t, m->forward->shape.recompute);
        cell_count(v->d, t, m->forward->shape.tokens);
        cell_percent(v->d, t, f, f < 0);
        cell_percent(v->d, t, b, b < 0);
        cell_text(v->d, t, why != NULL ? why : "not explained");
    }
}

static void put_kept(struct view *v, double *x)
{
    struct spread f = kept_spread(v, MEASURED_FORWARD, x);
    struct spread b = kept_spread(v, MEASURED_BACKWARD, x);

    if (f.n == 0) return;
    doc_para(v->d, "`kept-rank`, our own, prices what each rank keeps tensor "
             "by tensor, backward included, with one term for remainders "
             "that the allocator does not split off. Raw, on %d dense cells "
             "(cp 1, 1,000 rows and more, no first shape, no whole layer "
             "recomputed): forward %+.2f / %+.2f / %+.2f %%, forward + "
             "backward (%d cells) %+.2f / %+.2f / %+.2f %%. Cells outside 0 "
             "to +2 %%:", (int)f.n, f.min, f.median, f.max, (int)b.n, b.min,
             b.median, b.max);
    put_kept_cells(v);
}

void sec_measured_estimates(struct view *v)
{
    double *x;

    if (v->n_measured == 0) return;
    x = malloc((size_t)v->n_measured * sizeof *x);
    if (x == NULL) {
        v->d->failed = true;
        return;
    }
    doc_heading(v->d, 3, "measured-estimates", "Estimates of the measured "
                "cells");
    put_printed_count(v);
    doc_para(v->d, "Forward only; against the measured peak without what only "
             "a first forward holds, and against ours. `heuristic` is what "
             "the planner had before it priced retained activations, "
             "`retained-states` what it had then, `retained-rank` prices a "
             "rank's own rows.");
    put_table(v, x);
    put_margin(v, x);
    put_hidden(v);
    put_kept(v, x);
    free(x);
}
