/* errors.c - see errors.h. */
#include "record/errors.h"

#include <stdlib.h>
#include <string.h>

/* Its number, a new one where it has none yet; -1 without memory. */
static int source_of(struct record_errors *x, const char *name)
{
    int i = 0, cap = x->cap_source == 0 ? 16 : 2 * x->cap_source;

    while (i < x->n_source && strcmp(x->source[i], name) != 0) i++;
    if (i < x->n_source) return i;
    if (i == x->cap_source) {
        const char **more = realloc(x->source, (size_t)cap * sizeof *more);
        if (more == NULL) return -1;
        x->source = more;
        x->cap_source = cap;
    }
    x->source[x->n_source++] = name;
    return i;
}

bool record_error_at(const struct record_found *c, int64_t wave,
                     const char *source, struct record_error *out)
{
    const struct record_row *r = record_get(c, wave, RECORD_MAX, source,
                                            "raw");

    *out = (struct record_error){.source = source, .c = c, .wave = wave};
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

static bool has_room(struct record_errors *x)
{
    int64_t cap = x->cap == 0 ? 1024 : 2 * x->cap;
    struct record_error *more;

    if (x->n < x->cap) return true;
    more = realloc(x->v, (size_t)cap * sizeof *more);
    if (more == NULL) return false;
    x->v = more;
    x->cap = cap;
    return true;
}

bool record_errors_add(struct record_errors *x, const struct record_found *c)
{
    int64_t i;

    for (i = 0; i < c->n_row; i++) {
        const struct record_row *r = &c->row[i];
        int k;
        if (r->rank != RECORD_MAX || !r->measured) continue;
        if (strcmp(r->source, "peak") == 0)
            x->waves += strcmp(r->term, "total") == 0;
        if (strcmp(r->term, "raw") != 0) continue;
        if (!has_room(x)) return false;
        k = source_of(x, r->source);
        if (k < 0) return false;
        if (record_error_at(c, r->wave, x->source[k], &x->v[x->n])) x->n++;
    }
    return true;
}

/* By source, then from the furthest under up. */
static int by_error(const void *a, const void *b)
{
    const struct record_error *x = a, *y = b;
    int order = strcmp(x->source, y->source);

    if (order != 0) return order;
    if (x->percent != y->percent) return x->percent < y->percent ? -1 : 1;
    order = strcmp(x->c->shape.name, y->c->shape.name);
    if (order != 0) return order;
    return x->wave < y->wave ? -1 : x->wave > y->wave;
}

void record_errors_sort(struct record_errors *x)
{
    if (x->n > 0) qsort(x->v, (size_t)x->n, sizeof *x->v, by_error);
}

void record_errors_free(struct record_errors *x)
{
    free(x->v);
    free(x->source);
}

int64_t record_errors_part(const struct record_errors *x, int k,
                           const struct record_error **first)
{
    int64_t low = 0, high = x->n, end;

    while (low < high) {
        int64_t mid = low + (high - low) / 2;
        if (strcmp(x->v[mid].source, x->source[k]) < 0) low = mid + 1;
        else high = mid;
    }
    for (end = low; end < x->n && x->v[end].source == x->source[k];) end++;
    *first = x->v + low;
    return end - low;
}
