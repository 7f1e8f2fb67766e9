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

#include "mem_plain.h"

enum { MAX_LIVE = 160, EVENTS = 2500, ROUNDS = 4 };

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

/* ---- comparison --------------------------------------------------------- */

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
    if (p->c.counters) same_counters(p, m);
    same_peak(p, m);
}

/* ---- random requests ---------------------------------------------------- */

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

/* What compare found on its way, so that a test can ask for it. */
struct seen { uint64_t ooms, retries, oversize; };

static void compare(const struct mem_config *c, uint64_t device, size_t most,
                    struct seen *seen)
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
    seen->ooms += p->ooms;
    seen->retries += p->retries;
    seen->oversize += p->oversize;
}

static uint64_t first_seed(void)
{
    const char *s = getenv("PEAKPROOF_SEED");

    return s != NULL ? strtoull(s, NULL, 10) : 1;
}

static struct seen rounds(const struct mem_config *c, uint64_t device)
{
    uint64_t seed = first_seed();
    struct seen seen = {0};

    for (uint64_t r = 0; r < ROUNDS; r++, seed++) {
        struct mem_config counting = *c;

        counting.counters = r < ROUNDS / 2;
        printf("PEAKPROOF_SEED=%" PRIu64 "\n", seed);
        rng_state = seed * 0x9e3779b97f4a7c15u + 1;
        compare(&counting, device, r % 2 == 0 ? MAX_LIVE : 20, &seen);
    }
    return seen;
}

static void test_defaults(void **state)
{
    struct seen seen = rounds(&(struct mem_config){0}, 0);

    (void)state;
    assert_int_equal(seen.retries, 0);
}

static void test_traced(void **state)
{
    (void)state;
    (void)rounds(&(struct mem_config){.trace = true}, 0);
}

static void test_limit(void **state)
{
    struct seen seen = rounds(&(struct mem_config){.limit_bytes = 700 * MIB},
                              0);

    (void)state;
    assert_true(seen.ooms > 0 && seen.retries > seen.ooms);
    assert_int_equal(seen.oversize, 0);
}

static void test_device_full(void **state)
{
    struct seen seen = rounds(&(struct mem_config){0}, 500 * MIB + 512);

    (void)state;
    assert_true(seen.ooms > 0 && seen.retries > seen.ooms);
}

static void test_max_split(void **state)
{
    (void)state;
    (void)rounds(&(struct mem_config){.max_split_bytes = 32 * MIB}, 0);
}

static void test_max_split_full(void **state)
{
    struct seen seen = rounds(&(struct mem_config){
        .max_split_bytes = 20 * MIB, .max_non_split_rounding = 24 * MIB
    }, 600 * MIB);

    (void)state;
    assert_true(seen.ooms > 0 && seen.retries > 0 && seen.oversize > 0);
}

static void test_large_segments(void **state)
{
    struct seen seen = rounds(&(struct mem_config){
        .large_segment_bytes = 64 * MIB + 512, .max_split_bytes = 21 * MIB
    }, 900 * MIB);

    (void)state;
    assert_true(seen.ooms > 0 && seen.retries > 0 && seen.oversize > 0);
}

static void test_divisions(void **state)
{
    struct mem_config c = {0};

    (void)state;
    for (int i = 0; i < 16; i++)
        c.roundup_divisions[i] = (uint32_t[]){8, 4, 0, 1, 2, 64}[i % 6];
    (void)rounds(&c, 0);
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
