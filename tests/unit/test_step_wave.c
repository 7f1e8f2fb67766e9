/* Whole waves on the dry device: the published cases and odd ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "step_cases.h"

static struct step_result wave(struct dry_rank *r, int64_t n)
{
    struct step_result res;
    struct err e;

    if (step_wave(r->step, n, NULL, &res, &e) != ERR_OK)
        fail_msg("wave %d: %s", (int)n, e.text);
    return res;
}

static void open_rank(struct dry_rank *r, const struct step_config *c)
{
    struct err e;

    if (dry_rank_open(r, c, false, &e) != ERR_OK) fail_msg("%s", e.text);
}

static uint64_t allocated(const struct dry_rank *r)
{
    struct mem_stats st;

    mem_stats(r->mem, &st);
    return st.allocated;
}

static void check_sum(const struct mem_peak *p)
{
    int64_t sum = 0;
    int i;

    for (i = 0; i < CAT_COUNT; i++) sum += p->by[i];
    assert_int_equal(sum, (int64_t)p->allocated);
}

/* ---- published cases ---------------------------------------------------- */

/* Our own peaks, allocated bytes, with balanced routing. Not fitted to
** anything: pinned so that any change of what the step holds shows. */
struct pin { int64_t ep; uint64_t peak[2][2]; };    /* [rank][cold, warm] */

static const struct pin pins[][2] = {
    {{2, {{21912147456, 21677577728}, {22626311680, 22392784384}}},
     {1, {{24258329088, 24019557888}, {23432143872, 23196570112}}}},
    {{2, {{31968928256, 31733337600}, {32842212864, 32607515648}}},
     {1, {{35435844096, 35200606720}, {36223224320, 35989159424}}}},
    {{2, {{45812213248, 45575902720}, {46620800512, 46386942464}}},
     {1, {{49277969408, 49044325888}, {50004506112, 49768041984}}}},
};

static void run_case(const struct layout_case *lc, const struct pin *pin)
{
    struct model m;
    struct plan p;
    int rank, w;

    case_model(CASE_MODEL, lc->layers, &m);
    case_plan(lc, &p);
    for (rank = 0; rank < 2; rank++) {
        struct step_config c = case_config(&m, &p, rank, pin->ep);
        struct dry_rank r;

        open_rank(&r, &c);
        for (w = 0; w < 2; w++) {
            struct step_result res = wave(&r, w);

            check_sum(&res.peak);
            if (res.peak.allocated != pin->peak[rank][w])
                fail_msg("%s, ep %d, rank %d, wave %d: %llu", lc->name,
                         (int)pin->ep, rank, w,
                         (unsigned long long)res.peak.allocated);
        }
        dry_rank_close(&r);
    }
    plan_free(&p);
    model_free(&m);
}

static void test_pinned(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < 3; i++) {
        run_case(&layout_cases[i], &pins[i][0]);
        run_case(&layout_cases[i], &pins[i][1]);
    }
}

/* What published.md 4 and pricing.md 12, row 12, say of the real batch. */
static void test_real_batch(void **state)
{
    static const int64_t boundaries[2] = {8247214080, 7611514880};
    static const int64_t records[2] = {974028800, 3085833088};
    struct model m;
    struct plan p;
    int rank;

    (void)state;
    case_model(CASE_MODEL, 0, &m);
    case_plan(&layout_cases[0], &p);
    for (rank = 0; rank < 2; rank++) {
        struct step_config c = case_config(&m, &p, rank, 2);
        struct dry_rank r;
        struct step_result res;

        open_rank(&r, &c);
        res = wave(&r, 0);
        assert_int_equal(res.peak.by[CAT_BOUNDARIES], boundaries[rank]);
        assert_int_equal(res.peak.by[CAT_ATTENTION_RECORDS], records[rank]);
        assert_int_equal(res.records_bytes, records[rank]);
        assert_int_equal(res.received_max, 48397 * 8);
        assert_int_equal(res.peak.tag.phase, PHASE_RECOMPUTE);
        assert_int_equal(res.peak.tag.layer, 39);
        assert_string_equal(res.peak.tag.op, "experts.fc2");
        dry_rank_close(&r);
    }
    plan_free(&p);
    model_free(&m);
}

/* ---- a warm wave -------------------------------------------------------- */

static void check_warm(const struct step_config *c)
{
    struct dry_rank r;
    struct step_result cold, warm;
    uint64_t before;

    open_rank(&r, c);
    cold = wave(&r, 0);
    check_sum(&cold.peak);
    before = allocated(&r);
    warm = wave(&r, 1);
    check_sum(&warm.peak);
    assert_int_equal(allocated(&r), before);
    assert_int_equal(warm.peak.by[CAT_WORKSPACE], 0);
    wave(&r, 2);
    assert_int_equal(allocated(&r), before);
    dry_rank_close(&r);
}

