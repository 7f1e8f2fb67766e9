/* Batches as scenarios declare them: recorded layouts, lengths, trees,
** recorded sequences and waves packed from them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

/* The one case whose batch is the given Lua expression. */
static struct scenario *batch_of(const char *expression, int cp)
{
    char text[1024];

    snprintf(text, sizeof text, "return {cases = {{name = 'a', cp = %d, "
             "model = 'Qwen3.6-35B-A3B', batch = %s}}}", cp, expression);
    return fixture_good(text);
}

static void check_stage(const struct stage *s, bool local, int64_t q,
                        int64_t k, int64_t q_len, int64_t k_len, bool q_full,
                        bool k_full)
{
    assert_int_equal(s->local, local);
    assert_int_equal(s->q, q);
    assert_int_equal(s->k, k);
    assert_int_equal(s->q_len, q_len);
    assert_int_equal(s->k_len, k_len);
    assert_int_equal(s->q_full, q_full);
    assert_int_equal(s->k_full, k_full);
    assert_null(s->slice);
}

static void test_layout(void **state)
{
    struct scenario *s = batch_of(
        "batch.layout{attention_rows = {300, 200}, gdn_rows = {240, 260}, "
        "routed_rows = 250, stages = {{{q = 300, k = 300}, "
        "{q = 0, k = 0}}, {{q = 200, k = 200, q_len = 200}, "
        "{q = 200, k = 77}}}}", 2);
    struct scenario_case *c = s->kase;

    (void)state;
    assert_int_equal(c->batch_kind, BATCH_LAYOUT);
    assert_int_equal(c->layout_tokens, 500);
    assert_int_equal(c->routed_rows, 250);
    assert_int_equal(c->layout[0].attention_rows, 300);
    assert_int_equal(c->layout[1].attention_rows, 200);
    assert_int_equal(c->layout[0].gdn_rows, 240);
    assert_int_equal(c->layout[1].gdn_rows, 260);
    assert_int_equal(c->layout[0].n_stage, 2);
    check_stage(&c->layout[0].stage[0], true, 300, 300, 384, 384, true, true);
    check_stage(&c->layout[0].stage[1], false, 0, 0, 0, 0, false, false);
    check_stage(&c->layout[1].stage[0], true, 200, 200, 200, 256, true, true);
    check_stage(&c->layout[1].stage[1], false, 200, 77, 256, 128, true,
                false);
    scenario_free(s);

    /* one rank needs no stages, and has the same rows in both layouts */
    s = batch_of("batch.layout{attention_rows = {130}}", 1);
    assert_int_equal(s->kase->layout[0].gdn_rows, 130);
    check_stage(&s->kase->layout[0].stage[0], true, 130, 130, 256, 256, true,
                true);
    scenario_free(s);

    /* a first stage may be remote; a full one may be said not to be */
    s = batch_of("batch.layout{attention_rows = {9, 5}, stages = {{}, "
                 "{{q = 5, k = 9, remote = true, q_full = false}}}}", 2);
    assert_int_equal(s->kase->layout[0].n_stage, 0);
    check_stage(&s->kase->layout[1].stage[0], false, 5, 9, 128, 128, false,
                false);
    scenario_free(s);
}

static void test_layout_is_a_plan(void **state)
{
    struct scenario *s = batch_of("(require 'layouts').random", 2);
    struct plan p;
    struct err e;

    (void)state;
    assert_int_equal(plan_from_layout(2, s->kase->layout, &p, &e), ERR_OK);
    assert_int_equal(p.tokens, 210753);
    assert_int_equal(p.rank[0].gdn_rows, 105626);
    plan_free(&p);
    scenario_free(s);
}

static void test_lengths(void **state)
{
    struct scenario *s = batch_of("batch.lengths{7, 1, 5}", 1);
    const struct batch *b = &s->kase->batch;

    (void)state;
    assert_int_equal(b->n_seg, 3);
    assert_int_equal(b->tokens, 13);
    assert_int_equal(b->seg[0].tokens, 7);
    assert_int_equal(b->seg[2].start, 8);
    scenario_free(s);
}

