/* A case's result through a pipe: whole, or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

static void make(struct case_result *r)
{
    *r = (struct case_result){.code = ERR_OOM, .status = STATUS_OOM,
                              .outside = 3};
    strcpy(r->message, "rank 1: out of device memory");
    buf_puts(&r->rows.file[RECORD_RECORDS], "dry,a,b\n");
    buf_puts(&r->rows.file[RECORD_CASES], "dry,a,b,oom\n");
    buf_puts(&r->table, "a/b 0 cold\n");
    buf_puts(&r->json, "{}");
    buf_puts(&r->complaint, "a/b: wave 0: off\n");
    r->file = calloc(2, sizeof *r->file);
    assert_non_null(r->file);
    r->n_file = 2;
    r->file[0] = (struct run_file){.kind = RUN_MISS, .name = strdup("m.json")};
    buf_puts(&r->file[0].text, "{\"miss\":1}");
    r->file[1] = (struct run_file){.kind = RUN_SNAPSHOT,
                                   .name = strdup("s.pickle")};
    buf_put(&r->file[1].text, "\x80\0\4", 3);
}

static void assert_same_buf(const struct buf *a, const struct buf *b)
{
    assert_int_equal(a->len, b->len);
    assert_memory_equal(buf_text(a), buf_text(b), a->len);
}

static void test_round_trip(void **state)
{
    struct case_result r, back;
    struct buf b = BUF_INIT;
    struct err e;
    int i;

    (void)state;
    make(&r);
    case_result_pack(&r, &b);
    assert_false(b.failed);
    assert_int_equal(case_result_unpack(b.data, b.len, &back, &e), ERR_OK);
    assert_int_equal(back.code, ERR_OOM);
    assert_int_equal(back.status, STATUS_OOM);
    assert_int_equal(back.outside, 3);
    assert_string_equal(back.message, r.message);
    for (i = 0; i < RECORD_CASE_FILES; i++)
        assert_same_buf(&back.rows.file[i], &r.rows.file[i]);
    assert_same_buf(&back.table, &r.table);
    assert_same_buf(&back.json, &r.json);
    assert_same_buf(&back.complaint, &r.complaint);
    assert_int_equal(back.n_file, 2);
    for (i = 0; i < 2; i++) {
        assert_int_equal(back.file[i].kind, r.file[i].kind);
        assert_string_equal(back.file[i].name, r.file[i].name);
        assert_same_buf(&back.file[i].text, &r.file[i].text);
    }
    case_result_free(&back);
    case_result_free(&r);
    buf_free(&b);
}

/* A worker may die after any byte; what follows the end is wrong too. */
static void test_every_cut_is_refused(void **state)
{
    struct case_result r, back;
    struct buf b = BUF_INIT;
    struct err e;
    size_t n;

    (void)state;
    make(&r);
    case_result_pack(&r, &b);
    for (n = 0; n < b.len; n++) {
        char *exact = malloc(n + 1);
        assert_non_null(exact);
        memcpy(exact, b.data, n);
        assert_int_not_equal(case_result_unpack(exact, n, &back, &e), ERR_OK);
        free(exact);
    }
    buf_putc(&b, 'x');
    assert_int_not_equal(case_result_unpack(b.data, b.len, &back, &e), ERR_OK);
    case_result_free(&r);
    buf_free(&b);
}

/* No length, however wrong, is believed. */
static void test_wrong_lengths(void **state)
{
    static const int64_t wrong[] = {-1, INT64_MIN, INT64_MAX, 1 << 30};
    struct case_result r, back;
    struct buf b = BUF_INIT;
    struct err e;
    size_t at, i;

    (void)state;
    make(&r);
    case_result_pack(&r, &b);
    for (at = 3 * sizeof(int64_t); at + sizeof(int64_t) <= b.len; at++) {
        int64_t old;
        memcpy(&old, b.data + at, sizeof old);
        for (i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            memcpy(b.data + at, &wrong[i], sizeof old);
            if (case_result_unpack(b.data, b.len, &back, &e) == ERR_OK)
                case_result_free(&back);        /* it lay inside a text */
        }
        memcpy(b.data + at, &old, sizeof old);
    }
    assert_int_equal(case_result_unpack(b.data, b.len, &back, &e), ERR_OK);
    case_result_free(&back);
    case_result_free(&r);
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_every_cut_is_refused),
        cmocka_unit_test(test_wrong_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
