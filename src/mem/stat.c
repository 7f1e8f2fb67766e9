/*
** stat.c - statistics, peaks and the fingerprint, see mem.h.
**
** The categories at the peak cost nothing while the allocated bytes climb:
** they are copied when a release is about to leave the maximum.
*/
#include <assert.h>
#include <string.h>

#include "mem/state.h"

static bool tally_add(struct tally *t, uint64_t n)
{
    t->current += n;
    t->added += n;
    if (t->current <= t->peak) return false;
    t->peak = t->current;
    return true;
}

/* True when the sum of both pools reached a new peak. */
static inline bool stat_add(struct mem *m, enum mem_stat s, int pool,
                            uint64_t n)
{
    tally_add(&m->tally[s][MEM_SMALL + pool], n);
    return tally_add(&m->tally[s][MEM_ALL], n);
}

static inline void stat_sub(struct mem *m, enum mem_stat s, int pool,
                            uint64_t n)
{
    m->tally[s][MEM_SMALL + pool].current -= n;
    m->tally[s][MEM_ALL].current -= n;
}

/* A change of either sign is one step: torch does not see the merging of two
** blocks as a dip and a rise. */
static void stat_change(struct mem *m, enum mem_stat s, int pool, int64_t n)
{
    if (n > 0)
        (void)stat_add(m, s, pool, (uint64_t)n);
    else
        stat_sub(m, s, pool, (uint64_t)-n);
}

/* One step of a rolling hash; the constants are odd and have mixed bits. */
static uint64_t fingerprint(uint64_t h, const struct mem_block *b,
                            unsigned is_free)
{
    h += b->u.live.requested * 0xc2b2ae3d27d4eb4fu;
    h += (b->category * 2u + is_free) * 0x165667b19e3779f9u;
    h = h << 31 | h >> 33;
    return h * 0x9e3779b185ebca87u;
}

/* True when the allocated bytes reached a new peak. */
static bool count_live(struct mem *m, const struct mem_block *b)
{
    uint64_t requested = b->u.live.requested;

    m->by[b->category] += requested;
    (void)stat_add(m, MEM_ALLOCATION, b->pool, 1);
    (void)stat_add(m, MEM_REQUESTED_BYTES, b->pool, requested);
    if (b->size >= m->config.max_split_bytes)
        (void)stat_add(m, MEM_OVERSIZE_ALLOCATION, b->pool, 1);
    return stat_add(m, MEM_ALLOCATED_BYTES, b->pool, b->size);
}

void mem_count_alloc(struct mem *m, struct mem_block *b)
{
    if (count_live(m, b)) {
        m->highest.open = true;
        m->highest.event = m->events;
        m->highest.tag = (struct mem_tag){b->category, b->phase, b->layer,
                                          b->u.live.op};
    }
    m->fingerprint = fingerprint(m->fingerprint, b, 0);
    if (m->trace != NULL) mem_trace_alloc(m, b);
    m->events++;
}

void mem_count_adopted(struct mem *m, const struct mem_block *b)
{
    (void)count_live(m, b);
}

void mem_count_free(struct mem *m, const struct mem_block *b)
{
    uint64_t requested = b->u.live.requested;

    if (m->highest.open) {
        memcpy(m->highest.by, m->by, sizeof m->by);
        m->highest.open = false;
    }
    m->by[b->category] -= requested;
    stat_sub(m, MEM_ALLOCATION, b->pool, 1);
    stat_sub(m, MEM_REQUESTED_BYTES, b->pool, requested);
    stat_sub(m, MEM_ALLOCATED_BYTES, b->pool, b->size);
    if (b->size >= m->config.max_split_bytes)
        stat_sub(m, MEM_OVERSIZE_ALLOCATION, b->pool, 1);
    m->fingerprint = fingerprint(m->fingerprint, b, 1);
    if (m->trace != NULL) mem_trace_free(m, b);
    m->events++;
}

