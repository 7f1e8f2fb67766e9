/* What a good scenario becomes: defaults, keys, options, files it names. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

static void test_defaults(void **state)
{
    struct scenario *s = fixture_good(MINIMAL);
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
    assert_int_equal(c->seed, 0);
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
    assert_int_equal(c->mode.recompute, RECOMPUTE_FULL);
    assert_int_equal(c->mode.wave, WAVE_TRAIN);
    assert_true(c->mode.modules == 0 && !c->mode.no_grad && !c->mode.eager);
    assert_int_equal(c->device_bytes, 0);
    assert_false(c->has_tolerance);
    assert_true(isnan(c->published_before_cold));
    assert_true(isnan(c->published_after_warm));
    scenario_free(s);
}

static const char every_key[] =
    "return {name = 'all', about = 'every key', cases = {{\n"
    "  name = 'x', about = 'y', model = 'Qwen3.6-27B.json', layers = 7,\n"
    "  cp = 4, ep = 4, tp = 3, pp = 5, lora_rank = 0, lora_alpha = 1.5,\n"
    "  waves = 3, dtype = 'f64', seed = 9, weights = 'w', tokens = 't.txt',\n"
    "  batch = batch.lengths{100, 50}, plan = {cut = 64, profile = 'old'},\n"
    "  head_rows = 6, price_head_rows = 0, output_bytes = 11,\n"
    "  hybridep_held_rows = 12, routing = {cv = 0.5, seed = 3},\n"
    "  softmax_offset = true, cp_attention = false,\n"
    "  recompute = 'selective', recompute_modules = {'moe', 'core_attn'},\n"
    "  grad = false, compiled = false, wave = 'hidden',\n"
    "  learning_rate = 0.25, device_bytes = '80G',\n"
    "  tolerance = {under = 1, over = 25.5},\n"
    "  published = {before_cold = 1, before_warm = -2, after_cold = 3,\n"
    "               after_warm = 4}}}}";

static void check_sizes(const struct scenario_case *c)
{
    assert_int_equal(c->layers, 7);
    assert_true(c->cp == 4 && c->ep == 4 && c->tp == 3 && c->pp == 5);
    assert_int_equal(c->lora_rank, 0);
    assert_true(c->lora_alpha == 1.5);
    assert_int_equal(c->waves, 3);
    assert_string_equal(c->dtype, "f64");
    assert_int_equal(c->seed, 9);
    assert_int_equal(c->batch.tokens, 150);
    assert_int_equal(c->batch.n_seg, 2);
    assert_int_equal(c->cut, 64);
    assert_int_equal(c->profile, PLAN_OLD);
    assert_int_equal(c->head_rows, 6);
    assert_int_equal(c->price_head_rows, 0);
    assert_int_equal(c->output_bytes, 11);
    assert_int_equal(c->hybridep_held_rows, 12);
}

static void check_mode(const struct mode *o)
{
    assert_int_equal(o->tp, 3);
    assert_int_equal(o->recompute, RECOMPUTE_SELECTIVE);
    assert_int_equal(o->modules, MODULE_MOE + MODULE_CORE_ATTN);
    assert_int_equal(o->wave, WAVE_HIDDEN);
    assert_true(o->no_grad && o->eager);
}

static void test_every_key(void **state)
{
    struct scenario *s;
    struct scenario_case *c;
    char path[128];

    (void)state;
    fixture_write("w", "");
    fixture_write("t.txt", "text");
    s = fixture_good(every_key);
    c = s->kase;
    assert_string_equal(s->name, "all");
    assert_string_equal(s->about, "every key");
    assert_string_equal(c->name, "x");
    assert_string_equal(c->about, "y");
    assert_string_equal(c->model_path, "lua/models/Qwen3.6-27B.json");
    check_sizes(c);
    snprintf(path, sizeof path, "%s/w", fixture_dir);
    assert_string_equal(c->weights, path);
    snprintf(path, sizeof path, "%s/t.txt", fixture_dir);
    assert_string_equal(c->tokens, path);
    assert_int_equal(c->routing.kind, ROUTING_CV);
    assert_true(c->routing.cv == 0.5 && c->routing.seed == 3);
    assert_true(c->softmax_offset && !c->cp_attention);
    assert_true(c->learning_rate == 0.25);
    check_mode(&c->mode);
    assert_int_equal(c->device_bytes, 80000000000);
    assert_true(c->has_tolerance);
    assert_true(c->tolerance_under == 1 && c->tolerance_over == 25.5);
    assert_true(c->published_before_cold == 1);
    assert_true(c->published_before_warm == -2);
    assert_true(c->published_after_cold == 3);
    assert_true(c->published_after_warm == 4);
    scenario_free(s);
}

static void test_routing(void **state)
{
    struct scenario *s;

    (void)state;
    fixture_write("h.csv", "wave,layer,rank,expert,rows\n0,1,0,3,7\n");
    s = fixture_good(
        "local function c(n, r) return {name = n, batch = batch.lengths{8}, "
        "model = 'Qwen3.6-35B-A3B', cp = 2, ep = 2, routing = r} end "
        "return {cases = {c('b', 'balanced'), c('s', {share = 1.25, rank = "
        "1}), c('h', {histogram = 'h.csv'})}}");
    assert_int_equal(s->kase[0].routing.kind, ROUTING_BALANCED);
    assert_int_equal(s->kase[1].routing.kind, ROUTING_SHARE);
    assert_true(s->kase[1].routing.share == 1.25);
    assert_int_equal(s->kase[1].routing.share_rank, 1);
    assert_int_equal(s->kase[2].routing.kind, ROUTING_HISTOGRAM);
    assert_int_equal(s->kase[2].routing.layers, 2);
    assert_int_equal(s->kase[2].routing.experts, 4);
    assert_int_equal(s->kase[2].routing.rows[7], 7);
    scenario_free(s);
}

/* ---- options -------------------------------------------------------- */

