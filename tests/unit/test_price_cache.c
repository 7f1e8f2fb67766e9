/*
** Prices from the cache are those made anew, told apart by every number that
** they depend on, also after their plan has given way to others.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "price/cache.h"

static struct model model;

static int64_t anew(const struct batch *b, const struct plan_options *o,
                    const struct price_ask *ask)
{
    struct price_facts f;
    struct estimate x;
    struct plan p;
    struct err e;

    assert_int_equal(plan_make(&model, b, o, &p, &e), ERR_OK);
    assert_int_equal(price_facts_from_plan(&model, &p, o->ep, ask->lora_rank,
                                           &f, &e), ERR_OK);
    f.cold = ask->cold;
    f.head_rows = ask->head_rows >= 0 ? ask->head_rows : p.tokens;
    if (f.cold) assert_int_equal(price_facts_all_pending(&f, &e), ERR_OK);
    assert_int_equal(ask->by->price(&f, &x, &e), ERR_OK);
    price_facts_free(&f);
    plan_free(&p);
    return x.raw;
}

static int64_t get(struct price_cache *c, int64_t tokens,
                   const struct plan_options *o, const struct price_ask *ask)
{
    const struct estimate *x, *again;
    const struct plan *p;
    struct batch b;
    struct err e;

    assert_int_equal(batch_from_lengths(&tokens, 1, &b, &e), ERR_OK);
    assert_int_equal(price_cache_get(c, &b, o, ask, &p, &x, &e), ERR_OK);
    assert_int_equal(p->tokens, tokens);
    assert_int_equal(price_cache_get(c, &b, o, ask, &p, &again, &e), ERR_OK);
    assert_ptr_equal(x, again);
    assert_int_equal(x->raw, anew(&b, o, ask));
    batch_free(&b);
    return x->raw;
}

/* Eight asks of three batches through a cache of four. */
static void test_same_as_anew(void **state)
{
    static const int64_t tokens[] = {3000, 9000, 30000};
    struct price_cache *c;
    struct err e;
    int round;

    (void)state;
    assert_int_equal(price_cache_new(&model, 4, &c, &e), ERR_OK);
    for (round = 0; round < 48; round++) {
        struct plan_options o = {.cp = 2, .ep = 1 + (round & 1), .tp = 1,
                                 .profile = PLAN_NEW, .owned_ms = -1};
        struct price_ask ask = {
            price_find(round & 2 ? PRICE_PER_RANK : PRICE_PER_RANK_ANY),
            round & 4 ? 8 : 32, round & 8 ? -1 : 100, (round & 16) != 0
        };
        (void)get(c, tokens[round % 3], &o, &ask);
    }
    price_cache_free(c);
}

/* Each of these numbers matters here, so a price of another would show. */
static void test_told_apart(void **state)
{
    struct plan_options o = {.cp = 2, .ep = 2, .tp = 1, .profile = PLAN_NEW,
                             .owned_ms = -1};
    struct price_ask ask[4];
    struct price_cache *c;
    int64_t raw[4];
    struct err e;
    int i, j;

    (void)state;
    for (i = 0; i < 4; i++)
        ask[i] = (struct price_ask){price_find(PRICE_PER_RANK_ANY), 8, -1,
                                    true};
    ask[1].by = price_find(PRICE_BUSIEST_RANK);
    ask[2].lora_rank = 64;
    ask[3].cold = false;
    assert_int_equal(price_cache_new(&model, 8, &c, &e), ERR_OK);
    for (i = 0; i < 4; i++) raw[i] = get(c, 300, &o, &ask[i]);
    for (i = 0; i < 4; i++)
        for (j = 0; j < i; j++) assert_int_not_equal(raw[i], raw[j]);
    price_cache_free(c);
}

static void test_refused(void **state)
{
    struct plan_options o = {.cp = 99, .ep = 1, .tp = 1, .owned_ms = -1};
    struct price_ask ask = {price_find(PRICE_PER_RANK_ANY), 8, -1, true};
    const struct estimate *x;
    const struct plan *p;
    struct price_cache *c;
    int64_t tokens = 300;
    struct batch b;
    struct err e;

    (void)state;
    assert_int_equal(batch_from_lengths(&tokens, 1, &b, &e), ERR_OK);
    assert_int_equal(price_cache_new(&model, 0, &c, &e), ERR_OK);
    assert_int_not_equal(price_cache_get(c, &b, &o, &ask, &p, &x, &e),
                         ERR_OK);
    price_cache_free(c);
    batch_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_as_anew), cmocka_unit_test(test_told_apart),
        cmocka_unit_test(test_refused),
    };
    struct err e;

    if (model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &model, &e)) return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
