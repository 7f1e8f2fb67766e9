/*
** trace.c - the list of events, see mem.h.
**
** Room is made when allocating, which may fail, so that releasing cannot.
*/
#include <stdlib.h>

#include "mem/state.h"

/* mem_event.alloc has 31 bits. */
#define TRACE_MAX (UINT64_C(1) << 31)

/* Makes room for n items of item bytes. */
static bool grow(void **items, uint64_t *cap, uint64_t n, size_t item)
{
    uint64_t wanted = *cap > 0 ? *cap : 1024;
    void *p;

    if (n <= *cap) return true;
    while (wanted < n) wanted *= 2;
    if (wanted > SIZE_MAX / item) return false;
    p = realloc(*items, (size_t)wanted * item);
    if (p == NULL) return false;
    *items = p;
    *cap = wanted;
    return true;
}

bool mem_trace_reserve(struct mem *m)
{
    uint64_t events, segments;
    void *trace = m->trace, *segment_trace = m->segment_trace;
    bool ok;

    if (!m->config.trace) return true;
    events = m->events + m->live + 2;
    segments = m->n_segment_trace + m->segment_gets - m->segment_puts + 2;
    if (events <= m->trace_cap && segments <= m->segment_trace_cap)
        return true;
    ok = events <= TRACE_MAX
      && grow(&trace, &m->trace_cap, events, sizeof *m->trace)
      && grow(&segment_trace, &m->segment_trace_cap, segments,
              sizeof *m->segment_trace);
    m->trace = trace;
    m->segment_trace = segment_trace;
    return ok;
}

static void put(struct mem *m, const struct mem_block *b, unsigned is_free)
{
    const struct mem_tag *t = &b->u.live.tag;

    m->trace[m->events] = (struct mem_event){
        .addr = b->addr, .bytes = b->u.live.requested, .op = t->op,
        .category = t->category, .phase = t->phase, .layer = t->layer,
        .is_free = is_free & 1u, .alloc = b->event & 0x7fffffffu,
    };
}

void mem_trace_alloc(struct mem *m, struct mem_block *b)
{
    b->event = (uint32_t)m->events;
    put(m, b, 0);
}

void mem_trace_free(struct mem *m, const struct mem_block *b)
{
    put(m, b, 1);
}

void mem_trace_segment(struct mem *m, uint64_t addr, uint64_t bytes,
                       bool is_free)
{
    m->segment_trace[m->n_segment_trace++] = (struct mem_segment_event){
        addr, bytes, m->events, is_free};
}

const struct mem_event *mem_trace(const struct mem *m, uint64_t *n)
{
    *n = m->trace != NULL ? m->events : 0;
    return m->trace;
}

const struct mem_segment_event *mem_segment_trace(const struct mem *m,
                                                  uint64_t *n)
{
    *n = m->n_segment_trace;
    return m->segment_trace;
}

const char *mem_phase_name(enum mem_phase p)
{
#define NAME(constant, name) [PHASE_##constant] = name,
    static const char *const names[PHASE_COUNT] = {MEM_PHASES(NAME)};
#undef NAME

    return names[p];
}
