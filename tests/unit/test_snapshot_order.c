/* Addresses in order, against a plain list: what is put and removed at random
** is found again by any address at it or above. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/random.h"
#include "snapshot/addr_tree.h"

enum { N = 300, ROUNDS = 20000 };

/* The plain answer: of those that are there the highest up to addr. */
static int64_t highest(const uint64_t at[N], uint64_t addr)
{
    int64_t best = -1;

    for (int64_t i = 0; i < N; i++)
        if (at[i] != 0 && at[i] <= addr && (best < 0 || at[i] > at[best]))
            best = i;
    return best;
}

static bool is_there(const uint64_t at[N], uint64_t addr)
{
    int64_t i = highest(at, addr);

    return i >= 0 && at[i] == addr;
}

static void test_random(void **state)
{
    struct addr_tree t = {0};
    uint64_t at[N] = {0};
    uint64_t r = 7;
    int i, n = 0, most = 0;

    (void)state;
    for (i = 0; i < ROUNDS; i++) {
        int64_t k = (int64_t)(random_next(&r) % N);
        uint64_t addr = 512 * (1 + random_next(&r) % 1000), ask;

        if (at[k] != 0) {
            addr_tree_remove(&t, at[k], k);
            at[k] = 0;
            n--;
        } else if (!is_there(at, addr)) {
            assert_true(addr_tree_put(&t, addr, k));
            at[k] = addr;
            most = ++n > most ? n : most;
        }
        ask = random_next(&r) % (512 * 1002);
        assert_int_equal(addr_tree_up_to(&t, ask), highest(at, ask));
        assert_int_equal(addr_tree_up_to(&t, addr), highest(at, addr));
    }
    assert_true(most > N / 3);
    addr_tree_free(&t);
    assert_int_equal(addr_tree_up_to(&t, 512), -1);
}

static int64_t depth(const struct addr_tree *t, int64_t link)
{
    int64_t a, b;

    if (link == 0) return 0;
    a = depth(t, t->node[link - 1].left);
    b = depth(t, t->node[link - 1].right);
    return 1 + (a > b ? a : b);
}

/* Blocks one behind the other, as a segment has them, are no list. */
static void test_depth(void **state)
{
    struct addr_tree t = {0};
    int64_t i;

    (void)state;
    for (i = 0; i < 20000; i++)
        assert_true(addr_tree_put(&t, UINT64_C(0x7f0000000000)
                                  + (uint64_t)i * (1 << 20), i));
    assert_in_range(depth(&t, t.root), 15, 60);
    addr_tree_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random), cmocka_unit_test(test_depth),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
