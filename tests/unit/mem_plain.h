/*
** mem_plain.h - the allocator's rules once more, written plainly: one list of
** blocks, scanned and counted afresh for everything. For test_mem_oracle.c.
*/
#ifndef TESTS_UNIT_MEM_PLAIN_H
#define TESTS_UNIT_MEM_PLAIN_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "mem/mem.h"

#define MIB (UINT64_C(1) << 20)

enum { MAX_BLOCKS = 4096 };

/* ---- a source of scattered addresses that keeps a sum of its calls ------ */

struct source {
    uint64_t gets, used, limit;
    uint64_t log;               /* of all calls and their order */
};

static void note(struct source *s, uint64_t x)
{
    s->log = (s->log ^ x) * 0x100000001b3u;
    s->log ^= s->log >> 29;
}

static int source_get(void *ctx, uint64_t bytes, uint64_t *addr,
                      struct err *e)
{
    struct source *s = ctx;

    if (s->limit != 0 && bytes > s->limit - s->used)
        return err_set(e, ERR_OOM, "full");
    *addr = (s->gets++ * 7919 % 65521 + 1) << 40;
    s->used += bytes;
    note(s, *addr);
    note(s, bytes);
    return ERR_OK;
}

static void source_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    struct source *s = ctx;

    s->used -= bytes;
    note(s, addr + 1);
    note(s, bytes);
}

/* ---- the plain allocator ------------------------------------------------ */

struct plain_block {
    uint64_t addr, size, requested;
    uint64_t segment;           /* address of its segment */
    int pool;
    bool live;
    uint8_t category;
};

struct plain_counter { uint64_t current, peak, before, added; };

struct plain {
    struct plain_block block[MAX_BLOCKS];   /* segments apart, each in order */
    size_t n;
    struct mem_config c;
    struct source source;
    struct plain_counter stat[MEM_STAT_COUNT][MEM_SCOPE_COUNT];
    uint64_t by[CAT_COUNT], by_peak[CAT_COUNT], by_mark[CAT_COUNT];
    uint64_t mark_allocated, mark_requested;
    uint64_t events, mark_event, peak_event, ooms, retries;
    uint64_t oversize;          /* successes of plain_put_oversize */
    uint8_t peak_category;
    bool peak_seen;
};

static uint64_t unlimited(uint64_t n)
{
    return n != 0 ? n : UINT64_MAX;
}

static bool same_segment(const struct plain *p, size_t i, size_t j)
{
    return j < p->n && p->block[i].segment == p->block[j].segment;
}

static bool has_neighbour(const struct plain *p, size_t i)
{
    return (i > 0 && same_segment(p, i, i - 1)) || same_segment(p, i, i + 1);
}

static void gauge(uint64_t now[][MEM_SCOPE_COUNT], enum mem_stat s, int pool,
                  uint64_t n)
{
    now[s][MEM_ALL] += n;
    now[s][pool == 0 ? MEM_SMALL : MEM_LARGE] += n;
}

static void gauge_block(const struct plain *p, size_t i,
                        uint64_t now[][MEM_SCOPE_COUNT])
{
    const struct plain_block *b = &p->block[i];
    bool oversize = b->size >= unlimited(p->c.max_split_bytes);

    gauge(now, MEM_RESERVED_BYTES, b->pool, b->size);
    if (b->live) {
        gauge(now, MEM_ALLOCATION, b->pool, 1);
        gauge(now, MEM_ALLOCATED_BYTES, b->pool, b->size);
        gauge(now, MEM_REQUESTED_BYTES, b->pool, b->requested);
        gauge(now, MEM_OVERSIZE_ALLOCATION, b->pool, oversize);
    } else if (has_neighbour(p, i)) {
        gauge(now, MEM_INACTIVE_SPLIT, b->pool, 1);
        gauge(now, MEM_INACTIVE_SPLIT_BYTES, b->pool, b->size);
    }
    if (i == 0 || !same_segment(p, i, i - 1)) {
        uint64_t bytes = 0;

        for (size_t j = i; same_segment(p, i, j); j++)
            bytes += p->block[j].size;
        gauge(now, MEM_SEGMENT, b->pool, 1);
        gauge(now, MEM_OVERSIZE_SEGMENT, b->pool,
              bytes >= unlimited(p->c.max_split_bytes));
    }
}

