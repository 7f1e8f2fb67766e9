/*
** Each host allocation fails once, in writing records, reading them, making
** a report and explaining a case: an error, never a crash or a leak (the
** sanitizer build sees those).
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fault.h"
#include "record/read.h"
#include "report/report.h"
#include "report_fixture.h"

enum { MOST = 20000 };

static int write_records(const char *dir)
{
    struct record *r = NULL;
    struct fixture f;
    struct err e;
    int rc = record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e);

    if (rc != ERR_OK) return rc;
    fixture_case(&f, "pr-accuracy", "real-40", 1000000);
    fixture_publish(&f, 18.2, 18.2);
    rc = record_case(r, &f.kase, &e);
    if (rc == ERR_OK) {
        fixture_case(&f, "mine", "other", 2000000);
        f.kase.n_wave = 1;
        rc = record_case(r, &f.kase, &e);
    }
    if (rc != ERR_OK) {
        (void)!record_close(r, false, &e);
        return rc;
    }
    return record_close(r, true, &e);
}

static int resume(const char *dir)
{
    struct record *r = NULL;
    struct err e;
    int rc = record_open(dir, RECORD_RESUME, &fixture_info, &r, &e);

    return rc == ERR_OK ? record_close(r, true, &e) : rc;
}

static int read_records(const char *dir)
{
    struct record_set *s = NULL;
    struct err e;
    int rc = record_read(dir, &s, &e);

    record_set_free(s);
    return rc;
}

static int write_report(const char *dir, enum report_format format)
{
    struct report_options o = {dir, "tests/golden/report/published", format,
                               false};
    struct report_said said = {BUF_INIT, BUF_INIT, false};
    struct err e;
    int rc = report_write(&o, &said, &e);

    report_said_free(&said);
    return rc;
}

static int write_md(const char *dir) { return write_report(dir, REPORT_MD); }
static int write_html(const char *dir)
{
    return write_report(dir, REPORT_HTML);
}

static int explain(const char *dir)
{
    struct buf text = BUF_INIT;
    struct err e;
    int rc = report_explain(dir, "real-40", &text, NULL, &e);

    buf_free(&text);
    return rc;
}

/* step > 1 skips some, where the same few functions allocate over and over. */
static void fail_each(int (*run)(const char *), const char *dir, size_t step)
{
    size_t n;
    int rc = ERR_RUN;

    for (n = 1; n < MOST; n += step) {
        fault_set(n);
        rc = run(dir);
        if (!fault_reached()) break;
        if (rc != ERR_OK && rc != ERR_RUN)
            fail_msg("allocation %d: code %d", (int)n, rc);
    }
    fault_set(0);
    assert_true(n > 20 && n < MOST);
    assert_int_equal(rc, ERR_OK);
}

static void test_all(void **state)
{
    char *dir = fixture_dir();

    (void)state;
    fail_each(write_records, dir, 1);
    fail_each(resume, dir, 1);
    fail_each(read_records, dir, 1);
    fail_each(write_md, dir, 3);
    fail_each(write_html, dir, 11);
    fail_each(explain, dir, 3);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
