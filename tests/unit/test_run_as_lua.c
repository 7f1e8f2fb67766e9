/* A case written as Lua is the same case when it is read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <limits.h>

#include <cmocka.h>

#include "base/file.h"
#include "run/run.h"
#include "script_fixture.h"

static struct scenario *loaded(const char *text)
{
    struct scenario *s;
    struct err e;

    if (fixture_load(text, &s, &e) != ERR_OK) fail_msg("%s\n%s", e.text, text);
    return s;
}

static void same_routing(const struct routing *a, const struct routing *b)
{
    int64_t i;

    assert_int_equal(a->kind, b->kind);
    assert_true(a->cv == b->cv && a->drift == b->drift);
    assert_true(a->burst == b->burst && a->share == b->share);
    assert_true(a->factor == b->factor || a->burst == 0);
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->expert, b->expert);
    assert_int_equal(a->share_rank, b->share_rank);
    assert_int_equal(a->n_each, b->n_each);
    for (i = 0; i < a->n_each; i++) same_routing(&a->each[i], &b->each[i]);
}

static void same_batch(const struct batch *a, const struct batch *b)
{
    int64_t i;

    assert_int_equal(a->n_seg, b->n_seg);
    for (i = 0; i < a->n_seg; i++) {
        assert_int_equal(a->seg[i].tokens, b->seg[i].tokens);
        assert_int_equal(a->seg[i].parent, b->seg[i].parent);
    }
}

static void same_case(const struct scenario_case *a,
                      const struct scenario_case *b)
{
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->model_path, b->model_path);
    assert_string_equal(a->dtype, b->dtype);
    assert_int_equal(a->layers, b->layers);
    assert_int_equal(a->cp, b->cp);
    assert_int_equal(a->ep, b->ep);
    assert_int_equal(a->tp, b->tp);
    assert_int_equal(a->pp, b->pp);
    assert_memory_equal(&a->mode, &b->mode, sizeof a->mode);
    assert_int_equal(a->lora_rank, b->lora_rank);
    assert_int_equal(a->waves, b->waves);
    assert_int_equal(a->seed, b->seed);
    assert_int_equal(a->cut, b->cut);
    assert_int_equal(a->profile, b->profile);
    assert_int_equal(a->head_rows, b->head_rows);
    assert_int_equal(a->price_head_rows, b->price_head_rows);
    assert_int_equal(a->output_bytes, b->output_bytes);
    assert_int_equal(a->hybridep_held_rows, b->hybridep_held_rows);
    assert_int_equal(a->device_bytes, b->device_bytes);
    assert_int_equal(a->softmax_offset, b->softmax_offset);
    assert_int_equal(a->cp_attention, b->cp_attention);
    assert_true(a->load_cv == b->load_cv);
    assert_true(a->learning_rate == b->learning_rate);
    same_batch(&a->batch, &b->batch);
    same_routing(&a->routing, &b->routing);
}

static void round_trip(const char *text)
{
    struct scenario *a = loaded(text), *b;
    struct buf out = BUF_INIT;
    int64_t i;

    buf_puts(&out, "return {name = \"again\", cases = {\n");
    for (i = 0; i < a->n_case; i++) run_as_lua(&a->kase[i], "lua", &out);
    buf_puts(&out, "}}\n");
    assert_false(out.failed);
    b = loaded(buf_text(&out));
    assert_int_equal(a->n_case, b->n_case);
    for (i = 0; i < a->n_case; i++) same_case(&a->kase[i], &b->kase[i]);
    scenario_free(a);
    scenario_free(b);
    buf_free(&out);
}

/* Every key that decides a peak or a price, away from its default. */
static void test_keys(void **state)
{
    (void)state;
    round_trip(
        "return {name = 'x', cases = {\n"
        "{name = 'moe', model = 'Qwen3.6-35B-A3B', layers = 8, cp = 4,\n"
        " ep = 2, lora_rank = 16, waves = 3, load_cv = 1.25, seed = 7,\n"
        " head_rows = 900, price_head_rows = 800, output_bytes = 4096,\n"
        " hybridep_held_rows = 512, device_bytes = '80G',\n"
        " softmax_offset = true, cp_attention = false, plan = {cut = 1000},\n"
        " learning_rate = 0.1,\n"
        " batch = batch.tree{parents = {-1, 0, 0, -1},\n"
        "                    lengths = {100, 700, 300, 2000}}},\n"
        "{name = 'dense', model = 'Qwen3-1.7B', tp = 2, dtype = 'f32',\n"
        " recompute = 'selective', recompute_modules = {'core_attn', 'mlp'},\n"
        " wave = 'hidden-loss', compiled = false,\n"
        " plan = {profile = 'old'}, batch = batch.lengths{400, 500}},\n"
        "{name = 'forward', model = 'Qwen3-1.7B', recompute = 'none',\n"
        " wave = 'hidden', grad = false, batch = batch.lengths{64}},\n"
        "}}\n");
}