static const char with_options[] =
    "return {options = {\n"
    "  zero = {default = 0.5, min = 0, help = 'a number'},\n"
    "  rows = {default = 5, min = 1, max = 9},\n"
    "  kind = {default = 'p', values = {'p', 'q', 'r'}},\n"
    "  ['on-off'] = {default = false},\n"
    "  real = {default = 2, type = 'number', max = 3},\n"
    "}, cases = function(o)\n"
    "  local name = o.rows .. o.kind .. tostring(o['on-off']) .. o.zero ..\n"
    "               '_' .. math.type(o.rows) .. '_' .. math.type(o.real)\n"
    "  return {{name = name, model = 'Qwen3.6-35B-A3B',\n"
    "           batch = batch.lengths{o.rows}}}\n"
    "end}\n";

static void check_option(const struct scenario_option *o, const char *name,
                         const char *type, const char *value,
                         const char *initial, const char *allowed)
{
    assert_string_equal(o->name, name);
    assert_string_equal(o->type, type);
    assert_string_equal(o->value, value);
    assert_string_equal(o->default_value, initial);
    if (allowed == NULL)
        assert_null(o->allowed);
    else
        assert_string_equal(o->allowed, allowed);
}

static void test_options(void **state)
{
    char rows[] = "rows=7", early[] = "kind=r", late[] = "kind=q",
         flag[] = "on-off=true", real[] = "real=1e-3";
    char *setting[] = {rows, early, late, flag, real};
    struct scenario *s = fixture_good(with_options);
    struct err e;

    (void)state;
    assert_string_equal(s->kase->name, "5pfalse0.5_integer_integer");
    scenario_free(s);
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", setting, 5,
                                   &fixture_limits, &s, &e), ERR_OK);
    assert_string_equal(s->kase->name, "7qtrue0.5_integer_float");
    assert_int_equal(s->n_option, 5);
    check_option(&s->option[0], "kind", "string", "q", "p", "p, q or r");
    check_option(&s->option[1], "on-off", "boolean", "true", "false", NULL);
    check_option(&s->option[2], "real", "number", "1e-3", "2", "at most 3");
    check_option(&s->option[3], "rows", "int", "7", "5", "1 to 9");
    check_option(&s->option[4], "zero", "number", "0.5", "0.5",
                 "at least 0");
    assert_string_equal(s->option[4].help, "a number");
    assert_null(s->option[0].help);
    scenario_free(s);
}

/* A bad setting is a usage error, with this text behind the path. */
static void check_setting(const char *text, const char *wanted)
{
    char copy[64], *setting[] = {copy}, full[512];
    struct scenario *s;
    struct err e;

    snprintf(copy, sizeof copy, "%s", text);
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", setting, 1,
                                   &fixture_limits, &s, &e), ERR_USAGE);
    assert_int_equal(e.code, ERR_USAGE);
    snprintf(full, sizeof full, "%s/s.lua%s", fixture_dir, wanted);
    assert_string_equal(e.text, full);
}