/* Lengths of batch.random are a function of its keys alone. */
static void test_random(void **state)
{
    struct scenario *s =
        batch_of("batch.random{count = 1000, length = {3, 12}, seed = 5}", 1);
    struct scenario *t =
        batch_of("batch.random{count = 1000, length = {3, 12}, seed = 5}", 1);
    const struct batch *b = &s->kase->batch;
    int64_t seen[13] = {0};

    (void)state;
    assert_int_equal(b->n_seg, 1000);
    for (int64_t i = 0; i < 1000; i++) {
        int64_t n = b->seg[i].tokens;
        assert_in_range(n, 3, 12);
        seen[n]++;
        assert_int_equal(n, t->kase->batch.seg[i].tokens);
    }
    for (int n = 3; n <= 12; n++) assert_in_range(seen[n], 60, 140);
    assert_int_equal(b->seg[0].tokens, 11);
    assert_int_equal(b->seg[1].tokens, 7);
    assert_int_equal(b->seg[2].tokens, 6);
    scenario_free(s);
    scenario_free(t);
    s = batch_of("batch.random{count = 3, length = 8}", 1);
    assert_int_equal(s->kase->batch.tokens, 24);
    scenario_free(s);
}

static void test_tree(void **state)
{
    struct scenario *s = batch_of(
        "batch.tree{parents = {-1, 0, 0, -1}, lengths = {70, 1, 133, 4}}", 1);
    const struct batch *b = &s->kase->batch;

    (void)state;
    assert_int_equal(s->kase->batch_kind, BATCH_TREE);
    assert_int_equal(b->n_seg, 4);
    assert_int_equal(b->tokens, 208);
    assert_int_equal(b->seg[2].parent, 0);
    assert_int_equal(b->longest, 203);
    scenario_free(s);
    s = batch_of("batch.tree{file = 'tau-airline-prefix-tree'}", 1);
    assert_int_equal(s->kase->batch.n_seg, 322);
    assert_int_equal(s->kase->batch.tokens, 545543);
    scenario_free(s);
}

static void test_sequences(void **state)
{
    struct scenario *s =
        batch_of("batch.sequences{file = 'tau-airline-sequences'}", 1);
    const struct batch *b = &s->kase->batch;

    (void)state;
    assert_int_equal(s->kase->batch_kind, BATCH_CORPUS);
    assert_int_equal(b->n_seq, 200);
    assert_int_equal(b->tokens, 545543);        /* the tree is found */
    scenario_free(s);
    s = batch_of("batch.sequences{file = 'tau-airline-sequences', "
                 "tree = false, select = '0-1,3'}", 1);
    assert_int_equal(s->kase->batch.n_seg, 3);
    assert_int_equal(s->kase->batch.tokens, 5201 + 4997 + 7716);
    scenario_free(s);
    s = batch_of("batch.sequences{file = 'tau-airline-sequences', "
                 "tree = 'tau-airline-prefix-tree', select = {3, 0}}", 1);
    assert_int_equal(s->kase->batch.n_seq, 2);
    assert_in_range(s->kase->batch.tokens, 7717, 5201 + 7716 - 1273);
    scenario_free(s);
    s = batch_of("batch.sequences{file = 'tau-airline-sequences', "
                 "select = 2}", 1);
    assert_int_equal(s->kase->batch.tokens, 4821);
    scenario_free(s);
}

