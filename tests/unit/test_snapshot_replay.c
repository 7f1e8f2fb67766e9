/*
** test_mem_replay.c - snapshots read, rewound and replayed: those of Python's
** pickler with numbers worked out by hand, and our own, which must come back
** without a mismatch from any point of their trace.
*/
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "snapshot/replay.h"
#include "snapshot_bytes.h"

#define MIB (UINT64_C(1) << 20)

static uint64_t rng_state;

static uint64_t below(uint64_t n)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state % n;
}

static struct replay replay(const struct snapshot *s, int64_t device,
                            const struct mem_config *c)
{
    struct replay r = {0};
    struct err e = {0};

    if (bytes_replay(s, device, c, &r, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    return r;
}

static void exact(const struct replay *r)
{
    assert_int_equal(r->address_mismatches, 0);
    assert_int_equal(r->segment_mismatches, 0);
    assert_int_equal(r->block_mismatches, 0);
    assert_int_equal(r->ooms, 0);
    assert_memory_equal(&r->final, &r->recorded, sizeof r->final);
}

/* ---- a snapshot of Python's --------------------------------------------- */

/* The trace begins in the middle, has two streams, and a block that waits
** for one of them (tests/fuzz/make_snapshots.py). */
static void same_numbers(const struct snapshot *s)
{
    struct replay r = replay(s, 0, &s->config);

    exact(&r);
    assert_int_equal(s->n_device, 2);
    assert_int_equal(s->n_lane, 2);
    assert_int_equal(r.events, 14);
    assert_int_equal(r.peak.allocated, 2004878848);
    assert_int_equal(r.peak.active, 2004879360);
    assert_int_equal(r.peak.requested, 2004195916);
    assert_int_equal(r.peak.reserved, 2025848832);
    assert_int_equal(r.final.allocated, 7342080);
    assert_int_equal(r.final.active, 7342080);
    assert_int_equal(r.final.requested, 7341644);
    assert_int_equal(r.final.reserved, 25165824);
    r = replay(s, 1, &s->config);
    assert_int_equal(r.events, 0);
    assert_int_equal(r.peak.reserved, 0);
}

static void load(const char *name, struct buf *b, struct snapshot *s)
{
    char path[96];
    struct err e = {0};

    snprintf(path, sizeof path, "tests/fuzz/corpus/snapshot/%s", name);
    *b = (struct buf)BUF_INIT;
    assert_int_equal(file_read(path, 1 << 20, b, &e), ERR_OK);
    if (bytes_read(b->data, b->len, s, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
}

static void test_python_protocols(void **state)
{
    static const char *const names[] = {"protocol2", "protocol3", "protocol4",
                                        "protocol5"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        struct snapshot s;
        struct buf b;

        load(names[i], &b, &s);
        buf_free(&b);           /* nothing of the file is kept */
        same_numbers(&s);
        snapshot_free(&s);
    }
}

/* What a recorder leaves out: completions (their blocks are free at the
** request), or requests. */
static void test_frees_told_once(void **state)
{
    struct snapshot s;
    struct replay r;
    struct buf b;

    (void)state;
    load("protocol4", &b, &s);
    for (int64_t i = 0; i < s.device[0].n_event; i++)
        if (s.device[0].event[i].action == SNAPSHOT_FREE_REQUESTED)
            s.device[0].event[i].action = SNAPSHOT_OTHER;
    r = replay(&s, 0, &s.config);
    exact(&r);
    assert_int_equal(r.peak.allocated, 2004879360);     /* now as active */
    assert_int_equal(r.peak.active, 2004879360);
    snapshot_free(&s);
    buf_free(&b);
    load("protocol4", &b, &s);
    for (int64_t i = 0; i < s.device[0].n_event; i++)
        if (s.device[0].event[i].action == SNAPSHOT_FREE_COMPLETED)
            s.device[0].event[i].action = SNAPSHOT_OTHER;
    r = replay(&s, 0, &s.config);
    exact(&r);
    assert_int_equal(r.peak.allocated, 2004878848);
    assert_int_equal(r.peak.active, 2004878848);
    snapshot_free(&s);
    buf_free(&b);
}

/* Freed before the trace, let go of in it: allocated never counts it. */
static void test_pending_at_the_start(void **state)
{
    struct snapshot s;
    struct replay r;
    struct buf b;

    (void)state;
    load("protocol4", &b, &s);
    s.device[0].event[1].action = SNAPSHOT_OTHER;   /* a free_requested */
    r = replay(&s, 0, &s.config);
    exact(&r);
    assert_int_equal(r.peak.allocated, 2004878848);
    /* one more that waits at the end: the trace tells requests */
    s.device[0].event[12] = (struct snapshot_event){
        .addr = 0x7f0002000400, .bytes = 512,
        .action = SNAPSHOT_FREE_REQUESTED};
    s.device[0].block[3].pending = true;
    s.device[0].event += 7;         /* starts while a large block waits */
    s.device[0].n_event -= 7;
    r = replay(&s, 0, &s.config);
    exact(&r);
    assert_int_equal(r.peak.allocated, 7341568);
    assert_int_equal(r.peak.active, 2004879360);
    s.device[0].event -= 7;
    snapshot_free(&s);
    buf_free(&b);
}

/* ---- our own ------------------------------------------------------------ */

static uint64_t random_bytes(bool tidy)
{
    switch (below(tidy ? 3 : 4)) {
    case 0: return 1 + below(3000);
    case 1: return 1 + below(MIB);
    case 2: return tidy ? 2 * MIB * (1 + below(12)) : MIB + below(10 * MIB);
    default: return 1 + below(80 * MIB);
    }
}

enum { SLOTS = 120 };

static struct mem *random_work(const struct mem_config *c,
                               struct mem_dry_source *dry, int events,
                               bool tidy)
{
    static const char *const op[] = {"gdn.conv", "moe.fc1", NULL};
    struct mem_config traced = *c;
    struct mem_block *b[SLOTS] = {NULL};
    struct mem *m;
    struct err e;

    traced.trace = true;
    assert_int_equal(mem_new(&traced, mem_dry_source(dry, 0), &m, &e),
                     ERR_OK);
    for (int i = 0; i < events; i++) {
        size_t at = (size_t)below(SLOTS);
        struct mem_tag tag = {(uint8_t)below(CAT_ROUNDING),
                              (uint8_t)below(PHASE_COUNT),
                              (int16_t)((int)below(5) - 1), op[below(3)]};

        if (below(300) == 0) mem_empty_cache(m);
        mem_release(m, b[at]);
        b[at] = NULL;
        if (below(2) == 0)
            assert_int_equal(mem_alloc(m, random_bytes(tidy), tag, &b[at],
                                       &e), ERR_OK);
    }
    return m;
}

static void same_as_ours(const struct mem *m, const struct replay *r)
{
    struct mem_stats t;

    mem_stats(m, &t);
    exact(r);
    assert_int_equal(r->peak.allocated, t.allocated_peak);
    assert_int_equal(r->peak.requested, t.requested_peak);
    assert_int_equal(r->peak.reserved, t.reserved_peak);
    assert_int_equal(r->final.allocated, t.allocated);
    assert_int_equal(r->final.reserved, t.reserved);
}

static struct snapshot written(const struct mem *m, struct buf *b)
{
    struct snapshot s = {0};
    struct err e = {0};

    assert_int_equal(snapshot_write(m, 0, NULL, b, &e), ERR_OK);
    if (bytes_read(b->data, b->len, &s, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    return s;
}

/* From any event on the rest replays to the same end, unless the file leaves
** a size open there. Tidy work leaves blocks no slack: then the size that is
** assumed is the right one. */
static void from_everywhere(const struct snapshot *s, bool tidy)
{
    struct snapshot_device *d = &s->device[0];
    struct snapshot_event *event = d->event;
    int64_t n = d->n_event, step = 1 + (int64_t)below(40);

    for (int64_t i = 0; i <= n; i += step) {
        struct replay r;

        d->event = event + i;
        d->n_event = n - i;
        r = replay(s, 0, &s->config);
        if (tidy || r.assumed_sizes == 0) exact(&r);
    }
    d->event = event;
    d->n_event = n;
}

static void round_trip(const struct mem_config *c, bool tidy)
{
    const char *seed = getenv("PEAKPROOF_SEED");
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : 1;

    for (uint64_t k = first; k < first + 4; k++) {
        struct mem_dry_source dry;
        struct buf b = BUF_INIT;
        struct snapshot s;
        struct replay r;
        struct mem *m;

        printf("PEAKPROOF_SEED=%" PRIu64 "\n", k);
        rng_state = k * 0x9e3779b97f4a7c15u + 1;
        m = random_work(c, &dry, 1500, tidy);
        s = written(m, &b);
        s.config = *c;
        r = replay(&s, 0, c);
        same_as_ours(m, &r);
        from_everywhere(&s, tidy);
        snapshot_free(&s);
        buf_free(&b);
        mem_free_all(m);
    }
}

static void test_round_trip(void **state)
{
    struct mem_config c = {0};

    (void)state;
    round_trip(&c, false);
    round_trip(&c, true);
    c.max_split_bytes = 32 * MIB;
    round_trip(&c, true);
    c = (struct mem_config){.large_segment_bytes = 40 * MIB};
    for (int i = 0; i < 16; i++) c.roundup_divisions[i] = 4;
    round_trip(&c, true);
}

/* Blocks that stay have their recorded sizes, so what was live at the end is
** right even when the settings are not known; the mismatches tell. */
static void test_other_settings(void **state)
{
    struct mem_config c = {.max_split_bytes = 20 * MIB}, limited = {0};
    struct mem_dry_source dry;
    struct buf b = BUF_INIT;
    struct snapshot s;
    struct replay r;
    struct mem *m;

    (void)state;
    rng_state = 77;
    m = random_work(&(struct mem_config){0}, &dry, 1500, false);
    s = written(m, &b);
    r = replay(&s, 0, &c);
    assert_true(r.address_mismatches > 0 && r.segment_mismatches > 0);
    assert_int_equal(r.final.requested, r.recorded.requested);
    limited.limit_bytes = r.recorded.reserved / 2;
    r = replay(&s, 0, &limited);
    assert_true(r.ooms > 0);
    assert_true(r.peak.reserved <= limited.limit_bytes);
    assert_true(r.final.requested < r.recorded.requested);
    snapshot_free(&s);
    buf_free(&b);
    mem_free_all(m);
}

/* One that begins in the middle tells the peaks over what was live there. */
static void test_written_later(void **state)
{
    struct mem_tag tag = {CAT_OTHER, PHASE_FORWARD, 3, "later"};
    struct mem_dry_source dry;
    struct mem_block *b[20];
    struct buf text = BUF_INIT;
    struct mem_peak peak;
    struct snapshot s = {0};
    struct replay r;
    struct mem *m;
    struct err e;
    uint64_t first;

    (void)state;
    rng_state = 9;
    m = random_work(&(struct mem_config){0}, &dry, 700, true);
    mem_trace(m, &first);
    mem_mark_peak(m);
    for (int i = 0; i < 20; i++)
        assert_int_equal(mem_alloc(m, (uint64_t)(i + 1) * MIB, tag, &b[i],
                                   &e), ERR_OK);
    for (int i = 0; i < 19; i++) mem_release(m, b[i]);
    mem_peak(m, &peak);
    assert_int_equal(snapshot_write(m, first, NULL, &text, &e), ERR_OK);
    assert_int_equal(bytes_read(text.data, text.len, &s, &e), ERR_OK);
    r = replay(&s, 0, &s.config);
    exact(&r);
    assert_int_equal(r.peak.allocated - r.initial.allocated, peak.allocated);
    assert_int_equal(r.peak.requested - r.initial.requested, peak.requested);
    assert_int_equal(r.peak.reserved, peak.reserved);
    assert_true(r.initial.allocated > 0 && peak.allocated >= 210 * MIB);
    snapshot_free(&s);
    buf_free(&text);
    mem_free_all(m);
}

static void test_written_bytes(void **state)
{
    struct mem_dry_source dry[2];
    struct buf b[2] = {BUF_INIT, BUF_INIT};
    struct mem_config untraced = {0};
    struct mem *m;
    struct err e;

    (void)state;
    for (int i = 0; i < 2; i++) {
        rng_state = 5;
        m = random_work(&untraced, &dry[i], 400, false);
        assert_int_equal(snapshot_write(m, 0, NULL, &b[i], &e), ERR_OK);
        mem_free_all(m);
    }
    assert_int_equal(b[0].len, b[1].len);
    assert_memory_equal(b[0].data, b[1].data, b[0].len);
    assert_memory_equal(b[0].data, "\x80\x04}(\x8c\x08segments", 13);
    assert_int_equal(mem_new(&untraced, mem_dry_source(&dry[0], 0), &m, &e),
                     ERR_OK);
    assert_int_equal(snapshot_write(m, 0, NULL, &b[0], &e), ERR_RUN);
    mem_free_all(m);
    buf_free(&b[0]);
    buf_free(&b[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_protocols),
        cmocka_unit_test(test_frees_told_once),
        cmocka_unit_test(test_pending_at_the_start),
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_other_settings),
        cmocka_unit_test(test_written_later),
        cmocka_unit_test(test_written_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
