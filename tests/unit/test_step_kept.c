/* What a recomputed layer keeps for its backward, in bytes a row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "step_cases.h"

/* Requested bytes, by category, that the layer's recompute allocates and its
** backward frees. */
static void kept_of(const struct mem_event *trace, uint64_t n, int layer,
                    int64_t by[CAT_COUNT])
{
    uint8_t now = PHASE_NONE;
    uint64_t i;

    memset(by, 0, CAT_COUNT * sizeof *by);
    for (i = 0; i < n; i++) {
        const struct mem_event *x = &trace[i];

        if (!x->is_free) now = x->phase;
        if (x->is_free && x->layer == layer && x->phase == PHASE_RECOMPUTE &&
            now == PHASE_BACKWARD)
            by[x->category] += (int64_t)x->bytes;
    }
}

/* One rank of the real batch's first four layers, one wave. */
static void trace_layers(int64_t ep, int layer, int64_t by[CAT_COUNT])
{
    struct model m;
    struct plan p;
    struct dry_rank r;
    struct step_result res;
    struct step_config c;
    const struct mem_event *trace;
    uint64_t n;
    struct err e;

    case_model(CASE_MODEL, 4, &m);
    case_plan(&layout_cases[0], &p);
    c = case_config(&m, &p, 0, ep);
    case_need(dry_rank_open(&r, &c, true, &e), &e);
    case_need(step_wave(r.step, 0, NULL, &res, &e), &e);
    trace = mem_trace(r.mem, &n);
    kept_of(trace, n, layer, by);
    dry_rank_close(&r);
    plan_free(&p);
    model_free(&m);
}

#define A 52480             /* attention rows */
#define G 48194             /* GDN rows */

/* inventory.md: normed input 4096, joined 18432, q, k 9216, gate 8192,
** rotated 9216, output 8192, gated 8192, adapters 4 x 16, norms 76. */
static void test_attention_layer(void **state)
{
    int64_t by[CAT_COUNT];

    (void)state;
    trace_layers(2, 3, by);
    assert_int_equal(by[CAT_ATTENTION], (int64_t)A * 65676);
    assert_int_equal(by[CAT_ATTENTION_RECORDS], 974028800);
    /* residual, normed input, rstd */
    assert_int_equal(by[CAT_RESIDUAL_NORM], (int64_t)A * (2 * 4096 + 4));
    /* scores and map 1280, top-k 96, handle 2320 */
    assert_int_equal(by[CAT_MOE_ROUTING], (int64_t)A * (1280 + 96 + 2320));
    assert_int_equal(by[CAT_SHARED_EXPERT],
                     (int64_t)A * (2048 + 1024 + 4096 + 4 + 48));
    assert_int_equal(by[CAT_MOE_DISPATCH], (int64_t)48397 * 8 * 4096);
    assert_int_equal(by[CAT_MOE_EXPERTS],
                     (int64_t)48397 * 8 * (2048 + 1024 + 2 * 16 + 4));
}

/* One rank alone: no executor and none of its records; a log-sum-exp a head
** beside what every rank keeps. */
static void test_one_rank(void **state)
{
    static const int64_t length = 5000;
    struct plan_options o = {.cp = 1, .ep = 1, .tp = 1, .owned_ms = -1};
    int64_t by[CAT_COUNT];
    const struct mem_event *trace;
    struct step_result res;
    struct step_config c;
    struct dry_rank r;
    struct batch b;
    struct model m;
    struct plan p;
    uint64_t n;
    struct err e;

    (void)state;
    case_model(CASE_MODEL, 4, &m);
    case_need(batch_from_lengths(&length, 1, &b, &e), &e);
    case_need(plan_make(&m, &b, &o, &p, &e), &e);
    c = case_config(&m, &p, 0, 1);
    case_need(dry_rank_open(&r, &c, true, &e), &e);
    case_need(step_wave(r.step, 0, NULL, &res, &e), &e);
    trace = mem_trace(r.mem, &n);
    kept_of(trace, n, 3, by);
    assert_int_equal(by[CAT_ATTENTION], length * (65676 + 16 * 4));
    assert_int_equal(by[CAT_ATTENTION_RECORDS], 0);
    assert_int_equal(res.records_bytes, 0);
    dry_rank_close(&r);
    plan_free(&p);
    batch_free(&b);
    model_free(&m);
}

/* The row map of EP1 is the traced framework's, and two weights a pair. */
static void test_one_expert_group(void **state)
{
    int64_t by[CAT_COUNT];

    (void)state;
    trace_layers(1, 3, by);
    assert_int_equal(by[CAT_MOE_ROUTING], (int64_t)A * (1280 + 96 + 2052));
    assert_int_equal(by[CAT_MOE_DISPATCH], (int64_t)A * 8 * 4096);
    assert_int_equal(by[CAT_MOE_EXPERTS],
                     (int64_t)A * 8 * (2048 + 1024 + 2 * 16 + 8));
}

/* normed input 4096, q|k|v 16384, normed q and k 16384, v 8192, chunk matrix
** 4096, z, output, normed, gated 4 x 8192; f32 a and g_cum 2 x 128, beta and
** its bucket's copy 2 x 64, rstds 4 + 3 x 128; mask 1; adapters 48; where the
** convolution finds a row 2 x 4; one state and halo (a recorded layout counts
** as one piece) and a factor a head. The entry keeps the exchanged input,
** too. */
static void test_gdn_layers(void **state)
{
    int64_t row = 4096 + 16384 + 16384 + 8192 + 4096 + 4 * 8192 + 2 * 128 +
                  2 * 64 + 4 + 3 * 128 + 1 + 48 + 2 * 4;
    int64_t states = 32 * 128 * 128 * 4 + 3 * 8192 * 2 + 32 * 2;
    int64_t by[CAT_COUNT];

    (void)state;
    trace_layers(2, 1, by);
    assert_int_equal(by[CAT_GDN], G * row + states);
    trace_layers(2, 0, by);
    assert_int_equal(by[CAT_GDN], G * (row + 4096) + states);
    trace_layers(2, 2, by);
    assert_int_equal(by[CAT_GDN], G * row + states);
    assert_int_equal(by[CAT_RESIDUAL_NORM], (int64_t)G * (2 * 4096 + 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_layer),
        cmocka_unit_test(test_one_rank),
        cmocka_unit_test(test_one_expert_group),
        cmocka_unit_test(test_gdn_layers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