void mem_count_segment(struct mem *m, int pool, uint64_t addr, uint64_t bytes,
                       bool is_free)
{
    int sign = is_free ? -1 : 1;

    stat_change(m, MEM_SEGMENT, pool, sign);
    stat_change(m, MEM_RESERVED_BYTES, pool, sign * (int64_t)bytes);
    if (bytes >= m->config.max_split_bytes)
        stat_change(m, MEM_OVERSIZE_SEGMENT, pool, sign);
    if (is_free)
        m->segment_puts++;
    else
        m->segment_gets++;
    if (m->segment_trace != NULL) mem_trace_segment(m, addr, bytes, is_free);
}

void mem_count_mapped(struct mem *m, int pool, uint64_t bytes, bool is_free)
{
    stat_change(m, MEM_RESERVED_BYTES, pool,
                is_free ? -(int64_t)bytes : (int64_t)bytes);
}

void mem_count_split(struct mem *m, int pool, int64_t n, int64_t bytes)
{
    if (n != 0) stat_change(m, MEM_INACTIVE_SPLIT, pool, n);
    if (bytes != 0) stat_change(m, MEM_INACTIVE_SPLIT_BYTES, pool, bytes);
}

/* ---- reading ------------------------------------------------------------ */

struct mem_counter mem_counter(const struct mem *m, enum mem_stat s,
                               enum mem_scope scope)
{
    const struct tally *t = &m->tally[s][scope];
    uint64_t peak = t->peak > t->peak_before ? t->peak : t->peak_before;

    return (struct mem_counter){t->current, peak, t->added,
                                t->added - t->current};
}

void mem_stats(const struct mem *m, struct mem_stats *out)
{
    struct mem_counter a = mem_counter(m, MEM_ALLOCATED_BYTES, MEM_ALL);
    struct mem_counter q = mem_counter(m, MEM_REQUESTED_BYTES, MEM_ALL);
    struct mem_counter r = mem_counter(m, MEM_RESERVED_BYTES, MEM_ALL);

    *out = (struct mem_stats){
        .allocated = a.current, .requested = q.current,
        .reserved = r.current, .active = a.current,
        .allocated_peak = a.peak, .requested_peak = q.peak,
        .reserved_peak = r.peak, .active_peak = a.peak,
        .events = m->events, .fingerprint = m->fingerprint,
        .retries = m->retries, .ooms = m->ooms,
        .segment_gets = m->segment_gets, .segment_puts = m->segment_puts,
    };
}

void mem_mark_peak(struct mem *m)
{
    for (int s = 0; s < MEM_STAT_COUNT; s++) {
        for (int scope = 0; scope < MEM_SCOPE_COUNT; scope++) {
            struct tally *t = &m->tally[s][scope];
            if (t->peak > t->peak_before) t->peak_before = t->peak;
            t->peak = t->current;
        }
    }
    m->baseline.allocated = m->tally[MEM_ALLOCATED_BYTES][MEM_ALL].current;
    m->baseline.requested = m->tally[MEM_REQUESTED_BYTES][MEM_ALL].current;
    m->baseline.event = m->events;
    memcpy(m->baseline.by, m->by, sizeof m->by);
    m->highest = (struct highest){.open = true, .event = m->events,
                                  .tag = {CAT_OTHER, PHASE_NONE, -1, NULL}};
}

void mem_peak(const struct mem *m, struct mem_peak *out)
{
    const struct highest *h = &m->highest;
    const uint64_t *by = h->open ? m->by : h->by;
    int64_t rounding;

    out->allocated = m->tally[MEM_ALLOCATED_BYTES][MEM_ALL].peak
                   - m->baseline.allocated;
    out->requested = m->tally[MEM_REQUESTED_BYTES][MEM_ALL].peak
                   - m->baseline.requested;
    out->reserved = m->tally[MEM_RESERVED_BYTES][MEM_ALL].peak;
    out->event = h->event - m->baseline.event;
    out->tag = h->tag;
    rounding = (int64_t)out->allocated;
    for (int c = 0; c < CAT_COUNT; c++) {
        out->by[c] = (int64_t)(by[c] - m->baseline.by[c]);
        rounding -= out->by[c];
    }
    out->by[CAT_ROUNDING] = rounding;
}
