/* The size-only mirror of the attention executor, stage by stage. */
#include "price_help.h"

/* 16 query heads, 2 KV heads of 256, bf16 */
enum { Q = 8192, KV = 2048, OUT = 8192, LSE = 64, TAPE = 16448 };

static struct model m;

static int load(void **state)
{
    (void)state;
    m = help_model(QWEN36, 0);
    return 0;
}

static int unload(void **state)
{
    (void)state;
    model_free(&m);
    return 0;
}

static struct stage local(int64_t rows, int64_t len)
{
    return (struct stage){.local = true, .q_full = true, .k_full = true,
                          .q = rows, .k = rows, .q_len = len, .k_len = len};
}

static struct stage remote(bool full, int64_t q, int64_t q_len, int64_t k,
                           int64_t k_len)
{
    return (struct stage){.q_full = full, .q = q, .q_len = q_len, .k = k,
                          .k_len = k_len};
}

static int64_t records(const struct stage *s, int64_t n, int64_t own)
{
    return price_stage_records(&m, s, n, own, 128, 64);
}

/* rows 14, 15, 18 of pricing.md 12 */
static void test_published(void **state)
{
    struct stage s[2] = {local(52480, 52480)};
    (void)state;
    assert_int_equal(price_least_record_row(&m), 18560);
    assert_int_equal(records(s, 1, 52480), 974028800);
    assert_int_equal(974028800, 52480 * price_least_record_row(&m));
    s[0] = local(52481, 52608);
    assert_int_equal(records(s, 1, 52481), 1409687616);
    s[0] = local(44314, 44352);
    s[1] = remote(true, 44314, 44352, 16504, 16512);
    assert_int_equal(records(s, 1, 44314), 1190086272);
    assert_int_equal(records(s, 2, 44314), 3085833088);
    assert_int_equal(3085833088 - 1190086272, 1895746816);
}

/* Of one head a row is contiguous as it lies: nothing is copied. */
static void test_one_head(void **state)
{
    struct model one = m;

    (void)state;
    one.kv_heads = 1;
    assert_int_equal(price_least_record_row(&one), Q + OUT + 2 * LSE);
    one.q_heads = 1;
    assert_int_equal(price_least_record_row(&one), (OUT + 2 * LSE) / 16);
    one.kv_heads = 2;
    assert_int_equal(price_least_record_row(&one),
                     KV + (OUT + 2 * LSE) / 16);
}

static void test_each_buffer(void **state)
{
    struct stage s = remote(false, 256, 256, 128, 128);
    (void)state;
    /* partial and aligned: gathered, not copied again; its tape is dropped */
    assert_int_equal(records(&s, 1, 1000),
                     Q * 256 + KV * 128 + (OUT + 2 * LSE) * 256);
    s.q = 200;      /* padded: a second copy, and logical-length outputs */
    assert_int_equal(records(&s, 1, 1000),
                     Q * 200 + Q * 256 + KV * 128 + (OUT + 2 * LSE) * 256
                     + (OUT + LSE) * 200);
    s = remote(true, 256, 256, 100, 128);   /* keys padded */
    assert_int_equal(records(&s, 1, 256),
                     Q * 256 + KV * 100 + KV * 128 + (OUT + 2 * LSE) * 256);
    s = local(3, 128);      /* at least two blocks of each */
    assert_int_equal(records(&s, 1, 3),
                     Q * 256 + KV * 128 + (OUT + 2 * LSE) * 256
                     + (OUT + LSE) * 3);
    s.k_full = false;       /* a local stage that gathers its keys */
    s.k = 2;
    assert_int_equal(records(&s, 1, 3),
                     Q * 256 + KV * 2 + KV * 128 + (OUT + 2 * LSE) * 256
                     + (OUT + LSE) * 3);
}

static void test_tapes(void **state)
{
    struct stage s[4] = {local(512, 512),
                         remote(true, 512, 512, 256, 256),
                         remote(false, 256, 256, 128, 128)};
    int64_t each[3], i, sum = 0;

    (void)state;
    for (i = 0; i < 3; i++) {   /* alone, no stage merges into another */
        each[i] = records(&s[i], 1, 512);
        sum += each[i];
    }
    assert_int_equal(records(s, 3, 512),
                     sum + TAPE * 512 + (TAPE + 8) * 256);
    /* without a local stage the smallest tape is dropped */
    assert_int_equal(records(s + 1, 2, 512),
                     each[1] + each[2] + TAPE * 512);
    /* a local stage without work does not count as the first */
    s[0].q = s[0].k = s[0].q_len = s[0].k_len = 0;
    assert_int_equal(records(s, 3, 512), each[1] + each[2] + TAPE * 512);
    s[3] = remote(false, 300, 384, 0, 0);   /* no keys: nothing runs */
    assert_int_equal(records(s, 4, 512), records(s, 3, 512));
    assert_int_equal(records(s, 0, 512), 0);
}

/* One LSE a stage is 64 B a padded row; published: under 0.01 GB. */
static void test_one_lse(void **state)
{
    struct two_ranks t = help_real;
    struct price_group g = help_group(&t, true);
    struct price_facts f = help_facts(&m, &g, 1, 2, 2);
    struct estimate *two = help_price(&f, true, PRICE_AS_IS);
    struct estimate *one = help_price(&f, true, PRICE_ONE_LSE);

    (void)state;
    assert_int_equal(two->rank[1].attention_retained
                     - one->rank[1].attention_retained, 2 * LSE * 44416);
    assert_int_equal(two->raw - one->raw, 2 * LSE * 44416);
    assert_true(two->raw - one->raw < 10000000);
    free(two);
    free(one);
}

static void test_saturates(void **state)
{
    struct stage s[2] = {local((int64_t)1 << 50, (int64_t)1 << 50)};
    (void)state;
    assert_int_equal(records(s, 1, (int64_t)1 << 50), INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_one_head),
        cmocka_unit_test(test_each_buffer),
        cmocka_unit_test(test_tapes),
        cmocka_unit_test(test_one_lse),
        cmocka_unit_test(test_saturates),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
