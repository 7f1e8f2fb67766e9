/* adopt.c - an allocator that starts in the middle, see state.h. */
#include <assert.h>

#include "mem/count.h"

/* The next block of the segment, from prev on. */
static struct mem_block *link_block(struct mem *m, struct mem_block *prev,
                                    uint64_t addr, uint64_t size, int pool)
{
    struct mem_block *b = block_take(&m->store);

    *b = (struct mem_block){.addr = addr, .size = size, .prev = prev,
                            .next = &m->edge, .pool = (uint8_t)pool};
    prev->next = b;
    return b;
}

/* A block in use. */
static struct mem_block *link_used(struct mem *m, struct mem_block *prev,
                                   const struct adopted *use, int pool)
{
    struct mem_block *b = link_block(m, prev, use->addr, use->size, pool);

    b->state = BLOCK_LIVE;
    b->u.live.requested = use->requested;
    b->u.live.tag = (struct mem_tag){CAT_OTHER, PHASE_NONE, -1, NULL};
    (void)count_live(m, b);
    return b;
}

/* Caches the free blocks once all are linked, so that it is known which are
** split. */
static void cache_free(struct mem *m, struct mem_block *last)
{
    for (struct mem_block *b = last; b->state != BLOCK_EDGE; b = b->prev) {
        if (b->state == BLOCK_LIVE || b->state == BLOCK_UNMAPPED) continue;
        if (m->config.counters && block_is_split(b))
            mem_counters_split(m, b->pool, 1, (int64_t)b->size);
        free_set_insert(&m->pool[b->pool], b);
    }
}

bool mem_adopt(struct mem *m, uint64_t addr, uint64_t bytes, bool small,
               const struct adopted *use, int64_t n,
               struct mem_block **blocks)
{
    struct mem_block *last = &m->edge;
    uint64_t at = addr, end = addr + bytes;
    int pool = small ? 0 : 1;

    assert(addr != 0 && addr % 512 == 0 && n >= 0);
    if (!block_reserve(&m->store, 2 * (size_t)n + 1)) return false;
    for (int64_t i = 0; i <= n; i++) {
        uint64_t next = i < n ? use[i].addr : end;

        assert(next >= at);
        if (next > at) last = link_block(m, last, at, next - at, pool);
        if (i == n) break;
        last = link_used(m, last, &use[i], pool);
        blocks[i] = last;
        at = next + use[i].size;
    }
    mem_count_segment(m, pool, addr, bytes, false);
    cache_free(m, last);
    return true;
}

/* One mapped piece and its blocks, after last. */
static struct mem_block *link_piece(struct mem *m, struct mem_block *last,
                                    const struct adopted_piece *p, int pool,
                                    const struct adopted *use,
                                    struct mem_block **blocks)
{
    uint64_t at = p->addr, end = p->addr + p->size;

    for (int64_t i = 0; i < p->n; i++) {
        if (use[i].addr > at)
            last = link_block(m, last, at, use[i].addr - at, pool);
        last = blocks[i] = link_used(m, last, &use[i], pool);
        at = use[i].addr + use[i].size;
    }
    if (end > at) last = link_block(m, last, at, end - at, pool);
    mem_count_mapped(m, pool, p->size, false);
    return last;
}

bool mem_adopt_range(struct mem *m, bool small, uint64_t base, uint64_t end,
                     const struct adopted_piece *piece, int64_t n_piece,
                     const struct adopted *use,
                     struct mem_block **blocks)
{
    struct mem_block *last = &m->edge;
    uint64_t at = base;
    size_t n = 2 * (size_t)n_piece + 2;
    int pool = small ? 0 : 1;

    assert(base <= end);
    for (int64_t i = 0; i < n_piece; i++) n += 2 * (size_t)piece[i].n;
    if (!block_reserve(&m->store, n)) return false;
    for (int64_t i = 0; i <= n_piece; i++) {
        uint64_t next = i < n_piece ? piece[i].addr : end;

        if (next > at) {
            last = link_block(m, last, at, next - at, pool);
            mem_unmapped_insert(m, last);
        }
        if (i == n_piece) break;
        last = link_piece(m, last, &piece[i], pool, use, blocks);
        use += piece[i].n;
        blocks += piece[i].n;
        at = piece[i].addr + piece[i].size;
    }
    for (struct mem_block *b = last; b->state != BLOCK_EDGE; b = b->prev)
        b->expandable = true;
    cache_free(m, last);
    return true;
}
