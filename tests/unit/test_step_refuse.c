/* What a step refuses, by name, and what it does when memory runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "failing_source.h"
#include "step_cases.h"

struct world {
    struct model m;
    struct plan p;
};

static int setup(void **state)
{
    static struct world w;

    case_model(CASE_MODEL, 4, &w.m);
    case_plan(&layout_cases[0], &w.p);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    plan_free(&w->p);
    model_free(&w->m);
    return 0;
}

static void expect(const struct step_config *c, const char *text)
{
    struct dry_rank r;
    struct err e = {.text = ""};
    int rc = dry_rank_open(&r, c, false, &e);

    if (rc != ERR_INPUT || strstr(e.text, text) == NULL ||
        strchr(e.text, '\n') != NULL)
        fail_msg("expected \"%s\", got %d \"%s\"", text, rc, e.text);
    assert_null(r.step);
    dry_rank_close(&r);
}

static void test_config(void **state)
{
    struct world *w = *state;
    const struct step_config good = case_config(&w->m, &w->p, 0, 2);
    struct step_config c;

#define BAD(field, value, text) \
    (c = good, c.field = (value), expect(&c, text))
    BAD(ep, 4, "ep: 4 does not divide cp, which is 2");
    BAD(ep, 0, "ep: 0");
    BAD(rank, 2, "rank: 2");
    BAD(rank, -1, "rank: -1");
    BAD(lora_rank, -1, "lora_rank: -1");
    BAD(lora_rank, (int64_t)1 << 40, "lora_rank: 1099511627776");
    BAD(q_block, 0, "q_block: 0");
    BAD(k_block, 1 << 20, "k_block: 1048576");
    BAD(head_rows, 52481, "head_rows: 52481 is not from 0 to 52480");
    BAD(routing, NULL, "routing: device dry has no router");
#undef BAD
}

static void test_experts(void **state)
{
    struct world *w = *state;
    struct step_config c = case_config(&w->m, &w->p, 0, 2);

    w->m.experts = 255;
    expect(&c, "ep: 2 does not divide the 255 experts (num_experts)");
    w->m.experts = 256;
    w->m.layers = 0;
    expect(&c, "layers: 0");
    w->m.layers = 4;
}

static void test_rows(void **state)
{
    struct world *w = *state;
    struct step_config c = case_config(&w->m, &w->p, 0, 2);
    struct rank_plan *rp = w->p.rank;
    struct stage *st = rp->stage;
    int64_t gdn = rp->gdn_rows;

    rp->gdn_rows = (int64_t)1 << 40;
    expect(&c, "gdn_rows: 1099511676376 rows of this model overflow 64-bit");
    rp->gdn_rows = INT64_MAX;
    expect(&c, "gdn_rows: 9223372036854775807 rows");
    rp->gdn_rows = -1;
    expect(&c, "gdn_rows: rank 0 has a negative number of rows");
    rp->gdn_rows = gdn;
    st->q_len = 52479;
    expect(&c, "stages: stage 0 of rank 0");
    st->q_len = (int64_t)1 << 62;
    expect(&c, "stages: stage 0 of rank 0: 4611686018427387904 rows");
    st->q_len = 52480;
    st->q = 7;
    expect(&c, "stages: stage 0 of rank 0 is called full and is not");
    st->q = 52480;
}

/* ---- memory runs out ---------------------------------------------------- */

/* A wave whose n-th segment fails: true when it got through. */
static bool wave_with_segments(const struct step_config *c, int64_t n)
{
    struct dev_options o = {.act = DT_BF16};
    struct mem_config mc = {0};
    struct failing f = {.left = n};
    struct step *s = NULL;
    struct step_result res;
    struct dev *d;
    struct mem *m;
    struct err e;
    int rc;

    case_need(dev_dry.open(&o, &d, &e), &e);
    f.inner = d->source;
    d->source = (struct mem_source){&f, failing_get, failing_put};
    case_need(mem_new(&mc, d->source, &m, &e), &e);
    rc = step_new(c, d, m, NULL, &s, &e);
    if (rc == ERR_OK) rc = step_wave(s, 0, NULL, &res, &e);
    if (rc != ERR_OK) assert_int_equal(rc, ERR_OOM);
    step_free(s);
    mem_free_all(m);
    assert_int_equal(f.live, 0);
    d->ops->close(d);
    return rc == ERR_OK;
}

static void test_every_segment_fails(void **state)
{
    struct world *w = *state;
    struct step_config c = case_config(&w->m, &w->p, 1, 2);
    int64_t n = 0;

    while (!wave_with_segments(&c, n)) assert_true(++n < 10000);
    assert_true(n > 50);
}

/* The message says what was asked for, by which operator, and the limit. */
static void test_limit(void **state)
{
    struct world *w = *state;
    struct step_config c = case_config(&w->m, &w->p, 0, 2);
    struct mem_config mc = {.limit_bytes = (uint64_t)10000000000};
    struct dev_options o = {.act = DT_BF16};
    struct step_result res;
    struct step *s;
    struct dev *d;
    struct mem *m;
    struct err e;

    case_need(dev_dry.open(&o, &d, &e), &e);
    case_need(mem_new(&mc, d->source, &m, &e), &e);
    case_need(step_new(&c, d, m, NULL, &s, &e), &e);
    assert_int_equal(step_wave(s, 0, NULL, &res, &e), ERR_OOM);
    assert_non_null(strstr(e.text, "10000000000"));
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
}

/* A device that computes has something to compute on. */
static void test_no_tokens(void **state)
{
    struct batch b;
    struct world w;
    struct plan_options o = {.cp = 1};
    struct dev_options act = {.act = DT_F32};
    struct mem_config mc = {0};
    struct step_config c;
    struct step_result res;
    struct step *s;
    struct dev *d;
    struct mem *m;
    struct err e;
    int64_t length = 8;

    (void)state;
    case_model("lua/models/tiny.json", 0, &w.m);
    case_need(batch_from_lengths(&length, 1, &b, &e), &e);
    case_need(plan_make(&w.m, &b, &o, &w.p, &e), &e);
    c = case_config(&w.m, &w.p, 0, 1);
    case_need(dev_cpu.open(&act, &d, &e), &e);
    case_need(mem_new(&mc, d->source, &m, &e), &e);
    case_need(step_new(&c, d, m, NULL, &s, &e), &e);
    assert_int_equal(step_wave(s, 0, NULL, &res, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "batch: a device that computes needs"));
    step_free(s);
    mem_free_all(m);
    d->ops->close(d);
    plan_free(&w.p);
    batch_free(&b);
    model_free(&w.m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),
        cmocka_unit_test(test_no_tokens),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_every_segment_fails),
        cmocka_unit_test(test_limit),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
