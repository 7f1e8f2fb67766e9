/*
** The folder of a run: any files in it are refused, or read, reported in
** every format, explained and compared (equal to themselves); continued or
** replaced, no file goes that is not the run's own. A part named as one of
** the run's CSV files holds its rows, below the header; of "raw-" and such a
** name all of its bytes.
*/
#include "folder.h"
#include "record/read.h"
#include "report/compare.h"
#include "report/report.h"
#include "run/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char run[FOLDER_PATH];

static void put_part(const struct part *x)
{
    struct buf head = BUF_INIT;
    bool raw = strncmp(x->name, "raw-", 4) == 0;

    for (int f = 0; f < RECORD_FILES && !raw; f++)
        if (strcmp(x->name, record_file_name((enum record_file)f)) == 0)
            record_put_header(&head, (enum record_file)f);
    folder_put(run, x->name + (raw ? 4 : 0), buf_text(&head), head.len,
               x->text, x->n, 0);
    buf_free(&head);
}

/* Every file of a run, the given ones not empty. */
static void put_files(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data, *end = p + size;
    struct part x;

    folder_empty(folder());
    folder_join(run, folder(), "run");
    if (mkdir(run, 0755) != 0) abort();
    for (int f = 0; f < RECORD_FILES; f++) {
        memset(&x, 0, sizeof x);
        x.text = "";
        snprintf(x.name, sizeof x.name, "%s",
                 record_file_name((enum record_file)f));
        put_part(&x);
    }
    while (part_next(&p, end, &x))
        if (strcmp(x.name, "raw-") != 0) put_part(&x);
    folder_put(folder(), "foreign", "", 0, "mine", 4, 0);
    folder_put(run, "foreign", "", 0, "mine", 4, 0);
}

static void expect_foreign(const char *dir)
{
    char path[FOLDER_PATH];
    struct stat st;

    folder_join(path, dir, "foreign");
    if (stat(path, &st) != 0 || st.st_size != 4) abort();
}

static void check_case(const struct record_found *c)
{
    struct buf text = BUF_INIT;
    json_t *v = NULL;
    struct err e;
    char name[400];

    if (c->n_row != c->records || c->n_peak != c->peaks) abort();
    for (int64_t i = 0; i < c->n_row; i++)
        if (c->row[i].rank < RECORD_MAX || c->row[i].wave < 0) abort();
    snprintf(name, sizeof name, "%.120s/%.120s/%.120s", c->shape.device,
             c->shape.scenario, c->shape.name);
    if (report_explain(run, name, &text, NULL, &e) == ERR_OK
        && report_explain(run, name, &text, &v, &e) != ERR_OK)
        abort();
    json_decref(v);
    buf_free(&text);
}

static void check_compare(int64_t cases)
{
    struct buf text = BUF_INIT;
    struct comparison n;
    struct err e;

    if (report_compare(run, run, &text, NULL, &n, &e) != ERR_OK) abort();
    if (n.same != cases || n.changed + n.only_old + n.only_new != 0) abort();
    buf_free(&text);
}

static void check_report(size_t size)
{
    struct report_options o = {
        .dir = run, .format = (enum report_format)(size & 3),
        .published = size & 4 ? "reports/published" : NULL
    };
    struct report_said said = {.written = BUF_INIT};
    struct buf text = BUF_INIT;
    struct run_summary sum;
    struct err e;

    if (report_write(&o, &said, &e) != ERR_OK) abort();
    report_said_free(&said);
    if (run_summary(run, &sum, &e) != ERR_OK) abort();
    run_summary_text(&sum, &text);
    run_summary_line(&sum, &text);
    json_decref(run_summary_json(&sum));
    run_summary_free(&sum);
    buf_free(&text);
}

static void read_all(size_t size)
{
    struct record_set *s = NULL;
    int64_t cases;
    struct err e;

    if (record_read(run, &s, &e) != ERR_OK) {
        if (e.code != ERR_INPUT || *e.text == '\0') abort();
        return;
    }
    cases = s->n_case;
    for (int64_t i = 0; i < cases && i < 3; i++) check_case(&s->kase[i]);
    record_set_free(s);
    check_report(size);
    check_compare(cases);
}

static void write_again(bool resume)
{
    struct run_request q = {.resume = resume};
    struct run_context x = {.data = "lua", .device = "dry",
                            .miss_percent = -1};
    struct scenario_set set = {NULL, 0, NULL};
    struct record *r = NULL;
    struct err e;

    if (run_folder_open(run, &q, &x, &set, &r, &e) == ERR_OK) {
        if (record_close(r, true, &e) != ERR_OK) abort();
    }
    expect_foreign(folder());
    expect_foreign(run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    put_files(data, size);
    read_all(size);
    write_again(true);
    write_again(false);
    return 0;
}
