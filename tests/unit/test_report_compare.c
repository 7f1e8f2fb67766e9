/* Two runs side by side: what is the same, what is not, what is missing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "report/compare.h"
#include "report_fixture.h"

/* A folder with cases a and b; more is put on a's raw estimate. */
static char *write_run(int64_t more, const char *second, bool oom)
{
    char *dir = fixture_dir();
    struct record *r = NULL;
    struct fixture f;
    struct err e;

    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     0);
    fixture_case(&f, "s", "a", 1000000);
    f.estimate[0].term[CAT_OTHER] += more;
    f.estimate[0].raw += more;
    assert_int_equal(fixture_add(r, &f, &e), 0);
    fixture_case(&f, "s", second, 2000000);
    if (oom) {
        f.wave[1].n_rank = 0;
        f.wave[1].status = STATUS_OOM;
    }
    assert_int_equal(fixture_add(r, &f, &e), 0);
    assert_int_equal(record_close(r, true, &e), 0);
    return dir;
}

/* Compares and removes both folders. */
static struct comparison compare(char *a, char *b, const char *want)
{
    struct comparison c;
    struct buf text = BUF_INIT;
    struct err e;

    if (report_compare(a, b, &text, NULL, &c, &e) != ERR_OK)
        fail_msg("%s", e.text);
    if (strstr(buf_text(&text), want) == NULL)
        fail_msg("no '%s' in\n%s", want, buf_text(&text));
    buf_free(&text);
    fixture_remove(a);
    fixture_remove(b);
    return c;
}

static void test_same(void **state)
{
    static const char want[] =
        "| c0de   | —         | —        | `peakproof run x.lua` |\n\n"
        "2 cases the same, 0 changed (0 figures";
    struct comparison c = compare(write_run(0, "b", false),
                                  write_run(0, "b", false), want);

    (void)state;
    assert_int_equal(c.same, 2);
    assert_int_equal(c.changed + c.only_old + c.only_new, 0);
}

static void test_changed(void **state)
{
    struct comparison c = compare(write_run(0, "b", false),
                                  write_run(7, "b", false),
        "| `s/a` |    0 | busiest-rank, raw | 237,077,280 | 237,077,287 |"
        "         +7 |    0.0 % |\n"
        "| `s/a` |    1 | busiest-rank, raw |");

    (void)state;
    assert_int_equal(c.same, 1);
    assert_int_equal(c.changed, 1);
}

static void test_missing(void **state)
{
    struct comparison c = compare(write_run(0, "b", false),
                                  write_run(0, "c", false),
                                  "1 only in the old\nrun, 1 only in the new.");

    (void)state;
    assert_int_equal(c.same, 1);
    assert_int_equal(c.only_old, 1);
    assert_int_equal(c.only_new, 1);
}

static void test_lost_peak(void **state)
{
    struct comparison c = compare(write_run(0, "b", false),
                                  write_run(0, "b", true),
        "| `s/b` |    1 | peak, total | 293,781,376 | oom |          — |");

    (void)state;
    assert_int_equal(c.same, 1);
    assert_int_equal(c.changed, 1);
}

static void test_json(void **state)
{
    char *a = write_run(0, "b", false);
    struct comparison c;
    json_t *v = NULL;
    struct err e;

    (void)state;
    assert_int_equal(report_compare(a, a, NULL, &v, &c, &e), ERR_OK);
    assert_true(json_is_array(json_object_get(v, "sections")));
    assert_int_equal(report_compare(a, "/nowhere", NULL, &v, &c, &e),
                     ERR_INPUT);
    json_decref(v);
    fixture_remove(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_lost_peak),
        cmocka_unit_test(test_json),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
