/* The attention executor's records against the mirror that prices them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <inttypes.h>

#include "base/num.h"
#include "price/price.h"
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

/* ---- random plans against the mirror ------------------------------------ */

#define PLANS 20000

static int64_t tape(const struct model *m, const struct stage *s, int64_t own)
{
    int64_t row = m->q_heads * (m->head_dim + 1) * 4;

    return s->q_full ? own * row : s->q * (row + 8);
}

/* Without a local stage the first remote stage records no tape; the mirror
** leaves out the smallest: first tape - smallest tape. */
static int64_t exception(const struct model *m, const struct stage *s,
                         int64_t n, int64_t own)
{
    int64_t first = -1, least = 0, i;

    for (i = 0; i < n; i++) {
        if (s[i].q == 0 || s[i].k == 0) continue;
        if (s[i].local) return 0;
        if (first < 0) first = least = tape(m, &s[i], own);
        least = num_min(least, tape(m, &s[i], own));
    }
    return first < 0 ? 0 : first - least;
}

/* What a sample of random plans must contain to mean something. */
struct seen {
    int64_t aligned, unaligned, partial, empty, tiny, no_local, exceptions;
};

static void look(struct seen *seen, const struct stage *s, int64_t n,
                 int64_t own, int64_t less)
{
    int64_t i;

    for (i = 0; i < n; i++) {
        seen->aligned += s[i].q > 0 && s[i].q % 128 == 0;
        seen->unaligned += s[i].q % 128 != 0;
        seen->partial += s[i].q > 0 && s[i].q < own;
        seen->empty += s[i].q == 0;
        seen->tiny += s[i].q > 0 && s[i].q < 4;
    }
    seen->no_local += n > 1 && s[0].q == 0;
    seen->exceptions += less > 0;
}

static uint64_t seed_of_run(void)
{
    const char *text = getenv("PEAKPROOF_SEED");

    return text != NULL ? strtoull(text, NULL, 10) : 20240611;
}

static void test_mirror(void **state)
{
    static const int64_t blocks[][2] = {{128, 64}, {128, 128}, {64, 64}};
    uint64_t seed = seed_of_run(), at = seed;
    struct stage st[EXECUTOR_STAGES];
    struct seen seen = {0};
    int64_t own, n, i;

    (void)state;
    print_message("PEAKPROOF_SEED=%" PRIu64 "\n", seed);
    for (i = 0; i < PLANS; i++) {
        const int64_t *b = blocks[i % 3];
        int64_t held, less, mirror;

        n = executor_random_stages(&at, st, &own);
        held = records(&qwen, st, n, own, b[0], b[1]);
        mirror = price_stage_records(&qwen, st, n, own, b[0], b[1]);
        less = exception(&qwen, st, n, own);
        if (mirror - held != less)
            fail_msg("plan %d: mirror %" PRId64 ", executor %" PRId64
                     ", exception %" PRId64 " (replay with "
                     "PEAKPROOF_SEED=%" PRIu64 ")", (int)i, mirror, held,
                     less, seed);
        look(&seen, st, n, own, less);
    }
    assert_true(seen.aligned > 100 && seen.unaligned > 100);
    assert_true(seen.partial > 100 && seen.empty > 100 && seen.tiny > 100);
    assert_true(seen.no_local > 100 && seen.exceptions > 100);
}

/* A seed in checks.csv names the same ranks on every machine. Each line is one
** rank's stages: its rows, then queries, keys and whether each are all. */
static void test_random_ranks(void **state)
{
    static const int64_t want[][5] = {
        {2, 0, 0, 0, 0},
        {44545, 21255, 44545, 0, 1}, {44545, 44545, 42752, 1, 0},
        {44545, 13184, 2, 0, 0},
        {131, 0, 0, 0, 0}, {131, 128, 1, 0, 0}, {131, 33, 70000, 0, 0},
        {3, 0, 0, 0, 0}, {3, 1, 27400, 0, 0}, {3, 3, 4864, 1, 0},
        {4, 0, 0, 0, 0}, {4, 3, 3, 0, 0},
        {9349, 4736, 9349, 0, 0}, {9349, 3, 54249, 0, 0}, {9349, 1, 1, 0, 0},
        {1, 0, 0, 0, 0}, {1, 1, 42053, 1, 0}, {1, 1, 55253, 1, 0},
        {1, 1, 70000, 1, 0},
        {3915, 3, 3, 0, 0}, {3915, 2432, 62464, 0, 0},
        {3915, 3915, 70000, 1, 0}, {3915, 2083, 1, 0, 0},
        {4097, 2, 2560, 0, 0}, {4097, 4097, 34812, 1, 0},
        {4097, 3072, 55906, 0, 0}, {4097, 4097, 41984, 0, 0},
        {35795, 1, 3, 0, 0}, {35795, 35795, 4703, 0, 0},
        {35795, 35795, 2, 1, 0},
        {129, 3, 129, 0, 0},
    };
    static const int64_t count[] = {1, 3, 3, 3, 2, 3, 4, 4, 4, 3, 1};
    uint64_t at = 2;
    struct stage st[EXECUTOR_STAGES];
    int64_t own, i, row = 0;
    size_t k;

    (void)state;
    for (k = 0; k < sizeof count / sizeof *count; k++) {
        assert_int_equal(executor_random_stages(&at, st, &own), count[k]);
        for (i = 0; i < count[k]; i++, row++) {
            const int64_t got[] = {own, st[i].q, st[i].k, st[i].q_full,
                                   st[i].k_full};
            assert_memory_equal(got, want[row], sizeof got);
            assert_int_equal(st[i].q_len, num_round_up(st[i].q, 128));
            assert_int_equal(st[i].k_len, num_round_up(st[i].k, 128));
            assert_int_equal(st[i].local, i == 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_ranks),
        cmocka_unit_test(test_real_batch),
        cmocka_unit_test(test_tiny_and_empty),
        cmocka_unit_test(test_mirror),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
