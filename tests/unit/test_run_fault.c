/* Every n-th host allocation fails while a case with everything beside its
** records is run on the cpu device, by one rank: exit code 1 that says so, or
** the rows of a run without a fault; no leak, no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
