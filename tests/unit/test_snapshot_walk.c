/*
** test_snapshot_walk.c - the walk and the prediction against a plain allocator
** (snapshot_plain.h): allocated, active, requested and reserved after every
** event of random work, under each setting, from the first event and from the
** middle. PEAKPROOF_EVENTS=1000000 makes it long; PEAKPROOF_SEED repeats it.
*/
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "snapshot/compose.h"
#include "snapshot/replay.h"
#include "snapshot_plain.h"

static uint64_t rng_state;

static uint64_t below(uint64_t n)
{
    rng_state ^= rng_state << 13;
    rng_state ^= rng_state >> 7;
    rng_state ^= rng_state << 17;
    return rng_state % n;
}

static uint64_t random_bytes(void)
{
    static const uint64_t border[] = {1, 512, MIB, 2 * MIB, 10 * MIB,
                                      20 * MIB, 64 * MIB};

    switch (below(5)) {
    case 0: return 1 + below(4096);
    case 1: return 1 + below(MIB);
    case 2: return MIB + below(9 * MIB);
    case 3: return 1 + below(UINT64_C(1) << (20 + below(8)));
    default: return border[below(7)] + below(3) * 256;
    }
}

enum { LIVE = 60, WAITING = 8 };

/* Allocations on two streams, frees of which some wait, empty_cache. */
static void work(struct plain *p, int64_t events)
{
    uint64_t live[LIVE], waiting[WAITING];
    int n = 0, n_waiting = 0;

    while (p->n_event < events) {
        uint64_t dice = below(1000);

        if (dice < 3) {
            while (plain_give_back(p)) {}
        } else if (n_waiting > 0 && (dice < 200 || n_waiting == WAITING)) {
            int i = (int)below((uint64_t)n_waiting);

            plain_complete(p, waiting[i]);
            waiting[i] = waiting[--n_waiting];
        } else if (n == LIVE || (n > 0 && dice < 560)) {
            int i = (int)below((uint64_t)n);
            uint64_t addr = live[i];

            live[i] = live[--n];
            plain_request(p, addr);
            if (below(4) > 0)
                plain_complete(p, addr);
            else
                waiting[n_waiting++] = addr;
        } else {
            live[n++] = plain_alloc(p, random_bytes(), below(5) == 0);
        }
    }
}

/* The plain allocator's state as a snapshot's device. */
static void end_state(const struct plain *p, struct snapshot_device *d)
{
    d->segment = calloc(BLOCKS, sizeof *d->segment);
    d->block = calloc(BLOCKS, sizeof *d->block);
    for (int i = 0; i < p->n; i++) {
        const struct plain_block *b = &p->b[i];
        bool goes_on = i > 0 && beside(p, i, i - 1) && p->b[i - 1].mapped;

        if (!b->mapped) continue;
        if (!goes_on)
            d->segment[d->n_segment++] = (struct snapshot_segment){
                .addr = b->addr, .lane = (uint16_t)b->lane,
                .small = b->pool == 0, .expandable = b->expandable,
                .block = d->n_block};
        d->segment[d->n_segment - 1].size += b->size;
        if (!b->live) continue;
        d->segment[d->n_segment - 1].n_block++;
        d->block[d->n_block++] = (struct snapshot_block){
            .addr = b->addr, .size = b->size, .requested = b->requested,
            .pending = b->pending};
    }
}

/* ---- comparison --------------------------------------------------------- */

struct against {
    const struct plain *p;
    int64_t first;          /* event of the plain allocator's that is 0 here */
    uint64_t open;          /* bytes that the start may lack */
    bool walks;             /* else it predicts */
};

static bool near(uint64_t have, uint64_t want, uint64_t open)
{
    return have <= want && want - have <= open;
}

static void compare(void *ctx, int64_t event, const struct replay_bytes *now)
{
    struct against *a = ctx;
    const struct replay_bytes *want = &a->p->now[a->first + event];
    uint8_t action = a->p->event[a->first + event].action;

    /* a prediction gets memory with the allocation that needs it */
    if (!a->walks && (action == SNAPSHOT_SEGMENT_ALLOC
                      || action == SNAPSHOT_SEGMENT_MAP))
        return;
    if (near(now->allocated, want->allocated, a->open)
        && near(now->active, want->active, a->open)
        && now->requested == want->requested
        && now->reserved == want->reserved)
        return;
    print_error("%s, event %" PRId64 " from %" PRId64 ": allocated %" PRIu64
                " %" PRIu64 ", active %" PRIu64 " %" PRIu64 ", requested %"
                PRIu64 " %" PRIu64 ", reserved %" PRIu64 " %" PRIu64 "\n",
                a->walks ? "walk" : "replay", event, a->first,
                now->allocated, want->allocated, now->active, want->active,
                now->requested, want->requested, now->reserved,
                want->reserved);
    fail();
}

