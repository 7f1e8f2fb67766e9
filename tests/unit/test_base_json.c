/* The strict JSON walker: what it names in its complaints, and the writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static struct js parse(const char *text)
{
    json_t *v = NULL;
    struct err e;

    if (js_parse(text, strlen(text), "f.json", &v, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return js_top(v, "f.json");
}

static void refuse(const char *text)
{
    json_t *v = NULL;
    struct err e;

    assert_int_equal(js_parse(text, strlen(text), "f.json", &v, &e),
                     ERR_INPUT);
    assert_null(v);
    assert_memory_equal(e.text, "f.json:1: not JSON: ", 20);
}

static void test_not_json(void **state)
{
    (void)state;
    refuse("");
    refuse("{");
    refuse("{\"a\":1,\"a\":2}");
    refuse("[1] x");
    refuse("NaN");
    refuse("\"a\\u0000b\"");
}

/* A number beyond 64 bits is named by its key. */
static void test_too_big(void **state)
{
    static const char *const text[][2] = {
        {"{\"a\":9223372036854775808}", "f.json: a: "},
        {"{\"g\":[{\"r\":[1,\n-99999999999999999999]}]}",
         "f.json: g[0].r[1]: "},
        {"{\"a\":1e400}", "f.json:1: "},
    };
    json_t *v = NULL;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < 3; i++) {
        assert_int_equal(js_parse(text[i][0], strlen(text[i][0]), "f.json",
                                  &v, &e), ERR_INPUT);
        if (strncmp(e.text, text[i][1], strlen(text[i][1])) != 0)
            fail_msg("%s", e.text);
    }
}

static void test_unknown_key(void **state)
{
    static const char *const known[] = {"layers", "groups", NULL};
    struct js at = parse("{\"layers\":1,\"gruops\":2}");
    struct err e;

    (void)state;
    assert_int_equal(js_object(&at, known, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: unknown key 'gruops' (did you mean "
                        "'groups'?)");
    assert_int_equal(js_object(&at, NULL, &e), ERR_OK);
    json_decref(at.v);
}

static void test_paths(void **state)
{
    struct js top = parse("{\"groups\":[{\"rows\":[1,-2,1.0,\"x\"]}]}");
    struct js groups, group, rows, item;
    struct err e;
    int64_t n, *v = NULL;

    (void)state;
    assert_int_equal(js_need(&top, "groups", &groups, &e), ERR_OK);
    group = js_item(&groups, 0);
    assert_int_equal(js_need(&group, "rows", &rows, &e), ERR_OK);
    assert_int_equal(js_ints(&rows, -1, 0, 9, &v, &n, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: groups[0].rows[1]: -2 is not from 0 "
                        "to 9");
    assert_int_equal(js_ints(&rows, 3, 0, 9, &v, &n, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: groups[0].rows: has 4 elements, must "
                        "have 3");
    item = js_item(&rows, 2);
    assert_int_equal(js_int(&item, 0, 9, &n, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: groups[0].rows[2]: must be a whole "
                        "number, is a fraction");
    item = js_item(&rows, 9);
    assert_int_equal(js_int(&item, 0, 9, &n, &e), ERR_INPUT);
    assert_int_equal(js_need(&group, "cols", &rows, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: groups[0].cols: missing");
    json_decref(top.v);
}

static void test_members(void **state)
{
    struct js at = parse("{\"i\":7,\"d\":0.5,\"b\":true,\"s\":\"x\","
                         "\"z\":null}");
    struct err e;
    struct js z;
    int64_t i = 0;
    double d = 0;
    bool b = false;
    const char *s = NULL;

    (void)state;
    assert_int_equal(js_need_int(&at, "i", 7, 7, &i, &e), ERR_OK);
    assert_int_equal(js_need_double(&at, "d", &d, &e), ERR_OK);
    assert_int_equal(js_need_double(&at, "i", &d, &e), ERR_OK);
    assert_true(d == 7);
    assert_int_equal(js_need_bool(&at, "b", &b, &e), ERR_OK);
    assert_int_equal(js_need_string(&at, "s", &s, &e), ERR_OK);
    assert_int_equal(i, 7);
    assert_true(b);
    assert_string_equal(s, "x");
    assert_int_equal(js_opt_int(&at, "none", 0, 1, &i, &e), ERR_OK);
    assert_int_equal(i, 7);
    assert_int_equal(js_opt_int(&at, "z", 0, 1, &i, &e), ERR_INPUT);
    assert_int_equal(js_need_string(&at, "i", &s, &e), ERR_INPUT);
    assert_string_equal(e.text, "f.json: i: must be a string, is a whole "
                        "number");
    z = js_get(&at, "z");
    assert_true(js_is_null(&z));
    assert_non_null(z.v);
    json_decref(at.v);
}

/* A path longer than its buffer keeps its end and stays terminated. */
static void test_long_path(void **state)
{
    struct js at = js_top(NULL, "f.json");
    int i;

    (void)state;
    for (i = 0; i < 100; i++) at = js_item(&at, i);
    assert_true(strlen(at.path) < sizeof at.path);
    assert_string_equal(at.path + strlen(at.path) - 4, "[99]");
}

static void test_put(void **state)
{
    static const char want[] =
        "{\n  \"b\": [1, 2],\n  \"a\": [\n    {\n      \"x\": null\n    },\n"
        "    []\n  ],\n  \"e\": {},\n  \"s\": \"q\\\"\"\n}\n";
    struct js at = parse("{\"b\":[1,2],\"a\":[{\"x\":null},[]],\"e\":{},"
                         "\"s\":\"q\\\"\"}");
    struct buf b = BUF_INIT;

    (void)state;
    js_put(&b, at.v);
    assert_false(b.failed);
    assert_string_equal(buf_text(&b), want);
    buf_free(&b);
    json_decref(at.v);
}

static void test_text(void **state)
{
    static const char *const in[] = {"a\nb", "\xc3\xa9", "\xe9t\xe9",
                                     "\xe2\x82", "\xed\xa0\x80x"};
    static const char *const out[] = {"a\nb", "\xc3\xa9", "?t?", "??",
                                      "???x"};

    (void)state;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++) {
        json_t *v = js_text(in[i]);

        assert_string_equal(json_string_value(v), out[i]);
        json_decref(v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_json),
        cmocka_unit_test(test_too_big),
        cmocka_unit_test(test_unknown_key),
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_long_path),
        cmocka_unit_test(test_put),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
