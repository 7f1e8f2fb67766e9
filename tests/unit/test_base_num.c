/* Numbers: strict parsing, and sums and products that do not overflow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/num.h"

static void test_parse(void **state)
{
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "1.0", "0x10", "1e3", "--1", "-", "1k",
        "9223372036854775808", "-9223372036854775809"
    };
    int64_t v = 7;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(num_parse(bad[i], INT64_MIN, INT64_MAX, &v));
    assert_int_equal(v, 7);
    assert_true(num_parse("-12", -12, 0, &v));
    assert_int_equal(v, -12);
    assert_false(num_parse("-13", -12, 0, &v));
    assert_false(num_parse("1", -12, 0, &v));
    assert_true(num_parse("9223372036854775807", 0, INT64_MAX, &v));
    assert_true(v == INT64_MAX);
}

static void test_parse_bytes(void **state)
{
    static const char *const bad[] = {
        "", "-1", "1.5", "1.G", ".5G", "1.0000000001G", "1B", "1Bi", "1GBx",
        "1GBB", "1x", "G", "9223372036854775807k", "9223372.1T", "1i"
    };
    static const struct { const char *text; int64_t bytes; } good[] = {
        {"0", 0}, {"12", 12}, {"1k", 1000}, {"1K", 1000}, {"1Ki", 1024},
        {"80G", 80000000000}, {"80Gi", 85899345920}, {"2M", 2000000},
        {"1Ti", (int64_t)1 << 40}, {"80GB", 80000000000},
        {"72.5G", 72500000000}, {"0.5KiB", 512}, {"1.999k", 1999},
        {"1.0009k", 1000}, {"1.123456789T", 1123456789000},
        {"0.3Ki", 307}, {"9223372.036854775T", INT64_MAX - 807}
    };
    int64_t v = 0;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(num_parse_bytes(bad[i], &v));
    for (i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(num_parse_bytes(good[i].text, &v));
        assert_true(v == good[i].bytes);
    }
}

static void test_parse_double(void **state)
{
    static const char *const bad[] = {
        "", " 1", "nan", "inf", "1e999", "1.5x", "+1", ".5"
    };
    double v = 0;
    size_t i;

    (void)state;
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(num_parse_double(bad[i], &v));
    assert_true(num_parse_double("-1.5e2", &v));
    assert_true(v == -150);
}

static void test_overflow(void **state)
{
    int64_t v = 7;

    (void)state;
    assert_false(num_add(INT64_MAX, 1, &v));
    assert_false(num_mul(INT64_MAX / 2 + 1, 2, &v));
    assert_int_equal(v, 7);
    assert_true(num_add(INT64_MAX, 0, &v));
    assert_true(v == INT64_MAX);
    assert_true(num_mul(INT64_MAX / 2, 2, &v));
    assert_true(v == INT64_MAX - 1);
    assert_true(num_sadd(INT64_MAX, 1) == INT64_MAX);
    assert_true(num_smul(INT64_MAX, 2) == INT64_MAX);
    assert_true(num_sadd(num_smul(INT64_MAX, 2), 5) == INT64_MAX);
}

static void test_rounding(void **state)
{
    (void)state;
    assert_int_equal(num_ceil_div(0, 128), 0);
    assert_int_equal(num_ceil_div(1, 128), 1);
    assert_int_equal(num_ceil_div(128, 128), 1);
    assert_int_equal(num_round_up(129, 128), 256);
    assert_true(num_ceil_div(INT64_MAX, 2) == (INT64_MAX / 2) + 1);
}

static void test_ranges(void **state)
{
    static const char *const bad[] = {"", "1,", ",1", "a", "3-1", "1-", "8",
                                      "0-4", "1--2", "0,1,2,3,4"};
    int64_t v[4], n;
    size_t i;

    (void)state;
    assert_true(num_parse_ranges("5,0-2", 7, 4, v, &n));
    assert_int_equal(n, 4);
    assert_true(v[0] == 5 && v[1] == 0 && v[2] == 1 && v[3] == 2);
    for (i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (num_parse_ranges(bad[i], 7, 4, v, &n)) fail_msg("%s", bad[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_parse_bytes),
        cmocka_unit_test(test_parse_double),
        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_ranges), cmocka_unit_test(test_rounding),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
