/*
** test_mem_oracle.c - the allocator against a plain one that scans a list.
**
** Both see the same random requests over sources that give out the same
** addresses, in no order. After every request the results, the calls to the
** source, all counters, the peak and its categories are compared. The seed
** is printed; PEAKPROOF_SEED replays it.
*/
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mem/mem.h"

#define MIB (UINT64_C(1) << 20)

enum { MAX_BLOCKS = 4096, MAX_LIVE = 160, EVENTS = 2500, ROUNDS = 4 };

static uint64_t rng_state;

static uint64_t rng(void)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state;
}

static uint64_t below(uint64_t n)
{
    return rng() % n;
}

/* ---- a source of scattered addresses that keeps a sum of its calls ------- */

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

/* ---- the plain allocator -------------------------------------------------- */

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

/* The whole free segment of the pool that comes first (or last) by size and
** address among those of least..most bytes; p->n: none. */
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
    assert_true(p->n + 2 < MAX_BLOCKS);
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

    if (!ok && plain_put_oversize(p, pool, want))
        ok = plain_get(p, pool, want, &i);
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

/* ---- comparison ----------------------------------------------------------- */

static void same_counters(const struct plain *p, const struct mem *m)
{
    for (int s = 0; s < MEM_STAT_COUNT; s++) {
        for (int k = 0; k < MEM_SCOPE_COUNT; k++) {
            const struct plain_counter *t = &p->stat[s][k];
            struct mem_counter c = mem_counter(m, (enum mem_stat)s,
                                               (enum mem_scope)k);

            assert_int_equal(c.current, t->current);
            assert_int_equal(c.peak,
                             t->peak > t->before ? t->peak : t->before);
            assert_int_equal(c.added, t->added);
            assert_int_equal(c.removed, t->added - t->current);
        }
    }
}

static void same_peak(const struct plain *p, const struct mem *m)
{
    struct mem_peak k;
    int64_t sum = 0;

    mem_peak(m, &k);
    assert_int_equal(k.allocated, p->stat[MEM_ALLOCATED_BYTES][MEM_ALL].peak
                                  - p->mark_allocated);
    assert_int_equal(k.requested, p->stat[MEM_REQUESTED_BYTES][MEM_ALL].peak
                                  - p->mark_requested);
    assert_int_equal(k.reserved, p->stat[MEM_RESERVED_BYTES][MEM_ALL].peak);
    assert_int_equal(k.event, p->peak_event);
    if (p->peak_seen)
        assert_int_equal(k.tag.category, p->peak_category);
    else
        assert_null(k.tag.op);
    for (int c = 0; c < CAT_COUNT; c++) {
        sum += k.by[c];
        if (c != CAT_ROUNDING)
            assert_int_equal(k.by[c],
                             (int64_t)(p->by_peak[c] - p->by_mark[c]));
    }
    assert_int_equal(sum, (int64_t)k.allocated);
}

static void same_state(const struct plain *p, const struct mem *m,
                       const struct source *s)
{
    struct mem_stats t;

    mem_stats(m, &t);
    assert_int_equal(s->log, p->source.log);
    assert_int_equal(t.events, p->events);
    assert_int_equal(t.ooms, p->ooms);
    assert_int_equal(t.retries, p->retries);
    same_counters(p, m);
    same_peak(p, m);
}

/* ---- random requests ------------------------------------------------------- */

/* Small ones, large-pool ones below 10 MiB, own segments, and sizes beside
** every border. */
static uint64_t random_bytes(void)
{
    static const uint64_t border[] = {
        1, 512, 1024, MIB, 2 * MIB, 10 * MIB, 20 * MIB, 32 * MIB, 64 * MIB
    };

    switch (below(5)) {
    case 0: return 1 + below(4096);
    case 1: return 1 + below(MIB);
    case 2: return MIB + below(9 * MIB);
    case 3: return 1 + below(UINT64_C(1) << (20 + below(8)));
    default: return border[below(9)] + below(3) * 256;
    }
}

struct live { struct mem_block *b; uint64_t addr; };

