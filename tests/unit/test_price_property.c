/*
** What holds for all facts: terms add up, more rows never cost less, the
** bound stays below every split. PEAKPROOF_SEED replays a failure.
*/
#include <stdio.h>

#include "price_help.h"
#include "price/internal.h"

static struct model model[3];       /* 1 to 40 layers, made once */

static int load(void **state)
{
    (void)state;
    model[0] = help_model(QWEN36, 40);
    model[1] = help_model("lua/models/Qwen3-Next-80B-A3B.json", 7);
    model[2] = help_model("lua/models/Qwen3-30B-A3B.json", 5);
    return 0;
}

static int unload(void **state)
{
    int i;
    (void)state;
    for (i = 0; i < 3; i++) model_free(&model[i]);
    return 0;
}

static int64_t padded128(int64_t n) { return (n + 127) / 128 * 128; }

static void random_group(struct two_ranks *t, struct price_group *g,
                         uint64_t *s)
{
    int64_t most = help_below(s, 2) ? 200 : 100000;
    int r;

    for (r = 0; r < 2; r++) {
        t->attention[r] = help_below(s, most) + (r == 0);
        t->gdn[r] = help_below(s, most);
        help_random_stages(t, r, s);
    }
    *g = help_group(t, help_below(s, 8) > 0);
    if (help_below(s, 3) == 0) g->routed_rows = help_below(s, 2 * most);
    if (help_below(s, 5) == 0) strcpy(g->slot, PRICE_BASE_SLOT);
}

static struct price_facts random_facts(struct two_ranks *t,
                                       struct price_group *g, uint64_t *s)
{
    static const int64_t ranks[] = {0, 1, 4, 7, 8, 12, 16, 64};
    int64_t n = 1 + help_below(s, 3), i;
    struct price_facts f;

    for (i = 0; i < n; i++) random_group(&t[i], &g[i], s);
    f = help_facts(&model[help_below(s, 3)], g, n, 2,
                   (int64_t)1 << help_below(s, 5));
    f.lora_rank = ranks[help_below(s, 8)];
    f.cold = help_below(s, 2);
    f.moe_stages = help_below(s, 4) > 0;
    f.routing_state = help_below(s, 4) > 0;
    f.head_rows = help_below(s, 2) * help_below(s, 1000);
    f.output_bytes = help_below(s, 3) * 12345;
    f.hybridep_held_rows = help_below(s, 3) - 1;
    f.packed_length = 1 + help_below(s, 100000);
    if (help_below(s, 3) > 0) help_pending(&f);
    return f;
}

static void check_sums(const struct estimate *est)
{
    int64_t r, total;
    int k;

    assert_int_equal(price_sum(est->term), est->raw);
    assert_int_equal(est->admitted, est->raw + est->raw / 10);
    assert_int_equal(est->term[CAT_ROUNDING] + est->term[CAT_OTHER], 0);
    for (k = 0; k < CAT_COUNT; k++) assert_true(est->term[k] >= 0);
    if (est->n_rank == 0 || est->head_binds) return;
    total = est->rank[est->binding_rank].total;
    for (r = 0; r < est->n_rank; r++) {
        const struct price_rank *p = &est->rank[r];
        int64_t stage[LAYER_KINDS] = {p->attention_stage, p->gdn_stage};
        assert_true(p->total <= total);
        for (k = 0; k < LAYER_KINDS; k++)
            if (stage[k] > 0)
                assert_int_equal(price_sum(p->term[k]), est->raw - total
                                 + p->boundaries + stage[k]);
    }
    assert_memory_equal(est->term,
                        est->rank[est->binding_rank].term[est->binding_mixer],
                        sizeof est->term);
}

static void test_terms_add_up(void **state)
{
    uint64_t seed = help_seed(), s = seed;
    int round, by_rank = 0, by_head = 0;

    (void)state;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (round = 0; round < 2000; round++) {
        struct two_ranks t[3] = {{.attention = {0}}};
        struct price_group g[3];
        struct price_facts f = random_facts(t, g, &s);
        struct estimate *before = help_price(&f, false, PRICE_AS_IS);
        struct estimate *after = help_price(&f, true, PRICE_AS_IS);

        check_sums(before);
        check_sums(after);
        by_rank += after->supported;
        by_head += after->head_binds;
        if (!after->supported) assert_int_equal(after->raw, before->raw);
        free(before);
        free(after);
        free(f.pending);
    }
    assert_true(by_rank > 500 && by_head > 50);
}

/* One group without pending gradients, its attention state in proportion. */
static int64_t plain_raw(struct price_group *g, bool per_rank, int64_t ep)
{
    int64_t kept[2] = {g->attention_rows[0] * 18560,
                       g->attention_rows[1] * 18560}, raw;
    struct price_facts f = help_facts(&model[0], g, 1, 2, ep);
    struct estimate *est;

    g->attention_retained = kept;
    est = help_price(&f, per_rank, PRICE_AS_IS);
    raw = est->raw;
    g->attention_retained = NULL;
    free(est);
    return raw;
}

