/* Where keys stand in the text of a script. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "script/source.h"

static const char text[] =
    "local cp = 3 -- no key: a variable\n"            /* 1 */
    "return {\n"
    "  name = \"a = {b = 1\", about = 'it\\'s', -- x = 9\n"   /* 3 */
    "  long = [[two\n"
    "lines = 5]], deep = [==[ ]] ]=] y = 7]==],\n"    /* 4, 5 */
    "  --[=[ z = 1,\n"
    "  ]] ]=] cp = -2,\n"                             /* 7 */
    "  [\"with space\"] = 1.5e+3, same = a == b,\n"    /* 8 */
    "  [cp] = 4, cp = 3,\n"                           /* 9 */
    "  t.inner = true,\n"                             /* 10 */
    "  cp = 3, open = 'never closed\n"                /* 11 */
    "}\n";

static struct source *source(void **state) { return *state; }

static int setup(void **state)
{
    static struct source s;

    *state = &s;
    return !source_add(&s, "a.lua", text, strlen(text))
           || !source_add(&s, "b.lua", "return {cp = 3}", 15);
}

static int teardown(void **state)
{
    source_free(*state);
    return 0;
}

/* key = value stands in that line of a.lua and nowhere else. */
static void stands(const struct source *s, const char *key, const char *value,
                   int line)
{
    const struct source_key *k = source_find(s, key, value, "a.lua", 1);

    if (k == NULL) fail_msg("%s = %s: not found", key, value);
    assert_string_equal(k->file, "a.lua");
    assert_int_equal(k->line, line);
    assert_int_equal(k->key.n, strlen(key));
    assert_memory_equal(k->key.p, key, k->key.n);
    assert_int_equal(k->value.n, strlen(value));
    assert_memory_equal(k->value.p, value, k->value.n);
}

static void test_lines(void **state)
{
    const struct source *s = source(state);

    stands(s, "name", "a = {b = 1", 3);
    stands(s, "about", "it\\'s", 3);
    stands(s, "long", "two\nlines = 5", 4);
    stands(s, "deep", " ]] ]=] y = 7", 5);
    stands(s, "cp", "-2", 7);
    stands(s, "with space", "1.5e+3", 8);
    stands(s, "cp", "3", 9);
    stands(s, "inner", "true", 10);
    stands(s, "open", "never closed", 11);
}

/* What only looks like a key: in text, in comments, a comparison, a name of a
** variable, a computed key. */
static void test_none(void **state)
{
    static const char *const no[] = {"b", "x", "lines", "y", "z"};
    const struct source *s = source(state);
    size_t i;

    for (i = 0; i < sizeof no / sizeof *no; i++)
        assert_null(source_find(s, no[i], "", NULL, 1));
    for (i = 0; i < s->n; i++) assert_true(s->key[i].line != 1
                                           || s->key[i].file[0] == 'b');
    for (i = 0; i < s->n; i++)
        assert_false(s->key[i].value.n == 1 && *s->key[i].value.p == '4');
}

/* Of several the one at or after a line, in that file first. */
static void test_near(void **state)
{
    const struct source *s = source(state);

    assert_int_equal(source_find(s, "cp", "3", "a.lua", 10)->line, 11);
    assert_int_equal(source_find(s, "cp", "3", "a.lua", 9)->line, 9);
    assert_string_equal(source_find(s, "cp", "3", "b.lua", 1)->file, "b.lua");
    assert_int_equal(source_find(s, "inner", "false", "a.lua", 1)->line, 10);
    assert_null(source_find(s, "cp", "17", "a.lua", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines), cmocka_unit_test(test_none),
        cmocka_unit_test(test_near),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
