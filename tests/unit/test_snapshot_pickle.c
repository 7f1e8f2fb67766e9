/*
** test_mem_pickle.c - every opcode the reader knows, those it refuses, and
** files that lie about lengths, order and themselves.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "snapshot/pickle.h"

static struct arena arena = ARENA_INIT;

/* Bytes of a literal, the closing NUL left out. */
#define READ(s, out, e) read_bytes(s, sizeof(s) - 1, out, e)

static int plain(const char *data, size_t len, struct pickle *out,
                 struct err *e)
{
    struct pickle_input in = {.data = data, .len = len};

    return pickle_stream(&in, "f", NULL, &arena, out, NULL, e);
}

/* Reads a copy of exactly n bytes, so that a sanitizer sees a step past it.
** The copy is freed: strings must not be looked at. */
static int read_bytes(const char *s, size_t n, struct pickle *out,
                      struct err *e)
{
    char *copy = malloc(n + (n == 0));
    int rc;

    if (n > 0) memcpy(copy, s, n);
    rc = plain(copy, n, out, e);
    free(copy);
    return rc;
}

static struct pickle value(const char *s, size_t n)
{
    struct pickle v = {0};
    struct err e = {0};
    int rc = read_bytes(s, n, &v, &e);

    if (rc != ERR_OK) print_error("%s\n", e.text);
    assert_int_equal(rc, ERR_OK);
    return v;
}
#define VALUE(s) value(s, sizeof(s) - 1)

static void refused(const char *s, size_t n, const char *why)
{
    struct pickle v;
    struct err e = {0};

    assert_int_equal(read_bytes(s, n, &v, &e), ERR_INPUT);
    if (strstr(e.text, why) == NULL) print_error("%s\n", e.text);
    assert_non_null(strstr(e.text, why));
    assert_ptr_equal(strstr(e.text, "f: "), e.text);
    assert_int_equal(read_bytes(s, n, &v, NULL), ERR_INPUT);
}
#define REFUSED(s, why) refused(s, sizeof(s) - 1, why)

static int teardown(void **state)
{
    (void)state;
    arena_free(&arena);
    return 0;
}

/* ---- values ------------------------------------------------------------- */

static void is_uint(struct pickle v, uint64_t want)
{
    assert_int_equal(v.type, PICKLE_INT);
    assert_false(v.negative);
    assert_true(v.v.u == want);
}

static void is_negative(struct pickle v, int64_t want)
{
    assert_int_equal(v.type, PICKLE_INT);
    assert_true(v.negative);
    assert_true(v.v.i == want);
}

static void test_integers(void **state)
{
    (void)state;
    is_uint(VALUE("\x80\x02K\xff."), 255);
    is_uint(VALUE("\x80\x02M\x01\xff."), 0xff01);
    is_uint(VALUE("\x80\x02J\xff\xff\xff\x7f."), 0x7fffffff);
    is_negative(VALUE("\x80\x02J\xff\xff\xff\xff."), -1);
    is_negative(VALUE("\x80\x02J\0\0\0\x80."), -2147483648LL);
    is_uint(VALUE("\x80\x02\x8a\0."), 0);
    is_uint(VALUE("\x80\x02\x8a\x06\0\0\0\0\0\x7f."), 0x7f0000000000u);
    is_negative(VALUE("\x80\x02\x8a\x01\x80."), -128);
    is_uint(VALUE("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."),
            UINT64_MAX);
    is_negative(VALUE("\x80\x02\x8a\x08\0\0\0\0\0\0\0\x80."), INT64_MIN);
    is_negative(VALUE("\x80\x02\x8a\x0a\xfe\xff\xff\xff\xff\xff\xff\xff\xff"
                      "\xff."), -2);
    is_uint(VALUE("\x80\x02\x8b\x02\0\0\0\x34\x12."), 0x1234);
    assert_int_equal(VALUE("\x80\x02\x8a\x09\0\0\0\0\0\0\0\0\x01.").type,
                     PICKLE_BIG);
    assert_int_equal(VALUE("\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\x7f"
                           "\xff.").type, PICKLE_BIG);
    REFUSED("\x80\x02\x8b\0\0\0\x80.", "ends too early");
}

