/*
** A case on a device that computes: what it is given to train on, what runs
** out of memory at any segment, and that it is really held beside dry.
*/
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <cmocka.h>

#include "failing_source.h"
#include "run/ranks.h"

static atomic_int interrupt;
static struct scenario *tiny;

static int setup(void **state)
{
    struct scenario_limits limits = {0};
    struct err e;

    (void)state;
    return scenario_load("lua/scenarios/tiny-cpu.lua", "lua", NULL, 0,
                         &limits, &tiny, &e);
}

static int teardown(void **state)
{
    (void)state;
    scenario_free(tiny);
    return 0;
}

static int64_t case_of(const char *name)
{
    int64_t i = 0;

    while (i < tiny->n_case && strcmp(tiny->kase[i].name, name) != 0) i++;
    assert_true(i < tiny->n_case);
    return i;
}

/* ---- a case at work ----------------------------------------------------- */

struct bench {
    struct run_context x;
    struct run_work w;
    struct scenario_case c;     /* a copy to change */
    struct plan plan;
};

static void bench_open(struct bench *b, const char *name)
{
    struct plan_options o = {.tp = 1, .profile = PLAN_NEW, .owned_ms = -1};
    struct err e;

    memset(b, 0, sizeof *b);
    b->x = (struct run_context){.device = "cpu", .ops = &dev_cpu,
                                .interrupt = &interrupt};
    b->c = tiny->kase[case_of(name)];
    b->w.x = &b->x;
    b->w.s = tiny;
    b->w.c = &b->c;
    o.cp = b->c.cp;
    o.ep = b->c.ep;
    assert_int_equal(model_load(b->c.model_path, 0, &b->w.model, &e), 0);
    assert_int_equal(plan_make(&b->w.model, &b->c.batch, &o, &b->plan, &e),
                     0);
    b->w.plan = &b->plan;
}

static void bench_close(struct bench *b)
{
    plan_free(&b->plan);
    model_free(&b->w.model);
}

/* ---- tokens ------------------------------------------------------------- */

/* Segments of 70 rows, 5 and 133 below it, 64 below the 5: the packed row is
** 70 | 5 | 64 | 133. */
static void test_targets(void **state)
{
    struct step_data d;
    struct bench b;
    struct err e;
    int64_t i, n = 0;
    double sum = 0;

    (void)state;
    bench_open(&b, "fork.cp2.ep2");
    assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
    for (i = 0; i < 272; i++) {
        bool none = i == 69 || i == 138 || i == 271;    /* a fork, two ends */

        assert_true(d.ids[i] >= 0 && d.ids[i] < 256);
        assert_true((d.weight[i] == 0) == none);
        assert_int_equal(d.target[i], d.ids[none ? i : i + 1]);
        n += !none;
        sum += d.weight[i];
    }
    assert_int_equal(n, 269);
    assert_true(fabs(sum - 1) < 1e-13);
    run_data_free(&d);
    bench_close(&b);
}

/* The first rows of each rank are labelled. */
static void test_labels(void **state)
{
    struct step_data d;
    struct bench b;
    struct err e;
    int64_t rank, i, k, n, row;
    int32_t own[272];

    (void)state;
    bench_open(&b, "fork.cp2.ep2");
    b.c.head_rows = 10;
    assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
    for (rank = 0; rank < 2; rank++) {
        const struct rank_plan *p = &b.plan.rank[rank];

        plan_gather(&b.plan, rank, LAYER_ATTENTION, d.target, sizeof *own,
                    own);
        for (i = n = 0; i < p->n_attention; i++)
            for (k = 0; k < p->attention[i].len; k++, n++) {
                row = p->attention[i].start + k;
                assert_int_equal(own[n], d.target[row]);
                assert_int_equal(d.target[row] >= 0, n < 10);
                if (n >= 10) assert_true(d.weight[row] == 0);
            }
    }
    run_data_free(&d);
    bench_close(&b);
}

