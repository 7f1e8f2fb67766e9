/*
** Ranks that are simulated at once give what they give in turn: the same bytes
** and the same failing place every time; and so do trials for a budget. TSan
** looks at it too.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "fit/grant.h"
#include "sweep.h"

static struct shape shape_of(int64_t cp)
{
    static const int64_t length[] = {7000, 3000, 500};
    struct shape s;
    struct err e;

    memset(&s, 0, sizeof s);
    assert_int_equal(model_load("lua/models/Qwen3.6-35B-A3B.json", 4,
                                &s.model, &e), 0);
    assert_int_equal(batch_from_lengths(length, 3, &s.batch, &e), 0);
    s.options = (struct plan_options){.cp = cp, .ep = cp, .tp = 1,
                                      .profile = PLAN_NEW, .owned_ms = -1};
    s.lora_rank = 8;
    s.head_rows = -1;
    s.routing = (struct routing){.kind = ROUTING_CV, .cv = 1, .seed = 5};
    return s;
}

static void same_every_time(int64_t cp)
{
    struct shape s = shape_of(cp);
    struct simulated first, x;
    struct err e;
    bool fits;
    int i, again = sweep(4, 1);

    assert_int_equal(simulate(&s, &s.batch, 0, &first, &e), 0);
    for (i = 0; i < again; i++) {
        assert_int_equal(simulate(&s, &s.batch, 0, &x, &e), 0);
        assert_memory_equal(&x, &first, offsetof(struct simulated, place));
        assert_string_equal(x.place, first.place);
        assert_int_equal(simulate_fits(&s, &s.batch, first.needed, &fits, &e),
                         0);
        assert_true(fits);
        assert_int_equal(simulate_fits(&s, &s.batch, first.needed / 2, &fits,
                                       &e), 0);
        assert_false(fits);
    }
    model_free(&s.model);
    batch_free(&s.batch);
}

/* Where some trials do not fit, the lowest of them must decide. */
static void test_trials_at_once(void **state)
{
    struct shape s = shape_of(2);
    struct grant first, x;
    struct err e;
    int i, again = sweep(1, 1);

    (void)state;
    assert_int_equal(grant_tokens(&s, 24000000000, 9000, &first, &e), 0);
    assert_true(first.tokens > 10000 && first.trials > 16);
    for (i = 0; i < again; i++) {
        assert_int_equal(grant_tokens(&s, 24000000000, 9000, &x, &e), 0);
        assert_int_equal(x.tokens, first.tokens);
        assert_int_equal(x.failure, first.failure);
        assert_int_equal(x.trials, first.trials);
    }
    model_free(&s.model);
    batch_free(&s.batch);
}

static void test_ranks_at_once(void **state)
{
    (void)state;
    same_every_time(1);
    same_every_time(2);
    same_every_time(8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_at_once),
        cmocka_unit_test(test_trials_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
