/*
** A folder whose writer is killed after any of its system calls: what stands
** there afterwards is never taken for what it is not.
*/
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "record_fixture.h"

static struct record *start(const char *dir, enum record_mode mode,
                            const struct record_info *info)
{
    struct record *r = NULL;
    struct err e;

    if (record_open(dir, mode, info, &r, &e) != ERR_OK)
        fail_msg("%s", e.text);
    return r;
}

static void stop(struct record *r)
{
    struct err e;

    if (record_close(r, true, &e) != ERR_OK) fail_msg("%s", e.text);
}

static void add(struct record *r, const char *name, enum record_status s,
                const char *note)
{
    struct fixture f;
    struct err e;

    fixture_case(&f, "s", name, 1000000);
    f.kase.status = s;
    f.kase.note = note;
    if (s != STATUS_OK) f.kase.n_wave = 0;
    if (record_case(r, &f.kase, &e) != ERR_OK) fail_msg("%s", e.text);
}

static bool has(const struct record *r, const char *name)
{
    enum record_status s;

    return record_has(r, "dry", "s", name, &s);
}

/* The child: replaces the folder and waits to be killed. */
static void replace(const char *dir, const struct record_info *info)
{
    struct record *r;
    struct err e;

    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    if (record_open(dir, RECORD_REPLACE, info, &r, &e) != ERR_OK) _exit(1);
    _exit(0);
}

/* Kills the writer at the n-th stop at a system call's start or end; false
** when it was done before. */
static bool replace_and_kill(const char *dir, const struct record_info *info,
                             int n)
{
    pid_t pid = fork();
    int status, i;

    assert_true(pid >= 0);
    if (pid == 0) replace(dir, info);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSTOPPED(status));
    for (i = 0; i < n; i++) {
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSTOPPED(status)) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            return false;
        }
    }
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return true;
}

/* Resumed under either identity, old cases count for the old one alone. */
static void test_replace_killed_anywhere(void **state)
{
    struct record_info other = fixture_info;
    char *dir = fixture_dir();
    int n, old = 0, new = 0;
    bool killed = true;

    (void)state;
    other.identity = "other settings";
    for (n = 1; killed; n++) {
        struct record *r = start(dir, RECORD_REPLACE, &fixture_info);
        struct err e;
        add(r, "one", STATUS_OK, NULL);
        stop(r);
        killed = replace_and_kill(dir, &other, n);
        if (record_open(dir, RECORD_RESUME, &other, &r, &e) == ERR_OK) {
            assert_false(has(r, "one"));
            new++;
        } else {
            assert_int_equal(e.code, ERR_USAGE);
            r = start(dir, RECORD_RESUME, &fixture_info);
            old++;
        }
        stop(r);
    }
    assert_true(old > 0 && new > 0);
    fixture_remove(dir);
}

/* RESUME runs a case again that the machine failed, and those after it; not
** one that failed by itself. APPEND keeps what is there. */
static void test_machine_failed(void **state)
{
    char *dir = fixture_dir();
    struct record *r = start(dir, RECORD_REPLACE, &fixture_info);

    (void)state;
    add(r, "one", STATUS_OK, NULL);
    add(r, "bad", STATUS_ERROR, RECORD_EXIT "3: worker.lua:3: no");
    add(r, "died", STATUS_ERROR, "worker was ended early: a, \"b\"");
    add(r, "two", STATUS_OK, NULL);
    stop(r);
    r = start(dir, RECORD_APPEND, &fixture_info);
    assert_true(has(r, "died") && has(r, "two"));
    stop(r);
    r = start(dir, RECORD_RESUME, &fixture_info);
    assert_true(has(r, "one") && has(r, "bad"));
    assert_false(has(r, "died") || has(r, "two"));
    add(r, "died", STATUS_OK, NULL);
    stop(r);
    r = start(dir, RECORD_RESUME, &fixture_info);
    assert_true(has(r, "bad") && has(r, "died"));
    stop(r);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replace_killed_anywhere),
        cmocka_unit_test(test_machine_failed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
