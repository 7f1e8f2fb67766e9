/* Recorded layouts: copied, summed up, refused when they cannot be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "plan/plan.h"

/* The published real batch (published.md 2). */
static struct stage local0[] = {
    {.local = true, .q_full = true, .q = 52480, .k = 52480, .q_len = 52480,
     .k_len = 52480},
};
static struct stage both1[] = {
    {.local = true, .q_full = true, .q = 44314, .k = 44314, .q_len = 44352,
     .k_len = 44352},
    {.q_full = true, .q = 44314, .k = 16504, .q_len = 44352, .k_len = 16512},
};

static void recorded_layout(void **state)
{
    struct rank_plan r[2] = {
        {.attention_rows = 52480, .gdn_rows = 48194, .stage = local0,
         .n_stage = 1},
        {.attention_rows = 44314, .gdn_rows = 48600, .stage = both1,
         .n_stage = 2},
    };
    struct plan p;
    struct err e;

    (void)state;
    assert_int_equal(plan_from_layout(2, r, &p, &e), ERR_OK);
    assert_int_equal(p.tokens, 96794);
    assert_int_equal(p.rounds, 1);
    assert_false(p.exact);
    assert_int_equal(p.rank[1].stage[1].k, 16504);
    assert_true(p.rank[1].stage[0].k_full);
    assert_false(p.rank[1].stage[1].k_full);
    assert_true(p.rank[0].stage != local0);
    plan_free(&p);
    plan_free(&p);
}

static void expect_bad(struct rank_plan r, const char *text)
{
    struct plan p;
    struct err e = {0};

    assert_int_equal(plan_from_layout(1, &r, &p, &e), ERR_INPUT);
    if (strstr(e.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", e.text, text);
}

static void impossible_layouts(void **state)
{
    struct stage s[2] = {
        {.local = true, .q = 5, .k = 5, .q_len = 128, .k_len = 128},
        {.q = 5, .k = 9, .q_len = 128, .k_len = 128},
    };
    const struct rank_plan ok = {.attention_rows = 5, .gdn_rows = 5,
                                 .stage = s, .n_stage = 2};
    struct rank_plan r = ok;
    struct plan p;
    struct err e;

    (void)state;
    assert_int_equal(plan_from_layout(1, &ok, &p, &e), ERR_OK);
    plan_free(&p);
    assert_int_equal(plan_from_layout(0, &ok, &p, &e), ERR_INPUT);
    assert_int_equal(plan_from_layout(65, &ok, &p, &e), ERR_INPUT);
    r.attention_rows = -1;
    expect_bad(r, "rank 0: rows out of bounds");
    r.attention_rows = INT64_MAX;
    expect_bad(r, "rank 0: rows out of bounds");
    r = ok;
    r.gdn_rows = 4;
    expect_bad(r, "5 attention rows but 4 gdn rows");
    r = ok;
    s[1].q = 6;
    expect_bad(r, "stage 1: more queries than");
    s[1].q = 0;
    expect_bad(r, "stage 1: queries without keys");
    s[1].q = 5;
    s[1].k = -9;
    expect_bad(r, "stage 1: negative");
    s[1].k = 129;
    expect_bad(r, "stage 1: q_len or k_len below");
    s[1].k = 9;
    s[1].local = true;
    expect_bad(r, "stage 1: the local stage comes first");
    s[1].local = false;
    s[1].q = 4;
    s[1].q_full = true;
    expect_bad(r, "stage 1: q_full, but");
    s[1].q_full = false;
    s[0].k = 6;
    expect_bad(r, "stage 0: more local keys");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_layout),
        cmocka_unit_test(impossible_layouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
