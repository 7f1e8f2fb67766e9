/* adopt.c - an allocator that starts in the middle, see state.h. */
#include <assert.h>

#include "mem/state.h"

/* The next block of the segment, from prev on. */
static struct mem_block *link_block(struct mem *m, struct mem_block *prev,
                                    uint64_t addr, uint64_t size, int pool)
{
    struct mem_block *b = block_take(&m->store);

    *b = (struct mem_block){.addr = addr, .size = size, .prev = prev,
                            .pool = (uint8_t)pool};
    if (prev != NULL) prev->next = b;
    return b;
}

/* Caches the free blocks once all are linked, so that it is known which are
** split. */
static void cache_free(struct mem *m, struct mem_block *first)
{
    for (struct mem_block *b = first; b != NULL; b = b->next) {
        if (b->state == BLOCK_LIVE) continue;
        if (block_is_split(b))
            mem_count_split(m, b->pool, 1, (int64_t)b->size);
        free_set_insert(&m->pool[b->pool], b);
    }
}

bool mem_adopt(struct mem *m, uint64_t addr, uint64_t bytes, bool small,
               const struct adopted *use, int64_t n,
               struct mem_block **blocks)
{
    struct mem_block *first = NULL, *last = NULL;
    uint64_t at = addr, end = addr + bytes;
    int pool = small ? 0 : 1;

    if (!block_reserve(&m->store, 2 * (size_t)n + 1)) return false;
    for (int64_t i = 0; i <= n; i++) {
        uint64_t next = i < n ? use[i].addr : end;

        assert(next >= at);
        if (next > at) last = link_block(m, last, at, next - at, pool);
        if (first == NULL) first = last;
        if (i == n) break;
        last = link_block(m, last, next, use[i].size, pool);
        if (first == NULL) first = last;
        last->state = BLOCK_LIVE;
        last->category = CAT_OTHER;
        last->layer = -1;
        last->u.live.requested = use[i].requested;
        mem_count_adopted(m, last);
        blocks[i] = last;
        at = next + use[i].size;
    }
    mem_count_segment(m, pool, addr, bytes, false);
    cache_free(m, first);
    return true;
}
