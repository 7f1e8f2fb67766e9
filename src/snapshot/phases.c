/* phases.c - see phases.h */
#include "snapshot/phases.h"

#include <stdlib.h>
#include <string.h>

int64_t phases_event_at(const struct snapshot_device *d, int64_t time_us)
{
    int64_t lo = 0, hi = d->n_event;

    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;

        if (d->event[mid].time_us < time_us)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static struct phase measure(const struct snapshot_device *d,
                            const struct walk *w,
                            const struct snapshot_note *note)
{
    struct phase p = {.name = note->name, .open = note->end_us == INT64_MAX};
    int64_t i;

    p.first = phases_event_at(d, note->start_us);
    p.last = p.open ? d->n_event - 1
                    : phases_event_at(d, note->end_us + 1) - 1;
    p.start = p.first > 0 ? w->allocated[p.first - 1] : w->initial.allocated;
    p.peak = p.start;
    p.peak_event = p.first - 1;
    for (i = p.first; i <= p.last; i++) {
        if (w->allocated[i] <= p.peak) continue;
        p.peak = w->allocated[i];
        p.peak_event = i;
    }
    return p;
}

int phases_find(const struct snapshot *s, const struct walk *w,
                const char *only, struct phases *out, struct err *e)
{
    const struct snapshot_device *d = &s->device[w->device];

    *out = (struct phases){0};
    if (d->n_event == 0 || d->event[d->n_event - 1].time_us == 0)
        return ERR_OK;
    out->at = calloc((size_t)s->n_note + 1, sizeof *out->at);
    if (out->at == NULL) return err_nomem(e);
    for (int64_t i = 0; i < s->n_note; i++) {
        const struct snapshot_note *n = &s->note[i];

        if (n->device >= 0 && n->device != w->device) continue;
        if (only != NULL && strncmp(n->name, only, strlen(only)) != 0)
            continue;
        out->at[out->n++] = measure(d, w, n);
    }
    return ERR_OK;
}

void phases_free(struct phases *p)
{
    free(p->at);
    *p = (struct phases){0};
}