static void test_routings(void **state)
{
    static const char *const routing[] = {
        "'balanced'", "{cv = 0.375, seed = 9}",
        "{cv = 0.5, seed = 9, drift = 0.25, burst = 0.125, factor = 3.5}",
        "{share = 1.75, rank = 1}", "{hot_expert = 5, factor = 8.5}",
        ("{{cv = 0.5, seed = 3}, {cv = 0, seed = 0}, "
         "{hot_expert = 2, factor = 4}}"),
    };
    char text[1024];
    size_t i;

    (void)state;
    for (i = 0; i < sizeof routing / sizeof *routing; i++) {
        snprintf(text, sizeof text,
                 "return {name = 'x', cases = {{name = 'a', cp = 2, ep = 2,\n"
                 "model = 'Qwen3.6-35B-A3B', waves = 3, routing = %s,\n"
                 "batch = batch.lengths{500, 700}}}}", routing[i]);
        round_trip(text);
    }
}

/* A config of one's own, in a folder whose name Lua must quote, is found from
** where the written scenario stands. */
static void test_own_model(void **state)
{
    static const char dir[] = "a\"b\\c\nd\t\x7f";
    char path[40], whole[PATH_MAX];
    struct scenario *a, *b;
    struct buf config = BUF_INIT, out = BUF_INIT;
    struct err e;

    (void)state;
    assert_int_equal(file_read("lua/models/tiny.json", 1 << 20, &config, &e),
                     ERR_OK);
    assert_int_equal(file_make_dirs(fixture_path(dir), &e), ERR_OK);
    snprintf(path, sizeof path, "%s/own.json", dir);
    fixture_write(path, buf_text(&config));
    a = loaded("return {cases = {{name = 'x', batch = batch.lengths{64},\n"
               "model = 'a\"b\\\\c\\nd\\t\\127/own.json'}}}");
    buf_puts(&out, "return {cases = {");
    run_as_lua(&a->kase[0], "lua", &out);
    buf_puts(&out, "}}");
    assert_false(out.failed);
    b = loaded(buf_text(&out));
    assert_non_null(realpath(a->kase[0].model_path, whole));
    assert_string_equal(b->kase[0].model_path, whole);
    scenario_free(a);
    scenario_free(b);
    buf_free(&out);
    buf_free(&config);
}

/* So is a file of labels, which says what the head takes. */
static void test_labels(void **state)
{
    struct scenario *a, *b;
    struct buf out = BUF_INIT;
    char whole[PATH_MAX];

    (void)state;
    fixture_write("l\"s.jsonl", "{\"tokens\": [1, 2]}\n");
    a = loaded("return {cases = {{name = 'x', batch = batch.lengths{2},\n"
               "model = 'tiny', labels = 'l\"s.jsonl'}}}");
    buf_puts(&out, "return {cases = {");
    run_as_lua(&a->kase[0], "lua", &out);
    buf_puts(&out, "}}");
    assert_false(out.failed);
    b = loaded(buf_text(&out));
    assert_non_null(realpath(fixture_path("l\"s.jsonl"), whole));
    assert_string_equal(b->kase[0].labels, whole);
    scenario_free(a);
    scenario_free(b);
    buf_free(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys), cmocka_unit_test(test_routings),
        cmocka_unit_test(test_own_model), cmocka_unit_test(test_labels),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