static void test_other_values(void **state)
{
    struct pickle v = VALUE("\x80\x02G\x3f\xf8\0\0\0\0\0\0.");

    (void)state;
    assert_int_equal(v.type, PICKLE_FLOAT);
    assert_true(v.v.f == 1.5);
    assert_int_equal(VALUE("\x80\x02N.").type, PICKLE_NONE);
    v = VALUE("\x80\x02\x88.");
    assert_true(v.type == PICKLE_BOOL && v.v.b);
    v = VALUE("\x80\x02\x89.");
    assert_true(v.type == PICKLE_BOOL && !v.v.b);
    assert_int_equal(VALUE("\x80\x04\x8c\x02hi.").len, 2);
    assert_int_equal(VALUE("\x80\x04X\x02\0\0\0hi.").len, 2);
    assert_int_equal(VALUE("\x80\x05\x8d\x02\0\0\0\0\0\0\0hi.").len, 2);
    assert_int_equal(VALUE("\x80\x04\x95\x02\0\0\0\0\0\0\0N.").type,
                     PICKLE_NONE);
}

static void is_list(struct pickle v, enum pickle_type type, size_t n)
{
    assert_int_equal(v.type, type);
    assert_int_equal(v.v.items->n, n);
    for (size_t i = 0; i < n; i++) is_uint(v.v.items->u.at[i], i + 1);
}

static void test_containers(void **state)
{
    struct pickle v;

    (void)state;
    is_list(VALUE("\x80\x02]."), PICKLE_LIST, 0);
    is_list(VALUE("\x80\x02]K\x01" "a."), PICKLE_LIST, 1);
    is_list(VALUE("\x80\x02](K\x01K\x02" "e(K\x03" "eK\x04" "a(e."),
            PICKLE_LIST, 4);
    is_list(VALUE("\x80\x02(K\x01K\x02l."), PICKLE_LIST, 2);
    is_list(VALUE("\x80\x02)."), PICKLE_TUPLE, 0);
    is_list(VALUE("\x80\x02K\x01\x85."), PICKLE_TUPLE, 1);
    is_list(VALUE("\x80\x02K\x01K\x02\x86."), PICKLE_TUPLE, 2);
    is_list(VALUE("\x80\x02K\x01K\x02K\x03\x87."), PICKLE_TUPLE, 3);
    is_list(VALUE("\x80\x02(K\x01K\x02K\x03K\x04t."), PICKLE_TUPLE, 4);
    v = VALUE("\x80\x02}(K\x01K\x02K\x03K\x04u.");
    assert_int_equal(v.type, PICKLE_DICT);
    assert_int_equal(v.v.items->n, 2);
    is_uint(v.v.items->u.at[3], 4);
    v = VALUE("\x80\x02}K\x01K\x02s.");
    assert_int_equal(v.v.items->n, 1);
    v = VALUE("\x80\x02(K\x01K\x02" "d.");
    assert_int_equal(v.type, PICKLE_DICT);
}

static void test_dict_keys(void **state)
{
    static const char text[] = "\x80\x04}(\x8c\x01" "aK\x01\x8c\x01" "bK\x02"
                               "\x8c\x01" "aK\x03K\x07K\x04u.";
    struct pickle v = {0};

    (void)state;
    assert_int_equal(plain(text, sizeof text - 1, &v, NULL), ERR_OK);
    is_uint(*pickle_get(&v, "a"), 3);       /* the last one, as in Python */
    is_uint(*pickle_get(&v, "b"), 2);
    assert_null(pickle_get(&v, "c"));
    assert_null(pickle_get(&v, "ab"));
    assert_null(pickle_get(pickle_get(&v, "a"), "a"));
    assert_string_equal(pickle_type_name(&v), "a dict");
}

