/*
** expand.c - expandable segments (allocator.md A.11), see state.h.
**
** Each pool has ranges of addresses, of which pages are mapped when they are
** needed. A range is tiled by blocks as a segment is; those without memory are
** BLOCK_UNMAPPED and stand in a list by address.
*/
#include <assert.h>

#include "mem/state.h"

#define MIN_BLOCK UINT64_C(512)
#define SMALL_PAGE (UINT64_C(2) << 20)

static uint64_t page_of(const struct mem *m, int pool)
{
    return pool == 0 ? SMALL_PAGE : m->config.large_segment_bytes;
}

/* ---- the list of unmapped blocks ---------------------------------------- */

void mem_unmapped_insert(struct mem *m, struct mem_block *b)
{
    struct mem_block **link = &m->unmapped[b->pool];

    b->state = BLOCK_UNMAPPED;
    while (*link != NULL && (*link)->addr < b->addr)
        link = &(*link)->u.set.right;
    b->u.set.right = *link;
    *link = b;
}

static void unmapped_remove(struct mem *m, const struct mem_block *b)
{
    struct mem_block **link = &m->unmapped[b->pool];

    while (*link != b) link = &(*link)->u.set.right;
    *link = b->u.set.right;
}

/* ---- blocks ------------------------------------------------------------- */

/* A block of its own from b's first bytes on; b keeps what is before. In no
** set or list. block_reserve has made sure of the record. */
static struct mem_block *cut(struct mem *m, struct mem_block *b,
                             uint64_t bytes)
{
    struct mem_block *r = block_take(&m->store);

    *r = (struct mem_block){.addr = b->addr + bytes, .size = b->size - bytes,
                            .prev = b, .next = b->next, .pool = b->pool,
                            .expandable = true};
    r->next->prev = r;
    b->next = r;
    b->size = bytes;
    return r;
}

/* Takes in the next block, which is in no set or list any more. */
static void absorb(struct mem *m, struct mem_block *b)
{
    struct mem_block *n = b->next;

    b->size += n->size;
    b->next = n->next;
    b->next->prev = b;
    block_drop(&m->store, n);
}

/* Joins b, in no set or list, with neighbours of its state, which leave theirs;
** the joined block is in none. */
static struct mem_block *join(struct mem *m, struct mem_block *b)
{
    bool mapped = b->state == BLOCK_FREE;

    if (b->prev->state == b->state) {
        b = b->prev;
        if (mapped)
            free_set_remove(&m->pool[b->pool], b);
        else
            unmapped_remove(m, b);
        absorb(m, b);
    }
    if (b->next->state == b->state) {
        if (mapped)
            free_set_remove(&m->pool[b->pool], b->next);
        else
            unmapped_remove(m, b->next);
        absorb(m, b);
    }
    return b;
}

/* Maps whole pages of an unmapped block, at least bytes of it, and joins them
** with what is cached beside them. NULL: the device is full. */
static struct mem_block *map(struct mem *m, struct mem_block *b,
                             uint64_t bytes, struct err *e, int *rc)
{
    uint64_t page = page_of(m, b->pool);

    bytes = (bytes + page - 1) / page * page;
    if (bytes > b->size) bytes = b->size;
    *rc = m->ranges->map(m->ranges->ctx, b->addr, bytes, e);
    if (*rc != ERR_OK) return NULL;
    unmapped_remove(m, b);
    if (bytes < b->size) mem_unmapped_insert(m, cut(m, b, bytes));
    b->state = BLOCK_FREE;
    mem_count_mapped(m, b->pool, bytes, false);
    b = join(m, b);
    free_set_insert(&m->pool[b->pool], b);
    return b;
}

static bool is_spare(const struct mem_block *b)
{
    return b->state == BLOCK_FREE || b->state == BLOCK_UNMAPPED;
}

/* Whether cached and unmapped blocks from b on hold size bytes. */
static bool has_room(const struct mem_block *b, uint64_t size)
{
    uint64_t bytes = 0;

    for (; is_spare(b) && bytes < size; b = b->next) bytes += b->size;
    return bytes >= size;
}

static int new_range(struct mem *m, int pool, struct mem_block **out,
                     struct err *e)
{
    uint64_t addr = 0, bytes = 0;
    struct mem_block *b;
    int rc = m->ranges->reserve(m->ranges->ctx, pool == 0, &addr, &bytes, e);

