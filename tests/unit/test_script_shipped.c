/* The scenarios that come with the program: they load, hold what was
** published, and stay short. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/script_fixture.h"

static struct scenario *shipped(const char *name)
{
    struct scenario *s = NULL;
    struct err e;
    char path[128];
    int rc;

    snprintf(path, sizeof path, "lua/scenarios/%s.lua", name);
    rc = scenario_load(path, "lua", NULL, 0, &fixture_limits, &s, &e);
    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    assert_string_equal(s->path, path);
    assert_true(strcmp(s->name, name) == 0);
    assert_non_null(s->about);
    return s;
}

static int64_t count_lines(const char *name)
{
    char path[128];
    int64_t n = 0;
    int c;

    snprintf(path, sizeof path, "lua/scenarios/%s.lua", name);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while ((c = fgetc(f)) != EOF) n += c == '\n';
    fclose(f);
    return n;
}

static void test_all(void **state)
{
    static const struct { const char *name; int64_t cases, waves; } all[] = {
        {"fallbacks", 5, 5}, {"full-stack", 400, 400}, {"pr-accuracy", 3, 6},
        {"pr-accuracy-ep1", 3, 6}, {"random", 4, 8}, {"real-waves", 12, 24},
        {"routing", 36, 36}, {"template", 1, 2}, {"tiny-cpu", 21, 42},
        {"tiny-train", 2, 40},
    };

    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct scenario *s = shipped(all[i].name);
        int64_t waves = 0;
        for (int64_t k = 0; k < s->n_case; k++) waves += s->kase[k].waves;
        assert_int_equal(s->n_case, all[i].cases);
        assert_int_equal(waves, all[i].waves);
        assert_true(count_lines(all[i].name) <= 60);
        scenario_free(s);
    }
}

static void check_rank(const struct rank_plan *r, int64_t attention,
                       int64_t gdn, int64_t stages)
{
    assert_int_equal(r->attention_rows, attention);
    assert_int_equal(r->gdn_rows, gdn);
    assert_int_equal(r->n_stage, stages);
    assert_true(r->stage[0].local && r->stage[0].q_full);
    assert_int_equal(r->stage[0].q, attention);
    assert_int_equal(r->stage[0].k, attention);
}

static void check_lengths(const struct stage *s, int64_t q_len, int64_t k_len)
{
    assert_int_equal(s->q_len, q_len);
    assert_int_equal(s->k_len, k_len);
}

static void check_layouts(const struct scenario *s)
{
    const struct scenario_case *real = &s->kase[0], *random = &s->kase[1];
    const struct stage *remote = &real->layout[1].stage[1];

    check_rank(&real->layout[0], 52480, 48194, 1);
    check_rank(&real->layout[1], 44314, 48600, 2);
    check_lengths(&real->layout[0].stage[0], 52480, 52480);
    check_lengths(&real->layout[1].stage[0], 44352, 44352);
    check_lengths(remote, 44352, 16512);
    assert_true(!remote->local && remote->q_full && remote->q == 44314);
    assert_int_equal(remote->k, 16504);
    remote = &random->layout[1].stage[1];
    check_rank(&random->layout[0], 105600, 105626, 1);
    check_rank(&random->layout[1], 105153, 105127, 2);
    check_lengths(&random->layout[0].stage[0], 105600, 105600);
    check_lengths(&random->layout[1].stage[0], 105216, 105216);
    check_lengths(remote, 768, 20608);
    assert_true(!remote->local && !remote->q_full);
    assert_true(remote->q == 768 && remote->k == 20608);
}

static void test_published(void **state)
{
    static const struct {
        const char *name;
        int64_t layers, tokens;
        double cell[4];         /* before cold, warm, after cold, warm */
    } want[3] = {
        {"real-40", 40, 96794, {18.2, 19.2, 18.2, 20.2}},
        {"random-8", 8, 210753, {26.5, 23.6, 26.6, 23.7}},
        {"random-40", 40, 210753, {19.7, 17.5, 18.8, 16.6}},
    };
    struct scenario *s = shipped("pr-accuracy"), *t;

    (void)state;
    t = shipped("pr-accuracy-ep1");
    for (int i = 0; i < 3; i++) {
        const struct scenario_case *c = &s->kase[i], *d = &t->kase[i];
        assert_string_equal(c->name, want[i].name);
        assert_int_equal(c->layers, want[i].layers);
        assert_int_equal(c->layout_tokens, want[i].tokens);
        assert_true(c->cp == 2 && c->ep == 2 && c->waves == 2);
        assert_int_equal(c->lora_rank, 8);
        assert_int_equal(c->routing.kind, ROUTING_BALANCED);
        assert_true(c->published_before_cold == want[i].cell[0]);
        assert_true(c->published_before_warm == want[i].cell[1]);
        assert_true(c->published_after_cold == want[i].cell[2]);
        assert_true(c->published_after_warm == want[i].cell[3]);
        assert_string_equal(d->name, want[i].name);
        assert_true(d->cp == 2 && d->ep == 1 && d->waves == 2);
        assert_true(d->layers == c->layers);
        assert_true(isnan(d->published_before_cold));
    }
    check_layouts(s);
    check_layouts(t);
    scenario_free(s);
    scenario_free(t);
}

/* Every conversation once at each EP, alone in its wave. */
static void test_full_stack(void **state)
{
    struct scenario *s = shipped("full-stack");
    int64_t tokens[2] = {0, 0};

    (void)state;
    for (int64_t i = 0; i < 400; i++) {
        const struct scenario_case *c = &s->kase[i];
        assert_true(c->cp == 2 && c->ep == 1 + (i >= 200) && c->waves == 1);
        assert_true(c->batch.n_seq == 1 && c->batch.n_seg == 1);
        assert_int_equal(c->layers, 0);
        tokens[i >= 200] += c->batch.tokens;
    }
    assert_int_equal(tokens[0], 800545);
    assert_int_equal(tokens[1], 800545);
    scenario_free(s);
}

/* Waves are as long as the published batch, and hold each conversation. */
static void test_real_waves(void **state)
{
    struct scenario *s = shipped("real-waves");
    int64_t sequences = 0;

    (void)state;
    for (int64_t i = 0; i < s->n_case; i++) {
        const struct scenario_case *c = &s->kase[i];
        sequences += c->batch.n_seq;
        if (i % 6 < 5) assert_in_range(c->batch.tokens, 90000, 97000);
    }
    assert_int_equal(sequences, 2 * 200);
    scenario_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all),
        cmocka_unit_test(test_published),
        cmocka_unit_test(test_full_stack),
        cmocka_unit_test(test_real_waves),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
