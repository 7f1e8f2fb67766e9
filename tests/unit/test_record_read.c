/*
** Reading a run's files back: every figure that was written, and an error
** with file and line for everything that should not be there.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "record/read.h"
#include "record_fixture.h"
#include "../fuzz/folder.h"

static char *write_run(bool finished)
{
    char *dir = fixture_dir();
    const struct record_check c = {"lower-bound", 9, 7, 0, 12, "bytes"};
    struct record *r = NULL;
    struct fixture f;
    struct err e;

    assert_int_equal(record_open(dir, RECORD_REPLACE, &fixture_info, &r, &e),
                     ERR_OK);
    fixture_case(&f, "s", "one", 1000000);
    f.kase.published_after_cold = 18.2;
    f.wave[1].has_loss = true;
    f.wave[1].loss = 0.1;
    assert_int_equal(record_case(r, &f.kase, &e), ERR_OK);
    fixture_case(&f, "s", "two, quoted", 2000000);
    f.rank[0][0].peak.tag.layer = -1;
    f.estimate[1].supported = false;
    snprintf(f.estimate[1].reason, sizeof f.estimate[1].reason, "CP4");
    f.wave[1].n_rank = 0;
    f.wave[1].status = STATUS_OOM;
    assert_int_equal(record_case(r, &f.kase, &e), ERR_OK);
    assert_int_equal(record_check(r, &c, &e), ERR_OK);
    assert_int_equal(record_close(r, finished, &e), ERR_OK);
    return dir;
}

static struct record_set *read_run(const char *dir)
{
    struct record_set *s = NULL;
    struct err e;

    if (record_read(dir, &s, &e) != ERR_OK) fail_msg("%s", e.text);
    return s;
}

static void test_round_trip(void **state)
{
    char *dir = write_run(true);
    struct record_set *s = read_run(dir);
    const struct record_case *c = &s->kase[0].shape;
    struct fixture f;
    int64_t bytes;
    int i;

    (void)state;
    fixture_case(&f, "s", "one", 1000000);
    assert_int_equal(s->n_case, 2);
    assert_true(s->finished);
    assert_int_equal(s->uncommitted, 0);
    assert_string_equal(c->device, "dry");
    assert_string_equal(c->name, "one");
    assert_string_equal(c->model, "Qwen3.6-35B-A3B");
    assert_int_equal(c->tokens, 96794);
    assert_int_equal(c->attention_rows[1], 44314);
    assert_int_equal(c->gdn_rows[0], 48194);
    assert_int_equal(s->kase[1].shape.gdn_rows[1], 48600);
    assert_int_equal(s->kase[0].n_loss, 1);
    assert_int_equal(s->kase[0].loss[0].wave, 1);
    assert_true(!s->kase[0].loss[0].cold && s->kase[0].loss[0].loss == 0.1);
    assert_int_equal(s->kase[1].n_loss, 0);
    assert_true(c->published_after_cold == 18.2);
    assert_true(isnan(c->published_before_cold));
    for (i = 0; i < CAT_COUNT; i++) {
        const char *name = category_name((enum category)i);
        assert_true(record_bytes(&s->kase[0], 1, 0, "peak", name, &bytes));
        assert_int_equal(bytes, f.rank[1][0].peak.by[i]);
        assert_true(record_bytes(&s->kase[0], 0, 1, "per-rank/gdn", name,
                                 &bytes));
        assert_int_equal(bytes, f.estimate[1].rank[1].term[LAYER_GDN][i]);
        assert_true(record_bytes(&s->kase[0], 0, RECORD_MAX, "busiest-rank",
                                 name, &bytes));
        assert_int_equal(bytes, f.estimate[0].term[i]);
    }
    assert_true(record_bytes(&s->kase[0], 0, 0, "kept/attention", "total",
                             &bytes));
    assert_int_equal(bytes, f.rank[0][0].kept[LAYER_ATTENTION][CAT_ATTENTION] +
        f.rank[0][0].kept[LAYER_ATTENTION][CAT_ATTENTION_RECORDS]);
    assert_int_equal(record_peak_max(&s->kase[0], 1)->rank, 1);
    assert_null(record_peak_max(&s->kase[0], 2));
    record_set_free(s);
    fixture_remove(dir);
}

static void test_what_is_missing(void **state)
{
    char *dir = write_run(false);
    struct record_set *s = read_run(dir);
    const struct record_found *k = &s->kase[1];
    const struct record_row *r;
    int64_t bytes;

    (void)state;
    assert_false(s->finished);
    assert_string_equal(k->shape.name, "two, quoted");
    assert_int_equal(record_peak_of(k, 0, 0)->layer, -1);
    assert_int_equal(record_peak_of(k, 0, 1)->layer, 39);
    r = record_get(k, 1, RECORD_MAX, "peak", "total");
    assert_non_null(r);
    assert_false(r->measured);
    assert_int_equal(r->status, STATUS_OOM);
    assert_false(record_bytes(k, 1, RECORD_MAX, "peak", "total", &bytes));
    r = record_get(k, 0, RECORD_MAX, "per-rank", "raw");
    assert_int_equal(r->status, STATUS_REFUSED);
    assert_string_equal(r->note, "CP4");
    assert_null(record_get(k, 0, 0, "per-rank", "raw"));
    assert_int_equal(s->check[0].worst, 12);
    assert_int_equal(k->item[2].count, 2);
    assert_string_equal(k->item[2].freed_in, "");
    assert_int_equal(k->time[1].ns, 900);
    record_set_free(s);
    fixture_remove(dir);
}

/* Rewrites one file with the first occurrence of from replaced by to. */
static void edit(const char *dir, const char *name, const char *from,
                 const char *to)
{
    struct buf b = BUF_INIT, n = BUF_INIT;
    struct err e;
    char *at;

    assert_int_equal(file_read(fixture_path(dir, name), 1 << 24, &b, &e), 0);
    at = strstr(b.data, from);
    assert_non_null(at);
    buf_put(&n, b.data, (size_t)(at - b.data));
    buf_puts(&n, to);
    buf_puts(&n, at + strlen(from));
    assert_int_equal(file_write(fixture_path(dir, name), n.data, n.len, &e),
                     0);
    buf_free(&b);
    buf_free(&n);
}

