/*
** snapshot_plain.h - PyTorch's allocator written plainly, one list of blocks
** scanned for everything, which records what it does as PyTorch does: for
** test_snapshot_walk.c. Streams, record_stream and expandable segments too.
*/
#ifndef TESTS_UNIT_SNAPSHOT_PLAIN_H
#define TESTS_UNIT_SNAPSHOT_PLAIN_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "snapshot/walk.h"

#define MIB (UINT64_C(1) << 20)
#define RANGE (UINT64_C(1) << 40)

enum { BLOCKS = 2000 };

struct plain_block {
    uint64_t addr, size, requested;
    int segment;            /* blocks of one are neighbours */
    int lane, pool;
    bool live, pending, mapped, expandable;
};

struct plain {
    struct mem_config c;
    struct plain_block b[BLOCKS];   /* by address */
    int n, segments;
    uint64_t next;          /* address of the next segment */
    struct snapshot_event *event;
    struct replay_bytes *now;       /* after each event */
    int64_t n_event, cap;
};

static inline void plain_event(struct plain *p, enum snapshot_action action,
                        uint64_t addr, uint64_t bytes, int lane)
{
    struct replay_bytes sum = {0, 0, 0, 0};

    if (p->n_event == p->cap) {
        p->cap = p->cap > 0 ? 2 * p->cap : 1024;
        p->event = realloc(p->event, (size_t)p->cap * sizeof *p->event);
        p->now = realloc(p->now, (size_t)p->cap * sizeof *p->now);
        assert(p->event != NULL && p->now != NULL);
    }
    for (int i = 0; i < p->n; i++) {
        const struct plain_block *b = &p->b[i];

        if (b->mapped) sum.reserved += b->size;
        if (!b->live) continue;
        sum.active += b->size;
        sum.requested += b->requested;
        if (!b->pending) sum.allocated += b->size;
    }
    p->now[p->n_event] = sum;
    p->event[p->n_event++] = (struct snapshot_event){
        .addr = addr, .bytes = bytes, .lane = (uint16_t)lane,
        .action = (uint8_t)action};
}

static inline uint64_t plain_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

static inline uint64_t plain_round(const struct plain *p, uint64_t n)
{
    uint64_t f = 1, d;
    int log2 = 0;

    for (; f * 2 <= n; f *= 2) log2++;
    d = p->c.roundup_divisions[log2 < 20 ? 0 : log2 > 35 ? 15 : log2 - 20];
    return d > 1 && n > 512 * d ? plain_up(n, f / d) : plain_up(n, 512);
}

static inline uint64_t plain_page(const struct plain *p, int pool)
{
    return pool == 0 ? 2 * MIB
         : p->c.large_segment_bytes ? p->c.large_segment_bytes : 20 * MIB;
}

static inline bool beside(const struct plain *p, int i, int k)
{
    return k >= 0 && k < p->n && p->b[i].segment == p->b[k].segment;
}

static inline int plain_insert(struct plain *p, struct plain_block b)
{
    int i = p->n;

    assert(p->n < BLOCKS);
    for (; i > 0 && p->b[i - 1].addr > b.addr; i--) p->b[i] = p->b[i - 1];
    p->b[i] = b;
    p->n++;
    return i;
}

static inline void plain_remove(struct plain *p, int i)
{
    p->n--;
    memmove(&p->b[i], &p->b[i + 1], (size_t)(p->n - i) * sizeof *p->b);
}

/* The first bytes stay; the rest is a block of its own. */
static inline void plain_cut(struct plain *p, int i, uint64_t bytes)
{
    struct plain_block rest = p->b[i];

    rest.addr += bytes;
    rest.size -= bytes;
    rest.live = rest.pending = false;
    p->b[i].size = bytes;
    plain_insert(p, rest);
}

static inline bool same_kind(const struct plain *p, int i, int k)
{
    return beside(p, i, k) && !p->b[i].live && !p->b[k].live
        && p->b[i].mapped == p->b[k].mapped;
}

static inline int plain_join(struct plain *p, int i)
{
    if (same_kind(p, i, i + 1)) {
        p->b[i].size += p->b[i + 1].size;
        plain_remove(p, i + 1);
    }
    if (!same_kind(p, i, i - 1)) return i;
    p->b[i - 1].size += p->b[i].size;
    plain_remove(p, i);
    return i - 1;
}

/* The cached block after (size, addr) by size and address; -1: none. */
static inline int plain_next(const struct plain *p, int lane, int pool,
                      uint64_t size, uint64_t addr)
{
    int best = -1;

    for (int i = 0; i < p->n; i++) {
        const struct plain_block *b = &p->b[i], *t = &p->b[best < 0 ? 0
                                                                    : best];

        if (b->live || !b->mapped || b->lane != lane || b->pool != pool)
            continue;
        if (b->size < size || (b->size == size && b->addr < addr)) continue;
        if (best < 0 || b->size < t->size
            || (b->size == t->size && b->addr < t->addr))
            best = i;
    }
    return best;
}

static inline uint64_t could_be(const struct plain *p, int i)
{
    return p->b[i].size + (beside(p, i, i + 1) && !p->b[i + 1].mapped
                           ? p->b[i + 1].size : 0);
}

static inline int plain_fit(const struct plain *p, int lane, int pool,
                            uint64_t size)
{
    uint64_t max = p->c.max_split_bytes ? p->c.max_split_bytes : UINT64_MAX;
    int i = plain_next(p, lane, pool, size, 0);

    while (i >= 0 && p->c.expandable && p->b[i].expandable) {
        int k = plain_next(p, lane, pool, p->b[i].size, p->b[i].addr + 1);

        if (k < 0 || could_be(p, k) >= could_be(p, i)) break;
        i = k;
    }
    if (i < 0) return -1;
    if (size < max && p->b[i].size >= max) return -1;
    if (size >= max && p->b[i].size >= size + 20 * MIB) return -1;
    return i;
}

