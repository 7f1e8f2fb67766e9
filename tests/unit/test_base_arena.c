/* Arenas: zeroed, aligned, apart, refused when too large, reused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdalign.h>
#include <string.h>

#include "base/arena.h"

static void many_arrays(void **state)
{
    struct arena a = ARENA_INIT;
    unsigned char *p[300];
    int i, j;

    (void)state;
    for (i = 0; i < 300; i++) {
        p[i] = ARENA_TAKE(&a, i * 7, unsigned char);
        assert_non_null(p[i]);
        assert_int_equal((uintptr_t)p[i] % alignof(max_align_t), 0);
        for (j = 0; j < i * 7; j++) assert_int_equal(p[i][j], 0);
        memset(p[i], i, (size_t)(i * 7));
    }
    for (i = 0; i < 300; i++)
        for (j = 0; j < i * 7; j++) assert_int_equal(p[i][j], i & 255);
    assert_in_range(a.blocks, 2, 10);
    arena_free(&a);
    arena_free(&a);
}

static void too_large(void **state)
{
    struct arena a = ARENA_INIT;

    (void)state;
    assert_null(arena_take(&a, INT64_MAX, 8));
    assert_null(arena_take(&a, INT64_MAX / 8, 8));
    assert_null(arena_take(&a, -1, 1));
    assert_non_null(arena_take(&a, 0, 8));
    arena_free(&a);
}

static void reset_keeps_a_block(void **state)
{
    struct arena a = ARENA_INIT;
    int64_t blocks;
    int i;

    (void)state;
    for (i = 0; i < 100; i++) assert_non_null(ARENA_TAKE(&a, 100, int64_t));
    blocks = a.blocks;
    for (i = 0; i < 100; i++) {
        int64_t *p;
        arena_reset(&a);
        p = ARENA_TAKE(&a, 1000, int64_t);
        assert_int_equal(p[999], 0);
        memset(p, 1, 8000);
    }
    assert_int_equal(a.blocks, blocks);
    arena_free(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_arrays),
        cmocka_unit_test(too_large),
        cmocka_unit_test(reset_keeps_a_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
