/* Every n-th host allocation fails while a scenario with everything in it is
** loaded and its estimator called: exit code 1, or success where Lua could
** do without; no leak, no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/fault.h"
#include "tests/unit/script_fixture.h"

static const char everything[] =
    "estimator{name = 'e', price = function(f) return {raw = f.layers, terms "
    "= {gdn = f.layers}} end}\n"
    "local part = require 'part'\n"
    "local f = 'seq'\n"
    "local function case(n, b)\n"
    "  return {name = n, about = 'about', model = 'Qwen3.6-35B-A3B', cp = 2,\n"
    "    ep = 2, dtype = 'f32', weights = 'part.lua', tokens = 'part.lua',\n"
    "    batch = b, routing = n == 'h' and {histogram = 'h.csv'} or nil}\n"
    "end\n"
    "return {name = 'n', about = 'a', options = {o = {default = 'x', help = "
    "'h', values = {'x', 'y'}}}, cases = function(opt)\n"
    "  local list = {case('r', batch.random{count = 3, length = {2, 9}, seed "
    "= 1}), case('t', batch.tree{parents = {-1, 0}, lengths = {1, 2}}),\n"
    "    case('l', part), case('h', batch.sequences{file = f, select = "
    "{1, 0}})}\n"
    "  for i, b in ipairs(batch.pack{file = f, tokens = 6}) do\n"
    "    list[#list + 1] = case('p' .. i, b)\n"
    "  end\n"
    "  for k, v in pairs{b = 1, a = 2} do assert(k and v) end\n"
    "  return list\n"
    "end}";

static void write_files(void)
{
    fixture_write("s.lua", everything);
    fixture_write("part.lua", "return batch.layout{attention_rows = {9, 5}, "
                  "stages = {{{q = 9, k = 9}}, {{q = 5, k = 5}, {q = 5, k = "
                  "3}}}}");
    fixture_write("seq.csv", "tokens\n5\n6\n");
    fixture_write("h.csv", "wave,layer,rank,expert,rows\n0,1,0,3,7\n");
}

static int load_and_call(struct err *e)
{
    static enum layer_kind kind[1] = {LAYER_GDN};
    struct model m = {.name = "m", .layers = 1, .kind = kind};
    struct price_facts f = {.model = &m, .cp = 1};
    char option[] = "o=y", *setting[] = {option};
    struct scenario *s = NULL;
    struct estimate x;
    int rc = scenario_load(fixture_path("s.lua"), "lua", setting, 1,
                           &fixture_limits, &s, e);

    if (rc != ERR_OK) {
        assert_null(s);
        return rc;
    }
    assert_int_equal(s->n_case, 6);
    rc = scenario_estimator_call(s->estimators, 0, &f, NULL, &x, e);
    if (rc == ERR_OK) assert_int_equal(x.raw, 1);
    scenario_free(s);
    return rc;
}

static void test_load(void **state)
{
    struct err e;
    size_t n, failed = 0;

    (void)state;
    write_files();
    fault_set(0);
    assert_int_equal(load_and_call(&e), ERR_OK);
    for (n = 1;; n++) {
        int rc;
        fault_set(n);
        rc = load_and_call(&e);
        if (!fault_reached()) break;
        failed += rc != ERR_OK;
        if (rc != ERR_OK && rc != ERR_RUN)
            print_error("allocation %zu: %s\n", n, e.text);
        assert_true(rc == ERR_OK || rc == ERR_RUN);
        if (rc == ERR_RUN)
            assert_string_equal(e.text, "out of host memory");
    }
    fault_set(0);
    print_message("%zu of %zu allocations fail the load\n", failed, n - 1);
    assert_true(failed > 50);
    assert_int_equal(load_and_call(&e), ERR_OK);
}

/* The same with less and less memory that a script may have: where Lua cannot
** do without, collecting does not help either. */
static void test_limits(void **state)
{
    struct scenario_limits all = fixture_limits;
    struct err e;
    size_t failed = 0;
    int rc = ERR_INPUT;

    (void)state;
    write_files();
    fault_set(0);
    fixture_limits.memory_bytes = 1;
    for (; rc == ERR_INPUT; fixture_limits.memory_bytes += 499) {
        rc = load_and_call(&e);
        assert_true(rc == ERR_OK || rc == ERR_INPUT);
        if (rc == ERR_INPUT)
            assert_non_null(strstr(e.text, ": the script needs more than "));
        failed += rc != ERR_OK;
    }
    fixture_limits = all;
    assert_true(failed > 50);
}

static void test_estimators(void **state)
{
    struct scenario_estimators *s;
    struct err e;
    size_t n;

    (void)state;
    fixture_write("e.lua", "return estimator{name = 'e', price = print}");
    for (n = 1;; n++) {
        int rc;
        fault_set(n);
        s = NULL;
        rc = scenario_estimator_load(fixture_path("e.lua"), "lua",
                                     &fixture_limits, &s, &e);
        if (rc == ERR_OK) scenario_estimator_free(s);
        if (!fault_reached()) break;
        assert_true(rc == ERR_OK || rc == ERR_RUN);
    }
    fault_set(0);
    assert_true(n > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_load),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_estimators),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
