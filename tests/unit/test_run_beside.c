/*
** What ranks of a case say of a wave that ran: it is really held beside dry,
** and nothing is found where nothing is wrong. Of threads test_run_case has
** as much, in less arithmetic.
*/
#include <sys/mman.h>

#include "run_bench.h"

/* ---- beside dry --------------------------------------------------------- */

/* A driver that places each segment below the one before, and is full now and
** then: what the allocator makes of that is the same on dry. */
static struct placing { char *room, *top; int64_t gets; } placing[2];
#define PLACING_ROOM ((size_t)1 << 33)
#define PLACING_ALIGN ((size_t)2 << 20)

static int placing_get(void *ctx, uint64_t bytes, uint64_t *addr,
                       struct err *e)
{
    struct placing *p = ctx;
    size_t n = (size_t)(bytes + PLACING_ALIGN - 1);

    if (++p->gets % 7 == 0) return err_set(e, ERR_OOM, "full");
    p->top -= n / PLACING_ALIGN * PLACING_ALIGN;
    assert_true(p->top >= p->room);
    *addr = (uint64_t)(uintptr_t)p->top;
    return ERR_OK;
}

static void placing_put(void *ctx, uint64_t addr, uint64_t bytes)
{
    (void)ctx;
    madvise((void *)(uintptr_t)addr, (size_t)bytes, MADV_DONTNEED);
}

static int placing_open(const struct dev_options *o, struct dev **out,
                        struct err *e)
{
    struct placing *p = &placing[o->rank];
    int rc = dev_cpu.open(o, out, e);

    if (rc != ERR_OK) return rc;
    p->gets = 0;
    p->room = mmap(NULL, PLACING_ROOM, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_true(p->room != MAP_FAILED);
    p->top = p->room + PLACING_ROOM;
    p->top -= (uintptr_t)p->top % PLACING_ALIGN;
    (*out)->source = (struct mem_source){p, placing_get, placing_put};
    return ERR_OK;
}

static void assert_parted(struct bench *b, struct ranks *r)
{
    struct err e;

    assert_int_equal(run_same_as_dry(&b->w, r, &e), ERR_WRONG);
    if (strstr(e.text, "on dry") == NULL &&
        strstr(e.text, "another segment event") == NULL)
        fail_msg("%s", e.text);
}

/* The log of rank 1, spoiled: the last segment missing, of another size, full
** where it was not; given back without need; one too many. */
static void spoil(struct bench *b, struct ranks *r)
{
    struct segment_log *l = &r->one[1].segments, good = *l;
    struct mem_source s = segment_note(l, l->from);
    struct segment_event *last;
    struct err e;
    uint64_t addr;

    while (l->event[--l->n].put || l->event[l->n].addr == 0) continue;
    assert_parted(b, r);
    last = &l->event[l->n];
    l->n = good.n;
    last->bytes += 512;
    assert_parted(b, r);
    last->bytes -= 512;
    last->put = true;
    assert_parted(b, r);
    last->put = false;
    addr = last->addr;
    last->addr = 0;
    assert_parted(b, r);
    last->addr = addr;
    assert_int_equal(run_same_as_dry(&b->w, r, &e), ERR_OK);
    assert_int_equal(s.get(s.ctx, PLACING_ALIGN, &addr, &e), ERR_OK);
    assert_parted(b, r);
}

static void test_other_places(void **state)
{
    struct dev_ops ops = dev_cpu;
    struct step_data d;
    struct bench b;
    struct err e;
    struct ranks r = {.w = &b.w, .ops = &ops, .data = &d, .waves = 2,
                      .trace = true};
    size_t i = 0;

    (void)state;
    ops.open = placing_open;
    bench_open(&b, "ragged.cp2.ep2");
    assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
    r.routing = &b.c.routing;
    assert_int_equal(ranks_run(&r, &e), ERR_OK);
    assert_int_equal(run_same_as_dry(&b.w, &r, &e), ERR_OK);
    while (r.one[1].segments.event[i].addr != 0)    /* it was full once */
        assert_true(++i < r.one[1].segments.n);
    spoil(&b, &r);
    ranks_close(&r);
    run_data_free(&d);
    bench_close(&b);
    for (i = 0; i < 2; i++) munmap(placing[i].room, PLACING_ROOM);
}

/* One pair on its way to another rank than the one that got it is seen. */
static void test_other_routes(void **state)
{
    struct step_data d;
    struct bench b;
    struct err e;
    struct ranks r = {.w = &b.w, .ops = &dev_cpu, .data = &d, .waves = 2,
                      .trace = true};
    int64_t *sent, last;

    (void)state;
    bench_open(&b, "ragged.cp2.ep2");
    assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
    r.routing = &b.c.routing;
    assert_int_equal(ranks_run(&r, &e), ERR_OK);
    assert_int_equal(r.good, 2);
    assert_int_equal(run_same_as_dry(&b.w, &r, &e), ERR_OK);
    sent = r.one[0].sent + 3 * 8;           /* wave 0, layer 3 */
    last = sent[0] > 0 ? 0 : 1;
    sent[last]--;
    sent[7]++;
    assert_int_equal(run_same_as_dry(&b.w, &r, &e), ERR_WRONG);
    assert_non_null(strstr(e.text, "on dry"));
    sent[last]++;
    sent[7]--;
    r.one[1].wave[1].got.peak.allocated += 512;
    assert_int_equal(run_same_as_dry(&b.w, &r, &e), ERR_WRONG);
    assert_non_null(strstr(e.text, "rank 1: wave 1: the peak is"));
    ranks_close(&r);
    run_data_free(&d);
    bench_close(&b);
}

/* In waves without fault nothing is found. */
static void test_all_finite(void **state)
{
    static const char *const name[] = {"ragged.cp2.ep2", "fork.cut-3",
                                       "roots.cp1.ep1"};
    int64_t i, k, n;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct step_data d;
        struct bench b;
        struct err e;
        struct ranks r = {.w = &b.w, .ops = &dev_cpu, .data = &d, .waves = 2,
                          .watch_from = 1};

        bench_open(&b, name[i]);
        assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
        r.routing = &b.c.routing;
        assert_int_equal(ranks_run(&r, &e), ERR_OK);
        for (n = 0; n < 2; n++)
            for (k = 0; k < b.w.plan->cp; k++)
                assert_null(r.one[k].wave[n].got.found.kernel);
        ranks_close(&r);
        run_data_free(&d);
        bench_close(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_places),
        cmocka_unit_test(test_other_routes),
        cmocka_unit_test(test_all_finite),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