/* Every family, EP and LoRA form, ranks without rows, all kinds of heads. */
static void test_everything_returned(void **state)
{
    static const struct { const char *model; int64_t layers, ep, lora, head; }
        t[] = {
            {CASE_MODEL, 4, 2, 8, 0}, {CASE_MODEL, 4, 1, 8, 1},
            {CASE_MODEL, 5, 2, 1, 512}, {CASE_MODEL, 4, 1, 1, 513},
            {CASE_MODEL, 4, 1, 0, 511}, {CASE_MODEL, 2, 2, 16, 0},
            {CASE_MODEL, 1, 2, 8, 0},
            {"lua/models/Qwen3.6-27B.json", 4, 1, 8, 0},
            {"lua/models/Qwen3.5-0.8B.json", 0, 1, 8, 0},
            {"lua/models/Qwen3-30B-A3B.json", 2, 2, 8, 0},
            {"lua/models/Qwen3-Next-80B-A3B.json", 5, 2, 8, 0},
        };
    /* published.md section 5: 2,047 tokens leave rank 1 without GDN rows */
    struct layout_case lc = {"short", 0, {1536, 511}, {2047, 0},
                             {{CASE_LOCAL(1536, 1536), {.q = 0}},
                              {CASE_LOCAL(511, 512),
                               {.q = 511, .k = 1536, .q_len = 512,
                                .k_len = 1536, .q_full = true}}}};
    struct plan p;
    size_t i;
    int rank;

    (void)state;
    case_plan(&lc, &p);
    for (i = 0; i < sizeof t / sizeof t[0]; i++) {
        struct model m;

        case_model(t[i].model, t[i].layers, &m);
        for (rank = 0; rank < 2; rank++) {
            struct step_config c = case_config(&m, &p, rank, t[i].ep);

            c.lora_rank = t[i].lora;
            c.head_rows = t[i].head <= lc.attention[rank] ? t[i].head : 0;
            check_warm(&c);
        }
        model_free(&m);
    }
    plan_free(&p);
}

/* One rank alone converts no rows; the head takes all of them. */
static void test_one_rank(void **state)
{
    struct stage st = CASE_LOCAL(777, 896);
    struct rank_plan rank = {.attention_rows = 777, .gdn_rows = 777,
                             .stage = &st, .n_stage = 1};
    struct model m;
    struct plan p;
    struct err e;

    (void)state;
    case_model(CASE_MODEL, 4, &m);
    case_need(plan_from_layout(1, &rank, &p, &e), &e);
    {
        struct step_config c = case_config(&m, &p, 0, 1);

        c.head_rows = 777;
        check_warm(&c);
    }
    plan_free(&p);
    model_free(&m);
}

/* ---- the same sequence -------------------------------------------------- */

static void test_fingerprint_repeats(void **state)
{
    struct mem_stats st[2];
    struct model m;
    struct plan p;
    int i;

    (void)state;
    case_model(CASE_MODEL, 8, &m);
    case_plan(&layout_cases[1], &p);
    for (i = 0; i < 2; i++) {
        struct step_config c = case_config(&m, &p, 1, 2);
        struct dry_rank r;

        open_rank(&r, &c);
        wave(&r, 0);
        wave(&r, 1);
        mem_stats(r.mem, &st[i]);
        dry_rank_close(&r);
    }
    assert_int_equal(st[0].fingerprint, st[1].fingerprint);
    assert_int_equal(st[0].events, st[1].events);
    plan_free(&p);
    model_free(&m);
}

/* The size of the dispatch buffers is the traced framework's: for the published
** real batch 1.05 GB a rank (pricing.md 7.4), for the random one 2.29 GB. */
static void test_dispatch_buffers(void **state)
{
    static const uint64_t want[2] = {1053532160, 2293678080};
    int i;

    (void)state;
    for (i = 0; i < 2; i++) {
        struct step_config c;
        struct dry_rank r;
        struct model m;
        struct plan p;

        case_model(CASE_MODEL, 4, &m);
        case_plan(&layout_cases[i], &p);
        c = case_config(&m, &p, 1, 2);
        open_rank(&r, &c);
        assert_int_equal(wave(&r, 0).hybridep_bytes, want[i]);
        dry_rank_close(&r);
        plan_free(&p);
        model_free(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pinned),
        cmocka_unit_test(test_dispatch_buffers),
        cmocka_unit_test(test_real_batch),
        cmocka_unit_test(test_everything_returned),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_fingerprint_repeats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
