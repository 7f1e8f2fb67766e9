/*
** count.h - counts what has just happened, inside the allocator's two calls.
**
** The categories at the peak cost nothing while the allocated bytes climb:
** they are copied when a release is about to leave the maximum.
** Inside src/mem.
*/
#ifndef MEM_COUNT_H
#define MEM_COUNT_H

#include <string.h>

#include "mem/state.h"

/* True: a new peak. */
static inline bool level_raise(struct level *l, uint64_t n)
{
    l->now += n;
    if (l->now <= l->peak) return false;
    l->peak = l->now;
    return true;
}

static inline void level_mark(struct level *l)
{
    if (l->peak > l->peak_before) l->peak_before = l->peak;
    l->peak = l->now;
}

/* Since the start. */
static inline uint64_t level_highest(const struct level *l)
{
    return l->peak > l->peak_before ? l->peak : l->peak_before;
}

/* One step of a rolling hash; the constants are odd and have mixed bits. */
static inline uint64_t fingerprint(uint64_t h, const struct mem_block *b,
                                   unsigned is_free)
{
    h += b->u.live.requested * 0xc2b2ae3d27d4eb4fu;
    h += (b->u.live.tag.category * 2u + is_free) * 0x165667b19e3779f9u;
    h = h << 31 | h >> 33;
    return h * 0x9e3779b185ebca87u;
}

/* The same where blocks go by which record they are, which says nothing of
** sizes: equal for two sequences of requests as long as they are met alike. */
static inline void count_decision(struct mem *m, uint64_t what)
{
    uint64_t h = m->decisions + what * 0xc2b2ae3d27d4eb4fu;

    m->decisions = (h << 31 | h >> 33) * 0x9e3779b185ebca87u;
}

/* True when the allocated bytes reached a new peak. */
static inline bool count_live(struct mem *m, const struct mem_block *b)
{
    m->live++;
    m->by[b->u.live.tag.category] += b->u.live.requested;
    (void)level_raise(&m->requested, b->u.live.requested);
    if (m->config.counters) mem_counters_live(m, b, 1);
    return level_raise(&m->allocated, b->size);
}

static inline void count_alloc(struct mem *m, struct mem_block *b)
{
    if (count_live(m, b)) {
        m->highest.open = true;
        m->highest.event = m->events;
        m->highest.tag = b->u.live.tag;
    }
    m->fingerprint = fingerprint(m->fingerprint, b, 0);
    if (m->trace != NULL) mem_trace_alloc(m, b);
    m->events++;
}

static inline void count_free(struct mem *m, const struct mem_block *b)
{
    if (m->highest.open) {
        memcpy(m->highest.by, m->by, sizeof m->by);
        m->highest.open = false;
    }
    m->live--;
    m->by[b->u.live.tag.category] -= b->u.live.requested;
    m->requested.now -= b->u.live.requested;
    m->allocated.now -= b->size;
    if (m->config.counters) mem_counters_live(m, b, -1);
    m->fingerprint = fingerprint(m->fingerprint, b, 1);
    if (m->trace != NULL) mem_trace_free(m, b);
    m->events++;
}

#endif