static void test_bad_settings(void **state)
{
    (void)state;
    fixture_write("s.lua", with_options);
    check_setting("row=1", ": unknown option 'row' (did you mean 'rows'?)");
    check_setting("rows", ": 'rows' is no setting (as in rows=value)");
    check_setting("rows=", ":3: option 'rows': must be an integer, not ''");
    check_setting("rows=1.5",
                  ":3: option 'rows': must be an integer, not '1.5'");
    check_setting("rows=10",
                  ":3: option 'rows': must be at most 9, not 10");
    check_setting("rows=0", ":3: option 'rows': must be at least 1, not 0");
    check_setting("kind=s",
                  ":4: option 'kind': must be one of p, q, r, not s");
    check_setting("on-off=1",
                  ":5: option 'on-off': must be true or false, not '1'");
    check_setting("zero=nan",
                  ":2: option 'zero': must be a number, not 'nan'");
}

/* Names, values and lists of them have any length: an option named of a hundred
** letters, a default of as many words, and as many values as there may be. */
static void test_long_options(void **state)
{
    char name[101], setting[128], *settings[] = {setting}, all[600], text[700];
    struct scenario *s;
    struct err e;
    int i;

    (void)state;
    memset(name, 'n', 100);
    name[100] = '\0';
    snprintf(setting, sizeof setting, "%s=7", name);
    s = fixture_good(
        "local v = {} for i = 1, 32 do v[i] = 'value-' .. 100 + i end\n"
        "return {options = {[('n'):rep(100)] = {default = 1},\n"
        "  long = {default = ('word '):rep(100)},\n"
        "  one = {default = 'value-101', values = v}},\n"
        "  cases = function(o) return {{name = 'a', model = 'tiny',\n"
        "    layers = o[('n'):rep(100)], batch = batch.lengths{1}}} end}");
    assert_int_equal(strlen(s->option[0].value), 500);
    assert_string_equal(s->option[0].value, s->option[0].default_value);
    *all = '\0';
    for (i = 1; i <= 32; i++)
        sprintf(all + strlen(all), "%s%d", i == 1 ? "value-" : i == 32
                ? " or value-" : ", value-", 100 + i);
    assert_string_equal(s->option[2].allowed, all);
    scenario_free(s);
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", settings, 1,
                                   &fixture_limits, &s, &e), ERR_OK);
    assert_int_equal(s->kase->layers, 7);
    scenario_free(s);
    strcpy(setting, "one=none");
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", settings, 1,
                                   &fixture_limits, &s, &e), ERR_USAGE);
    snprintf(text, sizeof text, "must be one of %.300s", all);
    assert_non_null(strstr(e.text, text));
}

/* ---- files ---------------------------------------------------------- */

static void test_lookup(void **state)
{
    struct scenario *s;
    char text[512], path[128];

    (void)state;
    /* the scenario's folder comes before the shipped data */
    fixture_write("Qwen3.6-27B.json", "{}");
    fixture_write("part.lua", "return {rows = 33, name = ...}");
    fixture_write("tau-airline-sequences.csv", "tokens\n5\n6\n");
    snprintf(text, sizeof text,
             "local p = require 'part' assert(p == require('part'))\n"
             "return {cases = {{name = p.name .. p.rows, batch = "
             "batch.sequences{file = 'tau-airline-sequences'}, "
             "model = 'Qwen3.6-27B'}, {name = 'b', model = "
             "'%s/Qwen3.6-27B', batch = batch.lengths{1}}}}", fixture_dir);
    s = fixture_good(text);
    snprintf(path, sizeof path, "%s/Qwen3.6-27B.json", fixture_dir);
    assert_string_equal(s->kase[0].model_path, path);
    assert_string_equal(s->kase[0].name, "part33");
    assert_int_equal(s->kase[0].batch.tokens, 11);
    assert_string_equal(s->kase[1].model_path, path);
    scenario_free(s);
}

