/* sec_timing.c - times, which differ from run to run: timing.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/sections/sections.h"

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* All times of one kind, sorted; NULL without memory. */
static int64_t *gather(const struct view *v, const char *what, int64_t *n)
{
    int64_t i, k, total = 0, *out;

    for (i = 0; i < v->set->n_case; i++) total += v->set->kase[i].n_time;
    out = malloc((size_t)(total + 1) * sizeof *out);
    if (out == NULL) return NULL;
    *n = 0;
    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];
        for (k = 0; k < c->n_time; k++)
            if (strcmp(c->time[k].what, what) == 0)
                out[(*n)++] = c->time[k].ns;
    }
    qsort(out, (size_t)*n, sizeof *out, by_value);
    return out;
}

static void put_times(struct view *v, struct table *t, const char *what,
                      const char *published)
{
    int64_t n = 0, *ns = gather(v, what, &n);

    if (ns == NULL) v->d->failed = true;
    if (ns != NULL && n > 0) {
        doc_row(v->d, t);
        cell_code(v->d, t, what);
        cell_count(v->d, t, n);
        cell_number(v->d, t, (double)ns[0] / 1e6, 4);
        cell_number(v->d, t, (double)ns[n / 2] / 1e6, 4);
        cell_number(v->d, t, (double)ns[n - 1] / 1e6, 4);
        cell_text(v->d, t, published);
    }
    free(ns);
}

/* Every kind of time in the folder, in order of appearance; *out is the
** caller's. */
static int kinds(struct view *v, const char ***out)
{
    int n = 0;
    int64_t i, k;

    *out = NULL;
    for (i = 0; i < v->set->n_case; i++) {
        const struct record_found *c = &v->set->kase[i];
        for (k = 0; k < c->n_time; k++)
            v->d->failed |= !view_add_name(out, &n, c->time[k].what);
    }
    return n;
}

void sec_timing(struct view *v)
{
    const char **what;
    int n = kinds(v, &what), i;
    char first[80], cached[80];
    struct table *t;

    doc_heading(v->d, 1, "timing", "peakproof: times");
    view_unfinished(v->d, v->set, THIS_FOLDER);
    doc_para(v->d, "From `timings.csv`. These differ from run to run and "
             "machine to machine; no test compares them.");
    snprintf(first, sizeof first, "%.0f to %.0f ms, first time",
             figure(v->published, "planning.first.min"),
             figure(v->published, "planning.first.max"));
    snprintf(cached, sizeof cached, "under %.0f ms, cached",
             figure(v->published, "planning.cached.max"));
    t = doc_table(v->d, "timing", "what|>times|>least, ms|>median, ms"
                  "|>most, ms|published");
    for (i = 0; i < n; i++)
        put_times(v, t, what[i], strcmp(what[i], "plan") == 0 ? first
                  : strcmp(what[i], "plan.cached") == 0 ? cached : NULL);
    free(what);
}
