/*
** test_mem_free_set.c - the order of free blocks, in lists and in treaps,
** against a plain scan of all. The seed is fixed.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mem/free_set.h"

enum { BLOCKS = 400 };

static struct mem_block block[BLOCKS];
static struct free_set set;

static uint64_t rng(uint64_t below)
{
    static uint64_t x = 7;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return x % below;
}

static bool before(const struct mem_block *a, const struct mem_block *b)
{
    return a->size != b->size ? a->size < b->size : a->addr < b->addr;
}

/* The nearest block in the set after (before) b, which need not be in it;
** with b itself where that is in it and self is asked for. */
static struct mem_block *nearest(const struct mem_block *b, bool after,
                                 bool self)
{
    struct mem_block *best = NULL;

    for (int i = 0; i < BLOCKS; i++) {
        struct mem_block *t = &block[i];
        bool same = t->size == b->size && t->addr == b->addr;

        if (t->state != BLOCK_FREE || (same && !self)) continue;
        if (!same && before(b, t) != after) continue;
        if (best == NULL || before(t, best) == after) best = t;
    }
    return best;
}

static void same_order(const struct mem_block *probe)
{
    struct mem_block least = {.size = probe->size};
    struct mem_block most = {.size = UINT64_C(1) << 62};
    struct mem_block *self = nearest(probe, true, true);
    bool found = self != NULL && !before(probe, self);

    assert_ptr_equal(free_set_fit(&set, probe->size),
                     nearest(&least, true, true));
    assert_ptr_equal(free_set_next(&set, probe), nearest(probe, true, false));
    assert_ptr_equal(free_set_previous(&set, probe),
                     nearest(probe, false, false));
    assert_ptr_equal(free_set_find(&set, probe->size, probe->addr),
                     found ? self : NULL);
    assert_ptr_equal(free_set_last(&set), nearest(&most, false, true));
}

/* Blocks of the given sizes, some in the set and some not; order: 0 at random,
** 1 by address, -1 from the highest down, so that a list gets long before
** anything walks it. */
static void shuffle(const uint64_t *size, uint64_t n_size, int order)
{
    free_set_init(&set);
    memset(block, 0, sizeof block);
    for (int i = 0; i < BLOCKS; i++) {
        block[i].size = size[rng(n_size)];
        block[i].addr = 512 * (uint64_t)(order < 0 ? BLOCKS - i : i + 1);
        if (order != 0) free_set_insert(&set, &block[i]);
    }
    for (int step = 0; step < 3000; step++) {
        struct mem_block *b = &block[rng(BLOCKS)];

        if (b->state == BLOCK_FREE) {
            free_set_remove(&set, b);
            b->state = BLOCK_LIVE;
        } else {
            free_set_insert(&set, b);
        }
        same_order(&block[rng(BLOCKS)]);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (block[i].state == BLOCK_FREE) free_set_remove(&set, &block[i]);
    assert_null(free_set_last(&set));
    assert_null(free_set_fit(&set, 512));
}

/* One size, some of one bin, and one of every kind. */
static void test_order(void **state)
{
    static const uint64_t one[] = {4096};
    static const uint64_t near[] = {1 << 30, (1 << 30) + 512, (1 << 30) + 1024,
                                    (1 << 30) + 4096};
    static const uint64_t all[] = {512, 1024, 15872, 16384, 16896, 1 << 20,
                                   1 << 21, 20 << 20, UINT64_C(1) << 60};

    (void)state;
    for (int order = -1; order <= 1; order++) {
        shuffle(one, 1, order);
        shuffle(near, 4, order);
        shuffle(all, 9, order);
    }
}

/* Bins never fall as sizes grow, and the largest size has one. */
static void test_bins(void **state)
{
    unsigned last = 0;

    (void)state;
    for (uint64_t size = 512; size <= UINT64_C(1) << 60;
         size += size / 51200 * 512 + 512) {
        unsigned bin = free_set_bin(size);

        assert_true(bin >= last && bin < SET_BINS - 1);
        last = bin;
    }
    assert_true(free_set_bin(UINT64_C(1) << 60) < SET_BINS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order), cmocka_unit_test(test_bins),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
