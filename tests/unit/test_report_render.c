/* Cells as people see them, and one document in all four formats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/doc/render.h"

static void show(struct cell c, const char *want)
{
    struct buf b = BUF_INIT;

    cell_show(&c, &b);
    assert_string_equal(buf_text(&b), want);
    buf_free(&b);
}

static void test_cells(void **state)
{
    (void)state;
    show((struct cell){.kind = CELL_NONE}, "—");
    show((struct cell){.kind = CELL_PERCENT, .x = 12.44}, "+12.4 %");
    show((struct cell){.kind = CELL_PERCENT, .x = -0.26, .under = true},
         "-0.3 % UNDER");
    /* what rounds to zero has no sign, but under stays under */
    show((struct cell){.kind = CELL_PERCENT, .x = -0.01, .under = true},
         "0.0 % UNDER");
    show((struct cell){.kind = CELL_PERCENT, .x = 0}, "0.0 %");
    show((struct cell){.kind = CELL_BYTES, .n = 25831390943},
         "25,831,390,943");
    show((struct cell){.kind = CELL_BYTES, .n = -1000}, "-1,000");
    show((struct cell){.kind = CELL_BYTES, .n = INT64_MIN},
         "-9,223,372,036,854,775,808");
    show((struct cell){.kind = CELL_DIFF, .n = 1000}, "+1,000");
    show((struct cell){.kind = CELL_DIFF, .n = 0}, "0");
    show((struct cell){.kind = CELL_DIFF, .n = -999}, "-999");
    show((struct cell){.kind = CELL_GB, .n = 760000000}, "0.760");
    show((struct cell){.kind = CELL_DIFF_GB, .n = -760000000}, "-0.760");
    show((struct cell){.kind = CELL_DIFF_GB, .n = 400}, "0.000");
    show((struct cell){.kind = CELL_NUMBER, .x = 1.085, .decimals = 2},
         "1.08");
}

static void make(struct doc *d)
{
    struct table *t;

    doc_heading(d, 1, "top", "A_title");
    doc_para(d, "Words that are long enough to be wrapped, with `a code "
             "span`, until the line ends %s.", "here and goes on");
    doc_item(d, "one");
    doc_item(d, "two");
    doc_code(d, "run <this>");
    t = doc_table(d, "t", "name|>bytes|>error");
    doc_row(d, t);
    cell_code(d, t, "a|b `c`");
    cell_bytes(d, t, 1234567);
    cell_percent(d, t, -3.21, true);
    doc_row(d, t);
    cell_text(d, t, "<plain> *x*\n[y]");
    cell_none(d, t);
    cell_percent(d, t, NAN, false);
    doc_plot(d, "p", "A \"plot\"");
}

static void test_md(void **state)
{
    struct doc d = {0};
    struct buf b = BUF_INIT;

    (void)state;
    make(&d);
    render_md(&d, &b);
    assert_string_equal(b.data,
        "# A\\_title\n"
        "\n"
        "Words that are long enough to be wrapped, with `a code span`, until "
        "the line\nends here and goes on.\n"
        "\n"
        "* one\n"
        "* two\n"
        "\n"
        "    run <this>\n"
        "\n"
        "| name                  |     bytes |        error |\n"
        "|-----------------------|----------:|-------------:|\n"
        "| a\\|b \\`c\\`            | 1,234,567 | -3.2 % UNDER |\n"
        "| \\<plain\\> \\*x\\* \\[y\\] |         — |            — |\n"
        "\n"
        "![A \"plot\"](p.svg)\n");
    buf_free(&b);
    doc_free(&d);
}

static void test_csv(void **state)
{
    struct doc d = {0};
    struct buf b = BUF_INIT;

    (void)state;
    make(&d);
    render_csv(&d, &b);
    assert_string_equal(b.data,
        "table,row,column,value\n"
        "t,1,name,a|b `c`\nt,1,bytes,1234567\nt,1,error,-3.21\n"
        "t,2,name,\"<plain> *x*\n[y]\"\nt,2,bytes,\nt,2,error,\n");
    buf_free(&b);
    doc_free(&d);
}

