/* Estimators written in Lua: what they see, what they may return. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

/* Facts of the published real batch, with every optional part. */
static struct model model;
static struct stage local0 = {.local = true, .q = 52480, .k = 52480,
                              .q_len = 52480, .k_len = 52480,
                              .q_full = true};
static struct stage rank1[2] = {
    {.local = true, .q = 44314, .k = 44314, .q_len = 44352, .k_len = 44352,
     .q_full = true},
    {.q = 44314, .k = 16504, .q_len = 44352, .k_len = 16512, .q_full = true},
};
static struct stage *stages[2] = {&local0, rank1};
static int64_t attention[2] = {52480, 44314}, gdn[2] = {48194, 48600};
static int64_t n_stage[2] = {1, 2}, pending[5] = {1, 2, 3, 4, 5};
static struct price_group group = {
    .grad = true, .slot = "policy", .attention_rows = attention,
    .gdn_rows = gdn, .routed_rows = -1, .stage = stages, .n_stage = n_stage,
};
static struct price_facts facts = {
    .model = &model, .cp = 2, .ep = 2, .tp = 1, .pp = 1, .lora_rank = 8,
    .cold = true, .moe_stages = true, .routing_state = true,
    .cp_attention = true, .head_rows = 96794, .output_bytes = 17,
    .hybridep_held_rows = -1, .packed_length = -1, .q_block = 128,
    .k_block = 64, .pending = pending, .group = &group, .n_group = 1,
    .sequence_parallel = -1, .packed_rows = -1, .rank_rows = -1,
    .segments = -1, .gdn_executed_rows = -1,
};

static int load_model(void **state)
{
    struct err e;

    if (fixture_setup(state) != 0) return 1;
    return model_load("lua/models/Qwen3.6-35B-A3B.json", 4, &model, &e);
}

static int free_model(void **state)
{
    model_free(&model);
    return fixture_teardown(state);
}

static struct scenario_estimators *load(const char *text)
{
    struct scenario_estimators *s = NULL;
    struct err e;
    int rc;

    fixture_write("e.lua", text);
    rc = scenario_estimator_load(fixture_path("e.lua"), "lua",
                                 &fixture_limits, &s, &e);
    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    return s;
}

/* An estimator with this body of price(f). */
static int price(const char *body, struct estimate *out, struct err *e)
{
    char text[2048];
    struct scenario_estimators *s;
    int rc;

    snprintf(text, sizeof text, "return estimator{name = 'mine', price = "
             "function(f)\n%s\nend}", body);
    s = load(text);
    assert_int_equal(scenario_estimator_count(s), 1);
    assert_string_equal(scenario_estimator_name(s, 0), "mine");
    rc = scenario_estimator_call(s, 0, &facts, NULL, out, e);
    scenario_estimator_free(s);
    return rc;
}

static void test_facts(void **state)
{
    struct estimate x;
    struct err e;

    (void)state;
    assert_int_equal(price(
        "local p, m, g = f.parallel, f.model, f.groups[1]\n"
        "assert(f.format == 1 and f.layers == 4 and f.lora_rank == 8)\n"
        "assert(p.cp == 2 and p.ep == 2 and p.tp == 1 and p.pp == 1)\n"
        "assert(f.cold == true and f.moe_stages and f.routing_state)\n"
        "assert(f.softmax_offset == false and f.cp_attention == true)\n"
        "assert(f.head_rows == 96794 and f.output_bytes == 17)\n"
        "assert(f.hybridep_held_rows == nil and f.packed_length == nil)\n"
        "assert(f.block[1] == 128 and f.block[2] == 64 and #f.block == 2)\n"
        "assert(f.recompute == 'full' and #f.recompute_modules == 0)\n"
        "assert(f.wave == 'train' and f.compiled and f.segments == 1)\n"
        "assert(f.packed_rows == 96794 and f.rank_rows == 52480)\n"
        "assert(f.sequence_parallel == false and f.swiglu_widths == 3)\n"
        "assert(f.gdn_executed_rows == nil and f.output_rows == nil)\n"
        "assert(#f.adapter_pending == 5 and f.adapter_pending[5] == 5)\n"
        "assert(m.name == 'Qwen3.6-35B-A3B' and m.hidden == 2048)\n"
        "assert(m.experts == 256 and m.top_k == 8 and m.layers == 4)\n"
        "assert(table.concat(m.kinds, ' ') == 'gdn gdn gdn attention')\n"
        "assert(math.type(m.hidden) == 'integer' and m.attn_gate == true)\n"
        "assert(#f.groups == 1 and g.grad == true and g.slot == 'policy')\n"
        "assert(g.attention_rows[2] == 44314 and g.gdn_rows[1] == 48194)\n"
        "assert(g.routed_rows == nil and g.attention_retained == nil)\n"
        "assert(#g.stages == 2 and #g.stages[1] == 1 and #g.stages[2] == 2)\n"
        "local s = g.stages[2][2]\n"
        "assert(s['local'] == false and s.q == 44314 and s.k == 16504 and\n"
        "       s.q_len == 44352 and s.k_len == 16512 and s.q_full)\n"
        "f.layers = 0 g.slot = nil\n"               /* a copy: no harm */
        "return {raw = 5}", &x, &e), ERR_OK);
    assert_int_equal(x.raw, 5);
}

