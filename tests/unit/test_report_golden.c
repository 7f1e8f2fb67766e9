/* The report of two made-up folders, to the byte (golden_text.h). */
#include "golden_text.h"
#include "report/report.h"
#include "report_fixture.h"

#define GOLDEN "tests/golden/report/"

static void compare(const char *path, const char *golden)
{
    struct buf have = BUF_INIT;
    struct err e;

    if (file_read(path, 1 << 24, &have, &e) != ERR_OK) fail_msg("%s", e.text);
    golden_text(&have, golden);
    buf_free(&have);
}

static void write_report(const char *dir, enum report_format format,
                         struct buf *written)
{
    struct report_options o = {dir, GOLDEN "published", format, false};
    struct report_said said = {.written = BUF_INIT};
    struct err e;

    if (report_write(&o, &said, &e) != ERR_OK) fail_msg("%s", e.text);
    buf_free(&said.warning);
    buf_free(written);
    *written = said.written;
}

/* Something for every section: Markdown and the plots' files. */
static void test_full(void **state)
{
    static const char *const plots[] = {"errors.dat", "errors.gp",
        "tokens.dat", "tokens.gp", "composition.dat", "composition.gp",
        "measured.dat", "measured.gp"};
    char *dir = fixture_dir(), golden[200];
    struct buf written = BUF_INIT;
    struct err e;
    size_t i;

    (void)state;
    if (fixture_report(dir, &e) != ERR_OK) fail_msg("%s", e.text);
    write_report(dir, REPORT_MD, &written);
    compare(fixture_path(dir, "accuracy.md"), GOLDEN "full.md");
    compare(fixture_path(dir, "details.md"), GOLDEN "full-details.md");
    compare(fixture_path(dir, "timing.md"), GOLDEN "timing.md");
    for (i = 0; i < sizeof plots / sizeof *plots; i++) {
        snprintf(golden, sizeof golden, GOLDEN "%s", plots[i]);
        compare(fixture_path(dir, plots[i]), golden);
    }
    buf_free(&written);
    fixture_remove(dir);
}

/* A few cases, failed ones in their middle, in four formats: what there is
** about them, and no more. */
static void test_small(void **state)
{
    static const char *const ext[] = {"md", "csv", "json", "html"};
    char *dir = fixture_dir(), name[40], golden[200];
    struct buf written = BUF_INIT;
    struct record *r = NULL;
    struct fixture f;
    struct err e;
    int i;

    (void)state;
    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     0);
    fixture_case(&f, "mine", "first", 1000000);
    f.kase.device = "cpu";
    f.wave[0].has_loss = f.wave[1].has_loss = true;
    f.wave[0].loss = 2.5;
    f.wave[1].loss = 1.25;
    assert_int_equal(fixture_add(r, &f, &e), 0);
    fixture_case(&f, "mine", "first", 1000000);
    f.kase.model = "mine";      /* of which nothing is published */
    f.tensor[3].rank = 1;       /* rank 0 has an attention layer alone */
    assert_int_equal(fixture_add(r, &f, &e), 0);
    assert_int_equal(fixture_failed(r, "mine", &e), 0);
    fixture_case(&f, "mine", "last", 2000000);
    f.kase.n_tensor = 0;
    assert_int_equal(fixture_add(r, &f, &e), 0);
    assert_int_equal(record_close(r, false, &e), 0);
    for (i = 0; i < 4; i++) {
        written.len = 0;
        write_report(dir, (enum report_format)i, &written);
        snprintf(name, sizeof name, "accuracy.%s", ext[i]);
        snprintf(golden, sizeof golden, GOLDEN "small.%s", ext[i]);
        assert_non_null(strstr(buf_text(&written), name));
        compare(fixture_path(dir, name), golden);
    }
    compare(fixture_path(dir, "cpu.md"), GOLDEN "small-cpu.md");
    buf_free(&written);
    fixture_remove(dir);
}

/* An empty run is a report that says so, not a failure. */
static void test_empty(void **state)
{
    char *dir = fixture_dir();
    struct buf written = BUF_INIT, text = BUF_INIT;
    struct record *r = NULL;
    struct err e;

    (void)state;
    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     0);
    assert_int_equal(record_close(r, true, &e), 0);
    write_report(dir, REPORT_MD, &written);
    assert_int_equal(written.len, 0);
    assert_int_equal(file_read(fixture_path(dir, "accuracy.md"), 1 << 20,
                               &text, &e), ERR_INPUT);
    buf_free(&written);
    buf_free(&text);
    fixture_remove(dir);
}

static void explain(const char *dir, const char *name, int code,
                    const char *want)
{
    struct buf text = BUF_INIT;
    struct err e;

    e.text[0] = '\0';
    assert_int_equal(report_explain(dir, name, &text, NULL, &e), code);
    if (strstr(code ? e.text : buf_text(&text), want) == NULL)
        fail_msg("no '%s' in %s", want, code ? e.text : buf_text(&text));
    buf_free(&text);
}