static void refuse(const char *name, const char *from, const char *to,
                   const char *why)
{
    char *dir = write_run(true), want[600];
    struct record_set *s = NULL;
    struct err e;

    edit(dir, name, from, to);
    assert_int_equal(record_read(dir, &s, &e), ERR_INPUT);
    assert_null(s);
    snprintf(want, sizeof want, "%s/%s", dir, why);
    if (strncmp(e.text, want, strlen(want)) != 0)
        fail_msg("%s\nnot %s", e.text, want);
    fixture_remove(dir);
}

static void test_bad_cells(void **state)
{
    (void)state;
    refuse("records.csv", "source,term", "source,name",
           "records.csv:1: column 8 must be 'term'");
    refuse("records.csv", "peak,boundaries,", "peak,boundaries,,",
           "records.csv:2: 12 cells where the header has 11");
    refuse("records.csv", "peak,boundaries,2", "peak,boundaries,2x",
           "records.csv:2: bytes: '2x");
    refuse("records.csv", "dry,s,one,0,cold", "dry,s,one,0,luke",
           "records.csv:2: temperature: 'luke' is not cold or warm");
    refuse("records.csv", ",ok,", ",fine,",
           "records.csv:2: status: 'fine' is not a status");
    refuse("records.csv", ",0,peak", ",-2,peak", "records.csv:2: rank: '-2'");
    refuse("records.csv", ",0,peak", ",0,\"peak", "records.csv:");
    refuse("peaks.csv", "4711", "9223372036854775808",
           "peaks.csv:2: event: '9223372036854775808'");
    /* sums of what is taken fit 64 bits */
    refuse("records.csv", "peak,boundaries,", "peak,boundaries,922337203685",
           "records.csv:2: bytes: '922337203685");
    refuse("cases.csv", "52480 44314", "52480",
           "cases.csv:2: attention_rows: is not 2 numbers");
    refuse("cases.csv", "52480 44314", "52480 44314 3",
           "cases.csv:2: attention_rows: is not 2 numbers");
    refuse("cases.csv", ",18.2,", ",18.2%,",
           "cases.csv:2: published_after_cold: '18.2%' is not a number");
    refuse("cases.csv", ",40,2,2,", ",40,0,2,", "cases.csv:2: cp: '0'");
    refuse("cases.csv", "\"two, quoted\"", "one",
           "cases.csv:3: case: this case stands twice");
    refuse("checks.csv", ",9,7,", ",9,18446744073709551616,",
           "checks.csv:2: seed: '18446744073709551616'");
    refuse("timings.csv", ",plan.first,", ",,", "timings.csv:2: what: empty");
    refuse("inventory.csv", ",52480,4096.00", ",,4096.00",
           "inventory.csv:2: rows: empty");
    refuse("run.json", "\"finished\": true", "\"finished\": 1", "run.json: ");
}