/* What FACTS.json may lack is nil or false; what it may have is there. */
static void test_other_facts(void **state)
{
    struct price_facts f = facts;
    struct price_group g = group;
    int64_t retained[2] = {7, 8};
    struct scenario_estimators *s = load(
        "estimator{name = 'a', price = function(f)\n"
        "assert(f.adapter_pending == false and f.hybridep_held_rows == 0)\n"
        "assert(f.packed_length == 10 and f.groups[1].stages == nil)\n"
        "assert(f.groups[1].attention_retained[2] == 8)\n"
        "assert(f.groups[1].routed_rows == 9 and not f.groups[1].grad)\n"
        "return {raw = 0} end}");
    struct estimate x;
    struct err e;

    (void)state;
    g.stage = NULL;
    g.attention_retained = retained;
    g.routed_rows = 9;
    g.grad = false;
    f.group = &g;
    f.pending = NULL;
    f.hybridep_held_rows = 0;
    f.packed_length = 10;
    if (scenario_estimator_call(s, 0, &f, NULL, &x, &e) != ERR_OK)
        fail_msg("%s", e.text);
    scenario_estimator_free(s);
}

/* What is drawn goes by the call alone, not by those before it, nor by what
** the script makes of math. */
static void test_drawn(void **state)
{
    struct scenario_estimators *s = load(
        "math.randomseed(7) math.randomseed = nil\n"
        "estimator{name = 'a', price = function(f)\n"
        "return {raw = math.random(1 << 40)} end}");
    struct estimate x, y;
    struct err e;

    (void)state;
    assert_int_equal(scenario_estimator_call(s, 0, &facts, NULL, &x, &e),
                     ERR_OK);
    assert_int_equal(scenario_estimator_call(s, 0, &facts, NULL, &y, &e),
                     ERR_OK);
    assert_int_equal(x.raw, y.raw);
    scenario_estimator_free(s);
}

/* And what a run knows besides: the case, its numbers, and of routing. */
static void test_known(void **state)
{
    static const int64_t last[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct scenario_known k = {"s", "c", "f32", 3, 0.5, NULL};
    struct scenario_estimators *s = load(
        "estimator{name = 'a', price = function(f)\n"
        "assert(f.dtype == 'f32' and f.case.scenario == 's')\n"
        "assert(f.case.name == 'c' and f.case.wave == 3)\n"
        "local l = f.known.last_pairs\n"
        "return {raw = f.known.load_cv == 0.5 and\n"
        "              (l and #l * 100 + #l[2] * 10 + l[2][4] or 1) or 0}\n"
        "end}");
    struct estimate x;
    struct err e;

    (void)state;
    assert_int_equal(scenario_estimator_call(s, 0, &facts, &k, &x, &e),
                     ERR_OK);
    assert_int_equal(x.raw, 1);
    k.last_pairs = last;
    assert_int_equal(scenario_estimator_call(s, 0, &facts, &k, &x, &e),
                     ERR_OK);
    assert_int_equal(x.raw, 248);
    scenario_estimator_free(s);
}

static void test_results(void **state)
{
    struct estimate x;
    struct err e;

    (void)state;
    assert_int_equal(price("return {raw = 1009}", &x, &e), ERR_OK);
    assert_true(x.supported);
    assert_string_equal(x.name, "mine");
    assert_int_equal(x.raw, 1009);
    assert_int_equal(x.admitted, 1109);         /* floor(1109.9) */
    assert_int_equal(x.term[CAT_OTHER], 1009);
    assert_int_equal(x.binding_rank, -1);
    assert_int_equal(x.n_rank, 0);

    assert_int_equal(price("return {raw = 30.0, terms = {boundaries = 28, "
                           "gdn = 4, attention = -2}}", &x, &e), ERR_OK);
    assert_int_equal(x.raw, 30);
    assert_int_equal(x.term[CAT_BOUNDARIES], 28);
    assert_int_equal(x.term[CAT_GDN], 4);
    assert_int_equal(x.term[CAT_ATTENTION], -2);
    assert_int_equal(x.term[CAT_OTHER], 0);

    assert_int_equal(price("return nil, 'only for small models'", &x, &e),
                     ERR_OK);
    assert_false(x.supported);
    assert_string_equal(x.reason, "only for small models");
    assert_int_equal(x.raw, 0);

    assert_int_equal(price("return {raw = 1 << 53}", &x, &e), ERR_OK);
    assert_int_equal(x.admitted, INT64_C(9907919180215091));
}

static void price_fails(const char *body, const char *rest)
{
    struct estimate x;
    struct err e;
    char wanted[512], first[512];

    assert_int_equal(price(body, &x, &e), ERR_INPUT);
    snprintf(wanted, sizeof wanted, "%s/e.lua%s", fixture_dir, rest);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(e.text, "\n"), e.text);
    assert_string_equal(first, wanted);
}

