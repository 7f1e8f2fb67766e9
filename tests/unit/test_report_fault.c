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
#include "report/doc/render.h"
#include "report/figures.h"
#include "report/report.h"
#include "report/sections/sections.h"
#include "report_fixture.h"

#define PUBLISHED "tests/golden/report/published"

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
    struct report_options o = {dir, PUBLISHED, format,
                               false};
    struct report_said said = {.written = BUF_INIT};
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

/* What a section says, as text, when the n-th allocation fails; false when it
** notes that. */
static bool say(void (*section)(struct view *), struct view *v, size_t n,
                bool *reached, struct buf *out)
{
    struct doc d = {0};
    bool whole;

    out->len = 0;
    v->d = &d;
    fault_set(n);
    section(v);
    *reached = fault_reached();
    fault_set(0);
    whole = !d.failed;
    if (whole) render_md(&d, out);
    doc_free(&d);
    return whole;
}

/* A page without a cell or a sentence must not pass for a whole one: where a
** section does not note the failure, what it says is the same. */
static void no_loss(void (*section)(struct view *), struct view *v,
                    const char *name)
{
    struct buf want = BUF_INIT, got = BUF_INIT;
    bool reached = true;
    size_t n;

    assert_true(say(section, v, 0, &reached, &want));
    for (n = 1, reached = true; reached && n < 5000; n++)
        if (say(section, v, n, &reached, &got) &&
            strcmp(buf_text(&got), buf_text(&want)) != 0)
            fail_msg("%s: allocation %d fails unseen", name, (int)n);
    buf_free(&want);
    buf_free(&got);
}

static void test_sections(void **state)
{
#define SECTION(name) {#name, name}
    static const struct {
        const char *name;
        void (*say)(struct view *);
    } section[] = {
        SECTION(sec_result), SECTION(sec_summary), SECTION(sec_verdict),
        SECTION(sec_table), SECTION(sec_raw), SECTION(sec_ranks),
        SECTION(sec_terms), SECTION(sec_attention), SECTION(sec_measured),
        SECTION(sec_measured_short), SECTION(sec_measured_cells),
        SECTION(sec_measured_estimates), SECTION(sec_fidelity),
        SECTION(sec_allowance), SECTION(sec_random), SECTION(sec_stack),
        SECTION(sec_sensitivity), SECTION(sec_pairing),
        SECTION(sec_adapters), SECTION(sec_mirror), SECTION(sec_one_lse),
        SECTION(sec_bound), SECTION(sec_checks), SECTION(sec_fallbacks),
        SECTION(sec_inventory), SECTION(sec_cases), SECTION(sec_words),
        SECTION(sec_timing)
    };
#undef SECTION
    char *dir = fixture_dir();
    struct figures published;
    const enum picture_state drawn[PICTURE_COUNT] = {PICTURE_DRAWN};
    struct view v = {.published = &published, .picture = drawn};
    struct record_set *set = NULL;
    struct err e;
    size_t i;

    (void)state;
    if (fixture_report(dir, &e) != ERR_OK) fail_msg("%s", e.text);
    assert_int_equal(figures_load(PUBLISHED, &published, &e), ERR_OK);
    assert_int_equal(record_read(dir, &set, &e), ERR_OK);
    v.set = set;
    assert_int_equal(view_open(&v, "dry", &e), ERR_OK);
    for (i = 0; i < sizeof section / sizeof *section; i++)
        no_loss(section[i].say, &v, section[i].name);
    view_close(&v);
    record_set_free(set);
    figures_free(&published);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all), cmocka_unit_test(test_sections)
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
