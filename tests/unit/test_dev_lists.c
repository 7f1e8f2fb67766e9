/* What is made of one list is whole: kernels, categories, bars, phases. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "base/category.h"
#include "dev/cpu/cpu.h"
#include "mem/mem.h"

static void test_every_kernel(void **state)
{
    (void)state;
#define THERE(name)                                                         \
    assert_non_null(cpu_kernels_f32.name);                                  \
    assert_non_null(cpu_kernels_f64.name);
    KERNELS(THERE)
#undef THERE
}

static void test_every_category(void **state)
{
    int bars[BAR_COUNT] = {0}, i, k;

    (void)state;
    for (i = 0; i < CAT_COUNT; i++) {
        const char *name = category_name((enum category)i);
        assert_true(strlen(name) > 0);
        assert_true(strlen(category_help((enum category)i)) > 0);
        for (k = 0; k < i; k++)
            assert_string_not_equal(name, category_name((enum category)k));
        bars[category_bar((enum category)i)]++;
    }
    for (i = 0; i < BAR_COUNT; i++) {
        assert_true(bars[i] > 0);
        assert_true(strlen(category_bar_name((enum category_bar)i)) > 0);
        assert_int_equal(category_bar_colour((enum category_bar)i)[0], '#');
    }
    for (i = 0; i < PHASE_COUNT; i++)
        assert_true(strlen(mem_phase_name((enum mem_phase)i)) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kernel),
        cmocka_unit_test(test_every_category),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