static void test_bad_results(void **state)
{
    (void)state;
    price_fails("return 5", ": estimator 'mine': must be a table, not 5");
    price_fails("return {}", ": estimator 'mine': 'raw' is missing");
    price_fails("return nil", ": estimator 'mine': returned nil without a "
                "reason (return nil, \"why\")");
    price_fails("return {raw = 1.5}",
                ":2: estimator 'mine': raw: must be an integer, not 1.5");
    price_fails("return {raw = -1}", ":2: estimator 'mine': raw: must be from "
                "0 to 9007199254740992, not -1");
    price_fails("return {raws = 1}", ":2: estimator 'mine': unknown key "
                "'raws' (did you mean 'raw'?)");
    price_fails("return {raw = 5,\nterms = {gdn = 4}}",
                ":3: estimator 'mine': terms: sum to 4, but raw is 5");
    price_fails("return {raw = 5, terms = {gdm = 5}}", ":2: estimator 'mine'"
                ": terms: unknown key 'gdm' (did you mean 'gdn'?)");
    price_fails("return {raw = 5, terms = {gdn = '5'}}", ":2: estimator "
                "'mine': terms: gdn: must be an integer, not '5'");
    price_fails("return f.x.y",
                ":2: attempt to index a nil value (field 'x')");
    price_fails("while true do end", ":2: the script runs more than 2 million "
                "instructions (does a loop never end?)");
}

/* Each call has the whole allowance, and leaves nothing behind. */
static void test_many_calls(void **state)
{
    struct scenario_estimators *s = load(
        "local n = 0 estimator{name = 'a', price = function(f) n = n + 1 "
        "for i = 1, 100000 do end return {raw = n} end} "
        "estimator{name = 'b', price = function() error('b') end}");
    struct estimate x;
    struct err e;

    (void)state;
    assert_int_equal(scenario_estimator_count(s), 2);
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(scenario_estimator_call(s, 0, &facts, NULL, &x, &e),
                         ERR_OK);
        assert_int_equal(x.raw, i);
        assert_int_equal(scenario_estimator_call(s, 1, &facts, NULL, &x, &e),
                         ERR_INPUT);
    }
    scenario_estimator_free(s);
}

static void test_in_scenario(void **state)
{
    struct scenario *s = fixture_good(
        "estimator{name = 'own', price = function(f) return {raw = "
        "f.layers} end} " MINIMAL);
    struct estimate x;
    struct err e;

    (void)state;
    assert_int_equal(scenario_estimator_count(s->estimators), 1);
    assert_int_equal(scenario_estimator_call(s->estimators, 0, &facts, NULL, &x,
                                             &e), ERR_OK);
    assert_int_equal(x.raw, 4);
    scenario_free(s);
    assert_int_equal(scenario_estimator_count(NULL), 0);
    scenario_estimator_free(NULL);
    scenario_free(NULL);
}

static void load_fails(const char *text, const char *rest)
{
    struct scenario_estimators *s = NULL;
    struct err e;
    char wanted[512], first[512];

    fixture_write("e.lua", text);
    assert_int_equal(scenario_estimator_load(fixture_path("e.lua"), "lua",
                                             &fixture_limits, &s, &e),
                     ERR_INPUT);
    assert_null(s);
    snprintf(wanted, sizeof wanted, "%s/e.lua%s", fixture_dir, rest);
    snprintf(first, sizeof first, "%.*s", (int)strcspn(e.text, "\n"), e.text);
    assert_string_equal(first, wanted);
}

static void test_declarations(void **state)
{
    (void)state;
    load_fails("", ": declares no estimator (estimator{name = ..., price = "
               "function(facts) ... end})");
    load_fails("estimator{name = 'x'}", ":1: estimator: price: must be a "
               "function of the facts, not nil");
    load_fails("estimator{price = print}",
               ":1: estimator: 'name' is missing");
    load_fails("estimator{name = 3, price = print}",
               ":1: estimator: name: must be a string");
    load_fails("estimator{name = 'a,b', price = print}", ":1: estimator: "
               "name: may hold 1 to 63 letters, digits and ._+-");
    load_fails("estimator{name = 'per-rank', price = print}", ":1: estimator:"
               " name: 'per-rank' is taken by the program");
    load_fails("for i = 1, 2 do estimator{name = 'a', price = print} end",
               ":1: estimator: name: 'a' is declared twice");
    load_fails("estimator{nam = 'a', price = print}", ":1: estimator: "
               "unknown key 'nam' (did you mean 'name'?)");
    load_fails("for i = 1, 99 do estimator{name = 'a' .. i, price = print} "
               "end", ":1: more than 64 estimators");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_facts),
        cmocka_unit_test(test_other_facts),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_drawn),
        cmocka_unit_test(test_results),
        cmocka_unit_test(test_bad_results),
        cmocka_unit_test(test_many_calls),
        cmocka_unit_test(test_in_scenario),
        cmocka_unit_test(test_declarations),
    };

    fixture_limits.instructions = 2000000;
    return cmocka_run_group_tests(tests, load_model, free_model);
}