static void test_more_rows_cost_more(void **state)
{
    uint64_t seed = help_seed(), s = seed;
    int round, per_rank;

    (void)state;
    for (round = 0; round < 400; round++) {
        struct two_ranks t = {.attention = {0}};
        struct price_group g;
        int64_t ep = 1 + help_below(&s, 2), was[2], *row;

        random_group(&t, &g, &s);
        g.grad = true;
        g.stage = NULL;
        for (per_rank = 0; per_rank < 2; per_rank++)
            was[per_rank] = plain_raw(&g, per_rank, ep);
        row = help_below(&s, 2) ? t.gdn : t.attention;
        row[help_below(&s, 2)] += 1 + help_below(&s, 5000);
        for (per_rank = 0; per_rank < 2; per_rank++)
            if (plain_raw(&g, per_rank, ep) < was[per_rank])
                fail_msg("seed %llu, round %d", (unsigned long long)seed,
                         round);
    }
}

/* Rows cut anywhere in both layouts, with the stages of a contiguous cut:
** rank 1 sees some of rank 0's keys. */
static void random_split(struct two_ranks *t, int64_t rows, uint64_t *s)
{
    int64_t a = help_below(s, rows + 1), q, k;
    int r;

    *t = (struct two_ranks){.attention = {a, rows - a}};
    t->gdn[0] = help_below(s, rows + 1);
    t->gdn[1] = rows - t->gdn[0];
    for (r = 0; r < 2; r++) {
        int64_t own = t->attention[r];
        t->n_stage[r] = 1;
        t->at[r][0] = (struct stage){
            .local = true, .q_full = true, .k_full = true, .q = own, .k = own,
            .q_len = padded128(own), .k_len = padded128(own)};
    }
    if (t->attention[1] == 0 || a == 0 || help_below(s, 3) == 0) return;
    q = help_below(s, 2) ? rows - a : help_below(s, rows - a + 1);
    k = 1 + help_below(s, a);
    t->n_stage[1] = 2;
    t->at[1][1] = (struct stage){
        .q_full = q == rows - a, .q = q, .k = k, .q_len = padded128(q),
        .k_len = padded128(k)};
}

static void test_bound_is_below(void **state)
{
    uint64_t seed = help_seed(), s = seed;
    int round;

    (void)state;
    for (round = 0; round < 3000; round++) {
        int64_t rows = 1 + help_below(&s, help_below(&s, 2) ? 3000 : 200000);
        struct two_ranks t;
        struct price_group g;
        struct price_facts f;
        struct estimate *est;
        struct err e;
        int64_t bound;

        random_split(&t, rows, &s);
        g = help_group(&t, true);
        f = help_facts(&model[0], &g, 1, 2, 1 + help_below(&s, 2));
        f.cold = help_below(&s, 2);
        if (help_below(&s, 2)) help_pending(&f);
        est = help_price(&f, true, PRICE_AS_IS);
        assert_int_equal(price_lower_bound(&f, &bound, &e), ERR_OK);
        if (bound > est->raw)
            fail_msg("seed %llu, round %d: %lld above %lld",
                     (unsigned long long)seed, round, (long long)bound,
                     (long long)est->raw);
        free(est);
        free(f.pending);
    }
}

/* Where ranks are not priced apart there is no bound, and it says why. */
static void test_no_bound(void **state)
{
    struct two_ranks t = help_real;
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&model[0], &g, 1, 2, 2);
    int64_t bound = 7;
    struct err e;

    (void)state;
    f.softmax_offset = true;
    assert_int_equal(price_lower_bound(&f, &bound, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "softmax offset"));
    f.ep = 3;
    assert_int_equal(price_lower_bound(&f, &bound, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "parallel.ep"));
    assert_int_equal(bound, 7);
}

/* The largest facts that are let in, on the largest model: bytes beyond 64
** bits are an error that names the rows, never a smaller number. */
static void test_too_big(void **state)
{
    struct model huge = model[0];
    int64_t rows[2] = {PRICE_MAX_ROWS, 1}, kept[2] = {0, 0};
    struct price_group g = {.grad = true, .slot = "policy",
                            .attention_rows = rows, .gdn_rows = rows,
                            .routed_rows = -1, .attention_retained = kept};
    struct price_facts f = help_facts(&huge, &g, 1, 2, 2);
    struct estimate *est;
    struct err e;
    int i;

    (void)state;
    est = help_price(&f, true, PRICE_AS_IS);    /* this still fits */
    assert_true(est->raw > ((int64_t)1 << 54));
    huge.hidden = huge.expert_ffn = MODEL_MAX_WIDTH;
    huge.q_heads = huge.head_dim = 4096;
    huge.experts = 65536;
    huge.top_k = 1024;
    for (i = 0; i < 2; i++) {
        assert_int_equal(price_busiest_rank(&f, est, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "groups[0].attention_rows"));
        assert_int_equal(price_per_rank(&f, est, &e), ERR_INPUT);
        assert_non_null(strstr(e.text, "groups[0].attention_rows"));
        g.routed_rows = PRICE_MAX_ROWS;
        rows[0] = 1;
    }
    free(est);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_terms_add_up),
        cmocka_unit_test(test_more_rows_cost_more),
        cmocka_unit_test(test_bound_is_below),
        cmocka_unit_test(test_no_bound),
        cmocka_unit_test(test_too_big),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