static void test_html(void **state)
{
    struct doc d = {0};
    struct buf b = BUF_INIT;

    (void)state;
    make(&d);
    render_html(&d, "T&T", &b);
    assert_non_null(strstr(b.data, "<title>T&amp;T</title>"));
    assert_non_null(strstr(b.data, "<h1 id=\"top\">A_title</h1>\n"));
    assert_non_null(strstr(b.data, "<code>a code span</code>"));
    assert_non_null(strstr(b.data, "<ul>\n<li>one</li>\n<li>two</li>\n</ul>"));
    assert_non_null(strstr(b.data, "<pre>run &lt;this&gt;</pre>"));
    assert_non_null(strstr(b.data, "<td><code>a|b `c`</code></td>"
                           "<td class=\"n\">1,234,567</td>"
                           "<td class=\"n under\">-3.2 % UNDER</td>"));
    assert_non_null(strstr(b.data, "<td>&lt;plain&gt; *x*"));
    assert_non_null(strstr(b.data, "<img src=\"p.svg\" alt=\"A "
                           "&quot;plot&quot;\">"));
    buf_free(&b);
    doc_free(&d);
}

static void test_json(void **state)
{
    struct doc d = {0};
    json_t *v, *want;

    (void)state;
    make(&d);
    v = render_json(&d);
    want = json_loads("{\"format\":1,\"sections\":[{\"id\":\"top\",\"title\":"
        "\"A_title\",\"text\":[\"Words that are long enough to be wrapped, "
        "with `a code span`, until the line ends here and goes on.\",\"one\","
        "\"two\"],\"commands\":[\"run <this>\"],\"tables\":[{\"id\":\"t\","
        "\"columns\":[\"name\",\"bytes\",\"error\"],\"rows\":[[\"a|b `c`\","
        "1234567,-3.21],[\"<plain> *x*\\n[y]\",null,null]]}],\"plots\":"
        "[\"p\"]}]}", 0, NULL);
    assert_non_null(want);
    assert_true(json_equal(v, want));
    json_decref(v);
    json_decref(want);
    doc_free(&d);
}

/* Bars of a line that separate cells: those without a backslash before. */
static int bars(const char *line, size_t len)
{
    size_t i, back = 0;
    int n = 0;

    for (i = 0; i < len; i++) {
        if (line[i] == '|' && back % 2 == 0) n++;
        back = line[i] == '\\' ? back + 1 : 0;
    }
    return n;
}

/* Whatever text a cell holds, its table stays a table: one line a row, one
** bar more than columns. PEAKPROOF_SEED replays. */
static void test_any_text(void **state)
{
    static const char letters[] = "|\\`*_<>[]\n\r\"',&#ab ";
    const char *env = getenv("PEAKPROOF_SEED");
    unsigned seed = env ? (unsigned)strtoul(env, NULL, 10) : 1, x;
    int round, i, k;

    (void)state;
    for (round = 0, x = seed; round < 2000; round++) {
        struct doc d = {0};
        struct buf b = BUF_INIT;
        struct table *t = doc_table(&d, "t", "a|b");
        const char *line, *end;
        for (k = 0; k < 4; k++) {
            char text[12];
            if (k % 2 == 0) doc_row(&d, t);
            for (i = 0; i < 11; i++) {
                x = x * 1103515245u + 12345u;
                text[i] = letters[(x >> 16) % (sizeof letters - 1)];
            }
            text[(x >> 16) % 11 + 1] = '\0';
            if (k % 2) cell_code(&d, t, text);
            else cell_text(&d, t, text);
        }
        render_md(&d, &b);
        for (line = b.data, i = 0; *line != '\0'; line = end + 1, i++) {
            end = strchr(line, '\n');
            if (bars(line, (size_t)(end - line)) != 3)
                fail_msg("seed %u, round %d: %s", seed, round, b.data);
        }
        if (i != 4) fail_msg("seed %u, round %d: %s", seed, round, b.data);
        buf_free(&b);
        doc_free(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cells),
        cmocka_unit_test(test_md),
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_html),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_any_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
