/* Every n-th host allocation fails while two trials run on one desk: exit code
** 1, or the answer of a trial without a fault; no leak, no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fit/trial.h"
#include "tests/unit/fault.h"

static int two_trials(const struct shape *s, const struct ground *g,
                      struct trial out[2], struct err *e)
{
    struct ranks_desk desk = {NULL, NULL, NULL, NULL};
    int rc = trial_run(s, INT64_C(1) << 30, 7, g, &desk, &out[0], e);

    if (rc == ERR_OK)
        rc = trial_run(s, INT64_C(1) << 30, 8, g, &desk, &out[1], e);
    ranks_desk_close(&desk);
    return rc;
}

static void test_every_allocation_fails_once(void **state)
{
    static const int64_t length[] = {3, 4};
    struct shape s = {
        .options = {.cp = 2, .tp = 1, .ep = 2, .profile = PLAN_NEW,
                    .owned_ms = -1},
        .lora_rank = 2, .head_rows = -1};
    struct trial whole[2] = {{0}}, got[2] = {{0}};
    struct ground g = {0};
    struct err e;
    size_t n;
    bool fits;

    (void)state;
    assert_int_equal(model_load("lua/models/tiny.json", 2, &s.model, &e), 0);
    assert_int_equal(batch_from_lengths(length, 2, &s.batch, &e), 0);
    assert_int_equal(trial_ground(&s, INT64_C(1) << 30, 7, &g, &fits, &e), 0);
    assert_int_equal(two_trials(&s, &g, whole, &e), 0);
    assert_true(fits && whole[0].fits && whole[1].fits);
    for (n = 1;; n++) {
        bool reached;
        int rc;

        fault_set(n);
        rc = two_trials(&s, &g, got, &e);
        reached = fault_reached();
        fault_set(0);
        if (rc != ERR_OK) assert_int_equal(rc, ERR_RUN);
        for (int i = 0; i < 2 && rc == ERR_OK; i++) {
            assert_true(got[i].fits);
            assert_memory_equal(got[i].decisions, whole[i].decisions,
                                sizeof got[i].decisions);
        }
        if (!reached) break;
    }
    if (n < 50) fail_msg("only %zu allocations", n);
    shape_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_fails_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