static void test_explain(void **state)
{
    char *dir = fixture_dir();
    struct buf text = BUF_INIT;
    struct err e;

    (void)state;
    if (fixture_report(dir, &e) != ERR_OK) fail_msg("%s", e.text);
    if (report_explain(dir, "pr-accuracy/real-40", &text, NULL, &e) != ERR_OK)
        fail_msg("%s", e.text);
    assert_int_equal(file_write(fixture_path(dir, "explain.md"), text.data,
                                text.len, &e), 0);
    compare(fixture_path(dir, "explain.md"), GOLDEN "explain.md");
    explain(dir, "too big", ERR_OK, "No peak: oom, rank 0: 80 GB.");
    explain(dir, "a|b `c` <d>", ERR_OK, "cp is 4, not 2");
    explain(dir, "real-41", ERR_USAGE, "did you mean 'real-40'?");
    explain(dir, "zzz", ERR_USAGE, "cases.csv lists them");
    buf_free(&text);
    fixture_remove(dir);
}

/* The file has the text. */
static void has(const char *dir, const char *name, const char *want)
{
    struct buf text = BUF_INIT;
    struct err e;

    if (file_read(fixture_path(dir, name), 1 << 20, &text, &e) != ERR_OK)
        fail_msg("%s", e.text);
    if (strstr(buf_text(&text), want) == NULL)
        fail_msg("no '%s' in %s:\n%s", want, name, buf_text(&text));
    buf_free(&text);
}

/* The report of a folder that holds one case. */
static char *report_of(const char *scenario, const char *name, int64_t bytes,
                       struct buf *written)
{
    char *dir = fixture_dir();
    struct record *r = NULL;
    struct fixture f;
    struct err e;

    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     0);
    fixture_case(&f, scenario, name, bytes);
    assert_int_equal(fixture_add(r, &f, &e), 0);
    assert_int_equal(record_close(r, true, &e), 0);
    write_report(dir, REPORT_MD, written);
    return dir;
}

/* The scenario of what only a GPU can decide makes its sections by itself, as
** the command in them says. */
static void test_otherwise(void **state)
{
    struct buf written = BUF_INIT;
    char *dir = report_of("sensitivity", "share.real-40.1000", 360000000,
                          &written);

    (void)state;
    has(dir, "accuracy.md", "## What only a GPU can decide\n");
    buf_free(&written);
    fixture_remove(dir);
}

/* A reader's own estimator is in every table, picture and in explain; what
** it puts in no category is said. */
static void test_own_estimator(void **state)
{
    char *dir = fixture_dir();
    struct buf written = BUF_INIT;
    struct record *r = NULL;
    struct estimate three[3];
    struct fixture f;
    struct err e;
    int w;

    (void)state;
    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     0);
    fixture_case(&f, "s", "one", 1000000);
    f.estimate[1].supported = false;    /* what it falls back to is no bar */
    memcpy(three, f.estimate, sizeof f.estimate);
    three[2] = (struct estimate){.name = "mine_2", .supported = true,
        .priced = true, .raw = 100000000, .admitted = 110000000,
        .binding_rank = -1};
    for (w = 0; w < 2; w++) {
        f.wave[w].estimate = three;
        f.wave[w].n_estimate = 3;
    }
    assert_int_equal(fixture_add(r, &f, &e), 0);
    assert_int_equal(record_close(r, true, &e), 0);
    write_report(dir, REPORT_MD, &written);
    has(dir, "accuracy.md", " mine\\_2, raw | mine\\_2, admitted |");
    has(dir, "accuracy.md", "* `mine_2`: 1 of 1 under the peak");
    has(dir, "accuracy.md", "-56.7 % UNDER |");
    has(dir, "tokens.gp", "set title \"mine\\\\_2\"");
    has(dir, "tokens.dat", " -56.6689 1\n");
    has(dir, "errors.gp", "title \"mine\\\\_2\"");
    has(dir, "composition.dat", "0.000000 0.100000\n");
    has(dir, "composition.dat", "\"after\" ? ? ? ? ? ? ? ? ? ? ?\n");
    explain(dir, "one", ERR_OK, "The most-loaded rank against `mine_2`:");
    explain(dir, "one", ERR_OK, "| in no category ");
    buf_free(&written);
    fixture_remove(dir);
}

/* Nothing that a case's name says may reach gnuplot's shell. */
static void test_plots_are_quoted(void **state)
{
    struct buf written = BUF_INIT, gp = BUF_INIT;
    char *dir = report_of("s", "`touch x` \"; \\ a_b{^}", 1000000, &written);
    struct err e;

    (void)state;
    assert_int_equal(file_read(fixture_path(dir, "errors.gp"), 1 << 20, &gp,
                               &e), 0);
    assert_null(strchr(gp.data, '`'));
    assert_non_null(strstr(gp.data, "\"?touch x? \\\"; \\\\ a\\\\_b\\\\{"
                           "\\\\^\\\\}\" 0"));
    buf_free(&written);
    buf_free(&gp);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_small), cmocka_unit_test(test_otherwise),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_explain),
        cmocka_unit_test(test_own_estimator),
        cmocka_unit_test(test_plots_are_quoted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
