/* Whole files in and out, folders, growing byte strings, errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <sys/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clean.h"
#include "base/file.h"

static char dir[] = "/tmp/peakproof-file-XXXXXX";

static char *in_dir(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    (void)state;
    return mkdtemp(dir) == NULL;
}

static int remove_dir(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static int count_entries(void)
{
    DIR *d = opendir(dir);
    struct dirent *entry;
    int n = 0;

    assert_non_null(d);
    while ((entry = readdir(d)) != NULL) n += entry->d_name[0] != '.' ||
        strlen(entry->d_name) > 2;
    closedir(d);
    return n;
}

static void test_round_trip(void **state)
{
    static const char text[] = "a\0b\n";
    struct buf b = BUF_INIT;
    struct err e;

    (void)state;
    assert_int_equal(file_write(in_dir("f"), text, 4, &e), ERR_OK);
    assert_int_equal(file_read(in_dir("f"), 4, &b, &e), ERR_OK);
    assert_int_equal(b.len, 4);
    assert_memory_equal(b.data, text, 4);
    assert_int_equal(count_entries(), 1);
    buf_free(&b);
    assert_int_equal(file_read(in_dir("f"), 3, &b, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "larger than 3 bytes"));
    buf_free(&b);
}

static void test_failures_name_the_path(void **state)
{
    struct buf b = BUF_INIT;
    struct err e;

    (void)state;
    assert_int_equal(file_read(in_dir("none"), 9, &b, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "/none: No such file"));
    assert_int_equal(file_read(dir, 9, &b, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "Is a directory"));
    assert_int_equal(file_write(in_dir("no/f"), "x", 1, &e), ERR_RUN);
    assert_non_null(strstr(e.text, "/no/f: No such file"));
    buf_free(&b);
}

/* A FIFO without a writer would hang whoever opens it. */
static void test_only_regular_files(void **state)
{
    struct buf b = BUF_INIT;
    struct err e;

    (void)state;
    assert_int_equal(mkfifo(in_dir("x.safetensors"), 0600), 0);
    alarm(10);
    assert_int_equal(file_read(in_dir("x.safetensors"), 9, &b, &e), ERR_INPUT);
    assert_non_null(strstr(e.text, "x.safetensors: not a regular file"));
    assert_int_equal(file_read("/dev/null", 9, &b, &e), ERR_INPUT);
    alarm(0);
    unlink(in_dir("x.safetensors"));
    buf_free(&b);
}

/* Neither a link at the name nor one at the old temporary name is followed. */
static void test_links_are_not_written_through(void **state)
{
    char target[256];
    struct buf b = BUF_INIT;
    struct err e;

    (void)state;
    snprintf(target, sizeof target, "%s", in_dir("foreign"));
    assert_int_equal(file_write(target, "mine", 4, &e), ERR_OK);
    assert_int_equal(symlink(target, in_dir("link")), 0);
    assert_int_equal(symlink(target, in_dir("link.tmp")), 0);
    assert_int_equal(file_write(in_dir("link"), "other", 5, &e), ERR_OK);
    assert_int_equal(file_read(target, 9, &b, &e), ERR_OK);
    assert_string_equal(buf_text(&b), "mine");
    buf_free(&b);
    assert_int_equal(file_read(in_dir("link"), 9, &b, &e), ERR_OK);
    assert_string_equal(buf_text(&b), "other");
    buf_free(&b);
    unlink(target);
    unlink(in_dir("link"));
    unlink(in_dir("link.tmp"));
}

static void test_make_dirs(void **state)
{
    struct stat st;
    struct err e;

    (void)state;
    assert_int_equal(file_make_dirs(in_dir("a/b//c/"), &e), ERR_OK);
    assert_int_equal(file_make_dirs(in_dir("a/b/c"), &e), ERR_OK);
    assert_int_equal(stat(in_dir("a/b/c"), &st), 0);
    assert_true(S_ISDIR(st.st_mode));
    assert_int_equal(file_write(in_dir("plain"), "", 0, &e), ERR_OK);
    assert_int_equal(file_make_dirs(in_dir("plain/x"), &e), ERR_RUN);
    assert_int_equal(file_make_dirs(in_dir("plain"), &e), ERR_RUN);
}

static void test_grouped(void **state)
{
    struct buf b = BUF_INIT;

    (void)state;
    buf_put_grouped(&b, 0);
    buf_putc(&b, ' ');
    buf_put_grouped(&b, -1234);
    buf_putc(&b, ' ');
    buf_put_grouped(&b, 123456);
    buf_putc(&b, ' ');
    buf_put_grouped(&b, INT64_MIN);
    assert_string_equal(buf_text(&b),
                        "0 -1,234 123,456 -9,223,372,036,854,775,808");
    buf_free(&b);
    assert_string_equal(buf_text(&b), "");
}

static void test_errors(void **state)
{
    char longer[2000];
    struct err e;

    (void)state;
    assert_int_equal(err_set(&e, ERR_INPUT, "f:%d: x", 3), ERR_INPUT);
    assert_int_equal(err_wrap(&e, "loading %s", "s.lua"), ERR_INPUT);
    assert_string_equal(e.text, "loading s.lua: f:3: x");
    assert_int_equal(err_set(NULL, ERR_RUN, "nobody listens"), ERR_RUN);
    memset(longer, 'y', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    err_set(&e, ERR_RUN, "%s", longer);
    err_wrap(&e, "%s", longer);
    assert_true(strlen(e.text) < sizeof e.text);
    /* what is cut is still UTF-8 */
    for (size_t i = 0; i + 2 < sizeof longer; i += 2)
        memcpy(longer + i, "\xc3\xa9", 3);
    for (int shift = 0; shift < 2; shift++) {
        err_set(&e, ERR_RUN, "%s%s", shift ? "x" : "", longer);
        err_wrap(&e, "f");
        assert_int_equal(text_valid(e.text, strlen(e.text)), strlen(e.text));
        err_wrap(&e, "%s%s", shift ? "x" : "", longer);
        assert_int_equal(text_valid(e.text, strlen(e.text)), strlen(e.text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_failures_name_the_path),
        cmocka_unit_test(test_only_regular_files),
        cmocka_unit_test(test_links_are_not_written_through),
        cmocka_unit_test(test_make_dirs),
        cmocka_unit_test(test_grouped),
        cmocka_unit_test(test_errors),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