/* Walk and prediction of the trace from event first on. Every address is
** predicted. Where the file leaves no size open both agree with the plain
** allocator in all bytes; else they are short by no more than is said. */
static bool both(const struct plain *p, const struct snapshot *s,
                 int64_t first)
{
    struct against a = {p, first, 0, true};
    struct rewind from = {0};
    struct walk w;
    struct replay r;
    struct err e = {0};
    bool open;

    if (rewind_device(s, 0, "f", &from, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    assert_int_equal(replay_settle(s, 0, &from, &e), ERR_OK);
    a.open = from.open_bytes;
    open = from.open_bytes > 0;
    if (walk_device(s, 0, "f", &from, compare, &a, &w, &e) != ERR_OK)
        print_error("%s\n", e.text);
    assert_int_equal(e.code, 0);
    assert_int_equal(w.misfits, 0);
    assert_memory_equal(&w.final, &w.recorded, sizeof w.final);
    a.walks = false;
    assert_int_equal(replay_from(s, 0, &from, &s->config, compare, &a, &r,
                                 &e), ERR_OK);
    assert_int_equal(r.address_mismatches, 0);
    assert_int_equal(r.segment_mismatches, 0);
    assert_int_equal(r.block_mismatches, 0);
    if (!open) assert_memory_equal(&r.peak, &w.peak, sizeof r.peak);
    if (!open) assert_int_equal(r.peak_event, w.peak_event);
    walk_free(&w);
    rewind_free(&from);
    return !open;
}

/* What is live after an event, found by going through all before it: the
** composition by size must be that. */
static void composed(const struct plain *p, const struct snapshot *s)
{
    struct rewind from = {0};
    struct walk w;
    struct err e;
    int64_t at[4], n = p->n_event;

    assert_int_equal(rewind_device(s, 0, "f", &from, &e), ERR_OK);
    assert_int_equal(walk_device(s, 0, "f", &from, NULL, NULL, &w, &e),
                     ERR_OK);
    for (int k = 0; k < 4; k++) at[k] = (int64_t)below((uint64_t)n / 4)
                                        + k * (n / 4);
    for (int k = 0; k < 4; k++) {
        struct composition c;
        uint64_t sum = 0;

        assert_int_equal(compose(s, &from, &w, BY_SIZE, NULL, &at[k], 1, &c,
                                 &e), ERR_OK);
        assert_int_equal(c.allocated, p->now[at[k]].allocated);
        for (int64_t g = 0; g < c.n_group; g++) {
            uint64_t size = strtoull(c.group[g].key, NULL, 10), bytes = 0;
            int64_t blocks = 0;

            for (int64_t i = 0; i <= at[k]; i++) {
                int64_t j = i + 1;

                if (p->event[i].action != SNAPSHOT_ALLOC
                    || p->event[i].bytes != size)
                    continue;
                while (j <= at[k]
                       && (p->event[j].action != SNAPSHOT_FREE_REQUESTED
                           || p->event[j].addr != p->event[i].addr))
                    j++;
                if (j <= at[k]) continue;
                blocks++;
                bytes += w.size[i];
            }
            assert_int_equal(c.group[g].blocks, blocks);
            assert_int_equal(c.group[g].bytes, bytes);
            sum += bytes;
        }
        assert_int_equal(sum, c.allocated);
        composition_free(&c);
    }
    walk_free(&w);
    rewind_free(&from);
}

static int64_t long_run(void)
{
    const char *n = getenv("PEAKPROOF_EVENTS");

    return n != NULL ? strtoll(n, NULL, 10) : 20000;
}

static void one_setting(struct mem_config c, bool settled)
{
    struct snapshot_lane lanes[2] = {{0, {0, 0}}, {7, {0, 0}}};
    struct plain *p = calloc(1, sizeof *p);
    struct snapshot_device d = {0}, whole;
    struct snapshot s = {.device = &d, .n_device = 1, .lane = lanes,
                         .n_lane = 2, .config = c};
    int exact = 0, starts = 12;

    p->c = c;
    p->next = RANGE;
    work(p, long_run());
    end_state(p, &d);
    d.event = p->event;
    d.n_event = p->n_event;
    whole = d;
    assert_true(both(p, &s, 0));
    if (p->n_event < 100000) composed(p, &s);
    for (int i = 0; i < starts; i++) {
        int64_t first = 1 + (int64_t)below((uint64_t)whole.n_event);

        /* not within an allocation */
        while (first > 1
               && (whole.event[first - 1].action == SNAPSHOT_SEGMENT_ALLOC
                   || whole.event[first - 1].action == SNAPSHOT_SEGMENT_MAP))
            first--;
        d.event = whole.event + first;
        d.n_event = whole.n_event - first;
        exact += both(p, &s, first);
    }
    assert_true(exact == starts || !settled);
    free(whole.segment);
    free(whole.block);
    free(p->event);
    free(p->now);
    free(p);
}

static void seed(void)
{
    const char *text = getenv("PEAKPROOF_SEED");
    uint64_t x = text != NULL ? strtoull(text, NULL, 10) : 1;

    printf("PEAKPROOF_SEED=%" PRIu64 "\n", x);
    rng_state = x * 0x9e3779b97f4a7c15u + 1;
}

static void test_default(void **state)
{
    (void)state;
    seed();
    one_setting((struct mem_config){0}, false);
}

static void test_split(void **state)
{
    (void)state;
    seed();
    one_setting((struct mem_config){.max_split_bytes = 20 * MIB}, false);
    one_setting((struct mem_config){.max_split_bytes = 64 * MIB,
                                    .large_segment_bytes = 32 * MIB}, false);
}

static void test_rounding(void **state)
{
    struct mem_config c = {0};

    (void)state;
    seed();
    for (int i = 0; i < 16; i++) c.roundup_divisions[i] = 4;
    one_setting(c, false);
    c.expandable = true;
    one_setting(c, true);
}

static void test_expandable(void **state)
{
    (void)state;
    seed();
    one_setting((struct mem_config){.expandable = true}, true);
    one_setting((struct mem_config){.expandable = true,
                                    .large_segment_bytes = 40 * MIB}, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_expandable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
