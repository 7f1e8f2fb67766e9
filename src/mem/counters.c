/*
** counters.c - PyTorch's statistics of each pool (mem_counter), kept where
** config.counters asks for them.
*/
#include <assert.h>

#include "mem/count.h"

static void tally_add(struct tally *t, uint64_t n)
{
    (void)level_raise(&t->level, n);
    t->added += n;
}

/* A change of either sign is one step: torch does not see the merging of two
** blocks as a dip and a rise. */
static void change(struct mem *m, enum mem_stat s, int pool, int64_t n)
{
    struct tally *all = &m->tally[s][MEM_ALL];
    struct tally *own = &m->tally[s][MEM_SMALL + pool];

    if (n > 0) {
        tally_add(own, (uint64_t)n);
        tally_add(all, (uint64_t)n);
    } else {
        own->level.now -= (uint64_t)-n;
        all->level.now -= (uint64_t)-n;
    }
}

void mem_counters_live(struct mem *m, const struct mem_block *b, int sign)
{
    change(m, MEM_ALLOCATION, b->pool, sign);
    change(m, MEM_REQUESTED_BYTES, b->pool,
           sign * (int64_t)b->u.live.requested);
    change(m, MEM_ALLOCATED_BYTES, b->pool, sign * (int64_t)b->size);
    if (b->size >= m->config.max_split_bytes)
        change(m, MEM_OVERSIZE_ALLOCATION, b->pool, sign);
}

void mem_counters_segment(struct mem *m, int pool, uint64_t bytes,
                          bool is_free)
{
    int sign = is_free ? -1 : 1;

    change(m, MEM_SEGMENT, pool, sign);
    if (bytes >= m->config.max_split_bytes)
        change(m, MEM_OVERSIZE_SEGMENT, pool, sign);
}

void mem_counters_reserved(struct mem *m, int pool, int64_t bytes)
{
    change(m, MEM_RESERVED_BYTES, pool, bytes);
}

void mem_counters_split(struct mem *m, int pool, int64_t n, int64_t bytes)
{
    change(m, MEM_INACTIVE_SPLIT, pool, n);
    change(m, MEM_INACTIVE_SPLIT_BYTES, pool, bytes);
}

void mem_counters_merge(struct mem *m, const struct mem_block *b)
{
    const struct mem_block *prev = b->prev, *next = b->next;
    int64_t n = 0, bytes = 0, size = (int64_t)b->size;

    if (b->expandable) return;
    if (prev->state == BLOCK_FREE) {
        n--;
        bytes -= (int64_t)prev->size;
        size += (int64_t)prev->size;
        prev = prev->prev;
    }
    if (next->state == BLOCK_FREE) {
        n--;
        bytes -= (int64_t)next->size;
        size += (int64_t)next->size;
        next = next->next;
    }
    if (prev->state != BLOCK_EDGE || next->state != BLOCK_EDGE) {
        n++;
        bytes += size;
    }
    mem_counters_split(m, b->pool, n, bytes);
}

void mem_counters_mark(struct mem *m)
{
    for (int s = 0; s < MEM_STAT_COUNT; s++)
        for (int scope = 0; scope < MEM_SCOPE_COUNT; scope++)
            level_mark(&m->tally[s][scope].level);
}

struct mem_counter mem_counter(const struct mem *m, enum mem_stat s,
                               enum mem_scope scope)
{
    const struct tally *t = &m->tally[s][scope];

    assert(m->config.counters);
    return (struct mem_counter){t->level.now, level_highest(&t->level),
                                t->added, t->added - t->level.now};
}
