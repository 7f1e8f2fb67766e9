/* What a good scenario becomes: defaults, options, names, batches, paths. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

static struct scenario *load(const char *text)
{
    struct scenario *s;
    struct err e;
    int rc = fixture_load(text, &s, &e);

    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    return s;
}

static void test_defaults(void **state)
{
    struct scenario *s = load(MINIMAL);
    struct scenario_case *c = s->kase;

    (void)state;
    assert_string_equal(s->name, "s");
    assert_null(s->about);
    assert_int_equal(s->n_option, 0);
    assert_int_equal(s->n_case, 1);
    assert_null(s->estimators);
    assert_string_equal(c->name, "a");
    assert_null(c->about);
    assert_string_equal(c->model_path, "lua/models/Qwen3.6-35B-A3B.json");
    assert_int_equal(c->layers, 0);
    assert_true(c->cp == 1 && c->ep == 1 && c->tp == 1 && c->pp == 1);
    assert_int_equal(c->lora_rank, 8);
    assert_true(c->lora_alpha == 32);
    assert_int_equal(c->waves, 1);
    assert_string_equal(c->dtype, "bf16");
    assert_string_equal(c->weights, "random");
    assert_null(c->tokens);
    assert_int_equal(c->batch_kind, BATCH_LENGTHS);
    assert_int_equal(c->batch.tokens, 10);
    assert_int_equal(c->batch.n_seq, 1);
    assert_int_equal(c->cut, 0);
    assert_int_equal(c->profile, PLAN_NEW);
    assert_int_equal(c->head_rows, -1);
    assert_int_equal(c->price_head_rows, -1);
    assert_int_equal(c->hybridep_held_rows, -1);
    assert_int_equal(c->routed_rows, -1);
    assert_int_equal(c->routing.kind, ROUTING_BALANCED);
    assert_true(c->cp_attention && !c->softmax_offset);
    assert_int_equal(c->device_bytes, 0);
    assert_false(c->has_tolerance);
    assert_true(isnan(c->published_before_cold));
    assert_true(isnan(c->published_after_warm));
    scenario_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
