/* errors.c - see errors.h. */
#include "report/sections/errors.h"

#include <stdlib.h>
#include <string.h>

static int source_of(struct errors *x, const char *name)
{
    int i = 0;

    while (i < x->n_source && strcmp(x->source[i], name) != 0) i++;
    if (i < x->n_source || i == MAX_SOURCES) return i;
    x->source[x->n_source++] = name;
    return i;
}

bool errors_at(const struct record_found *c, int64_t wave, const char *source,
               struct error_at *out)
{
    const struct record_row *r = record_get(c, wave, RECORD_MAX, source,
                                            "raw");

    *out = (struct error_at){.source = source, .c = c, .wave = wave};
    if (r == NULL || !r->measured || r->status == STATUS_REFUSED ||
        !record_bytes(c, wave, RECORD_MAX, "peak", "total", &out->peak) ||
        out->peak <= 0) return false;
    out->raw = r->bytes;
    if (!record_bytes(c, wave, RECORD_MAX, source, "admitted",
                      &out->admitted))
        out->admitted = r->bytes + r->bytes / 10;
    out->percent = 100.0 * (double)(out->raw - out->peak) / (double)out->peak;
    return true;
}

static void add_case(const struct record_found *c, struct errors *x)
{
    int64_t i;

    for (i = 0; i < c->n_row; i++) {
        const struct record_row *r = &c->row[i];
        int k;
        if (r->rank != RECORD_MAX || !r->measured) continue;
        if (strcmp(r->source, "peak") == 0)
            x->waves += strcmp(r->term, "total") == 0;
        if (strcmp(r->term, "raw") != 0) continue;
        k = source_of(x, r->source);
        if (k < MAX_SOURCES &&
            errors_at(c, r->wave, x->source[k], &x->v[x->n])) x->n++;
    }
}

/* As they came (the order of records), then the furthest under first. */
static int by_error(const void *a, const void *b)
{
    const struct error_at *x = a, *y = b;
    int order = strcmp(x->source, y->source);

    if (order != 0) return order;
    if (x->percent != y->percent) return x->percent < y->percent ? -1 : 1;
    order = strcmp(x->c->shape.name, y->c->shape.name);
    if (order != 0) return order;
    return x->wave < y->wave ? -1 : x->wave > y->wave;
}

void errors_of(struct view *v, const char *scenario, struct errors *out)
{
    int64_t c, rows = 0;

    *out = (struct errors){.n = 0};
    for (c = 0; c < v->n_case; c++) rows += v->kase[c]->n_row;
    out->v = malloc((size_t)(rows + 1) * sizeof *out->v);
    if (out->v == NULL) {
        v->d->failed = true;
        return;
    }
    for (c = 0; c < v->n_case; c++)
        if (scenario == NULL ||
            strcmp(v->kase[c]->shape.scenario, scenario) == 0)
            add_case(v->kase[c], out);
    qsort(out->v, (size_t)out->n, sizeof *out->v, by_error);
}

void errors_free(struct errors *x)
{
    free(x->v);
}

int64_t errors_part(const struct errors *x, int k,
                    const struct error_at **first)
{
    int64_t i = 0, end;

    while (i < x->n && x->v[i].source != x->source[k]) i++;
    for (end = i; end < x->n && x->v[end].source == x->source[k];) end++;
    *first = x->v + i;
    return end - i;
}