/* Waves hold every sequence once, in order, and no more than they may. */
static void test_pack(void **state)
{
    struct scenario *s = fixture_good(
        "local f, sum, cases = 'tau-airline-sequences', 0, {}\n"
        "local w = batch.pack{file = f, tokens = 97000, select = '10-199'}\n"
        "for i, b in ipairs(w) do\n"
        "  assert(b.tokens <= 97000)\n"
        "  local all = batch.sequences{file = f, select = (10 + sum) .. '-' "
        ".. (9 + sum + b.sequences)}\n"
        "  assert(all.tokens == b.tokens and all.segments == b.segments)\n"
        "  sum = sum + b.sequences\n"
        "  if i < #w then\n"
        "    local more = batch.sequences{file = f, select = (10 + sum - "
        "b.sequences) .. '-' .. (10 + sum)}\n"
        "    assert(more.tokens > 97000)\n"
        "  end\n"
        "  cases[i] = {name = 'w' .. i, model = 'Qwen3.6-35B-A3B', "
        "batch = b}\n"
        "end\n"
        "assert(sum == 190)\n"
        "return {cases = cases}");

    (void)state;
    assert_int_equal(s->n_case, 6);
    scenario_free(s);
}

/* What a script can ask a batch. */
static void test_csv_rows(void **state)
{
    struct scenario *s;
    struct err e;

    (void)state;
    fixture_write("t.csv", "id,rows,note\n\na,12,\nb,7,\"x, y\"\n");
    s = fixture_good(
        "local rows, lines, path = csv.rows{file = 't.csv'}\n"
        "assert(#rows == 2 and #lines == 2)\n"
        "assert(rows[1].id == 'a' and rows[1].rows == '12')\n"
        "assert(rows[1].note == nil and rows[2].note == 'x, y')\n"
        "assert(lines[1] == 3 and lines[2] == 4)\n"
        "assert(path:sub(-6) == '/t.csv')\n"
        "assert(#csv.rows{file = path} == 2)\n"     /* absolute */
        "assert(#csv.rows{file = 'tau-airline-prefix-tree'} > 100)\n"
        "assert(#csv.rows{file = 'tests/golden/pr-accuracy-peaks.csv'} > 1)\n"
        MINIMAL);
    assert_non_null(strstr(s->files, "t.csv"));
    scenario_free(s);
    fixture_fails("csv.rows{}" MINIMAL, ERR_INPUT,
                  ":1: csv.rows: 'file' is missing");
    fixture_fails("csv.rows{file = 3}" MINIMAL, ERR_INPUT,
                  ":1: csv.rows: file: must be a file name, not a number");
    fixture_fails("csv.rows{flie = 't.csv'}" MINIMAL, ERR_INPUT,
                  ":1: csv.rows: unknown key 'flie' (did you mean 'file'?)");
    fixture_write("bad.csv", "id,no\n1,2\n");
    scenario_free(fixture_good("csv.rows{file = 'bad.csv', columns = {'no', "
                               "'id', 'more'}}" MINIMAL));
    assert_int_equal(fixture_load("csv.rows{file = 'bad.csv', columns = "
                                  "{'id'}}" MINIMAL, &s, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "bad.csv:1: unknown column 'no' (known: "
                           "id)"));
    fixture_fails("csv.rows{file = 'bad.csv', columns = {1}}" MINIMAL,
                  ERR_INPUT,
                  ":1: csv.rows: columns: must be a list of names");
    fixture_write("bad.csv", "id,id\n1,2\n");
    assert_int_equal(fixture_load("csv.rows{file = 'bad.csv'}" MINIMAL, &s,
                                  &(struct err){0}), ERR_INPUT);
}

static void test_questions(void **state)
{
    (void)state;
    scenario_free(fixture_good(
        "local b = batch.tree{parents = {-1, 0, 0}, lengths = {5, 2, 3}} "
        "assert(b.tokens == 10 and b.sequences == 2 and b.segments == 3 and "
        "b.longest == 8 and math.type(b.tokens) == 'integer') "
        "local l = batch.layout{attention_rows = {5}} assert(l.tokens == 5) "
        "assert(not pcall(function() return l.longest end)) "
        "assert(not pcall(function() b.tokens = 3 end)) "
        "assert(getmetatable(b) == 'peakproof.batch') " MINIMAL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),
        cmocka_unit_test(test_layout_is_a_plan),
        cmocka_unit_test(test_lengths),
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_sequences),
        cmocka_unit_test(test_pack),
        cmocka_unit_test(test_csv_rows),
        cmocka_unit_test(test_questions),
    };

    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