/* One-token sequences alone: nothing to learn, and no division by zero. */
static void test_no_target(void **state)
{
    static const int64_t ones[] = {1, 1, 1};
    struct plan_options o = {.cp = 1, .ep = 1, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct batch batch;
    struct step_data d;
    struct bench b;
    struct err e;
    int i;

    (void)state;
    bench_open(&b, "ragged.cp1.ep1");
    plan_free(&b.plan);
    assert_int_equal(batch_from_lengths(ones, 3, &batch, &e), ERR_OK);
    memset(&b.plan, 0, sizeof b.plan);
    assert_int_equal(plan_make(&b.w.model, &batch, &o, &b.plan, &e), ERR_OK);
    assert_int_equal(run_data_make(&b.w, &d, &e), ERR_OK);
    for (i = 0; i < 3; i++) {
        assert_true(d.weight[i] == 0);
        assert_int_equal(d.target[i], d.ids[i]);
    }
    run_data_free(&d);
    bench_close(&b);
    batch_free(&batch);
}

/* ---- memory runs out ---------------------------------------------------- */

/* The cpu device with a source that fails from a rank's n-th segment on. */
static struct { int64_t rank, n; } plant;
static struct failing failing[2];

static int failing_open(const struct dev_options *o, struct dev **out,
                        struct err *e)
{
    struct failing *f = &failing[o->rank];
    int rc = dev_cpu.open(o, out, e);

    if (rc != ERR_OK) return rc;
    *f = (struct failing){(*out)->source,
                          o->rank == plant.rank ? plant.n : INT64_MAX, 0};
    (*out)->source = (struct mem_source){f, failing_get, failing_put};
    return ERR_OK;
}

/* Runs a case with the plant; false when it was out of reach. A failure is a
** record with exit code 6. */
static bool runs_out(const char *name)
{
    struct dev_ops ops = dev_cpu;
    struct run_context x = {.device = "cpu", .ops = &ops,
                            .interrupt = &interrupt};
    struct case_result r;
    bool failed;

    ops.open = failing_open;
    ops.memory = NULL;
    run_case(&x, tiny, case_of(name), &r);
    assert_int_equal(failing[0].live, 0);
    assert_int_equal(failing[1].live, 0);
    failed = r.code != ERR_OK;
    if (failed && (r.code != ERR_OOM || r.status != STATUS_OOM ||
                   strstr(r.message, "rank") == NULL))
        fail_msg("%s: segment %d: code %d: %s", name, (int)plant.n, r.code,
                 r.message);
    assert_non_null(strstr(buf_text(&r.rows.file[RECORD_CASES]),
                           failed ? ",oom," : ",ok,"));
    case_result_free(&r);
    return failed;
}

static void test_every_segment_fails(void **state)
{
    static const char *const names[] = {"ragged.cp1.ep1", "ragged.cp2.ep2"};
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        plant.rank = i;
        plant.n = 0;
        while (runs_out(names[i])) assert_true(++plant.n < 1000);
        if (plant.n <= 6) fail_msg("only %d segments", (int)plant.n);
    }
}

/* Less memory than dry says is needed: refused, with the bytes. */
static int little_memory(struct dev *d, uint64_t *unused, uint64_t *total,
                         struct err *e)
{
    (void)d;
    (void)e;
    *unused = *total = 400000000;
    return ERR_OK;
}

static void test_refused(void **state)
{
    struct dev_ops ops = dev_cpu;
    struct run_context x = {.device = "cpu", .ops = &ops,
                            .interrupt = &interrupt};
    struct case_result r;

    (void)state;
    ops.memory = little_memory;
    run_case(&x, tiny, case_of("ragged.cp2.ep2"), &r);
    assert_int_equal(r.code, ERR_OOM);
    assert_int_equal(r.status, STATUS_OOM);
    assert_non_null(strstr(r.message, "2 ranks need 4"));
    assert_non_null(strstr(r.message, "400000000 are free"));
    case_result_free(&r);
    run_case(&x, tiny, case_of("ragged.cp1.ep1"), &r);
    assert_int_equal(r.code, ERR_OK);
    case_result_free(&r);
}

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

/* A learning rate that ends in numbers which are none: exit 7. The first
** product with weights of 1e30 does not fit f32, and is named. */
static void test_not_finite(void **state)
{
    static const char *const name[] = {"ragged.cp1.ep1", "ragged.cp2.ep2"};
    struct run_context x = {.device = "cpu", .ops = &dev_cpu,
                            .interrupt = &interrupt};
    struct case_result r;
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct scenario_case *c = &tiny->kase[case_of(name[i])];
        double rate = c->learning_rate;

        c->learning_rate = 1e30;
        run_case(&x, tiny, case_of(name[i]), &r);
        c->learning_rate = rate;
        assert_int_equal(r.code, ERR_WRONG);
        assert_int_equal(r.status, STATUS_WRONG);
        assert_non_null(strstr(r.message, "wave 1: the loss is not a finite "
                               "number (is learning_rate too high?); the "
                               "first output that is not finite: wave 1, "
                               "forward, layer 0, gdn.in_proj (kernel gemm, "
                               "rank 0)"));
        assert_non_null(strstr(buf_text(&r.rows.file[RECORD_CASES]),
                               ",wrong,"));
        case_result_free(&r);
    }
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
        cmocka_unit_test(test_targets), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_no_target),
        cmocka_unit_test(test_every_segment_fails),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_other_places),
        cmocka_unit_test(test_other_routes),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_all_finite),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
