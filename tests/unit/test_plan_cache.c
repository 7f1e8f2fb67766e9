/* Plans by content: found again, told apart, least recently used dropped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "plan/cache.h"
#include "plan/json.h"

static struct model moe35, dense27;

static struct batch one(int64_t tokens)
{
    struct batch b;
    struct err e;

    assert_int_equal(batch_from_lengths(&tokens, 1, &b, &e), ERR_OK);
    return b;
}

static const struct plan *get(struct plan_cache *c, const struct model *m,
                              int64_t tokens, int64_t cp, int64_t cut)
{
    struct plan_options o = {.cp = cp, .owned_ms = -1, .cut_rows = cut,
                             .profile = PLAN_NEW};
    struct batch b = one(tokens);
    const struct plan *p = NULL;
    struct err e = {0};

    if (plan_cache_get(c, m, &b, &o, &p, &e) != ERR_OK) fail_msg("%s", e.text);
    batch_free(&b);     /* the cache has its own */
    return p;
}

/* Was the plan made for this call? A mark in the cache's own one tells. */
static bool is_new(const struct plan *p)
{
    struct plan *own = (struct plan *)p;
    bool fresh = own->tokens >= 0;

    own->tokens = -1;
    return fresh;
}

static void found_by_content(void **state)
{
    struct plan_cache *c;
    const struct plan *p, *q;
    int32_t position[2047];
    struct err e;

    (void)state;
    assert_int_equal(plan_cache_new(4, &c, &e), ERR_OK);
    p = get(c, &moe35, 2047, 2, 0);
    assert_int_equal(p->rank[0].attention_rows, 1536);
    plan_positions(p, 1, LAYER_ATTENTION, position);
    assert_int_equal(position[510], 2046);
    assert_true(is_new(p));
    q = get(c, &moe35, 2047, 2, 0);
    assert_ptr_equal(p, q);
    assert_false(is_new(q));
    assert_ptr_not_equal(get(c, &moe35, 2047, 3, 0), p);
    assert_ptr_not_equal(get(c, &dense27, 2047, 2, 0), p);
    assert_ptr_not_equal(get(c, &moe35, 2047, 2, 100), p);
    plan_cache_free(c);
    plan_cache_free(NULL);
}

static void oldest_gives_way(void **state)
{
    struct plan_cache *c;
    struct err e;

    (void)state;
    assert_int_equal(plan_cache_new(2, &c, &e), ERR_OK);
    assert_true(is_new(get(c, &moe35, 100, 2, 0)));
    assert_true(is_new(get(c, &moe35, 200, 2, 0)));
    assert_false(is_new(get(c, &moe35, 100, 2, 0)));
    assert_true(is_new(get(c, &moe35, 300, 2, 0)));     /* drops 200 */
    assert_false(is_new(get(c, &moe35, 100, 2, 0)));
    assert_true(is_new(get(c, &moe35, 200, 2, 0)));
    plan_cache_free(c);
}

static void errors_are_not_kept(void **state)
{
    struct plan_options o = {.cp = 99, .owned_ms = -1};
    struct batch b = one(5);
    struct plan_cache *c;
    const struct plan *p;
    struct err e;
    int i;

    (void)state;
    assert_int_equal(plan_cache_new(0, &c, &e), ERR_OK);
    for (i = 0; i < 3; i++)
        assert_int_equal(plan_cache_get(c, &moe35, &b, &o, &p, &e), ERR_USAGE);
    assert_int_equal(get(c, &moe35, 5, 1, 0)->tokens, 5);
    plan_cache_free(c);
    batch_free(&b);
}

static void as_json(void **state)
{
    struct plan_cache *c;
    const struct plan *p;
    struct err e;
    json_t *v;
    char *text;

    (void)state;
    assert_int_equal(plan_cache_new(1, &c, &e), ERR_OK);
    p = get(c, &moe35, 1024, 2, 1000);
    v = plan_to_json(p, -1);
    json_object_set_new(v, "score_ms", json_integer(0));
    text = json_dumps(v, JSON_COMPACT);
    assert_string_equal(
        text,
        "{\"format\":1,\"tokens\":1024,\"chunk\":1000,\"chunks\":2,"
        "\"fetch_waves\":1,\"attention_rows\":[1000,24],"
        "\"gdn_rows\":[1000,24],\"chained\":true,\"score_ms\":0,"
        "\"plan_ms\":null,\"ranks\":[{\"stages\":["
        "{\"local\":true,\"q\":1000,\"k\":1000,\"q_len\":1024,"
        "\"k_len\":1024,\"q_full\":true},"
        "{\"local\":false,\"q\":0,\"k\":0,\"q_len\":0,\"k_len\":0,"
        "\"q_full\":false}]},{\"stages\":["
        "{\"local\":true,\"q\":24,\"k\":24,\"q_len\":128,\"k_len\":128,"
        "\"q_full\":true},"
        "{\"local\":false,\"q\":24,\"k\":1000,\"q_len\":128,"
        "\"k_len\":1024,\"q_full\":true}]}]}");
    free(text);
    json_decref(v);
    v = plan_to_json(p, 0.25);
    assert_true(json_real_value(json_object_get(v, "plan_ms")) == 0.25);
    json_decref(v);
    plan_cache_free(c);
}

static int load(void **state)
{
    struct err e;

    (void)state;
    return model_load("lua/models/Qwen3.6-35B-A3B.json", 0, &moe35, &e) ||
           model_load("lua/models/Qwen3.6-27B.json", 0, &dense27, &e);
}

static int unload(void **state)
{
    (void)state;
    model_free(&moe35);
    model_free(&dense27);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_by_content),
        cmocka_unit_test(oldest_gives_way),
        cmocka_unit_test(errors_are_not_kept),
        cmocka_unit_test(as_json),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