/* A row more or less than its commit mark says. */
static void test_counts(void **state)
{
    (void)state;
    refuse("records.csv", "dry,s,one,0,cold,0,peak,boundaries,22800000,ok,\n",
           "", "cases.csv:2: case one has ");
    refuse("peaks.csv", "\ndry,s,one,0,cold,0,", "\ndry,s,gone,0,cold,0,",
           "cases.csv:2: case one has ");
}

static void test_missing_file(void **state)
{
    char *dir = write_run(true);
    struct record_set *s = NULL;
    struct err e;

    (void)state;
    unlink(fixture_path(dir, "peaks.csv"));
    assert_int_equal(record_read(dir, &s, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "peaks.csv: No such file"));
    fixture_remove(dir);
}

/* Every row of from is found in c, with its bytes. */
static void has_all(const struct record_found *c,
                    const struct record_found *from)
{
    int64_t i;

    assert_true(from->n_row > 100);
    for (i = 0; i < from->n_row; i++) {
        const struct record_row *want = &from->row[i];
        const struct record_row *got = record_get(c, want->wave, want->rank,
                                                  want->source, want->term);
        assert_non_null(got);
        assert_int_equal(got->bytes, want->bytes);
        if (c == from) assert_ptr_equal(got, want);
    }
    assert_null(record_get(c, -1, RECORD_MAX, "peak", "total"));
    assert_null(record_get(c, 2, RECORD_MAX, "peak", "total"));
}

/* Look-ups go straight to a wave's rows, and so in a file that somebody has
** sorted: its rows are put back in the order of waves. */
static void test_order(void **state)
{
    static const char row[] =
        "dry,s,one,0,cold,0,peak,boundaries,22800000,ok,\n";
    char *dir = write_run(true);
    struct record_set *s = read_run(dir), *sorted;
    int64_t i, end;
    FILE *f;

    (void)state;
    edit(dir, "records.csv", row, "");
    f = fopen(fixture_path(dir, "records.csv"), "a");
    assert_non_null(f);
    fputs(row, f);
    fclose(f);
    sorted = read_run(dir);
    for (i = 1; i < sorted->kase[0].n_row; i++)
        assert_true(sorted->kase[0].row[i - 1].wave
                    <= sorted->kase[0].row[i].wave);
    end = record_rows_of(&sorted->kase[0], 0, &i);
    assert_int_equal(i, 0);
    assert_string_equal(sorted->kase[0].row[end - 1].term, "boundaries");
    assert_int_equal(record_rows_of(&sorted->kase[0], 1, &i),
                     sorted->kase[0].n_row);
    assert_int_equal(i, end);
    end = record_peaks_of(&sorted->kase[0], 1, &i);
    assert_int_equal(end - i, 2);
    assert_ptr_equal(record_peak_of(&sorted->kase[0], 1, 1),
                     &sorted->kase[0].peak[end - 1]);
    has_all(&s->kase[0], &s->kase[0]);
    has_all(&sorted->kase[0], &s->kase[0]);
    record_set_free(s);
    record_set_free(sorted);
    fixture_remove(dir);
}