/* Counts everything afresh after a step and moves the counters there. */
static void settle(struct plain *p, uint8_t category)
{
    uint64_t now[MEM_STAT_COUNT][MEM_SCOPE_COUNT] = {{0}};
    uint64_t peak = p->stat[MEM_ALLOCATED_BYTES][MEM_ALL].peak;

    memset(p->by, 0, sizeof p->by);
    for (size_t i = 0; i < p->n; i++) {
        gauge_block(p, i, now);
        if (p->block[i].live)
            p->by[p->block[i].category] += p->block[i].requested;
    }
    for (int s = 0; s < MEM_STAT_COUNT; s++) {
        for (int k = 0; k < MEM_SCOPE_COUNT; k++) {
            struct plain_counter *t = &p->stat[s][k];

            if (now[s][k] > t->current) t->added += now[s][k] - t->current;
            t->current = now[s][k];
            if (t->current > t->peak) t->peak = t->current;
        }
    }
    if (p->stat[MEM_ALLOCATED_BYTES][MEM_ALL].current > peak) {
        memcpy(p->by_peak, p->by, sizeof p->by);
        p->peak_event = p->events - p->mark_event;
        p->peak_category = category;
        p->peak_seen = true;
    }
}

static void plain_mark(struct plain *p)
{
    for (int s = 0; s < MEM_STAT_COUNT; s++) {
        for (int k = 0; k < MEM_SCOPE_COUNT; k++) {
            struct plain_counter *t = &p->stat[s][k];

            if (t->peak > t->before) t->before = t->peak;
            t->peak = t->current;
        }
    }
    memcpy(p->by_peak, p->by, sizeof p->by);
    memcpy(p->by_mark, p->by, sizeof p->by);
    p->mark_allocated = p->stat[MEM_ALLOCATED_BYTES][MEM_ALL].current;
    p->mark_requested = p->stat[MEM_REQUESTED_BYTES][MEM_ALL].current;
    p->mark_event = p->events;
    p->peak_event = 0;
    p->peak_seen = false;
}

/* Power-of-two divisions by trying: the least f * (d + i) / d that holds n. */
static uint64_t plain_round(const struct plain *p, uint64_t n)
{
    uint64_t f = 1, d, i;
    int log2 = 0;

    while (f * 2 <= n) {
        f *= 2;
        log2++;
    }
    d = p->c.roundup_divisions[log2 < 20 ? 0 : log2 > 35 ? 15 : log2 - 20];
    if (d > 1 && n > 512 * d) {
        for (i = 0; f + f / d * i < n;) i++;
        return f + f / d * i;
    }
    for (i = 1; 512 * i < n;) i += n > 1024 * i ? i : 1;
    while (512 * (i - 1) >= n && i > 1) i--;
    return 512 * i;
}

static void drop_block(struct plain *p, size_t i)
{
    memmove(&p->block[i], &p->block[i + 1],
            (p->n - i - 1) * sizeof *p->block);
    p->n--;
}

static void plain_put(struct plain *p, size_t i)
{
    source_put(&p->source, p->block[i].addr, p->block[i].size);
    drop_block(p, i);
    settle(p, 0);
}

/* The free block of the pool, of least bytes or more (whole: a segment), that
** comes first (last) by size and address; p->n: none. */
static size_t pick(const struct plain *p, int pool, uint64_t least,
                   bool whole, bool last)
{
    size_t best = p->n;

    for (size_t i = 0; i < p->n; i++) {
        const struct plain_block *b = &p->block[i], *t = &p->block[best];
        bool less;

        if (b->live || b->pool != pool || b->size < least) continue;
        if (whole && has_neighbour(p, i)) continue;
        less = best == p->n || b->size < t->size
            || (b->size == t->size && b->addr < t->addr);
        if (best == p->n || less != last) best = i;
    }
    return best;
}

static void plain_empty(struct plain *p)
{
    for (int pool = 1; pool >= 0; pool--) {
        size_t i;

        while ((i = pick(p, pool, 0, true, false)) < p->n) plain_put(p, i);
    }
}

