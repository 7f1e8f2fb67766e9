/* The attention executor's records against the mirror that prices them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/num.h"
#include "step/executor_check.h"

/* Heads of Qwen3.6-35B-A3B. */
static const struct model qwen = {.layers = 1, .hidden = 2048, .q_heads = 16,
                                  .kv_heads = 2, .head_dim = 256};

static int64_t records(const struct model *m, const struct stage *st,
                       int64_t n, int64_t own, int64_t q_block,
                       int64_t k_block)
{
    struct err e;
    int64_t bytes = -1;

    if (executor_records(m, st, n, own, q_block, k_block, &bytes, &e))
        fail_msg("%s", e.text);
    return bytes;
}

static struct stage local(int64_t q, int64_t q_len)
{
    return (struct stage){.local = true, .q = q, .k = q, .q_len = q_len,
                          .k_len = q_len, .q_full = true, .k_full = true};
}

/* The real batch: rank 0 one aligned stage, rank 1 an unaligned one and a
** full-query remote one (pricing.md 12, rows 14, 15, 18). */
static void test_real_batch(void **state)
{
    struct stage one = local(52480, 52480), padded = local(52481, 52608);
    struct stage two[2] = {local(44314, 44352),
                           {.q = 44314, .k = 16504, .q_len = 44352,
                            .k_len = 16512, .q_full = true}};

    (void)state;
    assert_int_equal(records(&qwen, &one, 1, 52480, 128, 64), 974028800);
    assert_int_equal(records(&qwen, &padded, 1, 52481, 128, 64), 1409687616);
    assert_int_equal(records(&qwen, two, 1, 44314, 128, 64), 1190086272);
    assert_int_equal(records(&qwen, two, 2, 44314, 128, 64), 3085833088);
}

/* One query of one key takes two blocks of each. */
static void test_tiny_and_empty(void **state)
{
    struct stage st = local(1, 128), none = {.local = true};
    int64_t copies = 256 * (8192 + 8192 + 2 * 64) + 128 * 2048;

    (void)state;
    assert_int_equal(records(&qwen, &st, 1, 1, 128, 64),
                     copies + 8192 + 64);
    assert_int_equal(records(&qwen, &none, 1, 7, 128, 64), 0);
    assert_int_equal(records(&qwen, &none, 0, 0, 128, 64), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_real_batch),
        cmocka_unit_test(test_tiny_and_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
