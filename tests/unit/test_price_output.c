/* What "price" prints: key names and their order, fallbacks, nulls. */
#include <jansson.h>

#include "price_help.h"
#include "base/json.h"
#include "price/price_json.h"

static struct model moe;

static int load(void **state)
{
    (void)state;
    moe = help_model(QWEN36, 0);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    model_free(&moe);
    return 0;
}

static json_t *printed(const struct price_facts *f)
{
    struct estimate *a = help_price(f, false, PRICE_AS_IS);
    struct estimate *b = help_price(f, true, PRICE_AS_IS);
    const struct estimate *list[2] = {a, b};
    json_t *v = NULL;
    struct err e;

    assert_int_equal(price_estimates_to_json(list, 2, &v, &e), ERR_OK);
    free(a);
    free(b);
    return v;
}

static json_t *estimate_of(json_t *v, size_t i)
{
    return json_array_get(json_object_get(v, "estimates"), i);
}

static void check_keys(json_t *o, const char *const *want)
{
    const char *key;
    json_t *v;

    json_object_foreach(o, key, v) {
        assert_non_null(*want);
        assert_string_equal(key, *want);
        want++;
    }
    assert_null(*want);
}

static void test_keys(void **state)
{
    static const char *const top[] = {"format", "estimates", NULL};
    static const char *const plain[] = {
        "name", "supported", "reason", "raw_bytes", "admitted_bytes", "terms",
        NULL};
    static const char *const ranks[] = {
        "name", "supported", "reason", "raw_bytes", "admitted_bytes", "terms",
        "binding_rank", "binding_mixer", "ranks", NULL};
    static const char *const rank[] = {
        "boundaries", "attention_stage", "gdn_stage", "attention_retained",
        "moe_workspace", "adapter_extra", "total", NULL};
    static const char *const mixers[] = {"attention", "gdn", NULL};
    static const char *const terms[] = {
        "boundaries", "attention", "attention_records", "gdn",
        "residual_norm", "moe_routing", "moe_dispatch", "moe_experts",
        "shared_expert", "input_gradient", "adapter_gradients", "head",
        "workspace", "outputs", "hybridep", "rounding", "other", NULL};
    struct two_ranks t = help_real;
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&moe, &g, 1, 2, 2);
    json_t *v = printed(&f), *est = estimate_of(v, 1), *r;

    (void)state;
    check_keys(v, top);
    check_keys(estimate_of(v, 0), plain);
    check_keys(est, ranks);
    check_keys(json_object_get(est, "terms"), terms);
    assert_int_equal(json_array_size(json_object_get(est, "ranks")), 2);
    r = json_array_get(json_object_get(est, "ranks"), 1);
    check_keys(r, rank);
    check_keys(json_object_get(r, "moe_workspace"), mixers);
    assert_int_equal(json_integer_value(json_object_get(r, "boundaries")),
                     7611514880);
    assert_int_equal(json_integer_value(json_object_get(
                         r, "attention_retained")), 3085833088);
    assert_int_equal(json_integer_value(json_object_get(est, "binding_rank")),
                     1);
    assert_string_equal(json_string_value(json_object_get(
                            est, "binding_mixer")), "attention");
    assert_true(json_is_null(json_object_get(est, "reason")));
    json_decref(v);
}

/* Per-rank keeps the busiest rank's bytes and says why. */
static void fallback(const struct price_facts *f, const char *word)
{
    json_t *v = printed(f), *a = estimate_of(v, 0), *b = estimate_of(v, 1);
    const char *reason = json_string_value(json_object_get(b, "reason"));

    assert_true(json_is_true(json_object_get(a, "supported")));
    assert_true(json_is_false(json_object_get(b, "supported")));
    assert_non_null(reason);
    if (strstr(reason, word) == NULL) fail_msg("no %s in: %s", word, reason);
    assert_true(json_is_integer(json_object_get(a, "raw_bytes")));
    assert_true(json_equal(json_object_get(a, "raw_bytes"),
                           json_object_get(b, "raw_bytes")));
    assert_true(json_equal(json_object_get(a, "admitted_bytes"),
                           json_object_get(b, "admitted_bytes")));
    assert_true(json_equal(json_object_get(a, "terms"),
                           json_object_get(b, "terms")));
    assert_int_equal(json_array_size(json_object_get(b, "ranks")), 0);
    assert_true(json_is_null(json_object_get(b, "binding_rank")));
    assert_true(json_is_null(json_object_get(b, "binding_mixer")));
    json_decref(v);
}

static void test_fallbacks(void **state)
{
    struct two_ranks t = help_real;
    struct price_group g[2] = {help_group(&t, true), help_group(&t, false)};
    struct price_facts f = help_facts(&moe, g, 1, 2, 2);
    int64_t four[4] = {100, 90, 80, 70};

    (void)state;
    f.softmax_offset = true;
    fallback(&f, "softmax offset");
    f.softmax_offset = false;
    f.cp_attention = false;
    fallback(&f, "context-parallel attention");
    f.cp_attention = true;
    f.n_group = 2;
    fallback(&f, "group 1 has no gradients");
    f.n_group = 1;
    f.cp = f.ep = 1;
    fallback(&f, "CP1");
    g[0].attention_rows = g[0].gdn_rows = four;
    g[0].stage = NULL;
    f.cp = f.ep = 4;
    fallback(&f, "CP4");
}

/* Nothing applies: no bytes, rather than wrong ones. */
static void nothing(const struct price_facts *f, const char *word)
{
    json_t *v = printed(f);
    size_t i;

    for (i = 0; i < 2; i++) {
        json_t *est = estimate_of(v, i);
        const char *why = json_string_value(json_object_get(est, "reason"));
        assert_true(json_is_false(json_object_get(est, "supported")));
        assert_true(json_is_null(json_object_get(est, "raw_bytes")));
        assert_true(json_is_null(json_object_get(est, "admitted_bytes")));
        assert_int_equal(json_object_size(json_object_get(est, "terms")), 0);
        if (strstr(why, word) == NULL) fail_msg("no %s in: %s", word, why);
    }
    assert_int_equal(json_array_size(json_object_get(estimate_of(v, 1),
                                                     "ranks")), 0);
    json_decref(v);
}

static void test_unsupported(void **state)
{
    struct two_ranks t = help_real;
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&moe, &g, 1, 2, 2);

    (void)state;
    f.tp = 2;
    nothing(&f, "TP2");
    f.tp = 1;
    f.pp = 4;
    nothing(&f, "PP4");
}

/* The head binds: no mixer does. */
static void test_head(void **state)
{
    struct two_ranks t = {.attention = {60, 40}, .gdn = {50, 50}};
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&moe, &g, 1, 2, 2);
    json_t *v, *est;

    (void)state;
    f.head_rows = 512;
    v = printed(&f);
    est = estimate_of(v, 1);
    assert_true(json_is_null(json_object_get(est, "binding_mixer")));
    assert_int_equal(json_integer_value(json_object_get(
                         json_object_get(est, "terms"), "head")),
                     762839040 + 60 * 512);
    json_decref(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_fallbacks),
        cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_head),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
