/* Which word is meant by a mistyped one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "base/suggest.h"

static const char *const words[] = {
    "layers", "experts", "cp", "ep", "attention_rows", "gdn_rows", NULL
};
static const char *const by_prefix[] = {"on", "one-and-a", "one-b", NULL};

static void test_near(void **state)
{
    (void)state;
    assert_string_equal(suggest("layer", words), "layers");
    assert_string_equal(suggest("alyers", words), "layers");
    assert_string_equal(suggest("attent", words), "attention_rows");
    assert_string_equal(suggest("one", by_prefix), "one-b");
    assert_string_equal(suggest("expertss", words), "experts");
    assert_string_equal(suggest("attention_row", words), "attention_rows");
    assert_string_equal(suggest("gdm_rosw", words), "gdn_rows");
    assert_string_equal(suggest("cpp", words), "cp");
    assert_string_equal(suggest("pc", words), "cp");
}

static void test_far(void **state)
{
    static const char *const none[] = {NULL};
    char endless[300];

    (void)state;
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    assert_null(suggest("", words));
    assert_null(suggest("width", words));
    assert_null(suggest("x", words));
    assert_null(suggest(endless, words));
    assert_null(suggest("layers", none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near), cmocka_unit_test(test_far),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
