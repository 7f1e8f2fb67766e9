/*
** test_mem_fault.c - every host allocation of the allocator fails once.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "fault.h"
#include "snapshot/series.h"
#include "snapshot_bytes.h"

enum { BLOCKS = 3000 };

/* What a failed mem_alloc must leave alone. */
static void same_stats(const struct mem_stats *a, const struct mem *m)
{
    struct mem_stats b;

    mem_stats(m, &b);
    assert_memory_equal(a, &b, sizeof b);
}

/* Allocates, releases and allocates again; a request that failed is made
** once more, and then succeeds. Returns the failures seen. */
static int work(struct mem *m, struct mem_block **b)
{
    struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, "op"};
    struct mem_stats before;
    int failures = 0;
    struct err e;

    for (int i = 0; i < 2 * BLOCKS; i++) {
        struct mem_block **at = &b[i % BLOCKS];
        uint64_t bytes = 1 + (uint64_t)(i % 7) * 400000;

        mem_release(m, *at);
        *at = NULL;
        mem_stats(m, &before);
        if (mem_alloc(m, bytes, tag, at, &e) == ERR_OK) continue;
        assert_int_equal(e.code, ERR_RUN);
        assert_null(*at);
        same_stats(&before, m);
        failures++;
        assert_int_equal(mem_alloc(m, bytes, tag, at, &e), ERR_OK);
    }
    for (int i = 0; i < BLOCKS; i++) mem_release(m, b[i]);
    mem_empty_cache(m);
    return failures;
}

/* One run with the n-th allocation failing; true when there was one. */
static bool run(size_t n, uint64_t *fingerprint)
{
    struct mem_config c = {.trace = true};
    struct mem_block *b[BLOCKS] = {NULL};
    struct mem_dry_source dry;
    struct mem_stats s;
    struct mem *m = NULL;
    int failures;
    struct err e;

    fault_set(n);
    if (mem_new(&c, mem_dry_source(&dry, 0), &m, &e) != ERR_OK) {
        assert_int_equal(e.code, ERR_RUN);
        assert_null(m);
        return true;
    }
    failures = work(m, b);
    assert_int_equal(failures, fault_reached());
    mem_stats(m, &s);
    assert_int_equal(s.allocated, 0);
    assert_int_equal(s.reserved, 0);
    *fingerprint = s.fingerprint;
    mem_free_all(m);
    assert_int_equal(dry.used, 0);
    return fault_reached();
}

static void test_every_allocation_fails_once(void **state)
{
    uint64_t clean = 0, f = 0;
    size_t n = 1;

    (void)state;
    assert_false(run(0, &clean));
    assert_true(fault_count > 10);
    for (; run(n, &f); n++)
        if (n > 1) assert_true(f == clean);
    assert_true(n > 10);
}

/* ---- snapshots ---------------------------------------------------------- */

static struct mem *traced_work(struct mem_dry_source *dry)
{
    struct mem_config c = {.trace = true};
    struct mem_tag tag = {CAT_OTHER, PHASE_NONE, -1, "op"};
    struct mem_block *b[300];
    struct mem *m;
    struct err e;

    fault_set(0);
    assert_int_equal(mem_new(&c, mem_dry_source(dry, 0), &m, &e), ERR_OK);
    for (int i = 0; i < 300; i++) {
        tag.layer = (int16_t)i;
        assert_int_equal(mem_alloc(m, 1 + (uint64_t)i * 20000, tag, &b[i],
                                   &e), ERR_OK);
    }
    for (int i = 0; i < 300; i += 2) mem_release(m, b[i]);
    return m;
}

/* All that is told of a device. */
static int tell(const struct snapshot *s, struct err *e)
{
    static const char *const at[] = {"5", "start"};
    struct mem_config other = {.expandable = true};
    struct account_ask ask = {.by = BY_FRAME, .at = at, .n_at = 2,
                              .since = "3", .set = &other,
                              .set_text = "expandable_segments=True",
                              .least_limit = true};
    struct account a;
    struct series t;
    struct buf b = BUF_INIT;
    int rc = account_device(s, 0, "f", &ask, &a, e);

    if (rc != ERR_OK) return rc;
    rc = series_make(&a, &ask, 50, &t, e);
    if (rc == ERR_OK) {
        series_svg(&t, &a, "t", true, &b);
        series_free(&t);
    }
    if (rc == ERR_OK) rc = series_folded(&a, 9, &b, e);
    if (rc == ERR_OK) rc = account_tell(&a, &ask, "f", &b, e);
    if (rc == ERR_OK && b.failed) rc = err_nomem(e);
    buf_free(&b);
    account_free(&a);
    return rc;
}

static int snapshot_run(const struct mem *m, size_t n)
{
    struct buf b = BUF_INIT;
    struct snapshot s = {0};
    struct replay r;
    struct err e = {0};
    int rc;

    fault_set(n);
    rc = snapshot_write(m, 0, NULL, &b, &e);
    if (rc == ERR_OK) rc = bytes_read(b.data, b.len, &s, &e);
    if (rc == ERR_OK) {
        rc = bytes_replay(&s, 0, &s.config, &r, &e);
        if (rc == ERR_OK) rc = tell(&s, &e);
        snapshot_free(&s);
    }
    buf_free(&b);
    assert_int_equal(rc, e.code);
    return rc;
}

static void test_snapshots(void **state)
{
    struct mem_dry_source dry;
    struct mem *m = traced_work(&dry);
    size_t n = 1;

    (void)state;
    assert_int_equal(snapshot_run(m, 0), ERR_OK);
    for (;; n++) {
        int rc = snapshot_run(m, n);

        if (!fault_reached()) break;
        assert_int_equal(rc, ERR_RUN);
    }
    assert_true(n > 40);
    mem_free_all(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_snapshots),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