/* Unsafe opens all libraries, else these are not there; what a script may take
** holds, in C functions too. */
static void test_unsafe(void **state)
{
    static const char *const endless[] = {
        "while true do end", "string.rep('', 1 << 40)",
        "pcall(string.find, ('a'):rep(4000), ('a*'):rep(20) .. 'b')",
        "table.concat({}, '', 1, 1 << 40)", ("xpcall(error, function() "
        "while true do end end)"),
    };
    struct scenario_limits l = {.unsafe = true};
    size_t i;
    struct scenario *s;
    struct err e;

    (void)state;
    fixture_write("s.lua", "assert(io and os and debug and package and "
                  "require 'string' == string) " MINIMAL);
    assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", NULL, 0, &l,
                                   &s, &e), ERR_OK);
    scenario_free(s);
    for (i = 0; i < sizeof endless / sizeof *endless; i++) {
        fixture_write("s.lua", endless[i]);
        assert_int_equal(scenario_load(fixture_path("s.lua"), "lua", NULL, 0,
                                       &l, &s, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "million instructions"));
    }
    scenario_free(fixture_good("assert(not (io or os or debug or package or "
                               "coroutine or collectgarbage or dofile or "
                               "loadfile or string.dump)) " MINIMAL));
}

/* What Lua would do at random, or by hash seed, is always the same. */
static void test_repeatable(void **state)
{
    (void)state;
    scenario_free(fixture_good(
        "local t, s = {}, '' for i = 1, 99 do t['k' .. i] = i end "
        "t[3], t[1], t[2.5] = 'c', 'a', 'b' "
        "for k, v in pairs(t) do s = s .. k .. ' ' end "
        "assert(s:sub(1, 20) == '1 2.5 3 k1 k10 k11 k', s) "
        "for k in pairs(t) do t[k] = nil end assert(next(t) == nil) "
        "assert(math.random(1000) == 962) "
        "assert(not pcall(math.randomseed)) math.randomseed(7) "
        "local r = math.random(1 << 40) math.randomseed(7) "
        "assert(math.random(1 << 40) == r) "
        "local c = cross{{'a', {1, 2}}, {'b', {'x', 'y'}}} "
        "assert(#c == 4 and c[2].a == 1 and c[2].b == 'y') " MINIMAL));
}

static void test_measured(void **state)
{
    struct scenario *s = fixture_good(
        "return {cases = {{" CASE BATCH
        "measured = {series = 'A', peak = 5, first = 6, retained = 4,\n"
        "  note = 'why', estimate = 7, estimator = 'retained-flat'},\n"
        "estimators = {'heuristic', 'retained-flat'},\n"
        "otherwise = {'fused', 'norm-freed'}},\n"
        "{" BATCH "name = 'b', model = 'Qwen3.6-35B-A3B', estimators = {},\n"
        "  measured = {series = 'A', peak = 5}}}}");
    const struct scenario_case *c = &s->kase[0];

    (void)state;
    assert_string_equal(c->measured.series, "A");
    assert_string_equal(c->measured.note, "why");
    assert_int_equal(c->measured.peak, 5);
    assert_int_equal(c->measured.first, 6);
    assert_int_equal(c->measured.retained, 4);
    assert_int_equal(c->measured.estimate, 7);
    assert_string_equal(c->measured.estimator->name, "retained-flat");
    assert_int_equal(c->n_estimator, 2);
    assert_string_equal(c->estimator[0]->name, "heuristic");
    assert_true(c->names_estimators);
    assert_int_equal(c->mode.otherwise,
                     OTHERWISE_FUSED | OTHERWISE_NORM_FREED);
    c = &s->kase[1];
    assert_true(c->names_estimators && c->n_estimator == 0);
    assert_int_equal(c->measured.first, -1);
    assert_null(c->measured.estimator);
    scenario_free(s);
    fixture_fails("return {cases = {{" CASE BATCH
                  "estimators = {'heuristics'}}}}", ERR_INPUT,
                  ":1: case 'a': estimators: no estimator 'heuristics' (did "
                  "you mean 'heuristic'?)");
    fixture_fails("return {cases = {{" CASE BATCH
                  "estimators = {'heuristic', 'heuristic'}}}}", ERR_INPUT,
                  ":1: case 'a': estimators: names heuristic twice");
    fixture_fails("return {cases = {{" CASE BATCH
                  "measured = {series = 'A', peak = 1, estimate = 2}}}}",
                  ERR_INPUT, ":1: case 'a': measured: estimate: and "
                  "estimator go together");
    fixture_fails("return {cases = {{" CASE BATCH
                  "measured = {series = 'A'}}}}", ERR_INPUT,
                  ":1: case 'a': measured: 'peak' is missing");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_every_key),
        cmocka_unit_test(test_routing),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_long_options),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_lookup),
        cmocka_unit_test(test_unsafe),
        cmocka_unit_test(test_repeatable),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