    if (rc != ERR_OK) return rc;
    b = block_take(&m->store);
    *b = (struct mem_block){.addr = addr, .size = bytes,
                            .prev = &m->edge, .next = &m->edge,
                            .pool = (uint8_t)pool, .expandable = true};
    mem_unmapped_insert(m, b);
    *out = b;
    return ERR_OK;
}

/* The first place by address where size bytes lie in a row, a cached block
** before it taken in; else a new range. */
static int find(struct mem *m, int pool, uint64_t size,
                struct mem_block **out, struct err *e)
{
    for (struct mem_block *b = m->unmapped[pool]; b != NULL;
         b = b->u.set.right) {
        struct mem_block *from = is_spare(b->prev) ? b->prev : b;

        if (!has_room(from, size)) continue;
        *out = from;
        return ERR_OK;
    }
    return new_range(m, pool, out, e);
}

int mem_expand(struct mem *m, uint64_t size, int pool, struct mem_block **out,
               struct err *e)
{
    struct mem_block *b = NULL;
    int rc = find(m, pool, size, &b, e);

    assert(m->ranges != NULL && (pool == 0 || pool == 1));
    if (rc != ERR_OK) return rc;
    if (b->state == BLOCK_UNMAPPED) {
        b = map(m, b, b->size < size ? b->size : size, e, &rc);
        if (b == NULL) return rc;
    }
    while (b->size < size) {
        uint64_t rest = size - b->size;
        struct mem_block *next = b->next;

        if (!block_reserve(&m->store, 2)) return err_nomem(e);
        b = map(m, next, next->size < rest ? next->size : rest, e, &rc);
        if (b == NULL) return rc;
    }
    free_set_remove(&m->pool[pool], b);
    *out = b;
    return ERR_OK;
}

/* ---- search and giving back --------------------------------------------- */

/* What a block could become where it lies. */
static uint64_t could_be(const struct mem_block *b)
{
    return b->size + (b->next->state == BLOCK_UNMAPPED ? b->next->size : 0);
}

struct mem_block *mem_expand_fit(struct mem *m, struct mem_block *b)
{
    struct free_set *set = &m->pool[b->pool];
    struct mem_block *next = free_set_next(set, b);

    while (b->expandable && next != NULL && could_be(next) < could_be(b)) {
        b = next;
        next = free_set_next(set, b);
    }
    return b;
}

/* Whole pages inside the block, as [*addr, *addr + bytes). Pages are counted
** from where the range begins. */
static uint64_t whole_pages(const struct mem *m, const struct mem_block *b,
                            uint64_t *addr)
{
    uint64_t page = page_of(m, b->pool), base, first, last;
    const struct mem_block *from = b;

    while (!block_is_first(from)) from = from->prev;
    base = from->addr;
    first = (b->addr - base + page - 1) / page * page;
    last = (b->addr + b->size - base) / page * page;
    *addr = base + first;
    return last > first ? last - first : 0;
}

bool mem_unmap_block(struct mem *m, struct mem_block *b)
{
    uint64_t addr, bytes = whole_pages(m, b, &addr);
    struct mem_block *rest;

    if (bytes == 0) return true;
    if (!block_reserve(&m->store, 2)) return false;
    free_set_remove(&m->pool[b->pool], b);
    if (addr > b->addr) {
        rest = b;
        b = cut(m, b, addr - b->addr);
        free_set_insert(&m->pool[rest->pool], rest);
    }
    if (b->size > bytes)
        free_set_insert(&m->pool[b->pool], cut(m, b, bytes));
    b->state = BLOCK_UNMAPPED;
    mem_count_mapped(m, b->pool, bytes, true);
    m->ranges->unmap(m->ranges->ctx, addr, bytes);
    mem_unmapped_insert(m, join(m, b));
    return true;
}

/* The cached block that holds addr; looks at all. */
static struct mem_block *find_cached(struct mem *m, uint64_t addr)
{
    for (int pool = 0; pool < 2; pool++) {
        struct mem_block *b = free_set_fit(&m->pool[pool], MIN_BLOCK);

        for (; b != NULL; b = free_set_next(&m->pool[pool], b))
            if (b->expandable && b->addr <= addr && addr - b->addr < b->size)
                return b;
    }
    return NULL;
}

bool mem_unmap_at(struct mem *m, uint64_t addr, uint64_t bytes)
{
    struct mem_block *b = find_cached(m, addr);
    uint64_t first;

    return b != NULL && whole_pages(m, b, &first) == bytes && first == addr
        && mem_unmap_block(m, b);
}