static bool plain_put_oversize(struct plain *p, int pool, uint64_t size)
{
    uint64_t least = p->c.max_split_bytes, freed = 0;
    uint64_t wanted = size > least ? size : least;
    size_t i;

    if (least == 0) return false;
    i = pick(p, pool, wanted, true, false);
    if (i < p->n) {
        plain_put(p, i);
        return true;
    }
    while (freed < wanted && (i = pick(p, pool, least, true, true)) < p->n) {
        freed += p->block[i].size;
        plain_put(p, i);
    }
    return freed >= wanted;
}

static bool plain_get(struct plain *p, int pool, uint64_t size, size_t *out)
{
    uint64_t large = p->c.large_segment_bytes ? p->c.large_segment_bytes
                                              : 20 * MIB;
    uint64_t bytes = pool == 0 ? 2 * MIB : size < 10 * MIB ? large
                   : (size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
    uint64_t addr;

    if (p->c.limit_bytes != 0
        && p->stat[MEM_RESERVED_BYTES][MEM_ALL].current + bytes
               > p->c.limit_bytes)
        return false;
    if (source_get(&p->source, bytes, &addr, NULL) != ERR_OK) return false;
    assert(p->n + 2 < MAX_BLOCKS);
    *out = p->n;
    p->block[p->n++] = (struct plain_block){addr, bytes, 0, addr, pool, false,
                                            0};
    settle(p, 0);
    return true;
}

static bool plain_find(struct plain *p, int pool, uint64_t size, size_t *out)
{
    uint64_t max = unlimited(p->c.max_split_bytes);
    uint64_t slack = p->c.max_non_split_rounding
                   ? p->c.max_non_split_rounding : 20 * MIB;
    size_t i = pick(p, pool, size, false, false);

    if (i == p->n) return false;
    if (size < max && p->block[i].size >= max) return false;
    if (size >= max && p->block[i].size >= size + slack) return false;
    *out = i;
    return true;
}

static void plain_split(struct plain *p, size_t i, uint64_t size)
{
    struct plain_block *b = &p->block[i];
    uint64_t rest = b->size - size;
    bool split = b->pool == 0 ? rest >= 512
               : size < unlimited(p->c.max_split_bytes) && rest > MIB;

    if (!split) return;
    memmove(b + 1, b, (p->n - i) * sizeof *b);
    p->n++;
    b[1].addr += size;
    b[1].size = rest;
    b->size = size;
}

static int plain_alloc(struct plain *p, uint64_t bytes, uint8_t category,
                       uint64_t *addr, uint64_t *size)
{
    uint64_t want = plain_round(p, bytes);
    int pool = want <= MIB ? 0 : 1;
    size_t i = 0;
    bool ok = plain_find(p, pool, want, &i) || plain_get(p, pool, want, &i);

    if (!ok && plain_put_oversize(p, pool, want)) {
        p->oversize++;
        ok = plain_get(p, pool, want, &i);
    }
    if (!ok) {
        plain_empty(p);
        p->retries++;
        ok = plain_get(p, pool, want, &i);
    }
    if (!ok) {
        p->ooms++;
        return ERR_OOM;
    }
    plain_split(p, i, want);
    p->block[i].live = true;
    p->block[i].requested = bytes;
    p->block[i].category = category;
    *addr = p->block[i].addr;
    *size = p->block[i].size;
    settle(p, category);
    p->events++;
    return ERR_OK;
}

static void plain_free(struct plain *p, uint64_t addr)
{
    size_t i = 0;

    while (p->block[i].addr != addr || !p->block[i].live) i++;
    p->block[i].live = false;
    if (same_segment(p, i, i + 1) && !p->block[i + 1].live) {
        p->block[i].size += p->block[i + 1].size;
        drop_block(p, i + 1);
    }
    if (i > 0 && same_segment(p, i, i - 1) && !p->block[i - 1].live) {
        p->block[i - 1].size += p->block[i].size;
        drop_block(p, i);
    }
    settle(p, 0);
    p->events++;
}

#endif
