/* timeline.c - see timeline.h */
#include "record/timeline.h"

#include <assert.h>
#include <string.h>

int64_t timeline_sum(const struct timeline_point *p)
{
    int64_t sum = 0;
    int k;

    for (k = 0; k < CAT_COUNT; k++) sum += p->by[k];
    return sum;
}

static void note_phase(const struct mem_event *x, int64_t event,
                       struct timeline *out)
{
    if (out->head < 0 && x->phase == PHASE_HEAD) out->head = event;
    if (out->backward < 0 &&
        (x->phase == PHASE_RECOMPUTE || x->phase == PHASE_BACKWARD))
        out->backward = event;
}

void record_timeline(const struct mem_event *trace, int64_t n,
                     const struct mem_peak *peak, struct timeline *out)
{
    struct timeline_point now = {0, {0}}, *best = NULL;
    int64_t part, last = -1;

    assert(n >= 1);
    memset(out, 0, sizeof *out);
    out->head = out->backward = -1;
    out->events = n;
    out->peak = *peak;
    for (; now.event < n; now.event++) {
        const struct mem_event *x = &trace[now.event];
        int64_t bytes = (int64_t)x->bytes;
        now.by[x->category] += x->is_free ? -bytes : bytes;
        note_phase(x, now.event, out);
        part = now.event * TIMELINE_POINTS / n;
        if (part != last)
            best = &out->point[out->n_point++];
        else if ((uint64_t)best->event == peak->event ||
                 ((uint64_t)now.event != peak->event &&
                  timeline_sum(&now) <= timeline_sum(best)))
            continue;
        last = part;
        *best = now;
    }
}
