/*
** test_mem_peak.c - peaks with their categories, the fingerprint, the trace.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "mem/mem.h"

#define MIB (UINT64_C(1) << 20)

static struct mem_dry_source dry;

static struct mem *open_mem(bool trace)
{
    struct mem_config c = {.trace = trace};
    struct mem *m;
    struct err e;

    assert_int_equal(mem_new(&c, mem_dry_source(&dry, 0), &m, &e), ERR_OK);
    return m;
}

static struct mem_block *get(struct mem *m, uint64_t bytes,
                             enum category c, const char *op)
{
    struct mem_tag tag = {(uint8_t)c, PHASE_BACKWARD, 3, op};
    struct mem_block *b;
    struct err e;

    assert_int_equal(mem_alloc(m, bytes, tag, &b, &e), ERR_OK);
    return b;
}

static void only(const struct mem_peak *k, enum category a, int64_t bytes_a,
                 enum category b, int64_t bytes_b, int64_t rounding)
{
    for (int c = 0; c < CAT_COUNT; c++) {
        int64_t want = c == (int)a ? bytes_a : c == (int)b ? bytes_b
                     : c == CAT_ROUNDING ? rounding : 0;
        assert_int_equal(k->by[c], want);
    }
}

static void test_first_instant(void **state)
{
    struct mem *m = open_mem(false);
    struct mem_block *a, *b;
    struct mem_peak k;

    (void)state;
    a = get(m, 1000, CAT_HEAD, "a");
    b = get(m, 1500, CAT_GDN, "b");         /* 2560: the first maximum */
    mem_release(m, a);
    a = get(m, 1024, CAT_OUTPUTS, "c");     /* 2560 again: not a new one */
    mem_peak(m, &k);
    assert_int_equal(k.allocated, 2560);
    assert_int_equal(k.requested, 2524);    /* its own maximum */
    assert_int_equal(k.reserved, 2 * MIB);
    assert_int_equal(k.event, 1);
    assert_string_equal(k.tag.op, "b");
    assert_int_equal(k.tag.layer, 3);
    assert_int_equal(k.tag.phase, PHASE_BACKWARD);
    assert_int_equal(k.tag.category, CAT_GDN);
    only(&k, CAT_HEAD, 1000, CAT_GDN, 1500, 60);
    mem_release(m, b);
    mem_release(m, a);
    mem_free_all(m);
}

static void test_mark(void **state)
{
    struct mem *m = open_mem(false);
    struct mem_block *a, *b;
    struct mem_peak k;
    struct mem_stats s;

    (void)state;
    a = get(m, 8 * MIB, CAT_BOUNDARIES, "a");
    mem_release(m, get(m, 20 * MIB, CAT_HEAD, "high"));
    mem_mark_peak(m);
    mem_peak(m, &k);
    assert_int_equal(k.allocated, 0);
    assert_int_equal(k.requested, 0);
    assert_int_equal(k.reserved, 40 * MIB);
    assert_int_equal(k.event, 0);
    assert_null(k.tag.op);
    only(&k, CAT_HEAD, 0, CAT_HEAD, 0, 0);
    mem_release(m, a);                      /* below the mark, then above */
    b = get(m, 8 * MIB + 1, CAT_GDN, "b");
    mem_peak(m, &k);
    assert_int_equal(k.allocated, 512);
    assert_int_equal(k.requested, 1);
    assert_int_equal(k.event, 1);
    assert_string_equal(k.tag.op, "b");
    only(&k, CAT_BOUNDARIES, -8 * (int64_t)MIB, CAT_GDN,
         8 * (int64_t)MIB + 1, 511);
    mem_stats(m, &s);
    assert_int_equal(s.allocated, 8 * MIB + 512);
    assert_int_equal(s.allocated_peak, 28 * MIB);
    assert_int_equal(s.active_peak, 28 * MIB);
    assert_int_equal(s.requested_peak, 28 * MIB);
    assert_int_equal(s.reserved_peak, 40 * MIB);
    mem_release(m, b);
    mem_free_all(m);
}

/* A peak that falls below the mark's state leaves the mark as the maximum. */
static void test_nothing_above_the_mark(void **state)
{
    struct mem *m = open_mem(false);
    struct mem_block *a = get(m, 4096, CAT_HEAD, "a");
    struct mem_peak k;

    (void)state;
    mem_mark_peak(m);
    mem_release(m, a);
    a = get(m, 4096, CAT_GDN, "b");
    mem_peak(m, &k);
    assert_int_equal(k.allocated, 0);
    assert_null(k.tag.op);
    only(&k, CAT_HEAD, 0, CAT_HEAD, 0, 0);
    mem_free_all(m);
}

static uint64_t decisions_of(uint64_t first, uint64_t second)
{
    struct mem *m = open_mem(false);
    struct mem_stats s;

    mem_release(m, get(m, first, CAT_HEAD, "a"));
    (void)get(m, second, CAT_GDN, "b");
    mem_stats(m, &s);
    mem_free_all(m);
    return s.decisions;
}

/* Sizes that are met alike leave the same number; another segment, another
** block or a rest that is cached does not. */
static void test_decisions(void **state)
{
    uint64_t split = decisions_of(21 * MIB, 19 * MIB);

    (void)state;
    assert_int_equal(decisions_of(21 * MIB + 4096, 19 * MIB + 512), split);
    assert_int_equal(decisions_of(22 * MIB, 21 * MIB - 512), split);
    assert_true(decisions_of(22 * MIB, 21 * MIB) != split);
    assert_true(decisions_of(20 * MIB, 18 * MIB) != split);
    assert_true(decisions_of(21 * MIB, 23 * MIB) != split);
}