/* A dict with more keys than any snapshot has is never searched. */
static void test_too_many_keys(void **state)
{
    struct buf b = BUF_INIT;
    struct pickle v = {0};

    (void)state;
    buf_put(&b, "\x80\x04}(", 4);
    for (int i = 0; i <= PICKLE_KEYS; i++) buf_put(&b, "\x8c\x01kK\x01", 5);
    buf_puts(&b, "u.");
    assert_int_equal(plain(b.data, b.len, &v, NULL), ERR_OK);
    assert_null(pickle_get(&v, "k"));
    buf_free(&b);
}

/* ---- memo --------------------------------------------------------------- */

static void test_memo(void **state)
{
    struct pickle v;

    (void)state;
    is_list(VALUE("\x80\x02](K\x01q\0K\x02q\x01" "e."), PICKLE_LIST, 2);
    v = VALUE("\x80\x02]q\x01(K\x05q\x02h\x02j\x02\0\0\0e.");
    assert_int_equal(v.v.items->n, 3);
    is_uint(v.v.items->u.at[2], 5);
    v = VALUE("\x80\x04](K\x05\x94h\0e.");
    is_uint(v.v.items->u.at[1], 5);
    v = VALUE("\x80\x02K\x05r\0\0\0\0.");
    is_uint(v, 5);
    v = VALUE("\x80\x02](K\x05q\0K\x06q\0h\0e.");   /* the later one */
    is_uint(v.v.items->u.at[2], 6);
    /* one list in two places is one list */
    v = VALUE("\x80\x04]]\x94" "ah\0a.");
    assert_ptr_equal(v.v.items->u.at[0].v.items, v.v.items->u.at[1].v.items);
    REFUSED("\x80\x02h\0.", "no such memo entry");
    REFUSED("\x80\x02K\x05r\xff\xff\xff\xff.", "out of order");
    REFUSED("\x80\x02K\x05q\x02.", "out of order");
    REFUSED("\x80\x02\x94.", "stack is empty");
}

static void test_cycles(void **state)
{
    struct pickle v = VALUE("\x80\x04]\x94h\0a.");

    (void)state;
    assert_ptr_equal(v.v.items->u.at[0].v.items, v.v.items);
    v = VALUE("\x80\x04}\x94K\x01h\0s.");
    assert_ptr_equal(v.v.items->u.at[1].v.items, v.v.items);
}

/* ---- refusals ----------------------------------------------------------- */

static void test_code_is_refused(void **state)
{
    static const char *const codes[] = {
        "c", "\x93", "R", "b", "i", "o", "\x81", "\x92", "P", "Q", "\x82",
        "\x83", "\x84"
    };

    (void)state;
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        char text[] = "\x80\x04))?os\nsystem\n.";

        text[4] = codes[i][0];
        REFUSED(text, "byte 4: the pickle would make objects or run code");
    }
}

static void test_unknown_opcodes(void **state)
{
    static const char known[] = "(.}])dltaseuNKJMGXqrhjcRbioPQ";
    int unknown = 0;

    (void)state;
    for (int c = 0; c < 128; c++) {
        char text[] = "\x80\x04?....";

        if (c != 0 && strchr(known, c) != NULL) continue;
        text[2] = (char)c;
        REFUSED(text, "byte 2: an opcode that no memory snapshot uses");
        unknown++;
    }
    assert_int_equal(unknown, 128 - 29);
}

