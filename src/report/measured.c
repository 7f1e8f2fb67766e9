/* measured.c - see measured.h */
#include "report/measured.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

const char *const measured_words[MEASURED_WHATS] = {
    [MEASURED_FORWARD] = "forward", [MEASURED_RETAINED] = "retained",
    [MEASURED_BACKWARD] = "forward + backward"
};

static const struct record_found *case_of(const struct measured *m,
                                          enum measured_what what)
{
    return what == MEASURED_BACKWARD ? m->backward : m->forward;
}

/* The last wave's, of the most-loaded rank; -1 where it did not run. */
static int64_t ours_of(const struct record_found *c, enum measured_what what)
{
    int64_t i, most = -1;

    for (i = 0; i < c->n_peak; i++) {
        const struct record_peak *p = &c->peak[i];
        if (p->wave != c->waves - 1) continue;
        most = num_max(most, what == MEASURED_RETAINED
                             ? p->beside.retained_bytes : p->allocated);
    }
    return most;
}

bool measured_pair(const struct measured *m, enum measured_what what,
                   int64_t *measured, int64_t *ours)
{
    const struct record_found *c = case_of(m, what);

    assert(what < MEASURED_WHATS);
    if (c == NULL) return false;
    *measured = what == MEASURED_RETAINED ? c->shape.measured_retained
                                          : c->shape.measured_peak;
    *ours = ours_of(c, what);
    return *measured > 0 && *ours >= 0;
}

double measured_error(const struct measured *m, enum measured_what what)
{
    int64_t measured, ours;

    if (!measured_pair(m, what, &measured, &ours)) return NAN;
    return 100.0 * ((double)ours - (double)measured) / (double)measured;
}

bool measured_counts(const struct measured *m, enum measured_what what)
{
    const struct record_found *c = case_of(m, what);

    return c != NULL && c->shape.measured_note[0] == '\0';
}

bool measured_is_large(const struct measured *m)
{
    const struct record_case *s = &m->forward->shape;
    bool full = strcmp(s->recompute, "full") == 0;

    return s->top_k == 0 && s->cp == 1 && s->tokens >= (full ? 2048 : 400) &&
           measured_counts(m, MEASURED_FORWARD);
}

static bool alike(const struct record_case *a, const struct record_case *b)
{
    return strcmp(a->model, b->model) == 0 && a->tp == b->tp &&
           a->cp == b->cp && a->tokens == b->tokens &&
           a->sequences == b->sequences && a->compiled == b->compiled &&
           strcmp(a->recompute, b->recompute) == 0 &&
           strcmp(a->modules, b->modules) == 0;
}

bool measured_is_distinct(const struct view *v, int64_t i)
{
    int64_t k;

    for (k = 0; k < i; k++)
        if (alike(&v->measured[k].forward->shape,
                  &v->measured[i].forward->shape)) return false;
    return true;
}

static int compare(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

struct spread spread_of(double *x, int64_t n)
{
    struct spread s = {n, NAN, NAN, NAN};

    assert(n >= 0);
    if (n == 0) return s;
    qsort(x, (size_t)n, sizeof *x, compare);
    s.min = x[0];
    s.max = x[n - 1];
    s.median = n % 2 != 0 ? x[n / 2] : (x[n / 2 - 1] + x[n / 2]) / 2.0;
    return s;
}

void measured_sentence(const struct view *v, struct buf *out)
{
    double *x = malloc((size_t)(v->n_measured + 1) * sizeof *x);
    int64_t i, n = 0, all = 0, within = 0;
    struct spread s;

    for (i = 0; x != NULL && i < v->n_measured; i++) {
        const struct measured *m = &v->measured[i];
        double error = measured_error(m, MEASURED_FORWARD);
        if (!measured_is_large(m) || !measured_is_distinct(v, i)) continue;
        all++;
        if (isnan(error)) continue;
        x[n++] = fabs(error);
        within += fabs(error) <= 1.0;
    }
    if (x == NULL) out->failed = true;
    s = spread_of(x, n);
    if (n > 0)
        buf_printf(out, "Of %d distinct measured forward peaks of dense "
                   "models (cp 1, 400 rows and more, 2,048 where whole layers "
                   "run again) simulated ones lie within 1 %% of %d: median "
                   "%.2f %%, at most %.1f %%.",
                   (int)n, (int)within, s.median, s.max);
    else if (all > 0)
        buf_printf(out, "None of %d distinct measured cells ran here.",
                   (int)all);
    if (n > 0 && n < all)
        buf_printf(out, " %d more did not run here.", (int)(all - n));
    free(x);
}