/* What comes after the place that is kept, in many blocks. */
static struct mem_stats goes_on(struct mem *m, struct mem_block *kept,
                                bool all)
{
    struct mem_block *b[600];
    struct mem_stats s;
    uint64_t i;

    for (i = 0; i < 600; i++)
        b[i] = get(m, (i * 7919 % 97 + 1) * (i % 3 == 0 ? MIB : 3000),
                   CAT_GDN, "b");
    for (i = 0; all && i < 600; i += 2) mem_release(m, b[i]);
    if (all) mem_release(m, kept);
    mem_stats(m, &s);
    return s;
}

/* An allocator that is put back does the same again, at the same addresses. */
static void test_rewind(void **state)
{
    struct mem_config c = {.max_split_bytes = 0};
    struct mem_kept *k;
    struct mem *m;
    struct mem_block *a, *b;
    struct mem_stats first, then, start, again;
    struct err e;
    uint64_t at;

    (void)state;
    assert_int_equal(mem_new(&c, mem_dry_source(&dry, 0), &m, &e), 0);
    a = get(m, 30 * MIB, CAT_HEAD, "a");
    b = get(m, 3 * MIB, CAT_HEAD, "b");
    mem_release(m, get(m, 5000, CAT_HEAD, "c"));
    at = mem_addr(a);
    mem_stats(m, &start);
    assert_int_equal(mem_keep(m, &k, &e), 0);
    first = goes_on(m, b, true);
    mem_rewind(m, k);
    mem_stats(m, &again);
    assert_memory_equal(&again, &start, sizeof start);
    assert_int_equal(mem_addr(a), at);
    assert_int_equal(dry.used, start.reserved);
    (void)goes_on(m, b, false);             /* all of it live */
    mem_rewind(m, k);
    then = goes_on(m, b, true);
    assert_memory_equal(&then, &first, sizeof first);
    mem_rewind(m, k);
    mem_kept_free(k);
    mem_release(m, a);
    mem_free_all(m);
}

static uint64_t fingerprint_of(uint64_t first, enum category c, bool back)
{
    struct mem *m = open_mem(false);
    struct mem_block *a = get(m, first, c, "a");
    struct mem_block *b = get(m, 700, CAT_HEAD, "b");
    struct mem_stats s;

    mem_release(m, back ? b : a);
    mem_release(m, back ? a : b);
    mem_stats(m, &s);
    mem_free_all(m);
    return s.fingerprint;
}

static void test_fingerprint(void **state)
{
    uint64_t f = fingerprint_of(600, CAT_GDN, false);

    (void)state;
    assert_true(f == fingerprint_of(600, CAT_GDN, false));
    assert_true(f != fingerprint_of(601, CAT_GDN, false));
    assert_true(f != fingerprint_of(600, CAT_ATTENTION, false));
    assert_true(f != fingerprint_of(600, CAT_GDN, true));
}

static void test_trace(void **state)
{
    struct mem *m = open_mem(true);
    struct mem_block *a = get(m, 1000, CAT_HEAD, "a");
    struct mem_block *b = get(m, 3 * MIB, CAT_GDN, "b");
    const struct mem_segment_event *s;
    const struct mem_event *v;
    uint64_t n;

    (void)state;
    assert_true(sizeof *v <= 32);
    mem_release(m, a);
    mem_empty_cache(m);
    v = mem_trace(m, &n);
    assert_int_equal(n, 3);
    assert_int_equal(v[0].bytes, 1000);
    assert_int_equal(v[0].alloc, 0);
    assert_int_equal(v[0].is_free, 0);
    assert_int_equal(v[1].addr, mem_addr(b));
    assert_int_equal(v[1].alloc, 1);
    assert_int_equal(v[2].addr, v[0].addr);
    assert_int_equal(v[2].bytes, 1000);
    assert_int_equal(v[2].alloc, 0);
    assert_int_equal(v[2].is_free, 1);
    assert_int_equal(v[2].category, CAT_HEAD);
    assert_int_equal(v[2].phase, PHASE_BACKWARD);
    assert_int_equal(v[2].layer, 3);
    assert_string_equal(v[2].op, "a");
    s = mem_segment_trace(m, &n);
    assert_int_equal(n, 3);
    assert_int_equal(s[0].event, 0);
    assert_int_equal(s[0].bytes, 2 * MIB);
    assert_int_equal(s[1].event, 1);
    assert_int_equal(s[1].bytes, 20 * MIB);
    assert_int_equal(s[2].event, 3);
    assert_int_equal(s[2].addr, s[0].addr);
    assert_true(s[2].is_free && !s[1].is_free);
    mem_free_all(m);
}

static void test_no_trace(void **state)
{
    struct mem *m = open_mem(false);
    uint64_t n = 7;

    (void)state;
    (void)get(m, 1000, CAT_HEAD, "a");
    assert_null(mem_trace(m, &n));
    assert_int_equal(n, 0);
    assert_null(mem_segment_trace(m, &n));
    assert_int_equal(n, 0);
    mem_free_all(m);
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(category_name(CAT_BOUNDARIES), "boundaries");
    assert_string_equal(category_name(CAT_ROUNDING), "rounding");
    assert_string_equal(category_name(CAT_OTHER), "other");
    assert_string_equal(mem_phase_name(PHASE_NONE), "none");
    assert_string_equal(mem_phase_name(PHASE_RECOMPUTE), "recompute");
    assert_string_equal(mem_phase_name(PHASE_OPTIMIZER), "optimizer");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_instant),
        cmocka_unit_test(test_decisions),
        cmocka_unit_test(test_rewind),
        cmocka_unit_test(test_mark),
        cmocka_unit_test(test_nothing_above_the_mark),
        cmocka_unit_test(test_fingerprint),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_no_trace),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