/* Takes the second case's mark away. */
static void cut_mark(const char *dir)
{
    struct buf b = BUF_INIT;
    struct err e;
    char *at;

    assert_int_equal(file_read(fixture_path(dir, "cases.csv"), 1 << 20, &b,
                               &e), 0);
    at = strstr(b.data, "dry,s,\"two");
    assert_int_equal(file_write(fixture_path(dir, "cases.csv"), b.data,
                                (size_t)(at - b.data), &e), 0);
    buf_free(&b);
}

/* Rows of a case without its mark: of a run that is not over they are not
** committed, of a finished one the mark is lost. */
static void test_uncommitted(void **state)
{
    char *dir = write_run(false), *over = write_run(true);
    struct record_set *s = NULL;
    struct err e;

    (void)state;
    cut_mark(over);
    assert_int_equal(record_read(over, &s, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/cases.csv: "));
    assert_non_null(strstr(e.text, " rows of the files beside it are of no "
                           "case that stands there"));
    fixture_remove(over);
    cut_mark(dir);
    s = read_run(dir);
    assert_int_equal(s->n_case, 1);
    assert_true(s->uncommitted > 0);
    assert_true(s->kase[0].n_row > 0);
    record_set_free(s);
    fixture_remove(dir);
}

/* Of the parts of a fuzz input the run that fuzz_records.c makes of them. */
static char *unpack(const char *path)
{
    char *dir = fixture_dir(), to[FOLDER_PATH];
    struct buf text = BUF_INIT, head = BUF_INIT;
    const char *p;
    struct part x;
    struct err e;
    int f;

    if (file_read(path, 1 << 20, &text, &e) != ERR_OK) fail_msg("%s", e.text);
    for (f = 0; f < RECORD_FILES; f++) {
        head.len = 0;
        record_put_header(&head, (enum record_file)f);
        folder_join(to, dir, record_file_name((enum record_file)f));
        assert_int_equal(file_write(to, head.data, head.len, &e), ERR_OK);
    }
    for (p = text.data; part_next(&p, text.data + text.len, &x);) {
        head.len = 0;
        for (f = 0; f < RECORD_FILES; f++)
            if (strcmp(x.name, record_file_name((enum record_file)f)) == 0)
                record_put_header(&head, (enum record_file)f);
        folder_put(dir, x.name, buf_text(&head), head.len, x.text, x.n, 0);
    }
    buf_free(&text);
    buf_free(&head);
    return dir;
}

/* A fuzzer that begins with rows of other columns gets no further than the
** first of them, and says nothing. */
static void test_seeds(void **state)
{
    static const char *const seed[] = {"dry", "cpu"};
    char path[80], *dir;
    struct record_set *s = NULL;
    struct err e;
    size_t i;

    (void)state;
    for (i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "tests/fuzz/corpus/records/%s", seed[i]);
        dir = unpack(path);
        if (record_read(dir, &s, &e) != ERR_OK)
            fail_msg("%s is of other columns (python3 tests/fuzz/"
                     "make_seeds.py makes it anew): %s", path, e.text);
        assert_int_equal(s->n_case, 1);
        assert_int_equal(s->uncommitted, 0);
        assert_int_equal(s->kase[0].n_row, s->kase[0].records);
        assert_int_equal(s->kase[0].n_peak, 4);
        record_set_free(s);
        fixture_remove(dir);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_what_is_missing),
        cmocka_unit_test(test_bad_cells),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test(test_order),
        cmocka_unit_test(test_uncommitted),
        cmocka_unit_test(test_seeds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