static void test_malformed(void **state)
{
    (void)state;
    refused("", 0, "not a pickle");
    REFUSED("PK\x03\x04", "not a pickle");
    REFUSED("{\"a\": 1}", "not a pickle");
    REFUSED("\x80\x01N.", "protocol is not 2 to 5");
    REFUSED("\x80\x06N.", "protocol is not 2 to 5");
    REFUSED("\x80\x02.", "more or less than one value");
    REFUSED("\x80\x02NN.", "more or less than one value");
    REFUSED("\x80\x02N(.", "more or less than one value");
    REFUSED("\x80\x02N.N", "bytes follow");
    REFUSED("\x80\x02" "e.", "no mark");
    REFUSED("\x80\x02t.", "no mark");
    REFUSED("\x80\x02(e.", "stack is empty");
    REFUSED("\x80\x02K\x01" "a.", "stack is empty");
    REFUSED("\x80\x02](K\x01" "a.", "stack is empty");  /* below a mark */
    REFUSED("\x80\x02K\x01(K\x02\x86.", "stack is empty");
    REFUSED("\x80\x02NK\x01" "a.", "neither a list nor a dict");
    REFUSED("\x80\x02](K\x01K\x02u.", "neither a list nor a dict");
    REFUSED("\x80\x02}(K\x01" "e.", "neither a list nor a dict");
    REFUSED("\x80\x02}(K\x01u.", "a key without a value");
    REFUSED("\x80\x02(K\x01" "d.", "a key without a value");
}

static void test_hostile_lengths(void **state)
{
    (void)state;
    REFUSED("\x80\x02X\xff\xff\xff\xffhi.", "ends too early");
    REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xffhi.",
            "ends too early");
    REFUSED("\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN.",
            "ends too early");
    REFUSED("\x80\x02\x8a\xff\x01.", "ends too early");
    REFUSED("\x80\x02\x8b\xff\xff\xff\xff\x01.", "ends too early");
    REFUSED("\x80\x04\x8c\x05hi.", "ends too early");
}

/* Many times the same opcode: the memory stays a multiple of the file's. */
static void many(const char *text, size_t n_text)
{
    size_t n = 1 << 20;
    char *data = malloc(2 + n * n_text);
    struct pickle v;
    struct err e;

    memcpy(data, "\x80\x04", 2);
    for (size_t i = 0; i < n; i++)
        memcpy(data + 2 + i * n_text, text, n_text);
    assert_int_equal(plain(data, 2 + n * n_text, &v, &e), ERR_INPUT);
    arena_free(&arena);
    free(data);
}

static void test_bombs(void **state)
{
    struct pickle v;
    struct err e = {0};
    char *data = malloc(1 << 20);

    (void)state;
    many("N", 1);
    many("(", 1);
    many("]", 1);
    many("]\x94", 2);
    many("(((]", 4);
    memset(data, ']', 1 << 20);
    memcpy(data, "\x80\x04", 2);
    assert_int_equal(plain(data, 1 << 20, &v, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "too much memory"));
    free(data);
}

static void test_every_truncation(void **state)
{
    static const char whole[] =
        "\x80\x04\x95\x04\0\0\0\0\0\0\0}\x94(\x8c\x01" "a\x94](K\x01M\x02\x01"
        "J\x03\0\0\0\x8a\x01\x04" "G\0\0\0\0\0\0\0\0Nh\x01" "eX\x01\0\0\0"
        "b(\x88\x89tu.";

    (void)state;
    (void)VALUE(whole);
    for (size_t n = 0; n + 1 < sizeof whole; n++) {
        struct pickle v;
        struct err e;

        assert_int_equal(read_bytes(whole, n, &v, &e), ERR_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_integers, teardown),
        cmocka_unit_test_teardown(test_other_values, teardown),
        cmocka_unit_test_teardown(test_containers, teardown),
        cmocka_unit_test_teardown(test_dict_keys, teardown),
        cmocka_unit_test_teardown(test_too_many_keys, teardown),
        cmocka_unit_test_teardown(test_memo, teardown),
        cmocka_unit_test_teardown(test_cycles, teardown),
        cmocka_unit_test_teardown(test_code_is_refused, teardown),
        cmocka_unit_test_teardown(test_unknown_opcodes, teardown),
        cmocka_unit_test_teardown(test_malformed, teardown),
        cmocka_unit_test_teardown(test_hostile_lengths, teardown),
        cmocka_unit_test_teardown(test_bombs, teardown),
        cmocka_unit_test_teardown(test_every_truncation, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
