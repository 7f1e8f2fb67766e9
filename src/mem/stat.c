/* stat.c - segments' share of the statistics, marks and peaks, see mem.h */
#include "base/random.h"
#include "mem/count.h"

#include <assert.h>

static void count_reserved(struct mem *m, int pool, uint64_t bytes,
                           bool is_free)
{
    int64_t change = is_free ? -(int64_t)bytes : (int64_t)bytes;

    if (is_free)
        m->reserved.now -= bytes;
    else
        (void)level_raise(&m->reserved, bytes);
    if (m->config.counters) mem_counters_reserved(m, pool, change);
}

void mem_count_segment(struct mem *m, int pool, uint64_t addr, uint64_t bytes,
                       bool is_free)
{
    assert(pool == 0 || pool == 1);
    count_reserved(m, pool, bytes, is_free);
    if (m->config.counters) mem_counters_segment(m, pool, bytes, is_free);
    if (is_free)
        m->segment_puts++;
    else
        m->segment_gets++;
    if (m->segment_trace != NULL) mem_trace_segment(m, addr, bytes, is_free);
}

void mem_count_mapped(struct mem *m, int pool, uint64_t bytes, bool is_free)
{
    count_reserved(m, pool, bytes, is_free);
}

/* ---- the layout --------------------------------------------------------- */

static uint64_t block_layout(const struct mem_block *b)
{
    const struct mem_tag *t = &b->u.live.tag;
    uint64_t h = b->addr + b->size * 0x9e3779b97f4a7c15u + b->state;

    if (b->state == BLOCK_LIVE)
        h += b->u.live.requested * 0xc2b2ae3d27d4eb4fu
           + (uintptr_t)t->op * 0x165667b19e3779f9u
           + ((uint64_t)(uint16_t)t->layer << 48 |
              (uint64_t)t->category << 40 | (uint64_t)t->phase << 32);
    return random_mix(h);
}

/* A sum: records lie in any order. */
uint64_t mem_layout(const struct mem *m)
{
    uint64_t h = 0;

    for (const struct block_chunk *c = m->store.chunks; c; c = c->next)
        for (int i = 0; i < BLOCK_CHUNK; i++)
            if (c->block[i].state != BLOCK_UNUSED)
                h += block_layout(&c->block[i]);
    return h;
}

/* ---- reading ------------------------------------------------------------ */

void mem_stats(const struct mem *m, struct mem_stats *out)
{
    *out = (struct mem_stats){
        .allocated = m->allocated.now, .requested = m->requested.now,
        .reserved = m->reserved.now, .active = m->allocated.now,
        .allocated_peak = level_highest(&m->allocated),
        .requested_peak = level_highest(&m->requested),
        .reserved_peak = level_highest(&m->reserved),
        .active_peak = level_highest(&m->allocated),
        .events = m->events, .fingerprint = m->fingerprint,
        .decisions = m->decisions,
        .retries = m->retries, .ooms = m->ooms,
        .segment_gets = m->segment_gets, .segment_puts = m->segment_puts,
    };
}

void mem_mark_peak(struct mem *m)
{
    level_mark(&m->allocated);
    level_mark(&m->requested);
    level_mark(&m->reserved);
    if (m->config.counters) mem_counters_mark(m);
    m->baseline.allocated = m->allocated.now;
    m->baseline.requested = m->requested.now;
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

    out->allocated = m->allocated.peak - m->baseline.allocated;
    out->requested = m->requested.peak - m->baseline.requested;
    out->reserved = m->reserved.peak;
    out->event = h->event - m->baseline.event;
    out->tag = h->tag;
    rounding = (int64_t)out->allocated;
    for (int c = 0; c < CAT_COUNT; c++) {
        out->by[c] = (int64_t)(by[c] - m->baseline.by[c]);
        rounding -= out->by[c];
    }
    out->by[CAT_ROUNDING] = rounding;
}
