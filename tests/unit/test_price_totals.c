/* The published cases, to the byte, and how their parts add up. */
#include "price_help.h"

struct wanted {
    const struct two_ranks *batch;
    int64_t layers, before, after;
};

static const struct wanted published[] = {
    {&help_real, 40, 25831390943, 25818107903},
    {&help_random, 8, 39635294235, 39654137035},
    {&help_random, 40, 53479905307, 53435047115},
};

static void check_sums(const struct estimate *est)
{
    int64_t sum = 0;
    int c;

    for (c = 0; c < CAT_COUNT; c++) sum += est->term[c];
    assert_int_equal(sum, est->raw);
    assert_int_equal(est->admitted, est->raw / 10 * 11 + est->raw % 10 * 11
                                    / 10);
    if (est->n_rank == 0 || est->head_binds) return;
    for (c = 0; c < CAT_COUNT; c++)
        assert_int_equal(
            est->term[c],
            est->rank[est->binding_rank].term[est->binding_mixer][c]);
}

/* EP2, rank 8, cold, gradients pending, no head, no outputs. */
static void test_published_totals(void **state)
{
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        struct model m = help_model(QWEN36, published[i].layers);
        struct two_ranks t = *published[i].batch;
        struct price_group g = help_group(&t, true);
        struct price_facts f = help_facts(&m, &g, 1, 2, 2);
        struct estimate *before, *after;

        f.cold = true;
        help_pending(&f);
        before = help_price(&f, false, PRICE_AS_IS);
        after = help_price(&f, true, PRICE_AS_IS);
        assert_int_equal(before->raw, published[i].before);
        assert_int_equal(after->raw, published[i].after);
        check_sums(before);
        check_sums(after);
        free(before);
        free(after);
        free(f.pending);
        model_free(&m);
    }
}

/* The 27B, its busiest rank by its parts: 64 boundaries, the wider mixer
** (attention with stage buffers), the MLP, one gradient; after, each rank's
** own rows (pricing.md 2, 3.5, 5). */
static void test_dense_totals(void **state)
{
    struct model m = help_model("lua/models/Qwen3.6-27B.json", 0);
    struct two_ranks t = {.attention = {9000, 7000}, .gdn = {6000, 10000}};
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&m, &g, 1, 2, 1);
    int64_t row = 5120 * 2, mlp = 246368, kept[2] = {1000, 2000};
    struct estimate *before, *after;

    (void)state;
    g.attention_retained = kept;
    before = help_price(&f, false, PRICE_AS_IS);
    after = help_price(&f, true, PRICE_AS_IS);
    assert_int_equal(before->raw, 10000 * (65 * row + 153600 + mlp));
    assert_int_equal(before->term[CAT_SHARED_EXPERT], INT64_C(2463680000));
    assert_int_equal(before->term[CAT_MOE_ROUTING], 0);
    assert_int_equal(after->binding_rank, 1);
    assert_int_equal(after->binding_mixer, LAYER_GDN);
    assert_int_equal(after->raw, 32 * row * (7000 + 10000)
                                 + 10000 * (145408 + mlp + row));
    check_sums(before);
    check_sums(after);
    free(before);
    free(after);
    model_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_totals),
        cmocka_unit_test(test_dense_totals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