static void one_alloc(struct plain *p, struct mem *m, struct live *live,
                      size_t *n)
{
    uint64_t bytes = random_bytes(), addr = 0, size = 0;
    uint8_t category = (uint8_t)below(CAT_ROUNDING);
    struct mem_tag tag = {category, PHASE_FORWARD, 1, "op"};
    struct mem_block *b = NULL;
    struct err e;
    int want = plain_alloc(p, bytes, category, &addr, &size);
    int got = mem_alloc(m, bytes, tag, &b, &e);

    assert_int_equal(got, want);
    if (got != ERR_OK) return;
    assert_int_equal(mem_addr(b), addr);
    assert_int_equal(mem_block_bytes(b), size);
    assert_int_equal(mem_requested(b), bytes);
    live[(*n)++] = (struct live){b, addr};
}

static void one_event(struct plain *p, struct mem *m, struct live *live,
                      size_t *n, size_t most)
{
    uint64_t dice = below(1000);

    if (dice == 0) {
        plain_mark(p);
        mem_mark_peak(m);
    } else if (dice == 1) {
        plain_empty(p);
        mem_empty_cache(m);
    } else if (*n < most && (*n == 0 || dice < 540)) {
        one_alloc(p, m, live, n);
    } else {
        size_t i = (size_t)below(*n);

        plain_free(p, live[i].addr);
        mem_release(m, live[i].b);
        live[i] = live[--*n];
    }
}

static void compare(const struct mem_config *c, uint64_t device, size_t most)
{
    static struct plain plain;
    struct plain *p = &plain;
    struct source s = {.limit = device};
    struct mem_source src = {&s, source_get, source_put};
    struct live live[MAX_LIVE];
    size_t n = 0;
    struct mem *m;
    struct err e;

    memset(p, 0, sizeof *p);
    p->c = *c;
    p->source.limit = device;
    assert_int_equal(mem_new(c, src, &m, &e), ERR_OK);
    for (int i = 0; i < EVENTS; i++) {
        one_event(p, m, live, &n, most);
        same_state(p, m, &s);
    }
    mem_free_all(m);
    assert_int_equal(s.used, 0);
}

static uint64_t first_seed(void)
{
    const char *s = getenv("PEAKPROOF_SEED");

    return s != NULL ? strtoull(s, NULL, 10) : 1;
}

static void rounds(const struct mem_config *c, uint64_t device)
{
    uint64_t seed = first_seed();

    for (uint64_t r = 0; r < ROUNDS; r++, seed++) {
        printf("PEAKPROOF_SEED=%" PRIu64 "\n", seed);
        rng_state = seed * 0x9e3779b97f4a7c15u + 1;
        compare(c, device, r % 2 == 0 ? MAX_LIVE : 20);
    }
}

static void test_defaults(void **state)
{
    (void)state;
    rounds(&(struct mem_config){0}, 0);
}

static void test_traced(void **state)
{
    (void)state;
    rounds(&(struct mem_config){.trace = true}, 0);
}

static void test_limit(void **state)
{
    (void)state;
    rounds(&(struct mem_config){.limit_bytes = 700 * MIB}, 0);
}

static void test_device_full(void **state)
{
    (void)state;
    rounds(&(struct mem_config){0}, 500 * MIB + 512);
}

static void test_max_split(void **state)
{
    (void)state;
    rounds(&(struct mem_config){.max_split_bytes = 32 * MIB}, 0);
}

static void test_max_split_full(void **state)
{
    (void)state;
    rounds(&(struct mem_config){.max_split_bytes = 20 * MIB,
                                .max_non_split_rounding = 24 * MIB},
           600 * MIB);
}

static void test_large_segments(void **state)
{
    (void)state;
    rounds(&(struct mem_config){.large_segment_bytes = 64 * MIB + 512,
                                .max_split_bytes = 21 * MIB},
           900 * MIB);
}

static void test_divisions(void **state)
{
    struct mem_config c = {0};

    (void)state;
    for (int i = 0; i < 16; i++)
        c.roundup_divisions[i] = (uint32_t[]){8, 4, 0, 1, 2, 64}[i % 6];
    rounds(&c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_traced),
        cmocka_unit_test(test_limit),
        cmocka_unit_test(test_device_full),
        cmocka_unit_test(test_max_split),
        cmocka_unit_test(test_max_split_full),
        cmocka_unit_test(test_large_segments),
        cmocka_unit_test(test_divisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
