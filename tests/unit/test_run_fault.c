/* Every n-th host allocation fails while a case with everything beside its
** records is run on the cpu device, by one rank: exit code 1 that says so, or
** the rows of a run without a fault; no leak, no crash. And while workers run
** cases: all of them end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>
#include <cmocka.h>

#include "run/run.h"
#include "tests/unit/fault.h"
#include "tests/unit/script_fixture.h"

static const char everything[] =
    "return {name = 's', cases = {{name = 'a', model = 'tiny', layers = 1,\n"
    "  dtype = 'f32', seed = 1, lora_rank = 1, learning_rate = 0.01,\n"
    "  waves = 1, batch = batch.lengths{1, 2}}}}";

static atomic_int interrupt;

/* The case with its n-th allocation failing; 0: none. */
static void run(const struct scenario *s, size_t n, struct case_result *r)
{
    static char folder[256];
    static const int64_t rows[] = {0, 2};
    struct run_context x = {.device = "cpu", .ops = &dev_cpu,
                            .interrupt = &interrupt, .snapshots = true,
                            .histograms = true, .dump_rows = rows,
                            .n_dump_rows = 2};

    snprintf(folder, sizeof folder, "%s", fixture_path("out"));
    x.dump = x.save_adapters = folder;
    fault_set(n);
    run_case(&x, s, 0, r);
}

static void test_every_allocation_fails_once(void **state)
{
    struct scenario *s = fixture_good(everything);
    struct case_result whole, r;
    size_t n;

    (void)state;
    run(s, 0, &whole);
    if (whole.code != ERR_OK) fail_msg("%s", whole.message);
    for (n = 1;; n++) {
        bool reached;

        run(s, n, &r);
        reached = fault_reached();
        if (reached && r.code != ERR_OK && r.code != ERR_RUN)
            fail_msg("%zu: code %d: %s", n, r.code, r.message);
        if (r.code == ERR_RUN && strstr(r.message, "memory") == NULL)
            fail_msg("%zu: %s", n, r.message);
        if (r.code == ERR_OK)
            assert_string_equal(buf_text(&r.rows.file[RECORD_RECORDS]),
                                buf_text(&whole.rows.file[RECORD_RECORDS]));
        case_result_free(&r);
        if (!reached) break;
    }
    fault_set(0);
    if (n < 500) fail_msg("only %zu allocations", n);
    case_result_free(&whole);
    scenario_free(s);
}

static int count_in_order(void *ctx, int64_t i, const struct case_result *r,
                          struct err *e)
{
    (void)r;
    (void)e;
    assert_int_equal(*(int64_t *)ctx, i);
    ++*(int64_t *)ctx;
    return ERR_OK;
}

/* A worker whose result cannot be kept is not waited for: what hangs is ended
** by the alarm. */
static void test_workers(void **state)
{
    enum { CASES = 3, SECONDS = 60 };
    struct scenario *s = fixture_good(
        "local function case(n) return {name = n, model = 'tiny',\n"
        "  layers = 1, batch = batch.lengths{3}} end\n"
        "return {cases = {case('a'), case('b'), case('c')}}");
    struct run_context x = {.device = "dry", .ops = &dev_dry,
                            .interrupt = &interrupt};
    struct run_job job[CASES];
    size_t n;

    (void)state;
    for (int i = 0; i < CASES; i++) job[i] = (struct run_job){s, i};
    for (n = 1;; n++) {
        int64_t done = 0;
        struct err e;
        int rc;

        alarm(SECONDS);
        fault_set(n);
        rc = run_jobs(&x, job, CASES, 2, count_in_order, &done, &e);
        if (rc == ERR_OK) assert_int_equal(done, CASES);
        else assert_int_equal(rc, ERR_RUN);
        if (!fault_reached()) break;
    }
    alarm(0);
    fault_set(0);
    if (n < 10) fail_msg("only %zu allocations", n);
    scenario_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
        cmocka_unit_test(test_workers),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