static inline int plain_segment(struct plain *p, int lane, int pool,
                                uint64_t size)
{
    uint64_t bytes = pool == 0 ? 2 * MIB
                   : size < 10 * MIB ? plain_page(p, 1)
                   : plain_up(size, 2 * MIB);
    int i = plain_insert(p, (struct plain_block){
        .addr = p->next, .size = bytes, .segment = p->segments++,
        .lane = lane, .pool = pool, .mapped = true});

    p->next += plain_up(bytes, 2 * MIB) + 2 * MIB;
    plain_event(p, SNAPSHOT_SEGMENT_ALLOC, p->b[i].addr, bytes, lane);
    return i;
}

static inline int plain_map(struct plain *p, int i, uint64_t bytes)
{
    struct plain_block *b = &p->b[i];
    uint64_t addr = b->addr;
    int lane = b->lane;

    bytes = plain_up(bytes < b->size ? bytes : b->size,
                     plain_page(p, b->pool));
    assert(bytes <= b->size);
    if (bytes < b->size) plain_cut(p, i, bytes);
    p->b[i].mapped = true;
    i = plain_join(p, i);
    plain_event(p, SNAPSHOT_SEGMENT_MAP, addr, bytes, lane);
    return i;
}

/* Where size bytes lie in a row that are not in use. */
static inline int plain_place(struct plain *p, int lane, int pool,
                              uint64_t size)
{
    for (int i = 0; i < p->n; i++) {
        uint64_t bytes = 0;
        int from = i;

        if (p->b[i].mapped || p->b[i].lane != lane || p->b[i].pool != pool)
            continue;
        if (beside(p, i, i - 1) && !p->b[i - 1].live) from = i - 1;
        for (int k = from; beside(p, i, k) && !p->b[k].live; k++)
            bytes += p->b[k].size;
        if (bytes >= size) return from;
    }
    p->next = plain_up(p->next, RANGE) + RANGE;
    return plain_insert(p, (struct plain_block){
        .addr = p->next - RANGE, .size = RANGE, .segment = p->segments++,
        .lane = lane, .pool = pool, .expandable = true});
}

static inline int plain_expand(struct plain *p, int lane, int pool,
                               uint64_t size)
{
    int i = plain_place(p, lane, pool, size);

    if (!p->b[i].mapped) i = plain_map(p, i, size);
    while (p->b[i].size < size) {
        uint64_t rest = size - p->b[i].size;

        i = plain_map(p, i + 1, rest);
    }
    return i;
}

static inline uint64_t plain_alloc(struct plain *p, uint64_t bytes, int lane)
{
    uint64_t size = plain_round(p, bytes), rest;
    int pool = size <= MIB ? 0 : 1;
    int i = plain_fit(p, lane, pool, size);

    if (i < 0)
        i = p->c.expandable ? plain_expand(p, lane, pool, size)
                            : plain_segment(p, lane, pool, size);
    rest = p->b[i].size - size;
    if (pool == 0 || p->c.expandable
            ? rest >= 512
            : rest > MIB && (p->c.max_split_bytes == 0
                             || size < p->c.max_split_bytes))
        plain_cut(p, i, size);
    p->b[i].live = true;
    p->b[i].pending = false;
    p->b[i].requested = bytes;
    plain_event(p, SNAPSHOT_ALLOC, p->b[i].addr, bytes, lane);
    return p->b[i].addr;
}

static inline int plain_find(const struct plain *p, uint64_t addr)
{
    int i = 0;

    while (p->b[i].addr != addr) i++;
    return i;
}

static inline void plain_request(struct plain *p, uint64_t addr)
{
    struct plain_block *b = &p->b[plain_find(p, addr)];

    b->pending = true;
    plain_event(p, SNAPSHOT_FREE_REQUESTED, addr, b->requested, b->lane);
}

static inline void plain_complete(struct plain *p, uint64_t addr)
{
    int i = plain_find(p, addr), lane = p->b[i].lane;
    uint64_t bytes = p->b[i].requested;

    p->b[i].live = p->b[i].pending = false;
    plain_join(p, i);
    plain_event(p, SNAPSHOT_FREE_COMPLETED, addr, bytes, lane);
}

/* Gives back one whole segment, or the whole pages of a cached block; false:
** there is none. */
static inline bool plain_give_back(struct plain *p)
{
    for (int i = 0; i < p->n; i++) {
        struct plain_block b = p->b[i];
        uint64_t page = plain_page(p, b.pool), base, first, last;
        int from = i;

        if (b.live || !b.mapped) continue;
        if (!b.expandable) {
            if (beside(p, i, i - 1) || beside(p, i, i + 1)) continue;
            plain_remove(p, i);
            plain_event(p, SNAPSHOT_SEGMENT_FREE, b.addr, b.size, b.lane);
            return true;
        }
        while (beside(p, i, from - 1)) from--;
        base = p->b[from].addr;
        first = plain_up(b.addr - base, page) + base;
        last = (b.addr + b.size - base) / page * page + base;
        if (last <= first) continue;
        if (first > b.addr) plain_cut(p, i++, first - b.addr);
        if (p->b[i].size > last - first) plain_cut(p, i, last - first);
        p->b[i].mapped = false;
        plain_join(p, i);
        plain_event(p, SNAPSHOT_SEGMENT_UNMAP, first, last - first, b.lane);
        return true;
    }
    return false;
}

#endif
