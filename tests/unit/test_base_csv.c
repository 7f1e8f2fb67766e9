/* The CSV reader's strictness, libcsv's traps among them, and the writer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"

static struct csv_table *parse(const char *text)
{
    struct csv_table *t = NULL;
    struct err e;

    if (csv_parse_text(text, strlen(text), "a.csv", &t, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return t;
}

static void refuse(const char *text, const char *why)
{
    struct csv_table *t = NULL;
    struct err e;

    assert_int_equal(csv_parse_text(text, strlen(text), "a.csv", &t, &e),
                     ERR_INPUT);
    assert_null(t);
    assert_string_equal(e.text, why);
}

static void test_cells(void **state)
{
    struct csv_table *t = parse("a,b,c\r\n1,,\"\"\n\n"
                                " x ,\"p\nq\",\"r\"\"s\"\n");

    (void)state;
    assert_int_equal(csv_rows(t), 2);
    assert_int_equal(csv_columns(t), 3);
    assert_string_equal(csv_cell(t, 0, 0), "1");
    assert_null(csv_cell(t, 0, 1));
    assert_string_equal(csv_cell(t, 0, 2), "");
    assert_string_equal(csv_cell(t, 1, 0), "x");
    assert_string_equal(csv_cell(t, 1, 1), "p\nq");
    assert_string_equal(csv_cell(t, 1, 2), "r\"s");
    assert_int_equal(csv_line(t, 0), 2);
    assert_int_equal(csv_line(t, 1), 4);
    assert_int_equal(csv_find(t, "c"), 2);
    assert_int_equal(csv_find(t, "d"), -1);
    csv_table_free(t);
}

static void test_byte_order_mark_and_no_final_line_end(void **state)
{
    struct csv_table *t = parse("\xef\xbb\xbf" "a,b\n1,2");

    (void)state;
    assert_string_equal(csv_name(t, 0), "a");
    assert_string_equal(csv_cell(t, 0, 1), "2");
    csv_table_free(t);
}

static void test_refusals(void **state)
{
    struct csv_table *t = NULL;
    struct err e;

    (void)state;
    refuse("", "a.csv: empty (a header row is needed)");
    refuse("\n\n", "a.csv: empty (a header row is needed)");
    refuse("a,b\n1\n", "a.csv:2: 1 cells where the header has 2");
    refuse("a,b\n1,2\n1,2,3\n", "a.csv:3: 3 cells where the header has 2");
    refuse("a,b\n1,x\"y\n", "a.csv:2: a quote inside a cell (quote the whole "
           "cell and double the quote)");
    refuse("a,b\n1,\"y\n", "a.csv:2: a quote is never closed");
    refuse("a,,c\n", "a.csv:1: column 2 has no name");
    refuse("a,a\n", "a.csv:1: column 'a' stands twice");
    assert_int_equal(csv_parse_text("a\n\0\n", 4, "a.csv", &t, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv: holds a NUL byte, so it is not CSV");
    refuse("a,b\n1,\xc3\xa9\n2,\xe9\n", "a.csv:3: not UTF-8 (save the file as "
           "UTF-8)");
    assert_int_equal(csv_load("/nonexistent.csv", 0, &t, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/nonexistent.csv"));
}

static void test_numbers(void **state)
{
    struct csv_table *t = parse("n,x\n12,1.5\n,\n1.0,nan\n-1,2z\n");
    struct err e;
    int64_t n = 0;
    double x = 0;

    (void)state;
    assert_int_equal(csv_int(t, 0, 0, 0, 20, &n, &e), ERR_OK);
    assert_int_equal(n, 12);
    assert_int_equal(csv_double(t, 0, 1, &x, &e), ERR_OK);
    assert_true(x == 1.5);
    assert_int_equal(csv_int(t, 0, 0, 0, 11, &n, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:2: n: '12' is not a whole number from "
                        "0 to 11");
    assert_int_equal(csv_int(t, 1, 0, 0, 20, &n, &e), ERR_INPUT);
    assert_int_equal(csv_double(t, 1, 1, &x, &e), ERR_INPUT);
    assert_int_equal(csv_int(t, 2, 0, 0, 20, &n, &e), ERR_INPUT);
    assert_int_equal(csv_double(t, 2, 1, &x, &e), ERR_INPUT);
    assert_int_equal(csv_int(t, 3, 0, 0, 20, &n, &e), ERR_INPUT);
    assert_int_equal(csv_double(t, 3, 1, &x, &e), ERR_INPUT);
    csv_table_free(t);
}

static void test_header(void **state)
{
    static const char *const right[] = {"a", "b", NULL};
    static const char *const less[] = {"a", NULL};
    static const char *const other[] = {"a", "c", NULL};
    static const char *const near[] = {"a", "bb", NULL};
    struct csv_table *t = parse("a,b\n");
    struct err e;
    int64_t col;

    (void)state;
    assert_int_equal(csv_expect_header(t, right, &e), ERR_OK);
    assert_int_equal(csv_expect_header(t, less, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:1: unknown column 'b'");
    assert_int_equal(csv_expect_header(t, other, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:1: column 2 must be 'c' (it has a,b)");
    assert_int_equal(csv_known(t, right, &e), ERR_OK);
    assert_int_equal(csv_known(t, less, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:1: unknown column 'b' (known: a)");
    assert_int_equal(csv_known(t, near, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:1: unknown column 'b' (did you mean "
                        "'bb'?)");
    assert_int_equal(csv_column(t, "z", &col, &e), ERR_INPUT);
    assert_string_equal(e.text, "a.csv:1: no column 'z' (it has a,b)");
    csv_table_free(t);
}

/* What csv_put writes, the reader reads back, for awkward texts. */
static void test_round_trip(void **state)
{
    static const char *const text[] = {
        "plain", "", " lead", "trail ", "a,b", "q\"q", "l\nl", "\r", "\t"
    };
    enum { N = sizeof text / sizeof text[0] };
    struct buf b = BUF_INIT;
    struct csv_table *t;
    int i;

    (void)state;
    for (i = 0; i < N; i++) buf_printf(&b, "%sc%d", i ? "," : "", i);
    buf_puts(&b, ",none\n");
    for (i = 0; i < N; i++) {
        csv_put(&b, text[i]);
        buf_putc(&b, ',');
    }
    csv_put(&b, NULL);
    buf_putc(&b, '\n');
    t = parse(buf_text(&b));
    for (i = 0; i < N; i++) assert_string_equal(csv_cell(t, 0, i), text[i]);
    assert_null(csv_cell(t, 0, N));
    csv_table_free(t);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_byte_order_mark_and_no_final_line_end),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_header),
        cmocka_unit_test(test_round_trip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
