/*
** lua/estimators: the same bytes as the estimators in C, on hundreds of
** random facts each. PEAKPROOF_SEED replays a failure.
*/
#include <stdio.h>

#include "price_help.h"
#include "script/scenario.h"
#include "sweep.h"

enum { GROUPS = 3, ROUNDS = 500, SANITIZED = 100 };

#define MODELS 4        /* the last is dense */

static struct model model[MODELS];

static int setup(void **state)
{
    (void)state;
    model[0] = help_model(QWEN36, 40);
    model[1] = help_model("lua/models/Qwen3-Next-80B-A3B.json", 7);
    model[2] = help_model("lua/models/Qwen3-30B-A3B.json", 5);
    model[3] = help_model("lua/models/Qwen3.6-27B.json", 9);
    return 0;
}

static int teardown(void **state)
{
    int i;

    (void)state;
    for (i = 0; i < MODELS; i++) model_free(&model[i]);
    return 0;
}

/* A group of two ranks with all that it may hold. */
struct known {
    struct two_ranks t;
    int64_t states[2], chunks[2], handed[2], pairs[2 * 40], sent[2 * 4];
};

static void random_group(struct known *k, struct price_group *g, uint64_t *s)
{
    int64_t most = help_below(s, 2) ? 200 : 100000;
    int r, i;

    for (r = 0; r < 2; r++) {
        k->t.attention[r] = help_below(s, most) + (r == 0);
        k->t.gdn[r] = help_below(s, most);
        help_random_stages(&k->t, r, s);
        k->states[r] = help_below(s, 20);
        k->chunks[r] = k->t.gdn[r] / 64 + help_below(s, 20);
        k->handed[r] = help_below(s, 5);
        for (i = 0; i < 40; i++)
            k->pairs[40 * r + i] = help_below(s, 8 * most);
    }
    *g = help_group(&k->t, help_below(s, 12) > 0);
    if (help_below(s, 3) == 0) g->routed_rows = help_below(s, 2 * most);
    if (help_below(s, 5) == 0) strcpy(g->slot, PRICE_BASE_SLOT);
    else if (help_below(s, 3) == 0) strcpy(g->slot, "other");
    if (help_below(s, 2) == 0) g->gdn_states = k->states;
    if (help_below(s, 2) == 0) g->gdn_chunks = k->chunks;
    if (help_below(s, 2) == 0) g->gdn_sent = k->handed;
    if (help_below(s, 2) == 0) g->routed_pairs = k->pairs;
    if (help_below(s, 2) > 0) return;
    for (i = 0; i < 8; i++) k->sent[i] = help_below(s, most);
    g->sent_rows = k->sent;
    g->n_sent = 1 + help_below(s, 4);
}

static struct price_facts random_facts(struct known *k,
                                       struct price_group *g, uint64_t *s)
{
    static const int64_t ranks[] = {0, 1, 4, 7, 8, 12, 16, 64};
    int64_t n = 1 + help_below(s, GROUPS), i;
    struct price_facts f;

    for (i = 0; i < n; i++) random_group(&k[i], &g[i], s);
    f = help_facts(&model[help_below(s, MODELS)], g, n, 2,
                   (int64_t)1 << help_below(s, help_below(s, 4) ? 2 : 6));
    if (f.model->experts == 0) f.ep = 1;
    f.lora_rank = ranks[help_below(s, 8)];
    f.cold = help_below(s, 2);
    f.moe_stages = help_below(s, 4) > 0;
    f.routing_state = help_below(s, 4) > 0;
    f.head_rows = help_below(s, 2) * help_below(s, 1000);
    f.output_bytes = help_below(s, 3) * 12345;
    f.hybridep_held_rows = help_below(s, 3) - 1;
    f.packed_length = 1 + help_below(s, 100000);
    if (help_below(s, 3) > 0) help_pending(&f);
    f.mode.eager = help_below(s, 16) == 0;
    if (help_below(s, 16) == 0) f.mode.recompute = RECOMPUTE_NONE;
    return f;
}

static struct scenario_estimators *load(const char *name)
{
    struct scenario_limits limits = {0};
    struct scenario_estimators *out;
    char path[128];
    struct err e;

    snprintf(path, sizeof path, "lua/estimators/%s.lua", name);
    if (scenario_estimator_load(path, "lua", &limits, &out, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return out;
}

static void compare(const struct estimate *want, const struct estimate *got,
                    const char *name, uint64_t seed)
{
    int c;

    if (want->supported != got->supported)
        fail_msg("%s, seed %llu: supported %d, in Lua %d (%s)", name,
                 (unsigned long long)seed, want->supported, got->supported,
                 got->reason);
    if (!want->supported) return;
    for (c = 0; c < CAT_COUNT; c++)
        if (want->term[c] != got->term[c])
            fail_msg("%s, seed %llu: %s is %lld, in Lua %lld", name,
                     (unsigned long long)seed,
                     category_name((enum category)c),
                     (long long)want->term[c], (long long)got->term[c]);
    assert_int_equal(want->raw, got->raw);
    assert_int_equal(want->admitted, got->admitted);
}

static void hold(const char *name)
{
    struct scenario_estimators *lua = load(name);
    const struct price_estimator *c = price_find(name);
    struct estimate *want = malloc(sizeof *want), *got = malloc(sizeof *got);
    struct price_group g[GROUPS];
    struct known k[GROUPS];
    int64_t i, rounds = sweep(ROUNDS, SANITIZED), supported = 0;
    struct err e;

    print_message("%s, seed %llu\n", name, (unsigned long long)help_seed());
    for (i = 0; i < rounds; i++) {
        uint64_t seed = help_seed() + (uint64_t)i, s = seed;
        struct price_facts f = random_facts(k, g, &s);

        if (f.model->experts % f.ep == 0) {
            if (c->price(&f, want, &e) != ERR_OK) fail_msg("%s", e.text);
            if (scenario_estimator_call(lua, 0, &f, NULL, got, &e) != ERR_OK)
                fail_msg("%s, seed %llu: %s", name, (unsigned long long)seed,
                         e.text);
            compare(want, got, name, seed);
            supported += want->supported;
        }
        free(f.pending);
    }
    assert_true(supported > rounds / 3);
    free(want);
    free(got);
    scenario_estimator_free(lua);
}

static void test_busiest_rank(void **state)
{
    (void)state;
    hold("busiest-rank");
}

static void test_per_rank(void **state)
{
    (void)state;
    hold("per-rank");
}

static void test_per_rank_any(void **state)
{
    (void)state;
    hold("per-rank-any");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_busiest_rank), cmocka_unit_test(test_per_rank),
        cmocka_unit_test(test_per_rank_any),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
