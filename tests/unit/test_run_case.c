/*
** A case on a device that computes: what it is given to train on, what runs
** out of memory at any segment, and numbers that are none. TSan looks at it
** too: its ranks are threads.
*/
#include <math.h>

#include "failing_source.h"
#include "run_bench.h"

/* What runs here is the smaller, that TSan can follow. */
static int setup_few(void **state)
{
    static const char *const name[] = {"ragged.cp1.ep1", "ragged.cp2.ep2"};
    static const int64_t length[] = {1, 17, 30};
    struct err e;
    int i, rc = setup(state);

    for (i = 0; rc == 0 && i < 2; i++) {
        struct batch *b = &tiny->kase[case_of(name[i])].batch;

        batch_free(b);
        rc = batch_from_lengths(length, 3, b, &e);
    }
    return rc;
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

/* ---- numbers that are none ----------------------------------------------- */

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_targets), cmocka_unit_test(test_labels),
        cmocka_unit_test(test_no_target),
        cmocka_unit_test(test_every_segment_fails),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, setup_few, teardown);
}
